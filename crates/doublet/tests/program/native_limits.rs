//! Tests of the native protocol at its limits: large transactions, pages limited by bytes, modseqs beyond the
//! database's own, and documents that stay hidden.

use client::{Client, Code, v1};

use crate::native::{database, note, reason_of, text, with_client};
use crate::native_notes::{PLAN, plan};
use crate::{TestFolder, deliver};

fn all_items() -> Option<v1::ItemSelection> {
    Some(v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() })
}

async fn make(client: &Client, items: Vec<v1::Item>) -> u32 {
    let request = v1::CreateNoteRequest { database: database(PLAN), items, ..Default::default() };
    client.notes().create_note(request).await.expect("they may").into_inner().note_id
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

#[test]
fn large_transaction_is_sent_in_several_messages() {
    let (folder, server) = plan(&[("ann", "designer")]);
    with_client(&folder, &server, "ann", |client| async move {
        let before = client.databases().open_database(v1::OpenDatabaseRequest { database: database(PLAN) }).await;
        let since_modseq = before.expect("she has access").into_inner().modseq;
        let mut created = Vec::new();
        for number in 0..700 {
            let subject = text("A", &number.to_string());
            created.push(make(&client, vec![subject, text("Filler", &"x".repeat(16 << 10))]).await);
        }
        let create_folder = v1::CreateFolderRequest { database: database(PLAN), name: "All".into(), personal: false };
        let all = client.views().create_folder(create_folder).await.expect("a designer may").into_inner();
        let key = v1::view_key::Key::ViewId(all.view_id);
        let move_notes = v1::MoveNotesRequest {
            database: database(PLAN),
            notes: created.iter().filter_map(|number| note(*number)).collect(),
            into: Some(v1::ViewKey { key: Some(key) }),
            ..Default::default()
        };
        client.views().move_notes(move_notes).await.expect("the notes exist");
        let request = v1::SearchNotesRequest { database: database(PLAN), items: all_items(), ..Default::default() };
        let (found, largest) = search(&client, request.clone()).await;
        assert_eq!(found, created);
        assert!(largest < 70, "{largest} notes of 16 KiB in one message");
        // Even with a limit, the search ends only between two transactions.
        let (found, _) = search(&client, v1::SearchNotesRequest { limit: 3, ..request }).await;
        assert_eq!(found, created);
        let watch =
            v1::WatchChangesRequest { database: database(PLAN), since_modseq, once: true, documents_only: true };
        let mut batches = client.changes().watch_changes(watch).await.expect("a reader").into_inner();
        let mut changed = Vec::new();
        let mut up_to = 0;
        while let Some(batch) = batches.message().await.expect("the stream continues to its end") {
            assert!(batch.changes.len() <= 500 && batch.modseq >= up_to);
            up_to = batch.modseq;
            changed.extend(batch.changes.into_iter().map(|change| change.note_id));
        }
        assert_eq!(changed, created);
    });
    server.stop();
}

#[test]
fn future_modseq_is_refused_as_purged() {
    let (folder, server) = plan(&[("ann", "editor")]);
    with_client(&folder, &server, "ann", |client| async move {
        let opened = client.databases().open_database(v1::OpenDatabaseRequest { database: database(PLAN) }).await;
        let opened = opened.expect("she has access").into_inner();
        assert_eq!((opened.notes, opened.size_bytes), (0, 0), "they count hidden notes, too");
        let watch = |since_modseq| {
            let client = client.clone();
            let database = database(PLAN);
            let request = v1::WatchChangesRequest { database, since_modseq, once: true, documents_only: false };
            async move { client.changes().watch_changes(request).await?.into_inner().message().await }
        };
        watch(opened.modseq).await.expect("that is now");
        let purged = (Code::OutOfRange, "purged".to_owned());
        assert_eq!(reason_of(watch(opened.modseq + 100).await), purged);
        let database = database(PLAN);
        let since_modseq = opened.modseq + 100;
        let deletions = v1::SearchNotesRequest { database, since_modseq, deletions: true, ..Default::default() };
        let mut replies = client.notes().search_notes(deletions).await.expect("it begins").into_inner();
        assert_eq!(reason_of(replies.message().await), purged);
    });
    server.stop();
}

#[test]
fn message_content_cannot_be_changed() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    deliver(&server, "ann@acme.test", "Subject: plan\r\n\r\nThe plan.");
    with_client(&folder, &server, "ann", |client| async move {
        let mail = || database("mail/ann.nsf");
        let request = v1::SearchNotesRequest { database: mail(), items: all_items(), ..Default::default() };
        let mut replies = client.notes().search_notes(request).await.expect("she has access").into_inner();
        let found = replies.message().await.expect("she has access").expect("a message").notes.remove(0);
        let header = found.header.expect("a header");
        let update = |items| {
            let request =
                v1::UpdateNoteRequest { database: mail(), note: note(header.note_id), items, ..Default::default() };
            let client = client.clone();
            async move { client.notes().update_note(request).await }
        };
        update(vec![text("Categories", "work")]).await.expect("she has access");
        let open = v1::OpenNoteRequest { database: mail(), note: note(header.note_id), ..Default::default() };
        let now = client.notes().open_note(open).await.expect("she has access").into_inner().header.expect("a header");
        assert_eq!(
            (now.size_bytes, now.sequence),
            (header.size_bytes, header.sequence + 1),
            "mail programs rely on it"
        );
        let body = found.items.into_iter().find(|item| item.name == "$MIME").expect("a message has one");
        let other = v1::Item { value: text("x", "other").value, ..body };
        assert_eq!(reason_of(update(vec![other]).await).1, "invalid");
        let header = v1::attach_file_request::Header {
            database: mail(),
            note: note(header.note_id),
            file_name: "more.txt".to_owned(),
            ..Default::default()
        };
        let part = v1::attach_file_request::Part::Header(header);
        let stream = client::request_stream([v1::AttachFileRequest { part: Some(part) }]);
        assert_eq!(reason_of(client.notes().attach_file(stream).await).1, "invalid");
    });
    server.stop();
}

#[test]
fn deletion_is_reported_to_readers_of_the_document_only() {
    let (folder, server) = plan(&[("ann", "editor"), ("bob", "depositor"), ("eve", "reader")]);
    let seen = &std::cell::Cell::new((0, 0));
    with_client(&folder, &server, "eve", |client| async move {
        let opened = client.databases().open_database(v1::OpenDatabaseRequest { database: database(PLAN) }).await;
        seen.set((0, opened.expect("a reader").into_inner().modseq));
    });
    with_client(&folder, &server, "bob", |client| async move {
        let flags = v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() };
        let readers = v1::Item { flags: Some(flags), ..text("Readers", "CN=ann/O=acme.test") };
        let created = make(&client, vec![text("A", "for ann"), readers]).await;
        seen.set((created, seen.get().1));
    });
    with_client(&folder, &server, "ann", |client| async move {
        let delete = v1::DeleteNoteRequest { database: database(PLAN), note: note(seen.get().0), ..Default::default() };
        assert!(client.notes().delete_note(delete).await.expect("she reads it").into_inner().deleted);
    });
    for (who, expected) in [("ann", 1), ("eve", 0)] {
        with_client(&folder, &server, who, |client| async move {
            let since_modseq = seen.get().1;
            let database = || database(PLAN);
            let watch =
                v1::WatchChangesRequest { database: database(), since_modseq, once: true, documents_only: false };
            let mut batches = client.changes().watch_changes(watch).await.expect("a reader").into_inner();
            let changed = batches.message().await.expect("sound").map_or(0, |batch| batch.changes.len());
            let search =
                v1::SearchNotesRequest { database: database(), since_modseq, deletions: true, ..Default::default() };
            let mut replies = client.notes().search_notes(search).await.expect("a reader").into_inner();
            let deleted = replies.message().await.expect("sound").map_or(0, |reply| reply.deleted.len());
            assert_eq!((changed, deleted), (expected, expected), "{who}");
        });
    }
    server.stop();
}

#[test]
fn page_of_deleted_notes_is_limited_by_message_size() {
    let (folder, server) = plan(&[("ann", "editor")]);
    folder.check(&["db", "set", PLAN, "--keep-deleted", "48h"], "");
    with_client(&folder, &server, "ann", |client| async move {
        for bytes in [7 << 20, 7 << 20, 100] {
            let body = v1::Item { flags: None, ..text("Body", &"x".repeat(bytes)) };
            let number = make(
                &client,
                vec![text("A", "1"), body.clone(), v1::Item { name: "More".into(), ..body }][..2].to_vec(),
            )
            .await;
            let delete = v1::DeleteNoteRequest { database: database(PLAN), note: note(number), ..Default::default() };
            client.notes().delete_note(delete).await.expect("she has access");
        }
        let list = |after, extent: v1::item_selection::Extent| {
            let items = Some(v1::ItemSelection { extent: extent.into(), names: Vec::new() });
            let request = v1::ListDeletedNotesRequest { database: database(PLAN), after, items, ..Default::default() };
            let client = client.clone();
            async move { client.notes().list_deleted_notes(request).await.expect("she has access").into_inner() }
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
    });
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
            let number = make(&client, vec![text("Subject", "zebra"), long]).await;
            created.borrow_mut().push(number);
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
