//! Comparison of the reader of headers with two simple ones, over generated messages.
//!
//! The readers of programs lie between two extremes. A *strict* reader ends the header at the first line that is
//! neither a field nor the continuation of one. A *lenient* reader ends it only at a blank line, and takes every line
//! with a colon for a field. Fields that the strict reader sees must be found, and no others than those of the lenient
//! reader. In a header without a fault all three see the same fields.

use proptest::prelude::*;

use crate::mime::check_arbitrary_bytes;
use crate::mime::message_header::{find_fault, top_fields};

const LINES: &[&str] = &[
    "From: a@b.test\r\n",
    "From : c@d.test\n",
    "Bcc:\r\n",
    "X-Y: z\r\r\n",
    "Authentication-Results: mx.test; dkim=pass\r\n",
    "Content-Type: multipart/mixed; boundary=b\r\n",
    "Content-Type: multipart/mixed; boundary=\"a:b\"\r\n",
    " folded\r\n",
    "\tfolded: x\n",
    " \r\n",
    "stray\r\n",
    "two words: x\r\n",
    ": no name\n",
    "\u{e4}: x\r\n",
    "--x: y\r\n",
    "--a:b\r\n",
    "--b\r\n",
    "\r\n",
    "\n",
    "\r\r\n",
    "\r",
];

/// A field: its name and its lines.
type Field<'a> = (&'a str, &'a str);

/// Returns the lines up to the first blank one, together with their continuations.
fn folded_lines(message: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut end = 0;
    for line in message.split_inclusive('\n') {
        let is_blank = line.trim_matches(['\r', '\n']).is_empty();
        if end > start && (is_blank || !line.starts_with([' ', '\t'])) {
            found.push(&message[start..end]);
            start = end;
        }
        if is_blank {
            return found;
        }
        end += line.len();
    }
    found.extend((end > start).then_some(&message[start..end]));
    found
}

/// Returns a line with its continuations as a field, if its name is valid.
fn to_field(lines: &str) -> Option<Field<'_>> {
    let (name, _) = lines.split_once(':')?;
    let name = name.trim_end_matches([' ', '\t']);
    let is_valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_valid.then_some((name, lines))
}

/// Returns the fields that a strict reader sees. It takes a line that begins with `--` for a boundary.
fn strict_fields(message: &str) -> Vec<Field<'_>> {
    let fields = folded_lines(message).into_iter().map_while(to_field);
    fields.take_while(|(name, _)| !name.starts_with("--")).collect()
}

/// Returns the fields that a lenient reader sees.
fn lenient_fields(message: &str) -> Vec<Field<'_>> {
    let lines = folded_lines(message).into_iter();
    lines.filter_map(|lines| Some((lines.split_once(':')?.0.trim_end_matches([' ', '\t']), lines))).collect()
}

proptest! {
    #[test]
    fn all_readers_see_the_fields_of_a_header(
        lines in prop::collection::vec(prop::sample::select(LINES), 0..8),
    ) {
        let message = lines.concat();
        check_arbitrary_bytes(message.as_bytes());
        let found: Vec<Field<'_>> = top_fields(message.as_bytes())
            .map(|(range, field)| (std::str::from_utf8(field.name).expect("a name is ASCII"), &message[range]))
            .collect();
        let strict = strict_fields(&message);
        let lenient = lenient_fields(&message);
        prop_assert!(found.starts_with(&strict), "{found:?} {strict:?}");
        prop_assert!(found.iter().all(|field| lenient.contains(field)), "{found:?} {lenient:?}");
        if find_fault(message.as_bytes()).is_none() {
            prop_assert_eq!(&found, &strict);
            prop_assert_eq!(&found, &lenient);
        }
    }
}
