//! Formulas over stored notes: the items that they see, and searches by formula.

use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Modseq, NoteId, Random};
use formula::{BudgetExceeded, Formula, FormulaOptions};
use notes::change_log::ChangeCursor;
use notes::view::cell::Cell;
use notes::view::selection::CompiledView;
use notes::view::view_format::{Column, ViewDesign};
use notes::{AclLevel, Item, ItemValue, NewNote, NoteClass, NoteHeader};

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
fn search_returns_a_document_that_left_folders_once() {
    let world = world();
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let moved = world.write(&database, ANN, |writer| {
        let folders = [writer.folder_create("A", &[])?, writer.folder_create("B", &[])?];
        let note = writer.note_create(NewNote::document(vec![Item::text("Subject", "moved")]))?;
        for folder in folders {
            writer.folder_add(note, folder)?;
        }
        Ok((note, folders))
    });
    let (note, folders) = moved.expect("created");
    let leave = |writer: &mut notes::Writer<'_, '_>| {
        folders.iter().try_for_each(|folder| writer.folder_remove(note, *folder).map(drop))
    };
    world.write(&database, ANN, leave).expect("removed");
    assert_eq!(search(&world, ANN, "SELECT Subject = \"moved\"", Modseq(0)).0, ["moved"]);
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
            let values = compiled.evaluate(document, &*world.clock);
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

/// Evaluates columns over a document with a subject. Returns the cells, and the limit that stopped a formula.
fn evaluated(clock: &SimClock, columns: &[&str]) -> (Vec<Cell>, Option<BudgetExceeded>) {
    let column = |formula: &&str| Column {
        title: (*formula).into(),
        item: "Subject".into(),
        formula: (!formula.is_empty()).then(|| (*formula).to_owned()),
        ..Column::default()
    };
    let design = ViewDesign { columns: columns.iter().map(column).collect(), ..ViewDesign::default() };
    let compiled = CompiledView::of_view("SELECT @All", &design).expect("the design is valid");
    let world = world();
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let access = reader(&database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let first = Formula::compile("SELECT Subject = \"one\"", &FormulaOptions::default()).expect("a formula");
    let mut found = Vec::new();
    let mut take = |document: &notes::formula_document::FormulaDocument<'_>| {
        let values = compiled.evaluate(document, clock);
        found.push((values.cells, values.stopped));
        Ok(true)
    };
    reading.search(&first, Modseq(0), &mut take).expect("sound");
    found.remove(0)
}

#[test]
fn columns_share_the_limits_of_a_document() {
    let clock = SimClock::new();
    let text = |text: &str| Cell::Texts(vec![text.to_owned()]);
    let steps = Cell::Error(BudgetExceeded::Steps.to_string());
    let (cells, stopped) = evaluated(&clock, &["@LowerCase(Subject)", "@While(1; 1)", "Subject + \"!\"", ""]);
    assert_eq!(cells, [text("one"), steps.clone(), steps.clone(), text("one")]);
    assert_eq!(stopped, Some(BudgetExceeded::Steps));
    let loops = vec!["@For(n := 1; n < 20000; n := n + 1; 1); \"done\""; 40];
    let (cells, stopped) = evaluated(&clock, &loops);
    assert_eq!((&cells[0], &cells[39]), (&text("done"), &steps), "each column is cheap, and all of them are not");
    assert_eq!(stopped, Some(BudgetExceeded::Steps));
    let (cells, stopped) = evaluated(&clock, &["@Repeat(\"a\"; 1E9)", "Subject"]);
    assert_eq!((&cells[1], stopped), (&text("one"), Some(BudgetExceeded::Memory)), "the text is too long, not more");
}

#[test]
fn document_is_evaluated_for_a_limited_time() {
    let clock = SimClock::new();
    clock.set_tick(Duration::from_millis(10));
    let text = |text: &str| Cell::Texts(vec![text.to_owned()]);
    let time = Cell::Error(BudgetExceeded::Time.to_string());
    let long = "@For(n := 1; n < 40000; n := n + 1; 1); \"done\"";
    let (cells, stopped) = evaluated(&clock, &["Subject", long, "Subject", ""]);
    assert_eq!(cells, [text("one"), time.clone(), time, text("one")]);
    assert_eq!(stopped, Some(BudgetExceeded::Time));
    let cheap = vec!["@Repeat(Subject; 2)"; 100];
    assert_eq!(evaluated(&clock, &cheap), (vec![text("oneone"); 100], None), "cheap formulas take no time");
    clock.set_tick(Duration::from_micros(1));
    assert_eq!(evaluated(&clock, &[long]), (vec![text("done")], None));
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
            cells.extend(compiled.evaluate(document, &*world.clock).cells);
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

#[test]
fn selection_ends_with_its_time() {
    let world = world();
    let database = world.databases.database_open("docs.nsf").expect("the database exists");
    let access = reader(&database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let all = Formula::compile("SELECT @All", &FormulaOptions::default()).expect("a formula");
    let select = |time_max: Duration| {
        let notes = (0..100).map(NoteId);
        let context = reading.evaluation_context();
        let is_document = |header: &NoteHeader| header.class == NoteClass::DOCUMENT;
        let found = reading.select_notes(Some(&all), &context, notes, &is_document, time_max).expect("sound");
        (found.notes.len(), found.is_out_of_time)
    };
    assert_eq!(select(Duration::from_millis(1)), (4, false));
    world.clock.set_tick(Duration::from_millis(1));
    assert_eq!(select(Duration::MAX), (4, false));
    let (found, is_out_of_time) = select(Duration::from_millis(2));
    assert!(found < 4 && is_out_of_time, "{found} notes");
    let first = reading.select_notes(Some(&all), &reading.evaluation_context(), [NoteId(3)], &|_| true, Duration::ZERO);
    assert!(!first.expect("sound").is_out_of_time, "one note is always examined");
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
                let context = reading.evaluation_context();
                let is_document = |header: &NoteHeader| header.class == NoteClass::DOCUMENT;
                let taken = reading.select_notes(selection, &context, requested.clone(), &is_document, Duration::MAX);
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
