//! The attribute `style` of messages: a list of properties, and values of simple words.
//!
//! A value is a few words, numbers with units, colours and names of fonts. Functions other than those of colours,
//! addresses, escapes, comments and rules with `@` are not among them, so a value loads nothing and executes nothing.
//! Properties that take an element out of its place (`position`, `float` of everything, `z-index`) are not in the list,
//! and lengths are not negative, so that nothing covers anything else. The result is a fixed point: filtering it again
//! changes nothing.

use crate::limits::STYLE_BYTES_MAX;

/// The properties.
const PROPERTIES: [&str; 44] = [
    "background-color",
    "border",
    "border-bottom",
    "border-collapse",
    "border-color",
    "border-left",
    "border-radius",
    "border-right",
    "border-spacing",
    "border-style",
    "border-top",
    "border-width",
    "clear",
    "color",
    "direction",
    "font",
    "font-family",
    "font-size",
    "font-style",
    "font-variant",
    "font-weight",
    "height",
    "letter-spacing",
    "line-height",
    "list-style-type",
    "margin",
    "margin-bottom",
    "margin-left",
    "margin-right",
    "margin-top",
    "max-width",
    "min-width",
    "padding",
    "padding-bottom",
    "padding-left",
    "padding-right",
    "padding-top",
    "text-align",
    "text-decoration",
    "text-indent",
    "text-transform",
    "vertical-align",
    "white-space",
    "width",
];

/// The functions that a value may have.
const FUNCTIONS: [&str; 4] = ["rgb", "rgba", "hsl", "hsla"];

/// Returns the declarations of a `style` attribute that are permitted.
#[must_use]
pub fn filter(style: &str) -> String {
    let style = &style[..style.floor_char_boundary(STYLE_BYTES_MAX)];
    let declarations = style.split(';').filter_map(|declaration| {
        let (property, value) = declaration.split_once(':')?;
        let property = property.trim().to_ascii_lowercase();
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let is_permitted = PROPERTIES.contains(&property.as_str()) && is_value(&value);
        is_permitted.then(|| format!("{property}:{value}"))
    });
    declarations.collect::<Vec<_>>().join(";")
}

fn is_value(value: &str) -> bool {
    let is_character = |c: char| c.is_ascii_alphanumeric() || " #%.,()'\"!-+".contains(c);
    !value.is_empty()
        && value.chars().all(is_character)
        && value.matches('"').count().is_multiple_of(2)
        && value.matches('\'').count().is_multiple_of(2)
        && !(value.contains('"') && value.contains('\''))
        && !has_negative_number(value)
        && has_known_functions(value)
}

/// Returns `true` if a minus sign is before a number.
///
/// A minus sign within a word that begins with a letter is part of the word (`x-1`). After a number it begins the next
/// one: `0-5px` is `0 -5px`. So every other minus sign before a digit is taken for a negative number.
fn has_negative_number(value: &str) -> bool {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
    let words = value.split(|c| !is_of_word(c)).filter(|word| !word.starts_with(|c: char| c.is_ascii_alphabetic()));
    words
        .flat_map(|word| word.as_bytes().windows(2))
        .any(|pair| pair[0] == b'-' && (pair[1].is_ascii_digit() || pair[1] == b'.'))
}

/// Returns `true` if all functions of a value are known ones, and their parentheses are closed.
fn has_known_functions(value: &str) -> bool {
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('(') {
        let start = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '-').map_or(0, |at| at + 1);
        let is_known = FUNCTIONS.iter().any(|function| before[start..].eq_ignore_ascii_case(function));
        let Some((arguments, behind)) = after.split_once(')') else { return false };
        if !is_known || before.contains(')') || arguments.contains('(') {
            return false;
        }
        rest = behind;
    }
    !rest.contains(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permitted_declarations_stay() {
        let check = |style: &str, expected: &str| {
            assert_eq!(filter(style), expected, "{style}");
            assert_eq!(filter(expected), expected, "{style}");
        };
        check(" Color : RED ; margin:0  auto;", "color:RED;margin:0 auto");
        check("font-family: 'Times New Roman', serif", "font-family:'Times New Roman', serif");
        check("color: rgba(1, 2, 3, .5) !important", "color:rgba(1, 2, 3, .5) !important");
        check("border: 1px solid #abc; font-size: large", "border:1px solid #abc;font-size:large");
        check("font-family: Univers-55, x-2-y", "font-family:Univers-55, x-2-y");
    }

    #[test]
    fn everything_else_is_removed() {
        for style in [
            "background: url(https://evil.test/a)",
            "background-color: url(//evil.test)",
            "color: u\\72l(x)",
            "width: expression(alert(1))",
            "position: fixed",
            "z-index: 9",
            "margin-top: -500px",
            "margin: 0 -.5em",
            "margin: 0-500px",
            "margin: 0+1-.5e3px",
            "margin: 1%-5%",
            "color: red/**/",
            "color: red} body {color: blue",
            "behavior: x",
            "-moz-binding: x",
            "font-family: \"a",
            "color: var(--x)",
            "@import 'x'",
            "color: rgb(1",
            "color: x) rgb(1)",
            "width: calc(1px)",
        ] {
            assert_eq!(filter(style), "", "{style}");
        }
        assert_eq!(filter("color:red;background-image:url(x);width:1px"), "color:red;width:1px");
    }
}
