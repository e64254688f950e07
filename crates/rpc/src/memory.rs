//! The memory of calls: one budget for the bytes of all requests and replies in transit.
//!
//! Code that stores bytes of a peer first acquires the same number from the budget ([`MemoryBudget::acquire`]) and
//! holds the [`MemoryPermit`] for as long as it holds the bytes. If the budget is exhausted, the call fails and others
//! continue. An account has a [`MemoryShare`] of the budget and gets no more, however many sessions and connections it
//! has, so that no account can lock out the others. Content that arrives in pieces is collected in a [`MeteredBuffer`],
//! which takes memory as the pieces arrive and not as they announced.
//!
//! [`crate::request_body`] accounts for requests, [`crate::response_body`] for replies.

use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;
use crate::limits::PREALLOCATION_BYTES_MAX;

/// The memory that is available for messages. Cheap to clone.
#[derive(Clone)]
pub struct MemoryBudget {
    all: Arc<Semaphore>,
    /// The share of the account that makes the calls, if known.
    share: Option<MemoryShare>,
}

impl MemoryBudget {
    /// Creates a budget of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { all: semaphore(bytes), share: None }
    }

    /// Returns the same budget, limited to the share of one account.
    #[must_use]
    pub fn within(&self, share: &MemoryShare) -> Self {
        Self { all: Arc::clone(&self.all), share: Some(share.clone()) }
    }

    /// Returns the number of bytes that can be acquired.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.all.available_permits()
    }

    /// Acquires `bytes` bytes. Returns [`Error::Exhausted`] if the budget or the share has fewer left.
    pub fn acquire(&self, bytes: usize) -> Result<MemoryPermit, Error> {
        let share = self.share.as_ref().map(|share| acquire(&share.0, bytes, SHARE_FULL)).transpose()?;
        Ok(MemoryPermit { all: acquire(&self.all, bytes, FULL)?, share })
    }
}

/// The memory that the calls of one account may hold together. All clones refer to the same share.
#[derive(Clone)]
pub struct MemoryShare(Arc<Semaphore>);

impl MemoryShare {
    /// Creates a share of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self(semaphore(bytes))
    }
}

fn semaphore(bytes: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)))
}

fn acquire(from: &Arc<Semaphore>, bytes: usize, full: &'static str) -> Result<OwnedSemaphorePermit, Error> {
    let count = u32::try_from(bytes).map_err(|_| Error::Exhausted(full))?;
    Arc::clone(from).try_acquire_many_owned(count).map_err(|_| Error::Exhausted(full))
}

const FULL: &str = "the server has no memory left for this call, try again later";
const SHARE_FULL: &str =
    "the calls of this account use all the memory that one account may use; wait until some of them have finished";

/// Bytes taken from a budget; dropping the value returns them.
pub struct MemoryPermit {
    all: OwnedSemaphorePermit,
    share: Option<OwnedSemaphorePermit>,
}

impl MemoryPermit {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.all.num_permits()
    }

    /// Adds bytes taken from the same budget.
    pub fn merge(&mut self, other: Self) {
        self.all.merge(other.all);
        if let (Some(share), Some(others)) = (&mut self.share, other.share) {
            share.merge(others);
        }
    }
}

/// The memory of a call's request. It is held until the last clone of the handle is dropped, that is, until all code
/// that serves the call has finished.
#[derive(Clone, Default)]
pub struct RequestMemory(Arc<OnceLock<MemoryPermit>>);

impl RequestMemory {
    /// Sets the memory of the call's only message.
    pub fn set(&self, memory: MemoryPermit) {
        let outcome = self.0.set(memory);
        debug_assert!(outcome.is_ok(), "a call has one message");
    }
}

/// Bytes that arrive in pieces, and the memory that they take. The capacity of the buffer never exceeds the memory
/// taken for it.
pub struct MeteredBuffer {
    bytes: Vec<u8>,
    budget: MemoryBudget,
    memory: MemoryPermit,
}

impl MeteredBuffer {
    /// Creates an empty buffer.
    pub fn new(budget: &MemoryBudget) -> Result<Self, Error> {
        Ok(Self { bytes: Vec::new(), budget: budget.clone(), memory: budget.acquire(0)? })
    }

    /// Returns the bytes received so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends a piece. `bytes_max` is the maximum total length: no more capacity is allocated unless the piece needs
    /// it.
    pub fn append(&mut self, piece: &[u8], bytes_max: usize) -> Result<(), Error> {
        let needed = self.bytes.len().saturating_add(piece.len());
        let capacity = self.memory.bytes();
        if needed > capacity {
            let ahead = capacity.saturating_add(capacity.min(PREALLOCATION_BYTES_MAX)).min(bytes_max);
            let wanted = needed.max(ahead);
            self.memory.merge(self.budget.acquire(wanted - capacity)?);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Returns the bytes and the memory that must be held for as long as they are.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, MemoryPermit) {
        (self.bytes, self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_permits_return_their_memory() {
        let budget = MemoryBudget::new(100);
        let mut first = budget.acquire(50).expect("within the limit");
        first.merge(budget.acquire(10).expect("within the limit"));
        assert!(matches!(budget.acquire(41), Err(Error::Exhausted(_))), "more than is left");
        assert_eq!((budget.available_bytes(), first.bytes()), (40, 60), "a refused request takes nothing");
        let second = budget.acquire(40).expect("exactly this much is left");
        assert!(budget.acquire(0).is_ok() && budget.acquire(1).is_err());
        drop(first);
        assert_eq!(budget.available_bytes(), 60);
        drop(second);
        assert_eq!(budget.available_bytes(), 100);
        assert!(matches!(budget.acquire(usize::MAX), Err(Error::Exhausted(_))), "more than can be counted");
        assert!(MemoryBudget::new(usize::MAX).acquire(1 << 30).is_ok());
    }

    #[test]
    fn account_gets_no_more_than_its_share() {
        let budget = MemoryBudget::new(100);
        let share = MemoryShare::new(60);
        let other = MemoryShare::new(60);
        let ann = budget.within(&share);
        let again = budget.within(&share);
        let bob = budget.within(&other);
        let mut first = ann.acquire(30).expect("within the limit");
        first.merge(again.acquire(30).expect("within the limit"));
        assert!(matches!(again.acquire(1), Err(Error::Exhausted(SHARE_FULL))));
        assert!(matches!(bob.acquire(41), Err(Error::Exhausted(FULL))), "nor more than the budget has");
        let second = bob.acquire(40).expect("other accounts continue");
        assert_eq!((budget.available_bytes(), ann.available_bytes()), (0, 0));
        drop((first, second));
        assert_eq!(budget.available_bytes(), 100);
        assert!(bob.acquire(60).is_ok() && ann.acquire(60).is_ok(), "a refused request takes nothing of the share");
    }

    #[test]
    fn request_memory_is_released_with_its_last_clone() {
        let budget = MemoryBudget::new(100);
        let memory = RequestMemory::default();
        let job = memory.clone();
        memory.set(budget.acquire(60).expect("within the limit"));
        drop(memory);
        assert_eq!(budget.available_bytes(), 40);
        drop(job);
        assert_eq!(budget.available_bytes(), 100);
    }

    #[test]
    fn buffer_takes_memory_as_pieces_arrive() {
        let budget = MemoryBudget::new(1_000);
        let mut gathered = MeteredBuffer::new(&budget).expect("an empty buffer takes no memory");
        assert_eq!(budget.available_bytes(), 1_000, "the announced length takes nothing");
        let taken: Vec<usize> = [100, 50, 60, 300, 90]
            .map(|length| {
                gathered.append(&vec![7; length], 600).expect("within the limit");
                1_000 - budget.available_bytes()
            })
            .into();
        assert_eq!(
            taken,
            [100, 200, 400, 600, 600],
            "at most twice the received bytes, and at most the announced length"
        );
        assert!(gathered.append(&[7; 900], 600).is_err());
        assert_eq!(gathered.bytes().len(), 600, "a refused piece is not appended");
        let (bytes, memory) = gathered.into_parts();
        assert_eq!((bytes.capacity(), memory.bytes()), (600, 600));
        drop(memory);
        assert_eq!(budget.available_bytes(), 1_000);
    }
}
