//! The rows of a file that is imported, one after the other: texts of CSV, or objects of JSON lines.
//!
//! No row takes more memory than [`TABLE_LINE_BYTES_MAX`] bytes of the file. A row that is none, or a line that is longer, is an error of its own, behind
//! which reading goes on. What the system cannot read ends everything, and so does a longer row of CSV: where it ends nobody can tell.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::super::Failure;
use super::super::request::TableForm;
use crate::limits::{TABLE_COLUMNS_MAX, TABLE_LINE_BYTES_MAX};

/// Rows that are looked at to find out what columns hold.
const SAMPLE_ROWS: usize = 1_000;

/// Bytes of rows after which no more are looked at.
const SAMPLE_BYTES_MAX: usize = 16 << 20;

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
pub(super) type Found = (Result<Row, String>, usize);

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
    pub(super) fn open(path: &Path, form: TableForm) -> Result<Self, Failure> {
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

    /// Gives the names of the columns that the file begins with; of JSON lines, none.
    pub(super) fn names(&self) -> &[String] {
        match &self.source {
            Source::Csv(_, names) => names,
            Source::Lines(_) => &[],
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
    let unread = |error: std::io::Error| Failure::Refused(format!("cannot read on: {error}"));
    if input.take(TABLE_LINE_BYTES_MAX + 1).read_until(b'\n', &mut line).map_err(unread)? == 0 {
        return Ok(None);
    }
    if line.len() as u64 > TABLE_LINE_BYTES_MAX && !line.ends_with(b"\n") {
        input.skip_until(b'\n').map_err(unread)?;
        return Ok(Some((Err(format!("it is longer than {TABLE_LINE_BYTES_MAX} bytes")), 0)));
    }
    let row = match serde_json::from_slice::<Json>(&line) {
        Ok(Json::Object(object)) => Ok(Row::Object(object)),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    Ok(Some((row, line.len())))
}

pub(super) fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {why}", path.display()))
}
