//! Soft deletion: deleted documents are listed, restored, and deleted for good.

use proto::v1;
use tonic::Code;

use crate::world::{Client, TestServer, note, plan, refusal, refused, text};

async fn create(client: &Client) -> v1::SavedNote {
    client.create(vec![text("A", "1")]).await.expect("they may")
}

/// Returns a request to delete a document as the database specifies.
fn delete(number: u32) -> v1::DeleteNoteRequest {
    v1::DeleteNoteRequest { database: plan(), note: note(number), ..Default::default() }
}

fn delete_softly(number: u32) -> v1::DeleteNoteRequest {
    v1::DeleteNoteRequest { soft: true, ..delete(number) }
}

fn delete_permanently(number: u32) -> v1::DeleteNoteRequest {
    v1::DeleteNoteRequest { permanent: true, ..delete(number) }
}

fn restore(number: u32) -> v1::RestoreNoteRequest {
    v1::RestoreNoteRequest { database: plan(), note: note(number) }
}

#[tokio::test]
async fn database_that_keeps_nothing_refuses_soft_deletion() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = create(&ann).await.note_id;
    let mut notes = ann.notes();
    let state = refused(Code::FailedPrecondition, "state");
    assert_eq!(refusal(notes.delete_note(delete_softly(created)).await), state, "nothing is kept here");
    let both = v1::DeleteNoteRequest { soft: true, ..delete_permanently(created) };
    assert_eq!(refusal(notes.delete_note(both).await), refused(Code::InvalidArgument, "invalid"));
    assert_eq!(refusal(notes.restore_note(restore(created)).await), state, "it is not deleted");
    let reply = notes.delete_note(delete(created)).await.expect("a manager may").into_inner();
    assert!(reply.deleted && !reply.soft);
    assert_eq!(refusal(notes.restore_note(restore(created)).await), refused(Code::NotFound, "not-found"));
}

#[tokio::test]
async fn soft_deleted_notes_can_be_restored() {
    let server = TestServer::new();
    server.keep_deleted();
    let ann = server.log_in("ann").await;
    let missing = refused(Code::NotFound, "not-found");
    let first = create(&ann).await;
    let second = create(&ann).await;
    let mut notes = ann.notes();
    for saved in [&first, &second] {
        let reply = notes.delete_note(delete_softly(saved.note_id)).await.expect("it is kept").into_inner();
        assert!(reply.deleted && reply.soft);
    }
    let open = v1::OpenNoteRequest { database: plan(), note: note(first.note_id), ..Default::default() };
    assert_eq!(refusal(notes.open_note(open.clone()).await), missing);
    let listed = |after| {
        let items = Some(v1::ItemSelection { extent: 0, names: vec!["A".to_owned()] });
        let request = v1::ListDeletedNotesRequest { database: plan(), limit: 1, after, items };
        let mut notes = ann.notes();
        async move { notes.list_deleted_notes(request).await.expect("a manager may").into_inner() }
    };
    let page = listed(0).await;
    let found = page.notes[0].note.clone().expect("a note");
    let header = found.header.expect("a header");
    assert_eq!((header.note_id, header.soft_deleted, found.items.len()), (first.note_id, true, 1));
    assert!(page.notes[0].deleted_us > 0 && page.notes[0].deleted_by == "ann/acme.test", "{page:?}");
    let page = listed(page.next).await;
    let header = page.notes[0].note.clone().and_then(|note| note.header).expect("a header");
    assert_eq!(header.note_id, second.note_id);
    assert!(page.next == 0 || listed(page.next).await == v1::ListDeletedNotesReply::default());
    let back = notes.restore_note(restore(first.note_id)).await.expect("it is kept").into_inner();
    assert_eq!((back.note_id, back.unid), (first.note_id, first.unid));
    assert!(back.sequence > first.sequence && back.modseq > first.modseq);
    notes.open_note(open).await.expect("it is back");
    for deleted in [true, false] {
        let request = delete_permanently(second.note_id);
        let reply = notes.delete_note(request).await.expect("a manager may").into_inner();
        assert_eq!((reply.deleted, reply.soft), (deleted, false), "for good, once");
    }
    assert_eq!(refusal(notes.restore_note(restore(second.note_id)).await), missing);
}

#[tokio::test]
async fn an_author_restores_no_documents_of_others() {
    let server = TestServer::new();
    server.keep_deleted();
    let ann = server.log_in("ann").await;
    let created = create(&ann).await.note_id;
    ann.notes().delete_note(delete(created)).await.expect("a manager may");
    let bob = server.log_in("bob").await;
    let request = v1::ListDeletedNotesRequest { database: plan(), ..Default::default() };
    let listed = bob.notes().list_deleted_notes(request).await.expect("an author may").into_inner();
    assert_eq!(listed, v1::ListDeletedNotesReply::default(), "but may not restore what others wrote");
    assert_eq!(refusal(bob.notes().restore_note(restore(created)).await).0, Code::PermissionDenied);
}

#[tokio::test]
async fn page_of_deleted_notes_is_limited_by_message_size() {
    let server = TestServer::new();
    server.keep_deleted();
    let ann = server.log_in("ann").await;
    for bytes in [7 << 20, 7 << 20, 100] {
        let body = v1::Item { flags: None, ..text("Body", &"x".repeat(bytes)) };
        let created = ann.create(vec![text("A", "1"), body]).await.expect("she has access");
        ann.notes().delete_note(delete(created.note_id)).await.expect("she has access");
    }
    let list = |after, extent: v1::item_selection::Extent| {
        let items = Some(v1::ItemSelection { extent: extent.into(), names: Vec::new() });
        let request = v1::ListDeletedNotesRequest { database: plan(), after, items, ..Default::default() };
        let ann = ann.clone();
        async move { ann.notes().list_deleted_notes(request).await.expect("she has access").into_inner() }
    };
    let headers = list(0, v1::item_selection::Extent::Header).await;
    assert_eq!((headers.notes.len(), headers.next), (3, 0));
    let mut after = 0;
    let mut pages = Vec::new();
    loop {
        let page = list(after, v1::item_selection::Extent::All).await;
        assert!(page.notes.iter().all(|found| !found.items_left_out));
        pages.push(page.notes.len());
        after = page.next;
        if after == 0 {
            break;
        }
    }
    assert_eq!(pages, [1, 2]);
}
