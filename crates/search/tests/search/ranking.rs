//! Tests of the order of hits: relevance, dates and ties, pages of it, and what it must not depend on.

use std::sync::Arc;

use base::NoteId;
use notes::{Access, AclLevel, Database, Item, level};
use search::{Hit, HitOrder, PageRequest, Query};

use crate::fixture::{Fixture, server};

fn hits(world: &Fixture, database: &Arc<Database>, who: &str, query: &str, sort: HitOrder) -> Vec<Hit> {
    world.find_page(database, who, query, PageRequest { sort, offset: 0, limit: 1_000 }).hits
}

fn best(world: &Fixture, database: &Arc<Database>, query: &str) -> Vec<NoteId> {
    hits(world, database, "Ann/Acme", query, HitOrder::Relevance).into_iter().map(|hit| hit.note).collect()
}

/// Creates a database in which documents contain the word `common` and some others.
fn library(world: &Fixture, path: &str) -> (Arc<Database>, Vec<NoteId>) {
    let database = world.database(path, &[("Bob/Acme", AclLevel::Reader)]);
    let mut notes: Vec<NoteId> = (0..20).map(|_| world.document(&database, "common", "filler filler")).collect();
    notes.push(world.document(&database, "common rare", "filler filler"));
    notes.push(world.document(&database, "rare", "filler filler"));
    world.index(&database);
    (database, notes)
}

#[test]
fn a_rare_word_weighs_more_than_a_common_one() {
    let world = Fixture::new();
    let (database, notes) = library(&world, "docs.nsf");
    let [.., both, rare] = notes[..] else { panic!("there are two") };
    let found = best(&world, &database, "common OR rare");
    assert_eq!((found.len(), &found[..2]), (22, &[both, rare][..]));
    assert_eq!(best(&world, &database, "common AND rare"), [both]);
}

#[test]
fn repeated_words_and_short_documents_weigh_more() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let filler = "filler ".repeat(60);
    let once_long = world.document(&database, "word", &filler);
    let once_short = world.document(&database, "word", "filler");
    let twice_long = world.document(&database, "word", &format!("word {filler}"));
    let often_long = world.document(&database, "word", &format!("word word word word {filler}"));
    world.index(&database);
    let found = hits(&world, &database, "Ann/Acme", "word", HitOrder::Relevance);
    let rank = |note: NoteId| found.iter().position(|hit| hit.note == note).expect("it is found");
    assert!(rank(often_long) < rank(twice_long) && rank(twice_long) < rank(once_long));
    assert!(rank(once_short) < rank(once_long));
    assert_eq!(found[0].relevance, 100);
    assert!(found.is_sorted_by(|one, other| one.relevance >= other.relevance), "{found:?}");
}

#[test]
fn equal_hits_are_ordered_by_note() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    let mut notes: Vec<NoteId> = (0..8).map(|_| world.document(&database, "same words", "same body")).collect();
    world.index(&database);
    let found = |sort| hits(&world, &database, "Ann/Acme", "same", sort).into_iter().map(|hit| hit.note);
    assert!(found(HitOrder::Oldest).eq(notes.iter().copied()));
    notes.reverse();
    assert!(found(HitOrder::Newest).eq(notes.iter().copied()));
    assert!(found(HitOrder::Relevance).eq(notes.iter().copied()), "the latest of equal hits comes first");
    let all = hits(&world, &database, "Ann/Acme", "same", HitOrder::Relevance);
    assert!(all.iter().all(|hit| hit.relevance == 100));
    assert!(hits(&world, &database, "Ann/Acme", "same", HitOrder::Newest).iter().all(|hit| hit.relevance == 0));
}

#[test]
fn pages_of_every_size_add_up_to_the_whole() {
    let world = Fixture::new();
    let database = world.database("docs.nsf", &[]);
    for number in 0..30 {
        world.document(&database, &"word ".repeat(1 + number % 7), &"more ".repeat(number % 4));
    }
    world.index(&database);
    for sort in [HitOrder::Relevance, HitOrder::Newest, HitOrder::Oldest] {
        let whole = hits(&world, &database, "Ann/Acme", "word", sort);
        for limit in [1, 3, 7, 30, 50] {
            let mut pages = Vec::new();
            while pages.len() < 30 {
                let page = PageRequest { sort, offset: pages.len(), limit };
                let found = world.find_page(&database, "Ann/Acme", "word", page);
                assert_eq!((found.total, found.hits.len()), (30, limit.min(30 - pages.len())));
                pages.extend(found.hits);
            }
            assert_eq!(pages, whole, "{sort:?} by {limit}");
        }
    }
}

#[test]
fn empty_page_has_the_total() {
    let world = Fixture::new();
    let (database, _) = library(&world, "docs.nsf");
    for page in [
        PageRequest { offset: 0, limit: 0, ..PageRequest::default() },
        PageRequest { offset: 1_000, ..PageRequest::default() },
    ] {
        let found = world.find_page(&database, "Ann/Acme", "common", page);
        assert_eq!((found.total, found.hits), (21, Vec::new()));
    }
}

#[test]
fn relevance_does_not_reveal_hidden_documents() {
    let world = Fixture::new();
    let (database, notes) = library(&world, "docs.nsf");
    let secret =
        vec![Item::text("Subject", "rare rare rare rare"), Item::readers("Readers", vec!["Ann/Acme".to_owned()])];
    let secret = world.create(&database, secret);
    world.index(&database);
    let of_ann = hits(&world, &database, "Ann/Acme", "rare", HitOrder::Relevance);
    let of_bob = hits(&world, &database, "Bob/Acme", "rare", HitOrder::Relevance);
    assert_eq!((of_ann[0].note, of_ann[0].relevance, of_ann.len()), (secret, 100, 3));
    assert_eq!((of_bob[0].relevance, of_bob.len()), (100, 2), "the best hit that Bob sees");
    assert!(of_bob.iter().all(|hit| notes.contains(&hit.note)));
}

#[test]
fn words_of_hidden_documents_do_not_change_the_result() {
    // Returns the hits of Bob while documents that he may not read are in the index, and after their deletion.
    let results = |hidden: &str| -> [Vec<(NoteId, u8)>; 2] {
        let world = Fixture::new();
        let (database, _) = library(&world, "docs.nsf");
        let restrict = || Item::readers("Readers", vec!["Ann/Acme".to_owned()]);
        let create = || world.create(&database, vec![Item::text("Subject", hidden), restrict()]);
        let secrets: Vec<NoteId> = (0..10).map(|_| create()).collect();
        let found = || -> Vec<(NoteId, u8)> {
            world.index(&database);
            let found = hits(&world, &database, "Bob/Acme", "common OR rare", HitOrder::Relevance);
            found.into_iter().map(|hit| (hit.note, hit.relevance)).collect()
        };
        let with_secrets = found();
        secrets.iter().for_each(|note| world.delete(&database, *note));
        [with_secrets, found()]
    };
    let expected = results("other");
    assert_eq!(expected.each_ref().map(Vec::len), [22, 22]);
    for hidden in ["common", "rare", "rare rare common filler"] {
        assert_eq!(results(hidden), expected, "{hidden}");
    }
}

#[test]
fn the_server_has_counted_statistics_of_restricted_documents() {
    let world = Fixture::new();
    let (database, notes) = library(&world, "docs.nsf");
    let [.., both, rare] = notes[..] else { panic!("there are two") };
    let restrict = Item::readers("Readers", vec!["Ann/Acme".to_owned()]);
    world.create(&database, vec![Item::text("Subject", "filler"), restrict]);
    // Of documents with the same score, the latest one comes first.
    let latest = world.document(&database, "common", "filler filler");
    world.index(&database);
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let query = Query::parse("common OR rare").expect("a query");
    let found = world.search.query(&access, &query, PageRequest::default(), &|| false).expect("an answer");
    assert_eq!([found.hits[0].note, found.hits[1].note], [both, rare], "a rare word weighs more");
    let found = hits(&world, &database, "Bob/Acme", "common OR rare", HitOrder::Relevance);
    assert_eq!([found[0].note, found[1].note], [both, latest], "all words weigh the same");
}

#[test]
fn documents_of_other_databases_do_not_change_the_order() {
    let alone = Fixture::new();
    let (database, _) = library(&alone, "docs.nsf");
    let expected = best(&alone, &database, "common OR rare OR filler");
    let beside = Fixture::new();
    let (database, _) = library(&beside, "docs.nsf");
    let other = beside.database("other.nsf", &[]);
    for _ in 0..10 {
        beside.document(&other, "common", "filler");
    }
    beside.index(&other);
    assert_eq!(best(&beside, &database, "common OR rare OR filler"), expected);
}
