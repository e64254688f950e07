//! Functions of whole texts: case, blanks, length, single characters, encoding.

use std::fmt::Write as _;

use base::hex;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::{Attributes, Function, function};
use crate::error::{ErrorValueKind, EvaluationError};
use crate::evaluation::{Evaluation, FunctionResult};
use crate::text::Text;
use crate::value::Value;

/// The functions of this module.
pub const FUNCTIONS: &[Function] = &[
    function("@LowerCase", 1, "text", "The text in lower case.", lower_case).with_byte_cost(16),
    function("@UpperCase", 1, "text", "The text in upper case.", upper_case).with_byte_cost(16),
    function("@ProperCase", 1, "text", "The text with a capital letter at the beginning of each word.", proper_case)
        .with_byte_cost(32),
    function(
        "@Trim",
        1,
        "text",
        "The text without spaces at both ends and with one space between words. Empty elements are omitted.",
        trim,
    )
    .with_byte_cost(8),
    function("@Length", 1, "text", "The number of characters.", length),
    function(
        "@Repeat",
        2,
        "text; times; max?",
        "The text repeated this many times, truncated to at most `max` characters.",
        repeat,
    ),
    function("@NewLine", 1, "", "A newline character.", new_line),
    function("@Char", 1, "code", "The character with this code, from 0 to 255.", character),
    function("@Ascii", 3, "text; keyword?", "The text without accents. Other non-ASCII characters become `?`.", ascii)
        .with_byte_cost(32),
    function("@Soundex", 3, "text", "The text's Soundex code.", soundex).with_byte_cost(8),
    function("@URLEncode", 3, "charset; text", "The text encoded for use in a URL, in UTF-8.", url_encode)
        .with_byte_cost(16),
    function("@URLDecode", 3, "charset; text", "The text decoded from its encoded form in a URL.", url_decode)
        .with_byte_cost(8),
    function("@Unique", 1, "list?", "The list without duplicates. Without a list, a text that is unique.", unique)
        .with_attributes(Attributes::NOT_FOLDABLE)
        .with_byte_cost(32),
];

/// Applies a function to each text.
pub fn each<'d>(
    run: &mut Evaluation<'d>,
    value: &Value<'d>,
    mut change: impl FnMut(&mut Evaluation<'d>, &Text<'d>) -> Result<Text<'d>, EvaluationError>,
) -> FunctionResult<'d> {
    if let Value::Text(text) = value {
        return Ok(Value::Text(change(run, text)?));
    }
    let texts = value.texts()?;
    run.charge_list(texts.len())?;
    let mut changed = Vec::with_capacity(texts.len());
    for text in texts {
        changed.push(change(run, text)?);
    }
    Ok(Value::from_texts(changed))
}

/// Charges the budget for a newly created text and returns it.
pub fn charge_new_text<'d>(run: &mut Evaluation<'d>, text: String) -> Result<Text<'d>, EvaluationError> {
    run.charge_text(text.len())?;
    Ok(Text::from(text))
}

fn lower_case<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    each(run, &arguments[0], |run, text| charge_new_text(run, text.to_lowercase()))
}

fn upper_case<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    each(run, &arguments[0], |run, text| charge_new_text(run, text.to_uppercase()))
}

fn proper_case<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    each(run, &arguments[0], |run, text| {
        let mut proper = String::with_capacity(text.len());
        let mut within_word = false;
        for c in text.chars() {
            if within_word {
                proper.extend(c.to_lowercase());
            } else {
                proper.extend(c.to_uppercase());
            }
            within_word = c.is_alphanumeric() || (within_word && c == '\'');
        }
        charge_new_text(run, proper)
    })
}

fn trim<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    run.charge_list(texts.len())?;
    let mut trimmed = Vec::with_capacity(texts.len());
    for text in texts {
        let is_trim = !text.starts_with(' ') && !text.ends_with(' ') && !text.contains("  ");
        let text = if is_trim {
            text.clone()
        } else {
            let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
            charge_new_text(run, words.join(" "))?
        };
        if !text.is_empty() {
            trimmed.push(text);
        }
    }
    Ok(Value::from_texts(trimmed))
}

fn length<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let texts = arguments[0].texts()?;
    run.charge_list(texts.len())?;
    Ok(Value::from_numbers(texts.iter().map(|text| text.chars().count() as f64).collect()))
}

fn repeat<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let times = usize::try_from(arguments[1].integer()?)
        .map_err(|_| ErrorValueKind::Argument("@Repeat: the number must not be negative"))?;
    let max = match arguments.get(2) {
        Some(max) => Some(usize::try_from(max.integer()?).unwrap_or(0)),
        None => None,
    };
    each(run, &arguments[0], |run, text| {
        run.charge_text(text.len().saturating_mul(times))?;
        let repeated = text.repeat(times);
        let Some(max) = max else { return Ok(Text::from(repeated)) };
        run.charge(repeated.len() / 8)?;
        let end = repeated.char_indices().nth(max).map_or(repeated.len(), |(end, _)| end);
        Ok(Text::from(repeated[..end].to_owned()))
    })
}

fn new_line<'d>(_: &mut Evaluation<'d>, _: &[Value<'d>]) -> FunctionResult<'d> {
    Ok(Value::from("\n"))
}

fn character<'d>(_: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let code = u8::try_from(arguments[0].integer()?)
        .map_err(|_| ErrorValueKind::Argument("@Char: the code must be from 0 to 255"))?;
    Ok(Value::from(char::from(code).to_string()))
}

fn ascii<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let only_whole = match arguments.get(1) {
        Some(keyword) if keyword.text()?.eq_ignore_ascii_case("[ALLINRANGE]") => true,
        Some(_) => return Err(ErrorValueKind::Keyword.into()),
        None => false,
    };
    each(run, &arguments[0], |run, text| {
        let plain: String =
            text.nfd().filter(|c| !is_combining_mark(*c)).map(|c| if c.is_ascii() { c } else { '?' }).collect();
        let spoilt = only_whole && !text.is_ascii();
        charge_new_text(run, if spoilt { String::new() } else { plain })
    })
}

fn soundex<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    each(run, &arguments[0], |run, text| {
        let letters: Vec<u8> =
            text.bytes().filter(u8::is_ascii_alphabetic).map(|letter| letter.to_ascii_uppercase()).collect();
        let Some((first, rest)) = letters.split_first() else { return Ok(Text::EMPTY) };
        let mut code = String::from(char::from(*first));
        let mut last = soundex_digit(*first);
        for letter in rest {
            let digit = soundex_digit(*letter);
            if digit.is_some() && digit != last {
                code.extend(digit);
            }
            // H and W do not separate letters with the same digit.
            if !matches!(letter, b'H' | b'W') {
                last = digit;
            }
        }
        charge_new_text(run, format!("{code:0<4.4}"))
    })
}

fn soundex_digit(letter: u8) -> Option<char> {
    match letter {
        b'B' | b'F' | b'P' | b'V' => Some('1'),
        b'C' | b'G' | b'J' | b'K' | b'Q' | b'S' | b'X' | b'Z' => Some('2'),
        b'D' | b'T' => Some('3'),
        b'L' => Some('4'),
        b'M' | b'N' => Some('5'),
        b'R' => Some('6'),
        _ => None,
    }
}

fn check_charset(charset: &Value<'_>) -> Result<(), ErrorValueKind> {
    let known =
        ["UTF-8", "Domino", "Platform"].iter().any(|known| charset.text().is_ok_and(|c| c.eq_ignore_ascii_case(known)));
    if known {
        Ok(())
    } else {
        Err(ErrorValueKind::Argument("@URLEncode, @URLDecode: the charset must be UTF-8 or Domino"))
    }
}

fn url_encode<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    check_charset(&arguments[0])?;
    each(run, &arguments[1], |run, text| {
        run.charge_text(text.len() * 3)?;
        let mut encoded = String::with_capacity(text.len());
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
                encoded.push(char::from(byte));
            } else {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        Ok(Text::from(encoded))
    })
}

fn url_decode<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    check_charset(&arguments[0])?;
    each(run, &arguments[1], |run, text| {
        let mut decoded = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((byte, after)) = rest.split_first() {
            let code = match after {
                [high, low, ..] if *byte == b'%' => hex::parse_byte(*high, *low),
                _ => None,
            };
            decoded.push(code.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
            rest = if code.is_some() { &after[2..] } else { after };
        }
        charge_new_text(run, String::from_utf8_lossy(&decoded).into_owned())
    })
}

fn unique<'d>(run: &mut Evaluation<'d>, arguments: &[Value<'d>]) -> FunctionResult<'d> {
    let Some(list) = arguments.first() else {
        let random = run.host.random().ok_or(ErrorValueKind::Context)?;
        return Ok(Value::from(format!("{:013X}", random & 0xF_FFFF_FFFF_FFFF)));
    };
    run.charge_list(2 * list.count())?;
    let mut seen = std::collections::HashSet::new();
    let first: Vec<usize> = match list {
        Value::Numbers(numbers) => {
            // The sum turns -0 into 0, which equals it.
            (0..numbers.len()).filter(|index| seen.insert((numbers[*index] + 0.0).to_bits().to_string())).collect()
        }
        Value::Times(times) => (0..times.len()).filter(|index| seen.insert(format!("{:?}", times[*index]))).collect(),
        Value::Texts(texts) => {
            let mut seen = std::collections::HashSet::new();
            (0..texts.len()).filter(|index| seen.insert(texts[*index].as_str())).collect()
        }
        _ => return Ok(list.clone()),
    };
    Ok(list.select(&first))
}
