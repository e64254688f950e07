//! The first stage: reads a TOML file into a flat list of dotted keys and texts.
//!
//! This stage checks only the TOML grammar and the shape of values: a key has one plain value or a list of plain
//! values. Dates, tables within lists and lists of lists have no meaning in this configuration; each is refused with
//! the name of its key. Every entry keeps its line number for later error messages.

use std::collections::BTreeMap;
use std::fmt;

use toml::de::{DeTable, DeValue};

use super::Problem;
use crate::limits::{CONFIGURATION_BYTES_MAX, CONFIGURATION_DEPTH_MAX};

/// The value of one key as given in the file or on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    /// The value, or the members of the list.
    pub texts: Vec<String>,
    /// The origin of the value.
    pub source: ValueSource,
}

/// The origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueSource {
    /// The key is not set and has its default.
    Default,
    /// The file, with the line number.
    File(usize),
    /// An option on the command line.
    CommandLine,
    /// The demo's preset.
    Demo,
}

impl ValueSource {
    /// Returns the line in the file, or `None` if the value does not come from the file.
    #[must_use]
    pub fn line(self) -> Option<usize> {
        match self {
            Self::File(line) => Some(line),
            _ => None,
        }
    }
}

impl fmt::Display for ValueSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line) => write!(f, "file, line {line}"),
            Self::CommandLine => f.write_str("command line"),
            Self::Demo => f.write_str("demo"),
        }
    }
}

/// All keys that were set, by dotted name.
pub type RawConfig = BTreeMap<String, RawValue>;

/// The result of reading a file.
#[derive(Debug, Default)]
pub struct ParsedFile {
    /// The keys.
    pub raw: RawConfig,
    /// Sections without any key, and their lines.
    pub empty_sections: Vec<(String, usize)>,
    /// Problems with values of a shape that no key accepts.
    pub problems: Vec<Problem>,
}

/// Parses the text of a file. Returns an error for the whole file if it is too long or is not valid TOML.
pub fn parse(text: &str) -> Result<ParsedFile, Problem> {
    if text.len() > CONFIGURATION_BYTES_MAX {
        return Err(Problem::general(format!("the file is longer than {CONFIGURATION_BYTES_MAX} bytes")));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        // Some messages of the TOML parser do not name the offending text, so the text at the error's position is
        // appended.
        let place = error.span().and_then(|span| text.get(span)).map(str::trim).unwrap_or_default();
        let names_it = place.is_empty() || place.contains('\n') || place.len() > 60;
        let text = if names_it { error.message().to_owned() } else { format!("{}: {place}", error.message()) };
        Problem { key: String::new(), line, text }
    })?;
    let mut reader = Reader { text, read: ParsedFile::default() };
    reader.read_table(table.get_ref(), "", 1);
    Ok(reader.read)
}

/// Parses `key=value` as given on the command line. A comma separates list members if the key takes a list.
pub fn parse_assignment(assignment: &str, source: ValueSource) -> Result<(String, RawValue), Problem> {
    let (key, value) = assignment
        .split_once('=')
        .ok_or_else(|| Problem::general(format!("{assignment:?} is not of the form section.key=value")))?;
    Ok((key.trim().to_owned(), RawValue { texts: vec![value.trim().to_owned()], source }))
}

struct Reader<'a> {
    text: &'a str,
    read: ParsedFile,
}

impl Reader<'_> {
    fn read_table(&mut self, table: &DeTable<'_>, prefix: &str, depth: usize) {
        for (name, value) in table {
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            let line = line_of(self.text, name.span().start);
            match value.get_ref() {
                DeValue::Table(inner) if inner.is_empty() => self.read.empty_sections.push((key, line)),
                DeValue::Table(inner) if depth < CONFIGURATION_DEPTH_MAX => self.read_table(inner, &key, depth + 1),
                value => self.read_entry(key, value, line),
            }
        }
    }

    fn read_entry(&mut self, key: String, value: &DeValue<'_>, line: usize) {
        let texts = match value {
            DeValue::Array(members) => members.iter().map(|member| plain_text(member.get_ref())).collect(),
            value => plain_text(value).map(|text| vec![text]),
        };
        match texts {
            Some(texts) => {
                self.read.raw.insert(key, RawValue { texts, source: ValueSource::File(line) });
            }
            None => {
                let text = "the value must be a string, a number, true or false, or a list of these".to_owned();
                self.read.problems.push(Problem { key, line: Some(line), text });
            }
        }
    }
}

fn plain_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(|n| n.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
