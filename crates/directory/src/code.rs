//! Codes of random symbols that people type: application passwords and recovery codes.
//!
//! The symbols are letters and digits that are hard to confuse, 5 bits each, in groups of four. Hyphens, spaces and
//! case do not matter. A code with enough symbols cannot be guessed even by somebody who has its digest, so the digest
//! needs no slow hash.

use base::Random;

/// The symbols: letters without `l` and `o`, digits without `0` and `1`.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Number of symbols between hyphens.
const GROUP_SYMBOLS: usize = 4;

/// A code of `N` symbols.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Code<const N: usize>([u8; N]);

/// A code that was made, and its text.
pub(crate) struct NewCode<const N: usize> {
    /// The code.
    pub(crate) code: Code<N>,
    /// The form in which a person gets it.
    pub(crate) text: String,
}

impl<const N: usize> Code<N> {
    /// Creates a random code.
    pub(crate) fn generate(random: &dyn Random) -> NewCode<N> {
        let mut symbols = [0; N];
        random.fill(&mut symbols);
        // The alphabet has 32 symbols, so each is equally probable.
        symbols.iter_mut().for_each(|byte| *byte = ALPHABET[usize::from(*byte % 32)]);
        let groups = symbols.chunks(GROUP_SYMBOLS).map(|group| String::from_utf8_lossy(group).into_owned());
        let text = groups.collect::<Vec<_>>().join("-");
        NewCode { code: Self(symbols), text }
    }

    /// Parses a code as it was typed. Returns `None` for other texts.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut symbols = [0; N];
        let mut count = 0;
        for byte in text.bytes().filter(|byte| !b"- ".contains(byte)) {
            let symbol = byte.to_ascii_lowercase();
            *symbols.get_mut(count)? = Some(symbol).filter(|symbol| ALPHABET.contains(symbol))?;
            count += 1;
        }
        (count == N).then_some(Self(symbols))
    }

    /// Returns the digest that is stored.
    pub(crate) fn digest(&self) -> [u8; 32] {
        *blake3::hash(&self.0).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;

    #[test]
    fn codes_are_read_as_they_are_typed() {
        let NewCode { code, text } = Code::<12>::generate(&SeededRandom::new(3));
        assert_eq!(text.len(), 14, "{text}");
        for typed in [text.clone(), text.to_uppercase(), text.replace('-', ""), format!(" {text} ")] {
            assert!(Code::parse(&typed) == Some(code.clone()), "{typed}");
        }
        for wrong in ["", &text[1..], &format!("{text}a"), &text.replace('-', "_"), &text.replace('-', "0")] {
            assert!(Code::<12>::parse(wrong).is_none(), "{wrong}");
        }
        let other = Code::<12>::generate(&SeededRandom::new(4));
        assert!(other.code.digest() != code.digest());
    }
}
