//! Rewrites the data that is derived from the notes.
//!
//! A repair reads nothing that a check could not read. Tables that are rewritten are deleted by range. Data that a
//! repair takes from an old index (its state, and the time at which each note was added to a folder) is left out where
//! it cannot be read.

use base::{Modseq, NoteId, Uid, Unid, ViewId};
use collection::{CollectionBuilder, CollectionId, CollectionReader, EntryWeigher, NodeSizes};
use store::{Batch, Table};

use super::{Survey, salvage};
use crate::acl::{ACL_NOTE_ID, ACL_UNID, acl_item};
use crate::change_log::{self, ChangeEntry, NoteChange};
use crate::counters::Counters;
use crate::error::Result;
use crate::folder::{self, FolderEntry, FolderState, FolderWeights};
use crate::instance::{InstanceId, Instances};
use crate::item::Item;
use crate::keys::{self, SummaryRecord};
use crate::keyword::Keywords;
use crate::note::{Membership, NoteClass, NoteHeader, Summary};
use crate::soft_deletion::DeletionRecord;
use crate::view::index_record;

/// The writes of a repair, and the new values to keep in memory.
pub(super) struct RepairBatch {
    pub(super) batch: Batch,
    pub(super) counters: Counters,
    /// The keywords, if they are rewritten.
    pub(super) keywords: Option<Keywords>,
    /// The instance that begins with the repair.
    pub(super) instance: InstanceId,
}

impl Survey<'_> {
    /// Rewrites all derived data.
    pub(super) fn write_repairs(&mut self) -> Result<RepairBatch> {
        let mut batch = Batch::new();
        let modseq = self.correct_counters(self.stored).modseq.next();
        self.quarantine(&mut batch)?;
        // Peers compare everything, because the order of changes may lack some. So does this replica, because notes may
        // be lost.
        let instance = InstanceId::generate(self.database.random.as_ref());
        let mut instances = Instances::default();
        instances.begin(instance, modseq);
        batch.put(Table::Meta, &keys::instances(self.number), &instances.encode());
        let histories = keys::replication_histories(self.number);
        let end = histories.end.as_ref().expect("database numbers never reach the maximum");
        batch.delete_range(Table::Meta, &histories.start, end);
        for note in &self.without_revisions {
            batch.delete(Table::Body, &keys::revisions(self.number, *note));
        }
        self.recreate_notes(modseq, &mut batch);
        let mut counters = self.correct_counters(self.stored);
        counters.modseq = modseq;
        counters.design_modseq = modseq;
        if self.database.losses.counters {
            counters.uid_validity = self.greatest_uid_validity()?;
        }
        self.delete_table(Table::Unid, &mut batch);
        self.delete_table(Table::Children, &mut batch);
        // Deletion by key would require reading the keys.
        batch.delete_range(Table::Meta, &keys::designs(self.number).start, &keys::designs_end(self.number));
        for header in self.headers.values() {
            if !self.is_superseded(header) {
                batch.put(Table::Unid, &keys::unid(self.number, header.unid), &header.note.to_key());
            }
            let design = keys::design(self.number, header.note);
            if header.class.is_design() && !header.is_stub() {
                batch.put(Table::Meta, &design, &header.class.0.to_be_bytes());
            }
        }
        for (parent, note) in self.responses() {
            batch.put(Table::Children, &keys::child(self.number, parent, note), &[]);
        }
        self.rewrite_changes(&mut counters, &mut batch)?;
        self.rewrite_unread(&mut batch);
        self.threads.repair(self.number, &mut batch);
        self.unread_times.repair(self.number, &mut batch);
        self.rewrite_deletions(&mut batch);
        let keywords = self.keywords_broken.then(|| self.correct_keywords());
        if let Some(keywords) = &keywords {
            batch.put(Table::Meta, &keys::keywords(self.number), &keywords.encode());
        }
        self.remove_view_indexes(&mut counters, &mut batch);
        for folder in &self.broken {
            self.rewrite_folder(*folder, &mut counters, &mut batch)?;
        }
        batch.put(Table::Meta, &keys::counters(self.number), &counters.encode());
        assert!(counters.next_note >= self.stored.next_note, "a repair must not reuse note ids");
        assert!(counters.modseq >= self.stored.modseq, "a repair must not lower the modseq");
        Ok(RepairBatch { batch, counters, keywords, instance })
    }

    fn delete_table(&self, table: Table, batch: &mut Batch) {
        batch.delete_range(table, &self.number.to_key(), &self.number.next().to_key());
    }

    /// Keeps the readable part of the unread marks.
    fn rewrite_unread(&self, batch: &mut Batch) {
        let Some(left) = &self.unread_left else { return };
        self.delete_table(Table::Unread, batch);
        left.iter().for_each(|(key, value)| batch.put(Table::Unread, key, value));
    }

    /// Removes the indexes of views and the collections of layers above, which are rebuilt when they are missing.
    ///
    /// Indexes without visible defects are removed, too: they may contain rows of a lost note, or lack data that this
    /// crate does not know of.
    fn remove_view_indexes(&self, counters: &mut Counters, batch: &mut Batch) {
        counters.index_bytes = 0;
        counters.personal_index_bytes = 0;
        for view in &self.foreign {
            CollectionId::new(self.number, *view).remove_all(batch);
            let back = keys::view_back_range(self.number, *view);
            let end = back.end.expect("view numbers never reach the maximum");
            batch.delete_range(Table::ViewBack, &back.start, &end);
        }
        let records = keys::view_indexes(self.number);
        let rows = index_record::all_rows(self.number);
        let tables = [Table::View, Table::Tree, Table::ViewBack].map(|table| (table, &rows));
        for (table, range) in tables.into_iter().chain([(Table::Meta, &records)]) {
            let end = range.end.as_ref().expect("database numbers never reach the maximum");
            batch.delete_range(table, &range.start, end);
        }
    }

    /// Lists the notes that can be restored, and removes all others from the list. The header still contains the time
    /// of the deletion, but its author and the folders are lost.
    fn rewrite_deletions(&self, batch: &mut Batch) {
        for note in &self.deletions {
            let key = keys::deletion(self.number, *note);
            match self.headers.get(note).filter(|header| header.is_soft_deleted()) {
                Some(header) => {
                    let deletion = DeletionRecord { at: header.modified, ..DeletionRecord::default() };
                    batch.put(Table::Meta, &key, &deletion.encode());
                }
                None => batch.delete(Table::Meta, &key),
            }
        }
    }

    fn rewrite_changes(&self, counters: &mut Counters, batch: &mut Batch) -> Result<()> {
        // Removals from folders and permanent deletions are recorded only in the change log, and the damage may have
        // destroyed some of these records. Therefore a reader of changes before this point must compare everything.
        counters.purged_modseq = counters.modseq;
        counters.stubs = self.headers.values().filter(|header| header.is_stub()).count() as u64;
        if self.unreadable.contains(&Table::ByModseq) {
            self.delete_table(Table::ByModseq, batch);
        } else {
            change_log::scan(self.reader, self.number, Modseq(0), &mut |entry| {
                if matches!(entry.change, NoteChange::Left { .. }) {
                    counters.stubs += 1;
                } else {
                    change_log::delete_any(batch, self.number, entry.modseq, entry.note);
                }
                Ok(())
            })?;
        }
        for header in self.headers.values() {
            let change = if header.is_stub() {
                NoteChange::Deleted { at: header.modified, folders: Vec::new() }
            } else {
                NoteChange::Changed { folders: header.folders.clone() }
            };
            change_log::put(batch, self.number, &ChangeEntry::new(header.modseq, header.note, change));
        }
        Ok(())
    }

    /// Rewrites the index of a folder from the notes. UIDs are kept. Clients are told to drop their cached data only if
    /// the state of the folder is lost.
    fn rewrite_folder(&self, folder: ViewId, counters: &mut Counters, batch: &mut Batch) -> Result<()> {
        let id = folder::collection_id(self.number, folder);
        // The old index provides the time at which each note was added to the folder, as far as it can be read.
        let stored = CollectionReader::open(self.reader, id).ok();
        let state = stored.as_ref().and_then(|reader| FolderState::decode(reader.state()).ok());
        let members = self.folders.get(&folder).cloned().unwrap_or_default();
        let last = members.keys().next_back().copied().unwrap_or_default();
        let mut state = state.unwrap_or_else(|| {
            let seconds = u32::try_from(self.database.clock.now().seconds()).unwrap_or(1);
            counters.uid_validity = seconds.max(counters.uid_validity.saturating_add(1));
            // Nobody knows which UIDs this server has given out, so it does not share them any longer.
            let uid_validity = counters.uid_validity;
            FolderState { uid_validity, uid_next: Uid(1), highest_modseq: counters.modseq, shared: None }
        });
        match &mut state.shared {
            Some(shared) => shared.end = shared.end.max(last.next()),
            None => state.uid_next = state.uid_next.max(last.next()),
        }
        state.highest_modseq = counters.modseq;
        id.remove_all(batch);
        let mut builder = CollectionBuilder::start(id, FolderWeights.sums(), NodeSizes::default(), batch);
        for (uid, note) in members {
            let Some(header) = self.headers.get(&note) else { continue };
            let old = stored.as_ref().and_then(|reader| reader.find(&uid.to_key()).ok().flatten());
            let saved =
                old.and_then(|value| FolderEntry::decode(uid, &value).ok()).map_or(header.modified, |old| old.saved);
            let entry = FolderEntry::from_header(header, Membership { folder, uid }, saved);
            builder.put(batch, &uid.to_key(), &entry.encode(), entry.weight())?;
        }
        builder.finish(batch, &state.encode())?;
        Ok(())
    }

    /// Moves damaged notes into quarantine, with all records that can be read. They still count as users of their
    /// attachments, and body items that can be read stay where they are.
    fn quarantine(&self, batch: &mut Batch) -> Result<()> {
        for note in &self.damaged {
            for part in [SummaryRecord::Header, SummaryRecord::Summary] {
                let key = keys::summary(self.number, *note, part);
                let stored = salvage::split_damage(self.reader.get(Table::Summary, &key).map_err(Into::into))?;
                // An empty record marks one that exists but cannot be read.
                if let Some(value) = stored.unwrap_or_else(|_| Some(Vec::new())) {
                    batch.put(Table::Meta, &keys::quarantine(self.number, *note, part), &value);
                }
                batch.delete(Table::Summary, &key);
            }
        }
        Ok(())
    }

    /// Recreates the notes on which others depend, with their remaining headers: folders that contain notes, and the
    /// access control list.
    fn recreate_notes(&mut self, modseq: Modseq, batch: &mut Batch) {
        for folder in self.lost_folders.clone() {
            let title = folder::recovered_title(folder);
            let items = vec![Item::text(folder::TITLE_ITEM, title), Item::text(folder::FLAGS_ITEM, "F")];
            self.put_note(NoteId(folder.0), (NoteClass::VIEW, modseq), items, batch);
        }
        if self.damaged.contains(&ACL_NOTE_ID) {
            let items = vec![acl_item(&self.database.acl().1)];
            self.put_note(ACL_NOTE_ID, (NoteClass::ACL, modseq), items, batch);
        }
    }

    fn put_note(&mut self, note: NoteId, kind: (NoteClass, Modseq), items: Vec<Item>, batch: &mut Batch) {
        let now = self.database.clock.now();
        let record = Summary { items, ..Summary::default() }.encode();
        let left = self.headers.get(&note).filter(|header| header.class == kind.0 && !header.is_stub());
        let new = || {
            let is_acl = kind.0 == NoteClass::ACL;
            // With its UNID, a folder is the same as in other replicas, which still have its title.
            let of_folder = || self.unids_of_lost.get(&note).filter(|unid| !self.leads_to.contains_key(unid)).copied();
            let known = if is_acl { Some(ACL_UNID) } else { of_folder() };
            let unid = known.unwrap_or_else(|| Unid::generate(self.database.random.as_ref()));
            NoteHeader { sequence: 0, ..NoteHeader::new(note, unid, kind.0, now, kind.1) }
        };
        let mut header = left.cloned().unwrap_or_else(new);
        // The revisions of the note before may be lost, too.
        batch.delete(Table::Body, &keys::revisions(self.number, note));
        let is_of_last_save = note == ACL_NOTE_ID && !self.database.losses.acl && header.sequence > 0;
        if !is_of_last_save {
            // What another replica still has replaces the substitute.
            header.set_oldest();
        }
        header.modified = now;
        header.set_modseq(kind.1, None);
        header.size = record.len() as u64;
        header.crlf_growth = 0;
        batch.put(Table::Summary, &keys::summary(self.number, note, SummaryRecord::Header), &header.encode());
        batch.put(Table::Summary, &keys::summary(self.number, note, SummaryRecord::Summary), &record);
        self.leads_to.insert(header.unid, note);
        self.headers.insert(note, header);
    }
}
