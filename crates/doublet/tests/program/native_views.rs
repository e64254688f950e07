//! Tests of views over the native protocol that need the whole program: the command that finds entries, and the task
//! that builds indexes. `crates/rpc/tests/rpc` tests the protocol itself.

use client::{Client, v1};

use crate::TestFolder;
use crate::native::{database, with_client};

const LIBRARY: &str = "library.nsf";

async fn open(client: &Client, name: &str) -> v1::Collection {
    let view = Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) });
    let request = v1::OpenCollectionRequest { database: database(LIBRARY), view };
    client.views().open_collection(request).await.expect("a reader may").into_inner()
}

#[test]
fn entries_are_found_on_the_command_line() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.check(&["db", "create", LIBRARY, "--template", "document-library"], "was created");
    folder.check(&["db", "acl", LIBRARY, "set", "ann@acme.test", "--level", "editor"], "");
    let rows = "Subject,Categories\nAxe,Tools\nBrush,Paint\nCan,Paint\nCan,Tools\nDrill,Tools\n";
    std::fs::write(folder.path("rows.csv"), rows).expect("writes a test file");
    folder.check(&["db", "import", LIBRARY, "rows.csv", "--form", "Document"], "5");
    let server = folder.serve();
    let ann = |words: &[&str]| folder.as_user("ann", words);
    let places = |found: serde_json::Value| -> Vec<String> {
        let rows = found.as_array().expect("a list").iter();
        rows.map(|row| row["position"].as_str().expect("a text").to_owned()).collect()
    };
    assert_eq!(places(ann(&["view", "find", LIBRARY, "By Category", "Paint"])), ["1", "1.1", "1.2"]);
    let range = ["view", "find", LIBRARY, "By Category", "Tools", "Can", "--to", "Tools", "--to", "Drill"];
    assert_eq!(places(ann(&range)), ["2.2", "2.3"]);
    assert_eq!(places(ann(&["view", "find", LIBRARY, "By Category", "To", "--partial", "--limit", "1"])), ["2"]);
    assert_eq!(places(ann(&["view", "find", LIBRARY, "By Category", "Zork"])), [""; 0]);
    folder.fails_as_user("ann", &["view", "entries", LIBRARY, "Zork"], "the view or folder \"Zork\" does not exist");
    server.stop();
}

#[test]
fn update_task_builds_the_index_of_a_large_view() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    // With this setting, only opening a view requests its update.
    folder.options.extend(["--set".to_owned(), "views.suppression_time=1h".to_owned()]);
    folder.check(&["db", "create", LIBRARY, "--template", "document-library"], "was created");
    folder.check(&["db", "acl", LIBRARY, "set", "ann@acme.test", "--level", "reader"], "");
    let rows: String = (0..2_500).map(|row| format!("Title {row},Category {}\n", row % 10)).collect();
    std::fs::write(folder.path("rows.csv"), format!("Subject,Categories\n{rows}")).expect("writes a test file");
    folder.check(&["db", "import", LIBRARY, "rows.csv", "--form", "Document"], "2500");
    let server = folder.serve();
    with_client(&folder, &server, "ann", |client| async move {
        for name in ["By Category", "By Status", "All Documents"] {
            // On a slow machine the build may take longer than the two seconds of one call.
            let opened = loop {
                let opened = open(&client, name).await;
                if !opened.incomplete {
                    break opened;
                }
                let build = opened.build.expect("it is being built, and not followed change by change");
                assert!(build.done <= build.documents.max(2_500), "{build:?}");
            };
            assert_eq!((opened.documents, opened.build), (2_500, None), "{name}");
        }
    });
    assert!(server.metrics().contains("doublet_update_views_total 3\n"), "{}", server.metrics());
    server.stop();
}
