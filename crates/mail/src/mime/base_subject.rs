//! The base subject (RFC 5256 §2.1): a subject without `Re:`, `Fwd:`, `[list]` and the like.
//!
//! Steps 3 and 4 of the RFC are applied to all consecutive blobs at once, so that time is linear.

use crate::casemap::fold;
use crate::limits::SUBJECT_BYTES_MAX;
use crate::mime::header;
use base::ascii_case::{strip_prefix, strip_suffix};

/// A subject reduced to the part that replies have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BaseSubject {
    /// The base subject, folded for comparison.
    pub text: String,
    /// `true` if the subject marked the message as a reply or as forwarded.
    pub is_reply: bool,
}

impl BaseSubject {
    /// Reduces the folded value of a Subject field. `None` is treated as an empty subject.
    #[must_use]
    pub fn extract(value: Option<&[u8]>) -> Self {
        value.map_or_else(Self::default, |value| Self::of_text(&header::decode_value(value)))
    }

    /// Reduces a subject whose encoded words are decoded.
    #[must_use]
    pub fn of_text(subject: &str) -> Self {
        let words: Vec<&str> = subject.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()).collect();
        let mut text = words.join(" ");
        text.truncate(text.floor_char_boundary(SUBJECT_BYTES_MAX));
        let (base, is_reply) = reduce(&text);
        Self { text: fold(base), is_reply }
    }
}

/// Returns the base of a subject whose words are separated by single blanks. The flag is `true` if a marker of a reply
/// was removed.
fn reduce(subject: &str) -> (&str, bool) {
    let mut text = subject;
    let mut is_reply = false;
    loop {
        while let Some(rest) = without_trailer(text, &mut is_reply) {
            text = rest;
        }
        text = without_leaders(text, &mut is_reply);
        let inside = strip_prefix(text, "[fwd:").and_then(|inside| inside.strip_suffix(']'));
        match inside {
            Some(inside) => {
                is_reply = true;
                text = inside;
            }
            None => return (text, is_reply),
        }
    }
}

/// Removes a trailing `(fwd)` or blank.
fn without_trailer<'a>(text: &'a str, is_reply: &mut bool) -> Option<&'a str> {
    if let Some(rest) = text.strip_suffix(' ') {
        return Some(rest);
    }
    let rest = strip_suffix(text, "(fwd)")?;
    *is_reply = true;
    Some(rest)
}

/// Removes all leading markers that replies and mailing lists add.
fn without_leaders<'a>(subject: &'a str, is_reply: &mut bool) -> &'a str {
    let mut text = subject;
    loop {
        text = text.trim_start_matches(' ');
        let after_blobs = without_blobs(text);
        if let Some(rest) = without_reply(after_blobs) {
            *is_reply = true;
            text = rest;
            continue;
        }
        // No reply marker follows the blobs, so they are removed as long as some text remains.
        let mut rest = text;
        while let Some(next) = without_blob(rest).filter(|next| !next.is_empty()) {
            rest = next;
        }
        if rest.len() == text.len() {
            return text;
        }
        text = rest;
    }
}

/// Removes a leading `re`, `fw` or `fwd`, an optional blob, and a colon.
fn without_reply(text: &str) -> Option<&str> {
    let rest = strip_prefix(text, "re").or_else(|| strip_prefix(text, "fwd")).or_else(|| strip_prefix(text, "fw"))?;
    let rest = rest.trim_start_matches(' ');
    without_blob(rest).unwrap_or(rest).strip_prefix(':')
}

fn without_blobs(mut text: &str) -> &str {
    while let Some(rest) = without_blob(text) {
        text = rest;
    }
    text
}

/// Removes a leading `[...]` and the blanks after it.
fn without_blob(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('[')?;
    let end = inside.find(['[', ']'])?;
    Some(inside[end..].strip_prefix(']')?.trim_start_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str, base: &str, is_reply: bool) {
        let found = BaseSubject::extract(Some(subject.as_bytes()));
        assert_eq!((found.text.as_str(), found.is_reply), (fold(base).as_str(), is_reply), "{subject}");
    }

    #[test]
    fn leaders_and_trailers_are_removed() {
        check("Re: hello", "hello", true);
        check("RE : Fwd: fw: FW:hello", "hello", true);
        check("Re[2]: hello", "hello", true);
        check("Re [list] : hello", "hello", true);
        check("[list] Re: [list] hello", "hello", true);
        check("[one] [two] hello", "hello", false);
        check("hello (fwd) (FWD)  ", "hello", true);
        check("[Fwd: Re: hello]", "hello", true);
        check("[fwd: [fwd: hello (fwd)]]", "hello", true);
        check("  hello   \t world ", "hello world", false);
        check("=?utf-8?q?Re=3A_caf=C3=A9?=", "caf\u{e9}", true);
    }

    #[test]
    fn text_that_is_no_leader_is_kept() {
        check("Regarding: hello", "Regarding: hello", false);
        check("hello Re: you", "hello Re: you", false);
        check("[list]", "[list]", false);
        check("[one] [two]", "[two]", false);
        check("Re: [list]", "[list]", true);
        check("[nested [blob]] hello", "[nested [blob]] hello", false);
        check("[open hello", "[open hello", false);
        check("Re: ", "", true);
        check("Re", "Re", false);
        check("(fwd)", "", true);
        check("", "", false);
        check("[fwd: hello", "[fwd: hello", false);
        check("AW: hallo", "AW: hallo", false);
    }

    #[test]
    fn missing_field_is_an_empty_subject() {
        assert_eq!(BaseSubject::extract(None), BaseSubject::default());
    }

    #[test]
    fn hostile_subjects_are_bounded() {
        for subject in ["[]".repeat(1 << 20), "re:".repeat(1 << 20), "[fwd:".repeat(1 << 20), "[a] re ".repeat(1 << 20)]
        {
            assert!(BaseSubject::extract(Some(subject.as_bytes())).text.len() <= SUBJECT_BYTES_MAX);
        }
    }
}
