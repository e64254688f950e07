//! Functions that create times from parts or from other times.

use base::Timestamp;
use jiff::civil;

use super::{Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::{RANGE_DAYS_MAX, ZONED_TIME_STEPS};
use crate::operators::IndexPairs;
use crate::time::{DAY, Moment, Zone, add_days, clock, date, days_between};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function(
        "@Date",
        1,
        "time or year; month?; day?; hour?; minute?; second?",
        "The date of a time, or the date of three or six numbers. Of six numbers, the last three are ignored.",
        make_date,
    ),
    function(
        "@Time",
        1,
        "time or hour; minute?; second?; hour?; minute?; second?",
        "The time of day of a time, or of three numbers. Of six numbers, beginning with the year, the instant.",
        make_time,
    ),
    function("@TimeMerge", 2, "date; time; zone?", "The instants of pairs of dates and times of day.", merge),
    function(
        "@Adjust",
        1,
        "time; years; months; days; hours; minutes; seconds; keyword?",
        "The time moved by these amounts, applied from the seconds to the years.",
        adjust,
    ),
    function(
        "@BusinessDays",
        3,
        "from; to; weekdays?; holidays?",
        "The number of days from the first to the last, both included, without the given weekdays and holidays.",
        business_days,
    ),
];

fn numbers(arguments: &[Value<'_>]) -> Result<Vec<i64>, ErrorValueKind> {
    arguments.iter().map(Value::integer).collect()
}

fn from_parts(run: &Evaluation<'_>, parts: &[i64]) -> Result<Moment, ErrorValueKind> {
    let date = date(parts[0], parts[1], parts[2]).ok_or(ErrorValueKind::ToTime)?;
    let clock = clock(parts[3], parts[4], parts[5], 0).ok_or(ErrorValueKind::ToTime)?;
    run.options.zone.instant(date, clock).map(Moment::At).ok_or(ErrorValueKind::ToTime)
}

fn make_date<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    match numbers(arguments).as_deref() {
        Ok([year, month, day] | [year, month, day, _, _, _]) => {
            let date = date(*year, *month, *day).ok_or(ErrorValueKind::ToTime)?;
            Ok(Moment::Date(date).into())
        }
        _ if arguments.len() == 1 => map_times(run, &arguments[0], |time, zone| time.date(zone).map(Moment::Date)),
        Ok(_) => Err(ErrorValueKind::DateArguments.into()),
        Err(kind) => Err(kind.clone().into()),
    }
}

fn make_time<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    match numbers(arguments).as_deref() {
        Ok(parts @ [_, _, _, _, _, _]) => Ok(from_parts(run, parts)?.into()),
        Ok([hour, minute, second]) => {
            let clock = clock(*hour, *minute, *second, 0).ok_or(ErrorValueKind::ToTime)?;
            Ok(Moment::TimeOfDay(clock).into())
        }
        _ if arguments.len() == 1 => {
            map_times(run, &arguments[0], |time, zone| time.clock(zone).map(Moment::TimeOfDay))
        }
        Ok(_) => Err(ErrorValueKind::DateArguments.into()),
        Err(kind) => Err(kind.clone().into()),
    }
}

/// Returns one part of each time.
fn map_times<'d>(
    run: &mut Evaluation<'d>,
    times: &Value<'d>,
    part: fn(Moment, &Zone) -> Option<Moment>,
) -> FunctionResult<'d> {
    let times = times.times()?;
    run.charge_list(times.len())?;
    run.charge_product(times.len(), ZONED_TIME_STEPS)?;
    let parts: Option<Vec<Moment>> = times.iter().map(|time| part(*time, &run.options.zone)).collect();
    Ok(Value::from_times(parts.ok_or(ErrorValueKind::TimeExpected)?))
}

fn merge<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let dates = arguments[0].times()?;
    let times = arguments[1].times()?;
    let zone = match arguments.get(2) {
        Some(name) => Some(Zone::named(name.text()?).ok_or(ErrorValueKind::Argument("Unknown time zone"))?),
        None => None,
    };
    let pairs = IndexPairs::new(dates.len(), times.len(), false);
    run.charge_list(pairs.count())?;
    run.charge_product(pairs.count(), 2 * ZONED_TIME_STEPS)?;
    let local = &run.options.zone;
    let merged = |(date, time): (usize, usize)| {
        let date = dates[date].date(local)?;
        let clock = times[time].clock(local)?;
        let instant = zone.as_ref().unwrap_or(local).instant(date, clock)?;
        Some(match &zone {
            Some(zone) => Moment::Zoned(instant, zone.offset(instant)?),
            None => Moment::At(instant),
        })
    };
    let merged: Option<Vec<Moment>> = pairs.iter().map(merged).collect();
    Ok(Value::from_times(merged.ok_or(ErrorValueKind::TimeExpected)?))
}

/// The amount by which a time is moved.
struct Adjustment {
    years: i64,
    months: i64,
    days: i64,
    /// Hours, minutes and seconds in hundredths of a second.
    hundredths: i64,
    /// `true` if an added day keeps the local time of day, `false` if it adds 24 hours.
    keeps_local_time: bool,
}

fn adjust<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let times = arguments[0].times()?;
    let parts = numbers(&arguments[1..7])?;
    let local = match arguments.get(7) {
        None => false,
        Some(keyword) => match keyword.text()?.to_ascii_uppercase().as_str() {
            "[INLOCALTIME]" => true,
            "[INGMT]" => false,
            _ => return Err(ErrorValueKind::Keyword.into()),
        },
    };
    let clock = [(parts[3], 360_000), (parts[4], 6_000), (parts[5], 100)];
    let hundredths = clock.iter().map(|(count, hundredths)| count.saturating_mul(*hundredths));
    let hundredths = hundredths.fold(0, i64::saturating_add);
    let adjustment =
        Adjustment { years: parts[0], months: parts[1], days: parts[2], hundredths, keeps_local_time: local };
    run.charge_list(times.len())?;
    run.charge_product(times.len(), 2 * ZONED_TIME_STEPS)?;
    let moved: Option<Vec<Moment>> =
        times.iter().map(|time| shift_moment(*time, &adjustment, &run.options.zone)).collect();
    Ok(Value::from_times(moved.ok_or(ErrorValueKind::ToTime)?))
}

fn shift_moment(time: Moment, by: &Adjustment, zone: &Zone) -> Option<Moment> {
    match time {
        Moment::Date(date) => shift_date(date, by).map(Moment::Date),
        Moment::TimeOfDay(clock) => {
            let moved = i64::from(clock).saturating_add(by.hundredths).rem_euclid(i64::from(DAY));
            u32::try_from(moved).ok().map(Moment::TimeOfDay)
        }
        Moment::At(instant) | Moment::Zoned(instant, _) => shift_instant(instant, by, zone).map(Moment::At),
        range => {
            let (from, to) = range.ends();
            Moment::range(shift_moment(from, by, zone)?, shift_moment(to, by, zone)?)
        }
    }
}

/// Moves a date by days first, then by months and years. A day that the resulting month does not have becomes a day of
/// the next month.
fn shift_date(from: civil::Date, by: &Adjustment) -> Option<civil::Date> {
    let from = add_days(from, by.days)?;
    let months = by.years.checked_mul(12)?.checked_add(by.months)?;
    let month = i64::from(from.year()) * 12 + i64::from(from.month()) - 1;
    let month = month.checked_add(months)?;
    let first = date(month.div_euclid(12), month.rem_euclid(12) + 1, 1)?;
    add_days(first, i64::from(from.day()) - 1)
}

fn shift_instant(instant: Timestamp, by: &Adjustment, zone: &Zone) -> Option<Timestamp> {
    let instant = Timestamp(instant.0.checked_add(by.hundredths.checked_mul(10_000)?)?);
    if (by.years, by.months, by.days) == (0, 0, 0) {
        return zone.civil(instant).map(|_| instant);
    }
    let before = Moment::At(instant);
    let date = before.date(zone)?;
    let clock = before.clock(zone)?;
    let moved = shift_date(date, by)?;
    if by.keeps_local_time {
        return zone.instant(moved, clock);
    }
    let days = days_between(date, moved);
    Some(Timestamp(instant.0.checked_add(days.checked_mul(86_400_000_000)?)?))
}

fn business_days<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let from = arguments[0].times()?;
    let to = arguments[1].times()?;
    let weekdays = arguments.get(2).filter(|value| !value.is_empty()).map_or(Ok(&[][..]), Value::numbers)?;
    let holidays = arguments.get(3).filter(|value| !value.is_empty()).map_or(Ok(&[][..]), Value::times)?;
    run.charge_product(holidays.len(), 2 * ZONED_TIME_STEPS)?;
    let zone = &run.options.zone;
    let mut free: Vec<civil::Date> = holidays.iter().filter_map(|day| day.date(zone)).collect();
    free.sort_unstable();
    free.dedup();
    let pairs = IndexPairs::new(from.len(), to.len(), false);
    run.charge_list(pairs.count())?;
    run.charge_product(pairs.count(), 2 * ZONED_TIME_STEPS)?;
    let mut counts = Vec::with_capacity(pairs.count());
    for (one, other) in pairs.iter() {
        let from = from[one].date(&run.options.zone);
        let to = to[other].date(&run.options.zone);
        let count = match (from, to) {
            (Some(from), Some(to)) if from <= to => count_days(run, (from, to), weekdays, &free)?,
            _ => -1.0,
        };
        counts.push(count);
    }
    Ok(Value::from_numbers(counts))
}

fn count_days(
    run: &mut Evaluation<'_>,
    (from, to): (civil::Date, civil::Date),
    weekdays: &[f64],
    free: &[civil::Date],
) -> Result<f64, EvaluationError> {
    let days = days_between(from, to);
    if days > RANGE_DAYS_MAX {
        return Err(ErrorValueKind::Argument("@BusinessDays: the range has too many days").into());
    }
    run.charge_product(usize::try_from(days).unwrap_or(0), 4 + weekdays.len())?;
    let counts = |day: &civil::Date| {
        let weekday = f64::from(day.weekday().to_sunday_one_offset());
        !weekdays.iter().any(|excluded| excluded.round() == weekday) && free.binary_search(day).is_err()
    };
    Ok((0..=days).filter_map(|day| add_days(from, day)).filter(counts).count() as f64)
}
