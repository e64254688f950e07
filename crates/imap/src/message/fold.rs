//! Texts made comparable: `i;unicode-casemap` (RFC 5051), with which SEARCH, SORT and THREAD compare.
//!
//! Letters become upper case and characters are taken apart into base and marks, so that case and the way in which accents
//! are encoded make no difference. An accent itself does, but a search for `cafe` finds `café`, because the mark
//! comes after the letter.

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;

/// Gives the form of a text in which it is compared.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let ascii = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let (plain, after) = rest.split_at(ascii);
        let start = folded.len();
        folded.push_str(plain);
        folded[start..].make_ascii_uppercase();
        let other = after.bytes().position(|byte| byte.is_ascii()).unwrap_or(after.len());
        let (other, after) = after.split_at(other);
        // What is taken apart may leave small letters: `ª` is a small `a`.
        folded.extend(other.chars().flat_map(char::to_uppercase).nfkd().flat_map(char::to_uppercase));
        rest = after;
    }
    folded
}

/// A text to be found in others.
#[derive(Debug, Clone)]
pub struct Needle {
    finder: Box<memmem::Finder<'static>>,
}

impl Needle {
    /// Makes a text ready to be found.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { finder: Box::new(memmem::Finder::new(fold(text).as_bytes()).into_owned()) }
    }

    /// Tells whether there is nothing to be found, which is everywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finder.needle().is_empty()
    }

    /// Tells whether the text is in another.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        self.is_in_folded(&fold(text))
    }

    /// Tells whether the text is in another one that was folded.
    #[must_use]
    pub fn is_in_folded(&self, folded: &str) -> bool {
        self.finder.find(folded.as_bytes()).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_form_make_no_difference() {
        for (a, b) in [
            ("Hello", "hELLO"),
            ("\u{e9}", "E\u{301}"),
            ("stra\u{df}e", "STRASSE"),
            ("\u{fb01}n", "FIN"),
            ("\u{aa}", "A"),
        ] {
            assert_eq!(fold(a), fold(b));
        }
        assert_ne!(fold("\u{e9}"), fold("e"));
        assert_eq!(fold("aBC \u{fc}"), "ABC U\u{308}");
    }

    #[test]
    fn a_needle_is_found_anywhere() {
        assert!(Needle::new("M\u{dc}L").is_in("bei m\u{fc}ller"));
        assert!(Needle::new("cafe").is_in("Caf\u{e9}"));
        assert!(Needle::new("").is_in("") && Needle::new("").is_empty());
        assert!(!Needle::new("caf\u{e9}").is_in("cafe"));
    }
}
