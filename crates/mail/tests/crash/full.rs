//! Full mailboxes and full disks: what does not fit waits or is refused, nothing is half done, and everything goes on when there
//! is room.

use std::time::Duration;

use base::Uid;
use mail::mailbox::{FlagChange, Flags, UidSet};
use mail::router::{Envelope, Recipient};
use notes::Marks;

use crate::content::{self, Content};
use crate::sound::{assert_blobs, assert_sound};
use crate::state::{State, observe};
use crate::world::{CROWD, Syncing, World, targets};

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
            assert!(job.domain.is_empty(), "nothing goes elsewhere here");
            world.router.deliver_here(&job).expect("it is delivered, or waits");
        }
    }
}

fn copies(state: &State, name: &str, content: &Content) -> usize {
    let file = state.files.get(&format!("mail/{name}.nsf"));
    let inbox = file.map(|file| &file.folders["INBOX"]);
    inbox.map_or(0, |inbox| inbox.messages.values().filter(|message| message.shown.content == *content).count())
}

/// Deletes everything in somebody's inbox.
fn empty(world: &World, name: &str) {
    let file = world.file(&format!("mail/{name}.nsf"));
    let inbox = file.view().unwrap().folder("INBOX").unwrap().expect("there is one").id;
    let all = UidSet::from_ranges([(Uid(1), Uid(u32::MAX))]);
    file.store(inbox, &all, &FlagChange::Add(Flags::of(Marks::DELETED)), None).unwrap();
    file.expunge(inbox, None).unwrap();
}

fn look(world: &World) -> State {
    observe(world, &State::default()).expect("it can be read")
}

#[test]
fn each_member_of_a_group_waits_for_room_of_its_own() {
    let world = World::new(1, Syncing::Each);
    send(&world, "small@acme.test", 1, 17_000);
    send(&world, "tiny@acme.test", 2, 4_000);
    let content = send(&world, "full@acme.test", 3, 4_500);
    assert_eq!(world.router.counts().messages, 1);
    empty(&world, "small");
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = look(&world);
    assert_eq!((copies(&state, "small", &content), copies(&state, "tiny", &content)), (1, 0));
    assert_eq!(state.queue.len(), 1, "tiny's copy waits");
    empty(&world, "tiny");
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = look(&world);
    assert_eq!((copies(&state, "small", &content), copies(&state, "tiny", &content)), (1, 1));
    assert!(state.queue.is_empty());
    assert_sound(&world);
}

#[test]
fn a_mail_file_that_is_gone_is_made_when_its_mail_comes() {
    let world = World::new(2, Syncing::Each);
    send(&world, "tiny@acme.test", 1, 4_000);
    let content = send(&world, "tiny@acme.test", 2, 4_000);
    let database = world.notes().database_open("mail/tiny.nsf").unwrap();
    let itself = std::sync::Arc::new(notes::Identity::local_server(""));
    world.notes().database_delete(&database.authorize(&itself).unwrap()).unwrap();
    world.clock.advance(Duration::from_hours(1));
    deliver(&world);
    let state = look(&world);
    assert_eq!((copies(&state, "tiny", &content), state.queue.len()), (1, 0));
}

#[test]
fn a_group_with_more_members_than_a_transaction_takes_is_served() {
    let world = World::new(3, Syncing::Each);
    let content = send(&world, "crowd@acme.test", 1, 100);
    deliver(&world);
    let state = look(&world);
    assert!(state.queue.is_empty(), "nobody waits");
    assert_eq!(targets("crowd@acme.test").len(), CROWD);
    for number in 0..CROWD {
        assert_eq!(copies(&state, &format!("member{number}"), &content), 1, "member {number}");
    }
    assert_blobs(&world);
}
