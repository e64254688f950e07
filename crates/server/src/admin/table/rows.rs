//! The rows of a file that is imported, one after the other: texts of CSV, or objects of JSON lines.
//!
//! No row takes more memory than [`TABLE_LINE_BYTES_MAX`] bytes of the file. A row that is none, or a line that is longer, is an error of its own, behind
//! which reading goes on ([`Fault::Row`]). Behind a longer row of CSV, or a quote that is never closed, it does not: where the next row begins nobody can
//! tell ([`Fault::Rest`]). What the system cannot read ends everything.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::super::request::{TableForm, TableImport};
use super::super::{Failure, counted};
use super::columns::quoted;
use super::quotes::{Quotes, delimiter_of};
use crate::limits::{TABLE_COLUMNS_MAX, TABLE_LINE_BYTES_MAX};

/// Rows that are looked at to find out what columns hold.
const SAMPLE_ROWS: usize = 1_000;

/// Bytes of rows after which no more are looked at.
const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// Bytes at the beginning of a CSV file that are looked at to find out what separates its fields.
const BEGINNING_BYTES: u64 = 64 << 10;

/// A row: the texts of its columns, or an object.
pub(super) enum Row {
    Fields(Vec<String>),
    Object(Map<String, Json>),
}

/// Rows of a file, in their order.
pub(super) struct Rows {
    source: Source,
    /// Those that were looked at already and are yet to be taken: what comes from standard input cannot be read twice.
    ahead: VecDeque<Found>,
}

/// A row, or why it cannot be read, and its length in bytes.
pub(super) type Found = (Result<Row, Fault>, usize);

/// Why a row cannot be taken.
pub(super) enum Fault {
    /// For reasons of its own.
    Row(String),
    /// It has no end, so that nothing behind it can be read either.
    Rest(String),
}

/// Where rows come from.
enum Source {
    Csv(Box<CsvSource>),
    Lines(Box<dyn BufRead>),
}

struct CsvSource {
    reader: csv::Reader<Bounded>,
    /// The names of the columns.
    names: Vec<String>,
    delimiter: u8,
    /// Fields that a row lacks at its end are empty.
    takes_short: bool,
    /// A row had no end.
    has_ended: bool,
}

/// What a CSV reader reads from. A quote that is never closed would make all the rest one row: so much, and no more, is read between two rows, and it is
/// known where quotes are open.
struct Bounded {
    input: Box<dyn Read>,
    left: u64,
    quotes: Quotes,
    /// Everything was read.
    is_at_end: bool,
    /// A row is longer than it may be.
    is_too_long: bool,
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(into)?;
        self.quotes.follow(&into[..count]);
        self.is_at_end = count == 0;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => {
                self.is_too_long = true;
                return Err(std::io::Error::other(format!("a row is longer than {TABLE_LINE_BYTES_MAX} bytes")));
            }
        }
        Ok(count)
    }
}

impl Bounded {
    /// Says why the row that was read last has no end, if it has none. The row before it never has: its end was seen before the file's was.
    fn endless(&self) -> Option<String> {
        match self.quotes.open() {
            Some(line) if self.is_at_end => Some(format!("a quote opens in line {line} and is never closed")),
            Some(line) if self.is_too_long => {
                Some(format!("a quote opens in line {line} and is not closed within {TABLE_LINE_BYTES_MAX} bytes"))
            }
            None if self.is_too_long => Some(format!("it is longer than {TABLE_LINE_BYTES_MAX} bytes")),
            _ => None,
        }
    }
}

impl Rows {
    pub(super) fn open(request: &TableImport) -> Result<Self, Failure> {
        let input: Box<dyn Read> = if request.is_input() {
            Box::new(std::io::stdin())
        } else {
            Box::new(File::open(&request.file).map_err(Failure::file(&request.file))?)
        };
        let source = match request.table_form() {
            TableForm::Csv => Source::Csv(Box::new(CsvSource::open(request, input)?)),
            TableForm::Jsonl => Source::Lines(Box::new(BufReader::new(input))),
        };
        Ok(Self { source, ahead: VecDeque::new() })
    }

    /// Gives the names of the columns that the file begins with; of JSON lines, none.
    pub(super) fn names(&self) -> &[String] {
        match &self.source {
            Source::Csv(source) => &source.names,
            Source::Lines(_) => &[],
        }
    }

    /// Gives what separates the fields of CSV.
    pub(super) fn delimiter(&self) -> Option<char> {
        match &self.source {
            Source::Csv(source) => Some(char::from(source.delimiter)),
            Source::Lines(_) => None,
        }
    }

    /// Reads the first rows without taking them.
    pub(super) fn look_ahead(&mut self) -> Result<&VecDeque<Found>, Failure> {
        let mut bytes = 0;
        while self.ahead.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES_MAX {
            let Some(found) = self.source.next()? else { break };
            bytes += found.1;
            self.ahead.push_back(found);
        }
        Ok(&self.ahead)
    }

    /// Gives the next row; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<Found>, Failure> {
        self.ahead.pop_front().map_or_else(|| self.source.next(), |found| Ok(Some(found)))
    }
}

impl Source {
    /// Gives the next row; nothing at the end.
    fn next(&mut self) -> Result<Option<Found>, Failure> {
        match self {
            Self::Csv(source) => source.next(),
            Self::Lines(input) => next_object(input.as_mut()),
        }
    }
}

impl CsvSource {
    /// Reads the first row, which has the names of the columns.
    fn open(request: &TableImport, mut input: Box<dyn Read>) -> Result<Self, Failure> {
        let path = request.file.as_path();
        let said = request.delimiter.map(|delimiter| match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
            _ => Err(Failure::Refused(format!(
                "{delimiter:?} cannot separate fields: a character of ASCII can, but no quote or line end"
            ))),
        });
        let said = said.transpose()?;
        let mut beginning = Vec::new();
        input.by_ref().take(BEGINNING_BYTES).read_to_end(&mut beginning).map_err(Failure::file(path))?;
        if beginning.starts_with("\u{feff}".as_bytes()) {
            beginning.drain(.."\u{feff}".len());
        }
        let delimiter = said.unwrap_or_else(|| delimiter_of(&beginning));
        let input: Box<dyn Read> = Box::new(Cursor::new(beginning).chain(input));
        let quotes = Quotes::new(delimiter);
        let input = Bounded { input, left: TABLE_LINE_BYTES_MAX, quotes, is_at_end: false, is_too_long: false };
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.flexible(true).trim(csv::Trim::Headers).delimiter(delimiter);
        let mut reader = reader.from_reader(input);
        let read = reader.byte_headers().map(|names| texts_of(names, &[]));
        if let Some(why) = reader.get_ref().endless() {
            return Err(refused(path, &format!("the first row has no end: {why}")));
        }
        let names = read.map_err(|error| refused(path, &error))?;
        let names = names.map_err(|why| refused(path, &format!("the first row cannot be read: {why}")))?;
        if names.len() > TABLE_COLUMNS_MAX {
            return Err(refused(path, &format!("it has more than {TABLE_COLUMNS_MAX} columns")));
        }
        Ok(Self { reader, names, delimiter, takes_short: request.short_rows, has_ended: false })
    }

    fn next(&mut self) -> Result<Option<Found>, Failure> {
        if self.has_ended {
            return Ok(None);
        }
        self.reader.get_mut().left = TABLE_LINE_BYTES_MAX;
        let mut row = csv::ByteRecord::new();
        let read = self.reader.read_byte_record(&mut row);
        if let Some(why) = self.reader.get_ref().endless() {
            self.has_ended = true;
            return Ok(Some((Err(Fault::Rest(why)), 0)));
        }
        if !read.map_err(|error| Failure::Refused(format!("cannot read on: {error}")))? {
            return Ok(None);
        }
        let (found, wanted) = (row.len(), self.names.len());
        let lacking = if self.takes_short { wanted.saturating_sub(found) } else { 0 };
        row.extend(std::iter::repeat_n(b"", lacking));
        let fields = match found.cmp(&wanted) {
            Ordering::Less if lacking == 0 => {
                Err(format!("{} (--short-rows takes what ends early)", not_as_many(found, wanted)))
            }
            Ordering::Greater => Err(not_as_many(found, wanted)),
            Ordering::Less | Ordering::Equal => texts_of(&row, &self.names),
        };
        Ok(Some((fields.map(Row::Fields).map_err(Fault::Row), row.as_slice().len())))
    }
}

fn not_as_many(found: usize, wanted: usize) -> String {
    format!("it has {} instead of {wanted}", counted(found, "field", "fields"))
}

/// Gives the fields of a row as texts. An error names the first that is none by its column, or by its number in the row with the names.
fn texts_of(row: &csv::ByteRecord, names: &[String]) -> Result<Vec<String>, String> {
    let text = |(index, field): (usize, &[u8])| match str::from_utf8(field) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => {
            let column = names.get(index).map_or_else(|| (index + 1).to_string(), |name| quoted(name));
            let line = row.position().map_or(0, csv::Position::line);
            Err(format!(
                "column {column} (line {line}) is no text in UTF-8; is the file a table? one in another encoding has to be \
                 saved as UTF-8"
            ))
        }
    };
    row.iter().enumerate().map(text).collect()
}

/// Reads the next line that has something; nothing at the end.
fn next_object(input: &mut dyn BufRead) -> Result<Option<Found>, Failure> {
    let mut line = Vec::new();
    let unread = |error: std::io::Error| Failure::Refused(format!("cannot read on: {error}"));
    while line.trim_ascii().is_empty() {
        line.clear();
        if input.take(TABLE_LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(unread)? == 0 {
            return Ok(None);
        }
    }
    if line.len() as u64 > TABLE_LINE_BYTES_MAX && !line.ends_with(b"\n") {
        input.skip_until(b'\n').map_err(unread)?;
        return Ok(Some((Err(Fault::Row(format!("it is longer than {TABLE_LINE_BYTES_MAX} bytes"))), 0)));
    }
    let row = match serde_json::from_slice::<Json>(line.trim_ascii_end()) {
        Ok(Json::Object(object)) => Ok(Row::Object(object)),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => {
            let (told, column) = (error.to_string(), error.column());
            // The line that the reader counts is the only one that it was given.
            let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
            Err(format!("it is no JSON: {what} (byte {column} of the line)"))
        }
    };
    Ok(Some((row.map_err(Fault::Row), line.len())))
}

pub(super) fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {why}", path.display()))
}
