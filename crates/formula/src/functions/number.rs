//! Functions of numbers. A result that is not a finite number is an error.

use super::{Attributes, Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::ZONED_TIME_STEPS;
use crate::operators::IndexPairs;
use crate::time::Moment;
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@Abs", 1, "number", "The absolute value of the number.", |run, a| each(run, a, f64::abs)),
    function("@Integer", 1, "number", "The integer part of the number.", |run, a| each(run, a, f64::trunc)),
    function("@Round", 1, "number; factor?", "The nearest whole number, or the nearest multiple of the factor.", round),
    function(
        "@Modulo",
        1,
        "number; divisor",
        "The integer part of the remainder, with the sign of the number.",
        |run, a| pairs(run, a, modulo),
    ),
    function("@Sign", 2, "number", "-1, 0 or 1.", |run, a| each(run, a, sign)),
    function("@Sum", 1, "numbers; more...", "The sum of all elements of all arguments.", sum),
    function("@Min", 1, "numbers; others?", "The smallest number of a list, or of each pair from two lists.", min),
    function("@Max", 1, "numbers; others?", "The greatest number of a list, or of each pair from two lists.", max),
    function("@Power", 2, "base; exponent", "The base to the power of the exponent.", |run, a| {
        pairs(run, a, f64::powf)
    }),
    function("@Sqrt", 2, "number", "The square root.", |run, a| each(run, a, f64::sqrt)),
    function("@Exp", 2, "number", "e to the power of the number.", |run, a| each(run, a, f64::exp)),
    function("@Ln", 2, "number", "The natural logarithm.", |run, a| each(run, a, f64::ln)),
    function("@Log", 2, "number", "The logarithm to base 10.", |run, a| each(run, a, f64::log10)),
    function("@Pi", 2, "", "Pi.", |_, _| Ok(Value::Number(std::f64::consts::PI))),
    function("@Sin", 2, "angle", "The sine.", |run, a| each(run, a, f64::sin)),
    function("@Cos", 2, "angle", "The cosine.", |run, a| each(run, a, f64::cos)),
    function("@Tan", 2, "angle", "The tangent.", |run, a| each(run, a, f64::tan)),
    function("@ASin", 2, "sine", "The angle with this sine.", |run, a| each(run, a, f64::asin)),
    function("@ACos", 2, "cosine", "The angle with this cosine.", |run, a| each(run, a, f64::acos)),
    function("@ATan", 2, "tangent", "The angle with this tangent.", |run, a| each(run, a, f64::atan)),
    function("@ATan2", 2, "x; y", "The angle of the point (x, y).", |run, a| pairs(run, a, |x, y| y.atan2(x))),
    function(
        "@FloatEq",
        3,
        "number; other; difference?",
        "1 if two numbers differ by less than the difference (by default 0.0001), otherwise 0.",
        float_eq,
    ),
    function("@Random", 2, "", "A random number from 0 to 1.", random)
        .with_attributes(Attributes::NOT_FOLDABLE.union(Attributes::HOST).union(Attributes::TIME)),
];

fn finite(number: f64) -> Result<f64, ErrorValueKind> {
    if number.is_finite() { Ok(number) } else { Err(ErrorValueKind::NotANumber) }
}

fn each<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>], calculate: fn(f64) -> f64) -> FunctionResult<'d> {
    if let Value::Number(number) = arguments[0] {
        return Ok(Value::Number(finite(calculate(number))?));
    }
    let numbers = arguments[0].numbers()?;
    run.charge_list(numbers.len())?;
    let results: Result<Vec<f64>, ErrorValueKind> = numbers.iter().map(|number| finite(calculate(*number))).collect();
    Ok(Value::from_numbers(results?))
}

fn pairs<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>], calculate: fn(f64, f64) -> f64) -> FunctionResult<'d> {
    let left = arguments[0].numbers()?;
    let right = arguments[1].numbers()?;
    let pairs = IndexPairs::new(left.len(), right.len(), false);
    run.charge_list(pairs.count())?;
    let results = pairs.iter().map(|(one, other)| finite(calculate(left[one], right[other])));
    Ok(Value::from_numbers(results.collect::<Result<_, _>>()?))
}

fn round<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    if arguments.len() == 1 {
        return each(run, arguments, f64::round);
    }
    pairs(run, arguments, |number, factor| (number / factor).round() * factor)
}

fn modulo(number: f64, divisor: f64) -> f64 {
    (number - (number / divisor).trunc() * divisor).trunc()
}

fn sign(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number.signum() }
}

fn sum<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let mut sum = 0.0;
    for argument in arguments {
        sum += argument.numbers()?.iter().sum::<f64>();
    }
    Ok(Value::Number(finite(sum)?))
}

fn min<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    extreme(run, arguments, f64::min, std::cmp::Ordering::Less)
}

fn max<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    extreme(run, arguments, f64::max, std::cmp::Ordering::Greater)
}

fn extreme<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    better: fn(f64, f64) -> f64,
    wanted: std::cmp::Ordering,
) -> FunctionResult<'d> {
    if let Ok(times) = arguments[0].times() {
        return extreme_time(run, times, arguments.get(1), wanted);
    }
    if arguments.len() > 1 {
        return pairs(run, arguments, better);
    }
    let found = arguments[0].numbers()?.iter().copied().reduce(better);
    Ok(found.ok_or(ErrorValueKind::NumberExpected)?.into())
}

/// Returns the earliest or latest time of a list, or of each pair of two lists.
fn extreme_time<'d>(
    run: &mut Evaluation<'d>,
    times: &[Moment],
    others: Option<&Value<'d>>,
    wanted: std::cmp::Ordering,
) -> FunctionResult<'d> {
    let others_count = others.map_or(0, Value::count);
    run.charge_product(times.len().max(others_count), ZONED_TIME_STEPS)?;
    let zone = &run.options.zone;
    let better = |best: Moment, time: Moment| if time.compare(best, zone) == wanted { time } else { best };
    let Some(others) = others else {
        return Ok(times.iter().copied().reduce(better).ok_or(ErrorValueKind::TimeExpected)?.into());
    };
    let others = others.times()?;
    let pairs = IndexPairs::new(times.len(), others.len(), false);
    run.charge_list(pairs.count())?;
    Ok(Value::from_times(pairs.iter().map(|(one, other)| better(times[one], others[other])).collect()))
}

fn float_eq<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let left = arguments[0].numbers()?;
    let right = arguments[1].numbers()?;
    let near = match arguments.get(2) {
        Some(near) => near.number()?,
        None => 0.0001,
    };
    let mut pairs = IndexPairs::new(left.len(), right.len(), false).iter();
    Ok(Value::from_bool(pairs.any(|(one, other)| (left[one] - right[other]).abs() < near)))
}

fn random<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    let random = run.host.random().ok_or::<EvaluationError>(ErrorValueKind::Context.into())?;
    // A float represents integers of 53 bits exactly.
    Ok(Value::Number((random >> 11) as f64 / (1u64 << 53) as f64))
}
