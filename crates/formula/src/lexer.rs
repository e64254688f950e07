//! The lexer: splits the source of a formula into tokens.
//!
//! One decision depends on the previous token: `[` after an operand opens a subscript, elsewhere it begins a time or
//! keyword.

use crate::error::{CompileError, CompileErrorKind};
use crate::limits::{NAME_BYTES_MAX, SOURCE_BYTES_MAX};
use crate::number_text::exponent_length;
use crate::source::Span;
use crate::token::{Operator, ReservedWord, Token, TokenKind};

/// Splits a formula into tokens. The last token is [`TokenKind::End`].
pub fn lex(source: &str) -> Result<Vec<Token>, CompileError> {
    if source.len() > SOURCE_BYTES_MAX {
        let reason = CompileErrorKind::Limit { what: "bytes", max: SOURCE_BYTES_MAX };
        return Err(CompileError::new("", Span::default(), reason));
    }
    let mut lexer = Lexer { source, position: 0, tokens: Vec::new() };
    while lexer.lex_token()? {}
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    position: usize,
    tokens: Vec<Token>,
}

impl<'s> Lexer<'s> {
    /// Reads one token. Returns `false` at the end of the formula.
    fn lex_token(&mut self) -> Result<bool, CompileError> {
        self.skip_blanks();
        let start = self.position;
        let Some(first) = self.rest().chars().next() else {
            self.push(TokenKind::End, start);
            return Ok(false);
        };
        let kind = match first {
            '"' => self.lex_quoted()?,
            '{' => self.lex_braced()?,
            '[' if !self.tokens.last().is_some_and(|token| token.kind.ends_operand()) => {
                TokenKind::Bracketed(self.take_until(']')?.trim().to_owned())
            }
            '@' => self.lex_function()?,
            '.' | '0'..='9' => self.lex_number()?,
            _ if is_letter(first) => self.lex_name()?,
            _ => self.lex_sign(first)?,
        };
        self.push(kind, start);
        Ok(true)
    }

    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        self.tokens.push(Token { kind, span: Span::new(start, self.position) });
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.position += rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\0').len();
    }

    fn error(&self, start: usize, reason: CompileErrorKind) -> CompileError {
        CompileError::new(self.source, Span::new(start, self.position.max(start + 1)), reason)
    }

    /// Reads a text in quotes. A backslash escapes the next character.
    fn lex_quoted(&mut self) -> Result<TokenKind, CompileError> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.position += offset + 1;
                    return Ok(TokenKind::Text(text));
                }
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => text.push(c),
            }
        }
        Err(self.error(self.position, CompileErrorKind::Unterminated))
    }

    /// Reads a text in braces. A backslash escapes a right brace or a backslash; before any other character it stands
    /// for itself, so that paths need no escaping.
    fn lex_braced(&mut self) -> Result<TokenKind, CompileError> {
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1).peekable();
        while let Some((offset, c)) = chars.next() {
            match c {
                '}' => {
                    self.position += offset + 1;
                    return Ok(TokenKind::Text(text));
                }
                '\\' => text.push(chars.next_if(|(_, next)| matches!(next, '}' | '\\')).map_or(c, |(_, next)| next)),
                _ => text.push(c),
            }
        }
        Err(self.error(self.position, CompileErrorKind::Unterminated))
    }

    /// Returns the text between an opening character and `closing`.
    fn take_until(&mut self, closing: char) -> Result<&'s str, CompileError> {
        let inside = &self.rest()[1..];
        let Some(length) = inside.find(closing) else {
            return Err(self.error(self.position, CompileErrorKind::Unterminated));
        };
        self.position += length + 2;
        Ok(&inside[..length])
    }

    fn lex_function(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.position;
        self.position += 1;
        let name = self.take_while(|c| is_letter(c) || c.is_ascii_digit());
        if name.is_empty() {
            return Err(self.error(start, CompileErrorKind::Character('@')));
        }
        Ok(TokenKind::Function(format!("@{name}")))
    }

    fn lex_name(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.position;
        let name = self.take_while(|c| is_letter(c) || c.is_ascii_digit() || c == '.');
        if name.len() > NAME_BYTES_MAX {
            return Err(self.error(start, CompileErrorKind::Limit { what: "bytes in a name", max: NAME_BYTES_MAX }));
        }
        Ok(ReservedWord::find(name).map_or_else(|| TokenKind::Name(name.to_owned()), TokenKind::Word))
    }

    fn lex_number(&mut self) -> Result<TokenKind, CompileError> {
        let start = self.position;
        self.take_while(|c| c.is_ascii_digit() || c == '.');
        self.position += exponent_length(self.rest());
        match self.source[start..self.position].parse() {
            Ok(number) if f64::is_finite(number) => Ok(TokenKind::Number(number)),
            _ => Err(self.error(start, CompileErrorKind::Number)),
        }
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'s str {
        let rest = self.rest();
        let length = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn lex_sign(&mut self, first: char) -> Result<TokenKind, CompileError> {
        if let Some((operator, length)) = Operator::lex(self.rest()) {
            self.position += length;
            return Ok(TokenKind::Operator(operator));
        }
        let kind = match first {
            ':' if self.rest().starts_with(":=") => TokenKind::Assign,
            ':' => TokenKind::Colon,
            ';' => TokenKind::Semicolon,
            '(' => TokenKind::Open,
            ')' => TokenKind::Close,
            '[' => TokenKind::OpenSubscript,
            ']' => TokenKind::CloseSubscript,
            '!' => TokenKind::Not,
            _ => return Err(self.error(self.position, CompileErrorKind::Character(first))),
        };
        self.position += if kind == TokenKind::Assign { 2 } else { 1 };
        Ok(kind)
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '$' | '_' | '~')
}
