//! `doublet fixup`: looks for damage, and mends what can be derived.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use notes::Notes;
use notes::fixup::{self, Finding};
use serde_json::{Value, json};

use super::answer::record;
use super::request::FixupRequest;
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::Ground;
use crate::limits::MEND_ROUNDS_MAX;

/// Checks or repairs databases while others work on the store, whose files stay as they are.
pub(super) fn execute(notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.store(notes, report)?;
    }
    found.databases(notes, request, report)?;
    found.answer(request)
}

/// Checks or repairs databases while nobody else works on the data folder, so that damaged files are replaced. No database needs to open.
pub fn execute_alone(ground: Ground, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.store(&ground.notes, report)?;
    }
    if request.check_only || found.damage.is_empty() {
        found.databases(&ground.notes, request, report)?;
        return found.answer(request);
    }
    // What is lost with a block can be told only as long as the block is there.
    let look = FixupRequest { check_only: true, ..request.clone() };
    found.databases(&ground.notes, &look, report)?;
    let ground = found.replace_files(ground, report)?;
    found.finish(&ground.notes, request, report)?;
    found.answer(request)
}

/// What a fixup has found so far.
#[derive(Default)]
struct Findings {
    rows: Vec<Value>,
    /// Findings that are still there.
    lost: usize,
    /// Findings in databases that a repair would mend.
    repairable: usize,
    /// Places of the engine's files that cannot be read.
    blocks: usize,
    /// What cannot be read there.
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
                Ok(result) => {
                    for finding in &result.findings {
                        self.repairable += usize::from(finding.is_repairable());
                        self.add(path, &finding.to_string(), result.repaired && finding.is_repairable());
                        self.mark_mendable(finding.is_repairable());
                        if matches!(finding, Finding::AccessControlLost { .. }) {
                            self.unlisted.push(path.clone());
                        }
                    }
                }
                Err(notes::Error::NotFound { .. }) => return Err(Failure::no_such("db", path)),
                Err(error) => {
                    self.add(path, &error.to_string(), false);
                    // It may be the filter of a file that leads to the database, and that is replaced.
                    self.mark_mendable(true);
                }
            }
        }
        Ok(())
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
            self.blocks += 1;
            self.add("store", &error.to_string(), false);
            self.damage.push(error);
        }
        let blobs = notes.store().blobs();
        match blobs.verify_all(notes.store().as_ref(), &mut |bytes| read("reading attachments", bytes)) {
            Ok(damage) => damage.iter().for_each(|error| self.add("attachments", &error.to_string(), false)),
            Err(error @ store::Error::Damaged { .. }) => self.add("attachments", &error.to_string(), false),
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
        let left = ground.store.engine().verify(&mut |_| ())?;
        let is_left = |finding: &str| left.iter().any(|error| error.to_string() == finding);
        let mut mended = 0;
        for row in self.rows.iter_mut().filter(|row| row["database"] == "store") {
            if !is_left(row["finding"].as_str().unwrap_or_default()) {
                row["mended"] = json!(true);
                mended += 1;
            }
        }
        self.blocks = left.len();
        self.lost = self.lost.saturating_sub(mended);
        Ok(ground)
    }

    /// Repairs databases whose findings were told before, and says which of them are mended.
    fn finish(&mut self, notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Result<(), Failure> {
        let mut repaired = Self::default();
        repaired.databases(notes, request, report)?;
        for path in &self.unlisted {
            // An older list may have come back from beneath the damage, with whom it let in then.
            fixup::close(notes, path)?;
        }
        let unmended: Vec<&Value> = repaired.rows.iter().filter(|row| row["mended"] == json!(false)).collect();
        for row in self.rows.iter_mut().filter(|row| row["mendable"] == json!(true)) {
            let is_left =
                unmended.iter().any(|left| left["database"] == row["database"] && left["finding"] == row["finding"]);
            row["mended"] = json!(!is_left);
            self.lost -= usize::from(!is_left);
        }
        for row in unmended {
            let is_told = |told: &Value| told["database"] == row["database"] && told["finding"] == row["finding"];
            if !self.rows.iter().any(is_told) {
                self.lost += 1;
                self.rows.push(row.clone());
            }
        }
        self.repairable = 0;
        self.unlisted.extend(repaired.unlisted);
        Ok(())
    }

    fn answer(self, request: &FixupRequest) -> Outcome {
        if self.rows.is_empty() {
            return Ok(Answer::say("No damage was found."));
        }
        let (count, lost, next) = (self.rows.len(), self.lost, self.next_step(request.check_only));
        if lost == 0 {
            return Ok(Answer::list(self.rows).and(format!("{count} findings, all of them mended.")));
        }
        let lines: Vec<String> =
            self.rows.iter().map(|row| format!("  {}: {}", row["database"], row["finding"])).collect();
        Err(Failure::Refused(format!("{count} findings, {lost} of them not mended:\n{}\n{next}", lines.join("\n"))))
    }

    /// Says what is true of what was not mended.
    fn next_step(&self, check_only: bool) -> String {
        let mut says = Vec::new();
        if check_only && self.repairable > 0 {
            says.push(format!("`doublet fixup` without --check-only mends {} of them.", self.repairable));
        }
        let mendable = if check_only { self.repairable } else { 0 };
        if self.lost > self.blocks + mendable {
            says.push(
                "What a backup has of the rest, restoring it brings back; notes that cannot be read were or will be put \
                 aside, so that the others work on."
                    .to_owned(),
            );
        }
        if let Some(path) = self.unlisted.last() {
            says.push(format!("`doublet db acl {path} set WHO --level LEVEL` lets others in again."));
        }
        if self.blocks > 0 {
            says.push(
                "The damaged places stay in the store's files: it refuses changes when it meets them while tidying up. Stop the server and run \
                 `doublet fixup` again, which replaces what files it can. If they are still there, export what is newer than the last backup, look at the disk, \
                 and restore the backup."
                    .to_owned(),
            );
        }
        says.join("\n")
    }

    /// Notes of the last finding whether a repair mends it.
    fn mark_mendable(&mut self, is_mendable: bool) {
        if let Some(row) = self.rows.last_mut() {
            row["mendable"] = json!(is_mendable);
        }
    }

    fn add(&mut self, database: &str, finding: &str, mended: bool) {
        self.lost += usize::from(!mended);
        self.rows.push(record(vec![
            ("database", json!(database)),
            ("finding", json!(finding)),
            ("mended", json!(mended)),
            ("mendable", json!(mended)),
        ]));
    }
}

/// Gives the tables in which damage is.
fn tables_of(damage: &[store::Error]) -> BTreeSet<store::Table> {
    let table =
        |error: &store::Error| if let store::Error::Damaged { table, .. } = error { Some(*table) } else { None };
    damage.iter().filter_map(table).collect()
}
