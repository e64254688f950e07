//! Measures the cost of full-text search: indexing generated mail and queries for two words.
//!
//! `cargo run --release -p mail --example full_text_cost [-- [MESSAGES] [FILES] [THREADS] [--imap] [--json]]`
//!
//! Messages have 40 to 360 words, drawn from 60,000 words with the frequencies of a natural language: the n-th word has
//! a probability of about 1/n. They are put into mail files on the real store, without syncing.
//!
//! Then they are indexed from scratch, as the server does it: file after file, with one commit at the end and the
//! commits that the index makes by itself. Each query asks one file for two words, neither the most nor the least
//! frequent, and for twenty hits. At the end, single messages are added, and each of them is indexed and committed.
//! With `--imap` the index also receives the texts that IMAP SEARCH needs.
//!
//! The words are drawn from a seed, so every run has the same mail.

#![expect(clippy::disallowed_methods, reason = "this program measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::sim::{SeededRandom, SimClock};
use base::{Name, Random};
use mail::full_text::MessageTextReader;
use mail::mailbox::{MailFile, MailOptions, MailStore, NewMessage};
use notes::{Access, Databases, Identity, level};
use search::{FullTextIndex, HitOrder, PageRequest, Query};
use store::{Store, StoreOptions, SyncMode};

mod generated;

use generated::{message, word};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Number of messages in one transaction.
const BATCH: usize = 500;
/// Number of measured queries. [`FIRST_QUERIES`] unmeasured ones run before them and read the index from disk.
const QUERIES: usize = 2_000;
const FIRST_QUERIES: usize = 100;
/// Number of messages that are added one by one.
const ADDED: usize = 200;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let argument = |place: usize, default: usize| {
        arguments.get(place).map_or(default, |text: &String| text.parse().expect("a number"))
    };
    let messages = argument(0, 50_000);
    let files = argument(1, 50);
    let threads = argument(2, 1);
    let serves_imap = std::env::args().any(|argument| argument == "--imap");
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let options = StoreOptions { sync: SyncMode::Off, ..StoreOptions::default() };
    let store = Arc::new(Store::open(&folder.path().join("store"), &options).expect("the store opens"));
    let databases = Databases::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)));
    let mail = MailStore::new(Arc::clone(&databases), MailOptions::default());
    let random = SeededRandom::new(2);
    let (files, bytes) = fill(&mail, &random, messages, files);
    let options = search::FullTextOptions {
        contents: vec![Box::new(MessageTextReader { serves_imap })],
        threads,
        ..search::FullTextOptions::default()
    };
    let search = FullTextIndex::open(databases, &folder.path().join("full-text"), options).expect("the index opens");
    let mut figures = Figures::default();
    index_all(&search, &files, bytes, &mut figures);
    for (name, sort, phrase) in [
        ("two words, by relevance", HitOrder::Relevance, false),
        ("two words, newest", HitOrder::Newest, false),
        ("phrase", HitOrder::Relevance, true),
    ] {
        measure_queries(&search, &files, &random, (name, sort, phrase), &mut figures);
    }
    measure_single_additions(&search, &files, &random, &mut figures);
    figures.print();
}

/// The measured values, by name.
#[derive(Default)]
struct Figures(Vec<(String, f64)>);

impl Figures {
    fn add(&mut self, name: impl Into<String>, value: f64) {
        self.0.push((name.into(), value));
    }

    /// Adds the median and the 99th percentile of `times`, in milliseconds.
    fn add_times(&mut self, name: &str, mut times: Vec<Duration>) {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
        self.add(format!("{name}: p50 ms"), at(50));
        self.add(format!("{name}: p99 ms"), at(99));
    }

    fn print(&self) {
        if std::env::args().any(|argument| argument == "--json") {
            let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
            println!("{{{}}}", pairs.join(", "));
            return;
        }
        self.0.iter().for_each(|(name, value)| println!("{value:>12.3}  {name}"));
    }
}

/// Returns the processor time of this process or of one of its threads, in seconds. `file` is the `/proc` file that
/// states it in nanoseconds.
fn cpu_seconds(file: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).unwrap_or_default() / 1e9
}

/// Returns the processor time of this process, user and system, in seconds. Threads that have ended are included.
fn process_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: f64 = [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}

/// Returns the processor time of the threads that merge index segments, in seconds.
fn merge_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|task| task.path());
    let merges = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("merge_thread"))
    };
    tasks.filter(merges).map(|task| cpu_seconds(&task.join("schedstat").to_string_lossy())).sum()
}

fn server() -> Arc<Identity> {
    Arc::new(Identity::local_server(""))
}

fn index_all(search: &FullTextIndex, files: &[MailFile], bytes: usize, figures: &mut Figures) {
    const READER: &str = "/proc/thread-self/schedstat";
    let began = Instant::now();
    let process = process_seconds();
    let reader = cpu_seconds(READER);
    files.iter().for_each(|file| update(search, file));
    search.commit().expect("a commit");
    let took = began.elapsed();
    let process = process_seconds() - process;
    let reader = cpu_seconds(READER) - reader;
    let status = search.status().expect("a status");
    let messages = status.documents as f64;
    figures.add("messages", messages);
    figures.add("messages a second", messages / took.as_secs_f64());
    figures.add("processor us a message", process * 1e6 / messages);
    figures.add("processor us a message, reading", reader * 1e6 / messages);
    figures.add("processor us a message, merging", merge_seconds() * 1e6 / messages);
    figures.add("index bytes, of those of the messages", status.bytes as f64 / bytes as f64);
    figures.add("pieces of the index", status.segments as f64);
}

fn update(search: &FullTextIndex, file: &MailFile) {
    let access: Access<level::Reader> = file.database().authorize(&server()).expect("the server may change the ACL");
    while !search.update(&access, 1_000, &|| false).expect("an update").complete {}
}

fn fill(mail: &Arc<MailStore>, random: &SeededRandom, messages: usize, files: usize) -> (Vec<MailFile>, usize) {
    let mut bytes = 0;
    let open = |number: usize| {
        let path = format!("mail/user{number}.nsf");
        let owner = format!("user{number}@acme.test");
        mail.create_if_missing(&path, &owner, &Name::new(&owner), None).expect("the mail file is made");
        mail.open(&path, &server()).expect("the server may open it")
    };
    let files: Vec<MailFile> = (0..files).map(open).collect();
    for (number, file) in files.iter().enumerate() {
        let inbox =
            file.snapshot().expect("a snapshot").folder("INBOX").expect("a look").expect("INBOX in any case").id;
        let mut left = messages * (number + 1) / files.len() - messages * number / files.len();
        while left > 0 {
            let batch: Vec<NewMessage> = (0..left.min(BATCH)).map(|_| message(random)).collect();
            bytes += batch.iter().map(|message| message.raw.len()).sum::<usize>();
            file.append(inbox, &batch).expect("it is appended");
            left -= batch.len();
        }
    }
    (files, bytes)
}

fn measure_queries(
    search: &FullTextIndex,
    files: &[MailFile],
    random: &SeededRandom,
    (name, sort, phrase): (&str, HitOrder, bool),
    figures: &mut Figures,
) {
    let mut times = Vec::new();
    let mut hits = 0;
    for number in 0..QUERIES + FIRST_QUERIES {
        let file = &files[random.below(files.len() as u64) as usize];
        let access: Access<level::Reader> =
            file.database().authorize(&server()).expect("the server may change the ACL");
        let one = word(random, 10, 2_000);
        let two = word(random, 10, 2_000);
        let query = if phrase { format!("\"{one} {two}\"") } else { format!("{one} {two}") };
        let began = Instant::now();
        let query = Query::parse(&query).expect("a query");
        let found =
            search.query(&access, &query, PageRequest { sort, offset: 0, limit: 20 }, &|| false).expect("an answer");
        if number >= FIRST_QUERIES {
            times.push(began.elapsed());
            hits += found.total;
        }
    }
    figures.add_times(name, times);
    figures.add(format!("{name}: hits"), hits as f64 / QUERIES as f64);
}

/// Measures how soon one additional message can be found, and the cost of the segment merges that it causes.
fn measure_single_additions(search: &FullTextIndex, files: &[MailFile], random: &SeededRandom, figures: &mut Figures) {
    let mut times = Vec::new();
    let merging = merge_seconds();
    for _ in 0..ADDED {
        let file = &files[random.below(files.len() as u64) as usize];
        let inbox =
            file.snapshot().expect("a snapshot").folder("INBOX").expect("a look").expect("INBOX in any case").id;
        file.append(inbox, &[message(random)]).expect("it is appended");
        let began = Instant::now();
        update(search, file);
        search.commit().expect("a commit");
        times.push(began.elapsed());
    }
    figures.add_times("one message more, indexed and committed", times);
    figures.add("merging after each of them: processor ms", (merge_seconds() - merging) * 1e3 / ADDED as f64);
}
