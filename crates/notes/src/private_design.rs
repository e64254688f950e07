//! Personal folders and views (`docs/access-control.md`, "Personal folders and views").
//!
//! A design note with the letter `V` in `$Flags` and a single name in `$Readers` belongs to the person with that name.
//! Every reader of the database with the flag for it may create personal folders and views. Their owner changes, fills
//! and deletes them at any level. For all others they do not exist, and their names are free.

use base::{Name, NoteId};

use crate::acl::{AclFlags, AclLevel};
use crate::error::{Error, Result};
use crate::folder::{FLAGS_ITEM, FolderDesign};
use crate::item::{self, Item};
use crate::limits::PERSONAL_VIEWS_MAX;
use crate::note::NoteClass;
use crate::records;
use crate::view::note::{READERS_ITEM, ViewKind, ViewNote};
use crate::writer::Writer;

/// Returns the owner of a folder or view with these `$Flags` and readers, or `None` for a shared one.
fn owner(kind: ViewKind, readers: &[String]) -> Option<Name> {
    let [only] = readers else { return None };
    kind.private.then(|| Name::new(only))
}

/// Returns the owner of the folder or view that a design note with these items describes, or `None` for a shared one.
pub(crate) fn owner_of(items: &[Item]) -> Option<Name> {
    let letters = item::find_item(items, FLAGS_ITEM)?.value.text()?;
    owner(ViewKind::of_letters(letters), item::find_item(items, READERS_ITEM)?.value.texts())
}

impl ViewNote {
    /// Returns the owner of the view, or `None` for a shared one.
    #[must_use]
    pub fn owner(&self) -> Option<Name> {
        owner(self.kind, &self.readers)
    }
}

impl FolderDesign {
    /// Returns the owner of the folder, or `None` for a shared one.
    #[must_use]
    pub fn owner(&self) -> Option<Name> {
        owner(ViewKind::of_letters(&self.flags), &self.readers)
    }
}

impl Writer<'_, '_> {
    /// Returns the name of the caller as the owner of a new personal folder or view. Fails if the caller may not create
    /// one.
    pub(crate) fn require_may_create_personal(&self) -> Result<Name> {
        self.require_level(AclLevel::Reader)?;
        if !self.part.grant.flags().contains(AclFlags::CREATE_PERSONAL_FOLDER) {
            self.require_level(AclLevel::Designer)?;
        }
        let nobody = || Error::invalid("a personal folder or view", "only authenticated users can create one");
        let owner = self.part.grant.name().ok_or_else(nobody)?.clone();
        let mut count = 0;
        for note in records::load_design_notes(self.store, self.part.database, NoteClass::VIEW)? {
            count += usize::from(self.design_is_owned_by_caller(note)?);
        }
        if count >= PERSONAL_VIEWS_MAX {
            return Err(Error::Limit { what: "personal folders and views of one person", max: PERSONAL_VIEWS_MAX });
        }
        Ok(owner)
    }

    /// Returns `true` if a design note with these items describes a personal folder or view of the caller.
    pub(crate) fn is_owned_by_caller(&self, items: &[Item]) -> bool {
        owner_of(items).is_some_and(|owner| self.part.grant.is_own(&owner))
    }

    /// Returns `true` if a stored design note describes a personal folder or view of the caller.
    pub(crate) fn design_is_owned_by_caller(&self, note: NoteId) -> Result<bool> {
        let header = records::load_header(self.store, self.part.database, note)?;
        if header.is_none_or(|header| header.class != NoteClass::VIEW) {
            return Ok(false);
        }
        let summary = records::load_summary(self.store, self.part.database, note)?;
        Ok(summary.is_some_and(|summary| self.is_owned_by_caller(&summary.items)))
    }

    /// Returns `true` if the title of a folder or view with this owner is not available to the caller. Titles of other
    /// users' personal folders and views are available.
    pub(crate) fn blocks_title(&self, owner: Option<&Name>) -> bool {
        owner.is_none_or(|owner| self.part.grant.is_own(owner))
    }

    /// Checks that the caller may add documents to a folder: Authors in all folders, Readers only in their own.
    pub(crate) fn require_may_file(&self, folder: base::ViewId) -> Result<()> {
        if self.part.grant.level() == AclLevel::Reader && self.design_is_owned_by_caller(NoteId(folder.0))? {
            return Ok(());
        }
        self.require_level(AclLevel::Author)
    }
}
