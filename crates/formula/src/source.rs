//! Positions in the source of a formula, and their display.

use std::fmt::Write as _;

use crate::limits::EXCERPT_CHARS_MAX;

/// A range of bytes in the source of a formula.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The end, exclusive.
    pub end: u32,
}

impl Span {
    /// Creates a span. Positions beyond 4 GiB, which a formula cannot have, are clamped.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        let narrow = |position| u32::try_from(position).unwrap_or(u32::MAX);
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Returns the span from the beginning of this span to the end of the other one.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.end) }
    }
}

/// A position for display. Line and column start at 1; columns are counted in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// Unexpected character within the line.
    pub column: usize,
}

/// Returns the position at which a span begins.
#[must_use]
pub fn line_column(source: &str, span: Span) -> LineColumn {
    let before = before(source, span);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    LineColumn { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// Returns the line in which a span begins, with carets below the span. A long line is cut to the surroundings of the
/// span.
#[must_use]
pub fn excerpt(source: &str, span: Span) -> String {
    let before = before(source, span);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = source[line_start..].lines().next().unwrap_or_default();
    let column = before[line_start..].chars().count();
    let hidden =
        if line.chars().nth(EXCERPT_CHARS_MAX).is_some() { column.saturating_sub(EXCERPT_CHARS_MAX / 2) } else { 0 };
    let mut rest = line.chars().skip(hidden);
    let mut shown = String::from(if hidden > 0 { "…" } else { "" });
    shown.extend(rest.by_ref().take(EXCERPT_CHARS_MAX));
    let shown_chars = shown.chars().count();
    if rest.next().is_some() {
        shown.push('…');
    }
    let indent = column - hidden + usize::from(hidden > 0);
    let blanks: String = shown.chars().take(indent).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let end = source.floor_char_boundary(span.end as usize).max(before.len());
    let width = source[before.len()..end].chars().count().min(shown_chars.saturating_sub(indent)).max(1);
    let _ = write!(shown, "\n{blanks}{}", "^".repeat(width));
    shown
}

fn before(source: &str, span: Span) -> &str {
    &source[..source.floor_char_boundary(span.start as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carets_mark_the_span() {
        assert_eq!(excerpt("SELECT (", Span::new(8, 8)), "SELECT (\n        ^");
        assert_eq!(excerpt("a := 1;\n\tzörk + b;", Span::new(9, 14)), "\tzörk + b;\n\t^^^^");
        assert_eq!(excerpt("a +\nb", Span::new(0, 5)), "a +\n^^^", "of the first line only");
        assert_eq!(excerpt("", Span::default()), "\n^");
    }

    #[test]
    fn excerpt_of_a_long_line_is_truncated() {
        let long = format!("{}zörk{}", "é".repeat(30_000), "ü".repeat(30_000));
        let around = excerpt(&long, Span::new(60_000, 60_005));
        let half = EXCERPT_CHARS_MAX / 2;
        let expected = format!("…{}zörk{}…\n {}^^^^", "é".repeat(half), "ü".repeat(half - 4), " ".repeat(half));
        assert_eq!(around, expected);
        let at_the_end = excerpt(&long, Span::new(long.len(), long.len()));
        assert_eq!(at_the_end, format!("…{}\n {}^", "ü".repeat(half), " ".repeat(half)));
        let whole = excerpt(&long, Span::new(0, long.len()));
        assert_eq!(whole, format!("{}…\n{}", "é".repeat(EXCERPT_CHARS_MAX), "^".repeat(EXCERPT_CHARS_MAX)));
    }
}
