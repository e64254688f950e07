//! What runs on a worker: logins, and everything that touches the mail file.
//!
//! A [`Work`] is made by the session, executed by [`Work::execute`] on a worker, and its [`Outcome`] goes back to the session.
//! Nothing here writes to the peer. What was read or changed is told only after its ticket is durable, which the
//! connection waits for.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::{NoteId, Uid, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile, UidSet};
use notes::Marks;
use store::Durable;
use wire::Peer;

use crate::backend::{Credentials, Exchange, ExchangeStep, LoginError};
use crate::limits::MESSAGES_MAX;

/// Something for a worker.
pub enum Work {
    /// Check a password and open the inbox.
    Login {
        /// Who says so.
        login: String,
        /// The password.
        password: Vec<u8>,
    },
    /// Begin an exchange of SCRAM-SHA-256, with the client's first message if it was said at once.
    Scram(Option<Vec<u8>>),
    /// Go on with an exchange.
    Exchange(Box<dyn Exchange>, Vec<u8>),
    /// Open the inbox of somebody whose exchange is done.
    Open(String),
    /// Read a message; with a number of lines only its top is wanted.
    Read(Arc<MailFile>, NoteId, Option<u32>),
    /// Remove messages.
    Remove(Arc<MailFile>, ViewId, Vec<Uid>),
}

/// What came of it.
pub enum Outcome {
    /// Somebody is logged in.
    Opened(Maildrop),
    /// Nobody is.
    Refused(LoginError),
    /// The exchange goes on: the server says this.
    Challenge(Box<dyn Exchange>, Vec<u8>),
    /// The exchange is done: the login, and what the server says last.
    Proved(String, Vec<u8>),
    /// A message, and how many lines of it are wanted; none when it is gone.
    Message(Option<Vec<u8>>, Option<u32>),
    /// The messages are gone.
    Removed,
    /// The mail file failed; the text is for the log.
    Failed(String),
}

/// The inbox as it was at login.
pub struct Maildrop {
    /// The mail file.
    pub file: Arc<MailFile>,
    /// The inbox.
    pub folder: ViewId,
    /// Its UIDVALIDITY.
    pub uid_validity: u32,
    /// Its messages, by rising UID.
    pub messages: Vec<Listed>,
}

/// A message of the maildrop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// Its UID.
    pub uid: Uid,
    /// Its note.
    pub note: NoteId,
    /// What RETR sends of it: its size with CRLF at every line's end, the dots undone.
    pub octets: u64,
}

/// An outcome, and what must be durable before it is told.
pub struct Done {
    /// The outcome.
    pub outcome: Outcome,
    /// What to wait for.
    pub durable: Option<Durable>,
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, durable: None }
    }
}

impl Work {
    /// Does it. May block.
    #[must_use]
    pub fn execute(self, credentials: &dyn Credentials, peer: &Peer) -> Done {
        match self {
            Self::Login { login, password } => match credentials.authenticate(peer, &login, &password) {
                Ok(login) => open(credentials, &login),
                Err(error) => Outcome::Refused(error).into(),
            },
            Self::Scram(first) => match (credentials.scram_sha_256(peer), first) {
                (Some(exchange), Some(first)) => step(exchange, &first),
                (Some(exchange), None) => Outcome::Challenge(exchange, Vec::new()).into(),
                (None, _) => Outcome::Refused(LoginError::Unavailable).into(),
            },
            Self::Exchange(exchange, response) => step(exchange, &response),
            Self::Open(login) => open(credentials, &login),
            Self::Read(file, note, lines) => or_failed(read(&file, note, lines)),
            Self::Remove(file, folder, uids) => or_failed(remove(&file, folder, uids)),
        }
    }
}

fn or_failed(done: mail::Result<Done>) -> Done {
    done.unwrap_or_else(|error| Outcome::Failed(error.to_string()).into())
}

fn step(mut exchange: Box<dyn Exchange>, response: &[u8]) -> Done {
    let outcome = match exchange.step(response) {
        Ok(ExchangeStep::Challenge(challenge)) => Outcome::Challenge(exchange, challenge),
        Ok(ExchangeStep::Done { login, last }) => Outcome::Proved(login, last),
        Err(error) => Outcome::Refused(error),
    };
    outcome.into()
}

fn open(credentials: &dyn Credentials, login: &str) -> Done {
    match credentials.open(login) {
        Ok(file) => or_failed(list(Arc::new(file))),
        Err(error) => Outcome::Refused(error).into(),
    }
}

fn list(file: Arc<MailFile>) -> mail::Result<Done> {
    let view = file.view()?;
    let inbox = view.folder("INBOX")?.ok_or_else(|| mail::Error::NoMailbox("INBOX".to_owned()))?;
    let status = view.status(inbox.id)?;
    let mut messages = Vec::new();
    view.entries(inbox.id, Uid(1)..=Uid(u32::MAX), &mut |entry| {
        let octets = entry.size.saturating_add(entry.crlf_growth);
        messages.push(Listed { uid: entry.uid, note: entry.note, octets });
        Ok(if messages.len() < MESSAGES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let durable = Some(file.durable(view.ticket()));
    drop(view);
    let maildrop = Maildrop { file, folder: inbox.id, uid_validity: status.uid_validity, messages };
    Ok(Done { outcome: Outcome::Opened(maildrop), durable })
}

fn read(file: &MailFile, note: NoteId, lines: Option<u32>) -> mail::Result<Done> {
    let view = file.view()?;
    let raw = view.message(note)?.map(|message| message.raw()).transpose()?;
    Ok(Done { outcome: Outcome::Message(raw, lines), durable: Some(file.durable(view.ticket())) })
}

fn remove(file: &MailFile, folder: ViewId, uids: Vec<Uid>) -> mail::Result<Done> {
    let uids: UidSet = uids.into_iter().collect();
    file.store(folder, &uids, &FlagChange::Add(Flags::of(Marks::DELETED)), None)?;
    let gone = file.expunge(folder, Some(&uids))?;
    Ok(Done { outcome: Outcome::Removed, durable: Some(file.durable(gone.ticket)) })
}
