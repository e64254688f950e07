//! Functions that sort and compare.
//!
//! The module has its own merge sort. The order may come from a formula or the host and need not be consistent, and
//! sorting must be able to stop when a budget is spent.

use std::cmp::Ordering;

use super::{Attributes, Function, SpecialForm, function, special_form};
use crate::error::{BudgetExceeded, ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::ZONED_TIME_STEPS;
use crate::operators::IndexPairs;
use crate::text::{Sensitivity, order_steps};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    special_form(
        "@Sort",
        1,
        "list; order?; formula?",
        "The sorted list. A formula that compares `$A` and `$B` may define the order.",
        SpecialForm::Sort,
    )
    .with_attributes(Attributes::NOT_FOLDABLE),
    function("@Compare", 2, "texts; texts; options?", "-1, 0 or 1 for each pair.", compare)
        .with_attributes(Attributes::NOT_FOLDABLE),
];

/// The `@Sort` function without a comparison formula.
pub const SORT_WITHOUT_FORMULA: Function = function("@Sort", 1, "list; order?", "The sorted list.", sort);

/// Returns the indexes from 0 to `count - 1` in sorted order. `after` returns `true` if the first element belongs after
/// the second one.
pub fn merge_sort_indexes(
    count: usize,
    after: &mut dyn FnMut(usize, usize) -> Result<bool, BudgetExceeded>,
) -> Result<Vec<usize>, BudgetExceeded> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut width = 1;
    while width < count {
        merged.clear();
        for run in order.chunks(2 * width) {
            let (mut left, mut right) = run.split_at(width.min(run.len()));
            while let (Some(one), Some(other)) = (left.first(), right.first()) {
                let side = if after(*one, *other)? { &mut right } else { &mut left };
                merged.push(side[0]);
                *side = &side[1..];
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        width *= 2;
    }
    Ok(order)
}

/// Options given by the keywords of a sort.
struct Options {
    descending: bool,
    sensitivity: Sensitivity,
}

/// Parses keywords. `sensitivity` is the default.
fn options(keywords: Option<&Value<'_>>, sensitivity: Sensitivity) -> Result<Options, ErrorValueKind> {
    let mut options = Options { descending: false, sensitivity };
    let Some(keywords) = keywords else { return Ok(options) };
    for keyword in keywords.texts()? {
        match keyword.to_ascii_uppercase().as_str() {
            "[ASCENDING]" => options.descending = false,
            "[DESCENDING]" => options.descending = true,
            "[CASESENSITIVE]" => options.sensitivity.case = true,
            "[CASEINSENSITIVE]" => options.sensitivity.case = false,
            "[ACCENTSENSITIVE]" => options.sensitivity.accent = true,
            "[ACCENTINSENSITIVE]" => options.sensitivity.accent = false,
            "[PITCHSENSITIVE]" | "[PITCHINSENSITIVE]" | "[CUSTOMSORT]" | "" => {}
            _ => return Err(ErrorValueKind::Keyword),
        }
    }
    Ok(options)
}

/// Returns a list in the given order, or in the reverse order if the keywords ask for it.
pub fn reordered<'d>(
    run: &mut Evaluation<'d>,
    list: &Value<'d>,
    mut order: Vec<usize>,
    keywords: &Value<'d>,
) -> FunctionResult<'d> {
    if options(Some(keywords), Sensitivity::SORT)?.descending {
        order.reverse();
    }
    run.charge_list(order.len())?;
    Ok(list.select(&order))
}

fn sort<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let list = &arguments[0];
    let options = options(arguments.get(1), Sensitivity::SORT)?;
    run.charge_list(2 * list.count())?;
    let order = merge_sort_indexes(list.count(), &mut |one, other| {
        let order = compare_elements(run, list, [one, other], options.sensitivity)?;
        Ok(if options.descending { order.is_lt() } else { order.is_gt() })
    })?;
    Ok(list.select(&order))
}

fn compare_elements<'d>(
    run: &mut Evaluation<'d>,
    list: &Value<'d>,
    [one, other]: [usize; 2],
    sensitivity: Sensitivity,
) -> Result<Ordering, BudgetExceeded> {
    run.charge(1)?;
    match list {
        Value::Texts(texts) => {
            run.charge(order_steps(&texts[one], &texts[other]))?;
            Ok(run.host.compare(&texts[one], &texts[other], sensitivity))
        }
        Value::Numbers(numbers) => Ok(numbers[one].total_cmp(&numbers[other])),
        Value::Times(times) => {
            run.charge(ZONED_TIME_STEPS)?;
            Ok(times[one].compare(times[other], &run.options.zone))
        }
        _ => Ok(Ordering::Equal),
    }
}

fn compare<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let left = arguments[0].texts()?;
    let right = arguments[1].texts()?;
    let options = options(arguments.get(2), Sensitivity::COMPARE)?;
    let pairs = IndexPairs::new(left.len(), right.len(), false);
    run.charge_list(pairs.count())?;
    let mut orders = Vec::with_capacity(pairs.count());
    for (one, other) in pairs.iter() {
        run.charge(1 + order_steps(&left[one], &right[other]))?;
        let order = run.host.compare(&left[one], &right[other], options.sensitivity);
        orders.push(f64::from(order as i8));
    }
    Ok::<_, EvaluationError>(Value::from_numbers(orders))
}
