//! The command `run`: population, run and report.
//!
//! Progress goes to standard error, and the path of the report to standard output. The exit code is that of the state
//! of the run; docs/notesbench.md lists them.

mod facts;

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bench::door::native::NativeSettings;
use bench::driver::options::RunOptions;
use bench::driver::outcome::{RunFacts, Spreads, report, title};
use bench::driver::play::{Stage, native_settings, play_run, populate};
use bench::driver::prepare::{PreparedRun, Refusal, prepare};
use bench::engine::pace::Pace;
use bench::engine::run::StopRequest;
use bench::report::directory::{ReportDirectory, directory_name};
use bench::report::model::Report;
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
use tokio::sync::watch;

use crate::arguments::Result;
use facts::MachineState;

/// Exit code for errors of the command line and of the workload file.
const INVALID_EXIT_CODE: u8 = 2;
/// Exit code for what this version, or a rule of safety, refuses.
const REFUSED_EXIT_CODE: u8 = 5;
/// Exit code of a run that was stopped.
const BROKEN_OFF_EXIT_CODE: u8 = 130;

/// Options of `run`.
///
/// Creates a data folder, starts a server on it, fills the mail files of its users, plays the workload, and writes a
/// report. Times of the options are those at speed 1.
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
    /// From the connection of one user to that of the next.
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
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let files = facts::raise_open_files();
    let needed = prepared.plan.users().saturating_add(facts::OTHER_FILES);
    if files.is_some_and(|files| files < needed) {
        return Err(format!("{needed} open files are needed, and the system permits {}", files.unwrap_or(0)).into());
    }
    let ended = runtime.block_on(play(command, &prepared, workers));
    match ended {
        Err(error) => match error.downcast_ref::<TargetError>() {
            Some(TargetError::Remote(_)) => {
                eprintln!("doublet-bench: {error}");
                Ok(ExitCode::from(REFUSED_EXIT_CODE))
            }
            _ => Err(error),
        },
        Ok(code) => Ok(code),
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

/// Starts or finds the server, plays, and ends the server that was started.
async fn play(command: &RunCommand, run: &PreparedRun, workers: usize) -> Result<ExitCode> {
    let before = MachineState::read();
    let started = wall_clock::now();
    print_progress(&title(run));
    let name = directory_name(&run.plan.workload().name, started, run.options.seed);
    let (mut server, target) = match &command.target {
        Some(path) => {
            let remote = if command.yes_load_it { RemoteHosts::Loaded } else { RemoteHosts::Refused };
            (None, file::load(path, remote)?)
        }
        None => {
            let (server, target) = start_server(command, run, &name).await?;
            (Some(server), target)
        }
    };
    let outcome = play_on(command, run, &target, server.as_mut(), (started, workers, &before)).await;
    if let Some(server) = server {
        let folder = server.folder().to_owned();
        server.stop().await;
        if command.keep {
            print_progress(&format!("the data folder is kept: {}", folder.display()));
        } else {
            fs::remove_dir_all(&folder)?;
        }
    }
    outcome
}

async fn start_server(command: &RunCommand, run: &PreparedRun, name: &str) -> Result<(StartedServer, Target)> {
    let program = match &command.server {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("doublet"),
    };
    let mut settings = Vec::new();
    if !run.plan.workload().mailbox.full_text {
        settings.push("full_text.new_mail_files=off".to_owned());
    }
    settings.extend(command.server_set.iter().cloned());
    let folder = command.folder.clone().unwrap_or_else(std::env::temp_dir).join(format!("doublet-bench-{name}"));
    print_progress(&format!("starting {} on {}", program.display(), folder.display()));
    let options = ServerOptions { program, folder, settings, users: run.plan.users() };
    Ok(StartedServer::start(options).await?)
}

/// Fills the mail files, plays, and writes the report.
async fn play_on(
    command: &RunCommand,
    run: &PreparedRun,
    target: &Target,
    mut server: Option<&mut StartedServer>,
    (started, workers, before): (base::Timestamp, usize, &MachineState),
) -> Result<ExitCode> {
    let settings = native_settings(run, target, SystemRandom::open()?);
    tokio::select! {
        filled = populate(run, &settings, print_progress) => filled?,
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            eprintln!("doublet-bench: broken off before the run; there is no report");
            return Ok(ExitCode::from(BROKEN_OFF_EXIT_CODE));
        }
    }
    let directory = ReportDirectory::create(&command.out, &run.plan.workload().name, started, run.options.seed)?;
    directory.write("workload.toml", &run.text)?;
    let configuration = server.as_ref().map(|server| server.configuration()).transpose()?;
    if let Some(configuration) = configuration {
        directory.write("server.toml", &configuration)?;
    }
    let is_started_server = server.is_some();
    let stage = Stage {
        server: server.take(),
        processes: target.processes.clone(),
        metrics: target.metrics.clone(),
        workers,
        stop: watch::channel(StopRequest::None).1,
    };
    let (outcome, record) = play_until_stopped(run, &settings, &directory, stage).await?;
    let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
    let spreads = Spreads::read(BufReader::new(fs::File::open(directory.histograms())?), &measured)?;
    let facts = RunFacts {
        started,
        command: facts::command_line(std::env::args()),
        record,
        machine: before.machine(folder_of(command)),
        memory_bytes_max: facts::memory_bytes_max(),
        is_out_of_files: false,
        has_swapped: before.has_swapped(),
        is_started_server,
        spreads,
    };
    let report = report(run, &outcome, &facts);
    directory.write_report(&report)?;
    Ok(print_result(&report, directory.path(), &outcome.end))
}

/// Plays the run. The first Ctrl-C ends it, and a second one aborts it.
async fn play_until_stopped(
    run: &PreparedRun,
    settings: &Arc<NativeSettings>,
    directory: &ReportDirectory,
    stage: Stage<'_>,
) -> Result<(bench::engine::run::Outcome<bench::driver::play::LogFile>, bench::driver::observer::RunRecord)> {
    let (sender, stop) = watch::channel(StopRequest::None);
    let stage = Stage { stop, ..stage };
    let stopping = async {
        for request in [StopRequest::CoolDown, StopRequest::AtOnce] {
            if tokio::signal::ctrl_c().await.is_err() {
                break;
            }
            print_progress("the run ends; Ctrl-C again ends it at once");
            sender.send_replace(request);
        }
        std::future::pending::<()>().await;
    };
    let log = directory.create_histograms()?;
    tokio::select! {
        played = play_run(run, settings, log, stage, print_progress) => Ok(played?),
        () = stopping => Err("the run was stopped".into()),
    }
}

fn folder_of(command: &RunCommand) -> PathBuf {
    command.folder.clone().unwrap_or_else(std::env::temp_dir)
}

fn print_progress(text: &str) {
    eprintln!("{text}");
}

/// Prints the result, and returns the exit code of the state.
fn print_result(report: &Report, path: &Path, end: &bench::engine::run::RunEnd) -> ExitCode {
    use bench::report::verdict::State;
    eprintln!("state: {} ({end:?})", report.state.name);
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
