//! `doublet fixup`, `backup` and `blobs`: what keeps a store sound.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};

use super::answer::record;
use super::request::{BlobRequest, FixupRequest};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::Core;

/// Attachments that one step of the collector looks at.
const COLLECT_STEP: usize = 500;

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

pub(super) fn fixup(core: &Core, request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut found = Findings::default();
    found.databases(core, request, report)?;
    if request.paths.is_empty() {
        found.store(core, report)?;
    }
    let rows = found.rows;
    match (rows.len(), found.lost) {
        (0, _) => Ok(Answer::say("No damage was found.")),
        (count, 0) => Ok(Answer::list(rows).and(format!("{count} findings, all of them mended."))),
        (count, lost) => {
            let lines: Vec<String> =
                rows.iter().map(|row| format!("  {}: {}", row["database"], row["finding"])).collect();
            let next = if request.check_only {
                "`doublet fixup` without --check-only mends what can be derived."
            } else {
                "Restore a backup for what could not be mended."
            };
            Err(Failure::Refused(format!("{count} findings, {lost} of them not mended:\n{}\n{next}", lines.join("\n"))))
        }
    }
}

/// What a fixup has found so far.
#[derive(Default)]
struct Findings {
    rows: Vec<Value>,
    /// Findings that are still there.
    lost: usize,
}

impl Findings {
    fn databases(&mut self, core: &Core, request: &FixupRequest, report: &mut Report<'_>) -> Result<(), Failure> {
        let paths = if request.paths.is_empty() {
            core.notes.database_list()?.into_iter().map(|record| record.path).collect()
        } else {
            request.paths.clone()
        };
        let total = Some(paths.len() as u64);
        for (done, path) in (0..).zip(&paths) {
            step(report, Progress { what: "checking databases".to_owned(), done, total, unit: Unit::Databases })?;
            let database = match core.notes.database_open(path) {
                Err(notes::Error::NotFound { .. }) => return Err(Failure::no_such("db", path)),
                other => other?,
            };
            let checked =
                if request.check_only { notes::fixup::check(&database) } else { notes::fixup::repair(&database) };
            match checked {
                Ok(result) => {
                    for finding in &result.findings {
                        self.add(path, &finding.to_string(), result.repaired && finding.is_repairable());
                    }
                }
                Err(error) => self.add(path, &error.to_string(), false),
            }
        }
        Ok(())
    }

    /// Reads every byte of the store and of the attachments.
    fn store(&mut self, core: &Core, report: &mut Report<'_>) -> Result<(), Failure> {
        let mut flow = ControlFlow::Continue(());
        let mut read = |what: &str, done| {
            if flow.is_continue() {
                flow = report(Progress { what: what.to_owned(), done, total: None, unit: Unit::Bytes });
            }
        };
        if let Err(error) = core.store.engine().verify(&mut |bytes| read("reading the store", bytes)) {
            self.add("store", &error.to_string(), false);
        }
        let damage =
            core.store.blobs().verify_all(core.store.as_ref(), &mut |bytes| read("reading attachments", bytes))?;
        for error in damage {
            self.add("attachments", &error.to_string(), false);
        }
        Ok(())
    }

    fn add(&mut self, database: &str, finding: &str, mended: bool) {
        self.lost += usize::from(!mended);
        self.rows.push(record(vec![
            ("database", json!(database)),
            ("finding", json!(finding)),
            ("mended", json!(mended)),
        ]));
    }
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
        ("orphaned", json!(found.orphaned_count)),
        ("orphaned_bytes", json!(found.orphaned_bytes)),
    ]);
    answer.says = says;
    Ok(answer)
}

/// Makes the table of who uses which attachment anew. Only while nobody else works on the data folder: what was added
/// between the look at the databases and the rebuild would lose its reference.
fn rebuild(core: &Core) -> Result<String, Failure> {
    let mut uses = Vec::new();
    for facts in core.notes.database_list()? {
        let database = core.notes.database_open(&facts.path)?;
        notes::fixup::blob_uses(&database, &mut |owner, blob| uses.push(Ok((owner, blob))))?;
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
