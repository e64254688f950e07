//! A server without HTTP: accounts, mail files in memory, and a clock that only tests advance.
//!
//! The accounts are `alice`, `bob` and `carol`, who has a quota of 20 KiB. In the mail file of `alice`, `dave` is an
//! Editor, `erin` an Author and `frank` a Reader; they have no mail files. The account of a login is `A` and the login.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name, Random};
use http::{SessionOptions, Sessions};
use jmap::backend::{AccountRights, Accounts, IdentityInfo, Scope, Services};
use jmap::blob::{UploadRequest, finish_upload, receive_piece};
use jmap::error::MethodResult;
use jmap::limits::Limits;
use jmap::outbox::Outbox;
use jmap::principal::{PrincipalInfo, PrincipalKind, Principals};
use jmap::push_subscriptions::PushSubscriptions;
use jmap::push_target::PushPolicy;
use jmap::uploads::Uploads;
use jmap::{AccountInfo, Caller};
use mail::full_text::MessageTextReader;
use mail::mailbox::{Flags, MailFile, MailOptions, MailStore, NewMessage};
use mail::router::{
    AddressResolver, ArrivingMessage, DeliveryTarget, Envelope, LocalMailbox, QueueEntry, Recipient, RecordChange,
    Router, RouterOptions, SubmissionRecord,
};
use mail::submission::{NotifiedMessage, RecordedSubmission, Refusal, RefusedRequest, SubmissionRequest};
use notes::{Access, AclEntry, AclLevel, AuthenticationMethod, Databases, Identity, Item, ServerSettings, level};
use search::FullTextIndex;
use serde_json::{Value, json};
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode, Ticket};

/// The logins that have a mail file.
pub const OWNERS: [&str; 3] = ["alice", "bob", "carol"];

/// A server.
pub struct World {
    /// The services.
    pub services: Arc<Services>,
    /// The clock.
    pub clock: Arc<SimClock>,
    /// The router.
    pub router: Arc<Router>,
    /// The logins in browsers.
    pub sessions: Arc<Sessions>,
    /// A number that is different after a change of the password of everybody.
    pub password_stamp: Arc<AtomicU64>,
    /// The engine of the store, which can be made to fail.
    pub engine: Arc<MemoryEngine>,
    /// The accounts whose mail files cannot be opened.
    pub broken: Arc<Mutex<BTreeSet<String>>>,
    /// What happens before the next message is sent.
    pub before_sending: Arc<Mutex<Option<Interruption>>>,
    mail: Arc<MailStore>,
    index: Option<TestIndex>,
    sources: Sources,
}

/// What outlives a restart of the server.
struct Sources {
    engine: Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    random: Arc<SeededRandom>,
}

impl Sources {
    fn databases(&self) -> Arc<Databases> {
        let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
        let engine = Arc::clone(&self.engine) as Arc<dyn store::Engine>;
        let store = Store::with_engine(engine, &options).expect("a store in memory opens");
        let clock = Arc::clone(&self.clock);
        Databases::open_with(Arc::new(store), clock, Arc::clone(&self.random) as _, ServerSettings::default())
    }
}

/// How worlds differ.
#[derive(Default)]
struct WorldOptions {
    has_index: bool,
    policy: PushPolicy,
    mail: MailOptions,
}

/// The full-text index, and its folder.
struct TestIndex {
    index: Arc<FullTextIndex>,
    _folder: tempfile::TempDir,
}

impl TestIndex {
    fn open(databases: &Arc<Databases>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the index");
        let contents: Vec<Box<dyn search::ContentReader>> = vec![Box::new(MessageTextReader { serves_imap: true })];
        let options = search::FullTextOptions { contents, thread_bytes: 16 << 20, ..Default::default() };
        let index = FullTextIndex::open(Arc::clone(databases), folder.path(), options).expect("the index opens");
        Self { index: Arc::new(index), _folder: folder }
    }
}

impl World {
    /// Creates a world, which is always the same.
    pub fn new() -> Self {
        Self::create(WorldOptions::default())
    }

    /// Creates the same world with a full-text index.
    pub fn with_index() -> Self {
        Self::create(WorldOptions { has_index: true, ..WorldOptions::default() })
    }

    /// Creates the same world, which sends pushes to some addresses.
    pub fn with_push(policy: PushPolicy) -> Self {
        Self::create(WorldOptions { policy, ..WorldOptions::default() })
    }

    /// Creates the same world with settings of the operator.
    pub fn with_mail_options(mail: MailOptions) -> Self {
        Self::create(WorldOptions { mail, ..WorldOptions::default() })
    }

    fn create(options: WorldOptions) -> Self {
        let engine = Arc::new(MemoryEngine::new(1));
        let clock = Arc::new(SimClock::new());
        let random = Arc::new(SeededRandom::new(7));
        Self::open(Sources { engine, clock, random }, options)
    }

    /// Restarts the server, without a full-text index and pushes.
    pub fn restart(self) -> Self {
        self.restart_with(MailOptions::default())
    }

    /// Restarts the server with settings of the operator, without a full-text index and pushes.
    pub fn restart_with(self, mail_options: MailOptions) -> Self {
        let Self { sources, services, router, sessions, mail, index, .. } = self;
        drop((services, router, sessions, mail, index));
        Self::open(sources, WorldOptions { mail: mail_options, ..WorldOptions::default() })
    }

    fn open(sources_kept: Sources, world_options: WorldOptions) -> Self {
        let WorldOptions { has_index, policy, mail } = world_options;
        let clock = Arc::clone(&sources_kept.clock);
        let random = Arc::clone(&sources_kept.random);
        let databases = sources_kept.databases();
        let mail = MailStore::new(databases, mail);
        for (login, quota) in OWNERS.into_iter().zip([None, None, Some(20_480)]) {
            mail.create_if_missing(&path(login), login, &name(login), quota).expect("the mail file is created");
        }
        let router = Router::open(Arc::clone(&mail), Arc::new(DemoAddresses), RouterOptions::default());
        let router = router.expect("the queue opens");
        let index = has_index.then(|| TestIndex::open(mail.databases()));
        let full_text = index.as_ref().map(|index| Arc::clone(&index.index));
        let password_stamp = Arc::new(AtomicU64::new(1));
        let sources = || (Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&random) as Arc<dyn Random>);
        let hub = Name::new("CN=hub/O=Demo");
        let sessions = Sessions::open(mail.databases(), &hub, sources(), SessionOptions::default());
        let sessions = sessions.expect("the sessions open");
        let push = PushSubscriptions::open(&sessions, policy, sources()).expect("the subscriptions open");
        let broken: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let outbox = RouterOutbox::new(&router, &mail);
        let before_sending = Arc::clone(&outbox.before_sending);
        let accounts = MemoryAccounts {
            mail: Arc::clone(&mail),
            full_text,
            password_stamp: Arc::clone(&password_stamp),
            broken: Arc::clone(&broken),
        };
        let services = Services {
            accounts: Arc::new(accounts),
            principals: Arc::new(DemoPrincipals),
            uploads: Uploads::open(mail.databases(), &hub, sources()).expect("the uploads open"),
            outbox: Arc::new(outbox),
            running_requests: jmap::outbox::RunningRequests::default(),
            clock: Arc::clone(&clock) as _,
            random,
            limits: Limits {
                set_objects_max: 50,
                get_objects_max: 200,
                mailboxes_per_email_max: 3,
                ..Limits::default()
            },
            message_id_domain: "demo.test".to_owned(),
            push,
            tables: Arc::default(),
        };
        let services = Arc::new(services);
        let sources = sources_kept;
        let engine = Arc::clone(&sources.engine);
        let world = Self {
            services,
            clock,
            router,
            sessions,
            password_stamp,
            engine,
            broken,
            before_sending,
            mail,
            index,
            sources,
        };
        for (login, level) in [("dave", AclLevel::Editor), ("erin", AclLevel::Author), ("frank", AclLevel::Reader)] {
            world.grant("alice", login, level);
        }
        world
    }

    /// Returns the databases.
    pub fn databases(&self) -> &Arc<Databases> {
        self.mail.databases()
    }

    /// Uploads bytes to an account, and returns the object that tells the client about them.
    pub fn upload(&self, caller: &Caller, account: &str, bytes: &[u8], media_type: &str) -> MethodResult<Value> {
        let request = UploadRequest { account: account.to_owned(), media_type: media_type.to_owned() };
        let mut arriving = None;
        receive_piece(&self.services, (caller, &request), &mut arriving, bytes)?;
        loop {
            if let Some((object, ticket)) = finish_upload(&self.services, (caller, &request), &mut arriving)? {
                self.databases().store().durable(ticket).wait().expect("the store works");
                return Ok(object);
            }
        }
    }

    /// Returns the time some days after the present one, as a UTCDate.
    pub fn clock_after_days(&self, days: u64) -> String {
        self.clock.now().after(std::time::Duration::from_secs(days * 24 * 3_600)).to_rfc3339()
    }

    /// Opens a mail file as the server does for delivery.
    pub fn open_as_server(&self, login: &str) -> MailFile {
        self.mail.open_as_server(&path(login)).expect("the mail file exists")
    }

    /// Restricts the readers of a message to its owner.
    pub fn hide(&self, owner: &str, email_id: &str) {
        let file = self.open_as_server(owner);
        let unid = email_id.trim_start_matches('M').parse().expect("an identifier");
        let accesses = [file.depositor()];
        let mut transaction = self.mail.databases().transaction(&accesses).expect("a transaction");
        let mut writer = transaction.writer(0);
        let note = writer.find(unid).expect("the store works").expect("the message exists");
        let mut stored = writer.note(note).expect("the store works").expect("the message has contents");
        stored.items.push(Item::readers("DocReaders", vec![name(owner).canonical().to_owned()]));
        let updated = writer.note_update(note, stored.header.revision(), &stored.items, &stored.blobs);
        updated.expect("the server may");
        let ticket = transaction.commit().expect("a commit");
        file.durable(ticket).wait().expect("the store works");
    }

    /// Updates the full-text index of a mail file.
    pub fn update_index(&self, login: &str) {
        let Some(TestIndex { index, .. }) = &self.index else { return };
        let file = self.open_as_server(login);
        let access = file.database().authorize(&Arc::new(Identity::local_server(""))).expect("the server has access");
        while !index.update(&access, 1_000, &|| false).expect("an update").complete {}
        index.commit().expect("a commit");
    }

    /// Sets the level of a person in the access control list of a mail file.
    pub fn grant(&self, owner: &str, person: &str, level: AclLevel) {
        let file = self.open_as_server(owner);
        let server = Arc::new(Identity::local_server(""));
        let access: Access<level::Depositor> = file.database().authorize(&server).expect("the server has access");
        let accesses = [&access];
        let mut transaction = self.mail.databases().transaction(&accesses).expect("a transaction");
        let mut acl = (*file.snapshot().expect("a snapshot").reading().acl()).clone();
        acl.entries.retain(|entry| entry.name != name(person));
        acl.entries.push(AclEntry::new(name(person), level));
        transaction.writer(0).acl_set(acl).expect("the list is valid");
        let ticket = transaction.commit().expect("a commit");
        file.durable(ticket).wait().expect("the store works");
    }

    /// Delivers a message to a mailbox, as the router does.
    pub fn deliver(&self, login: &str, mailbox: &str, raw: &[u8]) {
        let file = self.open_as_server(login);
        let folder = file.snapshot().and_then(|snapshot| snapshot.folder(mailbox)).expect("the store works");
        let message = NewMessage { raw: raw.to_vec(), flags: Flags::default(), received: None };
        let folder = folder.expect("the mailbox exists").id;
        let (_, _, ticket) = file.append(folder, &[message]).expect("the message is stored");
        file.durable(ticket).wait().expect("the store works");
    }

    /// Executes a request body, and returns the reply as JSON, or the problem document.
    pub fn request(&self, login: &str, body: &[u8]) -> Result<Value, Value> {
        self.request_as(&caller(login), body)
    }

    fn request_as(&self, caller: &Caller, body: &[u8]) -> Result<Value, Value> {
        let reply = jmap::execute(&self.services, caller, body).map_err(|problem| problem.to_json())?;
        if let Some(ticket) = reply.ticket {
            self.mail.databases().store().durable(ticket).wait().expect("the store works");
        }
        Ok(serde_json::from_slice(&reply.body).expect("a reply is JSON"))
    }

    /// Executes method calls with all capabilities, and returns the responses.
    pub fn calls(&self, login: &str, calls: &Value) -> Value {
        self.calls_as(&caller(login), calls)
    }

    /// Executes method calls of a caller with all capabilities, and returns the responses.
    pub fn calls_as(&self, caller: &Caller, calls: &Value) -> Value {
        let body = json!({ "using": jmap::session::CAPABILITIES, "methodCalls": calls });
        let reply = self.request_as(caller, body.to_string().as_bytes()).expect("the request is valid");
        reply["methodResponses"].clone()
    }

    /// Executes a method call, and returns the arguments of its response.
    pub fn call(&self, login: &str, method: &str, arguments: Value) -> Value {
        let responses = self.calls(login, &json!([[method, arguments, "c"]]));
        assert_eq!(responses[0][0], method, "{arguments} failed: {responses}");
        responses[0][1].clone()
    }
}

/// Returns the caller of a login.
pub fn caller(login: &str) -> Caller {
    Caller { login: login.to_owned(), scope: Scope::All, credential: String::new() }
}

/// Returns the Session object of a caller.
pub fn session(world: &World, caller: &Caller) -> Value {
    let urls = jmap::SessionUrls {
        api: "/jmap/".to_owned(),
        download: "/d".to_owned(),
        upload: "/u".to_owned(),
        event_source: "/e".to_owned(),
        websocket: None,
    };
    jmap::session(&world.services, caller, &urls).expect("a session")
}

/// Returns the identifier of an account.
pub fn account(login: &str) -> String {
    format!("A{login}")
}

fn name(login: &str) -> Name {
    Name::new(&format!("{login}@demo.test"))
}

fn path(login: &str) -> String {
    format!("mail/{login}.nsf")
}

struct MemoryAccounts {
    mail: Arc<MailStore>,
    full_text: Option<Arc<FullTextIndex>>,
    password_stamp: Arc<AtomicU64>,
    broken: Arc<Mutex<BTreeSet<String>>>,
}

impl MemoryAccounts {
    fn open_file(&self, caller: &Caller, id: &str) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        let Some(owner) = OWNERS.into_iter().find(|owner| account(owner) == id) else { return Ok(None) };
        let person = Identity::person(name(&caller.login)).authenticated(AuthenticationMethod::Password);
        let file = self.mail.open(&path(owner), &Arc::new(person))?;
        let grant = file.depositor().grant()?;
        let info = AccountInfo {
            id: id.to_owned(),
            name: format!("{owner}@demo.test"),
            is_personal: caller.login == owner,
            rights: AccountRights::of(&grant),
            owner: Some(format!("P{owner}")),
        };
        Ok(Some((info, file)))
    }
}

impl Accounts for MemoryAccounts {
    fn accounts(&self, caller: &Caller) -> mail::Result<Vec<AccountInfo>> {
        let mut found = Vec::new();
        for owner in OWNERS {
            if let Ok(Some((info, _))) = self.open_file(caller, &account(owner)) {
                found.push(info);
            }
        }
        found.sort_by_key(|info| !info.is_personal);
        Ok(found)
    }

    fn open(&self, caller: &Caller, id: &str) -> mail::Result<Option<(AccountInfo, MailFile)>> {
        match self.broken.lock().expect("no test panics with it").contains(id) {
            true => Err(mail::Error::Unavailable("mail file")),
            false => self.open_file(caller, id),
        }
    }

    fn identities(&self, caller: &Caller) -> mail::Result<Vec<IdentityInfo>> {
        let email = format!("{}@demo.test", caller.login);
        Ok(vec![IdentityInfo { id: "I1".to_owned(), name: caller.login.clone(), email }])
    }

    fn password_stamp(&self, _: &Caller) -> mail::Result<Option<u64>> {
        Ok(Some(self.password_stamp.load(Ordering::SeqCst)))
    }

    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        Ok(self.full_text.clone())
    }
}

/// The people of demo.test, and a group.
struct DemoPrincipals;

impl DemoPrincipals {
    fn all() -> Vec<PrincipalInfo> {
        let person = |login: &str| PrincipalInfo {
            id: format!("P{login}"),
            kind: PrincipalKind::Individual,
            name: format!("{} Demo", login[..1].to_uppercase() + &login[1..]),
            description: None,
            email: Some(format!("{login}@demo.test")),
        };
        let group = PrincipalInfo {
            id: "Pteam".to_owned(),
            kind: PrincipalKind::Group,
            name: "Team".to_owned(),
            description: Some("Everybody who tests".to_owned()),
            email: None,
        };
        OWNERS.into_iter().map(person).chain([group]).collect()
    }
}

impl Principals for DemoPrincipals {
    fn state(&self) -> mail::Result<String> {
        Ok("1".to_owned())
    }

    fn for_each(&self, exact: &[String], each: &mut dyn FnMut(&PrincipalInfo)) -> mail::Result<()> {
        Self::all().iter().for_each(&mut *each);
        // Somebody in a part of the directory that is not listed.
        if exact.iter().any(|text| text.eq_ignore_ascii_case("zoe@demo.test")) {
            let found = self.find("Pzoe")?;
            found.iter().for_each(each);
        }
        Ok(())
    }

    fn find(&self, id: &str) -> mail::Result<Option<PrincipalInfo>> {
        let zoe = PrincipalInfo {
            id: "Pzoe".to_owned(),
            kind: PrincipalKind::Individual,
            name: "Zoe".to_owned(),
            description: None,
            email: Some("zoe@demo.test".to_owned()),
        };
        Ok(Self::all().into_iter().chain([zoe]).find(|info| info.id == id))
    }
}

/// The addresses of demo.test, which are those of the owners. All others are remote.
struct DemoAddresses;

impl AddressResolver for DemoAddresses {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        let Some(login) = address.strip_suffix("@demo.test") else {
            return Ok(vec![DeliveryTarget::Remote(address.to_owned())]);
        };
        Ok(vec![DeliveryTarget::Local(LocalMailbox {
            mail_file: path(login),
            title: login.to_owned(),
            owner: name(login),
            quota_bytes: None,
            other_server: None,
        })])
    }
}

/// Returns `true` if the outbox refuses a recipient.
fn is_unknown(address: &str) -> bool {
    address.starts_with("gone")
}

/// Sends with the router alone: a sender needs only an address of its own, and addresses that begin with `gone` are
/// unknown.
struct RouterOutbox {
    router: Arc<Router>,
    mail: Arc<MailStore>,
    before_sending: Arc<Mutex<Option<Interruption>>>,
}

/// What happens once, after a call has read the message that it sends something about, and before it sends it.
pub type Interruption = Box<dyn FnOnce() + Send>;

impl RouterOutbox {
    fn new(router: &Arc<Router>, mail: &Arc<MailStore>) -> Self {
        Self { router: Arc::clone(router), mail: Arc::clone(mail), before_sending: Arc::default() }
    }

    fn accept(
        &self,
        request: SubmissionRequest,
        recorded: RecordedSubmission,
        is_notification: bool,
    ) -> Result<Ticket, RefusedRequest> {
        let interruption = self.before_sending.lock().expect("no test panics with it").take();
        if let Some(interruption) = interruption {
            interruption();
        }
        if request.sender != format!("{}@demo.test", request.login) {
            return Err(Refusal::Sender("This is not your address".to_owned()).into());
        }
        if let Some(unknown) = request.recipients.iter().find(|address| is_unknown(address)) {
            return Err(RefusedRequest { recipient: Some(unknown.clone()), refusal: Refusal::UnknownRecipient });
        }
        let recipients = request.recipients.iter().map(|address| Recipient::new(address)).collect();
        let mut envelope =
            Envelope { id: recorded.id, reverse_path: request.sender, recipients, ..Envelope::default() };
        if is_notification {
            envelope.become_notification();
        }
        let targets: Vec<Arc<[DeliveryTarget]>> = envelope
            .recipients
            .iter()
            .map(|recipient| DemoAddresses.targets(&recipient.address).expect("no lookup fails").into())
            .collect();
        let arriving = ArrivingMessage {
            envelope: &envelope,
            targets: &targets,
            raw: &request.message,
            release_at: recorded.release_at,
            record: Some(recorded.record),
        };
        match self.router.accept_resolved(arriving) {
            Ok(accepted) => Ok(accepted.ticket),
            Err(error @ (mail::Error::AlreadyNotified | mail::Error::NotifiedMessageGone)) => {
                Err(Refusal::from(&error).into())
            }
            Err(error) => panic!("the store works: {error}"),
        }
    }
}

impl Outbox for RouterOutbox {
    fn submit(&self, request: SubmissionRequest, recorded: RecordedSubmission) -> Result<Ticket, RefusedRequest> {
        self.accept(request, recorded, false)
    }

    fn submit_notification(
        &self,
        request: SubmissionRequest,
        about: NotifiedMessage,
    ) -> Result<Ticket, RefusedRequest> {
        let NotifiedMessage { mail_file, note } = about;
        let record = SubmissionRecord { mail_file, change: RecordChange::Notified(note) };
        self.accept(request, RecordedSubmission { id: format!("N{note}"), release_at: None, record }, true)
    }

    fn withdraw(&self, id: &str, record: SubmissionRecord) -> mail::Result<Option<Ticket>> {
        self.router.withdraw(id, record)
    }

    fn queued_message(&self, id: &str) -> Option<QueueEntry> {
        self.router.message_with_id(id)
    }

    fn refused_recipients(&self, addresses: &[String]) -> Vec<String> {
        addresses.iter().filter(|address| is_unknown(address)).cloned().collect()
    }

    fn recipients_max(&self) -> usize {
        100
    }

    fn message_bytes_max(&self) -> u64 {
        self.mail.options().message_bytes_max
    }
}
