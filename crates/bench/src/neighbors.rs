//! Neighbors: how long others wait while one account asks for the most expensive work that the protocols allow.
//!
//! Three users measure for `--seconds`: one sends NOOP and STATUS over IMAP, one delivers messages over SMTP, and one
//! reads pages of 50 rows over the native protocol. Each pauses between its requests. Meanwhile another user repeats
//! the requests of `--attack` on `--connections` connections, and ignores the replies; with `none` it does nothing.
//! The mailbox that the attacks work on is filled first, once (`--fill 1`).
//!
//! A server that does not answer a measuring user, or the filling, within [`RESPONSE_TIME_MAX`] has failed, whatever
//! the protocol. Requests of the attack that last longer than that after the measurement are given up.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use client::{Client, ConnectOptions, Traffic, Trust, v1};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::arguments::{Arguments, Error, Result};
use crate::measurements::{self, Measurements, Stopwatch, Summary};
use crate::users::{self, ImapServer, address};
use bench::door::call::CallCount;
use bench::door::imap::plain_client::RESPONSE_TIME_MAX;
use bench::door::line_connection::Place;
use bench::door::smtp::{Dialect, Envelope, SmtpConnection};

/// The user who attacks, and the users who measure.
const ATTACKER: usize = 1;
const IMAP_USER: usize = 2;
const SMTP_USER: usize = 3;
const NATIVE_USER: usize = 4;
/// Pause of a measuring user between two requests.
const PAUSE: Duration = Duration::from_millis(5);
/// Messages that the SMTP user sends in one session. A server may limit them (RFC 5321 §4.5.3.1.10).
const SESSION_MESSAGES: usize = 100;
/// Small messages in the attacker's mailbox. The number doubles with each COPY.
const MESSAGES: usize = 100;
const DOUBLINGS: usize = 6;
/// Large messages in the attacker's folder `Large`, and their size in bytes.
const LARGE_MESSAGES: usize = 16;
const LARGE_BYTES: usize = 4 << 20;
/// Folders whose names and the patterns of LIST resemble each other.
const FOLDERS: usize = 200;
const PATTERNS: usize = 60;
/// Texts that one SEARCH looks for.
const TEXTS: usize = 200;
/// Columns of the personal view with an expensive formula.
const COLUMNS: usize = 100;
const FORMULA: &str = "@ProperCase(@ReplaceSubstring(Body; \"x\"; \"long \"))";
/// Size of the text of the attacker's document in bytes.
const DOCUMENT_BYTES: usize = 500_000;
const VIEW: &str = "Neighbors";

/// The addresses of the server, and what the users work on.
#[derive(Debug)]
struct Target {
    imap: ImapServer,
    smtp: Place,
    native: ConnectOptions,
    password: String,
    /// The database and the view that the native user reads.
    database: String,
    view: String,
}

impl Target {
    fn from_arguments(arguments: &Arguments) -> Result<Self> {
        let certificate = std::fs::read(arguments.text("certificate")?)?;
        let password = arguments.text("password")?;
        Ok(Self {
            imap: ImapServer::new(arguments.text("imap")?, password),
            smtp: Place::unencrypted(arguments.text("smtp")?, &Traffic::default()),
            native: ConnectOptions::new(arguments.text("native")?, Trust::pinned(&certificate)?),
            password: password.to_owned(),
            database: arguments.text("database")?.to_owned(),
            view: arguments.get_or("view", "All Documents".to_owned())?,
        })
    }

    /// Connects over the native protocol, and logs in a user.
    async fn native_client(&self, user: usize) -> Result<Client> {
        let client = answer_of("the native protocol", Client::connect(&self.native)).await?;
        answer_of("the login", client.login(&address(user), &self.password)).await?;
        Ok(client)
    }

    async fn smtp_connection(&self) -> Result<SmtpConnection> {
        let mut count = CallCount::default();
        answer_of("SMTP", SmtpConnection::connect(&self.smtp, Dialect::Smtp, &mut count)).await
    }
}

/// The request that an attack repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attack {
    None,
    List,
    Search,
    Fetch,
    Copy,
    Sort,
    Append,
    Passwords,
    Smtp,
    View,
    Formula,
}

const ATTACKS: &[(&str, Attack)] = &[
    ("none", Attack::None),
    ("LIST with hostile patterns", Attack::List),
    ("SEARCH for many texts", Attack::Search),
    ("FETCH of large messages", Attack::Fetch),
    ("COPY, STORE and EXPUNGE of many messages", Attack::Copy),
    ("THREAD and SORT of many messages", Attack::Sort),
    ("APPEND of large messages", Attack::Append),
    ("wrong passwords", Attack::Passwords),
    ("SMTP with large messages", Attack::Smtp),
    ("a view with expensive columns", Attack::View),
    ("a search with an expensive formula", Attack::Formula),
];

impl Attack {
    fn named(name: &str) -> Result<Self> {
        let found = ATTACKS.iter().find(|(known, _)| *known == name);
        let unknown = || {
            let known: Vec<&str> = ATTACKS.iter().map(|(name, _)| *name).collect();
            format!("unknown attack {name:?}; choose one of: {}", known.join(", "))
        };
        Ok(found.ok_or_else(unknown)?.1)
    }
}

/// An attack, which several connections perform. Clones count their requests together.
#[derive(Debug, Clone)]
struct Strike {
    attack: Attack,
    target: Arc<Target>,
    is_over: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
}

/// The figures of the measuring users, and the number of requests of the attack.
#[derive(Serialize)]
struct Output {
    #[serde(flatten)]
    summary: Summary,
    attack_requests: u64,
}

/// Runs one attack and prints the times of the measuring users.
pub fn run(arguments: &Arguments) -> Result<()> {
    let target = Arc::new(Target::from_arguments(arguments)?);
    // The measuring users have a thread of their own, so that the tasks of the attack do not delay them.
    let measuring = users::single_runtime()?;
    if arguments.get_or("fill", 0)? == 1 {
        measuring.block_on(fill(&target))?;
    }
    let attack = Attack::named(&arguments.get_or("attack", "none".to_owned())?)?;
    let strike = Strike { attack, target: Arc::clone(&target), is_over: Arc::default(), requests: Arc::default() };
    let connections = if attack == Attack::None { 0 } else { arguments.get_or("connections", 8)? };
    let length = Duration::from_secs(arguments.get_or("seconds", 5)?);
    let attacking = users::runtime()?;
    let watch = Stopwatch::start();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        tasks.spawn_on(strike.clone().reconnect(), attacking.handle());
    }
    let clock = Clock { watch, length };
    let figures = Measurements::default();
    let measured = measuring.block_on(measure(&target, clock, &figures));
    strike.is_over.store(true, Ordering::Relaxed);
    measured?;
    attacking.block_on(end_attack(tasks));
    let summary = figures.summary(watch.elapsed().as_secs_f64());
    let attack_requests = strike.requests.load(Ordering::Relaxed);
    Ok(measurements::print(&Output { summary, attack_requests })?)
}

/// Prints the names of all attacks, one a line.
pub fn print_attacks() {
    ATTACKS.iter().for_each(|(name, _)| println!("{name}"));
}

/// When the measuring users stop.
#[derive(Debug, Clone, Copy)]
struct Clock {
    watch: Stopwatch,
    length: Duration,
}

impl Clock {
    fn is_over(self) -> bool {
        self.watch.elapsed() >= self.length
    }
}

/// Runs the measuring users until the time is over.
async fn measure(target: &Target, clock: Clock, figures: &Measurements) -> Result<()> {
    let imap = measure_imap(target, clock, figures);
    let smtp = measure_smtp(target, clock, figures);
    let native = measure_native(target, clock, figures);
    tokio::try_join!(imap, smtp, native)?;
    Ok(())
}

async fn measure_imap(target: &Target, clock: Clock, figures: &Measurements) -> Result<()> {
    let mut client = target.imap.log_in(IMAP_USER).await?;
    client.command("SELECT INBOX").await?;
    while !clock.is_over() {
        figures.timed("NOOP", client.command("NOOP")).await?;
        figures.timed("STATUS", client.command("STATUS INBOX (MESSAGES UNSEEN)")).await?;
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn measure_smtp(target: &Target, clock: Clock, figures: &Measurements) -> Result<()> {
    let mut connection = target.smtp_connection().await?;
    let envelope = envelope_to(SMTP_USER);
    let mut sent = 0;
    while !clock.is_over() {
        if sent == SESSION_MESSAGES {
            connection = target.smtp_connection().await?;
            sent = 0;
        }
        sent += 1;
        let delivery = Stopwatch::start();
        send(&mut connection, &envelope, b"Subject: a neighbor\r\n\r\nHello.\r\n").await?;
        figures.add("delivery", delivery.elapsed());
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn measure_native(target: &Target, clock: Clock, figures: &Measurements) -> Result<()> {
    let client = target.native_client(NATIVE_USER).await?;
    let request = v1::ReadEntriesRequest {
        database: database_key(&target.database),
        view: view_key(&target.view),
        navigator: v1::Navigator::Next.into(),
        count: 50,
        mask: Some(v1::ReadMask { values: true, ..v1::ReadMask::default() }),
        ..v1::ReadEntriesRequest::default()
    };
    while !clock.is_over() {
        let page = Stopwatch::start();
        answer_of("the page of the view", client.views().read_entries(request.clone())).await?;
        figures.add("view page", page.elapsed());
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Fills the attacker's mail file.
async fn fill(target: &Target) -> Result<()> {
    fill_mailboxes(target).await?;
    let client = target.native_client(ATTACKER).await?;
    create_note(&client).await?;
    let column = v1::ColumnDesign { formula: FORMULA.to_owned(), ..v1::ColumnDesign::default() };
    let columns = (0..COLUMNS).map(|number| v1::ColumnDesign { title: format!("Column {number}"), ..column.clone() });
    let design = v1::ViewDesign {
        title: VIEW.to_owned(),
        selection: "SELECT @All".to_owned(),
        columns: columns.collect(),
        personal: true,
        ..v1::ViewDesign::default()
    };
    let request = v1::CreateViewRequest { database: database_key(&mail_file()), design: Some(design) };
    answer_of("the view", client.views().create_view(request)).await?;
    Ok(())
}

async fn fill_mailboxes(target: &Target) -> Result<()> {
    let mut client = target.imap.log_in(ATTACKER).await?;
    for number in 0..MESSAGES {
        let message = format!("Message-ID: <{number}@bench.test>\r\nSubject: Number {number}\r\n\r\nText.\r\n");
        client.append("INBOX", "", message.as_bytes()).await?;
    }
    client.command("SELECT INBOX").await?;
    for _ in 0..DOUBLINGS {
        client.command("COPY 1:* INBOX").await?;
        client.command("NOOP").await?;
    }
    client.command("CREATE Large").await?;
    let large = large_message();
    for _ in 0..LARGE_MESSAGES {
        client.append("Large", "", &large).await?;
    }
    for number in 0..FOLDERS {
        client.command(&format!("CREATE {}{number}", "a".repeat(200))).await?;
    }
    Ok(())
}

impl Strike {
    /// Repeats the requests until the measurement is over. A connection that the server ends is opened again.
    async fn reconnect(self) {
        while self.goes_on() {
            if self.repeat().await.is_err() {
                sleep(PAUSE).await;
            }
        }
    }

    /// Repeats the requests on one connection, until it fails or the measurement is over.
    async fn repeat(&self) -> Result<()> {
        match self.attack {
            Attack::None => Ok(()),
            Attack::List => self.repeat_imap("INBOX", &[&list_command()]).await,
            Attack::Search => self.repeat_imap("Large", &[&search_command()]).await,
            Attack::Fetch => self.repeat_imap("Large", &["FETCH 1:* (BINARY.SIZE[1] BODY.PEEK[])"]).await,
            Attack::Copy => {
                let commands = ["COPY 1:* INBOX", "STORE 6401:* +FLAGS (\\Deleted)", "EXPUNGE"];
                self.repeat_imap("INBOX", &commands).await
            }
            Attack::Sort => {
                let commands = ["THREAD REFERENCES UTF-8 ALL", "SORT (SUBJECT FROM) UTF-8 ALL"];
                self.repeat_imap("INBOX", &commands).await
            }
            Attack::Append => self.append_large().await,
            Attack::Passwords => self.guess_passwords().await,
            Attack::Smtp => self.send_large().await,
            Attack::View => self.refresh_view().await,
            Attack::Formula => self.search_notes().await,
        }
    }

    /// Returns `true` until the measurement is over.
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn count_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Repeats IMAP commands on one connection with a mailbox selected. Replies other than OK are ignored.
    async fn repeat_imap(&self, mailbox: &str, commands: &[&str]) -> Result<()> {
        let mut client = self.target.imap.log_in(ATTACKER).await?;
        client.command(&format!("SELECT {mailbox}")).await?;
        while self.goes_on() {
            for command in commands {
                client.command_with_any_status(command).await?;
            }
            self.count_request();
        }
        Ok(())
    }

    async fn append_large(&self) -> Result<()> {
        let mut client = self.target.imap.log_in(ATTACKER).await?;
        let large = large_message();
        client.command_with_any_status("CREATE Appended").await?;
        client.command("SELECT Appended").await?;
        while self.goes_on() {
            client.append("Appended", "\\Deleted", &large).await?;
            client.command_with_any_status("EXPUNGE").await?;
            self.count_request();
        }
        Ok(())
    }

    async fn guess_passwords(&self) -> Result<()> {
        let command = format!("LOGIN {} wrong", address(ATTACKER));
        while self.goes_on() {
            let mut client = self.target.imap.connect().await?;
            for _ in 0..3 {
                client.command_with_any_status(&command).await?;
            }
            self.count_request();
        }
        Ok(())
    }

    async fn send_large(&self) -> Result<()> {
        let mut connection = self.target.smtp_connection().await?;
        let large = large_message();
        let envelope = envelope_to(ATTACKER);
        while self.goes_on() {
            send(&mut connection, &envelope, &large).await?;
            self.count_request();
        }
        Ok(())
    }

    async fn refresh_view(&self) -> Result<()> {
        let client = self.target.native_client(ATTACKER).await?;
        while self.goes_on() {
            create_note(&client).await?;
            let request = v1::OpenCollectionRequest { database: database_key(&mail_file()), view: view_key(VIEW) };
            let _ = client.views().open_collection(request).await;
            self.count_request();
        }
        Ok(())
    }

    async fn search_notes(&self) -> Result<()> {
        let client = self.target.native_client(ATTACKER).await?;
        let request = v1::SearchNotesRequest {
            database: database_key(&mail_file()),
            formula: format!("SELECT {FORMULA} = \"absent\""),
            ..v1::SearchNotesRequest::default()
        };
        while self.goes_on() {
            if let Ok(replies) = client.notes().search_notes(request.clone()).await {
                let mut replies = replies.into_inner();
                while let Ok(Some(_)) = replies.message().await {}
            }
            self.count_request();
        }
        Ok(())
    }
}

fn list_command() -> String {
    let patterns: Vec<String> = (0..PATTERNS).map(|number| format!("\"{}b{number}\"", "*a".repeat(20))).collect();
    format!("LIST \"\" ({})", patterns.join(" "))
}

fn search_command() -> String {
    let texts: Vec<String> = (0..TEXTS).map(|number| format!("NOT BODY absent{number}")).collect();
    format!("SEARCH {}", texts.join(" "))
}

/// Returns the sender and the recipient of a message to a user.
fn envelope_to(user: usize) -> Envelope {
    Envelope { from: "sender@elsewhere.test".to_owned(), to: vec![address(user)] }
}

async fn send(connection: &mut SmtpConnection, envelope: &Envelope, message: &[u8]) -> Result<()> {
    answer_of("the message", connection.transfer(&mut CallCount::default(), envelope, message)).await
}

/// Waits for the end of a request, at most for [`RESPONSE_TIME_MAX`]. The error of a request that takes longer names
/// it.
async fn answer_of<T, E: Into<Error>>(
    request: &str,
    answer: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T> {
    let late = |_| format!("{request}: the server has not answered for {RESPONSE_TIME_MAX:?}");
    timeout(RESPONSE_TIME_MAX, answer).await.map_err(late)?.map_err(Into::into)
}

/// Waits for the tasks of the attack, which end with their last request. Those that do not end are aborted: the
/// measurement is complete without them.
async fn end_attack(mut tasks: JoinSet<()>) {
    let ended = async { while tasks.join_next().await.is_some() {} };
    if timeout(RESPONSE_TIME_MAX, ended).await.is_err() {
        tasks.shutdown().await;
    }
}

async fn create_note(client: &Client) -> Result<()> {
    let value = v1::value::Kind::Text("x ".repeat(DOCUMENT_BYTES / 2));
    let item = v1::Item { name: "Body".to_owned(), flags: None, value: Some(v1::Value { kind: Some(value) }) };
    let request = v1::CreateNoteRequest {
        database: database_key(&mail_file()),
        note_class: v1::NoteClass::Document.into(),
        items: vec![item],
        ..v1::CreateNoteRequest::default()
    };
    answer_of("the document", client.notes().create_note(request)).await?;
    Ok(())
}

/// Returns the path of the attacker's mail file.
fn mail_file() -> String {
    format!("mail/{ATTACKER}bench.nsf")
}

fn database_key(path: &str) -> Option<v1::DatabaseKey> {
    Some(v1::DatabaseKey { key: Some(v1::database_key::Key::Path(path.to_owned())) })
}

fn view_key(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

/// Returns a message of [`LARGE_BYTES`] bytes of text.
fn large_message() -> Vec<u8> {
    let line = "The quick brown fox jumps over the lazy dog, and again over the dog.\r\n";
    let mut message = b"Subject: large\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    message.extend_from_slice(line.repeat(LARGE_BYTES / line.len()).as_bytes());
    message
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    /// A server that accepts connections and never answers.
    async fn silent_target() -> (Target, TcpListener) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let silent = listener.local_addr().expect("it is bound").to_string();
        let trust = Trust::pinned(include_bytes!("target/test_certificate.pem")).expect("a certificate");
        let target = Target {
            imap: ImapServer::new(&silent, "secret"),
            smtp: Place::unencrypted(&silent, &Traffic::default()),
            native: ConnectOptions::new(&silent, trust),
            password: "secret".to_owned(),
            database: "a.nsf".to_owned(),
            view: "All".to_owned(),
        };
        (target, listener)
    }

    #[tokio::test(start_paused = true)]
    async fn measuring_users_do_not_wait_for_a_silent_server() {
        let (target, _listener) = silent_target().await;
        let clock = Clock { watch: Stopwatch::start(), length: Duration::from_secs(1) };
        let figures = Measurements::default();
        let late = |ended: Result<()>| ended.expect_err("no answer").to_string();
        assert_eq!(late(measure_smtp(&target, clock, &figures).await), "SMTP: the server has not answered for 120s");
        let native = late(measure_native(&target, clock, &figures).await);
        assert_eq!(native, "the native protocol: the server has not answered for 120s");
        let imap = late(measure_imap(&target, clock, &figures).await);
        assert_eq!(imap, "the server has not answered for 120s");
    }

    #[tokio::test(start_paused = true)]
    async fn the_measurement_does_not_wait_for_attacks_without_end() {
        let request = Arc::new(());
        let mut tasks = JoinSet::new();
        let held = Arc::clone(&request);
        tasks.spawn(async move {
            let _held = held;
            std::future::pending().await
        });
        let begin = Instant::now();
        end_attack(tasks).await;
        assert!(begin.elapsed() >= RESPONSE_TIME_MAX, "it has been waited for");
        assert_eq!(Arc::strong_count(&request), 1, "the task has ended");
    }
}
