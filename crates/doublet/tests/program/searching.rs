//! Tests of full-text search through the program: delivered mail is found, also after a kill, with and without a
//! running server; and pages of hits over the native protocol, which need the index that the server keeps up to date.

use client::v1;

use crate::native::{database, reason_of, text, with_client};
use crate::native_notes::{PLAN, plan};
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

#[test]
fn search_hits_are_sorted_by_time_and_paged() {
    let (mut folder, server) = plan(&[("ann", "editor")]);
    server.stop();
    folder.options.extend(
        ["full_text.delay=0s", "log.filter=full_text=debug"]
            .iter()
            .flat_map(|set| ["--set".to_owned(), (*set).to_owned()]),
    );
    folder.check(&["db", "index", PLAN, "--full-text", "immediate"], "0 documents");
    let mut server = folder.serve();
    let created = &std::cell::RefCell::new(Vec::new());
    with_client(&folder, &server, "ann", |client| async move {
        for number in 0..5 {
            let long = text("Filler", &"x".repeat(if number == 2 { 2 << 20 } else { 10 }));
            let items = vec![text("Subject", "zebra"), long];
            let request = v1::CreateNoteRequest { database: database(PLAN), items, ..Default::default() };
            let note = client.notes().create_note(request).await.expect("they may").into_inner();
            created.borrow_mut().push(note.note_id);
        }
    });
    let mut indexed = 0;
    while indexed < 5 {
        let line = server.wait_for_log("indexed=");
        indexed += line
            .split("indexed=")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok())
            .expect("a count");
    }
    with_client(&folder, &server, "ann", |client| async move {
        let created = created.borrow().clone();
        let search = |offset, sort: v1::search_full_text_request::Sort| {
            let items = vec!["Filler".to_owned()];
            let database = database(PLAN);
            let query = "zebra".to_owned();
            let request = v1::SearchFullTextRequest { database, query, limit: 0, offset, items, sort: sort.into() };
            let client = client.clone();
            async move { client.search().search_full_text(request).await.map(client::Response::into_inner) }
        };
        use v1::search_full_text_request::Sort;
        for (sort, expected) in
            [(Sort::Oldest, created.clone()), (Sort::Newest, created.iter().rev().copied().collect())]
        {
            let mut offset = 0;
            let mut found = Vec::new();
            let mut pages = 0;
            loop {
                let reply = search(offset, sort).await.expect("it is indexed");
                assert_eq!((reply.total, reply.total_is_least), (5, false));
                found.extend(reply.hits.iter().map(|hit| hit.note_id));
                offset = reply.next_offset;
                pages += 1;
                if offset == 0 {
                    break;
                }
            }
            assert_eq!((found, pages), (expected, 2), "{sort:?}");
        }
        assert_eq!(reason_of(search(200_000, Sort::Relevance).await).1, "limit");
    });
    server.stop();
}
