//! Functions of the current time, of the parts of a time, and of time zones.

use super::{Attributes, Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::{FORMAT_STEPS, ZONED_TIME_STEPS};
use crate::text::Text;
use crate::time::{Moment, Offset, Zone, add_days};
use crate::time_text::{self, TimeFormat};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@Now", 1, "flags?; server?", "The current date and time.", now).with_attributes(Attributes::TIME.union(Attributes::CLOCK)),
    function("@Today", 1, "", "Today's date.", |run, _| day(run, 0)).with_attributes(Attributes::TIME),
    function("@Tomorrow", 1, "", "Tomorrow's date.", |run, _| day(run, 1)).with_attributes(Attributes::TIME),
    function("@Yesterday", 1, "", "Yesterday's date.", |run, _| day(run, -1)).with_attributes(Attributes::TIME),
    function("@Year", 1, "time", "The year. Parts of the date are -1 if the time has no date.", |run, a| {
        part(run, a, |p| p.date(|d| d.year().into()))
    }),
    function("@Month", 1, "time", "The month, starting at 1.", |run, a| part(run, a, |p| p.date(|d| d.month().into()))),
    function("@Day", 1, "time", "The day of the month.", |run, a| part(run, a, |p| p.date(|d| d.day().into()))),
    function("@Weekday", 1, "time", "The day of the week, starting at 1 for Sunday.", |run, a| {
        part(run, a, |p| p.date(|d| d.weekday().to_sunday_one_offset().into()))
    }),
    function("@Hour", 1, "time", "The hour. Parts of the time of day are -1 if there is only a date.", |run, a| {
        part(run, a, |p| p.clock(360_000, 24))
    }),
    function("@Minute", 1, "time", "The minute.", |run, a| part(run, a, |p| p.clock(6_000, 60))),
    function("@Second", 2, "time", "The second.", |run, a| part(run, a, |p| p.clock(100, 60))),
    function("@Zone", 2, "time?", "The time zone of a time, or of the current time: hours west of Greenwich, with `.1` added in daylight saving time.", zone)
        .with_attributes(Attributes::NOT_FOLDABLE),
    function("@GetCurrentTimeZone", 2, "", "The time zone in Domino's notation: offset, daylight saving time, name.", current_zone)
        .with_attributes(Attributes::NOT_FOLDABLE),
    function("@TimeZoneToText", 3, "zone; format?", "The name of the time zone, or its abbreviation if the format is `S` or `A`.", zone_to_text)
        .with_attributes(Attributes::NOT_FOLDABLE),
    function("@TimeToTextInZone", 3, "time; zone; format?", "The time as text, in the given time zone.", time_in_zone)
        .with_attributes(Attributes::NOT_FOLDABLE),
];

fn now<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Moment::at(run.now()).into())
}

fn day<'d>(run: &mut Evaluation<'d>, days: i64) -> FunctionResult<'d> {
    let date = add_days(run.today()?, days).ok_or(ErrorValueKind::ToTime)?;
    Ok(Moment::Date(date).into())
}

/// A time with the zone in which its parts are read.
struct MomentInZone<'z> {
    time: Moment,
    zone: &'z Zone,
}

impl MomentInZone<'_> {
    fn date(&self, part: fn(jiff::civil::Date) -> i64) -> Option<i64> {
        self.time.date(self.zone).map(part)
    }

    fn clock(&self, hundredths: u32, count: u32) -> Option<i64> {
        self.time.clock(self.zone).map(|clock| i64::from(clock / hundredths % count))
    }
}

fn part<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    part: fn(MomentInZone<'_>) -> Option<i64>,
) -> FunctionResult<'d> {
    let times = arguments[0].times()?;
    run.charge_list(times.len())?;
    run.charge_product(times.len(), ZONED_TIME_STEPS)?;
    let zone = &run.options.zone;
    let parts = times.iter().map(|time| part(MomentInZone { time: *time, zone }).unwrap_or(-1) as f64);
    Ok(Value::from_numbers(parts.collect()))
}

fn zone<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let number = |time: &Moment| match time {
        Moment::Zoned(_, offset) => offset.number(),
        _ => time.instant().and_then(|at| run.options.zone.offset(at)).map_or(0.0, Offset::number),
    };
    match arguments.first() {
        Some(times) => {
            let times = times.times()?;
            run.charge_product(times.len(), ZONED_TIME_STEPS)?;
            Ok(Value::from_numbers(times.iter().map(number).collect()))
        }
        None => Ok(Value::Number(number(&Moment::at(run.now())))),
    }
}

fn current_zone<'d>(run: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from(run.options.zone.to_domino_text(run.now())))
}

fn named_zone(text: &Value<'_>) -> Result<Zone, EvaluationError> {
    Ok(Zone::named(text.text()?).ok_or(ErrorValueKind::Argument("Unknown time zone"))?)
}

fn zone_to_text<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let zone = named_zone(&arguments[0])?;
    let short = match arguments.get(1) {
        Some(format) => ["S", "A"].iter().any(|short| format.text().is_ok_and(|text| text.eq_ignore_ascii_case(short))),
        None => false,
    };
    Ok(Value::from(if short { zone.abbreviation(run.now()) } else { zone.name().to_owned() }))
}

fn time_in_zone<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let zone = named_zone(&arguments[1])?;
    let format = match arguments.get(2) {
        Some(format) => TimeFormat::parse(format.texts()?.iter().map(Text::as_str)),
        None => TimeFormat::parse(["Z2"]),
    };
    let times = arguments[0].times()?;
    run.charge_list(times.len())?;
    run.charge_bytes(32 * times.len())?;
    run.charge_product(times.len(), FORMAT_STEPS)?;
    let options = crate::options::FormulaOptions { zone, ..run.options.clone() };
    let now = run.now();
    let texts = times.iter().map(|time| Text::from(time_text::format(*time, &format, &options, now)));
    Ok(Value::from_texts(texts.collect()))
}
