//! Tests of the registry of sessions, and of the task that follows the directory.

use std::sync::Arc;

use directory::{GroupChange, NewGroup, PersonChange};
use mail::mailbox::MailFile;
use sample::{PASSWORD, Sample};
use sasl::{Credentials, LoginError, LoginOrigin, LoginProtocol, PasswordRequest};
use server::logins::Logins;
use server::session_registry::{DirectoryWatch, SessionRegistration, SessionRegistry};
use wire::Shutdown;

fn watch(sample: &Sample, sessions: &Arc<SessionRegistry>) -> DirectoryWatch {
    let access = admin::people::open_as_manager(&sample.instance, "names.nsf").expect("the directory exists");
    DirectoryWatch::new(Arc::clone(sessions), Arc::clone(&sample.instance.directory), access.downgrade())
}

#[test]
fn connections_have_unique_numbers_and_count_after_login() {
    let sample = Sample::new();
    let directory = &sample.instance.directory;
    let sessions: Arc<SessionRegistry> = Arc::default();
    let first = sessions.register();
    let second = sessions.register();
    assert!(first.number() != 0 && first.number() != second.number());
    assert_eq!(sessions.logged_in_count(), 0);
    let ann = directory.person("ann").expect("a sound store").expect("the user exists");
    assert!(
        sessions.register_login(first.number(), &ann, directory)
            && sessions.register_login(second.number(), &ann, directory)
    );
    assert!(sessions.register_login(second.number(), &ann, directory), "a second login over a connection");
    assert_eq!(sessions.logged_in_count(), 2);
    drop(first);
    assert_eq!(sessions.logged_in_count(), 1);
    let third = sessions.register();
    assert!(third.number() > second.number(), "numbers are not used again");
}

#[test]
fn refused_login_keeps_the_previous_login() {
    let sample = Sample::new();
    let directory = &sample.instance.directory;
    let sessions: Arc<SessionRegistry> = Arc::default();
    let session = sessions.register();
    let ann = directory.person("ann").expect("a sound store").expect("the user exists");
    let eve = directory.person("eve").expect("a sound store").expect("the user exists");
    assert!(!sessions.register_login(session.number(), &eve, directory), "the account is disabled");
    assert_eq!(sessions.logged_in_count(), 0);
    assert!(sessions.register_login(session.number(), &ann, directory));
    assert!(!sessions.register_login(session.number(), &eve, directory));
    assert_eq!(sessions.logged_in_count(), 1);
    let mut watch = watch(&sample, &sessions);
    let change = PersonChange { disabled: Some(false), ..PersonChange::default() };
    directory.user_set("eve", &change).expect("the user exists");
    assert_eq!(watch.apply_changes().expect("a sound store"), 0, "the session is still that of Ann");
    let change = PersonChange { disabled: Some(true), ..PersonChange::default() };
    directory.user_set("ann", &change).expect("the user exists");
    assert_eq!(watch.apply_changes().expect("a sound store"), 1);
    assert!(session.termination().is_terminated());
}

#[test]
fn changes_without_effect_on_an_account_end_no_session() {
    let sample = Sample::new();
    let directory = &sample.instance.directory;
    let sessions: Arc<SessionRegistry> = Arc::default();
    let session = sessions.register();
    let ann = directory.person("ann").expect("a sound store").expect("the user exists");
    assert!(sessions.register_login(session.number(), &ann, directory));
    let mut watch = watch(&sample, &sessions);
    assert_eq!(watch.apply_changes().expect("a sound store"), 0, "nothing has changed");
    let quota = PersonChange { quota_bytes: Some(Some(5 << 20)), ..PersonChange::default() };
    directory.user_set("ann", &quota).expect("the user exists");
    let other = PersonChange { disabled: Some(true), ..PersonChange::default() };
    directory.user_set("bob", &other).expect("the user exists");
    assert_eq!(watch.apply_changes().expect("a sound store"), 0);
    assert!(!session.termination().is_terminated());
}

/// Sessions that log in with a password.
struct LoginWorld {
    sample: Sample,
    sessions: Arc<SessionRegistry>,
    logins: Arc<Logins>,
    watch: DirectoryWatch,
}

impl LoginWorld {
    fn new() -> Self {
        let sample = Sample::new();
        let sessions: Arc<SessionRegistry> = Arc::default();
        let logins = Logins::new(&sample.instance, Arc::clone(&sessions));
        let watch = watch(&sample, &sessions);
        Self { sample, sessions, logins, watch }
    }

    /// Logs in without opening the mail file.
    fn log_in(&self, login: &str, protocol: LoginProtocol) -> SessionRegistration {
        let session = self.sessions.register();
        let origin = LoginOrigin { connection: session.number(), ..LoginOrigin::local(protocol) };
        let request = PasswordRequest::new(login.as_bytes(), PASSWORD.as_bytes()).expect("well formed");
        self.logins.check_password(&origin, &request).expect("the password is right");
        session
    }

    /// Opens the mail file as IMAP does.
    fn open(&self, session: &SessionRegistration, login: &str) -> Result<MailFile, LoginError> {
        let origin = LoginOrigin { connection: session.number(), ..LoginOrigin::local(LoginProtocol::Imap) };
        imap::backend::Accounts::open(&*self.logins, &origin, login)
    }

    /// Begins an IMAP session.
    fn begin_session(&self, login: &str) -> SessionRegistration {
        let session = self.log_in(login, LoginProtocol::Imap);
        assert!(self.open(&session, login).is_ok(), "{login}");
        session
    }

    fn add_group(&self, name: &str, member: &str) {
        let new = NewGroup { name: name.to_owned(), members: vec![member.to_owned()], ..NewGroup::default() };
        self.sample.instance.directory.group_add(&new).expect("the name is free");
    }

    /// Examines the changes and returns the number of ended sessions.
    fn apply_changes(&mut self) -> usize {
        self.watch.apply_changes().expect("a sound store")
    }
}

#[test]
fn change_of_a_group_ends_the_mail_sessions_of_the_member_only() {
    let mut world = LoginWorld::new();
    world.add_group("staff", "ann");
    world.add_group("sales", "nobody");
    let ann = world.begin_session("ann");
    let bob = world.begin_session("bob");
    let bob_sends = world.log_in("bob", LoginProtocol::Submission);
    assert_eq!(world.apply_changes(), 0);
    let members_add = vec!["bob".to_owned()];
    let change = GroupChange { members_add: members_add.clone(), ..GroupChange::default() };
    world.sample.instance.directory.group_set("sales", &change).expect("the group exists");
    assert_eq!(world.apply_changes(), 1);
    assert!(bob.termination().is_terminated() && !ann.termination().is_terminated());
    assert!(!bob_sends.termination().is_terminated(), "submission keeps no identity");
    drop(bob);
    let bob = world.begin_session("bob");
    assert_eq!(world.apply_changes(), 0, "the new session has the new groups");
    let change = GroupChange { members_remove: members_add, ..GroupChange::default() };
    world.sample.instance.directory.group_set("sales", &change).expect("the group exists");
    assert_eq!((world.apply_changes(), bob.termination().is_terminated()), (1, true));
    drop(bob);
    world.sample.instance.directory.group_remove("staff").expect("the group exists");
    assert_eq!((world.apply_changes(), ann.termination().is_terminated()), (1, true));
}

#[test]
fn membership_through_another_group_counts() {
    let mut world = LoginWorld::new();
    world.add_group("office", "nobody");
    let ann = world.begin_session("ann");
    let bob = world.begin_session("bob");
    world.add_group("floor", "ann");
    assert_eq!((world.apply_changes(), ann.termination().is_terminated()), (1, true));
    drop(ann);
    let ann = world.begin_session("ann");
    let change = GroupChange { members_add: vec!["floor".to_owned()], ..GroupChange::default() };
    world.sample.instance.directory.group_set("office", &change).expect("the group exists");
    assert_eq!((world.apply_changes(), ann.termination().is_terminated()), (1, true));
    assert!(!bob.termination().is_terminated());
}

#[test]
fn change_of_the_names_of_a_person_ends_the_mail_sessions() {
    let mut world = LoginWorld::new();
    let ann = world.begin_session("ann");
    let change = PersonChange { addresses_add: vec!["hr@acme.test".to_owned()], ..PersonChange::default() };
    world.sample.instance.directory.user_set("ann", &change).expect("the user exists");
    assert_eq!((world.apply_changes(), ann.termination().is_terminated()), (1, true));
}

#[test]
fn session_begins_with_the_groups_at_the_time_when_its_mail_file_is_opened() {
    let mut world = LoginWorld::new();
    let directory = Arc::clone(&world.sample.instance.directory);
    let session = world.log_in("ann", LoginProtocol::Imap);
    let ann = directory.person("ann").expect("a sound store").expect("the user exists");
    let generation = directory.generation();
    let before = directory.identity(&ann).expect("a sound store");
    assert!(world.sessions.register_identity(session.number(), &before, &directory, generation));
    world.add_group("staff", "ann");
    let is_current = world.sessions.register_identity(session.number(), &before, &directory, generation);
    assert!(!is_current, "the groups were changed");
    assert!(world.open(&session, "ann").is_ok());
    assert_eq!(world.apply_changes(), 0, "the mail file was opened with the new groups");
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_sessions_until_the_server_drains() {
    let sample = Sample::new();
    let sessions: Arc<SessionRegistry> = Arc::default();
    let session = sessions.register();
    let ann = sample.instance.directory.person("ann").expect("a sound store").expect("the user exists");
    assert!(sessions.register_login(session.number(), &ann, &sample.instance.directory));
    let shutdown = Shutdown::new();
    let task = tokio::spawn(watch(&sample, &sessions).run(shutdown.clone()));
    let change = PersonChange { password: Some(b"another one".to_vec()), ..PersonChange::default() };
    sample.instance.directory.user_set("ann", &change).expect("the user exists");
    session.termination().terminated().await;
    shutdown.drain();
    task.await.expect("no panic");
}
