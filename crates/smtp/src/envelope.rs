//! The envelope of a message: the sender, the recipients, and the reports they request.
//!
//! The same types serve both directions. The server passes an [`Envelope`] to the backend, and the client sends its
//! parts on ([`Notify`], [`OriginalRecipient`], [`ReturnContent`], [`Body`]).

use std::fmt;

use base::Timestamp;
use wire::Peer;

/// The encoding of a message body (RFC 6152).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Body {
    /// Only ASCII.
    #[default]
    SevenBit,
    /// Any bytes, in lines.
    EightBitMime,
}

/// The part of a message that is returned with a failure report (RFC 3461 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnContent {
    /// The whole message.
    Full,
    /// The header section.
    Headers,
}

/// The events for which the sender requests a report about a recipient (RFC 3461 §4.1). If none is set, no report is
/// sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notify {
    /// Requests a report when the message is delivered.
    pub success: bool,
    /// Requests a report when the message cannot be delivered.
    pub failure: bool,
    /// Requests a report when the delivery is delayed.
    pub delay: bool,
}

impl Notify {
    /// No reports.
    pub const NEVER: Self = Self { success: false, failure: false, delay: false };
}

impl Default for Notify {
    /// Returns the default if the sender requested nothing: reports of failure and of delay.
    fn default() -> Self {
        Self { success: false, failure: true, delay: true }
    }
}

impl fmt::Display for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [("SUCCESS", self.success), ("FAILURE", self.failure), ("DELAY", self.delay)];
        let set: Vec<&str> = words.iter().filter(|(_, set)| *set).map(|(word, _)| *word).collect();
        f.write_str(if set.is_empty() { "NEVER".into() } else { set.join(",") }.as_str())
    }
}

/// The original recipient address given by the sender (RFC 3461 §4.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginalRecipient {
    /// The type of address, usually `rfc822`.
    pub kind: String,
    /// The decoded address.
    pub address: String,
}

/// A recipient of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The address without brackets.
    pub address: String,
    /// The recipient's location when it was accepted, according to the directory.
    pub location: RecipientLocation,
    /// The reports requested by the sender. `None` if the sender did not specify them.
    pub notify: Option<Notify>,
    /// The original recipient address given by the sender.
    pub original: Option<OriginalRecipient>,
}

/// The location of an accepted recipient.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecipientLocation {
    /// This server.
    Local,
    /// Another server. The message will be forwarded.
    Remote,
}

/// The sender of a session, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    /// The remote end of the connection.
    pub peer: Peer,
    /// The authenticated login.
    pub login: Option<String>,
    /// The reverse path of the current message. It is empty for `<>` and before MAIL.
    pub reverse_path: String,
}

/// The protocol with which a message was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// SMTP after HELO.
    Smtp,
    /// SMTP after EHLO.
    Esmtp,
    /// LMTP.
    Lmtp,
}

/// The envelope of an accepted message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// This server's identifier of the message, as in the trace field.
    pub id: String,
    /// The sender, including the reverse path.
    pub sender: Sender,
    /// The recipients. There is at least one.
    pub recipients: Vec<Recipient>,
    /// The decoded value of `ENVID`.
    pub envelope_id: Option<String>,
    /// The value of `RET`.
    pub ret: Option<ReturnContent>,
    /// The value of `BODY`, which announces 8-bit data.
    pub body: Body,
    /// `true` if the message was announced with SMTPUTF8.
    pub smtputf8: bool,
    /// The client's name from HELO, EHLO or LHLO.
    pub helo: String,
    /// The protocol with which the message was received.
    pub protocol: Protocol,
    /// The time at which the message data began to arrive.
    pub received: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_reads_as_on_the_wire() {
        assert_eq!(Notify::NEVER.to_string(), "NEVER");
        assert_eq!(Notify::default().to_string(), "FAILURE,DELAY");
    }
}
