//! Creating and filling databases that are no mail files, before a run.
//!
//! The first user of the run creates them (`native.database_creators` of the server must permit it), and grants all
//! others the level that the workload needs. Documents are brought as by a local replica, several hundred with a call:
//! so a database of a million documents is filled within minutes, and its documents have the times and identifiers that
//! the seed gives them.

use client::v1;
use client::v1::value::Kind;

use super::NativeSettings;
use super::items::{summary_item, text_item, topic_items, view_named};
use super::replica_notes::first_version;
use super::session::{CallCount, CallError, Session};
use crate::door::StepError;
use crate::population::databases::{DatabaseFile, StoredTopic, UserRights};

/// Maximum number of documents that are brought with one call.
const DOCUMENTS_PER_CALL_MAX: usize = 250;
/// Size of the documents that are brought with one call, if there are several.
const CALL_BYTES_MAX: usize = 2 << 20;
/// The entry of an access control list for everybody whom no other entry names.
const DEFAULT_ENTRY: &str = "-Default-";
/// The code of a database that exists already.
const EXISTS: &str = "exists";
/// The code of a user who may not create databases.
const SERVER_ONLY: &str = "server-only";

/// Creates databases as a user, one after the other. Those that exist are left as they are.
///
/// # Errors
///
/// The first call that failed. A database that does not exist and that the user may not create is one.
pub async fn create_databases(
    settings: &NativeSettings,
    user: u64,
    files: impl Iterator<Item = DatabaseFile<'_>> + Send,
) -> Result<(), StepError> {
    let created = async {
        let mut session = Session::log_in_without_steps(settings, user).await?;
        for file in files {
            session.work_in(file.path());
            create(&session, file).await?;
        }
        session.log_out(&mut CallCount::default()).await;
        Ok::<(), CallError>(())
    };
    created.await.map_err(StepError::from)
}

/// Adds documents to a database as a user, in order, and opens its view until the index is complete.
///
/// # Errors
///
/// The first call that failed, or document that was refused.
pub async fn fill_database(
    settings: &NativeSettings,
    user: u64,
    file: DatabaseFile<'_>,
    topics: impl Iterator<Item = StoredTopic> + Send,
) -> Result<(), StepError> {
    let filled = async {
        let mut session = Session::log_in_without_steps(settings, user).await?;
        session.work_in(file.path());
        add_topics(&session, topics).await?;
        session.open_collection(&mut CallCount::default(), view_named(&file.kind.database.view)).await?;
        session.log_out(&mut CallCount::default()).await;
        Ok::<(), CallError>(())
    };
    filled.await.map_err(StepError::from)
}

async fn create(session: &Session, file: DatabaseFile<'_>) -> Result<(), CallError> {
    let mut count = CallCount::default();
    let path = file.path();
    let template = file.kind.database.template.clone();
    let request = v1::CreateDatabaseRequest { path: path.clone(), title: String::new(), template };
    let created = session.call(&mut count, session.client().databases().create_database(request)).await;
    match created {
        Ok(_) => grant(session, file.kind.rights).await,
        Err(error) if error.code == EXISTS => Ok(()),
        Err(error) if error.code == SERVER_ONLY => {
            let request = v1::OpenDatabaseRequest { database: Some(session.database()) };
            let opened = session.call(&mut count, session.client().databases().open_database(request)).await;
            let missing = format!("{path} does not exist, and native.database_creators does not permit to create it");
            opened.map(|_| ()).map_err(|_| CallError::kept("no-database", missing))
        }
        Err(error) => Err(error),
    }
}

/// Adds all users to the access control list of a database, with the level that the workload needs.
async fn grant(session: &Session, rights: UserRights) -> Result<(), CallError> {
    let mut count = CallCount::default();
    let database = Some(session.database());
    let request = v1::GetAclRequest { database: database.clone() };
    let mut acl = session.call(&mut count, session.client().databases().get_acl(request)).await?;
    acl.entries.retain(|entry| !entry.name.eq_ignore_ascii_case(DEFAULT_ENTRY));
    let level = match rights {
        UserRights::Edit => v1::AccessLevel::Editor,
        UserRights::Design => v1::AccessLevel::Designer,
    };
    let name = DEFAULT_ENTRY.to_owned();
    acl.entries.push(v1::AclEntry { name, level: level.into(), ..v1::AclEntry::default() });
    let request = v1::SetAclRequest { database, acl: Some(acl), ..v1::SetAclRequest::default() };
    session.call(&mut count, session.client().databases().set_acl(request)).await?;
    Ok(())
}

async fn add_topics(session: &Session, topics: impl Iterator<Item = StoredTopic> + Send) -> Result<(), CallError> {
    let mut count = CallCount::default();
    let mut notes = Vec::new();
    let mut bytes = 0;
    for topic in topics {
        let size = topic.content.body.len().max(topic.content.html.len());
        if notes.len() == DOCUMENTS_PER_CALL_MAX || (bytes + size > CALL_BYTES_MAX && !notes.is_empty()) {
            session.write_versions(&mut count, std::mem::take(&mut notes), &[]).await?;
            bytes = 0;
        }
        bytes += size;
        notes.push(first_version(topic.unid, topic.created_us, stored_items(session, topic)));
    }
    if !notes.is_empty() {
        session.write_versions(&mut count, notes, &[]).await?;
    }
    Ok(())
}

fn stored_items(session: &Session, topic: StoredTopic) -> Vec<v1::Item> {
    let mut items = topic_items(&topic.content);
    items.push(text_item("Categories", &category_name(topic.category)));
    items.push(summary_item("Price", Kind::Number(topic.price as f64 / 100.0)));
    items.push(session.editor_item());
    items
}

/// Returns the name of a category.
pub(super) fn category_name(number: u64) -> String {
    format!("Category {number:03}")
}
