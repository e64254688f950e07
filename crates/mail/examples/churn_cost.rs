//! Benchmark of churn: every operation on fresh data, and on the same data after much has passed through it.
//!
//! `cargo run --release -p mail --example churn_cost [-- [PASSES] [--json]]`
//!
//! Opens two stores and fills them with the same data: a queue of 1,000 waiting messages, a database of 1,000 documents
//! with a view, and a folder of 10,000 messages. Before that, the second store gets a history (`PASSES` is 100 unless
//! given): 200 messages pass through the queue for each pass; each pass changes all documents so that they move in the
//! view; and the folder's messages are the younger half of 20,000, of which the older half was deleted.
//!
//! Then both stores are opened again, because the cache of recent writes would hold all of the fresh data and only the
//! end of the history. Each operation runs in turns on both stores, on one thread and without syncs. The first tenth of
//! the turns is not counted: the first scan of a range steps over what was deleted there since the last one. Reported
//! are the medians of the elapsed times, before and after a compaction of both stores, and the tombstones that all
//! counted operations stepped over.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::sim::SeededRandom;
use base::{Clock, Modseq, Name, NoteId, Random, Timestamp, Uid, ViewId};
use mail::mailbox::{MailOptions, MailStore};
use mail::router::{AddressResolver, DeliveryTarget, Envelope, Recipient, Router, RouterOptions, TransferOutcome};
use notes::view::navigate::{Navigator, RowExpansion};
use notes::view::note::ViewNote;
use notes::view::read_entries::{EntriesRequest, EntryReader, ReadMask, StartPosition};
use notes::view::sort_key::SortDirection;
use notes::view::view_format::{Column, ViewDesign};
use notes::{
    Access, Acl, Database, DatabaseKind, Databases, FolderEntry, Identity, Item, ItemValue, NewDatabase, NewNote,
    Writer, level,
};
use store::rocks::tombstones_passed;
use store::{KeyRange, Store, StoreOptions, SyncMode, Table};

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DOCUMENTS_PATH: &str = "documents.nsf";
const MAILBOX_PATH: &str = "mailbox.nsf";
const DOCUMENTS: u32 = 1_000;
const FOLDER_MESSAGES: u32 = 10_000;
const QUEUED_MESSAGES: u32 = 1_000;
/// Messages that pass through the queue in each pass.
const PASSING_MESSAGES: u32 = 200;
/// Changes of one transaction while a history is made.
const CHANGES_PER_TRANSACTION: usize = 50;
const PAGE: usize = 50;
/// Number of the last changes that a reader asks for.
const LAST_CHANGES: u64 = 20;
const TURNS: usize = 1_000;
const MESSAGE: &[u8] = b"From: a@here.test\r\nTo: b@away.test\r\nSubject: passing\r\n\r\nA text of one line.\r\n";

/// A resolver for which every address is at another server.
struct RemoteOnly;

impl AddressResolver for RemoteOnly {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        Ok(vec![DeliveryTarget::Remote(address.to_owned())])
    }
}

struct MachineClock(Instant);

impl Clock for MachineClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_767_225_600).after(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A database and everything that the operations need of it.
struct BenchDatabase {
    access: Access<level::Manager>,
    /// The documents, or the messages of the folder.
    notes: Vec<NoteId>,
    /// The view or the folder.
    view: NoteId,
}

/// The places of the data in a store.
struct Contents {
    documents: Vec<NoteId>,
    view: NoteId,
    messages: Vec<NoteId>,
    folder: NoteId,
}

/// One store with its queue and its databases.
struct Server {
    _folder: tempfile::TempDir,
    databases: Arc<Databases>,
    mail: Arc<MailStore>,
    router: Arc<Router>,
    random: SeededRandom,
    documents: BenchDatabase,
    mailbox: BenchDatabase,
}

/// The two stores.
struct Pair {
    fresh: Server,
    churned: Server,
}

/// The times of one operation in microseconds, and the tombstones that it stepped over.
#[derive(Default)]
struct Samples {
    times: Vec<f64>,
    tombstones: u64,
}

/// An operation and its figures on fresh data and after churn.
struct Comparison {
    name: String,
    medians: [f64; 2],
    tombstones: [u64; 2],
}

impl Server {
    /// Fills a store after `passes` passes of history, and opens it again.
    fn new(passes: u32) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let random = SeededRandom::new(2);
        // The clock goes on when the store is opened again.
        let clock = Arc::new(MachineClock(started()));
        let contents = fill(open_store(folder.path(), &clock), &random, passes);
        let databases = open_store(folder.path(), &clock);
        let mail = MailStore::new(Arc::clone(&databases), MailOptions::default());
        let router = open_queue(&mail);
        let database = |path: &str, found: Vec<NoteId>, view: NoteId| {
            let access = manager(&databases.database_open(path).expect("a database"));
            BenchDatabase { access, notes: found, view }
        };
        let documents = database(DOCUMENTS_PATH, contents.documents, contents.view);
        let mailbox = database(MAILBOX_PATH, contents.messages, contents.folder);
        Self { _folder: folder, databases, mail, router, random, documents, mailbox }
    }

    fn pass_message(&self) {
        pass_message(&self.router);
    }

    fn open_queue(&self) {
        assert_eq!(open_queue(&self.mail).counts().messages, QUEUED_MESSAGES as usize);
    }

    fn read_changes(&self, last: Option<u64>) {
        let reader = self.documents.access.downgrade::<level::Reader>();
        let reading = reader.read().expect("a snapshot");
        let since = Modseq(last.map_or(0, |last| reading.modseq().0 - last));
        let mut count = 0;
        let each = &mut |_| {
            count += 1;
            Ok(())
        };
        reading.changes(since, each).expect("sound");
        assert!(count >= last.unwrap_or(u64::from(DOCUMENTS)), "{count} changes");
    }

    fn read_rows(&self, start: StartPosition) {
        let reader = self.documents.access.downgrade::<level::Reader>();
        assert!(reader.view_refresh(self.documents.view, PAGE).expect("refreshed").complete);
        let reading = reader.read().expect("a snapshot");
        let view = reading.view(self.documents.view).expect("the view");
        let request = EntriesRequest {
            start,
            skip: (Navigator::Current, 0),
            navigator: Navigator::Next,
            limit: PAGE,
            expansion: Arc::new(RowExpansion::default()),
            mask: ReadMask { tumbler: true, ..ReadMask::default() },
        };
        let entries = EntryReader::open(&reading, &view, 0).expect("rows");
        assert_eq!(entries.read(&request).expect("sound").rows.len(), PAGE);
    }

    fn random_position(&self) -> StartPosition {
        StartPosition::Position(self.random.below(u64::from(DOCUMENTS) - PAGE as u64))
    }

    /// Changes a document so that it moves in the view, and reads rows.
    fn move_and_read(&self) {
        let note = self.documents.notes[self.random.below(u64::from(DOCUMENTS)) as usize];
        move_documents(&self.databases, &self.random, &self.documents.access, &[note]);
        self.read_rows(self.random_position());
    }

    /// Reads counts, and positions at both ends and in the middle of the folder.
    fn read_positions(&self) {
        let reader = self.mailbox.access.downgrade::<level::Reader>();
        let reading = reader.read().expect("a snapshot");
        let folder = reading.folder(ViewId(self.mailbox.view.0)).expect("the folder");
        let count = folder.totals().expect("sound").count;
        assert_eq!(count, u64::from(FOLDER_MESSAGES));
        for position in [0, count / 2, count - 1] {
            let uid = folder.uid_at(position).expect("sound").expect("a message");
            assert_eq!(folder.rank(uid).expect("sound"), position);
        }
        assert!(folder.unseen_at(0).expect("sound").is_some());
    }

    /// Reads the oldest entries of the folder.
    fn read_oldest_entries(&self) {
        let reader = self.mailbox.access.downgrade::<level::Reader>();
        let reading = reader.read().expect("a snapshot");
        let folder = reading.folder(ViewId(self.mailbox.view.0)).expect("the folder");
        let mut found = Vec::with_capacity(PAGE);
        let each = &mut |entry: FolderEntry| {
            found.push(entry.note);
            Ok(found.len() < PAGE)
        };
        folder.for_each_entry(Uid(1), each).expect("sound");
        assert_eq!(found, self.mailbox.notes[..PAGE]);
    }

    fn compact(&self) {
        let all = KeyRange::all();
        Table::ALL.iter().for_each(|table| self.databases.store().engine().compact(*table, &all).expect("compacted"));
    }
}

fn open_store(folder: &Path, clock: &Arc<MachineClock>) -> Arc<Databases> {
    let options = StoreOptions { sync: SyncMode::Off, ..StoreOptions::default() };
    let store = Arc::new(Store::open(folder, &options).expect("a store"));
    Databases::open(store, Arc::clone(clock) as Arc<dyn Clock>, Arc::new(SeededRandom::new(1)))
}

/// Creates all data after `passes` passes of history, and closes the store.
fn fill(databases: Arc<Databases>, random: &SeededRandom, passes: u32) -> Contents {
    let (documents, view) = documents(&databases, random, passes);
    let (messages, folder) = mailbox(&databases, if passes > 0 { FOLDER_MESSAGES } else { 0 });
    fill_queue(&open_queue(&MailStore::new(databases, MailOptions::default())), passes);
    Contents { documents, view, messages, folder }
}

/// Passes messages through the queue and leaves [`QUEUED_MESSAGES`] in it, which are to be tried again later.
fn fill_queue(router: &Router, passes: u32) {
    for _ in 0..QUEUED_MESSAGES {
        accept(router, "waiting@late.test");
    }
    loop {
        let jobs = router.take_due_jobs(1);
        let Some(job) = jobs.first() else { break };
        let later = TransferOutcome::Temporary { reply: "450 4.2.0 later".into() };
        router.finish(job, &[later]).expect("postponed");
    }
    (0..passes * PASSING_MESSAGES).for_each(|_| pass_message(router));
    assert_eq!(router.counts().messages, QUEUED_MESSAGES as usize);
}

fn accept(router: &Router, address: &str) {
    let recipients = vec![Recipient::new(address)];
    let envelope = Envelope { reverse_path: "a@here.test".into(), recipients, ..Envelope::default() };
    router.accept(&envelope, MESSAGE).expect("accepted");
}

/// Accepts a message, transfers it and removes it from the queue.
fn pass_message(router: &Router) {
    accept(router, "b@away.test");
    let jobs = router.take_due_jobs(1);
    assert_eq!(jobs[0].recipients[0].recipient.address, "b@away.test");
    assert_eq!(router.content(jobs[0].key).expect("readable"), MESSAGE);
    let outcome = TransferOutcome::Delivered { reply: "250 2.0.0 taken".into(), reports: false };
    router.finish(&jobs[0], &[outcome]).expect("finished");
}

fn open_queue(mail: &Arc<MailStore>) -> Arc<Router> {
    Router::open(Arc::clone(mail), Arc::new(RemoteOnly), RouterOptions::default()).expect("the queue opens")
}

fn database(databases: &Arc<Databases>, path: &str) -> Access<level::Manager> {
    let acl = Acl::private(&Name::new("Ann/Acme"));
    let new = NewDatabase::new(path, path, DatabaseKind::Standard, acl);
    manager(&databases.database_create(&new).expect("a database"))
}

fn manager(database: &Arc<Database>) -> Access<level::Manager> {
    database.authorize(&Arc::new(Identity::local_server("CN=bench/O=Acme"))).expect("the server itself")
}

fn write<T>(
    databases: &Databases,
    access: &Access<level::Manager>,
    change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<T>,
) -> T {
    let writing = access.downgrade::<level::Depositor>();
    let accesses = [&writing];
    let mut transaction = databases.transaction(&accesses).expect("a transaction");
    let outcome = change(&mut transaction.writer(0)).expect("changed");
    transaction.commit().expect("committed");
    outcome
}

/// Returns the items of a document: a random number, by which the view sorts, and a subject.
fn items(random: &SeededRandom) -> Vec<Item> {
    let number = ItemValue::Number(random.below(1_000_000) as f64);
    vec![Item::summary("Number", number), Item::text("Subject", format!("Document {}", random.below(1_000)))]
}

fn move_documents(databases: &Databases, random: &SeededRandom, access: &Access<level::Manager>, moved: &[NoteId]) {
    write(databases, access, |writer| {
        for note in moved {
            let sequence = writer.header(*note)?.expect("the document exists").sequence;
            writer.note_update(*note, sequence, &items(random), &[])?;
        }
        Ok(())
    });
}

/// Creates the documents and their view, and moves each document in the view `passes` times. Returns both.
fn documents(databases: &Arc<Databases>, random: &SeededRandom, passes: u32) -> (Vec<NoteId>, NoteId) {
    let access = database(databases, DOCUMENTS_PATH);
    let column = |item: &str| Column { title: item.into(), item: item.into(), ..Column::default() };
    let number = Column { sort: Some(SortDirection::Ascending), ..column("Number") };
    let design = ViewDesign { columns: vec![number, column("Subject")], ..ViewDesign::default() };
    let view = ViewNote { title: "By Number".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
    let view = write(databases, &access, |writer| writer.view_create(&view));
    let mut found = Vec::new();
    for _ in 0..DOCUMENTS {
        found.push(write(databases, &access, |writer| writer.note_create(NewNote::document(items(random)))));
        access.view_refresh(view, CHANGES_PER_TRANSACTION).expect("refreshed");
    }
    for _ in 0..passes {
        for moved in found.chunks(CHANGES_PER_TRANSACTION) {
            move_documents(databases, random, &access, moved);
            access.view_refresh(view, CHANGES_PER_TRANSACTION).expect("refreshed");
        }
    }
    // Both twins end with changes of single documents.
    for note in &found {
        move_documents(databases, random, &access, &[*note]);
        access.view_refresh(view, CHANGES_PER_TRANSACTION).expect("refreshed");
    }
    (found, view)
}

/// Creates a folder with `deleted` messages and those that stay, and deletes the former. Returns the latter and the
/// folder.
fn mailbox(databases: &Arc<Databases>, deleted: u32) -> (Vec<NoteId>, NoteId) {
    let access = database(databases, MAILBOX_PATH);
    let folder = write(databases, &access, |writer| writer.folder_create("Mailbox", &[]));
    let mut found = Vec::new();
    let mut left = deleted + FOLDER_MESSAGES;
    while left > 0 {
        let count = left.min(CHANGES_PER_TRANSACTION as u32);
        left -= count;
        write(databases, &access, |writer| {
            for _ in 0..count {
                let new = NewNote::document(vec![Item::text("Subject", "passing")]);
                found.push(writer.note_create(NewNote { folders: vec![folder], ..new })?);
            }
            Ok(())
        });
    }
    let kept = found.split_off(deleted as usize);
    for old in found.chunks(CHANGES_PER_TRANSACTION) {
        write(databases, &access, |writer| old.iter().try_for_each(|note| writer.note_delete(*note).map(drop)));
    }
    (kept, NoteId(folder.0))
}

impl Pair {
    /// Measures all operations.
    fn measure(&self) -> Vec<Comparison> {
        vec![
            self.compare("queue: the start with 1,000 waiting messages", TURNS / 5, &Server::open_queue),
            self.compare("queue: a message accepted, transferred and removed", TURNS / 5, &Server::pass_message),
            self.compare("changes since the last 20 changes", TURNS, &|server| server.read_changes(Some(LAST_CHANGES))),
            self.compare("changes of 1,000 documents since the beginning", TURNS / 5, &|server| {
                server.read_changes(None);
            }),
            self.compare("view of 1,000 documents: the first 50 rows", TURNS, &|server| {
                server.read_rows(StartPosition::Beginning);
            }),
            self.compare("view of 1,000 documents: 50 rows at a random position", TURNS, &|server| {
                server.read_rows(server.random_position());
            }),
            self.compare("view of 1,000 documents: one moved, and 50 rows", TURNS, &Server::move_and_read),
            self.compare("folder of 10,000 messages: counts and positions", TURNS, &Server::read_positions),
            self.compare("folder of 10,000 messages: the oldest 50 entries", TURNS, &Server::read_oldest_entries),
        ]
    }

    /// Runs an operation in turns on both stores.
    #[expect(clippy::disallowed_methods, reason = "this program measures time")]
    fn compare(&self, name: &str, turns: usize, operation: &dyn Fn(&Server)) -> Comparison {
        let mut samples = [Samples::default(), Samples::default()];
        for turn in 0..turns + turns / 10 {
            let mut places = [0, 1];
            places.rotate_left(turn % 2);
            for place in places {
                let server = [&self.fresh, &self.churned][place];
                let before = tombstones_passed();
                let started = Instant::now();
                operation(server);
                if turn >= turns / 10 {
                    samples[place].times.push(started.elapsed().as_secs_f64() * 1e6);
                    samples[place].tombstones += tombstones_passed() - before;
                }
            }
        }
        let tombstones = samples.each_ref().map(|samples| samples.tombstones);
        Comparison { name: name.to_owned(), medians: samples.map(Samples::median), tombstones }
    }
}

impl Samples {
    fn median(mut self) -> f64 {
        self.times.sort_by(f64::total_cmp);
        self.times[self.times.len() / 2]
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn started() -> Instant {
    Instant::now()
}

/// Prints the figures of one stage, and returns them as fields of JSON.
fn report(stage: &str, measured: &[Comparison]) -> Vec<String> {
    let mut fields = Vec::new();
    for Comparison { name, medians: [fresh, churned], tombstones } in measured {
        let ratio = churned / fresh;
        eprintln!("{stage}: {name:<55} {fresh:>9.1} {churned:>9.1} us, {ratio:>5.2} x, tombstones {tombstones:?}");
        fields.push(format!(
            "  {:?}: {{\"fresh_us\": {fresh:.2}, \"churned_us\": {churned:.2}, \"tombstones\": {}}}",
            format!("{name}, {stage}"),
            tombstones[1]
        ));
    }
    fields
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = arguments.iter().find(|argument| !argument.starts_with("--"));
    let passes = given.map_or(100, |text| text.parse().expect("a number of passes"));
    let pair = Pair { churned: Server::new(passes), fresh: Server::new(0) };
    let mut fields = report("before a compaction", &pair.measure());
    pair.fresh.compact();
    pair.churned.compact();
    fields.extend(report("after a compaction", &pair.measure()));
    if arguments.iter().any(|argument| argument == "--json") {
        println!("{{\n{}\n}}", fields.join(",\n"));
    }
}
