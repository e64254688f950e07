//! Neighbors: how long others wait while one account asks for the most expensive work that the protocols allow.
//!
//! Three users measure for `--seconds`: one sends NOOP and STATUS over IMAP, one delivers messages over SMTP, and one
//! reads pages of 50 rows over the native protocol. Each pauses between its requests. Meanwhile another user repeats
//! the requests of `--attack` on `--connections` connections, and ignores the replies; with `none` it does nothing.
//! The mailbox that the attacks work on is filled first, once (`--fill 1`).

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use client::{Client, ConnectOptions, Trust, v1};

use crate::arguments::{Arguments, Result};
use crate::imap_client::ImapClient;
use crate::measurements::{Measurements, Stopwatch};

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

/// The addresses of the server, and the attack.
struct Target {
    imap: String,
    smtp: String,
    native: ConnectOptions,
    password: String,
    /// The database and the view that the native user reads.
    database: String,
    view: String,
}

/// An attack: its name, and a function that repeats its requests on one connection until the connection fails.
type Attack = (&'static str, fn(&Target, &Strike<'_>) -> Result<()>);

/// What the connections of an attack share.
struct Strike<'s> {
    done: &'s AtomicBool,
    requests: &'s AtomicU64,
}

impl Strike<'_> {
    /// Repeats a request until the measurement is over.
    fn repeat(&self, mut request: impl FnMut() -> Result<()>) -> Result<()> {
        while !self.done.load(Ordering::Relaxed) {
            request()?;
            self.requests.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Repeats IMAP commands on one connection with a mailbox selected. Replies other than OK are ignored.
    fn repeat_imap(&self, target: &Target, mailbox: &str, commands: &[String]) -> Result<()> {
        let mut client = log_in(target, ATTACKER)?;
        client.command(&format!("SELECT {mailbox}"))?;
        self.repeat(|| commands.iter().try_for_each(|command| client.command_with_any_reply(command)))
    }
}

const ATTACKS: &[Attack] = &[
    ("none", |_, _| Ok(())),
    ("LIST with hostile patterns", |target, strike| strike.repeat_imap(target, "INBOX", &[list_command()])),
    ("SEARCH for many texts", |target, strike| strike.repeat_imap(target, "Large", &[search_command()])),
    ("FETCH of large messages", |target, strike| {
        strike.repeat_imap(target, "Large", &["FETCH 1:* (BINARY.SIZE[1] BODY.PEEK[])".to_owned()])
    }),
    ("COPY, STORE and EXPUNGE of many messages", |target, strike| {
        let commands = ["COPY 1:* INBOX", "STORE 6401:* +FLAGS (\\Deleted)", "EXPUNGE"];
        strike.repeat_imap(target, "INBOX", &commands.map(str::to_owned))
    }),
    ("THREAD and SORT of many messages", |target, strike| {
        let commands = ["THREAD REFERENCES UTF-8 ALL", "SORT (SUBJECT FROM) UTF-8 ALL"];
        strike.repeat_imap(target, "INBOX", &commands.map(str::to_owned))
    }),
    ("APPEND of large messages", append_large),
    ("wrong passwords", guess_passwords),
    ("SMTP with large messages", send_large),
    ("a view with expensive columns", refresh_view),
    ("a search with an expensive formula", search_notes),
];

/// Runs one attack and prints the times of the measuring users.
pub fn run(arguments: &Arguments) -> Result<()> {
    let certificate = std::fs::read(arguments.text("certificate")?)?;
    let target = Target {
        imap: arguments.text("imap")?.to_owned(),
        smtp: arguments.text("smtp")?.to_owned(),
        native: ConnectOptions::new(arguments.text("native")?, Trust::pinned(&certificate)?),
        password: arguments.text("password")?.to_owned(),
        database: arguments.text("database")?.to_owned(),
        view: arguments.get_or("view", "All Documents".to_owned())?,
    };
    if arguments.get_or("fill", 0)? == 1 {
        fill(&target)?;
    }
    let name = arguments.get_or("attack", "none".to_owned())?;
    let Some((_, attack)) = ATTACKS.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = ATTACKS.iter().map(|(name, _)| *name).collect();
        return Err(format!("unknown attack {name:?}; choose one of: {}", known.join(", ")).into());
    };
    let connections = if name == "none" { 0 } else { arguments.get_or("connections", 8)? };
    let length = Duration::from_secs(arguments.get_or("seconds", 5)?);
    let done = AtomicBool::new(false);
    let requests = AtomicU64::new(0);
    let strike = Strike { done: &done, requests: &requests };
    let watch = Stopwatch::start();
    let target = &target;
    let strike = &strike;
    let figures = thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(move || {
                // A connection that the server ends is opened again.
                while !strike.done.load(Ordering::Relaxed) {
                    if attack(target, strike).is_err() {
                        pause();
                    }
                }
            });
        }
        let measuring = [measure_imap, measure_smtp, measure_native];
        let threads = measuring.map(|measure| scope.spawn(move || measure(target, watch, length)));
        let mut figures = Measurements::default();
        let mut failed = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(found)) => figures.merge(found),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some("a measuring thread panicked".into()),
            }
        }
        done.store(true, Ordering::Relaxed);
        failed.map_or(Ok(figures), Err)
    })?;
    let text = figures.json(watch.elapsed().as_secs_f64());
    let open = text.strip_suffix('}').unwrap_or(&text);
    println!("{open}, \"attack_requests\": {}}}", requests.load(Ordering::Relaxed));
    Ok(())
}

/// Prints the names of all attacks, one a line.
pub fn print_attacks() {
    ATTACKS.iter().for_each(|(name, _)| println!("{name}"));
}

#[expect(clippy::disallowed_methods, reason = "a load generator waits in real time")]
fn pause() {
    thread::sleep(PAUSE);
}

fn log_in(target: &Target, user: usize) -> Result<ImapClient> {
    let mut client = ImapClient::connect(&target.imap)?;
    client.login(user, &target.password)?;
    Ok(client)
}

/// Repeats a request with pauses until the time is over.
fn repeat_until(
    watch: Stopwatch,
    length: Duration,
    mut request: impl FnMut(&mut Measurements) -> Result<()>,
) -> Result<Measurements> {
    let mut figures = Measurements::default();
    while watch.elapsed() < length {
        request(&mut figures)?;
        pause();
    }
    Ok(figures)
}

fn measure_imap(target: &Target, watch: Stopwatch, length: Duration) -> Result<Measurements> {
    let mut client = log_in(target, IMAP_USER)?;
    client.command("SELECT INBOX")?;
    repeat_until(watch, length, |figures| {
        client.timed(figures, "NOOP", |client| client.command("NOOP"));
        client.timed(figures, "STATUS", |client| client.command("STATUS INBOX (MESSAGES UNSEEN)"));
        Ok(())
    })
}

fn measure_smtp(target: &Target, watch: Stopwatch, length: Duration) -> Result<Measurements> {
    let mut client = SmtpClient::connect(&target.smtp)?;
    let recipient = format!("{SMTP_USER}bench@bench.test");
    let mut sent = 0;
    repeat_until(watch, length, |figures| {
        if sent == SESSION_MESSAGES {
            client = SmtpClient::connect(&target.smtp)?;
            sent = 0;
        }
        sent += 1;
        let delivery = Stopwatch::start();
        client.send(&recipient, b"Subject: a neighbor\r\n\r\nHello.\r\n")?;
        figures.add("delivery", delivery.elapsed());
        Ok(())
    })
}

fn measure_native(target: &Target, watch: Stopwatch, length: Duration) -> Result<Measurements> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(native_client(target, NATIVE_USER))?;
    let database = database_key(&target.database);
    let view = view_key(&target.view);
    repeat_until(watch, length, |figures| {
        let page = Stopwatch::start();
        let request = v1::ReadEntriesRequest {
            database: database.clone(),
            view: view.clone(),
            navigator: v1::Navigator::Next.into(),
            count: 50,
            mask: Some(v1::ReadMask { values: true, ..v1::ReadMask::default() }),
            ..v1::ReadEntriesRequest::default()
        };
        runtime.block_on(client.views().read_entries(request))?;
        figures.add("view page", page.elapsed());
        Ok(())
    })
}

/// Fills the attacker's mail file.
fn fill(target: &Target) -> Result<()> {
    let mut client = log_in(target, ATTACKER)?;
    for number in 0..MESSAGES {
        let message = format!("Message-ID: <{number}@bench.test>\r\nSubject: Number {number}\r\n\r\nText.\r\n");
        client.append("INBOX", "", message.as_bytes())?;
    }
    client.command("SELECT INBOX")?;
    for _ in 0..DOUBLINGS {
        client.command("COPY 1:* INBOX")?;
        client.command("NOOP")?;
    }
    client.command("CREATE Large")?;
    let large = large_message();
    for _ in 0..LARGE_MESSAGES {
        client.append("Large", "", &large)?;
    }
    for number in 0..FOLDERS {
        client.command(&format!("CREATE {}{number}", "a".repeat(200)))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = native_client(target, ATTACKER).await?;
        create_note(&client).await?;
        let column = v1::ColumnDesign { formula: FORMULA.to_owned(), ..v1::ColumnDesign::default() };
        let columns =
            (0..COLUMNS).map(|number| v1::ColumnDesign { title: format!("Column {number}"), ..column.clone() });
        let design = v1::ViewDesign {
            title: VIEW.to_owned(),
            selection: "SELECT @All".to_owned(),
            columns: columns.collect(),
            personal: true,
            ..v1::ViewDesign::default()
        };
        let request = v1::CreateViewRequest { database: database_key(&mail_file()), design: Some(design) };
        client.views().create_view(request).await?;
        Ok(())
    })
}

fn list_command() -> String {
    let patterns: Vec<String> = (0..PATTERNS).map(|number| format!("\"{}b{number}\"", "*a".repeat(20))).collect();
    format!("LIST \"\" ({})", patterns.join(" "))
}

fn search_command() -> String {
    let texts: Vec<String> = (0..TEXTS).map(|number| format!("NOT BODY absent{number}")).collect();
    format!("SEARCH {}", texts.join(" "))
}

fn append_large(target: &Target, strike: &Strike<'_>) -> Result<()> {
    let mut client = log_in(target, ATTACKER)?;
    let large = large_message();
    client.command_with_any_reply("CREATE Appended")?;
    client.command("SELECT Appended")?;
    strike.repeat(|| {
        client.append("Appended", "\\Deleted", &large)?;
        client.command_with_any_reply("EXPUNGE")
    })
}

fn guess_passwords(target: &Target, strike: &Strike<'_>) -> Result<()> {
    strike.repeat(|| {
        let mut client = ImapClient::connect(&target.imap)?;
        (0..3).try_for_each(|_| client.command_with_any_reply(&format!("LOGIN {ATTACKER}bench@bench.test wrong")))
    })
}

fn send_large(target: &Target, strike: &Strike<'_>) -> Result<()> {
    let mut client = SmtpClient::connect(&target.smtp)?;
    let large = large_message();
    let recipient = format!("{ATTACKER}bench@bench.test");
    strike.repeat(|| client.send(&recipient, &large))
}

fn refresh_view(target: &Target, strike: &Strike<'_>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(native_client(target, ATTACKER))?;
    strike.repeat(|| {
        runtime.block_on(async {
            create_note(&client).await?;
            let request = v1::OpenCollectionRequest { database: database_key(&mail_file()), view: view_key(VIEW) };
            let _ = client.views().open_collection(request).await;
            Ok(())
        })
    })
}

fn search_notes(target: &Target, strike: &Strike<'_>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(native_client(target, ATTACKER))?;
    strike.repeat(|| {
        runtime.block_on(async {
            let request = v1::SearchNotesRequest {
                database: database_key(&mail_file()),
                formula: format!("SELECT {FORMULA} = \"absent\""),
                ..v1::SearchNotesRequest::default()
            };
            if let Ok(replies) = client.notes().search_notes(request).await {
                let mut replies = replies.into_inner();
                while let Ok(Some(_)) = replies.message().await {}
            }
            Ok(())
        })
    })
}

async fn native_client(target: &Target, user: usize) -> Result<Client> {
    let client = Client::connect(&target.native).await?;
    client.login(&format!("{user}bench@bench.test"), &target.password).await?;
    Ok(client)
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
    client.notes().create_note(request).await?;
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

/// A minimal SMTP client.
struct SmtpClient {
    reader: BufReader<TcpStream>,
}

impl SmtpClient {
    fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut client = Self { reader: BufReader::new(stream) };
        client.expect_reply('2')?;
        client.command("EHLO bench.test", '2')?;
        Ok(client)
    }

    /// Sends a message without lines that begin with a dot.
    fn send(&mut self, recipient: &str, message: &[u8]) -> Result<()> {
        self.command("MAIL FROM:<sender@elsewhere.test>", '2')?;
        self.command(&format!("RCPT TO:<{recipient}>"), '2')?;
        self.command("DATA", '3')?;
        self.reader.get_mut().write_all(message)?;
        self.command(".", '2')
    }

    fn command(&mut self, command: &str, expected: char) -> Result<()> {
        self.reader.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        self.expect_reply(expected)
    }

    /// Reads a reply. Fails if its code does not begin with `expected`.
    fn expect_reply(&mut self, expected: char) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line)? == 0 {
                return Err("the server closed the connection".into());
            }
            if line.as_bytes().get(3) != Some(&b'-') {
                return if line.starts_with(expected) {
                    Ok(())
                } else {
                    Err(format!("unexpected reply {line:?}").into())
                };
            }
        }
    }
}
