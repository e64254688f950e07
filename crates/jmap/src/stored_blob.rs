//! Messages and their parts as blobs that are read in ranges, while they are sent.
//!
//! Each range is read from a snapshot of its own, with the rights that the caller has then. A message never changes its
//! contents; if another version of a document has replaced it, there are no further bytes.

use std::ops::Range;

use base::NoteId;
use bytes::Bytes;
use mail::mailbox::Message;
use mail::mailbox::message::SeparateContent;
use mail::message_table::MessageRow;
use mail::mime::structure::TransferEncoding;
use mail::mime::{MimeSource, Part};

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
    /// Returns the blob of a message.
    pub(crate) fn of_message(account: &Account, row: &MessageRow, message: &Message<'_>) -> Self {
        Self::new(account, row, StoredBytes::Message(0..message.structure().length()))
    }

    /// Returns the blob of a part, or `None` if its bytes must be decoded.
    pub(crate) fn of_part(
        (account, row): (&Account, &MessageRow),
        message: &Message<'_>,
        part: &Part,
    ) -> mail::Result<Option<Self>> {
        let bytes = match part.content.encoding {
            TransferEncoding::Base64 => message.separate_content(part)?.map(StoredBytes::Content),
            TransferEncoding::QuotedPrintable => None,
            _ => Some(StoredBytes::Message(part.body.clone())),
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

    /// Returns the bytes that lie within a range. Returns `None` if the caller can no longer see the message.
    pub(crate) fn read(&self, services: &Services, caller: &Caller, range: Range<u64>) -> MethodResult<Option<Bytes>> {
        let account = Account::open(services, caller, &self.account)?;
        let snapshot = account.file.snapshot()?;
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
