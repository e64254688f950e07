//! Answering queries: which documents, how many, in which order, and nothing of what the reader may not see.
//!
//! The index holds documents as they were when it was updated; who may read them is decided by the database as it is now. What changed since
//! the update is known from the order of changes, and what has Readers items from the index; such hits are looked up one by one, and all other hits are
//! as the index has them, so that totals are exact without a look at each of a million hits.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use base::{Modseq, NoteId, Timestamp, Unid};
use notes::{Access, AtLeast, Database, Reading, level};
use tantivy::query::{Bm25StatisticsProvider, EnableScoring};
use tantivy::schema::Field;
use tantivy::{DocId, Searcher, SegmentReader, TERMINATED, Term};

use crate::error::{Error, Result};
use crate::index::Search;
use crate::limits::{BEHIND_MAX, HITS_MAX, HITS_WINDOW_MAX, LOOKED_UP_MAX};
use crate::plan::Plan;
use crate::query::Query;
use crate::schema;

/// The order of hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// The best first.
    #[default]
    Relevance,
    /// The last received or made first.
    Newest,
    /// The first received or made first.
    Oldest,
}

/// Which part of the answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// The order.
    pub sort: Sort,
    /// How many hits are passed over.
    pub offset: usize,
    /// How many hits are given, at most [`HITS_MAX`].
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { sort: Sort::Relevance, offset: 0, limit: 50 }
    }
}

/// A document that answers a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// Its number.
    pub note: NoteId,
    /// Its universal identifier.
    pub unid: Unid,
    /// When it was received or made.
    pub date: Timestamp,
    /// How well it answers, from 1 to 100, which is the best hit; 0 when the order is another.
    pub relevance: u8,
}

/// The answer to a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The hits of the page, in their order.
    pub hits: Vec<Hit>,
    /// How many documents answer that the reader may read.
    pub total: u64,
    /// False when there were so many restricted or changed documents among the hits that the total is a lower bound.
    pub is_exact: bool,
    /// The changes up to this one are in the index.
    pub applied: Modseq,
    /// Nothing has changed since.
    pub is_current: bool,
}

impl Search {
    /// Answers a query with documents that the holder of the access may read now. `is_too_long` is asked now and then; the caller knows the time.
    ///
    /// # Errors
    ///
    /// [`Error::NotIndexed`] when the database was never indexed; [`Error::TooLong`] when `is_too_long` said so.
    pub fn query<L: AtLeast<level::Reader>>(
        &self,
        access: &Access<L>,
        query: &Query,
        page: Page,
        is_too_long: &dyn Fn() -> bool,
    ) -> Result<Found> {
        let published = self.published();
        let database = access.database();
        let applied =
            published.applied(database.number()).ok_or_else(|| Error::NotIndexed { database: database.path() })?;
        let reading = access.read()?;
        let behind = self.behind(database, applied)?;
        let restricted_too = !reading.grant().is_server_itself();
        let mut collector = Collector::new(page, behind, restricted_too);
        let asked = Plan::new(self.schema(), &published.searcher, database.number()).ask(&query.root)?;
        let statistics = Statistics::of(&published.searcher, &self.schema().database_term(database.number()))?;
        let scoring = match page.sort {
            Sort::Relevance => EnableScoring::enabled_from_statistics_provider(&statistics, &published.searcher),
            Sort::Newest | Sort::Oldest => EnableScoring::disabled_from_searcher(&published.searcher),
        };
        let weight = asked.weight(scoring)?;
        for segment in published.searcher.segment_readers() {
            let mut scorer = weight.scorer(segment, 1.0)?;
            collector.segment(segment, scorer.as_mut(), is_too_long)?;
        }
        collector.finish(&reading, applied, is_too_long)
    }

    /// Finds which notes may be other than the index has them.
    fn behind(&self, database: &std::sync::Arc<Database>, applied: Modseq) -> Result<Behind> {
        let own = database.authorize::<level::Reader>(self.itself())?;
        let now = own.read()?;
        if now.modseq() < applied || !now.is_complete_since(applied) {
            return Ok(Behind::Unknown);
        }
        let changes = now.changes_some(applied, BEHIND_MAX)?;
        if changes.len() >= BEHIND_MAX {
            return Ok(Behind::Unknown);
        }
        Ok(Behind::Notes(changes.iter().map(|change| change.note).collect()))
    }
}

/// What may be other than the index has it.
enum Behind {
    /// These notes.
    Notes(HashSet<NoteId>),
    /// Any note.
    Unknown,
}

/// A hit before it is known whether it is given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Larger ones come first.
    rank: i64,
    tie: i64,
    note: NoteId,
    date: Timestamp,
}

struct Collector {
    page: Page,
    window: usize,
    behind: Behind,
    restricted_too: bool,
    best: BinaryHeap<Reverse<Candidate>>,
    total: u64,
    /// Hits that must be looked up.
    doubtful: Vec<Candidate>,
    is_exact: bool,
}

/// Hits between two questions whether it takes too long.
const HITS_PER_QUESTION: usize = 1_024;

impl Collector {
    fn new(page: Page, behind: Behind, restricted_too: bool) -> Self {
        let window = page.offset.saturating_add(page.limit.min(HITS_MAX)).min(HITS_WINDOW_MAX);
        let (best, doubtful) = (BinaryHeap::new(), Vec::new());
        Self { page, window, behind, restricted_too, best, total: 0, doubtful, is_exact: true }
    }

    fn segment(
        &mut self,
        segment: &SegmentReader,
        scorer: &mut dyn tantivy::query::Scorer,
        is_too_long: &dyn Fn() -> bool,
    ) -> Result<()> {
        let notes = segment.fast_fields().column_first_or_default::<u64>(schema::NOTE)?;
        let dates = segment.fast_fields().column_first_or_default::<i64>(schema::RECEIVED)?;
        let alive = segment.alive_bitset();
        let mut doc: DocId = scorer.doc();
        for count in 0_usize.. {
            if doc == TERMINATED {
                break;
            }
            if count % HITS_PER_QUESTION == HITS_PER_QUESTION - 1 && is_too_long() {
                return Err(Error::TooLong);
            }
            if alive.is_none_or(|alive| alive.is_alive(doc)) {
                let bits = notes.get_val(doc);
                let note = NoteId(u32::try_from(bits >> 1).unwrap_or(0));
                let score = if self.page.sort == Sort::Relevance { scorer.score() } else { 0.0 };
                let candidate = self.candidate(note, Timestamp(dates.get_val(doc)), score);
                self.take(candidate, bits & 1 == 1);
            }
            doc = scorer.advance();
        }
        Ok(())
    }

    fn candidate(&self, note: NoteId, date: Timestamp, score: f32) -> Candidate {
        let rank = match self.page.sort {
            // Scores are positive, so their bits are in their order.
            Sort::Relevance => i64::from(score.max(0.0).to_bits()),
            Sort::Newest => date.0,
            Sort::Oldest => date.0.saturating_neg(),
        };
        let tie = if self.page.sort == Sort::Oldest { -i64::from(note.0) } else { i64::from(note.0) };
        Candidate { rank, tie, note, date }
    }

    fn take(&mut self, candidate: Candidate, is_restricted: bool) {
        let is_doubtful = (is_restricted && self.restricted_too)
            || match &self.behind {
                Behind::Unknown => true,
                Behind::Notes(notes) => !notes.is_empty() && notes.contains(&candidate.note),
            };
        if !is_doubtful {
            self.keep(candidate);
        } else if self.doubtful.len() < LOOKED_UP_MAX {
            self.doubtful.push(candidate);
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

    fn finish(mut self, reading: &Reading<'_>, applied: Modseq, is_too_long: &dyn Fn() -> bool) -> Result<Found> {
        for (count, candidate) in std::mem::take(&mut self.doubtful).into_iter().enumerate() {
            if count % HITS_PER_QUESTION == HITS_PER_QUESTION - 1 && is_too_long() {
                return Err(Error::TooLong);
            }
            if readable(reading, candidate.note)?.is_some() {
                self.keep(candidate);
            }
        }
        let mut best: Vec<Candidate> = self.best.into_iter().map(|candidate| candidate.0).collect();
        best.sort_unstable_by_key(|candidate| Reverse(*candidate));
        let highest = best.first().map_or(0, |first| first.rank);
        let mut hits = Vec::with_capacity(best.len().saturating_sub(self.page.offset));
        for candidate in best.iter().skip(self.page.offset) {
            let Some(unid) = readable(reading, candidate.note)? else { continue };
            let relevance = if self.page.sort == Sort::Relevance { relevance(candidate.rank, highest) } else { 0 };
            hits.push(Hit { note: candidate.note, unid, date: candidate.date, relevance });
        }
        let is_current = matches!(&self.behind, Behind::Notes(notes) if notes.is_empty());
        Ok(Found { hits, total: self.total, is_exact: self.is_exact, applied, is_current })
    }
}

/// Gives the UNID of a document that the reader may read.
fn readable(reading: &Reading<'_>, note: NoteId) -> Result<Option<Unid>> {
    let header = match reading.header(note) {
        Err(error) if error.is_damage() => None,
        other => other?,
    };
    Ok(header.filter(|header| !header.is_stub() && header.class.is_document()).map(|header| header.unid))
}

/// Gives the part of the best score in a hundred. Scores themselves would tell how many documents there are that the reader may not see.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 100")]
fn relevance(rank: i64, highest: i64) -> u8 {
    let score = |rank: i64| f32::from_bits(u32::try_from(rank).unwrap_or(0));
    let part = if highest == 0 { 1.0 } else { score(rank) / score(highest) };
    (part * 100.0).round().clamp(1.0, 100.0) as u8
}

/// Words of a typical document: a word counts for more in a shorter one.
const TYPICAL_WORDS: u64 = 200;

/// What relevance is reckoned by: how many documents of this database have a word.
struct Statistics<'s> {
    searcher: &'s Searcher,
    documents: u64,
}

impl<'s> Statistics<'s> {
    fn of(searcher: &'s Searcher, database: &Term) -> Result<Self> {
        Ok(Self { searcher, documents: searcher.doc_freq(database)?.max(1) })
    }
}

impl Bm25StatisticsProvider for Statistics<'_> {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        // Not counted: the index's own count is that of all databases.
        Ok(self.documents.saturating_mul(TYPICAL_WORDS))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.searcher.doc_freq(term)?.min(self.documents))
    }
}
