//! Completion of submitted messages (RFC 6409 §8), and the check for loops.
//!
//! Missing `Date`, `Message-ID` and, if the envelope provides it, `From` fields are added. `Bcc` and `Resent-Bcc` are
//! removed, and so is `Return-Path`, which only the last server writes (RFC 5321 §4.4). A message without a clear
//! author is refused: one with several `From` fields, or with a `From` field without an address. So is a message in
//! whose header other programs may see other fields ([`HeaderFault`]). Nothing else is changed, and a complete message
//! passes unchanged.

use std::ops::Range;

use base::Timestamp;

use crate::mime::header::HeaderField;
use crate::mime::message_header::{HeaderFault, append_without, find_fault, is_too_long, top_fields};
use crate::submission::Refusal;

/// The information needed to complete a message.
#[derive(Clone, Copy, Debug)]
pub struct CompletionContext<'a> {
    /// This server's name, for `Message-ID`.
    pub hostname: &'a str,
    /// The identifier of the message, unique on this server.
    pub id: &'a str,
    /// The reverse path.
    pub reverse_path: &'a str,
    /// The time at which the message was received.
    pub now: Timestamp,
}

/// Refuses a message whose header is longer than `HEADER_BYTES_MAX`. The other checks read the whole header.
pub fn check_header_size(text: &[u8]) -> Result<(), Refusal> {
    if is_too_long(text) { Err(Refusal::Malformed(HeaderFault::TooLong.reason())) } else { Ok(()) }
}

/// Refuses a message with more than `hops_max` `Received` fields.
pub fn check_hops(text: &[u8], hops_max: usize) -> Result<(), Refusal> {
    let hops = top_fields(text).filter(|(_, field)| field.is("Received")).count();
    if hops > hops_max { Err(Refusal::Loop) } else { Ok(()) }
}

/// Completes a message that begins with `trace_bytes` bytes of this server. New fields are inserted directly after
/// them.
pub fn complete_message(
    message: Vec<u8>,
    trace_bytes: usize,
    with: &CompletionContext<'_>,
) -> Result<Vec<u8>, Refusal> {
    let Some(text) = message.get(trace_bytes..) else { return Ok(message) };
    let found = survey_header(text)?;
    let mut added = String::new();
    if !found.date {
        added.push_str(&format!("Date: {}\r\n", with.now.to_rfc5322()));
    }
    if !found.message_id {
        added.push_str(&format!("Message-ID: <{}@{}>\r\n", with.id, with.hostname));
    }
    if !found.from {
        if with.reverse_path.is_empty() {
            return Err(Refusal::Malformed("The message has no From field"));
        }
        added.push_str(&format!("From: <{}>\r\n", with.reverse_path));
    }
    if !found.has_section {
        added.push_str("\r\n");
    }
    if added.is_empty() && found.removed_fields.is_empty() {
        return Ok(message);
    }
    let mut mended = Vec::with_capacity(message.len() + added.len());
    mended.extend_from_slice(message.get(..trace_bytes).unwrap_or_default());
    mended.extend_from_slice(added.as_bytes());
    append_without(&mut mended, text, found.removed_fields);
    Ok(mended)
}

/// The fields found in a header section.
#[derive(Default)]
struct HeaderSurvey {
    date: bool,
    message_id: bool,
    from: bool,
    /// `true` if there is a header section, even an empty one.
    has_section: bool,
    /// The ranges of fields that must be removed.
    removed_fields: Vec<Range<usize>>,
}

/// Finds the fields of a header section.
///
/// A text without any field has no header section. A blank line will separate it from the new fields, so that it does
/// not matter whether its lines have the form of a header.
fn survey_header(text: &[u8]) -> Result<HeaderSurvey, Refusal> {
    if let Some(fault) = find_fault(text)
        && top_fields(text).next().is_some()
    {
        return Err(Refusal::Malformed(fault.reason()));
    }
    let mut found = HeaderSurvey { has_section: text.starts_with(b"\r\n"), ..HeaderSurvey::default() };
    for (range, field) in top_fields(text) {
        found.has_section = true;
        if field.is("Date") {
            found.date = true;
        } else if field.is("Message-ID") {
            found.message_id = true;
        } else if ["Bcc", "Resent-Bcc", "Return-Path"].iter().any(|name| field.is(name)) {
            found.removed_fields.push(range);
        } else if field.is("From") {
            check_author(&field)?;
            if std::mem::replace(&mut found.from, true) {
                return Err(Refusal::Malformed("The message has several From fields"));
            }
        }
    }
    Ok(found)
}

/// Checks that an author field contains an address: characters before and after an `@`, outside of comments and quotes.
fn check_author(field: &HeaderField<'_>) -> Result<(), Refusal> {
    let mut quoted = false;
    let mut comments = 0_u32;
    let mut escaped = false;
    let mut previous = b' ';
    let mut bytes = field.value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted || comments > 0 => escaped = true,
            b'"' if comments == 0 => quoted = !quoted,
            b'(' if !quoted => comments = comments.saturating_add(1),
            b')' if !quoted => comments = comments.saturating_sub(1),
            b'@' if !quoted && comments == 0 => {
                let ends = |byte: u8| byte.is_ascii_whitespace() || b"<>,;:@".contains(&byte);
                if !ends(previous) && bytes.peek().is_some_and(|next| !ends(*next)) {
                    return Ok(());
                }
            }
            _ => {}
        }
        previous = byte;
    }
    Err(Refusal::Malformed("The From field of the message has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH: CompletionContext<'_> =
        CompletionContext { hostname: "mx.example", id: "7-1", reverse_path: "a@b.example", now: Timestamp(0) };
    const DATE: &str = "Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n";
    const MESSAGE_ID: &str = "Message-ID: <7-1@mx.example>\r\n";

    fn check(text: &str, expected: &str) {
        let message = format!("Received: x\r\n{text}");
        let completed =
            complete_message(message.into_bytes(), 13, &WITH).map(|bytes| String::from_utf8(bytes).expect("ASCII"));
        assert_eq!(completed.as_deref(), Ok(format!("Received: x\r\n{expected}").as_str()), "{text:?}");
    }

    #[test]
    fn missing_fields_are_added() {
        let whole = "From: A <a@b.example>\r\nDATE: x\r\nmessage-id: <y@z>\r\n\r\nBody\r\n";
        check(whole, whole);
        check("From: a@b.example\r\n\r\nx\r\n", &format!("{DATE}{MESSAGE_ID}From: a@b.example\r\n\r\nx\r\n"));
        check("\r\nx\r\n", &format!("{DATE}{MESSAGE_ID}From: <a@b.example>\r\n\r\nx\r\n"));
        check("x\r\n", &format!("{DATE}{MESSAGE_ID}From: <a@b.example>\r\n\r\nx\r\n"));
    }

    #[test]
    fn bcc_fields_are_removed() {
        check(
            "Return-Path: <x@y>\r\nFrom: a@b\r\nBcc: c@d,\r\n e@f\r\nDate: x\r\nResent-Bcc: g\r\nMessage-ID: y\r\n\r\nBcc: stays\r\n",
            "From: a@b\r\nDate: x\r\nMessage-ID: y\r\n\r\nBcc: stays\r\n",
        );
    }

    #[test]
    fn header_that_programs_read_differently_is_refused() {
        let check = |text: &str, expected: HeaderFault| {
            let refused = complete_message(text.as_bytes().to_vec(), 0, &WITH).expect_err(text);
            assert_eq!(refused, Refusal::Malformed(expected.reason()), "{text:?}");
            assert_eq!(refused.codes(), (550, (5, 6, 0)));
        };
        check("From: a@b\r\nstray\r\nFrom: c@d\r\n\r\nx\r\n", HeaderFault::StrayLine);
        check("From: a@b\r\nstray\r\nBcc: c@d\r\n\r\nx\r\n", HeaderFault::StrayLine);
        check("From a@b Mon 10:00\r\nFrom: a@b\r\nBcc: c@d\r\n\r\nx\r\n", HeaderFault::StrayLine);
        check(" folded\r\nFrom: a@b\r\n\r\nx\r\n", HeaderFault::StrayLine);
        check("From: a@b\r\n--x: y\r\nBcc: c@d\r\n\r\nx\r\n", HeaderFault::DashedName);
        check("From: a@b\r\nHello,\r\nhow are you\r\n", HeaderFault::NoBlankLine);
        check(&format!("From: a@b\r\n{}\r\nx\r\n", "A: 1\r\n".repeat(200_000)), HeaderFault::TooLong);
    }

    #[test]
    fn a_text_without_fields_becomes_the_body() {
        let text = "Hello,\r\nhow are you\r\nBcc: stays\r\n\r\nBye\r\n";
        check(text, &format!("{DATE}{MESSAGE_ID}From: <a@b.example>\r\n\r\n{text}"));
        check("", &format!("{DATE}{MESSAGE_ID}From: <a@b.example>\r\n\r\n"));
        check("From: a@b\r\n", &format!("{DATE}{MESSAGE_ID}From: a@b\r\n"));
    }

    #[test]
    fn a_header_of_excessive_length_is_refused() {
        assert_eq!(check_header_size("A: 1\r\n".repeat(100_000).as_bytes()), Ok(()));
        let refused = check_header_size("A: 1\r\n".repeat(200_000).as_bytes());
        assert_eq!(refused, Err(Refusal::Malformed(HeaderFault::TooLong.reason())));
        assert_eq!(check_header_size(format!("A: 1\r\n\r\n{}", "x\r\n".repeat(1_000_000)).as_bytes()), Ok(()));
    }

    #[test]
    fn hops_are_counted_in_the_header_only() {
        let text = b"Received: a\r\nstray\r\nRECEIVED: b\r\n\tc\r\nX: d\r\n\r\nReceived: no\r\n";
        assert_eq!((check_hops(text, 2), check_hops(text, 1)), (Ok(()), Err(Refusal::Loop)));
    }

    #[test]
    fn missing_or_invalid_from_is_refused() {
        let refused = |text: &str| complete_message(text.as_bytes().to_vec(), 0, &WITH).expect_err(text).codes().0;
        for text in [
            "From: nobody\r\n\r\n",
            "From: \"a@b\" <>\r\n\r\n",
            "From: (a@b)\r\n\r\n",
            "From: a@b\r\nFrom: c@d\r\n\r\n",
            "From:\r\n\r\n",
            "From: <@>\r\n\r\n",
        ] {
            assert_eq!(refused(text), 550);
        }
        let null_sender = CompletionContext { reverse_path: "", ..WITH };
        assert!(complete_message(b"Subject: x\r\n\r\n".to_vec(), 0, &null_sender).is_err());
        assert!(complete_message(b"From: \"x y\"@b (z)\r\n\r\n".to_vec(), 0, &null_sender).is_ok());
    }
}
