//! Imports over the in-memory engine: progress, resuming, duplicates, and export back.

use std::sync::Arc;

use base::Name;
use base::sim::{SeededRandom, SimClock};
use mail::mailbox::{Flags, Mail, MailFile, MailOptions};
use mail::transport::mbox::MboxReader;
use mail::transport::{ImportOptions, ImportReport, ImportedMessage, Importer, line_ends, mbox};
use notes::Notes;
use store::memory::Memory;
use store::{Options, Store, SyncMode};

fn file() -> MailFile {
    let options = Options { sync: SyncMode::Each, ..Options::default() };
    let store = Arc::new(Store::over(Arc::new(Memory::new(1)), &options).expect("a store in memory opens"));
    let notes = Notes::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(7)));
    let mail = Mail::new(notes, MailOptions::default());
    mail.create("mail/ann.nsf", "Ann", &Name::new("ann@acme.test"), None).expect("the mail file is made");
    mail.open_as_server("mail/ann.nsf").expect("the server may open it")
}

fn archive(count: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 0..count {
        let raw = format!("Subject: {number}\nX: y\n\nFrom the start\n{}\n", "text ".repeat(number % 1_300));
        mbox::write_message(&mut out, raw.as_bytes(), "bob@acme.test", base::Timestamp::from_seconds(1_000_000))
            .unwrap();
    }
    out
}

/// Imports from where the last import stopped; gives up after `limit` messages without finishing.
fn import(file: &MailFile, archive: &[u8], options: ImportOptions, limit: usize) -> Option<ImportReport> {
    let mut importer = Importer::new(file, "archive.mbox", options).unwrap();
    let start = importer.position().unwrap();
    let mut reader = MboxReader::new(&archive[start as usize..], start);
    for _ in 0..limit {
        let Some(message) = reader.next_message().unwrap() else { return Some(importer.finish().unwrap()) };
        let imported = ImportedMessage {
            mailbox: "Old/Archive".into(),
            raw: line_ends::to_wire(message.raw),
            flags: Flags::none(),
            received: message.received,
            next_position: message.next_offset,
        };
        importer.add(imported).unwrap();
    }
    None
}

fn exported(file: &MailFile) -> Vec<u8> {
    let view = file.view().unwrap();
    let folder = view.folder("Old/Archive").unwrap().expect("the import made it").id;
    let mut out = Vec::new();
    view.entries(folder, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
        let raw = view.message(entry.note)?.expect("an entry has its message").raw()?;
        mbox::write_message(&mut out, &line_ends::to_file(&raw), "bob@acme.test", entry.received).unwrap();
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    out
}

#[test]
fn an_archive_comes_out_as_it_went_in() {
    let (file, archive) = (file(), archive(1_234));
    let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    assert_eq!((report.messages, report.duplicates), (1_234, 0));
    assert!(exported(&file) == archive);
}

#[test]
fn an_import_goes_on_where_it_stopped() {
    let (file, archive) = (file(), archive(1_300));
    for limit in [700, 10, 600] {
        assert_eq!(import(&file, &archive, ImportOptions::default(), limit), None);
    }
    let report = import(&file, &archive, ImportOptions::default(), usize::MAX).unwrap();
    assert_eq!(report.messages, 300, "a group of 500, nothing, and another group of 500 went before");
    assert!(exported(&file) == archive);
}

#[test]
fn duplicates_are_left_out_when_asked_for() {
    let (file, archive) = (file(), archive(40));
    let skip = ImportOptions { skip_duplicates: true };
    import(&file, &archive, skip, usize::MAX).unwrap();
    let again = import(&file, &archive, skip, usize::MAX).unwrap();
    assert_eq!((again.messages, again.duplicates), (0, 40));
}
