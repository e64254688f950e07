//! The structure of a database: which forms its records have, as one number (the original: its on-disk structure, ODS).
//!
//! The number stands in the catalog. New databases get [`Structure::PRESENT`]; from [`Structure::OLDEST`] on a database opens and is worked on as it is,
//! for every decoder reads the older forms, too; one with a greater number than this program knows is refused before anything of it is read. What each
//! number stands for is told in `docs/note-format.md`.
//!
//! An [`Upgrade`] rewrites what still has an older form, [`UPGRADE_NOTES_PER_STEP`] notes in a batch, while others go on working, and raises the number in
//! a last batch when the others are durable. What was broken off begins again with the first note and passes over what has the present form already: to remember a place would be wrong
//! where an older program wrote in between. The contents of no note change by it, so modseqs and sequence numbers stay, and neither clients nor
//! indexes hear of it.

use base::NoteId;
use store::{Batch, Cursor, Direction, Read, Table};

use crate::access::{Access, level};
use crate::acl::Acl;
use crate::database::{ACL_ITEM, Notes, acl_item};
use crate::error::{Error, Result};
use crate::item;
use crate::keys::{self, Part};
use crate::limits::{UPGRADE_BYTES_PER_STEP, UPGRADE_NOTES_PER_STEP};
use crate::note::{Header, NoteFlags, Summary};
use crate::public;
use crate::reading;

/// Which forms the records of a database have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Structure(pub u16);

impl Structure {
    /// The oldest that this program reads: that of databases from before there was a number.
    pub const OLDEST: Self = Self(1);
    /// What this program writes.
    pub const PRESENT: Self = Self(2);
}

impl std::fmt::Display for Structure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What an upgrade has done so far, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpgradeReport {
    /// The structure before.
    pub from: Structure,
    /// The structure afterwards.
    pub to: Structure,
    /// Notes that were looked at, deletion stubs among them.
    pub notes: u64,
    /// Notes that had an older form.
    pub rewritten: u64,
    /// Nothing is left to do.
    pub complete: bool,
}

/// An upgrade of one database under way.
#[must_use = "an upgrade goes on as long as it is asked for steps"]
pub struct Upgrade<'u> {
    notes: &'u Notes,
    access: &'u Access<level::Manager>,
    /// The last note that was looked at.
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
    /// Begins to bring a database to the present structure.
    pub fn begin(notes: &'u Notes, access: &'u Access<level::Manager>) -> Self {
        Self::new(notes, access, Mode::Rewrite)
    }

    /// Begins to count what an upgrade would rewrite; changes nothing.
    pub fn plan(notes: &'u Notes, access: &'u Access<level::Manager>) -> Self {
        Self::new(notes, access, Mode::Plan)
    }

    fn new(notes: &'u Notes, access: &'u Access<level::Manager>, mode: Mode) -> Self {
        let from = access.database().record().structure;
        assert!(from <= Structure::PRESENT, "a database that is newer does not open");
        let report = UpgradeReport { from, to: Structure::PRESENT, notes: 0, rewritten: 0, complete: false };
        Self { notes, access, after: NoteId(0), report, mode }
    }

    /// Looks at the next notes and rewrites those that have an older form; tells how far it is. Durable on return.
    pub fn step(&mut self) -> Result<UpgradeReport> {
        self.access.grant()?;
        self.report.complete |= self.report.from == Structure::PRESENT;
        if !self.report.complete {
            let is_last = self.rewrite_some()?;
            if is_last && self.mode == Mode::Rewrite {
                self.notes.database_structure_set(self.access, Structure::PRESENT)?;
            }
            self.report.complete = is_last;
        }
        Ok(self.report)
    }

    /// Rewrites some notes under the database's lock; tells whether they were the last ones.
    fn rewrite_some(&mut self) -> Result<bool> {
        let database = self.access.database();
        let guard = database.lock();
        database.refuse_when_dropped()?;
        let store = database.store.as_ref();
        let mut found = Found { batch: Batch::new(), notes: 0, rewritten: 0, last: self.after };
        let start = keys::summary(database.number, self.after.next(), Part::Header);
        let whole = store::KeyRange::prefix(&database.number.to_key());
        let range = store::KeyRange { start: start.to_vec(), end: whole.end };
        let mut cursor = store.scan(Table::Summary, &range, Direction::Forward)?;
        let is_last = loop {
            if found.notes >= UPGRADE_NOTES_PER_STEP || found.batch.byte_count() >= UPGRADE_BYTES_PER_STEP {
                break false;
            }
            if !found.look_at_next(store, self.access, cursor.as_mut())? {
                break true;
            }
        };
        drop(cursor);
        assert!(found.rewritten <= found.notes && found.last >= self.after, "a step goes forward");
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

/// What one step has found.
struct Found {
    batch: Batch,
    notes: usize,
    rewritten: usize,
    last: NoteId,
}

impl Found {
    /// Looks at the next record; nothing is left when it tells so.
    fn look_at_next(
        &mut self,
        store: &dyn Read,
        access: &Access<level::Manager>,
        cursor: &mut dyn Cursor,
    ) -> Result<bool> {
        let database = access.database();
        let Some((key, value)) = cursor.next()? else { return Ok(false) };
        let Some((note, part)) = keys::split_summary(key) else {
            return Err(crate::database::damaged(Table::Summary, key));
        };
        if part != Part::Header as u8 {
            return Ok(true);
        }
        let header = Header::decode(note, value).map_err(|_| reading::damaged_note(database, note, "header"))?;
        self.notes += 1;
        self.last = note;
        let Some(summary) = contents(store, access, &header)? else { return Ok(true) };
        let (header, summary) = (renewed_header(&header, &summary), renewed_summary(access, note, &summary)?);
        self.rewritten += usize::from(header.is_some() || summary.is_some());
        if let Some(header) = header {
            self.batch.put(Table::Summary, &keys::summary(database.number, note, Part::Header), &header.encode());
        }
        if let Some(summary) = summary {
            self.batch.put(Table::Summary, &keys::summary(database.number, note, Part::Summary), &summary.encode());
        }
        Ok(true)
    }
}

fn contents(store: &dyn Read, access: &Access<level::Manager>, header: &Header) -> Result<Option<Summary>> {
    if !header.has_contents() {
        return Ok(None);
    }
    reading::load_summary(store, access.database(), header.note)
}

/// Structure 2: the header says that a document is public.
fn renewed_header(header: &Header, summary: &Summary) -> Option<Header> {
    let is_old = public::is_public(&summary.items) && !header.flags.has(NoteFlags::PUBLIC);
    is_old.then(|| Header { flags: header.flags.with(NoteFlags::PUBLIC), ..header.clone() })
}

/// Structure 2: the access control list says the most that passwords give.
fn renewed_summary(access: &Access<level::Manager>, note: NoteId, summary: &Summary) -> Result<Option<Summary>> {
    if note != crate::database::ACL_NOTE {
        return Ok(None);
    }
    let Some(stored) = item::find(&summary.items, ACL_ITEM) else { return Ok(None) };
    let item::Value::MimePart(bytes) = &stored.value else { return Ok(None) };
    let damaged = |_| reading::damaged_note(access.database(), note, "access control list");
    let renewed = acl_item(&Acl::decode(bytes).map_err(damaged)?);
    if renewed.value == stored.value {
        return Ok(None);
    }
    let items = summary.items.iter().map(|item| if item.is_named(ACL_ITEM) { renewed.clone() } else { item.clone() });
    Ok(Some(Summary { items: items.collect(), ..summary.clone() }))
}

/// Refuses a database that a newer program has written.
pub(crate) fn refuse_newer(path: &str, structure: Structure) -> Result<()> {
    if structure <= Structure::PRESENT {
        return Ok(());
    }
    Err(Error::Newer { database: path.to_owned(), structure, known: Structure::PRESENT })
}
