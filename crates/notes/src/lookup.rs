//! What formulas look up outside of their document, for one who reads a database: views (`@DbColumn`, `@DbLookup`), other documents (`@GetDocField`) and
//! profiles (`@GetProfileField`). What is hidden from the reader is not found.
//!
//! A view gives what its index has: nobody brings it up to date in the midst of an evaluation. What was looked up once is kept while the [`Lookups`] live, which
//! is as long as one snapshot; a search asks the same for each document.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use base::{Name, NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{Access, Column, Fact, Lookup};
use formula::{Host, Moment, Text, Value};

use crate::evaluate::{Surroundings, as_operand};
use crate::item;
use crate::limits::{LOOKUP_BYTES_MAX, LOOKUP_COST, LOOKUP_COST_MAX, LOOKUP_ROWS_MAX, LOOKUPS_KEPT_MAX};
use crate::reading::Reading;
use crate::view::cell::{self, One};
use crate::view::entries::{EntryReader, Mask, Request, Start};
use crate::view::navigate::{Expansion, Navigator};
use crate::view::reader::Shown;

/// What a look-up came to; the failure as the formula tells it.
type Found = Result<Value<'static>, String>;

/// The surroundings of formulas for one who reads a database.
pub struct Lookups<'r> {
    reading: &'r Reading<'r>,
    surroundings: Surroundings,
    known: RefCell<HashMap<String, Found>>,
    /// Rows that were read, and look-ups that count as some.
    spent: Cell<u64>,
}

impl<'r> Lookups<'r> {
    /// Makes them for a snapshot.
    #[must_use]
    pub fn new(reading: &'r Reading<'r>) -> Self {
        Self { reading, surroundings: reading.surroundings(), known: RefCell::default(), spent: Cell::new(0) }
    }

    /// Tells whether so much was looked up that the rest fails: then what formulas gave since is not to be relied on.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.spent.get() > LOOKUP_COST_MAX
    }

    /// Counts what is looked up.
    fn spend(&self, rows: usize) -> Result<(), String> {
        self.spent.set(self.spent.get() + rows as u64);
        if self.is_exhausted() { Err("Too much is looked up".to_owned()) } else { Ok(()) }
    }

    /// Looks up what is not known yet.
    fn keep(&self, what: String, look: impl FnOnce() -> Found) -> Found {
        if let Some(found) = self.known.borrow().get(&what) {
            return found.clone();
        }
        let found = self.spend(LOOKUP_COST).and_then(|()| look());
        let mut known = self.known.borrow_mut();
        if known.len() >= LOOKUPS_KEPT_MAX {
            known.clear();
        }
        known.insert(what, found.clone());
        found
    }

    fn in_view(&self, lookup: &Lookup<'_>) -> Found {
        let database = self.reading.database();
        let is_here = lookup.database.is_empty()
            || lookup.database.eq_ignore_ascii_case(&database.path())
            || lookup.database.eq_ignore_ascii_case(&database.record().replica_id.to_string());
        if !lookup.server.is_empty() || !is_here {
            return Err("Only views of this database can be looked up".to_owned());
        }
        let view = self.reading.view_find(lookup.view).and_then(|info| self.reading.view(info.note));
        let view = view.map_err(|error| error.to_string())?;
        let entries = EntryReader::open(self.reading, &view, 0).map_err(|error| error.to_string())?;
        let has = |keyword: &str| lookup.keywords.iter().any(|said| said.eq_ignore_ascii_case(keyword));
        let is_partial = has("PartialMatch");
        let range = match lookup.key {
            None => Some((Vec::new(), None)),
            Some(key) => {
                let found = entries.rows().find_by_key(&[One::Text(key)], is_partial);
                found.map_err(|error| error.to_string())?.map(|found| (found.first, found.end))
            }
        };
        let mut values = Values::default();
        if let Some((first, end)) = range {
            let columns = &view.info.view.design.columns;
            let wanted = match lookup.column {
                _ if has("ReturnDocumentUniqueID") => Wanted::Unid,
                Column::Field(name) => Wanted::Field(name),
                Column::Number(number) if number <= columns.len() => Wanted::Cell(number - 1),
                Column::Number(number) => return Err(format!("View {:?} has no column {number}", lookup.view)),
            };
            let is_category = matches!(wanted, Wanted::Cell(column) if columns[column].categorised);
            self.read(&entries, (first, end), &wanted, &mut values)?;
            if is_category && lookup.key.is_none() {
                values.once();
            }
        }
        match lookup.key {
            Some(_) if values.is_empty() && !has("FailSilent") => Err("Entry not found in index".to_owned()),
            _ => Ok(values.into_value()),
        }
    }

    /// Reads what is wanted of the documents in a range of rows.
    fn read(
        &self,
        entries: &EntryReader<'_>,
        (first, end): (Vec<u8>, Option<Vec<u8>>),
        wanted: &Wanted<'_>,
        values: &mut Values,
    ) -> Result<(), String> {
        let expansion = Arc::new(Expansion::default());
        let mut start = if first.is_empty() { Start::Beginning } else { Start::Key(first) };
        let mut rows_left = LOOKUP_ROWS_MAX;
        loop {
            let request = Request {
                start,
                skip: (Navigator::Current, 0),
                navigator: Navigator::Next,
                limit: rows_left.min(500),
                expansion: Arc::clone(&expansion),
                mask: Mask::default(),
            };
            let found = entries.read(&request).map_err(|error| error.to_string())?;
            self.spend(found.rows.len())?;
            for row in &found.rows {
                if end.as_ref().is_some_and(|end| row.key >= *end) {
                    return Ok(());
                }
                let Shown::Document { note, row } = &row.shown else { continue };
                match wanted {
                    Wanted::Unid => values.text(&row.unid.to_string())?,
                    Wanted::Cell(column) => values.cell(row.cells.get(*column).unwrap_or(&cell::Cell::None))?,
                    Wanted::Field(name) => values.value(self.field(*note, name)?.as_ref())?,
                }
            }
            rows_left -= found.rows.len();
            match found.next {
                None => return Ok(()),
                Some(next) if end.as_ref().is_some_and(|end| next >= *end) => return Ok(()),
                Some(_) if rows_left == 0 => {
                    return Err(format!("More than {LOOKUP_ROWS_MAX} rows are too many to be looked up"));
                }
                Some(next) => start = Start::Key(next),
            }
        }
    }

    /// Gives a field of a note; nothing where the note is hidden or has none.
    fn field(&self, note: NoteId, name: &str) -> Result<Option<Value<'static>>, String> {
        let summary = self.reading.summary(note).map_err(|error| error.to_string())?;
        let item = summary.as_ref().and_then(|summary| item::find(&summary.items, name));
        Ok(item.and_then(|item| as_operand(&item.value.lend()).map(Value::into_owned)))
    }
}

/// What of each row is looked up.
enum Wanted<'l> {
    Unid,
    Cell(usize),
    Field(&'l str),
}

/// Values that were found, of the type of the first.
#[derive(Default)]
struct Values {
    texts: Vec<String>,
    numbers: Vec<f64>,
    times: Vec<Timestamp>,
    bytes: usize,
}

impl Values {
    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.times.is_empty()
    }

    fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes <= LOOKUP_BYTES_MAX {
            return Ok(());
        }
        Err(format!("More than {LOOKUP_BYTES_MAX} bytes are too many to be looked up"))
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        self.charge(text.len() + 2)?;
        self.texts.push(text.to_owned());
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        self.numbers.push(number);
        self.charge(size_of::<f64>())
    }

    fn time(&mut self, time: Timestamp) -> Result<(), String> {
        self.times.push(time);
        self.charge(size_of::<Timestamp>())
    }

    fn cell(&mut self, cell: &cell::Cell) -> Result<(), String> {
        match cell {
            cell::Cell::None | cell::Cell::Error(_) => Ok(()),
            cell::Cell::Texts(texts) => texts.iter().try_for_each(|text| self.text(text)),
            cell::Cell::Numbers(numbers) => numbers.iter().try_for_each(|number| self.number(*number)),
            cell::Cell::Times(times) => times.iter().try_for_each(|time| self.time(*time)),
        }
    }

    fn value(&mut self, value: Option<&Value<'_>>) -> Result<(), String> {
        let Some(value) = value else { return Ok(()) };
        (0..value.count()).filter_map(|index| value.element(index)).try_for_each(|element| match element {
            Value::Text(text) => self.text(&text),
            Value::Number(number) => self.number(number),
            Value::Time(moment) => moment.instant().map_or(Ok(()), |time| self.time(time)),
            _ => Ok(()),
        })
    }

    /// Keeps each text once, where it is first.
    fn once(&mut self) {
        let mut seen = std::collections::HashSet::new();
        self.texts.retain(|text| seen.insert(text.clone()));
    }

    /// Gives them as one list. Texts and other values in one column are the texts: a list has one type.
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

impl Host for Lookups<'_> {
    fn now(&self) -> Timestamp {
        self.surroundings.now()
    }

    fn fact(&self, fact: Fact) -> Option<&str> {
        self.surroundings.fact(fact)
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        self.surroundings.user_names()
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        self.surroundings.user_roles()
    }

    fn user_access(&self, database: &str) -> Option<Access> {
        self.surroundings.user_access(database)
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        self.surroundings.replica_id()
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        Some(self.keep(format!("{lookup:?}"), || self.in_view(lookup)))
    }

    fn document_field(&self, unid: Unid, name: &str) -> Option<Result<Value<'_>, String>> {
        if let Err(why) = self.spend(1) {
            return Some(Err(why));
        }
        let note = match self.reading.find(unid) {
            Ok(Some(note)) => note,
            Ok(None) => return None,
            Err(error) => return Some(Err(error.to_string())),
        };
        Some(self.field(note, name).map(|value| value.unwrap_or(Value::EMPTY)))
    }

    fn profile_field(&self, profile: &str, name: &str, user: &str) -> Option<Value<'_>> {
        let what = format!("{profile:?} {name:?} {user:?}");
        let found = self.keep(what, || {
            let user = (!user.is_empty()).then(|| Name::new(user));
            let note = self.reading.profile(profile, user.as_ref()).map_err(|error| error.to_string())?;
            let item = note.as_ref().and_then(|note| item::find(&note.items, name));
            Ok(item.and_then(|item| as_operand(&item.value.lend()).map(Value::into_owned)).unwrap_or(Value::EMPTY))
        });
        found.ok()
    }
}
