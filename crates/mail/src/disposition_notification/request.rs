//! The request for a notification, which a sender writes into the header of a message (RFC 8098 §2).
//!
//! A request is valid only if it has one to [`NOTIFICATION_RECIPIENTS_MAX`] addresses, all of them valid: a message
//! that makes its recipients write to many others is not answered. Reports are never answered, so that two programs do
//! not report to each other forever.

use crate::disposition_notification::{DispositionKind, is_same_address};
use crate::limits::{NOTIFICATION_LINE_BYTES_MAX, NOTIFICATION_RECIPIENTS_MAX};
use crate::mime::address::{Mailbox, mailboxes};
use crate::mime::header::{self, HeaderField};
use crate::mime::message_id::message_ids;
use crate::mime::parse;
use crate::mime::text::on_one_line;

/// The field with the addresses that get the notification.
const REQUEST_FIELD: &str = "Disposition-Notification-To";

/// Maximum number of characters of a subject that a notification repeats.
const SUBJECT_CHARACTERS_MAX: usize = 200;

/// A valid request, and what a notification says about the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationRequest {
    /// The addresses that get the notification, each once.
    pub recipients: Vec<String>,
    /// The address to which the message is returned; empty for `<>`. `None` if the message does not say.
    pub return_path: Option<String>,
    /// The field `Original-Recipient`, which the server of the recipient may have written: a type and an address.
    pub original_recipient: Option<String>,
    /// The identifier of the message, in angle brackets.
    pub message_id: Option<String>,
    /// The subject of the message, on one line.
    pub subject: String,
}

impl NotificationRequest {
    /// Reads the request in the header of a message. Returns `None` if there is none, or if it must not be answered.
    #[must_use]
    pub fn of_header(header: &[u8]) -> Option<Self> {
        let mut fields = header::fields(header).filter(|field| field.is(REQUEST_FIELD));
        let field = fields.next().filter(|_| fields.next().is_none())?;
        let recipients = recipients(&field)?;
        if has_required_option(header) || is_report(header) {
            return None;
        }
        let return_path = header::first(header, "Return-Path");
        let subject = header::first(header, "Subject").map(header::decode_value).unwrap_or_default();
        Some(Self {
            recipients,
            return_path: return_path.map(|value| mailboxes(value).next().unwrap_or_default().address()),
            original_recipient: original_recipient(header),
            message_id: message_id(header),
            subject: on_one_line(&subject, SUBJECT_CHARACTERS_MAX),
        })
    }

    /// Returns `true` if the only recipient is the address to which the message is returned. Otherwise somebody else
    /// may have been named, and only the person may decide to write there (RFC 8098 §2.1).
    #[must_use]
    pub fn matches_return_path(&self) -> bool {
        match (self.recipients.as_slice(), &self.return_path) {
            ([only], Some(return_path)) => is_same_address(only, return_path),
            _ => false,
        }
    }

    /// Returns the subject of a notification whose sender has chosen none.
    #[must_use]
    pub fn default_subject(&self, kind: DispositionKind) -> String {
        let name = match kind {
            DispositionKind::Displayed => "Displayed",
            DispositionKind::Deleted => "Deleted",
            DispositionKind::Dispatched => "Dispatched",
            DispositionKind::Processed => "Processed",
        };
        format!("{name}: {}", self.subject).trim_end().to_owned()
    }

    /// Returns the text of a notification whose sender has written none. `recipient` is the address that got the
    /// message.
    #[must_use]
    pub fn default_text(&self, kind: DispositionKind, recipient: &str) -> String {
        let event = match kind {
            DispositionKind::Displayed => "was displayed. This does not mean that it was read or understood.",
            DispositionKind::Deleted => "was deleted. It may have been displayed before.",
            DispositionKind::Dispatched => "was passed on. It may not have been displayed.",
            DispositionKind::Processed => "was processed by a program. It may not have been displayed.",
        };
        let subject = if self.subject.is_empty() { String::new() } else { format!(" \"{}\"", self.subject) };
        format!("Your message{subject} to {recipient} {event}\r\n")
    }
}

/// Returns the addresses of a request, each once. Returns `None` if one is not valid, or if there are too many.
fn recipients(field: &HeaderField<'_>) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for mailbox in mailboxes(field.value) {
        let address = valid_address(&mailbox)?;
        if !found.iter().any(|known| is_same_address(known, &address)) {
            found.push(address);
        }
        if found.len() > NOTIFICATION_RECIPIENTS_MAX {
            return None;
        }
    }
    Some(found).filter(|found| !found.is_empty())
}

fn valid_address(mailbox: &Mailbox) -> Option<String> {
    let is_plain = |text: &[u8]| {
        let is_special = |byte: &u8| byte.is_ascii_control() || b" <>,;:\"()@".contains(byte);
        !text.is_empty() && !text.iter().any(is_special) && std::str::from_utf8(text).is_ok()
    };
    let is_valid = is_plain(&mailbox.local) && is_plain(&mailbox.domain);
    Some(mailbox.address()).filter(|address| is_valid && address.len() <= NOTIFICATION_LINE_BYTES_MAX)
}

/// Returns `true` if the sender requires a parameter of the notification. None is defined, so none is known.
fn has_required_option(header: &[u8]) -> bool {
    let is_required = |parameter: &[u8]| {
        let value = parameter.split(|byte| *byte == b'=').nth(1).unwrap_or_default();
        let importance = value.split(|byte| *byte == b',').next().unwrap_or_default();
        importance.trim_ascii().eq_ignore_ascii_case(b"required")
    };
    let mut options = header::fields(header).filter(|field| field.is("Disposition-Notification-Options"));
    options.any(|field| header::unfold(field.value).split(|byte| *byte == b';').any(is_required))
}

/// Returns `true` if a message is a report itself.
fn is_report(header: &[u8]) -> bool {
    let structure = parse(header);
    let content = &structure.root().content;
    content.is_multipart() && content.subtype.eq_ignore_ascii_case(b"report")
}

fn original_recipient(header: &[u8]) -> Option<String> {
    let value = header::decode_value(header::first(header, "Original-Recipient")?);
    let (kind, address) = value.split_once(';')?;
    let is_kind = |kind: &str| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_valid = value.len() <= NOTIFICATION_LINE_BYTES_MAX && !value.chars().any(char::is_control);
    let is_valid = is_valid && is_kind(kind.trim()) && !kind.trim().is_empty() && !address.trim().is_empty();
    is_valid.then(|| format!("{}; {}", kind.trim(), address.trim()))
}

fn message_id(header: &[u8]) -> Option<String> {
    let id = message_ids(header::first(header, "Message-ID")?).next()?;
    let id = std::str::from_utf8(id).ok()?;
    let is_line = id.len() <= NOTIFICATION_LINE_BYTES_MAX && id.bytes().all(|byte| byte.is_ascii_graphic());
    is_line.then(|| format!("<{id}>"))
}
