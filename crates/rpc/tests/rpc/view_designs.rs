//! The designs of views: creating, reading, replacing and deleting them, and designs that are refused.

use notes::{AclEntry, AclFlags, AclLevel};
use proto::v1;
use tonic::{Code, Status};

use crate::library::{by_category, fill, open, read, view};
use crate::world::{Client, TestServer, canonical, formula_place, note, plan, refusal, refused};

/// Starts a server in whose plan bob is Designer and dan is Editor.
fn designed_library() -> TestServer {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Designer);
    server.set_level("dan", AclLevel::Editor);
    server
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

async fn create_view(client: &Client, design: v1::ViewDesign) -> Result<v1::SavedNote, Status> {
    let request = v1::CreateViewRequest { database: plan(), design: Some(design) };
    client.views().create_view(request).await.map(tonic::Response::into_inner)
}

async fn update_view(
    client: &Client,
    name: &str,
    design: v1::ViewDesign,
    expected_sequence: u32,
) -> Result<v1::SavedNote, Status> {
    let request = v1::UpdateViewRequest {
        database: plan(),
        view: view(name),
        design: Some(design),
        expected_sequence,
        expected_revision_id: Vec::new(),
    };
    client.views().update_view(request).await.map(tonic::Response::into_inner)
}

async fn design_of(client: &Client, name: &str) -> Result<v1::GetViewDesignReply, Status> {
    let request = v1::GetViewDesignRequest { database: plan(), view: view(name) };
    client.views().get_view_design(request).await.map(tonic::Response::into_inner)
}

async fn delete_view(client: &Client, name: &str, expected_sequence: u32) -> Result<v1::DeleteViewReply, Status> {
    let request = v1::DeleteViewRequest {
        database: plan(),
        view: view(name),
        expected_sequence,
        expected_revision_id: Vec::new(),
    };
    client.views().delete_view(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn view_designs_round_trip_and_are_changed_by_designers() {
    let server = designed_library();
    let client = server.log_in("bob").await;
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
    assert_eq!((saved.sequence, design_of(&client, "Plain").await.expect("there").design), (2, Some(plain.clone())));
    let conflict = refused(Code::Aborted, "conflict");
    assert_eq!(refusal(update_view(&client, "Plain", plain.clone(), 1).await), conflict);
    assert_eq!(refusal(delete_view(&client, "Plain", 1).await), conflict);
    assert_eq!(update_view(&client, "Plain", plain.clone(), 0).await.expect("no sequence is expected").sequence, 3);
    let taken = v1::ViewDesign { title: "By Title".to_owned(), ..plain.clone() };
    assert_eq!(refusal(update_view(&client, "Plain", taken, 0).await).1, "exists");
    let personal = v1::ViewDesign { personal: true, ..plain };
    assert_eq!(refusal(update_view(&client, "Plain", personal, 0).await).1, "invalid");
    delete_view(&client, "Plain", 3).await.expect("a designer may");
    let gone = refused(Code::NotFound, "not-found");
    assert_eq!(refusal(design_of(&client, "Plain").await), gone);
    assert_eq!(refusal(delete_view(&client, "Plain", 0).await), gone);
    let client = server.log_in("dan").await;
    let denied = refused(Code::PermissionDenied, "access");
    assert_eq!(design_of(&client, "By Title").await.expect("an editor reads").design, Some(by_title()));
    let other = v1::ViewDesign { title: "Other".to_owned(), ..by_title() };
    assert_eq!(refusal(create_view(&client, other.clone()).await), denied);
    assert_eq!(refusal(create_view(&client, v1::ViewDesign { personal: true, ..other.clone() }).await), denied);
    assert_eq!(refusal(update_view(&client, "By Title", other, 0).await), denied);
    assert_eq!(refusal(delete_view(&client, "By Title", 0).await), denied);
    assert_eq!(design_of(&client, "By Title").await.expect("it is still there").sequence, 1);
}

#[tokio::test]
async fn personal_view_requires_the_create_personal_folders_flag() {
    let server = designed_library();
    let flags = AclFlags::CREATE_PERSONAL_FOLDER;
    server.set_entry(AclEntry { flags, ..AclEntry::new(canonical("bob").as_str(), AclLevel::Reader) });
    let own = || v1::ViewDesign { personal: true, readers: vec!["CN=ann/O=acme.test".to_owned()], ..by_title() };
    let client = server.log_in("bob").await;
    create_view(&client, own()).await.expect("he may have some");
    let design = design_of(&client, "By Title").await.expect("he has access").design.expect("a design");
    assert!(design.personal && design.readers.len() == 1 && design.readers != own().readers, "{design:?}");
    let shorter = v1::ViewDesign { columns: Vec::new(), ..own() };
    assert_eq!(update_view(&client, "By Title", shorter, 1).await.expect("he has access").sequence, 2);
    assert_eq!(
        design_of(&client, "By Title").await.expect("he has access").design.expect("a design").readers,
        design.readers
    );
    let shared = refusal(update_view(&client, "By Title", by_title(), 0).await);
    assert_eq!(shared, refused(Code::PermissionDenied, "author"), "he may not make it public");
    let client = server.log_in("dan").await;
    let gone = refused(Code::NotFound, "not-found");
    assert_eq!(refusal(design_of(&client, "By Title").await), gone);
    assert_eq!(refusal(update_view(&client, "By Title", by_title(), 0).await), gone);
    assert_eq!(refusal(delete_view(&client, "By Title", 0).await), gone);
    let client = server.log_in("bob").await;
    delete_view(&client, "By Title", 0).await.expect("he has access");
}

#[tokio::test]
async fn personal_view_has_few_orders_and_its_index_is_counted_apart() {
    let server = designed_library();
    let flags = AclFlags::CREATE_PERSONAL_FOLDER;
    server.set_entry(AclEntry { flags, ..AclEntry::new(canonical("bob").as_str(), AclLevel::Reader) });
    let ann = server.log_in("ann").await;
    fill(&ann).await;
    let with_clicks = |count: usize| {
        let title = |number| format!("Title {number}");
        let clicked = |number| v1::ColumnDesign { click_ascending: true, ..column(&title(number), "Subject") };
        v1::ViewDesign { personal: true, columns: (0..count).map(clicked).collect(), ..by_title() }
    };
    let bob = server.log_in("bob").await;
    let limit = refused(Code::ResourceExhausted, "limit");
    assert_eq!(refusal(create_view(&bob, with_clicks(4)).await), limit);
    create_view(&bob, with_clicks(3)).await.expect("it has four orders");
    assert_eq!(refusal(update_view(&bob, "By Title", with_clicks(4), 0).await), limit);
    open(&bob, "By Title").await;
    let sizes = || async {
        let request = v1::OpenDatabaseRequest { database: plan() };
        let database = ann.databases().open_database(request).await.expect("ann is a manager").into_inner();
        (database.index_bytes, database.personal_index_bytes)
    };
    let (shared, personal) = sizes().await;
    assert!(shared == 0 && personal > 0, "{shared} and {personal} bytes");
    let other = v1::ViewDesign { title: "Shared".to_owned(), ..by_title() };
    create_view(&ann, other).await.expect("ann is a manager");
    open(&ann, "Shared").await;
    assert!(sizes().await.0 > 0);
    assert_eq!(sizes().await.1, personal);
    delete_view(&bob, "By Title", 0).await.expect("he has access");
    assert_eq!(sizes().await.1, 0);
    let database = bob.databases().open_database(v1::OpenDatabaseRequest { database: plan() }).await;
    let database = database.expect("bob may read").into_inner();
    assert_eq!((database.index_bytes, database.personal_index_bytes), (0, 0), "they count hidden notes, too");
}

#[tokio::test]
async fn changed_view_design_rebuilds_the_index() {
    let server = designed_library();
    let client = server.log_in("bob").await;
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
    let row = |title: &str, second: v1::value::Kind| vec![Some(v1::value::Kind::Text(title.to_owned())), Some(second)];
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
}

#[tokio::test]
async fn folder_with_columns_stays_a_folder() {
    let server = designed_library();
    let client = server.log_in("bob").await;
    let [axe, ..] = fill(&client).await;
    let request = v1::CreateFolderRequest { database: plan(), name: "Shed".to_owned(), personal: false };
    client.views().create_folder(request).await.expect("a designer may");
    let state = refused(Code::FailedPrecondition, "state");
    assert_eq!(refusal(design_of(&client, "Shed").await), state, "it has no columns yet");
    let shed = v1::ViewDesign { title: "Shed".to_owned(), selection: String::new(), folder: true, ..by_title() };
    let as_view = v1::ViewDesign { folder: false, ..shed.clone() };
    assert_eq!(refusal(update_view(&client, "Shed", as_view, 0).await).1, "invalid", "it stays a folder");
    let renamed = v1::ViewDesign { title: "Barn".to_owned(), ..shed.clone() };
    assert_eq!(refusal(update_view(&client, "Shed", renamed, 0).await).1, "invalid");
    update_view(&client, "Shed", shed.clone(), 0).await.expect("a designer may");
    assert_eq!(design_of(&client, "Shed").await.expect("there").design, Some(shed));
    let notes = note(axe).into_iter().collect();
    let filed = v1::MoveNotesRequest { database: plan(), notes, into: view("Shed"), out_of: None };
    client.views().move_notes(filed).await.expect("a designer may");
    assert_eq!(open(&client, "Shed").await.documents, 1);
    assert_eq!(refusal(delete_view(&client, "Shed", 0).await), state, "it is deleted as a folder");
    assert_eq!(refusal(create_view(&client, v1::ViewDesign { folder: true, ..by_title() }).await).1, "invalid");
}

#[tokio::test]
async fn invalid_view_design_is_refused_with_its_position() {
    let server = designed_library();
    let client = server.log_in("bob").await;
    let check = |design, code, reason: &'static str, text: &'static str| {
        let client = client.clone();
        async move {
            let status = create_view(&client, design).await.expect_err("refused");
            assert!(status.message().contains(text), "{status}");
            assert_eq!(refusal::<()>(Err(status)), refused(code, reason), "{text}");
        }
    };
    let with_column = |column| v1::ViewDesign { columns: vec![column], ..by_title() };
    let invalid = Code::InvalidArgument;
    let limit = Code::ResourceExhausted;
    let selection = v1::ViewDesign { selection: "SELECT Form =".to_owned(), ..by_title() };
    check(selection, invalid, "formula", "selection: line 1, column 14").await;
    let formula = v1::ColumnDesign { formula: "1 +\n@Zork(2)".to_owned(), ..column("Sum", "$Sum") };
    check(with_column(formula.clone()), invalid, "formula", "column \"Sum\": line 2, column 1").await;
    let status = create_view(&client, with_column(formula)).await.expect_err("refused");
    let location = formula_place(&status).expect("programs can show it");
    assert_eq!((location.what.as_str(), location.line, location.column), ("column \"Sum\"", 2, 1));
    let many = v1::ViewDesign { columns: vec![column("a", "a"); 257], ..by_title() };
    check(many, limit, "limit", "at most 256 columns of a view").await;
    let clicked = v1::ColumnDesign { click_ascending: true, click_descending: true, ..column("a", "a") };
    let orders = v1::ViewDesign { columns: vec![clicked; 8], ..by_title() };
    check(orders, limit, "limit", "at most 16 sort orders of a view").await;
    let aliases = v1::ViewDesign { aliases: vec!["a".to_owned(); 17], ..by_title() };
    check(aliases, limit, "limit", "at most 16 aliases of a view").await;
    let category = v1::ColumnDesign { category: true, ..column("Kind", "Kind") };
    check(with_column(category), invalid, "invalid", "column \"Kind\"").await;
    let total = v1::ColumnDesign { total: 99, ..column("Kind", "Kind") };
    check(with_column(total), invalid, "invalid", "99 is not a total").await;
    check(v1::ViewDesign { title: String::new(), ..by_title() }, invalid, "invalid", "view name").await;
    check(v1::ViewDesign { locale: "no such!".into(), ..by_title() }, invalid, "invalid", "locale").await;
    let nothing = v1::CreateViewRequest { database: plan(), design: None };
    assert_eq!(refusal(client.views().create_view(nothing).await).1, "invalid");
    assert_eq!(refusal(design_of(&client, "By Title").await).1, "not-found", "nothing was made");
}
