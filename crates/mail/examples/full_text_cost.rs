//! What full-text search costs: indexing generated mail, and asking for two words.
//!
//! `cargo run --release -p mail --example full_text_cost [-- MESSAGES [FILES [THREADS]]]`
//!
//! Messages of 40 to 360 words, drawn from 60,000 words as often as words of a language are (the n-th word with a probability of about 1/n), are put
//! into mail files on the real store, without syncing; then they are indexed from nothing, with one commit a file and those that happen by
//! themselves. Queries ask one file for two words that are neither the most nor the least frequent, and for twenty hits by relevance.

#![expect(clippy::disallowed_methods, reason = "this program measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::sim::{SeededRandom, SimClock};
use base::{Name, Random};
use mail::full_text::Messages;
use mail::mailbox::{Flags, Mail, MailFile, MailOptions, NewMessage};
use notes::{Access, Identity, Notes, level};
use search::{Page, Query, Search, Sort};
use store::{Options, Store, SyncMode};

/// Words of the language.
const WORDS: u64 = 60_000;
/// Messages of one transaction.
const BATCH: usize = 500;
/// Queries that are measured.
const QUERIES: usize = 2_000;

fn main() {
    let argument = |place: usize, default: usize| {
        std::env::args().nth(place).map_or(default, |text| text.parse().expect("a number"))
    };
    let (messages, files, threads) = (argument(1, 50_000), argument(2, 50), argument(3, 1));
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options { sync: SyncMode::Off, ..Options::default() };
    let store = Arc::new(Store::open(&folder.path().join("store"), &options).expect("the store opens"));
    let notes = Notes::open(store, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)));
    let mail = Mail::new(Arc::clone(&notes), MailOptions::default());
    let random = SeededRandom::new(2);
    let (files, bytes) = fill(&mail, &random, messages, files);
    let options = search::Options { contents: vec![Box::new(Messages)], threads, ..search::Options::default() };
    let search = Search::open(notes, &folder.path().join("full-text"), options).expect("the index opens");
    let (began, cpu) = (Instant::now(), cpu_seconds());
    files.iter().for_each(|file| index(&search, file));
    let (took, cpu) = (began.elapsed(), cpu_seconds() - cpu);
    let status = search.status().expect("a status");
    println!(
        "indexed {} messages of {} MB in {:.1} s: {:.0} a second, {:.0} us of a processor each; {} MB in {} pieces",
        status.documents,
        bytes >> 20,
        took.as_secs_f64(),
        messages as f64 / took.as_secs_f64(),
        cpu * 1e6 / messages as f64,
        status.bytes >> 20,
        status.segments
    );
    for (name, sort, phrase) in [
        ("two words, by relevance", Sort::Relevance, false),
        ("two words, newest", Sort::Newest, false),
        ("phrase", Sort::Relevance, true),
    ] {
        ask(&search, &files, &random, (name, sort, phrase));
    }
    after_changes(&search, &files, &random);
}

/// Processor seconds of this process, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks: f64 = [11, 12].iter().filter_map(|field| fields.get(*field)?.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn server() -> Arc<Identity> {
    Arc::new(Identity::local_server(""))
}

fn index(search: &Search, file: &MailFile) {
    let access: Access<level::Reader> = file.database().authorize(&server()).expect("the server may");
    while !search.update(&access, 1_000, &|| false).expect("an update").complete {}
    search.commit().expect("a commit");
}

/// Draws the number of a word: the n-th with a probability of about 1/n.
fn word(random: &SeededRandom, first: u64, last: u64) -> String {
    let unit = random.below(1 << 24) as f64 / f64::from(1 << 24);
    let number = first as f64 * (last as f64 / first as f64).powf(unit);
    spell(number as u64)
}

/// Spells a number in syllables, the frequent ones in few.
fn spell(mut number: u64) -> String {
    let mut word = String::new();
    loop {
        word.push(char::from(b"bcdfghklmnprstvz"[number as usize % 16]));
        word.push(char::from(b"aeiou"[(number / 16) as usize % 5]));
        number /= 80;
        if number == 0 {
            return word;
        }
    }
}

fn fill(mail: &Arc<Mail>, random: &SeededRandom, messages: usize, files: usize) -> (Vec<MailFile>, usize) {
    let mut bytes = 0;
    let open = |number: usize| {
        let (path, owner) = (format!("mail/user{number}.nsf"), format!("user{number}@acme.test"));
        mail.ensure(&path, &owner, &Name::new(&owner), None).expect("the mail file is made");
        mail.open(&path, &server()).expect("the server may open it")
    };
    let files: Vec<MailFile> = (0..files).map(open).collect();
    for (number, file) in files.iter().enumerate() {
        let inbox = file.view().expect("a view").folder("INBOX").expect("a look").expect("INBOX in any case").id;
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

fn message(random: &SeededRandom) -> NewMessage {
    let words = |count: u64| (0..count).map(|_| word(random, 1, WORDS)).collect::<Vec<_>>();
    let (from, to) = (word(random, 1_000, 9_000), word(random, 1_000, 9_000));
    let subject = words(3 + random.below(6)).join(" ");
    let body: Vec<String> = words(40 + random.below(320)).chunks(12).map(|line| line.join(" ")).collect();
    let raw = format!(
        "From: {from} <{from}@acme.test>\r\nTo: {to}@acme.test\r\nSubject: {subject}\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{}\r\n",
        body.join("\r\n")
    );
    NewMessage { raw: raw.into_bytes(), flags: Flags::none(), received: None }
}

fn ask(search: &Search, files: &[MailFile], random: &SeededRandom, (name, sort, phrase): (&str, Sort, bool)) {
    let (mut times, mut hits) = (Vec::new(), 0);
    for number in 0..QUERIES + 100 {
        let file = &files[random.below(files.len() as u64) as usize];
        let access: Access<level::Reader> = file.database().authorize(&server()).expect("the server may");
        let (one, two) = (word(random, 10, 2_000), word(random, 10, 2_000));
        let query = if phrase { format!("\"{one} {two}\"") } else { format!("{one} {two}") };
        let began = Instant::now();
        let query = Query::parse(&query).expect("a query");
        let found = search.query(&access, &query, Page { sort, offset: 0, limit: 20 }, &|| false).expect("an answer");
        // The first ones read the index from the disk.
        if number >= 100 {
            times.push(began.elapsed());
            hits += found.total;
        }
    }
    times.sort_unstable();
    let at = |percent: usize| milliseconds(times[(times.len() - 1) * percent / 100]);
    println!("{name}: p50 {:.3} ms, p99 {:.3} ms, {:.1} hits", at(50), at(99), hits as f64 / QUERIES as f64);
}

/// Measures how soon one message more can be found.
fn after_changes(search: &Search, files: &[MailFile], random: &SeededRandom) {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..50 {
        let file = &files[random.below(files.len() as u64) as usize];
        let inbox = file.view().expect("a view").folder("INBOX").expect("a look").expect("INBOX in any case").id;
        file.append(inbox, &[message(random)]).expect("it is appended");
        let began = Instant::now();
        index(search, file);
        times.push(began.elapsed());
    }
    times.sort_unstable();
    println!(
        "one message more, indexed and committed: p50 {:.1} ms, max {:.1} ms",
        milliseconds(times[25]),
        milliseconds(times[49])
    );
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
