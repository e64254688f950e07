//! Places in the text of a formula, and how they are shown.

use std::fmt::Write as _;

/// A piece of a formula, in bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// Where it begins.
    pub start: u32,
    /// Where it ends, exclusive.
    pub end: u32,
}

impl Span {
    /// Makes a span; positions beyond 4 GiB cannot occur in a formula and stay at the end.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |position| u32::try_from(position).unwrap_or(u32::MAX);
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Gives the span from the beginning of this one to the end of the other.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }
}

/// A place as people count: both from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

/// Gives the place where a span begins.
#[must_use]
pub fn place(source: &str, span: Span) -> Place {
    let before = before(source, span);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// Shows the line where a span begins, with carets under the span.
#[must_use]
pub fn excerpt(source: &str, span: Span) -> String {
    let before = before(source, span);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = source[line_start..].lines().next().unwrap_or_default();
    let indent: String = before[line_start..].chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let rest_chars = line.chars().count().saturating_sub(indent.chars().count());
    let end = floor(source, span.end as usize).max(before.len());
    let width = source[before.len()..end].chars().count().min(rest_chars).max(1);
    let mut shown = String::with_capacity(2 * line.len() + width + 2);
    let _ = write!(shown, "{line}\n{indent}{}", "^".repeat(width));
    shown
}

fn before(source: &str, span: Span) -> &str {
    &source[..floor(source, span.start as usize)]
}

/// Gives the last character boundary at or before a position.
fn floor(source: &str, position: usize) -> usize {
    let mut position = position.min(source.len());
    while !source.is_char_boundary(position) {
        position -= 1;
    }
    position
}
