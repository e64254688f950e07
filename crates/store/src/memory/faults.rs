//! Fault injection for the engine in memory.
//!
//! A fault is either requested (the next sync fails; the disk is full from now on) or drawn with a probability from the
//! seed. [`Faults::hold_syncs`] blocks syncs before they start, so that a test can control which writer waits for which
//! sync without sleeping.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::Random;
use base::sim::SeededRandom;
use base::sync::{Condvar, Mutex, MutexGuard};

use crate::error::{Error, Result};

/// Fault controls of one engine.
pub struct Faults {
    random: SeededRandom,
    write_failures_per_mille: AtomicU32,
    sync_failures_per_mille: AtomicU32,
    next_sync_fails: AtomicBool,
    next_sync_panics: AtomicBool,
    compactions_fail: AtomicBool,
    capacity_bytes: AtomicU64,
    syncs: AtomicU64,
    door: Mutex<SyncGate>,
    moved: Condvar,
}

#[derive(Default)]
struct SyncGate {
    closed: bool,
    waiting: usize,
}

impl Faults {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: SeededRandom::new(seed),
            write_failures_per_mille: AtomicU32::new(0),
            sync_failures_per_mille: AtomicU32::new(0),
            next_sync_fails: AtomicBool::new(false),
            next_sync_panics: AtomicBool::new(false),
            compactions_fail: AtomicBool::new(false),
            capacity_bytes: AtomicU64::new(u64::MAX),
            syncs: AtomicU64::new(0),
            door: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    /// Makes the next sync fail.
    pub fn fail_next_sync(&self) {
        self.next_sync_fails.store(true, Ordering::SeqCst);
    }

    /// Makes the next sync panic, as a broken engine might.
    pub fn panic_in_next_sync(&self) {
        self.next_sync_panics.store(true, Ordering::SeqCst);
    }

    /// Makes compactions fail from now on, as on a full disk.
    pub fn fail_compactions(&self) {
        self.compactions_fail.store(true, Ordering::SeqCst);
    }

    pub(super) fn check_compaction(&self) -> Result<()> {
        match self.compactions_fail.load(Ordering::SeqCst) {
            true => Err(Error::Full("no space for a compaction".to_owned())),
            false => Ok(()),
        }
    }

    /// Makes the given number of syncs in a thousand fail.
    pub fn fail_syncs(&self, per_mille: u32) {
        self.sync_failures_per_mille.store(per_mille, Ordering::SeqCst);
    }

    /// Makes the given number of writes in a thousand fail. A failed write changes nothing.
    pub fn fail_writes(&self, per_mille: u32) {
        self.write_failures_per_mille.store(per_mille, Ordering::SeqCst);
    }

    /// Makes the disk full once the given number of bytes is written, or at once if it already is.
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Makes the capacity of the disk unlimited again.
    pub fn free_disk(&self) {
        self.set_capacity(u64::MAX);
    }

    /// Blocks syncs before they do anything, until [`Faults::release_syncs`].
    pub fn hold_syncs(&self) {
        self.lock().closed = true;
    }

    /// Lets blocked syncs continue.
    pub fn release_syncs(&self) {
        self.lock().closed = false;
        self.moved.notify_all();
    }

    /// Waits until a sync is blocked.
    pub fn wait_for_held_sync(&self) {
        let mut door = self.lock();
        while door.waiting == 0 {
            self.moved.wait(&mut door);
        }
    }

    /// Returns the number of syncs requested so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::SeqCst)
    }

    /// Returns the random generator from which faults are drawn.
    #[must_use]
    pub fn random(&self) -> &SeededRandom {
        &self.random
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity_bytes.load(Ordering::SeqCst)
    }

    pub(super) fn before_write(&self) -> Result<()> {
        if self.is_drawn(&self.write_failures_per_mille) {
            return Err(Error::Failed { what: "write", reason: "simulated fault".into() });
        }
        Ok(())
    }

    pub(super) fn before_sync(&self) -> Result<()> {
        self.syncs.fetch_add(1, Ordering::SeqCst);
        self.wait_while_held();
        assert!(!self.next_sync_panics.swap(false, Ordering::SeqCst), "simulated panic in a sync");
        if self.next_sync_fails.swap(false, Ordering::SeqCst) || self.is_drawn(&self.sync_failures_per_mille) {
            return Err(Error::Failed { what: "sync the log", reason: "simulated fault".into() });
        }
        Ok(())
    }

    fn is_drawn(&self, per_mille: &AtomicU32) -> bool {
        let per_mille = per_mille.load(Ordering::SeqCst);
        per_mille > 0 && self.random.below(1_000) < u64::from(per_mille)
    }

    fn wait_while_held(&self) {
        let mut door = self.lock();
        door.waiting += 1;
        self.moved.notify_all();
        while door.closed {
            self.moved.wait(&mut door);
        }
        door.waiting -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, SyncGate> {
        self.door.lock()
    }
}
