//! When something was last used: codes of second factors, and application passwords.
//!
//! A use is a note of `sessions.nsf`, because the directory, which replicates, must not change with each login. A code
//! is used once: its time step must be later than the last one, also after a restart. Of an application password, the
//! last time, address and protocol are shown to its owner.
//!
//! The lock of the uses in memory is never held while a transaction begins or is committed: a login that writes nothing
//! does not wait for the store. A use is first recorded in memory, which decides between two of the same code; its note
//! is then written with what is in memory at that time, by one writer after another, so the last note that is written
//! has the latest use.

use std::net::IpAddr;

use base::{NoteId, Timestamp};
use notes::{Item, ItemValue, NewNote, Note};
use sasl::{ApplicationPasswordId, LoginProtocol};
use store::Ticket;

use super::{ADDRESS_ITEM, FORM_ITEM, Sessions, USED_ITEM};
use crate::limits::{SESSION_USE_INTERVAL, USES_MAX};

/// Form of the notes.
const FORM: &str = "Use";

/// Items of the notes.
const KEY_ITEM: &str = "Key";
const STEP_ITEM: &str = "Step";
const PROTOCOL_ITEM: &str = "Protocol";

/// The last use of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// What was used.
    pub(super) key: String,
    /// When it was used.
    pub time: Timestamp,
    /// The address of the peer, or nothing for a code.
    pub address: String,
    /// The protocol.
    pub protocol: String,
    /// The time step of a code.
    step: u64,
    note: NoteId,
    /// The last use that the note has.
    written: Timestamp,
}

impl Use {
    /// Reads a note. Returns `None` for others than those of uses.
    pub(super) fn read(note: &Note) -> Option<Self> {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        if text(FORM_ITEM) != FORM {
            return None;
        }
        let time = note.item(USED_ITEM).and_then(|item| item.value.time())?;
        let step = text(STEP_ITEM).parse().ok()?;
        Some(Self {
            key: text(KEY_ITEM),
            time,
            address: text(ADDRESS_ITEM),
            protocol: text(PROTOCOL_ITEM),
            step,
            note: note.header.note,
            written: time,
        })
    }

    fn to_items(&self) -> Vec<Item> {
        vec![
            Item::text(FORM_ITEM, FORM),
            Item::text(KEY_ITEM, &*self.key),
            Item::summary(USED_ITEM, ItemValue::Time(self.time)),
            Item::text(ADDRESS_ITEM, &*self.address),
            Item::text(PROTOCOL_ITEM, &*self.protocol),
            Item::text(STEP_ITEM, self.step.to_string()),
        ]
    }
}

impl Sessions {
    /// Records that a person uses a code of a time step. Returns the ticket that must be durable before the code
    /// counts, or `None` if a code of this or a later step was used before with the factor that was added at this time.
    /// If it cannot be written, the code was not used.
    pub(crate) fn use_code(&self, (login, factor): (&str, Timestamp), step: u64) -> notes::Result<Option<Ticket>> {
        let key = format!("code {login} {}", factor.0);
        let now = self.clock.now();
        let recorded = self.record(&key, |known| {
            let is_new = known.is_none_or(|known| known.step < step);
            is_new.then(|| Use {
                key: key.clone(),
                time: now,
                address: String::new(),
                protocol: String::new(),
                step,
                note: known.map_or(NoteId(0), |known| known.note),
                written: now,
            })
        });
        let Some(RecordedUse { before, superfluous }) = recorded else { return Ok(None) };
        match self.write_use(&key, superfluous.as_deref()) {
            Ok(ticket) => Ok(Some(ticket)),
            Err(error) => {
                self.restore(&key, before, |used| used.step == step);
                Err(error)
            }
        }
    }

    /// Records that an application password was used. It is written at most every [`SESSION_USE_INTERVAL`]. What cannot
    /// be written is logged: the login goes on.
    pub fn use_application_password(&self, id: ApplicationPasswordId, address: IpAddr, protocol: LoginProtocol) {
        let now = self.clock.now();
        let key = application_key(id);
        let mut is_due = false;
        let recorded = self.record(&key, |known| {
            is_due = known.is_none_or(|known| now.since(known.written) > SESSION_USE_INTERVAL);
            Some(Use {
                key: key.clone(),
                time: now,
                address: address.to_string(),
                protocol: protocol.name().to_owned(),
                step: 0,
                note: known.map_or(NoteId(0), |known| known.note),
                written: known.filter(|_| !is_due).map_or(now, |known| known.written),
            })
        });
        let Some(RecordedUse { before, superfluous }) = recorded.filter(|_| is_due) else { return };
        if let Err(error) = self.write_use(&key, superfluous.as_deref()) {
            tracing::error!(target: "http", %error, "the use of an application password cannot be written");
            // The next use is written.
            self.restore(&key, before, |used| used.written == now);
        }
    }

    /// Returns the last use of an application password on this server.
    #[must_use]
    pub fn application_password_use(&self, id: ApplicationPasswordId) -> Option<Use> {
        self.uses.lock().get(&application_key(id)).cloned()
    }

    /// Removes what is known about a revoked application password.
    pub fn forget_application_password(&self, id: ApplicationPasswordId) -> notes::Result<()> {
        let _writing = self.writing_uses.lock();
        let known = self.uses.lock().get(&application_key(id)).cloned();
        let Some(known) = known else { return Ok(()) };
        let access = self.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        if known.note != NoteId(0) {
            transaction.writer(0).note_delete_permanently(known.note)?;
        }
        transaction.commit()?;
        self.uses.lock().remove(&known.key);
        Ok(())
    }

    /// Records a use in memory, if there is one behind the known one. If there are too many, the result has the oldest
    /// one, which is to be removed.
    fn record(&self, key: &str, next: impl FnOnce(Option<&Use>) -> Option<Use>) -> Option<RecordedUse> {
        let mut uses = self.uses.lock();
        let before = uses.get(key).cloned();
        let used = next(before.as_ref())?;
        let is_full = before.is_none() && uses.len() >= USES_MAX;
        let oldest = is_full.then(|| uses.values().min_by_key(|known| known.time)).flatten();
        let superfluous = oldest.map(|oldest| oldest.key.clone());
        uses.insert(key.to_owned(), used);
        Some(RecordedUse { before, superfluous })
    }

    /// Takes a use back that could not be written, unless another one has replaced it.
    fn restore(&self, key: &str, before: Option<Use>, is_present: impl FnOnce(&Use) -> bool) {
        let mut uses = self.uses.lock();
        let Some(note) = uses.get(key).filter(|used| is_present(used)).map(|used| used.note) else { return };
        match before {
            // Another writer may have created the note.
            Some(before) => drop(uses.insert(key.to_owned(), Use { note, ..before })),
            None if note == NoteId(0) => drop(uses.remove(key)),
            None => {}
        }
    }

    /// Writes the use with a key as it is in memory, and removes a superfluous one.
    fn write_use(&self, key: &str, superfluous: Option<&str>) -> notes::Result<Ticket> {
        let _writing = self.writing_uses.lock();
        let known = |key: &str| self.uses.lock().get(key).cloned();
        // It may have been removed meanwhile.
        let Some(used) = known(key) else { return Ok(Ticket::NONE) };
        let superfluous = superfluous.and_then(known);
        let access = self.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        if let Some(oldest) = superfluous.as_ref().filter(|oldest| oldest.note != NoteId(0)) {
            writer.note_delete_permanently(oldest.note)?;
        }
        let note = match writer.header(used.note)?.filter(|_| used.note != NoteId(0)) {
            Some(header) => {
                writer.note_update(used.note, header.revision(), &used.to_items(), &[])?;
                used.note
            }
            None => writer.note_create(NewNote::document(used.to_items()))?,
        };
        let ticket = transaction.commit()?;
        let mut uses = self.uses.lock();
        if let Some(used) = uses.get_mut(key) {
            used.note = note;
        }
        if let Some(oldest) = superfluous {
            uses.remove(&oldest.key);
        }
        Ok(ticket)
    }
}

/// A use that was recorded in memory.
struct RecordedUse {
    /// The use before it.
    before: Option<Use>,
    /// The key of the oldest use, if there are too many.
    superfluous: Option<String>,
}

fn application_key(id: ApplicationPasswordId) -> String {
    format!("password {id}")
}
