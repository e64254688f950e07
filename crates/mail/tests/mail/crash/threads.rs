//! Tests with many threads on one mail server. Threads do not undo each other's changes, and a crash during their work
//! loses nothing that was acknowledged.
//!
//! These tests are not reproducible from a seed. A single failure proves an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use base::sim::SeededRandom;
use base::{Random, UidSet};
use mail::mailbox::{FlagChange, Flags, MailFile, NewMessage};
use mail::router::{DeliveryJob, Envelope, Recipient, TransferOutcome};
use notes::Marks;

use super::content::{self, Content};
use super::invariants::{assert_blobs, assert_databases_consistent};
use super::state::{State, observe};
use super::world::{SyncTiming, World};

/// Returns the number of rounds: `count`, or ten times as many with `DOUBLET_SOAK`.
fn rounds(count: u64) -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { count * 10 } else { count }
}

fn envelope(serial: u64, to: &[&str]) -> Envelope {
    let recipients = to.iter().map(|address| Recipient::new(address)).collect();
    Envelope { id: format!("T{serial}"), reverse_path: "peer@far.test".into(), recipients, ..Envelope::default() }
}

fn group_world() -> World {
    let world = World::new(1, SyncTiming::Group);
    for name in ["ann", "bob", "cy"] {
        let mailbox = super::world::local(name);
        world.mail.create(&mailbox.mail_file, name, &mailbox.owner, None).expect("the mail file is created");
    }
    world
}

fn sent() -> TransferOutcome {
    TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }
}

/// Runs all jobs at the same moment, each in a separate thread.
fn run_concurrently<'w>(world: &'w World, jobs: &'w [DeliveryJob], run: impl Fn(&DeliveryJob) + Sync) {
    let start = std::sync::Barrier::new(jobs.len());
    thread::scope(|scope| {
        for job in jobs {
            let start = &start;
            let run = &run;
            scope.spawn(move || {
                start.wait();
                run(job);
            });
        }
    });
    assert_eq!(world.router.counts().active, 0);
}

#[test]
fn transfers_of_one_message_end_independently() {
    let world = group_world();
    for serial in 0..rounds(30) {
        let to: Vec<String> = (0..6).map(|domain| format!("x@d{domain}.test")).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let raw = content::message(serial, None, 10);
        world.router.accept(&envelope(serial, &to), &raw).unwrap();
        let jobs = world.router.take_due_jobs(10);
        assert_eq!(jobs.len(), 6, "one for each domain");
        run_concurrently(&world, &jobs, |job| {
            world.router.finish(job, &[sent()]).unwrap();
        });
        assert_eq!(world.router.list(), [], "no message waits any more");
    }
    assert_databases_consistent(&world);
}

#[test]
fn operator_and_transfers_keep_each_others_changes() {
    let world = group_world();
    for serial in 0..rounds(30) {
        let raw = content::message(serial, None, 10);
        world.router.accept(&envelope(serial, &["x@a.test", "x@b.test", "x@c.test"]), &raw).unwrap();
        let key = world.router.list()[0].0;
        let jobs = world.router.take_due_jobs(10);
        thread::scope(|scope| {
            for job in &jobs {
                scope.spawn(|| world.router.finish(job, &[sent()]).unwrap());
            }
            // The message may be done already.
            scope.spawn(|| (0..3).for_each(|_| drop(world.router.hold(key).and_then(|_| world.router.release(key)))));
        });
        assert_eq!(world.router.list(), [], "a sent message is not queued again");
    }
    assert_databases_consistent(&world);
}

/// The messages that threads have issued and that were acknowledged, by content.
#[derive(Default)]
struct Ledger {
    issued: BTreeSet<Content>,
    acknowledged: BTreeSet<Content>,
}

/// Delivers and changes mail, and records the acknowledged messages.
fn work(world: &World, thread: u64, ledger: &Mutex<Ledger>) {
    let random = SeededRandom::new(thread);
    for round in 0..rounds(40) {
        let serial = thread * 1_000_000 + round;
        let attachment = (random.below(2) == 0).then(|| random.below(4));
        let raw = content::message(serial, attachment, random.below(600) as usize);
        let delivered = Content::new(raw.clone()).delivered("peer@far.test");
        ledger.lock().unwrap().issued.insert(delivered.clone());
        let accepted = world.router.accept(&envelope(serial, &["ann@acme.test", "bob@acme.test"]), &raw).unwrap();
        assert_eq!(accepted.delivered, 2);
        world.store().durable(accepted.ticket).wait().unwrap();
        ledger.lock().unwrap().acknowledged.insert(delivered);
        change_mailbox(&world.file("mail/cy.nsf"), &random, serial);
        if round % 8 == 0 {
            world.store().blobs().collect(world.store(), world.now().after(super::world::GRACE), 10).unwrap();
        }
    }
}

/// Changes a mailbox like one of several sessions.
fn change_mailbox(file: &MailFile, random: &SeededRandom, serial: u64) {
    let snapshot = file.snapshot().unwrap();
    let inbox = snapshot.folder("INBOX").unwrap().expect("there is an inbox").id;
    let trash = snapshot.folder("Trash").unwrap().expect("there is a trash folder").id;
    let all = UidSet::from(1..=u32::MAX);
    drop(snapshot);
    match random.below(6) {
        0 => drop(file.store(inbox, &all, &FlagChange::Add(Flags::from_system_flags(Marks::DELETED)), None).unwrap()),
        1 => drop(file.expunge(inbox, None).unwrap()),
        2 => drop(file.copy(inbox, &all, trash).unwrap()),
        3 => drop(file.move_to(inbox, &all, trash).unwrap()),
        4 => {
            file.store(trash, &all, &FlagChange::Replace(Flags::from_system_flags(Marks::DELETED)), None).unwrap();
            file.expunge(trash, None).unwrap();
        }
        _ => {
            let raw = content::message(serial, Some(random.below(4)), 100);
            let new = NewMessage { raw, flags: Flags::none(), received: None };
            file.append(inbox, std::slice::from_ref(&new)).unwrap();
        }
    }
}

/// Returns the number of copies of every message in a mailbox.
fn inbox(state: &State, name: &str) -> BTreeMap<Content, usize> {
    let mut copies = BTreeMap::new();
    for message in state.files[&format!("mail/{name}.nsf")].folders["INBOX"].messages.values() {
        *copies.entry(message.visible.content.clone()).or_default() += 1;
    }
    copies
}

/// Cuts the power during the work of other threads, and compares the remaining state with the previously acknowledged
/// messages.
fn crash_and_compare(world: &World, ledger: &Mutex<Ledger>) {
    let acknowledged = ledger.lock().unwrap().acknowledged.clone();
    let left = world.crashed();
    let issued = ledger.lock().unwrap().issued.clone();
    let state = observe(&left, &State::default()).expect("what a crash leaves can be read");
    let ann = inbox(&state, "ann");
    let bob = inbox(&state, "bob");
    assert_eq!(ann, bob, "a message is delivered to both or to none");
    assert!(ann.values().all(|count| *count == 1), "a message is delivered once");
    assert!(acknowledged.iter().all(|content| ann.contains_key(content)), "acknowledged messages exist");
    assert!(ann.keys().all(|content| issued.contains(content)), "every message was issued");
    assert_databases_consistent(&left);
    assert_blobs(&left);
}

#[test]
fn crash_under_load_keeps_acknowledged_messages() {
    let world = group_world();
    let ledger = Mutex::new(Ledger::default());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|thread| {
                let world = &world;
                let ledger = &ledger;
                scope.spawn(move || work(world, thread, ledger))
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                crash_and_compare(&world, &ledger);
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        stop.store(true, Ordering::SeqCst);
    });
    crash_and_compare(&world, &ledger);
    assert_eq!(ledger.into_inner().unwrap().acknowledged.len() as u64, 3 * rounds(40));
    assert_databases_consistent(&world);
}

#[test]
fn mailbox_can_be_deleted_during_deliveries() {
    let world = group_world();
    let file = world.file("mail/ann.nsf");
    for serial in 0..rounds(200) {
        let (folder, _) = file.folder_create("Busy", None).unwrap();
        let deleted = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let raw = content::message(serial, Some(1), 100);
                    let new = [NewMessage { raw, flags: Flags::none(), received: None }];
                    // The loop ends when the mailbox is gone.
                    (0..200).all(|_| file.append(folder, &new).is_ok())
                });
            }
            file.folder_delete("Busy")
        });
        deleted.expect("concurrent appends do not make the deletion fail");
        assert!(file.snapshot().unwrap().folder("Busy").unwrap().is_none());
    }
    assert_databases_consistent(&world);
    assert_blobs(&world);
}
