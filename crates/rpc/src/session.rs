//! Sessions: their tokens, their owners and their end.
//!
//! A token consists of 48 random bytes in base64url: 16 bytes of session ID and 32 bytes of secret. The session is
//! looked up by its ID, and the secret is compared in constant time, so that neither can be guessed from response
//! times. Tokens are kept in memory only: after a restart, all clients must log in again.
//!
//! Invariants: an account has at most [`SessionLimits::per_account`] sessions, and the server at most
//! [`SessionLimits::total`]; an additional session of an account ends its session that was idle longest; a session that
//! was dismissed, was idle too long or is too old is never found again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::memory::{MemoryBudget, MemoryOwner, MemoryShares};
use base::sync::{Mutex, MutexGuard};
use base::{Clock, Name, Random, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sasl::{Login, LoginScope};
use subtle::ConstantTimeEq;
use wire::{JobOwner, SessionTermination};

use crate::backend::{ServerCertificate, SessionSlot};
use crate::error::{Error, Result};

const ID_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// Number of characters in a token.
pub const TOKEN_CHARACTERS: usize = 64;

/// The limits for the number and the lifetime of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLimits {
    /// Maximum number of sessions of one account.
    pub per_account: usize,
    /// Maximum number of sessions of all accounts together.
    pub total: usize,
    /// Maximum idle time of a session.
    pub idle: Duration,
    /// Maximum lifetime of a session.
    pub age: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            per_account: 100,
            total: 100_000,
            idle: Duration::from_secs(30 * 60),
            age: Duration::from_secs(24 * 3_600),
        }
    }
}

/// The owner of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionOwner {
    /// A person who has logged in, by canonical name.
    Person(String),
    /// A server that has presented a certificate.
    Server(Name),
    /// The person who works on a local store ([`crate::Services::local_person`]).
    LocalPerson(Name),
}

/// An authenticated session.
pub struct Session {
    /// The owner.
    pub owner: SessionOwner,
    /// The owner of the session's jobs in the worker pool.
    pub job_owner: JobOwner,
    /// The time at which the session ends even if it is in use; `None` if it ends with its connection.
    pub ends: Option<Timestamp>,
    /// The memory that its calls may hold: the share of the account.
    pub budget: MemoryBudget,
    /// What the password of the login permits.
    pub scope: LoginScope,
    /// The certificate of a server; `None` for people.
    pub certificate: Option<ServerCertificate>,
    id: [u8; ID_BYTES],
    secret: [u8; SECRET_BYTES],
    /// The time at which the session started, in milliseconds of the monotonic clock. `used_ms` is the time of its last
    /// use.
    begun_ms: u64,
    used_ms: AtomicU64,
    /// The signal that ends the session early. It comes from the session slot, so that a change of the account also
    /// ends the session.
    termination: SessionTermination,
    /// The session slot, released with the session.
    _slot: Option<Box<dyn SessionSlot>>,
}

impl Session {
    /// Creates the session of a server that has presented its certificate. It ends with its connection.
    #[must_use]
    pub fn of_server(server: ServerCertificate, termination: SessionTermination, budget: MemoryBudget) -> Arc<Self> {
        let owner = SessionOwner::Server(server.name.clone());
        let session = Self::of_connection(owner, &server.name, termination, budget);
        Arc::new(Self { certificate: Some(server), ..session })
    }

    /// Creates the session of the person who works on a local store. It ends with its connection.
    #[must_use]
    pub fn of_local_person(name: &Name, termination: SessionTermination, budget: MemoryBudget) -> Arc<Self> {
        Arc::new(Self::of_connection(SessionOwner::LocalPerson(name.clone()), name, termination, budget))
    }

    fn of_connection(owner: SessionOwner, name: &Name, termination: SessionTermination, budget: MemoryBudget) -> Self {
        Self {
            job_owner: JobOwner::account(name.canonical()),
            owner,
            ends: None,
            budget,
            scope: LoginScope::All,
            certificate: None,
            id: [0; ID_BYTES],
            secret: [0; SECRET_BYTES],
            begun_ms: 0,
            used_ms: AtomicU64::new(0),
            termination,
            _slot: None,
        }
    }

    /// Returns `true` if the session was ended early.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.termination.is_terminated()
    }

    /// Waits until the session is ended early.
    pub async fn ended(&self) {
        self.termination.terminated().await;
    }
}

/// All sessions.
pub struct Sessions {
    limits: SessionLimits,
    /// The memory that calls may hold, by account.
    memory: Arc<MemoryShares>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    open: Mutex<SessionTable>,
}

/// The sessions by token ID, and by owner.
#[derive(Default)]
struct SessionTable {
    sessions: HashMap<[u8; ID_BYTES], Arc<Session>>,
    /// The token IDs of exactly the entries in `sessions`, by owner. No list is empty.
    accounts: HashMap<SessionOwner, Vec<[u8; ID_BYTES]>>,
}

impl SessionTable {
    fn insert(&mut self, session: Arc<Session>) {
        self.accounts.entry(session.owner.clone()).or_default().push(session.id);
        self.sessions.insert(session.id, session);
    }

    fn remove(&mut self, id: &[u8; ID_BYTES]) {
        let Some(session) = self.sessions.remove(id) else { return };
        let Some(ids) = self.accounts.get_mut(&session.owner) else { return };
        ids.retain(|other| other != id);
        if ids.is_empty() {
            self.accounts.remove(&session.owner);
        }
    }

    /// Returns the session that was idle longest if the owner has at least `count` sessions, and `None` otherwise.
    fn longest_idle(&self, owner: &SessionOwner, count: usize) -> Option<Arc<Session>> {
        let ids = self.accounts.get(owner).filter(|ids| ids.len() >= count)?;
        let sessions = ids.iter().filter_map(|id| self.sessions.get(id));
        sessions.min_by_key(|session| session.used_ms.load(Ordering::Relaxed)).cloned()
    }
}

impl Sessions {
    /// Creates an empty registry of sessions.
    #[must_use]
    pub fn new(
        limits: SessionLimits,
        memory: Arc<MemoryShares>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self { limits, memory, clock, random, open: Mutex::default() }
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> &SessionLimits {
        &self.limits
    }

    /// Starts a session for an authenticated person. Returns its token and the session.
    pub fn begin(&self, login: Login, slot: Box<dyn SessionSlot>) -> Result<(String, Arc<Session>)> {
        let mut id = [0; ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        self.random.fill(&mut id);
        self.random.fill(&mut secret);
        let now_ms = self.now_ms();
        let scope = login.password.scope();
        let login = login.authorization;
        let job_owner = JobOwner::account(&login);
        let budget = self.memory.share_of(&MemoryOwner::account(&login));
        let owner = SessionOwner::Person(login);
        let mut open = self.lock();
        let session = Arc::new(Session {
            owner,
            job_owner,
            ends: Some(self.clock.now().after(self.limits.age)),
            budget,
            scope,
            certificate: None,
            id,
            secret,
            begun_ms: now_ms,
            used_ms: AtomicU64::new(now_ms),
            termination: slot.termination().clone(),
            _slot: Some(slot),
        });
        self.reserve_slot(&mut open, &session.owner, now_ms)?;
        open.insert(Arc::clone(&session));
        drop(open);
        let mut token = [0; ID_BYTES + SECRET_BYTES];
        token[..ID_BYTES].copy_from_slice(&id);
        token[ID_BYTES..].copy_from_slice(&secret);
        Ok((URL_SAFE_NO_PAD.encode(token), session))
    }

    /// Finds the session of a token and records its use. Returns [`Error::NoSession`] if the token is not valid or the
    /// session has ended.
    pub fn find(&self, token: &str) -> Result<Arc<Session>> {
        let (id, secret) = parse_token(token).ok_or(Error::NoSession)?;
        let session = self.lock().sessions.get(&id).cloned().ok_or(Error::NoSession)?;
        if !bool::from(session.secret.ct_eq(&secret)) {
            return Err(Error::NoSession);
        }
        let now_ms = self.now_ms();
        if self.is_over(&session, now_ms) {
            self.end(&session);
            return Err(Error::NoSession);
        }
        session.used_ms.store(now_ms, Ordering::Relaxed);
        Ok(session)
    }

    /// Records the use of a session by a stream. Returns [`Error::NoSession`] if the session has ended.
    pub fn renew(&self, session: &Session) -> Result<()> {
        let now_ms = self.now_ms();
        let is_over = session.is_ended() || (session.ends.is_some() && self.is_too_old(session, now_ms));
        if is_over {
            return Err(Error::NoSession);
        }
        session.used_ms.store(now_ms, Ordering::Relaxed);
        Ok(())
    }

    /// Ends a session.
    pub fn end(&self, session: &Session) {
        self.lock().remove(&session.id);
        session.termination.terminate();
    }

    /// Returns the number of sessions, including expired ones that have not been removed yet.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().sessions.len()
    }

    /// Makes capacity for another session: ends the owner's session that was idle longest if the owner has too many,
    /// and removes expired sessions if the server has too many. Returns [`Error::Full`] if the server still has too
    /// many.
    fn reserve_slot(&self, open: &mut SessionTable, owner: &SessionOwner, now_ms: u64) -> Result<()> {
        if let Some(session) = open.longest_idle(owner, self.limits.per_account.max(1)) {
            open.remove(&session.id);
            session.termination.terminate();
        }
        if open.sessions.len() >= self.limits.total {
            let over = open.sessions.values().filter(|session| self.is_over(session, now_ms));
            let over: Vec<[u8; ID_BYTES]> = over.map(|session| session.id).collect();
            over.iter().for_each(|id| open.remove(id));
        }
        if open.sessions.len() >= self.limits.total {
            return Err(Error::Exhausted("the server has reached its limit of sessions, try again later"));
        }
        Ok(())
    }

    fn is_over(&self, session: &Session, now_ms: u64) -> bool {
        let silence = Duration::from_millis(now_ms.saturating_sub(session.used_ms.load(Ordering::Relaxed)));
        session.is_ended() || silence > self.limits.idle || self.is_too_old(session, now_ms)
    }

    fn is_too_old(&self, session: &Session, now_ms: u64) -> bool {
        Duration::from_millis(now_ms.saturating_sub(session.begun_ms)) > self.limits.age
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, SessionTable> {
        self.open.lock()
    }
}

fn parse_token(token: &str) -> Option<([u8; ID_BYTES], [u8; SECRET_BYTES])> {
    if token.len() != TOKEN_CHARACTERS {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (id, secret) = bytes.split_at_checked(ID_BYTES)?;
    Some((id.try_into().ok()?, secret.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use base::memory::ShareSizes;
    use base::sim::{SeededRandom, SimClock};

    use super::*;

    struct TestSlot(SessionTermination);

    impl SessionSlot for TestSlot {
        fn number(&self) -> u64 {
            0
        }

        fn termination(&self) -> &SessionTermination {
            &self.0
        }
    }

    struct World {
        clock: Arc<SimClock>,
        sessions: Sessions,
    }

    fn world(per_account: usize, total: usize) -> World {
        let clock = Arc::new(SimClock::new());
        let limits = SessionLimits { per_account, total, ..SessionLimits::default() };
        let random = Arc::new(SeededRandom::new(1));
        let bytes = 100;
        let sizes =
            ShareSizes { account_bytes: bytes, network_bytes: bytes, networks_bytes: bytes, local_bytes: bytes };
        let memory = MemoryShares::new(1_000, sizes);
        let sessions = Sessions::new(limits, memory, Arc::clone(&clock) as Arc<dyn Clock>, random);
        World { clock, sessions }
    }

    impl World {
        fn log_in(&self, login: &str) -> Result<String> {
            let slot = Box::new(TestSlot(SessionTermination::default()));
            self.sessions.begin(Login::new(login), slot).map(|(token, _)| token)
        }

        fn is_valid(&self, token: &str) -> bool {
            self.sessions.find(token).is_ok()
        }
    }

    #[test]
    fn only_the_exact_token_finds_its_session() {
        let world = world(3, 9);
        let token = world.log_in("CN=Ann/O=Acme").expect("within the limit");
        assert_eq!(token.len(), TOKEN_CHARACTERS);
        let session = world.sessions.find(&token).expect("the token is valid");
        assert_eq!(session.owner, SessionOwner::Person("CN=Ann/O=Acme".to_owned()));
        for index in 0..token.len() {
            let other = if token.as_bytes()[index] == b'A' { "B" } else { "A" };
            let mut forged = token.clone();
            forged.replace_range(index..=index, other);
            assert!(!world.is_valid(&forged), "{index}");
        }
        assert!(!world.is_valid("") && !world.is_valid(&token[1..]) && !world.is_valid(&"é".repeat(32)));
        world.sessions.end(&session);
        assert!(!world.is_valid(&token) && session.is_ended());
    }

    #[test]
    fn sessions_of_an_account_share_one_budget() {
        let world = world(3, 9);
        let budgets = ["ann", "ann", "bob"].map(|login| {
            let token = world.log_in(login).expect("within the limit");
            world.sessions.find(&token).expect("the token is valid").budget.clone()
        });
        let held = budgets[0].acquire(60).expect("within the limit");
        assert!(budgets[1].acquire(41).is_err() && budgets[2].acquire(100).is_ok());
        drop(held);
        assert!(budgets[1].acquire(100).is_ok());
    }

    #[test]
    fn idle_time_and_age_end_a_session() {
        let world = world(3, 9);
        let token = world.log_in("ann").expect("within the limit");
        let session = world.sessions.find(&token).expect("the token is valid");
        for _ in 0..48 {
            world.clock.advance(Duration::from_secs(30 * 60));
            assert!(world.is_valid(&token));
        }
        world.clock.advance(Duration::from_secs(1));
        assert!(world.sessions.renew(&session).is_err() && !world.is_valid(&token), "a day is over");
        let token = world.log_in("ann").expect("within the limit");
        world.clock.advance(Duration::from_secs(30 * 60 + 1));
        assert!(!world.is_valid(&token) && world.sessions.count() == 0);
    }

    #[test]
    fn excess_session_ends_the_longest_idle_of_the_account() {
        let world = world(2, 3);
        let tokens: Vec<String> = (0..2).map(|_| world.log_in("ann").expect("within the limit")).collect();
        let other = world.log_in("bob").expect("within the limit");
        world.clock.advance(Duration::from_secs(1));
        assert!(world.is_valid(&tokens[0]));
        assert!(matches!(world.log_in("carla"), Err(Error::Exhausted(_))));
        world.sessions.end(&world.sessions.find(&other).expect("the token is valid"));
        let third = world.log_in("ann").expect("ann replaces one of her sessions");
        assert!(world.is_valid(&tokens[0]) && !world.is_valid(&tokens[1]) && world.is_valid(&third));
    }
}
