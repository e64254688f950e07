//! The selected mailbox: the client's numbering of its messages, and the changes that have been reported to the client.
//!
//! `scanned_modseq` and `reported_modseq` are mod-sequences of the mail file. Up to `scanned_modseq`, the sequence
//! numbers contain every vanished message. Up to `reported_modseq`, the client also knows the changed flags. The
//! session's own changes are remembered by their mod-sequence, so that they are not reported to the client that made
//! them. If many transactions were committed since, their changes are recorded in slices, before anything else is done
//! with the mailbox ([`SelectedMailbox::catch_up`]).

use base::{Modseq, Uid, UidSet, ViewId};
use mail::mailbox::{ChangedMessage, Folder, FolderStatus, MailSnapshot};
use notes::change_log::ChangeCursor;

use super::sequence_numbers::{FolderPositions, SequenceNumbers, UidRange};
use crate::codec::command::{Bound, MessageSet, Numbering, SelectMode, SequenceRange, SequenceSet};
use crate::error::{Error, Result};
use crate::limits;

/// The selected mailbox of a session.
#[derive(Debug)]
pub struct SelectedMailbox {
    /// The folder.
    pub folder: ViewId,
    /// The name of the folder when it was selected.
    pub name: String,
    mode: SelectMode,
    /// The client's numbering of messages.
    pub sequence_numbers: SequenceNumbers,
    pub(super) scanned_modseq: Modseq,
    pub(super) reported_modseq: Modseq,
    /// Mod-sequence up to which the client knows all changes, including vanished messages. A client that resynchronizes
    /// must start there.
    resync_modseq: Modseq,
    /// Mod-sequence up to which the client knows of new messages.
    pub(super) counted: Modseq,
    /// Mod-sequences of the session's own changes after `reported_modseq`.
    pub(super) own: Vec<Modseq>,
    /// The place in the change log up to which changes are recorded, while the session catches up.
    catching_up: Option<ChangeCursor>,
    /// UIDs whose flags have yet to be reported to the client, in descending order.
    pub(super) unreported: Vec<u32>,
    /// Number of the mail file's keywords that the client knows.
    pub(super) keywords_reported: usize,
    /// UIDs of recent messages.
    recent: UidSet,
    /// UIDs of the saved search result (RFC 5182).
    pub saved: UidSet,
}

/// A folder in a snapshot, through which the numbering reads positions.
pub struct FolderSnapshot<'v, 'f> {
    /// The snapshot.
    pub snapshot: &'v MailSnapshot<'f>,
    /// The folder.
    pub folder: ViewId,
}

impl FolderPositions for FolderSnapshot<'_, '_> {
    type Error = mail::Error;

    fn rank(&self, uid: u32) -> mail::Result<u32> {
        self.snapshot.rank(self.folder, Uid(uid))
    }

    fn uid_at(&self, index: u32) -> mail::Result<Option<u32>> {
        Ok(self.snapshot.uid_at(self.folder, index)?.map(|uid| uid.0))
    }
}

impl SelectedMailbox {
    /// Creates the state of a newly selected folder from a snapshot's status.
    #[must_use]
    pub fn new(folder: &Folder, mode: SelectMode, status: &FolderStatus) -> Self {
        Self {
            folder: folder.id,
            name: folder.name.clone(),
            mode,
            sequence_numbers: SequenceNumbers::new(status.uid_next.0, status.messages),
            scanned_modseq: Modseq(0),
            reported_modseq: Modseq(0),
            resync_modseq: Modseq(0),
            counted: Modseq(0),
            own: Vec::new(),
            catching_up: None,
            unreported: Vec::new(),
            keywords_reported: 0,
            recent: UidSet::new(),
            saved: UidSet::new(),
        }
    }

    /// Records that the client knows everything up to this snapshot.
    pub fn mark_up_to_date(&mut self, snapshot: &MailSnapshot<'_>) {
        self.scanned_modseq = snapshot.modseq();
        self.reported_modseq = snapshot.modseq();
        self.resync_modseq = snapshot.modseq();
        self.counted = snapshot.modseq();
        self.keywords_reported = snapshot.keywords().names().len();
    }

    /// Returns `true` if the client knows everything up to this mod-sequence of the mail file.
    #[must_use]
    pub fn is_up_to_date(&self, modseq: Modseq) -> bool {
        self.reported_modseq == modseq
            && self.counted == modseq
            && self.unreported.is_empty()
            && !self.sequence_numbers.has_vanished()
    }

    /// Records that the client knows everything up to a mod-sequence if only the session's own flag changes led to it.
    /// In that case no lookup is needed.
    pub fn skip_own_changes(&mut self, modseq: Modseq) {
        let every_one = modseq.0.checked_sub(self.reported_modseq.0) == Some(self.own.len() as u64);
        if every_one && self.own.last() == Some(&modseq) && self.counted == self.reported_modseq {
            self.own.clear();
            self.scanned_modseq = modseq;
            self.reported_modseq = modseq;
            self.counted = modseq;
        }
    }

    /// Records the client's knowledge at the end of a command. If the client has received later changes while earlier
    /// expunges were held back, returns the mod-sequence from which it must resynchronize.
    pub fn finish_command(&mut self) -> Option<Modseq> {
        if !self.sequence_numbers.has_vanished() {
            self.resync_modseq = self.reported_modseq;
            return None;
        }
        (self.reported_modseq > self.resync_modseq).then_some(self.resync_modseq)
    }

    /// Returns `true` if the mailbox was opened with SELECT, not EXAMINE.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.mode == SelectMode::ReadWrite
    }

    /// Returns the folder in a snapshot.
    #[must_use]
    pub fn folder_in<'v, 'f>(&self, snapshot: &'v MailSnapshot<'f>) -> FolderSnapshot<'v, 'f> {
        FolderSnapshot { snapshot, folder: self.folder }
    }

    /// Records the messages that vanished up to a snapshot, so that sequence numbers can be resolved in it.
    pub fn record_vanished(&mut self, snapshot: &MailSnapshot<'_>) -> Result<()> {
        if snapshot.modseq() > self.scanned_modseq {
            let changes = snapshot.changes(self.folder, self.scanned_modseq).map_err(selected_mailbox_error)?;
            self.sequence_numbers.record_vanished(changes.vanished.ranges().flatten());
            self.scanned_modseq = changes.modseq;
        }
        Ok(())
    }

    /// Returns `true` if so many transactions were committed since the last report that their changes are recorded in
    /// slices.
    #[must_use]
    pub fn is_far_behind(&self, modseq: Modseq) -> bool {
        let transactions = modseq.0.saturating_sub(self.reported_modseq.0);
        self.catching_up.is_some() || transactions > limits::TRANSACTIONS_RECORDED_AT_ONCE
    }

    /// Records the next changes up to a snapshot, and queues flag changes by other sessions for reporting. Returns
    /// `true` if the snapshot has no further changes.
    pub fn catch_up(&mut self, snapshot: &MailSnapshot<'_>) -> Result<bool> {
        let from = self.catching_up.take().unwrap_or(ChangeCursor::after(self.reported_modseq));
        let page = snapshot.changes_page(self.folder, from, limits::SLICE_CHANGES).map_err(selected_mailbox_error)?;
        self.sequence_numbers.record_vanished(page.vanished.iter().map(|message| message.uid.0));
        self.queue_changes(&page.changed);
        self.reported_modseq = self.reported_modseq.max(page.next.modseq);
        self.scanned_modseq = self.scanned_modseq.max(page.next.modseq);
        self.own.retain(|modseq| *modseq > self.reported_modseq);
        if !page.is_last {
            self.catching_up = Some(page.next);
        }
        Ok(page.is_last)
    }

    /// Queues the flags of messages that other sessions changed, as far as the client knows the messages.
    pub(super) fn queue_changes(&mut self, changed: &[ChangedMessage]) {
        let known = self.sequence_numbers.uid_next();
        let is_new = |message: &&ChangedMessage| message.uid.0 < known && !self.own.contains(&message.modseq);
        let uids: Vec<u32> = changed.iter().filter(is_new).map(|message| message.uid.0).collect();
        self.queue_flag_updates(uids);
    }

    /// Returns the mod-sequence up to which the client has been told of all changes.
    pub(super) fn client_modseq(&self) -> Modseq {
        let is_reported = self.counted >= self.reported_modseq && self.unreported.is_empty();
        if is_reported { self.reported_modseq } else { self.resync_modseq.min(self.reported_modseq) }
    }

    /// Records a silent change by this session, which need not be reported to the client.
    ///
    /// If another session has changed the mail file since the client was last up to date, the change is reported
    /// nevertheless, because the messages may have changed in ways that the client cannot know.
    pub fn record_silent_change(&mut self, modseq: Modseq) {
        let known = self.own.last().copied().unwrap_or(self.reported_modseq);
        if known.next() == modseq {
            self.own.push(modseq);
        }
    }

    /// Records a change by this session whose result is reported to the client in full.
    pub fn record_reported_change(&mut self, modseq: Modseq) {
        self.own.push(modseq);
    }

    /// Queues the flags of messages for the next updates.
    pub fn queue_flag_updates(&mut self, uids: impl IntoIterator<Item = u32>) {
        self.unreported.extend(uids);
        // The stable sort is linear for a long sorted list with a short end.
        self.unreported.sort_by(|a, b| b.cmp(a));
        self.unreported.dedup();
    }

    /// Returns `true` if the message is recent in this session.
    #[must_use]
    pub fn is_recent(&self, uid: u32) -> bool {
        self.recent.contains(uid)
    }

    /// Adds the UIDs of a range to the recent ones.
    pub fn add_recent(&mut self, uids: std::ops::Range<u32>) {
        if !uids.is_empty() {
            self.recent.insert_range(uids.start..=uids.end - 1);
        }
    }

    /// Returns the number of recent messages that still exist.
    pub fn count_recent(&self, snapshot: &MailSnapshot<'_>) -> Result<u32> {
        let place = self.folder_in(snapshot);
        let mut count = 0_u32;
        for range in self.recent.ranges() {
            let end = place.rank(range.end().saturating_add(1))?;
            count = count.saturating_add(end.saturating_sub(place.rank(*range.start())?));
        }
        Ok(count)
    }

    /// Resolves a command's message set to ranges of UIDs that the client knows, in ascending order.
    ///
    /// The vanished messages up to this snapshot must have been recorded. Returns a BAD error if the set contains a
    /// sequence number without a message.
    pub fn resolve(
        &self,
        snapshot: &MailSnapshot<'_>,
        set: &MessageSet,
        numbering: Numbering,
    ) -> Result<Vec<UidRange>> {
        let MessageSet::Numbers(numbers) = set else {
            return Ok(self.saved.ranges().map(UidRange::from).collect());
        };
        match numbering {
            Numbering::Sequence => {
                let count = self.sequence_numbers.count();
                let beyond = |bound| matches!(bound, Bound::Number(number) if number > count);
                let is_wrong = |range: &SequenceRange| match (range.first, range.last) {
                    // `1:*` means all messages, even in an empty mailbox.
                    (Bound::Last, Bound::Number(1)) | (Bound::Number(1), Bound::Last) => false,
                    (first, last) => beyond(first) || beyond(last),
                };
                if numbers.ranges.iter().any(is_wrong) {
                    return Err(Error::Bad("there is no message with that number"));
                }
                self.resolve_numbers(snapshot, numbers)
            }
            Numbering::Uid => {
                let uids = self.known_uids(numbers.resolve(self.last_uid(snapshot, numbers)?));
                Ok(uids.ranges().map(UidRange::from).collect())
            }
        }
    }

    /// Resolves as [`SelectedMailbox::resolve`] does, but silently omits numbers without a message, as searches
    /// require.
    pub fn resolve_existing(
        &self,
        snapshot: &MailSnapshot<'_>,
        set: &MessageSet,
        numbering: Numbering,
    ) -> Result<Vec<UidRange>> {
        match (set, numbering) {
            (MessageSet::Numbers(numbers), Numbering::Sequence) => self.resolve_numbers(snapshot, numbers),
            _ => self.resolve(snapshot, set, numbering),
        }
    }

    fn resolve_numbers(&self, snapshot: &MailSnapshot<'_>, numbers: &SequenceSet) -> Result<Vec<UidRange>> {
        match self.sequence_numbers.count() {
            0 => Ok(Vec::new()),
            count => Ok(self.sequence_numbers.uids_of(&self.folder_in(snapshot), &numbers.resolve(count))?),
        }
    }

    /// Returns the meaning of `*` in a set of UIDs: the last UID, or 0 in an empty mailbox.
    ///
    /// If any larger number would mean the same messages, the index is not read.
    fn last_uid(&self, snapshot: &MailSnapshot<'_>, numbers: &SequenceSet) -> Result<u32> {
        let harmless = |range: &SequenceRange| {
            let starts_low = |bound| matches!(bound, Bound::Number(number) if number <= 1);
            let is_star = |bound| bound == Bound::Last;
            !(is_star(range.first) || is_star(range.last)) || starts_low(range.first) || starts_low(range.last)
        };
        if numbers.ranges.iter().all(harmless) {
            return Ok(self.sequence_numbers.uid_next().saturating_sub(1));
        }
        Ok(self.sequence_numbers.uid_of(&self.folder_in(snapshot), self.sequence_numbers.count())?.unwrap_or(0))
    }

    /// Cuts a set of UIDs to the UIDs that the client knows.
    #[must_use]
    pub fn known_uids(&self, mut uids: UidSet) -> UidSet {
        uids.retain_range(1..=self.sequence_numbers.uid_next().saturating_sub(1));
        uids
    }
}

/// Returns the UIDs of resolved ranges.
#[must_use]
pub fn uids_of_ranges(ranges: Vec<UidRange>) -> UidSet {
    ranges.into_iter().map(|range| range.uids).collect()
}

/// Converts an error of the `mail` crate that concerns the selected mailbox. A missing mailbox means that it was
/// deleted by another session.
pub fn selected_mailbox_error(error: mail::Error) -> Error {
    match error {
        mail::Error::NoMailbox(_) => Error::MailboxGone,
        other => other.into(),
    }
}
