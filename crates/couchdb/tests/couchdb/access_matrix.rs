//! The rights of callers: which requests each level of the access control list permits, and which documents Readers and
//! Authors items leave to them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notes::{Access, Acl, AclEntry, AclLevel, Identity, Item, NewNote, level};

use super::http::World;
use super::{ANN, PATH};

const LEVELS: [AclLevel; 7] = [
    AclLevel::NoAccess,
    AclLevel::Depositor,
    AclLevel::Reader,
    AclLevel::Author,
    AclLevel::Editor,
    AclLevel::Designer,
    AclLevel::Manager,
];

/// The callers of a request, as places in [`LEVELS`].
const FROM_READER: &[usize] = &[2, 3, 4, 5, 6];
const FROM_AUTHOR: &[usize] = &[3, 4, 5, 6];
const FROM_EDITOR: &[usize] = &[4, 5, 6];

/// A request. `{}` in its text is another number for each caller.
struct MatrixRow {
    request: &'static str,
    body: &'static str,
    permitted: &'static [usize],
}

const fn row(request: &'static str, body: &'static str, permitted: &'static [usize]) -> MatrixRow {
    MatrixRow { request, body, permitted }
}

/// Documents `d0` to `d6` belong to Ann. Authors may change only their own.
const MATRIX: &[MatrixRow] = &[
    row("GET /talk.nsf", "", FROM_READER),
    row("PUT /talk.nsf", "", &[]),
    row("GET /talk.nsf/_all_docs", "", FROM_READER),
    row("POST /talk.nsf/_all_docs", r#"{"keys":["d{}"]}"#, FROM_READER),
    row("GET /talk.nsf/_changes", "", FROM_READER),
    row("POST /talk.nsf/_changes?filter=_doc_ids", r#"{"doc_ids":["d{}"]}"#, FROM_READER),
    row("POST /talk.nsf/_bulk_get", r#"{"docs":[{"id":"d{}"}]}"#, FROM_READER),
    row("POST /talk.nsf/_revs_diff", r#"{"d{}":["1-abc"]}"#, FROM_READER),
    row("GET /talk.nsf/d{}", "", FROM_READER),
    row("PUT /talk.nsf/_local/c{}", r#"{"at":1}"#, FROM_READER),
    row("PUT /talk.nsf/new{}", r#"{"a":1}"#, FROM_AUTHOR),
    row("POST /talk.nsf", r#"{"_id":"posted{}"}"#, FROM_AUTHOR),
    row("POST /talk.nsf/_bulk_docs", r#"{"docs":[{"_id":"bulk{}"}]}"#, FROM_AUTHOR),
    row(
        "POST /talk.nsf/_bulk_docs",
        r#"{"new_edits":false,"docs":[{"_id":"brought{}","_rev":"1-00000000000000000000000000000001"}]}"#,
        FROM_AUTHOR,
    ),
    row("PUT /talk.nsf/d{}?rev={rev}", r#"{"a":2}"#, FROM_EDITOR),
    row("DELETE /talk.nsf/d{}?rev={rev}", "", FROM_EDITOR),
];

struct Matrix(World);

impl Matrix {
    fn new() -> Self {
        let world = World::new();
        let entries =
            LEVELS.iter().enumerate().map(|(index, level)| AclEntry::new(format!("level{index}").as_str(), *level));
        let mut acl = Acl::open_to_all(AclLevel::NoAccess);
        acl.entries.push(AclEntry::new(ANN, AclLevel::Manager));
        acl.entries.extend(entries);
        let matrix = Self(world);
        matrix.write(|writer| writer.acl_set(acl.clone()));
        matrix
    }

    fn write<T>(&self, change: impl FnOnce(&mut notes::Writer<'_, '_>) -> notes::Result<T>) -> T {
        let server = &self.0.server;
        let ann = Arc::new(Identity::person(ANN));
        let access: Access<level::Depositor> = server.database.authorize(&ann).expect("Ann is the manager");
        let accesses = [&access];
        let mut transaction = server.databases.transaction(&accesses).expect("a transaction");
        let outcome = change(&mut transaction.writer(0)).expect("Ann may");
        transaction.commit().expect("a sound store");
        outcome
    }

    async fn send(&self, login: Option<&str>, request: &str, body: &str) -> (u16, serde_json::Value) {
        let login = login.map(|login| format!("authorization: Basic {}", STANDARD.encode(format!("{login}:any"))));
        let mut fields = vec!["content-type: application/json"];
        fields.extend(login.as_deref());
        let answer = self.0.send_anonymously(request, &fields, body.as_bytes()).await;
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Returns `true` if a caller may send a request, for which a document of Ann is made before.
    async fn is_permitted(&self, login: Option<&str>, row: &MatrixRow, number: usize) -> bool {
        let number = number.to_string();
        let id = format!("d{number}");
        let (_, before) = self.send(Some(ANN), &format!("GET /{PATH}/{id}"), "").await;
        let before = before["_rev"].as_str().map(|rev| format!("?rev={rev}")).unwrap_or_default();
        let (status, made) = self.send(Some(ANN), &format!("PUT /{PATH}/{id}{before}"), r#"{"a":1}"#).await;
        assert_eq!(status, 201, "{made}");
        let rev = made["rev"].as_str().expect("it has a revision");
        let fill = |text: &str| text.replace("{rev}", rev).replace("{}", &number);
        let (status, answer) = self.send(login, &fill(row.request), &fill(row.body)).await;
        // Of several documents, each has an outcome of its own.
        let refused = answer.as_array().is_some_and(|rows| rows.iter().any(|row| row.get("error").is_some()));
        let is_refusal = refused || matches!(status, 401 | 403 | 404 | 412);
        assert!(is_refusal || status < 300, "{} {status}: {answer}", row.request);
        !is_refusal
    }
}

#[tokio::test]
async fn each_level_permits_its_requests() {
    let matrix = Matrix::new();
    for (place, row) in MATRIX.iter().enumerate() {
        let mut permitted = Vec::new();
        for level in 0..LEVELS.len() {
            if matrix.is_permitted(Some(&format!("level{level}")), row, 100 * place + level).await {
                permitted.push(level);
            }
        }
        assert_eq!(permitted, row.permitted, "{} {}", row.request, row.body);
        assert!(!matrix.is_permitted(None, row, 100 * place + 99).await, "{} without a login", row.request);
    }
}

#[tokio::test]
async fn readers_and_authors_items_hold() {
    let matrix = Matrix::new();
    let secret = vec![Item::readers("DocReaders", vec!["level2".to_owned()])];
    let unid = matrix.write(|writer| {
        let note = writer.note_create(NewNote::document(secret))?;
        Ok(writer.header(note)?.expect("it was created").unid)
    });
    let id = base::hex::lower(&unid.0);
    for level in 0..LEVELS.len() {
        let login = format!("level{level}");
        let (status, _) = matrix.send(Some(&login), &format!("GET /{PATH}/{id}"), "").await;
        assert_eq!(status == 200, level == 2, "{login}: Readers items hold for managers, too");
        let (_, changes) = matrix.send(Some(&login), &format!("GET /{PATH}/_changes"), "").await;
        assert_eq!(changes.to_string().contains(&id), level == 2, "{login}: {changes}");
    }
    // An author changes the documents whose Authors items name them.
    let (status, made) = matrix.send(Some("level3"), &format!("PUT /{PATH}/own"), r#"{"a":1}"#).await;
    assert_eq!(status, 201, "{made}");
    let own = matrix.write(|writer| {
        let note = writer.note_create(NewNote::document(vec![Item::authors("By", vec!["level3".to_owned()])]))?;
        Ok(writer.header(note)?.expect("it was created").unid)
    });
    let own = base::hex::lower(&own.0);
    let (_, found) = matrix.send(Some("level3"), &format!("GET /{PATH}/{own}"), "").await;
    let rev = found["_rev"].as_str().expect("it has a revision");
    let mut changed = found.clone();
    changed["Subject"] = "changed".into();
    let request = format!("PUT /{PATH}/{own}?rev={rev}");
    let (status, refused) = matrix.send(Some("level2"), &request, &changed.to_string()).await;
    assert_eq!(status, 403, "{refused}");
    let (status, saved) = matrix.send(Some("level3"), &request, &changed.to_string()).await;
    assert_eq!(status, 201, "{saved}");
}
