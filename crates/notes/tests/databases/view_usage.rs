//! The use of views: creation, opening, reading of entries, search by key, change, and deletion.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use base::{Clock, NoteId, Timestamp};
use formula::BudgetExceeded;
use notes::view::build::BuildOptions;
use notes::view::cell::{Cell, CellValue};
use notes::view::navigate::{Navigator, RowExpansion};
use notes::view::note::{ViewKind, ViewNote};
use notes::view::read_entries::{EntriesRequest, EntryContents, EntryPage, EntryReader, ReadMask, StartPosition};
use notes::view::reader::{Tumbler, ViewRowContents};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{ClickSorts, Column, Total, ViewDesign};
use notes::{Access, AclLevel, Database, DatabaseOptions, Error, Item, ItemValue, NewNote, NoteClass, level};

use crate::fixture::{TestServer, assert_sound, column, identity, reader, sorted};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

fn view(title: &str, columns: Vec<Column>) -> ViewNote {
    let design = ViewDesign { columns, ..ViewDesign::default() };
    ViewNote { title: title.into(), selection: "SELECT Form = \"Order\"".into(), design, ..ViewNote::default() }
}

fn by_customer() -> ViewNote {
    let category = Column { categorized: true, ..sorted("Customer") };
    view("By Customer", vec![category, sorted("Article"), Column { total: Total::Sum, ..column("Price") }])
}

const ORDERS: [(&str, &str, f64); 6] = [
    ("Élan", "anchor", 3.0),
    ("Elan", "boat", 4.0),
    ("Zed\\East", "anchor", 1.0),
    ("Zed\\West", "Cable", 2.0),
    ("Zed\\West", "car", 5.0),
    ("", "cart", 7.0),
];

fn order(customer: &str, article: &str, price: f64) -> Vec<Item> {
    let price = Item::summary("Price", ItemValue::Number(price));
    vec![Item::text("Form", "Order"), Item::text("Customer", customer), Item::text("Article", article), price]
}

fn world() -> (TestServer, Arc<Database>) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    for (customer, article, price) in ORDERS {
        let new = NewNote::document(order(customer, article, price));
        world.write(&database, ANN, |writer| writer.note_create(new)).expect("created");
    }
    (world, database)
}

fn refresh(database: &Arc<Database>, who: &str, name: &str) -> notes::Result<()> {
    let access = reader(database, who)?;
    let note = access.read()?.view_find(name)?.note;
    while !access.view_refresh(note, 2)?.complete {}
    Ok(())
}

/// Reads entries of an up-to-date view.
fn read(database: &Arc<Database>, who: &str, name: &str, request: &EntriesRequest) -> notes::Result<EntryPage> {
    refresh(database, who, name)?;
    let access = reader(database, who)?;
    let reading = access.read()?;
    let view = reading.view(reading.view_find(name)?.note)?;
    EntryReader::open(&reading, &view, 0)?.read(request)
}

fn request(start: StartPosition, navigator: Navigator, limit: usize) -> EntriesRequest {
    let skip = (Navigator::Current, 0);
    EntriesRequest { start, skip, navigator, limit, expansion: Arc::default(), mask: ReadMask::default() }
}

/// Returns the rows as text, as a client would show them.
fn lines(entries: &EntryPage) -> Vec<String> {
    let line = |row: &notes::view::read_entries::EntryRow| {
        let text = match &row.content {
            EntryContents::Row(ViewRowContents::Category { tally, .. }) => {
                format!("[{}] {}", tally.name(), row.totals[0].1)
            }
            EntryContents::Row(ViewRowContents::Document { row, .. }) => match row.cells[1].one(0) {
                CellValue::Text(text) => text.to_owned(),
                other => format!("{other:?}"),
            },
            EntryContents::FolderEntry(entry) => panic!("{entry:?} is no row of a view"),
        };
        format!("{}{text}", "  ".repeat(row.depth))
    };
    entries.rows.iter().map(line).collect()
}

const ALL: [&str; 11] = [
    "[] 7",
    "  cart",
    "[Elan] 7",
    "  anchor",
    "  boat",
    "[Zed] 8",
    "  [East] 1",
    "    anchor",
    "  [West] 7",
    "    Cable",
    "    car",
];

#[test]
fn view_shows_categories_totals_and_documents() {
    let (world, database) = world();
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let check = |request: &EntriesRequest, expected: &[&str]| {
        let entries = read(&database, BOB, "by customer", request).expect("a view");
        assert_eq!(lines(&entries), expected, "{request:?}");
        entries
    };
    check(&request(StartPosition::Beginning, Navigator::Next, 100), &ALL);
    check(&request(StartPosition::Position(3), Navigator::Next, 2), &ALL[3..5]);
    check(&request("3.2.1".parse().map(StartPosition::Tumbler).expect("a tumbler"), Navigator::Next, 100), &ALL[9..]);
    check(&request(StartPosition::End, Navigator::Previous, 2), &[ALL[10], ALL[9]]);
    let collapsed = Arc::new(RowExpansion::none_but(HashSet::new()).expect("none"));
    let closed =
        EntriesRequest { expansion: collapsed, ..request(StartPosition::Beginning, Navigator::NextExpanded, 100) };
    let entries = check(&closed, &["[] 7", "[Elan] 7", "[Zed] 8"]);
    let zed = entries.rows[2].key.clone();
    let open = Arc::new(RowExpansion::none_but(HashSet::from([zed])).expect("one"));
    let entries =
        check(&EntriesRequest { expansion: open, ..closed.clone() }, &["[] 7", "[Elan] 7", "[Zed] 8", ALL[6], ALL[8]]);
    assert_eq!(entries.continue_at, None);
    let skip = |navigator, count| EntriesRequest {
        skip: (navigator, count),
        ..request(StartPosition::Beginning, Navigator::Next, 1)
    };
    check(&skip(Navigator::Next, 3), &[ALL[2]]);
    check(&skip(Navigator::NextPeer, 3), &[ALL[5]]);
    check(&skip(Navigator::NextMain, 2), &[ALL[1]]);
    check(&skip(Navigator::Next, 100), &[]);
    assert_sound(&database);
}

#[test]
fn reading_continues_at_the_returned_key() {
    let (world, database) = world();
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let mut found = Vec::new();
    let mut start = StartPosition::Beginning;
    loop {
        let entries = read(&database, BOB, "By Customer", &request(start, Navigator::Next, 3)).expect("a view");
        found.extend(lines(&entries));
        match entries.continue_at {
            Some(next) => start = StartPosition::Key(next),
            None => break,
        }
    }
    assert_eq!(found, ALL);
}

#[test]
fn mask_selects_the_details_of_each_row() {
    let (world, database) = world();
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let mask = ReadMask { tumbler: true, position: true, counts: true, unread: true };
    let whole = EntriesRequest { mask, ..request(StartPosition::Beginning, Navigator::Next, 100) };
    let entries = read(&database, BOB, "By Customer", &whole).expect("a view");
    let tumblers: Vec<String> =
        entries.rows.iter().map(|row| row.tumbler.as_ref().map_or_else(String::new, ToString::to_string)).collect();
    assert_eq!(tumblers, ["1", "1.1", "2", "2.1", "2.2", "3", "3.1", "3.1.1", "3.2", "3.2.1", "3.2.2"]);
    assert!((0..).zip(&entries.rows).all(|(number, row)| row.position == Some(number)));
    let counts = entries.rows[5].counts.expect("requested");
    assert_eq!((counts.siblings, counts.children, counts.descendants), (3, 2, 5));
    assert_eq!((entries.rows[5].unread, entries.rows[1].unread), (None, Some(true)));
    let EntryContents::Row(ViewRowContents::Document { note, .. }) = entries.rows[1].content else {
        panic!("a document")
    };
    world.write(&database, BOB, |writer| writer.mark_read(&[note])).expect("marked");
    let unread = EntriesRequest {
        skip: (Navigator::NextUnread, 1),
        ..request(StartPosition::Key(vec![]), Navigator::NextUnread, 2)
    };
    assert_eq!(lines(&read(&database, BOB, "By Customer", &unread).expect("a view")), [ALL[3], ALL[4]]);
}

#[test]
fn rows_are_found_by_the_values_of_their_columns() {
    let (world, database) = world();
    let flat =
        view("Flat", vec![column("Customer"), Column { sort: Some(SortDirection::Ascending), ..column("Article") }]);
    let down =
        view("Down", vec![column("Customer"), Column { sort: Some(SortDirection::Descending), ..column("Article") }]);
    for view in [by_customer(), flat, down] {
        world.write(&database, ANN, |writer| writer.view_create(&view)).expect("created");
    }
    let check = |name: &str, values: &[CellValue<'_>], partial: bool, expected: Option<(u64, u64)>| {
        refresh(&database, BOB, name).expect("a view");
        let access = reader(&database, BOB).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(reading.view_find(name).expect("there").note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows");
        let found = rows.find_by_key(values, partial).expect("a key");
        assert_eq!(found.map(|found| (found.position, found.rows)), expected, "{values:?} in {name}");
    };
    let text = CellValue::Text;
    check("Flat", &[text("CABLE")], false, Some((3, 1)));
    check("Flat", &[text("ca")], true, Some((3, 3)));
    check("Flat", &[text("car")], true, Some((4, 2)));
    check("Flat", &[text("car")], false, Some((4, 1)));
    check("Flat", &[text("x")], true, None);
    check("Down", &[text("ca")], true, Some((0, 3)));
    check("Down", &[text("anchor")], false, Some((4, 2)));
    check("By Customer", &[text("elan")], false, Some((2, 3)));
    check("By Customer", &[text("Zed\\West")], false, Some((8, 3)));
    check("By Customer", &[text("Zed\\West"), text("CAR")], false, Some((10, 1)));
    check("By Customer", &[text("Zed\\W")], true, Some((8, 3)));
    check("By Customer", &[text("zed"), text("boat")], false, None);
    check("By Customer", &[CellValue::Number(1.0)], false, None);
}

#[test]
fn clicked_column_changes_the_sort_order() {
    let (world, database) = world();
    let clicks = ClickSorts { ascending: false, descending: true };
    let clicked = view("Flat", vec![sorted("Customer"), Column { clicks, ..column("Article") }]);
    world.write(&database, ANN, |writer| writer.view_create(&clicked)).expect("created");
    refresh(&database, BOB, "Flat").expect("a view");
    let access = reader(&database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(reading.view_find("Flat").expect("there").note).expect("a view");
    let order = view.collation(Some((1, SortDirection::Descending))).expect("an order");
    let entries = EntryReader::open(&reading, &view, order).expect("rows");
    let entries = entries.read(&request(StartPosition::Beginning, Navigator::Next, 100)).expect("sound");
    assert_eq!(lines(&entries), ["cart", "car", "Cable", "boat", "anchor", "anchor"]);
    assert!(view.collation(Some((1, SortDirection::Ascending))).is_err());
    assert!(reading.view_rows(&view, 2).is_err());
}

#[test]
fn changed_design_hides_the_old_index() {
    let (world, database) = world();
    let note = world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let whole = request(StartPosition::Beginning, Navigator::Next, 100);
    assert_eq!(lines(&read(&database, BOB, "By Customer", &whole).expect("a view")), ALL);
    let changed = ViewNote { title: "Cheap".into(), selection: "SELECT Price < 3".into(), ..by_customer() };
    assert!(matches!(
        world.write(&database, ANN, |writer| writer.view_update(note, 9, &changed)),
        Err(Error::Conflict { .. })
    ));
    world.write(&database, ANN, |writer| writer.view_update(note, 1, &changed)).expect("changed");
    let access = reader(&database, BOB).expect("a reader");
    assert!(access.read().expect("a snapshot").view(note).is_err(), "the old index is not shown under a new design");
    assert!(read(&database, BOB, "By Customer", &whole).is_err(), "the old name is gone");
    let expected = ["[Zed] 3", "  [East] 1", "    anchor", "  [West] 2", "    Cable"];
    assert_eq!(lines(&read(&database, BOB, "cheap", &whole).expect("a view")), expected);
    world.write(&database, ANN, |writer| writer.view_delete(note)).expect("deleted");
    assert!(matches!(read(&database, BOB, "cheap", &whole), Err(Error::NotFound { .. })));
    assert_sound(&database);
    let access: notes::Access<notes::level::Reader> =
        database.authorize(&crate::fixture::server()).expect("the server has access");
    let reading = access.read().expect("a snapshot");
    let snapshot = reading.snapshot().expect("the server itself");
    for table in [store::Table::View, store::Table::Tree, store::Table::ViewBack] {
        let mut rest = store::TableReader::scan(snapshot, table, &store::KeyRange::all(), store::Direction::Forward)
            .expect("a scan");
        assert!(rest.next().expect("sound").is_none(), "nothing is left in {}", table.name());
    }
}

#[test]
fn view_is_visible_to_the_readers_of_its_design() {
    let (world, database) = world();
    let secret = ViewNote { readers: vec![ANN.into()], ..by_customer() };
    let note = world.write(&database, ANN, |writer| writer.view_create(&secret)).expect("created");
    let whole = request(StartPosition::Beginning, Navigator::Next, 100);
    assert_eq!(lines(&read(&database, ANN, "By Customer", &whole).expect("a view")), ALL);
    let bob = reader(&database, BOB).expect("a reader");
    assert!(bob.view_refresh(note, 10).is_err());
    let reading = bob.read().expect("a snapshot");
    assert!(reading.views().expect("a list").is_empty());
    assert!(reading.view_find("By Customer").is_err() && reading.view(note).is_err());
}

/// Brings a time-relative view up to date. Returns the moment for which it holds, and the number of its document rows.
fn refreshed_view(access: &Access<level::Reader>, note: NoteId) -> (Timestamp, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let options = BuildOptions { folder: folder.path().to_owned(), memory: 1 << 20 };
    assert!(access.view_update(note, &options, &mut |_, _| ControlFlow::Continue(())).expect("updated"));
    let reading = access.read().expect("a snapshot");
    let view = reading.view(note).expect("a view");
    assert!(view.is_time_relative());
    (view.evaluated_at, reading.view_rows(&view, 0).expect("rows").total().expect("sound").documents)
}

#[test]
fn view_using_the_time_is_valid_for_a_minute() {
    let (world, database) = world();
    let selection = "SELECT @Created <= @Adjust(@Now; 0; 0; 0; -1; 0; 0)".to_owned();
    let old = ViewNote { title: "Old".into(), selection, ..by_customer() };
    let note = world.write(&database, ANN, |writer| writer.view_create(&old)).expect("created");
    let access = reader(&database, BOB).expect("a reader");
    let rows = || refreshed_view(&access, note).1;
    assert_eq!(rows(), 0);
    world.clock.advance(Duration::from_secs(59));
    assert_eq!(rows(), 0, "an evaluation is valid for a minute");
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(rows(), ORDERS.len() as u64);
    assert_sound(&database);
}

#[test]
fn view_using_the_date_is_valid_until_midnight() {
    let (world, database) = world();
    let past = ViewNote { title: "Past".into(), selection: "SELECT @Created < @Today".to_owned(), ..by_customer() };
    let note = world.write(&database, ANN, |writer| writer.view_create(&past)).expect("created");
    let access = reader(&database, BOB).expect("a reader");
    let state = || refreshed_view(&access, note);
    let to_midnight = 86_400 - world.clock.now().seconds().rem_euclid(86_400);
    let (first, documents) = state();
    assert_eq!(documents, 0);
    world.clock.advance(Duration::from_secs(to_midnight as u64 - 1));
    assert_eq!(state(), (first, 0), "the view was not rebuilt");
    world.clock.advance(Duration::from_secs(1));
    let (second, documents) = state();
    assert_eq!((documents, second > first), (ORDERS.len() as u64, true));
}

#[test]
fn view_creation_requires_rights_and_a_unique_name() {
    let (world, database) = world();
    let refused = world.write(&database, BOB, |writer| writer.view_create(&by_customer()));
    assert!(refused.is_err());
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let again = world.write(&database, ANN, |writer| writer.view_create(&by_customer()));
    assert!(matches!(again, Err(Error::Exists { .. })));
    let wrong = ViewNote { title: "Wrong".into(), selection: "SELECT @Zork(1)".into(), ..by_customer() };
    let error = world.write(&database, ANN, |writer| writer.view_create(&wrong)).expect_err("wrong").to_string();
    assert!(error.contains("selection"), "{error}");
}

#[test]
fn folder_with_columns_shows_its_documents() {
    let (world, database) = world();
    let folder = world.write(&database, ANN, |writer| writer.folder_create("Urgent", &[])).expect("created");
    let kind = ViewKind { folder: true, ..ViewKind::default() };
    let design = ViewNote { title: "Urgent".into(), kind, selection: String::new(), ..by_customer() };
    let note = base::NoteId(folder.0);
    world.write(&database, ANN, |writer| writer.view_update(note, 1, &design)).expect("it gets columns");
    let whole = request(StartPosition::Beginning, Navigator::Next, 100);
    assert_eq!(lines(&read(&database, BOB, "Urgent", &whole).expect("a view")), [""; 0]);
    let new = NewNote { folders: vec![folder], ..NewNote::document(order("Elan", "dinghy", 9.0)) };
    let created = world.write(&database, ANN, |writer| writer.note_create(new)).expect("created");
    assert_eq!(lines(&read(&database, BOB, "Urgent", &whole).expect("a view")), ["[Elan] 9", "  dinghy"]);
    world.write(&database, ANN, |writer| writer.note_delete(created)).expect("deleted");
    assert_eq!(lines(&read(&database, BOB, "Urgent", &whole).expect("a view")), [""; 0]);
    assert!(world.write(&database, ANN, |writer| writer.view_delete(note)).is_err(), "it is deleted as a folder");
    world.write(&database, ANN, |writer| writer.folder_delete(folder)).expect("deleted");
    assert_sound(&database);
}

#[test]
fn calendar_lists_the_entries_of_a_range_of_days() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let time = |hours: i64| Timestamp::from_seconds(hours * 3_600);
    for (article, from, to) in [("trip", 20, 60), ("lunch", 36, 37), ("party", 47, 49), ("review", 80, 81)] {
        let mut items = order("", article, 0.0);
        items.push(Item::summary("Begin", ItemValue::Time(time(from))));
        items.push(Item::summary("End", ItemValue::Time(time(to))));
        world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items))).expect("created");
    }
    let mut calendar = view("Calendar", vec![sorted("Begin"), column("End"), column("Article")]);
    calendar.kind.calendar = true;
    calendar.design.range = Some((0, 1));
    world.write(&database, ANN, |writer| writer.view_create(&calendar)).expect("created");
    refresh(&database, BOB, "Calendar").expect("a view");
    let access = reader(&database, BOB).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(reading.view_find("Calendar").expect("a view").note).expect("a view");
    let entries = EntryReader::open(&reading, &view, 0).expect("rows");
    let on = |from: i64, to: i64| {
        let found =
            entries.rows().find_range(&[CellValue::Time(time(from))], &[CellValue::Time(time(to))]).expect("sound");
        let Some(found) = found else { return Vec::new() };
        let page = entries.rows().page(found.position, found.rows as usize).expect("sound");
        page.iter().map(|row| article_of(&row.contents)).collect()
    };
    assert_eq!(on(0, 23), ["trip"]);
    assert_eq!(on(24, 47), ["trip", "lunch", "party"]);
    assert_eq!(on(48, 71), ["trip", "party"]);
    assert_eq!(on(72, 95), ["review"]);
    assert_eq!(on(96, 1_000), [""; 0]);
    assert_eq!(on(71, 48), [""; 0], "a range that ends before it begins");
    assert_eq!(entries.rows().count().expect("sound"), 7);
    assert_sound(&database);
}

fn article_of(contents: &ViewRowContents) -> String {
    match contents {
        ViewRowContents::Document { row, .. } => match row.cells[2].one(0) {
            CellValue::Text(text) => text.to_owned(),
            other => panic!("{other:?} is no article"),
        },
        ViewRowContents::Category { .. } => panic!("a calendar has no categories"),
    }
}

#[test]
fn purged_deletions_are_removed_from_the_view() {
    let (world, database) = world();
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let whole = request(StartPosition::Beginning, Navigator::Next, 100);
    let entries = read(&database, BOB, "By Customer", &whole).expect("a view");
    for row in &entries.rows[3..] {
        if let EntryContents::Row(ViewRowContents::Document { note, .. }) = row.content {
            world.write(&database, ANN, |writer| writer.note_delete(note)).expect("deleted");
        }
    }
    world.clock.advance(Duration::from_secs(91 * 86_400));
    assert!(notes::purge::purge(&database).expect("purged") > 0);
    assert_eq!(lines(&read(&database, BOB, "By Customer", &whole).expect("a view")), ALL[..2]);
}

#[test]
fn columns_with_titles_follow_renames() {
    let (world, database) = world();
    let named = |title: &str, formula: &str| {
        let formula_column = Column { formula: Some(formula.into()), ..column("Told") };
        view(title, vec![sorted("Customer"), formula_column])
    };
    let make = |view: &ViewNote| world.write(&database, ANN, |writer| writer.view_create(view)).expect("created");
    let notes =
        [make(&named("Titles", "@ViewTitle + \" of \" + @DbTitle")), make(&named("Plain", "\"@ViewTitle @DbTitle\""))];
    let first_value = |note: base::NoteId| {
        let access = reader(&database, BOB).expect("a reader");
        while !access.view_refresh(note, 100).expect("sound").complete {}
        let reading = access.read().expect("a snapshot");
        let view = reading.view(note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows").page(0, 100).expect("sound");
        assert_eq!(rows.len(), ORDERS.len());
        let ViewRowContents::Document { row, .. } = &rows[0].contents else { panic!("a document") };
        let CellValue::Text(text) = row.cells[1].one(0) else { panic!("a text") };
        (text.to_owned(), view.index.id())
    };
    let [(text, first), (_, plain)] = notes.map(first_value);
    assert_eq!(text, "Titles of Documents");
    let renamed = named("Names", "@ViewTitle + \" of \" + @DbTitle");
    world.write(&database, ANN, |writer| writer.view_update(notes[0], 1, &renamed)).expect("renamed");
    let other = named("Other", "\"@ViewTitle @DbTitle\"");
    world.write(&database, ANN, |writer| writer.view_update(notes[1], 1, &other)).expect("renamed");
    let [(text, second), (_, still)] = notes.map(first_value);
    assert_eq!((text.as_str(), still), ("Names of Documents", plain));
    assert_ne!(first, second);
    let manager: notes::Access<notes::level::Manager> =
        database.authorize(&crate::fixture::identity(ANN)).expect("Ann is the manager");
    world.databases.database_options_set(&manager, "Papers", database.record().options).expect("renamed");
    let [(text, third), (_, still)] = notes.map(first_value);
    assert_eq!((text.as_str(), still), ("Names of Papers", plain));
    assert_eq!(notes.map(first_value).map(|(_, index)| index), [third, plain], "indexes are rebuilt only if needed");
    assert_sound(&database);
}

/// Returns the size of the rows of all views of a world, in bytes.
fn row_bytes(world: &TestServer) -> usize {
    use store::{Direction, KeyRange, Table, TableReader};
    let store = world.databases.store();
    let mut cursor = store.scan(Table::View, &KeyRange::all(), Direction::Forward).expect("a scan");
    let mut bytes = 0;
    while let Some((_, value)) = cursor.next().expect("sound") {
        bytes += value.len();
    }
    bytes
}

/// Rebuilds the index of a view, and asserts that the rows stay the same.
fn assert_rebuild_is_equal(database: &Arc<Database>, name: &str) {
    let rows = || {
        refresh(database, ANN, name).expect("a view");
        let access = reader(database, ANN).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(reading.view_find(name).expect("there").note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows").page(0, 10_000).expect("sound");
        let describe = |row: notes::view::reader::ViewRow| match row.contents {
            ViewRowContents::Category { level, tally } => {
                (row.key, format!("{level} {} {}", tally.name(), tally.documents), Vec::new())
            }
            ViewRowContents::Document { row: document, .. } => (row.key, document.unid.to_string(), document.cells),
        };
        rows.into_iter().map(describe).collect::<Vec<_>>()
    };
    let followed = rows();
    assert_sound(database);
    let access: notes::Access<notes::level::Designer> =
        database.authorize(&crate::fixture::server()).expect("the server itself");
    let note = reader(database, ANN).and_then(|access| Ok(access.read()?.view_find(name)?.note)).expect("there");
    let folder = tempfile::tempdir().expect("a folder");
    let options = BuildOptions { folder: folder.path().to_owned(), memory: 1 << 20 };
    let built = access.view_rebuild(note, &options, &mut |_, _| ControlFlow::Continue(())).expect("built");
    assert!(built.is_some());
    assert!(followed == rows(), "{name}: the rebuilt rows equal the updated rows");
    assert_sound(database);
}

#[test]
fn rows_of_a_large_document_have_bounded_size() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let kinds: Vec<String> = (0..1_024).map(|number| format!("kind {number:04}")).collect();
    let items = || {
        let mut items = order("", &"long ".repeat(40_000), 2.5);
        items.push(Item::summary("Kinds", ItemValue::TextList(kinds.clone())));
        items
    };
    let category = Column { categorized: true, multi_value: true, ..sorted("Kinds") };
    let price = Column { total: Total::Sum, ..column("Price") };
    world
        .write(&database, ANN, |writer| writer.view_create(&view("Kinds", vec![category, sorted("Article"), price])))
        .expect("created");
    for _ in 0..12 {
        world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items()))).expect("created");
    }
    let access = reader(&database, ANN).expect("a reader");
    let note = access.read().and_then(|reading| reading.view_find("Kinds")).expect("there").note;
    assert!(!access.view_refresh(note, 200).expect("sound").complete, "a batch ends when its rows have 1 MiB");
    assert_rebuild_is_equal(&database, "Kinds");
    assert!(row_bytes(&world) < 12 * (1_200 << 10), "{} bytes of rows", row_bytes(&world));
    let reading = access.read().expect("a snapshot");
    let view = reading.view(note).expect("a view");
    let rows = reading.view_rows(&view, 0).expect("rows");
    let total = rows.total().expect("sound");
    assert_eq!((total.documents, total.totals[0].sum.value()), (12 * 1_024, 12.0 * 1_024.0 * 2.5));
    let page = rows.page(0, 2).expect("sound");
    let ViewRowContents::Document { row, .. } = &page[1].contents else { panic!("a document") };
    assert_eq!(
        (row.cells[0].clone(), row.cells[2].clone()),
        (Cell::Texts(vec![kinds[0].clone()]), Cell::Numbers(vec![2.5]))
    );
    assert!(matches!(&row.cells[1], Cell::Texts(texts) if texts[0].starts_with("long long") && texts[0].len() < 1_024));
}

#[test]
fn rows_of_stopped_formulas_are_read_and_not_computed() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let loops = "@For(n := 1; n <= Price; n := n + 1; 1); @Text(n)";
    let columns = vec![Column { formula: Some(loops.into()), ..sorted("Loops") }, column("Article")];
    world.write(&database, ANN, |writer| writer.view_create(&view("Slow", columns))).expect("created");
    let mut notes = Vec::new();
    for _ in 0..20 {
        let new = NewNote::document(order("", "boat", 20_000.0));
        notes.push(world.write(&database, ANN, |writer| writer.note_create(new)).expect("created"));
    }
    let cells = || {
        refresh(&database, BOB, "Slow").expect("a view");
        let access = reader(&database, BOB).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(reading.view_find("Slow").expect("there").note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows").page(0, 100).expect("sound");
        let cell = |row: &notes::view::reader::ViewRow| match &row.contents {
            ViewRowContents::Document { row, .. } => row.cells[0].clone(),
            ViewRowContents::Category { .. } => panic!("no categories"),
        };
        rows.iter().map(cell).collect::<Vec<_>>()
    };
    let computed = vec![Cell::Texts(vec!["20001".into()]); notes.len()];
    let stopped = vec![Cell::Error(BudgetExceeded::Time.to_string()); notes.len()];
    assert_eq!(cells(), computed);
    // A tick of 10 ms ends each evaluation early. In the rounds after it, the formulas would compute other old rows.
    for (sequence, tick_ms, expected) in [(1, 10, &stopped), (2, 0, &computed), (3, 0, &computed)] {
        world.clock.set_tick(Duration::from_millis(tick_ms));
        for note in &notes {
            let changed = order("", &format!("boat {sequence}"), 20_000.0);
            world.write(&database, ANN, |writer| writer.note_update(*note, sequence, &changed, &[])).expect("changed");
        }
        assert_eq!(&cells(), expected, "with a tick of {tick_ms} ms");
        assert_sound(&database);
    }
    assert_rebuild_is_equal(&database, "Slow");
}

#[test]
fn documents_with_expensive_formulas_are_counted() {
    let mut world = TestServer::new();
    let mut database = world.database(&[(BOB, AclLevel::Reader)]);
    let loops = "@For(n := 1; n < Price; n := n + 1; 1); @Text(n)";
    let columns = vec![sorted("Article"), Column { formula: Some(loops.into()), ..column("Loops") }];
    let selection = "SELECT @If(Article = \"endless\"; @While(1; 1); 1)".to_owned();
    let slow = ViewNote { selection, ..view("Slow", columns) };
    let view = world.write(&database, ANN, |writer| writer.view_create(&slow)).expect("created");
    let limited = |database: &Arc<Database>| {
        refresh(database, BOB, "Slow").expect("a view");
        assert_sound(database);
        let access = reader(database, BOB).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(view).expect("a view");
        reading.view_rows(&view, 0).expect("rows").limited_documents().expect("sound")
    };
    let mut notes = Vec::new();
    for (article, price) in [("anchor", 10.0), ("boat", 1e9), ("endless", 10.0), ("canoe", 1e9)] {
        let new = NewNote::document(order("", article, price));
        notes.push(world.write(&database, ANN, |writer| writer.note_create(new)).expect("created"));
    }
    assert_eq!(limited(&database), 3, "one of them has no row");
    let cheap = order("", "boat", 10.0);
    world.write(&database, ANN, |writer| writer.note_update(notes[1], 1, &cheap, &[])).expect("changed");
    assert_eq!(limited(&database), 2);
    world = world.restarted();
    database = world.databases.database_open("docs.nsf").expect("the database exists");
    world.write(&database, ANN, |writer| writer.note_delete(notes[2])).expect("deleted");
    assert_eq!(limited(&database), 1);
    assert_rebuild_is_equal(&database, "Slow");
    assert_eq!(limited(&database), 1);
}

#[test]
fn batch_may_end_within_a_transaction() {
    let mut world = TestServer::new();
    let mut database = world.database(&[(BOB, AclLevel::Reader)]);
    let note = world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let created = world.write(&database, ANN, |writer| {
        for number in 0..30 {
            let mut items = order("Elan", &format!("boat {number}"), 1.0);
            items.extend((number % 3 == 0).then(|| Item::readers("Readers", vec![ANN.into()])));
            writer.note_create(NewNote::document(items))?;
        }
        Ok(())
    });
    created.expect("Ann may create documents");
    let count = |database: &Arc<Database>, who: &str| {
        let access = reader(database, who).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(note).expect("a view");
        reading.view_rows(&view, 0).expect("rows").total().expect("sound").documents
    };
    // Each document takes 10 ms, and a batch ends after 50.
    world.clock.set_tick(Duration::from_millis(10));
    let mut batches = 0;
    loop {
        let is_complete = reader(&database, BOB).expect("a reader").view_refresh(note, 100).expect("sound").complete;
        batches += 1;
        let documents = count(&database, ANN);
        assert_eq!(count(&database, BOB), documents - documents.div_ceil(3), "of {documents} documents");
        assert_sound(&database);
        if is_complete {
            break;
        }
        if batches % 2 == 0 {
            world = world.restarted();
            database = world.databases.database_open("docs.nsf").expect("the database exists");
        }
    }
    assert_eq!((count(&database, ANN), count(&database, BOB)), (30, 20));
    assert!((6..=8).contains(&batches), "{batches} batches");
    let more = NewNote::document(order("Elan", "canoe", 1.0));
    world.write(&database, ANN, |writer| writer.note_create(more)).expect("created");
    refresh(&database, BOB, "By Customer").expect("a view");
    assert_eq!((count(&database, ANN), count(&database, BOB)), (31, 21));
    assert_rebuild_is_equal(&database, "By Customer");
}

#[test]
fn threads_with_long_subjects_keep_all_levels() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let date = Column { formula: Some("@Created".into()), ..sorted("Date") };
    let mut threads = view("Threads", vec![date, sorted("Article")]);
    threads.design.shows_response_hierarchy = true;
    world.write(&database, ANN, |writer| writer.view_create(&threads)).expect("created");
    let mut parent = None;
    for level in 0..=31 {
        let subject = format!("{} {level:02}", "A subject that is quite long, as people write them ".repeat(4));
        let unid = base::Unid([level + 1; 16]);
        let new = NewNote { unid: Some(unid), parent, ..NewNote::document(order("", &subject, 1.0)) };
        let created = world.write(&database, ANN, |writer| writer.note_create(new));
        assert_eq!(created.is_ok(), usize::from(level) < base::limits::RESPONSE_DEPTH_MAX, "level {level}");
        parent = Some(unid);
    }
    assert_rebuild_is_equal(&database, "Threads");
    let access = reader(&database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(reading.view_find("Threads").expect("there").note).expect("a view");
    let rows = reading.view_rows(&view, 0).expect("rows").page(0, 100).expect("sound");
    let level = |row: &notes::view::reader::ViewRow| match &row.contents {
        ViewRowContents::Document { row, .. } => usize::from(row.response_level),
        ViewRowContents::Category { .. } => panic!("no categories"),
    };
    let levels: Vec<usize> = rows.iter().map(level).collect();
    assert_eq!(levels, (0..base::limits::RESPONSE_DEPTH_MAX).collect::<Vec<_>>());
}

#[test]
fn many_long_columns_hide_no_document() {
    let world = TestServer::new();
    let database = world.database(&[]);
    let names: Vec<String> = (0..9).map(|number| format!("Text{number}")).collect();
    let columns = names.iter().map(|name| sorted(name)).collect();
    world.write(&database, ANN, |writer| writer.view_create(&view("Wide", columns))).expect("created");
    for last in ["b", "a", "c"] {
        let mut items = order("", last, 1.0);
        let text = |number: usize| if number == 0 { format!("{last}{}", "語".repeat(300)) } else { "語".repeat(300) };
        items.extend(names.iter().enumerate().map(|(number, name)| Item::text(name.clone(), text(number))));
        world.write(&database, ANN, |writer| writer.note_create(NewNote::document(items))).expect("created");
    }
    assert_rebuild_is_equal(&database, "Wide");
    let access = reader(&database, ANN).expect("a reader");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(reading.view_find("Wide").expect("there").note).expect("a view");
    let rows = reading.view_rows(&view, 0).expect("rows").page(0, 100).expect("sound");
    let first = |row: &notes::view::reader::ViewRow| match &row.contents {
        ViewRowContents::Document { row, .. } => match row.cells[0].one(0) {
            CellValue::Text(text) => text[..1].to_owned(),
            other => panic!("{other:?} is no text"),
        },
        ViewRowContents::Category { .. } => panic!("no categories"),
    };
    assert_eq!(rows.iter().map(first).collect::<Vec<_>>(), ["a", "b", "c"]);
}

/// Returns one of many spellings of a word: each bit of `number` makes a letter a capital.
fn spelling(number: usize) -> String {
    let letter =
        |(index, letter): (usize, char)| if number >> index & 1 == 1 { letter.to_ascii_uppercase() } else { letter };
    "customers".chars().enumerate().map(letter).collect()
}

#[test]
fn category_shows_its_smallest_spelling() {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let mut remaining: Vec<(base::NoteId, String)> = Vec::new();
    let name = || {
        refresh(&database, BOB, "By Customer").expect("a view");
        let access = reader(&database, BOB).expect("a reader");
        let reading = access.read().expect("a snapshot");
        let view = reading.view(reading.view_find("By Customer").expect("there").note).expect("a view");
        let rows = reading.view_rows(&view, 0).expect("rows").page(0, 1).expect("sound");
        match &rows[0].contents {
            ViewRowContents::Category { tally, .. } => (tally.name().to_owned(), tally.documents),
            ViewRowContents::Document { .. } => panic!("a category"),
        }
    };
    // Smaller spellings are created last and deleted first.
    for number in 0..300 {
        let new_note = NewNote::document(order(&spelling(number), "boat", 1.0));
        remaining.push((
            world.write(&database, ANN, |writer| writer.note_create(new_note)).expect("created"),
            spelling(number),
        ));
    }
    assert_rebuild_is_equal(&database, "By Customer");
    remaining.sort_by(|one, other| other.1.cmp(&one.1));
    while remaining.len() > 1 {
        let (note, _) = remaining.pop().expect("some are left");
        world.write(&database, ANN, |writer| writer.note_delete(note)).expect("deleted");
        let smallest = remaining.last().expect("one is left").1.clone();
        assert_eq!(name(), (smallest, remaining.len() as u64));
        if remaining.len().is_multiple_of(50) {
            assert_rebuild_is_equal(&database, "By Customer");
        }
    }
    assert_sound(&database);
}

#[test]
fn permanent_deletion_after_soft_deletion_leaves_the_view_unchanged() {
    let (world, database) = world();
    let access = database.authorize(&identity(ANN)).expect("Ann manages it");
    let options = DatabaseOptions { keep_deleted_hours: Some(2), ..DatabaseOptions::default() };
    world.databases.database_options_set(&access, "Documents", options).expect("Ann may");
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let whole = request(StartPosition::Beginning, Navigator::Next, 100);
    let entries = read(&database, BOB, "By Customer", &whole).expect("a view");
    let mut deleted = Vec::new();
    for row in &entries.rows[2..] {
        if let EntryContents::Row(ViewRowContents::Document { note, .. }) = row.content {
            world.write(&database, ANN, |writer| writer.note_delete(note)).expect("deleted");
            refresh(&database, BOB, "By Customer").expect("a view");
            deleted.push(note);
        }
    }
    assert_eq!(lines(&read(&database, BOB, "By Customer", &whole).expect("a view")), ALL[..2]);
    for note in deleted.into_iter().skip(1) {
        assert!(world.write(&database, ANN, |writer| writer.note_delete_permanently(note)).expect("Ann may"));
        assert_eq!(lines(&read(&database, BOB, "By Customer", &whole).expect("a view")), ALL[..2], "without {note}");
    }
    assert_sound(&database);
}

#[test]
fn positions_beyond_the_end_return_no_rows() {
    let (world, database) = world();
    world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    let closed = [order("Zed\\West", "zebra", 1.0), vec![Item::readers("Readers", vec![ANN.into()])]].concat();
    for _ in 0..3 {
        let new = NewNote::document(closed.clone());
        world.write(&database, ANN, |writer| writer.note_create(new)).expect("created");
    }
    for behind in 0..6 {
        for start in
            [StartPosition::Position(u64::MAX - behind), StartPosition::Tumbler(Tumbler(vec![3, u64::MAX - behind, 1]))]
        {
            let found = read(&database, BOB, "By Customer", &request(start, Navigator::Next, 10)).expect("sound");
            assert_eq!(lines(&found), [""; 0]);
        }
    }
}

#[test]
fn outdated_view_hides_newly_restricted_documents() {
    let (world, database) = world();
    let view = world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
    refresh(&database, BOB, "By Customer").expect("a view");
    let access = reader(&database, BOB).expect("a reader");
    let first = access.read().expect("a snapshot");
    let mut notes = Vec::new();
    first
        .for_each_note(base::NoteId(0), &mut |header| {
            notes.extend((header.class == NoteClass::DOCUMENT).then_some(header.note));
            Ok(true)
        })
        .expect("sound");
    let closed = [order("Élan", "anchor", 3.0), vec![Item::readers("Readers", vec![ANN.into()])]].concat();
    world.write(&database, ANN, |writer| writer.note_update(notes[0], 1, &closed, &[])).expect("closed");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(view).expect("a view");
    let entries = EntryReader::open(&reading, &view, 0).expect("rows");
    let found = lines(&entries.read(&request(StartPosition::Beginning, Navigator::Next, 100)).expect("sound"));
    assert_eq!(found.len(), ALL.len() - 1, "{found:?}");
    assert!(!found[3].contains("anchor"), "{found:?}");
}

#[test]
fn fixup_detects_and_rebuilds_a_damaged_index() {
    use store::{Direction, KeyRange, Table, TableReader};
    let tables = [Table::View, Table::Tree, Table::ViewBack].map(|table| (table, true));
    // In the last case the record of a note still names the same number of rows, but one of them does not exist.
    for (table, is_gone) in tables.into_iter().chain([(Table::ViewBack, false)]) {
        let (world, database) = world();
        world.write(&database, ANN, |writer| writer.view_create(&by_customer())).expect("created");
        let whole = request(StartPosition::Beginning, Navigator::Next, 100);
        read(&database, BOB, "By Customer", &whole).expect("a view");
        assert_sound(&database);
        let store = world.databases.store();
        let mut cursor = store.scan(table, &KeyRange::all(), Direction::Backward).expect("a scan");
        let (key, value) = cursor.next().expect("sound").expect("an index has rows");
        let mut batch = store::Batch::new();
        match is_gone {
            true => batch.delete(table, key),
            false => {
                let mut value = value.to_vec();
                *value.last_mut().expect("a key of a row") ^= 1;
                batch.put(table, key, &value)
            }
        };
        store.commit(&batch).expect("damaged");
        let report = notes::fixup::check(&database).expect("a check runs");
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        assert!(report.findings[0].to_string().starts_with("view "), "{}", report.findings[0]);
        notes::fixup::repair(&database).expect("repaired");
        assert_sound(&database);
        assert_eq!(lines(&read(&database, BOB, "By Customer", &whole).expect("a view")), ALL, "{}", table.name());
    }
}
