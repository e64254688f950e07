//! The command `run`: population, run and report.
//!
//! Progress goes to standard error, and the path of the report to standard output. The exit code is that of the state
//! of the run; docs/notesbench.md lists them.

mod facts;

use std::convert::Infallible;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base::Timestamp;
use bench::compare::spreads::Spreads;
use bench::driver::observer::RunRecord;
use bench::driver::options::RunOptions;
use bench::driver::outcome::{RunFacts, report, samples, title};
use bench::driver::play::{LogFile, Stage, door_settings, play_run, populate};
use bench::driver::prepare::{PreparedRun, Refusal, prepare};
use bench::engine::pace::Pace;
use bench::engine::run::{Outcome, StopRequest};
use bench::report::directory::{ReportDirectory, directory_name};
use bench::report::model::Report;
use bench::report::verdict::State;
use bench::target::file::{self, RemoteHosts};
use bench::target::server::{ServerOptions, StartedServer};
use bench::target::system_random::SystemRandom;
use bench::target::{Target, TargetError};
use bench::wall_clock;
use bench::workload::finding::Finding;
use bench::workload::limits::DOCUMENTS_MAX;
use bench::workload::shipped;
use bench::workload::units::parse_duration;
use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::arguments::Result;
use facts::MachineState;

/// Exit code for errors of the command line and of the workload file.
const INVALID_EXIT_CODE: u8 = 2;
/// Exit code for what this version, or a rule of safety, refuses.
const REFUSED_EXIT_CODE: u8 = 5;

/// Options of `run`.
///
/// Creates a data folder, starts a server on it, fills the mail files of its users, plays the workload, and writes a
/// report.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    doublet-bench run n8mail --users 100 --speedup 60 --documents 20\n  \
    doublet-bench run n8mail --users 50,100 --documents 20 --size-scale 0.1 --out reports\n  \
    doublet-bench run helpdesk.toml --set busy=8 --users 200 --target server.toml\n\n\
    Exit codes: 0 valid or overloaded, 1 could not be carried out, 2 error in the command line or in the workload,\n\
    3 not steady or not valid, 4 failed, 5 refused, 130 broken off (Ctrl-C), with a report.")]
pub struct RunCommand {
    /// A shipped workload by its name in lower case, or the path of a file.
    workload: String,
    /// Sets a parameter of the workload; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The users, or those of each level in ascending order; those of the workload if missing.
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    users: Vec<u64>,
    /// Divides iterations, jitter, pauses, interval, settling and measured interval, but no time limit and no size.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speedup: f64,
    /// From the connection of one user to that of the next, at speed 1.
    #[arg(long, value_name = "DURATION", default_value = "1 s", value_parser = duration)]
    interval: Duration,
    /// Begins a pause when the answer has come, as Server.Load does.
    #[arg(long, conflicts_with = "unpaced")]
    closed: bool,
    /// Begins each step when the previous one has ended, without pauses.
    #[arg(long)]
    unpaced: bool,
    /// The seed of plan and population.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The users from which recipients are drawn.
    #[arg(long, value_name = "A-B", value_parser = range)]
    recipients: Option<[u64; 2]>,
    /// Fills each mail file with so many documents, instead of those of the workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=DOCUMENTS_MAX))]
    documents: Option<u64>,
    /// Makes messages and documents smaller by this factor, which is at most 1.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    size_scale: f64,
    /// The longest time of a step, from its real start.
    #[arg(long, value_name = "DURATION", default_value = "60 s", value_parser = duration)]
    timeout: Duration,
    /// The longest sample.
    #[arg(long, value_name = "DURATION", default_value = "10 s", value_parser = duration)]
    sample: Duration,
    /// The longest time until the steady state; default: interval × users + 3 iterations + 10 min.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    steady_limit: Option<Duration>,
    /// The longest time for the last steps.
    #[arg(long, value_name = "DURATION", default_value = "1 min", value_parser = duration)]
    cool_down: Duration,
    /// The program of the server; default: doublet beside this program.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "target")]
    server: Option<PathBuf>,
    /// A setting of the server that is started; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "target")]
    server_set: Vec<String>,
    /// The folder below which the data folder is created; default: that of the system for temporary files.
    #[arg(long, value_name = "FOLDER", conflicts_with = "target")]
    folder: Option<PathBuf>,
    /// Keeps the data folder.
    #[arg(long, conflicts_with = "target")]
    keep: bool,
    /// Drives the server that this file (TOML) describes, instead of starting one. Its users must exist; their mail
    /// files are filled nevertheless: give --documents 0 if they are filled already.
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
    /// Loads a server on another machine.
    #[arg(long)]
    yes_load_it: bool,
    /// The folder in which the directory of the report is created.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    let micros = parse_duration(text).ok_or_else(|| "not a duration such as \"500 ms\"".to_owned())?;
    Ok(Duration::from_micros(micros))
}

fn range(text: &str) -> std::result::Result<[u64; 2], String> {
    let range = text.split_once('-').and_then(|(first, last)| Some([first.parse().ok()?, last.parse().ok()?]));
    range.filter(|[first, last]| *first >= 1 && first <= last).ok_or_else(|| "not a range such as 1-1000".to_owned())
}

impl RunCommand {
    /// Returns the folder below which the data folder is created.
    fn data_folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    fn options(&self) -> RunOptions {
        RunOptions {
            set: self.set.clone(),
            users: (!self.users.is_empty()).then(|| self.users.clone()),
            seed: self.seed,
            speedup: self.speedup,
            interval_us: u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX),
            pace: match (self.closed, self.unpaced) {
                (true, _) => Pace::Closed,
                (_, true) => Pace::Unpaced,
                _ => Pace::Timetable,
            },
            recipients: self.recipients,
            documents: self.documents,
            size_scale: self.size_scale,
            time_limit: self.timeout,
            sample: self.sample,
            steady_limit: self.steady_limit,
            cool_down: self.cool_down,
        }
    }
}

/// Runs a workload.
pub fn run(command: &RunCommand) -> Result<ExitCode> {
    let text = shipped::load(&command.workload)?;
    let prepared = match prepare(&text, command.options()) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(print_refusal(&command.workload, &refusal)),
    };
    let open_files_max = facts::raise_open_files();
    let needed = prepared.plan.users().saturating_add(facts::OTHER_FILES);
    if let Some(permitted) = open_files_max.filter(|permitted| *permitted < needed) {
        return Err(format!("{needed} open files are needed, and the system permits {permitted}").into());
    }
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let ended = runtime.block_on(async {
        let session = RunSession {
            command,
            run: &prepared,
            workers,
            started: wall_clock::now(),
            before: MachineState::read(),
            open_files_max,
        };
        session.play(&mut Interrupts::new()?).await
    });
    match ended {
        Err(error) if matches!(error.downcast_ref(), Some(TargetError::Remote(_))) => {
            eprintln!("doublet-bench: {error}");
            Ok(ExitCode::from(REFUSED_EXIT_CODE))
        }
        ended => ended,
    }
}

fn print_refusal(file: &str, refusal: &Refusal) -> ExitCode {
    match refusal {
        Refusal::Findings(findings) => eprint!("{}", Finding::format_all(file, findings)),
        other => eprintln!("doublet-bench: {other}"),
    }
    let is_refused = matches!(refusal, Refusal::NotOffered(_));
    ExitCode::from(if is_refused { REFUSED_EXIT_CODE } else { INVALID_EXIT_CODE })
}

/// A run on this machine.
struct RunSession<'a> {
    command: &'a RunCommand,
    run: &'a PreparedRun,
    workers: usize,
    started: Timestamp,
    /// The machine before the run.
    before: MachineState,
    open_files_max: Option<u64>,
}

impl RunSession<'_> {
    /// Starts or finds the server, plays, and ends the server that was started.
    async fn play(&self, interrupts: &mut Interrupts) -> Result<ExitCode> {
        print_progress(&title(self.run));
        let Some(path) = &self.command.target else {
            return self.play_on_own_server(interrupts).await;
        };
        let remote = if self.command.yes_load_it { RemoteHosts::Loaded } else { RemoteHosts::Refused };
        let target = file::load(path, remote)?;
        self.play_on(&target, None, interrupts).await
    }

    async fn play_on_own_server(&self, interrupts: &mut Interrupts) -> Result<ExitCode> {
        let options = self.server_options()?;
        print_progress(&format!("starting {} on {}", options.program.display(), options.folder.display()));
        let folder = options.folder.clone();
        let (mut server, target) = tokio::select! {
            started = StartedServer::start(options) => started?,
            () = interrupts.next() => {
                fs::remove_dir_all(&folder)?;
                return Ok(broken_off_before_the_run());
            }
        };
        let ended = self.play_on(&target, Some(&mut server), interrupts).await;
        server.stop().await;
        if self.command.keep {
            print_progress(&format!("the data folder is kept: {}", folder.display()));
        } else {
            fs::remove_dir_all(&folder)?;
        }
        ended
    }

    fn server_options(&self) -> Result<ServerOptions> {
        let program = match &self.command.server {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("doublet"),
        };
        let mut settings = Vec::new();
        if !self.run.plan.workload().mailbox.full_text {
            settings.push("full_text.new_mail_files=off".to_owned());
        }
        settings.extend(self.command.server_set.iter().cloned());
        let name = directory_name(&self.run.plan.workload().name, self.started, self.run.options.seed);
        let folder = self.command.data_folder().join(format!("doublet-bench-{name}"));
        let door = self.run.plan.workload().door;
        Ok(ServerOptions { program, folder, settings, users: self.run.plan.users(), door })
    }

    /// Fills the mail files, plays, and writes the report.
    async fn play_on(
        &self,
        target: &Target,
        server: Option<&mut StartedServer>,
        interrupts: &mut Interrupts,
    ) -> Result<ExitCode> {
        let run = self.run;
        let settings = door_settings(run, target, SystemRandom::open()?)?;
        tokio::select! {
            filled = populate(run, &settings, print_progress) => filled?,
            () = interrupts.next() => return Ok(broken_off_before_the_run()),
        }
        let name = &run.plan.workload().name;
        let directory = ReportDirectory::create(&self.command.out, name, self.started, run.options.seed)?;
        directory.write("workload.toml", &run.text)?;
        let is_started_server = server.is_some();
        if let Some(server) = &server {
            directory.write("server.toml", &server.configuration()?)?;
        }
        let (sender, stop) = watch::channel(StopRequest::None);
        let stage = Stage {
            server,
            processes: target.processes.clone(),
            metrics: target.metrics.clone(),
            workers: self.workers,
            stop,
        };
        let log = directory.create_histograms()?;
        let (outcome, record) = tokio::select! {
            played = play_run(run, &settings, log, stage, print_progress) => played?,
            never = interrupts.forward(&sender) => match never {},
        };
        let facts = self.facts(&directory, &outcome, record, is_started_server)?;
        let report = report(run, &outcome, &facts);
        directory.write_report(&report, &samples(&facts.record.borders, facts.machine.cores))?;
        Ok(print_result(&report, directory.path()))
    }

    fn facts(
        &self,
        directory: &ReportDirectory,
        outcome: &Outcome<LogFile>,
        record: RunRecord,
        is_started_server: bool,
    ) -> Result<RunFacts> {
        let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
        let log = BufReader::new(fs::File::open(directory.histograms())?);
        Ok(RunFacts {
            started: self.started,
            command: facts::command_line(std::env::args()),
            is_out_of_files: self.open_files_max.is_some_and(|max| record.open_files_max >= max),
            record,
            machine: self.before.machine(self.command.data_folder()),
            memory_bytes_max: facts::memory_bytes_max(),
            has_swapped: self.before.has_swapped(),
            is_started_server,
            spreads: Spreads::read(log, &measured)?,
        })
    }
}

fn broken_off_before_the_run() -> ExitCode {
    eprintln!("doublet-bench: broken off before the run; there is no report");
    ExitCode::from(State::BrokenOff.exit_code())
}

/// The signals that end a run: Ctrl-C, and the one of `kill`. From the moment at which this exists, they do not end the
/// process, so that a server that was started is always ended.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Passes signals on to a run: the first one ends it, and further ones abort it.
    async fn forward(&mut self, sender: &watch::Sender<StopRequest>) -> Infallible {
        let mut request = StopRequest::CoolDown;
        loop {
            self.next().await;
            print_progress("the run ends; Ctrl-C again ends it at once");
            sender.send_replace(request);
            request = StopRequest::AtOnce;
        }
    }
}

fn print_progress(text: &str) {
    eprintln!("{text}");
}

/// Prints the result, and returns the exit code of the state.
fn print_result(report: &Report, path: &Path) -> ExitCode {
    eprintln!("state: {}", report.state.name);
    for remark in report.state.reasons.iter().chain(&report.state.warnings) {
        eprintln!("  {}", remark.text);
    }
    for level in report.headline.iter().flatten() {
        let mean_us = level.response.as_ref().map_or(0, |response| response.mean_us);
        let response = format!("mean response {:.1} ms", mean_us as f64 / 1_000.0);
        eprintln!("{} users: {} {:.1}, {response}", level.users, level.figure, level.notesmark);
    }
    println!("{}", path.display());
    let states = [State::Valid, State::Overloaded, State::NotValid, State::NotSteady, State::Failed, State::BrokenOff];
    let state = states.into_iter().find(|state| state.name() == report.state.name);
    ExitCode::from(state.map_or(1, State::exit_code))
}
