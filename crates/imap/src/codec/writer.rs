//! The writer of responses: appends IMAP syntax to a growing buffer.
//!
//! The caller decides the order of elements and the writer decides their form: whether a string is written as an atom,
//! a quoted string or a literal, how mailbox names are encoded for this client, and how dates and sets are formatted.
//! No method fails. The result is a well-formed response, whatever bytes a message contains.
//!
//! The buffer is handed out in pieces with [`ResponseWriter::take`], so that a long response can be sent while it is
//! produced.

use std::ops::RangeInclusive;

use base::Timestamp;
use mail::mailbox::utf7;

use super::command::SystemFlags;

/// Maximum length of a string that is written as a quoted string. A longer one becomes a literal.
const QUOTED_BYTES_MAX: usize = 1_000;

/// The status of a tagged or untagged status response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseStatus {
    /// OK.
    Ok,
    /// NO.
    No,
    /// BAD.
    Bad,
    /// BYE.
    Bye,
    /// PREAUTH.
    PreAuth,
}

impl ResponseStatus {
    /// Returns the name of the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::No => "NO",
            Self::Bad => "BAD",
            Self::Bye => "BYE",
            Self::PreAuth => "PREAUTH",
        }
    }
}

/// The form in which non-ASCII text is sent to this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TextEncoding {
    /// Mailbox names in modified UTF-7, other texts as literals (IMAP4rev1).
    #[default]
    Ascii,
    /// UTF-8 in quoted strings (IMAP4rev2 or UTF8=ACCEPT enabled).
    Utf8,
}

/// Appends responses to a buffer.
#[derive(Debug, Default)]
pub struct ResponseWriter {
    buffer: Vec<u8>,
    encoding: TextEncoding,
}

impl ResponseWriter {
    /// Creates an empty writer for an IMAP4rev1 client.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the form of non-ASCII text for subsequent output.
    pub fn set_encoding(&mut self, encoding: TextEncoding) {
        self.encoding = encoding;
    }

    /// Returns the form of non-ASCII text.
    #[must_use]
    pub fn encoding(&self) -> TextEncoding {
        self.encoding
    }

    /// Returns the output that has not been taken.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the number of bytes that have not been taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns `true` if all output has been taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes the output together with its memory.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Removes everything after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.buffer.truncate(length);
    }

    /// Appends bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer.extend_from_slice(bytes);
        self
    }

    /// Appends text unchanged.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes())
    }

    /// Appends one byte.
    pub fn byte(&mut self, byte: u8) -> &mut Self {
        self.buffer.push(byte);
        self
    }

    /// Appends a space.
    pub fn space(&mut self) -> &mut Self {
        self.byte(b' ')
    }

    /// Ends the line.
    pub fn crlf(&mut self) -> &mut Self {
        self.raw(b"\r\n")
    }

    /// Appends a decimal number.
    pub fn number(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0_u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.raw(&digits[start..])
    }

    /// Appends `NIL`.
    pub fn nil(&mut self) -> &mut Self {
        self.raw(b"NIL")
    }

    /// Appends a string: as a quoted string if that is possible and the text is short, otherwise as a literal.
    ///
    /// Bytes that are not UTF-8 go into a literal unchanged. NUL, which IMAP strings cannot contain, becomes `?`.
    pub fn string(&mut self, bytes: &[u8]) -> &mut Self {
        if bytes.len() <= QUOTED_BYTES_MAX && self.can_be_quoted(bytes) {
            return self.quoted(bytes);
        }
        self.literal(bytes)
    }

    /// Appends a string, or `NIL` for `None`.
    pub fn nstring(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        match bytes {
            Some(bytes) => self.string(bytes),
            None => self.nil(),
        }
    }

    /// Appends an atom if the text can be one, otherwise a string.
    pub fn astring(&mut self, bytes: &[u8]) -> &mut Self {
        if !bytes.is_empty() && bytes.iter().all(|&byte| is_atom_byte(byte)) && !bytes.eq_ignore_ascii_case(b"NIL") {
            return self.raw(bytes);
        }
        self.string(bytes)
    }

    /// Appends a literal, with NUL replaced by `?`.
    pub fn literal(&mut self, bytes: &[u8]) -> &mut Self {
        self.literal_head(bytes.len()).literal_octets(bytes)
    }

    /// Appends octets of a literal, with NUL replaced by `?`. Only a literal8 can contain NUL (RFC 9051 §9, CHAR8).
    pub fn literal_octets(&mut self, bytes: &[u8]) -> &mut Self {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(bytes);
        for position in memchr::memchr_iter(0, bytes) {
            self.buffer[start + position] = b'?';
        }
        self
    }

    /// Appends a literal whose bytes stay unchanged (RFC 3516: literal8). The `~` is written only if the bytes contain
    /// NUL.
    pub fn literal8(&mut self, bytes: &[u8]) -> &mut Self {
        if bytes.contains(&0) {
            self.byte(b'~');
        }
        self.literal_head(bytes.len());
        self.raw(bytes)
    }

    /// Appends the head of a literal. Exactly `length` bytes must follow.
    pub fn literal_head(&mut self, length: usize) -> &mut Self {
        self.byte(b'{').number(length as u64).raw(b"}\r\n")
    }

    /// Appends a mailbox name in the form that this client understands.
    pub fn mailbox(&mut self, name: &str) -> &mut Self {
        match self.encoding {
            TextEncoding::Utf8 => self.astring(name.as_bytes()),
            TextEncoding::Ascii if utf7::is_plain(name) => self.astring(name.as_bytes()),
            TextEncoding::Ascii => {
                let encoded = utf7::encode(name);
                self.astring(encoded.as_bytes())
            }
        }
    }

    /// Appends flags in parentheses.
    pub fn flags<'a>(&mut self, system: SystemFlags, keywords: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.byte(b'(');
        let mut separate = false;
        for flag in system.names().map(|name| -> &'a str { name }).chain(keywords) {
            if separate {
                self.space();
            }
            self.text(flag);
            separate = true;
        }
        self.byte(b')')
    }

    /// Appends a quoted date and time in UTC: `" 1-Jan-2026 00:00:00 +0000"`.
    pub fn date_time(&mut self, seconds_since_epoch: i64) -> &mut Self {
        let at = Timestamp::from_seconds(seconds_since_epoch).to_utc();
        let number = |value: i8| u64::from(value.unsigned_abs());
        let year = u64::try_from(at.year()).unwrap_or(0);
        let month = MONTHS[usize::from(at.month().unsigned_abs()) - 1];
        let day = number(at.day());
        self.byte(b'"');
        if day < 10 {
            self.space();
        }
        self.number(day).byte(b'-').text(month).byte(b'-');
        self.two_digits(year / 100).two_digits(year % 100).space();
        self.two_digits(number(at.hour()))
            .byte(b':')
            .two_digits(number(at.minute()))
            .byte(b':')
            .two_digits(number(at.second()));
        self.raw(b" +0000\"")
    }

    /// Appends ranges as a sequence set: `1:3,7`. An empty set appends nothing.
    pub fn ranges(&mut self, ranges: impl IntoIterator<Item = RangeInclusive<u32>>) -> &mut Self {
        let mut separate = false;
        for range in ranges {
            if separate {
                self.byte(b',');
            }
            self.number(u64::from(*range.start()));
            if range.start() != range.end() {
                self.byte(b':').number(u64::from(*range.end()));
            }
            separate = true;
        }
        self
    }

    /// Appends the beginning of an untagged response.
    pub fn untagged(&mut self) -> &mut Self {
        self.raw(b"* ")
    }

    /// Appends a complete untagged response without variable parts.
    pub fn untagged_line(&mut self, text: &str) -> &mut Self {
        self.untagged().text(text).crlf()
    }

    /// Appends a complete untagged `* n NAME` response.
    pub fn untagged_number(&mut self, number: u64, name: &str) -> &mut Self {
        self.untagged().number(number).space().text(name).crlf()
    }

    /// Appends an untagged status response. The text must not be empty and includes the response code, if there is one.
    pub fn untagged_status(&mut self, status: ResponseStatus, text: &str) -> &mut Self {
        self.untagged().text(status.name()).space().text(text).crlf()
    }

    /// Appends the tagged status response that ends a command. The text includes the response code, if there is one.
    pub fn tagged(&mut self, tag: &str, status: ResponseStatus, text: &str) -> &mut Self {
        self.text(tag).space().text(status.name()).space().text(text).crlf()
    }

    /// Appends a continuation request.
    pub fn continuation(&mut self, text: &str) -> &mut Self {
        self.raw(b"+ ").text(text).crlf()
    }

    fn quoted(&mut self, bytes: &[u8]) -> &mut Self {
        self.byte(b'"');
        for &byte in bytes {
            if matches!(byte, b'"' | b'\\') {
                self.byte(b'\\');
            }
            self.byte(byte);
        }
        self.byte(b'"')
    }

    fn can_be_quoted(&self, bytes: &[u8]) -> bool {
        let mut ascii = true;
        for &byte in bytes {
            if matches!(byte, 0 | b'\r' | b'\n') {
                return false;
            }
            ascii &= byte < 0x80;
        }
        ascii || (self.encoding == TextEncoding::Utf8 && std::str::from_utf8(bytes).is_ok())
    }

    fn two_digits(&mut self, number: u64) -> &mut Self {
        self.byte(b'0' + (number / 10 % 10) as u8).byte(b'0' + (number % 10) as u8)
    }
}

/// Month names as IMAP and mail headers write them.
pub const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns `true` if the byte is allowed in an atom.
#[must_use]
pub fn is_atom_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\' | b']')
}

#[cfg(test)]
mod tests {
    use super::super::command::SystemFlags;
    use super::*;

    fn written(write: impl FnOnce(&mut ResponseWriter)) -> String {
        let mut writer = ResponseWriter::new();
        write(&mut writer);
        String::from_utf8_lossy(&writer.take()).into_owned()
    }

    #[test]
    fn strings_are_quoted_or_sent_as_literals() {
        let check = |bytes: &[u8], expected: &str| {
            assert_eq!(
                written(|writer| {
                    writer.string(bytes);
                }),
                expected
            );
        };
        check(b"", "\"\"");
        check(b"plain text", "\"plain text\"");
        check(b"a \"quote\" and \\", "\"a \\\"quote\\\" and \\\\\"");
        check(b"two\r\nlines", "{10}\r\ntwo\r\nlines");
        check("M\u{fc}ller".as_bytes(), "{7}\r\nM\u{fc}ller");
        check(b"nul\0", "{4}\r\nnul?");
    }

    #[test]
    fn utf8_is_quoted_if_the_client_accepts_it() {
        let mut writer = ResponseWriter::new();
        writer.set_encoding(TextEncoding::Utf8);
        writer.string("M\u{fc}ller".as_bytes()).space().mailbox("Entw\u{fc}rfe").space().string(b"\xff");
        assert_eq!(writer.take(), b"\"M\xc3\xbcller\" \"Entw\xc3\xbcrfe\" {1}\r\n\xff");
    }

    #[test]
    fn mailbox_names_are_atoms_strings_or_utf7() {
        let check = |name: &str, expected: &str| {
            assert_eq!(
                written(|writer| {
                    writer.mailbox(name);
                }),
                expected
            );
        };
        check("INBOX", "INBOX");
        check("nil", "\"nil\"");
        check("My Mail", "\"My Mail\"");
        check("Entw\u{fc}rfe", "Entw&APw-rfe");
        check("a&b", "a&-b");
        check("", "\"\"");
    }

    #[test]
    fn date_times_follow_the_calendar() {
        let check = |seconds, expected: &str| {
            assert_eq!(
                written(|writer| {
                    writer.date_time(seconds);
                }),
                expected
            );
        };
        check(0, "\" 1-Jan-1970 00:00:00 +0000\"");
        check(951_782_399, "\"28-Feb-2000 23:59:59 +0000\"");
        check(951_782_400, "\"29-Feb-2000 00:00:00 +0000\"");
        check(-1, "\"31-Dec-1969 23:59:59 +0000\"");
        check(1_795_298_132, "\"21-Nov-2026 21:55:32 +0000\"");
        check(i64::MAX, "\"31-Dec-9999 23:59:59 +0000\"");
    }

    #[test]
    fn sets_flags_and_lines_are_well_formed() {
        let flags = SystemFlags::SEEN | SystemFlags::ANSWERED;
        let text = written(|writer| {
            writer.flags(flags, ["$Forwarded"]).space().flags(SystemFlags::NONE, []).crlf();
            writer.ranges([1..=3, 7..=7]).crlf();
            writer.untagged_number(18, "EXISTS");
            writer.tagged("a1", ResponseStatus::No, "[TRYCREATE] there is no such mailbox");
            writer.number(u64::MAX).space().number(0);
        });
        let expected = "(\\Answered \\Seen $Forwarded) ()\r\n1:3,7\r\n* 18 EXISTS\r\n\
                        a1 NO [TRYCREATE] there is no such mailbox\r\n18446744073709551615 0";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_literal8_keeps_every_byte() {
        let mut writer = ResponseWriter::new();
        writer.literal8(b"a\0b").literal8(b"ab");
        assert_eq!(writer.take(), b"~{3}\r\na\0b{2}\r\nab");
    }
}
