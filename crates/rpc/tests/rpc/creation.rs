//! The creation of databases and the list of databases.

use proto::v1;
use tonic::Code;

use crate::world::{Client, PLAN, TestServer, database, refusal, refused};

fn creation(path: &str, template: &str) -> v1::CreateDatabaseRequest {
    v1::CreateDatabaseRequest { path: path.to_owned(), title: "New".to_owned(), template: template.to_owned() }
}

/// Returns the paths of a page of the list, and where the next page begins.
async fn listed(client: &Client, request: v1::ListDatabasesRequest) -> (Vec<String>, String) {
    let reply = client.databases().list_databases(request).await.expect("a session is enough").into_inner();
    (reply.databases.into_iter().map(|entry| entry.path).collect(), reply.next)
}

#[tokio::test]
async fn a_created_database_belongs_to_its_creator() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = ann.databases().create_database(creation("a/new.nsf", "empty")).await.expect("ann may").into_inner();
    assert_eq!((created.path.as_str(), created.title.as_str()), ("a/new.nsf", "New"));
    let rights = created.rights.expect("the creator has rights");
    assert_eq!(rights.level(), v1::AccessLevel::Manager);
    assert!(rights.create_documents && rights.delete_documents && rights.create_folders);
    let open = v1::OpenDatabaseRequest { database: database("a/new.nsf") };
    let opened = ann.databases().open_database(open.clone()).await.expect("it exists").into_inner();
    assert_eq!(opened.replica_id, created.replica_id);
    let bob = server.log_in("bob").await;
    assert_eq!(refusal(bob.databases().open_database(open).await), refused(Code::NotFound, "not-found"));
}

#[tokio::test]
async fn replica_id_names_a_database_to_those_with_access() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let created = ann.databases().create_database(creation("a/new.nsf", "empty")).await.expect("ann may").into_inner();
    let open = |id: &str| {
        let by_replica = v1::database_key::Key::ReplicaId(id.to_owned());
        v1::OpenDatabaseRequest { database: Some(v1::DatabaseKey { key: Some(by_replica) }) }
    };
    let id = created.replica_id.to_lowercase();
    assert_eq!(ann.databases().open_database(open(&id)).await.expect("case is ignored").into_inner().path, "a/new.nsf");
    let bob = server.log_in("bob").await;
    let hidden = bob.databases().open_database(open(&id)).await.expect_err("he has no access");
    let missing = bob.databases().open_database(open("0000000000000007")).await.expect_err("there is none");
    assert_eq!(hidden.message().replace(&id, "0000000000000007"), missing.message(), "the text is the same");
    assert_eq!(refusal::<()>(Err(hidden)), refusal::<()>(Err(missing)));
}

#[tokio::test]
async fn refused_creations_have_codes_and_texts() {
    let server = TestServer::new();
    let bob = server.log_in("bob").await;
    let outcome = bob.databases().create_database(creation("b.nsf", "")).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "server-only"));
    let ann = server.log_in("ann").await;
    for (path, template, code, reason, text) in [
        ("x.nsf", "zork", Code::NotFound, "not-found", "zork"),
        ("", "", Code::InvalidArgument, "invalid", "needs a path"),
        (PLAN, "", Code::AlreadyExists, "exists", PLAN),
    ] {
        let status = ann.databases().create_database(creation(path, template)).await.expect_err("it is refused");
        assert!(status.message().contains(text), "{status:?}");
        assert_eq!(refusal::<()>(Err(status)), refused(code, reason), "{path:?} from {template:?}");
    }
    let outcome = server.connect().await.databases().create_database(creation("c.nsf", "")).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "session"));
}

#[tokio::test]
async fn templates_are_listed_for_sessions() {
    let server = TestServer::new();
    let outcome = server.connect().await.databases().list_templates(v1::ListTemplatesRequest {}).await;
    assert_eq!(refusal(outcome), refused(Code::Unauthenticated, "session"));
    let bob = server.log_in("bob").await;
    let reply = bob.databases().list_templates(v1::ListTemplatesRequest {}).await.expect("a session").into_inner();
    let template = v1::Template { name: "empty".into(), title: "Nothing".into(), about: "No views.".into() };
    assert_eq!(reply.templates, [template]);
}

#[tokio::test]
async fn the_list_has_pages_and_only_accessible_databases() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    for path in ["a/1.nsf", "a/2.nsf", "a/3.nsf", "b/1.nsf"] {
        ann.databases().create_database(creation(path, "")).await.expect("ann may");
    }
    let request = |prefix: &str, limit, after: &str| v1::ListDatabasesRequest {
        prefix: prefix.to_owned(),
        limit,
        after: after.to_owned(),
    };
    let (page, next) = listed(&ann, request("a/", 2, "")).await;
    assert_eq!(page, ["a/1.nsf", "a/2.nsf"]);
    let (page, next) = listed(&ann, request("a/", 2, &next)).await;
    assert_eq!((page, next), (vec!["a/3.nsf".to_owned()], String::new()));
    let (all, _) = listed(&ann, request("", 0, "")).await;
    assert!(all.iter().any(|path| path == PLAN) && all.len() >= 5, "{all:?}");
    let bob = server.log_in("bob").await;
    let (seen, _) = listed(&bob, request("", 0, "")).await;
    assert!(seen.contains(&PLAN.to_owned()), "{seen:?}");
    assert!(!seen.iter().any(|path| path.starts_with("a/") || path.starts_with("b/")), "{seen:?}");
}
