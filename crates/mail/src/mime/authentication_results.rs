//! `Authentication-Results` fields that claim to be of this server (RFC 8601 §5).
//!
//! Such a field begins with the authserv-id, the name of the server that made the checks. Mail programs and filters
//! believe the fields with the name of their own server. So this server removes them from messages of others before it
//! adds its own.
//!
//! The authserv-id is a token or a quoted string between comments. Programs read unusual forms differently:
//! `mx(x).test` is `mx` for some and `mx.test` for others, and comments nest for some and end at the first `)` for
//! others. It is therefore not enough to read the name as RFC 8601 does. A field is removed if any of these readings is
//! the name of this server, and also if its name is not ASCII and too complex to be compared.

use std::iter;
use std::str::Chars;

use directory::address::domain_to_ascii;
use directory::limits::DOMAIN_BYTES_MAX;

use crate::limits::AUTHSERV_ID_GAPS_MAX;
use crate::mime::message_header::{append_without, top_fields};

/// The full stops of internationalized domains (RFC 3490 §3.1).
const FULL_STOPS: [char; 4] = ['.', '\u{3002}', '\u{FF0E}', '\u{FF61}'];

/// Returns a message without the `Authentication-Results` fields that claim to be of the server with this name.
#[must_use]
pub fn without_forged(message: Vec<u8>, hostname: &str) -> Vec<u8> {
    let server = ServerName::new(hostname);
    let results = top_fields(&message).filter(|(_, field)| field.is("Authentication-Results"));
    let forged: Vec<_> =
        results.filter(|(_, field)| server.may_be_authserv_id(field.value)).map(|(range, _)| range).collect();
    if forged.is_empty() {
        return message;
    }
    let mut clean = Vec::with_capacity(message.len());
    append_without(&mut clean, &message, forged);
    clean
}

/// The name of this server.
struct ServerName<'a> {
    /// The name as configured, without a full stop at its end.
    written: &'a str,
    /// The ASCII form of the name if it is a domain.
    ascii: Option<String>,
}

impl<'a> ServerName<'a> {
    fn new(hostname: &'a str) -> Self {
        let written = hostname.trim_end_matches(FULL_STOPS);
        Self { written, ascii: domain_to_ascii(written).ok() }
    }

    /// Returns `true` if a program may take this name for the authserv-id of a field.
    fn may_be_authserv_id(&self, value: &[u8]) -> bool {
        let value = String::from_utf8_lossy(value);
        self.is_read_from(&value, CommentSyntax::Nested) || self.is_read_from(&value, CommentSyntax::Flat)
    }

    /// Returns `true` if a reading of the value begins with this name. The readings differ in whether a gap ends the
    /// name.
    fn is_read_from(&self, value: &str, comments: CommentSyntax) -> bool {
        let mut name = String::new();
        let mut compared_bytes = 0;
        let mut comparisons = 0_usize;
        for piece in Pieces::new(value, comments).chain(iter::once(Piece::End)) {
            if let Piece::Character(character) = piece {
                let is_too_long = name.len() >= DOMAIN_BYTES_MAX;
                if (is_too_long || comparisons >= AUTHSERV_ID_GAPS_MAX) && !name.is_ascii() {
                    return true;
                }
                if is_too_long {
                    return false;
                }
                name.push(character);
                continue;
            }
            if name.len() > compared_bytes {
                if self.is_written_as(&name) {
                    return true;
                }
                compared_bytes = name.len();
                comparisons += 1;
            }
            if piece == Piece::End && !name.is_empty() {
                return false;
            }
        }
        false
    }

    /// Returns `true` if a text is this name, in any case and in ASCII or Unicode.
    fn is_written_as(&self, text: &str) -> bool {
        let text = text.trim_end_matches(FULL_STOPS);
        if text.eq_ignore_ascii_case(self.written) {
            return true;
        }
        let Some(ascii) = &self.ascii else { return false };
        if text.is_ascii() {
            text.eq_ignore_ascii_case(ascii)
        } else {
            domain_to_ascii(text).is_ok_and(|text| text == *ascii)
        }
    }
}

/// The way in which a program finds the end of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommentSyntax {
    /// Comments nest, and a backslash quotes the next character (RFC 5322 §3.2.2).
    Nested,
    /// A comment ends at the first `)`.
    Flat,
}

/// A piece of a value, which may be part of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// A character of a name. Quotation marks and backslashes are removed.
    Character(char),
    /// White space, a comment, a quotation mark or an invalid character. It ends the name for some programs, and others
    /// omit it.
    Gap,
    /// A character that ends a name.
    End,
}

/// An iterator over the pieces of a value.
struct Pieces<'a> {
    rest: Chars<'a>,
    comments: CommentSyntax,
    /// Number of open comments.
    depth: usize,
    is_quoted: bool,
}

impl<'a> Pieces<'a> {
    fn new(value: &'a str, comments: CommentSyntax) -> Self {
        Self { rest: value.chars(), comments, depth: 0, is_quoted: false }
    }

    /// Skips a character of a comment.
    fn skip_in_comment(&mut self, character: char) {
        match (self.comments, character) {
            (CommentSyntax::Nested, '\\') => {
                self.rest.next();
            }
            (CommentSyntax::Nested, '(') => self.depth += 1,
            (_, ')') => self.depth -= 1,
            _ => {}
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let mut character = self.rest.next()?;
        while self.depth > 0 {
            self.skip_in_comment(character);
            character = self.rest.next()?;
        }
        match character {
            '\\' => self.rest.next().map(piece_of),
            '"' => {
                self.is_quoted = !self.is_quoted;
                Some(Piece::Gap)
            }
            '(' if !self.is_quoted => {
                self.depth = 1;
                Some(Piece::Gap)
            }
            other => Some(piece_of(other)),
        }
    }
}

fn piece_of(character: char) -> Piece {
    if character.is_whitespace() || character.is_control() || character == char::REPLACEMENT_CHARACTER {
        return Piece::Gap;
    }
    // Brackets and colons occur in address literals.
    let is_of_name = !character.is_ascii() || character.is_ascii_alphanumeric() || "-._[]:".contains(character);
    if is_of_name { Piece::Character(character) } else { Piece::End }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_hostname(hostname: &str, value: &str, is_forged: bool) {
        let field = format!("Authentication-Results:{value}\r\n");
        let message = format!("Received: x\r\n{field}To: y\r\n\r\n{field}");
        let expected = if is_forged { message.replacen(&field, "", 1) } else { message.clone() };
        let clean = without_forged(message.into_bytes(), hostname);
        assert_eq!(String::from_utf8_lossy(&clean), expected, "{hostname} {value:?}");
    }

    fn check(value: &str, is_forged: bool) {
        check_hostname("mx.acme.test", value, is_forged);
    }

    #[test]
    fn plain_and_quoted_names_are_found() {
        for value in [
            " mx.acme.test; dkim=pass",
            "MX.Acme.Test.;dkim=pass",
            "\r\n\tmx.acme.test 1; dkim=pass",
            " mx.acme.test/1; dkim=pass",
            " \"mx.acme.test\" 1;\r\n dkim=pass",
            " \"mx\\.acme\\.test\"; dkim=pass",
            " \" mx.acme.\r\n test \"; dkim=pass",
            " \"mx.acme.test 1\"; dkim=pass",
            " \"mx\".acme.\"test\"; dkim=pass",
            " \"mx.acme.test; dkim=pass",
            " mx.acme.test",
            " \"\"; mx.acme.test",
            " m\0x.acme.test; dkim=pass",
        ] {
            check(value, true);
        }
    }

    #[test]
    fn names_between_and_within_comments_are_found() {
        for value in [
            "(x)mx.acme.test(y); dkim=pass",
            " (a \\) (b)) \"mx.acme.test\" 1; dkim=pass",
            " mx(x).acme(y).test; dkim=pass",
            " mx(x).acme.test 1; dkim=pass",
            " mx . acme . test; dkim=pass",
            " (a (b) mx.acme.test; dkim=pass)",
            " (a \\) mx.acme.test; dkim=pass)",
        ] {
            check(value, true);
        }
    }

    #[test]
    fn other_names_are_kept() {
        for value in [
            " other.test; dkim=pass smtp.helo=mx.acme.test",
            " mx.acme.test.evil; dkim=pass",
            " a.mx.acme.test; dkim=pass",
            " (mx.acme.test) other.test; dkim=pass",
            " spf=pass (mx.acme.test)",
            " m\u{fc}.test 1; dkim=pass",
            " (mx.acme.test",
            "",
        ] {
            check(value, false);
        }
    }

    #[test]
    fn international_names_have_two_forms() {
        for hostname in ["mx.m\u{fc}ller.test", "mx.xn--mller-kva.test"] {
            check_hostname(hostname, " mx.m\u{fc}ller.test 1; dkim=pass", true);
            check_hostname(hostname, " \"MX.M\u{dc}LLER.test.\"; dkim=pass", true);
            check_hostname(hostname, " mx.xn--MLLER-kva.test; dkim=pass", true);
            check_hostname(hostname, " mx\u{3002}m\u{fc}(x)ller.test; dkim=pass", true);
            check_hostname(hostname, " mx.muller.test; dkim=pass", false);
        }
        check(" \u{ff4d}x.acme.test; dkim=pass", true);
        check(" mx.ac\u{ad}me.test; dkim=pass", true);
    }

    #[test]
    fn names_that_are_too_complex_are_removed() {
        check(&format!(" \u{fc}{}; dkim=pass", "(x)m".repeat(AUTHSERV_ID_GAPS_MAX + 1)), true);
        check(&format!(" mx.{}acme.test; dkim=pass", "\u{ad}".repeat(DOMAIN_BYTES_MAX)), true);
        check(&format!(" {}; dkim=pass", "m(x)".repeat(10_000)), false);
        check(&format!(" {} mx.acme.test; dkim=pass", "(x)".repeat(10_000)), true);
        check(&format!(" {}", "(".repeat(10_000)), false);
    }

    #[test]
    fn only_the_header_is_searched_and_stray_lines_do_not_end_it() {
        let check = |text: &str, expected: &str| {
            let clean = without_forged(text.as_bytes().to_vec(), "mx.acme.test");
            assert_eq!(String::from_utf8_lossy(&clean), expected, "{text:?}");
        };
        let forged = "Authentication-Results: mx.acme.test; dkim=pass\r\n";
        check(
            &format!("A: 1\r\nstray\r\n{forged}B: 2\r\n\r\n{forged}"),
            &format!("A: 1\r\nstray\r\nB: 2\r\n\r\n{forged}"),
        );
        check(&format!("A: 1\r\n--x:\r\n{forged}\r\n"), "A: 1\r\n--x:\r\n\r\n");
        check(&format!("{forged}\tmore\r\n{forged}{forged}"), "");
        let spaced = forged.replace(": ", " : ");
        check(&format!("A: 1\r\n{spaced}\r\n"), "A: 1\r\n\r\n");
        for other in ["X-Authentication-Results: mx.acme.test; x\r\n", "Authentication: mx.acme.test\r\n"] {
            check(other, other);
        }
    }
}
