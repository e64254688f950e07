//! Conversion of HTML to plain text for search and previews.
//!
//! Tags are removed; block-level tags become a space. Comments, scripts, styles and the head are removed with their
//! content. Character references become characters. Every input is accepted: text that is not a tag is text. The
//! conversion is a single pass in linear time. A document may come in pieces ([`HtmlReader`]).

use std::borrow::Cow;
use std::ops::ControlFlow;

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

/// Number of bytes after a `<` or `&` that determine its meaning: a comment, a tag of a known name, or a reference.
const LOOKAHEAD_BYTES: usize = REFERENCE_BYTES_MAX + 8;

/// Returns the text of an HTML document. Runs in linear time.
#[must_use]
pub fn to_text(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    HtmlReader::default().read(html, true, &mut text);
    text
}

/// Converts an HTML document that comes in pieces. The result is the same as that of [`to_text`] for the whole
/// document.
#[derive(Debug, Clone, Default)]
pub struct HtmlReader {
    place: HtmlPlace,
    /// The end of the previous piece that can only be interpreted together with the next one.
    held: String,
}

/// The place in a document up to which it has been read.
#[derive(Debug, Clone, Copy, Default)]
enum HtmlPlace {
    /// Displayed text.
    #[default]
    Text,
    /// The inside of a tag. The tag may hide the content of an element with this name.
    Tag(Option<&'static str>),
    /// The inside of a comment.
    Comment,
    /// The content of an element with this name, which is not displayed.
    Hidden(&'static str),
}

impl HtmlReader {
    /// Appends the text of the next piece, as far as it does not depend on the piece after it.
    pub fn push(&mut self, piece: &str, text: &mut String) {
        let joined = match self.held.is_empty() {
            true => Cow::Borrowed(piece),
            false => Cow::Owned(std::mem::take(&mut self.held) + piece),
        };
        let length = self.read(&joined, false, text);
        self.held.push_str(&joined[length..]);
    }

    /// Appends the rest of the text at the end of the document. Another document may follow.
    pub fn finish(&mut self, text: &mut String) {
        let rest = std::mem::take(&mut self.held);
        self.read(&rest, true, text);
        self.place = HtmlPlace::Text;
    }

    /// Reads a part of a document. Returns the length of the part that was read. It is the whole part if the part is
    /// the last one.
    fn read(&mut self, html: &str, is_last: bool, text: &mut String) -> usize {
        let mut position = 0;
        while position < html.len() {
            let rest = &html[position..];
            let step = match self.place {
                HtmlPlace::Text => self.read_text(rest, is_last, text),
                HtmlPlace::Tag(hides) => ControlFlow::Continue(self.skip_tag(rest, hides)),
                HtmlPlace::Comment => self.skip_comment(rest, is_last),
                HtmlPlace::Hidden(name) => self.skip_hidden(rest, name, is_last),
            };
            match step {
                ControlFlow::Continue(length) => position += length,
                ControlFlow::Break(length) => return position + length,
            }
        }
        position
    }

    /// Reads text up to and including the beginning of the next tag, or the next reference. Returns its length. Breaks
    /// if its end can only be interpreted together with the next piece.
    fn read_text(&mut self, html: &str, is_last: bool, text: &mut String) -> ControlFlow<usize, usize> {
        let Some(position) = memchr::memchr2(b'<', b'&', html.as_bytes()) else {
            text.push_str(html);
            return ControlFlow::Continue(html.len());
        };
        let (before, from) = html.split_at(position);
        text.push_str(before);
        if !is_last && from.len() < LOOKAHEAD_BYTES {
            return ControlFlow::Break(position);
        }
        let length = if from.starts_with('<') { self.begin_tag(from, text) } else { push_reference(from, text) };
        ControlFlow::Continue(position + length)
    }

    /// Reads the beginning of the comment or tag at the start. Returns its length.
    fn begin_tag(&mut self, html: &str, text: &mut String) -> usize {
        const COMMENT: &str = "<!--";
        if html.starts_with(COMMENT) {
            self.place = HtmlPlace::Comment;
            return COMMENT.len();
        }
        let inside = &html[1..];
        let is_closing = inside.starts_with('/');
        let inside = inside.strip_prefix('/').unwrap_or(inside);
        if !inside.starts_with(|first: char| first.is_ascii_alphabetic() || matches!(first, '!' | '?')) {
            text.push('<');
            return 1;
        }
        let name_length = inside.bytes().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(inside.len());
        let name = &inside[..name_length];
        if !INLINE.iter().any(|inline| inline.eq_ignore_ascii_case(name)) {
            text.push(' ');
        }
        let hidden = HIDDEN.iter().copied().find(|hidden| hidden.eq_ignore_ascii_case(name));
        self.place = HtmlPlace::Tag(hidden.filter(|_| !is_closing));
        1
    }

    /// Skips a tag up to its end, which any `>` is. Returns the length of the skipped part.
    fn skip_tag(&mut self, html: &str, hides: Option<&'static str>) -> usize {
        let Some(end) = memchr::memchr(b'>', html.as_bytes()) else { return html.len() };
        self.place = hides.map_or(HtmlPlace::Text, HtmlPlace::Hidden);
        end + 1
    }

    /// Skips a comment up to its end. Returns the length of the skipped part. Breaks if the end may be in the next
    /// piece.
    fn skip_comment(&mut self, html: &str, is_last: bool) -> ControlFlow<usize, usize> {
        const END: &str = "-->";
        match memchr::memmem::find(html.as_bytes(), END.as_bytes()) {
            Some(end) => {
                self.place = HtmlPlace::Text;
                ControlFlow::Continue(end + END.len())
            }
            None if is_last => ControlFlow::Continue(html.len()),
            None => ControlFlow::Break(html.floor_char_boundary(html.len().saturating_sub(END.len() - 1))),
        }
    }

    /// Skips the content before the closing tag of a hidden element. Returns the length of the skipped part. Breaks if
    /// the closing tag may be in the next piece.
    fn skip_hidden(&mut self, html: &str, name: &'static str, is_last: bool) -> ControlFlow<usize, usize> {
        let bytes = html.as_bytes();
        let closing_length = name.len() + 2;
        let is_closing = |start: &usize| {
            let found = bytes.get(start + 2..start + closing_length);
            found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        };
        match memchr::memmem::find_iter(bytes, b"</").find(is_closing) {
            Some(start) => {
                self.place = HtmlPlace::Text;
                ControlFlow::Continue(start)
            }
            None if is_last => ControlFlow::Continue(html.len()),
            None => ControlFlow::Break(html.floor_char_boundary(html.len().saturating_sub(closing_length - 1))),
        }
    }
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

    #[test]
    fn pieces_are_converted_like_the_whole_document() {
        let html = "<html><HEAD><title>no</title></HEAD>a<!-- \u{e9} -- > <p> -->b&uuml;c &amp; &nosuch; & <3 \
            <script>x</scrip </script y>d<style></style>e<br/><x-long-name-of-an-element attribute=\"\u{e9}>\">f</b>\
            <template>\u{4e2d}</template>&#x41;&#99999999999;<";
        let characters: Vec<char> = html.chars().collect();
        for length in 1..=characters.len() {
            let mut reader = HtmlReader::default();
            let mut text = String::new();
            for piece in characters.chunks(length) {
                reader.push(&piece.iter().collect::<String>(), &mut text);
                assert!(reader.held.len() <= LOOKAHEAD_BYTES + length * 4);
            }
            reader.finish(&mut text);
            assert_eq!(text, to_text(html), "in pieces of {length}");
        }
        for open in ["a <script>b", "a <!-- b", "a <b", "a &am"] {
            let mut reader = HtmlReader::default();
            let mut text = String::new();
            for document in [open, "c"] {
                reader.push(document, &mut text);
                reader.finish(&mut text);
            }
            assert_eq!(text, to_text(open) + "c");
        }
    }
}
