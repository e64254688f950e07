//! Tests that the store keeps everything acknowledged when it is killed while working.
//!
//! The test starts itself as a child process that writes from several threads and reports each batch over a pipe once
//! it is durable. The parent kills the child with SIGKILL after a random number of reports, opens the store and checks
//! it: the batches of each thread are present without gaps, at least as many as were reported, and attachments are
//! complete. Then the next child continues with the same store. A copy of the store whose log lacks synced bytes must
//! be refused.
//!
//! The effects of a power failure (lost and torn writes) are tested with the engine in memory, where they can be
//! arranged; SIGKILL keeps everything that was passed to the operating system. `DOUBLET_SOAK=1` runs fifty rounds
//! instead of three.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use base::sim::SeededRandom;
use base::{DbNumber, NoteId, Random, Timestamp};
use store::{Batch, BlobId, BlobOptions, BlobOwner, Error, Store, StoreOptions, Table, TableReader};

const THREADS: u32 = 6;
/// Environment variable that passes the folder to the child. Without it the child's test does nothing.
const FOLDER: &str = "DOUBLET_CRASH_FOLDER";

fn options() -> StoreOptions {
    let blobs = BlobOptions { encryption_key: Some([3; 32]), grace: Duration::ZERO, ..BlobOptions::default() };
    // Memtables are small, so that flushes and compactions are killed too.
    StoreOptions {
        memtable_bytes: 2 << 20,
        cache_bytes: 4 << 20,
        max_wal_bytes: Some(4 << 20),
        reserve_bytes: 0,
        blobs,
        ..StoreOptions::default()
    }
}

fn key(thread: u32, number: u32) -> Vec<u8> {
    [thread.to_be_bytes(), number.to_be_bytes()].concat()
}

fn count_key(thread: u32) -> Vec<u8> {
    [&thread.to_be_bytes()[..], b"count"].concat()
}

/// Returns the attachment of a batch. Every fourth is shared with the other threads.
fn content(thread: u32, number: u32) -> Vec<u8> {
    let author = if number.is_multiple_of(4) { 0 } else { thread };
    let mut content = vec![0; 3_000 + 40 * (number as usize % 100)];
    SeededRandom::new(u64::from(author) << 32 | u64::from(number)).fill(&mut content);
    content
}

fn owner(thread: u32, number: u32) -> BlobOwner {
    BlobOwner { database: DbNumber(thread), note: NoteId(number) }
}

/// Returns the number of batches of a thread in the store.
fn count(store: &Store, thread: u32) -> u32 {
    let bytes = store.get(Table::Meta, &count_key(thread)).expect("sound");
    bytes.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

/// Writes until the process is killed. Every batch touches four tables; every tenth also releases an older attachment.
fn write(store: &Store, thread: u32, report: &dyn Fn(u32)) {
    for number in count(store, thread) + 1.. {
        let writer = store.blobs().writer();
        let mut batch = Batch::new();
        let id = writer.put(&mut batch, owner(thread, number), &content(thread, number)).expect("put");
        batch.put(Table::Summary, &key(thread, number), &id.0);
        batch.put(Table::Body, &key(thread, number), &[7; 300]);
        batch.put(Table::Meta, &count_key(thread), &number.to_be_bytes());
        if number.is_multiple_of(10) {
            let old = number - 5;
            let id = store.blobs().compute_id(&content(thread, old));
            writer.release(&mut batch, owner(thread, old), &id, Timestamp(0));
            batch.delete(Table::Summary, &key(thread, old));
        }
        let ticket = store.commit(&batch).expect("written");
        drop(writer);
        store.durable(ticket).wait().expect("durable");
        report(number);
        if thread == 1 && number.is_multiple_of(20) {
            store.blobs().collect(store, Timestamp(1), 100).expect("collected");
        }
    }
}

/// Runs the child process. Does nothing when it is run as a test of its own.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(Path::new(&folder), &options()).expect("opened");
    std::thread::scope(|scope| {
        for thread in 1..=THREADS {
            let store = &store;
            scope.spawn(move || {
                write(store, thread, &|number| {
                    let line = format!("acknowledged {thread} {number}\n");
                    // The line is written in one call, so that lines of different threads do not mix.
                    let _ = std::io::stdout().lock().write_all(line.as_bytes());
                });
            });
        }
    });
}

/// Runs a child until it has made `reports` reports, and kills it. Returns the last number reported by each thread.
fn run_and_kill(folder: &Path, reports: u64) -> Vec<u32> {
    let program = std::env::current_exe().expect("a program");
    let mut child = Command::new(program)
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut acknowledged = vec![0; THREADS as usize + 1];
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut seen = 0;
    while seen < reports {
        let line = lines.next().expect("the child goes on until it is killed").expect("text");
        seen += u64::from(note(&line, &mut acknowledged));
    }
    child.kill().expect("killed");
    // Reports written before the child died count too.
    for line in lines.map_while(Result::ok) {
        note(&line, &mut acknowledged);
    }
    child.wait().expect("gone");
    acknowledged
}

fn note(line: &str, acknowledged: &mut [u32]) -> bool {
    let Some((_, report)) = line.split_once("acknowledged ") else { return false };
    let mut numbers = report.split(' ').map_while(|number| number.parse::<u32>().ok());
    let (Some(thread), Some(number)) = (numbers.next(), numbers.next()) else { return false };
    acknowledged[thread as usize] = number;
    true
}

fn check(folder: &Path, acknowledged: &[u32], seed: u64) {
    let store = Store::open(folder, &options()).expect("opened again");
    for thread in 1..=THREADS {
        let there = count(&store, thread);
        let reported = acknowledged[thread as usize];
        assert!(there >= reported, "SEED={seed}: {reported} of thread {thread} were acknowledged, {there} are there");
        for number in 1..=there + 3 {
            let released = number % 10 == 5 && number + 5 <= there;
            let id = store.get(Table::Summary, &key(thread, number)).expect("sound");
            assert_eq!(id.is_some(), number <= there && !released, "SEED={seed}: {thread}/{number} of {there}");
            assert_eq!(store.get(Table::Body, &key(thread, number)).expect("sound").is_some(), number <= there);
            let Some(id) = id else { continue };
            let id = BlobId(id.try_into().expect("an id"));
            let found = store.blobs().read(&store, &id).expect("the attachment is there");
            assert_eq!(found, content(thread, number), "SEED={seed}: attachment of {thread}/{number}");
        }
    }
    let report = store.blobs().report(&store).expect("sound");
    assert_eq!(report.missing_count, 0, "SEED={seed}");
    assert!(store.engine().verify(&mut |_| {}).expect("it runs").is_empty(), "sound");
}

/// Returns a number in a slot of the file `synced-log`.
fn field(slot: &[u8], index: usize) -> u64 {
    u64::from_be_bytes(slot[4 + 8 * index..][..8].try_into().expect("eight bytes"))
}

/// Returns the number of a log and the number of its bytes that are synced (`docs/store-format.md`).
fn sync_mark(folder: &Path) -> (u64, u64) {
    let bytes = std::fs::read(folder.join("synced-log")).expect("a mark");
    let slots = [0_usize, 512].into_iter().filter_map(|start| bytes.get(start..start + 32));
    let newest = slots.filter(|slot| slot.starts_with(b"dsyn")).max_by_key(|slot| field(slot, 0)).expect("a mark");
    (field(newest, 1), field(newest, 2))
}

/// Checks that a copy of the store is refused if its log ends before the place up to which it is synced.
fn check_cut_log_is_refused(folder: &Path, random: &SeededRandom, seed: u64) {
    let (log, synced) = sync_mark(folder);
    let name = format!("{log:06}.log");
    // The child may be killed before its first sync, or after the engine has deleted an older log.
    if synced == 0 || !folder.join(&name).exists() {
        return;
    }
    let copy = tempfile::tempdir().expect("a temporary folder");
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("copied");
    }
    let kept = random.below(synced);
    let log = std::fs::OpenOptions::new().write(true).open(copy.path().join(name)).expect("a log");
    log.set_len(kept).expect("cut");
    let error = Store::open(copy.path(), &options()).err();
    let text = format!("this log ends at byte {kept}, but was synced to byte {synced}");
    let is_refused = matches!(&error, Some(Error::Unusable { reason, .. }) if reason.contains(&text));
    assert!(is_refused, "SEED={seed}: {error:?} after {kept} of {synced} bytes");
}

#[test]
fn acknowledged_batches_survive_sigkill() {
    let rounds = if std::env::var_os("DOUBLET_SOAK").is_some() { 50 } else { 3 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let random = SeededRandom::new(1);
    let mut before = vec![0; THREADS as usize + 1];
    for round in 0..rounds {
        let acknowledged = run_and_kill(folder.path(), 20 + random.below(400));
        check_cut_log_is_refused(folder.path(), &random, round);
        check(folder.path(), &acknowledged, round);
        let progress = acknowledged.iter().zip(&before).any(|(now, before)| now > before);
        assert!(progress, "round {round} made no progress from {before:?} to {acknowledged:?}");
        before = acknowledged;
    }
}
