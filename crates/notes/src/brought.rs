//! Versions of documents that people bring from replicas of their own: local replicas, or databases of CouchDB
//! clients.
//!
//! [`Writer::note_receive_from_person`] takes such a version over like one of another server, with its revision and its
//! ancestors. But a person may bring only what the access control list and the document let that person save, and the
//! limits for people apply. Each version is checked by itself, so one that is refused does not stop the others.

use std::borrow::Cow;

use base::{NoteId, Unid};
use revision::{
    Ancestors, Cut, DeletionRule, ItemChanges, Register, Revision, conflict_document_unid, is_conflict_document_unid,
};

use crate::acl::{AclFlags, AclLevel};
use crate::change_times::StateKey;
use crate::database_snapshot::DatabaseSnapshot;
use crate::edit_history::UPDATED_BY_ITEM;
use crate::error::{Error, Result};
use crate::item::{self, Item, find_item};
use crate::limits::{BROUGHT_SEQUENCE_MAX, BROUGHT_SEQUENCE_STEP_MAX};
use crate::loser_records;
use crate::losers;
use crate::note::{NoteFlags, NoteHeader};
use crate::records;
use crate::replica::{KnownState, ReceiveOutcome};
use crate::replica_note::{ReplicaNote, StateName, check_received};
use crate::revision_record::RevisionRecord;
use crate::writer::{Writer, check_unid_of_class};

impl DatabaseSnapshot<'_> {
    /// Returns `true` if a version that a person could bring is known: this replica has it, or one that descends from
    /// it, it has lost a conflict, or it was deleted and the deletion is purged.
    pub fn knows_brought(&self, unid: Unid, revision: Revision) -> Result<bool> {
        let is_loser = || Ok::<_, Error>(self.losers(unid)?.iter().any(|loser| loser.revision == revision));
        Ok(self.knows_revision(unid, revision)? || is_loser()? || self.purged_deletion(unid, revision)?.is_some())
    }
}

impl Writer<'_, '_> {
    /// Takes over a version of a document that the caller brings, under the rights of the caller.
    ///
    /// The caller needs the right to create the document if it does not exist, and otherwise the right to change or
    /// delete the stored version, of which the caller must be a reader. Protected items must be as they are stored. The
    /// list of editors may name nobody but those who are stored, and the caller. Deletions of unknown documents are
    /// kept if the caller may delete all documents, and otherwise ignored.
    ///
    /// A conflict is resolved as between servers: nothing is merged unless the version says at which revisions its
    /// items changed. A version that descends from one that has lost a conflict takes the conflict document away.
    ///
    /// Only editors may state from which revisions a version descends: other servers believe it, and replace their
    /// versions by one that descends from them. Of what others state, the revisions count that this replica knows, so
    /// that a meeting with other versions is a conflict.
    ///
    /// A transaction receives each document once ([`ReceiveOutcome::Later`]).
    pub fn note_receive_from_person(
        &mut self,
        arriving: &ReplicaNote,
        deletions: DeletionRule,
    ) -> Result<ReceiveOutcome> {
        let name = || format!("note {}", arriving.unid);
        if !self.part.has_revisions {
            let database = self.part.database.path();
            return Err(Error::invalid(format!("database {database}"), "its structure is too old for replication"));
        }
        check_received(arriving)?;
        if arriving.is_truncated {
            return Err(Error::invalid(name(), "a part of a document cannot take its place"));
        }
        let named = item::blobs_of(arriving.items.as_deref().unwrap_or_default());
        if !named.iter().all(|blob| arriving.blobs.contains(blob)) {
            return Err(Error::invalid(name(), "an attachment is not among its contents"));
        }
        if !arriving.class.is_document() || !arriving.state.is_empty() {
            return Err(Error::invalid(name(), "people can bring documents only, without marks and folders"));
        }
        if self.part.created_note(arriving.unid).is_some() {
            return Ok(ReceiveOutcome::Later);
        }
        let Some(note) = records::find(self.store, self.number(), arriving.unid)? else {
            if self.purged_stub_restore(arriving.unid, arriving.revision)? {
                return Ok(ReceiveOutcome::Later);
            }
            let confirmed = self.with_confirmed_ancestors(arriving, None);
            return self.create_brought(&confirmed);
        };
        if self.part.pending.contains_key(&note) {
            return Ok(ReceiveOutcome::Later);
        }
        if self.is_known_to_reader(note, arriving)? {
            self.drop_unchanged(note);
            return Ok(ReceiveOutcome::Known { state_changed: false });
        }
        let taken = self.check_may_bring(note, arriving).and_then(|()| {
            let stored = self.current_version(note)?;
            let confirmed = self.with_confirmed_ancestors(arriving, Some(&stored));
            self.run_atomically(|writer| {
                let outcome = writer.receive_version(note, &confirmed, deletions)?;
                let has_deleted = writer.delete_superseded(arriving)?;
                let is_known = matches!(outcome, ReceiveOutcome::Known { .. });
                Ok(if has_deleted && is_known { ReceiveOutcome::Taken } else { outcome })
            })
        });
        self.drop_unchanged(note);
        if matches!(taken, Ok(ReceiveOutcome::Known { .. })) && self.is_loser(note, arriving)? {
            // Clients must be told that the version has ended, so the note counts as changed.
            self.part.pending_header(note)?;
        }
        taken
    }

    /// Writes the stub of a document again whose deletion was purged, if the caller names a version that the deletion
    /// knew, or may create documents. The rules for stubs then decide about what the caller brings. Returns `false` if
    /// there is such a document or stub, or no deletion is known.
    pub fn purged_stub_restore(&mut self, unid: Unid, revision: Revision) -> Result<bool> {
        self.require_level(AclLevel::Depositor)?;
        if records::find(self.store, self.number(), unid)?.is_some() {
            return Ok(false);
        }
        let Some(deletion) = self.purged_deletion(unid)?.filter(|deletion| deletion.class.is_document()) else {
            return Ok(false);
        };
        let is_known = deletion.knows(self.store, self.number(), (unid, revision))?;
        if is_known || self.part.grant.may_create() { self.write_purged_stub(unid) } else { Ok(false) }
    }

    /// Joins marks, keywords and folders that the caller has changed in a local replica with those of a document, under
    /// the rights of the caller. Returns `true` if one changed.
    ///
    /// Marks and keywords are those of the owner of the database, so those of others are left out; so are folders in
    /// which the caller may not put documents. Fails if the document does not exist, or the caller may not read it.
    pub fn state_receive_from_person(&mut self, unid: Unid, state: &[(StateName, Register)]) -> Result<bool> {
        self.require_level(AclLevel::Reader)?;
        let missing = || Error::not_found(format!("note {unid}"));
        let note = records::find(self.store, self.number(), unid)?.ok_or_else(missing)?;
        let header = self.part.stored_header(note)?.filter(|header| !header.is_stub() && header.class.is_document());
        if header.is_none() || !self.is_visible(note)? {
            self.drop_unchanged(note);
            return Err(missing());
        }
        let owner = &self.part.database.record().owner;
        let is_owner = !owner.is_empty() && self.part.grant.is_own(owner);
        let mut permitted = Vec::with_capacity(state.len());
        for (name, register) in state {
            let is_permitted = match name {
                StateName::Mark(_) | StateName::Keyword(_) => is_owner,
                StateName::Folder(_) => match self.state_key(name)? {
                    KnownState::Key(StateKey::Folder(folder)) => {
                        self.require_may_file(folder).is_ok() && self.require_folder_visible(folder).is_ok()
                    }
                    _ => false,
                },
                StateName::UidValidity => false,
            };
            if is_permitted {
                permitted.push((name.clone(), Register { number: 0, ..*register }));
            }
        }
        let changed = self.join_state(note, &permitted)?;
        if changed {
            // The person sees the document in its new folders at once, as after a change on this server.
            for (name, _) in &permitted {
                if let KnownState::Key(StateKey::Folder(folder)) = self.state_key(name)? {
                    self.release_held(folder)?;
                }
            }
        }
        self.drop_unchanged(note);
        Ok(changed)
    }

    /// Returns the revision of a note or stub, as the last transaction left it, or `None` if there is none, or it is
    /// hidden. Fails if the caller may not read documents.
    pub fn stored_revision(&mut self, unid: Unid) -> Result<Option<Revision>> {
        self.require_level(AclLevel::Reader)?;
        let Some(note) = records::find(self.store, self.number(), unid)? else { return Ok(None) };
        let stored = self.part.stored_header(note)?;
        let is_shown = stored.as_ref().is_some_and(NoteHeader::is_stub) || self.is_visible(note)?;
        self.drop_unchanged(note);
        Ok(stored.filter(|_| is_shown).map(|header| header.revision()))
    }

    /// Returns a version without the ancestors that this replica does not know, unless the caller is an editor.
    fn with_confirmed_ancestors<'a>(
        &self,
        arriving: &'a ReplicaNote,
        stored: Option<&ReplicaNote>,
    ) -> Cow<'a, ReplicaNote> {
        if self.part.grant.level() >= AclLevel::Editor {
            return Cow::Borrowed(arriving);
        }
        let claimed = &arriving.record.ancestors;
        let is_known = |revision| stored.is_some_and(|stored| stored.version().knows(revision));
        let known: Vec<_> = claimed.list().iter().copied().filter(|ancestor| is_known(ancestor.revision)).collect();
        if known.len() == claimed.list().len() {
            return Cow::Borrowed(arriving);
        }
        let unknown = || Ancestors::from_list(Vec::new(), Cut::Branches).unwrap_or_default();
        let ancestors = Ancestors::from_list(known, Cut::Branches).unwrap_or_else(unknown);
        let record = RevisionRecord { ancestors, changes: ItemChanges::default() };
        Cow::Owned(ReplicaNote { record, ..arriving.clone() })
    }

    fn create_brought(&mut self, arriving: &ReplicaNote) -> Result<ReceiveOutcome> {
        if arriving.items.is_none() && is_conflict_document_unid(arriving.unid) {
            // It was made elsewhere, and is gone there.
            return Ok(ReceiveOutcome::Known { state_changed: false });
        }
        check_unid_of_class(arriving.unid, arriving.class)?;
        let Some(items) = &arriving.items else { return self.create_brought_deletion(arriving) };
        if !self.part.grant.may_create() {
            self.require_level(AclLevel::Author)?;
            return Err(self.not_author(self.part.counters.next_note));
        }
        self.check_editors(&[], items)?;
        check_step(0, arriving.revision)?;
        if let Some(parent) = arriving.parent {
            self.check_depth(arriving.unid, parent)?;
        }
        self.create_received(arriving)?;
        Ok(ReceiveOutcome::Taken)
    }

    /// Keeps the deletion of a document that this replica has not received yet, so that the document does not come back
    /// with a version from which the deletion descends. Only who may delete every document may say so in advance.
    fn create_brought_deletion(&mut self, arriving: &ReplicaNote) -> Result<ReceiveOutcome> {
        let grant = &self.part.grant;
        if grant.level() < AclLevel::Editor || grant.flags().contains(AclFlags::NO_DELETE) {
            return Ok(ReceiveOutcome::Known { state_changed: false });
        }
        check_step(0, arriving.revision)?;
        self.create_received(arriving)?;
        Ok(ReceiveOutcome::Taken)
    }

    /// Checks whether the caller may replace a stored note or stub by a version.
    fn check_may_bring(&mut self, note: NoteId, arriving: &ReplicaNote) -> Result<()> {
        let found = self.part.pending_header_or_stub(note)?.map(|pending| pending.after.clone());
        let header = found.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        check_step(header.sequence, arriving.revision)?;
        if header.class != arriving.class {
            return Err(Error::invalid(format!("note {}", arriving.unid), "it has another class here"));
        }
        if !header.is_stub() {
            let Some(items) = &arriving.items else { return self.check_may_delete(note) };
            let summary = self.editable_summary(note)?;
            self.gate.permit(&summary.blobs);
            if let Some(parent) = arriving.parent.filter(|parent| header.parent != Some(*parent)) {
                self.check_depth(arriving.unid, parent)?;
            }
            let stored = self.current_version(note)?.items.unwrap_or_default();
            self.check_protected_items(note, &stored, items)?;
            return self.check_editors(&summary.items, items);
        }
        // Who could not read the document may not find out whether it was deleted, nor replace it.
        if !self.may_see_stub(note, &header)? {
            return Err(Error::not_found(format!("note {note}")));
        }
        let summary = self.part.stored_summary(note)?;
        let access_items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
        if let Some(items) = &arriving.items {
            self.check_editors(access_items, items)?;
            if let Some(parent) = arriving.parent.filter(|parent| header.parent != Some(*parent)) {
                self.check_depth(arriving.unid, parent)?;
            }
        }
        let kept = summary.as_ref().map_or(&[][..], |summary| &summary.blobs);
        self.gate.permit(kept);
        if self.part.grant.may_create() { Ok(()) } else { Err(self.not_author(note)) }
    }

    fn check_may_delete(&mut self, note: NoteId) -> Result<()> {
        let summary = self.deletable_summary(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        // An edit that the deletion has not seen is kept, with its attachments.
        self.gate.permit(&summary.blobs);
        Ok(())
    }

    /// Checks that the list of editors in new items names nobody but those in the stored items and the caller.
    fn check_editors(&self, stored: &[Item], new: &[Item]) -> Result<()> {
        let editors = |items| find_item(items, UPDATED_BY_ITEM).map_or(&[][..], |item| item.value.texts());
        let known = editors(stored);
        let is_right = |name: &String| known.contains(name) || self.part.grant.is_own(&base::Name::new(name));
        match editors(new).iter().find(|name| !is_right(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid(
                format!("the item {UPDATED_BY_ITEM}"),
                if name.is_empty() {
                    "it contains an empty name"
                } else {
                    "it names somebody who has not saved the document"
                },
            )),
        }
    }

    /// Returns `true` if the stored version, which the caller may read, is a version or descends from it.
    fn is_known_to_reader(&mut self, note: NoteId, arriving: &ReplicaNote) -> Result<bool> {
        let stub = self.part.stored_header(note)?.filter(NoteHeader::is_stub);
        let may_read = match &stub {
            Some(stub) => self.may_see_stub(note, stub)?,
            None => self.is_visible(note)?,
        };
        Ok(may_read && self.current_version(note)?.version().knows(arriving.revision))
    }

    /// Returns `true` if the caller could read a document that is deleted.
    fn may_see_stub(&mut self, note: NoteId, stub: &NoteHeader) -> Result<bool> {
        let summary = self.part.stored_summary(note)?;
        let access_items = summary.as_ref().map_or(&[][..], |summary| &summary.items);
        Ok(self.part.grant.may_see(stub.flags.difference(NoteFlags::PUBLIC), access_items))
    }

    /// Returns `true` if a version that was not taken is neither the stored one nor one of its ancestors.
    fn is_loser(&mut self, note: NoteId, arriving: &ReplicaNote) -> Result<bool> {
        let stored = self.current_version(note)?;
        Ok(stored.items.is_some() && arriving.items.is_some() && !stored.version().knows(arriving.revision))
    }

    /// Deletes the conflict documents that keep versions from which a version descends: it has taken their place.
    /// Returns `true` if there were any.
    ///
    /// The conflict document of the version itself stays: a caller who has not learned that the version has lost brings
    /// it again, and nothing else has its contents.
    fn delete_superseded(&mut self, arriving: &ReplicaNote) -> Result<bool> {
        let mut has_deleted = false;
        for revision in loser_records::load_losers(self.store, self.number(), arriving.unid)? {
            if revision == arriving.revision || !arriving.version().knows(revision) {
                continue;
            }
            let unid = conflict_document_unid(arriving.unid, revision);
            let Some(note) = records::find(self.store, self.number(), unid)? else { continue };
            let header = self.part.pending_header(note)?.map(|pending| pending.after.clone());
            if header.as_ref().is_some_and(losers::is_as_made) {
                self.check_may_supersede(note, arriving)?;
                let document = self.current_version(note)?;
                self.delete_as_replicas_do(note, document)?;
                has_deleted = true;
            } else {
                self.drop_unchanged(note);
            }
        }
        Ok(has_deleted)
    }

    /// Checks whether the caller may take away a conflict document: who deletes must be permitted to delete it, who
    /// goes on editing the version that it keeps must be permitted to change it.
    fn check_may_supersede(&mut self, note: NoteId, arriving: &ReplicaNote) -> Result<()> {
        match arriving.items {
            None => self.check_may_delete(note),
            Some(_) => self.editable_summary(note).map(drop),
        }
    }
}

/// Checks that a version does not count as saved much more often than the stored one, nor so often that it soon could
/// not be saved any more.
fn check_step(stored: u32, arriving: Revision) -> Result<()> {
    // One more save is always possible, also of a document that servers have saved more often.
    let most = BROUGHT_SEQUENCE_MAX.max(stored.saturating_add(1));
    if arriving.sequence > stored.saturating_add(BROUGHT_SEQUENCE_STEP_MAX).min(most) {
        return Err(Error::invalid(format!("the revision {arriving}"), "its sequence number is too high"));
    }
    Ok(())
}
