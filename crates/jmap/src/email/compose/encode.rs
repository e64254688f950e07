//! The encoding of header fields of a composed message.
//!
//! Everything is ASCII except addresses and raw values that a client gives in UTF-8. Text beyond ASCII becomes encoded
//! words (RFC 2047) that end with a whole character and are surrounded by white space; parameters are encoded as RFC
//! 2231 says. A text that could be mistaken for an encoded word is encoded as well, so that it is read as it was
//! written. Lines are folded before 76 characters where possible, never within a word, and no line is blank.
//!
//! The headers of `mail-builder` are not used: it puts encoded words into quoted strings and parameters, where RFC 2047
//! forbids them, and does not split them.

use std::fmt::Write as _;

use mail_builder::encoders::base64::base64_encode;

use crate::email::header_form::{is_atom_character, quoted};
use crate::email::limits::UNFOLDABLE_BYTES_MAX;

/// Length that lines are folded to.
const LINE_LENGTH: usize = 76;

/// Maximum number of bytes of an encoded word's content. The word then fits on the line of a usual field's name.
const WORD_CONTENT_BYTES: usize = 36;

/// Maximum length of the content of an encoded word in the "Q" encoding.
const Q_LENGTH_MAX: usize = 48;

/// Maximum length of a quoted string. Longer phrases are encoded words, which can be folded.
const QUOTED_BYTES_MAX: usize = 200;

/// Maximum length of a parameter value in one piece.
const PARAMETER_BYTES_MAX: usize = 48;

/// A header field that is folded while it is written.
pub(super) struct FieldWriter {
    text: String,
    column: usize,
    is_empty: bool,
}

impl FieldWriter {
    /// Begins a field.
    pub(super) fn new(name: &str) -> Self {
        Self { text: format!("{name}:"), column: name.len() + 1, is_empty: true }
    }

    /// Writes a word after a space, or on a new line. The first word stays on the line of the name,
    /// unless it is very long.
    pub(super) fn word(&mut self, word: &str) {
        self.word_after(" ", word);
    }

    /// Writes a word after white space that is kept.
    fn word_after(&mut self, gap: &str, word: &str) {
        let length_max = if self.is_empty { UNFOLDABLE_BYTES_MAX } else { LINE_LENGTH };
        if self.column + gap.len() + word.len() > length_max {
            self.text.push_str("\r\n");
            self.column = 0;
        }
        self.text.push_str(gap);
        self.text.push_str(word);
        self.column += gap.len() + word.len();
        self.is_empty = false;
    }

    /// Writes text directly after the last word.
    pub(super) fn append(&mut self, text: &str) {
        self.text.push_str(text);
        self.column += text.len();
    }

    /// Ends the field. Returns its lines.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("\r\n");
        self.text
    }
}

/// Returns a field with unstructured text. Control characters are dropped.
pub(super) fn text_field(name: &str, text: &str) -> String {
    let mut field = FieldWriter::new(name);
    let text = without_controls(text);
    if needs_encoding(&text) || text.split(' ').any(|word| word.len() > UNFOLDABLE_BYTES_MAX) {
        encoded_words(&text).iter().for_each(|word| field.word(word));
        return field.finish();
    }
    let mut rest = &text[..];
    let mut is_first = true;
    while !rest.is_empty() {
        let gap_length = rest.find(|character| !is_blank(character)).unwrap_or(rest.len());
        let (gap, after) = rest.split_at(gap_length);
        let word_length = after.find(is_blank).unwrap_or(after.len());
        let (word, after) = after.split_at(word_length);
        field.word_after(if is_first { " " } else { gap }, word);
        is_first = false;
        rest = after;
    }
    field.finish()
}

/// Returns a text without control characters, except for tabs.
pub(super) fn without_controls(text: &str) -> String {
    text.chars().filter(|character| *character == '\t' || !character.is_control()).collect()
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t')
}

/// Returns `true` if unstructured text cannot stand in a field as it is.
fn needs_encoding(text: &str) -> bool {
    !text.is_ascii()
        || text.contains("=?")
        || text.starts_with(is_blank)
        || text.ends_with(is_blank)
        // A line of the folded field must not consist of white space.
        || text.split(|character| !is_blank(character)).any(|gap| gap.len() > LINE_LENGTH)
}

/// Writes a phrase: the name of a mailbox or a group. Control characters are dropped. Returns `true` if its last word
/// is an encoded word, which white space must follow.
pub(super) fn write_phrase(field: &mut FieldWriter, phrase: &str) -> bool {
    let phrase = without_controls(phrase);
    let phrase = phrase.trim();
    let is_plain = phrase.is_ascii() && !phrase.contains("=?");
    let is_atom = |word: &str| !word.is_empty() && word.chars().all(is_atom_character);
    if is_plain && phrase.split(' ').all(|word| is_atom(word) && word.len() <= QUOTED_BYTES_MAX) {
        phrase.split(' ').for_each(|word| field.word(word));
        false
    } else if is_plain && phrase.len() <= QUOTED_BYTES_MAX {
        field.word(&quoted(phrase));
        false
    } else {
        encoded_words(phrase).iter().for_each(|word| field.word(word));
        true
    }
}

/// Returns a text as encoded words, in the encoding that is shorter.
fn encoded_words(text: &str) -> Vec<String> {
    let is_q = |character: char| character.is_ascii_alphanumeric() || "!*+-/ ".contains(character);
    let others = text.chars().filter(|character| !is_q(*character)).map(char::len_utf8).sum::<usize>();
    let q_length = text.len() + 2 * others;
    if q_length <= text.len().div_ceil(3) * 4 { q_words(text) } else { base64_words(text) }
}

fn base64_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (content, after) = rest.split_at(rest.floor_char_boundary(WORD_CONTENT_BYTES));
        // Writing to memory does not fail.
        let encoded = base64_encode(content.as_bytes()).unwrap_or_default();
        words.push(format!("=?utf-8?B?{}?=", String::from_utf8_lossy(&encoded)));
        rest = after;
    }
    words
}

fn q_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut content = String::new();
    for character in text.chars() {
        let encoded = match character {
            ' ' => "_".to_owned(),
            plain if plain.is_ascii_alphanumeric() || "!*+-/".contains(plain) => plain.to_string(),
            other => escaped_bytes(other, '='),
        };
        if content.len() + encoded.len() > Q_LENGTH_MAX {
            words.push(format!("=?utf-8?Q?{}?=", std::mem::take(&mut content)));
        }
        content.push_str(&encoded);
    }
    if !content.is_empty() {
        words.push(format!("=?utf-8?Q?{content}?="));
    }
    words
}

/// Returns the bytes of a character in hexadecimal, each after a mark.
fn escaped_bytes(character: char, mark: char) -> String {
    let mut text = String::new();
    for byte in character.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a string does not fail.
        let _ = write!(text, "{mark}{byte:02X}");
    }
    text
}

/// Writes a parameter of a structured field, in several pieces if it is long.
pub(super) fn write_parameter(field: &mut FieldWriter, name: &str, value: &str) {
    let is_printable = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_printable && !value.contains("=?") && value.len() <= PARAMETER_BYTES_MAX {
        let is_token = !value.is_empty() && value.chars().all(is_token_character);
        let value = if is_token { value.to_owned() } else { quoted(value) };
        write_parameter_text(field, &format!("{name}={value}"));
        return;
    }
    let pieces = extended_pieces(value);
    if let [piece] = &pieces[..] {
        write_parameter_text(field, &format!("{name}*=utf-8''{piece}"));
        return;
    }
    for (number, piece) in pieces.iter().enumerate() {
        let charset = if number == 0 { "utf-8''" } else { "" };
        write_parameter_text(field, &format!("{name}*{number}*={charset}{piece}"));
    }
}

/// Writes a parameter that is already encoded.
pub(super) fn write_parameter_text(field: &mut FieldWriter, parameter: &str) {
    field.append(";");
    field.word(parameter);
}

/// Returns `true` if a character may be in a token (RFC 2045 §5.1).
pub(super) fn is_token_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`{|}~".contains(character)
}

/// Returns the pieces of a value in the encoding of RFC 2231. A character is never divided.
fn extended_pieces(value: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for character in value.chars() {
        let is_plain = character.is_ascii_alphanumeric() || "!#$&+-.^_`|~".contains(character);
        let encoded = if is_plain { character.to_string() } else { escaped_bytes(character, '%') };
        if piece.len() + encoded.len() > PARAMETER_BYTES_MAX {
            pieces.push(std::mem::take(&mut piece));
        }
        piece.push_str(&encoded);
    }
    pieces.push(piece);
    pieces
}
