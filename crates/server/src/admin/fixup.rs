//! `doublet fixup`: looks for damage, and mends what can be derived.
//!
//! What it does in which order stands in `docs/operating.md`. Everything that is found is a [`Row`] of the answer; the command succeeds when
//! each of them is mended. What was told stays told: a later step may find that something is not mended after all, and adds what it finds itself.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use notes::Notes;
use notes::fixup::{self, Finding, FixupReport};
use serde_json::{Value, json};

use super::answer::record;
use super::request::FixupRequest;
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::Ground;
use crate::limits::MEND_ROUNDS_MAX;

/// Where findings about the engine's files belong.
const STORE: &str = "store";

/// Where findings about attachments belong.
const ATTACHMENTS: &str = "attachments";

/// Checks or repairs databases while others work on the store, whose files stay as they are.
pub(super) fn execute(notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.store(notes, report)?;
    }
    found.databases(notes, request, report)?;
    found.answer(request.check_only)
}

/// Checks or repairs databases while nobody else works on the data folder, so that damaged files are replaced. No database needs to open.
pub fn execute_alone(ground: Ground, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.store(&ground.notes, report)?;
    }
    if request.check_only || found.damage.is_empty() {
        found.databases(&ground.notes, request, report)?;
        return found.answer(request.check_only);
    }
    // What is lost with a block can be told only as long as the block is there.
    let look = FixupRequest { check_only: true, ..request.clone() };
    found.databases(&ground.notes, &look, report)?;
    let ground = found.replace_files(ground, report)?;
    found.finish(&ground.notes, request, report)?;
    found.answer(request.check_only)
}

/// One finding, as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// The path of a database, [`STORE`] or [`ATTACHMENTS`].
    place: String,
    what: String,
    kind: Kind,
    mended: bool,
}

/// What a finding is about, which says what can become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A block of the engine's files: mended when it is no longer there.
    Block,
    /// What a repair of the database mends.
    Derived,
    /// What nothing but a backup brings back.
    Lost,
    /// It could not be looked at, or not be repaired.
    Failed,
}

/// What a fixup has found so far.
#[derive(Default)]
struct Findings {
    rows: Vec<Row>,
    /// What of the engine's files cannot be read.
    damage: Vec<store::Error>,
    /// The databases that have lost their access control lists.
    unlisted: Vec<String>,
}

impl Findings {
    fn databases(&mut self, notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Result<(), Failure> {
        let paths = if request.paths.is_empty() {
            notes.database_list()?.into_iter().map(|record| record.path).collect()
        } else {
            request.paths.clone()
        };
        let total = Some(paths.len() as u64);
        for (done, path) in (0..).zip(&paths) {
            step(report, Progress { what: "checking databases".to_owned(), done, total, unit: Unit::Databases })?;
            let work = if request.check_only { fixup::check_at } else { fixup::repair_at };
            match work(notes, path) {
                Ok(result) => self.take(path, &result),
                Err(notes::Error::NotFound { .. }) => return Err(Failure::no_such("db", path)),
                Err(error) => self.add(path, Kind::Failed, error.to_string(), false),
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &str, result: &FixupReport) {
        for finding in &result.findings {
            let kind = if finding.is_repairable() { Kind::Derived } else { Kind::Lost };
            self.add(path, kind, finding.to_string(), result.repaired && kind == Kind::Derived);
            if matches!(finding, Finding::AccessControlLost { .. }) {
                self.unlisted.push(path.to_owned());
            }
        }
    }

    /// Reads every byte of the store and of the attachments.
    fn store(&mut self, notes: &Notes, report: &mut Report<'_>) -> Result<(), Failure> {
        let mut flow = ControlFlow::Continue(());
        let mut read = |what: &str, done| {
            if flow.is_continue() {
                flow = report(Progress { what: what.to_owned(), done, total: None, unit: Unit::Bytes });
            }
        };
        for error in notes.store().engine().verify(&mut |bytes| read("reading the store", bytes))? {
            self.add(STORE, Kind::Block, error.to_string(), false);
            self.damage.push(error);
        }
        let blobs = notes.store().blobs();
        match blobs.verify_all(notes.store().as_ref(), &mut |bytes| read("reading attachments", bytes)) {
            Ok(damage) => {
                damage.iter().for_each(|error| self.add(ATTACHMENTS, Kind::Lost, error.to_string(), false));
            }
            Err(error @ store::Error::Damaged { .. }) => self.add(ATTACHMENTS, Kind::Failed, error.to_string(), false),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Takes the damaged blocks out of the store's files; what could not be replaced stays a finding.
    fn replace_files(&mut self, mut ground: Ground, report: &mut Report<'_>) -> Result<Ground, Failure> {
        let mut damage = std::mem::take(&mut self.damage);
        for _ in 0..MEND_ROUNDS_MAX {
            let mut young = Vec::new();
            for table in tables_of(&damage) {
                let what = format!("replacing files of {}", table.name());
                step(report, Progress { what, done: 0, total: None, unit: Unit::Bytes })?;
                young.extend(ground.store.engine().mend(table, &damage)?.left);
            }
            if young.is_empty() {
                break;
            }
            // What lies behind them is seen when they are gone.
            ground = ground.without(&young).map_err(|error| Failure::Refused(error.to_string()))?;
            damage = ground.store.engine().verify(&mut |_| ())?;
        }
        self.settle_blocks(&ground.store.engine().verify(&mut |_| ())?);
        Ok(ground)
    }

    /// Takes over which damage is still there. Where a reading meets a block depends on what is before it, so that what was told of it before does not tell whether it
    /// is the same.
    fn settle_blocks(&mut self, left: &[store::Error]) {
        for row in self.rows.iter_mut().filter(|row| row.kind == Kind::Block) {
            row.mended = true;
        }
        for error in left {
            let what = error.to_string();
            self.rows.retain(|row| row.kind != Kind::Block || row.what != what);
            self.add(STORE, Kind::Block, what, false);
        }
    }

    /// Repairs databases whose findings were told before, and says which of them are mended.
    fn finish(&mut self, notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Result<(), Failure> {
        let mut again = Self::default();
        again.databases(notes, request, report)?;
        for path in &self.unlisted {
            // An older list may have come back from beneath the damage, with whom it let in then.
            fixup::close(notes, path)?;
        }
        self.settle_databases(again);
        Ok(())
    }

    /// Takes over what a repair of all databases has found. One that failed has mended nothing that it does not tell of.
    fn settle_databases(&mut self, again: Self) {
        for row in self.rows.iter_mut().filter(|row| row.kind == Kind::Derived) {
            row.mended = !again.rows.iter().any(|other| {
                other.place == row.place && !other.mended && (other.kind == Kind::Failed || other.what == row.what)
            });
        }
        // What the first look failed on was in the way then: it may have been the filter of a file.
        self.rows.retain(|row| row.kind != Kind::Failed || row.place == ATTACHMENTS);
        for row in again.rows {
            if !self.rows.iter().any(|told| told.place == row.place && told.what == row.what) {
                self.rows.push(row);
            }
        }
        self.unlisted.extend(again.unlisted);
    }

    fn answer(self, check_only: bool) -> Outcome {
        let count = self.rows.len();
        if count == 0 {
            return Ok(Answer::say("No damage was found."));
        }
        let lines: Vec<String> = self.left().map(|row| format!("  {}: {}", row.place, row.what)).collect();
        if lines.is_empty() {
            let rows = self.rows.into_iter().map(Row::told).collect();
            return Ok(Answer::list(rows).and(format!("{count} findings, all of them mended.")));
        }
        let (left, next) = (lines.len(), self.next_step(check_only));
        Err(Failure::Refused(format!("{count} findings, {left} of them not mended:\n{}\n{next}", lines.join("\n"))))
    }

    /// Gives the findings that are still there.
    fn left(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.mended)
    }

    /// Says what is true of what was not mended.
    fn next_step(&self, check_only: bool) -> String {
        let count = |kind| self.left().filter(|row| row.kind == kind).count();
        let repairable = if check_only { count(Kind::Derived) } else { 0 };
        let mut says = Vec::new();
        if repairable > 0 {
            says.push(format!("`doublet fixup` without --check-only mends {repairable} of them."));
        }
        if self.left().count() > count(Kind::Block) + repairable {
            says.push(
                "What a backup has of the rest, restoring it brings back; notes that cannot be read were or will be put \
                 aside, so that the others work on."
                    .to_owned(),
            );
        }
        if let Some(path) = self.unlisted.last() {
            says.push(format!("`doublet db acl {path} set WHO --level LEVEL` lets others in again."));
        }
        if count(Kind::Block) > 0 {
            says.push(
                "The damaged places stay in the store's files: it refuses changes when it meets them while tidying up. Stop the server and run \
                 `doublet fixup` again, which replaces what files it can. If they are still there, export what is newer than the last backup, look at the disk, \
                 and restore the backup."
                    .to_owned(),
            );
        }
        says.join("\n")
    }

    fn add(&mut self, place: &str, kind: Kind, what: String, mended: bool) {
        self.rows.push(Row { place: place.to_owned(), what, kind, mended });
    }
}

/// Gives the tables in which damage is.
fn tables_of(damage: &[store::Error]) -> BTreeSet<store::Table> {
    let table =
        |error: &store::Error| if let store::Error::Damaged { table, .. } = error { Some(*table) } else { None };
    damage.iter().filter_map(table).collect()
}

impl Row {
    fn told(self) -> Value {
        record(vec![("database", json!(self.place)), ("finding", json!(self.what)), ("mended", json!(self.mended))])
    }
}

#[cfg(test)]
mod tests;
