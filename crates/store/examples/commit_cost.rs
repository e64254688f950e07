//! Measures the cost of a commit: CPU microseconds per commit and durable commits per second for a typical delivery.
//!
//! A delivery is a batch of twelve small changes over eight tables (about 1.5 KB) and one attachment of 4 to 10 KB of
//! text that compresses like mail. Each writer waits until its batch is durable before it continues. The CPU time is
//! that of the whole process. It includes background work and excludes the generation of the content.
//!
//! `cargo run --release -p store --example commit_cost -- [seconds] [folder]`

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random};
use store::{Batch, BlobOwner, Store, StoreOptions, SyncMode, Table};

/// The kind of attachment of a delivery.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AttachmentKind {
    /// No attachment.
    None,
    /// A value that is put directly into the attachment table. Measures the engine alone.
    Value,
    /// An attachment that is hashed and compressed, with its reference.
    Blob,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = arguments.next().map(std::path::PathBuf::from);
    println!(
        "{:8} {:>7} {:6} {:>10} {:>10} {:>12} {:>8}",
        "sync", "threads", "large", "commits/s", "CPU us", "syncs/s", "MB/s"
    );
    for (mode, threads, large) in [
        (SyncMode::Group, 1, AttachmentKind::None),
        (SyncMode::Group, 1, AttachmentKind::Value),
        (SyncMode::Group, 1, AttachmentKind::Blob),
        (SyncMode::Group, 32, AttachmentKind::None),
        (SyncMode::Group, 32, AttachmentKind::Value),
        (SyncMode::Group, 32, AttachmentKind::Blob),
        (SyncMode::Each, 32, AttachmentKind::Value),
        (SyncMode::Off, 1, AttachmentKind::Value),
        (SyncMode::Off, 32, AttachmentKind::Value),
    ] {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let place = folder.as_deref().unwrap_or(scratch.path());
        run(&place.join(format!("{mode:?}-{threads}-{large:?}")), mode, threads, large, Duration::from_secs(seconds));
    }
}

fn run(folder: &Path, mode: SyncMode, threads: u64, large: AttachmentKind, time: Duration) {
    let options = StoreOptions { sync: mode, ..StoreOptions::default() };
    let store = Store::open(folder, &options).expect("a new store");
    let contents: Vec<Vec<u8>> = (0..64).map(content).collect();
    let commits = AtomicU64::new(0);
    let bytes = AtomicU64::new(0);
    let start = now();
    let cpu_start = cpu_microseconds();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let store = &store;
            let contents = &contents;
            let commits = &commits;
            let bytes = &bytes;
            scope.spawn(move || {
                let mut number = 0_u32;
                while now() - start < time {
                    number += 1;
                    let owner = BlobOwner { database: DbNumber(thread as u32 + 1), note: NoteId(number) };
                    bytes.fetch_add(deliver(store, owner, large, contents) as u64, Ordering::Relaxed);
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let seconds = (now() - start).as_secs_f64();
    let count = commits.load(Ordering::Relaxed) as f64;
    let cpu = (cpu_microseconds() - cpu_start) as f64 / count;
    let syncs = store.committer().counts().1 as f64 / seconds;
    let rate = bytes.load(Ordering::Relaxed) as f64 / seconds / 1e6;
    let mode = format!("{mode:?}");
    let large = format!("{large:?}");
    println!("{mode:8} {threads:>7} {large:6} {:>10.0} {cpu:>10.1} {syncs:>12.0} {rate:>8.1}", count / seconds);
}

/// Delivers one message and returns the size of its batch in bytes.
fn deliver(store: &Store, owner: BlobOwner, large: AttachmentKind, contents: &[Vec<u8>]) -> usize {
    let mut batch = small_changes(owner);
    let writer = store.blobs().writer();
    let chosen = &contents[owner.note.0 as usize % contents.len()];
    match large {
        AttachmentKind::None => {}
        AttachmentKind::Value => {
            let key = [&owner.database.to_key()[..], &owner.note.to_key(), &[0; 24]].concat();
            batch.put(Table::Blob, &key, chosen);
        }
        AttachmentKind::Blob => {
            let mut content = chosen.clone();
            content[..4].copy_from_slice(&owner.note.to_key());
            content[4..8].copy_from_slice(&owner.database.to_key());
            writer.put(&mut batch, owner, &content).expect("put");
        }
    }
    let ticket = store.commit(&batch).expect("written");
    drop(writer);
    store.durable(ticket).wait().expect("durable");
    batch.byte_count()
}

/// Returns a batch with the twelve small changes of a delivery.
fn small_changes(owner: BlobOwner) -> Batch {
    let mut batch = Batch::new();
    let database = owner.database.to_key();
    let note = owner.note.to_key();
    let key = |rest: &[u8]| [&database[..], rest].concat();
    let text = [b'x'; 400];
    batch.put(Table::Summary, &key(&note), &text);
    batch.put(Table::Body, &key(&[&note[..], &[0, 1, 0, 0]].concat()), &text[..300]);
    batch.put(Table::Unid, &key(blake3::hash(&note).as_bytes().first_chunk::<16>().expect("32 bytes")), &note);
    batch.put(Table::ByModseq, &key(&[&[0; 4], &note[..]].concat()), &note);
    batch.put(Table::View, &key(&[&[0, 0, 1, 0], &note[..]].concat()), &text[..60]);
    batch.put(Table::View, &key(&[&[0, 0, 2, 0], &note[..]].concat()), &text[..60]);
    batch.put(Table::Tree, &key(&[0, 0, 1, 0, 0]), &text[..200]);
    batch.put(Table::Tree, &key(&[0, 0, 1, 0, 1]), &text[..200]);
    batch.put(Table::ViewBack, &key(&[&[0, 0, 1, 0], &note[..]].concat()), &text[..16]);
    batch.put(Table::ViewBack, &key(&[&[0, 0, 2, 0], &note[..]].concat()), &text[..16]);
    batch.put(Table::Meta, &key(b"counters"), &text[..48]);
    batch.put(Table::Meta, &key(b"folder"), &text[..64]);
    batch
}

/// Returns text of 4 to 10 KB that compresses to about half its size.
fn content(seed: u64) -> Vec<u8> {
    let random = SeededRandom::new(seed);
    let length = 4_096 + random.below(6_144) as usize;
    let words: Vec<String> = (0..400).map(|_| format!("{:x} ", random.below(1 << 28))).collect();
    let mut text = Vec::with_capacity(length + 16);
    while text.len() < length {
        text.extend_from_slice(words[random.below(400) as usize].as_bytes());
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the CPU time of this process in microseconds. The system counts in hundredths of a second.
fn cpu_microseconds() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks * 10_000
}
