//! Commands in a small mailbox through which many messages have passed, beside the same commands in a fresh one.
//!
//! The run passes `--pass` messages through the mailbox `Passed`: they are appended, flagged as deleted and expunged,
//! and `--messages` others stay. Then it creates a mailbox with as many messages that nothing has passed through, and
//! times the same commands in both, in turns, so that a machine whose speed changes affects both alike. Run again, it
//! continues with the mailbox that is there.

use std::time::Duration;

use serde::Serialize;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::measurements::{self, Measurements, Stopwatch, Summary};
use crate::users::{self, ImapServer};
use bench::door::imap::plain_client::ImapClient;
use bench::random::SplitMix64;

const PASSED: &str = "Passed";
const FRESH: &str = "Fresh";
const MESSAGE_BYTES: usize = 1_000;
/// Messages that are appended before as many are expunged.
const AT_ONCE: usize = 20;

/// The times of both mailboxes.
#[derive(Serialize)]
struct Output {
    passed: Summary,
    fresh: Summary,
}

/// Passes messages through a mailbox, times commands in it and in a fresh one, and prints both as JSON.
pub fn run(arguments: &Arguments) -> Result<()> {
    users::single_runtime()?.block_on(work(arguments))
}

async fn work(arguments: &Arguments) -> Result<()> {
    let messages: usize = arguments.get_or("messages", 30)?;
    let user: usize = arguments.get_or("user", 1)?;
    let client = ImapServer::from_arguments(arguments)?.log_in(user).await?;
    let mut session = MailboxSession { client, user, messages, numbers: SplitMix64::new(arguments.get_or("seed", 3)?) };
    let is_new = session.client.command(&format!("STATUS {PASSED} (MESSAGES)")).await.is_err();
    if is_new {
        session.create(PASSED).await?;
    }
    session.pass(arguments.get_or("pass", 0)?).await?;
    session.client.command_with_any_status(&format!("DELETE {FRESH}")).await?;
    session.create(FRESH).await?;
    let passed = Measurements::default();
    let fresh = Measurements::default();
    let watch = Stopwatch::start();
    for _ in 0..arguments.get_or("samples", 100)? {
        session.sample(PASSED, &passed).await?;
        session.sample(FRESH, &fresh).await?;
    }
    let seconds = watch.elapsed().as_secs_f64();
    measurements::print(&Output { passed: passed.summary(seconds), fresh: fresh.summary(seconds) })?;
    Ok(session.client.command("LOGOUT").await?)
}

/// A client, and the parameters of its work.
struct MailboxSession {
    client: ImapClient,
    user: usize,
    messages: usize,
    numbers: SplitMix64,
}

impl MailboxSession {
    async fn create(&mut self, mailbox: &str) -> Result<()> {
        self.client.command(&format!("CREATE {mailbox}")).await?;
        for _ in 0..self.messages {
            self.append(mailbox).await?;
        }
        Ok(())
    }

    async fn append(&mut self, mailbox: &str) -> Result<Duration> {
        let message = corpus::message(&mut self.numbers, 0, self.user, MESSAGE_BYTES);
        let watch = Stopwatch::start();
        self.client.append(mailbox, "", message.as_bytes()).await?;
        Ok(watch.elapsed())
    }

    /// Passes messages through the mailbox. Each time a run of neighbors from a random place is expunged.
    async fn pass(&mut self, count: usize) -> Result<()> {
        self.client.command(&format!("SELECT {PASSED}")).await?;
        for start in (0..count).step_by(AT_ONCE) {
            let size = AT_ONCE.min(count - start);
            for _ in 0..size {
                self.append(PASSED).await?;
            }
            let first = 1 + self.numbers.below(self.messages);
            let last = first + size - 1;
            self.client.command(&format!("STORE {first}:{last} +FLAGS.SILENT (\\Deleted)")).await?;
            self.client.command("EXPUNGE").await?;
        }
        Ok(self.client.command("UNSELECT").await?)
    }

    /// Times each command once.
    async fn sample(&mut self, mailbox: &str, figures: &Measurements) -> Result<()> {
        let middle = self.messages / 2;
        self.timed(figures, "STATUS", &format!("STATUS {mailbox} (MESSAGES UNSEEN UIDNEXT RECENT)")).await?;
        self.timed(figures, "SELECT", &format!("SELECT {mailbox}")).await?;
        let fetch = format!("FETCH {middle} (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)");
        self.timed(figures, "FETCH", &fetch).await?;
        figures.add("APPEND", self.append(mailbox).await?);
        self.client.command(&format!("STORE {middle} +FLAGS.SILENT (\\Deleted)")).await?;
        self.timed(figures, "EXPUNGE", "EXPUNGE").await
    }

    async fn timed(&mut self, figures: &Measurements, name: &'static str, command: &str) -> Result<()> {
        let watch = Stopwatch::start();
        self.client.command(command).await?;
        figures.add(name, watch.elapsed());
        Ok(())
    }
}
