//! Checking a database, and repairing what can be derived.
//!
//! The notes (headers, summaries, bodies) are what counts. Everything else is derived from them and can be written again:
//! the index of UNIDs, the order of changes, the response hierarchy, the list of design notes, the indexes of folders and the
//! counters. A note whose own records cannot be read cannot be derived from anything: it is reported, and a repair puts its
//! records into quarantine, so that the rest of the database works on and a backup or replica can bring it back.
//!
//! A check reads a snapshot and disturbs nobody. A repair holds the database's lock while it works.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use base::{DbNumber, Modseq, NoteId, Uid, Unid, ViewId};
use store::blob::{BlobId, BlobOwner};
use store::{Batch, Direction, KeyRange, Read, Table};

use crate::change::{self, Change};
use crate::collection::{self, Builder, Tuning, Weigh};
use crate::counters::Counters;
use crate::database::Database;
use crate::error::Result;
use crate::folder::{self, Entry, FolderState, FolderWeigh};
use crate::keys::{self, Part};
use crate::limits::FINDINGS_MAX;
use crate::note::{Header, NoteClass, Summary};
use crate::reading;

/// What is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A record of a note cannot be read; the note is lost unless a backup or replica has it.
    NoteDamaged { note: NoteId, record: &'static str },
    /// The index of UNIDs does not lead to a note, or leads to a wrong one.
    UnidIndex { unid: Unid },
    /// The order of changes does not have a note's last change, or has one that is none.
    ChangeOrder { note: NoteId, modseq: Modseq },
    /// The response hierarchy is not what the notes say.
    Responses { note: NoteId },
    /// The list of design notes is not what the notes say.
    DesignList { note: NoteId },
    /// A folder's index differs from what the notes say, or its counts from its entries.
    FolderIndex { folder: ViewId, why: String },
    /// A counter is wrong.
    Counters { what: &'static str, says: u64, has: u64 },
    /// A note refers to content that the blob store does not have.
    BlobMissing { note: NoteId, blob: BlobId },
}

impl Finding {
    /// Tells whether a repair brings back everything.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        !matches!(self, Self::NoteDamaged { .. } | Self::BlobMissing { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoteDamaged { note, record } => write!(f, "note {note}: its {record} cannot be read"),
            Self::UnidIndex { unid } => write!(f, "UNID {unid}: the index is wrong"),
            Self::ChangeOrder { note, modseq } => write!(f, "note {note}: the order of changes is wrong at {modseq}"),
            Self::Responses { note } => write!(f, "note {note}: the response hierarchy is wrong"),
            Self::DesignList { note } => write!(f, "note {note}: the list of design notes is wrong"),
            Self::FolderIndex { folder, why } => write!(f, "folder {folder}: {why}"),
            Self::Counters { what, says, has } => write!(f, "counter of {what}: says {says} instead of {has}"),
            Self::BlobMissing { note, blob } => {
                write!(f, "note {note}: attachment {} is missing", store::error::hex(&blob.0))
            }
        }
    }
}

/// What a check or repair found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FixupReport {
    /// Notes that were looked at.
    pub notes: u64,
    /// What is wrong, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// The repairable findings were repaired, and damaged notes put into quarantine.
    pub repaired: bool,
}

/// Checks a database; changes nothing.
pub fn check(database: &Database) -> Result<FixupReport> {
    database.refuse_when_dropped()?;
    let snapshot = database.store.snapshot()?;
    let mut survey = Survey::new(database, &snapshot);
    if let Err(error) = survey.run() {
        // A database that is being deleted is not damaged; its deleter holds the lock until it is known to be gone.
        drop(database.lock());
        database.refuse_when_dropped()?;
        return Err(error);
    }
    Ok(survey.report)
}

/// Checks a database and repairs what can be derived. Durable on return.
pub fn repair(database: &Database) -> Result<FixupReport> {
    let gate = database.store.blobs().writer();
    let mut counters = database.lock();
    database.refuse_when_dropped()?;
    let mut survey = Survey::new(database, database.store.as_ref());
    survey.run()?;
    if survey.report.findings.is_empty() {
        return Ok(survey.report);
    }
    let (batch, fixed) = survey.repairs(*counters)?;
    let mut report = survey.report;
    let ticket = database.store.commit(&batch)?;
    database.folder_images.clear();
    *counters = fixed;
    database.publish(fixed.modseq, ticket);
    drop(counters);
    drop(gate);
    database.store.durable(ticket).wait()?;
    report.repaired = true;
    Ok(report)
}

/// Gives the blobs that the notes of a database use, for rebuilding the reference table.
pub fn blob_uses(database: &Database, each: &mut dyn FnMut(BlobOwner, BlobId)) -> Result<()> {
    let range = KeyRange::prefix(&database.number.to_key());
    let mut cursor = database.store.scan(Table::Summary, &range, Direction::Forward)?;
    while let Some((key, value)) = cursor.next()? {
        let Some((note, part)) = keys::split_summary(key) else { continue };
        if part != Part::Summary as u8 {
            continue;
        }
        for blob in Summary::decode(value).map(|summary| summary.blobs).unwrap_or_default() {
            each(BlobOwner { database: database.number, note }, blob);
        }
    }
    Ok(())
}

/// One walk over a database.
struct Survey<'s> {
    database: &'s Database,
    reader: &'s dyn Read,
    number: DbNumber,
    report: FixupReport,
    headers: HashMap<NoteId, Header>,
    damaged: Vec<NoteId>,
    /// The folders that there are, and what must be in them.
    folders: BTreeMap<ViewId, BTreeMap<Uid, NoteId>>,
    /// Folders whose index must be written again.
    broken: Vec<ViewId>,
}

impl<'s> Survey<'s> {
    fn new(database: &'s Database, reader: &'s dyn Read) -> Self {
        Self {
            database,
            reader,
            number: database.number,
            report: FixupReport::default(),
            headers: HashMap::new(),
            damaged: Vec::new(),
            folders: BTreeMap::new(),
            broken: Vec::new(),
        }
    }

    fn run(&mut self) -> Result<()> {
        self.read_headers()?;
        let mut notes: Vec<NoteId> = self.headers.keys().copied().collect();
        notes.sort_unstable();
        for note in notes {
            self.check_note(note)?;
        }
        self.check_unids()?;
        self.check_changes()?;
        self.check_responses()?;
        self.check_folders()?;
        self.check_counters()
    }

    fn find(&mut self, finding: Finding) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(finding);
        }
    }

    fn read_headers(&mut self) -> Result<()> {
        let range = KeyRange::prefix(&self.number.to_key());
        let reader = self.reader;
        let mut cursor = reader.scan(Table::Summary, &range, Direction::Forward)?;
        let mut without_header = Vec::new();
        while let Some((key, value)) = cursor.next()? {
            let Some((note, part)) = keys::split_summary(key) else { continue };
            if part != Part::Header as u8 {
                if !self.headers.contains_key(&note) && !self.damaged.contains(&note) {
                    without_header.push(note);
                }
                continue;
            }
            self.report.notes += 1;
            match Header::decode(note, value) {
                Ok(header) => drop(self.headers.insert(note, header)),
                Err(_) => self.damaged.push(note),
            }
        }
        for note in without_header.into_iter().chain(self.damaged.clone()) {
            if !self.damaged.contains(&note) {
                self.damaged.push(note);
            }
            self.find(Finding::NoteDamaged { note, record: "header" });
        }
        let views = self.headers.values().filter(|header| header.class == NoteClass::VIEW && !header.is_stub());
        self.folders = views.map(|header| (ViewId(header.note.0), BTreeMap::new())).collect();
        Ok(())
    }

    fn check_note(&mut self, note: NoteId) -> Result<()> {
        let Some(header) = self.headers.get(&note).cloned() else { return Ok(()) };
        if !header.is_stub() && !self.check_contents(note)? {
            self.damaged.push(note);
            self.headers.remove(&note);
            return Ok(());
        }
        if reading::find(self.reader, self.number, header.unid)? != Some(note) && !self.is_superseded(&header)? {
            self.find(Finding::UnidIndex { unid: header.unid });
        }
        let design = self.reader.get(Table::Meta, &keys::design(self.number, note))?;
        if design.is_some() == (header.class.is_document() || header.is_stub()) {
            self.find(Finding::DesignList { note });
        }
        let places = header.folders.clone();
        for place in places {
            match self.folders.get_mut(&place.folder) {
                Some(entries) => drop(entries.insert(place.uid, note)),
                None => self.find(Finding::FolderIndex {
                    folder: place.folder,
                    why: format!("note {note} is in no such folder"),
                }),
            }
        }
        Ok(())
    }

    /// A stub whose UNID came back with a new note is not what the index leads to.
    fn is_superseded(&self, header: &Header) -> Result<bool> {
        let leads_to = reading::find(self.reader, self.number, header.unid)?;
        let other = leads_to.filter(|other| *other != header.note).and_then(|other| self.headers.get(&other));
        Ok(header.is_stub() && other.is_some_and(|other| other.unid == header.unid))
    }

    /// Reads everything of a note; tells whether it can be read.
    fn check_contents(&mut self, note: NoteId) -> Result<bool> {
        let summary = match reading::load_summary(self.reader, self.database, note) {
            Ok(Some(summary)) => summary,
            Ok(None) | Err(crate::Error::Damaged { .. }) => {
                self.find(Finding::NoteDamaged { note, record: "summary" });
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        for body in &summary.body {
            match reading::load_body(self.reader, self.database, note, body.ordinal) {
                Ok(Some(item)) if item.name == body.name => {}
                Ok(_) | Err(crate::Error::Damaged { .. }) => {
                    self.find(Finding::NoteDamaged { note, record: "body" });
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        for blob in &summary.blobs {
            if self.database.store.blobs().length(self.reader, blob)?.is_none() {
                self.find(Finding::BlobMissing { note, blob: *blob });
            }
        }
        Ok(true)
    }

    fn check_unids(&mut self) -> Result<()> {
        let reader = self.reader;
        let mut cursor = reader.scan(Table::Unid, &KeyRange::prefix(&self.number.to_key()), Direction::Forward)?;
        while let Some((key, value)) = cursor.next()? {
            let unid = key.get(4..20).and_then(|bytes| bytes.try_into().ok()).map(Unid);
            let note = value.try_into().ok().map(NoteId::from_key);
            let (Some(unid), Some(note)) = (unid, note) else { continue };
            if self.headers.get(&note).is_none_or(|header| header.unid != unid) {
                self.find(Finding::UnidIndex { unid });
            }
        }
        Ok(())
    }

    fn check_changes(&mut self) -> Result<()> {
        let mut found: HashMap<NoteId, Modseq> = HashMap::new();
        let mut wrong = Vec::new();
        let headers = &self.headers;
        change::scan(self.reader, self.number, Modseq(0), &mut |entry| {
            let right = headers.get(&entry.note).is_some_and(|header| match &entry.change {
                Change::Changed { folders } => {
                    header.modseq == entry.modseq && !header.is_stub() && header.folders == *folders
                }
                Change::Deleted { .. } => header.modseq == entry.modseq && header.is_stub(),
                Change::Left { .. } => true,
            });
            match entry.change {
                Change::Left { .. } => {}
                _ if right => drop(found.insert(entry.note, entry.modseq)),
                _ => wrong.push((entry.note, entry.modseq)),
            }
            Ok(())
        })?;
        let missing = headers.values().filter(|header| found.get(&header.note) != Some(&header.modseq));
        wrong.extend(missing.map(|header| (header.note, header.modseq)));
        wrong.sort_unstable();
        wrong.dedup();
        wrong.into_iter().for_each(|(note, modseq)| self.find(Finding::ChangeOrder { note, modseq }));
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
            self.find(Finding::Responses { note });
        }
        Ok(())
    }

    fn responses(&self) -> impl Iterator<Item = (Unid, NoteId)> + '_ {
        let live = self.headers.values().filter(|header| !header.is_stub());
        live.filter_map(|header| Some((header.parent?, header.note)))
    }

    fn check_folders(&mut self) -> Result<()> {
        for folder in self.folders.keys().copied().collect::<Vec<_>>() {
            if let Some(why) = self.folder_fault(folder)? {
                self.broken.push(folder);
                self.find(Finding::FolderIndex { folder, why });
            }
        }
        Ok(())
    }

    fn folder_fault(&self, folder: ViewId) -> Result<Option<String>> {
        let id = folder::collection_id(self.number, folder);
        let reader = collection::Reader::open(self.reader, id)?;
        if !reader.exists() {
            return Ok((!self.is_plain_view(folder)?).then(|| "its index is missing".into()));
        }
        if let Some(finding) = collection::check(self.reader, id, &FolderWeigh)?.first() {
            return Ok(Some(finding.to_string()));
        }
        let Ok(state) = FolderState::decode(reader.state()) else { return Ok(Some("its state cannot be read".into())) };
        let empty = BTreeMap::new();
        let expected = self.folders.get(&folder).unwrap_or(&empty);
        let mut scan = reader.scan(&KeyRange::all(), Direction::Forward)?;
        let mut count = 0;
        while let Some((key, value)) = scan.next()? {
            let uid = folder::uid_of_key(key);
            let entry = uid.and_then(|uid| Entry::decode(uid, value).ok());
            let header = entry.as_ref().and_then(|entry| self.headers.get(&entry.note));
            let right = entry.as_ref().zip(header).is_some_and(|(entry, header)| {
                expected.get(&entry.uid) == Some(&entry.note)
                    && *entry == Entry::of(header, entry.uid, entry.saved)
                    && entry.uid < state.uid_next
            });
            if !right {
                return Ok(Some(format!("its entry {uid:?} is not what its note says")));
            }
            count += 1;
        }
        Ok((count != expected.len()).then(|| format!("it has {count} entries instead of {}", expected.len())))
    }

    fn is_plain_view(&self, folder: ViewId) -> Result<bool> {
        let summary = reading::load_summary(self.reader, self.database, NoteId(folder.0))?.unwrap_or_default();
        let flags = crate::item::find(&summary.items, folder::FLAGS_ITEM).and_then(|item| item.value.text());
        Ok(!flags.is_some_and(|flags| flags.contains('F')))
    }

    fn check_counters(&mut self) -> Result<()> {
        let stored = reading::load_counters(self.reader, self.number)?;
        let right = self.right_counters(stored);
        for (what, says, has) in [
            ("notes", stored.notes, right.notes),
            ("bytes", stored.bytes, right.bytes),
            ("note ids", u64::from(stored.next_note.0), u64::from(right.next_note.0)),
            ("changes", stored.modseq.0, right.modseq.0),
        ] {
            if says != has {
                self.find(Finding::Counters { what, says, has });
            }
        }
        Ok(())
    }

    fn right_counters(&self, stored: Counters) -> Counters {
        let live = || self.headers.values().filter(|header| !header.is_stub());
        let last_note = self.headers.keys().chain(&self.damaged).max().copied().unwrap_or_default();
        let last_modseq = self.headers.values().map(|header| header.modseq).max().unwrap_or_default();
        Counters {
            notes: live().count() as u64,
            bytes: live().map(|header| header.size).sum(),
            next_note: stored.next_note.max(last_note.next()),
            modseq: stored.modseq.max(last_modseq),
            ..stored
        }
    }

    /// Writes everything derived again.
    fn repairs(&self, stored: Counters) -> Result<(Batch, Counters)> {
        let mut batch = Batch::new();
        let mut counters = self.right_counters(stored);
        counters.modseq = counters.modseq.next();
        counters.design_modseq = counters.modseq;
        self.quarantine(&mut batch)?;
        for table in [Table::Unid, Table::Children] {
            let (start, end) = (self.number.to_key(), self.number.next().to_key());
            batch.delete_range(table, &start, &end);
        }
        for header in self.headers.values() {
            let superseded = self.is_superseded(header)?;
            if !superseded {
                batch.put(Table::Unid, &keys::unid(self.number, header.unid), &header.note.to_key());
            }
            let design = keys::design(self.number, header.note);
            if header.class.is_document() || header.is_stub() {
                batch.delete(Table::Meta, &design);
            } else {
                batch.put(Table::Meta, &design, &header.class.0.to_be_bytes());
            }
        }
        for (parent, note) in self.responses() {
            batch.put(Table::Children, &keys::child(self.number, parent, note), &[]);
        }
        self.rewrite_changes(&mut batch)?;
        for folder in &self.broken {
            self.rewrite_folder(*folder, &mut counters, &mut batch)?;
        }
        batch.put(Table::Meta, &keys::counters(self.number), &counters.encode());
        Ok((batch, counters))
    }

    fn rewrite_changes(&self, batch: &mut Batch) -> Result<()> {
        change::scan(self.reader, self.number, Modseq(0), &mut |entry| {
            if !matches!(entry.change, Change::Left { .. }) {
                change::delete_any(batch, self.number, entry.modseq, entry.note);
            }
            Ok(())
        })?;
        for header in self.headers.values() {
            if header.is_stub() {
                change::put_deleted(batch, self.number, (header.modseq, header.note), header.modified, &[]);
            } else {
                change::put_changed(batch, self.number, header.modseq, header.note, &header.folders);
            }
        }
        Ok(())
    }

    /// Writes a folder's index from the notes. UIDs stay; clients are told to forget what they know only when the state
    /// of the folder is lost.
    fn rewrite_folder(&self, folder: ViewId, counters: &mut Counters, batch: &mut Batch) -> Result<()> {
        let id = folder::collection_id(self.number, folder);
        let stored = collection::Reader::open(self.reader, id).ok();
        let state = stored.as_ref().and_then(|reader| FolderState::decode(reader.state()).ok());
        let members = self.folders.get(&folder).cloned().unwrap_or_default();
        let last = members.keys().next_back().copied().unwrap_or_default();
        let mut state = state.unwrap_or_else(|| {
            counters.uid_validity = counters.uid_validity.saturating_add(1);
            FolderState { uid_validity: counters.uid_validity, uid_next: Uid(1), highest_modseq: counters.modseq }
        });
        state.uid_next = state.uid_next.max(last.next());
        state.highest_modseq = counters.modseq;
        id.remove_all(batch);
        let mut builder = Builder::start(id, FolderWeigh.sums(), Tuning::default(), batch);
        for (uid, note) in members {
            let Some(header) = self.headers.get(&note) else { continue };
            let old = stored.as_ref().and_then(|reader| reader.find(&uid.to_key()).ok().flatten());
            let saved = old.and_then(|value| Entry::decode(uid, &value).ok()).map_or(header.modified, |old| old.saved);
            let entry = Entry::of(header, uid, saved);
            builder.put(batch, &uid.to_key(), &entry.encode(), entry.weight())?;
        }
        builder.finish(batch, &state.encode())?;
        Ok(())
    }

    /// Takes damaged notes out of the way and keeps what is left of them.
    fn quarantine(&self, batch: &mut Batch) -> Result<()> {
        for note in &self.damaged {
            for part in [Part::Header, Part::Summary] {
                let key = keys::summary(self.number, *note, part);
                if let Some(value) = self.reader.get(Table::Summary, &key)? {
                    batch.put(Table::Meta, &keys::quarantine(self.number, *note, part), &value);
                    batch.delete(Table::Summary, &key);
                }
            }
        }
        Ok(())
    }
}
