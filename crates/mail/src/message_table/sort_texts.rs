//! The texts by which a message is sorted. They are read when an order needs them first.
//!
//! A sender is compared by the display name, or by the address if there is none; a subject by the base subject (RFC
//! 5256 §2.1). The items of the summary have them, truncated to the length that lists show, and many summaries are read
//! with one scan. Only composed messages, which have no such items, are opened.

use std::collections::HashMap;

use base::{NoteId, Timestamp};
use notes::NoteFlags;
use notes::item::{ItemRef, ItemValueRef};

use super::MessageRow;
use crate::error::{Error, Result};
use crate::mailbox::MailSnapshot;
use crate::message::{name_of_display_text, summary_items};
use crate::mime::MimeSource as _;
use crate::mime::base_subject::BaseSubject;

/// The texts by which a message is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortTexts {
    /// The base subject, in the form in which it is compared.
    pub subject: String,
    /// The first sender.
    pub from: String,
    /// The first recipient.
    pub to: String,
    /// The value of Date, or `None` if it is missing or invalid.
    pub sent: Option<Timestamp>,
}

/// The texts of a message before they are read.
pub(super) static UNREAD: SortTexts =
    SortTexts { subject: String::new(), from: String::new(), to: String::new(), sent: None };

impl SortTexts {
    fn of_items<'i>(items: impl IntoIterator<Item = ItemRef<'i>>) -> Self {
        let mut texts = Self::default();
        for item in items {
            match (item.name, item.value) {
                ("Subject", ItemValueRef::Text(subject)) => texts.subject = BaseSubject::of_text(subject).text,
                ("From", value) => texts.from = first_name(&value),
                ("SendTo", value) => texts.to = first_name(&value),
                ("PostedDate", ItemValueRef::Time(sent)) => texts.sent = Some(sent),
                _ => {}
            }
        }
        texts
    }

    fn of_message(note: NoteId, snapshot: &MailSnapshot<'_>) -> Result<Self> {
        match snapshot.message(note) {
            Ok(Some(message)) => Ok(Self::of_header(message.header())),
            Ok(None) => Ok(Self::default()),
            Err(error) if error.is_damage() => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    fn of_header(header: &[u8]) -> Self {
        let items = summary_items(header);
        Self::of_items(items.iter().map(notes::Item::as_borrowed))
    }
}

/// Reads the texts by which messages are sorted, of those that have none yet. The texts of damaged messages are empty;
/// the damage is reported when the message is shown.
pub fn read_sort_texts<'r>(rows: impl IntoIterator<Item = &'r MessageRow>, snapshot: &MailSnapshot<'_>) -> Result<()> {
    let missing = rows.into_iter().filter(|row| row.sort_texts.get().is_none());
    let missing: HashMap<NoteId, &MessageRow> = missing.map(|row| (row.note, row)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut notes: Vec<NoteId> = missing.keys().copied().collect();
    notes.sort_unstable();
    let mut composed = Vec::new();
    let read = snapshot.reading().for_each_summary(notes, &mut |header, items| {
        let Some(row) = missing.get(&header.note) else { return Ok(true) };
        if header.flags.contains(NoteFlags::COMPOSED) {
            composed.push(*row);
        } else {
            row.keep_sort_texts(SortTexts::of_items(items.iter().cloned()));
        }
        Ok(true)
    });
    // A damaged summary ends the scan, so the messages after it are opened.
    match read.map_err(Error::from) {
        Ok(()) => {}
        Err(error) if error.is_damage() => composed.extend(missing.into_values()),
        Err(error) => return Err(error),
    }
    for row in composed.into_iter().filter(|row| row.sort_texts.get().is_none()) {
        row.keep_sort_texts(SortTexts::of_message(row.note, snapshot)?);
    }
    Ok(())
}

fn first_name(value: &ItemValueRef<'_>) -> String {
    let first = match value {
        ItemValueRef::TextList(texts) => texts.first().copied(),
        ItemValueRef::Text(text) => Some(*text),
        _ => None,
    };
    first.map_or_else(String::new, |text| name_of_display_text(text).to_owned())
}
