//! `doublet db replication`: what the replicas of a database exchange.

use base::Name;
use instance::Instance;
use notes::{Access, NotExchanged, ReplicaSettings, ReplicationPriority, ReplicationSettings, level};
use serde_json::{Value, json};

use super::answer::record;
use super::open::open;
use super::request::{
    DatabasePriority, NONE, ReplicationSettingsRequest, ReplicationSettingsUpdate, SettingsExclusion, SettingsOwner,
};
use super::servers::server_name;
use super::units::{DAY_SECONDS, parse_whole};
use super::{AdminError, AdminResult, Answer};

pub(super) fn execute(instance: &Instance, path: &str, request: &ReplicationSettingsRequest) -> AdminResult {
    match request {
        ReplicationSettingsRequest::List => list(instance, path),
        ReplicationSettingsRequest::Set(update) => set(instance, path, update),
        ReplicationSettingsRequest::Clear(owner) => clear(instance, path, owner),
    }
}

/// Converts a priority of the command line.
pub(super) fn to_priority(priority: DatabasePriority) -> ReplicationPriority {
    match priority {
        DatabasePriority::Low => ReplicationPriority::Low,
        DatabasePriority::Medium => ReplicationPriority::Medium,
        DatabasePriority::High => ReplicationPriority::High,
    }
}

fn list(instance: &Instance, path: &str) -> AdminResult {
    let reader: Access<level::Reader> = open(instance, path)?.downgrade();
    let all = reader.read()?.all_replication_settings()?;
    if all.is_empty() {
        return Ok(Answer::message(format!("The replicas of {path} have no settings, so they exchange everything.")));
    }
    Ok(Answer::list(all.iter().map(row).collect()))
}

fn row(replica: &ReplicaSettings) -> Value {
    let ReplicaSettings { server, other, settings } = replica;
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    record(vec![
        ("on", json!(server.abbreviated())),
        ("with", json!(other.as_ref().map_or_else(|| "*".to_owned(), Name::abbreviated))),
        ("disabled", json!(settings.is_disabled)),
        ("priority", json!(settings.priority.name())),
        ("formula", json!(given(&settings.formula))),
        ("folders", json!(settings.folders)),
        ("cut_off_days", json!(settings.cut_off_days)),
        ("without", json!(settings.without.names())),
    ])
}

/// The names of a replica's server and of the other server.
struct Owner {
    server: Name,
    other: Option<Name>,
}

impl Owner {
    fn new(instance: &Instance, owner: &SettingsOwner) -> Result<Self, AdminError> {
        let own = || instance.directory.options().server.clone();
        let server = owner.on.as_deref().map_or_else(own, |name| server_name(instance, name));
        let other = owner.other.as_deref().map(|name| server_name(instance, name));
        if other.as_ref() == Some(&server) {
            return Err(AdminError::Refused("a replica exchanges nothing with itself; name another server".to_owned()));
        }
        Ok(Self { server, other })
    }

    fn label(&self) -> String {
        let with = self.other.as_ref().map_or_else(|| "all servers".to_owned(), Name::abbreviated);
        format!("{} with {with}", self.server.abbreviated())
    }
}

fn set(instance: &Instance, path: &str, update: &ReplicationSettingsUpdate) -> AdminResult {
    let owner = Owner::new(instance, &update.owner)?;
    let access = open(instance, path)?;
    let reader: Access<level::Reader> = access.downgrade();
    let stored = reader.read()?.all_replication_settings()?;
    let is_same = |replica: &&ReplicaSettings| replica.server == owner.server && replica.other == owner.other;
    let before = stored.iter().find(is_same).map(|replica| replica.settings.clone()).unwrap_or_default();
    let settings = changed(before.clone(), update)?;
    if settings == before {
        return Err(AdminError::nothing_to_change("db replication PATH set"));
    }
    let label = owner.label();
    let replica = ReplicaSettings { server: owner.server, other: owner.other, settings };
    let depositor = access.downgrade();
    let accesses = [&depositor];
    let mut transaction = instance.databases.transaction(&accesses)?;
    transaction.writer(0).replication_settings_set(&replica)?;
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    let mut answer = Answer::message(format!("The settings of {path} on {label} were changed."));
    for name in [Some(&replica.server), replica.other.as_ref()].into_iter().flatten() {
        if *name != instance.directory.options().server && instance.directory.server(name)?.is_none() {
            answer = answer.with_message(format!(
                "The directory has no server {}; check the name (`doublet server list`).",
                name.abbreviated()
            ));
        }
    }
    Ok(answer)
}

/// Returns settings with the changes of an update.
fn changed(
    mut settings: ReplicationSettings,
    update: &ReplicationSettingsUpdate,
) -> Result<ReplicationSettings, AdminError> {
    if let Some(formula) = &update.formula {
        settings.formula = if formula == NONE { String::new() } else { formula.clone() };
    }
    if !update.folders.is_empty() {
        settings.folders = update.folders.iter().filter(|title| *title != NONE).cloned().collect();
    }
    if let Some(text) = &update.cut_off {
        settings.cut_off_days = match text.as_str() {
            NONE => None,
            text => Some(parse_whole(text, DAY_SECONDS, "days, at least one, such as 90d")?),
        };
    }
    if !update.without.is_empty() {
        settings.without = update.without.iter().fold(NotExchanged::default(), |all, what| all.union(to_flag(*what)));
    }
    settings.priority = update.priority.map_or(settings.priority, to_priority);
    settings.is_disabled = update.disable || (settings.is_disabled && !update.enable);
    Ok(settings)
}

fn to_flag(what: SettingsExclusion) -> NotExchanged {
    match what {
        SettingsExclusion::Design => NotExchanged::DESIGN,
        SettingsExclusion::Acl => NotExchanged::ACL,
        SettingsExclusion::DeletionsIn => NotExchanged::DELETIONS_IN,
        SettingsExclusion::DeletionsOut => NotExchanged::DELETIONS_OUT,
        SettingsExclusion::Attachments => NotExchanged::ATTACHMENTS,
        SettingsExclusion::None => NotExchanged::default(),
    }
}

fn clear(instance: &Instance, path: &str, owner: &SettingsOwner) -> AdminResult {
    let owner = Owner::new(instance, owner)?;
    let access = open(instance, path)?.downgrade();
    let accesses = [&access];
    let mut transaction = instance.databases.transaction(&accesses)?;
    if !transaction.writer(0).replication_settings_remove(&owner.server, owner.other.as_ref())? {
        return Err(AdminError::Refused(format!("{path} has no settings on {}", owner.label())));
    }
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    Ok(Answer::message(format!("The settings of {path} on {} were removed.", owner.label())))
}

#[cfg(test)]
mod tests {
    use sample::Sample;

    use super::*;

    const PATH: &str = "names.nsf";

    fn set(sample: &Sample, update: ReplicationSettingsUpdate) -> AdminResult {
        execute(&sample.instance, PATH, &ReplicationSettingsRequest::Set(update))
    }

    fn rows(sample: &Sample) -> Value {
        execute(&sample.instance, PATH, &ReplicationSettingsRequest::List).expect("they are listed").data
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn settings_are_changed_option_by_option_and_removed() {
        let sample = Sample::new();
        assert_eq!(rows(&sample), Value::Null);
        let other = SettingsOwner { on: None, other: text("hub.acme.test") };
        let selective = ReplicationSettingsUpdate {
            owner: other.clone(),
            formula: text("SELECT Form = \"Person\""),
            cut_off: text("90d"),
            without: vec![SettingsExclusion::Design, SettingsExclusion::DeletionsIn],
            ..ReplicationSettingsUpdate::default()
        };
        set(&sample, selective).expect("they are valid");
        let low = ReplicationSettingsUpdate {
            owner: other.clone(),
            priority: Some(DatabasePriority::Low),
            cut_off: text("none"),
            ..ReplicationSettingsUpdate::default()
        };
        set(&sample, low).expect("they are valid");
        let disable = ReplicationSettingsUpdate { disable: true, ..ReplicationSettingsUpdate::default() };
        set(&sample, disable.clone()).expect("they are valid");
        let rows_now = rows(&sample);
        let own = sample.instance.directory.options().server.abbreviated();
        let expected = json!({
            "on": own, "with": "hub.acme.test/Doublet", "disabled": false, "priority": "low",
            "formula": "SELECT Form = \"Person\"", "folders": [], "cut_off_days": null,
            "without": ["design", "deletions-in"],
        });
        assert_eq!(rows_now[0], expected);
        assert_eq!((&rows_now[1]["with"], &rows_now[1]["disabled"]), (&json!("*"), &json!(true)));
        assert!(set(&sample, disable).is_err(), "nothing changes");
        let cleared = || execute(&sample.instance, PATH, &ReplicationSettingsRequest::Clear(other.clone()));
        cleared().expect("they exist");
        assert!(cleared().is_err());
        assert_eq!(rows(&sample).as_array().map(Vec::len), Some(1));
        let again = ReplicationSettingsUpdate {
            owner: other,
            folders: vec!["INBOX".to_owned()],
            ..ReplicationSettingsUpdate::default()
        };
        set(&sample, again).expect("they are valid");
        assert_eq!(rows(&sample).as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn impossible_settings_are_refused() {
        let sample = Sample::new();
        let refused = |update: ReplicationSettingsUpdate, expected: &str| {
            let error = set(&sample, update).expect_err("it is not possible").to_string();
            assert!(error.contains(expected), "{error}");
        };
        let formula = |text: &str| ReplicationSettingsUpdate { formula: Some(text.to_owned()), ..Default::default() };
        refused(formula("SELECT Form = "), "the replication formula");
        refused(formula(&format!("SELECT \"{}\"", "x".repeat(9_000))), "bytes of a replication formula");
        let cut_off = |text: &str| ReplicationSettingsUpdate { cut_off: Some(text.to_owned()), ..Default::default() };
        refused(cut_off("90min"), "whole number of days");
        refused(cut_off("20000d"), "3,650");
        let own = sample.instance.directory.options().server.common().to_owned();
        let itself = SettingsOwner { on: None, other: Some(own) };
        refused(ReplicationSettingsUpdate { owner: itself, disable: true, ..Default::default() }, "itself");
    }
}
