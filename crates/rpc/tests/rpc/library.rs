//! The entries of a view: a library with categories and totals, read page by page, expanded and collapsed, and searched
//! by key; and documents that are hidden from the reader.

use notes::AclLevel;
use proto::v1;
use tonic::{Code, Status};

use crate::world::{Client, TestServer, note, plan, refusal, refused, text};

pub fn view(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

pub fn by_category() -> v1::ReadEntriesRequest {
    v1::ReadEntriesRequest {
        database: plan(),
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

/// Returns a design with categories, titles and sizes with their totals.
fn design() -> v1::ViewDesign {
    let sort = v1::SortOrder::Ascending.into();
    let column = |title: &str, item: &str| v1::ColumnDesign {
        title: title.to_owned(),
        item: item.to_owned(),
        ..Default::default()
    };
    v1::ViewDesign {
        title: "By Category".to_owned(),
        selection: "SELECT Form = \"Document\"".to_owned(),
        columns: vec![
            v1::ColumnDesign { sort, category: true, separate: true, ..column("Category", "Categories") },
            v1::ColumnDesign { sort, ..column("Title", "Subject") },
            v1::ColumnDesign {
                formula: "@DocLength".to_owned(),
                total: v1::Total::Sum.into(),
                ..column("Size", "$Size")
            },
        ],
        collapsed: true,
        ..Default::default()
    }
}

/// Starts a server whose plan has the view `By Category`. Bob is a Reader.
async fn library() -> TestServer {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Reader);
    let request = v1::CreateViewRequest { database: plan(), design: Some(design()) };
    server.log_in("ann").await.views().create_view(request).await.expect("a manager may");
    server
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
    client.create(items).await.expect("an editor may").note_id
}

pub async fn open(client: &Client, name: &str) -> v1::Collection {
    let request = v1::OpenCollectionRequest { database: plan(), view: view(name) };
    client.views().open_collection(request).await.expect("a reader may").into_inner()
}

pub async fn read(client: &Client, request: v1::ReadEntriesRequest) -> v1::ReadEntriesReply {
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
pub async fn fill(client: &Client) -> [u32; 4] {
    [
        create(client, "Axe", &["Tools"], Vec::new()).await,
        create(client, "Brush", &["Paint"], Vec::new()).await,
        create(client, "Can", &["Paint", "Tools"], Vec::new()).await,
        create(client, "Drill", &["Tools"], Vec::new()).await,
    ]
}

const ALL: [&str; 7] = ["1 [Paint]", "1.1 Brush", "1.2 Can", "2 [Tools]", "2.1 Axe", "2.2 Can", "2.3 Drill"];

#[tokio::test]
async fn view_pages_have_totals_and_counts() {
    let server = library().await;
    let client = server.log_in("ann").await;
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
        let within = |entry: &&v1::Entry| entry.level == 1 && position_of(entry).starts_with(&position_of(category));
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
    assert_eq!(refusal(client.views().read_entries(zero).await), refused(Code::InvalidArgument, "invalid"));
    let deep = v1::ReadEntriesRequest { start: Some(v1::Tumbler { levels: vec![1; 64] }), ..by_category() };
    assert_eq!(refusal(client.views().read_entries(deep).await), refused(Code::ResourceExhausted, "limit"));
}

#[tokio::test]
async fn client_expansion_and_masks_determine_the_entries() {
    let server = library().await;
    let client = server.log_in("ann").await;
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
    let mark = v1::MarkNotesRequest { database: plan(), notes, unread: false };
    client.notes().mark_notes(mark).await.expect("a reader may");
    assert!(!unread().await.unread);
    let navigator = v1::Navigator::NextUnread.into();
    let next = v1::ReadEntriesRequest { start_row: 5, skip_navigator: navigator, skip_count: 1, ..by_category() };
    assert_eq!(lines(&read(&client, v1::ReadEntriesRequest { count: 1, ..next }).await.entries), ["2.2 Can"]);
}

#[tokio::test]
async fn entries_are_found_by_key_prefix_and_range() {
    let server = library().await;
    let client = server.log_in("ann").await;
    fill(&client).await;
    open(&client, "By Category").await;
    let find = |keys: &[&str], partial, to: &[&str]| {
        let request = v1::FindByKeyRequest {
            database: plan(),
            view: view("By Category"),
            collation: 0,
            keys: keys.iter().map(|key| of_text(key)).collect(),
            partial,
            to_keys: to.iter().map(|key| of_text(key)).collect(),
        };
        let client = client.clone();
        async move { client.views().find_by_key(request).await.map(tonic::Response::into_inner) }
    };
    let found = |reply: Result<v1::FindByKeyReply, Status>| {
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
    let invalid = refused(Code::InvalidArgument, "invalid");
    assert_eq!(refusal(find(&["T"], true, &["U"]).await), invalid);
    assert_eq!(refusal(find(&[], false, &[]).await), invalid);
    assert_eq!(refusal(find(&["a", "b", "c"], false, &[]).await), invalid, "two columns are sorted");
    let many = vec!["x"; 65];
    assert_eq!(refusal(find(&["a"], false, &many).await), refused(Code::ResourceExhausted, "limit"));
}

#[tokio::test]
async fn hidden_documents_are_not_counted() {
    let server = library().await;
    let client = server.log_in("ann").await;
    fill(&client).await;
    let flags = Some(v1::ItemFlags { summary: true, readers: true, names: true, ..Default::default() });
    let only_ann = v1::Item { flags, ..text("Readers", "CN=ann/O=acme.test") };
    create(&client, "Dagger", &["Tools", "Weapons"], vec![only_ann]).await;
    assert_eq!(open(&client, "By Category").await.documents, 7);
    let all = read(&client, by_category()).await;
    assert_eq!((all.entries[3].descendants, all.entries.len()), (4, 10));
    let client = server.log_in("bob").await;
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
    let find = v1::FindByKeyRequest { database: plan(), view: view("By Category"), keys, ..Default::default() };
    assert_eq!(client.views().find_by_key(find).await.expect("a reader may").into_inner().matches, 4);
}
