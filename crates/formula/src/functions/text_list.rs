//! Functions that split texts into lists, join lists into texts, and replace or find texts of lists.

use super::matching::charge_pairs;
use super::text::{charge_new_text, each};
use super::{Function, function};
use crate::error::{BudgetExceeded, ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::limits::{FORMAT_STEPS, RANGE_DAYS_MAX};
use crate::text::Text;
use crate::time::{Moment, add_days, days_between};
use crate::time_text::{self, TimeFormat};
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function(
        "@Explode",
        1,
        "text or range; separators?; empty?; newlines?",
        "A list of the parts of a text between the separators, or of the days of a range.",
        explode,
    ),
    function(
        "@Implode",
        1,
        "list; separator?",
        "The elements joined into one text, separated by spaces or the separator.",
        implode,
    ),
    function(
        "@Replace",
        1,
        "list; old; new",
        "The list with the elements in `old` replaced by those in `new`.",
        replace,
    ),
    function(
        "@ReplaceSubstring",
        1,
        "text; old; new",
        "The text with each substring in `old` replaced by the one in `new`.",
        replace_substring,
    ),
    function(
        "@Keywords",
        1,
        "text; keywords; separators?",
        "The keywords that occur in the text as words or, with empty separators, anywhere.",
        keywords,
    ),
];

/// Collects texts and charges the budget for them.
struct Collector<'r, 'd> {
    run: &'r mut Evaluation<'d>,
    texts: Vec<Text<'d>>,
}

impl<'d> Collector<'_, 'd> {
    fn add(&mut self, text: Text<'d>) -> Result<(), BudgetExceeded> {
        self.run.charge(1)?;
        self.run.charge_list(1)?;
        if self.texts.len() >= crate::limits::LIST_ELEMENTS_MAX {
            return Err(BudgetExceeded::Memory);
        }
        self.texts.push(text);
        Ok(())
    }

    fn add_part(&mut self, text: &Text<'d>, start: usize, end: usize) -> Result<(), BudgetExceeded> {
        let part = match text {
            Text::Borrowed(text) => Text::Borrowed(&text[start..end]),
            Text::Shared(text) => {
                self.run.charge_bytes(end - start)?;
                Text::from(text[start..end].to_owned())
            }
        };
        self.add(part)
    }
}

fn flag(arguments: &[Value<'_>], index: usize, missing: bool) -> Result<bool, ErrorValueKind> {
    arguments.get(index).map_or(Ok(missing), Value::is_true)
}

fn explode<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    if let Ok(times) = arguments[0].times() {
        return explode_times(run, times);
    }
    let texts = arguments[0].texts()?;
    let mut separators: Vec<char> = match arguments.get(1) {
        Some(separators) => separators.text()?.chars().collect(),
        None => vec![' ', ',', ';'],
    };
    let empty = flag(arguments, 2, false)?;
    if flag(arguments, 3, true)? {
        separators.push('\n');
    }
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    run.charge_product(bytes / 16, separators.len())?;
    let mut collector = Collector { run, texts: Vec::new() };
    for text in texts {
        explode_one(&mut collector, text, &separators, empty)?;
    }
    Ok(Value::from_texts(collector.texts))
}

fn explode_one<'d>(
    collector: &mut Collector<'_, 'd>,
    text: &Text<'d>,
    separators: &[char],
    empty: bool,
) -> Result<(), BudgetExceeded> {
    let mut start = 0;
    let cuts = text.match_indices(|c| separators.contains(&c)).map(|(at, cut)| (at, at + cut.len(), cut == "\n"));
    for (at, next, newline) in cuts.chain([(text.len(), text.len(), false)]) {
        // A carriage return before a newline is part of the newline.
        let end = if newline && text[start..at].ends_with('\r') { at - 1 } else { at };
        if empty || end > start {
            collector.add_part(text, start, end)?;
        }
        start = next;
    }
    Ok(())
}

fn explode_times<'d>(run: &mut Evaluation<'d>, times: &[Moment]) -> FunctionResult<'d> {
    let format = TimeFormat::parse(["S0"]);
    let options = run.options;
    let now = run.now();
    let mut collector = Collector { run, texts: Vec::new() };
    for time in times {
        let (from, to) = time.ends();
        let (Some(from), Some(to)) = (from.date(&options.zone), to.date(&options.zone)) else {
            return Err(ErrorValueKind::TimeExpected.into());
        };
        let days = days_between(from, to);
        if days > RANGE_DAYS_MAX {
            return Err(ErrorValueKind::Argument("The time-date range argument of @Explode spans too many days").into());
        }
        for day in 0..=days {
            let Some(date) = add_days(from, day) else { break };
            collector.run.charge(FORMAT_STEPS)?;
            let text = time_text::format(Moment::Date(date), &format, options, now);
            collector.run.charge_bytes(text.len())?;
            collector.add(Text::from(text))?;
        }
    }
    Ok(Value::from_texts(collector.texts))
}

fn implode<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    let separator = match arguments.get(1) {
        Some(separator) => separator.text()?.as_str(),
        None => " ",
    };
    if let [single] = texts {
        return Ok(Value::Text(single.clone()));
    }
    let bytes: usize = texts.iter().map(|text| text.len() + separator.len()).sum();
    run.charge_text(bytes)?;
    let texts: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
    Ok(Value::from(texts.join(separator)))
}

fn replace<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let list = arguments[0].texts()?;
    let old = arguments[1].texts()?;
    let new = arguments[2].texts()?;
    charge_pairs(run, list, old)?;
    run.charge_list(list.len())?;
    let replaced = list.iter().map(|text| match old.iter().position(|wanted| wanted == text) {
        Some(index) => new.get(index).cloned().unwrap_or(Text::EMPTY),
        None => text.clone(),
    });
    Ok(Value::from_texts(replaced.collect()))
}

fn replace_substring<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let old = arguments[1].texts()?;
    let new = arguments[2].texts()?;
    each(run, &arguments[0], |run, text| {
        let mut text = text.clone();
        for (index, old) in old.iter().enumerate().filter(|(_, old)| !old.is_empty()) {
            run.charge(1 + (text.len() + old.len()) / 8)?;
            if memchr::memmem::find(text.as_bytes(), old.as_bytes()).is_some() {
                let new = &new[index.min(new.len() - 1)];
                check_growth(run, &text, old, new)?;
                run.charge(text.len() / old.len())?;
                text = charge_new_text(run, text.replace(old.as_str(), new))?;
            }
        }
        Ok(text)
    })
}

/// Checks that a replacement does not exceed the maximum text length, before the result is created.
fn check_growth(run: &mut Evaluation<'_>, text: &str, old: &str, new: &str) -> Result<(), EvaluationError> {
    let times = text.len() / old.len();
    if text.len().saturating_add(times.saturating_mul(new.len())) > crate::limits::TEXT_BYTES_MAX {
        let times = text.matches(old).count();
        run.charge_text(text.len().saturating_add(times.saturating_mul(new.len())))?;
    }
    Ok(())
}

const KEYWORD_SEPARATORS: &str = "?. \t\r\n,!;:[](){}\"<>";

fn keywords<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    let keywords = arguments[1].texts()?;
    let separators = match arguments.get(2) {
        Some(separators) => separators.text()?.as_str(),
        None => KEYWORD_SEPARATORS,
    };
    if separators.is_empty() {
        charge_pairs(run, texts, keywords)?;
        charge_pairs(run, keywords, texts)?;
    } else {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let word_steps = bytes.saturating_mul(1 + separators.len() / 32);
        run.charge_product(1 + word_steps, keywords.len())?;
    }
    run.charge_list(keywords.len())?;
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (index, keyword) in keywords.iter().enumerate() {
        let place = if separators.is_empty() {
            position_of_substring(texts, keyword)
        } else {
            position_of_word(texts, keyword, separators)
        };
        found.extend(place.map(|place| (place, index)));
    }
    found.sort_unstable();
    Ok(Value::from_texts(found.into_iter().map(|(_, index)| keywords[index].clone()).collect()))
}

/// Returns the first position of a keyword, counted over all texts in sequence.
fn position_of_substring(texts: &[Text<'_>], keyword: &str) -> Option<usize> {
    let mut before = 0;
    for text in texts {
        if let Some(place) = text.find(keyword) {
            return Some(before + place);
        }
        before += text.len() + 1;
    }
    None
}

fn position_of_word(texts: &[Text<'_>], keyword: &str, separators: &str) -> Option<usize> {
    let mut place = 0;
    for text in texts {
        for word in text.split(|c| separators.contains(c)) {
            if word == keyword && !word.is_empty() {
                return Some(place);
            }
            place += word.len() + 1;
        }
    }
    None
}
