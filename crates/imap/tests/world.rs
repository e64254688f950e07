//! A server without sockets: accounts, mail files in memory, a clock that stands still.
//!
//! There are `alice`, `bob` and `carol` (who has a quota of 10 KiB), all with the password `secret`, and `dora`, who is disabled.

use std::sync::Arc;

use base::Name;
use base::sim::{SeededRandom, SimClock};
use imap::backend::{Credentials, Exchange, ExchangeStep, LoginError};
use imap::session::{Options, Site};
use mail::mailbox::{Flags, Mail, MailFile, MailOptions, NewMessage};
use notes::{Authentication, Identity, Notes};
use store::memory::Memory;
use store::{Store, SyncMode};
use wire::Peer;

/// What the sessions of one dialogue share.
pub struct World {
    /// The clock, for dialogues that let time pass.
    pub clock: Arc<SimClock>,
    /// What sessions are made with.
    pub site: Arc<Site>,
    mail: Arc<Mail>,
}

impl World {
    /// Makes an empty world; the same one every time.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// Makes an empty world where the operator has changed something.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let options = store::Options { sync: SyncMode::Each, ..store::Options::default() };
        let store = Arc::new(Store::over(Arc::new(Memory::new(1)), &options).expect("a store in memory opens"));
        let clock = Arc::new(SimClock::new());
        let notes = Notes::open(store, Arc::clone(&clock) as _, Arc::new(SeededRandom::new(7)));
        let accounts = Accounts { mail: Mail::new(notes, MailOptions::default()) };
        for (login, quota_bytes) in [("alice", None), ("bob", None), ("carol", Some(10_240))] {
            accounts.ensure(login, quota_bytes);
        }
        let mut options = Options { starttls: true, append_bytes_max: 1 << 20, ..Options::default() };
        change(&mut options);
        let mail = Arc::clone(&accounts.mail);
        let site = Arc::new(Site::new(Arc::new(accounts), Arc::clone(&clock) as _, options));
        Self { clock, site, mail }
    }

    /// Opens a mail file as the server does to deliver.
    pub fn open_as_server(&self, login: &str) -> MailFile {
        self.mail.open_as_server(&path(login)).expect("the mail file is there")
    }
}

/// Puts a message into the inbox, as the router does.
pub fn deliver(file: &MailFile, raw: &[u8]) {
    let inbox = file.view().and_then(|view| view.folder("INBOX")).expect("the store works").expect("there is an inbox");
    let message = NewMessage { raw: raw.to_vec(), flags: Flags::default(), received: None };
    let (_, _, ticket) = file.append(inbox.id, &[message]).expect("the inbox takes mail");
    file.durable(ticket).wait().expect("the store works");
}

struct Accounts {
    mail: Arc<Mail>,
}

impl Accounts {
    fn ensure(&self, login: &str, quota_bytes: Option<u64>) {
        let owner = Name::new(&format!("{login}@demo.test"));
        self.mail.ensure(&path(login), login, &owner, quota_bytes).expect("the mail file is made");
    }
}

fn path(login: &str) -> String {
    format!("mail/{login}.nsf")
}

impl Credentials for Accounts {
    fn authenticate(&self, _: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError> {
        match (login.to_ascii_lowercase().as_str(), password) {
            ("dora", b"secret") => Err(LoginError::Disabled),
            (known @ ("alice" | "bob" | "carol"), b"secret") => Ok(known.to_owned()),
            _ => Err(LoginError::Wrong),
        }
    }

    fn scram_sha_256(&self, _: &Peer) -> Option<Box<dyn Exchange>> {
        Some(Box::new(Riddle { asked: false }))
    }

    fn open(&self, login: &str) -> Result<MailFile, LoginError> {
        let person = Identity::person(format!("{login}@demo.test").as_str());
        let identity = Arc::new(person.authenticated(Authentication::Password));
        self.mail.open(&path(login), &identity).map_err(|_| LoginError::Unavailable)
    }
}

/// Stands for SCRAM: asks once, and takes the right answer. The real exchange is tested in `directory`.
struct Riddle {
    asked: bool,
}

impl Exchange for Riddle {
    fn step(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginError> {
        if !std::mem::replace(&mut self.asked, true) {
            return Ok(ExchangeStep::Challenge(b"riddle".to_vec()));
        }
        match response {
            b"solution" => Ok(ExchangeStep::Done { login: "alice".to_owned(), last: b"v=proof".to_vec() }),
            _ => Err(LoginError::Wrong),
        }
    }
}
