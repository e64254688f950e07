//! The requests of `doublet session`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Requests about logins in browsers.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum SessionRequest {
    /// Lists the logins in browsers that have not ended, with their clients. The one that was used last is the first.
    List {
        /// Only those of this user.
        #[arg(id = "account", value_name = "USER")]
        user: Option<String>,
    },
    /// Ends logins in browsers. Their users have to log in again.
    #[command(after_help = "Examples: doublet session end ann@acme.example 1f2e3d4c5b6a7988\n          \
                            doublet session end ann@acme.example --all")]
    End {
        /// The user.
        #[arg(id = "account", value_name = "USER")]
        user: String,
        /// Name of the session in the list.
        #[arg(value_name = "SESSION", required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// Ends all sessions of the user.
        #[arg(long)]
        #[serde(default)]
        all: bool,
    },
}
