//! LF outside, CRLF inside.
//!
//! Mail on the wire ends its lines with CRLF; files on Unix with LF. A message whose lines all end with LF alone gets CRLFs
//! when it comes in, and gives them up when it goes out; any other message is left as it is, both ways. So a file with LF
//! lines, and one with mixed lines, comes back the same to the byte; one with CRLF lines throughout comes back with LF.

use std::borrow::Cow;

use memchr::{memchr_iter, memmem};

/// Gives a message from a file the line ends of the wire.
#[must_use]
pub fn to_wire(raw: Vec<u8>) -> Vec<u8> {
    if memmem::find(&raw, b"\r\n").is_some() {
        return raw;
    }
    let count = memchr_iter(b'\n', &raw).count();
    let mut out = Vec::with_capacity(raw.len() + count);
    let mut start = 0;
    for end in memchr_iter(b'\n', &raw) {
        out.extend_from_slice(&raw[start..end]);
        out.extend_from_slice(b"\r\n");
        start = end + 1;
    }
    out.extend_from_slice(&raw[start..]);
    out
}

/// Gives a message the line ends of a file.
#[must_use]
pub fn to_file(raw: &[u8]) -> Cow<'_, [u8]> {
    let all_crlf = memchr_iter(b'\n', raw).all(|end| end > 0 && raw[end - 1] == b'\r');
    if !all_crlf {
        return Cow::Borrowed(raw);
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut start = 0;
    for end in memchr_iter(b'\n', raw) {
        out.extend_from_slice(&raw[start..end - 1]);
        out.push(b'\n');
        start = end + 1;
    }
    out.extend_from_slice(&raw[start..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_goes_out_the_same() {
        for text in ["", "a", "a\nb\n", "a\r\nb\nc\n", "a\rb\n", "\n\n", "no end\nhere"] {
            let wire = to_wire(text.as_bytes().to_vec());
            assert_eq!(to_file(&wire), text.as_bytes(), "{text:?}");
        }
        assert_eq!(to_wire(b"a\nb".to_vec()), b"a\r\nb");
    }
}
