//! The keywords of a database: names that users give, numbered so that folder entries stay small.
//!
//! The table only grows; a number never changes its meaning. Names compare without regard to ASCII case (RFC 9051
//! §2.3.2) and keep the case in which they were first used.

use base::codec::{Decoder, Encoder, Truncated};

use crate::error::{Error, Result};
use crate::limits::{KEYWORD_BYTES_MAX, KEYWORDS_PER_DATABASE_MAX};
use crate::note::Keyword;

/// The keywords of one database, by number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keywords {
    names: Vec<String>,
}

impl Keywords {
    /// Gives the number of a keyword that exists.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Keyword> {
        let index = self.names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        u16::try_from(index).ok().map(Keyword)
    }

    /// Gives the name of a number.
    #[must_use]
    pub fn name(&self, keyword: Keyword) -> Option<&str> {
        self.names.get(usize::from(keyword.0)).map(String::as_str)
    }

    /// Gives all names, in the order of their numbers.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Gives the number of a keyword and defines it where needed; tells whether it was new.
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
        self.names.push(name.to_owned());
        Ok((Keyword(self.names.len() as u16 - 1), true))
    }

    /// Gives the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).varint(self.names.len() as u64);
        for name in &self.names {
            out.text(name);
        }
        out.finish()
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(Truncated);
        }
        let count = input.count()?;
        if count > KEYWORDS_PER_DATABASE_MAX {
            return Err(Truncated);
        }
        let names = (0..count).map(|_| Ok(input.text()?.to_owned())).collect::<std::result::Result<_, _>>()?;
        Ok(Self { names })
    }
}
