//! `doublet db import` and `doublet db export`: documents from tables and into tables (CSV, JSON lines).
//!
//! An import looks at the first rows to find out what each column holds, says so, and with `--dry-run` stops after having read everything. Types can be
//! said, and columns named otherwise or left out. Rows that cannot be taken are told with their numbers and reasons; all others are taken, some hundred
//! in a transaction, which says how far it is ([`mark`]), so that an import that is broken off has taken a known part and can go on behind it.
//! A row that has no end is where it stops: those before are taken, and the command fails.

mod columns;
mod export;
mod mark;
mod quotes;
mod rows;

use std::collections::HashSet;
use std::sync::PoisonError;

use base::Unid;
use notes::{Access, DatabaseKind, Item, NewNote, Writer, level};
use serde_json::{Value as Json, json};
use store::Ticket;

use self::columns::Columns;
pub(super) use self::export::export;
use self::mark::{Mark, name_of};
use self::rows::{Fault, Row, Rows};
use super::answer::record;
use super::request::TableImport;
use super::{Answer, Failure, Outcome, Progress, Report, Unit, counted, databases, step};
use crate::core::Core;
use crate::limits::TABLE_REFUSALS_MAX;

/// Documents of one transaction.
const ROWS_PER_TRANSACTION: usize = 500;

/// Bytes of rows after which a transaction takes no more.
const BYTES_PER_TRANSACTION: usize = 8 << 20;

/// Brings the rows of a file into a database.
pub(super) fn import(core: &Core, request: &TableImport, report: &mut Report<'_>) -> Outcome {
    let access = open(core, &request.path)?;
    let kind = access.database().record().kind;
    if matches!(kind, DatabaseKind::Directory | DatabaseKind::MailBox) {
        let commands =
            if kind == DatabaseKind::Directory { "`doublet user`, `group` and `domain`" } else { "mail alone" };
        return Err(Failure::Refused(format!("{} is filled by {commands}", request.path)));
    }
    let _running = Running::begin(core, request)?;
    let mark = Mark::begin(request, &access)?;
    let mut rows = Rows::open(request)?;
    let mut columns = Columns::find(request, &mut rows, &access)?;
    for number in 1..=mark.rows {
        if let Some((Ok(row), _)) = rows.next()? {
            // A row that has too many was refused and told when it was taken.
            let _ = columns.meet(&row, number);
        }
    }
    let durable = mark.clone();
    let mut work = Import {
        core,
        request,
        access,
        columns,
        guessed: rows.delimiter().filter(|guessed| *guessed != ',' && request.delimiter.is_none()),
        waiting: Vec::new(),
        unids: HashSet::new(),
        waiting_bytes: 0,
        mark,
        under_way: None,
        durable,
        refusals: Vec::new(),
        unread: None,
    };
    while let Some((row, length)) = rows.next().map_err(|failure| work.broken_off(failure))? {
        work.take(row, length)?;
        // What is told would be there after a crash.
        let done = if request.dry_run { work.mark.rows } else { work.durable.rows };
        if done > 0 && work.mark.rows.is_multiple_of(ROWS_PER_TRANSACTION as u64) {
            let what = format!("{} into {}", if request.dry_run { "reading" } else { "importing" }, request.path);
            let ended = step(report, Progress { what, done, total: None, unit: Unit::Rows });
            ended.map_err(|failure| work.broken_off(failure))?;
        }
    }
    work.flush(if work.unread.is_some() { Mark::put_unread } else { Mark::end })?;
    work.settle()?;
    Ok(work.answer())
}

/// An import that nobody else makes meanwhile: until it has ended, what stands about it in the database is no sign that it was broken off.
struct Running<'c> {
    core: &'c Core,
    what: (String, String),
}

impl<'c> Running<'c> {
    fn begin(core: &'c Core, request: &TableImport) -> Result<Self, Failure> {
        let what = (request.path.to_lowercase(), name_of(&request.file));
        if core.imports.lock().unwrap_or_else(PoisonError::into_inner).insert(what.clone()) {
            return Ok(Self { core, what });
        }
        let file = request.file.display();
        Err(Failure::Refused(format!("an import of {file} into {} is running; wait until it has ended", request.path)))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.core.imports.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.what);
    }
}

/// Notes down in a transaction how far the import is.
type NoteDown = fn(&mut Mark, &mut Writer<'_, '_>) -> Result<(), notes::Error>;

/// An import under way.
struct Import<'i> {
    core: &'i Core,
    request: &'i TableImport,
    access: Access<level::Designer>,
    columns: Columns,
    /// What separates the fields of CSV, where nobody said it and it is no comma.
    guessed: Option<char>,
    waiting: Vec<NewNote>,
    /// The UNIDs that rows have which are no documents yet.
    unids: HashSet<Unid>,
    /// Bytes of the rows that they were.
    waiting_bytes: usize,
    /// How far it is.
    mark: Mark,
    /// The transaction that the disk is busy with while the next rows are read, and how far it comes.
    under_way: Option<(Ticket, Mark)>,
    /// How far it is for sure.
    durable: Mark,
    /// The first of the rows that were refused.
    refusals: Vec<Json>,
    /// Why the row behind those that are counted, and all further ones, could not be read.
    unread: Option<String>,
}

impl Import<'_> {
    fn take(&mut self, row: Result<Row, Fault>, length: usize) -> Result<(), Failure> {
        let number = self.mark.rows + 1;
        let new = match row.and_then(|row| self.document(&row, number).map_err(Fault::Row)) {
            Ok(new) => self.check_unid(new)?,
            fault => fault,
        };
        match new {
            Ok(new) => {
                self.waiting.push(new);
                self.waiting_bytes += length;
            }
            Err(Fault::Row(why)) => {
                self.mark.refused += 1;
                self.refuse(number, &why);
            }
            Err(Fault::Rest(why)) => {
                self.refuse(number, &format!("{why}; nothing from here on was read"));
                self.unread = Some(why);
                return Ok(());
            }
        }
        self.mark.rows = number;
        let is_enough = self.waiting.len() >= ROWS_PER_TRANSACTION || self.waiting_bytes >= BYTES_PER_TRANSACTION;
        if is_enough { self.flush(Mark::put) } else { Ok(()) }
    }

    fn refuse(&mut self, number: u64, why: &str) {
        if self.refusals.len() < TABLE_REFUSALS_MAX {
            self.refusals.push(record(vec![("row", json!(number)), ("why", json!(why))]));
        }
    }

    /// Makes the document that a row becomes. What no document may hold is the row's own fault, and is found before a transaction has it.
    fn document(&mut self, row: &Row, number: u64) -> Result<NewNote, String> {
        self.columns.meet(row, number)?;
        let mut items = self.columns.items(row)?;
        if let Some(form) = &self.request.form {
            items.retain(|item| !item.is_named("Form"));
            items.insert(0, Item::text("Form", form.clone()));
        }
        notes::item::check_all(&items).map_err(|error| error.to_string())?;
        Ok(NewNote { unid: self.columns.unid(row)?, ..NewNote::document(items) })
    }

    /// Refuses a document with a UNID that another one has, or that none may have.
    fn check_unid(&mut self, new: NewNote) -> Result<Result<NewNote, Fault>, Failure> {
        let Some(unid) = new.unid else { return Ok(Ok(new)) };
        let reader: Access<level::Reader> = self.access.lower();
        let reading = reader.read()?;
        let header = reading.find(unid)?.map(|note| reading.header(note)).transpose()?.flatten();
        let is_taken = header.is_some_and(|header| !header.is_stub()) || self.unids.contains(&unid);
        Ok(if is_taken {
            Err(Fault::Row(format!("there is a document with the UNID {unid} already")))
        } else if notes::profile::is_profile(unid) {
            Err(Fault::Row(format!("the UNID {unid} is one of profile documents")))
        } else {
            self.unids.insert(unid);
            Ok(new)
        })
    }

    /// Makes the documents of the rows that wait, and says with `note_down` how far that is. The transaction before is durable afterwards.
    fn flush(&mut self, note_down: NoteDown) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.mark.documents += waiting.len() as u64;
        if self.request.dry_run {
            return Ok(());
        }
        let ticket = self.commit(waiting, note_down).map_err(|failure| self.broken_off(failure))?;
        // They are found in the database from now on.
        self.unids.clear();
        self.settle()?;
        self.under_way = Some((ticket, self.mark.clone()));
        Ok(())
    }

    fn commit(&mut self, documents: Vec<NewNote>, note_down: NoteDown) -> Result<Ticket, Failure> {
        let writing = self.access.lower::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = self.core.notes.transaction(&accesses)?;
        for new in documents {
            transaction.on(0).note_create(new)?;
        }
        note_down(&mut self.mark, &mut transaction.on(0))?;
        Ok(transaction.commit()?)
    }

    /// Waits for the transaction that is under way.
    fn settle(&mut self) -> Result<(), Failure> {
        let Some((ticket, mark)) = self.under_way.take() else { return Ok(()) };
        let waited = self.core.notes.store().durable(ticket).wait();
        waited.map_err(|error| self.broken_off(error.into()))?;
        self.durable = mark;
        Ok(())
    }

    /// Says how far it has come for sure.
    fn broken_off(&mut self, failure: Failure) -> Failure {
        // What is under way may still end well.
        if let Some((ticket, mark)) = self.under_way.take()
            && self.core.notes.store().durable(ticket).wait().is_ok()
        {
            self.durable = mark;
        }
        let documents = self.durable.documents;
        if self.request.dry_run || documents == 0 {
            return failure;
        }
        let next = if self.durable.is_kept() { "; the same command with --resume goes on behind them" } else { "" };
        failure.after(format!("{} made before{next}", counted(documents, "document was", "documents were")))
    }

    fn answer(self) -> Answer {
        let refused = self.mark.refused + u64::from(self.unread.is_some());
        let unread = self.unread.as_ref().map(|_| self.mark.rows + 1);
        let mut answer = Answer::record(vec![
            ("columns", json!(self.columns.records())),
            ("documents", json!(self.mark.documents)),
            ("refused", json!(refused)),
            ("refusals", json!(self.refusals)),
            ("unread_from_row", json!(unread)),
            ("warnings", json!(self.columns.hints())),
        ]);
        answer.says = self.columns.late();
        answer.says.extend(self.guessed.map(separated_by));
        answer.says.push(if self.request.dry_run {
            format!("{} would be taken; nothing was changed.", counted(self.mark.documents, "row", "rows"))
        } else {
            let made = counted(self.mark.documents, "document was", "documents were");
            format!("{made} made in {}.", self.request.path)
        });
        answer.complaint = self.complaint(refused);
        answer
    }

    /// Says what was not taken, if something was not, and how to go on.
    fn complaint(&self, refused: u64) -> Option<String> {
        if let Some(why) = &self.unread {
            let next = match self.mark.is_kept() && self.mark.rows > 0 {
                true => "; once that row is mended, the same command with --resume goes on with it",
                false => "",
            };
            let row = self.mark.rows + 1;
            return Some(format!("row {row} and everything behind it was not read: {why}{next}"));
        }
        let rows = counted(refused, "row was", "rows were");
        (refused > 0).then(|| format!("{rows} not taken; what stands above says why"))
    }
}

/// Tells what separates the fields of a file.
fn separated_by(delimiter: char) -> String {
    let name = if delimiter == '\t' { "tabs".to_owned() } else { format!("{delimiter:?}") };
    format!("The first line has {name} between its fields; so the file was read, for want of --delimiter.")
}

fn open(core: &Core, path: &str) -> Result<Access<level::Designer>, Failure> {
    databases::open(core, path).map(|access| access.lower())
}

#[cfg(test)]
mod tests;
