//! Orders of messages (RFC 8621 §4.4.2): comparators, and the keys by which messages are sorted.
//!
//! Texts are compared in the collation of the comparator, which is `i;unicode-casemap` if it names none. Orders by
//! properties that never change are those of the table (`mail::message_table`); an order with a keyword is computed
//! here.

use base::NoteId;
use mail::message_table::{MessageRow, RowComparator, RowOrder, SortKey, SortProperty, SortValue, read_sort_texts};
use notes::Keywords;
use serde_json::Value;

use crate::account::AccountView;
use crate::comparator::parse_collation;
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
enum Comparator {
    /// By a property that never changes.
    Fixed(RowComparator),
    /// By a keyword.
    Keyword { test: KeywordTest, scope: KeywordScope, is_ascending: bool },
}

/// The messages that must have a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeywordScope {
    Message,
    AllInThread,
    SomeInThread,
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
        self.comparators.iter().any(
            |comparator| matches!(comparator, Comparator::Keyword { scope, .. } if *scope != KeywordScope::Message),
        )
    }

    /// Returns `true` if the place of a message can change.
    #[must_use]
    pub fn is_mutable(&self) -> bool {
        self.fixed().is_none()
    }

    /// Returns the order if the place of a message never changes. Without comparators, the newest message comes first.
    #[must_use]
    pub fn fixed(&self) -> Option<RowOrder> {
        if self.comparators.is_empty() {
            return Some(RowOrder::newest_first());
        }
        let fixed = self.comparators.iter().map(|comparator| match comparator {
            Comparator::Fixed(comparator) => Some(*comparator),
            Comparator::Keyword { .. } => None,
        });
        Some(RowOrder::new(fixed.collect::<Option<_>>()?))
    }

    /// Sorts messages by comparators some of which are keywords.
    pub fn sort(&self, rows: &mut [&MessageRow], view: &AccountView<'_>) -> MethodResult<()> {
        if self.comparators.iter().any(|by| matches!(by, Comparator::Fixed(by) if by.needs_texts())) {
            read_sort_texts(rows.iter().copied(), &view.snapshot)?;
        }
        let key = |row: &&MessageRow| -> (Vec<SortKey>, NoteId) {
            (self.comparators.iter().map(|comparator| comparator.key(row, view)).collect(), row.note)
        };
        rows.sort_by_cached_key(key);
        Ok(())
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
        let collation = parse_collation(members.get("collation"))?;
        let fixed = |property| Ok(Self::Fixed(RowComparator { property, is_ascending, collation }));
        let by_keyword = |scope| {
            let keyword = members.get("keyword").and_then(Value::as_str).filter(|name| keyword::is_valid(name));
            let test = keyword.map(|name| KeywordTest::new(name, keywords)).ok_or_else(invalid)?;
            Ok(Self::Keyword { test, scope, is_ascending })
        };
        match property {
            "receivedAt" => fixed(SortProperty::Received),
            "sentAt" => fixed(SortProperty::Sent),
            "size" => fixed(SortProperty::Size),
            "from" => fixed(SortProperty::From),
            "to" => fixed(SortProperty::To),
            "subject" => fixed(SortProperty::Subject),
            "hasKeyword" => by_keyword(KeywordScope::Message),
            "allInThreadHaveKeyword" => by_keyword(KeywordScope::AllInThread),
            "someInThreadHaveKeyword" => by_keyword(KeywordScope::SomeInThread),
            _ => Err(MethodError::described("unsupportedSort", format!("cannot sort by {property}"))),
        }
    }

    fn key(&self, row: &MessageRow, view: &AccountView<'_>) -> SortKey {
        let (test, scope, is_ascending) = match self {
            Self::Fixed(comparator) => return comparator.key(row),
            Self::Keyword { test, scope, is_ascending } => (test, scope, is_ascending),
        };
        let has = |row: &MessageRow| test.is_in(row.marks, &row.keywords);
        let found = match scope {
            KeywordScope::Message => has(row),
            KeywordScope::AllInThread => view.table.thread(&row.thread).all(has),
            KeywordScope::SomeInThread => view.table.thread(&row.thread).any(has),
        };
        SortKey::new(SortValue::Number(found.into()), *is_ascending)
    }
}
