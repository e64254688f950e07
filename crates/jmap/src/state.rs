//! States (RFC 8620 §1.6.2): a change of the mail file, as clients keep it.
//!
//! A state is the modseq of the last change of a type, with the marks of the replica that IMAP's modseqs have. If the
//! answer of a `/changes` has more objects than the client wants, its new state names the state from which the client
//! came, the one to which the answer belongs, and the last object that was told: the next answer continues there. All
//! objects are told as of the same later state, so no object is told as changed that was not told as created.

use base::Modseq;
use mail::mailbox::MailSnapshot;
use mail::object_id::is_object_id;

use crate::error::MethodError;

/// The state of a type as a client knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The client knows all changes up to this one.
    pub known: Modseq,
    /// The answer that the client has a part of.
    pub part: Option<Part>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The state after the whole answer.
    pub until: Modseq,
    /// The last object that was told.
    pub after: String,
}

impl State {
    /// Parses a state of a client.
    ///
    /// # Errors
    ///
    /// Returns `cannotCalculateChanges` if the state is unknown or so old that changes since then are forgotten.
    pub fn parse(text: &str, snapshot: &MailSnapshot<'_>) -> Result<Self, MethodError> {
        let unknown = || MethodError::new("cannotCalculateChanges");
        let mut pieces = text.splitn(3, '.');
        let known = pieces.next().and_then(|piece| parse_modseq(piece, snapshot)).ok_or_else(unknown)?;
        if !snapshot.is_complete_since(known) {
            return Err(unknown());
        }
        let part = match (pieces.next(), pieces.next()) {
            (None, _) => None,
            (Some(until), Some(after)) if is_object_id(after) => {
                let until = parse_modseq(until, snapshot).filter(|until| *until >= known).ok_or_else(unknown)?;
                Some(Part { until, after: after.to_owned() })
            }
            _ => return Err(unknown()),
        };
        Ok(Self { known, part })
    }

    /// Parses the state of a list, which is never a part of an answer. Errors are those of [`State::parse`].
    pub fn parse_whole(text: &str, snapshot: &MailSnapshot<'_>) -> Result<Modseq, MethodError> {
        let state = Self::parse(text, snapshot)?;
        match state.part {
            None => Ok(state.known),
            Some(_) => Err(MethodError::new("cannotCalculateChanges")),
        }
    }

    /// Returns the text that clients keep.
    #[must_use]
    pub fn format(&self, snapshot: &MailSnapshot<'_>) -> String {
        let known = format(self.known, snapshot);
        match &self.part {
            None => known,
            Some(part) => format!("{known}.{}.{}", format(part.until, snapshot), part.after),
        }
    }
}

/// Returns the state of a type whose last change has a modseq.
#[must_use]
pub fn format(modseq: Modseq, snapshot: &MailSnapshot<'_>) -> String {
    snapshot.client_modseq(modseq).to_string()
}

fn parse_modseq(text: &str, snapshot: &MailSnapshot<'_>) -> Option<Modseq> {
    let number: u64 = text.parse().ok()?;
    // Each state has one form, so that clients can compare states.
    (number.to_string() == text).then(|| snapshot.known_to_client(number)).flatten()
}
