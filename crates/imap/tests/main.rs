//! Tests of the `imap` crate from outside: dialogues as text files, played against real sessions over an in-memory
//! store; several clients against a model; clients that change between two servers; searches against a model, and with
//! an index against searches without; verbs in each state of a session; slices of long responses; messages that cannot
//! be read; documents without a message; memory; pace; complete connections over loopback sockets; debug events.

mod access_matrix;
mod change_slices;
mod composed;
mod connection;
mod debug_log;
mod dialogue;
mod fetch_slices;
mod index_equivalence;
mod list_slices;
mod memory;
mod model;
mod pace;
mod search_model;
mod search_slices;
mod sockets;
mod states;
mod two_servers;
mod unreadable;
mod world;

use std::collections::BTreeSet;
use std::path::Path;

use sasl::Mechanism;
use wire::Peer;

/// Defines one test for each file in `dialogues`, with the name of the file.
macro_rules! dialogues {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(concat!("tests/dialogues/", stringify!($name), ".txt"));
            let text = std::fs::read_to_string(path).expect("the dialogue is there");
            // The portions in which the bytes arrive do not matter.
            for piece_bytes in [usize::MAX, 1] {
                dialogue::play(stringify!($name), &text, piece_bytes);
            }
        })+

        #[test]
        fn every_dialogue_is_played() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dialogues");
            let files = std::fs::read_dir(folder).expect("the folder of dialogues is there");
            let stem = |file: std::io::Result<std::fs::DirEntry>| {
                let path = file.expect("the folder can be read").path();
                path.file_stem().expect("files have names").to_string_lossy().into_owned()
            };
            let found: BTreeSet<String> = files.map(stem).collect();
            let played: BTreeSet<String> = [$(stringify!($name)),+].iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(found, played);
        }
    };
}

dialogues!(
    append,
    condstore,
    copy,
    enable,
    fetch,
    list_extended,
    login,
    mailboxes,
    noop,
    notify,
    numbers,
    qresync,
    quota,
    search,
    search_keys,
    store,
    syntax
);

#[test]
fn scram_that_is_switched_off_is_not_offered() {
    let world = world::TestServer::with(|options| options.mechanisms = vec![Mechanism::Plain, Mechanism::Login]);
    let mut connection = connection::Connection::new(&world, Peer::local());
    let mut ask = |line: &str| {
        connection.receive(format!("{line}\r\n").as_bytes());
        connection.lines.drain(..).collect::<Vec<String>>()
    };
    let replies = ask("a CAPABILITY");
    assert!(replies[0].ends_with(" STARTTLS AUTH=PLAIN AUTH=LOGIN"), "{replies:?}");
    let replies = ask("b AUTHENTICATE SCRAM-SHA-256 eA==");
    assert_eq!(replies, ["b NO [CANNOT] this authentication mechanism is not available"]);
    let replies = ask("c AUTHENTICATE PLAIN AGFsaWNlAHNlY3JldA==");
    assert!(replies[0].starts_with("c OK "), "{replies:?}");
}
