//! Notices: what a form has done, and how it can be undone.
//!
//! After each form the browser is sent to another page (redirection after POST), so that a reload repeats nothing. The
//! notice is part of that page's address, and signed with the secret of the session: a link of a stranger cannot make
//! a page say something that did not happen, or offer an undo that does something else.

use base::UidSet;

use crate::form_token::FormSecret;
use crate::limits::UNDO_BYTES_MAX;
use crate::shown_text;

/// Where the form is sent that withdraws a message.
pub(crate) const UNDO_PATH: &str = "/lite/compose/undo";

/// Something that has just happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Messages were moved.
    Moved(MovedMessages),
    /// A message is held.
    Held(HeldMessage),
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

/// A message that is held for some time, in which it can be withdrawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldMessage {
    /// The identifier of the message in the queue.
    pub id: String,
    /// The time, in seconds.
    pub seconds: u32,
}

/// A notice as a page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownNotice {
    /// The text.
    pub text: String,
    /// The undo, if there is one.
    pub undo: Option<Undo>,
}

/// The form that takes something back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// The address to which it is sent.
    pub address: String,
    /// Its fields besides the token.
    pub fields: Vec<(&'static str, String)>,
}

impl Undo {
    fn of_move(folder: u32, target: &str, uids: String) -> Self {
        let fields =
            vec![("uids", uids), ("to", target.to_owned()), ("undo", "1".to_owned()), ("do", "move".to_owned())];
        Self { address: format!("/lite/folder/{folder}"), fields }
    }

    fn of_sending(id: &str) -> Self {
        Self { address: UNDO_PATH.to_owned(), fields: vec![("id", id.to_owned())] }
    }
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
        if let Some(held) = text.strip_prefix("h.") {
            let (seconds, id) = held.split_once('.')?;
            let text = format!("The message will be sent in {seconds} seconds.");
            return Some(ShownNotice { text, undo: Some(Undo::of_sending(id)) });
        }
        let mut parts = text.strip_prefix("m.")?.splitn(5, '.');
        let count: u64 = parts.next()?.parse().ok()?;
        let source = parts.next()?;
        let target: u32 = parts.next()?.parse().ok()?;
        let uids = parts.next()?.to_owned();
        let name = parts.next()?;
        let messages = if count == 1 {
            "1 message was".to_owned()
        } else {
            format!("{} messages were", shown_text::number(count))
        };
        let text = match count {
            0 => "The messages were moved or deleted before.".to_owned(),
            _ => format!("{messages} moved to {name}."),
        };
        let undo = (!uids.is_empty()).then(|| Undo::of_move(target, source, uids));
        Some(ShownNotice { text, undo })
    }

    fn encoded(&self) -> String {
        match self {
            Self::Text(text) => format!("t.{text}"),
            Self::Held(held) => format!("h.{}.{}", held.seconds, held.id),
            Self::Moved(moved) => {
                let uids = if can_undo(&moved.uids) { uid_text(&moved.uids) } else { String::new() };
                format!("m.{}.{}.{}.{uids}.{}", moved.count, moved.source, moved.target, moved.target_name)
            }
        }
    }
}

/// Returns `true` if a notice can offer to move these messages back.
pub(crate) fn can_undo(uids: &UidSet) -> bool {
    !uids.is_empty() && uid_text(uids).len() <= UNDO_BYTES_MAX
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
        assert_eq!(shown.undo, Some(Undo::of_move(8, "7", "3-5_9".to_owned())));
        assert_eq!(Notice::read(&fields[0].1, &fields[1].1, &FormSecret::of_session("b")), None);
        assert_eq!(Notice::read("t.You have won", "", &secret), None);
        let held = Notice::Held(HeldMessage { id: "AB".to_owned(), seconds: 10 }).encoded();
        let shown = Notice::read(&held, &secret.signature(&held), &secret).expect("it is signed");
        assert_eq!(shown.text, "The message will be sent in 10 seconds.");
        assert_eq!(shown.undo, Some(Undo::of_sending("AB")));
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
