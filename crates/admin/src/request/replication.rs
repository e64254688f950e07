//! The requests of `doublet replication`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Requests about what was received from other servers.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicationRequest {
    /// Lists up to which change databases have received everything from which server.
    History {
        /// Path of a database. Default: all databases.
        #[serde(default)]
        database: Option<String>,
    },
    /// Shows the last replications, the latest first. They are documents of log.nsf.
    Log {
        /// Path of a database. Default: all databases.
        #[serde(default)]
        database: Option<String>,
        /// The other server. Default: all servers.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        from: Option<String>,
        /// Maximum number of replications shown.
        #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
        last: u32,
    },
    /// Forgets what a database has received, so that the next replication compares everything. Nothing is lost by it.
    Clear {
        /// Path of the database.
        database: String,
        /// The other server. Default: all servers.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        from: Option<String>,
    },
}
