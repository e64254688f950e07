//! Lists of addresses in header fields (RFC 5322 §3.4, and the deviations of real fields).
//!
//! Texts are returned as the sender wrote them, without quotes, backslashes, comments and folding. Encoded words stay
//! encoded, because IMAP passes them on. [`Mailbox::display_name`] decodes them.
//!
//! The parser is lenient. `;` separates like `,`. A missing `>` is assumed at the list's next `,`. A name without
//! quotes may contain dots and anything except `,;:<>@`. An old-style comment `user@host (Name)` provides the name.
//! Text without an `@` is a local part without a domain. Parsing never fails and takes linear time.

use crate::limits::ADDRESSES_MAX;
use crate::mime::encoded_word;

/// Maximum length of an encoded word that may contain characters that otherwise separate addresses.
const ENCODED_WORD_BYTES_MAX: usize = 256;

/// An element of a list of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressListEntry {
    /// A mailbox.
    Mailbox(Mailbox),
    /// The start of a group with this name. The mailboxes up to the next [`AddressListEntry::GroupEnd`] belong to it.
    GroupStart(Vec<u8>),
    /// The end of a group.
    GroupEnd,
}

/// A mailbox of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mailbox {
    /// The display name.
    pub name: Option<Vec<u8>>,
    /// The obsolete route.
    pub route: Option<Vec<u8>>,
    /// The local part, before the `@`. It may be empty.
    pub local: Vec<u8>,
    /// The domain, after the `@`. It may be empty.
    pub domain: Vec<u8>,
}

impl Mailbox {
    /// Returns the decoded display name.
    #[must_use]
    pub fn display_name(&self) -> Option<String> {
        self.name.as_deref().map(encoded_word::decode)
    }

    /// Returns `local@domain`, or the local part alone if there is no domain.
    #[must_use]
    pub fn address(&self) -> String {
        let local = String::from_utf8_lossy(&self.local);
        if self.domain.is_empty() {
            return local.into_owned();
        }
        format!("{local}@{}", String::from_utf8_lossy(&self.domain))
    }
}

/// Parses the folded value of a field that holds addresses. The rest is ignored after [`ADDRESSES_MAX`] entries.
#[must_use]
pub fn parse(value: &[u8]) -> Vec<AddressListEntry> {
    let mut parser = Parser { entries: Vec::new(), in_group: false, words: MailboxWords::default() };
    let mut tokens = Tokens { rest: value };
    while parser.entries.len() < ADDRESSES_MAX {
        match tokens.next() {
            Some(Token::Special(b'<')) => parser.words.angle = Some(parse_angle_address(&mut tokens)),
            Some(token) => parser.take(token),
            None => break,
        }
    }
    parser.end();
    parser.entries
}

/// Returns the mailboxes of a list, including those in groups.
pub fn mailboxes(value: &[u8]) -> impl Iterator<Item = Mailbox> {
    parse(value).into_iter().filter_map(|entry| match entry {
        AddressListEntry::Mailbox(mailbox) => Some(mailbox),
        _ => None,
    })
}

enum Token {
    Word(Vec<u8>),
    Comment(Vec<u8>),
    Special(u8),
}

struct Tokens<'a> {
    rest: &'a [u8],
}

impl Tokens<'_> {
    fn next(&mut self) -> Option<Token> {
        self.rest = self.rest.trim_ascii_start();
        match self.rest {
            [] => None,
            [b'"', rest @ ..] => {
                self.rest = rest;
                Some(Token::Word(self.take_enclosed(|byte| byte == b'"')))
            }
            [b'(', rest @ ..] => {
                self.rest = rest;
                Some(Token::Comment(self.comment()))
            }
            [special @ (b'<' | b'>' | b'@' | b',' | b':' | b';' | b')' | b'\\'), rest @ ..] => {
                let special = *special;
                self.rest = rest;
                Some(Token::Special(special))
            }
            _ => Some(Token::Word(self.atom())),
        }
    }

    /// Consumes text up to a closing byte, and removes backslashes and folding.
    fn take_enclosed(&mut self, closes: impl Fn(u8) -> bool) -> Vec<u8> {
        let mut text = Vec::new();
        while let Some((byte, rest)) = self.rest.split_first() {
            self.rest = rest;
            match byte {
                b'\\' => {
                    if let Some((escaped, rest)) = self.rest.split_first() {
                        text.push(*escaped);
                        self.rest = rest;
                    }
                }
                b'\r' | b'\n' => {}
                byte if closes(*byte) => break,
                byte => text.push(*byte),
            }
        }
        text
    }

    fn comment(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut depth = 0_usize;
        loop {
            text.extend(self.take_comment_text());
            match self.rest.split_first() {
                Some((b'(', rest)) => {
                    depth += 1;
                    text.push(b'(');
                    self.rest = rest;
                }
                Some((b')', rest)) if depth > 0 => {
                    depth -= 1;
                    text.push(b')');
                    self.rest = rest;
                }
                Some((_, rest)) => {
                    self.rest = rest;
                    return text;
                }
                None => return text,
            }
        }
    }

    /// Consumes text up to a parenthesis, which is left in the input.
    fn take_comment_text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        loop {
            match self.rest {
                [] | [b'(' | b')', ..] => return text,
                [b'\\', escaped, rest @ ..] => {
                    text.push(*escaped);
                    self.rest = rest;
                }
                [b'\r' | b'\n', rest @ ..] => self.rest = rest,
                [byte, rest @ ..] => {
                    text.push(*byte);
                    self.rest = rest;
                }
            }
        }
    }

    fn atom(&mut self) -> Vec<u8> {
        let length = match encoded_word_length(self.rest) {
            Some(length) => length,
            None => self.rest.iter().position(|byte| ends_atom(*byte)).unwrap_or(self.rest.len()),
        };
        // A domain literal may contain characters that end an atom elsewhere.
        let length = match self.rest {
            [b'[', ..] => memchr::memchr2(b']', b',', self.rest)
                .filter(|end| self.rest[*end] == b']')
                .map_or(length, |end| end + 1),
            _ => length,
        };
        let (atom, rest) = self.rest.split_at(length.max(1));
        self.rest = rest;
        atom.to_vec()
    }
}

fn ends_atom(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b'<' | b'>' | b'@' | b',' | b';' | b':' | b'\\' | b'"')
}

/// Returns the length of the encoded word at the start of the text.
fn encoded_word_length(text: &[u8]) -> Option<usize> {
    if !text.starts_with(b"=?") {
        return None;
    }
    let text = text.get(..ENCODED_WORD_BYTES_MAX).unwrap_or(text);
    let text = &text[..text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len())];
    let mut marks = memchr::memchr_iter(b'?', text);
    let before_text = marks.nth(2)? + 1;
    memchr::memmem::find(&text[before_text..], b"?=").map(|length| before_text + length + 2)
}

/// The address within angle brackets.
#[derive(Default)]
struct AngleAddress {
    route: Option<Vec<u8>>,
    local: Vec<u8>,
    domain: Vec<u8>,
}

/// Parses the text after a `<`, up to the `>`.
fn parse_angle_address(tokens: &mut Tokens<'_>) -> AngleAddress {
    let mut found = AngleAddress::default();
    let mut at = false;
    loop {
        let before = tokens.rest;
        match tokens.next() {
            None | Some(Token::Special(b'>')) => break,
            // `@a,@b:` before the address is a route. Otherwise the `>` is missing.
            Some(Token::Special(b',')) if at && found.local.is_empty() => found.domain.push(b','),
            Some(Token::Special(b',' | b';' | b'<')) => {
                tokens.rest = before;
                break;
            }
            Some(Token::Special(b':')) if at && found.local.is_empty() => {
                let mut route = b"@".to_vec();
                route.append(&mut found.domain);
                found.route = Some(route);
                at = false;
            }
            Some(Token::Special(b'@')) if at => found.domain.push(b'@'),
            Some(Token::Special(b'@')) => at = true,
            Some(Token::Special(other)) => found.target(at).push(other),
            Some(Token::Word(word)) => found.target(at).extend_from_slice(&word),
            Some(Token::Comment(_)) => {}
        }
    }
    found
}

impl AngleAddress {
    fn target(&mut self, at: bool) -> &mut Vec<u8> {
        if at { &mut self.domain } else { &mut self.local }
    }
}

/// The parsed words of the current mailbox or group.
#[derive(Default)]
struct MailboxWords {
    words: Vec<Vec<u8>>,
    /// Number of words before the first `@`.
    at: Option<usize>,
    comment: Option<Vec<u8>>,
    angle: Option<AngleAddress>,
}

struct Parser {
    entries: Vec<AddressListEntry>,
    in_group: bool,
    words: MailboxWords,
}

impl Parser {
    fn take(&mut self, token: Token) {
        match token {
            Token::Word(word) => self.words.words.push(word),
            Token::Comment(comment) => self.words.comment = Some(comment),
            Token::Special(b'@') if self.words.at.is_none() => self.words.at = Some(self.words.words.len()),
            Token::Special(b',') => self.flush(),
            Token::Special(b';') => {
                self.flush();
                if std::mem::take(&mut self.in_group) {
                    self.entries.push(AddressListEntry::GroupEnd);
                }
            }
            Token::Special(b':') if !self.in_group && self.words.at.is_none() && self.words.angle.is_none() => {
                let words = std::mem::take(&mut self.words);
                self.entries.push(AddressListEntry::GroupStart(words.words.join(&b' ')));
                self.in_group = true;
            }
            Token::Special(_) => {}
        }
    }

    fn end(&mut self) {
        self.flush();
        if self.in_group {
            self.entries.push(AddressListEntry::GroupEnd);
        }
    }

    fn flush(&mut self) {
        if let Some(mailbox) = std::mem::take(&mut self.words).into_mailbox() {
            self.entries.push(AddressListEntry::Mailbox(mailbox));
        }
    }
}

impl MailboxWords {
    fn into_mailbox(self) -> Option<Mailbox> {
        let Self { mut words, at, comment, angle } = self;
        let comment = comment.map(|comment| comment.trim_ascii().to_vec()).filter(|comment| !comment.is_empty());
        let name = |words: &[Vec<u8>]| if words.is_empty() { None } else { Some(words.join(&b' ')) };
        if let Some(AngleAddress { route, local, domain }) = angle {
            return Some(Mailbox { name: name(&words).or(comment), route, local, domain });
        }
        if words.is_empty() {
            return None;
        }
        let Some(at) = at else {
            return Some(Mailbox { name: comment, route: None, local: words.join(&b' '), domain: Vec::new() });
        };
        let domain = words.split_off(at).concat();
        let local_start = local_part_start(&words);
        let local = words.split_off(local_start).concat();
        Some(Mailbox { name: name(&words).or(comment), route: None, local, domain })
    }
}

/// Returns the index of the first word of the local part, which ends the list of words. White space may surround the
/// dots of a local part.
fn local_part_start(words: &[Vec<u8>]) -> usize {
    let mut start = words.len().saturating_sub(1);
    while start > 0 && (words[start].starts_with(b".") || words[start - 1].ends_with(b".")) {
        start -= 1;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats entries as text: `name|route|local|domain`, `group:` and `;`.
    fn formatted(value: &[u8]) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let or_nil = |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or("-".into(), text);
        let entry = |entry: &AddressListEntry| match entry {
            AddressListEntry::Mailbox(m) => {
                format!("{}|{}|{}|{}", or_nil(&m.name), or_nil(&m.route), text(&m.local), text(&m.domain))
            }
            AddressListEntry::GroupStart(name) => format!("{}:", text(name)),
            AddressListEntry::GroupEnd => ";".into(),
        };
        parse(value).iter().map(entry).collect::<Vec<_>>().join("  ")
    }

    fn check(value: &str, expected: &str) {
        assert_eq!(formatted(value.as_bytes()), expected, "{value}");
    }

    #[test]
    fn rfc_examples_are_parsed() {
        check("John Doe <jdoe@machine.example>", "John Doe|-|jdoe|machine.example");
        check("\"Joe Q. Public\" <john.q.public@example.com>", "Joe Q. Public|-|john.q.public|example.com");
        check(
            "Mary Smith <mary@x.test>, jdoe@example.org, Who? <one@y.test>",
            "Mary Smith|-|mary|x.test  -|-|jdoe|example.org  Who?|-|one|y.test",
        );
        check(
            "<boss@nil.test>, \"Giant; \\\"Big\\\" Box\" <sysservices@example.net>",
            "-|-|boss|nil.test  Giant; \"Big\" Box|-|sysservices|example.net",
        );
        check(
            "A Group:Ed Jones <joe@where.test>,jdoe@one.test;",
            "A Group:  Ed Jones|-|joe|where.test  -|-|jdoe|one.test  ;",
        );
        check("Undisclosed recipients:;", "Undisclosed recipients:  ;");
        check("Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>", "Pete|-|pete|silly.test");
        check("Joe Q. Public <john.q.public@example.com>", "Joe Q. Public|-|john.q.public|example.com");
        check(
            "<@machine.tld,@b:mary@example.net>, , jdoe@test   . example",
            "-|@machine.tld,@b|mary|example.net  -|-|jdoe|test.example",
        );
    }

    #[test]
    fn nonconforming_addresses_are_parsed() {
        check("user@host (Full (real) Name)", "Full (real) Name|-|user|host");
        check("root", "-|-|root|");
        check("John Doe", "-|-|John Doe|");
        check("a@b; c@d", "-|-|a|b  -|-|c|d");
        check("Name <a@b, c@d", "Name|-|a|b  -|-|c|d");
        check("Name a@b", "Name|-|a|b");
        check("<>", "-|-||");
        check("", "");
        check(",,(only a comment),", "");
        check("=?utf-8?q?Doe,_John?= <a@b>", "=?utf-8?q?Doe,_John?=|-|a|b");
        check("\"quoted local\"@b", "-|-|quoted local|b");
        check("j . d @ [127.0.0.1]", "-|-|j.d|[127.0.0.1]");
        check("\"open <a@b>", "-|-|open <a@b>|");
        check("list: a@b, c@d", "list:  -|-|a|b  -|-|c|d  ;");
        check("a@b@c", "-|-|a|bc");
        check("x\r\n\t<a@b>", "x|-|a|b");
        check("[", "-|-|[|");
    }

    #[test]
    fn names_are_decoded_on_request() {
        let names: Vec<_> = mailboxes(b"=?iso-8859-1?q?Andr=E9?= <a@b>, c@d").map(|m| m.display_name()).collect();
        assert_eq!(names, [Some("Andr\u{e9}".to_string()), None]);
        assert_eq!(mailboxes(b"x <a@b>").map(|m| m.address()).collect::<Vec<_>>(), ["a@b"]);
    }
}
