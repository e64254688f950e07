//! Benchmark of views on the real engine: building, opening, reading and updating.
//!
//! `cargo run --release -p notes --example view_cost [-- [DOCUMENTS] [FOLDER] [--json] [--only
//! build|read|update|readers|rebuild] [--ram FOLDER]]`
//!
//! Creates one database with `DOCUMENTS` documents (default 1,000,000) of about ten items each and one with 1,000, and
//! measures on one thread:
//!
//! - building a view with three sorted columns, in documents per second;
//! - opening such a view and reading the first 50 entries, 50 entries at a random position, and 50 entries from a known
//!   key on;
//! - saving a document while five views of the database are kept up to date, in the large database and in the small
//!   one;
//! - building the same view again in a database with 4 KB per document, sorted on the disk and in a memory file system
//!   (`--ram FOLDER`, default `/dev/shm`), in turns;
//! - reading all collapsed categories with their totals, of 1,000 categories;
//! - saving a document and reading a page of a view with totals, as a user who may not read one document in twenty (in
//!   a database with a tenth as many documents).
//!
//! The throughput of builds is reported per elapsed second and per second of processor time. Latencies are elapsed
//! time. The store is synced only at the end of each load and in the measurement of durable updates.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base::sim::SeededRandom;
use base::{Clock, Name, NoteId, Random, Timestamp};
use notes::view::build::{BuildOptions, BuildReport};
use notes::view::navigate::{Navigator, RowExpansion};
use notes::view::note::ViewNote;
use notes::view::read_entries::{EntriesRequest, EntryReader, EntryRow, ReadMask, StartPosition};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, Total, ViewDesign};
use notes::{Access, Acl, Database, DatabaseKind, Databases, Identity, Item, ItemValue, NewDatabase, NewNote, level};
use store::{KeyRange, Store, StoreOptions, Table, Ticket};

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SMALL: u32 = 1_000;
const CATEGORIES: u64 = 1_000;
const READS: usize = 2_000;
const UPDATES: usize = 2_000;
/// Size of a body in bytes, in the database that has bodies.
const BODY_BYTES: usize = 4_000;

struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_700_000_000)
    }

    fn monotonic(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

fn items(random: &SeededRandom, number: u64) -> Vec<Item> {
    let pick = |words: &[&str]| words[random.below(words.len() as u64) as usize].to_owned();
    let category = format!("Customer {:04}", random.below(CATEGORIES));
    let subject = format!(
        "{} {} of {} number {number}",
        pick(&["Minutes", "Offer", "Order", "Contract", "Invoice", "Complaint", "Plan", "Review"]),
        pick(&["draft", "copy", "final version", "summary"]),
        pick(&["Paris", "London", "Zürich", "Malmö", "Kraków", "Boston", "Kyoto"]),
    );
    vec![
        Item::text("Form", if random.below(10) == 0 { "Memo" } else { "Order" }),
        Item::text("Subject", subject),
        Item::text("Customer", category),
        Item::text("From", format!("CN=User {:05}/OU=Sales/O=Acme", random.below(20_000))),
        Item::text("Status", pick(&["open", "closed", "waiting", "lost"])),
        Item::summary("Price", ItemValue::Number(random.below(1_000_000) as f64 / 100.0)),
        Item::summary(
            "Date",
            ItemValue::Time(Timestamp::from_seconds(1_600_000_000 + random.below(100_000_000) as i64)),
        ),
        Item::summary("Categories", ItemValue::TextList(vec![pick(&["a", "b", "c"]), pick(&["d", "e"])])),
        Item::text("SendTo", "CN=Somebody Else/OU=Sales/O=Acme"),
        Item::text("$UpdatedBy", "CN=Ann Smith/OU=Sales/O=Acme"),
    ]
}

/// Returns a random text that hardly compresses.
fn text_of(random: &SeededRandom, bytes: usize) -> String {
    let mut drawn = vec![0; bytes];
    random.fill(&mut drawn);
    drawn.iter().map(|byte| char::from(b' ' + byte % 64)).collect()
}

fn sorted(item: &str, order: SortDirection) -> Column {
    Column { title: item.into(), item: item.into(), sort: Some(order), ..Column::default() }
}

fn plain(item: &str) -> Column {
    Column { title: item.into(), item: item.into(), ..Column::default() }
}

fn view(title: &str, columns: Vec<Column>) -> ViewNote {
    let design = ViewDesign { columns, ..ViewDesign::default() };
    let selection = "SELECT Form = \"Order\" | Form = \"Memo\"".to_owned();
    ViewNote { title: title.into(), selection, design, ..ViewNote::default() }
}

/// Returns the views of each database. The first has three sorted columns, the second has categories with totals.
fn views() -> Vec<ViewNote> {
    let up = SortDirection::Ascending;
    let down = SortDirection::Descending;
    let category = Column { categorized: true, ..sorted("Customer", up) };
    let price = Column { total: Total::Sum, ..plain("Price") };
    vec![
        view("Three", vec![sorted("From", up), sorted("Date", down), sorted("Subject", up), plain("Price")]),
        view("Totals", vec![category, sorted("Subject", up), price]),
        view("By Date", vec![sorted("Date", down), plain("Subject"), plain("From")]),
        view("By Status", vec![sorted("Status", up), sorted("Price", down), plain("Subject")]),
        view("By Subject", vec![sorted("Subject", up), plain("Date")]),
    ]
}

struct Bench {
    databases: Arc<Databases>,
    random: SeededRandom,
    options: BuildOptions,
    results: Vec<(String, f64, &'static str)>,
}

/// A database with its views.
struct BenchDatabase {
    access: Access<level::Manager>,
    views: Vec<NoteId>,
    count: u32,
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
impl Bench {
    fn report(&mut self, name: &str, value: f64, unit: &'static str) {
        eprintln!("{name:<60} {value:>12.3} {unit}");
        self.results.push((name.to_owned(), value, unit));
    }

    fn load(&mut self, path: &str, count: u32) -> BenchDatabase {
        self.load_with(path, count, 0)
    }

    /// Creates a database with its views, whose documents have bodies of `body_bytes` bytes.
    fn load_with(&mut self, path: &str, count: u32, body_bytes: usize) -> BenchDatabase {
        let acl = Acl::private(&Name::new("Ann/Acme"));
        let database = self.databases.database_create(&NewDatabase::new(path, path, DatabaseKind::Standard, acl));
        let database: Arc<Database> = database.expect("a database");
        let access: Access<level::Manager> =
            database.authorize(&Arc::new(Identity::local_server("CN=bench/O=Acme"))).expect("the server itself");
        let writing = access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let started = Instant::now();
        let mut made = 0;
        while made < count {
            let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
            for _ in 0..(count - made).min(500) {
                let mut new = NewNote::document(items(&self.random, u64::from(made)));
                if body_bytes > 0 {
                    new.items.push(Item::body("Body", ItemValue::RichText(text_of(&self.random, body_bytes))));
                }
                transaction.writer(0).note_create(new).expect("a document");
                made += 1;
            }
            transaction.commit().expect("committed");
        }
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        let views = views().iter().map(|view| transaction.writer(0).view_create(view).expect("a view")).collect();
        let ticket = transaction.commit().expect("committed");
        self.databases.store().durable(ticket).wait().expect("durable");
        eprintln!("{count} documents in {:.1} s", started.elapsed().as_secs_f64());
        // Compacts the engine here, so that its background work after the load does not count as view cost.
        let all = KeyRange::all();
        Table::ALL.iter().for_each(|table| self.databases.store().engine().compact(*table, &all).expect("compacted"));
        BenchDatabase { access, views, count }
    }

    /// Builds all views three times, in turns, and reports the medians.
    fn build(&mut self, place: &BenchDatabase) {
        let mut elapsed = vec![Samples::default(); place.views.len()];
        let mut processor = elapsed.clone();
        let mut spilled = Vec::new();
        for _ in 0..3 {
            spilled.clear();
            for (number, note) in place.views.iter().enumerate() {
                let started = Instant::now();
                let before = processor_seconds();
                spilled.push(self.build_one(place, *note, &self.options.folder).spilled_bytes);
                elapsed[number].add(started);
                processor[number].0.push((processor_seconds() - before) * 1e3);
            }
        }
        for (number, view) in views().iter().enumerate() {
            let name = format!("build of view {:?}", view.title);
            let a_second = |samples: &Samples| f64::from(place.count) / samples.percentile(50) * 1e3;
            self.report(&format!("{name}, documents a second"), a_second(&elapsed[number]), "/s");
            self.report(&format!("{name}, documents a processor second"), a_second(&processor[number]), "/s");
            self.report(&format!("{name}, sorted outside of memory"), spilled[number] as f64 / 1e6, "MB");
        }
    }

    fn build_one(&self, place: &BenchDatabase, view: NoteId, folder: &Path) -> BuildReport {
        let options = BuildOptions { folder: folder.to_owned(), ..self.options.clone() };
        let built = place.access.view_rebuild(view, &options, &mut |_, _| ControlFlow::Continue(()));
        let built = built.expect("built").expect("nobody else builds");
        assert_eq!(built.documents, u64::from(place.count));
        built
    }

    fn read(&mut self, place: &BenchDatabase) {
        let reader = place.access.downgrade::<level::Reader>();
        let last = u64::from(place.count) - 50;
        let read = |start| rows_of(&reader, place.views[0], &first_page(start));
        let keys: Vec<Vec<u8>> =
            (0..READS).map(|_| read(StartPosition::Position(self.random.below(last))).swap_remove(0).key).collect();
        let mut samples = [Samples::default(), Samples::default(), Samples::default()];
        for number in 0..READS + READS / 10 {
            let key = keys[self.random.below(READS as u64) as usize].clone();
            let behind_key = EntriesRequest { mask: ReadMask::default(), ..first_page(StartPosition::Key(key)) };
            let position = first_page(StartPosition::Position(self.random.below(last)));
            for (samples, request) in
                samples.iter_mut().zip([first_page(StartPosition::Beginning), position, behind_key])
            {
                let started = Instant::now();
                assert_eq!(rows_of(&reader, place.views[0], &request).len(), 50);
                // The first reads load pages into the engine's cache and do not measure the view, so they are not
                // counted.
                if number >= READS / 10 {
                    samples.add(started);
                }
            }
        }
        let size = place.count;
        let names = ["open and first 50 entries", "50 entries at a random position", "50 entries from a known key on"];
        for (name, samples) in names.iter().zip(samples) {
            self.report(&format!("{name}, of {size}: median"), samples.percentile(50), "ms");
            self.report(&format!("{name}, of {size}: 99th percentile"), samples.percentile(99), "ms");
        }
    }

    fn collapsed(&mut self, place: &BenchDatabase) {
        let reader = place.access.downgrade::<level::Reader>();
        let mut samples = Samples::default();
        let expansion = Arc::new(RowExpansion::none_but(Default::default()).expect("none"));
        for _ in 0..READS / 10 {
            let started = Instant::now();
            let request = EntriesRequest {
                start: StartPosition::Beginning,
                skip: (Navigator::Current, 0),
                navigator: Navigator::NextExpanded,
                limit: 10_000,
                expansion: Arc::clone(&expansion),
                mask: ReadMask::default(),
            };
            assert_eq!(rows_of(&reader, place.views[1], &request).len() as u64, CATEGORIES);
            samples.add(started);
        }
        self.report("1,000 collapsed categories with totals: median", samples.percentile(50), "ms");
    }

    /// Saves a random document with new items. Returns the start time, and the ticket to wait on until the change is
    /// durable.
    fn save_random(&self, place: &BenchDatabase, number: u64) -> (Instant, Ticket) {
        let note = NoteId(2 + self.random.below(u64::from(place.count)) as u32);
        let new = items(&self.random, number);
        self.save(place, note, &new)
    }

    fn save(&self, place: &BenchDatabase, note: NoteId, items: &[Item]) -> (Instant, Ticket) {
        let writing = place.access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let started = Instant::now();
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        let mut writer = transaction.writer(0);
        let sequence = writer.note(note).expect("sound").expect("there").header.sequence;
        writer.note_update(note, sequence, items, &[]).expect("saved");
        (started, transaction.commit().expect("committed"))
    }

    /// Saves documents, and reads the first entries of the view with three columns after each.
    fn save_and_read(&mut self, place: &BenchDatabase) {
        let mut samples = Samples::default();
        for number in 0..UPDATES {
            let (started, _) = self.save_random(place, number as u64);
            assert_eq!(
                rows_of(&place.access.downgrade(), place.views[0], &first_page(StartPosition::Beginning)).len(),
                50
            );
            samples.add(started);
        }
        self.report("a document saved and the first 50 entries read: median", samples.percentile(50), "ms");
    }

    /// Builds a view of a database with bodies, once sorted on the disk and once in memory.
    fn rebuild(&mut self, count: u32, ram: &Path) {
        if !ram.is_dir() {
            eprintln!("there is no {}: the build with a memory file system is left out", ram.display());
            return;
        }
        let place = self.load_with("big.nsf", count, BODY_BYTES);
        let folders = [("on the disk", self.options.folder.clone()), ("in memory", ram.join("view_cost"))];
        let mut samples = [Samples::default(), Samples::default()];
        for _ in 0..3 {
            for ((_, folder), samples) in folders.iter().zip(&mut samples) {
                let started = Instant::now();
                self.build_one(&place, place.views[0], folder);
                samples.add(started);
            }
        }
        for ((name, folder), samples) in folders.iter().zip(&samples) {
            if folder.is_dir() {
                std::fs::remove_dir_all(folder).expect("nothing is left in it");
            }
            let seconds = samples.percentile(50) / 1e3;
            let size = f64::from(count) * BODY_BYTES as f64 / 1e9;
            self.report(&format!("rebuild of a view of {size:.0} GB, sorted {name}: median"), seconds, "s");
        }
    }

    /// Saves documents in a database in which one document in ten has Readers items. After each save, it reads a page
    /// of a view with totals, as a user who may read half of the restricted documents.
    fn readers(&mut self, count: u32) {
        let place = self.load("restricted.nsf", count);
        for number in (0..count).step_by(10) {
            let team = format!("CN=Team {:02}/O=Acme", number / 10 % 100);
            let names = if number / 10 % 2 == 0 { vec![team] } else { vec![team, "CN=Bob/O=Acme".to_owned()] };
            let items = [items(&self.random, u64::from(number)), vec![Item::readers("Readers", names)]].concat();
            self.save(&place, NoteId(2 + number), &items);
        }
        for view in &place.views {
            self.build_one(&place, *view, &self.options.folder);
        }
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.entries.push(notes::AclEntry::new("Bob/Acme", notes::AclLevel::Reader));
        let writing = place.access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = self.databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).acl_set(acl).expect("set");
        transaction.commit().expect("committed");
        let bob: Access<level::Reader> =
            place.access.database().authorize(&Arc::new(Identity::person("Bob/Acme"))).expect("a reader");
        let mut samples = Samples::default();
        for number in 0..READS / 10 {
            let (started, _) = self.save_random(&place, number as u64);
            let position = self.random.below(u64::from(count) * 9 / 10);
            assert_eq!(rows_of(&bob, place.views[1], &first_page(StartPosition::Position(position))).len(), 50);
            samples.add(started);
        }
        let name = format!("a document saved and 50 entries read, {} of {count} hidden", count / 20);
        self.report(&format!("{name}: median"), samples.percentile(50), "ms");
    }

    /// Saves documents while all views are kept up to date, with and without waiting for the disk.
    fn update(&mut self, places: &[&BenchDatabase]) {
        let mut samples = vec![[Samples::default(), Samples::default()]; places.len()];
        for number in 0..2 * UPDATES {
            let waits = number % 2;
            for (place, samples) in places.iter().zip(&mut samples) {
                let (started, ticket) = self.save_random(place, number as u64);
                for view in &place.views {
                    place.access.view_refresh(*view, 100).expect("refreshed");
                }
                if waits == 1 {
                    self.databases.store().durable(ticket).wait().expect("durable");
                }
                samples[waits].add(started);
            }
        }
        for (waits, what) in [(0, "update"), (1, "durable update")] {
            let medians: Vec<f64> = samples.iter().map(|samples| samples[waits].percentile(50)).collect();
            let means: Vec<f64> = samples.iter().map(|samples| samples[waits].mean()).collect();
            for (place, (median, mean)) in places.iter().zip(medians.iter().zip(&means)) {
                self.report(&format!("{what} with 5 views of {}: median", place.count), *median, "ms");
                self.report(&format!("{what} with 5 views of {}: mean", place.count), *mean, "ms");
            }
            self.report(&format!("{what}, large against small: medians"), medians[0] / medians[1], "x");
            self.report(&format!("{what}, large against small: means"), means[0] / means[1], "x");
        }
    }
}

/// Brings a view up to date and returns entries of it.
fn rows_of(access: &Access<level::Reader>, view: NoteId, request: &EntriesRequest) -> Vec<EntryRow> {
    let progress = access.view_refresh(view, 100).expect("refreshed");
    assert!(progress.complete, "little changes meanwhile");
    let reading = access.read().expect("a snapshot");
    let view = reading.view(view).expect("a view");
    let entries = EntryReader::open(&reading, &view, 0).expect("rows");
    entries.read(request).expect("sound").rows
}

/// Returns a request for 50 entries with their places.
fn first_page(start: StartPosition) -> EntriesRequest {
    EntriesRequest {
        start,
        skip: (Navigator::Current, 0),
        navigator: Navigator::Next,
        limit: 50,
        expansion: Arc::default(),
        mask: ReadMask { tumbler: true, ..ReadMask::default() },
    }
}

#[derive(Clone, Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn add(&mut self, started: Instant) {
        self.0.push(started.elapsed().as_secs_f64() * 1e3);
    }

    fn percentile(&self, percent: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[(sorted.len() - 1) * percent / 100]
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

/// Returns the processor time of this process, in seconds.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux reports the CPU time of a process");
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    fields[11..13].iter().filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let behind = |name: &str| arguments.iter().position(|argument| argument == name).map(|at| at + 1);
    let only = behind("--only");
    let ram = behind("--ram");
    let does = |work: &str| only.is_none_or(|at| arguments[at] == work);
    let is_plain = |at: usize, argument: &str| ![only, ram].contains(&Some(at)) && !argument.starts_with("--");
    let plain = arguments.iter().enumerate().filter(|(at, argument)| is_plain(*at, argument));
    let plain: Vec<&String> = plain.map(|(_, argument)| argument).collect();
    let ram = ram.map_or_else(|| PathBuf::from("/dev/shm"), |at| PathBuf::from(&arguments[at]));
    let count = plain.first().map_or(1_000_000, |count| count.parse().expect("a number of documents"));
    let folder = tempfile::tempdir().expect("a folder");
    let store = plain.get(1).map_or_else(|| folder.path().to_owned(), PathBuf::from);
    let databases = open(&store.join("store"));
    let options = BuildOptions { folder: store.join("sort"), memory: 64 << 20 };
    let mut bench = Bench { databases, random: SeededRandom::new(7), options, results: Vec::new() };
    let small = bench.load("small.nsf", SMALL);
    let large = bench.load("large.nsf", count);
    for view in &small.views {
        bench.build_one(&small, *view, &bench.options.folder);
    }
    bench.build(&large);
    if does("read") {
        bench.read(&small);
        bench.read(&large);
        bench.collapsed(&large);
    }
    if does("rebuild") {
        bench.rebuild(count, &ram);
    }
    if does("readers") {
        bench.readers(count / 10);
    }
    if does("update") {
        bench.update(&[&large, &small]);
        bench.save_and_read(&large);
    }
    if arguments.iter().any(|argument| argument == "--json") {
        let fields: Vec<String> =
            bench.results.iter().map(|(name, value, _)| format!("  {:?}: {value}", name.replace('"', "'"))).collect();
        println!("{{\n{}\n}}", fields.join(",\n"));
    }
}

fn open(folder: &Path) -> Arc<Databases> {
    let store = Arc::new(Store::open(folder, &StoreOptions::default()).expect("a store"));
    Databases::open(store, Arc::new(MachineClock), Arc::new(SeededRandom::new(1)))
}
