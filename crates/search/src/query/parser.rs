//! The parser of queries: recursive descent with a depth of at most [`QUERY_DEPTH_MAX`].
//!
//! ```text
//! query   = and { ( OR | "|" | "||" | "," ) and }
//! and     = not { [ AND | "&" | "&&" ] not }
//! not     = ( NOT | "!" | "-" ) not | near
//! near    = primary { NEAR [ "/" number ] primary }
//! primary = "(" query ")" | FIELD name compare | "[" name "]" compare | name ":" primary | name operator value
//!         | '"' words '"' [ "~" number ] | word
//! compare = CONTAINS primary | operator value
//! ```

use super::scan::{Case, Scanner};
use super::value::{Comparison, QueryValue};
use super::{NoteProperty, QueryNode, Scope};
use crate::error::QueryError;
use crate::limits::{DISTANCE_DEFAULT, DISTANCE_MAX, QUERY_BYTES_MAX, QUERY_DEPTH_MAX, QUERY_PARTS_MAX};
use crate::words;

type Result<T> = std::result::Result<T, QueryError>;

/// Parses a whole query.
pub(super) fn parse(text: &str) -> Result<QueryNode> {
    let mut parser = Parser { scan: Scanner::new(text), scope: Scope::Any, depth: 0, parts: 0 };
    if text.len() > QUERY_BYTES_MAX {
        return Err(parser.scan.error(format!("longer than {QUERY_BYTES_MAX} bytes")));
    }
    let root = parser.parse_or()?;
    parser.scan.skip_blanks();
    if parser.scan.peek() == Some(')') {
        return Err(parser.scan.error("unmatched closing parenthesis"));
    }
    if !parser.scan.is_at_end() {
        return Err(parser.scan.error("not understood"));
    }
    root.ok_or_else(|| parser.scan.error("no search term"))
}

struct Parser<'q> {
    scan: Scanner<'q>,
    /// The scope of words at the current position.
    scope: Scope,
    depth: usize,
    parts: usize,
}

/// A part of the query. `None` if the text has no characters that belong to words.
type OptionalNode = Option<QueryNode>;

impl<'q> Parser<'q> {
    fn parse_or(&mut self) -> Result<OptionalNode> {
        let mut nodes = Vec::new();
        loop {
            let place = self.scan;
            let node = self.parse_and()?;
            let more = self.take_or();
            if node.is_none() && (more || !nodes.is_empty()) {
                return Err(place.error("OR needs a search term on each side"));
            }
            nodes.extend(node);
            if !more {
                return Ok(join_nodes(nodes, QueryNode::Or));
            }
        }
    }

    fn take_or(&mut self) -> bool {
        self.scan.skip_blanks();
        self.scan.take("||") || self.scan.take("|") || self.scan.take(",") || self.scan.take_keyword("OR", Case::Any)
    }

    fn parse_and(&mut self) -> Result<OptionalNode> {
        let mut nodes = Vec::new();
        let mut wanted = false;
        loop {
            self.scan.skip_blanks();
            if self.is_end_of_both() {
                if wanted {
                    return Err(self.scan.error("AND needs a search term on each side"));
                }
                return Ok(join_nodes(nodes, QueryNode::And));
            }
            if self.scan.take("&&") || self.scan.take("&") || self.scan.take_keyword("AND", Case::Any) {
                if nodes.is_empty() || wanted {
                    return Err(self.scan.error("AND needs a search term on each side"));
                }
                wanted = true;
                continue;
            }
            let node = self.parse_not()?;
            wanted &= node.is_none();
            nodes.extend(node);
        }
    }

    fn is_end_of_both(&self) -> bool {
        let mut ahead = self.scan;
        matches!(ahead.peek(), None | Some(')' | '|' | ',')) || ahead.take_keyword("OR", Case::Any)
    }

    fn parse_not(&mut self) -> Result<OptionalNode> {
        let place = self.scan;
        let follows = |scan: &Scanner<'_>| scan.peek().is_some_and(|next| !ends_term(next));
        let mut ahead = self.scan;
        let is_sign = (ahead.take("!") || ahead.take("-")) && follows(&ahead);
        if !is_sign {
            ahead = self.scan;
            if !ahead.take_keyword("NOT", Case::Any) {
                return self.parse_near();
            }
        }
        self.scan = ahead;
        self.scan.skip_blanks();
        let node = self.parse_nested(Self::parse_not)?;
        match node {
            Some(node) => self.count_node(QueryNode::Not(Box::new(node))).map(Some),
            None => Err(place.error("NOT must be followed by a search term")),
        }
    }

    fn parse_near(&mut self) -> Result<OptionalNode> {
        let place = self.scan;
        let Some(mut node) = self.parse_primary()? else { return Ok(None) };
        loop {
            let mut ahead = self.scan;
            ahead.skip_blanks();
            if !ahead.take_keyword("NEAR", Case::Upper) {
                return Ok(Some(node));
            }
            self.scan = ahead;
            let distance = if self.scan.take("/") { self.parse_number()? } else { DISTANCE_DEFAULT };
            self.scan.skip_blanks();
            let right = self.parse_primary()?;
            let both = right.and_then(|right| words_of(&node, &right));
            let (scope, words) =
                both.ok_or_else(|| place.error("NEAR needs a word or phrase of the same field on each side"))?;
            node = QueryNode::Near { scope, words, distance };
        }
    }

    fn parse_primary(&mut self) -> Result<OptionalNode> {
        self.scan.skip_blanks();
        let place = self.scan;
        if self.scan.take("(") {
            let node = self.parse_nested(Self::parse_or)?;
            self.scan.skip_blanks();
            if !self.scan.take(")") {
                return Err(place.error("the parenthesis is not closed"));
            }
            return Ok(node);
        }
        if self.scan.take("\"") {
            return self.parse_quoted(place).map(Some);
        }
        if self.scan.take("[") {
            let name = self.scan.take_while(|character| !matches!(character, ']' | '[' | '"'));
            if name.trim().is_empty() || !self.scan.take("]") {
                return Err(place.error("write the name of a field as in [Subject]"));
            }
            return self.parse_compare(name.trim());
        }
        if self.scan.take_keyword("FIELD", Case::Upper) {
            self.scan.skip_blanks();
            let name = self.scan.take_while(is_name);
            if name.is_empty() {
                return Err(self.scan.error("FIELD must be followed by the name of a field"));
            }
            return self.parse_compare(name);
        }
        self.parse_name_or_word()
    }

    /// Parses the condition after the name of an item: `CONTAINS` with its operand, or a comparison.
    fn parse_compare(&mut self, name: &str) -> Result<OptionalNode> {
        self.scan.skip_blanks();
        if self.scan.take_keyword("CONTAINS", Case::Any) {
            return self.parse_in_item(name);
        }
        let Some(comparison) = self.parse_comparison() else {
            return Err(self.scan.error("the name of a field must be followed by CONTAINS, =, <, <=, > or >="));
        };
        self.parse_comparison_value(comparison, name)
    }

    fn parse_comparison(&mut self) -> Option<Comparison> {
        let signs = [
            (">=", Comparison::GreaterOrEqual),
            ("<=", Comparison::LessOrEqual),
            (">", Comparison::Greater),
            ("<", Comparison::Less),
            ("=", Comparison::Equal),
        ];
        signs.into_iter().find(|(sign, _)| self.scan.take(sign)).map(|(_, comparison)| comparison)
    }

    /// Parses the value with which an item is compared.
    fn parse_comparison_value(&mut self, comparison: Comparison, name: &str) -> Result<OptionalNode> {
        self.scan.skip_blanks();
        let place = self.scan;
        let is_quoted = self.scan.take("\"");
        let text =
            if is_quoted { self.scan.take_while(|character| character != '"') } else { self.scan.take_while(is_value) };
        if is_quoted && !self.scan.take("\"") {
            return Err(place.error("the quotation mark is not closed"));
        }
        let Some(value) = QueryValue::parse(text) else {
            if comparison == Comparison::Equal {
                self.scan = place;
                return self.parse_in_item(name);
            }
            return Err(place.error(format!("{text:?} is neither a number nor a date such as 2024-01-31")));
        };
        let by_value = QueryNode::Item { name: name.to_ascii_lowercase(), range: value.range(comparison) };
        let words = words::all(text);
        if comparison != Comparison::Equal || words.is_empty() {
            return self.count_node(by_value).map(Some);
        }
        let by_word = QueryNode::Phrase { scope: Scope::from_name(name), words };
        self.count_node(QueryNode::Or(vec![by_value, by_word])).map(Some)
    }

    /// Parses the operand that is searched in one item.
    fn parse_in_item(&mut self, name: &str) -> Result<OptionalNode> {
        let outer = std::mem::replace(&mut self.scope, Scope::from_name(name));
        let place = self.scan;
        let found = self.parse_nested(Self::parse_primary);
        self.scope = outer;
        match found? {
            Some(node) => Ok(Some(node)),
            None => Err(place.error("no search term")),
        }
    }

    fn parse_name_or_word(&mut self) -> Result<OptionalNode> {
        let place = self.scan;
        let name = self.scan.take_while(is_name);
        let begins = name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '$' | '_'));
        if begins {
            let mut ahead = self.scan;
            if ahead.take(":") && ahead.peek().is_some_and(|next| !ends_term(next) && next != '/') {
                self.scan = ahead;
                return match property_of(name) {
                    Some(property) => self.property_node(property, Comparison::Equal),
                    None => self.parse_in_item(item_of_alias(name)),
                };
            }
            if let Some(comparison) = self.parse_comparison() {
                return match property_of(name) {
                    Some(property) => self.property_node(property, comparison),
                    None => self.parse_comparison_value(comparison, item_of_alias(name)),
                };
            }
        }
        self.scan = place;
        self.parse_word()
    }

    fn property_node(&mut self, property: NoteProperty, comparison: Comparison) -> Result<OptionalNode> {
        self.scan.skip_blanks();
        let place = self.scan;
        let text = self.scan.take_while(is_value);
        let wrong = |what: &str| place.error(format!("{text:?} is not a {what}"));
        let value = QueryValue::parse(text);
        match (property, value) {
            (NoteProperty::Size, Some(QueryValue::Number(_)))
            | (NoteProperty::Received | NoteProperty::Created | NoteProperty::Modified, Some(QueryValue::Time(..))) => {
            }
            (NoteProperty::Size, _) => return Err(wrong("number of bytes")),
            _ => return Err(wrong("date such as 2024-01-31")),
        }
        let range = value.map(|value| value.range(comparison)).ok_or_else(|| wrong("value"))?;
        self.count_node(QueryNode::Property { property, range }).map(Some)
    }

    fn parse_quoted(&mut self, place: Scanner<'q>) -> Result<QueryNode> {
        let text = self.scan.take_while(|character| character != '"');
        if !self.scan.take("\"") {
            return Err(place.error("the quotation mark is not closed"));
        }
        let words = words::all(text);
        if words.is_empty() {
            return Err(place.error("no word between the quotation marks"));
        }
        let scope = self.scope.clone();
        if self.scan.take("~") {
            let distance = self.parse_number()?;
            return self.count_words(QueryNode::Near { scope, words, distance });
        }
        self.count_words(QueryNode::Phrase { scope, words })
    }

    fn parse_word(&mut self) -> Result<OptionalNode> {
        let place = self.scan;
        let text = self.scan.take_while(is_word);
        if text.is_empty() {
            // Skips characters that have no meaning here.
            self.scan.take_while(|character| {
                !is_word(character)
                    && !character.is_whitespace()
                    && !matches!(character, '(' | ')' | '"' | '[' | '|' | ',')
            });
            return Ok(None);
        }
        let scope = self.scope.clone();
        if text == "*" {
            return match scope {
                Scope::Any => self.count_node(QueryNode::All).map(Some),
                _ => self.count_node(QueryNode::Pattern { scope, pattern: text.to_owned() }).map(Some),
            };
        }
        if text.contains(['*', '?']) {
            let pattern =
                fold_pattern(text).ok_or_else(|| place.error("wildcards can only be used in single words"))?;
            // A question mark at the end of a word could be punctuation, as in `really?`. It is read as a wildcard,
            // because queries are not written this way.
            return self.count_node(QueryNode::Pattern { scope, pattern }).map(Some);
        }
        let words = words::all(text);
        if words.is_empty() {
            return Ok(None);
        }
        self.count_words(QueryNode::Phrase { scope, words }).map(Some)
    }

    fn parse_number(&mut self) -> Result<u32> {
        let place = self.scan;
        let digits = self.scan.take_while(|character| character.is_ascii_digit());
        digits
            .parse()
            .ok()
            .filter(|number| *number <= DISTANCE_MAX)
            .ok_or_else(|| place.error(format!("expected a number up to {DISTANCE_MAX}")))
    }

    fn parse_nested(&mut self, read: impl FnOnce(&mut Self) -> Result<OptionalNode>) -> Result<OptionalNode> {
        if self.depth >= QUERY_DEPTH_MAX {
            return Err(self.scan.error(format!("more than {QUERY_DEPTH_MAX} nested levels")));
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn count_node(&mut self, node: QueryNode) -> Result<QueryNode> {
        self.count_by(1).map(|()| node)
    }

    fn count_words(&mut self, node: QueryNode) -> Result<QueryNode> {
        let words = match &node {
            QueryNode::Phrase { words, .. } | QueryNode::Near { words, .. } => words.len(),
            _ => 1,
        };
        self.count_by(words).map(|()| node)
    }

    fn count_by(&mut self, parts: usize) -> Result<()> {
        self.parts += parts;
        if self.parts > QUERY_PARTS_MAX {
            return Err(self.scan.error(format!("more than {QUERY_PARTS_MAX} words and operators")));
        }
        Ok(())
    }
}

impl Scope {
    fn from_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if name == "body" { Self::Body } else { Self::Item(name) }
    }
}

fn join_nodes(mut nodes: Vec<QueryNode>, join: impl FnOnce(Vec<QueryNode>) -> QueryNode) -> OptionalNode {
    if nodes.len() > 1 { Some(join(nodes)) } else { nodes.pop() }
}

/// Returns the scope and the words of two operands that must be near each other. Returns `None` if their scopes differ
/// or an operand has no words.
fn words_of(left: &QueryNode, right: &QueryNode) -> Option<(Scope, Vec<String>)> {
    let of = |node: &QueryNode| match node {
        QueryNode::Phrase { scope, words } | QueryNode::Near { scope, words, .. } => {
            Some((scope.clone(), words.clone()))
        }
        _ => None,
    };
    let (scope, mut words) = of(left)?;
    let (other, more) = of(right)?;
    words.extend(more);
    (scope == other).then_some((scope, words))
}

/// Folds the text between the wildcards. Returns `None` if the text is more than one word.
fn fold_pattern(text: &str) -> Option<String> {
    let mut pattern = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find(['*', '?']) {
        push_piece(&rest[..place], &mut pattern)?;
        pattern.push_str(&rest[place..=place]);
        rest = &rest[place + 1..];
    }
    push_piece(rest, &mut pattern)?;
    Some(pattern)
}

fn push_piece(piece: &str, pattern: &mut String) -> Option<()> {
    if piece.chars().any(|character| !character.is_alphanumeric() && character.is_ascii()) {
        return None;
    }
    words::push_folded(piece, pattern);
    Some(())
}

/// Returns the property with a reserved name.
fn property_of(name: &str) -> Option<NoteProperty> {
    let properties = [
        ("date", NoteProperty::Received),
        ("received", NoteProperty::Received),
        ("created", NoteProperty::Created),
        ("modified", NoteProperty::Modified),
        ("size", NoteProperty::Size),
    ];
    properties.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, property)| property)
}

/// Returns the item for a common name of a mail field. Other names are returned unchanged.
fn item_of_alias(name: &str) -> &str {
    let names = [("to", "SendTo"), ("cc", "CopyTo"), ("attachment", "$FILE"), ("file", "$FILE")];
    names.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map_or(name, |(_, item)| item)
}

/// Returns `true` if a character ends a term, so that a sign or a colon before it has no operand.
fn ends_term(next: char) -> bool {
    next.is_whitespace() || matches!(next, ')' | '|' | ',')
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '$' | '_' | '.')
}

fn is_value(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '(' | ')' | '"' | '|' | ',' | '&')
}

fn is_word(character: char) -> bool {
    !character.is_whitespace() && !matches!(character, '(' | ')' | '"' | '|' | ',' | '[' | ']' | '<' | '>' | '=' | '~')
}
