//! A message that is about to be put into a mailbox: as it arrives, and prepared outside of the transaction.

use base::{Timestamp, ViewId};
use notes::{Databases, NewNote, Writer};

use crate::error::{Error, Result};
use crate::mailbox::flags::Flags;
use crate::message::PreparedMessage;
use crate::mime::skeleton::PartSeparation;

/// A message to be put into a mailbox.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The message, byte for byte.
    pub raw: Vec<u8>,
    /// The flags of the message.
    pub flags: Flags,
    /// The time of receipt. `None` stands for the current time.
    pub received: Option<Timestamp>,
}

/// A message that is ready to be put into a mailbox.
pub struct ReadyMessage {
    prepared: PreparedMessage,
    flags: Flags,
    received: Option<Timestamp>,
}

impl ReadyMessage {
    /// Prepares a message.
    pub(crate) fn new(databases: &Databases, message: &NewMessage, separation: PartSeparation) -> Result<Self> {
        let prepared = PreparedMessage::new(databases, &message.raw, separation)?;
        Ok(Self { prepared, flags: message.flags.clone(), received: message.received })
    }

    /// Checks that the quota of the mail file permits the message.
    pub(crate) fn check_quota(&self, writer: &Writer<'_, '_>) -> Result<()> {
        let limit = writer.database().record().options.quota_bytes;
        check_quota(writer, limit, self.prepared.length())
    }

    /// Returns the note that puts the message into a mailbox.
    pub(crate) fn new_note(&self, writer: &mut Writer<'_, '_>, folder: ViewId) -> Result<NewNote> {
        let mut note = self.prepared.note(writer)?;
        note.received = self.received;
        note.marks = self.flags.marks;
        note.keywords.clone_from(&self.flags.keywords);
        note.folders = vec![folder];
        Ok(note)
    }
}

/// Checks that `more` bytes do not exceed the quota.
pub(crate) fn check_quota(writer: &Writer<'_, '_>, limit: Option<u64>, more: u64) -> Result<()> {
    let Some(limit_bytes) = limit else { return Ok(()) };
    let used_bytes = writer.bytes_used();
    if used_bytes.saturating_add(more) > limit_bytes {
        return Err(Error::OverQuota { used_bytes, limit_bytes });
    }
    Ok(())
}
