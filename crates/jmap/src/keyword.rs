//! Keywords (RFC 8621 §4.1.1), shared with IMAP: `$seen` is `\Seen`, and so on. `\Deleted` is not a keyword.
//!
//! Keywords are told in lower case. They are compared without regard to case, as in IMAP.

use std::collections::BTreeSet;

use mail::mailbox::Flags;
use notes::{Keyword, Keywords, Marks};
use serde_json::{Map, Value, json};

use crate::error::SetError;
use crate::limits::KEYWORD_BYTES_MAX;

/// The keywords that are system flags in IMAP.
const MARKS: [(&str, Marks); 4] =
    [("$answered", Marks::ANSWERED), ("$draft", Marks::DRAFT), ("$flagged", Marks::FLAGGED), ("$seen", Marks::SEEN)];

/// The keyword of a message about which its sender was notified (RFC 9007 §1.2).
pub const MDN_SENT: &str = "$mdnsent";

/// A keyword that is looked for in many messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordTest {
    /// A system flag.
    Mark(Marks),
    /// A keyword by its number, or `None` if no message has had it.
    Number(Option<Keyword>),
}

impl KeywordTest {
    /// Prepares the test for a keyword.
    #[must_use]
    pub fn new(keyword: &str, table: &Keywords) -> Self {
        match mark(keyword) {
            Some(mark) => Self::Mark(mark),
            None => Self::Number(table.find(keyword)),
        }
    }

    /// Returns `true` if the test stays right when other keywords are defined.
    #[must_use]
    pub fn is_final(self) -> bool {
        self != Self::Number(None)
    }

    /// Returns `true` if the keyword is among those of a message.
    #[must_use]
    pub fn is_in(self, marks: Marks, keywords: &[Keyword]) -> bool {
        match self {
            Self::Mark(mark) => marks.contains(mark),
            Self::Number(number) => number.is_some_and(|number| keywords.contains(&number)),
        }
    }
}

/// Returns the keywords of a message, in order.
#[must_use]
pub fn names(marks: Marks, keywords: &[Keyword], table: &Keywords) -> Vec<String> {
    let system = MARKS.iter().filter(|(_, mark)| marks.contains(*mark)).map(|(name, _)| (*name).to_owned());
    let others = keywords.iter().filter_map(|keyword| table.name(*keyword)).map(str::to_ascii_lowercase);
    system.chain(others).filter(|name| is_valid(name)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the flags of keywords. `deleted` is kept from the message as it was.
#[must_use]
pub fn to_flags(names: &BTreeSet<String>, before: Marks) -> Flags {
    let mut flags = Flags::from_system_flags(before.intersection(Marks::DELETED));
    for name in names {
        match mark(name) {
            Some(mark) => flags.marks = flags.marks.union(mark),
            None => flags.keywords.push(name.clone()),
        }
    }
    flags
}

/// Parses the property `keywords`: an object whose values are `true`.
pub fn parse(value: &Value) -> Result<BTreeSet<String>, SetError> {
    let invalid = || SetError::invalid_properties(&["keywords"], "keywords is not a set of valid keywords");
    let members = value.as_object().ok_or_else(invalid)?;
    let mut names = BTreeSet::new();
    for (name, value) in members {
        if *value != Value::Bool(true) || !is_valid(name) {
            return Err(invalid());
        }
        names.insert(name.to_ascii_lowercase());
    }
    Ok(names)
}

/// Returns the property `keywords`.
#[must_use]
pub fn to_json(names: &[String]) -> Value {
    Value::Object(names.iter().map(|name| (name.clone(), json!(true))).collect::<Map<_, _>>())
}

/// Returns `true` for a valid keyword.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, 0x21..=0x7e) && !b"(){]%*\"\\".contains(&byte);
    (1..=KEYWORD_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn mark(name: &str) -> Option<Marks> {
    MARKS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, mark)| *mark)
}
