//! The mailboxes of a message: the property `mailboxIds`, and the one function that changes the places of a note.
//!
//! The property is a set. [`crate::limits::Limits`] states how many mailboxes a message may be in.

use std::collections::BTreeSet;

use base::{NoteId, ViewId};
use mail::mailbox_list::MailboxList;
use notes::Writer;
use serde_json::Value;

use crate::error::SetError;

/// Parses the property `mailboxIds`: an object whose values are `true`.
pub fn parse(value: &Value) -> Result<Vec<String>, SetError> {
    let invalid = || SetError::invalid_properties(&["mailboxIds"], "mailboxIds is not a set of Ids");
    let members = value.as_object().ok_or_else(invalid)?;
    if members.values().any(|value| *value != Value::Bool(true)) {
        return Err(invalid());
    }
    Ok(members.keys().cloned().collect())
}

/// Returns the folders of mailboxes, and checks that a message may be in all of them at the same time.
pub fn resolve(
    ids: &[String],
    list: &MailboxList,
    resolve_id: &dyn Fn(&str) -> Option<String>,
    count_max: u64,
) -> Result<BTreeSet<ViewId>, SetError> {
    let mut places = BTreeSet::new();
    for id in ids {
        let mailbox = resolve_id(id).and_then(|id| list.by_id(&id));
        let mailbox = mailbox
            .ok_or_else(|| SetError::invalid_properties(&["mailboxIds"], format!("there is no mailbox {id:?}")))?;
        if !mailbox.is_selectable {
            return Err(SetError::described("forbidden", format!("mailbox {id:?} holds no messages")));
        }
        places.insert(mailbox.view);
    }
    if places.is_empty() {
        return Err(SetError::invalid_properties(&["mailboxIds"], "a message is in at least one mailbox"));
    }
    if places.len() as u64 > count_max {
        return Err(SetError::described("tooManyMailboxes", "the message would be in too many mailboxes"));
    }
    Ok(places)
}

/// Changes the mailboxes of a message. Returns `true` if anything changed.
pub fn change(
    writer: &mut Writer<'_, '_>,
    note: NoteId,
    before: &BTreeSet<ViewId>,
    after: &BTreeSet<ViewId>,
) -> notes::Result<bool> {
    for place in before.difference(after) {
        writer.folder_remove(note, *place)?;
    }
    for place in after.difference(before) {
        writer.folder_add(note, *place)?;
    }
    Ok(before != after)
}
