//! Display of answers and progress on a terminal.
//!
//! A list becomes a table with columns as wide as needed, up to a limit beyond which cells are truncated. A record
//! becomes lines of names and complete values. Fields whose name ends in `_bytes` are shown as sizes, other numbers as
//! the formula language writes them. No answer moves the cursor ([`super::terminal_text`]). Progress goes to standard
//! error, as a line that is redrawn on a terminal ([`super::progress_line`]), and as one line every [`STEP`] elsewhere.

use std::fmt::Write;
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use admin::{Answer, Progress, Unit, format_count};
use base::Clock;
use formula::number_text::format_general;
use instance::system::SystemClock;
use serde_json::{Map, Value};

use super::progress_line::ProgressLine;
use super::terminal_text::{lines, one_line, pad, truncate, width};

/// Interval between progress lines if standard error is not a terminal.
const STEP: Duration = Duration::from_secs(5);

/// Width in columns beyond which a list in a record is shown with one line per member.
const LIST_WIDTH: usize = 80;

/// Maximum width of a table cell in columns.
const CELL_WIDTH_MAX: usize = 80;

/// Maximum width of the last cell of a row in columns. It is larger because no cell follows that must be aligned; the
/// last column often holds reasons.
const LAST_CELL_WIDTH_MAX: usize = 200;

/// Name of the only field of a binary value in JSON.
pub const BINARY: &str = "base64";

/// Formats an answer for people.
#[must_use]
pub fn format_for_people(answer: &Answer) -> String {
    let mut text = match (&answer.text, &answer.data) {
        (Some(text), _) => text.clone(),
        (None, Value::Array(records)) => format_table(records),
        (None, Value::Object(fields)) => format_record(fields),
        (None, Value::Null) => String::new(),
        (None, other) => format!("{other}\n"),
    };
    for sentence in &answer.messages {
        let _ = writeln!(text, "{}", lines(sentence));
    }
    text
}

/// Formats an answer for programs, as JSON.
#[must_use]
pub fn format_as_json(answer: &Answer) -> String {
    let value =
        if answer.data.is_null() { serde_json::json!({ "says": answer.messages }) } else { answer.data.clone() };
    format!("{value}\n")
}

/// Formats the fields of a record, one per line. Values are not truncated.
fn format_record(fields: &Map<String, Value>) -> String {
    let columns = fields.keys().map(|name| width(&column_title(name))).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in fields {
        let title = column_title(name);
        let value = format_field(name, value);
        let _ = match value.starts_with('\n') {
            true => writeln!(text, "{title}{value}"),
            false => writeln!(text, "{}  {value}", pad(&title, columns)),
        };
    }
    text
}

/// Formats the value of a field. A list of records becomes a table below the name, a record becomes one line per field,
/// and a long list one line per member.
fn format_field(name: &str, value: &Value) -> String {
    let below = |text: String| -> String { text.lines().map(|line| format!("\n  {line}")).collect() };
    match value {
        Value::Array(records) if records.first().is_some_and(Value::is_object) => return below(format_table(records)),
        Value::Object(fields) if !fields.is_empty() && format_binary(fields).is_none() => {
            let columns = fields.keys().map(|name| width(&column_title(name))).max().unwrap_or(0);
            let line = |(name, value): (&String, &Value)| {
                format!("{}  {}\n", pad(&column_title(name), columns), format_cell(name, value))
            };
            return below(fields.iter().map(line).collect());
        }
        _ => {}
    }
    let flat = format_cell(name, value);
    match value {
        Value::Array(members) if members.len() > 1 && width(&flat) > LIST_WIDTH => {
            members.iter().map(|member| format!("\n  {}", format_cell(name, member))).collect()
        }
        _ => flat,
    }
}

/// Formats records as a table. Cells that are too wide are truncated.
fn format_table(records: &[Value]) -> String {
    let Some(Value::Object(first)) = records.first() else {
        return "(none)\n".to_owned();
    };
    let names: Vec<&String> = first.keys().collect();
    let width_max = |column| if column + 1 == names.len() { LAST_CELL_WIDTH_MAX } else { CELL_WIDTH_MAX };
    let fitted = |(column, text)| truncate(text, width_max(column));
    let mut rows = vec![names.iter().map(|name| column_title(name)).enumerate().map(fitted).collect::<Vec<_>>()];
    for record in records {
        let cells = names.iter().map(|name| format_cell(name, record.get(name.as_str()).unwrap_or(&Value::Null)));
        rows.push(cells.enumerate().map(fitted).collect());
    }
    let widest = |column: usize| rows.iter().map(|row| width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..names.len()).map(widest).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, columns)| pad(cell, *columns));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn column_title(name: &str) -> String {
    one_line(&name.trim_end_matches("_bytes").replace('_', " "))
}

fn format_cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => one_line(text),
        Value::Number(number) => match number.as_u64() {
            Some(bytes) if name.ends_with("_bytes") => format_size(bytes),
            _ if number.is_f64() => number.as_f64().map_or_else(String::new, format_general),
            _ => number.to_string(),
        },
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(members) if members.is_empty() => "-".to_owned(),
        Value::Array(members) => members.iter().map(|member| format_cell(name, member)).collect::<Vec<_>>().join(", "),
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => format_binary(fields).unwrap_or_else(|| {
            let field =
                |(name, value): (&String, &Value)| format!("{} {}", column_title(name), format_cell(name, value));
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }),
    }
}

/// Returns the text shown for a binary value, or `None` for an ordinary record.
fn format_binary(fields: &Map<String, Value>) -> Option<String> {
    let encoded = fields.get(BINARY).filter(|_| fields.len() == 1)?.as_str()?;
    let bytes = encoded.trim_end_matches('=').len() as u64 * 3 / 4;
    Some(format!("(binary, {})", format_size(bytes)))
}

/// Formats a size with three significant digits.
fn format_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units.get(unit).copied().unwrap_or("B"))
}

/// Shows progress until it is dropped.
pub struct ProgressDisplay {
    clock: SystemClock,
    /// The line of the current step, on a terminal.
    line: Option<ProgressLine>,
    terminal: bool,
    step: String,
    shown: Option<Duration>,
}

impl ProgressDisplay {
    /// Creates a progress display on standard error.
    #[must_use]
    pub fn new() -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { clock: SystemClock::new(), line: None, terminal, step: String::new(), shown: None }
    }

    /// Shows a progress step.
    pub fn show(&mut self, progress: &Progress) -> ControlFlow<()> {
        if self.terminal {
            self.draw(progress)
        } else {
            self.write(progress)
        }
        ControlFlow::Continue(())
    }

    fn draw(&mut self, progress: &Progress) {
        if self.step != progress.step {
            self.finish();
            self.step.clone_from(&progress.step);
        }
        let now = self.clock.monotonic();
        self.line.get_or_insert_with(|| ProgressLine::begin(now)).draw(progress, now);
    }

    fn write(&mut self, progress: &Progress) {
        let now = self.clock.monotonic();
        let due = self.shown.is_none_or(|shown| now.saturating_sub(shown) >= STEP);
        if due || self.step != progress.step || progress.total == Some(progress.done) {
            self.step.clone_from(&progress.step);
            self.shown = Some(now);
            let total =
                progress.total.map(|total| format!(" of {}", format_amount(total, progress.unit))).unwrap_or_default();
            eprintln!("{}: {}{total}", progress.step, format_amount(progress.done, progress.unit));
        }
    }

    fn finish(&mut self) {
        if let Some(line) = self.line.take() {
            line.finish();
        }
    }
}

impl Default for ProgressDisplay {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Formats an amount of work.
pub(super) fn format_amount(count: u64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => format_size(count),
        Unit::Messages => format_count(count, "message", "messages"),
        Unit::Notes => format_count(count, "note", "notes"),
        Unit::Views => format_count(count, "view", "views"),
        Unit::Rows => format_count(count, "row", "rows"),
        Unit::Databases => format_count(count, "database", "databases"),
        Unit::Tables => format_count(count, "table", "tables"),
        Unit::Files => format_count(count, "file", "files"),
    }
}

/// Writes a result to standard output. A closed pipe (`| head`) is not an error.
pub fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use admin::answer::record;

    fn check(answer: &Answer, expected: &str) {
        assert_eq!(format_for_people(answer), expected);
    }

    #[test]
    fn lists_become_tables() {
        let row = |address: &str, used: u64, quota: Value, aliases: Value| {
            record(vec![
                ("address", json!(address)),
                ("used_bytes", json!(used)),
                ("quota_bytes", quota),
                ("aliases", aliases),
            ])
        };
        let rows = vec![
            row("alice@demo.test", 1_500, json!(2u64 << 30), json!(["a@demo.test", "al@demo.test"])),
            row("b@demo.test", 12, Value::Null, json!([])),
        ];
        check(
            &Answer::list(rows).with_message("2 people."),
            "address          used     quota    aliases\n\
             alice@demo.test  1.5 KiB  2.0 GiB  a@demo.test, al@demo.test\n\
             b@demo.test      12 B     -        -\n\
             2 people.\n",
        );
        check(&Answer::list(Vec::new()), "(none)\n");
    }

    #[test]
    fn records_become_lines_and_messages_are_kept() {
        let answer = Answer::record(vec![("name", json!("Al\u{1b}[31m")), ("disabled", json!(false))]);
        check(&answer, "name      Al [31m\ndisabled  no\n");
        check(&Answer::message("Done."), "Done.\n");
        let file = Answer { text: Some("a = 1\n".to_owned()), ..Answer::record(vec![("a", json!(1))]) };
        check(&file, "a = 1\n");
        assert_eq!(format_as_json(&file), "{\"a\":1}\n");
        assert_eq!(format_as_json(&Answer::message("Done.")), "{\"says\":[\"Done.\"]}\n");
        assert_eq!(format_as_json(&Answer::list(vec![json!({"a": 1})]).with_message("One.")), "[{\"a\":1}]\n");
    }

    #[test]
    fn list_of_records_in_a_record_becomes_a_table() {
        let column = |name: &str, kind: Value| record(vec![("column", json!(name)), ("type", kind)]);
        let columns = json!([column("Name", json!("text")), column("Left out", Value::Null)]);
        let answer = Answer::record(vec![("columns", columns), ("documents", json!(2)), ("rejected_rows", json!([]))]);
        check(
            &answer.with_message("2 documents were made."),
            "columns\n  column    type\n  Name      text\n  Left out  -\ndocuments      2\nrejected rows  -\n2 documents were made.\n",
        );
    }

    #[test]
    fn long_cells_are_truncated_but_records_are_complete() {
        let long = "x".repeat(70_000);
        let row = record(vec![("subject", json!(long)), ("note", json!(7)), ("why", json!(long))]);
        let output = format_for_people(&Answer::list(vec![row.clone()]));
        let widths: Vec<usize> = output.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [CELL_WIDTH_MAX + 2 + 4 + 2 + 3, CELL_WIDTH_MAX + 2 + 4 + 2 + LAST_CELL_WIDTH_MAX]);
        assert_eq!(output.matches('…').count(), 2);
        assert!(format_as_json(&Answer::list(vec![row])).len() > 140_000, "programs get all of it");
        assert!(format_for_people(&Answer::record(vec![("subject", json!(long))])).contains(&long));
    }

    #[test]
    fn control_characters_do_not_leave_their_cell() {
        let row = |subject: &str| record(vec![("subject", json!(subject)), ("note", json!(1))]);
        check(
            &Answer::list(vec![row("two\r\nlines\u{1b}[2J"), row("東京")]),
            "subject         note\ntwo  lines [2J  1\n東京            1\n",
        );
        check(&Answer::list(vec![record(vec![("a\nb", json!(1))])]), "a b\n1\n");
        check(&Answer::message("a\u{7}b\nc"), "a b\nc\n");
    }

    #[test]
    fn numbers_have_the_digits_of_the_formula_language() {
        let numbers = [json!(24_920.100_000_000_002), json!(0.1 + 0.2), json!(-2.0), json!(7), json!(-7), json!(1e20)];
        let texts: Vec<String> = numbers.iter().map(|number| format_cell("amount", number)).collect();
        assert_eq!(texts, ["24920.1", "0.3", "-2", "7", "-7", "1E+20"]);
    }

    #[test]
    fn nested_record_has_one_line_per_field() {
        let items = json!({ "Form": "Task", "$ACL": { BINARY: "AP8B" }, "Tags": ["a", "b"] });
        let answer = Answer::record(vec![("note", json!(1)), ("items", items), ("none", json!({}))]);
        check(&answer, "note   1\nitems\n  Form  Task\n  $ACL  (binary, 3 B)\n  Tags  a, b\nnone   -\n");
    }

    #[test]
    fn one_has_the_singular_unit() {
        let text = |count| format_amount(count, Unit::Databases);
        assert_eq!([text(0), text(1), text(2)], ["0 databases", "1 database", "2 databases"]);
        assert_eq!(format_amount(1, Unit::Bytes), "1 B");
    }

    #[test]
    fn sizes_have_few_digits() {
        let sizes: Vec<String> = [0, 999, 1_000, 1 << 20, 150 << 20, u64::MAX].into_iter().map(format_size).collect();
        assert_eq!(sizes, ["0 B", "999 B", "1.0 KiB", "1.0 MiB", "150 MiB", "16.0 EiB"]);
    }
}
