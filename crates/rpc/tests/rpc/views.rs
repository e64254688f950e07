//! Collections and the task that builds indexes.

use proto::v1;
use tonic::{Code, Status};

use crate::world::{Client, TestServer, plan, refusal, refused, text};

fn named(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

fn design(title: &str, refresh: v1::ViewRefresh) -> Option<v1::ViewDesign> {
    let column = v1::ColumnDesign { title: "Subject".into(), formula: "Subject".into(), ..Default::default() };
    Some(v1::ViewDesign {
        title: title.to_owned(),
        selection: "SELECT @All".to_owned(),
        columns: vec![column],
        refresh: refresh.into(),
        hours: if refresh == v1::ViewRefresh::Hours { 3 } else { 0 },
        ..Default::default()
    })
}

/// Creates a view and returns its number.
async fn create_view(client: &Client, title: &str, refresh: v1::ViewRefresh) -> u32 {
    let request = v1::CreateViewRequest { database: plan(), design: design(title, refresh) };
    client.views().create_view(request).await.expect("a manager may").into_inner().note_id
}

async fn open(client: &Client, title: &str) -> Result<v1::Collection, Status> {
    let request = v1::OpenCollectionRequest { database: plan(), view: named(title) };
    client.views().open_collection(request).await.map(tonic::Response::into_inner)
}

async fn update(client: &Client, title: &str) -> Result<v1::Collection, Status> {
    let request = v1::UpdateCollectionRequest { database: plan(), view: named(title) };
    client.views().update_collection(request).await.map(tonic::Response::into_inner)
}

async fn add(client: &Client, count: usize) {
    for number in 0..count {
        client.create(vec![text("Subject", &number.to_string())]).await.expect("the caller may create");
    }
}

/// Returns the first values of the entries of a view.
async fn rows(client: &Client, title: &str) -> Vec<String> {
    let request = v1::ReadEntriesRequest {
        database: plan(),
        view: named(title),
        navigator: v1::Navigator::Next.into(),
        count: 100,
        mask: Some(v1::ReadMask { values: true, ..v1::ReadMask::default() }),
        ..Default::default()
    };
    let reply = client.views().read_entries(request).await.expect("the view is open").into_inner();
    let value = |entry: v1::Entry| match entry.values.into_iter().next().and_then(|value| value.kind) {
        Some(v1::value::Kind::Text(text)) => text,
        other => format!("{other:?}"),
    };
    reply.entries.into_iter().map(value).collect()
}

#[tokio::test]
async fn opening_a_small_view_builds_its_index() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    add(&ann, 3).await;
    create_view(&ann, "All", v1::ViewRefresh::Automatic).await;
    let collection = open(&ann, "All").await.expect("ann may read");
    assert_eq!((collection.documents, collection.entries, collection.incomplete), (3, 3, false));
    assert_eq!(rows(&ann, "All").await, ["0", "1", "2"]);
    assert!(server.indexes.builds.lock().is_empty(), "the task was not needed");
    add(&ann, 1).await;
    assert_eq!(open(&ann, "All").await.expect("ann may read").documents, 4);
}

#[tokio::test]
async fn manager_sees_how_many_documents_exceed_the_limits() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let selection = "SELECT @While(Subject = \"1\"; 1)".to_owned();
    let slow = design("Slow", v1::ViewRefresh::Automatic).map(|design| v1::ViewDesign { selection, ..design });
    let request = v1::CreateViewRequest { database: plan(), design: slow };
    ann.views().create_view(request).await.expect("a manager may");
    add(&ann, 3).await;
    let opened = open(&ann, "Slow").await.expect("ann may read");
    assert_eq!((opened.documents, opened.limited_documents), (2, 1));
    let opened = open(&bob, "Slow").await.expect("bob may read");
    assert_eq!((opened.documents, opened.limited_documents), (2, 0), "the number includes hidden documents");
}

#[tokio::test]
async fn manual_view_waits_for_update_collection() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    create_view(&ann, "Manual", v1::ViewRefresh::Manual).await;
    assert_eq!(open(&ann, "Manual").await.expect("ann may read").documents, 0);
    add(&ann, 2).await;
    assert_eq!(open(&ann, "Manual").await.expect("ann may read").documents, 0, "opening does not update it");
    assert_eq!(update(&ann, "Manual").await.expect("ann may read").documents, 2);
    assert_eq!(rows(&ann, "Manual").await, ["0", "1"]);
}

#[tokio::test]
async fn hourly_view_records_its_refreshes() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let view = create_view(&ann, "Hourly", v1::ViewRefresh::Hours).await;
    open(&ann, "Hourly").await.expect("ann may read");
    assert_eq!(server.indexes.refresh_count(view), 1);
    server.indexes.recent.lock().push(base::NoteId(view));
    add(&ann, 2).await;
    assert_eq!(open(&ann, "Hourly").await.expect("ann may read").documents, 0, "it was updated a short time ago");
    assert_eq!(server.indexes.refresh_count(view), 1);
    assert_eq!(update(&ann, "Hourly").await.expect("ann may read").documents, 2, "the request overrides the pause");
    server.indexes.recent.lock().clear();
    add(&ann, 1).await;
    assert_eq!(open(&ann, "Hourly").await.expect("ann may read").documents, 3);
    assert_eq!(server.indexes.refresh_count(view), 3);
}

#[tokio::test]
async fn a_large_view_is_built_by_the_task() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    add(&ann, notes_limit()).await;
    let view = create_view(&ann, "All", v1::ViewRefresh::Automatic).await;
    let (opened, ()) = tokio::join!(open(&ann, "All"), async {
        while server.indexes.builds.lock().is_empty() {
            tokio::task::yield_now().await;
        }
        // The build ends without a result: the call continues with the changes itself.
        let builds = std::mem::take(&mut *server.indexes.builds.lock());
        assert_eq!(builds.iter().map(|(built, _)| built.0).collect::<Vec<_>>(), [view]);
    });
    let opened = opened.expect("ann may read");
    assert_eq!((opened.documents, opened.incomplete), (notes_limit() as u64, false));
}

#[tokio::test]
async fn a_task_without_capacity_leaves_the_build_to_the_call() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    add(&ann, notes_limit()).await;
    create_view(&ann, "All", v1::ViewRefresh::Automatic).await;
    *server.indexes.is_full.lock() = true;
    let opened = open(&ann, "All").await.expect("ann may read");
    assert_eq!((opened.documents, opened.incomplete), (notes_limit() as u64, false));
    assert!(server.indexes.builds.lock().is_empty());
}

/// Returns the number of documents from which on the task builds an index.
fn notes_limit() -> usize {
    usize::try_from(::notes::limits::VIEW_BUILD_NOTES_MIN).expect("a few thousand")
}

#[tokio::test]
async fn reading_requires_reader_and_creation_requires_designer() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    create_view(&ann, "All", v1::ViewRefresh::Automatic).await;
    let bob = server.log_in("bob").await;
    assert!(open(&bob, "All").await.is_ok(), "an Author reads");
    let request = v1::CreateViewRequest { database: plan(), design: design("Mine", v1::ViewRefresh::Automatic) };
    assert_eq!(refusal(bob.views().create_view(request).await), refused(Code::PermissionDenied, "access"));
    assert_eq!(refusal(open(&server.connect().await, "All").await), refused(Code::Unauthenticated, "session"));
    assert_eq!(refusal(open(&bob, "Zork").await), refused(Code::NotFound, "not-found"));
    let wrong = v1::ViewDesign {
        title: "Wrong".into(),
        selection: "SELECT @Zork(".into(),
        ..design("", v1::ViewRefresh::Automatic).expect("a design")
    };
    let request = v1::CreateViewRequest { database: plan(), design: Some(wrong) };
    assert_eq!(refusal(ann.views().create_view(request).await), refused(Code::InvalidArgument, "formula"));
}

#[tokio::test]
async fn hidden_documents_have_no_rows() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    create_view(&ann, "All", v1::ViewRefresh::Automatic).await;
    let mut readers = text("Readers", "CN=ann/O=acme.test");
    readers.flags = Some(v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() });
    add(&ann, 1).await;
    ann.create(vec![text("Subject", "secret"), readers]).await.expect("ann may create");
    let bob = server.log_in("bob").await;
    assert_eq!(open(&bob, "All").await.expect("bob may read").documents, 1);
    assert_eq!(rows(&bob, "All").await, ["0"]);
    assert_eq!(rows(&ann, "All").await, ["0", "secret"]);
}

#[tokio::test]
async fn a_database_without_an_index_has_no_full_text_search() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let request = v1::SearchFullTextRequest { database: plan(), query: "word".to_owned(), ..Default::default() };
    let status = ann.search().search_full_text(request.clone()).await.expect_err("there is no index");
    assert!(status.message().contains("the operator can create one"), "{status:?}");
    assert_eq!(refusal::<()>(Err(status)), refused(Code::FailedPrecondition, "no-index"));
    let stranger = server.connect().await;
    assert_eq!(refusal(stranger.search().search_full_text(request).await), refused(Code::Unauthenticated, "session"));
}
