//! The side of the replica that asks.

use std::collections::VecDeque;
use std::sync::Arc;

use base::{Modseq, Unid};
use notes::instance::Position;
use notes::replica::{ListedNote, ReceiveOutcome, ReplicaNote};
use notes::{Access, Databases, Result, level};
use revision::DeletionRule;

use crate::limits::{BYTES_PER_QUESTION, NOTES_PER_QUESTION_MAX};
use crate::source::{Answer, ListPage, Question};

/// What a pull has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PullStatistics {
    /// Number of notes in the list of changes.
    pub listed: u64,
    /// Number of notes that were asked for and arrived.
    pub received: u64,
    /// Number of notes that were merged.
    pub merged: u64,
    /// Number of conflicts.
    pub conflicts: u64,
    /// Number of notes of which only marks, keywords or folders were taken over.
    pub state_only: u64,
    /// Number of notes that were refused because they are not valid, and skipped.
    pub skipped: u64,
}

/// A pull from one source.
pub struct Pull {
    databases: Arc<Databases>,
    /// The target, as the server itself.
    reader: Access<level::Reader>,
    depositor: Access<level::Depositor>,
    source: String,
    rule: DeletionRule,
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
    missing: VecDeque<(Unid, u64)>,
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
    /// Begins a pull from a server, after the position that is recorded for it. The access must be that of the server
    /// itself.
    pub fn begin(
        databases: &Arc<Databases>,
        reader: Access<level::Reader>,
        source: &str,
        rule: DeletionRule,
    ) -> Result<Self> {
        let after = reader.read()?.replication_position(source)?;
        let depositor = reader.downgrade();
        let state = State::Listing { after, compared: Modseq(0) };
        let databases = Arc::clone(databases);
        let source = source.to_owned();
        Ok(Self { databases, reader, depositor, source, rule, state, number: 1, statistics: PullStatistics::default() })
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
            State::Fetching(page) => Question::Notes {
                unids: page.missing.iter().take(page.question_size()).map(|(unid, _)| *unid).collect(),
            },
        };
        Some((self.number, question))
    }

    /// Takes the answer to the question with a number over. An answer to another question is ignored: it came late, or
    /// twice. What was taken over is durable on return.
    pub fn take(&mut self, number: u64, answer: Answer) -> Result<()> {
        if number != self.number {
            return Ok(());
        }
        match (std::mem::replace(&mut self.state, State::Done), answer) {
            (State::Listing { .. }, Answer::Changes(page)) => self.take_list(page)?,
            (State::Fetching(page), Answer::Notes(notes)) => self.take_notes(page, &notes)?,
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
        let reading = self.reader.read()?;
        let mut known = Vec::new();
        let mut missing = VecDeque::new();
        for note in page.notes {
            if reading.knows_revision(note.unid, note.revision)? {
                known.push(note);
            } else {
                missing.push_back((note.unid, note.size));
            }
        }
        drop(reading);
        let end = PageEnd { position: page.position, modseq: page.modseq, is_last: page.is_last };
        self.proceed(Page { missing, known, end })
    }

    /// Takes notes over that a page lacked.
    fn take_notes(&mut self, mut page: Page, notes: &[ReplicaNote]) -> Result<()> {
        page.missing.drain(..page.question_size());
        let before = self.statistics;
        if self.receive(notes).is_err() {
            // One of the notes is refused. The others are taken over one by one.
            self.statistics = before;
            for note in notes {
                if let Err(error) = self.receive(std::slice::from_ref(note)) {
                    if !matches!(error, notes::Error::Invalid { .. } | notes::Error::Limit { .. }) {
                        return Err(error);
                    }
                    self.statistics.skipped += 1;
                }
            }
        }
        self.proceed(page)
    }

    /// Continues with the notes that a page lacks or, if none are missing, ends it: joins the state of the notes that
    /// were known, which may be in folders that the page has brought, and records the position.
    fn proceed(&mut self, page: Page) -> Result<()> {
        if !page.missing.is_empty() {
            self.state = State::Fetching(page);
            return Ok(());
        }
        let accesses = [&self.depositor];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        for note in &page.known {
            self.statistics.state_only += u64::from(writer.state_receive(note.unid, &note.state)?);
        }
        if let Some(position) = page.end.position {
            writer.replication_position_set(&self.source, position)?;
        }
        let ticket = transaction.commit()?;
        self.databases.store().durable(ticket).wait().map_err(notes::Error::from)?;
        self.state = page.end.next();
        Ok(())
    }

    /// Takes notes over in one transaction, or more if some need others before them.
    fn receive(&mut self, notes: &[ReplicaNote]) -> Result<()> {
        let accesses = [&self.depositor];
        let mut rest = notes;
        loop {
            let mut transaction = self.databases.transaction(&accesses)?;
            let mut writer = transaction.writer(0);
            let mut is_interrupted = false;
            while let Some((note, behind)) = rest.split_first() {
                match writer.note_receive(note, self.rule)? {
                    ReceiveOutcome::Later => {
                        is_interrupted = true;
                        break;
                    }
                    ReceiveOutcome::Merged => self.statistics.merged += 1,
                    ReceiveOutcome::Conflict => self.statistics.conflicts += 1,
                    ReceiveOutcome::Taken | ReceiveOutcome::Known { .. } => {}
                }
                self.statistics.received += 1;
                rest = behind;
            }
            let ticket = transaction.commit()?;
            self.databases.store().durable(ticket).wait().map_err(notes::Error::from)?;
            if !is_interrupted {
                return Ok(());
            }
        }
    }
}

impl Page {
    /// Returns the number of missing notes that the next question asks for.
    fn question_size(&self) -> usize {
        let mut bytes = 0_u64;
        let within = |(_, size): &&(Unid, u64)| {
            let fits = bytes < BYTES_PER_QUESTION;
            bytes = bytes.saturating_add(*size);
            fits
        };
        self.missing.iter().take(NOTES_PER_QUESTION_MAX).take_while(within).count()
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
