//! Parts of a query whose preparation takes long: those that read the postings of many words before the first hit.
//!
//! [`PacedQuery`] counts the steps of this preparation with the pacer of the query. It changes neither the hits nor
//! their scores, and costs nothing for a hit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Interrupted, Pacer};
use tantivy::query::{EnableScoring, Explanation, Query, QueryClone, Scorer, Weight};
use tantivy::{DocId, Score, SeekDangerResult, SegmentReader, TantivyError, Term};

use crate::error::Error;

/// The pacer of a query.
pub(crate) struct QueryPace {
    pacer: Arc<dyn Pacer>,
    /// `true` after an interruption. The index passes on only errors of its own.
    is_interrupted: AtomicBool,
}

impl QueryPace {
    pub(crate) fn new(pacer: Arc<dyn Pacer>) -> Arc<Self> {
        Arc::new(Self { pacer, is_interrupted: AtomicBool::new(false) })
    }

    /// Counts steps.
    pub(crate) fn spend(&self, steps: u64) -> Result<(), Interrupted> {
        self.pacer.spend(steps)
    }

    /// Counts steps within the index.
    fn spend_within_index(&self, steps: u64) -> tantivy::Result<()> {
        self.spend(steps).map_err(|interrupted| {
            self.is_interrupted.store(true, Ordering::Relaxed);
            TantivyError::InternalError(interrupted.to_string())
        })
    }

    /// Converts an error of the index, which may be an interruption.
    pub(crate) fn error_of(&self, error: TantivyError) -> Error {
        if self.is_interrupted.load(Ordering::Relaxed) { Interrupted.into() } else { error.into() }
    }
}

/// A query that counts steps when it is prepared for a segment.
pub(crate) struct PacedQuery {
    query: Box<dyn Query>,
    steps: u64,
    pace: Arc<QueryPace>,
}

impl PacedQuery {
    /// Creates a query whose preparation for a segment counts as a number of steps.
    pub(crate) fn new(query: Box<dyn Query>, steps: u64, pace: &Arc<QueryPace>) -> Self {
        Self { query, steps, pace: Arc::clone(pace) }
    }
}

impl Clone for PacedQuery {
    fn clone(&self) -> Self {
        Self { query: self.query.box_clone(), steps: self.steps, pace: Arc::clone(&self.pace) }
    }
}

impl fmt::Debug for PacedQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.query.fmt(f)
    }
}

impl Query for PacedQuery {
    fn weight(&self, scoring: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        let weight = self.query.weight(scoring)?;
        Ok(Box::new(PacedWeight { weight, steps: self.steps, pace: Arc::clone(&self.pace) }))
    }

    fn query_terms<'a>(&'a self, visitor: &mut dyn FnMut(&'a Term, bool)) {
        self.query.query_terms(visitor);
    }
}

struct PacedWeight {
    weight: Box<dyn Weight>,
    steps: u64,
    pace: Arc<QueryPace>,
}

impl Weight for PacedWeight {
    fn scorer(&self, reader: &SegmentReader, boost: Score) -> tantivy::Result<Box<dyn Scorer>> {
        self.pace.spend_within_index(self.steps)?;
        self.weight.scorer(reader, boost)
    }

    fn scorer_danger(
        &self,
        reader: &SegmentReader,
        target: DocId,
        boost: Score,
    ) -> tantivy::Result<(SeekDangerResult, Box<dyn Scorer>)> {
        self.pace.spend_within_index(self.steps)?;
        self.weight.scorer_danger(reader, target, boost)
    }

    fn explain(&self, reader: &SegmentReader, doc: DocId) -> tantivy::Result<Explanation> {
        self.weight.explain(reader, doc)
    }
}
