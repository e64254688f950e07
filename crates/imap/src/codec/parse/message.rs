//! Arguments of the verbs that concern messages: APPEND, REPLACE, FETCH, STORE, COPY, MOVE, EXPUNGE.

use base::time::days_since_epoch;

use crate::codec::command::{
    AppendMessage, CommandBody, Date, FetchAttribute, FetchCommand, Numbering, PartPath, Partial, ReplaceCommand,
    RequestedFlags, SectionSpec, SectionText, StoreAction, StoreCommand, TransferCommand,
};
use crate::codec::error::SyntaxError;
use crate::codec::scanner::{Parsed, Scanner};
use crate::codec::writer::MONTHS;
use crate::limits;

/// Parses `APPEND mailbox message ...`.
pub fn append(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let mailbox = scanner.mailbox()?;
    let mut messages = Vec::with_capacity(1);
    while messages.is_empty() || !scanner.is_at_end() {
        if messages.len() >= limits::APPEND_MESSAGES_MAX {
            return Err(SyntaxError::Limit("messages"));
        }
        scanner.space()?;
        messages.push(append_message(scanner)?);
    }
    Ok(CommandBody::Append { mailbox, messages })
}

/// Parses `[(flags)] [date-time] literal`.
fn append_message(scanner: &mut Scanner<'_>) -> Parsed<AppendMessage> {
    let mut flags = RequestedFlags::default();
    if scanner.peek() == Some(b'(') {
        flags = scanner.flag_list()?;
        scanner.space()?;
    }
    let mut received_seconds = None;
    if scanner.peek() == Some(b'"') {
        received_seconds = Some(date_time(scanner)?);
        scanner.space()?;
    }
    let raw = if scanner.take_word("UTF8") {
        scanner.space()?;
        scanner.expect(b'(', "a literal in parentheses")?;
        let raw = scanner.literal_owned()?;
        scanner.expect(b')', "a closing parenthesis")?;
        raw
    } else {
        scanner.literal_owned()?
    };
    Ok(AppendMessage { flags, received_seconds, raw })
}

/// Parses `"dd-Mon-yyyy hh:mm:ss +zzzz"`. A single-digit day has a space or a zero before it.
fn date_time(scanner: &mut Scanner<'_>) -> Parsed<i64> {
    const WHAT: SyntaxError = SyntaxError::Expected("a date and time");
    let text = scanner.string()?;
    let text = std::str::from_utf8(&text).map_err(|_| WHAT)?.trim_start();
    let mut words = text.split(' ');
    let (Some(day), Some(time), Some(zone), None) = (words.next(), words.next(), words.next(), words.next()) else {
        return Err(WHAT);
    };
    let date = date_of(day).ok_or(WHAT)?;
    let seconds = seconds_of_day(time).ok_or(WHAT)?;
    let zone = zone_seconds(zone).ok_or(WHAT)?;
    Ok(days_since_epoch(date) * 86_400 + seconds - zone)
}

/// Parses `dd-Mon-yyyy`.
pub fn date_of(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let day = parts.next()?;
    let month = parts.next()?;
    let year = parts.next()?;
    if parts.next().is_some() || day.len() > 2 || year.len() != 4 || !all_digits(day) || !all_digits(year) {
        return None;
    }
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))?;
    let date = Date::new(year.parse().ok()?, i8::try_from(month + 1).ok()?, day.parse().ok()?).ok()?;
    (date.year() > 0).then_some(date)
}

fn seconds_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let mut next = |max: i64| {
        let part = parts.next().filter(|part| part.len() == 2 && all_digits(part))?;
        part.parse::<i64>().ok().filter(|number| *number <= max)
    };
    let seconds = next(23)? * 3_600 + next(59)? * 60 + next(60)?;
    parts.next().is_none().then_some(seconds)
}

fn zone_seconds(text: &str) -> Option<i64> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number = Some(digits).filter(|digits| digits.len() == 4 && all_digits(digits))?.parse::<i64>().ok()?;
    Some(sign * (number / 100 * 3_600 + number % 100 * 60))
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses `REPLACE message mailbox new-message`.
pub fn replace(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let target = scanner.bound()?;
    scanner.space()?;
    let mailbox = scanner.mailbox()?;
    scanner.space()?;
    let message = append_message(scanner)?;
    Ok(CommandBody::Replace(ReplaceCommand { numbering, target, mailbox, message }))
}

/// Parses `FETCH set attributes [(modifiers)]`.
pub fn fetch(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let set = scanner.message_set()?;
    scanner.space()?;
    let attributes = if scanner.peek() == Some(b'(') {
        // The grammar has no macro within parentheses, but some clients send it.
        scanner.list(limits::FETCH_ATTRIBUTES_MAX, "attributes", macro_or_attribute)?.concat()
    } else {
        macro_or_attribute(scanner)?
    };
    if attributes.is_empty() {
        return Err(SyntaxError::Expected("an attribute"));
    }
    let mut fetch = FetchCommand { numbering, set, attributes, changed_since: None, vanished: false };
    if !scanner.is_at_end() {
        scanner.space()?;
        scanner.list(limits::LIST_ITEMS_MAX, "modifiers", |scanner| fetch_modifier(scanner, &mut fetch))?;
        if fetch.vanished && (fetch.changed_since.is_none() || numbering == Numbering::Sequence) {
            return Err(SyntaxError::Expected("UID FETCH with CHANGEDSINCE around VANISHED"));
        }
    }
    Ok(CommandBody::Fetch(fetch))
}

fn fetch_modifier(scanner: &mut Scanner<'_>, fetch: &mut FetchCommand) -> Parsed<()> {
    if scanner.take_word("VANISHED") {
        fetch.vanished = true;
    } else if scanner.take_word("CHANGEDSINCE") {
        scanner.space()?;
        fetch.changed_since = Some(scanner.number64()?);
    } else {
        return Err(SyntaxError::Expected("CHANGEDSINCE or VANISHED"));
    }
    Ok(())
}

fn macro_or_attribute(scanner: &mut Scanner<'_>) -> Parsed<Vec<FetchAttribute>> {
    use FetchAttribute::{Body, Envelope, Flags, InternalDate, Rfc822Size};
    Ok(if scanner.take_word("ALL") {
        vec![Flags, InternalDate, Rfc822Size, Envelope]
    } else if scanner.take_word("FAST") {
        vec![Flags, InternalDate, Rfc822Size]
    } else if scanner.take_word("FULL") {
        vec![Flags, InternalDate, Rfc822Size, Envelope, Body]
    } else {
        vec![fetch_attribute(scanner)?]
    })
}

/// Parses an attribute of FETCH.
pub fn fetch_attribute(scanner: &mut Scanner<'_>) -> Parsed<FetchAttribute> {
    let name = scanner.word().to_ascii_uppercase();
    Ok(match name.as_slice() {
        b"FLAGS" => FetchAttribute::Flags,
        b"UID" => FetchAttribute::Uid,
        b"ENVELOPE" => FetchAttribute::Envelope,
        b"INTERNALDATE" => FetchAttribute::InternalDate,
        b"RFC822.SIZE" => FetchAttribute::Rfc822Size,
        b"BODYSTRUCTURE" => FetchAttribute::BodyStructure,
        b"BODY" if scanner.peek() != Some(b'[') => FetchAttribute::Body,
        b"BODY" => body_section(scanner, false)?,
        b"BODY.PEEK" => body_section(scanner, true)?,
        b"MODSEQ" => FetchAttribute::ModSeq,
        b"EMAILID" => FetchAttribute::EmailId,
        b"THREADID" => FetchAttribute::ThreadId,
        b"SAVEDATE" => FetchAttribute::SaveDate,
        b"PREVIEW" => preview(scanner)?,
        b"BINARY" => binary(scanner, false)?,
        b"BINARY.PEEK" => binary(scanner, true)?,
        b"BINARY.SIZE" => FetchAttribute::BinarySize(bracketed_part(scanner)?),
        b"RFC822" => FetchAttribute::Rfc822,
        b"RFC822.HEADER" => FetchAttribute::Rfc822Header,
        b"RFC822.TEXT" => FetchAttribute::Rfc822Text,
        _ => return Err(SyntaxError::Expected("an attribute")),
    })
}

fn preview(scanner: &mut Scanner<'_>) -> Parsed<FetchAttribute> {
    let mut ahead = scanner.checkpoint();
    let mut lazy = false;
    if scanner.take(b' ') && scanner.take(b'(') {
        if !scanner.take_word("LAZY") {
            return Err(SyntaxError::Expected("LAZY"));
        }
        scanner.expect(b')', "a closing parenthesis")?;
        lazy = true;
        ahead = scanner.checkpoint();
    }
    scanner.go_back(ahead);
    Ok(FetchAttribute::Preview { lazy })
}

fn body_section(scanner: &mut Scanner<'_>, peek: bool) -> Parsed<FetchAttribute> {
    scanner.expect(b'[', "a section in brackets")?;
    let section = section(scanner)?;
    scanner.expect(b']', "a closing bracket")?;
    Ok(FetchAttribute::BodySection { section, partial: partial(scanner)?, peek })
}

fn binary(scanner: &mut Scanner<'_>, peek: bool) -> Parsed<FetchAttribute> {
    let part = bracketed_part(scanner)?;
    Ok(FetchAttribute::Binary { part, partial: partial(scanner)?, peek })
}

fn bracketed_part(scanner: &mut Scanner<'_>) -> Parsed<PartPath> {
    scanner.expect(b'[', "a part number in brackets")?;
    let (part, text_follows) = part_path(scanner)?;
    if text_follows {
        return Err(SyntaxError::Expected("a part number"));
    }
    scanner.expect(b']', "a closing bracket")?;
    Ok(part)
}

fn section(scanner: &mut Scanner<'_>) -> Parsed<SectionSpec> {
    let (part, text_follows) = part_path(scanner)?;
    if scanner.peek() == Some(b']') && !text_follows {
        return Ok(SectionSpec { part, text: SectionText::Whole });
    }
    let text = match scanner.word().to_ascii_uppercase().as_slice() {
        b"HEADER" => SectionText::Header,
        b"HEADER.FIELDS" => SectionText::HeaderFields(header_names(scanner)?),
        b"HEADER.FIELDS.NOT" => SectionText::HeaderFieldsNot(header_names(scanner)?),
        b"TEXT" => SectionText::Text,
        b"MIME" if text_follows => SectionText::Mime,
        _ => return Err(SyntaxError::Expected("a section")),
    };
    Ok(SectionSpec { part, text })
}

/// Parses `1.2.3`. The flag is `true` if the path ends with a dot, which must be followed by a section text.
fn part_path(scanner: &mut Scanner<'_>) -> Parsed<(PartPath, bool)> {
    let mut part = Vec::new();
    let mut dot_follows = false;
    while scanner.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        if part.len() >= limits::PART_DEPTH_MAX {
            return Err(SyntaxError::Limit("levels of a part number"));
        }
        part.push(scanner.number_not_zero()?);
        dot_follows = scanner.take(b'.');
        if !dot_follows {
            break;
        }
    }
    Ok((PartPath(part), dot_follows))
}

fn header_names(scanner: &mut Scanner<'_>) -> Parsed<Vec<String>> {
    scanner.space()?;
    let names = scanner.list(limits::HEADER_FIELDS_MAX, "header names", Scanner::astring_text)?;
    if names.is_empty() { Err(SyntaxError::Expected("a header name")) } else { Ok(names) }
}

fn partial(scanner: &mut Scanner<'_>) -> Parsed<Option<Partial>> {
    if !scanner.take(b'<') {
        return Ok(None);
    }
    let start = scanner.number64()?;
    scanner.expect(b'.', "a length")?;
    let length = scanner.number64()?;
    scanner.expect(b'>', "a closing angle bracket")?;
    if length == 0 {
        return Err(SyntaxError::Expected("a length greater than zero"));
    }
    Ok(Some(Partial { start, length }))
}

/// Parses `STORE set [(UNCHANGEDSINCE n)] [+|-]FLAGS[.SILENT] flags`.
pub fn store(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let set = scanner.message_set()?;
    scanner.space()?;
    let mut unchanged_since = None;
    if scanner.peek() == Some(b'(') {
        scanner.list(1, "modifiers", |scanner| {
            if !scanner.take_word("UNCHANGEDSINCE") {
                return Err(SyntaxError::Expected("UNCHANGEDSINCE"));
            }
            scanner.space()?;
            unchanged_since = Some(scanner.number64()?);
            Ok(())
        })?;
        scanner.space()?;
    }
    let action = if scanner.take(b'+') {
        StoreAction::Add
    } else if scanner.take(b'-') {
        StoreAction::Remove
    } else {
        StoreAction::Replace
    };
    let silent = match scanner.word().to_ascii_uppercase().as_slice() {
        b"FLAGS" => false,
        b"FLAGS.SILENT" => true,
        _ => return Err(SyntaxError::Expected("FLAGS")),
    };
    scanner.space()?;
    let flags = if scanner.peek() == Some(b'(') { scanner.flag_list()? } else { scanner.bare_flags()? };
    Ok(CommandBody::Store(StoreCommand { numbering, set, action, silent, flags, unchanged_since }))
}

/// Parses `COPY set mailbox`.
pub fn copy(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    transfer(scanner, numbering).map(CommandBody::Copy)
}

/// Parses `MOVE set mailbox`.
pub fn move_(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    transfer(scanner, numbering).map(CommandBody::Move)
}

fn transfer(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<TransferCommand> {
    scanner.space()?;
    let set = scanner.message_set()?;
    scanner.space()?;
    Ok(TransferCommand { numbering, set, mailbox: scanner.mailbox()? })
}

/// Parses `EXPUNGE`, or `UID EXPUNGE set`.
pub fn expunge(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    if numbering == Numbering::Sequence {
        return Ok(CommandBody::Expunge(None));
    }
    scanner.space()?;
    Ok(CommandBody::Expunge(Some(scanner.message_set()?)))
}
