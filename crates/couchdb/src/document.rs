//! JSON documents and items, in both directions and without loss. All functions are pure.
//!
//! A document of CouchDB is a JSON object; a document of a database is a list of items. Plain values have a plain form:
//!
//! | item | JSON |
//! |---|---|
//! | text, text list | string, list of strings |
//! | number, number list | number, list of numbers |
//! | JSON | any other value: Booleans, null, objects, mixed lists, numbers that are no double |
//!
//! Everything else is an object with the member `$type`, and with `$flags` if the item has other flags than items get
//! by themselves:
//!
//! ```json
//! { "$type": "time", "$value": "2026-11-27T10:00:00Z" }
//! { "$type": "text-list", "$flags": ["summary", "readers"], "$value": ["Ann/Acme"] }
//! ```
//!
//! Several items of one name are `{"$items":[…]}`. A client that does not know these objects keeps them as they are,
//! and the items with them.
//!
//! Attachments are not in the fields but in `_attachments`. A name that begins with `_`, which the protocol reserves,
//! gets a `$` in front.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use base::limits::ITEMS_PER_NOTE_MAX;
use base::{Timestamp, Unid, hex};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notes::{Item, ItemFlags, ItemValue};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::limits::{MEMBERS_MAX, PLAIN_LIST_VALUES_MAX, SUMMARY_VALUE_BYTES_MAX, SUMMARY_VALUES_BYTES_MAX};

/// Greatest number of significant digits that a number of a client has whose runtime knows only doubles.
const DOUBLE_DIGITS: usize = 17;

/// Names of the item flags in documents.
const FLAGS: [(&str, ItemFlags); 6] = [
    ("summary", ItemFlags::SUMMARY),
    ("names", ItemFlags::NAMES),
    ("readers", ItemFlags::READERS),
    ("authors", ItemFlags::AUTHORS),
    ("protected", ItemFlags::PROTECTED),
    ("signed", ItemFlags::SIGNED),
];

/// The members of a JSON object in their order, with their values as they were written.
#[derive(Debug, Default)]
pub struct Members<'j>(pub Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> Members<'j> {
    /// Parses a JSON object.
    pub fn parse(text: &'j str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| Error::BadRequest(format!("invalid UTF-8 JSON: {error}")))
    }

    /// Returns the last member with a name.
    pub fn get(&self, name: &str) -> Option<&'j RawValue> {
        self.0.iter().rfind(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// Returns the value of a member as a type, or `None` if it is absent or null.
    pub fn read<T: Deserialize<'j>>(&self, name: &str) -> Result<Option<T>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let invalid = |error| Error::BadRequest(format!("the member {name} is not valid: {error}"));
        serde_json::from_str(value.get()).map_err(invalid)
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Collector;

        impl<'de> Visitor<'de> for Collector {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if members.len() >= MEMBERS_MAX {
                        return Err(serde::de::Error::custom(format!("an object has more than {MEMBERS_MAX} members")));
                    }
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collector)
    }
}

/// Parses a JSON list of at most `count_max` values. It fails at the first further one, so that a list which is not
/// permitted takes no memory. `what` names the values in the plural.
pub fn bounded_list<'j, T: Deserialize<'j>>(text: &'j str, count_max: usize, what: &str) -> Result<Vec<T>> {
    let mut is_too_long = false;
    let mut parser = serde_json::Deserializer::from_str(text);
    let read = BoundedList { count_max, is_too_long: &mut is_too_long, item: PhantomData }.deserialize(&mut parser);
    match read.and_then(|list| parser.end().map(|()| list)) {
        Ok(list) => Ok(list),
        Err(_) if is_too_long => Err(Error::TooLarge(format!("a request can have at most {count_max} {what}"))),
        Err(error) => Err(Error::BadRequest(format!("the list of {what} is not valid: {error}"))),
    }
}

/// Reads a list of at most `count_max` values, and fails if there are more.
struct BoundedList<'l, T> {
    count_max: usize,
    is_too_long: &'l mut bool,
    item: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for BoundedList<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> std::result::Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            if list.len() >= self.count_max {
                *self.is_too_long = true;
                return Err(serde::de::Error::custom("the list is too long"));
            }
            list.push(value);
        }
        Ok(list)
    }
}

/// The name of a member, borrowed if it has no escapes.
struct Name<'j>(Cow<'j, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> std::result::Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// Converts the fields of a document into items. Members that begin with `_` are not fields, and must be known to the
/// caller.
pub fn items_of(members: &Members<'_>) -> Result<Vec<Item>> {
    // Of several members with one name, the last one counts, as in every runtime of JavaScript.
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, (name, _)) in members.0.iter().enumerate() {
        last.insert(name, index);
    }
    let mut read = Vec::new();
    for (index, (name, value)) in members.0.iter().enumerate() {
        if name.starts_with('_') || last.get(name.as_ref()) != Some(&index) {
            continue;
        }
        let name = item_name(name);
        let several = several(value)?;
        if read.len() + several.as_ref().map_or(1, Vec::len) > ITEMS_PER_NOTE_MAX {
            return Err(Error::TooLarge(format!("a document can have at most {ITEMS_PER_NOTE_MAX} items")));
        }
        match several {
            Some(values) => {
                for value in values {
                    read.push(read_value(name, value)?);
                }
            }
            None => read.push(read_value(name, value)?),
        }
    }
    let defaults = default_flags(read.iter().map(|(item, _)| item));
    let with_flags = |((item, flags), default): ((Item, Option<ItemFlags>), ItemFlags)| Item {
        flags: flags.unwrap_or(default),
        ..item
    };
    Ok(read.into_iter().zip(defaults).map(with_flags).collect())
}

/// Returns the name of an item in a document.
fn member_name(name: &str) -> Cow<'_, str> {
    match name.trim_start_matches('$').starts_with('_') {
        true => Cow::Owned(format!("${name}")),
        false => Cow::Borrowed(name),
    }
}

/// Returns the name of the item that a member of a document is.
fn item_name(member: &str) -> &str {
    match member.strip_prefix('$') {
        Some(name) if name.trim_start_matches('$').starts_with('_') => name,
        _ => member,
    }
}

/// Returns the values of several items of one name.
fn several(value: &RawValue) -> Result<Option<Vec<&RawValue>>> {
    if !value.get().starts_with('{') {
        return Ok(None);
    }
    let Ok(members) = Members::parse(value.get()) else { return Ok(None) };
    match members.0.as_slice() {
        [(name, values)] if name == "$items" => {
            match bounded_list::<&RawValue>(values.get(), ITEMS_PER_NOTE_MAX, "items") {
                Err(error @ Error::TooLarge(_)) => Err(error),
                // A list of one is what no item has, so it is a client's own object.
                read => Ok(read.ok().filter(|values| values.len() > 1)),
            }
        }
        _ => Ok(None),
    }
}

/// Reads a value. Returns the item without its flags, and the flags if the document names them.
fn read_value(name: &str, value: &RawValue) -> Result<(Item, Option<ItemFlags>)> {
    let text = value.get();
    let item = |value| Item { name: name.to_owned(), flags: ItemFlags::NONE, value };
    // An object with too many members is a client's own.
    if text.starts_with('{')
        && let Ok(members) = Members::parse(text)
        && let Some((value, flags)) = read_typed(&members)
    {
        return Ok((item(value), flags));
    }
    Ok((item(plain_value(text)), None))
}

/// Returns the value of a plain form.
fn plain_value(text: &str) -> ItemValue {
    let plain = match text.as_bytes().first() {
        Some(b'"') => read_text(text).map(ItemValue::Text),
        Some(b'-' | b'0'..=b'9') => read_number(text).map(ItemValue::Number),
        Some(b'[') => plain_list(text),
        _ => None,
    };
    plain.unwrap_or_else(|| ItemValue::Json(compact(text)))
}

fn plain_list(text: &str) -> Option<ItemValue> {
    // A longer list stays JSON.
    let values: Vec<&RawValue> = bounded_list(text, PLAIN_LIST_VALUES_MAX, "values").ok()?;
    let texts: Option<Vec<String>> = values.iter().map(|value| read_text(value.get())).collect();
    if let Some(texts) = texts {
        return Some(ItemValue::TextList(texts));
    }
    let numbers: Option<Vec<f64>> = values.iter().map(|value| read_number(value.get())).collect();
    numbers.map(ItemValue::NumberList)
}

/// Returns the text of a JSON string, or `None` if it is no string or has a lone surrogate.
fn read_text(text: &str) -> Option<String> {
    serde_json::from_str(text).ok()
}

/// Returns the double that a JSON number is, or `None` if it is none.
fn read_number(text: &str) -> Option<f64> {
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let (mantissa, exponent) = text.split_at(text.find(['e', 'E']).unwrap_or(text.len()));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let significant = digits.trim_start_matches('0').trim_end_matches('0').len();
    let is_integer = exponent.is_empty() && !mantissa.contains('.');
    let is_exact = match is_integer {
        true => digits.len() < DOUBLE_DIGITS - 1 || format!("{number:.0}") == text,
        false => significant <= DOUBLE_DIGITS,
    };
    is_exact.then_some(number)
}

/// Returns a JSON value without spaces between its parts.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_in_string = false;
    let mut is_escaped = false;
    for c in text.chars() {
        if is_in_string {
            is_in_string = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
        } else if c.is_ascii_whitespace() {
            continue;
        } else {
            is_in_string = c == '"';
        }
        out.push(c);
    }
    out
}

/// Reads an object with a type. Returns `None` if it is a client's own object.
fn read_typed(members: &Members<'_>) -> Option<(ItemValue, Option<ItemFlags>)> {
    let is_known = |name: &str| ["$type", "$flags", "$value"].contains(&name);
    if !members.0.iter().all(|(name, _)| is_known(name)) {
        return None;
    }
    let kind: String = members.read("$type").ok()??;
    let flags = match members.get("$flags") {
        None => None,
        Some(flags) => Some(read_flags(flags.get())?),
    };
    let raw = members.get("$value")?.get();
    let value: Value = if kind == "json" { Value::Null } else { serde_json::from_str(raw).ok()? };
    let value = match kind.as_str() {
        "text" => ItemValue::Text(value.as_str()?.to_owned()),
        "text-list" => ItemValue::TextList(list(&value, |one| one.as_str().map(str::to_owned))?),
        "number" => ItemValue::Number(any_number(&value)?),
        "number-list" => ItemValue::NumberList(list(&value, any_number)?),
        "time" => ItemValue::Time(time_of(&value)?),
        "time-list" => ItemValue::TimeList(list(&value, time_of)?),
        "rich-text" => ItemValue::RichText(value.as_str()?.to_owned()),
        "mime" => ItemValue::MimePart(STANDARD.decode(value.as_str()?).ok()?),
        "notes" => ItemValue::NoteReferences(list(&value, |one| hex::parse_array(one.as_str()?).map(Unid))?),
        "json" => ItemValue::Json(compact(raw)),
        // What another program has stored as JSON although it is none.
        "json-text" => ItemValue::Json(value.as_str()?.to_owned()),
        _ => return None,
    };
    Some((value, flags))
}

fn list<T>(value: &Value, each: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(each).collect()
}

fn any_number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn time_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Number(number) => number.as_i64().map(Timestamp),
        Value::String(text) => text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp(at.as_microsecond())),
        _ => None,
    }
}

/// Returns a time as text, or as the number of microseconds since 1970 if it is beyond the calendar.
fn time_to_json(at: Timestamp) -> Value {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => json!(at.to_string()),
        Err(_) => json!(at.0),
    }
}

fn read_flags(text: &str) -> Option<ItemFlags> {
    let values: Vec<Value> = serde_json::from_str(text).ok()?;
    let flag = |value: &Value| match value {
        Value::String(name) => FLAGS.iter().find(|(known, _)| known == name).map(|(_, flag)| *flag),
        Value::Number(bits) => bits.as_u64().and_then(|bits| u16::try_from(bits).ok()).map(ItemFlags),
        _ => None,
    };
    values.iter().try_fold(ItemFlags::NONE, |flags, value| Some(flags.union(flag(value)?)))
}

fn flags_to_json(flags: ItemFlags) -> Value {
    let named = FLAGS.iter().filter(|(_, flag)| flags.contains(*flag));
    let mut values: Vec<Value> = named.clone().map(|(name, _)| json!(name)).collect();
    let rest = named.fold(flags, |rest, (_, flag)| rest.difference(*flag));
    if rest != ItemFlags::NONE {
        values.push(json!(rest.0));
    }
    Value::Array(values)
}

/// Returns the flags that items get if a document does not name them: small values are in the summary, as long as all
/// of them together are not large.
///
/// The result does not depend on the order of the items, which clients may change.
fn default_flags<'i>(items: impl Iterator<Item = &'i Item> + Clone) -> Vec<ItemFlags> {
    let mut order: Vec<(usize, &Item)> = items.clone().enumerate().collect();
    order.sort_by(|(_, one), (_, other)| one.name.cmp(&other.name));
    let mut flags = vec![ItemFlags::NONE; order.len()];
    let mut bytes = 0;
    for (index, item) in order {
        let is_body = matches!(item.value, ItemValue::RichText(_) | ItemValue::MimePart(_) | ItemValue::Object { .. });
        let size = item.encoded_len();
        if !is_body && size <= SUMMARY_VALUE_BYTES_MAX && bytes + size <= SUMMARY_VALUES_BYTES_MAX {
            bytes += size;
            flags[index] = ItemFlags::SUMMARY;
        }
    }
    flags
}

/// Appends the fields of a document: for each item that is no attachment `,"name":value`.
pub fn append_fields(out: &mut String, items: &[Item]) {
    let fields = || items.iter().filter(|item| !matches!(item.value, ItemValue::Object { .. }));
    let defaults = default_flags(fields());
    let mut by_name: BTreeMap<&str, Vec<(&Item, ItemFlags)>> = BTreeMap::new();
    let mut names = Vec::new();
    for (item, default) in fields().zip(defaults) {
        let of_name = by_name.entry(&item.name).or_default();
        if of_name.is_empty() {
            names.push(&item.name);
        }
        of_name.push((item, default));
    }
    for name in names {
        out.push(',');
        push_text(out, &member_name(name));
        out.push(':');
        match by_name[name.as_str()].as_slice() {
            [(item, default)] => push_item(out, item, *default),
            several => {
                out.push_str("{\"$items\":[");
                for (index, (item, default)) in several.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    push_item(out, item, *default);
                }
                out.push_str("]}");
            }
        }
    }
}

/// Appends a JSON string.
pub fn push_text(out: &mut String, text: &str) {
    out.push_str(&Value::from(text).to_string());
}

fn push_item(out: &mut String, item: &Item, default: ItemFlags) {
    let (kind, value) = typed_form(&item.value);
    // The plain form is right only if it reads back as the same value.
    let is_plain = item.flags == default && is_plain(kind, &value, &item.value);
    if is_plain {
        out.push_str(&value);
        return;
    }
    out.push_str("{\"$type\":");
    push_text(out, kind);
    if item.flags != default {
        out.push_str(",\"$flags\":");
        out.push_str(&flags_to_json(item.flags).to_string());
    }
    out.push_str(",\"$value\":");
    out.push_str(&value);
    out.push('}');
}

/// Returns `true` if a value reads back from its plain form.
fn is_plain(kind: &str, written: &str, value: &ItemValue) -> bool {
    if !matches!(kind, "text" | "text-list" | "number" | "number-list" | "json") {
        return false;
    }
    let is_own_object = || {
        let Ok(members) = Members::parse(written) else { return true };
        read_typed(&members).is_none() && !matches!(members.0.as_slice(), [(name, _)] if name == "$items")
    };
    (!written.starts_with('{') || is_own_object()) && plain_value(written) == *value
}

/// Returns the type of a value and its JSON form.
fn typed_form(value: &ItemValue) -> (&'static str, String) {
    match value {
        ItemValue::Text(text) => ("text", json!(text).to_string()),
        ItemValue::TextList(texts) => ("text-list", json!(texts).to_string()),
        ItemValue::Number(number) => ("number", number_form(*number)),
        ItemValue::NumberList(numbers) => {
            let forms: Vec<String> = numbers.iter().map(|number| number_form(*number)).collect();
            ("number-list", format!("[{}]", forms.join(",")))
        }
        ItemValue::Time(at) => ("time", time_to_json(*at).to_string()),
        ItemValue::TimeList(times) => {
            ("time-list", Value::Array(times.iter().copied().map(time_to_json).collect()).to_string())
        }
        ItemValue::RichText(text) => ("rich-text", json!(text).to_string()),
        ItemValue::MimePart(bytes) => ("mime", json!(STANDARD.encode(bytes)).to_string()),
        ItemValue::NoteReferences(unids) => {
            let texts: Vec<String> = unids.iter().map(|unid| hex::lower(&unid.0)).collect();
            ("notes", json!(texts).to_string())
        }
        ItemValue::Json(text) => match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => ("json", text.clone()),
            Err(_) => ("json-text", json!(text).to_string()),
        },
        ItemValue::Object { file_name, .. } => ("attachment", json!(file_name).to_string()),
    }
}

/// Returns the JSON form of a number: an integer without a fraction, which clients write so.
fn number_form(number: f64) -> String {
    // As in JavaScript, which writes larger ones with an exponent.
    const INTEGER_MAX: f64 = 1e21;
    if number.is_nan() {
        return "\"NaN\"".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" }.to_owned();
    }
    if number.fract() == 0.0 && number.abs() < INTEGER_MAX && (number != 0.0 || number.is_sign_positive()) {
        return format!("{number:.0}");
    }
    json!(number).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use store::blob::BlobId;

    use super::*;

    fn read(text: &str) -> Vec<Item> {
        items_of(&Members::parse(text).expect("an object")).expect("a document")
    }

    fn written(items: &[Item]) -> String {
        let mut out = String::new();
        append_fields(&mut out, items);
        format!("{{{}}}", out.trim_start_matches(','))
    }

    #[test]
    fn plain_values_are_plain_in_both_directions() {
        let check = |json: &str, value: ItemValue| {
            let text = format!("{{\"a\":{json}}}");
            let items = read(&text);
            assert_eq!(items, [Item::summary("a", value)], "{json}");
            assert_eq!(written(&items), text);
        };
        check("\"x\"", ItemValue::Text("x".into()));
        check("[\"x\"]", ItemValue::TextList(vec!["x".into()]));
        check("[]", ItemValue::TextList(Vec::new()));
        check("5", ItemValue::Number(5.0));
        check("-0.5", ItemValue::Number(-0.5));
        check("-9007208160847072", ItemValue::Number(-9_007_208_160_847_072.0));
        check("[1,2.5]", ItemValue::NumberList(vec![1.0, 2.5]));
        for json in ["true", "null", "{}", "{\"b\":[1,{\"c\":null}]}", "[1,\"x\"]", "[[]]", "12345678901234567890"] {
            check(json, ItemValue::Json(json.into()));
        }
        check("\"\\ud800\"", ItemValue::Json("\"\\ud800\"".into()));
        check("9007199254740993", ItemValue::Json("9007199254740993".into()));
        check("0.12345678901234567891", ItemValue::Json("0.12345678901234567891".into()));
        check("{\"$type\":\"mine\",\"$value\":1}", ItemValue::Json("{\"$type\":\"mine\",\"$value\":1}".into()));
        assert_eq!(read("{\"a\": [ null,\n \"b \\\" c\" ] }")[0].value, ItemValue::Json("[null,\"b \\\" c\"]".into()));
    }

    #[test]
    fn other_values_name_their_type_and_flags() {
        let check = |item: Item, json: &str| {
            let text = written(std::slice::from_ref(&item));
            assert_eq!(text, format!("{{\"a\":{json}}}"));
            assert_eq!(read(&text), [item]);
        };
        let readers = Item::readers("a", vec!["Ann/Acme".into()]);
        check(
            readers,
            "{\"$type\":\"text-list\",\"$flags\":[\"summary\",\"names\",\"readers\"],\"$value\":[\"Ann/Acme\"]}",
        );
        check(
            Item::summary("a", ItemValue::Time(Timestamp(1_500_000))),
            "{\"$type\":\"time\",\"$value\":\"1970-01-01T00:00:01.5Z\"}",
        );
        check(Item::body("a", ItemValue::RichText("<p>".into())), "{\"$type\":\"rich-text\",\"$value\":\"<p>\"}");
        check(Item::summary("a", ItemValue::NumberList(Vec::new())), "{\"$type\":\"number-list\",\"$value\":[]}");
        check(Item::body("a", ItemValue::Text("x".into())), "{\"$type\":\"text\",\"$flags\":[],\"$value\":\"x\"}");
        let object = "{\"$type\":\"time\",\"$value\":5}";
        check(
            Item::summary("a", ItemValue::Json(object.into())),
            &format!("{{\"$type\":\"json\",\"$value\":{object}}}"),
        );
        check(Item::summary("a", ItemValue::Json("{".into())), "{\"$type\":\"json-text\",\"$value\":\"{\"}");
    }

    #[test]
    fn reserved_names_and_repeated_names_are_kept() {
        let items = [Item::text("_x", "1"), Item::text("$_x", "2"), Item::text("$x", "3"), Item::text("_x", "4")];
        let text = written(&items);
        assert_eq!(text, "{\"$_x\":{\"$items\":[\"1\",\"4\"]},\"$$_x\":\"2\",\"$x\":\"3\"}");
        let names: Vec<String> = read(&text).into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["_x", "_x", "$_x", "$x"]);
        assert_eq!(read("{\"a\":1,\"a\":2}"), [Item::summary("a", ItemValue::Number(2.0))]);
        assert_eq!(read("{\"_id\":\"x\",\"a\":\"y\"}"), [Item::text("a", "y")]);
    }

    #[test]
    fn large_values_are_in_the_body_in_whatever_order() {
        let large = "x".repeat(SUMMARY_VALUE_BYTES_MAX);
        assert!(!read(&format!("{{\"a\":\"{large}\"}}"))[0].is_summary());
        let medium = "x".repeat(SUMMARY_VALUE_BYTES_MAX - 100);
        let names: Vec<String> = (10..30).map(|number| format!("\"n{number}\":\"{medium}\"")).collect();
        let forward = read(&format!("{{{}}}", names.join(",")));
        let reversed: Vec<String> = names.into_iter().rev().collect();
        let mut backward = read(&format!("{{{}}}", reversed.join(",")));
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(forward[0].is_summary() && !forward[19].is_summary());
        assert_eq!(read(&written(&forward)), forward);
    }

    fn value() -> impl Strategy<Value = ItemValue> {
        let number = prop_oneof![any::<f64>(), (-1_000_i32..1_000).prop_map(f64::from), Just(f64::NEG_INFINITY)];
        let number = number.prop_filter("NaN differs from itself", |number| !number.is_nan());
        prop_oneof![
            any::<String>().prop_map(ItemValue::Text),
            prop::collection::vec(any::<String>(), 0..3).prop_map(ItemValue::TextList),
            number.clone().prop_map(ItemValue::Number),
            prop::collection::vec(number, 0..3).prop_map(ItemValue::NumberList),
            any::<i64>().prop_map(|at| ItemValue::Time(Timestamp(at))),
            prop::collection::vec(any::<i64>().prop_map(Timestamp), 0..3).prop_map(ItemValue::TimeList),
            any::<String>().prop_map(ItemValue::RichText),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(ItemValue::MimePart),
            prop::collection::vec(any::<[u8; 16]>().prop_map(Unid), 0..3).prop_map(ItemValue::NoteReferences),
            "(true|null|\\{\"a\":1\\}|\\[1,\"\"\\]|\\{\"\\$type\":\"text\",\"\\$value\":\"\"\\}|x|\\{\"\\$items\":\\[1,2\\]\\})"
                .prop_map(ItemValue::Json),
        ]
    }

    /// Returns any JSON value whose objects have members with these names.
    fn json(names: &'static str) -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(|number| Value::from(f64::from(number) + 0.5)),
            any::<i64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((names, inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn items_read_back_from_documents(
            items in prop::collection::vec((any::<u16>(), value()), 0..6)
        ) {
            let item = |(index, (flags, value)): (usize, (u16, ItemValue))| {
                Item { name: format!("n{index}"), flags: ItemFlags(flags), value }
            };
            let items: Vec<Item> = items.into_iter().enumerate().map(item).collect();
            prop_assert_eq!(read(&written(&items)), items);
        }

        #[test]
        fn documents_read_back_from_items(
            values in prop::collection::vec(json("(\\$value|\\$flags|a|_b|text)"), 0..6)
        ) {
            let members = values.into_iter().enumerate().map(|(index, value)| (format!("n{index}"), value));
            let document = Value::Object(members.collect());
            let back: Value = serde_json::from_str(&written(&read(&document.to_string()))).expect("JSON");
            prop_assert_eq!(back, document);
        }

        /// Objects that look like items are items, whose form may be a shorter one.
        #[test]
        fn documents_become_the_same_items_again(
            values in prop::collection::vec(json("(\\$type|\\$value|\\$flags|\\$items|a)"), 0..6)
        ) {
            let members = values.into_iter().enumerate().map(|(index, value)| (format!("n{index}"), value));
            let items = read(&Value::Object(members.collect()).to_string());
            prop_assert_eq!(read(&written(&items)), items);
        }
    }

    #[test]
    fn attachments_are_no_fields() {
        let blob = BlobId([1; 32]);
        let (file_name, media_type) = ("a.txt".to_owned(), "text/plain".to_owned());
        let file = Item::summary("$FILE", ItemValue::Object { file_name, media_type, length: 3, blob });
        assert_eq!(written(&[file]), "{}");
    }
}
