//! A server without sockets: accounts, mail files in memory, and a clock that only tests advance.
//!
//! The accounts are `alice`, `bob` and `carol` (with a quota of 10 KiB), all with the password `secret`; `dora`,
//! who is disabled; and `erin`, who has no mail file. SCRAM-SHA-256 plays the example of RFC 7677 for `alice`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Name;
use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use imap::backend::{Accounts, FullTextProvider};
use imap::session::{SessionContext, SessionOptions};
use mail::full_text::MessageTextReader;
use mail::mailbox::{Flags, MailFile, MailOptions, MailStore, NewMessage};
use notes::{Acl, AuthenticationMethod, DatabaseKind, Databases, Identity, NewDatabase, ServerSettings, UidRank};
use sasl::sim::ExampleScram;
use sasl::{ClientFirst, Credentials, Login, LoginError, LoginOrigin, PasswordRequest, ScramServer};
use search::FullTextIndex;
use store::memory::MemoryEngine;
use store::{Store, SyncMode};

/// Data that the sessions of one dialogue share.
pub struct TestServer {
    /// The clock, for dialogues that advance the time.
    pub clock: Arc<SimClock>,
    /// The shared data for sessions.
    pub context: Arc<SessionContext>,
    /// The shared data for sessions that search without an index.
    pub context_without_index: Arc<SessionContext>,
    /// Number of times that sessions requested the index.
    pub index_uses: Arc<AtomicUsize>,
    /// Number of logins that ended because the mail file could not be opened.
    pub ended_logins: Arc<AtomicUsize>,
    mail: Arc<MailStore>,
    index: Arc<FullTextIndex>,
    _index_folder: tempfile::TempDir,
}

impl TestServer {
    /// Creates an empty world, which is always the same.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Creates an empty world with changed options.
    pub fn with(change: impl FnOnce(&mut SessionOptions)) -> Self {
        Self::create(change, MemoryShares::unlimited(), None)
    }

    /// Creates an empty world that shares the UIDs of mailboxes with those of other ranks. Only the one of the rank 0
    /// has mail files. In the others, alice's is an empty replica.
    pub fn sharing(rank: u8) -> Self {
        Self::create(|_| {}, MemoryShares::unlimited(), UidRank::new(rank).map(|uid_rank| (uid_rank, rank)))
    }

    /// Creates an empty world with limited memory for commands.
    pub fn with_memory(memory: Arc<MemoryShares>) -> Self {
        Self::create(|_| {}, memory, None)
    }

    fn create(
        change: impl FnOnce(&mut SessionOptions),
        memory: Arc<MemoryShares>,
        sharing: Option<(UidRank, u8)>,
    ) -> Self {
        let options = store::StoreOptions { sync: SyncMode::Each, ..store::StoreOptions::default() };
        let store =
            Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
        let clock = Arc::new(SimClock::new());
        let rank = sharing.map_or(0, |(_, number)| number);
        let settings = ServerSettings { uid_rank: sharing.map(|(rank, _)| rank), ..ServerSettings::default() };
        let random = Arc::new(SeededRandom::new(7 + u64::from(rank)));
        let databases = Databases::open_with(store, Arc::clone(&clock) as _, random, settings);
        let folder = tempfile::tempdir().expect("a folder for the index");
        let index = Arc::new(open_index(&databases, folder.path()));
        let mail = MailStore::new(databases, MailOptions::default());
        let ended_logins = Arc::new(AtomicUsize::new(0));
        let accounts = MemoryAccounts { mail: Arc::clone(&mail), ended_logins: Arc::clone(&ended_logins) };
        if rank == 0 {
            for (login, quota_bytes) in [("alice", None), ("bob", None), ("carol", Some(10_240))] {
                accounts.ensure(login, quota_bytes);
            }
        } else {
            accounts.create_replica("alice");
        }
        let mut options = SessionOptions {
            starttls: true,
            append_bytes_max: 1 << 20,
            jmap_session_url: Some("https://mail.demo.test/jmap/session".to_owned()),
            ..SessionOptions::default()
        };
        change(&mut options);
        let accounts: Arc<dyn Accounts> = Arc::new(accounts);
        let context = || {
            let clock = Arc::clone(&clock) as _;
            SessionContext::new(Arc::clone(&accounts), clock, options.clone(), Arc::clone(&memory))
        };
        let index_uses = Arc::new(AtomicUsize::new(0));
        let found = Arc::clone(&index);
        let uses = Arc::clone(&index_uses);
        let full_text: FullTextProvider = Arc::new(move || {
            uses.fetch_add(1, Ordering::Relaxed);
            Ok(Some(Arc::clone(&found)))
        });
        let context_without_index = Arc::new(context());
        let context = Arc::new(context().with_full_text(full_text));
        Self { clock, context, context_without_index, index_uses, ended_logins, mail, index, _index_folder: folder }
    }

    /// Returns the full-text index.
    pub fn search(&self) -> Arc<FullTextIndex> {
        Arc::clone(&self.index)
    }

    /// Updates the full-text index of a mail file.
    pub fn index(&self, login: &str) {
        let file = self.open_as_server(login);
        let access =
            file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server may change the ACL");
        while !self.index.update(&access, 1_000, &|| false).expect("an update").complete {}
        self.index.commit().expect("a commit");
    }

    /// Returns the databases.
    pub fn databases(&self) -> &Arc<Databases> {
        self.mail.databases()
    }

    /// Opens a mail file as the server does for delivery.
    pub fn open_as_server(&self, login: &str) -> MailFile {
        self.mail.open_as_server(&path(login)).expect("the mail file exists")
    }
}

/// Delivers a message to the inbox, as the router does.
pub fn deliver(file: &MailFile, raw: &[u8]) {
    let inbox = file
        .snapshot()
        .and_then(|snapshot| snapshot.folder("INBOX"))
        .expect("the store works")
        .expect("there is an inbox");
    let message = NewMessage { raw: raw.to_vec(), flags: Flags::default(), received: None };
    let (_, _, ticket) = file.append(inbox.id, &[message]).expect("the message is stored");
    file.durable(ticket).wait().expect("the store works");
}

fn open_index(databases: &Arc<Databases>, folder: &Path) -> FullTextIndex {
    let contents: Vec<Box<dyn search::ContentReader>> = vec![Box::new(MessageTextReader { serves_imap: true })];
    let options = search::FullTextOptions { contents, thread_bytes: 16 << 20, ..search::FullTextOptions::default() };
    FullTextIndex::open(Arc::clone(databases), folder, options).expect("the index opens")
}

struct MemoryAccounts {
    mail: Arc<MailStore>,
    ended_logins: Arc<AtomicUsize>,
}

impl MemoryAccounts {
    fn ensure(&self, login: &str, quota_bytes: Option<u64>) {
        let owner = Name::new(&format!("{login}@demo.test"));
        self.mail.create_if_missing(&path(login), login, &owner, quota_bytes).expect("the mail file is created");
    }

    /// Creates a replica of a mail file before anything has been replicated.
    fn create_replica(&self, login: &str) {
        let owner = Name::new(&format!("{login}@demo.test"));
        let acl = Acl::private(&owner).with_domain_servers();
        let new = NewDatabase { owner, ..NewDatabase::new(&path(login), login, DatabaseKind::Mail, acl) };
        self.mail.databases().database_create(&new).expect("the mail file is created");
    }
}

/// Returns the path of a mail file.
pub fn path(login: &str) -> String {
    format!("mail/{login}.nsf")
}

impl Credentials for MemoryAccounts {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        let login = request.authentication_id().to_ascii_lowercase();
        match (login.as_str(), request.password(), request.authorization_id()) {
            ("dora", "secret", _) => Err(LoginError::AccountDisabled),
            ("alice" | "bob" | "carol", "secret", Some(_)) => Err(LoginError::NotAuthorized),
            ("alice" | "bob" | "carol" | "erin", "secret", None) => Ok(Login::new(login)),
            _ => Err(LoginError::InvalidCredentials),
        }
    }

    fn is_password_known(&self, _: &LoginOrigin, request: &PasswordRequest) -> bool {
        request.authentication_id().eq_ignore_ascii_case("bob") && request.password() == "secret"
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        Ok(ExampleScram::begin(first, Login::new("alice")))
    }

    fn end_login(&self, _: &LoginOrigin) {
        self.ended_logins.fetch_add(1, Ordering::Relaxed);
    }
}

impl Accounts for MemoryAccounts {
    fn open(&self, _: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError> {
        let login = login.authorization.as_str();
        let person = Identity::person(format!("{login}@demo.test").as_str());
        let identity = Arc::new(person.authenticated(AuthenticationMethod::Password));
        self.mail.open(&path(login), &identity).map_err(|_| LoginError::Unavailable)
    }
}
