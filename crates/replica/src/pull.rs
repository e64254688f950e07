//! The side of the replica that asks.

use std::collections::VecDeque;
use std::sync::Arc;

use base::Unid;
use notes::instance::{ListProgress, Position, ReplicationHistory, UnreadHistory};
use notes::limits::TRUNCATED_BODY_BYTES;
use notes::replica::ListedNote;
use notes::{Error, Result};

use crate::limits::{BYTES_PER_QUESTION, NOTES_PER_QUESTION_MAX, PAGES_MAX, RESTARTS_MAX, RETRIED_NOTE_BYTES};
use crate::selection::Selection;
use crate::source::{Answer, ListPage, Question, SourceNotes, UnreadPage};
use crate::target::{Target, compared_again, has_documents};

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
    /// Number of notes that this replica does not want by its settings.
    pub left_out: u64,
    /// Number of notes that could not be sent or taken over, and are asked for again by the next pull.
    pub skipped: u64,
    /// Number of notes that were deleted here so long ago that the deletion is forgotten, and that the source still
    /// has.
    pub held_back: u64,
    /// Number of lists with which the title or options of the database have changed.
    pub settings: u64,
    /// Number of unread marks of users that were taken over.
    pub unread_marks: u64,
}

impl PullStatistics {
    /// Returns the counts of a pull and of one that follows it. The notes that this replica lacks after both are those
    /// that it lacks after the second one.
    #[must_use]
    pub fn followed_by(self, next: Self) -> Self {
        let Self { refused, left_out, skipped, held_back, .. } = next;
        Self {
            listed: self.listed + next.listed,
            received: self.received + next.received,
            deleted: self.deleted + next.deleted,
            merged: self.merged + next.merged,
            conflicts: self.conflicts + next.conflicts,
            state_only: self.state_only + next.state_only,
            settings: self.settings + next.settings,
            unread_marks: self.unread_marks + next.unread_marks,
            refused,
            left_out,
            skipped,
            held_back,
        }
    }
}

/// How notes are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transfer {
    /// Many notes with one question, and the next question while an answer is taken over.
    #[default]
    Streaming,
    /// Each note with a question of its own, one after the other, as Domino did before release 6.
    CallPerNote,
}

/// A pull from one source.
pub struct Pull {
    target: Target,
    transfer: Transfer,
    state: State,
    /// What was received, with the position of this pull.
    history: ReplicationHistory,
    /// The number of the question that waits for its answer.
    number: u64,
    statistics: PullStatistics,
    /// `true` if the next pull must compare everything.
    must_compare: bool,
    /// The rights of the source if they have changed since this pull began. What was refused or left out under them is
    /// compared by the next pull, also if that has the rights of the beginning again.
    other_rights: Option<u32>,
    /// Number of pages that did not end behind the ones before.
    restarts: usize,
    /// Number of pages of the list so far.
    pages: usize,
}

enum State {
    /// The next page of the list is needed.
    Listing,
    /// The notes of a page are needed.
    Fetching(Page),
    /// All notes are there. The next page of the list of unread marks is needed.
    ListingMarks,
    Done,
}

/// Notes that are missing.
struct Page {
    missing: VecDeque<WantedNote>,
    /// The notes whose contents are known.
    known: Vec<ListedNote>,
    /// The end of the page, or `None` for the notes that earlier pulls missed.
    end: Option<PageEnd>,
}

struct WantedNote {
    unid: Unid,
    size: u64,
    /// `true` if it is wanted truncated.
    is_truncated: bool,
}

/// The end of a page of the list of changes.
#[derive(Clone, Copy)]
pub(crate) struct PageEnd {
    pub(crate) position: Position,
    pub(crate) seen: Position,
    pub(crate) is_comparison: bool,
    pub(crate) is_last: bool,
}

impl Pull {
    /// Begins a pull, after the position that the target has recorded for the source.
    pub fn begin(target: Target) -> Result<Self> {
        let mut history = target.history()?;
        let missed = std::mem::take(&mut history.missed);
        let truncated = target.wanted_truncated(missed.iter().copied())?;
        let wanted = |unid| WantedNote { unid, size: RETRIED_NOTE_BYTES, is_truncated: truncated.contains(&unid) };
        let missing: VecDeque<WantedNote> = missed.into_iter().map(wanted).collect();
        let state = match missing.is_empty() {
            true => State::Listing,
            false => State::Fetching(Page { missing, known: Vec::new(), end: None }),
        };
        Ok(Self {
            target,
            transfer: Transfer::default(),
            state,
            history,
            number: 1,
            statistics: PullStatistics::default(),
            must_compare: false,
            other_rights: None,
            restarts: 0,
            pages: 0,
        })
    }

    /// Sets how notes are asked for. Must be called before the first question.
    #[must_use]
    pub fn with_transfer(self, transfer: Transfer) -> Self {
        Self { transfer, ..self }
    }

    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns `true` if the next pull will compare everything, because other settings of this replica or a restored
    /// folder have arrived, or the rights of the source have changed. Until then, notes may be missing that are wanted.
    #[must_use]
    pub fn leaves_comparison(&self) -> bool {
        self.must_compare || self.other_rights.is_some()
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
            State::Listing => changes_after(&self.history, self.target.selection()),
            State::Fetching(page) => page.question(0, self.transfer),
            State::ListingMarks => {
                let UnreadHistory { position, place } = self.history.unread.clone();
                Question::UnreadMarks { after: position, place }
            }
        };
        Some((self.number, question))
    }

    /// Returns the question that will follow the answer to the current one if this can be known already, so that a
    /// caller can ask it meanwhile.
    #[must_use]
    pub fn upcoming_question(&self) -> Option<Question> {
        let State::Fetching(page) = &self.state else { return None };
        if self.transfer == Transfer::CallPerNote {
            return None;
        }
        let first = page.batch_size(0, self.transfer);
        if first < page.missing.len() {
            return Some(page.question(first, self.transfer));
        }
        match page.end {
            Some(end) if end.is_last => None,
            Some(end) => Some(changes_after(&end.added_to(&self.history), self.target.selection())),
            None => Some(changes_after(&self.history, self.target.selection())),
        }
    }

    /// Takes the answer to the question with a number over. An answer to another question is ignored: it came late, or
    /// twice. What was taken over is durable on return.
    pub fn take(&mut self, number: u64, answer: Answer) -> Result<()> {
        if number != self.number {
            return Ok(());
        }
        match (std::mem::replace(&mut self.state, State::Done), answer) {
            (State::Listing, Answer::Changes(page)) => self.take_list(page)?,
            (State::Fetching(page), Answer::Notes(notes)) => self.take_notes(page, &notes)?,
            (State::ListingMarks, Answer::UnreadMarks(page)) => self.take_marks(page)?,
            // A source that answers another question than the one that it was asked cannot be understood.
            (state, _) => {
                self.state = state;
                return Err(Error::invalid("the answer of another replica", "it belongs to another question"));
            }
        }
        self.number += 1;
        Ok(())
    }

    /// Takes a page of the list over: finds out which notes are missing.
    fn take_list(&mut self, page: ListPage) -> Result<()> {
        self.pages += 1;
        self.check_progress(&page)?;
        self.statistics.listed += page.notes.len() as u64;
        let ListPage { notes, position, seen, is_comparison, is_position_unknown, is_last, settings } = page;
        // The rule for deletions counts for the notes of the page.
        self.target.join_settings(settings.as_ref(), &mut self.statistics)?;
        let is_position_unknown = is_position_unknown || self.history.is_cleared();
        let compared = self.target.compare(notes, is_position_unknown, &mut self.statistics)?;
        self.check_rights()?;
        let documents = compared.missing.iter().filter(|note| note.class.is_document());
        let truncated = self.target.wanted_truncated(documents.map(|note| note.unid))?;
        let wanted = |note: &ListedNote| {
            let is_truncated = truncated.contains(&note.unid);
            WantedNote { unid: note.unid, size: note.size, is_truncated }
        };
        let mut missing: Vec<WantedNote> = compared.missing.iter().map(wanted).collect();
        // One question asks for whole documents, or for truncated ones.
        missing.sort_by_key(|note| note.is_truncated);
        let missing = VecDeque::from(missing);
        let end = Some(PageEnd { position, seen, is_comparison, is_last });
        self.proceed(Page { missing, known: compared.known, end })
    }

    /// Fails if pages repeatedly do not end behind the ones before, so that a source cannot keep this replica busy for
    /// ever. A source that was set back meanwhile begins again.
    fn check_progress(&mut self, page: &ListPage) -> Result<()> {
        if self.pages > PAGES_MAX {
            return Err(is_endless());
        }
        let before = self.history.progress.map_or(self.history.position, |progress| Some(progress.position));
        let is_behind =
            |before: Position| before.instance != page.position.instance || before.modseq < page.position.modseq;
        if page.is_last || before.is_none_or(is_behind) {
            return Ok(());
        }
        self.restarts += 1;
        if self.restarts > RESTARTS_MAX {
            return Err(is_endless());
        }
        Ok(())
    }

    /// Takes notes over that a page lacked.
    fn take_notes(&mut self, mut page: Page, sent: &SourceNotes) -> Result<()> {
        let requested: Vec<WantedNote> = page.missing.drain(..page.batch_size(0, self.transfer)).collect();
        let is_deferred = |note: &WantedNote| sent.deferred.contains(&note.unid);
        let deferred = requested.into_iter().filter(is_deferred).rev();
        deferred.for_each(|note| page.missing.push_front(note));
        let received = self.target.receive(sent, &mut self.statistics)?;
        self.check_rights()?;
        self.must_compare |= received.restored_folder;
        self.statistics.skipped += sent.unsent.len() as u64;
        self.history.missed.extend(sent.unsent.iter().chain(&received.skipped));
        self.proceed(page)
    }

    /// Continues with the notes that a page lacks or, if none are missing, ends it: joins the state of the notes that
    /// were known, which may be in folders that the page has brought, and records the position.
    fn proceed(&mut self, page: Page) -> Result<()> {
        if !page.missing.is_empty() {
            self.state = State::Fetching(page);
            return Ok(());
        }
        if let Some(end) = page.end {
            self.history = end.added_to(&self.history);
            if end.is_last {
                self.history.completed = Some(self.target.now());
                self.must_compare |= self.target.has_new_settings()?;
            }
        }
        let skipped = self.target.finish_page(&page.known, &self.recorded(), &mut self.statistics)?;
        self.history.missed.extend(skipped);
        self.state = State::Listing;
        if page.end.is_some_and(|end| end.is_last) {
            self.target.release_uids()?;
            self.state = if self.target.takes_unread_marks()? { State::ListingMarks } else { State::Done };
        }
        Ok(())
    }

    /// Returns the history as it is to be recorded.
    fn recorded(&self) -> ReplicationHistory {
        match self.other_rights {
            Some(rights) => compared_again(&self.history, rights),
            None if self.must_compare => self.history.cleared(),
            None => self.history.clone(),
        }
    }

    /// Checks whether the rights of the source have changed. Of several changes, one without documents counts.
    fn check_rights(&mut self) -> Result<()> {
        if self.other_rights.is_none_or(has_documents) {
            self.other_rights = self.target.other_rights(&self.history)?.or(self.other_rights);
        }
        Ok(())
    }

    /// Takes a page of unread marks over, and records the place behind it or, behind the last one, the position.
    fn take_marks(&mut self, page: UnreadPage) -> Result<()> {
        let UnreadPage { marks, place, is_last } = page;
        self.pages += 1;
        if self.pages > PAGES_MAX {
            return Err(is_endless());
        }
        let position = place.changes.position;
        self.history.unread = match is_last {
            true => UnreadHistory { position: Some(position), place: None },
            false => UnreadHistory { place: Some(place), ..self.history.unread },
        };
        self.target.receive_marks(&marks, &self.recorded(), &mut self.statistics)?;
        self.state = if is_last { State::Done } else { State::ListingMarks };
        Ok(())
    }
}

fn is_endless() -> Error {
    Error::invalid("the answer of another replica", "its list does not come to an end")
}

pub(crate) fn changes_after(history: &ReplicationHistory, selection: Option<Arc<Selection>>) -> Question {
    Question::Changes { after: history.position, progress: history.progress, selection }
}

impl Page {
    /// Returns the number of missing notes that one question asks for, after the first `skipped` ones.
    fn batch_size(&self, skipped: usize, transfer: Transfer) -> usize {
        let count_max = match transfer {
            Transfer::Streaming => NOTES_PER_QUESTION_MAX,
            Transfer::CallPerNote => 1,
        };
        let mut bytes = 0_u64;
        let is_truncated = self.missing.get(skipped).is_some_and(|note| note.is_truncated);
        let within = |note: &&WantedNote| {
            let fits = bytes < BYTES_PER_QUESTION && note.is_truncated == is_truncated;
            let size_max = if is_truncated { TRUNCATED_BODY_BYTES as u64 } else { u64::MAX };
            bytes = bytes.saturating_add(note.size.min(size_max));
            fits
        };
        self.missing.iter().skip(skipped).take(count_max).take_while(within).count()
    }

    /// Returns the question for missing notes, after the first `skipped` ones.
    fn question(&self, skipped: usize, transfer: Transfer) -> Question {
        let notes = self.missing.iter().skip(skipped).take(self.batch_size(skipped, transfer));
        let are_truncated = self.missing.get(skipped).is_some_and(|note| note.is_truncated);
        Question::Notes { unids: notes.map(|note| note.unid).collect(), are_truncated }
    }
}

impl PageEnd {
    /// Returns the history after the page. A position counts only when the replication has ended: a note that changed
    /// meanwhile was to follow.
    pub(crate) fn added_to(self, history: &ReplicationHistory) -> ReplicationHistory {
        let Self { position, seen, is_comparison, is_last } = self;
        let mut history = history.clone();
        if is_last {
            history.position = Some(position);
            history.progress = None;
        } else {
            history.progress = Some(ListProgress { position, seen, is_comparison });
        }
        history
    }
}
