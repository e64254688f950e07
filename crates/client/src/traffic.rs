//! The bytes that connections send and receive, counted where they enter and leave the sockets: TLS is included, and
//! what the network adds is not.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counters of bytes. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Traffic {
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Wraps a stream so that its bytes are counted here.
    #[must_use]
    pub fn counted<S>(&self, stream: S) -> CountedStream<S> {
        CountedStream { stream, traffic: self.clone() }
    }

    /// Returns the number of bytes that have been sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.counters.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that have been received.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.counters.received.load(Ordering::Relaxed)
    }

    fn count_sent(&self, sent: &Poll<Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = sent {
            self.counters.sent.fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }
}

/// A stream whose bytes are counted.
#[derive(Debug)]
pub struct CountedStream<S> {
    stream: S,
    traffic: Traffic,
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let bytes = buffer.filled().len() - before;
        self.traffic.counters.received.fetch_add(bytes as u64, Ordering::Relaxed);
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.traffic.count_sent(&sent);
        sent
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.traffic.count_sent(&sent);
        sent
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bytes_of_all_streams_are_counted() {
        let traffic = Traffic::default();
        for _ in 0..2 {
            let (one, mut other) = tokio::io::duplex(64);
            let mut counted = traffic.counted(one);
            counted.write_all(b"hello").await.expect("there is room");
            let slices = [IoSlice::new(b"a"), IoSlice::new(b"b")];
            let sent = counted.write_vectored(&slices).await.expect("there is room");
            other.write_all(b"you").await.expect("there is room");
            let mut received = [0; 3];
            counted.read_exact(&mut received).await.expect("they were sent");
            assert!(sent >= 1 && received == *b"you");
        }
        assert_eq!(traffic.received(), 6);
        assert!(traffic.sent() >= 12, "{}", traffic.sent());
    }
}
