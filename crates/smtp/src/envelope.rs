//! What surrounds a message: who sends it to whom, and what they want to be told.
//!
//! The same words serve both directions: [`Envelope`] is what the reception hands to the backend, and its parts
//! ([`Notify`], [`OriginalRecipient`], [`Return`], [`Body`]) are what the transfer passes on.

use std::fmt;

use base::Timestamp;
use wire::Peer;

/// How a message may look below its header section (RFC 6152).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Body {
    /// Only ASCII.
    #[default]
    SevenBit,
    /// Any bytes, in lines.
    EightBitMime,
}

/// How much of a message comes back with a failure report (RFC 3461 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Return {
    /// The whole message.
    Full,
    /// Its header section.
    Headers,
}

/// When the sender wants a report about a recipient (RFC 3461 §4.1). Nothing set means never.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notify {
    /// When the message was delivered.
    pub success: bool,
    /// When it cannot be delivered.
    pub failure: bool,
    /// When it takes long.
    pub delay: bool,
}

impl Notify {
    /// No report whatever happens.
    pub const NEVER: Self = Self { success: false, failure: false, delay: false };
}

impl Default for Notify {
    /// What holds when the sender did not say: reports of failure and of delay.
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

/// The recipient as the sender knew it (RFC 3461 §4.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginalRecipient {
    /// The kind of address, mostly `rfc822`.
    pub kind: String,
    /// The address, decoded.
    pub address: String,
}

/// One recipient of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipient {
    /// The address without brackets.
    pub address: String,
    /// Whether the directory called it local when it was accepted.
    pub place: Place,
    /// What the sender asked for; none where it said nothing.
    pub notify: Option<Notify>,
    /// The recipient as the sender knew it.
    pub original: Option<OriginalRecipient>,
}

/// Where an accepted recipient lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On this server.
    Local,
    /// Elsewhere; the message will be sent on.
    Remote,
}

/// Who sends in this session, as far as it is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sender {
    /// The other end of the connection.
    pub peer: Peer,
    /// The login that was authenticated.
    pub login: Option<String>,
    /// The reverse path of the current message; empty for `<>` and before MAIL.
    pub reverse_path: String,
}

/// How a message came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// SMTP after HELO.
    Smtp,
    /// SMTP after EHLO.
    Esmtp,
    /// LMTP.
    Lmtp,
}

/// A message's envelope as it was accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Our identifier of this message, as it stands in the trace field.
    pub id: String,
    /// Who sends, with the reverse path.
    pub sender: Sender,
    /// To whom; at least one.
    pub recipients: Vec<Recipient>,
    /// `ENVID`, decoded.
    pub envelope_id: Option<String>,
    /// `RET`.
    pub ret: Option<Return>,
    /// `BODY`; whether 8-bit text was announced.
    pub body: Body,
    /// Whether the message was announced with SMTPUTF8.
    pub smtputf8: bool,
    /// The name that the client gave with HELO, EHLO or LHLO.
    pub helo: String,
    /// How it came in.
    pub protocol: Protocol,
    /// When its text began to come.
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
