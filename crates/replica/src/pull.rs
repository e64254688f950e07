//! The side of the replica that asks.

use std::collections::VecDeque;
use std::sync::Arc;

use base::Modseq;
use notes::Result;
use notes::instance::Position;
use notes::replica::{ListedNote, ReplicaNote};
use store::blob::PreparedBlob;

use crate::limits::{BYTES_PER_QUESTION, NOTES_PER_QUESTION_MAX};
use crate::source::{Answer, ListPage, Question};
use crate::target::Target;

/// What a pull has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PullStatistics {
    /// Number of notes in the list of changes.
    pub listed: u64,
    /// Number of notes that were asked for and arrived.
    pub received: u64,
    /// Number of notes that are deleted now because the source has deleted them.
    pub deleted: u64,
    /// Number of notes that were merged.
    pub merged: u64,
    /// Number of conflicts.
    pub conflicts: u64,
    /// Number of notes of which only marks, keywords or folders were taken over.
    pub state_only: u64,
    /// Number of notes that the source may not bring by the access control list.
    pub refused: u64,
    /// Number of notes that are not valid, and were skipped.
    pub skipped: u64,
}

/// A pull from one source.
pub struct Pull {
    target: Target,
    state: State,
    /// The number of the question that waits for its answer.
    number: u64,
    statistics: PullStatistics,
}

enum State {
    /// The next page of the list is needed.
    Listing {
        after: Option<Position>,
        compared: Modseq,
    },
    /// The notes of a page are needed.
    Fetching(Page),
    Done,
}

/// A page of which notes are missing.
struct Page {
    missing: VecDeque<ListedNote>,
    /// The notes whose contents are known.
    known: Vec<ListedNote>,
    end: PageEnd,
}

#[derive(Clone, Copy)]
struct PageEnd {
    position: Option<Position>,
    modseq: Modseq,
    is_last: bool,
}

impl Pull {
    /// Begins a pull, after the position that the target has recorded for the source.
    pub fn begin(target: Target) -> Result<Self> {
        let state = State::Listing { after: target.position()?, compared: Modseq(0) };
        Ok(Self { target, state, number: 1, statistics: PullStatistics::default() })
    }

    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns what has been done so far.
    #[must_use]
    pub fn statistics(&self) -> PullStatistics {
        self.statistics
    }

    /// Returns the next question with its number, or `None` if the pull is complete. Until the answer is taken, it is
    /// the same question.
    #[must_use]
    pub fn question(&self) -> Option<(u64, Question)> {
        let question = match &self.state {
            State::Done => return None,
            State::Listing { after, compared } => Question::Changes { after: *after, compared: *compared },
            State::Fetching(page) => {
                Question::Notes { unids: page.missing.iter().take(page.batch_size(0)).map(|note| note.unid).collect() }
            }
        };
        Some((self.number, question))
    }

    /// Returns the question that will follow the answer to the current one if this can be known already, so that a
    /// caller can ask it meanwhile.
    #[must_use]
    pub fn upcoming_question(&self) -> Option<Question> {
        let State::Fetching(page) = &self.state else { return None };
        let first = page.batch_size(0);
        if first == page.missing.len() {
            return match page.end.next() {
                State::Listing { after, compared } => Some(Question::Changes { after, compared }),
                State::Fetching(_) | State::Done => None,
            };
        }
        let batch = page.missing.iter().skip(first).take(page.batch_size(first));
        Some(Question::Notes { unids: batch.map(|note| note.unid).collect() })
    }

    /// Takes the answer to the question with a number over. An answer to another question is ignored: it came late, or
    /// twice. What was taken over is durable on return.
    pub fn take(&mut self, number: u64, answer: Answer) -> Result<()> {
        if number != self.number {
            return Ok(());
        }
        match (std::mem::replace(&mut self.state, State::Done), answer) {
            (State::Listing { .. }, Answer::Changes(page)) => self.take_list(page)?,
            (State::Fetching(page), Answer::Notes { notes, contents }) => self.take_notes(page, &notes, &contents)?,
            // A source that answers another question than the one that it was asked cannot be understood.
            (state, _) => {
                self.state = state;
                return Err(notes::Error::invalid("the answer of another replica", "it belongs to another question"));
            }
        }
        self.number += 1;
        Ok(())
    }

    /// Takes a page of the list over: finds out which notes are missing.
    fn take_list(&mut self, page: ListPage) -> Result<()> {
        self.statistics.listed += page.notes.len() as u64;
        let compared = self.target.compare(page.notes, &mut self.statistics)?;
        let end = PageEnd { position: page.position, modseq: page.modseq, is_last: page.is_last };
        self.proceed(Page { missing: compared.missing.into(), known: compared.known, end })
    }

    /// Takes notes over that a page lacked.
    fn take_notes(
        &mut self,
        mut page: Page,
        notes: &[ReplicaNote],
        contents: &[Arc<PreparedBlob<'static>>],
    ) -> Result<()> {
        page.missing.drain(..page.batch_size(0));
        self.target.receive(notes, contents, &mut self.statistics)?;
        self.proceed(page)
    }

    /// Continues with the notes that a page lacks or, if none are missing, ends it: joins the state of the notes that
    /// were known, which may be in folders that the page has brought, and records the position.
    fn proceed(&mut self, page: Page) -> Result<()> {
        if !page.missing.is_empty() {
            self.state = State::Fetching(page);
            return Ok(());
        }
        self.target.finish_page(&page.known, page.end.position, &mut self.statistics)?;
        self.state = page.end.next();
        Ok(())
    }
}

impl Page {
    /// Returns the number of missing notes that one question asks for, after the first `skipped` ones.
    fn batch_size(&self, skipped: usize) -> usize {
        let mut bytes = 0_u64;
        let within = |note: &&ListedNote| {
            let fits = bytes < BYTES_PER_QUESTION;
            bytes = bytes.saturating_add(note.size);
            fits
        };
        self.missing.iter().skip(skipped).take(NOTES_PER_QUESTION_MAX).take_while(within).count()
    }
}

impl PageEnd {
    /// Returns the state after the page.
    fn next(self) -> State {
        match (self.is_last, self.position) {
            (true, _) => State::Done,
            (false, Some(position)) => State::Listing { after: Some(position), compared: self.modseq },
            (false, None) => State::Listing { after: None, compared: self.modseq },
        }
    }
}
