//! Notices: what a form has done, and how it can be undone.
//!
//! After each form the browser is sent to another page (redirection after POST), so that a reload repeats nothing. The
//! notice is part of that page's address, and signed with the secret of the session: a link of a stranger cannot make
//! a page say something that did not happen, or offer an undo that does something else.

use base::UidSet;

use crate::form_token::FormSecret;
use crate::limits::UNDO_BYTES_MAX;
use crate::shown_text;

/// Something that has just happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Messages were moved.
    Moved(MovedMessages),
    /// A text.
    Text(String),
}

/// Messages that were moved, and how to move them back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedMessages {
    /// Number of messages.
    pub count: u64,
    /// The folder in which they were.
    pub source: u32,
    /// The folder in which they are.
    pub target: u32,
    /// Their UIDs there.
    pub uids: UidSet,
    /// The name of the folder in which they are.
    pub target_name: String,
}

/// A notice as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownNotice {
    /// The text.
    pub text: String,
    /// The undo, if there is one.
    pub undo: Option<Undo>,
}

/// The fields of a form that moves messages back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// The folder in which the messages are.
    pub folder: u32,
    /// The folder to which they return.
    pub target: u32,
    /// Their UIDs.
    pub uids: String,
}

impl Notice {
    /// Creates a notice of a text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Returns an address with the notice. `path` has a query or not.
    pub(crate) fn address(&self, path: &str, secret: &FormSecret) -> String {
        let text = self.encoded();
        let separator = if path.contains('?') { '&' } else { '?' };
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("done", &text).append_pair("sig", &secret.signature(&text));
        format!("{path}{separator}{}", query.finish())
    }

    /// Returns the notice of an address, unless its signature is wrong.
    pub(crate) fn read(text: &str, signature: &str, secret: &FormSecret) -> Option<ShownNotice> {
        if !secret.is_signature(text, signature) {
            return None;
        }
        if let Some(text) = text.strip_prefix("t.") {
            return Some(ShownNotice { text: text.to_owned(), undo: None });
        }
        let mut parts = text.strip_prefix("m.")?.splitn(5, '.');
        let count: u64 = parts.next()?.parse().ok()?;
        let source: u32 = parts.next()?.parse().ok()?;
        let target: u32 = parts.next()?.parse().ok()?;
        let uids = parts.next()?.to_owned();
        let name = parts.next()?;
        let messages = if count == 1 {
            "1 message was".to_owned()
        } else {
            format!("{} messages were", shown_text::number(count))
        };
        let text = format!("{messages} moved to {name}.");
        let undo = (!uids.is_empty()).then_some(Undo { folder: target, target: source, uids });
        Some(ShownNotice { text, undo })
    }

    fn encoded(&self) -> String {
        match self {
            Self::Text(text) => format!("t.{text}"),
            Self::Moved(moved) => {
                let uids = Some(uid_text(&moved.uids)).filter(|text| text.len() <= UNDO_BYTES_MAX).unwrap_or_default();
                format!("m.{}.{}.{}.{uids}.{}", moved.count, moved.source, moved.target, moved.target_name)
            }
        }
    }
}

/// Returns UIDs as a text such as `3-5_9`.
pub(crate) fn uid_text(uids: &UidSet) -> String {
    let ranges = uids.ranges().map(|range| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    });
    ranges.collect::<Vec<_>>().join("_")
}

/// Reads what [`uid_text`] writes.
pub(crate) fn parse_uids(text: &str) -> Option<UidSet> {
    let ranges = text.split('_').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    Some(ranges.collect::<Option<Vec<_>>>()?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_survive_their_address_and_nobody_else_can_make_them() {
        let secret = FormSecret::of_session("a");
        let uids: UidSet = [3, 4, 5, 9].into_iter().collect();
        let moved = MovedMessages { count: 4, source: 7, target: 8, uids, target_name: "A.b".to_owned() };
        let address = Notice::Moved(moved).address("/lite/folder/7", &secret);
        let query = address.split_once('?').expect("a query").1;
        let fields: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let shown = Notice::read(&fields[0].1, &fields[1].1, &secret).expect("it is signed");
        assert_eq!(shown.text, "4 messages were moved to A.b.");
        assert_eq!(shown.undo, Some(Undo { folder: 8, target: 7, uids: "3-5_9".to_owned() }));
        assert_eq!(Notice::read(&fields[0].1, &fields[1].1, &FormSecret::of_session("b")), None);
        assert_eq!(Notice::read("t.You have won", "", &secret), None);
    }

    #[test]
    fn uids_are_read_as_they_are_written() {
        let uids: UidSet = [1, 2, 3, 7].into_iter().collect();
        assert_eq!(parse_uids(&uid_text(&uids)), Some(uids));
        for wrong in ["", "x", "1-", "1__2", "-1"] {
            assert_eq!(parse_uids(wrong), None, "{wrong}");
        }
    }
}
