//! Tests of mail files over the in-memory engine: mailboxes, messages, flags, copies, moves, changes.

use std::collections::HashSet;
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Name, NoteId, Uid, UidSet, Unid, ViewId};
use mail::limits::CACHED_PROFILE_BYTES_MAX;
use mail::mailbox::{FlagChange, Flags, MailFile, MailOptions, MailSnapshot, MailStore, NewMessage};
use mail::mime::MimeSource;
use mail::mime::skeleton::PartSeparation;
use mail::profile::Profile;
use notes::note::MAIL_SETTINGS_UNID;
use notes::view::note::ViewNote;
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, ViewDesign};
use notes::{
    Access, AclEntry, AclLevel, DatabaseOptions, DatabaseRecord, Databases, Item, ItemValue, Marks, NoteHeader,
    OdsVersion, level,
};
use store::memory::MemoryEngine;
use store::{Batch, Store, StoreOptions, SyncMode, Table, TableReader};

pub fn mail() -> Arc<MailStore> {
    let options = StoreOptions { sync: SyncMode::Each, ..StoreOptions::default() };
    let store =
        Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
    let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(7)));
    MailStore::new(databases, MailOptions::default())
}

/// Creates a mail store that stores attachments as they were sent.
fn mail_as_sent() -> Arc<MailStore> {
    let separation = PartSeparation { bytes_min: 4_096, decodes: false };
    MailStore::new(Arc::clone(mail().databases()), MailOptions { separation, ..MailOptions::default() })
}

pub fn ann(mail: &Arc<MailStore>) -> MailFile {
    let name = Name::new("ann@acme.test");
    mail.create_if_missing("mail/ann.nsf", "Ann", &name, None).expect("the mail file is created");
    let identity = notes::Identity::person("ann@acme.test");
    mail.open("mail/ann.nsf", &Arc::new(identity)).expect("the owner may open it")
}

fn message(text: &str) -> NewMessage {
    let raw = format!("From: Bob <bob@acme.test>\r\nTo: ann@acme.test\r\nSubject: {text}\r\n\r\n{text}\r\n");
    NewMessage { raw: raw.into_bytes(), flags: Flags::none(), received: None }
}

fn fill(file: &MailFile, folder: &str, count: usize) -> (base::ViewId, Vec<Uid>) {
    let id = file.snapshot().unwrap().folder(folder).unwrap().expect("the mailbox exists").id;
    let messages: Vec<_> = (0..count).map(|number| message(&format!("message {number}"))).collect();
    let (_, uids, _) = file.append(id, &messages).unwrap();
    (id, uids)
}

fn uids(ranges: &[(u32, u32)]) -> UidSet {
    ranges.iter().map(|(first, last)| *first..=*last).collect()
}

#[test]
fn new_mail_file_has_the_default_mailboxes() {
    let mail = mail();
    let file = ann(&mail);
    let names: Vec<_> = file.snapshot().unwrap().folders().unwrap().into_iter().map(|folder| folder.name).collect();
    assert_eq!(names, ["INBOX", "Archive", "Drafts", "Junk", "Sent", "Trash"]);
}

#[test]
fn appended_message_is_read_back_byte_for_byte() {
    let mail = mail();
    let file = ann(&mail);
    let inbox = file.snapshot().unwrap().folder("inbox").unwrap().expect("INBOX in any case").id;
    let large = "QUJD".repeat(19);
    let body: String = (0..200).map(|_| format!("{large}\r\n")).collect();
    let raw = format!("Subject: large\r\nContent-Transfer-Encoding: base64\r\n\r\n{body}").into_bytes();
    let new = NewMessage { raw: raw.clone(), flags: Flags::from_system_flags(Marks::SEEN), received: None };
    let (_, uids, _) = file.append(inbox, &[new]).unwrap();
    let snapshot = file.snapshot().unwrap();
    let entry = snapshot.entry(inbox, uids[0]).unwrap().expect("the entry exists");
    let message = snapshot.message(entry.note).unwrap().expect("the message exists");
    assert_eq!(message.raw().unwrap(), raw);
    assert_eq!(message.header(), b"Subject: large\r\nContent-Transfer-Encoding: base64\r\n\r\n");
    assert_eq!(entry.size, raw.len() as u64);
    assert_eq!(
        mail.databases().store().blobs().length(mail.databases().store().as_ref(), &message_blob(&file)).unwrap(),
        Some(200 * 57)
    );
}

#[test]
fn messages_are_prepared_while_the_mail_file_is_locked() {
    let mail = mail();
    let file = ann(&mail);
    let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().unwrap().id;
    let with_body = |subject: &str, body: String| NewMessage {
        raw: format!("Subject: {subject}\r\n\r\n{body}").into_bytes(),
        ..message("")
    };
    let with_known_body = |subject: &str| with_body(subject, "a known text\r\n".repeat(40_000));
    let (validity, _, _) = file.append(inbox, &[with_known_body("0")]).unwrap();
    let known = ["1", "2"].map(with_known_body);
    let other = with_body("3", "a new text\r\n".repeat(40_000));
    let accesses = [file.depositor()];
    let transaction = mail.databases().transaction(&accesses).unwrap();
    let ready = [&known[0], &known[1], &other, &other].map(|new| file.prepare(new).unwrap());
    drop(transaction);
    let (same_validity, uids, _) = file.append_prepared(inbox, &ready).unwrap();
    assert_eq!((same_validity, &uids[..]), (validity, &[2, 3, 4, 5].map(Uid)[..]));
    let (_, uid, _) = file.replace_prepared(inbox, Uid(1), inbox, &ready[0]).unwrap();
    assert_eq!(uid, Uid(6));
    let snapshot = file.snapshot().unwrap();
    let expected = [&known[0], &known[1], &other, &other, &known[0]];
    for (uid, expected) in (2..).zip(expected) {
        let entry = snapshot.entry(inbox, Uid(uid)).unwrap().expect("the message exists");
        assert!(snapshot.message(entry.note).unwrap().unwrap().raw().unwrap() == expected.raw, "{uid}");
    }
}

#[test]
fn changed_items_replace_the_cached_header() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, uids) = fill(&file, "INBOX", 2);
    let header = |uid: Uid| {
        let snapshot = file.snapshot().unwrap();
        let entry = snapshot.entry(inbox, uid).unwrap().expect("the entry exists");
        let message = snapshot.message_of(&entry).unwrap().expect("the message exists");
        String::from_utf8(message.header().to_vec()).unwrap()
    };
    let before = file.snapshot().unwrap();
    assert!(header(uids[0]).contains("Subject: message 0"));
    let raw = b"Subject: another\r\n\r\nanother\r\n";
    replace_content(&mail, before.entry(inbox, uids[0]).unwrap().expect("the entry exists").note, raw);
    assert_eq!(header(uids[0]), "Subject: another\r\n\r\n");
    assert!(header(uids[1]).contains("Subject: message 1"));
    let entry = before.entry(inbox, uids[0]).unwrap().expect("the old snapshot has it");
    let message = before.message_of(&entry).unwrap().expect("the message exists");
    assert!(message.header().starts_with(b"From: Bob"), "the old snapshot is unchanged");
}

/// Replaces the items of a message's note by those of another message.
fn replace_content(mail: &MailStore, note: base::NoteId, raw: &[u8]) {
    let database = mail.databases().database_open("mail/ann.nsf").unwrap();
    let itself = Arc::new(notes::Identity::local_server(""));
    let access: notes::Access<notes::level::Depositor> = database.authorize(&itself).unwrap();
    let accesses = [&access];
    let mut transaction = mail.databases().transaction(&accesses).unwrap();
    let mut writer = transaction.writer(0);
    let message = mail::message::PreparedMessage::new(mail.databases(), raw, 4_096.into()).unwrap();
    let new = message.note(&mut writer).unwrap();
    writer.note_update(note, 1, &new.items, &new.blobs).unwrap();
    let _ = transaction.commit().unwrap();
}

fn message_blob(file: &MailFile) -> store::blob::BlobId {
    let database = file.database();
    let identity = Arc::new(notes::Identity::local_server(""));
    let access: notes::Access<notes::level::Reader> = database.authorize(&identity).unwrap();
    let reading = access.read().unwrap();
    let mut found = None;
    reading
        .for_each_note(base::NoteId(0), &mut |header| {
            found = reading.summary(header.note)?.and_then(|summary| summary.blobs.first().copied()).or(found);
            Ok(true)
        })
        .unwrap();
    found.expect("a note has a blob")
}

#[test]
fn counts_follow_flags_and_expunges() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, all) = fill(&file, "INBOX", 10);
    assert_eq!(all, (1..=10).map(Uid).collect::<Vec<_>>());
    let flags: Flags = ["\\Seen", "\\Deleted", "Work"].into_iter().collect();
    let outcome = file.store(inbox, &uids(&[(3, 5), (9, 9), (70, 80)]), &FlagChange::Add(flags), None).unwrap();
    assert_eq!(outcome.changed.to_string(), "3:5,9");
    let status = file.snapshot().unwrap().status(inbox).unwrap();
    assert_eq!((status.messages, status.unseen, status.deleted, status.uid_next), (10, 6, 4, Uid(11)));
    let gone = file.expunge(inbox, Some(&uids(&[(4, 10)]))).unwrap();
    assert_eq!(gone.uids.to_string(), "4:5,9");
    let snapshot = file.snapshot().unwrap();
    let status = snapshot.status(inbox).unwrap();
    assert_eq!((status.messages, status.unseen, status.deleted, status.uid_next), (7, 6, 1, Uid(11)));
    assert_eq!(snapshot.rank(inbox, Uid(6)).unwrap(), 3);
    assert_eq!(snapshot.uid_at(inbox, 3).unwrap(), Some(Uid(6)));
    assert_eq!(snapshot.first_unseen(inbox).unwrap(), Some(Uid(1)));
    assert_eq!(snapshot.flags(&snapshot.entry(inbox, Uid(3)).unwrap().unwrap()).keywords, ["Work"]);
}

#[test]
fn changes_list_vanished_and_changed_messages() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, _) = fill(&file, "INBOX", 5);
    let since = file.snapshot().unwrap().status(inbox).unwrap().highest_modseq;
    let archive = file.snapshot().unwrap().folder("Archive").unwrap().unwrap().id;
    file.move_to(inbox, &uids(&[(2, 2)]), archive).unwrap();
    file.store(inbox, &uids(&[(3, 4)]), &FlagChange::Add(Flags::from_system_flags(Marks::DELETED)), None).unwrap();
    file.expunge(inbox, Some(&uids(&[(3, 3)]))).unwrap();
    fill(&file, "INBOX", 1);
    let changes = file.snapshot().unwrap().changes(inbox, since).unwrap();
    assert_eq!(changes.vanished.to_string(), "2:3");
    assert_eq!(changes.changed.iter().map(|entry| entry.uid).collect::<Vec<_>>(), [4, 6].map(Uid));
    assert!(changes.complete);
    let nothing = file.snapshot().unwrap().changes(inbox, changes.modseq).unwrap();
    assert!(nothing.vanished.is_empty() && nothing.changed.is_empty());
}

#[test]
fn unchanged_since_skips_messages_changed_meanwhile() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, _) = fill(&file, "INBOX", 3);
    let since = file.snapshot().unwrap().status(inbox).unwrap().highest_modseq;
    let seen = FlagChange::Add(Flags::from_system_flags(Marks::SEEN));
    file.store(inbox, &uids(&[(2, 2)]), &seen, None).unwrap();
    let outcome = file
        .store(inbox, &uids(&[(1, 3)]), &FlagChange::Add(Flags::from_system_flags(Marks::FLAGGED)), Some(since))
        .unwrap();
    assert_eq!((outcome.changed, outcome.modified), (uids(&[(1, 1), (3, 3)]), uids(&[(2, 2)])));
}

#[test]
fn copies_share_their_content_and_keep_flags_and_times() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, _) = fill(&file, "INBOX", 2);
    let sent = file.snapshot().unwrap().folder("Sent").unwrap().unwrap().id;
    let flags: Flags = ["\\Flagged", "Work"].into_iter().collect();
    file.store(inbox, &uids(&[(1, 2)]), &FlagChange::Replace(flags.clone()), None).unwrap();
    let outcome = file.copy(inbox, &uids(&[(1, 2)]), sent).unwrap();
    assert_eq!(outcome.pairs, [(Uid(1), Uid(1)), (Uid(2), Uid(2))]);
    let snapshot = file.snapshot().unwrap();
    let old = snapshot.entry(inbox, Uid(2)).unwrap().unwrap();
    let new = snapshot.entry(sent, Uid(2)).unwrap().unwrap();
    assert_eq!((snapshot.flags(&new), new.received), (flags, old.received));
    assert_ne!(old.note, new.note);
    assert_eq!(
        snapshot.message(old.note).unwrap().unwrap().raw().unwrap(),
        snapshot.message(new.note).unwrap().unwrap().raw().unwrap()
    );
}

#[test]
fn mailbox_tree_is_created_renamed_and_deleted() {
    let mail = mail();
    let file = ann(&mail);
    file.folder_create("Projects/2026/Q1", None).unwrap();
    assert!(file.folder_create("Projects/2026", None).is_err());
    file.folder_rename("Projects", "Work/Old").unwrap();
    let names = |file: &MailFile| -> Vec<String> {
        let folders = file.snapshot().unwrap().folders().unwrap();
        folders.into_iter().map(|folder| folder.name).filter(|name| name.starts_with('W')).collect()
    };
    assert_eq!(names(&file), ["Work", "Work/Old", "Work/Old/2026", "Work/Old/2026/Q1"]);
    fill(&file, "Work/Old/2026", 3);
    file.folder_delete("Work/Old/2026").unwrap();
    let folder = file.snapshot().unwrap().folder("Work/Old/2026").unwrap().unwrap();
    assert!(!folder.selectable);
    file.folder_delete("Work/Old/2026/Q1").unwrap();
    file.folder_delete("Work/Old/2026").unwrap();
    assert_eq!(names(&file), ["Work", "Work/Old"]);
    assert!(file.folder_delete("INBOX").is_err());
}

#[test]
fn a_mailbox_that_is_created_while_its_namesake_is_deleted_is_left_alone() {
    let mail = mail();
    let file = ann(&mail);
    let (old, _) = file.folder_create("Old", None).unwrap();
    fill(&file, "Old", 2);
    assert!(file.folder_delete_part("Old", old).unwrap().is_none(), "its messages are deleted first");
    file.folder_delete("Old").unwrap();
    file.folder_create("Old", None).unwrap();
    let (new, _) = fill(&file, "Old", 2);
    let outcome = file.folder_delete_part("Old", old);
    assert!(matches!(outcome, Err(mail::Error::NoMailbox(_))), "{outcome:?}");
    assert_eq!(file.snapshot().unwrap().status(new).unwrap().messages, 2);
}

#[test]
fn expunge_in_parts_removes_the_same_messages() {
    let mail = mail();
    let deleted = FlagChange::Add(Flags::from_system_flags(Marks::DELETED));
    for (number, chosen) in
        [None, Some(&[(1, 400)][..]), Some(&[(7, 7), (90, 130), (299, 500)]), Some(&[])].iter().enumerate()
    {
        let file = ann(&mail);
        let name = format!("Expunge{number}");
        file.folder_create(&name, None).unwrap();
        let (folder, all) = fill(&file, &name, 300);
        let marked: UidSet = all.iter().map(|uid| uid.0).filter(|uid| uid % 3 != 0 || *uid > 250).collect();
        file.store(folder, &marked, &deleted, None).unwrap();
        let mut chosen: Option<UidSet> = chosen.map(uids);
        let expected = chosen.as_ref().map_or(marked.clone(), |chosen| marked.intersection(chosen));
        let mut gone = UidSet::new();
        loop {
            let outcome = file.expunge_up_to(folder, chosen.as_ref(), 17).unwrap();
            assert!(outcome.uids.len() <= 17);
            outcome.uids.ranges().for_each(|range| gone.insert_range(range));
            if outcome.is_complete {
                break;
            }
            assert_eq!(outcome.uids.len(), 17, "each part but the last is full");
            if let (Some(chosen), Some(last)) = (&mut chosen, outcome.uids.last()) {
                chosen.remove_range(0..=last);
            }
        }
        assert_eq!(gone, expected, "{name}");
        assert_eq!(file.snapshot().unwrap().status(folder).unwrap().deleted as u64, marked.len() - expected.len());
    }
}

#[test]
fn recreated_mailbox_has_a_greater_uidvalidity() {
    let mail = mail();
    let file = ann(&mail);
    let validity = |file: &MailFile| {
        let snapshot = file.snapshot().unwrap();
        let id = snapshot.folder("X").unwrap().unwrap().id;
        snapshot.status(id).unwrap().uid_validity
    };
    file.folder_create("X", None).unwrap();
    let first = validity(&file);
    file.folder_delete("X").unwrap();
    file.folder_create("X", None).unwrap();
    assert!(validity(&file) > first);
}

#[test]
fn renaming_the_inbox_moves_its_messages() {
    let mail = mail();
    let file = ann(&mail);
    fill(&file, "INBOX", 4);
    file.folder_rename("INBOX", "Old mail").unwrap();
    let snapshot = file.snapshot().unwrap();
    let count = |name: &str| snapshot.status(snapshot.folder(name).unwrap().unwrap().id).unwrap().messages;
    assert_eq!((count("INBOX"), count("Old mail")), (0, 4));
}

#[test]
fn append_beyond_the_quota_is_refused() {
    let mail = mail();
    mail.create("mail/small.nsf", "Small", &Name::new("small@acme.test"), Some(300)).unwrap();
    let file = mail.open_as_server("mail/small.nsf").unwrap();
    let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().unwrap().id;
    let used = file.quota().unwrap().used_bytes;
    let fits = file.append(inbox, &[message("a")]);
    let too_much: Vec<_> = (0..9).map(|_| message("b")).collect();
    assert!(fits.is_ok() || used > 200);
    assert!(matches!(file.append(inbox, &too_much), Err(mail::Error::OverQuota { .. })));
}

#[test]
fn indexes_of_views_count_towards_the_quota() {
    let mail = mail();
    let file = ann(&mail);
    let (inbox, _) = fill(&file, "INBOX", 20);
    let database = file.database();
    let itself = Arc::new(notes::Identity::local_server(""));
    let depositor: Access<level::Depositor> = database.authorize(&itself).unwrap();
    let manager: Access<level::Manager> = database.authorize(&itself).unwrap();
    let accesses = [&depositor];
    let columns = vec![Column { item: "Subject".into(), sort: Some(SortDirection::Ascending), ..Column::default() }];
    let design = ViewDesign { columns, ..ViewDesign::default() };
    let all = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let mut transaction = mail.databases().transaction(&accesses).unwrap();
    let view = transaction.writer(0).view_create(&all).unwrap();
    transaction.commit().unwrap();
    let used = || file.quota().unwrap().used_bytes;
    let set_quota = |quota_bytes| {
        let record = database.record();
        let options = DatabaseOptions { quota_bytes: Some(quota_bytes), ..record.options };
        mail.databases().database_options_set(&manager, &record.title, options).unwrap();
    };
    let documents_bytes = used();
    set_quota(documents_bytes + 1);
    assert!(matches!(manager.view_refresh(view, 100), Err(notes::Error::Limit { .. })), "it would exceed the quota");
    set_quota(documents_bytes + 10_000);
    while !manager.view_refresh(view, 100).unwrap().complete {}
    assert!(used() > documents_bytes + 500, "{} bytes with the index", used());
    set_quota(used());
    assert!(matches!(file.append(inbox, &[message("b")]), Err(mail::Error::OverQuota { .. })));
    let mut transaction = mail.databases().transaction(&accesses).unwrap();
    transaction.writer(0).view_delete(view).unwrap();
    transaction.commit().unwrap();
    assert!(used() < documents_bytes);
    file.append(inbox, &[message("b")]).expect("the index no longer counts");
}

#[test]
fn opening_without_access_is_refused() {
    let mail = mail();
    ann(&mail);
    let stranger = Arc::new(notes::Identity::person("eve@acme.test"));
    assert!(matches!(mail.open("mail/ann.nsf", &stranger), Err(mail::Error::Notes(notes::Error::AccessDenied { .. }))));
}

#[test]
fn subscriptions_outlive_their_mailbox() {
    let mail = mail();
    let file = ann(&mail);
    file.folder_create("Y", None).unwrap();
    file.folder_subscribe("Y").unwrap();
    file.folder_delete("Y").unwrap();
    assert!(file.snapshot().unwrap().subscriptions().unwrap().contains("Y"));
    file.folder_unsubscribe("Y").unwrap();
    assert!(!file.snapshot().unwrap().subscriptions().unwrap().contains("Y"));
}

/// Replaces the list of subscriptions, as an older version could have stored it.
/// Stores the settings of a mail file as in structure 2, with a generated UNID.
fn make_settings_old(mail: &Arc<MailStore>) {
    let store = mail.databases().store();
    let database = mail.databases().database_open("mail/ann.nsf").unwrap();
    let number = database.number().to_key();
    let key = [&number[..], &NoteId(2).to_key()[..], &[0]].concat();
    let value = store.get(Table::Summary, &key).unwrap().expect("the settings are the second note");
    let mut header = NoteHeader::decode(NoteId(2), &value).expect("a header");
    let mut batch = Batch::new();
    batch.delete(Table::Unid, &[&number[..], &header.unid.0[..]].concat());
    header.unid = base::Unid([7; 16]);
    batch.put(Table::Unid, &[&number[..], &header.unid.0[..]].concat(), &NoteId(2).to_key());
    batch.put(Table::Summary, &key, &header.encode());
    let path = b"pmail/ann.nsf";
    let record = store.get(Table::Catalog, path).unwrap().expect("the database exists");
    let record = DatabaseRecord::decode(&record).expect("a record");
    batch.put(Table::Catalog, path, &DatabaseRecord { ods: OdsVersion(2), ..record }.encode());
    store.durable(store.commit(&batch).unwrap()).wait().unwrap();
}

#[test]
fn settings_of_an_older_mail_file_are_found_and_get_their_unid_with_the_upgrade() {
    let mail = mail();
    drop(ann(&mail));
    make_settings_old(&mail);
    mail.databases().close_idle();
    let file = ann(&mail);
    file.folder_subscribe("Old").unwrap();
    let names = |file: &MailFile| file.snapshot().unwrap().subscriptions().unwrap();
    assert!(names(&file).contains("Old"));
    let database = mail.databases().database_open("mail/ann.nsf").unwrap();
    let itself = Arc::new(notes::Identity::local_server(""));
    let access: Access<level::Manager> = database.authorize(&itself).unwrap();
    let mut upgrade = notes::Upgrade::begin(mail.databases(), &access);
    while !upgrade.step().unwrap().complete {}
    let reader: Access<level::Reader> = access.downgrade();
    assert_eq!(reader.read().unwrap().find(MAIL_SETTINGS_UNID).unwrap(), Some(NoteId(2)));
    file.folder_subscribe("New").unwrap();
    assert!(names(&file).contains("Old") && names(&file).contains("New"));
    assert_eq!(notes::fixup::check(&database).unwrap().findings, []);
}

fn store_subscriptions(file: &MailFile, names: Vec<String>) {
    let itself = Arc::new(notes::Identity::local_server(""));
    let access: Access<level::Depositor> = file.database().authorize(&itself).unwrap();
    let accesses = [&access];
    let mut transaction = file.mail().databases().transaction(&accesses).unwrap();
    let mut writer = transaction.writer(0);
    let profile = writer.note(NoteId(2)).unwrap().expect("the profile exists");
    let items = [Item::summary("$Subscriptions", ItemValue::TextList(names))];
    writer.note_update(NoteId(2), profile.header.sequence, &items, &[]).unwrap();
    transaction.commit().unwrap();
}

#[test]
fn profiles_in_memory_are_those_of_the_snapshot() {
    let mail = mail();
    let file = ann(&mail);
    let profile = Profile::shared("Settings");
    let set = |text: &str| {
        let items = vec![Item::text("Text", text)];
        profile.update::<mail::Error>(&file, |_| Ok(Some(items))).expect("the profile is set");
    };
    let read = |snapshot: &MailSnapshot<'_>| {
        let note = profile.load(snapshot).expect("the store works");
        note.map(|note| mail::profile::text_of(&note.items, "Text").unwrap_or_default().to_owned())
    };
    let now = || file.snapshot().expect("the store works");
    let counts = || {
        let counts = mail.profile_cache_statistics();
        (counts.hits, counts.misses, counts.entries)
    };
    assert_eq!(read(&now()), None);
    assert_eq!(counts(), (0, 0, 0));
    set("one");
    let old = now();
    assert_eq!([read(&old), read(&now())], [Some("one".to_owned()), Some("one".to_owned())]);
    assert_eq!(counts(), (1, 1, 1));
    set("two");
    assert_eq!([read(&now()), read(&old), read(&now())].map(Option::unwrap_or_default), ["two", "one", "two"]);
    assert_eq!(counts(), (1, 4, 1));
    set(&"x".repeat(CACHED_PROFILE_BYTES_MAX));
    assert_eq!(
        [read(&now()), read(&now())].map(|text| text.map(|text| text.len())),
        [Some(CACHED_PROFILE_BYTES_MAX); 2]
    );
    assert_eq!(counts(), (1, 6, 1));
}

fn is_over_limit<T>(outcome: mail::Result<T>) -> bool {
    matches!(outcome, Err(mail::Error::Notes(notes::Error::Limit { .. })))
}

#[test]
fn subscriptions_are_limited_in_number() {
    let mail = mail();
    let file = ann(&mail);
    let names = |count: usize| (0..count).map(|number| format!("name {number}")).collect::<Vec<_>>();
    store_subscriptions(&file, names(999));
    file.folder_subscribe("one more").unwrap();
    assert!(is_over_limit(file.folder_subscribe("another")));

    // A longer list of an older version can shrink, but not grow.
    store_subscriptions(&file, names(1_500));
    file.folder_subscribe("name 7").unwrap();
    file.folder_unsubscribe("name 8").unwrap();
    assert!(is_over_limit(file.folder_subscribe("name 8")));
    assert_eq!(file.snapshot().unwrap().subscriptions().unwrap().len(), 1_499);
}

#[test]
fn subscriptions_are_limited_in_length() {
    let mail = mail();
    let file = ann(&mail);
    let name = |number: usize| format!("{number:04}{}", "x".repeat(1_020));
    store_subscriptions(&file, (0..255).map(name).collect());
    file.folder_subscribe(&name(255)).unwrap();
    assert!(is_over_limit(file.folder_subscribe("y")));
    file.folder_unsubscribe(&name(0)).unwrap();
    file.folder_subscribe("y").unwrap();
}

#[test]
fn subscription_that_changes_nothing_is_not_written() {
    let mail = mail();
    let file = ann(&mail);
    file.folder_subscribe("Y").unwrap();
    let before = file.database().modseq();
    file.folder_subscribe("Y").unwrap();
    file.folder_unsubscribe("Z").unwrap();
    assert_eq!(file.database().modseq(), before);
}

#[test]
fn persons_have_subscriptions_of_their_own_in_mail_files_of_others() {
    let mail = mail();
    let file = ann(&mail);
    let itself = Arc::new(notes::Identity::local_server(""));
    let access: Access<level::Depositor> = file.database().authorize(&itself).expect("the server has access");
    let mut acl = (*file.snapshot().unwrap().reading().acl()).clone();
    acl.entries.push(AclEntry::new("bob@acme.test", AclLevel::Author));
    let accesses = [&access];
    let mut transaction = mail.databases().transaction(&accesses).unwrap();
    transaction.writer(0).acl_set(acl).unwrap();
    transaction.commit().unwrap();
    let bobs = mail.open("mail/ann.nsf", &Arc::new(notes::Identity::person("bob@acme.test"))).unwrap();
    let names = |file: &MailFile| file.snapshot().unwrap().subscriptions().unwrap();
    let modseq = |file: &MailFile| file.snapshot().unwrap().design_modseq().unwrap();

    assert_eq!(names(&bobs).len(), 0);
    let before = [modseq(&file), modseq(&bobs)];
    bobs.folder_subscribe("Archive").unwrap();
    bobs.folder_subscribe("Junk").unwrap();
    assert_eq!(modseq(&file), before[0]);
    assert!(modseq(&bobs) > before[1]);
    file.folder_unsubscribe("Archive").unwrap();
    assert!(!names(&file).contains("Archive") && names(&bobs).contains("Archive"));

    // They follow the mailbox, and have no other names.
    file.folder_rename("Archive", "Old").unwrap();
    file.folder_delete("Junk").unwrap();
    assert_eq!(names(&bobs), HashSet::from(["Old".to_owned()]));
    assert!(matches!(bobs.folder_subscribe("Nothing"), Err(mail::Error::NoMailbox(_))));
    bobs.folder_unsubscribe("Old").unwrap();
    assert_eq!(names(&bobs).len(), 0);
}

#[test]
fn names_with_too_many_levels_are_refused() {
    let mail = mail();
    let file = ann(&mail);
    let name = |levels: usize| vec!["a"; levels].join("/");
    let is_refused = |error: mail::Error| matches!(error, mail::Error::MailboxRefused { .. });
    assert!(is_refused(file.folder_create(&name(33), None).unwrap_err()));
    assert!(is_refused(file.folder_subscribe(&name(33)).unwrap_err()));
    file.folder_create(&name(32), None).unwrap();
    file.folder_subscribe(&name(32)).unwrap();
    // Such a name that an older version stored can be removed.
    store_subscriptions(&file, vec![name(40)]);
    file.folder_unsubscribe(&name(40)).unwrap();
    assert_eq!(file.snapshot().unwrap().subscriptions().unwrap().len(), 0);
}

#[test]
fn concurrent_writers_to_one_mailbox_queue() {
    let mail = mail();
    let file = Arc::new(ann(&mail));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| drop(fill(&file, "INBOX", 1))));
        }
    });
    let snapshot = file.snapshot().unwrap();
    let inbox = snapshot.folder("INBOX").unwrap().unwrap().id;
    let status = snapshot.status(inbox).unwrap();
    assert_eq!((status.messages, status.uid_next), (100, Uid(101)));
}

/// Returns the UNIDs of the folders, by their titles.
fn folder_unids(file: &MailFile) -> Vec<(String, Unid)> {
    let snapshot = file.snapshot().unwrap();
    let access: Access<level::Reader> =
        file.database().authorize(&Arc::new(notes::Identity::local_server(""))).unwrap();
    let reading = access.read().unwrap();
    let unid = |id: ViewId| reading.header(NoteId(id.0)).unwrap().expect("the folder exists").unid;
    snapshot.folders().unwrap().into_iter().map(|folder| (folder.name, unid(folder.id))).collect()
}

#[test]
fn mail_files_that_are_made_apart_have_the_same_folders() {
    let stores = [mail(), mail()];
    let files = stores.each_ref().map(ann);
    files[1].folder_create("Own", None).unwrap();
    let mut second = folder_unids(&files[1]);
    second.retain(|(name, _)| name != "Own");
    assert_eq!(folder_unids(&files[0]), second);
    let own = folder_unids(&files[1]).into_iter().find(|(name, _)| name == "Own").expect("it exists").1;
    assert_ne!(own, notes::folder::derived_unid("Own"));
}

#[test]
fn repair_finds_the_first_folders_by_their_unids() {
    let mail = mail();
    let file = ann(&mail);
    let (folder, uids) = fill(&file, "Drafts", 2);
    let before = folder_unids(&file);
    let database = file.database();
    let header = [&database.number().to_key()[..], &NoteId(folder.0).to_key(), &[0]].concat();
    let mut batch = Batch::new();
    batch.put(Table::Summary, &header, b"damaged");
    mail.databases().store().commit(&batch).unwrap();
    notes::fixup::repair(database).unwrap();
    mail::mailbox::restore_default_folders(mail.databases(), "mail/ann.nsf").unwrap();
    assert_eq!(folder_unids(&file), before);
    let snapshot = file.snapshot().unwrap();
    let drafts = snapshot.folder("Drafts").unwrap().expect("it is restored");
    assert_eq!(drafts.special_use, Some(mail::mailbox::SpecialUse::Drafts));
    // Another replica may have another name of it, and that one counts.
    let access: notes::Access<notes::level::Reader> =
        database.authorize(&Arc::new(notes::Identity::local_server(""))).unwrap();
    let header = access.read().unwrap().header(NoteId(drafts.id.0)).unwrap().expect("the folder exists");
    assert_eq!((header.sequence, header.sequence_time), (1, base::Timestamp(0)));
    assert_eq!(notes::fixup::check(database).unwrap().findings, []);
    assert!(uids.iter().all(|uid| snapshot.entry(drafts.id, *uid).unwrap().is_some()));
}

/// Returns a message with an attachment in base64, in lines of a length.
fn with_attachment(line: usize) -> NewMessage {
    let text = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAx".repeat(400);
    let lines: Vec<&str> = (0..text.len()).step_by(line).map(|at| &text[at..(at + line).min(text.len())]).collect();
    let raw = format!(
        "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n{}\r\n",
        lines.join("\r\n")
    );
    NewMessage { raw: raw.into_bytes(), flags: Flags::none(), received: None }
}

#[test]
fn attachments_as_sent_are_larger_and_not_shared_by_other_lines() {
    let stored = [mail(), mail_as_sent()].map(|mail| {
        let file = ann(&mail);
        let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().expect("the mailbox exists").id;
        let messages = [with_attachment(76), with_attachment(76), with_attachment(60)];
        let (_, uids, _) = file.append(inbox, &messages).expect("within the limit");
        let snapshot = file.snapshot().unwrap();
        for (uid, message) in uids.iter().zip(&messages) {
            let entry = snapshot.entry(inbox, *uid).unwrap().expect("it was added");
            let found = snapshot.message_of(&entry).unwrap().expect("it exists");
            assert_eq!(found.raw().unwrap(), message.raw, "both forms restore the message");
        }
        let store = mail.databases().store();
        let report = store.blobs().report(store.as_ref()).unwrap();
        (report.count, report.raw_bytes)
    });
    let [(decoded, decoded_bytes), (as_sent, as_sent_bytes)] = stored;
    assert_eq!((decoded, as_sent), (1, 2));
    assert!(as_sent_bytes > 2 * decoded_bytes * 4 / 3, "{decoded_bytes} {as_sent_bytes}");
}

#[test]
fn messages_of_the_other_form_are_read() {
    let decoding = mail();
    let as_sent = MailStore::new(
        Arc::clone(decoding.databases()),
        MailOptions { separation: PartSeparation { bytes_min: 4_096, decodes: false }, ..MailOptions::default() },
    );
    for (writer, reader) in [(&decoding, &as_sent), (&as_sent, &decoding)] {
        let file = ann(writer);
        let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().expect("the mailbox exists").id;
        let message = with_attachment(76);
        let (_, uids, _) = file.append(inbox, std::slice::from_ref(&message)).expect("within the limit");
        let file = ann(reader);
        let snapshot = file.snapshot().unwrap();
        let entry = snapshot.entry(inbox, uids[0]).unwrap().expect("it was added");
        assert_eq!(snapshot.message_of(&entry).unwrap().expect("it exists").raw().unwrap(), message.raw);
    }
}
