//! Identifiers as distinct types, so that a note ID is never passed in place of a UID.
//!
//! Integers that are part of a key are stored big-endian, so that the order of the bytes is the order of the numbers.

use std::fmt;
use std::str::FromStr;

use crate::hex;
use crate::random::Random;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// Returns the bytes for a key: big-endian.
            #[must_use]
            pub fn to_key(self) -> [u8; size_of::<$inner>()] {
                self.0.to_be_bytes()
            }

            /// Decodes the bytes of a key.
            #[must_use]
            pub fn from_key(bytes: [u8; size_of::<$inner>()]) -> Self {
                Self(<$inner>::from_be_bytes(bytes))
            }

            /// Returns the next number. The greatest number returns itself.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

number_id!(
    /// The number of a database within a store: the first four bytes of every key of that database. It is never reused.
    DbNumber,
    u32
);
number_id!(
    /// The number of a note within its database. It does not change when the note is updated. Zero is not a note.
    NoteId,
    u32
);
number_id!(
    /// The number of a view or folder within its database: the note ID of its design note.
    ViewId,
    u32
);
number_id!(
    /// The unique identifier of a message within a folder (RFC 9051 §2.3.1.1). UIDs strictly ascend and are never
    /// reused. Zero is not a message.
    Uid,
    u32
);
number_id!(
    /// The number of a change within a database (RFC 7162 §3.1: mod-sequence). Modseqs strictly ascend and are at most
    /// 2^63 − 1.
    Modseq,
    u64
);
number_id!(
    /// The identifier that all replicas of a database share.
    ReplicaId,
    u64
);

impl ReplicaId {
    /// Generates a random replica ID.
    pub fn generate(random: &dyn Random) -> Self {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        Self(u64::from_be_bytes(bytes))
    }

    /// Returns the form that Domino displays: two groups of eight hexadecimal digits, `0123ABCD:4567EF89`.
    #[must_use]
    pub fn to_text(self) -> String {
        format!("{:08X}:{:08X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }

    /// Parses the form that [`ReplicaId::to_text`] returns. Case does not count.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (high, low) = text.split_once(':')?;
        let half = |digits: &str| hex::parse_array(digits).map(u32::from_be_bytes);
        Some(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

/// The universal identifier of a note. It is the same in all replicas of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unid(pub [u8; 16]);

impl Unid {
    /// Generates a random UNID.
    pub fn generate(random: &dyn Random) -> Self {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Self(bytes)
    }
}

impl fmt::Display for Unid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::upper(&self.0))
    }
}

impl fmt::Debug for Unid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unid({self})")
    }
}

impl FromStr for Unid {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        hex::parse_array(text).map(Self).ok_or(InvalidId)
    }
}

/// The text is not a valid identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidId;

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a valid identifier: expected 32 hexadecimal digits")
    }
}

impl std::error::Error for InvalidId {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SeededRandom;

    #[test]
    fn a_unid_reads_back_from_its_text() {
        let unid = Unid::generate(&SeededRandom::new(7));
        assert_eq!(unid.to_string().parse(), Ok(unid));
        assert_eq!("xyz".parse::<Unid>(), Err(InvalidId));
        assert_eq!("é".repeat(16).parse::<Unid>(), Err(InvalidId));
        assert_eq!("+1".repeat(16).parse::<Unid>(), Err(InvalidId));
    }

    #[test]
    fn replica_id_reads_back_from_its_text() {
        let id = ReplicaId::generate(&SeededRandom::new(7));
        assert_eq!(ReplicaId::from_text(&id.to_text()), Some(id));
        assert_eq!(ReplicaId::from_text("0123abcd:4567EF89"), Some(ReplicaId(0x0123_ABCD_4567_EF89)));
        for wrong in ["", ":", "0123ABCD4567EF89", "0123ABCD:4567EF8", "0123ABCD:+567EF89", "0123ABCD:4567EF89:"] {
            assert_eq!(ReplicaId::from_text(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn key_bytes_sort_like_numbers() {
        assert!(Modseq(255).to_key() < Modseq(256).to_key());
        assert_eq!(NoteId::from_key(NoteId(77).to_key()), NoteId(77));
    }
}
