//! What becomes of the columns of a table: of which types they are, and the items of each row.
//!
//! JSON lines may have columns that the first rows lack. They become items as the others do, of the type of their first value, and it is told where they
//! begin; so what is known of columns depends on the rows before, and an import that goes on behind some must have shown those to [`Columns::meet`], too.

use std::collections::{HashMap, HashSet};

use base::limits::ITEM_NAME_BYTES_MAX;
use notes::{Access, Item, Value, level};
use serde_json::{Value as Json, json};

use super::super::answer::record;
use super::super::request::{TableForm, TableImport};
use super::super::{Failure, counted};
use super::rows::{Row, Rows, refused};
use crate::limits::TABLE_COLUMNS_MAX;
use crate::template;

/// Columns that come late of which each has a sentence.
const LATE_TOLD_MAX: usize = 10;

/// Bytes of what a file has that are quoted.
const QUOTED_BYTES_MAX: usize = 100;

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
    /// The row in which it first occurs, counted from one, where that is behind those that were looked at.
    first_row: Option<u64>,
}

impl Mapping {
    /// Maps a column to the item of its name; one without a name, and what only the program itself makes, to none.
    fn new(column: String, kind: Kind) -> Self {
        let item = (!column.is_empty() && !column.starts_with('$')).then(|| column.clone());
        Self { column, item, kind, said: false, first_row: None }
    }

    /// Takes the type that a form says.
    fn follow(&mut self, fields: &HashMap<String, String>) {
        if let Some(kind) = fields.get(&self.column.to_lowercase()).and_then(|kind| Kind::named(kind)) {
            (self.kind, self.said) = (kind, true);
        }
    }

    /// Says, of a column that comes late, where it does and what becomes of it.
    fn late(&self) -> Option<String> {
        let (name, row) = (quoted(&self.column), self.first_row?);
        let becomes = match &self.item {
            Some(_) => format!("its type is {}", self.kind.name()),
            None => "it is left out".to_owned(),
        };
        Some(format!("Column {name} first occurs in row {row}; {becomes}."))
    }
}

/// The columns of a table, as far as they are known: at most [`TABLE_COLUMNS_MAX`], in the order in which they occur.
pub(super) struct Columns {
    mappings: Vec<Mapping>,
    /// Their names.
    known: HashSet<String>,
    /// The types of the fields of the form, by their names in lower case.
    fields: HashMap<String, String>,
    /// What stands between the values of a list in one field.
    separator: char,
}

impl Columns {
    /// Finds out what becomes of the columns: what the first rows tell, before that the form, before both what was said. Errors say what was said wrong.
    pub(super) fn find(
        request: &TableImport,
        rows: &mut Rows,
        access: &Access<level::Designer>,
    ) -> Result<Self, Failure> {
        let fields = match &request.form {
            Some(name) => template::fields_of(access, name)?,
            None => HashMap::new(),
        };
        let mut mappings = sampled(request, rows)?;
        mappings.iter_mut().for_each(|mapping| mapping.follow(&fields));
        let known = mappings.iter().map(|mapping| mapping.column.clone()).collect();
        let mut columns = Self { mappings, known, fields, separator: request.list_separator };
        let said = request.map.iter().map(|text| Said::read(text)).collect::<Result<Vec<_>, _>>()?;
        columns.look_for(request, &said)?;
        for said in said {
            columns.change(said, request)?;
        }
        Ok(columns)
    }

    /// Reads through a file for columns that were spoken of and that its first rows lack, before anything is made. Rows of CSV have no others.
    fn look_for(&mut self, request: &TableImport, said: &[Said<'_>]) -> Result<(), Failure> {
        let mut missing: Vec<&str> = said.iter().map(|said| said.column).collect();
        missing.retain(|column| !self.mappings.iter().any(|mapping| mapping.column.eq_ignore_ascii_case(column)));
        if missing.is_empty() || request.is_input() || request.table_form() == TableForm::Csv {
            return Ok(());
        }
        let mut rows = Rows::open(&request.file, TableForm::Jsonl)?;
        let mut number = 0;
        while let Some((row, _)) = rows.next()? {
            number += 1;
            let Ok(Row::Object(object)) = row else { continue };
            for (name, value) in &object {
                let index = missing.iter().position(|column| column.eq_ignore_ascii_case(name));
                if let (Some(index), Some(kind)) = (index, kind_of_json(value)) {
                    missing.swap_remove(index);
                    self.add(name, kind, number);
                }
            }
            if missing.is_empty() {
                break;
            }
        }
        check_count(request, self.mappings.len())
    }

    fn change(&mut self, said: Said<'_>, request: &TableImport) -> Result<(), Failure> {
        let column = said.column;
        let mapping = self.mappings.iter_mut().find(|mapping| mapping.column.eq_ignore_ascii_case(column));
        let mapping = mapping.ok_or_else(|| {
            Failure::Refused(match request.is_input() {
                true => {
                    format!("the first rows have no column {column:?}; a later one can be spoken of only in a file")
                }
                false => format!("the file has no column {column:?}"),
            })
        })?;
        mapping.item = said.item.map(str::to_owned);
        if let Some(kind) = said.kind {
            (mapping.kind, mapping.said) = (kind, true);
        }
        Ok(())
    }

    /// Gets to know the columns that a row has and none before it had. Of a row with too many, or with a name that is too long, it tells so and learns
    /// nothing: what is kept in memory is bounded.
    pub(super) fn meet(&mut self, row: &Row, number: u64) -> Result<(), String> {
        let Row::Object(object) = row else { return Ok(()) };
        let mut late = Vec::new();
        for (name, value) in object.iter().filter(|(name, _)| !self.known.contains(*name)) {
            if let Some(kind) = kind_of_json(value) {
                late.push((name, kind));
            }
        }
        late.iter().try_for_each(|(name, _)| check_name(name, name))?;
        let left = TABLE_COLUMNS_MAX - self.mappings.len();
        if let Some((name, _)) = late.get(left) {
            return Err(format!("column {} would be one too many: at most {TABLE_COLUMNS_MAX}", quoted(name)));
        }
        late.into_iter().for_each(|(name, kind)| self.add(name, kind, number));
        Ok(())
    }

    fn add(&mut self, name: &str, kind: Kind, row: u64) {
        let mut mapping = Mapping { first_row: Some(row), ..Mapping::new(name.to_owned(), kind) };
        mapping.follow(&self.fields);
        self.mappings.push(mapping);
        self.known.insert(name.to_owned());
    }

    /// Makes the items of a row; an error says why it cannot be taken.
    pub(super) fn items(&self, row: &Row) -> Result<Vec<Item>, String> {
        let mut items = Vec::with_capacity(self.mappings.len() + 1);
        for (index, mapping) in self.mappings.iter().enumerate() {
            let Some(item) = &mapping.item else { continue };
            let texts = self.texts(row, index);
            if texts.is_empty() {
                continue;
            }
            check_name(item, &mapping.column)?;
            let value =
                value(mapping.kind, texts).map_err(|why| format!("column {}: {why}", quoted(&mapping.column)))?;
            items.push(match value {
                Value::RichText(_) => Item::body(item.clone(), value),
                value => Item::summary(item.clone(), value),
            });
        }
        Ok(items)
    }

    /// Gives the texts that a row has in a column, without empty ones.
    fn texts(&self, row: &Row, index: usize) -> Vec<String> {
        let mapping = &self.mappings[index];
        let mut texts: Vec<String> = match row {
            Row::Fields(fields) => match fields.get(index) {
                Some(field) if is_list(mapping.kind) => {
                    field.split(self.separator).map(|part| part.trim().to_owned()).collect()
                }
                Some(field) => vec![field.clone()],
                None => Vec::new(),
            },
            Row::Object(object) => object.get(&mapping.column).map(texts_of).unwrap_or_default(),
        };
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Gives a record of each column: `column`, `item` and `type` (null where it is left out), `said`, `first_row` (null unless it comes late).
    pub(super) fn records(&self) -> Vec<Json> {
        let of = |mapping: &Mapping| {
            record(vec![
                ("column", json!(mapping.column)),
                ("item", json!(mapping.item)),
                ("type", json!(mapping.item.as_ref().map(|_| mapping.kind.name()))),
                ("said", json!(mapping.said)),
                ("first_row", json!(mapping.first_row)),
            ])
        };
        self.mappings.iter().map(of).collect()
    }

    /// Tells of the first columns that come late in a sentence each, and how many more there are.
    pub(super) fn late(&self) -> Vec<String> {
        let mut told: Vec<String> = self.mappings.iter().filter_map(Mapping::late).collect();
        let more = told.len().saturating_sub(LATE_TOLD_MAX);
        told.truncate(LATE_TOLD_MAX);
        if more > 0 {
            told.push(format!("{} behind the rows that were looked at.", counted(more, "more occurs", "more occur")));
        }
        told
    }
}

/// What was said of a column: `COLUMN=ITEM:TYPE`.
struct Said<'r> {
    column: &'r str,
    /// Nothing when it is to be left out.
    item: Option<&'r str>,
    kind: Option<Kind>,
}

impl<'r> Said<'r> {
    fn read(text: &'r str) -> Result<Self, Failure> {
        let (column, target) = text.split_once('=').ok_or_else(|| wrong_map(text))?;
        let (item, kind) = match target.rsplit_once(':') {
            Some((item, kind)) => (item, Some(Kind::named(kind).ok_or_else(|| wrong_map(text))?)),
            None => (target, None),
        };
        if item.len() > ITEM_NAME_BYTES_MAX {
            let why = format!("--map {text:?}: the name of an item has at most {ITEM_NAME_BYTES_MAX} bytes");
            return Err(Failure::Refused(why));
        }
        Ok(Self { column, item: (!item.is_empty()).then_some(item), kind })
    }
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
    let mut names = rows.names().to_vec();
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
    check_count(request, names.len())?;
    let mapping = |(column, kind): (String, Option<Kind>)| Mapping::new(column, kind.unwrap_or(Kind::Text));
    Ok(names.into_iter().zip(kinds).map(mapping).collect())
}

fn check_count(request: &TableImport, count: usize) -> Result<(), Failure> {
    if count <= TABLE_COLUMNS_MAX {
        return Ok(());
    }
    Err(refused(&request.file, &format!("it has more than {TABLE_COLUMNS_MAX} columns")))
}

/// Gives what holds both; texts hold everything.
fn united(one: Option<Kind>, other: Option<Kind>) -> Option<Kind> {
    match (one, other) {
        (None, kind) | (kind, None) => kind,
        (Some(one), Some(other)) if one == other => Some(one),
        (Some(one), Some(other)) => Some(if is_list(one) || is_list(other) { Kind::TextList } else { Kind::Text }),
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

/// Tells what a value is; nothing of one that is empty. An object is the text that it is written as.
fn kind_of_json(value: &Json) -> Option<Kind> {
    match value {
        Json::Null => None,
        Json::Object(_) => Some(Kind::Text),
        Json::Bool(_) | Json::Number(_) => Some(Kind::Number),
        Json::String(text) if text.is_empty() => None,
        Json::String(text) => Some(if time(text).is_some() { Kind::Time } else { Kind::Text }),
        Json::Array(values) => {
            let kinds = values.iter().filter_map(kind_of_json).map(Some);
            Some(match kinds.reduce(united).flatten()? {
                Kind::Number | Kind::NumberList => Kind::NumberList,
                Kind::Time | Kind::TimeList => Kind::TimeList,
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
    let no_number = |text: &String| number(text.trim()).ok_or_else(|| format!("{} is no number", quoted(text)));
    let no_time = |text: &String| {
        time(text.trim())
            .ok_or_else(|| format!("{} is no date or time; write 2024-12-31 or 2024-12-31T23:59:59Z", quoted(text)))
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

fn check_name(name: &str, column: &str) -> Result<(), String> {
    if name.len() <= ITEM_NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "column {} has a name of more than {ITEM_NAME_BYTES_MAX} bytes; --map gives it another",
        quoted(column)
    ))
}

/// Quotes what a file has, or its beginning: it is told, and kept, for many rows.
pub(super) fn quoted(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    let more = if end < text.len() { "…" } else { "" };
    format!("{:?}{more}", &text[..end])
}
