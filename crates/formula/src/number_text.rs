//! Conversion of numbers to text and back.

use crate::limits::DECIMALS_MAX;
use crate::locale::Locale;

/// Maximum number of digits in the general format. A float holds no more.
const DIGITS: usize = 15;

/// The format of a number, given by the format text of `@Text`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NumberFormat {
    style: Style,
    decimals: Option<usize>,
    thousands: bool,
    percent: bool,
    parentheses: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Style {
    #[default]
    General,
    Fixed,
    Scientific,
    Currency,
}

impl NumberFormat {
    /// Parses format texts, which are read as one text.
    ///
    /// The letters `G`, `F`, `S`, `C`, the signs `,`, `%`, `(`, `)` and a number of decimals may occur in any order.
    /// Other characters are ignored.
    #[must_use]
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut format = Self::default();
        let mut digits = String::new();
        for c in texts.into_iter().flat_map(str::chars) {
            match c.to_ascii_uppercase() {
                'G' => format.style = Style::General,
                'F' => format.style = Style::Fixed,
                'S' => format.style = Style::Scientific,
                'C' => format.style = Style::Currency,
                ',' => format.thousands = true,
                '%' => format.percent = true,
                '(' | ')' => format.parentheses = true,
                '0'..='9' if digits.len() < DIGITS => digits.push(c),
                _ => {}
            }
        }
        format.decimals = digits.parse::<usize>().ok().map(|decimals| decimals.min(DECIMALS_MAX));
        format
    }
}

/// Formats a number.
#[must_use]
pub fn format(number: f64, format: &NumberFormat, locale: &Locale) -> String {
    let number = if format.percent { number * 100.0 } else { number };
    let plain = match (format.style, format.decimals) {
        (Style::General, None) => format_general(number.abs()),
        (Style::General, Some(digits)) => general_digits(number.abs(), digits.clamp(1, DIGITS)),
        (Style::Fixed, decimals) => format!("{:.*}", decimals.unwrap_or(2), number.abs()),
        (Style::Scientific, decimals) => scientific(number.abs(), decimals.unwrap_or(2)),
        (Style::Currency, decimals) => format!("{:.*}", decimals.unwrap_or(2), number.abs()),
    };
    let grouped = format.thousands || format.style == Style::Currency;
    let mut text = localize(&plain, grouped, locale);
    if format.style == Style::Currency {
        text.insert_str(0, locale.currency);
    }
    if format.percent {
        text.push('%');
    }
    let is_zero = !plain.chars().take_while(|c| *c != 'E').any(|c| matches!(c, '1'..='9'));
    match (number < 0.0 && !is_zero, format.parentheses) {
        (false, _) => text,
        (true, false) => format!("-{text}"),
        (true, true) => format!("({text})"),
    }
}

/// Formats a number as short as possible: whole numbers without a decimal point, very large and very small ones with an
/// exponent.
#[must_use]
pub fn format_general(number: f64) -> String {
    general_digits(number, DIGITS)
}

fn general_digits(number: f64, digits: usize) -> String {
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { "0".to_owned() } else { number.to_string() };
    }
    let rounded = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-5..DIGITS as i32).contains(&exponent) {
        return format!("{}E{exponent:+03}", trim_zeros(mantissa));
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    // The value of the rounded digits, so that formatting produces no further digits.
    let value: f64 = rounded.parse().unwrap_or(number);
    trim_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

fn scientific(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{mantissa}E{:+03}", exponent.parse::<i32>().unwrap_or(0))
}

fn localize(plain: &str, grouped: bool, locale: &Locale) -> String {
    let whole_length = plain.find(|c: char| !c.is_ascii_digit()).unwrap_or(plain.len());
    let (whole, rest) = plain.split_at(whole_length);
    let mut text = String::with_capacity(plain.len() + whole.len() / 3);
    for (index, digit) in whole.chars().enumerate() {
        if grouped && index > 0 && (whole.len() - index) % 3 == 0 {
            text.push(locale.thousands);
        }
        text.push(digit);
    }
    text.extend(rest.chars().map(|c| if c == '.' { locale.decimal } else { c }));
    text
}

/// Parses the number at the beginning of a text: a sign or currency symbol, digits with separators, decimals, exponent,
/// percent sign.
///
/// Parentheses around the whole text make the number negative. Text after the number is ignored (`12 pieces` is 12).
/// Returns `None` if the text does not begin with a number.
#[must_use]
pub fn parse(text: &str, locale: &Locale) -> Option<f64> {
    let text = text.trim();
    let (text, parenthesized) = match text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
        Some(inside) => (inside, true),
        None => (text, false),
    };
    let (text, negative) = strip_sign_and_currency(text, locale);
    let (digits, rest) = leading_number(text, locale);
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite())?;
    let number = if rest.trim_start().starts_with('%') { number / 100.0 } else { number };
    Some(if parenthesized != negative { -number } else { number })
}

/// Strips the currency symbol and one sign, in either order, from the beginning. Returns `true` if the sign was a
/// minus.
fn strip_sign_and_currency<'t>(text: &'t str, locale: &Locale) -> (&'t str, bool) {
    let currency = |text: &'t str| text.strip_prefix(locale.currency).unwrap_or(text).trim_start();
    let text = currency(text.trim_start());
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start();
    (currency(unsigned), text.starts_with('-'))
}

/// Returns the number at the beginning of a text in Rust's float notation, and the text after it.
fn leading_number<'t>(text: &'t str, locale: &Locale) -> (String, &'t str) {
    let mut digits = String::new();
    let mut end = 0;
    let mut has_point = false;
    let is_digit_at = |position: usize| text[position..].starts_with(|c: char| c.is_ascii_digit());
    for (position, c) in text.char_indices() {
        let next = position + c.len_utf8();
        match c {
            '0'..='9' => digits.push(c),
            _ if c == locale.decimal && !has_point => {
                has_point = true;
                digits.push('.');
            }
            _ if c == locale.thousands && !has_point && position > 0 && is_digit_at(next) => {}
            _ => break,
        }
        end = next;
    }
    let exponent = exponent_length(&text[end..]);
    digits.push_str(&text[end..end + exponent]);
    (digits, &text[end + exponent..])
}

/// Returns the length of the exponent at the beginning of a text, or 0 if there is none.
#[must_use]
pub fn exponent_length(text: &str) -> usize {
    let Some(behind) = text.strip_prefix(['e', 'E']) else { return 0 };
    let unsigned = behind.strip_prefix(['+', '-']).unwrap_or(behind);
    let digits = unsigned.len() - unsigned.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits == 0 { 0 } else { text.len() - unsigned.len() + digits }
}
