//! The filling of mail files and other databases, and the run itself.

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;
use std::time::Duration;

use client::{ConnectOptions, Traffic};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::observer::{Counted, RunObserver, RunRecord, SessionRule};
use super::prepare::PreparedRun;
use super::users::PlanUsers;
use crate::door::choice::DoorSettings;
use crate::door::http::origin::Origin;
use crate::door::imap::ImapSettings;
use crate::door::jmap::JmapSettings;
use crate::door::line_connection::Place;
use crate::door::lite::LiteSettings;
use crate::door::mail_sending::MailSettings;
use crate::door::native::NativeSettings;
use crate::door::native::connections::Connections;
use crate::door::pop3::Pop3Settings;
use crate::door::smtp::Dialect;
use crate::door::smtp::delivery::DeliveryPool;
use crate::engine::run::{Outcome, RunError, RunSettings, StopRequest, play};
use crate::parts::Parts;
use crate::population::copies::{self, CopyError, CopyProgress};
use crate::population::fill::{FillError, FillProgress, fill, fill_databases, wait_for_indexes};
use crate::record::log::HistogramLog;
use crate::record::recorder::Recorder;
use crate::target::by_server::ByServer;
use crate::target::disk::DataDisk;
use crate::target::process::Processes;
use crate::target::server::StartedServer;
use crate::target::system_random::SystemRandom;
use crate::target::{Protocol, Target, TargetError};
use crate::workload::action::Sender;
use crate::workload::{self, Door};

/// The time between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// The file of the histograms of a run.
pub type LogFile = BufWriter<File>;

/// Returns the settings of the doors of a run. The bytes of their connections are counted by `traffic`.
///
/// # Errors
///
/// If the target has no address for the protocol of the workload.
pub fn door_settings(
    run: &PreparedRun,
    target: &Target,
    random: SystemRandom,
    traffic: &Traffic,
) -> Result<DoorSettings, TargetError> {
    match run.plan.workload().door {
        Door::Native => Ok(DoorSettings::Native(Arc::new(native_settings(run, target, random, traffic)?))),
        Door::Jmap => Ok(DoorSettings::Jmap(Arc::new(jmap_settings(run, target, random, traffic)?))),
        Door::Lite => {
            let origin = Arc::new(origin(target, Protocol::Lite, traffic)?);
            let has_filler = target.addresses.contains_key(&Protocol::Jmap);
            let filler = has_filler.then(|| jmap_settings(run, target, random, traffic)).transpose()?;
            Ok(DoorSettings::Lite(Arc::new(LiteSettings {
                origin,
                names: target.names.clone(),
                password: target.password.clone(),
                size_scale: run.options.size_scale,
                filler,
            })))
        }
        Door::Pop3 => {
            let pop3 = tls_place(target, Protocol::Pop3, traffic)?;
            let mail = mail_settings(run, target, traffic)?;
            Ok(DoorSettings::Pop3(Arc::new(Pop3Settings { pop3, mail })))
        }
        Door::Imap => {
            let imap = tls_place(target, Protocol::Imap, traffic)?;
            let mail = mail_settings(run, target, traffic)?;
            Ok(DoorSettings::Imap(Arc::new(ImapSettings { imap, mail })))
        }
        door => Err(TargetError::NoDoor(door)),
    }
}

/// Returns where a protocol with TLS from the beginning is.
fn tls_place(target: &Target, protocol: Protocol, traffic: &Traffic) -> Result<Place, TargetError> {
    Ok(Place::tls(target.address(protocol)?, &target.trust.tls(&[]), traffic))
}

/// Returns who the users are, and where they send. The target needs a service for sending only if a step sends.
fn mail_settings(run: &PreparedRun, target: &Target, traffic: &Traffic) -> Result<MailSettings, TargetError> {
    let sends = run.plan.workload().sends();
    let submission = match tls_place(target, Protocol::Submission, traffic) {
        Ok(place) => Some(place),
        Err(error) if sends.contains(&Sender::Oneself) => return Err(error),
        Err(_) => None,
    };
    let services = [(Protocol::Lmtp, Dialect::Lmtp), (Protocol::Smtp, Dialect::Smtp)];
    let mut delivery = services.into_iter().filter_map(|(protocol, dialect)| {
        let place = Place::unencrypted(target.address(protocol).ok()?, traffic);
        Some(DeliveryPool::new(place, dialect))
    });
    let delivery = delivery.next();
    if delivery.is_none() && sends.contains(&Sender::Random) {
        return Err(TargetError::NoAddress(Protocol::Lmtp.word()));
    }
    Ok(MailSettings {
        submission,
        delivery,
        names: target.names.clone(),
        password: target.password.clone(),
        size_scale: run.options.size_scale,
    })
}

/// Returns the settings of the native protocol, also for what the driver does beside the users.
///
/// # Errors
///
/// If the target has no address for it.
pub fn native_settings(
    run: &PreparedRun,
    target: &Target,
    random: SystemRandom,
    traffic: &Traffic,
) -> Result<NativeSettings, TargetError> {
    let address = target.address(Protocol::Native)?;
    let options = ConnectOptions {
        compression: run.plan.workload().native.compression,
        call_time_max: Some(run.options.time_limit),
        traffic: traffic.clone(),
        ..ConnectOptions::new(address, target.trust.clone())
    };
    Ok(NativeSettings {
        plan: Arc::clone(&run.plan),
        options,
        names: target.names.clone(),
        password: target.password.clone(),
        size_scale: run.options.size_scale,
        connections: Connections::new(run.options.users_per_connection, &run.options.source_addresses),
        random,
        journal: None,
    })
}

fn jmap_settings(
    run: &PreparedRun,
    target: &Target,
    random: SystemRandom,
    traffic: &Traffic,
) -> Result<JmapSettings, TargetError> {
    let has_native = target.addresses.contains_key(&Protocol::Native);
    let creator = has_native.then(|| native_settings(run, target, random, traffic)).transpose()?;
    Ok(JmapSettings {
        origin: Arc::new(origin(target, Protocol::Jmap, traffic)?),
        names: target.names.clone(),
        password: target.password.clone(),
        size_scale: run.options.size_scale,
        creator: creator.map(Arc::new),
    })
}

/// Returns the server of a protocol over HTTPS.
fn origin(target: &Target, protocol: Protocol, traffic: &Traffic) -> Result<Origin, TargetError> {
    let address = target.address(protocol)?;
    Origin::new(address, &target.trust, traffic).ok_or_else(|| TargetError::NotAnAddress(address.to_owned()))
}

/// Lets the servers copy the mail files of the masters to those of the other users, and reports how far it is. Returns
/// the paths of all mail files.
///
/// # Errors
///
/// The first command or call that failed.
pub async fn copy_mail_files(
    run: &PreparedRun,
    servers: &ByServer<StartedServer>,
    settings: &ByServer<Arc<NativeSettings>>,
    report: fn(&str),
) -> Result<Vec<String>, CopyError> {
    let files = &run.mail_files;
    let paths = copies::paths(settings, files.users).await?;
    let left = files.users - files.masters;
    if left == 0 {
        return Ok(paths);
    }
    report(&format!("copying {} mail files to those of {left} users", files.masters));
    let progress = Arc::new(CopyProgress::default());
    let line = || {
        let [copied, changed] = progress.counts();
        format!("{copied} of {left} mail files are copied, and {changed} changed")
    };
    report_while(copies::copy(servers, settings, files, &paths, &progress), || report(&line())).await?;
    Ok(paths)
}

/// Creates the mail files and databases that do not exist, fills them, and reports how far it is.
///
/// # Errors
///
/// The first call that failed.
pub async fn populate(run: &PreparedRun, settings: &ByServer<DoorSettings>, report: fn(&str)) -> Result<(), FillError> {
    let files = &run.mail_files;
    let kind = if run.plan.workload().door == Door::Native { "documents" } else { "messages" };
    report(&match files.all_documents() {
        0 => format!("looking whether the {} users have mail files", files.users),
        documents => format!("filling {} mail files with {documents} {kind} each", files.masters),
    });
    let progress = Arc::new(FillProgress::default());
    let line = || format!("{} of {} mail files are filled", progress.filled(), files.masters);
    report_while(fill(settings, files, run.options.time_limit, &progress), || report(&line())).await?;
    populate_databases(run, settings, report).await
}

/// Waits until all mail files, copies included, have a full-text index, if the workload searches in it.
///
/// # Errors
///
/// The first call that failed.
pub async fn index_mail_files(
    run: &PreparedRun,
    settings: &ByServer<DoorSettings>,
    report: fn(&str),
) -> Result<(), FillError> {
    let Some(settings) = native_of_all(settings) else { return Ok(()) };
    let files = &run.mail_files;
    if !run.plan.workload().mailbox.full_text || files.all_documents() == 0 {
        return Ok(());
    }
    let progress = Arc::new(FillProgress::default());
    let line = || format!("{} of {} mail files have a full-text index", progress.filled(), files.users);
    report_while(wait_for_indexes(&settings, files.users, &progress), || report(&line())).await
}

/// Returns the settings of the native protocol to each server, or `None` if this is another door.
fn native_of_all(settings: &ByServer<DoorSettings>) -> Option<ByServer<Arc<NativeSettings>>> {
    settings.try_map(|settings| settings.native().cloned().ok_or(())).ok()
}

async fn populate_databases(
    run: &PreparedRun,
    settings: &ByServer<DoorSettings>,
    report: fn(&str),
) -> Result<(), FillError> {
    let Some(settings) = settings.of_first().native() else { return Ok(()) };
    for kind in &run.databases.kinds {
        let workload::Database { name, count, documents, .. } = &kind.database;
        report(&format!("creating and filling {count} databases {name} with {documents} documents each"));
    }
    let count = run.databases.files().count();
    if count == 0 {
        return Ok(());
    }
    let progress = Arc::new(FillProgress::default());
    let line = || format!("{} of {count} databases are filled", progress.filled());
    let filling = fill_databases(settings, &run.databases, run.plan.users(), &progress);
    report_while(filling, || report(&line())).await
}

/// Waits for the end of a task, and reports from time to time.
async fn report_while<T>(task: impl Future<Output = T>, report: impl Fn()) -> T {
    tokio::pin!(task);
    loop {
        tokio::select! {
            ended = &mut task => return ended,
            () = sleep(PROGRESS_INTERVAL) => report(),
        }
    }
}

/// What plays a run.
pub struct Stage<'a> {
    /// The servers, if the driver has started them.
    pub servers: &'a mut [StartedServer],
    /// The processes of the servers.
    pub processes: Vec<u32>,
    /// The host and port of `/metrics` of each server that has it.
    pub metrics: Vec<String>,
    /// The disk of the data folder.
    pub disk: DataDisk,
    /// The bytes of the users' connections.
    pub traffic: Traffic,
    /// The other parts of the run.
    pub parts: &'a mut Parts,
    /// The worker threads of the driver.
    pub workers: usize,
    /// The start signal, if the parts have agreed on one.
    pub start: Option<Instant>,
    /// Requests to end the run.
    pub stop: watch::Receiver<StopRequest>,
}

/// Runs the engine from the start signal until all users have logged out.
///
/// # Errors
///
/// If the log cannot be written.
pub async fn play_run(
    run: &PreparedRun,
    settings: &ByServer<DoorSettings>,
    log: LogFile,
    stage: Stage<'_>,
    report: fn(&str),
) -> Result<(Outcome<LogFile>, RunRecord), RunError> {
    let recorder = Recorder::new(stage.workers, HistogramLog::begin(log, run.labels.clone())?);
    let settings = settings.clone();
    let door = move |user| settings.of_user(user).door(user);
    let levels = &run.settings.levels;
    let users = PlanUsers::new(&run.plan, &run.offered, run.options.interval_us, levels, door);
    let mut record = RunRecord { disk: stage.disk, ..RunRecord::default() };
    let observer = RunObserver {
        servers: stage.servers,
        processes: stage.processes,
        metrics: stage.metrics,
        traffic: stage.traffic,
        sessions: SessionRule::of_workload(run.plan.workload()),
        parts: stage.parts,
        users: run.plan.users(),
        record: &mut record,
        progress: report,
        machine: Processes::default(),
        counted: Counted::default(),
    };
    let settings = RunSettings { start: stage.start, ..run.settings.clone() };
    let outcome = play(settings, users, recorder, observer, stage.stop).await?;
    Ok((outcome, record))
}
