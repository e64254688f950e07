//! Administration requests, shared by the command line and the control socket.
//!
//! clap parses each type below from the command line, and the control socket carries it as JSON. Options that concern
//! only the terminal (`--password-stdin`) are not sent. Values that the terminal must not show (the password) are not
//! arguments. Sizes and durations stay texts here and are parsed where they are used, so that both ways produce the
//! same error messages.

mod acl;
mod application_password;
mod backup;
mod conflicts;
mod connection;
mod copy;
mod replicate;
mod replication;
mod replication_settings;
mod server;
mod session;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

pub use acl::{AccessFlag, AccessKind, AccessLevel, AclEntryUpdate, AclRequest, AclSettings};
pub use application_password::ApplicationPasswordRequest;
pub use backup::BackupRequest;
pub use conflicts::ConflictsRequest;
pub use connection::{ConnectionDirection, ConnectionRequest, NewConnectionRequest};
pub use copy::CopyRequest;
pub use replicate::ReplicateRequest;
pub use replication::ReplicationRequest;
pub use replication_settings::{
    DatabasePriority, ReplicationSettingsRequest, ReplicationSettingsUpdate, SettingsExclusion, SettingsOwner,
};
pub use server::{JoinRequest, ServerRequest, ServerUpdate};
pub use session::SessionRequest;

/// The value of an option that clears a setting.
pub(crate) const NONE: &str = "none";

/// A request to the administration.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Adds, shows, changes and removes people.
    #[command(subcommand)]
    User(UserRequest),
    /// Adds, shows, changes and removes groups.
    #[command(subcommand)]
    Group(GroupRequest),
    /// Adds, shows, changes and removes mail domains.
    #[command(subcommand)]
    Domain(DomainRequest),
    /// Registers, joins, lists and removes the servers of the domain.
    #[command(subcommand)]
    Server(ServerRequest),
    /// Adds, lists and removes connections, by which servers replicate regularly.
    #[command(subcommand)]
    Connection(ConnectionRequest),
    /// Lists and ends logins in browsers.
    #[command(subcommand)]
    Session(SessionRequest),
    /// Makes, lists and revokes application passwords, with which mail clients and other programs log in.
    #[command(subcommand)]
    AppPassword(ApplicationPasswordRequest),
    /// Lists, creates, changes, renames, deletes and compacts databases, and manages their access control lists.
    #[command(subcommand)]
    Db(DbRequest),
    /// Checks databases for damage and repairs what can be derived.
    Fixup(FixupRequest),
    /// Lists, adds and removes templates, and updates the designs of databases from them.
    #[command(subcommand)]
    Design(DesignRequest),
    /// Updates the indexes of views, or rebuilds them while the old ones stay in use.
    Updall(UpdallRequest),
    /// Copies the whole store into a folder while the server runs. Later backups into the same folder copy only what is
    /// new.
    Backup(BackupRequest),
    /// Shows the number and size of stored attachments, removes unused ones, or rebuilds the references to them.
    Blobs(BlobRequest),
    /// Takes over the changes that another server has in its replicas of databases, or compares the replicas.
    Replicate(ReplicateRequest),
    /// Lists or forgets what was received from other servers.
    #[command(subcommand)]
    Replication(ReplicationRequest),
    /// Lists, shows, retries, holds, releases and removes queued mail.
    #[command(subcommand)]
    Queue(QueueRequest),
    /// Imports messages into a mailbox.
    Import(ImportRequest),
    /// Exports a mailbox to files.
    Export(ExportRequest),
    /// Shows the state of the server.
    Status {
        /// Fails unless a server runs on the data folder.
        #[arg(long)]
        running: bool,
    },
    /// Shows or reloads the certificate.
    #[command(subcommand)]
    Tls(TlsRequest),
}

/// A password or passphrase read from a file or from standard input. It is never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Source of a password.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct PasswordOptions {
    /// Reads the password from the first line of standard input.
    #[arg(long)]
    #[serde(skip)]
    pub password_stdin: bool,
    /// The password.
    #[arg(skip)]
    pub password: Option<SecretText>,
}

/// Requests about people.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum UserRequest {
    /// Adds a person with a mailbox, or many people. A person without a password cannot log in.
    Add {
        /// Mail address, which is also the login name.
        #[arg(value_name = "NAME@DOMAIN", required_unless_present = "batch")]
        #[serde(default)]
        address: Option<String>,
        /// Adds all people in a file, or in standard input if the name is -. Lines are CSV (address,name,password; a
        /// first line with the word address names other columns: password_hash for an argon2 hash, quota, alias) or
        /// JSON ({"address": …, "name": …, "password": …, "password_hash": …, "quota": …, "aliases": […]}). The file is
        /// UTF-8. Invalid lines are reported with their numbers; all others are added.
        #[arg(long, value_name = "FILE|-", conflicts_with_all = ["address", "name", "aliases", "quota", "password_stdin"])]
        #[serde(skip)]
        batch: Option<PathBuf>,
        /// First and last name. Default: the part before the @.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// Additional address. May be given several times.
        #[arg(long = "alias", value_name = "ADDRESS")]
        aliases: Vec<String>,
        /// Maximum size of the mailbox, for example 2GiB.
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        #[command(flatten)]
        #[serde(flatten)]
        password: PasswordOptions,
    },
    /// Adds people whose lines in a file have been parsed already.
    #[command(skip)]
    AddMany {
        /// The people to add.
        people: Vec<NewUserRequest>,
    },
    /// Lists people.
    List {
        /// Lists only people with an address in this domain.
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// Shows a person.
    Show {
        /// Address, login name or name of the person.
        #[arg(value_name = "WHO")]
        #[serde(rename = "who")]
        person: String,
    },
    /// Changes a person. Other properties are not changed.
    Set(UserUpdate),
    /// Removes a person. The mailbox is kept unless --delete-mail is given.
    Remove {
        /// Address, login name or name of the person.
        #[arg(value_name = "WHO")]
        #[serde(rename = "who")]
        person: String,
        /// Deletes the mailbox with all messages.
        #[arg(long)]
        delete_mail: bool,
    },
}

/// A user to add; also one line of a batch file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewUserRequest {
    /// The mail address.
    pub address: String,
    /// First and last name.
    #[serde(default)]
    pub name: Option<String>,
    /// The password.
    #[serde(default)]
    pub password: Option<SecretText>,
    /// Argon2 hash of the password in PHC notation, if the password itself is not known.
    #[serde(default)]
    pub password_hash: Option<SecretText>,
    /// Maximum size of the mailbox.
    #[serde(default)]
    pub quota: Option<String>,
    /// Additional addresses.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// Changes to a person.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct UserUpdate {
    /// Address, login name or name of the person.
    #[arg(value_name = "WHO")]
    #[serde(rename = "who")]
    pub person: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub password: PasswordOptions,
    /// First and last name. Login names are not changed.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Maximum size of the mailbox, for example 2GiB; none for no limit.
    #[arg(long, value_name = "SIZE|none")]
    pub quota: Option<String>,
    /// Address used as the sender of mail; added if it is new.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Adds an address. May be given several times.
    #[arg(long = "add-alias", value_name = "ADDRESS")]
    pub add_aliases: Vec<String>,
    /// Removes an address. May be given several times.
    #[arg(long = "remove-alias", value_name = "ADDRESS")]
    pub remove_aliases: Vec<String>,
    /// Forwards all mail to this address; none to keep it here.
    #[arg(long, value_name = "ADDRESS|none")]
    pub forward: Option<String>,
    /// Blocks logins, ends open sessions and refuses mail.
    #[arg(long, conflicts_with = "enable")]
    pub disable: bool,
    /// Allows logins and mail again.
    #[arg(long)]
    pub enable: bool,
    /// Removes the second factor, for a user who has lost the authenticator and the recovery codes.
    #[arg(long)]
    #[serde(default)]
    pub remove_second_factor: bool,
}

/// Requests about groups.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRequest {
    /// Adds a group.
    Add {
        /// Mail address of the group, or a name for a group that gets no mail.
        #[arg(value_name = "NAME@DOMAIN")]
        address: String,
        /// Member: a person, another group, or an external address. May be given several times.
        #[arg(long = "member", value_name = "WHO")]
        members: Vec<String>,
        /// Additional address. May be given several times.
        #[arg(long = "alias", value_name = "ADDRESS")]
        #[serde(default)]
        aliases: Vec<String>,
        /// Purpose of the group.
        #[arg(long, value_enum)]
        #[serde(default)]
        kind: Option<GroupPurpose>,
        /// Description of the group.
        #[arg(long, value_name = "TEXT")]
        #[serde(default)]
        description: Option<String>,
    },
    /// Lists groups.
    List,
    /// Shows a group and its members.
    Show {
        /// Address or name of the group.
        group: String,
    },
    /// Changes a group. Other properties are not changed.
    Set(GroupUpdate),
    /// Removes a group. Its members are not removed.
    Remove {
        /// Address or name of the group.
        group: String,
    },
}

/// Changes to a group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct GroupUpdate {
    /// Address or name of the group.
    pub group: String,
    /// Adds a member. May be given several times.
    #[arg(long = "add-member", value_name = "WHO")]
    pub add_members: Vec<String>,
    /// Removes a member. May be given several times.
    #[arg(long = "remove-member", value_name = "WHO")]
    pub remove_members: Vec<String>,
    /// Adds an address. May be given several times.
    #[arg(long = "add-alias", value_name = "ADDRESS")]
    #[serde(default)]
    pub add_aliases: Vec<String>,
    /// Removes an address. May be given several times.
    #[arg(long = "remove-alias", value_name = "ADDRESS")]
    #[serde(default)]
    pub remove_aliases: Vec<String>,
    /// Purpose of the group.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub kind: Option<GroupPurpose>,
    /// Description of the group.
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    pub description: Option<String>,
}

/// Purpose of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPurpose {
    /// Mail and access control.
    MultiPurpose,
    /// Mail only.
    Mail,
    /// Access control only.
    Acl,
    /// Deny list: its members, also those of groups in it, cannot log in, but still get mail.
    DenyList,
    /// Servers only.
    Servers,
}

/// Requests about mail domains.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DomainRequest {
    /// Adds a domain whose mail is delivered here.
    Add {
        /// Domain, for example example.org.
        domain: String,
        /// Makes this domain an alias: its addresses stand for the same addresses in the given domain.
        #[arg(long, value_name = "DOMAIN", conflicts_with = "catch_all")]
        alias_of: Option<String>,
        /// Recipient of mail to unknown addresses of the domain.
        #[arg(long, value_name = "ADDRESS")]
        catch_all: Option<String>,
    },
    /// Lists domains.
    List,
    /// Shows a domain and the DNS records it should have.
    Show {
        /// The domain.
        domain: String,
    },
    /// Changes a domain.
    Set {
        /// The domain.
        domain: String,
        /// Recipient of mail to unknown addresses of the domain; none for no recipient.
        #[arg(long, value_name = "ADDRESS|none")]
        catch_all: Option<String>,
        /// Recipient of mail to postmaster, unless a person or group has that address; none for no recipient.
        #[arg(long, value_name = "ADDRESS|none")]
        postmaster: Option<String>,
    },
    /// Removes a domain. The domain must not contain any addresses.
    Remove {
        /// The domain.
        domain: String,
    },
}

/// Requests about databases.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DbRequest {
    /// Lists the views of a database.
    Views {
        /// Path of the database in the catalog.
        path: String,
    },
    /// Lists databases. With --server, lists those to which the user named by --user has any access.
    List,
    /// Creates a database, empty or from a template. With --server or --user it is created as that user, who must be
    /// named in `native.database_creators` and becomes its manager.
    Create {
        /// Path in the catalog, for example projects/plan.nsf.
        path: String,
        /// Title of the database. Default: the title of the template, or the path.
        #[arg(long)]
        title: Option<String>,
        /// Template that provides the views and forms; `doublet design list` shows all templates.
        #[arg(long, value_name = "NAME")]
        #[serde(default)]
        template: Option<String>,
    },
    /// Opens a database over the native protocol as the user named by --user, and shows its properties and the rights
    /// of this user.
    Open {
        /// Path of the database in the catalog.
        path: String,
    },
    /// Creates a document from each row of a file: CSV whose first line names the columns, or JSON objects, one per
    /// line.
    #[command(after_help = TABLE_HELP)]
    Import(TableImport),
    /// Writes the documents of a database to a file, as CSV or as JSON objects, one per line.
    Export(TableExport),
    /// Shows the properties of a database.
    Show {
        /// Path of the database in the catalog.
        path: String,
    },
    /// Changes the title or options of a database. Other properties are not changed.
    Set(DbUpdate),
    /// Shows or changes the access control list of a database.
    #[command(after_help = ACCESS_HELP)]
    Acl {
        /// Path of the database in the catalog.
        path: String,
        /// Action on the list.
        #[command(subcommand)]
        #[serde(rename = "what")]
        request: AclRequest,
    },
    /// Shows or changes what a replica exchanges with those of other servers.
    Replication {
        /// Path of the database in the catalog.
        path: String,
        /// Action on the settings.
        #[command(subcommand)]
        #[serde(rename = "what")]
        request: ReplicationSettingsRequest,
    },
    /// Shows and restores deleted documents of a database that keeps them for a time.
    Deleted {
        /// Path of the database in the catalog.
        path: String,
        /// Action on the deleted documents.
        #[command(subcommand)]
        #[serde(rename = "what")]
        request: DeletedRequest,
    },
    /// Lists and removes documents with the losing version of a conflict, in which somebody has changed a document that
    /// another one changed at the same time.
    Conflicts {
        /// Path of the database in the catalog.
        path: String,
        /// Action on the conflict documents.
        #[command(subcommand)]
        #[serde(rename = "what")]
        request: ConflictsRequest,
    },
    /// Copies a database, with documents, folders, marks, design and access control list, to one or more new ones.
    #[command(after_help = COPY_HELP)]
    Copy(CopyRequest),
    /// Changes the path of a database. The owner of a mail file is updated with the new path.
    Rename {
        /// Path of the database in the catalog.
        path: String,
        /// New path.
        to: String,
    },
    /// Deletes a database with all its content.
    Delete {
        /// Path of the database in the catalog.
        path: String,
        /// Deletes the database even if it is a person's mailbox, the directory or a part of the queue.
        #[arg(long)]
        #[serde(default)]
        force: bool,
    },
    /// Creates, updates or removes the full-text index of a database.
    Index(IndexRequest),
    /// Searches documents by their content, with the rights of the server itself, which can read all documents.
    #[command(after_help = QUERY_HELP)]
    Search(SearchRequest),
    /// Returns the disk space of deleted notes to the file system, and upgrades databases of an older structure.
    Compact(CompactRequest),
}

/// Scope and mode of a compaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct CompactRequest {
    /// Path of the database in the catalog. Default: all databases.
    pub path: Option<String>,
    /// First upgrades databases of an older structure: rewrites their records in the current format.
    #[arg(long)]
    #[serde(default)]
    pub upgrade: bool,
    /// With --upgrade: shows what would be rewritten, and changes nothing.
    #[arg(long, requires = "upgrade")]
    #[serde(default)]
    pub dry_run: bool,
}

/// Text that `doublet db copy --help` prints after the options.
const COPY_HELP: &str = "Examples:
  doublet db copy plans.nsf archive/plans-2026.nsf
  doublet db copy mail/ann.nsf mail/bob.nsf mail/cid.nsf       each becomes the mail file of its person
  doublet db copy --resume mail/ann.nsf mail/bob.nsf mail/cid.nsf
docs/database-copies.md says what is copied.";

/// Text that `doublet db search --help` prints after the options.
const QUERY_HELP: &str = "Queries:
  annual report           both words               \"annual report\"   exact phrase
  a OR b, a | b           either                   NOT a, -a         without it
  a NEAR/5 b, \"a b\"~5    near each other          rep*, r?port      wildcards
  subject:a, from:a       in one item              [Amount]>5        items compared
  date>=2024-01-31        time of receipt or creation
  size>100000             bytes
docs/full-text.md describes the language.";

/// Update and schedule of a full-text index.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct IndexRequest {
    /// Path of the database in the catalog.
    pub path: String,
    /// Schedule of the updates from now on. Hours are in UTC; off removes the index.
    #[arg(long, value_name = "off|immediate|hourly|daily|daily@HOUR")]
    pub full_text: Option<String>,
    /// Discards the index and builds it again.
    #[arg(long)]
    #[serde(default)]
    pub rebuild: bool,
}

/// Parameters of a full-text search.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct SearchRequest {
    /// Path of the database in the catalog.
    pub path: String,
    /// Query text.
    #[arg(allow_hyphen_values = true)]
    pub query: String,
    /// Order of the results. Default: relevance.
    #[arg(long, value_enum)]
    pub sort: Option<SearchOrder>,
    /// Maximum number of documents shown.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// Number of documents skipped.
    #[arg(long, default_value_t = 0)]
    pub offset: u32,
}

/// Order of search results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SearchOrder {
    /// Best matches first.
    Relevance,
    /// Most recently received or created first.
    Newest,
    /// Least recently received or created first.
    Oldest,
}

/// Text that `doublet db acl --help` prints after the options.
const ACCESS_HELP: &str = "Levels, each with the rights of those before it:
  no-access  nothing
  depositor  may create documents, cannot read any
  reader     may read documents
  author     may create documents and change those that name them as author
  editor     may change all documents
  designer   may change folders, views and forms
  manager    may change this list and delete the database

If the list has an entry with the user's own name, it applies alone. Otherwise the highest level of the matching groups
and wildcards (*/Sales/Acme) applies, otherwise -Default- (Anonymous for users who have not logged in).

Flags count only where they make a difference: no-create for authors, no-delete from author on, create-folders for
editors, read-public below reader, write-public below editor.

Logins with a password are limited to the level in `settings` (default: editor).";

/// Changes to a database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
pub struct DbUpdate {
    /// Path of the database in the catalog.
    pub path: String,
    /// Title of the database.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Retention time of deletion stubs in whole days, for example 90d. A replica that was disconnected for longer may
    /// bring deleted documents back.
    #[arg(long, value_name = "DURATION")]
    pub purge_interval: Option<String>,
    /// Turns unread marks, which record the documents that each user has read, on or off.
    #[arg(long, value_enum)]
    pub unread_marks: Option<OnOff>,
    /// Turns background updates of views on or off. Without them a view is updated when it is opened.
    #[arg(long, value_enum)]
    pub view_updates: Option<OnOff>,
    /// Maximum size of the documents, for example 2GiB; none for no limit. The limit of a person's mailbox is set with
    /// the person (`doublet user set`).
    #[arg(long, value_name = "SIZE|none")]
    pub quota: Option<String>,
    /// Time during which deleted documents can be restored, in whole hours, for example 48h or 7d; none to delete at
    /// once. Until then they count toward the quota. Messages that mail programs expunge are always deleted at once.
    #[arg(long, value_name = "DURATION|none")]
    #[serde(default)]
    pub keep_deleted: Option<String>,
    /// Opens the database to clients of CouchDB's replication protocol, such as PouchDB, or closes it. They get in
    /// under the access control list, at the listener `listen.couchdb`. Not for mail files.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub couchdb: Option<OnOff>,
    /// What becomes of a document that was edited on one server and deleted on another one: keep-edits keeps it, delete
    /// deletes it unless it was saved more often than the deleter knew. Applies to all replicas of the database.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub deletions: Option<Deletions>,
    /// With which servers the unread marks of all users replicate. Both replicas must say everywhere, and each server
    /// be an Editor in the replica of the other. The owner's marks always replicate.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub unread_replication: Option<UnreadMarksReplication>,
}

/// The rule for deletions that meet edits which they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Deletions {
    /// The edit stays. The default of all databases but mail files.
    KeepEdits,
    /// The deletion counts unless the document was saved more often than the deleter knew. The default of mail files.
    Delete,
}

/// With which servers unread marks replicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum UnreadMarksReplication {
    /// With no server.
    Never,
    /// With the servers of the same cluster. There are no clusters yet, so it acts as never.
    Cluster,
    /// With all servers.
    Everywhere,
}

/// Requests about deleted documents.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedRequest {
    /// Lists documents that can be restored.
    List {
        /// Maximum number of documents listed.
        #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        first: u32,
    },
    /// Restores documents into the folders they were in.
    Restore {
        /// Numbers of the documents, as in the list.
        #[arg(value_name = "NOTE", required = true)]
        notes: Vec<u32>,
    },
    /// Deletes documents permanently, before their retention time is over.
    Remove {
        /// Numbers of the documents, as in the list.
        #[arg(value_name = "NOTE", required = true)]
        notes: Vec<u32>,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OnOff {
    /// Turned on.
    On,
    /// Turned off.
    Off,
}

/// Scope and mode of a check for damage.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct FixupRequest {
    /// Databases to check. Default: all.
    pub paths: Vec<String>,
    /// Only reports damage and changes nothing.
    #[arg(long)]
    pub check_only: bool,
}

const TABLE_HELP: &str = "\
The first rows determine the type of each column: numbers, times (RFC 3339, or dates alone), lists, otherwise text. The fields
of the form, if the database has it, take precedence over that, and --map over both. Check the result with --dry-run first:

  doublet db import people.nsf people.csv --form Person --dry-run
  doublet db import people.nsf people.csv --form Person --map 'Tags=Categories:text-list' --map 'Internal='";

/// Parameters of an import of table rows as documents.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct TableImport {
    /// Path of the database in the catalog.
    pub path: String,
    /// File with the rows.
    pub file: PathBuf,
    /// Value of the item Form of the documents. A column takes its type from the field of this form that has the same
    /// name.
    #[arg(long, value_name = "NAME")]
    pub form: Option<String>,
    /// Mapping of a column: COLUMN=ITEM, COLUMN=ITEM:TYPE, or COLUMN= to leave it out. Types: text, number, time,
    /// rich-text, text-list, number-list, time-list, and for names: readers (only they may read the document), authors
    /// (they may change it), names. '$UNID=$UNID' keeps the UNIDs of an export. May be given several times.
    #[arg(long, value_name = "COLUMN=ITEM:TYPE")]
    pub map: Vec<String>,
    /// Format of the file. Default: according to the extension of its name.
    #[arg(long, value_enum)]
    pub format: Option<TableFormat>,
    /// Separator between the values of a list within a CSV column.
    #[arg(long, default_value = ";")]
    pub list_separator: char,
    /// Delimiter between CSV fields: one character, or 'tab'. Default: the most frequent one in the first row.
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    #[serde(default)]
    pub delimiter: Option<char>,
    /// Accepts CSV rows that end before the last column, and treats the missing fields as empty.
    #[arg(long)]
    #[serde(default)]
    pub short_rows: bool,
    /// Reads all rows, shows the mapping of the columns and the rows that could not be imported, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Continues after the last row imported by an interrupted import of this file.
    #[arg(long, conflicts_with_all = ["restart", "dry_run"])]
    #[serde(default)]
    pub resume: bool,
    /// Starts with the first row although an import of this file was interrupted. Documents that it created are kept.
    #[arg(long)]
    #[serde(default)]
    pub restart: bool,
}

/// Parses the field delimiter.
fn delimiter(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) => Ok(one),
        _ if text.eq_ignore_ascii_case("tab") || text == "\\t" => Ok('\t'),
        _ => Err("expected one character, or tab".to_owned()),
    }
}

impl TableImport {
    /// Returns `true` if the rows are read from standard input.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.file == std::path::Path::new("-")
    }

    /// Returns the format of the file, either as requested or according to its name.
    #[must_use]
    pub fn table_format(&self) -> TableFormat {
        self.format.unwrap_or_else(|| TableFormat::from_path(&self.file))
    }
}

/// Parameters of an export of documents as table rows.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct TableExport {
    /// Path of the database in the catalog.
    pub path: String,
    /// Output file, which is created or replaced.
    pub file: PathBuf,
    /// Exports only documents selected by this formula, for example 'SELECT Form = "Order"'.
    #[arg(long)]
    pub formula: Option<String>,
    /// Exports only these items, in this order. Default: all items of the documents.
    #[arg(long, value_delimiter = ',', value_name = "ITEM,…")]
    pub columns: Vec<String>,
    /// Format of the file. Default: according to its name.
    #[arg(long, value_enum)]
    pub format: Option<TableFormat>,
}

/// Format of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TableFormat {
    /// Comma-separated values (RFC 4180).
    Csv,
    /// JSON objects, one per line.
    Jsonl,
}

impl TableFormat {
    /// Returns the format for a file name: JSON lines if it ends in .jsonl, .ndjson or .json, otherwise CSV.
    #[must_use]
    pub fn from_path(file: &std::path::Path) -> Self {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        if matches!(ending.as_str(), "jsonl" | "ndjson" | "json") { Self::Jsonl } else { Self::Csv }
    }
}

/// Requests about templates.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DesignRequest {
    /// Lists the templates.
    List,
    /// Adds a template to this server. It replaces an added template of the same name, and takes precedence over a
    /// built-in one.
    Add {
        /// Template file (see docs/templates.md).
        file: PathBuf,
    },
    /// Removes an added template. Databases created from it are not changed.
    Remove {
        /// Name of the template.
        name: String,
    },
    /// Updates the views and forms of a database from its template. Documents and design elements made by hand are not
    /// changed.
    Refresh {
        /// Path of the database in the catalog.
        path: String,
        /// Template to use instead of the one that the database was created from.
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
    },
}

/// Scope and mode of an update of view indexes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct UpdallRequest {
    /// Path of the database in the catalog. Default: all databases.
    pub path: Option<String>,
    /// Updates only the view of this name.
    #[arg(long, value_name = "NAME", requires = "path")]
    pub view: Option<String>,
    /// Rebuilds the indexes from all documents. This takes about a second per 100,000 documents; the old indexes can be
    /// read meanwhile.
    #[arg(long)]
    pub rebuild: bool,
}

/// Requests about attachments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct BlobRequest {
    /// Removes attachments now that have been unused for longer than the grace period.
    #[arg(long)]
    pub collect: bool,
    /// Rebuilds the table of references to attachments from the databases. Only possible while no server runs.
    #[arg(long)]
    pub rebuild: bool,
}

/// Requests about queued mail.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum QueueRequest {
    /// Lists queued mail.
    List {
        /// Lists only messages in this state.
        #[arg(long, value_enum)]
        state: Option<QueueState>,
    },
    /// Shows a queued message with its recipients and its delivery attempts.
    Show {
        /// Queue ID of the message.
        id: String,
    },
    /// Retries delivery now.
    Retry {
        /// Selected messages.
        #[command(flatten)]
        #[serde(rename = "which")]
        selection: QueueSelection,
    },
    /// Stops delivery attempts until the messages are released.
    Hold {
        /// Selected messages.
        #[command(flatten)]
        #[serde(rename = "which")]
        selection: QueueSelection,
    },
    /// Resumes delivery of held or dead messages.
    Release {
        /// Selected messages.
        #[command(flatten)]
        #[serde(rename = "which")]
        selection: QueueSelection,
    },
    /// Removes messages from the queue. The senders are not notified.
    Remove {
        /// Selected messages.
        #[command(flatten)]
        #[serde(rename = "which")]
        selection: QueueSelection,
    },
}

/// A selection of queued messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
#[group(required = true, multiple = false)]
pub struct QueueSelection {
    /// Queue IDs of the messages.
    pub ids: Vec<String>,
    /// Selects all messages.
    #[arg(long)]
    pub all: bool,
}

/// State of queued mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum QueueState {
    /// Waiting for the next delivery attempt.
    Waiting,
    /// Held by an administrator.
    Held,
    /// Can be neither delivered nor returned.
    Dead,
}

/// Format of mail files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum MailFormat {
    /// All messages of a folder in one file, separated by "From " lines.
    Mbox,
    /// A folder with one file per message.
    Maildir,
    /// A single file per message.
    Eml,
}

/// Parameters of a mail import.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct ImportRequest {
    /// Format of the files.
    #[arg(value_enum)]
    pub format: MailFormat,
    /// Files, or folders of files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Owner of the mailbox.
    #[arg(long, value_name = "WHO")]
    pub user: String,
    /// Folder for messages from files that do not specify a folder.
    #[arg(long, default_value = "INBOX")]
    pub folder: String,
    /// Leaves out messages that their folder already has, byte for byte. (With or without this option, repeating the
    /// command continues an import that was interrupted or left something out.)
    #[arg(long)]
    pub skip_duplicates: bool,
    /// Imports everything, including messages imported before, and discards the progress of interrupted imports into
    /// this mailbox.
    #[arg(long)]
    #[serde(default)]
    pub restart: bool,
}

/// Parameters of a mail export.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct ExportRequest {
    /// Format of the files.
    #[arg(value_enum)]
    pub format: MailFormat,
    /// Folder for the files; created if missing.
    pub to: PathBuf,
    /// Owner of the mailbox.
    #[arg(long, value_name = "WHO")]
    pub user: String,
    /// Exports only this folder. May be given several times.
    #[arg(long = "folder", value_name = "NAME")]
    pub folders: Vec<String>,
    /// Writes the flags of messages in mbox files and single files to separate files: NAME.mbox.flags.jsonl, or
    /// flags.jsonl in each folder. Import reads these files. Maildirs always have flags.
    #[arg(long)]
    #[serde(default)]
    pub flags: bool,
}

/// Requests about the certificate.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum TlsRequest {
    /// Reads the certificate and the key again.
    Reload,
    /// Shows the names, the issuer, the validity period and the file of the certificate.
    Show,
}
