//! Constant folding.
//!
//! A time literal in brackets becomes its value, a keyword becomes text. An operator or pure function whose operands
//! are constants is computed once at compile time. It stays unfolded if it results in an error (the formula may test
//! for it during the evaluation), if the result is large, or if computing it takes long.

use base::Timestamp;

use crate::error::EvaluationError;
use crate::evaluation::Evaluation;
use crate::functions::{self, Attributes, Function, Implementation};
use crate::host::{Document, Host};
use crate::limits::{FOLDED_BYTES_MAX, FOLDING_STEPS_MAX, Limits};
use crate::operators::{join_lists, negate, not, operate, subscript};
use crate::options::FormulaOptions;
use crate::source::Span;
use crate::time_text::{self, Literal};
use crate::token::{Operation, Operator};
use crate::tree::{Expression, Kind};
use crate::value::Value;

/// Folds an expression.
#[must_use]
pub fn fold(expression: Expression, options: &FormulaOptions) -> Expression {
    let Expression { kind, span } = expression;
    let kind = match kind {
        Kind::Bracketed(text) => fold_bracketed(text, span, options),
        kind => compute(children(kind, options), options),
    };
    Expression { kind, span }
}

/// Converts the content of brackets to a constant, or to a call that computes it. A malformed time stays as it is, and
/// the compiler refuses it.
fn fold_bracketed(text: String, span: Span, options: &FormulaOptions) -> Kind {
    match time_text::literal(&text, options) {
        Literal::Time(time) => Kind::Constant(Value::Time(time)),
        Literal::Relative(name) => {
            functions::find(name).map_or(Kind::Bracketed(text), |found| Kind::Call(found, Vec::new()))
        }
        Literal::DependsOnToday => {
            let text = Expression { kind: Kind::Constant(Value::from(text)), span };
            Kind::Call(&functions::TIME_LITERAL, vec![text])
        }
        Literal::Malformed => Kind::Bracketed(text),
        Literal::Keyword => Kind::Constant(Value::from(format!("[{text}]"))),
    }
}

fn fold_boxed(expression: Expression, options: &FormulaOptions) -> Box<Expression> {
    Box::new(fold(expression, options))
}

fn all(expressions: Vec<Expression>, options: &FormulaOptions) -> Vec<Expression> {
    expressions.into_iter().map(|expression| fold(expression, options)).collect()
}

/// Folds the subexpressions of an expression.
fn children(kind: Kind, options: &FormulaOptions) -> Kind {
    match kind {
        Kind::Constant(_) | Kind::Bracketed(_) | Kind::Name(_) => kind,
        Kind::List(elements) => Kind::List(all(elements, options)),
        Kind::Call(function, arguments) => Kind::Call(function, all(arguments, options)),
        Kind::Negate(operand) => Kind::Negate(fold_boxed(*operand, options)),
        Kind::Plus(operand) => Kind::Plus(fold_boxed(*operand, options)),
        Kind::Not(operand) => Kind::Not(fold_boxed(*operand, options)),
        Kind::Subscript(list, indexes) => Kind::Subscript(fold_boxed(*list, options), all(indexes, options)),
        Kind::Assign(target, name, value) => Kind::Assign(target, name, fold_boxed(*value, options)),
        Kind::Chain(first, rest) => {
            let rest = rest.into_iter().map(|(operator, operand)| (operator, fold(operand, options)));
            Kind::Chain(fold_boxed(*first, options), rest.collect())
        }
    }
}

/// Computes an expression if all of its operands are constants.
fn compute(kind: Kind, options: &FormulaOptions) -> Kind {
    let limits = Limits { steps: FOLDING_STEPS_MAX, bytes: FOLDED_BYTES_MAX as u64 };
    let mut run = Evaluation::new(&[], options, &EmptyContext, &EmptyContext, limits);
    match value(&kind, &mut run) {
        Some(Ok(value)) if value.error().is_none() && value.size_bytes() <= FOLDED_BYTES_MAX => {
            Kind::Constant(value.into_owned())
        }
        _ => kind,
    }
}

fn value<'d>(kind: &'d Kind, run: &mut Evaluation<'d>) -> Option<Result<Value<'d>, EvaluationError>> {
    Some(match kind {
        Kind::List(elements) => join_lists(run, constants(elements)?.into_iter()),
        Kind::Negate(operand) => negate(constant(operand)?),
        Kind::Plus(operand) => Ok(constant(operand)?),
        Kind::Not(operand) => not(constant(operand)?),
        Kind::Chain(first, rest) => {
            let operands = rest.iter().map(|(operator, operand)| Some((*operator, constant(operand)?)));
            let operands: Vec<_> = operands.collect::<Option<_>>()?;
            if operands.iter().any(|(operator, operand)| depends_on_collation(*operator, operand)) {
                return None;
            }
            operands.into_iter().try_fold(constant(first)?, |left, (operator, right)| {
                run.charge(1)?;
                operate(run, operator, left, right)
            })
        }
        Kind::Subscript(list, indexes) => {
            constants(indexes)?.iter().try_fold(constant(list)?, |list, index| subscript(list, index))
        }
        Kind::Call(function, arguments) => fold_call(function, &constants(arguments)?, run)?,
        Kind::Constant(_) | Kind::Bracketed(_) | Kind::Name(_) | Kind::Assign(..) => return None,
    })
}

/// Returns `true` if the operator orders texts, which depends on the host's collation.
fn depends_on_collation(operator: Operator, operand: &Value<'_>) -> bool {
    operator.rank() == 6
        && !matches!(operator.operation, Operation::Equal | Operation::NotEqual)
        && operand.texts().is_ok()
}

fn fold_call<'d>(
    function: &Function,
    arguments: &[Value<'d>],
    run: &mut Evaluation<'d>,
) -> Option<Result<Value<'d>, EvaluationError>> {
    let Implementation::Plain(body) = function.implementation else { return None };
    (function.attributes == Attributes::PURE).then(|| body(run, arguments))
}

fn constants(expressions: &[Expression]) -> Option<Vec<Value<'_>>> {
    expressions.iter().map(constant).collect()
}

fn constant(expression: &Expression) -> Option<Value<'_>> {
    match &expression.kind {
        Kind::Constant(value) => Some(value.as_borrowed()),
        _ => None,
    }
}

/// A document without items, and a host that knows nothing. Pure functions query neither.
struct EmptyContext;

impl Document for EmptyContext {
    fn item(&self, _: Option<usize>, _: &str) -> Option<Value<'_>> {
        None
    }
}

impl Host for EmptyContext {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
}
