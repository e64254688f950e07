//! What an administrator can ask for: the words of the command line and of the control socket, in one.
//!
//! Each type below is parsed from the command line by clap and travels over the control socket as JSON. What belongs to the
//! terminal alone (`--password-stdin`) does not travel; what the terminal must not show (the password) is not an
//! argument. Sizes and durations stay texts here and are read where they are used, so that both ways give the same complaints.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};

/// A task for the administration.
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
    /// Lists, makes, changes, renames, deletes and compacts databases, and says who may do what in them.
    #[command(subcommand)]
    Db(DbRequest),
    /// Checks databases for damage and repairs what can be derived.
    Fixup(FixupRequest),
    /// Lists templates, and brings the design of databases up to date with them.
    #[command(subcommand)]
    Design(DesignRequest),
    /// Brings the indexes of views up to date, or builds them anew while the old ones serve.
    Updall(UpdallRequest),
    /// Copies the whole store into a folder while the server runs. Later backups into the same folder copy only what is new.
    Backup {
        /// The folder; made when it is missing. May hold any number of backups. It cannot lie in the data folder.
        folder: PathBuf,
        /// Removes all but the last so many backups afterwards, and what only they needed. Default: all are kept.
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        keep: Option<u32>,
    },
    /// Shows the attachments that are kept apart from messages.
    Blobs(BlobRequest),
    /// Lists, shows and moves queued mail.
    #[command(subcommand)]
    Queue(QueueRequest),
    /// Brings messages into a mailbox.
    Import(ImportRequest),
    /// Writes a mailbox to files.
    Export(ExportRequest),
    /// Shows how the server is doing.
    Status {
        /// Fails unless a server runs on the data folder.
        #[arg(long)]
        running: bool,
    },
    /// Shows or reloads the certificate.
    #[command(subcommand)]
    Tls(TlsRequest),
}

/// A password on its way from standard input. Never printed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// How a password comes in.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct PasswordArgument {
    /// Reads the password from the first line of standard input.
    #[arg(long)]
    #[serde(skip)]
    pub password_stdin: bool,
    /// The password.
    #[arg(skip)]
    pub password: Option<Secret>,
}

/// What to do with people.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum UserRequest {
    /// Adds a person with a mailbox, or many. Without a password nobody can log in yet.
    Add {
        /// The mail address, which is also the login.
        #[arg(value_name = "NAME@DOMAIN", required_unless_present = "batch")]
        #[serde(default)]
        address: Option<String>,
        /// Adds everybody in a file, - for standard input. Lines of CSV (address,name,password; a first line with the word
        /// address names other columns: password_hash for an argon2 hash, quota, alias) or of JSON ({"address": …, "name": …,
        /// "password": …, "password_hash": …, "quota": …, "aliases": […]}). The file is UTF-8. Lines that cannot be taken are told with their number; all others are taken.
        #[arg(long, value_name = "FILE|-", conflicts_with_all = ["address", "name", "aliases", "quota", "password_stdin"])]
        #[serde(skip)]
        batch: Option<PathBuf>,
        /// First and last name. Default: the part before the @.
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        /// A further address. May be given several times.
        #[arg(long = "alias", value_name = "ADDRESS")]
        aliases: Vec<String>,
        /// The most that the mailbox may hold, as in 2GiB.
        #[arg(long, value_name = "SIZE")]
        quota: Option<String>,
        #[command(flatten)]
        #[serde(flatten)]
        password: PasswordArgument,
    },
    /// Adds people whose lines in a file were read already.
    #[command(skip)]
    AddMany {
        /// The people.
        people: Vec<NewPerson>,
    },
    /// Lists people.
    List {
        /// Only those with an address in this domain.
        #[arg(long, value_name = "DOMAIN")]
        domain: Option<String>,
    },
    /// Shows a person.
    Show {
        /// An address, a login or a name.
        who: String,
    },
    /// Changes a person. What is not named stays.
    Set(UserChange),
    /// Removes a person. The mailbox stays unless --delete-mail is given.
    Remove {
        /// An address, a login or a name.
        who: String,
        /// Deletes the mailbox with all messages.
        #[arg(long)]
        delete_mail: bool,
    },
}

/// A person of a file with many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPerson {
    /// The mail address.
    pub address: String,
    /// First and last name.
    #[serde(default)]
    pub name: Option<String>,
    /// The password.
    #[serde(default)]
    pub password: Option<Secret>,
    /// The argon2 hash of the password in PHC notation, where only that is known.
    #[serde(default)]
    pub password_hash: Option<Secret>,
    /// The most that the mailbox may hold.
    #[serde(default)]
    pub quota: Option<String>,
    /// Further addresses.
    #[serde(default)]
    pub aliases: Vec<String>,
}

/// What to change of a person.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct UserChange {
    /// An address, a login or a name.
    pub who: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub password: PasswordArgument,
    /// First and last name. Logins stay as they are.
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// The most that the mailbox may hold, as in 2GiB; none for no limit.
    #[arg(long, value_name = "SIZE|none")]
    pub quota: Option<String>,
    /// The address that mail is sent from; added when it is new.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Adds an address. May be given several times.
    #[arg(long = "add-alias", value_name = "ADDRESS")]
    pub add_aliases: Vec<String>,
    /// Takes an address away. May be given several times.
    #[arg(long = "remove-alias", value_name = "ADDRESS")]
    pub remove_aliases: Vec<String>,
    /// Sends all mail on to this address; none to keep it here.
    #[arg(long, value_name = "ADDRESS|none")]
    pub forward: Option<String>,
    /// Stops logins, ends open sessions and refuses mail.
    #[arg(long, conflicts_with = "enable")]
    pub disable: bool,
    /// Allows logins and mail again.
    #[arg(long)]
    pub enable: bool,
}

/// What to do with groups.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum GroupRequest {
    /// Adds a group.
    Add {
        /// The mail address of the group, or a name for one that gets no mail.
        #[arg(value_name = "NAME@DOMAIN")]
        address: String,
        /// A member: a person, another group, or an address elsewhere. May be given several times.
        #[arg(long = "member", value_name = "WHO")]
        members: Vec<String>,
        /// A further address. May be given several times.
        #[arg(long = "alias", value_name = "ADDRESS")]
        #[serde(default)]
        aliases: Vec<String>,
        /// What the group is for.
        #[arg(long, value_enum)]
        #[serde(default)]
        kind: Option<GroupPurpose>,
        /// What people read about it.
        #[arg(long, value_name = "TEXT")]
        #[serde(default)]
        description: Option<String>,
    },
    /// Lists groups.
    List,
    /// Shows a group and its members.
    Show {
        /// The address or name.
        group: String,
    },
    /// Changes a group. What is not named stays.
    Set(GroupUpdate),
    /// Removes a group. Its members stay.
    Remove {
        /// The address or name.
        group: String,
    },
}

/// What to change of a group.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct GroupUpdate {
    /// The address or name.
    pub group: String,
    /// Adds a member. May be given several times.
    #[arg(long = "add-member", value_name = "WHO")]
    pub add_members: Vec<String>,
    /// Takes a member away. May be given several times.
    #[arg(long = "remove-member", value_name = "WHO")]
    pub remove_members: Vec<String>,
    /// Adds an address. May be given several times.
    #[arg(long = "add-alias", value_name = "ADDRESS")]
    #[serde(default)]
    pub add_aliases: Vec<String>,
    /// Takes an address away. May be given several times.
    #[arg(long = "remove-alias", value_name = "ADDRESS")]
    #[serde(default)]
    pub remove_aliases: Vec<String>,
    /// What the group is for.
    #[arg(long, value_enum)]
    #[serde(default)]
    pub kind: Option<GroupPurpose>,
    /// What people read about it.
    #[arg(long, value_name = "TEXT")]
    #[serde(default)]
    pub description: Option<String>,
}

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum GroupPurpose {
    /// Mail and access control.
    MultiPurpose,
    /// Mail only.
    Mail,
    /// Access control only.
    Acl,
    /// People who may not log in, and members of groups that it lists; they still get mail.
    DenyList,
    /// Servers.
    Servers,
}

/// What to do with mail domains.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DomainRequest {
    /// Adds a domain whose mail is delivered here.
    Add {
        /// The domain, as in example.org.
        domain: String,
        /// Addresses of this domain stand for those of another one.
        #[arg(long, value_name = "DOMAIN", conflicts_with = "catch_all")]
        alias_of: Option<String>,
        /// Who gets mail to addresses that nobody has.
        #[arg(long, value_name = "ADDRESS")]
        catch_all: Option<String>,
    },
    /// Lists domains.
    List,
    /// Shows a domain and the DNS records that it should have.
    Show {
        /// The domain.
        domain: String,
    },
    /// Changes a domain.
    Set {
        /// The domain.
        domain: String,
        /// Who gets mail to addresses that nobody has; none for nobody.
        #[arg(long, value_name = "ADDRESS|none")]
        catch_all: Option<String>,
        /// Who gets mail to postmaster, unless somebody has that address; none for nobody.
        #[arg(long, value_name = "ADDRESS|none")]
        postmaster: Option<String>,
    },
    /// Removes a domain in which nobody has an address any more.
    Remove {
        /// The domain.
        domain: String,
    },
}

/// What to do with databases.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DbRequest {
    /// Lists the views of a database.
    Views {
        /// The path in the catalog.
        path: String,
    },
    /// Lists databases; with --server those in which the person that --user names has any access.
    List,
    /// Makes a database, empty or from a template; with --server or --user as that person, whom `native.database_makers` must name, and who manages it.
    Create {
        /// The path in the catalog, as in projects/plan.nsf.
        path: String,
        /// The title. Default: that of the template, or the path.
        #[arg(long)]
        title: Option<String>,
        /// The template whose views and forms it gets; `doublet design list` shows them.
        #[arg(long, value_name = "NAME")]
        #[serde(default)]
        template: Option<String>,
    },
    /// Opens a database over the native protocol, as the person that --user names: tells what it is and what that person may do in it.
    Open {
        /// The path in the catalog.
        path: String,
    },
    /// Makes a document of each row of a file: CSV whose first line names the columns, or JSON objects, one a line.
    #[command(after_help = TABLE_HELP)]
    Import(TableImport),
    /// Writes the documents of a database to a file, as CSV or as JSON objects, one a line.
    Export(TableExport),
    /// Shows a database.
    Show {
        /// The path in the catalog.
        path: String,
    },
    /// Changes title or options of a database. What is not named stays.
    Set(DbChange),
    /// Shows or changes who may do what in a database.
    #[command(after_help = ACCESS_HELP)]
    Acl {
        /// The path in the catalog.
        path: String,
        /// What to do with the list.
        #[command(subcommand)]
        what: AclRequest,
    },
    /// Shows and brings back what was deleted, in a database that keeps it for a time.
    Deleted {
        /// The path in the catalog.
        path: String,
        /// What to do with it.
        #[command(subcommand)]
        what: DeletedRequest,
    },
    /// Gives a database another path. A mail file's owner gets the new path with it.
    Rename {
        /// The path in the catalog.
        path: String,
        /// The new path.
        to: String,
    },
    /// Deletes a database with everything in it.
    Delete {
        /// The path in the catalog.
        path: String,
        /// Deletes it even when a person's mail, the directory or the queue lies in it.
        #[arg(long)]
        #[serde(default)]
        force: bool,
    },
    /// Brings the full-text index of a database up to date; makes or forgets it.
    Index(IndexRequest),
    /// Finds documents by what they say, as the server itself, from which nothing is hidden.
    #[command(after_help = QUERY_HELP)]
    Search(SearchRequest),
    /// Gives space of deleted notes back to the file system, and brings databases of an older structure to the present one.
    Compact(CompactRequest),
}

/// What to compact.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct CompactRequest {
    /// The path in the catalog; all databases without one.
    pub path: Option<String>,
    /// Rewrites what is stored in an older form than this program writes, before space is given back.
    #[arg(long)]
    #[serde(default)]
    pub upgrade: bool,
    /// With --upgrade: tells what would be rewritten, and changes nothing.
    #[arg(long, requires = "upgrade")]
    #[serde(default)]
    pub dry_run: bool,
}

/// What `doublet db search --help` says beside the options.
const QUERY_HELP: &str = "Queries:
  annual report           both words               \"annual report\"   in a row
  a OR b, a | b           either                   NOT a, -a         without it
  a NEAR/5 b, \"a b\"~5    near each other          rep*, r?port      wildcards
  subject:a, from:a       in one item              [Amount]>5        items compared
  date>=2024-01-31        when it came or was made size>100000       bytes
docs/full-text.md describes the language.";

/// Which index to bring up to date, and how from now on.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct IndexRequest {
    /// The path in the catalog.
    pub path: String,
    /// When it is brought up to date from now on. Hours are those of UTC; off forgets the index.
    #[arg(long, value_name = "off|immediate|hourly|daily|daily@HOUR")]
    pub full_text: Option<String>,
    /// Forgets what is indexed and begins again.
    #[arg(long)]
    #[serde(default)]
    pub rebuild: bool,
}

/// What to look for.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct SearchRequest {
    /// The path in the catalog.
    pub path: String,
    /// The query.
    #[arg(allow_hyphen_values = true)]
    pub query: String,
    /// The order. Default: relevance.
    #[arg(long, value_enum)]
    pub sort: Option<SearchOrder>,
    /// How many documents are shown.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub limit: u32,
    /// How many documents are passed over.
    #[arg(long, default_value_t = 0)]
    pub offset: u32,
}

/// The order of what is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SearchOrder {
    /// The best first.
    Relevance,
    /// The last received or made first.
    Newest,
    /// The first received or made first.
    Oldest,
}

/// What `doublet db acl --help` says beside the options.
const ACCESS_HELP: &str = "Levels, each with the rights of those before it:
  no-access  nothing
  depositor  may put documents in, sees none
  reader     may read documents
  author     may create documents and change those that name them as author
  editor     may change all documents
  designer   may change folders, views and forms
  manager    may change this list and delete the database

The entry with somebody's very name decides alone; else the highest level among the entries for their groups and for
wildcards that cover them (*/Sales/Acme); else the entry -Default-, or Anonymous for those who did not log in.

Flags count only where they make a difference: no-create for authors, no-delete from author on, create-folders for
editors, read-public below reader, write-public below editor.

Who logs in with a password gets at most what `settings` says: editor, unless it was changed.";

/// What to change of a database.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct DbChange {
    /// The path in the catalog.
    pub path: String,
    /// The title.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// How long deletion stubs are kept, in whole days, as in 90d. A replica that was away for longer may bring deleted
    /// documents back.
    #[arg(long, value_name = "DURATION")]
    pub purge_interval: Option<String>,
    /// Whether it is remembered who has read what.
    #[arg(long, value_enum)]
    pub unread_marks: Option<Switch>,
    /// Whether views are brought up to date in the background; without it that is done when they are opened.
    #[arg(long, value_enum)]
    pub view_updates: Option<Switch>,
    /// The most that the documents may take, as in 2GiB; none for no limit. A person's mailbox has its limit with the
    /// person (`doublet user set`).
    #[arg(long, value_name = "SIZE|none")]
    pub quota: Option<String>,
    /// How long documents that are deleted can be restored, in whole hours, as in 48h or 7d; none to delete at once. What mail
    /// programs expunge is always deleted at once. Until then they count for the quota.
    #[arg(long, value_name = "DURATION|none")]
    #[serde(default)]
    pub keep_deleted: Option<String>,
}

/// What to do with deleted documents.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedRequest {
    /// Lists documents that can be restored.
    List {
        /// At most so many.
        #[arg(long, value_name = "COUNT", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        first: u32,
    },
    /// Brings documents back, into the folders that they were in.
    Restore {
        /// The numbers that the list shows.
        #[arg(value_name = "NOTE", required = true)]
        notes: Vec<u32>,
    },
    /// Deletes documents for good, before their time is over.
    Remove {
        /// The numbers that the list shows.
        #[arg(value_name = "NOTE", required = true)]
        notes: Vec<u32>,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// What to do with an access control list.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum AclRequest {
    /// Lists the entries.
    List,
    /// Adds an entry, or changes it. What is not named stays; a new entry has the level reader.
    Set(AclChange),
    /// Removes an entry.
    Remove {
        /// As it is listed; an address stands for the person or group that has it.
        #[arg(allow_hyphen_values = true)]
        who: String,
    },
    /// Shows what holds for the list as a whole, or changes it.
    Settings(AclSettings),
    /// Shows who changed the list, when, and what; the latest change first.
    History {
        /// At most so many changes. 500 are kept.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
        last: u32,
    },
}

/// An entry of an access control list, as it shall be.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct AclChange {
    /// An address, a name, a wildcard such as */Sales/Acme, -Default- or Anonymous.
    #[arg(allow_hyphen_values = true)]
    pub who: String,
    /// How much they may do.
    #[arg(long, value_enum)]
    pub level: Option<AccessLevel>,
    /// What kind of name it is. Default: what the directory says.
    #[arg(long, value_enum)]
    pub kind: Option<AccessKind>,
    /// What else they may or may not do; takes the place of all flags before. May be given several times.
    #[arg(long = "flag", value_enum, value_name = "FLAG")]
    pub flags: Vec<AccessFlag>,
    /// A role, as in HRStaff; takes the place of all roles before, none takes them away. May be given several times.
    #[arg(long = "role", value_name = "NAME|none")]
    pub roles: Vec<String>,
}

/// What holds for an access control list as a whole. What is not named stays; with nothing named all is shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct AclSettings {
    /// The most that those get who log in with a password, as over IMAP, or not at all. Editor unless it is set: owners of mailboxes read,
    /// mark, move and delete with it, and make folders.
    #[arg(long, value_name = "LEVEL", value_enum)]
    pub max_internet_access: Option<AccessLevel>,
    /// Whether the list holds for import and export on this server, too, and is to be the same in all replicas.
    #[arg(long, value_enum)]
    pub enforce: Option<Switch>,
    /// Adds a role, as in HRStaff: at most 16 bytes. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub add_role: Vec<String>,
    /// Removes a role, from entries as well. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub remove_role: Vec<String>,
}

/// How much somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLevel {
    /// Nothing.
    NoAccess,
    /// May put documents in, sees none.
    Depositor,
    /// May read documents.
    Reader,
    /// May create documents and change their own.
    Author,
    /// May change all documents.
    Editor,
    /// May change the design.
    Designer,
    /// May change the list and delete the database.
    Manager,
}

/// What kind of name an entry holds. A name of another kind does not get what the entry gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Anything.
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

/// What an entry permits or forbids beside its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AccessFlag {
    /// No flag.
    None,
    /// An author may not create documents.
    NoCreate,
    /// May not delete documents.
    NoDelete,
    /// May create shared folders and views.
    CreateFolders,
    /// May create personal folders and views.
    CreatePersonalFolders,
    /// May create personal agents (nothing asks for it yet).
    CreatePersonalAgents,
    /// May read public documents without being a reader.
    ReadPublic,
    /// May create and change public documents without being an editor.
    WritePublic,
}

/// What to check.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct FixupRequest {
    /// The databases to check; all without any.
    pub paths: Vec<String>,
    /// Only reports, changes nothing.
    #[arg(long)]
    pub check_only: bool,
}

const TABLE_HELP: &str = "\
The first rows tell what each column holds: numbers, times (RFC 3339, or dates alone), lists, else text. The fields of the form,
if the database has it, say it better; --map says it for good. Look at it with --dry-run first:

  doublet db import people.nsf people.csv --form Person --dry-run
  doublet db import people.nsf people.csv --form Person --map 'Tags=Categories:text-list' --map 'Internal='";

/// Rows to be made documents.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct TableImport {
    /// The path of the database in the catalog.
    pub path: String,
    /// The file.
    pub file: PathBuf,
    /// The item Form of the documents; its fields say the types of columns of the same names.
    #[arg(long, value_name = "NAME")]
    pub form: Option<String>,
    /// What a column becomes: COLUMN=ITEM, COLUMN=ITEM:TYPE, or COLUMN= to leave it out. Types: text, number, time, rich-text, text-list, number-list,
    /// time-list, and of names: readers (who alone may read the document), authors (who may change it), names. '$UNID=$UNID' keeps the UNIDs of an export.
    /// May be given several times.
    #[arg(long, value_name = "COLUMN=ITEM:TYPE")]
    pub map: Vec<String>,
    /// The form of the file. Default: what its name ends in.
    #[arg(long, value_enum)]
    pub format: Option<TableForm>,
    /// What stands between the values of a list in one column of CSV.
    #[arg(long, default_value = ";")]
    pub list_separator: char,
    /// What separates the fields of CSV: one character, or 'tab'. Default: what the first row has most of.
    #[arg(long, value_name = "CHARACTER", value_parser = delimiter)]
    #[serde(default)]
    pub delimiter: Option<char>,
    /// Takes rows of CSV that end before the last column, as if the fields that they lack were empty.
    #[arg(long)]
    #[serde(default)]
    pub short_rows: bool,
    /// Reads everything, says what columns become and which rows could not be taken, and changes nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Goes on behind the last row that an import of this file took before it was broken off.
    #[arg(long, conflicts_with_all = ["restart", "dry_run"])]
    #[serde(default)]
    pub resume: bool,
    /// Begins with the first row although an import of this file was broken off; the documents that it made stay.
    #[arg(long)]
    #[serde(default)]
    pub restart: bool,
}

/// Reads what separates fields.
fn delimiter(text: &str) -> Result<char, String> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None) => Ok(one),
        _ if text.eq_ignore_ascii_case("tab") || text == "\\t" => Ok('\t'),
        _ => Err("it is one character, or tab".to_owned()),
    }
}

impl TableImport {
    /// Tells whether the rows come from standard input.
    #[must_use]
    pub fn is_input(&self) -> bool {
        self.file == std::path::Path::new("-")
    }

    /// Gives the form of the file.
    #[must_use]
    pub fn table_form(&self) -> TableForm {
        self.format.unwrap_or_else(|| TableForm::of(&self.file))
    }
}

/// Documents to be written.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct TableExport {
    /// The path of the database in the catalog.
    pub path: String,
    /// The file, which is made or replaced.
    pub file: PathBuf,
    /// Only documents that this formula selects, as in 'SELECT Form = "Order"'.
    #[arg(long)]
    pub formula: Option<String>,
    /// Only these items, in this order. Default: all that the documents have.
    #[arg(long, value_delimiter = ',', value_name = "ITEM,…")]
    pub columns: Vec<String>,
    /// The form of the file. Default: what its name ends in.
    #[arg(long, value_enum)]
    pub format: Option<TableForm>,
}

/// Forms of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TableForm {
    /// Fields with commas between them (RFC 4180).
    Csv,
    /// JSON objects, one a line.
    Jsonl,
}

impl TableForm {
    /// Tells the form of a file by its name: CSV unless it ends in .jsonl, .ndjson or .json.
    #[must_use]
    pub fn of(file: &std::path::Path) -> Self {
        let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        if matches!(ending.as_str(), "jsonl" | "ndjson" | "json") { Self::Jsonl } else { Self::Csv }
    }
}

/// What to do with templates.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum DesignRequest {
    /// Lists the templates.
    List,
    /// Adds a template to this server, in place of an own one of its name. It goes before one of the program with that name.
    Add {
        /// The file (docs/templates.md).
        file: PathBuf,
    },
    /// Removes a template that was added. Databases that were made from it stay as they are.
    Remove {
        /// The name.
        name: String,
    },
    /// Brings views and forms of a database up to date with its template. What was made by hand stays, and so do documents.
    Refresh {
        /// The path of the database in the catalog.
        path: String,
        /// Another template than the one that it was made from.
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
    },
}

/// Which views to bring up to date.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct UpdallRequest {
    /// The database; all without one.
    pub path: Option<String>,
    /// Only the view of this name.
    #[arg(long, value_name = "NAME", requires = "path")]
    pub view: Option<String>,
    /// Builds the indexes anew from all documents. Takes about a second for 100,000 of them; people may read meanwhile.
    #[arg(long)]
    pub rebuild: bool,
}

/// What to do with attachments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
pub struct BlobRequest {
    /// Removes content that nobody has used for longer than the grace period, now.
    #[arg(long)]
    pub collect: bool,
    /// Rebuilds the catalog of who uses what from the databases. Only while no server runs.
    #[arg(long)]
    pub rebuild: bool,
}

/// What to do with queued mail.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum QueueRequest {
    /// Lists queued mail.
    List {
        /// Only those in this state.
        #[arg(long, value_enum)]
        state: Option<QueueState>,
    },
    /// Shows a queued message with its recipients and what happened so far.
    Show {
        /// The queue id.
        id: String,
    },
    /// Tries again now.
    Retry {
        /// The queue ids.
        #[command(flatten)]
        which: QueueSelection,
    },
    /// Stops attempts until the mail is released.
    Hold {
        /// The queue ids.
        #[command(flatten)]
        which: QueueSelection,
    },
    /// Lets held or dead mail go on.
    Release {
        /// The queue ids.
        #[command(flatten)]
        which: QueueSelection,
    },
    /// Removes mail from the queue. The sender is not told.
    Remove {
        /// The queue ids.
        #[command(flatten)]
        which: QueueSelection,
    },
}

/// Which mail.
#[derive(Debug, Clone, Default, Serialize, Deserialize, Args)]
#[group(required = true, multiple = false)]
pub struct QueueSelection {
    /// The queue ids.
    pub ids: Vec<String>,
    /// All of it.
    #[arg(long)]
    pub all: bool,
}

/// The states of queued mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum QueueState {
    /// Waits for its next attempt.
    Waiting,
    /// Held by an administrator.
    Held,
    /// Cannot be delivered nor returned.
    Dead,
}

/// The kinds of files that mail is kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum MailFormat {
    /// All messages of a folder in one file, separated by "From " lines.
    Mbox,
    /// A folder with a file for each message.
    Maildir,
    /// One message a file.
    Eml,
}

/// What to import.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct ImportRequest {
    /// What the files are.
    #[arg(value_enum)]
    pub format: MailFormat,
    /// The files, or folders of files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Whose mailbox.
    #[arg(long, value_name = "WHO")]
    pub user: String,
    /// The folder for messages whose files name none.
    #[arg(long, default_value = "INBOX")]
    pub folder: String,
    /// Leaves out messages that their folder has already, byte for byte. (An import that was interrupted or left something out
    /// goes on where it stopped when the same command is given again, with this option or without.)
    #[arg(long)]
    pub skip_duplicates: bool,
    /// Imports everything, also what went in before; forgets where interrupted imports into this mailbox have stopped.
    #[arg(long)]
    #[serde(default)]
    pub anew: bool,
}

/// What to export.
#[derive(Debug, Clone, Serialize, Deserialize, Args)]
pub struct ExportRequest {
    /// What the files will be.
    #[arg(value_enum)]
    pub format: MailFormat,
    /// The folder for the files; made when it is missing.
    pub to: PathBuf,
    /// Whose mailbox.
    #[arg(long, value_name = "WHO")]
    pub user: String,
    /// Only this folder. May be given several times.
    #[arg(long = "folder", value_name = "NAME")]
    pub folders: Vec<String>,
    /// Writes the flags of mbox files and single files beside them: NAME.mbox.flags.jsonl, or flags.jsonl in each folder.
    /// Import reads these files. Maildirs always have flags.
    #[arg(long)]
    #[serde(default)]
    pub flags: bool,
}

/// What to do with the certificate.
#[derive(Debug, Clone, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "kebab-case")]
pub enum TlsRequest {
    /// Reads the certificate and the key again.
    Reload,
    /// Shows the names of the certificate, who signed it, until when it is valid, and where it lies.
    Show,
}
