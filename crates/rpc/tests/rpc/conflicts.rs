//! Conflicts: users change a document that others have read too.

use base::Name;
use futures_util::stream;
use notes::AclLevel;
use proto::v1::saved_note::Outcome;
use proto::v1::update_note_request::{Base, OnConflict};
use proto::{details, v1};
use tonic::{Code, Status};

use crate::world::{Client, TestServer, canonical, database, note, plan, refusal, refused, text};

/// Two users who may change all documents, and their operations.
struct TwoUsers {
    ann: Client,
    bob: Client,
}

fn texts(assignments: &str) -> Vec<v1::Item> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| text(name, value));
    assignments.split_whitespace().filter_map(pair).collect()
}

fn update(number: u32, assignments: &str) -> v1::UpdateNoteRequest {
    v1::UpdateNoteRequest { database: plan(), note: note(number), items: texts(assignments), ..Default::default() }
}

/// Returns the items of a note except those that the server writes. An attachment is represented by its file name.
async fn items_of(client: &Client, number: u32) -> String {
    let items = Some(v1::ItemSelection { extent: 2, names: Vec::new() });
    let open = v1::OpenNoteRequest { database: plan(), note: note(number), items, mark_read: false };
    let found = client.notes().open_note(open).await.expect("they may read it").into_inner();
    let formatted = |item: &v1::Item| match item.value.as_ref()?.kind.as_ref()? {
        v1::value::Kind::Text(value) => Some(format!("{}={value}", item.name)),
        v1::value::Kind::Attachment(file) => Some(file.file_name.clone()),
        _ => None,
    };
    let mut items: Vec<String> =
        found.items.iter().filter(|item| item.name != "$UpdatedBy").filter_map(formatted).collect();
    items.sort();
    items.join(" ")
}

impl TwoUsers {
    async fn log_in(server: &TestServer) -> Self {
        server.set_level("bob", AclLevel::Editor);
        Self { ann: server.log_in("ann").await, bob: server.log_in("bob").await }
    }

    /// Lets Ann create and change a document, and then lets Bob save `change` based on the version before her change.
    /// Returns the outcome and the document's number.
    async fn save_conflicting(
        &self,
        action: &str,
        change: v1::UpdateNoteRequest,
    ) -> (Result<v1::SavedNote, Status>, u32) {
        let created = self.ann.create(texts(&format!("A=1 B=1 {action}"))).await.expect("she may");
        let header = v1::attach_file_request::Header {
            database: plan(),
            note: note(created.note_id),
            file_name: "plan.bin".to_owned(),
            length_bytes: 3,
            ..Default::default()
        };
        let parts = [v1::attach_file_request::Part::Header(header), v1::attach_file_request::Part::Content(vec![7; 3])];
        let parts = parts.map(|part| v1::AttachFileRequest { part: Some(part) });
        let attached = self.ann.notes().attach_file(stream::iter(parts)).await.expect("she may").into_inner();
        self.ann.notes().update_note(update(created.note_id, "A=2")).await.expect("she may");
        let change = v1::UpdateNoteRequest {
            note: note(created.note_id),
            expected_sequence: 2,
            expected_revision_id: attached.revision_id,
            ..change
        };
        (self.bob.notes().update_note(change).await.map(tonic::Response::into_inner), created.note_id)
    }
}

/// Returns an update that requests conflict resolution, with the previous items as its base.
fn resolving(assignments: &str, was: Option<&str>) -> v1::UpdateNoteRequest {
    let base = was.map(|was| Base { items: texts(was) });
    v1::UpdateNoteRequest { on_conflict: OnConflict::Resolve.into(), base, ..update(0, assignments) }
}

#[tokio::test]
async fn conflict_is_resolved_by_the_conflict_action() {
    let server = TestServer::new();
    let two = TwoUsers::log_in(&server).await;
    // If the document does not specify a conflict action, the later version is saved as a response document, with
    // its attachment.
    let (kept, winner) = two.save_conflicting("", resolving("B=2", Some("B=1"))).await;
    let kept = kept.expect("it is kept");
    assert_eq!((kept.outcome(), kept.note_id == winner, kept.sequence), (Outcome::Kept, false, 1));
    assert_eq!(items_of(&two.bob, winner).await, "A=2 B=1 plan.bin");
    assert_eq!(items_of(&two.ann, kept.note_id).await, "A=2 B=2 plan.bin");
    let open = |number| v1::OpenNoteRequest { database: plan(), note: note(number), ..Default::default() };
    let header =
        async |number| two.ann.notes().open_note(open(number)).await.expect("she has access").into_inner().header;
    let loser = header(kept.note_id).await.expect("a header");
    let winner = header(winner).await.expect("a header");
    assert!(loser.conflict && !winner.conflict && loser.parent_unid == winner.unid, "{loser:?}");
    // The response has its own copy of the attachment, which remains after the winning document is deleted.
    let delete = v1::DeleteNoteRequest { database: plan(), note: note(winner.note_id), ..Default::default() };
    two.ann.notes().delete_note(delete).await.expect("she may");
    let file_name = "plan.bin".to_owned();
    let read = v1::ReadAttachmentRequest { database: plan(), note: note(loser.note_id), file_name, offset_bytes: 0 };
    let mut chunks = two.bob.notes().read_attachment(read).await.expect("the attachment exists").into_inner();
    assert_eq!(chunks.message().await.expect("the content can be read").expect("a piece").content, [7; 3]);

    for (action, assignments, was, expected) in [
        ("$ConflictAction=1", "B=2", Some("B=1"), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=2 plan.bin"))),
        ("$ConflictAction=1", "C=2", Some(""), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=1 C=2 plan.bin"))),
        ("$ConflictAction=1", "A=2", Some("A=1"), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=1 plan.bin"))),
        ("$ConflictAction=1", "A=3", Some("A=1"), Ok((Outcome::Kept, "$ConflictAction=1 A=3 B=1 plan.bin"))),
        ("$ConflictAction=1", "B=2", None, Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=2 plan.bin"))),
        ("$ConflictAction=1", "A=3", None, Ok((Outcome::Kept, "$ConflictAction=1 A=3 B=1 plan.bin"))),
        ("$ConflictAction=2", "B=2", Some("B=1"), Err(())),
        ("$ConflictAction=3", "B=2", Some("B=1"), Ok((Outcome::Merged, "$ConflictAction=3 A=2 B=2 plan.bin"))),
        ("$ConflictAction=3", "A=3", Some("A=1"), Err(())),
    ] {
        let (outcome, winner) = two.save_conflicting(action, resolving(assignments, was)).await;
        match expected {
            Ok((expected, items)) => {
                let saved = outcome.unwrap_or_else(|status| panic!("{action} {assignments} {was:?}: {status}"));
                assert_eq!(saved.outcome(), expected, "{action} {assignments} {was:?}");
                assert_eq!(saved.note_id == winner, expected == Outcome::Merged);
                assert_eq!(items_of(&two.ann, saved.note_id).await, items, "{action} {assignments} {was:?}");
            }
            Err(()) => {
                assert_eq!(refusal(outcome), refused(Code::Aborted, "conflict"), "{action} {assignments}")
            }
        }
    }
}

#[tokio::test]
async fn unrequested_or_impossible_resolution_reports_the_conflict() {
    let server = TestServer::new();
    let two = TwoUsers::log_in(&server).await;
    let conflict = refused(Code::Aborted, "conflict");
    let (outcome, winner) = two.save_conflicting("$ConflictAction=1", update(0, "B=2")).await;
    assert_eq!(refusal(outcome), conflict);
    assert_eq!(items_of(&two.ann, winner).await, "$ConflictAction=1 A=2 B=1 plan.bin");
    let odd = v1::UpdateNoteRequest { on_conflict: 9, ..update(0, "B=2") };
    assert_eq!(refusal(two.save_conflicting("", odd).await.0), refused(Code::InvalidArgument, "invalid"));
    // In a mail file, a conflict never creates a second document.
    server.mail.create("mail/ann.nsf", "Ann", &Name::new(&canonical("ann")), None).expect("there is none yet");
    let mail = || database("mail/ann.nsf");
    let create = v1::CreateNoteRequest { database: mail(), items: texts("A=1"), ..Default::default() };
    let created = two.ann.notes().create_note(create).await.expect("she has access").into_inner();
    let change = v1::UpdateNoteRequest {
        database: mail(),
        note: note(created.note_id),
        expected_sequence: 1,
        expected_revision_id: Vec::new(),
        ..resolving("A=2", Some("A=1"))
    };
    two.ann.notes().update_note(change.clone()).await.expect("nobody else has saved it");
    assert_eq!(refusal(two.ann.notes().update_note(change).await), conflict);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_saves_have_one_winner_per_sequence() {
    let server = TestServer::new();
    let mut clients = Vec::new();
    for name in ["ann", "bob", "dan"] {
        if name != "ann" {
            server.set_level(name, AclLevel::Editor);
        }
        clients.push(server.log_in(name).await);
    }
    let created = clients[0].create(texts("A=0")).await.expect("she may");
    for sequence in 1..=25_u32 {
        let saves = clients.iter().enumerate().map(|(number, client)| {
            let client = client.clone();
            let unid = created.unid.clone();
            let request = v1::UpdateNoteRequest {
                expected_sequence: sequence,
                expected_revision_id: Vec::new(),
                ..update(created.note_id, &format!("A={number}.{sequence}"))
            };
            tokio::spawn(async move {
                match client.notes().update_note(request).await {
                    Ok(saved) => {
                        assert_eq!(saved.into_inner().sequence, sequence + 1);
                        true
                    }
                    Err(status) => {
                        let detail = details::detail(&status).expect("the status has details").detail;
                        let expected_sequence = sequence;
                        let found_sequence = sequence + 1;
                        let expected = v1::error_detail::Conflict { unid, expected_sequence, found_sequence };
                        assert_eq!(detail, Some(v1::error_detail::Detail::Conflict(expected)));
                        assert_eq!(status.code(), Code::Aborted);
                        false
                    }
                }
            })
        });
        let mut won = Vec::new();
        for (number, save) in saves.collect::<Vec<_>>().into_iter().enumerate() {
            won.extend(save.await.expect("it does not panic").then_some(number));
        }
        assert_eq!(won.len(), 1, "one wins sequence {sequence}");
        let expected = format!("A={}.{sequence}", won[0]);
        assert_eq!(items_of(&clients[0], created.note_id).await, expected, "the winner's text is saved");
    }
}
