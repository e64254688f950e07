//! The requests that run on a worker: logins, and every access to the mail file.
//!
//! The session creates a [`BackendRequest`], a worker executes it with [`BackendRequest::execute`], and the
//! [`BackendResponse`] goes back to the session. This module does not write to the peer. Data that was read or changed
//! is sent only after its ticket is durable, for which the connection waits.

use std::ops::ControlFlow;
use std::sync::Arc;

use base::memory::MemoryPermit;
use base::{NoteId, Uid, UidSet, ViewId};
use mail::mailbox::{MailFile, Message};
use mail::mime::MimeSource;
use sasl::{Check, ExchangeStep, Login, LoginError, LoginProtocol, PasswordRequest};
use store::DurableFuture;
use wire::Peer;

use crate::backend::Accounts;
use crate::codec::MessageWriter;
use crate::limits::{
    COMPOSED_BYTES_PER_JOB, COMPOSED_OVERHEAD_BYTES, LISTED_PER_JOB, MESSAGE_PIECE_BYTES, MESSAGES_MAX,
    REMOVED_PER_TRANSACTION,
};

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
    /// Reads the next piece of a message.
    Read(MessageRead),
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
    /// A piece of a message.
    Message(MessagePiece),
    /// The message has vanished.
    Vanished,
    /// The messages have been removed.
    Removed,
    /// Some work is done. The rest is in another request, so that others get their turn.
    Partial(BackendRequest),
    /// The mail file failed. The text is for the log.
    Failed(String),
}

/// A message of the list, in the inbox.
pub struct MessagePlace {
    /// The mail file.
    pub file: Arc<MailFile>,
    /// The inbox.
    pub folder: ViewId,
    /// The message.
    pub message: MaildropMessage,
}

/// A message that is read and sent in pieces.
pub struct MessageRead {
    place: MessagePlace,
    /// Number of bytes that have been read.
    position: u64,
    writer: MessageWriter,
    /// The reply that precedes the first piece.
    reply: Option<String>,
    /// The memory for a piece.
    memory: MemoryPermit,
}

impl MessageRead {
    /// Creates the request for the first piece of a message.
    #[must_use]
    pub fn new(place: MessagePlace, writer: MessageWriter, reply: String, memory: MemoryPermit) -> Self {
        Self { place, position: 0, writer, reply: Some(reply), memory }
    }

    /// Reads the next bytes of the message and adds them to the output.
    fn add_piece(&mut self, message: &Message<'_>, size_bytes: u64, output: &mut Vec<u8>) -> mail::Result<()> {
        let end = self.position.saturating_add(size_bytes);
        let raw = message.range(self.position..end)?;
        output.reserve(raw.len().saturating_add(raw.len() / 32));
        self.writer.push(&raw, output);
        self.position = end;
        Ok(())
    }
}

/// A piece of a message.
pub struct MessagePiece {
    /// The reply that precedes the first piece.
    pub reply: Option<String>,
    /// The piece as it is sent.
    pub output: Vec<u8>,
    /// The request for the next piece, or `None` at the end of the message.
    pub rest: Option<BackendRequest>,
    /// The memory of the last piece, which must be held until the piece is sent.
    pub memory: Option<MemoryPermit>,
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
            Self::Read(message) => into_response(read(message)),
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
    let opened = match accounts.open(&origin, login) {
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
    let mut composed_bytes = 0_u64;
    snapshot.entries(maildrop.folder, Uid(first)..=Uid(u32::MAX), &mut |entry| {
        let octets = snapshot.message_size(&entry)?.saturating_add(entry.crlf_growth);
        messages.push(MaildropMessage { uid: entry.uid, note: entry.note, octets });
        if entry.composed {
            composed_bytes = composed_bytes.saturating_add(entry.size).saturating_add(COMPOSED_OVERHEAD_BYTES);
        }
        let goes_on = messages.len() < count_max && composed_bytes < COMPOSED_BYTES_PER_JOB;
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    let is_cut = messages.len() == count_max || composed_bytes >= COMPOSED_BYTES_PER_JOB;
    let is_partial = is_cut && messages.len() < MESSAGES_MAX;
    let durable = Some(file.durable(snapshot.ticket()));
    drop(snapshot);
    let response = match is_partial {
        true => BackendResponse::Partial(BackendRequest::ContinueList(maildrop)),
        false => BackendResponse::Opened(maildrop),
    };
    Ok(DurableResponse { response, durable })
}

/// Reads the next piece of a message.
fn read(mut read: MessageRead) -> mail::Result<DurableResponse> {
    let MessagePlace { file, folder, message: listed } = &read.place;
    let file = Arc::clone(file);
    let snapshot = file.snapshot()?;
    let durable = Some(file.durable(snapshot.ticket()));
    // A document without a message that has changed since it was listed has another UID.
    let is_there = snapshot.has_message(*folder, listed.uid, listed.note)?;
    let message = if is_there { snapshot.message(listed.note)? } else { None };
    let Some(message) = message else {
        return Ok(DurableResponse { response: BackendResponse::Vanished, durable });
    };
    let mut output = Vec::new();
    if read.position == 0 && read.writer.is_top() {
        // The header is in memory. TOP without lines of the body needs nothing else.
        let header_bytes = message.header().len() as u64;
        read.add_piece(&message, header_bytes.min(MESSAGE_PIECE_BYTES), &mut output)?;
    }
    if !read.writer.is_complete() {
        read.add_piece(&message, MESSAGE_PIECE_BYTES, &mut output)?;
    }
    let is_last = read.writer.is_complete() || read.position >= message.structure().length();
    if is_last {
        read.writer.finish(&mut output);
    }
    let reply = read.reply.take();
    let (rest, memory) = if is_last { (None, Some(read.memory)) } else { (Some(BackendRequest::Read(read)), None) };
    let response = BackendResponse::Message(MessagePiece { reply, output, rest, memory });
    Ok(DurableResponse { response, durable })
}

/// Removes the first messages of a list.
fn remove(file: Arc<MailFile>, folder: ViewId, mut uids: Vec<Uid>) -> mail::Result<DurableResponse> {
    let rest = uids.split_off(uids.len().min(REMOVED_PER_TRANSACTION));
    let uids: UidSet = uids.into_iter().collect();
    let ticket = file.delete(folder, &uids)?;
    let durable = Some(file.durable(ticket));
    let response = match rest.is_empty() {
        true => BackendResponse::Removed,
        false => BackendResponse::Partial(BackendRequest::Remove(file, folder, rest)),
    };
    Ok(DurableResponse { response, durable })
}
