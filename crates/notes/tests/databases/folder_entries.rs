//! Tests of folders without columns, which are found and read like views.

use std::sync::Arc;

use base::{NoteId, ViewId};
use notes::view::entries::{EntrySource, ViewOrFolder};
use notes::view::navigate::Navigator;
use notes::view::note::{ViewKind, ViewNote};
use notes::view::read_entries::{EntriesRequest, EntryContents, EntryPage, ReadMask, StartPosition};
use notes::view::reader::Tumbler;
use notes::view::view_format::ViewDesign;
use notes::{AclLevel, Database, Error, FolderDesign, Item, NewNote};

use crate::fixture::{TestServer, column, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

/// Creates a database with the folder `Mine`, which contains five notes with the UIDs 1 to 5.
fn world() -> (TestServer, Arc<Database>, Vec<NoteId>) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let created = world.write(&database, ANN, |writer| {
        let folder = writer.folder_create("Mine", &[])?;
        let mut notes = Vec::new();
        for number in 0..5 {
            let note = writer.note_create(NewNote::document(vec![Item::text("Subject", format!("{number}"))]))?;
            writer.folder_add(note, folder)?;
            notes.push(note);
        }
        Ok(notes)
    });
    (world, database, created.expect("created"))
}

/// Calls `check` with the entries of `Mine` as Bob sees them.
fn with_entries<T>(database: &Arc<Database>, check: impl FnOnce(&EntrySource<'_>) -> T) -> T {
    let access = reader(database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let opened = reading.view_or_folder_find("mine").expect("a folder").open(&reading).expect("it opens");
    check(&opened.source(&reading, 0).expect("entries"))
}

fn request(start: StartPosition, skip: (Navigator, u64), navigator: Navigator, limit: usize) -> EntriesRequest {
    EntriesRequest { start, skip, navigator, limit, expansion: Arc::default(), mask: ReadMask::default() }
}

/// Returns the UIDs of the entries, the number of skipped steps and the UID at which to continue.
fn outcome(entries: &EntryPage) -> (Vec<u32>, u64, Option<u8>) {
    let uid = |content: &EntryContents| match content {
        EntryContents::FolderEntry(entry) => entry.uid.0,
        EntryContents::Row(row) => panic!("{row:?} is a row of a view"),
    };
    let next = entries.continue_at.as_ref().map(|key| *key.last().expect("four bytes"));
    (entries.rows.iter().map(|row| uid(&row.content)).collect(), entries.skipped, next)
}

#[test]
fn entries_are_read_by_start_skip_and_navigator() {
    use Navigator::{Current, Next, NextExpanded, Previous};
    let (_world, database, _) = world();
    let check = |start: StartPosition, skip, navigator, limit, expected: (&[u32], u64, Option<u8>)| {
        let request = request(start, skip, navigator, limit);
        let entries = with_entries(&database, |entries| entries.read(&request)).expect("entries");
        assert_eq!(outcome(&entries), (expected.0.to_vec(), expected.1, expected.2), "{request:?}");
    };
    let none = (Current, 0);
    check(StartPosition::Beginning, none, Next, 9, (&[1, 2, 3, 4, 5], 0, None));
    check(StartPosition::Beginning, none, NextExpanded, 2, (&[1, 2], 0, Some(3)));
    check(StartPosition::Key(vec![0, 0, 0, 3]), none, Next, 2, (&[3, 4], 0, Some(5)));
    check(StartPosition::Key(vec![0, 0, 0, 9]), none, Next, 2, (&[], 0, None));
    check(StartPosition::End, none, Previous, 3, (&[5, 4, 3], 0, Some(2)));
    check(StartPosition::Position(1), none, Current, 9, (&[2], 0, None));
    check(StartPosition::Position(5), none, Next, 9, (&[], 0, None));
    check(StartPosition::Tumbler(Tumbler(vec![4])), none, Next, 9, (&[4, 5], 0, None));
    check(StartPosition::Tumbler(Tumbler(vec![4, 1])), none, Next, 9, (&[], 0, None));
    check(StartPosition::Beginning, (Next, 2), Next, 1, (&[2], 2, Some(3)));
    check(StartPosition::Position(1), (Next, 2), Next, 9, (&[4, 5], 2, None));
    check(StartPosition::Position(1), (Next, 9), Next, 9, (&[], 3, None));
    check(StartPosition::Position(3), (Previous, 2), Previous, 9, (&[2, 1], 2, None));
    check(StartPosition::Position(3), (Previous, 4), Previous, 9, (&[], 3, None));
    check(StartPosition::End, (Previous, 1), Previous, 1, (&[5], 1, Some(4)));
}

#[test]
fn requested_details_are_returned() {
    let (world, database, notes) = world();
    world.write(&database, BOB, |writer| writer.mark_read(&notes[1..2])).expect("Bob may");
    let mask = ReadMask { tumbler: true, position: true, counts: true, unread: true };
    let request =
        EntriesRequest { mask, ..request(StartPosition::Position(1), (Navigator::Current, 0), Navigator::Next, 2) };
    with_entries(&database, |source| {
        let entries = source.read(&request).expect("entries");
        let row = &entries.rows[0];
        assert_eq!((row.tumbler.clone(), row.position, row.depth), (Some(Tumbler(vec![2])), Some(1), 0));
        assert_eq!(row.counts.map(|counts| (counts.siblings, counts.children, counts.descendants)), Some((5, 0, 0)));
        assert_eq!(entries.rows.iter().map(|row| row.unread).collect::<Vec<_>>(), [Some(false), Some(true)]);
        assert_eq!((source.count().expect("sound"), source.document_count().expect("sound")), (5, 5));
        assert_eq!(source.key_at(&Tumbler(vec![3])).expect("sound"), Some(vec![0, 0, 0, 3]));
        assert_eq!(source.key_at(&Tumbler(vec![0])).expect("sound"), None);
    });
}

#[test]
fn requests_that_need_a_view_are_refused() {
    let (_world, database, _) = world();
    with_entries(&database, |source| {
        let refused = |request: EntriesRequest| source.read(&request).expect_err("refused").to_string();
        let none = (Navigator::Current, 0);
        assert!(refused(request(StartPosition::Beginning, none, Navigator::Child, 1)).contains("navigator"));
        assert!(
            refused(request(StartPosition::Beginning, (Navigator::Parent, 2), Navigator::Next, 1))
                .contains("navigator")
        );
        assert!(refused(request(StartPosition::Key(vec![1]), none, Navigator::Next, 1)).contains("4 bytes"));
        assert!(refused(request(StartPosition::Beginning, none, Navigator::Next, usize::MAX)).contains("limit"));
        assert!(source.sorted_rows().is_err());
    });
    let access = reader(&database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let opened = reading.view_or_folder_find("Mine").expect("a folder").open(&reading).expect("it opens");
    assert!(matches!(opened.source(&reading, 1), Err(Error::NotFound { .. })));
    let missing = |found: notes::Result<ViewOrFolder>| found.expect_err("there is none").to_string();
    assert_eq!(missing(reading.view_or_folder_find("Zork")), "the view or folder \"Zork\" does not exist");
    assert!(missing(reading.view_or_folder(ViewId(999))).contains("does not exist"));
}

#[test]
fn views_and_folders_are_listed_together() {
    let (world, database, _) = world();
    let kind = ViewKind { folder: true, ..ViewKind::default() };
    let design = ViewDesign { columns: vec![column("Subject")], ..ViewDesign::default() };
    let with_columns = ViewNote { title: "Shown".into(), kind, design: design.clone(), ..ViewNote::default() };
    let view = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let folder = world.write(&database, ANN, |writer| writer.folder_create("Shown", &[])).expect("created");
    let created = world.write(&database, ANN, |writer| {
        writer.view_update(NoteId(folder.0), 1, &with_columns)?;
        writer.view_create(&view)
    });
    let view = created.expect("created");
    let access = reader(&database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let list = reading.views_and_folders().expect("sound");
    let columns: Vec<usize> = list.iter().map(ViewOrFolder::column_count).collect();
    assert_eq!(columns, [1, 1, 0], "each is listed once");
    assert_eq!([list[0].id().0, list[1].id().0], [folder.0, view.0]);
    for found in &list {
        let again = reading.view_or_folder(found.id()).expect("it is listed");
        assert_eq!((again.id(), again.column_count()), (found.id(), found.column_count()));
    }
}

#[test]
fn folder_is_found_although_a_view_has_its_name() {
    let (world, database, _) = world();
    let design = ViewDesign { columns: vec![column("Subject")], ..ViewDesign::default() };
    let view = ViewNote { title: "Mine".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let view = ViewId(world.write(&database, ANN, |writer| writer.view_create(&view)).expect("created").0);
    let access = reader(&database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let found = reading.view_or_folder_find("mine").expect("a view");
    assert_eq!((found.id(), found.title(), found.is_folder()), (view, "Mine", false));
    let folder = reading.folder_find("mine").expect("a folder");
    assert_eq!((folder.title.as_str(), folder.flags.as_str()), ("Mine", "F"));
    let found = reading.view_or_folder(folder.view).expect("a folder");
    assert_eq!((found.title(), found.flags().as_str(), found.is_folder()), ("Mine", "F", true));
    assert!(found.info().is_none());
    assert_eq!(reading.folder_info(folder.view).expect("a folder"), folder);
    let missing = |found: notes::Result<FolderDesign>| found.expect_err("there is none").to_string();
    assert_eq!(missing(reading.folder_find("Zork")), "the folder \"Zork\" does not exist");
    assert_eq!(missing(reading.folder_info(view)), format!("the folder {view} does not exist"));
}
