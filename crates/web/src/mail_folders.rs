//! Folders of a mail file, as pages name them and find them.

use base::ViewId;
use mail::mailbox::{Folder, MailFile, MailSnapshot, SpecialUse};

use crate::error::{Error, Result};
use crate::limits::LISTED_FOLDERS_MAX;
use crate::shown_text;

/// A folder in a list of choices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderChoice {
    /// The number in addresses of pages.
    pub id: u32,
    /// The name, as it is shown.
    pub name: String,
}

/// Returns the folder with a number. One that holds no messages does not exist here.
pub fn folder(snapshot: &MailSnapshot<'_>, id: u32) -> Result<Folder> {
    let found = snapshot.folder_with_id(ViewId(id))?.filter(|folder| folder.selectable);
    found.ok_or(Error::NotFound("the folder"))
}

/// Returns the name of a folder as it is shown.
#[must_use]
pub fn shown_name(folder: &Folder) -> String {
    if folder.name == "INBOX" { "Inbox".to_owned() } else { shown_text::on_one_line(&folder.name) }
}

/// Returns the folders that hold messages, the inbox first.
pub fn choices(snapshot: &MailSnapshot<'_>) -> Result<Vec<FolderChoice>> {
    let folders = snapshot.folders()?.into_iter().filter(|folder| folder.selectable).take(LISTED_FOLDERS_MAX);
    Ok(folders.map(|folder| FolderChoice { id: folder.id.0, name: shown_name(&folder) }).collect())
}

/// Returns the folder for a special use.
pub fn special(snapshot: &MailSnapshot<'_>, special_use: SpecialUse) -> Result<Option<Folder>> {
    let folders = snapshot.folders()?;
    Ok(folders.into_iter().find(|folder| folder.selectable && folder.special_use == Some(special_use)))
}

/// Returns the folder for a special use. Creates it if there is none.
pub fn special_or_create(file: &MailFile, special_use: SpecialUse, name: &str) -> Result<(ViewId, String)> {
    let snapshot = file.snapshot()?;
    if let Some(folder) = special(&snapshot, special_use)? {
        return Ok((folder.id, shown_name(&folder)));
    }
    if let Some(folder) = snapshot.folder(name)?.filter(|folder| folder.selectable) {
        return Ok((folder.id, shown_name(&folder)));
    }
    let (id, _) = file.folder_create(name, Some(special_use))?;
    Ok((id, name.to_owned()))
}
