//! Parser of complete commands: tag, verb, arguments, end. One file per family of verbs.
//!
//! The parser descends recursively over bytes. Only search keys recurse, and their depth is counted.

pub mod access;
pub mod mailbox;
pub mod message;
pub mod notify;
pub mod search;

use super::command::{Command, Numbering};
use super::decoder::{DecodeResult, Frame, RefusedCommand, SyntaxMode};
use super::error::SyntaxError;
use super::scanner::{Parsed, Scanner};
use super::verb::{self, Verb};
use super::writer::is_atom_byte;
use crate::limits;

/// Parses a complete command.
pub fn command(mut frame: Frame, mode: SyntaxMode) -> DecodeResult {
    let tag = tag_of(&frame.text);
    let parsed = parse(&mut Scanner::new(&mut frame, mode));
    match (parsed, tag) {
        (Ok((verb, command)), _) => DecodeResult::Command(verb, command),
        (Err(error), tag) => {
            DecodeResult::Refused(RefusedCommand { tag, error, requested_save: requests_save(&frame.text) })
        }
    }
}

/// Returns the tag at the front of a command, regardless of the rest of the command.
pub fn tag_of(text: &[u8]) -> Option<String> {
    let length = text.iter().position(|byte| !is_tag_byte(*byte)).unwrap_or(text.len());
    let well_formed = (1..=limits::TAG_BYTES_MAX).contains(&length);
    let tag = text.get(..length).filter(|_| well_formed)?;
    std::str::from_utf8(tag).ok().map(str::to_owned)
}

/// Returns `true` if the command that begins with this text carries messages in its literals.
pub fn carries_messages(text: &[u8]) -> bool {
    let mut words = text.split(|byte| *byte == b' ').skip(1);
    let mut word = words.next().unwrap_or_default();
    if word.eq_ignore_ascii_case(b"UID") {
        word = words.next().unwrap_or_default();
    }
    word.eq_ignore_ascii_case(b"APPEND") || word.eq_ignore_ascii_case(b"REPLACE")
}

/// Returns `true` if the command that begins with this text is a search whose result is to be saved (RFC 5182), whether
/// or not it is well-formed.
pub fn requests_save(text: &[u8]) -> bool {
    let mut words = text.split(|byte| *byte == b' ').skip(1);
    let mut word = words.next().unwrap_or_default();
    if word.eq_ignore_ascii_case(b"UID") {
        word = words.next().unwrap_or_default();
    }
    let searches = word.eq_ignore_ascii_case(b"SEARCH") || word.eq_ignore_ascii_case(b"SORT");
    if !searches || !words.next().unwrap_or_default().eq_ignore_ascii_case(b"RETURN") {
        return false;
    }
    for word in words {
        let ends = word.ends_with(b")");
        let option = word.strip_prefix(b"(").unwrap_or(word);
        if option.strip_suffix(b")").unwrap_or(option).eq_ignore_ascii_case(b"SAVE") {
            return true;
        }
        if ends {
            return false;
        }
    }
    false
}

fn parse(scanner: &mut Scanner<'_>) -> Parsed<(&'static Verb, Command)> {
    let tag = scanner.bytes_while(is_tag_byte);
    let tag = match std::str::from_utf8(tag) {
        Ok(tag) if (1..=limits::TAG_BYTES_MAX).contains(&tag.len()) => tag.to_owned(),
        _ => return Err(SyntaxError::NoTag),
    };
    scanner.expect(b' ', "a space after the tag")?;
    let (verb, numbering) = verb_of(scanner)?;
    let body = (verb.parse)(scanner, numbering)?;
    scanner.end()?;
    Ok((verb, Command { tag, body }))
}

fn verb_of(scanner: &mut Scanner<'_>) -> Parsed<(&'static Verb, Numbering)> {
    let mut name = scanner.word();
    let mut numbering = Numbering::Sequence;
    if name.eq_ignore_ascii_case(b"UID") {
        scanner.space()?;
        name = scanner.word();
        numbering = Numbering::Uid;
    }
    let verb = verb::find(name, numbering).ok_or(SyntaxError::UnknownCommand)?;
    Ok((verb, numbering))
}

fn is_tag_byte(byte: u8) -> bool {
    (is_atom_byte(byte) || byte == b']') && byte != b'+'
}
