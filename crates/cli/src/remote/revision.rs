//! The revision of a note as text: `SEQUENCE-ID`, as CouchDB writes it.

use std::str::FromStr;

use base::hex;

/// The version of a note that a user has read. Without the identifier it is a sequence number, which identifies only
/// versions that were saved on the server that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedRevision {
    sequence: u32,
    id: Vec<u8>,
}

impl ExpectedRevision {
    /// Returns the sequence number as the protocol has it: 0 for any version.
    pub(super) fn sequence(expected: &Option<Self>) -> u32 {
        expected.as_ref().map_or(0, |expected| expected.sequence)
    }

    /// Returns the identifier as the protocol has it: nothing if it is not known.
    pub(super) fn id(expected: &Option<Self>) -> Vec<u8> {
        expected.as_ref().map(|expected| expected.id.clone()).unwrap_or_default()
    }
}

impl FromStr for ExpectedRevision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sequence, id) = text.split_once('-').map_or((text, None), |(sequence, id)| (sequence, Some(id)));
        let id = id.map_or(Some(Vec::new()), |id| hex::parse_array::<16>(id).map(|id| id.to_vec()));
        match (sequence.parse(), id) {
            (Ok(sequence), Some(id)) if sequence > 0 => Ok(Self { sequence, id }),
            _ => {
                Err("not a revision; `doublet note get` shows it, for example 3-800647484a5c40003f9d0c7a51e2b604"
                    .into())
            }
        }
    }
}

/// Returns a revision as text.
pub(super) fn revision_text(sequence: u32, id: &[u8]) -> String {
    format!("{sequence}-{}", hex::lower(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_numbers_with_or_without_an_identifier() {
        let text = revision_text(3, &[0xAB; 16]);
        let parsed: Option<ExpectedRevision> = text.parse().ok();
        assert_eq!((ExpectedRevision::sequence(&parsed), ExpectedRevision::id(&parsed)), (3, vec![0xAB; 16]));
        let number: Option<ExpectedRevision> = "7".parse().ok();
        assert_eq!((ExpectedRevision::sequence(&number), ExpectedRevision::id(&number)), (7, Vec::new()));
        assert_eq!((ExpectedRevision::sequence(&None), ExpectedRevision::id(&None)), (0, Vec::new()));
        for wrong in ["", "0", "x", "-", "3-", "3-ab", "3-abgg", "-5"] {
            assert!(wrong.parse::<ExpectedRevision>().is_err(), "{wrong}");
        }
    }
}
