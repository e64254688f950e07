//! Profile documents: named settings of a database, or of one user in it.
//!
//! A profile document is a note of the class [`NoteClass::PROFILE`]. It is found by its name, and by its user if it is
//! a personal one. Its UNID is computed from both, so it exists only once and replicas agree on it. It is in no folder,
//! view, search or list of documents, because these contain only documents. In Domino, a profile is a document with a
//! ghost flag. The separate class has the same effect everywhere.
//!
//! Access follows the rules for documents. From level Reader on, an identity reads a profile unless Readers items
//! exclude it. A shared profile is created by identities that may create documents, changed by Editors and by Authors
//! that its Authors items name, and deleted by identities that may delete documents. Personal profiles are created,
//! changed and deleted by their users from level Author on, because the name is part of the key. The personal profiles
//! of others require Editor.

use base::{Name, NoteId, Unid};
use store::blob::BlobId;

use crate::acl::AclLevel;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::item::Item;
use crate::limits::PROFILE_NAME_BYTES_MAX;
use crate::note::{NewContents, NewNote, Note, NoteClass};
use crate::records;
use crate::writer::Writer;

/// The item with the name of the profile.
pub const NAME_ITEM: &str = "$ProfileName";

/// The item with the user to whom the profile belongs.
pub const USER_ITEM: &str = "$ProfileUser";

/// Prefix of the UNIDs of profiles. No other notes have it, so no note can occupy the UNID of a profile that does not
/// exist yet.
const UNID_PREFIX: [u8; 6] = *b"\0prof\0";

/// Returns `true` if a UNID is that of a profile.
#[must_use]
pub fn is_profile_unid(unid: Unid) -> bool {
    unid.0.starts_with(&UNID_PREFIX)
}

/// Returns the UNID of the profile with this name, of a user or shared by all.
#[must_use]
pub fn profile_unid(name: &str, user: Option<&Name>) -> Unid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"profile\0");
    hasher.update(name.to_lowercase().as_bytes());
    if let Some(user) = user {
        hasher.update(b"\0");
        hasher.update(user.canonical().to_lowercase().as_bytes());
    }
    let mut unid = [0; 16];
    let (prefix, rest) = unid.split_at_mut(UNID_PREFIX.len());
    prefix.copy_from_slice(&UNID_PREFIX);
    hasher.finalize_xof().fill(rest);
    Unid(unid)
}

fn check_name(name: &str, user: Option<&Name>) -> Result<()> {
    let is_name =
        |text: &str| !text.is_empty() && text.len() <= PROFILE_NAME_BYTES_MAX && !text.chars().any(char::is_control);
    if is_name(name) && user.is_none_or(|user| is_name(user.canonical())) {
        return Ok(());
    }
    Err(Error::invalid(format!("profile {name:?}"), "the name is empty, too long or contains control characters"))
}

impl DatabaseSnapshot<'_> {
    /// Returns the profile with this name, of a user or shared by all.
    pub fn profile(&self, name: &str, user: Option<&Name>) -> Result<Option<Note>> {
        let note = self.profile_note_id(name, user)?.map(|note| self.note(note)).transpose()?;
        Ok(note.flatten())
    }

    /// Returns the note id of a profile or of its stub.
    pub(crate) fn profile_note_id(&self, name: &str, user: Option<&Name>) -> Result<Option<NoteId>> {
        let header = self.find(profile_unid(name, user))?.map(|note| self.header(note)).transpose()?.flatten();
        Ok(header.filter(|header| header.class == NoteClass::PROFILE).map(|header| header.note))
    }
}

impl Writer<'_, '_> {
    /// Returns a profile in its state before this transaction.
    pub fn profile(&mut self, name: &str, user: Option<&Name>) -> Result<Option<Note>> {
        let found = records::find(self.store, self.part.database.number, profile_unid(name, user))?;
        let Some(note) = found else { return Ok(None) };
        Ok(self.note(note)?.filter(|note| note.header.class == NoteClass::PROFILE))
    }

    /// Sets a profile: creates it, or replaces its items.
    pub fn profile_set(&mut self, name: &str, user: Option<&Name>, items: &[Item], blobs: &[BlobId]) -> Result<NoteId> {
        self.require_level(AclLevel::Author)?;
        check_name(name, user)?;
        let is_ours = |item: &&Item| !item.is_named(NAME_ITEM) && !item.is_named(USER_ITEM);
        let mut items: Vec<Item> = items.iter().filter(is_ours).cloned().collect();
        items.push(Item::text(NAME_ITEM, name));
        items.extend(user.map(|user| Item::text(USER_ITEM, user.canonical())));
        let Some(note) = self.profile_find(name, user)? else {
            let may = user.map_or_else(|| self.part.grant.may_create(), |user| self.may_set_profile_of(user));
            if !may {
                return Err(self.not_author(self.part.counters.next_note));
            }
            let unid = Some(profile_unid(name, user));
            let blobs = blobs.to_vec();
            return self.create_unchecked(NewNote { unid, blobs, ..NewNote::of_class(NoteClass::PROFILE, items) });
        };
        let summary = self.visible_summary(note)?.ok_or_else(|| Error::not_found(format!("profile {name}")))?;
        let may = user.is_some_and(|user| self.may_set_profile_of(user)) || self.part.grant.may_edit(&summary.items);
        if !may {
            return Err(self.not_author(note));
        }
        let stored = self.pending_header(note)?.after.revision();
        self.replace_items(note, stored.into(), &summary, NewContents::new(&items, blobs))?;
        Ok(note)
    }

    /// Deletes a profile. Returns `false` if there was none.
    pub fn profile_delete(&mut self, name: &str, user: Option<&Name>) -> Result<bool> {
        self.require_level(AclLevel::Author)?;
        let Some(note) = self.profile_find(name, user)? else { return Ok(false) };
        let Some(summary) = self.visible_summary(note)? else { return Ok(false) };
        let is_own = user.is_some_and(|user| self.part.grant.is_own(user));
        if !is_own && !self.part.grant.may_delete(&summary.items) {
            return Err(self.not_author(note));
        }
        self.delete_contents(note, &summary)?;
        Ok(true)
    }

    fn may_set_profile_of(&self, user: &Name) -> bool {
        self.part.grant.is_own(user) || self.part.grant.level() >= AclLevel::Editor
    }

    /// Returns the note id of an existing profile, including one that this transaction created.
    fn profile_find(&mut self, name: &str, user: Option<&Name>) -> Result<Option<NoteId>> {
        let unid = profile_unid(name, user);
        if let Some(made) = self.part.created_note(unid).filter(|made| !made.is_stub()) {
            return Ok(Some(made.note));
        }
        let Some(note) = records::find(self.store, self.part.database.number, unid)? else { return Ok(None) };
        let is_there = self.part.pending_header(note)?.is_some_and(|pending| pending.after.class == NoteClass::PROFILE);
        Ok(is_there.then_some(note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_unids_differ_by_name_and_user() {
        let ann = Name::new("Ann/Acme");
        let bob = Name::new("Bob/Acme");
        let all = [
            profile_unid("a", None),
            profile_unid("b", None),
            profile_unid("a", Some(&ann)),
            profile_unid("a", Some(&bob)),
        ];
        let distinct: std::collections::HashSet<Unid> = all.into_iter().collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(profile_unid("A", Some(&Name::new("ANN/acme"))), profile_unid("a", Some(&ann)));
        assert!(check_name("", None).is_err() && check_name("a\n", None).is_err());
        assert!(check_name("a", Some(&Name::default())).is_err() && check_name("a", Some(&ann)).is_ok());
    }
}
