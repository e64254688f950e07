//! The request of `doublet replicate`.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Takes over the changes of another server.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
#[command(after_help = "The changes of this server reach the other one when that one replicates with this one.\n\
                        Example: doublet replicate hub.acme.example discussion.nsf")]
pub struct ReplicateRequest {
    /// The other server. Default port: 1352.
    #[arg(value_name = "HOST[:PORT]")]
    pub partner: String,
    /// Paths of databases on the other server. A database without a replica on this server gets one, with the same
    /// path. Default: all databases of which both servers have replicas.
    #[arg(value_name = "DATABASE")]
    #[serde(default)]
    pub databases: Vec<String>,
    /// The name in the certificate of the other server. Default: the host.
    #[arg(long, value_name = "NAME")]
    #[serde(default)]
    pub server_name: Option<String>,
    /// Changes nothing, and lists the notes that differ.
    #[arg(long)]
    #[serde(default)]
    pub compare: bool,
    /// Also takes documents that were deleted here so long ago that the deletion is forgotten. Compares everything.
    #[arg(long, conflicts_with = "compare")]
    #[serde(default)]
    pub take_held_back: bool,
}
