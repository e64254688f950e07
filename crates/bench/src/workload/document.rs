//! A workload file as it is written: TOML with the place of every value.
//!
//! [`parse`] checks the size, the grammar of TOML, and the nesting. [`Reader`] collects the findings of everything that
//! reads values, resolves parameters, and records each number with its source. The tables themselves are read by
//! [`Table`](super::table::Table).

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;

use serde::Serialize;
use toml::de::{DeTable, DeValue};

use super::finding::{Finding, nearest, quote};
use super::limits::{FILE_BYTES_MAX, FINDINGS_MAX, NESTING_MAX};
use super::parameter::Parameter;
use super::source::{Source, TAGS, meaning};

/// Parses the text of a file into its outermost table.
pub fn parse(text: &str) -> Result<DeTable<'_>, Vec<Finding>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(vec![Finding::general(format!("the file is longer than {} KiB", FILE_BYTES_MAX / 1024))]);
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.into_iter().take(FINDINGS_MAX).map(|error| grammar_finding(text, &error)).collect());
    }
    let table = table.into_inner();
    match too_deep(&table, 1) {
        None => Ok(table),
        Some(offset) => {
            let rule = format!("tables and lists are nested more than {NESTING_MAX} deep");
            Err(vec![Finding { line: Some(line_of(text, offset)), ..Finding::general(rule) }])
        }
    }
}

fn grammar_finding(text: &str, error: &toml::de::Error) -> Finding {
    let line = error.span().map(|span| line_of(text, span.start));
    let place = error.span().and_then(|span| text.get(span)).map(str::trim).unwrap_or_default();
    let rule = if place.is_empty() || place.contains('\n') {
        format!("not valid TOML: {}", error.message())
    } else {
        format!("not valid TOML: {}: {}", error.message(), quote(place))
    };
    Finding { line, ..Finding::general(rule) }
}

/// Returns the place of the first value at which the nesting exceeds its limit.
fn too_deep(table: &DeTable<'_>, depth: usize) -> Option<usize> {
    table.iter().find_map(|(name, value)| value_too_deep(value.get_ref(), depth, name.span().start))
}

fn value_too_deep(value: &DeValue<'_>, depth: usize, offset: usize) -> Option<usize> {
    match value {
        DeValue::Table(_) | DeValue::Array(_) if depth >= NESTING_MAX => Some(offset),
        DeValue::Table(inner) => too_deep(inner, depth + 1),
        DeValue::Array(members) => {
            members.iter().find_map(|member| value_too_deep(member.get_ref(), depth + 1, member.span().start))
        }
        _ => None,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// A plain value.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// `30`
    Integer(i64),
    /// `0.2`
    Number(f64),
    /// `true`
    Boolean(bool),
    /// `"15 min"`
    Text(String),
}

impl Scalar {
    /// Reads a plain value. Returns `None` for dates, lists, tables, and integers beyond 64 bits.
    pub fn of(value: &DeValue<'_>) -> Option<Self> {
        match value {
            DeValue::String(text) => Some(Self::Text(text.to_string())),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix()).ok().map(Self::Integer),
            DeValue::Float(number) => number.as_str().parse().ok().map(Self::Number),
            DeValue::Boolean(value) => Some(Self::Boolean(*value)),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
        }
    }
}

/// A number of the file and its origin, for reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Number {
    /// The key with the tables around it.
    pub key: String,
    /// The value as it is written, or that of the parameter.
    pub value: String,
    /// The parameter that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// Its tags.
    pub source: Source,
}

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The key with the tables around it.
    pub key: String,
    /// The position in the file in bytes, or `None` for an option of the command line.
    pub offset: Option<usize>,
}

/// A plain value at its place, with parameters resolved.
#[derive(Debug, Clone)]
pub struct Value<'r> {
    /// The value, or `None` if it is not plain.
    pub scalar: Option<Scalar>,
    /// The value as it is written.
    pub written: String,
    /// The parameter that the value comes from.
    pub parameter: Option<&'r Parameter>,
}

/// What all tables of a file share: the text, the parameters, and the findings and numbers so far.
#[derive(Debug)]
pub struct Reader<'d> {
    text: &'d str,
    parameters: OnceCell<BTreeMap<String, Parameter>>,
    tags: OnceCell<BTreeMap<String, String>>,
    findings: RefCell<Vec<Finding>>,
    more_findings: Cell<usize>,
    numbers: RefCell<Vec<Number>>,
}

impl<'d> Reader<'d> {
    /// Creates a reader of a text without parameters and tags.
    pub fn new(text: &'d str) -> Self {
        Self {
            text,
            parameters: OnceCell::new(),
            tags: OnceCell::new(),
            findings: RefCell::default(),
            more_findings: Cell::new(0),
            numbers: RefCell::default(),
        }
    }

    /// Sets the tags that the file has of its own.
    pub fn set_tags(&self, tags: BTreeMap<String, String>) {
        self.tags.set(tags).expect("tags are read once");
    }

    /// Sets the parameters, which are resolved from now on.
    pub fn set_parameters(&self, parameters: BTreeMap<String, Parameter>) {
        self.parameters.set(parameters).expect("parameters are read once");
    }

    /// Returns the parameters by name.
    pub fn parameters(&self) -> impl Iterator<Item = (&String, &Parameter)> {
        self.parameters.get().into_iter().flatten()
    }

    /// Reports a finding.
    pub fn refuse(&self, place: &Place, rule: impl Into<String>) {
        self.refuse_word(place, rule, None);
    }

    /// Reports a finding about an unknown word.
    pub fn refuse_word(&self, place: &Place, rule: impl Into<String>, nearest: Option<String>) {
        let mut findings = self.findings.borrow_mut();
        if findings.len() == FINDINGS_MAX {
            return self.more_findings.set(self.more_findings.get() + 1);
        }
        let line = place.offset.map(|offset| line_of(self.text, offset));
        findings.push(Finding { line, key: place.key.clone(), rule: rule.into(), nearest });
    }

    /// Returns `true` if there are findings.
    pub fn has_findings(&self) -> bool {
        !self.findings.borrow().is_empty()
    }

    /// Returns the findings in the order of the file.
    pub fn into_findings(self) -> Vec<Finding> {
        let mut findings = self.findings.into_inner();
        findings.sort_by_key(|finding| finding.line);
        if self.more_findings.get() > 0 {
            findings.push(Finding::general(format!("{} more errors", self.more_findings.get())));
        }
        findings
    }

    /// Records a number of the file.
    pub fn record(&self, number: Number) {
        self.numbers.borrow_mut().push(number);
    }

    /// Returns the recorded numbers, and forgets them.
    pub fn take_numbers(&self) -> Vec<Number> {
        self.numbers.take()
    }

    /// Returns the text of a part of the file, cut to a length that fits into a message.
    pub fn written(&self, span: std::ops::Range<usize>) -> String {
        let text = self.text.get(span).unwrap_or_default();
        quote(&text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Resolves a value. Returns `None` and reports a finding if it names an unknown parameter.
    pub fn resolve<'r>(&'r self, place: &Place, value: &toml::Spanned<DeValue<'_>>) -> Option<Value<'r>> {
        let scalar = Scalar::of(value.get_ref());
        let written = self.written(value.span());
        let Some(Scalar::Text(text)) = &scalar else { return Some(Value { scalar, written, parameter: None }) };
        let Some(name) = text.strip_prefix('$') else { return Some(Value { scalar, written, parameter: None }) };
        let Some(parameter) = self.parameters.get().and_then(|all| all.get(name)) else {
            let known = self.parameters.get().into_iter().flat_map(BTreeMap::keys).map(String::as_str);
            let nearest = nearest(name, known).map(|name| format!("${name}"));
            self.refuse_word(place, format!("there is no parameter {}", quote(name)), nearest);
            return None;
        };
        parameter.used.set(true);
        let written = format!("{} (${name})", parameter.value_text);
        Some(Value { scalar: Some(parameter.value.clone()), written, parameter: Some(parameter) })
    }

    /// Parses tags separated by commas. Unknown ones are findings.
    pub fn parse_source(&self, place: &Place, text: &str) -> Source {
        let own = || self.tags.get().into_iter().flat_map(BTreeMap::keys).map(String::as_str);
        let tags: Vec<&str> = text.split(',').map(str::trim).collect();
        for tag in tags.iter().filter(|tag| meaning(tag).is_none() && !own().any(|own| own == **tag)) {
            let nearest = nearest(tag, TAGS.iter().map(|(tag, _)| *tag).chain(own()));
            self.refuse_word(place, format!("there is no source {}", quote(tag)), nearest);
        }
        Source { tags: tags.into_iter().map(str::to_owned).collect() }
    }
}
