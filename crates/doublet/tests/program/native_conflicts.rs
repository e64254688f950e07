//! Tests of conflicts over the native protocol: two users change a document that both have read.

use client::v1::saved_note::Outcome;
use client::v1::update_note_request::{Base, OnConflict};
use client::{Client, Code, v1};
use serde_json::json;

use crate::native::{PASSWORD, database, note, reason_of, text};
use crate::native_notes::{PLAN, plan};
use crate::{Server, TestFolder};

/// Two users with Editor access, and their operations.
struct TwoUsers {
    ann: Client,
    bob: Client,
}

/// Runs `work` with two logged-in users.
fn with_two<F: Future<Output = ()>>(work: impl FnOnce(TwoUsers) -> F) -> (TestFolder, Server) {
    let (folder, server) = plan(&[("ann", "editor"), ("bob", "editor")]);
    let options = folder.options(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let log_in = |name| {
            let options = &options;
            async move {
                let client = Client::connect(options).await.expect("the server is there");
                client.login(name, PASSWORD).await.expect("the password is right");
                client
            }
        };
        work(TwoUsers { ann: log_in("ann").await, bob: log_in("bob").await }).await;
    });
    (folder, server)
}

fn texts(assignments: &str) -> Vec<v1::Item> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| text(name, value));
    assignments.split_whitespace().filter_map(pair).collect()
}

fn update(path: &str, number: u32, assignments: &str) -> v1::UpdateNoteRequest {
    let database = database(path);
    let note = note(number);
    v1::UpdateNoteRequest { database, note, items: texts(assignments), ..Default::default() }
}

/// Returns the items of a note except those that the server writes. An attachment is represented by its file name.
async fn items_of(client: &Client, number: u32) -> String {
    let items = Some(v1::ItemSelection { extent: 2, names: Vec::new() });
    let open = v1::OpenNoteRequest { database: database(PLAN), note: note(number), items, mark_read: false };
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
    /// Lets Ann create and change a document, and then lets Bob save `change` based on the version before her change.
    /// Returns the outcome and the document's number.
    async fn save_conflicting(
        &self,
        action: &str,
        change: v1::UpdateNoteRequest,
    ) -> (Result<v1::SavedNote, client::Status>, u32) {
        let items = texts(&format!("A=1 B=1 {action}"));
        let create = v1::CreateNoteRequest { database: database(PLAN), items, ..Default::default() };
        let created = self.ann.notes().create_note(create).await.expect("she may").into_inner();
        let header = v1::attach_file_request::Header {
            database: database(PLAN),
            note: note(created.note_id),
            file_name: "plan.bin".to_owned(),
            length_bytes: 3,
            ..Default::default()
        };
        let parts = [v1::attach_file_request::Part::Header(header), v1::attach_file_request::Part::Content(vec![7; 3])];
        let parts = parts.map(|part| v1::AttachFileRequest { part: Some(part) });
        self.ann.notes().attach_file(client::request_stream(parts)).await.expect("she may");
        self.ann.notes().update_note(update(PLAN, created.note_id, "A=2")).await.expect("she may");
        let change = v1::UpdateNoteRequest { note: note(created.note_id), expected_sequence: 2, ..change };
        (self.bob.notes().update_note(change).await.map(client::Response::into_inner), created.note_id)
    }
}

/// Returns an update that requests conflict resolution, with the previous items as its base.
fn resolving(assignments: &str, was: Option<&str>) -> v1::UpdateNoteRequest {
    let base = was.map(|was| Base { items: texts(was) });
    v1::UpdateNoteRequest { on_conflict: OnConflict::Resolve.into(), base, ..update(PLAN, 0, assignments) }
}

#[test]
fn conflict_is_resolved_by_the_conflict_action() {
    let (_place, server) = with_two(|two| async move {
        // If the document does not specify a conflict action, the later version is saved as a response document, with
        // its attachment.
        let (kept, winner) = two.save_conflicting("", resolving("B=2", Some("B=1"))).await;
        let kept = kept.expect("it is kept");
        assert_eq!((kept.outcome(), kept.note_id == winner, kept.sequence), (Outcome::Kept, false, 1));
        assert_eq!(items_of(&two.bob, winner).await, "A=2 B=1 plan.bin");
        assert_eq!(items_of(&two.ann, kept.note_id).await, "A=2 B=2 plan.bin");
        let open = |number| v1::OpenNoteRequest { database: database(PLAN), note: note(number), ..Default::default() };
        let header =
            async |number| two.ann.notes().open_note(open(number)).await.expect("she has access").into_inner().header;
        let loser = header(kept.note_id).await.expect("a header");
        let winner = header(winner).await.expect("a header");
        assert!(loser.conflict && !winner.conflict && loser.parent_unid == winner.unid, "{loser:?}");
        // The response has its own copy of the attachment, which remains after the winning document is deleted.
        let delete =
            v1::DeleteNoteRequest { database: database(PLAN), note: note(winner.note_id), ..Default::default() };
        two.ann.notes().delete_note(delete).await.expect("she may");
        let file_name = "plan.bin".to_owned();
        let read = v1::ReadAttachmentRequest {
            database: database(PLAN),
            note: note(loser.note_id),
            file_name,
            offset_bytes: 0,
        };
        let mut chunks = two.bob.notes().read_attachment(read).await.expect("the attachment exists").into_inner();
        assert_eq!(chunks.message().await.expect("the content can be read").expect("a piece").content, [7; 3]);

        for (action, assignments, was, expected) in [
            ("$ConflictAction=1", "B=2", Some("B=1"), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=2 plan.bin"))),
            ("$ConflictAction=1", "C=2", Some(""), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=1 C=2 plan.bin"))),
            ("$ConflictAction=1", "A=2", Some("A=1"), Ok((Outcome::Merged, "$ConflictAction=1 A=2 B=1 plan.bin"))),
            ("$ConflictAction=1", "A=3", Some("A=1"), Ok((Outcome::Kept, "$ConflictAction=1 A=3 B=1 plan.bin"))),
            ("$ConflictAction=1", "B=2", None, Ok((Outcome::Kept, "$ConflictAction=1 A=2 B=2 plan.bin"))),
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
                    assert_eq!(reason_of(outcome), (Code::Aborted, "conflict".to_owned()), "{action} {assignments}")
                }
            }
        }
    });
    server.stop();
}

#[test]
fn unrequested_or_impossible_resolution_reports_the_conflict() {
    let (folder, server) = with_two(|two| async move {
        let refused = || (Code::Aborted, "conflict".to_owned());
        let (outcome, winner) = two.save_conflicting("$ConflictAction=1", update(PLAN, 0, "B=2")).await;
        assert_eq!(reason_of(outcome), refused());
        assert_eq!(items_of(&two.ann, winner).await, "$ConflictAction=1 A=2 B=1 plan.bin");
        let odd = v1::UpdateNoteRequest { on_conflict: 9, ..update(PLAN, 0, "B=2") };
        assert_eq!(reason_of(two.save_conflicting("", odd).await.0).1, "invalid");
        // In a mail file, a conflict never creates a second document.
        let items = texts("A=1");
        let create = v1::CreateNoteRequest { database: database("mail/ann.nsf"), items, ..Default::default() };
        let created = two.ann.notes().create_note(create).await.expect("she has access").into_inner();
        let change = v1::UpdateNoteRequest { expected_sequence: 1, ..resolving("A=2", Some("A=1")) };
        let change =
            v1::UpdateNoteRequest { database: database("mail/ann.nsf"), note: note(created.note_id), ..change };
        two.ann.notes().update_note(change.clone()).await.expect("nobody else has saved it");
        assert_eq!(reason_of(two.ann.notes().update_note(change).await), refused());
    });
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let unid = ann(&["note", "create", PLAN, "A=1", "B=1", "$ConflictAction=1"])["unid"].clone();
    let unid = unid.as_str().expect("a text");
    assert_eq!(ann(&["note", "set", PLAN, unid, "A=2"])["outcome"], json!("plain"));
    let resolve = ["--expect", "1", "--on-conflict", "resolve"];
    let set = |words: &[&str]| ann(&[&["note", "set", PLAN, unid], words, &resolve].concat());
    let merged = set(&["B=2", "--base", "B=1"]);
    assert_eq!((&merged["outcome"], &merged["sequence"], &merged["unid"]), (&json!("merged"), &json!(3), &json!(unid)));
    let kept = set(&["A=5", "--base", "A=1"]);
    assert_eq!((&kept["outcome"], &kept["sequence"]), (&json!("kept"), &json!(1)));
    assert_eq!(ann(&["note", "get", PLAN, kept["unid"].as_str().expect("a text")])["response_to"], json!(unid));
    folder.fails_as_user("ann", &["note", "set", PLAN, unid, "A=5", "--expect", "1"], "save conflict");
    folder.fails_as_user("ann", &["note", "set", PLAN, unid, "A=5", "--on-conflict", "resolve"], "--expect");
    server.stop();
}
