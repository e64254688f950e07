//! Settings of replicas: what they leave out, and what arrives when the settings change.

use std::sync::Arc;
use std::time::Duration;

use base::{Name, NoteId, Unid, Unpaced};
use notes::replica::ReplicaNote;
use notes::{
    Access, AclLevel, DatabaseKind, DatabaseOptions, Identity, Item, ItemValue, NewDatabase, NewNote, NotExchanged,
    ReplicaSettings, ReplicationSettings, level,
};

use replica::{Answer, HeldBackNotes, Question, SourceNotes, answer};

use crate::exchange::{Server, list, two};

impl Server {
    /// Sets what this server's replica exchanges with that of another one.
    fn set_settings(&self, other: Option<&Self>, settings: ReplicationSettings) {
        let server = Name::new(&self.name);
        let other = other.map(|other| Name::new(&other.name));
        self.write(|writer| writer.replication_settings_set(&ReplicaSettings { server, other, settings }));
    }

    fn clear_settings(&self) {
        let server = Name::new(&self.name);
        assert!(self.write(|writer| writer.replication_settings_remove(&server, None)));
    }

    fn select(&self, formula: &str) {
        self.set_settings(None, ReplicationSettings { formula: formula.to_owned(), ..ReplicationSettings::default() });
    }

    fn exclude(&self, without: NotExchanged) {
        self.set_settings(None, ReplicationSettings { without, ..ReplicationSettings::default() });
    }

    fn note(&self, number: u8) -> NoteId {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        access.read().and_then(|reading| reading.find(Unid([number; 16]))).expect("sound").expect("it exists")
    }

    fn subject(&self, number: u8) -> String {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let note = reading.note(self.note(number)).expect("sound").expect("it exists");
        note.items
            .iter()
            .find(|item| item.is_named("Subject"))
            .and_then(|item| item.value.text())
            .unwrap_or("")
            .to_owned()
    }

    fn delete(&self, number: u8) {
        let note = self.note(number);
        assert!(self.write(|writer| writer.note_delete(note)));
    }
}

#[test]
fn formula_decides_about_documents_that_the_replica_lacks() {
    let hub = Server::new(1);
    let other = Server::new(2);
    other.select("SELECT @TextToNumber(Subject) <= 3");
    for number in 1..=10 {
        hub.create(number);
    }
    let pulled = other.pull(&hub);
    assert_eq!((pulled.left_out, pulled.received), (7, 4), "with the access control list");
    assert!((1..=3).all(|number| other.has(number)) && (4..=10).all(|number| !other.has(number)));
    assert_eq!(other.pull(&hub).listed, 0, "the position is behind everything");

    hub.save(2, "20");
    hub.save(9, "1");
    hub.save(8, "80");
    let pulled = other.pull(&hub);
    assert_eq!((pulled.left_out, pulled.received), (1, 2));
    assert_eq!(other.subject(2), "20", "what the replica has stays up to date");
    assert!(other.has(9) && !other.has(8));

    other.create(11);
    other.save(1, "one");
    hub.pull(&other);
    assert_eq!((hub.subject(1).as_str(), hub.has(11)), ("one", true), "nothing is left out in the other direction");

    other.select("SELECT @All");
    assert_eq!(other.pull(&hub).left_out, 0);
    assert!((1..=11).all(|number| other.has(number)), "other settings compare everything");
}

#[test]
fn deletion_of_a_document_that_was_left_out_does_not_matter_and_others_arrive() {
    let hub = Server::new(1);
    let other = Server::new(2);
    other.select("SELECT Subject = \"1\"");
    for number in 1..=3 {
        hub.create(number);
    }
    other.pull(&hub);
    hub.delete(1);
    hub.delete(2);
    other.pull(&hub);
    assert!((1..=3).all(|number| !other.has(number)));
    hub.pull(&other);
    assert!(hub.has(3), "what was left out is not deleted");
}

#[test]
fn old_documents_are_left_out_and_arrive_after_a_change() {
    let hub = Server::new(1);
    let other = Server::new(2);
    hub.create(1);
    for server in [&hub, &other] {
        server.clock.advance(Duration::from_secs(100 * 86_400));
    }
    hub.create(2);
    let settings = ReplicationSettings { cut_off_days: Some(90), ..ReplicationSettings::default() };
    other.set_settings(Some(&hub), settings);
    other.pull(&hub);
    assert!(!other.has(1) && other.has(2));
    hub.save(1, "new");
    other.pull(&hub);
    assert!(other.has(1));
}

#[test]
fn folder_decides_and_a_missing_folder_is_an_error() {
    let hub = Server::new(1);
    let other = Server::new(2);
    let folder = hub.write(|writer| writer.folder_create("Chosen", &[]));
    let note = hub.create(1);
    hub.create(2);
    hub.write(|writer| writer.folder_add(note, folder));
    let folders = |title: &str| ReplicationSettings { folders: vec![title.to_owned()], ..Default::default() };
    other.set_settings(None, folders("chosen"));
    other.pull(&hub);
    assert!(other.has(1) && !other.has(2));
    let later = hub.note(2);
    hub.write(|writer| writer.folder_add(later, folder));
    other.pull(&hub);
    assert!(other.has(2), "filing a document changes it");
    other.set_settings(None, folders("Lost"));
    let question = other.begin(&hub, replica::HeldBackNotes::Left).question().expect("it begins").1;
    let error = hub.try_answer(&other, &question).map(|_| ()).expect_err("there is no such folder").to_string();
    assert!(error.contains("folder Lost"), "{error}");
}

#[test]
fn deletions_are_left_out_in_both_directions_and_arrive_when_they_are_wanted() {
    let (hub, other) = two();
    other.exclude(NotExchanged::DELETIONS_IN | NotExchanged::DELETIONS_OUT);
    hub.delete(1);
    other.delete(2);
    assert_eq!(other.pull(&hub).left_out, 1);
    hub.pull(&other);
    assert!(other.has(1) && hub.has(2) && !other.has(2));
    assert_eq!(other.pull(&hub).listed, 1, "only the settings, which have travelled");
    assert!(!other.has(2), "its own deletion counts");
    other.exclude(NotExchanged::default());
    other.pull(&hub);
    hub.pull(&other);
    assert!([&hub, &other].iter().all(|server| !server.has(1) && !server.has(2)));
}

#[test]
fn design_and_access_control_list_are_left_out() {
    let hub = Server::new(1);
    let other = Server::new(2);
    other.exclude(NotExchanged::DESIGN | NotExchanged::ACL);
    let folder = hub.write(|writer| writer.folder_create("Chosen", &[]));
    let note = hub.create(1);
    hub.write(|writer| writer.folder_add(note, folder));
    hub.set_list(AclLevel::Editor);
    let access: Access<level::Reader> = other.database.authorize(&other.ann()).expect("Ann may");
    let state = || {
        let reading = access.read().expect("a snapshot");
        let folders = reading.folders().expect("sound");
        let filed = folders.first().map(|folder| reading.folder(folder.view).and_then(|folder| folder.totals()));
        (reading.acl() == list(AclLevel::Editor).into(), filed.map(|totals| totals.expect("sound").count))
    };
    other.pull(&hub);
    assert!(other.has(1));
    assert_eq!(state(), (false, None));
    other.exclude(NotExchanged::default());
    other.pull(&hub);
    assert_eq!(state(), (true, Some(1)), "the document is in the folder that has arrived");
}

#[test]
fn settings_travel_and_only_managers_change_or_bring_them() {
    let (hub, other) = two();
    hub.set_list(AclLevel::Editor);
    other.pull(&hub);
    hub.set_settings(Some(&other), ReplicationSettings { is_disabled: true, ..ReplicationSettings::default() });
    assert_eq!(other.pull(&hub).refused, 2, "with the access control list");
    hub.set_list(AclLevel::Manager);
    other.set_list(AclLevel::Manager);
    let pulled = other.pull(&hub);
    let access: Access<level::Reader> = other.database.authorize(&other.ann()).expect("Ann may");
    let found = access.read().and_then(|reading| reading.all_replication_settings()).expect("sound");
    assert!(
        found.len() == 1 && found[0].settings.is_disabled && found[0].server == Name::new(&hub.name),
        "{found:?} {pulled:?}"
    );

    let designer = Arc::new(Identity::person("Dan/Acme"));
    hub.write(|writer| {
        let mut acl = list(AclLevel::Manager);
        acl.entries.push(notes::AclEntry::new("Dan/Acme", AclLevel::Designer));
        writer.acl_set(acl)
    });
    let access: Access<level::Depositor> = hub.database.authorize(&designer).expect("Dan may");
    let accesses = [&access];
    let mut transaction = hub.databases.transaction(&accesses).expect("a transaction");
    let mut writer = transaction.writer(0);
    assert!(writer.replication_settings_set(&found[0]).is_err());
    assert!(writer.replication_settings_remove(&found[0].server, found[0].other.as_ref()).is_err());
    let new = NewNote::of_class(notes::NoteClass::REPLICATION_FORMULA, Vec::new());
    assert!(writer.note_create(new).is_err(), "nor by the calls for all notes");
}

/// Size of the rich text of the documents of these tests, in bytes.
const BODY_BYTES: usize = 100_000;

impl Server {
    /// Creates a document with an attachment and long rich text, of which the first letter is the number.
    fn create_large(&self, number: u8) {
        let content = vec![number; 100_000];
        self.write(|writer| {
            let blob = writer.blob_put(&content)?;
            let object = ItemValue::Object {
                file_name: "plan.bin".to_owned(),
                media_type: "application/octet-stream".to_owned(),
                length: content.len() as u64,
                blob,
            };
            let body = ItemValue::RichText(number.to_string().repeat(BODY_BYTES));
            let items = vec![
                Item::text("Subject", number.to_string()),
                Item::summary("$FILE", object),
                Item::body("Body", body),
                Item::body("Notes", ItemValue::Text("short".to_owned())),
            ];
            let unid = Some(Unid([number; 16]));
            writer.note_create(NewNote { unid, blobs: vec![blob], ..NewNote::document(items) })
        });
    }

    /// Replaces a document by long rich text.
    fn write_long(&self, number: u8, text: &str) {
        let note = self.note(number);
        let body = Item::body("Body", ItemValue::RichText(text.repeat(BODY_BYTES)));
        self.write(|writer| {
            let header = writer.header(note)?.expect("it exists");
            writer.note_update(note, header.revision(), &[Item::text("Subject", text), body], &[])
        });
    }

    /// Takes over changes with the attachment of document 2.
    fn pull_with_attachments(&self, source: &Self) {
        let mut pull = self.begin(source, HeldBackNotes::Left);
        while let Some((number, question)) = pull.question() {
            let answer = match source.try_answer(self, &question).expect("sound") {
                Answer::Notes(sent) => {
                    let content = self.databases.blob_prepare(vec![2_u8; 100_000], &Unpaced).expect("it is stored");
                    Answer::Notes(SourceNotes { contents: vec![Arc::new(content.into_owned())], ..sent })
                }
                answer => answer,
            };
            pull.take(number, answer).expect("a sound store");
        }
    }

    fn replica_note(&self, number: u8) -> ReplicaNote {
        let access: Access<level::Reader> = self.database.authorize(&self.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        reading.replica_note(self.note(number)).expect("sound").expect("it exists")
    }

    /// Returns the names of a document's items with the sizes of their texts.
    fn parts(&self, number: u8) -> Vec<(String, usize)> {
        let items = self.replica_note(number).items.expect("it is no deletion");
        let size = |item: &Item| match &item.value {
            ItemValue::RichText(text) => text.len(),
            value => value.text().map_or(0, str::len),
        };
        items.iter().map(|item| (item.name.clone(), size(item))).collect()
    }

    fn is_truncated(&self, number: u8) -> bool {
        self.replica_note(number).is_truncated
    }
}

fn hub_and_truncated_replica() -> (Server, Server) {
    let hub = Server::new(1);
    let other = Server::new(2);
    hub.create(1);
    hub.create_large(2);
    other.exclude(NotExchanged::ATTACHMENTS);
    let pulled = other.pull(&hub);
    assert_eq!((pulled.received, pulled.skipped), (3, 0), "with the access control list");
    (hub, other)
}

#[test]
fn documents_arrive_truncated_and_as_a_whole_when_the_settings_change() {
    let (hub, other) = hub_and_truncated_replica();
    assert!(!other.is_truncated(1) && other.is_truncated(2), "what is small is whole");
    let parts = other.parts(2);
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Subject", "Body"], "the last item is behind the limit");
    assert!((40_000..=40 << 10).contains(&parts[1].1), "{parts:?}");
    assert!(other.replica_note(2).blobs.is_empty());
    assert_eq!(other.replica_note(2).revision, hub.replica_note(2).revision);

    other.exclude(NotExchanged::default());
    other.pull_with_attachments(&hub);
    assert!(!other.is_truncated(2));
    assert_eq!(other.replica_note(2).items, hub.replica_note(2).items);
    assert_eq!(other.replica_note(2).revision, hub.replica_note(2).revision);

    other.exclude(NotExchanged::ATTACHMENTS);
    hub.write_long(2, "two");
    other.pull(&hub);
    assert!(other.subject(2) == "two" && !other.is_truncated(2), "what is whole stays whole");
    assert_eq!(other.parts(2), [("Subject".to_owned(), 3), ("Body".to_owned(), 3 * BODY_BYTES)]);
}

#[test]
fn a_new_replica_is_truncated_from_the_beginning() {
    let hub = Server::new(1);
    let other = Server::new(2);
    hub.create_large(2);
    let server = Name::new(&other.name);
    let settings = ReplicationSettings { without: NotExchanged::ATTACHMENTS, ..ReplicationSettings::default() };
    hub.write(|writer| writer.replication_settings_set(&ReplicaSettings { server, other: None, settings }));
    other.pull(&hub);
    assert!(other.is_truncated(2));
    // The settings have arrived, so what the source states does not count any more, also after they were cleared.
    other.clear_settings();
    other.pull_with_attachments(&hub);
    assert!(!other.is_truncated(2));
}

#[test]
fn truncated_documents_stay_up_to_date_and_are_not_changed_or_sent() {
    let (hub, other) = hub_and_truncated_replica();
    let note = other.note(2);
    let access: Access<level::Depositor> = other.database.authorize(&other.ann()).expect("Ann may");
    let accesses = [&access];
    let mut transaction = other.databases.transaction(&accesses).expect("a transaction");
    let mut writer = transaction.writer(0);
    let header = writer.header(note).expect("sound").expect("it exists");
    let refused = writer.note_update(note, header.revision(), &[Item::text("Subject", "x")], &[]);
    assert!(refused.expect_err("it is truncated").to_string().contains("a part of the document only"));
    drop(transaction);

    let third = Server::new(3);
    let pulled = third.pull(&other);
    assert_eq!((third.has(1), third.has(2), pulled.left_out, pulled.skipped), (true, false, 1, 0));
    third.pull_with_attachments(&hub);
    assert!(third.has(2) && !third.is_truncated(2));

    hub.write_long(2, "new");
    other.pull(&hub);
    assert!(other.subject(2) == "new" && other.is_truncated(2), "a later version takes its place");
    assert_eq!(third.pull(&other).left_out, 1);
    assert_eq!(hub.pull(&other).skipped, 0);
    assert!(!hub.is_truncated(2), "the part does not replace the whole");

    other.delete(2);
    hub.pull(&other);
    assert!(!hub.has(2), "a deletion is sent");
}

#[test]
fn concurrent_versions_conflict_in_a_truncated_replica_as_elsewhere() {
    let (hub, other) = hub_and_truncated_replica();
    let third = Server::new(3);
    third.pull_with_attachments(&hub);
    hub.write_long(2, "hub");
    third.write_long(2, "third");
    third.write_long(2, "third again");
    other.pull(&hub);
    other.pull(&third);
    assert!(other.subject(2) == "third again" && other.is_truncated(2));
    hub.pull(&third);
    third.pull(&hub);
    let revisions = |server: &Server| {
        let access: Access<level::Reader> = server.database.authorize(&server.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let question = Question::Changes { after: None, progress: None, selection: None };
        let Answer::Changes(page) = answer(&reading, &question).expect("sound") else { panic!("a list") };
        let documents = page.notes.into_iter().filter(|note| note.class.is_document());
        let mut revisions: Vec<_> = documents.map(|note| (note.unid, note.revision)).collect();
        revisions.sort_unstable();
        revisions
    };
    assert_eq!(revisions(&hub).len(), 3, "the conflict document");
    assert_eq!(revisions(&other), revisions(&hub));
    assert_eq!(revisions(&third), revisions(&hub));
}

#[test]
fn soft_deletions_of_truncated_documents_are_sent_and_do_not_come_back_as_whole_ones() {
    let (hub, other) = hub_and_truncated_replica();
    let third = Server::new(3);
    third.pull_with_attachments(&hub);
    let access: Access<level::Manager> = other.database.authorize(&other.ann()).expect("Ann may");
    let options = DatabaseOptions { keep_deleted_hours: Some(48), ..DatabaseOptions::default() };
    other.databases.database_options_set(&access, "Documents", options).expect("the options are valid");
    third.write_long(2, "third");
    other.pull(&third);
    assert!(other.is_truncated(2));
    other.delete(2);
    let listed = |server: &Server| {
        let access: Access<level::Reader> = server.database.authorize(&server.ann()).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        let question = Question::Changes { after: None, progress: None, selection: None };
        let Answer::Changes(page) = answer(&reading, &question).expect("sound") else { panic!("a list") };
        page.notes
    };
    assert!(listed(&other).iter().all(|note| !note.is_truncated), "a deletion is no part");
    let fourth = Server::new(4);
    fourth.pull(&third);
    let pulled = fourth.pull(&other);
    assert_eq!((pulled.left_out, pulled.skipped, fourth.has(2)), (0, 0, false), "the deletion is sent");

    // An edit that knows neither counts. What was deleted is a conflict document that was deleted, too, so it is no
    // part.
    (0..3).for_each(|_| hub.write_long(2, "hub"));
    other.pull(&hub);
    assert_eq!(other.subject(2), "hub");
    let parts = listed(&other).iter().filter(|note| note.is_truncated).count();
    assert_eq!(parts, 1, "the document");
    let conflict_documents = |server: &Server| {
        let listed = listed(server).into_iter();
        listed
            .filter(|note| revision::is_conflict_document_unid(note.unid))
            .map(|note| note.revision)
            .collect::<Vec<_>>()
    };
    let deleted = conflict_documents(&other);
    assert_eq!(deleted.len(), 1);
    hub.pull(&other);
    assert_eq!((hub.subject(2).as_str(), conflict_documents(&hub)), ("hub", deleted));
    assert!(listed(&hub).iter().all(|note| !note.is_truncated), "no part has arrived");
}

#[test]
fn mail_files_are_not_truncated() {
    let server = Server::new(1);
    let new = NewDatabase::new("mail/ann.nsf", "Ann", DatabaseKind::Mail, list(AclLevel::Manager));
    let mail = server.databases.database_create(&new).expect("the database is created");
    let access: Access<level::Depositor> = mail.authorize(&server.ann()).expect("Ann may");
    let accesses = [&access];
    let mut transaction = server.databases.transaction(&accesses).expect("a transaction");
    let without = NotExchanged::ATTACHMENTS;
    let settings = ReplicationSettings { without, ..ReplicationSettings::default() };
    let replica = ReplicaSettings { server: Name::new(&server.name), other: None, settings };
    assert!(transaction.writer(0).replication_settings_set(&replica).is_err());
}

#[test]
fn settings_that_arrive_ask_for_another_pull_that_compares_everything() {
    let hub = Server::new(1);
    let other = Server::new(2);
    for number in 1..=10 {
        hub.create(number);
    }
    other.select("SELECT @TextToNumber(Subject) <= 3");
    other.pull(&hub);
    hub.pull(&other);
    // The settings of the other server are changed on this one.
    hub.write(|writer| writer.replication_settings_remove(&Name::new(&other.name), None));
    let run = || {
        let mut pull = other.begin(&hub, HeldBackNotes::Left);
        while let Some((number, question)) = pull.question() {
            pull.take(number, hub.try_answer(&other, &question).expect("a sound store")).expect("a sound store");
        }
        (pull.leaves_comparison(), pull.statistics().received)
    };
    assert_eq!(run(), (true, 1), "the settings");
    assert_eq!(run(), (false, 7), "the documents that they left out");
    assert_eq!(run(), (false, 0));
}
