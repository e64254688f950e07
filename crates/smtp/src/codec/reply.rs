//! Writes replies. A reply consists of one or more lines, each with the reply code. The text is sanitized.
//!
//! Every reply except the greeting and those to HELO, EHLO and LHLO has an enhanced status code (RFC 2034).

use std::io::Write as _;

use crate::error::{EnhancedStatus, NegativeReply};

/// Writes a reply of one line with an enhanced status code.
pub fn write(out: &mut Vec<u8>, code: u16, status: EnhancedStatus, text: &str) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{code} {status} ");
    push_text(out, text);
    out.extend_from_slice(b"\r\n");
}

/// Writes a refusal.
pub fn write_refusal(out: &mut Vec<u8>, refusal: &NegativeReply) {
    write(out, refusal.code, refusal.status, &refusal.text);
}

/// Writes a reply of several lines without enhanced status codes, as EHLO requires.
pub fn write_lines(out: &mut Vec<u8>, code: u16, lines: &[&str]) {
    for (index, line) in lines.iter().enumerate() {
        let separator = if index + 1 == lines.len() { ' ' } else { '-' };
        let _ = write!(out, "{code}{separator}");
        push_text(out, line);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends text that cannot end the line: control characters are replaced by question marks.
fn push_text(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    out.extend_from_slice(text.as_bytes());
    for byte in out.iter_mut().skip(start).filter(|byte| byte.is_ascii_control()) {
        *byte = b'?';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_one_or_several_lines() {
        let mut out = Vec::new();
        write(&mut out, 250, EnhancedStatus(2, 1, 0), "Ok");
        write_lines(&mut out, 250, &["a.example", "HELP"]);
        write_lines(&mut out, 220, &["a"]);
        assert_eq!(out, b"250 2.1.0 Ok\r\n250-a.example\r\n250 HELP\r\n220 a\r\n");
    }

    #[test]
    fn control_characters_cannot_split_a_reply() {
        let mut out = Vec::new();
        write(&mut out, 550, EnhancedStatus(5, 1, 1), "a\r\n250 b\0");
        assert_eq!(out, b"550 5.1.1 a??250 b?\r\n");
    }
}
