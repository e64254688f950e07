//! The tokenizers of the index, and the format of the strings they read.
//!
//! The value of a field is one string: the database prefix, then texts with separators between them. [`TEXT_SEPARATOR`]
//! separates texts so far that neither a phrase nor a proximity query spans them. [`NAME_BEGIN`] and [`NAME_END`]
//! enclose the name of the item to which the following texts belong. The threads of the index split the string into
//! terms ([`FieldTokenizer`]). Words that are already split are a list separated by [`WORD_SEPARATOR`]
//! ([`WordListTokenizer`]).

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

use crate::schema::{DATABASE_LENGTH, NAME_TERMINATOR};
use crate::words::Words;

/// Separates two texts.
pub(crate) const TEXT_SEPARATOR: char = '\u{1}';
/// Begins the name of an item.
pub(crate) const NAME_BEGIN: char = '\u{2}';
/// Ends the name of an item.
pub(crate) const NAME_END: char = '\u{3}';

/// Number of word positions skipped between two texts. It exceeds the maximum distance of a proximity query.
const TEXT_GAP_POSITIONS: usize = 1_000;

/// Appends a text with its separator characters replaced.
pub(crate) fn push_clean(text: &str, out: &mut String) {
    let is_mark = |character: char| character <= NAME_END;
    let mut rest = text;
    while let Some(place) = rest.find(is_mark) {
        out.push_str(&rest[..place]);
        out.push(' ');
        rest = &rest[place + 1..];
    }
    out.push_str(rest);
}

/// Splits the strings joined by [`crate::text::NoteText`] into terms.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldTokenizer {
    token: Token,
}

impl Tokenizer for FieldTokenizer {
    type TokenStream<'a> = FieldTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> FieldTokenStream<'a> {
        self.token.reset();
        let start = DATABASE_LENGTH.min(text.len());
        let piece = Words::new("");
        FieldTokenStream {
            text,
            rest: start,
            piece,
            piece_start: start,
            prefix: text[..start].to_owned(),
            place: 0,
            token: &mut self.token,
        }
    }
}

/// The terms of one string.
pub(crate) struct FieldTokenStream<'a> {
    text: &'a str,
    /// The start of the piece after the current one.
    rest: usize,
    /// The current piece: the text between two separators.
    piece: Words<'a>,
    piece_start: usize,
    /// The prefix of the terms of the current piece.
    prefix: String,
    /// The position of the next word.
    place: usize,
    token: &'a mut Token,
}

impl FieldTokenStream<'_> {
    /// Moves to the next piece. Returns `false` at the end.
    fn next_piece(&mut self) -> bool {
        let Some(rest) = self.text.get(self.rest..).filter(|rest| !rest.is_empty()) else { return false };
        let mut start = self.rest;
        if rest.starts_with(TEXT_SEPARATOR) {
            self.place += TEXT_GAP_POSITIONS;
            start += 1;
        } else if let Some(named) = rest.strip_prefix(NAME_BEGIN) {
            let length = named.find(NAME_END).unwrap_or(named.len());
            self.prefix.truncate(DATABASE_LENGTH);
            self.prefix.push_str(&named[..length]);
            self.prefix.push(NAME_TERMINATOR);
            self.place += TEXT_GAP_POSITIONS;
            start = (self.rest + 1 + length + 1).min(self.text.len());
        }
        let piece = &self.text[start..];
        let length = piece.find([TEXT_SEPARATOR, NAME_BEGIN]).unwrap_or(piece.len());
        self.piece = Words::new(&piece[..length]);
        self.piece_start = start;
        self.rest = start + length;
        true
    }
}

impl TokenStream for FieldTokenStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        self.token.text.push_str(&self.prefix);
        loop {
            if let Some(range) = self.piece.next_into(&mut self.token.text) {
                self.token.offset_from = self.piece_start + range.start;
                self.token.offset_to = self.piece_start + range.end;
                self.token.position = self.place;
                self.place += 1;
                return true;
            }
            if !self.next_piece() {
                return false;
            }
            self.token.text.clear();
            self.token.text.push_str(&self.prefix);
        }
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Separates the words of a list.
pub(crate) const WORD_SEPARATOR: char = '\u{1}';

/// Splits a list of words into terms without further processing. The list begins with the database prefix, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordListTokenizer {
    token: Token,
}

impl Tokenizer for WordListTokenizer {
    type TokenStream<'a> = WordListTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordListTokenStream<'a> {
        self.token.reset();
        self.token.position = 0;
        let (prefix, words) = text.split_at(DATABASE_LENGTH.min(text.len()));
        WordListTokenStream { prefix, words: words.split(WORD_SEPARATOR), token: &mut self.token }
    }
}

/// The terms of one list.
pub(crate) struct WordListTokenStream<'a> {
    prefix: &'a str,
    words: std::str::Split<'a, char>,
    token: &'a mut Token,
}

impl TokenStream for WordListTokenStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.next() else { return false };
        self.token.text.clear();
        self.token.text.push_str(self.prefix);
        self.token.text.push_str(word);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<(String, usize)> {
        let mut tokenizer = FieldTokenizer::default();
        let mut stream = tokenizer.token_stream(text);
        let mut found = Vec::new();
        while stream.advance() {
            found.push((stream.token().text.clone(), stream.token().position));
        }
        found
    }

    #[test]
    fn terms_begin_with_database_and_name() {
        let expected = [("ABCDEone", 0), ("ABCDEtwo", 1), ("ABCDEthree", 1002)]
            .map(|(term, position)| (term.to_owned(), position));
        assert_eq!(terms("ABCDEOne two\u{1}three"), expected);
        let expected = [("ABCDEsubject\0a", 1000), ("ABCDEsubject\0b", 2001), ("ABCDEform\0c", 3002)]
            .map(|(term, position)| (term.to_owned(), position));
        assert_eq!(terms("ABCDE\u{2}subject\u{3}a\u{1}b\u{2}form\u{3}c"), expected);
        assert_eq!(terms("ABCDE"), []);
        assert_eq!(terms("\u{2}x"), []);
        assert_eq!(terms("ABCDE\u{2}x"), []);
    }
}
