//! `doublet db`: the databases of the server, whatever they hold.

use notes::{Access, Acl, AclEntry, AclKind, AclLevel, DatabaseKind, DatabaseRecord, NewDatabase, level};
use serde_json::{Value, json};
use store::{KeyRange, Table};

use super::answer::{moment, record};
use super::people::manager;
use super::request::DbRequest;
use super::{Answer, Failure, Outcome, Progress, Report, Unit, step};
use crate::core::Core;

pub(super) fn execute(core: &Core, request: DbRequest, report: &mut Report<'_>) -> Outcome {
    match request {
        DbRequest::List => list(core),
        DbRequest::Create { path, title } => create(core, &path, title.as_deref()),
        DbRequest::Show { path } => show(core, &path),
        DbRequest::Rename { path, to } => {
            core.notes.database_rename(&open(core, &path)?, &to)?;
            Ok(Answer::say(format!("{path} is now {to}.")))
        }
        DbRequest::Delete { path } => {
            core.notes.database_delete(&open(core, &path)?)?;
            Ok(Answer::say(format!("{path} was deleted.")))
        }
        DbRequest::Compact { path } => compact(core, path.as_deref(), report),
    }
}

fn list(core: &Core) -> Outcome {
    let records = core.notes.database_list()?;
    Ok(Answer::list(records.iter().map(row).collect()))
}

fn row(database: &DatabaseRecord) -> Value {
    record(vec![
        ("path", json!(database.path)),
        ("title", json!(database.title)),
        ("kind", json!(database.kind.name())),
        ("replica_id", json!(database.replica_id.to_text())),
        ("created_at", moment(Some(database.created))),
    ])
}

fn create(core: &Core, path: &str, title: Option<&str>) -> Outcome {
    let server = &core.directory.options().server;
    let mut acl = Acl::open_to_all(AclLevel::NoAccess);
    acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new(server.canonical(), AclLevel::Manager) });
    let new = NewDatabase::new(path, title.unwrap_or(path), DatabaseKind::Standard, acl);
    core.notes.database_create(&new)?;
    Ok(Answer::say(format!("{path} was made. Only this server has access to it so far.")))
}

fn show(core: &Core, path: &str) -> Outcome {
    let access = open(core, path)?;
    let database = access.database();
    let facts = database.record();
    let reader: Access<level::Reader> = access.lower();
    let reading = reader.read()?;
    let counters = reading.counters();
    let folders = reading.folders()?;
    Ok(Answer::record(vec![
        ("path", json!(facts.path)),
        ("title", json!(facts.title)),
        ("kind", json!(facts.kind.name())),
        ("replica_id", json!(facts.replica_id.to_text())),
        ("number", json!(facts.number.0)),
        ("owner", json!(facts.owner.to_string())),
        ("created_at", moment(Some(facts.created))),
        ("notes", json!(counters.notes)),
        ("folders", json!(folders.len())),
        ("deletion_stubs", json!(counters.stubs)),
        ("changes", json!(counters.modseq.0)),
        ("documents_bytes", json!(counters.bytes)),
        ("disk_bytes", json!(disk_bytes(core, &facts)?)),
        ("quota_bytes", json!(facts.options.quota_bytes)),
        ("purge_interval_days", json!(facts.options.purge_interval_days)),
    ]))
}

/// Estimates what a database takes on disk, attachments not counted.
fn disk_bytes(core: &Core, facts: &DatabaseRecord) -> Result<u64, Failure> {
    let mut sum: u64 = 0;
    for table in own_tables() {
        let size = core.store.engine().size(table, &KeyRange::prefix(&facts.number.to_key()))?;
        sum = sum.saturating_add(size);
    }
    Ok(sum)
}

fn compact(core: &Core, path: Option<&str>, report: &mut Report<'_>) -> Outcome {
    let records = match path {
        Some(path) => vec![open(core, path)?.database().record().as_ref().clone()],
        None => core.notes.database_list()?,
    };
    let total = records.len() as u64;
    for (done, facts) in records.iter().enumerate() {
        let progress =
            Progress { what: "compacting".to_owned(), done: done as u64, total: Some(total), unit: Unit::Databases };
        step(report, progress)?;
        for table in own_tables() {
            core.store.engine().compact(table, &KeyRange::prefix(&facts.number.to_key()))?;
        }
    }
    if path.is_none() {
        for table in [Table::Blob, Table::BlobRef, Table::BlobFree] {
            core.store.engine().compact(table, &KeyRange::all())?;
        }
    }
    Ok(Answer::say(format!("{total} databases were compacted.")))
}

/// The tables whose keys begin with the number of a database.
fn own_tables() -> impl Iterator<Item = Table> {
    let shared = [Table::Catalog, Table::Blob, Table::BlobRef, Table::BlobFree, Table::Store];
    Table::ALL.into_iter().filter(move |table| !shared.contains(table))
}

fn open(core: &Core, path: &str) -> Result<Access<level::Manager>, Failure> {
    match manager(core, path) {
        Err(Failure::Notes(notes::Error::NotFound { .. })) => Err(Failure::no_such("db", path)),
        other => other,
    }
}
