//! Text form of items on the command line: `Name=text`, `Name:number=5`, `Name:time=2026-01-31`,
//! `PermittedCallers:readers=Ann/Acme`. The same name several times makes a list.

use base::{Name, hex};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::v1;
use client::v1::value::Kind;
use serde_json::{Value, json};

use crate::CommandError;
use crate::terminal::BINARY;

/// Maximum size of a text in the summary of a document, which views show. Longer ones belong to its body, as rich text
/// does. Domino's forms have the same limit.
const SUMMARY_TEXT_BYTES_MAX: usize = 32 * 1_024;

/// Parses the item assignments of a command line.
pub(super) fn read(assignments: &[String]) -> Result<Vec<v1::Item>, CommandError> {
    let mut items: Vec<v1::Item> = Vec::new();
    for assignment in assignments {
        let (name, flags, kind) = read_one(assignment)?;
        let known = items.iter_mut().find(|item| item.name.eq_ignore_ascii_case(name));
        match known {
            Some(item) => {
                let first = item.value.take().and_then(|value| value.kind).filter(|_| item.flags == Some(flags));
                let joined = first.and_then(|first| merge_values(first, kind));
                let joined =
                    joined.ok_or_else(|| CommandError(format!("{name}: the values of a list must have one type")))?;
                item.value = Some(v1::Value { kind: Some(joined) });
            }
            None => items.push(v1::Item {
                name: name.to_owned(),
                flags: Some(flags),
                value: Some(v1::Value { kind: Some(kind) }),
            }),
        }
    }
    for item in &mut items {
        let is_long = matches!(item.value.as_ref().and_then(|value| value.kind.as_ref()),
            Some(Kind::Text(text)) if text.len() > SUMMARY_TEXT_BYTES_MAX);
        if is_long && let Some(flags) = &mut item.flags {
            flags.summary = false;
        }
    }
    Ok(items)
}

/// Parses one assignment. Returns the name of the item, its flags and one value.
fn read_one(assignment: &str) -> Result<(&str, v1::ItemFlags, Kind), CommandError> {
    let broken = |reason: &str| CommandError(format!("{assignment:?}: {reason}"));
    let (left, value) = assignment.split_once('=').ok_or_else(|| broken("write it as NAME=VALUE"))?;
    let (name, kind) = left.split_once(':').unwrap_or((left, "text"));
    if name.is_empty() {
        return Err(broken("the item has no name"));
    }
    let summary = v1::ItemFlags { summary: true, ..v1::ItemFlags::default() };
    let names = v1::ItemFlags { names: true, ..summary };
    // Access checks compare canonical names, and people may write other forms.
    let list = || Kind::TextList(v1::TextList { values: vec![Name::new(value).canonical().to_owned()] });
    Ok(match kind {
        "html" => (name, v1::ItemFlags::default(), Kind::RichText(value.to_owned())),
        "names" => (name, names, list()),
        "readers" => (name, v1::ItemFlags { readers: true, ..names }, list()),
        "authors" => (name, v1::ItemFlags { authors: true, ..names }, list()),
        _ => match parse_typed(kind, value) {
            Some(kind) => (name, summary, kind.map_err(broken)?),
            None => {
                return Err(broken("unknown type; the types are text, number, time, html, names, readers and authors"));
            }
        },
    })
}

/// Parses a value of one of the types that views sort by. Returns `None` for any other type name.
fn parse_typed(name: &str, value: &str) -> Option<Result<Kind, &'static str>> {
    Some(match name {
        "text" => Ok(Kind::Text(value.to_owned())),
        "number" => parse_number(value).map(Kind::Number).ok_or("this is not a number"),
        "time" => parse_time(value)
            .map(Kind::TimeUs)
            .ok_or("write times as 2026-01-31T12:00:00Z, or 2026-01-31 for midnight in UTC"),
        _ => return None,
    })
}

fn parse_number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses a point in time: RFC 3339, or a date alone, which stands for midnight in UTC. Returns microseconds since
/// 1970.
fn parse_time(text: &str) -> Option<i64> {
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Some(moment.as_microsecond());
    }
    let date: jiff::civil::Date = (text.len() == "2026-01-31".len()).then(|| text.parse().ok()).flatten()?;
    Some(date.to_zoned_datetime(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_microsecond())
}

/// A value to find in a view.
#[derive(Debug, Clone)]
pub(super) struct SearchValue {
    /// The value with the type given, or as a text.
    pub given_value: v1::Value,
    /// The value as a number or a time, if no type was given and the text can be read as one.
    pub alternative: Option<v1::Value>,
}

/// Parses values to find in a view: `text`, `number=5`, `time=2026-01-31T12:00:00Z`; `text=number=5` for a text that
/// looks like a typed value.
pub(super) fn read_keys(keys: &[String]) -> Result<Vec<SearchValue>, CommandError> {
    let value = |kind| v1::Value { kind: Some(kind) };
    let read = |key: &String| {
        if let Some(typed) = key.split_once('=').and_then(|(name, value)| parse_typed(name, value)) {
            let kind = typed.map_err(|reason| CommandError(format!("{key:?}: {reason}")))?;
            return Ok(SearchValue { given_value: value(kind), alternative: None });
        }
        let perhaps = parse_number(key).map(Kind::Number).or_else(|| parse_time(key).map(Kind::TimeUs));
        Ok(SearchValue { given_value: value(Kind::Text(key.clone())), alternative: perhaps.map(value) })
    };
    keys.iter().map(read).collect()
}

/// Parses a position in a view, for example `3.2.7`.
pub(super) fn parse_position(text: &str) -> Result<v1::Tumbler, String> {
    let level = |number: &str| number.parse().ok().filter(|number| *number > 0);
    let levels: Option<Vec<u32>> = text.split('.').map(level).collect();
    levels.map(|levels| v1::Tumbler { levels }).ok_or_else(|| "write a position as 3.2.7, counted from 1".to_owned())
}

fn merge_values(first: Kind, next: Kind) -> Option<Kind> {
    Some(match (first, next) {
        (Kind::Text(first), Kind::Text(next)) => Kind::TextList(v1::TextList { values: vec![first, next] }),
        (Kind::TextList(mut list), Kind::Text(next)) => {
            list.values.push(next);
            Kind::TextList(list)
        }
        (Kind::TextList(mut list), Kind::TextList(next)) => {
            list.values.extend(next.values);
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

/// Converts a value into JSON. Bytes that are not text become an object with the bytes in base64.
pub(super) fn to_json(value: Option<&v1::Value>) -> Value {
    let moment = |at: &i64| json!(base::Timestamp(*at).to_rfc3339());
    match value.and_then(|value| value.kind.as_ref()) {
        None => Value::Null,
        Some(Kind::Text(text) | Kind::RichText(text)) => json!(text),
        Some(Kind::TextList(list)) => json!(list.values),
        Some(Kind::Number(number)) => json!(number),
        Some(Kind::NumberList(list)) => json!(list.values),
        Some(Kind::TimeUs(at)) => moment(at),
        Some(Kind::TimeList(list)) => list.values_us.iter().map(moment).collect(),
        Some(Kind::MimePart(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => json!(text),
            _ => json!({ BINARY: STANDARD.encode(bytes) }),
        },
        Some(Kind::Attachment(file)) => json!({
            "file_name": file.file_name, "media_type": file.media_type, "length_bytes": file.length_bytes,
        }),
        Some(Kind::Json(text)) => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        Some(Kind::NoteReferences(list)) => list.values.iter().map(|unid| json!(hex::upper(unid))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(assignments: &[&str], expected: &str) {
        let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
        let text = match read(&assignments) {
            Ok(items) => items
                .iter()
                .map(|item| format!("{}={}", item.name, to_json(item.value.as_ref())))
                .collect::<Vec<_>>()
                .join(" "),
            Err(failure) => failure.to_string(),
        };
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn rich_text_and_long_text_are_in_the_body() {
        let is_summary = |assignment: String| {
            let items = read(&[assignment]).expect("it is well-formed");
            items[0].flags.expect("it has flags").summary
        };
        assert!(is_summary(format!("A={}", "x".repeat(SUMMARY_TEXT_BYTES_MAX))));
        assert!(!is_summary(format!("A={}", "x".repeat(SUMMARY_TEXT_BYTES_MAX + 1))));
        assert!(!is_summary("Body:html=x".to_owned()));
    }

    #[test]
    fn item_arguments_are_parsed() {
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
        check(&["N:number=inf"], "not a number");
        check(&["T:time=2026-01-01"], "T=\"2026-01-01T00:00:00Z\"");
        check(&["T:time=2026-01-01T02:00:00+02:00"], "T=\"2026-01-01T00:00:00Z\"");
        check(&["T:time=2026-13-01"], "write times");
    }

    #[test]
    fn name_lists_have_their_flags() {
        let items = ["Who:readers=Ann Smith/Acme", "Who:readers=[Crew]", "By:authors=*/Sales/Acme", "To:names=bob"];
        let items = read(&items.map(str::to_owned)).expect("they are well written");
        let lines: Vec<String> = items
            .iter()
            .map(|item| {
                let flags = item.flags.unwrap_or_default();
                let flags = (flags.summary, flags.names, flags.readers, flags.authors);
                format!("{} {flags:?} {}", item.name, to_json(item.value.as_ref()))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "Who (true, true, true, false) [\"CN=Ann Smith/O=Acme\",\"[Crew]\"]",
                "By (true, true, false, true) [\"*/OU=Sales/O=Acme\"]",
                "To (true, true, false, false) [\"bob\"]",
            ]
        );
        check(&["Who:readers=a", "Who:authors=b"], "one type");
        check(&["Who:readers=a", "Who=b"], "one type");
    }

    #[test]
    fn binary_values_are_shown_as_base64() {
        let part = |bytes: &[u8]| to_json(Some(&v1::Value { kind: Some(Kind::MimePart(bytes.to_vec())) }));
        assert_eq!(part(b"Subject: x"), json!("Subject: x"));
        assert_eq!(part(&[0, 255, 1]), json!({ "base64": "AP8B" }));
    }

    #[test]
    fn positions_are_numbers_separated_by_points() {
        assert_eq!(parse_position("3.2.7").map(|position| position.levels), Ok(vec![3, 2, 7]));
        for wrong in ["", "0", "1.", "1.0", "a", "-1", "1,2"] {
            assert!(parse_position(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_are_texts_unless_a_type_is_given() {
        let check = |key: &str, expected: &str| {
            let text = match read_keys(&[key.to_owned()]) {
                Ok(keys) => {
                    let values = keys.iter().flat_map(|key| [Some(&key.given_value), key.alternative.as_ref()]);
                    values.flatten().map(|value| to_json(Some(value)).to_string()).collect::<Vec<_>>().join(" or ")
                }
                Err(failure) => failure.to_string(),
            };
            assert_eq!(text, expected);
        };
        check("Oslo", "\"Oslo\"");
        check("2020", "\"2020\" or 2020.0");
        check("2026-01-31", "\"2026-01-31\" or \"2026-01-31T00:00:00Z\"");
        check("number=2.5", "2.5");
        check("time=2024-02-29T00:00:00Z", "\"2024-02-29T00:00:00Z\"");
        check("text=number=5", "\"number=5\"");
        check("a=b", "\"a=b\"");
        check("number=x", "\"number=x\": this is not a number");
    }
}
