//! Functions that extract parts of texts: from the left, from the right, from the middle, words.
//!
//! If a boundary is given as a text that does not occur, the result is empty. Counts are in characters. A negative
//! count yields the whole text in those functions in which it does so in Domino.

use std::ops::Range;

use super::text::each;
use super::{Function, function};
use crate::error::{BudgetExceeded, ErrorValueKind};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::text::Text;
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@Left", 1, "text; count or text", "The first characters, or the text before the first occurrence.", left),
    function(
        "@LeftBack",
        1,
        "text; count or text",
        "All but the last characters, or the text before the last occurrence.",
        left_back,
    ),
    function("@Right", 1, "text; count or text", "The last characters, or the text after the first occurrence.", right),
    function(
        "@RightBack",
        1,
        "text; count or text",
        "All but the first characters, or the text after the last occurrence.",
        right_back,
    ),
    function(
        "@Middle",
        1,
        "text; skip or text; count or text",
        "The text after a number of characters or after a text: a number of characters, or up to another text.",
        middle,
    ),
    function(
        "@MiddleBack",
        2,
        "text; skip or text; count or text",
        "Like `@Middle`, but counted and searched from the end.",
        middle_back,
    ),
    function(
        "@Word",
        1,
        "text; separator; number",
        "The word at this position, starting at 1. Negative numbers count from the end.",
        word,
    ),
];

/// A boundary: a number of characters or a text.
enum Boundary<'v> {
    Count(usize),
    Negative,
    Text(&'v str),
}

fn cut<'v>(value: &'v Value<'_>) -> Result<Boundary<'v>, ErrorValueKind> {
    match value.number() {
        Ok(_) => Ok(usize::try_from(value.integer()?).map_or(Boundary::Negative, Boundary::Count)),
        Err(_) => Ok(Boundary::Text(value.text().map_err(|_| ErrorValueKind::Type)?)),
    }
}

/// Returns the byte offset of the character with the given index, or the end of the text.
fn position(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(position, _)| position)
}

/// Returns the byte offset before the last `count` characters, or the beginning of the text.
fn position_back(text: &str, count: usize) -> usize {
    if count == 0 { text.len() } else { text.char_indices().rev().nth(count - 1).map_or(0, |(position, _)| position) }
}

/// Returns a part of a text. A borrowed text is not copied.
fn part<'d>(text: &Text<'d>, start: usize, end: usize) -> Text<'d> {
    match text {
        Text::Borrowed(text) => Text::Borrowed(&text[start..end]),
        Text::Shared(text) => Text::from(text[start..end].to_owned()),
    }
}

/// Charges the steps of preparing a search for a text. The text that is searched was charged with the arguments.
fn charge_search(run: &mut Evaluation<'_>, wanted: &str) -> Result<(), BudgetExceeded> {
    run.charge(wanted.len() / 8)
}

fn left_or_right<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    by_count: fn(&str, usize) -> (usize, usize),
    by_text: fn(&str, &str) -> Option<(usize, usize)>,
) -> FunctionResult<'d> {
    let cut = cut(&arguments[1])?;
    each(run, &arguments[0], |run, text| {
        let range = match cut {
            Boundary::Count(count) => Some(by_count(text, count)),
            Boundary::Negative => Some((0, text.len())),
            Boundary::Text(wanted) => {
                charge_search(run, wanted)?;
                by_text(text, wanted)
            }
        };
        let Some((start, end)) = range else { return Ok(Text::EMPTY) };
        run.charge_bytes(end - start)?;
        Ok(part(text, start, end))
    })
}

fn left<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    left_or_right(
        run,
        arguments,
        |text, count| (0, position(text, count)),
        |text, wanted| Some((0, text.find(wanted)?)),
    )
}

fn left_back<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    left_or_right(
        run,
        arguments,
        |text, count| (0, position_back(text, count)),
        |text, wanted| Some((0, text.rfind(wanted)?)),
    )
}

fn right<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let behind = |text: &str, wanted: &str| Some((text.find(wanted)? + wanted.len(), text.len()));
    left_or_right(run, arguments, |text, count| (position_back(text, count), text.len()), behind)
}

fn right_back<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let behind = |text: &str, wanted: &str| Some((text.rfind(wanted)? + wanted.len(), text.len()));
    left_or_right(run, arguments, |text, count| (position(text, count), text.len()), behind)
}

/// Returns the range of `count` characters from `skipped`, which is the position after the boundary. A negative count
/// selects the characters before the boundary instead.
fn by_count(text: &str, position_of_cut: usize, skipped: usize, count: i64) -> (usize, usize) {
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        return (position_back(&text[..position_of_cut], wanted), position_of_cut);
    }
    (skipped, skipped + position(&text[skipped..], wanted))
}

/// Returns the part of each text between two boundaries, each given as a count or a text.
///
/// `counted` and `found` return the position of the first boundary. `to_text` takes the range of the first boundary and
/// the text of the second one, and returns the range of the part between them.
fn between<'d>(
    run: &mut Evaluation<'d>,
    arguments: &[Value<'d>],
    counted: fn(&str, usize) -> usize,
    found: fn(&str, &str) -> Option<usize>,
    to_text: fn(&str, Range<usize>, &str) -> Range<usize>,
) -> FunctionResult<'d> {
    let start = cut(&arguments[1])?;
    let end = &arguments[2];
    each(run, &arguments[0], |run, text| {
        let (at, skipped) = match start {
            Boundary::Count(count) => {
                let at = counted(text, count);
                (at, at)
            }
            Boundary::Negative => {
                return Err(ErrorValueKind::Argument("The number of characters to skip must not be negative").into());
            }
            Boundary::Text(wanted) => {
                charge_search(run, wanted)?;
                let Some(at) = found(text, wanted) else { return Ok(Text::EMPTY) };
                (at, at + wanted.len())
            }
        };
        let (from, to) = match end.number() {
            Ok(_) => by_count(text, at, skipped, end.integer()?),
            Err(_) => {
                let end = end.text().map_err(|_| ErrorValueKind::Type)?.as_str();
                charge_search(run, end)?;
                let part = to_text(text, at..skipped, end);
                (part.start, part.end)
            }
        };
        run.charge_bytes(to - from)?;
        Ok(part(text, from, to))
    })
}

fn middle<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    between(
        run,
        arguments,
        position,
        |text, wanted| text.find(wanted),
        |text, first, wanted| {
            let begin = first.end;
            begin..text[begin..].find(wanted).map_or(text.len(), |found| begin + found)
        },
    )
}

fn middle_back<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    // The character at which counting ends belongs to the result.
    let counted = |text: &str, count: usize| position_back(text, count.saturating_sub(1).min(text.len()));
    between(
        run,
        arguments,
        counted,
        |text, wanted| text.rfind(wanted),
        |text, first, wanted| {
            let end = first.start;
            text[..end].rfind(wanted).map_or(0, |found| found + wanted.len())..end
        },
    )
}

fn word<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let separator = arguments[1].text()?;
    let number = arguments[2].integer()?;
    each(run, &arguments[0], |run, text| {
        run.charge_bytes(text.len())?;
        charge_search(run, separator)?;
        let index = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX).saturating_sub(1);
        let found = match number {
            _ if separator.is_empty() => Some(text.as_str()).filter(|_| index == 0),
            0.. => text.split(separator.as_str()).nth(index),
            _ => text.rsplit(separator.as_str()).nth(index),
        };
        Ok(found.map_or(Text::EMPTY, |found| Text::from(found.to_owned())))
    })
}
