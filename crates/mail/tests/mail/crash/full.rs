//! Tests of full mailboxes and full disks. Messages that do not fit wait or are refused, no operation is half done, and
//! everything continues when there is space again.

use std::time::Duration;

use base::Uid;
use mail::mailbox::{FlagChange, Flags, UidSet};
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
    world.router.accept(&envelope(to), &content.0).expect("it is taken");
    content.delivered("peer@far.test")
}

/// Runs local jobs until none is due.
fn deliver(world: &World) {
    loop {
        let jobs = world.router.due(10);
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
    inbox.map_or(0, |inbox| inbox.messages.values().filter(|message| message.shown.content == *content).count())
}

/// Deletes all messages in a user's inbox.
fn empty(world: &World, name: &str) {
    let file = world.file(&format!("mail/{name}.nsf"));
    let inbox = file.view().unwrap().folder("INBOX").unwrap().expect("there is one").id;
    let all = UidSet::from_ranges([(Uid(1), Uid(u32::MAX))]);
    file.store(inbox, &all, &FlagChange::Add(Flags::from_system_flags(Marks::DELETED)), None).unwrap();
    file.expunge(inbox, None).unwrap();
}

fn read_state(world: &World) -> State {
    observe(world, &State::default()).expect("it can be read")
}

#[test]
fn each_member_of_a_group_waits_for_room_of_its_own() {
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
fn a_mail_file_that_is_gone_is_made_when_its_mail_comes() {
    let world = World::new(2, SyncTiming::Each);
    send(&world, "tiny@acme.test", 1, 4_000);
    let content = send(&world, "tiny@acme.test", 2, 4_000);
    let database = world.notes().database_open("mail/tiny.nsf").unwrap();
    let itself = std::sync::Arc::new(notes::Identity::local_server(""));
    world.notes().database_delete(&database.authorize(&itself).unwrap()).unwrap();
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = read_state(&world);
    assert_eq!((copies(&state, "tiny", &content), state.queue.len()), (1, 0));
}

#[test]
fn a_group_with_more_members_than_a_transaction_takes_is_served() {
    let world = World::new(3, SyncTiming::Each);
    let content = send(&world, "crowd@acme.test", 1, 100);
    deliver(&world);
    let state = read_state(&world);
    assert!(state.queue.is_empty(), "nobody waits");
    assert_eq!(targets("crowd@acme.test").len(), CROWD_MEMBERS);
    for number in 0..CROWD_MEMBERS {
        assert_eq!(copies(&state, &format!("member{number}"), &content), 1, "member {number}");
    }
    assert_blobs(&world);
}

#[test]
fn what_was_sent_is_not_sent_again_while_that_cannot_be_written_down() {
    let world = World::new(4, SyncTiming::Each);
    for (serial, to) in [(1, "x@one.test"), (2, "y@two.test"), (3, "z@three.test")] {
        send(&world, to, serial, 100);
    }
    let jobs = world.router.due(2);
    let sent = [TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }];
    world.memory.faults().set_capacity(0);
    for job in &jobs {
        let error = world.router.finish(job, &sent).expect_err("the disk is full");
        assert!(error.to_string().contains("no space left"), "{error}");
    }
    assert_eq!((world.router.due(10), world.router.counts().messages), (Vec::new(), 3), "nothing is sent meanwhile");
    world.memory.faults().free_disk();
    let rest = world.router.due(10);
    assert_eq!(rest.len(), 1);
    assert!(jobs.iter().all(|job| job.destination != rest[0].destination), "what was sent is done");
    assert_eq!(world.router.counts().messages, 1);
    assert_databases_consistent(&world);
}

#[test]
fn nothing_is_sent_once_the_store_has_failed() {
    let world = World::new(5, SyncTiming::Each);
    send(&world, "x@one.test", 1, 100);
    send(&world, "y@two.test", 2, 100);
    let jobs = world.router.due(1);
    world.memory.faults().fail_next_sync();
    let sent = [TransferOutcome::Delivered { reply: "250 ok".into(), reports: true }];
    world.router.finish(&jobs[0], &sent).expect_err("the sync failed");
    assert_eq!(world.router.due(10), []);
}

#[test]
fn a_delivery_that_fails_is_not_tried_again_at_once() {
    let world = World::new(6, SyncTiming::Each);
    send(&world, "tiny@acme.test", 1, 4_000);
    let content = send(&world, "tiny@acme.test", 2, 4_000);
    empty(&world, "tiny");
    world.clock.advance(Duration::from_hours(1));
    let jobs = world.router.due(10);
    world.memory.faults().set_capacity(0);
    world.router.deliver_local(&jobs[0]).expect_err("the disk is full");
    world.memory.faults().free_disk();
    assert_eq!(world.router.due(10), []);
    world.clock.advance(Duration::from_mins(6));
    deliver(&world);
    assert_eq!(copies(&read_state(&world), "tiny", &content), 1);
    assert_databases_consistent(&world);
}
