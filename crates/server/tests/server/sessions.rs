//! Tests of the registry of sessions, and of the task that follows the directory.

use std::sync::Arc;

use base::Timestamp;
use directory::{FactorSecret, GroupChange, NewApplicationPassword, NewGroup, PersonChange};
use http::backend::{Accounts as _, LoginProof};
use mail::mailbox::MailFile;
use sample::{PASSWORD, Sample};
use sasl::{Credentials, Login, LoginError, LoginOrigin, LoginProtocol, LoginScope, PasswordRequest};
use server::logins::Logins;
use server::session_registry::{DirectoryWatch, RegisteredLogin, SessionRegistration, SessionRegistry};
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
        sessions.register_login(first.number(), &RegisteredLogin::new(&ann), directory)
            && sessions.register_login(second.number(), &RegisteredLogin::new(&ann), directory)
    );
    assert!(
        sessions.register_login(second.number(), &RegisteredLogin::new(&ann), directory),
        "a second login over a connection"
    );
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
    assert!(
        !sessions.register_login(session.number(), &RegisteredLogin::new(&eve), directory),
        "the account is disabled"
    );
    assert_eq!(sessions.logged_in_count(), 0);
    assert!(sessions.register_login(session.number(), &RegisteredLogin::new(&ann), directory));
    assert!(!sessions.register_login(session.number(), &RegisteredLogin::new(&eve), directory));
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
    assert!(sessions.register_login(session.number(), &RegisteredLogin::new(&ann), directory));
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
        let uses = admin::sessions::open(&sample.instance).expect("they open");
        let logins = Logins::new(&sample.instance, Arc::clone(&sessions), uses);
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
        imap::backend::Accounts::open(&*self.logins, &origin, &Login::new(login))
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

/// Adds an application password of Ann for IMAP. Returns its text.
fn add_application(world: &LoginWorld, scope: LoginScope) -> (sasl::ApplicationPasswordId, String) {
    let protocols = vec![LoginProtocol::Imap];
    let new = NewApplicationPassword { name: "Phone".to_owned(), protocols, scope };
    let added = world.sample.instance.directory.application_password_add("ann", &new).expect("it is valid");
    (added.0.id, added.1)
}

/// Logs Ann in over IMAP with a password, and opens the mail file.
fn open_with(world: &LoginWorld, password: &str) -> (SessionRegistration, MailFile) {
    let session = world.sessions.register();
    let origin = LoginOrigin { connection: session.number(), ..LoginOrigin::local(LoginProtocol::Imap) };
    let request = PasswordRequest::new(b"ann", password.as_bytes()).expect("well formed");
    let login = world.logins.check_password(&origin, &request).expect("the password is right");
    let file = imap::backend::Accounts::open(&*world.logins, &origin, &login).expect("it opens");
    (session, file)
}

#[test]
fn revoked_application_password_ends_its_own_sessions() {
    let mut world = LoginWorld::new();
    let (id, phone) = add_application(&world, LoginScope::All);
    let (_, tablet) = add_application(&world, LoginScope::All);
    assert_eq!(world.apply_changes(), 0);
    let (on_phone, _) = open_with(&world, &phone);
    let (on_tablet, _) = open_with(&world, &tablet);
    let with_main = world.begin_session("ann");
    assert_eq!(world.apply_changes(), 0);
    world.sample.instance.directory.application_password_revoke("ann", id).expect("it exists");
    assert_eq!(world.apply_changes(), 1);
    assert!(on_phone.termination().is_terminated());
    assert!(!on_tablet.termination().is_terminated() && !with_main.termination().is_terminated());
}

#[test]
fn new_second_factor_ends_the_sessions_of_programs_that_know_the_password() {
    let mut world = LoginWorld::new();
    let (_, phone) = add_application(&world, LoginScope::All);
    let (on_phone, _) = open_with(&world, &phone);
    let with_main = world.begin_session("ann");
    let secret = FactorSecret([7; 20]);
    let code = secret.code_at(world.sample.instance.clock.now());
    world.sample.instance.directory.second_factor_set("ann", &secret, &code).expect("the code is right");
    assert_eq!(world.apply_changes(), 1);
    assert!(with_main.termination().is_terminated() && !on_phone.termination().is_terminated());
}

/// Logs in over HTTP on a connection, as a request with a name and a password does. Returns what the login has proved.
fn log_in_over_http(world: &LoginWorld, connection: &SessionRegistration, login: &str) -> (Login, LoginProof) {
    let origin = http_origin(connection);
    let request = PasswordRequest::new(login.as_bytes(), PASSWORD.as_bytes()).expect("well formed");
    let login = world.logins.check_password(&origin, &request).expect("the password is right");
    let found = world.logins.identify(&origin, &login, None).expect("the account may log in");
    (login, LoginProof { stamp: found.stamp, factor: None })
}

fn http_origin(connection: &SessionRegistration) -> LoginOrigin {
    LoginOrigin { connection: connection.number(), ..LoginOrigin::local(LoginProtocol::Http) }
}

#[test]
fn a_watched_login_ends_although_its_connection_carries_another_one() {
    let mut world = LoginWorld::new();
    let connection = world.sessions.register();
    let (ann, proof) = log_in_over_http(&world, &connection, "ann");
    let watch = world.logins.watch(&http_origin(&connection), &ann, proof).expect("the login is valid");
    log_in_over_http(&world, &connection, "bob");
    assert_eq!((world.apply_changes(), world.sessions.logged_in_count()), (0, 1));
    let change = PersonChange { password: Some(b"another one".to_vec()), ..PersonChange::default() };
    world.sample.instance.directory.user_set("ann", &change).expect("the user exists");
    assert_eq!(world.apply_changes(), 1);
    assert!(watch.termination().is_terminated() && !connection.termination().is_terminated());
    // It cannot be watched any more, also if the change comes between the login and the watch.
    let again = world.logins.watch(&http_origin(&connection), &ann, proof);
    assert_eq!(again.err(), Some(LoginError::InvalidCredentials));
}

#[test]
fn a_session_without_a_proof_of_the_second_factor_ends_when_the_account_gets_one() {
    let mut world = LoginWorld::new();
    let directory = Arc::clone(&world.sample.instance.directory);
    let with_proof = world.sessions.register();
    let (ann, before) = log_in_over_http(&world, &with_proof, "ann");
    let without_proof = world.sessions.register();
    log_in_over_http(&world, &without_proof, "ann");
    let added = Timestamp(1_234_567);
    let proved = LoginProof { factor: Some(added), ..before };
    let identify = |proof| world.logins.identify(&http_origin(&with_proof), &ann, Some(proof)).map(drop);
    assert_eq!((identify(before), identify(proved)), (Ok(()), Ok(())), "there is no factor yet");
    let secret = FactorSecret([7; 20]);
    let code = secret.code_at(world.sample.instance.clock.now());
    directory.second_factor_set_at("ann", (&secret, &code), added).expect("the code is right");
    assert_eq!(identify(before), Err(LoginError::InvalidCredentials));
    // A proof of a factor that was removed is none of the next one.
    let earlier = LoginProof { factor: Some(Timestamp(1)), ..before };
    assert_eq!(identify(earlier), Err(LoginError::InvalidCredentials));
    assert_eq!(identify(proved), Ok(()));
    assert_eq!(world.apply_changes(), 1);
    assert!(without_proof.termination().is_terminated() && !with_proof.termination().is_terminated());
}

#[test]
fn application_password_for_reading_changes_nothing() {
    let world = LoginWorld::new();
    let (_, reading) = add_application(&world, LoginScope::Reading);
    let (_, writing) = add_application(&world, LoginScope::All);
    let message = || mail::mailbox::NewMessage {
        raw: b"Subject: x\r\n\r\ny".to_vec(),
        flags: mail::mailbox::Flags::none(),
        received: None,
    };
    let (_session, file) = open_with(&world, &writing);
    let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("a sound store");
    let inbox = inbox.expect("it exists").id;
    file.append(inbox, &[message()]).expect("the owner may write");
    let (_session, file) = open_with(&world, &reading);
    let snapshot = file.snapshot().expect("reading is permitted");
    assert_eq!(snapshot.status(inbox).expect("a sound store").messages, 1);
    drop(snapshot);
    let denied = |outcome: mail::Result<()>| {
        let error = outcome.expect_err("it changes something");
        assert!(matches!(error, mail::Error::Notes(notes::Error::AccessDenied { .. })), "{error}");
    };
    denied(file.append(inbox, &[message()]).map(drop));
    denied(file.folder_create("New", None).map(drop));
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_sessions_until_the_server_drains() {
    let sample = Sample::new();
    let sessions: Arc<SessionRegistry> = Arc::default();
    let session = sessions.register();
    let ann = sample.instance.directory.person("ann").expect("a sound store").expect("the user exists");
    assert!(sessions.register_login(session.number(), &RegisteredLogin::new(&ann), &sample.instance.directory));
    let shutdown = Shutdown::new();
    let task = tokio::spawn(watch(&sample, &sessions).run(shutdown.clone()));
    let change = PersonChange { password: Some(b"another one".to_vec()), ..PersonChange::default() };
    sample.instance.directory.user_set("ann", &change).expect("the user exists");
    session.termination().terminated().await;
    shutdown.drain();
    task.await.expect("no panic");
}
