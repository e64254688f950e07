//! What of a note is worth finding.
//!
//! Items of types that people read are taken here: texts, rich text, numbers, times, attachments. What an item holds in a form of its own, such as
//! the pieces of a message, only the room that wrote it can read; it says so by [`Contents`].

use notes::item::ItemFlags;
use notes::{Header, Item, Reading, Summary, Value};

use crate::error::{Error, Result};
use crate::extract::Elsewhere;
use crate::limits::{ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX};
use crate::text::{FILE_ITEM, NoteText};
use crate::{extract, html};

/// Reads the contents of notes that hold more than plain items.
pub trait Contents: Send + Sync {
    /// Puts what the body of a note says into `text`; false when the note is none of those that this one knows. The summary items are taken
    /// already.
    ///
    /// # Errors
    ///
    /// Damage ([`Error::is_damage`]) costs no more than what could not be read; any other error stops the update.
    fn read(&self, note: &Opened<'_>, text: &mut NoteText) -> Result<bool>;
}

/// A note whose contents are read.
pub struct Opened<'n> {
    /// The snapshot that shows it.
    pub reading: &'n Reading<'n>,
    /// Its header.
    pub header: &'n Header,
    /// Its summary record.
    pub summary: &'n Summary,
    /// Who reads what is not read here.
    pub elsewhere: Option<&'n dyn Elsewhere>,
}

/// What a note says, and whether some of it could not be read.
pub(crate) struct Read {
    pub(crate) text: NoteText,
    pub(crate) damaged: bool,
}

/// Collects what a note says.
pub(crate) fn read(note: &Opened<'_>, readers: &[Box<dyn Contents>]) -> Result<Read> {
    let mut text = NoteText::new(note.reading.database().number());
    note.summary.items.iter().for_each(|item| take_item(item, &mut text));
    let body =
        readers.iter().find_map(|reader| reader.read(note, &mut text).map(|knows| knows.then_some(())).transpose());
    let body = body.unwrap_or_else(|| read_body(note, &mut text));
    match body {
        Ok(()) => Ok(Read { text, damaged: false }),
        Err(error) if error.is_damage() => Ok(Read { text, damaged: true }),
        Err(error) => Err(error),
    }
}

/// Takes the body items one by one, so that no more than one of them is in memory; then what the attachments say, so that large ones do not leave what the
/// document itself says without room.
fn read_body(note: &Opened<'_>, text: &mut NoteText) -> Result<()> {
    let mut files: Vec<Value> =
        note.summary.items.iter().filter(|item| is_file(item)).map(|item| item.value.clone()).collect();
    for body in &note.summary.body {
        let Some(item) = note.reading.body_item(note.header.note, body.ordinal)? else {
            return Err(Error::Contents(format!("note {} lacks an item", note.header.note)));
        };
        take_item(&item, text);
        if is_file(&item) {
            files.push(item.value);
        }
    }
    files.iter().take(ATTACHMENTS_MAX).try_for_each(|file| read_attachment(note, file, text))
}

fn is_file(item: &Item) -> bool {
    matches!(item.value, Value::Object { .. })
}

fn read_attachment(note: &Opened<'_>, file: &Value, text: &mut NoteText) -> Result<()> {
    let Value::Object { file_name, media_type, length, blob } = file else { return Ok(()) };
    let Some(kind) = extract::Kind::of(media_type, file_name) else { return Ok(()) };
    if *length > ATTACHMENT_BYTES_MAX as u64 || text.is_full() || !text.has_time_for(kind) {
        return Ok(());
    }
    let bytes = note.reading.blob(note.header.note, blob)?;
    if let Some(found) = extract::text(kind, &bytes, note.elsewhere) {
        text.attachment(&found);
    }
    Ok(())
}

fn take_item(item: &Item, text: &mut NoteText) {
    let name = &item.name;
    match &item.value {
        Value::Text(one) if item.flags.has(ItemFlags::SUMMARY) || !is_body(name) => text.item(name, one),
        Value::Text(one) => text.body(one),
        Value::TextList(several) => several.iter().for_each(|one| text.item(name, one)),
        Value::RichText(source) if is_body(name) => text.body(&html::to_text(source)),
        Value::RichText(source) => text.item(name, &html::to_text(source)),
        Value::Number(number) => text.number(name, *number),
        Value::NumberList(numbers) => numbers.iter().for_each(|number| text.number(name, *number)),
        Value::Time(time) => text.time(name, *time),
        Value::TimeList(times) => times.iter().for_each(|time| text.time(name, *time)),
        Value::Object { file_name, .. } => text.item(FILE_ITEM, file_name),
        Value::MimePart(_) | Value::NoteReferences(_) => {}
    }
}

fn is_body(name: &str) -> bool {
    name.eq_ignore_ascii_case(BODY_ITEM)
}

/// The item that holds what a document says.
pub(crate) const BODY_ITEM: &str = "Body";
