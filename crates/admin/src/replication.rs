//! `doublet replication`: what this server has received from others, by database.

use base::{Name, Timestamp};
use instance::Instance;
use notes::instance::ReplicationHistory;
use notes::{Access, level};
use serde_json::{Value, json};

use super::answer::record;
use super::open::open;
use super::replication_log;
use super::request::ReplicationRequest;
use super::servers::server_name;
use super::{AdminError, AdminResult, Answer};

pub(super) fn execute(instance: &Instance, request: ReplicationRequest) -> AdminResult {
    match request {
        ReplicationRequest::History { database } => history(instance, database.as_deref()),
        ReplicationRequest::Log { database, from, last } => {
            replication_log::show(instance, database.as_deref(), from.as_deref(), last)
        }
        ReplicationRequest::Clear { database, from } => clear(instance, &database, from.as_deref()),
    }
}

fn history(instance: &Instance, database: Option<&str>) -> AdminResult {
    let paths = match database {
        Some(path) => vec![path.to_owned()],
        None => instance.databases.database_list()?.into_iter().map(|record| record.path).collect(),
    };
    let mut rows = Vec::new();
    for path in paths {
        for (server, history) in histories(instance, &path)? {
            rows.push(row(&path, &label(instance, &server)?, &history));
        }
    }
    if rows.is_empty() {
        return Ok(Answer::message("Nothing was received from other servers."));
    }
    Ok(Answer::list(rows))
}

fn histories(instance: &Instance, path: &str) -> Result<Vec<(String, ReplicationHistory)>, AdminError> {
    let reader: Access<level::Reader> = open(instance, path)?.downgrade();
    Ok(reader.read()?.replication_histories()?)
}

/// Returns the name of a server as it is registered. Histories have names in lower case.
fn label(instance: &Instance, server: &str) -> Result<String, AdminError> {
    let name = Name::new(server);
    let registered = instance.directory.server(&name)?;
    Ok(registered.map_or(name, |server| server.name.clone()).abbreviated())
}

fn row(path: &str, server: &str, history: &ReplicationHistory) -> Value {
    let state = match (history.position, history.progress) {
        (_, Some(progress)) if progress.is_comparison => "comparing everything",
        (_, Some(_)) => "unfinished",
        (Some(_), None) => "complete",
        (None, None) => "compares everything next time",
    };
    let completed = history.completed.filter(|time| time.0 > 0).map(Timestamp::to_rfc3339);
    let reached = history.progress.map(|progress| progress.position).or(history.position);
    record(vec![
        ("database", json!(path)),
        ("from", json!(server)),
        ("state", json!(state)),
        ("change", json!(reached.map(|position| position.modseq.0))),
        ("completed", json!(completed)),
        ("missed", json!(history.missed.len())),
    ])
}

fn clear(instance: &Instance, path: &str, server: Option<&str>) -> AdminResult {
    let wanted = server.map(|server| server_name(instance, server).canonical().to_lowercase());
    let found = histories(instance, path)?;
    let cleared: Vec<&(String, ReplicationHistory)> =
        found.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| name == wanted)).collect();
    if cleared.is_empty() {
        return Err(match server {
            Some(server) => AdminError::Refused(format!("{path} has received nothing from {server}")),
            None => AdminError::Refused(format!("{path} has received nothing from other servers")),
        });
    }
    let access = open(instance, path)?.downgrade();
    let accesses = [&access];
    let mut transaction = instance.databases.transaction(&accesses)?;
    for (name, history) in &cleared {
        transaction.writer(0).replication_history_set(name, &history.cleared())?;
    }
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    let names: Vec<String> = cleared.iter().map(|(name, _)| Name::new(name).abbreviated()).collect();
    Ok(Answer::message(format!("{path} will compare everything with {} the next time.", names.join(" and "))))
}

#[cfg(test)]
mod tests {
    use base::Modseq;
    use notes::instance::{InstanceId, Position};
    use sample::Sample;

    use super::*;

    #[test]
    fn histories_are_listed_and_cleared() {
        let sample = Sample::new();
        let instance = &sample.instance;
        let shown = |database: Option<&str>| {
            let request = ReplicationRequest::History { database: database.map(str::to_owned) };
            execute(instance, request).expect("they are listed").data
        };
        assert_eq!(shown(None), Value::Null);
        let cleared = |server: Option<&str>| {
            let from = server.map(str::to_owned);
            execute(instance, ReplicationRequest::Clear { database: "names.nsf".to_owned(), from })
                .map(|answer| answer.messages.join(""))
        };
        assert!(cleared(None).expect_err("there is none").to_string().contains("nothing from other servers"));
        let access = open(instance, "names.nsf").expect("it exists").downgrade();
        let accesses = [&access];
        let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
        let position = Position { instance: InstanceId(1), modseq: Modseq(7), names: [0; 16] };
        let history = ReplicationHistory { position: Some(position), ..ReplicationHistory::default() };
        let hub = server_name(instance, "hub.acme.test");
        transaction.writer(0).replication_history_set(hub.canonical(), &history).expect("the server may");
        transaction.commit().expect("a sound store");
        let rows = shown(Some("names.nsf"));
        assert_eq!((&rows[0]["state"], &rows[0]["change"]), (&json!("complete"), &json!(7)), "{rows}");
        assert!(cleared(Some("other.acme.test")).is_err());
        assert!(cleared(Some("hub.acme.test")).expect("it exists").contains("compare everything"));
        assert_eq!(shown(None)[0]["state"], json!("compares everything next time"));
    }
}
