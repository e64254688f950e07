//! Lookups of formulas outside of their document, on behalf of a reader of a database: views (`@DbColumn`,
//! `@DbLookup`), other documents (`@GetDocField`) and profiles (`@GetProfileField`). Data that is hidden from the
//! reader is not found.
//!
//! A lookup in a view reads its index as it is. No view is refreshed during an evaluation. Results are memoized as
//! long as the [`LookupContext`] exist, which is the time of one snapshot, because a search asks for the same lookups
//! for each document.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::{Name, NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{HostText, Lookup, LookupColumn, UserAccess};
use formula::{Host, Moment, Text, Value};

use crate::database_snapshot::DatabaseSnapshot;
use crate::error::Error;
use crate::evaluation_context::EvaluationContext;
use crate::formula_document::to_formula_value;
use crate::limits::{
    LOOKUP_BYTES_MAX, LOOKUP_CACHE_BYTES_MAX, LOOKUP_COST_MAX, LOOKUP_FIXED_COST_ROWS, LOOKUP_KEY_BYTES_MAX,
    LOOKUP_ROWS_MAX,
};
use crate::note::summary_items;
use crate::records::{damaged_note, load_summary_bytes};
use crate::view::cell::{self, CellValue};
use crate::view::navigate::{Navigator, RowExpansion};
use crate::view::read_entries::{EntriesRequest, EntryContents, EntryReader, ReadMask, StartPosition};
use crate::view::reader::ViewRowContents;

/// Number of bytes that a value takes in memory in addition to its text.
const VALUE_BYTES: usize = 32;

/// Number of bytes of a document that cost as much as one row of a view.
const BYTES_PER_ROW: usize = 4 << 10;

/// The result of a lookup. The error is the text that the formula reports.
type LookupResult = Result<Value<'static>, String>;

/// The rows of a view from which a lookup takes its values.
struct RowSpan {
    start: StartPosition,
    rows: u64,
    /// Responses are skipped.
    main_documents_only: bool,
}

/// The context of formulas for a reader of a database, including lookups.
pub struct LookupContext<'r> {
    reading: &'r DatabaseSnapshot<'r>,
    context: EvaluationContext,
    known: RefCell<HashMap<String, LookupResult>>,
    known_bytes: Cell<usize>,
    /// The first failure of the store.
    error: Cell<Option<Error>>,
    /// The cost so far, in rows: the rows that were read, plus fixed costs of lookups.
    spent: Cell<u64>,
}

impl<'r> LookupContext<'r> {
    /// Creates the context for a snapshot.
    #[must_use]
    pub fn new(reading: &'r DatabaseSnapshot<'r>) -> Self {
        Self {
            reading,
            context: reading.evaluation_context(),
            known: RefCell::default(),
            known_bytes: Cell::new(0),
            error: Cell::new(None),
            spent: Cell::new(0),
        }
    }

    /// Returns `true` if the cost limit was exceeded. All further lookups fail, so the results of formulas since then
    /// are not reliable.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.spent.get() > LOOKUP_COST_MAX
    }

    /// Adds to the cost. Fails if the limit is exceeded.
    fn add_cost(&self, rows: u64) -> Result<(), String> {
        self.spent.set(self.spent.get() + rows);
        if self.is_exhausted() { Err("The lookups of this formula exceed the limit".to_owned()) } else { Ok(()) }
    }

    /// Takes the first failure that formulas did not cause: the store cannot be read. The results of formulas since
    /// then are not reliable.
    #[must_use]
    pub fn take_error(&self) -> Option<Error> {
        self.error.take()
    }

    /// Converts an error into the text that the formula reports, and keeps the first failure of the store.
    fn report_error<T>(&self, read: crate::error::Result<T>) -> Result<T, String> {
        read.map_err(|error| {
            let reason = error.to_string();
            if error.is_damage() || error.is_temporary() {
                let first = self.error.take().unwrap_or(error);
                self.error.set(Some(first));
            }
            reason
        })
    }

    /// Returns the memoized result of a lookup, or runs it. `what` identifies the lookup.
    fn memoized(&self, what: String, look: impl FnOnce() -> LookupResult) -> LookupResult {
        if let Some(found) = self.known.borrow().get(&what) {
            return found.clone();
        }
        self.add_cost(LOOKUP_FIXED_COST_ROWS)?;
        if what.len() > LOOKUP_KEY_BYTES_MAX {
            return Err("The arguments of the lookup are too long".to_owned());
        }
        let found = look();
        let bytes = what.len() + found.as_ref().map_or(0, |value| value.size_bytes() + value.count() * VALUE_BYTES);
        let mut known = self.known.borrow_mut();
        if self.known_bytes.get() + bytes > LOOKUP_CACHE_BYTES_MAX {
            known.clear();
            self.known_bytes.set(0);
        }
        self.known_bytes.set(self.known_bytes.get() + bytes);
        known.insert(what, found.clone());
        found
    }

    fn look_up_view(&self, lookup: &Lookup<'_>) -> LookupResult {
        let database = self.reading.database();
        let is_here = lookup.database.is_empty()
            || lookup.database.eq_ignore_ascii_case(&database.path())
            || lookup.database.eq_ignore_ascii_case(&database.record().replica_id.to_string());
        if !lookup.server.is_empty() || !is_here {
            return Err("Lookups can only use views of this database".to_owned());
        }
        let view =
            self.report_error(self.reading.view_find(lookup.view).and_then(|info| self.reading.view(info.note)))?;
        let entries = self.report_error(EntryReader::open(self.reading, &view, 0))?;
        if self.report_error(entries.rows().applied())? < self.reading.counters().purged_modseq {
            return Err(format!("The index of view {:?} is out of date; open the view, then try again", lookup.view));
        }
        let has = |keyword: &str| lookup.keywords.iter().any(|given| given.eq_ignore_ascii_case(keyword));
        let columns = &view.info.view.design.columns;
        let wanted = match lookup.column {
            _ if has("ReturnDocumentUniqueID") => Wanted::Unid,
            LookupColumn::Field(name) => Wanted::Field(name),
            LookupColumn::Number(number) if number <= columns.len() => Wanted::Cell(number - 1),
            LookupColumn::Number(number) => return Err(format!("View {:?} has no column {number}", lookup.view)),
        };
        let is_category = matches!(wanted, Wanted::Cell(column) if columns[column].categorized);
        let mut values = Values::new(is_category && lookup.key.is_none());
        let (start, rows) = match lookup.key {
            None => (Some(StartPosition::Beginning), self.report_error(entries.rows().count())?),
            Some(key) => {
                let found =
                    self.report_error(entries.rows().find_by_key(&[CellValue::Text(key)], has("PartialMatch")))?;
                found.map_or((None, 0), |found| (Some(StartPosition::Key(found.first)), found.rows))
            }
        };
        if let Some(start) = start {
            let span = RowSpan { start, rows, main_documents_only: lookup.key.is_some() };
            self.read(&entries, span, &wanted, &mut values)?;
        }
        match lookup.key {
            Some(_) if values.is_empty() && !has("FailSilent") => Err("Entry not found in index".to_owned()),
            _ => Ok(values.into_value()),
        }
    }

    /// Reads the wanted values from the documents in a number of rows.
    ///
    /// If the lookup has a key, only main documents are read, because responses are sorted below them whatever values
    /// they have themselves.
    fn read(
        &self,
        entries: &EntryReader<'_>,
        span: RowSpan,
        wanted: &Wanted<'_>,
        values: &mut Values,
    ) -> Result<(), String> {
        let most = if values.seen.is_some() { LOOKUP_COST_MAX } else { LOOKUP_ROWS_MAX };
        let expansion = Arc::new(RowExpansion::default());
        let RowSpan { mut start, rows, main_documents_only } = span;
        let mut left = rows.min(most);
        while left > 0 {
            let request = EntriesRequest {
                start,
                skip: (Navigator::Current, 0),
                navigator: Navigator::Next,
                limit: left.min(500) as usize,
                expansion: Arc::clone(&expansion),
                mask: ReadMask::default(),
            };
            let found = self.report_error(entries.read(&request))?;
            self.add_cost(found.rows_read)?;
            for row in &found.rows {
                let EntryContents::Row(ViewRowContents::Document { note, row }) = &row.content else { continue };
                if main_documents_only && row.response_level > 0 {
                    continue;
                }
                match wanted {
                    Wanted::Unid => values.add_text(&row.unid.to_string())?,
                    Wanted::Cell(column) => values.add_cell(row.cells.get(*column).unwrap_or(&cell::Cell::None))?,
                    Wanted::Field(name) => values.add_value(self.read_field(*note, name)?.as_ref())?,
                }
            }
            left = left.saturating_sub(found.rows_read.max(1));
            let Some(next) = found.continue_at else { return Ok(()) };
            start = StartPosition::Key(next);
        }
        if rows > most { Err(format!("The lookup matches more than {most} rows")) } else { Ok(()) }
    }

    /// Returns a field of a note, or `None` if the note is hidden or has no such field.
    fn read_field(&self, note: NoteId, name: &str) -> Result<Option<Value<'static>>, String> {
        if !self.report_error(self.reading.is_contents_visible(note))? {
            return Ok(None);
        }
        let database = self.reading.database();
        let bytes = self.report_error(load_summary_bytes(&self.reading.snapshot, database, note))?.unwrap_or_default();
        self.add_cost(1 + (bytes.len() / BYTES_PER_ROW) as u64)?;
        let damaged = |_| damaged_note(database, note, "summary");
        let items = self.report_error(summary_items(&bytes).map_err(damaged))?;
        let item = items.iter().find(|item| item.name.eq_ignore_ascii_case(name));
        let value = item.and_then(|item| to_formula_value(&item.value));
        match value {
            Some(value) if value.size_bytes() > LOOKUP_BYTES_MAX => Err(too_many_bytes()),
            value => Ok(value.map(Value::into_owned)),
        }
    }

    fn read_profile_field(&self, profile: &str, name: &str, user: &str) -> LookupResult {
        let user = (!user.is_empty()).then(|| Name::new(user));
        let Some(note) = self.report_error(self.reading.profile_note_id(profile, user.as_ref()))? else {
            return Ok(Value::EMPTY);
        };
        Ok(self.read_field(note, name)?.unwrap_or(Value::EMPTY))
    }
}

/// The part of each row that is looked up.
enum Wanted<'l> {
    Unid,
    Cell(usize),
    Field(&'l str),
}

/// The values found by a lookup.
#[derive(Default)]
struct Values {
    texts: Vec<String>,
    numbers: Vec<f64>,
    times: Vec<Timestamp>,
    bytes: usize,
    /// The values so far, if duplicates are dropped. Texts are in lower case, because categories do not distinguish
    /// case.
    seen: Option<HashSet<String>>,
}

impl Values {
    fn new(each_once: bool) -> Self {
        Self { seen: each_once.then(HashSet::new), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.times.is_empty()
    }

    /// Counts a value of `bytes` bytes. Returns `false` if it is a duplicate and duplicates are dropped. Fails if the
    /// values become too large.
    fn count_value(&mut self, bytes: usize, value: impl FnOnce() -> String) -> Result<bool, String> {
        if let Some(known) = &mut self.seen
            && !known.insert(value())
        {
            return Ok(false);
        }
        self.bytes += bytes;
        if self.bytes <= LOOKUP_BYTES_MAX { Ok(true) } else { Err(too_many_bytes()) }
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        if self.count_value(text.len() + 2, || text.to_lowercase())? {
            self.texts.push(text.to_owned());
        }
        Ok(())
    }

    fn add_number(&mut self, number: f64) -> Result<(), String> {
        if self.count_value(size_of::<f64>(), || number.to_string())? {
            self.numbers.push(number);
        }
        Ok(())
    }

    fn add_time(&mut self, time: Timestamp) -> Result<(), String> {
        if self.count_value(size_of::<Timestamp>(), || time.0.to_string())? {
            self.times.push(time);
        }
        Ok(())
    }

    fn add_cell(&mut self, cell: &cell::Cell) -> Result<(), String> {
        match cell {
            cell::Cell::None | cell::Cell::Error(_) => Ok(()),
            cell::Cell::Texts(texts) => texts.iter().try_for_each(|text| self.add_text(text)),
            cell::Cell::Numbers(numbers) => numbers.iter().try_for_each(|number| self.add_number(*number)),
            cell::Cell::Times(times) => times.iter().try_for_each(|time| self.add_time(*time)),
        }
    }

    fn add_value(&mut self, value: Option<&Value<'_>>) -> Result<(), String> {
        let Some(value) = value else { return Ok(()) };
        (0..value.count()).filter_map(|index| value.element(index)).try_for_each(|element| match element {
            Value::Text(text) => self.add_text(&text),
            Value::Number(number) => self.add_number(number),
            Value::Time(moment) => moment.instant().map_or(Ok(()), |time| self.add_time(time)),
            _ => Ok(()),
        })
    }

    /// Converts into one list. A list has one type, so if a column has texts and other values, only the texts are kept.
    fn into_value(self) -> Value<'static> {
        if !self.texts.is_empty() {
            Value::from_texts(self.texts.into_iter().map(Text::from).collect())
        } else if !self.numbers.is_empty() {
            Value::from_numbers(self.numbers)
        } else if !self.times.is_empty() {
            Value::from_times(self.times.into_iter().map(Moment::at).collect())
        } else {
            Value::EMPTY
        }
    }
}

impl Host for LookupContext<'_> {
    fn now(&self) -> Timestamp {
        self.context.now()
    }

    fn text(&self, kind: HostText) -> Option<&str> {
        self.context.text(kind)
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        self.context.user_names()
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        self.context.user_roles()
    }

    fn user_access(&self, database: &str) -> Option<UserAccess> {
        self.context.user_access(database)
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        self.context.replica_id()
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        // Parameters that are too long are refused before they are copied.
        let key = lookup.key.map_or(0, str::len)
            + lookup.view.len()
            + lookup.keywords.iter().map(|one| one.len()).sum::<usize>();
        if key > LOOKUP_KEY_BYTES_MAX {
            return Some(Err("The arguments of the lookup are too long".to_owned()));
        }
        Some(self.memoized(format!("{lookup:?}"), || self.look_up_view(lookup)))
    }

    fn document_field(&self, unid: Unid, name: &str) -> Option<Result<Value<'_>, String>> {
        let found = self.add_cost(1).and_then(|()| self.report_error(self.reading.find(unid)));
        let note = match found {
            Ok(note) => note?,
            Err(error) => return Some(Err(error)),
        };
        Some(self.read_field(note, name).map(|value| value.unwrap_or(Value::EMPTY)))
    }

    fn profile_field(&self, profile: &str, name: &str, user: &str) -> Option<Value<'_>> {
        self.memoized(format!("{profile:?} {name:?} {user:?}"), || self.read_profile_field(profile, name, user)).ok()
    }
}

fn too_many_bytes() -> String {
    format!("The result of the lookup has more than {LOOKUP_BYTES_MAX} bytes")
}
