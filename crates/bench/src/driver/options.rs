//! The options of a run, as the command line states them. Times are those at speed 1, in microseconds.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::pace::Pace;
use crate::workload::Door;

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// The parameters of the workload, as `NAME=VALUE`.
    pub set: Vec<String>,
    /// The protocols, instead of those of the workload.
    pub door: Option<Door>,
    /// The users of each level; those of the workload if missing.
    pub users: Option<Vec<u64>>,
    /// The seed.
    pub seed: u64,
    /// By how much times are divided.
    pub speedup: f64,
    /// From the connection of one user to that of the next.
    pub interval_us: u64,
    /// The iterations of each user, instead of those of the workload; 0 for as many as there is time for.
    pub iterations: Option<u64>,
    /// The length of the measured interval, instead of that of the workload.
    pub measure_us: Option<u64>,
    /// When steps are due.
    pub pace: Pace,
    /// The user numbers from which recipients are drawn, instead of those of the workload.
    pub recipients: Option<[u64; 2]>,
    /// The messages of each mail file, instead of those of the workload.
    pub documents: Option<u64>,
    /// The documents of each database that is no mail file, instead of those of the workload.
    pub database_documents: Option<u64>,
    /// The factor by which messages are made smaller.
    pub size_scale: f64,
    /// The mail files that are filled; all if missing.
    pub masters: Option<u64>,
    /// The share of the documents of copied mail files that are changed.
    pub own: f64,
    /// The users that share a connection.
    pub users_per_connection: u64,
    /// The local addresses from which connections are opened, in turn. Without any, the system chooses.
    pub source_addresses: Vec<IpAddr>,
    /// The servers between which the users are divided.
    #[serde(default = "crate::target::by_server::one_server")]
    pub servers: u64,
    /// The processes that play the run.
    pub parts: u64,
    /// The longest time of a step.
    pub time_limit: Duration,
    /// The longest sample.
    pub sample: Duration,
    /// The longest time until the steady state.
    pub steady_limit: Option<Duration>,
    /// The longest time for the last steps.
    pub cool_down: Duration,
    /// Whether a journal of the changes is kept.
    #[serde(default)]
    pub journal: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            set: Vec::new(),
            door: None,
            users: None,
            seed: 1,
            speedup: 1.0,
            interval_us: 1_000_000,
            iterations: None,
            measure_us: None,
            pace: Pace::Timetable,
            recipients: None,
            documents: None,
            database_documents: None,
            size_scale: 1.0,
            masters: None,
            own: 0.1,
            users_per_connection: 1,
            source_addresses: Vec::new(),
            servers: 1,
            parts: 1,
            time_limit: Duration::from_secs(60),
            sample: Duration::from_secs(10),
            steady_limit: None,
            cool_down: Duration::from_secs(60),
            journal: false,
        }
    }
}
