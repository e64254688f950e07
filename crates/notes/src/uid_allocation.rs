//! UIDs that several servers give out for one folder: giving out and taking over.
//!
//! The UID of a note in a folder travels with its membership ([`revision::Register::number`]). `docs/replication.md`
//! ("IMAP on several replicas") argues for the rules.
//!
//! Invariants of a folder with [`crate::FolderState::shared`]:
//!
//! - A UID means one note, in all replicas and for ever. A server never gives out one below [`SharedUids::end`].
//! - Entries from `uid_next` on are *held*: they are in the index, and no reader sees them. Clients see UIDs in
//!   ascending order only, so what arrives in another order is held until that is known ([`Writer::uids_release`]).
//! - A note whose UID arrives below `uid_next` gets another one here, which replaces the first one in all replicas.
//!
//! What is left out: databases whose servers have no rank, and folders from before. They have UIDs of their own.

use base::{NoteId, Timestamp, Uid, ViewId};
use revision::Revision;

use crate::catalog::DatabaseKind;
use crate::error::{Error, Result};
use crate::folder_reader::FolderReader;
use crate::limits::{
    JOINED_FOLDERS_MAX, RECEIVED_UID_MAX, RECEIVED_UID_VALIDITY_MAX, SHARED_UID_MAX, UIDS_RELEASED_PER_TRANSACTION,
};
use crate::note::{Membership, NoteFlags, NoteHeader};
use crate::records;
use crate::shared_uids::{SharedUids, first_uid_of_run};
use crate::writer::Writer;

impl Writer<'_, '_> {
    /// Allocates the UID of a note that is added to a folder here. If the folder holds entries, they are released
    /// first. If there are too many, the note is held, too.
    pub(crate) fn allocate_uid(&mut self, folder: ViewId) -> Result<Membership> {
        let is_released = self.release_held(folder)?;
        let place = self.allocate_held_uid(folder)?;
        let state = &mut self.part.folder(folder)?.state;
        if is_released {
            state.uid_next = state.end();
        }
        Ok(place)
    }

    /// Allocates the UID of a note that another replica has added to a folder. It is held if UIDs are shared.
    pub(crate) fn allocate_held_uid(&mut self, folder: ViewId) -> Result<Membership> {
        let run = self.part.database.instance();
        let now = self.part.now;
        let rank = self.part.database.settings.uid_rank;
        if self.part.folder(folder)?.state.shared.is_some() && rank.is_none() {
            self.stop_sharing(folder)?;
        }
        let state = &mut self.part.folder(folder)?.state;
        let end = state.end().0;
        let (uid, max) = match (&state.shared, rank) {
            (Some(shared), Some(rank)) => {
                let is_new_run = shared.run != run;
                let least = if is_new_run { end.max(first_uid_of_run(state.uid_validity, now)) } else { end };
                (rank.next_from(least), SHARED_UID_MAX)
            }
            _ => (end, u32::MAX),
        };
        if uid >= max {
            return Err(Error::Limit { what: "UIDs of a folder", max: max as usize });
        }
        match &mut state.shared {
            Some(shared) => *shared = SharedUids { end: Uid(uid).next(), run },
            None => state.uid_next = Uid(uid).next(),
        }
        Ok(Membership { folder, uid: Uid(uid) })
    }

    /// Changes a folder to a UIDVALIDITY of its own, because this server has no rank any more.
    fn stop_sharing(&mut self, folder: ViewId) -> Result<()> {
        let uid_validity = self.new_uid_validity();
        let state = &mut self.part.folder(folder)?.state;
        state.uid_next = state.end();
        state.uid_validity = uid_validity;
        state.shared = None;
        Ok(())
    }

    /// Returns the place of a note in a folder to which another replica has added it under a UID, which is 0 if that
    /// has none. A UID that clients of this server have passed, or that another note has, is replaced.
    pub(crate) fn receive_uid(&mut self, note: NoteId, folder: ViewId, uid: Uid) -> Result<Membership> {
        let open = self.part.folder(folder)?;
        let is_usable = open.state.shared.is_some() && uid >= open.state.uid_next && uid.0 < RECEIVED_UID_MAX;
        if !is_usable {
            return self.allocate_held_uid(folder);
        }
        if let Some(other) = self.note_with_uid(folder, uid)?.filter(|other| *other != note) {
            // Two servers have the same rank, or the clock of one was wrong after a restored backup.
            let place = self.allocate_held_uid(folder)?;
            self.replace_uid(other, place)?;
            return self.allocate_held_uid(folder);
        }
        let open = self.part.folder(folder)?;
        open.claimed.insert(uid, note);
        if let Some(shared) = &mut open.state.shared {
            shared.end = shared.end.max(uid.next());
        }
        Ok(Membership { folder, uid })
    }

    /// Assigns new UIDs to a document of a mail file in its folders if it has changed and mail clients see a message
    /// that is composed from its items: the message of a UID never changes (RFC 9051 §2.3.1.1). UIDs that this
    /// transaction has given out stay.
    pub(crate) fn renew_uids(&mut self, note: NoteId) -> Result<()> {
        for folder in self.folders_to_renew(note, None)? {
            let place = self.allocate_uid(folder)?;
            self.replace_uid(note, place)?;
        }
        Ok(())
    }

    /// Assigns new UIDs to a document, as [`Writer::renew_uids`] does, after a version of it was received, which has
    /// this revision and time. UIDs that came with that version stay if it counts. They are held if another server has
    /// sent it.
    pub(crate) fn renew_received_uids(&mut self, note: NoteId, arrived: (Revision, Timestamp)) -> Result<()> {
        let is_server = records::require_server_itself(self.part.database, &self.part.grant).is_ok();
        for folder in self.folders_to_renew(note, Some(arrived))? {
            let place = if is_server { self.allocate_held_uid(folder)? } else { self.allocate_uid(folder)? };
            self.replace_uid(note, place)?;
        }
        Ok(())
    }

    /// Returns the folders in which a document without a message has a UID of another version: the UID that it had
    /// before, if it has changed, or the one that came with a version that does not count.
    fn folders_to_renew(&mut self, note: NoteId, arrived: Option<(Revision, Timestamp)>) -> Result<Vec<ViewId>> {
        if self.part.database.record().kind != DatabaseKind::Mail {
            return Ok(Vec::new());
        }
        let Some(pending) = self.part.pending_header(note)? else { return Ok(Vec::new()) };
        let Some(before) = &pending.before else { return Ok(Vec::new()) };
        let after = &pending.after;
        let version = |header: &NoteHeader| (header.revision(), header.sequence_time, header.is_truncated());
        let is_composed = before.flags.union(after.flags).contains(NoteFlags::COMPOSED);
        let is_changed = version(before) != version(after);
        let is_other = arrived.is_some_and(|arrived| arrived != (after.revision(), after.sequence_time));
        if !is_composed || !(is_changed || is_other) {
            return Ok(Vec::new());
        }
        let is_old = |place: &Membership| if before.folders.contains(place) { is_changed } else { is_other };
        // A note leaves no more folders in one transaction.
        let renewed = after.folders.iter().filter(|place| is_old(place)).take(JOINED_FOLDERS_MAX);
        Ok(renewed.map(|place| place.folder).collect())
    }

    /// Replaces the UID of a note in a folder, if it is there.
    pub(crate) fn replace_uid(&mut self, note: NoteId, new: Membership) -> Result<()> {
        let Some(pending) = self.part.pending_header(note)? else { return Ok(()) };
        for place in pending.after.folders.iter_mut().filter(|place| place.folder == new.folder) {
            *place = new;
        }
        Ok(())
    }

    /// Returns the note that has a UID in a folder, before this transaction or now.
    fn note_with_uid(&mut self, folder: ViewId, uid: Uid) -> Result<Option<NoteId>> {
        let open = self.part.folder(folder)?;
        if let Some(note) = open.claimed.get(&uid) {
            return Ok(Some(*note));
        }
        open.stored_note(uid)
    }

    /// Shows the entries that a folder holds to clients, up to [`UIDS_RELEASED_PER_TRANSACTION`]. Returns `false` if
    /// some are left for another transaction.
    pub(crate) fn release_held(&mut self, folder: ViewId) -> Result<bool> {
        let open = self.part.folder(folder)?;
        let state = open.state;
        if !state.may_hold_entries() {
            return Ok(true);
        }
        if std::mem::replace(&mut open.has_released, true) {
            return Ok(false);
        }
        let mut held = Vec::new();
        let mut rest = None;
        FolderReader::open(self.store, self.part.database, folder)?.for_each_entry(state.uid_next, &mut |entry| {
            if held.len() == UIDS_RELEASED_PER_TRANSACTION {
                rest = Some(entry.uid);
                return Ok(false);
            }
            held.push(entry.note);
            Ok(true)
        })?;
        for note in held {
            // Its modseq rises, so that a client that resynchronizes is told of it.
            self.part.pending_header_or_stub(note)?;
            self.part.released.insert(note);
        }
        self.part.folder(folder)?.state.uid_next = rest.unwrap_or(state.end());
        Ok(rest.is_none())
    }

    /// Shows the notes that were received from other replicas to clients of all folders, at the end of a replication.
    /// Returns `false` if some are left for another transaction. Fails unless the caller is the server itself.
    pub fn uids_release(&mut self) -> Result<bool> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        for folder in self.all_folders()?.iter().map(|folder| folder.view) {
            let state = FolderReader::open(self.store, self.part.database, folder)?.state();
            if !state.may_hold_entries() {
                continue;
            }
            self.part.touched = true;
            if !self.release_held(folder)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Joins the UIDVALIDITY of a folder with that of another replica: the greater one counts. Returns `true` if it
    /// changed.
    pub(crate) fn receive_uid_validity(&mut self, folder: NoteId, uid_validity: u32) -> Result<bool> {
        let view = ViewId(folder.0);
        let exists = self.part.folders.contains_key(&view) || self.all_folders()?.iter().any(|it| it.view == view);
        let is_possible = uid_validity <= RECEIVED_UID_VALIDITY_MAX;
        if !exists || !is_possible || self.part.database.settings.uid_rank.is_none() {
            return Ok(false);
        }
        let state = &mut self.part.folder(view)?.state;
        if state.shared.is_none() || state.uid_validity >= uid_validity {
            return Ok(false);
        }
        state.uid_validity = uid_validity;
        let counters = &mut self.part.counters;
        counters.uid_validity = counters.uid_validity.max(uid_validity);
        self.part.released.insert(folder);
        self.part.pending_header_or_stub(folder)?;
        Ok(true)
    }

    /// Returns a UIDVALIDITY that no folder of this database had before and, if UIDs are shared, that no other server
    /// gives out.
    pub(crate) fn new_uid_validity(&mut self) -> u32 {
        let seconds = u32::try_from(self.part.now.seconds()).unwrap_or(1);
        let least = seconds.max(self.part.counters.uid_validity.saturating_add(1));
        let rank = self.part.database.settings.uid_rank;
        let uid_validity = rank.map_or(least, |rank| rank.next_from(least));
        self.part.counters.uid_validity = uid_validity;
        uid_validity
    }
}
