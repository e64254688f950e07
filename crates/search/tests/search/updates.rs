//! Tests of index updates through restarts, crashes, purges and deletions.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notes::{Databases, Item, Marks};
use search::FullTextIndex;

use crate::fixture::{Fixture, open, server};

#[test]
fn update_indexes_changed_documents() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let a = world.document(&database, "one", "first");
    let b = world.document(&database, "two", "second");
    assert_eq!(world.index(&database), 2);
    assert_eq!(world.index(&database), 0, "nothing has changed");
    world.update_items(&database, a, &[Item::text("Subject", "three")]);
    world.delete(&database, b);
    let c = world.document(&database, "four", "");
    assert_eq!(world.index(&database), 2);
    assert_eq!(world.hits(&database, "one"), [0_u32; 0]);
    assert_eq!(world.hits(&database, "three"), [a.0]);
    assert_eq!(world.hits(&database, "*"), [a.0, c.0]);
    assert_eq!(world.search.documents(database.number()).expect("counted"), 2);
}

#[test]
fn changed_marks_do_not_cause_indexing() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let a = world.document(&database, "one", "");
    world.index(&database);
    world.write(&database, |writer| writer.marks_set(a, Marks::SEEN, &[]));
    assert_eq!(world.index(&database), 0);
    assert_eq!(world.search.applied(database.number()), Some(database.modseq()));
    assert_eq!(world.hits(&database, "one"), [a.0]);
}

#[test]
fn uncommitted_changes_are_applied_again() {
    let mut world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let notes: Vec<u32> = (0..20).map(|number| world.document(&database, "word", &format!("n{number}")).0).collect();
    for limit in [1, 3, 7] {
        world.update_by(&database, limit);
        world.reopen();
        assert_eq!(world.search.applied(database.number()), None, "nothing was committed");
    }
    let access = database.authorize(&server()).expect("the server has access");
    world.search.update(&access, 5, &|| false).expect("an update");
    world.search.commit().expect("a commit");
    world.search.update(&access, 5, &|| false).expect("an update");
    world.reopen();
    assert_eq!(world.search.documents(database.number()).expect("counted"), 5 - 1, "the first note is the access list");
    world.index(&database);
    assert_eq!(world.hits(&database, "word"), notes);
    world.reopen();
    assert_eq!(world.hits(&database, "word"), notes);
    assert_eq!(world.index(&database), 0);
}

fn open_with(databases: &Arc<Databases>, folder: &Path, waiting_bytes: usize) -> FullTextIndex {
    let options =
        search::FullTextOptions { thread_bytes: 16 << 20, waiting_bytes, ..search::FullTextOptions::default() };
    FullTextIndex::open(Arc::clone(databases), folder, options).expect("the index opens")
}

#[test]
fn waiting_text_beyond_the_limit_is_committed() {
    for waiting_bytes in [1, 10_000, usize::MAX] {
        let world = Fixture::new();
        let database = world.database("docs.nsf", &[]);
        for _ in 0..20 {
            world.document(&database, "word", &"more ".repeat(200));
        }
        let elsewhere = tempfile::tempdir().expect("a folder");
        let search = open_with(&world.databases, elsewhere.path(), waiting_bytes);
        let access = database.authorize(&server()).expect("the server has access");
        let update = || search.update(&access, 1_000, &|| false).expect("an update");
        let mut steps = vec![update().indexed];
        while steps.iter().sum::<usize>() < 20 {
            let visible = search.documents(database.number()).expect("counted");
            assert_eq!(visible, steps.iter().sum::<usize>() as u64, "the applied changes are committed");
            steps.push(update().indexed);
        }
        let count = steps.len();
        let most = *steps.iter().max().expect("steps");
        assert!(
            match waiting_bytes {
                1 => (count, most) == (20, 1),
                10_000 => count == 2 && most < 20,
                _ => (count, most) == (1, 20),
            },
            "{waiting_bytes}: {steps:?}"
        );
    }
}

#[test]
fn missed_purge_is_recovered_by_the_next_update() {
    for (limit, waiting_bytes) in [(1, usize::MAX), (2, usize::MAX), (1_000, usize::MAX), (1_000, 1)] {
        let mut world = Fixture::new();
        let elsewhere = tempfile::tempdir().expect("a folder");
        world.search = open_with(&world.databases, elsewhere.path(), waiting_bytes);
        let database = world.database("docs.nsf", &[]);
        let notes: Vec<_> = (0..6).map(|number| world.document(&database, "word", &format!("n{number}"))).collect();
        world.index(&database);
        world.delete(&database, notes[1]);
        world.delete(&database, notes[5]);
        world.update_items(&database, notes[2], &[Item::text("Subject", "other")]);
        world.clock.advance(Duration::from_secs(200 * 86_400));
        notes::purge::purge(&database).expect("a purge");
        let added = world.document(&database, "word", "added");
        world.update_by(&database, limit);
        world.search.commit().expect("a commit");
        assert_eq!(world.hits(&database, "word"), [notes[0].0, notes[3].0, notes[4].0, added.0]);
        assert_eq!(world.search.documents(database.number()).expect("counted"), 5);
        assert_eq!(world.search.applied(database.number()), Some(database.modseq()));
    }
}

#[test]
fn removed_database_is_dropped_from_the_index() {
    let mut world = Fixture::new();
    let one = world.database("one.nsf", &[]);
    let two = world.database("two.nsf", &[]);
    world.document(&one, "word", "");
    let kept = world.document(&two, "word", "");
    world.index(&one);
    world.index(&two);
    assert_eq!(world.search.databases(), [one.number(), two.number()]);
    world.search.remove_database(one.number()).expect("it is removed");
    assert_eq!(world.search.databases(), [two.number()]);
    assert_eq!(world.search.documents(one.number()).expect("counted"), 0);
    world.reopen();
    assert_eq!(world.search.databases(), [two.number()]);
    assert_eq!(world.hits(&two, "word"), [kept.0]);
    world.index(&one);
    assert_eq!(world.hits(&one, "word").len(), 1);
}

#[test]
fn unreadable_index_is_recreated() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let note = world.document(&database, "word", "");
    world.index(&database);
    let Fixture { databases, search, folder, clock } = world;
    drop(search);
    for damage in ["meta.json", "a segment", "another format"] {
        let own = folder.path().join("index-5");
        match damage {
            "meta.json" => std::fs::write(own.join("meta.json"), b"{").expect("written"),
            "another format" => std::fs::create_dir(folder.path().join("index-0")).expect("made"),
            _ => {
                for entry in std::fs::read_dir(&own).expect("a folder") {
                    let path = entry.expect("an entry").path();
                    if path.extension().is_some_and(|ending| ending == "idx" || ending == "fast") {
                        std::fs::remove_file(path).expect("removed");
                    }
                }
            }
        }
        let search = open(&databases, folder.path());
        assert!(search.was_recreated(), "{damage}");
        let anew = Fixture {
            databases: databases.clone(),
            search,
            folder: tempfile::tempdir().expect("a folder"),
            clock: clock.clone(),
        };
        anew.index(&database);
        assert_eq!(anew.hits(&database, "word"), [note.0], "{damage}");
    }
}
