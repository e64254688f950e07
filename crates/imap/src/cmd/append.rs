//! APPEND (RFC 9051 §6.3.12) with MULTIAPPEND (RFC 3502) and APPENDUID (RFC 4315), and the preparation of messages that
//! it shares with REPLACE.

use std::collections::VecDeque;

use base::{Timestamp, UidSet, ViewId};
use mail::mailbox::{Flags, NewMessage, ReadyMessage};
use notes::Marks;

use super::content::SYSTEM_FLAGS;
use super::copy;
use crate::codec::ResponseWriter;
use crate::codec::command::{AppendMessage, MailboxName, RequestedFlags, SystemFlags};
use crate::error::{Error, Result};
use crate::limits;
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Stores messages in one transaction: all or none.
pub fn append(session: &mut Session, mailbox: &MailboxName, messages: Vec<AppendMessage>) -> Result<CommandOutcome> {
    let file = session.file()?;
    let target = copy::target_mailbox(&file.snapshot()?, mailbox)?;
    Ok(CommandOutcome::Job(Box::new(AppendJob { target, messages: MessagePreparation::new(messages)? })))
}

/// An APPEND in progress.
struct AppendJob {
    target: ViewId,
    messages: MessagePreparation,
}

impl SlicedCommand for AppendJob {
    fn step(&mut self, session: &mut Session, _out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if !self.messages.step(session)? {
            return Ok(None);
        }
        let (uid_validity, uids, ticket) = session.file()?.append_prepared(self.target, &self.messages.ready)?;
        session.wait_for(ticket);
        let uids: UidSet = uids.into_iter().collect();
        Ok(Some(TaggedReply::completed().with_code(format!("APPENDUID {uid_validity} {uids}"))))
    }
}

/// The messages of a command, which are parsed and compressed one after the other before a transaction stores them.
pub struct MessagePreparation {
    /// The messages that have not been prepared.
    waiting: VecDeque<NewMessage>,
    /// The prepared messages.
    pub ready: Vec<ReadyMessage>,
}

impl MessagePreparation {
    /// Begins the preparation of messages. Returns an error if one of them is empty.
    pub fn new(messages: Vec<AppendMessage>) -> Result<Self> {
        let waiting = messages.into_iter().map(new_message).collect::<Result<_>>()?;
        Ok(Self { waiting, ready: Vec::new() })
    }

    /// Prepares the next messages. Returns `true` if all are prepared and a transaction may follow in the same slice.
    pub fn step(&mut self, session: &Session) -> Result<bool> {
        let file = session.file()?;
        let timer = SliceTimer::start(&session.context);
        let mut bytes = 0_usize;
        while let Some(message) = self.waiting.pop_front() {
            self.ready.push(file.prepare(&message)?);
            bytes = bytes.saturating_add(message.raw.len());
            if bytes >= limits::SLICE_PREPARED_BYTES || timer.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Converts a message from the client to the form that the `mail` crate takes. Returns an error if the message is
/// empty.
fn new_message(message: AppendMessage) -> Result<NewMessage> {
    if message.raw.is_empty() {
        return Err(Error::No("an empty message cannot be stored"));
    }
    let received = message.received_seconds.map(Timestamp::from_seconds);
    Ok(NewMessage { raw: message.raw, flags: flags_of(&message.flags), received })
}

/// Converts the client's flags to the flags of the `mail` crate.
pub fn flags_of(list: &RequestedFlags) -> Flags {
    let is_set = |(_, flag): &&(Marks, SystemFlags)| list.system.contains(*flag);
    let marks = SYSTEM_FLAGS.iter().filter(is_set).fold(Marks::NONE, |marks, (mark, _)| marks.union(*mark));
    Flags { marks, keywords: list.keywords.clone() }
}
