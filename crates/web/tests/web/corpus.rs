//! The corpus of hostile messages: `tests/data/hostile.txt`, whose head describes its format.
//!
//! `conformance/web/corpus.py` reads the same file for the browser. Its last line has the number of messages and of
//! their bytes, so that both readers make the same messages of it.

use std::fmt::Write as _;

const FILE: &str = include_str!("../data/hostile.txt");

/// A hostile message.
pub struct HostileMessage {
    /// The class.
    pub class: &'static str,
    /// The line of the file.
    pub line: &'static str,
    /// The bytes.
    pub raw: Vec<u8>,
    /// The HTML that the line contains.
    pub html: Vec<String>,
}

/// Returns all messages.
pub fn messages() -> Vec<HostileMessage> {
    let mut found = Vec::new();
    let mut class = "";
    for line in FILE.lines().filter(|line| !line.is_empty() && !line.starts_with('#') && !line.starts_with('=')) {
        if let Some(name) = line.strip_prefix('[') {
            class = name.trim_end_matches(']');
            continue;
        }
        for template in templates(line) {
            let number = found.len() + 1;
            found.push(message(class, line, number, &template));
        }
    }
    let end = format!("= {} messages, {} bytes", found.len(), found.iter().map(|one| one.raw.len()).sum::<usize>());
    assert_eq!(FILE.lines().last(), Some(end.as_str()), "the last line of the corpus");
    found
}

/// A message with placeholders.
struct Template {
    text: String,
    html: Vec<String>,
}

/// Returns the messages of a line.
fn templates(line: &str) -> Vec<Template> {
    let (kind, content) = line.split_once(' ').unwrap_or((line, ""));
    let parts: Vec<&str> = content.split(" | ").collect();
    match (kind, parts.as_slice()) {
        ("html", _) => vec![of_html(content)],
        ("url", _) => vec![
            of_html(&format!("<a href=\"{content}\">x</a>")),
            of_html(&format!("<img src=\"{content}\">")),
            of_html(&format!(
                "<iframe src=\"{content}\"></iframe><form action=\"{content}\"><button formaction=\"{content}\">x\
                 </button></form><svg><a xlink:href=\"{content}\"><text>x</text></a></svg><object data=\"{content}\">\
                 </object><area href=\"{content}\"><table background=\"{content}\"></table><video poster=\"{content}\">"
            )),
        ],
        ("style", _) => vec![
            of_html(&format!("<div style=\"{}\">x</div>", content.replace('"', "&quot;"))),
            of_html(&format!("<style>div{{{content}}}</style><div>x</div>")),
        ],
        ("file", [fields, content]) => {
            let part = format!("{fields}\\n\\n{content}");
            let text = "Content-Type: text/plain\\n\\nhostile {n}";
            vec![Template { text: multipart("mixed", &[text, &part]), html: Vec::new() }]
        }
        ("related", [html, fields, content]) => {
            let first = format!("Content-Type: text/html\\n\\n{html}");
            let part = format!("{fields}\\n\\n{content}");
            vec![Template { text: multipart("related", &[&first, &part]), html: vec![(*html).to_owned()] }]
        }
        ("split", [first, part, last]) => {
            let html = [first, last].map(|html| format!("Content-Type: text/html\\n\\n{html}"));
            let text = multipart("mixed", &[&html[0], part, &html[1]]);
            vec![Template { text, html: vec![(*first).to_owned(), (*last).to_owned()] }]
        }
        ("head", _) => {
            let text = format!("{content}\\nContent-Type: text/plain; charset=utf-8\\n\\nhostile {{n}}\\n");
            vec![Template { text, html: Vec::new() }]
        }
        ("raw", _) => vec![Template { text: content.to_owned(), html: Vec::new() }],
        _ => panic!("a line of the corpus has a known kind and all parts: {line}"),
    }
}

const HEAD: &str =
    "From: Mallory <m@{h}>\\nTo: ann@acme.test\\nSubject: {n} hostile\\nMessage-ID: <{n}@canary.test>\\n";

fn of_html(html: &str) -> Template {
    let text = format!("{HEAD}Content-Type: text/html; charset=utf-8\\n\\n{html}\\n");
    Template { text, html: vec![html.to_owned()] }
}

fn multipart(kind: &str, parts: &[&str]) -> String {
    let mut text = format!("{HEAD}Content-Type: multipart/{kind}; boundary=outer\\n\\n");
    for part in parts {
        write!(text, "--outer\\n{part}\\n").expect("texts take everything");
    }
    text + "--outer--\\n"
}

fn message(class: &'static str, line: &'static str, number: usize, template: &Template) -> HostileMessage {
    let filled = |text: &str| {
        let host = format!("c{number}.canary.test");
        let text = text.replace("{u}", &format!("http://{host}/{number}")).replace("{h}", &host);
        unescaped(&text.replace("{n}", &number.to_string()))
    };
    let html = template.html.iter().map(|html| String::from_utf8_lossy(&filled(html)).into_owned()).collect();
    HostileMessage { class, line, raw: filled(&template.text), html }
}

/// Returns the bytes of a text with escapes.
fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let mut length = 1;
        match behind.as_bytes().first() {
            Some(b'n') => bytes.extend_from_slice(b"\r\n"),
            Some(b'r') => bytes.push(b'\r'),
            Some(b'l') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'0') => bytes.push(0),
            Some(b'\\') => bytes.push(b'\\'),
            Some(b'x') => {
                bytes.push(u8::from_str_radix(&behind[1..3], 16).expect("two hexadecimal digits"));
                length = 3;
            }
            Some(b'u') => {
                length = behind.find('}').expect("a closed escape") + 1;
                let code = u32::from_str_radix(&behind[2..length - 1], 16).expect("hexadecimal digits");
                let character = char::from_u32(code).expect("a character");
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => panic!("an escape of the corpus is known: {text}"),
        }
        rest = &behind[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
