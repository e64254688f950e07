//! Measures the CPU cost of IMAP commands without sockets: one session, a mailbox of 100,000 messages, and the
//! in-memory engine.
//!
//! Run it with `cargo run --release -p imap --example cost [MESSAGES]`. The in-memory engine is not RocksDB. The
//! figures show the cost of decoding, session logic and rendering, and reveal costs that grow with the mailbox.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Name;
use base::memory::MemoryShares;
use base::sim::{SeededRandom, SimClock};
use imap::backend::Accounts;
use imap::codec::{CommandDecoder, DecodeResult, ResponseWriter};
use imap::session::{ConnectionAction, Session, SessionContext, SessionOptions};
use mail::mailbox::{Flags, MailFile, MailOptions, MailStore, NewMessage};
use notes::{Databases, Identity};
use sasl::{Credentials, Login, LoginError, LoginOrigin, PasswordRequest};
use store::memory::MemoryEngine;
use store::{Store, SyncMode};
use wire::Peer;

struct OnlyUser(Arc<MailStore>);

impl Credentials for OnlyUser {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        Ok(Login::new(request.authentication_id()))
    }
}

impl Accounts for OnlyUser {
    fn open(&self, _: &LoginOrigin, _: &Login) -> Result<MailFile, LoginError> {
        self.0.open("mail/u.nsf", &Arc::new(Identity::person("u@x"))).map_err(|_| LoginError::Unavailable)
    }
}

struct Client {
    session: Session,
    decoder: CommandDecoder,
    out: ResponseWriter,
}

impl Client {
    /// Sends a line and returns the number of bytes in the reply.
    fn command(&mut self, line: &str) -> usize {
        self.session.configure(&mut self.decoder);
        self.decoder.feed(line.as_bytes());
        self.decoder.feed(b"\r\n");
        let mut bytes = 0;
        while let DecodeResult::Command(verb, command) = self.decoder.decode() {
            let mut action = self.session.execute(verb, command, &mut self.out);
            bytes += self.out.take().len();
            while action == ConnectionAction::Unfinished {
                action = self.session.resume(&mut self.out);
                bytes += self.out.take().len();
            }
        }
        bytes
    }
}

#[expect(clippy::disallowed_methods, reason = "this program measures time")]
fn measure(client: &mut Client, times: u32, line: &str) {
    let bytes = client.command(line);
    let start = Instant::now();
    (0..times).for_each(|_| {
        client.command(line);
    });
    let each: Duration = start.elapsed() / times;
    println!("{each:>12.1?}  {bytes:>10} bytes  {line}");
}

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let options = store::StoreOptions { sync: SyncMode::Off, ..store::StoreOptions::default() };
    let store =
        Arc::new(Store::with_engine(Arc::new(MemoryEngine::new(1)), &options).expect("a store in memory opens"));
    let clock = Arc::new(SimClock::new());
    let mail = MailStore::new(
        Databases::open(store, Arc::clone(&clock) as _, Arc::new(SeededRandom::new(7))),
        MailOptions::default(),
    );
    mail.create_if_missing("mail/u.nsf", "u", &Name::new("u@x"), None).expect("the mail file is made");
    let context = Arc::new(SessionContext::new(
        Arc::new(OnlyUser(Arc::clone(&mail))),
        clock,
        SessionOptions::default(),
        MemoryShares::unlimited(),
    ));
    let session = Session::new(context, Peer::local());
    let decoder = session.decoder();
    let mut client = Client { session, decoder, out: ResponseWriter::new() };
    let file = mail.open("mail/u.nsf", &Arc::new(Identity::person("u@x"))).expect("the owner may open it");
    fill(&file, count);
    client.command("a LOGIN u p");
    measure(&mut client, 10_000, "a SELECT INBOX");
    measure(&mut client, 10_000, "a NOOP");
    measure(&mut client, 10_000, "a STATUS INBOX (MESSAGES UNSEEN SIZE)");
    measure(&mut client, 10_000, "a LIST \"\" *");
    measure(&mut client, 10_000, "a FETCH 500 (FLAGS)");
    measure(&mut client, 10_000, "a UID FETCH 501 (FLAGS)");
    measure(&mut client, 10_000, "a FETCH 502 (ENVELOPE)");
    measure(&mut client, 10_000, "a FETCH 502 (BODYSTRUCTURE)");
    measure(&mut client, 10_000, "a FETCH 503 (BODY.PEEK[])");
    measure(&mut client, 10_000, "a FETCH 504 (BODY.PEEK[HEADER.FIELDS (Subject From)])");
    measure(&mut client, 1_000, "a STORE 505 +FLAGS (\\Seen)");
    measure(&mut client, 1_000, "a STORE 506 FLAGS (\\Flagged)\r\nb STORE 506 FLAGS (\\Seen)");
    measure(&mut client, 1_000, "a COPY 507 Archive");
    measure(&mut client, 1_000, "a APPEND INBOX {5+}\r\nabcde");
    measure(&mut client, 10, "a FETCH 1:* (FLAGS)");
    measure(&mut client, 10, "a UID FETCH 1:* (FLAGS MODSEQ)");
    measure(&mut client, 10, "a SEARCH UNSEEN");
    measure(&mut client, 10, "a SEARCH RETURN (COUNT) FLAGGED");
    measure(&mut client, 1, "a FETCH 1:2000 (ENVELOPE)");
    measure(&mut client, 1, "a SEARCH RETURN (COUNT) SUBJECT 777");
    measure(&mut client, 1, "a SEARCH RETURN (COUNT) BODY frobnicate");
    measure(&mut client, 1, "a SORT RETURN (COUNT) (SUBJECT) UTF-8 ALL");
    measure(&mut client, 1, "a UID STORE 1:2000 +FLAGS.SILENT (\\Answered)");
}

fn fill(file: &MailFile, count: usize) {
    let inbox = file
        .snapshot()
        .and_then(|snapshot| snapshot.folder("INBOX"))
        .expect("there is an inbox")
        .expect("it exists")
        .id;
    let message = |number: usize| {
        let head = format!("From: Bob <bob@x>\r\nTo: u@x\r\nSubject: message {number}\r\nMessage-ID: <{number}@x>\r\n");
        let raw = format!("{head}Date: Thu, 1 Jan 2026 10:00:00 +0100\r\n\r\n{}", "some text of a mail\r\n".repeat(30));
        NewMessage { raw: raw.into_bytes(), flags: Flags::none(), received: None }
    };
    for start in (0..count).step_by(500) {
        let messages: Vec<_> = (start..count.min(start + 500)).map(message).collect();
        file.append(inbox, &messages).expect("within the limit");
    }
}
