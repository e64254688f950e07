//! Calls whose work is divided into several jobs: their replies are those of one job, and other calls are served in
//! between.

use proto::v1;
use proto::v1::deposit_mail_request::{Envelope, Part};
use wire::sim::BusyWorker;

use crate::world::{Client, TestServer, canonical, note, plan, text};

const INBOX: &str = "INBOX";

fn readers_item(name: &str) -> v1::Item {
    let flags = v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() };
    v1::Item { flags: Some(flags), ..text("Readers", name) }
}

/// Creates documents of ann. Every second one is hidden from the others. Returns their numbers.
async fn create_documents(ann: &Client, count: u32) -> Vec<u32> {
    let mut created = Vec::new();
    for number in 0..count {
        let mut items = vec![text("Subject", &format!("{number:03}"))];
        items.extend((number % 2 == 1).then(|| readers_item(&canonical("ann"))));
        created.push(ann.create(items).await.expect("ann manages the plan").note_id);
    }
    created
}

fn named(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

/// Creates a view, and brings its index up to date.
async fn create_view(ann: &Client, title: &str) {
    let column = v1::ColumnDesign {
        title: "Subject".into(),
        formula: "Subject".into(),
        sort: v1::SortOrder::Ascending.into(),
        ..Default::default()
    };
    let design = v1::ViewDesign {
        title: title.to_owned(),
        selection: "SELECT @All".to_owned(),
        columns: vec![column],
        ..Default::default()
    };
    let request = v1::CreateViewRequest { database: plan(), design: Some(design) };
    ann.views().create_view(request).await.expect("ann manages the plan");
    let request = v1::OpenCollectionRequest { database: plan(), view: named(title) };
    ann.views().open_collection(request).await.expect("ann manages the plan");
}

/// Returns the number of jobs that a call has taken so far.
fn jobs(server: &TestServer, call: &str) -> u64 {
    // A reply is sent before its job is counted.
    while server.pool.report().busy > 0 {
        std::thread::yield_now();
    }
    let of_call = server.pool.verbs().into_iter().filter(|(verb, ..)| verb.command == call);
    of_call.map(|(_, _, statistics)| statistics.completed).sum()
}

/// Makes a call on a server that divides it, and on one that does not. Compares the replies, and counts the jobs.
macro_rules! check_divided {
    ($call:literal, |$server:ident, $ann:ident, $bob:ident| $reply:expr) => {{
        let mut replies = Vec::new();
        for $server in [TestServer::dividing(), TestServer::new()] {
            $server.keep_deleted();
            let $ann = $server.log_in("ann").await;
            let $bob = $server.log_in("bob").await;
            // Not every call needs both.
            let _ = (&$ann, &$bob);
            replies.push($reply);
            let jobs = jobs(&$server, $call);
            if replies.len() == 1 {
                assert!(jobs > 2, "{} took {jobs} jobs", $call);
            } else {
                assert_eq!(jobs, 1, "{} fits into one job", $call);
            }
        }
        let [divided, whole] = <[_; 2]>::try_from(replies).expect("two servers");
        assert_eq!(divided, whole);
        whole
    }};
}

fn read_entries(title: &str) -> v1::ReadEntriesRequest {
    v1::ReadEntriesRequest {
        database: plan(),
        view: named(title),
        navigator: v1::Navigator::Next.into(),
        count: 1_000,
        mask: Some(v1::ReadMask { values: true, position: true, row: true, ..Default::default() }),
        ..Default::default()
    }
}

#[tokio::test]
async fn entries_are_read_in_several_jobs() {
    let reply = check_divided!("Views/ReadEntries", |server, ann, bob| {
        create_documents(&ann, 60).await;
        create_view(&ann, "All").await;
        bob.views().read_entries(read_entries("All")).await.expect("bob may read").into_inner()
    });
    let rows: Vec<u64> = reply.entries.iter().map(|entry| entry.row).collect();
    assert_eq!(rows, (1..=30).collect::<Vec<_>>(), "only the rows that bob may see");
}

#[tokio::test]
async fn expanded_rows_are_found_in_several_jobs() {
    check_divided!("Views/ReadEntries", |server, ann, bob| {
        create_documents(&ann, 4).await;
        create_view(&ann, "All").await;
        let exceptions = (0..40).map(|number| v1::Tumbler { levels: vec![number % 4 + 1] }).collect();
        let expansion = Some(v1::Expansion { collapsed: false, exceptions });
        let request = v1::ReadEntriesRequest { expansion, ..read_entries("All") };
        ann.views().read_entries(request).await.expect("ann may read").into_inner()
    });
}

#[tokio::test]
async fn keys_are_found_in_several_jobs() {
    let reply = check_divided!("Views/FindByKey", |server, ann, bob| {
        create_documents(&ann, 60).await;
        create_view(&ann, "All").await;
        let key = v1::Value { kind: Some(v1::value::Kind::Text("010".to_owned())) };
        let request =
            v1::FindByKeyRequest { database: plan(), view: named("All"), keys: vec![key], ..Default::default() };
        bob.views().find_by_key(request).await.expect("bob may read").into_inner()
    });
    assert_eq!((reply.matches, reply.position), (1, Some(v1::Tumbler { levels: vec![6] })));
}

#[tokio::test]
async fn collection_is_described_in_several_jobs() {
    for divides in [true, false] {
        let server = if divides { TestServer::dividing() } else { TestServer::new() };
        let ann = server.log_in("ann").await;
        create_documents(&ann, 60).await;
        create_view(&ann, "All").await;
        let before = jobs(&server, "Views/OpenCollection");
        let bob = server.log_in("bob").await;
        let request = v1::OpenCollectionRequest { database: plan(), view: named("All") };
        let collection = bob.views().open_collection(request).await.expect("bob may read").into_inner();
        assert_eq!((collection.documents, collection.entries, collection.incomplete), (30, 30, false));
        let taken = jobs(&server, "Views/OpenCollection") - before;
        assert!(if divides { taken > 3 } else { taken == 2 }, "{taken} jobs");
    }
}

#[tokio::test]
async fn views_are_listed_in_several_jobs() {
    let reply = check_divided!("Views/ListViews", |server, ann, bob| {
        for number in 0..20 {
            create_view(&ann, &format!("View {number}")).await;
        }
        let request = v1::ListViewsRequest { database: plan(), ..Default::default() };
        bob.views().list_views(request).await.expect("bob may read").into_inner()
    });
    assert_eq!(reply.views.len(), 20);
}

#[tokio::test]
async fn unread_notes_are_listed_in_several_jobs() {
    let reply = check_divided!("Notes/ListUnread", |server, ann, bob| {
        create_documents(&ann, 60).await;
        let request = v1::ListUnreadRequest { database: plan(), ..Default::default() };
        bob.notes().list_unread(request).await.expect("bob may read").into_inner()
    });
    assert_eq!(reply.note_ids.len(), 30);
}

#[tokio::test]
async fn deleted_notes_are_listed_in_several_jobs() {
    let reply = check_divided!("Notes/ListDeletedNotes", |server, ann, bob| {
        for number in create_documents(&ann, 10).await {
            let request =
                v1::DeleteNoteRequest { database: plan(), note: note(number), soft: true, ..Default::default() };
            ann.notes().delete_note(request).await.expect("ann manages the plan");
        }
        let request = v1::ListDeletedNotesRequest { database: plan(), ..Default::default() };
        ann.notes().list_deleted_notes(request).await.expect("ann manages the plan").into_inner()
    });
    assert_eq!(reply.notes.len(), 10);
}

#[tokio::test]
async fn notes_are_opened_in_several_jobs() {
    let reply = check_divided!("Notes/OpenNotes", |server, ann, bob| {
        let created = create_documents(&ann, 10).await;
        let notes = created.into_iter().filter_map(note).collect();
        let request = v1::OpenNotesRequest { database: plan(), notes, ..Default::default() };
        bob.notes().open_notes(request).await.expect("bob may read").into_inner()
    });
    assert_eq!(reply.notes.len(), 5);
}

#[tokio::test]
async fn databases_are_listed_in_several_jobs() {
    let reply = check_divided!("Databases/ListDatabases", |server, ann, bob| {
        for path in ["a.nsf", "b.nsf", "c.nsf"] {
            let request = v1::CreateDatabaseRequest { path: path.to_owned(), ..Default::default() };
            ann.databases().create_database(request).await.expect("ann may");
        }
        ann.databases().list_databases(v1::ListDatabasesRequest::default()).await.expect("all may").into_inner()
    });
    assert!(reply.databases.len() >= 4 && reply.next.is_empty(), "{reply:?}");
}

fn rich(name: &str, content: &str) -> v1::Item {
    let value = v1::Value { kind: Some(v1::value::Kind::RichText(content.to_owned())) };
    v1::Item { name: name.to_owned(), flags: None, value: Some(value) }
}

/// Creates a document with several texts outside the summary. Returns its number.
async fn create_long_document(ann: &Client) -> u32 {
    let long = "é".repeat(50_000);
    let items = vec![
        text("Subject", "first"),
        rich("Body", &long),
        rich("Other", "x"),
        rich("Body", "y"),
        rich("More", &long),
        rich("Body", &long[2..]),
    ];
    ann.create(items).await.expect("ann manages the plan").note_id
}

/// Returns the names of the items of a document, and the lengths of the texts.
async fn items_of(ann: &Client, number: u32) -> Vec<(String, usize)> {
    use v1::value::Kind;
    let items = v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() };
    let request =
        v1::OpenNoteRequest { database: plan(), note: note(number), items: Some(items), ..Default::default() };
    let found = ann.notes().open_note(request).await.expect("ann may read").into_inner();
    let shown = |item: v1::Item| match item.value.and_then(|value| value.kind) {
        Some(Kind::Text(text) | Kind::RichText(text)) => (item.name, text.len()),
        _ => (item.name, 0),
    };
    // The history of the editors is not of interest.
    let is_plain = |(name, _): &(String, usize)| !name.starts_with("$UpdatedBy") && !name.starts_with("$Revisions");
    found.items.into_iter().map(shown).filter(is_plain).collect()
}

fn pairs(items: &[(&str, usize)]) -> Vec<(String, usize)> {
    items.iter().map(|(name, length)| ((*name).to_owned(), *length)).collect()
}

#[tokio::test]
async fn note_is_changed_in_several_jobs() {
    let items = check_divided!("Notes/UpdateNote", |server, ann, bob| {
        let number = create_long_document(&ann).await;
        let request = v1::UpdateNoteRequest {
            database: plan(),
            note: note(number),
            expected_sequence: 1,
            expected_revision_id: Vec::new(),
            items: vec![text("Subject", "second"), rich("Other", &"z".repeat(200_000))],
            remove: vec!["MORE".to_owned()],
            ..Default::default()
        };
        let saved = ann.notes().update_note(request).await.expect("ann may").into_inner();
        assert_eq!((saved.note_id, saved.sequence), (number, 2), "it is saved once");
        items_of(&ann, number).await
    });
    let expected = [("Subject", 6), ("Body", 100_000), ("Body", 1), ("Body", 99_998), ("Other", 200_000)];
    assert_eq!(items, pairs(&expected));
}

#[tokio::test]
async fn all_items_are_replaced_in_several_jobs() {
    let items = check_divided!("Notes/UpdateNote", |server, ann, bob| {
        let number = create_long_document(&ann).await;
        let items = vec![text("Subject", "second"), rich("Body", "new")];
        let request = v1::UpdateNoteRequest {
            database: plan(),
            note: note(number),
            items,
            replace_all: true,
            ..Default::default()
        };
        ann.notes().update_note(request).await.expect("ann may");
        items_of(&ann, number).await
    });
    assert_eq!(items, pairs(&[("Subject", 6), ("Body", 3)]));
}

#[tokio::test]
async fn file_is_detached_in_several_jobs() {
    let items = check_divided!("Notes/DetachFile", |server, ann, bob| {
        let number = create_long_document(&ann).await;
        for file_name in ["a", "b"] {
            assert_eq!(attach(&ann, number, file_name, b"content").await.note_id, number);
        }
        let request = v1::DetachFileRequest {
            database: plan(),
            note: note(number),
            expected_sequence: 3,
            expected_revision_id: Vec::new(),
            file_name: "a".to_owned(),
        };
        let saved = ann.notes().detach_file(request).await.expect("ann may").into_inner();
        assert_eq!((saved.note_id, saved.sequence), (number, 4), "it is saved once");
        items_of(&ann, number).await
    });
    let texts = [("Body", 100_000), ("Other", 1), ("Body", 1), ("More", 100_000), ("Body", 99_998)];
    assert_eq!(items[..2], pairs(&[("Subject", 5), ("$FILE", 0)]));
    assert_eq!(items[2..], pairs(&texts));
}

/// Attaches a file to a document.
async fn attach(ann: &Client, number: u32, file_name: &str, content: &[u8]) -> v1::SavedNote {
    use v1::attach_file_request::{Header, Part as FilePart};
    let header = Header {
        database: plan(),
        note: note(number),
        file_name: file_name.to_owned(),
        length_bytes: content.len() as u64,
        ..Default::default()
    };
    let parts = [FilePart::Header(header), FilePart::Content(content.to_vec())];
    let parts = parts.map(|part| v1::AttachFileRequest { part: Some(part) });
    ann.notes().attach_file(futures_util::stream::iter(parts)).await.expect("ann may").into_inner()
}

#[tokio::test]
async fn file_is_attached_in_several_jobs() {
    let content: Vec<u8> = (0..90_000_u32).map(|place| place.to_le_bytes()[0] ^ place.to_le_bytes()[1]).collect();
    for divides in [true, false] {
        let server = if divides { TestServer::dividing() } else { TestServer::new() };
        let ann = server.log_in("ann").await;
        let [number] = create_documents(&ann, 1).await[..] else { panic!("one document") };
        let saved = attach(&ann, number, "plan.bin", &content).await;
        assert_eq!((saved.note_id, saved.sequence), (number, 2), "it is saved once");
        let taken = jobs(&server, "Notes/AttachFile");
        assert!(if divides { taken > 3 } else { taken == 2 }, "{taken} jobs");
        let file_name = "plan.bin".to_owned();
        let request = v1::ReadAttachmentRequest { database: plan(), note: note(number), file_name, offset_bytes: 0 };
        let mut chunks = ann.notes().read_attachment(request).await.expect("ann may read").into_inner();
        let chunk = chunks.message().await.expect("it is sound").expect("the content");
        assert!(chunk.total_bytes == content.len() as u64 && chunk.content == content);
    }
}

#[tokio::test]
async fn names_are_looked_up_in_several_jobs() {
    let reply = check_divided!("Directory/LookupNames", |server, ann, bob| {
        let names = ["ann", "bob@acme.test", "nobody", "x@far.test"].map(str::to_owned).to_vec();
        ann.directory().lookup_names(v1::LookupNamesRequest { names }).await.expect("all may").into_inner()
    });
    assert_eq!(reply.entries.len(), 4);
}

/// Delivers a message to ann, and files documents in her inbox that are hidden from her.
async fn fill_inbox(server: &TestServer, bob: &Client) {
    use notes::{Access, Identity, Item, NewNote, level};
    let message = b"From: bob@acme.test\r\nTo: ann@acme.test\r\n\r\nhello\r\n".to_vec();
    let recipients = vec!["ann@acme.test".to_owned()];
    let envelope = Envelope { recipients, length_bytes: message.len() as u64, ..Default::default() };
    let parts =
        [Part::Envelope(envelope), Part::Content(message)].map(|part| v1::DepositMailRequest { part: Some(part) });
    bob.mail().deposit_mail(futures_util::stream::iter(parts)).await.expect("ann takes mail");
    let databases = server.mail.databases();
    let file = databases.database_open("mail/ann.nsf").expect("the mail file exists");
    let identity = std::sync::Arc::new(Identity::local_server("CN=hub/O=Acme"));
    let access: Access<level::Manager> = file.authorize(&identity).expect("it is the server");
    let inbox = access.read().expect("a snapshot").folder_find(INBOX).expect("an inbox").view;
    let lower = access.downgrade::<level::Depositor>();
    let accesses = [&lower];
    let mut transaction = databases.transaction(&accesses).expect("the store is in memory");
    for _ in 0..10 {
        let hidden = vec![Item::readers("Readers", vec![canonical("bob")])];
        let new = NewNote { folders: vec![inbox], ..NewNote::document(hidden) };
        transaction.writer(0).note_create(new).expect("the server may");
    }
    transaction.commit().expect("the store is in memory");
}

#[tokio::test]
async fn inbox_is_polled_in_several_jobs() {
    let reply = check_divided!("Changes/PollNewMail", |server, ann, bob| {
        fill_inbox(&server, &bob).await;
        ann.changes().poll_new_mail(v1::PollNewMailRequest::default()).await.expect("ann has mail").into_inner()
    });
    assert_eq!((reply.new_mail, reply.messages), (true, 1), "only the message that ann may see");
}

#[tokio::test]
async fn call_of_another_account_is_served_between_two_parts() {
    let server = TestServer::dividing();
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    create_documents(&ann, 60).await;
    create_view(&ann, "All").await;
    let seen = std::sync::Arc::new(base::sync::Mutex::new(Vec::new()));
    let recorded = std::sync::Arc::clone(&seen);
    let pool = server.pool.clone();
    *server.on_templates.lock() = Some(Box::new(move || {
        let of_bob = pool.verbs().into_iter().find(|(verb, ..)| verb.command == "Views/ReadEntries");
        recorded.lock().push(of_bob.map_or(0, |(_, _, statistics)| statistics.completed));
    }));
    let busy = BusyWorker::occupy(&server.pool).expect("the queue has space");
    let reading = tokio::spawn(async move { bob.views().read_entries(read_entries("All")).await });
    wait_for_depth(&server, 1).await;
    let listing = tokio::spawn(async move { ann.databases().list_templates(v1::ListTemplatesRequest {}).await });
    wait_for_depth(&server, 2).await;
    drop(busy);
    assert!(listing.await.expect("no panic").is_ok());
    let entries = reading.await.expect("no panic").expect("bob may read").into_inner().entries;
    assert_eq!(entries.len(), 30);
    assert_eq!(*seen.lock(), [1], "ann's call was served after the first job of bob's call");
    assert!(jobs(&server, "Views/ReadEntries") > 2, "which took several jobs");
    // The hook holds the pool.
    *server.on_templates.lock() = None;
}

async fn wait_for_depth(server: &TestServer, depth: usize) {
    while server.pool.report().depth < depth {
        tokio::task::yield_now().await;
    }
}
