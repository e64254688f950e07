//! `doublet db export`: the documents of a database as a table, CSV or JSON lines.
//!
//! Documents are written completely: with the requested items of their bodies, and with several items of one name as a
//! list. Values without a text form (MIME parts, numbers that are not finite) and documents for which the formula
//! reaches a limit are counted and reported. Attachments are represented by their names. Each JSON object declares in
//! [`TYPES`] the types that its values do not show (Readers items, rich text). A CSV file cannot do this, so the answer
//! gives the options for importing it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use instance::Instance;
use notes::formula_document::FormulaDocument;
use notes::{DatabaseSnapshot, Item, ItemValue};
use serde_json::{Map, Value as Json, json};

use super::super::request::{TableExport, TableFormat};
use super::super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, report_step};
use super::columns::{TYPES, UNID, undetectable_type};
use super::open;
use crate::limits::TABLE_COLUMNS_MAX;

/// Writes the documents of a database to a file.
pub(crate) fn export(instance: &Instance, request: &TableExport, report: &mut ProgressCallback<'_>) -> AdminResult {
    let access = open(instance, &request.path)?;
    let selection = request.formula.as_deref().unwrap_or("SELECT @All");
    let formula = formula::Formula::compile(selection, &formula::FormulaOptions::default())
        .map_err(|error| AdminError::Refused(format!("--formula: {}", error.render(selection))))?;
    let reading = access.read()?;
    let form = request.format.unwrap_or_else(|| TableFormat::from_path(&request.file));
    let columns = match (form, &request.columns[..]) {
        (TableFormat::Csv, []) => all_columns(&reading, &formula)?,
        (_, columns) => columns.to_vec(),
    };
    let mut out = TableFile::create(&request.file, form, columns)?;
    let mut done = 0;
    let mut ended = Ok(());
    let total = Some(reading.counters().notes);
    let searched = reading.search(&formula, base::Modseq(0), &mut |document| {
        let items = items(&reading, document, &out.columns)?;
        ended = out.write(document.header, &items);
        done += 1;
        if ended.is_ok() && done % 1_000 == 0 {
            let step = format!("exporting {}", request.path);
            ended = report_step(report, Progress { step, done, total, unit: Unit::Notes });
        }
        Ok(ended.is_ok())
    })?;
    ended?;
    let written = out.finish(&request.file)?;
    Ok(answer(request, done, searched.over_limit, &written))
}

fn answer(request: &TableExport, documents: u64, documents_left_out: u64, written: &ExportStatistics) -> Answer {
    let values_left_out = written.values_left_out;
    let mut answer = Answer::record(vec![
        ("documents", json!(documents)),
        ("documents_left_out", json!(documents_left_out)),
        ("values_left_out", json!(values_left_out)),
        ("truncated", json!(written.truncated)),
        ("file", json!(request.file.display().to_string())),
    ])
    .with_message(format!("{} written.", format_count(documents, "document was", "documents were")));
    if values_left_out > 0 {
        let values = format_count(values_left_out, "value has", "values have");
        answer = answer.with_message(format!(
            "{values} no text form; the table omits such values. `doublet export` writes complete messages."
        ));
    }
    if written.truncated > 0 {
        let documents = format_count(written.truncated, "document is", "documents are");
        answer = answer.with_message(format!(
            "{documents} truncated: this replica does not have the whole contents. Export the database on another server."
        ));
    }
    if !written.undetectable_types.is_empty() {
        let maps: Vec<String> = written
            .undetectable_types
            .iter()
            .map(|(column, kind)| format!("--map '{column}={column}:{kind}'"))
            .collect();
        answer = answer.with_message(format!(
            "CSV does not record the types of some columns; import the file with {}.",
            maps.join(" ")
        ));
    }
    if documents_left_out > 0 {
        let documents = format_count(documents_left_out, "document was", "documents were");
        answer.failure =
            Some(format!("{documents} left out: the formula exceeded a limit there, so its result is unknown"));
    }
    answer
}

/// Returns the items of a document that the table contains. Only the wanted items of the body are read.
fn items(
    reading: &DatabaseSnapshot<'_>,
    document: &FormulaDocument<'_>,
    columns: &[String],
) -> notes::Result<Vec<Item>> {
    let is_wanted = |name: &str| columns.is_empty() || columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let summary = document.items.iter().filter(|item| is_wanted(item.name));
    let mut items: Vec<Item> = summary.map(notes::item::ItemRef::to_item).collect();
    for body in reading.body_items(document)?.iter().filter(|body| is_wanted(&body.name)) {
        let note = document.header.note;
        let damaged = || notes::Error::Damaged { database: reading.database().path(), note, record: "body" };
        items.push(reading.body_item(note, body.ordinal)?.ok_or_else(damaged)?);
    }
    Ok(items)
}

/// Returns the names of all items in the selected documents.
fn all_columns(reading: &DatabaseSnapshot<'_>, formula: &formula::Formula) -> Result<Vec<String>, AdminError> {
    let mut names: Vec<String> = Vec::new();
    let mut known = HashSet::new();
    reading.search(formula, base::Modseq(0), &mut |document| {
        let body = reading.body_items(document)?;
        let all = document.items.iter().map(|item| item.name).chain(body.iter().map(|body| body.name.as_str()));
        for name in all.filter(|name| known.insert(name.to_ascii_lowercase())) {
            names.push(name.to_owned());
        }
        Ok(names.len() <= TABLE_COLUMNS_MAX)
    })?;
    if names.len() > TABLE_COLUMNS_MAX {
        let reason =
            format!("the documents have more than {TABLE_COLUMNS_MAX} different items; choose some with --columns");
        return Err(AdminError::Refused(reason));
    }
    Ok(names)
}

/// The output file.
struct TableFile {
    writer: FormatWriter,
    /// The exported items. An empty list stands for all items, which is only possible for JSON lines.
    columns: Vec<String>,
    written: ExportStatistics,
}

/// Statistics about exported values.
#[derive(Default)]
struct ExportStatistics {
    /// Number of values without a text form.
    values_left_out: u64,
    /// Number of documents of which this replica has a part of the contents.
    truncated: u64,
    /// Types of CSV columns that an import would not detect.
    undetectable_types: BTreeMap<String, &'static str>,
}

enum FormatWriter {
    Csv(Box<csv::Writer<Box<dyn Write>>>),
    Lines(Box<dyn Write>),
}

impl TableFile {
    fn create(path: &Path, form: TableFormat, columns: Vec<String>) -> Result<Self, AdminError> {
        let out: Box<dyn Write> = Box::new(BufWriter::new(File::create(path).map_err(AdminError::file(path))?));
        let writer = match form {
            TableFormat::Jsonl => FormatWriter::Lines(out),
            TableFormat::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                let names = [UNID].into_iter().chain(columns.iter().map(String::as_str));
                writer.write_record(names).map_err(write_error)?;
                FormatWriter::Csv(Box::new(writer))
            }
        };
        Ok(Self { writer, columns, written: ExportStatistics::default() })
    }

    fn write(&mut self, header: &notes::NoteHeader, items: &[Item]) -> Result<(), AdminError> {
        let groups = group_by_name(items);
        self.written.truncated += u64::from(header.is_truncated());
        match &mut self.writer {
            FormatWriter::Csv(out) => {
                let place: HashMap<String, usize> =
                    (0..).zip(&groups).map(|(index, group)| (group[0].name.to_ascii_lowercase(), index)).collect();
                out.write_field(header.unid.to_string()).map_err(write_error)?;
                for column in &self.columns {
                    let group = place.get(&column.to_ascii_lowercase()).map(|index| groups[*index].as_slice());
                    let group = group.unwrap_or_default();
                    if let Some(kind) = undetectable_type(group) {
                        self.written.undetectable_types.insert(column.clone(), kind);
                    }
                    let value = join_values(group);
                    self.written.values_left_out += count_nulls(&value);
                    out.write_field(csv_text(value)).map_err(write_error)?;
                }
                out.write_record(None::<&[u8]>).map_err(write_error)
            }
            FormatWriter::Lines(out) => {
                let mut object = Map::new();
                object.insert(UNID.to_owned(), json!(header.unid.to_string()));
                if let Some(parent) = header.parent {
                    object.insert("$REF".to_owned(), json!(parent.to_string()));
                }
                let mut types = Map::new();
                for group in groups {
                    let name = group[0].name.clone();
                    let value = join_values(&group);
                    self.written.values_left_out += count_nulls(&value);
                    types.extend(undetectable_type(&group).map(|kind| (name.clone(), json!(kind))));
                    object.insert(name, value);
                }
                if !types.is_empty() {
                    object.insert(TYPES.to_owned(), Json::Object(types));
                }
                writeln!(out, "{}", Json::Object(object)).map_err(write_error)
            }
        }
    }

    /// Flushes the file.
    fn finish(self, path: &Path) -> Result<ExportStatistics, AdminError> {
        match self.writer {
            FormatWriter::Csv(mut out) => out.flush().map_err(AdminError::file(path))?,
            FormatWriter::Lines(mut out) => out.flush().map_err(AdminError::file(path))?,
        }
        Ok(self.written)
    }
}

/// Groups items by name, in the order in which the names first occur. No group is empty.
fn group_by_name(items: &[Item]) -> Vec<Vec<&Item>> {
    let mut groups: Vec<Vec<&Item>> = Vec::with_capacity(items.len());
    let mut known = HashMap::with_capacity(items.len());
    for item in items {
        let index = *known.entry(item.name.to_ascii_lowercase()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

/// Returns the value of the items of one name: a single item's value as it is, the values of several items as one list.
fn join_values(items: &[&Item]) -> Json {
    match items {
        [] => json!(""),
        [item] => to_json(&item.value),
        several => {
            let values = several.iter().map(|item| to_json(&item.value));
            Json::Array(
                values.flat_map(|value| if let Json::Array(values) = value { values } else { vec![value] }).collect(),
            )
        }
    }
}

fn count_nulls(value: &Json) -> u64 {
    match value {
        Json::Null => 1,
        Json::Array(values) => values.iter().filter(|value| value.is_null()).count() as u64,
        _ => 0,
    }
}

fn write_error(error: impl std::fmt::Display) -> AdminError {
    AdminError::Refused(format!("the file cannot be written: {error}"))
}

/// Formats a value for a CSV field. The values of a list are separated by the default list separator of an import.
fn csv_text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        Json::Array(values) => values.into_iter().map(csv_text).collect::<Vec<_>>().join(";"),
        Json::Null => String::new(),
        other => other.to_string(),
    }
}

fn to_json(value: &ItemValue) -> Json {
    match value {
        ItemValue::Text(text) | ItemValue::RichText(text) => json!(text),
        ItemValue::TextList(texts) => json!(texts),
        ItemValue::Number(number) => json!(number),
        ItemValue::NumberList(numbers) => json!(numbers),
        ItemValue::Time(time) => time_to_json(*time),
        ItemValue::TimeList(times) => Json::Array(times.iter().copied().map(time_to_json).collect()),
        ItemValue::Object { file_name, .. } => json!(file_name),
        ItemValue::NoteReferences(unids) => json!(unids.iter().map(ToString::to_string).collect::<Vec<_>>()),
        // A text that is no JSON, which only another program can have stored, stays a text.
        ItemValue::Json(text) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        ItemValue::MimePart(_) => Json::Null,
    }
}

/// Formats a timestamp according to RFC 3339, in UTC, with a fraction of the second only if there is one.
fn time_to_json(at: base::Timestamp) -> Json {
    let whole = at.to_rfc3339();
    let part = at.0.rem_euclid(1_000_000);
    json!(if part == 0 { whole } else { format!("{}.{part:06}Z", whole.trim_end_matches('Z')) })
}
