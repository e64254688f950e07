//! Text extraction from PDFs in child processes with limited resources.
//!
//! PDF parsers follow references without a bound on depth, time or memory, and the files come from strangers. Therefore
//! this program starts itself as a child process ([`child`]) in a [`sandbox`] without files and with few system calls.
//! The child has limited address space and processor time, and communicates over its standard input and output. If it
//! dies, sends an invalid reply or takes longer than [`PDF_TIME_MAX`], only the text of its current file is lost; the
//! next file gets a new child.
//!
//! At most [`PDF_CHILDREN_MAX`] children run at the same time. Further callers wait for one; the wait is bounded
//! because the time of each child is. A child reads at most [`PDF_FILES_PER_CHILD_MAX`] files, and idle children end
//! after a batch of changes has been indexed ([`PdfReader::end_idle_children`]).

pub mod child;
mod sandbox;

use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::Clock;
use base::sync::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};
use search::extract::IsolatedReader;
use search::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENT_TEXT_BYTES_MAX};

use crate::limits::{PDF_CHILDREN_MAX, PDF_FILES_PER_CHILD_MAX, PDF_TIME_MAX};
use crate::system::SystemClock;

/// Path of the running program's executable, which stays valid if its file is replaced by a newer version.
pub const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// The hidden command that runs this program as a child that reads PDFs.
pub const READ_PDF_COMMAND: &str = "read-pdf";

/// The variable that limits the address space which the allocator of a child reserves at a time, in KiB. The default is
/// one GiB.
const ARENA_KIB: (&str, &str) = ("MIMALLOC_ARENA_RESERVE", "16384");

/// Length in bytes of the head of a request (the length of the file) and of a reply (whether there is text, and its
/// length).
const HEAD_BYTES: usize = 5;

/// Extracts the text of PDFs in child processes.
pub struct PdfReader {
    program: PathBuf,
    /// Maximum time for one file.
    time_max: Duration,
    pool: Mutex<Pool>,
    freed: Condvar,
    clock: SystemClock,
    /// Counters since the start.
    pub counters: PdfCounters,
}

/// Counters of extractions since the start.
#[derive(Debug, Default)]
pub struct PdfCounters {
    /// Files whose text was extracted.
    pub read: AtomicU64,
    /// Files that are no PDFs, have no text, or cannot be read.
    pub empty: AtomicU64,
    /// Files for which a child died, failed or took too long.
    pub failed: AtomicU64,
}

#[derive(Default)]
struct Pool {
    /// Children that wait for a file.
    idle: Vec<PdfChild>,
    /// Number of children that are reading a file.
    busy: usize,
}

impl PdfReader {
    /// Creates the service with the path of the program for the children. No child is started yet.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        let pool = Mutex::default();
        let freed = Condvar::new();
        Self {
            program,
            time_max: PDF_TIME_MAX,
            pool,
            freed,
            clock: SystemClock::new(),
            counters: PdfCounters::default(),
        }
    }

    /// Sets the maximum time for one file.
    #[must_use]
    pub fn with_time_max(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Ends the idle children.
    pub fn end_idle_children(&self) {
        let idle = std::mem::take(&mut self.lock().idle);
        drop(idle);
    }

    /// Returns the number of children, idle and busy.
    #[must_use]
    pub fn child_count(&self) -> usize {
        let pool = self.lock();
        pool.idle.len() + pool.busy
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }

    /// Waits until fewer than [`PDF_CHILDREN_MAX`] children are busy. Returns an idle child if there is one.
    fn acquire(&self) -> Option<PdfChild> {
        let is_full = |pool: &mut Pool| pool.busy >= PDF_CHILDREN_MAX;
        let mut pool = self.lock();
        self.freed.wait_while(&mut pool, is_full);
        pool.busy += 1;
        pool.idle.pop()
    }

    fn release(&self, reader: Option<PdfChild>) {
        let mut pool = self.lock();
        assert!(pool.busy > 0 && pool.busy <= PDF_CHILDREN_MAX, "each `release` follows an `acquire`");
        pool.busy -= 1;
        pool.idle.extend(reader.filter(|reader| reader.files < PDF_FILES_PER_CHILD_MAX));
        drop(pool);
        self.freed.notify_one();
    }

    fn read_with_child(
        &self,
        reader: Option<PdfChild>,
        bytes: &[u8],
    ) -> Result<(PdfChild, Option<String>), ChildFailure> {
        let deadline = self.clock.monotonic() + self.time_max;
        let left = || deadline.saturating_sub(self.clock.monotonic());
        let mut reader = reader.map_or_else(|| PdfChild::start(&self.program), Ok)?;
        let text = reader.extract_text(bytes, &left)?;
        Ok((reader, text))
    }
}

impl IsolatedReader for PdfReader {
    fn pdf_text(&self, bytes: &[u8]) -> Option<String> {
        if bytes.len() > ATTACHMENT_BYTES_MAX {
            return None;
        }
        let reader = self.acquire();
        let (reader, text, count) = match self.read_with_child(reader, bytes) {
            Ok((reader, Some(text))) => (Some(reader), Some(text), &self.counters.read),
            Ok((reader, None)) => (Some(reader), None, &self.counters.empty),
            Err(failure) => {
                tracing::info!(target: "full_text", why = failure.0, "gave up on a PDF");
                (None, None, &self.counters.failed)
            }
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.release(reader);
        text
    }
}

/// The reason why a child can no longer be used.
#[derive(Debug, PartialEq, Eq)]
struct ChildFailure(&'static str);

/// A child process; killed when dropped.
struct PdfChild {
    child: Child,
    requests: ChildStdin,
    replies: ChildStdout,
    /// Number of files that the child has read.
    files: usize,
}

impl PdfChild {
    fn start(program: &PathBuf) -> Result<Self, ChildFailure> {
        let mut command = Command::new(program);
        command.arg(READ_PDF_COMMAND).env_clear().env(ARENA_KIB.0, ARENA_KIB.1).current_dir("/");
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = started.map_err(|_| ChildFailure("the child process cannot be started"))?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(ChildFailure("the child process has no pipes"));
        };
        let reader = Self { child, requests: questions, replies: answers, files: 0 };
        let flags = fcntl_getfl(&reader.requests)
            .map_err(|_| ChildFailure("the pipe to the child process cannot be configured"))?;
        fcntl_setfl(&reader.requests, flags | OFlags::NONBLOCK)
            .map_err(|_| ChildFailure("the pipe to the child process cannot be configured"))?;
        Ok(reader)
    }

    fn extract_text(&mut self, bytes: &[u8], left: &dyn Fn() -> Duration) -> Result<Option<String>, ChildFailure> {
        self.files += 1;
        self.write_all(&child::encode_head(true, bytes.len()), left)?;
        self.write_all(bytes, left)?;
        let mut head = [0; HEAD_BYTES];
        self.read_exact(&mut head, left)?;
        let (is_text, length) = child::decode_head(head);
        if length > ATTACHMENT_TEXT_BYTES_MAX {
            return Err(ChildFailure("the reply of the child process is too long"));
        }
        let mut text = vec![0; length];
        self.read_exact(&mut text, left)?;
        let text = String::from_utf8(text).map_err(|_| ChildFailure("the reply of the child process is not UTF-8"))?;
        Ok(Some(text).filter(|_| is_text))
    }

    fn write_all(&self, mut bytes: &[u8], left: &dyn Fn() -> Duration) -> Result<(), ChildFailure> {
        while !bytes.is_empty() {
            wait(PollFd::new(&self.requests, PollFlags::OUT), left())?;
            match write(&self.requests, bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Err(ChildFailure("it died")),
            }
        }
        Ok(())
    }

    fn read_exact(&self, mut into: &mut [u8], left: &dyn Fn() -> Duration) -> Result<(), ChildFailure> {
        while !into.is_empty() {
            wait(PollFd::new(&self.replies, PollFlags::IN), left())?;
            match read(&self.replies, &mut *into) {
                Ok(0) => return Err(ChildFailure("it died")),
                Ok(count) => into = &mut into[count..],
                Err(Errno::INTR) => {}
                Err(_) => return Err(ChildFailure("it died")),
            }
        }
        Ok(())
    }
}

impl Drop for PdfChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the pipe is ready or its other end is closed. Returns an error after the time `left`.
fn wait(pipe: PollFd<'_>, left: Duration) -> Result<(), ChildFailure> {
    let left = Timespec::try_from(left).map_err(|_| ChildFailure("the child process took too long"))?;
    match poll(&mut [pipe], Some(&left)) {
        Ok(0) => Err(ChildFailure("the child process took too long")),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(_) => Err(ChildFailure("the pipe to the child process failed")),
    }
}
