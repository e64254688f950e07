//! The DEFLATE layer of RFC 4978 (IMAP COMPRESS): raw deflate in both directions over any transport.
//!
//! [`Deflate`] holds the compressor, the decompressor and the bytes between them and the transport. The transport is
//! passed in by [`crate::Stream`], which owns both. A flush ends with an empty stored block (`Z_SYNC_FLUSH`), so that
//! the peer can read everything written so far.
//!
//! Memory: the compressor (about 320 KiB) exists only between the first write after [`Deflate::release_memory`] and the
//! next `release_memory`. This is allowed because after a sync flush the output is at a byte boundary, and a new
//! compressor refers only to data that it has sent itself. The decompressor (about 45 KiB) must stay, because the peer
//! may refer back 32 KiB at any time.
//!
//! A peer cannot exhaust memory with data that expands enormously: decompressed bytes go straight into the reader's
//! buffer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{DEFLATE_INPUT_BYTES_MAX, DEFLATE_OUTPUT_BYTES_MAX};

/// Number of bytes compressed or decompressed in one step. They lie on the stack.
const STEP_BYTES: usize = 8 << 10;

/// State of a compressed connection.
pub(crate) struct Deflate {
    decompress: Decompress,
    /// Compressed bytes from the peer; the first `taken` of them are consumed.
    input: Vec<u8>,
    taken: usize,
    /// Set if the decompressor may hold bytes although all input is consumed: the last call filled its buffer.
    more_inside: bool,
    ended: bool,
    /// The compressor, or `None` until something is written.
    compress: Option<Box<Compress>>,
    /// Compressed bytes for the transport; the first `sent` of them are written.
    output: Vec<u8>,
    sent: usize,
    /// Set if something was written since the last sync flush.
    unflushed: bool,
}

impl Deflate {
    pub(crate) fn new() -> Self {
        Self {
            decompress: Decompress::new(false),
            input: Vec::new(),
            taken: 0,
            more_inside: false,
            ended: false,
            compress: None,
            output: Vec::new(),
            sent: 0,
            unflushed: false,
        }
    }

    /// Releases the memory that an idle connection does not need. Does nothing between a write and its flush.
    pub(crate) fn release_memory(&mut self) {
        if !self.unflushed && self.sent == self.output.len() {
            self.compress = None;
            self.output = Vec::new();
            self.sent = 0;
        }
        if self.taken == self.input.len() {
            self.input = Vec::new();
            self.taken = 0;
        }
    }

    pub(crate) fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        transport: &mut T,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while buffer.remaining() > 0 && !self.ended {
            if self.taken < self.input.len() || self.more_inside {
                if self.decompress_into(buffer)? > 0 {
                    break;
                }
                continue;
            }
            if ready!(self.fill(transport, cx))? == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(crate) fn poll_write<T: AsyncWrite + Unpin>(
        &mut self,
        transport: &mut T,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.output.len().saturating_sub(self.sent) >= DEFLATE_OUTPUT_BYTES_MAX {
            ready!(self.poll_drain(transport, cx))?;
        }
        let length = bytes.len().min(DEFLATE_OUTPUT_BYTES_MAX);
        self.unflushed |= length > 0;
        self.compress_all(&bytes[..length])?;
        Poll::Ready(Ok(length))
    }

    pub(crate) fn poll_flush<T: AsyncWrite + Unpin>(
        &mut self,
        transport: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unflushed {
            self.sync()?;
            self.unflushed = false;
        }
        ready!(self.poll_drain(transport, cx))?;
        Pin::new(transport).poll_flush(cx)
    }

    /// Reads compressed bytes from the transport. Returns zero at its end.
    fn fill<T: AsyncRead + Unpin>(&mut self, transport: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [const { MaybeUninit::uninit() }; DEFLATE_INPUT_BYTES_MAX];
        let mut fresh = ReadBuf::uninit(&mut space);
        ready!(Pin::new(transport).poll_read(cx, &mut fresh))?;
        self.input.clear();
        self.taken = 0;
        self.input.extend_from_slice(fresh.filled());
        Poll::Ready(Ok(self.input.len()))
    }

    fn decompress_into(&mut self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        let mut space = [0; STEP_BYTES];
        let left_bytes = buffer.remaining().min(space.len());
        let before_in = self.decompress.total_in();
        let before_out = self.decompress.total_out();
        let input = self.input.get(self.taken..).unwrap_or_default();
        let status = self
            .decompress
            .decompress(input, &mut space[..left_bytes], FlushDecompress::None)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let consumed = count(self.decompress.total_in(), before_in);
        let produced = count(self.decompress.total_out(), before_out);
        if consumed == 0 && produced == 0 && !input.is_empty() && status != Status::StreamEnd {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the compressed stream makes no progress"));
        }
        self.taken = self.taken.saturating_add(consumed);
        self.more_inside = produced == left_bytes;
        self.ended = status == Status::StreamEnd;
        buffer.put_slice(space.get(..produced).unwrap_or_default());
        Ok(produced)
    }

    /// Compresses all the bytes and collects the output available so far.
    fn compress_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let (consumed, produced) = self.compress_step(bytes, FlushCompress::None)?;
            bytes = bytes.get(consumed..).unwrap_or_default();
            if bytes.is_empty() && produced < STEP_BYTES {
                return Ok(());
            }
        }
    }

    /// Emits everything compressed so far, up to a byte boundary.
    ///
    /// The compressor forgets the flush request if its output did not fit into one step, and continues to return
    /// pending output. The flush is therefore requested again until its output fits. At worst the peer sees an empty
    /// block twice.
    fn sync(&mut self) -> io::Result<()> {
        while self.compress_step(&[], FlushCompress::Sync)?.1 == STEP_BYTES {
            self.compress_all(&[])?;
        }
        Ok(())
    }

    /// Runs the compressor once. Returns the numbers of bytes consumed and produced.
    fn compress_step(&mut self, bytes: &[u8], flush: FlushCompress) -> io::Result<(usize, usize)> {
        let compress = self.compress.get_or_insert_with(|| Box::new(Compress::new(Compression::fast(), false)));
        let mut space = [0; STEP_BYTES];
        let before_in = compress.total_in();
        let before_out = compress.total_out();
        compress.compress(bytes, &mut space, flush).map_err(io::Error::other)?;
        let produced = count(compress.total_out(), before_out);
        self.output.extend_from_slice(space.get(..produced).unwrap_or_default());
        Ok((count(compress.total_in(), before_in), produced))
    }

    /// Writes the pending output to the transport.
    fn poll_drain<T: AsyncWrite + Unpin>(&mut self, transport: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.output.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let written = ready!(Pin::new(&mut *transport).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent = self.sent.saturating_add(written);
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

fn count(after: u64, before: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}
