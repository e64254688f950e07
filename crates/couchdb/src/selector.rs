//! Selectors: conditions on JSON documents, as CouchDB's `_find` and `_changes?filter=_selector` have them. All
//! functions are pure.
//!
//! Implemented are the operators of comparison, of presence and type, of lists and of combination. A selector with
//! another operator is refused, never ignored: a filter that lets more through than was asked for would be worse than
//! none.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::limits::{SELECTOR_CONDITIONS_MAX, SELECTOR_DEPTH_MAX, SELECTOR_STEPS_MAX};

/// Number of bytes of texts and names whose comparison counts as one step.
const TEXT_BYTES_PER_STEP: usize = 64;

/// A parsed selector.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector(Condition);

/// Whether a document fulfils a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorOutcome {
    /// It does.
    Holds,
    /// It does not.
    Fails,
    /// This would take more than [`SELECTOR_STEPS_MAX`] comparisons.
    TooCostly,
}

/// The result of examining a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Examined {
    /// Whether the document fulfils the selector.
    pub outcome: SelectorOutcome,
    /// Number of comparisons.
    pub steps: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    None(Vec<Condition>),
    Not(Box<Condition>),
    /// A condition on the member at a path.
    Member(Vec<String>, Box<Condition>),
    Compare(Comparison, Value),
    Exists(bool),
    Type(String),
    In(Vec<Value>),
    NotIn(Vec<Value>),
    AllOf(Vec<Value>),
    Size(u64),
    Modulo(i64, i64),
    ElementMatches(Box<Condition>),
    AllElementsMatch(Box<Condition>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Selector {
    /// Parses a selector.
    pub fn parse(value: &Value) -> Result<Self> {
        let mut parser = Parser { conditions: 0 };
        parser.object(value, 0).map(Self)
    }

    /// Examines a document.
    pub fn examine(&self, document: &Value) -> Examined {
        let mut steps = Steps { left: SELECTOR_STEPS_MAX };
        let holds = self.0.holds(Some(document), &mut steps);
        let outcome = match (steps.left, holds) {
            (0, _) => SelectorOutcome::TooCostly,
            (_, true) => SelectorOutcome::Holds,
            (_, false) => SelectorOutcome::Fails,
        };
        Examined { outcome, steps: SELECTOR_STEPS_MAX - steps.left }
    }
}

struct Parser {
    conditions: usize,
}

impl Parser {
    /// Parses an object whose members are operators or fields. All of them must hold.
    fn object(&mut self, value: &Value, depth: usize) -> Result<Condition> {
        let Value::Object(members) = value else { return Err(invalid("a selector must be an object")) };
        if depth > SELECTOR_DEPTH_MAX {
            return Err(invalid("the selector is nested too deeply"));
        }
        let conditions: Result<Vec<Condition>> =
            members.iter().map(|(name, value)| self.member(name, value, depth + 1)).collect();
        Ok(Condition::All(conditions?))
    }

    fn member(&mut self, name: &str, value: &Value, depth: usize) -> Result<Condition> {
        self.conditions += 1;
        if self.conditions > SELECTOR_CONDITIONS_MAX {
            return Err(invalid("the selector has too many conditions"));
        }
        if name.starts_with('$') {
            return self.operator(name, value, depth);
        }
        let is_condition = value.as_object().is_some_and(|members| is_operators(members) || !members.is_empty());
        let condition = match is_condition {
            true => self.object(value, depth)?,
            false => Condition::Compare(Comparison::Equal, value.clone()),
        };
        Ok(Condition::Member(path_of(name), Box::new(condition)))
    }

    fn operator(&mut self, name: &str, value: &Value, depth: usize) -> Result<Condition> {
        let compare = |comparison| Ok(Condition::Compare(comparison, value.clone()));
        match name {
            "$eq" => compare(Comparison::Equal),
            "$ne" => compare(Comparison::NotEqual),
            "$lt" => compare(Comparison::Less),
            "$lte" => compare(Comparison::LessOrEqual),
            "$gt" => compare(Comparison::Greater),
            "$gte" => compare(Comparison::GreaterOrEqual),
            "$and" => Ok(Condition::All(self.list(name, value, depth)?)),
            "$or" => Ok(Condition::Any(self.list(name, value, depth)?)),
            "$nor" => Ok(Condition::None(self.list(name, value, depth)?)),
            "$not" => Ok(Condition::Not(Box::new(self.object(value, depth)?))),
            "$elemMatch" => Ok(Condition::ElementMatches(Box::new(self.object(value, depth)?))),
            "$allMatch" => Ok(Condition::AllElementsMatch(Box::new(self.object(value, depth)?))),
            "$exists" => value.as_bool().map(Condition::Exists).ok_or_else(|| wrong_operand(name, "true or false")),
            "$type" => {
                let kind = value.as_str().map(str::to_owned);
                kind.map(Condition::Type).ok_or_else(|| wrong_operand(name, "the name of a type"))
            }
            "$in" => values_of(name, value).map(Condition::In),
            "$nin" => values_of(name, value).map(Condition::NotIn),
            "$all" => values_of(name, value).map(Condition::AllOf),
            "$size" => value.as_u64().map(Condition::Size).ok_or_else(|| wrong_operand(name, "a length")),
            "$mod" => {
                let numbers = value.as_array().map(Vec::as_slice);
                match numbers.map(|numbers| numbers.iter().map(Value::as_i64).collect::<Vec<_>>()).as_deref() {
                    Some([Some(divisor), Some(rest)]) if *divisor != 0 => Ok(Condition::Modulo(*divisor, *rest)),
                    _ => Err(wrong_operand(name, "a divisor other than 0 and a remainder")),
                }
            }
            _ => Err(invalid(&format!("the operator {name} is not supported"))),
        }
    }

    fn list(&mut self, name: &str, value: &Value, depth: usize) -> Result<Vec<Condition>> {
        let values = value.as_array().ok_or_else(|| wrong_operand(name, "a list of selectors"))?;
        values.iter().map(|value| self.object(value, depth)).collect()
    }
}

fn is_operators(members: &Map<String, Value>) -> bool {
    members.keys().any(|name| name.starts_with('$'))
}

fn values_of(name: &str, value: &Value) -> Result<Vec<Value>> {
    value.as_array().cloned().ok_or_else(|| wrong_operand(name, "a list"))
}

fn wrong_operand(operator: &str, expected: &str) -> Error {
    invalid(&format!("the operand of {operator} must be {expected}"))
}

fn invalid(reason: &str) -> Error {
    Error::BadRequest(format!("Invalid selector: {reason}"))
}

/// Splits a field into the names of its path. A dot that belongs to a name has a backslash in front.
fn path_of(field: &str) -> Vec<String> {
    let mut path = vec![String::new()];
    let mut characters = field.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\\' if characters.peek() == Some(&'.') => {
                characters.next();
                path.last_mut().expect("a path has a name").push('.');
            }
            '.' => path.push(String::new()),
            c => path.last_mut().expect("a path has a name").push(c),
        }
    }
    path
}

/// The comparisons that are left for one document. When there are none, every condition fails, and the answer does not
/// count.
struct Steps {
    left: u64,
}

impl Steps {
    /// Takes steps. Returns `false` if there are not enough.
    fn take(&mut self, count: u64) -> bool {
        let is_enough = count <= self.left;
        self.left = self.left.saturating_sub(count);
        is_enough
    }
}

impl Condition {
    /// Returns `true` if a value fulfils the condition. `None` is a member that does not exist.
    fn holds(&self, value: Option<&Value>, steps: &mut Steps) -> bool {
        if !steps.take(1) {
            return false;
        }
        match self {
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(value, steps)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(value, steps)),
            Self::None(conditions) => !conditions.iter().any(|condition| condition.holds(value, steps)),
            Self::Not(condition) => !condition.holds(value, steps),
            Self::Member(path, condition) => condition.holds(member_of(value, path), steps),
            Self::Exists(expected) => value.is_some() == *expected,
            // Like CouchDB, all other conditions need a value.
            _ => value.is_some_and(|value| self.holds_for(value, steps)),
        }
    }

    /// Returns `true` if a value that exists fulfils a condition that needs one.
    fn holds_for(&self, value: &Value, steps: &mut Steps) -> bool {
        let list = || value.as_array();
        match self {
            Self::Compare(comparison, operand) => comparison.holds(value, operand, steps),
            Self::Type(kind) => type_name(value) == kind,
            Self::In(values) => is_among(value, values, steps),
            Self::NotIn(values) => !is_among(value, values, steps),
            Self::AllOf(values) => {
                let has =
                    |wanted| list().is_some_and(|list| list.iter().any(|one| compare(one, wanted, steps).is_eq()));
                !values.is_empty() && values.iter().all(has)
            }
            Self::Size(length) => list().is_some_and(|list| list.len() as u64 == *length),
            Self::Modulo(divisor, rest) => {
                value.as_i64().is_some_and(|number| number.checked_rem(*divisor) == Some(*rest))
            }
            Self::ElementMatches(condition) => {
                list().is_some_and(|list| list.iter().any(|one| condition.holds(Some(one), steps)))
            }
            Self::AllElementsMatch(condition) => {
                list().is_some_and(|list| !list.is_empty() && list.iter().all(|one| condition.holds(Some(one), steps)))
            }
            Self::All(_) | Self::Any(_) | Self::None(_) | Self::Not(_) | Self::Member(..) | Self::Exists(_) => {
                self.holds(Some(value), steps)
            }
        }
    }
}

/// Returns the member at a path, or `None` if there is none.
fn member_of<'v>(value: Option<&'v Value>, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value?, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(values) => name.parse().ok().and_then(|index: usize| values.get(index)),
        _ => None,
    })
}

impl Comparison {
    fn holds(self, value: &Value, operand: &Value, steps: &mut Steps) -> bool {
        let order = compare(value, operand, steps);
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Returns `true` if a value is one of some values, or a list that contains one of them.
fn is_among(value: &Value, values: &[Value], steps: &mut Steps) -> bool {
    let mut is_one = |value: &Value| {
        steps.left > 0 && values.iter().any(|other| steps.left > 0 && compare(value, other, steps).is_eq())
    };
    is_one(value) || value.as_array().is_some_and(|list| list.iter().any(is_one))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the place of the type of a value in CouchDB's order: null, false, true, numbers, texts, lists, objects.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

/// Compares values in CouchDB's order. Without steps, all values differ.
///
/// Texts are compared by code points. CouchDB compares them by the Unicode collation; only ranges of texts differ.
fn compare(one: &Value, other: &Value, steps: &mut Steps) -> Ordering {
    if !steps.take(1) {
        return Ordering::Less;
    }
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(one), Value::String(other)) => {
            let is_enough = steps.take((one.len().min(other.len()) / TEXT_BYTES_PER_STEP) as u64);
            if is_enough { one.cmp(other) } else { Ordering::Less }
        }
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other);
            let different = pairs.map(|(one, other)| compare(one, other, steps)).find(|order| order.is_ne());
            different.unwrap_or_else(|| one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => compare_objects(one, other, steps),
        _ => rank(one).cmp(&rank(other)),
    }
}

/// Compares the members of objects in the order of their names. A member counts as a step, and so does each
/// [`TEXT_BYTES_PER_STEP`] of the names, because the names are compared when they are sorted.
fn compare_objects(one: &Map<String, Value>, other: &Map<String, Value>, steps: &mut Steps) -> Ordering {
    let cost = |members: &Map<String, Value>| {
        members.keys().map(|name| 1 + (name.len() / TEXT_BYTES_PER_STEP) as u64).fold(0, u64::saturating_add)
    };
    if !steps.take(cost(one).saturating_add(cost(other))) {
        return Ordering::Less;
    }
    let members = sorted_members(one);
    let other_members = sorted_members(other);
    for ((name, value), (other_name, other_value)) in members.iter().zip(&other_members) {
        let order = name.cmp(other_name).then_with(|| compare(value, other_value, steps));
        if order.is_ne() {
            return order;
        }
    }
    members.len().cmp(&other_members.len())
}

fn sorted_members(members: &Map<String, Value>) -> Vec<(&str, &Value)> {
    let mut sorted: Vec<(&str, &Value)> = members.iter().map(|(name, value)| (name.as_str(), value)).collect();
    sorted.sort_unstable_by_key(|(name, _)| *name);
    sorted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_select_documents() {
        let document = json!({
            "_id": "x", "type": "task", "n": 5, "tags": ["a", "b"], "done": false, "none": null,
            "at": { "city": "Bonn", "a.b": 1 }, "parts": [{ "n": 1 }, { "n": 2 }],
        });
        let check = |selector: Value, expected: bool| {
            let parsed = Selector::parse(&selector).expect("a selector");
            let Examined { outcome, steps } = parsed.examine(&document);
            let expected = if expected { SelectorOutcome::Holds } else { SelectorOutcome::Fails };
            assert_eq!(outcome, expected, "{selector}");
            assert!(steps < 30, "{selector}: {steps}");
        };
        check(json!({}), true);
        check(json!({ "type": "task" }), true);
        check(json!({ "type": { "$eq": "note" } }), false);
        check(json!({ "type": "task", "n": { "$gt": 4, "$lte": 5 } }), true);
        check(json!({ "n": { "$lt": 5 } }), false);
        check(json!({ "n": { "$gt": null } }), true);
        check(json!({ "n": { "$lt": "a" } }), true);
        check(json!({ "n": 5.0 }), true);
        check(json!({ "at.city": "Bonn" }), true);
        check(json!({ "at": { "city": "Bonn" } }), true);
        check(json!({ "at.a\\.b": 1 }), true);
        check(json!({ "parts.1.n": 2 }), true);
        check(json!({ "missing": { "$exists": false } }), true);
        check(json!({ "missing": { "$ne": 1 } }), false);
        check(json!({ "none": { "$exists": true, "$type": "null" } }), true);
        check(json!({ "$or": [{ "n": 1 }, { "done": false }] }), true);
        check(json!({ "$nor": [{ "n": 1 }, { "done": true }] }), true);
        check(json!({ "$not": { "n": 5 } }), false);
        check(json!({ "$and": [{ "n": 5 }, { "n": 6 }] }), false);
        check(json!({ "n": { "$in": [1, 5] }, "type": { "$nin": ["x"] } }), true);
        check(json!({ "tags": { "$all": ["b", "a"], "$size": 2 } }), true);
        check(json!({ "tags": { "$elemMatch": { "$eq": "a" } } }), true);
        check(json!({ "parts": { "$allMatch": { "n": { "$gte": 1 } } } }), true);
        check(json!({ "n": { "$mod": [3, 2] } }), true);
    }

    #[test]
    fn selectors_with_too_many_comparisons_end_early() {
        let numbers: Vec<u64> = (0..3_000).collect();
        let long_names: Map<String, Value> =
            (0..20).map(|number| ("x".repeat(1 << 16) + &number.to_string(), json!(number))).collect();
        let document = json!({ "list": numbers, "text": "x".repeat(1 << 20), "object": long_names });
        let others: Vec<u64> = (3_000..6_000).collect();
        let texts = vec!["x".repeat(1 << 20) + "y"; 150];
        for selector in [
            json!({ "list": { "$in": others } }),
            json!({ "list": { "$nin": others } }),
            json!({ "$not": { "list": { "$all": numbers.iter().rev().collect::<Vec<_>>() } } }),
            json!({ "text": { "$in": texts } }),
            json!({ "object": { "$in": vec![json!({ "a": 1 }); 200] } }),
        ] {
            let parsed = Selector::parse(&selector).expect("a selector");
            assert_eq!(parsed.examine(&document).outcome, SelectorOutcome::TooCostly, "{selector:.60}");
        }
        let parsed = Selector::parse(&json!({ "list": { "$in": [2_999] } })).expect("a selector");
        let Examined { outcome, steps } = parsed.examine(&document);
        assert_eq!(outcome, SelectorOutcome::Holds);
        assert!((3_000..6_100).contains(&steps), "{steps}");
    }

    #[test]
    fn selectors_that_are_not_understood_are_refused() {
        let mut deep = json!({ "a": 1 });
        for _ in 0..=SELECTOR_DEPTH_MAX {
            deep = json!({ "$not": deep });
        }
        let wide = json!({ "$or": vec![json!({ "a": 1 }); SELECTOR_CONDITIONS_MAX] });
        let wrong = [
            json!([]),
            json!({ "a": { "$regex": "x" } }),
            json!({ "$or": {} }),
            json!({ "a": { "$size": -1 } }),
            json!({ "a": { "$mod": [0, 1] } }),
            json!({ "a": { "$exists": 1 } }),
            json!({ "a": { "$in": 1 } }),
            deep,
            wide,
        ];
        for selector in wrong {
            assert!(Selector::parse(&selector).is_err(), "{selector}");
        }
    }
}
