//! HTML of messages without anything active or remote.
//!
//! What stays is text with its look: paragraphs, lists, tables, colours, links, and images that are part of the
//! message. Scripts, handlers, forms, frames, foreign content (SVG, MathML), style sheets, metadata and everything
//! unknown are removed; images of other hosts are removed too, because loading them tells the sender that the message
//! was read. The parser is that of browsers (`html5ever`, through `ammonia`).
//!
//! The result is a fixed point: sanitizing it again changes nothing. Mutations that a second parser would make have
//! therefore happened already. HTML that has no fixed point after some passes is shown as its text.
//!
//! This is the first of three defences. The page with the result has a Content Security Policy that loads nothing and
//! executes nothing, in a sandbox of its own origin.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ammonia::{Builder, UrlRelative};
use mail::mime::text;

use crate::limits::{
    HTML_ATTRIBUTES_MAX, HTML_BYTES_MAX, HTML_ELEMENTS_MAX, HTML_PARSED_ELEMENTS_MAX, SANITIZER_PASSES_MAX,
    TAG_READS_MAX,
};
use crate::style_attribute;

/// The elements that stay.
const TAGS: [&str; 56] = [
    "a",
    "abbr",
    "address",
    "b",
    "bdi",
    "bdo",
    "big",
    "blockquote",
    "br",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "dd",
    "del",
    "dfn",
    "div",
    "dl",
    "dt",
    "em",
    "font",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "i",
    "img",
    "ins",
    "kbd",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "q",
    "s",
    "samp",
    "small",
    "span",
    "strike",
    "strong",
    "sub",
    "sup",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "tr",
    "u",
];

/// Further elements that stay.
const MORE_TAGS: [&str; 3] = ["tt", "ul", "var"];

/// The elements that are removed with their content.
const REMOVED_TAGS: [&str; 15] = [
    "script", "style", "title", "head", "template", "noscript", "iframe", "object", "svg", "math", "select",
    "textarea", "audio", "video", "noembed",
];

/// The elements with a look that parsers repeat in each paragraph (HTML standard, "formatting").
const FORMATTING_TAGS: [&str; 13] =
    ["b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// The attributes of all elements.
const ATTRIBUTES: [&str; 14] = [
    "align",
    "bgcolor",
    "border",
    "cellpadding",
    "cellspacing",
    "color",
    "dir",
    "face",
    "height",
    "lang",
    "size",
    "style",
    "valign",
    "width",
];

/// Returns `true` for the name of an element that stays.
pub(crate) fn is_permitted(element: &str) -> bool {
    TAGS.contains(&element) || MORE_TAGS.contains(&element)
}

/// Removes everything active and remote from HTML. `images` are the images of the message by their `Content-ID`, as
/// `data:` addresses.
#[must_use]
pub fn sanitize(html: &str, images: &Arc<HashMap<String, String>>) -> String {
    let html = &html[..html.floor_char_boundary(HTML_BYTES_MAX)];
    let builder = builder(images);
    if is_too_complex(html) {
        return as_text(&builder, html);
    }
    let mut current = builder.clean(html).to_string();
    for _ in 0..SANITIZER_PASSES_MAX {
        let next = builder.clean(&current).to_string();
        if next == current {
            return current;
        }
        current = next;
    }
    as_text(&builder, &current)
}

/// Removes everything active and remote from the parts of a message with HTML, from each on its own. The limits are
/// those of all together.
#[must_use]
pub fn sanitize_parts(parts: &[String], images: &Arc<HashMap<String, String>>) -> Vec<String> {
    let is_together_too_complex = parts.len() > 1 && is_too_complex(&parts.concat());
    let builder = builder(images);
    let clean = |html: &String| if is_together_too_complex { as_text(&builder, html) } else { sanitize(html, images) };
    parts.iter().map(clean).collect()
}

/// Returns the text of HTML, as HTML without elements.
fn as_text(builder: &Builder<'_>, html: &str) -> String {
    builder.clean(&ammonia::clean_text(&text::of_html(html))).to_string()
}

/// Returns `true` for HTML of which a parser would make far more than it is (a "bomb").
///
/// A parser repeats the open elements with a look, such as `<b>`, in each paragraph: at most three of each name and
/// attributes. So the number of all elements, times that of different elements with a look, bounds the result. `<a>` is
/// none of them, because it closes the one before. The count takes everything for an element that looks like one, so it
/// is never too small.
fn is_too_complex(html: &str) -> bool {
    let is_open_quote = |tag: &str| ['"', '\''].iter().any(|quote| tag.matches(*quote).count() % 2 == 1);
    let mut elements: usize = 0;
    let mut unlike: usize = 0;
    let mut known = HashSet::new();
    for piece in html.split('<').skip(1).filter(|piece| piece.starts_with(|c: char| c.is_ascii_alphabetic())) {
        elements += 1;
        let end = piece.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(piece.len());
        if FORMATTING_TAGS.iter().any(|tag| tag.eq_ignore_ascii_case(&piece[..end])) {
            let tag = piece.split('>').next().unwrap_or_default();
            unlike += usize::from(is_open_quote(tag) || known.insert(tag));
        }
    }
    elements > HTML_ELEMENTS_MAX
        || elements.saturating_mul(3 * unlike + 1) > HTML_PARSED_ELEMENTS_MAX
        || has_too_many_attributes(html)
}

/// Returns `true` if a tag may have so many attributes that comparing each with all others takes long, as the parser
/// does.
///
/// Every `<` before a letter is taken for the beginning of a tag, because a `<` in a quoted value is one if the parser
/// is not in a tag there. So the count is never too small. The bytes that are read again and again are limited.
fn has_too_many_attributes(html: &str) -> bool {
    let bytes = html.as_bytes();
    let mut left = bytes.len().saturating_mul(TAG_READS_MAX);
    for start in (0..bytes.len()).filter(|at| bytes[*at] == b'<') {
        let tag = &bytes[start + 1..];
        if !tag.first().is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let (attributes, length) = count_attributes(tag);
        if attributes > HTML_ATTRIBUTES_MAX || length > left {
            return true;
        }
        left -= length;
    }
    false
}

/// Returns the number of attributes of a tag and its length (HTML standard, sections 13.2.5.8 and 13.2.5.32 to 39). It
/// stops behind [`HTML_ATTRIBUTES_MAX`].
fn count_attributes(tag: &[u8]) -> (usize, usize) {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c);
    let skip = |from: usize, is_skipped: &dyn Fn(u8) -> bool| {
        tag[from..].iter().position(|byte| !is_skipped(*byte)).map_or(tag.len(), |length| from + length)
    };
    let mut attributes = 0;
    let mut at = skip(0, &|byte| !is_space(byte) && byte != b'/' && byte != b'>');
    while attributes <= HTML_ATTRIBUTES_MAX {
        at = skip(at, &|byte| is_space(byte) || byte == b'/');
        if at == tag.len() || tag[at] == b'>' {
            break;
        }
        attributes += 1;
        let name = skip(at + 1, &|byte| !is_space(byte) && !b"/>=".contains(&byte));
        at = skip(name, &is_space);
        if tag.get(at) != Some(&b'=') {
            continue;
        }
        at = skip(at + 1, &is_space);
        at = match tag.get(at) {
            Some(&quote @ (b'"' | b'\'')) => (skip(at + 1, &|byte| byte != quote) + 1).min(tag.len()),
            _ => skip(at, &|byte| !is_space(byte) && byte != b'>'),
        };
    }
    (attributes, at)
}

fn builder(images: &Arc<HashMap<String, String>>) -> Builder<'static> {
    let images = Arc::clone(images);
    let mut builder = Builder::empty();
    builder
        .tags(TAGS.into_iter().chain(MORE_TAGS).collect())
        .clean_content_tags(HashSet::from(REMOVED_TAGS))
        .generic_attributes(HashSet::from(ATTRIBUTES))
        .tag_attributes(HashMap::from([
            ("a", HashSet::from(["href", "title"])),
            ("img", HashSet::from(["src", "alt"])),
            ("td", HashSet::from(["colspan", "rowspan"])),
            ("th", HashSet::from(["colspan", "rowspan"])),
            ("ol", HashSet::from(["start", "type"])),
            ("ul", HashSet::from(["type"])),
        ]))
        .url_schemes(HashSet::from(["http", "https", "mailto", "data", "cid"]))
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow"))
        .strip_comments(true)
        .attribute_filter(move |element, attribute, value| filter_attribute((element, attribute), value, &images));
    builder
}

/// Returns the value of an attribute that stays.
fn filter_attribute<'v>(
    (element, attribute): (&str, &str),
    value: &'v str,
    images: &HashMap<String, String>,
) -> Option<Cow<'v, str>> {
    match (element, attribute) {
        ("a", "href") => is_link(value).then_some(Cow::Borrowed(value)),
        (_, "href") => None,
        ("img", "src") => match value.trim().strip_prefix("cid:") {
            Some(id) => {
                let id = percent_encoding::percent_decode_str(id).decode_utf8_lossy();
                images.get(id.as_ref()).map(|image| Cow::Owned(image.clone()))
            }
            None => is_image(value).then_some(Cow::Borrowed(value)),
        },
        (_, "src") => None,
        (_, "style") => Some(style_attribute::filter(value)).filter(|style| !style.is_empty()).map(Cow::Owned),
        _ => Some(Cow::Borrowed(value)),
    }
}

/// Returns `true` for an address to which a link may lead.
fn is_link(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let is_known = ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme));
    is_known && !value.chars().any(|c| c.is_control() || c.is_whitespace())
}

/// Returns `true` for an image whose bytes are in its address.
fn is_image(value: &str) -> bool {
    let kinds = ["png", "jpeg", "gif", "webp"];
    let data = kinds.iter().find_map(|kind| value.strip_prefix(&format!("data:image/{kind};base64,")));
    data.is_some_and(|data| {
        !data.is_empty() && data.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_counted_as_parsers_do() {
        let check =
            |tag: &str, expected: (usize, usize)| assert_eq!(count_attributes(tag.as_bytes()), expected, "{tag}");
        check("a>b c", (0, 1));
        check("a b c = d e=\"f > g\"h='i'/j/>k", (5, 27));
        check("a =b=c>", (1, 6));
        check("a b=>c", (1, 4));
        check("a b=\"never ends", (1, 15));
        check("a/b\n\tc", (2, 6));
        let many: String = (0..=HTML_ATTRIBUTES_MAX).map(|number| format!(" a{number}='>'")).collect();
        assert!(is_too_complex(&format!("<p{many}>")));
        assert!(is_too_complex(&format!("<textarea>\"<p{many}>")));
        assert!(is_too_complex(&format!("<i x=\"<p{}\">", many.replace('>', ""))));
        assert!(is_too_complex(&"<b".repeat(1_000)), "it would be read again and again");
        assert!(!is_too_complex(&"<p a=b c='d'>don't <b>x</b>".repeat(1_000)));
    }
}
