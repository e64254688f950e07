//! The on-disk structure (ODS) of a database: the version of its record formats, as one number.
//!
//! The catalog holds the number. New databases get [`OdsVersion::CURRENT`]. A database from [`OdsVersion::OLDEST`] on
//! opens and works without conversion, because every decoder reads the older formats too. A database with a greater
//! number than this program knows is refused before anything of it is read. `docs/note-format.md` describes each
//! number.
//!
//! An [`Upgrade`] rewrites records in an older format, [`UPGRADE_NOTES_PER_STEP`] notes in a batch, while other work
//! continues. It raises the number in a last batch when the others are durable. An interrupted upgrade restarts at the
//! first note and skips records that have the present format already; a stored position would be wrong if an older
//! program wrote in between. An upgrade changes the contents of no note, so their modseqs and sequence numbers stay,
//! and neither clients nor indexes are notified. Its last step begins an instance for replication.

mod version;

use base::NoteId;
use store::{Batch, Cursor, Direction, Table, TableReader};

pub use self::version::OdsVersion;
use crate::access::{Access, level};
use crate::acl::{ACL_ITEM, ACL_NOTE_ID, ACL_UNID, Acl, acl_item};
use crate::catalog::DatabaseKind;
use crate::error::Result;
use crate::item;
use crate::keys::{self, SummaryRecord};
use crate::limits::{UPGRADE_BYTES_PER_STEP, UPGRADE_NOTES_PER_STEP};
use crate::note::{MAIL_SETTINGS_UNID, NoteClass, NoteFlags, NoteHeader, OLD_MAIL_SETTINGS_NOTE, Summary};
use crate::public;
use crate::records;
use crate::server_databases::Databases;

/// The progress of an upgrade, or of the plan for one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpgradeReport {
    /// The version before the upgrade.
    pub from: OdsVersion,
    /// The version after the upgrade.
    pub to: OdsVersion,
    /// Number of notes that were read, deletion stubs included.
    pub notes: u64,
    /// Number of notes that had an older format.
    pub rewritten: u64,
    /// `true` if no work is left.
    pub complete: bool,
}

/// A running upgrade of one database.
#[must_use = "an upgrade advances only when its steps are run"]
pub struct Upgrade<'u> {
    databases: &'u Databases,
    access: &'u Access<level::Manager>,
    /// The last note that was read.
    after: NoteId,
    report: UpgradeReport,
    mode: Mode,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plan,
    Rewrite,
}

impl<'u> Upgrade<'u> {
    /// Creates an upgrade of a database to the present structure.
    pub fn begin(databases: &'u Databases, access: &'u Access<level::Manager>) -> Self {
        Self::new(databases, access, Mode::Rewrite)
    }

    /// Creates a dry run that counts what an upgrade would rewrite and changes nothing.
    pub fn plan(databases: &'u Databases, access: &'u Access<level::Manager>) -> Self {
        Self::new(databases, access, Mode::Plan)
    }

    fn new(databases: &'u Databases, access: &'u Access<level::Manager>, mode: Mode) -> Self {
        let from = access.database().record().ods;
        assert!(from <= OdsVersion::CURRENT, "a database with a newer structure cannot be opened");
        let report = UpgradeReport { from, to: OdsVersion::CURRENT, notes: 0, rewritten: 0, complete: false };
        Self { databases, access, after: NoteId(0), report, mode }
    }

    /// Reads the next notes, rewrites those in an older format, and returns the progress. The changes are durable on
    /// return.
    pub fn step(&mut self) -> Result<UpgradeReport> {
        self.access.grant()?;
        self.report.complete |= self.report.from == OdsVersion::CURRENT;
        if !self.report.complete {
            let is_last = self.rewrite_batch()?;
            if is_last && self.mode == Mode::Rewrite {
                self.begin_instance()?;
                self.databases.database_ods_set(self.access, OdsVersion::CURRENT)?;
            }
            self.report.complete = is_last;
        }
        Ok(self.report)
    }

    /// Begins an instance, so that other replicas get a position in a database that nobody changes.
    fn begin_instance(&self) -> Result<()> {
        let access = self.access.downgrade();
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses)?;
        transaction.writer(0).part.touched = true;
        let ticket = transaction.commit()?;
        Ok(self.databases.store().durable(ticket).wait()?)
    }

    /// Rewrites a batch of notes under the database's lock. Returns `true` if these were the last notes.
    fn rewrite_batch(&mut self) -> Result<bool> {
        let database = self.access.database();
        let guard = database.lock();
        database.check_not_dropped()?;
        let store = database.store.as_ref();
        let mut found = UpgradeStep { batch: Batch::new(), notes: 0, rewritten: 0, last: self.after };
        let start = keys::summary(database.number, self.after.next(), SummaryRecord::Header);
        let whole = store::KeyRange::prefix(&database.number.to_key());
        let range = store::KeyRange { start: start.to_vec(), end: whole.end };
        let mut cursor = store.scan(Table::Summary, &range, Direction::Forward)?;
        let is_last = loop {
            if found.notes >= UPGRADE_NOTES_PER_STEP || found.batch.byte_count() >= UPGRADE_BYTES_PER_STEP {
                break false;
            }
            if !found.upgrade_next(store, self.access, cursor.as_mut())? {
                break true;
            }
        };
        drop(cursor);
        assert!(found.rewritten <= found.notes && found.last >= self.after, "each step advances");
        let is_written = self.mode == Mode::Rewrite && !found.batch.is_empty();
        let ticket = if is_written { Some(store.commit(&found.batch)?) } else { None };
        drop(guard);
        if let Some(ticket) = ticket {
            database.store.durable(ticket).wait()?;
        }
        self.after = found.last;
        self.report.notes += found.notes as u64;
        self.report.rewritten += found.rewritten as u64;
        Ok(is_last)
    }
}

/// The intermediate results of one step.
struct UpgradeStep {
    batch: Batch,
    notes: usize,
    rewritten: usize,
    last: NoteId,
}

impl UpgradeStep {
    /// Reads the next record. Returns `false` if there are no more records.
    fn upgrade_next(
        &mut self,
        store: &dyn TableReader,
        access: &Access<level::Manager>,
        cursor: &mut dyn Cursor,
    ) -> Result<bool> {
        let database = access.database();
        let Some((key, value)) = cursor.next()? else { return Ok(false) };
        let Some((note, part)) = keys::split_summary(key) else {
            return Err(crate::error::damaged(Table::Summary, key));
        };
        if part != SummaryRecord::Header as u8 {
            return Ok(true);
        }
        let header = NoteHeader::decode(note, value).map_err(|_| records::damaged_note(database, note, "header"))?;
        self.notes += 1;
        self.last = note;
        let Some(summary) = contents(store, access, &header)? else { return Ok(true) };
        let old_unid = header.unid;
        let header = upgraded_header(&header, &summary, database.record().kind);
        if let Some(new_unid) = header.as_ref().map(|header| header.unid).filter(|new| *new != old_unid) {
            self.batch.delete(Table::Unid, &keys::unid(database.number, old_unid));
            self.batch.put(Table::Unid, &keys::unid(database.number, new_unid), &note.to_key());
        }
        let summary = upgraded_summary(access, note, &summary)?;
        self.rewritten += usize::from(header.is_some() || summary.is_some());
        if let Some(header) = header {
            self.batch.put(
                Table::Summary,
                &keys::summary(database.number, note, SummaryRecord::Header),
                &header.encode(),
            );
        }
        if let Some(summary) = summary {
            self.batch.put(
                Table::Summary,
                &keys::summary(database.number, note, SummaryRecord::Summary),
                &summary.encode(),
            );
        }
        Ok(true)
    }
}

fn contents(store: &dyn TableReader, access: &Access<level::Manager>, header: &NoteHeader) -> Result<Option<Summary>> {
    if !header.has_contents() {
        return Ok(None);
    }
    records::load_summary(store, access.database(), header.note)
}

/// Returns the header in the present format, or `None` if it has that format already. Structure 2 flags public
/// documents. In structure 3, the access control list has the same UNID in all databases, and so have the settings of
/// all mail files.
fn upgraded_header(header: &NoteHeader, summary: &Summary, kind: DatabaseKind) -> Option<NoteHeader> {
    let mut new = header.clone();
    if public::is_public(&summary.items) {
        new.flags |= NoteFlags::PUBLIC;
    }
    if header.note == ACL_NOTE_ID {
        new.unid = ACL_UNID;
    }
    if kind == DatabaseKind::Mail && header.note == OLD_MAIL_SETTINGS_NOTE && header.class == NoteClass::ICON {
        new.unid = MAIL_SETTINGS_UNID;
    }
    (new != *header).then_some(new)
}

/// Returns the ACL note's summary in the format of structure 2, which stores the maximum level for password logins, or
/// `None` if it has that format already.
fn upgraded_summary(access: &Access<level::Manager>, note: NoteId, summary: &Summary) -> Result<Option<Summary>> {
    if note != ACL_NOTE_ID {
        return Ok(None);
    }
    let Some(stored) = item::find_item(&summary.items, ACL_ITEM) else { return Ok(None) };
    let item::ItemValue::MimePart(bytes) = &stored.value else { return Ok(None) };
    let damaged = |_| records::damaged_note(access.database(), note, "access control list");
    let renewed = acl_item(&Acl::decode(bytes).map_err(damaged)?);
    if renewed.value == stored.value {
        return Ok(None);
    }
    let items = summary.items.iter().map(|item| if item.is_named(ACL_ITEM) { renewed.clone() } else { item.clone() });
    Ok(Some(Summary { items: items.collect(), ..summary.clone() }))
}
