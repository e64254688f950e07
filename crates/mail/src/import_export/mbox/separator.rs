//! The separator of an mbox file, the line before a message: `From ann@acme.test Sat Jan  3 01:05:34 1996`.
//!
//! The date may have a zone before or after the year, may lack the seconds, and may have the form of a Date field. A
//! line without a readable date is text: `From here on …` within a message is not a separator.
//!
//! Two properties of a message are not visible in its file: that its lines end with LF on the wire too, and that its
//! last line has no line end. They are noted after the date, as `remote from as-is`, `open` or `as-is.open`. UUCP put
//! the name of a host there, and programs that read mbox files ignore it.

use base::Timestamp;

use crate::limits::SEPARATOR_BYTES_MAX;
use crate::mime::date::HeaderDate;
use crate::mime::message_header::top_header;
use crate::mime::{address, header};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The separator of a message whose date cannot be written.
const WITHOUT_DATE: &str = "From MAILER-DAEMON Thu Jan  1 00:00:00 1970";

const NOTE: &str = " remote from ";

/// The words of the notes, by `as_is` and `open`.
const NOTES: [(&str, bool, bool); 3] = [("as-is", true, false), ("open", false, true), ("as-is.open", true, true)];

/// The information in a separator.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Separator {
    /// The line without its LF and without notes. A CR before the LF belongs to it. `None` if the line is not UTF-8.
    pub line: Option<String>,
    /// The date.
    pub received: Option<Timestamp>,
    /// `true` if the lines of the message have the same line ends on the wire as in the file.
    pub has_wire_line_ends: bool,
    /// `true` if the last line of the message has no line end. The line end in the file then belongs to the format.
    pub open: bool,
}

impl Separator {
    /// Creates the separator of a message that does not come from an mbox file.
    #[must_use]
    pub fn new(sender: &str, received: Timestamp) -> Self {
        let sender = if sender.is_empty() { "MAILER-DAEMON" } else { sender };
        let sender: String =
            sender.chars().map(|c| if c.is_whitespace() || c.is_control() { '-' } else { c }).collect();
        let mut line = format!("From {sender} {}", asctime(received));
        if line.len() > SEPARATOR_BYTES_MAX / 2 || !is_separator(line.as_bytes()) {
            line = WITHOUT_DATE.into();
        }
        Self { line: Some(line), received: Some(received), has_wire_line_ends: false, open: false }
    }

    /// Parses a line that begins with `From `.
    #[must_use]
    pub fn read(line: &[u8]) -> Self {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let Ok(text) = std::str::from_utf8(line) else {
            return Self { received: date_of(line), ..Self::default() };
        };
        let (text, end) = text.strip_suffix('\r').map_or((text, ""), |text| (text, "\r"));
        let noted = text.rsplit_once(NOTE);
        let note = noted.and_then(|(_, word)| NOTES.iter().find(|(known, ..)| *known == word));
        let plain = if note.is_some() { noted.map_or(text, |(plain, _)| plain) } else { text };
        let (as_is, open) = note.map_or((false, false), |(_, as_is, open)| (*as_is, *open));
        Self {
            line: Some(format!("{plain}{end}")),
            received: date_of(plain.as_bytes()),
            has_wire_line_ends: as_is,
            open,
        }
    }

    /// Returns the line with its notes and its line end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let line = self.line.as_deref().unwrap_or(WITHOUT_DATE);
        let (plain, end) = line.strip_suffix('\r').map_or((line, "\n"), |plain| (plain, "\r\n"));
        let note = NOTES.iter().find(|(_, as_is, open)| (*as_is, *open) == (self.has_wire_line_ends, self.open));
        note.map_or_else(|| format!("{plain}{end}"), |(word, ..)| format!("{plain}{NOTE}{word}{end}"))
    }
}

/// Returns `true` if a line is a separator: it begins with `From ` and has a date.
#[must_use]
pub fn is_separator(line: &[u8]) -> bool {
    line.starts_with(b"From ") && date_of(line).is_some()
}

/// Returns the address of a message's sender for a separator.
#[must_use]
pub fn sender_of(message: &[u8]) -> String {
    let top = top_header(message);
    let field = ["Return-Path", "From", "Sender"].into_iter().find_map(|name| header::first(top, name));
    let mailbox = field.and_then(|value| address::mailboxes(value).next());
    mailbox.map(|mailbox| mailbox.address()).unwrap_or_default()
}

/// Parses the date of a separator.
fn date_of(line: &[u8]) -> Option<Timestamp> {
    if line.len() > SEPARATOR_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(line);
    let words: Vec<&str> = text.split_ascii_whitespace().skip(1).map(|word| word.trim_end_matches(',')).collect();
    let starts = (0..words.len()).filter(|start| WEEKDAYS.contains(&words[*start]));
    starts.into_iter().find_map(|start| date_in(&words[start + 1..]))
}

/// Parses the text after the day of the week: `Jan 3 01:05:34 1996` or `3 Jan 1996 01:05:34`, with or without a zone.
fn date_in(words: &[&str]) -> Option<Timestamp> {
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let [first, second, third, rest @ ..] = words else { return None };
    let (day, month) = if is_number(first) { (first, second) } else { (second, first) };
    let year_and_time: Vec<&str> = std::iter::once(third).chain(rest.iter().take(4)).copied().collect();
    let year = year_and_time.iter().find(|word| word.len() == 4 && is_number(word))?;
    let time = year_and_time.iter().find(|word| word.contains(':') && word.as_bytes()[0].is_ascii_digit())?;
    let is_zone = |word: &&&str| word.len() == 5 && word.starts_with(['+', '-']) && is_number(&word[1..]);
    let zone = year_and_time.iter().find(is_zone).unwrap_or(&"+0000");
    HeaderDate::parse(format!("{day} {month} {year} {time} {zone}").as_bytes()).map(|date| date.timestamp)
}

/// Formats a time as `Thu Jan  1 00:00:00 1970`.
fn asctime(time: Timestamp) -> String {
    time.to_utc().strftime("%a %b %e %H:%M:%S %Y").to_string()
}
