//! Functions of lists of any type: counts and parts.

use super::{Function, SpecialForm, function, special_form};
use crate::error::ErrorValueKind;
use crate::evaluation::{Evaluation, FunctionResult};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@Elements", 1, "list", "The number of elements; 0 for the empty text.", elements).with_byte_cost(0),
    function("@Count", 1, "list", "The number of elements; 1 for the empty text.", count).with_byte_cost(0),
    function(
        "@Subset",
        1,
        "list; number",
        "The first elements, or the last elements if the number is negative.",
        subset,
    )
    .with_byte_cost(0),
    special_form(
        "@Nothing",
        3,
        "",
        "In the formula of `@Transform`, omits the element. Elsewhere, the empty text.",
        SpecialForm::Nothing,
    ),
];

/// The `@Nothing` function within the formula of `@Transform`.
pub const NOTHING: Function = function("@Nothing", 3, "", "No element.", nothing);

fn elements<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let list = &arguments[0];
    Ok(Value::from_count(if list.is_empty() { 0 } else { list.count() }))
}

fn count<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from_count(arguments[0].count()))
}

fn subset<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let list = &arguments[0];
    let wanted = arguments[1].integer()?;
    if wanted == 0 {
        return Err(ErrorValueKind::Subset.into());
    }
    let all = list.count();
    let number = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX).min(all);
    run.charge_list(number)?;
    Ok(list.slice(if wanted > 0 { 0..number } else { all - number..all }))
}

fn nothing<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Err(ErrorValueKind::Nothing.into())
}
