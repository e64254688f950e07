//! The state of an index: how far it has followed the documents. It is stored with the rows of each order, so that it
//! changes in the same batch as they do (`docs/views.md`, "Following the documents").

use base::Modseq;
use base::codec::{Decoder, Encoder, InvalidRecord};

/// Version of the stored form. Indexes with version 1 follow older rules of rows and are built anew.
const VERSION: u8 = 2;

/// Flags of the stored form.
const TIME_LIMITED: u8 = 1;

/// The state of an index.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct IndexState {
    /// The modseq up to which the documents are in the index.
    pub(crate) applied: Modseq,
    /// `true` if the time stopped the formulas of any document since the index was built.
    ///
    /// Another evaluation of such a document may have another result. So the rows that the index has cannot be computed
    /// from the documents and must be read.
    pub(crate) time_limited: bool,
}

impl IndexState {
    /// Encodes the state.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(16);
        out.u8(VERSION).u64(self.applied.0).u8(if self.time_limited { TIME_LIMITED } else { 0 });
        out.finish()
    }

    /// Decodes a stored state.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(InvalidRecord);
        }
        let applied = Modseq(input.u64()?);
        let flags = input.u8()?;
        Ok(Self { applied, time_limited: flags & TIME_LIMITED != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_form_reads_back() {
        for time_limited in [false, true] {
            let state = IndexState { applied: Modseq(7), time_limited };
            let bytes = state.encode();
            assert_eq!(IndexState::decode(&bytes), Ok(state));
            for length in 0..bytes.len() {
                assert!(IndexState::decode(&bytes[..length]).is_err());
            }
        }
        assert!(IndexState::decode(&[1, 0, 0, 0, 0, 0, 0, 0, 7]).is_err());
    }
}
