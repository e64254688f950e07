//! `doublet fixup`, `backup` and `blobs`: what keeps a store sound.

use std::ops::ControlFlow;
use std::path::Path;

use serde_json::json;

use super::request::{BlobRequest, FixupRequest};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::Core;

/// Attachments that one step of the collector looks at.
const COLLECT_STEP: usize = 500;

pub(super) fn backup(core: &Core, folder: &Path, report: &mut Report<'_>) -> Outcome {
    let mut flow = ControlFlow::Continue(());
    let done = store::backup::backup(&core.store, folder, &mut |progress| {
        if flow.is_continue() {
            flow = report(bytes_done("copying", progress));
        }
    })?;
    Ok(Answer::record(vec![
        ("backup", json!(done.number)),
        ("folder", json!(folder.display().to_string())),
        ("files", json!(done.files)),
        ("size_bytes", json!(done.bytes)),
        ("copied_bytes", json!(done.copied_bytes)),
    ])
    .and(format!("`doublet restore {} --data NEW-FOLDER` brings it back.", folder.display())))
}

/// Puts the store's progress into ours.
pub(crate) fn bytes_done(what: &str, progress: store::backup::Progress) -> Progress {
    Progress { what: what.to_owned(), done: progress.bytes, total: Some(progress.bytes_total), unit: Unit::Bytes }
}

pub(super) fn fixup(core: &Core, _request: &FixupRequest, report: &mut Report<'_>) -> Outcome {
    let mut flow = ControlFlow::Continue(());
    core.store.engine().verify(&mut |bytes| {
        if flow.is_continue() {
            flow =
                report(Progress { what: "reading the store".to_owned(), done: bytes, total: None, unit: Unit::Bytes });
        }
    })?;
    let damage = core.store.blobs().verify_all(core.store.as_ref(), &mut |bytes| {
        if flow.is_continue() {
            flow = report(Progress {
                what: "reading attachments".to_owned(),
                done: bytes,
                total: None,
                unit: Unit::Bytes,
            });
        }
    })?;
    if !damage.is_empty() {
        let lines: Vec<String> = damage.iter().map(|error| format!("  {error}")).collect();
        return Err(Failure::Refused(format!(
            "{} attachments are damaged:\n{}\nRestore a backup to get them back.",
            damage.len(),
            lines.join("\n")
        )));
    }
    Ok(Answer::say("No damage was found."))
}

pub(super) fn blobs(core: &Core, request: &BlobRequest, report: &mut Report<'_>) -> Outcome {
    let mut says = Vec::new();
    if request.collect {
        let (count, bytes) = collect(core, report)?;
        says.push(format!("{count} attachments without users were removed ({bytes} bytes)."));
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
