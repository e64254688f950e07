//! The request of `doublet replicate`.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Exchanges the changes with another server: takes over those of the other one, and asks it to take over those of this
/// one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
#[command(
    after_help = "For a push, the other server connects to this one, which must be registered in its directory.\n\
                        Examples: doublet replicate hub.acme.example discussion.nsf\n          \
                        doublet replicate hub.acme.example --pull"
)]
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
    /// Only takes over the changes of the other server.
    #[arg(long, conflicts_with_all = ["push", "compare"])]
    #[serde(default)]
    pub pull: bool,
    /// Only lets the other server take over the changes of this one.
    #[arg(long, conflicts_with_all = ["compare", "take_held_back"])]
    #[serde(default)]
    pub push: bool,
    /// Changes nothing, and shows what would be taken over from the other server.
    #[arg(long, conflicts_with_all = ["push", "compare"])]
    #[serde(default)]
    pub dry_run: bool,
    /// Changes nothing, and lists the notes that differ.
    #[arg(long)]
    #[serde(default)]
    pub compare: bool,
    /// Asks for each note by a call of its own, one after the other, as Domino did before release 6. Slower; for
    /// comparisons.
    #[arg(long, conflicts_with_all = ["push", "compare", "dry_run"])]
    #[serde(default)]
    pub call_per_note: bool,
    /// Also takes documents that were deleted here so long ago that the deletion is forgotten. Compares everything.
    #[arg(long, conflicts_with = "compare")]
    #[serde(default)]
    pub take_held_back: bool,
}
