//! The beginning of a message as a server has sent it: who has written it, and its subject.
//!
//! Encoded words (RFC 2047) are decoded, because the subject of an answer is encoded again. What is cut off or not
//! valid is read as far as it can be.

use mail_parser::{HeaderName, MessageParser};

/// What a user needs to know of a message to answer it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MessageHead {
    /// The address of the sender.
    pub(super) from: Option<String>,
    /// The subject, decoded.
    pub(super) subject: String,
}

impl MessageHead {
    /// Reads the header of a message, from its first bytes.
    pub(super) fn read(bytes: &[u8]) -> Self {
        let parser = MessageParser::new().header_address(HeaderName::From).header_text(HeaderName::Subject);
        // The parser wants the end of a header, which may be behind the bytes that were kept.
        let ended = [bytes, b"\r\n\r\n"].concat();
        let Some(message) = parser.default_header_ignore().parse_headers(&ended) else { return Self::default() };
        let from = message.from().and_then(|from| from.first()).and_then(|from| from.address());
        Self { from: from.map(str::to_owned), subject: message.subject().unwrap_or_default().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], from: Option<&str>, subject: &str) {
        let expected = MessageHead { from: from.map(str::to_owned), subject: subject.to_owned() };
        assert_eq!(MessageHead::read(bytes), expected);
    }

    #[test]
    fn sender_and_subject_are_unfolded_and_decoded() {
        let whole =
            "Received: from a\r\n\tby b\r\nFROM: Mail 7\r\n <mail7@bench.test>\r\nSubject:Budget\r\n\r\nSubject: no";
        check(whole.as_bytes(), Some("mail7@bench.test"), "Budget");
        let encoded = "Subject: =?UTF-8?Q?Gr=C3=BC=C3=9Fe?=\r\n =?utf-8?B?IGF1cyDQmtC40LXQsg==?=\r\nFrom: \
                       =?UTF-8?Q?J=C3=BCrgen?= <mail2@bench.test>\r\n\r\n";
        check(encoded.as_bytes(), Some("mail2@bench.test"), "Gr\u{fc}\u{df}e aus \u{41a}\u{438}\u{435}\u{432}");
    }

    #[test]
    fn headers_may_be_missing_or_cut_off() {
        check(b"", None, "");
        check(b"\r\nFrom: a@b.test", None, "");
        check(b"To: b@c.test\r\nSubject: Half a li", None, "Half a li");
        check(b"\xff\xfe\r\nFrom: <>\r\n", None, "");
    }
}
