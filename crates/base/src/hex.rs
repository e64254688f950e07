//! Bytes as hexadecimal digits, two for each byte.
//!
//! Only digits are read: no sign, which the parsers of integers of the standard library accept, and no blanks.

const LOWER: &[u8; 16] = b"0123456789abcdef";
const UPPER: &[u8; 16] = b"0123456789ABCDEF";

/// Returns bytes as digits in lower case.
#[must_use]
pub fn lower(bytes: &[u8]) -> String {
    encode(bytes, LOWER)
}

/// Returns bytes as digits in upper case.
#[must_use]
pub fn upper(bytes: &[u8]) -> String {
    encode(bytes, UPPER)
}

fn encode(bytes: &[u8], digits: &[u8; 16]) -> String {
    let pair = |byte: &u8| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]];
    bytes.iter().flat_map(pair).map(char::from).collect()
}

/// Returns the bytes of a text with digits of either case. Returns `None` if these are not exactly `N` bytes.
#[must_use]
pub fn parse_array<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = parse_byte(pair[0], pair[1])?;
    }
    Some(bytes)
}

/// Returns the byte of two digits of either case. Returns `None` for other characters.
#[must_use]
#[inline]
pub fn parse_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    Some(digit(high)? << 4 | digit(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_read_back_from_their_digits() {
        let bytes: [u8; 256] = std::array::from_fn(|index| index as u8);
        assert_eq!(parse_array(&lower(&bytes)), Some(bytes));
        assert_eq!(parse_array(&upper(&bytes)), Some(bytes));
        assert_eq!((lower(&[0x0a, 0xf9]).as_str(), upper(&[0x0a, 0xf9]).as_str()), ("0af9", "0AF9"));
    }

    #[test]
    fn only_digits_are_read() {
        for text in ["", "0", "000", "0g", "+1", "-1", " 1", "\u{e9}"] {
            assert_eq!(parse_array::<1>(text), None, "{text:?}");
        }
    }
}
