//! Two people with mail files, a directory, a submission that delivers at once, and a browser without scripts.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, Random, Timestamp, Uid, UidSet};
use http::backend::{Accounts, CodeProof, FirstFactor, LoggedIn, LoginProof, LoginWatch};
use http::{Authenticator, Caller, RequestContext, SessionOptions, Sessions};
use mail::mailbox::{FlagChange, Flags, MailFile, MailOptions, MailStore, NewMessage};
use mail::router::{
    AddressResolver, ArrivingMessage, DeliveryTarget, Envelope, LocalMailbox, Recipient, RecordChange,
    Router as MailRouter, RouterOptions, SentCopy, SubmissionRecord,
};
use mail::submission::{
    AcceptedSubmission, NotifiedMessage, Refusal, RefusedRequest, SubmissionRequest, SubmittedCopy,
};
use notes::{Databases, Identity, ServerSettings};
use sasl::{
    ApplicationPasswordId, Credentials, Login, LoginError, LoginOrigin, LoginProtocol, LoginScope, PasswordRequest,
};
use search::FullTextIndex;
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode, Ticket};
use tower_service::Service as _;
use web::backend::{Account, AddressEntry, BackendError, EntryKind, WebBackend};
use web::credential_backend::{
    ApplicationPasswordInfo, ChangedCredential, CredentialBackend, CredentialChange, CredentialError, CredentialsInfo,
    OfferedFactor, SecondFactorInfo,
};
use web::{Service, ServiceOptions, Services};
use wire::{Peer, PoolOptions, WorkerPool};

pub const ANN: &str = "CN=ann/O=acme.test";
pub const BOB: &str = "CN=bob/O=acme.test";
pub const PASSWORD: &str = "secret";
pub const HOSTNAME: &str = "mx.acme.test";

/// Logins with one password. Ann may have a second factor.
struct OnePassword(Arc<Credential>);

/// How Ann can log in.
#[derive(Default)]
pub struct Credential {
    pub has_factor: AtomicBool,
    /// The changes that were made.
    pub changes: Mutex<Vec<CredentialChange>>,
}

/// The application password that is made.
pub const APPLICATION_PASSWORD: &str = "abcd-efgh";

impl CredentialBackend for Credential {
    fn credentials(&self, _: &Caller) -> Result<CredentialsInfo, BackendError> {
        let factor = SecondFactorInfo { added: Timestamp(0), recovery_codes: 9 };
        let password = ApplicationPasswordInfo {
            id: ApplicationPasswordId([1; 8]),
            name: "<b>Phone".to_owned(),
            created: Timestamp(0),
            protocols: vec![LoginProtocol::Imap],
            scope: LoginScope::Reading,
            last_use: Some((Timestamp(0), "192.0.2.1".to_owned(), "imap".to_owned())),
        };
        Ok(CredentialsInfo {
            application_passwords: vec![password],
            second_factor: self.has_factor.load(Ordering::SeqCst).then_some(factor),
        })
    }

    fn offer_second_factor(&self, _: &Caller, secret: Option<&str>) -> OfferedFactor {
        OfferedFactor {
            secret: secret.unwrap_or("GEZDGNBV").to_owned(),
            url: "otpauth://totp/x?secret=GEZDGNBV".to_owned(),
        }
    }

    fn check_password(&self, password: &str) -> Result<(), CredentialError> {
        match password.len() {
            0..3 => Err(CredentialError::Refused("the password is too short".to_owned())),
            _ => Ok(()),
        }
    }

    fn change(&self, caller: &Caller, change: &CredentialChange) -> Result<ChangedCredential, CredentialError> {
        assert_eq!(caller.login(), ANN);
        let made = match change {
            CredentialChange::AddApplicationPassword { protocols, .. } if protocols.is_empty() => {
                return Err(CredentialError::Refused("it needs a protocol".to_owned()));
            }
            CredentialChange::AddApplicationPassword { .. } => {
                ChangedCredential::ApplicationPassword(APPLICATION_PASSWORD.to_owned())
            }
            CredentialChange::RevokeApplicationPassword(id) if id.0 != [1; 8] => return Err(CredentialError::NotFound),
            CredentialChange::SetSecondFactor { code, .. } if code != "1" => {
                return Err(CredentialError::Refused("the code is wrong".to_owned()));
            }
            CredentialChange::SetSecondFactor { .. } | CredentialChange::RenewRecoveryCodes => {
                ChangedCredential::RecoveryCodes(vec!["code-one".to_owned(), "code-two".to_owned()])
            }
            _ => ChangedCredential::Nothing,
        };
        self.changes.lock().expect("no test panics while it holds this").push(change.clone());
        Ok(made)
    }
}

impl Credentials for OnePassword {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match (request.authentication_id(), request.password()) {
            ("throttled", _) => Err(LoginError::Throttled),
            ("ann", PASSWORD) => Ok(Login::new(ANN)),
            ("bob", PASSWORD) => Ok(Login::new(BOB)),
            // As in the directory, the canonical name is a login name, too.
            (ANN, PASSWORD) => Ok(Login::new(ANN)),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

impl Accounts for OnePassword {
    fn identify(&self, _: &LoginOrigin, login: &Login, _: Option<LoginProof>) -> Result<LoggedIn, LoginError> {
        let identity = Arc::new(Identity::person(login.name.as_str()));
        Ok(LoggedIn { identity, stamp: 0, password: login.password })
    }

    /// No answer goes on without end.
    fn watch(&self, _: &LoginOrigin, _: &Login, _: LoginProof) -> Result<Box<dyn LoginWatch>, LoginError> {
        Err(LoginError::Unavailable)
    }

    fn check_first_factor(&self, origin: &LoginOrigin, request: &PasswordRequest) -> Result<FirstFactor, LoginError> {
        let login = self.check_password(origin, request)?.name;
        let is_code_needed = login == ANN && self.0.has_factor.load(Ordering::SeqCst);
        Ok(FirstFactor { login, stamp: 0, is_code_needed })
    }

    /// The code of a step is its number.
    fn check_second_factor(&self, _: &LoginOrigin, login: &str, code: &str) -> Result<CodeProof, LoginError> {
        match (login, code.parse()) {
            (ANN, Ok(step)) => Ok(CodeProof::Step { step, factor: Timestamp(0) }),
            (ANN, Err(_)) if code == "recovery" => Ok(CodeProof::RecoveryCode { factor: Timestamp(0) }),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

/// The services of the server.
pub struct Backend {
    mail: Arc<MailStore>,
    /// Delivers messages that were held, and notifications.
    pub router: Arc<MailRouter>,
    /// The requests that were accepted.
    pub submitted: Mutex<Vec<SubmissionRequest>>,
    /// `true` if submission refuses everything.
    pub is_refusing: AtomicBool,
    /// Number of times that a mail file was opened, which each job does once.
    pub opened: AtomicUsize,
}

fn short_name(name: &str) -> String {
    Name::new(name).common().to_owned()
}

impl WebBackend for Backend {
    fn account(&self, caller: &Caller) -> Result<Account, BackendError> {
        let name = short_name(caller.login());
        Ok(Account { addresses: vec![format!("{name}@acme.test")], name })
    }

    fn open(&self, caller: &Caller) -> Result<MailFile, BackendError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let path = format!("mail/{}.nsf", short_name(caller.login()));
        self.mail.open(&path, &caller.identity).map_err(|_| BackendError::Unavailable)
    }

    fn find_addresses(&self, _: &Caller, words: &str, limit: usize) -> Result<Vec<AddressEntry>, BackendError> {
        let entry = |name: &str| AddressEntry {
            name: name.to_owned(),
            address: format!("{name}@acme.test"),
            kind: EntryKind::Person,
        };
        Ok(["ann", "bob"].into_iter().filter(|name| name.contains(words)).map(entry).take(limit).collect())
    }

    fn address_of(&self, _: &Caller, name: &str) -> Result<Option<String>, BackendError> {
        Ok(["ann", "bob"].contains(&name).then(|| format!("{name}@acme.test")))
    }

    fn submit(
        &self,
        request: SubmissionRequest,
        copy: Option<SubmittedCopy>,
    ) -> Result<AcceptedSubmission, RefusedRequest> {
        if self.is_refusing.load(Ordering::SeqCst) {
            return Err(Refusal::UnknownRecipient.into());
        }
        let durable = Box::pin(async { Ok(()) }) as Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send>>;
        let copy = match copy {
            Some(copy) if copy.release_at.is_some() => {
                let id = self.hold(&request, copy);
                self.submitted.lock().expect("no test panics while it holds this").push(request);
                return Ok(AcceptedSubmission { id, ticket: Ticket::NONE, durable });
            }
            copy => copy,
        };
        for recipient in &request.recipients {
            let Some(name) = recipient.strip_suffix("@acme.test") else { continue };
            let file = self.mail.open_as_server(&format!("mail/{name}.nsf")).expect("the mail file exists");
            put(&file, "INBOX", &request.message);
        }
        if let Some(SubmittedCopy { mail_file, copy: SentCopy { mailbox, draft, message, .. }, .. }) = copy {
            let file = self.mail.open_as_server(&mail_file).expect("the mail file exists");
            file.append_prepared(mailbox, std::slice::from_ref(message.as_ref())).expect("a sound store");
            if let Some((drafts, uid)) = draft {
                let deleted = FlagChange::Add(["\\Deleted"].into_iter().collect());
                let uids = UidSet::from(uid.0..=uid.0);
                file.store(drafts, &uids, &deleted, None).expect("a sound store");
                file.expunge(drafts, Some(&uids)).expect("a sound store");
            }
        }
        self.submitted.lock().expect("no test panics while it holds this").push(request);
        Ok(AcceptedSubmission { id: "1".to_owned(), ticket: Ticket::NONE, durable })
    }

    fn withdraw(&self, id: &str, record: SubmissionRecord) -> mail::Result<Option<Ticket>> {
        self.router.withdraw(id, record)
    }

    fn submit_notification(
        &self,
        request: SubmissionRequest,
        about: NotifiedMessage,
    ) -> Result<Ticket, RefusedRequest> {
        if self.is_refusing.load(Ordering::SeqCst) {
            return Err(Refusal::UnknownRecipient.into());
        }
        let NotifiedMessage { mail_file, note } = about;
        let recipients = request.recipients.iter().map(|address| Recipient::new(address)).collect();
        let reverse_path = request.sender.clone();
        let mut envelope = Envelope { id: "n1".to_owned(), reverse_path, recipients, ..Envelope::default() };
        envelope.become_notification();
        let targets = |recipient: &Recipient| Acme.targets(&recipient.address).expect("no look-up fails");
        let targets: Vec<Arc<[DeliveryTarget]>> =
            envelope.recipients.iter().map(|recipient| targets(recipient).into()).collect();
        let arriving = ArrivingMessage {
            envelope: &envelope,
            targets: &targets,
            raw: &request.message,
            release_at: None,
            record: Some(SubmissionRecord { mail_file, change: RecordChange::Notified(note) }),
        };
        let accepted = self.router.accept_resolved(arriving).map_err(|error| Refusal::from(&error))?;
        self.submitted.lock().expect("no test panics while it holds this").push(request);
        Ok(accepted.ticket)
    }

    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        Ok(None)
    }
}

impl Backend {
    /// Passes a message that is held to the router, as submission does. Returns its identifier.
    fn hold(&self, request: &SubmissionRequest, copy: SubmittedCopy) -> String {
        let id = copy.copy.held.as_ref().expect("a copy that can be withdrawn").unid.to_string();
        let recipients: Vec<Recipient> = request.recipients.iter().map(|address| Recipient::new(address)).collect();
        let targets: Vec<Arc<[DeliveryTarget]>> =
            recipients.iter().map(|of| Acme.targets(&of.address).expect("no lookup fails").into()).collect();
        let envelope =
            Envelope { id: id.clone(), reverse_path: request.sender.clone(), recipients, ..Envelope::default() };
        let record = SubmissionRecord { mail_file: copy.mail_file, change: RecordChange::SentCopy(copy.copy) };
        let arriving = ArrivingMessage {
            envelope: &envelope,
            targets: &targets,
            raw: &request.message,
            release_at: copy.release_at,
            record: Some(record),
        };
        self.router.accept_resolved(arriving).expect("the store works");
        id
    }
}

/// The addresses of acme.test. All others are remote.
struct Acme;

impl AddressResolver for Acme {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        let Some(name) = address.strip_suffix("@acme.test") else {
            return Ok(vec![DeliveryTarget::Remote(address.to_owned())]);
        };
        Ok(vec![DeliveryTarget::Local(LocalMailbox {
            mail_file: format!("mail/{name}.nsf"),
            title: name.to_owned(),
            owner: Name::new(&format!("CN={name}/O=acme.test")),
            quota_bytes: None,
            other_server: None,
        })])
    }
}

/// Puts a message into a folder.
pub fn put(file: &MailFile, folder: &str, raw: &[u8]) -> Uid {
    let view = file.snapshot().and_then(|snapshot| snapshot.folder(folder)).expect("a sound store");
    let message = NewMessage { raw: raw.to_vec(), flags: Flags::none(), received: None };
    let appended = file.append(view.expect("the folder exists").id, &[message]);
    appended.expect("a sound store").1[0]
}

/// A server.
pub struct World {
    databases: Arc<Databases>,
    clock: Arc<SimClock>,
    random: Arc<SeededRandom>,
    pub backend: Arc<Backend>,
    pub credential: Arc<Credential>,
    /// Settings of the operator.
    pub options: ServiceOptions,
    sessions: Arc<Sessions>,
    pool: WorkerPool,
}

impl World {
    pub fn new() -> Self {
        Self::with_options(MailOptions::default())
    }

    /// Creates a world with settings of the operator.
    pub fn with_options(options: MailOptions) -> Self {
        let store_options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let engine: Arc<dyn store::Engine> = Arc::new(MemoryEngine::new(1));
        let store = Arc::new(Store::with_engine(engine, &store_options).expect("a store in memory opens"));
        let clock = Arc::new(SimClock::new());
        let random = Arc::new(SeededRandom::new(1));
        let databases = Databases::open_with(store, clock.clone(), random.clone(), ServerSettings::default());
        let mail = MailStore::new(Arc::clone(&databases), options);
        for name in ["ann", "bob"] {
            let owner = Name::new(&format!("CN={name}/O=acme.test"));
            mail.create(&format!("mail/{name}.nsf"), name, &owner, Some(50 << 20)).expect("a sound store");
        }
        let sources: (Arc<dyn Clock>, Arc<dyn Random>) = (clock.clone(), random.clone());
        let server = Name::new("CN=hub/O=acme.test");
        let sessions = Sessions::open(&databases, &server, sources, SessionOptions::default()).expect("they open");
        let pool = PoolOptions { workers: 2, ..PoolOptions::default() };
        let pool = WorkerPool::new(&pool, clock.clone()).expect("threads can be started");
        let router =
            MailRouter::open(Arc::clone(&mail), Arc::new(Acme), RouterOptions::default()).expect("the queue opens");
        let backend = Arc::new(Backend {
            mail,
            router,
            submitted: Mutex::default(),
            is_refusing: AtomicBool::default(),
            opened: AtomicUsize::default(),
        });
        let options = ServiceOptions {
            hostname: HOSTNAME.to_owned(),
            message_bytes_max: 1 << 20,
            recipients_max: 10,
            requests_per_account_max: 20,
            uploads_per_account_max: 3,
        };
        Self { databases, clock, random, backend, credential: Arc::default(), options, sessions, pool }
    }

    /// Starts the lite web mail, as after a restart of the server.
    pub fn start(&self) -> Router {
        let accounts = Arc::new(OnePassword(Arc::clone(&self.credential)));
        let pool = self.pool.clone();
        let sessions = Arc::clone(&self.sessions);
        let services = Services {
            databases: Arc::clone(&self.databases),
            backend: self.backend.clone(),
            credentials: self.credential.clone(),
            tables: Arc::default(),
            authenticator: Authenticator::new(accounts, pool.clone(), pool.clone(), sessions),
            pool,
            memory: MemoryShares::unlimited(),
            clock: self.clock.clone(),
            random: self.random.clone(),
        };
        Service::new(services, self.options.clone()).routes()
    }

    /// Opens a browser.
    pub fn browser(&self) -> Browser {
        Browser { router: self.start(), cookies: BTreeMap::new(), fields: Vec::new(), path: String::new() }
    }

    /// Opens a browser in which somebody has logged in.
    pub async fn logged_in(&self, name: &str) -> Browser {
        let mut browser = self.browser();
        let page = browser.log_in(name, PASSWORD).await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text());
        browser
    }

    pub fn file(&self, name: &str) -> MailFile {
        self.backend.mail.open_as_server(&format!("mail/{name}.nsf")).expect("the mail file exists")
    }

    /// Puts a message into a folder.
    pub fn put(&self, name: &str, folder: &str, raw: &str) -> Uid {
        put(&self.file(name), folder, raw.as_bytes())
    }

    /// Returns the number of a folder in addresses.
    pub fn folder(&self, name: &str, folder: &str) -> u32 {
        let file = self.file(name);
        let snapshot = file.snapshot().expect("a sound store");
        snapshot.folder(folder).expect("a sound store").expect("the folder exists").id.0
    }

    /// Returns the messages of a folder, each with its UID.
    pub fn messages(&self, name: &str, folder: &str) -> Vec<(u32, String)> {
        let file = self.file(name);
        let snapshot = file.snapshot().expect("a sound store");
        let folder = snapshot.folder(folder).expect("a sound store").expect("the folder exists");
        let mut entries = Vec::new();
        let read = snapshot.entries(folder.id, Uid(0)..=Uid(u32::MAX), &mut |entry| {
            entries.push(entry);
            Ok(std::ops::ControlFlow::Continue(()))
        });
        read.expect("a sound store");
        let message = |entry: &notes::FolderEntry| {
            let message = snapshot.message_of(entry).expect("a sound store").expect("it exists");
            let raw = message.raw().expect("a sound store");
            (entry.uid.0, String::from_utf8(raw).expect("the tests send UTF-8"))
        };
        entries.iter().map(message).collect()
    }

    /// Returns the names of the flags of a message.
    pub fn flags(&self, name: &str, folder: &str, uid: Uid) -> Vec<&'static str> {
        let file = self.file(name);
        let snapshot = file.snapshot().expect("a sound store");
        let folder = snapshot.folder(folder).expect("a sound store").expect("the folder exists");
        let entry = snapshot.entry(folder.id, uid).expect("a sound store").expect("the message exists");
        mail::mailbox::flags::system_flag_names(snapshot.flags(&entry).marks).collect()
    }

    /// Lets time pass, and delivers the messages that were held until then.
    pub fn wait(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        for job in self.backend.router.take_due_jobs(100) {
            self.backend.router.deliver_local(&job).expect("the store works");
        }
    }

    /// Returns the names of the keywords of a message.
    pub fn keywords(&self, name: &str, folder: &str, uid: Uid) -> Vec<String> {
        let file = self.file(name);
        let snapshot = file.snapshot().expect("a sound store");
        let folder = snapshot.folder(folder).expect("a sound store").expect("the folder exists");
        let entry = snapshot.entry(folder.id, uid).expect("a sound store").expect("the message exists");
        snapshot.flags(&entry).keywords
    }

    pub fn submitted(&self) -> Vec<SubmissionRequest> {
        self.backend.submitted.lock().expect("no test panics while it holds this").clone()
    }
}

/// A browser that keeps cookies and follows redirections.
pub struct Browser {
    pub router: Router,
    pub cookies: BTreeMap<String, String>,
    /// Further header fields of each request.
    pub fields: Vec<(&'static str, String)>,
    /// The path of the last request.
    path: String,
}

/// An answer.
pub struct Page {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Page {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn field(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub fn has(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    /// Returns the value of the first hidden field with a name.
    pub fn hidden(&self, name: &str) -> String {
        let text = self.text();
        let start = format!("name=\"{name}\" value=\"");
        let found = text.split_once(&start).and_then(|(_, rest)| rest.split_once('"'));
        unescaped(found.unwrap_or_else(|| panic!("no field {name} in {text}")).0)
    }

    /// Returns the address of the link with a text.
    pub fn link(&self, label: &str) -> String {
        let text = self.text();
        let end = text.find(&format!(">{label}<")).unwrap_or_else(|| panic!("no link {label} in {text}"));
        let start = text[..end].rfind("href=\"").expect("a link") + 6;
        let address = &text[start..end];
        unescaped(&address[..address.find('"').expect("the end of the address")])
    }
}

fn unescaped(text: &str) -> String {
    let pairs = [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// A file of a form.
pub struct File<'f>(pub &'f str, pub &'f str, pub &'f [u8]);

impl Browser {
    /// Opens another tab.
    pub fn tab(&self) -> Self {
        Self {
            router: self.router.clone(),
            cookies: self.cookies.clone(),
            fields: self.fields.clone(),
            path: String::new(),
        }
    }

    /// Sends a request, without following a redirection.
    pub async fn send(&mut self, method: &str, path: &str, kind: Option<&str>, body: Vec<u8>) -> Page {
        // A link may name only the query of another view of the same page.
        let path = if path.starts_with('?') { format!("{}{path}", self.path) } else { path.to_owned() };
        path.split('?').next().unwrap_or_default().clone_into(&mut self.path);
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(header::HOST, "localhost");
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header(header::COOKIE, cookies.join("; "));
        }
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        for (name, value) in &self.fields {
            request = request.header(HeaderName::from_static(name), value);
        }
        let mut request = request.body(Body::from(body)).expect("a request");
        request.extensions_mut().insert(RequestContext::new(Peer::local()));
        let response = match self.router.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let (head, body) = response.into_parts();
        for cookie in head.headers.get_all(header::SET_COOKIE) {
            self.keep(cookie);
        }
        let body = to_bytes(body, 64 << 20).await.expect("the answer is complete").to_vec();
        Page { status: head.status, headers: head.headers, body }
    }

    fn keep(&mut self, cookie: &HeaderValue) {
        let text = cookie.to_str().expect("ASCII");
        let (name, value) = text.split(';').next().and_then(|pair| pair.split_once('=')).expect("a pair");
        if text.contains("Max-Age=0") {
            self.cookies.remove(name);
        } else {
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
    }

    async fn follow(&mut self, mut page: Page) -> Page {
        while page.status == StatusCode::SEE_OTHER {
            let target = page.field("location").to_owned();
            page = self.send("GET", &target, None, Vec::new()).await;
        }
        page
    }

    pub async fn get(&mut self, path: &str) -> Page {
        let page = self.send("GET", path, None, Vec::new()).await;
        self.follow(page).await
    }

    /// Sends a form without following a redirection.
    pub async fn post_only(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let mut body = String::new();
        for (name, value) in fields {
            let encode = |text: &str| {
                percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
            };
            body.push_str(&format!("{}={}&", encode(name), encode(value)));
        }
        self.send("POST", path, Some("application/x-www-form-urlencoded"), body.into_bytes()).await
    }

    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Page {
        let page = self.post_only(path, fields).await;
        self.follow(page).await
    }

    /// Sends a form with the fields of the composer on a page, changed by others, and files.
    pub async fn compose(&mut self, page: &Page, fields: &[(&str, &str)], files: &[File<'_>]) -> Page {
        let hidden = ["token", "form", "draft", "in_reply_to", "references", "original"];
        let present = hidden.into_iter().filter(|name| page.has(&format!("name=\"{name}\"")));
        let mut all: Vec<(&str, String)> = present.map(|name| (name, page.hidden(name))).collect();
        all.extend(["to", "cc", "bcc", "subject"].map(|name| (name, page.hidden(name))));
        all.retain(|(name, _)| !fields.iter().any(|(other, _)| other == name));
        all.extend(fields.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let mut body = Vec::new();
        for (name, value) in &all {
            let part = format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
            body.extend_from_slice(part.as_bytes());
        }
        for File(name, kind, content) in files {
            let part = format!(
                "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {kind}\r\n\r\n"
            );
            body.extend_from_slice(part.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let answer = self.send("POST", "/lite/compose", Some("multipart/form-data; boundary=xyz"), body).await;
        self.follow(answer).await
    }

    pub async fn log_in(&mut self, name: &str, password: &str) -> Page {
        let page = self.get("/lite/login").await;
        let token = page.hidden("token");
        self.post("/lite/login", &[("token", &token), ("name", name), ("password", password)]).await
    }
}
