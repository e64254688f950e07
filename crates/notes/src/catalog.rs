//! The catalog: which databases a server has.
//!
//! A database is a number, and every key of it begins with that number; the catalog maps its path (`mail/jdoe.nsf`,
//! compared without regard to case) to the number, the replica id and the options. Numbers are never used twice, so
//! what a dropped database leaves behind cannot appear in a new one.
//!
//! | key in `catalog` | value |
//! |---|---|
//! | `p`, path in lower case | [`DatabaseRecord`] |
//! | `n`, number | path in lower case |
//! | `#` | the number that the next database will get |

use base::codec::{Decoder, Encoder, Truncated};
use base::limits::{DATABASE_PATH_BYTES_MAX, DATABASE_TITLE_BYTES_MAX};
use base::{DbNumber, Name, ReplicaId, Timestamp};

use crate::error::{Error, Result};
use crate::limits::PURGE_INTERVAL_DAYS;
use crate::structure::Structure;

/// What a database is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum DatabaseKind {
    /// Documents.
    #[default]
    Standard = 0,
    /// One user's mail.
    Mail = 1,
    /// The router's queue.
    MailBox = 2,
    /// People and groups.
    Directory = 3,
}

impl DatabaseKind {
    const ALL: [Self; 4] = [Self::Standard, Self::Mail, Self::MailBox, Self::Directory];

    /// Gives the name under which people and scripts know the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Mail => "mail",
            Self::MailBox => "mailbox",
            Self::Directory => "directory",
        }
    }
}

/// When the full-text index of a database is brought up to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum FullText {
    /// There is none.
    #[default]
    Off,
    /// Soon after each change.
    Immediate,
    /// Every hour.
    Hourly,
    /// Once a day, in this hour (UTC, 0 to 23).
    Daily(u8),
}

/// Hours of a day.
const HOURS: u8 = 24;

impl FullText {
    fn encode(self) -> [u8; 2] {
        match self {
            Self::Off => [0, 0],
            Self::Immediate => [1, 0],
            Self::Hourly => [2, 0],
            Self::Daily(hour) => [3, hour],
        }
    }

    fn decode(kind: u8, hour: u8) -> std::result::Result<Self, Truncated> {
        match (kind, hour) {
            (0, 0) => Ok(Self::Off),
            (1, 0) => Ok(Self::Immediate),
            (2, 0) => Ok(Self::Hourly),
            (3, hour) if hour < HOURS => Ok(Self::Daily(hour)),
            _ => Err(Truncated),
        }
    }
}

/// What may be set for a database as a whole (`domino.md` §2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatabaseOptions {
    /// Days after which deletion stubs are purged.
    pub purge_interval_days: u16,
    /// Nobody's unread marks are kept.
    pub no_unread_marks: bool,
    /// Bytes that the documents may take; mail beyond is refused.
    pub quota_bytes: Option<u64>,
    /// When the full-text index is brought up to date.
    pub full_text: FullText,
    /// The Update task leaves the views alone; they are updated when they are opened.
    pub no_view_updates: bool,
    /// Hours for which deleted documents can be restored; nothing where a deletion is for good.
    pub keep_deleted_hours: Option<u16>,
}

const NO_UNREAD_MARKS: u8 = 1;
const NO_VIEW_UPDATES: u8 = 2;

impl DatabaseOptions {
    /// Refuses what would not read back as it was said.
    pub(crate) fn check(&self) -> Result<()> {
        match (self.full_text, self.keep_deleted_hours) {
            (FullText::Daily(hour), _) if hour >= HOURS => {
                Err(Error::invalid(format!("hour {hour} of the full-text index"), "a day has the hours 0 to 23"))
            }
            _ if self.quota_bytes == Some(u64::MAX) => Err(Error::invalid("the quota", "it is none")),
            (_, Some(0)) => Err(Error::invalid("the time for which deleted documents are kept", "it is 0 hours")),
            _ => Ok(()),
        }
    }

    fn switches(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.no_unread_marks, NO_UNREAD_MARKS) | bit(self.no_view_updates, NO_VIEW_UPDATES)
    }
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            purge_interval_days: PURGE_INTERVAL_DAYS,
            no_unread_marks: false,
            quota_bytes: None,
            full_text: FullText::Off,
            no_view_updates: false,
            keep_deleted_hours: None,
        }
    }
}

/// What the catalog knows of a database.
#[derive(Clone, PartialEq, Debug)]
pub struct DatabaseRecord {
    /// Its number in this store.
    pub number: DbNumber,
    /// Its path, as it was written.
    pub path: String,
    /// What all its replicas share.
    pub replica_id: ReplicaId,
    /// What people call it.
    pub title: String,
    /// What it is used for.
    pub kind: DatabaseKind,
    /// Whose unread marks are the marks of the notes themselves.
    pub owner: Name,
    /// When it was made.
    pub created: Timestamp,
    /// Its options.
    pub options: DatabaseOptions,
    /// The store that holds it; 0 until there is more than one.
    pub shard: u32,
    /// Which forms its records have.
    pub structure: Structure,
}

impl DatabaseRecord {
    /// Gives the stored form: version 4, which says the structure. Of databases of the oldest structure, as long as they are not upgraded, a version that
    /// programs from before there was a number read too: 1, with a full-text index 2, where deleted documents are kept 3.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.options.check().is_ok(), "what is stored reads back as it was said");
        let mut out = Encoder::with_capacity(128);
        let DatabaseOptions { full_text, keep_deleted_hours, .. } = self.options;
        let version = match (self.structure, full_text, keep_deleted_hours) {
            (structure, ..) if structure > Structure::OLDEST => 4,
            (_, _, Some(_)) => 3,
            (_, FullText::Off, None) => 1,
            (_, _, None) => 2,
        };
        out.u8(version).u32(self.number.0);
        if version >= 4 {
            out.u16(self.structure.0);
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
        out.finish()
    }

    /// Reads the stored form of any version. What a newer structure adds behind the end is passed over, so that such a database is listed and can be
    /// refused by its number.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=4).contains(&version) {
            return Err(Truncated);
        }
        let number = DbNumber(input.u32()?);
        let structure = if version < 4 { Structure::OLDEST } else { Structure(input.u16()?) };
        if structure < Structure::OLDEST {
            return Err(Truncated);
        }
        let path = input.text()?.to_owned();
        let replica_id = ReplicaId(input.u64()?);
        let title = input.text()?.to_owned();
        let kind = DatabaseKind::ALL.get(usize::from(input.u8()?)).copied().ok_or(Truncated)?;
        let owner = Name::new(input.text()?);
        let created = Timestamp(input.i64()?);
        let shard = input.u32()?;
        let (purge_interval_days, switches) = (input.u16()?, input.u8()?);
        let options = DatabaseOptions {
            purge_interval_days,
            no_unread_marks: switches & NO_UNREAD_MARKS != 0,
            no_view_updates: switches & NO_VIEW_UPDATES != 0,
            quota_bytes: Some(input.u64()?).filter(|bytes| *bytes != u64::MAX),
            full_text: if version == 1 { FullText::Off } else { FullText::decode(input.u8()?, input.u8()?)? },
            keep_deleted_hours: if version < 3 { None } else { Some(input.u16()?).filter(|hours| *hours > 0) },
        };
        Ok(Self { number, path, replica_id, title, kind, owner, created, options, shard, structure })
    }
}

/// A database to be made.
#[derive(Clone, Debug)]
pub struct NewDatabase {
    /// Where.
    pub path: String,
    /// What people call it.
    pub title: String,
    /// What it is used for.
    pub kind: DatabaseKind,
    /// Whose unread marks are the marks of the notes themselves.
    pub owner: Name,
    /// Who may do what.
    pub acl: crate::acl::Acl,
    /// Given when this is a new replica of a database.
    pub replica_id: Option<ReplicaId>,
    /// Its options.
    pub options: DatabaseOptions,
}

impl NewDatabase {
    /// Describes a database with default options.
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
        check_title(&self.title)?;
        self.options.check()?;
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

/// Checks that a path can be one of a database: relative, no empty or dotted parts, no control characters.
pub fn check_path(path: &str) -> Result<()> {
    let why = if path.is_empty() || path.len() > DATABASE_PATH_BYTES_MAX {
        "empty or too long"
    } else if path.chars().any(|c| c.is_control() || c == '\\') {
        "must not contain control characters or backslashes"
    } else if path.split('/').any(|part| part.is_empty() || part == "." || part == "..") {
        "must be relative, without empty or dotted parts, such as mail/jdoe.nsf"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("database path {path:?}"), why))
}

pub(crate) const NEXT_NUMBER_KEY: &[u8] = b"#";

pub(crate) fn path_key(path: &str) -> Vec<u8> {
    let mut key = vec![b'p'];
    key.extend_from_slice(path.to_lowercase().as_bytes());
    key
}

pub(crate) fn number_key(number: DbNumber) -> [u8; 5] {
    let mut key = [b'n'; 5];
    key[1..].copy_from_slice(&number.to_key());
    key
}
