//! Pieces of replies over HTTP that wait for the peer: the memory that they take, and whether the peer reads.
//!
//! HTTP/2 accepts a piece of a reply long before the peer does. If the peer's window has one byte left, hyper hands
//! over the whole piece, and h2 keeps it until the window has let all of it through. Therefore neither the request for
//! the next piece nor the drop of the body shows that anything was read. Only the piece itself does: a
//! [`ResponseChunk`] holds its memory, and counts as waiting, until h2 has written its last byte or has discarded it
//! with its stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::memory::MemoryPermit;
use bytes::{Buf, Bytes};
use tokio::time::Instant;

/// Tracks whether the peer of a connection reads its replies.
pub struct ReadProgress {
    /// Number of pieces that have not been written completely.
    waiting: AtomicUsize,
    begun: Instant,
    /// The time of the last progress in milliseconds after `begun`: when bytes were last written, or when a piece
    /// started to wait while no other was waiting.
    progress_ms: AtomicUsize,
}

impl ReadProgress {
    /// Creates the value with the present time as its start.
    #[must_use]
    pub fn new() -> Self {
        Self { waiting: AtomicUsize::new(0), begun: Instant::now(), progress_ms: AtomicUsize::new(0) }
    }

    /// Returns the time for which the peer has read nothing although pieces are waiting. Returns zero if no piece is
    /// waiting.
    #[must_use]
    pub fn stalled_time(&self) -> Duration {
        if self.waiting.load(Ordering::Acquire) == 0 {
            return Duration::ZERO;
        }
        let progress = Duration::from_millis(self.progress_ms.load(Ordering::Acquire) as u64);
        self.begun.elapsed().saturating_sub(progress)
    }

    /// Returns the number of pieces that are waiting.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    fn start_waiting(&self) {
        // Further waiting pieces do not reset the time of those that are waiting already.
        if self.waiting.fetch_add(1, Ordering::AcqRel) == 0 {
            self.advance();
        }
    }

    fn advance(&self) {
        let now = usize::try_from(self.begun.elapsed().as_millis()).unwrap_or(usize::MAX);
        self.progress_ms.store(now, Ordering::Release);
    }
}

impl Default for ReadProgress {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of a reply in transit, and the memory that they take.
pub struct ResponseChunk {
    bytes: Bytes,
    reading: Arc<ReadProgress>,
    _memory: MemoryPermit,
}

impl ResponseChunk {
    /// Creates a piece that waits for the peer from now on.
    #[must_use]
    pub fn new(bytes: Bytes, reading: Arc<ReadProgress>, memory: MemoryPermit) -> Self {
        reading.start_waiting();
        Self { bytes, reading, _memory: memory }
    }
}

impl Buf for ResponseChunk {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.reading.advance();
    }
}

impl Drop for ResponseChunk {
    fn drop(&mut self) {
        self.reading.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
