//! `doublet fixup`, `backup` and `blobs`: what keeps a store sound.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use notes::Notes;
use notes::fixup::{self, Finding};
use serde_json::{Value, json};

use super::answer::record;
use super::request::{BlobRequest, FixupRequest};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::{Core, Ground};
use crate::limits::{COLLECT_STEP, MEND_ROUNDS_MAX};

/// Notes that are named of those that use one missing attachment.
const USERS_NAMED_MAX: usize = 100;

pub(super) fn backup(core: &Core, folder: &Path, keep: Option<u32>, report: &mut Report<'_>) -> Outcome {
    refuse_within_data(core, folder)?;
    let mut flow = ControlFlow::Continue(());
    let done = store::backup::backup(&core.store, folder, &mut |progress| {
        if flow.is_continue() {
            flow = report(bytes_done("copying", progress));
        }
    })?;
    let mut fields = vec![
        ("backup", json!(done.number)),
        ("folder", json!(folder.display().to_string())),
        ("files", json!(done.files)),
        ("size_bytes", json!(done.bytes)),
        ("copied_bytes", json!(done.copied_bytes)),
    ];
    if let Some(keep) = keep {
        let freed = store::backup::prune(folder, usize::try_from(keep).unwrap_or(usize::MAX))?;
        fields.push(("freed_bytes", json!(freed)));
    }
    Ok(Answer::record(fields).and(format!("`doublet restore {} --data NEW-FOLDER` brings it back.", folder.display())))
}

/// A backup among the data is lost with them, and could be taken for a part of them.
fn refuse_within_data(core: &Core, folder: &Path) -> Result<(), Failure> {
    let log_folder = core.config.store.log_folder.0.as_ref().map(|path| core.data.resolve(path));
    let places = [Some(core.data.path().to_owned()), log_folder];
    match places.into_iter().flatten().find(|place| store::backup::lies_within(folder, place)) {
        None => Ok(()),
        Some(place) => Err(Failure::Refused(format!(
            "{} lies in {}, which it is to be a backup of; name a folder elsewhere, best on another disk",
            folder.display(),
            place.display()
        ))),
    }
}

/// Puts the store's progress into ours.
pub(crate) fn bytes_done(what: &str, progress: store::backup::Progress) -> Progress {
    Progress { what: what.to_owned(), done: progress.bytes, total: Some(progress.bytes_total), unit: Unit::Bytes }
}

/// Checks or repairs databases while others work on the store, whose files stay as they are.
pub(super) fn fixup(notes: &Notes, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.store(notes, report)?;
    }
    found.databases(notes, request, report)?;
    found.answer(request)
}

/// Checks or repairs databases while nobody else works on the data folder, so that damaged files are replaced. No database needs to open.
pub fn fixup_alone(ground: Ground, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
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

pub(super) fn blobs(core: &Core, request: &BlobRequest, report: &mut Report<'_>) -> Outcome {
    let mut says = Vec::new();
    if request.collect {
        let (count, bytes) = collect(core, report)?;
        says.push(format!("{count} attachments without users were removed ({bytes} bytes)."));
    }
    if request.rebuild {
        says.push(rebuild(core)?);
    }
    let found = core.store.blobs().report(core.store.as_ref())?;
    let mut answer = Answer::record(vec![
        ("count", json!(found.count)),
        ("content_bytes", json!(found.raw_bytes)),
        ("stored_bytes", json!(found.stored_bytes)),
        ("references", json!(found.references)),
        ("saved_bytes", json!(found.saved_bytes)),
        ("missing", json!(found.missing_count)),
        ("missing_names", json!(found.missing.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("missing_users", json!(users_of_missing(core, &found.missing)?)),
        ("orphaned", json!(found.orphaned_count)),
        ("orphaned_bytes", json!(found.orphaned_bytes)),
    ]);
    answer.says = says;
    Ok(answer)
}

/// Says whose notes use attachments that are missing.
fn users_of_missing(core: &Core, missing: &[store::BlobId]) -> Result<Vec<String>, Failure> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let databases = core.notes.database_list()?;
    let mut users = Vec::new();
    for blob in missing {
        for owner in core.store.blobs().users(core.store.as_ref(), blob, USERS_NAMED_MAX)? {
            let database = databases.iter().find(|record| record.number == owner.database);
            let path = database.map_or_else(|| format!("database {}", owner.database.0), |record| record.path.clone());
            users.push(format!("{path}, note {}: {blob}", owner.note));
        }
    }
    Ok(users)
}

/// Makes the table of who uses which attachment anew. Only while nobody else works on the data folder: what was added
/// between the look at the databases and the rebuild would lose its reference.
fn rebuild(core: &Core) -> Result<String, Failure> {
    let mut uses = Vec::new();
    for facts in core.notes.database_list()? {
        let database = core.notes.database_open(&facts.path)?;
        fixup::blob_uses(&database, &mut |owner, blob| uses.push(Ok((owner, blob))))?;
    }
    let rebuilt = core.store.blobs().rebuild(&core.store, &mut uses.into_iter(), core.clock.now())?;
    Ok(format!(
        "The table of uses was rebuilt: {} were missing, {} were wrong, {} attachments have no user.",
        rebuilt.added, rebuilt.removed, rebuilt.orphaned
    ))
}

/// Removes content that nobody uses, step by step; gives how many and how many bytes.
pub(crate) fn collect(core: &Core, report: &mut Report<'_>) -> Result<(u64, u64), Failure> {
    let (mut count, mut bytes) = (0_u64, 0_u64);
    loop {
        let step_done = core.store.blobs().collect(&core.store, core.clock.now(), COLLECT_STEP)?;
        count = count.saturating_add(step_done.removed);
        bytes = bytes.saturating_add(step_done.removed_bytes);
        step(
            report,
            Progress { what: "removing unused attachments".to_owned(), done: bytes, total: None, unit: Unit::Bytes },
        )?;
        if !step_done.more {
            return Ok((count, bytes));
        }
    }
}
