//! Notes as replicas exchange them, and how a replica takes them over.
//!
//! [`DatabaseSnapshot::replica_note`] returns everything of a note that other replicas need, without anything that
//! means something only here: note ids, modseqs, numbers of folders and keywords. [`Writer::note_receive`] takes such a
//! note over: `revision::receive` decides about the contents, and marks, keywords and folders are joined one by one.
//! Views, indexes and clients follow as from any other change. `docs/replication.md` has the rules.
//!
//! Limits for people do not apply: quotas, response levels, rights. Only the server itself may receive notes.

use std::collections::BTreeSet;

use base::{NoteId, Timestamp, Uid, Unid, ViewId};
use revision::{
    Arrival, DeletionRule, EditRule, LoserFate, Merged, Register, Revision, Rules, Side, conflict_document_unid,
    receive,
};
use store::blob::BlobId;
use store::{Direction, Table, TableReader as _};

use crate::acl::{ACL_ITEM, Acl};
use crate::acl_history::{self, AclHistoryEntry};
use crate::catalog::DatabaseKind;
use crate::change_times::StateKey;
use crate::database_snapshot::DatabaseSnapshot;
use crate::deny_list::{DenyListMerge, count_deny_lists};
use crate::edit_history::merged_edit_history;
use crate::error::{Error, Result};
use crate::folder::{self, FLAGS_ITEM};
use crate::folder_index_writer::FolderIndexWriter;
use crate::folder_reader::FolderReader;
use crate::instance::ReplicationHistory;
use crate::item::{self, Item, ItemValue};
use crate::keys::{self, SummaryRecord};
use crate::limits::{
    CLIENT_ID_BYTES_MAX, JOINED_FOLDERS_MAX, JOINED_VALUES_MAX, RECEIVED_TIME_MAX, RECEIVED_UID_MAX,
    RECEIVED_UID_VALIDITY_MAX, UNFILED_PER_TRANSACTION_MAX,
};
use crate::local_document::ID_ITEM;
use crate::loser_records;
use crate::losers;
use crate::note::{Marks, NewContents, NoteClass, NoteFlags, NoteHeader, Summary};
use crate::records;
use crate::replica_note::{check_received, check_storable, client_id_in};
use crate::revision_record::RevisionRecord;
use crate::save::conflict_action;
use crate::transaction::PendingHeader;
use crate::view::note::ViewKind;
use crate::writer::{self, Writer, check_unid_of_class};

pub use crate::replica_note::{ListedNote, ReplicaNote, StateName};

/// What happened to a note that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveOutcome {
    /// The contents were known. `state_changed` is `true` if marks, keywords or folders were not.
    Known { state_changed: bool },
    /// The note is new, or its contents were replaced.
    Taken,
    /// A folder exists again that had been deleted here. The notes that were in it are not known here any more, so this
    /// replica must compare everything.
    FolderRestored,
    /// The contents were merged with those of this replica.
    Merged,
    /// There was a conflict, and this replica's version or the other one was kept besides the winner.
    Conflict,
    /// There was a conflict, and the version that has lost is among the deleted documents that can be restored.
    LoserRestorable,
    /// The note is a design note, a profile document or the access control list, and was changed in both replicas. The
    /// arriving version was taken, or not, and nothing of the other was kept.
    Dropped { taken: bool },
    /// The transaction has made this note itself. It must be committed, and the note received again.
    Later,
}

impl DatabaseSnapshot<'_> {
    /// Returns a note as replicas exchange it, also a stub, or `None` if it is absent or hidden from the reader.
    pub fn replica_note(&self, note: NoteId) -> Result<Option<ReplicaNote>> {
        self.replica_note_within(note, u64::MAX)
    }

    /// Returns a note as `replica_note` does. Fails with [`Error::Limit`] if its body items are larger than
    /// `bytes_max`.
    pub fn replica_note_within(&self, note: NoteId, bytes_max: u64) -> Result<Option<ReplicaNote>> {
        let Some(header) = self.header(note)? else { return Ok(None) };
        let record = RevisionRecord::load(&self.snapshot, self.database(), &header)?;
        let contents = if header.is_stub() { None } else { self.note_within(note, bytes_max)? };
        let state = self.state_of(&header)?;
        // The name of a document that not everybody may read is no concern of those who have not received it.
        let client_id = match header.is_stub() && !header.flags.contains(NoteFlags::HAS_READERS) {
            true => records::load_summary(&self.snapshot, self.database(), note)?.as_ref().and_then(client_id_in),
            false => None,
        };
        Ok(Some(ReplicaNote {
            unid: header.unid,
            class: header.class,
            is_conflict: header.flags.contains(NoteFlags::CONFLICT) && !header.is_stub(),
            revision: header.revision(),
            sequence_time: header.sequence_time,
            record,
            created: header.created,
            received: header.received,
            size: (!header.is_stub()).then_some(header.size),
            crlf_growth: if header.is_stub() { 0 } else { header.crlf_growth },
            parent: header.parent,
            blobs: contents.as_ref().map_or_else(Vec::new, |note| note.blobs.clone()),
            items: contents.map(|note| note.items),
            state,
            client_id,
            is_truncated: header.is_truncated(),
        }))
    }

    /// Returns a note as lists of changes name it, also a stub, or `None` if it is absent or hidden from the reader.
    /// `is_old` tells whether the reader has received it before.
    pub fn listed_note(&self, note: NoteId, is_old: &dyn Fn(&NoteHeader) -> bool) -> Result<Option<ListedNote>> {
        let Some(header) = self.header(note)? else { return Ok(None) };
        let state = self.state_of(&header)?;
        let NoteHeader { unid, class, size, .. } = header;
        let is_old = is_old(&header);
        let revision = header.revision();
        let saved = header.sequence_time;
        let is_truncated = header.is_truncated();
        Ok(Some(ListedNote { unid, class, revision, saved, size, state, is_old, is_unselected: false, is_truncated }))
    }

    /// Returns `true` if this replica has the version of a note that a list names, or one that descends from it.
    ///
    /// Of a save that a CouchDB client has made, the version that came to a server first counts. So one that came
    /// earlier than that of this replica is not known.
    pub fn knows_listed(&self, listed: &ListedNote) -> Result<bool> {
        let found = self.find(listed.unid)?.map(|note| self.header(note)).transpose()?.flatten();
        let Some(header) = found else { return Ok(false) };
        let is_earlier = header.revision() == listed.revision
            && listed.revision.counts_rather_at(listed.saved, header.sequence_time);
        Ok(!is_earlier && self.has_version(&header, listed.revision)?)
    }

    fn state_of(&self, header: &NoteHeader) -> Result<Vec<(StateName, Register)>> {
        if header.is_stub() {
            return Ok(Vec::new());
        }
        let keywords = self.database().keywords();
        let mut state = Vec::new();
        for key in state_keys(header) {
            let name = match key {
                StateKey::Mark(bit) => Some(StateName::Mark(bit)),
                StateKey::Keyword(keyword) => keywords.name(keyword).map(|name| StateName::Keyword(name.to_owned())),
                StateKey::Folder(folder) => {
                    let folder = records::load_header(&self.snapshot, self.database(), NoteId(folder.0))?;
                    folder.map(|folder| StateName::Folder(folder.unid))
                }
            };
            let mut register = header.register(key);
            if let StateKey::Folder(folder) = key
                && let Some(uid) = header.uid_in(folder)
                && self.shared_uid_validity(folder)?.is_some()
            {
                register.number = uid.0;
            }
            state.extend(name.map(|name| (name, register)));
        }
        if header.class == NoteClass::VIEW
            && let Some(uid_validity) = self.shared_uid_validity(ViewId(header.note.0))?
        {
            let register = Register { number: uid_validity, ..Register::new(true, header.created) };
            state.push((StateName::UidValidity, register));
        }
        state.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(state)
    }
}

impl DatabaseSnapshot<'_> {
    /// Returns UIDVALIDITY of a folder if its UIDs are shared.
    fn shared_uid_validity(&self, folder: ViewId) -> Result<Option<u32>> {
        if self.database().settings.uid_rank.is_none() {
            return Ok(None);
        }
        let state = FolderReader::open(&self.snapshot, self.database(), folder).map(|folder| folder.state());
        match state {
            Ok(state) => Ok(state.shared.map(|_| state.uid_validity)),
            // A view has no UIDs.
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the marks, keywords and folders that are set, or of which a time is known.
fn state_keys(header: &NoteHeader) -> BTreeSet<StateKey> {
    let marks = (0..8).filter(|bit| header.marks.0 & (1 << bit) != 0).map(StateKey::Mark);
    let keywords = header.keywords.iter().map(|keyword| StateKey::Keyword(*keyword));
    let folders = header.folders.iter().map(|place| StateKey::Folder(place.folder));
    let changed = header.change_times.list().iter().map(|(key, _)| *key);
    marks.chain(keywords).chain(folders).chain(changed).collect()
}

/// Returns `true` if the items are those of a folder.
fn is_folder(class: NoteClass, items: &[Item]) -> bool {
    let flags = || item::find_item(items, FLAGS_ITEM).and_then(|item| item.value.text());
    class == NoteClass::VIEW && ViewKind::of_letters(flags().unwrap_or_default()).folder
}

/// Returns what a version asks for in a conflict. Documents of directories are merged: a person, a group or a server
/// has one document.
fn edit_rule((kind, class): (DatabaseKind, NoteClass), items: &[Item]) -> EditRule {
    if !class.is_document() {
        return EditRule::GreaterCounts;
    }
    if kind == DatabaseKind::Directory {
        return EditRule::Merge;
    }
    match conflict_action(items) {
        1 | 3 => EditRule::Merge,
        2 => EditRule::KeepRestorable,
        _ => EditRule::KeepBoth,
    }
}

/// Returns what happens to a version that arrives, and whether a merge has left out a change of the lesser
/// version, which is then to be kept.
fn decide(
    kind: DatabaseKind,
    (current, arriving): (&ReplicaNote, &ReplicaNote),
    deletions: DeletionRule,
) -> (Arrival<Item>, bool) {
    let is_truncated = current.is_truncated || arriving.is_truncated;
    let deny_lists = count_deny_lists(kind, [current, arriving]);
    let deny_list = (deny_lists == 2).then(DenyListMerge::default);
    let rules = Rules {
        // Replicas that have the whole versions merge them.
        edits: &|version| match edit_rule((kind, arriving.class), version.items) {
            EditRule::Merge if is_truncated => EditRule::GreaterCounts,
            EditRule::Merge if deny_lists == 1 => EditRule::KeepBoth,
            rule => rule,
        },
        deletions,
        unite: &|name, greater, lesser| {
            let united = merged_edit_history(name, greater, lesser);
            united.or_else(|| Some(deny_list.as_ref()?.unite(name, greater, lesser)))
        },
        fits: &|merged| check_storable(&merged_note(merged.clone(), current, arriving)).is_ok(),
    };
    let decided = receive(&current.version(), &arriving.version(), &rules);
    let loses_change = deny_list.as_ref().is_some_and(DenyListMerge::loses_change);
    (decided, loses_change)
}

impl Writer<'_, '_> {
    /// Takes over a note from another replica: nothing if it is known, and otherwise what the rules say. Fails unless
    /// the caller is the server itself.
    ///
    /// A transaction receives each note once, and changes none of them in another way.
    ///
    /// Folders must be received before the documents in them: a folder that has not arrived yet is left out of the
    /// folders of a document.
    pub fn note_receive(&mut self, arriving: &ReplicaNote, deletions: DeletionRule) -> Result<ReceiveOutcome> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        if !self.part.has_revisions {
            let database = self.part.database.path();
            return Err(Error::invalid(format!("database {database}"), "its structure is too old for replication"));
        }
        check_received(arriving)?;
        // The right of the other server depends on the class that it has stated.
        if !revision::is_conflict_document_unid(arriving.unid) {
            check_unid_of_class(arriving.unid, arriving.class)?;
        }
        if self.part.created_note(arriving.unid).is_some() {
            return Ok(ReceiveOutcome::Later);
        }
        match records::find(self.store, self.number(), arriving.unid)? {
            Some(note) => self.receive_version(note, arriving, deletions),
            None => self.receive_new(arriving),
        }
    }

    /// Takes over a note that this replica lacks. If it had one that was deleted, and the stub is purged, the stub is
    /// written again, and the note is received later: then the rules for deletions decide.
    fn receive_new(&mut self, arriving: &ReplicaNote) -> Result<ReceiveOutcome> {
        if self.write_purged_stub(arriving.unid)? {
            return Ok(ReceiveOutcome::Later);
        }
        self.create_received(arriving)?;
        Ok(ReceiveOutcome::Taken)
    }

    /// Writes the stub of a note again whose deletion was purged, so that the replica which still has the note learns
    /// of the deletion. Returns `false` if no such deletion is known.
    pub(crate) fn write_purged_stub(&mut self, unid: Unid) -> Result<bool> {
        if self.part.created_note(unid).is_some() {
            return Ok(false);
        }
        let Some(deletion) = self.purged_deletion(unid)? else { return Ok(false) };
        let stub = ReplicaNote {
            unid,
            class: deletion.class,
            is_conflict: false,
            revision: deletion.revision,
            sequence_time: deletion.time,
            record: self.purged_record(unid, deletion.revision)?,
            created: deletion.time,
            received: deletion.time,
            size: None,
            crlf_growth: 0,
            parent: None,
            items: None,
            blobs: Vec::new(),
            state: Vec::new(),
            client_id: None,
            is_truncated: false,
        };
        let note = self.create_received(&stub)?;
        if deletion.has_readers {
            self.received_header(note)?.after.flags |= NoteFlags::HAS_READERS;
        }
        if !deletion.summary.is_empty() {
            let key = keys::summary(self.number(), note, SummaryRecord::Summary);
            self.batch.put(Table::Summary, &key, &deletion.summary);
        }
        Ok(true)
    }

    /// Takes over a version of a note or stub that this replica has.
    pub(crate) fn receive_version(
        &mut self,
        note: NoteId,
        arriving: &ReplicaNote,
        deletions: DeletionRule,
    ) -> Result<ReceiveOutcome> {
        let current = self.current_version(note)?;
        check_version_of(&current, arriving)?;
        if current.is_truncated && !arriving.is_truncated && current.revision == arriving.revision {
            self.replace_received(note, arriving)?;
            self.join_state(note, &arriving.state)?;
            self.renew_received_uids(note, (arriving.revision, arriving.sequence_time))?;
            return Ok(ReceiveOutcome::Taken);
        }
        let kind = self.part.database.record().kind;
        let (decided, loses_change) = decide(kind, (&current, arriving), deletions);
        if matches!(decided, Arrival::Same { .. }) && arriving.items.is_some() {
            let lesser = current.revision.min(arriving.revision);
            loser_records::put_loser(self.batch, self.part.database.number, (arriving.unid, lesser));
        }
        let replaces =
            matches!(decided, Arrival::Newer | Arrival::Earlier | Arrival::Conflict { counts: Side::Arriving, .. });
        let was_folder = current.items.as_deref().is_some_and(|items| is_folder(current.class, items));
        let is_restored_folder = replaces
            && current.items.is_none()
            && arriving.items.as_deref().is_some_and(|items| is_folder(arriving.class, items));
        if replaces && was_folder && arriving.items.is_none() && self.empty_folder(ViewId(note.0))? {
            return Ok(ReceiveOutcome::Later);
        }
        let outcome = match decided {
            Arrival::Known | Arrival::Same { counts: Side::Current } => ReceiveOutcome::Known { state_changed: false },
            Arrival::Earlier => {
                let mut record = arriving.record.clone();
                record.ancestors = record.ancestors.united(&current.record.ancestors);
                self.replace_received(note, &ReplicaNote { record, ..arriving.clone() })?;
                ReceiveOutcome::Taken
            }
            Arrival::Newer | Arrival::Same { counts: Side::Arriving } => {
                self.replace_received(note, arriving)?;
                ReceiveOutcome::Taken
            }
            Arrival::Merged(merged) => self.receive_merged(note, merged, (&current, arriving), loses_change)?,
            Arrival::Conflict { counts, loser: fate } => {
                self.receive_conflict(note, (&current, arriving), (counts, fate))?
            }
        };
        let state_changed = self.join_state(note, &arriving.state)?;
        self.renew_received_uids(note, (arriving.revision, arriving.sequence_time))?;
        self.drop_unchanged(note);
        Ok(match outcome {
            ReceiveOutcome::Known { .. } => ReceiveOutcome::Known { state_changed },
            _ if is_restored_folder => ReceiveOutcome::FolderRestored,
            outcome => outcome,
        })
    }

    /// Replaces two versions by their merge. If it has left out a change of the lesser one, that is kept.
    fn receive_merged(
        &mut self,
        note: NoteId,
        merged: Merged<Item>,
        (current, arriving): (&ReplicaNote, &ReplicaNote),
        loses_change: bool,
    ) -> Result<ReceiveOutcome> {
        self.replace_received(note, &merged_note(merged, current, arriving))?;
        let lesser = if current.revision < arriving.revision { current } else { arriving };
        let is_kept = loses_change && self.keep_loser(lesser, LoserFate::ConflictDocument)?;
        Ok(if is_kept { ReceiveOutcome::Conflict } else { ReceiveOutcome::Merged })
    }

    /// Keeps the version of a conflict that counts, and the other one as the rules say.
    fn receive_conflict(
        &mut self,
        note: NoteId,
        (current, arriving): (&ReplicaNote, &ReplicaNote),
        (counts, fate): (Side, LoserFate),
    ) -> Result<ReceiveOutcome> {
        let loser = if counts == Side::Current { arriving } else { current };
        if counts == Side::Arriving {
            self.replace_received(note, arriving)?;
        }
        // The list of a new replica is there only until the first one arrives.
        let is_placeholder = loser.class == NoteClass::ACL && loser.revision.id.time() == Timestamp(0);
        let is_dropped = fate == LoserFate::Dropped && loser.items.is_some() && !is_placeholder;
        Ok(match (self.keep_loser(loser, fate)?, counts) {
            (true, _) if fate == LoserFate::Restorable => ReceiveOutcome::LoserRestorable,
            (true, _) => ReceiveOutcome::Conflict,
            (false, counts) if is_dropped => ReceiveOutcome::Dropped { taken: counts == Side::Arriving },
            (false, Side::Arriving) => ReceiveOutcome::Taken,
            (false, Side::Current) => ReceiveOutcome::Known { state_changed: false },
        })
    }

    /// Joins marks, keywords and folders of a note whose contents are known. Returns `true` if one changed. The other
    /// server has stated the class, by which its right is checked; a note of another class is left alone. Fails unless
    /// the caller is the server itself.
    pub fn state_receive(&mut self, listed: &ListedNote) -> Result<bool> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        let Some(note) = records::find(self.store, self.number(), listed.unid)? else {
            return self.write_purged_stub(listed.unid);
        };
        if self.received_header(note)?.after.class != listed.class {
            self.drop_unchanged(note);
            return Ok(false);
        }
        let changed = self.join_state(note, &listed.state)?;
        self.renew_received_uids(note, (listed.revision, listed.saved))?;
        self.drop_unchanged(note);
        Ok(changed)
    }

    /// Records what this replica has received from another server, in the transaction that receives the last of it.
    /// Fails unless the caller is the server itself.
    pub fn replication_history_set(&mut self, source: &str, history: &ReplicationHistory) -> Result<()> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        self.batch.put(Table::Meta, &keys::replication_history(self.number(), source), &history.encode());
        Ok(())
    }

    /// Forgets what this replica has received from other servers, so that it compares everything. Fails unless the
    /// caller is the server itself.
    pub fn replication_histories_clear(&mut self) -> Result<()> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        let range = keys::replication_histories(self.number());
        let mut cursor = self.store.scan(Table::Meta, &range, Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let history = ReplicationHistory::decode(value).unwrap_or_default();
            self.batch.put(Table::Meta, key, &history.cleared().encode());
        }
        Ok(())
    }

    /// Returns the version of this replica, as the last transaction left it.
    pub(crate) fn current_version(&mut self, note: NoteId) -> Result<ReplicaNote> {
        let summary = self.part.stored_summary(note)?;
        let header = self.part.stored_header(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))?;
        let record = RevisionRecord::load(self.store, self.part.database, &header)?;
        let mut items = None;
        let mut blobs = Vec::new();
        let client_id = summary.as_deref().filter(|_| header.is_stub()).and_then(client_id_in);
        if let Some(summary) = summary.filter(|_| !header.is_stub()) {
            let mut all = summary.items.clone();
            for body in &summary.body {
                all.extend(records::load_body(self.store, self.part.database, note, body.ordinal)?);
            }
            items = Some(all);
            blobs.clone_from(&summary.blobs);
        }
        Ok(ReplicaNote {
            unid: header.unid,
            class: header.class,
            is_conflict: header.flags.contains(NoteFlags::CONFLICT),
            revision: header.revision(),
            sequence_time: header.sequence_time,
            record,
            created: header.created,
            received: header.received,
            size: Some(header.size),
            crlf_growth: header.crlf_growth,
            parent: header.parent,
            items,
            blobs,
            state: Vec::new(),
            client_id,
            is_truncated: header.is_truncated(),
        })
    }

    /// Returns the contents of a softly deleted note, as the last transaction left them, with the save that made them.
    /// Returns `None` if that is not known.
    fn kept_version(&mut self, note: NoteId) -> Result<Option<ReplicaNote>> {
        let Some(kept) = self.deletion_record(note)?.kept else { return Ok(None) };
        let Some(summary) = self.part.stored_summary(note)? else { return Ok(None) };
        let mut items = summary.items.clone();
        for body in &summary.body {
            items.extend(records::load_body(self.store, self.part.database, note, body.ordinal)?);
        }
        let flags = self.part.stored_header(note)?.map_or(NoteFlags::default(), |header| header.flags);
        let deleted = self.current_version(note)?;
        Ok(Some(ReplicaNote {
            revision: kept.revision,
            sequence_time: kept.time,
            record: RevisionRecord::default(),
            items: Some(items),
            blobs: summary.blobs.clone(),
            is_truncated: flags.contains(NoteFlags::TRUNCATED),
            ..deleted
        }))
    }

    /// Creates a note, or the stub of a deletion, that this replica does not have.
    pub(crate) fn create_received(&mut self, arriving: &ReplicaNote) -> Result<NoteId> {
        let note = self.part.counters.next_note;
        self.part.counters.next_note = note.next();
        let header = NoteHeader {
            flags: NoteFlags::STUB,
            sequence: arriving.revision.sequence,
            sequence_time: arriving.sequence_time,
            revision_id: arriving.revision.id,
            created: arriving.created,
            parent: arriving.parent,
            received: arriving.received,
            ..NoteHeader::new(note, arriving.unid, arriving.class, self.part.now, self.part.modseq)
        };
        self.batch.put(Table::Unid, &keys::unid(self.number(), arriving.unid), &note.to_key());
        self.part.add(header);
        self.part.counters.stubs += 1;
        self.replace_received(note, arriving)?;
        let client_id = arriving.client_id.as_ref().filter(|id| id.len() <= CLIENT_ID_BYTES_MAX);
        if let Some(id) = client_id.filter(|_| arriving.items.is_none()) {
            let summary = Summary { items: vec![Item::text(ID_ITEM, id.as_str())], ..Summary::default() };
            let key = keys::summary(self.number(), note, SummaryRecord::Summary);
            self.batch.put(Table::Summary, &key, &summary.encode());
        }
        self.join_state(note, &arriving.state)?;
        self.take_pending_marks(arriving.unid, note)?;
        Ok(note)
    }

    /// Replaces the contents and the revision of a note or stub by those of another version.
    fn replace_received(&mut self, note: NoteId, new: &ReplicaNote) -> Result<()> {
        let is_stub = self.received_header(note)?.after.is_stub();
        match (&new.items, is_stub) {
            (None, true) => {}
            (None, false) => self.delete_received(note)?,
            (Some(items), true) => {
                self.revive_received(note, new)?;
                self.put_received(note, new, items, &Summary::default())?;
            }
            (Some(items), false) => {
                let summary = self.part.stored_summary(note)?;
                let summary = summary.ok_or_else(|| records::damaged_note(self.part.database, note, "summary"))?;
                self.put_received(note, new, items, &summary)?;
            }
        }
        self.set_revision(note, new)
    }

    /// Deletes a note because another replica has deleted it: softly, if the database keeps deleted documents.
    fn delete_received(&mut self, note: NoteId) -> Result<()> {
        let is_document = self.received_header(note)?.after.class.is_document();
        if is_document && self.part.database.record().options.keep_deleted_hours.is_some() {
            return self.delete_softly(note);
        }
        let summary = self.part.stored_summary(note)?;
        let summary = summary.ok_or_else(|| records::damaged_note(self.part.database, note, "summary"))?;
        self.delete_contents(note, &summary)?;
        if is_folder(self.received_header(note)?.after.class, &summary.items) {
            let folder = ViewId(note.0);
            self.part.folders.remove(&folder);
            folder::collection_id(self.number(), folder).remove_all(self.batch);
        }
        Ok(())
    }

    /// Takes the first notes out of a folder that another replica has deleted: its user had not seen them there.
    /// Returns `false` if there were none.
    fn empty_folder(&mut self, folder: ViewId) -> Result<bool> {
        let mut notes = Vec::new();
        FolderReader::open(self.store, self.part.database, folder)?.for_each_entry(Uid(0), &mut |entry| {
            notes.push(entry.note);
            Ok(notes.len() < UNFILED_PER_TRANSACTION_MAX)
        })?;
        for note in &notes {
            let header = &mut self.received_header(*note)?.after;
            let filed = header.register(StateKey::Folder(folder)).time;
            header.folders.retain(|place| place.folder != folder);
            self.part.received.insert(*note);
            self.file_in_inbox(*note, filed, Some(folder))?;
        }
        Ok(!notes.is_empty())
    }

    /// Makes a note of a stub, without contents yet.
    fn revive_received(&mut self, note: NoteId, new: &ReplicaNote) -> Result<()> {
        let header = self.received_header(note)?.after.clone();
        if header.is_soft_deleted() {
            // Another server has restored the note from an older version, or has not seen the deletion.
            let kept = self.kept_version(note)?;
            let is_lost = |kept: &ReplicaNote| !new.version().knows(kept.revision) && kept.items != new.items;
            if let Some(kept) = kept.filter(is_lost) {
                let was_restored = new.version().knows(header.revision());
                let fate = if was_restored { LoserFate::ConflictDocument } else { LoserFate::Restorable };
                self.keep_loser(&kept, fate)?;
            }
            let summary = self.part.stored_summary(note)?;
            let summary = summary.ok_or_else(|| records::damaged_note(self.part.database, note, "summary"))?;
            self.delete_kept_contents(note, &summary)?;
        }
        let pending = self.received_header(note)?;
        pending.after.flags = NoteFlags::default();
        pending.after.parent = new.parent;
        let counters = &mut self.part.counters;
        counters.notes += 1;
        counters.stubs = counters.stubs.saturating_sub(1);
        if let Some(parent) = new.parent {
            self.batch.put(Table::Children, &keys::child(self.number(), parent, note), &[]);
        }
        Ok(())
    }

    /// Makes a note a response to another one, or to none.
    fn set_parent(&mut self, note: NoteId, parent: Option<Unid>) -> Result<()> {
        let number = self.number();
        let before = std::mem::replace(&mut self.received_header(note)?.after.parent, parent);
        if before == parent {
            return Ok(());
        }
        if let Some(before) = before {
            self.batch.delete(Table::Children, &keys::child(number, before, note));
        }
        if let Some(parent) = parent {
            self.batch.put(Table::Children, &keys::child(number, parent, note), &[]);
        }
        Ok(())
    }

    fn put_received(&mut self, note: NoteId, new: &ReplicaNote, items: &[Item], old: &Summary) -> Result<()> {
        let contents = NewContents::new(items, &new.blobs);
        self.remove_contents(note, old, contents);
        let stored = self.put_items(note, contents)?;
        if is_folder(new.class, items) && !is_folder(new.class, &old.items) {
            self.create_received_folder(note, new)?;
        }
        let size = new.size.unwrap_or(stored);
        self.part.rewrites = true;
        self.set_parent(note, new.parent)?;
        let acl = if new.class == NoteClass::ACL { Some(received_acl(items)?) } else { None };
        if let Some(acl) = &acl {
            let before = self.part.database.acl().1;
            let by = self.part.grant.display_name().to_owned();
            let change = AclHistoryEntry::between(&before, acl, &by, self.part.now, self.part.modseq);
            acl_history::record_change(self.store, self.part.database.number, &change, self.batch)?;
        }
        if new.is_conflict {
            losers::record_loser(self.batch, self.part.database.number, new, items);
        }
        let header = &mut self.received_header(note)?.after;
        let size_before = header.size;
        header.flags = writer::flags_of(new.class, contents);
        if new.is_conflict {
            header.flags |= NoteFlags::CONFLICT;
        }
        if new.is_truncated {
            header.flags |= NoteFlags::TRUNCATED;
        }
        header.size = size;
        header.crlf_growth = new.crlf_growth;
        let counters = &mut self.part.counters;
        counters.bytes = (counters.bytes + size).saturating_sub(size_before);
        self.record_design_change(note, new.class);
        if acl.is_some() {
            self.part.acl = acl;
        }
        Ok(())
    }

    /// Creates the index of a folder that is new here. If its UIDs are shared, it has the same UIDVALIDITY as in the
    /// other replica. One that exists again gets a new one, because which UIDs were given out here is forgotten.
    fn create_received_folder(&mut self, note: NoteId, new: &ReplicaNote) -> Result<()> {
        let is_restored = self.received_header(note)?.before.is_some();
        let uid_validity = new.state.iter().find(|(name, _)| *name == StateName::UidValidity);
        let uid_validity = uid_validity.map(|(_, register)| register.number).filter(|_| !is_restored);
        let uid_validity = uid_validity.filter(|number| *number <= RECEIVED_UID_VALIDITY_MAX);
        let mut state = self.new_folder_state();
        if let Some(uid_validity) = uid_validity.filter(|_| state.shared.is_some()) {
            state.uid_validity = uid_validity;
            let counters = &mut self.part.counters;
            counters.uid_validity = counters.uid_validity.max(uid_validity);
        }
        let folder = ViewId(note.0);
        let index = FolderIndexWriter::create(self.part.database, folder, state)?;
        self.part.folders.insert(folder, index);
        Ok(())
    }

    /// Sets the revision of a note to that of a version, with its time and its ancestors.
    fn set_revision(&mut self, note: NoteId, version: &ReplicaNote) -> Result<()> {
        self.part.received.insert(note);
        let header = &mut self.received_header(note)?.after;
        header.sequence = version.revision.sequence;
        header.revision_id = version.revision.id;
        header.sequence_time = version.sequence_time;
        header.flags |= NoteFlags::RECEIVED;
        header.received = version.received;
        header.set_created(version.created);
        let header = header.clone();
        // An earlier record of this note would otherwise stay.
        self.batch.delete(Table::Body, &keys::revisions(self.number(), note));
        version.record.write(self.part.database, &header, self.batch);
        self.part.revisions.insert(note, version.record.clone());
        Ok(())
    }

    /// Keeps the losing version of a conflict as a document that every replica makes alike. Returns `false` if there is
    /// nothing to keep, or the document exists or existed.
    fn keep_loser(&mut self, loser: &ReplicaNote, fate: LoserFate) -> Result<bool> {
        if fate == LoserFate::Dropped || loser.items.is_none() {
            return Ok(false);
        }
        let unid = conflict_document_unid(loser.unid, loser.revision);
        if self.part.created_note(unid).is_some() {
            return Ok(false);
        }
        let found = records::find(self.store, self.number(), unid)?;
        if found.is_none() && self.write_purged_stub(unid)? {
            // It was kept before, and deleted.
            loser_records::put_loser(self.batch, self.number(), (loser.unid, loser.revision));
            return Ok(false);
        }
        let document = ReplicaNote {
            unid,
            is_conflict: true,
            revision: Revision::of_conflict_document(loser.revision, unid),
            record: RevisionRecord::default(),
            created: loser.sequence_time,
            parent: Some(loser.unid),
            items: losers::with_conflict_revisions(loser),
            state: Vec::new(),
            ..loser.clone()
        };
        let note = match found {
            None => self.create_received(&document)?,
            Some(note) if fate == LoserFate::Restorable && self.has_lost_contents(note, &document)? => {
                self.replace_received(note, &document)?;
                note
            }
            Some(_) => return Ok(false),
        };
        // Such documents can be restored for some time, also in a database that keeps no other deleted documents:
        // replicas whose options differ must make the same document.
        if fate == LoserFate::Restorable {
            self.delete_as_replicas_do(note, document)?;
        }
        Ok(true)
    }

    /// Returns `true` if the stub of a document is the one that replicas make, without the contents. It came from
    /// another server, which keeps them. That server may have been set back since, so this may be the last copy.
    fn has_lost_contents(&mut self, note: NoteId, document: &ReplicaNote) -> Result<bool> {
        let stub = document.revision.deleted_by_replicas();
        let header = self.part.stored_header(note)?;
        Ok(header.is_some_and(|header| header.is_stub() && !header.is_soft_deleted() && header.revision() == stub))
    }

    /// Deletes a document softly with a revision that every replica makes alike.
    pub(crate) fn delete_as_replicas_do(&mut self, note: NoteId, document: ReplicaNote) -> Result<()> {
        self.delete_softly(note)?;
        let revision = document.revision.deleted_by_replicas();
        let time = Timestamp(document.sequence_time.0.saturating_add(1));
        let record = document.record.after_save(document.revision, revision, &BTreeSet::new());
        self.set_revision(note, &ReplicaNote { revision, sequence_time: time, record, ..document })
    }

    /// Joins the marks, keywords and folders of a note with those of another replica. Returns `true` if one changed.
    pub(crate) fn join_state(&mut self, note: NoteId, state: &[(StateName, Register)]) -> Result<bool> {
        if self.received_header(note)?.after.is_stub() {
            return Ok(false);
        }
        let is_document = self.received_header(note)?.after.class.is_document();
        let mut changed = false;
        // The time of the last membership in a folder that has been deleted here.
        let mut lost: Option<Timestamp> = None;
        for (name, register) in state.iter().filter(|(_, register)| register.time.0 <= RECEIVED_TIME_MAX) {
            if *name == StateName::UidValidity {
                changed |= self.receive_uid_validity(note, register.number)?;
                continue;
            }
            match self.state_key(name)? {
                // Folders have documents.
                KnownState::Key(StateKey::Folder(folder)) if folder.0 == note.0 || !is_document => {}
                KnownState::Key(key) => changed |= self.join_register(note, key, *register)?,
                KnownState::DeletedFolder if register.is_set => lost = lost.max(Some(register.time)),
                KnownState::DeletedFolder | KnownState::Unknown => {}
            }
        }
        if let Some(time) = lost {
            changed |= self.file_in_inbox(note, time, None)?;
        }
        Ok(changed)
    }

    /// Joins a mark, keyword or folder of a note with that of another replica. Returns `true` if it changed. A note
    /// with [`JOINED_VALUES_MAX`] keywords or [`JOINED_FOLDERS_MAX`] folders gets no others.
    fn join_register(&mut self, note: NoteId, key: StateKey, register: Register) -> Result<bool> {
        let header = &self.received_header(note)?.after;
        let before = header.register(key);
        let joined = before.join(Register { number: 0, ..register });
        if joined == before {
            return self.join_uid(note, key, register);
        }
        let is_full = match key {
            StateKey::Mark(_) => false,
            StateKey::Keyword(_) => header.keywords.len() >= JOINED_VALUES_MAX,
            StateKey::Folder(_) => header.folders.len() >= JOINED_FOLDERS_MAX,
        };
        if is_full && joined.is_set && !before.is_set {
            return Ok(false);
        }
        let place = match key {
            StateKey::Folder(folder) if joined.is_set && !before.is_set => {
                Some(self.receive_uid(note, folder, Uid(register.number))?)
            }
            _ => None,
        };
        let header = &mut self.received_header(note)?.after;
        match key {
            StateKey::Mark(bit) => {
                let mark = Marks(1 << bit);
                header.marks = if joined.is_set { header.marks.union(mark) } else { header.marks.difference(mark) };
            }
            StateKey::Keyword(keyword) => {
                header.keywords.retain(|known| *known != keyword);
                header.keywords.extend(joined.is_set.then_some(keyword));
                header.keywords.sort_unstable();
            }
            StateKey::Folder(_) if joined.is_set => header.folders.extend(place),
            StateKey::Folder(folder) => header.folders.retain(|place| place.folder != folder),
        }
        header.set_change_time(key, joined.time);
        self.part.received.insert(note);
        self.join_uid(note, key, register)?;
        Ok(true)
    }

    /// Joins the UID of a note in a folder with that of another replica, where it is in the folder as well: the greater
    /// one counts. Returns `true` if it changed. One that clients of this server have passed is replaced by a greater
    /// one, which then counts everywhere.
    fn join_uid(&mut self, note: NoteId, key: StateKey, register: Register) -> Result<bool> {
        let StateKey::Folder(folder) = key else { return Ok(false) };
        let header = &self.received_header(note)?.after;
        let time = header.register(key).time;
        let known = header.uid_in(folder).filter(|known| known.0 < register.number);
        if known.is_none() || !register.is_set || time != register.time || register.number >= RECEIVED_UID_MAX {
            return Ok(false);
        }
        if self.part.folder(folder)?.state.shared.is_none() {
            return Ok(false);
        }
        let place = self.receive_uid(note, folder, Uid(register.number))?;
        self.replace_uid(note, place)?;
        self.part.received.insert(note);
        Ok(true)
    }

    /// Adds a message to the inbox if it is in no folder, because the folder in which it was at a time has been
    /// deleted. Returns `true` if it was added. Other databases have documents that are in no folder.
    ///
    /// The time of the change follows from that of the membership, so that all replicas make the same change.
    fn file_in_inbox(&mut self, note: NoteId, filed: Timestamp, emptied: Option<ViewId>) -> Result<bool> {
        let is_mail = self.part.database.record().kind == DatabaseKind::Mail;
        if !is_mail || !self.received_header(note)?.after.folders.is_empty() {
            return Ok(false);
        }
        let folders = self.all_folders()?;
        // If the inbox itself is emptied, its messages stay without a folder.
        let is_inbox = |folder: &&crate::FolderDesign| folder.title == INBOX && Some(folder.view) != emptied;
        let Some(inbox) = folders.iter().find(is_inbox) else { return Ok(false) };
        let key = StateKey::Folder(inbox.view);
        let before = self.received_header(note)?.after.register(key).time;
        let time = Timestamp(filed.max(before).0.saturating_add(1));
        self.join_register(note, key, Register::new(true, time))
    }

    /// Returns the mark, keyword or folder with a name. Keywords are defined if they are needed.
    pub(crate) fn state_key(&mut self, name: &StateName) -> Result<KnownState> {
        Ok(match name {
            StateName::Mark(bit) if *bit < Marks::COUNT => KnownState::Key(StateKey::Mark(*bit)),
            StateName::Mark(_) | StateName::UidValidity => KnownState::Unknown,
            StateName::Keyword(name) => {
                // A database with too many keywords keeps those that it has.
                let defined = self.keywords_define(std::slice::from_ref(name)).ok();
                let keyword = defined.and_then(|found| found.first().copied());
                keyword.map_or(KnownState::Unknown, |keyword| KnownState::Key(StateKey::Keyword(keyword)))
            }
            StateName::Folder(unid) => self.folder_with_unid(*unid)?,
        })
    }

    fn folder_with_unid(&mut self, unid: Unid) -> Result<KnownState> {
        let found = match self.part.created_note(unid) {
            Some(header) => Some(header.note),
            None => records::find(self.store, self.number(), unid)?,
        };
        let Some(note) = found else {
            let is_purged = self.purged_deletion(unid)?.is_some();
            return Ok(if is_purged { KnownState::DeletedFolder } else { KnownState::Unknown });
        };
        let folder = ViewId(note.0);
        let header = match self.part.pending.get(&note) {
            Some(pending) => Some(pending.after.clone()),
            None => records::load_header(self.store, self.part.database, note)?,
        };
        let is_deleted = header.is_some_and(|header| header.class == NoteClass::VIEW && header.is_stub());
        if is_deleted {
            return Ok(KnownState::DeletedFolder);
        }
        let exists = self.part.folders.contains_key(&folder)
            || self.all_folders()?.iter().any(|existing| existing.view == folder);
        Ok(if exists { KnownState::Key(StateKey::Folder(folder)) } else { KnownState::Unknown })
    }

    /// Returns the header of a note or a stub for modification.
    fn received_header(&mut self, note: NoteId) -> Result<&mut PendingHeader> {
        self.part.pending_header_or_stub(note)?.ok_or_else(|| Error::not_found(format!("note {note}")))
    }
}

/// Title of the folder that gets the messages of a deleted one.
const INBOX: &str = "INBOX";

/// What the name of a mark, keyword or folder stands for here.
pub(crate) enum KnownState {
    /// A mark, keyword or folder.
    Key(StateKey),
    /// A folder that has been deleted.
    DeletedFolder,
    /// Nothing.
    Unknown,
}

/// Fails if an arriving version can be none of the note that this replica has: it has another class, or is truncated
/// and this replica has the whole document.
fn check_version_of(current: &ReplicaNote, arriving: &ReplicaNote) -> Result<()> {
    let refused = |reason| Err(Error::invalid(format!("note {}", arriving.unid), reason));
    if current.class != arriving.class {
        return refused("it has another class here");
    }
    if arriving.is_truncated && !current.is_truncated && current.items.is_some() {
        return refused("it has arrived truncated, and this replica has the whole document");
    }
    Ok(())
}

/// Returns the access control list in the items of its note.
fn received_acl(items: &[Item]) -> Result<Acl> {
    let invalid = || Error::invalid("the access control list of another replica", "it cannot be read");
    let Some(ItemValue::MimePart(bytes)) = item::find_item(items, ACL_ITEM).map(|item| &item.value) else {
        return Err(invalid());
    };
    let acl = Acl::decode(bytes).map_err(|_| invalid())?;
    acl.check()?;
    Ok(acl)
}

/// Returns the note that a merge makes of two versions.
fn merged_note(merged: Merged<Item>, one: &ReplicaNote, other: &ReplicaNote) -> ReplicaNote {
    let greater = if one.revision > other.revision { one } else { other };
    let used: BTreeSet<[u8; 32]> = item::blobs_of(&merged.items).into_iter().map(|blob| blob.0).collect();
    let of_items: BTreeSet<[u8; 32]> = [one, other]
        .iter()
        .flat_map(|note| item::blobs_of(note.items.as_deref().unwrap_or_default()))
        .map(|blob| blob.0)
        .collect();
    let mut blobs: Vec<BlobId> = Vec::new();
    for blob in one.blobs.iter().chain(&other.blobs) {
        // Blobs of other parts of a note, such as a message, stay.
        if (used.contains(&blob.0) || !of_items.contains(&blob.0)) && !blobs.contains(blob) {
            blobs.push(*blob);
        }
    }
    ReplicaNote {
        revision: merged.revision,
        sequence_time: merged.time,
        record: RevisionRecord { ancestors: merged.ancestors, changes: merged.changes },
        size: None,
        crlf_growth: 0,
        items: Some(merged.items),
        blobs,
        state: Vec::new(),
        client_id: None,
        is_truncated: false,
        ..greater.clone()
    }
}
