//! The requests of `doublet app-password`.

use clap::Subcommand;
use serde::{Deserialize, Serialize};

/// Requests about application passwords: further passwords of a user for mail clients and other programs.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ApplicationPasswordRequest {
    /// Makes an application password and prints it. Nobody can read it later.
    #[command(
        after_help = "Examples: doublet app-password add ann@acme.example Phone --protocol imap --protocol submission\n          \
                            doublet app-password add ann@acme.example Archive --protocol imap --reading"
    )]
    Add {
        /// The user.
        #[arg(id = "account", value_name = "USER")]
        user: String,
        /// Name, such as that of a device.
        #[arg(value_name = "NAME")]
        name: String,
        /// Protocol for which it is valid: imap, pop3, submission, jmap, native or http. May be given several times.
        #[arg(long = "protocol", value_name = "PROTOCOL", required = true)]
        protocols: Vec<String>,
        /// Permits reading only.
        #[arg(long)]
        #[serde(default)]
        reading: bool,
    },
    /// Lists the application passwords of a user, with their last use on this server.
    List {
        /// The user.
        #[arg(id = "account", value_name = "USER")]
        user: String,
    },
    /// Revokes application passwords. Their open connections end.
    Revoke {
        /// The user.
        #[arg(id = "account", value_name = "USER")]
        user: String,
        /// Identifier of the application password in the list.
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Revokes all of the user.
        #[arg(long)]
        #[serde(default)]
        all: bool,
    },
}
