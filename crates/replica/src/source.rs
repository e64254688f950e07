//! The side of the replica that is asked.

use std::sync::Arc;

use base::{Modseq, Unid};
use notes::instance::{Continuation, Position};
use notes::replica::{ListedNote, ReplicaNote};
use notes::{DatabaseSnapshot, Result};
use store::blob::PreparedBlob;

use crate::limits::CHANGES_PER_PAGE;

/// A question of the target.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// Asks for the changes after a position, or for all notes without one.
    Changes {
        /// The position up to which the target has everything.
        after: Option<Position>,
        /// Without a position: the modseq up to which this pull has compared everything.
        compared: Modseq,
    },
    /// Asks for notes.
    Notes {
        /// The notes.
        unids: Vec<Unid>,
    },
}

/// A page of the list of changes.
#[derive(Clone, PartialEq, Debug)]
pub struct ListPage {
    /// The notes that changed, design notes first, then by ascending size.
    pub notes: Vec<ListedNote>,
    /// The position behind the page. `None` if the source has none for it: its changes are older than its instances.
    pub position: Option<Position>,
    /// The modseq of the last change of the page. A page without a position is continued with it.
    pub modseq: Modseq,
    /// `true` if the source has no later changes.
    pub is_last: bool,
}

/// An answer of the source.
#[derive(Clone)]
pub enum Answer {
    /// A page of the list of changes.
    Changes(ListPage),
    /// The notes that still exist.
    Notes {
        /// The notes, in the order of the question.
        notes: Vec<ReplicaNote>,
        /// The contents of their attachments, as far as the target lacks them.
        contents: Vec<Arc<PreparedBlob<'static>>>,
    },
}

/// Answers a question from a snapshot of the source, without contents of attachments. The reader must be a server.
pub fn answer(snapshot: &DatabaseSnapshot<'_>, question: &Question) -> Result<Answer> {
    match question {
        Question::Changes { after, compared } => {
            let continuation = after.map(|position| snapshot.continuation(position)).transpose()?;
            let since = match continuation {
                Some(Continuation::After(modseq)) => modseq,
                Some(Continuation::CompareAll) => Modseq(0),
                None => *compared,
            };
            page_after(snapshot, since).map(Answer::Changes)
        }
        Question::Notes { unids } => {
            let mut found = Vec::with_capacity(unids.len());
            for unid in unids {
                let note = snapshot.find(*unid)?.map(|note| snapshot.replica_note(note)).transpose()?;
                found.extend(note.flatten());
            }
            Ok(Answer::Notes { notes: found, contents: Vec::new() })
        }
    }
}

/// Returns the changes after a modseq, up to the end of a transaction.
fn page_after(snapshot: &DatabaseSnapshot<'_>, since: Modseq) -> Result<ListPage> {
    let changes = snapshot.changes_by_transaction(since, CHANGES_PER_PAGE)?;
    let is_last = changes.len() < CHANGES_PER_PAGE;
    let modseq = match changes.last() {
        Some(last) if !is_last => last.modseq,
        _ => snapshot.modseq(),
    };
    let mut ids: Vec<_> = changes.into_iter().map(|change| change.note).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut notes = Vec::with_capacity(ids.len());
    for note in ids {
        notes.extend(snapshot.listed_note(note)?);
    }
    notes.sort_by_key(|note| (!note.class.is_design(), note.size, note.unid));
    Ok(ListPage { notes, position: snapshot.position(modseq)?, modseq, is_last })
}
