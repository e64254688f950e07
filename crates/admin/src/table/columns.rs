//! Mapping of the columns of a table to items: the type of each column, and the items of each row.
//!
//! JSON lines may have columns that the first rows lack. Such columns become items like the others, with the type of
//! their first value, and the row in which they begin is reported. The known columns therefore depend on the rows
//! before, and an import that continues after some rows must first pass these rows to [`Columns::add_new_columns`].
//!
//! The types that an object declares in [`TYPES`], as those of an export do, take precedence over everything except
//! `--map`.

mod hints;
mod shown_items;

use std::collections::{HashMap, HashSet};

use base::Unid;
use base::limits::ITEM_NAME_BYTES_MAX;
use design::template;
use notes::{Access, Item, ItemFlags, ItemValue, level};
use serde_json::{Value as Json, json};

use self::hints::TextShape;
use self::shown_items::ShownItems;
use super::super::answer::record;
use super::super::request::{TableFormat, TableImport};
use super::super::{AdminError, format_count};
use super::rows::{Row, Rows, file_error};
use crate::limits::TABLE_COLUMNS_MAX;

/// Member of an object that declares the types of items whose values do not show them: item names with the type names
/// of `--map`.
pub(super) const TYPES: &str = "$TYPES";

/// Name of the column with the UNID of a document. As the target of a mapping it stands for the UNID instead of an
/// item.
pub(super) const UNID: &str = "$UNID";

/// Maximum number of late columns that are reported with a sentence each.
const LATE_MESSAGES_MAX: usize = 10;

/// Maximum number of bytes quoted from a file.
const QUOTED_BYTES_MAX: usize = 100;

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    Text,
    Number,
    Time,
    RichText,
    TextList,
    NumberList,
    TimeList,
    Readers,
    Authors,
    Names,
}

impl ColumnType {
    const ALL: [(&'static str, Self); 10] = [
        ("text", Self::Text),
        ("number", Self::Number),
        ("time", Self::Time),
        ("rich-text", Self::RichText),
        ("text-list", Self::TextList),
        ("number-list", Self::NumberList),
        ("time-list", Self::TimeList),
        ("readers", Self::Readers),
        ("authors", Self::Authors),
        ("names", Self::Names),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, kind)| *kind)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the item flags for this type.
    fn flags(self) -> ItemFlags {
        match self {
            Self::Readers => ItemFlags::NAMES.union(ItemFlags::READERS),
            Self::Authors => ItemFlags::NAMES.union(ItemFlags::AUTHORS),
            Self::Names => ItemFlags::NAMES,
            _ => ItemFlags::NONE,
        }
    }
}

/// Returns the type name of the items of one name, or `None` if their values show the type.
pub(super) fn undetectable_type(items: &[&Item]) -> Option<&'static str> {
    let has = |flag| items.iter().any(|item| item.flags.contains(flag));
    let kind = if has(ItemFlags::READERS) {
        ColumnType::Readers
    } else if has(ItemFlags::AUTHORS) {
        ColumnType::Authors
    } else if has(ItemFlags::NAMES) {
        ColumnType::Names
    } else if items.iter().any(|item| matches!(item.value, ItemValue::RichText(_))) {
        ColumnType::RichText
    } else {
        return None;
    };
    Some(kind.name())
}

/// Parses the column types that an object declares.
fn types_of(object: &serde_json::Map<String, Json>) -> Result<Vec<(&str, ColumnType)>, String> {
    let Some(types) = object.get(TYPES) else { return Ok(Vec::new()) };
    let Json::Object(types) = types else { return Err(format!("{TYPES} is not an object")) };
    let mut chosen = Vec::with_capacity(types.len());
    for (name, kind) in types {
        let wrong = || format!("{TYPES}: {} is not a valid type for column {}", quote(&kind.to_string()), quote(name));
        chosen.push((name.as_str(), kind.as_str().and_then(ColumnType::from_name).ok_or_else(wrong)?));
    }
    Ok(chosen)
}

/// Source of the type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeSource {
    /// The values of the sampled rows.
    Values,
    /// The form given with `--form`.
    Form,
    /// The `--map` option.
    Map,
}

/// A column and the item it becomes.
#[derive(Debug, Clone)]
struct Mapping {
    column: String,
    /// Name of the item, or `None` if the column is left out.
    item: Option<String>,
    kind: ColumnType,
    type_from: TypeSource,
    /// The type declared by the rows themselves; the last declaration counts.
    declared: Option<ColumnType>,
    /// The first row in which the value is an object, counted from one.
    object_row: Option<u64>,
    /// Apparent format of the texts in the sampled rows.
    looks: TextShape,
    /// The row in which the column first occurs, counted from one, if it does not occur in the sampled rows.
    first_row: Option<u64>,
}

impl Mapping {
    /// Maps a column to the item of the same name. A column without a name, or with a name that starts with `$`, is
    /// left out.
    fn new(column: String, kind: ColumnType) -> Self {
        let item = (!column.is_empty() && !column.starts_with('$')).then(|| column.clone());
        let type_from = TypeSource::Values;
        Self {
            column,
            item,
            kind,
            type_from,
            declared: None,
            object_row: None,
            looks: TextShape::default(),
            first_row: None,
        }
    }

    /// Takes the type from the form, if the form has a field of this name.
    fn apply_form(&mut self, fields: &HashMap<String, String>) {
        if let Some(kind) = fields.get(&self.column.to_lowercase()).and_then(|kind| ColumnType::from_name(kind)) {
            self.kind = kind;
            self.type_from = TypeSource::Form;
        }
    }

    /// Returns the reported type and its source.
    fn reported_type(&self) -> (ColumnType, &'static str) {
        match (self.type_from, self.declared) {
            (TypeSource::Map, _) => (self.kind, "--map"),
            (_, Some(kind)) => (kind, "the file"),
            (TypeSource::Form, None) => (self.kind, "the form"),
            (TypeSource::Values, None) => (self.kind, "its values"),
        }
    }

    /// Returns a sentence about a late column with its first row and its mapping, or `None` for a column of the sampled
    /// rows.
    fn late_message(&self) -> Option<String> {
        let name = quote(&self.column);
        let row = self.first_row?;
        let becomes = match &self.item {
            Some(_) => format!("its type is {}", self.reported_type().0.name()),
            None => "it is left out".to_owned(),
        };
        Some(format!("Column {name} first occurs in row {row}; {becomes}."))
    }
}

/// The known columns of a table: at most [`TABLE_COLUMNS_MAX`], in the order in which they first occur.
pub(super) struct Columns {
    mappings: Vec<Mapping>,
    /// The names of the columns.
    known: HashSet<String>,
    /// Types of the fields of the form, by lower-case field names.
    fields: HashMap<String, String>,
    /// Separator between the values of a list within one field.
    separator: char,
    /// Hint about the form.
    form_hint: Option<String>,
    /// The items that views show, if they are known.
    shown_items: Option<ShownItems>,
}

impl Columns {
    /// Determines the mapping of the columns. `--map` options take precedence over the form, and the form over the
    /// types of the sampled rows. Fails if a `--map` option is invalid.
    pub(super) fn determine(
        request: &TableImport,
        rows: &mut Rows,
        access: &Access<level::Designer>,
    ) -> Result<Self, AdminError> {
        let fields = match &request.form {
            Some(name) => template::form_fields(access, name)?,
            None => HashMap::new(),
        };
        let mut mappings = sample_columns(request, rows)?;
        mappings.iter_mut().for_each(|mapping| mapping.apply_form(&fields));
        let known = mappings.iter().map(|mapping| mapping.column.clone()).collect();
        let form_hint = if fields.is_empty() { hints::unknown_form_hint(request, access)? } else { None };
        let shown_items = ShownItems::read(access)?;
        let mut columns = Self { mappings, known, fields, separator: request.list_separator, form_hint, shown_items };
        let options = request.map.iter().map(|text| MapOption::read(text)).collect::<Result<Vec<_>, _>>()?;
        columns.find_late_mapped_columns(request, &options)?;
        for option in options {
            columns.apply_option(option, request)?;
        }
        Ok(columns)
    }

    /// Searches the whole file for columns that are named in `--map` and missing in the sampled rows, before any
    /// document is created. CSV files have no such columns.
    fn find_late_mapped_columns(&mut self, request: &TableImport, options: &[MapOption<'_>]) -> Result<(), AdminError> {
        let mut missing: Vec<&str> = options.iter().map(|option| option.column).collect();
        missing.retain(|column| !self.mappings.iter().any(|mapping| mapping.column.eq_ignore_ascii_case(column)));
        if missing.is_empty() || request.is_stdin() || request.table_format() == TableFormat::Csv {
            return Ok(());
        }
        let mut rows = Rows::open(request)?;
        let mut number = 0;
        while let Some((row, _)) = rows.next()? {
            number += 1;
            let Ok(Row::Object(object)) = row else { continue };
            for (name, value) in &object {
                let index = missing.iter().position(|column| column.eq_ignore_ascii_case(name));
                if let (Some(index), Some(kind)) = (index, kind_of_json(value)) {
                    missing.swap_remove(index);
                    self.add_column(name, kind, number);
                }
            }
            if missing.is_empty() {
                break;
            }
        }
        check_count(request, self.mappings.len())
    }

    fn apply_option(&mut self, option: MapOption<'_>, request: &TableImport) -> Result<(), AdminError> {
        let column = option.column;
        let mapping = self.mappings.iter_mut().find(|mapping| mapping.column.eq_ignore_ascii_case(column));
        let mapping = mapping.ok_or_else(|| {
            AdminError::Refused(match request.is_stdin() {
                true => {
                    format!("the first rows have no column {column:?}; to map a column that first occurs later, import from a file")
                }
                false => format!("the file has no column {column:?}"),
            })
        })?;
        mapping.item = option.item.map(str::to_owned);
        if let Some(kind) = option.kind {
            mapping.kind = kind;
            mapping.type_from = TypeSource::Map;
        }
        Ok(())
    }

    /// Adds the columns that occur first in this row.
    ///
    /// Fails if there are too many columns or if a name is too long. In this case no column is added, so that memory is
    /// bounded.
    pub(super) fn add_new_columns(&mut self, row: &Row, number: u64) -> Result<(), String> {
        let Row::Object(object) = row else { return Ok(()) };
        let types = types_of(object)?;
        let mut late = Vec::new();
        for (name, value) in object.iter().filter(|(name, _)| !self.known.contains(*name) && *name != TYPES) {
            if let Some(kind) = kind_of_json(value) {
                late.push((name, kind));
            }
        }
        late.iter().try_for_each(|(name, _)| check_name(name, name))?;
        let left = TABLE_COLUMNS_MAX - self.mappings.len();
        if let Some((name, _)) = late.get(left) {
            return Err(format!("column {} exceeds the limit of {TABLE_COLUMNS_MAX} columns", quote(name)));
        }
        late.into_iter().for_each(|(name, kind)| self.add_column(name, kind, number));
        for (name, _) in object.iter().filter(|(_, value)| has_object(value)) {
            if let Some(mapping) = self.find_mapping(name) {
                mapping.object_row.get_or_insert(number);
            }
        }
        for (name, kind) in types {
            if let Some(mapping) = self.find_mapping(name) {
                mapping.declared = Some(kind);
            }
        }
        Ok(())
    }

    fn find_mapping(&mut self, name: &str) -> Option<&mut Mapping> {
        self.mappings.iter_mut().find(|mapping| mapping.column == name)
    }

    fn add_column(&mut self, name: &str, kind: ColumnType, row: u64) {
        let mut mapping = Mapping { first_row: Some(row), ..Mapping::new(name.to_owned(), kind) };
        mapping.apply_form(&self.fields);
        self.mappings.push(mapping);
        self.known.insert(name.to_owned());
    }

    /// Returns the items of a row, or the reason why the row is rejected.
    pub(super) fn items_of_row(&self, row: &Row) -> Result<Vec<Item>, String> {
        let types = if let Row::Object(object) = row { types_of(object)? } else { Vec::new() };
        let mut items = Vec::with_capacity(self.mappings.len() + 1);
        for (index, mapping) in self.mappings.iter().enumerate() {
            let Some(item) = mapping.item.as_ref().filter(|item| !item.eq_ignore_ascii_case(UNID)) else { continue };
            let chosen = types.iter().find(|(name, _)| *name == mapping.column && mapping.type_from != TypeSource::Map);
            let kind = chosen.map_or(mapping.kind, |(_, kind)| *kind);
            let texts = self.texts_in_column(row, index, kind);
            if texts.is_empty() {
                continue;
            }
            check_name(item, &mapping.column)?;
            let value =
                parse_value(kind, texts).map_err(|reason| format!("column {}: {reason}", quote(&mapping.column)))?;
            let mut made = match value {
                ItemValue::RichText(_) => Item::body(item.clone(), value),
                value => Item::summary(item.clone(), value),
            };
            made.flags = made.flags.union(kind.flags());
            items.push(made);
        }
        Ok(items)
    }

    /// Returns the UNID for the document of a row, or `None` if no column is mapped to it or the value is empty.
    pub(super) fn unid(&self, row: &Row) -> Result<Option<Unid>, String> {
        let is_unid = |mapping: &Mapping| mapping.item.as_ref().is_some_and(|item| item.eq_ignore_ascii_case(UNID));
        let Some(index) = self.mappings.iter().position(is_unid) else { return Ok(None) };
        match &self.texts_in_column(row, index, ColumnType::Text)[..] {
            [] => Ok(None),
            [text, ..] => text.trim().parse().map(Some).map_err(|_| {
                let column = quote(&self.mappings[index].column);
                format!("column {column}: {} is not a UNID of 32 hexadecimal digits", quote(text))
            }),
        }
    }

    /// Returns the texts of a row in a column. Empty texts are removed, except within text lists.
    fn texts_in_column(&self, row: &Row, index: usize, kind: ColumnType) -> Vec<String> {
        let mapping = &self.mappings[index];
        let mut texts: Vec<String> = match row {
            Row::Fields(fields) => match fields.get(index) {
                Some(field) if is_list(kind) => {
                    field.split(self.separator).map(|part| part.trim().to_owned()).collect()
                }
                Some(field) => vec![field.clone()],
                None => Vec::new(),
            },
            Row::Object(object) => object.get(&mapping.column).map(texts_of).unwrap_or_default(),
        };
        // An empty entry of a text list keeps its position.
        if kind != ColumnType::TextList || texts.iter().all(String::is_empty) {
            texts.retain(|text| !text.is_empty());
        }
        texts
    }

    /// Returns a record per column: `column`, `item`, `type` and `type_from`, the source of the type (null if the
    /// column is left out), `first_row` (null unless the column is late), and `in_views`, which is `true` if a view
    /// shows or uses the item (null if the column is left out, or if this is unknown).
    pub(super) fn records(&self) -> Vec<Json> {
        let in_views = |mapping: &Mapping| self.shown_items.as_ref().map(|shown| shown.has(mapping));
        let of = |mapping: &Mapping| {
            record(vec![
                ("column", json!(mapping.column)),
                ("item", json!(mapping.item)),
                ("type", json!(mapping.item.as_ref().map(|_| mapping.reported_type().0.name()))),
                ("type_from", json!(mapping.item.as_ref().map(|_| mapping.reported_type().1))),
                ("first_row", json!(mapping.first_row)),
                ("in_views", json!(mapping.item.as_ref().and(in_views(mapping)))),
            ])
        };
        self.mappings.iter().map(of).collect()
    }

    /// Returns hints about the columns that a person should read before documents are created.
    pub(super) fn hints(&self) -> Vec<String> {
        let of_views = self.shown_items.iter().flat_map(|shown| shown.hints(&self.mappings));
        self.form_hint.iter().cloned().chain(hints::column_hints(&self.mappings)).chain(of_views).collect()
    }

    /// Returns a sentence for each of the first late columns, and one with the number of the others.
    pub(super) fn late_messages(&self) -> Vec<String> {
        let mut messages: Vec<String> = self.mappings.iter().filter_map(Mapping::late_message).collect();
        let more = messages.len().saturating_sub(LATE_MESSAGES_MAX);
        messages.truncate(LATE_MESSAGES_MAX);
        if more > 0 {
            messages.push(format!("{} after the examined rows.", format_count(more, "more occurs", "more occur")));
        }
        messages
    }
}

/// A parsed `--map` option: `COLUMN=ITEM:TYPE`.
struct MapOption<'r> {
    column: &'r str,
    /// Name of the item, or `None` to leave the column out.
    item: Option<&'r str>,
    kind: Option<ColumnType>,
}

impl<'r> MapOption<'r> {
    fn read(text: &'r str) -> Result<Self, AdminError> {
        let (column, target) = text.split_once('=').ok_or_else(|| map_option_error(text))?;
        let (item, kind) = match target.rsplit_once(':') {
            Some((item, kind)) => (item, Some(ColumnType::from_name(kind).ok_or_else(|| map_option_error(text))?)),
            None => (target, None),
        };
        if item.len() > ITEM_NAME_BYTES_MAX {
            let reason = format!("--map {text:?}: an item name must have at most {ITEM_NAME_BYTES_MAX} bytes");
            return Err(AdminError::Refused(reason));
        }
        Ok(Self { column, item: (!item.is_empty()).then_some(item), kind })
    }
}

fn map_option_error(text: &str) -> AdminError {
    let kinds: Vec<&str> = ColumnType::ALL.iter().map(|(name, _)| *name).collect();
    AdminError::Refused(format!(
        "--map {text:?}: write COLUMN=ITEM, COLUMN=ITEM:TYPE or COLUMN= to leave a column out; types are {}",
        kinds.join(", ")
    ))
}

/// Determines the columns and their types from the first rows.
fn sample_columns(request: &TableImport, rows: &mut Rows) -> Result<Vec<Mapping>, AdminError> {
    let mut names = rows.column_names().to_vec();
    let mut found: Vec<(Option<ColumnType>, TextShape)> = vec![Default::default(); names.len()];
    for row in rows.look_ahead()?.iter().flat_map(|(row, _)| row) {
        match row {
            Row::Fields(fields) => {
                for ((kind, looks), field) in found.iter_mut().zip(fields) {
                    *kind = common_type(*kind, kind_of_text(field));
                    looks.add(field);
                }
            }
            Row::Object(object) => {
                for (name, value) in object.iter().filter(|(name, _)| *name != TYPES) {
                    let index = names.iter().position(|known| known == name).unwrap_or_else(|| {
                        names.push(name.clone());
                        found.push(Default::default());
                        names.len() - 1
                    });
                    let (kind, looks) = &mut found[index];
                    *kind = common_type(*kind, kind_of_json(value));
                    looks.add(value.as_str().unwrap_or_default());
                }
            }
        }
    }
    check_count(request, names.len())?;
    let mapping = |(column, (kind, looks)): (String, (Option<ColumnType>, TextShape))| Mapping {
        looks,
        ..Mapping::new(column, kind.unwrap_or(ColumnType::Text))
    };
    Ok(names.into_iter().zip(found).map(mapping).collect())
}

fn check_count(request: &TableImport, count: usize) -> Result<(), AdminError> {
    if count <= TABLE_COLUMNS_MAX {
        return Ok(());
    }
    Err(file_error(&request.file, &format!("it has more than {TABLE_COLUMNS_MAX} columns")))
}

/// Returns a type that can hold values of both types. Text can hold everything.
fn common_type(one: Option<ColumnType>, other: Option<ColumnType>) -> Option<ColumnType> {
    match (one, other) {
        (None, kind) | (kind, None) => kind,
        (Some(one), Some(other)) if one == other => Some(one),
        (Some(one), Some(other)) => {
            Some(if is_list(one) || is_list(other) { ColumnType::TextList } else { ColumnType::Text })
        }
    }
}

fn kind_of_text(text: &str) -> Option<ColumnType> {
    let text = text.trim();
    if text.is_empty() {
        None
    } else if parse_number(text).is_some() {
        Some(ColumnType::Number)
    } else if parse_time(text).is_some() {
        Some(ColumnType::Time)
    } else {
        Some(ColumnType::Text)
    }
}

/// Returns the type of a value, or `None` if it is empty. An object has the type text, because it is stored as its JSON
/// text.
fn kind_of_json(value: &Json) -> Option<ColumnType> {
    match value {
        Json::Null => None,
        Json::Object(_) => Some(ColumnType::Text),
        Json::Number(digits) if parse_number(&digits.to_string()).is_none() => Some(ColumnType::Text),
        Json::Bool(_) | Json::Number(_) => Some(ColumnType::Number),
        Json::String(text) if text.is_empty() => None,
        Json::String(text) => Some(if parse_time(text).is_some() { ColumnType::Time } else { ColumnType::Text }),
        Json::Array(values) => {
            let kinds = values.iter().filter_map(kind_of_json).map(Some);
            Some(match kinds.reduce(common_type).flatten()? {
                ColumnType::Number | ColumnType::NumberList => ColumnType::NumberList,
                ColumnType::Time | ColumnType::TimeList => ColumnType::TimeList,
                _ => ColumnType::TextList,
            })
        }
    }
}

/// Maximum number of digits of a whole number that keeps all its digits.
const NUMBER_DIGITS_MAX: usize = 15;

/// Parses a number. Texts with leading zeros, such as postcodes and telephone numbers, are not numbers. Neither are
/// texts with more digits than a number keeps, such as card and account numbers.
fn parse_number(text: &str) -> Option<f64> {
    let digits = text.trim_start_matches('-');
    let is_padded = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let is_too_exact = digits.len() > NUMBER_DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_digit());
    let starts_right = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if is_padded || is_too_exact || !starts_right {
        None
    } else {
        text.parse().ok().filter(|number: &f64| number.is_finite())
    }
}

/// Parses a point in time: RFC 3339, or a date alone.
fn parse_time(text: &str) -> Option<base::Timestamp> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(base::Timestamp(moment.as_microsecond()));
    }
    let date: jiff::civil::Date = (text.len() == 10).then(|| text.parse().ok()).flatten()?;
    let midnight = date.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok()?;
    Some(base::Timestamp(midnight.timestamp().as_microsecond()))
}

fn is_list(kind: ColumnType) -> bool {
    !matches!(kind, ColumnType::Text | ColumnType::Number | ColumnType::Time | ColumnType::RichText)
}

/// Returns `true` if a value is an object or a list that contains one. The object is stored as its JSON text.
fn has_object(value: &Json) -> bool {
    match value {
        Json::Object(_) => true,
        Json::Array(values) => values.iter().any(Json::is_object),
        _ => false,
    }
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

fn parse_value(kind: ColumnType, mut texts: Vec<String>) -> Result<ItemValue, String> {
    let no_number = |text: &String| parse_number(text.trim()).ok_or_else(|| format!("{} is not a number", quote(text)));
    let no_time = |text: &String| {
        parse_time(text.trim())
            .ok_or_else(|| format!("{} is not a date or time; write 2024-12-31 or 2024-12-31T23:59:59Z", quote(text)))
    };
    let numbers = || texts.iter().map(no_number).collect::<Result<Vec<f64>, String>>();
    Ok(match kind {
        ColumnType::Text if texts.len() == 1 => ItemValue::Text(texts.swap_remove(0)),
        ColumnType::Text | ColumnType::TextList | ColumnType::Readers | ColumnType::Authors | ColumnType::Names => {
            ItemValue::TextList(texts)
        }
        ColumnType::RichText => ItemValue::RichText(texts.join("\n")),
        ColumnType::Number | ColumnType::NumberList => match numbers()?[..] {
            [number] => ItemValue::Number(number),
            ref numbers => ItemValue::NumberList(numbers.to_vec()),
        },
        ColumnType::Time | ColumnType::TimeList => {
            let times = texts.iter().map(no_time).collect::<Result<Vec<_>, String>>()?;
            if let [time] = times[..] { ItemValue::Time(time) } else { ItemValue::TimeList(times) }
        }
    })
}

fn check_name(name: &str, column: &str) -> Result<(), String> {
    if let Some(reserved) = notes::formula_document::reserved_item(name) {
        return Err(format!("column {}: {reserved} is not an item that can be set", quote(column)));
    }
    if name.len() <= ITEM_NAME_BYTES_MAX {
        return Ok(());
    }
    Err(format!("column {} has a name of more than {ITEM_NAME_BYTES_MAX} bytes; --map gives it another", quote(column)))
}

/// Quotes a text of the file, or its beginning if it is long. The length is bounded because quotes are reported and
/// kept for many rows.
pub(super) fn quote(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    let more = if end < text.len() { "…" } else { "" };
    format!("{:?}{more}", &text[..end])
}
