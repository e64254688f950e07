//! The requests of `doublet connection`.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::replication_settings::DatabasePriority;

/// Requests about connections.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionRequest {
    /// Adds a connection, or changes it: the server replicates with another server again and again.
    Add(NewConnectionRequest),
    /// Lists the connections of all servers and, if the server runs, when and with which result it used its own.
    List,
    /// Removes a connection.
    Remove {
        /// The server to which the connection leads.
        #[arg(value_name = "SERVER")]
        destination: String,
        /// The name of the connection, if it has one.
        #[arg(long, value_name = "TEXT")]
        #[serde(default)]
        name: Option<String>,
        /// The server that connects. Default: this server.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        on: Option<String>,
    },
}

/// A connection to add.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
#[command(after_help = "Options that are not given have their default, also if the connection exists already.\n\
                        Examples: doublet connection add spoke.acme.example --every 15min\n          \
                        doublet connection add hub.acme.example --days Mon-Fri --times 08:00-22:00 --every 10min\n          \
                        doublet connection add hub.acme.example --name night --times 03:00 --direction pull --time-limit 2h")]
pub struct NewConnectionRequest {
    /// The other server. It must be registered (`doublet server list`).
    #[arg(value_name = "SERVER")]
    pub destination: String,
    /// Name that distinguishes the connection from others to the same server. A connection with the same name, or also
    /// without one, is changed.
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    pub name: Option<String>,
    /// The pause between two replications, from 1min to 30d.
    #[arg(long, value_name = "DURATION", default_value = "15min")]
    #[serde(default = "default_interval")]
    pub every: String,
    /// The directions, as the server sees it that connects.
    #[arg(long, value_enum, default_value = "pull-push")]
    #[serde(default)]
    pub direction: ConnectionDirection,
    /// The days on which it is used, for example Mon,Wed-Fri. Default: all days.
    #[arg(long, value_name = "DAYS")]
    #[serde(default)]
    pub days: Option<String>,
    /// The times of the day at which it is used, in UTC, for example 08:00-12:00,13:00-17:00,23:30. At the beginning
    /// of a range it is used at once, then after each pause. At a single time it is used once, and tried for an hour if
    /// it fails. Default: all times.
    #[arg(long, value_name = "TIMES")]
    #[serde(default)]
    pub times: Option<String>,
    /// The time after which a replication is cancelled, in whole minutes. It goes on at its place the next time.
    /// Default: none.
    #[arg(long, value_name = "DURATION")]
    #[serde(default)]
    pub time_limit: Option<String>,
    /// Maximum number of bytes that are received per second, on average, for example 256KiB. For a push, the other
    /// server observes it. Default: none.
    #[arg(long, value_name = "SIZE")]
    #[serde(default)]
    pub bandwidth: Option<String>,
    /// A database to replicate; may be given several times. A replica that does not exist is created. Default: all
    /// databases of which both servers have replicas.
    #[arg(long = "database", value_name = "PATH")]
    #[serde(default)]
    pub databases: Vec<String>,
    /// The priority of databases to replicate (`doublet db replication`); may be given several times. Default: all.
    #[arg(long = "priority", value_enum, conflicts_with = "databases")]
    #[serde(default)]
    pub priorities: Vec<DatabasePriority>,
    /// The server that connects. Default: this server. The connection reaches it with the directory.
    #[arg(long, value_name = "SERVER")]
    #[serde(default)]
    pub on: Option<String>,
}

/// The directions of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionDirection {
    /// Takes over the changes of the other server.
    Pull,
    /// Lets the other server take over the changes of this one.
    Push,
    /// Pulls, then pushes.
    #[default]
    PullPush,
    /// Both servers take over the changes of the other one at the same time.
    PullPull,
}

fn default_interval() -> String {
    "15min".to_owned()
}
