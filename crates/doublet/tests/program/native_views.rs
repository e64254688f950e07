//! Tests of views over the native protocol: a library with categories and totals, read page by page; hidden documents;
//! the build of an index; and the design of views.

use client::{Client, Code, v1};

use crate::native::{database, note, reason_of, text, with_client};
use crate::{Server, TestFolder};

const LIBRARY: &str = "library.nsf";

fn view(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

fn by_category() -> v1::ReadEntriesRequest {
    v1::ReadEntriesRequest {
        database: database(LIBRARY),
        view: view("By Category"),
        navigator: v1::Navigator::NextExpanded.into(),
        count: 1_000,
        mask: Some(v1::ReadMask {
            unid: true,
            counts: true,
            unread: true,
            position: true,
            values: true,
            row: true,
            ..v1::ReadMask::default()
        }),
        ..v1::ReadEntriesRequest::default()
    }
}

/// Creates a library in which ann is Editor and bob is Reader.
fn library() -> (TestFolder, Server) {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.check(&["db", "create", LIBRARY, "--template", "document-library"], "was created");
    folder.check(&["db", "acl", LIBRARY, "set", "ann@acme.test", "--level", "editor"], "");
    folder.check(&["db", "acl", LIBRARY, "set", "bob@acme.test", "--level", "reader"], "");
    let server = folder.serve();
    (folder, server)
}

fn texts(name: &str, values: &[&str]) -> v1::Item {
    let list = v1::TextList { values: values.iter().map(|text| (*text).to_owned()).collect() };
    v1::Item { value: Some(v1::Value { kind: Some(v1::value::Kind::TextList(list)) }), ..text(name, "") }
}

fn of_text(text: &str) -> v1::Value {
    v1::Value { kind: Some(v1::value::Kind::Text(text.to_owned())) }
}

async fn create(client: &Client, title: &str, categories: &[&str], more: Vec<v1::Item>) -> u32 {
    let mut items = vec![text("Form", "Document"), text("Subject", title), texts("Categories", categories)];
    items.extend(more);
    let request = v1::CreateNoteRequest { database: database(LIBRARY), items, ..Default::default() };
    client.notes().create_note(request).await.expect("an editor may").into_inner().note_id
}

async fn open(client: &Client, name: &str) -> v1::Collection {
    let request = v1::OpenCollectionRequest { database: database(LIBRARY), view: view(name) };
    client.views().open_collection(request).await.expect("a reader may").into_inner()
}

async fn read(client: &Client, request: v1::ReadEntriesRequest) -> v1::ReadEntriesReply {
    client.views().read_entries(request).await.expect("a reader may").into_inner()
}

fn number(value: &v1::Value) -> f64 {
    match value.kind {
        Some(v1::value::Kind::Number(number)) => number,
        _ => panic!("{value:?} is no number"),
    }
}

fn position_of(entry: &v1::Entry) -> String {
    let levels = entry.position.as_ref().map(|position| position.levels.iter().map(u32::to_string).collect::<Vec<_>>());
    levels.unwrap_or_default().join(".")
}

/// Formats each entry as its position and its title or category.
fn lines(entries: &[v1::Entry]) -> Vec<String> {
    let title = |entry: &v1::Entry| match entry.values.get(1).and_then(|value| value.kind.as_ref()) {
        Some(v1::value::Kind::Text(title)) => title.clone(),
        _ => format!("[{}]", entry.name),
    };
    entries.iter().map(|entry| format!("{} {}", position_of(entry), title(entry))).collect()
}

/// Creates four documents in two categories; one of them is in both.
async fn fill(client: &Client) -> [u32; 4] {
    [
        create(client, "Axe", &["Tools"], Vec::new()).await,
        create(client, "Brush", &["Paint"], Vec::new()).await,
        create(client, "Can", &["Paint", "Tools"], Vec::new()).await,
        create(client, "Drill", &["Tools"], Vec::new()).await,
    ]
}

const ALL: [&str; 7] = ["1 [Paint]", "1.1 Brush", "1.2 Can", "2 [Tools]", "2.1 Axe", "2.2 Can", "2.3 Drill"];

#[test]
fn view_pages_have_totals_and_counts() {
    let (folder, server) = library();
    with_client(&folder, &server, "ann", |client| async move {
        fill(&client).await;
        let opened = open(&client, "By Category").await;
        assert_eq!((opened.documents, opened.entries, opened.incomplete, opened.build), (5, 7, false, None));
        let all = read(&client, by_category()).await;
        assert_eq!((lines(&all.entries), all.more), (ALL.map(str::to_owned).to_vec(), false));
        let of_categories = all.entries.iter().filter(|entry| entry.category).map(|entry| number(&entry.values[2]));
        assert_eq!(opened.totals.len(), 3);
        assert_eq!(number(&opened.totals[2]), of_categories.sum::<f64>(), "the total of all documents");
        assert!(opened.totals[..2].iter().all(|total| total.kind.is_none()));
        for category in all.entries.iter().filter(|entry| entry.category) {
            let within =
                |entry: &&v1::Entry| entry.level == 1 && position_of(entry).starts_with(&position_of(category));
            let documents: Vec<&v1::Entry> = all.entries.iter().filter(within).collect();
            let total: f64 = documents.iter().map(|entry| number(&entry.values[2])).sum();
            assert_eq!(number(&category.values[2]), total, "{category:?}");
            let counts = (category.siblings, category.children, category.descendants);
            assert_eq!(counts, (2, documents.len() as u64, documents.len() as u64));
        }
        let rows: Vec<u64> = all.entries.iter().map(|entry| entry.row).collect();
        assert_eq!(rows, (1..=7).collect::<Vec<_>>());
        // Pages of two entries yield the same result.
        let mut paged = Vec::new();
        let mut page = v1::ReadEntriesRequest { count: 2, ..by_category() };
        loop {
            let reply = read(&client, page.clone()).await;
            assert!(reply.entries.len() <= 2);
            paged.extend(reply.entries);
            if !reply.more {
                break;
            }
            page.start_key = reply.next;
        }
        assert_eq!(paged, all.entries);
        // Reading backwards from the end, from a position, and from a row.
        let last = v1::ReadEntriesRequest {
            skip_navigator: v1::Navigator::Next.into(),
            skip_count: u32::MAX,
            navigator: v1::Navigator::Prev.into(),
            count: 2,
            ..by_category()
        };
        assert_eq!(lines(&read(&client, last).await.entries), ["2.3 Drill", "2.2 Can"]);
        let levels = vec![2, 2];
        let there = v1::ReadEntriesRequest { start: Some(v1::Tumbler { levels }), count: 1, ..by_category() };
        assert_eq!(lines(&read(&client, there).await.entries), ["2.2 Can"]);
        let fourth = v1::ReadEntriesRequest { start_row: 4, count: 1, ..by_category() };
        assert_eq!(lines(&read(&client, fourth).await.entries), ["2 [Tools]"]);
        let zero = v1::ReadEntriesRequest { start: Some(v1::Tumbler { levels: vec![0] }), ..by_category() };
        assert_eq!(reason_of(client.views().read_entries(zero).await), (Code::InvalidArgument, "invalid".to_owned()));
        let deep = v1::ReadEntriesRequest { start: Some(v1::Tumbler { levels: vec![1; 64] }), ..by_category() };
        assert_eq!(reason_of(client.views().read_entries(deep).await), (Code::ResourceExhausted, "limit".to_owned()));
    });
    server.stop();
}

#[test]
fn client_expansion_and_masks_determine_the_entries() {
    let (folder, server) = library();
    with_client(&folder, &server, "ann", |client| async move {
        let [axe, ..] = fill(&client).await;
        open(&client, "By Category").await;
        let read_expanded = |collapsed, exceptions: &[&[u32]]| {
            let exceptions = exceptions.iter().map(|levels| v1::Tumbler { levels: levels.to_vec() }).collect();
            let expansion = Some(v1::Expansion { collapsed, exceptions });
            let request = v1::ReadEntriesRequest { expansion, ..by_category() };
            let client = client.clone();
            async move { lines(&read(&client, request).await.entries) }
        };
        assert_eq!(read_expanded(true, &[]).await, ["1 [Paint]", "2 [Tools]"]);
        assert_eq!(read_expanded(true, &[&[1]]).await, ["1 [Paint]", "1.1 Brush", "1.2 Can", "2 [Tools]"]);
        assert_eq!(read_expanded(false, &[&[2]]).await, ["1 [Paint]", "1.1 Brush", "1.2 Can", "2 [Tools]"]);
        // From a row that is not shown, reading continues after the entry that hides it.
        let hidden = v1::ReadEntriesRequest {
            start: Some(v1::Tumbler { levels: vec![1, 1] }),
            navigator: v1::Navigator::NextExpanded.into(),
            expansion: Some(v1::Expansion { collapsed: true, exceptions: Vec::new() }),
            ..by_category()
        };
        assert_eq!(lines(&read(&client, hidden).await.entries), ["1.1 Brush", "2 [Tools]"]);
        // Without a mask, an entry has only its note and its key, which cost nothing extra.
        let bare = read(&client, v1::ReadEntriesRequest { mask: None, start_row: 5, count: 1, ..by_category() }).await;
        let entry = &bare.entries[0];
        assert_eq!((entry.note_id, entry.level, entry.key.is_empty()), (axe, 1, false));
        let expected = v1::Entry { note_id: axe, level: 1, key: entry.key.clone(), ..v1::Entry::default() };
        assert_eq!(*entry, expected);
        let masked = |mask| {
            let request = v1::ReadEntriesRequest { mask: Some(mask), start_row: 5, count: 1, ..by_category() };
            let client = client.clone();
            async move { read(&client, request).await.entries.remove(0) }
        };
        assert_eq!(masked(v1::ReadMask { unid: true, ..Default::default() }).await.unid.len(), 16);
        assert_eq!(masked(v1::ReadMask { counts: true, ..Default::default() }).await.siblings, 3);
        assert_eq!(masked(v1::ReadMask { row: true, ..Default::default() }).await.row, 5);
        assert_eq!(position_of(&masked(v1::ReadMask { position: true, ..Default::default() }).await), "2.1");
        assert_eq!(masked(v1::ReadMask { values: true, ..Default::default() }).await.values.len(), 3);
        let unread = || masked(v1::ReadMask { unread: true, ..Default::default() });
        assert!(unread().await.unread, "a note created over the protocol is unread");
        let notes = note(axe).into_iter().collect();
        let mark = v1::MarkNotesRequest { database: database(LIBRARY), notes, unread: false };
        client.notes().mark_notes(mark).await.expect("a reader may");
        assert!(!unread().await.unread);
        let navigator = v1::Navigator::NextUnread.into();
        let next = v1::ReadEntriesRequest { start_row: 5, skip_navigator: navigator, skip_count: 1, ..by_category() };
        assert_eq!(lines(&read(&client, v1::ReadEntriesRequest { count: 1, ..next }).await.entries), ["2.2 Can"]);
    });
    server.stop();
}

#[test]
fn entries_are_found_by_key_prefix_and_range() {
    let (folder, server) = library();
    with_client(&folder, &server, "ann", |client| async move {
        fill(&client).await;
        open(&client, "By Category").await;
        let find = |keys: &[&str], partial, to: &[&str]| {
            let request = v1::FindByKeyRequest {
                database: database(LIBRARY),
                view: view("By Category"),
                collation: 0,
                keys: keys.iter().map(|key| of_text(key)).collect(),
                partial,
                to_keys: to.iter().map(|key| of_text(key)).collect(),
            };
            let client = client.clone();
            async move { client.views().find_by_key(request).await.map(client::Response::into_inner) }
        };
        let found = |reply: Result<v1::FindByKeyReply, client::Status>| {
            let reply = reply.expect("the key is right");
            let levels = reply.position.map(|position| position.levels).unwrap_or_default();
            assert_eq!(reply.key.is_empty(), reply.matches == 0);
            (levels, reply.matches)
        };
        // The matches of a category include its own row.
        assert_eq!(found(find(&["tools"], false, &[]).await), (vec![2], 4));
        assert_eq!(found(find(&["Tools", "Can"], false, &[]).await), (vec![2, 2], 1));
        assert_eq!(found(find(&["Tools", "D"], true, &[]).await), (vec![2, 3], 1));
        assert_eq!(found(find(&["Tools", "D"], false, &[]).await), (Vec::new(), 0));
        assert_eq!(found(find(&["Tools", "Axe"], false, &["Tools", "Can"]).await), (vec![2, 1], 2));
        assert_eq!(found(find(&["Paint", "Can"], false, &["Tools", "Axe"]).await), (vec![1, 2], 3));
        assert_eq!(found(find(&["Tools"], false, &["Paint"]).await), (Vec::new(), 0), "a reversed range");
        let invalid = (Code::InvalidArgument, "invalid".to_owned());
        assert_eq!(reason_of(find(&["T"], true, &["U"]).await), invalid);
        assert_eq!(reason_of(find(&[], false, &[]).await), invalid);
        assert_eq!(reason_of(find(&["a", "b", "c"], false, &[]).await), invalid, "two columns are sorted");
        let many = vec!["x"; 65];
        assert_eq!(reason_of(find(&["a"], false, &many).await), (Code::ResourceExhausted, "limit".to_owned()));
    });
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
fn hidden_documents_are_not_counted() {
    let (folder, server) = library();
    with_client(&folder, &server, "ann", |client| async move {
        fill(&client).await;
        let flags = Some(v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() });
        let only_ann = v1::Item { flags, ..text("Readers", "CN=ann/O=acme.test") };
        create(&client, "Dagger", &["Tools", "Weapons"], vec![only_ann]).await;
        assert_eq!(open(&client, "By Category").await.documents, 7);
        let all = read(&client, by_category()).await;
        assert_eq!((all.entries[3].descendants, all.entries.len()), (4, 10));
    });
    with_client(&folder, &server, "bob", |client| async move {
        let opened = open(&client, "By Category").await;
        assert_eq!((opened.documents, opened.entries), (5, 7));
        let all = read(&client, by_category()).await;
        assert_eq!(lines(&all.entries), ALL, "a category with only hidden documents is hidden");
        let tools = &all.entries[3];
        assert_eq!((tools.children, tools.descendants), (3, 3));
        let sizes: f64 = all.entries[4..].iter().map(|entry| number(&entry.values[2])).sum();
        assert_eq!(number(&tools.values[2]), sizes);
        assert_eq!(all.entries[6].row, 7);
        let keys = vec![of_text("Tools")];
        let find =
            v1::FindByKeyRequest { database: database(LIBRARY), view: view("By Category"), keys, ..Default::default() };
        assert_eq!(client.views().find_by_key(find).await.expect("a reader may").into_inner().matches, 4);
    });
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

/// Creates a library in which bob is Designer.
fn designed_library() -> (TestFolder, Server) {
    let (folder, server) = library();
    folder.check(&["db", "acl", LIBRARY, "settings", "--max-internet-access", "manager"], "");
    folder.check(&["db", "acl", LIBRARY, "set", "bob@acme.test", "--level", "designer"], "");
    (folder, server)
}

fn column(title: &str, item: &str) -> v1::ColumnDesign {
    v1::ColumnDesign { title: title.to_owned(), item: item.to_owned(), ..Default::default() }
}

/// Returns a design with titles and their lengths, sorted by title.
fn by_title() -> v1::ViewDesign {
    let sort = v1::SortOrder::Ascending.into();
    v1::ViewDesign {
        title: "By Title".to_owned(),
        selection: "SELECT Form = \"Document\"".to_owned(),
        columns: vec![
            v1::ColumnDesign { sort, ..column("Title", "Subject") },
            v1::ColumnDesign { formula: "@Length(Subject)".to_owned(), ..column("Length", "$Length") },
        ],
        ..Default::default()
    }
}

/// Returns a design in which every field is set.
fn by_shelf() -> v1::ViewDesign {
    let sort = v1::SortOrder::Descending.into();
    v1::ViewDesign {
        title: "Shelves\\By Shelf".to_owned(),
        aliases: vec!["Shelf".to_owned(), "($Shelf)".to_owned()],
        columns: vec![
            v1::ColumnDesign { sort, category: true, separate: true, case: true, ..column("Shelf", "Categories") },
            v1::ColumnDesign { sort, click_ascending: true, accents: true, ..column("Title", "Subject") },
            v1::ColumnDesign {
                click_descending: true,
                hidden: true,
                format: vec![1, 0, 255],
                ..column("Form", "Form")
            },
            v1::ColumnDesign {
                formula: "@DocLength".to_owned(),
                total: v1::Total::PercentOfAll.into(),
                responses_only: true,
                ..column("Size", "$Size")
            },
        ],
        responses: true,
        no_conflicts: true,
        collapsed: true,
        locale: "sv".to_owned(),
        refresh: v1::ViewRefresh::Hours.into(),
        hours: 12,
        readers: vec!["CN=bob/O=acme.test".to_owned(), "[Staff]".to_owned(), "bob@acme.test".to_owned()],
        ..by_title()
    }
}

async fn create_view(client: &Client, design: v1::ViewDesign) -> Result<v1::SavedNote, client::Status> {
    let request = v1::CreateViewRequest { database: database(LIBRARY), design: Some(design) };
    client.views().create_view(request).await.map(client::Response::into_inner)
}

async fn update_view(
    client: &Client,
    name: &str,
    design: v1::ViewDesign,
    expected_sequence: u32,
) -> Result<v1::SavedNote, client::Status> {
    let database = database(LIBRARY);
    let view = view(name);
    let request = v1::UpdateViewRequest { database, view, design: Some(design), expected_sequence };
    client.views().update_view(request).await.map(client::Response::into_inner)
}

async fn design_of(client: &Client, name: &str) -> Result<v1::GetViewDesignReply, client::Status> {
    let request = v1::GetViewDesignRequest { database: database(LIBRARY), view: view(name) };
    client.views().get_view_design(request).await.map(client::Response::into_inner)
}

async fn delete_view(
    client: &Client,
    name: &str,
    expected_sequence: u32,
) -> Result<v1::DeleteViewReply, client::Status> {
    let request = v1::DeleteViewRequest { database: database(LIBRARY), view: view(name), expected_sequence };
    client.views().delete_view(request).await.map(client::Response::into_inner)
}

#[test]
fn view_designs_round_trip_and_are_changed_by_designers() {
    let (folder, server) = designed_library();
    with_client(&folder, &server, "bob", |client| async move {
        let calendar = v1::ViewDesign {
            title: "Calendar".to_owned(),
            calendar: true,
            calendar_columns: Some(v1::CalendarColumns { begin: 1, end: 2 }),
            ..by_title()
        };
        for design in [by_title(), by_shelf(), calendar] {
            let created = create_view(&client, design.clone()).await.expect("a designer may");
            let found = design_of(&client, &design.title).await.expect("a reader may");
            assert_eq!(found.design, Some(design));
            assert_eq!((found.view_id, &found.unid, found.sequence), (created.note_id, &created.unid, 1));
            assert!(created.modseq > 0 && created.sequence == 1);
        }
        // An update replaces the whole design, under any of the view's names, and is refused if the caller has not seen
        // the latest version.
        let plain = v1::ViewDesign { title: "Plain".to_owned(), columns: Vec::new(), ..by_title() };
        let saved = update_view(&client, "($Shelf)", plain.clone(), 1).await.expect("nobody else has");
        assert_eq!(
            (saved.sequence, design_of(&client, "Plain").await.expect("there").design),
            (2, Some(plain.clone()))
        );
        let conflict = (Code::Aborted, "conflict".to_owned());
        assert_eq!(reason_of(update_view(&client, "Plain", plain.clone(), 1).await), conflict);
        assert_eq!(reason_of(delete_view(&client, "Plain", 1).await), conflict);
        assert_eq!(update_view(&client, "Plain", plain.clone(), 0).await.expect("no sequence is expected").sequence, 3);
        let taken = v1::ViewDesign { title: "By Title".to_owned(), ..plain.clone() };
        assert_eq!(reason_of(update_view(&client, "Plain", taken, 0).await).1, "exists");
        let personal = v1::ViewDesign { personal: true, ..plain };
        assert_eq!(reason_of(update_view(&client, "Plain", personal, 0).await).1, "invalid");
        delete_view(&client, "Plain", 3).await.expect("a designer may");
        let gone = (Code::NotFound, "not-found".to_owned());
        assert_eq!(reason_of(design_of(&client, "Plain").await), gone);
        assert_eq!(reason_of(delete_view(&client, "Plain", 0).await), gone);
    });
    with_client(&folder, &server, "ann", |client| async move {
        let denied = (Code::PermissionDenied, "access".to_owned());
        assert_eq!(design_of(&client, "By Title").await.expect("an editor reads").design, Some(by_title()));
        let other = v1::ViewDesign { title: "Other".to_owned(), ..by_title() };
        assert_eq!(reason_of(create_view(&client, other.clone()).await), denied);
        assert_eq!(reason_of(create_view(&client, v1::ViewDesign { personal: true, ..other.clone() }).await), denied);
        assert_eq!(reason_of(update_view(&client, "By Title", other, 0).await), denied);
        assert_eq!(reason_of(delete_view(&client, "By Title", 0).await), denied);
        assert_eq!(design_of(&client, "By Title").await.expect("it is still there").sequence, 1);
    });
    server.stop();
}

#[test]
fn personal_view_requires_the_create_personal_folders_flag() {
    let (folder, server) = library();
    let flag = ["db", "acl", LIBRARY, "set", "bob@acme.test", "--level", "reader", "--flag", "create-personal-folders"];
    folder.check(&flag, "");
    let own = || v1::ViewDesign { personal: true, readers: vec!["CN=ann/O=acme.test".to_owned()], ..by_title() };
    with_client(&folder, &server, "bob", |client| async move {
        create_view(&client, own()).await.expect("he may have some");
        let design = design_of(&client, "By Title").await.expect("he has access").design.expect("a design");
        assert!(design.personal && design.readers.len() == 1 && design.readers != own().readers, "{design:?}");
        let shorter = v1::ViewDesign { columns: Vec::new(), ..own() };
        assert_eq!(update_view(&client, "By Title", shorter, 1).await.expect("he has access").sequence, 2);
        assert_eq!(
            design_of(&client, "By Title").await.expect("he has access").design.expect("a design").readers,
            design.readers
        );
        let shared = reason_of(update_view(&client, "By Title", by_title(), 0).await);
        assert_eq!(shared, (Code::PermissionDenied, "author".to_owned()), "he may not make it public");
    });
    with_client(&folder, &server, "ann", |client| async move {
        let gone = (Code::NotFound, "not-found".to_owned());
        assert_eq!(reason_of(design_of(&client, "By Title").await), gone);
        assert_eq!(reason_of(update_view(&client, "By Title", by_title(), 0).await), gone);
        assert_eq!(reason_of(delete_view(&client, "By Title", 0).await), gone);
    });
    with_client(&folder, &server, "bob", |client| async move {
        delete_view(&client, "By Title", 0).await.expect("he has access");
    });
    server.stop();
}

#[test]
fn changed_view_design_rebuilds_the_index() {
    let (folder, server) = designed_library();
    with_client(&folder, &server, "bob", |client| async move {
        fill(&client).await;
        create_view(&client, by_title()).await.expect("a designer may");
        let read_all = || async {
            let opened = open(&client, "By Title").await;
            let mask = Some(v1::ReadMask { values: true, ..Default::default() });
            let request = v1::ReadEntriesRequest { view: view("By Title"), mask, ..by_category() };
            let entries = read(&client, request).await.entries;
            assert_eq!((opened.incomplete, opened.entries), (false, entries.len() as u64));
            entries.into_iter().map(|entry| entry.values.into_iter().map(|value| value.kind).collect()).collect()
        };
        let row =
            |title: &str, second: v1::value::Kind| vec![Some(v1::value::Kind::Text(title.to_owned())), Some(second)];
        let number = v1::value::Kind::Number;
        let rows: Vec<Vec<Option<v1::value::Kind>>> = read_all().await;
        let expected =
            [row("Axe", number(3.0)), row("Brush", number(5.0)), row("Can", number(3.0)), row("Drill", number(5.0))];
        assert_eq!(rows, expected);
        // A design with another formula, order and selection.
        let mut design = by_title();
        design.selection = "SELECT Subject != \"Can\"".to_owned();
        design.columns[0].sort = v1::SortOrder::Descending.into();
        design.columns[1].formula = "@LowerCase(Subject)".to_owned();
        update_view(&client, "By Title", design, 1).await.expect("a designer may");
        let text = |text: &str| v1::value::Kind::Text(text.to_owned());
        let rows: Vec<Vec<Option<v1::value::Kind>>> = read_all().await;
        assert_eq!(rows, [row("Drill", text("drill")), row("Brush", text("brush")), row("Axe", text("axe"))]);
    });
    server.stop();
}

#[test]
fn folder_with_columns_stays_a_folder() {
    let (folder, server) = designed_library();
    with_client(&folder, &server, "bob", |client| async move {
        let [axe, ..] = fill(&client).await;
        let request = v1::CreateFolderRequest { database: database(LIBRARY), name: "Shed".to_owned(), personal: false };
        client.views().create_folder(request).await.expect("a designer may");
        let state = (Code::FailedPrecondition, "state".to_owned());
        assert_eq!(reason_of(design_of(&client, "Shed").await), state, "it has no columns yet");
        let shed = v1::ViewDesign { title: "Shed".to_owned(), selection: String::new(), folder: true, ..by_title() };
        let as_view = v1::ViewDesign { folder: false, ..shed.clone() };
        assert_eq!(reason_of(update_view(&client, "Shed", as_view, 0).await).1, "invalid", "it stays a folder");
        let renamed = v1::ViewDesign { title: "Barn".to_owned(), ..shed.clone() };
        assert_eq!(reason_of(update_view(&client, "Shed", renamed, 0).await).1, "invalid");
        update_view(&client, "Shed", shed.clone(), 0).await.expect("a designer may");
        assert_eq!(design_of(&client, "Shed").await.expect("there").design, Some(shed));
        let notes = note(axe).into_iter().collect();
        let filed = v1::MoveNotesRequest { database: database(LIBRARY), notes, into: view("Shed"), out_of: None };
        client.views().move_notes(filed).await.expect("a designer may");
        assert_eq!(open(&client, "Shed").await.documents, 1);
        assert_eq!(reason_of(delete_view(&client, "Shed", 0).await), state, "it is deleted as a folder");
        assert_eq!(reason_of(create_view(&client, v1::ViewDesign { folder: true, ..by_title() }).await).1, "invalid");
    });
    server.stop();
}

#[test]
fn invalid_view_design_is_refused_with_its_position() {
    let (folder, server) = designed_library();
    with_client(&folder, &server, "bob", |client| async move {
        let refused = |design, code, reason: &'static str, text: &'static str| {
            let client = client.clone();
            async move {
                let status = create_view(&client, design).await.expect_err("refused");
                assert_eq!((status.code(), client::reason(&status).as_str()), (code, reason), "{status}");
                assert!(status.message().contains(text), "{status}");
            }
        };
        let with_column = |column| v1::ViewDesign { columns: vec![column], ..by_title() };
        let invalid = Code::InvalidArgument;
        let limit = Code::ResourceExhausted;
        let selection = v1::ViewDesign { selection: "SELECT Form =".to_owned(), ..by_title() };
        refused(selection, invalid, "formula", "selection: line 1, column 14").await;
        let formula = v1::ColumnDesign { formula: "1 +\n@Zork(2)".to_owned(), ..column("Sum", "$Sum") };
        refused(with_column(formula.clone()), invalid, "formula", "column \"Sum\": line 2, column 1").await;
        let status = create_view(&client, with_column(formula)).await.expect_err("refused");
        let location = client::formula_place(&status).expect("programs can show it");
        assert_eq!((location.what.as_str(), location.line, location.column), ("column \"Sum\"", 2, 1));
        let many = v1::ViewDesign { columns: vec![column("a", "a"); 257], ..by_title() };
        refused(many, limit, "limit", "at most 256 columns of a view").await;
        let clicked = v1::ColumnDesign { click_ascending: true, click_descending: true, ..column("a", "a") };
        let orders = v1::ViewDesign { columns: vec![clicked; 8], ..by_title() };
        refused(orders, limit, "limit", "at most 16 sort orders of a view").await;
        let aliases = v1::ViewDesign { aliases: vec!["a".to_owned(); 17], ..by_title() };
        refused(aliases, limit, "limit", "at most 16 aliases of a view").await;
        let category = v1::ColumnDesign { category: true, ..column("Kind", "Kind") };
        refused(with_column(category), invalid, "invalid", "column \"Kind\"").await;
        let total = v1::ColumnDesign { total: 99, ..column("Kind", "Kind") };
        refused(with_column(total), invalid, "invalid", "99 is not a total").await;
        refused(v1::ViewDesign { title: String::new(), ..by_title() }, invalid, "invalid", "view name").await;
        refused(v1::ViewDesign { locale: "no such!".into(), ..by_title() }, invalid, "invalid", "locale").await;
        let nothing = v1::CreateViewRequest { database: database(LIBRARY), design: None };
        assert_eq!(reason_of(client.views().create_view(nothing).await).1, "invalid");
        assert_eq!(reason_of(design_of(&client, "By Title").await).1, "not-found", "nothing was made");
    });
    server.stop();
}
