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
use std::thread;
use std::time::Duration;

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::imap_client::ImapClient;
use crate::measurements::{Measurements, Stopwatch};
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
#[derive(Debug, Clone)]
struct Plan {
    address: String,
    password: String,
    messages: usize,
    length: Duration,
}

/// Commands of a run, by name and by interval.
#[derive(Debug, Default)]
struct Counts {
    figures: Measurements,
    by_interval: Vec<u64>,
}

/// Fills the mailboxes unless `--fill 0`, runs all clients for `--seconds`, and prints times and counts as JSON.
pub fn run(arguments: &Arguments) -> Result<()> {
    let plan = Plan {
        address: arguments.text("address")?.to_owned(),
        password: arguments.text("password")?.to_owned(),
        messages: arguments.get_or("messages", 30)?,
        length: Duration::from_secs(arguments.get_or("seconds", 60)?),
    };
    let clients = arguments.get_or("clients", 50)?;
    if plan.messages < 2 * TURNOVER_MAX {
        return Err(format!("--messages {} is less than {}", plan.messages, 2 * TURNOVER_MAX).into());
    }
    if arguments.get_or("fill", 1)? == 1 {
        for_each_client(clients, |user| fill(&plan, user))?;
    }
    if plan.length.is_zero() {
        return Ok(());
    }
    let watch = Stopwatch::start();
    let counts = for_each_client(clients, |user| work(&plan, user, watch))?;
    let intervals = counts.by_interval.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let figures = counts.figures.json(watch.elapsed().as_secs_f64());
    let open = figures.strip_suffix('}').unwrap_or(&figures);
    println!("{open}, \"interval_seconds\": {}, \"commands_by_interval\": [{intervals}]}}", INTERVAL.as_secs());
    Ok(())
}

/// Runs the same work for users 1 to `clients` at once and adds up what they counted.
fn for_each_client(clients: usize, work: impl Fn(usize) -> Result<Counts> + Sync) -> Result<Counts> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=clients).map(|user| scope.spawn(move || work(user))).collect();
        let mut all = Counts::default();
        for thread in threads {
            let counts = thread.join().map_err(|_| "a client panicked")??;
            all.figures.merge(counts.figures);
            all.by_interval.resize(all.by_interval.len().max(counts.by_interval.len()), 0);
            all.by_interval.iter_mut().zip(counts.by_interval).for_each(|(sum, count)| *sum += count);
        }
        Ok(all)
    })
}

fn fill(plan: &Plan, user: usize) -> Result<Counts> {
    let mut numbers = SplitMix64::new(user as u64);
    let mut client = ImapClient::connect(&plan.address)?;
    client.login(user, &plan.password)?;
    for mailbox in MAILBOXES {
        client.command(&format!("CREATE {mailbox}")).or_else(|_| client.command("NOOP"))?;
        for index in 0..plan.messages {
            client.append(mailbox, "", message(&mut numbers, index, user).as_bytes())?;
        }
    }
    client.command("LOGOUT")?;
    Ok(Counts::default())
}

/// Runs the rounds of one client until the time is over.
fn work(plan: &Plan, user: usize, watch: Stopwatch) -> Result<Counts> {
    let mut client = ImapClient::connect(&plan.address)?;
    client.login(user, &plan.password)?;
    let mut user = User { client, number: user, numbers: SplitMix64::new((user as u64) << 32), appended: 0 };
    let mut counts = Counts::default();
    for round in 0.. {
        let elapsed = watch.elapsed();
        if elapsed >= plan.length {
            break;
        }
        let before = counts.figures.count();
        let chosen = round % MAILBOXES.len();
        user.round(&mut counts.figures, chosen, plan.messages);
        let interval = (elapsed.as_secs() / INTERVAL.as_secs()) as usize;
        counts.by_interval.resize(counts.by_interval.len().max(interval + 1), 0);
        counts.by_interval[interval] += (counts.figures.count() - before) as u64;
    }
    user.client.command("LOGOUT")?;
    Ok(counts)
}

/// A logged-in client.
struct User {
    client: ImapClient,
    number: usize,
    numbers: SplitMix64,
    appended: usize,
}

impl User {
    /// Works once through a mailbox of `size` messages and leaves it at that size.
    fn round(&mut self, figures: &mut Measurements, chosen: usize, size: usize) {
        let mailbox = MAILBOXES[chosen];
        let other = MAILBOXES[1 - chosen];
        self.run(figures, "LIST", "LIST \"\" \"*\"");
        self.run(figures, "STATUS", &format!("STATUS {other} (MESSAGES UNSEEN UIDNEXT UIDVALIDITY)"));
        self.run(figures, "SELECT", &format!("SELECT {mailbox}"));
        self.run(figures, "FETCH", LISTING);
        self.run(figures, "FETCH BODY", &format!("FETCH {}:{size} (BODY.PEEK[])", size - READ_WHOLE + 1));
        let number = 1 + self.numbers.below(size);
        self.run(figures, "STORE", &format!("STORE {number} +FLAGS (\\Seen)"));
        let turnover = 1 + self.numbers.below(TURNOVER_MAX);
        for _ in 0..turnover {
            self.appended += 1;
            let message = message(&mut self.numbers, self.appended, self.number);
            self.client.timed(figures, "APPEND", |client| client.append(mailbox, "", message.as_bytes()));
        }
        let mut doomed = String::new();
        for index in 0..turnover {
            // One of each part of the mailbox, so that no number is named twice.
            let part = size / turnover;
            let comma = if index == 0 { "" } else { "," };
            let _ = write!(doomed, "{comma}{}", 1 + index * part + self.numbers.below(part));
        }
        self.run(figures, "STORE", &format!("STORE {doomed} +FLAGS.SILENT (\\Deleted)"));
        self.run(figures, "EXPUNGE", "EXPUNGE");
    }

    fn run(&mut self, figures: &mut Measurements, name: &'static str, command: &str) {
        self.client.timed(figures, name, |client| client.command(command));
    }
}

fn message(numbers: &mut SplitMix64, index: usize, user: usize) -> String {
    let size = MESSAGE_BYTES_MIN + numbers.below(MESSAGE_BYTES_MAX - MESSAGE_BYTES_MIN);
    corpus::message(numbers, index, user, size)
}
