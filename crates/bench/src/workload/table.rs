//! Reading of tables: known keys, types, limits, and where each number comes from.
//!
//! A getter returns `None` if its key is missing or if its value is not valid; the latter is a finding. The caller then
//! goes on with the default, so that all errors of a file are found at once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Number, Place, Reader, Scalar, Value};
use super::finding::{nearest, quote};
use super::limits::{NAME_BYTES_MAX, SIZE_BYTES_MAX};
use super::source::Source;
use super::units::{Share, Spread, format_integer, parse_duration};

/// Maximum number of known words that a finding lists when none is similar.
const LISTED_WORDS_MAX: usize = 12;

/// Keys that every table may have.
const SOURCE_KEYS: [&str; 2] = ["source", "sources"];

/// A table of the file.
#[derive(Debug)]
pub struct Table<'r> {
    reader: &'r Reader<'r>,
    entries: &'r DeTable<'r>,
    /// The tables around this one and its name, for messages. Empty for the file.
    pub path: String,
    offset: usize,
    source: Source,
    sources: BTreeMap<String, Source>,
}

impl<'r> Table<'r> {
    /// Opens the outermost table, whose keys are not checked.
    pub fn file(reader: &'r Reader<'r>, entries: &'r DeTable<'r>) -> Self {
        let source = Source::assumed();
        Self { reader, entries, path: String::new(), offset: 0, source, sources: BTreeMap::new() }
    }

    fn inner(&self, path: String, entries: &'r DeTable<'r>, offset: usize) -> Self {
        let source = self.source.clone();
        Self { reader: self.reader, entries, path, offset, source, sources: BTreeMap::new() }
    }

    /// Returns the shared reader.
    pub fn reader(&self) -> &'r Reader<'r> {
        self.reader
    }

    /// Returns the source of numbers without one of their own.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Reports each key that is not among `keys`, and reads `source` and `sources`.
    pub fn check_keys(&mut self, keys: &[&'static str]) {
        let known = || keys.iter().copied().chain(SOURCE_KEYS);
        for name in self.entries.keys().filter(|name| !known().any(|key| key == name.get_ref().as_ref())) {
            let place = Place { key: self.path.clone(), offset: Some(name.span().start) };
            let nearest = nearest(name.get_ref(), known());
            self.reader.refuse_word(&place, format!("there is no key {}", quote(name.get_ref())), nearest);
        }
        if let Some(text) = self.literal("source", usize::MAX) {
            self.source = self.reader.parse_source(&self.place("source"), &text);
        }
        if let Some(sources) = self.table("sources") {
            self.sources = sources.sources_of(self);
        }
    }

    /// Reads the table `sources` of the table `owner`.
    fn sources_of(&self, owner: &Table<'_>) -> BTreeMap<String, Source> {
        let mut sources = BTreeMap::new();
        for name in self.entries.keys().map(|name| name.get_ref().as_ref()) {
            if !owner.has(name) {
                let rule = format!("the table has no key {}", quote(name));
                let nearest = nearest(name, owner.entries.keys().map(|key| key.get_ref().as_ref()));
                self.reader.refuse_word(&self.place(name), rule, nearest);
            }
            if let Some(text) = self.literal(name, usize::MAX) {
                sources.insert(name.to_owned(), self.reader.parse_source(&self.place(name), &text));
            }
        }
        sources
    }

    /// Returns `true` if the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns the place of a key, or of the table if the key is missing.
    pub fn place(&self, key: &str) -> Place {
        let separator = if self.path.is_empty() { "" } else { ", " };
        let offset = self.entries.get_key_value(key).map_or(self.offset, |(name, _)| name.span().start);
        Place { key: format!("{}{separator}{key}", self.path), offset: Some(offset) }
    }

    /// Reports a finding about a key.
    pub fn refuse(&self, key: &str, rule: impl Into<String>) {
        self.reader.refuse(&self.place(key), rule);
    }

    /// Reports a key that is missing.
    pub fn require(&self, key: &str) {
        if !self.has(key) {
            self.refuse(key, "this key is missing");
        }
    }

    /// Reports a key that has no meaning here.
    pub fn forbid(&self, key: &str, reason: &str) {
        if self.has(key) {
            self.refuse(key, format!("this key is not permitted {reason}"));
        }
    }

    /// Reads an integer.
    pub fn integer(&self, key: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let first = format_integer(*range.start());
        let expected = format!("an integer from {first} to {}", format_integer(*range.end()));
        self.number(key, &expected, |scalar| integer_of(scalar, &range))
    }

    /// Reads a share.
    pub fn share(&self, key: &str) -> Option<Share> {
        self.number(key, "a number from 0 to 1", share_of)
    }

    /// Reads a size in bytes.
    pub fn bytes(&self, key: &str) -> Option<u64> {
        self.integer(key, 0..=SIZE_BYTES_MAX)
    }

    /// Reads a boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        self.number(key, "true or false", |scalar| match scalar {
            Scalar::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    /// Reads a duration of at least `min_us` microseconds, and returns microseconds.
    pub fn duration(&self, key: &str, min_us: u64) -> Option<u64> {
        let duration_us = self.number(key, DURATION, duration_of)?;
        if duration_us < min_us {
            self.refuse(key, format!("the duration is shorter than {}", super::units::format_duration(min_us)));
        }
        Some(duration_us)
    }

    /// Reads a duration, or two in ascending order.
    pub fn spread(&self, key: &str) -> Option<Spread> {
        if !matches!(self.entries.get(key)?.get_ref(), DeValue::Array(_)) {
            let duration_us = self.number(key, DURATION, duration_of)?;
            return Some(Spread { min_us: duration_us, max_us: duration_us });
        }
        let [min_us, max_us] = self.pair(key, DURATION, duration_of)?;
        Some(Spread { min_us, max_us })
    }

    /// Reads two integers in ascending order.
    pub fn integers(&self, key: &str, range: RangeInclusive<u64>) -> Option<[u64; 2]> {
        let last = format_integer(*range.end());
        let expected = format!("an integer from {} to {last}", range.start());
        self.pair(key, &expected, |scalar| integer_of(scalar, &range))
    }

    /// Reads a text of at most `bytes_max` bytes, in which a parameter may stand.
    pub fn text(&self, key: &str, bytes_max: usize) -> Option<String> {
        let value = self.value(key)?;
        let expected = format!("a text of 1 to {} bytes", format_integer(bytes_max as u64));
        self.convert(key, &value, &expected, |scalar| match scalar {
            Scalar::Text(text) if (1..=bytes_max).contains(&text.len()) => Some(text.clone()),
            _ => None,
        })
    }

    /// Reads a text of at most `bytes_max` bytes, in which no parameter is resolved.
    pub fn literal(&self, key: &str, bytes_max: usize) -> Option<String> {
        let value = self.entries.get(key)?;
        match value.get_ref() {
            DeValue::String(text) if text.len() <= bytes_max => Some(text.to_string()),
            DeValue::String(_) => {
                self.refuse(key, format!("the text is longer than {} bytes", format_integer(bytes_max as u64)));
                None
            }
            _ => {
                self.refuse(key, format!("{} is not a text", self.reader.written(value.span())));
                None
            }
        }
    }

    /// Reads a name.
    pub fn name(&self, key: &str) -> Option<String> {
        let name = self.literal(key, usize::MAX)?;
        if is_name(&name) {
            return Some(name);
        }
        self.refuse(key, not_a_name(&name));
        None
    }

    /// Reads a word that stands for one of several values.
    pub fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Option<T> {
        let value = self.value(key)?;
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let word = self.known_word(&self.place(key), &value, &known)?;
        words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
    }

    /// Reads the name of something that the file defines.
    pub fn reference(&self, key: &str, known: &[&str]) -> Option<String> {
        let value = self.value(key)?;
        self.known_word(&self.place(key), &value, known)
    }

    /// Reads a list of words without repetition.
    pub fn choices<T: Copy + PartialEq>(&self, key: &str, words: &[(&str, T)]) -> Vec<T> {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let place = self.place(key);
        let mut chosen = Vec::new();
        for member in self.members(key, words.len()) {
            let Some(value) = self.reader.resolve(&place, member) else { continue };
            let word = self.known_word(&place, &value, &known);
            let found = words.iter().find(|(known, _)| word.as_deref() == Some(*known));
            match found {
                Some((word, value)) if chosen.contains(value) => self.refuse(key, format!("{word} is listed twice")),
                Some((_, value)) => chosen.push(*value),
                None => {}
            }
        }
        chosen
    }

    /// Opens the table of a key.
    pub fn table(&self, key: &str) -> Option<Table<'r>> {
        let value = self.entries.get(key)?;
        let DeValue::Table(entries) = value.get_ref() else {
            self.refuse(key, format!("{} is not a table", self.reader.written(value.span())));
            return None;
        };
        let place = self.place(key);
        Some(self.inner(place.key, entries, place.offset.unwrap_or_default()))
    }

    /// Opens the tables by name in the table of a key, in the order of the file.
    pub fn named_tables(&self, key: &str, count_max: usize) -> Vec<(String, Table<'r>)> {
        let Some(outer) = self.table(key) else { return Vec::new() };
        if outer.entries.len() > count_max {
            self.refuse(key, format!("there are more than {count_max} tables"));
            return Vec::new();
        }
        let mut names: Vec<_> = outer.entries.keys().collect();
        names.sort_by_key(|name| name.span().start);
        let mut tables = Vec::new();
        for name in names.into_iter().map(|name| name.get_ref().as_ref()) {
            if !is_name(name) {
                outer.refuse(name, not_a_name(name));
            }
            tables.extend(
                outer.table(name).map(|table| (name.to_owned(), Table { path: format!("{key} {name}"), ..table })),
            );
        }
        tables
    }

    /// Opens the tables in the list of a key. Messages call each by `label` and its name, or by its number from 1.
    pub fn tables(&self, key: &str, label: &str, count_max: usize) -> Vec<Table<'r>> {
        let mut tables = Vec::new();
        for (index, member) in self.members(key, count_max).enumerate() {
            let DeValue::Table(entries) = member.get_ref() else {
                self.refuse(key, format!("{} is not a table", self.reader.written(member.span())));
                continue;
            };
            let name = match entries.get("name").map(Spanned::get_ref) {
                Some(DeValue::String(name)) if is_name(name) => name.to_string(),
                _ => (index + 1).to_string(),
            };
            let separator = if self.path.is_empty() { "" } else { ", " };
            let path = format!("{}{separator}{label} {name}", self.path);
            tables.push(self.inner(path, entries, member.span().start));
        }
        tables
    }

    /// Returns the names of the entries, in the order of the file.
    pub fn names(&self) -> Vec<&'r str> {
        let mut names: Vec<_> = self.entries.keys().collect();
        names.sort_by_key(|name| name.span().start);
        names.into_iter().map(|name| name.get_ref().as_ref()).collect()
    }

    /// Returns the members of a list, or none if it is missing, is no list, or has more than `count_max`.
    pub fn members(&self, key: &str, count_max: usize) -> impl Iterator<Item = &'r Spanned<DeValue<'r>>> {
        let members = match self.entries.get(key).map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::Array(members), _)) if members.len() <= count_max => Some(members),
            Some((DeValue::Array(_), _)) => {
                self.refuse(key, format!("the list has more than {} members", format_integer(count_max as u64)));
                None
            }
            Some((_, span)) => {
                self.refuse(key, format!("{} is not a list", self.reader.written(span)));
                None
            }
            None => None,
        };
        members.into_iter().flat_map(|members| members.iter())
    }

    /// Returns a plain value, with parameters resolved.
    pub fn value(&self, key: &str) -> Option<Value<'r>> {
        self.reader.resolve(&self.place(key), self.entries.get(key)?)
    }

    fn known_word(&self, place: &Place, value: &Value<'_>, known: &[&str]) -> Option<String> {
        let word = match &value.scalar {
            Some(Scalar::Text(word)) => word.as_str(),
            _ => value.written.as_str(),
        };
        if known.contains(&word) {
            return Some(word.to_owned());
        }
        let nearest = nearest(word, known.iter().copied());
        let listed = match known.len() {
            0 => "none is defined".to_owned(),
            count if nearest.is_some() || count > LISTED_WORDS_MAX => "not a known word".to_owned(),
            _ => format!("not one of {}", known.join(", ")),
        };
        self.reader.refuse_word(place, format!("{}: {listed}", quote(word)), nearest);
        None
    }

    fn number<T>(&self, key: &str, expected: &str, convert: impl Fn(&Scalar) -> Option<T>) -> Option<T> {
        let value = self.value(key)?;
        let converted = self.convert(key, &value, expected, convert)?;
        self.record(key, &value.written, &[value.parameter]);
        Some(converted)
    }

    fn convert<T>(
        &self,
        key: &str,
        value: &Value<'_>,
        expected: &str,
        convert: impl Fn(&Scalar) -> Option<T>,
    ) -> Option<T> {
        let converted = value.scalar.as_ref().and_then(convert);
        if converted.is_none() {
            self.refuse(key, format!("{} is not {expected}", value.written));
        }
        converted
    }

    /// Reads two values in ascending order.
    fn pair<T: Ord + Copy>(&self, key: &str, expected: &str, convert: impl Fn(&Scalar) -> Option<T>) -> Option<[T; 2]> {
        let span = self.entries.get(key)?.span();
        let written = self.reader.written(span);
        let members: Vec<_> = self.members(key, usize::MAX).collect();
        let [first, last] = members[..] else {
            self.refuse(key, format!("{written} is not a list of two values"));
            return None;
        };
        let place = self.place(key);
        let first = self.reader.resolve(&place, first)?;
        let last = self.reader.resolve(&place, last)?;
        let start = self.convert(key, &first, expected, &convert)?;
        let end = self.convert(key, &last, expected, &convert)?;
        if start > end {
            self.refuse(key, format!("{written} is not in ascending order"));
            return None;
        }
        self.record(key, &format!("{} to {}", first.written, last.written), &[first.parameter, last.parameter]);
        Some([start, end])
    }

    /// Records a number with its source: that of the parameter it comes from, or that of the key, or that of the table.
    fn record(&self, key: &str, written: &str, parameters: &[Option<&super::parameter::Parameter>]) {
        let parameter = parameters.iter().copied().flatten().next();
        let of_key = self.sources.get(key).unwrap_or(&self.source);
        let source = parameter.map_or(of_key, |parameter| &parameter.source).clone();
        let name = parameter.map(|parameter| parameter.name.clone());
        self.reader.record(Number { key: self.place(key).key, value: written.to_owned(), parameter: name, source });
    }
}

const DURATION: &str = "a duration such as \"15 min\" of at most 168 h";

fn integer_of(scalar: &Scalar, range: &RangeInclusive<u64>) -> Option<u64> {
    match scalar {
        Scalar::Integer(number) => u64::try_from(*number).ok().filter(|number| range.contains(number)),
        _ => None,
    }
}

fn share_of(scalar: &Scalar) -> Option<Share> {
    match scalar {
        Scalar::Integer(number) => Share::from_f64(*number as f64),
        Scalar::Number(number) => Share::from_f64(*number),
        _ => None,
    }
}

fn duration_of(scalar: &Scalar) -> Option<u64> {
    match scalar {
        Scalar::Text(text) => parse_duration(text),
        _ => None,
    }
}

/// Returns `true` if a text is a name: letters, digits, `_` and `-`, at most 40 bytes.
pub fn is_name(text: &str) -> bool {
    let is_permitted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(is_permitted)
}

fn not_a_name(text: &str) -> String {
    format!("{} is not a name of 1 to {NAME_BYTES_MAX} letters, digits, _ and -", quote(text))
}
