//! Execution of queries: finds, counts and orders the matching documents that the reader may see.
//!
//! The index holds documents as of its last update, while the current state of the database decides who may read them.
//! The order of changes identifies the notes that changed since the update, and the index identifies those with Readers
//! items. Such hits are looked up one by one. All other hits are used as the index has them, so that totals are exact
//! without a lookup of each of a million hits.
//!
//! The execution counts its steps with a pacer, so that it may pause: for the words compared with wildcards, the hits,
//! and the lookups. The search for the next hit within the index is not divided; its duration is bounded by the size of
//! the index.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::sync::Arc;

use base::{DbNumber, Modseq, NoteId, Pacer, Timestamp, Unid, Unpaced};
use notes::{Access, AtLeast, Database, DatabaseSnapshot, level};
use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::Field;
use tantivy::{DocId, Searcher, SegmentReader, TERMINATED, Term};

use crate::error::{Error, Result};
use crate::index::FullTextIndex;
use crate::limits::{HITS_MAX, HITS_WINDOW_MAX, LOOKUPS_MAX, STEPS_PER_LOOKUP, UNINDEXED_CHANGES_MAX};
use crate::paced_query::QueryPace;
use crate::query::Query;
use crate::query_translation::QueryTranslator;
use crate::schema;

/// The order of hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HitOrder {
    /// Best hits first.
    #[default]
    Relevance,
    /// Latest received or created documents first.
    Newest,
    /// Earliest received or created documents first.
    Oldest,
}

/// The requested part of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// The order.
    pub sort: HitOrder,
    /// Number of hits to skip.
    pub offset: usize,
    /// Maximum number of hits to return, at most [`HITS_MAX`].
    pub limit: usize,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { sort: HitOrder::Relevance, offset: 0, limit: 50 }
    }
}

/// A document that matches a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// The note ID.
    pub note: NoteId,
    /// The UNID.
    pub unid: Unid,
    /// The time at which the document was received or created.
    pub date: Timestamp,
    /// The relevance from 1 to 100, where the best hit has 100. It is 0 if the hits are not sorted by relevance.
    pub relevance: u8,
}

/// The result of a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryResult {
    /// The hits of the page, in order.
    pub hits: Vec<Hit>,
    /// Number of matching documents that the reader may read.
    pub total: u64,
    /// `false` if so many matching documents were restricted or changed that the total is a lower bound.
    pub is_exact: bool,
    /// The modseq up to which changes are in the index.
    pub applied: Modseq,
    /// `true` if the database has not changed since.
    pub is_current: bool,
}

/// The bounds of the execution of a query.
pub struct QueryBounds<'b> {
    /// Called from time to time, because only the caller has a clock. The query fails if it returns `true`.
    pub is_too_long: &'b dyn Fn() -> bool,
    /// Counts the steps. It may pause the query.
    pub pacer: Arc<dyn Pacer>,
}

impl QueryBounds<'_> {
    /// Counts steps. Checks the time limit once in [`HITS_PER_TIME_CHECK`] hits; `count` is the number of hits so far.
    fn check(&self, count: usize, steps: u64) -> Result<()> {
        self.pacer.spend(steps)?;
        let is_due = count % HITS_PER_TIME_CHECK == HITS_PER_TIME_CHECK - 1;
        if is_due && (self.is_too_long)() { Err(Error::TooLong) } else { Ok(()) }
    }
}

impl FullTextIndex {
    /// Executes a query and returns documents that the holder of the access may read now.
    ///
    /// `is_too_long` is called from time to time, because only the caller has a clock.
    ///
    /// # Errors
    ///
    /// Fails with [`Error::NotIndexed`] if the database was never indexed, and with [`Error::TooLong`] if `is_too_long`
    /// returns `true`.
    pub fn query<L: AtLeast<level::Reader>>(
        &self,
        access: &Access<L>,
        query: &Query,
        page: PageRequest,
        is_too_long: &dyn Fn() -> bool,
    ) -> Result<QueryResult> {
        self.query_within(access, query, page, &QueryBounds { is_too_long, pacer: Arc::new(Unpaced) })
    }

    /// Executes a query like [`FullTextIndex::query`], within bounds.
    ///
    /// # Errors
    ///
    /// Fails also with [`notes::Error::Interrupted`] if the pacer requires it.
    pub fn query_within<L: AtLeast<level::Reader>>(
        &self,
        access: &Access<L>,
        query: &Query,
        page: PageRequest,
        bounds: &QueryBounds<'_>,
    ) -> Result<QueryResult> {
        let published = self.published();
        let database = access.database();
        let applied =
            published.applied(database.number()).ok_or_else(|| Error::NotIndexed { database: database.path() })?;
        let reading = access.read()?.paced(Arc::clone(&bounds.pacer));
        let pace = QueryPace::new(Arc::clone(&bounds.pacer));
        let behind = self.changed_notes(database, applied, &bounds.pacer)?;
        let restricted_too = !reading.grant().is_server_itself();
        let statistics = self.statistics(&published.searcher, database.number(), restricted_too)?;
        let mut collector = Collector::new(page, behind, restricted_too);
        let mut translator = QueryTranslator::new(self.schema(), &published.searcher, database.number(), &pace);
        let query = translator.translate(&query.root)?;
        let scoring = match page.sort {
            HitOrder::Relevance => EnableScoring::enabled_from_statistics_provider(&statistics, &published.searcher),
            HitOrder::Newest | HitOrder::Oldest => EnableScoring::disabled_from_searcher(&published.searcher),
        };
        let weight = query.weight(scoring)?;
        for segment in published.searcher.segment_readers() {
            let mut scorer = weight.scorer(segment, 1.0).map_err(|error| pace.error_of(error))?;
            collector.segment(segment, scorer.as_mut(), bounds)?;
        }
        collector.finish(&reading, applied, bounds)
    }

    /// Returns the statistics for the relevance. `restricted_too` is `true` if Readers items restrict the caller.
    ///
    /// The counts of the index include documents that the caller may not read, and also deleted ones until their
    /// segment is merged. They are used only if no counted document has Readers items, so that the scores tell nothing
    /// about the words of hidden documents.
    fn statistics<'s>(
        &self,
        searcher: &'s Searcher,
        database: DbNumber,
        restricted_too: bool,
    ) -> Result<Statistics<'s>> {
        if restricted_too && searcher.doc_freq(&self.schema().restricted_term(database))? > 0 {
            return Ok(Statistics::Flat);
        }
        let documents = searcher.doc_freq(&self.schema().database_term(database))?.max(1);
        Ok(Statistics::Counted { searcher, documents })
    }

    /// Returns the notes that may differ from their state in the index.
    fn changed_notes(&self, database: &Arc<Database>, applied: Modseq, pacer: &Arc<dyn Pacer>) -> Result<ChangedNotes> {
        let own = database.authorize::<level::Reader>(self.server_identity())?;
        let now = own.read()?.paced(Arc::clone(pacer));
        if now.modseq() < applied || !now.is_complete_since(applied) {
            return Ok(ChangedNotes::Unknown);
        }
        let changes = now.changes_by_transaction(applied, UNINDEXED_CHANGES_MAX)?;
        if changes.len() >= UNINDEXED_CHANGES_MAX {
            return Ok(ChangedNotes::Unknown);
        }
        Ok(ChangedNotes::Notes(changes.iter().map(|change| change.note).collect()))
    }
}

/// The notes that may differ from their state in the index.
enum ChangedNotes {
    /// These notes.
    Notes(HashSet<NoteId>),
    /// Any note.
    Unknown,
}

/// A hit that may become part of the result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The sort key. Larger values come first.
    rank: i64,
    tie: i64,
    note: NoteId,
    date: Timestamp,
}

struct Collector {
    page: PageRequest,
    window: usize,
    behind: ChangedNotes,
    restricted_too: bool,
    best: BinaryHeap<Reverse<Candidate>>,
    total: u64,
    /// Hits that must be looked up.
    needs_lookup: Vec<Candidate>,
    is_exact: bool,
}

/// Number of hits between two checks of the time limit.
const HITS_PER_TIME_CHECK: usize = 1_024;

/// Number of hits that are counted together as steps.
const HITS_PER_STEPS: usize = 32;

impl Collector {
    fn new(page: PageRequest, behind: ChangedNotes, restricted_too: bool) -> Self {
        let window = page.offset.saturating_add(page.limit.min(HITS_MAX)).min(HITS_WINDOW_MAX);
        let best = BinaryHeap::new();
        let needs_lookup = Vec::new();
        Self { page, window, behind, restricted_too, best, total: 0, needs_lookup, is_exact: true }
    }

    fn segment(
        &mut self,
        segment: &SegmentReader,
        scorer: &mut dyn tantivy::query::Scorer,
        bounds: &QueryBounds<'_>,
    ) -> Result<()> {
        let notes = segment.fast_fields().column_first_or_default::<u64>(schema::NOTE)?;
        let dates = segment.fast_fields().column_first_or_default::<i64>(schema::RECEIVED)?;
        let alive = segment.alive_bitset();
        let mut doc: DocId = scorer.doc();
        for count in 0_usize.. {
            if doc == TERMINATED {
                break;
            }
            if count % HITS_PER_STEPS == HITS_PER_STEPS - 1 {
                bounds.check(count, HITS_PER_STEPS as u64)?;
            }
            if alive.is_none_or(|alive| alive.is_alive(doc)) {
                let bits = notes.get_val(doc);
                let note = NoteId(u32::try_from(bits >> 1).unwrap_or(0));
                let score = if self.page.sort == HitOrder::Relevance { scorer.score() } else { 0.0 };
                let candidate = self.candidate(note, Timestamp(dates.get_val(doc)), score);
                self.take(candidate, bits & 1 == 1);
            }
            doc = scorer.advance();
        }
        Ok(())
    }

    fn candidate(&self, note: NoteId, date: Timestamp, score: f32) -> Candidate {
        let rank = match self.page.sort {
            // Scores are positive, so their bit patterns have the same order.
            HitOrder::Relevance => i64::from(score.max(0.0).to_bits()),
            HitOrder::Newest => date.0,
            HitOrder::Oldest => date.0.saturating_neg(),
        };
        let tie = if self.page.sort == HitOrder::Oldest { -i64::from(note.0) } else { i64::from(note.0) };
        Candidate { rank, tie, note, date }
    }

    fn take(&mut self, candidate: Candidate, is_restricted: bool) {
        let is_doubtful = (is_restricted && self.restricted_too)
            || match &self.behind {
                ChangedNotes::Unknown => true,
                ChangedNotes::Notes(notes) => !notes.is_empty() && notes.contains(&candidate.note),
            };
        if !is_doubtful {
            self.keep(candidate);
        } else if self.needs_lookup.len() < LOOKUPS_MAX {
            self.needs_lookup.push(candidate);
        } else {
            self.is_exact = false;
        }
    }

    fn keep(&mut self, candidate: Candidate) {
        self.total += 1;
        if self.best.len() < self.window {
            self.best.push(Reverse(candidate));
        } else if self.best.peek().is_some_and(|worst| worst.0 < candidate) {
            self.best.pop();
            self.best.push(Reverse(candidate));
        }
    }

    fn finish(
        mut self,
        reading: &DatabaseSnapshot<'_>,
        applied: Modseq,
        bounds: &QueryBounds<'_>,
    ) -> Result<QueryResult> {
        for (count, candidate) in std::mem::take(&mut self.needs_lookup).into_iter().enumerate() {
            bounds.check(count, STEPS_PER_LOOKUP)?;
            if unid_if_readable(reading, candidate.note)?.is_some() {
                self.keep(candidate);
            }
        }
        let mut best: Vec<Candidate> = self.best.into_iter().map(|candidate| candidate.0).collect();
        best.sort_unstable_by_key(|candidate| Reverse(*candidate));
        let highest = best.first().map_or(0, |first| first.rank);
        let mut hits = Vec::with_capacity(best.len().saturating_sub(self.page.offset));
        for (count, candidate) in best.iter().skip(self.page.offset).enumerate() {
            bounds.check(count, STEPS_PER_LOOKUP)?;
            let Some(unid) = unid_if_readable(reading, candidate.note)? else { continue };
            let relevance = if self.page.sort == HitOrder::Relevance { relevance(candidate.rank, highest) } else { 0 };
            hits.push(Hit { note: candidate.note, unid, date: candidate.date, relevance });
        }
        let is_current = matches!(&self.behind, ChangedNotes::Notes(notes) if notes.is_empty());
        Ok(QueryResult { hits, total: self.total, is_exact: self.is_exact, applied, is_current })
    }
}

/// Returns the UNID of a document if the reader may read it.
fn unid_if_readable(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Option<Unid>> {
    let header = match reading.header(note) {
        Err(error) if error.is_damage() => None,
        other => other?,
    };
    Ok(header.filter(|header| !header.is_stub() && header.class.is_document()).map(|header| header.unid))
}

/// Returns the score as a percentage of the best score. The scores themselves would reveal the number of documents that
/// the reader may not see.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 100")]
fn relevance(rank: i64, highest: i64) -> u8 {
    let score = |rank: i64| f32::from_bits(u32::try_from(rank).unwrap_or(0));
    let part = if highest == 0 { 1.0 } else { score(rank) / score(highest) };
    (part * 100.0).round().clamp(1.0, 100.0) as u8
}

/// Assumed average number of words per document. A word has more weight in a shorter document.
const TYPICAL_WORDS: u64 = 200;

/// Number of documents and number of documents with a word that [`Statistics::Flat`] states for every word.
const FLAT_DOCUMENTS: u64 = 1_000;
const FLAT_DOCUMENTS_WITH_WORD: u64 = 100;

/// The statistics for the relevance.
enum Statistics<'s> {
    /// The numbers of documents of this database, and of those that contain a word.
    Counted { searcher: &'s Searcher, documents: u64 },
    /// The same numbers for every word. The score then depends on the found document alone.
    Flat,
}

impl Statistics<'_> {
    fn documents(&self) -> u64 {
        match self {
            Self::Counted { documents, .. } => *documents,
            Self::Flat => FLAT_DOCUMENTS,
        }
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        // Estimated, because the index counts the tokens of all databases together.
        Ok(self.documents().saturating_mul(TYPICAL_WORDS))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents())
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match self {
            Self::Counted { searcher, documents } => Ok(searcher.doc_freq(term)?.min(*documents)),
            Self::Flat => Ok(FLAT_DOCUMENTS_WITH_WORD),
        }
    }
}
