//! The bytes of a connection over WebSocket, counted: what arrives takes memory of the peer until its message has been
//! executed, and what is sent shows whether the client reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base::memory::{MemoryBudget, MemoryPermit};
use base::sync::Mutex;
use http::upgrade::UpgradedStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What has passed a connection.
pub(super) struct Traffic {
    /// Number of bytes received.
    pub(super) received: u64,
    /// Number of bytes sent.
    pub(super) sent: u64,
    /// `true` if there was no memory for what arrived.
    pub(super) is_exhausted: bool,
    /// The memory of what has arrived since the last message.
    memory: MemoryPermit,
}

impl Traffic {
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self { received: 0, sent: 0, is_exhausted: false, memory: budget.empty_permit() }
    }

    /// Returns the memory of the message that has arrived.
    pub(super) fn take_memory(&mut self, budget: &MemoryBudget) -> MemoryPermit {
        std::mem::replace(&mut self.memory, budget.empty_permit())
    }

    fn record_received(&mut self, bytes: usize) -> io::Result<()> {
        self.received += bytes as u64;
        self.memory.grow(bytes).map_err(|error| {
            self.is_exhausted = true;
            io::Error::other(error)
        })
    }
}

/// A connection whose bytes are counted.
pub(super) struct MeteredStream {
    inner: UpgradedStream,
    traffic: Arc<Mutex<Traffic>>,
}

impl MeteredStream {
    pub(super) fn new(inner: UpgradedStream, traffic: Arc<Mutex<Traffic>>) -> Self {
        Self { inner, traffic }
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        Poll::Ready(self.traffic.lock().record_received(buffer.filled().len() - before))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.traffic.lock().sent += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
