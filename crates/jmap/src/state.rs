//! States (RFC 8620 §1.6.2): a change of the mail file, as clients keep it.
//!
//! A state is the modseq of the last change of a type, with the marks of the replica that IMAP's modseqs have. If the
//! answer of a `/changes` has more objects than the client wants, its new state names the state from which the client
//! came, the one to which the answer belongs, and the last object that was told: the next answer continues there. All
//! objects are told as of the same later state, so no object is told as changed that was not told as created.
//!
//! Objects that show settings of the operator change without a change of the mail file. Their state has a mark of these
//! settings, too.

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

/// Adds the mark of the settings of the operator to a state. Without settings, a state has no mark.
#[must_use]
pub fn with_mark(state: &str, mark: Option<&str>) -> String {
    mark.map_or_else(|| state.to_owned(), |mark| format!("{state}-{mark}"))
}

/// Parses a state that may have a mark ([`with_mark`]), and returns both. Errors are those of [`State::parse`].
pub fn parse_marked<'t>(text: &'t str, snapshot: &MailSnapshot<'_>) -> Result<(Modseq, Option<&'t str>), MethodError> {
    let Some((state, mark)) = text.split_once('-') else { return Ok((State::parse_whole(text, snapshot)?, None)) };
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if mark.is_empty() || !mark.bytes().all(is_digit) {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    Ok((State::parse_whole(state, snapshot)?, Some(mark)))
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
