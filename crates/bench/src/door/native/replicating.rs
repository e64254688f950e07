//! The replication of a local replica with the server (docs/replication.md, "Local replicas"): its changes are offered
//! and written, and then those of the server are read.
//!
//! What is simulated: the driver has no contents, so it reads the documents whose category has changed before it brings
//! their new versions. A real replica has them. Contents of documents that were added are generated again.

use std::collections::BTreeSet;

use client::v1;
use client::v1::state_value::Name;
use client::v1::value::Kind;

use super::exchange::{ChangeList, Received, RequestedNotes, parts_of_changes};
use super::items::{INBOX, summary_item, text_item};
use super::local_replica::{AddedDocument, Change, ChangeKind, KnownDocument, LocalReplica, SEEN};
use super::replica_notes::{Revision, content_id, first_refusal, first_version, next_version};
use super::session::CallError;
use super::{DONE, StepContext, StepResult};
use crate::population::attachment::Attachment;

/// Maximum number of documents that are brought with one call.
const DOCUMENTS_PER_CALL_MAX: usize = 250;
/// Size of the texts and attachments that are brought with one call, if there are several documents.
const CALL_BYTES_MAX: usize = 2 << 20;
/// The item with the categories.
const CATEGORIES_ITEM: &str = "Categories";

impl StepContext<'_> {
    /// Brings the changes of the replica, and receives those of the server.
    pub(super) async fn replicate(&mut self) -> StepResult {
        let Some(replica) = self.replica.as_mut() else {
            return Err(CallError::kept("no-replica", "the user has no local replica"));
        };
        // The replica stays where it is: a step that takes too long is dropped while it waits.
        let mut step = StepContext {
            settings: self.settings,
            workplace: self.workplace,
            session: self.session,
            memory: self.memory,
            replica: &mut None,
            action: self.action,
            count: self.count,
        };
        step.replicate_with(replica).await?;
        Ok(DONE)
    }

    async fn replicate_with(&mut self, replica: &mut LocalReplica) -> Result<(), CallError> {
        self.describe_replica(replica.server_state.clone()).await?;
        let refusal = if replica.changes.is_empty() { None } else { self.push(replica).await? };
        replica.server_state = self.describe_replica(None).await?.position;
        self.pull_changes(replica).await?;
        refusal.map_or(Ok(()), Err)
    }

    /// Sends all changes, writes what the server lacks, and offers the folders of what was added. A change is removed
    /// when its calls have ended, also if the server has refused it. Returns the first refusal.
    async fn push(&mut self, replica: &mut LocalReplica) -> Result<Option<CallError>, CallError> {
        self.find_folders(replica).await?;
        let offered: Vec<v1::OfferedNote> =
            replica.changes.iter().filter_map(|change| offered(change, replica)).collect();
        self.offer(offered).await?;
        replica.changes.retain(|change| !matches!(change.kind, ChangeKind::Read(_) | ChangeKind::Move(..)));
        let added = self.write_added(replica).await?;
        let updated = self.write_updates(replica).await?;
        let deleted = self.write_stubs(replica).await?;
        Ok(added.or(updated).or(deleted))
    }

    /// Finds the folders of the changes that are not known yet.
    async fn find_folders(&mut self, replica: &mut LocalReplica) -> Result<(), CallError> {
        let wanted: BTreeSet<&String> = replica.changes.iter().filter_map(|change| change.kind.folder()).collect();
        let missing: Vec<String> =
            wanted.into_iter().filter(|name| !replica.folders.contains_key(*name)).cloned().collect();
        for name in missing {
            let unid = self.session.folder_unid(self.count, &name).await?;
            replica.folders.insert(name, unid);
        }
        Ok(())
    }

    async fn offer(&mut self, notes: Vec<v1::OfferedNote>) -> Result<(), CallError> {
        if notes.is_empty() {
            return Ok(());
        }
        let database = self.database();
        let request = v1::OfferReplicaNotesRequest { database, notes, contents: Vec::new() };
        let mut stub = self.session.client().replication();
        self.session.call(self.count, stub.offer_replica_notes(request)).await?;
        Ok(())
    }

    async fn write_added(&mut self, replica: &mut LocalReplica) -> Result<Option<CallError>, CallError> {
        let mut refusal = None;
        loop {
            let (notes, contents) = self.next_added(replica);
            let written = notes.len();
            if written == 0 {
                return Ok(refusal);
            }
            let refused = self.session.bring_versions(self.count, notes, &contents).await?;
            let added: Vec<(AddedDocument, i64)> =
                added(replica).take(written).map(|(one, at)| (one.clone(), at)).collect();
            let mut filings = Vec::new();
            for (index, (added, time_us)) in added.iter().enumerate() {
                if refused.contains_key(&index) {
                    replica.forget(&added.unid);
                    continue;
                }
                replica.bring(added.unid, Revision::first(added.unid, *time_us));
                filings.extend(filed(added, *time_us, replica));
            }
            self.offer(filings).await?;
            replica.end_changes(written, ChangeKind::is_add);
            refusal = refusal.or(first_refusal(refused));
        }
    }

    /// Returns the first documents that were added, as many as are brought with one call, and their attachments.
    fn next_added(&self, replica: &LocalReplica) -> (Vec<v1::ReplicaNote>, Vec<Vec<u8>>) {
        let mut notes = Vec::new();
        let mut contents = Vec::new();
        let mut bytes = 0;
        for (added, time_us) in added(replica).take(DOCUMENTS_PER_CALL_MAX) {
            let (mut items, attachment) = self.added_items(&added.action);
            bytes += text_bytes(&items) + attachment.as_ref().map_or(0, |attachment| attachment.bytes.len());
            if bytes > CALL_BYTES_MAX && !notes.is_empty() {
                break;
            }
            items.push(self.session.editor_item());
            items.extend(attachment.as_ref().map(file_item));
            let first = first_version(added.unid, time_us, items);
            notes.push(v1::ReplicaNote {
                parent_unid: added.parent.map(|parent| parent.to_vec()).unwrap_or_default(),
                content_ids: attachment.iter().map(|attachment| content_id(&attachment.bytes).to_vec()).collect(),
                ..first
            });
            contents.extend(attachment.map(|attachment| attachment.bytes));
        }
        (notes, contents)
    }

    async fn write_updates(&mut self, replica: &mut LocalReplica) -> Result<Option<CallError>, CallError> {
        let is_update = |change: &Change| matches!(change.kind, ChangeKind::Update(..));
        let mut refusal = None;
        while let Some(index) = replica.changes.iter().position(is_update) {
            let change = replica.changes[index].clone();
            refusal = refusal.or(self.write_update(&change, replica).await?);
            replica.changes.remove(index);
        }
        Ok(refusal)
    }

    /// Reads a document that got another category, and writes its new version. One that the server no longer has is
    /// left out.
    async fn write_update(
        &mut self,
        change: &Change,
        replica: &mut LocalReplica,
    ) -> Result<Option<CallError>, CallError> {
        let ChangeKind::Update(KnownDocument { unid, .. }, category) = &change.kind else { return Ok(None) };
        let Some(mut note) = self.read_version(*unid).await? else { return Ok(None) };
        let Some(parent) = Revision::of_proto(note.revision.clone()) else { return Ok(None) };
        let revision = parent.child(change.time_us.max(parent.time_us() + 1), tail(*unid));
        note.items.retain(|item| !item.name.eq_ignore_ascii_case(CATEGORIES_ITEM));
        note.items.push(text_item(CATEGORIES_ITEM, category));
        let versions = vec![next_version(note, parent, revision)];
        let refused = self.session.bring_versions(self.count, versions, &[]).await?;
        if refused.is_empty() {
            replica.bring(*unid, revision);
            let known = replica.documents.iter_mut().find(|known| known.unid == *unid);
            known.into_iter().for_each(|known| known.revision = revision);
        }
        Ok(first_refusal(refused))
    }

    async fn write_stubs(&mut self, replica: &mut LocalReplica) -> Result<Option<CallError>, CallError> {
        let mut refusal = None;
        loop {
            let stubs = replica.changes.iter().filter_map(|change| match &change.kind {
                ChangeKind::Delete(known) => Some(stub(*known, change.time_us)),
                _ => None,
            });
            let stubs: Vec<_> = stubs.take(DOCUMENTS_PER_CALL_MAX).collect();
            let written = stubs.len();
            if written == 0 {
                return Ok(refusal);
            }
            let refused = self.session.bring_versions(self.count, stubs, &[]).await?;
            replica.end_changes(written, |kind| matches!(kind, ChangeKind::Delete(_)));
            refusal = refusal.or(first_refusal(refused));
        }
    }

    /// Reads the version of a document that the server has, if it has one that is not deleted.
    async fn read_version(&mut self, unid: [u8; 16]) -> Result<Option<v1::ReplicaNote>, CallError> {
        let request = v1::ReadReplicaNotesRequest {
            database: self.database(),
            unids: vec![unid.to_vec()],
            ..v1::ReadReplicaNotesRequest::default()
        };
        let mut stub = self.session.client().replication();
        let mut replies = self.session.call(self.count, stub.read_replica_notes(request)).await?;
        let mut read = None;
        let mut requested = RequestedNotes::new(1);
        while let Some(reply) = replies.message().await.map_err(|status| self.session.failed(&status))? {
            requested.take_message()?;
            read = read.or(reply.notes.into_iter().next());
        }
        Ok(read.filter(|note| !note.deleted && !note.unsent))
    }

    /// Reads the changes of the server since the last replication, with the contents of what is new.
    async fn pull_changes(&mut self, replica: &mut LocalReplica) -> Result<(), CallError> {
        let mut list = ChangeList::after(replica.position.clone());
        let mut received = Received::default();
        while let Some(page) = list.next_page(self.session, self.count).await? {
            let (wanted, others): (Vec<_>, Vec<_>) = page.into_iter().partition(|note| replica.lacks(note));
            others.iter().for_each(|note| replica.learn(note));
            for part in parts_of_changes(&wanted) {
                self.receive(part, &mut received).await?;
                part.iter().for_each(|note| replica.learn(note));
                received.deleted.iter().for_each(|unid| replica.forget(unid));
            }
        }
        replica.end_list(list.into_position());
        Ok(())
    }
}

impl ChangeKind {
    /// Returns the folder that the change names.
    fn folder(&self) -> Option<&String> {
        match self {
            Self::Move(_, folder) => Some(folder),
            Self::Add(added) => added.folder.as_ref(),
            _ => None,
        }
    }
}

/// Returns the documents that were added, with their times.
fn added(replica: &LocalReplica) -> impl Iterator<Item = (&AddedDocument, i64)> {
    replica.changes.iter().filter_map(|change| match &change.kind {
        ChangeKind::Add(added) => Some((added, change.time_us)),
        _ => None,
    })
}

/// Returns what is offered of a change: the revision that it has made, or marks and folders. The revision of an update
/// is not known before the document was read.
fn offered(change: &Change, replica: &LocalReplica) -> Option<v1::OfferedNote> {
    let time_us = change.time_us;
    let state = |name, set| v1::StateValue { name: Some(name), set, time_us, ..v1::StateValue::default() };
    let note = |unid: [u8; 16], revision: Revision, states| v1::OfferedNote {
        unid: unid.to_vec(),
        revision: Some(revision.to_proto()),
        states,
    };
    match &change.kind {
        ChangeKind::Read(known) => Some(note(known.unid, known.revision, vec![state(Name::Mark(SEEN), true)])),
        ChangeKind::Move(known, folder) => {
            let out_of = replica.folders.get(INBOX).map(|unid| state(Name::FolderUnid(unid.clone()), false));
            let into = replica.folders.get(folder).map(|unid| state(Name::FolderUnid(unid.clone()), true));
            Some(note(known.unid, known.revision, into.into_iter().chain(out_of).collect()))
        }
        ChangeKind::Delete(known) => Some(note(known.unid, deletion(*known, time_us), Vec::new())),
        ChangeKind::Add(added) => Some(note(added.unid, Revision::first(added.unid, time_us), Vec::new())),
        ChangeKind::Update(..) => None,
    }
}

/// Returns what is offered of a document that was added, after it was written: its folder, and that it was read.
fn filed(added: &AddedDocument, time_us: i64, replica: &LocalReplica) -> Option<v1::OfferedNote> {
    let folder = replica.folders.get(added.folder.as_ref()?)?;
    let state = |name| v1::StateValue { name: Some(name), set: true, time_us, ..v1::StateValue::default() };
    Some(v1::OfferedNote {
        unid: added.unid.to_vec(),
        revision: Some(Revision::first(added.unid, time_us).to_proto()),
        states: vec![state(Name::FolderUnid(folder.clone())), state(Name::Mark(SEEN))],
    })
}

/// Returns the revision of a deletion.
fn deletion(known: KnownDocument, time_us: i64) -> Revision {
    known.revision.child(time_us.max(known.revision.time_us() + 1), tail(known.unid))
}

/// Returns the stub of a deletion.
fn stub(known: KnownDocument, time_us: i64) -> v1::ReplicaNote {
    let note = v1::ReplicaNote {
        unid: known.unid.to_vec(),
        note_class: v1::NoteClass::Document.into(),
        created_us: known.revision.time_us(),
        received_us: known.revision.time_us(),
        deleted: true,
        ..v1::ReplicaNote::default()
    };
    next_version(note, known.revision, deletion(known, time_us))
}

/// Returns eight bytes by which saves of different documents differ.
fn tail(unid: [u8; 16]) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = unid;
    u64::from_be_bytes([a, b, c, d, e, f, g, h]).wrapping_add(1)
}

/// Returns the size of the texts of a document.
fn text_bytes(items: &[v1::Item]) -> usize {
    let bytes = items.iter().map(|item| match item.value.as_ref().and_then(|value| value.kind.as_ref()) {
        Some(Kind::Text(text) | Kind::RichText(text)) => text.len(),
        _ => 0,
    });
    bytes.sum()
}

/// Returns the item of an attachment.
fn file_item(attachment: &Attachment) -> v1::Item {
    let attachment = v1::Attachment {
        file_name: attachment.name.clone(),
        media_type: attachment.media_type.to_owned(),
        length_bytes: attachment.bytes.len() as u64,
        content_id: content_id(&attachment.bytes).to_vec(),
    };
    summary_item("$FILE", Kind::Attachment(attachment))
}
