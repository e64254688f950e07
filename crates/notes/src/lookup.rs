//! What formulas look up outside of their document, for one who reads a database: views (`@DbColumn`, `@DbLookup`), other documents (`@GetDocField`) and
//! profiles (`@GetProfileField`). What is hidden from the reader is not found.
//!
//! A view gives what its index has: nobody brings it up to date in the midst of an evaluation. What was looked up once is kept while the [`Lookups`] live, which
//! is as long as one snapshot; a search asks the same for each document.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base::{Name, NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{Access, Column, Fact, Lookup};
use formula::{Host, Moment, Text, Value};

use crate::error::Error;
use crate::evaluate::{Surroundings, as_operand};
use crate::limits::{
    LOOKUP_BYTES_MAX, LOOKUP_COST, LOOKUP_COST_MAX, LOOKUP_KEY_BYTES_MAX, LOOKUP_ROWS_MAX, LOOKUPS_KEPT_BYTES_MAX,
};
use crate::note::summary_items;
use crate::reading::{Reading, damaged_note, load_summary_bytes};
use crate::view::cell::{self, One};
use crate::view::entries::{EntryReader, Mask, Request, Start};
use crate::view::navigate::{Expansion, Navigator};
use crate::view::reader::Shown;

/// Bytes that a value takes in memory besides its text.
const VALUE_BYTES: usize = 32;

/// Bytes of a document that cost as much as a row of a view.
const BYTES_PER_ROW: usize = 4 << 10;

/// What a look-up came to; the failure as the formula tells it.
type Found = Result<Value<'static>, String>;

/// The surroundings of formulas for one who reads a database.
pub struct Lookups<'r> {
    reading: &'r Reading<'r>,
    surroundings: Surroundings,
    known: RefCell<HashMap<String, Found>>,
    known_bytes: Cell<usize>,
    /// The store could not be read.
    fault: Cell<Option<Error>>,
    /// Rows that were read, and look-ups that count as some.
    spent: Cell<u64>,
}

impl<'r> Lookups<'r> {
    /// Makes them for a snapshot.
    #[must_use]
    pub fn new(reading: &'r Reading<'r>) -> Self {
        Self {
            reading,
            surroundings: reading.surroundings(),
            known: RefCell::default(),
            known_bytes: Cell::new(0),
            fault: Cell::new(None),
            spent: Cell::new(0),
        }
    }

    /// Tells whether so much was looked up that the rest fails: then what formulas gave since is not to be relied on.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.spent.get() > LOOKUP_COST_MAX
    }

    /// Counts what is looked up.
    fn spend(&self, rows: u64) -> Result<(), String> {
        self.spent.set(self.spent.get() + rows);
        if self.is_exhausted() { Err("Too much is looked up".to_owned()) } else { Ok(()) }
    }

    /// Gives the first failure that is not the formula's, so that what it gave since is not to be relied on: the store cannot be read.
    #[must_use]
    pub fn take_fault(&self) -> Option<Error> {
        self.fault.take()
    }

    /// Gives what was read, or why not as the formula tells it.
    fn told<T>(&self, read: crate::error::Result<T>) -> Result<T, String> {
        read.map_err(|error| {
            let why = error.to_string();
            if error.is_damage() || error.is_temporary() {
                let first = self.fault.take().unwrap_or(error);
                self.fault.set(Some(first));
            }
            why
        })
    }

    /// Looks up what is not known yet. `what` tells look-ups apart.
    fn keep(&self, what: String, look: impl FnOnce() -> Found) -> Found {
        if let Some(found) = self.known.borrow().get(&what) {
            return found.clone();
        }
        self.spend(LOOKUP_COST)?;
        if what.len() > LOOKUP_KEY_BYTES_MAX {
            return Err("What is looked up is too long".to_owned());
        }
        let found = look();
        let bytes = what.len() + found.as_ref().map_or(0, |value| value.size_bytes() + value.count() * VALUE_BYTES);
        let mut known = self.known.borrow_mut();
        if self.known_bytes.get() + bytes > LOOKUPS_KEPT_BYTES_MAX {
            known.clear();
            self.known_bytes.set(0);
        }
        self.known_bytes.set(self.known_bytes.get() + bytes);
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
        let view = self.told(self.reading.view_find(lookup.view).and_then(|info| self.reading.view(info.note)))?;
        let entries = self.told(EntryReader::open(self.reading, &view, 0))?;
        if self.told(entries.rows().applied())? < self.reading.counters().purged_modseq {
            return Err(format!("View {:?} was not opened for long, and has to be first", lookup.view));
        }
        let has = |keyword: &str| lookup.keywords.iter().any(|said| said.eq_ignore_ascii_case(keyword));
        let columns = &view.info.view.design.columns;
        let wanted = match lookup.column {
            _ if has("ReturnDocumentUniqueID") => Wanted::Unid,
            Column::Field(name) => Wanted::Field(name),
            Column::Number(number) if number <= columns.len() => Wanted::Cell(number - 1),
            Column::Number(number) => return Err(format!("View {:?} has no column {number}", lookup.view)),
        };
        let is_category = matches!(wanted, Wanted::Cell(column) if columns[column].categorised);
        let mut values = Values::once(is_category && lookup.key.is_none());
        let (start, rows) = match lookup.key {
            None => (Some(Start::Beginning), self.told(entries.rows().count())?),
            Some(key) => {
                let found = self.told(entries.rows().find_by_key(&[One::Text(key)], has("PartialMatch")))?;
                found.map_or((None, 0), |found| (Some(Start::Key(found.first)), found.rows))
            }
        };
        if let Some(start) = start {
            self.read(&entries, (start, rows), lookup.key.is_some(), &wanted, &mut values)?;
        }
        match lookup.key {
            Some(_) if values.is_empty() && !has("FailSilent") => Err("Entry not found in index".to_owned()),
            _ => Ok(values.into_value()),
        }
    }

    /// Reads what is wanted of the documents in so many rows; of main documents alone where they have a key, for responses stand beneath whatever theirs is.
    fn read(
        &self,
        entries: &EntryReader<'_>,
        (mut start, rows): (Start, u64),
        has_key: bool,
        wanted: &Wanted<'_>,
        values: &mut Values,
    ) -> Result<(), String> {
        let most = if values.each_once.is_some() { LOOKUP_COST_MAX } else { LOOKUP_ROWS_MAX };
        let expansion = Arc::new(Expansion::default());
        let mut left = rows.min(most);
        while left > 0 {
            let request = Request {
                start,
                skip: (Navigator::Current, 0),
                navigator: Navigator::Next,
                limit: left.min(500) as usize,
                expansion: Arc::clone(&expansion),
                mask: Mask::default(),
            };
            let found = self.told(entries.read(&request))?;
            self.spend(found.looked_at)?;
            for row in &found.rows {
                let Shown::Document { note, row } = &row.shown else { continue };
                if has_key && row.response_level > 0 {
                    continue;
                }
                match wanted {
                    Wanted::Unid => values.text(&row.unid.to_string())?,
                    Wanted::Cell(column) => values.cell(row.cells.get(*column).unwrap_or(&cell::Cell::None))?,
                    Wanted::Field(name) => values.value(self.field(*note, name)?.as_ref())?,
                }
            }
            left = left.saturating_sub(found.looked_at.max(1));
            let Some(next) = found.next else { return Ok(()) };
            start = Start::Key(next);
        }
        if rows > most { Err(format!("More than {most} rows are too many to be looked up")) } else { Ok(()) }
    }

    /// Gives a field of a note; nothing where the note is hidden or has none.
    fn field(&self, note: NoteId, name: &str) -> Result<Option<Value<'static>>, String> {
        if !self.told(self.reading.shows_contents(note))? {
            return Ok(None);
        }
        let database = self.reading.database();
        let bytes = self.told(load_summary_bytes(&self.reading.snapshot, database, note))?.unwrap_or_default();
        self.spend(1 + (bytes.len() / BYTES_PER_ROW) as u64)?;
        let damaged = |_| damaged_note(database, note, "summary");
        let items = self.told(summary_items(&bytes).map_err(damaged))?;
        let item = items.iter().find(|item| item.name.eq_ignore_ascii_case(name));
        let value = item.and_then(|item| as_operand(&item.value));
        match value {
            Some(value) if value.size_bytes() > LOOKUP_BYTES_MAX => Err(too_many_bytes()),
            value => Ok(value.map(Value::into_owned)),
        }
    }

    fn in_profile(&self, profile: &str, name: &str, user: &str) -> Found {
        let user = (!user.is_empty()).then(|| Name::new(user));
        let Some(note) = self.told(self.reading.profile_note(profile, user.as_ref()))? else { return Ok(Value::EMPTY) };
        Ok(self.field(note, name)?.unwrap_or(Value::EMPTY))
    }
}

/// What of each row is looked up.
enum Wanted<'l> {
    Unid,
    Cell(usize),
    Field(&'l str),
}

/// Values that were found.
#[derive(Default)]
struct Values {
    texts: Vec<String>,
    numbers: Vec<f64>,
    times: Vec<Timestamp>,
    bytes: usize,
    /// What there is already, where each value is wanted once: texts in lower case, for categories do not tell case apart.
    each_once: Option<HashSet<String>>,
}

impl Values {
    fn once(each_once: bool) -> Self {
        Self { each_once: each_once.then(HashSet::new), ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.numbers.is_empty() && self.times.is_empty()
    }

    /// Counts a value of so many bytes; tells whether it is new, where that counts.
    fn takes(&mut self, bytes: usize, value: impl FnOnce() -> String) -> Result<bool, String> {
        if let Some(known) = &mut self.each_once
            && !known.insert(value())
        {
            return Ok(false);
        }
        self.bytes += bytes;
        if self.bytes <= LOOKUP_BYTES_MAX { Ok(true) } else { Err(too_many_bytes()) }
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        if self.takes(text.len() + 2, || text.to_lowercase())? {
            self.texts.push(text.to_owned());
        }
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        if self.takes(size_of::<f64>(), || number.to_string())? {
            self.numbers.push(number);
        }
        Ok(())
    }

    fn time(&mut self, time: Timestamp) -> Result<(), String> {
        if self.takes(size_of::<Timestamp>(), || time.0.to_string())? {
            self.times.push(time);
        }
        Ok(())
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
        // What is longer is refused before it is copied.
        let key = lookup.key.map_or(0, str::len)
            + lookup.view.len()
            + lookup.keywords.iter().map(|one| one.len()).sum::<usize>();
        if key > LOOKUP_KEY_BYTES_MAX {
            return Some(Err("What is looked up is too long".to_owned()));
        }
        Some(self.keep(format!("{lookup:?}"), || self.in_view(lookup)))
    }

    fn document_field(&self, unid: Unid, name: &str) -> Option<Result<Value<'_>, String>> {
        let found = self.spend(1).and_then(|()| self.told(self.reading.find(unid)));
        let note = match found {
            Ok(note) => note?,
            Err(why) => return Some(Err(why)),
        };
        Some(self.field(note, name).map(|value| value.unwrap_or(Value::EMPTY)))
    }

    fn profile_field(&self, profile: &str, name: &str, user: &str) -> Option<Value<'_>> {
        self.keep(format!("{profile:?} {name:?} {user:?}"), || self.in_profile(profile, name, user)).ok()
    }
}

fn too_many_bytes() -> String {
    format!("More than {LOOKUP_BYTES_MAX} bytes are too many to be looked up")
}
