//! Collation keys of ordinary texts, taken from a table.
//!
//! A view's build spends most of its time on collation keys, and most texts consist of letters, digits and marks of the
//! Latin script. In the root order of the Unicode collation algorithm, without case and accents, the key of such a text
//! is a concatenation: the bytes that a character adds depend only on the character before it, because primary weights
//! with the same first byte share that byte. The collator therefore computes the keys of all pairs of these characters
//! once, and the key of a text is assembled from the bytes that each character adds. A pair whose key does not begin
//! with the key of its first character is not in the table. The collator handles texts with such a pair, or with any
//! other character.
//!
//! This holds for the root order, which has no contractions of more than two of these characters. Locales with an order
//! of their own have such contractions (`c'h` in Breton) and are not supported here ([`is_root`]). A property test
//! compares the keys with those of the collator.

use std::sync::LazyLock;

use icu_collator::CollatorBorrowed;

/// Number of characters in the table: printable ASCII, and the letters of Latin-1.
const CHARACTERS: usize = ASCII_COUNT + LATIN_COUNT;

const ASCII_COUNT: usize = 0x7F - 0x20;
const LATIN_COUNT: usize = 0x100 - 0xC0;

/// Maximum number of bytes that a character adds.
const ADDED_BYTES_MAX: usize = 3;

/// Languages whose texts CLDR sorts in the root order, in all regions except French in Canada.
const ROOT_LANGUAGES: [&str; 10] = ["", "de", "en", "fr", "ga", "id", "it", "ms", "nl", "pt"];

/// Returns `true` if the texts of a locale (BCP 47) are in the root order.
pub(super) fn is_root(locale: &str) -> bool {
    let (language, region) = locale.split_once('-').unwrap_or((locale, ""));
    let is_plain = region.is_empty() || region.len() == 2 && region != "CA";
    is_plain && ROOT_LANGUAGES.contains(&language)
}

/// The bytes that a character adds to a key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct AddedBytes {
    /// Number of bytes, or `None` if the collator must compute the key.
    count: Option<u8>,
    bytes: [u8; ADDED_BYTES_MAX],
}

/// The bytes that each character adds behind characters of one kind.
type TableRow = [AddedBytes; CHARACTERS];

struct Table {
    /// The rows of the table. The first is for the beginning of a text.
    rows: Vec<TableRow>,
    /// The number of the row that applies behind each character.
    behind: [u8; CHARACTERS],
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// Appends the collation key of a text. Returns `false` and appends nothing if the table does not cover the text.
pub(super) fn write(text: &str, out: &mut Vec<u8>) -> bool {
    let table = &*TABLE;
    let start = out.len();
    let mut row = &table.rows[0];
    for character in text.chars() {
        let added = table_index(character).map(|place| (place, row[place]));
        let Some((place, AddedBytes { count: Some(count), bytes })) = added else {
            out.truncate(start);
            return false;
        };
        out.extend_from_slice(&bytes[..usize::from(count)]);
        row = &table.rows[usize::from(table.behind[place])];
    }
    true
}

/// Returns the position of a character in the table.
fn table_index(character: char) -> Option<usize> {
    match character as usize {
        code @ 0x20..0x7F => Some(code - 0x20),
        code @ 0xC0..0x100 => Some(code - 0xC0 + ASCII_COUNT),
        _ => None,
    }
}

fn characters() -> impl Iterator<Item = char> {
    (' '..='~').chain('À'..='ÿ')
}

impl Table {
    fn new() -> Self {
        let options = super::sort_key::options(super::sort_key::TextComparison::default());
        let collator = CollatorBorrowed::try_new(icu_collator::CollatorPreferences::default(), options);
        let collator = collator.expect("the root collation is compiled in");
        let mut table = Self { rows: vec![row_after(&collator, "")], behind: [0; CHARACTERS] };
        for (character, behind) in characters().zip(0..) {
            let row = row_after(&collator, character.encode_utf8(&mut [0; 4]));
            let known = table.rows.iter().position(|known| *known == row);
            table.behind[behind] = known.unwrap_or(table.rows.len()) as u8;
            if known.is_none() {
                table.rows.push(row);
            }
        }
        table
    }
}

/// Computes the bytes that each character adds behind a text, with the collator.
fn row_after(collator: &CollatorBorrowed<'_>, before: &str) -> TableRow {
    let key = |text: &str| {
        let mut key = Vec::new();
        let Ok(()) = collator.write_sort_key_to(text, &mut key);
        key
    };
    let before_key = key(before);
    let mut row = [AddedBytes { count: None, bytes: [0; ADDED_BYTES_MAX] }; CHARACTERS];
    for (character, added) in characters().zip(&mut row) {
        let key = key(&format!("{before}{character}"));
        // A character without weight is excluded: the bytes behind it would depend on the character before it.
        let Some(rest) = key.strip_prefix(&before_key[..]).filter(|rest| !rest.is_empty() && !rest.contains(&0)) else {
            continue;
        };
        if let Some(bytes) = added.bytes.get_mut(..rest.len()) {
            bytes.copy_from_slice(rest);
            added.count = Some(rest.len() as u8);
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use icu_collator::CollatorPreferences;
    use icu_locale_core::Locale;
    use proptest::prelude::*;

    use super::*;
    use crate::view::sort_key::{TextComparison, options};

    fn collator_key(locale: &str, text: &str) -> Vec<u8> {
        let preferences = CollatorPreferences::from(locale.parse::<Locale>().expect("a locale"));
        let collator = CollatorBorrowed::try_new(preferences, options(TextComparison::default())).expect("compiled in");
        let mut key = Vec::new();
        let Ok(()) = collator.write_sort_key_to(text, &mut key);
        key
    }

    #[test]
    fn common_characters_are_in_the_table() {
        for text in
            ["", "CN=Ann Smith/OU=Sales/O=Acme", "Re: [draft] 50 % of 3,000.00 $?!", "Zürich, Malmö, Århus; Übergröße"]
        {
            let mut key = Vec::new();
            assert!(write(text, &mut key), "{text}");
            assert_eq!(key, collator_key("und", text), "{text}");
        }
        assert!(TABLE.rows.len() < 20, "{} kinds of characters", TABLE.rows.len());
    }

    #[test]
    fn other_texts_require_the_collator() {
        for text in ["a\u{308}", "日本", "a\tb", "naïve \u{AD}", "Kraków €"] {
            let mut key = vec![7];
            assert!(!write(text, &mut key), "{text}");
            assert_eq!(key, [7]);
        }
    }

    #[test]
    fn locales_with_their_own_order_are_excluded() {
        for locale in ["sv", "br", "de-u-co-phonebk", "fr-CA", "en-u-kn", "es", "no such locale"] {
            assert!(!is_root(locale), "{locale}");
        }
        assert!(ROOT_LANGUAGES.into_iter().chain(["en-GB", "de-CH", "pt-BR"]).all(is_root));
    }

    proptest! {
        #[test]
        fn keys_equal_those_of_the_collator(text in "[ -~À-ÿ]{0,24}", locale in 0..ROOT_LANGUAGES.len()) {
            let mut key = Vec::new();
            if write(&text, &mut key) {
                let locale = Some(ROOT_LANGUAGES[locale]).filter(|locale| !locale.is_empty()).unwrap_or("und");
                prop_assert_eq!(key, collator_key(locale, &text));
            }
        }
    }
}
