//! The size of an index, and the account to which it is charged (`docs/views.md`, "The size of an index").
//!
//! A document counts with its rows: twice the length of each key, which `viewback` holds too, and the length of the
//! value. A category counts with twice the length of the key of its record, and [`CATEGORY_BYTES`] for the row, the
//! spellings and the totals, so that its size stays the same while documents come and go. The nodes of the trees do not
//! count.

use base::Name;
use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::catalog::{DatabaseKind, DatabaseRecord};
use crate::counters::Counters;
use crate::view::limits::CATEGORY_BYTES;

/// Returns the size of a row of a document, in bytes.
pub(crate) fn row_bytes(key: &[u8], value_bytes: usize) -> u64 {
    (2 * key.len() + value_bytes) as u64
}

/// Returns the size of a category with the key of its record, in bytes.
pub(crate) fn category_bytes(record: &[u8]) -> u64 {
    (2 * record.len() + CATEGORY_BYTES) as u64
}

/// The account to which the size of an index is charged.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum IndexAccount {
    /// The quota of the database, for a shared view.
    #[default]
    Shared,
    /// The quota of the database, for any view of a mail file, whose design is its owner's, and for a personal view of
    /// the owner of another database.
    DatabaseOwner,
    /// The limit of a user, for a personal view in a database that is not the user's own.
    Person(Name),
}

impl IndexAccount {
    /// Returns the account of a view with this owner, or without one.
    pub(crate) fn of_owner(owner: Option<Name>, database: &DatabaseRecord) -> Self {
        match owner {
            None if database.kind == DatabaseKind::Mail => Self::DatabaseOwner,
            None => Self::Shared,
            Some(owner) if owner == database.owner => Self::DatabaseOwner,
            Some(owner) => Self::Person(owner),
        }
    }

    /// Changes the counters of a database when the size of an index changes. The index did not exist before, or does
    /// not exist afterwards, if the size is 0.
    pub(crate) fn charge(&self, counters: &mut Counters, before: u64, after: u64) {
        let total = match self {
            Self::Shared | Self::DatabaseOwner => &mut counters.index_bytes,
            Self::Person(_) => &mut counters.personal_index_bytes,
        };
        *total = total.saturating_add(after).saturating_sub(before);
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Shared => out.u8(0),
            Self::DatabaseOwner => out.u8(1),
            Self::Person(name) => out.u8(2).text(name.canonical()),
        };
    }

    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, InvalidRecord> {
        match input.u8()? {
            0 => Ok(Self::Shared),
            1 => Ok(Self::DatabaseOwner),
            2 => Ok(Self::Person(Name::new(input.text()?))),
            _ => Err(InvalidRecord),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> [IndexAccount; 3] {
        [IndexAccount::Shared, IndexAccount::DatabaseOwner, IndexAccount::Person(Name::new("Bob/Acme"))]
    }

    #[test]
    fn stored_form_reads_back() {
        for account in accounts() {
            let mut out = Encoder::new();
            account.encode(&mut out);
            let bytes = out.finish();
            assert_eq!(IndexAccount::decode(&mut Decoder::new(&bytes)), Ok(account));
            for length in 0..bytes.len() {
                assert!(IndexAccount::decode(&mut Decoder::new(&bytes[..length])).is_err());
            }
        }
        assert!(IndexAccount::decode(&mut Decoder::new(&[3])).is_err());
    }

    #[test]
    fn only_personal_indexes_of_others_are_counted_apart() {
        let [shared, own, other] = accounts();
        let mut counters = Counters::START;
        shared.charge(&mut counters, 0, 100);
        own.charge(&mut counters, 0, 10);
        other.charge(&mut counters, 0, 7);
        shared.charge(&mut counters, 100, 60);
        assert_eq!((counters.index_bytes, counters.personal_index_bytes, counters.bytes_used()), (70, 7, 70));
        other.charge(&mut counters, 7, 0);
        own.charge(&mut counters, 10, 0);
        assert_eq!((counters.index_bytes, counters.personal_index_bytes), (60, 0));
    }
}
