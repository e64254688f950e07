//! The changes in the selected mailbox since a mod-sequence that the client names, read in slices, for SELECT with
//! QRESYNC and for FETCH with CHANGEDSINCE (RFC 7162).
//!
//! A [`ChangeScan`] reads the change log. If it no longer contains all removals, a [`MissingScan`] compares the
//! client's UIDs with the entries of the folder.

use std::ops::ControlFlow;

use base::{Modseq, Uid, UidSet, ViewId};
use mail::mailbox::MailSnapshot;
use notes::change_log::ChangeCursor;

use crate::codec::ResponseWriter;
use crate::error::Result;
use crate::limits;
use crate::session::selected::SelectedMailbox;

/// Number of entries that stand for finding the first entry of a range.
const RANGE_ENTRIES: usize = 8;

/// The changes since a mod-sequence, as far as they have been read.
#[derive(Debug)]
pub struct ChangeScan {
    cursor: ChangeCursor,
    /// The mod-sequence after which removals are reported as those of other sessions.
    until: Modseq,
    /// `true` if the change log contains all removals.
    pub is_complete: bool,
    /// `true` if the client's mod-sequence is that of another server, or of a state that this one has lost.
    pub is_of_other_server: bool,
    vanished: Vec<u32>,
    changed: Vec<u32>,
}

impl ChangeScan {
    /// Creates the scan of a command that begins with a snapshot, for a client that knows everything up to a modseq. If
    /// that is one of another server, the client is told of everything: RFC 7162 requires that it misses nothing.
    #[must_use]
    pub fn new(snapshot: &MailSnapshot<'_>, known: u64) -> Self {
        let known = snapshot.known_to_client(known);
        let since = known.unwrap_or(Modseq(0));
        Self {
            cursor: ChangeCursor::after(since),
            until: snapshot.modseq(),
            is_complete: known.is_some() && snapshot.is_complete_since(since),
            is_of_other_server: known.is_none(),
            vanished: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Returns the greatest UID that the client may know: of this server, or of the one whose modseq it has.
    pub fn last_known_uid(&self, snapshot: &MailSnapshot<'_>, selected: &SelectedMailbox) -> mail::Result<u32> {
        if self.is_of_other_server {
            return Ok(snapshot.last_uid_anywhere(selected.folder)?.0);
        }
        Ok(selected.sequence_numbers.uid_next().saturating_sub(1))
    }

    /// Reads the next changes. Returns `true` if the snapshot has no further changes.
    ///
    /// A message that changes during the scan is found, because its change moves to the end of the change log.
    pub fn read(&mut self, snapshot: &MailSnapshot<'_>, folder: ViewId) -> mail::Result<bool> {
        let page = snapshot.changes_page(folder, self.cursor, limits::SLICE_CHANGES)?;
        self.cursor = page.next;
        let vanished = page.vanished.iter().filter(|message| message.modseq <= self.until);
        self.vanished.extend(vanished.map(|message| message.uid.0));
        self.changed.extend(page.changed.iter().map(|message| message.uid.0));
        Ok(page.is_last)
    }

    /// Takes the UIDs of the messages that were removed.
    pub fn take_vanished(&mut self) -> UidSet {
        set_of(std::mem::take(&mut self.vanished))
    }

    /// Takes the UIDs of the messages that are new or have changed.
    pub fn take_changed(&mut self) -> UidSet {
        set_of(std::mem::take(&mut self.changed))
    }
}

/// Returns the set of UIDs in any order.
fn set_of(mut uids: Vec<u32>) -> UidSet {
    uids.sort_unstable();
    uids.into_iter().collect()
}

/// The UIDs in a set that belong to no message, as far as they have been found.
#[derive(Debug)]
pub struct MissingScan {
    /// The UIDs that have not been compared.
    remaining: UidSet,
    /// The UIDs that belong to no message.
    pub missing: UidSet,
}

impl MissingScan {
    /// Creates the scan of a set of UIDs.
    #[must_use]
    pub fn new(uids: UidSet) -> Self {
        Self { remaining: uids, missing: UidSet::new() }
    }

    /// Compares the next UIDs with the entries of a folder. Returns `true` if all have been compared.
    pub fn read(&mut self, snapshot: &MailSnapshot<'_>, folder: ViewId) -> Result<bool> {
        let mut left = limits::SLICE_MESSAGES;
        loop {
            let next = self.remaining.ranges().next();
            let Some(range) = next.filter(|_| left > 0) else { break };
            let end = self.read_range((*range.start(), *range.end()), (snapshot, folder), &mut left)?;
            self.remaining.remove_range(0..=end);
        }
        Ok(self.remaining.is_empty())
    }

    /// Compares the UIDs of a range, until as many entries as are left have been read. Returns the last UID that was
    /// compared.
    fn read_range(
        &mut self,
        (first, last): (u32, u32),
        (snapshot, folder): (&MailSnapshot<'_>, ViewId),
        left: &mut usize,
    ) -> Result<u32> {
        let count_max = *left;
        let mut count = 0;
        let mut end = last;
        let mut expected = Some(first);
        snapshot.entries(folder, Uid(first)..=Uid(last), &mut |entry| {
            let uid = entry.uid.0;
            if let Some(expected) = expected {
                self.missing.insert_range(expected..=uid.saturating_sub(1));
            }
            expected = uid.checked_add(1);
            count += 1;
            if count < count_max {
                return Ok(ControlFlow::Continue(()));
            }
            end = uid;
            Ok(ControlFlow::Break(()))
        })?;
        if let Some(expected) = expected.filter(|_| count < count_max) {
            self.missing.insert_range(expected..=last);
        }
        *left = left.saturating_sub(count + RANGE_ENTRIES);
        Ok(end)
    }
}

/// Reports messages that vanished before the command.
pub fn write_vanished(uids: &UidSet, out: &mut ResponseWriter) {
    if !uids.is_empty() {
        out.untagged().text("VANISHED (EARLIER) ").ranges(uids.ranges()).crlf();
    }
}
