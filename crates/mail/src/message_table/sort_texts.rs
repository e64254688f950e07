//! The texts by which a message is sorted. They are read from its header when an order needs them first.
//!
//! A sender is compared by the display name, or by the address if there is none; a subject by the base subject (RFC
//! 5256 §2.1).

use base::Timestamp;

use crate::mime::base_subject::BaseSubject;
use crate::mime::date::HeaderDate;
use crate::mime::{address, header};

/// The texts by which a message is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortTexts {
    /// The base subject, in the form in which it is compared.
    pub subject: String,
    /// The first sender.
    pub from: String,
    /// The first recipient.
    pub to: String,
    /// The value of Date, or `None` if it is missing or invalid.
    pub sent: Option<Timestamp>,
}

impl SortTexts {
    /// Reads the texts from the header of a message.
    #[must_use]
    pub fn of_header(header: &[u8]) -> Self {
        let first = |field: &str| {
            let value = header::first(header, field)?;
            let mailbox = address::mailboxes(value).next()?;
            Some(mailbox.display_name().filter(|name| !name.is_empty()).unwrap_or_else(|| mailbox.address()))
        };
        let sent = header::first(header, "Date").and_then(HeaderDate::parse).map(|date| date.timestamp);
        Self {
            subject: BaseSubject::extract(header::first(header, "Subject")).text,
            from: first("From").unwrap_or_default(),
            to: first("To").unwrap_or_default(),
            sent,
        }
    }
}
