//! The mixed IMAP workload: a typical session of a mail program, run by many clients at once, each in its own mailbox.
//!
//! A round is one session: log in, list, select, flags of all messages, envelopes of the newest twenty, some bodies and
//! headers, changed flags, two messages appended and two removed, two searches, log out. Before the measurement every
//! mailbox is filled to the same size. Every round leaves the size unchanged, so the cost of a round does not depend on
//! their number. With `--login once` a client keeps its connection and selects the mailbox again in each round.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::measurements::{self, Measurements, Stopwatch};
use crate::users::{self, ImapServer, run_users};
use bench::door::imap::plain_client::ImapClient;
use bench::random::SplitMix64;

/// Size of the text of an appended message in bytes.
const MESSAGE_BYTES: usize = 4_000;
const NEWEST: usize = 20;

/// Settings shared by all clients.
#[derive(Debug)]
struct Settings {
    server: ImapServer,
    rounds: usize,
    messages: usize,
    login_once: bool,
}

/// Fills the mailboxes, runs all clients, and prints the times of their commands.
pub fn run(arguments: &Arguments) -> Result<()> {
    let settings = Settings {
        server: ImapServer::from_arguments(arguments)?,
        rounds: arguments.get_or("rounds", 20)?,
        messages: arguments.get_or("messages", 100)?,
        login_once: arguments.get_or("login", "always".to_owned())? == "once",
    };
    let clients = arguments.get_or("clients", 50)?;
    if settings.messages < NEWEST {
        let messages = settings.messages;
        return Err(format!("--messages {messages} is too low: each round reads the newest {NEWEST} messages").into());
    }
    let settings = Arc::new(settings);
    let runtime = users::runtime()?;
    if arguments.get_or("fill", 1)? == 1 {
        runtime.block_on(run_users(clients, |user| fill(Arc::clone(&settings), user)))?;
    }
    if settings.rounds == 0 {
        return Ok(());
    }
    let figures = Measurements::default();
    let watch = Stopwatch::start();
    let sessions = |user| run_sessions(Arc::clone(&settings), user, figures.clone());
    runtime.block_on(run_users(clients, sessions))?;
    Ok(measurements::print(&figures.summary(watch.elapsed().as_secs_f64()))?)
}

/// Fills the mailbox of a user.
async fn fill(settings: Arc<Settings>, user: usize) -> Result<()> {
    let mut numbers = SplitMix64::new(user as u64);
    let mut client = settings.server.log_in(user).await?;
    client.command("SELECT INBOX").await?;
    // An empty mailbox has no messages to flag.
    client.command_with_any_status("STORE 1:* +FLAGS.SILENT (\\Deleted)").await?;
    client.command("EXPUNGE").await?;
    for index in 0..settings.messages {
        let message = corpus::message(&mut numbers, index, user, MESSAGE_BYTES);
        client.append("INBOX", "", message.as_bytes()).await?;
    }
    Ok(client.command("LOGOUT").await?)
}

/// Runs the rounds of a user.
async fn run_sessions(settings: Arc<Settings>, user: usize, figures: Measurements) -> Result<()> {
    let mut numbers = SplitMix64::new((user as u64) << 32);
    let mut open = None;
    for round in 0..settings.rounds {
        let client = match open.take() {
            Some(client) => client,
            None => log_in(&settings, user, &figures).await?,
        };
        let mut session = Session { client, user, messages: settings.messages, figures: &figures };
        session.run_round(round, &mut numbers).await?;
        if settings.login_once && round + 1 < settings.rounds {
            open = Some(session.client);
        } else {
            session.run("LOGOUT", "LOGOUT").await?;
        }
    }
    Ok(())
}

async fn log_in(settings: &Settings, user: usize, figures: &Measurements) -> Result<ImapClient> {
    let watch = Stopwatch::start();
    let client = settings.server.log_in(user).await?;
    figures.add("LOGIN", watch.elapsed());
    Ok(client)
}

/// State of a running session.
struct Session<'a> {
    client: ImapClient,
    user: usize,
    messages: usize,
    figures: &'a Measurements,
}

impl Session<'_> {
    async fn run(&mut self, name: &'static str, command: &str) -> Result<()> {
        Ok(self.figures.timed(name, self.client.command(command)).await?)
    }

    async fn run_round(&mut self, round: usize, numbers: &mut SplitMix64) -> Result<()> {
        let last = self.messages;
        self.run("LIST", "LIST \"\" \"*\"").await?;
        self.run("SELECT", "SELECT INBOX").await?;
        self.run("FETCH FLAGS", "FETCH 1:* (UID FLAGS)").await?;
        let newest = last + 1 - NEWEST;
        let envelopes = format!("FETCH {newest}:{last} (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)");
        self.run("FETCH ENVELOPE", &envelopes).await?;
        for _ in 0..3 {
            let number = 1 + numbers.below(last);
            self.run("FETCH BODY", &format!("FETCH {number} (BODY.PEEK[])")).await?;
        }
        let number = 1 + numbers.below(last);
        let header = format!("FETCH {number} (BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT DATE)])");
        self.run("FETCH HEADER", &header).await?;
        self.run("FETCH STRUCTURE", &format!("FETCH {number} (BODYSTRUCTURE)")).await?;
        self.run("STORE", &format!("STORE {number} +FLAGS (\\Seen)")).await?;
        self.run("STORE", &format!("STORE {newest}:{last} FLAGS.SILENT (\\Answered)")).await?;
        self.run("SEARCH", "SEARCH UNSEEN").await?;
        self.run("SEARCH", "SEARCH SUBJECT meeting SINCE 1-Jan-2024").await?;
        self.append_and_remove(round, numbers).await?;
        self.run("NOOP", "NOOP").await
    }

    async fn append_and_remove(&mut self, round: usize, numbers: &mut SplitMix64) -> Result<()> {
        let mut doomed = String::new();
        let half = self.messages / 2;
        for index in 0..2 {
            let message = corpus::message(numbers, round * 2 + index, self.user, MESSAGE_BYTES);
            let append = self.client.append("INBOX", "", message.as_bytes());
            self.figures.timed("APPEND", append).await?;
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(doomed, "{comma}{}", 1 + (numbers.below(half) + index * self.messages / 2));
        }
        self.run("STORE", &format!("STORE {doomed} +FLAGS.SILENT (\\Deleted)")).await?;
        self.run("EXPUNGE", "EXPUNGE").await
    }
}
