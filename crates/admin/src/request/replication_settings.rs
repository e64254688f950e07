//! The requests of `doublet db replication`.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// Requests about what a replica exchanges.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum ReplicationSettingsRequest {
    /// Lists the settings of all replicas of the database.
    List,
    /// Changes the settings of a replica. Options that are not given are not changed.
    Set(ReplicationSettingsUpdate),
    /// Removes the settings of a replica.
    Clear(SettingsOwner),
}

/// The replica, and the other server, to which settings belong.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct SettingsOwner {
    /// The server that has the replica. Default: this server. The settings reach it by replication.
    #[arg(long, value_name = "SERVER")]
    #[serde(default)]
    pub on: Option<String>,
    /// The other server. Its settings take the place of those for all servers. Default: all servers without settings
    /// of their own.
    #[arg(long = "with", value_name = "SERVER")]
    #[serde(default)]
    pub other: Option<String>,
}

/// Changes to the settings of a replica.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
#[command(
    after_help = "Conditions decide about documents that the replica lacks. Those that it has stay up to date.\n\
                        Examples: doublet db replication talk.nsf set --formula 'SELECT Priority = \"High\"'\n          \
                        doublet db replication talk.nsf set --on spoke.acme.example --cut-off 90d --without deletions-out\n          \
                        doublet db replication talk.nsf set --with hub.acme.example --disable"
)]
pub struct ReplicationSettingsUpdate {
    #[command(flatten)]
    #[serde(flatten)]
    pub owner: SettingsOwner,
    /// Formula that selects the documents that the replica gets; none for all.
    #[arg(long, value_name = "FORMULA|none")]
    #[serde(default)]
    pub formula: Option<String>,
    /// Folder of the other replica: only documents in it are received. Replaces all previous ones, and none removes
    /// them. May be given several times.
    #[arg(long = "folder", value_name = "TITLE|none")]
    #[serde(default)]
    pub folders: Vec<String>,
    /// The replica gets no documents that were last saved longer ago, for example 90d; none for no limit.
    #[arg(long, value_name = "DAYS|none")]
    #[serde(default)]
    pub cut_off: Option<String>,
    /// What is not exchanged. Replaces all previous values, and none removes them. May be given several times.
    #[arg(long = "without", value_enum, value_name = "WHAT")]
    #[serde(default)]
    pub without: Vec<SettingsExclusion>,
    /// The priority, by which connections choose databases.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub priority: Option<DatabasePriority>,
    /// The replica neither receives nor sends anything.
    #[arg(long, conflicts_with = "enable")]
    #[serde(default)]
    pub disable: bool,
    /// Undoes --disable.
    #[arg(long)]
    #[serde(default)]
    pub enable: bool,
}

/// What a replica does not exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SettingsExclusion {
    /// Views, folders and other design are not received.
    Design,
    /// The access control list is not received.
    Acl,
    /// Deletions are not received.
    DeletionsIn,
    /// Deletions are not sent.
    DeletionsOut,
    /// Documents arrive truncated: without attachments, and with the first 40 KiB of rich text.
    Attachments,
    /// Everything is exchanged.
    None,
}

/// The priority of a database in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum DatabasePriority {
    /// The lowest.
    Low,
    /// That of databases without settings.
    Medium,
    /// The highest.
    High,
}
