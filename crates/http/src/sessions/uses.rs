//! When something was last used: codes of second factors, and application passwords.
//!
//! A use is a note of `sessions.nsf`, because the directory, which replicates, must not change with each login. A code
//! is used once: its time step must be later than the last one, also after a restart. Of an application password, the
//! last time, address and protocol are shown to its owner.

use std::net::IpAddr;

use base::{NoteId, Timestamp};
use notes::{Item, ItemValue, NewNote, Note, level};
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
    pub(crate) fn use_code(&self, (login, factor): (&str, Timestamp), step: u64) -> notes::Result<Option<Ticket>> {
        let key = format!("code {login} {}", factor.0);
        // The lock is held until the note is written, so of two requests with one code, one is first.
        let mut uses = self.uses.lock();
        let known = uses.get(&key);
        if known.is_some_and(|known| known.step >= step) {
            return Ok(None);
        }
        let note = known.map_or(NoteId(0), |known| known.note);
        let now = self.clock.now();
        let used = Use { key, time: now, address: String::new(), protocol: String::new(), step, note, written: now };
        let (used, ticket) = self.write_use(used)?;
        self.make_room(&mut uses, &used.key)?;
        uses.insert(used.key.clone(), used);
        Ok(Some(ticket))
    }

    /// Records that an application password was used. It is written at most every [`SESSION_USE_INTERVAL`]. What cannot
    /// be written is logged: the login goes on.
    pub fn use_application_password(&self, id: ApplicationPasswordId, address: IpAddr, protocol: LoginProtocol) {
        let now = self.clock.now();
        let key = application_key(id);
        let mut uses = self.uses.lock();
        let known = uses.get(&key);
        let note = known.map_or(NoteId(0), |known| known.note);
        let written = known.map_or(Timestamp(0), |known| known.written);
        let mut used = Use {
            key,
            time: now,
            address: address.to_string(),
            protocol: protocol.name().to_owned(),
            step: 0,
            note,
            written,
        };
        if note == NoteId(0) || now.since(written) > SESSION_USE_INTERVAL {
            let outcome = self.write_use(used.clone()).and_then(|(written, _)| {
                self.make_room(&mut uses, &written.key)?;
                Ok(written)
            });
            match outcome {
                Ok(written) => used = written,
                Err(error) => {
                    tracing::error!(target: "http", %error, "the use of an application password cannot be written");
                    return;
                }
            }
        }
        uses.insert(used.key.clone(), used);
    }

    /// Returns the last use of an application password on this server.
    #[must_use]
    pub fn application_password_use(&self, id: ApplicationPasswordId) -> Option<Use> {
        self.uses.lock().get(&application_key(id)).cloned()
    }

    /// Removes what is known about a revoked application password.
    pub fn forget_application_password(&self, id: ApplicationPasswordId) -> notes::Result<()> {
        let removed = self.uses.lock().remove(&application_key(id));
        removed.map_or(Ok(()), |known| self.remove_use(&known))
    }

    /// Writes a use. Returns it with its note.
    fn write_use(&self, mut used: Use) -> notes::Result<(Use, Ticket)> {
        let access = self.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        match writer.header(used.note)?.filter(|_| used.note != NoteId(0)) {
            Some(header) => {
                writer.note_update(used.note, header.revision(), &used.to_items(), &[])?;
            }
            None => used.note = writer.note_create(NewNote::document(used.to_items()))?,
        }
        used.written = used.time;
        Ok((used, transaction.commit()?))
    }

    /// Removes the oldest use if there are too many, and the one with this key is new.
    fn make_room(&self, uses: &mut std::collections::HashMap<String, Use>, key: &str) -> notes::Result<()> {
        if uses.len() < USES_MAX || uses.contains_key(key) {
            return Ok(());
        }
        let oldest = uses.values().min_by_key(|known| known.time).map(|known| known.key.clone());
        match oldest.and_then(|oldest| uses.remove(&oldest)) {
            Some(oldest) => self.remove_use(&oldest),
            None => Ok(()),
        }
    }

    fn remove_use(&self, used: &Use) -> notes::Result<()> {
        let access = self.access()?;
        let accesses: [&notes::Access<level::Depositor>; 1] = [access.as_ref()];
        let mut transaction = self.databases.transaction(&accesses)?;
        transaction.writer(0).note_delete_permanently(used.note)?;
        transaction.commit().map(drop)
    }
}

fn application_key(id: ApplicationPasswordId) -> String {
    format!("password {id}")
}
