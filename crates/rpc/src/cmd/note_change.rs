//! Changes of the items of a note: some are removed, others are added, and the rest stays.
//!
//! The note is read and the change is checked before the lock of the database is taken, because a note may be large.
//! The transaction writes only what is new: items outside the summary that the change does not remove stay as they are
//! stored. If the note was saved in between, the change is applied anew to the saved note. So no other change can come
//! between the state that was checked and the one that is replaced.

use std::collections::HashSet;

use base::NoteId;
use notes::item::blobs_of;
use notes::note::BodyDirectoryEntry;
use notes::{
    Access, DatabaseSnapshot, ExpectedVersion, Item, ItemFlags, ItemValue, NoteHeader, OnConflict, SaveOptions,
    SaveOutcome, Writer, level,
};
use proto::v1;
use proto::v1::saved_note::Outcome;
use store::blob::{BlobId, PreparedBlob};

use super::edit::{check_class, check_expected, check_quota, saved_note, tracks_editors};
use super::{CallContext, find};
use crate::error::{Error, Result};
use crate::limits::{LARGE_BODY_BYTES_MIN, STEPS_PER_NOTE};
use crate::service::CallOutcome;

/// Maximum number of times that a change is applied anew because others save the note.
const ATTEMPTS_MAX: usize = 8;

/// A change of a note.
pub(crate) struct NoteChange<'c> {
    pub version: ExpectedNote,
    /// Returns `true` for the items that the change removes. A large text outside the summary is passed without its
    /// content.
    pub removes: &'c dyn Fn(&Item) -> bool,
    /// The new items.
    pub adds: Vec<Item>,
    /// The values of the removed items in the version on which the client based the change, if known.
    pub base: Option<Vec<Item>>,
    /// The content of a new attachment.
    pub blob: Option<&'c PreparedBlob<'c>>,
    /// The object that does not exist if the change removes nothing.
    pub must_remove: Option<&'c str>,
}

impl NoteChange<'_> {
    /// Creates a change that does nothing.
    pub(crate) fn of(version: ExpectedNote) -> Self {
        Self { version, removes: &|_| false, adds: Vec::new(), base: None, blob: None, must_remove: None }
    }

    /// Returns `true` if `item` is a piece of a message, and the change may write the same piece again.
    fn writes_part(&self, item: &Item) -> bool {
        let is_part = |item: &Item| matches!(item.value, ItemValue::MimePart(_));
        is_part(item) && self.adds.iter().any(|add| is_part(add) && add.is_named(&item.name))
    }
}

/// The version of a note that a client has read before changing it.
#[derive(Clone, Copy)]
pub(crate) struct ExpectedNote {
    /// That version; `None` accepts any version.
    pub expected: Option<ExpectedVersion>,
    /// `true` if a conflict with another save is resolved as the document specifies. Otherwise the client gets an
    /// error.
    pub resolves: bool,
}

impl ExpectedNote {
    /// Creates the value for a change that fails on a conflict.
    pub(crate) fn refusing_conflicts(expected: Option<ExpectedVersion>) -> Self {
        Self { expected, resolves: false }
    }
}

/// Changes and saves a note.
pub(crate) fn apply(
    context: &CallContext,
    access: &Access<level::Author>,
    key: Option<v1::NoteKey>,
    change: &NoteChange<'_>,
) -> Result<CallOutcome<v1::SavedNote>> {
    let reader = access.downgrade::<level::Reader>();
    for _ in 0..ATTEMPTS_MAX {
        let stored = {
            let reading = context.read(&reader)?;
            let note = find(&reading, key.clone())?;
            StoredItems::read(context, &reading, note, change)?
        };
        let new = NewItems::after(&stored, change)?;
        let CallOutcome { reply, ticket } = context.write(access, |writer| save(writer, &stored, &new, change))?;
        if let Some(reply) = reply {
            return Ok(CallOutcome { reply, ticket });
        }
    }
    Err(Error::State("others save this note all the time, try again".to_owned()))
}

/// The items of a note in a snapshot.
struct StoredItems {
    header: NoteHeader,
    summary: Vec<Item>,
    bodies: Vec<StoredBody>,
    blobs: Vec<BlobId>,
    /// `true` if the editors of the note are recorded.
    is_shared: bool,
    on_conflict: OnConflict,
    /// `true` if the client has read another version of the note. Then all items that stay are read.
    is_conflict: bool,
}

/// An item outside the summary.
struct StoredBody {
    ordinal: u16,
    /// The item; of a large text possibly only the name and the type.
    item: Item,
}

impl StoredItems {
    /// Reads a note. Returns an error if the change is refused whatever its items are.
    fn read(
        context: &CallContext,
        reading: &DatabaseSnapshot<'_>,
        note: NoteId,
        change: &NoteChange<'_>,
    ) -> Result<Self> {
        let header = reading.header(note)?.ok_or_else(missing_note)?;
        check_class(&header)?;
        let ExpectedNote { expected, resolves } = change.version;
        let is_shared = tracks_editors(reading.database(), header.class);
        let on_conflict = if resolves && is_shared { OnConflict::Resolve } else { OnConflict::Refuse };
        if on_conflict == OnConflict::Refuse {
            check_expected(expected, &header)?;
        }
        let is_conflict = expected.is_some_and(|expected| !expected.is_of(&header));
        let stored = reading.summary(note)?.ok_or_else(missing_note)?;
        let mut bodies = Vec::with_capacity(stored.body.len());
        for entry in stored.body {
            context.spend(STEPS_PER_NOTE)?;
            let is_needed = |item: &Item| {
                let stays = !(change.removes)(item);
                if stays { is_conflict || !SaveOptions::may_keep(&item.name) } else { change.writes_part(item) }
            };
            bodies.push(StoredBody::read(reading, note, entry, &is_needed)?);
        }
        Ok(Self { header, summary: stored.items, bodies, blobs: stored.blobs, is_shared, on_conflict, is_conflict })
    }

    /// Returns all items.
    fn items(&self) -> impl Iterator<Item = &Item> {
        self.summary.iter().chain(self.bodies.iter().map(|body| &body.item))
    }

    /// Returns `true` if the note is a message, and checks that a change leaves what its sender wrote. Mail clients
    /// rely on these items never changing.
    fn check_message(&self, change: &NoteChange<'_>) -> Result<bool> {
        let removes = change.removes;
        let has = |name: &&str, stays: bool| {
            self.bodies.iter().any(|body| body.item.is_named(name) && !(stays && removes(&body.item)))
        };
        let is_added = |name: &&str| {
            change.adds.iter().any(|item| item.is_named(name) && !item.flags.contains(ItemFlags::SUMMARY))
        };
        let is_message = mail::message::BODY_ITEMS.iter().all(|name| has(name, false));
        let will_be = mail::message::BODY_ITEMS.iter().all(|name| has(name, true) || is_added(name));
        let is_part = |item: &&Item| matches!(item.value, ItemValue::MimePart(_) | ItemValue::Object { .. });
        let before: Vec<&Item> = self.items().filter(is_part).collect();
        let staying = self.items().filter(|item| !removes(item));
        let after: Vec<&Item> = staying.chain(&change.adds).filter(is_part).collect();
        if will_be != is_message || (is_message && before != after) {
            return Err(Error::invalid("the content and the attachments of a mail message cannot be changed"));
        }
        Ok(is_message)
    }
}

impl StoredBody {
    /// Reads an item. Of a large text, the content is read only if `is_needed` returns `true`.
    fn read(
        reading: &DatabaseSnapshot<'_>,
        note: NoteId,
        entry: BodyDirectoryEntry,
        is_needed: &dyn Fn(&Item) -> bool,
    ) -> Result<Self> {
        let ordinal = entry.ordinal;
        if entry.length >= LARGE_BODY_BYTES_MIN {
            match reading.body_content(note, ordinal, 0..0) {
                Ok(part) => {
                    let is_mime_part = part.ok_or_else(missing_note)?.is_mime_part;
                    let value =
                        if is_mime_part { ItemValue::MimePart(Vec::new()) } else { ItemValue::RichText(String::new()) };
                    let item = Item { name: entry.name, flags: ItemFlags::NONE, value };
                    if !is_needed(&item) {
                        return Ok(Self { ordinal, item });
                    }
                }
                // It is neither a text nor a piece of a message.
                Err(notes::Error::Invalid { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let item = reading.body_item(note, ordinal)?.ok_or_else(missing_note)?;
        Ok(Self { ordinal, item })
    }
}

/// The items of a note after a change.
struct NewItems {
    /// The items to be written.
    items: Vec<Item>,
    /// Ordinals of the items that stay as they are stored.
    kept: Vec<u16>,
    blobs: Vec<BlobId>,
    /// All items of the version on which the client based the change.
    base: Option<Vec<Item>>,
    /// The names of the items that the change adds or removes.
    changed: Vec<String>,
    is_message: bool,
}

impl NewItems {
    /// Applies a change.
    fn after(stored: &StoredItems, change: &NoteChange<'_>) -> Result<Self> {
        let removes = change.removes;
        if let Some(what) = change.must_remove.filter(|_| !stored.items().any(removes)) {
            return Err(notes::Error::not_found(what).into());
        }
        let blobs = blobs_after(stored, change)?;
        let is_message = stored.check_message(change)?;
        let mut items: Vec<Item> = stored.summary.iter().filter(|item| !removes(item)).cloned().collect();
        let mut kept = Vec::new();
        for body in stored.bodies.iter().filter(|body| !removes(&body.item)) {
            if !stored.is_conflict && SaveOptions::may_keep(&body.item.name) {
                kept.push(body.ordinal);
            } else {
                items.push(body.item.clone());
            }
        }
        let base = change.base.as_ref().filter(|_| stored.is_conflict);
        let base = base.map(|base| items.iter().chain(base.iter().filter(|item| removes(item))).cloned().collect());
        let removed = stored.items().filter(|item| removes(item)).map(|item| &item.name);
        let changed = removed.chain(change.adds.iter().map(|item| &item.name)).cloned().collect();
        items.extend(change.adds.iter().cloned());
        Ok(Self { items, kept, blobs, base, changed, is_message })
    }
}

/// Returns the blobs of a note after a change. Returns an error if the change refers to a blob that the note does not
/// have.
fn blobs_after(stored: &StoredItems, change: &NoteChange<'_>) -> Result<Vec<BlobId>> {
    let of_item = |item: &Item| blobs_of(std::slice::from_ref(item));
    let before: HashSet<BlobId> = stored.items().flat_map(of_item).collect();
    let new = change.blob.map(PreparedBlob::id);
    let added = blobs_of(&change.adds);
    if added.iter().any(|blob| !before.contains(blob) && new != Some(*blob)) {
        return Err(Error::invalid("add attachments with AttachFile"));
    }
    let staying = stored.items().filter(|item| !(change.removes)(item)).flat_map(of_item);
    let used: HashSet<BlobId> = staying.chain(added).collect();
    // Other parts of the note may use blobs that no item refers to.
    let mut blobs = stored.blobs.clone();
    blobs.retain(|blob| !before.contains(blob) || used.contains(blob));
    if let Some(new) = new.filter(|new| !blobs.contains(new)) {
        blobs.push(new);
    }
    Ok(blobs)
}

/// Saves a note. Returns `None` if others have saved it since it was read.
fn save(
    writer: &mut Writer<'_, '_>,
    stored: &StoredItems,
    new: &NewItems,
    change: &NoteChange<'_>,
) -> Result<Option<v1::SavedNote>> {
    let note = stored.header.note;
    let found = writer.header(note)?.filter(|header| !header.is_stub()).ok_or_else(missing_note)?;
    if found.revision() != stored.header.revision() {
        return Ok(None);
    }
    if let Some(blob) = change.blob {
        writer.blob_put_prepared_for(note, blob)?;
    }
    let options = SaveOptions {
        tracks_editors: stored.is_shared,
        on_conflict: stored.on_conflict,
        base: new.base.as_deref(),
        changed: Some(&new.changed),
        preserve_size: new.is_message,
        kept: &new.kept,
    };
    let expected = change.version.expected.unwrap_or(found.revision().into());
    let outcome = writer.note_save(note, expected, (&new.items, &new.blobs), &options)?;
    check_quota(writer)?;
    let (note, outcome) = match outcome {
        SaveOutcome::Plain { .. } => (note, Outcome::Plain),
        SaveOutcome::Merged { .. } => (note, Outcome::Merged),
        SaveOutcome::Conflict { note: loser } => (loser, Outcome::Kept),
    };
    Ok(Some(v1::SavedNote { outcome: outcome.into(), ..saved_note(writer, note)? }))
}

fn missing_note() -> notes::Error {
    notes::Error::not_found("the note")
}
