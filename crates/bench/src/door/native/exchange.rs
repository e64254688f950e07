//! The exchange of a replica (docs/replication.md, "The exchange"): the list of changes, the notes and their contents.
//! The driver keeps nothing of them: it reads and drops them, as fast as the server sends.

use std::collections::HashSet;

use client::v1;

use super::session::{CallCount, CallError, Session};
use super::skeleton::ContentId;
use super::{DONE, StepContext, StepResult};
use crate::door::call::MALFORMED_CODE;
use crate::workload::action::PullMethod;

/// Maximum number of notes that are requested with one call, and of their bytes if there are several.
const NOTES_PER_CALL_MAX: usize = 250;
const CALL_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of contents of which a pull remembers that it has read them. Others are read again.
const CONTENTS_MAX: usize = 10_000;
/// Maximum number of pages of a list of changes. One that has more does not come to an end.
const PAGES_MAX: usize = 100_000;

/// Maximum number of messages of a reply for each note that was requested. A large note comes in several parts.
const MESSAGES_PER_NOTE_MAX: usize = 10_000;

/// A list of changes while it is read.
#[derive(Debug, Default)]
pub(super) struct ChangeList {
    after: Option<v1::ReplicaPosition>,
    progress: Option<v1::ListProgress>,
    pages: usize,
    is_over: bool,
}

impl ChangeList {
    /// Begins the list of the changes after a position, or of all notes.
    pub(super) fn after(position: Option<v1::ReplicaPosition>) -> Self {
        Self { after: position, ..Self::default() }
    }

    /// Reads the next page, or returns `None` behind the last one.
    pub(super) async fn next_page(
        &mut self,
        session: &Session,
        count: &mut CallCount,
    ) -> Result<Option<Vec<v1::ListedNote>>, CallError> {
        if self.is_over {
            return Ok(None);
        }
        let request = v1::ListChangedNotesRequest {
            database: Some(session.database()),
            after: self.after.clone(),
            progress: self.progress.take(),
            selection: None,
        };
        let page = session.call(count, session.client().replication().list_changed_notes(request)).await?;
        self.pages += 1;
        if self.pages > PAGES_MAX {
            return Err(CallError::kept(MALFORMED_CODE, "the list of changes does not come to an end"));
        }
        self.is_over = page.last;
        if page.last {
            self.after = page.position;
        } else {
            let v1::ChangedNotes { position, seen, comparison, .. } = page;
            self.progress = Some(v1::ListProgress { position, seen, comparison });
        }
        Ok(Some(page.notes))
    }

    /// Returns the position behind the whole list.
    pub(super) fn into_position(self) -> Option<v1::ReplicaPosition> {
        self.after
    }
}

/// What a replica has received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The contents that were read, at most [`CONTENTS_MAX`].
    contents: HashSet<ContentId>,
    /// The UNIDs of notes that are stubs of deletions, of the last call.
    pub(super) deleted: Vec<Vec<u8>>,
    requested: RequestedNotes,
}

/// What a server may still send of the notes that a call has requested, so that a reply comes to an end.
#[derive(Debug, Default)]
pub(super) struct RequestedNotes {
    notes_left: usize,
    messages_left: usize,
    /// The UNID of the note that was sent last, which may have several parts.
    last: Vec<u8>,
}

impl RequestedNotes {
    /// Creates the limit of a call that requests so many notes. There may be a message without notes besides.
    pub(super) fn new(notes: usize) -> Self {
        let messages_left = notes.saturating_mul(MESSAGES_PER_NOTE_MAX).saturating_add(1);
        Self { notes_left: notes, messages_left, last: Vec::new() }
    }

    /// Counts a message of the reply. Fails with the code `malformed` if there are too many.
    pub(super) fn take_message(&mut self) -> Result<(), CallError> {
        let endless = || CallError::kept(MALFORMED_CODE, "the reply with notes does not come to an end");
        self.messages_left = self.messages_left.checked_sub(1).ok_or_else(endless)?;
        Ok(())
    }

    /// Counts a note. Returns `false` for a further part of the note before. Fails with the code `malformed` if the
    /// call has requested fewer.
    pub(super) fn take_note(&mut self, unid: &[u8]) -> Result<bool, CallError> {
        if unid == self.last {
            return Ok(false);
        }
        let too_many = || CallError::kept(MALFORMED_CODE, "the server sends more notes than were requested");
        self.notes_left = self.notes_left.checked_sub(1).ok_or_else(too_many)?;
        self.last = unid.to_vec();
        Ok(true)
    }
}

impl StepContext<'_> {
    /// Reads the whole database, as into an empty replica.
    pub(super) async fn pull(&mut self, method: PullMethod) -> StepResult {
        self.describe_replica(None).await?;
        let per_call = match method {
            PullMethod::Stream => NOTES_PER_CALL_MAX,
            PullMethod::Call => 1,
        };
        let mut list = ChangeList::after(None);
        let mut received = Received::default();
        while let Some(page) = list.next_page(self.session, self.count).await? {
            for part in parts_of_page(&page, per_call) {
                self.receive(part, &mut received).await?;
            }
        }
        Ok(DONE)
    }

    /// Asks for the description of the replica of the server.
    pub(super) async fn describe_replica(
        &mut self,
        known: Option<v1::ReplicaPosition>,
    ) -> Result<v1::Replica, CallError> {
        let request = v1::GetReplicaRequest { database: self.database(), known };
        let mut stub = self.session.client().replication();
        self.session.call(self.count, stub.get_replica(request)).await
    }

    /// Reads notes, and the contents that no note before them had. A server that sends more notes than it was asked for
    /// is not listened to any longer.
    pub(super) async fn receive(&mut self, notes: &[v1::ListedNote], received: &mut Received) -> Result<(), CallError> {
        let request = v1::ReadReplicaNotesRequest {
            database: self.database(),
            unids: notes.iter().map(|note| note.unid.clone()).collect(),
            truncated: false,
            takes_parts: true,
        };
        let mut stub = self.session.client().replication();
        let mut replies = self.session.call(self.count, stub.read_replica_notes(request)).await?;
        let mut wanted = Vec::new();
        received.begin_call(notes.len());
        while let Some(reply) = replies.message().await.map_err(|status| self.session.failed(&status))? {
            received.requested.take_message()?;
            for note in reply.notes {
                received.add(&note, &mut wanted)?;
            }
        }
        self.read_contents(&wanted).await?;
        Ok(())
    }
}

impl Received {
    /// Begins a call that requests so many notes.
    fn begin_call(&mut self, notes: usize) {
        self.deleted.clear();
        self.requested = RequestedNotes::new(notes);
    }

    /// Adds the contents of a note to those that are wanted. Only the first part of a note states them.
    ///
    /// Fails with the code `malformed` if there are more notes than the call has requested.
    fn add(&mut self, note: &v1::ReplicaNote, wanted: &mut Vec<([u8; 16], ContentId)>) -> Result<(), CallError> {
        let Ok(unid) = <[u8; 16]>::try_from(&note.unid[..]) else { return Ok(()) };
        if !self.requested.take_note(&unid)? {
            return Ok(());
        }
        if note.deleted {
            self.deleted.push(note.unid.clone());
        }
        for content in note.content_ids.iter().filter_map(|id| ContentId::try_from(&id[..]).ok()) {
            if self.contents.contains(&content) {
                continue;
            }
            if self.contents.len() < CONTENTS_MAX {
                self.contents.insert(content);
            }
            wanted.push((unid, content));
        }
        Ok(())
    }
}

/// Splits notes into parts that are requested with one call each.
pub(super) fn parts_of_page(notes: &[v1::ListedNote], per_call: usize) -> Vec<&[v1::ListedNote]> {
    let mut parts = Vec::new();
    let mut rest = notes;
    while !rest.is_empty() {
        let mut bytes = 0_u64;
        let fits = |note: &&v1::ListedNote| {
            bytes = bytes.saturating_add(note.size_bytes);
            bytes <= CALL_BYTES_MAX
        };
        let count = rest.iter().take(per_call).take_while(fits).count().max(1);
        let (part, others) = rest.split_at(count);
        parts.push(part);
        rest = others;
    }
    parts
}

/// Splits notes into parts as a replica requests them.
pub(super) fn parts_of_changes(notes: &[v1::ListedNote]) -> Vec<&[v1::ListedNote]> {
    parts_of_page(notes, NOTES_PER_CALL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(size_bytes: u64) -> v1::ListedNote {
        v1::ListedNote { size_bytes, ..v1::ListedNote::default() }
    }

    #[test]
    fn pages_are_divided_by_number_and_bytes() {
        let lengths = |sizes: &[u64], per_call| {
            let notes: Vec<_> = sizes.iter().map(|size| listed(*size)).collect();
            parts_of_page(&notes, per_call).into_iter().map(<[_]>::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&[1; 7], 3), [3, 3, 1]);
        assert_eq!(lengths(&[1; 2], 1), [1, 1]);
        assert_eq!(lengths(&[CALL_BYTES_MAX / 2; 3], 250), [2, 1]);
        assert_eq!(lengths(&[u64::MAX, 1, u64::MAX], 250), [1, 1, 1]);
        assert!(lengths(&[], 250).is_empty());
    }

    #[test]
    fn a_reply_comes_to_an_end() {
        let mut requested = RequestedNotes::new(2);
        let taken: Vec<_> = [[1], [1], [2], [2]].iter().map(|unid| requested.take_note(unid)).collect();
        assert_eq!(taken, [Ok(true), Ok(false), Ok(true), Ok(false)]);
        assert_eq!(requested.take_note(&[1]).expect_err("a third note").code, "malformed");
        let messages_max = 2 * MESSAGES_PER_NOTE_MAX + 1;
        assert!((0..messages_max).all(|_| requested.take_message().is_ok()));
        assert_eq!(requested.take_message().expect_err("an endless reply").code, "malformed");
    }

    #[test]
    fn a_content_is_read_once() {
        let note = |unid: u8, contents: &[u8]| v1::ReplicaNote {
            unid: vec![unid; 16],
            content_ids: contents.iter().map(|content| vec![*content; 32]).collect(),
            deleted: contents.is_empty(),
            ..v1::ReplicaNote::default()
        };
        let mut received = Received::default();
        let mut wanted = Vec::new();
        received.begin_call(3);
        for note in [note(1, &[1, 2]), note(2, &[2, 3]), note(2, &[8]), note(3, &[])] {
            received.add(&note, &mut wanted).expect("a note that was requested");
        }
        let invalid = v1::ReplicaNote { unid: vec![4; 3], ..note(4, &[9]) };
        assert_eq!(received.add(&invalid, &mut wanted), Ok(()));
        let error = received.add(&note(1, &[9]), &mut wanted).expect_err("a fourth note");
        assert_eq!(error.code, "malformed");
        assert_eq!(wanted, [([1; 16], [1; 32]), ([1; 16], [2; 32]), ([2; 16], [3; 32])]);
        assert_eq!(received.deleted, [vec![3; 16]]);
    }
}
