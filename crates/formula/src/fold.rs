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
use crate::time_text::{self, BracketedLiteral};
use crate::token::{Operation, Operator};
use crate::tree::{Expression, ExpressionKind};
use crate::value::Value;

/// Folds an expression.
#[must_use]
pub fn fold(expression: Expression, options: &FormulaOptions) -> Expression {
    let Expression { kind, span } = expression;
    let kind = match kind {
        ExpressionKind::Bracketed(text) => fold_bracketed(text, span, options),
        kind => fold_constants(fold_children(kind, options), options),
    };
    Expression { kind, span }
}

/// Converts the content of brackets to a constant, or to a call that computes it. A malformed time stays as it is, and
/// the compiler refuses it.
fn fold_bracketed(text: String, span: Span, options: &FormulaOptions) -> ExpressionKind {
    match time_text::parse_bracketed(&text, options) {
        BracketedLiteral::Time(time) => ExpressionKind::Constant(Value::Time(time)),
        BracketedLiteral::Relative(name) => functions::find(name)
            .map_or(ExpressionKind::Bracketed(text), |found| ExpressionKind::Call(found, Vec::new())),
        BracketedLiteral::DependsOnToday => {
            let text = Expression { kind: ExpressionKind::Constant(Value::from(text)), span };
            ExpressionKind::Call(&functions::TIME_LITERAL, vec![text])
        }
        BracketedLiteral::Malformed => ExpressionKind::Bracketed(text),
        BracketedLiteral::Keyword => ExpressionKind::Constant(Value::from(format!("[{text}]"))),
    }
}

fn fold_boxed(expression: Expression, options: &FormulaOptions) -> Box<Expression> {
    Box::new(fold(expression, options))
}

fn fold_all(expressions: Vec<Expression>, options: &FormulaOptions) -> Vec<Expression> {
    expressions.into_iter().map(|expression| fold(expression, options)).collect()
}

/// Folds the subexpressions of an expression.
fn fold_children(kind: ExpressionKind, options: &FormulaOptions) -> ExpressionKind {
    match kind {
        ExpressionKind::Constant(_) | ExpressionKind::Bracketed(_) | ExpressionKind::Name(_) => kind,
        ExpressionKind::List(elements) => ExpressionKind::List(fold_all(elements, options)),
        ExpressionKind::Call(function, arguments) => ExpressionKind::Call(function, fold_all(arguments, options)),
        ExpressionKind::Negate(operand) => ExpressionKind::Negate(fold_boxed(*operand, options)),
        ExpressionKind::Plus(operand) => ExpressionKind::Plus(fold_boxed(*operand, options)),
        ExpressionKind::Not(operand) => ExpressionKind::Not(fold_boxed(*operand, options)),
        ExpressionKind::Subscript(list, indexes) => {
            ExpressionKind::Subscript(fold_boxed(*list, options), fold_all(indexes, options))
        }
        ExpressionKind::Assign(target, name, value) => {
            ExpressionKind::Assign(target, name, fold_boxed(*value, options))
        }
        ExpressionKind::Chain(first, rest) => {
            let rest = rest.into_iter().map(|(operator, operand)| (operator, fold(operand, options)));
            ExpressionKind::Chain(fold_boxed(*first, options), rest.collect())
        }
    }
}

/// Computes an expression if all of its operands are constants.
fn fold_constants(kind: ExpressionKind, options: &FormulaOptions) -> ExpressionKind {
    let limits = Limits { steps: FOLDING_STEPS_MAX, bytes: FOLDED_BYTES_MAX as u64 };
    let mut run = Evaluation::new(&[], options, &EmptyContext, &EmptyContext, limits);
    match compute_value(&kind, &mut run) {
        Some(Ok(value)) if value.error().is_none() && value.size_bytes() <= FOLDED_BYTES_MAX => {
            ExpressionKind::Constant(value.into_owned())
        }
        _ => kind,
    }
}

fn compute_value<'d>(kind: &'d ExpressionKind, run: &mut Evaluation<'d>) -> Option<Result<Value<'d>, EvaluationError>> {
    Some(match kind {
        ExpressionKind::List(elements) => join_lists(run, constants(elements)?.into_iter()),
        ExpressionKind::Negate(operand) => negate(constant(operand)?),
        ExpressionKind::Plus(operand) => Ok(constant(operand)?),
        ExpressionKind::Not(operand) => not(constant(operand)?),
        ExpressionKind::Chain(first, rest) => {
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
        ExpressionKind::Subscript(list, indexes) => {
            constants(indexes)?.iter().try_fold(constant(list)?, |list, index| subscript(list, index))
        }
        ExpressionKind::Call(function, arguments) => fold_call(function, &constants(arguments)?, run)?,
        ExpressionKind::Constant(_)
        | ExpressionKind::Bracketed(_)
        | ExpressionKind::Name(_)
        | ExpressionKind::Assign(..) => return None,
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
    if function.attributes != Attributes::PURE {
        return None;
    }
    let charged = run.charge(function.cost_steps(arguments)).map_err(EvaluationError::from);
    Some(charged.and_then(|()| body(run, arguments)))
}

fn constants(expressions: &[Expression]) -> Option<Vec<Value<'_>>> {
    expressions.iter().map(constant).collect()
}

fn constant(expression: &Expression) -> Option<Value<'_>> {
    match &expression.kind {
        ExpressionKind::Constant(value) => Some(value.as_borrowed()),
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
