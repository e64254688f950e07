//! Texts that are borrowed from a document or program, or shared if the evaluation created them.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::limits::COMPARED_BYTES_USUAL;

/// A text that is cheap to clone.
#[derive(Clone)]
pub enum Text<'d> {
    /// A text borrowed from the document, the host or the program.
    Borrowed(&'d str),
    /// A text created by the evaluation.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The empty text.
    pub const EMPTY: Text<'static> = Text::Borrowed("");

    /// Returns the text as a string slice.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }

    /// Returns the text without borrowed data.
    #[must_use]
    pub fn into_owned(self) -> Text<'static> {
        match self {
            Self::Borrowed("") => Text::EMPTY,
            Self::Borrowed(text) => Text::Shared(text.into()),
            Self::Shared(text) => Text::Shared(text),
        }
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text<'_> {}

impl std::hash::Hash for Text<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl<'d> From<&'d str> for Text<'d> {
    fn from(text: &'d str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        if text.is_empty() { Self::Borrowed("") } else { Self::Shared(text.into()) }
    }
}

/// Returns `true` if two texts are equal when case is ignored.
#[must_use]
pub fn equal_ignore_case(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// Returns the number of steps charged for [`equal_ignore_case`], which ends at the end of the shorter text.
#[must_use]
pub fn equality_steps(one: &str, other: &str) -> usize {
    2 * one.len().min(other.len()) + one.len().max(other.len()) / 64
}

/// Returns the number of steps charged for comparing the order of two texts.
///
/// Most texts differ in their first characters. Long ones may be equal up to their end, or have many accents that the
/// comparison skips.
#[must_use]
pub fn order_steps(one: &str, other: &str) -> usize {
    let bytes = one.len() + other.len();
    bytes / 2 + 4 * bytes.saturating_sub(COMPARED_BYTES_USUAL)
}

/// The differences that a comparison of texts respects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sensitivity {
    /// `true` if case is respected.
    pub case: bool,
    /// `true` if accents are respected.
    pub accent: bool,
    /// The order of the comparison.
    pub order: CollationOrder,
}

/// The order in which texts are compared. Domino uses different orders for `@Sort` and `@Compare`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollationOrder {
    /// The order of words in a dictionary. Accents and case decide only if nothing else differs. Apostrophe and hyphen
    /// sort after letters.
    Words,
    /// Character by character. A lower-case letter sorts before its capital, and both before the next letter.
    /// Apostrophe and hyphen sort before digits.
    Characters,
}

impl Sensitivity {
    /// The sensitivity of `@Sort`.
    pub const SORT: Self = Self { case: true, accent: true, order: CollationOrder::Words };
    /// The sensitivity of `@Compare`.
    pub const COMPARE: Self = Self { case: true, accent: true, order: CollationOrder::Characters };
    /// The sensitivity of operators.
    pub const OPERATOR: Self = Self { case: false, accent: true, order: CollationOrder::Words };
}

/// Compares two texts in the order for hosts without their own collation: blanks, digits, letters, all other
/// characters. [`CollationOrder`] determines the place of apostrophe and hyphen.
#[must_use]
pub fn compare(one: &str, other: &str, sensitivity: Sensitivity) -> Ordering {
    match sensitivity.order {
        _ if one == other => Ordering::Equal,
        CollationOrder::Words => compare_words(one, other, sensitivity),
        CollationOrder::Characters => characters(one, sensitivity).cmp(characters(other, sensitivity)),
    }
}

/// Compares texts without accents and case.
///
/// If they are equal, accents and then case decide, as far as they are respected: plain before accented letters, lower
/// case before upper case.
fn compare_words(one: &str, other: &str, sensitivity: Sensitivity) -> Ordering {
    let mut order = words(one).cmp(words(other));
    if order.is_eq() && sensitivity.accent {
        order = one.nfd().flat_map(char::to_lowercase).cmp(other.nfd().flat_map(char::to_lowercase));
    }
    if order.is_eq() && sensitivity.case {
        // Lower-case letters have the greater code points.
        order = base_letters(other).cmp(base_letters(one));
    }
    order
}

fn base_letters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.nfd().filter(|c| !is_combining_mark(*c))
}

fn words(text: &str) -> impl Iterator<Item = (u8, char)> + '_ {
    base_letters(text).flat_map(char::to_lowercase).map(|c| (class(c, CollationOrder::Words), c))
}

/// Returns the sort key of each character: its class, its base letter, its accented letter and its case.
fn characters(text: &str, sensitivity: Sensitivity) -> impl Iterator<Item = (u8, char, char, bool)> + '_ {
    text.nfc().map(move |c| {
        let small = c.to_lowercase().next().unwrap_or(c);
        let letter = std::iter::once(small).nfd().next().unwrap_or(small);
        let accented = if sensitivity.accent { small } else { letter };
        (class(letter, CollationOrder::Characters), letter, accented, sensitivity.case && c.is_uppercase())
    })
}

fn class(c: char, manner: CollationOrder) -> u8 {
    match (c, manner) {
        _ if c.is_whitespace() => 0,
        ('\'', CollationOrder::Characters) => 1,
        ('-', CollationOrder::Characters) => 2,
        _ if c.is_numeric() => 3,
        _ if c.is_alphabetic() => 4,
        ('\'', CollationOrder::Words) => 5,
        ('-', CollationOrder::Words) => 6,
        _ => 7,
    }
}
