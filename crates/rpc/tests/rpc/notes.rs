//! Documents: creation, change, conflict and deletion by callers with different rights.

use proto::{details, v1};
use tonic::{Code, Status};

use crate::world::{Client, TestServer, database, note, plan, refusal, refused, text};

async fn open(client: &Client, number: u32) -> Result<v1::Note, Status> {
    let items = v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() };
    let request =
        v1::OpenNoteRequest { database: plan(), note: note(number), items: Some(items), ..Default::default() };
    client.notes().open_note(request).await.map(tonic::Response::into_inner)
}

async fn set(client: &Client, number: u32, expected: u32, value: &str) -> Result<v1::SavedNote, Status> {
    let request = v1::UpdateNoteRequest {
        database: plan(),
        note: note(number),
        expected_sequence: expected,
        expected_revision_id: Vec::new(),
        items: vec![text("Subject", value)],
        ..Default::default()
    };
    client.notes().update_note(request).await.map(tonic::Response::into_inner)
}

async fn delete(client: &Client, number: u32) -> Result<v1::DeleteNoteReply, Status> {
    let request = v1::DeleteNoteRequest { database: plan(), note: note(number), ..Default::default() };
    client.notes().delete_note(request).await.map(tonic::Response::into_inner)
}

/// Returns the text of an item.
fn value(note: &v1::Note, name: &str) -> Option<String> {
    let item = note.items.iter().find(|item| item.name == name)?;
    match item.value.as_ref()?.kind.as_ref()? {
        v1::value::Kind::Text(text) => Some(text.clone()),
        _ => None,
    }
}

fn authors(name: &str) -> v1::Item {
    let flags = v1::ItemFlags { summary: true, names: true, authors: true, ..Default::default() };
    v1::Item { flags: Some(flags), ..text("Authors", name) }
}

#[tokio::test]
async fn document_is_created_changed_and_deleted() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = ann.create(vec![text("Subject", "first")]).await.expect("ann may create");
    assert_eq!((created.sequence, created.unid.len()), (1, 16));
    let read = open(&ann, created.note_id).await.expect("it exists");
    assert_eq!(value(&read, "Subject").as_deref(), Some("first"));
    let saved = set(&ann, created.note_id, 1, "second").await.expect("no other user has saved it");
    assert_eq!((saved.sequence, saved.unid), (2, created.unid.clone()));
    assert!(saved.modseq > created.modseq);
    let read = open(&ann, created.note_id).await.expect("it exists");
    assert_eq!(value(&read, "Subject").as_deref(), Some("second"));
    assert_eq!(read.header.expect("a note has a header").unid, created.unid);
    assert!(delete(&ann, created.note_id).await.expect("ann may delete").deleted);
    assert_eq!(refusal(open(&ann, created.note_id).await), refused(Code::NotFound, "not-found"));
    assert_eq!(refusal(set(&ann, created.note_id, 0, "third").await), refused(Code::NotFound, "not-found"));
}

#[tokio::test]
async fn a_save_over_another_one_is_a_conflict() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = ann.create(vec![text("Subject", "a")]).await.expect("ann may create");
    set(&ann, created.note_id, 1, "b").await.expect("no other user has saved it");
    let status = set(&ann, created.note_id, 1, "c").await.expect_err("sequence 2 was saved meanwhile");
    let detail = details::detail(&status).and_then(|detail| detail.detail);
    let conflict = v1::error_detail::Conflict { unid: created.unid, expected_sequence: 1, found_sequence: 2 };
    assert_eq!(detail, Some(v1::error_detail::Detail::Conflict(conflict)));
    assert_eq!(value(&open(&ann, created.note_id).await.expect("it exists"), "Subject").as_deref(), Some("b"));
    set(&ann, created.note_id, 0, "d").await.expect("without an expected sequence the last save wins");
}

#[tokio::test]
async fn an_author_changes_documents_that_name_the_author() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let theirs = ann.create(vec![text("Subject", "x")]).await.expect("ann may create").note_id;
    let named = ann.create(vec![text("Subject", "x"), authors("CN=bob/O=acme.test")]).await.expect("ann may").note_id;
    let own = bob.create(vec![text("Subject", "x"), authors("CN=bob/O=acme.test")]).await.expect("he may").note_id;
    assert_eq!(refusal(set(&bob, theirs, 0, "y").await), refused(Code::PermissionDenied, "author"));
    for number in [named, own] {
        set(&bob, number, 0, "y").await.expect("it names bob");
        assert_eq!(value(&open(&ann, number).await.expect("it exists"), "Subject").as_deref(), Some("y"));
    }
    assert_eq!(refusal(delete(&bob, theirs).await), refused(Code::PermissionDenied, "author"));
    assert!(delete(&bob, own).await.expect("it names bob").deleted);
}

#[tokio::test]
async fn wrong_requests_are_refused_with_a_reason() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = ann.create(vec![text("Subject", "a")]).await.expect("ann may create");
    let invalid = refused(Code::InvalidArgument, "invalid");
    let request = v1::OpenNoteRequest { database: None, note: note(created.note_id), ..Default::default() };
    assert_eq!(refusal(ann.notes().open_note(request).await), invalid);
    let request = v1::OpenNoteRequest { database: plan(), note: None, ..Default::default() };
    assert_eq!(refusal(ann.notes().open_note(request).await), invalid);
    let short = v1::NoteKey { key: Some(v1::note_key::Key::Unid(vec![1, 2, 3])) };
    let request = v1::OpenNoteRequest { database: plan(), note: Some(short), ..Default::default() };
    assert_eq!(refusal(ann.notes().open_note(request).await), invalid);
    let request = v1::OpenNoteRequest { database: database("zork.nsf"), note: note(1), ..Default::default() };
    assert_eq!(refusal(ann.notes().open_note(request).await), refused(Code::NotFound, "not-found"));
    let unnamed = v1::Item { name: String::new(), ..text("x", "y") };
    assert_eq!(refusal(ann.create(vec![unnamed]).await), invalid);
    let empty = v1::Item { value: None, ..text("x", "y") };
    assert_eq!(refusal(ann.create(vec![empty]).await), invalid);
    let parent = v1::CreateNoteRequest { database: plan(), parent_unid: vec![1; 15], ..Default::default() };
    assert_eq!(refusal(ann.notes().create_note(parent).await), invalid);
    let formula = v1::SearchNotesRequest { database: plan(), formula: "SELECT (".to_owned(), ..Default::default() };
    let outcome = match ann.notes().search_notes(formula).await {
        Ok(replies) => replies.into_inner().message().await,
        Err(status) => Err(status),
    };
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "formula"));
}

#[tokio::test]
async fn unread_marks_belong_to_each_reader() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let created: Vec<u32> = {
        let mut created = Vec::new();
        for subject in ["a", "b", "c"] {
            created.push(ann.create(vec![text("Subject", subject)]).await.expect("ann may create").note_id);
        }
        created
    };
    let unread = |client: Client| async move {
        let request = v1::ListUnreadRequest { database: plan(), limit: 100, after: 0 };
        client.notes().list_unread(request).await.expect("a Reader may").into_inner().note_ids
    };
    assert_eq!(unread(bob.clone()).await, created);
    let mark = |notes: &[u32], unread| v1::MarkNotesRequest {
        database: plan(),
        notes: notes.iter().filter_map(|number| note(*number)).collect(),
        unread,
    };
    bob.notes().mark_notes(mark(&created[..2], false)).await.expect("a Reader may");
    assert_eq!(unread(bob.clone()).await, created[2..]);
    bob.notes().mark_notes(mark(&created[1..2], true)).await.expect("a Reader may");
    assert_eq!(unread(bob.clone()).await, created[1..]);
    let request =
        v1::OpenNoteRequest { database: plan(), note: note(created[2]), mark_read: true, ..Default::default() };
    bob.notes().open_note(request).await.expect("it exists");
    assert_eq!(unread(bob).await, created[1..2]);
}

#[tokio::test]
async fn watched_changes_arrive_in_order() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let before = ann.create(vec![text("Subject", "a")]).await.expect("ann may create");
    let request = v1::WatchChangesRequest { database: plan(), since_modseq: before.modseq, ..Default::default() };
    let mut changes = ann.changes().watch_changes(request).await.expect("ann may read").into_inner();
    let first = changes.message().await.expect("the stream goes on").expect("a first message");
    assert_eq!((first.changes.len(), first.modseq), (0, before.modseq));
    let created = ann.create(vec![text("Subject", "b")]).await.expect("ann may create");
    let batch = changes.message().await.expect("the stream goes on").expect("a message for the change");
    let numbers: Vec<(u32, i32)> = batch.changes.iter().map(|change| (change.note_id, change.kind)).collect();
    assert_eq!(numbers, [(created.note_id, v1::change::Kind::Changed.into())]);
    assert_eq!(batch.modseq, created.modseq);
    delete(&ann, created.note_id).await.expect("ann may delete");
    let batch = changes.message().await.expect("the stream goes on").expect("a message for the deletion");
    assert_eq!(batch.changes[0].kind(), v1::change::Kind::Deleted);
    assert_eq!(batch.changes[0].unid, created.unid);
}

#[tokio::test]
async fn large_item_is_read_in_chunks() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let long = "é0123456789".repeat(250_000);
    let value = v1::Value { kind: Some(v1::value::Kind::RichText(long.clone())) };
    let body = v1::Item { name: "Body".to_owned(), flags: None, value: Some(value) };
    let created = ann.create(vec![text("Subject", "x"), body]).await.expect("ann may create");
    for offset in [0, 1, 1_500_000, long.len()] {
        let request = v1::ReadItemRequest {
            database: plan(),
            note: note(created.note_id),
            name: "body".to_owned(),
            index: 0,
            offset_bytes: offset as u64,
        };
        let mut chunks = ann.notes().read_item(request).await.expect("ann may read").into_inner();
        let mut content = Vec::new();
        let mut total = None;
        while let Some(chunk) = chunks.message().await.expect("the item is sound") {
            total.get_or_insert(chunk.total_bytes);
            assert!(chunk.content.len() <= 256 << 10);
            content.extend(chunk.content);
        }
        assert_eq!(total, Some(long.len() as u64));
        assert!(content == long.as_bytes()[offset..], "the content from byte {offset}");
    }
}
