//! The side of the replica that is asked.

use std::collections::HashSet;
use std::sync::Arc;

use base::{Modseq, NoteId, Unid};
use notes::instance::{ListProgress, Position, UnreadPlace};
use notes::replica::{ListedNote, ReplicaNote, StateName};
use notes::unread_replication::UnreadMarks;
use notes::{
    DatabaseSnapshot, Error, NotExchanged, NoteFlags, NoteHeader, ReplicationSettings, Result, SharedSettings,
};
use store::blob::{ArrivedContent, BlobId, PreparedBlob};

use crate::limits::{CHANGES_PER_PAGE, MARKS_PER_PAGE, STATES_PER_PAGE};
use crate::selection::{Selection, Selector};

/// A question of the target.
#[derive(Clone, PartialEq, Debug)]
pub enum Question {
    /// Asks for the changes after a position, or for all notes without one.
    Changes {
        /// The position up to which the target has everything.
        after: Option<Position>,
        /// How far the target has come since.
        progress: Option<ListProgress>,
        /// The documents that the target wants of those that it lacks, or `None` if it does not know its settings yet.
        selection: Option<Arc<Selection>>,
    },
    /// Asks for notes.
    Notes {
        /// The notes.
        unids: Vec<Unid>,
        /// `true` if documents are wanted truncated.
        are_truncated: bool,
    },
    /// Asks for the unread marks of all users that changed after a position, or for all marks without one.
    UnreadMarks {
        /// The position up to which the target has all marks.
        after: Option<Position>,
        /// How far the target has come since.
        place: Option<UnreadPlace>,
    },
}

/// A page of the list of unread marks.
#[derive(Clone, PartialEq, Debug)]
pub struct UnreadPage {
    /// The marks.
    pub marks: Vec<UnreadMarks>,
    /// The place behind the page.
    pub place: UnreadPlace,
    /// `true` if there are no further marks.
    pub is_last: bool,
}

/// A page of the list of changes.
#[derive(Clone, PartialEq, Debug)]
pub struct ListPage {
    /// The notes that changed, design notes first, then by ascending size.
    pub notes: Vec<ListedNote>,
    /// The position behind the page.
    pub position: Position,
    /// The position behind the last change of the source.
    pub seen: Position,
    /// `true` if the page belongs to a comparison of all notes: the target has no position, or changes after it are no
    /// longer known.
    pub is_comparison: bool,
    /// `true` if the target's position is not known here, so that no note is marked as old.
    pub is_position_unknown: bool,
    /// `true` if the source has no later changes.
    pub is_last: bool,
    /// The settings that replicas share, as the source has them, or `None` if it does not state them.
    pub settings: Option<SharedSettings>,
}

/// Notes of the source.
#[derive(Clone, Default)]
pub struct SourceNotes {
    /// The notes that exist, in the order of the question.
    pub notes: Vec<ReplicaNote>,
    /// The contents of their attachments, as far as the target lacks them.
    pub contents: Vec<Arc<PreparedBlob<'static>>>,
    /// Contents of their attachments that were stored while they arrived.
    pub arrived: Vec<Arc<ArrivedContent>>,
    /// Contents that other databases of the target have, and of which the source has proved that it knows them.
    pub proved: Vec<BlobId>,
    /// Notes whose contents are too large to arrive with the others. They are asked for again next. The other notes of
    /// the question are not all deferred.
    pub deferred: Vec<Unid>,
    /// Notes that exist and cannot be sent: they are damaged, or too large.
    pub unsent: Vec<Unid>,
}

/// An answer of the source.
#[derive(Clone)]
pub enum Answer {
    /// A page of the list of changes.
    Changes(ListPage),
    /// The notes that still exist.
    Notes(SourceNotes),
    /// A page of the list of unread marks.
    UnreadMarks(UnreadPage),
}

/// Answers a question from a snapshot of the source, without contents of attachments.
pub fn answer(snapshot: &DatabaseSnapshot<'_>, question: &Question) -> Result<Answer> {
    answer_in_pages(snapshot, question, CHANGES_PER_PAGE, &ReplicationSettings::default())
}

/// Answers a question as [`answer`] does, under the settings of the source for the target.
pub fn answer_with(
    snapshot: &DatabaseSnapshot<'_>,
    question: &Question,
    settings: &ReplicationSettings,
) -> Result<Answer> {
    answer_in_pages(snapshot, question, CHANGES_PER_PAGE, settings)
}

/// Answers a question as [`answer_with`] does, with about `changes_max` changes in a page.
pub fn answer_in_pages(
    snapshot: &DatabaseSnapshot<'_>,
    question: &Question,
    changes_max: usize,
    settings: &ReplicationSettings,
) -> Result<Answer> {
    match question {
        Question::Changes { after, progress, selection } => {
            let names = names_digest(snapshot, settings);
            let place = place_of(snapshot, names, *after, *progress)?;
            let selects_everything = selection.as_deref().is_none_or(Selection::is_everything);
            let place = Place { selects_everything, ..place };
            let mut page = page_at(snapshot, &place, changes_max)?;
            (page.position.names, page.seen.names) = (names, names);
            let everything = Selection::default();
            let selector = Selector::new(snapshot, selection.as_deref().unwrap_or(&everything))?;
            let mut notes = Vec::with_capacity(page.notes.len());
            for mut note in page.notes {
                if settings.without.contains(NotExchanged::DELETIONS_OUT) && is_deletion(snapshot, &note)? {
                    continue;
                }
                note.is_unselected = !selector.selects(snapshot, &note)?;
                notes.push(note);
            }
            page.notes = notes;
            Ok(Answer::Changes(page))
        }
        Question::Notes { unids, are_truncated } => {
            let mut found = SourceNotes::default();
            for unid in unids {
                let note = snapshot.find(*unid)?.map(|note| snapshot.replica_note(note)).transpose();
                match note {
                    Err(error) if error.is_damage() => {
                        log_unsent(snapshot, *unid, &error);
                        found.unsent.push(*unid);
                    }
                    note => found.add(note?.flatten(), *are_truncated),
                }
            }
            Ok(Answer::Notes(found))
        }
        Question::UnreadMarks { after, place } => {
            unread_page(snapshot, *after, place.as_ref(), changes_max).map(Answer::UnreadMarks)
        }
    }
}

impl SourceNotes {
    /// Adds a note, unless the source has a part of it only and the whole is wanted.
    fn add(&mut self, note: Option<ReplicaNote>, is_wanted_truncated: bool) {
        let Some(mut note) = note else { return };
        if is_wanted_truncated {
            note.truncate();
        } else if note.is_truncated {
            self.unsent.push(note.unid);
            return;
        }
        self.notes.push(note);
    }
}

/// Returns the unread marks at the place of a target, up to the end of a transaction. The page has about as many marks
/// as a page of changes has changes, but at most about [`MARKS_PER_PAGE`].
///
/// The rules are those of [`place_of`]. In a list of everything, the marks without times follow those that have some.
fn unread_page(
    snapshot: &DatabaseSnapshot<'_>,
    after: Option<Position>,
    place: Option<&UnreadPlace>,
    changes_max: usize,
) -> Result<UnreadPage> {
    let marks_max = changes_max.saturating_mul(MARKS_PER_PAGE / CHANGES_PER_PAGE).max(1);
    let names = snapshot.grant().names_digest();
    let has_same_names = |position: &Position| position.names == names;
    let received = after.filter(has_same_names).map(|position| snapshot.last_common(position)).transpose()?.flatten();
    let begin = match received {
        Some(received) if snapshot.is_unread_complete_since(received)? => Some(received),
        _ => None,
    };
    let mut reached = UnreadPlace {
        changes: ListProgress {
            position: position_after(snapshot, begin.unwrap_or(Modseq(0)))?,
            seen: position_after(snapshot, snapshot.modseq())?,
            is_comparison: begin.is_none(),
        },
        without_times: None,
    };
    if let Some(place) = place.filter(|place| has_same_names(&place.changes.position)) {
        let ListProgress { seen, is_comparison, .. } = place.changes;
        let is_begun = is_comparison || begin.is_some();
        if is_begun && snapshot.last_common(seen)? == Some(seen.modseq) {
            reached.changes = ListProgress { seen: reached.changes.seen, ..place.changes };
            reached.without_times.clone_from(&place.without_times);
        }
    }
    let ListProgress { position, is_comparison, .. } = reached.changes;
    if let Some(behind) = &reached.without_times {
        let (marks, next) = snapshot.unread_without_times(behind, marks_max)?;
        let is_last = next.is_none();
        return Ok(UnreadPage { marks, place: UnreadPlace { without_times: next, ..reached }, is_last });
    }
    let since = if is_comparison { Modseq(0) } else { begin.unwrap_or(Modseq(0)) };
    let (marks, next) = snapshot.unread_changes(since, position.modseq, marks_max)?;
    reached.changes.position = position_after(snapshot, next.unwrap_or(snapshot.modseq()))?;
    reached.without_times = (next.is_none() && is_comparison).then(Vec::new);
    let is_last = next.is_none() && !is_comparison;
    Ok(UnreadPage { marks, place: reached, is_last })
}

/// Logs that a note of the source cannot be sent.
pub fn log_unsent(snapshot: &DatabaseSnapshot<'_>, unid: Unid, error: &Error) {
    let database = snapshot.database().path();
    tracing::error!(target: "replica", database, %unid, %error, "a note cannot be sent to another server");
}

/// Returns the digest of what a target may see: its names, and whether it gets deletions. With another digest it gets
/// everything anew.
fn names_digest(snapshot: &DatabaseSnapshot<'_>, settings: &ReplicationSettings) -> [u8; 16] {
    let mut names = snapshot.grant().names_digest();
    names[0] ^= (settings.without & NotExchanged::DELETIONS_OUT).bits();
    names
}

fn is_deletion(snapshot: &DatabaseSnapshot<'_>, note: &ListedNote) -> Result<bool> {
    let found = snapshot.find(note.unid)?.map(|id| snapshot.header(id)).transpose()?.flatten();
    Ok(found.is_some_and(|header| header.is_stub()))
}

/// The place in the changes of the source at which a page begins.
struct Place {
    since: Modseq,
    is_comparison: bool,
    is_position_unknown: bool,
    /// The last change that the target has received, if that is known.
    received: Option<Modseq>,
    /// `true` if the target reads under the same names as then.
    has_same_names: bool,
    /// `true` if the settings of the target leave no documents out.
    selects_everything: bool,
}

/// Returns where a target continues.
///
/// What was begun is continued, unless this replica was set back since. Otherwise the target gets the changes after its
/// position, or all notes if deletions after it were purged here, or other notes may be visible to it than before.
fn place_of(
    snapshot: &DatabaseSnapshot<'_>,
    names: [u8; 16],
    after: Option<Position>,
    progress: Option<ListProgress>,
) -> Result<Place> {
    let received = after.map(|position| snapshot.last_common(position)).transpose()?.flatten();
    let has_same_names = after.is_some_and(|position| position.names == names);
    let place = |since, is_comparison| Place {
        since,
        is_comparison,
        is_position_unknown: is_comparison && after.is_some() && received.is_none(),
        received,
        has_same_names,
        selects_everything: true,
    };
    let is_complete = |since: &Modseq| has_same_names && snapshot.is_complete_since(*since);
    let begin = received.filter(is_complete);
    if let Some(ListProgress { position, seen, is_comparison }) = progress {
        let is_valid = position.names == names && (is_comparison || begin.is_some());
        if is_valid && snapshot.last_common(seen)? == Some(seen.modseq) {
            return Ok(place(position.modseq, is_comparison));
        }
    }
    Ok(match begin {
        Some(received) => place(received, false),
        None => place(Modseq(0), true),
    })
}

/// Returns the changes at a place, up to the end of a transaction.
fn page_at(snapshot: &DatabaseSnapshot<'_>, place: &Place, changes_max: usize) -> Result<ListPage> {
    let mut changes_max = changes_max;
    loop {
        let page = page_of(snapshot, place, changes_max)?;
        let states = page.notes.iter().map(|note| note.state.len()).sum::<usize>();
        if states <= STATES_PER_PAGE || changes_max <= 1 {
            return Ok(page);
        }
        changes_max /= 2;
    }
}

/// Returns about a number of changes at a place, up to the end of a transaction.
fn page_of(snapshot: &DatabaseSnapshot<'_>, place: &Place, changes_max: usize) -> Result<ListPage> {
    let changes = snapshot.visible_transactions(place.since, changes_max)?;
    let is_last = changes.next.is_none();
    let modseq = changes.next.unwrap_or(snapshot.modseq());
    let mut ids: Vec<_> = changes.entries.into_iter().map(|change| change.note).collect();
    ids.sort_unstable();
    ids.dedup();
    let is_old = |header: &NoteHeader| {
        let was_visible = place.has_same_names || !header.flags.contains(NoteFlags::HAS_READERS);
        // A document that was left out may be selected now because it is in another folder.
        let changed = if place.selects_everything { header.saved_modseq } else { header.modseq };
        was_visible && place.received.is_some_and(|received| changed <= received)
    };
    let mut notes = Vec::with_capacity(ids.len());
    for note in ids {
        notes.extend(list_note(snapshot, note, &is_old)?);
    }
    add_folders(snapshot, modseq, &is_old, &mut notes)?;
    notes.sort_by_key(|note| (!note.class.is_design(), note.size, note.unid));
    let position = position_after(snapshot, modseq)?;
    let seen = position_after(snapshot, snapshot.modseq())?;
    let Place { is_comparison, is_position_unknown, .. } = *place;
    let settings = Some(snapshot.database().record().shared_settings());
    Ok(ListPage { notes, position, seen, is_comparison, is_position_unknown, is_last, settings })
}

/// Returns the position behind a change of the source.
fn position_after(snapshot: &DatabaseSnapshot<'_>, modseq: Modseq) -> Result<Position> {
    let reason = "it has no position for replicas; upgrade its structure again";
    let missing = || Error::invalid(format!("database {}", snapshot.database().path()), reason);
    snapshot.position(modseq)?.ok_or_else(missing)
}

/// Adds the folders of listed notes that changed after the page: the target needs them first.
fn add_folders(
    snapshot: &DatabaseSnapshot<'_>,
    end: Modseq,
    is_old: &dyn Fn(&NoteHeader) -> bool,
    notes: &mut Vec<ListedNote>,
) -> Result<()> {
    let mut seen: HashSet<Unid> = notes.iter().map(|note| note.unid).collect();
    let states = notes.iter().flat_map(|note| &note.state);
    let folders: Vec<Unid> = states
        .filter_map(|(name, _)| match name {
            StateName::Folder(unid) => Some(*unid),
            _ => None,
        })
        .filter(|unid| seen.insert(*unid))
        .collect();
    for unid in folders {
        let Some(note) = snapshot.find(unid)? else { continue };
        if snapshot.header(note)?.is_some_and(|header| header.modseq > end) {
            notes.extend(list_note(snapshot, note, is_old)?);
        }
    }
    Ok(())
}

/// Lists a note. One whose header is damaged has no name for other servers, and is left out.
fn list_note(
    snapshot: &DatabaseSnapshot<'_>,
    note: NoteId,
    is_old: &dyn Fn(&NoteHeader) -> bool,
) -> Result<Option<ListedNote>> {
    match snapshot.listed_note(note, is_old) {
        Err(error) if error.is_damage() => {
            let database = snapshot.database().path();
            tracing::error!(target: "replica", database, %note, %error, "a note cannot be listed for another server");
            Ok(None)
        }
        listed => listed,
    }
}
