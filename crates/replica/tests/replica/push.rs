//! Pushes of local replicas: cut at any call, refused documents, and what has come from the server.

use std::sync::Arc;

use base::{Name, Unid};
use notes::instance::Position;
use notes::limits::MISSED_NOTES_MAX;
use notes::replica::{ListedNote, ReceiveOutcome, ReplicaNote};
use notes::{Access, Error, Identity, Item, Marks, NewNote, Result, level};
use replica::{Push, PushStatistics, PushTarget, Written};
use revision::{DeletionRule, conflict_document_unid};
use store::blob::BlobId;

use crate::exchange::Server;

/// The server of a push, on which Ann saves what she brings.
pub(crate) struct Hub<'h> {
    server: &'h Server,
    /// Number of calls until one fails.
    pub(crate) calls_left: usize,
    /// A document that is refused.
    pub(crate) refused: Option<Unid>,
    refuses_all: bool,
    /// `true` if it says that it has what it refuses.
    pub(crate) lies: bool,
    /// `true` if documents arrive twice: the first answer was lost, or another program brings them at the same time.
    pub(crate) repeats: bool,
}

impl<'h> Hub<'h> {
    pub(crate) fn new(server: &'h Server) -> Self {
        Self { server, calls_left: usize::MAX, refused: None, refuses_all: false, lies: false, repeats: false }
    }

    fn call(&mut self) -> Result<()> {
        self.calls_left = self.calls_left.checked_sub(1).ok_or_else(|| Error::not_found("the server"))?;
        Ok(())
    }
}

impl PushTarget for Hub<'_> {
    type Error = Error;

    fn offer(&mut self, notes: &[ListedNote]) -> Result<(Vec<usize>, u64)> {
        self.call()?;
        let access: Access<level::Reader> = self.server.database.authorize(&self.server.ann())?;
        let reading = access.read()?;
        let mut missing = Vec::new();
        for (index, note) in notes.iter().enumerate() {
            if !reading.knows_brought(note.unid, note.revision)? {
                missing.push(index);
            }
        }
        Ok((missing, 0))
    }

    fn missing_contents(&mut self, contents: &[(Unid, BlobId)]) -> Result<Vec<usize>> {
        self.call()?;
        Ok((0..contents.len()).collect())
    }

    fn write(&mut self, notes: Vec<ReplicaNote>, contents: Vec<(BlobId, Vec<u8>)>) -> Result<Vec<Written>> {
        self.call()?;
        assert!(contents.is_empty(), "the documents have no attachments");
        let outcomes = notes.into_iter().map(|note| {
            if self.refuses_all || Some(note.unid) == self.refused {
                if self.lies {
                    return Written::Known;
                }
                return Written::Refused("the test says so".to_owned());
            }
            let write =
                |writer: &mut notes::Writer<'_, '_>| writer.note_receive_from_person(&note, DeletionRule::EditsCount);
            if self.repeats {
                self.server.write(write);
            }
            let outcome = match self.server.write(write) {
                // The stub of the document was written again.
                ReceiveOutcome::Later => self.server.write(write),
                outcome => outcome,
            };
            match outcome {
                ReceiveOutcome::Known { .. } => Written::Known,
                ReceiveOutcome::Merged => Written::Merged,
                ReceiveOutcome::Conflict => Written::Conflict,
                _ => Written::Taken,
            }
        });
        Ok(outcomes.collect())
    }

    fn has(&mut self, state: Position) -> Result<bool> {
        self.call()?;
        let access: Access<level::Reader> = self.server.database.authorize(&self.server.ann())?;
        Ok(access.read()?.last_common(state)? == Some(state.modseq))
    }

    fn state(&mut self) -> Result<Option<Position>> {
        self.call()?;
        let access: Access<level::Reader> = self.server.database.authorize(&self.server.ann())?;
        let reading = access.read()?;
        reading.position(reading.modseq())
    }

    fn report(&mut self, _statistics: &PushStatistics) -> Result<()> {
        Ok(())
    }
}

fn itself() -> Arc<Identity> {
    Arc::new(Identity::local_server("local"))
}

fn name(hub: &Server) -> Name {
    Name::new(&hub.name)
}

pub(crate) fn begin(local: &Server, hub: &Server) -> Push {
    Push::begin(&local.databases, &local.database, &itself(), &name(hub)).expect("a sound store")
}

fn push(local: &Server, hub: &mut Hub<'_>) -> (Result<()>, PushStatistics) {
    let mut push = begin(local, hub.server);
    let outcome = push.run(hub);
    (outcome, push.statistics().clone())
}

#[test]
fn a_push_that_is_cut_at_any_call_continues() {
    let mut has_ended = false;
    for calls in 0..20 {
        let hub = Server::new(1);
        let local = Server::new(2);
        let notes: Vec<_> = (1..=9).map(|number| local.create(number)).collect();
        let (outcome, _) = push(&local, &mut Hub { calls_left: calls, ..Hub::new(&hub) });
        has_ended |= outcome.is_ok();
        local.write(|writer| writer.note_delete(notes[0]));
        local.write(|writer| writer.note_update(notes[1], 1, &[Item::text("Subject", "later")], &[]));
        let (outcome, _) = push(&local, &mut Hub::new(&hub));
        outcome.expect("the server answers");
        assert!(!hub.has(1) && (2..=9).all(|number| hub.has(number)), "cut at call {calls}");
        let (_, again) = push(&local, &mut Hub::new(&hub));
        assert_eq!((again.offered, again.taken), (0, 0), "cut at call {calls}");
    }
    assert!(has_ended, "the last of them were not cut");
}

#[test]
fn refused_documents_are_offered_again() {
    let hub = Server::new(1);
    let local = Server::new(2);
    let note = local.create(1);
    local.create(2);
    for _ in 0..2 {
        let (outcome, statistics) = push(&local, &mut Hub { refused: Some(Unid([1; 16])), ..Hub::new(&hub) });
        outcome.expect("the others are taken");
        assert_eq!(statistics.refused.len(), 1, "{statistics:?}");
        assert!(!hub.has(1) && hub.has(2));
    }
    local.write(|writer| writer.note_delete(note));
    let (outcome, statistics) = push(&local, &mut Hub::new(&hub));
    outcome.expect("the server answers");
    assert_eq!(statistics.refused, [], "the deletion of a document that is unknown there");
    let (_, statistics) = push(&local, &mut Hub::new(&hub));
    assert_eq!(statistics.offered, 0);
}

#[test]
fn what_has_come_is_not_offered_back() {
    let hub = Server::new(1);
    let local = Server::new(2);
    local.create(1);
    assert!(begin(&local, &hub).has_changes().expect("a sound store"));
    begin(&local, &hub).skip_received().expect("a sound store");
    assert!(!begin(&local, &hub).has_changes().expect("a sound store"));
    local.create(2);
    let (outcome, statistics) = push(&local, &mut Hub::new(&hub));
    outcome.expect("the server answers");
    assert_eq!((statistics.offered, statistics.taken), (1, 1));
}

#[test]
fn a_losing_version_that_arrives_twice_keeps_its_conflict_document() {
    let hub = Server::new(1);
    let local = Server::new(2);
    hub.create(1);
    local.pull(&hub);
    let copy = local.write(|writer| writer.find(Unid([1; 16]))).expect("it has come");
    local.save(1, "of the local replica");
    let lost = local.write(|writer| writer.header(copy)).expect("it exists").revision();
    hub.save(1, "of the hub");
    hub.save(1, "of the hub, again");
    push(&local, &mut Hub { repeats: true, ..Hub::new(&hub) }).0.expect("the server answers");
    let kept = hub.write(|writer| {
        let found = writer.find(conflict_document_unid(Unid([1; 16]), lost))?;
        found.map(|found| writer.note(found)).transpose()
    });
    let kept = kept.flatten().expect("the edit is kept");
    assert_eq!(kept.text("Subject"), Some("of the local replica"));
}

#[test]
fn nothing_is_skipped_if_too_many_documents_were_refused() {
    let hub = Server::new(1);
    let local = Server::new(2);
    let count = MISSED_NOTES_MAX + 1;
    local.write(|writer| {
        for number in 0..count {
            writer.note_create(NewNote::document(vec![Item::text("Subject", number.to_string())]))?;
        }
        Ok(())
    });
    let mut first = begin(&local, &hub);
    first.run(&mut Hub { refuses_all: true, ..Hub::new(&hub) }).expect("the server answers");
    assert_eq!(first.statistics().refused.len(), count);
    first.skip_received().expect("a sound store");
    let (outcome, statistics) = push(&local, &mut Hub::new(&hub));
    outcome.expect("the server answers");
    assert_eq!(statistics.taken, count as u64, "they are offered again");
}

#[test]
fn a_server_that_was_set_back_gets_everything_again() {
    let hub = Server::new(1);
    let local = Server::new(2);
    local.create(1);
    push(&local, &mut Hub::new(&hub)).0.expect("the server answers");
    let (_, again) = push(&local, &mut Hub::new(&hub));
    assert_eq!(again.offered, 0);
    // A copy of the data from before the push, which has other changes since.
    let copy = Server { name: hub.name.clone(), ..Server::new(3) };
    copy.create(5);
    assert!(!copy.has(1));
    let (outcome, statistics) = push(&local, &mut Hub::new(&copy));
    outcome.expect("the server answers");
    assert_eq!((statistics.taken, copy.has(1)), (1, true));
}

#[test]
fn a_mark_does_not_bring_a_document_back_whose_deletion_was_purged() {
    let hub = Server::new(1);
    let local = Server::new(2);
    let note = hub.create(1);
    hub.create(2);
    local.pull(&hub);
    begin(&local, &hub).skip_received().expect("a sound store");
    hub.write(|writer| writer.note_delete(note));
    hub.purge();
    for number in [1, 2] {
        let copy = local.write(|writer| writer.find(Unid([number; 16]))).expect("it has come");
        local.write(|writer| writer.marks_set(copy, Marks::FLAGGED, &[]));
    }
    let (outcome, statistics) = push(&local, &mut Hub::new(&hub));
    outcome.expect("the server answers");
    assert_eq!((statistics.offered, statistics.taken), (2, 0));
    assert!(!hub.has(1));
    // An edit was made without knowledge of the deletion.
    local.save(1, "edited");
    let (outcome, statistics) = push(&local, &mut Hub::new(&hub));
    outcome.expect("the server answers");
    assert_eq!((statistics.taken, hub.has(1)), (1, true));
}
