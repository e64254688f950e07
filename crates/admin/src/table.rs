//! `doublet db import` and `doublet db export`: import and export of documents as tables (CSV, JSON lines).
//!
//! An import samples the first rows to determine the content of each column and reports the result. With `--dry-run` it
//! stops after reading the whole file. Options can set the types of columns, rename them or leave them out. Rejected
//! rows are reported with their numbers and reasons; all others are imported, some hundred per transaction. Each
//! transaction also records the progress ([`import_progress`]), so that an interrupted import has added a known part of
//! the rows and can continue after it. A row without an end stops the import: the rows before it are imported, and the
//! command fails.

mod columns;
mod export;
mod import_progress;
mod quotes;
mod rows;

use std::collections::HashSet;

use base::Unid;
use notes::{Access, DatabaseKind, Item, NewNote, Writer, level};
use serde_json::{Value as Json, json};
use store::Ticket;

use self::columns::Columns;
pub(super) use self::export::export;
use self::import_progress::{ImportProgress, profile_name};
use self::rows::{Row, RowError, Rows};
use super::answer::record;
use super::request::TableImport;
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, report_step};
use crate::limits::TABLE_REFUSALS_MAX;
use instance::Instance;

/// Maximum number of documents per transaction.
const ROWS_PER_TRANSACTION: usize = 500;

/// Number of row bytes after which a transaction accepts no more rows.
const BYTES_PER_TRANSACTION: usize = 8 << 20;

/// Imports the rows of a file into a database.
pub(super) fn import(instance: &Instance, request: &TableImport, report: &mut ProgressCallback<'_>) -> AdminResult {
    let access = open(instance, &request.path)?;
    let kind = access.database().record().kind;
    let commands = match kind {
        DatabaseKind::Directory => Some("`doublet user`, `group` and `domain`"),
        DatabaseKind::MailBox => Some("mail alone"),
        DatabaseKind::Log | DatabaseKind::Sessions | DatabaseKind::Uploads => Some("the server alone"),
        DatabaseKind::Standard | DatabaseKind::Mail => None,
    };
    if let Some(commands) = commands {
        return Err(AdminError::Refused(format!(
            "a table cannot be imported into {}: its documents come from {commands}",
            request.path
        )));
    }
    let _running = ImportGuard::begin(instance, request)?;
    let progress = ImportProgress::begin(request, &access)?;
    let mut rows = Rows::open(request)?;
    let mut columns = Columns::determine(request, &mut rows, &access)?;
    for number in 1..=progress.rows {
        if let Some((Ok(row), _)) = rows.next()? {
            // A row with too many columns was already rejected and reported by the interrupted import.
            let _ = columns.add_new_columns(&row, number);
        }
    }
    let durable = progress.clone();
    let mut work = Import {
        instance,
        request,
        access,
        columns,
        detected: rows.delimiter().filter(|detected| *detected != ',' && request.delimiter.is_none()),
        waiting: Vec::new(),
        unids: HashSet::new(),
        waiting_bytes: 0,
        progress,
        under_way: None,
        durable_progress: durable,
        rejected_rows: Vec::new(),
        unread: None,
    };
    while let Some((row, length)) = rows.next().map_err(|failure| work.with_durable_progress(failure))? {
        work.add_row(row, length)?;
        // The reported rows survive a crash.
        let done = if request.dry_run { work.progress.rows } else { work.durable_progress.rows };
        if done > 0 && work.progress.rows.is_multiple_of(ROWS_PER_TRANSACTION as u64) {
            let step = format!("{} into {}", if request.dry_run { "reading" } else { "importing" }, request.path);
            let ended = report_step(report, Progress { step, done, total: None, unit: Unit::Rows });
            ended.map_err(|failure| work.with_durable_progress(failure))?;
        }
    }
    work.flush(if work.unread.is_some() { ImportProgress::write_at_unread_row } else { ImportProgress::delete })?;
    work.await_durability()?;
    Ok(work.answer())
}

/// Guard that keeps others from running the same import at the same time. While it exists, a progress record in the
/// database does not mean that the import was interrupted.
struct ImportGuard<'c> {
    instance: &'c Instance,
    key: (String, String),
}

impl<'c> ImportGuard<'c> {
    fn begin(instance: &'c Instance, request: &TableImport) -> Result<Self, AdminError> {
        let key = (request.path.to_lowercase(), profile_name(&request.file));
        if instance.imports.lock().insert(key.clone()) {
            return Ok(Self { instance, key });
        }
        let file = request.file.display();
        Err(AdminError::Refused(format!(
            "an import of {file} into {} is running; wait until it has finished",
            request.path
        )))
    }
}

impl Drop for ImportGuard<'_> {
    fn drop(&mut self) {
        self.instance.imports.lock().remove(&self.key);
    }
}

/// Function that writes the progress of the import within a transaction.
type RecordProgress = fn(&mut ImportProgress, &mut Writer<'_, '_>) -> Result<(), notes::Error>;

/// A running import.
struct Import<'i> {
    instance: &'i Instance,
    request: &'i TableImport,
    access: Access<level::Designer>,
    columns: Columns,
    /// Detected CSV delimiter, if the request does not set one and it is not a comma.
    detected: Option<char>,
    waiting: Vec<NewNote>,
    /// UNIDs of the rows in `waiting`, which are not in the database yet.
    unids: HashSet<Unid>,
    /// Number of bytes of the rows in `waiting`.
    waiting_bytes: usize,
    /// Progress including the rows that are not committed yet.
    progress: ImportProgress,
    /// The transaction that is being written to disk while the next rows are read, with its progress.
    under_way: Option<(Ticket, ImportProgress)>,
    /// Progress that is durable.
    durable_progress: ImportProgress,
    /// The first rejected rows.
    rejected_rows: Vec<Json>,
    /// The reason why the next row, and with it the rest of the file, cannot be read.
    unread: Option<String>,
}

impl Import<'_> {
    fn add_row(&mut self, row: Result<Row, RowError>, length: usize) -> Result<(), AdminError> {
        let number = self.progress.rows + 1;
        let new = match row.and_then(|row| self.build_document(&row, number).map_err(RowError::Invalid)) {
            Ok(new) => self.check_unid(new)?,
            fault => fault,
        };
        match new {
            Ok(new) => {
                self.waiting.push(new);
                self.waiting_bytes += length;
            }
            Err(RowError::Invalid(reason)) => {
                self.progress.refused += 1;
                self.reject_row(number, &reason);
            }
            Err(RowError::Endless(reason)) => {
                self.reject_row(number, &format!("{reason}; the rest of the file was not read"));
                self.unread = Some(reason);
                return Ok(());
            }
        }
        self.progress.rows = number;
        let is_enough = self.waiting.len() >= ROWS_PER_TRANSACTION || self.waiting_bytes >= BYTES_PER_TRANSACTION;
        if is_enough { self.flush(ImportProgress::write) } else { Ok(()) }
    }

    fn reject_row(&mut self, number: u64, reason: &str) {
        if self.rejected_rows.len() < TABLE_REFUSALS_MAX {
            self.rejected_rows.push(record(vec![("row", json!(number)), ("reason", json!(reason))]));
        }
    }

    /// Creates the document for a row. Content that is invalid in a document is reported as an error of the row, before
    /// a transaction contains it.
    fn build_document(&mut self, row: &Row, number: u64) -> Result<NewNote, String> {
        self.columns.add_new_columns(row, number)?;
        let mut items = self.columns.items_of_row(row)?;
        if let Some(form) = &self.request.form {
            items.retain(|item| !item.is_named("Form"));
            items.insert(0, Item::text("Form", form.clone()));
        }
        notes::item::check_items(&items).map_err(|error| error.to_string())?;
        Ok(NewNote { unid: self.columns.unid(row)?, ..NewNote::document(items) })
    }

    /// Rejects a document whose UNID is in use or reserved for profile documents.
    fn check_unid(&mut self, new: NewNote) -> Result<Result<NewNote, RowError>, AdminError> {
        let Some(unid) = new.unid else { return Ok(Ok(new)) };
        let reader: Access<level::Reader> = self.access.downgrade();
        let reading = reader.read()?;
        let header = reading.find(unid)?.map(|note| reading.header(note)).transpose()?.flatten();
        let is_taken = header.is_some_and(|header| !header.is_stub()) || self.unids.contains(&unid);
        Ok(if is_taken {
            Err(RowError::Invalid(format!("a document with the UNID {unid} already exists")))
        } else if notes::profile::is_profile_unid(unid) {
            Err(RowError::Invalid(format!("the UNID {unid} is reserved for profile documents")))
        } else {
            self.unids.insert(unid);
            Ok(new)
        })
    }

    /// Creates the documents of the waiting rows and records the progress with `record_progress`. On return the
    /// previous transaction is durable.
    fn flush(&mut self, record_progress: RecordProgress) -> Result<(), AdminError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.progress.documents += waiting.len() as u64;
        if self.request.dry_run {
            return Ok(());
        }
        let ticket = self.commit(waiting, record_progress).map_err(|failure| self.with_durable_progress(failure))?;
        // From now on these UNIDs are found in the database.
        self.unids.clear();
        self.await_durability()?;
        self.under_way = Some((ticket, self.progress.clone()));
        Ok(())
    }

    fn commit(&mut self, documents: Vec<NewNote>, record_progress: RecordProgress) -> Result<Ticket, AdminError> {
        let writing = self.access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = self.instance.databases.transaction(&accesses)?;
        for new in documents {
            transaction.writer(0).note_create(new)?;
        }
        record_progress(&mut self.progress, &mut transaction.writer(0))?;
        Ok(transaction.commit()?)
    }

    /// Waits until the pending transaction is durable.
    fn await_durability(&mut self) -> Result<(), AdminError> {
        let Some((ticket, progress)) = self.under_way.take() else { return Ok(()) };
        let waited = self.instance.databases.store().durable(ticket).wait();
        waited.map_err(|error| self.with_durable_progress(error.into()))?;
        self.durable_progress = progress;
        Ok(())
    }

    /// Adds the durable progress to a failure.
    fn with_durable_progress(&mut self, failure: AdminError) -> AdminError {
        // The pending transaction may still succeed.
        if let Some((ticket, progress)) = self.under_way.take()
            && self.instance.databases.store().durable(ticket).wait().is_ok()
        {
            self.durable_progress = progress;
        }
        let documents = self.durable_progress.documents;
        if self.request.dry_run || documents == 0 {
            return failure;
        }
        let next = if self.durable_progress.is_resumable() {
            "; the same command with --resume continues after them"
        } else {
            ""
        };
        failure.with_partial_result(format!(
            "{} created before that{next}",
            format_count(documents, "document was", "documents were")
        ))
    }

    fn answer(self) -> Answer {
        let refused = self.progress.refused + u64::from(self.unread.is_some());
        let unread = self.unread.as_ref().map(|_| self.progress.rows + 1);
        let mut answer = Answer::record(vec![
            ("columns", json!(self.columns.records())),
            ("documents", json!(self.progress.documents)),
            ("refused", json!(refused)),
            ("rejected_rows", json!(self.rejected_rows)),
            ("unread_from_row", json!(unread)),
            ("warnings", json!(self.columns.hints())),
        ]);
        answer.messages = self.columns.late_messages();
        answer.messages.extend(self.detected.map(delimiter_message));
        answer.messages.push(if self.request.dry_run {
            format!("{} would be imported; nothing was changed.", format_count(self.progress.documents, "row", "rows"))
        } else {
            let made = format_count(self.progress.documents, "document was", "documents were");
            format!("{made} created in {}.", self.request.path)
        });
        answer.failure = self.failure_text(refused);
        answer
    }

    /// Returns the error of an import with rejected or unread rows, with advice on how to continue, or `None` if all
    /// rows were imported.
    fn failure_text(&self, refused: u64) -> Option<String> {
        if let Some(reason) = &self.unread {
            let next = match self.progress.is_resumable() && self.progress.rows > 0 {
                true => "; correct that row, and the same command with --resume continues with it",
                false => "",
            };
            let row = self.progress.rows + 1;
            return Some(format!("row {row} and everything after it was not read: {reason}{next}"));
        }
        let rows = format_count(refused, "row was", "rows were");
        (refused > 0).then(|| format!("{rows} not imported; see the messages above"))
    }
}

/// Returns a sentence about the detected delimiter.
fn delimiter_message(delimiter: char) -> String {
    let name = if delimiter == '\t' { "tabs".to_owned() } else { format!("{delimiter:?}") };
    format!("Fields were separated by {name}, as detected in the first line; --delimiter sets another delimiter.")
}

fn open(instance: &Instance, path: &str) -> Result<Access<level::Designer>, AdminError> {
    super::open::open(instance, path).map(|access| access.downgrade())
}

#[cfg(test)]
mod tests;
