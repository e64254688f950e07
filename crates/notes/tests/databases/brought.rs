//! Versions that people bring from replicas of their own: rights, forgeries, conflicts and their leaves.

use std::sync::Arc;
use std::time::Duration;

use base::{Name, NoteId, Timestamp, Unid};
use notes::limits::{
    BROUGHT_SEQUENCE_MAX, BROUGHT_SEQUENCE_STEP_MAX, LOCAL_DOCUMENT_BYTES_MAX, LOCAL_DOCUMENTS_PER_PERSON_MAX,
    LOSERS_READ_MAX,
};
use notes::local_document::ID_ITEM;
use notes::replica::{ReceiveOutcome, ReplicaNote, StateName};
use notes::revision_record::RevisionRecord;
use notes::{
    Access, AclLevel, Database, DatabaseSnapshot, Error, Item, ItemFlags, ItemValue, Marks, NewNote, NoteClass, level,
    purge,
};
use revision::{Ancestor, Ancestors, Cut, DeletionRule, Register, Revision, RevisionId, conflict_document_unid};

use crate::fixture::{TestServer, assert_sound, identity};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const UNID: Unid = Unid([7; 16]);

struct World {
    server: TestServer,
    database: Arc<Database>,
}

impl World {
    /// Creates a database that Ann manages, and in which Bob has a level.
    fn new(bob: AclLevel) -> Self {
        let server = TestServer::new();
        let database = server.database(&[(BOB, bob)]);
        Self { server, database }
    }

    fn bring(&self, who: &str, note: &ReplicaNote) -> notes::Result<ReceiveOutcome> {
        self.server.write(&self.database, who, |writer| writer.note_receive_from_person(note, DeletionRule::EditsCount))
    }

    fn read<T>(&self, read: impl FnOnce(&DatabaseSnapshot<'_>) -> notes::Result<T>) -> T {
        let access: Access<level::Reader> = self.database.authorize(&identity(ANN)).expect("Ann may");
        let reading = access.read().expect("a snapshot");
        read(&reading).expect("a sound store")
    }

    fn subject(&self, unid: Unid) -> Option<String> {
        self.read(|reading| {
            let Some(note) = reading.find(unid)? else { return Ok(None) };
            let note = reading.note(note)?;
            Ok(note.and_then(|note| note.text("Subject").map(str::to_owned)))
        })
    }

    /// Returns the losing versions of the document, and whether a conflict document keeps each.
    fn losers(&self) -> Vec<(Revision, bool)> {
        let losers = self.read(|reading| reading.losers(UNID));
        losers.into_iter().map(|loser| (loser.revision, loser.document.is_some())).collect()
    }
}

fn revision(sequence: u32, id: u8) -> Revision {
    Revision { sequence, id: RevisionId([id; 16]) }
}

/// Returns a version with a subject and this path of revisions, its own first.
fn version(path: &[Revision], subject: &str) -> ReplicaNote {
    let ancestors = path[1..].iter().map(|revision| Ancestor { revision: *revision, is_on_main_path: true }).collect();
    let cut = if path.len() > 1 { Cut::Branches } else { Cut::Nothing };
    let ancestors = Ancestors::from_list(ancestors, cut).expect("a path");
    ReplicaNote {
        unid: UNID,
        class: NoteClass::DOCUMENT,
        is_conflict: false,
        revision: path[0],
        sequence_time: Timestamp(1_000),
        record: RevisionRecord { ancestors, ..RevisionRecord::default() },
        created: Timestamp(1_000),
        received: Timestamp(1_000),
        size: None,
        crlf_growth: 0,
        parent: None,
        items: Some(vec![Item::text("Subject", subject)]),
        blobs: Vec::new(),
        state: Vec::new(),
        client_id: None,
        is_truncated: false,
    }
}

fn deletion(path: &[Revision]) -> ReplicaNote {
    ReplicaNote { items: None, ..version(path, "") }
}

fn with_item(note: &ReplicaNote, item: Item) -> ReplicaNote {
    let mut items = note.items.clone().expect("an edit");
    items.push(item);
    ReplicaNote { items: Some(items), ..note.clone() }
}

#[test]
fn a_version_is_taken_with_its_revision() {
    let world = World::new(AclLevel::Author);
    let first = version(&[revision(1, 1)], "one");
    assert_eq!(world.bring(BOB, &first).expect("Bob may create"), ReceiveOutcome::Taken);
    assert_eq!(world.bring(BOB, &first).expect("it is known"), ReceiveOutcome::Known { state_changed: false });
    let header = world.read(|reading| {
        let note = reading.find(UNID)?.expect("it exists");
        Ok(reading.header(note)?.expect("it is visible"))
    });
    assert_eq!((header.revision(), header.sequence_time), (revision(1, 1), Timestamp(1_000)));
    let second = version(&[revision(2, 1), revision(1, 1)], "two");
    assert!(matches!(world.bring(BOB, &second), Err(Error::NotAuthor { .. })), "no Authors item names Bob");
    assert_eq!(world.bring(ANN, &second).expect("Ann is Manager"), ReceiveOutcome::Taken);
    assert_eq!(world.subject(UNID).as_deref(), Some("two"));
    assert_sound(&world.database);
}

#[test]
fn rights_of_the_document_decide() {
    let world = World::new(AclLevel::Author);
    let bobs = with_item(&version(&[revision(1, 1)], "one"), Item::authors("Authors", vec![BOB.into()]));
    world.bring(ANN, &bobs).expect("Ann may");
    let second =
        with_item(&version(&[revision(2, 1), revision(1, 1)], "two"), Item::authors("Authors", vec![BOB.into()]));
    let secret = with_item(
        &second,
        Item { flags: ItemFlags::SUMMARY.union(ItemFlags::PROTECTED), ..Item::text("Status", "paid") },
    );
    world.bring(BOB, &secret).expect("the item is new");
    let other = Unid([6; 16]);
    world.bring(ANN, &ReplicaNote { unid: other, ..bobs.clone() }).expect("Ann may");
    let gone = ReplicaNote { unid: other, ..deletion(&[revision(2, 1), revision(1, 1)]) };
    assert_eq!(world.bring(BOB, &gone).expect("Bob is an author"), ReceiveOutcome::Taken);
    let third = [revision(3, 1), revision(2, 1), revision(1, 1)];
    let without = with_item(&version(&third, "three"), Item::authors("Authors", vec![BOB.into()]));
    assert!(matches!(world.bring(BOB, &without), Err(Error::NotAuthor { .. })), "the protected item is gone");
    let hidden = with_item(&version(&third, "three"), Item::readers("Readers", vec![ANN.into()]));
    world.bring(ANN, &hidden).expect("Ann may");
    let fourth = [revision(4, 1), revision(3, 1), revision(2, 1), revision(1, 1)];
    assert!(matches!(world.bring(BOB, &version(&fourth, "four")), Err(Error::NotFound { .. })), "Bob is no reader");
    assert!(matches!(world.bring(BOB, &deletion(&fourth)), Err(Error::NotFound { .. })));
    world.bring(ANN, &deletion(&fourth)).expect("Ann may");
    let fifth = [revision(5, 1), revision(4, 1), revision(3, 1)];
    assert!(
        matches!(world.bring(BOB, &version(&fifth, "five")), Err(Error::NotFound { .. })),
        "it was hidden from Bob"
    );
    assert_eq!(world.subject(UNID), None);
}

#[test]
fn what_only_the_server_sets_cannot_be_forged() {
    let world = World::new(AclLevel::Editor);
    let first = version(&[revision(1, 1)], "one");
    let editors = |names: &[&str]| {
        let names = names.iter().map(|name| Name::new(name).canonical().to_owned()).collect();
        Item::summary("$UpdatedBy", ItemValue::TextList(names))
    };
    let refused = |who: &str, note: &ReplicaNote| matches!(world.bring(who, note), Err(Error::Invalid { .. }));
    assert!(refused(BOB, &with_item(&first, editors(&[ANN, BOB]))), "Ann has not saved it");
    world.bring(ANN, &with_item(&first, editors(&[ANN]))).expect("Ann has saved it");
    let path = [revision(2, 1), revision(1, 1)];
    assert!(refused(BOB, &with_item(&version(&path, "two"), editors(&[ANN, "Eve/Acme", BOB]))));
    world.bring(BOB, &with_item(&version(&path, "two"), editors(&[ANN, BOB]))).expect("both have saved it");
    let high = revision(BROUGHT_SEQUENCE_STEP_MAX + 3, 1);
    assert!(refused(BOB, &version(&[high], "high")));
    let unid = conflict_document_unid(UNID, revision(9, 9));
    assert!(refused(BOB, &ReplicaNote { unid, ..first.clone() }), "the UNID of a conflict document");
    let form = ReplicaNote { unid: Unid([9; 16]), class: NoteClass::FORM, ..first.clone() };
    assert!(refused(ANN, &form), "only documents can be brought");
    let foreign = ReplicaNote { unid: Unid([8; 16]), blobs: vec![store::BlobId([1; 32])], ..first };
    assert!(matches!(world.bring(BOB, &foreign), Err(Error::NotFound { .. })), "a content that Bob does not have");
}

#[test]
fn sequence_numbers_of_people_leave_room_for_those_of_servers() {
    let world = World::new(AclLevel::Editor);
    let mut path = vec![revision(1, 1)];
    world.bring(BOB, &version(&path, "first")).expect("Bob may");
    while path[0].sequence < BROUGHT_SEQUENCE_MAX {
        let sequence = (path[0].sequence + BROUGHT_SEQUENCE_STEP_MAX).min(BROUGHT_SEQUENCE_MAX);
        path = vec![revision(sequence, 1), path[0]];
        world.bring(BOB, &version(&path, "next")).expect("a step is permitted");
    }
    // One more save is always possible.
    let beyond = version(&[revision(BROUGHT_SEQUENCE_MAX + 2, 1), path[0]], "beyond");
    assert!(matches!(world.bring(BOB, &beyond), Err(Error::Invalid { .. })));
    assert_eq!(world.subject(UNID).as_deref(), Some("next"));
}

#[test]
fn records_of_equal_versions_end_with_the_stub_of_their_document() {
    let world = World::new(AclLevel::Editor);
    let base = revision(1, 1);
    world.bring(ANN, &version(&[base], "base")).expect("Ann may");
    let equal = |number: usize| {
        let mut id = [9; 16];
        id[..8].copy_from_slice(&(number as u64).to_be_bytes());
        Revision { sequence: 2, id: RevisionId(id) }
    };
    // More than are read of one document.
    let count = LOSERS_READ_MAX + 100;
    for number in 0..=count {
        world.bring(ANN, &version(&[equal(number), base], "equal")).expect("Ann may");
    }
    let losers = world.losers();
    assert_eq!((losers.len(), losers[0]), (LOSERS_READ_MAX, (equal(count - 1), false)));
    world.bring(ANN, &deletion(&[revision(3, 3), equal(count), base])).expect("Ann may");
    world.server.clock.advance(Duration::from_secs(200 * 86_400));
    while notes::soft_deletion::purge_deleted(&world.database).expect("a sound store") > 0 {}
    while purge::purge(&world.database).expect("a sound store") > 0 {}
    // The deletion stays known, with the versions that were deleted: the stub is written again for the first of them.
    assert_eq!(world.bring(ANN, &version(&[base], "deleted before")).expect("Ann may"), ReceiveOutcome::Later);
    for purged in [base, equal(count)] {
        let again = world.bring(ANN, &version(&[purged], "deleted before")).expect("Ann may");
        assert_eq!(again, ReceiveOutcome::Known { state_changed: false });
        assert_eq!(world.subject(UNID), None);
    }
    world.bring(ANN, &version(&[revision(4, 9)], "a document with the same UNID")).expect("Ann may");
    assert_eq!(world.subject(UNID).as_deref(), Some("a document with the same UNID"));
    assert_eq!(world.losers(), []);
}

#[test]
fn losing_versions_are_leaves_until_they_are_extended_or_deleted() {
    let world = World::new(AclLevel::Author);
    let base = revision(1, 1);
    let lesser = revision(2, 2);
    let greater = revision(2, 3);
    world.bring(ANN, &version(&[base], "base")).expect("Ann may");
    world.bring(ANN, &version(&[lesser, base], "lesser")).expect("Ann may");
    assert_eq!(world.bring(ANN, &version(&[greater, base], "greater")).expect("Ann may"), ReceiveOutcome::Conflict);
    assert_eq!(world.losers(), [(lesser, true)]);
    assert_eq!(world.subject(conflict_document_unid(UNID, lesser)).as_deref(), Some("lesser"));
    // The losing version is edited, and has more saves now. The other one loses, and the first one has ended.
    let extended = version(&[revision(3, 2), lesser, base], "extended");
    assert_eq!(world.bring(ANN, &extended).expect("Ann may"), ReceiveOutcome::Conflict);
    assert_eq!(world.subject(UNID).as_deref(), Some("extended"));
    assert_eq!(world.losers(), [(greater, true), (lesser, false)]);
    assert!(matches!(world.bring(BOB, &deletion(&[revision(3, 3), greater, base])), Err(Error::NotAuthor { .. })));
    // The other leaf is deleted. The document stays.
    assert_eq!(world.bring(ANN, &deletion(&[revision(3, 3), greater, base])).expect("Ann may"), ReceiveOutcome::Taken);
    assert_eq!(world.losers(), [(greater, false), (lesser, false)]);
    assert_eq!(world.subject(UNID).as_deref(), Some("extended"));
    assert_sound(&world.database);
    // What is known of the losers ends with the stubs of their conflict documents.
    world.server.clock.advance(Duration::from_secs(200 * 86_400));
    while notes::soft_deletion::purge_deleted(&world.database).expect("a sound store") > 0 {}
    while purge::purge(&world.database).expect("a sound store") > 0 {}
    assert_eq!(world.losers(), []);
    assert_sound(&world.database);
}

#[test]
fn a_losing_version_that_is_brought_again_keeps_its_conflict_document() {
    let world = World::new(AclLevel::Author);
    let base = revision(1, 1);
    let lesser = revision(2, 2);
    let lost = version(&[lesser, base], "lesser");
    world.bring(ANN, &version(&[base], "base")).expect("Ann may");
    world.bring(ANN, &version(&[revision(2, 3), base], "greater")).expect("Ann may");
    assert_eq!(world.bring(ANN, &lost).expect("Ann may"), ReceiveOutcome::Conflict);
    // The client has not received the answer.
    assert_eq!(world.bring(ANN, &lost).expect("Ann may"), ReceiveOutcome::Known { state_changed: false });
    assert_eq!(world.losers(), [(lesser, true)]);
    assert_eq!(world.subject(conflict_document_unid(UNID, lesser)).as_deref(), Some("lesser"));
}

#[test]
fn equal_versions_are_no_conflict_and_the_lesser_has_ended() {
    let world = World::new(AclLevel::Author);
    let base = revision(1, 1);
    let lesser = revision(2, 2);
    let greater = revision(2, 3);
    world.bring(ANN, &version(&[base], "base")).expect("Ann may");
    world.bring(ANN, &version(&[greater, base], "same")).expect("Ann may");
    let before = world.database.modseq();
    world.bring(ANN, &version(&[lesser, base], "same")).expect("Ann may");
    assert_eq!(world.losers(), [(lesser, false)]);
    assert!(world.database.modseq() > before, "clients must learn that the version has ended");
}

#[test]
fn a_changed_conflict_document_is_a_document_of_its_own() {
    let world = World::new(AclLevel::Author);
    let base = revision(1, 1);
    let lesser = revision(2, 2);
    let greater = revision(2, 3);
    for note in [version(&[base], "base"), version(&[lesser, base], "lesser"), version(&[greater, base], "greater")] {
        world.bring(ANN, &note).expect("Ann may");
    }
    let conflict = conflict_document_unid(UNID, lesser);
    let winner_of = |note: NoteId| world.read(|reading| reading.winner_of(&reading.header(note)?.expect("it exists")));
    let note = world.read(|reading| Ok(reading.find(conflict)?.expect("it exists")));
    assert_eq!(winner_of(note), Some(UNID));
    let change = |writer: &mut notes::Writer<'_, '_>| {
        let made = writer.header(note)?.expect("it exists").revision();
        writer.note_update(note, made, &[Item::text("Subject", "own")], &[])
    };
    world.server.write(&world.database, ANN, change).expect("Ann may");
    assert_eq!((winner_of(note), world.losers()), (None, vec![(lesser, false)]));
    // Its losing version is extended by a client: the document that somebody has changed stays.
    world.bring(ANN, &version(&[revision(3, 2), lesser, base], "extended")).expect("Ann may");
    assert_eq!(world.subject(conflict).as_deref(), Some("own"));
}

#[test]
fn stubs_keep_the_id_from_which_their_unid_is_derived() {
    let world = World::new(AclLevel::Author);
    let named = with_item(&version(&[revision(1, 1)], "one"), Item::text(ID_ITEM, "doc-1"));
    world.bring(ANN, &named).expect("Ann may");
    world.bring(ANN, &deletion(&[revision(2, 1), revision(1, 1)])).expect("Ann may");
    let kept = world.read(|reading| reading.kept_items(reading.find(UNID)?.expect("a stub")));
    assert_eq!(kept, [Item::text(ID_ITEM, "doc-1")]);
    assert_sound(&world.database);
}

#[test]
fn local_documents_belong_to_a_person_and_are_limited() {
    let world = World::new(AclLevel::Reader);
    let set = |who: &str, id: &str, text: Option<&str>| {
        world.server.write(&world.database, who, |writer| writer.local_document_set(id, text))
    };
    let get = |who: &str, id: &str| {
        let access: Access<level::Reader> = world.database.authorize(&identity(who)).expect("both may read");
        access.read().expect("a snapshot").local_document(id).expect("a sound store")
    };
    let before = world.database.modseq();
    set(BOB, "place", Some("{\"a\":1}")).expect("a reader may");
    assert_eq!((get(BOB, "place").as_deref(), get(ANN, "place")), (Some("{\"a\":1}"), None));
    assert_eq!(world.database.modseq(), before, "it is no change of the database");
    set(BOB, "place", None).expect("a reader may");
    assert_eq!(get(BOB, "place"), None);
    let large = "x".repeat(LOCAL_DOCUMENT_BYTES_MAX + 1);
    assert!(matches!(set(BOB, "place", Some(&large)), Err(Error::Limit { .. })));
    for number in 0..=LOCAL_DOCUMENTS_PER_PERSON_MAX {
        world.server.clock.advance(Duration::from_secs(1));
        set(BOB, &number.to_string(), Some("{}")).expect("a reader may");
    }
    assert_eq!((get(BOB, "0"), get(BOB, "1").as_deref()), (None, Some("{}")), "the oldest one is deleted");
}

#[test]
fn brought_documents_exist_beside_native_ones() {
    let world = World::new(AclLevel::Author);
    let create = |writer: &mut notes::Writer<'_, '_>| {
        writer.note_create(NewNote { unid: Some(UNID), ..NewNote::document(vec![Item::text("Subject", "native")]) })
    };
    let note = world.server.write(&world.database, ANN, create).expect("Ann may");
    let made = world.read(|reading| Ok(reading.header(note)?.expect("it exists").revision()));
    let next = version(&[revision(2, 1), made], "brought");
    assert_eq!(world.bring(ANN, &next).expect("Ann may"), ReceiveOutcome::Taken);
    let change = |writer: &mut notes::Writer<'_, '_>| {
        writer.note_update(note, revision(2, 1), &[Item::text("Subject", "again")], &[])
    };
    world.server.write(&world.database, ANN, change).expect("Ann may");
    let ancestors = world.read(|reading| Ok(reading.revisions(note)?.expect("a record").ancestors));
    assert!(ancestors.contains(revision(2, 1)) && ancestors.contains(made));
}

#[test]
fn authors_cannot_claim_ancestors_that_this_replica_does_not_know() {
    // The document exists on another server only. Bob can read it there, and change nothing.
    let world = World::new(AclLevel::Author);
    let theirs = version(&[revision(1, 1)], "theirs");
    let forged =
        with_item(&version(&[revision(2, 9), revision(1, 1)], "forged"), Item::authors("Authors", vec![BOB.into()]));
    assert_eq!(world.bring(BOB, &forged).expect("Bob may create"), ReceiveOutcome::Taken);
    let stored = |world: &World| {
        world.read(|reading| {
            let note = reading.find(UNID)?.expect("it exists");
            reading.replica_note(note)
        })
    };
    let note = stored(&world).expect("it can be sent");
    assert_eq!(note.revision, revision(2, 9));
    assert!(!note.record.ancestors.contains(theirs.revision), "other servers would replace their version");
    // A deletion of it does not descend from theirs either.
    let third = [revision(3, 9), revision(2, 9), revision(1, 1)];
    assert_eq!(world.bring(ANN, &deletion(&[third[0], third[1]])).expect("Ann may"), ReceiveOutcome::Taken);
    // Bob revives it, from an edit that this replica does not know.
    let fourth = [revision(4, 9), revision(3, 9), revision(3, 5), revision(2, 9)];
    assert_eq!(world.bring(BOB, &version(&fourth, "again")).expect("Bob may create"), ReceiveOutcome::Taken);
    let note = stored(&world).expect("it can be sent");
    assert!(note.record.ancestors.contains(revision(3, 9)), "he has seen the deletion");
    assert!(!note.record.ancestors.contains(revision(3, 5)));
    // Editors may.
    let world = World::new(AclLevel::Editor);
    world.bring(BOB, &forged).expect("Bob may create");
    assert!(stored(&world).expect("it can be sent").record.ancestors.contains(theirs.revision));
}

#[test]
fn editors_of_a_deleted_document_cannot_be_forged() {
    let world = World::new(AclLevel::Author);
    world.bring(ANN, &version(&[revision(1, 1)], "one")).expect("Ann may");
    world.bring(ANN, &deletion(&[revision(2, 1), revision(1, 1)])).expect("Ann may");
    let third = version(&[revision(3, 1), revision(2, 1)], "three");
    let forged = with_item(&third, Item::text("$UpdatedBy", "CN=Eve/O=Acme"));
    assert!(matches!(world.bring(BOB, &forged), Err(Error::Invalid { .. })));
    assert_eq!(world.bring(BOB, &third).expect("Bob may create"), ReceiveOutcome::Taken);
}

#[test]
fn marks_of_a_local_replica_count_from_the_owner() {
    let world = World::new(AclLevel::Editor);
    let first = version(&[revision(1, 1)], "one");
    world.bring(ANN, &first).expect("Ann may");
    let flagged = |seconds: i64| {
        let register = Register { is_set: true, time: Timestamp(seconds * 1_000_000), number: 77 };
        vec![(StateName::Mark(2), register), (StateName::Keyword("urgent".to_owned()), register)]
    };
    let join = |who: &str, state: &[(StateName, Register)]| {
        world.server.write(&world.database, who, |writer| writer.state_receive_from_person(UNID, state))
    };
    assert!(!join(BOB, &flagged(5)).expect("he may read it"), "the marks are those of the owner");
    assert!(join(ANN, &flagged(5)).expect("she may"));
    assert!(!join(ANN, &flagged(5)).expect("she may"), "it is known");
    let header = world.read(|reading| {
        let note = reading.find(UNID)?.expect("it exists");
        Ok(reading.header(note)?.expect("it is visible"))
    });
    assert!(header.marks.contains(Marks::FLAGGED) && header.keywords.len() == 1);
    // A change that the server made later counts, however often the earlier one is offered.
    world.server.clock.advance(Duration::from_secs(60));
    let note = world.read(|reading| Ok(reading.find(UNID)?.expect("it exists")));
    let cleared = world.server.write(&world.database, ANN, |writer| writer.marks_set(note, Marks::default(), &[]));
    assert!(cleared.expect("she may"));
    assert!(!join(ANN, &flagged(5)).expect("she may"));
    assert!(matches!(join(ANN, &[]), Ok(false)));
    let unknown =
        world.server.write(&world.database, ANN, |writer| writer.state_receive_from_person(Unid([9; 16]), &[]));
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
    assert_sound(&world.database);
}

#[test]
fn deletion_that_comes_before_its_document_is_kept() {
    let path = [revision(2, 2), revision(1, 1)];
    let world = World::new(AclLevel::Editor);
    let named = ReplicaNote { client_id: Some("of a client".to_owned()), ..deletion(&path) };
    assert_eq!(world.bring(BOB, &named).expect("he may delete"), ReceiveOutcome::Taken);
    let stub = world.read(|reading| {
        let note = reading.find(UNID)?.expect("there is a stub");
        reading.replica_note(note)
    });
    assert_eq!(stub.and_then(|stub| stub.client_id).as_deref(), Some("of a client"), "its clients find it");
    let first = version(&path[1..], "one");
    assert_eq!(world.bring(ANN, &first).expect("she may"), ReceiveOutcome::Known { state_changed: false });
    assert_eq!(world.subject(UNID), None, "it does not come back");
    assert_sound(&world.database);
    let world = World::new(AclLevel::Author);
    assert_eq!(
        world.bring(BOB, &deletion(&path)).expect("it is ignored"),
        ReceiveOutcome::Known { state_changed: false }
    );
    assert_eq!(world.bring(ANN, &first).expect("she may"), ReceiveOutcome::Taken);
    assert_eq!(world.subject(UNID).as_deref(), Some("one"), "an author cannot delete documents of others in advance");
}

#[test]
fn a_purged_stub_is_written_again_as_it_was_for_who_had_the_document() {
    let world = World::new(AclLevel::Reader);
    let first = revision(1, 1);
    let readers = |names: &[&str]| Item::readers("Readers", names.iter().map(|name| (*name).to_owned()).collect());
    let editors = Item::summary("$UpdatedBy", ItemValue::TextList(vec![ANN.to_owned()]));
    let shown = with_item(&with_item(&version(&[first], "shown"), readers(&[ANN, BOB])), editors);
    let hidden = ReplicaNote { unid: Unid([6; 16]), ..with_item(&version(&[first], "hidden"), readers(&[ANN])) };
    for note in [&shown, &hidden] {
        world.bring(ANN, note).expect("Ann may");
        let gone = ReplicaNote { unid: note.unid, ..deletion(&[revision(2, 1), first]) };
        world.bring(ANN, &gone).expect("Ann may");
    }
    world.server.clock.advance(Duration::from_secs(100 * 86_400));
    while purge::purge(&world.database).expect("a sound store") > 0 {}
    let found = |unid| {
        let access: Access<level::Reader> = world.database.authorize(&identity(BOB)).expect("Bob may");
        access.read().and_then(|reading| reading.find(unid)).expect("a sound store").is_some()
    };
    // Bob may not create documents. He names the version that he had.
    for note in [&shown, &hidden] {
        assert_eq!(world.bring(BOB, note).expect("he had it"), ReceiveOutcome::Later);
        assert!(world.read(|reading| reading.find(note.unid)).is_some());
    }
    assert_eq!(world.bring(BOB, &shown).expect("it is known"), ReceiveOutcome::Known { state_changed: false });
    assert!(matches!(world.bring(BOB, &hidden), Err(Error::NotFound { .. })), "the stub is restricted as before");
    assert_eq!((found(shown.unid), found(hidden.unid)), (true, false));
    let edit = version(&[revision(2, 9)], "by somebody who cannot create documents");
    let edit = ReplicaNote { unid: Unid([5; 16]), ..edit };
    assert!(matches!(world.bring(BOB, &edit), Err(Error::AccessDenied { .. })));
    assert_sound(&world.database);
}
