//! What becomes of the columns of a table: of which types they are, and the items of each row.

use notes::{Access, Item, Value, level};
use serde_json::Value as Json;

use super::super::Failure;
use super::super::request::TableImport;
use super::rows::{Row, Rows, refused};
use crate::limits::TABLE_COLUMNS_MAX;
use crate::template;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A column and the item that it becomes.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    pub(super) column: String,
    /// Nothing of a column that is left out.
    pub(super) item: Option<String>,
    pub(super) kind: Kind,
    /// The type was said, not found out.
    pub(super) said: bool,
}

/// Finds out what becomes of the columns.
pub(super) fn mappings(
    request: &TableImport,
    rows: &mut Rows,
    access: &Access<level::Designer>,
) -> Result<Vec<Mapping>, Failure> {
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
pub(super) fn items(mappings: &[Mapping], row: &Row, separator: char) -> Result<Vec<Item>, String> {
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
