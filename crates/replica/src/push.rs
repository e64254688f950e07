//! The changes of a local replica, which a person brings to a server.
//!
//! A server pulls from other servers, but not from the computers of people: these have no names in the directory, and
//! no listeners. So the local replica offers what it has changed, and sends what the server lacks. The server checks
//! each document under the rights of the person. Refused documents stay as they are in the local replica, and are
//! offered again by each push, until the server has them or they are gone.

use std::collections::HashSet;
use std::sync::Arc;

use base::{Name, Timestamp, Unid};
use notes::instance::{Position, ReplicationHistory};
use notes::replica::{ListedNote, ReplicaNote};
use notes::{Access, Database, DatabaseSnapshot, Databases, Error, Identity, level};
use store::blob::BlobId;

use crate::limits::{
    BYTES_PER_PUSH, CONTENT_BYTES_PER_PUSH, CONTENTS_PER_PUSH_MAX, NOTES_PER_OFFER_MAX, NOTES_PER_QUESTION_MAX,
    STATES_PER_OFFER,
};
use crate::pull::{PageEnd, changes_after};
use crate::source::{Answer, ListPage, Question, answer, log_unsent};
use crate::target::{is_recorded, limited};

/// What a push has done so far.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PushStatistics {
    /// Number of documents and deletions that were offered.
    pub offered: u64,
    /// Number of them that the server has taken over.
    pub taken: u64,
    /// Number of them that the server has merged with other changes.
    pub merged: u64,
    /// Number of them that have caused conflicts.
    pub conflicts: u64,
    /// Number of documents of which the server has changed only marks, keywords or folders.
    pub state_only: u64,
    /// The documents that the server has refused, with its reasons. The local replica keeps them.
    pub refused: Vec<RefusedNote>,
    /// Number of documents that cannot be sent, because they are damaged or too large.
    pub skipped: u64,
    /// Number of changed design notes, profiles and access control lists, which people do not bring, and of conflict
    /// documents that were made here.
    pub left_out: u64,
}

/// A document that the server has refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedNote {
    /// The document.
    pub unid: Unid,
    /// The time of its last save.
    pub saved: Timestamp,
    /// The reason, for people.
    pub reason: String,
}

/// What the server has done with a document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Written {
    /// It had the version, or one that descends from it.
    Known,
    /// The version is the current one there.
    Taken,
    /// The changes were merged with others.
    Merged,
    /// There was a conflict.
    Conflict,
    /// The person may not make the change, or the document is not valid. The text is for people.
    Refused(String),
}

/// The server to which a local replica brings its changes.
pub trait PushTarget {
    /// The error of a call. The push ends with it, and continues at its place the next time.
    type Error: From<Error>;

    /// Returns the indexes of the documents that the server lacks. Marks, keywords and folders of the others are joined
    /// there; the number is that of the documents of which one has changed.
    fn offer(&mut self, notes: &[ListedNote]) -> Result<(Vec<usize>, u64), Self::Error>;

    /// Returns the indexes of contents that must be sent with their notes.
    fn missing_contents(&mut self, contents: &[(Unid, BlobId)]) -> Result<Vec<usize>, Self::Error>;

    /// Sends documents with contents. Returns what became of each.
    fn write(&mut self, notes: Vec<ReplicaNote>, contents: Vec<(BlobId, Vec<u8>)>)
    -> Result<Vec<Written>, Self::Error>;

    /// Returns `true` if the server still has everything up to a state. It may have been set back to a copy of its
    /// data.
    fn has(&mut self, state: Position) -> Result<bool, Self::Error>;

    /// Returns the present state of the server, or `None` if it is not known.
    fn state(&mut self) -> Result<Option<Position>, Self::Error>;

    /// Reports what has been done so far. An error ends the push.
    fn report(&mut self, statistics: &PushStatistics) -> Result<(), Self::Error>;
}

/// A local replica that brings its changes to a server.
pub struct Push {
    databases: Arc<Databases>,
    /// The local replica, read and written by its program, from which nothing is hidden.
    reader: Arc<Access<level::Reader>>,
    /// The name under which the history is kept.
    target: String,
    /// What the server has, with the documents that were refused or skipped, which the next push offers again.
    history: ReplicationHistory,
    statistics: PushStatistics,
}

impl Push {
    /// Begins a push to a server after the position that it has reached.
    pub fn begin(
        databases: &Arc<Databases>,
        database: &Arc<Database>,
        itself: &Arc<Identity>,
        server: &Name,
    ) -> Result<Self, Error> {
        let reader: Arc<Access<level::Reader>> = Arc::new(database.authorize(itself)?);
        let target = history_name(server);
        let history = reader.read()?.replication_history(&target)?;
        let databases = Arc::clone(databases);
        Ok(Self { databases, reader, target, history, statistics: PushStatistics::default() })
    }

    /// Returns `true` if documents have changed here since the last push, or in the pull after it.
    pub fn has_changes(&self) -> Result<bool, Error> {
        let reading = self.reader.read()?;
        let Answer::Changes(page) = answer(&reading, &changes_after(&self.history, None))? else { return Ok(false) };
        Ok(!page.is_last || page.notes.iter().any(|note| note.class.is_document()))
    }

    /// Returns what was done so far, also if it has failed.
    #[must_use]
    pub fn statistics(&self) -> &PushStatistics {
        &self.statistics
    }

    /// Counts everything in the local replica as brought. Must be called only directly after a pull that has merged
    /// nothing and found no conflict, into a replica that was new, or after this push has run.
    ///
    /// Nothing is counted if the history is not what this push has recorded: too many documents were refused, or a
    /// folder exists again.
    pub fn skip_received(&self) -> Result<(), Error> {
        let reading = self.reader.read()?;
        let stored = reading.replication_history(&self.target)?;
        let position = reading.position(reading.modseq())?;
        let skipped = ReplicationHistory { position, progress: None, ..stored.clone() };
        if position.is_none() || skipped == stored || !is_recorded(&self.history, &stored) {
            return Ok(());
        }
        record_history(&self.databases, &self.reader, &self.target, &skipped)
    }

    /// Brings all changes to the server. Must be called once.
    pub fn run<T: PushTarget>(&mut self, server: &mut T) -> Result<(), T::Error> {
        if let Some(reached) = self.history.reached
            && !server.has(reached)?
        {
            self.history = self.history.cleared();
        }
        let reader = Arc::clone(&self.reader);
        let earlier = std::mem::take(&mut self.history.missed);
        {
            let reading = reader.read()?;
            let listed = |unid: &Unid| match reading.find(*unid)? {
                Some(note) => reading.listed_note(note, &|_| false),
                None => Ok(None),
            };
            let listed = earlier.iter().map(listed).filter_map(Result::transpose).collect::<Result<Vec<_>, Error>>()?;
            self.push_notes(&reading, listed, server)?;
        }
        loop {
            let reading = reader.read()?;
            let Answer::Changes(page) = answer(&reading, &changes_after(&self.history, None))? else { return Ok(()) };
            let ListPage { notes, position, seen, is_comparison, is_last, .. } = page;
            self.push_notes(&reading, notes, server)?;
            let end = PageEnd { position, seen, is_comparison, is_last };
            self.history = end.added_to(&self.history);
            if is_last {
                self.history.completed = Some(self.databases.clock().now());
                self.history.reached = server.state()?;
            }
            self.record()?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Brings the listed notes to the server.
    fn push_notes<T: PushTarget>(
        &mut self,
        reading: &DatabaseSnapshot<'_>,
        listed: Vec<ListedNote>,
        server: &mut T,
    ) -> Result<(), T::Error> {
        let count = listed.len();
        let documents: Vec<ListedNote> = listed.into_iter().filter(|note| note.class.is_document()).collect();
        self.statistics.left_out += (count - documents.len()) as u64;
        for batch in batches(&documents, NOTES_PER_OFFER_MAX, STATES_PER_OFFER, |note| note.state.len() as u64) {
            server.report(&self.statistics)?;
            let (missing, states_changed) = server.offer(batch)?;
            self.statistics.offered += batch.len() as u64;
            self.statistics.state_only += states_changed;
            let missing: Vec<&ListedNote> = missing.into_iter().filter_map(|index| batch.get(index)).collect();
            let count = missing.len();
            let is_sent = |note: &&ListedNote| !is_own_conflict(note) && !note.is_truncated;
            let missing: Vec<&ListedNote> = missing.into_iter().filter(is_sent).collect();
            self.statistics.left_out += (count - missing.len()) as u64;
            for group in batches(&missing, NOTES_PER_QUESTION_MAX, BYTES_PER_PUSH, |note| note.size) {
                server.report(&self.statistics)?;
                self.push_group(reading, group, server)?;
            }
        }
        Ok(())
    }

    /// Sends notes that the server lacks, and then their marks, keywords and folders.
    fn push_group<T: PushTarget>(
        &mut self,
        reading: &DatabaseSnapshot<'_>,
        group: &[&ListedNote],
        server: &mut T,
    ) -> Result<(), T::Error> {
        let unids = group.iter().map(|note| note.unid).collect();
        let Answer::Notes(found) = answer(reading, &Question::Notes { unids, are_truncated: false })? else {
            return Ok(());
        };
        self.statistics.skipped += found.unsent.len() as u64;
        self.history.missed.extend(&found.unsent);
        let named: Vec<(Unid, BlobId)> =
            found.notes.iter().flat_map(|note| note.blobs.iter().map(|blob| (note.unid, *blob))).collect();
        let mut missing = HashSet::new();
        for batch in named.chunks(NOTES_PER_OFFER_MAX) {
            let indexes = server.missing_contents(batch)?;
            missing.extend(indexes.into_iter().filter_map(|index| batch.get(index).copied()));
        }
        let mut written = HashSet::new();
        let mut batch = Batch::default();
        for note in found.notes {
            let of_note = note.blobs.iter().filter(|blob| missing.contains(&(note.unid, **blob)));
            let of_note: Vec<BlobId> = of_note.copied().collect();
            let bytes = contents_bytes(reading, note.unid, &of_note);
            let Some(bytes) = self.read_or_skip(reading, note.unid, bytes)? else { continue };
            if !batch.has_space(of_note.len(), bytes) {
                self.send(std::mem::take(&mut batch), server, &mut written)?;
            }
            let added = batch.add(reading, note.unid, &of_note);
            let Some(()) = self.read_or_skip(reading, note.unid, added)? else { continue };
            batch.notes.push(ReplicaNote { state: Vec::new(), ..note });
        }
        self.send(batch, server, &mut written)?;
        let with_state = |note: &&&ListedNote| written.contains(&note.unid) && !note.state.is_empty();
        let with_state: Vec<ListedNote> = group.iter().filter(with_state).map(|note| (**note).clone()).collect();
        if !with_state.is_empty() {
            server.offer(&with_state)?;
        }
        Ok(())
    }

    /// Returns what was read of the attachments of a document. If they cannot be read, counts the document and returns
    /// `None`.
    fn read_or_skip<R>(
        &mut self,
        reading: &DatabaseSnapshot<'_>,
        unid: Unid,
        read: Result<R, Error>,
    ) -> Result<Option<R>, Error> {
        match read {
            Err(error) if error.is_damage() || matches!(error, Error::NotFound { .. }) => {
                log_unsent(reading, unid, &error);
                self.statistics.skipped += 1;
                self.history.missed.insert(unid);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    fn send<T: PushTarget>(
        &mut self,
        batch: Batch,
        server: &mut T,
        written: &mut HashSet<Unid>,
    ) -> Result<(), T::Error> {
        if batch.notes.is_empty() {
            return Ok(());
        }
        let sent: Vec<(Unid, Timestamp)> = batch.notes.iter().map(|note| (note.unid, note.sequence_time)).collect();
        let outcomes = server.write(batch.notes, batch.contents)?;
        if outcomes.len() != sent.len() {
            let reason = "it does not tell what became of each note";
            return Err(Error::invalid("the answer of the server", reason).into());
        }
        for ((unid, saved), outcome) in sent.into_iter().zip(outcomes) {
            match outcome {
                Written::Known => {}
                Written::Taken => self.statistics.taken += 1,
                Written::Merged => self.statistics.merged += 1,
                Written::Conflict => self.statistics.conflicts += 1,
                Written::Refused(reason) => {
                    self.history.missed.insert(unid);
                    self.statistics.refused.push(RefusedNote { unid, saved, reason });
                    continue;
                }
            }
            written.insert(unid);
        }
        Ok(())
    }

    /// Records how far the push has come.
    fn record(&mut self) -> Result<(), Error> {
        let recorded = limited(self.history.clone());
        if is_recorded(&recorded, &self.reader.read()?.replication_history(&self.target)?) {
            return Ok(());
        }
        record_history(&self.databases, &self.reader, &self.target, &recorded)
    }
}

fn record_history(
    databases: &Databases,
    reader: &Access<level::Reader>,
    target: &str,
    history: &ReplicationHistory,
) -> Result<(), Error> {
    let depositor = reader.downgrade::<level::Depositor>();
    let accesses = [&depositor];
    let mut transaction = databases.transaction(&accesses)?;
    transaction.writer(0).replication_history_set(target, history)?;
    let ticket = transaction.commit()?;
    databases.store().durable(ticket).wait().map_err(Error::from)
}

/// Returns the name under which a local replica keeps what it has brought to a server.
fn history_name(server: &Name) -> String {
    format!("to {}", server.canonical())
}

/// Notes that are sent with contents of their attachments.
#[derive(Default)]
struct Batch {
    notes: Vec<ReplicaNote>,
    contents: Vec<(BlobId, Vec<u8>)>,
    ids: HashSet<BlobId>,
    bytes: u64,
}

impl Batch {
    /// Returns `true` if a note with contents may be sent with the others. Large contents are sent with their note
    /// alone, so that a server which cannot hold them refuses nothing else.
    fn has_space(&self, count: usize, bytes: u64) -> bool {
        let fits = self.bytes.saturating_add(bytes) <= CONTENT_BYTES_PER_PUSH
            && self.contents.len() + count <= CONTENTS_PER_PUSH_MAX;
        self.notes.is_empty() || fits
    }

    /// Adds contents of a note.
    fn add(&mut self, reading: &DatabaseSnapshot<'_>, unid: Unid, blobs: &[BlobId]) -> Result<(), Error> {
        let mut added = Vec::new();
        for blob in blobs.iter().filter(|blob| !self.ids.contains(*blob)) {
            let note = reading.find(unid)?.ok_or_else(|| Error::not_found(format!("note {unid}")))?;
            added.push((*blob, reading.blob(note, blob)?));
        }
        for (blob, content) in added {
            if self.ids.insert(blob) {
                self.bytes += content.len() as u64;
                self.contents.push((blob, content));
            }
        }
        Ok(())
    }
}

/// Returns `true` for a conflict document that was made here, not on the server: a refused edit met a later one. It
/// must not take the place of the one that servers would make.
fn is_own_conflict(note: &ListedNote) -> bool {
    revision::is_conflict_document_unid(note.unid) && note.revision.sequence == 1
}

fn contents_bytes(reading: &DatabaseSnapshot<'_>, unid: Unid, blobs: &[BlobId]) -> Result<u64, Error> {
    let Some(note) = reading.find(unid)? else { return Ok(0) };
    blobs.iter().map(|blob| reading.blob_length(note, blob)).sum()
}

/// Splits a list into batches of at most a number of entries, which end when their weights reach a sum.
fn batches<T>(list: &[T], count_max: usize, sum_max: u64, weight: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut sum = 0_u64;
    for (index, entry) in list.iter().enumerate() {
        let next = sum.saturating_add(weight(entry));
        if index > begin && (index - begin >= count_max || next > sum_max) {
            found.push(&list[begin..index]);
            begin = index;
            sum = weight(entry);
        } else {
            sum = next;
        }
    }
    if begin < list.len() {
        found.push(&list[begin..]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_keep_both_limits() {
        let weights = [3_u64, 3, 3, 9, 1, 1, 1, 1];
        let found = batches(&weights, 3, 6, |weight| *weight);
        assert_eq!(found, [&weights[..2], &weights[2..3], &weights[3..4], &weights[4..7], &weights[7..]]);
        assert!(batches(&[] as &[u64], 3, 6, |weight| *weight).is_empty());
    }
}
