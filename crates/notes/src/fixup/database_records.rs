//! The records that a database keeps about itself: counters, access control list, keywords.
//!
//! Without them a database does not open ([`Databases::database_open`]). For a fixup, it is opened with substitutes:
//!
//! - Counters: values above the greatest note id and modseq in the tables, with a safety distance, because lost records
//!   may have had greater ones.
//! - Keywords: the names before the damage. Of the other keywords, the notes contain only the numbers, and these are
//!   named `damaged-N`.
//! - Access control list: it is stored nowhere else, and a guessed one could admit an identity without the right. The
//!   substitute is the ACL of a private database, whose owner is in the catalog. Without an owner, it admits only the
//!   server itself, on whose behalf administrators set a new ACL.
//!
//! Such a database is not among the open ones and serves no clients. A repair writes the substitutes with which it was
//! opened.

use std::collections::BTreeSet;

use base::{DbNumber, Modseq, NoteId};
use collection::CollectionReader;
use store::{Direction, KeyRange, Table, TableReader};

use super::{FixupFinding, Survey, salvage};
use crate::acl::{ACL_NOTE_ID, Acl, AclLevel};
use crate::catalog::DatabaseRecord;
use crate::counters::Counters;
use crate::database::{Database, LostRecords};
use crate::error::{Error, Result};
use crate::folder::{self, FolderState};
use crate::keys;
use crate::keyword::Keywords;
use crate::limits::{KEYWORDS_PER_DATABASE_MAX, MODSEQS_SKIPPED, NOTE_IDS_SKIPPED};
use crate::records;
use crate::server_databases::Databases;

/// Opens a database, with substitutes for those of its own records that cannot be read.
pub(super) fn open_damaged(databases: &Databases, path: &str) -> Result<Database> {
    let record = databases.record(path)?.ok_or_else(|| Error::not_found(format!("database {path}")))?;
    let reader = databases.store().as_ref();
    let number = record.number;
    let mut losses = LostRecords::default();
    let counters = match salvage::split_damage(records::load_counters(reader, number))? {
        Ok(counters) => counters,
        Err(_) => {
            losses.counters = true;
            substitute_counters(reader, number)?
        }
    };
    let private = substitute_acl(&record);
    let mut database = Database::new(databases.services(), record, counters, private);
    match salvage::split_damage(records::load_acl(reader, &database))? {
        Ok(acl) => database.set_acl(acl),
        Err(_) => losses.acl = true,
    }
    database.set_keywords(match salvage::split_damage(records::load_keywords(reader, number))? {
        Ok(keywords) => keywords,
        Err(_) => readable_keywords(reader, number)?,
    });
    // The substitute must not admit an identity that may not have had access before.
    assert!(!losses.acl || *database.acl().1 == substitute_acl(&database.record()));
    database.losses = losses;
    Ok(database)
}

/// Returns an ACL that admits only identities that certainly had access before.
fn substitute_acl(record: &DatabaseRecord) -> Acl {
    if record.owner.is_empty() { Acl::open_to_all(AclLevel::NoAccess) } else { Acl::private(&record.owner) }
}

/// Returns counters greater than all values in the tables. The survey computes the sums later.
fn substitute_counters(reader: &dyn TableReader, number: DbNumber) -> Result<Counters> {
    let note_of = |key: &[u8]| Some(NoteId::from_key(key.get(4..8)?.try_into().ok()?));
    let modseq_of = |key: &[u8]| keys::split_bymod(key).map(|(modseq, ..)| modseq);
    let note = [Table::Summary, Table::Body]
        .into_iter()
        .map(|table| Ok(greatest_key(reader, table, number)?.as_deref().and_then(note_of)))
        .collect::<Result<Vec<_>>>()?;
    let note = note.into_iter().flatten().max().unwrap_or_default();
    let modseq = greatest_key(reader, Table::ByModseq, number)?.as_deref().and_then(modseq_of).unwrap_or_default();
    Ok(Counters {
        next_note: NoteId(note.next().0.saturating_add(NOTE_IDS_SKIPPED)),
        modseq: Modseq(modseq.0.saturating_add(MODSEQS_SKIPPED)),
        ..Counters::START
    })
}

/// Returns the greatest key of a database in a table. If the end of the table is damaged, returns the last key before
/// the damage.
fn greatest_key(reader: &dyn TableReader, table: Table, number: DbNumber) -> Result<Option<Vec<u8>>> {
    let range = KeyRange::prefix(&number.to_key());
    let last = || -> Result<Option<Vec<u8>>> {
        let mut cursor = reader.scan(table, &range, Direction::Backward)?;
        Ok(cursor.next()?.map(|(key, _)| key.to_vec()))
    };
    if let Ok(key) = salvage::split_damage(last())? {
        return Ok(key);
    }
    let mut reached = None;
    let mut walk = || -> Result<()> {
        let mut cursor = reader.scan(table, &range, Direction::Forward)?;
        while let Some((key, _)) = cursor.next()? {
            reached = Some(key.to_vec());
        }
        Ok(())
    };
    // The error that ends this scan is the damage that the backward scan met from the other side.
    let _ = salvage::split_damage(walk())?;
    Ok(reached)
}

fn readable_keywords(reader: &dyn TableReader, number: DbNumber) -> Result<Keywords> {
    let stored = salvage::split_damage(reader.get(Table::Meta, &keys::keywords(number)).map_err(Into::into))?;
    Ok(stored.ok().flatten().map(|value| Keywords::decode_readable(&value)).unwrap_or_default())
}

impl Survey<'_> {
    /// Returns the greatest note id for which there is any evidence, where the counter is lost. A lookup in a damaged
    /// block fails for some notes that never existed, so the substitute for the counter would add lost notes.
    pub(super) fn greatest_known_note(&self) -> Result<NoteId> {
        let mut greatest = NoteId(self.stored.next_note.0.saturating_sub(NOTE_IDS_SKIPPED + 1));
        let range = KeyRange::prefix(&self.number.to_key());
        for table in [Table::Unid, Table::ByModseq] {
            let mut walk = || -> Result<()> {
                let mut cursor = self.reader.scan(table, &range, Direction::Forward)?;
                while let Some((key, value)) = cursor.next()? {
                    let note = match table {
                        Table::Unid => value.try_into().ok().map(NoteId::from_key),
                        _ => keys::split_bymod(key).map(|(_, note, _)| note),
                    };
                    greatest = note.map_or(greatest, |note| note.max(greatest));
                }
                Ok(())
            };
            // What follows damage in one table is in the other one.
            let _ = salvage::split_damage(walk())?;
        }
        Ok(greatest)
    }

    /// Checks the access control list. If it cannot be read, its note counts as damaged, except that its header is
    /// kept.
    pub(super) fn check_access_control(&mut self) -> Result<()> {
        if !self.damaged.contains(&ACL_NOTE_ID) {
            if salvage::split_damage(records::load_acl(self.reader, self.database))?.is_ok() {
                return Ok(());
            }
            self.damaged.push(ACL_NOTE_ID);
        }
        self.report_finding(if self.database.losses.acl {
            FixupFinding::AccessControlLost { manager: self.database.record().owner.clone() }
        } else {
            FixupFinding::AccessControl
        });
        Ok(())
    }

    pub(super) fn check_keywords(&mut self) -> Result<()> {
        let stored = salvage::split_damage(records::load_keywords(self.reader, self.number))?.ok();
        let used = self.used_keyword_numbers();
        let missing_from = |known: &Keywords| used.iter().filter(|number| **number >= known.names().len()).count();
        let is_right =
            |stored: &Keywords| missing_from(stored) == 0 && stored.names().starts_with(self.keywords.names());
        if stored.as_ref().is_some_and(is_right) {
            return Ok(());
        }
        self.keywords_broken = true;
        let lost = missing_from(&self.keywords);
        self.report_finding(FixupFinding::Keywords { lost });
        Ok(())
    }

    /// Returns the keywords, with a name for each keyword number in use.
    pub(super) fn correct_keywords(&self) -> Keywords {
        let count = self.used_keyword_numbers().last().map_or(0, |greatest| greatest + 1);
        self.keywords.padded_to(count)
    }

    fn used_keyword_numbers(&self) -> BTreeSet<usize> {
        let used = self.headers.values().flat_map(|header| &header.keywords).map(|keyword| usize::from(keyword.0));
        used.filter(|number| *number < KEYWORDS_PER_DATABASE_MAX).collect()
    }

    pub(super) fn check_counters(&mut self) -> Result<()> {
        let stored = match salvage::split_damage(records::load_counters(self.reader, self.number))? {
            Ok(stored) => stored,
            Err(reason) => {
                self.give_up(Table::Meta, format!("counters: {reason}"));
                return Ok(());
            }
        };
        let right = self.correct_counters(stored);
        for (what, stored, expected) in [
            ("notes", stored.notes, right.notes),
            ("bytes", stored.bytes, right.bytes),
            ("bytes of indexes", stored.index_bytes, right.index_bytes),
            ("bytes of personal indexes", stored.personal_index_bytes, right.personal_index_bytes),
            ("note ids", u64::from(stored.next_note.0), u64::from(right.next_note.0)),
            ("changes", stored.modseq.0, right.modseq.0),
        ] {
            if stored != expected {
                self.report_finding(FixupFinding::Counters { what, stored, expected });
            }
        }
        Ok(())
    }

    pub(super) fn correct_counters(&self, stored: Counters) -> Counters {
        let live = || self.headers.values().filter(|header| !header.is_stub());
        let last_note = self.headers.keys().chain(&self.damaged).max().copied().unwrap_or_default();
        let last_modseq = self.headers.values().map(|header| header.modseq).max().unwrap_or_default();
        Counters {
            notes: live().count() as u64,
            bytes: self.headers.values().filter(|header| header.has_contents()).map(|header| header.size).sum(),
            next_note: stored.next_note.max(self.stored.next_note).max(last_note.next()),
            modseq: stored.modseq.max(self.stored.modseq).max(last_modseq),
            index_bytes: self.index_sizes.index_bytes,
            personal_index_bytes: self.index_sizes.personal_index_bytes,
            ..stored
        }
    }

    /// Returns the greatest UIDVALIDITY of all folders whose state can be read.
    pub(super) fn greatest_uid_validity(&self) -> Result<u32> {
        let mut greatest = 0;
        for view in self.folders.keys() {
            let id = folder::collection_id(self.number, *view);
            if let Ok(index) = salvage::split_damage(CollectionReader::open(self.reader, id).map_err(Into::into))?
                && let Ok(state) = FolderState::decode(index.state())
            {
                greatest = state.uid_validity.max(greatest);
            }
        }
        Ok(greatest)
    }
}
