//! Views against a naive evaluation: whatever happens to the documents, the rows are those that sorting everything gives.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::sim::SeededRandom;
use base::{NoteId, Random, Unid, ViewId};
use formula::outcome::Responses;
use notes::collection::Reader;
use notes::evaluate::Subject;
use notes::item::ValueRef;
use notes::view::category::Tally;
use notes::view::cell::Cell;
use notes::view::design::{Clicks, Column, Total, ViewDesign};
use notes::view::index::Index;
use notes::view::question::{Answer, Question};
use notes::view::reader::{Shown, Tumbler, ViewReader, ViewRow};
use notes::view::row::Row;
use notes::view::sort_key::Order;
use notes::{Database, Item, NewNote, Value};
use store::{Direction, KeyRange};

use crate::world::World;

const ANN: &str = "Ann/Acme";
const KINDS: [&str; 6] = ["", "a", "A", "a\\b", "a\\b\\c", "d"];
const NAMES: [&str; 4] = ["x", "y", "Y", "z"];
const VIEW: ViewId = ViewId(1_000);

/// Takes documents with `Take=yes`; the columns are items.
struct ByItem {
    columns: Vec<String>,
    responses: Responses,
}

impl Question for ByItem {
    fn answer(&self, subject: &Subject<'_>) -> Answer {
        let cell = |name: &String| subject.value(name).map_or(Cell::None, Cell::of_item);
        let selected = matches!(subject.value("Take"), Some(ValueRef::Text("yes")));
        Answer { selected, cells: self.columns.iter().map(cell).collect() }
    }

    fn responses(&self) -> Responses {
        self.responses
    }
}

/// A document as the test remembers it.
#[derive(Clone, Debug)]
struct Document {
    note: NoteId,
    unid: Unid,
    parent: Option<Unid>,
    take: bool,
    kinds: Vec<&'static str>,
    name: &'static str,
    price: Option<f64>,
    sequence: u32,
}

impl Document {
    fn items(&self) -> Vec<Item> {
        let mut items = vec![
            Item::text("Take", if self.take { "yes" } else { "no" }),
            Item::summary("Kind", Value::TextList(self.kinds.iter().map(|kind| (*kind).to_owned()).collect())),
            Item::text("Name", self.name),
        ];
        items.extend(self.price.map(|price| Item::summary("Price", Value::Number(price))));
        items
    }
}

fn design(responses: bool, name_order: Order) -> ViewDesign {
    let column = |item: &str| Column { title: item.into(), item: item.into(), ..Column::default() };
    let up = Some(Order::Ascending);
    ViewDesign {
        responses,
        columns: vec![
            Column { sort: up, categorised: true, separate: true, ..column("Kind") },
            Column { sort: Some(name_order), clicks: Clicks { ascending: true, descending: false }, ..column("Name") },
            Column { total: Total::Sum, ..column("Price") },
        ],
        ..ViewDesign::default()
    }
}

/// A database, a view of it, and what should be in it.
struct Bench {
    world: World,
    database: Arc<Database>,
    index: Index,
    question: ByItem,
    documents: BTreeMap<NoteId, Document>,
    random: SeededRandom,
}

impl Bench {
    fn new(seed: u64, responses: bool, order: Order, inclusion: Responses) -> Self {
        let world = World::new();
        let database = world.database(&[]);
        let index = Index::new(database.number(), VIEW, design(responses, order));
        let columns = ["Kind", "Name", "Price"].map(str::to_owned).to_vec();
        let question = ByItem { columns, responses: inclusion };
        Self { world, database, index, question, documents: BTreeMap::new(), random: SeededRandom::new(seed) }
    }

    fn pick<T: Copy>(&self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn any_document(&self) -> Option<NoteId> {
        let notes: Vec<NoteId> = self.documents.keys().copied().collect();
        (!notes.is_empty()).then(|| self.pick(&notes))
    }

    fn draw(&self, document: &mut Document) {
        document.take = self.random.below(4) > 0;
        document.kinds = (0..self.random.below(3)).map(|_| self.pick(&KINDS)).collect();
        document.name = self.pick(&NAMES);
        document.price = (self.random.below(3) > 0).then(|| self.random.below(1_000) as f64 / 10.0);
    }

    fn step(&mut self) {
        match (self.random.below(10), self.any_document()) {
            (0..=1, Some(note)) => {
                self.world.write(&self.database, ANN, |writer| writer.note_delete(note)).expect("deleted");
                self.documents.remove(&note);
            }
            (2..=5, Some(note)) => {
                let mut document = self.documents[&note].clone();
                self.draw(&mut document);
                let items = document.items();
                let update =
                    |writer: &mut notes::Writer<'_, '_>| writer.note_update(note, document.sequence, &items, &[]);
                document.sequence = self.world.write(&self.database, ANN, update).expect("changed");
                self.documents.insert(note, document);
            }
            (6, _) => self.catch_up(),
            (7, _) => self.restart(),
            _ => self.create(),
        }
    }

    fn create(&mut self) {
        let parent = (self.random.below(2) == 0).then(|| self.any_document()).flatten();
        let parent = parent.map(|note| self.documents[&note].unid);
        let unid = Unid::generate(&self.random);
        let mut document = Document {
            note: NoteId(0),
            unid,
            parent,
            take: true,
            kinds: Vec::new(),
            name: "x",
            price: None,
            sequence: 1,
        };
        self.draw(&mut document);
        let new = NewNote { unid: Some(unid), parent, ..NewNote::document(document.items()) };
        document.note = self.world.write(&self.database, ANN, |writer| writer.note_create(new)).expect("made");
        self.documents.insert(document.note, document);
    }

    /// Applies everything, a few changes at a time.
    fn catch_up(&self) {
        while !self.index.catch_up(&self.database, &self.question, 3).expect("the index is sound").complete {}
    }

    /// Everything in memory is lost; the index is on the disk or late.
    fn restart(&mut self) {
        self.world = self.world.restarted();
        self.database = self.world.notes.database_open("docs.nsf").expect("it is there");
    }

    /// The rows of an order as text, with what categories count.
    fn rows(&self, collation: usize) -> Vec<String> {
        let snapshot = self.world.notes.store().snapshot().expect("a snapshot");
        let rows = Reader::open(&snapshot, self.index.rows(collation)).expect("rows");
        let categories = Reader::open(&snapshot, self.index.categories(collation)).expect("categories");
        let mut scan = rows.scan(&KeyRange::all(), Direction::Forward).expect("a scan");
        let mut lines = Vec::new();
        while let Some((key, value)) = scan.next().expect("sound") {
            lines.push(match Row::decode(value).expect("a row") {
                Row::Category => {
                    let path = &key[..key.len() - 1];
                    let above = self.index.keys(collation).paths_above(key).expect("a key").len();
                    let record =
                        categories.find(&[&[above as u8 + 1], path].concat()).expect("sound").expect("a record");
                    category_line(above, &Tally::decode(&record).expect("a record"))
                }
                Row::Document(row) => format!("{}{}", "  ".repeat(usize::from(row.response_level) + 4), row.unid),
            });
        }
        let total = categories
            .find(&[0])
            .expect("sound")
            .map_or_else(|| Tally::new(1), |record| Tally::decode(&record).expect("a record"));
        lines.push(format!("{} {}", total.documents, total.totals[0].sum.value()));
        lines
    }
}

fn category_line(above: usize, tally: &Tally) -> String {
    format!("{}[{}] {} {}", "  ".repeat(above), tally.name(), tally.documents, tally.totals[0].sum.value())
}

/// Tells how many rows are above a row: categories, and documents that it answers.
fn depth_of(row: &ViewRow, before: &[ViewRow]) -> usize {
    match &row.shown {
        Shown::Category { level, .. } => usize::from(*level),
        Shown::Document { row, .. } => {
            let category = before.iter().rev().find_map(|row| match row.shown {
                Shown::Category { level, .. } => Some(usize::from(level)),
                Shown::Document { .. } => None,
            });
            category.unwrap_or(0) + 1 + usize::from(row.response_level)
        }
    }
}

/// Numbers the rows among their siblings by their indentation alone, and compares with what the tree of counts says, both ways.
fn check_places(bench: &Bench, lines: &[String]) {
    let snapshot = bench.world.notes.store().snapshot().expect("a snapshot");
    let reader = ViewReader::open(&snapshot, &bench.index, 0).expect("a view");
    let rows = reader.page(0, 1_000).expect("rows");
    assert_eq!(rows.len() as u64, reader.count().expect("a count"));
    assert_eq!(rows.len() + 1, lines.len());
    // What stands above the next row: its depth, and how many rows beneath it were numbered.
    let mut above: Vec<(usize, u64)> = vec![(0, 0)];
    for (position, row) in rows.iter().enumerate() {
        let depth = depth_of(row, &rows[..position]);
        above.truncate(depth);
        above.last_mut().expect("the view itself").1 += 1;
        let expected = Tumbler(above.iter().map(|(_, number)| *number).collect());
        above.push((depth, 0));
        assert_eq!(reader.tumbler(&row.key).expect("a place"), expected, "{lines:#?}");
        assert_eq!(reader.at(&expected).expect("a row").as_ref(), Some(&row.key), "{expected}");
        assert_eq!(reader.position(&row.key).expect("a position"), position as u64);
        assert_eq!(reader.find(&row.key).expect("a row").as_ref(), Some(row));
    }
    assert_eq!(reader.at(&Tumbler(vec![1_000])).expect("sound"), None);
}

/// The same rows from the documents alone.
struct Naive<'b> {
    bench: &'b Bench,
    descending: bool,
    lines: Vec<String>,
}

/// A category while it is put together: sub-categories by their folded name, the documents, and what it is called.
#[derive(Default)]
struct Folder<'b> {
    below: BTreeMap<String, Folder<'b>>,
    documents: Vec<&'b Document>,
    names: Vec<&'static str>,
}

impl<'b> Naive<'b> {
    fn of(bench: &'b Bench, descending: bool) -> Vec<String> {
        let mut naive = Self { bench, descending, lines: Vec::new() };
        let mut root = Folder::default();
        for document in bench.documents.values().filter(|document| naive.is_taken(document)) {
            if bench.index.design().responses && document.parent.is_some() {
                continue;
            }
            let kinds = if document.kinds.is_empty() { vec![""] } else { document.kinds.clone() };
            for kind in kinds {
                let mut folder = &mut root;
                for part in kind.split('\\') {
                    folder = folder.below.entry(part.to_lowercase()).or_default();
                    folder.names.push(part);
                }
                folder.documents.push(document);
            }
        }
        let prices = naive.folder(&root, None);
        let total = naive.sum(&prices);
        naive.lines.push(total);
        naive.lines
    }

    /// Writes what is in a folder; gives the prices of all rows.
    fn folder(&mut self, folder: &Folder<'b>, depth: Option<usize>) -> Vec<Option<f64>> {
        let place = self.lines.len();
        let mut prices = Vec::new();
        self.documents(folder.documents.clone(), 0, &mut prices);
        for below in folder.below.values() {
            prices.extend(self.folder(below, Some(depth.map_or(0, |depth| depth + 1))));
        }
        if let Some(depth) = depth {
            let name = folder.names.iter().min().expect("a folder has a name");
            let sum = self.sum(&prices);
            self.lines.insert(place, format!("{}[{name}] {sum}", "  ".repeat(depth)));
        }
        prices
    }

    fn documents(&mut self, mut documents: Vec<&'b Document>, level: usize, prices: &mut Vec<Option<f64>>) {
        documents.sort_by(|one, other| {
            let by_name = one.name.to_lowercase().cmp(&other.name.to_lowercase());
            let by_name = if self.descending { by_name.reverse() } else { by_name };
            by_name.then(one.note.cmp(&other.note))
        });
        for document in documents {
            self.lines.push(format!("{}{}", "  ".repeat(level + 4), document.unid));
            prices.push(document.price);
            if self.bench.index.design().responses && level < 31 {
                let taken = |other: &&Document| other.parent == Some(document.unid) && self.is_taken(other);
                self.documents(self.bench.documents.values().filter(taken).collect(), level + 1, prices);
            }
        }
    }

    fn is_taken(&self, document: &Document) -> bool {
        let parent = || self.bench.documents.values().find(|other| Some(other.unid) == document.parent);
        let with_parent = || match self.bench.question.responses {
            Responses::None => false,
            Responses::Children => parent().is_some_and(|parent| parent.take && self.is_shown(parent)),
            Responses::Descendants => parent().is_some_and(|parent| self.is_shown(parent)),
        };
        document.take || with_parent()
    }

    /// Whether it has a row: a response has none where its parent has none.
    fn is_shown(&self, document: &Document) -> bool {
        let parent = || self.bench.documents.values().find(|other| Some(other.unid) == document.parent);
        let has_place = !self.bench.index.design().responses
            || document.parent.is_none()
            || parent().is_some_and(|parent| self.is_shown(parent));
        has_place && self.is_taken(document)
    }

    /// Adds as the reals do: the prices are tenths.
    fn sum(&self, prices: &[Option<f64>]) -> String {
        let mut exact = notes::view::exact_sum::ExactSum::default();
        prices.iter().flatten().for_each(|price| exact.add(*price));
        format!("{} {}", prices.len(), exact.value())
    }
}

#[test]
fn rows_are_those_of_a_naive_evaluation_whatever_happens() {
    for seed in 0..60 {
        let random = SeededRandom::new(seed);
        let order = if random.below(2) == 0 { Order::Ascending } else { Order::Descending };
        let inclusion = [Responses::None, Responses::Children, Responses::Descendants][random.below(3) as usize];
        let mut bench = Bench::new(seed, random.below(3) > 0, order, inclusion);
        for step in 0..80 {
            bench.step();
            if step % 8 == 7 {
                bench.catch_up();
                let lines = bench.rows(0);
                assert_eq!(lines, Naive::of(&bench, order == Order::Descending), "seed {seed}, step {step}");
                check_places(&bench, &lines);
            }
        }
        (0..bench.documents.len()).for_each(|_| {
            let note = bench.any_document().expect("some are left");
            bench.world.write(&bench.database, ANN, |writer| writer.note_delete(note)).expect("deleted");
            bench.documents.remove(&note);
        });
        bench.catch_up();
        assert_eq!(bench.rows(0), ["0 0"], "nothing is left of what is gone");
        assert_eq!(bench.rows(1), ["0 0"]);
    }
}
