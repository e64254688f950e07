//! Extraction of the indexed text of a note.
//!
//! This module reads items of general types: texts, rich text, numbers, times and attachments. Items in a format of
//! their own, such as the parts of a message, can be read only by the crate that wrote them; that crate implements
//! [`ContentReader`].

use notes::item::ItemFlags;
use notes::{DatabaseSnapshot, Item, ItemValue, NoteHeader, Summary};

use crate::error::{Error, Result};
use crate::extract::IsolatedReader;
use crate::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX};
use crate::text::{FILE_ITEM, NoteText};
use crate::{extract, html};

/// Reads the contents of notes that hold more than plain items.
pub trait ContentReader: Send + Sync {
    /// Adds the text of a note's body to `text`. Returns `false` if the note is not of a kind that this reader knows.
    /// The summary items have already been added.
    ///
    /// # Errors
    ///
    /// After an error for which [`Error::is_damage`] is `true`, only the text that could not be read is missing from
    /// the index. Any other error stops the update.
    fn read(&self, note: &OpenNote<'_>, text: &mut NoteText) -> Result<bool>;
}

/// A note whose contents are read.
pub struct OpenNote<'n> {
    /// The snapshot that contains the note.
    pub reading: &'n DatabaseSnapshot<'n>,
    /// The note's header.
    pub header: &'n NoteHeader,
    /// The note's summary record.
    pub summary: &'n Summary,
    /// The reader of files that are not read in this process.
    pub isolated_reader: Option<&'n dyn IsolatedReader>,
}

/// The text of a note, and whether some of it could not be read.
pub(crate) struct ReadText {
    pub(crate) text: NoteText,
    pub(crate) damaged: bool,
}

/// Collects the text of a note.
pub(crate) fn read(note: &OpenNote<'_>, readers: &[Box<dyn ContentReader>]) -> Result<ReadText> {
    let mut text = NoteText::new(note.reading.database().number());
    note.summary.items.iter().for_each(|item| take_item(item, &mut text));
    let body =
        readers.iter().find_map(|reader| reader.read(note, &mut text).map(|knows| knows.then_some(())).transpose());
    let body = body.unwrap_or_else(|| read_body(note, &mut text));
    match body {
        Ok(()) => Ok(ReadText { text, damaged: false }),
        // An item may name a content that the note does not have.
        Err(error) if error.is_damage() || matches!(error, Error::Notes(notes::Error::NotFound { .. })) => {
            Ok(ReadText { text, damaged: true })
        }
        Err(error) => Err(error),
    }
}

/// Adds the text of the body items and then of the attachments.
///
/// Body items are read one by one, so that only one of them is in memory at a time. Attachments come last, so that
/// large ones do not take the space of the document's own text.
fn read_body(note: &OpenNote<'_>, text: &mut NoteText) -> Result<()> {
    let mut files: Vec<ItemValue> =
        note.summary.items.iter().filter(|item| is_file(item)).map(|item| item.value.clone()).collect();
    for body in &note.summary.body {
        let Some(item) = note.reading.body_item(note.header.note, body.ordinal)? else {
            return Err(Error::Contents(format!("an item of note {} is missing", note.header.note)));
        };
        take_item(&item, text);
        if is_file(&item) {
            files.push(item.value);
        }
    }
    files.iter().take(ATTACHMENTS_MAX).try_for_each(|file| read_attachment(note, file, text))
}

fn is_file(item: &Item) -> bool {
    matches!(item.value, ItemValue::Object { .. })
}

fn read_attachment(note: &OpenNote<'_>, file: &ItemValue, text: &mut NoteText) -> Result<()> {
    let ItemValue::Object { file_name, media_type, length, blob } = file else { return Ok(()) };
    let Some(kind) = extract::FileKind::from_media_type(media_type, file_name) else { return Ok(()) };
    if *length > ATTACHMENT_BYTES_MAX as u64 || text.is_full() || !text.try_count_file(kind) {
        return Ok(());
    }
    let bytes = note.reading.blob(note.header.note, blob)?;
    if let Some(found) = extract::text(kind, &bytes, note.isolated_reader) {
        text.add_attachment(&found);
    }
    Ok(())
}

fn take_item(item: &Item, text: &mut NoteText) {
    let name = &item.name;
    match &item.value {
        ItemValue::Text(one) if item.flags.contains(ItemFlags::SUMMARY) || !is_body(name) => text.add_item(name, one),
        ItemValue::Text(one) => text.add_body(one),
        ItemValue::TextList(several) => several.iter().for_each(|one| text.add_item(name, one)),
        ItemValue::RichText(source) if is_body(name) => text.add_body(&html::to_text(source)),
        ItemValue::RichText(source) => text.add_item(name, &html::to_text(source)),
        ItemValue::Number(number) => text.add_number(name, *number),
        ItemValue::NumberList(numbers) => numbers.iter().for_each(|number| text.add_number(name, *number)),
        ItemValue::Time(time) => text.add_time(name, *time),
        ItemValue::TimeList(times) => times.iter().for_each(|time| text.add_time(name, *time)),
        ItemValue::Object { file_name, .. } => text.add_item(FILE_ITEM, file_name),
        ItemValue::Json(json) => text.add_item(name, json),
        ItemValue::MimePart(_) | ItemValue::NoteReferences(_) => {}
    }
}

fn is_body(name: &str) -> bool {
    name.eq_ignore_ascii_case(BODY_ITEM)
}

/// The item that holds the body text of a document.
pub(crate) const BODY_ITEM: &str = "Body";
