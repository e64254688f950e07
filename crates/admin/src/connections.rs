//! `doublet connection`: which server replicates with which other one, and how often.

use std::sync::Arc;

use base::{Name, NoteId};
use directory::Connection;
use instance::Instance;
use serde_json::json;

use super::answer::record;
use super::request::ConnectionRequest;
use super::servers::server_name;
use super::{AdminError, AdminResult, Answer};
use crate::databases::parse_whole;
use crate::directory_entries::all_entries;

/// Seconds of a minute.
const MINUTE_SECONDS: u64 = 60;

pub(super) fn execute(instance: &Instance, request: ConnectionRequest) -> AdminResult {
    match request {
        ConnectionRequest::Add { destination, every, databases, on } => {
            let source = source(instance, on.as_deref());
            let destination = registered(instance, &destination)?;
            if source == destination {
                return Err(AdminError::Refused("a connection is between two different servers".to_owned()));
            }
            let interval_minutes = parse_minutes(&every)?;
            let connection = Connection { note: NoteId(0), source, destination, interval_minutes, databases };
            instance.directory.connection_set(&connection)?;
            let source = connection.source.abbreviated();
            let other = connection.destination.abbreviated();
            Ok(Answer::message(format!("{source} takes over the changes of {other} every {every}.")))
        }
        ConnectionRequest::List => list(instance),
        ConnectionRequest::Remove { destination, on } => {
            let source = source(instance, on.as_deref());
            let destination = server_name(instance, &destination);
            instance.directory.connection_remove(&source, &destination)?;
            let other = destination.abbreviated();
            Ok(Answer::message(format!("The connection from {} to {other} was removed.", source.abbreviated())))
        }
    }
}

/// Returns the name of the server that connects.
fn source(instance: &Instance, name: Option<&str>) -> Name {
    name.map_or_else(|| instance.directory.options().server.clone(), |name| server_name(instance, name))
}

/// Returns the full name of a registered server.
fn registered(instance: &Instance, name: &str) -> Result<Name, AdminError> {
    let full = server_name(instance, name);
    match instance.directory.server(&full)? {
        Some(_) => Ok(full),
        None => Err(AdminError::no_such("server", name)),
    }
}

fn parse_minutes(text: &str) -> Result<u32, AdminError> {
    parse_whole(text, MINUTE_SECONDS, "minutes, at least one, such as 15min")
}

/// Returns all connections of the directory.
pub fn all(instance: &Instance) -> Result<Vec<Arc<Connection>>, AdminError> {
    Ok(all_entries(&|position, limit| instance.directory.connections(position, limit))?)
}

fn list(instance: &Instance) -> AdminResult {
    let row = |connection: &Arc<Connection>| {
        record(vec![
            ("server", json!(connection.source.abbreviated())),
            ("from", json!(connection.destination.abbreviated())),
            ("minutes", json!(connection.interval_minutes)),
            ("databases", json!(connection.databases)),
        ])
    };
    Ok(Answer::list(all(instance)?.iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use sample::Sample;

    use super::*;

    fn add(instance: &Instance, destination: &str, every: &str, on: Option<&str>) -> AdminResult {
        let (destination, every, on) = (destination.to_owned(), every.to_owned(), on.map(str::to_owned));
        execute(instance, ConnectionRequest::Add { destination, every, databases: vec!["a.nsf".to_owned()], on })
    }

    #[test]
    fn connections_are_added_changed_listed_and_removed() {
        let sample = Sample::new();
        let instance = &sample.instance;
        let error = add(instance, "spoke.acme.test", "15min", None).expect_err("it is not registered").to_string();
        assert!(error.contains("there is no server spoke.acme.test"), "{error}");
        let spoke = server_name(instance, "spoke.acme.test");
        instance
            .directory
            .servers_register(&[(spoke.clone(), Some("spoke.acme.test:1352".to_owned()))])
            .expect("valid");
        add(instance, "spoke.acme.test", "15min", None).expect("it is registered");
        add(instance, "spoke.acme.test", "1h", None).expect("it is changed");
        let own = instance.hostname.clone();
        add(instance, &own, "2h", Some("spoke.acme.test")).expect("for the other server");
        let mut minutes: Vec<u32> =
            all(instance).expect("they are listed").iter().map(|c| c.interval_minutes).collect();
        minutes.sort_unstable();
        assert_eq!(minutes, [60, 120]);
        for (every, expected) in [("90s", "whole number of minutes"), ("0min", "whole number"), ("31d", "30 days")] {
            let error = add(instance, "spoke.acme.test", every, None).expect_err(every).to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(add(instance, &own, "1h", None).is_err(), "to itself");
        let remove = |on: Option<&str>, to: &str| {
            execute(instance, ConnectionRequest::Remove { destination: to.to_owned(), on: on.map(str::to_owned) })
        };
        remove(None, "spoke.acme.test").expect("it exists");
        assert!(remove(None, "spoke.acme.test").is_err());
        remove(Some("spoke.acme.test"), &own).expect("it exists");
        assert_eq!(all(instance).expect("they are listed"), []);
    }
}
