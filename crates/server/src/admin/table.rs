//! `doublet db import` and `doublet db export`: documents from tables and into tables (CSV, JSON lines).
//!
//! An import looks at the first rows to find out what each column holds, says so, and with `--dry-run` stops after having read everything. Types can be
//! said, and columns named otherwise or left out. Rows that cannot be taken are told with their numbers and reasons; all others are taken, some hundred
//! in a transaction, which says how far it is ([`mark`]), so that an import that is broken off has taken a known part and can go on behind it.

mod mark;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use notes::{Access, Item, NewNote, Value, Writer, level};
use serde_json::{Map, Value as Json, json};
use store::Ticket;

use self::mark::Mark;
use super::answer::record;
use super::request::{TableExport, TableForm, TableImport};
use super::{Answer, Failure, Outcome, Progress, Report, Unit, counted, databases, step};
use crate::core::Core;
use crate::limits::{TABLE_COLUMNS_MAX, TABLE_LINE_BYTES_MAX, TABLE_REFUSALS_MAX};
use crate::template;

/// Rows that are looked at to find out what columns hold.
const SAMPLE_ROWS: usize = 1_000;

/// Bytes of rows after which no more are looked at.
const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// Documents of one transaction.
const ROWS_PER_TRANSACTION: usize = 500;

/// Bytes of rows after which a transaction takes no more.
const BYTES_PER_TRANSACTION: usize = 8 << 20;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Time,
    RichText,
    TextList,
    NumberList,
    TimeList,
}

impl Kind {
    const ALL: [(&'static str, Self); 7] = [
        ("text", Self::Text),
        ("number", Self::Number),
        ("time", Self::Time),
        ("rich-text", Self::RichText),
        ("text-list", Self::TextList),
        ("number-list", Self::NumberList),
        ("time-list", Self::TimeList),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A column and the item that it becomes.
#[derive(Debug, Clone)]
struct Mapping {
    column: String,
    /// Nothing of a column that is left out.
    item: Option<String>,
    kind: Kind,
    /// The type was said, not found out.
    said: bool,
}

/// A row: the texts of its columns, or an object.
enum Row {
    Fields(Vec<String>),
    Object(Map<String, Json>),
}

/// Rows of a file, in their order.
struct Rows {
    source: Source,
    /// Those that were looked at already and are yet to be taken: what comes from standard input cannot be read twice.
    ahead: VecDeque<Found>,
}

/// A row, or why it cannot be read, and its length in bytes.
type Found = (Result<Row, String>, usize);

/// Where rows come from.
enum Source {
    Csv(Box<csv::Reader<Bounded>>, Vec<String>),
    Lines(Box<dyn BufRead>),
}

/// What a CSV reader reads from. A quote that is never closed would make all the rest one row: so much, and no more, is read between two rows.
struct Bounded {
    input: Box<dyn Read>,
    left: u64,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(into)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(std::io::Error::other(format!("a row is longer than {TABLE_LINE_BYTES_MAX} bytes"))),
        }
        Ok(count)
    }
}

impl Rows {
    fn open(path: &Path, form: TableForm) -> Result<Self, Failure> {
        let input: Box<dyn Read> = if path == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(path).map_err(Failure::file(path))?)
        };
        let source = match form {
            TableForm::Csv => {
                let mut reader = csv::ReaderBuilder::new();
                let reader = reader.flexible(true).trim(csv::Trim::Headers);
                let mut reader = reader.from_reader(Bounded { input, left: TABLE_LINE_BYTES_MAX });
                let names = reader.headers().map_err(|error| refused(path, &error))?;
                let names: Vec<String> =
                    names.iter().map(|name| name.trim_start_matches('\u{feff}').to_owned()).collect();
                if names.len() > TABLE_COLUMNS_MAX {
                    return Err(refused(path, &format!("it has more than {TABLE_COLUMNS_MAX} columns")));
                }
                Source::Csv(Box::new(reader), names)
            }
            TableForm::Jsonl => Source::Lines(Box::new(BufReader::new(input))),
        };
        Ok(Self { source, ahead: VecDeque::new() })
    }

    /// Reads the first rows without taking them.
    fn look_ahead(&mut self) -> Result<&VecDeque<Found>, Failure> {
        let mut bytes = 0;
        while self.ahead.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES_MAX {
            let Some(found) = self.source.next()? else { break };
            bytes += found.1;
            self.ahead.push_back(found);
        }
        Ok(&self.ahead)
    }

    /// Gives the next row; nothing at the end.
    fn next(&mut self) -> Result<Option<Found>, Failure> {
        self.ahead.pop_front().map_or_else(|| self.source.next(), |found| Ok(Some(found)))
    }
}

impl Source {
    /// Gives the next row; nothing at the end.
    fn next(&mut self) -> Result<Option<Found>, Failure> {
        match self {
            Self::Csv(reader, names) => {
                reader.get_mut().left = TABLE_LINE_BYTES_MAX;
                let mut row = csv::StringRecord::new();
                let read = match reader.read_record(&mut row) {
                    Ok(false) => return Ok(None),
                    Ok(true) if row.len() > names.len() => {
                        Err(format!("it has {} fields instead of {}", row.len(), names.len()))
                    }
                    Ok(true) => Ok(Row::Fields(row.iter().map(str::to_owned).collect())),
                    Err(error) if error.is_io_error() => {
                        return Err(Failure::Refused(format!("cannot read on: {error}")));
                    }
                    Err(error) => Err(error.to_string()),
                };
                Ok(Some((read, row.as_slice().len())))
            }
            Self::Lines(input) => next_object(input.as_mut()),
        }
    }
}

fn next_object(input: &mut dyn BufRead) -> Result<Option<Found>, Failure> {
    let mut line = Vec::new();
    let read = input.take(TABLE_LINE_BYTES_MAX + 1).read_until(b'\n', &mut line);
    if read.map_err(|error| Failure::Refused(format!("cannot read on: {error}")))? == 0 {
        return Ok(None);
    }
    if line.len() as u64 > TABLE_LINE_BYTES_MAX {
        return Err(Failure::Refused(format!("a line is longer than {TABLE_LINE_BYTES_MAX} bytes")));
    }
    let row = match serde_json::from_slice::<Json>(&line) {
        Ok(Json::Object(object)) => Ok(Row::Object(object)),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Ok(Some((row, line.len())))
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {why}", path.display()))
}

/// Brings the rows of a file into a database.
pub(super) fn import(core: &Core, request: &TableImport, report: &mut Report<'_>) -> Outcome {
    let access = open(core, &request.path)?;
    let form = request.format.unwrap_or_else(|| TableForm::of(&request.file));
    let mark = Mark::begin(request, &access)?;
    let mut rows = Rows::open(&request.file, form)?;
    let mappings = mappings(request, &mut rows, &access)?;
    for _ in 0..mark.rows {
        rows.next()?;
    }
    let durable = mark.clone();
    let (waiting, refusals) = (Vec::new(), Vec::new());
    let mut work =
        Import { core, request, access, mappings, waiting, waiting_bytes: 0, mark, under_way: None, durable, refusals };
    while let Some((row, length)) = rows.next().map_err(|failure| work.broken_off(failure))? {
        work.take(row, length)?;
        // What is told would be there after a crash.
        let done = if request.dry_run { work.mark.rows } else { work.durable.rows };
        if done > 0 && work.mark.rows.is_multiple_of(ROWS_PER_TRANSACTION as u64) {
            let what = format!("{} into {}", if request.dry_run { "reading" } else { "importing" }, request.path);
            let ended = step(report, Progress { what, done, total: None, unit: Unit::Notes });
            ended.map_err(|failure| work.broken_off(failure))?;
        }
    }
    work.flush(Mark::end)?;
    work.settle()?;
    Ok(work.answer())
}

/// Notes down in a transaction how far the import is.
type NoteDown = fn(&mut Mark, &mut Writer<'_, '_>) -> Result<(), notes::Error>;

/// An import under way.
struct Import<'i> {
    core: &'i Core,
    request: &'i TableImport,
    access: Access<level::Designer>,
    mappings: Vec<Mapping>,
    waiting: Vec<Vec<Item>>,
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
}

impl Import<'_> {
    fn take(&mut self, row: Result<Row, String>, length: usize) -> Result<(), Failure> {
        self.mark.rows += 1;
        match row.and_then(|row| items(&self.mappings, &row, self.request.list_separator)) {
            Ok(mut items) => {
                if let Some(form) = &self.request.form {
                    items.retain(|item| !item.is_named("Form"));
                    items.insert(0, Item::text("Form", form.clone()));
                }
                self.waiting.push(items);
                self.waiting_bytes += length;
            }
            Err(why) => {
                self.mark.refused += 1;
                if self.refusals.len() < TABLE_REFUSALS_MAX {
                    self.refusals.push(record(vec![("row", json!(self.mark.rows)), ("why", json!(why))]));
                }
            }
        }
        let is_enough = self.waiting.len() >= ROWS_PER_TRANSACTION || self.waiting_bytes >= BYTES_PER_TRANSACTION;
        if is_enough { self.flush(Mark::put) } else { Ok(()) }
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
        self.settle()?;
        self.under_way = Some((ticket, self.mark.clone()));
        Ok(())
    }

    fn commit(&mut self, rows: Vec<Vec<Item>>, note_down: NoteDown) -> Result<Ticket, Failure> {
        let writing = self.access.lower::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = self.core.notes.transaction(&accesses)?;
        for items in rows {
            transaction.on(0).note_create(NewNote::document(items))?;
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
        let column = |mapping: &Mapping| {
            record(vec![
                ("column", json!(mapping.column)),
                ("item", json!(mapping.item)),
                ("type", json!(mapping.item.as_ref().map(|_| mapping.kind.name()))),
                ("said", json!(mapping.said)),
            ])
        };
        let columns: Vec<Json> = self.mappings.iter().map(column).collect();
        let mut answer = Answer::record(vec![
            ("columns", json!(columns)),
            ("documents", json!(self.mark.documents)),
            ("refused", json!(self.mark.refused)),
            ("refusals", json!(self.refusals)),
        ]);
        answer.says = vec![if self.request.dry_run {
            format!("{} would be taken; nothing was changed.", counted(self.mark.documents, "row", "rows"))
        } else {
            let made = counted(self.mark.documents, "document was", "documents were");
            format!("{made} made in {}.", self.request.path)
        }];
        if self.mark.refused > 0 {
            let refused = counted(self.mark.refused, "row was", "rows were");
            answer.complaint = Some(format!("{refused} not taken; what stands above says why"));
        }
        answer
    }
}

/// Finds out what becomes of the columns.
fn mappings(request: &TableImport, rows: &mut Rows, access: &Access<level::Designer>) -> Result<Vec<Mapping>, Failure> {
    let fields = match &request.form {
        Some(name) => template::fields_of(access, name)?,
        None => std::collections::HashMap::new(),
    };
    let mut found = sampled(request, rows)?;
    for mapping in &mut found {
        if let Some(kind) = fields.get(&mapping.column.to_lowercase()).and_then(|kind| Kind::named(kind)) {
            (mapping.kind, mapping.said) = (kind, true);
        }
    }
    for text in &request.map {
        let (column, target) = text.split_once('=').ok_or_else(|| wrong_map(text))?;
        let (item, kind) = match target.rsplit_once(':') {
            Some((item, kind)) => (item, Some(Kind::named(kind).ok_or_else(|| wrong_map(text))?)),
            None => (target, None),
        };
        let mapping = found.iter_mut().find(|mapping| mapping.column.eq_ignore_ascii_case(column));
        let mapping = mapping.ok_or_else(|| Failure::Refused(format!("the file has no column {column:?}")))?;
        mapping.item = (!item.is_empty()).then(|| item.to_owned());
        if let Some(kind) = kind {
            (mapping.kind, mapping.said) = (kind, true);
        }
    }
    Ok(found)
}

fn wrong_map(text: &str) -> Failure {
    let kinds: Vec<&str> = Kind::ALL.iter().map(|(name, _)| *name).collect();
    Failure::Refused(format!(
        "--map {text:?}: write COLUMN=ITEM, COLUMN=ITEM:TYPE or COLUMN= to leave a column out; types are {}",
        kinds.join(", ")
    ))
}

/// Looks at the first rows.
fn sampled(request: &TableImport, rows: &mut Rows) -> Result<Vec<Mapping>, Failure> {
    let mut names: Vec<String> = match &rows.source {
        Source::Csv(_, names) => names.clone(),
        Source::Lines(_) => Vec::new(),
    };
    let mut kinds: Vec<Option<Kind>> = vec![None; names.len()];
    for row in rows.look_ahead()?.iter().flat_map(|(row, _)| row) {
        match row {
            Row::Fields(fields) => {
                for (kind, field) in kinds.iter_mut().zip(fields) {
                    *kind = united(*kind, kind_of_text(field));
                }
            }
            Row::Object(object) => {
                for (name, value) in object {
                    let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
                        names.push(name.clone());
                        kinds.push(None);
                        names.len() - 1
                    });
                    kinds[index] = united(kinds[index], kind_of_json(value));
                }
            }
        }
    }
    if names.len() > TABLE_COLUMNS_MAX {
        return Err(refused(&request.file, &format!("it has more than {TABLE_COLUMNS_MAX} columns")));
    }
    let mapping = |(column, kind): (String, Option<Kind>)| Mapping {
        item: (!column.is_empty() && !column.starts_with('$')).then(|| column.clone()),
        column,
        kind: kind.unwrap_or(Kind::Text),
        said: false,
    };
    Ok(names.into_iter().zip(kinds).map(mapping).collect())
}

/// Gives what holds both; texts hold everything.
fn united(one: Option<Kind>, other: Option<Kind>) -> Option<Kind> {
    match (one, other) {
        (None, kind) | (kind, None) => kind,
        (Some(one), Some(other)) if one == other => Some(one),
        (Some(one), Some(other)) => {
            let is_list = |kind| matches!(kind, Kind::TextList | Kind::NumberList | Kind::TimeList);
            Some(if is_list(one) || is_list(other) { Kind::TextList } else { Kind::Text })
        }
    }
}

fn kind_of_text(text: &str) -> Option<Kind> {
    let text = text.trim();
    if text.is_empty() {
        None
    } else if number(text).is_some() {
        Some(Kind::Number)
    } else if time(text).is_some() {
        Some(Kind::Time)
    } else {
        Some(Kind::Text)
    }
}

fn kind_of_json(value: &Json) -> Option<Kind> {
    match value {
        Json::Null | Json::Object(_) => None,
        Json::Bool(_) | Json::Number(_) => Some(Kind::Number),
        Json::String(text) if text.is_empty() => None,
        Json::String(text) => Some(if time(text).is_some() { Kind::Time } else { Kind::Text }),
        Json::Array(values) => {
            let kinds = values.iter().filter_map(kind_of_json).map(Some);
            Some(match kinds.reduce(united).flatten() {
                Some(Kind::Number) => Kind::NumberList,
                Some(Kind::Time) => Kind::TimeList,
                _ => Kind::TextList,
            })
        }
    }
}

/// Reads a number; what begins with a zero, as postcodes and telephone numbers do, is none.
fn number(text: &str) -> Option<f64> {
    let digits = text.trim_start_matches('-');
    let is_padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let starts_right = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if is_padded || !starts_right { None } else { text.parse().ok().filter(|number: &f64| number.is_finite()) }
}

/// Reads a moment: RFC 3339, or a date alone.
fn time(text: &str) -> Option<base::Timestamp> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(base::Timestamp(moment.as_microsecond()));
    }
    let date: jiff::civil::Date = (text.len() == 10).then(|| text.parse().ok()).flatten()?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(base::Timestamp(midnight.timestamp().as_microsecond()))
}

/// Makes the items of a row.
fn items(mappings: &[Mapping], row: &Row, separator: char) -> Result<Vec<Item>, String> {
    let mut items = Vec::with_capacity(mappings.len() + 1);
    for (index, mapping) in mappings.iter().enumerate() {
        let Some(item) = &mapping.item else { continue };
        let texts: Vec<String> = match row {
            Row::Fields(fields) => match fields.get(index) {
                Some(field) if is_list(mapping.kind) => {
                    field.split(separator).map(|part| part.trim().to_owned()).collect()
                }
                Some(field) => vec![field.clone()],
                None => continue,
            },
            Row::Object(object) => object.get(&mapping.column).map(texts_of).unwrap_or_default(),
        };
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            continue;
        }
        let value = value(mapping.kind, texts).map_err(|why| format!("column {:?}: {why}", mapping.column))?;
        items.push(match value {
            Value::RichText(_) => Item::body(item.clone(), value),
            value => Item::summary(item.clone(), value),
        });
    }
    Ok(items)
}

fn is_list(kind: Kind) -> bool {
    matches!(kind, Kind::TextList | Kind::NumberList | Kind::TimeList)
}

fn texts_of(value: &Json) -> Vec<String> {
    match value {
        Json::Null => Vec::new(),
        Json::Bool(truth) => vec![u8::from(*truth).to_string()],
        Json::Number(number) => vec![number.to_string()],
        Json::String(text) => vec![text.clone()],
        Json::Array(values) => values.iter().flat_map(texts_of).collect(),
        Json::Object(_) => vec![value.to_string()],
    }
}

fn value(kind: Kind, mut texts: Vec<String>) -> Result<Value, String> {
    let no_number = |text: &String| number(text.trim()).ok_or_else(|| format!("{text:?} is no number"));
    let no_time = |text: &String| {
        time(text.trim())
            .ok_or_else(|| format!("{text:?} is no date or time; write 2024-12-31 or 2024-12-31T23:59:59Z"))
    };
    let numbers = || texts.iter().map(no_number).collect::<Result<Vec<f64>, String>>();
    Ok(match kind {
        Kind::Text if texts.len() == 1 => Value::Text(texts.swap_remove(0)),
        Kind::Text | Kind::TextList => Value::TextList(texts),
        Kind::RichText => Value::RichText(texts.join("\n")),
        Kind::Number | Kind::NumberList => match numbers()?[..] {
            [number] => Value::Number(number),
            ref numbers => Value::NumberList(numbers.to_vec()),
        },
        Kind::Time | Kind::TimeList => {
            let times = texts.iter().map(no_time).collect::<Result<Vec<_>, String>>()?;
            if let [time] = times[..] { Value::Time(time) } else { Value::TimeList(times) }
        }
    })
}

/// Writes the documents of a database to a file.
pub(super) fn export(core: &Core, request: &TableExport, report: &mut Report<'_>) -> Outcome {
    let access = open(core, &request.path)?;
    let selection = request.formula.as_deref().unwrap_or("SELECT @All");
    let formula = formula::Formula::compile(selection, &formula::Options::default())
        .map_err(|error| Failure::Refused(format!("--formula: {}", error.render(selection))))?;
    let reading = access.read()?;
    let form = request.format.unwrap_or_else(|| TableForm::of(&request.file));
    let columns = match (form, &request.columns[..]) {
        (TableForm::Csv, []) => all_columns(&reading, &formula)?,
        (_, columns) => columns.to_vec(),
    };
    let mut out = Table::create(&request.file, form, columns)?;
    let mut done = 0;
    let mut ended = Ok(());
    let total = Some(reading.counters().notes);
    reading.search(&formula, base::Modseq(0), &mut |subject| {
        let items = subject.items.iter().map(notes::item::ItemRef::to_item).collect();
        ended = out.write(subject.header, items);
        done += 1;
        if ended.is_ok() && done % 1_000 == 0 {
            let what = format!("exporting {}", request.path);
            ended = step(report, Progress { what, done, total, unit: Unit::Notes });
        }
        Ok(ended.is_ok())
    })?;
    ended?;
    out.finish(&request.file)?;
    Ok(Answer::record(vec![("documents", json!(done)), ("file", json!(request.file.display().to_string()))])
        .and(format!("{} written.", counted(done, "document was", "documents were"))))
}

/// Lists the names of all items that documents have.
fn all_columns(reading: &notes::Reading<'_>, formula: &formula::Formula) -> Result<Vec<String>, Failure> {
    let mut names: Vec<String> = Vec::new();
    let mut known = std::collections::HashSet::new();
    reading.search(formula, base::Modseq(0), &mut |subject| {
        for item in subject.items.iter().filter(|item| known.insert(item.name.to_lowercase())) {
            names.push(item.name.to_owned());
        }
        Ok(names.len() <= TABLE_COLUMNS_MAX)
    })?;
    if names.len() > TABLE_COLUMNS_MAX {
        let why = format!("the documents have more than {TABLE_COLUMNS_MAX} different items; name some with --columns");
        return Err(Failure::Refused(why));
    }
    Ok(names)
}

/// A file that is written.
enum Table {
    Csv(Box<csv::Writer<Box<dyn Write>>>, Vec<String>),
    Lines(Box<dyn Write>, Vec<String>),
}

impl Table {
    fn create(path: &Path, form: TableForm, columns: Vec<String>) -> Result<Self, Failure> {
        let out: Box<dyn Write> = Box::new(BufWriter::new(File::create(path).map_err(Failure::file(path))?));
        match form {
            TableForm::Jsonl => Ok(Self::Lines(out, columns)),
            TableForm::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer
                    .write_record(["$UNID"].into_iter().chain(columns.iter().map(String::as_str)))
                    .map_err(written)?;
                Ok(Self::Csv(Box::new(writer), columns))
            }
        }
    }

    fn write(&mut self, header: &notes::Header, items: Vec<Item>) -> Result<(), Failure> {
        let find = |name: &str| items.iter().find(|item| item.is_named(name)).map(|item| &item.value);
        match self {
            Self::Csv(out, columns) => {
                let cell = |name: &String| find(name).map(text_of).unwrap_or_default();
                let cells = std::iter::once(header.unid.to_string()).chain(columns.iter().map(cell));
                out.write_record(cells).map_err(written)
            }
            Self::Lines(out, columns) => {
                let mut object = Map::new();
                object.insert("$UNID".to_owned(), json!(header.unid.to_string()));
                if let Some(parent) = header.parent {
                    object.insert("$REF".to_owned(), json!(parent.to_string()));
                }
                for item in &items {
                    if columns.is_empty() || columns.iter().any(|name| item.is_named(name)) {
                        object.insert(item.name.clone(), json_of(&item.value));
                    }
                }
                writeln!(out, "{}", Json::Object(object)).map_err(written)
            }
        }
    }

    fn finish(self, path: &Path) -> Result<(), Failure> {
        match self {
            Self::Csv(mut out, _) => out.flush().map_err(Failure::file(path)),
            Self::Lines(mut out, _) => out.flush().map_err(Failure::file(path)),
        }
    }
}

fn written(error: impl std::fmt::Display) -> Failure {
    Failure::Refused(format!("the file cannot be written: {error}"))
}

fn text_of(value: &Value) -> String {
    match json_of(value) {
        Json::String(text) => text,
        Json::Array(values) => {
            let part = |value: Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.into_iter().map(part).collect::<Vec<_>>().join(";")
        }
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

fn json_of(value: &Value) -> Json {
    let moment = |time: &base::Timestamp| super::answer::moment(Some(*time));
    match value {
        Value::Text(text) | Value::RichText(text) => json!(text),
        Value::TextList(texts) => json!(texts),
        Value::Number(number) => json!(number),
        Value::NumberList(numbers) => json!(numbers),
        Value::Time(time) => moment(time),
        Value::TimeList(times) => Json::Array(times.iter().map(moment).collect()),
        Value::Object { file_name, .. } => json!(file_name),
        Value::NoteReferences(unids) => json!(unids.iter().map(ToString::to_string).collect::<Vec<_>>()),
        Value::MimePart(_) => Json::Null,
    }
}

fn open(core: &Core, path: &str) -> Result<Access<level::Designer>, Failure> {
    databases::open(core, path).map(|access| access.lower())
}

#[cfg(test)]
mod tests;
