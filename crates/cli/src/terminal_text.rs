//! Display width of texts on a terminal, and removal of characters that affect the terminal.
//!
//! Text from people and other programs is shown on one line: every character that moves the cursor, ends a line or
//! changes the writing direction becomes a blank. Width is counted in terminal columns by `unicode-width`: wide East
//! Asian characters and emoji take two, combining marks none. The width of a text is the sum of those of its
//! characters, as terminals that do not join emoji show it.

use unicode_width::UnicodeWidthChar;

/// Character that replaces the rest of a truncated text.
const ELLIPSIS: char = '…';

/// Replaces line ends and characters that affect the terminal with blanks.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(sanitize).collect()
}

/// Replaces characters that affect the terminal with blanks, and keeps line ends.
#[must_use]
pub fn lines(text: &str) -> String {
    text.chars().map(|c| if c == '\n' { c } else { sanitize(c) }).collect()
}

fn sanitize(c: char) -> char {
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    let turns = matches!(c, '\u{061C}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || is_separator || turns { ' ' } else { c }
}

/// Returns the number of columns that a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

fn width_of(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Truncates a text to a maximum number of columns. A truncated text ends with `…`.
#[must_use]
pub fn truncate(text: String, columns_max: usize) -> String {
    let mut columns = 0;
    let mut kept = 0;
    for (at, c) in text.char_indices() {
        columns += width_of(c);
        if columns > columns_max {
            return format!("{}{ELLIPSIS}", text.get(..kept).unwrap_or_default());
        }
        // The text kept if the ellipsis takes the last column.
        if columns < columns_max {
            kept = at + c.len_utf8();
        }
    }
    text
}

/// Pads a text with blanks to a number of columns.
#[must_use]
pub fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_truncated_by_display_width() {
        let check = |text: &str, columns: usize, expected: &str| {
            let truncated = truncate(text.to_owned(), columns);
            assert_eq!(truncated, expected);
            assert!(width(&truncated) <= columns, "{truncated}");
        };
        check("plain", 5, "plain");
        check("plainly", 5, "plai…");
        check("東京都庁", 8, "東京都庁");
        check("한국어", 5, "한국…");
        check("🦀🦀", 3, "🦀…");
        check("東京都庁", 7, "東京都…");
        check("東京都庁", 6, "東京…");
        check("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}");
        check("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…");
        check("", 5, "");
    }

    #[test]
    fn control_characters_become_blanks() {
        assert_eq!(one_line("a\u{1b}[2Jb\r\n\tc\u{9b}31m\u{202e}d\u{2028}e\u{7f}"), "a [2Jb   c 31m d e ");
        assert_eq!(lines("a\nb\u{7}"), "a\nb ");
        assert_eq!(pad("東", 4), "東  ");
    }
}
