//! `doublet db list`, `db open` and `db create` on a server.

use admin::Answer;
use admin::answer::{record, timestamp_json};
use client::{Client, v1};
use serde_json::{Value, json};

use super::call_error;
use crate::CommandError;

/// Lists the databases to which the caller has any access.
pub(super) async fn list(client: Client) -> Result<Answer, CommandError> {
    let mut rows = Vec::new();
    let mut after = String::new();
    loop {
        let request = v1::ListDatabasesRequest { after, ..v1::ListDatabasesRequest::default() };
        let page = client.databases().list_databases(request).await.map_err(call_error)?.into_inner();
        rows.extend(page.databases.iter().map(|entry| {
            record(vec![
                ("path", json!(entry.path)),
                ("title", json!(entry.title)),
                ("kind", kind_json(entry.kind())),
                ("access", level_json(entry.level())),
                ("replica_id", json!(entry.replica_id)),
            ])
        }));
        if page.next.is_empty() {
            return Ok(Answer::list(rows));
        }
        after = page.next;
    }
}

/// Creates a database with the caller as its manager.
pub(super) async fn create(client: Client, request: v1::CreateDatabaseRequest) -> Result<Answer, CommandError> {
    let made = client.databases().create_database(request).await.map_err(call_error)?.into_inner();
    Ok(database_answer(made).with_message("You are its manager; no other user has access yet."))
}

/// Shows the properties of a database and the caller's rights.
pub(super) async fn open(client: Client, path: String) -> Result<Answer, CommandError> {
    let request = v1::OpenDatabaseRequest { database: Some(key(path)) };
    Ok(database_answer(client.databases().open_database(request).await.map_err(call_error)?.into_inner()))
}

fn database_answer(found: v1::Database) -> Answer {
    let rights = found.rights.unwrap_or_default();
    // The server tells the sizes only to managers, and 0 to others.
    let size = |value: u64| if rights.level() >= v1::AccessLevel::Manager { json!(value) } else { Value::Null };
    Answer::record(vec![
        ("path", json!(found.path)),
        ("title", json!(found.title)),
        ("kind", kind_json(found.kind())),
        ("owner", json!(found.owner)),
        ("replica_id", json!(found.replica_id)),
        ("created", timestamp_json(Some(base::Timestamp(found.created_us)))),
        ("access", level_json(rights.level())),
        ("creates_documents", json!(rights.create_documents)),
        ("deletes_documents", json!(rights.delete_documents)),
        ("creates_folders", json!(rights.create_folders)),
        ("notes", size(found.notes)),
        ("size_bytes", size(found.size_bytes)),
        ("index_bytes", size(found.index_bytes)),
        ("personal_index_bytes", size(found.personal_index_bytes)),
        ("quota_bytes", if found.quota_bytes == 0 { Value::Null } else { json!(found.quota_bytes) }),
        ("modseq", json!(found.modseq)),
    ])
}

/// Creates a database key from a path.
pub(super) fn key(path: String) -> v1::DatabaseKey {
    v1::DatabaseKey { key: Some(v1::database_key::Key::Path(path)) }
}

fn level_json(level: v1::AccessLevel) -> Value {
    let name = level.as_str_name().trim_start_matches("ACCESS_LEVEL_").to_lowercase().replace('_', "-");
    json!(name)
}

fn kind_json(kind: v1::DatabaseKind) -> Value {
    json!(kind.as_str_name().trim_start_matches("DATABASE_KIND_").to_lowercase().replace('_', ""))
}
