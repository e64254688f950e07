//! Proximity queries: words near each other, in any order.
//!
//! The index's own intersection finds and scores the documents that contain all words. This module compares the
//! positions of the words: all of them must occur within a window of `span` positions.

use tantivy::postings::{Postings, SegmentPostings};
use tantivy::query::{BooleanQuery, EmptyScorer, EnableScoring, Explanation, Query, Scorer, TermQuery, Weight};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Score, SegmentReader, TERMINATED, TantivyError, Term};

/// Matches documents with all terms of one field within a window of positions.
#[derive(Clone, Debug)]
pub(crate) struct NearQuery {
    terms: Vec<Term>,
    span: u32,
}

impl NearQuery {
    /// Creates a query for at least two different terms within `span` positions.
    pub(crate) fn new(terms: Vec<Term>, span: u32) -> Self {
        assert!(terms.len() > 1, "NEAR needs at least two terms");
        Self { terms, span }
    }
}

impl Query for NearQuery {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let one =
            |term: &Term| -> Box<dyn Query> { Box::new(TermQuery::new(term.clone(), IndexRecordOption::WithFreqs)) };
        let all = BooleanQuery::intersection(self.terms.iter().map(one).collect()).weight(scoring)?;
        Ok(Box::new(NearWeight { query: self.clone(), all }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.terms.iter().for_each(|term| visitor(term, true));
    }
}

struct NearWeight {
    query: NearQuery,
    all: Box<dyn Weight>,
}

impl Weight for NearWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut postings = Vec::with_capacity(self.query.terms.len());
        for term in &self.query.terms {
            let index = reader.inverted_index(term.field())?;
            let Some(found) = index.read_postings(term, IndexRecordOption::WithFreqsAndPositions)? else {
                return Ok(Box::new(EmptyScorer));
            };
            postings.push(WordPositions { postings: found, places: Vec::new(), next: 0 });
        }
        let mut scorer = NearScorer { all: self.all.scorer(reader, boost)?, postings, span: self.query.span };
        scorer.seek_match();
        Ok(Box::new(scorer))
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        let mut scorer = self.scorer(reader, 1.0)?;
        if scorer.doc() > doc || scorer.seek(doc) != doc {
            return Err(TantivyError::InvalidArgument(format!("document {doc} does not match")));
        }
        Ok(Explanation::new("words near each other", scorer.score()))
    }
}

/// The positions of one word in the current document.
struct WordPositions {
    postings: SegmentPostings,
    places: Vec<u32>,
    next: usize,
}

struct NearScorer {
    all: Box<dyn Scorer>,
    postings: Vec<WordPositions>,
    span: u32,
}

impl NearScorer {
    /// Moves to the next document in which the words are near each other, unless the current document is one.
    fn seek_match(&mut self) -> DocId {
        let mut doc = self.all.doc();
        while doc != TERMINATED && !self.is_near(doc) {
            doc = self.all.advance();
        }
        doc
    }

    fn is_near(&mut self, doc: DocId) -> bool {
        for word in &mut self.postings {
            if word.postings.doc() < doc {
                word.postings.seek(doc);
            }
            if word.postings.doc() != doc {
                return false;
            }
            word.postings.positions(&mut word.places);
            word.next = 0;
        }
        self.has_window()
    }

    /// Returns `true` if a window holds all words. The window is moved so that it begins at the earliest of the words'
    /// next positions.
    fn has_window(&mut self) -> bool {
        loop {
            let mut first = (u32::MAX, 0);
            let mut last = 0;
            for (index, word) in self.postings.iter().enumerate() {
                let Some(place) = word.places.get(word.next) else { return false };
                first = first.min((*place, index));
                last = last.max(*place);
            }
            if last - first.0 < self.span {
                return true;
            }
            self.postings[first.1].next += 1;
        }
    }
}

impl DocSet for NearScorer {
    fn advance(&mut self) -> DocId {
        self.all.advance();
        self.seek_match()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.all.doc() < target {
            self.all.seek(target);
        }
        self.seek_match()
    }

    fn doc(&self) -> DocId {
        self.all.doc()
    }

    fn size_hint(&self) -> u32 {
        self.all.size_hint()
    }
}

impl Scorer for NearScorer {
    fn score(&mut self) -> Score {
        self.all.score()
    }
}
