//! Functions that search texts for substrings, members and patterns. All are case-sensitive, except for the letters in
//! the patterns of `@Matches`.

use super::{Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::ZONED_TIME_STEPS;
use crate::pattern::TextPattern;
use crate::text::Text;
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@Contains", 1, "text; part", "1 if any of the texts contains any of the parts, otherwise 0.", contains),
    function("@Begins", 1, "text; part", "1 if any of the texts begins with any of the parts, otherwise 0.", begins),
    function("@Ends", 1, "text; part", "1 if any of the texts ends with any of the parts, otherwise 0.", ends),
    function(
        "@Matches",
        1,
        "text; pattern",
        "1 if any of the texts matches any of the patterns, otherwise 0.",
        matches,
    )
    .with_byte_cost(8),
    function(
        "@Like",
        1,
        "text; pattern; escape?",
        "1 if any of the texts matches any of the SQL patterns, otherwise 0.",
        like,
    )
    .with_byte_cost(8),
    function("@IsMember", 1, "text; list", "1 if all of the texts are in the list, otherwise 0.", is_member),
    function("@IsNotMember", 1, "text; list", "1 if none of the texts is in the list, otherwise 0.", is_not_member),
    function(
        "@Member",
        1,
        "value; list",
        "The position of the value in the list, starting at 1, or 0 if it is not in the list.",
        member,
    ),
];

fn any_pair<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>], test: fn(&str, &str) -> bool) -> FunctionResult<'d> {
    if let [Value::Text(text), Value::Text(part)] = arguments {
        return Ok(Value::from_bool(test(text, part)));
    }
    let texts = arguments[0].texts()?;
    let parts = arguments[1].texts()?;
    charge_pairs(run, texts, parts)?;
    // A search also reads the part, whatever the length of the text.
    charge_pairs(run, parts, texts)?;
    Ok(Value::from_bool(texts.iter().any(|text| parts.iter().any(|part| test(text, part)))))
}

/// Charges the steps of comparing or searching each of the texts once for each of the parts.
pub fn charge_pairs(run: &mut Evaluation<'_>, texts: &[Text<'_>], parts: &[Text<'_>]) -> Result<(), EvaluationError> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    Ok(run.charge_product(texts.len() + bytes / 8, parts.len())?)
}

fn contains<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    any_pair(run, arguments, |text, part| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some())
}

fn begins<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    any_pair(run, arguments, |text, part| text.starts_with(part))
}

fn ends<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    any_pair(run, arguments, |text, part| text.ends_with(part))
}

fn matches<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    any_matches(run, arguments, TextPattern::parse_matches)
}

fn like<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let escape = match arguments.get(2) {
        Some(escape) => escape.text()?.chars().next(),
        None => None,
    };
    any_matches(run, arguments, |pattern| TextPattern::parse_like(pattern, escape))
}

fn any_matches<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    read: impl Fn(&str) -> Option<TextPattern>,
) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    let patterns = arguments[1].texts()?;
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    for pattern in patterns {
        let pattern = read(pattern).ok_or(ErrorValueKind::Argument("Invalid pattern"))?;
        run.charge(1 + pattern.size().saturating_mul(bytes) / 4)?;
        if texts.iter().any(|text| pattern.matches(text)) {
            return Ok(Value::TRUE);
        }
    }
    Ok(Value::FALSE)
}

fn is_member<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    let list = arguments[1].texts()?;
    charge_pairs(run, texts, list)?;
    Ok(Value::from_bool(texts.iter().all(|text| list.contains(text))))
}

fn is_not_member<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    let list = arguments[1].texts()?;
    charge_pairs(run, texts, list)?;
    Ok(Value::from_bool(!texts.iter().any(|text| list.contains(text))))
}

fn member<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let [value, list] = arguments else { return Err(ErrorValueKind::Type.into()) };
    run.charge(list.count())?;
    let place = match value {
        Value::Number(wanted) => list.numbers()?.iter().position(|number| number == wanted),
        Value::Time(wanted) => {
            run.charge_product(list.count(), ZONED_TIME_STEPS)?;
            let zone = &run.options.zone;
            list.times()?.iter().position(|time| time.compare(*wanted, zone).is_eq())
        }
        _ => {
            let wanted = value.text()?;
            list.texts()?.iter().position(|text| text == wanted)
        }
    };
    Ok(Value::from_count(place.map_or(0, |index| index + 1)))
}
