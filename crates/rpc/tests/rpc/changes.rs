//! Searches and change streams: large transactions, modseqs beyond the database's own, and changes and deletions of
//! documents that the reader cannot see.

use std::time::Duration;

use notes::AclLevel;
use proto::v1;
use rpc::limits::{HEARTBEAT_INTERVAL, STEP_CHANGES};
use tonic::{Code, Streaming};

use crate::world::{Client, TestServer, note, plan, refusal, refused, text};

fn all_items() -> Option<v1::ItemSelection> {
    Some(v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() })
}

async fn create(client: &Client, items: Vec<v1::Item>) -> u32 {
    client.create(items).await.expect("they may").note_id
}

/// Returns an item that lets only one person read the document.
fn readers_item(name: &str) -> v1::Item {
    let flags = v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() };
    v1::Item { flags: Some(flags), ..text("Readers", name) }
}

/// Creates documents that only ann may read. Returns the modseq of the last one.
async fn create_hidden(ann: &Client, count: usize) -> u64 {
    let mut modseq = 0;
    for _ in 0..count {
        let items = vec![text("A", "for ann"), readers_item("CN=ann/O=acme.test")];
        modseq = ann.create(items).await.expect("a manager may").modseq;
    }
    modseq
}

/// Starts a change stream that goes on.
async fn watch(client: &Client, since_modseq: u64) -> Streaming<v1::ChangeBatch> {
    let request = v1::WatchChangesRequest { database: plan(), since_modseq, once: false, documents_only: false };
    client.changes().watch_changes(request).await.expect("a reader").into_inner()
}

/// Returns the next message of a change stream: its changed notes and its modseq.
async fn next_batch(changes: &mut Streaming<v1::ChangeBatch>) -> (Vec<u32>, u64) {
    let batch = changes.message().await.expect("sound").expect("the stream goes on");
    (batch.changes.iter().map(|change| change.note_id).collect(), batch.modseq)
}

async fn open(client: &Client) -> v1::Database {
    let request = v1::OpenDatabaseRequest { database: plan() };
    client.databases().open_database(request).await.expect("they have access").into_inner()
}

/// Runs a search to its end. Returns the found notes in order, and the maximum number of notes in one message.
async fn search(client: &Client, request: v1::SearchNotesRequest) -> (Vec<u32>, usize) {
    let mut replies = client.notes().search_notes(request).await.expect("a reader").into_inner();
    let mut found = Vec::new();
    let mut largest = 0;
    while let Some(reply) = replies.message().await.expect("the stream continues to its end") {
        largest = largest.max(reply.notes.len());
        found.extend(reply.notes.into_iter().filter_map(|note| note.header).map(|header| header.note_id));
    }
    (found, largest)
}

#[tokio::test]
async fn large_transaction_is_sent_in_several_messages() {
    let server = TestServer::new();
    let client = server.log_in("ann").await;
    let since_modseq = open(&client).await.modseq;
    let mut created = Vec::new();
    for number in 0..700 {
        let subject = text("A", &number.to_string());
        created.push(create(&client, vec![subject, text("Filler", &"x".repeat(16 << 10))]).await);
    }
    let create_folder = v1::CreateFolderRequest { database: plan(), name: "All".into(), personal: false };
    let all = client.views().create_folder(create_folder).await.expect("a manager may").into_inner();
    let key = v1::view_key::Key::ViewId(all.view_id);
    let move_notes = v1::MoveNotesRequest {
        database: plan(),
        notes: created.iter().filter_map(|number| note(*number)).collect(),
        into: Some(v1::ViewKey { key: Some(key) }),
        ..Default::default()
    };
    client.views().move_notes(move_notes).await.expect("the notes exist");
    let request = v1::SearchNotesRequest { database: plan(), items: all_items(), ..Default::default() };
    let (found, largest) = search(&client, request.clone()).await;
    assert_eq!(found, created);
    assert!(largest < 70, "{largest} notes of 16 KiB in one message");
    // Even with a limit, the search ends only between two transactions.
    let (found, _) = search(&client, v1::SearchNotesRequest { limit: 3, ..request }).await;
    assert_eq!(found, created);
    let watch = v1::WatchChangesRequest { database: plan(), since_modseq, once: true, documents_only: true };
    let mut batches = client.changes().watch_changes(watch).await.expect("a reader").into_inner();
    let mut changed = Vec::new();
    let mut up_to = 0;
    while let Some(batch) = batches.message().await.expect("the stream continues to its end") {
        assert!(batch.changes.len() <= 500 && batch.modseq >= up_to);
        up_to = batch.modseq;
        changed.extend(batch.changes.into_iter().map(|change| change.note_id));
    }
    assert_eq!(changed, created);
}

#[tokio::test]
async fn slow_search_is_divided_into_short_steps() {
    let server = TestServer::new();
    let client = server.log_in("ann").await;
    let mut created = Vec::new();
    for number in 0..40 {
        created.push(create(&client, vec![text("A", &number.to_string())]).await);
    }
    // The formula takes about 16 ms of this clock over each document.
    server.clock.set_tick(Duration::from_millis(1));
    let formula = "@For(n := 1; n < 16000; n := n + 1; 1); SELECT A != \"\"".to_owned();
    let request = v1::SearchNotesRequest { database: plan(), formula, items: all_items(), ..Default::default() };
    let (found, largest) = search(&client, request).await;
    assert_eq!(found, created);
    assert!(largest <= 5, "{largest} notes in one step of 50 ms");
}

#[tokio::test]
async fn future_modseq_is_refused_as_purged() {
    let server = TestServer::new();
    let client = server.log_in("bob").await;
    let opened = open(&client).await;
    assert_eq!((opened.notes, opened.size_bytes), (0, 0), "they count hidden notes, too");
    let watch = |since_modseq| {
        let client = client.clone();
        let request = v1::WatchChangesRequest { database: plan(), since_modseq, once: true, documents_only: false };
        async move { client.changes().watch_changes(request).await?.into_inner().message().await }
    };
    watch(opened.modseq).await.expect("that is now");
    let purged = refused(Code::OutOfRange, "purged");
    assert_eq!(refusal(watch(opened.modseq + 100).await), purged);
    let since_modseq = opened.modseq + 100;
    let deletions = v1::SearchNotesRequest { database: plan(), since_modseq, deletions: true, ..Default::default() };
    let mut replies = client.notes().search_notes(deletions).await.expect("it begins").into_inner();
    assert_eq!(refusal(replies.message().await), purged);
}

#[tokio::test]
async fn deletion_is_reported_to_readers_of_the_document_only() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Depositor);
    server.set_level("dan", AclLevel::Reader);
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let dan = server.log_in("dan").await;
    let since_modseq = open(&dan).await.modseq;
    let created = create(&bob, vec![text("A", "for ann"), readers_item("CN=ann/O=acme.test")]).await;
    let delete = v1::DeleteNoteRequest { database: plan(), note: note(created), ..Default::default() };
    assert!(ann.notes().delete_note(delete).await.expect("she reads it").into_inner().deleted);
    for (who, client, expected) in [("ann", ann, 1), ("dan", dan, 0)] {
        let watch = v1::WatchChangesRequest { database: plan(), since_modseq, once: true, documents_only: false };
        let mut batches = client.changes().watch_changes(watch).await.expect("a reader").into_inner();
        let changed = batches.message().await.expect("sound").map_or(0, |batch| batch.changes.len());
        let search = v1::SearchNotesRequest { database: plan(), since_modseq, deletions: true, ..Default::default() };
        let mut replies = client.notes().search_notes(search).await.expect("a reader").into_inner();
        let deleted = replies.message().await.expect("sound").map_or(0, |reply| reply.deleted.len());
        assert_eq!((changed, deleted), (expected, expected), "{who}");
    }
}

#[tokio::test]
async fn hidden_changes_are_sent_with_the_heartbeat_alone() {
    let server = TestServer::new();
    server.set_level("dan", AclLevel::Reader);
    let ann = server.log_in("ann").await;
    let dan = server.log_in("dan").await;
    let since_modseq = open(&dan).await.modseq;
    let mut changes = watch(&dan, since_modseq).await;
    assert_eq!(next_batch(&mut changes).await, (vec![], since_modseq), "the first message");
    let last = create_hidden(&ann, 20).await;
    tokio::time::pause();
    let silence = tokio::time::timeout(HEARTBEAT_INTERVAL / 2, changes.message()).await;
    assert!(silence.is_err(), "a message because of hidden changes: {silence:?}");
    // The first heartbeat may be sent while the last changes are still examined.
    let mut seen = since_modseq;
    while seen < last {
        let (notes, modseq) = next_batch(&mut changes).await;
        assert!(notes.is_empty() && modseq > seen, "a heartbeat: {notes:?} {modseq}");
        seen = modseq;
    }
    assert_eq!(seen, last);
}

#[tokio::test]
async fn hidden_changes_do_not_delay_others() {
    let server = TestServer::new();
    server.set_level("dan", AclLevel::Reader);
    let ann = server.log_in("ann").await;
    let dan = server.log_in("dan").await;
    let since_modseq = open(&dan).await.modseq;
    // More than a page of hidden changes in front of the first message.
    let hidden = create_hidden(&ann, STEP_CHANGES + 20).await;
    let mut changes = watch(&dan, since_modseq).await;
    assert_eq!(next_batch(&mut changes).await, (vec![], hidden));
    let seen = ann.create(vec![text("A", "for all")]).await.expect("a manager may");
    assert_eq!(next_batch(&mut changes).await, (vec![seen.note_id], seen.modseq));
    create_hidden(&ann, 20).await;
    let seen = ann.create(vec![text("A", "for all")]).await.expect("a manager may");
    assert_eq!(next_batch(&mut changes).await, (vec![seen.note_id], seen.modseq));
    let mut again = watch(&dan, since_modseq).await;
    let (notes, modseq) = next_batch(&mut again).await;
    assert_eq!((notes.len(), modseq), (2, seen.modseq));
}
