//! Items as people write and read them: `Name=text`, `Name:number=5`, `Name:time=2026-01-31T12:00:00Z`; the same name several times makes a list.

use client::v1;
use client::v1::value::Kind;
use serde_json::{Value, json};

use crate::admin::answer::rfc3339;
use crate::cli::Failure;

/// Reads the assignments of a command line.
pub(super) fn read(assignments: &[String]) -> Result<Vec<v1::Item>, Failure> {
    let mut items: Vec<v1::Item> = Vec::new();
    for assignment in assignments {
        let (name, kind) = read_one(assignment)?;
        let known = items.iter_mut().find(|item| item.name.eq_ignore_ascii_case(name));
        match known {
            Some(item) => {
                let joined = item.value.take().and_then(|value| value.kind).and_then(|first| join(first, kind));
                let joined = joined.ok_or_else(|| Failure(format!("{name}: a list has values of one type")))?;
                item.value = Some(v1::Value { kind: Some(joined) });
            }
            None => items.push(v1::Item {
                name: name.to_owned(),
                flags: Some(v1::ItemFlags { summary: true, ..v1::ItemFlags::default() }),
                value: Some(v1::Value { kind: Some(kind) }),
            }),
        }
    }
    Ok(items)
}

fn read_one(assignment: &str) -> Result<(&str, Kind), Failure> {
    let broken = |why: &str| Failure(format!("{assignment:?}: {why}"));
    let (left, value) = assignment.split_once('=').ok_or_else(|| broken("write it as NAME=VALUE"))?;
    let (name, kind) = left.split_once(':').unwrap_or((left, "text"));
    if name.is_empty() {
        return Err(broken("the item has no name"));
    }
    match kind {
        "html" => Ok((name, Kind::RichText(value.to_owned()))),
        _ => match of_type(kind, value) {
            Some(kind) => Ok((name, kind.map_err(broken)?)),
            None => Err(broken("the types are text, number, time and html")),
        },
    }
}

/// Reads a value of a type that views sort; nothing where the type is another.
fn of_type(name: &str, value: &str) -> Option<Result<Kind, &'static str>> {
    Some(match name {
        "text" => Ok(Kind::Text(value.to_owned())),
        "number" => value.parse().map(Kind::Number).map_err(|_| "this is not a number"),
        "time" => time(value).map(Kind::TimeUs).ok_or("write times as 2026-01-31T12:00:00Z"),
        _ => return None,
    })
}

/// Reads values that are looked for in a view: `text`, `number=5`, `time=2026-01-31T12:00:00Z`; `text=number=5` where a text looks like that.
pub(super) fn read_keys(keys: &[String]) -> Result<Vec<v1::Value>, Failure> {
    let read = |key: &String| {
        let typed = key.split_once('=').and_then(|(name, value)| of_type(name, value));
        let kind = typed.unwrap_or_else(|| Ok(Kind::Text(key.clone())));
        let kind = kind.map_err(|why| Failure(format!("{key:?}: {why}")))?;
        Ok(v1::Value { kind: Some(kind) })
    };
    keys.iter().map(read).collect()
}

fn join(first: Kind, next: Kind) -> Option<Kind> {
    Some(match (first, next) {
        (Kind::Text(first), Kind::Text(next)) => Kind::TextList(v1::TextList { values: vec![first, next] }),
        (Kind::TextList(mut list), Kind::Text(next)) => {
            list.values.push(next);
            Kind::TextList(list)
        }
        (Kind::Number(first), Kind::Number(next)) => Kind::NumberList(v1::NumberList { values: vec![first, next] }),
        (Kind::NumberList(mut list), Kind::Number(next)) => {
            list.values.push(next);
            Kind::NumberList(list)
        }
        (Kind::TimeUs(first), Kind::TimeUs(next)) => Kind::TimeList(v1::TimeList { values_us: vec![first, next] }),
        (Kind::TimeList(mut list), Kind::TimeUs(next)) => {
            list.values_us.push(next);
            Kind::TimeList(list)
        }
        _ => return None,
    })
}

/// Reads `YYYY-MM-DDTHH:MM:SSZ`; gives microseconds since 1970.
fn time(text: &str) -> Option<i64> {
    let at = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let is_shaped = text.len() == 20 && text.is_ascii() && text.ends_with('Z');
    let (year, month, day) = (at(0..4)?, at(5..7)?, at(8..10)?);
    let (hour, minute, second) = (at(11..13)?, at(14..16)?, at(17..19)?);
    if !is_shaped || !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 of a civil date (Howard Hinnant's algorithm).
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let micros = (days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000;
    (rfc3339(base::Timestamp(micros)) == *text || second == 60).then_some(micros)
}

/// Gives a value as JSON, as programs read it.
pub(super) fn shown(value: Option<&v1::Value>) -> Value {
    let moment = |at: &i64| json!(rfc3339(base::Timestamp(*at)));
    match value.and_then(|value| value.kind.as_ref()) {
        None => Value::Null,
        Some(Kind::Text(text) | Kind::RichText(text)) => json!(text),
        Some(Kind::TextList(list)) => json!(list.values),
        Some(Kind::Number(number)) => json!(number),
        Some(Kind::NumberList(list)) => json!(list.values),
        Some(Kind::TimeUs(at)) => moment(at),
        Some(Kind::TimeList(list)) => list.values_us.iter().map(moment).collect(),
        Some(Kind::MimePart(bytes)) => json!(String::from_utf8_lossy(bytes)),
        Some(Kind::Attachment(file)) => json!({
            "file_name": file.file_name, "media_type": file.media_type, "length_bytes": file.length_bytes,
        }),
        Some(Kind::NoteReferences(list)) => list.values.iter().map(|unid| json!(hex(unid))).collect(),
    }
}

/// Gives bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(assignments: &[&str], expected: &str) {
        let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
        let text = match read(&assignments) {
            Ok(items) => items
                .iter()
                .map(|item| format!("{}={}", item.name, shown(item.value.as_ref())))
                .collect::<Vec<_>>()
                .join(" "),
            Err(failure) => failure.to_string(),
        };
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn items_are_read_and_shown() {
        check(&["Subject=a=b"], "Subject=\"a=b\"");
        check(&["N:number=1.5", "n:number=2", "N:number=3"], "N=[1.5,2.0,3.0]");
        check(&["T:time=2024-02-29T23:59:59Z"], "T=\"2024-02-29T23:59:59Z\"");
        check(&["Form=Memo", "To=a", "To=b"], "Form=\"Memo\" To=[\"a\",\"b\"]");
        check(&["N=1", "N:number=2"], "one type");
        check(&["N:number=x"], "not a number");
        check(&["T:time=2023-02-29T00:00:00Z"], "write times");
        check(&["plain"], "NAME=VALUE");
        check(&["=x"], "no name");
        check(&["A:list=x"], "the types are");
    }

    #[test]
    fn keys_are_texts_unless_they_say_otherwise() {
        let check = |key: &str, expected: &str| {
            let text = match read_keys(&[key.to_owned()]) {
                Ok(values) => shown(values.first()).to_string(),
                Err(failure) => failure.to_string(),
            };
            assert!(text.contains(expected), "{text}");
        };
        check("Oslo", "\"Oslo\"");
        check("number=2.5", "2.5");
        check("time=2024-02-29T00:00:00Z", "\"2024-02-29T00:00:00Z\"");
        check("text=number=5", "\"number=5\"");
        check("a=b", "\"a=b\"");
        check("number=x", "not a number");
    }
}
