//! A tokenizer of HTML: tags with attributes, and text, as the standard has it, as far as pages with forms need it.
//!
//! Comments and declarations are skipped. The content of `script`, `style` and similar elements, of `title` and of
//! `textarea` has no tags. Of the named character references only those are known that pages need to write any text;
//! others remain as they are. A script with a comment that contains a script is not read as the standard does.

use std::borrow::Cow;

/// Maximum number of attributes of a tag; further ones are dropped.
const ATTRIBUTES_MAX: usize = 64;
/// Elements whose content is raw text, and those in which only character references are replaced.
const RAW_TEXT: [&str; 6] = ["script", "style", "xmp", "iframe", "noembed", "noframes"];
const REPLACED_TEXT: [&str; 2] = ["title", "textarea"];
/// The named character references.
const REFERENCES: [(&str, char); 6] =
    [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", '\u{a0}')];
/// Maximum length of a character reference.
const REFERENCE_BYTES_MAX: usize = 10;

/// A token of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A start tag.
    Start(StartTag<'t>),
    /// The name of an end tag, in lower case.
    End(String),
    /// Text, whose character references are replaced.
    Text(Cow<'t, str>),
}

/// A start tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StartTag<'t> {
    /// Its name in lower case.
    pub(super) name: String,
    attributes: Vec<(String, Cow<'t, str>)>,
}

impl StartTag<'_> {
    /// Returns the value of an attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns `true` if the tag has an attribute.
    pub(super) fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }
}

/// The tokens of a page.
pub(super) struct Tokens<'t> {
    rest: &'t str,
    /// The element whose content is text.
    text_of: Option<String>,
}

impl<'t> Tokens<'t> {
    /// Creates the tokens of a page, whose lines end in LF.
    pub(super) fn new(page: &'t str) -> Self {
        Self { rest: page, text_of: None }
    }

    /// Takes the text up to the end tag of an element with text alone.
    fn take_element_text(&mut self, name: &str) -> Option<Token<'t>> {
        let (text, rest) = self.rest.split_at(end_tag_of(self.rest, name));
        self.rest = rest;
        let is_raw = RAW_TEXT.contains(&name);
        (!text.is_empty()).then(|| Token::Text(if is_raw { Cow::Borrowed(text) } else { replaced(text) }))
    }

    /// Takes what begins with `<`: a tag, or `None` if nothing is left of it.
    fn take_markup(&mut self) -> Option<Token<'t>> {
        let after = &self.rest[1..];
        let is_name = |text: &str| text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if let Some(comment) = after.strip_prefix("!--") {
            self.rest = after_comment(comment);
            return None;
        }
        if is_name(after) {
            let (tag, rest) = read_tag(after)?;
            self.rest = rest;
            if RAW_TEXT.contains(&&*tag.name) || REPLACED_TEXT.contains(&&*tag.name) {
                self.text_of = Some(tag.name.clone());
            }
            return Some(Token::Start(tag));
        }
        if after.strip_prefix('/').is_some_and(is_name) {
            let (tag, rest) = read_tag(&after[1..])?;
            self.rest = rest;
            return Some(Token::End(tag.name));
        }
        if after == "/" {
            self.rest = "";
            return Some(Token::Text(Cow::Borrowed("</")));
        }
        if after.starts_with(['!', '?', '/']) {
            self.rest = after.split_once('>').map_or("", |(_, rest)| rest);
            return None;
        }
        self.rest = after;
        Some(Token::Text(Cow::Borrowed("<")))
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        while !self.rest.is_empty() {
            if let Some(name) = self.text_of.take() {
                if let Some(text) = self.take_element_text(&name) {
                    return Some(text);
                }
                continue;
            }
            if !self.rest.starts_with('<') {
                let (text, rest) = self.rest.split_at(self.rest.find('<').unwrap_or(self.rest.len()));
                self.rest = rest;
                return Some(Token::Text(replaced(text)));
            }
            let before = self.rest.len();
            if let Some(token) = self.take_markup() {
                return Some(token);
            }
            if self.rest.len() == before {
                // A tag without end is dropped with what follows.
                self.rest = "";
            }
        }
        None
    }
}

/// Returns where the end tag of an element begins, or the length of the text.
fn end_tag_of(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(found) = text[from..].find("</") {
        let begin = from + found;
        let after = &text.as_bytes()[begin + 2..];
        let is_name = after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()));
        if is_name && after.get(name.len()).is_some_and(|byte| is_space(*byte) || b"/>".contains(byte)) {
            return begin;
        }
        from = begin + 2;
    }
    text.len()
}

/// Returns what follows a comment, whose beginning was taken.
fn after_comment(comment: &str) -> &str {
    for empty in [">", "->"] {
        if let Some(rest) = comment.strip_prefix(empty) {
            return rest;
        }
    }
    // One search for both ends: one for each would read the rest of the page for each comment with the other end.
    let mut rest = comment;
    while let Some(begin) = rest.find("--") {
        let after = &rest[begin + 2..];
        if let Some(after) = after.strip_prefix('>').or_else(|| after.strip_prefix("!>")) {
            return after;
        }
        rest = &rest[begin + 1..];
    }
    ""
}

/// Reads a tag from its name on. Returns `None` if it has no end.
fn read_tag(text: &str) -> Option<(StartTag<'_>, &str)> {
    let (name, mut rest) = text.split_at(text.find(|c: char| is_space_char(c) || c == '/' || c == '>')?);
    let mut tag = StartTag { name: name.to_ascii_lowercase(), attributes: Vec::new() };
    loop {
        rest = rest.trim_start_matches(|c: char| is_space_char(c) || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return Some((tag, after));
        }
        let (name, value, after) = read_attribute(rest)?;
        rest = after;
        if tag.attributes.len() < ATTRIBUTES_MAX && !tag.has(&name) {
            tag.attributes.push((name, value));
        }
    }
}

/// Reads an attribute. Returns `None` if the tag has no end.
fn read_attribute(text: &str) -> Option<(String, Cow<'_, str>, &str)> {
    let first = text.chars().next()?.len_utf8();
    let is_end = |c: char| is_space_char(c) || "/>=".contains(c);
    let end = first + text[first..].find(is_end)?;
    let name = text[..end].to_ascii_lowercase();
    let rest = text[end..].trim_start_matches(is_space_char);
    let Some(value) = rest.strip_prefix('=') else { return Some((name, Cow::Borrowed(""), rest)) };
    let value = value.trim_start_matches(is_space_char);
    for quote in ['"', '\''] {
        if let Some(quoted) = value.strip_prefix(quote) {
            let (value, rest) = quoted.split_once(quote)?;
            return Some((name, replaced(value), rest));
        }
    }
    let end = value.find(|c: char| is_space_char(c) || c == '>')?;
    Some((name, replaced(&value[..end]), &value[end..]))
}

fn is_space(byte: u8) -> bool {
    b" \t\n\x0c".contains(&byte)
}

fn is_space_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_space)
}

/// Replaces character references.
fn replaced(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find('&') {
        result.push_str(&rest[..begin]);
        rest = &rest[begin + 1..];
        let end = rest.bytes().take(REFERENCE_BYTES_MAX).position(|byte| byte == b';');
        match end.and_then(|end| Some((referenced(&rest[..end])?, end))) {
            Some((character, end)) => {
                result.push(character);
                rest = &rest[end + 1..];
            }
            None => result.push('&'),
        }
    }
    result.push_str(rest);
    Cow::Owned(result)
}

fn referenced(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return REFERENCES.iter().find(|(known, _)| *known == name).map(|(_, character)| *character);
    };
    let (digits, radix) = number.strip_prefix(['x', 'X']).map_or((number, 10), |digits| (digits, 16));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u32::from_str_radix(digits, radix).ok().filter(|value| is_number && *value > 0);
    value.and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use html5gum::emitters::default::DefaultEmitter;
    use html5gum::{Token as OtherToken, Tokenizer};
    use proptest::prelude::*;

    use super::*;

    /// Writes tokens, so that they can be compared. Adjacent texts are one.
    fn written(tokens: impl Iterator<Item = (char, String)>) -> String {
        let mut written = String::new();
        let mut last = ' ';
        for (kind, text) in tokens {
            if kind != 't' || last != 't' {
                written.push(kind);
                written.push(':');
            }
            written.push_str(&text);
            last = kind;
        }
        written
    }

    fn ours(page: &str) -> String {
        written(Tokens::new(page).map(|token| match token {
            Token::Start(tag) => {
                let mut attributes: Vec<String> =
                    tag.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
                attributes.sort();
                ('s', format!("{} {attributes:?}", tag.name))
            }
            Token::End(name) => ('e', name),
            Token::Text(text) => ('t', text.into_owned()),
        }))
    }

    /// Writes the tokens of a tokenizer that others have written from the standard.
    fn theirs(page: &str) -> String {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        written(Tokenizer::new_with_emitter(page, emitter).filter_map(|token| match token.expect("no I/O") {
            OtherToken::StartTag(tag) => {
                let mut attributes: Vec<String> =
                    tag.attributes.iter().map(|(name, value)| format!("{}={}", text(name), text(value))).collect();
                attributes.sort();
                Some(('s', format!("{} {attributes:?}", text(&tag.name))))
            }
            OtherToken::EndTag(tag) => Some(('e', text(&tag.name))),
            OtherToken::String(string) => Some(('t', text(&string))),
            _ => None,
        }))
    }

    #[test]
    fn tags_and_texts_are_found() {
        let page = "<!DOCTYPE html><P Class=a id='b c'>1 &lt; 2 &#38;&#x26; &unknown; & <br/>\
            <textarea name=\"t\"><b>&amp;</textarea></p x><!-- <a> --><1>";
        let expected = "s:p [\"class=a\", \"id=b c\"]t:1 < 2 && &unknown; & s:br []s:textarea [\"name=t\"]t:<b>&\
            e:textareae:pt:<1>";
        assert_eq!(ours(page), expected);
    }

    #[test]
    fn broken_pages_are_read_to_their_end() {
        for (page, expected) in [
            ("<a", ""),
            ("<a href=\"x", ""),
            ("x<", "t:x<"),
            ("<!-- x", ""),
            ("<!-->x", "t:x"),
            ("<!--a--!>x<!--b--->y<!---- >--!->-->z", "t:xyz"),
            ("<!--a-->x--!><!--b--!>y-->", "t:x--!>y-->"),
            ("</>x</ b>y", "t:xy"),
            ("<title>a</titlex></title >b", "s:title []t:a</titlex>e:titlet:b"),
            ("<a a=1 A=2 =x=y>", "s:a [\"=x=y\", \"a=1\"]"),
            ("<a b=>c", "s:a [\"b=\"]t:c"),
            ("&#0;&#xd800;&#x;&;", "t:&#0;&#xd800;&#x;&;"),
        ] {
            assert_eq!(ours(page), expected, "{page}");
        }
        let many: String = (0..1_000).map(|number| format!(" a{number}")).collect();
        let page = format!("<a{many}>");
        let Some(Token::Start(tag)) = Tokens::new(&page).next() else { panic!("a tag") };
        assert_eq!(tag.attributes.len(), ATTRIBUTES_MAX);
    }

    /// Pieces of pages.
    fn pieces() -> impl Strategy<Value = String> {
        let pieces = [
            "<a",
            "<b>",
            "<p ",
            "</",
            "</a>",
            "</p",
            "<",
            ">",
            "/",
            "=",
            "\"",
            "'",
            " ",
            "\n",
            "x",
            "Y",
            "é",
            "&amp;",
            "&lt;",
            "&#65;",
            "&#x42;",
            "<!--",
            "-->",
            "--",
            "!",
            "?",
            "-",
            " href=\"u\"",
            " name='n'",
            "<textarea>",
            "</textarea>",
            "<title>",
            "</title>",
            "<style>",
            "</style>",
            "<input type=checkbox checked>",
            "<!DOCTYPE html>",
        ];
        proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn pages_have_the_tokens_of_the_standard(page in pieces()) {
            prop_assert_eq!(ours(&page), theirs(&page));
        }

        #[test]
        fn any_text_is_read_to_its_end(page in "\\PC{0,200}") {
            for token in Tokens::new(&page) {
                if let Token::Text(text) = token {
                    prop_assert!(text.len() <= page.len());
                }
            }
        }
    }
}
