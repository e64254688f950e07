//! Hints about the columns of a table: sentences about likely mistakes in a table that can be imported, each with the
//! way to correct it.
//!
//! The hints do not change the mapping of the columns.

use notes::{Access, NoteClass, level};

use super::super::super::AdminError;
use super::super::super::request::TableImport;
use super::{ColumnType, Mapping, TypeSource, UNID, format_count, parse_number, quote};

/// Maximum number of hints of one sort. Further ones are only counted.
const HINTS_MAX: usize = 10;

/// Apparent format of the texts in a column.
#[derive(Debug, Clone, Default)]
pub(super) struct TextShape {
    /// The first text that would be a number except for its comma.
    comma_number: Option<String>,
    /// The first text that looks like a date in a local format.
    date: Option<String>,
    has_numbers: bool,
    has_others: bool,
}

impl TextShape {
    /// Adds a text. Empty texts are ignored.
    pub(super) fn add(&mut self, text: &str) {
        let text = text.trim();
        if self.has_others || text.is_empty() {
            return;
        }
        if parse_number(text).is_some() {
            self.has_numbers = true;
        } else if is_comma_number(text) {
            self.comma_number.get_or_insert_with(|| text.to_owned());
        } else if is_written_date(text) {
            self.date.get_or_insert_with(|| text.to_owned());
        } else {
            self.has_others = true;
        }
    }

    /// Returns a hint on what all texts of the column could be.
    fn hint(&self) -> Option<String> {
        match (&self.comma_number, &self.date) {
            _ if self.has_others => None,
            (Some(text), None) => Some(format!(
                "looks like numbers, such as {}; only numbers with a decimal point, such as 12.5, are recognized",
                quote(text)
            )),
            (None, Some(text)) if !self.has_numbers => Some(format!(
                "looks like dates, such as {}; only dates written as 2024-12-31 are recognized",
                quote(text)
            )),
            _ => None,
        }
    }
}

/// Returns `true` if a text is a number with a comma, either as the decimal separator or between thousands.
fn is_comma_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    let has_ends = [digits.chars().next(), digits.chars().last()].iter().flatten().all(char::is_ascii_digit);
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, ',' | '.' | '\'' | ' ' | '\u{a0}' | '\u{202f}');
    // Several commas occur between thousands, or in a list.
    let mut groups = digits.split(',').skip(1).map(|group| group.split('.').next().unwrap_or_default().len());
    let has_one = digits.matches(',').count() == 1;
    has_ends && digits.chars().all(is_part) && (has_one || (digits.contains(',') && groups.all(|length| length == 3)))
}

/// Returns `true` if a text begins with a date such as 31.12.2020, 12/31/20 or 31-12-2020.
fn is_written_date(text: &str) -> bool {
    let date = text.split([' ', ',']).next().unwrap_or_default();
    ['.', '/', '-'].iter().any(|separator| {
        let parts: Vec<&str> = date.split(*separator).collect();
        let is_of =
            |part: &str, lengths: &[usize]| lengths.contains(&part.len()) && part.chars().all(|c| c.is_ascii_digit());
        matches!(parts[..], [one, two, year] if is_of(one, &[1, 2]) && is_of(two, &[1, 2]) && is_of(year, &[2, 4]))
    })
}

/// Returns a hint if the database has forms, but none with the requested name.
pub(super) fn unknown_form_hint(
    request: &TableImport,
    access: &Access<level::Designer>,
) -> Result<Option<String>, AdminError> {
    let Some(name) = &request.form else { return Ok(None) };
    let reading = access.read()?;
    let mut titles = Vec::new();
    for note in reading.design_notes()? {
        let form = reading.note(note)?.filter(|note| note.header.class == NoteClass::FORM);
        titles.extend(form.and_then(|form| form.text("$TITLE").map(str::to_owned)));
    }
    let is_named = |title: &String| title.split('|').any(|alias| alias.trim() == name);
    if titles.is_empty() || titles.iter().any(is_named) {
        return Ok(None);
    }
    let others = titles.iter().take(HINTS_MAX).map(|title| quote(title)).collect::<Vec<_>>().join(", ");
    Ok(Some(format!("{} has no form {}; its forms are {others}.", request.path, quote(name))))
}

/// Returns all hints about the columns.
pub(super) fn column_hints(mappings: &[Mapping]) -> Vec<String> {
    let sorts: [fn(&Mapping) -> Option<String>; 5] =
        [column_without_name_hint, object_as_text_hint, unusable_name_hint, likely_type_hint, access_item_hint];
    let mut hints: Vec<String> = left_out_hint(mappings).into_iter().collect();
    hints.extend(truncate_hints(duplicate_item_hints(mappings)));
    for sort in sorts {
        hints.extend(truncate_hints(mappings.iter().filter_map(sort).collect()));
    }
    hints
}

/// Returns the first hints, and a sentence with the number of the others.
fn truncate_hints(mut hints: Vec<String>) -> Vec<String> {
    let more = hints.len().saturating_sub(HINTS_MAX);
    if more > 0 {
        hints.truncate(HINTS_MAX);
        hints.push(format!("The same applies to {}.", format_count(more, "more column", "more columns")));
    }
    hints
}

/// Returns a hint that lists the columns left out because of their names.
fn left_out_hint(mappings: &[Mapping]) -> Option<String> {
    let left: Vec<&Mapping> =
        mappings.iter().filter(|mapping| mapping.item.is_none() && mapping.column.starts_with('$')).collect();
    let names = left.iter().take(HINTS_MAX).map(|mapping| quote(&mapping.column)).collect::<Vec<_>>().join(", ");
    let more = match left.len().saturating_sub(HINTS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let has = |name: &str| left.iter().any(|mapping| mapping.column.eq_ignore_ascii_case(name));
    let unid = if has(UNID) {
        format!(" Documents get new UNIDs; --map '{UNID}={UNID}' keeps those of the file.")
    } else {
        String::new()
    };
    let parent = if has("$REF") { " No document becomes a response." } else { "" };
    let reason = "left out because their names begin with $; --map can name items for them";
    (!left.is_empty()).then(|| format!("Columns {names}{more} are {reason}.{unid}{parent}"))
}

/// Returns hints about columns that become items of the same name.
fn duplicate_item_hints(mappings: &[Mapping]) -> Vec<String> {
    let mut known = std::collections::HashMap::new();
    let mut hints = Vec::new();
    for (number, mapping) in (1..).zip(mappings) {
        let Some(item) = &mapping.item else { continue };
        let first: usize = *known.entry(item.to_ascii_lowercase()).or_insert(number);
        if first != number {
            let item = quote(item);
            hints.push(format!(
                "Columns {first} and {number} both become {item}: each document gets two items of that name."
            ));
        }
    }
    hints
}

fn column_without_name_hint(mapping: &Mapping) -> Option<String> {
    let is_lost = mapping.column.is_empty() && mapping.item.is_none();
    is_lost.then(|| "A column has no name and is left out; --map '=ITEM' names an item for it.".to_owned())
}

fn object_as_text_hint(mapping: &Mapping) -> Option<String> {
    let row = mapping.object_row?;
    let _ = mapping.item.as_ref()?;
    let column = quote(&mapping.column);
    Some(format!("Column {column} contains objects, first in row {row}; they become their JSON text."))
}

/// Returns a hint if no formula can refer to the item by its name, with a better name.
fn unusable_name_hint(mapping: &Mapping) -> Option<String> {
    let item = mapping.item.as_ref()?;
    let is_begin = |c: char| c.is_alphabetic() || matches!(c, '$' | '_' | '~');
    let is_part = |c: char| is_begin(c) || c.is_ascii_digit() || c == '.';
    let is_plain = item.starts_with(is_begin) && item.chars().all(is_part);
    if is_plain && formula::Formula::compile(item, &formula::FormulaOptions::default()).is_ok() {
        return None;
    }
    let words = item.split(|c: char| !is_part(c)).filter(|word| !word.is_empty());
    let better = words.collect::<Vec<_>>().join("_");
    let better = if !is_plain && better.starts_with(is_begin) { better } else { format!("Item_{better}") };
    let column = &mapping.column;
    let item = quote(item);
    let map = if column.contains('\'') { "--map".to_owned() } else { format!("--map '{column}={better}'") };
    Some(format!("Formulas cannot refer to the item {item}; {map} gives it another name."))
}

fn likely_type_hint(mapping: &Mapping) -> Option<String> {
    let is_text = mapping.item.is_some() && mapping.kind == ColumnType::Text && mapping.type_from == TypeSource::Values;
    let hint = mapping.looks.hint().filter(|_| is_text)?;
    Some(format!("Column {} is imported as text. It {hint}.", quote(&mapping.column)))
}

/// Returns a hint if the name of a column suggests a Readers or Authors item, but its type has no effect on access.
fn access_item_hint(mapping: &Mapping) -> Option<String> {
    let item = mapping.item.as_ref()?;
    let name = mapping.column.to_ascii_lowercase();
    let wanted = ["readers", "authors"].into_iter().find(|wanted| name.ends_with(wanted))?;
    let (kind, _) = mapping.reported_type();
    if kind.flags() != notes::ItemFlags::NONE || mapping.type_from == TypeSource::Map {
        return None;
    }
    let what = if wanted == "readers" {
        "does not restrict who can read a document"
    } else {
        "does not let anyone edit a document"
    };
    let column = quote(&mapping.column);
    Some(format!(
        "Column {column} becomes {} and {what}; --map '{}={item}:{wanted}' makes it an item that does.",
        kind.name(),
        mapping.column
    ))
}
