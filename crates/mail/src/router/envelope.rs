//! The envelope of a message on its way (RFC 5321, RFC 3461).
//!
//! All protocols, the queue and the transfer to other servers use these types.

use std::fmt;

use base::codec::{Decoder, Encoder, InvalidRecord};

/// The events about which the sender wants a report for a recipient (RFC 3461 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notify {
    /// The message was delivered.
    pub success: bool,
    /// The message cannot be delivered.
    pub failure: bool,
    /// The delivery is delayed.
    pub delay: bool,
}

impl Default for Notify {
    /// Returns the value that applies if the sender did not specify one: failure and delay.
    fn default() -> Self {
        Self { success: false, failure: true, delay: true }
    }
}

impl Notify {
    /// No reports.
    pub const NEVER: Self = Self { success: false, failure: false, delay: false };

    pub(crate) fn to_bits(self) -> u8 {
        u8::from(self.success) | u8::from(self.failure) << 1 | u8::from(self.delay) << 2
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { success: bits & 1 != 0, failure: bits & 2 != 0, delay: bits & 4 != 0 }
    }
}

impl fmt::Display for Notify {
    /// Writes the value of the parameter `NOTIFY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [("SUCCESS", self.success), ("FAILURE", self.failure), ("DELAY", self.delay)];
        let set: Vec<&str> = words.iter().filter(|(_, set)| *set).map(|(word, _)| *word).collect();
        f.write_str(if set.is_empty() { "NEVER".into() } else { set.join(",") }.as_str())
    }
}

/// The part of a message that is returned with a failure report (RFC 3461 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReturnContent {
    /// The sender did not specify it. The header is returned.
    #[default]
    Unspecified,
    /// The whole message is returned, unless it is large.
    Full,
    /// The header is returned.
    Headers,
}

/// A recipient of an envelope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recipient {
    /// The address, without brackets.
    pub address: String,
    /// The events about which the sender wants a report.
    pub notify: Option<Notify>,
    /// The recipient as the sender specified it: `rfc822;ann@acme.test`.
    pub original: Option<String>,
}

impl Recipient {
    /// Creates a recipient without parameters of the sender.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }
}

/// The envelope of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// The identifier under which the message was accepted. It appears in the trace field and in the log.
    pub id: String,
    /// The address that receives reports. It is empty for `<>`.
    pub reverse_path: String,
    /// The recipients.
    pub recipients: Vec<Recipient>,
    /// `ENVID`.
    pub envelope_id: Option<String>,
    /// `RET`.
    pub return_content: ReturnContent,
    /// `true` if the message was announced with `SMTPUTF8`.
    pub smtputf8: bool,
    /// `true` if the message was announced with `BODY=8BITMIME`.
    pub eight_bit: bool,
}

impl Envelope {
    /// Removes the parameters of delivery reports (RFC 3461), except requests for no report. The sender receives the
    /// reports that it would receive without them.
    pub fn remove_report_parameters(&mut self) {
        self.envelope_id = None;
        self.return_content = ReturnContent::Unspecified;
        for recipient in &mut self.recipients {
            recipient.notify = recipient.notify.filter(|notify| *notify == Notify::NEVER);
            recipient.original = None;
        }
    }

    /// Makes this the envelope of a notification (RFC 8098 §3): nothing is sent in response to it, and its delivery is
    /// not reported.
    pub fn become_notification(&mut self) {
        // The address of the sender stays in the header.
        self.smtputf8 |= !self.reverse_path.is_ascii();
        self.reverse_path.clear();
        for recipient in &mut self.recipients {
            recipient.notify = Some(Notify::NEVER);
        }
    }

    /// Appends all fields except the recipients.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        let ret = match self.return_content {
            ReturnContent::Unspecified => 0,
            ReturnContent::Full => 1,
            ReturnContent::Headers => 2,
        };
        out.text(&self.id).text(&self.reverse_path).text(self.envelope_id.as_deref().unwrap_or_default());
        out.u8(ret).u8(u8::from(self.smtputf8)).u8(u8::from(self.eight_bit));
    }

    /// Decodes the output of [`Envelope::encode`]. It contains no recipients.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        Ok(Self {
            id: input.text()?.to_owned(),
            reverse_path: input.text()?.to_owned(),
            recipients: Vec::new(),
            envelope_id: Some(input.text()?.to_owned()).filter(|id| !id.is_empty()),
            return_content: match input.u8()? {
                1 => ReturnContent::Full,
                2 => ReturnContent::Headers,
                _ => ReturnContent::Unspecified,
            },
            smtputf8: input.u8()? != 0,
            eight_bit: input.u8()? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_displays_in_wire_form() {
        assert_eq!(Notify::NEVER.to_string(), "NEVER");
        assert_eq!(Notify::default().to_string(), "FAILURE,DELAY");
    }
}
