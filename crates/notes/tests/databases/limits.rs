//! Limits of notes and databases: the maximum is stored and reads back after a restart; one more is refused and changes
//! nothing.

use std::sync::Arc;

use base::limits::{DATABASE_TITLE_BYTES_MAX, ITEM_NAME_BYTES_MAX, ITEMS_PER_NOTE_MAX, SUMMARY_BYTES_MAX};
use base::{NoteId, Unid, ViewId};
use notes::limits::{
    ACCESS_NAMES_PER_NOTE_MAX, BLOBS_PER_NOTE_MAX, BODY_ITEMS_MAX, FOLDERS_PER_NOTE_MAX, KEYWORD_BYTES_MAX,
    KEYWORDS_PER_DATABASE_MAX, KEYWORDS_PER_NOTE_MAX, LIST_VALUES_MAX,
};
use notes::{
    Access, AclLevel, Database, DatabaseOptions, Error, FullTextSchedule, Item, ItemValue, Marks, NewNote, Note,
    Writer, level,
};

use crate::fixture::{TestServer, assert_sound, identity, reader, server};

const ANN: &str = "Ann/Acme";

/// Creates a note and returns it as read after a restart.
fn create_and_reread(world: &TestServer, database: &Arc<Database>, new: NewNote) -> Note {
    let note = world.write(database, ANN, |writer| writer.note_create(new)).expect("it is within the limits");
    assert_sound(database);
    let restarted = world.restarted();
    let again = restarted.databases.database_open("docs.nsf").expect("the database exists");
    let access = reader(&again, ANN).expect("Ann may");
    let reading = access.read().expect("a snapshot");
    reading.note(note).expect("the note is sound").expect("the note exists")
}

/// Asserts that a change fails because of this limit, and that nothing is different afterwards, whatever else the
/// transaction contained.
fn check_limit<T>(
    world: &TestServer,
    database: &Arc<Database>,
    max: usize,
    change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
) {
    let before = database.modseq();
    match world.write(database, ANN, change).map(drop) {
        Err(Error::Limit { max: found, .. }) => assert_eq!(found, max),
        other => panic!("it is beyond the limit {max}: {other:?}"),
    }
    assert_eq!(database.modseq(), before);
    assert_sound(database);
}

fn folders(world: &TestServer, database: &Arc<Database>, count: usize) -> Vec<ViewId> {
    let make = |writer: &mut Writer<'_, '_>| {
        (0..count).map(|number| writer.folder_create(&format!("F{number}"), &[])).collect::<notes::Result<Vec<_>>>()
    };
    world.write(database, ANN, make).expect("Ann may")
}

#[test]
fn folders_per_note_are_limited_and_unique() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let folders = folders(&world, &database, FOLDERS_PER_NOTE_MAX + 1);
    let new = |folders: &[ViewId]| NewNote { folders: folders.to_vec(), ..NewNote::document(Vec::new()) };
    let note = create_and_reread(&world, &database, new(&folders[1..])).header;
    assert_eq!(note.folders.len(), FOLDERS_PER_NOTE_MAX);
    check_limit(&world, &database, FOLDERS_PER_NOTE_MAX, |writer| writer.note_create(new(&folders)));
    check_limit(&world, &database, FOLDERS_PER_NOTE_MAX, |writer| writer.folder_add(note.note, folders[0]));
    let repeated = vec![folders[0]; FOLDERS_PER_NOTE_MAX + 1];
    assert_eq!(create_and_reread(&world, &database, new(&repeated)).header.folders.len(), 1);
}

#[test]
fn keywords_per_note_are_limited_and_unique() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let keywords = |range: std::ops::Range<usize>| range.map(|number| format!("K{number}")).collect::<Vec<_>>();
    let new = |keywords: Vec<String>| NewNote { keywords, ..NewNote::document(Vec::new()) };
    let note = create_and_reread(&world, &database, new(keywords(0..KEYWORDS_PER_NOTE_MAX))).header;
    assert_eq!(note.keywords.len(), KEYWORDS_PER_NOTE_MAX);
    assert!(note.keywords.is_sorted());
    let beyond = keywords(0..KEYWORDS_PER_NOTE_MAX + 1);
    check_limit(&world, &database, KEYWORDS_PER_NOTE_MAX, |writer| writer.note_create(new(beyond.clone())));
    check_limit(&world, &database, KEYWORDS_PER_NOTE_MAX, |writer| writer.marks_set(note.note, Marks::NONE, &beyond));
    let spellings = ["k7", "K7", "k8"].map(str::to_owned).to_vec();
    assert_eq!(create_and_reread(&world, &database, new(spellings)).header.keywords.len(), 2);
}

#[test]
fn keywords_per_database_and_their_length_are_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(Vec::new()))).unwrap();
    let all: Vec<String> = (0..KEYWORDS_PER_DATABASE_MAX).map(|number| format!("K{number}")).collect();
    for some in all.chunks(KEYWORDS_PER_NOTE_MAX) {
        world.write(&database, ANN, |writer| writer.marks_set(note, Marks::NONE, some)).expect("they are few enough");
    }
    let one_more = vec!["K".to_owned()];
    check_limit(&world, &database, KEYWORDS_PER_DATABASE_MAX, |writer| writer.marks_set(note, Marks::NONE, &one_more));
    let set = |name: String| world.write(&database, ANN, |writer| writer.marks_set(note, Marks::NONE, &[name]));
    assert!(set("k0".to_owned()).expect("the name is known"), "known names can still be set");
    let other = TestServer::new();
    let database = other.database(&[]);
    let new = |name: String| NewNote { keywords: vec![name], ..NewNote::document(Vec::new()) };
    let longest = "x".repeat(KEYWORD_BYTES_MAX);
    create_and_reread(&other, &database, new(longest.clone()));
    for name in [format!("{longest}x"), String::new()] {
        let created = other.write(&database, ANN, |writer| writer.note_create(new(name)));
        assert!(matches!(created, Err(Error::Invalid { .. })));
    }
    let restarted = other.restarted().databases.database_open("docs.nsf").expect("the database exists");
    assert_eq!(restarted.keywords().names(), [longest]);
}

#[test]
fn items_per_note_are_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let summary = |count: usize| {
        NewNote::document((0..count).map(|number| Item::summary("N", ItemValue::Number(number as f64))).collect())
    };
    assert_eq!(create_and_reread(&world, &database, summary(ITEMS_PER_NOTE_MAX)).items.len(), ITEMS_PER_NOTE_MAX);
    check_limit(&world, &database, ITEMS_PER_NOTE_MAX, |writer| writer.note_create(summary(ITEMS_PER_NOTE_MAX + 1)));
    let body = |count: usize| NewNote::document(vec![Item::body("B", ItemValue::Number(1.0)); count]);
    let note = create_and_reread(&world, &database, body(BODY_ITEMS_MAX));
    assert_eq!(note.items.len(), BODY_ITEMS_MAX);
    let items = body(BODY_ITEMS_MAX + 1).items;
    let sequence = note.header.sequence;
    check_limit(&world, &database, BODY_ITEMS_MAX, |writer| {
        writer.note_update(note.header.note, sequence, &items, &[])
    });
    let named = |length: usize| NewNote::document(vec![Item::text("x".repeat(length), "")]);
    create_and_reread(&world, &database, named(ITEM_NAME_BYTES_MAX));
    let created = world.write(&database, ANN, |writer| writer.note_create(named(ITEM_NAME_BYTES_MAX + 1)));
    assert!(matches!(created, Err(Error::Invalid { .. })));
}

#[test]
fn names_in_readers_and_authors_items_are_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let new = |readers: usize, authors: usize| {
        let names = |count: usize| {
            let others = (1..count).map(|number| format!("CN=P{number}/O=Acme"));
            others.chain([ANN.to_owned()]).collect::<Vec<_>>()
        };
        NewNote::document(vec![Item::readers("R", names(readers)), Item::authors("A", names(authors))])
    };
    create_and_reread(&world, &database, new(ACCESS_NAMES_PER_NOTE_MAX - 10, 10));
    let max = ACCESS_NAMES_PER_NOTE_MAX;
    check_limit(&world, &database, max, |writer| writer.note_create(new(max - 10, 11)));
}

#[test]
fn summary_size_is_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let new = |length: usize| {
        NewNote::document(vec![
            Item::body("Body", ItemValue::RichText("x".into())),
            Item::text("T", "x".repeat(length)),
        ])
    };
    let stored = create_and_reread(&world, &database, new(1 << 22)).header.size;
    let body = 10;
    // The length takes four bytes at both sizes. The body item counts in addition to the summary.
    let most = (1 << 22) + SUMMARY_BYTES_MAX - (usize::try_from(stored).unwrap() - body);
    assert_eq!(create_and_reread(&world, &database, new(most)).header.size, (SUMMARY_BYTES_MAX + body) as u64);
    check_limit(&world, &database, SUMMARY_BYTES_MAX, |writer| writer.note_create(new(most + 1)));
    let checked = |length| notes::item::check_items(&new(length).items);
    assert!(checked(most).is_ok() && matches!(checked(most + 1), Err(Error::Limit { max: SUMMARY_BYTES_MAX, .. })));
}

#[test]
fn values_per_list_are_limited() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let new = |count: usize| NewNote::document(vec![Item::body("L", ItemValue::NumberList(vec![0.5; count]))]);
    create_and_reread(&world, &database, new(LIST_VALUES_MAX));
    check_limit(&world, &database, LIST_VALUES_MAX, |writer| writer.note_create(new(LIST_VALUES_MAX + 1)));
}

#[test]
fn attachments_per_note_are_limited_and_unique() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let created = world.write(&database, ANN, |writer| {
        let blob = writer.blob_put(&[1; 5_000])?;
        writer.note_create(NewNote { blobs: vec![blob; 3], ..NewNote::document(Vec::new()) })
    });
    let access = reader(&database, ANN).unwrap();
    let note = access.read().unwrap().note(created.unwrap()).unwrap().expect("the note exists");
    assert_eq!(note.blobs.len(), 1);
    let many = vec![note.blobs[0]; BLOBS_PER_NOTE_MAX + 1];
    let new = NewNote { blobs: many, ..NewNote::document(Vec::new()) };
    check_limit(&world, &database, BLOBS_PER_NOTE_MAX, |writer| writer.note_create(new));
}

#[test]
fn titles_and_options_are_validated_on_every_change() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let access: Access<level::Manager> = database.authorize(&identity(ANN)).expect("Ann manages it");
    let set = |title: &str, options| world.databases.database_options_set(&access, title, options);
    let longest = "x".repeat(DATABASE_TITLE_BYTES_MAX);
    set(&longest, DatabaseOptions::default()).expect("it is short enough");
    let too_long = set(&format!("{longest}x"), DatabaseOptions::default());
    assert!(matches!(too_long, Err(Error::Limit { max: DATABASE_TITLE_BYTES_MAX, .. })));
    let daily = |hour| DatabaseOptions { full_text: FullTextSchedule::Daily(hour), ..DatabaseOptions::default() };
    set("Last", daily(23)).expect("there is such an hour");
    assert!(matches!(set("Later", daily(24)), Err(Error::Invalid { .. })));
    let never = DatabaseOptions { keep_deleted_hours: Some(0), ..DatabaseOptions::default() };
    assert!(matches!(set("Later", never), Err(Error::Invalid { .. })), "zero would read back as no retention");
    let record = world.restarted().databases.database_open("docs.nsf").expect("it can be read").record();
    assert_eq!((record.title.as_str(), record.options), ("Last", daily(23)));
}

#[test]
fn duplicate_unid_within_a_transaction_is_refused() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let new = || NewNote { unid: Some(Unid([3; 16])), ..NewNote::document(Vec::new()) };
    let created = world.write(&database, ANN, |writer| Ok((writer.note_create(new())?, writer.note_create(new())?)));
    assert!(matches!(created, Err(Error::Exists { .. })), "{created:?}");
    assert_eq!(create_and_reread(&world, &database, new()).header.unid, Unid([3; 16]));
}

#[test]
fn response_depth_is_limited_within_a_transaction() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let unid = |level: usize| Unid([level as u8 + 1; 16]);
    let chain = |writer: &mut Writer<'_, '_>, levels: usize| {
        (0..levels).try_for_each(|level| {
            let parent = level.checked_sub(1).map(unid);
            let new = NewNote { unid: Some(unid(level)), parent, ..NewNote::document(Vec::new()) };
            writer.note_create(new).map(drop)
        })
    };
    let max = base::limits::RESPONSE_DEPTH_MAX;
    check_limit(&world, &database, max, |writer| chain(writer, max + 1));
    world.write(&database, ANN, |writer| chain(writer, max)).expect("they are few enough");
    assert_sound(&database);
}

#[test]
fn only_the_server_may_close_a_response_cycle() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let one = Unid([1; 16]);
    let other = Unid([2; 16]);
    let answer = |unid, parent| NewNote { unid: Some(unid), parent: Some(parent), ..NewNote::document(Vec::new()) };
    for chain in [vec![(one, one)], vec![(one, other), (other, one)]] {
        let created = world.write(&database, ANN, |writer| {
            chain.iter().try_for_each(|(unid, parent)| writer.note_create(answer(*unid, *parent)).map(drop))
        });
        assert!(
            matches!(&created, Err(Error::Invalid { reason, .. }) if reason.contains("one of its responses")),
            "{created:?}"
        );
    }
    let access: Access<level::Depositor> = database.authorize(&server()).unwrap();
    let accesses = [&access];
    let mut transaction = world.databases.transaction(&accesses).unwrap();
    transaction.writer(0).note_create(answer(one, other)).unwrap();
    transaction.writer(0).note_create(answer(other, one)).expect("the server stores documents of other servers");
    transaction.commit().unwrap();
    // A response to a member of the cycle is an ordinary response.
    let third = world.write(&database, ANN, |writer| writer.note_create(answer(Unid([3; 16]), one)));
    third.expect("members of a cycle are not ancestors");
    assert_sound(&database);
}

/// Checks that a change that fails half-way makes the transaction impossible to commit, so nothing of it is stored.
#[test]
fn failed_change_is_not_stored_partially() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let large = Item::body("Body", ItemValue::MimePart(vec![7; 3 << 20]));
    let too_large = Item::text("Summary", "x".repeat(SUMMARY_BYTES_MAX));
    let items = vec![large, too_large];
    let kept = |reading: &notes::DatabaseSnapshot<'_>, note: NoteId| reading.note(note).expect("it is sound").is_some();
    let contents = vec![Item::body("Body", ItemValue::RichText("x".into()))];
    let first = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(contents))).unwrap();
    let deep = |level: u8| NewNote {
        unid: Some(Unid([level + 1; 16])),
        parent: level.checked_sub(1).map(|above| Unid([above + 1; 16])),
        ..NewNote::document(vec![Item::text("Subject", "x")])
    };
    let outcome = world.write(&database, ANN, |writer| {
        (0..base::limits::RESPONSE_DEPTH_MAX as u8).try_for_each(|level| writer.note_create(deep(level)).map(drop))?;
        let failed = writer.note_create(deep(base::limits::RESPONSE_DEPTH_MAX as u8));
        assert!(matches!(failed, Err(Error::Limit { .. })), "{failed:?}");
        Ok(())
    });
    assert!(outcome.is_err(), "a note without a header would be left");
    // A change that fails before it writes anything leaves the other changes intact.
    let second = world.write(&database, ANN, |writer| {
        for failed in [
            writer.note_create(NewNote::document(items.clone())).map(drop),
            writer.note_update(first, 1, &items, &[]).map(drop),
        ] {
            assert!(matches!(failed, Err(Error::Limit { .. })), "{failed:?}");
        }
        assert!(matches!(writer.note_update(first, 9, &[], &[]), Err(Error::Conflict { .. })));
        assert!(matches!(writer.note_update(NoteId(99), 1, &[], &[]), Err(Error::NotFound { .. })));
        writer.note_create(NewNote::document(Vec::new()))
    });
    let access = reader(&database, ANN).unwrap();
    let reading = access.read().unwrap();
    assert!(kept(&reading, first) && kept(&reading, second.expect("the transaction continues")));
    assert!(reading.note(first).unwrap().unwrap().item("Body").is_some(), "it keeps its contents");
    assert_sound(&database);
}

#[test]
fn depositor_may_not_file_into_folders() {
    let world = TestServer::new();
    let database = world.database(&[("Dora/Acme", AclLevel::Depositor), ("Bob/Acme", AclLevel::Author)]);
    let folder = folders(&world, &database, 1);
    let make = |who: &str, folders: Vec<ViewId>| {
        world.write(&database, who, |writer| writer.note_create(NewNote { folders, ..NewNote::document(Vec::new()) }))
    };
    make("Bob/Acme", folder.clone()).expect("an author may file");
    make("Dora/Acme", Vec::new()).expect("a depositor may create");
    assert!(matches!(make("Dora/Acme", folder), Err(Error::AccessDenied { .. })));
    assert_sound(&database);
}
