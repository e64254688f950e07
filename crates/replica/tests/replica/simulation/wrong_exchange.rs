//! Exchanges that are wrong, to show that the properties of the simulation can fail.

use base::sim::SeededRandom;
use base::{Random, Timestamp};
use notes::NoteClass;
use notes::instance::Position;
use notes::replica::{ReplicaNote, StateName};
use notes::view::note::ViewNote;
use replica::{Answer, Question};
use revision::Register;

/// An exchange that is wrong. The network changes messages accordingly, to show that the properties find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WrongExchange {
    /// A position is a modseq: which instance has made the change does not count.
    NoInstances,
    /// The place in an unfinished list is valid whatever happens to the source.
    PlaceOutlivesRestores,
    /// The position is recorded although notes are missing.
    PositionBeforeNotes,
    /// Marks, keywords and folders have the time at which they arrive.
    TimesOfArrival,
    /// Marks, keywords and folders that are not set are not sent.
    OnlySetValues,
    /// Marks, keywords and folders are sent only with contents.
    NoStateOfKnownNotes,
    /// Folders are not listed beside documents.
    NoFoldersBesideDocuments,
    /// UIDs do not travel.
    NoUids,
    /// UIDVALIDITY does not travel.
    NoUidValidity,
    /// All servers have the same rank, so they give out the same UIDs.
    SameRanks,
    /// A restored server gives out UIDs as if no time had passed since the backup.
    ClockOfBackup,
    /// Titles and options do not travel.
    NoSettings,
    /// Unread marks have the time at which they arrive.
    MarksAtArrival,
    /// Unread marks name notes by their note ids.
    MarksByNoteId,
    /// Unread marks that are taken away do not travel.
    OnlyReadMarks,
    /// Access control lists do not travel.
    NoAccessControlLists,
    /// Views do not travel.
    NoViews,
    /// A document that arrives replaces a deletion, whatever the deletion knows.
    EditsReplaceDeletions,
    /// Documents are received whose deletion was purged and is forgotten.
    HeldBackAreTaken,
    /// Documents of which only marks, keywords or folders have changed count as new, long after their deletion was
    /// purged.
    MarksMakeNew,
    /// Nobody knows which deletions were purged.
    PurgedAreForgotten,
}

impl WrongExchange {
    /// Returns `true` if purged deletions are forgotten at once.
    pub(super) fn forgets_purged_deletions(self) -> bool {
        matches!(self, Self::HeldBackAreTaken | Self::MarksMakeNew | Self::PurgedAreForgotten)
    }

    /// Changes a question before the source reads it. `current` is the position of the source.
    pub(super) fn distort_question(self, question: &mut Question, current: Option<Position>) {
        match (self, question, current) {
            (Self::NoInstances, Question::Changes { after: Some(after), .. }, Some(current)) => {
                after.instance = current.instance;
            }
            (Self::PlaceOutlivesRestores, Question::Changes { progress: Some(progress), .. }, Some(current)) => {
                progress.position.modseq = progress.position.modseq.min(current.modseq);
                progress.position.instance = current.instance;
                progress.seen = progress.position;
            }
            _ => {}
        }
    }

    /// Changes an answer before the target reads it.
    pub(super) fn distort_answer(self, answer: &mut Answer, now: Timestamp, random: &SeededRandom) {
        let keeps_set = |state: &mut Vec<(StateName, Register)>| state.retain(|(_, register)| register.is_set);
        let drop_uids = |state: &mut Vec<(StateName, Register)>| {
            let of_notes = state.iter_mut().filter(|(name, _)| *name != StateName::UidValidity);
            of_notes.for_each(|(_, register)| register.number = 0);
        };
        let drop_uid_validity = |state: &mut Vec<(StateName, Register)>| {
            state.retain(|(name, _)| *name != StateName::UidValidity);
        };
        let set_times = |state: &mut Vec<(StateName, Register)>| {
            state.iter_mut().for_each(|(_, register)| register.time = now);
        };
        match (self, answer) {
            (Self::PositionBeforeNotes, Answer::Notes(sent)) if random.below(4) == 0 => sent.notes.clear(),
            (Self::TimesOfArrival, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| set_times(&mut note.state));
            }
            (Self::TimesOfArrival, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| set_times(&mut note.state));
            }
            (Self::OnlySetValues, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| keeps_set(&mut note.state));
            }
            (Self::OnlySetValues, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| keeps_set(&mut note.state));
            }
            (Self::NoStateOfKnownNotes, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| note.state.clear());
            }
            (Self::NoSettings, Answer::Changes(page)) => page.settings = None,
            (Self::MarksMakeNew, Answer::Changes(page)) if !page.is_comparison => {
                page.notes.iter_mut().for_each(|note| note.is_old = false);
            }
            (Self::NoUids, Answer::Changes(page)) => page.notes.iter_mut().for_each(|note| drop_uids(&mut note.state)),
            (Self::NoUids, Answer::Notes(sent)) => sent.notes.iter_mut().for_each(|note| drop_uids(&mut note.state)),
            (Self::NoUidValidity, Answer::Changes(page)) => {
                page.notes.iter_mut().for_each(|note| drop_uid_validity(&mut note.state));
            }
            (Self::NoUidValidity, Answer::Notes(sent)) => {
                sent.notes.iter_mut().for_each(|note| drop_uid_validity(&mut note.state));
            }
            (Self::MarksAtArrival, Answer::UnreadMarks(page)) => {
                page.marks.iter_mut().for_each(|marks| marks.register.time = now);
            }
            (Self::OnlyReadMarks, Answer::UnreadMarks(page)) => page.marks.retain(|marks| marks.register.is_set),
            (Self::NoAccessControlLists, Answer::Changes(page)) => {
                page.notes.retain(|note| note.class != NoteClass::ACL);
            }
            (Self::NoViews, Answer::Notes(sent)) => sent.notes.retain(|note| !is_view(note)),
            (Self::NoFoldersBesideDocuments, Answer::Changes(page)) => {
                let has_documents = page.notes.iter().any(|note| note.class.is_document());
                page.notes.retain(|note| !has_documents || note.class.is_document());
            }
            _ => {}
        }
    }
}

/// Returns `true` if a note is the design of a view, and not of a folder.
fn is_view(note: &ReplicaNote) -> bool {
    let design = note.items.as_deref().and_then(ViewNote::of_items);
    note.class == NoteClass::VIEW && design.is_some_and(|view| !view.kind.folder)
}
