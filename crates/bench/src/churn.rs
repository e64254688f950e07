//! The mix with churn: connected clients work on small mailboxes through which messages come and go.
//!
//! Every client has two mailboxes of about `--messages` messages and stays logged in. A round lists the folders, asks
//! for the status of the mailbox that it is about to leave, selects the other one, fetches flags, dates, sizes,
//! envelopes and structures of all messages and the newest ones whole, appends messages of 0.5 to 40 KB, flags as many
//! others as deleted and expunges them. The mailboxes keep their size while thousands of messages pass through them, so
//! a server whose cost depends on what was deleted becomes slower from interval to interval.
//!
//! The run has a length (`--seconds`), and commands are counted by interval of ten seconds as well.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::measurements::{self, Measurements, Stopwatch, Summary};
use crate::users::{self, ImapServer, run_users};
use bench::door::imap::plain_client::ImapClient;
use bench::random::SplitMix64;

const MAILBOXES: [&str; 2] = ["INBOX", "Work"];
const MESSAGE_BYTES_MIN: usize = 500;
const MESSAGE_BYTES_MAX: usize = 40_000;
/// Length of an interval that commands are counted by.
const INTERVAL: Duration = Duration::from_secs(10);
/// Messages that one round appends, and as many that it expunges, at most.
const TURNOVER_MAX: usize = 4;
/// Messages at the end of a mailbox that a round reads whole.
const READ_WHOLE: usize = 3;
/// The command by which a round reads the properties of every message of a mailbox.
const LISTING: &str = "FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODYSTRUCTURE)";

/// The settings that all clients share.
#[derive(Debug)]
struct Settings {
    server: ImapServer,
    messages: usize,
    length: Duration,
}

/// The times of all commands, and their numbers by interval.
#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    summary: Summary,
    interval_seconds: u64,
    commands_by_interval: Vec<u64>,
}

/// Fills the mailboxes unless `--fill 0`, runs all clients for `--seconds`, and prints times and counts as JSON.
pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = Settings {
        server: ImapServer::from_arguments(arguments)?,
        messages: arguments.get_or("messages", 30)?,
        length: Duration::from_secs(arguments.get_or("seconds", 60)?),
    };
    let clients = arguments.get_or("clients", 50)?;
    if settings.messages < 2 * TURNOVER_MAX {
        return Err(format!("--messages {} is less than {}", settings.messages, 2 * TURNOVER_MAX).into());
    }
    let settings = Arc::new(settings);
    let runtime = users::runtime()?;
    if arguments.get_or("fill", 1)? == 1 {
        runtime.block_on(run_users(clients, |user| fill(Arc::clone(&settings), user)))?;
    }
    if settings.length.is_zero() {
        return Ok(());
    }
    let figures = Measurements::default();
    let watch = Stopwatch::start();
    let rounds = |user| run_rounds(Arc::clone(&settings), user, figures.clone(), watch);
    let by_client = runtime.block_on(run_users(clients, rounds))?;
    let output = Output {
        summary: figures.summary(watch.elapsed().as_secs_f64()),
        interval_seconds: INTERVAL.as_secs(),
        commands_by_interval: sums(&by_client),
    };
    Ok(measurements::print(&output)?)
}

/// Adds up the counts of all clients, interval by interval.
fn sums(by_client: &[Vec<u64>]) -> Vec<u64> {
    let length = by_client.iter().map(Vec::len).max().unwrap_or(0);
    (0..length).map(|interval| by_client.iter().filter_map(|counts| counts.get(interval)).sum()).collect()
}

/// Fills the mailboxes of a user.
async fn fill(settings: Arc<Settings>, user: usize) -> Result<()> {
    let mut numbers = SplitMix64::new(user as u64);
    let mut client = settings.server.log_in(user).await?;
    for mailbox in MAILBOXES {
        // The mailbox may be there.
        client.command_with_any_status(&format!("CREATE {mailbox}")).await?;
        for index in 0..settings.messages {
            let message = draw_message(&mut numbers, index, user);
            client.append(mailbox, "", message.as_bytes()).await?;
        }
    }
    Ok(client.command("LOGOUT").await?)
}

/// Runs the rounds of one client until the time is over. Returns the number of commands by interval.
async fn run_rounds(settings: Arc<Settings>, user: usize, figures: Measurements, watch: Stopwatch) -> Result<Vec<u64>> {
    let client = settings.server.log_in(user).await?;
    let numbers = SplitMix64::new((user as u64) << 32);
    let mut user = User { client, number: user, numbers, appended: 0, figures, commands: 0 };
    let mut by_interval = Vec::new();
    for round in 0.. {
        let elapsed = watch.elapsed();
        if elapsed >= settings.length {
            break;
        }
        let before = user.commands;
        user.run_round(round % MAILBOXES.len(), settings.messages).await?;
        let interval = (elapsed.as_secs() / INTERVAL.as_secs()) as usize;
        by_interval.resize(by_interval.len().max(interval + 1), 0);
        by_interval[interval] += user.commands - before;
    }
    user.client.command("LOGOUT").await?;
    Ok(by_interval)
}

/// A logged-in client.
struct User {
    client: ImapClient,
    number: usize,
    numbers: SplitMix64,
    appended: usize,
    figures: Measurements,
    /// The number of commands that were sent.
    commands: u64,
}

impl User {
    /// Works once through a mailbox of `size` messages and leaves it at that size.
    async fn run_round(&mut self, chosen: usize, size: usize) -> Result<()> {
        let mailbox = MAILBOXES[chosen];
        let other = MAILBOXES[1 - chosen];
        self.run("LIST", "LIST \"\" \"*\"").await?;
        self.run("STATUS", &format!("STATUS {other} (MESSAGES UNSEEN UIDNEXT UIDVALIDITY)")).await?;
        self.run("SELECT", &format!("SELECT {mailbox}")).await?;
        self.run("FETCH", LISTING).await?;
        self.run("FETCH BODY", &format!("FETCH {}:{size} (BODY.PEEK[])", size - READ_WHOLE + 1)).await?;
        let number = 1 + self.numbers.below(size);
        self.run("STORE", &format!("STORE {number} +FLAGS (\\Seen)")).await?;
        let turnover = 1 + self.numbers.below(TURNOVER_MAX);
        for _ in 0..turnover {
            self.append(mailbox).await?;
        }
        let mut doomed = String::new();
        for index in 0..turnover {
            // One of each part of the mailbox, so that no number is named twice.
            let part = size / turnover;
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(doomed, "{comma}{}", 1 + index * part + self.numbers.below(part));
        }
        self.run("STORE", &format!("STORE {doomed} +FLAGS.SILENT (\\Deleted)")).await?;
        self.run("EXPUNGE", "EXPUNGE").await
    }

    async fn append(&mut self, mailbox: &str) -> Result<()> {
        self.appended += 1;
        self.commands += 1;
        let message = draw_message(&mut self.numbers, self.appended, self.number);
        Ok(self.figures.timed("APPEND", self.client.append(mailbox, "", message.as_bytes())).await?)
    }

    async fn run(&mut self, name: &'static str, command: &str) -> Result<()> {
        self.commands += 1;
        Ok(self.figures.timed(name, self.client.command(command)).await?)
    }
}

fn draw_message(numbers: &mut SplitMix64, index: usize, user: usize) -> String {
    let size = MESSAGE_BYTES_MIN + numbers.below(MESSAGE_BYTES_MAX - MESSAGE_BYTES_MIN);
    corpus::message(numbers, index, user, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_added_up_by_interval() {
        assert_eq!(sums(&[vec![3, 4], vec![], vec![5, 6, 7]]), [8, 10, 7]);
        assert_eq!(sums(&[]), [0; 0]);
    }
}
