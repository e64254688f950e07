//! Modified UTF-7, the form of mailbox names in IMAP4rev1 (RFC 3501 §5.1.3) and in the directory names of Maildirs.
//!
//! Decoding is strict with unreadable names (bad base64, lone surrogates). It is lenient with names that are merely not
//! canonical (printable ASCII inside base64), because clients list a name and send it back as they received it. Bytes
//! beyond ASCII are decoded as UTF-8, which is the intent of clients that violate the rule.

/// Returns `true` if the name is the same in modified UTF-7.
#[must_use]
pub fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, 0x20..=0x7e) && byte != b'&')
}

/// Encodes a name.
#[must_use]
pub fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len() + 8);
    let mut shifted: Vec<u16> = Vec::new();
    for character in name.chars() {
        if matches!(character, ' '..='~') {
            flush(&mut shifted, &mut encoded);
            encoded.push(character);
            if character == '&' {
                encoded.push('-');
            }
        } else {
            shifted.extend_from_slice(character.encode_utf16(&mut [0; 2]));
        }
    }
    flush(&mut shifted, &mut encoded);
    encoded
}

/// Decodes a name. Returns `None` if it is not modified UTF-7.
#[must_use]
pub fn decode(encoded: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(encoded).ok()?;
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, shifted)) = rest.split_once('&') {
        name.push_str(plain);
        let (base64, after) = shifted.split_once('-')?;
        if base64.is_empty() {
            name.push('&');
        } else {
            decode_shifted(base64, &mut name)?;
        }
        rest = after;
    }
    name.push_str(rest);
    Some(name)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,";

fn flush(shifted: &mut Vec<u16>, encoded: &mut String) {
    if shifted.is_empty() {
        return;
    }
    encoded.push('&');
    let mut bits = 0_u32;
    let mut bit_count = 0_u32;
    for unit in shifted.drain(..) {
        bits = (bits << 16) | u32::from(unit);
        bit_count += 16;
        while bit_count >= 6 {
            bit_count -= 6;
            encoded.push(digit(bits >> bit_count));
            bits &= (1 << bit_count) - 1;
        }
    }
    if bit_count > 0 {
        encoded.push(digit(bits << (6 - bit_count)));
    }
    encoded.push('-');
}

fn digit(bits: u32) -> char {
    char::from(ALPHABET[(bits & 63) as usize])
}

fn decode_shifted(base64: &str, name: &mut String) -> Option<()> {
    let mut units: Vec<u16> = Vec::with_capacity(base64.len() * 3 / 8);
    let mut bits = 0_u32;
    let mut bit_count = 0_u32;
    for byte in base64.bytes() {
        bits = (bits << 6) | value(byte)?;
        bit_count += 6;
        if bit_count >= 16 {
            bit_count -= 16;
            units.push((bits >> bit_count) as u16);
            bits &= (1 << bit_count) - 1;
        }
    }
    if bit_count >= 6 || bits != 0 {
        return None;
    }
    for character in char::decode_utf16(units) {
        name.push(character.ok()?);
    }
    Some(())
}

fn value(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b',' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_rfc_and_clients_round_trip() {
        let check = |name: &str, encoded: &str| {
            assert_eq!(encode(name), encoded);
            assert_eq!(decode(encoded.as_bytes()).as_deref(), Some(name));
        };
        check("~peter/mail/\u{53f0}\u{5317}/\u{65e5}\u{672c}\u{8a9e}", "~peter/mail/&U,BTFw-/&ZeVnLIqe-");
        check("Entw\u{fc}rfe", "Entw&APw-rfe");
        check("a & b", "a &- b");
        check("\u{1f600}", "&2D3eAA-");
        check("", "");
    }

    #[test]
    fn invalid_utf7_is_refused() {
        for bad in ["&", "&APw", "&AP!w-", "&2D0-", "&A-", "&AAAAA-"] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(decode(b"\xff"), None);
    }

    proptest! {
        #[test]
        fn every_name_round_trips(name in "\\PC{0,40}") {
            let encoded = encode(&name);
            prop_assert!(encoded.bytes().all(|byte| matches!(byte, 0x20..=0x7e)));
            prop_assert_eq!(decode(encoded.as_bytes()), Some(name));
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }
    }
}
