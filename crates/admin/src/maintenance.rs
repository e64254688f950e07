//! `doublet backup` and `doublet blobs`: backup of the store, and administration of the attachments.

use std::ops::ControlFlow;
use std::path::Path;

use instance::Instance;
use notes::{Databases, fixup};
use serde_json::json;

use super::request::{BackupRequest, BlobRequest};
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, data_files, format_count, report_step};
use crate::limits::BLOB_COLLECTION_STEP;

/// Maximum number of notes listed as users of one missing attachment.
const USERS_NAMED_MAX: usize = 100;

pub(super) fn backup(instance: &Instance, request: &BackupRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let folder = &request.folder;
    check_outside_data(instance, folder)?;
    let data_files = data_files::of_backup(instance, request)?;
    let mut flow = ControlFlow::Continue(());
    let done = store::backup::backup(&instance.store, folder, &data_files, &mut |progress| {
        if flow.is_continue() {
            flow = report(backup_progress("copying", progress));
        }
    })?;
    let mut fields = vec![
        ("backup", json!(done.number)),
        ("folder", json!(folder.display().to_string())),
        ("files", json!(done.files)),
        ("size_bytes", json!(done.bytes)),
        ("copied_bytes", json!(done.copied_bytes)),
        ("encrypted", json!(done.encrypted)),
        ("has_keys", json!(done.has_keys)),
    ];
    if let Some(keep) = request.keep {
        let freed = store::backup::prune(folder, usize::try_from(keep).unwrap_or(usize::MAX))?;
        fields.push(("freed_bytes", json!(freed)));
    }
    let answer = Answer::record(fields)
        .with_message(format!("`doublet restore {} --data NEW-FOLDER` restores it.", folder.display()));
    Ok(match (done.has_keys, done.encrypted) {
        (true, _) => answer.with_message("Restoring the keys and certificates in it requires the passphrase."),
        (false, true) => answer.with_message("Restoring it requires a copy of the key of the attachments."),
        (false, false) => answer.with_message("It contains no keys and certificates; --passphrase-file includes them."),
    })
}

/// Refuses a backup folder within the data folder or the log folder. Such a backup would be lost together with the
/// data, and could be mistaken for a part of them.
fn check_outside_data(instance: &Instance, folder: &Path) -> Result<(), AdminError> {
    let log_folder = instance.config.store.log_folder.0.as_ref().map(|path| instance.data.resolve(path));
    let places = [Some(instance.data.path().to_owned()), log_folder];
    match places.into_iter().flatten().find(|place| store::backup::lies_within(folder, place)) {
        None => Ok(()),
        Some(place) => Err(AdminError::Refused(format!(
            "{} is inside {}, which it is to back up; name a folder elsewhere, preferably on another disk",
            folder.display(),
            place.display()
        ))),
    }
}

/// Converts the store's backup progress into an administration progress.
pub fn backup_progress(step: &str, progress: store::backup::BackupProgress) -> Progress {
    Progress { step: step.to_owned(), done: progress.bytes, total: Some(progress.bytes_total), unit: Unit::Bytes }
}

pub(super) fn blobs(instance: &Instance, request: &BlobRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let mut messages = Vec::new();
    if request.collect {
        let (count, bytes) = collect_unused_blobs(instance, report)?;
        let removed = format_count(count, "unused attachment was", "unused attachments were");
        messages.push(format!("{removed} removed ({}).", format_count(bytes, "byte", "bytes")));
    }
    if request.rebuild {
        messages.push(rebuild_references(&instance.databases)?);
    }
    let found = instance.store.blobs().report(instance.store.as_ref())?;
    let mut answer = Answer::record(vec![
        ("count", json!(found.count)),
        ("content_bytes", json!(found.raw_bytes)),
        ("stored_bytes", json!(found.stored_bytes)),
        ("references", json!(found.references)),
        ("saved_bytes", json!(found.saved_bytes)),
        ("missing", json!(found.missing_count)),
        ("missing_names", json!(found.missing.iter().map(ToString::to_string).collect::<Vec<_>>())),
        ("missing_users", json!(users_of_missing(instance, &found.missing)?)),
        ("orphaned", json!(found.orphaned_count)),
        ("orphaned_bytes", json!(found.orphaned_bytes)),
    ]);
    answer.messages = messages;
    Ok(answer)
}

/// Lists the notes that use missing attachments, with their databases.
fn users_of_missing(instance: &Instance, missing: &[store::BlobId]) -> Result<Vec<String>, AdminError> {
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let databases = instance.databases.database_list()?;
    let mut users = Vec::new();
    for blob in missing {
        for owner in instance.store.blobs().users(instance.store.as_ref(), blob, USERS_NAMED_MAX)? {
            let database = databases.iter().find(|record| record.number == owner.database);
            let path = database.map_or_else(|| format!("database {}", owner.database.0), |record| record.path.clone());
            users.push(format!("{path}, note {}: {blob}", owner.note));
        }
    }
    Ok(users)
}

/// Rebuilds the table of references to attachments.
///
/// No other task may use the data folder meanwhile: a reference added between the scan of the databases and the rebuild
/// would be lost.
pub(super) fn rebuild_references(databases: &Databases) -> Result<String, AdminError> {
    let mut uses = Vec::new();
    for facts in databases.database_list()? {
        let database = databases.database_open(&facts.path)?;
        fixup::blob_uses(&database, &mut |owner, blob| uses.push(Ok((owner, blob))))?;
    }
    let store = databases.store();
    let rebuilt = store.blobs().rebuild(store, &mut uses.into_iter(), databases.clock().now())?;
    Ok(format!(
        "The table of references to attachments was rebuilt: {} missing, {} wrong, {} no references.",
        format_count(rebuilt.added, "was", "were"),
        format_count(rebuilt.removed, "was", "were"),
        format_count(rebuilt.orphaned, "attachment has", "attachments have")
    ))
}

/// Removes unused attachments step by step. Returns their number and their size in bytes.
pub fn collect_unused_blobs(instance: &Instance, report: &mut ProgressCallback<'_>) -> Result<(u64, u64), AdminError> {
    let mut count = 0_u64;
    let mut bytes = 0_u64;
    loop {
        let step_done = instance.store.blobs().collect(&instance.store, instance.clock.now(), BLOB_COLLECTION_STEP)?;
        count = count.saturating_add(step_done.removed);
        bytes = bytes.saturating_add(step_done.removed_bytes);
        report_step(
            report,
            Progress { step: "removing unused attachments".to_owned(), done: bytes, total: None, unit: Unit::Bytes },
        )?;
        if !step_done.more {
            return Ok((count, bytes));
        }
    }
}
