//! Tests of substring search: the notes that cannot contain a text.

use std::sync::Arc;

use base::NoteId;
use notes::{Access, Database, Item, level};
use search::limits::{SUBSTRING_TEXT_BYTES_MAX, SUBSTRING_WORD_BYTES_MAX};
use search::{ContentReader, FullTextIndex, NotePart, NoteText, OpenNote, SubstringKey};

use crate::fixture::{Fixture, header, server};

/// Reads the items `Head` and `Text` as the texts for substring search. They are complete if there is no item `Doubt`.
struct SubstringReader;

impl ContentReader for SubstringReader {
    fn read(&self, note: &OpenNote<'_>, text: &mut NoteText) -> search::Result<bool> {
        let item = |name| notes::item::find_item(&note.summary.items, name).and_then(|item| item.value.text());
        if let Some(body) = item("Subject") {
            text.add_body(body);
        }
        let long = "Z".repeat(item("Long").map_or(0, |bytes| bytes.parse().expect("a number")));
        let much = "Z ".repeat(item("Much").map_or(0, |bytes| bytes.parse::<usize>().expect("a number") / 2));
        for (part, found) in [
            (NotePart::Header, item("Head").unwrap_or_default()),
            (NotePart::Body, item("Text").unwrap_or_default()),
            (NotePart::Body, &long),
            (NotePart::Body, &much),
        ] {
            text.add_substring_text(part, found);
        }
        if item("Doubt").is_none() {
            text.mark_complete();
        }
        Ok(true)
    }
}

/// Creates a fixture whose index uses [`SubstringReader`].
fn world() -> Fixture {
    let mut world = Fixture::new();
    let options = search::FullTextOptions {
        contents: vec![Box::new(SubstringReader)],
        thread_bytes: 16 << 20,
        ..search::FullTextOptions::default()
    };
    let folder = world.folder.path().join("texts");
    world.search = FullTextIndex::open(Arc::clone(&world.databases), &folder, options).expect("the index opens");
    world
}

/// Returns the notes that may contain a text.
fn candidates(world: &Fixture, database: &Arc<Database>, part: NotePart, text: &str) -> Vec<u32> {
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let reading = access.read().expect("a snapshot");
    let sought = vec![SubstringKey { part, folded: text.to_owned() }];
    let excluded = world.search.excluded_notes(&reading, &[sought]).expect("the index is sound");
    let mut found = Vec::new();
    reading
        .for_each_note(NoteId(1), &mut |header| {
            let is_ruled_out = excluded
                .first()
                .is_some_and(|excluded| excluded.excludes(header.note, header.modseq, reading.modseq()));
            if !is_ruled_out && !header.is_stub() {
                found.push(header.note.0);
            }
            Ok(true)
        })
        .expect("a sound database");
    found
}

fn note(world: &Fixture, database: &Arc<Database>, items: &[(&str, &str)]) -> u32 {
    world.create(database, items.iter().map(|(name, text)| Item::text(*name, *text)).collect()).0
}

#[test]
fn substring_matches_inner_words_whole_and_outer_words_partially() {
    let world = world();
    let database = world.database("docs.nsf", &[]);
    let other = world.database("other.nsf", &[]);
    let a = note(&world, &database, &[("Text", "THE AIRPORT-BUS, GATE 42"), ("Head", "TO: JOE")]);
    // Words that queries find are not stored twice, which must not affect the result.
    let b = note(&world, &database, &[("Text", "A PORTRAIT OF GATE"), ("Subject", "a portrait of, ")]);
    let c = note(&world, &database, &[("Text", "MU\u{308}LLER 東京 É STRASSE"), ("Subject", "muller strasse")]);
    note(&world, &other, &[("Text", "QQQ")]);
    let all = [a, b, c];
    let check = |text: &str, expected: &[u32]| {
        assert_eq!(candidates(&world, &database, NotePart::Body, text), expected, "{text}");
    };
    check("PORT", &all);
    world.index(&database);
    world.index(&other);
    check("PORT", &[a, b]);
    check("PORT-", &[a]);
    check("T-B", &[a]);
    check(" PORT", &[b]);
    // Few notes contain the second word, so the index is not scanned for words that end with the first one.
    check("PORT GATE", &[a, b]);
    check("GATE 4", &[a]);
    check("GATE 4 ", &[]);
    check("AIRPORT BUS", &[a]);
    check(" OF ", &[b]);
    check(" O ", &[]);
    check("MU\u{308}", &[c]);
    // Queries treat it as the same word.
    check("MULLER", &[c]);
    check("ULLE", &[c]);
    check("U\u{308}LL", &[c]);
    check("京", &[c]);
    check("東京É", &[c]);
    check("京東 STR", &[c]);
    check("RASS", &[c]);
    check("QQQ", &[]);
    check(" - ", &all);
    check("", &all);
    assert_eq!(candidates(&world, &database, NotePart::Header, "JO"), [a]);
    assert_eq!(candidates(&world, &database, NotePart::Header, "NOWHERE"), [0_u32; 0]);
}

#[test]
fn incompletely_indexed_notes_remain_candidates() {
    let world = world();
    let database = world.database("docs.nsf", &[]);
    let doubtful = note(&world, &database, &[("Doubt", "yes")]);
    let most = SUBSTRING_WORD_BYTES_MAX.to_string();
    let much = SUBSTRING_TEXT_BYTES_MAX.to_string();
    let longest = note(&world, &database, &[("Long", &most)]);
    let too_long = note(&world, &database, &[("Long", &(SUBSTRING_WORD_BYTES_MAX + 1).to_string())]);
    let too_much = note(&world, &database, &[("Much", &much), ("Text", "X")]);
    let plain = note(&world, &database, &[("Text", "WORD")]);
    world.index(&database);
    let check = |text: &str, expected: &[u32]| {
        assert_eq!(candidates(&world, &database, NotePart::Body, text), expected, "{} bytes", text.len());
    };
    check("NOWHERE", &[doubtful, too_long, too_much]);
    check("WORD", &[doubtful, too_long, too_much, plain]);
    check(&"Z".repeat(SUBSTRING_WORD_BYTES_MAX), &[doubtful, longest, too_long, too_much]);
    check(&"Z".repeat(SUBSTRING_WORD_BYTES_MAX + 1), &[doubtful, too_long, too_much]);
}

#[test]
fn changed_notes_remain_candidates() {
    let world = world();
    let database = world.database("docs.nsf", &[]);
    let notes: Vec<u32> = (0..3).map(|_| note(&world, &database, &[("Text", "WORD")])).collect();
    world.index(&database);
    let check = |expected: &[u32]| assert_eq!(candidates(&world, &database, NotePart::Body, "OTHER"), expected);
    check(&[]);
    world.update_items(&database, NoteId(notes[1]), &[Item::text("Text", "OTHER")]);
    let new = note(&world, &database, &[("Text", "NEW")]);
    check(&[notes[1], new]);
    world.delete(&database, NoteId(notes[0]));
    world.index(&database);
    check(&[notes[1]]);
    // The index makes no statement about a snapshot that is older than itself.
    let access: Access<level::Reader> = database.authorize(&server()).expect("the server has access");
    let old = access.read().expect("a snapshot");
    world.update_items(&database, NoteId(notes[1]), &[Item::text("Text", "WORD")]);
    world.index(&database);
    check(&[]);
    let sought = vec![SubstringKey { part: NotePart::Body, folded: "OTHER".to_owned() }];
    let excluded = world.search.excluded_notes(&old, &[sought]).expect("the index is sound");
    let before = header(&database, NoteId(notes[2])).modseq;
    assert!(!excluded[0].excludes(NoteId(notes[2]), before, old.modseq()));
    assert!(excluded[0].excludes(NoteId(notes[2]), before, database.modseq()));
}

#[test]
fn substrings_of_too_many_words_exclude_nothing() {
    let world = world();
    let database = world.database("docs.nsf", &[]);
    let words: String = (0..5_000).map(|number| format!("W{number} ")).collect();
    let many = note(&world, &database, &[("Text", &words)]);
    let one = note(&world, &database, &[("Text", "ONE")]);
    world.index(&database);
    assert_eq!(candidates(&world, &database, NotePart::Body, "W"), [many, one]);
    assert_eq!(candidates(&world, &database, NotePart::Body, "W12"), [many]);
    assert_eq!(candidates(&world, &database, NotePart::Body, "W12 W13 ONE"), [0_u32; 0]);
}
