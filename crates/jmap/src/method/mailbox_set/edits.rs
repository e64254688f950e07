//! Changes of the design notes of folders, written together: a transaction changes a note once.

use std::collections::{BTreeMap, HashMap};

use base::{Modseq, NoteId, ViewId};
use notes::{Item, Writer};

use crate::error::SetError;

/// The items of folders that are to be set or removed.
#[derive(Clone, Default)]
pub(super) struct FolderEdits {
    items: BTreeMap<ViewId, BTreeMap<&'static str, Option<String>>>,
}

impl FolderEdits {
    /// Sets a text item of a folder, or removes it.
    pub(super) fn set(&mut self, view: ViewId, name: &'static str, value: Option<&str>) {
        self.items.entry(view).or_default().insert(name, value.map(str::to_owned));
    }

    /// Forgets the changes of a folder.
    pub(super) fn remove(&mut self, view: ViewId) {
        self.items.remove(&view);
    }

    /// Writes the changes. Returns the folders that could not be changed.
    pub(super) fn write(&self, writer: &mut Writer<'_, '_>, modseq: &mut Option<Modseq>) -> HashMap<ViewId, SetError> {
        let mut failed = HashMap::new();
        for (view, items) in &self.items {
            match write_items(writer, NoteId(view.0), items) {
                Ok(()) => *modseq = Some(writer.modseq()),
                Err(error) => {
                    failed.insert(*view, error);
                }
            }
        }
        failed
    }
}

fn write_items(
    writer: &mut Writer<'_, '_>,
    note: NoteId,
    items: &BTreeMap<&'static str, Option<String>>,
) -> Result<(), SetError> {
    let mut design = writer.note(note)?.ok_or_else(|| SetError::new("notFound"))?;
    for (name, value) in items {
        design.items.retain(|item| !item.is_named(name));
        design.items.extend(value.as_ref().map(|value| Item::text(*name, value.as_str())));
    }
    writer.note_update(note, design.header.revision(), &design.items, &design.blobs)?;
    Ok(())
}
