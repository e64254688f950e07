//! Conversion of HTML to plain text for search and previews.
//!
//! Tags are removed; block-level tags become a space. Comments, scripts, styles and the head are removed with their
//! content. Character references become characters. Every input is accepted: text that is not a tag is text. The
//! conversion is a single pass in linear time.

use mail_parser::decoders::html::add_html_token;

/// Elements that do not separate their text from the adjacent text.
const INLINE: [&str; 26] = [
    "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "del", "em", "font", "i", "ins", "kbd", "label", "mark",
    "q", "s", "small", "span", "strong", "sub", "sup", "tt", "u", "wbr",
];

/// Elements whose text is not displayed.
const HIDDEN: [&str; 5] = ["head", "script", "style", "template", "title"];

/// Maximum length of a character reference, in bytes.
const REFERENCE_BYTES_MAX: usize = 40;

/// Returns the text of an HTML document. Runs in linear time.
#[must_use]
pub fn to_text(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some(position) = memchr::memchr2(b'<', b'&', rest.as_bytes()) {
        let (before, from) = rest.split_at(position);
        text.push_str(before);
        let taken = if from.starts_with('<') { skip_tag(from, &mut text) } else { push_reference(from, &mut text) };
        rest = &from[taken..];
    }
    text.push_str(rest);
    text
}

/// Skips the tag at the beginning and the content that it hides. Returns the length of the skipped part.
fn skip_tag(html: &str, text: &mut String) -> usize {
    if let Some(comment) = html.strip_prefix("<!--") {
        return memchr::memmem::find(comment.as_bytes(), b"-->").map_or(html.len(), |end| end + 7);
    }
    let inside = &html[1..];
    let inside = inside.strip_prefix('/').unwrap_or(inside);
    if !inside.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '!' | '?')) {
        text.push('<');
        return 1;
    }
    let name_length = inside.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(inside.len());
    let name = &inside[..name_length];
    let is = |names: &[&str]| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    if !is(&INLINE) {
        text.push(' ');
    }
    let end = memchr::memchr(b'>', html.as_bytes()).map_or(html.len(), |end| end + 1);
    if html.starts_with("</") || !is(&HIDDEN) {
        return end;
    }
    end + hidden_length(&html[end..], name)
}

/// Returns the length of the content before the closing tag of a hidden element.
fn hidden_length(html: &str, name: &str) -> usize {
    let bytes = html.as_bytes();
    memchr::memmem::find_iter(bytes, b"</")
        .find(|start| {
            bytes
                .get(start + 2..start + 2 + name.len())
                .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        })
        .unwrap_or(html.len())
}

/// Appends the character of the reference at the beginning. Returns the length of the reference.
fn push_reference(html: &str, text: &mut String) -> usize {
    let window = html.as_bytes().get(..REFERENCE_BYTES_MAX).unwrap_or(html.as_bytes());
    let end =
        window.iter().skip(1).position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'#')).map(|end| end + 1);
    match end {
        Some(end) if end > 1 && window[end] == b';' => {
            add_html_token(text, &window[..=end], false);
            end + 1
        }
        _ => {
            text.push('&');
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_text_is_extracted() {
        let check = |html: &str, expected: &str| {
            let text = to_text(html);
            assert_eq!(text.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{html}");
        };
        check("<p>Hello</p><p>W<b>or</b>ld</p>", "Hello World");
        check("<html><head><title>no</title><style>p{}</style></head><body>yes</body></html>", "yes");
        check("<SCRIPT>if (a < b) {}</script>after", "after");
        check("a<!-- <p>no --> b", "a b");
        check("M&uuml;ller &amp; S&#246;hne &#x41; &nosuch; &", "M\u{fc}ller & S\u{f6}hne A &nosuch; &");
        check("1 < 2 <3 <", "1 < 2 <3 <");
        check("a<br>b<br/>c", "a b c");
        check("<style>never closed", "");
        check("text <a href=\"x", "text");
        check("<td>1</td><td>2</td>", "1 2");
        check("&#99999999999; &#xD800; \u{e9}&\u{e9};", "&#99999999999; \u{fffd} \u{e9}&\u{e9};");
    }
}
