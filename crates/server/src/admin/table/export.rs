//! `doublet db export`: the documents of a database as a table, CSV or JSON lines.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use notes::{Item, Value};
use serde_json::{Map, Value as Json, json};

use super::super::request::{TableExport, TableForm};
use super::super::{Answer, Failure, Outcome, Progress, Report, Unit, answer, counted, step};
use super::open;
use crate::core::Core;
use crate::limits::TABLE_COLUMNS_MAX;

/// Writes the documents of a database to a file.
pub(in crate::admin) fn export(core: &Core, request: &TableExport, report: &mut Report<'_>) -> Outcome {
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
    let moment = |time: &base::Timestamp| answer::moment(Some(*time));
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
