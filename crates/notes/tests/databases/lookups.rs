//! Lookups of formulas outside of their document: only in data that the user may read, and within limits.

use std::sync::Arc;
use std::time::Duration;

use base::{NoteId, Timestamp, Unid};
use formula::{Formula, FormulaOptions};
use notes::formula_document::FormulaDocument;
use notes::lookup::LookupContext;
use notes::view::note::ViewNote;
use notes::view::view_format::{Column, ViewDesign};
use notes::{AclLevel, Database, Item, ItemValue, NewNote};

use crate::fixture::{TestServer, column, reader, sorted};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

fn view(title: &str, columns: Vec<Column>) -> ViewNote {
    let design = ViewDesign { columns, ..ViewDesign::default() };
    ViewNote { title: title.into(), selection: "SELECT @All".into(), design, ..ViewNote::default() }
}

/// A database of tools and toys. Only Ann may read the document about the ball.
struct Shop {
    world: TestServer,
    database: Arc<Database>,
}

impl Shop {
    fn new() -> Self {
        let world = TestServer::new();
        let database = world.database(&[(BOB, AclLevel::Reader)]);
        let shop = Self { world, database };
        for (number, name) in (1..).zip(["saw", "axe", "ball", "bear"]) {
            let kind = if number < 3 { "tool" } else { "toy" };
            let mut items = vec![
                Item::text("Kind", kind),
                Item::text("Name", name),
                Item::summary("Price", ItemValue::Number(f64::from(number))),
                Item::summary("Tags", ItemValue::TextList(vec![format!("{name}1"), format!("{name}2")])),
                Item::text("Secret", format!("of {name}")),
            ];
            items.extend((name == "ball").then(|| Item::readers("Only", vec![ANN.into()])));
            shop.make(NewNote { unid: Some(Unid([number; 16])), ..NewNote::document(items) });
        }
        let profile = [Item::text("Greeting", "Hello")];
        let created = shop.world.write(&shop.database, ANN, |writer| writer.profile_set("Office", None, &profile, &[]));
        created.expect("Ann may");
        let kinds = Column { categorized: true, ..sorted("Kind") };
        shop.design(&view("Goods", vec![kinds, sorted("Name"), column("Price"), column("Tags")]));
        shop.design(&view("Names", vec![sorted("Name"), column("Price")]));
        shop
    }

    fn make(&self, new: NewNote) {
        self.world.write(&self.database, ANN, |writer| writer.note_create(new)).expect("Ann may");
    }

    /// Creates a view with its index.
    fn design(&self, view: &ViewNote) {
        let note = self.world.write(&self.database, ANN, |writer| writer.view_create(view)).expect("Ann may");
        let access = reader(&self.database, ANN).expect("a reader");
        while !access.view_refresh(note, 1_000).expect("it follows").complete {}
    }

    /// Returns the value of a formula for a user, written as in a formula, or the error of the formula.
    fn evaluate(&self, who: &str, formula: &str) -> String {
        let access = reader(&self.database, who).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let lookups = LookupContext::new(&reading);
        let formula = Formula::compile(formula, &FormulaOptions::default()).expect("a formula");
        let header = reading.header(NoteId(1)).expect("sound").expect("the access control list");
        let document = FormulaDocument::new(&header, Vec::new());
        let outcome = formula.evaluate(&document, &lookups).expect("within its limits");
        match &outcome.value {
            formula::Value::Error(failure) => failure.kind.to_string(),
            value => formula::print_value::render(value, formula.options(), Timestamp(0)),
        }
    }
}

#[test]
fn lookups_return_only_readable_data() {
    let shop = Shop::new();
    for (formula, ann, bob) in [
        (r#"@DbColumn(""; ""; "goods"; 1)"#, "tool; toy", "tool; toy"),
        (r#"@DbColumn(""; ""; "Names"; 2)"#, "2; 3; 4; 1", "2; 4; 1"),
        (r#"@DbLookup(""; ""; "Goods"; "toy"; 2)"#, "ball; bear", "bear"),
        (r#"@DbLookup("NoCache"; "docs.nsf"; "Names"; "AXE"; 2)"#, "2", "2"),
        (r#"@DbLookup(""; ""; "Names"; "bear"; "Secret")"#, "of bear", "of bear"),
        (r#"@DbLookup(""; ""; "Names"; "ba"; 1; [PartialMatch] : [FailSilent])"#, "ball", ""),
        (r#"@DbLookup(""; ""; "Names"; "axe"; "Tags")"#, "axe1; axe2", "axe1; axe2"),
        (
            r#"@DbLookup(""; ""; "Names"; "saw"; 1; [ReturnDocumentUniqueID])"#,
            "01010101010101010101010101010101",
            "01010101010101010101010101010101",
        ),
        (r#"@GetDocField("04040404040404040404040404040404"; "Price")"#, "4", "4"),
        (r#"@GetProfileField("Office"; "Greeting")"#, "Hello", "Hello"),
    ] {
        assert_eq!((shop.evaluate(ANN, formula), shop.evaluate(BOB, formula)), (ann.into(), bob.into()), "{formula}");
    }
}

/// Checks that lookups in large views stay within the limits: a view has few categories, however many documents it
/// has, and a lookup by key reads only the rows with that key.
#[test]
fn large_views_are_looked_up_by_category_and_by_key() {
    let shop = Shop::new();
    let orders = (0..3_000).map(|number| {
        let color = ["Green and very long", "red and very long, too", "RED and very long, too"][number as usize % 3];
        NewNote::document(vec![
            Item::text("Color", color),
            Item::summary("Year", ItemValue::Number(f64::from(2_000 + number % 7))),
            Item::text("Number", format!("{number:04}")),
        ])
    });
    let orders: Vec<NewNote> = orders.collect();
    let created = shop.world.write(&shop.database, ANN, |writer| {
        orders.iter().try_for_each(|order| writer.note_create(order.clone()).map(drop))
    });
    created.expect("Ann may");
    let category = |item: &str| Column { categorized: true, ..sorted(item) };
    shop.design(&view("Colors", vec![category("Color"), sorted("Number")]));
    shop.design(&view("Years", vec![category("Year"), sorted("Number")]));
    shop.design(&view("Numbers", vec![sorted("Number"), column("Color")]));
    let colors = shop.evaluate(ANN, r#"@DbColumn(""; ""; "Colors"; 1)"#);
    assert_eq!(colors.to_lowercase(), "green and very long; red and very long, too");
    let years = shop.evaluate(ANN, r#"@DbColumn(""; ""; "Years"; 1)"#);
    assert_eq!(years, "2000; 2001; 2002; 2003; 2004; 2005; 2006");
    let access = reader(&shop.database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let lookups = LookupContext::new(&reading);
    let selection = r#"SELECT @DbLookup(""; ""; "Numbers"; Number; 2; [FailSilent]) = Color & Number != """#;
    let selection = Formula::compile(selection, &FormulaOptions::default()).expect("a formula");
    let notes = (0..1_500).map(NoteId);
    let found = reading.select_notes(Some(&selection), &lookups, notes, &|_| true, Duration::MAX).expect("sound");
    assert!(found.notes.len() > 1_400 && found.failed == 0 && !lookups.is_exhausted(), "{}", found.notes.len());
}

#[test]
fn key_lookup_excludes_responses_to_the_match() {
    let shop = Shop::new();
    let unid = Unid([9; 16]);
    shop.make(NewNote { unid: Some(unid), ..NewNote::document(vec![Item::text("Name", "Plan")]) });
    shop.make(NewNote { parent: Some(unid), ..NewNote::document(vec![Item::text("Name", "Answer")]) });
    let mut threads = view("Threads", vec![sorted("Name")]);
    threads.design.shows_response_hierarchy = true;
    shop.design(&threads);
    assert_eq!(shop.evaluate(ANN, r#"@DbLookup(""; ""; "Threads"; "Plan"; 1)"#), "Plan");
    assert_eq!(shop.evaluate(ANN, r#"@Elements(@DbColumn(""; ""; "Threads"; 1))"#), "6");
}

#[test]
fn failed_lookups_report_the_reason() {
    let shop = Shop::new();
    let unbuilt = view("Unbuilt", vec![sorted("Name")]);
    shop.world.write(&shop.database, ANN, |writer| writer.view_create(&unbuilt)).expect("Ann may");
    for (formula, expected) in [
        (r#"@DbLookup(""; ""; "Names"; "ball"; 1)"#, "Entry not found in index"),
        (r#"@DbColumn(""; ""; "Nothing"; 1)"#, "view \"Nothing\""),
        (r#"@DbColumn(""; ""; "Unbuilt"; 1)"#, "index of view \"Unbuilt\""),
        (r#"@DbColumn(""; ""; "Names"; 3)"#, "no column 3"),
        (r#"@DbLookup(""; ""; "Names"; @Repeat("x"; 5000); 1)"#, "too long"),
        (r#"@DbColumn(""; "other.nsf"; "Names"; 1)"#, "can only use views of this database"),
        (r#"@DbColumn(""; "elsewhere" : "docs.nsf"; "Names"; 1)"#, "can only use views of this database"),
    ] {
        let result = shop.evaluate(BOB, formula);
        assert!(result.contains(expected), "{formula}: {result}");
    }
}

#[test]
fn lookups_are_bounded() {
    let shop = Shop::new();
    for number in 0..200 {
        shop.make(NewNote::document(vec![
            Item::text("Name", format!("{number:03}")),
            Item::text("Long", "x".repeat(500)),
        ]));
    }
    shop.design(&view("Long", vec![sorted("Name"), column("Long")]));
    let result = shop.evaluate(ANN, r#"@DbColumn(""; ""; "Long"; 2)"#);
    assert!(result.contains("more than 65536 bytes"), "{result}");
    assert_eq!(shop.evaluate(ANN, r#"@Elements(@DbColumn(""; ""; "Long"; 1))"#), "204");
    // A repeated lookup runs once. Different lookups exhaust the limit, and this is reported.
    let access = reader(&shop.database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let lookups = LookupContext::new(&reading);
    let select = |formula: &str| {
        let selection = Formula::compile(formula, &FormulaOptions::default()).expect("a formula");
        let notes = (0..300).map(NoteId);
        reading.select_notes(Some(&selection), &lookups, notes, &|_| true, Duration::MAX).expect("sound")
    };
    let found = select(r#"SELECT @Contains(@DbColumn(""; ""; "Long"; 1); Name) & Name != """#);
    assert_eq!((found.notes.len(), found.failed, lookups.is_exhausted()), (204, 0, false));
    let wrong = select(r#"SELECT @DbColumn(""; ""; "Nothing"; 1) = Name"#);
    assert!(wrong.notes.is_empty() && wrong.failed >= 204, "{wrong:?}");
    assert!(wrong.failure.expect("the error is reported").contains("view \"Nothing\""));
    select(r#"SELECT @DbLookup(@Text(@NoteID); ""; "Long"; ""; 1; [PartialMatch]) = Name"#);
    select(r#"SELECT @DbColumn(@Text(@NoteID); ""; "Long"; 1) = Name"#);
    select(r#"SELECT @DbColumn(@Text(@NoteID) + "2"; ""; "Long"; 1) = Name"#);
    assert!(lookups.is_exhausted());
}

#[test]
fn views_refuse_formulas_with_lookups() {
    let shop = Shop::new();
    for function in [
        r#"@DbColumn(""; ""; "Names"; 1)"#,
        r#"@DbLookup(""; ""; "Names"; Name; 1)"#,
        r#"@GetDocField(@DocumentUniqueID; "Name")"#,
        r#"@GetProfileField("Office"; "Greeting")"#,
    ] {
        let selection =
            ViewNote { selection: format!("SELECT {function} = Name"), ..view("Wrong", vec![sorted("Name")]) };
        let column_view = view("Wrong", vec![Column { formula: Some(function.to_owned()), ..column("Found") }]);
        for wrong in [selection, column_view] {
            let refused = shop.world.write(&shop.database, ANN, |writer| writer.view_create(&wrong));
            let message = refused.expect_err("the view is refused").to_string();
            assert!(message.contains("reads data outside the document"), "{message}");
        }
    }
}
