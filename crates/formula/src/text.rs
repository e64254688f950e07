//! Texts that are borrowed from a document or program, or shared when they were made.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// A text that is cheap to copy.
#[derive(Clone)]
pub enum Text<'d> {
    /// Lent by the document, the host or the program.
    Borrowed(&'d str),
    /// Made by the evaluation.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The empty text.
    pub const EMPTY: Text<'static> = Text::Borrowed("");

    /// Gives the characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }

    /// Gives a text that borrows from nobody.
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

/// Tells whether two texts are equal but for case.
#[must_use]
pub fn equal_but_for_case(one: &str, other: &str) -> bool {
    if one == other {
        return true;
    }
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// What a comparison of texts heeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sensitivity {
    /// Case.
    pub case: bool,
    /// Accents.
    pub accent: bool,
    /// How texts are gone through.
    pub manner: Manner,
}

/// How texts are gone through to compare them. The original describes one for `@Sort` and another for `@Compare`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// As words in a dictionary: accents and case decide only where nothing else does. Apostrophe and dash stand behind letters.
    Words,
    /// Character by character, a small letter before its capital and that before the next letter. Apostrophe and dash stand before digits.
    Characters,
}

impl Sensitivity {
    /// What `@Sort` heeds.
    pub const SORT: Self = Self { case: true, accent: true, manner: Manner::Words };
    /// What `@Compare` heeds.
    pub const COMPARE: Self = Self { case: true, accent: true, manner: Manner::Characters };
    /// What operators heed.
    pub const OPERATOR: Self = Self { case: false, accent: true, manner: Manner::Words };
}

/// Compares two texts in the order that is used where a host has no collation of its own: blanks, digits, letters, the rest, and apostrophe and dash where
/// [`Manner`] says.
#[must_use]
pub fn compare(one: &str, other: &str, sensitivity: Sensitivity) -> Ordering {
    match sensitivity.manner {
        _ if one == other => Ordering::Equal,
        Manner::Words => compare_words(one, other, sensitivity),
        Manner::Characters => characters(one, sensitivity).cmp(characters(other, sensitivity)),
    }
}

/// Compares without accents and case. Where that makes no difference, accents and then case do, if they are heeded: plain before accented, small before
/// large.
fn compare_words(one: &str, other: &str, sensitivity: Sensitivity) -> Ordering {
    let mut order = words(one).cmp(words(other));
    if order.is_eq() && sensitivity.accent {
        order = one.nfd().flat_map(char::to_lowercase).cmp(other.nfd().flat_map(char::to_lowercase));
    }
    if order.is_eq() && sensitivity.case {
        // Small letters have the greater code points.
        order = base_letters(other).cmp(base_letters(one));
    }
    order
}

fn base_letters(text: &str) -> impl Iterator<Item = char> + '_ {
    text.nfd().filter(|c| !is_combining_mark(*c))
}

fn words(text: &str) -> impl Iterator<Item = (u8, char)> + '_ {
    base_letters(text).flat_map(char::to_lowercase).map(|c| (class(c, Manner::Words), c))
}

/// Gives what each character is compared by: its class, its letter, its accent and its case.
fn characters(text: &str, sensitivity: Sensitivity) -> impl Iterator<Item = (u8, char, char, bool)> + '_ {
    text.nfc().map(move |c| {
        let small = c.to_lowercase().next().unwrap_or(c);
        let letter = std::iter::once(small).nfd().next().unwrap_or(small);
        let accented = if sensitivity.accent { small } else { letter };
        (class(letter, Manner::Characters), letter, accented, sensitivity.case && c.is_uppercase())
    })
}

fn class(c: char, manner: Manner) -> u8 {
    match (c, manner) {
        _ if c.is_whitespace() => 0,
        ('\'', Manner::Characters) => 1,
        ('-', Manner::Characters) => 2,
        _ if c.is_numeric() => 3,
        _ if c.is_alphabetic() => 4,
        ('\'', Manner::Words) => 5,
        ('-', Manner::Words) => 6,
        _ => 7,
    }
}
