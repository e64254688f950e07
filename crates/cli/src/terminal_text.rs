//! Display width of texts on a terminal, and removal of characters that affect the terminal.
//!
//! Text from people and other programs is shown on one line: every character that moves the cursor, ends a line or
//! changes the writing direction becomes a blank. Width is counted in terminal columns: wide East Asian characters and
//! emoji take two, combining marks none. The ranges are those of Unicode 16 by blocks. They are exact for letters, and
//! never wrong by more than one column per character.

/// Character that replaces the rest of a truncated text.
const ELLIPSIS: char = '…';

/// Ranges of characters that take no column, as first and last code point.
const NARROW: [(u32, u32); 24] = [
    (0x0300, 0x036F),
    (0x0483, 0x0489),
    (0x0591, 0x05BD),
    (0x0610, 0x061A),
    (0x064B, 0x065F),
    (0x06D6, 0x06DC),
    (0x0900, 0x0902),
    (0x093C, 0x093C),
    (0x0941, 0x0948),
    (0x094D, 0x094D),
    (0x0E31, 0x0E31),
    (0x0E34, 0x0E3A),
    (0x0E47, 0x0E4E),
    (0x1160, 0x11FF),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x200B, 0x200F),
    (0x2060, 0x2064),
    (0x20D0, 0x20FF),
    (0x302A, 0x302D),
    (0xFE00, 0xFE0F),
    (0xFE20, 0xFE2F),
    (0xFEFF, 0xFEFF),
    (0xE0100, 0xE01EF),
];

/// Ranges of characters that take two columns, as first and last code point.
const WIDE: [(u32, u32); 19] = [
    (0x1100, 0x115F),
    (0x231A, 0x231B),
    (0x23E9, 0x23EC),
    (0x2E80, 0x303E),
    (0x3041, 0x33FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA000, 0xA4CF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE6F),
    (0xFF00, 0xFF60),
    (0xFFE0, 0xFFE6),
    (0x16FE0, 0x18DFF),
    (0x1B000, 0x1B2FF),
    (0x1F300, 0x1F64F),
    (0x1F680, 0x1F9FF),
    (0x20000, 0x3FFFD),
];

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
    let code = u32::from(c);
    let is_in = |ranges: &[(u32, u32)]| {
        let after = ranges.partition_point(|(first, _)| *first <= code);
        after.checked_sub(1).and_then(|index| ranges.get(index)).is_some_and(|(_, last)| code <= *last)
    };
    if code < 0x0300 {
        1
    } else if is_in(&NARROW) {
        0
    } else if is_in(&WIDE) {
        2
    } else {
        1
    }
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
    fn ranges_are_in_order() {
        for ranges in [&NARROW[..], &WIDE[..]] {
            assert!(ranges.iter().all(|(first, last)| first <= last));
            assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "{ranges:x?}");
        }
    }

    #[test]
    fn texts_are_cut_by_their_width() {
        let check = |text: &str, columns: usize, expected: &str| {
            let shown = truncate(text.to_owned(), columns);
            assert_eq!(shown, expected);
            assert!(width(&shown) <= columns, "{shown}");
        };
        check("plain", 5, "plain");
        check("plainly", 5, "plai…");
        check("東京都庁", 8, "東京都庁");
        check("東京都庁", 7, "東京都…");
        check("東京都庁", 6, "東京…");
        check("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}");
        check("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…");
        check("", 5, "");
    }

    #[test]
    fn what_would_disturb_a_terminal_becomes_a_blank() {
        assert_eq!(one_line("a\u{1b}[2Jb\r\n\tc\u{9b}31m\u{202e}d\u{2028}e\u{7f}"), "a [2Jb   c 31m d e ");
        assert_eq!(lines("a\nb\u{7}"), "a\nb ");
        assert_eq!(pad("東", 4), "東  ");
    }
}
