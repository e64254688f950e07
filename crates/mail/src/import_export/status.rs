//! Flags in header fields, as mbox files keep them.
//!
//! | field | contents | written by |
//! |---|---|---|
//! | `Status` | `R`: read; `O`: old, which is not a flag here | all programs |
//! | `X-Status` | `A` answered, `F` flagged, `D` deleted, `T` draft | Dovecot, mutt, UW IMAP |
//! | `X-Keywords` | keywords | Dovecot, UW IMAP |
//! | `X-Mozilla-Status`, `X-Mozilla-Status2` | bits, in hexadecimal | Thunderbird |
//! | `X-Mozilla-Keys` | keywords | Thunderbird |
//! | `X-Gmail-Labels` | `Unread`, `Starred`, `Drafts`; other labels are ignored | Gmail Takeout |
//!
//! The fields are read and stay in the message, because they are part of its bytes. Words that are not IMAP keywords
//! are ignored.

use notes::Marks;
use notes::limits::{KEYWORD_BYTES_MAX, KEYWORDS_PER_NOTE_MAX};

use crate::mailbox::Flags;
use crate::mime::header;
use crate::mime::message_header::top_fields;

const STATUS: [(u8, Marks); 1] = [(b'R', Marks::SEEN)];

const X_STATUS: [(u8, Marks); 4] =
    [(b'A', Marks::ANSWERED), (b'F', Marks::FLAGGED), (b'D', Marks::DELETED), (b'T', Marks::DRAFT)];

/// Bits of `X-Mozilla-Status`: read, answered, flagged, deleted but not yet removed from the file, and forwarded.
const MOZILLA: [(u32, &str); 5] =
    [(0x1, "\\Seen"), (0x2, "\\Answered"), (0x4, "\\Flagged"), (0x8, "\\Deleted"), (0x1000, "$Forwarded")];

/// Bit of `X-Mozilla-Status2`: deleted on the IMAP server. The five labels of old Thunderbird versions are a number in
/// three bits, which begin at [`MOZILLA2_LABEL`].
const MOZILLA2_DELETED: u32 = 0x0020_0000;
const MOZILLA2_LABEL: u32 = 25;

const GMAIL: [(&str, &str); 3] = [("Starred", "\\Flagged"), ("Draft", "\\Draft"), ("Drafts", "\\Draft")];

/// Returns the flags in the header of a message.
#[must_use]
pub fn flags_of(message: &[u8]) -> Flags {
    let mut flags = Flags::none();
    for (_, field) in top_fields(message) {
        match field.name.first().map(u8::to_ascii_lowercase) {
            Some(b's') if field.is("Status") => letters(&mut flags, field.value, &STATUS),
            Some(b'x') => extension(&mut flags, &field),
            _ => {}
        }
    }
    flags
}

/// Adds a flag if it is valid: a system flag, or a keyword that IMAP can write.
pub fn add(flags: &mut Flags, name: &str) {
    let atom = |byte: u8| byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(&byte);
    let sound = (1..=KEYWORD_BYTES_MAX).contains(&name.len()) && name.bytes().all(atom);
    if name.starts_with('\\') || (sound && flags.keywords.len() < KEYWORDS_PER_NOTE_MAX) {
        flags.add(name);
    }
}

fn extension(flags: &mut Flags, field: &header::HeaderField<'_>) {
    if field.is("X-Status") {
        letters(flags, field.value, &X_STATUS);
    } else if field.is("X-Keywords") || field.is("X-Mozilla-Keys") {
        let text = header::unfold(field.value);
        String::from_utf8_lossy(&text).split_ascii_whitespace().for_each(|word| add(flags, word));
    } else if field.is("X-Mozilla-Status") {
        let bits = hexadecimal(field.value);
        MOZILLA.iter().filter(|(bit, _)| bits & bit != 0).for_each(|(_, name)| flags.add(name));
    } else if field.is("X-Mozilla-Status2") {
        let bits = hexadecimal(field.value);
        if bits & MOZILLA2_DELETED != 0 {
            flags.add("\\Deleted");
        }
        let label = (bits >> MOZILLA2_LABEL) & 7;
        if (1..=5).contains(&label) {
            flags.add(&format!("$Label{label}"));
        }
    } else if field.is("X-Gmail-Labels") {
        let text = header::decode_value(field.value);
        let labels = || text.split(',').map(str::trim);
        if !labels().any(|label| label == "Unread") {
            flags.add("\\Seen");
        }
        GMAIL.iter().filter(|(label, _)| labels().any(|known| known == *label)).for_each(|(_, name)| flags.add(name));
    }
}

fn letters(flags: &mut Flags, value: &[u8], known: &[(u8, Marks)]) {
    for (letter, mark) in known {
        if value.contains(letter) {
            flags.marks = flags.marks.union(*mark);
        }
    }
}

fn hexadecimal(value: &[u8]) -> u32 {
    std::str::from_utf8(value.trim_ascii()).ok().and_then(|text| u32::from_str_radix(text, 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_from_status_headers() {
        let check = |header: &str, names: &[&str]| {
            assert_eq!(flags_of(header.as_bytes()), names.iter().copied().collect(), "{header:?}");
        };
        check("Subject: a\n\nStatus: RO\n", &[]);
        check("Status: RO\nX-Status: AFDT\n\n", &["\\Seen", "\\Answered", "\\Flagged", "\\Deleted", "\\Draft"]);
        check("Status: O\r\nX-Status: \r\n\r\n", &[]);
        check("x-keywords: $Forwarded NonJunk\n  Later   \n\n", &["$Forwarded", "NonJunk", "Later"]);
        check("X-Mozilla-Status: 1003\nX-Mozilla-Status2: 00000000\n\n", &["\\Seen", "\\Answered", "$Forwarded"]);
        check("X-Mozilla-Status: 000d\nX-Mozilla-Keys: $label1 \n\n", &["\\Seen", "\\Flagged", "\\Deleted", "$label1"]);
        check("X-Mozilla-Status: 0000\nX-Mozilla-Status2: 0a200000\n\n", &["\\Deleted", "$Label5"]);
        check("X-Mozilla-Status: rubbish\n\n", &[]);
        check("X-Gmail-Labels: Inbox,Starred,Unread\n\n", &["\\Flagged"]);
        check("X-Gmail-Labels: =?UTF-8?Q?Archiviert,Starred?=\n\n", &["\\Seen", "\\Flagged"]);
    }

    #[test]
    fn invalid_keywords_are_omitted() {
        let mut flags = Flags::none();
        for name in ["good", "\\Seen", "\\Odd", "b(ad", "", "caf\u{e9}", "a b", &"x".repeat(129)] {
            add(&mut flags, name);
        }
        assert_eq!(flags, ["good", "\\Seen"].into_iter().collect());
        (0..200).for_each(|number| add(&mut flags, &format!("k{number}")));
        assert_eq!(flags.keywords.len(), KEYWORDS_PER_NOTE_MAX);
    }
}
