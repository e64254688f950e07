//! Views and folders as clients read them: one list, one search by name, and one read for both.
//!
//! A folder is a view. If it has columns, it has an index like every view. A folder without columns, as in mail files,
//! shows its entries in the order of their UIDs. [`ViewOrFolder`] is either, [`OpenEntries`] its state in a snapshot,
//! and [`EntrySource`] reads its entries. Left out: creating, renaming and filling folders, which are changes.

use std::sync::Arc;

use base::{Modseq, NoteId, ViewId};

use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::folder::FolderDesign;
use crate::view::folder_entries::FolderEntryReader;
use crate::view::note::ViewInfo;
use crate::view::read_entries::{EntriesRequest, EntryPage, EntryReader};
use crate::view::reader::{Tumbler, ViewReader};
use crate::view::view_cache::OpenView;

/// A view, or a folder.
#[derive(Clone, Debug)]
pub enum ViewOrFolder {
    /// A view, or a folder with columns.
    View(Arc<ViewInfo>),
    /// A folder without columns.
    Folder(FolderDesign),
}

impl ViewOrFolder {
    /// Returns the number of the view or folder.
    #[must_use]
    pub fn id(&self) -> ViewId {
        match self {
            Self::View(info) => info.id(),
            Self::Folder(folder) => folder.view,
        }
    }

    /// Returns the name. It does not include aliases.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::View(info) => &info.view.title,
            Self::Folder(folder) => &folder.title,
        }
    }

    /// Returns the letters of `$Flags`.
    #[must_use]
    pub fn flags(&self) -> String {
        match self {
            Self::View(info) => info.view.kind.letters(),
            Self::Folder(folder) => folder.flags.clone(),
        }
    }

    /// Returns `true` for a folder, with or without columns.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        match self {
            Self::View(info) => info.view.kind.folder,
            Self::Folder(_) => true,
        }
    }

    /// Returns the view with its design, or `None` for a folder without columns, which has no design and no index.
    #[must_use]
    pub fn info(&self) -> Option<&ViewInfo> {
        match self {
            Self::View(info) => Some(info),
            Self::Folder(_) => None,
        }
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.info().map_or(0, |info| info.view.design.columns.len())
    }

    /// Opens the view or folder in a snapshot. Fails with "not found" if the view has no index yet.
    pub fn open(&self, reading: &DatabaseSnapshot<'_>) -> Result<OpenEntries> {
        match self {
            Self::View(info) => reading.view(info.note).map(OpenEntries::View),
            Self::Folder(folder) => Ok(OpenEntries::Folder(folder.view)),
        }
    }
}

/// A view or folder as of a snapshot.
pub enum OpenEntries {
    /// A view with its index.
    View(Arc<OpenView>),
    /// A folder without columns.
    Folder(ViewId),
}

impl OpenEntries {
    /// Opens an order of the view. A folder without columns has only order 0.
    pub fn source<'r>(&'r self, reading: &'r DatabaseSnapshot<'r>, collation: usize) -> Result<EntrySource<'r>> {
        match self {
            Self::View(view) => EntryReader::open(reading, view, collation).map(EntrySource::View),
            Self::Folder(folder) if collation == 0 => {
                FolderEntryReader::open(reading, reading.folder(*folder)?).map(EntrySource::Folder)
            }
            Self::Folder(folder) => Err(Error::not_found(format!("sort order {collation} of folder {folder}"))),
        }
    }
}

/// The entries of a view or folder.
pub enum EntrySource<'r> {
    /// Those of a view.
    View(EntryReader<'r>),
    /// Those of a folder without columns.
    Folder(FolderEntryReader<'r>),
}

impl<'r> EntrySource<'r> {
    /// Returns the modseq that the entries reflect.
    pub fn modseq(&self) -> Result<Modseq> {
        match self {
            Self::View(entries) => entries.rows().applied(),
            Self::Folder(entries) => Ok(entries.modseq()),
        }
    }

    /// Returns the number of documents whose formulas a limit has stopped, or that have more entries than are shown.
    /// Hidden documents are included.
    pub fn limited_documents(&self) -> Result<u64> {
        match self {
            Self::View(entries) => entries.rows().limited_documents(),
            Self::Folder(_) => Ok(0),
        }
    }

    /// Returns the number of entries.
    pub fn count(&self) -> Result<u64> {
        match self {
            Self::View(entries) => entries.rows().count(),
            Self::Folder(entries) => Ok(entries.totals().count),
        }
    }

    /// Returns the number of entries that are documents.
    pub fn document_count(&self) -> Result<u64> {
        match self {
            Self::View(entries) => Ok(entries.rows().total()?.documents),
            Self::Folder(entries) => Ok(entries.totals().count),
        }
    }

    /// Returns the number of entries that the owner of the database has not read. Only folders without columns count
    /// them; for views it is 0.
    #[must_use]
    pub fn unseen_count(&self) -> u64 {
        match self {
            Self::View(_) => 0,
            Self::Folder(entries) => entries.totals().unseen,
        }
    }

    /// Returns the totals of the whole view, each with the index of its column.
    pub fn grand_totals(&self) -> Result<Vec<(usize, f64)>> {
        match self {
            Self::View(entries) => entries.grand_totals(),
            Self::Folder(_) => Ok(Vec::new()),
        }
    }

    /// Returns the key of the entry with a tumbler.
    pub fn key_at(&self, tumbler: &Tumbler) -> Result<Option<Vec<u8>>> {
        match self {
            Self::View(entries) => entries.rows().key_at(tumbler),
            Self::Folder(entries) => entries.key_at(tumbler),
        }
    }

    /// Returns the rows for a search by the values of sorted columns. Fails for a folder without columns.
    pub fn sorted_rows(&self) -> Result<&ViewReader<'r>> {
        match self {
            Self::View(entries) => Ok(entries.rows()),
            Self::Folder(_) => Err(Error::invalid("the folder", "it has no columns to search by")),
        }
    }

    /// Reads entries.
    pub fn read(&self, request: &EntriesRequest) -> Result<EntryPage> {
        match self {
            Self::View(entries) => entries.read(request),
            Self::Folder(entries) => entries.read(request),
        }
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns the views and folders that the reader may see: first those with columns, then the other folders, each in
    /// the order of their creation.
    pub fn views_and_folders(&self) -> Result<Vec<ViewOrFolder>> {
        let views = self.views()?;
        let folders = self.folders()?;
        let is_plain = |folder: &&FolderDesign| views.iter().all(|info| info.id() != folder.view);
        let plain: Vec<_> = folders.iter().filter(is_plain).cloned().map(ViewOrFolder::Folder).collect();
        Ok(views.into_iter().map(ViewOrFolder::View).chain(plain).collect())
    }

    /// Returns the view or folder with a number.
    pub fn view_or_folder(&self, id: ViewId) -> Result<ViewOrFolder> {
        if let Some(info) = self.view_info(NoteId(id.0))? {
            return Ok(ViewOrFolder::View(info));
        }
        let found = self.folder_where(|folder| folder.view == id, || format!("the view or folder {id}"));
        found.map(ViewOrFolder::Folder)
    }

    /// Finds a view or folder by its name. Views are found by an alias or their UNID, too.
    pub fn view_or_folder_find(&self, name: &str) -> Result<ViewOrFolder> {
        match self.view_find(name) {
            Ok(info) => Ok(ViewOrFolder::View(info)),
            Err(Error::NotFound { .. }) => {
                let found =
                    self.folder_where(|folder| folder.is_named(name), || format!("the view or folder {name:?}"));
                found.map(ViewOrFolder::Folder)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the folder with a number, with or without columns. A view with this number is not found.
    pub fn folder_info(&self, id: ViewId) -> Result<FolderDesign> {
        self.folder_where(|folder| folder.view == id, || format!("the folder {id}"))
    }

    /// Finds a folder, with or without columns, by its name. A view may have the same name.
    pub fn folder_find(&self, name: &str) -> Result<FolderDesign> {
        self.folder_where(|folder| folder.is_named(name), || format!("the folder {name:?}"))
    }

    fn folder_where(
        &self,
        is_wanted: impl Fn(&FolderDesign) -> bool,
        what: impl FnOnce() -> String,
    ) -> Result<FolderDesign> {
        let folders = self.folders()?;
        let found = folders.iter().find(|folder| is_wanted(folder)).cloned();
        found.ok_or_else(|| Error::not_found(what()))
    }
}
