//! `doublet user add --batch`: adds many people from a CSV or JSON lines file.
//!
//! The file is read line by line and passed on in parts of some hundred people. Each part is one transaction, either in
//! this process or in a running server. Invalid lines, such as lines that are not UTF-8, are reported with their
//! numbers, and the others are added. An error that ends the command early is reported after the lines rejected until
//! then. Repeating the command after an interruption adds the missing people and reports the others as existing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use admin::answer::record;
use admin::request::{NewUserRequest, SecretText, UserRequest};
use admin::{Answer, Progress, Request, Unit, format_count};
use serde_json::{Value, json};

use super::admin_command::AdminTarget;
use super::terminal::{ProgressDisplay, format_as_json as as_json, format_for_people};
use super::{CommandError, GlobalOptions, print};
use crate::limits::{BATCH_BYTES_MAX, BATCH_LINE_BYTES_MAX, BATCH_PEOPLE_MAX};

/// Default columns of a file whose first line does not name them.
const COLUMNS: [&str; 3] = ["address", "name", "password"];

/// Adds all people in a file; `-` is standard input.
pub fn run(global: &GlobalOptions, file: &Path) -> Result<(), CommandError> {
    let config = Arc::new(global.load()?);
    let (input, total): (Box<dyn BufRead>, _) = if file == Path::new("-") {
        (Box::new(BufReader::new(std::io::stdin())), None)
    } else {
        let refuse = |error| CommandError(format!("{}: {error}", file.display()));
        let opened = File::open(file).map_err(refuse)?;
        let length = opened.metadata().map_err(refuse)?.len();
        (Box::new(BufReader::new(opened)), Some(length))
    };
    let office = AdminTarget::open(&config, true)?;
    let mut display = ProgressDisplay::new();
    let mut add = |people: Vec<NewUserRequest>| {
        let answer = office
            .execute(Request::User(UserRequest::AddMany { people }), &mut |_| std::ops::ControlFlow::Continue(()))?;
        Ok(answer.data.as_array().cloned().unwrap_or_default())
    };
    let mut report = |done| {
        let _ = display.show(&Progress { step: "adding people".to_owned(), done, total, unit: Unit::Bytes });
    };
    let BatchResult { added, refused, ended } = process(input, &mut add, &mut report);
    drop(display);
    let count = refused.len();
    let done = format!("{} added.", format_count(added, "person was", "people were"));
    let answer = if global.json {
        Answer::record(vec![("added", json!(added)), ("refused", Value::Array(refused))])
    } else {
        Answer::list(refused).with_message(done.as_str())
    };
    print(&if global.json {
        as_json(&answer)
    } else if count == 0 {
        format!("{done}\n")
    } else {
        format_for_people(&answer)
    });
    ended?;
    let lines = format_count(count, "line was", "lines were");
    if count > 0 { Err(CommandError(format!("{lines} not accepted; see the messages above"))) } else { Ok(()) }
}

/// Function that adds people. It returns one value per person: null, or the text of the error.
type AddPeople<'a> = dyn FnMut(Vec<NewUserRequest>) -> Result<Vec<Value>, CommandError> + 'a;

/// Result of processing a file.
struct BatchResult {
    /// Number of people added.
    added: u64,
    /// A record for each rejected line.
    refused: Vec<Value>,
    /// The error that ended the processing before the end of the file.
    ended: Result<(), CommandError>,
}

/// Processes all lines.
fn process(mut input: Box<dyn BufRead>, add: &mut AddPeople<'_>, report: &mut dyn FnMut(u64)) -> BatchResult {
    let mut part = PendingPart::default();
    let ended = part.take_lines(&mut input, add, report);
    BatchResult { added: part.added, refused: part.refused, ended }
}

/// People that were read and not passed on yet, with the result of all earlier lines.
#[derive(Default)]
struct PendingPart {
    people: Vec<(u64, NewUserRequest)>,
    bytes: u64,
    added: u64,
    refused: Vec<Value>,
}

impl PendingPart {
    fn take_lines(
        &mut self,
        input: &mut dyn BufRead,
        add: &mut AddPeople<'_>,
        report: &mut dyn FnMut(u64),
    ) -> Result<(), CommandError> {
        let mut columns: Option<Vec<String>> = None;
        let mut number = 0_u64;
        let mut done = 0_u64;
        while let Some((line, length)) = next_line(input)? {
            number += 1;
            done += length;
            let read = match line {
                Line::Empty => continue,
                Line::NotUtf8 => Err("the line is not UTF-8".to_owned()),
                Line::TooLong => Err(format!("the line is longer than {BATCH_LINE_BYTES_MAX} bytes")),
                Line::Text(text) if text.starts_with('{') => {
                    serde_json::from_str(&text).map_err(|error| error.to_string())
                }
                Line::Text(text) => match (split_fields(&text), &columns) {
                    (Ok(names), None) if names.iter().any(|name| name.eq_ignore_ascii_case("address")) => {
                        columns = Some(check_columns(&names)?);
                        continue;
                    }
                    (Ok(fields), columns) => parse_person(fields, columns.as_deref()),
                    (Err(reason), _) => Err(reason),
                },
            };
            match read {
                Ok(person) => self.people.push((number, person)),
                Err(reason) => self.refused.push(refusal_record(number, "", &reason)),
            }
            self.bytes += length;
            if self.people.len() >= BATCH_PEOPLE_MAX || self.bytes >= BATCH_BYTES_MAX {
                self.flush(add)?;
                report(done);
            }
        }
        self.flush(add)?;
        report(done);
        Ok(())
    }

    fn flush(&mut self, add: &mut AddPeople<'_>) -> Result<(), CommandError> {
        self.bytes = 0;
        let people = std::mem::take(&mut self.people);
        if people.is_empty() {
            return Ok(());
        }
        let outcomes = add(people.iter().map(|(_, person)| person.clone()).collect()).map_err(|failure| {
            let first = people.first().map_or(0, |(number, _)| *number);
            let people = format_count(self.added, "person was", "people were");
            CommandError(format!("{failure}\n{people} added from the lines before line {first}"))
        })?;
        for ((number, person), outcome) in people.iter().zip(outcomes) {
            match outcome.as_str() {
                None => self.added += 1,
                Some(reason) => self.refused.push(refusal_record(*number, &person.address, reason)),
            }
        }
        Ok(())
    }
}

fn refusal_record(number: u64, address: &str, reason: &str) -> Value {
    record(vec![("line", json!(number)), ("address", json!(address)), ("reason", json!(reason))])
}

enum Line {
    Empty,
    TooLong,
    NotUtf8,
    Text(String),
}

/// Reads a line and returns it with its length. A line that is too long is skipped without keeping it in memory.
fn next_line(input: &mut dyn BufRead) -> Result<Option<(Line, u64)>, CommandError> {
    let mut kept = Vec::new();
    let mut length = 0_u64;
    loop {
        let buffer = input.fill_buf().map_err(|error| CommandError(format!("cannot read the file: {error}")))?;
        if buffer.is_empty() {
            break;
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(buffer.len(), |end| end + 1);
        length += taken as u64;
        if length <= BATCH_LINE_BYTES_MAX {
            kept.extend_from_slice(buffer.get(..taken).unwrap_or_default());
        }
        input.consume(taken);
        if end.is_some() {
            break;
        }
    }
    if length == 0 {
        return Ok(None);
    }
    if length > BATCH_LINE_BYTES_MAX {
        return Ok(Some((Line::TooLong, length)));
    }
    let line = match std::str::from_utf8(&kept).map(|text| text.trim_start_matches('\u{feff}').trim()) {
        Err(_) => Line::NotUtf8,
        Ok(text) if text.is_empty() || text.starts_with('#') => Line::Empty,
        Ok(text) => Line::Text(text.to_owned()),
    };
    Ok(Some((line, length)))
}

/// Splits a line of CSV (RFC 4180). A quoted field may contain commas, and two quotes stand for one.
fn split_fields(line: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => parse_quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (field, after) = rest.split_at(end);
                (field.trim().to_owned(), after)
            }
        };
        fields.push(field);
        match after.trim_start().strip_prefix(',') {
            Some(next) => rest = next,
            None if after.trim().is_empty() => return Ok(fields),
            None => return Err("a comma is missing after a quoted field".to_owned()),
        }
    }
}

/// Parses a quoted field after its opening quote. Returns the field and the rest of the text.
fn parse_quoted_field(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"').ok_or("a quote is not closed")?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Ok((field, after)),
        }
    }
}

fn check_columns(names: &[String]) -> Result<Vec<String>, CommandError> {
    let names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    match names
        .iter()
        .find(|name| !["address", "name", "password", "password_hash", "quota", "alias"].contains(&name.as_str()))
    {
        Some(name) => Err(CommandError(format!(
            "{name:?} is not a column; the columns are address, name, password, password_hash, quota, alias"
        ))),
        None => Ok(names),
    }
}

fn parse_person(fields: Vec<String>, columns: Option<&[String]>) -> Result<NewUserRequest, String> {
    let count = columns.map_or(COLUMNS.len(), <[String]>::len);
    if fields.len() > count {
        return Err(format!(
            "there are {} fields instead of {count}; a comma within a field needs quotes",
            fields.len()
        ));
    }
    let mut person = NewUserRequest::default();
    for (index, field) in fields.into_iter().enumerate().filter(|(_, field)| !field.is_empty()) {
        let column = match columns {
            Some(columns) => columns.get(index).map_or("", String::as_str),
            None => COLUMNS.get(index).copied().unwrap_or(""),
        };
        match column {
            "address" => person.address = field,
            "name" => person.name = Some(field),
            "password" => person.password = Some(SecretText(field)),
            "password_hash" => person.password_hash = Some(SecretText(field)),
            "quota" => person.quota = Some(field),
            _ => person.aliases.extend(field.split_whitespace().map(str::to_owned)),
        }
    }
    if person.address.is_empty() { Err("the address is missing".to_owned()) } else { Ok(person) }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Processes a text. Returns the people, the number of parts, and the rejected lines.
    fn check(text: impl AsRef<[u8]>) -> (Vec<NewUserRequest>, usize, Vec<(u64, String)>) {
        let mut people = Vec::new();
        let mut parts = 0;
        let mut add = |part: Vec<NewUserRequest>| {
            parts += 1;
            let judge =
                |person: &NewUserRequest| if person.address.starts_with("bad") { json!("taken") } else { Value::Null };
            let outcomes = part.iter().map(judge).collect();
            people.extend(part);
            Ok(outcomes)
        };
        let input = Box::new(Cursor::new(text.as_ref().to_owned()));
        let BatchResult { added, refused, ended } = process(input, &mut add, &mut |_| {});
        ended.expect("it is read");
        let refused: Vec<(u64, String)> = refused
            .iter()
            .map(|row| (row["line"].as_u64().unwrap_or(0), row["reason"].as_str().unwrap_or("").to_owned()))
            .collect();
        assert_eq!(added as usize, people.iter().filter(|person| !person.address.starts_with("bad")).count());
        (people, parts, refused)
    }

    fn person(address: &str, name: &str, password: &str) -> NewUserRequest {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        NewUserRequest {
            address: address.to_owned(),
            name: some(name),
            password: some(password).map(SecretText),
            ..NewUserRequest::default()
        }
    }

    #[test]
    fn csv_and_json_lines_are_read() {
        let text = "\u{feff}a@x.test,Ann Archer,se\"same\r\n\n# a remark\nb@x.test,\"Bob, \"\"the\"\" B\", \"with, comma\"\n\
                    c@x.test\n{\"address\":\"d@x.test\",\"quota\":\"1GiB\",\"aliases\":[\"e@x.test\"]}";
        let (people, parts, refused) = check(text);
        assert_eq!((parts, refused.len()), (1, 0));
        assert_eq!(people[0], person("a@x.test", "Ann Archer", "se\"same"));
        assert_eq!(people[1], person("b@x.test", "Bob, \"the\" B", "with, comma"));
        assert_eq!(people[2], person("c@x.test", "", ""));
        assert_eq!(
            (people[3].quota.as_deref(), people[3].aliases.as_slice()),
            (Some("1GiB"), &["e@x.test".to_owned()][..])
        );
    }

    #[test]
    fn header_line_names_the_columns() {
        let (people, _, _) = check("Password,Address,alias,quota\nsesame,a@x.test,b@x.test c@x.test,2MiB\n");
        let expected = NewUserRequest {
            quota: Some("2MiB".to_owned()),
            aliases: vec!["b@x.test".to_owned(), "c@x.test".to_owned()],
            ..person("a@x.test", "", "sesame")
        };
        assert_eq!(people, [expected]);
        let input = Box::new(Cursor::new("address,shoe size\n"));
        assert!(process(input, &mut |_| Ok(Vec::new()), &mut |_| {}).ended.is_err());
    }

    #[test]
    fn refused_lines_are_reported_with_their_numbers() {
        let long = "x".repeat(BATCH_LINE_BYTES_MAX as usize + 1);
        let text = format!("a@x.test\n\"b@x.test\n,Name\na,b,c,d\n{{\"adress\":1}}\nbad@x.test\n{long}\nz@x.test\n");
        let (people, _, refused) = check(&text);
        assert_eq!(people.len(), 3);
        let lines: Vec<u64> = refused.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 7, 6]);
        assert!(refused.iter().any(|(line, reason)| *line == 6 && reason == "taken"), "{refused:?}");
    }

    #[test]
    fn lines_that_are_not_utf_8_are_refused() {
        let (people, _, refused) = check(b"a@x.test,J\xfcrgen,sesame\nb@x.test,\xc3\xbc,sesame\n\xff\xfea\0\n# \xfc\n");
        assert_eq!(people, [person("b@x.test", "\u{fc}", "sesame")]);
        let lines: Vec<(u64, &str)> = refused.iter().map(|(line, reason)| (*line, reason.as_str())).collect();
        assert_eq!(lines, [1, 3, 4].map(|line| (line, "the line is not UTF-8")));
    }

    #[test]
    fn refused_lines_are_reported_after_an_early_end() {
        let text: String = (0..=BATCH_PEOPLE_MAX).map(|number| format!("u{number}@x.test\na,b,c,d\n")).collect();
        let mut parts = 0;
        let mut add = |part: Vec<NewUserRequest>| {
            parts += 1;
            if parts > 1 { Err(CommandError("the disk is full".to_owned())) } else { Ok(vec![Value::Null; part.len()]) }
        };
        let work = process(Box::new(Cursor::new(text)), &mut add, &mut |_| {});
        assert_eq!((work.added, work.refused.len()), (BATCH_PEOPLE_MAX as u64, BATCH_PEOPLE_MAX + 1));
        let failure = work.ended.expect_err("the second part failed").to_string();
        assert!(failure.contains("the disk is full") && failure.contains("were added"), "{failure}");
    }

    #[test]
    fn large_files_are_processed_in_parts() {
        let text: String = (0..BATCH_PEOPLE_MAX * 2 + 1).map(|number| format!("u{number}@x.test\n")).collect();
        let (people, parts, _) = check(&text);
        assert_eq!((people.len(), parts), (BATCH_PEOPLE_MAX * 2 + 1, 3));
    }
}
