//! The order of a list, as the query of an address and the form of a list name it: `sort`, `order` and `threads`.
//!
//! This is the one place that writes and reads it. A field that is missing, or has another value, is left to the list.

use std::fmt;

use crate::form::Form;

/// The column by which a list is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    Date,
    Who,
    Subject,
    Size,
}

impl Column {
    const ALL: [Self; 4] = [Self::Date, Self::Who, Self::Subject, Self::Size];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Who => "who",
            Self::Subject => "subject",
            Self::Size => "size",
        }
    }

    fn with_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    /// Returns `true` if the smallest is the first unless the query says otherwise.
    pub(crate) fn is_ascending(self) -> bool {
        matches!(self, Self::Who | Self::Subject)
    }
}

/// The order of a list in a query or a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OrderQuery {
    /// The column.
    pub(crate) sort: Option<Column>,
    /// `true` for the smallest first, which is the oldest for dates.
    pub(crate) is_ascending: Option<bool>,
    /// `true` if each row is a conversation.
    pub(crate) has_threads: Option<bool>,
}

impl OrderQuery {
    pub(crate) fn read(query: &Form) -> Self {
        Self {
            sort: Column::with_name(query.text("sort")),
            is_ascending: choice(query.text("order"), "up", "down"),
            has_threads: choice(query.text("threads"), "1", "0"),
        }
    }

    /// Returns the names and the values of the fields that are set.
    pub(crate) fn fields(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let order = self.is_ascending.map(|is_ascending| if is_ascending { "up" } else { "down" });
        let threads = self.has_threads.map(|has_threads| if has_threads { "1" } else { "0" });
        let fields = [("sort", self.sort.map(Column::name)), ("order", order), ("threads", threads)];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

impl fmt::Display for OrderQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.fields().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { "&" })?;
        }
        Ok(())
    }
}

fn choice(text: &str, yes: &str, no: &str) -> Option<bool> {
    if text == yes { Some(true) } else { (text == no).then_some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, written: &str) {
        let form = Form::parse_urlencoded(query.as_bytes()).expect("a query");
        assert_eq!(OrderQuery::read(&form).to_string(), written, "{query}");
    }

    #[test]
    fn orders_are_read_as_they_are_written() {
        for column in ["date", "who", "subject", "size"] {
            for query in [format!("sort={column}&order=up"), format!("sort={column}&order=down&threads=1")] {
                check(&query, &query);
            }
        }
        check("threads=0&page=3&order=up", "order=up&threads=0");
        check("", "");
        check("sort=from&order=UP&threads=2", "");
        check("sort=%00&order=%ff&threads=", "");
    }
}
