//! Documents without a MIME message in a mail file, and the messages that stand for them.

use std::sync::Arc;

use base::{NoteId, Timestamp, Uid, Unid};
use mail::mailbox::{Flags, MailFile, NewMessage};
use mail::mime::{self, MimeSource};
use notes::{Access, Identity, Item, ItemValue, NewNote, level};

use super::mailbox::{ann, mail};

/// The content of the attachments.
const FILE: [u8; 1_000] = [7; 1_000];

/// Creates a document in a mailbox. `files` are the names of its attachments.
fn create(file: &MailFile, mailbox: &str, items: Vec<Item>, files: &[(&str, &str)]) -> NoteId {
    create_stating(file, (mailbox, FILE.len() as u64), items, files)
}

/// Creates a document in a mailbox that states a length for each of its attachments.
fn create_stating(
    file: &MailFile,
    (mailbox, length): (&str, u64),
    mut items: Vec<Item>,
    files: &[(&str, &str)],
) -> NoteId {
    let folder = file.snapshot().unwrap().folder(mailbox).unwrap().expect("the mailbox exists").id;
    let access: Access<level::Depositor> = file.database().authorize(&Arc::new(Identity::local_server(""))).unwrap();
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).unwrap();
    let mut writer = transaction.writer(0);
    let mut blobs = Vec::new();
    for (file_name, media_type) in files {
        let blob = writer.blob_put(&FILE).unwrap();
        blobs.push(blob);
        let file_name = (*file_name).to_owned();
        let media_type = (*media_type).to_owned();
        let value = ItemValue::Object { file_name, media_type, length, blob };
        items.push(Item::summary("$FILE", value));
    }
    blobs.dedup();
    let unid = Some(Unid([0xab; 16]));
    let new = NewNote { unid, blobs, folders: vec![folder], ..NewNote::document(items) };
    let note = writer.note_create(new).unwrap();
    transaction.commit().unwrap();
    note
}

/// Creates a document in Drafts and returns its message. Checks everything that does not depend on its contents.
fn composed(items: Vec<Item>, files: &[(&str, &str)]) -> String {
    let mail = mail();
    let file = ann(&mail);
    let note = create(&file, "Drafts", items, files);
    let snapshot = file.snapshot().unwrap();
    let message = snapshot.message(note).unwrap().expect("the document exists");
    let raw = message.raw().unwrap();
    assert_eq!(message.raw().unwrap(), raw);
    assert_eq!(*message.structure(), mime::parse(&raw));
    assert_eq!(message.header(), &raw[..message.header().len()]);
    for start in (0..raw.len()).step_by(97) {
        let end = raw.len().min(start + 200);
        assert_eq!(*message.range(start as u64..end as u64).unwrap(), raw[start..end]);
    }
    let folder = snapshot.folder("Drafts").unwrap().unwrap().id;
    let mut sizes = Vec::new();
    let _ = snapshot.entries(folder, Uid(1)..=Uid(9), &mut |entry| {
        // The second size comes from the cache.
        let size = snapshot.message_size(&entry)?;
        sizes.push((entry.note, size, snapshot.message_size(&entry)?, entry.crlf_growth));
        Ok(std::ops::ControlFlow::Continue(()))
    });
    assert_eq!(sizes, [(note, raw.len() as u64, raw.len() as u64, 0)]);
    assert_eq!(notes::fixup::check(file.database()).unwrap().findings, []);
    String::from_utf8(raw).expect("the message is ASCII")
}

#[test]
fn items_become_fields() {
    let names = |names: &[&str]| ItemValue::TextList(names.iter().map(|name| (*name).to_owned()).collect());
    let message = composed(
        vec![
            Item::text("Form", "Memo"),
            Item::text("Subject", "Größe\r\nBcc: eve@acme.test"),
            Item::text("From", "Ann Baker/Acme"),
            Item::summary("SendTo", names(&["bob@acme.test", "\"Carol C.\" <carol@acme.test>"])),
            Item::text("CopyTo", "Zoë <zoe@acme.test>, Dora/Acme"),
            Item::summary("PostedDate", ItemValue::Time(Timestamp::from_seconds(86_400))),
            Item::text("Body", "One\ntwo\n"),
        ],
        &[],
    );
    let expected = "From: \"Ann Baker/Acme\" <unknown@note.invalid>\r\n\
        To: bob@acme.test,\r\n \"Carol C.\" <carol@acme.test>\r\n\
        Cc: =?utf-8?B?Wm/DqyA8em9lQGFjbWUudGVzdD4sIERvcmEvQWNtZQ==?= <unknown@note.invalid>\r\n\
        Subject: =?utf-8?B?R3LDtsOfZSAgQmNjOiBldmVAYWNtZS50ZXN0?=\r\n\
        Date: Fri, 02 Jan 1970 00:00:00 +0000\r\n\
        Message-ID: <ABABABABABABABABABABABABABABABAB@note.invalid>\r\n\
        MIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\r\n\
        One\r\ntwo\r\n";
    assert_eq!(message, expected);
}

#[test]
fn document_without_known_items_is_shown() {
    let message = composed(vec![Item::text("Form", "Order")], &[]);
    assert!(message.starts_with("Subject: \r\nDate: "), "{message}");
    assert!(message.ends_with("Content-Type: text/plain; charset=utf-8\r\n\r\n"), "{message}");
}

#[test]
fn rich_text_and_attachments_become_parts() {
    let body = Item::body("Body", ItemValue::RichText("<p>Grüße</p>".into()));
    let files = [("plan.pdf", "application/pdf"), ("Übersicht.txt", "multipart/mixed")];
    let message = composed(vec![Item::text("Subject", "Plan"), body], &files);
    let structure = mime::parse(message.as_bytes());
    let parts: Vec<(String, Option<String>)> = structure
        .parts()
        .iter()
        .map(|part| {
            let (kind, subtype) = part.media();
            let media = format!("{}/{}", String::from_utf8_lossy(kind), String::from_utf8_lossy(subtype));
            (media, part.content.file_name())
        })
        .collect();
    let part = |media: &str, name: Option<&str>| (media.to_owned(), name.map(str::to_owned));
    let expected = [
        part("multipart/mixed", None),
        part("text/html", None),
        part("application/pdf", Some("plan.pdf")),
        part("application/octet-stream", Some("Übersicht.txt")),
    ];
    assert_eq!(parts, expected);
    let decode = |index: usize| {
        let part = &structure.parts()[index];
        let body = &message.as_bytes()[part.body.start as usize..part.body.end as usize];
        mime::transfer_encoding::decode(&part.content.encoding, body, 10_000).map(|bytes| bytes.into_owned())
    };
    assert_eq!(decode(1).as_deref(), Some("<p>Grüße</p>\r\n".as_bytes()));
    assert_eq!((decode(2).as_deref(), decode(3).as_deref()), (Some(&FILE[..]), Some(&FILE[..])));
}

/// Lengths in items come from clients and other servers.
#[test]
fn message_has_the_stored_contents_whatever_lengths_the_document_states() {
    let files = [("a.bin", "application/octet-stream"), ("b.bin", "application/octet-stream")];
    let raw = |length: u64| {
        let mail = mail();
        let file = ann(&mail);
        let note = create_stating(&file, ("Drafts", length), vec![Item::text("Subject", "Files")], &files);
        let snapshot = file.snapshot().unwrap();
        let message = snapshot.message(note).unwrap().expect("the document exists");
        let raw = message.raw().unwrap();
        assert_eq!(message.structure().length(), raw.len() as u64, "{length}");
        assert_eq!(*message.structure(), mime::parse(&raw), "{length}");
        raw
    };
    let expected = raw(FILE.len() as u64);
    for length in [0, 10, 1 << 40, u64::MAX / 3 * 2, u64::MAX] {
        assert!(raw(length) == expected, "{length}");
    }
}

#[test]
fn text_that_looks_like_a_boundary_stays_text() {
    let text = format!("--=_{}--\n", "AB".repeat(16));
    let message = composed(vec![Item::text("Body", text.as_str())], &[("a.bin", "application/octet-stream")]);
    assert_eq!(mime::parse(message.as_bytes()).parts().len(), 3);
}

/// Clients keep the message of a UID for ever.
#[test]
fn changed_document_gets_a_new_uid() {
    let mail = mail();
    let file = ann(&mail);
    let note = create(&file, "Drafts", vec![Item::text("Subject", "one")], &[]);
    let drafts = file.snapshot().unwrap().folder("Drafts").unwrap().expect("the mailbox exists").id;
    let state = || {
        let snapshot = file.snapshot().unwrap();
        let mut found = Vec::new();
        let listed = snapshot.entries(drafts, Uid(1)..=Uid(9), &mut |entry| {
            let size = snapshot.message_size(&entry)?;
            let message = snapshot.message_of(&entry)?.expect("it exists");
            assert_eq!(size, message.structure().length());
            assert!(snapshot.has_message(drafts, entry.uid, note)?);
            found.push((entry.uid, size, message.email_id()?));
            Ok(std::ops::ControlFlow::Continue(()))
        });
        listed.unwrap();
        found
    };
    let write = |person: &str, change: &dyn Fn(&mut notes::Writer<'_, '_>)| {
        let access: Access<level::Depositor> = file.database().authorize(&Arc::new(Identity::person(person))).unwrap();
        let accesses = [&access];
        let mut transaction = file.mail().databases().transaction(&accesses).unwrap();
        change(&mut transaction.writer(0));
        transaction.commit().unwrap();
    };
    let first = state();
    assert_eq!(first[0].0, Uid(1));
    let before = file.snapshot().unwrap().modseq();
    write("ann@acme.test", &|writer| {
        // Two saves in one transaction are one change.
        for subject in ["two", "three, which is longer"] {
            let version = writer.header(note).unwrap().expect("it exists").revision();
            writer.note_update(note, version, &[Item::text("Subject", subject)], &[]).unwrap();
        }
    });
    let second = state();
    assert_eq!((second.len(), second[0].0), (1, Uid(2)));
    assert!(second[0].1 > first[0].1);
    assert_ne!(second[0].2, first[0].2, "clients must not take it for the same message");
    assert!(!file.snapshot().unwrap().has_message(drafts, Uid(1), note).unwrap());
    let changes = file.snapshot().unwrap().changes(drafts, before).unwrap();
    assert!(changes.vanished.contains(1));
    assert_eq!(changes.changed.iter().map(|changed| changed.uid).collect::<Vec<_>>(), [Uid(2)]);
    write("ann@acme.test", &|writer| {
        writer.marks_set(note, notes::Marks::SEEN, &[]).unwrap();
    });
    assert_eq!(state(), second, "flags change without a new message");
    assert_eq!(notes::fixup::check(file.database()).unwrap().findings, []);
}

#[test]
fn message_keeps_its_stored_bytes_beside_documents() {
    let mail = mail();
    let file = ann(&mail);
    create(&file, "INBOX", vec![Item::text("Subject", "document")], &[]);
    let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().unwrap().id;
    let raw = b"Subject: message\n\nline\n".to_vec();
    let message = NewMessage { raw: raw.clone(), flags: Flags::none(), received: None };
    let (_, uids, _) = file.append(inbox, &[message]).unwrap();
    let entry = file.snapshot().unwrap().entry(inbox, uids[0]).unwrap().expect("the message exists");
    assert!(!entry.composed);
    assert_eq!((entry.size, entry.crlf_growth), (raw.len() as u64, 3));
}
