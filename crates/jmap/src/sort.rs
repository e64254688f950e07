//! Orders of messages (RFC 8621 §4.4.2): comparators, and the keys by which messages are sorted.
//!
//! Messages with equal keys are ordered by note, so that an order is total and pages never overlap. Texts are compared
//! in the collation of the comparator, which is `i;unicode-casemap` if it names none. A sender is compared by the
//! display name, or by the address if there is none; a subject by the base subject (RFC 5256 §2.1).

use std::cmp::{Ordering, Reverse};

use base::{NoteId, Timestamp};
use mail::casemap::fold;
use mail::message_table::{MessageRow, SortTexts};
use notes::Keywords;
use serde_json::Value;

use crate::account::AccountView;
use crate::error::{MethodError, MethodResult};
use crate::keyword::{self, KeywordTest};
use crate::limits::COMPARATORS_MAX;

/// The properties by which messages can be sorted.
pub const SORT_PROPERTIES: [&str; 9] = [
    "receivedAt",
    "sentAt",
    "size",
    "from",
    "to",
    "subject",
    "hasKeyword",
    "allInThreadHaveKeyword",
    "someInThreadHaveKeyword",
];

/// An order of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmailSort {
    comparators: Vec<Comparator>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Comparator {
    key: SortKey,
    is_ascending: bool,
    collation: Collation,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum SortKey {
    Received,
    Sent,
    Size,
    From,
    To,
    Subject,
    HasKeyword(KeywordTest),
    AllInThread(KeywordTest),
    SomeInThread(KeywordTest),
}

/// The comparison of texts (RFC 4790).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collation {
    /// `i;ascii-casemap`.
    Ascii,
    /// `i;unicode-casemap`.
    Unicode,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Number(i64),
    Text(String),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Ascending(KeyValue),
    Descending(Reverse<KeyValue>),
}

impl EmailSort {
    /// Parses the argument `sort`.
    pub fn parse(sort: Option<&[Value]>, keywords: &Keywords) -> MethodResult<Self> {
        let sort = sort.unwrap_or_default();
        if sort.len() > COMPARATORS_MAX {
            return Err(MethodError::described("unsupportedSort", "there are too many comparators"));
        }
        let comparators = sort.iter().map(|value| Comparator::parse(value, keywords)).collect::<MethodResult<_>>()?;
        Ok(Self { comparators })
    }

    /// Returns `true` if the place of a message depends on others of its thread.
    #[must_use]
    pub fn depends_on_threads(&self) -> bool {
        let depends = |key: &SortKey| matches!(key, SortKey::AllInThread(_) | SortKey::SomeInThread(_));
        self.comparators.iter().any(|comparator| depends(&comparator.key))
    }

    /// Returns `true` if the place of a message can change.
    #[must_use]
    pub fn is_mutable(&self) -> bool {
        let changes = |key: &SortKey| matches!(key, SortKey::HasKeyword(_));
        self.depends_on_threads() || self.comparators.iter().any(|comparator| changes(&comparator.key))
    }

    /// Returns whether the oldest message comes first, if the order is that of the time of receipt.
    #[must_use]
    pub fn by_time(&self) -> Option<bool> {
        match self.comparators.as_slice() {
            [] => Some(false),
            [Comparator { key: SortKey::Received, is_ascending, .. }] => Some(*is_ascending),
            _ => None,
        }
    }

    /// Returns the notes of messages in this order. Without comparators, the newest message comes first.
    #[must_use]
    pub fn sorted(&self, rows: &[&MessageRow], view: &AccountView<'_>) -> Vec<NoteId> {
        let by_time = |is_ascending: bool| {
            let mut order: Vec<(Timestamp, NoteId)> = rows.iter().map(|row| (row.received, row.note)).collect();
            match is_ascending {
                true => order.sort_unstable(),
                false => order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1))),
            }
            order.into_iter().map(|(_, note)| note).collect()
        };
        if let Some(is_ascending) = self.by_time() {
            return by_time(is_ascending);
        }
        let keys = |row: &&MessageRow| self.comparators.iter().map(|by| by.key_of(row, view)).collect::<Vec<_>>();
        let mut order: Vec<(Vec<Key>, NoteId)> = rows.iter().map(|row| (keys(row), row.note)).collect();
        order.sort_unstable_by(|a, b| match a.0.cmp(&b.0) {
            Ordering::Equal => a.1.cmp(&b.1),
            other => other,
        });
        order.into_iter().map(|(_, note)| note).collect()
    }
}

impl Comparator {
    fn parse(value: &Value, keywords: &Keywords) -> MethodResult<Self> {
        let invalid = || MethodError::invalid_arguments("a comparator is not valid");
        let members = value.as_object().ok_or_else(invalid)?;
        let property = members.get("property").and_then(Value::as_str).ok_or_else(invalid)?;
        let is_ascending = match members.get("isAscending") {
            None | Some(Value::Null) => true,
            Some(value) => value.as_bool().ok_or_else(invalid)?,
        };
        let collation = Collation::parse(members.get("collation"))?;
        let test = || {
            let keyword = members.get("keyword").and_then(Value::as_str).filter(|name| keyword::is_valid(name));
            keyword.map(|name| KeywordTest::new(name, keywords)).ok_or_else(invalid)
        };
        let key = match property {
            "receivedAt" => SortKey::Received,
            "sentAt" => SortKey::Sent,
            "size" => SortKey::Size,
            "from" => SortKey::From,
            "to" => SortKey::To,
            "subject" => SortKey::Subject,
            "hasKeyword" => SortKey::HasKeyword(test()?),
            "allInThreadHaveKeyword" => SortKey::AllInThread(test()?),
            "someInThreadHaveKeyword" => SortKey::SomeInThread(test()?),
            _ => return Err(MethodError::described("unsupportedSort", format!("cannot sort by {property}"))),
        };
        Ok(Self { key, is_ascending, collation })
    }

    fn key_of(&self, row: &MessageRow, view: &AccountView<'_>) -> Key {
        let has = |test: KeywordTest, row: &MessageRow| test.is_in(row.marks, &row.keywords);
        let number = |number: u64| KeyValue::Number(i64::try_from(number).unwrap_or(i64::MAX));
        let text = |text: &str| KeyValue::Text(self.collation.fold(text));
        let value = match self.key {
            SortKey::Received => KeyValue::Number(row.received.0),
            SortKey::Sent => KeyValue::Number(texts(row, view).sent.unwrap_or(row.received).0),
            SortKey::Size => number(row.size),
            SortKey::From => text(&texts(row, view).from),
            SortKey::To => text(&texts(row, view).to),
            SortKey::Subject => KeyValue::Text(texts(row, view).subject.clone()),
            SortKey::HasKeyword(test) => number(u64::from(has(test, row))),
            SortKey::AllInThread(test) => {
                number(u64::from(view.table.thread(&row.thread).all(|other| has(test, other))))
            }
            SortKey::SomeInThread(test) => {
                number(u64::from(view.table.thread(&row.thread).any(|other| has(test, other))))
            }
        };
        if self.is_ascending { Key::Ascending(value) } else { Key::Descending(Reverse(value)) }
    }
}

impl Collation {
    /// Parses the property `collation` of a comparator.
    pub fn parse(value: Option<&Value>) -> MethodResult<Self> {
        match value {
            None | Some(Value::Null) => Ok(Self::Unicode),
            Some(Value::String(name)) if name == "i;unicode-casemap" => Ok(Self::Unicode),
            Some(Value::String(name)) if name == "i;ascii-casemap" => Ok(Self::Ascii),
            Some(Value::String(_)) => Err(MethodError::described("unsupportedSort", "unknown collation")),
            Some(_) => Err(MethodError::invalid_arguments("a comparator is not valid")),
        }
    }

    /// Returns a text in the form in which it is compared.
    #[must_use]
    pub fn fold(self, text: &str) -> String {
        match self {
            Self::Ascii => text.to_ascii_uppercase(),
            Self::Unicode => fold(text),
        }
    }
}

/// Returns the texts by which a message is sorted. They are read when they are first needed.
pub fn texts<'r>(row: &'r MessageRow, view: &AccountView<'_>) -> &'r SortTexts {
    row.texts(&view.snapshot, |error| tracing::error!(%error, email = %row.email_id, "a message cannot be read"))
}
