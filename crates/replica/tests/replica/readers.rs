//! Servers as readers of documents with Readers items: which documents they get, and what happens when they get a group
//! or a role that the items name.

use std::sync::Arc;

use base::{Name, Unid};
use notes::{
    Access, AclEntry, AclKind, AclLevel, Identity, Item, NewNote, NoteClass, NoteHeader, ReplicationSettings, level,
};
use replica::{Answer, HeldBackNotes, Pull, PullStatistics, answer_in_pages};

use crate::exchange::{Server, list};

/// A group of servers.
const PARTNERS: &str = "Partners";

/// A role of the access control list.
const STAFF: &str = "[Staff]";

/// Number of changes in a page of the list.
const CHANGES_PER_PAGE: usize = 3;

impl Server {
    /// Creates a document for Ann and some others.
    fn create_for(&self, number: u8, reader: &str) {
        let readers = Item::readers("Readers", vec![self.ann().name.canonical().to_owned(), reader.to_owned()]);
        let items = vec![Item::text("Subject", number.to_string()), readers];
        let new = NewNote { unid: Some(Unid([number; 16])), ..NewNote::document(items) };
        self.write(|writer| writer.note_create(new));
    }

    /// Answers the next question of a pull. The server that pulls is a member of groups.
    fn answer_member(&self, target: &Self, groups: &[&str], pull: &mut Pull) -> bool {
        let Some((number, question)) = pull.question() else { return false };
        let groups = groups.iter().map(|group| Name::new(group)).collect();
        let reader = Identity { server: true, groups, ..Identity::person(target.name.as_str()) };
        let access: Access<level::Reader> = self.database.authorize(&Arc::new(reader)).expect("the list names servers");
        let reading = access.read().expect("a snapshot");
        let answer = answer_in_pages(&reading, &question, CHANGES_PER_PAGE, &ReplicationSettings::default());
        let answer = answer.expect("a sound store");
        if let Answer::Notes(sent) = &answer {
            assert!(sent.unsent.is_empty());
        }
        pull.take(number, answer).expect("a sound store");
        true
    }

    /// Pulls as a member of groups that the source knows.
    fn pull_as_member(&self, source: &Self, groups: &[&str]) -> PullStatistics {
        let mut pull = self.begin(source, HeldBackNotes::Left);
        while source.answer_member(self, groups, &mut pull) {}
        pull.statistics()
    }

    /// Adds the role to the entry of the servers, or removes it.
    fn set_role(&self, is_given: bool) {
        let mut acl = list(AclLevel::Manager);
        acl.roles.insert(STAFF.to_owned());
        let entry = acl.entries.iter_mut().find(|entry| entry.kind == AclKind::Server);
        let entry: &mut AclEntry = entry.expect("the list names servers");
        entry.roles.extend(is_given.then(|| STAFF.to_owned()));
        self.write(|writer| writer.acl_set(acl));
    }

    /// Returns the numbers of the documents that are here.
    fn numbers(&self) -> Vec<u8> {
        (1..=9).filter(|number| self.has(*number)).collect()
    }
}

/// Returns a hub with documents that everybody may read (1, 5 to 9), the second server (2), a group (3) and a role (4).
fn hub_and_spoke() -> (Server, Server) {
    let hub = Server::new(1);
    let spoke = Server::new(2);
    hub.set_role(false);
    hub.create(1);
    hub.create_for(2, &spoke.name);
    hub.create_for(3, PARTNERS);
    hub.create_for(4, STAFF);
    for number in 5..=9 {
        hub.create(number);
    }
    (hub, spoke)
}

#[test]
fn server_gets_documents_that_name_it_and_those_of_a_new_group_by_one_comparison() {
    let (hub, spoke) = hub_and_spoke();
    let pulled = spoke.pull_as_member(&hub, &[]);
    assert_eq!((pulled.listed, pulled.received), (8, 8), "seven documents and the access control list");
    assert_eq!(spoke.numbers(), [1, 2, 5, 6, 7, 8, 9]);
    assert_eq!(spoke.pull_as_member(&hub, &[]).listed, 0);

    let pulled = spoke.pull_as_member(&hub, &[PARTNERS]);
    assert_eq!((pulled.listed, pulled.received), (9, 1), "everything is compared, and one document was hidden");
    assert_eq!(spoke.numbers(), [1, 2, 3, 5, 6, 7, 8, 9]);
    assert_eq!(spoke.pull_as_member(&hub, &[PARTNERS]).listed, 0, "nothing is compared again");

    let pulled = spoke.pull_as_member(&hub, &["Others"]);
    assert_eq!((pulled.listed, pulled.received), (8, 0));
    assert!(spoke.has(3), "what is hidden later stays");
}

#[test]
fn server_gets_the_documents_of_a_new_role_by_one_comparison() {
    let (hub, spoke) = hub_and_spoke();
    spoke.pull_as_member(&hub, &[]);
    hub.set_role(true);
    let pulled = spoke.pull_as_member(&hub, &[]);
    assert_eq!((pulled.listed, pulled.received), (9, 2), "the document, and the access control list");
    assert_eq!(spoke.numbers(), [1, 2, 4, 5, 6, 7, 8, 9]);
    assert_eq!(spoke.pull_as_member(&hub, &[]).listed, 0, "nothing is compared again");
}

#[test]
fn group_that_is_new_during_a_pull_brings_documents_of_pages_before() {
    let (hub, spoke) = hub_and_spoke();
    spoke.pull_as_member(&hub, &[]);
    for number in 5..=9 {
        let note = hub.write(|writer| writer.find(Unid([number; 16]))).expect("it exists");
        hub.write(|writer| {
            let read = writer.header(note)?.expect("it exists").revision();
            writer.note_update(note, read, &[Item::text("Subject", "edited")], &[])
        });
    }
    // The pull is cut off behind the first page.
    let mut pull = spoke.begin(&hub, HeldBackNotes::Left);
    assert!(hub.answer_member(&spoke, &[], &mut pull) && hub.answer_member(&spoke, &[], &mut pull));
    let pulled = spoke.pull_as_member(&hub, &[PARTNERS]);
    assert_eq!(pulled.listed, 9, "the unfinished list does not count");
    assert!(spoke.has(3));
    assert_eq!(spoke.pull_as_member(&hub, &[PARTNERS]).listed, 0);
}

#[test]
fn hidden_document_arrives_with_the_edit_that_names_the_server_and_stays_hidden_from_questions() {
    let (hub, spoke) = hub_and_spoke();
    spoke.pull_as_member(&hub, &[]);
    let reader = Identity { server: true, ..Identity::person(spoke.name.as_str()) };
    let access: Access<level::Reader> = hub.database.authorize(&Arc::new(reader)).expect("the list names servers");
    let reading = access.read().expect("a snapshot");
    let unids = vec![Unid([3; 16]), Unid([2; 16])];
    let question = replica::Question::Notes { unids, are_truncated: false };
    let Answer::Notes(sent) = replica::answer(&reading, &question).expect("a sound store") else { panic!("notes") };
    let sent: Vec<Unid> = sent.notes.iter().map(|note| note.unid).collect();
    assert_eq!(sent, [Unid([2; 16])], "a server cannot ask for what it is not shown");

    let note = hub.write(|writer| writer.find(Unid([3; 16]))).expect("it exists");
    let readers = vec![hub.ann().name.canonical().to_owned(), spoke.name.clone()];
    let items = [Item::text("Subject", "3"), Item::readers("Readers", readers)];
    hub.write(|writer| {
        let header: NoteHeader = writer.header(note)?.expect("it exists");
        assert_eq!(header.class, NoteClass::DOCUMENT);
        writer.note_update(note, header.revision(), &items, &[])
    });
    let pulled = spoke.pull_as_member(&hub, &[]);
    assert_eq!((pulled.listed, pulled.received), (1, 1), "only what has changed is listed");
    assert!(spoke.has(3) && !spoke.has(4));
}
