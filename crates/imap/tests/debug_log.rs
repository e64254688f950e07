//! Tests the debug events that `log.filter = "imap=debug"` writes to the log, and that they reveal nothing secret.

use std::sync::Arc;

use base::sim::{EventRecorder, FieldForm};
use tokio::io::AsyncWriteExt;
use wire::{Peer, PoolOptions, SessionTermination, Shutdown, Stream, WorkerPool};

use crate::connection::Connection;
use crate::world::TestServer;

/// Returns the form of a field: connection and peer are the same in every event.
fn field_form(name: &str) -> FieldForm {
    if matches!(name, "connection" | "peer") { FieldForm::Omitted } else { FieldForm::Full }
}

/// Plays lines of a client and compares the events that they cause.
fn check(dialogue: &[(&str, &[&str])]) {
    let recorder = EventRecorder::new("imap", field_form);
    let world = TestServer::new();
    let mut connection = Connection::new(&world, Peer::local());
    let _recording = recorder.start();
    for (line, expected) in dialogue {
        connection.receive(format!("{line}\r\n").as_bytes());
        assert_eq!(recorder.take(), *expected, "{line}");
    }
}

#[test]
fn commands_and_states_are_logged_without_their_content() {
    check(&[
        ("a CAPABILITY", &[r#"command completed tag="a" verb="CAPABILITY" status="OK" reply="" duration_us=0"#]),
        (
            "b LOGIN alice wrong",
            &[
                r#"command completed tag="b" verb="LOGIN" status="NO" reply="[AUTHENTICATIONFAILED] wrong login or password" duration_us=0"#,
            ],
        ),
        (
            "c LOGIN alice secret",
            &[
                r#"command completed tag="c" verb="LOGIN" status="OK" reply="logged in" duration_us=0"#,
                r#"state changed from="not authenticated" to="authenticated" login="alice""#,
            ],
        ),
        (
            "d LOGIN alice secret",
            &[r#"command completed tag="d" verb="LOGIN" status="BAD" reply="you are logged in already" duration_us=0"#],
        ),
        (
            "e SELECT INBOX",
            &[
                r#"command completed tag="e" verb="SELECT" status="OK" reply="" duration_us=0"#,
                r#"state changed from="authenticated" to="selected" login="alice""#,
            ],
        ),
        (
            "f SEARCH SUBJECT \"the words\"",
            &[r#"command completed tag="f" verb="SEARCH" status="OK" reply="" duration_us=0"#],
        ),
        ("g SEARCH SUBJECT", &[r#"command refused tag="g" status="BAD" reply=expected a space"#]),
        // Such a line may be part of a literal that the server did not want.
        ("Dear Alice, this is private", &[r#"command refused status="BAD" reply=unknown command"#]),
        (
            "i SELECT Nowhere",
            &[
                r#"command completed tag="i" verb="SELECT" status="NO" reply="[NONEXISTENT] there is no such mailbox" duration_us=0"#,
                r#"state changed from="selected" to="authenticated" login="alice""#,
            ],
        ),
        (
            "j LOGOUT",
            &[
                r#"command completed tag="j" verb="LOGOUT" status="OK" reply="" duration_us=0"#,
                r#"state changed from="authenticated" to="logout" login="alice""#,
            ],
        ),
    ]);
}

#[test]
fn multi_line_command_is_logged_once_with_its_duration() {
    let recorder = EventRecorder::new("imap", field_form);
    let world = TestServer::new();
    let mut connection = Connection::new(&world, Peer::local());
    let _recording = recorder.start();
    connection.receive(b"a AUTHENTICATE PLAIN\r\n");
    assert!(recorder.take().is_empty());
    world.clock.advance(std::time::Duration::from_millis(3));
    connection.receive(b"AGFsaWNlAHNlY3JldA==\r\n");
    let logged = recorder.take();
    assert_eq!(
        logged[0],
        r#"command completed tag="a" verb="AUTHENTICATE" status="OK" reply="logged in" duration_us=3000"#
    );
    assert_eq!(logged.len(), 2, "{logged:?}");
    connection.receive(b"b IDLE\r\n");
    world.clock.advance(std::time::Duration::from_secs(2));
    connection.receive(b"DONE\r\n");
    let logged = recorder.take();
    assert_eq!(logged, [r#"command completed tag="b" verb="IDLE" status="OK" reply="" duration_us=2000000"#]);
}

#[test]
fn session_end_by_mailbox_deletion_is_logged() {
    let recorder = EventRecorder::new("imap", field_form);
    let world = TestServer::new();
    let mut connection = Connection::new(&world, Peer::local());
    let mut other = Connection::new(&world, Peer::local());
    connection.receive(b"a LOGIN alice secret\r\nb SELECT Junk\r\n");
    other.receive(b"a LOGIN alice secret\r\nb DELETE Junk\r\n");
    let _recording = recorder.start();
    connection.receive(b"c NOOP\r\n");
    assert_eq!(recorder.take(), [r#"session ended login="alice" reply="[NONEXISTENT] the mailbox was deleted""#]);
}

#[tokio::test]
async fn connection_open_and_close_are_logged() {
    let recorder = EventRecorder::new("imap", field_form);
    let _recording = recorder.start();
    let world = TestServer::new();
    let clock = Arc::new(base::sim::SimClock::new());
    let pool = WorkerPool::new(&PoolOptions { workers: 1, ..PoolOptions::default() }, clock).expect("threads start");
    let service = imap::ListenerServices {
        context: Arc::clone(&world.context),
        tls: None,
        login_pool: pool.clone(),
        pool,
        shutdown: Shutdown::new(),
    };
    let (stream, mut client) = Stream::duplex(1_024);
    client.write_all(b"a LOGIN alice secret\r\nb LOGOUT\r\n").await.expect("the stream takes a few bytes");
    imap::serve(stream, Peer::local(), Arc::new(service), SessionTermination::default()).await.expect("a proper end");
    let logged = recorder.take();
    assert_eq!(logged.first().map(String::as_str), Some("connection opened tls=false"), "{logged:?}");
    assert_eq!(logged.last().map(String::as_str), Some(r#"connection closed login="alice""#), "{logged:?}");
}
