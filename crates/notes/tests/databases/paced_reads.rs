//! Long reads that count their steps: an interrupted read shows nothing, and the next one is complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Interrupted, Pacer, ViewId};
use notes::view::navigate::Navigator;
use notes::view::note::ViewNote;
use notes::view::read_entries::{EntriesRequest, EntryContents, EntryReader, EntryRow, ReadMask, StartPosition};
use notes::view::reader::ViewRowContents;
use notes::view::view_format::{Column, ViewDesign};
use notes::{AclLevel, Database, Error, Item, NewNote};

use crate::fixture::{TestServer, reader, sorted};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";

/// A pacer that ends the work at a given call.
struct CallLimit {
    calls_max: usize,
    calls: AtomicUsize,
}

impl CallLimit {
    fn new(calls_max: usize) -> Arc<Self> {
        Arc::new(Self { calls_max, calls: AtomicUsize::new(0) })
    }
}

impl Pacer for CallLimit {
    fn spend(&self, steps: u64) -> Result<(), Interrupted> {
        assert!(steps > 0, "every call counts");
        if self.calls.fetch_add(1, Ordering::SeqCst) < self.calls_max { Ok(()) } else { Err(Interrupted) }
    }
}

/// Reads with pacers that end the work ever later, until it is complete. Returns its result, and the number of calls of
/// the pacer.
fn until_complete<T>(read: impl Fn(Arc<dyn Pacer>) -> notes::Result<T>) -> (T, usize) {
    for calls in 0.. {
        match read(CallLimit::new(calls)) {
            Ok(found) => return (found, calls),
            Err(Error::Interrupted(_)) => {}
            Err(error) => panic!("{error} after {calls} calls"),
        }
    }
    unreachable!("every read ends");
}

fn order(customer: &str, article: &str, is_hidden: bool) -> NewNote {
    let readers = is_hidden.then(|| Item::readers("Readers", vec![ANN.into()]));
    let items = [Item::text("Customer", customer), Item::text("Article", article)];
    NewNote::document(items.into_iter().chain(readers).collect())
}

fn world(orders: Vec<NewNote>, columns: Vec<Column>) -> (TestServer, Arc<Database>) {
    let world = TestServer::new();
    let database = world.database(&[(BOB, AclLevel::Reader)]);
    let design = ViewDesign { columns, ..ViewDesign::default() };
    let view = ViewNote { title: "Orders".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let created = world.write(&database, ANN, |writer| {
        orders.into_iter().try_for_each(|order| writer.note_create(order).map(drop))?;
        writer.view_create(&view)
    });
    let access = reader(&database, BOB).expect("a reader");
    let view = created.expect("Ann manages the database");
    while !access.view_refresh(view, 1_000).expect("a view").complete {}
    (world, database)
}

fn request(start: StartPosition, navigator: Navigator, limit: usize) -> EntriesRequest {
    let mask = ReadMask { tumbler: true, position: true, counts: true, unread: true };
    EntriesRequest { start, skip: (Navigator::Current, 0), navigator, limit, expansion: Arc::default(), mask }
}

/// Returns the rows that Bob sees, each with its position.
fn read(database: &Arc<Database>, request: &EntriesRequest, pacer: Arc<dyn Pacer>) -> notes::Result<Vec<String>> {
    let access = reader(database, BOB)?;
    let reading = access.read()?.paced(pacer);
    let view = reading.view(reading.view_find("Orders")?.note)?;
    let page = EntryReader::open(&reading, &view, 0)?.read(request)?;
    Ok(page.rows.iter().map(line).collect())
}

fn line(row: &EntryRow) -> String {
    let text = match &row.content {
        EntryContents::Row(ViewRowContents::Category { tally, .. }) => format!("[{}]", tally.name()),
        EntryContents::Row(ViewRowContents::Document { row, .. }) => {
            format!("{:?}", row.cells[row.cells.len() - 1].one(0))
        }
        EntryContents::FolderEntry(entry) => panic!("{entry:?} is no row of a view"),
    };
    format!("{} {text}", row.tumbler.as_ref().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn interrupted_search_of_hidden_rows_shows_no_row() {
    let mut orders = Vec::new();
    for number in 0..12 {
        let article = format!("{number:02}");
        orders.push(order("Able", &article, number % 3 > 0));
        orders.push(order("Baker", &article, true));
        orders.push(order("Clark\\East", &article, true));
        orders.push(order("Clark\\West", &article, number < 11));
    }
    let category = Column { categorized: true, ..sorted("Customer") };
    let (_world, database) = world(orders, vec![category, sorted("Article")]);
    let all = request(StartPosition::Beginning, Navigator::Next, 100);
    let (rows, calls) = until_complete(|pacer| read(&database, &all, pacer));
    let text = |article: &str| format!("Text({article:?})");
    let expected = [
        "1 [Able]".to_owned(),
        format!("1.1 {}", text("00")),
        format!("1.2 {}", text("03")),
        format!("1.3 {}", text("06")),
        format!("1.4 {}", text("09")),
        "2 [Clark]".to_owned(),
        "2.1 [West]".to_owned(),
        format!("2.1.1 {}", text("11")),
    ];
    assert_eq!(rows, expected);
    assert!(calls > 43, "each of the 43 hidden documents counts: {calls} calls");
    let (again, cached) = until_complete(|pacer| read(&database, &all, pacer));
    assert_eq!(again, expected);
    assert!(cached < calls, "the hidden rows are known: {cached} calls");
}

#[test]
fn long_runs_of_hidden_rows_are_skipped_in_both_directions() {
    let orders = (0..300).map(|number| order("", &format!("{number:03}"), number % 150 != 7)).collect();
    let (_world, database) = world(orders, vec![sorted("Article")]);
    let check = |start: StartPosition, navigator, expected: &[&str]| {
        let rows = read(&database, &request(start, navigator, 10), CallLimit::new(usize::MAX)).expect("a view");
        assert_eq!(rows, expected);
    };
    let rows = ["1 Text(\"007\")", "2 Text(\"157\")"];
    check(StartPosition::Beginning, Navigator::Next, &rows);
    check(StartPosition::End, Navigator::Previous, &[rows[1], rows[0]]);
    check(StartPosition::Position(1), Navigator::Next, &rows[1..]);
    check(StartPosition::Position(2), Navigator::Next, &[]);
}

#[test]
fn hidden_entries_of_a_folder_are_found_in_steps() {
    let (world, database) = world(Vec::new(), vec![sorted("Article")]);
    let filed = world.write(&database, ANN, |writer| {
        let folder = writer.folder_create("Filed", &[])?;
        for number in 0..40 {
            let note = order("", &number.to_string(), number != 30);
            writer.note_create(NewNote { folders: vec![folder], ..note })?;
        }
        Ok(folder)
    });
    let folder: ViewId = filed.expect("Ann manages the database");
    let access = reader(&database, BOB).expect("a reader");
    let (uids, calls) = until_complete(|pacer| {
        let reading = access.read()?.paced(pacer);
        let folder = reading.folder(folder)?;
        Ok([folder.uid_at(0)?, folder.uid_at(1)?].map(|uid| uid.map(|uid| uid.0)))
    });
    assert_eq!(uids, [Some(31), None]);
    assert!(calls >= 39, "each of the 39 hidden entries counts: {calls} calls");
}

#[test]
fn lists_of_notes_count_each_note() {
    let orders: Vec<NewNote> = (0..20).map(|number| order("", &number.to_string(), false)).collect();
    let (_world, database) = world(orders, vec![sorted("Article")]);
    let access = reader(&database, BOB).expect("a reader");
    let (count, calls) = until_complete(|pacer| {
        let reading = access.read()?.paced(pacer);
        let mut count = 0;
        reading.for_each_note(base::NoteId(0), &mut |header| {
            count += usize::from(header.class.is_document());
            Ok(true)
        })?;
        Ok(count)
    });
    assert_eq!(count, 20);
    assert!(calls >= 20, "{calls} calls");
}
