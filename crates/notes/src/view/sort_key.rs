//! Bytes that sort like the values they encode: the components of row keys (`docs/views.md`, "Sort component").
//!
//! A component is a type byte, the value, and an end mark if the length varies. In a descending column all its bits are
//! inverted. No component is a prefix of another one, so components can be concatenated and compare one by one.
//!
//! Text is ordered by the Unicode collation algorithm, in the order of a locale ([`TextOrder`]).

use icu_collator::options::{AlternateHandling, CaseLevel, CollatorOptions, Strength};
use icu_collator::{CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

use crate::limits::{SORTED_TEXT_BYTES_MAX, SORTED_TEXT_CHARACTERS_MAX};
use crate::view::cell::CellValue;
use crate::view::root_order;

/// The differences between texts that count besides different letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct TextComparison {
    /// `true` if `a` and `A` are different.
    pub case: bool,
    /// `true` if `a` and `á` are different.
    pub accents: bool,
}

/// The direction in which a column is sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SortDirection {
    /// The smallest value first.
    Ascending,
    /// The greatest value first.
    Descending,
}

/// The order of texts in a locale.
pub struct TextOrder {
    collator: CollatorBorrowed<'static>,
    /// `true` if keys of ordinary texts can be taken from the table of the root order.
    has_table: bool,
}

impl TextOrder {
    /// Returns the order of a locale (BCP 47), or the root order if the locale is empty or unknown.
    #[must_use]
    pub fn of_locale(locale: &str, differences: TextComparison) -> Self {
        let preferences = locale.parse::<Locale>().map(CollatorPreferences::from).unwrap_or_default();
        let options = options(differences);
        let root = || CollatorBorrowed::try_new(CollatorPreferences::default(), options);
        let collator = CollatorBorrowed::try_new(preferences, options).or_else(|_| root());
        let has_table = differences == TextComparison::default() && root_order::is_root(locale);
        Self { collator: collator.expect("the root collation is compiled in"), has_table }
    }

    fn write(&self, text: &str, out: &mut Vec<u8>) {
        let is_short = text.len() <= SORTED_TEXT_CHARACTERS_MAX;
        let cut = || text.char_indices().nth(SORTED_TEXT_CHARACTERS_MAX).map_or(text.len(), |(index, _)| index);
        let end = if is_short { text.len() } else { cut() };
        let start = out.len();
        if !(self.has_table && root_order::write(&text[..end], out)) {
            let Ok(()) = self.collator.write_sort_key_to(&text[..end], out);
        }
        out.truncate(start + SORTED_TEXT_BYTES_MAX);
        if out[start..].contains(&0) {
            let key = out.split_off(start);
            for byte in key {
                out.push(byte);
                if byte == 0 {
                    out.push(0xFF);
                }
            }
        }
        out.extend(TEXT_END);
    }
}

/// The end of a text.
const TEXT_END: [u8; 2] = [0, 0];

/// The separator in a collation key between the weights of letters, accents and case.
const LEVEL_SEPARATOR: u8 = 1;

/// Maximum size of a component. A text that takes more bytes is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ComponentLimit {
    /// Texts whose kept parts are equal count as equal.
    Prefix(usize),
    /// A digest replaces the rest, so texts that were different stay different.
    Digest(usize),
}

/// Number of bytes of a digest.
const DIGEST_BYTES: usize = 10;

impl ComponentLimit {
    /// Returns the number of bytes that are kept of a text's component when it is cut: type byte and text, without the
    /// bytes behind the text.
    fn kept_bytes(self) -> usize {
        match self {
            Self::Prefix(bytes) => bytes.saturating_sub(TEXT_END.len()),
            Self::Digest(bytes) => bytes.saturating_sub(DIGEST_BYTES + TEXT_END.len()),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Prefix(bytes) | Self::Digest(bytes) => bytes,
        }
    }

    /// Cuts the component of a text that exceeds the maximum size.
    fn cut(self, start: usize, out: &mut Vec<u8>) {
        if out.len() - start <= self.bytes() {
            return;
        }
        let digest = blake3::hash(&out[start..]);
        cut_to(start + self.kept_bytes(), out);
        if matches!(self, Self::Digest(_)) {
            // The digest contains no zero byte, because a zero byte could end the text.
            out.extend(digest.as_bytes()[..DIGEST_BYTES].iter().map(|byte| byte | 1));
        }
        out.extend(TEXT_END);
    }
}

/// Cuts the component of a text without its end. If the cut separates the 0xFF from its 0, the 0 is removed too.
fn cut_to(length: usize, out: &mut Vec<u8>) {
    out.truncate(length);
    if out.last() == Some(&0) {
        out.pop();
    }
}

/// Writes the component of a value. Its size is at most `limit`, which must allow at least 9 bytes.
pub fn write(value: CellValue<'_>, order: SortDirection, texts: &TextOrder, limit: ComponentLimit, out: &mut Vec<u8>) {
    let start = out.len();
    match value {
        CellValue::None => out.push(0x10),
        CellValue::Number(number) => {
            out.push(0x20);
            out.extend(number_bits(number).to_be_bytes());
        }
        CellValue::Time(time) => {
            out.push(0x30);
            out.extend((time.0.cast_unsigned() ^ (1 << 63)).to_be_bytes());
        }
        CellValue::Text(text) => {
            write_text(text, texts, out);
            limit.cut(start, out);
        }
        CellValue::Error => out.push(0x70),
    }
    if order == SortDirection::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Writes the component of a text for an ascending column, without a limit. [`write_text_component`] writes it into
/// keys.
pub(super) fn write_text(text: &str, texts: &TextOrder, out: &mut Vec<u8>) {
    out.push(0x40);
    texts.write(text, out);
}

/// Writes the component of a text as [`write`] does, from the component that [`write_text`] has written.
pub(super) fn write_text_component(component: &[u8], order: SortDirection, limit: ComponentLimit, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(component);
    limit.cut(start, out);
    if order == SortDirection::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Writes the common prefix of the components of all texts that begin with `text`. If case or accents count, only the
/// letters are compared.
pub fn write_prefix(text: &str, order: SortDirection, texts: &TextOrder, limit: ComponentLimit, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(0x40);
    texts.write(text, out);
    out.truncate(out.len() - TEXT_END.len());
    // A separator precedes the weights of accents and case, which follow the weights of the letters.
    if let Some(separator) = out[start..].iter().position(|byte| *byte == LEVEL_SEPARATOR) {
        out.truncate(start + separator);
    }
    if out.len() > start + limit.kept_bytes() {
        cut_to(start + limit.kept_bytes(), out);
    }
    if order == SortDirection::Descending {
        out[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Returns the length of the component at the beginning of the bytes, or `None` if they do not begin with a component.
#[must_use]
pub fn length(bytes: &[u8], order: SortDirection) -> Option<usize> {
    let flip = if order == SortDirection::Descending { 0xFF } else { 0 };
    match bytes.first()? ^ flip {
        0x10 | 0x70 => Some(1),
        0x20 | 0x30 => (bytes.len() >= 9).then_some(9),
        0x40 => text_length(&bytes[1..], flip).map(|length| length + 1),
        _ => None,
    }
}

/// Returns the length of a text with its end, which is a zero followed by a zero.
fn text_length(bytes: &[u8], flip: u8) -> Option<usize> {
    let mut index = 0;
    while index + 1 < bytes.len() {
        match (bytes[index] ^ flip, bytes[index + 1] ^ flip) {
            (0, 0) => return Some(index + 2),
            (0, _) => index += 2,
            _ => index += 1,
        }
    }
    None
}

/// Returns bits that compare like the numbers. 0 and −0 are equal, and NaN comes last.
fn number_bits(number: f64) -> u64 {
    let number = if number == 0.0 { 0.0 } else { number };
    let bits = if number.is_nan() { f64::NAN.to_bits() & !(1 << 63) } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

pub(super) fn options(differences: TextComparison) -> CollatorOptions {
    let mut options = CollatorOptions::default();
    options.strength = Some(match (differences.accents, differences.case) {
        (false, _) => Strength::Primary,
        (true, false) => Strength::Secondary,
        (true, true) => Strength::Tertiary,
    });
    options.case_level = Some(if differences.case && !differences.accents { CaseLevel::On } else { CaseLevel::Off });
    options.alternate_handling = Some(AlternateHandling::NonIgnorable);
    options
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use proptest::prelude::*;

    use super::*;

    const PLAIN: TextComparison = TextComparison { case: false, accents: false };
    const ENOUGH: ComponentLimit = ComponentLimit::Prefix(usize::MAX);

    fn component(value: CellValue<'_>, order: SortDirection, differences: TextComparison) -> Vec<u8> {
        let mut out = Vec::new();
        write(value, order, &TextOrder::of_locale("", differences), ENOUGH, &mut out);
        out
    }

    fn texts_in_order(locale: &str, differences: TextComparison, texts: &[&str]) {
        let order = TextOrder::of_locale(locale, differences);
        let key = |text: &str| {
            let mut out = Vec::new();
            write(CellValue::Text(text), SortDirection::Ascending, &order, ENOUGH, &mut out);
            out
        };
        for pair in texts.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?} in {locale:?}");
        }
    }

    #[test]
    fn values_sort_by_type_and_then_by_value() {
        let values = [
            CellValue::None,
            CellValue::Number(f64::NEG_INFINITY),
            CellValue::Number(-2.5),
            CellValue::Number(0.0),
            CellValue::Number(1e-300),
            CellValue::Number(7.0),
            CellValue::Number(f64::NAN),
            CellValue::Time(Timestamp(i64::MIN)),
            CellValue::Time(Timestamp(-1)),
            CellValue::Time(Timestamp(5)),
            CellValue::Text(""),
            CellValue::Text("a"),
            CellValue::Text("a b"),
            CellValue::Text("ab"),
            CellValue::Text("b"),
            CellValue::Error,
        ];
        let keys: Vec<_> = values.iter().map(|value| component(*value, SortDirection::Ascending, PLAIN)).collect();
        let downwards: Vec<_> =
            values.iter().map(|value| component(*value, SortDirection::Descending, PLAIN)).collect();
        assert!(keys.is_sorted_by(|one, other| one < other));
        assert!(downwards.is_sorted_by(|one, other| one > other));
    }

    #[test]
    fn equal_values_have_equal_components() {
        assert_eq!(
            component(CellValue::Number(0.0), SortDirection::Ascending, PLAIN),
            component(CellValue::Number(-0.0), SortDirection::Ascending, PLAIN)
        );
        assert_eq!(
            component(CellValue::Text("Élan"), SortDirection::Ascending, PLAIN),
            component(CellValue::Text("elan"), SortDirection::Ascending, PLAIN)
        );
    }

    #[test]
    fn case_and_accents_are_compared_on_request() {
        texts_in_order("", TextComparison { case: true, accents: false }, &["role", "Role", "roles"]);
        texts_in_order("", TextComparison { case: false, accents: true }, &["role", "rôle", "roles"]);
        texts_in_order("", TextComparison { case: true, accents: true }, &["role", "Role", "rôle", "Rôle", "roles"]);
    }

    #[test]
    fn locales_have_their_own_order() {
        texts_in_order("de", PLAIN, &["Ärger", "Azur", "Zebra"]);
        texts_in_order("sv", PLAIN, &["Azur", "Zebra", "Ärger"]);
        texts_in_order("no such locale!", PLAIN, &["Ärger", "Azur", "Zebra"]);
    }

    #[test]
    fn long_texts_are_truncated_to_a_bounded_component() {
        let long = "語".repeat(10_000);
        assert!(
            component(CellValue::Text(&long), SortDirection::Ascending, PLAIN).len() <= 2 * SORTED_TEXT_BYTES_MAX + 3
        );
    }

    #[test]
    fn truncated_components_keep_the_order() {
        let order = TextOrder::of_locale("", PLAIN);
        let cut = |text: &str, limit: ComponentLimit, direction: SortDirection| {
            let mut out = Vec::new();
            write(CellValue::Text(text), direction, &order, limit, &mut out);
            assert!(out.len() <= limit.bytes() && length(&out, direction) == Some(out.len()), "{text}");
            out
        };
        let texts = ["a", "aaaaaa", "aaaaaaaaaaaab", "aaaaaaaaaaaabb", "aaaaaac", "b", "bbbbbbbbbbbbbbbbbbbbbbbbbb"];
        for (limit, equal) in [(ComponentLimit::Prefix(9), 6), (ComponentLimit::Digest(16), 0)] {
            for direction in [SortDirection::Ascending, SortDirection::Descending] {
                let keys: Vec<_> = texts.iter().map(|text| cut(text, limit, direction)).collect();
                let same = (0..texts.len()).map(|one| keys[one + 1..].iter().filter(|key| **key == keys[one]).count());
                assert_eq!(same.sum::<usize>(), equal, "{limit:?}");
                assert_eq!(keys[0] < keys[5], direction == SortDirection::Ascending);
                assert_eq!(keys[2] < keys[6], direction == SortDirection::Ascending);
            }
            for text in texts {
                let mut beginning = Vec::new();
                write_prefix(text, SortDirection::Ascending, &order, limit, &mut beginning);
                assert!(cut(&format!("{text}a"), limit, SortDirection::Ascending).starts_with(&beginning), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn truncated_component_is_well_formed(text in "\\PC{0,12}", limit in 9_usize..24, digest: bool, down: bool) {
            let limit = if digest { ComponentLimit::Digest(limit + 7) } else { ComponentLimit::Prefix(limit) };
            let order = if down { SortDirection::Descending } else { SortDirection::Ascending };
            let mut out = Vec::new();
            write(CellValue::Text(&text), order, &TextOrder::of_locale("", TextComparison { case: true, accents: true }), limit, &mut out);
            prop_assert!(out.len() <= limit.bytes());
            prop_assert_eq!(length(&out, order), Some(out.len()));
        }

        #[test]
        fn no_component_is_a_prefix_of_another(one in ".{0,12}", other in ".{0,12}", down: bool) {
            let order = if down { SortDirection::Descending } else { SortDirection::Ascending };
            let one = component(CellValue::Text(&one), order, PLAIN);
            let other = component(CellValue::Text(&other), order, PLAIN);
            prop_assert!(one == other || !one.starts_with(&other) && !other.starts_with(&one));
        }

        #[test]
        fn component_length_is_found_before_any_suffix(text in ".{0,12}", number: f64, rest: Vec<u8>, down: bool) {
            let order = if down { SortDirection::Descending } else { SortDirection::Ascending };
            for value in [CellValue::Text(&text), CellValue::Number(number), CellValue::None, CellValue::Error] {
                let component = component(value, order, PLAIN);
                prop_assert_eq!(length(&[&component[..], &rest].concat(), order), Some(component.len()));
                prop_assert_eq!(length(&component[..component.len() - 1], order), None);
            }
        }

        #[test]
        fn numbers_compare_as_numbers(one: f64, other: f64) {
            let key = |number| component(CellValue::Number(number), SortDirection::Ascending, PLAIN);
            if let Some(ordering) = one.partial_cmp(&other) {
                prop_assert_eq!(key(one).cmp(&key(other)), ordering);
            }
        }
    }
}
