//! The keywords of a database: user-defined names, numbered so that folder entries stay small.
//!
//! The table only grows, and a keyword number always keeps its name. Names are compared without regard to ASCII case
//! (RFC 9051 §2.3.2) and keep the case in which they were first used. A name is found in logarithmic time, because
//! searches and changes of flags look up many names for many notes.

use std::cmp::Ordering;

use base::codec::{Decoder, Encoder, InvalidRecord};

use crate::error::{Error, Result};
use crate::limits::{KEYWORD_BYTES_MAX, KEYWORDS_PER_DATABASE_MAX};
use crate::note::Keyword;

/// The keywords of one database, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keywords {
    names: Vec<String>,
    /// The numbers in the order of their names without regard to case. Equal names, which only a damaged table has, are
    /// in the order of their numbers.
    sorted: Vec<u16>,
}

impl Keywords {
    /// Returns the number of an existing keyword.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Keyword> {
        let is_less = |number: &u16| compare(&self.names[usize::from(*number)], name) == Ordering::Less;
        let keyword = self.sorted.get(self.sorted.partition_point(is_less)).copied().map(Keyword)?;
        self.name(keyword).is_some_and(|known| known.eq_ignore_ascii_case(name)).then_some(keyword)
    }

    /// Returns the name of a keyword by its number.
    #[must_use]
    pub fn name(&self, keyword: Keyword) -> Option<&str> {
        self.names.get(usize::from(keyword.0)).map(String::as_str)
    }

    /// Returns all names, in the order of their numbers.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns a copy with at least `count` names, up to the limit of a database. Lost names are replaced by
    /// `damaged-N`.
    pub(crate) fn padded_to(&self, count: usize) -> Self {
        let mut filled = self.clone();
        for number in self.names.len()..count.min(KEYWORDS_PER_DATABASE_MAX) {
            let mut name = format!("damaged-{number}");
            while filled.find(&name).is_some() {
                name.push('_');
            }
            filled.push(name);
        }
        assert!(filled.names.starts_with(&self.names), "a keyword number always keeps its name");
        filled
    }

    /// Returns the number of a keyword, and defines it if necessary. The flag is `true` if the keyword is new.
    pub(crate) fn define(&mut self, name: &str) -> Result<(Keyword, bool)> {
        if let Some(known) = self.find(name) {
            return Ok((known, false));
        }
        if name.is_empty() || name.len() > KEYWORD_BYTES_MAX {
            return Err(Error::invalid(format!("keyword {name:?}"), "empty or too long"));
        }
        if self.names.len() >= KEYWORDS_PER_DATABASE_MAX {
            return Err(Error::Limit { what: "keywords of a database", max: KEYWORDS_PER_DATABASE_MAX });
        }
        self.push(name.to_owned());
        Ok((Keyword(self.names.len() as u16 - 1), true))
    }

    /// Adds a name.
    fn push(&mut self, name: String) {
        let is_before = |number: &u16| compare(&self.names[usize::from(*number)], &name) != Ordering::Greater;
        let place = self.sorted.partition_point(is_before);
        assert!(self.names.len() < usize::from(u16::MAX), "a keyword number fits in two bytes");
        self.sorted.insert(place, self.names.len() as u16);
        self.names.push(name);
    }

    /// Creates a table of at most [`KEYWORDS_PER_DATABASE_MAX`] names.
    fn from_names(names: Vec<String>) -> Self {
        assert!(names.len() <= KEYWORDS_PER_DATABASE_MAX, "a keyword number fits in two bytes");
        let mut sorted: Vec<u16> = (0..names.len() as u16).collect();
        sorted.sort_by(|a, b| compare(&names[usize::from(*a)], &names[usize::from(*b)]));
        Self { names, sorted }
    }

    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).varint(self.names.len() as u64);
        for name in &self.names {
            out.text(name);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let count = input.count()?;
        if count > KEYWORDS_PER_DATABASE_MAX {
            return Err(InvalidRecord);
        }
        let names = (0..count).map(|_| Ok(input.text()?.to_owned())).collect::<std::result::Result<_, _>>()?;
        Ok(Self::from_names(names))
    }

    /// Parses the readable part of a stored form that does not match its format: the names before the first invalid
    /// one.
    pub(crate) fn decode_readable(bytes: &[u8]) -> Self {
        let mut input = Decoder::new(bytes);
        let mut left = Self::default();
        let (Ok(1), Ok(count)) = (input.u8(), input.count()) else { return left };
        for _ in 0..count.min(KEYWORDS_PER_DATABASE_MAX) {
            let Ok(name) = input.text() else { break };
            if name.chars().any(char::is_control) || !matches!(left.define(name), Ok((_, true))) {
                break;
            }
        }
        left
    }
}

/// Compares two names without regard to ASCII case.
fn compare(a: &str, b: &str) -> Ordering {
    let lower_case = |byte: u8| byte.to_ascii_lowercase();
    a.bytes().map(lower_case).cmp(b.bytes().map(lower_case))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keywords(names: &[&str]) -> Keywords {
        Keywords::from_names(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn names_are_found_without_regard_to_case() {
        let mut defined = Keywords::default();
        let names: Vec<String> =
            (0..100).map(|number| format!("{}{}", ["x", "Y", "z_"][number % 3], number * 7)).collect();
        for (index, name) in names.iter().enumerate() {
            assert_eq!(defined.find(name), None);
            assert_eq!(defined.define(name).ok(), Some((Keyword(index as u16), true)));
            assert_eq!(defined.define(&name.to_ascii_uppercase()).ok(), Some((Keyword(index as u16), false)));
        }
        let decoded = Keywords::decode(&defined.encode()).expect("the table is valid");
        assert_eq!(decoded, defined);
        for (index, name) in names.iter().enumerate() {
            assert_eq!(decoded.find(&name.to_ascii_lowercase()), Some(Keyword(index as u16)));
        }
        for name in ["", "x", "zz", "Y7"] {
            assert_eq!(decoded.find(name), names.iter().position(|known| known == name).map(|at| Keyword(at as u16)));
        }
        assert_eq!(keywords(&["b", "A", "a", "B"]).find("a"), Some(Keyword(1)), "the first of equal names");
    }

    #[test]
    fn keywords_before_the_damage_are_kept() {
        let bytes = keywords(&["Work", "Home", "Later"]).encode();
        let check = |bytes: &[u8], expected: &[&str]| assert_eq!(Keywords::decode_readable(bytes), keywords(expected));
        check(&bytes, &["Work", "Home", "Later"]);
        check(&bytes[..bytes.len() - 1], &["Work", "Home"]);
        check(&[2, 1, 1, b'A'], &[]);
        check(&[1, 3, 1, b'A', 1, b'a', 1, b'B'], &["A"]);
        check(&[1, 2, 1, b'A', 1, 0x07], &["A"]);
        check(&[], &[]);
    }

    #[test]
    fn replacement_names_are_unique() {
        let filled = keywords(&["Work", "Damaged-2"]).padded_to(4);
        assert_eq!(filled, keywords(&["Work", "Damaged-2", "damaged-2_", "damaged-3"]));
        assert_eq!(filled.padded_to(0), filled);
        assert_eq!(Keywords::default().padded_to(usize::MAX).names.len(), KEYWORDS_PER_DATABASE_MAX);
    }
}
