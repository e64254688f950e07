//! `doublet db acl`: the access control list of a database.
//!
//! Entries hold names as they are in the directory: an address is looked up, and the name of its holder is written. A
//! name that the directory does not know is accepted with a warning, because it may belong to another server. This
//! server itself always has full access to its own databases, so the administrator cannot be locked out.

use instance::Instance;
use notes::acl::DEFAULT_ENTRY;
use notes::{Access, Acl, AclDifference, AclEntry, AclFlags, AclKind, AclLevel, level};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::request::{AccessFlag, AccessKind, AccessLevel, AclEntryUpdate, AclRequest, AclSettings, OnOff};
use super::{AdminError, AdminResult, Answer};

const FLAGS: [(AccessFlag, AclFlags, &str); 7] = [
    (AccessFlag::NoCreate, AclFlags::AUTHOR_NO_CREATE, "no-create"),
    (AccessFlag::NoDelete, AclFlags::NO_DELETE, "no-delete"),
    (AccessFlag::CreateFolders, AclFlags::CREATE_FOLDER, "create-folders"),
    (AccessFlag::CreatePersonalFolders, AclFlags::CREATE_PERSONAL_FOLDER, "create-personal-folders"),
    (AccessFlag::CreatePersonalAgents, AclFlags::CREATE_PERSONAL_AGENT, "create-personal-agents"),
    (AccessFlag::ReadPublic, AclFlags::PUBLIC_READER, "read-public"),
    (AccessFlag::WritePublic, AclFlags::PUBLIC_WRITER, "write-public"),
];

pub(super) fn execute(instance: &Instance, path: &str, request: &AclRequest) -> AdminResult {
    match request {
        AclRequest::List => {
            let reader: Access<level::Reader> = open(instance, path)?.downgrade();
            let acl = reader.read()?.acl();
            Ok(Answer::list(acl.entries.iter().map(entry_record).collect()))
        }
        AclRequest::Set(change) => set(instance, path, change),
        AclRequest::Settings(settings) => set_settings(instance, path, settings),
        AclRequest::History { last } => history(instance, path, *last),
        AclRequest::Remove { name } => remove(instance, path, name),
    }
}

fn entry_record(entry: &AclEntry) -> Value {
    record(vec![
        ("name", json!(entry.name.to_string())),
        ("level", json!(level_name(entry.level))),
        ("kind", json!(kind_name(entry.kind))),
        ("flags", json!(flag_names(entry.flags))),
        ("roles", json!(entry.roles)),
    ])
}

fn level_name(level: AclLevel) -> String {
    level.to_string().to_lowercase().replace(' ', "-")
}

fn flag_names(flags: AclFlags) -> Vec<&'static str> {
    FLAGS.iter().filter(|(_, flag, _)| flags.contains(*flag)).map(|(_, _, name)| *name).collect()
}

fn history(instance: &Instance, path: &str, last: u32) -> AdminResult {
    let reader: Access<level::Reader> = open(instance, path)?.downgrade();
    let changes = reader.read()?.acl_history(last as usize)?;
    let row = |change: &notes::AclHistoryEntry| {
        let mut changes: Vec<String> = change.differences.iter().map(describe).collect();
        if change.omitted_count > 0 {
            changes.push(format!("and {} more", change.omitted_count));
        }
        record(vec![
            ("at", timestamp_json(Some(change.at))),
            ("by", json!(if change.is_repair { "a repair" } else { change.by.as_str() })),
            ("change", json!(change.modseq.0)),
            ("what", json!(changes)),
        ])
    };
    Ok(Answer::list(changes.iter().map(row).collect()))
}

/// Describes a difference in the words of the command line.
fn describe(difference: &AclDifference) -> String {
    let entry = |entry: &AclEntry| {
        let words =
            std::iter::once(level_name(entry.level)).chain(flag_names(entry.flags).into_iter().map(str::to_owned));
        let kind = (entry.kind != AclKind::Unspecified).then(|| kind_name(entry.kind).to_owned());
        words.chain(entry.roles.iter().cloned()).chain(kind).collect::<Vec<_>>().join(" ")
    };
    match difference {
        AclDifference::Added(added) => format!("{} added: {}", added.name, entry(added)),
        AclDifference::Removed(removed) => format!("{} removed, was: {}", removed.name, entry(removed)),
        AclDifference::Changed { before, after } => {
            format!("{}: {} instead of {}", after.name, entry(after), entry(before))
        }
        AclDifference::InternetMax { before, after } => {
            format!("max-internet-access {} instead of {}", level_name(*after), level_name(*before))
        }
        AclDifference::Uniform(_) | AclDifference::RoleAdded(_) | AclDifference::RoleRemoved(_) => {
            difference.to_string()
        }
    }
}

fn set_settings(instance: &Instance, path: &str, settings: &AclSettings) -> AdminResult {
    let AclSettings { max_internet_access, enforce, add_role, remove_role } = settings;
    let is_question =
        max_internet_access.is_none() && enforce.is_none() && add_role.is_empty() && remove_role.is_empty();
    if is_question {
        let reader: Access<level::Reader> = open(instance, path)?.downgrade();
        let acl = reader.read()?.acl();
        return Ok(Answer::record(vec![
            ("max_internet_access", json!(level_name(acl.max_internet_access))),
            ("enforced", json!(acl.enforce_consistent)),
            ("roles", json!(acl.roles)),
            ("entries", json!(acl.entries.len())),
        ]));
    }
    let added = parse_roles(add_role)?;
    let removed = parse_roles(remove_role)?;
    change_acl(instance, path, |acl| {
        acl.max_internet_access = max_internet_access.map_or(acl.max_internet_access, to_acl_level);
        acl.enforce_consistent = enforce.map_or(acl.enforce_consistent, |switch| switch == OnOff::On);
        if let Some(unknown) = removed.iter().find(|role| !acl.roles.contains(*role)) {
            return Err(AdminError::Refused(format!("there is no role {unknown} in {path}")));
        }
        acl.roles.extend(added.iter().cloned());
        acl.roles.retain(|role| !removed.contains(role));
        for entry in &mut acl.entries {
            entry.roles.retain(|role| !removed.contains(role));
        }
        Ok(())
    })?;
    Ok(Answer::message(format!("The access control list of {path} was changed.")))
}

fn set(instance: &Instance, path: &str, change: &AclEntryUpdate) -> AdminResult {
    if change.level.is_none() && change.kind.is_none() && change.flags.is_empty() && change.roles.is_empty() {
        return Err(AdminError::nothing_to_change("db acl PATH set"));
    }
    let subject = EntryTarget::find(instance, &change.name)?;
    let roles = parse_roles(&change.roles)?;
    let (entry, new, most) = change_acl(instance, path, |acl| {
        let at = acl.entries.iter().position(|entry| entry.name == subject.entry.name);
        let mut entry = at.map_or_else(|| subject.entry.clone(), |at| acl.entries[at].clone());
        entry.level = change.level.map_or(entry.level, to_acl_level);
        entry.kind = change.kind.map_or(entry.kind, to_acl_kind);
        if !change.flags.is_empty() {
            entry.flags = to_acl_flags(&change.flags);
        }
        let new: Vec<String> = roles.difference(&acl.roles).cloned().collect();
        if !change.roles.is_empty() {
            entry.roles = roles.clone();
            acl.roles.extend(new.iter().cloned());
        }
        match at {
            Some(at) => acl.entries[at] = entry.clone(),
            None => acl.entries.push(entry.clone()),
        }
        Ok((entry, new, acl.max_internet_access))
    })?;
    let mut answer = Answer::message(format!("{} now has the access level {} in {path}.", entry.name, entry.level));
    if !new.is_empty() {
        answer = answer.with_message(format!("Roles added to the list: {}.", new.join(", ")));
    }
    let is_of_servers = matches!(entry.kind, AclKind::Server | AclKind::ServerGroup);
    if entry.level > most && !is_of_servers {
        let next = format!(
            "`doublet db acl {path} settings --max-internet-access {}` raises this limit",
            level_name(entry.level)
        );
        answer = answer.with_message(format!(
            "Users who log in with a password have at most the access level {most} here; {next}."
        ));
    }
    let idle = entry.flags.difference(AclFlags::meaningful_at(entry.level));
    if !change.flags.is_empty() && idle != AclFlags::NONE {
        let names = flag_names(idle).join(", ");
        answer = answer
            .with_message(format!("At the access level {}, these flags make no difference: {names}.", entry.level));
    }
    Ok(match subject.is_known {
        true => answer,
        false => answer.with_message(format!("The directory does not contain the name {}.", entry.name)),
    })
}

fn remove(instance: &Instance, path: &str, name: &str) -> AdminResult {
    let subject = EntryTarget::find(instance, name)?;
    if subject.entry.name == base::Name::new(DEFAULT_ENTRY) {
        return Err(AdminError::Refused(format!(
            "{DEFAULT_ENTRY} applies to everybody without another entry and cannot be removed; \
             `doublet db acl {path} set -Default- --level no-access` denies them access"
        )));
    }
    change_acl(instance, path, |acl| {
        let before = acl.entries.len();
        acl.entries.retain(|entry| entry.name != subject.entry.name);
        if acl.entries.len() == before {
            return Err(AdminError::Refused(format!(
                "there is no entry {} in {path}; `doublet db acl {path} list` shows all",
                subject.entry.name
            )));
        }
        Ok(())
    })?;
    Ok(Answer::message(format!("The entry {} was removed from {path}.", subject.entry.name)))
}

/// Changes the list within a transaction, so that no other change comes in between.
pub(super) fn change_acl<T>(
    instance: &Instance,
    path: &str,
    change: impl FnOnce(&mut Acl) -> Result<T, AdminError>,
) -> Result<T, AdminError> {
    let access = open(instance, path)?;
    let reader: Access<level::Reader> = access.downgrade();
    let writer: Access<level::Depositor> = access.downgrade();
    let accesses = [&writer];
    let mut transaction = instance.databases.transaction(&accesses)?;
    let mut acl = reader.read()?.acl().as_ref().clone();
    let outcome = change(&mut acl)?;
    let before = reader.read()?.acl();
    transaction.writer(0).acl_set(acl.clone())?;
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    log_changes(&access, &before, &acl);
    Ok(outcome)
}

/// Writes the differences to the log, in the words of the ACL history.
fn log_changes(access: &Access<level::Manager>, before: &Acl, after: &Acl) {
    let path = access.database().path();
    let by = access.identity().name.abbreviated();
    let change =
        notes::AclHistoryEntry::between(before, after, &by, base::Timestamp::default(), base::Modseq::default());
    for difference in &change.differences {
        tracing::info!(target: "access", database = %path, by, "changed an access control list: {}", describe(difference));
    }
}

/// The user, group or server that an entry is about.
struct EntryTarget {
    /// The entry to add if the list has none for this name yet.
    entry: AclEntry,
    /// Set if the directory knows the name, or if the name needs no lookup: `-Default-`, `Anonymous`, a pattern that
    /// starts with `*`, or this server.
    is_known: bool,
}

impl EntryTarget {
    fn find(instance: &Instance, written_name: &str) -> Result<Self, AdminError> {
        let entry = |name: &str, kind| AclEntry { kind, ..AclEntry::new(name, AclLevel::Reader) };
        let special = if written_name.eq_ignore_ascii_case("default") { DEFAULT_ENTRY } else { written_name };
        if written_name.starts_with('*')
            || [DEFAULT_ENTRY, "Anonymous"].iter().any(|name| name.eq_ignore_ascii_case(special))
        {
            return Ok(Self { entry: entry(special, AclKind::Unspecified), is_known: true });
        }
        if let Some(person) = instance.directory.person(written_name)? {
            return Ok(Self { entry: entry(person.name.canonical(), AclKind::Person), is_known: true });
        }
        if let Some(group) = instance.directory.group(written_name)? {
            return Ok(Self { entry: entry(group.name.canonical(), AclKind::MixedGroup), is_known: true });
        }
        if written_name.contains('@') {
            return Err(AdminError::Refused(format!("no user or group has the address {written_name}")));
        }
        let is_this_server = base::Name::new(written_name) == instance.directory.options().server;
        let kind = if is_this_server { AclKind::Server } else { AclKind::Unspecified };
        Ok(Self { entry: entry(written_name, kind), is_known: is_this_server })
    }
}

/// Returns role names in their written form, with brackets.
fn parse_roles(names: &[String]) -> Result<std::collections::BTreeSet<String>, AdminError> {
    let given = names.iter().map(|name| name.trim().trim_start_matches('[').trim_end_matches(']'));
    given
        .filter(|name| *name != "none")
        .map(|name| {
            let role = format!("[{name}]");
            notes::acl::check_role(&role).map(|()| role).map_err(AdminError::from)
        })
        .collect()
}

fn to_acl_level(level: AccessLevel) -> AclLevel {
    match level {
        AccessLevel::NoAccess => AclLevel::NoAccess,
        AccessLevel::Depositor => AclLevel::Depositor,
        AccessLevel::Reader => AclLevel::Reader,
        AccessLevel::Author => AclLevel::Author,
        AccessLevel::Editor => AclLevel::Editor,
        AccessLevel::Designer => AclLevel::Designer,
        AccessLevel::Manager => AclLevel::Manager,
    }
}

fn to_acl_kind(kind: AccessKind) -> AclKind {
    match kind {
        AccessKind::Unspecified => AclKind::Unspecified,
        AccessKind::Person => AclKind::Person,
        AccessKind::Server => AclKind::Server,
        AccessKind::MixedGroup => AclKind::MixedGroup,
        AccessKind::PersonGroup => AclKind::PersonGroup,
        AccessKind::ServerGroup => AclKind::ServerGroup,
    }
}

fn kind_name(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Unspecified => "unspecified",
        AclKind::Person => "person",
        AclKind::Server => "server",
        AclKind::MixedGroup => "mixed-group",
        AclKind::PersonGroup => "person-group",
        AclKind::ServerGroup => "server-group",
    }
}

fn to_acl_flags(wanted: &[AccessFlag]) -> AclFlags {
    let chosen = FLAGS.iter().filter(|(flag, _, _)| wanted.contains(flag));
    chosen.fold(AclFlags::NONE, |all, (_, flag, _)| all.union(*flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;
    use crate::request::DbRequest;
    use crate::tests::ExecuteRequest;
    use sample::Sample;

    const PATH: &str = "plans.nsf";

    fn acl(sample: &Sample, request: AclRequest) -> Result<Answer, AdminError> {
        sample.execute(Request::Db(DbRequest::Acl { path: PATH.to_owned(), request }))
    }

    fn change(name: &str) -> AclEntryUpdate {
        AclEntryUpdate { name: name.to_owned(), level: None, kind: None, flags: Vec::new(), roles: Vec::new() }
    }

    fn level_in(sample: &Sample, login: &str) -> AclLevel {
        let person =
            sample.instance.directory.person(login).expect("the directory can be read").expect("the user exists");
        let identity = sample.instance.directory.identity(&person).expect("the directory can be read");
        let reader: Access<level::Reader> = open(&sample.instance, PATH).expect("the database exists").downgrade();
        reader.read().expect("the database can be read").acl().evaluate(&identity).level
    }

    fn with_database() -> Sample {
        let sample = Sample::new();
        let create = DbRequest::Create { path: PATH.to_owned(), title: None, template: None };
        sample.execute(Request::Db(create)).expect("it is new");
        sample
    }

    #[test]
    fn set_reports_added_roles_and_access_level_cap() {
        let sample = with_database();
        let settings = AclSettings { max_internet_access: Some(AccessLevel::Editor), ..AclSettings::default() };
        acl(&sample, AclRequest::Settings(settings)).expect("they can be set");
        let ann =
            |level, role: &str| AclEntryUpdate { level: Some(level), roles: vec![role.to_owned()], ..change("ann") };
        let lines =
            acl(&sample, AclRequest::Set(ann(AccessLevel::Manager, "Planner"))).expect("it can be set").messages;
        assert!(lines.contains(&"Roles added to the list: [Planner].".to_owned()), "{lines:?}");
        let hint = lines.iter().find(|line| line.contains("--max-internet-access manager"));
        assert!(hint.is_some_and(|hint| hint.contains("have at most the access level Editor here")), "{lines:?}");
        let lines = acl(&sample, AclRequest::Set(ann(AccessLevel::Editor, "Planner"))).expect("it can be set").messages;
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    #[test]
    fn entries_determine_access_levels() {
        let sample = with_database();
        assert_eq!(level_in(&sample, "ann"), AclLevel::NoAccess);
        let default = AclEntryUpdate { level: Some(AccessLevel::Reader), ..change("default") };
        acl(&sample, AclRequest::Set(default)).expect("it can be set");
        let team = AclEntryUpdate { level: Some(AccessLevel::Author), ..change("team@acme.test") };
        acl(&sample, AclRequest::Set(team)).expect("it can be set");
        let ann = AclEntryUpdate {
            level: Some(AccessLevel::Editor),
            flags: vec![AccessFlag::NoDelete, AccessFlag::CreateFolders],
            roles: vec!["Planner".to_owned()],
            ..change("ann@acme.test")
        };
        acl(&sample, AclRequest::Set(ann)).expect("it can be set");
        let levels = ["ann", "bob", "eve"].map(|login| level_in(&sample, login));
        assert_eq!(levels, [AclLevel::Editor, AclLevel::Author, AclLevel::Reader]);
        let clear = AclEntryUpdate { flags: vec![AccessFlag::None], ..change("ann") };
        acl(&sample, AclRequest::Set(clear)).expect("it can be set");
        let listed = acl(&sample, AclRequest::List).expect("the database exists").data;
        let ann = listed.as_array().and_then(|rows| rows.iter().find(|row| row["name"] == "ann/acme.test")).cloned();
        let ann = ann.expect("she has an entry");
        assert_eq!((&ann["level"], &ann["kind"], &ann["flags"]), (&json!("editor"), &json!("person"), &json!([])));
        assert_eq!(ann["roles"], json!(["[Planner]"]));
        acl(&sample, AclRequest::Remove { name: "ann".to_owned() }).expect("she has an entry");
        assert_eq!(level_in(&sample, "ann"), AclLevel::Author);
    }

    #[test]
    fn settings_are_changed_and_history_records_each_change() {
        let sample = with_database();
        let planner =
            AclEntryUpdate { roles: vec!["Planner".to_owned()], level: Some(AccessLevel::Manager), ..change("ann") };
        acl(&sample, AclRequest::Set(planner)).expect("it can be set");
        assert_eq!(level_in(&sample, "ann"), AclLevel::Editor, "she has a password and no key");
        let settings = AclSettings {
            max_internet_access: Some(AccessLevel::Reader),
            enforce: Some(OnOff::On),
            add_role: vec!["Boss".to_owned()],
            remove_role: vec!["[Planner]".to_owned()],
        };
        acl(&sample, AclRequest::Settings(settings)).expect("it can be set");
        assert_eq!(level_in(&sample, "ann"), AclLevel::Reader);
        let shown = acl(&sample, AclRequest::Settings(AclSettings::default())).expect("the database exists").data;
        let fields = ["max_internet_access", "enforced", "roles"].map(|name| shown[name].clone());
        assert_eq!(fields, [json!("reader"), json!(true), json!(["[Boss]"])]);
        let idle = AclEntryUpdate { flags: vec![AccessFlag::NoCreate], ..change("ann") };
        let answer = acl(&sample, AclRequest::Set(idle)).expect("it can be set");
        assert!(answer.messages.iter().any(|text| text.contains("no difference: no-create")), "{answer:?}");
        let history = acl(&sample, AclRequest::History { last: 2 }).expect("the database exists").data;
        assert_eq!(history[0]["what"], json!(["ann/acme.test: manager no-create person instead of manager person"]));
        let expected = json!([
            "max-internet-access reader instead of editor",
            "consistent ACL enforced",
            "role [Boss] added",
            "role [Planner] removed",
            "ann/acme.test: manager person instead of manager [Planner] person",
        ]);
        assert_eq!((&history[1]["what"], history.as_array().map(Vec::len)), (&expected, Some(2)));
    }

    #[test]
    fn invalid_changes_are_refused_with_a_hint() {
        let sample = with_database();
        let check = |request: AclRequest, expected: &str| {
            let refused = acl(&sample, request).expect_err(expected).to_string();
            assert!(refused.contains(expected), "{refused}");
        };
        check(AclRequest::Set(change("ann")), "nothing to change; `doublet db acl PATH set --help`");
        let level = Some(AccessLevel::Reader);
        check(
            AclRequest::Set(AclEntryUpdate { level, ..change("nobody@acme.test") }),
            "no user or group has the address nobody@acme.test",
        );
        let roles = vec!["x".repeat(20)];
        check(AclRequest::Set(AclEntryUpdate { roles, ..change("ann") }), "a role must be enclosed in brackets");
        check(
            AclRequest::Set(AclEntryUpdate { level, ..change("*Acme") }),
            "a wildcard must be * alone, or * followed by /",
        );
        let remove = AclSettings { remove_role: vec!["Nobody".to_owned()], ..AclSettings::default() };
        check(AclRequest::Settings(remove), "there is no role [Nobody]");
        check(AclRequest::Remove { name: "ann".to_owned() }, "acl plans.nsf list");
        check(AclRequest::Remove { name: "-Default-".to_owned() }, "--level no-access");
        let elsewhere = AclEntryUpdate { level, ..change("Zoe/Elsewhere") };
        let answer = acl(&sample, AclRequest::Set(elsewhere)).expect("it may be of another server");
        assert!(
            answer.messages.iter().any(|text| text.contains("The directory does not contain the name")),
            "{answer:?}"
        );
    }
}
