//! Personal folders and views (`docs/access-control.md`, "Personal folders and views").
//!
//! A design note with the letter `V` in `$Flags` and one name in `$Readers` belongs to the person of that name. Whoever reads the database and has the flag for it may make some. Their
//! owner changes, fills and deletes them at any level; for everybody else they do not exist, and their names are free.

use base::{Name, NoteId};

use crate::acl::{AclFlags, AclLevel};
use crate::error::{Error, Result};
use crate::folder::{FLAGS_ITEM, FolderDesign};
use crate::item::{self, Item};
use crate::limits::PERSONAL_VIEWS_MAX;
use crate::note::NoteClass;
use crate::reading;
use crate::view::note::{READERS_ITEM, ViewKind};
use crate::writer::Writer;

/// Gives the person to whom a folder or view with such letters and readers belongs.
fn owner(letters: &str, readers: &[String]) -> Option<Name> {
    let [only] = readers else { return None };
    ViewKind::of_letters(letters).private.then(|| Name::new(only))
}

/// Gives the person to whom the folder or view of a design note belongs.
pub(crate) fn owner_of(items: &[Item]) -> Option<Name> {
    let letters = item::find(items, FLAGS_ITEM)?.value.text()?;
    owner(letters, item::find(items, READERS_ITEM)?.value.texts())
}

impl FolderDesign {
    /// Gives the person to whom the folder belongs; nothing for a shared one.
    #[must_use]
    pub fn owner(&self) -> Option<Name> {
        owner(&self.flags, &self.readers)
    }
}

impl Writer<'_, '_> {
    /// Gives the name of the caller, who may make a personal folder or view.
    pub(crate) fn new_owner(&self) -> Result<Name> {
        self.require_level(AclLevel::Reader)?;
        if !self.part.grant.flags().has(AclFlags::CREATE_PERSONAL_FOLDER) {
            self.require_level(AclLevel::Designer)?;
        }
        let nobody = || Error::invalid("a personal folder or view", "only those who log in have some");
        let owner = self.part.grant.name().ok_or_else(nobody)?.clone();
        let mut count = 0;
        for note in reading::load_design_notes(self.store, self.part.database, NoteClass::VIEW)? {
            count += usize::from(self.is_own_design(note)?);
        }
        if count >= PERSONAL_VIEWS_MAX {
            return Err(Error::Limit { what: "personal folders and views of one person", max: PERSONAL_VIEWS_MAX });
        }
        Ok(owner)
    }

    /// Tells whether the caller's own folder or view is what a design note with these items describes.
    pub(crate) fn is_own(&self, items: &[Item]) -> bool {
        owner_of(items).is_some_and(|owner| self.part.grant.is_own(&owner))
    }

    /// Tells whether a design note, as it is stored, is the caller's own folder or view.
    pub(crate) fn is_own_design(&self, note: NoteId) -> Result<bool> {
        let header = reading::load_header(self.store, self.part.database, note)?;
        if header.is_none_or(|header| header.class != NoteClass::VIEW) {
            return Ok(false);
        }
        let summary = reading::load_summary(self.store, self.part.database, note)?;
        Ok(summary.is_some_and(|summary| self.is_own(&summary.items)))
    }

    /// Tells whether the names of a folder or view count among those that the caller cannot take: not if it belongs to somebody else.
    pub(crate) fn takes_names(&self, owner: Option<&Name>) -> bool {
        owner.is_none_or(|owner| self.part.grant.is_own(owner))
    }

    /// Checks that the caller may file documents in a folder: in their own as readers of the database.
    pub(crate) fn require_filing(&self, folder: base::ViewId) -> Result<()> {
        if self.part.grant.level() == AclLevel::Reader && self.is_own_design(NoteId(folder.0))? {
            return Ok(());
        }
        self.require_level(AclLevel::Author)
    }
}
