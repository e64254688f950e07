//! Tests of `jmap` from outside: dialogues as text files over mail files in memory; several clients against a model,
//! with replayed changes; the access matrix of all methods; bad input; the Email objects; notifications of displayed
//! messages; the limits of messages; connections over WebSocket; pushes to a service; uploads and downloads over HTTP.

mod access_matrix;
mod bad_input;
mod dialogue;
mod email;
mod locked_preferences;
mod mdn;
mod message_limits;
mod model;
mod push;
mod server;
mod submission;
mod text_search;
mod uploads;
mod websocket;
mod world;

use std::collections::BTreeSet;
use std::path::Path;

/// Defines one test for each file in `dialogues`, with the name of the file.
macro_rules! dialogues {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jmap/dialogues");
            let path = folder.join(concat!(stringify!($name), ".txt"));
            let text = std::fs::read_to_string(path).expect("the dialogue is there");
            dialogue::play(stringify!($name), &text);
        })+

        #[test]
        fn every_dialogue_is_played() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jmap/dialogues");
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
    blobs,
    changes,
    core,
    delegated_accounts,
    email_copy,
    email_get,
    email_query,
    email_set,
    identities,
    mailbox_query,
    mailbox_set,
    mdn,
    preferences,
    principals,
    set_errors,
    small_types,
    vacation_response
);
