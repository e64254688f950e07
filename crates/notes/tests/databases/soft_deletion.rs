//! Soft deletion: documents that are deleted and restored, and documents whose time has expired.

use std::sync::Arc;
use std::time::Duration;

use base::{Modseq, NoteId, Uid, Unid, ViewId};
use notes::change_log::{ChangeCursor, NoteChange};
use notes::soft_deletion::purge_deleted;
use notes::{Access, AclLevel, Database, DatabaseOptions, Item, ItemValue, Marks, NewNote, level};

use crate::fixture::{TestServer, assert_sound, identity, reader, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
const PARENT: Unid = Unid([6; 16]);
const HOUR: Duration = Duration::from_secs(3_600);

/// Sets the number of hours for which a database keeps deleted documents.
fn set_retention(world: &TestServer, database: &Arc<Database>, hours: Option<u16>) {
    let access: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann manages it");
    let options = DatabaseOptions { keep_deleted_hours: hours, ..DatabaseOptions::default() };
    world.databases.database_options_set(&access, "Documents", options).expect("Ann may");
}

struct Case {
    world: TestServer,
    database: Arc<Database>,
    folders: [ViewId; 2],
    note: NoteId,
    blob: store::BlobId,
}

/// Creates a database that keeps deleted documents for two hours, with one document in two folders.
fn case(bob: AclLevel, more: Vec<Item>) -> Case {
    let world = TestServer::new();
    let database = world.database(&[(BOB, bob)]);
    set_retention(&world, &database, Some(2));
    let created = world.write(&database, ANN, |writer| {
        let folders = [writer.folder_create("F", &[])?, writer.folder_create("G", &[])?];
        let blob = writer.blob_put(&[7; 5_000])?;
        let body = vec![Item::text("Subject", "x"), Item::body("Body", ItemValue::RichText("text".into()))];
        let note = writer.note_create(NewNote {
            folders: folders.to_vec(),
            parent: Some(PARENT),
            marks: Marks::FLAGGED,
            keywords: vec!["Work".into()],
            blobs: vec![blob],
            ..NewNote::document([body, more].concat())
        })?;
        Ok((folders, note, blob))
    });
    let (folders, note, blob) = created.expect("Ann may");
    Case { world, database, folders, note, blob }
}

impl Case {
    fn write<T>(
        &self,
        who: &str,
        change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>,
    ) -> notes::Result<T> {
        let outcome = self.world.write(&self.database, who, change);
        assert_sound(&self.database);
        outcome
    }

    fn delete(&self) {
        assert!(self.write(ANN, |writer| writer.note_delete(self.note)).expect("Ann may"));
    }

    /// Returns the documents that a user sees as restorable.
    fn restorable(&self, who: &str) -> Vec<NoteId> {
        let access = reader(&self.database, who).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let found = reading.deleted_notes(NoteId(0), 10).expect("a sound database");
        // Pages that read one record each return the same documents.
        let mut after = Some(NoteId(0));
        let mut paged = Vec::new();
        while let Some(from) = after {
            let page = reading.deleted_page(from, 10, 1).expect("a sound database");
            assert!(page.next.is_none_or(|next| next > from), "a page advances");
            paged.extend(page.notes);
            after = page.next;
        }
        assert_eq!(paged, found);
        assert!(found.iter().all(|found| reading.deleted_note(found.header.note, &mut |_| true).unwrap().is_some()));
        found.into_iter().map(|found| found.header.note).collect()
    }

    /// Checks which parts of the document Ann, or the server itself, can read: note, summary, body, attachment, thread,
    /// folders.
    fn readable_parts(&self, itself: bool) -> [bool; 6] {
        let who = if itself { server() } else { identity(ANN) };
        let access: Access<level::Reader> = self.database.authorize(&who).expect("a reader");
        let reading = access.read().expect("a snapshot");
        [
            reading.note(self.note).unwrap().is_some(),
            reading.summary(self.note).unwrap().is_some(),
            reading.body_item(self.note, 0).unwrap().is_some(),
            reading.blob(self.note, &self.blob).is_ok(),
            reading.children(PARENT).unwrap() == [self.note],
            self.folders.iter().all(|folder| reading.folder(*folder).unwrap().totals().unwrap().count == 1),
        ]
    }

    /// Returns the changes that a reader gets.
    fn changes_since(&self, since: Modseq) -> Vec<NoteChange> {
        let mut changes = Vec::new();
        let each = &mut |entry: notes::change_log::ChangeEntry| {
            changes.push(entry.change);
            Ok(())
        };
        reader(&self.database, ANN).unwrap().read().unwrap().changes(since, each).unwrap();
        changes
    }

    fn counters(&self) -> notes::counters::Counters {
        *reader(&self.database, ANN).unwrap().read().unwrap().counters()
    }
}

#[test]
fn soft_deleted_document_is_hidden_and_restored_unchanged() {
    let case = case(AclLevel::Editor, Vec::new());
    let before = case.counters();
    let since = case.database.modseq();
    case.delete();
    assert_eq!((case.readable_parts(false), case.readable_parts(true)), ([false; 6], [false; 6]));
    assert_eq!(
        (case.counters().notes, case.counters().bytes),
        (before.notes - 1, before.bytes),
        "the document still uses its space"
    );
    assert_eq!(case.restorable(ANN), [case.note]);
    let access = reader(&case.database, ANN).unwrap();
    let changes = case.changes_since(since);
    assert!(matches!(&changes[..], [NoteChange::Deleted { folders, .. }] if folders.len() == 2), "{changes:?}");
    assert!(!case.write(ANN, |writer| writer.note_delete(case.note)).unwrap(), "there is none to delete");
    assert!(case.write(ANN, |writer| writer.note_update(case.note, 2, &[], &[])).is_err());

    let again = case.world.restarted();
    let database = again.databases.database_open("docs.nsf").unwrap();
    assert_eq!(database.record().options.keep_deleted_hours, Some(2));
    drop(again);

    case.write(ANN, |writer| writer.note_restore(case.note)).expect("Ann may");
    assert_eq!((case.readable_parts(false), case.readable_parts(true)), ([true; 6], [true; 6]));
    assert_eq!((case.counters().notes, case.counters().bytes), (before.notes, before.bytes));
    let header = access.read().unwrap().header(case.note).unwrap().expect("the document exists");
    assert_eq!((header.sequence, header.marks, header.keywords.len()), (3, Marks::FLAGGED, 1));
    let uids: Vec<Uid> = header.folders.iter().map(|membership| membership.uid).collect();
    assert_eq!(uids, [Uid(2), Uid(2)], "a UID is never used twice");
    assert_eq!(case.restorable(ANN), []);
    let changes = case.changes_since(since);
    assert!(matches!(&changes[..], [NoteChange::Changed { .. }]), "{changes:?}");
    assert!(case.write(ANN, |writer| writer.note_restore(case.note)).is_err(), "it is not deleted");
}

#[test]
fn restoring_skips_deleted_folders() {
    let case = case(AclLevel::Editor, Vec::new());
    case.delete();
    case.write(ANN, |writer| writer.folder_delete(case.folders[0])).expect("it is empty");
    case.write(ANN, |writer| writer.note_restore(case.note)).expect("Ann may");
    let header =
        reader(&case.database, ANN).unwrap().read().unwrap().header(case.note).unwrap().expect("the document exists");
    assert_eq!(header.folders.iter().map(|membership| membership.folder).collect::<Vec<_>>(), [case.folders[1]]);
}

#[test]
fn restoring_requires_the_right_to_delete() {
    let check = |level: AclLevel, more: Vec<Item>, expected: bool| {
        let context = format!("{level} {more:?}");
        let case = case(level, more);
        case.delete();
        assert_eq!(!case.restorable(BOB).is_empty(), expected, "{context}");
        assert_eq!(case.write(BOB, |writer| writer.note_restore(case.note)).is_ok(), expected, "{context}");
        if expected {
            case.delete();
        }
        let gone = case.write(BOB, |writer| writer.note_delete_permanently(case.note));
        assert_eq!(gone.unwrap_or(false), expected, "{context}");
    };
    check(AclLevel::Reader, Vec::new(), false);
    check(AclLevel::Author, Vec::new(), false);
    check(AclLevel::Author, vec![Item::authors("Authors", vec![BOB.into()])], true);
    check(AclLevel::Editor, Vec::new(), true);
    check(AclLevel::Manager, vec![Item::readers("Readers", vec!["Carol/Acme".into(), ANN.into()])], false);
}

#[test]
fn permanent_deletion_frees_space() {
    for is_deleted in [false, true] {
        let case = case(AclLevel::Editor, Vec::new());
        if is_deleted {
            case.delete();
        }
        let stubs = case.counters().stubs;
        assert!(case.write(ANN, |writer| writer.note_delete_permanently(case.note)).unwrap());
        assert_eq!(case.restorable(ANN), []);
        let access = reader(&case.database, ANN).unwrap();
        let header = access.read().unwrap().header(case.note).unwrap().expect("a stub");
        assert!(header.is_stub() && !header.has_contents() && header.size == 0);
        assert_eq!(case.counters().stubs, stubs + u64::from(!is_deleted));
        assert!(case.write(ANN, |writer| writer.note_restore(case.note)).is_err());
        assert!(!case.write(ANN, |writer| writer.note_delete_permanently(case.note)).unwrap());
    }
}

#[test]
fn design_and_databases_without_retention_delete_permanently() {
    let case = case(AclLevel::Editor, Vec::new());
    let form = NewNote::of_class(notes::NoteClass::FORM, Vec::new());
    let form = case.write(ANN, |writer| writer.note_create(form)).unwrap();
    assert!(case.write(ANN, |writer| writer.note_delete(form)).unwrap());
    set_retention(&case.world, &case.database, None);
    case.delete();
    assert_eq!(case.restorable(ANN), []);
}

/// Returns `true` if a user can learn by any means that the note existed.
fn is_known_to(case: &Case, who: &str, unid: Unid) -> bool {
    let access = reader(&case.database, who).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let page = reading.changes_page(ChangeCursor::default(), 1_000).expect("sound");
    let is_in_changes = page.entries.iter().any(|entry| entry.note == case.note);
    let by_unid = reading.find(unid).expect("sound").is_some();
    let has_header = reading.header(case.note).expect("sound").is_some();
    assert!(is_in_changes == by_unid && by_unid == has_header, "{who}: {is_in_changes} {by_unid} {has_header}");
    is_in_changes
}

#[test]
fn hidden_document_stays_hidden_after_deletion() {
    for (keeps, way) in [(false, "immediately"), (true, "permanently, later"), (true, "after the retention period")] {
        let case = case(AclLevel::Reader, vec![Item::readers("Readers", vec![ANN.into()])]);
        let unid = reader(&case.database, ANN).expect("a reader").read().expect("a snapshot").header(case.note);
        let unid = unid.expect("sound").expect("hers").unid;
        set_retention(&case.world, &case.database, keeps.then_some(2));
        case.delete();
        match way {
            "permanently, later" => {
                case.write(ANN, |writer| writer.note_delete_permanently(case.note)).expect("hers");
            }
            "after the retention period" => {
                case.world.clock.advance(3 * HOUR);
                assert_eq!(purge_deleted(&case.database).expect("sound"), 1);
                assert_sound(&case.database);
            }
            _ => {}
        }
        assert!(is_known_to(&case, ANN, unid), "{way}: a former reader learns of the deletion");
        assert!(!is_known_to(&case, BOB, unid), "{way}");
        let stub = reader(&case.database, ANN).expect("a reader").read().expect("a snapshot").header(case.note);
        assert!(stub.expect("sound").is_some_and(|header| header.is_stub() && !header.has_contents()), "{way}");
        case.world.clock.advance(91 * 24 * HOUR);
        assert_eq!(notes::purge::purge(&case.database).expect("sound"), 1);
        assert!(!is_known_to(&case, ANN, unid), "{way}");
        assert_sound(&case.database);
    }
}

#[test]
fn retention_period_ends() {
    let case = case(AclLevel::Editor, Vec::new());
    case.delete();
    let modseq = case.database.modseq();
    case.world.clock.advance(HOUR);
    assert_eq!(purge_deleted(&case.database).unwrap(), 0);
    assert_eq!(notes::purge::purge(&case.database).unwrap(), 0);
    case.world.clock.advance(HOUR);
    assert_eq!((purge_deleted(&case.database).unwrap(), purge_deleted(&case.database).unwrap()), (1, 0));
    assert_sound(&case.database);
    assert_eq!(
        (case.restorable(ANN), case.database.modseq()),
        (Vec::new(), modseq),
        "the purge is not reported as a change"
    );
    assert!(case.write(ANN, |writer| writer.note_restore(case.note)).is_err());
    case.world.clock.advance(HOUR * 24 * 91);
    assert!(notes::purge::purge(&case.database).unwrap() > 0);
    let access = reader(&case.database, ANN).unwrap();
    assert_eq!(access.read().unwrap().header(case.note).unwrap(), None);
    assert_sound(&case.database);
}

#[test]
fn restorable_documents_are_not_purged_as_stubs() {
    let case = case(AclLevel::Editor, Vec::new());
    set_retention(&case.world, &case.database, Some(24 * 365));
    case.delete();
    case.world.clock.advance(HOUR * 24 * 200);
    assert_eq!(notes::purge::purge(&case.database).unwrap(), 0);
    assert_eq!(case.restorable(ANN), [case.note]);
    set_retention(&case.world, &case.database, None);
    assert_eq!(purge_deleted(&case.database).unwrap(), 1, "nothing is kept any more");
    assert_eq!(notes::purge::purge(&case.database).unwrap(), 1);
    assert_sound(&case.database);
}

#[test]
fn restoring_over_a_newer_document_is_refused() {
    let case = case(AclLevel::Editor, Vec::new());
    let access = reader(&case.database, ANN).unwrap();
    let unid = access.read().unwrap().header(case.note).unwrap().expect("the document exists").unid;
    case.delete();
    let newer = NewNote { unid: Some(unid), ..NewNote::document(Vec::new()) };
    case.write(ANN, |writer| writer.note_create(newer)).expect("the UNID is free");
    let refused = case.write(ANN, |writer| writer.note_restore(case.note));
    assert!(matches!(refused, Err(notes::Error::Exists { .. })), "{refused:?}");
    assert!(case.write(ANN, |writer| writer.note_delete_permanently(case.note)).unwrap());
}

#[test]
fn repair_rebuilds_the_list_of_restorable_documents() {
    let case = case(AclLevel::Editor, Vec::new());
    case.delete();
    let number = case.database.number();
    let key = |note: NoteId| [&number.to_key()[..], b"s", &note.to_key()].concat();
    let mut batch = store::Batch::new();
    batch.delete(store::Table::Meta, &key(case.note));
    batch.put(store::Table::Meta, &key(NoteId(999)), b"\x01");
    case.world.databases.store().commit(&batch).expect("the store works");
    let found = notes::fixup::check(&case.database).expect("the check runs").findings;
    let expected = [case.note, NoteId(999)].map(|note| notes::fixup::FixupFinding::SoftDeletedList { note });
    assert_eq!(found, expected);
    assert!(notes::fixup::repair(&case.database).expect("the check runs").repaired);
    assert_eq!(case.restorable(ANN), [case.note]);
    case.write(ANN, |writer| writer.note_restore(case.note)).expect("Ann may");
    assert!(case.readable_parts(false)[0]);
    assert!(reader(&case.database, ANN).unwrap().read().unwrap().is_complete_since(Modseq(u64::MAX)));
}
