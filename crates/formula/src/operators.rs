//! Operators over lists. Operators work pairwise, repeating the last element of the shorter list; permuted operators
//! combine every element with every other one.

use std::cmp::Ordering;

use crate::error::{BudgetExceeded, ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::{LIST_ELEMENTS_MAX, ZONED_TIME_STEPS};
use crate::text::{Sensitivity, Text, equal_ignore_case, equality_steps, order_steps};
use crate::token::{Operation, Operator};
use crate::value::Value;

/// Applies an operator to two values.
pub fn operate<'d>(
    run: &mut Evaluation<'d>,
    operator: Operator,
    left: Value<'d>,
    right: Value<'d>,
) -> FunctionResult<'d> {
    if let Value::Error(_) = left {
        return Ok(left);
    }
    if let Value::Error(_) = right {
        return Ok(right);
    }
    match operator.operation {
        Operation::And | Operation::Or => logical(run, operator, &left, &right),
        Operation::Multiply | Operation::Divide | Operation::Add | Operation::Subtract => {
            arithmetic(run, operator, &left, &right)
        }
        _ => compare(run, operator, &left, &right).map(Value::from_bool),
    }
}

/// The pairs of indexes that an operator over two lists visits.
#[derive(Clone, Copy)]
pub struct IndexPairs {
    left: usize,
    right: usize,
    permuted: bool,
}

impl IndexPairs {
    /// Creates the pairs for two lists of the given lengths. There are no pairs if a list is empty.
    #[must_use]
    pub fn new(left: usize, right: usize, permuted: bool) -> Self {
        Self { left, right, permuted: permuted || left == 0 || right == 0 }
    }

    /// Returns the number of pairs.
    #[must_use]
    pub fn count(self) -> usize {
        if self.permuted { self.left.saturating_mul(self.right) } else { self.left.max(self.right) }
    }

    /// Returns the pairs in order.
    pub fn iter(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.count()).map(move |index| {
            if self.permuted {
                (index / self.right, index % self.right)
            } else {
                (index.min(self.left - 1), index.min(self.right - 1))
            }
        })
    }
}

fn logical<'d>(
    run: &mut Evaluation<'d>,
    operator: Operator,
    left: &Value<'d>,
    right: &Value<'d>,
) -> FunctionResult<'d> {
    let left = left.numbers()?;
    let right = right.numbers()?;
    let pairs = IndexPairs::new(left.len(), right.len(), false);
    run.charge(pairs.count().saturating_sub(1))?;
    let truth = |(one, other): (usize, usize)| match operator.operation {
        Operation::And => left[one] != 0.0 && right[other] != 0.0,
        _ => left[one] != 0.0 || right[other] != 0.0,
    };
    Ok(Value::from_bool(pairs.iter().any(truth)))
}

fn arithmetic<'d>(
    run: &mut Evaluation<'d>,
    operator: Operator,
    left: &Value<'d>,
    right: &Value<'d>,
) -> FunctionResult<'d> {
    let pairs = IndexPairs::new(left.count(), right.count(), operator.permuted);
    if pairs.count() > 1 {
        run.charge(pairs.count())?;
        run.charge_list(pairs.count())?;
    }
    match (operator.operation, left) {
        (Operation::Add, Value::Text(_) | Value::Texts(_)) => join_texts(run, pairs, left.texts()?, right.texts()?),
        (Operation::Subtract, Value::Time(_) | Value::Times(_)) => {
            let left = left.times()?;
            let right = right.times()?;
            run.charge_product(pairs.count(), ZONED_TIME_STEPS)?;
            let zone = &run.options.zone;
            let seconds = pairs.iter().map(|(one, other)| left[one].seconds_since(right[other], zone));
            let seconds: Option<Vec<f64>> = seconds.collect();
            Ok(Value::from_numbers(seconds.ok_or(ErrorValueKind::TimeExpected)?))
        }
        _ => {
            let left = left.numbers()?;
            let right = right.numbers()?;
            if let ([left], [right]) = (left, right) {
                return Ok(Value::Number(calculate(operator.operation, *left, *right)?));
            }
            let results = pairs.iter().map(|(one, other)| calculate(operator.operation, left[one], right[other]));
            Ok(Value::from_numbers(results.collect::<Result<_, _>>()?))
        }
    }
}

fn join_texts<'d>(
    run: &mut Evaluation<'d>,
    pairs: IndexPairs,
    left: &[Text<'d>],
    right: &[Text<'d>],
) -> FunctionResult<'d> {
    let mut texts = Vec::with_capacity(pairs.count());
    for (one, other) in pairs.iter() {
        texts.push(join(run, &left[one], &right[other])?);
    }
    Ok(Value::from_texts(texts))
}

fn join<'d>(run: &mut Evaluation<'d>, left: &Text<'d>, right: &Text<'d>) -> Result<Text<'d>, EvaluationError> {
    if right.is_empty() {
        return Ok(left.clone());
    }
    if left.is_empty() {
        return Ok(right.clone());
    }
    run.charge_text(left.len() + right.len())?;
    Ok(Text::from([left.as_str(), right.as_str()].concat()))
}

fn calculate(act: Operation, left: f64, right: f64) -> Result<f64, ErrorValueKind> {
    let result = match act {
        Operation::Multiply => left * right,
        Operation::Divide => left / right,
        Operation::Add => left + right,
        _ => left - right,
    };
    if result.is_finite() { Ok(result) } else { Err(ErrorValueKind::NotANumber) }
}

fn compare<'d>(
    run: &mut Evaluation<'d>,
    operator: Operator,
    left: &Value<'d>,
    right: &Value<'d>,
) -> Result<bool, EvaluationError> {
    match (left, right) {
        (Value::Text(left), Value::Text(right)) => return compare_texts(run, operator.operation, left, right),
        (Value::Number(left), Value::Number(right)) => return Ok(holds(operator.operation, left.partial_cmp(right))),
        _ => {}
    }
    let pairs = IndexPairs::new(left.count(), right.count(), operator.permuted);
    run.charge(pairs.count())?;
    let act = operator.operation;
    match (left, right) {
        (Value::Text(_) | Value::Texts(_), Value::Text(_) | Value::Texts(_)) => {
            let left = left.texts()?;
            let right = right.texts()?;
            for (one, other) in pairs.iter() {
                if compare_texts(run, act, &left[one], &right[other])? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Number(_) | Value::Numbers(_), Value::Number(_) | Value::Numbers(_)) => {
            let left = left.numbers()?;
            let right = right.numbers()?;
            Ok(pairs.iter().any(|(one, other)| holds(act, left[one].partial_cmp(&right[other]))))
        }
        (Value::Time(_) | Value::Times(_), Value::Time(_) | Value::Times(_)) => {
            let left = left.times()?;
            let right = right.times()?;
            run.charge_product(pairs.count(), ZONED_TIME_STEPS)?;
            let zone = &run.options.zone;
            Ok(pairs.iter().any(|(one, other)| holds(act, Some(left[one].compare(right[other], zone)))))
        }
        _ => match act {
            Operation::Equal => Ok(false),
            Operation::NotEqual => Ok(true),
            // A field that is missing or was left empty is neither less nor greater than anything.
            _ if left.is_empty() || right.is_empty() => Ok(false),
            _ => Err(ErrorValueKind::Comparison.into()),
        },
    }
}

fn compare_texts(run: &mut Evaluation<'_>, act: Operation, left: &str, right: &str) -> Result<bool, EvaluationError> {
    let is_equality = matches!(act, Operation::Equal | Operation::NotEqual);
    run.charge(if is_equality { equality_steps(left, right) } else { order_steps(left, right) })?;
    Ok(match act {
        Operation::Equal => equal_ignore_case(left, right),
        Operation::NotEqual => !equal_ignore_case(left, right),
        _ => holds(act, Some(run.host.compare(left, right, Sensitivity::OPERATOR))),
    })
}

fn holds(act: Operation, order: Option<Ordering>) -> bool {
    let Some(order) = order else { return act == Operation::NotEqual };
    match act {
        Operation::Equal => order.is_eq(),
        Operation::NotEqual => order.is_ne(),
        Operation::Less => order.is_lt(),
        Operation::Greater => order.is_gt(),
        Operation::LessOrEqual => order.is_le(),
        _ => order.is_ge(),
    }
}

/// Negates numbers.
pub fn negate<'d>(value: Value<'d>) -> FunctionResult<'d> {
    match value {
        Value::Number(number) => Ok(Value::Number(-number)),
        Value::Error(_) => Ok(value),
        other => Ok(Value::from_numbers(other.numbers()?.iter().map(|number| -number).collect())),
    }
}

/// Returns the logical negation of a value.
pub fn not<'d>(value: Value<'d>) -> FunctionResult<'d> {
    match value {
        Value::Error(_) => Ok(value),
        other => Ok(Value::from_bool(!other.is_true()?)),
    }
}

/// Returns the element at an index, which starts at 1 and is rounded to the nearest whole number.
pub fn subscript<'d>(list: Value<'d>, index: &Value<'d>) -> FunctionResult<'d> {
    if let Value::Error(_) = list {
        return Ok(list);
    }
    if let Value::Error(_) = index {
        return Ok(index.clone());
    }
    let index = usize::try_from(index.number()?.round() as i64).ok().and_then(|index| index.checked_sub(1));
    Ok(index.and_then(|index| list.element(index)).ok_or(ErrorValueKind::Index)?)
}

/// Concatenates lists. All lists must have the type of the first one.
pub fn join_lists<'d>(run: &mut Evaluation<'d>, values: impl Iterator<Item = Value<'d>>) -> FunctionResult<'d> {
    let mut joined: Option<Value<'d>> = None;
    for value in values {
        if let Value::Error(_) = value {
            return Ok(value);
        }
        joined = Some(match joined {
            None => value,
            Some(list) => {
                run.charge(value.count())?;
                run.charge_list(value.count())?;
                if list.count() + value.count() > LIST_ELEMENTS_MAX {
                    return Err(BudgetExceeded::Memory.into());
                }
                append(run, list, &value)?
            }
        });
    }
    Ok(joined.unwrap_or(Value::EMPTY))
}

/// Appends elements to a list. A list with other references is copied, which is charged by its length.
fn append<'d>(run: &mut Evaluation<'d>, list: Value<'d>, more: &Value<'d>) -> FunctionResult<'d> {
    if list.is_shared() {
        run.charge(list.count())?;
        run.charge_list(list.count())?;
    }
    Ok(list.append(more)?)
}
