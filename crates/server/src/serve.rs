//! The running server: opens, binds and starts all parts, and ends them in order.
//!
//! Start: lock and open the data folder, load the certificate, bind every listener, write `listeners.json`, then accept
//! connections. End (SIGTERM or SIGINT): stop accepting connections, give existing ones `server.shutdown_time` to
//! finish, close the rest, end the transfers and the pools, flush changes that are only in the log, and close the
//! store. A second signal skips the waiting. SIGHUP reloads the certificate.
//!
//! The connections of each protocol have their own type of task, so that an idle IMAP connection does not take the
//! memory of the largest type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use admin::control;
use admin::request::{ConnectionRequest, ServerRequest, TlsRequest};
use admin::{self, Answer, ProgressCallback, Request};
use base::memory::{MemoryShares, ShareSizes};
use config::Config;
use instance::Instance;
use instance::certificate::CertificateFiles;
use instance::data_folder::ListenerAddress;
use instance::full_text::{self, FullTextIndexer};
use instance::memory_plan::{Machine, MemoryPlan};
use jmap::uploads::Uploads;
use notes::Identity;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use wire::{ConnectionLimits, Connections, Peer, PoolOptions, Shutdown, Stream, Tls, WorkerPool};

use crate::admin_http::{self, AdminSources};
use crate::counters::MailCounters;
use crate::jmap_backend;
use crate::limits::SHUTDOWN_WORK_TIME_MAX;
use crate::listeners::{
    self, BoundListener, ConnectionAcceptor, ListenerCounters, ListenerProbe, ListenerProtocol, ServeConnection, Socket,
};
use crate::logins::{self, Logins};
use crate::metrics;
use crate::periodic_tasks;
use crate::replication::renewal::{self, CertificateRenewal};
use crate::replication::{self, Replication};
use crate::session_registry::{DirectoryWatch, SessionRegistry};
use crate::statistics::ServerStatistics;
use crate::view_updater::{self, ViewUpdater};

mod local;
mod protocols;
mod web_routes;

pub use local::LocalServer;
use protocols::{ProtocolServices, ProtocolStatistics};

/// The error returned if the server cannot run. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data folder cannot be opened.
    #[error(transparent)]
    Instance(#[from] instance::InstanceError),
    /// The certificate cannot be loaded.
    #[error(transparent)]
    Certificate(#[from] instance::certificate::CertificateError),
    /// A listener cannot be bound.
    #[error(transparent)]
    Listen(#[from] listeners::ListenError),
    /// The file with the addresses cannot be written.
    #[error(transparent)]
    Data(#[from] instance::data_folder::DataError),
    /// The worker threads cannot be started.
    #[error(transparent)]
    Pool(#[from] wire::PoolError),
    /// The sessions of browsers cannot be opened.
    #[error("cannot open the sessions of browsers: {0}")]
    Sessions(#[source] notes::Error),
    /// The uploads of JMAP cannot be opened.
    #[error("cannot open the uploads of JMAP: {0}")]
    Uploads(#[source] notes::Error),
    /// The transfer of mail to other servers cannot be set up.
    #[error("cannot set up mail transfer: {0}")]
    Transfer(String),
    /// A basic operation of the operating system failed.
    #[error("cannot {0}: {1}")]
    System(&'static str, std::io::Error),
}

/// Runs the server on an open data folder until a signal ends it. `started` is called with the listeners when they are
/// bound.
pub fn run(instance: Instance, started: &mut dyn FnMut(&[ListenerAddress])) -> Result<(), ServeError> {
    log_memory_plan(&instance.memory_plan);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(instance.memory_plan.threads.network)
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(|error| ServeError::System("start the network threads", error))?;
    let outcome = runtime.block_on(serve(instance, started));
    runtime.shutdown_timeout(SHUTDOWN_WORK_TIME_MAX);
    outcome
}

/// Logs the division of the memory.
fn log_memory_plan(plan: &MemoryPlan) {
    tracing::info!(target: "doublet", ceiling = %plan.ceiling, parts = %plan, "divided the memory");
    if plan.exceeds_machine {
        tracing::warn!(
            target: "doublet",
            ceiling = %plan.ceiling,
            "the machine may have too little memory for this configuration; lower server.memory, limits.message_size or limits.connections"
        );
    }
}

/// Checks whether the server could start with a configuration on this machine: its memory, and the files that it names,
/// as far as this is possible without starting the server. Returns the problems found.
#[must_use]
pub fn check_files(config: &Config) -> Vec<String> {
    let data = instance::data_folder::DataFolder::new(&config.server.data);
    let mut problems = Vec::new();
    if config.tls.certificate.0.is_some() {
        let files = CertificateFiles::from_config(config, &data, &instance::server_name(config));
        problems.extend(files.load().err().map(|error| format!("tls: {error}")));
    }
    problems.extend(protocols::smart_host(config).err().map(|error| format!("router: {error}")));
    problems.extend(MemoryPlan::compute(config, Machine::current()).err().map(|error| error.to_string()));
    problems
}

async fn serve(instance: Instance, started: &mut dyn FnMut(&[ListenerAddress])) -> Result<(), ServeError> {
    let instance = Arc::new(instance);
    let files = CertificateFiles::from_config(&instance.config, &instance.data, &instance.hostname);
    let tls = Arc::new(files.load()?);
    let shutdown = Shutdown::new();
    let mut signals = Signals::new()?;
    let bound = listeners::bind_all(&instance.config.listen, &instance.data)?;
    let control = listeners::bind_local(
        ListenerProtocol::Admin,
        &instance.data.control_socket(),
        listeners::CONTROL_SOCKET_MODE,
    )?;
    listeners::write_addresses(&bound, &instance.data.listeners_file())?;
    for listener in &bound {
        tracing::info!(target: "doublet", listener = listener.protocol.name(), address = listener.address, "listening");
    }
    let address = |listener: &BoundListener| ListenerAddress {
        protocol: listener.protocol.name(),
        address: listener.address.clone(),
    };
    started(&bound.iter().map(address).collect::<Vec<_>>());
    let server = Server::new(instance, (tls, files), shutdown, None)?;
    let mut tasks = JoinSet::new();
    server.start(bound, control, &mut tasks)?;
    tracing::info!(target: "doublet", version = env!("CARGO_PKG_VERSION"), server = server.instance.hostname, "ready");
    server.wait_for_end(&mut signals).await;
    server.end(&mut signals, tasks).await;
    Ok(())
}

/// The parts of a running server.
struct Server {
    instance: Arc<Instance>,
    pool: WorkerPool,
    /// The threads that check logins, so that password hashes delay nothing else.
    login_pool: WorkerPool,
    tls: Arc<Tls>,
    files: CertificateFiles,
    shutdown: Shutdown,
    connections: Arc<Connections>,
    /// The memory for messages and calls in transit, of all protocols together.
    memory: Arc<MemoryShares>,
    traffic: BTreeMap<ListenerProtocol, Arc<ListenerCounters>>,
    sessions: Arc<SessionRegistry>,
    logins: Arc<Logins>,
    /// The logins in browsers.
    browser_sessions: Arc<http::Sessions>,
    /// The uploads of JMAP.
    uploads: Arc<Uploads>,
    mail_counters: Arc<MailCounters>,
    queued: Arc<Notify>,
    updater: Arc<ViewUpdater>,
    replication: Arc<Replication>,
    renewal: Arc<CertificateRenewal>,
    /// The person who works on a local store; `None` on a server.
    local_person: Option<Arc<Identity>>,
}

impl Server {
    fn new(
        instance: Arc<Instance>,
        (tls, files): (Arc<Tls>, CertificateFiles),
        shutdown: Shutdown,
        local_person: Option<Arc<Identity>>,
    ) -> Result<Arc<Self>, ServeError> {
        let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let options = PoolOptions {
            name: "worker".to_owned(),
            workers: instance.memory_plan.threads.workers,
            queue_max: count(instance.config.server.pool_queue),
            ..PoolOptions::default()
        };
        let pool = WorkerPool::new(&options, Arc::clone(&instance.clock))?;
        let login_pool =
            WorkerPool::new(&logins::pool_options(instance.memory_plan.threads.logins), Arc::clone(&instance.clock))?;
        let connections = Connections::new(ConnectionLimits {
            total_max: instance.memory_plan.connections_max,
            per_address_max: count(instance.config.limits.connections_per_address),
        });
        let memory = memory_shares(&instance);
        let protocols = [
            ListenerProtocol::Smtp,
            ListenerProtocol::Submission,
            ListenerProtocol::SubmissionTls,
            ListenerProtocol::Imap,
            ListenerProtocol::ImapTls,
            ListenerProtocol::Pop3,
            ListenerProtocol::Pop3Tls,
            ListenerProtocol::Native,
            ListenerProtocol::Couchdb,
            ListenerProtocol::Http,
            ListenerProtocol::Https,
            ListenerProtocol::Lmtp,
        ];
        let traffic = protocols.into_iter().map(|protocol| (protocol, Arc::default())).collect();
        let queued = Arc::new(Notify::new());
        let sessions: Arc<SessionRegistry> = Arc::default();
        let browser_sessions = admin::sessions::open(&instance).map_err(ServeError::Sessions)?;
        let uploads = jmap_backend::open_uploads(&instance).map_err(ServeError::Uploads)?;
        let logins = Logins::new(&instance, Arc::clone(&sessions), Arc::clone(&browser_sessions));
        let updater = Arc::new(ViewUpdater::new(&instance));
        let replication = Arc::new(Replication::new(&instance, files.clone(), &memory));
        let renewal = CertificateRenewal::new(&replication, &tls);
        Ok(Arc::new(Self {
            instance,
            pool,
            login_pool,
            tls,
            files,
            shutdown,
            connections,
            memory,
            traffic,
            sessions,
            logins,
            browser_sessions,
            uploads,
            mail_counters: Arc::default(),
            queued,
            updater,
            replication,
            renewal,
            local_person,
        }))
    }

    /// Starts the listeners and the background tasks.
    fn start(
        self: &Arc<Self>,
        bound: Vec<BoundListener>,
        control: BoundListener,
        running: &mut JoinSet<()>,
    ) -> Result<(), ServeError> {
        let services = ProtocolServices::new(self, &self.logins, &bound)?;
        let agent = services.transfer_agent(self)?;
        running.spawn(agent.run());
        if let Some(pushes) = services.push_delivery(self)? {
            running.spawn(pushes);
        }
        running.spawn(self.directory_watch()?.run(self.shutdown.clone()));
        if self.instance.config.full_text.update {
            running.spawn(self.full_text_task());
        }
        for task in periodic_tasks::all(&self.instance, &self.browser_sessions, &self.uploads) {
            running.spawn(periodic_tasks::run(task, Arc::clone(&self.instance), self.shutdown.clone()));
        }
        running.spawn(view_updater::run(Arc::clone(&self.updater), Arc::clone(&self.instance), self.shutdown.clone()));
        running.spawn(replication::run(Arc::clone(&self.replication), self.shutdown.clone()));
        running.spawn(renewal::run(Arc::clone(&self.renewal), self.shutdown.clone()));
        if let Socket::Unix(listener, file) = control.socket {
            let server = Arc::clone(self);
            let shutdown = self.shutdown.clone();
            running.spawn(async move {
                control::server::serve(listener, server, shutdown).await;
                drop(file);
            });
        }
        let (admin, bound): (Vec<_>, Vec<_>) =
            bound.into_iter().partition(|listener| listener.protocol == ListenerProtocol::Admin);
        let mut listeners = Vec::new();
        for listener in bound {
            let (probe, probes) = ListenerProbe::new(&listener);
            listeners.push(probe);
            let serve = services.serve(listener.protocol, self);
            running.spawn(self.create_acceptor(listener, serve, probes).run());
        }
        for listener in admin {
            self.start_admin_port(listener, (listeners.clone(), services.statistics()), running);
        }
        Ok(())
    }

    /// Returns the task that keeps the full-text indexes up to date.
    fn full_text_task(&self) -> impl Future<Output = ()> + use<> {
        let instance = &self.instance;
        let keys = &self.instance.config.full_text;
        let indexer = FullTextIndexer::new(
            Arc::clone(&instance.full_text),
            Arc::clone(&instance.databases),
            Arc::clone(&instance.clock),
        );
        full_text::run(indexer, (keys.delay.0, keys.idle_time.0), self.shutdown.clone())
    }

    /// Returns the task that ends the sessions of changed accounts.
    fn directory_watch(&self) -> Result<DirectoryWatch, ServeError> {
        let directory = &self.instance.directory;
        let server = Arc::new(Identity::local_server(directory.options().server.clone()));
        let access = directory.database().authorize(&server).map_err(directory::Error::from);
        let access = access.map_err(instance::InstanceError::from)?;
        Ok(DirectoryWatch::new(Arc::clone(&self.sessions), Arc::clone(directory), access))
    }

    fn start_admin_port(
        self: &Arc<Self>,
        bound: BoundListener,
        (listeners, ProtocolStatistics { http, native }): (Vec<ListenerProbe>, ProtocolStatistics),
        running: &mut JoinSet<()>,
    ) {
        let Socket::Tcp(listener) = bound.socket else {
            return;
        };
        let statistics = Arc::new(ServerStatistics {
            instance: Arc::clone(&self.instance),
            mail_counters: Arc::clone(&self.mail_counters),
            pool: self.pool.clone(),
            login_pool: self.login_pool.clone(),
            connections: Arc::clone(&self.connections),
            memory: Arc::clone(&self.memory),
            traffic: self.traffic.clone(),
            sessions: Arc::clone(&self.sessions),
            logins: Arc::clone(&self.logins),
            updater: Arc::clone(&self.updater),
            replication_counters: Arc::clone(&self.replication.counters),
            native,
            http,
            shutdown: self.shutdown.clone(),
            listeners,
        });
        let registry = Arc::new(metrics::registry(Arc::clone(&statistics)));
        let sources = AdminSources { status: statistics, registry };
        let shutdown = self.shutdown.clone();
        running.spawn(async move {
            if let Err(error) = admin_http::serve(listener, sources, shutdown).await {
                tracing::error!(target: "doublet", %error, "the administration listener failed");
            }
        });
    }

    fn create_acceptor(
        &self,
        bound: BoundListener,
        serve: ServeConnection,
        probes: mpsc::Receiver<listeners::Probe>,
    ) -> ConnectionAcceptor {
        let traffic = self.traffic.get(&bound.protocol).cloned().unwrap_or_default();
        let connections = Arc::clone(&self.connections);
        let shutdown = self.shutdown.clone();
        ConnectionAcceptor { bound, connections, traffic, serve, shutdown, probes }
    }

    /// Waits for the signal that ends the server. Reloads the certificate on SIGHUP.
    async fn wait_for_end(&self, signals: &mut Signals) {
        loop {
            tokio::select! {
                () = signals.end.recv() => return,
                _ = signals.reload.recv() => match self.files.reload(&self.tls) {
                    Ok(()) => tracing::info!(target: "doublet", "reloaded the certificate"),
                    Err(error) => tracing::error!(target: "doublet", %error, "cannot reload the certificate; the old one stays in use"),
                },
            }
        }
    }

    async fn end(&self, signals: &mut Signals, running: JoinSet<()>) {
        tracing::info!(target: "doublet", connections = self.connections.count(), "ending");
        self.shutdown.drain();
        let patience = self.instance.config.server.shutdown_time.0;
        tokio::select! {
            () = self.connections.wait_until_empty() => {}
            () = tokio::time::sleep(patience) => {
                tracing::warn!(target: "doublet", connections = self.connections.count(), "shutdown time is over, closing the remaining connections");
            }
            () = signals.end.recv() => tracing::warn!(target: "doublet", "second signal received, closing at once"),
        }
        self.close(running).await;
        let _ = std::fs::remove_file(self.instance.data.listeners_file());
        tracing::info!(target: "doublet", "ended");
    }

    /// Closes all connections, ends the tasks and the pools, and flushes the store.
    async fn close(&self, mut running: JoinSet<()>) {
        self.shutdown.close();
        let last_work = async {
            self.connections.wait_until_empty().await;
            while running.join_next().await.is_some() {}
        };
        if tokio::time::timeout(SHUTDOWN_WORK_TIME_MAX, last_work).await.is_err() {
            tracing::warn!(target: "doublet", "some tasks did not finish in time");
            running.abort_all();
        }
        let pools = [self.login_pool.clone(), self.pool.clone()];
        let closed = tokio::task::spawn_blocking(move || pools.iter().for_each(WorkerPool::close));
        // Jobs that hang must not prevent the final flush of the store. Everything acknowledged is durable already.
        let _ = tokio::time::timeout(SHUTDOWN_WORK_TIME_MAX, closed).await;
        let store = Arc::clone(&self.instance.store);
        // The flush spares the next start the replay of the log. Correctness does not depend on it.
        match tokio::task::spawn_blocking(move || store.flush()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(target: "doublet", %error, "cannot flush the store; its log will be replayed at the next start")
            }
            Err(error) => {
                tracing::warn!(target: "doublet", %error, "cannot flush the store; its log will be replayed at the next start")
            }
        }
    }
}

impl Server {
    /// Returns the status of the data folder, extended by the data that only a running server has.
    fn status(&self, report: &mut ProgressCallback<'_>) -> admin::AdminResult {
        let mut answer = admin::execute(&self.instance, Request::Status { running: false }, report)?;
        if let Some(fields) = answer.data.as_object_mut() {
            let pool = self.pool.report();
            fields.insert("running".to_owned(), true.into());
            fields.insert("connections".to_owned(), self.connections.count().into());
            fields.insert("waiting_transactions".to_owned(), pool.depth.into());
            let replications = &self.replication.counters;
            fields.insert("replications".to_owned(), replications.successful.get().into());
            fields.insert("replications_failed".to_owned(), replications.failed.get().into());
            let failing = replications.failing_connections.load(Ordering::Relaxed);
            fields.insert("connections_failing".to_owned(), failing.into());
        }
        Ok(answer)
    }
}

impl control::server::Execute for Server {
    fn execute(&self, request: Request, report: &mut ProgressCallback<'_>) -> Result<Answer, String> {
        let changes_queue = matches!(request, Request::Queue(_));
        let changes_connections = matches!(request, Request::Connection(_));
        let outcome = match request {
            Request::Tls(TlsRequest::Reload) => match self.files.reload(&self.tls) {
                Ok(()) => Ok(Answer::message("The certificate was reloaded; new connections use it.")),
                Err(error) => return Err(format!("{error}; the old certificate stays in use")),
            },
            Request::Tls(TlsRequest::Show) => return admin::tls::show(&self.files).map_err(|error| error.to_string()),
            Request::Server(request @ ServerRequest::Register { .. }) => {
                let answer = admin::execute(&self.instance, Request::Server(request), report);
                if let Err(error) = self.files.reload(&self.tls) {
                    return Err(format!("{error}; the old certificate stays in use"));
                }
                answer
            }
            Request::Server(ServerRequest::Renew { from }) => self.renewal.execute(from.as_deref()),
            Request::Blobs(request) if request.rebuild => {
                return Err("the table of references to attachments can be rebuilt only while the server is not running; stop it first".to_owned());
            }
            Request::Db(request) if let Some(reason) = admin::databases::stop_reason(&self.instance, &request) => {
                return Err(reason);
            }
            Request::Status { .. } => self.status(report),
            Request::Connection(request @ ConnectionRequest::List) => {
                admin::execute(&self.instance, Request::Connection(request), report).map(|mut answer| {
                    self.replication.add_runs(&mut answer);
                    answer
                })
            }
            Request::Replicate(request) => self.replication.execute(&request, report),
            Request::Session(request) => admin::sessions::execute(&self.instance, &self.browser_sessions, &request),
            Request::AppPassword(request) => {
                admin::application_passwords::execute(&self.instance, &self.browser_sessions, &request)
            }
            request => admin::execute(&self.instance, request, report),
        };
        if changes_queue {
            self.queued.notify_one();
        }
        if changes_connections {
            self.replication.changed.notify_one();
        }
        outcome.map_err(|failure| failure.to_string())
    }
}

/// The signals that the server handles.
struct Signals {
    end: EndSignals,
    reload: Signal,
}

/// The signals that end the server.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, ServeError> {
        let listen = |kind| signal(kind).map_err(|error| ServeError::System("install signal handlers", error));
        Ok(Self {
            end: EndSignals {
                terminate: listen(SignalKind::terminate())?,
                interrupt: listen(SignalKind::interrupt())?,
            },
            reload: listen(SignalKind::hangup())?,
        })
    }
}

impl EndSignals {
    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Creates the budget for messages and calls in transit.
fn memory_shares(instance: &Instance) -> Arc<MemoryShares> {
    let total_bytes = instance.memory_plan.message_memory.as_usize();
    let sizes = ShareSizes::new(total_bytes, instance.config.limits.message_size.as_usize());
    MemoryShares::new(total_bytes, sizes)
}

/// The protocols between which the client chooses in the TLS handshake.
#[derive(Clone, Copy)]
enum Negotiation {
    /// None: the listener has one protocol.
    None,
    /// HTTP/2 and HTTP/1.1.
    Http,
}

/// Performs the TLS handshake of a connection with implicit TLS.
async fn tls_handshake(stream: Stream, peer: Peer, tls: &Tls, negotiation: Negotiation) -> Option<(Stream, Peer)> {
    let accepted = match negotiation {
        Negotiation::None => stream.accept_tls(tls).await,
        Negotiation::Http => stream.accept_tls_http(tls).await,
    };
    match accepted {
        Ok(stream) => Some((stream, peer.encrypted())),
        Err(error) => {
            tracing::debug!(target: "wire", %peer, %error, "no TLS handshake");
            None
        }
    }
}
