//! A mail server without sockets: notes, mail files and router over one in-memory engine.
//!
//! There are several ways in which writes become durable, because each way has its own moments at which a crash can
//! occur; see [`SyncTiming`]. In all of them a single thread decides when the disk is synced, so that a run is
//! reproducible from its seed.

use std::sync::Arc;
use std::time::Duration;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Name};
use mail::mailbox::{MailFile, MailOptions, MailStore};
use mail::router::{AddressResolver, DeliveryTarget, LocalMailbox, ReportRates, Router, RouterOptions};
use notes::Databases;
use store::blob::BlobOptions;
use store::memory::MemoryEngine;
use store::{Store, StoreOptions, SyncMode};

/// Time for which unused content is kept.
pub const GRACE: Duration = Duration::from_hours(1);

/// The way in which writes become durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncTiming {
    /// Writes become durable when the simulation decides. Until then many batches may be lost, in the order in which
    /// they were written.
    Late,
    /// Each batch is synced separately, before its writer continues.
    Each,
    /// The thread of the log syncs. It is blocked until the simulation waits for it.
    Group,
}

impl SyncTiming {
    fn mode(self) -> SyncMode {
        match self {
            Self::Late => SyncMode::Off,
            Self::Each => SyncMode::Each,
            Self::Group => SyncMode::Group,
        }
    }
}

/// A mail server.
pub struct World {
    pub memory: Arc<MemoryEngine>,
    pub clock: Arc<SimClock>,
    pub mail: Arc<MailStore>,
    pub router: Arc<Router>,
    syncing: SyncTiming,
}

impl World {
    /// Starts a server on an empty disk.
    pub fn new(seed: u64, syncing: SyncTiming) -> Self {
        let memory = Arc::new(MemoryEngine::new(seed));
        Self::open(memory, Arc::new(SimClock::new()), syncing).expect("an empty disk can be used")
    }

    /// Starts a server on the contents of a disk.
    pub fn open(memory: Arc<MemoryEngine>, clock: Arc<SimClock>, syncing: SyncTiming) -> mail::Result<Self> {
        // The identifiers differ from those before the crash, as with a real generator.
        let random = SeededRandom::new(base::Random::next_u64(memory.random()));
        let mail = open_mail(&memory, clock.clone(), syncing, random)?;
        // The model of the simulation knows no limits of reports.
        let report_rates = ReportRates { all: u64::MAX, success: u64::MAX };
        let options = RouterOptions { server: "mx.acme.test".into(), report_rates, ..RouterOptions::default() };
        let router = Router::open(Arc::clone(&mail), Arc::new(Acme), options)?;
        Ok(Self { memory, clock, mail, router, syncing })
    }

    /// Starts a server on this world's disk after a simulated power failure at this moment.
    pub fn crashed(&self) -> Self {
        let memory = Arc::new(self.memory.crash());
        Self::open(memory, Arc::clone(&self.clock), self.syncing).expect("what a crash leaves can be opened")
    }

    pub fn databases(&self) -> &Arc<Databases> {
        self.mail.databases()
    }

    pub fn store(&self) -> &Arc<Store> {
        self.databases().store()
    }

    pub fn now(&self) -> base::Timestamp {
        self.clock.now()
    }

    /// Opens an existing mail file.
    pub fn file(&self, path: &str) -> MailFile {
        self.mail.open_as_server(path).expect("the mail file can be opened")
    }

    /// Returns the number of the last batch.
    pub fn written(&self) -> u64 {
        self.memory.sequences().0
    }

    /// Blocks syncs until [`World::sync_all`]. A wait for a sync in this state never ends.
    pub fn block_syncs(&self) {
        if self.syncing == SyncTiming::Group {
            self.memory.faults().hold_syncs();
        }
    }

    /// Allows syncs at any time.
    pub fn allow_syncs(&self) {
        self.memory.faults().release_syncs();
    }

    /// Makes all writes durable. They then count as acknowledged.
    pub fn sync_all(&self) -> store::Result<()> {
        match self.syncing {
            SyncTiming::Late => self.store().engine().sync(),
            SyncTiming::Each => Ok(()),
            SyncTiming::Group => {
                self.allow_syncs();
                self.store().durable(self.store().committer().last()).wait()
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // The thread of the log is joined when the store is dropped.
        self.allow_syncs();
    }
}

fn open_mail(
    memory: &Arc<MemoryEngine>,
    clock: Arc<SimClock>,
    syncing: SyncTiming,
    random: SeededRandom,
) -> mail::Result<Arc<MailStore>> {
    let blobs = BlobOptions { grace: GRACE, ..BlobOptions::default() };
    let options = StoreOptions { sync: syncing.mode(), blobs, ..StoreOptions::default() };
    let engine: Arc<dyn store::Engine> = memory.clone();
    let store = Arc::new(Store::with_engine(engine, &options)?);
    let databases = Databases::open(store, clock, Arc::new(random));
    Ok(MailStore::new(databases, MailOptions { separation: 256.into(), ..MailOptions::default() }))
}

/// Number of members of the group `crowd`. It exceeds the limit of one transaction.
pub const CROWD_MEMBERS: usize = 1_700;

/// The addresses of acme.test. All users exist except `gone`. `team`, `all`, `full` and `crowd` are groups. `tiny` and
/// `small` have small quotas.
pub struct Acme;

impl AddressResolver for Acme {
    fn targets(&self, address: &str) -> mail::Result<Vec<DeliveryTarget>> {
        Ok(targets(address))
    }
}

/// Returns the targets of an address.
pub fn targets(address: &str) -> Vec<DeliveryTarget> {
    let Some(name) = address.strip_suffix("@acme.test") else { return vec![DeliveryTarget::Remote(address.into())] };
    let several = |names: &[&str]| names.iter().flat_map(|name| targets(name)).collect();
    match name {
        "team" => several(&["ann@acme.test", "bob@acme.test", "carl@away.test"]),
        "all" => several(&["team@acme.test", "cy@acme.test", "tiny@acme.test", "dora@far.test", "ann@acme.test"]),
        "full" => several(&["small@acme.test", "tiny@acme.test"]),
        "crowd" => (0..CROWD_MEMBERS).map(|number| DeliveryTarget::Local(local(&format!("member{number}")))).collect(),
        "gone" => vec![DeliveryTarget::Undeliverable("550 5.1.1 no such user".into())],
        name => vec![DeliveryTarget::Local(local(name))],
    }
}

/// Returns the mailbox of a user at acme.test.
pub fn local(name: &str) -> LocalMailbox {
    LocalMailbox {
        mail_file: format!("mail/{name}.nsf"),
        title: name.to_owned(),
        owner: Name::new(&format!("{name}@acme.test")),
        quota_bytes: quota_of(name),
        other_server: None,
    }
}

fn quota_of(name: &str) -> Option<u64> {
    match name {
        "tiny" => Some(6_000),
        "small" => Some(20_000),
        _ => None,
    }
}

/// Returns `true` if a mail file has a quota and may be full.
pub fn has_quota(mail_file: &str) -> bool {
    mail_file.trim_start_matches("mail/").strip_suffix(".nsf").and_then(quota_of).is_some()
}
