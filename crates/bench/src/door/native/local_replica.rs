//! The local replica of a user, as far as the driver simulates it: its documents without their contents, and the
//! changes that have not been brought to the server.
//!
//! The verbs that read or change documents make no calls. They concern the newest documents, of which the replica knows
//! identifier, revision and mark; how many there are besides is all that it knows of the others. A change is kept with
//! its time, and `replicate` ([`super::replicating`]) brings it. What a document says follows from the plan, so the
//! driver keeps no contents.
//!
//! Limits: at most [`DOCUMENTS_MAX`] documents, and as many changes. A change beyond that is skipped.

use std::collections::{BTreeMap, VecDeque};

use client::v1;
use client::v1::state_value::Name;

use super::database_filling::category_name;
use super::exchange::ChangeList;
use super::memory::{OpenView, ReadDocument, Row};
use super::replica_notes::Revision;
use super::session::{CallCount, CallError, Session};
use super::{DONE, StepContext, StepOutcome};
use crate::door::rows::ROWS_MAX;
use crate::plan::databases::INBOX;
use crate::plan::steps::PlanAction;
use crate::plan::stream::Draw;
use crate::population::databases::CATEGORIES;
use crate::wall_clock;
use crate::workload::action::{Action, Document, Position};
use crate::workload::verb::Verb;

/// Maximum number of documents that are known, and of changes.
const DOCUMENTS_MAX: usize = ROWS_MAX;
/// The number of the mark of documents that were read.
pub(super) const SEEN: u32 = 0;

/// A document of the replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownDocument {
    /// The universal identifier.
    pub(super) unid: [u8; 16],
    /// The revision that the replica has.
    pub(super) revision: Revision,
    /// The user has read it.
    pub(super) is_read: bool,
}

/// A change that was made in the replica.
#[derive(Debug, Clone)]
pub(super) struct Change {
    /// When it was made, in microseconds since 1970.
    pub(super) time_us: i64,
    /// What was changed.
    pub(super) kind: ChangeKind,
}

/// What was changed.
#[derive(Debug, Clone)]
pub(super) enum ChangeKind {
    /// A document was marked as read.
    Read(KnownDocument),
    /// A document got another category.
    Update(KnownDocument, String),
    /// A document was moved from the inbox to a folder.
    Move(KnownDocument, String),
    /// A document was deleted.
    Delete(KnownDocument),
    /// A document was added.
    Add(AddedDocument),
}

/// A document that was added in the replica. Its contents follow from the action.
#[derive(Debug, Clone)]
pub(super) struct AddedDocument {
    /// The universal identifier.
    pub(super) unid: [u8; 16],
    /// The step that has added it.
    pub(super) action: PlanAction,
    /// The folder that holds it.
    pub(super) folder: Option<String>,
    /// The document to which it is a response.
    pub(super) parent: Option<[u8; 16]>,
}

/// The local replica of a user.
#[derive(Debug)]
pub(super) struct LocalReplica {
    /// The position up to which the replica has everything.
    pub(super) position: Option<v1::ReplicaPosition>,
    /// The state of the server after the last push.
    pub(super) server_state: Option<v1::ReplicaPosition>,
    /// The UNIDs of folders by name.
    pub(super) folders: BTreeMap<String, Vec<u8>>,
    /// The documents that are known, the newest last.
    pub(super) documents: VecDeque<KnownDocument>,
    /// The documents of the replica, known or not.
    pub(super) count: u64,
    /// The changes that were not brought, in their order.
    pub(super) changes: Vec<Change>,
    /// The revisions that were brought since the last list of changes was read to its end, at most [`DOCUMENTS_MAX`].
    brought: BTreeMap<[u8; 16], Revision>,
    /// The first row of the next screen, from the newest document on.
    next_row: usize,
}

impl LocalReplica {
    /// Creates the replica as it is before the run: complete. Only the list of the notes is read, not their contents.
    pub(super) async fn complete(
        session: &Session,
        count: &mut CallCount,
        is_mail_file: bool,
    ) -> Result<Self, CallError> {
        let mut folders = BTreeMap::new();
        if is_mail_file {
            folders.insert(INBOX.to_owned(), session.folder_unid(count, INBOX).await?);
        }
        let mut replica = Self {
            position: None,
            server_state: None,
            folders,
            documents: VecDeque::new(),
            count: 0,
            changes: Vec::new(),
            brought: BTreeMap::new(),
            next_row: 0,
        };
        let mut list = ChangeList::after(None);
        while let Some(page) = list.next_page(session, count).await? {
            page.iter().for_each(|note| replica.learn(note));
        }
        replica.position = list.into_position();
        Ok(replica)
    }

    /// Returns the document with an identifier, if it is known.
    pub(super) fn find(&self, unid: &[u8]) -> Option<&KnownDocument> {
        self.documents.iter().find(|document| document.unid[..] == *unid)
    }

    /// Adds to what is known that the replica has brought a revision. If there are too many, it will be received again.
    /// Deletions are not remembered: the list does not say that they are some.
    pub(super) fn bring(&mut self, unid: [u8; 16], revision: Revision) {
        if self.brought.len() < DOCUMENTS_MAX || self.brought.contains_key(&unid) {
            self.brought.insert(unid, revision);
        }
    }

    /// Returns `true` if the replica lacks a version that the server has listed.
    pub(super) fn lacks(&self, note: &v1::ListedNote) -> bool {
        if note.old || note.truncated {
            return false;
        }
        let Some(revision) = Revision::of_proto(note.revision.clone()) else { return true };
        let brought = <[u8; 16]>::try_from(&note.unid[..]).ok().and_then(|unid| self.brought.get(&unid));
        let known = self.find(&note.unid).map(|known| known.revision);
        brought != Some(&revision) && known != Some(revision)
    }

    /// Ends a list of changes, with the position behind it.
    pub(super) fn end_list(&mut self, position: Option<v1::ReplicaPosition>) {
        self.position = position;
        self.brought.clear();
    }

    /// Learns of a version that the server has. It becomes the newest document unless it is known, or is one of the
    /// older documents, of which only the marks have changed.
    pub(super) fn learn(&mut self, note: &v1::ListedNote) {
        let revision = Revision::of_proto(note.revision.clone());
        let (Ok(unid), Some(revision)) = (<[u8; 16]>::try_from(&note.unid[..]), revision) else { return };
        if note.note_class() != v1::NoteClass::Document || !self.is_listed(note) {
            self.forget(&unid);
            return;
        }
        let is_set = |state: &v1::StateValue| state.set && state.name == Some(Name::Mark(SEEN));
        let new = KnownDocument { unid, revision, is_read: note.states.iter().any(is_set) };
        let has_older = self.count > self.documents.len() as u64;
        match self.documents.iter_mut().find(|document| document.unid == unid) {
            Some(document) => *document = new,
            None if note.old && has_older => {}
            None => self.add(new),
        }
    }

    /// Adds a document as the newest one. If there are too many, the oldest is no longer known.
    pub(super) fn add(&mut self, document: KnownDocument) {
        if self.documents.len() == DOCUMENTS_MAX {
            self.documents.pop_front();
        }
        self.documents.push_back(document);
        self.count += 1;
    }

    /// Removes a document that is no longer in the list.
    pub(super) fn forget(&mut self, unid: &[u8]) {
        let before = self.documents.len();
        self.documents.retain(|document| document.unid[..] != *unid);
        self.count = self.count.saturating_sub((before - self.documents.len()) as u64);
    }

    /// Returns `true` if a document is in the inbox, or in a database that is no mail file.
    fn is_listed(&self, note: &v1::ListedNote) -> bool {
        let Some(inbox) = self.folders.get(INBOX) else { return true };
        let is_inbox = |state: &v1::StateValue| {
            state.set && matches!(&state.name, Some(Name::FolderUnid(folder)) if folder == inbox)
        };
        note.states.iter().any(is_inbox)
    }

    /// Returns `true` if no further change is kept.
    pub(super) fn is_full(&self) -> bool {
        self.changes.len() >= DOCUMENTS_MAX
    }

    /// Keeps a change, or returns `false` if there are too many.
    fn change(&mut self, time_us: i64, kind: ChangeKind) -> bool {
        let has_capacity = !self.is_full();
        if has_capacity {
            self.changes.push(Change { time_us, kind });
        }
        has_capacity
    }

    /// Removes the first changes of a kind, which were brought or refused.
    pub(super) fn end_changes(&mut self, mut count: usize, is_ended: impl Fn(&ChangeKind) -> bool) {
        self.changes.retain(|change| {
            let ends = count > 0 && is_ended(&change.kind);
            count -= usize::from(ends);
            !ends
        });
    }

    /// Deletes a document. One that was never brought vanishes with its changes.
    fn delete(&mut self, time_us: i64, document: KnownDocument) -> bool {
        self.forget(&document.unid);
        let is_new = self.changes.iter().any(|change| change.kind.unid() == document.unid && change.kind.is_add());
        self.changes.retain(|change| change.kind.unid() != document.unid);
        is_new || self.change(time_us, ChangeKind::Delete(document))
    }
}

impl ChangeKind {
    fn unid(&self) -> [u8; 16] {
        match self {
            Self::Read(document) | Self::Update(document, _) | Self::Move(document, _) | Self::Delete(document) => {
                document.unid
            }
            Self::Add(added) => added.unid,
        }
    }

    /// Returns `true` if a document was added.
    pub(super) fn is_add(&self) -> bool {
        matches!(self, Self::Add(_))
    }
}

/// Returns the row of a document in the replica, which has no note id on the server.
fn row(unid: [u8; 16]) -> Row {
    Row { note_id: 0, unid }
}

impl StepContext<'_> {
    /// Performs a verb in the local replica. Returns `None` if there is no replica, or if the verb needs the server.
    pub(super) fn perform_locally(&mut self) -> Option<StepOutcome> {
        self.replica.as_ref()?;
        let action = self.action;
        Some(match (action.verb(), action.keys()) {
            (Verb::OpenDatabase | Verb::ListUnread | Verb::Search | Verb::ReadAttachment, _) => DONE,
            (Verb::OpenView, _) => self.open_local_view(),
            (Verb::ScrollView, Action::Scroll { rows, at }) => self.scroll_local_view(*rows, *at),
            (Verb::Read, Action::Read { of, .. }) => self.read_locally(*of),
            (Verb::Update, Action::Document { of }) => {
                let category = self.action.stream(Draw::Content).below(CATEGORIES);
                self.change_locally(*of, |known| ChangeKind::Update(known, category_name(category)))
            }
            (Verb::Move, Action::Move { of, to }) => {
                self.change_locally(*of, |known| ChangeKind::Move(known, to.clone()))
            }
            (Verb::Delete, Action::Document { of }) => self.delete_locally(*of),
            (Verb::Add, _) => self.add_locally(self.inbox_name(), None),
            (Verb::Respond, Action::Answer { of, .. }) => match self.local_document(*of) {
                Some(parent) => self.add_locally(self.inbox_name(), Some(parent.unid)),
                None => StepOutcome::Skipped,
            },
            (Verb::Appointment, _) => self.add_locally(None, None),
            _ => return None,
        })
    }

    /// Adds a document to the replica whose contents are those of the step.
    pub(super) fn add_locally(&mut self, folder: Option<String>, parent: Option<[u8; 16]>) -> StepOutcome {
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        let time_us = wall_clock::now().0;
        let unid = new_unid(self.action, time_us);
        let is_in_inbox = folder.as_deref().is_none_or(|folder| folder == INBOX);
        let is_listed = is_in_inbox && self.action.verb() != Verb::Appointment;
        let added = AddedDocument { unid, action: self.action.clone(), folder, parent };
        if !replica.change(time_us, ChangeKind::Add(added)) {
            return StepOutcome::Skipped;
        }
        if is_listed {
            replica.add(KnownDocument { unid, revision: Revision::first(unid, time_us), is_read: true });
            self.memory.rows.add_own(row(unid));
        }
        DONE
    }

    fn inbox_name(&self) -> Option<String> {
        self.workplace.is_mail_file().then(|| INBOX.to_owned())
    }

    fn open_local_view(&mut self) -> StepOutcome {
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        replica.next_row = 0;
        let entries = replica.count;
        self.memory.view = Some(OpenView { view_id: 0, entries, is_oldest_first: true, next: None });
        DONE
    }

    fn scroll_local_view(&mut self, rows: u64, at: Position) -> StepOutcome {
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        let known = replica.documents.len();
        let first = match at {
            Position::First => 0,
            Position::Next => replica.next_row,
            Position::Random => self.action.document_fraction().index_of(known).unwrap_or(0),
        };
        let rows = usize::try_from(rows).unwrap_or(ROWS_MAX).min(ROWS_MAX);
        let screen = replica.documents.iter().rev().skip(first).take(rows).map(|known| row(known.unid)).collect();
        // After the last screen the first one follows.
        replica.next_row = if first + rows < known { first + rows } else { 0 };
        self.memory.rows.set_screen(screen);
        DONE
    }

    fn read_locally(&mut self, of: Document) -> StepOutcome {
        let Some(known) = self.local_document(of) else { return StepOutcome::Skipped };
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        if !known.is_read && replica.change(wall_clock::now().0, ChangeKind::Read(known)) {
            let document = replica.documents.iter_mut().find(|document| document.unid == known.unid);
            document.into_iter().for_each(|document| document.is_read = true);
        }
        self.memory.last = Some(ReadDocument::without_contents(row(known.unid)));
        DONE
    }

    fn change_locally(&mut self, of: Document, change: impl FnOnce(KnownDocument) -> ChangeKind) -> StepOutcome {
        let Some(known) = self.local_document(of) else { return StepOutcome::Skipped };
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        let kind = change(known);
        let is_move = matches!(kind, ChangeKind::Move(..));
        if !replica.change(wall_clock::now().0, kind) {
            return StepOutcome::Skipped;
        }
        if is_move {
            replica.forget(&known.unid);
            self.memory.forget(row(known.unid));
        }
        DONE
    }

    fn delete_locally(&mut self, of: Document) -> StepOutcome {
        let Some(known) = self.local_document(of) else { return StepOutcome::Skipped };
        let Some(replica) = self.replica.as_mut() else { return StepOutcome::Skipped };
        self.memory.forget(row(known.unid));
        if replica.delete(wall_clock::now().0, known) { DONE } else { StepOutcome::Skipped }
    }

    /// Returns the document of the step, if the replica knows it.
    fn local_document(&mut self, of: Document) -> Option<KnownDocument> {
        let repetition = self.action.repetition();
        if of == Document::Newest && repetition == 0 {
            let wanted = usize::try_from(self.action.repetitions()).unwrap_or(ROWS_MAX);
            let newest = self.replica.as_ref()?.documents.iter().rev().take(wanted).map(|known| row(known.unid));
            self.memory.rows.set_newest(newest.collect());
        }
        let row = self.memory.pick(of, self.action.document_fraction(), repetition)?;
        self.replica.as_ref()?.find(&row.unid).copied()
    }
}

/// Returns the identifier of a document that a step adds: the time, and a number of the plan.
fn new_unid(action: &PlanAction, time_us: i64) -> [u8; 16] {
    let mut unid = [0; 16];
    unid[..8].copy_from_slice(&time_us.to_be_bytes());
    unid[8..].copy_from_slice(&action.stream(Draw::Identifier).into_numbers().number().to_be_bytes());
    unid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica() -> LocalReplica {
        LocalReplica {
            position: None,
            server_state: None,
            folders: BTreeMap::from([(INBOX.to_owned(), vec![9; 16])]),
            documents: VecDeque::new(),
            count: 0,
            changes: Vec::new(),
            brought: BTreeMap::new(),
            next_row: 0,
        }
    }

    fn listed(unid: u8, states: &[(Name, bool)]) -> v1::ListedNote {
        let states = states.iter().map(|(name, set)| v1::StateValue {
            name: Some(name.clone()),
            set: *set,
            ..v1::StateValue::default()
        });
        v1::ListedNote {
            unid: vec![unid; 16],
            note_class: v1::NoteClass::Document.into(),
            revision: Some(Revision::first([unid; 16], 1).to_proto()),
            states: states.collect(),
            ..v1::ListedNote::default()
        }
    }

    fn inbox(unid: u8) -> v1::ListedNote {
        listed(unid, &[(Name::FolderUnid(vec![9; 16]), true)])
    }

    #[test]
    fn the_list_of_the_server_gives_the_documents_of_the_inbox() {
        let mut replica = replica();
        replica.learn(&inbox(1));
        replica.learn(&listed(2, &[(Name::FolderUnid(vec![8; 16]), true)]));
        replica.learn(&listed(3, &[(Name::FolderUnid(vec![9; 16]), true), (Name::Mark(SEEN), true)]));
        replica.learn(&v1::ListedNote { note_class: v1::NoteClass::View.into(), ..inbox(4) });
        let known: Vec<_> = replica.documents.iter().map(|document| (document.unid[0], document.is_read)).collect();
        assert_eq!(known, [(1, false), (3, true)]);
        replica.learn(&listed(3, &[(Name::FolderUnid(vec![9; 16]), false)]));
        assert_eq!((replica.documents.len(), replica.count), (1, 1), "it has left the inbox");
    }

    #[test]
    fn a_document_that_was_never_brought_vanishes_with_its_changes() {
        let mut replica = replica();
        replica.learn(&inbox(1));
        let known = *replica.find(&[1; 16]).expect("a document");
        assert!(replica.change(5, ChangeKind::Update(known, "x".to_owned())));
        assert!(replica.delete(6, known));
        let kinds: Vec<_> = replica.changes.iter().map(|change| (change.time_us, change.kind.is_add())).collect();
        assert_eq!(kinds, [(6, false)], "only the deletion is brought");
        assert_eq!(replica.count, 0);
    }

    #[test]
    fn documents_and_changes_are_bounded() {
        let mut replica = replica();
        for number in 0..DOCUMENTS_MAX as u64 + 5 {
            let mut unid = [0; 16];
            unid[..8].copy_from_slice(&number.to_be_bytes());
            let known = KnownDocument { unid, revision: Revision::first(unid, 1), is_read: false };
            replica.add(known);
            assert_eq!(replica.change(1, ChangeKind::Read(known)), number < DOCUMENTS_MAX as u64);
        }
        assert_eq!((replica.documents.len(), replica.changes.len()), (DOCUMENTS_MAX, DOCUMENTS_MAX));
        assert_eq!(replica.count, DOCUMENTS_MAX as u64 + 5);
    }

    #[test]
    fn what_was_brought_is_not_received_until_the_list_has_ended() {
        let mut replica = replica();
        let brought = listed(1, &[]);
        assert!(replica.lacks(&brought));
        replica.bring([1; 16], Revision::first([1; 16], 1));
        assert!(!replica.lacks(&brought));
        let next = Revision::first([1; 16], 1).child(2, 0).to_proto();
        assert!(replica.lacks(&v1::ListedNote { revision: Some(next), ..listed(1, &[]) }), "it was changed since");
        replica.end_list(None);
        assert!(replica.lacks(&brought));
    }

    #[test]
    fn older_documents_do_not_become_new_by_their_marks() {
        let mut replica = replica();
        replica.learn(&inbox(1));
        replica.documents.clear();
        replica.learn(&v1::ListedNote { old: true, ..inbox(1) });
        assert_eq!((replica.documents.len(), replica.count), (0, 1));
        replica.learn(&inbox(2));
        assert_eq!((replica.documents.len(), replica.count), (1, 2));
    }

    #[test]
    fn only_changes_that_were_brought_end() {
        let mut replica = replica();
        for unid in 1..=4 {
            replica.learn(&inbox(unid));
            let known = *replica.find(&[unid; 16]).expect("a document");
            let kind = if unid == 2 { ChangeKind::Delete(known) } else { ChangeKind::Read(known) };
            assert!(replica.change(1, kind));
        }
        replica.end_changes(2, |kind| matches!(kind, ChangeKind::Read(_)));
        let left: Vec<_> = replica.changes.iter().map(|change| change.kind.unid()[0]).collect();
        assert_eq!(left, [2, 4]);
    }
}
