//! Formulas over stored notes: the items that they see, and searches by formula.

use base::sim::SeededRandom;
use base::{Modseq, NoteId, Random};
use formula::{Formula, FormulaOptions};
use notes::change_log::ChangeCursor;
use notes::view::cell::Cell;
use notes::view::selection::CompiledView;
use notes::view::view_format::{Column, ViewDesign};
use notes::{AclLevel, Item, ItemValue, NewNote, NoteClass};

use crate::fixture::{TestServer, reader};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

/// Returns the subjects of the documents that a formula selects for a user, and the modseq that the search reached.
fn search(world: &TestServer, who: &str, formula: &str, since: Modseq) -> (Vec<String>, Modseq) {
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let access = reader(&database, who).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let selection = Formula::compile(formula, &FormulaOptions::default()).expect("a formula");
    let mut found = Vec::new();
    let mut take = |document: &notes::formula_document::FormulaDocument<'_>| {
        let subject = document.value("Subject").cloned().expect("each has one").into_owned();
        found.push(subject.text().expect("a text").to_owned());
        Ok(true)
    };
    let searched = reading.search(&selection, since, &mut take).expect("a sound database");
    (found, searched.up_to)
}

fn world() -> TestServer {
    let world = TestServer::new();
    let database = world.database(&[("Bob/Acme", AclLevel::Reader)]);
    let memo = |subject: &str, more: Vec<Item>| {
        NewNote::document([vec![Item::text("Form", "Memo"), Item::text("Subject", subject)], more].concat())
    };
    let first = world.write(&database, ANN, |writer| writer.note_create(memo("one", vec![]))).expect("created");
    let parent = reader(&database, ANN).and_then(|access| access.read()?.header(first)).expect("sound").expect("there");
    let answer = NewNote { parent: Some(parent.unid), ..memo("two", vec![]) };
    world.write(&database, ANN, |writer| writer.note_create(answer)).expect("created");
    let secret = memo("three", vec![Item::readers("Readers", vec![ANN.into()])]);
    world.write(&database, ANN, |writer| writer.note_create(secret)).expect("created");
    let sized = memo("four", vec![Item::summary("Size", ItemValue::NumberList(vec![1.0, 2.0]))]);
    world.write(&database, ANN, |writer| writer.note_create(sized)).expect("created");
    world
}

#[test]
fn search_returns_selected_documents_the_reader_may_see() {
    let world = world();
    let check = |who: &str, formula: &str, expected: &[&str]| {
        assert_eq!(search(&world, who, formula, Modseq(0)).0, expected, "{formula}");
    };
    check(ANN, "SELECT @All", &["one", "two", "three", "four"]);
    check("Bob/Acme", "SELECT @All", &["one", "two", "four"]);
    check(ANN, "SELECT @IsResponseDoc", &["two"]);
    check(ANN, "SELECT $REF != \"\"", &["two"]);
    check(ANN, "SELECT @Sum(Size) = 3", &["four"]);
    check(ANN, "SELECT @UserName = \"CN=Ann/O=Acme\" & Subject = \"one\"", &["one"]);
    check(ANN, "SELECT @DbTitle = \"Documents\" & Subject = \"one\"", &["one"]);
    check(ANN, "SELECT Form = 1", &[]);
}

#[test]
fn search_continues_after_the_last_modseq() {
    let world = world();
    let (found, reached) = search(&world, ANN, "SELECT Subject = \"two\"", Modseq(0));
    assert_eq!(found, ["two"]);
    assert_eq!(search(&world, ANN, "SELECT @All", reached), (vec![], reached));
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let more = NewNote::document(vec![Item::text("Subject", "five")]);
    world.write(&database, ANN, |writer| writer.note_create(more)).expect("created");
    assert_eq!(search(&world, ANN, "SELECT @All", reached).0, ["five"]);
}

#[test]
fn columns_are_evaluated_from_items_and_formulas() {
    let world = world();
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let column = |item: &str, formula: Option<&str>| Column {
        title: item.into(),
        item: item.into(),
        formula: formula.map(str::to_owned),
        ..Column::default()
    };
    let columns = vec![
        column("Subject", None),
        column("Upper", Some("@UpperCase(Subject) + @ViewTitle")),
        column("Wrong", Some("Subject + 1")),
        column("Missing", None),
    ];
    let design = ViewDesign { columns, ..ViewDesign::default() };
    let compiled = CompiledView::of_view("SELECT Subject = \"one\"", &design).expect("the design is valid");
    let compiled = compiled.at(world.databases.clock().now(), &database.record(), "By subject");
    let access = reader(&database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let mut rows = Vec::new();
    let all = Formula::compile("SELECT @All", &FormulaOptions::default()).expect("a formula");
    reading
        .search(&all, Modseq(0), &mut |document| {
            let values = compiled.evaluate(document);
            rows.extend(values.selected.then_some(values.cells));
            Ok(true)
        })
        .expect("sound");
    let text = |text: &str| Cell::Texts(vec![text.to_owned()]);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0][..2], [text("one"), text("ONEBy subject")]);
    assert!(matches!(rows[0][2], Cell::Error(_)), "a failed column shows an error");
    assert_eq!(rows[0][3], Cell::None);
    assert!(CompiledView::of_view("SELECT @Today > Date", &design).expect("the design is valid").is_time_relative());
    assert!(!compiled.is_time_relative());
}

#[test]
fn times_of_day_are_stored_as_texts_in_order() {
    let world = world();
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let cell = |formula: &str| {
        let column = Column { title: "Time".into(), formula: Some(formula.into()), ..Column::default() };
        let design = ViewDesign { columns: vec![column], ..ViewDesign::default() };
        let compiled = CompiledView::of_view("SELECT @All", &design).expect("the design is valid");
        let compiled = compiled.at(world.databases.clock().now(), &database.record(), "Times");
        let access = reader(&database, ANN).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let mut cells = Vec::new();
        let first = Formula::compile("SELECT Subject = \"one\"", &FormulaOptions::default()).expect("a formula");
        let mut take = |document: &notes::formula_document::FormulaDocument<'_>| {
            cells.extend(compiled.evaluate(document).cells);
            Ok(true)
        };
        reading.search(&first, Modseq(0), &mut take).expect("sound");
        cells.remove(0)
    };
    let texts = |texts: &[&str]| Cell::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(cell("@Time(9; 5; 0)"), texts(&["09:05:00"]));
    assert_eq!(cell("@Time(9; 5; 0) : @Time(18; 30; 7)"), texts(&["09:05:00", "18:30:07"]));
    assert_eq!(cell("@Time([2024-12-31 10:15] : [2024-12-31 23:59])"), texts(&["10:15:00", "23:59:00"]));
    assert!(matches!(cell("@Time(9; 5; 0) : [2024-12-31 10:00]"), Cell::Error(_)));
    assert!(matches!(cell("[2024-12-31 10:00] : [2024-12-30]"), Cell::Times(times) if times.len() == 2));
}

#[test]
fn design_errors_are_reported_with_their_location() {
    let check = |selection: &str, formula: &str, expected: &[&str]| {
        let column = Column { title: "Total".into(), formula: Some(formula.into()), ..Column::default() };
        let design = ViewDesign { columns: vec![column], ..ViewDesign::default() };
        let error = CompiledView::of_view(selection, &design).expect_err("wrong").to_string();
        assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    };
    check("SELECT (", "1", &["selection", "^"]);
    check("SELECT @All", "1 +", &["column \"Total\"", "^"]);
    check("SELECT @All; FIELD x := 1", "1", &["selection"]);
}

/// Checks that both ways of reading give the same results as single reads: notes are read by a scan where their numbers
/// are close together, and one by one elsewhere.
#[test]
fn selection_over_many_notes_equals_single_reads() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let random = SeededRandom::new(5);
    let mut numbers = Vec::new();
    for number in 0..400_u32 {
        let mut items = vec![Item::summary("Number", ItemValue::Number(f64::from(number)))];
        items.extend((random.below(4) == 0).then(|| Item::readers("Only", vec![ANN.into()])));
        // A scan ends when it passes too many bytes of unwanted notes.
        items.extend((number > 200 && random.below(2) == 0).then(|| Item::text("Long", "x".repeat(60_000))));
        let note = world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items))).unwrap();
        numbers.push((note, number));
        if random.below(3) == 0 {
            let (gone, _) = numbers.swap_remove(random.below(numbers.len() as u64) as usize);
            world.write(&database, ANN, |writer| writer.note_delete(gone)).unwrap();
        }
    }
    let selection = Formula::compile("SELECT @Modulo(Number; 3) = 1", &FormulaOptions::default()).unwrap();
    for who in [ANN, BOB] {
        let access = reader(&database, who).unwrap();
        let reading = access.read().unwrap();
        let page = reading.changes_page(ChangeCursor::default(), 2_000).unwrap();
        let listed: Vec<NoteId> = page.entries.iter().map(|entry| entry.note).collect();
        for (note, number) in &numbers {
            assert_eq!(listed.contains(note), reading.header(*note).unwrap().is_some(), "{number} for {who}");
        }
        for density in [1, 2, 6, 40] {
            let requested: Vec<NoteId> =
                (0..900).map(NoteId).filter(|_| random.below(density) == 0).chain([NoteId(7), NoteId(7)]).collect();
            for (selection, takes) in [(Some(&selection), 1), (None, 0)] {
                let taken =
                    reading.select_notes(selection, &reading.evaluation_context(), requested.clone(), &|header| {
                        header.class == NoteClass::DOCUMENT
                    });
                let mut taken: Vec<NoteId> = taken
                    .unwrap()
                    .notes
                    .into_iter()
                    .map(|(note, header)| {
                        assert_eq!(header.note, note);
                        note
                    })
                    .collect();
                taken.sort_unstable();
                let is_visible = |note: NoteId| reading.header(note).unwrap().is_some();
                let matching = numbers.iter().filter(|(note, number)| {
                    requested.contains(note) && is_visible(*note) && (takes == 0 || number % 3 == takes)
                });
                let mut expected: Vec<NoteId> = matching.map(|(note, _)| *note).collect();
                expected.sort_unstable();
                assert_eq!(taken, expected, "{who}, one of {density}");
            }
        }
    }
}
