//! Functions for control flow, truth values, errors and types.

use super::{Attributes, Function, SpecialForm, function, special_form};
use crate::error::{BudgetExceeded, ErrorValueKind};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::formula::Formula;
use crate::limits::{COMPILE_STEPS_PER_BYTE, EVAL_DEPTH_MAX, FORMAT_STEPS};
use crate::number_text::{self, NumberFormat};
use crate::text::Text;
use crate::time_text::{self, TimeFormat};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    special_form(
        "@If",
        1,
        "condition; value?; more...",
        "The value after the first true condition, or the last argument if none is true.",
        SpecialForm::If,
    ),
    special_form("@V2If", 3, "condition; value?; more...", "The same as `@If`.", SpecialForm::If),
    special_form(
        "@IfError",
        3,
        "value; other?",
        "The value if it is not an error, otherwise `other` or the empty text.",
        SpecialForm::IfError,
    ),
    special_form(
        "@Do",
        1,
        "statement; more...",
        "Evaluates the statements in turn. Returns the value of the last one.",
        SpecialForm::Do,
    ),
    special_form(
        "@While",
        2,
        "condition; statements...",
        "Evaluates the statements while the condition is true. Returns 1.",
        SpecialForm::While,
    ),
    special_form(
        "@DoWhile",
        2,
        "statement; more...",
        "Evaluates the statements until the last one, the condition, is false. Returns 1.",
        SpecialForm::DoWhile,
    ),
    special_form(
        "@For",
        2,
        "start; condition; step; statements...",
        "Evaluates `start` once, then the statements and the step while the condition is true. Returns 1.",
        SpecialForm::For,
    ),
    special_form("@Return", 1, "value", "Ends the formula with this value.", SpecialForm::Return),
    special_form("@Set", 3, "name; value", "Assigns the value to a temporary variable.", SpecialForm::Set),
    special_form(
        "@Transform",
        1,
        "list; name; formula",
        "The results of the formula for each element. The formula reads the element under the given name.",
        SpecialForm::Transform,
    ),
    function(
        "@Select",
        1,
        "number; value; more...",
        "The value at this position, starting at 1. Other positions select the first or the last value.",
        select,
    ),
    function("@True", 1, "", "1.", yes),
    function("@Yes", 1, "", "1.", yes),
    function("@Success", 2, "", "1.", yes),
    function("@False", 1, "", "0.", no),
    function("@No", 1, "", "0.", no),
    function("@Failure", 2, "text", "The text, for use as the message of a failed validation.", same),
    function("@Error", 1, "", "An error.", error).with_attributes(Attributes::NOT_FOLDABLE),
    function("@IsError", 1, "value", "1 if the value is an error, otherwise 0.", is_error)
        .with_attributes(Attributes::TAKES_ERRORS),
    function("@IsText", 1, "value", "1 if the value is text, otherwise 0.", is_text),
    function("@IsNumber", 1, "value", "1 if the value is a number or a list of numbers, otherwise 0.", is_number),
    function("@IsTime", 1, "value", "1 if the value is a time or a list of times, otherwise 0.", is_time),
    function("@IsNull", 2, "value", "1 if the value is the empty text, otherwise 0.", is_null),
    function(
        "@Eval",
        2,
        "formulas",
        "The value of the formula in the text. Of several formulas, the value of the last one.",
        eval,
    )
    .with_attributes(
        Attributes::READS_ANY
            .union(Attributes::DOCUMENT)
            .union(Attributes::HOST)
            .union(Attributes::TIME)
            .union(Attributes::CLOCK),
    ),
    function(
        "@CheckFormulaSyntax",
        2,
        "formula",
        "1 if the formula compiles, otherwise a list: message, line, column, offset, length and the affected text.",
        check_syntax,
    ),
    function(
        "@Text",
        1,
        "value; format?",
        "The value as text, in the given format. The format may be a list of format codes.",
        text,
    )
    .with_attributes(Attributes::NOT_FOLDABLE),
    function("@TextToNumber", 1, "text", "The text converted to a number.", text_to_number).with_byte_cost(8),
    function("@ToNumber", 2, "value", "The value converted to a number; 0 for the empty text.", to_number)
        .with_byte_cost(8),
    function("@TextToTime", 1, "text", "The text converted to a time.", text_to_time)
        .with_attributes(Attributes::NOT_FOLDABLE)
        .with_byte_cost(16),
    function("@ToTime", 2, "value", "The value converted to a time.", to_time)
        .with_attributes(Attributes::NOT_FOLDABLE)
        .with_byte_cost(16),
];

/// The function that evaluates a time literal that needs the current date, such as a date without a year.
pub const TIME_LITERAL: Function =
    function("@TextToTime", 1, "text", "The text converted to a time.", text_to_time).with_attributes(Attributes::TIME);

fn select<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let last = arguments.len() as i64 - 1;
    let chosen = arguments[0].integer()?.clamp(1, last);
    Ok(arguments[chosen as usize].clone())
}

fn yes<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::TRUE)
}

fn no<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::FALSE)
}

fn same<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(arguments[0].clone())
}

fn error<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Err(ErrorValueKind::ErrorFunction.into())
}

fn is_error<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(arguments[0].error().is_some()))
}

fn is_text<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(arguments[0].texts().is_ok()))
}

fn is_number<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(arguments[0].numbers().is_ok()))
}

fn is_time<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(arguments[0].times().is_ok()))
}

fn is_null<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_bool(arguments[0].is_empty()))
}

/// Compiles and evaluates each text, within the remaining budgets. Returns the value of the last one, or the first
/// error.
///
/// The inner formulas see the pending field changes and the current temporaries. They can set fields but not
/// temporaries.
fn eval<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    if run.depth >= EVAL_DEPTH_MAX {
        return Err(BudgetExceeded::Depth.into());
    }
    let mut last = Value::EMPTY;
    for source in arguments[0].texts()? {
        last = eval_one(run, source)?;
        if last.error().is_some() {
            break;
        }
    }
    Ok(last)
}

fn eval_one<'d>(run: &mut Evaluation<'d>, source: &str) -> FunctionResult<'d> {
    run.charge(1 + source.len() * COMPILE_STEPS_PER_BYTE)?;
    let formula = Formula::compile(source, run.options).map_err(|error| ErrorValueKind::Formula(error.to_string()))?;
    let names = &formula.analysis().names;
    let temporaries = run.temporaries(names)?;
    let mut inner = Evaluation::new(names, run.options, run.document, run.host, run.remaining());
    inner.depth = run.depth + 1;
    inner.deletion = run.deletion;
    inner.adopt_changes(std::mem::take(&mut run.changes));
    inner.effects = std::mem::take(&mut run.effects);
    for (slot, value) in temporaries {
        inner.store_temporary(slot, value);
    }
    let outcome = crate::machine::evaluate_within(&formula, &mut inner);
    run.set_remaining(inner.remaining());
    let outcome = outcome?;
    let value = outcome.value.into_owned();
    let deletion = outcome.deletion;
    let changes = outcome.changes;
    let effects = outcome.effects;
    run.deletion = deletion;
    run.effects = effects;
    run.adopt_changes(changes);
    Ok(value)
}

/// Returns the syntax error of a formula as a list: message, line, column, offset from 1 in characters, length in
/// characters, and the affected piece.
fn check_syntax<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let source = arguments[0].text()?;
    run.charge(source.len() * COMPILE_STEPS_PER_BYTE)?;
    let Err(error) = Formula::compile(source, run.options) else { return Ok(Value::from("1")) };
    let start = error.span.start as usize;
    let end = error.span.end as usize;
    let piece = source.get(start..end).unwrap_or_default().to_owned();
    let offset = source.get(..start).map_or(0, |before| before.chars().count()) + 1;
    let numbers = [error.position.line, error.position.column, offset, piece.chars().count()];
    let numbers = numbers.iter().map(ToString::to_string);
    let texts = [error.reason.to_string()].into_iter().chain(numbers).chain([piece]);
    Ok(Value::from_texts(texts.map(Into::into).collect()))
}

/// Returns a value as one text for display, with its elements separated by semicolons.
#[must_use]
pub fn text_of(run: &Evaluation<'_>, value: &Value<'_>) -> String {
    crate::print_value::render(value, run.options, run.now())
}

fn text<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let value = &arguments[0];
    let format = arguments.get(1).map_or(Ok(&[][..]), Value::texts)?;
    let format = || format.iter().map(Text::as_str);
    run.charge_list(value.count())?;
    run.charge_bytes(32 * value.count())?;
    let texts = match value {
        Value::Text(_) | Value::Texts(_) => return Ok(value.clone()),
        Value::Number(_) | Value::Numbers(_) => {
            run.charge_product(value.count(), FORMAT_STEPS)?;
            let format = NumberFormat::parse(format());
            let numbers = value.numbers()?.iter();
            numbers.map(|number| number_text::format(*number, &format, &run.options.locale)).collect::<Vec<_>>()
        }
        Value::Time(_) | Value::Times(_) => {
            run.charge_product(value.count(), FORMAT_STEPS)?;
            let format = TimeFormat::parse(format());
            let now = run.now();
            value.times()?.iter().map(|time| time_text::format(*time, &format, run.options, now)).collect()
        }
        Value::Error(_) => return Ok(value.clone()),
    };
    Ok(Value::from_texts(texts.into_iter().map(Into::into).collect()))
}

fn text_to_number<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    run.charge_list(texts.len())?;
    let numbers = texts.iter().map(|text| number_text::parse(text, &run.options.locale));
    let numbers: Option<Vec<f64>> = numbers.collect();
    Ok(Value::from_numbers(numbers.ok_or(ErrorValueKind::ToNumber)?))
}

fn to_number<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    match &arguments[0] {
        value if value.numbers().is_ok() => Ok(value.clone()),
        value if value.is_empty() => Ok(Value::FALSE),
        _ => text_to_number(run, arguments),
    }
}

fn text_to_time<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    run.charge_list(texts.len())?;
    let now = run.now();
    let times = texts.iter().map(|text| time_text::parse(text, run.options, now));
    let times: Option<Vec<_>> = times.collect();
    Ok(Value::from_times(times.ok_or(ErrorValueKind::ToTime)?))
}

fn to_time<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    if arguments[0].times().is_ok() { Ok(arguments[0].clone()) } else { text_to_time(run, arguments) }
}
