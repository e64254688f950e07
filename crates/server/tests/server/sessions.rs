//! Tests of the registry of sessions, and of the task that follows the directory.

use std::sync::Arc;

use directory::PersonChange;
use sample::Sample;
use server::session_registry::{DirectoryWatch, SessionRegistry};
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
