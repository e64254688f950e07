//! The state of a queued message.
//!
//! A queued message is two notes in a `mail.box` database. One holds the message itself and never changes. The other
//! one holds the state, which every attempt rewrites. The state is the summary item `$Queue` (format: version 2, see
//! below; version 1 has no servers). It names the note with the message.

use std::fmt;
use std::str::FromStr;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{NoteId, Timestamp};

use crate::router::envelope::{Envelope, Notify, Recipient};

/// The identifier of a queued message: its `mail.box` and the note with its state. It is displayed as `1-2A`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueKey {
    /// The number of the `mail.box`, counted from 1.
    pub mailbox: u16,
    /// The note with the state.
    pub note: NoteId,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:X}", self.mailbox, self.note.0)
    }
}

impl FromStr for QueueKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (mailbox, note) = text.split_once('-')?;
            Some(Self { mailbox: mailbox.parse().ok()?, note: NoteId(u32::from_str_radix(note, 16).ok()?) })
        };
        parse().ok_or_else(|| format!("{text:?} is not a queue ID such as 1-2A"))
    }
}

/// The state of a recipient of a queued message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecipientState {
    /// The recipient is tried at its next attempt.
    Pending,
    /// An operator holds the recipient.
    Held,
    /// Delivery was given up, and there was no sender to report it to.
    Dead,
}

/// A recipient of a queued message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuedRecipient {
    /// The address and the reports that the sender requested.
    pub recipient: Recipient,
    /// The mail file of a local recipient for which immediate delivery was not possible.
    pub mail_file: Option<String>,
    /// The server of the domain that has the mail file, if it is another one.
    pub server: Option<String>,
    /// The state.
    pub state: RecipientState,
    /// Number of attempts.
    pub attempts: u32,
    /// The time of the next attempt.
    pub next_attempt: Timestamp,
    /// The last reply or error.
    pub last_reply: String,
    /// `true` if the sender was warned of the delay.
    pub warned: bool,
}

impl QueuedRecipient {
    /// Creates a recipient that is tried at once.
    #[must_use]
    pub fn new(recipient: Recipient, mail_file: Option<String>, now: Timestamp) -> Self {
        Self {
            recipient,
            mail_file,
            server: None,
            state: RecipientState::Pending,
            attempts: 0,
            next_attempt: now,
            last_reply: String::new(),
            warned: false,
        }
    }

    /// Returns `true` if both are the same recipient. The mail files are compared as well, because all mailboxes of a
    /// group have the group's address.
    #[must_use]
    pub fn is_same_recipient(&self, other: &Self) -> bool {
        self.recipient.address == other.recipient.address && self.mail_file == other.mail_file
    }

    /// Returns the domain that the message goes to, in lower case. Returns an empty string for local recipients.
    #[must_use]
    pub fn domain(&self) -> String {
        if self.mail_file.is_some() {
            return String::new();
        }
        self.recipient.address.rsplit_once('@').map_or_else(String::new, |(_, domain)| domain.to_lowercase())
    }
}

/// A queued message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueEntry {
    /// The envelope, without recipients.
    pub envelope: Envelope,
    /// The time of arrival.
    pub arrived: Timestamp,
    /// The note with the message.
    pub message: NoteId,
    /// Number of bytes of the message.
    pub size: u64,
    /// The recipients that are not done.
    pub recipients: Vec<QueuedRecipient>,
    /// The time before which nobody gets the message, and until which its sender may withdraw it (RFC 4865). `None` if
    /// there is no such time, and after the first attempt.
    pub release_at: Option<Timestamp>,
}

impl QueueEntry {
    /// Returns the time from which the message counts as being on its way.
    pub(crate) fn sent_at(&self) -> Timestamp {
        self.release_at.map_or(self.arrived, |release_at| release_at.max(self.arrived))
    }

    /// Returns the earliest next attempt of all recipients. Returns `None` if all are held or dead.
    #[must_use]
    pub fn next_attempt(&self) -> Option<Timestamp> {
        let pending = self.recipients.iter().filter(|recipient| recipient.state == RecipientState::Pending);
        pending.map(|recipient| recipient.next_attempt).min()
    }

    /// Moves attempts that are due later than `latest` to that time, or to that of the release.
    pub(crate) fn limit_attempts(&mut self, latest: Timestamp) {
        let latest = self.release_at.map_or(latest, |release_at| release_at.max(latest));
        for recipient in &mut self.recipients {
            recipient.next_attempt = recipient.next_attempt.min(latest);
        }
    }

    /// Returns the stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(256);
        out.u8(3);
        out.i64(self.release_at.map_or(0, |release_at| release_at.0));
        self.envelope.encode(&mut out);
        out.i64(self.arrived.0).u32(self.message.0).varint(self.size).varint(self.recipients.len() as u64);
        for queued in &self.recipients {
            encode_recipient(&mut out, queued);
        }
        out.finish()
    }

    /// Decodes the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=3).contains(&version) {
            return Err(InvalidRecord);
        }
        let release_at = if version < 3 { 0 } else { input.i64()? };
        let release_at = Some(Timestamp(release_at)).filter(|release_at| release_at.0 != 0);
        let envelope = Envelope::decode(&mut input)?;
        let arrived = Timestamp(input.i64()?);
        let message = NoteId(input.u32()?);
        let size = input.varint()?;
        let count = input.count()?;
        let recipients = (0..count).map(|_| decode_recipient(&mut input, version)).collect::<Result<_, _>>()?;
        Ok(Self { envelope, arrived, message, size, recipients, release_at })
    }
}

fn encode_recipient(out: &mut Encoder, queued: &QueuedRecipient) {
    let state = match queued.state {
        RecipientState::Pending => 0,
        RecipientState::Held => 1,
        RecipientState::Dead => 2,
    };
    let recipient = &queued.recipient;
    out.text(&recipient.address).u8(recipient.notify.map_or(0xFF, Notify::to_bits));
    out.text(recipient.original.as_deref().unwrap_or_default());
    out.text(queued.mail_file.as_deref().unwrap_or_default());
    out.text(queued.server.as_deref().unwrap_or_default());
    out.u8(state).u32(queued.attempts).i64(queued.next_attempt.0).text(&queued.last_reply).u8(u8::from(queued.warned));
}

fn decode_recipient(input: &mut Decoder<'_>, version: u8) -> Result<QueuedRecipient, InvalidRecord> {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let address = input.text()?.to_owned();
    let notify = Some(input.u8()?).filter(|bits| *bits != 0xFF).map(Notify::from_bits);
    let original = given(input.text()?);
    let mail_file = given(input.text()?);
    let server = if version == 1 { None } else { given(input.text()?) };
    let state = match input.u8()? {
        0 => RecipientState::Pending,
        1 => RecipientState::Held,
        2 => RecipientState::Dead,
        _ => return Err(InvalidRecord),
    };
    Ok(QueuedRecipient {
        recipient: Recipient { address, notify, original },
        mail_file,
        server,
        state,
        attempts: input.u32()?,
        next_attempt: Timestamp(input.i64()?),
        last_reply: input.text()?.to_owned(),
        warned: input.u8()? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back() {
        let recipient = Recipient {
            address: "ann@acme.test".into(),
            notify: Some(Notify { success: true, failure: false, delay: true }),
            original: Some("rfc822;ann".into()),
        };
        let mut queued = QueuedRecipient::new(recipient, Some("mail/ann.nsf".into()), Timestamp(5));
        queued.state = RecipientState::Held;
        queued.server = Some("CN=hub/O=Acme".into());
        queued.last_reply = "450 4.2.0 later".into();
        let entry = QueueEntry {
            envelope: Envelope {
                id: "X".into(),
                reverse_path: "bob@acme.test".into(),
                smtputf8: true,
                ..Envelope::default()
            },
            arrived: Timestamp(1),
            message: NoteId(9),
            size: 1000,
            recipients: vec![queued, QueuedRecipient::new(Recipient::new("c@d.test"), None, Timestamp(7))],
            release_at: Some(Timestamp(6)),
        };
        let bytes = entry.encode();
        assert_eq!(QueueEntry::decode(&bytes), Ok(entry.clone()));
        assert!((0..bytes.len()).all(|length| QueueEntry::decode(&bytes[..length]).is_err()));
        assert_eq!(entry.next_attempt(), Some(Timestamp(7)));
    }

    #[test]
    fn a_key_reads_back_from_its_text() {
        let key = QueueKey { mailbox: 2, note: NoteId(0x2A) };
        assert_eq!((key.to_string().as_str(), "2-2A".parse()), ("2-2A", Ok(key)));
        assert!("2A".parse::<QueueKey>().is_err());
    }
}
