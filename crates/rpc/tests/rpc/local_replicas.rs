//! Local replicas of people: what they get, and that the server believes nothing of what they bring.

use futures_util::stream;
use notes::AclLevel;
use notes::revision_record::RevisionRecord;
use proto::v1;
use proto::v1::write_replica_notes_request::Part;
use proto::v1::written_note::Outcome;
use tonic::{Code, Status};

use crate::world::{Client, TestServer, canonical, note, plan, refusal, text};

/// Returns an item with names, with flags that `flag` sets.
fn names(name: &str, list: &[&str], flag: impl Fn(&mut v1::ItemFlags)) -> v1::Item {
    let values = list.iter().map(|name| canonical(name)).collect();
    let value = Some(v1::Value { kind: Some(v1::value::Kind::TextList(v1::TextList { values })) });
    let mut flags = v1::ItemFlags { summary: true, names: true, ..Default::default() };
    flag(&mut flags);
    v1::Item { name: name.to_owned(), flags: Some(flags), value }
}

fn readers(name: &str) -> v1::Item {
    names("Readers", &[name], |flags| flags.readers = true)
}

/// The time at which documents were saved, in microseconds.
const SAVED_US: i64 = 1_000;

fn revision(sequence: u32, id: u8) -> v1::Revision {
    revision_at(sequence, SAVED_US, id)
}

/// Returns a revision that was saved at a time in microseconds, as its id states.
fn revision_at(sequence: u32, time_us: i64, id: u8) -> v1::Revision {
    v1::Revision { sequence, id: [(time_us ^ i64::MIN).to_be_bytes(), [id; 8]].concat() }
}

/// Returns a document as a local replica sends it.
fn document(unid: u8, revision: v1::Revision, items: Vec<v1::Item>) -> v1::ReplicaNote {
    let history = RevisionRecord::default().encode(of_proto(&revision));
    let fresh = v1::ReplicaNote { unid: vec![unid; 16], note_class: 1, history, ..Default::default() };
    let fresh = v1::ReplicaNote { revision: Some(revision), ..fresh };
    v1::ReplicaNote { sequence_time_us: SAVED_US, created_us: SAVED_US, received_us: SAVED_US, items, ..fresh }
}

/// Sends documents after contents. Returns the outcome of each, with the reason of a refusal.
async fn write(
    client: &Client,
    contents: &[&[u8]],
    notes: Vec<v1::ReplicaNote>,
) -> Result<Vec<(Outcome, String)>, Status> {
    let piece = |(index, content): (u32, &&[u8])| {
        Part::Content(v1::ContentPiece { index, content: content.to_vec(), last: true, ..Default::default() })
    };
    let mut parts = vec![Part::Database(plan().expect("it is named"))];
    parts.extend((0..).zip(contents).map(piece));
    parts.extend(notes.into_iter().map(Part::Note));
    let parts: Vec<_> = parts.into_iter().map(|part| v1::WriteReplicaNotesRequest { part: Some(part) }).collect();
    let reply = client.replication().write_replica_notes(stream::iter(parts)).await?.into_inner();
    Ok(reply.notes.into_iter().map(|note| (note.outcome(), note.refusal)).collect())
}

/// Lists all that a caller gets for a replica.
async fn listed(client: &Client) -> Vec<v1::ListedNote> {
    let request = v1::ListChangedNotesRequest { database: plan(), ..Default::default() };
    client.replication().list_changed_notes(request).await.expect("readers may").into_inner().notes
}

/// Reads a document as a local replica does.
async fn read(client: &Client, unid: &[u8]) -> Option<v1::ReplicaNote> {
    let request = v1::ReadReplicaNotesRequest {
        database: plan(),
        unids: vec![unid.to_vec()],
        truncated: false,
        takes_parts: false,
    };
    let mut replies = client.replication().read_replica_notes(request).await.expect("readers may").into_inner();
    replies.message().await.expect("a reply").and_then(|reply| reply.notes.into_iter().next())
}

/// Returns the next version of a document, with one more item.
fn changed(note: &v1::ReplicaNote, id: u8, item: v1::Item) -> v1::ReplicaNote {
    let before = note.revision.clone().expect("it has one");
    let next = RevisionRecord {
        ancestors: revision::Ancestors::of_child(of_proto(&before), &revision::Ancestors::default()),
        ..Default::default()
    };
    let revision = revision_at(before.sequence + 1, note.sequence_time_us, id);
    let mut changed = v1::ReplicaNote { history: next.encode(of_proto(&revision)), ..note.clone() };
    changed.items.push(item);
    changed.states.clear();
    v1::ReplicaNote { revision: Some(revision), ..changed }
}

fn of_proto(revision: &v1::Revision) -> revision::Revision {
    let id = revision::RevisionId(revision.id.as_slice().try_into().expect("16 bytes"));
    revision::Revision { sequence: revision.sequence, id }
}

#[tokio::test]
async fn readers_get_what_they_may_read() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Reader);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let secret = readers("ann");
    let open = ann.create(vec![text("Subject", "open")]).await.expect("she may");
    let hidden = ann.create(vec![text("Subject", "hidden"), secret]).await.expect("she may");
    let unids = |list: Vec<v1::ListedNote>| list.into_iter().map(|note| note.unid).collect::<Vec<_>>();
    let anns = unids(listed(&ann).await);
    let bobs = unids(listed(&bob).await);
    assert!(anns.contains(&open.unid) && anns.contains(&hidden.unid));
    assert!(bobs.contains(&open.unid) && !bobs.contains(&hidden.unid), "{bobs:?}");
    assert!(read(&bob, &open.unid).await.is_some() && read(&bob, &hidden.unid).await.is_none());
}

#[tokio::test]
async fn changes_are_taken_under_the_rights_of_the_caller() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Author);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let bobs = names("Authors", &["bob"], |flags| flags.authors = true);
    let secret = readers("ann");
    let of_bob = ann.create(vec![text("Subject", "one"), bobs]).await.expect("she may");
    let of_ann = ann.create(vec![text("Subject", "two")]).await.expect("she may");
    let hidden = ann.create(vec![text("Subject", "three"), secret]).await.expect("she may");
    let mut sent = Vec::new();
    for (saved, id) in [(&of_bob, 1), (&of_ann, 2), (&hidden, 3)] {
        let stored = read(&ann, &saved.unid).await.expect("it exists");
        sent.push(changed(&stored, id, text("Color", "red")));
    }
    sent.push(document(9, revision(1, 9), vec![text("Subject", "new")]));
    let forged = names("$UpdatedBy", &["ann"], |_| {});
    sent.push(document(8, revision(1, 8), vec![text("Subject", "forged"), forged]));
    let far = document(7, revision(1 << 29, 7), vec![text("Subject", "saved too often")]);
    sent.push(far);
    let outcomes = write(&bob, &[], sent).await.expect("one refusal does not stop the others");
    let kinds: Vec<Outcome> = outcomes.iter().map(|(outcome, _)| *outcome).collect();
    use Outcome::{Refused, Taken};
    assert_eq!(kinds, [Taken, Refused, Refused, Taken, Refused, Refused], "{outcomes:?}");
    assert!(outcomes[2].1.contains("does not let you read"), "{}", outcomes[2].1);
    assert!(outcomes[4].1.contains("$UpdatedBy"), "{}", outcomes[4].1);
    let stored = read(&ann, &of_ann.unid).await.expect("it exists");
    assert!(!stored.items.iter().any(|item| item.name == "Color"));
}

#[tokio::test]
async fn a_forged_ancestor_of_an_author_replaces_nothing() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Author);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    // Bob creates a document, and states that it descends from a version that only another server has.
    let elsewhere = document(5, revision(3, 3), vec![text("Subject", "of Ann")]);
    let forged = changed(&document(5, revision(3, 3), Vec::new()), 4, text("Subject", "of Bob"));
    let outcomes = write(&bob, &[], vec![forged]).await.expect("he may create documents");
    assert_eq!(outcomes[0].0, Outcome::Taken);
    // The other server's version arrives later: it is a conflict, so it is not lost.
    let outcomes = write(&ann, &[], vec![elsewhere]).await.expect("she may");
    assert_eq!(outcomes[0].0, Outcome::Conflict);
}

#[tokio::test]
async fn contents_of_others_cannot_be_named() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Author);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let attachment = |content: &[u8]| {
        let id = blake3::hash(content).as_bytes().to_vec();
        let file = v1::Attachment {
            file_name: "a.txt".to_owned(),
            media_type: "text/plain".to_owned(),
            length_bytes: content.len() as u64,
            content_id: id.clone(),
        };
        let value = Some(v1::Value { kind: Some(v1::value::Kind::Attachment(file)) });
        (
            id,
            v1::Item {
                name: "$FILE".to_owned(),
                flags: Some(v1::ItemFlags { summary: true, ..Default::default() }),
                value,
            },
        )
    };
    let with = |unid: u8, (id, item): (Vec<u8>, v1::Item)| v1::ReplicaNote {
        content_ids: vec![id],
        ..document(unid, revision(1, unid), vec![item])
    };
    let secret = b"what only Ann knows".as_slice();
    let outcomes = write(&ann, &[secret], vec![with(1, attachment(secret))]).await.expect("she may");
    assert_eq!(outcomes[0], (Outcome::Taken, String::new()));
    let named = with(2, attachment(secret));
    let outcomes = write(&bob, &[], vec![named.clone()]).await.expect("the others are taken");
    assert_eq!(outcomes[0].0, Outcome::Refused, "Bob has not sent the content");
    let outcomes = write(&bob, &[secret], vec![named]).await.expect("he may create documents");
    assert_eq!(outcomes[0], (Outcome::Taken, String::new()), "Bob knows the content");
    // A content that the caller's note does not have here must be sent.
    let content =
        |unid: u8| v1::ContentOfNote { unid: vec![unid; 16], content_id: attachment(secret).0, ..Default::default() };
    let contents = vec![content(1), content(2), content(3)];
    let request = v1::OfferReplicaNotesRequest { database: plan(), contents, ..Default::default() };
    let reply = bob.replication().offer_replica_notes(request).await.expect("he may").into_inner();
    assert_eq!(reply.missing_contents, [2]);
    let unordered = [
        Part::Database(plan().expect("it is named")),
        Part::Content(v1::ContentPiece { index: 1, ..Default::default() }),
    ];
    let unordered = unordered.map(|part| v1::WriteReplicaNotesRequest { part: Some(part) });
    let outcome = bob.replication().write_replica_notes(stream::iter(unordered)).await.map(drop);
    assert_eq!(refusal(outcome).0, Code::InvalidArgument);
}

#[tokio::test]
async fn marks_count_only_from_the_owner() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Editor);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let saved = ann.create(vec![text("Subject", "one")]).await.expect("she may");
    let seen = v1::StateValue { name: Some(v1::state_value::Name::Mark(0)), set: true, time_us: 5, uid: 0 };
    let keyword = v1::StateValue { name: Some(v1::state_value::Name::Keyword("x".into())), ..seen.clone() };
    let stored = read(&bob, &saved.unid).await.expect("he may read it");
    let offered = |states| v1::OfferedNote { unid: saved.unid.clone(), revision: stored.revision.clone(), states };
    let request = v1::OfferReplicaNotesRequest {
        database: plan(),
        notes: vec![offered(vec![seen, keyword])],
        ..Default::default()
    };
    let reply = bob.replication().offer_replica_notes(request).await.expect("he may").into_inner();
    assert_eq!((reply.missing_notes.len(), reply.states_changed), (0, 0), "the plan has no owner");
    let unknown = v1::OfferedNote { revision: Some(revision(9, 9)), ..offered(Vec::new()) };
    let request = v1::OfferReplicaNotesRequest { database: plan(), notes: vec![unknown], ..Default::default() };
    let reply = bob.replication().offer_replica_notes(request).await.expect("he may").into_inner();
    assert_eq!(reply.missing_notes, [0]);
    let open = v1::OpenNoteRequest { database: plan(), note: note(saved.note_id), ..Default::default() };
    ann.notes().open_note(open).await.expect("it is unharmed");
}
