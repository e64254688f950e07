//! Tests of the creation of databases over the native protocol. They need the whole program: the configuration names
//! the creators, people and groups, and the templates are those of the program and of the operator.

use client::{Client, Code, v1};

use crate::TestFolder;
use crate::native::{database, reason_of, with_client};

fn create(path: &str, template: &str) -> v1::CreateDatabaseRequest {
    v1::CreateDatabaseRequest { path: path.to_owned(), title: String::new(), template: template.to_owned() }
}

async fn create_database(client: &Client, request: v1::CreateDatabaseRequest) -> Result<v1::Database, client::Status> {
    client.databases().create_database(request).await.map(client::Response::into_inner)
}

#[test]
fn database_creators_create_and_manage_databases() {
    let mut folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test", "eve@acme.test"]);
    folder.check(&["group", "add", "makers@acme.test", "--member", "bob@acme.test"], "");
    let makers = "native.database_creators=ann@acme.test, makers@acme.test";
    folder.options.extend(["--set".to_owned(), makers.to_owned()]);
    let server = folder.serve();
    with_client(&folder, &server, "ann", |client| async move {
        let templates = client.databases().list_templates(v1::ListTemplatesRequest {}).await.expect("every user may");
        let names: Vec<String> = templates.into_inner().templates.into_iter().map(|template| template.name).collect();
        assert_eq!(names, ["discussion", "document-library", "log", "mail", "names"]);
        let library = create_database(&client, create("plans/library.nsf", "document-library")).await.expect("she may");
        let rights = library.rights.expect("the reply has the rights");
        assert_eq!((library.path.as_str(), rights.level()), ("plans/library.nsf", v1::AccessLevel::Manager));
        assert!(!library.title.is_empty() && library.title != library.path, "the template has one");
        let list = v1::ListViewsRequest { database: database("plans/library.nsf"), ..Default::default() };
        let views = client.views().list_views(list).await.expect("she has access").into_inner().views;
        assert!(views.iter().any(|view| view.name == "By Category"), "{views:?}");
        // Besides servers, only the creator has access until she changes the ACL.
        let key = v1::GetAclRequest { database: database("plans/library.nsf") };
        let acl = client.databases().get_acl(key).await.expect("she has access").into_inner();
        assert_eq!((acl.entries.len(), acl.internet_max()), (4, v1::AccessLevel::Manager), "{acl:?}");
        let again = create_database(&client, create("plans/library.nsf", "")).await.expect_err("the database exists");
        assert!(again.message().contains("plans/library.nsf exists already"), "{again}");
        let again = create_database(&client, create("Plans/Library.nsf", "")).await;
        assert_eq!(reason_of(again), (Code::AlreadyExists, "exists".to_owned()));
        let unknown = create_database(&client, create("other.nsf", "no-such")).await;
        assert_eq!(reason_of(unknown), (Code::NotFound, "not-found".to_owned()));
        for path in ["mail/eve2.nsf", "MAIL/x.nsf", "", "../x.nsf", "/x.nsf", "a\u{1}.nsf"] {
            assert_eq!(
                reason_of(create_database(&client, create(path, "")).await).0,
                Code::InvalidArgument,
                "{path:?}"
            );
        }
    });
    with_client(&folder, &server, "bob", |client| async move {
        create_database(&client, create("bare.nsf", "")).await.expect("he is in the group");
        let foreign = v1::OpenDatabaseRequest { database: database("plans/library.nsf") };
        let refused = reason_of(client.databases().open_database(foreign).await);
        assert_eq!(refused, (Code::NotFound, "not-found".to_owned()));
    });
    folder.fails_as_user("eve", &["db", "open", "bare.nsf"], "bare.nsf does not exist, or you have no access to it");
    let plan = "name = \"plan\"\ntitle = \"The plan\"\nabout = \"What is to be done\"\n\
                [[view]]\ntitle = \"All\"\nselection = 'SELECT @All'\ncolumns = [{ title = \"Subject\" }]\n";
    std::fs::write(folder.path("mine.toml"), plan).expect("the folder is writable");
    let file = folder.path("mine.toml").display().to_string();
    folder.check(&["design", "add", &file], "was added");
    assert_eq!(folder.json(&["design", "list"])[0]["from"], "operator");
    with_client(&folder, &server, "bob", |client| async move {
        assert_eq!(create_database(&client, create("q3.nsf", "plan")).await.expect("he may").title, "The plan");
    });
    folder.check(&["db", "create", "q4.nsf", "--template", "plan"], "was created");
    folder.check(&["design", "add", &file], "was replaced");
    folder.check(&["design", "refresh", "q4.nsf"], "has the design of plan");
    folder.check(&["design", "remove", "plan"], "was removed");
    folder.check_fails(&["db", "create", "q5.nsf", "--template", &file], "design add");
    with_client(&folder, &server, "eve", |client| async move {
        let refused = reason_of(create_database(&client, create("eves.nsf", "")).await);
        assert_eq!(refused, (Code::PermissionDenied, "server-only".to_owned()));
    });
    let talk = folder.as_user("ann", &["db", "create", "talk.nsf", "--template", "discussion", "--title", "Talk"]);
    assert_eq!((&talk["title"], &talk["access"]), (&"Talk".into(), &"manager".into()));
    folder.fails_as_user("eve", &["db", "create", "eves.nsf"], "native.database_creators");
    server.stop();
}
