//! Comparison of this program's reader of headers with that of the library that signs and verifies messages.

use base::line_ends::without_line_end;
use mail::mime::message_header::{find_fault, top_fields};
use mail::mime::structure::header_end;
use mail_auth::AuthenticatedMessage;
use proptest::prelude::*;

/// The lines of which headers consist, and lines that programs interpret differently.
const LINES: &[&str] = &[
    "From: a@b.test\r\n",
    "To : c@d.test\r\n",
    "Subject:\r\n",
    "X-Y: z\n",
    "X-Z: y\r\r\n",
    "Content-Type: multipart/mixed; boundary=\"a:b\"\r\n",
    " folded\r\n",
    "\tfolded: x\r\n",
    " \r\n",
    "stray\r\n",
    "two words: x\r\n",
    "F r o m: x@y.test\r\n",
    ": no name\r\n",
    "--x: y\r\n",
    "--a:b\r\n",
    "\r\n",
    "\n",
    "\r\r\n",
];

/// The ends of the messages.
const ENDS: &[&str] = &["\r\n", "\r\ntext\r\n", "text\r\n"];

proptest! {
    #[test]
    fn library_sees_the_same_fields_in_a_header_without_a_fault(
        lines in prop::collection::vec(prop::sample::select(LINES), 0..8),
        end in prop::sample::select(ENDS),
    ) {
        let message = lines.concat() + end;
        let message = message.as_bytes();
        if find_fault(message).is_none() {
            let ours: Vec<_> = top_fields(message).map(|(_, field)| (field.name, field.value)).collect();
            let parsed = AuthenticatedMessage::parse(message).unwrap_or_default();
            let theirs = parsed.headers.iter();
            let theirs: Vec<_> =
                theirs.map(|(name, value)| (name.trim_ascii_end(), without_line_end(value))).collect();
            prop_assert_eq!(&ours, &theirs);
            prop_assert!(ours.is_empty() || parsed.body_offset() == header_end(message));
        }
    }
}
