//! The mixed IMAP workload: a typical session of a mail program, run by many clients at once, each in its own mailbox.
//!
//! A round is one session: log in, list, select, flags of all messages, envelopes of the newest twenty, some bodies and
//! headers, changed flags, two messages appended and two removed, two searches, log out. Before the measurement every
//! mailbox is filled to the same size. Every round leaves the size unchanged, so the cost of a round does not depend on
//! their number. With `--login once` a client keeps its connection and selects the mailbox again in each round.

use std::fmt::Write as _;
use std::thread;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::imap_client::ImapClient;
use crate::measurements::{Measurements, Stopwatch};
use bench::random::SplitMix64;

/// Size of the text of an appended message in bytes.
const MESSAGE_BYTES: usize = 4_000;
const NEWEST: usize = 20;

/// Settings shared by all clients.
#[derive(Debug, Clone)]
struct Settings {
    address: String,
    password: String,
    rounds: usize,
    messages: usize,
    login_once: bool,
}

/// Fills the mailboxes, runs all clients, and prints the times of their commands.
pub fn run(arguments: &Arguments) -> Result<()> {
    let plan = Settings {
        address: arguments.text("address")?.to_owned(),
        password: arguments.text("password")?.to_owned(),
        rounds: arguments.get_or("rounds", 20)?,
        messages: arguments.get_or("messages", 100)?,
        login_once: arguments.get_or("login", "always".to_owned())? == "once",
    };
    let clients = arguments.get_or("clients", 50)?;
    if plan.messages < NEWEST {
        return Err(
            format!("--messages {} is too low: each round reads the newest {NEWEST} messages", plan.messages).into()
        );
    }
    if arguments.get_or("fill", 1)? == 1 {
        run_clients(clients, |user| fill(&plan, user))?;
    }
    if plan.rounds == 0 {
        return Ok(());
    }
    let watch = Stopwatch::start();
    let figures = run_clients(clients, |user| sessions(&plan, user))?;
    println!("{}", figures.json(watch.elapsed().as_secs_f64()));
    Ok(())
}

/// Runs the same work for users 1 to `clients` concurrently.
fn run_clients(clients: usize, work: impl Fn(usize) -> Result<Measurements> + Sync) -> Result<Measurements> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=clients).map(|user| scope.spawn(move || work(user))).collect();
        let mut figures = Measurements::default();
        for thread in threads {
            figures.merge(thread.join().map_err(|_| "a client thread panicked")??);
        }
        Ok(figures)
    })
}

fn fill(plan: &Settings, user: usize) -> Result<Measurements> {
    let mut numbers = SplitMix64::new(user as u64);
    let mut client = ImapClient::connect(&plan.address)?;
    client.login(user, &plan.password)?;
    client.command("SELECT INBOX")?;
    client.command("STORE 1:* +FLAGS.SILENT (\\Deleted)").or_else(|_| client.command("NOOP"))?;
    client.command("EXPUNGE")?;
    for index in 0..plan.messages {
        client.append("INBOX", "", corpus::message(&mut numbers, index, user, MESSAGE_BYTES).as_bytes())?;
    }
    client.command("LOGOUT")?;
    Ok(Measurements::default())
}

fn sessions(plan: &Settings, user: usize) -> Result<Measurements> {
    let mut figures = Measurements::default();
    let mut numbers = SplitMix64::new((user as u64) << 32);
    let mut client = None;
    for round in 0..plan.rounds {
        let mut current = match client.take() {
            Some(client) => client,
            None => log_in(plan, user, &mut figures)?,
        };
        session(plan, user, round, &mut Session { client: &mut current, figures: &mut figures, numbers: &mut numbers });
        if plan.login_once && round + 1 < plan.rounds {
            client = Some(current);
        } else {
            current.timed(&mut figures, "LOGOUT", |client| client.command("LOGOUT"));
        }
    }
    Ok(figures)
}

fn log_in(plan: &Settings, user: usize, figures: &mut Measurements) -> Result<ImapClient> {
    let watch = Stopwatch::start();
    let mut client = ImapClient::connect(&plan.address)?;
    client.login(user, &plan.password)?;
    figures.add("LOGIN", watch.elapsed());
    Ok(client)
}

/// State of a running session.
struct Session<'a> {
    client: &'a mut ImapClient,
    figures: &'a mut Measurements,
    numbers: &'a mut SplitMix64,
}

impl Session<'_> {
    fn run(&mut self, name: &'static str, command: &str) {
        self.client.timed(self.figures, name, |client| client.command(command));
    }
}

fn session(plan: &Settings, user: usize, round: usize, session: &mut Session<'_>) {
    let last = plan.messages;
    session.run("LIST", "LIST \"\" \"*\"");
    session.run("SELECT", "SELECT INBOX");
    session.run("FETCH FLAGS", "FETCH 1:* (UID FLAGS)");
    let newest = last + 1 - NEWEST;
    session.run("FETCH ENVELOPE", &format!("FETCH {newest}:{last} (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)"));
    for _ in 0..3 {
        let number = 1 + session.numbers.below(last);
        session.run("FETCH BODY", &format!("FETCH {number} (BODY.PEEK[])"));
    }
    let number = 1 + session.numbers.below(last);
    session.run("FETCH HEADER", &format!("FETCH {number} (BODY.PEEK[HEADER.FIELDS (FROM TO SUBJECT DATE)])"));
    session.run("FETCH STRUCTURE", &format!("FETCH {number} (BODYSTRUCTURE)"));
    session.run("STORE", &format!("STORE {number} +FLAGS (\\Seen)"));
    session.run("STORE", &format!("STORE {newest}:{last} FLAGS.SILENT (\\Answered)"));
    session.run("SEARCH", "SEARCH UNSEEN");
    session.run("SEARCH", "SEARCH SUBJECT meeting SINCE 1-Jan-2024");
    append_and_remove(plan, user, round, session);
    session.run("NOOP", "NOOP");
}

fn append_and_remove(plan: &Settings, user: usize, round: usize, session: &mut Session<'_>) {
    let mut doomed = String::new();
    for index in 0..2 {
        let message = corpus::message(session.numbers, round * 2 + index, user, MESSAGE_BYTES);
        session.client.timed(session.figures, "APPEND", |client| client.append("INBOX", "", message.as_bytes()));
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(doomed, "{comma}{}", 1 + (session.numbers.below(plan.messages / 2) + index * plan.messages / 2));
    }
    session.run("STORE", &format!("STORE {doomed} +FLAGS.SILENT (\\Deleted)"));
    session.run("EXPUNGE", "EXPUNGE");
}
