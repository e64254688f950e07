//! Requests about access control lists.

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

use super::OnOff;

/// Requests about an access control list.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum AclRequest {
    /// Lists the entries.
    List,
    /// Adds or changes an entry. Other properties are not changed. A new entry has the level reader.
    Set(AclEntryUpdate),
    /// Removes an entry.
    Remove {
        /// Name as listed, or the address of a person or group.
        #[arg(allow_hyphen_values = true, value_name = "WHO")]
        #[serde(rename = "who")]
        name: String,
    },
    /// Shows or changes the settings of the list as a whole.
    Settings(AclSettings),
    /// Shows the changes of the list with their authors and times, the latest first.
    History {
        /// Maximum number of changes shown. 500 are kept.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        last: u32,
    },
}

/// Wanted state of an entry of an access control list.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct AclEntryUpdate {
    /// Address, name, wildcard such as */Sales/Acme, -Default- or Anonymous.
    #[arg(allow_hyphen_values = true, value_name = "WHO")]
    #[serde(rename = "who")]
    pub name: String,
    /// Access level of the entry.
    #[arg(long, value_enum)]
    pub level: Option<AccessLevel>,
    /// Kind of the name. Default: the kind of the name in the directory.
    #[arg(long, value_enum)]
    pub kind: Option<AccessKind>,
    /// Additional right or restriction; replaces all previous flags. May be given several times.
    #[arg(long = "flag", value_enum, value_name = "FLAG")]
    pub flags: Vec<AccessFlag>,
    /// Role, for example HRStaff; replaces all previous roles, and none removes them. May be given several times.
    #[arg(long = "role", value_name = "NAME|none")]
    pub roles: Vec<String>,
}

/// Settings of an access control list as a whole. Other settings are not changed. Without any option all are shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct AclSettings {
    /// Maximum level of users who log in with a password, for example over IMAP, or who do not log in. Default: editor,
    /// with which owners of mailboxes read, mark, move and delete mail and create folders.
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub max_internet_access: Option<AccessLevel>,
    /// Turns enforcement on or off. An enforced list also applies to `doublet import` and `doublet export`, and must be
    /// the same in all replicas.
    #[arg(long, value_enum)]
    pub enforce: Option<OnOff>,
    /// Adds a role, for example HRStaff: at most 16 bytes. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub add_role: Vec<String>,
    /// Removes a role from the list and from its entries. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub remove_role: Vec<String>,
}

/// Access level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLevel {
    /// No access.
    NoAccess,
    /// May create documents, cannot read any.
    Depositor,
    /// May read documents.
    Reader,
    /// May create documents and change their own.
    Author,
    /// May change all documents.
    Editor,
    /// May change the design.
    Designer,
    /// May change the access control list and delete the database.
    Manager,
}

/// Kind of the name in an entry. The entry does not apply to names of another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Any kind.
    Unspecified,
    /// A person.
    Person,
    /// A server.
    Server,
    /// A group of people and servers.
    MixedGroup,
    /// A group of people.
    PersonGroup,
    /// A group of servers.
    ServerGroup,
}

/// Right or restriction of an entry in addition to its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessFlag {
    /// No flag.
    None,
    /// May not create documents (for authors).
    NoCreate,
    /// May not delete documents.
    NoDelete,
    /// May create shared folders and views.
    CreateFolders,
    /// May create personal folders and views.
    CreatePersonalFolders,
    /// May create personal agents (not used yet).
    CreatePersonalAgents,
    /// May read public documents without the level reader.
    ReadPublic,
    /// May create and change public documents without the level editor.
    WritePublic,
}
