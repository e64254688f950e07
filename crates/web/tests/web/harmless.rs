//! Checks that HTML has nothing active or remote, with parsers that are not the sanitizer's.
//!
//! Sanitized HTML is in a strict form that every parser reads alike: [`check_strictly`] reads nothing but that form.
//! The tokenizer `html5gum`, which implements the standard of HTML independently, must see the same elements in it and
//! no error. Pages of the web mail are read with the tokenizer alone.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{Token, Tokenizer};

/// A start tag: its name, and its attributes with their values.
type Tag = (String, Vec<(String, String)>);

/// The elements that may be in sanitized HTML.
const ELEMENTS: &str = " a abbr address b bdi bdo big blockquote br caption center cite code col colgroup dd del dfn \
    div dl dt em font h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strike strong sub sup \
    table tbody td tfoot th thead tr u tt ul var ";

/// The attributes that may be in sanitized HTML.
const ATTRIBUTES: &str = " align bgcolor border cellpadding cellspacing color dir face height lang size style valign \
    width href title src alt colspan rowspan start type rel ";

/// The elements of the document around sanitized HTML.
const FRAME_ELEMENTS: &str = " html head meta title body ";

/// The elements of pages.
const PAGE_ELEMENTS: &str = " html head meta title link body a header nav form input button main h1 h2 div p dl dt dd \
    section pre ul li bdi table caption thead tbody tr th td fieldset legend label select option textarea footer span ";

/// Attributes that run or load something, or lead elsewhere. Pages have none of them.
const ACTIVE_ATTRIBUTES: &str = " style src srcset srcdoc formaction http-equiv target ping background poster data \
    xlink:href action-xhr manifest autofocus ";

/// The relation of links to other sites.
const LINK_RELATION: &str = "noopener noreferrer nofollow";

fn is_in(list: &str, name: &str) -> bool {
    !name.contains(' ') && list.contains(&format!(" {name} "))
}

fn value<'t>(attributes: &'t [(String, String)], name: &str) -> Option<&'t str> {
    attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Checks a page of the lite web mail.
pub fn check_page(page: &str) {
    for (name, attributes) in tags(page) {
        assert!(is_in(PAGE_ELEMENTS, &name), "element {name} in {page}");
        for (attribute, value) in &attributes {
            let is_active = attribute.starts_with("on") || is_in(ACTIVE_ATTRIBUTES, attribute);
            assert!(!is_active, "{name} {attribute}={value} in {page}");
        }
        let is_own = |address: &str| ["/lite/", "?", "#main"].iter().any(|start| address.starts_with(start));
        let is_permitted = match (name.as_str(), value(&attributes, "href"), value(&attributes, "action")) {
            ("a", Some(address), None) if is_own(address) => true,
            ("a", Some(address), None) => {
                let is_web = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
                is_web && value(&attributes, "rel") == Some(LINK_RELATION)
            }
            ("link", Some(address), None) => {
                value(&attributes, "rel") == Some("stylesheet") && address.starts_with("/lite/style/")
            }
            ("form", None, Some(address)) => address.starts_with("/lite/"),
            (_, None, None) => true,
            _ => false,
        };
        assert!(is_permitted, "{name} {attributes:?} in {page}");
    }
}

/// Checks the document with the look of a message.
pub fn check_document(document: &str) {
    for (name, attributes) in tags(document) {
        if is_in(FRAME_ELEMENTS, &name) {
            let permitted = ["lang", "charset", "name", "content", "dir"];
            let is_permitted = attributes.iter().all(|(attribute, _)| permitted.contains(&attribute.as_str()));
            assert!(is_permitted, "{name} {attributes:?} in {document}");
        } else {
            check_tag(&name, &attributes, document);
        }
    }
}

/// Checks sanitized HTML: every parser reads it alike, and finds nothing active or remote.
pub fn check_fragment(clean: &str) {
    let seen = tags(clean);
    assert_eq!(check_strictly(clean), seen, "two parsers read {clean:?}");
    for (name, attributes) in seen {
        check_tag(&name, &attributes, clean);
    }
}

fn check_tag(name: &str, attributes: &[(String, String)], clean: &str) {
    assert!(is_in(ELEMENTS, name), "element {name} in {clean}");
    for (attribute, value) in attributes {
        assert!(is_in(ATTRIBUTES, attribute), "{attribute} in {clean}");
        let is_permitted = match attribute.as_str() {
            "href" => {
                let lower = value.to_ascii_lowercase();
                name == "a" && ["http://", "https://", "mailto:"].iter().any(|scheme| lower.starts_with(scheme))
            }
            "src" => {
                let kinds = ["png", "jpeg", "gif", "webp"].map(|kind| format!("data:image/{kind};base64,"));
                name == "img" && kinds.iter().any(|kind| value.starts_with(kind))
            }
            "rel" => value == LINK_RELATION,
            "style" => is_harmless_style(value),
            _ => true,
        };
        assert!(is_permitted, "{attribute}={value} in {clean}");
    }
    if name == "a" && attributes.iter().any(|(attribute, _)| attribute == "href") {
        assert_eq!(value(attributes, "rel"), Some(LINK_RELATION), "{clean}");
    }
}

/// Returns `true` for a style that loads nothing and leaves its place nowhere.
fn is_harmless_style(style: &str) -> bool {
    let lower = style.to_ascii_lowercase();
    let forbidden = [
        "url",
        "image",
        "src(",
        "var(",
        "attr(",
        "env(",
        "calc",
        "expression",
        "position",
        "z-index",
        "float",
        "transform:",
        "inset",
        "behavior",
        "binding",
        "animation",
        "content",
        "filter",
        "\\",
        "/*",
        "@",
        "<",
        "{",
        "}",
        "--",
    ];
    !forbidden.iter().any(|part| lower.contains(part)) && !has_negative_length(&lower)
}

/// Returns `true` if a number of a style is negative: a minus sign before a digit that no word precedes.
fn has_negative_length(style: &str) -> bool {
    let words = style.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.' && c != '+');
    words.filter(|word| !word.starts_with(|c: char| c.is_ascii_alphabetic())).any(|word| {
        word.match_indices('-').any(|(at, _)| word[at + 1..].starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    })
}

/// Reads HTML with `html5gum`, and returns the start tags.
fn tags(html: &str) -> Vec<Tag> {
    let mut emitter = DefaultEmitter::<()>::default();
    emitter.naively_switch_states(true);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("pages are UTF-8");
    let mut found = Vec::new();
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let attributes = tag.attributes.iter().map(|(name, value)| (text(name), text(value)));
                found.push((text(&tag.name), attributes.collect()));
            }
            Token::EndTag(_) | Token::String(_) => {}
            Token::Doctype(doctype) => assert_eq!(text(&doctype.name), "html", "{html}"),
            Token::Comment(comment) => panic!("a comment {:?} in {html}", text(&comment)),
            // Characters without a shape are no markup, and the standard of HTML calls them errors.
            Token::Error(error) if error.value.as_str().ends_with("in-input-stream") => {}
            Token::Error(error) => panic!("{} in {html}", error.value),
        }
    }
    found
}

/// Reads the only form that sanitized HTML has: elements in small letters, all values in double quotes, no comments,
/// and no other `<` or `>`. Returns the start tags.
fn check_strictly(html: &str) -> Vec<Tag> {
    let mut found = Vec::new();
    let mut pieces = html.split('<');
    assert!(!pieces.next().unwrap_or_default().contains('>'), "a text with > in {html}");
    for piece in pieces {
        let (tag, text) = split_tag(piece);
        assert!(!text.contains('>'), "a text with > in {html}");
        let name_end = tag.find(' ').unwrap_or(tag.len());
        let name = tag[..name_end].strip_prefix('/').unwrap_or(&tag[..name_end]);
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        assert!(is_name, "an element {name:?} in {html}");
        let mut attributes = Vec::new();
        let mut rest = &tag[name_end..];
        while let Some(attribute) = rest.strip_prefix(' ') {
            let (name, value) = attribute.split_once("=\"").expect("a value in quotes");
            let (value, behind) = value.split_once('"').expect("a closed value");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name} in {html}");
            attributes.push((name.to_owned(), plain(value)));
            rest = behind;
        }
        assert_eq!(rest, "", "the end of a tag in {html}");
        if !tag.starts_with('/') {
            attributes.sort();
            found.push((name.to_owned(), attributes));
        }
    }
    found
}

/// Returns a tag without its `>`, and the text behind it. A `>` within quotes does not end the tag.
fn split_tag(piece: &str) -> (&str, &str) {
    let mut is_quoted = false;
    let end = piece.find(|c: char| {
        is_quoted ^= c == '"';
        c == '>' && !is_quoted
    });
    let end = end.unwrap_or_else(|| panic!("a tag without an end: {piece}"));
    (&piece[..end], &piece[end + 1..])
}

/// Returns a value of an attribute without the character references that the sanitizer writes.
fn plain(value: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&nbsp;", "\u{a0}"), ("&amp;", "&")];
    pairs.iter().fold(value.to_owned(), |text, (reference, plain)| text.replace(reference, plain))
}
