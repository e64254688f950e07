//! Commands in a small mailbox through which many messages have passed, beside the same commands in a fresh one.
//!
//! The run passes `--pass` messages through the mailbox `Passed`: they are appended, flagged as deleted and expunged,
//! and `--messages` others stay. Then it creates a mailbox with as many messages that nothing has passed through, and
//! times the same commands in both, in turns, so that a machine whose speed changes affects both alike. Run again, it
//! continues with the mailbox that is there.

use std::time::Duration;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::imap_client::ImapClient;
use crate::measurements::{Measurements, Stopwatch};
use bench::random::SplitMix64;

const PASSED: &str = "Passed";
const FRESH: &str = "Fresh";
const MESSAGE_BYTES: usize = 1_000;
/// Messages that are appended before as many are expunged.
const AT_ONCE: usize = 20;

/// Passes messages through a mailbox, times commands in it and in a fresh one, and prints both as JSON.
pub fn run(arguments: &Arguments) -> Result<()> {
    let messages: usize = arguments.get_or("messages", 30)?;
    let user: usize = arguments.get_or("user", 1)?;
    let mut client = ImapClient::connect(arguments.text("address")?)?;
    client.login(user, arguments.text("password")?)?;
    let mut session = MailboxSession { client, user, messages, numbers: SplitMix64::new(arguments.get_or("seed", 3)?) };
    let is_new = session.client.command(&format!("STATUS {PASSED} (MESSAGES)")).is_err();
    if is_new {
        session.create(PASSED)?;
    }
    session.pass(arguments.get_or("pass", 0)?)?;
    let _ = session.client.command(&format!("DELETE {FRESH}"));
    session.create(FRESH)?;
    let mut passed = Measurements::default();
    let mut fresh = Measurements::default();
    let watch = Stopwatch::start();
    for _ in 0..arguments.get_or("samples", 100)? {
        session.sample(PASSED, &mut passed)?;
        session.sample(FRESH, &mut fresh)?;
    }
    let seconds = watch.elapsed().as_secs_f64();
    println!("{{\"passed\": {}, \"fresh\": {}}}", passed.json(seconds), fresh.json(seconds));
    session.client.command("LOGOUT")
}

/// A client, and the parameters of its work.
struct MailboxSession {
    client: ImapClient,
    user: usize,
    messages: usize,
    numbers: SplitMix64,
}

impl MailboxSession {
    fn create(&mut self, mailbox: &str) -> Result<()> {
        self.client.command(&format!("CREATE {mailbox}"))?;
        (0..self.messages).try_for_each(|_| self.append(mailbox).map(drop))
    }

    fn append(&mut self, mailbox: &str) -> Result<Duration> {
        let message = corpus::message(&mut self.numbers, 0, self.user, MESSAGE_BYTES);
        let watch = Stopwatch::start();
        self.client.append(mailbox, "", message.as_bytes())?;
        Ok(watch.elapsed())
    }

    /// Passes messages through the mailbox. Each time a run of neighbors from a random place is expunged.
    fn pass(&mut self, count: usize) -> Result<()> {
        self.client.command(&format!("SELECT {PASSED}"))?;
        for start in (0..count).step_by(AT_ONCE) {
            let size = AT_ONCE.min(count - start);
            for _ in 0..size {
                self.append(PASSED)?;
            }
            let first = 1 + self.numbers.below(self.messages);
            self.client.command(&format!("STORE {first}:{} +FLAGS.SILENT (\\Deleted)", first + size - 1))?;
            self.client.command("EXPUNGE")?;
        }
        self.client.command("UNSELECT")
    }

    /// Times each command once.
    fn sample(&mut self, mailbox: &str, figures: &mut Measurements) -> Result<()> {
        let middle = self.messages / 2;
        self.timed(figures, "STATUS", &format!("STATUS {mailbox} (MESSAGES UNSEEN UIDNEXT RECENT)"))?;
        self.timed(figures, "SELECT", &format!("SELECT {mailbox}"))?;
        self.timed(figures, "FETCH", &format!("FETCH {middle} (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)"))?;
        figures.add("APPEND", self.append(mailbox)?);
        self.client.command(&format!("STORE {middle} +FLAGS.SILENT (\\Deleted)"))?;
        self.timed(figures, "EXPUNGE", "EXPUNGE")
    }

    fn timed(&mut self, figures: &mut Measurements, name: &'static str, command: &str) -> Result<()> {
        let watch = Stopwatch::start();
        self.client.command(command)?;
        figures.add(name, watch.elapsed());
        Ok(())
    }
}
