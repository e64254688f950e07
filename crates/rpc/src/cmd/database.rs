//! Listing, opening and creating databases.

use std::sync::Arc;

use notes::{AclFlags, AclLevel, Database, DatabaseKind, Grant, level};
use proto::v1;

use super::CallContext;
use crate::backend::{CreateDatabaseError, TemplateInfo};
use crate::error::{Error, Result, access_level};
use crate::limits::{DATABASES_EXAMINED_MAX, DATABASES_PER_PAGE_MAX, STEPS_PER_DATABASE};
use crate::service::CallOutcome;

/// Lists the databases to which the caller has any access. The queues of the router are not for clients.
pub(crate) fn list(
    context: &CallContext,
    request: &v1::ListDatabasesRequest,
) -> Result<CallOutcome<v1::ListDatabasesReply>> {
    let identity = context.identity()?;
    let limit = match usize::try_from(request.limit).unwrap_or(usize::MAX) {
        0 => DATABASES_PER_PAGE_MAX,
        limit => limit.min(DATABASES_PER_PAGE_MAX),
    };
    let databases = &context.services.databases;
    let mut reply = v1::ListDatabasesReply::default();
    let records = databases.database_page(&request.prefix, &request.after, DATABASES_EXAMINED_MAX + 1)?;
    for (looked_at, record) in records.into_iter().enumerate() {
        if reply.databases.len() >= limit || looked_at >= DATABASES_EXAMINED_MAX {
            return Ok(CallOutcome::immediate(reply));
        }
        context.spend(STEPS_PER_DATABASE)?;
        reply.next.clone_from(&record.path);
        if record.kind == DatabaseKind::MailBox {
            continue;
        }
        // A database that was deleted in the meantime or cannot be opened is not listed.
        let Ok(database) = databases.database_open(&record.path) else { continue };
        let Ok(access) = database.authorize::<level::Depositor>(&identity) else { continue };
        reply.databases.push(v1::DatabaseEntry {
            path: record.path,
            replica_id: record.replica_id.to_text(),
            title: record.title,
            kind: kind_to_proto(record.kind).into(),
            level: access_level(access.grant()?.level()).into(),
        });
    }
    reply.next.clear();
    Ok(CallOutcome::immediate(reply))
}

/// Describes a database and the caller's rights in it.
pub(crate) fn open(context: &CallContext, request: v1::OpenDatabaseRequest) -> Result<CallOutcome<v1::Database>> {
    let access = context.access::<level::Depositor>(request.database)?;
    let grant = access.grant()?;
    let mut reply = describe(access.database(), &grant);
    if grant.level() < AclLevel::Reader {
        return Ok(CallOutcome::immediate(reply));
    }
    let reader = access.database().authorize::<level::Reader>(&context.identity()?)?;
    let reading = reader.read()?;
    let counters = reading.counters();
    reply.modseq = counters.modseq.0;
    // The numbers include documents that Readers items hide, so only a Manager gets them.
    if grant.level() >= AclLevel::Manager {
        reply.notes = counters.notes;
        reply.size_bytes = counters.bytes;
        reply.index_bytes = counters.index_bytes;
        reply.personal_index_bytes = counters.personal_index_bytes;
    }
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

/// Creates a database with the caller as Manager.
pub(crate) fn create(context: &CallContext, request: v1::CreateDatabaseRequest) -> Result<CallOutcome<v1::Database>> {
    let identity = context.identity()?;
    let made = context.services.database_creator.create(&identity, &request.path, &request.title, &request.template);
    let database = made.map_err(|error| match error {
        CreateDatabaseError::NotAllowed => Error::NoMaker,
        CreateDatabaseError::NoTemplate => {
            notes::Error::not_found(format!("the template {:?}", request.template)).into()
        }
        CreateDatabaseError::Refused(text) => Error::Invalid(text),
        CreateDatabaseError::Directory(error) => error.into(),
    })?;
    let access = database.authorize::<level::Depositor>(&identity)?;
    Ok(CallOutcome::immediate(describe(&database, &*access.grant()?)))
}

/// Lists the templates.
pub(crate) fn templates(
    context: &CallContext,
    _: v1::ListTemplatesRequest,
) -> Result<CallOutcome<v1::ListTemplatesReply>> {
    context.identity()?;
    let convert = |TemplateInfo { name, title, description: about }| v1::Template { name, title, about };
    let templates = context.services.database_creator.templates().into_iter().map(convert).collect();
    Ok(CallOutcome::immediate(v1::ListTemplatesReply { templates }))
}

fn describe(database: &Arc<Database>, grant: &Grant) -> v1::Database {
    let record = database.record();
    let may_make_folders = grant.level() >= AclLevel::Designer
        || (grant.level() >= AclLevel::Author && grant.flags().contains(AclFlags::CREATE_FOLDER));
    v1::Database {
        path: record.path.clone(),
        replica_id: record.replica_id.to_text(),
        title: record.title.clone(),
        kind: kind_to_proto(record.kind).into(),
        owner: record.owner.canonical().to_owned(),
        created_us: record.created.0,
        rights: Some(v1::Rights {
            level: access_level(grant.level()).into(),
            create_documents: grant.may_create(),
            delete_documents: grant.level() >= AclLevel::Author && !grant.flags().contains(AclFlags::NO_DELETE),
            create_folders: may_make_folders,
        }),
        quota_bytes: record.options.quota_bytes.unwrap_or(0),
        ..v1::Database::default()
    }
}

fn kind_to_proto(kind: DatabaseKind) -> v1::DatabaseKind {
    match kind {
        DatabaseKind::Standard => v1::DatabaseKind::Standard,
        DatabaseKind::Mail => v1::DatabaseKind::Mail,
        DatabaseKind::MailBox => v1::DatabaseKind::MailBox,
        DatabaseKind::Directory => v1::DatabaseKind::Directory,
        DatabaseKind::Log => v1::DatabaseKind::Log,
        DatabaseKind::Sessions => v1::DatabaseKind::Sessions,
        DatabaseKind::Uploads => v1::DatabaseKind::Uploads,
    }
}
