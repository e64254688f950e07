//! Translation of a query tree into queries of the index.
//!
//! Every term begins with the database prefix, so documents of other databases cannot match. Properties of notes that
//! have no terms (dates, sizes) are queried together with the database term. Wildcards are expanded to the matching
//! words of this database: at most [`PATTERN_WORDS_MAX`], found among at most [`PATTERN_COMPARED_MAX`].

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use base::DbNumber;
use tantivy::query::{
    BooleanQuery, ConstScoreQuery, Occur, PhraseQuery, Query as TantivyQuery, RangeQuery, TermQuery, TermSetQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{Searcher, Term};

use crate::error::{Error, QueryError, Result};
use crate::limits::{PATTERN_COMPARED_MAX, PATTERN_WORDS_MAX, STEPS_PER_RANGE};
use crate::paced_query::{PacedQuery, QueryPace};
use crate::proximity::NearQuery;
use crate::query::{NoteProperty, QueryNode, Range, Scope};
use crate::schema::{self, Scalar, Schema};

/// Translates the nodes of a query into queries of the index.
pub(crate) struct QueryTranslator<'p> {
    schema: &'p Schema,
    searcher: &'p Searcher,
    database: DbNumber,
    /// Number of words compared with wildcards so far.
    compared: usize,
    pace: &'p Arc<QueryPace>,
}

impl<'p> QueryTranslator<'p> {
    pub(crate) fn new(
        schema: &'p Schema,
        searcher: &'p Searcher,
        database: DbNumber,
        pace: &'p Arc<QueryPace>,
    ) -> Self {
        Self { schema, searcher, database, compared: 0, pace }
    }

    /// Translates a node and all nodes below it. The parser has limited their depth.
    pub(crate) fn translate(&mut self, node: &QueryNode) -> Result<Box<dyn TantivyQuery>> {
        Ok(match node {
            QueryNode::All => self.match_all(),
            QueryNode::Phrase { scope, words } => self.in_scope(scope, |field, prefix| phrase(field, prefix, words)),
            QueryNode::Near { scope, words, distance } => {
                self.in_scope(scope, |field, prefix| near(field, prefix, words, *distance))
            }
            QueryNode::Pattern { scope, pattern } => self.translate_pattern(scope, pattern)?,
            QueryNode::Item { name, range } => self.translate_item(name, *range),
            QueryNode::Property { property, range } => self.translate_property(*property, *range)?,
            QueryNode::And(nodes) => self.translate_and(nodes)?,
            QueryNode::Or(nodes) => {
                let queries: Result<Vec<_>> = nodes.iter().map(|node| self.translate(node)).collect();
                Box::new(BooleanQuery::union(queries?))
            }
            QueryNode::Not(_) => self.translate_and(std::slice::from_ref(node))?,
        })
    }

    fn translate_and(&mut self, nodes: &[QueryNode]) -> Result<Box<dyn TantivyQuery>> {
        let mut clauses = Vec::with_capacity(nodes.len() + 1);
        for node in nodes {
            clauses.push(match node {
                QueryNode::Not(node) => (Occur::MustNot, self.translate(node)?),
                node => (Occur::Must, self.translate(node)?),
            });
        }
        if clauses.iter().all(|(occur, _)| *occur == Occur::MustNot) {
            clauses.push((Occur::Must, self.match_all()));
        }
        Ok(Box::new(BooleanQuery::new(clauses)))
    }

    fn match_all(&self) -> Box<dyn TantivyQuery> {
        let database = TermQuery::new(self.schema.database_term(self.database), IndexRecordOption::Basic);
        without_score(Box::new(database))
    }

    /// Returns the fields of a scope with the prefix of their terms.
    fn scope_fields(&self, scope: &Scope) -> Vec<(Field, String)> {
        let whole = || schema::prefix(self.database, None);
        match scope {
            Scope::Any => vec![(self.schema.main, whole()), (self.schema.body, whole())],
            Scope::Body => vec![(self.schema.body, whole())],
            Scope::Item(name) => vec![(self.schema.named, schema::prefix(self.database, Some(name)))],
        }
    }

    fn in_scope(&self, scope: &Scope, ask: impl Fn(Field, &str) -> Box<dyn TantivyQuery>) -> Box<dyn TantivyQuery> {
        any(self.scope_fields(scope).iter().map(|(field, prefix)| ask(*field, prefix)).collect())
    }

    fn translate_pattern(&mut self, scope: &Scope, pattern: &str) -> Result<Box<dyn TantivyQuery>> {
        let start = pattern.find(['*', '?']).unwrap_or(pattern.len());
        let mut queries = Vec::new();
        for (field, prefix) in self.scope_fields(scope) {
            let words = self.matching_words(field, &prefix, (&pattern[..start], pattern))?;
            let terms = words.iter().map(|word| Term::from_field_text(field, &format!("{prefix}{word}")));
            queries.push(self.paced(Box::new(TermSetQuery::new(terms)), words.len() as u64));
        }
        Ok(any(queries))
    }

    /// Returns the words of a field that begin with `start` and match a pattern.
    fn matching_words(
        &mut self,
        field: Field,
        prefix: &str,
        (start, pattern): (&str, &str),
    ) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let first = format!("{prefix}{start}");
        for segment in self.searcher.segment_readers() {
            let index = segment.inverted_index(field)?;
            let mut terms = index.terms().range().ge(first.as_bytes()).into_stream()?;
            while terms.advance() {
                let Some(word) =
                    terms.key().strip_prefix(prefix.as_bytes()).and_then(|word| std::str::from_utf8(word).ok())
                else {
                    break;
                };
                if !word.starts_with(start) {
                    break;
                }
                self.compared += 1;
                self.pace.spend(1)?;
                if self.compared > PATTERN_COMPARED_MAX {
                    return Err(too_broad(pattern));
                }
                if matches(pattern, word) {
                    found.insert(word.to_owned());
                    if found.len() > PATTERN_WORDS_MAX {
                        return Err(too_broad(pattern));
                    }
                }
            }
        }
        Ok(found)
    }

    fn translate_item(&self, name: &str, range: Range) -> Box<dyn TantivyQuery> {
        let (from, to) = match range {
            Range::Numbers { from, to } => {
                let bound = |(number, belongs): (f64, bool)| (Scalar::Number(number), belongs);
                (from.map(bound), to.map(bound))
            }
            Range::Times { from, before } => {
                (from.map(|time| (Scalar::Time(time), true)), before.map(|time| (Scalar::Time(time), false)))
            }
        };
        let prefix = schema::prefix(self.database, Some(name));
        let kind = if matches!(range, Range::Numbers { .. }) { 'n' } else { 't' };
        let term = |text: &str| Term::from_field_text(self.schema.values, &format!("{prefix}{text}"));
        let bound = |end: Option<(Scalar, bool)>, open: &str| match end {
            None => Bound::Included(term(&format!("{kind}{open}"))),
            Some((scalar, belongs)) => {
                let mut text = String::new();
                scalar.push(&mut text);
                if belongs { Bound::Included(term(&text)) } else { Bound::Excluded(term(&text)) }
            }
        };
        // Values are written in hexadecimal digits, all of which lie between these two bounds.
        self.paced(Box::new(RangeQuery::new(bound(from, "0"), bound(to, "g"))), STEPS_PER_RANGE)
    }

    /// Returns a query without scores whose preparation takes a number of steps.
    fn paced(&self, query: Box<dyn TantivyQuery>, steps: u64) -> Box<dyn TantivyQuery> {
        Box::new(PacedQuery::new(without_score(query), steps, self.pace))
    }

    fn translate_property(&self, property: NoteProperty, range: Range) -> Result<Box<dyn TantivyQuery>> {
        let field = match property {
            NoteProperty::Received => self.schema.received,
            NoteProperty::Created => self.schema.created,
            NoteProperty::Modified => self.schema.modified,
            NoteProperty::Size => self.schema.size,
        };
        let (from, to) = match range {
            Range::Times { from, before } => (
                from.map_or(Bound::Unbounded, |time| Bound::Included(Term::from_field_i64(field, time.0))),
                before.map_or(Bound::Unbounded, |time| Bound::Excluded(Term::from_field_i64(field, time.0))),
            ),
            Range::Numbers { from, to } => {
                let bound = |end: Option<(f64, bool)>| match end {
                    None => Bound::Unbounded,
                    Some((number, true)) => Bound::Included(Term::from_field_u64(field, whole(number))),
                    Some((number, false)) => Bound::Excluded(Term::from_field_u64(field, whole(number))),
                };
                (bound(from), bound(to))
            }
        };
        let range = without_score(Box::new(RangeQuery::new(from, to)));
        Ok(Box::new(BooleanQuery::intersection(vec![self.match_all(), range])))
    }
}

/// Converts a number to a number of bytes. Sizes have no fractions and are never negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates at the ends of the range, which is intended"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

fn any(mut queries: Vec<Box<dyn TantivyQuery>>) -> Box<dyn TantivyQuery> {
    match queries.pop() {
        Some(only) if queries.is_empty() => only,
        last => {
            queries.extend(last);
            Box::new(BooleanQuery::union(queries))
        }
    }
}

fn without_score(query: Box<dyn TantivyQuery>) -> Box<dyn TantivyQuery> {
    Box::new(ConstScoreQuery::new(query, 0.0))
}

fn phrase(field: Field, prefix: &str, words: &[String]) -> Box<dyn TantivyQuery> {
    let mut terms: Vec<Term> =
        words.iter().map(|word| Term::from_field_text(field, &format!("{prefix}{word}"))).collect();
    match terms.pop() {
        Some(only) if terms.is_empty() => Box::new(TermQuery::new(only, IndexRecordOption::WithFreqs)),
        last => {
            terms.extend(last);
            Box::new(PhraseQuery::new(terms))
        }
    }
}

fn near(field: Field, prefix: &str, words: &[String], distance: u32) -> Box<dyn TantivyQuery> {
    let different: BTreeSet<&String> = words.iter().collect();
    if different.len() < 2 {
        return phrase(field, prefix, &words[..1]);
    }
    let terms: Vec<Term> =
        different.iter().map(|word| Term::from_field_text(field, &format!("{prefix}{word}"))).collect();
    let span = distance + u32::try_from(terms.len()).unwrap_or(u32::MAX);
    Box::new(NearQuery::new(terms, span))
}

fn too_broad(pattern: &str) -> Error {
    let what = format!("{pattern} matches too many words; write more of the word");
    Error::Query(QueryError { position: 0, message: what })
}

/// Returns `true` if a word matches a pattern: `?` is one character, `*` any number of characters.
///
/// The comparison is linear, except that it may return to a star once for each character of the word.
fn matches(pattern: &str, word: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let word: Vec<char> = word.chars().collect();
    let mut at = 0;
    let mut place = 0;
    let mut star = None;
    while place < word.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == word[place] => {
                at += 1;
                place += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                at = star_at + 1;
                place = taken + 1;
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_words() {
        for (pattern, word) in [
            ("*", "x"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a?c", "abc"),
            ("*b*", "abc"),
            ("a*b*c", "aXbYbZc"),
            ("m?ll*", "müller"),
        ] {
            assert!(matches(pattern, word), "{pattern} {word}");
        }
        for (pattern, word) in [("a", "ab"), ("a?", "a"), ("?", ""), ("a*d", "abc"), ("*b", "abc")] {
            assert!(!matches(pattern, word), "{pattern} {word}");
        }
    }
}
