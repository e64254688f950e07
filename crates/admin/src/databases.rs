//! `doublet db`: administration of all databases of the server, whatever their kind.

use base::limits::DATABASE_TITLE_BYTES_MAX;
use design::template::apply_to_new;
use design::template_catalog::TemplateCatalog;
use instance::Instance;
use notes::shared_settings::deletion_rule_name;
use notes::{
    Access, Acl, DatabaseKind, DatabaseRecord, DeletionRule, NewDatabase, OdsVersion, UnreadReplication, Upgrade, level,
};
use serde_json::{Value, json};
use store::{KeyRange, Table};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::people::parse_quota;
use super::request::{CompactRequest, DbRequest, DbUpdate, Deletions, OnOff, UnreadMarksReplication};
use super::units::{DAY_SECONDS, HOUR_SECONDS, parse_whole};
use super::{
    AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, acl, conflicts, format_count, full_text,
    replication_settings, report_step, soft_deletion,
};

pub(super) fn execute(instance: &Instance, request: DbRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    match request {
        DbRequest::Views { path } => super::views::list(instance, &path),
        DbRequest::List => list(instance),
        DbRequest::Create { path, title, template } => create(instance, &path, title.as_deref(), template.as_deref()),
        DbRequest::Import(request) => super::table::import(instance, &request, report),
        DbRequest::Export(request) => super::table::export(instance, &request, report),
        DbRequest::Open { path } | DbRequest::Show { path } => show(instance, &path),
        DbRequest::Set(change) => set(instance, &change),
        DbRequest::Acl { path, request } => acl::execute(instance, &path, &request),
        DbRequest::Replication { path, request } => replication_settings::execute(instance, &path, &request),
        DbRequest::Deleted { path, request } => soft_deletion::execute(instance, &path, &request),
        DbRequest::Conflicts { path, request } => conflicts::execute(instance, &path, &request, report),
        DbRequest::Copy(request) => super::copies::execute(instance, &request, report),
        DbRequest::Rename { path, to } => rename(instance, &path, &to),
        DbRequest::Delete { path, force } => delete(instance, &path, force),
        DbRequest::Index(request) => full_text::index(instance, &request, report),
        DbRequest::Search(request) => full_text::search(instance, &request),
        DbRequest::Compact(request) => compact(instance, &request, report),
    }
}

fn list(instance: &Instance) -> AdminResult {
    let records = instance.databases.database_list()?;
    Ok(Answer::list(records.iter().map(database_row).collect()))
}

fn database_row(database: &DatabaseRecord) -> Value {
    record(vec![
        ("path", json!(database.path)),
        ("title", json!(database.title)),
        ("kind", json!(database.kind.name())),
        ("replica_id", json!(database.replica_id.to_text())),
        ("structure", json!(database.ods.0)),
        ("created_at", timestamp_json(Some(database.created))),
    ])
}

fn create(instance: &Instance, path: &str, title: Option<&str>, template: Option<&str>) -> AdminResult {
    check_title(title.unwrap_or_default())?;
    let template =
        template.map(|name| TemplateCatalog::of_data_folder(&instance.data).find_or_error(name)).transpose()?;
    let title = title.or(template.as_ref().map(|template| template.title.as_str()));
    let new = NewDatabase::new(path, title.unwrap_or(path), DatabaseKind::Standard, server_only_acl(instance));
    let database = instance.directory.database_create(&new)?;
    if let Some(template) = template {
        apply_to_new(instance, &database, &template)?;
    }
    Ok(Answer::message(format!("{path} was created. So far, only this server has access to it."))
        .with_message(format!("`doublet db acl {path} set WHO --level LEVEL` gives access to others.")))
}

/// Returns the ACL of a new database: only this server and the others of its domain have access.
pub fn server_only_acl(instance: &Instance) -> Acl {
    Acl::of_server(&instance.directory.options().server).with_domain_servers()
}

fn set(instance: &Instance, change: &DbUpdate) -> AdminResult {
    if *change == (DbUpdate { path: change.path.clone(), ..DbUpdate::default() }) {
        return Err(AdminError::nothing_to_change("db set"));
    }
    let DbUpdate { path, title, purge_interval, unread_marks, view_updates, quota, keep_deleted, couchdb, .. } = change;
    let access = open(instance, path)?;
    let record = access.database().record();
    if let (Some(_), Some(person)) = (quota, instance.directory.mail_file_holder(path)?) {
        return Err(AdminError::Refused(format!(
            "{path} is the mailbox of {}; `doublet user set {} --quota SIZE` sets its quota",
            person.label(),
            address_or_name(&person)
        )));
    }
    if let Some(title) = title {
        check_title(title)?;
    }
    let mut options = record.options;
    if let Some(text) = purge_interval {
        options.purge_interval_days = parse_purge_interval_days(text)?;
    }
    if let Some(text) = quota {
        options.quota_bytes = parse_quota(text)?;
    }
    if let Some(text) = keep_deleted {
        if let Some(what) = essential_purpose(record.kind) {
            return Err(AdminError::Refused(format!("{path} is {what}: deleted documents cannot be kept there")));
        }
        options.keep_deleted_hours = parse_retention_hours(text)?;
    }
    options.no_unread_marks = unread_marks.map_or(options.no_unread_marks, |switch| switch == OnOff::Off);
    options.no_view_updates = view_updates.map_or(options.no_view_updates, |switch| switch == OnOff::Off);
    options.is_open_to_couchdb = couchdb.map_or(options.is_open_to_couchdb, |switch| switch == OnOff::On);
    if let Some(deletions) = change.deletions {
        options.deletions = Some(match deletions {
            Deletions::KeepEdits => DeletionRule::EditsCount,
            Deletions::Delete => DeletionRule::DeletionsCount,
        });
    }
    if options.is_open_to_couchdb && options.deletions == Some(DeletionRule::DeletionsCount) {
        return Err(AdminError::Refused(format!(
            "{path} cannot be open to CouchDB clients with the deletion rule delete; change one of them first: \
             `doublet db set {path} --couchdb off` or `doublet db set {path} --deletions keep-edits`"
        )));
    }
    options.unread_replication = change.unread_replication.map_or(options.unread_replication, unread_replication);
    instance.databases.database_options_set(&access, title.as_deref().unwrap_or(&record.title), options)?;
    Ok(Answer::message(format!("{path} was changed.")))
}

fn unread_replication(value: UnreadMarksReplication) -> UnreadReplication {
    match value {
        UnreadMarksReplication::Never => UnreadReplication::Never,
        UnreadMarksReplication::Cluster => UnreadReplication::Cluster,
        UnreadMarksReplication::Everywhere => UnreadReplication::Everywhere,
    }
}

fn rename(instance: &Instance, path: &str, to: &str) -> AdminResult {
    let access = open(instance, path)?;
    if let Some(what) = essential_purpose(access.database().record().kind) {
        return Err(AdminError::Refused(format!(
            "{path} is {what}: it cannot be renamed, because the server finds it by this path"
        )));
    }
    let answer = Answer::message(format!("{path} is now {to}."));
    Ok(match instance.directory.mail_file_rename(&access, to)? {
        Some(person) => answer.with_message(format!("It is still the mailbox of {}.", person.label())),
        None => answer,
    })
}

fn delete(instance: &Instance, path: &str, force: bool) -> AdminResult {
    let access = open(instance, path)?;
    if !force {
        if let Some(what) = essential_purpose(access.database().record().kind) {
            return Err(AdminError::Refused(format!(
                "{path} is {what}; with the server stopped, --force deletes it and everything in it, and the next \
                 start creates an empty one"
            )));
        }
        if let Some(person) = instance.directory.mail_file_holder(path)? {
            let login = address_or_name(&person);
            return Err(AdminError::Refused(format!(
                "{path} is the mailbox of {}; `doublet user remove {login} --delete-mail` removes the person and the \
                 mailbox, --force deletes only the mailbox",
                person.label()
            )));
        }
    }
    instance.databases.database_delete(&access)?;
    Ok(Answer::message(format!("{path} was deleted.")))
}

/// Returns the reason why a request must wait until no server runs, or `None` if it can be executed at once.
pub fn stop_reason(instance: &Instance, request: &DbRequest) -> Option<String> {
    let DbRequest::Delete { path, .. } = request else { return None };
    let kind = open(instance, path).ok()?.database().record().kind;
    let what = essential_purpose(kind)?;
    Some(format!("{path} is {what} and cannot be deleted while the server runs: stop it first"))
}

/// Describes the purpose of a database that the server cannot run without, or returns `None` for any other database.
fn essential_purpose(kind: DatabaseKind) -> Option<&'static str> {
    match kind {
        DatabaseKind::Directory => Some("the directory, with all people, groups and domains"),
        DatabaseKind::MailBox => Some("a part of the mail queue, with the messages waiting in it"),
        DatabaseKind::Uploads => Some("the uploads, with the attachments of messages that are being written"),
        DatabaseKind::Standard | DatabaseKind::Mail | DatabaseKind::Log | DatabaseKind::Sessions => None,
    }
}

fn address_or_name(person: &directory::Person) -> String {
    person.address().map_or_else(|| person.name.to_string(), ToString::to_string)
}

/// Checks the title of a database: at most [`DATABASE_TITLE_BYTES_MAX`] bytes, on one line.
pub fn check_title(title: &str) -> Result<(), AdminError> {
    if title.len() > DATABASE_TITLE_BYTES_MAX || title.chars().any(char::is_control) {
        return Err(AdminError::Refused(format!(
            "a title must have at most {DATABASE_TITLE_BYTES_MAX} bytes and no control characters"
        )));
    }
    Ok(())
}

/// Parses a retention time in whole hours; `none` gives `None`.
fn parse_retention_hours(text: &str) -> Result<Option<u16>, AdminError> {
    if text == "none" {
        return Ok(None);
    }
    parse_whole(text, HOUR_SECONDS, "hours, at least one, such as 48h or 7d").map(Some)
}

/// Parses a purge interval in whole days.
fn parse_purge_interval_days(text: &str) -> Result<u16, AdminError> {
    parse_whole(text, DAY_SECONDS, "days, at least one, such as 90d or 12w")
}

fn show(instance: &Instance, path: &str) -> AdminResult {
    let access = open(instance, path)?;
    let database = access.database();
    let facts = database.record();
    let reader: Access<level::Reader> = access.downgrade();
    let reading = reader.read()?;
    let counters = reading.counters();
    let folders = reading.folders()?;
    let mut fields = vec![
        ("path", json!(facts.path)),
        ("title", json!(facts.title)),
        ("kind", json!(facts.kind.name())),
        ("replica_id", json!(facts.replica_id.to_text())),
        ("number", json!(facts.number.0)),
        ("structure", json!(facts.ods.0)),
        ("structure_present", json!(OdsVersion::CURRENT.0)),
        ("owner", json!(facts.owner.to_string())),
        ("created_at", timestamp_json(Some(facts.created))),
        ("notes", json!(counters.notes)),
        ("folders", json!(folders.len())),
        ("deletion_stubs", json!(counters.stubs)),
        ("changes", json!(counters.modseq.0)),
        ("documents_bytes", json!(counters.bytes)),
        ("index_bytes", json!(counters.index_bytes)),
        ("personal_index_bytes", json!(counters.personal_index_bytes)),
        ("disk_bytes", json!(disk_bytes(instance, &facts)?)),
        ("quota_bytes", json!(facts.options.quota_bytes)),
        ("purge_interval_days", json!(facts.options.purge_interval_days)),
        ("unread_marks", json!(!facts.options.no_unread_marks)),
        ("unread_replication", json!(facts.options.unread_replication.name())),
        ("view_updates", json!(!facts.options.no_view_updates)),
        ("keep_deleted_hours", json!(facts.options.keep_deleted_hours)),
        ("couchdb", json!(facts.options.is_open_to_couchdb)),
        ("deletions", json!(deletion_rule_name(facts.deletion_rule()))),
    ];
    fields.extend(full_text::index_fields(instance, database)?);
    Ok(Answer::record(fields))
}

/// Estimates the size of a database on disk, without attachments.
fn disk_bytes(instance: &Instance, facts: &DatabaseRecord) -> Result<u64, AdminError> {
    let mut sum: u64 = 0;
    for table in database_tables() {
        let size = instance.store.engine().size(table, &KeyRange::prefix(&facts.number.to_key()))?;
        sum = sum.saturating_add(size);
    }
    Ok(sum)
}

/// Reclaims disk space of one database or of all. If the request asks for it, upgrades the databases to the present
/// structure first.
fn compact(instance: &Instance, request: &CompactRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let paths = match &request.path {
        Some(path) => vec![path.clone()],
        None => instance.databases.database_list()?.into_iter().map(|facts| facts.path).collect(),
    };
    let total = paths.len() as u64;
    if !request.dry_run {
        // Data in memory has no size on disk.
        instance.store.flush()?;
    }
    let mut found = Vec::with_capacity(paths.len());
    for (done, path) in (0..).zip(&paths) {
        report_step(
            report,
            Progress { step: "looking at".to_owned(), done, total: Some(total), unit: Unit::Databases },
        )?;
        let access = open(instance, path)?;
        let facts = access.database().record();
        let mut fields = vec![("path", json!(facts.path)), ("structure_before", json!(facts.ods.0))];
        if request.upgrade {
            fields.extend(upgrade(instance, &access, request.dry_run, report)?);
        }
        if !request.dry_run {
            fields.push(("before_bytes", json!(disk_bytes(instance, &facts)?)));
        }
        found.push((facts, fields));
    }
    if !request.dry_run {
        match (&request.path, found.as_slice()) {
            (Some(_), [(facts, _)]) => {
                compact_tables(instance, database_tables(), &KeyRange::prefix(&facts.number.to_key()), report)?;
            }
            // A file holds parts of many databases. Compacting one database after the other would rewrite each file
            // once for each of them.
            _ => compact_tables(instance, database_tables().chain(BLOB_TABLES), &KeyRange::all(), report)?,
        }
        for (facts, fields) in &mut found {
            fields.push(("after_bytes", json!(disk_bytes(instance, facts)?)));
        }
    }
    let was = if total == 1 { "was" } else { "were" };
    let outcome_text = if request.dry_run { "examined; nothing was changed" } else { "compacted" };
    let rows = found.into_iter().map(|(_, fields)| record(fields)).collect();
    Ok(Answer {
        messages: vec![format!("{} {was} {outcome_text}.", format_count(total, "database", "databases"))],
        ..Answer::list(rows)
    })
}

/// Upgrades a database to the present structure, or, in a dry run, reports how many notes that would rewrite.
fn upgrade(
    instance: &Instance,
    access: &Access<level::Manager>,
    dry_run: bool,
    report: &mut ProgressCallback<'_>,
) -> Result<Vec<(&'static str, Value)>, AdminError> {
    let path = access.database().path();
    let mut upgrade =
        if dry_run { Upgrade::plan(&instance.databases, access) } else { Upgrade::begin(&instance.databases, access) };
    let step = format!("{} {path}", if dry_run { "looking at" } else { "upgrading" });
    loop {
        let so_far = upgrade.step()?;
        if so_far.complete {
            let after = json!(so_far.to.0);
            let rewritten = json!(so_far.rewritten);
            return Ok(vec![("structure_after", after), ("notes_rewritten", rewritten)]);
        }
        report_step(report, Progress { step: step.clone(), done: so_far.notes, total: None, unit: Unit::Notes })?;
    }
}

/// Tables of attachments, which all databases share.
const BLOB_TABLES: [Table; 3] = [Table::Blob, Table::BlobRef, Table::BlobFree];

/// Makes the engine rewrite a key range of some tables without the deleted data.
fn compact_tables(
    instance: &Instance,
    tables: impl Iterator<Item = Table>,
    range: &KeyRange,
    report: &mut ProgressCallback<'_>,
) -> Result<(), AdminError> {
    let tables: Vec<Table> = tables.collect();
    let total = Some(tables.len() as u64);
    for (done, table) in (0..).zip(tables) {
        let step = format!("compacting {}", table.name());
        report_step(report, Progress { step, done, total, unit: Unit::Tables })?;
        instance.store.engine().compact(table, range)?;
    }
    Ok(())
}

/// Returns the tables whose keys begin with a database number.
fn database_tables() -> impl Iterator<Item = Table> {
    let shared = [Table::Catalog, Table::Store];
    Table::ALL.into_iter().filter(move |table| !shared.contains(table) && !BLOB_TABLES.contains(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::tests::ExecuteRequest;
    use sample::Sample;

    fn db(sample: &Sample, request: DbRequest) -> Result<Answer, AdminError> {
        sample.execute(Request::Db(request))
    }

    fn check_refused(sample: &Sample, request: DbRequest, expected: &str) {
        let refused = db(sample, request).expect_err(expected).to_string();
        assert!(refused.contains(expected), "{refused}");
    }

    fn delete(path: &str, force: bool) -> DbRequest {
        DbRequest::Delete { path: path.to_owned(), force }
    }

    fn rename(path: &str, to: &str) -> DbRequest {
        DbRequest::Rename { path: path.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn renaming_a_mail_file_updates_its_owner() {
        let sample = Sample::new();
        db(&sample, rename("mail/ann.nsf", "mail/moved.nsf")).expect("it is free");
        let ann = super::super::people::find(&sample.instance, "ann").expect("the user exists");
        assert_eq!(ann.mail_file, "mail/moved.nsf");
        check_refused(&sample, rename("mail/moved.nsf", "mail/bob.nsf"), "mail/bob.nsf");
        check_refused(&sample, rename("names.nsf", "people.nsf"), "the directory");
        check_refused(&sample, rename("mail.box", "queue.box"), "the mail queue");
    }

    #[test]
    fn path_of_an_uncreated_mail_file_is_reserved() {
        let sample = Sample::new();
        sample.instance.directory.user_add(&directory::NewUser::new("zoe@acme.test")).expect("it is free");
        let create = |path: &str| DbRequest::Create { path: path.to_owned(), title: None, template: None };
        check_refused(&sample, create("mail/zoe.nsf"), "already taken by user zoe@acme.test");
        db(&sample, create("x.nsf")).expect("it is free");
        check_refused(&sample, rename("x.nsf", "mail/zoe.nsf"), "already taken by user zoe@acme.test");
        check_refused(&sample, rename("mail/ann.nsf", "mail/zoe.nsf"), "already taken by user zoe@acme.test");
    }

    #[test]
    fn delete_requires_force_for_mail_files_and_system_databases() {
        let sample = Sample::new();
        check_refused(&sample, delete("mail/ann.nsf", false), "user remove ann@acme.test --delete-mail");
        check_refused(&sample, delete("names.nsf", false), "--force");
        check_refused(&sample, delete("mail.box", false), "--force");
        for path in ["names.nsf", "mail.box", "Mail.Box"] {
            let reason = stop_reason(&sample.instance, &delete(path, true)).expect("a running server needs it");
            assert!(reason.contains("stop it first"), "{reason}");
        }
        assert_eq!(stop_reason(&sample.instance, &delete("mail/ann.nsf", true)), None);
        db(&sample, delete("mail/ann.nsf", true)).expect("--force is given");
        db(&sample, DbRequest::Create { path: "x.nsf".to_owned(), title: None, template: None }).expect("it is free");
        db(&sample, delete("x.nsf", false)).expect("nobody needs it");
    }

    /// Creates a database whose record has a different structure from that of the program.
    fn sample_with_structure(path: &str, structure: OdsVersion) -> Sample {
        let sample = Sample::new();
        db(&sample, DbRequest::Create { path: path.to_owned(), title: None, template: None }).expect("it is free");
        let record =
            sample.instance.databases.database_open(path).expect("the database exists").record().as_ref().clone();
        sample.instance.databases.close_idle();
        let mut batch = store::Batch::new();
        let key = format!("p{path}");
        batch.put(Table::Catalog, key.as_bytes(), &DatabaseRecord { ods: structure, ..record }.encode());
        sample.instance.store.commit(&batch).expect("it is written");
        sample
    }

    fn compact(path: &str, upgrade: bool, dry_run: bool) -> DbRequest {
        DbRequest::Compact(CompactRequest { path: Some(path.to_owned()), upgrade, dry_run })
    }

    #[test]
    fn compact_upgrades_an_older_structure_on_request() {
        let sample = sample_with_structure("x.nsf", OdsVersion::OLDEST);
        let structure =
            || db(&sample, DbRequest::Show { path: "x.nsf".to_owned() }).expect("there").data["structure"].clone();
        assert_eq!(structure(), json!(1));
        let compacted = db(&sample, compact("x.nsf", false, false)).expect("it works").data;
        assert_eq!((&compacted[0]["structure_before"], structure()), (&json!(1), json!(1)));
        let planned = db(&sample, compact("x.nsf", true, true)).expect("it works");
        let after =
            |answer: &Answer| (answer.data[0]["structure_after"].clone(), answer.data[0]["notes_rewritten"].clone());
        assert_eq!((after(&planned), structure()), ((json!(OdsVersion::CURRENT.0), json!(0)), json!(1)));
        assert!(planned.data[0].get("before_bytes").is_none(), "nothing was compacted");
        let done = db(&sample, compact("x.nsf", true, false)).expect("it works");
        let current = json!(OdsVersion::CURRENT.0);
        assert_eq!((after(&done), structure()), ((current.clone(), json!(0)), current));
    }

    #[test]
    fn database_with_a_newer_structure_is_listed_but_not_changed() {
        let sample = sample_with_structure("x.nsf", OdsVersion(OdsVersion::CURRENT.0 + 1));
        let listed = db(&sample, DbRequest::List).expect("all are listed").data;
        let row = listed.as_array().and_then(|rows| rows.iter().find(|row| row["path"] == "x.nsf")).expect("it, too");
        assert_eq!(row["structure"], json!(4));
        let expected = "has structure 4, this program knows structures up to 3";
        check_refused(&sample, compact("x.nsf", true, false), expected);
        check_refused(&sample, delete("x.nsf", true), expected);
        check_refused(&sample, rename("x.nsf", "y.nsf"), expected);
    }

    #[test]
    fn title_and_options_are_changed() {
        let sample = Sample::new();
        db(&sample, DbRequest::Create { path: "x.nsf".to_owned(), title: None, template: None }).expect("it is free");
        let change = |change: DbUpdate| DbRequest::Set(DbUpdate { path: "x.nsf".to_owned(), ..change });
        let all = DbUpdate {
            title: Some("Plans".to_owned()),
            purge_interval: Some("12w".to_owned()),
            unread_marks: Some(OnOff::Off),
            unread_replication: Some(UnreadMarksReplication::Everywhere),
            quota: Some("2MiB".to_owned()),
            keep_deleted: Some("2d".to_owned()),
            ..DbUpdate::default()
        };
        db(&sample, change(all)).expect("it makes sense");
        let shown = db(&sample, DbRequest::Show { path: "x.nsf".to_owned() }).expect("the database exists").data;
        let fields = ["title", "purge_interval_days", "unread_marks", "quota_bytes", "keep_deleted_hours"];
        let fields = fields.map(|name| shown[name].clone());
        assert_eq!(fields, [json!("Plans"), json!(84), json!(false), json!(2 << 20), json!(48)]);
        let deletions = |deletions| change(DbUpdate { deletions: Some(deletions), ..DbUpdate::default() });
        let rule =
            || db(&sample, DbRequest::Show { path: "x.nsf".to_owned() }).expect("it exists").data["deletions"].clone();
        assert_eq!(rule(), json!("keep-edits"));
        db(&sample, deletions(Deletions::Delete)).expect("it makes sense");
        assert_eq!(rule(), json!("delete"));
        let couchdb = |switch| change(DbUpdate { couchdb: Some(switch), ..DbUpdate::default() });
        check_refused(&sample, couchdb(OnOff::On), "`doublet db set x.nsf --deletions keep-edits`");
        db(&sample, deletions(Deletions::KeepEdits)).expect("it makes sense");
        db(&sample, couchdb(OnOff::On)).expect("the rule permits it");
        check_refused(&sample, deletions(Deletions::Delete), "`doublet db set x.nsf --couchdb off`");
        assert_eq!(shown["unread_replication"], json!("everywhere"));
        for text in ["0h", "30m", "90m", "9000000h", "soon"] {
            let kept = DbUpdate { keep_deleted: Some(text.to_owned()), ..DbUpdate::default() };
            assert!(db(&sample, change(kept)).is_err(), "{text}");
        }
        let queue =
            DbUpdate { path: "mail.box".to_owned(), keep_deleted: Some("2d".to_owned()), ..DbUpdate::default() };
        check_refused(&sample, DbRequest::Set(queue), "deleted documents cannot be kept there");
        check_refused(&sample, change(DbUpdate::default()), "nothing to change; `doublet db set --help`");
        for text in ["0", "1h", "36h", "soon", "200000d"] {
            let interval = DbUpdate { purge_interval: Some(text.to_owned()), ..DbUpdate::default() };
            assert!(db(&sample, change(interval)).is_err(), "{text}");
        }
        check_refused(&sample, change(DbUpdate { title: Some("a\nb".to_owned()), ..DbUpdate::default() }), "a title");
        let quota = DbUpdate { path: "mail/ann.nsf".to_owned(), quota: Some("1MiB".to_owned()), ..DbUpdate::default() };
        check_refused(&sample, DbRequest::Set(quota), "user set ann@acme.test --quota");
    }
}
