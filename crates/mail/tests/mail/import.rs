//! Tests of imports over the in-memory engine: progress, resuming, duplicates, and export of imported messages.

use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Name, Timestamp};
use mail::import_export::import::{is_progress_record_full, remove_all_progress, remove_progress};
use mail::import_export::mbox::{MboxReader, MboxWriter};
use mail::import_export::{FileQuirks, ImportOptions, ImportReport, ImportedMessage, Importer};
use mail::mailbox::{MailFile, MailOptions, MailStore};
use notes::Databases;
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

fn file() -> MailFile {
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let store =
        Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
    let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(7)));
    let mail = MailStore::new(databases, MailOptions::default());
    mail.create("mail/ann.nsf", "Ann", &Name::new("ann@acme.test"), None).expect("the mail file is created");
    mail.open_as_server("mail/ann.nsf").expect("the server may open it")
}

fn archive(count: usize) -> Vec<u8> {
    let mut out = MboxWriter::new(Vec::new());
    for number in 0..count {
        let raw = format!("Subject: {number}\r\nX: y\r\n\r\nFrom the start\r\n{}\r\n", "text ".repeat(number % 1_300));
        out.write(raw.as_bytes(), Timestamp::from_seconds(1_000_000), &FileQuirks::default()).unwrap();
    }
    out.finish().unwrap()
}

/// Imports from where the last import stopped. Stops after `limit` messages without finishing the import.
fn import(file: &MailFile, archive: &[u8], options: ImportOptions, limit: usize) -> Option<ImportReport> {
    let mut importer = Importer::new(file, "archive.mbox", options).unwrap();
    let mut reader = MboxReader::new(archive, 0);
    if let Some(position) = importer.position().unwrap() {
        reader = MboxReader::new(&archive[position.offset as usize..], position.offset);
        let last = reader.next_message().unwrap().expect("the last imported message");
        assert_eq!(last.position(), position);
    }
    for _ in 0..limit {
        let Some(message) = reader.next_message().unwrap() else { return Some(importer.finish().unwrap()) };
        importer.add(message.into_imported("Old/Archive")).unwrap();
    }
    None
}

fn exported(file: &MailFile) -> Vec<u8> {
    let snapshot = file.snapshot().unwrap();
    let folder = snapshot.folder("Old/Archive").unwrap().expect("the import created it").id;
    let mut out = MboxWriter::new(Vec::new());
    snapshot
        .entries(folder, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
            let message = snapshot.message(entry.note)?.expect("an entry has its message");
            out.write(&message.raw()?, entry.received, &message.file_form()?).unwrap();
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    out.finish().unwrap()
}

/// Returns all messages of the only mailbox that these imports create, in order.
fn imported(file: &MailFile) -> Vec<Vec<u8>> {
    let snapshot = file.snapshot().unwrap();
    let folder = snapshot.folder("Old/Archive").unwrap().expect("the import created it").id;
    let mut found = Vec::new();
    snapshot
        .entries(folder, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
            found.push(snapshot.message(entry.note)?.expect("an entry has its message").raw()?);
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    found
}

fn letter(text: &str) -> ImportedMessage {
    let raw = format!("Subject: {text}\r\n\r\n").into_bytes();
    ImportedMessage { mailbox: "Old/Archive".into(), raw, ..ImportedMessage::default() }
}

#[test]
fn exported_archive_equals_the_imported_one() {
    let file = file();
    let archive = archive(1_234);
    let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    assert_eq!((report.messages, report.duplicates), (1_234, 0));
    assert!(exported(&file) == archive);
}

#[test]
fn interrupted_import_resumes_after_the_last_group() {
    let file = file();
    let archive = archive(1_300);
    for limit in [700, 10, 600] {
        assert_eq!(import(&file, &archive, ImportOptions::default(), limit), None);
    }
    let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    assert_eq!(report.messages, 300, "the earlier runs imported 500, 0 and 500 messages");
    assert!(exported(&file) == archive);
}

#[test]
fn duplicates_are_skipped_on_request() {
    let file = file();
    let archive = archive(40);
    let skip = ImportOptions { skip_duplicates: true };
    import(&file, &archive, skip, usize::MAX).unwrap();
    remove_progress(&file, &["archive.mbox".to_owned()]).unwrap();
    let again = import(&file, &archive, skip, usize::MAX).unwrap();
    assert_eq!((again.messages, again.duplicates), (0, 40));
}

#[test]
fn finished_source_is_skipped_until_its_progress_is_removed() {
    let file = file();
    let archive = archive(40);
    let run = || {
        let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
        (report.messages, report.sources_done)
    };
    assert_eq!((run(), run()), ((40, 0), (0, 1)));
    remove_progress(&file, &["archive".to_owned(), "archive.mbox ".to_owned()]).unwrap();
    assert_eq!(run(), (0, 1), "only other sources were removed");
    remove_progress(&file, &["archive.mbox".to_owned()]).unwrap();
    assert_eq!(run(), (40, 0));
    assert!(!is_progress_record_full(&file).unwrap());
    remove_all_progress(&file).unwrap();
    assert_eq!(run(), (40, 0));
}

#[test]
fn incomplete_source_is_read_from_its_beginning() {
    let file = file();
    let put = |texts: &[&str], gap: bool| {
        let mut importer = Importer::new(&file, "letters", ImportOptions::default()).unwrap();
        assert_eq!(importer.position().unwrap(), None);
        for text in texts {
            importer.add(letter(text)).unwrap();
        }
        if gap {
            importer.mark_incomplete();
        }
        let report = importer.finish().unwrap();
        (report.messages, report.duplicates)
    };
    assert_eq!(put(&["a", "a"], true), (2, 0));
    assert_eq!(put(&["a", "b", "a"], true), (1, 2));
    assert_eq!(put(&["a", "b", "a"], false), (0, 3));
}

#[test]
fn restarted_import_skips_as_many_copies_as_exist() {
    let file = file();
    let put = |texts: &[&str], again: bool, stop: bool| {
        let mut importer = Importer::new(&file, "letters", ImportOptions::default()).unwrap();
        importer.position().unwrap();
        if again {
            importer.restart();
        }
        for text in texts {
            importer.add(letter(text)).unwrap();
        }
        if stop { importer.stop() } else { importer.finish().unwrap() }
    };
    assert_eq!(put(&["a", "a", "b"], false, false).messages, 3);
    let report = put(&["b", "a", "a", "a", "b"], true, false);
    assert_eq!((report.messages, report.duplicates), (2, 3));
    assert_eq!(imported(&file).len(), 5);
}

#[test]
fn restarted_and_interrupted_import_skips_existing_messages() {
    let file = file();
    let archive = archive(700);
    import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    let mut importer = Importer::new(&file, "archive.mbox", ImportOptions::default()).unwrap();
    importer.restart();
    let mut reader = MboxReader::new(&archive[..], 0);
    for _ in 0..500 {
        importer.add(reader.next_message().unwrap().expect("one of 700").into_imported("Old/Archive")).unwrap();
    }
    assert_eq!(importer.stop().duplicates, 500);
    let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    assert_eq!((report.messages, report.duplicates), (0, 700), "the source is read from its beginning");
}

#[test]
fn interrupted_restart_keeps_repeated_messages_of_the_source() {
    let file = file();
    let texts: Vec<String> =
        ["twice".to_owned()].into_iter().chain((1..500).map(|n| n.to_string())).chain(["twice".to_owned()]).collect();
    let read = |count: usize| {
        let mut importer = Importer::new(&file, "letters", ImportOptions::default()).unwrap();
        let done = importer.position().unwrap().map_or(0, |position| position.offset as usize);
        importer.restart();
        for (index, text) in texts.iter().enumerate().take(count).skip(done) {
            importer.add(ImportedMessage { next_position: (index as u64 + 1).into(), ..letter(text) }).unwrap();
        }
        importer
    };
    assert_eq!(read(500).stop().messages, 500);
    assert_eq!(read(501).finish().unwrap().messages, 1);
    assert_eq!(imported(&file).len(), 501);
}

#[test]
fn duplicates_are_detected_per_mailbox() {
    let file = file();
    let mut importer = Importer::new(&file, "letters", ImportOptions { skip_duplicates: true }).unwrap();
    for mailbox in ["One", "Two", "One"] {
        importer.add(ImportedMessage { mailbox: mailbox.into(), ..letter("same") }).unwrap();
    }
    let report = importer.finish().unwrap();
    assert_eq!((report.messages, report.duplicates), (2, 1));
}

#[test]
fn message_is_imported_without_excess_keywords() {
    let file = file();
    let mut importer = Importer::new(&file, "letters", ImportOptions::default()).unwrap();
    let most = notes::limits::KEYWORDS_PER_DATABASE_MAX;
    for number in 0..=most {
        let mut message = letter("keyword");
        message.flags.add(&format!("k{number}"));
        message.flags.add("K0");
        importer.add(message).unwrap();
    }
    let report = importer.finish().unwrap();
    assert_eq!((report.messages, report.keywords_left_out), (most as u64 + 1, 1));
}

#[test]
fn missing_time_is_taken_from_the_header() {
    let check = |header: &str, expected: Option<i64>| {
        let found = mail::import_export::import::time_of(header.as_bytes());
        assert_eq!(found, expected.map(Timestamp::from_seconds), "{header:?}");
    };
    let date = "Date: Thu, 1 Jan 1970 01:00:00 +0000\r\n";
    check(&format!("{date}Received: from a by b;\r\n Thu, 1 Jan 1970 02:00:00 +0000\r\n\r\n"), Some(7_200));
    check(&format!("{date}Received: from a by b\r\n\r\n"), Some(3_600));
    check("Subject: none\r\n\r\n", None);
}
