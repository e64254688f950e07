//! The identifiers of saves.

use std::fmt;
use std::str::FromStr;

use base::{Timestamp, Unid, hex};

/// The identifier of a save among those with the same sequence number.
///
/// It consists of the time of the save, in an order-preserving form, and a tail. A revision of a CouchDB client keeps
/// the client's hash instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RevisionId(pub [u8; 16]);

impl RevisionId {
    /// Creates the identifier of a save at a time. The tail distinguishes it from other saves at the same time.
    #[must_use]
    pub fn new(time: Timestamp, tail: [u8; 8]) -> Self {
        let mut id = [0; 16];
        let (front, back) = id.split_at_mut(8);
        front.copy_from_slice(&ordered(time).to_be_bytes());
        back.copy_from_slice(&tail);
        Self(id)
    }

    /// Creates the identifier of the first save of a note whose UNID was generated: the tail is the second half of the
    /// UNID.
    #[must_use]
    pub fn first(time: Timestamp, unid: Unid) -> Self {
        let [.., a, b, c, d, e, f, g, h] = unid.0;
        Self::new(time, [a, b, c, d, e, f, g, h])
    }

    /// Returns the last 8 bytes.
    #[must_use]
    pub fn tail(self) -> [u8; 8] {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        [a, b, c, d, e, f, g, h]
    }

    /// Returns the time of the save. It means nothing if the identifier is that of a CouchDB client.
    #[must_use]
    pub fn time(self) -> Timestamp {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        Timestamp((u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ (1 << 63)).cast_signed())
    }

    /// Returns `true` if the identifier has the form of a save at this time.
    #[must_use]
    pub fn is_of_time(self, time: Timestamp) -> bool {
        self.0.starts_with(&ordered(time).to_be_bytes())
    }
}

/// Returns a number whose order, without a sign, is that of the times.
fn ordered(time: Timestamp) -> u64 {
    time.0.cast_unsigned() ^ (1 << 63)
}

impl fmt::Display for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RevisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A save of a note. Revisions are ordered by sequence number, then by identifier.
///
/// This is Domino's rule for the winner of a conflict (most saves, then the latest) and that of CouchDB (the longest
/// path, then the greatest hash).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// Number of saves that led to this version, starting at 1.
    pub sequence: u32,
    /// The identifier among the saves with this sequence number.
    pub id: RevisionId,
}

impl Revision {
    /// Returns the first revision of a note whose UNID was generated.
    #[must_use]
    pub fn first(time: Timestamp, unid: Unid) -> Self {
        Self { sequence: 1, id: RevisionId::first(time, unid) }
    }

    /// Returns the first revision of the conflict document with a UNID, which keeps a version that has lost.
    ///
    /// It is a function of the revision, and not of the time that counts as that of the save: servers that take a
    /// revision of a CouchDB client separately have different times for it.
    #[must_use]
    pub fn of_conflict_document(loser: Self, unid: Unid) -> Self {
        Self::first(loser.id.time(), unid)
    }

    /// Returns the revision of a deletion that replicas make by themselves, just after the version that is deleted.
    #[must_use]
    pub fn deleted_by_replicas(self) -> Self {
        let time = Timestamp(self.id.time().0.saturating_add(1));
        self.child(RevisionId::new(time, digest(b"deletion\0", &[&self.to_bytes()])))
    }

    /// Returns `true` if a version of this revision with a stated time counts rather than one with another time.
    ///
    /// The identifier of a save that a server has made contains its time, so there the stated time that is this one
    /// counts. Of a save that a CouchDB client has made, each server states the time of its arrival; the earliest
    /// counts.
    #[must_use]
    pub fn counts_rather_at(self, time: Timestamp, other: Timestamp) -> bool {
        match (self.id.is_of_time(time), self.id.is_of_time(other)) {
            (true, is_other) => !is_other,
            (false, true) => false,
            (false, false) => time < other,
        }
    }

    /// Returns the revision of a save that replaces this one.
    #[must_use]
    pub fn child(self, id: RevisionId) -> Self {
        Self { sequence: self.sequence.saturating_add(1), id }
    }

    /// Returns the revision of the merge of two versions. It is the same whichever is named first.
    #[must_use]
    pub fn of_merge(one: Self, other: Self) -> Self {
        let (lesser, greater) = if one < other { (one, other) } else { (other, one) };
        let time = Timestamp(one.id.time().max(other.id.time()).0.saturating_add(1));
        let tail = digest(b"merge\0", &[&lesser.to_bytes(), &greater.to_bytes()]);
        greater.child(RevisionId::new(time, tail))
    }

    /// Returns the form that digests and records use: the sequence number and the identifier, 20 bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 20] {
        let mut bytes = [0; 20];
        let (front, back) = bytes.split_at_mut(4);
        front.copy_from_slice(&self.sequence.to_be_bytes());
        back.copy_from_slice(&self.id.0);
        bytes
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.sequence, self.id)
    }
}

impl FromStr for Revision {
    type Err = InvalidRevision;

    /// Parses the form of `Display`, which is that of CouchDB: the sequence number, `-`, and 32 lower-case digits.
    fn from_str(text: &str) -> Result<Self, InvalidRevision> {
        let (number, digits) = text.split_once('-').ok_or(InvalidRevision)?;
        let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        let is_lower_case = digits.bytes().all(|byte| !byte.is_ascii_uppercase());
        let id = hex::parse_array(digits).filter(|_| is_decimal && is_lower_case).ok_or(InvalidRevision)?;
        Ok(Self { sequence: number.parse().map_err(|_| InvalidRevision)?, id: RevisionId(id) })
    }
}

/// A text that is no revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a revision is a number from 1, a hyphen and 32 lower-case hexadecimal digits")]
pub struct InvalidRevision;

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prefix of the UNIDs of conflict documents that replicas make. No other notes have it.
const CONFLICT_UNID_PREFIX: [u8; 6] = *b"\0conf\0";

/// Returns `true` if a UNID is that of such a document.
#[must_use]
pub fn is_conflict_document_unid(unid: Unid) -> bool {
    unid.0.starts_with(&CONFLICT_UNID_PREFIX)
}

/// Returns the UNID of the conflict document that keeps a version which has lost. Every replica that finds the conflict
/// makes the same document.
#[must_use]
pub fn conflict_document_unid(note: Unid, loser: Revision) -> Unid {
    let mut unid = [0; 16];
    let (prefix, rest) = unid.split_at_mut(CONFLICT_UNID_PREFIX.len());
    prefix.copy_from_slice(&CONFLICT_UNID_PREFIX);
    rest.copy_from_slice(&digest::<10>(b"conflict\0", &[&note.0, &loser.to_bytes()]));
    Unid(unid)
}

/// Returns the first `N` bytes of the BLAKE3 hash of some pieces of fixed lengths.
fn digest<const N: usize>(purpose: &[u8], pieces: &[&[u8]]) -> [u8; N] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(purpose);
    for piece in pieces {
        hasher.update(piece);
    }
    let mut output = [0; N];
    hasher.finalize_xof().fill(&mut output);
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_ordered_by_sequence_number_then_time_then_tail() {
        let revision = |sequence, time, tail| Revision { sequence, id: RevisionId::new(Timestamp(time), [tail; 8]) };
        let ascending = [
            revision(1, 900, 9),
            revision(2, i64::MIN, 0),
            revision(2, -1, 0),
            revision(2, 0, 0),
            revision(2, 0, 1),
            revision(2, 256, 0),
            revision(2, i64::MAX, 0),
            revision(3, -5, 0),
        ];
        assert!(ascending.is_sorted_by(|one, next| one < next), "{ascending:?}");
    }

    #[test]
    fn the_first_identifier_is_derived_from_time_and_unid() {
        let unid = Unid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        let id = RevisionId::first(Timestamp(77), unid);
        assert_eq!(id.tail(), [8, 9, 10, 11, 12, 13, 14, 15]);
        assert!(id.is_of_time(Timestamp(77)) && !id.is_of_time(Timestamp(78)));
        assert_eq!((id.time(), RevisionId::new(Timestamp(-5), [0; 8]).time()), (Timestamp(77), Timestamp(-5)));
        assert_eq!(id.to_string(), "800000000000004d08090a0b0c0d0e0f");
    }

    #[test]
    fn revisions_read_back_from_their_text() {
        let revision = Revision { sequence: 12, id: RevisionId([0xAB; 16]) };
        assert_eq!(revision.to_string().parse(), Ok(revision));
        let digits = "ab".repeat(16);
        let wrong = ["", "1", "1-", &digits, &format!("0-{digits}"), &format!("01-{digits}"), &format!("+1-{digits}")];
        for text in wrong.into_iter().chain([format!("1-{}", digits.to_uppercase()).as_str(), "4294967296-00"]) {
            assert_eq!(text.parse::<Revision>(), Err(InvalidRevision), "{text}");
        }
    }

    #[test]
    fn merges_and_conflict_documents_have_the_same_identity_on_every_replica() {
        let one = Revision { sequence: 3, id: RevisionId::new(Timestamp(10), [1; 8]) };
        let other = Revision { sequence: 4, id: RevisionId::new(Timestamp(9), [2; 8]) };
        let merged = Revision::of_merge(one, other);
        assert_eq!(merged, Revision::of_merge(other, one));
        assert_eq!((merged.sequence, merged.id.time()), (5, Timestamp(11)));
        let deleted = Revision { sequence: 3, id: RevisionId([0xFF; 16]) }.deleted_by_replicas();
        assert_eq!((deleted.sequence, deleted.id.time()), (4, Timestamp(i64::MAX)), "the id of a client has no time");
        let unid = conflict_document_unid(Unid([7; 16]), one);
        assert!(is_conflict_document_unid(unid) && !is_conflict_document_unid(Unid([7; 16])));
        assert_ne!(unid, conflict_document_unid(Unid([7; 16]), other));
        assert_ne!(unid, conflict_document_unid(Unid([8; 16]), one));
    }
}
