//! `doublet connection`: which server replicates with which other one, when, and in which direction.

use std::sync::Arc;

use base::{Name, NoteId};
use config::units::ByteSize;
use directory::connection_schedule::{Days, TimeRange};
use directory::{Connection, ConnectionSchedule, ReplicationType};
use instance::Instance;
use serde_json::json;

use super::answer::record;
use super::replication_settings::to_priority;
use super::request::{ConnectionDirection, ConnectionRequest, NewConnectionRequest};
use super::servers::server_name;
use super::{AdminError, AdminResult, Answer};
use crate::directory_entries::all_entries;
use crate::units::{MINUTE_SECONDS, parse_whole};

/// Minimum limit of bytes per second.
const BANDWIDTH_MIN: u64 = 1 << 10;

pub(super) fn execute(instance: &Instance, request: ConnectionRequest) -> AdminResult {
    match request {
        ConnectionRequest::Add(request) => add(instance, request),
        ConnectionRequest::List => list(instance),
        ConnectionRequest::Remove { destination, name, on } => {
            let source = source(instance, on.as_deref());
            let destination = server_name(instance, &destination);
            instance.directory.connection_remove(&source, &destination, name.as_deref().unwrap_or_default())?;
            let other = destination.abbreviated();
            Ok(Answer::message(format!("The connection from {} to {other} was removed.", source.abbreviated())))
        }
    }
}

fn add(instance: &Instance, request: NewConnectionRequest) -> AdminResult {
    let source = source(instance, request.on.as_deref());
    let destination = registered(instance, &request.destination)?;
    if source == destination {
        return Err(AdminError::Refused("a connection is between two different servers".to_owned()));
    }
    let schedule = ConnectionSchedule {
        interval_minutes: parse_minutes(&request.every)?,
        days: request.days.as_deref().map_or(Ok(Days::ALL), parse_days)?,
        times: request.times.as_deref().map_or(Ok(Vec::new()), parse_times)?,
    };
    let connection = Connection {
        note: NoteId(0),
        source,
        destination,
        name: request.name.unwrap_or_default(),
        schedule,
        replication_type: match request.direction {
            ConnectionDirection::Pull => ReplicationType::Pull,
            ConnectionDirection::Push => ReplicationType::Push,
            ConnectionDirection::PullPush => ReplicationType::PullPush,
            ConnectionDirection::PullPull => ReplicationType::PullPull,
        },
        time_limit_minutes: request.time_limit.as_deref().map(parse_minutes).transpose()?,
        bytes_per_second_max: request.bandwidth.as_deref().map(parse_bandwidth).transpose()?,
        priorities: request.priorities.iter().map(|priority| to_priority(*priority)).collect(),
        databases: request.databases,
    };
    let is_same = |other: &Arc<Connection>| {
        (&other.source, &other.destination) == (&connection.source, &connection.destination)
            && other.name.eq_ignore_ascii_case(&connection.name)
    };
    let has_replaced = all(instance)?.iter().any(is_same);
    instance.directory.connection_set(&connection)?;
    let source = connection.source.abbreviated();
    let other = connection.destination.abbreviated();
    let what = match connection.replication_type {
        ReplicationType::Pull => format!("{source} takes over the changes of {other}"),
        ReplicationType::Push => format!("{source} lets {other} take over its changes"),
        ReplicationType::PullPush | ReplicationType::PullPull => format!("{source} exchanges changes with {other}"),
    };
    let answer = Answer::message(format!("{what} {}.", connection.schedule));
    if !has_replaced {
        return Ok(answer);
    }
    Ok(answer
        .with_message("The earlier connection of these servers was replaced; --name adds a further one.".to_owned()))
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

fn parse_days(text: &str) -> Result<Days, AdminError> {
    Days::parse(text).ok_or_else(|| AdminError::Refused(format!("{text:?} is not a list of days such as Mon,Wed-Fri")))
}

fn parse_times(text: &str) -> Result<Vec<TimeRange>, AdminError> {
    let times = TimeRange::parse_list(text);
    times.ok_or_else(|| AdminError::Refused(format!("{text:?} is not a list of times such as 08:00-22:00,23:30")))
}

fn parse_minutes(text: &str) -> Result<u32, AdminError> {
    parse_whole(text, MINUTE_SECONDS, "minutes, at least one, such as 15min")
}

/// Parses a limit of bytes per second.
fn parse_bandwidth(text: &str) -> Result<u64, AdminError> {
    let limit = ByteSize::parse(text).map_err(AdminError::Refused)?.0;
    if limit < BANDWIDTH_MIN {
        return Err(AdminError::Refused("a replication needs at least 1KiB per second".to_owned()));
    }
    Ok(limit)
}

/// Returns all connections of the directory.
pub fn all(instance: &Instance) -> Result<Vec<Arc<Connection>>, AdminError> {
    Ok(all_entries(&|position, limit| instance.directory.connections(position, limit))?)
}

fn list(instance: &Instance) -> AdminResult {
    let row = |connection: &Arc<Connection>| {
        record(vec![
            ("server", json!(connection.source.abbreviated())),
            ("with", json!(connection.destination.abbreviated())),
            ("name", json!(connection.name)),
            ("direction", json!(connection.replication_type.name())),
            ("schedule", json!(connection.schedule.to_string())),
            ("time_limit_minutes", json!(connection.time_limit_minutes)),
            ("bytes_per_second_max", json!(connection.bytes_per_second_max)),
            ("priorities", json!(connection.priorities.iter().map(|priority| priority.name()).collect::<Vec<_>>())),
            ("databases", json!(connection.databases)),
        ])
    };
    Ok(Answer::list(all(instance)?.iter().map(row).collect()))
}

#[cfg(test)]
mod tests {
    use sample::Sample;

    use super::*;

    fn request(destination: &str, every: &str) -> NewConnectionRequest {
        NewConnectionRequest {
            destination: destination.to_owned(),
            name: None,
            every: every.to_owned(),
            direction: ConnectionDirection::PullPush,
            days: None,
            times: None,
            time_limit: None,
            bandwidth: None,
            priorities: Vec::new(),
            databases: vec!["a.nsf".to_owned()],
            on: None,
        }
    }

    fn add(instance: &Instance, destination: &str, every: &str, on: Option<&str>) -> AdminResult {
        let request = NewConnectionRequest { on: on.map(str::to_owned), ..request(destination, every) };
        execute(instance, ConnectionRequest::Add(request))
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
            all(instance).expect("they are listed").iter().map(|c| c.schedule.interval_minutes).collect();
        minutes.sort_unstable();
        assert_eq!(minutes, [60, 120]);
        for (every, expected) in [("90s", "whole number of minutes"), ("0min", "whole number"), ("31d", "30 days")] {
            let error = add(instance, "spoke.acme.test", every, None).expect_err(every).to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(add(instance, &own, "1h", None).is_err(), "to itself");
        let text = |text: &str| Some(text.to_owned());
        let request = NewConnectionRequest {
            direction: ConnectionDirection::Push,
            days: text("Mon-Fri"),
            times: text("08:00-22:00,23:30"),
            time_limit: text("2h"),
            bandwidth: text("256KiB"),
            ..request("spoke.acme.test", "10min")
        };
        let said = execute(instance, ConnectionRequest::Add(request.clone())).expect("it is valid").messages;
        let schedule = "every 10min on Mon,Tue,Wed,Thu,Fri at 08:00-22:00,23:30 UTC";
        let source = instance.directory.options().server.abbreviated();
        let lets = format!("{source} lets {} take over its changes {schedule}.", spoke.abbreviated());
        assert_eq!(
            said,
            [lets, "The earlier connection of these servers was replaced; --name adds a further one.".to_owned()]
        );
        let rows = execute(instance, ConnectionRequest::List).expect("they are listed").data;
        let row = rows.as_array().into_iter().flatten().find(|row| row["direction"] == "push").expect("it is listed");
        assert_eq!((&row["schedule"], &row["time_limit_minutes"]), (&json!(schedule), &json!(120)), "{rows}");
        for invalid in [
            NewConnectionRequest { days: text("Mo"), ..request.clone() },
            NewConnectionRequest { times: text("25:00"), ..request.clone() },
            NewConnectionRequest { time_limit: text("30s"), ..request.clone() },
            NewConnectionRequest { bandwidth: text("256B"), ..request.clone() },
        ] {
            assert!(execute(instance, ConnectionRequest::Add(invalid.clone())).is_err(), "{invalid:?}");
        }
        let further = NewConnectionRequest { name: text("night"), ..request.clone() };
        execute(instance, ConnectionRequest::Add(further)).expect("it has another name");
        assert_eq!(all(instance).expect("they are listed").len(), 3);
        let remove_named = |on: Option<&str>, to: &str, name: Option<&str>| {
            let request = ConnectionRequest::Remove {
                destination: to.to_owned(),
                name: name.map(str::to_owned),
                on: on.map(str::to_owned),
            };
            execute(instance, request)
        };
        let remove = |on: Option<&str>, to: &str| remove_named(on, to, None);
        remove(None, "spoke.acme.test").expect("it exists");
        remove_named(None, "spoke.acme.test", Some("Night")).expect("it exists");
        assert!(remove(None, "spoke.acme.test").is_err());
        remove(Some("spoke.acme.test"), &own).expect("it exists");
        assert_eq!(all(instance).expect("they are listed"), []);
    }
}
