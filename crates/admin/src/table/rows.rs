//! Reader for the rows of an imported file: texts of CSV, or objects of JSON lines.
//!
//! A row takes at most [`TABLE_LINE_BYTES_MAX`] bytes of the file in memory. An invalid row, or a line that is longer,
//! is an error of this row only, and reading continues after it ([`RowError::Invalid`]). After a CSV row that is
//! longer, or a quote that is never closed, reading stops, because the beginning of the next row is unknown
//! ([`RowError::Endless`]). An I/O error ends the import.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::path::Path;

use instance::regular_file::open_regular;
use serde_json::{Map, Value as Json};

use super::super::request::{TableFormat, TableImport};
use super::super::{AdminError, format_count};
use super::columns::quote;
use super::quotes::{QuoteTracker, delimiter_of};
use crate::limits::{TABLE_COLUMNS_MAX, TABLE_LINE_BYTES_MAX};

/// Maximum number of rows sampled to determine the types of columns.
const SAMPLE_ROWS: usize = 1_000;

/// Number of row bytes after which no more rows are sampled.
const SAMPLE_BYTES_MAX: usize = 16 << 20;

/// Number of bytes at the beginning of a CSV file from which the delimiter is detected.
const BEGINNING_BYTES: u64 = 64 << 10;

/// A row: the texts of its columns, or an object.
pub(super) enum Row {
    Fields(Vec<String>),
    Object(Map<String, Json>),
}

/// The rows of a file in order.
pub(super) struct Rows {
    source: Source,
    /// Sampled rows that are not consumed yet. They are kept because standard input cannot be read twice.
    sampled: VecDeque<RowResult>,
}

/// A row or the reason why it cannot be read, and its length in bytes.
pub(super) type RowResult = (Result<Row, RowError>, usize);

/// Reason why a row is rejected.
pub(super) enum RowError {
    /// Only this row is invalid.
    Invalid(String),
    /// The row has no end, so nothing after it can be read either.
    Endless(String),
}

/// Source of the rows.
enum Source {
    Csv(Box<CsvSource>),
    Lines(Box<dyn BufRead>),
}

struct CsvSource {
    reader: csv::Reader<BoundedInput>,
    /// The names of the columns.
    names: Vec<String>,
    delimiter: u8,
    /// Set if missing fields at the end of a row count as empty.
    takes_short: bool,
    /// Set after a row without an end.
    has_ended: bool,
}

/// Input of the CSV reader.
///
/// A quote that is never closed would turn the rest of the file into one row. The number of bytes read between two rows
/// is therefore limited, and open quotes are tracked.
struct BoundedInput {
    input: Box<dyn Read>,
    left: u64,
    quotes: QuoteTracker,
    /// Set when the end of the file is reached.
    is_at_end: bool,
    /// Set when a row exceeds the limit.
    is_too_long: bool,
}

impl Read for BoundedInput {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(into)?;
        self.quotes.track(&into[..count]);
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

impl BoundedInput {
    /// Returns the reason why the row read last has no end, or `None` if it is complete. An earlier row cannot be the
    /// cause, because its end was found before the end of the file.
    fn endless_reason(&self) -> Option<String> {
        match self.quotes.open_since_line() {
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
    pub(super) fn open(request: &TableImport) -> Result<Self, AdminError> {
        let input: Box<dyn Read> = if request.is_stdin() {
            Box::new(std::io::stdin())
        } else {
            Box::new(open_regular(&request.file).map_err(AdminError::file(&request.file))?)
        };
        let source = match request.table_format() {
            TableFormat::Csv => Source::Csv(Box::new(CsvSource::open(request, input)?)),
            TableFormat::Jsonl => Source::Lines(Box::new(BufReader::new(input))),
        };
        Ok(Self { source, sampled: VecDeque::new() })
    }

    /// Returns the column names in the first row. JSON lines have none.
    pub(super) fn column_names(&self) -> &[String] {
        match &self.source {
            Source::Csv(source) => &source.names,
            Source::Lines(_) => &[],
        }
    }

    /// Returns the delimiter of a CSV file, or `None` for JSON lines.
    pub(super) fn delimiter(&self) -> Option<char> {
        match &self.source {
            Source::Csv(source) => Some(char::from(source.delimiter)),
            Source::Lines(_) => None,
        }
    }

    /// Reads the first rows without consuming them.
    pub(super) fn look_ahead(&mut self) -> Result<&VecDeque<RowResult>, AdminError> {
        let mut bytes = 0;
        while self.sampled.len() < SAMPLE_ROWS && bytes < SAMPLE_BYTES_MAX {
            let Some(found) = self.source.next()? else { break };
            bytes += found.1;
            self.sampled.push_back(found);
        }
        Ok(&self.sampled)
    }

    /// Returns the next row, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RowResult>, AdminError> {
        self.sampled.pop_front().map_or_else(|| self.source.next(), |found| Ok(Some(found)))
    }
}

impl Source {
    /// Returns the next row, or `None` at the end.
    fn next(&mut self) -> Result<Option<RowResult>, AdminError> {
        match self {
            Self::Csv(source) => source.next(),
            Self::Lines(input) => next_object(input.as_mut()),
        }
    }
}

impl CsvSource {
    /// Reads the first row, which contains the column names.
    fn open(request: &TableImport, mut input: Box<dyn Read>) -> Result<Self, AdminError> {
        let path = request.file.as_path();
        let chosen = request.delimiter.map(|delimiter| match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
            _ => Err(AdminError::Refused(format!(
                "{delimiter:?} cannot be a delimiter: use an ASCII character other than a quote or line end"
            ))),
        });
        let chosen = chosen.transpose()?;
        let mut beginning = Vec::new();
        input.by_ref().take(BEGINNING_BYTES).read_to_end(&mut beginning).map_err(AdminError::file(path))?;
        if beginning.starts_with("\u{feff}".as_bytes()) {
            beginning.drain(.."\u{feff}".len());
        }
        let delimiter = chosen.unwrap_or_else(|| delimiter_of(&beginning));
        let input: Box<dyn Read> = Box::new(Cursor::new(beginning).chain(input));
        let quotes = QuoteTracker::new(delimiter);
        let input = BoundedInput { input, left: TABLE_LINE_BYTES_MAX, quotes, is_at_end: false, is_too_long: false };
        let mut reader = csv::ReaderBuilder::new();
        let reader = reader.flexible(true).trim(csv::Trim::Headers).delimiter(delimiter);
        let mut reader = reader.from_reader(input);
        let read = reader.byte_headers().map(|names| texts_of(names, &[]));
        if let Some(reason) = reader.get_ref().endless_reason() {
            return Err(file_error(path, &format!("the first row has no end: {reason}")));
        }
        let names = read.map_err(|error| file_error(path, &error))?;
        let names = names.map_err(|reason| file_error(path, &format!("the first row cannot be read: {reason}")))?;
        if names.len() > TABLE_COLUMNS_MAX {
            return Err(file_error(path, &format!("it has more than {TABLE_COLUMNS_MAX} columns")));
        }
        Ok(Self { reader, names, delimiter, takes_short: request.short_rows, has_ended: false })
    }

    fn next(&mut self) -> Result<Option<RowResult>, AdminError> {
        if self.has_ended {
            return Ok(None);
        }
        self.reader.get_mut().left = TABLE_LINE_BYTES_MAX;
        let mut row = csv::ByteRecord::new();
        let read = self.reader.read_byte_record(&mut row);
        if let Some(reason) = self.reader.get_ref().endless_reason() {
            self.has_ended = true;
            return Ok(Some((Err(RowError::Endless(reason)), 0)));
        }
        if !read.map_err(|error| AdminError::Refused(format!("cannot read the next row: {error}")))? {
            return Ok(None);
        }
        let found = row.len();
        let wanted = self.names.len();
        let lacking = if self.takes_short { wanted.saturating_sub(found) } else { 0 };
        row.extend(std::iter::repeat_n(b"", lacking));
        let fields = match found.cmp(&wanted) {
            Ordering::Less if lacking == 0 => {
                Err(format!("{} (--short-rows accepts rows with too few fields)", field_count_error(found, wanted)))
            }
            Ordering::Greater => Err(field_count_error(found, wanted)),
            Ordering::Less | Ordering::Equal => texts_of(&row, &self.names),
        };
        Ok(Some((fields.map(Row::Fields).map_err(RowError::Invalid), row.as_slice().len())))
    }
}

fn field_count_error(found: usize, wanted: usize) -> String {
    format!("it has {} instead of {wanted}", format_count(found, "field", "fields"))
}

/// Returns the fields of a row as texts. Fails at the first field that is not UTF-8, naming its column, or the column
/// number in the first row.
fn texts_of(row: &csv::ByteRecord, names: &[String]) -> Result<Vec<String>, String> {
    let text = |(index, field): (usize, &[u8])| match str::from_utf8(field) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => {
            let column = names.get(index).map_or_else(|| (index + 1).to_string(), |name| quote(name));
            let line = row.position().map_or(0, csv::Position::line);
            Err(format!(
                "column {column} (line {line}) is not UTF-8 text; if the file is a table in another encoding, save it \
                 as UTF-8"
            ))
        }
    };
    row.iter().enumerate().map(text).collect()
}

/// Reads the next non-empty line. Returns `None` at the end.
fn next_object(input: &mut dyn BufRead) -> Result<Option<RowResult>, AdminError> {
    let mut line = Vec::new();
    let unread = |error: std::io::Error| AdminError::Refused(format!("cannot read the next row: {error}"));
    while line.trim_ascii().is_empty() {
        line.clear();
        if input.take(TABLE_LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(unread)? == 0 {
            return Ok(None);
        }
    }
    if line.len() as u64 > TABLE_LINE_BYTES_MAX && !line.ends_with(b"\n") {
        input.skip_until(b'\n').map_err(unread)?;
        return Ok(Some((Err(RowError::Invalid(format!("it is longer than {TABLE_LINE_BYTES_MAX} bytes"))), 0)));
    }
    let row = match serde_json::from_slice::<Json>(line.trim_ascii_end()) {
        Ok(Json::Object(object)) => Ok(Row::Object(object)),
        Ok(_) => Err("it is not a JSON object".to_owned()),
        Err(error) => {
            let message = error.to_string();
            let column = error.column();
            // The parser was given a single line, so its line number is of no use.
            let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
            Err(format!("it is not valid JSON: {what} (byte {column} of the line)"))
        }
    };
    Ok(Some((row.map_err(RowError::Invalid), line.len())))
}

pub(super) fn file_error(path: &Path, reason: &dyn std::fmt::Display) -> AdminError {
    AdminError::Refused(format!("{}: {reason}", path.display()))
}
