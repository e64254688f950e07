//! What a pull would take over, found out without changing anything.

use notes::instance::{ListProgress, ReplicationHistory};
use notes::{Error, Result};

use crate::limits::RESTARTS_MAX;
use crate::pull::{PullStatistics, changes_after};
use crate::source::{Answer, Question};
use crate::target::Target;

/// What a pull would take over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PreviewStatistics {
    /// Number of notes in the list of changes.
    pub listed: u64,
    /// Number of notes that would be asked for.
    pub wanted: u64,
    /// Size of these notes in bytes, without attachments of which no note of the list tells the size.
    pub bytes: u64,
    /// Number of notes that the source may not bring by the access control list.
    pub refused: u64,
    /// Number of notes that this replica does not want by its settings.
    pub left_out: u64,
    /// Number of notes whose deletion is forgotten here, and that the source still has.
    pub held_back: u64,
}

/// A preview of a pull: asks for the same lists, and for no notes.
pub struct Preview {
    target: Target,
    history: ReplicationHistory,
    statistics: PreviewStatistics,
    pages: usize,
    is_done: bool,
}

impl Preview {
    /// Begins a preview, after the position that the target has recorded for the source.
    pub fn begin(target: Target) -> Result<Self> {
        let history = target.history()?;
        // Notes that earlier pulls have missed are asked for again.
        let wanted = history.missed.len() as u64;
        let statistics = PreviewStatistics { wanted, ..PreviewStatistics::default() };
        Ok(Self { target, history, statistics, pages: 0, is_done: false })
    }

    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns what was found so far.
    #[must_use]
    pub fn statistics(&self) -> PreviewStatistics {
        self.statistics
    }

    /// Returns the next question, or `None` behind the last page.
    #[must_use]
    pub fn question(&self) -> Option<Question> {
        (!self.is_done).then(|| changes_after(&self.history, self.target.selection()))
    }

    /// Takes the answer to the question.
    pub fn take(&mut self, answer: Answer) -> Result<()> {
        let Answer::Changes(page) = answer else {
            return Err(Error::invalid("the answer of another replica", "it belongs to another question"));
        };
        let before = self.history.progress.map_or(self.history.position, |progress| Some(progress.position));
        let has_advanced = before.is_none_or(|before| before.modseq < page.position.modseq);
        self.pages += usize::from(!has_advanced && !page.is_last);
        if self.pages > RESTARTS_MAX {
            return Err(Error::invalid("the answer of another replica", "its list of changes does not come to an end"));
        }
        self.statistics.listed += page.notes.len() as u64;
        let mut counted = PullStatistics::default();
        let is_position_unknown = page.is_position_unknown || self.history.is_cleared();
        let compared = self.target.compare(page.notes, is_position_unknown, &mut counted)?;
        self.statistics.wanted += compared.missing.len() as u64;
        self.statistics.bytes += compared.missing.iter().map(|note| note.size).sum::<u64>();
        self.statistics.refused += counted.refused;
        self.statistics.left_out += counted.left_out;
        self.statistics.held_back += counted.held_back;
        let progress = ListProgress { position: page.position, seen: page.seen, is_comparison: page.is_comparison };
        self.history.progress = Some(progress);
        self.is_done = page.is_last;
        Ok(())
    }
}
