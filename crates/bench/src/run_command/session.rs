//! A server that is filled once, and the runs that are played against it.

use std::fs;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use base::Timestamp;
use bench::compare::spreads::Spreads;
use bench::door::StepError;
use bench::door::choice::DoorSettings;
use bench::door::native::NativeSettings;
use bench::driver::data_folder::{DataFolder, DataFolderError};
use bench::driver::forecast::Forecast;
use bench::driver::observer::RunRecord;
use bench::driver::outcome::{PartFigures, RunFacts, report, samples, title};
use bench::driver::play::{
    LogFile, Stage, copy_mail_files, door_settings, index_mail_files, native_settings, play_run, populate,
};
use bench::driver::prepare::{PreparedRun, Refusal};
use bench::engine::run::{Outcome, StopRequest};
use bench::parts::Parts;
use bench::report::directory::{ReportDirectory, directory_name};
use bench::report::model::{Report, ServerProgram};
use bench::report::samples::SampleValue;
use bench::report::verdict::State;
use bench::target::by_server::{ByServer, ServerShare};
use bench::target::cores::CoreHalves;
use bench::target::domain;
use bench::target::file::{self, RemoteHosts};
use bench::target::queue::{self, QueueState};
use bench::target::server::{ServerOptions, StartedServer};
use bench::target::system_random::SystemRandom;
use bench::target::{Target, TargetError};
use bench::wall_clock;
use client::Traffic;
use tokio::sync::watch;

use super::REFUSED_EXIT_CODE;
use super::facts::{self, MachineState};
use super::interrupts::Interrupts;
use super::options::PlayOptions;
use crate::arguments::Result;

/// The time between two looks at the queue of a server.
const QUEUE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The servers of a session.
pub struct OpenTarget {
    /// The servers.
    targets: ByServer<Target>,
    /// The processes, if the driver has started them.
    servers: Option<ByServer<StartedServer>>,
    /// The folder of those servers.
    data: Option<DataFolder>,
}

impl OpenTarget {
    /// Returns servers that have been started.
    fn of_started((servers, targets): domain::Started) -> Self {
        Self { targets, servers: Some(servers), data: None }
    }

    /// Returns the folder of the servers that the driver has started.
    pub fn folder(&self) -> Option<PathBuf> {
        std::path::absolute(self.data.as_ref()?.path()).ok()
    }

    /// Ends the servers, if the driver has started them.
    async fn stop(self) {
        for server in self.servers.into_iter().flatten() {
            server.stop().await;
        }
    }
}

/// Runs that are played on this machine.
pub struct PlaySession<'a> {
    options: &'a PlayOptions,
    filling: Filling,
    workers: usize,
    started: Timestamp,
    /// The machine before the first run.
    before: MachineState,
    /// The cores, if server and driver have different ones.
    cores: Option<CoreHalves>,
    open_files_max: Option<u64>,
    interrupts: Interrupts,
}

/// A run, and where its report goes.
#[derive(Clone, Copy)]
pub struct RunPlace<'a> {
    /// The run.
    pub run: &'a PreparedRun,
    /// The directory of its report.
    pub directory: &'a ReportDirectory,
    /// When it began.
    pub started: Timestamp,
}

/// A part of a run that has ended.
pub struct EndedRun {
    /// The run, without the verbs that the target does not have.
    pub run: PreparedRun,
    /// Its outcome.
    pub outcome: Outcome<LogFile>,
    /// What is known besides.
    pub facts: RunFacts,
}

/// Whether the mail files are filled before the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filling {
    /// They are filled.
    Filled,
    /// The coordinator of the run fills them.
    Elsewhere,
}

/// A run that has ended, with its report.
pub struct PlayedRun {
    /// Its report.
    pub report: Report,
    /// Its samples.
    pub samples: Vec<SampleValue>,
}

/// What is known when a run begins.
struct RunBegin {
    started: Timestamp,
    machine: MachineState,
    /// The data folder of the server, if it is known.
    data_folder: Option<PathBuf>,
    is_started_server: bool,
    server_program: Option<ServerProgram>,
    /// The runs that have changed the mail files before.
    runs_before: u64,
}

/// Starts or finds the servers, fills their mail files for a run, works with them, and ends those that were started.
/// Returns the exit code of the work.
pub fn begin(
    options: &PlayOptions,
    run: &PreparedRun,
    filling: Filling,
    work: impl AsyncFnOnce(&mut PlaySession<'_>, &mut OpenTarget) -> Result<ExitCode>,
) -> Result<ExitCode> {
    let open_files_max = facts::raise_open_files();
    let users = run.plan.users().div_ceil(run.options.parts.max(1));
    let connections = users.div_ceil(run.options.users_per_connection.max(1));
    let needed = connections.saturating_add(facts::OTHER_FILES);
    if let Some(permitted) = open_files_max.filter(|permitted| *permitted < needed) {
        return Err(format!("{needed} open files are needed, and the system permits {permitted}").into());
    }
    let before = MachineState::read();
    let cores = options.pin.then(CoreHalves::of_this_thread).transpose()?;
    if let Some(cores) = &cores {
        cores.bind_driver()?;
    }
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let ended = runtime.block_on(async {
        let mut session = PlaySession {
            options,
            filling,
            workers,
            started: wall_clock::now(),
            before,
            cores,
            open_files_max,
            interrupts: Interrupts::new()?,
        };
        session.work(run, work).await
    });
    match ended {
        Err(error) if is_refusal(&*error) => {
            eprintln!("doublet-bench: {error}");
            Ok(ExitCode::from(REFUSED_EXIT_CODE))
        }
        ended => ended,
    }
}

/// Returns `true` if an error is a refusal, which has an exit code of its own.
fn is_refusal(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let is_remote = matches!(error.downcast_ref(), Some(TargetError::Remote(_)));
    is_remote || matches!(error.downcast_ref(), Some(Refusal::Disk(_) | Refusal::DataFolder(_)))
}

/// Returns the refusal of a data folder, or the error if a mail file could not be read.
fn refused(error: DataFolderError) -> crate::arguments::Error {
    match error {
        DataFolderError::Manifest(error) => Refusal::DataFolder(error.to_string()).into(),
        error => error.into(),
    }
}

impl PlaySession<'_> {
    /// Returns when the session began.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// Waits until the servers of a session have sent their mail, if they tell how much there is. Returns `false` if
    /// the session is broken off before.
    pub async fn wait_for_empty_queue(&mut self, open: &OpenTarget) -> bool {
        for target in open.targets.iter() {
            match self.or_interrupted(queue::wait_until_empty(target, QUEUE_LOOK_INTERVAL)).await {
                None => return false,
                Some(QueueState::Empty) => {}
                Some(QueueState::Unknown) => print_progress("the server does not tell how much mail is in its queue"),
                Some(QueueState::Messages(count)) => {
                    print_progress(&format!("{count} messages are still in the queue"));
                }
            }
        }
        true
    }

    /// Waits for some work, or returns `None` if the session is broken off before it has ended.
    pub async fn or_interrupted<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            result = work => Some(result),
            () = self.interrupts.next() => None,
        }
    }

    /// Runs the engine, and writes its report into a directory. Returns `None` if the run is broken off before the
    /// start signal.
    pub async fn play(
        &mut self,
        run: &PreparedRun,
        open: &mut OpenTarget,
        directory: &ReportDirectory,
        started: Timestamp,
    ) -> Result<Option<PlayedRun>> {
        let place = RunPlace { run, directory, started };
        let Some(ended) = self.play_part(&place, open, &mut Parts::Alone).await? else { return Ok(None) };
        let report = report(&ended.run, &ended.outcome, &ended.facts);
        let samples = samples(&ended.facts.record.borders, ended.facts.cores.server);
        directory.write_report(&report, &samples)?;
        Ok(Some(PlayedRun { report, samples }))
    }

    /// Runs the engine for one part of a run, after all parts have joined. Returns `None` if the run is broken off
    /// before the start signal.
    pub async fn play_part(
        &mut self,
        place: &RunPlace<'_>,
        open: &mut OpenTarget,
        parts: &mut Parts,
    ) -> Result<Option<EndedRun>> {
        let RunPlace { run, directory, started } = *place;
        let traffic = Traffic::default();
        let mut settings = doors(run, open, &traffic)?;
        let journal = run.options.journal.then(|| directory.create_journal()).transpose()?.map(Arc::new);
        if let Some(journal) = &journal {
            for settings in settings.iter_mut() {
                settings.keep_journal(journal);
            }
        }
        let unusable = |error: StepError| format!("the target cannot be used: {}: {}", error.code, error.text);
        let missing = self.or_interrupted(settings.of_first().missing_verbs(run.options.time_limit)).await;
        let Some(missing) = missing else { return Ok(None) };
        let run = run.without(&missing.map_err(unusable)?);
        directory.write("workload.toml", &run.text)?;
        write_servers(open, directory).await?;
        let begin = RunBegin {
            started,
            machine: self.before.at_begin_of_run(),
            data_folder: open.targets.of_first().data_folder.clone(),
            is_started_server: open.servers.is_some(),
            server_program: match open.servers {
                Some(_) => facts::started_program(&self.server_program()?),
                None => facts::running_program(&open.targets.of_first().processes),
            },
            runs_before: open.data.as_ref().map_or(0, DataFolder::runs),
        };
        if let Some(data) = &mut open.data {
            data.begin_run()?;
        }
        let Some(start) = self.or_interrupted(parts.start()).await else { return Ok(None) };
        let start = start?;
        let (sender, stop) = watch::channel(StopRequest::None);
        // A part that has joined may be on another machine. The coordinator observes the server.
        let is_observer = !matches!(parts, Parts::Joined(_));
        let observed: &[Target] = if is_observer { &open.targets } else { &[] };
        let stage = Stage {
            servers: open.servers.as_deref_mut().unwrap_or_default(),
            processes: observed.iter().flat_map(|target| target.processes.clone()).collect(),
            metrics: observed.iter().filter_map(|target| target.metrics.clone()).collect(),
            disk: facts::data_disk(open.targets.of_first()),
            traffic,
            parts,
            workers: self.workers,
            start,
            stop,
        };
        let log = directory.create_histograms()?;
        let (outcome, record) = tokio::select! {
            played = play_run(&run, &settings, log, stage, print_progress) => played?,
            never = self.interrupts.forward(&sender) => match never {},
        };
        if let Some(Err(error)) = journal.map(|journal| journal.finish()) {
            directory.delete_journal()?;
            print_progress(&format!("the journal has gaps and is deleted: {error}"));
        }
        // The report needs descriptors that the connections of the users may have taken.
        drop(settings);
        let facts = self.facts(directory, &outcome, record, &begin)?;
        Ok(Some(EndedRun { run, outcome, facts }))
    }

    async fn work(
        &mut self,
        run: &PreparedRun,
        work: impl AsyncFnOnce(&mut Self, &mut OpenTarget) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        print_progress(&title(run));
        let Some(path) = &self.options.target else {
            return self.work_on_own_server(run, work).await;
        };
        let remote = if self.options.yes_load_it { RemoteHosts::Loaded } else { RemoteHosts::Refused };
        let targets = ByServer::one(file::load(path, remote)?);
        let mut open = OpenTarget { targets, servers: None, data: None };
        self.fill_and_work(run, &mut open, work).await
    }

    async fn work_on_own_server(
        &mut self,
        run: &PreparedRun,
        work: impl AsyncFnOnce(&mut Self, &mut OpenTarget) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        let options = self.server_options(run)?;
        let servers = run.options.servers;
        print_progress(&format!("starting {} on {}", options.program.display(), options.folder.display()));
        let path = options.folder.clone();
        if self.options.data.is_some() {
            let data = DataFolder::open(&path, &run.recipe()).map_err(refused)?;
            let Some(started) = self.or_interrupted(domain::resume(options, servers)).await else {
                return Ok(broken_off_before_the_run());
            };
            let mut open = OpenTarget { data: Some(data), ..OpenTarget::of_started(started?) };
            let ended = self.verify_and_work(run, &mut open, work).await;
            open.stop().await;
            return ended;
        }
        Forecast::of(run, &self.options.data_folder()).check_disk()?;
        // A start that does not succeed deletes the folder, if it has created it.
        let Some(started) = self.or_interrupted(domain::start(options, servers)).await else {
            return Ok(broken_off_before_the_run());
        };
        let mut open = OpenTarget::of_started(started?);
        match DataFolder::create(&path, run.recipe()) {
            Ok(data) => open.data = Some(data),
            Err(error) => {
                open.stop().await;
                // The folder is that of the servers. The error of the manifest is more important than this one.
                let _ = fs::remove_dir_all(&path);
                return Err(error.into());
            }
        }
        let ended = self.fill_folder_and_work(run, &mut open, work).await;
        let data = open.data.take();
        open.stop().await;
        let is_filled = data.as_ref().is_some_and(DataFolder::is_filled);
        if self.options.keep && !is_filled {
            print_progress("the data folder is not kept, because it was not filled to the end");
        }
        if self.options.keep && is_filled {
            print_progress(&format!("the data folder is kept: {}", path.display()));
        } else if !data.map_or(Ok(false), DataFolder::delete)? {
            print_progress(&format!("{} has other files, and is not deleted", path.display()));
        }
        ended
    }

    /// Fills a new data folder and works with it. If it is kept, its manifest says at the end what it holds.
    async fn fill_folder_and_work(
        &mut self,
        run: &PreparedRun,
        open: &mut OpenTarget,
        work: impl AsyncFnOnce(&mut Self, &mut OpenTarget) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        let settings = doors(run, open, &Traffic::default())?;
        let native = beside_users(run, open)?;
        let servers = open.servers.as_ref();
        let filled = self.or_interrupted(async {
            populate(run, &settings, print_progress).await?;
            let Some(servers) = servers else { return Ok(Vec::new()) };
            let databases = copy_mail_files(run, servers, &native, print_progress).await?;
            index_mail_files(run, &settings, print_progress).await?;
            Ok::<_, crate::arguments::Error>(databases)
        });
        let Some(databases) = filled.await else { return Ok(broken_off_before_the_run()) };
        // They hold the connections that users have shared meanwhile.
        drop((settings, native));
        if let Some(data) = &mut open.data {
            let of_run = run.databases.files().map(|file| file.path());
            data.set_databases(databases?.into_iter().chain(of_run).collect())?;
        }
        let ended = work(self, open).await;
        if self.options.keep {
            self.finish(run, open).await;
        }
        ended
    }

    /// Verifies a kept data folder and works with it. Its manifest says at the end what it holds then.
    async fn verify_and_work(
        &mut self,
        run: &PreparedRun,
        open: &mut OpenTarget,
        work: impl AsyncFnOnce(&mut Self, &mut OpenTarget) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        if let Some(data) = &open.data {
            let native = beside_users(run, open)?;
            match self.or_interrupted(data.verify(&native)).await {
                Some(verified) => verified.map_err(refused)?,
                None => return Ok(broken_off_before_the_run()),
            }
        }
        let ended = work(self, open).await;
        self.finish(run, open).await;
        ended
    }

    /// Writes the manifest of a data folder after a run. Without it, the folder is not used again.
    async fn finish(&mut self, run: &PreparedRun, open: &mut OpenTarget) {
        if !self.wait_for_empty_queue(open).await {
            return;
        }
        let finished = async {
            let native = beside_users(run, open)?;
            if let Some(data) = &mut open.data {
                data.finish(&native).await?;
            }
            Ok::<_, crate::arguments::Error>(())
        };
        if let Err(error) = finished.await {
            print_progress(&format!("the data folder cannot be used again: {error}"));
        }
    }

    async fn fill_and_work(
        &mut self,
        run: &PreparedRun,
        open: &mut OpenTarget,
        work: impl AsyncFnOnce(&mut Self, &mut OpenTarget) -> Result<ExitCode>,
    ) -> Result<ExitCode> {
        if self.filling == Filling::Elsewhere {
            return work(self, open).await;
        }
        let settings = doors(run, open, &Traffic::default())?;
        let filled = self.or_interrupted(async {
            populate(run, &settings, print_progress).await?;
            index_mail_files(run, &settings, print_progress).await
        });
        match filled.await {
            Some(filled) => filled?,
            None => return Ok(broken_off_before_the_run()),
        }
        // They hold the connections that users have shared meanwhile.
        drop(settings);
        work(self, open).await
    }

    fn server_program(&self) -> Result<PathBuf> {
        Ok(match &self.options.server {
            Some(program) => program.clone(),
            None => std::env::current_exe()?.with_file_name("doublet"),
        })
    }

    fn server_options(&self, run: &PreparedRun) -> Result<ServerOptions> {
        let program = self.server_program()?;
        let workload = run.plan.workload();
        let mut settings = Vec::new();
        if !workload.mailbox.full_text {
            settings.push("full_text.new_mail_files=off".to_owned());
        }
        settings.extend(self.options.server_set.iter().cloned());
        let name = directory_name(&workload.name, self.started, run.options.seed);
        let new_folder = || self.options.data_folder().join(format!("doublet-bench-{name}"));
        let folder = self.options.data.clone().unwrap_or_else(new_folder);
        let cores = self.cores.clone();
        let users = run.plan.users();
        let people = run.people();
        if people > users {
            print_progress(&format!("the directory gets {people} persons, {users} of whom are users"));
        }
        let seed = run.options.seed;
        let share = ServerShare::ALONE;
        Ok(ServerOptions { program, folder, settings, users, people, seed, door: workload.door, cores, share })
    }

    fn facts(
        &self,
        directory: &ReportDirectory,
        outcome: &Outcome<LogFile>,
        record: RunRecord,
        begin: &RunBegin,
    ) -> Result<RunFacts> {
        let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
        let log = BufReader::new(fs::File::open(directory.histograms())?);
        Ok(RunFacts {
            started: begin.started,
            command: facts::command_line(std::env::args()),
            is_out_of_files: self.open_files_max.zip(record.open_files_max).is_some_and(|(max, used)| used >= max),
            record,
            cores: facts::core_counts(self.cores.as_ref(), self.before.cores()),
            commit: facts::COMMIT,
            machine: begin.machine.machine(begin.data_folder.as_deref()),
            memory_bytes_max: facts::memory_bytes_max(),
            has_swapped: begin.machine.has_swapped(),
            is_started_server: begin.is_started_server,
            server_settings: self.options.server_set.clone(),
            server_program: begin.server_program.clone(),
            spreads: Spreads::read(log, &measured)?,
            runs_before: begin.runs_before,
            parts: PartFigures::default(),
        })
    }
}

/// Returns the settings of the doors of a run to each server.
fn doors(run: &PreparedRun, open: &OpenTarget, traffic: &Traffic) -> Result<ByServer<DoorSettings>> {
    open.targets.try_map(|target| Ok(door_settings(run, target, SystemRandom::open()?, traffic)?))
}

/// Returns the settings for what the driver does beside the users, over the native protocol.
fn beside_users(run: &PreparedRun, open: &OpenTarget) -> Result<ByServer<Arc<NativeSettings>>> {
    let traffic = Traffic::default();
    open.targets.try_map(|target| Ok(Arc::new(native_settings(run, target, SystemRandom::open()?, &traffic)?)))
}

/// Writes where the servers are, and the configuration of those that the driver has started: `target.toml` and
/// `server.toml` of the first one, `target-2.toml` and `server-2.toml` of the second one.
async fn write_servers(open: &OpenTarget, directory: &ReportDirectory) -> Result<()> {
    let name = |kind: &str, number: usize| match number {
        1 => format!("{kind}.toml"),
        number => format!("{kind}-{number}.toml"),
    };
    for (number, target) in (1..).zip(open.targets.iter()) {
        directory.write(&name("target", number), &file::describe(target))?;
    }
    for (number, server) in (1..).zip(open.servers.iter().flat_map(|servers| servers.iter())) {
        directory.write(&name("server", number), &server.configuration().await?)?;
    }
    Ok(())
}

/// Prints that a run is broken off without a report, and returns the exit code.
pub fn broken_off_before_the_run() -> ExitCode {
    eprintln!("doublet-bench: broken off before the run; there is no report");
    ExitCode::from(State::BrokenOff.exit_code())
}

fn print_progress(text: &str) {
    eprintln!("{text}");
}
