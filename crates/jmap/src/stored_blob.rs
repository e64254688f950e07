//! Messages and their parts as blobs that are read in ranges, while they are sent.
//!
//! Each range is read from a snapshot of its own, with the rights that the caller has then. A message never changes its
//! contents; if another version of a document has replaced it, there are no further bytes.

use std::ops::Range;

use base::NoteId;
use bytes::Bytes;
use mail::mailbox::message::SeparateContent;
use mail::mailbox::{MailSnapshot, Message};
use mail::message_table::MessageRow;
use mail::mime::MimeSource;
use mail::mime::structure::TransferEncoding;

use crate::account::Account;
use crate::backend::{Caller, Services};
use crate::error::MethodResult;

/// A message, or a part of one whose bytes need not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    account: String,
    note: NoteId,
    email_id: String,
    bytes: StoredBytes,
}

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StoredBytes {
    /// A range of the message.
    Message(Range<u64>),
    /// The decoded content of a part.
    Content(SeparateContent),
}

impl StoredBlob {
    /// Returns the blob of a message, or `None` if its ranges are not cheap.
    pub(crate) fn of_message(
        (account, row): (&Account, &MessageRow),
        message: &Message<'_>,
    ) -> mail::Result<Option<Self>> {
        let bytes = StoredBytes::Message(0..message.structure().length());
        Ok(message.has_cheap_ranges()?.then(|| Self::new(account, row, bytes)))
    }

    /// Returns the blob of the part with an index, or `None` if it must be decoded or its ranges are not cheap.
    pub(crate) fn of_part(
        (account, row): (&Account, &MessageRow),
        message: &Message<'_>,
        index: usize,
    ) -> mail::Result<Option<Self>> {
        let part = &message.structure().parts()[index];
        let bytes = match part.content.encoding {
            TransferEncoding::Base64 => message.separate_content(index)?.map(StoredBytes::Content),
            TransferEncoding::QuotedPrintable => None,
            _ => message.has_cheap_ranges()?.then(|| StoredBytes::Message(part.body.clone())),
        };
        Ok(bytes.map(|bytes| Self::new(account, row, bytes)))
    }

    fn new(account: &Account, row: &MessageRow, bytes: StoredBytes) -> Self {
        Self { account: account.info.id.clone(), note: row.note, email_id: row.email_id.to_string(), bytes }
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        match &self.bytes {
            StoredBytes::Message(range) => range.end - range.start,
            StoredBytes::Content(content) => content.length(),
        }
    }

    /// Returns the bytes that lie within a range. Returns `None` if the message is damaged, or hidden from the caller
    /// since it was found.
    pub(crate) fn read(&self, services: &Services, caller: &Caller, range: Range<u64>) -> MethodResult<Option<Bytes>> {
        let account = Account::open(services, caller, &self.account)?;
        match self.read_in(&account.file.snapshot()?, range) {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, email = %self.email_id, "a message cannot be read");
                Ok(None)
            }
            other => Ok(other?),
        }
    }

    fn read_in(&self, snapshot: &MailSnapshot<'_>, range: Range<u64>) -> mail::Result<Option<Bytes>> {
        let Some(message) = snapshot.message(self.note)? else { return Ok(None) };
        if message.email_id()? != self.email_id {
            return Ok(None);
        }
        let end = range.end.min(self.size());
        let start = range.start.min(end);
        let read = match &self.bytes {
            StoredBytes::Message(within) => message.range(within.start + start..within.start + end)?.into_owned(),
            StoredBytes::Content(content) => message.separate_content_range(content, start..end)?,
        };
        Ok(Some(read.into()))
    }
}
