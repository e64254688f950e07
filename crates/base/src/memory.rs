//! The memory of what peers send: budgets for bytes in transit, such as message bodies and calls.
//!
//! Code that stores bytes of a peer first acquires the same number from a budget ([`MemoryBudget::acquire`]) and holds
//! the [`MemoryPermit`] for as long as it holds the bytes. If the budget is used up, the request is refused and others
//! continue. A budget can be a share of another one ([`MemoryBudget::share`]): its bytes are taken from both, so that
//! one owner cannot lock out the others ([`MemoryShares`]). Content that arrives in pieces is collected in a
//! [`MeteredBuffer`].
//!
//! Invariants: the bytes that are held never exceed a budget or any budget that contains it, and a refused request
//! takes nothing. Dropping a permit returns all of its bytes.
//!
//! Only the bytes as received are counted. Copies that exist while a worker processes a message are bounded by the
//! number of threads (`docs/operating.md`).

mod shares;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::PREALLOCATION_BYTES_MAX;

pub use shares::{MemoryOwner, MemoryShares, ShareSizes};

/// Reason why no memory was acquired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The memory of all is used up.
    Total,
    /// The share is used up.
    Share,
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Total => "the server has no memory left",
            Self::Share => "the share of the memory is used up",
        })
    }
}

impl std::error::Error for Exhausted {}

/// A number of bytes that may be held at the same time. All clones are the same budget.
#[derive(Clone)]
pub struct MemoryBudget {
    pool: Arc<Pool>,
}

/// The bytes of a budget.
struct Pool {
    bytes_max: usize,
    /// Number of bytes that are held; at most `bytes_max`.
    held: AtomicUsize,
    /// The budget of which this one is a share.
    parent: Option<Arc<Pool>>,
}

impl Pool {
    fn new(bytes_max: usize, parent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { bytes_max, held: AtomicUsize::new(0), parent })
    }

    /// Takes bytes from this pool and from those that contain it, or from none of them.
    fn take(&self, bytes: usize) -> Result<(), Exhausted> {
        if !self.add(bytes) {
            return Err(if self.parent.is_some() { Exhausted::Share } else { Exhausted::Total });
        }
        let Some(parent) = &self.parent else { return Ok(()) };
        parent.take(bytes).map_err(|_| {
            self.held.fetch_sub(bytes, Ordering::AcqRel);
            Exhausted::Total
        })
    }

    /// Adds bytes to those that are held. Returns `false` if they would be too many.
    fn add(&self, bytes: usize) -> bool {
        let mut held = self.held.load(Ordering::Acquire);
        loop {
            let Some(sum) = held.checked_add(bytes).filter(|sum| *sum <= self.bytes_max) else { return false };
            match self.held.compare_exchange_weak(held, sum, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(changed) => held = changed,
            }
        }
    }

    fn put_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
        if let Some(parent) = &self.parent {
            parent.put_back(bytes);
        }
    }

    fn bytes_max(&self) -> usize {
        self.parent.as_ref().map_or(self.bytes_max, |parent| self.bytes_max.min(parent.bytes_max()))
    }

    fn available_bytes(&self) -> usize {
        let own = self.bytes_max.saturating_sub(self.held.load(Ordering::Acquire));
        self.parent.as_ref().map_or(own, |parent| own.min(parent.available_bytes()))
    }
}

impl MemoryBudget {
    /// Creates a budget of `bytes` bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { pool: Pool::new(bytes, None) }
    }

    /// Creates a budget without a limit, for tests and measurements.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(usize::MAX)
    }

    /// Creates a share of this budget: a budget of at most `bytes` bytes, which are taken from this one, too.
    #[must_use]
    pub fn share(&self, bytes: usize) -> Self {
        Self { pool: Pool::new(bytes, Some(Arc::clone(&self.pool))) }
    }

    /// Returns the number of bytes that can be acquired if nobody holds any.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.pool.bytes_max()
    }

    /// Returns the number of bytes that can be acquired.
    #[must_use]
    pub fn available_bytes(&self) -> usize {
        self.pool.available_bytes()
    }

    /// Returns the number of bytes that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.pool.held.load(Ordering::Acquire)
    }

    /// Acquires `bytes` bytes. Returns [`Exhausted`] if this budget, or one that contains it, has fewer left.
    pub fn acquire(&self, bytes: usize) -> Result<MemoryPermit, Exhausted> {
        let mut permit = self.empty_permit();
        permit.grow(bytes)?;
        Ok(permit)
    }

    /// Returns a permit without bytes, which can grow.
    #[must_use]
    pub fn empty_permit(&self) -> MemoryPermit {
        MemoryPermit { pool: Arc::clone(&self.pool), bytes: 0 }
    }
}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget").field("available_bytes", &self.available_bytes()).finish()
    }
}

/// Bytes taken from a budget; dropping the value returns them.
pub struct MemoryPermit {
    pool: Arc<Pool>,
    bytes: usize,
}

impl MemoryPermit {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Acquires further bytes from the same budget. Returns [`Exhausted`] if it has fewer left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.pool.take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Returns bytes to the budget, at most those of this permit.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.pool.put_back(bytes);
    }

    /// Adds the bytes of a permit of the same budget.
    pub fn merge(&mut self, mut other: Self) {
        if crate::always!(Arc::ptr_eq(&self.pool, &other.pool), "only permits of one budget are merged") {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        self.pool.put_back(self.bytes);
    }
}

impl fmt::Debug for MemoryPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryPermit").field("bytes", &self.bytes).finish()
    }
}

/// Bytes that arrive in pieces, and the memory that they take. The capacity of the buffer never exceeds the memory
/// taken for it.
#[derive(Debug)]
pub struct MeteredBuffer {
    bytes: Vec<u8>,
    memory: MemoryPermit,
}

impl MeteredBuffer {
    /// Creates an empty buffer, which takes no memory.
    #[must_use]
    pub fn new(budget: &MemoryBudget) -> Self {
        Self { bytes: Vec::new(), memory: budget.empty_permit() }
    }

    /// Returns the bytes received so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes memory for a total length of `bytes` without allocating it, so that content of an announced length cannot
    /// fail later.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.memory.grow(bytes.saturating_sub(self.memory.bytes()))
    }

    /// Takes memory for a total length of `bytes` and allocates it.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.hold(bytes)?;
        self.bytes.reserve_exact(bytes.saturating_sub(self.bytes.len()));
        Ok(())
    }

    /// Appends a piece. `bytes_max` is the maximum total length: no more capacity is allocated unless the piece needs
    /// it.
    pub fn append(&mut self, piece: &[u8], bytes_max: usize) -> Result<(), Exhausted> {
        let needed = self.bytes.len().saturating_add(piece.len());
        let capacity = self.bytes.capacity();
        if needed > capacity {
            let held = self.memory.bytes();
            // Each step copies what is there. Memory that is held already costs nothing more, so it is used in doubling
            // steps; otherwise the steps of long content grow by a quarter.
            let ahead = if needed <= held {
                capacity.saturating_mul(2).min(held)
            } else {
                capacity.saturating_add(capacity.min(PREALLOCATION_BYTES_MAX).max(capacity / 4))
            };
            let ahead = ahead.min(bytes_max);
            self.reserve(needed.max(ahead))?;
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Discards the bytes and returns their memory.
    pub fn clear(&mut self) {
        self.bytes = Vec::new();
        self.memory = MemoryPermit { pool: Arc::clone(&self.memory.pool), bytes: 0 };
    }

    /// Returns the bytes and the memory that must be held for as long as they are.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, MemoryPermit) {
        (self.bytes, self.memory)
    }
}

#[cfg(test)]
mod tests;
