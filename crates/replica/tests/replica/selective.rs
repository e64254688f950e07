//! Settings of replicas: what they leave out, and what arrives when the settings change.

use std::time::Duration;

use base::{Name, NoteId, Unid};
use notes::{Access, AclLevel, Identity, Item, NewNote, NotExchanged, ReplicaSettings, ReplicationSettings, level};

use crate::exchange::{Server, list, two};

impl Server {
    /// Sets what this server's replica exchanges with that of another one.
    fn set_settings(&self, other: Option<&Self>, settings: ReplicationSettings) {
        let server = Name::new(&self.name);
        let other = other.map(|other| Name::new(&other.name));
        self.write(|writer| writer.replication_settings_set(&ReplicaSettings { server, other, settings }));
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

    fn rename(&self, number: u8, subject: &str) {
        let note = self.note(number);
        self.write(|writer| {
            let header = writer.header(note)?.expect("it exists");
            writer.note_update(note, header.revision(), &[Item::text("Subject", subject)], &[])
        });
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

    hub.rename(2, "20");
    hub.rename(9, "1");
    hub.rename(8, "80");
    let pulled = other.pull(&hub);
    assert_eq!((pulled.left_out, pulled.received), (1, 2));
    assert_eq!(other.subject(2), "20", "what the replica has stays up to date");
    assert!(other.has(9) && !other.has(8));

    other.create(11);
    other.rename(1, "one");
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
    hub.rename(1, "new");
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

    let designer = std::sync::Arc::new(Identity::person("Dan/Acme"));
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
