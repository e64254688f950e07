//! Line ends of messages and protocols: CRLF, and the bare CR and LF that RFC 5322 forbids.

/// Converts all line ends to CRLF. An LF without CR becomes CRLF, a CR without LF becomes a space.
#[must_use]
pub fn normalize_line_ends(text: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(text.len() + text.len() / 32);
    let mut copied = 0;
    for index in memchr::memchr2_iter(b'\r', b'\n', text) {
        let replacement: &[u8] = match text.get(index) {
            Some(b'\r') if text.get(index + 1) != Some(&b'\n') => b" ",
            Some(b'\n') if index == 0 || text.get(index - 1) != Some(&b'\r') => b"\r\n",
            _ => continue,
        };
        clean.extend_from_slice(text.get(copied..index).unwrap_or_default());
        clean.extend_from_slice(replacement);
        copied = index + 1;
    }
    clean.extend_from_slice(text.get(copied..).unwrap_or_default());
    clean
}

/// Returns `true` if a CR in `previous` or `piece` lacks its LF, or an LF its CR. The last byte is judged together with
/// the piece that follows it.
#[must_use]
pub fn has_bare_line_end(previous: u8, piece: &[u8]) -> bool {
    const BLOCK: usize = 4_096;
    let Some(&first) = piece.first() else { return false };
    let mut bare = (first == b'\n') != (previous == b'\r');
    let next = piece.get(1..).unwrap_or_default();
    for (current, next) in piece.chunks(BLOCK).zip(next.chunks(BLOCK)) {
        // There is no early exit within a block, so that the compiler can vectorize the loop.
        let found = current.iter().zip(next).fold(0, |found, (&a, &b)| found | u8::from((a == b'\r') != (b == b'\n')));
        bare |= found != 0;
    }
    bare
}

/// Returns the index after the LF that ends the line at `from`, or the length of the bytes.
#[must_use]
#[inline]
pub fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    memchr::memchr(b'\n', rest).map_or(bytes.len(), |position| from + position + 1)
}

/// Returns a line without its line end: CRLF, a bare LF, or a CR whose LF is missing.
#[must_use]
#[inline]
pub fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_normalized() {
        let check = |text: &str, clean: &str| {
            assert_eq!(normalize_line_ends(text.as_bytes()), clean.as_bytes(), "{text:?}");
            assert!(!has_bare_line_end(0, clean.as_bytes()));
        };
        check("a\nb\r\nc", "a\r\nb\r\nc");
        check("\n", "\r\n");
        check("a\rb\r\r\n", "a b \r\n");
        check("a\n\n.\n", "a\r\n\r\n.\r\n");
    }

    #[test]
    fn lines_are_split_behind_their_lf() {
        let text = b"a\r\n\nb";
        assert_eq!((line_end(text, 0), line_end(text, 3), line_end(text, 4), line_end(text, 9)), (3, 4, 5, 5));
        for (line, content) in [("a\r\n", "a"), ("a\n", "a"), ("a\r", "a"), ("a\r\r\n", "a\r"), ("\n", ""), ("", "")] {
            assert_eq!(without_line_end(line.as_bytes()), content.as_bytes(), "{line:?}");
        }
    }
}
