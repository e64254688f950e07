//! Every verb in the states in which it is not permitted: it is refused before it has an effect.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use imap::codec::{PermittedState, VERBS};
use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// Verbs with valid arguments.
const COMMANDS: &[&str] = &[
    "FETCH 1 FLAGS",
    "STORE 1 +FLAGS (\\Seen)",
    "SEARCH ALL",
    "NOOP",
    "SELECT INBOX",
    "APPEND INBOX {1+}\r\nx",
    "STATUS INBOX (MESSAGES)",
    "IDLE",
    "LIST \"\" *",
    "EXPUNGE",
    "COPY 1 Archive",
    "MOVE 1 Archive",
    "LOGIN alice secret",
    "LOGOUT",
    "CAPABILITY",
    "AUTHENTICATE PLAIN AGFsaWNlAHNlY3JldA==",
    "ID NIL",
    "ENABLE CONDSTORE",
    "EXAMINE INBOX",
    "CLOSE",
    "UNSELECT",
    "CHECK",
    "SORT (SUBJECT) UTF-8 ALL",
    "THREAD REFERENCES UTF-8 ALL",
    "REPLACE 1 INBOX {1+}\r\nx",
    "CREATE New",
    "DELETE Archive",
    "RENAME Archive New",
    "SUBSCRIBE Archive",
    "UNSUBSCRIBE Archive",
    "LSUB \"\" *",
    "NAMESPACE",
    "NOTIFY NONE",
    "STARTTLS",
    "COMPRESS DEFLATE",
    "GETQUOTA \"\"",
    "GETQUOTAROOT INBOX",
    "SETQUOTA \"\" (STORAGE 1)",
    "GETJMAPACCESS",
];

/// Sends lines over a new connection. Returns the tagged response to the last one.
fn answer(lines: &[&str]) -> String {
    let world = TestServer::new();
    let mut connection = Connection::new(&world, Peer::local());
    for (number, line) in (1..).zip(lines) {
        connection.receive(format!("a{number} {line}\r\n").as_bytes());
    }
    let tag = format!("a{} ", lines.len());
    let found = connection.lines.iter().find_map(|line| line.strip_prefix(&tag));
    found.unwrap_or_else(|| panic!("{lines:?} has no tagged response: {:?}", connection.lines)).to_owned()
}

fn permitted_state(command: &str) -> PermittedState {
    let name = command.split(' ').next().unwrap_or_default();
    VERBS.iter().find(|verb| verb.name == name).expect("the verb is known").allowed
}

#[test]
fn every_verb_is_listed() {
    let listed: BTreeSet<&str> = COMMANDS.iter().filter_map(|command| command.split(' ').next()).collect();
    assert_eq!(listed, VERBS.iter().map(|verb| verb.name).collect());
}

#[test]
fn commands_require_a_login() {
    for command in COMMANDS {
        let needs_login = matches!(permitted_state(command), PermittedState::AfterLogin | PermittedState::Selected);
        if needs_login {
            assert_eq!(answer(&[command]), "BAD log in first", "{command}");
        }
    }
}

#[test]
fn message_commands_require_a_selected_mailbox() {
    for command in COMMANDS.iter().filter(|command| permitted_state(command) == PermittedState::Selected) {
        let log_in = "LOGIN alice secret";
        assert_eq!(answer(&[log_in, command]), "BAD select a mailbox first", "{command}");
        assert_eq!(answer(&[log_in, "SELECT INBOX", "UNSELECT", command]), "BAD select a mailbox first", "{command}");
        assert_eq!(answer(&[log_in, "SELECT INBOX", "SELECT Nowhere", command]), "BAD select a mailbox first");
    }
}

#[test]
fn second_login_is_refused() {
    for command in COMMANDS.iter().filter(|command| permitted_state(command) == PermittedState::BeforeLogin) {
        let expected = "BAD you are logged in already";
        assert_eq!(answer(&["LOGIN alice secret", command]), expected, "{command}");
        assert_eq!(answer(&["LOGIN alice secret", "SELECT INBOX", command]), expected, "{command}");
    }
}

#[test]
fn uid_prefix_is_limited_to_message_commands() {
    for (name, exists) in [
        ("FETCH 1 FLAGS", true),
        ("EXPUNGE 1", true),
        ("EXPUNGE", false),
        ("SEARCH ALL", true),
        ("NOOP", false),
        ("CLOSE", false),
        ("APPEND INBOX {1+}\r\nx", false),
    ] {
        let answer = answer(&["LOGIN alice secret", "SELECT INBOX", &format!("UID {name}")]);
        assert_eq!(answer.starts_with("OK "), exists, "{name}: {answer}");
    }
}

#[test]
fn login_ends_if_the_mail_file_cannot_be_opened() {
    let world = TestServer::new();
    let mut connection = Connection::new(&world, Peer::local());
    connection.receive(b"a1 LOGIN erin secret\r\na2 LOGIN alice secret\r\n");
    let replies: Vec<String> = connection.lines.drain(..).filter(|line| line.starts_with('a')).collect();
    assert_eq!(replies[0], "a1 NO [UNAVAILABLE] cannot authenticate now, try again later");
    assert!(replies[1].starts_with("a2 OK"), "{}", replies[1]);
    assert_eq!(world.ended_logins.load(Ordering::Relaxed), 1);
}
