//! Sessions: logins that a browser makes once and then refers to by a random token.
//!
//! A session is a note of `sessions.nsf`, a database of the server alone, so sessions survive a restart, and a person
//! can see and end them. The note has a digest of the token and never the token: nobody who reads the database, or a
//! backup of it, can use a session. All sessions are in memory too, where every request looks for its own. When a
//! session was last used is written at most every [`SESSION_USE_INTERVAL`].
//!
//! A session ends by a logout, after its idle time, after its absolute lifetime, and with the next request after a
//! change of the password or of the right to log in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderValue;
use base::sync::Mutex;
use base::{Clock, Name, NoteId, Random, Timestamp, hex};
use notes::{
    Access, Database, DatabaseKind, Databases, Identity, Item, ItemValue, NewNote, Note, OwnDatabase,
    for_each_own_document, level,
};
use sasl::{ApplicationPasswordId, LoginPassword, LoginScope};
use store::Ticket;
use tokio::sync::Notify;

mod uses;

pub use uses::Use;

use crate::backend::LoginProof;
use crate::limits::{
    SESSION_CLIENT_BYTES_MAX, SESSION_USE_INTERVAL, SESSIONS_MAX, SESSIONS_PER_PERSON_MAX, SESSIONS_PER_TRANSACTION,
};

/// Path of the database with the sessions.
pub const SESSIONS_PATH: &str = "sessions.nsf";

const DATABASE: OwnDatabase = OwnDatabase { path: SESSIONS_PATH, kind: DatabaseKind::Sessions, content: "Sessions" };

/// Number of random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// Number of bytes of the digest that name a session to its owner.
const NAME_BYTES: usize = 8;

/// Form of the notes.
const FORM: &str = "Session";

/// Items of the notes.
const FORM_ITEM: &str = "Form";
const LOGIN_ITEM: &str = "Login";
const DIGEST_ITEM: &str = "TokenDigest";
const STAMP_ITEM: &str = "PasswordStamp";
const BEGUN_ITEM: &str = "Begun";
const USED_ITEM: &str = "LastUsed";
const ADDRESS_ITEM: &str = "Address";
const CLIENT_ITEM: &str = "Client";
const APPLICATION_ITEM: &str = "ApplicationPassword";
const SCOPE_ITEM: &str = "Scope";
const FACTOR_ITEM: &str = "SecondFactor";

/// Lifetimes of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Time without a request after which a session ends.
    pub idle_time_max: Duration,
    /// Time after its beginning at which a session ends.
    pub age_max: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { idle_time_max: Duration::from_secs(12 * 3_600), age_max: Duration::from_secs(14 * 24 * 3_600) }
    }
}

/// The digest of a session's token, by which the server finds it. A lookup takes no time that depends on the digits of
/// a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 32]);

impl SessionId {
    /// Returns the digest of a token.
    #[must_use]
    pub fn of_token(token: &str) -> Self {
        Self(*blake3::hash(token.as_bytes()).as_bytes())
    }

    /// Returns the name by which people refer to the session. It does not lead to the token.
    #[must_use]
    pub fn name(&self) -> String {
        hex::lower(&self.0[..NAME_BYTES])
    }
}

/// The login of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLogin {
    /// The canonical name.
    pub login: String,
    /// The state of the password when the session began.
    pub stamp: u64,
    /// The password by which it began. The login page takes only that of the account.
    pub password: LoginPassword,
    /// The second factor of which a code was entered: when it was added. `None` if the person had none.
    pub factor: Option<Timestamp>,
}

impl SessionLogin {
    /// Returns what the login has proved.
    #[must_use]
    pub fn proof(&self) -> LoginProof {
        LoginProof { stamp: self.stamp, factor: self.factor }
    }
}

/// The client that began a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionClient {
    /// The address.
    pub address: String,
    /// The description that the client gives of itself; at most [`SESSION_CLIENT_BYTES_MAX`] bytes.
    pub description: String,
}

impl SessionClient {
    /// Creates the description from an address and the field `User-Agent` of a request.
    #[must_use]
    pub fn new(address: IpAddr, user_agent: Option<&HeaderValue>) -> Self {
        let text = user_agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let description = text[..text.floor_char_boundary(SESSION_CLIENT_BYTES_MAX)].to_owned();
        Self { address: address.to_string(), description }
    }
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The digest of its token.
    pub id: SessionId,
    /// The login.
    pub login: SessionLogin,
    /// The client that began it.
    pub client: SessionClient,
    /// When it began.
    pub begun: Timestamp,
    /// When it was last used.
    pub used: Timestamp,
    note: NoteId,
    /// The last use that the note has.
    written: Timestamp,
}

impl Session {
    fn is_valid(&self, now: Timestamp, options: &SessionOptions) -> bool {
        now.since(self.used) < options.idle_time_max && now.since(self.begun) < options.age_max
    }

    fn to_items(&self) -> Vec<Item> {
        let SessionLogin { login, stamp, password, factor } = &self.login;
        let mut items = vec![
            Item::text(FORM_ITEM, FORM),
            Item::text(LOGIN_ITEM, &**login),
            Item::text(DIGEST_ITEM, hex::lower(&self.id.0)),
            Item::text(STAMP_ITEM, stamp.to_string()),
            Item::summary(BEGUN_ITEM, ItemValue::Time(self.begun)),
            Item::summary(USED_ITEM, ItemValue::Time(self.used)),
            Item::text(ADDRESS_ITEM, &*self.client.address),
            Item::text(CLIENT_ITEM, &*self.client.description),
        ];
        if let LoginPassword::Application { id, scope } = password {
            items.push(Item::text(APPLICATION_ITEM, id.to_string()));
            items.push(Item::text(SCOPE_ITEM, scope.name()));
        }
        if let Some(added) = factor {
            items.push(Item::text(FACTOR_ITEM, added.0.to_string()));
        }
        items
    }

    /// Reads a note. Returns `None` for others than those of sessions.
    fn read(note: &Note) -> Option<Self> {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        let time = |name: &str| note.item(name).and_then(|item| item.value.time());
        if text(FORM_ITEM) != FORM {
            return None;
        }
        let used = time(USED_ITEM)?;
        let password = match note.text(APPLICATION_ITEM) {
            None => LoginPassword::Account,
            Some(id) => LoginPassword::Application {
                id: ApplicationPasswordId::parse(id)?,
                scope: LoginScope::parse(&text(SCOPE_ITEM))?,
            },
        };
        let factor = note.text(FACTOR_ITEM).map(str::parse).transpose().ok()?.map(Timestamp);
        let stamp = text(STAMP_ITEM).parse().ok()?;
        Some(Self {
            id: SessionId(hex::parse_array(&text(DIGEST_ITEM))?),
            login: SessionLogin { login: text(LOGIN_ITEM), stamp, password, factor },
            client: SessionClient { address: text(ADDRESS_ITEM), description: text(CLIENT_ITEM) },
            begun: time(BEGUN_ITEM)?,
            used,
            note: note.header.note,
            written: used,
        })
    }
}

/// The sessions of a server.
pub struct Sessions {
    databases: Arc<Databases>,
    server: Name,
    /// The access to their database, which is created with the first session.
    access: Mutex<Option<Arc<Access<level::Depositor>>>>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    options: SessionOptions,
    by_id: Mutex<HashMap<SessionId, Session>>,
    uses: Mutex<HashMap<String, Use>>,
    /// Held while the note of a use is written. Never taken while `uses` is held.
    writing_uses: Mutex<()>,
    /// Notified when sessions have ended.
    ended: Notify,
}

impl Sessions {
    /// Opens the sessions of a server. Their database is created with the first session.
    pub fn open(
        databases: &Arc<Databases>,
        server: &Name,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
        options: SessionOptions,
    ) -> notes::Result<Arc<Self>> {
        let (by_id, uses) = match DATABASE.find(databases)? {
            Some(database) => read_all(&database, server)?,
            None => (HashMap::new(), HashMap::new()),
        };
        let databases = Arc::clone(databases);
        let server = server.clone();
        let access = Mutex::default();
        Ok(Arc::new(Self {
            databases,
            server,
            access,
            clock,
            random,
            options,
            by_id: Mutex::new(by_id),
            uses: Mutex::new(uses),
            writing_uses: Mutex::default(),
            ended: Notify::new(),
        }))
    }

    /// Returns the databases of the server.
    #[must_use]
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// Returns the access to the database of the sessions, which is created if it does not exist. It has also notes
    /// that depend on logins, with other forms.
    pub fn access(&self) -> notes::Result<Arc<Access<level::Depositor>>> {
        let mut known = self.access.lock();
        if let Some(access) = &*known {
            return Ok(Arc::clone(access));
        }
        let database = DATABASE.find_or_create(&self.databases, &self.server)?;
        let itself = Arc::new(Identity::local_server(self.server.clone()));
        let access: Arc<Access<level::Depositor>> = Arc::new(database.authorize(&itself)?);
        *known = Some(Arc::clone(&access));
        Ok(access)
    }

    /// Calls a function for each note of the database of the sessions, if there is one.
    pub fn for_each_note(&self, visit: &mut dyn FnMut(&Note)) -> notes::Result<()> {
        match DATABASE.find(&self.databases)? {
            Some(database) => visit_documents(&database, &self.server, visit),
            None => Ok(()),
        }
    }

    /// Returns a future that ends when what belongs to a ticket is durable.
    pub async fn durable(&self, ticket: Ticket) -> notes::Result<()> {
        Ok(self.databases.store().durable(ticket).await?)
    }

    /// Returns the clock and the random numbers.
    pub(crate) fn sources(&self) -> (Arc<dyn Clock>, Arc<dyn Random>) {
        (Arc::clone(&self.clock), Arc::clone(&self.random))
    }

    /// Returns the absolute lifetime of a session.
    #[must_use]
    pub fn age_max(&self) -> Duration {
        self.options.age_max
    }

    /// Begins a session. Returns its token, and the ticket that must be durable before anybody gets it.
    pub fn begin(&self, login: SessionLogin, client: SessionClient) -> notes::Result<(String, Ticket)> {
        let mut token = [0; TOKEN_BYTES];
        self.random.fill(&mut token);
        let token = hex::lower(&token);
        let now = self.clock.now();
        let id = SessionId::of_token(&token);
        let mut session = Session { id, login, client, begun: now, used: now, note: NoteId(0), written: now };
        let superfluous = self.superfluous(&session.login.login, now);
        let access = self.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        for session in &superfluous {
            transaction.writer(0).note_delete_permanently(session.note)?;
        }
        session.note = transaction.writer(0).note_create(NewNote::document(session.to_items()))?;
        let ticket = transaction.commit()?;
        let mut by_id = self.by_id.lock();
        for session in &superfluous {
            by_id.remove(&session.id);
        }
        by_id.insert(id, session);
        self.ended.notify_waiters();
        Ok((token, ticket))
    }

    /// Returns the session with a token and its login, and counts the use.
    pub fn find(&self, token: &str) -> Option<(SessionId, SessionLogin)> {
        let id = SessionId::of_token(token);
        Some((id, self.count_use(&id)?))
    }

    /// Counts a use of a session, and returns its login. Returns `None` if it has ended: a use revives no session.
    pub fn count_use(&self, id: &SessionId) -> Option<SessionLogin> {
        let now = self.clock.now();
        let mut by_id = self.by_id.lock();
        let session = by_id.get_mut(id)?;
        if !session.is_valid(now, &self.options) {
            return None;
        }
        session.used = now;
        Some(session.login.clone())
    }

    /// Writes the last use of a session into its note, if that is due. What cannot be written is logged: the session
    /// goes on.
    pub fn record_use(&self, id: &SessionId) {
        let due = {
            let mut by_id = self.by_id.lock();
            let session =
                by_id.get_mut(id).filter(|session| session.used.since(session.written) > SESSION_USE_INTERVAL);
            session.map(|session| session.written = session.used)
        };
        if due.is_none() {
            return;
        }
        if let Err(error) = self.rewrite(id, |_| {}) {
            tracing::error!(target: "http", %error, "the last use of a session could not be written");
        }
    }

    /// Records that the person of a session has proved a second factor, which was or will be added at a time, and
    /// returns what was recorded before. Nobody waits for the note: it is durable with any later change.
    pub fn prove_factor(&self, id: &SessionId, added: Option<Timestamp>) -> notes::Result<Option<Timestamp>> {
        let mut before = None;
        self.rewrite(id, |session| before = std::mem::replace(&mut session.login.factor, added))?;
        Ok(before)
    }

    /// Ends a session. What cannot be written is logged: the session ends nevertheless, until a restart.
    pub fn end(&self, id: &SessionId) {
        let ended = self.by_id.lock().get(id).cloned();
        if let Err(error) = self.remove(ended.as_slice()) {
            tracing::error!(target: "http", %error, "the end of a session could not be written");
        }
    }

    /// Returns `true` if a session has not ended.
    #[must_use]
    pub fn is_valid(&self, id: &SessionId) -> bool {
        let now = self.clock.now();
        self.by_id.lock().get(id).is_some_and(|session| session.is_valid(now, &self.options))
    }

    /// Waits until a session has ended. One that nobody uses any more ends when [`Sessions::remove_ended`] finds it.
    pub async fn ended(&self, id: &SessionId) {
        loop {
            let mut notified = pin!(self.ended.notified());
            // The waiter is registered before the check, so that an end in between is not missed.
            notified.as_mut().enable();
            if !self.by_id.lock().contains_key(id) {
                return;
            }
            notified.await;
        }
    }

    /// Ends the session of a person that has this name ([`SessionId::name`]). Returns `false` if there is none.
    pub fn end_by_name(&self, login: &str, name: &str) -> notes::Result<bool> {
        let found = self.list(Some(login)).into_iter().find(|session| session.id.name() == name);
        let Some(session) = found else { return Ok(false) };
        self.remove(std::slice::from_ref(&session))?;
        Ok(true)
    }

    /// Ends all sessions of a person, except one. Returns how many there were.
    pub fn end_all(&self, login: &str, except: Option<&SessionId>) -> notes::Result<usize> {
        let mut ended = self.list(Some(login));
        ended.retain(|session| Some(&session.id) != except);
        self.remove(&ended)?;
        Ok(ended.len())
    }

    /// Returns the sessions of a person, or of all, that have not ended. The one that was used last is the first.
    #[must_use]
    pub fn list(&self, login: Option<&str>) -> Vec<Session> {
        let now = self.clock.now();
        let is_wanted = |session: &&Session| {
            login.is_none_or(|login| login == session.login.login) && session.is_valid(now, &self.options)
        };
        let mut found: Vec<Session> = self.by_id.lock().values().filter(is_wanted).cloned().collect();
        found.sort_by(|one, other| (other.used, one.id.0).cmp(&(one.used, other.id.0)));
        found
    }

    /// Removes the sessions that have ended by their age or without a request. Returns how many there were.
    pub fn remove_ended(&self) -> notes::Result<usize> {
        let now = self.clock.now();
        let is_over = |session: &&Session| !session.is_valid(now, &self.options);
        let ended: Vec<Session> = self.by_id.lock().values().filter(is_over).cloned().collect();
        self.remove(&ended)?;
        Ok(ended.len())
    }

    /// Returns the sessions that end because a person begins another one: those beyond the limits that were used the
    /// longest time ago.
    fn superfluous(&self, login: &str, now: Timestamp) -> Vec<Session> {
        let by_id = self.by_id.lock();
        let mut own: Vec<&Session> = by_id.values().filter(|session| session.login.login == login).collect();
        own.sort_by_key(|session| (session.is_valid(now, &self.options), session.used));
        let surplus = (own.len() + 1).saturating_sub(SESSIONS_PER_PERSON_MAX);
        let mut found: Vec<Session> = own.into_iter().take(surplus).cloned().collect();
        if found.is_empty() && by_id.len() >= SESSIONS_MAX {
            found.extend(by_id.values().min_by_key(|session| session.used).cloned());
        }
        found
    }

    /// Changes a session in memory, and writes its note. A session that has ended is left alone.
    fn rewrite(&self, id: &SessionId, change: impl FnOnce(&mut Session)) -> notes::Result<()> {
        let access = self.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        // Transactions come one after another, so the last note that is written is that of the last change.
        let changed = self.by_id.lock().get_mut(id).map(|session| {
            change(session);
            session.clone()
        });
        let Some(session) = changed else { return Ok(()) };
        let Some(header) = writer.header(session.note)? else { return Ok(()) };
        writer.note_update(session.note, header.revision(), &session.to_items(), &[])?;
        // Nobody waits for it.
        transaction.commit().map(drop)
    }

    /// Ends sessions, and removes their notes.
    fn remove(&self, sessions: &[Session]) -> notes::Result<()> {
        {
            let mut by_id = self.by_id.lock();
            for session in sessions {
                by_id.remove(&session.id);
            }
        }
        if sessions.is_empty() {
            return Ok(());
        }
        self.ended.notify_waiters();
        let access = self.access()?;
        let accesses = [access.as_ref()];
        for part in sessions.chunks(SESSIONS_PER_TRANSACTION) {
            let mut transaction = self.databases.transaction(&accesses)?;
            for session in part {
                transaction.writer(0).note_delete_permanently(session.note)?;
            }
            transaction.commit()?;
        }
        Ok(())
    }
}

fn read_all(
    database: &Arc<Database>,
    server: &Name,
) -> notes::Result<(HashMap<SessionId, Session>, HashMap<String, Use>)> {
    let mut found = HashMap::new();
    let mut uses = HashMap::new();
    visit_documents(database, server, &mut |note| {
        found.extend(Session::read(note).map(|session| (session.id, session)));
        uses.extend(Use::read(note).map(|found| (found.key.clone(), found)));
    })?;
    Ok((found, uses))
}

fn visit_documents(database: &Arc<Database>, server: &Name, visit: &mut dyn FnMut(&Note)) -> notes::Result<()> {
    let damaged = for_each_own_document(database, server, visit)?;
    if damaged > 0 {
        tracing::error!(target: "http", damaged, "damaged documents of the sessions are lost");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base::sim::{SeededRandom, SimClock};
    use notes::ServerSettings;
    use store::memory::MemoryEngine;
    use store::{Store, StoreOptions, SyncMode};

    use super::*;

    const OPTIONS: SessionOptions =
        SessionOptions { idle_time_max: Duration::from_secs(3_600), age_max: Duration::from_secs(86_400) };

    struct World {
        engine: Arc<MemoryEngine>,
        databases: Arc<Databases>,
        clock: Arc<SimClock>,
        random: Arc<SeededRandom>,
    }

    impl World {
        fn new() -> Self {
            let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
            let engine = Arc::new(MemoryEngine::new(1));
            let store = Store::with_engine(Arc::clone(&engine) as _, &options).expect("a store in memory opens");
            let store = Arc::new(store);
            let random = Arc::new(SeededRandom::new(1));
            let clock = Arc::new(SimClock::new());
            let databases = Databases::open_with(store, clock.clone(), random.clone(), ServerSettings::default());
            Self { engine, databases, clock, random }
        }

        /// Opens the sessions, as after a restart.
        fn open(&self) -> Arc<Sessions> {
            let sources: (Arc<dyn Clock>, Arc<dyn Random>) = (self.clock.clone(), self.random.clone());
            Sessions::open(&self.databases, &Name::new("CN=hub/O=Acme"), sources, OPTIONS).expect("they open")
        }
    }

    fn begin(sessions: &Sessions, login: &str) -> String {
        let client = SessionClient { address: "192.0.2.1".to_owned(), description: "Browser".to_owned() };
        sessions.begin(login_by_password(login), client).expect("a sound store").0
    }

    fn login_by_password(login: &str) -> SessionLogin {
        SessionLogin { login: login.to_owned(), stamp: 7, password: LoginPassword::Account, factor: None }
    }

    fn login_of(sessions: &Sessions, token: &str) -> Option<String> {
        sessions.find(token).map(|(_, login)| login.login)
    }

    #[test]
    fn sessions_end_by_logout_idleness_and_age() {
        let world = World::new();
        let sessions = world.open();
        let first = begin(&sessions, "Ann/Acme");
        let second = begin(&sessions, "Ann/Acme");
        assert_ne!(first, second);
        assert_eq!(login_of(&sessions, &first).as_deref(), Some("Ann/Acme"));
        assert_eq!(login_of(&sessions, "0000"), None);
        sessions.end(&SessionId::of_token(&first));
        assert_eq!(login_of(&sessions, &first), None);
        world.clock.advance(OPTIONS.idle_time_max);
        assert_eq!(login_of(&sessions, &second), None, "nobody has used it");
        let third = begin(&sessions, "Ann/Acme");
        for _ in 0..48 {
            assert!(login_of(&sessions, &third).is_some());
            world.clock.advance(OPTIONS.idle_time_max / 2);
        }
        assert_eq!(login_of(&sessions, &third), None, "it is too old");
        assert_eq!(sessions.remove_ended().expect("a sound store"), 2);
        assert_eq!(world.open().list(None), []);
    }

    #[test]
    fn sessions_survive_a_restart_without_their_tokens() {
        let world = World::new();
        let sessions = world.open();
        let token = begin(&sessions, "Ann/Acme");
        begin(&sessions, "Bob/Acme");
        world.clock.advance(SESSION_USE_INTERVAL + Duration::from_secs(1));
        let (id, _) = sessions.find(&token).expect("it is valid");
        sessions.record_use(&id);
        let known = sessions.list(None);
        let reopened = world.open();
        assert_eq!(reopened.list(None), known);
        assert_eq!(reopened.find(&token), Some((id, login_by_password("Ann/Acme"))));
        assert_eq!(reopened.list(Some("Ann/Acme")).len(), 1);
        let names: Vec<String> = reopened.list(Some("Ann/Acme")).iter().map(|session| session.id.name()).collect();
        assert!(!token.contains(&names[0]));
        assert!(!reopened.end_by_name("Bob/Acme", &names[0]).expect("a sound store"), "it is another one's");
        assert!(reopened.end_by_name("Ann/Acme", &names[0]).expect("a sound store"));
        assert_eq!(reopened.end_all("Bob/Acme", None).expect("a sound store"), 1);
        assert_eq!(world.open().list(None), []);
    }

    #[test]
    fn the_session_that_was_used_the_longest_time_ago_gives_way() {
        let world = World::new();
        let sessions = world.open();
        let tokens: Vec<String> = (0..SESSIONS_PER_PERSON_MAX)
            .map(|_| {
                world.clock.advance(Duration::from_secs(1));
                begin(&sessions, "Ann/Acme")
            })
            .collect();
        let other = begin(&sessions, "Bob/Acme");
        world.clock.advance(Duration::from_secs(1));
        assert!(login_of(&sessions, &tokens[0]).is_some());
        begin(&sessions, "Ann/Acme");
        assert!(login_of(&sessions, &tokens[0]).is_some(), "it was just used");
        assert_eq!(login_of(&sessions, &tokens[1]), None);
        assert!(login_of(&sessions, &other).is_some());
        assert_eq!(world.open().list(Some("Ann/Acme")).len(), SESSIONS_PER_PERSON_MAX);
    }

    #[test]
    fn sessions_keep_the_password_by_which_they_began() {
        let world = World::new();
        let sessions = world.open();
        let client = SessionClient { address: "192.0.2.1".to_owned(), description: String::new() };
        let id = ApplicationPasswordId([9; 8]);
        let password = LoginPassword::Application { id, scope: LoginScope::Reading };
        let login = SessionLogin { password, ..login_by_password("Ann/Acme") };
        let (token, _) = sessions.begin(login.clone(), client).expect("a sound store");
        assert_eq!(world.open().find(&token).map(|(_, login)| login), Some(login));
    }

    #[test]
    fn sessions_keep_the_second_factor_that_was_proved() {
        let world = World::new();
        let sessions = world.open();
        let token = begin(&sessions, "Ann/Acme");
        let factor = |sessions: &Sessions| sessions.find(&token).and_then(|(_, login)| login.factor);
        assert_eq!(factor(&world.open()), None);
        let (id, _) = sessions.find(&token).expect("it is valid");
        let added = Timestamp(1_234_567_890_123_456);
        sessions.prove_factor(&id, Some(added)).expect("a sound store");
        assert_eq!((factor(&sessions), factor(&world.open())), (Some(added), Some(added)));
        // A later use does not write the session as it was before.
        world.clock.advance(SESSION_USE_INTERVAL + Duration::from_secs(1));
        sessions.find(&token).expect("it is valid");
        sessions.record_use(&id);
        assert_eq!(factor(&world.open()), Some(added));
        sessions.end(&id);
        sessions.prove_factor(&id, Some(added)).expect("it is left alone");
        assert_eq!((factor(&sessions), factor(&world.open())), (None, None));
    }

    #[test]
    fn uses_are_kept_and_codes_are_used_once_across_a_restart() {
        let world = World::new();
        let sessions = world.open();
        let is_new = |sessions: &Sessions, login: &str, step| {
            sessions.use_code((login, Timestamp(3)), step).expect("a sound store").is_some()
        };
        assert!(is_new(&sessions, "Ann/Acme", 7) && !is_new(&sessions, "Ann/Acme", 7));
        assert!(is_new(&sessions, "Bob/Acme", 7), "that of another person");
        let reopened = world.open();
        assert!(!is_new(&reopened, "Ann/Acme", 6) && is_new(&reopened, "Ann/Acme", 8));
        assert_eq!(reopened.list(None), [], "a use is no session");
        let (id, address) = (ApplicationPasswordId([9; 8]), IpAddr::from([192, 0, 2, 1]));
        reopened.use_application_password(id, address, sasl::LoginProtocol::Imap);
        let used = world.open().application_password_use(id).expect("it was written");
        assert_eq!((used.address.as_str(), used.protocol.as_str()), ("192.0.2.1", "imap"));
        world.clock.advance(Duration::from_secs(1));
        reopened.use_application_password(id, address, sasl::LoginProtocol::Jmap);
        assert_eq!(reopened.application_password_use(id).map(|used| used.protocol).as_deref(), Some("jmap"));
        assert_eq!(world.open().application_password_use(id), Some(used), "it is not written each time");
        reopened.forget_application_password(id).expect("a sound store");
        assert_eq!((reopened.application_password_use(id), world.open().application_password_use(id)), (None, None));
    }

    #[test]
    fn logins_that_write_nothing_do_not_wait_for_the_store() {
        let world = World::new();
        let sessions = world.open();
        let (id, address) = (ApplicationPasswordId([9; 8]), IpAddr::from([192, 0, 2, 1]));
        sessions.use_application_password(id, address, sasl::LoginProtocol::Imap);
        let access = sessions.access().expect("a sound store");
        let accesses = [access.as_ref()];
        // Nobody else writes until this transaction ends.
        let writing = world.databases.transaction(&accesses).expect("a sound store");
        let (first, second) = (Arc::clone(&sessions), Arc::clone(&sessions));
        let user = std::thread::spawn(move || first.use_code(("Ann/Acme", Timestamp(3)), 7).map(|used| used.is_some()));
        let (answer, answered) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            while !second.uses.lock().keys().any(|key| key.starts_with("code ")) {
                std::thread::yield_now();
            }
            second.use_application_password(id, address, sasl::LoginProtocol::Jmap);
            let replayed = second.use_code(("Ann/Acme", Timestamp(3)), 7).map(|used| used.is_some());
            let used = second.application_password_use(id).map(|used| used.protocol);
            answer.send((replayed, used)).is_ok()
        });
        let found = answered.recv_timeout(Duration::from_secs(60));
        drop(writing);
        let (replayed, used) = found.expect("a login waits for the store");
        assert!(!replayed.expect("nothing is written"), "the first request with the code uses it");
        assert_eq!(used.as_deref(), Some("jmap"));
        assert!(user.join().expect("no panic").expect("a sound store"), "the code is used once");
        assert!(reader.join().expect("no panic"));
        assert!(world.open().use_code(("Ann/Acme", Timestamp(3)), 7).expect("a sound store").is_none());
    }

    #[test]
    fn a_use_that_cannot_be_written_is_none() {
        let world = World::new();
        let sessions = world.open();
        let code = |step| sessions.use_code(("Ann/Acme", Timestamp(3)), step).map(|used| used.is_some());
        let (id, address) = (ApplicationPasswordId([9; 8]), IpAddr::from([192, 0, 2, 1]));
        let use_password = || sessions.use_application_password(id, address, sasl::LoginProtocol::Imap);
        assert!(code(7).expect("a sound store"));
        world.engine.faults().set_capacity(0);
        assert!(code(8).is_err());
        use_password();
        assert_eq!(sessions.application_password_use(id), None);
        world.engine.faults().free_disk();
        assert!(!code(7).expect("a sound store"), "the use before it stays");
        assert!(code(8).expect("a sound store") && !code(8).expect("a sound store"));
        use_password();
        assert!(sessions.application_password_use(id).is_some());
        let reopened = world.open();
        assert_eq!(reopened.application_password_use(id), sessions.application_password_use(id));
        assert!(reopened.use_code(("Ann/Acme", Timestamp(3)), 8).expect("a sound store").is_none());
        let mut uses = 0;
        let mut count = |note: &Note| uses += usize::from(Use::read(note).is_some());
        reopened.for_each_note(&mut count).expect("a sound store");
        assert_eq!(uses, 2, "each has one note");
    }
}
