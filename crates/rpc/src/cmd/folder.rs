//! Folders: creating, renaming and deleting them, and moving notes. [`super::view`] reads them.

use base::ViewId;
use notes::view::entries::ViewOrFolder;
use notes::{DatabaseSnapshot, FolderDesign, level};
use proto::v1;

use super::note::find_all;
use super::{CallContext, view};
use crate::error::{Error, Result};
use crate::service::CallOutcome;

/// Creates a folder.
pub(crate) fn create(context: &CallContext, request: v1::CreateFolderRequest) -> Result<CallOutcome<v1::View>> {
    let name = request.name;
    design(context, request.database, |writer| {
        let (folder, flags) = match request.personal {
            true => (writer.folder_create_personal(&name, &[])?, "FV"),
            false => (writer.folder_create(&name, &[])?, "F"),
        };
        Ok(v1::View {
            view_id: folder.0,
            name: name.clone(),
            folder: true,
            flags: flags.to_owned(),
            ..v1::View::default()
        })
    })
}

/// Renames a folder.
pub(crate) fn rename(context: &CallContext, request: v1::RenameFolderRequest) -> Result<CallOutcome<v1::View>> {
    let folder = open_and_find(context, request.database.clone(), request.folder)?;
    design(context, request.database, |writer| {
        writer.folder_rename(folder.view, &request.name)?;
        Ok(view::describe(&ViewOrFolder::Folder(FolderDesign { title: request.name.clone(), ..folder.clone() })))
    })
}

/// Deletes a folder, which must be empty.
pub(crate) fn delete(
    context: &CallContext,
    request: v1::DeleteFolderRequest,
) -> Result<CallOutcome<v1::DeleteFolderReply>> {
    let folder = open_and_find(context, request.database.clone(), request.folder)?;
    design(context, request.database, |writer| {
        writer.folder_delete(folder.view)?;
        Ok(v1::DeleteFolderReply {})
    })
}

/// Adds notes to one folder and removes them from another.
pub(crate) fn move_notes(
    context: &CallContext,
    request: v1::MoveNotesRequest,
) -> Result<CallOutcome<v1::MoveNotesReply>> {
    let access = context.access_for_change::<level::Reader>(request.database)?;
    let (notes, into, out_of) = {
        let reader = access.downgrade::<level::Reader>();
        let reading = reader.read()?;
        let named = |key: Option<v1::ViewKey>| key.map(|key| find(&reading, Some(key))).transpose();
        (find_all(&reading, request.notes)?, named(request.into)?, named(request.out_of)?)
    };
    context.write(&access, |writer| {
        for note in &notes {
            if let Some(folder) = &into {
                writer.folder_add(*note, folder.view)?;
            }
            if let Some(folder) = &out_of {
                writer.folder_remove(*note, folder.view)?;
            }
        }
        let moved = u32::try_from(notes.len()).unwrap_or(u32::MAX);
        Ok(v1::MoveNotesReply { moved, modseq: writer.modseq().0 })
    })
}

fn design<R>(
    context: &CallContext,
    database: Option<v1::DatabaseKey>,
    change: impl FnOnce(&mut notes::Writer<'_, '_>) -> Result<R>,
) -> Result<CallOutcome<R>> {
    let access = context.access_for_change::<level::Reader>(database)?;
    context.write(&access, change)
}

fn open_and_find(
    context: &CallContext,
    database: Option<v1::DatabaseKey>,
    key: Option<v1::ViewKey>,
) -> Result<FolderDesign> {
    let access = context.access::<level::Reader>(database)?;
    find(&access.read()?, key)
}

/// Finds a folder by number or name.
fn find(reading: &DatabaseSnapshot<'_>, key: Option<v1::ViewKey>) -> Result<FolderDesign> {
    match key.and_then(|key| key.key) {
        None => Err(Error::invalid("no folder specified")),
        Some(v1::view_key::Key::ViewId(number)) => Ok(reading.folder_info(ViewId(number))?),
        Some(v1::view_key::Key::Name(name)) => Ok(reading.folder_find(&name)?),
    }
}
