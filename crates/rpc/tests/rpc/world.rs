//! A server in memory: a directory with people, a database, and doubles for logins, indexes and new databases.
//!
//! The people are `ann`, `bob`, `dan` and `eve` of `acme.test`, all with the password [`PASSWORD`]; eve is disabled.
//! The database `plan.nsf` belongs to ann. Bob is an Author of it and the others have no access, until a test gives
//! them other levels.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base::memory::{MemoryShares, ShareSizes};
use base::sim::{SeededRandom, SimClock};
use base::sync::Mutex;
use base::{Clock, DbNumber, Name, NoteId, Random};
use directory::{Directory, IssuedCertificate, NewUser, PersonChange};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mail::mailbox::{MailOptions, MailStore};
use mail::router::{AcceptOutcome, Envelope, Router, RouterOptions};
use mail::submission::{
    DirectoryResolver, Origin, Refusal, SenderPolicy, SubmissionHooks, SubmissionOptions, SubmissionService,
};
use notes::{
    Access, Acl, AclEntry, AclLevel, Database, DatabaseKind, DatabaseOptions, Databases, Identity, NewDatabase, level,
};
use proto::v1::error_detail::{Detail, FormulaPlace};
use proto::{details, v1};
use rpc::backend::{
    Accounts, CertificateIssuer, CreateDatabaseError, DatabaseCreator, IndexBuildProgress, RequestedPulls,
    ServerCertificate, SessionSlot, TemplateInfo, ViewIndexer,
};
use rpc::limits::MESSAGE_BYTES_MAX;
use rpc::session::SessionLimits;
use rpc::{Service, ServiceOptions, Services};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use store::Store;
use store::memory::MemoryEngine;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::header::{AUTHORIZATION, CONTENT_TYPE};
use tonic::codegen::http::{Request, Response};
use tonic::{Code, Status};
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

pub const PASSWORD: &str = "sesame street";
pub const PLAN: &str = "plan.nsf";

/// Bytes that a connection in memory holds in each direction.
const PIPE_BYTES: usize = 256 << 10;

/// The server.
pub struct TestServer {
    pub clock: Arc<SimClock>,
    pub directory: Arc<Directory>,
    pub mail: Arc<MailStore>,
    pub indexes: Arc<TestIndexer>,
    pub accounts: Arc<TestAccounts>,
    pub shutdown: Shutdown,
    pub pool: WorkerPool,
    pub login_pool: WorkerPool,
    /// Called on a worker by each `ListTemplates`.
    pub on_templates: TemplatesHook,
    service: Arc<Service>,
}

/// A function that a test may set.
pub type TemplatesHook = Arc<Mutex<Option<Box<dyn FnMut() + Send>>>>;

impl TestServer {
    /// Starts the server with the default options.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Starts the server with changed options.
    pub fn with(change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let options = PoolOptions { workers: 1, ..PoolOptions::default() };
        Self::with_login_pool(WorkerPool::new(&options, Arc::new(SimClock::new())).expect("a thread starts"), change)
    }

    /// Starts the server with a pool for logins and changed options.
    pub fn with_login_pool(login_pool: WorkerPool, change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let options = PoolOptions { workers: 2, ..PoolOptions::default() };
        Self::start(&options, login_pool, change)
    }

    /// Starts the server with a single worker and no time for a job, so that all work that may be divided is divided
    /// whenever the clock is looked at.
    pub fn dividing() -> Self {
        let logins = PoolOptions { workers: 1, ..PoolOptions::default() };
        let options = PoolOptions { job_time_max: Duration::ZERO, ..logins.clone() };
        let login_pool = WorkerPool::new(&logins, Arc::new(SimClock::new())).expect("a thread starts");
        Self::start(&options, login_pool, |_| {})
    }

    fn start(pool: &PoolOptions, login_pool: WorkerPool, change: impl FnOnce(&mut ServiceOptions)) -> Self {
        let engine = Arc::new(MemoryEngine::new(1));
        let store = Store::with_engine(engine, &store::StoreOptions::default()).expect("a store in memory opens");
        let clock = Arc::new(SimClock::new());
        let ticks: Arc<dyn Clock> = Arc::clone(&clock) as _;
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(1));
        let databases = Databases::open(Arc::new(store), Arc::clone(&ticks), Arc::clone(&random));
        let directory =
            Directory::open(&databases, directory::DirectoryOptions::new("hub/Acme"), &ticks).expect("a new store");
        let directory = Arc::new(directory);
        add_people(&directory).expect("the directory is empty");
        create_plan(&databases);
        let mail = MailStore::new(Arc::clone(&databases), MailOptions::default());
        let submissions = submissions(&directory, &mail);
        let pool = WorkerPool::new(pool, Arc::clone(&ticks)).expect("threads start");
        let accounts = Arc::new(TestAccounts::default());
        let indexes = Arc::new(TestIndexer::default());
        let on_templates = TemplatesHook::default();
        let creator = TestCreator { databases: Arc::clone(&databases), on_templates: Arc::clone(&on_templates) };
        let shutdown = Shutdown::new();
        let services = Services {
            databases,
            directory: Arc::clone(&directory),
            accounts: Arc::clone(&accounts) as _,
            full_text: Box::new(|| Ok(None)),
            indexer: Arc::clone(&indexes) as _,
            database_creator: Arc::new(creator),
            requested_pulls: Arc::new(NoPulls),
            certificates: Arc::new(NoCertifier),
            submissions,
            pool: pool.clone(),
            login_pool: login_pool.clone(),
            memory: MemoryShares::new(512 << 20, ShareSizes::new(512 << 20, 100_000)),
            clock: ticks,
            random,
            shutdown: shutdown.clone(),
            local_person: None,
        };
        let mut options = ServiceOptions {
            hostname: "hub.acme.test".to_owned(),
            version: "doublet 1".to_owned(),
            mechanisms: vec![sasl::Mechanism::Plain],
            compression: false,
            call_time_max: Duration::from_secs(60),
            sessions: SessionLimits::default(),
        };
        change(&mut options);
        let service = Service::new(services, options);
        Self { clock, directory, mail, indexes, accounts, shutdown, pool, login_pool, on_templates, service }
    }

    /// Connects without a login.
    pub async fn connect(&self) -> Client {
        self.connect_as(None).await
    }

    /// Connects with a certificate of the named server.
    pub async fn connect_as(&self, server: Option<Name>) -> Client {
        let (ours, theirs) = Stream::duplex(PIPE_BYTES);
        let peer = Peer::network("192.0.2.7:4000".parse().expect("an address")).encrypted();
        let service = Arc::clone(&self.service);
        let server = server.map(|name| ServerCertificate {
            name,
            certificate: b"certificate"[..].into(),
            issued: IssuedCertificate::default(),
        });
        tokio::spawn(rpc::serve(theirs, peer, server, service, SessionTermination::default()));
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(ours));
        let (sender, driver) = handshake.await.expect("the server speaks HTTP/2");
        tokio::spawn(driver);
        Client { channel: Channel { sender, token: None }, is_compressing: false }
    }

    /// Connects and logs in.
    pub async fn log_in(&self, who: &str) -> Client {
        let client = self.connect().await;
        let reply = client.try_log_in(who, PASSWORD).await.expect("the password is right");
        client.with_token(&reply.token)
    }

    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Sets the level of a person in the plan.
    pub fn set_level(&self, login: &str, to: AclLevel) {
        self.set_entry(AclEntry::new(canonical(login).as_str(), to));
    }

    /// Adds an entry to the access list of the plan. Replaces the one with the same name.
    pub fn set_entry(&self, entry: AclEntry) {
        let access = self.manage_plan();
        let mut acl = Acl::clone(&access.read().expect("the plan can be read").acl());
        acl.entries.retain(|other| other.name != entry.name);
        acl.entries.push(entry);
        let lower = access.downgrade::<level::Depositor>();
        let accesses = [&lower];
        let mut transaction = self.mail.databases().transaction(&accesses).expect("the plan can be changed");
        transaction.writer(0).acl_set(acl).expect("a manager remains");
        transaction.commit().expect("the store is in memory");
    }

    /// Lets the plan keep deleted documents for two days.
    pub fn keep_deleted(&self) {
        let access = self.manage_plan();
        let record = access.database().record();
        let options = DatabaseOptions { keep_deleted_hours: Some(48), ..record.options };
        let outcome = self.mail.databases().database_options_set(&access, &record.title, options);
        outcome.expect("the options are valid");
    }

    /// Returns the server's own access to the plan.
    fn manage_plan(&self) -> Access<level::Manager> {
        let plan = self.mail.databases().database_open(PLAN).expect("the plan exists");
        plan.authorize(&Arc::new(Identity::local_server("CN=hub/O=Acme")))
            .expect("no access list applies to the server")
    }
}

fn add_people(directory: &Directory) -> directory::Result<()> {
    directory.domain_add("acme.test", &[])?;
    for login in ["ann", "bob", "dan", "eve"] {
        directory.user_add(&NewUser::new(&format!("{login}@acme.test")))?;
    }
    directory.user_set("eve@acme.test", &PersonChange { disabled: Some(true), ..PersonChange::default() })?;
    Ok(())
}

fn create_plan(databases: &Arc<Databases>) {
    let mut acl = Acl::private(&Name::new(&canonical("ann")));
    acl.entries.push(AclEntry::new(canonical("bob").as_str(), AclLevel::Author));
    acl.max_internet_access = AclLevel::Manager;
    let new = NewDatabase::new(PLAN, "The plan", DatabaseKind::Standard, acl);
    databases.database_create(&new).expect("there is no such database yet");
}

fn submissions(directory: &Arc<Directory>, mail: &Arc<MailStore>) -> Arc<SubmissionService> {
    let resolver = Arc::new(DirectoryResolver::new(Arc::clone(directory)));
    let router = Router::open(Arc::clone(mail), resolver, RouterOptions::default()).expect("a new store");
    let options = SubmissionOptions {
        hostname: "hub.acme.test".to_owned(),
        senders: SenderPolicy::Own,
        message_bytes_max: 100_000,
        recipients_max: 3,
        special_networks: base::networks::Networks::default(),
    };
    let hooks: Arc<dyn SubmissionHooks> = Arc::new(NoHooks);
    SubmissionService::new(Arc::clone(directory), Arc::clone(mail), router, hooks, options)
}

/// Hooks that neither sign nor count.
struct NoHooks;

impl SubmissionHooks for NoHooks {
    fn sign(&self, message: Vec<u8>) -> Vec<u8> {
        message
    }

    fn record_accepted(&self, _: &Origin, _: &Envelope, _: usize, _: AcceptOutcome) {}

    fn record_refused(&self, _: &Origin, _: &Refusal) {}

    fn report_failure(&self, operation: &'static str, error: &(dyn std::error::Error + 'static)) {
        panic!("{operation}: {error}");
    }
}

/// Returns the canonical name of a person.
pub fn canonical(login: &str) -> String {
    format!("CN={login}/O=acme.test")
}

/// Logins that compare the password with [`PASSWORD`], and the signals of the sessions that began.
#[derive(Default)]
pub struct TestAccounts {
    terminations: Mutex<Vec<SessionTermination>>,
}

impl TestAccounts {
    /// Ends all sessions, as after changes of their accounts.
    pub fn terminate_all(&self) {
        self.terminations.lock().iter().for_each(SessionTermination::terminate);
    }
}

impl Credentials for TestAccounts {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match (request.authentication_id(), request.password()) {
            ("eve", PASSWORD) => Err(LoginError::AccountDisabled),
            ("busy", _) => Err(LoginError::Throttled),
            (login @ ("ann" | "bob" | "dan"), PASSWORD) => Ok(Login::new(canonical(login))),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

impl Accounts for TestAccounts {
    fn register_session(&self) -> Box<dyn SessionSlot> {
        let mut terminations = self.terminations.lock();
        let termination = SessionTermination::default();
        terminations.push(termination.clone());
        Box::new(TestSlot { number: terminations.len() as u64, termination })
    }
}

struct TestSlot {
    number: u64,
    termination: SessionTermination,
}

impl SessionSlot for TestSlot {
    fn number(&self) -> u64 {
        self.number
    }

    fn termination(&self) -> &SessionTermination {
        &self.termination
    }
}

/// Builds no index, and keeps the requests and the times of refreshes.
#[derive(Default)]
pub struct TestIndexer {
    /// The requested builds. A build lasts until the test drops its sender.
    pub builds: Mutex<Vec<(NoteId, watch::Sender<IndexBuildProgress>)>>,
    /// `true` to refuse further builds.
    pub is_full: Mutex<bool>,
    refreshed: Mutex<HashMap<NoteId, usize>>,
    /// Views that count as updated a short time ago.
    pub recent: Mutex<Vec<NoteId>>,
}

impl TestIndexer {
    /// Returns the number of recorded refreshes of a view.
    pub fn refresh_count(&self, view: u32) -> usize {
        self.refreshed.lock().get(&NoteId(view)).copied().unwrap_or_default()
    }
}

impl ViewIndexer for TestIndexer {
    fn request_build(&self, _: DbNumber, view: NoteId) -> Option<watch::Receiver<IndexBuildProgress>> {
        if *self.is_full.lock() {
            return None;
        }
        let (sender, receiver) = watch::channel(IndexBuildProgress { done: 7, documents: 70 });
        self.builds.lock().push((view, sender));
        Some(receiver)
    }

    fn is_recent(&self, _: DbNumber, view: NoteId, _: u16) -> bool {
        self.recent.lock().contains(&view)
    }

    fn record_refresh(&self, _: DbNumber, view: NoteId) {
        *self.refreshed.lock().entry(view).or_default() += 1;
    }
}

/// Creates databases for ann, without templates except `empty`.
pub struct TestCreator {
    databases: Arc<Databases>,
    on_templates: TemplatesHook,
}

/// Accepts each request to pull, and does nothing.
struct NoPulls;

impl RequestedPulls for NoPulls {
    fn begin(&self, _: &Name, _: v1::RequestPullRequest) -> Result<v1::RequestedPull, String> {
        Ok(v1::RequestedPull::default())
    }

    fn progress(&self, _: &Name, _: u64) -> Option<v1::RequestedPull> {
        Some(v1::RequestedPull { done: true, ..v1::RequestedPull::default() })
    }

    fn upgrade(&self, _: &Arc<Database>) -> Result<(), String> {
        Ok(())
    }
}

/// Issues no certificates.
struct NoCertifier;

impl CertificateIssuer for NoCertifier {
    fn renew(&self, server: &ServerCertificate, signing_request: &[u8]) -> Result<String, String> {
        Err(format!("no certificate for {}: {} bytes", server.name.abbreviated(), signing_request.len()))
    }

    fn confirm(&self, server: &ServerCertificate) -> Result<(), String> {
        Err(format!("{} has a certificate of {} bytes", server.name.abbreviated(), server.certificate.len()))
    }
}

impl DatabaseCreator for TestCreator {
    fn templates(&self) -> Vec<TemplateInfo> {
        if let Some(hook) = &mut *self.on_templates.lock() {
            hook();
        }
        let text = |text: &str| text.to_owned();
        vec![TemplateInfo { name: text("empty"), title: text("Nothing"), description: text("No views.") }]
    }

    fn create(
        &self,
        creator: &Identity,
        path: &str,
        title: &str,
        template: &str,
    ) -> Result<Arc<Database>, CreateDatabaseError> {
        if creator.name.canonical() != canonical("ann") {
            return Err(CreateDatabaseError::NotAllowed);
        }
        match (template, path) {
            ("" | "empty", "") => Err(CreateDatabaseError::Refused("a database needs a path".to_owned())),
            ("" | "empty", _) => {
                let acl = Acl { max_internet_access: AclLevel::Manager, ..Acl::private(&creator.name) };
                let new = NewDatabase::new(path, title, DatabaseKind::Standard, acl);
                let created = self.databases.database_create(&new);
                created.map_err(|error| CreateDatabaseError::Directory(directory::Error::Notes(error)))
            }
            _ => Err(CreateDatabaseError::NoTemplate),
        }
    }
}

/// A client over a connection in memory.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    is_compressing: bool,
}

macro_rules! stubs {
    ($($name:ident: $module:ident::$Stub:ident;)+) => {
        $(
            pub fn $name(&self) -> v1::$module::$Stub<Channel> {
                let stub = v1::$module::$Stub::new(self.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
                if !self.is_compressing {
                    return stub;
                }
                stub.send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip)
            }
        )+
    };
}

impl Client {
    /// Returns the client with the token of a session.
    pub fn with_token(mut self, token: &str) -> Self {
        self.channel.token = Some(format!("Bearer {token}"));
        self
    }

    /// Returns the client with compressed messages in both directions.
    pub fn compressing(self) -> Self {
        Self { is_compressing: true, ..self }
    }

    /// Logs in without keeping the token.
    pub async fn try_log_in(&self, login: &str, password: &str) -> Result<v1::LoginReply, Status> {
        let request = v1::LoginRequest { login: login.to_owned(), password: password.to_owned() };
        self.sessions().login(request).await.map(tonic::Response::into_inner)
    }

    /// Creates a document in the plan.
    pub async fn create(&self, items: Vec<v1::Item>) -> Result<v1::SavedNote, Status> {
        let request = v1::CreateNoteRequest { database: plan(), items, ..Default::default() };
        self.notes().create_note(request).await.map(tonic::Response::into_inner)
    }

    /// Sends a request without content to a path.
    pub async fn post(&self, path: &str) -> Response<hyper::body::Incoming> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/grpc").body(Body::empty());
        let request = request.expect("the path is valid");
        let mut channel = self.channel.clone();
        tower_service::Service::call(&mut channel, request).await.expect("the server answers")
    }

    stubs! {
        sessions: sessions_client::SessionsClient;
        databases: databases_client::DatabasesClient;
        notes: notes_client::NotesClient;
        views: views_client::ViewsClient;
        changes: changes_client::ChangesClient;
        search: search_client::SearchClient;
        replication: replication_client::ReplicationClient;
        servers: servers_client::ServersClient;
        directory: directory_client::DirectoryClient;
        mail: mail_client::MailClient;
    }
}

/// The transport of the stubs: one HTTP/2 connection, and the token of a session.
#[derive(Clone)]
pub struct Channel {
    sender: SendRequest<Body>,
    token: Option<String>,
}

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path();
        *request.uri_mut() = format!("http://hub.acme.test{path}").parse().expect("a path of the protocol");
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.parse().expect("a token"));
        }
        Box::pin(self.sender.send_request(request))
    }
}

pub fn plan() -> Option<v1::DatabaseKey> {
    database(PLAN)
}

pub fn database(path: &str) -> Option<v1::DatabaseKey> {
    Some(v1::DatabaseKey { key: Some(v1::database_key::Key::Path(path.to_owned())) })
}

pub fn note(number: u32) -> Option<v1::NoteKey> {
    Some(v1::NoteKey { key: Some(v1::note_key::Key::NoteId(number)) })
}

pub fn text(name: &str, text: &str) -> v1::Item {
    v1::Item {
        name: name.to_owned(),
        flags: Some(v1::ItemFlags { summary: true, ..v1::ItemFlags::default() }),
        value: Some(v1::Value { kind: Some(v1::value::Kind::Text(text.to_owned())) }),
    }
}

/// Returns the position of the error in a formula, if this is why a call failed.
pub fn formula_place(status: &Status) -> Option<FormulaPlace> {
    match details::detail(status)?.detail? {
        Detail::Formula(place) => Some(place),
        _ => None,
    }
}

/// Returns the code and the reason word of a refused call.
pub fn refusal<T: std::fmt::Debug>(outcome: Result<T, Status>) -> (Code, String) {
    let status = outcome.expect_err("the call is refused");
    let reason = details::detail(&status).map(|detail| detail.reason).unwrap_or_default();
    (status.code(), reason)
}

/// Returns the code and the reason word that a refused call is expected to have.
pub fn refused(code: Code, reason: &str) -> (Code, String) {
    (code, reason.to_owned())
}
