//! The headers and summaries of a copy.
//!
//! A new database has the documents with other UNIDs: the keyed hash of the old one. It has no deletion stubs, and no
//! requests to send, which belong to the queue of the server and not to the mail file. If the owner changes, the name
//! changes in what belongs to the owner: personal profiles, folders and views. A replica has everything unchanged.

use std::collections::{BTreeSet, HashSet};

use base::{DbNumber, Name, NoteId, Random, Unid, ViewId};
use revision::RevisionId;
use store::blob::{BlobOwner, BlobWriter};
use store::{Batch, Snapshot, Table, TableReader as _};

use super::CopyProgress;
use crate::acl::{Acl, acl_item};
use crate::error::{Result, damaged};
use crate::folder;
use crate::item::{Item, ItemRef, ItemValue};
use crate::keys::{self, SummaryRecord};
use crate::local_document::ID_ITEM;
use crate::note::{MAIL_SETTINGS_UNID, NoteClass, NoteHeader, Summary};
use crate::profile::{NAME_ITEM, USER_ITEM, profile_unid};
use crate::records;
use crate::view::note::ViewKind;

/// The UNIDs of the documents of a new database.
pub(super) struct UnidMap {
    key: [u8; 32],
    /// The documents that keep their UNIDs, because these follow from what is in them.
    kept: HashSet<Unid>,
}

impl UnidMap {
    pub(super) fn random(random: &dyn Random) -> Self {
        let mut key = [0; 32];
        random.fill(&mut key);
        Self { key, kept: HashSet::new() }
    }

    fn of_document(&self, unid: Unid) -> Unid {
        if self.kept.contains(&unid) {
            return unid;
        }
        let mut new = [0; 16];
        new.copy_from_slice(&blake3::keyed_hash(&self.key, &unid.0).as_bytes()[..16]);
        Unid(new)
    }
}

/// The batch to which a step of a copy adds notes.
pub(super) struct CopiedNotes<'b, 'g> {
    /// Held until the batch is committed, so the content to which the notes refer stays.
    pub(super) gate: &'b BlobWriter<'g>,
    pub(super) batch: &'b mut Batch,
    pub(super) progress: &'b mut CopyProgress,
}

/// The headers and summaries of a copy, and what the other parts of the copy need to know of them.
pub(super) struct NoteRows {
    from: DbNumber,
    to: DbNumber,
    /// The UNIDs of a new database, or `None` for a replica.
    unids: Option<UnidMap>,
    /// The names of the owner of the source and of the copy, if they differ.
    owner: Option<(Name, Name)>,
    /// The access control list, if it is not that of the source.
    acl: Option<Acl>,
    left_out: HashSet<NoteId>,
    /// Number and size of the notes that are left out although they count in the source.
    counted_left_out: (u64, u64),
    views: BTreeSet<ViewId>,
}

impl NoteRows {
    pub(super) fn new(
        (from, to): (DbNumber, DbNumber),
        unids: Option<UnidMap>,
        owner: Option<(Name, Name)>,
        acl: Option<Acl>,
    ) -> Self {
        let left_out = HashSet::new();
        Self { from, to, unids, owner, acl, left_out, counted_left_out: (0, 0), views: BTreeSet::new() }
    }

    /// Returns the number of the copy.
    pub(super) fn target(&self) -> DbNumber {
        self.to
    }

    /// Returns the folders and views that were copied.
    pub(super) fn views(&self) -> impl Iterator<Item = ViewId> + use<> {
        self.views.clone().into_iter()
    }

    /// Returns `true` if a note is not in the copy.
    pub(super) fn leaves_out(&self, note: NoteId) -> bool {
        self.left_out.contains(&note)
    }

    /// Returns `true` if the copy is a new database, not a replica.
    pub(super) fn is_new_database(&self) -> bool {
        self.unids.is_some()
    }

    /// Returns the name of the owner of the copy in lower case, if it is not that of the source.
    pub(super) fn new_owner_key(&self) -> Option<String> {
        self.owner.as_ref().map(|(_, new)| new.canonical().to_lowercase())
    }

    pub(super) fn notes_left_out(&self) -> u64 {
        self.counted_left_out.0
    }

    pub(super) fn bytes_left_out(&self) -> u64 {
        self.counted_left_out.1
    }

    /// Records that a document keeps its UNID if a client of CouchDB has created it.
    pub(super) fn keep_if_client_document(&mut self, header: &NoteHeader, items: &[ItemRef<'_>]) {
        let is_of_client = items.iter().any(|item| item.name.eq_ignore_ascii_case(ID_ITEM));
        if let Some(unids) = self.unids.as_mut().filter(|_| is_of_client && header.class.is_document()) {
            unids.kept.insert(header.unid);
        }
    }

    /// Returns the UNID in the copy of a note of the source. UNIDs of other notes stay.
    pub(super) fn translated(&self, snapshot: &Snapshot<'_>, unid: Unid) -> Result<Unid> {
        let Some(unids) = &self.unids else { return Ok(unid) };
        let Some(note) = records::find(snapshot, self.from, unid)? else { return Ok(unid) };
        let key = keys::summary(self.from, note, SummaryRecord::Header);
        let Some(value) = snapshot.get(Table::Summary, &key)? else { return Ok(unid) };
        let header = NoteHeader::decode(note, &value).map_err(|_| damaged(Table::Summary, &key))?;
        Ok(if header.class.is_document() { unids.of_document(unid) } else { unid })
    }

    /// Adds a note to the copy.
    pub(super) fn copy(
        &mut self,
        snapshot: &Snapshot<'_>,
        (header, summary): (NoteHeader, Option<&[u8]>),
        copied: &mut CopiedNotes<'_, '_>,
    ) -> Result<()> {
        let CopiedNotes { gate, batch, progress } = copied;
        let note = header.note;
        if self.is_left_out(&header) {
            let is_counted = !header.is_stub();
            self.counted_left_out.0 += u64::from(is_counted);
            self.counted_left_out.1 += if header.has_contents() { header.size } else { 0 };
            self.left_out.insert(note);
            return Ok(());
        }
        if header.class == NoteClass::VIEW && !header.is_stub() {
            self.views.insert(ViewId(note.0));
        }
        let decoded = match summary {
            Some(bytes) => {
                let key = keys::summary(self.from, note, SummaryRecord::Summary);
                Some(Summary::decode(bytes).map_err(|_| damaged(Table::Summary, &key))?)
            }
            None => None,
        };
        progress.notes += 1;
        progress.documents += u64::from(header.class.is_document() && !header.is_stub());
        let header = self.changed_header(snapshot, header, decoded.as_ref())?;
        batch.put(Table::Summary, &keys::summary(self.to, note, SummaryRecord::Header), &header.encode());
        if self.is_new_database() {
            batch.put(Table::Unid, &keys::unid(self.to, header.unid), &note.to_key());
            if let Some(parent) = header.parent {
                batch.put(Table::Children, &keys::child(self.to, parent, note), &[]);
            }
        }
        let (Some(bytes), Some(decoded)) = (summary, decoded) else { return Ok(()) };
        for blob in &decoded.blobs {
            gate.add_user(batch, BlobOwner { database: self.to, note }, blob)?;
        }
        progress.attachments += decoded.blobs.len() as u64;
        let key = keys::summary(self.to, note, SummaryRecord::Summary);
        match self.changed_summary(snapshot, &header, decoded)? {
            Some(changed) => batch.put(Table::Summary, &key, &changed.encode()),
            None => batch.put(Table::Summary, &key, bytes),
        }
        Ok(())
    }

    fn is_left_out(&self, header: &NoteHeader) -> bool {
        let is_request =
            header.class.is_document() && header.parent == Some(MAIL_SETTINGS_UNID) && header.folders.is_empty();
        self.is_new_database() && (header.is_stub() || is_request)
    }

    fn changed_header(
        &self,
        snapshot: &Snapshot<'_>,
        mut header: NoteHeader,
        summary: Option<&Summary>,
    ) -> Result<NoteHeader> {
        let Some(unids) = &self.unids else { return Ok(header) };
        let before = header.unid;
        if header.class.is_document() {
            header.unid = unids.of_document(before);
            header.parent = header.parent.map(|parent| self.translated(snapshot, parent)).transpose()?;
        } else if let Some(name) = summary.and_then(|summary| self.inherited_profile(&header, &summary.items)) {
            let (_, owner) = self.owner.as_ref().expect("a profile is inherited by another owner");
            let unid = profile_unid(name, Some(owner));
            // The new owner may have had a profile of this name in the mail file of the other one.
            if records::find(snapshot, self.from, unid)?.is_none() {
                header.unid = unid;
            }
        }
        if header.revision_id == RevisionId::first(header.sequence_time, before) {
            header.revision_id = RevisionId::first(header.sequence_time, header.unid);
        }
        Ok(header)
    }

    /// Returns the name of a profile of the owner of the source, if the copy has another owner.
    fn inherited_profile<'i>(&self, header: &NoteHeader, items: &'i [Item]) -> Option<&'i str> {
        let (old, _) = self.owner.as_ref().filter(|_| header.class == NoteClass::PROFILE)?;
        let text = |name| crate::item::find_item(items, name).and_then(|item| item.value.text());
        (Name::new(text(USER_ITEM)?) == *old).then(|| text(NAME_ITEM))?
    }

    /// Returns the summary of a note in the copy, whose header is that in the copy, or `None` if it is the same.
    fn changed_summary(
        &self,
        snapshot: &Snapshot<'_>,
        header: &NoteHeader,
        mut summary: Summary,
    ) -> Result<Option<Summary>> {
        if !self.is_new_database() {
            return Ok(None);
        }
        let is_changed = match header.class {
            NoteClass::ACL => self.change_acl(&mut summary.items),
            NoteClass::VIEW => self.change_personal_view(&mut summary.items),
            NoteClass::PROFILE => self.change_profile(header, &mut summary.items),
            _ => self.change_references(snapshot, &mut summary.items)?,
        };
        Ok(is_changed.then_some(summary))
    }

    fn change_acl(&self, items: &mut [Item]) -> bool {
        let Some(acl) = &self.acl else { return false };
        let changed = acl_item(acl);
        let found = items.iter_mut().find(|item| item.is_named(&changed.name));
        found.is_some_and(|item| {
            *item = changed;
            true
        })
    }

    fn change_personal_view(&self, items: &mut [Item]) -> bool {
        let Some((old, new)) = &self.owner else { return false };
        let letters = crate::item::find_item(items, folder::FLAGS_ITEM).and_then(|item| item.value.text());
        if !letters.is_some_and(|letters| ViewKind::of_letters(letters).private) {
            return false;
        }
        let readers = items.iter_mut().find(|item| item.is_named(folder::READERS_ITEM));
        readers.is_some_and(|item| match &mut item.value {
            ItemValue::Text(only) if Name::new(only) == *old => {
                new.canonical().clone_into(only);
                true
            }
            ItemValue::TextList(names) => match names.as_mut_slice() {
                [only] if Name::new(only) == *old => {
                    new.canonical().clone_into(only);
                    true
                }
                _ => false,
            },
            _ => false,
        })
    }

    fn change_profile(&self, header: &NoteHeader, items: &mut [Item]) -> bool {
        let Some((_, new)) = &self.owner else { return false };
        let is_inherited =
            self.inherited_profile(header, items).is_some_and(|name| header.unid == profile_unid(name, Some(new)));
        let user = items.iter_mut().find(|item| is_inherited && item.is_named(USER_ITEM));
        user.is_some_and(|item| {
            item.value = ItemValue::Text(new.canonical().to_owned());
            true
        })
    }

    fn change_references(&self, snapshot: &Snapshot<'_>, items: &mut [Item]) -> Result<bool> {
        let mut is_changed = false;
        for item in items {
            is_changed |= self.translate_references(snapshot, &mut item.value)?;
        }
        Ok(is_changed)
    }

    /// Translates the references in a value. Returns `true` if it has any.
    pub(super) fn translate_references(&self, snapshot: &Snapshot<'_>, value: &mut ItemValue) -> Result<bool> {
        let ItemValue::NoteReferences(unids) = value else { return Ok(false) };
        for unid in unids.iter_mut() {
            *unid = self.translated(snapshot, *unid)?;
        }
        Ok(true)
    }
}
