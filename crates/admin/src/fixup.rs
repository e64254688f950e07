//! `doublet fixup`: finds damage and repairs derived data.
//!
//! The steps and their order are described in `docs/operating.md`. Every finding is a [`ReportedFinding`] of the
//! answer, and the command succeeds if every row is repaired. Later steps keep the findings of earlier ones. They mark
//! a finding as not repaired if that turns out, and add their own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use instance::StoreServices;
use notes::Databases;
use notes::fixup::{self, FixupFinding, FixupReport, FixupStage};
use serde_json::{Value, json};
use store::{Direction, KeyRange, Table};

use super::answer::record;
use super::request::FixupRequest;
use super::{
    AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, maintenance, report_step,
};
use crate::limits::REPAIR_ROUNDS_MAX;

/// Place of findings about the engine's files.
const STORE: &str = "store";

/// Place of findings about attachments.
const ATTACHMENTS: &str = "attachments";

/// Tables of which no record may be given up. A gap in them would hide which numbers are in use, or how the store is to
/// be read.
const INDISPENSABLE_TABLES: [Table; 2] = [Table::Catalog, Table::Store];

/// Checks or repairs databases while other tasks use the store. The files of the store are not replaced.
pub(super) fn execute(databases: &Databases, request: &FixupRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.check_store(databases, report)?;
    }
    found.check_databases(databases, request, report)?;
    found.answer(request.check_only)
}

/// Checks or repairs databases while no other process uses the data folder, so that damaged files can be replaced. No
/// database needs to open.
pub fn execute_offline(
    services: StoreServices,
    request: &FixupRequest,
    report: &mut ProgressCallback<'_>,
) -> AdminResult {
    let mut found = Findings::default();
    if request.paths.is_empty() {
        found.check_store(&services.databases, report)?;
    }
    found.check_databases(&services.databases, request, report)?;
    if request.check_only || !request.paths.is_empty() {
        return found.answer(request.check_only);
    }
    if !found.unreadable.is_empty() {
        found.repair_files(services, request, report)?;
    } else if services.store.blobs().are_references_missing(&services.store)? {
        // An earlier fixup was killed before it rebuilt the references.
        found.rebuild_references(&services.databases);
    }
    found.answer(request.check_only)
}

/// One finding in the form in which it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ReportedFinding {
    /// The path of a database, or [`STORE`] or [`ATTACHMENTS`].
    location: String,
    description: String,
    kind: FindingKind,
    repaired: bool,
}

/// The kind of a finding, which decides how it can be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FindingKind {
    /// A damaged block in the engine's files. It is repaired once it is no longer there.
    Block,
    /// Damage that a repair of the database fixes.
    Derived,
    /// Damage that only a backup can undo.
    Lost,
    /// A check or repair that failed because of damage.
    Failed,
    /// A check or repair that failed for a reason unrelated to the damage.
    Blocked,
}

/// Describes the progress of checking a database.
fn progress_of(path: &str, stage: FixupStage, total: u64) -> Progress {
    let (step, done, unit) = match stage {
        FixupStage::Notes(done) => ("reading", done, Unit::Notes),
        FixupStage::Compared(done) => ("comparing", done, Unit::Notes),
        FixupStage::Views(done) => ("checking the views of", done, Unit::Views),
    };
    Progress { step: format!("{step} {path}"), done, total: Some(total), unit }
}

/// Findings of a fixup so far.
#[derive(Default)]
struct Findings {
    rows: Vec<ReportedFinding>,
    /// Parts of the engine's files that cannot be read.
    unreadable: Vec<store::Error>,
    /// Paths of databases that lost their access control lists.
    databases_without_acl: Vec<String>,
    /// Sentences about rebuilt data that is not a finding.
    messages: Vec<String>,
}

impl Findings {
    fn check_databases(
        &mut self,
        databases: &Databases,
        request: &FixupRequest,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(), AdminError> {
        let paths = if request.paths.is_empty() {
            databases.database_list()?.into_iter().map(|record| record.path).collect()
        } else {
            request.paths.clone()
        };
        let total = Some(paths.len() as u64);
        for (done, path) in (0..).zip(&paths) {
            report_step(
                report,
                Progress { step: "checking databases".to_owned(), done, total, unit: Unit::Databases },
            )?;
            let work = if request.check_only { fixup::check_at } else { fixup::repair_at };
            // The repair of a database is not interrupted once it has started. The step before the next database
            // notices that the caller wants to stop.
            let mut on_progress = |stage, total| {
                let _ = report(progress_of(path, stage, total));
            };
            match work(databases, path, &mut on_progress) {
                Ok(result) => {
                    self.add_report(path, &result);
                    if result.repaired
                        && let Err(error) = mail::mailbox::restore_default_folders(databases, path)
                    {
                        self.add(
                            path,
                            FindingKind::Failed,
                            format!("its default mailboxes cannot be recreated: {error}"),
                            false,
                        );
                    }
                }
                Err(notes::Error::NotFound { .. }) => return Err(AdminError::no_such("db", path)),
                Err(error) => {
                    let kind = if error.is_damage() { FindingKind::Failed } else { FindingKind::Blocked };
                    self.add(path, kind, error.to_string(), false);
                }
            }
        }
        Ok(())
    }

    fn add_report(&mut self, path: &str, result: &FixupReport) {
        for finding in &result.findings {
            let kind = if finding.is_repairable() { FindingKind::Derived } else { FindingKind::Lost };
            self.add(path, kind, finding.to_string(), result.repaired && kind == FindingKind::Derived);
            if matches!(finding, FixupFinding::AccessControlLost { .. }) {
                self.databases_without_acl.push(path.to_owned());
            }
        }
    }

    /// Reads every byte of the store and of the attachments.
    fn check_store(&mut self, databases: &Databases, report: &mut ProgressCallback<'_>) -> Result<(), AdminError> {
        let mut flow = ControlFlow::Continue(());
        let mut read = |step: &str, done| {
            if flow.is_continue() {
                flow = report(Progress { step: step.to_owned(), done, total: None, unit: Unit::Bytes });
            }
        };
        for error in databases.store().engine().verify(&mut |bytes| read("reading the store", bytes))? {
            self.add(STORE, FindingKind::Block, error.to_string(), false);
            self.unreadable.push(error);
        }
        let blobs = databases.store().blobs();
        match blobs.verify_all(databases.store().as_ref(), &mut |bytes| read("reading attachments", bytes)) {
            Ok(damage) => {
                damage.iter().for_each(|error| self.add(ATTACHMENTS, FindingKind::Lost, error.to_string(), false));
            }
            Err(error @ store::Error::Damaged { .. }) => {
                self.add(ATTACHMENTS, FindingKind::Failed, error.to_string(), false)
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Removes the damaged blocks from the store's files.
    ///
    /// The databases have recorded by now what is lost with these blocks. If one of them could not record it, the
    /// blocks stay, because the information could not be recovered afterwards.
    fn repair_files(
        &mut self,
        services: StoreServices,
        request: &FixupRequest,
        report: &mut ProgressCallback<'_>,
    ) -> Result<(), AdminError> {
        if self.rows.iter().any(|row| row.kind == FindingKind::Blocked) {
            return Ok(());
        }
        let were_references =
            tables_of(&self.unreadable).iter().any(|table| matches!(table, Table::BlobRef | Table::BlobFree));
        if were_references {
            services.store.blobs().set_references_missing(&services.store)?;
        }
        let services = self.replace_files(services, report)?;
        let mut again = Self::default();
        again.check_databases(&services.databases, request, report)?;
        self.merge_second_repair(again);
        if were_references {
            self.rebuild_references(&services.databases);
        }
        self.merge_remaining_blocks(&services.store.engine().verify(&mut |_| ())?);
        Ok(())
    }

    /// Replaces damaged files table by table. A table that fails does not stop the repair of the others.
    fn replace_files(
        &mut self,
        mut services: StoreServices,
        report: &mut ProgressCallback<'_>,
    ) -> Result<StoreServices, AdminError> {
        let mut damage = std::mem::take(&mut self.unreadable);
        for _ in 0..REPAIR_ROUNDS_MAX {
            let mut taken = Vec::new();
            for table in tables_of(&damage) {
                if INDISPENSABLE_TABLES.contains(&table) && !is_readable(&services.databases, table)? {
                    continue;
                }
                let step = format!("replacing files of {}", table.name());
                report_step(report, Progress { step, done: 0, total: None, unit: Unit::Bytes })?;
                match services.store.engine().salvage(table, &damage) {
                    Ok(damaged) => taken.extend(damaged),
                    Err(error) => self.add_once(format!("its files of {} cannot be replaced: {error}", table.name())),
                }
            }
            if taken.is_empty() {
                break;
            }
            // Damage behind these blocks becomes visible only after they are removed.
            services = services.reopen_without_files(&taken).map_err(|error| AdminError::Refused(error.to_string()))?;
            damage = services.store.engine().verify(&mut |_| ())?;
        }
        Ok(services)
    }

    /// Adds a reason why files cannot be replaced, unless it is reported already.
    fn add_once(&mut self, description: String) {
        if !self.rows.iter().any(|row| row.location == STORE && row.description == description) {
            self.add(STORE, FindingKind::Blocked, description, false);
        }
    }

    fn rebuild_references(&mut self, databases: &Databases) {
        match maintenance::rebuild_references(databases) {
            Ok(done) => self.messages.push(done),
            Err(error) => self.add(
                ATTACHMENTS,
                FindingKind::Failed,
                format!("the table of references to attachments cannot be rebuilt: {error}"),
                false,
            ),
        }
    }

    /// Marks blocks as repaired, except the damage that is still there.
    ///
    /// The position at which a read meets a damaged block depends on the data before it. The earlier report of a block
    /// therefore does not show whether damage found now is the same.
    fn merge_remaining_blocks(&mut self, left: &[store::Error]) {
        for row in self.rows.iter_mut().filter(|row| row.kind == FindingKind::Block) {
            row.repaired = true;
        }
        for error in left {
            let description = error.to_string();
            self.rows.retain(|row| row.kind != FindingKind::Block || row.description != description);
            self.add(STORE, FindingKind::Block, description, false);
        }
    }

    /// Merges the findings of a second repair of all databases. Findings of a database on which the second repair
    /// failed count as not repaired.
    fn merge_second_repair(&mut self, again: Self) {
        let is_failure = |row: &&ReportedFinding| matches!(row.kind, FindingKind::Failed | FindingKind::Blocked);
        for failed in again.rows.iter().filter(is_failure) {
            self.rows.iter_mut().filter(|row| row.location == failed.location).for_each(|row| row.repaired = false);
        }
        // Failures of the first repair are dropped, because their cause, for example the damaged filter of a file, may
        // be removed by now.
        self.rows.retain(|row| row.kind != FindingKind::Failed || row.location == ATTACHMENTS);
        for row in again.rows {
            match self
                .rows
                .iter_mut()
                .find(|known| known.location == row.location && known.description == row.description)
            {
                Some(known) => known.repaired &= row.repaired,
                None => self.rows.push(row),
            }
        }
        self.databases_without_acl.extend(again.databases_without_acl);
    }

    fn answer(self, check_only: bool) -> AdminResult {
        if self.rows.is_empty() {
            return Ok(self.messages.into_iter().fold(Answer::message("No damage was found."), Answer::with_message));
        }
        let findings = format_count(self.rows.len(), "finding", "findings");
        let lines: Vec<String> =
            self.unrepaired().map(|row| format!("  {}: {}", row.location, row.description)).collect();
        if lines.is_empty() {
            let rows = self.rows.into_iter().map(ReportedFinding::into_json).collect();
            let answer = Answer::list(rows).with_message(format!("{findings}, all repaired."));
            return Ok(self.messages.into_iter().fold(answer, Answer::with_message));
        }
        let left = lines.len();
        let next = self.next_step(check_only);
        Err(AdminError::Refused(format!("{findings}, {left} of them not repaired:\n{}\n{next}", lines.join("\n"))))
    }

    /// Returns the findings that are not repaired.
    fn unrepaired(&self) -> impl Iterator<Item = &ReportedFinding> {
        self.rows.iter().filter(|row| !row.repaired)
    }

    /// Returns advice about the findings that are not repaired.
    fn next_step(&self, check_only: bool) -> String {
        let count = |kind| self.unrepaired().filter(|row| row.kind == kind).count();
        let repairable = if check_only { count(FindingKind::Derived) } else { 0 };
        let mut messages = Vec::new();
        if repairable > 0 {
            messages.push(format!("`doublet fixup` without --check-only repairs {repairable} of them."));
        }
        if self.unrepaired().count() > count(FindingKind::Block) + repairable {
            messages.push(
                "To recover the rest, restore a backup. Unreadable notes are moved to quarantine, so the others remain \
                 usable."
                    .to_owned(),
            );
        }
        if let Some(path) = self.databases_without_acl.last() {
            messages.push(format!("`doublet db acl {path} set WHO --level LEVEL` gives access to others again."));
        }
        if count(FindingKind::Block) > 0 {
            messages.push(
                "The damaged blocks remain in the store's files: the store refuses changes when it finds them during a compaction. Stop the \
                 server and run `doublet fixup` again, which replaces the files that it can. If the damage remains, export what is newer than the last \
                 backup, check the disk, and restore the backup."
                    .to_owned(),
            );
        }
        messages.join("\n")
    }

    fn add(&mut self, location: &str, kind: FindingKind, description: String, repaired: bool) {
        self.rows.push(ReportedFinding { location: location.to_owned(), description, kind, repaired });
    }
}

/// Returns `true` if all records of a table can be read, so that only the access structures that lead to them are
/// damaged.
fn is_readable(databases: &Databases, table: Table) -> Result<bool, AdminError> {
    let mut cursor = databases.store().engine().scan(table, &KeyRange::all(), Direction::Forward)?;
    loop {
        match cursor.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(store::Error::Damaged { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns the tables that contain damage.
fn tables_of(damage: &[store::Error]) -> BTreeSet<Table> {
    let table =
        |error: &store::Error| if let store::Error::Damaged { table, .. } = error { Some(*table) } else { None };
    damage.iter().filter_map(table).collect()
}

impl ReportedFinding {
    fn into_json(self) -> Value {
        record(vec![
            ("database", json!(self.location)),
            ("finding", json!(self.description)),
            ("repaired", json!(self.repaired)),
        ])
    }
}

#[cfg(test)]
mod tests;
