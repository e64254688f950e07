//! The requests of `doublet connection`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Requests about connections.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ConnectionRequest {
    /// Adds a connection, or changes it: the server takes over the changes of another server again and again.
    ///
    /// Changes go in one direction. For both directions add two connections, one for each server.
    #[command(after_help = "Example, on the hub, for both directions every 15 minutes:\n\
                            doublet connection add spoke.acme.example --every 15min\n\
                            doublet connection add hub.acme.example --on spoke.acme.example --every 15min")]
    Add {
        /// The other server, whose changes are taken over. It must be registered (`doublet server list`).
        #[arg(value_name = "SERVER")]
        destination: String,
        /// The pause between two replications, from 1min to 30d.
        #[arg(long, value_name = "DURATION", default_value = "15min")]
        #[serde(default = "default_interval")]
        every: String,
        /// A database to replicate; may be given several times. A replica that does not exist is created. Default: all
        /// databases of which both servers have replicas.
        #[arg(long = "database", value_name = "PATH")]
        #[serde(default)]
        databases: Vec<String>,
        /// The server that connects. Default: this server. The connection reaches it with the directory.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        on: Option<String>,
    },
    /// Lists the connections of all servers and, if the server runs, when and with which result it used its own.
    List,
    /// Removes a connection.
    Remove {
        /// The server whose changes are taken over.
        #[arg(value_name = "SERVER")]
        destination: String,
        /// The server that connects. Default: this server.
        #[arg(long, value_name = "SERVER")]
        #[serde(default)]
        on: Option<String>,
    },
}

fn default_interval() -> String {
    "15min".to_owned()
}
