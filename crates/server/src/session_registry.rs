//! The registry of login sessions. It ends the sessions of an account that is disabled, removed, gets another password
//! or is added to a deny list, those of an application password that is revoked, and with a new second factor those
//! that have proved the password of the account and not this factor.
//!
//! A session of IMAP or POP3 keeps the identity with which it opened the mail file. It ends also when that identity
//! changes: a name of the account, or a group that it belongs to. The identity cannot be replaced within the session,
//! because the message numbers that the client knows depend on what it may read. Sessions of the native protocol and
//! of submission look up the identity for each request.
//!
//! A connection has a number, which the protocol crates pass back with every login ([`wire::Peer::connection`]). A task
//! waits for changes of the directory and compares the logged-in accounts with the people that were changed. Sessions
//! whose account no longer matches are dismissed ([`wire::SessionTermination`]): they notify the client and end, and
//! the task that serves them cuts off a session that does not. The cost depends on the number of changed notes, not on
//! the number of sessions. Only deletions and changes of groups and domains, which may affect deny lists and
//! identities, require a check of all logged-in accounts.
//!
//! A login that starts before a change and ends after it is detected, because an account is compared once more after
//! its session has been registered, and once more after the identity of the session has been registered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::sync::{Mutex, MutexGuard};
use base::{Modseq, NoteId, Timestamp};
use directory::{Directory, Person, identity};
use notes::change_log::NoteChange;
use notes::{Access, Identity, level};
use sasl::LoginPassword;
use wire::{SessionTermination, Shutdown};

use crate::limits::SESSION_CHECK_INTERVAL_MIN;

/// All connections that may log in.
#[derive(Default)]
pub struct SessionRegistry {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Entry>>,
}

struct Entry {
    /// The account; `None` before the login.
    account: Option<Box<Account>>,
    /// `false` for a login that is watched besides its connection.
    is_connection: bool,
    termination: SessionTermination,
}

/// The state of an account at the login.
#[derive(Debug, Clone)]
struct Account {
    note: NoteId,
    name: String,
    password_stamp: u64,
    password: LoginPassword,
    proved_factor: Option<Timestamp>,
    /// The digest of the identity that the session keeps. `None` if it keeps none.
    identity: Option<[u8; 16]>,
}

/// A login to be registered.
#[derive(Debug, Clone, Copy)]
pub struct RegisteredLogin<'p> {
    /// The person.
    pub person: &'p Person,
    /// The password.
    pub password: LoginPassword,
    /// The second factor that a session of the login page has proved: when it was added. A login with the password of
    /// the account ends when the person gets another second factor.
    pub proved_factor: Option<Timestamp>,
}

impl<'p> RegisteredLogin<'p> {
    /// Creates the login of a program with the password of the account.
    #[must_use]
    pub fn new(person: &'p Person) -> Self {
        Self { person, password: LoginPassword::Account, proved_factor: None }
    }
}

impl Account {
    fn from_login(login: &RegisteredLogin<'_>) -> Self {
        let RegisteredLogin { person, password, proved_factor } = *login;
        Self {
            note: person.note,
            name: person.name.canonical().to_owned(),
            password_stamp: person.password_stamp(),
            password,
            proved_factor,
            identity: None,
        }
    }

    /// Returns `true` if the password of the login is still one of the person, and suffices.
    fn has_password_of(&self, person: &Person) -> bool {
        let suffices = match self.password {
            LoginPassword::Account => is_factor_proved(person, self.proved_factor),
            LoginPassword::Application { id, .. } => person.application_password(id).is_some(),
        };
        suffices && self.password_stamp == person.password_stamp()
    }

    /// Returns `true` if the account is unchanged and may still log in, or if this cannot be determined.
    fn is_valid(&self, directory: &Directory) -> bool {
        self.is_unchanged(directory).unwrap_or_else(|error| {
            tracing::error!(target: "login", %error, login = self.name, "cannot check whether an account has changed");
            true
        })
    }

    fn is_unchanged(&self, directory: &Directory) -> directory::Result<bool> {
        let Some(person) = directory.person(&self.name)? else { return Ok(false) };
        let is_same = self.note == person.note && self.name == person.name.canonical() && self.has_password_of(&person);
        if !is_same || !directory.may_log_in(&person)? {
            return Ok(false);
        }
        match &self.identity {
            Some(digest) => Ok(*digest == identity::digest(directory.identity(&person)?.as_ref())),
            None => Ok(true),
        }
    }
}

/// Returns `true` if a login with the password of a person, which has proved a second factor or none, has proved the
/// one that the person has now.
#[must_use]
pub fn is_factor_proved(person: &Person, proved_factor: Option<Timestamp>) -> bool {
    person.second_factor().is_none_or(|factor| proved_factor == Some(factor.added))
}

/// A registered connection; dropping it removes the registration.
pub struct SessionRegistration {
    sessions: Arc<SessionRegistry>,
    number: u64,
    termination: SessionTermination,
}

impl SessionRegistration {
    /// Returns the number of the connection.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the signal that asks the session to end.
    #[must_use]
    pub fn termination(&self) -> &SessionTermination {
        &self.termination
    }
}

impl Drop for SessionRegistration {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.number);
    }
}

impl SessionRegistry {
    /// Registers a connection.
    #[must_use]
    pub fn register(self: &Arc<Self>) -> SessionRegistration {
        self.insert(true)
    }

    /// Registers a login that is watched besides its connection, which may carry several logins, and is not counted.
    #[must_use]
    pub fn register_watch(self: &Arc<Self>) -> SessionRegistration {
        self.insert(false)
    }

    fn insert(self: &Arc<Self>, is_connection: bool) -> SessionRegistration {
        let number = self.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let termination = SessionTermination::default();
        self.lock().insert(number, Entry { account: None, is_connection, termination: termination.clone() });
        SessionRegistration { sessions: Arc::clone(self), number, termination }
    }

    /// Registers a login. Returns `false` if the account was changed since its person was read; the login must then be
    /// refused.
    #[must_use]
    pub fn register_login(&self, connection: u64, login: &RegisteredLogin<'_>, directory: &Directory) -> bool {
        let account = Account::from_login(login);
        let Some(known) =
            self.lock().get_mut(&connection).map(|entry| entry.account.replace(Box::new(account.clone())))
        else {
            // The connection is not registered, as in tests.
            return true;
        };
        let stands = account.is_valid(directory);
        if !stands && let Some(entry) = self.lock().get_mut(&connection) {
            entry.account = known;
        }
        stands
    }

    /// Registers the identity that the session of a connection keeps. Returns `false` if it was changed since it was
    /// read; the session must then not begin.
    ///
    /// `generation` is that of the directory before the identity was read. If it is still the same, nothing is looked
    /// up again.
    #[must_use]
    pub fn register_identity(
        &self,
        connection: u64,
        identity: &Identity,
        directory: &Directory,
        generation: u64,
    ) -> bool {
        let digest = identity::digest(identity);
        let account = self.lock().get_mut(&connection).and_then(|entry| {
            let account = entry.account.as_deref_mut()?;
            account.identity = Some(digest);
            Some(account.clone())
        });
        // A connection that is not registered, as in tests, has no account.
        account.is_none_or(|account| directory.generation() == generation || account.is_valid(directory))
    }

    /// Removes the login of a connection whose exchange failed after the proof, or whose mail file cannot be opened.
    pub fn unregister_login(&self, connection: u64) {
        if let Some(entry) = self.lock().get_mut(&connection) {
            entry.account = None;
        }
    }

    /// Returns the number of connections that are logged in.
    #[must_use]
    pub fn logged_in_count(&self) -> usize {
        self.lock().values().filter(|entry| entry.is_connection && entry.account.is_some()).count()
    }

    /// Dismisses the sessions of accounts that may no longer log in or have changed, and returns their number.
    /// `changed` limits the check to accounts with these notes; `None` checks all.
    fn end_invalid(&self, directory: &Directory, changed: Option<&HashSet<NoteId>>) -> usize {
        let concerned = |account: &Account| changed.is_none_or(|changed| changed.contains(&account.note));
        let accounts: HashMap<u64, Account> = self
            .lock()
            .iter()
            .filter_map(|(number, entry)| Some((*number, entry.account.as_deref().filter(|it| concerned(it))?.clone())))
            .collect();
        let mut ended = 0;
        for (number, account) in accounts {
            if account.is_valid(directory) {
                continue;
            }
            if let Some(entry) = self.lock().get(&number) {
                tracing::info!(target: "login", login = account.name, "ending a session: its account or its groups were changed");
                entry.termination.terminate();
                ended += 1;
            }
        }
        ended
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.open.lock()
    }
}

/// Follows the changes of the directory and ends sessions.
pub struct DirectoryWatch {
    sessions: Arc<SessionRegistry>,
    directory: Arc<Directory>,
    access: Access<level::Reader>,
    /// The modseq up to which changes have been examined.
    seen: Modseq,
}

impl DirectoryWatch {
    /// Creates a watch that starts with the present state of the directory.
    #[must_use]
    pub fn new(sessions: Arc<SessionRegistry>, directory: Arc<Directory>, access: Access<level::Reader>) -> Self {
        let seen = directory.database().modseq();
        Self { sessions, directory, access, seen }
    }

    /// Ends the sessions affected by changes since the last call, and returns their number.
    pub fn apply_changes(&mut self) -> Result<usize, directory::Error> {
        let reading = self.access.read()?;
        let mut changed = HashSet::new();
        // A deleted note no longer tells whether it was a group.
        let mut has_deletion = false;
        let is_complete = reading.is_complete_since(self.seen);
        if is_complete {
            reading.changes(self.seen, &mut |entry| {
                has_deletion |= matches!(entry.change, NoteChange::Deleted { .. });
                changed.insert(entry.note);
                Ok(())
            })?;
        }
        let seen = reading.modseq();
        drop(reading);
        let is_about_some = is_complete && !has_deletion && !self.directory.contains_group_or_domain(&changed)?;
        let ended = self.sessions.end_invalid(&self.directory, is_about_some.then_some(&changed));
        self.seen = seen;
        Ok(ended)
    }

    /// Examines the changes of the directory until the server drains.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            let change = self.directory.database().listen();
            let applied = tokio::task::spawn_blocking(move || {
                if let Err(error) = self.apply_changes() {
                    tracing::error!(target: "login", %error, "cannot check the directory for changes");
                }
                self
            });
            self = match applied.await {
                Ok(watch) => watch,
                Err(error) => {
                    tracing::error!(target: "login", %error, "stopped watching the directory; sessions of changed accounts are no longer ended");
                    return;
                }
            };
            tokio::select! {
                () = change => {}
                () = shutdown.draining() => return,
            }
            // The pause lets several consecutive changes be examined together.
            tokio::select! {
                () = tokio::time::sleep(SESSION_CHECK_INTERVAL_MIN) => {}
                () = shutdown.draining() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use directory::{GroupChange, GroupKind, NewGroup, NewUser, PersonChange};

    use super::*;
    use sample::Sample;

    /// A sample server with the registry of its sessions and the watch that ends them.
    struct World {
        sample: Sample,
        sessions: Arc<SessionRegistry>,
        watch: DirectoryWatch,
    }

    impl World {
        fn new() -> Self {
            let sample = Sample::new();
            let sessions = Arc::new(SessionRegistry::default());
            let access = admin::people::open_as_manager(&sample.instance, "names.nsf")
                .expect("the directory exists")
                .downgrade();
            let watch = DirectoryWatch::new(Arc::clone(&sessions), Arc::clone(&sample.instance.directory), access);
            Self { sample, sessions, watch }
        }

        fn person(&self, who: &str) -> Arc<Person> {
            self.sample.instance.directory.person(who).expect("a lookup").expect("the user exists")
        }

        fn log_in(&self, who: &str) -> SessionRegistration {
            let session = self.sessions.register();
            let person = self.person(who);
            let login = RegisteredLogin::new(&person);
            assert!(self.sessions.register_login(session.number(), &login, &self.sample.instance.directory));
            session
        }

        fn set(&self, who: &str, change: PersonChange) {
            self.sample.instance.directory.user_set(who, &change).expect("the user exists");
        }

        /// Examines the changes and returns the number of ended sessions.
        fn apply_changes(&mut self) -> usize {
            self.watch.apply_changes().expect("a sound store")
        }
    }

    fn disable(disabled: bool) -> PersonChange {
        PersonChange { disabled: Some(disabled), ..PersonChange::default() }
    }

    #[test]
    fn sessions_end_when_their_account_is_disabled_or_removed() {
        let mut world = World::new();
        let (ann, again, bob, _stranger) =
            (world.log_in("ann"), world.log_in("ann"), world.log_in("bob"), world.sessions.register());
        assert_eq!((world.apply_changes(), world.sessions.logged_in_count()), (0, 3));
        world.set("ann", PersonChange { quota_bytes: Some(Some(1)), ..PersonChange::default() });
        assert_eq!(world.apply_changes(), 0, "a change unrelated to logins ends no session");
        world.set("ann", disable(true));
        assert_eq!(world.apply_changes(), 2);
        assert!(ann.termination().is_terminated() && again.termination().is_terminated());
        drop((ann, again));
        assert_eq!((world.apply_changes(), world.sessions.logged_in_count()), (0, 1));
        world.sample.instance.directory.user_remove("bob").expect("the user exists");
        assert_eq!(world.apply_changes(), 1);
        assert!(bob.termination().is_terminated());
    }

    #[test]
    fn new_password_ends_earlier_sessions() {
        let mut world = World::new();
        let old = world.log_in("ann");
        world.set("ann", PersonChange { password: Some(b"another one".to_vec()), ..PersonChange::default() });
        let new = world.log_in("ann");
        assert_eq!(world.apply_changes(), 1);
        assert!(old.termination().is_terminated());
        drop(old);
        assert_eq!((world.apply_changes(), world.sessions.logged_in_count()), (0, 1));
        drop(new);
        assert_eq!(world.sessions.logged_in_count(), 0);
    }

    #[test]
    fn a_deny_list_ends_the_sessions_of_its_members() {
        let mut world = World::new();
        let ann = world.log_in("ann");
        let bob = world.log_in("bob");
        let new = NewGroup { name: "staff".to_owned(), members: vec!["bob".to_owned()], ..NewGroup::default() };
        world.sample.instance.directory.group_add(&new).expect("it is free");
        assert_eq!(world.apply_changes(), 0);
        let gone = ["ann", "staff"].map(str::to_owned).to_vec();
        let new = NewGroup { name: "gone".to_owned(), members: gone, ..NewGroup::default() };
        world.sample.instance.directory.group_add(&new).expect("it is free");
        assert_eq!(world.apply_changes(), 0, "a group of another kind");
        let deny = GroupChange { kind: Some(GroupKind::DenyList), ..GroupChange::default() };
        world.sample.instance.directory.group_set("gone", &deny).expect("the group exists");
        assert_eq!(world.apply_changes(), 2);
        assert!(ann.termination().is_terminated() && bob.termination().is_terminated());
        let session = world.sessions.register();
        let ann = world.person("ann");
        assert!(!world.sessions.register_login(
            session.number(),
            &RegisteredLogin::new(&ann),
            &world.sample.instance.directory
        ));
    }

    #[test]
    fn account_changed_during_the_login_is_refused() {
        let world = World::new();
        let before = world.person("ann");
        world.set("ann", disable(true));
        world.set("ann", PersonChange { password: Some(b"another one".to_vec()), ..disable(false) });
        let session = world.sessions.register();
        assert!(!world.sessions.register_login(
            session.number(),
            &RegisteredLogin::new(&before),
            &world.sample.instance.directory
        ));
        assert_eq!(world.sessions.logged_in_count(), 0);
    }

    #[test]
    fn recreated_account_does_not_keep_sessions() {
        let mut world = World::new();
        let _session = world.log_in("ann");
        let ann = world.person("ann");
        world.sample.instance.directory.user_remove("ann").expect("the user exists");
        let new = NewUser { full_name: Some(ann.name.canonical().to_owned()), ..NewUser::new("ann@acme.test") };
        world.sample.instance.directory.user_add(&new).expect("it is free");
        assert_eq!(world.apply_changes(), 1);
    }
}
