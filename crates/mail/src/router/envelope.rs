//! What surrounds a message on its way (RFC 5321, RFC 3461).

use base::codec::{Decoder, Encoder, Truncated};

/// When the sender wants a report about a recipient (RFC 3461 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notify {
    /// When the message was delivered.
    pub success: bool,
    /// When it cannot be delivered.
    pub failure: bool,
    /// When it takes long.
    pub delay: bool,
}

impl Default for Notify {
    /// What holds when the sender did not say.
    fn default() -> Self {
        Self { success: false, failure: true, delay: true }
    }
}

impl Notify {
    pub(crate) fn to_bits(self) -> u8 {
        u8::from(self.success) | u8::from(self.failure) << 1 | u8::from(self.delay) << 2
    }

    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { success: bits & 1 != 0, failure: bits & 2 != 0, delay: bits & 4 != 0 }
    }
}

/// How much of a message comes back with a failure report (RFC 3461 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReturnContent {
    /// The sender did not say: the header.
    #[default]
    Unspecified,
    /// The whole message, if it is not large.
    Full,
    /// The header.
    Headers,
}

/// One recipient.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recipient {
    /// The address, without brackets.
    pub address: String,
    /// What the sender wants to be told.
    pub notify: Option<Notify>,
    /// The recipient as the sender knew it: `rfc822;ann@acme.test`.
    pub original: Option<String>,
}

impl Recipient {
    /// Makes a recipient about whom the sender said nothing special.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }
}

/// A message's envelope.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// The identifier under which the message was taken, as it stands in the trace field and in the log.
    pub id: String,
    /// Who gets reports; empty for `<>`.
    pub reverse_path: String,
    /// To whom.
    pub recipients: Vec<Recipient>,
    /// `ENVID`.
    pub envelope_id: Option<String>,
    /// `RET`.
    pub return_content: ReturnContent,
    /// Announced with `SMTPUTF8`.
    pub smtputf8: bool,
    /// Announced with `BODY=8BITMIME`.
    pub eight_bit: bool,
}

impl Envelope {
    /// Appends everything but the recipients.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        let ret = match self.return_content {
            ReturnContent::Unspecified => 0,
            ReturnContent::Full => 1,
            ReturnContent::Headers => 2,
        };
        out.text(&self.id).text(&self.reverse_path).text(self.envelope_id.as_deref().unwrap_or_default());
        out.u8(ret).u8(u8::from(self.smtputf8)).u8(u8::from(self.eight_bit));
    }

    /// Takes what [`Envelope::encode`] wrote; there are no recipients in it.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Truncated> {
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
