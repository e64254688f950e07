//! Tests of uploads over a store in memory: what survives a restart, what ends, and what stays in the store.

use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use notes::ServerSettings;
use store::blob::BlobOptions;
use store::memory::MemoryEngine;
use store::{Direction, Engine, KeyRange, Store, StoreOptions, SyncMode, Table, TableReader as _};

use super::*;
use crate::limits::{UPLOAD_IN_MEMORY_BYTES_MAX, UPLOAD_LIFETIME, UPLOADS_PER_LOGIN_MAX};

/// The grace period of the store.
const GRACE: Duration = Duration::from_secs(3_600);

/// A server whose disk survives a restart.
struct World {
    engine: Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    random: Arc<SeededRandom>,
    databases: Arc<Databases>,
    uploads: Arc<Uploads>,
}

impl World {
    fn new() -> Self {
        let engine = Arc::new(MemoryEngine::new(1));
        Self::open(engine, Arc::new(SimClock::new()), Arc::new(SeededRandom::new(1)))
    }

    fn open(engine: Arc<MemoryEngine>, clock: Arc<SimClock>, random: Arc<SeededRandom>) -> Self {
        let blobs = BlobOptions { grace: GRACE, ..BlobOptions::default() };
        let options = StoreOptions { sync: SyncMode::Each, blobs, ..StoreOptions::default() };
        let store = Store::with_engine(Arc::clone(&engine) as Arc<dyn Engine>, &options).expect("the store opens");
        let sources = || (Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&random) as Arc<dyn Random>);
        let databases = Databases::open_with(Arc::new(store), sources().0, sources().1, ServerSettings::default());
        let uploads = Uploads::open(&databases, &Name::new("CN=hub/O=Acme"), sources()).expect("they open");
        Self { engine, clock, random, databases, uploads }
    }

    /// Restarts the server after everything that was acknowledged is on the disk.
    fn restart(self) -> Self {
        let Self { engine, clock, random, databases, uploads } = self;
        drop((databases, uploads));
        Self::open(engine, clock, random)
    }

    fn upload(&self, owner: &UploadOwner, content: &[u8]) -> String {
        let stored = self.try_upload(owner, content).expect("a sound store");
        self.databases.store().durable(stored.ticket).wait().expect("a sound store");
        assert_eq!(stored.size, content.len() as u64);
        stored.id
    }

    /// Uploads a content in pieces that do not end with the chunks of the store.
    fn try_upload(&self, owner: &UploadOwner, content: &[u8]) -> notes::Result<StoredUpload> {
        let mut arriving = self.uploads.begin();
        for piece in content.chunks(100_000) {
            arriving.add(piece)?;
        }
        arriving.store(owner.clone(), "text/plain; charset=utf-8")
    }

    /// Returns the whole content of an upload.
    fn read(&self, owner: &UploadOwner, id: &str) -> Option<Vec<u8>> {
        let found = self.uploads.find(owner, id)?;
        self.uploads.read(&found, 0..u64::MAX).expect("a sound store")
    }

    /// Returns the number of chunks in the store, of whatever content.
    fn chunks(&self) -> usize {
        let store = self.databases.store();
        let mut cursor = store.scan(Table::Blob, &KeyRange::all(), Direction::Forward).expect("a sound store");
        let mut count = 0;
        while cursor.next().expect("a sound store").is_some() {
            count += 1;
        }
        count
    }

    /// Returns the number of notes of uploads on the disk.
    fn notes(&self) -> usize {
        let database = DATABASE.find(&self.databases).expect("a sound store").expect("it exists");
        let mut count = 0;
        let server = Arc::new(Identity::local_server(Name::new("CN=hub/O=Acme")));
        let access: Access<level::Reader> = database.authorize(&server).expect("the server has access");
        let reading = access.read().expect("a sound store");
        let visited = reading.for_each_note(NoteId(0), &mut |header| {
            count += usize::from(header.class.is_document() && !header.is_stub());
            Ok(true)
        });
        visited.expect("a sound store");
        count
    }

    fn collect(&self) {
        let store = self.databases.store();
        store.blobs().collect(store, self.clock.now(), 1_000).expect("a sound store");
    }
}

fn owner(login: &str) -> UploadOwner {
    UploadOwner { login: login.to_owned(), account: "A1".to_owned() }
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SeededRandom::new(seed).fill(&mut bytes);
    bytes
}

#[test]
fn uploads_survive_a_restart() {
    let world = World::new();
    let ann = owner("ann");
    let contents = [0, 1, UPLOAD_IN_MEMORY_BYTES_MAX, UPLOAD_IN_MEMORY_BYTES_MAX + 1, 5 << 20];
    let contents: Vec<Vec<u8>> = contents.into_iter().map(|length| noise(length as u64, length)).collect();
    let ids: Vec<String> = contents.iter().map(|content| world.upload(&ann, content)).collect();
    let before: Vec<_> = ids.iter().map(|id| world.uploads.find(&ann, id).expect("it exists")).collect();
    let world = world.restart();
    for ((id, content), before) in ids.iter().zip(&contents).zip(before) {
        assert!(world.read(&ann, id).as_ref() == Some(content), "{} bytes", content.len());
        let after = world.uploads.find(&ann, id).expect("it exists");
        assert_eq!(after, FoundUpload { ticket: Ticket::NONE, ..before });
        assert_eq!(world.upload(&ann, content), *id, "the same content has the same name");
    }
    assert_eq!(world.notes(), contents.len());
    assert_eq!(world.chunks(), 1 + 1 + 2 + 20);
}

#[test]
fn ranges_of_an_upload_are_read() {
    let world = World::new();
    let content = noise(1, 700_000);
    let id = world.upload(&owner("ann"), &content);
    let found = world.uploads.find(&owner("ann"), &id).expect("it exists");
    let read = |range| world.uploads.read(&found, range).expect("a sound store").expect("it exists");
    for (start, end) in [(0, 5), (262_140, 262_150), (0, 700_000), (699_999, 700_000), (5, 5)] {
        assert!(read(start as u64..end as u64) == content[start..end], "{start}..{end}");
    }
    assert_eq!(read(700_000..u64::MAX), Vec::<u8>::new());
    assert_eq!((&*found.media_type, found.size), ("text/plain", 700_000));
}

#[test]
fn uploads_belong_to_a_login_and_an_account() {
    let world = World::new();
    let id = world.upload(&owner("ann"), b"text");
    assert_eq!(world.read(&owner("bob"), &id), None);
    assert_eq!(world.read(&UploadOwner { account: "A2".to_owned(), ..owner("ann") }, &id), None);
    assert_eq!(world.read(&owner("ann"), &id), Some(b"text".to_vec()));
    assert_eq!(world.upload(&owner("bob"), b"text"), id, "the name depends on the content");
    assert_eq!((world.notes(), world.chunks()), (2, 1), "the content is stored once");
}

#[test]
fn a_copy_for_another_account_shares_the_content() {
    let world = World::new();
    let target = UploadOwner { account: "A2".to_owned(), ..owner("ann") };
    let content = noise(1, 600_000);
    let id = world.upload(&owner("ann"), &content);
    let found = world.uploads.find(&owner("ann"), &id).expect("it exists");
    let copied = world.uploads.copy(&found, target.clone()).expect("a sound store").expect("it exists");
    assert_eq!(copied.id, id);
    assert!(world.read(&target, &id) == Some(content));
    assert_eq!((world.notes(), world.chunks()), (2, 3));
    world.clock.advance(UPLOAD_LIFETIME);
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 2);
    assert_eq!(world.uploads.copy(&found, target).expect("a sound store"), None, "it was removed");
}

#[test]
fn uploads_expire_and_give_their_bytes_back_after_the_grace_period() {
    let world = World::new();
    let early = world.upload(&owner("ann"), &noise(1, 600_000));
    world.clock.advance(Duration::from_secs(60));
    let late = world.upload(&owner("ann"), b"late");
    world.clock.advance(UPLOAD_LIFETIME - Duration::from_secs(60));
    assert_eq!(world.read(&owner("ann"), &early), None, "it does not exist before it is removed");
    assert!(world.read(&owner("ann"), &late).is_some());
    assert_eq!(world.notes(), 2);
    let world = world.restart();
    assert_eq!(world.read(&owner("ann"), &early), None);
    // The collector has seen since the arrival that the content is used.
    world.collect();
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 1);
    assert_eq!((world.notes(), world.chunks()), (1, 4));
    world.clock.advance(GRACE - Duration::from_secs(1));
    world.collect();
    assert_eq!(world.chunks(), 4);
    world.clock.advance(Duration::from_secs(1));
    world.collect();
    assert_eq!(world.chunks(), 1);
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 1, "the second one has expired meanwhile");
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 0);
}

#[test]
fn an_upload_that_comes_again_lives_longer() {
    let world = World::new();
    let id = world.upload(&owner("ann"), b"text");
    world.clock.advance(UPLOAD_LIFETIME / 2);
    assert_eq!(world.upload(&owner("ann"), b"text"), id);
    world.clock.advance(UPLOAD_LIFETIME / 2);
    assert_eq!(world.read(&owner("ann"), &id), Some(b"text".to_vec()));
    assert_eq!(world.notes(), 1);
}

#[test]
fn displaced_uploads_give_their_bytes_back_at_once() {
    let world = World::new();
    let oldest = world.upload(&owner("ann"), &noise(1, 600_000));
    let used = noise(2, 300_000);
    world.upload(&owner("ann"), &used);
    world.upload(&owner("bob"), &used);
    for number in 2..UPLOADS_PER_LOGIN_MAX {
        world.upload(&owner("ann"), number.to_string().as_bytes());
    }
    let found = world.uploads.find(&owner("ann"), &oldest).expect("it exists");
    let before = world.chunks();
    world.upload(&owner("ann"), b"one more");
    assert_eq!(world.read(&owner("ann"), &oldest), None);
    assert_eq!(world.uploads.read(&found, 0..10).expect("a sound store"), None, "it was removed since it was found");
    assert_eq!(world.chunks(), before - 3 + 1);
    world.upload(&owner("ann"), b"and one more");
    assert_eq!(world.chunks(), before - 3 + 2, "bob uses the content of the second one");
    assert_eq!(world.notes(), UPLOADS_PER_LOGIN_MAX + 1);
}

#[test]
fn a_content_that_something_else_has_brought_stays_for_the_grace_period() {
    let world = World::new();
    let content = noise(1, 300_000);
    let id = world.upload(&owner("ann"), &content);
    let found = world.uploads.find(&owner("ann"), &id).expect("it exists");
    world.clock.advance(UPLOAD_LIFETIME);
    world.uploads.remove_expired().expect("a sound store");
    assert_eq!(world.upload(&owner("ann"), &content), id, "its content is still there");
    assert!(found.is_content_new && !world.uploads.find(&owner("ann"), &id).expect("it exists").is_content_new);
    for number in 0..UPLOADS_PER_LOGIN_MAX {
        world.upload(&owner("ann"), number.to_string().as_bytes());
    }
    assert_eq!(world.read(&owner("ann"), &id), None);
    assert_eq!(world.chunks(), UPLOADS_PER_LOGIN_MAX + 2);
    world.clock.advance(GRACE);
    world.collect();
    assert_eq!(world.chunks(), UPLOADS_PER_LOGIN_MAX);
}

#[test]
fn uploads_that_break_off_leave_nothing() {
    let world = World::new();
    let content = noise(1, 5 << 20);
    let mut arriving = world.uploads.begin();
    arriving.add(&content).expect("a sound store");
    assert_eq!((arriving.length(), world.chunks()), (5 << 20, 20));
    drop(arriving);
    assert_eq!(world.chunks(), 0);
    let mut arriving = world.uploads.begin();
    arriving.add(&content).expect("a sound store");
    assert!(!arriving.complete_step().expect("a sound store"), "there are twenty chunks");
    drop(arriving);
    assert_eq!(world.chunks(), 0, "also while it is completed");
    let mut arriving = world.uploads.begin();
    arriving.add(&content).expect("a sound store");
    while !arriving.complete_step().expect("a sound store") {}
    drop(arriving);
    assert_eq!(world.chunks(), 0, "and when it is complete");
    let mut arriving = world.uploads.begin();
    arriving.add(&content).expect("a sound store");
    arriving.leave();
    assert_eq!(world.chunks(), 20);
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 0);
    assert_eq!(world.chunks(), 0, "it is removed later");
    let mut arriving = world.uploads.begin();
    arriving.add(&content).expect("a sound store");
    arriving.leave();
    let world = world.restart();
    world.clock.advance(GRACE);
    world.collect();
    assert_eq!(world.chunks(), 0, "the collector finds what was left");
}

#[test]
fn nothing_is_added_to_a_complete_upload() {
    let world = World::new();
    let mut arriving = world.uploads.begin();
    arriving.add(&noise(1, 300_000)).expect("a sound store");
    while !arriving.complete_step().expect("a sound store") {}
    assert!(arriving.add(b"more").is_err());
}

/// Lets the disk have space for some more bytes.
fn limit_disk(world: &World, bytes: u64) {
    let metrics = world.engine.metrics();
    let (_, written) = metrics.iter().find(|(name, _)| name == "written-bytes").expect("the engine counts them");
    world.engine.faults().set_capacity(written + bytes);
}

#[test]
fn uploads_that_fail_on_a_full_disk_leave_nothing_when_there_is_space() {
    let content = noise(1, 5 << 20);
    // There is space for some chunks, for all of them once, and for a part of the move.
    let lengths = [3 << 20, (5 << 20) + (1 << 18), 8 << 20];
    for bytes in lengths {
        let world = World::new();
        world.upload(&owner("ann"), b"before");
        limit_disk(&world, bytes);
        let mut arriving = world.uploads.begin();
        let added = content.chunks(100_000).try_for_each(|piece| arriving.add(piece));
        let completed = added.and_then(|()| {
            while !arriving.complete_step()? {}
            Ok(())
        });
        assert!(completed.is_err(), "{bytes} bytes");
        // There is no space for the removal either.
        limit_disk(&world, 0);
        drop(arriving);
        assert!(world.chunks() > 1, "{bytes} bytes");
        world.engine.faults().free_disk();
        world.upload(&owner("ann"), b"after");
        assert_eq!(world.chunks(), 2, "{bytes} bytes");
    }
}

#[test]
fn a_content_whose_note_does_not_fit_on_the_disk_is_removed_when_there_is_space() {
    let world = World::new();
    world.upload(&owner("ann"), b"before");
    let mut arriving = world.uploads.begin();
    arriving.add(&noise(1, 600_000)).expect("a sound store");
    while !arriving.complete_step().expect("a sound store") {}
    limit_disk(&world, 0);
    assert!(arriving.store(owner("ann"), "text/plain").is_err());
    assert_eq!(world.chunks(), 4);
    world.engine.faults().free_disk();
    assert_eq!(world.uploads.remove_expired().expect("a sound store"), 0);
    assert_eq!(world.chunks(), 1);
}
