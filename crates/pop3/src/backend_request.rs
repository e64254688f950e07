//! The requests that run on a worker: logins, and every access to the mail file.
//!
//! The session creates a [`BackendRequest`], a worker executes it with [`BackendRequest::execute`], and the
//! [`BackendResponse`] goes back to the session. This module does not write to the peer. Data that was read or changed
//! is sent only after its ticket is durable, for which the connection waits.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::memory::MemoryPermit;
use base::{NoteId, Uid, UidSet, ViewId};
use mail::mailbox::{FlagChange, Flags, MailFile};
use notes::Marks;
use sasl::{Check, ExchangeStep, Login, LoginError, LoginProtocol, PasswordRequest};
use store::DurableFuture;
use wire::Peer;

use crate::backend::Accounts;
use crate::limits::{LISTED_PER_JOB, MESSAGES_MAX, REMOVED_PER_TRANSACTION};

/// A request of a session, for a worker.
pub enum BackendRequest {
    /// Checks a password.
    Password(PasswordRequest),
    /// Performs the check of a SASL exchange.
    Check(Check),
    /// Opens the inbox of a login.
    Open(Login),
    /// Continues to list the messages of an inbox.
    ContinueList(Maildrop),
    /// Reads a message.
    Read(ReadRequest),
    /// Removes messages.
    Remove(Arc<MailFile>, ViewId, Vec<Uid>),
}

/// The response to a [`BackendRequest`].
pub enum BackendResponse {
    /// The login succeeded.
    Opened(Maildrop),
    /// The login failed.
    Refused(LoginError),
    /// The next step of a login.
    Exchange(ExchangeStep),
    /// A message.
    Message(MessageContent),
    /// The messages have been removed.
    Removed,
    /// Some work is done. The rest is in another request, so that others get their turn.
    Partial(BackendRequest),
    /// The mail file failed. The text is for the log.
    Failed(String),
}

/// A request for a message.
pub struct ReadRequest {
    /// The mail file.
    pub file: Arc<MailFile>,
    /// The note of the message.
    pub note: NoteId,
    /// The number of lines after the header to send, or `None` for all.
    pub lines: Option<u32>,
    /// The memory for the message.
    pub memory: MemoryPermit,
}

/// A message that was read.
pub struct MessageContent {
    /// The whole message, or `None` if it has vanished.
    pub raw: Option<Vec<u8>>,
    /// The number of lines after the header to send, or `None` for all.
    pub lines: Option<u32>,
    /// The memory that must be held for as long as the message is.
    pub memory: MemoryPermit,
}

/// The inbox as it was at login.
pub struct Maildrop {
    /// The login in its canonical spelling.
    pub login: Arc<str>,
    /// The mail file.
    pub file: Arc<MailFile>,
    /// The inbox.
    pub folder: ViewId,
    /// The UIDVALIDITY of the inbox.
    pub uid_validity: u32,
    /// The messages, in ascending order of UID.
    pub messages: Vec<MaildropMessage>,
}

/// A message of the maildrop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaildropMessage {
    /// The UID of the message.
    pub uid: Uid,
    /// The note of the message.
    pub note: NoteId,
    /// Size that RETR sends: the message with CRLF at the end of every line, without dot-stuffing.
    pub octets: u64,
}

/// A response, and the condition under which it may be sent.
pub struct DurableResponse {
    /// The response.
    pub response: BackendResponse,
    /// The future to wait for before the response is sent.
    pub durable: Option<DurableFuture>,
}

impl From<BackendResponse> for DurableResponse {
    fn from(response: BackendResponse) -> Self {
        Self { response, durable: None }
    }
}

impl BackendRequest {
    /// Returns the command of the request, for the worker pool.
    #[must_use]
    pub fn command(&self) -> &'static str {
        match self {
            Self::Password(_) | Self::Check(_) | Self::Open(_) | Self::ContinueList(_) => "AUTH",
            Self::Read(..) => "RETR",
            Self::Remove(..) => "QUIT",
        }
    }

    /// Returns `true` if the request checks a login, which may take the time of a password hash.
    #[must_use]
    pub fn checks_login(&self) -> bool {
        matches!(self, Self::Password(_) | Self::Check(_))
    }

    /// Returns the response to a login that cannot be checked now. It does not count as a failed attempt.
    #[must_use]
    pub fn withdraw(self) -> BackendResponse {
        match self {
            Self::Check(check) => BackendResponse::Exchange(check.withdraw()),
            _ => BackendResponse::Refused(LoginError::Unavailable),
        }
    }

    /// Executes the request. May block.
    #[must_use]
    pub fn execute(self, accounts: &dyn Accounts, peer: &Peer) -> DurableResponse {
        match self {
            Self::Password(request) => {
                match accounts.check_password(&peer.login_origin(LoginProtocol::Pop3), &request) {
                    Ok(login) => BackendResponse::Exchange(ExchangeStep::Done { login, message: Vec::new() }).into(),
                    Err(error) => BackendResponse::Refused(error).into(),
                }
            }
            Self::Check(check) => BackendResponse::Exchange(check.run(accounts)).into(),
            Self::Open(login) => open(accounts, peer, &login),
            Self::ContinueList(maildrop) => into_response(continue_list(maildrop)),
            Self::Read(request) => into_response(read(request)),
            Self::Remove(file, folder, uids) => into_response(remove(file, folder, uids)),
        }
    }
}

fn into_response(done: mail::Result<DurableResponse>) -> DurableResponse {
    done.unwrap_or_else(|error| BackendResponse::Failed(error.to_string()).into())
}

/// Opens the inbox of a login. If that fails, the connection is no longer logged in.
fn open(accounts: &dyn Accounts, peer: &Peer, login: &Login) -> DurableResponse {
    let origin = peer.login_origin(LoginProtocol::Pop3);
    let opened = match accounts.open(&origin, &login.authorization) {
        Ok(file) => into_response(list(&login.authorization, Arc::new(file))),
        Err(error) => BackendResponse::Refused(error).into(),
    };
    if !matches!(opened.response, BackendResponse::Opened(_) | BackendResponse::Partial(_)) {
        accounts.end_login(&origin);
    }
    opened
}

/// Begins the list of the messages in the inbox.
fn list(login: &str, file: Arc<MailFile>) -> mail::Result<DurableResponse> {
    let snapshot = file.snapshot()?;
    let inbox = snapshot.folder("INBOX")?.ok_or_else(|| mail::Error::NoMailbox("INBOX".to_owned()))?;
    let uid_validity = snapshot.status(inbox.id)?.uid_validity;
    drop(snapshot);
    continue_list(Maildrop { login: login.into(), file, folder: inbox.id, uid_validity, messages: Vec::new() })
}

/// Adds the next messages to a list.
fn continue_list(mut maildrop: Maildrop) -> mail::Result<DurableResponse> {
    let file = Arc::clone(&maildrop.file);
    let snapshot = file.snapshot()?;
    let messages = &mut maildrop.messages;
    let count_max = messages.len().saturating_add(LISTED_PER_JOB).min(MESSAGES_MAX);
    let first = messages.last().map_or(1, |last| last.uid.0.saturating_add(1));
    snapshot.entries(maildrop.folder, Uid(first)..=Uid(u32::MAX), &mut |entry| {
        let octets = entry.size.saturating_add(entry.crlf_growth);
        messages.push(MaildropMessage { uid: entry.uid, note: entry.note, octets });
        Ok(if messages.len() < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let is_partial = messages.len() == count_max && count_max < MESSAGES_MAX;
    let durable = Some(file.durable(snapshot.ticket()));
    drop(snapshot);
    let response = match is_partial {
        true => BackendResponse::Partial(BackendRequest::ContinueList(maildrop)),
        false => BackendResponse::Opened(maildrop),
    };
    Ok(DurableResponse { response, durable })
}

fn read(request: ReadRequest) -> mail::Result<DurableResponse> {
    let ReadRequest { file, note, lines, memory } = request;
    let snapshot = file.snapshot()?;
    let raw = snapshot.message(note)?.map(|message| message.raw()).transpose()?;
    Ok(DurableResponse {
        response: BackendResponse::Message(MessageContent { raw, lines, memory }),
        durable: Some(file.durable(snapshot.ticket())),
    })
}

/// Removes the first messages of a list.
fn remove(file: Arc<MailFile>, folder: ViewId, mut uids: Vec<Uid>) -> mail::Result<DurableResponse> {
    let rest = uids.split_off(uids.len().min(REMOVED_PER_TRANSACTION));
    let uids: UidSet = uids.into_iter().collect();
    file.store(folder, &uids, &FlagChange::Add(Flags::from_system_flags(Marks::DELETED)), None)?;
    let gone = file.expunge(folder, Some(&uids))?;
    let durable = Some(file.durable(gone.ticket));
    let response = match rest.is_empty() {
        true => BackendResponse::Removed,
        false => BackendResponse::Partial(BackendRequest::Remove(file, folder, rest)),
    };
    Ok(DurableResponse { response, durable })
}
