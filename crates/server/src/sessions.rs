//! Who has logged in over which connection, so that sessions end when their account is disabled, removed, gets another password or
//! comes on a deny list.
//!
//! A connection has a number, which the protocol rooms hand back with every login ([`wire::Peer::connection`]). A task waits for changes
//! of the directory and compares those who are logged in with the people who were changed; sessions of an account that is not what it was are
//! dismissed ([`wire::Dismissal`]): they say good-bye and end, and whoever serves them cuts off what does not. It costs a look at what was
//! changed, not one at everybody; only groups and domains, which say who is on a deny list, concern everybody who is logged in.
//!
//! A login that begins before a change and ends after it is noticed, because whoever logs in is compared once more after their session
//! is known here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Modseq, NoteId};
use directory::{Directory, Person};
use notes::{Access, level};
use wire::{Dismissal, Shutdown};

use crate::limits::SESSIONS_LOOK_EVERY;

/// All connections over which somebody may log in.
#[derive(Default)]
pub struct Sessions {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Entry>>,
}

struct Entry {
    /// Once somebody has logged in.
    account: Option<Box<Account>>,
    dismissal: Dismissal,
}

/// An account as it was at the login.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    note: NoteId,
    name: String,
    password_stamp: u64,
}

impl Account {
    fn of(person: &Person) -> Self {
        let name = person.name.canonical().to_owned();
        Self { note: person.note, name, password_stamp: person.password_stamp() }
    }

    /// Tells whether the account still is what it was; if that cannot be told, it is.
    fn stands(&self, directory: &Directory) -> bool {
        self.still_stands(directory).unwrap_or_else(|error| {
            tracing::error!(target: "login", %error, login = self.name, "cannot look whether an account has changed");
            true
        })
    }

    fn still_stands(&self, directory: &Directory) -> directory::Result<bool> {
        let Some(person) = directory.person(&self.name)? else { return Ok(false) };
        Ok(!person.disabled && *self == Self::of(&person) && directory.deny_list_of(&person)?.is_none())
    }
}

/// One connection; forgotten when dropped.
pub struct Session {
    sessions: Arc<Sessions>,
    number: u64,
    dismissal: Dismissal,
}

impl Session {
    /// The number of the connection.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Gives what tells that the session shall end.
    #[must_use]
    pub fn dismissal(&self) -> &Dismissal {
        &self.dismissal
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.number);
    }
}

impl Sessions {
    /// Takes note of a connection.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Session {
        let number = self.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let dismissal = Dismissal::default();
        self.lock().insert(number, Entry { account: None, dismissal: dismissal.clone() });
        Session { sessions: Arc::clone(self), number, dismissal }
    }

    /// Takes note of a login; false if the account was changed since `person` was read, so that nobody may be let in.
    #[must_use]
    pub fn admit(&self, connection: u64, person: &Person, directory: &Directory) -> bool {
        let account = Account::of(person);
        let Some(known) =
            self.lock().get_mut(&connection).map(|entry| entry.account.replace(Box::new(account.clone())))
        else {
            // Not one of those that are counted, as in tests.
            return true;
        };
        let stands = account.stands(directory);
        if !stands && let Some(entry) = self.lock().get_mut(&connection) {
            entry.account = known;
        }
        stands
    }

    /// Gives how many connections somebody has logged in over.
    #[must_use]
    pub fn logged_in(&self) -> usize {
        self.lock().values().filter(|entry| entry.account.is_some()).count()
    }

    /// Ends the sessions of accounts that are not what they were, as far as their notes are among `changed` (none: all); tells how many.
    fn end_changed(&self, directory: &Directory, changed: Option<&HashSet<NoteId>>) -> usize {
        let concerned = |account: &Account| changed.is_none_or(|changed| changed.contains(&account.note));
        let accounts: HashMap<u64, Account> = self
            .lock()
            .iter()
            .filter_map(|(number, entry)| Some((*number, entry.account.as_deref().filter(|it| concerned(it))?.clone())))
            .collect();
        let mut ended = 0;
        for (number, account) in accounts {
            if account.stands(directory) {
                continue;
            }
            if let Some(entry) = self.lock().get(&number) {
                tracing::info!(target: "login", login = account.name, "ending a session: its account was changed");
                entry.dismissal.dismiss();
                ended += 1;
            }
        }
        ended
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at what changed in the directory.
pub struct Watch {
    sessions: Arc<Sessions>,
    directory: Arc<Directory>,
    access: Access<level::Reader>,
    /// Up to here everything was looked at.
    seen: Modseq,
}

impl Watch {
    /// Begins with the present state.
    #[must_use]
    pub fn new(sessions: Arc<Sessions>, directory: Arc<Directory>, access: Access<level::Reader>) -> Self {
        let seen = directory.database().modseq();
        Self { sessions, directory, access, seen }
    }

    /// Ends the sessions that the changes since the last look end; tells how many.
    pub fn look(&mut self) -> Result<usize, directory::Error> {
        let reading = self.access.read()?;
        let mut changed = HashSet::new();
        let is_complete = reading.is_complete_since(self.seen);
        if is_complete {
            reading.changes(self.seen, &mut |entry| {
                changed.insert(entry.note);
                Ok(())
            })?;
        }
        let seen = reading.modseq();
        drop(reading);
        let is_about_some = is_complete && !self.directory.groups_are_among(&changed)?;
        let ended = self.sessions.end_changed(&self.directory, is_about_some.then_some(&changed));
        self.seen = seen;
        Ok(ended)
    }

    /// Looks whenever the directory changes, until the server drains.
    pub async fn run(mut self, shutdown: Shutdown) {
        loop {
            let change = self.directory.database().listen();
            let looked = tokio::task::spawn_blocking(move || {
                if let Err(error) = self.look() {
                    tracing::error!(target: "login", %error, "cannot look what has changed in the directory");
                }
                self
            });
            self = match looked.await {
                Ok(watch) => watch,
                Err(error) => {
                    tracing::error!(target: "login", %error, "sessions of changed accounts are not ended any more");
                    return;
                }
            };
            tokio::select! {
                () = change => {}
                () = shutdown.draining() => return,
            }
            // Many changes in a row are looked at together.
            tokio::select! {
                () = tokio::time::sleep(SESSIONS_LOOK_EVERY) => {}
                () = shutdown.draining() => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use directory::{GroupChange, GroupKind, NewGroup, NewUser, UserChange};

    use super::*;
    use crate::sample::Sample;

    struct World {
        sample: Sample,
        sessions: Arc<Sessions>,
        watch: Watch,
    }

    impl World {
        fn new() -> Self {
            let sample = Sample::new();
            let sessions = Arc::new(Sessions::default());
            let access = crate::admin::people::manager(&sample.core, "names.nsf").expect("it is there").lower();
            let watch = Watch::new(Arc::clone(&sessions), Arc::clone(&sample.core.directory), access);
            Self { sample, sessions, watch }
        }

        fn person(&self, who: &str) -> Arc<Person> {
            self.sample.core.directory.person(who).expect("a look").expect("they are there")
        }

        fn log_in(&self, who: &str) -> Session {
            let session = self.sessions.begin();
            assert!(self.sessions.admit(session.number(), &self.person(who), &self.sample.core.directory));
            session
        }

        fn set(&self, who: &str, change: UserChange) {
            self.sample.core.directory.user_set(who, &change).expect("they are there");
        }

        /// Looks, and tells how many sessions ended.
        fn look(&mut self) -> usize {
            self.watch.look().expect("a sound store")
        }
    }

    fn disable(disabled: bool) -> UserChange {
        UserChange { disabled: Some(disabled), ..UserChange::default() }
    }

    #[test]
    fn sessions_end_with_their_account() {
        let mut world = World::new();
        let (ann, again, bob, _stranger) =
            (world.log_in("ann"), world.log_in("ann"), world.log_in("bob"), world.sessions.begin());
        assert_eq!((world.look(), world.sessions.logged_in()), (0, 3));
        world.set("ann", UserChange { quota_bytes: Some(Some(1)), ..UserChange::default() });
        assert_eq!(world.look(), 0, "a change that is not about logging in ends nothing");
        world.set("ann", disable(true));
        assert_eq!(world.look(), 2);
        assert!(ann.dismissal().is_given() && again.dismissal().is_given());
        drop((ann, again));
        assert_eq!((world.look(), world.sessions.logged_in()), (0, 1));
        world.sample.core.directory.user_remove("bob").expect("he is there");
        assert_eq!(world.look(), 1);
        assert!(bob.dismissal().is_given());
    }

    #[test]
    fn another_password_ends_the_sessions_of_the_old_one() {
        let mut world = World::new();
        let old = world.log_in("ann");
        world.set("ann", UserChange { password: Some(b"another one".to_vec()), ..UserChange::default() });
        let new = world.log_in("ann");
        assert_eq!(world.look(), 1);
        assert!(old.dismissal().is_given());
        drop(old);
        assert_eq!((world.look(), world.sessions.logged_in()), (0, 1));
        drop(new);
        assert_eq!(world.sessions.logged_in(), 0);
    }

    #[test]
    fn a_deny_list_ends_the_sessions_of_its_members() {
        let mut world = World::new();
        let (ann, bob) = (world.log_in("ann"), world.log_in("bob"));
        let new = NewGroup { name: "staff".to_owned(), members: vec!["bob".to_owned()], ..NewGroup::default() };
        world.sample.core.directory.group_add(&new).expect("it is free");
        assert_eq!(world.look(), 0);
        let gone = ["ann", "staff"].map(str::to_owned).to_vec();
        let new = NewGroup { name: "gone".to_owned(), members: gone, ..NewGroup::default() };
        world.sample.core.directory.group_add(&new).expect("it is free");
        assert_eq!(world.look(), 0, "a group of another kind");
        let deny = GroupChange { kind: Some(GroupKind::DenyList), ..GroupChange::default() };
        world.sample.core.directory.group_set("gone", &deny).expect("it is there");
        assert_eq!(world.look(), 2);
        assert!(ann.dismissal().is_given() && bob.dismissal().is_given());
        let (session, ann) = (world.sessions.begin(), world.person("ann"));
        assert!(!world.sessions.admit(session.number(), &ann, &world.sample.core.directory));
    }

    #[test]
    fn whoever_is_changed_during_the_login_is_not_let_in() {
        let world = World::new();
        let before = world.person("ann");
        world.set("ann", disable(true));
        world.set("ann", UserChange { password: Some(b"another one".to_vec()), ..disable(false) });
        let session = world.sessions.begin();
        assert!(!world.sessions.admit(session.number(), &before, &world.sample.core.directory));
        assert_eq!(world.sessions.logged_in(), 0);
    }

    #[test]
    fn a_namesake_is_somebody_else() {
        let mut world = World::new();
        let _session = world.log_in("ann");
        let ann = world.person("ann");
        world.sample.core.directory.user_remove("ann").expect("she is there");
        let new = NewUser { full_name: Some(ann.name.canonical().to_owned()), ..NewUser::new("ann@acme.test") };
        world.sample.core.directory.user_add(&new).expect("it is free");
        assert_eq!(world.look(), 1);
    }
}
