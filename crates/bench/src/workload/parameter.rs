//! Parameters: values that a file names and that the command line replaces with `--set NAME=VALUE`.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::document::{Place, Reader, Scalar};
use super::finding::{nearest, quote};
use super::limits::{PARAMETERS_MAX, REMARK_BYTES_MAX, WORDS_MAX};
use super::source::Source;
use super::table::Table;
use super::units::parse_duration;

/// Keys of a parameter.
pub const KEYS: &[&str] = &["value", "min", "max", "choices", "about"];

/// A parameter and its value in this run.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, without `$`.
    pub name: String,
    /// The value in this run.
    pub value: Scalar,
    /// The value in this run, as it is written.
    pub value_text: String,
    /// The value in the file, as it is written.
    pub default_text: String,
    /// The description.
    pub about: String,
    /// Where the value in the file comes from; `assumed` if the command line has replaced it.
    pub source: Source,
    /// Whether a value of the file names it.
    pub used: Cell<bool>,
    place: Place,
}

/// The type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Number,
    Boolean,
    Duration,
    Text,
}

impl Kind {
    fn of(scalar: &Scalar) -> Self {
        match scalar {
            Scalar::Integer(_) => Self::Integer,
            Scalar::Number(_) => Self::Number,
            Scalar::Boolean(_) => Self::Boolean,
            Scalar::Text(text) if parse_duration(text).is_some() => Self::Duration,
            Scalar::Text(_) => Self::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Duration => "a duration",
            Self::Text => "a text",
        }
    }

    /// Parses a value of the command line.
    fn parse(self, text: &str) -> Option<Scalar> {
        match self {
            Self::Integer => text.replace('_', "").parse().ok().map(Scalar::Integer),
            Self::Number => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Number),
            Self::Boolean => text.parse().ok().map(Scalar::Boolean),
            Self::Duration => parse_duration(text).map(|_| Scalar::Text(text.to_owned())),
            Self::Text => Some(Scalar::Text(text.to_owned())),
        }
    }
}

/// Reads the parameters of a file, and applies the options `--set`.
pub fn read(file: &Table<'_>, assignments: &[String]) -> BTreeMap<String, Parameter> {
    let reader = file.reader();
    let assigned = parse_assignments(reader, assignments);
    let tables = file.named_tables("parameters", PARAMETERS_MAX);
    let mut parameters = BTreeMap::new();
    for (name, mut table) in tables {
        table.check_keys(KEYS);
        table.require("value");
        let assigned = assigned.get(name.as_str()).copied();
        if let Some(parameter) = read_one(&name, &table, assigned) {
            parameters.insert(name, parameter);
        }
    }
    for name in assigned.keys().filter(|name| !parameters.contains_key(**name)) {
        let rule = format!("there is no parameter {}", quote(name));
        reader.refuse_word(&option(name), rule, nearest(name, parameters.keys().map(String::as_str)));
    }
    parameters
}

/// Reports each parameter that no value of the file names.
pub fn check_used(reader: &Reader<'_>) {
    for (_, parameter) in reader.parameters().filter(|(_, parameter)| !parameter.used.get()) {
        reader.refuse(&parameter.place, "no value of the file is this parameter");
    }
}

fn parse_assignments<'a>(reader: &Reader<'_>, assignments: &'a [String]) -> BTreeMap<&'a str, &'a str> {
    let mut assigned = BTreeMap::new();
    for assignment in assignments {
        match assignment.split_once('=') {
            Some((name, value)) => {
                assigned.insert(name.trim(), value.trim());
            }
            None => reader.refuse(&option(assignment), "this is not of the form NAME=VALUE"),
        }
    }
    assigned
}

/// Returns the place of an option of the command line.
fn option(name: &str) -> Place {
    Place { key: format!("--set {}", quote(name)), offset: None }
}

fn read_one(name: &str, table: &Table<'_>, assigned: Option<&str>) -> Option<Parameter> {
    let written = table.value("value")?;
    let Some(default) = written.scalar else {
        table.refuse("value", format!("{} is not an integer, number, boolean or text", written.written));
        return None;
    };
    let about = table.literal("about", REMARK_BYTES_MAX).unwrap_or_default();
    let kind = Kind::of(&default);
    let place = table.place("value");
    let mut parameter = Parameter {
        name: name.to_owned(),
        value_text: written.written.clone(),
        default_text: written.written,
        about,
        source: table.source().clone(),
        used: Cell::new(false),
        value: default.clone(),
        place: place.clone(),
    };
    let bounds = Bounds::read(table, kind);
    bounds.check(table, &place, &default);
    if let Some(text) = assigned {
        let place = option(name);
        let Some(value) = kind.parse(text) else {
            let rule = format!("{} is not {}, as the value in the file", quote(text), kind.name());
            table.reader().refuse(&place, rule);
            return Some(parameter);
        };
        bounds.check(table, &place, &value);
        if value != default {
            parameter.source = Source::assumed();
        }
        parameter.value = value;
        parameter.value_text = text.to_owned();
    }
    Some(parameter)
}

/// The values that a parameter may have.
struct Bounds {
    min: Option<Scalar>,
    max: Option<Scalar>,
    choices: Vec<String>,
}

impl Bounds {
    fn read(table: &Table<'_>, kind: Kind) -> Self {
        let bound = |key| {
            let value = table.value(key)?;
            let scalar = value.scalar.filter(|scalar| Kind::of(scalar) == kind);
            if scalar.is_none() || matches!(kind, Kind::Boolean | Kind::Text) {
                table.refuse(key, format!("{} does not limit {}", value.written, kind.name()));
                return None;
            }
            scalar
        };
        Self { min: bound("min"), max: bound("max"), choices: read_choices(table, kind) }
    }

    fn check(&self, table: &Table<'_>, place: &Place, value: &Scalar) {
        let reader = table.reader();
        let outside = |bound: &Option<Scalar>, ordering| bound.as_ref().is_some_and(|b| compare(value, b) == ordering);
        if outside(&self.min, Some(Ordering::Less)) {
            reader.refuse(place, "the value is below the parameter's min");
        }
        if outside(&self.max, Some(Ordering::Greater)) {
            reader.refuse(place, "the value is above the parameter's max");
        }
        if let Scalar::Text(text) = value
            && !self.choices.is_empty()
            && !self.choices.contains(text)
        {
            let rule = format!("{} is not one of {}", quote(text), self.choices.join(", "));
            reader.refuse_word(place, rule, nearest(text, self.choices.iter().map(String::as_str)));
        }
    }
}

fn read_choices(table: &Table<'_>, kind: Kind) -> Vec<String> {
    if table.has("choices") && kind != Kind::Text {
        table.refuse("choices", format!("a list of texts does not limit {}", kind.name()));
    }
    let mut choices = Vec::new();
    for member in table.members("choices", WORDS_MAX) {
        match Scalar::of(member.get_ref()) {
            Some(Scalar::Text(text)) => choices.push(text),
            _ => table.refuse("choices", format!("{} is not a text", table.reader().written(member.span()))),
        }
    }
    choices
}

/// Compares two values of one kind. Returns `None` if they are not numbers or durations.
fn compare(one: &Scalar, other: &Scalar) -> Option<Ordering> {
    match (one, other) {
        (Scalar::Integer(one), Scalar::Integer(other)) => Some(one.cmp(other)),
        (Scalar::Number(one), Scalar::Number(other)) => one.partial_cmp(other),
        (Scalar::Text(one), Scalar::Text(other)) => Some(parse_duration(one)?.cmp(&parse_duration(other)?)),
        _ => None,
    }
}
