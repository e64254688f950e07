//! Tests of an import across crashes: every message is imported once and in order, whatever each crash loses.
//!
//! An archive is imported in sections of random length. After each section the disk fails and loses some of the data
//! that was not durable. The mail file then always contains the beginning of the archive, and the record of progress
//! marks the end of this beginning.

use std::ops::ControlFlow;

use base::sim::SeededRandom;
use base::{Name, Random, Timestamp, Uid};
use mail::import_export::mbox::{MboxReader, MboxWriter};
use mail::import_export::{FileQuirks, ImportOptions, Importer};
use mail::mailbox::MailFile;

use super::invariants::assert_databases_consistent;
use super::seeds::each_seed;
use super::world::{SyncTiming, World};

const PATH: &str = "mail/ann.nsf";

/// Number of messages. They fill more than three groups.
const COUNT: u64 = 1_700;

fn message(number: u64) -> Vec<u8> {
    format!("Subject: {number}\r\n\r\nFrom a crash\r\n").into_bytes()
}

fn archive() -> Vec<u8> {
    let mut out = MboxWriter::new(Vec::new());
    for number in 0..COUNT {
        out.write(&message(number), Timestamp::from_seconds(1_000_000), &FileQuirks::default())
            .expect("writing to memory");
    }
    out.finish().expect("writing to memory")
}

/// Imports up to `limit` messages from where the last import stopped. Returns `true` if the import is complete.
fn continue_import(file: &MailFile, archive: &[u8], limit: u64) -> bool {
    let mut importer = Importer::new(file, "archive", ImportOptions::default()).expect("an import");
    let mut reader = MboxReader::new(archive, 0);
    if let Some(position) = importer.position().expect("a record") {
        reader = MboxReader::new(&archive[position.offset as usize..], position.offset);
        let last = reader.next_message().expect("reading from memory").expect("the last imported message");
        assert_eq!(last.position(), position);
        assert_eq!(imported(file).last(), Some(&last.into_imported("Old").raw), "the progress matches the messages");
    }
    for _ in 0..limit {
        let Some(message) = reader.next_message().expect("reading from memory") else {
            importer.finish().expect("the disk works");
            return true;
        };
        importer.add(message.into_imported("Old")).expect("the disk works");
    }
    false
}

fn imported(file: &MailFile) -> Vec<Vec<u8>> {
    let snapshot = file.snapshot().expect("a snapshot");
    let mut found = Vec::new();
    let Some(folder) = snapshot.folder("Old").expect("the snapshot can be read") else { return found };
    snapshot
        .entries(folder.id, Uid(1)..=Uid(u32::MAX), &mut |entry| {
            found.push(snapshot.message(entry.note)?.expect("an entry has its message").raw()?);
            Ok(ControlFlow::Continue(()))
        })
        .expect("the mailbox can be read");
    found
}

#[test]
fn import_across_crashes_stores_each_message_once() {
    let archive = archive();
    let expected: Vec<Vec<u8>> = (0..COUNT).map(message).collect();
    each_seed("import_across_crashes_stores_each_message_once", 10, 500, |seed| {
        let random = SeededRandom::new(seed);
        let mut world = World::new(seed, if seed.is_multiple_of(2) { SyncTiming::Late } else { SyncTiming::Each });
        world.mail.create(PATH, "Ann", &Name::new("ann@acme.test"), None).expect("the mail file is created");
        world.sync_all().expect("the disk works");
        loop {
            let done = continue_import(&world.file(PATH), &archive, random.next_u64() % (COUNT + 200));
            if done || random.next_u64().is_multiple_of(2) {
                world.sync_all().expect("the disk works");
            }
            world = world.crashed();
            let found = imported(&world.file(PATH));
            assert!(expected.starts_with(&found), "the mailbox has the beginning of the archive");
            if done {
                assert_eq!(found.len(), expected.len());
                break;
            }
        }
        assert_databases_consistent(&world);
    });
}
