//! The catalog: the list of a server's databases.
//!
//! A database has a number, and all its keys begin with that number. The catalog maps the path (`mail/jdoe.nsf`,
//! compared without regard to case) to the number, the replica id and the options. Numbers are never reused, so data
//! left behind by a dropped database cannot appear in a new one.
//!
//! | key in `catalog` | value |
//! |---|---|
//! | `p`, path in lower case | [`DatabaseRecord`] |
//! | `n`, number | path in lower case |
//! | `#` | number of the next new database |
//! | `c`, number | path of a database that is being copied and does not exist yet ([`crate::database_copy`]) |

use std::time::Duration;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::limits::{DATABASE_PATH_BYTES_MAX, DATABASE_TITLE_BYTES_MAX};
use base::{DbNumber, Name, ReplicaId, Timestamp};
use revision::DeletionRule;
use store::KeyRange;

use crate::error::{Error, Result};
use crate::limits::{OPEN_DATABASES_DEFAULT, PERSONAL_INDEX_BYTES_DEFAULT, PURGE_INTERVAL_DAYS};
use crate::ods::OdsVersion;
use crate::setting_times::{self, SettingTimes};
use crate::shared_uids::UidRank;

/// The purpose of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum DatabaseKind {
    /// A database of documents.
    #[default]
    Standard = 0,
    /// The mail file of one user.
    Mail = 1,
    /// The router's queue.
    MailBox = 2,
    /// A directory of people and groups.
    Directory = 3,
    /// The log of the server.
    Log = 4,
    /// The sessions of browsers.
    Sessions = 5,
    /// The uploads of clients that wait for the message that uses them.
    Uploads = 6,
}

impl DatabaseKind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Standard, Self::Mail, Self::MailBox, Self::Directory, Self::Log, Self::Sessions, Self::Uploads];

    /// Returns the name of the kind that users and scripts see.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Mail => "mail",
            Self::MailBox => "mailbox",
            Self::Directory => "directory",
            Self::Log => "log",
            Self::Sessions => "sessions",
            Self::Uploads => "uploads",
        }
    }

    /// Returns `true` if the databases of this kind belong to one server alone: they do not replicate.
    #[must_use]
    pub fn is_local(self) -> bool {
        match self {
            Self::MailBox | Self::Log | Self::Sessions | Self::Uploads => true,
            Self::Standard | Self::Mail | Self::Directory => false,
        }
    }
}

/// Update schedule of the full-text index of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum FullTextSchedule {
    /// No full-text index.
    #[default]
    Off,
    /// Soon after each change.
    Immediate,
    /// Every hour.
    Hourly,
    /// Once a day, in this hour (UTC, 0 to 23).
    Daily(u8),
}

/// Number of hours in a day.
const HOURS: u8 = 24;

impl FullTextSchedule {
    fn encode(self) -> [u8; 2] {
        match self {
            Self::Off => [0, 0],
            Self::Immediate => [1, 0],
            Self::Hourly => [2, 0],
            Self::Daily(hour) => [3, hour],
        }
    }

    fn decode(kind: u8, hour: u8) -> std::result::Result<Self, InvalidRecord> {
        match (kind, hour) {
            (0, 0) => Ok(Self::Off),
            (1, 0) => Ok(Self::Immediate),
            (2, 0) => Ok(Self::Hourly),
            (3, hour) if hour < HOURS => Ok(Self::Daily(hour)),
            _ => Err(InvalidRecord),
        }
    }
}

/// With which servers the unread marks of all users replicate. The owner's marks are those of the notes, and always do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum UnreadReplication {
    /// With none.
    Never,
    /// With the servers of the same cluster. There are no clusters yet, so it acts as `Never`.
    #[default]
    Cluster,
    /// With all servers.
    Everywhere,
}

impl UnreadReplication {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Never, Self::Cluster, Self::Everywhere];

    /// Returns the name of the value, as commands show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Cluster => "cluster",
            Self::Everywhere => "everywhere",
        }
    }

    /// Returns the value with a name, or `None` for other names.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|value| value.name() == name)
    }

    fn switches(self) -> u8 {
        match self {
            Self::Never => UNREAD_MARKS_STAY,
            Self::Cluster => 0,
            Self::Everywhere => UNREAD_MARKS_TRAVEL,
        }
    }

    fn of_switches(switches: u8) -> Self {
        match (switches & UNREAD_MARKS_STAY != 0, switches & UNREAD_MARKS_TRAVEL != 0) {
            (true, _) => Self::Never,
            (false, true) => Self::Everywhere,
            (false, false) => Self::Cluster,
        }
    }
}

/// Options of a database as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatabaseOptions {
    /// Number of days after which deletion stubs are purged.
    pub purge_interval_days: u16,
    /// `true` if the database keeps no unread marks.
    pub no_unread_marks: bool,
    /// Maximum total size of the documents and indexes in bytes, or `None` for no limit. Mail beyond it is refused.
    pub quota_bytes: Option<u64>,
    /// Update schedule of the full-text index.
    pub full_text: FullTextSchedule,
    /// `true` if the Update task skips the views. They are updated when they are opened.
    pub no_view_updates: bool,
    /// Number of hours for which deleted documents can be restored, or `None` if deletions are final.
    pub keep_deleted_hours: Option<u16>,
    /// `true` if the database is open to clients of CouchDB's protocol.
    pub is_open_to_couchdb: bool,
    /// Which deletions count against edits that they do not know, or `None` for the rule of the kind of the database
    /// ([`DatabaseRecord::deletion_rule`]).
    pub deletions: Option<DeletionRule>,
    /// With which servers the unread marks of all users replicate.
    pub unread_replication: UnreadReplication,
}

impl DatabaseRecord {
    /// Returns the time for which the database keeps its records of deletions.
    pub(crate) fn purge_interval(&self) -> Duration {
        if self.kind.is_local() {
            return Duration::ZERO;
        }
        Duration::from_secs(u64::from(self.options.purge_interval_days) * 86_400)
    }
}

/// Operator settings that apply to all databases of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerSettings {
    /// Maximum size in bytes of the indexes of one user's personal views in a database that is not the user's own.
    pub personal_index_bytes_max: u64,
    /// The rank of this server among those that share the UIDs of folders, or `None` if it shares none.
    pub uid_rank: Option<UidRank>,
    /// Number of open databases above which those that are not in use are closed.
    pub open_databases_max: usize,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            personal_index_bytes_max: PERSONAL_INDEX_BYTES_DEFAULT,
            uid_rank: None,
            open_databases_max: OPEN_DATABASES_DEFAULT,
        }
    }
}

const NO_UNREAD_MARKS: u8 = 1;
const NO_VIEW_UPDATES: u8 = 2;
const OPEN_TO_COUCHDB: u8 = 4;
const UNREAD_MARKS_STAY: u8 = 8;
const UNREAD_MARKS_TRAVEL: u8 = 16;

impl DatabaseOptions {
    /// Checks the options, and refuses values that would not read back as they were set: an hour above 23, a quota of
    /// `u64::MAX`, and 0 hours for deleted documents.
    pub(crate) fn check(&self) -> Result<()> {
        match (self.full_text, self.keep_deleted_hours) {
            (FullTextSchedule::Daily(hour), _) if hour >= HOURS => {
                Err(Error::invalid(format!("hour {hour} of the full-text index"), "the hour must be from 0 to 23"))
            }
            _ if self.quota_bytes == Some(u64::MAX) => {
                Err(Error::invalid("the quota", "the value is reserved for databases without a quota"))
            }
            (_, Some(0)) => {
                Err(Error::invalid("the retention time of deleted documents", "it must be at least 1 hour"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a database of this kind may have the options.
    pub(crate) fn check_kind(&self, kind: DatabaseKind) -> Result<()> {
        if self.is_open_to_couchdb && kind != DatabaseKind::Standard {
            let reason = "only a standard database can be opened to CouchDB clients";
            return Err(Error::invalid(format!("a {} database", kind.name()), reason));
        }
        if self.is_open_to_couchdb && self.deletions == Some(DeletionRule::DeletionsCount) {
            let reason = "CouchDB clients expect that an edit counts against a deletion that does not know it";
            return Err(Error::invalid(
                "the deletion rule `delete` of a database that is open to CouchDB clients",
                reason,
            ));
        }
        Ok(())
    }

    /// Returns `true` if the unread marks of all users replicate with servers outside a cluster, so that the times of
    /// their changes are recorded.
    #[must_use]
    pub fn replicates_unread_marks(&self) -> bool {
        !self.no_unread_marks && self.unread_replication == UnreadReplication::Everywhere
    }

    fn switches(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.no_unread_marks, NO_UNREAD_MARKS)
            | bit(self.no_view_updates, NO_VIEW_UPDATES)
            | bit(self.is_open_to_couchdb, OPEN_TO_COUCHDB)
            | self.unread_replication.switches()
    }
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            purge_interval_days: PURGE_INTERVAL_DAYS,
            no_unread_marks: false,
            quota_bytes: None,
            full_text: FullTextSchedule::Off,
            no_view_updates: false,
            keep_deleted_hours: None,
            is_open_to_couchdb: false,
            deletions: None,
            unread_replication: UnreadReplication::default(),
        }
    }
}

/// The catalog's record of a database.
#[derive(Clone, PartialEq, Debug)]
pub struct DatabaseRecord {
    /// Number of the database in this store.
    pub number: DbNumber,
    /// Path as it was entered.
    pub path: String,
    /// The id that all replicas of the database share.
    pub replica_id: ReplicaId,
    /// Title shown to users.
    pub title: String,
    /// Purpose of the database.
    pub kind: DatabaseKind,
    /// The user whose unread marks are stored in the notes themselves.
    pub owner: Name,
    /// Time of creation.
    pub created: Timestamp,
    /// Options of the database.
    pub options: DatabaseOptions,
    /// Number of the store that holds the database. It is 0 as long as there is only one store.
    pub shard: u32,
    /// Version of the on-disk structure of its records.
    pub ods: OdsVersion,
    /// The times at which the settings changed that all replicas share.
    pub setting_times: SettingTimes,
}

impl DatabaseRecord {
    /// Returns the stored form. It is version 4, which contains the structure version.
    ///
    /// A database of the oldest structure is stored in a version that programs from before structure versions can read,
    /// until it is upgraded: 1, or 2 with a full-text index, or 3 if deleted documents are kept.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.options.check().is_ok(), "the options were checked before");
        let mut out = Encoder::with_capacity(128);
        let DatabaseOptions { full_text, keep_deleted_hours, .. } = self.options;
        let version = match (self.ods, full_text, keep_deleted_hours) {
            (structure, ..) if structure > OdsVersion::OLDEST => 4,
            (_, _, Some(_)) => 3,
            (_, FullTextSchedule::Off, None) => 1,
            (_, _, None) => 2,
        };
        out.u8(version).u32(self.number.0);
        if version >= 4 {
            out.u16(self.ods.0);
        }
        out.text(&self.path).u64(self.replica_id.0).text(&self.title);
        out.u8(self.kind as u8).text(self.owner.canonical()).i64(self.created.0).u32(self.shard);
        out.u16(self.options.purge_interval_days).u8(self.options.switches());
        out.u64(self.options.quota_bytes.unwrap_or(u64::MAX));
        if version >= 2 {
            out.raw(&full_text.encode());
        }
        if version >= 3 {
            out.u16(keep_deleted_hours.unwrap_or(0));
        }
        if version >= 4 {
            setting_times::encode(self.options.deletions, &self.setting_times, &mut out);
        }
        out.finish()
    }

    /// Fails if a newer program has written the database.
    pub(crate) fn check_ods(&self) -> Result<()> {
        if self.ods <= OdsVersion::CURRENT {
            return Ok(());
        }
        Err(Error::NewerOds { database: self.path.clone(), structure: self.ods, known: OdsVersion::CURRENT })
    }

    /// Parses the stored form of any version. Data that a newer structure appends is ignored, so that such a database
    /// is listed and can be refused by its structure version.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=4).contains(&version) {
            return Err(InvalidRecord);
        }
        let number = DbNumber(input.u32()?);
        let structure = if version < 4 { OdsVersion::OLDEST } else { OdsVersion(input.u16()?) };
        if structure < OdsVersion::OLDEST {
            return Err(InvalidRecord);
        }
        let path = input.text()?.to_owned();
        let replica_id = ReplicaId(input.u64()?);
        let title = input.text()?.to_owned();
        let kind = DatabaseKind::ALL.get(usize::from(input.u8()?)).copied().ok_or(InvalidRecord)?;
        let owner = Name::new(input.text()?);
        let created = Timestamp(input.i64()?);
        let shard = input.u32()?;
        let purge_interval_days = input.u16()?;
        let switches = input.u8()?;
        let mut options = DatabaseOptions {
            purge_interval_days,
            no_unread_marks: switches & NO_UNREAD_MARKS != 0,
            no_view_updates: switches & NO_VIEW_UPDATES != 0,
            quota_bytes: Some(input.u64()?).filter(|bytes| *bytes != u64::MAX),
            full_text: if version == 1 {
                FullTextSchedule::Off
            } else {
                FullTextSchedule::decode(input.u8()?, input.u8()?)?
            },
            is_open_to_couchdb: switches & OPEN_TO_COUCHDB != 0,
            unread_replication: UnreadReplication::of_switches(switches),
            keep_deleted_hours: if version < 3 { None } else { Some(input.u16()?).filter(|hours| *hours > 0) },
            deletions: None,
        };
        let mut setting_times = SettingTimes::default();
        if version >= 4 && structure <= OdsVersion::CURRENT {
            (options.deletions, setting_times) = setting_times::decode(&mut input)?;
        }
        Ok(Self {
            number,
            path,
            replica_id,
            title,
            kind,
            owner,
            created,
            options,
            shard,
            ods: structure,
            setting_times,
        })
    }
}

/// Parameters of a new database.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Path of the database.
    pub path: String,
    /// Title shown to users.
    pub title: String,
    /// Purpose of the database.
    pub kind: DatabaseKind,
    /// The user whose unread marks are stored in the notes themselves.
    pub owner: Name,
    /// The access control list.
    pub acl: crate::acl::Acl,
    /// Replica id, if the new database is a replica of an existing one. Its access control list, settings and documents
    /// are then those that the first replication brings.
    pub replica_id: Option<ReplicaId>,
    /// Options of the database.
    pub options: DatabaseOptions,
}

impl NewDatabase {
    /// Creates the parameters of a database with default options.
    #[must_use]
    pub fn new(path: &str, title: &str, kind: DatabaseKind, acl: crate::acl::Acl) -> Self {
        Self {
            path: path.to_owned(),
            title: title.to_owned(),
            kind,
            owner: Name::default(),
            acl,
            replica_id: None,
            options: DatabaseOptions::default(),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        check_path(&self.path)?;
        check_reserved(&self.path, self.kind)?;
        check_title(&self.title)?;
        self.options.check()?;
        self.options.check_kind(self.kind)?;
        self.acl.check()
    }
}

/// Checks that a title is not too long.
pub(crate) fn check_title(title: &str) -> Result<()> {
    if title.len() > DATABASE_TITLE_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a database title", max: DATABASE_TITLE_BYTES_MAX });
    }
    Ok(())
}

/// Checks that a path is valid for a database: relative, without empty or dotted parts, without control characters or
/// backslashes, and not too long.
pub fn check_path(path: &str) -> Result<()> {
    let reason = if path.is_empty() || path.len() > DATABASE_PATH_BYTES_MAX {
        "empty or too long"
    } else if path.chars().any(|c| c.is_control() || c == '\\') {
        "must not contain control characters or backslashes"
    } else if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        "must be relative, without empty or dotted parts, such as mail/jdoe.nsf"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("database path {path:?}"), reason))
}

/// Path of the directory.
const DIRECTORY_PATH: &str = "names.nsf";

/// Path of the server's log.
const LOG_PATH: &str = "log.nsf";

/// Path of the sessions of browsers.
const SESSIONS_PATH: &str = "sessions.nsf";

/// Path of the uploads of clients.
const UPLOADS_PATH: &str = "uploads.nsf";

/// Paths of Domino's other server databases. These paths are reserved for the server, which has no such databases yet.
const SERVER_PATHS: [&str; 7] =
    ["admin4.nsf", "busytime.nsf", "catalog.nsf", "certlog.nsf", "ddm.nsf", "events4.nsf", "statrep.nsf"];

/// Checks that a database of this kind may have a path. The server finds its own databases by their paths, so no
/// database of another kind may take these.
///
/// Reserved are the paths of Domino's server databases, such as `names.nsf` for the directory, and all names that end
/// with `.box`, in any folder. Only queues of the router (`mail.box`, `mail2.box`) end with it. The other names are
/// available in folders, because `mail/log.nsf` is the mail file of a user `log`.
pub fn check_reserved(path: &str, kind: DatabaseKind) -> Result<()> {
    let lower = path.to_lowercase();
    let is_permitted = match lower.strip_suffix(".box") {
        Some(stem) => kind == DatabaseKind::MailBox && is_queue_stem(stem),
        None if lower == DIRECTORY_PATH => kind == DatabaseKind::Directory,
        None if lower == LOG_PATH => kind == DatabaseKind::Log,
        None if lower == SESSIONS_PATH => kind == DatabaseKind::Sessions,
        None if lower == UPLOADS_PATH => kind == DatabaseKind::Uploads,
        None => !has_fixed_path(kind) && !SERVER_PATHS.contains(&lower.as_str()),
    };
    if is_permitted {
        return Ok(());
    }
    Err(Error::invalid(format!("database path {path:?}"), "the name is reserved for the server; choose another one"))
}

/// Returns `true` if databases of a kind have one path, and no other one.
fn has_fixed_path(kind: DatabaseKind) -> bool {
    matches!(kind, DatabaseKind::Log | DatabaseKind::Sessions | DatabaseKind::Uploads)
}

/// Returns `true` if a path without `.box` is that of a queue: `mail`, or `mail` and a number.
fn is_queue_stem(stem: &str) -> bool {
    stem.strip_prefix("mail").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

pub(crate) const NEXT_NUMBER_KEY: &[u8] = b"#";

pub(crate) fn path_key(path: &str) -> Vec<u8> {
    let mut key = vec![b'p'];
    key.extend_from_slice(path.to_lowercase().as_bytes());
    key
}

/// The first byte of the keys of unfinished copies.
const COPY: u8 = b'c';

/// Returns the key of a copy that is not complete.
pub(crate) fn copy_key(number: DbNumber) -> [u8; 5] {
    let mut key = [COPY; 5];
    key[1..].copy_from_slice(&number.to_key());
    key
}

/// Returns the range of keys of all copies that are not complete.
pub(crate) fn copies() -> KeyRange {
    KeyRange::prefix(&[COPY])
}

/// Returns the number in the key of a copy that is not complete.
pub(crate) fn split_copy(key: &[u8]) -> Option<DbNumber> {
    let [COPY, number @ ..] = <[u8; 5]>::try_from(key).ok()? else { return None };
    Some(DbNumber(u32::from_be_bytes(number)))
}

pub(crate) fn number_key(number: DbNumber) -> [u8; 5] {
    let mut key = [b'n'; 5];
    key[1..].copy_from_slice(&number.to_key());
    key
}

#[cfg(test)]
mod tests {
    use super::DatabaseKind::{Directory, Log, Mail, MailBox, Sessions, Standard, Uploads};
    use super::*;

    /// Checks which kinds of databases may have a path.
    fn check(path: &str, expected: &[DatabaseKind]) {
        let permitted = DatabaseKind::ALL.into_iter().filter(|kind| check_reserved(path, *kind).is_ok());
        assert_eq!(permitted.collect::<Vec<_>>(), expected, "{path}");
    }

    #[test]
    fn paths_of_server_databases_are_reserved() {
        for path in ["mail.box", "mail2.box", "mail16.box", "MAIL3.Box"] {
            check(path, &[MailBox]);
        }
        for path in ["x.box", ".box", "smtp.box", "mailx.box", "mail-1.box", "sub/mail.box", "mail/ann.BOX"] {
            check(path, &[]);
        }
        check("names.nsf", &[Directory]);
        check("Names.NSF", &[Directory]);
        check("log.nsf", &[Log]);
        check("sessions.nsf", &[Sessions]);
        check("uploads.nsf", &[Uploads]);
        for path in SERVER_PATHS {
            check(path, &[]);
            check(&path.to_uppercase(), &[]);
        }
        for path in [
            "mail/log.nsf",
            "mail/names.nsf",
            "archive/catalog.nsf",
            "log2.nsf",
            "names",
            "box",
            "box.nsf",
            "my/uploads.nsf",
        ] {
            check(path, &[Standard, Mail, MailBox, Directory]);
        }
    }

    #[test]
    fn refusal_names_the_path_and_the_reason() {
        let refused = check_reserved("Mail3.box", Standard).expect_err("only the router's queue may have the path");
        assert_eq!(
            refused.to_string(),
            "database path \"Mail3.box\": the name is reserved for the server; choose another one"
        );
    }
}
