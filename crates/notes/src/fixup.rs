//! Checks a database, and repairs the data that can be derived.
//!
//! The notes (headers, summaries, bodies) are authoritative. Everything else is derived from them and can be rewritten:
//! the UNID index, the change log, the response hierarchy, the list of design notes, the indexes of folders and of
//! threads, and the counters. Therefore a derived table that the engine cannot read is a single finding, and a repair
//! rewrites it without reading it.
//!
//! A note whose own records cannot be read, because their format is wrong or because the engine cannot read the block,
//! cannot be derived. It is reported, and a repair moves its readable parts into quarantine, so that the rest of the
//! database keeps working and a backup or replica can restore the note. A folder that lost only its design note is
//! recreated under the name `Recovered`. A lost access control list is recreated from the one in memory.
//!
//! A database whose counters, access control list or keywords cannot be read does not open. [`check_at`] and
//! [`repair_at`] work on it nevertheless, with the derivable part of these records and an ACL that admits only the
//! owner (`own`).
//!
//! A check reads a snapshot and does not block other work. A repair holds the database's lock. Left out: removing
//! damaged blocks from the engine's files, and repairing the catalog.

mod database_records;
mod repair;
mod salvage;
mod threads;
mod unread_times;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use base::{DbNumber, Modseq, Name, NoteId, Uid, Unid, ViewId};
use collection::{CollectionId, CollectionReader, CountOnly};
use store::blob::{BlobId, BlobOwner};
use store::{Direction, KeyRange, Table, TableReader};

use crate::acl::ACL_NOTE_ID;
use crate::change_log::{self, NoteChange};
use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::folder::{self, FolderEntry, FolderState, FolderWeights};
use crate::keys::{self, SummaryRecord};
use crate::keyword::Keywords;
use crate::limits::FINDINGS_MAX;
use crate::note::{Membership, NoteClass, NoteHeader};
use crate::records;
use crate::revision_record::RevisionRecord;
use crate::server_databases::Databases;
use crate::soft_deletion::DeletionRecord;
use crate::view::check as view_check;
use crate::view::index::ViewIndex;
use crate::view::index_record::{self, IndexRecord};
use crate::view::view_format::ViewDesign;
use salvage::KeyValues;
use threads::ThreadSurvey;
use unread_times::UnreadTimesSurvey;

/// A defect of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FixupFinding {
    /// A record of a note cannot be read. The note is lost unless a backup or replica has it.
    NoteDamaged { note: NoteId, record: &'static str },
    /// The revisions from which a note descends cannot be read. After a repair, versions of the note on other replicas
    /// look like conflicts.
    Revisions { note: NoteId },
    /// The UNID index does not have a note, or points to a wrong one.
    UnidIndex { unid: Unid },
    /// The change log lacks the last change of a note, or has a change that does not match the note.
    ChangeLog { note: NoteId, modseq: Modseq },
    /// The response hierarchy does not match the notes.
    Responses { note: NoteId },
    /// The list of design notes does not match the notes.
    DesignList { note: NoteId },
    /// The list of deleted notes that can be restored does not match the notes.
    SoftDeletedList { note: NoteId },
    /// The index of threads does not match the note.
    ThreadIndex { note: NoteId },
    /// The index of a folder does not match the notes, or its counts do not match its entries.
    FolderIndex { folder: ViewId, reason: String },
    /// The index of a view is inconsistent. It is rebuilt from the notes.
    ViewIndex { view: ViewId, reason: String },
    /// A counter is wrong: it is `stored` but should be `expected`.
    Counters { what: &'static str, stored: u64, expected: u64 },
    /// A table that is derived from the notes cannot be read.
    TableDamaged { table: &'static str, reason: String },
    /// Unread marks of users cannot be read. The notes in question will count as unread for them.
    UnreadMarks { reason: String },
    /// The times of unread marks, or their order, are wrong. Times that cannot be read are removed, and the marks stay.
    UnreadTimes { reason: String },
    /// A note refers to content that is missing in the blob store.
    BlobMissing { note: NoteId, blob: BlobId },
    /// The stored access control list cannot be read, but the open database has it in memory.
    AccessControl,
    /// The access control list cannot be read and is not in memory. After a repair, only the owner of the database has
    /// access, if it has one.
    AccessControlLost { manager: Name },
    /// The stored keywords cannot be read or are incomplete. `lost` is the number of keywords of notes whose names are
    /// lost. A repair assigns other names to them.
    Keywords { lost: usize },
}

impl FixupFinding {
    /// Returns `true` if a repair restores everything.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        match self {
            Self::NoteDamaged { .. } | Self::BlobMissing { .. } | Self::UnreadMarks { .. } => false,
            Self::AccessControlLost { .. } | Self::Revisions { .. } => false,
            Self::Keywords { lost } => *lost == 0,
            _ => true,
        }
    }
}

impl fmt::Display for FixupFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoteDamaged { note, record } => write!(f, "note {note}: its {record} cannot be read"),
            Self::Revisions { note } => write!(f, "note {note}: its revisions cannot be read"),
            Self::UnidIndex { unid } => write!(f, "UNID {unid}: the index is wrong"),
            Self::ChangeLog { note, modseq } => write!(f, "note {note}: the order of changes is wrong at {modseq}"),
            Self::Responses { note } => write!(f, "note {note}: the response hierarchy is wrong"),
            Self::DesignList { note } => write!(f, "note {note}: the list of design notes is wrong"),
            Self::SoftDeletedList { note } => write!(f, "note {note}: the list of restorable documents is wrong"),
            Self::ThreadIndex { note } => write!(f, "note {note}: the index of threads is wrong"),
            Self::FolderIndex { folder, reason } => write!(f, "folder {folder}: {reason}"),
            Self::ViewIndex { view, reason } => write!(f, "view {view}: {reason}"),
            Self::Counters { what, stored, expected } => {
                write!(f, "counter of {what}: {stored} stored, {expected} expected")
            }
            Self::TableDamaged { table, reason } => write!(f, "table {table} cannot be read: {reason}"),
            Self::UnreadMarks { reason } => write!(f, "unread marks cannot be read: {reason}"),
            Self::UnreadTimes { reason } => write!(f, "unread marks that replicate: {reason}"),
            Self::BlobMissing { note, blob } => {
                write!(f, "note {note}: attachment {} is missing", base::hex::lower(&blob.0))
            }
            Self::AccessControl => f.write_str("the stored access control list cannot be read"),
            Self::AccessControlLost { manager } if manager.is_empty() => {
                f.write_str("the access control list is lost; after a repair, only the server itself has access")
            }
            Self::AccessControlLost { manager } => write!(
                f,
                "the access control list is lost; after a repair, only {} has access, as the manager",
                manager.abbreviated()
            ),
            Self::Keywords { lost: 0 } => f.write_str("the stored keywords cannot be read"),
            Self::Keywords { lost } => {
                write!(f, "the names of {lost} keywords are lost; a repair renames them to damaged-N")
            }
        }
    }
}

/// Result of a check or repair.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FixupReport {
    /// Number of notes that were examined.
    pub notes: u64,
    /// The defects, at most [`FINDINGS_MAX`].
    pub findings: Vec<FixupFinding>,
    /// `true` if the repairable defects were repaired and damaged notes were moved into quarantine.
    pub repaired: bool,
}

/// The stage of a check, with the number of elements processed so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixupStage {
    /// Reading the notes.
    Notes(u64),
    /// Comparing the notes with the data derived from them.
    Compared(u64),
    /// Checking the indexes of views for consistency.
    Views(u64),
}

/// A callback that receives the progress of a check: the stage and the total number of its elements.
pub type FixupProgressCallback<'h> = dyn FnMut(FixupStage, u64) + 'h;

/// Number of notes after which a check reports its progress.
const PROGRESS_INTERVAL_NOTES: u64 = 10_000;

/// Checks the database at a path, even if it does not open. Changes nothing.
pub fn check_at(databases: &Databases, path: &str, on_progress: &mut FixupProgressCallback<'_>) -> Result<FixupReport> {
    with_database_at(databases, path, |database| check_with_progress(database, on_progress))
}

/// Checks the database at a path, even if it does not open, and repairs the data that can be derived. After that, the
/// database opens. Durable on return.
pub fn repair_at(
    databases: &Databases,
    path: &str,
    on_progress: &mut FixupProgressCallback<'_>,
) -> Result<FixupReport> {
    with_database_at(databases, path, |database| repair_with_progress(database, on_progress))
}

/// Runs `work` on the database at a path. A database that does not open is processed by one fixup at a time and has no
/// other users: opening it fails until a repair is in the store.
fn with_database_at(
    databases: &Databases,
    path: &str,
    work: impl FnOnce(&Database) -> Result<FixupReport>,
) -> Result<FixupReport> {
    let does_not_open = |opened: &Result<_>| opened.as_ref().err().is_some_and(Error::is_damage);
    let opened = databases.database_open(path);
    if !does_not_open(&opened) {
        return work(opened?.as_ref());
    }
    let _turn = databases.lock_fixup();
    let opened = databases.database_open(path);
    if does_not_open(&opened) {
        work(&database_records::open_damaged(databases, path)?)
    } else {
        work(opened?.as_ref())
    }
}

/// Checks a database. Changes nothing.
pub fn check(database: &Database) -> Result<FixupReport> {
    check_with_progress(database, &mut |_, _| {})
}

fn check_with_progress(database: &Database, on_progress: &mut FixupProgressCallback<'_>) -> Result<FixupReport> {
    database.check_not_dropped()?;
    database.store.clear_write_cache();
    let keywords = database.keywords();
    let snapshot = database.store.snapshot()?;
    let stored = records::load_counters(&snapshot, database.number).unwrap_or_else(|_| *database.lock());
    let mut survey = Survey::new(database, &snapshot, stored, keywords);
    let outcome = survey.run(on_progress);
    if outcome.is_err() || !survey.report.findings.is_empty() {
        // A database that is being deleted is not damaged. The deletion holds the lock until the database is marked as
        // dropped.
        drop(database.lock());
        database.check_not_dropped()?;
    }
    outcome.map(|()| survey.report)
}

/// Checks a database and repairs the data that can be derived. Durable on return.
pub fn repair(database: &Database) -> Result<FixupReport> {
    repair_with_progress(database, &mut |_, _| {})
}

fn repair_with_progress(database: &Database, on_progress: &mut FixupProgressCallback<'_>) -> Result<FixupReport> {
    let gate = database.store.blobs().writer();
    let mut counters = database.lock();
    database.check_not_dropped()?;
    database.store.clear_write_cache();
    let mut survey = Survey::new(database, database.store.as_ref(), *counters, database.keywords());
    survey.run(on_progress)?;
    if survey.report.findings.is_empty() {
        return Ok(survey.report);
    }
    let repairs = survey.write_repairs()?;
    let mut report = survey.report;
    let ticket = database.store.commit(&repairs.batch)?;
    database.folder_cache.clear();
    database.views.remove(None);
    database.reset_recent_changes(repairs.counters.modseq);
    *counters = repairs.counters;
    database.set_instance(repairs.instance);
    if let Some(keywords) = repairs.keywords {
        database.set_keywords(keywords);
    }
    database.publish(counters.modseq, ticket);
    drop(counters);
    drop(gate);
    database.store.durable(ticket).wait()?;
    report.repaired = true;
    Ok(report)
}

/// Calls `each` for the blobs that the notes of a database use, to rebuild the reference table.
///
/// Notes that cannot be read, and those in quarantine, keep their existing references: a backup may restore the note,
/// and its attachments may still be needed.
pub fn blob_uses(database: &Database, each: &mut dyn FnMut(BlobOwner, BlobId)) -> Result<()> {
    let reader = database.store.as_ref();
    let owner = |note| BlobOwner { database: database.number, note };
    let mut survey = Survey::new(database, reader, *database.lock(), database.keywords());
    survey.read_headers()?;
    let mut unread: HashSet<BlobOwner> = survey.damaged.iter().map(|note| owner(*note)).collect();
    for note in survey.headers.values().filter(|header| header.has_contents()).map(|header| header.note) {
        match salvage::split_damage(records::load_summary(reader, database, note))? {
            Ok(Some(summary)) => summary.blobs.iter().for_each(|blob| each(owner(note), *blob)),
            Ok(None) | Err(_) => drop(unread.insert(owner(note))),
        }
    }
    let (quarantined, damage) = salvage::read_from_both_ends(reader, Table::Meta, &keys::quarantines(database.number))?;
    if let Some(reason) = damage {
        return Err(store::Error::Damaged { table: Table::Meta, key: Vec::new(), reason }.into());
    }
    unread.extend(quarantined.iter().filter_map(|(key, _)| keys::split_quarantine(key)).map(owner));
    Ok(database.store.blobs().uses_of(reader, &unread, each)?)
}

/// One walk over a database.
struct Survey<'s> {
    database: &'s Database,
    reader: &'s dyn TableReader,
    number: DbNumber,
    report: FixupReport,
    headers: HashMap<NoteId, NoteHeader>,
    damaged: Vec<NoteId>,
    /// The notes whose revisions cannot be read.
    without_revisions: Vec<NoteId>,
    /// The existing folders and the notes that they must contain.
    folders: BTreeMap<ViewId, BTreeMap<Uid, NoteId>>,
    /// Design notes that are not folders. Layers above may keep collections under their numbers.
    foreign: Vec<ViewId>,
    /// Folders whose index must be rewritten.
    broken: Vec<ViewId>,
    /// The counters as the last transaction left them.
    stored: Counters,
    /// Counters that contain the sizes of the view indexes, and nothing else.
    index_sizes: Counters,
    /// Tables that must be rewritten whatever they contain.
    unreadable: HashSet<Table>,
    /// The note to which the UNID index must point. Of several notes with one UNID it is the last. The others are
    /// stubs.
    leads_to: HashMap<Unid, NoteId>,
    /// Folders that contain notes but whose design note is lost.
    lost_folders: BTreeSet<ViewId>,
    /// The UNIDs of notes without a readable header, according to the index of UNIDs.
    unids_of_lost: HashMap<NoteId, Unid>,
    /// Notes that are wrongly listed, or wrongly missing, in the list of restorable notes.
    deletions: BTreeSet<NoteId>,
    /// The readable part of the unread marks, if not all of them can be read.
    unread_left: Option<KeyValues>,
    unread_times: UnreadTimesSurvey,
    threads: ThreadSurvey,
    /// The keywords in memory. The store has at least as many.
    keywords: Arc<Keywords>,
    /// `true` if the keywords must be rewritten.
    keywords_broken: bool,
}

impl<'s> Survey<'s> {
    /// Creates a survey. `keywords` must be taken before the snapshot in `reader`, because a transaction stores a new
    /// keyword before it updates the memory.
    fn new(database: &'s Database, reader: &'s dyn TableReader, stored: Counters, keywords: Arc<Keywords>) -> Self {
        Self {
            database,
            reader,
            number: database.number,
            report: FixupReport::default(),
            headers: HashMap::new(),
            damaged: Vec::new(),
            without_revisions: Vec::new(),
            folders: BTreeMap::new(),
            foreign: Vec::new(),
            broken: Vec::new(),
            stored,
            index_sizes: Counters::START,
            unreadable: HashSet::new(),
            leads_to: HashMap::new(),
            lost_folders: BTreeSet::new(),
            unids_of_lost: HashMap::new(),
            deletions: BTreeSet::new(),
            unread_left: None,
            unread_times: UnreadTimesSurvey::default(),
            threads: ThreadSurvey::default(),
            keywords,
            keywords_broken: false,
        }
    }

    fn run(&mut self, on_progress: &mut FixupProgressCallback<'_>) -> Result<()> {
        self.read_headers()?;
        let mut notes: Vec<NoteId> = self.headers.keys().copied().collect();
        notes.sort_unstable();
        let total = notes.len() as u64;
        for (done, note) in (1_u64..).zip(&notes) {
            self.check_contents(*note)?;
            if done.is_multiple_of(PROGRESS_INTERVAL_NOTES) {
                on_progress(FixupStage::Notes(done), total);
            }
        }
        self.check_access_control()?;
        self.collect_folders(&notes);
        for (done, note) in (1_u64..).zip(notes) {
            self.check_note(note)?;
            if done.is_multiple_of(PROGRESS_INTERVAL_NOTES) {
                on_progress(FixupStage::Compared(done), total);
            }
        }
        self.check_table(Table::Unid, Self::check_unids)?;
        self.check_table(Table::ByModseq, Self::check_changes)?;
        self.check_table(Table::Children, Self::check_responses)?;
        self.check_folders()?;
        self.check_threads()?;
        self.check_views(on_progress)?;
        self.check_deletions()?;
        self.check_unread()?;
        self.check_keywords()?;
        self.check_counters()
    }

    /// Checks a derived table. A table that cannot be read is a single finding.
    fn check_table(&mut self, table: Table, check: fn(&mut Self) -> Result<()>) -> Result<()> {
        if let Err(reason) = salvage::split_damage(check(self))? {
            self.give_up(table, reason);
        }
        Ok(())
    }

    fn give_up(&mut self, table: Table, reason: String) {
        if self.unreadable.insert(table) {
            self.report_finding(FixupFinding::TableDamaged { table: table.name(), reason });
        }
    }

    fn report_finding(&mut self, finding: FixupFinding) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(finding);
        }
    }

    fn read_headers(&mut self) -> Result<()> {
        let mut next = NoteId(0);
        let mut without_header = BTreeSet::new();
        let end =
            if self.database.losses.counters { self.greatest_known_note()?.next() } else { self.stored.next_note };
        // The engine does not report where records become readable again after damage, so each note id is tried.
        while let Some(note) = self.read_headers_from(next, &mut without_header)? {
            self.try_header(note)?;
            if note >= end {
                break;
            }
            next = note.next();
        }
        for note in without_header {
            if !self.headers.contains_key(&note) && !self.damaged.contains(&note) {
                self.damaged.push(note);
            }
        }
        for note in self.damaged.clone() {
            self.report_damaged(note, "header");
        }
        for header in self.headers.values() {
            let last = self.leads_to.entry(header.unid).or_insert(header.note);
            *last = header.note.max(*last);
        }
        Ok(())
    }

    /// Reads the headers from a note on. Returns the note at which the records cannot be read, if any.
    fn read_headers_from(&mut self, first: NoteId, without: &mut BTreeSet<NoteId>) -> Result<Option<NoteId>> {
        let start = keys::summary(self.number, first, SummaryRecord::Header).to_vec();
        let range = KeyRange { start, end: store::engine::prefix_end(&self.number.to_key()) };
        let reader = self.reader;
        let mut last = None;
        let mut scan = || -> Result<()> {
            let mut cursor = reader.scan(Table::Summary, &range, Direction::Forward)?;
            while let Some((key, value)) = cursor.next()? {
                let Some((note, part)) = keys::split_summary(key) else { continue };
                last = Some(note);
                if part == SummaryRecord::Header as u8 {
                    self.take_header(note, value);
                } else if !self.headers.contains_key(&note) {
                    without.insert(note);
                }
            }
            Ok(())
        };
        let is_whole = salvage::split_damage(scan())?.is_ok();
        Ok((!is_whole).then(|| last.map_or(first, NoteId::next)))
    }

    fn take_header(&mut self, note: NoteId, value: &[u8]) {
        self.report.notes += 1;
        match NoteHeader::decode(note, value) {
            Ok(header) => drop(self.headers.insert(note, header)),
            Err(_) => self.damaged.push(note),
        }
    }

    fn try_header(&mut self, note: NoteId) -> Result<()> {
        let key = keys::summary(self.number, note, SummaryRecord::Header);
        match salvage::split_damage(self.reader.get(Table::Summary, &key).map_err(Into::into))? {
            Ok(None) => {}
            Ok(Some(value)) => self.take_header(note, &value),
            Err(_) => self.damaged.push(note),
        }
        Ok(())
    }

    /// Determines the existing folders and the notes that they must contain.
    fn collect_folders(&mut self, notes: &[NoteId]) {
        let views = self.headers.values().filter(|header| header.class == NoteClass::VIEW && !header.is_stub());
        self.folders = views.map(|header| (ViewId(header.note.0), BTreeMap::new())).collect();
        for note in notes {
            let Some(header) = self.headers.get(note) else { continue };
            for place in &header.folders {
                if !self.folders.contains_key(&place.folder) {
                    self.lost_folders.insert(place.folder);
                }
                self.folders.entry(place.folder).or_default().insert(place.uid, *note);
            }
        }
        for folder in self.lost_folders.clone() {
            self.broken.push(folder);
            self.report_finding(FixupFinding::FolderIndex {
                folder,
                reason: "it contains notes, but its design note is lost".into(),
            });
        }
    }

    fn check_note(&mut self, note: NoteId) -> Result<()> {
        let Some(header) = self.headers.get(&note).cloned() else { return Ok(()) };
        if !self.is_superseded(&header) && !self.unreadable.contains(&Table::Unid) {
            match salvage::split_damage(records::find(self.reader, self.number, header.unid))? {
                Ok(found) if found == Some(note) => {}
                Ok(_) => self.report_finding(FixupFinding::UnidIndex { unid: header.unid }),
                Err(reason) => self.give_up(Table::Unid, reason),
            }
        }
        if salvage::split_damage(RevisionRecord::load(self.reader, self.database, &header))?.is_err() {
            self.report_finding(FixupFinding::Revisions { note });
            self.without_revisions.push(note);
        }
        let key = keys::design(self.number, note);
        let is_listed = match salvage::split_damage(self.reader.get(Table::Meta, &key).map_err(Into::into))? {
            Ok(design) => Some(design.is_some()),
            Err(_) => None,
        };
        if is_listed != Some(header.class.is_design() && !header.is_stub()) {
            self.report_finding(FixupFinding::DesignList { note });
        }
        Ok(())
    }

    /// Returns `true` for a stub whose UNID was reused by a newer note. The UNID index points to that note.
    fn is_superseded(&self, header: &NoteHeader) -> bool {
        header.is_stub() && self.leads_to.get(&header.unid).is_some_and(|last| *last != header.note)
    }

    /// Reads all records of a note. A note that cannot be read completely is given up as damaged.
    fn check_contents(&mut self, note: NoteId) -> Result<()> {
        if !self.headers.get(&note).is_some_and(NoteHeader::has_contents) {
            return Ok(());
        }
        let summary = match salvage::split_damage(records::load_summary(self.reader, self.database, note))? {
            Ok(Some(summary)) => summary,
            Ok(None) | Err(_) => return self.give_up_note(note, "summary"),
        };
        for body in &summary.body {
            match salvage::split_damage(records::load_body(self.reader, self.database, note, body.ordinal))? {
                Ok(Some(item)) if item.name == body.name => {}
                Ok(_) | Err(_) => return self.give_up_note(note, "body"),
            }
        }
        self.threads.add(note, &summary.items);
        for blob in &summary.blobs {
            let length = self.database.store.blobs().length(self.reader, blob);
            if !matches!(salvage::split_damage(length.map_err(Into::into))?, Ok(Some(_))) {
                self.report_finding(FixupFinding::BlobMissing { note, blob: *blob });
            }
        }
        Ok(())
    }

    fn give_up_note(&mut self, note: NoteId, record: &'static str) -> Result<()> {
        self.report_damaged(note, record);
        self.damaged.push(note);
        if note != ACL_NOTE_ID {
            self.headers.remove(&note);
        }
        Ok(())
    }

    /// Reports a damaged note. The ACL note is left out, because its only content, the access control list, has a
    /// finding of its own.
    fn report_damaged(&mut self, note: NoteId, record: &'static str) {
        if note != ACL_NOTE_ID {
            self.report_finding(FixupFinding::NoteDamaged { note, record });
        }
    }

    fn check_unids(&mut self) -> Result<()> {
        let reader = self.reader;
        let mut cursor = reader.scan(Table::Unid, &KeyRange::prefix(&self.number.to_key()), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let unid = key.get(4..20).and_then(|bytes| bytes.try_into().ok()).map(Unid);
            let note = value.try_into().ok().map(NoteId::from_key);
            let (Some(unid), Some(note)) = (unid, note) else { continue };
            if !self.headers.contains_key(&note) && self.lost_folders.contains(&ViewId(note.0)) {
                self.unids_of_lost.insert(note, unid);
            }
            if self.headers.get(&note).is_none_or(|header| header.unid != unid) {
                self.report_finding(FixupFinding::UnidIndex { unid });
            }
        }
        Ok(())
    }

    fn check_changes(&mut self) -> Result<()> {
        let mut found: HashMap<NoteId, Modseq> = HashMap::new();
        let mut wrong = Vec::new();
        let headers = &self.headers;
        change_log::scan(self.reader, self.number, Modseq(0), &mut |entry| {
            let right = headers.get(&entry.note).is_some_and(|header| match &entry.change {
                NoteChange::Changed { folders } => {
                    header.modseq == entry.modseq && !header.is_stub() && header.folders == *folders
                }
                NoteChange::Deleted { .. } => header.modseq == entry.modseq && header.is_stub(),
                NoteChange::Left { .. } => true,
            });
            match entry.change {
                NoteChange::Left { .. } => {}
                _ if right => drop(found.insert(entry.note, entry.modseq)),
                _ => wrong.push((entry.note, entry.modseq)),
            }
            Ok(())
        })?;
        let missing = headers.values().filter(|header| found.get(&header.note) != Some(&header.modseq));
        wrong.extend(missing.map(|header| (header.note, header.modseq)));
        wrong.sort_unstable();
        wrong.dedup();
        wrong.into_iter().for_each(|(note, modseq)| self.report_finding(FixupFinding::ChangeLog { note, modseq }));
        Ok(())
    }

    fn check_responses(&mut self) -> Result<()> {
        let mut expected: Vec<(Unid, NoteId)> = self.responses().collect();
        expected.sort_unstable();
        let reader = self.reader;
        let mut cursor = reader.scan(Table::Children, &KeyRange::prefix(&self.number.to_key()), Direction::Forward)?;
        let mut found = Vec::new();
        while let Some((key, _)) = cursor.next()? {
            let parent = key.get(4..20).and_then(|bytes| bytes.try_into().ok()).map(Unid);
            let note = key.get(20..24).and_then(|bytes| bytes.try_into().ok()).map(NoteId::from_key);
            found.extend(parent.zip(note));
        }
        let differ = |one: &[(Unid, NoteId)], other: &[(Unid, NoteId)]| -> Vec<NoteId> {
            one.iter().filter(|pair| other.binary_search(pair).is_err()).map(|(_, note)| *note).collect()
        };
        for note in differ(&expected, &found).into_iter().chain(differ(&found, &expected)) {
            self.report_finding(FixupFinding::Responses { note });
        }
        Ok(())
    }

    fn responses(&self) -> impl Iterator<Item = (Unid, NoteId)> + '_ {
        let live = self.headers.values().filter(|header| !header.is_stub());
        live.filter_map(|header| Some((header.parent?, header.note)))
    }

    fn check_folders(&mut self) -> Result<()> {
        for view in self.folders.keys().copied().collect::<Vec<_>>() {
            if self.lost_folders.contains(&view) {
                continue;
            }
            if !self.is_folder(view)? {
                self.check_foreign(view)?;
                continue;
            }
            if let Some(reason) = salvage::split_damage(self.folder_fault(view))?.unwrap_or_else(Some) {
                self.broken.push(view);
                self.report_finding(FixupFinding::FolderIndex { folder: view, reason });
            }
        }
        Ok(())
    }

    /// Checks a collection that a layer above keeps under the number of its own design note: that it can be read, and
    /// that its counts are right. Views keep no collections there.
    fn check_foreign(&mut self, view: ViewId) -> Result<()> {
        self.foreign.push(view);
        let look = || -> Result<Option<String>> {
            let id = CollectionId::new(self.number, view);
            if let Some(finding) = collection::check(self.reader, id, &CountOnly)?.first() {
                return Ok(Some(finding.to_string()));
            }
            let range = keys::view_back_range(id.database, view);
            let mut cursor = self.reader.scan(Table::ViewBack, &range, Direction::Forward)?;
            while cursor.next()?.is_some() {}
            Ok(None)
        };
        if let Some(reason) = salvage::split_damage(look())?.unwrap_or_else(Some) {
            self.report_finding(FixupFinding::ViewIndex { view, reason });
        }
        Ok(())
    }

    /// Checks the indexes of views, and reports rows that belong to no view.
    fn check_views(&mut self, on_progress: &mut FixupProgressCallback<'_>) -> Result<()> {
        let (records, damage) =
            salvage::read_from_both_ends(self.reader, Table::Meta, &keys::view_indexes(self.number))?;
        if let Some(reason) = damage {
            self.report_finding(FixupFinding::ViewIndex { view: ViewId(0), reason });
        }
        let mut known = BTreeSet::new();
        let total = records.len() as u64;
        for (done, (key, value)) in (0..).zip(records) {
            on_progress(FixupStage::Views(done), total);
            let view = keys::split_view_index(&key).unwrap_or(NoteId(0));
            let fault = match IndexRecord::decode(&value) {
                Ok(record) => {
                    known.extend([Some(record.index), record.building].into_iter().flatten());
                    let bytes = record.counted_bytes(self.reader, self.number)?;
                    record.account.charge(&mut self.index_sizes, 0, bytes);
                    salvage::split_damage(self.view_fault(view, &record))?.unwrap_or_else(Some)
                }
                Err(_) => Some("its record cannot be read".into()),
            };
            if let Some(reason) = fault {
                self.report_finding(FixupFinding::ViewIndex { view: ViewId(view.0), reason });
            }
        }
        match salvage::split_damage(self.index_numbers())? {
            Ok(indexes) => {
                for view in indexes.difference(&known) {
                    self.report_finding(FixupFinding::ViewIndex {
                        view: *view,
                        reason: "its index belongs to no view".into(),
                    });
                }
            }
            Err(reason) => self.report_finding(FixupFinding::ViewIndex { view: ViewId(0), reason }),
        }
        Ok(())
    }

    fn view_fault(&self, view: NoteId, record: &IndexRecord) -> Result<Option<String>> {
        let is_view =
            self.headers.get(&view).is_some_and(|header| header.class == NoteClass::VIEW && !header.is_stub());
        if !is_view {
            return Ok(Some("the view no longer exists".into()));
        }
        let Ok(design) = ViewDesign::decode(&record.format) else {
            return Ok(Some("its design cannot be read".into()));
        };
        view_check::fault(self.reader, &ViewIndex::new(self.number, record.index, design), record)
    }

    /// Returns the numbers under which rows of views are stored.
    fn index_numbers(&self) -> Result<BTreeSet<ViewId>> {
        let mut found = BTreeSet::new();
        let all = index_record::all_rows(self.number);
        for table in [Table::View, Table::Tree, Table::ViewBack] {
            let mut range = all.clone();
            while let Some((key, _)) = self.reader.scan(table, &range, Direction::Forward)?.next()? {
                let number = key.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
                let Some(number) = number else { break };
                found.insert(ViewId(number));
                let Some(next) = store::engine::prefix_end(&key[..8]) else { break };
                range.start = next;
            }
        }
        Ok(found)
    }

    fn folder_fault(&self, folder: ViewId) -> Result<Option<String>> {
        let id = folder::collection_id(self.number, folder);
        let reader = CollectionReader::open(self.reader, id)?;
        if !reader.exists() {
            return Ok(Some("its index is missing".into()));
        }
        if let Some(finding) = collection::check(self.reader, id, &FolderWeights)?.first() {
            return Ok(Some(finding.to_string()));
        }
        let Ok(state) = FolderState::decode(reader.state()) else { return Ok(Some("its state cannot be read".into())) };
        let empty = BTreeMap::new();
        let expected = self.folders.get(&folder).unwrap_or(&empty);
        let mut scan = reader.scan(&KeyRange::all(), Direction::Forward)?;
        let mut count = 0;
        while let Some((key, value)) = scan.next()? {
            let uid = folder::uid_of_key(key);
            let entry = uid.and_then(|uid| FolderEntry::decode(uid, value).ok());
            let header = entry.as_ref().and_then(|entry| self.headers.get(&entry.note));
            let right = entry.as_ref().zip(header).is_some_and(|(entry, header)| {
                expected.get(&entry.uid) == Some(&entry.note)
                    && *entry == FolderEntry::from_header(header, Membership { folder, uid: entry.uid }, entry.saved)
                    && entry.uid < state.end()
            });
            if !right {
                return Ok(Some(format!("its entry {uid:?} does not match the note")));
            }
            count += 1;
        }
        Ok((count != expected.len()).then(|| format!("it has {count} entries instead of {}", expected.len())))
    }

    fn is_folder(&self, view: ViewId) -> Result<bool> {
        let summary = records::load_summary(self.reader, self.database, NoteId(view.0))?.unwrap_or_default();
        let flags = crate::item::find_item(&summary.items, folder::FLAGS_ITEM).and_then(|item| item.value.text());
        Ok(flags.is_some_and(|flags| flags.contains('F')))
    }

    fn check_threads(&mut self) -> Result<()> {
        self.threads.check(self.reader, self.number)?;
        for note in self.threads.wrong.clone() {
            self.report_finding(FixupFinding::ThreadIndex { note });
        }
        if let Some(reason) = self.threads.damage.clone() {
            self.report_finding(FixupFinding::TableDamaged { table: Table::Meta.name(), reason });
        }
        Ok(())
    }

    /// Checks that exactly the notes that can be restored are listed.
    fn check_deletions(&mut self) -> Result<()> {
        let (listed, damage) = salvage::read_from_both_ends(self.reader, Table::Meta, &keys::deletions(self.number))?;
        let mut wrong: BTreeSet<NoteId> =
            self.headers.values().filter(|header| header.is_soft_deleted()).map(|header| header.note).collect();
        for (key, value) in &listed {
            let Some(note) = keys::split_deletion(key) else { continue };
            let is_right = wrong.contains(&note) && DeletionRecord::decode(value).is_ok();
            if is_right {
                wrong.remove(&note)
            } else {
                wrong.insert(note)
            };
        }
        for note in &wrong {
            self.report_finding(FixupFinding::SoftDeletedList { note: *note });
        }
        self.deletions = wrong;
        if let Some(reason) = damage {
            self.report_finding(FixupFinding::TableDamaged { table: Table::Meta.name(), reason });
        }
        Ok(())
    }

    fn check_unread(&mut self) -> Result<()> {
        let range = KeyRange::prefix(&self.number.to_key());
        let (left, damage) = salvage::read_from_both_ends(self.reader, Table::Unread, &range)?;
        if let Some(reason) = damage {
            self.report_finding(FixupFinding::UnreadMarks { reason });
            self.unread_left = Some(left);
        }
        self.unread_times = UnreadTimesSurvey::check(self.reader, self.number, self.stored.modseq)?;
        for reason in self.unread_times.reasons.clone() {
            self.report_finding(FixupFinding::UnreadTimes { reason });
        }
        Ok(())
    }
}
