//! Tests of full mailboxes and full disks. Messages that do not fit wait or are refused, no operation is half done, and
//! everything continues when there is space again.

use std::time::Duration;

use base::UidSet;
use mail::mailbox::{FlagChange, Flags};
use mail::router::{Destination, Envelope, Recipient, TransferOutcome};
use notes::Marks;

use super::content::{self, Content};
use super::invariants::{assert_blobs, assert_databases_consistent};
use super::state::{State, observe};
use super::world::{CROWD_MEMBERS, SyncTiming, World, targets};

fn envelope(to: &str) -> Envelope {
    let recipients = vec![Recipient::new(to)];
    Envelope { id: "F1".into(), reverse_path: "peer@far.test".into(), recipients, ..Envelope::default() }
}

fn send(world: &World, to: &str, serial: u64, bytes: usize) -> Content {
    let content = Content::new(content::message(serial, None, bytes));
    world.router.accept(&envelope(to), &content.0).expect("the message is accepted");
    content.delivered("peer@far.test")
}

/// Runs local jobs until none is due.
fn deliver(world: &World) {
    loop {
        let jobs = world.router.take_due_jobs(10);
        if jobs.is_empty() {
            return;
        }
        for job in jobs {
            assert_eq!(job.destination, Destination::Local);
            world.router.deliver_local(&job).expect("it is delivered, or waits");
        }
    }
}

fn copies(state: &State, name: &str, content: &Content) -> usize {
    let file = state.files.get(&format!("mail/{name}.nsf"));
    let inbox = file.map(|file| &file.folders["INBOX"]);
    inbox.map_or(0, |inbox| inbox.messages.values().filter(|message| message.visible.content == *content).count())
}

/// Deletes all messages in a user's inbox.
fn empty(world: &World, name: &str) {
    let file = world.file(&format!("mail/{name}.nsf"));
    let inbox = file.snapshot().unwrap().folder("INBOX").unwrap().expect("there is an inbox").id;
    let all = UidSet::from(1..=u32::MAX);
    file.store(inbox, &all, &FlagChange::Add(Flags::from_system_flags(Marks::DELETED)), None).unwrap();
    file.expunge(inbox, None).unwrap();
}

fn read_state(world: &World) -> State {
    observe(world, &State::default()).expect("the state can be read")
}

#[test]
fn full_mailboxes_of_a_group_wait_independently() {
    let world = World::new(1, SyncTiming::Each);
    send(&world, "small@acme.test", 1, 17_000);
    send(&world, "tiny@acme.test", 2, 4_000);
    let content = send(&world, "full@acme.test", 3, 4_500);
    assert_eq!(world.router.counts().messages, 1);
    empty(&world, "small");
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = read_state(&world);
    assert_eq!((copies(&state, "small", &content), copies(&state, "tiny", &content)), (1, 0));
    assert_eq!(state.queue.len(), 1, "tiny's copy waits");
    empty(&world, "tiny");
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = read_state(&world);
    assert_eq!((copies(&state, "small", &content), copies(&state, "tiny", &content)), (1, 1));
    assert!(state.queue.is_empty());
    assert_databases_consistent(&world);
}

#[test]
fn deleted_mail_file_is_recreated_on_delivery() {
    let world = World::new(2, SyncTiming::Each);
    send(&world, "tiny@acme.test", 1, 4_000);
    let content = send(&world, "tiny@acme.test", 2, 4_000);
    let database = world.databases().database_open("mail/tiny.nsf").unwrap();
    let itself = std::sync::Arc::new(notes::Identity::local_server(""));
    world.databases().database_delete(&database.authorize(&itself).unwrap()).unwrap();
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = read_state(&world);
    assert_eq!((copies(&state, "tiny", &content), state.queue.len()), (1, 0));
}

#[test]
fn group_larger_than_one_transaction_is_delivered() {
    let world = World::new(3, SyncTiming::Each);
    let content = send(&world, "crowd@acme.test", 1, 100);
    deliver(&world);
    let state = read_state(&world);
    assert!(state.queue.is_empty(), "no message waits");
    assert_eq!(targets("crowd@acme.test").len(), CROWD_MEMBERS);
    for number in 0..CROWD_MEMBERS {
        assert_eq!(copies(&state, &format!("member{number}"), &content), 1, "member {number}");
    }
    assert_blobs(&world);
}

#[test]
fn sent_message_is_not_resent_while_its_outcome_is_unwritten() {
    let world = World::new(4, SyncTiming::Each);
    for (serial, to) in [(1, "x@one.test"), (2, "y@two.test"), (3, "z@three.test")] {
        send(&world, to, serial, 100);
    }
    let jobs = world.router.take_due_jobs(2);
    let sent = [TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }];
    world.memory.faults().set_capacity(0);
    for job in &jobs {
        let error = world.router.finish(job, &sent).expect_err("the disk is full");
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    assert_eq!(
        (world.router.take_due_jobs(10), world.router.counts().messages),
        (Vec::new(), 3),
        "nothing is sent meanwhile"
    );
    world.memory.faults().free_disk();
    let rest = world.router.take_due_jobs(10);
    assert_eq!(rest.len(), 1);
    assert!(jobs.iter().all(|job| job.destination != rest[0].destination), "sent messages are not due again");
    assert_eq!(world.router.counts().messages, 1);
    assert_databases_consistent(&world);
}

#[test]
fn failed_store_stops_all_sending() {
    let world = World::new(5, SyncTiming::Each);
    send(&world, "x@one.test", 1, 100);
    send(&world, "y@two.test", 2, 100);
    let jobs = world.router.take_due_jobs(1);
    world.memory.faults().fail_next_sync();
    let sent = [TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }];
    world.router.finish(&jobs[0], &sent).expect_err("the sync failed");
    assert_eq!(world.router.take_due_jobs(10), []);
}

#[test]
fn failed_delivery_is_retried_after_a_pause() {
    let world = World::new(6, SyncTiming::Each);
    send(&world, "tiny@acme.test", 1, 4_000);
    let content = send(&world, "tiny@acme.test", 2, 4_000);
    empty(&world, "tiny");
    world.clock.advance(Duration::from_hours(1));
    let jobs = world.router.take_due_jobs(10);
    world.memory.faults().set_capacity(0);
    world.router.deliver_local(&jobs[0]).expect_err("the disk is full");
    world.memory.faults().free_disk();
    assert_eq!(world.router.take_due_jobs(10), []);
    world.clock.advance(Duration::from_mins(6));
    deliver(&world);
    assert_eq!(copies(&read_state(&world), "tiny", &content), 1);
    assert_databases_consistent(&world);
}
