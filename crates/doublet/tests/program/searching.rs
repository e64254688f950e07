//! Tests of full-text search through the program: delivered mail is found, also after a kill, with and without a
//! running server.

use crate::{TestFolder, deliver};

#[test]
fn delivered_mail_is_found() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    for assignment in ["full_text.delay=0s", "log.filter=full_text=debug"] {
        folder.options.extend(["--set".to_owned(), assignment.to_owned()]);
    }
    folder.check(&["db", "index", "mail/ann.nsf", "--full-text", "immediate"], "0 documents");
    let mut server = folder.serve();
    deliver(&server, "ann@acme.test", "Subject: annual report\r\n\r\nThe figures.");
    server.wait_for_log("indexed=1");
    folder.check(&["db", "search", "mail/ann.nsf", "annual figures"], "annual report");
    folder.check(&["db", "search", "mail/ann.nsf", "-report"], "0 documents");
    deliver(&server, "ann@acme.test", "Subject: another\r\n\r\nMore figures.");
    server.kill();
    folder.check(&["db", "search", "mail/ann.nsf", "figures"], "annual report");
    folder.check(&["db", "index", "mail/ann.nsf"], "2 documents of mail/ann.nsf in the index");
    let found = folder.json(&["db", "search", "mail/ann.nsf", "figures", "--sort", "newest"]);
    assert_eq!((&found[0]["title"], &found[1]["title"]), (&"another".into(), &"annual report".into()));
    folder.check_fails(&["db", "search", "mail/ann.nsf", "(figures"], "the parenthesis is not closed");
    folder.check_fails(&["db", "search", "names.nsf", "x"], "doublet db index names.nsf --full-text immediate");
    folder.check(
        &["db", "index", "mail/ann.nsf", "--full-text", "off"],
        "The full-text index of mail/ann.nsf was removed",
    );
    let server = folder.serve();
    folder.check_fails(&["db", "search", "mail/ann.nsf", "figures"], "has no full-text index");
    server.stop();
}

#[test]
fn attachment_text_is_found() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    for assignment in ["full_text.delay=0s", "log.filter=full_text=debug"] {
        folder.options.extend(["--set".to_owned(), assignment.to_owned()]);
    }
    folder.check(&["db", "create", "plan.nsf"], "was created");
    folder.check(&["db", "acl", "plan.nsf", "set", "ann@acme.test", "--level", "editor"], "");
    folder.check(&["db", "index", "plan.nsf", "--full-text", "immediate"], "0 documents");
    let mut server = folder.serve();
    let created = folder.as_user("ann", &["note", "create", "plan.nsf", "Subject=animals"]);
    let unid = created["unid"].as_str().expect("a text");
    server.wait_for_log("indexed=1");
    for (name, media_type, content) in [
        ("stripes.txt", "text/plain", "zebra crossing"),
        ("spots.html", "application/octet-stream", "<p>leo<b>pard</b> &amp; hyena"),
        ("noise.bin", "application/octet-stream", "wildebeest"),
    ] {
        std::fs::write(folder.path(name), content).expect("writes a test file");
        folder.as_user("ann", &["note", "attach", "plan.nsf", unid, name, "--media-type", media_type]);
        server.wait_for_log("indexed=1");
    }
    for (query, expected) in [("zebra", 1), ("leopard AND hyena", 1), ("noise", 1), ("pard", 0), ("wildebeest", 0)] {
        let found = folder.json(&["db", "search", "plan.nsf", query]);
        assert_eq!(found.as_array().map(Vec::len), Some(expected), "{query}");
    }
    server.stop();
}
