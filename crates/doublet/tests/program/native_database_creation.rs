//! Tests of the creation of databases over the native protocol.

use client::{Client, Code, v1};

use crate::TestFolder;
use crate::native::{database, reason_of, with_client};

fn create(path: &str, template: &str) -> v1::CreateDatabaseRequest {
    v1::CreateDatabaseRequest { path: path.to_owned(), title: String::new(), template: template.to_owned() }
}

async fn made(client: &Client, request: v1::CreateDatabaseRequest) -> Result<v1::Database, client::Status> {
    client.databases().create_database(request).await.map(client::Response::into_inner)
}

#[test]
fn who_may_makes_databases_and_manages_them() {
    let mut place = TestFolder::with_people(&["ann@acme.test", "bob@acme.test", "eve@acme.test"]);
    place.check(&["group", "add", "makers@acme.test", "--member", "bob@acme.test"], "");
    let makers = "native.database_creators=ann@acme.test, makers@acme.test";
    place.options.extend(["--set".to_owned(), makers.to_owned()]);
    let server = place.serve();
    with_client(&place, &server, "ann", |client| async move {
        let templates = client.databases().list_templates(v1::ListTemplatesRequest {}).await.expect("anybody may");
        let names: Vec<String> = templates.into_inner().templates.into_iter().map(|template| template.name).collect();
        assert_eq!(names, ["discussion", "document-library", "log", "mail", "names"]);
        let library = made(&client, create("plans/library.nsf", "document-library")).await.expect("she may");
        let rights = library.rights.expect("they are told");
        assert_eq!((library.path.as_str(), rights.level()), ("plans/library.nsf", v1::AccessLevel::Manager));
        assert!(!library.title.is_empty() && library.title != library.path, "the template has one");
        let list = v1::ListViewsRequest { database: database("plans/library.nsf"), ..Default::default() };
        let views = client.views().list_views(list).await.expect("hers").into_inner().views;
        assert!(views.iter().any(|view| view.name == "By Category"), "{views:?}");
        // Only the creator has access until she changes the ACL.
        let key = v1::GetAclRequest { database: database("plans/library.nsf") };
        let acl = client.databases().get_acl(key).await.expect("hers").into_inner();
        assert_eq!((acl.entries.len(), acl.internet_max()), (3, v1::AccessLevel::Manager), "{acl:?}");
        let again = made(&client, create("plans/library.nsf", "")).await.expect_err("the mail file exists");
        assert!(again.message().contains("plans/library.nsf exists already"), "{again}");
        let again = made(&client, create("Plans/Library.nsf", "")).await;
        assert_eq!(reason_of(again), (Code::AlreadyExists, "exists".to_owned()));
        let unknown = made(&client, create("other.nsf", "no-such")).await;
        assert_eq!(reason_of(unknown), (Code::NotFound, "not-found".to_owned()));
        for path in ["mail/eve2.nsf", "MAIL/x.nsf", "", "../x.nsf", "/x.nsf", "a\u{1}.nsf"] {
            assert_eq!(reason_of(made(&client, create(path, "")).await).0, Code::InvalidArgument, "{path:?}");
        }
    });
    with_client(&place, &server, "bob", |client| async move {
        made(&client, create("bare.nsf", "")).await.expect("he is in the group");
        let foreign = v1::OpenDatabaseRequest { database: database("plans/library.nsf") };
        let refused = reason_of(client.databases().open_database(foreign).await);
        assert_eq!(refused, (Code::PermissionDenied, "access".to_owned()));
    });
    let plan = "name = \"plan\"\ntitle = \"The plan\"\nabout = \"What is to be done\"\n\
                [[view]]\ntitle = \"All\"\nselection = 'SELECT @All'\ncolumns = [{ title = \"Subject\" }]\n";
    std::fs::write(place.path("mine.toml"), plan).expect("the folder is writable");
    let file = place.path("mine.toml").display().to_string();
    place.check(&["design", "add", &file], "was added");
    assert_eq!(place.json(&["design", "list"])[0]["from"], "operator");
    with_client(&place, &server, "bob", |client| async move {
        assert_eq!(made(&client, create("q3.nsf", "plan")).await.expect("he may").title, "The plan");
    });
    place.check(&["db", "create", "q4.nsf", "--template", "plan"], "was created");
    place.check(&["design", "add", &file], "was replaced");
    place.check(&["design", "refresh", "q4.nsf"], "has the design of plan");
    place.check(&["design", "remove", "plan"], "was removed");
    place.check_fails(&["db", "create", "q5.nsf", "--template", &file], "design add");
    with_client(&place, &server, "eve", |client| async move {
        let refused = reason_of(made(&client, create("eves.nsf", "")).await);
        assert_eq!(refused, (Code::PermissionDenied, "server-only".to_owned()));
    });
    let made = place.as_user("ann", &["db", "create", "talk.nsf", "--template", "discussion", "--title", "Talk"]);
    assert_eq!((&made["title"], &made["access"]), (&"Talk".into(), &"manager".into()));
    place.fails_as_user("eve", &["db", "create", "eves.nsf"], "native.database_creators");
    server.stop();
}
