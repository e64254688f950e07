//! Measures SEARCH of message texts with and without the full-text index, on the real engine.
//!
//! Run it with `cargo run --release -p imap --example search_cost [-- [MESSAGES] [--json]]`.
//!
//! The program indexes a mailbox of MESSAGES generated messages (50,000 by default) and searches it for words and parts
//! of words. Each search runs in one session with the index and in one session without it, and both must find the same
//! messages. The output is the median time of each kind of search and the ratio of the two times.

#![expect(clippy::disallowed_methods, reason = "this program measures time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Name;
use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use imap::backend::Accounts;
use imap::codec::{CommandDecoder, DecodeResult, ResponseWriter};
use imap::session::{ConnectionAction, Session, SessionContext, SessionOptions};
use mail::full_text::MessageTextReader;
use mail::mailbox::{MailFile, MailOptions, MailStore, NewMessage};
use notes::{Access, Databases, Identity, level};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use search::FullTextIndex;
use store::{Store, SyncMode};
use wire::Peer;

#[path = "../../mail/examples/generated/mod.rs"]
mod generated;

use generated::{message, word};

/// Number of searches of each kind.
const SEARCHES: usize = 5;
const PATH: &str = "mail/u.nsf";

struct OnlyUser(Arc<MailStore>);

impl Credentials for OnlyUser {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        Ok(Login::new(request.authentication_id()))
    }
}

impl Accounts for OnlyUser {
    fn open(&self, _: &LoginOrigin, _: &Login) -> Result<MailFile, LoginError> {
        self.0.open(PATH, &Arc::new(Identity::person("u@x"))).map_err(|_| LoginError::Unavailable)
    }
}

struct Client {
    session: Session,
    decoder: CommandDecoder,
    out: ResponseWriter,
}

impl Client {
    /// Logs in and selects the inbox.
    fn new(context: SessionContext) -> Self {
        let session = Session::new(Arc::new(context), Peer::local());
        let decoder = session.decoder();
        let mut client = Self { session, decoder, out: ResponseWriter::new() };
        client.command("a LOGIN u p");
        client.command("a SELECT INBOX");
        client
    }

    /// Sends a line and returns the reply.
    fn command(&mut self, line: &str) -> Vec<u8> {
        self.session.configure(&mut self.decoder);
        self.decoder.feed(line.as_bytes());
        self.decoder.feed(b"\r\n");
        let mut answer = Vec::new();
        while let DecodeResult::Command(verb, command) = self.decoder.decode() {
            let mut action = self.session.execute(verb, command, &mut self.out);
            answer.extend(self.out.take());
            while action == ConnectionAction::Unfinished {
                action = self.session.resume(&mut self.out);
                answer.extend(self.out.take());
            }
        }
        answer
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count: usize = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(50_000);
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let options = store::StoreOptions { sync: SyncMode::Off, ..store::StoreOptions::default() };
    let store = Arc::new(Store::open(&folder.path().join("store"), &options).expect("the store opens"));
    let clock = Arc::new(SimClock::new());
    let databases = Databases::open(store, Arc::clone(&clock) as _, Arc::new(SeededRandom::new(7)));
    let mail = MailStore::new(Arc::clone(&databases), MailOptions::default());
    mail.create_if_missing(PATH, "u", &Name::new("u@x"), None).expect("the mail file is made");
    let random = SeededRandom::new(2);
    fill(&mail, &random, count);
    let contents: Vec<Box<dyn search::ContentReader>> = vec![Box::new(MessageTextReader { serves_imap: true })];
    let options = search::FullTextOptions { contents, ..search::FullTextOptions::default() };
    let index =
        Arc::new(FullTextIndex::open(databases, &folder.path().join("full-text"), options).expect("the index opens"));
    update(&index, &mail);
    let context = || {
        SessionContext::new(
            Arc::new(OnlyUser(Arc::clone(&mail))),
            Arc::clone(&clock) as _,
            SessionOptions::default(),
            MemoryShares::unlimited(),
        )
    };
    let mut without = Client::new(context());
    let mut with = Client::new(context().with_full_text(Arc::new(move || Ok(Some(Arc::clone(&index))))));
    let figures: Vec<Measurement> = kinds(&random).iter().map(|kind| measure(kind, &mut with, &mut without)).collect();
    if arguments.iter().any(|argument| argument == "--json") {
        let pairs: Vec<String> = figures.iter().map(Measurement::json).collect();
        println!("{{{}}}", pairs.join(", "));
    } else {
        figures.iter().for_each(Measurement::print);
    }
}

fn fill(mail: &Arc<MailStore>, random: &SeededRandom, count: usize) {
    let file = mail.open_as_server(PATH).expect("the mail file is there");
    let inbox = file.snapshot().expect("a snapshot").folder("INBOX").expect("a look").expect("INBOX in any case").id;
    let mut left = count;
    while left > 0 {
        let batch: Vec<NewMessage> = (0..left.min(500)).map(|_| message(random)).collect();
        file.append(inbox, &batch).expect("it is appended");
        left -= batch.len();
    }
}

fn update(index: &FullTextIndex, mail: &Arc<MailStore>) {
    let file = mail.open_as_server(PATH).expect("the mail file is there");
    let server = Arc::new(Identity::local_server(""));
    let access: Access<level::Reader> = file.database().authorize(&server).expect("the server may change the ACL");
    while !index.update(&access, 1_000, &|| false).expect("an update").complete {}
    index.commit().expect("a commit");
}

/// The search keys of one kind.
struct KeyKind {
    name: &'static str,
    keys: Vec<String>,
}

fn kinds(random: &SeededRandom) -> Vec<KeyKind> {
    let kind = |name, key: &dyn Fn() -> String| KeyKind { name, keys: (0..SEARCHES).map(|_| key()).collect() };
    let rare = || word(random, 2_000, 50_000);
    let piece = || rare()[1..].to_owned();
    vec![
        kind("BODY, a rare word", &|| format!("BODY {}", rare())),
        kind("TEXT, a rare word", &|| format!("TEXT {}", rare())),
        kind("TEXT, a piece of a word", &|| format!("TEXT {}", piece())),
        kind("BODY, two words in a row", &|| format!("BODY \"{} {}\"", word(random, 10, 100), word(random, 10, 100))),
        kind("OR FROM SUBJECT, a rare word", &|| {
            let rare = rare();
            format!("OR FROM {rare} SUBJECT {rare}")
        }),
        kind("BODY, a frequent word", &|| format!("BODY {}", word(random, 30, 100))),
        kind("BODY, two letters", &|| "BODY ba".to_owned()),
    ]
}

/// Median times and result count of one kind of search.
struct Measurement {
    name: &'static str,
    with: Duration,
    without: Duration,
    found: usize,
}

impl Measurement {
    fn ratio(&self) -> f64 {
        self.without.as_secs_f64() / self.with.as_secs_f64()
    }

    fn print(&self) {
        let Self { name, with, without, found } = self;
        println!("{with:>10.1?} with, {without:>10.1?} without: {:>6.1} times  {name}, {found} found", self.ratio());
    }

    fn json(&self) -> String {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1_000.0;
        format!(
            "\"{}\": {{\"with_ms\": {}, \"without_ms\": {}}}",
            self.name,
            milliseconds(self.with),
            milliseconds(self.without)
        )
    }
}

fn measure(kind: &KeyKind, with: &mut Client, without: &mut Client) -> Measurement {
    let mut times = [Vec::new(), Vec::new()];
    let mut found = 0;
    for key in &kind.keys {
        let line = format!("a UID SEARCH {key}");
        let answers = [(0, &mut *with), (1, &mut *without)].map(|(place, client)| {
            let began = Instant::now();
            let answer = client.command(&line);
            times[place].push(began.elapsed());
            answer
        });
        assert_eq!(answers[0], answers[1], "{key}");
        found += answers[0].iter().filter(|byte| **byte == b' ').count().saturating_sub(4);
    }
    let [with, without] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    Measurement { name: kind.name, with, without, found: found / SEARCHES }
}
