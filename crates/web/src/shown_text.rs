//! Texts of strangers, made safe to look at: names of files, subjects, addresses and folders.
//!
//! Pages escape all texts, so nothing in them becomes markup. What is left is deception: line ends, characters that
//! cannot be seen, and marks that turn the direction of what follows, so that `gpj.exe` reads as `exe.jpg`. They are
//! replaced by U+FFFD, one for each, so that their presence is visible. Letters of all scripts stay.

/// Returns a text on one line without control characters and marks of direction.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    text.chars().map(|character| if is_deceptive(character) { '\u{fffd}' } else { character }).collect()
}

/// Returns the text of a message: line ends and tabs stay.
#[must_use]
pub fn of_body(text: &str) -> String {
    let is_kept = |character: char| matches!(character, '\n' | '\t') || !is_deceptive(character);
    let shown = text.chars().filter(|character| *character != '\r');
    shown.map(|character| if is_kept(character) { character } else { '\u{fffd}' }).collect()
}

/// Returns a text of at most a number of characters, with `…` if it was longer.
#[must_use]
pub fn shortened(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns a size for people.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} KB", bytes.div_ceil(1_000)),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

/// Returns a number with commas between groups of three digits.
#[must_use]
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns `true` for characters that change how others are shown, or are shown as nothing.
fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{115f}'
                | '\u{1160}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deceptive_characters_are_visible() {
        assert_eq!(on_one_line("photo\u{202e}gpj.exe"), "photo\u{fffd}gpj.exe");
        assert_eq!(on_one_line("a\u{3164}\u{180e}\u{ffa0}b"), "a\u{fffd}\u{fffd}\u{fffd}b");
        assert_eq!(on_one_line("a\r\nBcc: x\0"), "a\u{fffd}\u{fffd}Bcc: x\u{fffd}");
        assert_eq!(on_one_line("שלום Ünï"), "שלום Ünï");
        assert_eq!(of_body("a\r\n\tb\u{2066}c"), "a\n\tb\u{fffd}c");
    }

    #[test]
    fn numbers_and_sizes_are_readable() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(number), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 999, 1_001, 2_560_000].map(size), ["0 B", "999 B", "2 KB", "2.5 MB"]);
        assert_eq!((shortened("äbc", 3), shortened("äbcd", 3)), ("äbc".to_owned(), "äbc…".to_owned()));
    }
}
