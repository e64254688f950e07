//! The replica that takes notes over: which of them it lacks, and which the source may bring.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use base::{Modseq, Name, Timestamp, Unid};
use notes::folder::TITLE_ITEM;
use notes::instance::{Position, ReplicationHistory};
use notes::item::find_item;
use notes::limits::MISSED_NOTES_MAX;
use notes::replica::{ListedNote, ReceiveOutcome, ReplicaNote};
use notes::unread_replication::UnreadMarks;
use notes::{
    Access, AclFlags, AclLevel, Database, DatabaseKind, DatabaseSnapshot, Databases, Error, Grant, Identity,
    NotExchanged, NoteClass, ReplicationSettings, Result, SharedSettings, level,
};
use revision::DeletionRule;
use store::blob::BlobId;

use crate::limits::{COMPLETED_PRECISION, MARKS_PER_ANSWER_MAX, PROVED_CONTENT_BYTES_MAX, PROVED_CONTENT_BYTES_MIN};
use crate::pull::PullStatistics;
use crate::selection::Selection;
use crate::source::SourceNotes;

/// A replica that takes notes over from one source.
pub struct Target {
    databases: Arc<Databases>,
    itself: Arc<Identity>,
    own_name: Name,
    /// This server, which writes.
    reader: Access<level::Reader>,
    depositor: Access<level::Depositor>,
    /// The source, whose rights decide what is taken.
    source: Access<level::Depositor>,
    source_name: Name,
    held_back: HeldBackNotes,
    settings: ReplicationSettings,
    selection: Option<Arc<Selection>>,
    /// `true` if the source offers the unread marks of users.
    offers_unread_marks: bool,
}

/// What happens to notes that were deleted here so long ago that the deletion is forgotten, and that the source still
/// has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeldBackNotes {
    /// They are not received.
    #[default]
    Left,
    /// They are received like new ones.
    Taken,
}

impl Target {
    /// Prepares a database of this server for changes from a source. `itself` is this server, whose settings for the
    /// source count. Fails if the access control list of the database does not let the source write.
    pub fn new(
        databases: &Arc<Databases>,
        database: &Arc<Database>,
        itself: &Arc<Identity>,
        source: &Arc<Identity>,
    ) -> Result<Self> {
        let reader: Access<level::Reader> = database.authorize(itself)?;
        let depositor = reader.downgrade();
        let source_name = source.name.clone();
        let known = reader.read()?.known_replication_settings(&itself.name, &source.name)?;
        let now = databases.clock().now();
        let selection = known.as_ref().map(|settings| Arc::new(Selection::of_settings(settings, now)));
        let settings = known.unwrap_or_default();
        let source = database.authorize(source)?;
        let held_back = HeldBackNotes::default();
        let databases = Arc::clone(databases);
        let own_name = itself.name.clone();
        let itself = Arc::clone(itself);
        Ok(Self {
            databases,
            itself,
            own_name,
            reader,
            depositor,
            source,
            source_name,
            held_back,
            settings,
            selection,
            offers_unread_marks: false,
        })
    }

    /// Sets whether the source offers the unread marks of users.
    #[must_use]
    pub fn with_unread_marks(self, offers_unread_marks: bool) -> Self {
        Self { offers_unread_marks, ..self }
    }

    /// Returns `true` if the source offers the unread marks of users, they replicate here, and the source may bring
    /// them: those of others, as it may bring documents of others.
    pub(crate) fn takes_unread_marks(&self) -> Result<bool> {
        let replicates = self.reader.database().record().options.replicates_unread_marks();
        Ok(self.offers_unread_marks && replicates && may_bring(self.source.grant()?.as_ref(), NoteClass::DOCUMENT))
    }

    /// Sets what happens to notes whose deletion is forgotten.
    #[must_use]
    pub fn with_held_back(self, held_back: HeldBackNotes) -> Self {
        Self { held_back, ..self }
    }

    /// Sets the clock of the source. The age of documents is counted from the earlier one of both clocks: while the
    /// clock here is ahead, new documents would seem too old, and would not be listed again.
    #[must_use]
    pub fn with_source_clock(self, clock: Timestamp) -> Self {
        let now = self.databases.clock().now().min(clock);
        let selection = self.selection.as_ref().map(|_| Arc::new(Selection::of_settings(&self.settings, now)));
        Self { selection, ..self }
    }

    /// Sets what this replica does not exchange, as the source states it. It counts for a new replica, which receives
    /// its settings with the first pull, and only if the source may bring settings.
    pub fn with_stated_exclusions(mut self, without: NotExchanged) -> Result<Self> {
        let is_new = self.selection.is_none() && self.received_position()?.is_none();
        if is_new && self.source.grant()?.level() >= AclLevel::Manager {
            self.settings.without = without;
        }
        Ok(self)
    }

    /// Returns the position up to which everything was received from the source.
    fn received_position(&self) -> Result<Option<Position>> {
        Ok(self.reader.read()?.replication_history(self.source_name.canonical())?.position)
    }

    /// Returns the documents that this replica wants of those that it lacks, or `None` if it has no settings.
    pub(crate) fn selection(&self) -> Option<Arc<Selection>> {
        self.selection.clone()
    }

    /// Returns `true` if other settings have arrived since this value was created.
    pub(crate) fn has_new_settings(&self) -> Result<bool> {
        Ok(self.reader.read()?.replication_settings(&self.own_name, &self.source_name)? != self.settings)
    }

    /// Returns what this replica has received from the source. It begins anew if the source has other rights or this
    /// replica other settings than before, or if notes that were held back are wanted now.
    pub(crate) fn history(&self) -> Result<ReplicationHistory> {
        let history = self.reader.read()?.replication_history(self.source_name.canonical())?;
        let rights = self.rights()?;
        if self.held_back == HeldBackNotes::Taken {
            return Ok(ReplicationHistory { rights, ..ReplicationHistory::default() });
        }
        Ok(if history.rights == rights { history } else { compared_again(&history, rights) })
    }

    /// Returns the rights of the source and the settings for it if they are not those of a history any more.
    pub(crate) fn other_rights(&self, history: &ReplicationHistory) -> Result<Option<u32>> {
        let rights = self.rights()?;
        Ok((rights != history.rights).then_some(rights))
    }

    /// Returns the rights of the source, the settings for it and the rule for deletions as a number. With another
    /// number, everything is compared: what was refused, left out or decided may be received now.
    fn rights(&self) -> Result<u32> {
        let rights = rights_of(self.source.grant()?.as_ref(), &self.settings);
        let record = self.reader.database().record();
        Ok(if record.options.deletions.is_some() { rights ^ rule_bit(record.deletion_rule()) } else { rights })
    }

    /// Takes the settings over that replicas share, if the source may bring them.
    pub(crate) fn join_settings(
        &self,
        settings: Option<&SharedSettings>,
        statistics: &mut PullStatistics,
    ) -> Result<()> {
        let Some(settings) = settings else { return Ok(()) };
        let own = self.reader.database().record().shared_settings();
        if own == own.clone().join(settings.clone()) || self.source.grant()?.level() < AclLevel::Manager {
            return Ok(());
        }
        // This server writes, for a source that may.
        let manager: Access<level::Manager> = self.reader.database().authorize(&self.itself)?;
        let was_open = self.reader.database().record().options.is_open_to_couchdb;
        let joined = self.databases.database_settings_join(&manager, settings);
        if was_open && !self.reader.database().record().options.is_open_to_couchdb {
            tracing::warn!(
                target: "replica",
                database = %self.reader.database().path(),
                source = %self.source_name,
                "the deletion rule of the replicas is now `delete`; the database is closed to CouchDB clients"
            );
        }
        match joined {
            Ok(is_changed) => statistics.settings += u64::from(is_changed),
            Err(error @ (Error::Invalid { .. } | Error::Limit { .. })) => {
                tracing::warn!(
                    target: "replica",
                    database = %self.reader.database().path(),
                    source = %self.source_name,
                    %error,
                    "the settings of another replica are not valid and were skipped"
                );
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the databases of this server.
    #[must_use]
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// Splits a list into the notes whose contents this replica lacks, and those that it knows. Notes that the source
    /// may not bring, those that the settings exclude, and those whose deletion is forgotten here are left out and
    /// counted.
    ///
    /// A deletion is known for some purge intervals after its stub was purged. After that, those notes are held back
    /// that the source states to be old. If the source does not know the position of this replica, or this replica has
    /// forgotten it, the source cannot tell; then those are held back that were saved last before the time whose
    /// deletions were purged here.
    pub(crate) fn compare(
        &self,
        listed: Vec<ListedNote>,
        is_position_unknown: bool,
        statistics: &mut PullStatistics,
    ) -> Result<Compared> {
        let grant = self.source.grant()?;
        let reading = self.reader.read()?;
        let has_purged = reading.counters().purged_modseq > Modseq(0);
        let purged_until = self.reader.database().purged_until();
        let is_before_purge = |note: &ListedNote| has_purged && note.class.is_document() && note.saved < purged_until;
        let was_deleted = |note: &ListedNote| note.is_old || (is_position_unknown && is_before_purge(note));
        let mut compared = Compared::default();
        for note in listed {
            if !may_bring(&grant, note.class) {
                statistics.refused += 1;
                continue;
            }
            let is_lacking = || Ok::<bool, Error>(reading.find(note.unid)?.is_none());
            if let Some(deletion) = reading.purged_deletion(note.unid, note.revision)?
                && is_lacking()?
            {
                // The source learns of the deletion, unless it has the stub.
                if deletion != note.revision {
                    compared.known.push(note);
                }
                continue;
            }
            if !self.settings.receives(note.class) || (note.is_unselected && is_lacking()?) {
                statistics.left_out += 1;
                continue;
            }
            let is_known = match self.has_version(&reading, &note) {
                // A note that is damaged here is asked for, and the attempt to receive it is logged.
                Err(error) if error.is_damage() => false,
                known => known?,
            };
            if is_known {
                compared.known.push(note);
            } else if note.is_truncated {
                // The source cannot send it.
                statistics.left_out += 1;
            } else if self.held_back == HeldBackNotes::Left && was_deleted(&note) && is_lacking()? {
                statistics.held_back += 1;
            } else {
                compared.missing.push(note);
            }
        }
        Ok(compared)
    }

    /// Returns `true` if this replica has a version of a note, as a whole unless that is not wanted, or one that
    /// descends from it.
    fn has_version(&self, reading: &DatabaseSnapshot<'_>, note: &ListedNote) -> Result<bool> {
        if !reading.knows_listed(note)? {
            return Ok(false);
        }
        if self.receives_truncated() || note.is_truncated || !note.class.is_document() {
            return Ok(true);
        }
        let header = reading.find(note.unid)?.map(|found| reading.header(found)).transpose()?.flatten();
        Ok(!header.is_some_and(|header| header.is_truncated() && header.revision() == note.revision))
    }

    /// Returns those of some notes that are wanted truncated, should they be documents. What this replica has as a
    /// whole stays so.
    pub(crate) fn wanted_truncated(&self, unids: impl Iterator<Item = Unid>) -> Result<HashSet<Unid>> {
        let mut wanted = HashSet::new();
        if !self.receives_truncated() {
            return Ok(wanted);
        }
        let reading = self.reader.read()?;
        for unid in unids {
            let header = reading.find(unid)?.map(|found| reading.header(found)).transpose()?.flatten();
            if header.is_none_or(|header| header.is_stub() || header.is_truncated()) {
                wanted.insert(unid);
            }
        }
        Ok(wanted)
    }

    /// Returns `true` if this replica receives documents without attachments. Clients take a message of a mail file for
    /// the same one on all servers.
    fn receives_truncated(&self) -> bool {
        self.settings.without.contains(NotExchanged::ATTACHMENTS)
            && self.reader.database().record().kind != DatabaseKind::Mail
    }

    /// Returns the attachments of arriving notes whose contents must be transferred: those to which no note of this
    /// database refers.
    ///
    /// Contents that only other databases have are transferred, too. A source could otherwise bring a note with the
    /// hash of a content that it does not know, and read the content in this replica.
    ///
    /// Large ones that other databases have need not be sent if the source proves that it knows them.
    pub fn missing_contents(&self, notes: &[ReplicaNote]) -> Result<Vec<MissingContent>> {
        let reading = self.reader.read()?;
        let mut missing = Vec::new();
        let mut seen = HashSet::new();
        for note in notes {
            for blob in &note.blobs {
                if !seen.insert(*blob) || reading.has_blob(blob)? {
                    continue;
                }
                let length = reading.blob_length_anywhere(blob)?;
                let length =
                    length.filter(|length| (PROVED_CONTENT_BYTES_MIN..=PROVED_CONTENT_BYTES_MAX).contains(length));
                missing.push(MissingContent { unid: note.unid, blob: *blob, can_be_proved: length.is_some() });
            }
        }
        Ok(missing)
    }

    /// Returns `true` if `proof` is the keyed hash of a content that a database of this server has.
    pub fn is_proof(&self, blob: &BlobId, key: &[u8; 32], proof: &[u8]) -> Result<bool> {
        let own = self.reader.read()?.blob_proof(blob, key)?;
        Ok(own.is_some_and(|own| proof.try_into().is_ok_and(|proof: [u8; 32]| own == blake3::Hash::from_bytes(proof))))
    }

    /// Takes notes over, with contents of attachments that were missing. They are durable on return.
    ///
    /// Notes that the source may not bring are left out and counted. Notes that are not valid, or whose version here is
    /// damaged, are skipped, counted and returned.
    pub(crate) fn receive(&self, sent: &SourceNotes, statistics: &mut PullStatistics) -> Result<Received> {
        let before = *statistics;
        if let Ok(restored_folder) = self.receive_together(&sent.notes, sent, statistics) {
            return Ok(Received { skipped: Vec::new(), restored_folder });
        }
        // One of the notes is refused. The others are taken over one by one.
        *statistics = before;
        let mut received = Received::default();
        for note in &sent.notes {
            match self.receive_together(std::slice::from_ref(note), sent, statistics) {
                Ok(restored_folder) => received.restored_folder |= restored_folder,
                Err(error) => {
                    let is_of_note =
                        matches!(error, Error::Invalid { .. } | Error::Limit { .. } | Error::NotFound { .. });
                    if !is_of_note && !error.is_damage() {
                        return Err(error);
                    }
                    received.skipped.push(note.unid);
                    tracing::warn!(
                        target: "replica",
                        database = %self.reader.database().path(),
                        source = %self.source_name,
                        unid = %note.unid,
                        %error,
                        "a note of another replica is not valid and was skipped"
                    );
                    statistics.skipped += 1;
                }
            }
        }
        Ok(received)
    }

    /// Takes notes over in one transaction, or more if some need others before them. Returns `true` if a folder exists
    /// again that had been deleted here.
    fn receive_together(
        &self,
        notes: &[ReplicaNote],
        sent: &SourceNotes,
        statistics: &mut PullStatistics,
    ) -> Result<bool> {
        let accesses = [&self.depositor];
        let mut rest = notes;
        let mut restored_folder = false;
        let in_memory = sent.contents.iter().map(|content| content.id());
        let stored = sent.arrived.iter().map(|content| content.id());
        let known: HashSet<BlobId> = in_memory.chain(stored).chain(sent.proved.iter().copied()).collect();
        let rule = self.reader.database().record().deletion_rule();
        loop {
            // An access control list that has arrived counts for the notes behind it.
            let grant = self.source.grant()?;
            let mut transaction = self.databases.transaction(&accesses)?;
            let mut writer = transaction.writer(0);
            sent.contents.iter().for_each(|content| writer.blob_offer(Arc::clone(content)));
            let mut is_interrupted = false;
            while let Some((note, behind)) = rest.split_first() {
                if !self.admits(note, &grant, statistics) {
                    rest = behind;
                    continue;
                }
                self.check_contents(note, &known)?;
                match writer.note_receive(note, rule)? {
                    ReceiveOutcome::Later => {
                        is_interrupted = true;
                        break;
                    }
                    ReceiveOutcome::FolderRestored => {
                        writer.replication_histories_clear()?;
                        restored_folder = true;
                    }
                    outcome => self.count(note, outcome, statistics),
                }
                statistics.received += 1;
                rest = behind;
                if note.class == NoteClass::ACL {
                    is_interrupted = true;
                    break;
                }
            }
            let ticket = transaction.commit()?;
            self.databases.store().durable(ticket).wait().map_err(Error::from)?;
            if !is_interrupted || rest.is_empty() {
                if let Err(error) = self.report_folders_of_one_name(notes) {
                    let database = self.reader.database().path();
                    tracing::warn!(target: "replica", database, %error, "cannot look for folders of one name");
                }
                return Ok(restored_folder);
            }
        }
    }

    /// Logs folders that have arrived and have the name of another one. Two servers that had not met can make both.
    fn report_folders_of_one_name(&self, notes: &[ReplicaNote]) -> Result<()> {
        let items = notes.iter().filter(|note| note.class.is_design()).filter_map(|note| note.items.as_deref());
        let titles: BTreeSet<&str> =
            items.filter_map(|items| find_item(items, TITLE_ITEM).and_then(|item| item.value.text())).collect();
        if titles.is_empty() {
            return Ok(());
        }
        let folders = self.reader.read()?.folders()?;
        for title in titles {
            if folders.iter().filter(|folder| folder.is_named(title)).count() > 1 {
                tracing::warn!(
                    target: "replica",
                    database = %self.reader.database().path(),
                    title,
                    "several folders have this name; mail clients see it with an addition at all but one of them"
                );
            }
        }
        Ok(())
    }

    /// Counts what has become of a note. Logs versions that are in no document any more.
    fn count(&self, note: &ReplicaNote, outcome: ReceiveOutcome, statistics: &mut PullStatistics) {
        match outcome {
            ReceiveOutcome::Merged => statistics.merged += 1,
            ReceiveOutcome::Conflict => statistics.conflicts += 1,
            ReceiveOutcome::LoserRestorable => {
                statistics.conflicts += 1;
                tracing::info!(
                    target: "replica",
                    database = %self.reader.database().path(),
                    unid = %note.unid,
                    "a document was changed or deleted on two servers; the version that lost can be restored"
                );
            }
            ReceiveOutcome::Dropped { taken } => {
                statistics.conflicts += 1;
                tracing::warn!(
                    target: "replica",
                    database = %self.reader.database().path(),
                    unid = %note.unid,
                    taken,
                    "a note that has no conflict documents was changed on two servers; one version is dropped"
                );
            }
            ReceiveOutcome::Taken if note.items.is_none() => statistics.deleted += 1,
            _ => {}
        }
    }

    /// Returns `true` if the source may bring a note and the settings admit it. Otherwise counts it.
    fn admits(&self, note: &ReplicaNote, grant: &Grant, statistics: &mut PullStatistics) -> bool {
        let is_deletion = note.items.is_none();
        if !may_bring(grant, note.class) || (is_deletion && !may_delete(grant)) {
            statistics.refused += 1;
            return false;
        }
        let is_left_out = is_deletion && self.settings.without.contains(NotExchanged::DELETIONS_IN);
        if is_left_out || !self.settings.receives(note.class) {
            statistics.left_out += 1;
            return false;
        }
        true
    }

    /// Checks that the contents of a note's attachments have arrived, were proved, or are in this database. This server
    /// may refer to any content, so without the check a source would get at those of other databases by their hashes.
    fn check_contents(&self, note: &ReplicaNote, known: &HashSet<BlobId>) -> Result<()> {
        if note.blobs.iter().all(|blob| known.contains(blob)) {
            return Ok(());
        }
        let reading = self.reader.read()?;
        for blob in note.blobs.iter().filter(|blob| !known.contains(*blob)) {
            if !reading.has_blob(blob)? {
                return Err(Error::invalid(format!("note {}", note.unid), "the source has not sent its attachments"));
            }
        }
        Ok(())
    }

    /// Returns the clock of this server.
    pub(crate) fn now(&self) -> Timestamp {
        self.databases.clock().now()
    }

    /// Joins marks, keywords and folders of notes whose contents are known, and records what was received. Returns the
    /// notes that are damaged here. They are to be asked for again.
    pub(crate) fn finish_page(
        &self,
        known: &[ListedNote],
        history: &ReplicationHistory,
        statistics: &mut PullStatistics,
    ) -> Result<Vec<Unid>> {
        let reading = self.reader.read()?;
        let is_damaged = |note: &ListedNote| -> Result<bool> {
            match reading.find(note.unid)?.map(|found| reading.listed_note(found, &|_| false)).transpose() {
                Err(error) if error.is_damage() => Ok(true),
                read => read.map(|_| false),
            }
        };
        let mut skipped = Vec::new();
        let accesses = [&self.depositor];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        for note in known {
            match writer.state_receive(note) {
                Err(error) if error.is_damage() && is_damaged(note)? => {
                    skipped.push(note.unid);
                    statistics.skipped += 1;
                }
                joined => statistics.state_only += u64::from(joined?),
            }
        }
        let missed = history.missed.iter().chain(&skipped).copied();
        let recorded = limited(ReplicationHistory { missed: missed.collect(), ..history.clone() });
        if known.is_empty() && is_recorded(&recorded, &reading.replication_history(self.source_name.canonical())?) {
            return Ok(skipped);
        }
        writer.replication_history_set(self.source_name.canonical(), &recorded)?;
        let ticket = transaction.commit()?;
        self.databases.store().durable(ticket).wait().map_err(Error::from)?;
        Ok(skipped)
    }
}

impl Target {
    /// Takes over a page of unread marks, and records what was received.
    pub(crate) fn receive_marks(
        &self,
        marks: &[UnreadMarks],
        history: &ReplicationHistory,
        statistics: &mut PullStatistics,
    ) -> Result<()> {
        if marks.iter().map(|marks| marks.unids.len()).sum::<usize>() > MARKS_PER_ANSWER_MAX {
            return Err(Error::Limit {
                what: "unread marks in an answer of another replica",
                max: MARKS_PER_ANSWER_MAX,
            });
        }
        let stored = self.reader.read()?.replication_history(self.source_name.canonical())?;
        if marks.is_empty() && is_recorded(history, &stored) {
            return Ok(());
        }
        let accesses = [&self.depositor];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        let received = writer.unread_marks_receive(marks)?;
        writer.replication_history_set(self.source_name.canonical(), &limited(history.clone()))?;
        let ticket = transaction.commit()?;
        self.databases.store().durable(ticket).wait().map_err(Error::from)?;
        statistics.unread_marks += received.changed;
        if received.dropped > 0 {
            tracing::warn!(
                target: "replica",
                database = %self.reader.database().path(),
                source = %self.source_name,
                dropped = received.dropped,
                "too many unread marks wait for documents that have not arrived; the others were dropped, and \
                 `doublet replication clear` asks for them again"
            );
        }
        Ok(())
    }

    /// Shows the notes that have arrived in folders to clients, at the end of a pull.
    pub(crate) fn release_uids(&self) -> Result<()> {
        let accesses = [&self.depositor];
        loop {
            let mut transaction = self.databases.transaction(&accesses)?;
            let is_last = transaction.writer(0).uids_release()?;
            let ticket = transaction.commit()?;
            self.databases.store().durable(ticket).wait().map_err(Error::from)?;
            if is_last {
                return Ok(());
            }
        }
    }
}

/// Returns `true` if a history is stored already, apart from the time of the last replication, which is not written
/// each time that nothing has changed.
pub(crate) fn is_recorded(history: &ReplicationHistory, stored: &ReplicationHistory) -> bool {
    let is_recent = match (history.completed, stored.completed) {
        (Some(now), Some(before)) => now.since(before) < COMPLETED_PRECISION && before.since(now) < COMPLETED_PRECISION,
        (now, before) => now == before,
    };
    is_recent && *history == ReplicationHistory { completed: history.completed, ..stored.clone() }
}

/// Returns the history to be recorded. If too many notes were missed, everything is compared the next time.
pub(crate) fn limited(history: ReplicationHistory) -> ReplicationHistory {
    if history.missed.len() <= MISSED_NOTES_MAX {
        return history;
    }
    // The missed notes must not be taken for deleted ones.
    ReplicationHistory { rights: history.rights, ..ReplicationHistory::default() }
}

/// Returns the rights of a source and the settings for it as a number. With another number, everything is compared,
/// because what was left out may be received now.
fn rights_of(grant: &Grant, settings: &ReplicationSettings) -> u32 {
    let rights = (grant.level() as u32) << 16 | u32::from(grant.flags().bits());
    if Selection::of_settings(settings, Timestamp(0)).is_everything() && settings.without == NotExchanged::default() {
        return rights;
    }
    let ReplicationSettings { formula, folders, cut_off_days, without, .. } = settings;
    let digest = blake3::hash(format!("{rights} {formula:?} {folders:?} {cut_off_days:?} {}", without.0).as_bytes());
    u32::from_be_bytes(digest.as_bytes()[..4].try_into().expect("four bytes"))
}

/// Returns the history with which everything is compared, because the source has other rights than before.
pub(crate) fn compared_again(history: &ReplicationHistory, rights: u32) -> ReplicationHistory {
    // What was refused or not wanted before has not been deleted here. Documents were neither if all of them were
    // wanted, now and then, and the source might bring them.
    let had_documents = has_documents(history.rights) && has_documents(rights);
    let history = if had_documents { history.cleared() } else { ReplicationHistory::default() };
    ReplicationHistory { rights, ..history }
}

/// Returns the bit that a rule sets in the rights.
fn rule_bit(rule: DeletionRule) -> u32 {
    match rule {
        DeletionRule::EditsCount => 1 << 30,
        DeletionRule::DeletionsCount => 1 << 31,
    }
}

/// Returns `true` if a source with rights as [`Target::rights`] returns them may bring documents, and all are wanted.
pub(crate) fn has_documents(rights: u32) -> bool {
    let rules = rule_bit(DeletionRule::EditsCount) | rule_bit(DeletionRule::DeletionsCount);
    let levels = (AclLevel::Editor as u32)..=(AclLevel::Manager as u32);
    levels.contains(&((rights & !rules) >> 16))
}

/// A content that this replica lacks.
pub struct MissingContent {
    /// The note that refers to it.
    pub unid: Unid,
    /// The content.
    pub blob: BlobId,
    /// `true` if another database of this server has it.
    pub can_be_proved: bool,
}

/// What became of arriving notes.
#[derive(Default)]
pub(crate) struct Received {
    /// The notes that could not be taken over.
    pub(crate) skipped: Vec<Unid>,
    /// `true` if a folder exists again that had been deleted here.
    pub(crate) restored_folder: bool,
}

/// The notes of a list.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) missing: Vec<ListedNote>,
    pub(crate) known: Vec<ListedNote>,
}

/// Returns `true` if a source with these rights may bring notes of a class: documents with Editor access, designs with
/// Designer access, the access control list and replication settings with Manager access.
fn may_bring(grant: &Grant, class: NoteClass) -> bool {
    grant.level()
        >= match class {
            NoteClass::ACL | NoteClass::REPLICATION_FORMULA => AclLevel::Manager,
            class if class.is_document() || class == NoteClass::PROFILE => AclLevel::Editor,
            _ => AclLevel::Designer,
        }
}

fn may_delete(grant: &Grant) -> bool {
    !grant.flags().contains(AclFlags::NO_DELETE)
}
