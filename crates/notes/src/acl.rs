//! Access control lists: the rights of identities in a database.
//!
//! The seven levels and the flags are those of Domino. An [`Acl`] is stored as a note like everything else.
//! [`Acl::evaluate`] finds the rights of an [`Identity`]:
//!
//! 1. An entry with the very name of the identity decides alone.
//! 2. Otherwise the highest level counts among the entries for its groups and for the wildcards that cover it. Flags
//!    that permit are united. Flags that forbid hold only if every such entry of that level has them.
//! 3. Otherwise the entry `-Default-` counts, or `Anonymous` for an identity that did not log in. Without an entry
//!    `Anonymous`, it is `-Default-` again.
//!
//! An entry with a kind matches only that kind: an entry for a person does not match members of a group, and an entry
//! for a group does not match a person or server of that name. Flags count only at levels at which they have a meaning,
//! and a level brings the flags that it includes ([`AclFlags::meaningful_at`], [`AclFlags::included_in`]). An identity
//! that proved its name only with a password, or did not log in, gets at most [`Acl::max_internet_access`].
//!
//! Roles are united over all matching entries. The effect of Readers and Authors items is decided where notes are read
//! and written ([`crate::access`]). `docs/access-control.md` describes access control as a whole.

mod level;

use std::collections::{BTreeSet, HashSet};
use std::str::FromStr;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Name, NoteId, Unid};

pub use self::level::AclLevel;
use crate::error::{Error, Result};
use crate::item::{Item, ItemValue};
use crate::limits::{ACL_ENTRIES_MAX, ACL_NAME_BYTES_MAX, ACL_ROLES_MAX, ROLE_BYTES_MAX};

/// The note that contains the ACL. It is the first note of every database.
pub const ACL_NOTE_ID: NoteId = NoteId(1);

/// The UNID of the access control list, the same in all databases, so that the lists of replicas are one note.
pub const ACL_UNID: Unid = Unid(*b"\0acl\0\0\0\0\0\0\0\0\0\0\0\0");

/// The item of the ACL note that contains the list.
pub(crate) const ACL_ITEM: &str = "$ACL";

impl FromStr for AclLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.replace([' ', '-', '_'], "").to_lowercase();
        let matches = |level: &&Self| level.to_string().replace(' ', "").to_lowercase() == wanted;
        Self::ALL.iter().find(matches).copied().ok_or_else(|| {
            Error::invalid(
                format!("access level {text:?}"),
                "expected No Access, Depositor, Reader, Author, Editor, Designer or Manager",
            )
        })
    }
}

/// The permissions and prohibitions of an entry in addition to its level.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AclFlags(pub u16);

bitflags::bitflags! {
    impl AclFlags: u16 {
        /// No flag.
        const NONE = 0;
        /// Flag that forbids an Author to create documents.
        const AUTHOR_NO_CREATE = 0x0001;
        /// Flag that forbids deleting documents.
        const NO_DELETE = 0x0004;
        /// Flag that permits creating personal agents. It has no effect, because there are no personal agents yet.
        const CREATE_PERSONAL_AGENT = 0x0008;
        /// Flag that permits creating personal folders and views.
        const CREATE_PERSONAL_FOLDER = 0x0010;
        /// Flag that permits creating, changing and deleting shared folders and views.
        const CREATE_FOLDER = 0x0080;
        /// Flag that permits reading public documents, whatever the level.
        const PUBLIC_READER = 0x0200;
        /// Flag that permits creating and changing public documents, whatever the level.
        const PUBLIC_WRITER = 0x0400;
    }
}

impl AclFlags {
    const FORBIDDING: Self = Self::AUTHOR_NO_CREATE.union(Self::NO_DELETE);
    const PERSONAL: Self = Self::CREATE_PERSONAL_AGENT.union(Self::CREATE_PERSONAL_FOLDER);
    const PUBLIC: Self = Self::PUBLIC_READER.union(Self::PUBLIC_WRITER);

    /// Returns the flags that make a difference at a level. At lower levels, the permitted operation is out of reach.
    /// At higher levels, the level includes it.
    #[must_use]
    pub fn meaningful_at(level: AclLevel) -> Self {
        match level {
            AclLevel::NoAccess | AclLevel::Depositor => Self::PUBLIC,
            AclLevel::Reader => Self::PERSONAL.union(Self::PUBLIC_WRITER),
            AclLevel::Author => Self::FORBIDDING.union(Self::PERSONAL).union(Self::PUBLIC_WRITER),
            AclLevel::Editor => Self::NO_DELETE.union(Self::PERSONAL).union(Self::CREATE_FOLDER),
            AclLevel::Designer | AclLevel::Manager => Self::NO_DELETE,
        }
    }

    /// Returns the flags that a level includes, whatever its entry specifies.
    #[must_use]
    pub fn included_in(level: AclLevel) -> Self {
        match level {
            AclLevel::NoAccess | AclLevel::Depositor => Self::NONE,
            AclLevel::Reader | AclLevel::Author => Self::PUBLIC_READER,
            AclLevel::Editor => Self::PUBLIC,
            AclLevel::Designer | AclLevel::Manager => Self::PUBLIC.union(Self::PERSONAL).union(Self::CREATE_FOLDER),
        }
    }

    fn unite_within_level(self, other: Self) -> Self {
        let forbidding = self.0 & other.0 & Self::FORBIDDING.0;
        let permitting = (self.0 | other.0) & !Self::FORBIDDING.0;
        Self(forbidding | permitting)
    }
}

/// The kind of name that an entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum AclKind {
    /// An unspecified kind: the name may be that of a person, a server or a group.
    #[default]
    Unspecified = 0,
    /// A person.
    Person = 1,
    /// A server.
    Server = 2,
    /// A group of persons and servers.
    MixedGroup = 3,
    /// A group of persons.
    PersonGroup = 4,
    /// A group of servers.
    ServerGroup = 5,
}

impl AclKind {
    fn from_number(number: u8) -> Self {
        [Self::Person, Self::Server, Self::MixedGroup, Self::PersonGroup, Self::ServerGroup]
            .into_iter()
            .find(|kind| *kind as u8 == number)
            .unwrap_or_default()
    }

    fn admits(self, identity: &Identity) -> bool {
        match self {
            Self::Person | Self::PersonGroup => !identity.server,
            Self::Server | Self::ServerGroup => identity.server,
            Self::Unspecified | Self::MixedGroup => true,
        }
    }

    /// Returns `true` if an entry of this kind may stand for a single person or server.
    fn may_name_individual(self) -> bool {
        matches!(self, Self::Unspecified | Self::Person | Self::Server)
    }

    /// Returns `true` if an entry of this kind may stand for a group.
    fn may_name_group(self) -> bool {
        !matches!(self, Self::Person | Self::Server)
    }
}

/// An entry of an ACL.
#[derive(Clone, PartialEq, Debug)]
pub struct AclEntry {
    /// Name of a person, server or group, a wildcard such as `*/Sales/Acme`, `-Default-` or `Anonymous`.
    pub name: Name,
    /// The kind of name.
    pub kind: AclKind,
    /// The access level.
    pub level: AclLevel,
    /// Permissions and prohibitions in addition to the level.
    pub flags: AclFlags,
    /// The roles of the entry, with brackets: `[HRStaff]`. Each must be in [`Acl::roles`].
    pub roles: BTreeSet<String>,
}

impl AclEntry {
    /// Creates an entry without flags and roles.
    #[must_use]
    pub fn new(name: impl Into<Name>, level: AclLevel) -> Self {
        Self { name: name.into(), kind: AclKind::Unspecified, level, flags: AclFlags::NONE, roles: BTreeSet::new() }
    }

    fn is_wildcard(&self) -> bool {
        self.name.canonical().starts_with('*')
    }

    /// Returns `true` if the entry is for a single name and the identity has that name, as its own or as an alias.
    fn names_identity(&self, identity: &Identity) -> bool {
        self.kind.may_name_individual() && identity.own_names().any(|name| *name == self.name)
    }

    fn covers(&self, identity: &Identity) -> bool {
        self.kind.admits(identity)
            && (self.names_identity(identity)
                || (self.is_wildcard() && identity.own_names().any(|name| self.name.matches(name)))
                || (self.kind.may_name_group() && identity.groups.contains(&self.name)))
    }

    /// Returns the rights that the entry grants: its flags that are meaningful at its level, and those that the level
    /// includes.
    fn rights(&self) -> Rights {
        let flags = self.flags.intersection(AclFlags::meaningful_at(self.level));
        let flags = flags.union(AclFlags::included_in(self.level));
        Rights { level: self.level, flags, roles: self.roles.clone() }
    }

    fn check(&self) -> Result<()> {
        let name = self.name.canonical();
        let invalid = |reason: &str| Err(Error::invalid(format!("ACL entry {name:?}"), reason));
        if name.is_empty() || name.len() > ACL_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return invalid("the name is empty, too long or contains control characters");
        }
        let pattern = name.strip_prefix('*');
        if name.trim_start_matches('*').contains('*') || pattern.is_some_and(|rest| !is_at_part_boundary(rest)) {
            return invalid("a wildcard must be * alone, or * followed by / or @ and more, as in */Sales/Acme");
        }
        let is_special = [DEFAULT_ENTRY, ANONYMOUS_ENTRY].iter().any(|special| self.name == Name::new(special));
        if is_special && self.kind != AclKind::Unspecified {
            return invalid("the entries -Default- and Anonymous cannot have a user type");
        }
        Ok(())
    }
}

/// Checks whether the text after a wildcard's star begins a new part of a name. The pattern `*Acme` fails this check
/// because it would also cover `BigAcme`.
fn is_at_part_boundary(rest: &str) -> bool {
    rest.is_empty() || (rest.len() > 1 && (rest.starts_with('/') || rest.starts_with('@')))
}

/// The proof by which an identity established its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AuthenticationMethod {
    /// A private key: that of a certificate or of the native protocol. The server itself counts as this.
    #[default]
    Key,
    /// A password, which may be known to others or guessed.
    Password,
}

/// The identity that accesses a database: a name, the groups that contain it, and whether it is a server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// The name. Empty if the identity did not log in.
    pub name: Name,
    /// Other names of the same identity (addresses, alternate names).
    pub aliases: Vec<Name>,
    /// All groups that contain the identity, directly or through nested groups.
    pub groups: Vec<Name>,
    /// `true` for a server, `false` for a person.
    pub server: bool,
    /// `true` for this server acting for itself, with full access to its own databases.
    pub is_local_server: bool,
    /// `true` for an operator's command that works on documents on the server's behalf. It is subject to ACLs that are
    /// enforced ([`Acl::enforce_consistent`]).
    pub is_operator_tool: bool,
    /// The proof by which the name was established.
    pub authentication: AuthenticationMethod,
    /// `true` if the identity may only read, whatever the ACL permits: somebody has logged in with an application
    /// password for reading.
    pub is_reading_only: bool,
}

impl Identity {
    /// Creates the identity of a person.
    #[must_use]
    pub fn person(name: impl Into<Name>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Creates the identity under which a server works on its own databases.
    #[must_use]
    pub fn local_server(name: impl Into<Name>) -> Self {
        Self { name: name.into(), server: true, is_local_server: true, ..Self::default() }
    }

    /// Creates the identity under which an operator's commands read and write documents.
    #[must_use]
    pub fn local_tool(name: impl Into<Name>) -> Self {
        Self { is_operator_tool: true, ..Self::local_server(name) }
    }

    /// Creates the identity of a client that did not log in.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Returns the same identity with its name established by `authentication`.
    #[must_use]
    pub fn authenticated(self, authentication: AuthenticationMethod) -> Self {
        Self { authentication, ..self }
    }

    /// Returns the same identity with the right to read only.
    #[must_use]
    pub fn reading_only(self) -> Self {
        Self { is_reading_only: true, ..self }
    }

    /// Returns `true` if the identity is anonymous or established its name only with a password.
    fn is_weakly_authenticated(&self) -> bool {
        self.name.is_empty() || self.authentication == AuthenticationMethod::Password
    }

    fn own_names(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.name).chain(&self.aliases).filter(|name| !name.is_empty())
    }
}

/// The rights of an identity in a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// The access level.
    pub level: AclLevel,
    /// The flags.
    pub flags: AclFlags,
    /// The roles, with brackets.
    pub roles: BTreeSet<String>,
}

impl Rights {
    fn none() -> Self {
        Self { level: AclLevel::NoAccess, flags: AclFlags::NONE, roles: BTreeSet::new() }
    }

    /// Returns these rights without those to change anything. A Depositor, who may only create documents, has none.
    fn without_writing(self) -> Self {
        let level = if self.level >= AclLevel::Reader { AclLevel::Reader } else { AclLevel::NoAccess };
        Self { level, flags: self.flags.intersection(AclFlags::PUBLIC_READER), ..self }
    }

    /// Returns these rights capped at a level.
    ///
    /// Flags of the higher level that are also meaningful at the lower one stay, such as creating folders. Of the
    /// rights on public documents, only those that the lower level includes stay.
    fn capped_at(self, max: AclLevel) -> Self {
        if max == AclLevel::NoAccess {
            return Self { level: max, flags: AclFlags::NONE, ..self };
        }
        if self.level <= max {
            return self;
        }
        let kept = self.flags.intersection(AclFlags::meaningful_at(max)).difference(AclFlags::PUBLIC);
        Self { level: max, flags: kept.union(AclFlags::included_in(max)), ..self }
    }
}

/// An access control list.
#[derive(Clone, Debug, PartialEq)]
pub struct Acl {
    /// The entries, in the order in which they are shown.
    pub entries: Vec<AclEntry>,
    /// The roles that exist, with brackets.
    pub roles: BTreeSet<String>,
    /// `true` if the ACL is enforced: all replicas must have the same ACL, and it also applies to local tools.
    pub enforce_consistent: bool,
    /// The maximum level of an identity that established its name only with a password, or did not log in.
    pub max_internet_access: AclLevel,
}

impl Default for Acl {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            roles: BTreeSet::new(),
            enforce_consistent: false,
            max_internet_access: INTERNET_MAX,
        }
    }
}

/// Value of [`Acl::max_internet_access`] in a new ACL and in ACLs stored in version 1, which lack the field.
const INTERNET_MAX: AclLevel = AclLevel::Editor;

/// Name of the entry for every identity that no other entry matches.
pub const DEFAULT_ENTRY: &str = "-Default-";

/// Name of the group of all servers of the domain, which replicate its databases.
pub const LOCAL_DOMAIN_SERVERS: &str = "LocalDomainServers";

/// Name of the entry for identities that did not log in.
pub const ANONYMOUS_ENTRY: &str = "Anonymous";

impl Acl {
    /// Creates the ACL of a personal database: its owner is the Manager, all others have no access.
    #[must_use]
    pub fn private(owner: &Name) -> Self {
        let mut acl = Self::default();
        acl.entries.push(AclEntry::new(DEFAULT_ENTRY, AclLevel::NoAccess));
        acl.entries.push(AclEntry { kind: AclKind::Person, ..AclEntry::new(owner.canonical(), AclLevel::Manager) });
        acl
    }

    /// Creates the ACL of a database of a server alone: the server is the Manager, all others have no access.
    #[must_use]
    pub fn of_server(server: &Name) -> Self {
        let mut acl = Self::open_to_all(AclLevel::NoAccess);
        acl.entries.push(AclEntry { kind: AclKind::Server, ..AclEntry::new(server.canonical(), AclLevel::Manager) });
        acl
    }

    /// Adds the entry that lets the servers of the domain replicate the database.
    #[must_use]
    pub fn with_domain_servers(mut self) -> Self {
        let entry = AclEntry::new(LOCAL_DOMAIN_SERVERS, AclLevel::Manager);
        self.entries.push(AclEntry { kind: AclKind::ServerGroup, ..entry });
        self
    }

    /// Creates an ACL with only a default level.
    #[must_use]
    pub fn open_to_all(level: AclLevel) -> Self {
        Self { entries: vec![AclEntry::new(DEFAULT_ENTRY, level)], ..Self::default() }
    }

    /// Returns `true` if the ACL does not apply to the identity: to the server itself, and to its tools unless the ACL
    /// is enforced.
    #[must_use]
    pub fn is_bypassed_by(&self, identity: &Identity) -> bool {
        identity.is_local_server && !(identity.is_operator_tool && self.enforce_consistent)
    }

    /// Returns the rights of an identity.
    #[must_use]
    pub fn evaluate(&self, identity: &Identity) -> Rights {
        if self.is_bypassed_by(identity) {
            let level = AclLevel::Manager;
            return Rights { level, flags: AclFlags::included_in(level), roles: self.roles.clone() };
        }
        let found = self.rights_from_entries(identity);
        let found = if identity.is_weakly_authenticated() { found.capped_at(self.max_internet_access) } else { found };
        if identity.is_reading_only { found.without_writing() } else { found }
    }

    /// Returns the rights that the entries grant to an identity, before the cap for passwords.
    fn rights_from_entries(&self, identity: &Identity) -> Rights {
        if identity.name.is_empty() {
            let entry = self.named(ANONYMOUS_ENTRY).or_else(|| self.named(DEFAULT_ENTRY));
            return entry.map_or_else(Rights::none, AclEntry::rights);
        }
        let matching: Vec<&AclEntry> = self.entries.iter().filter(|entry| entry.covers(identity)).collect();
        let explicit = matching.iter().find(|entry| entry.names_identity(identity));
        let mut found = match explicit {
            Some(entry) => entry.rights(),
            None if matching.is_empty() => self.named(DEFAULT_ENTRY).map_or_else(Rights::none, AclEntry::rights),
            None => highest(&matching),
        };
        found.roles.extend(matching.iter().flat_map(|entry| entry.roles.iter().cloned()));
        found
    }

    /// Checks the limits, that names and roles are valid, that no name or role occurs twice, and that the ACL has the
    /// roles of its entries.
    pub fn check(&self) -> Result<()> {
        if self.entries.len() > ACL_ENTRIES_MAX {
            return Err(Error::Limit { what: "entries of an ACL", max: ACL_ENTRIES_MAX });
        }
        if self.roles.len() > ACL_ROLES_MAX {
            return Err(Error::Limit { what: "roles of an ACL", max: ACL_ROLES_MAX });
        }
        let mut known = HashSet::new();
        for role in &self.roles {
            check_role(role)?;
            if !known.insert(role.to_lowercase()) {
                return Err(Error::invalid(
                    format!("role {role}"),
                    "occurs twice; upper and lower case are not distinguished",
                ));
            }
        }
        let mut names = HashSet::new();
        for entry in &self.entries {
            entry.check()?;
            if !names.insert(&entry.name) {
                return Err(Error::invalid(format!("ACL entry {:?}", entry.name.canonical()), "occurs twice"));
            }
            if let Some(role) = entry.roles.iter().find(|role| !self.roles.contains(*role)) {
                return Err(Error::invalid(format!("role {role} of {}", entry.name), "the database has no such role"));
            }
        }
        Ok(())
    }

    /// Returns the stored form (version 2).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(2)
            .u8(u8::from(self.enforce_consistent))
            .u8(self.max_internet_access as u8)
            .varint(self.roles.len() as u64);
        for role in &self.roles {
            out.text(role);
        }
        out.varint(self.entries.len() as u64);
        for entry in &self.entries {
            encode_entry(&mut out, entry);
        }
        out.finish()
    }

    /// Parses the stored form. Version 1 is accepted, too. It lacks [`Acl::max_internet_access`].
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !matches!(version, 1 | 2) {
            return Err(InvalidRecord);
        }
        let uniform = input.u8()? != 0;
        let internet_max = if version == 1 { INTERNET_MAX } else { decode_level(&mut input)? };
        let roles = decode_roles(&mut input)?;
        let count = input.count()?;
        let entries = (0..count).map(|_| decode_entry(&mut input)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { entries, roles, enforce_consistent: uniform, max_internet_access: internet_max })
    }

    fn named(&self, name: &str) -> Option<&AclEntry> {
        let name = Name::new(name);
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// Creates the item of the ACL note that contains a list.
pub(crate) fn acl_item(acl: &Acl) -> Item {
    Item::summary(ACL_ITEM, ItemValue::MimePart(acl.encode()))
}

/// Checks that a text is a valid role, such as `[HRStaff]`.
pub fn check_role(role: &str) -> Result<()> {
    let inner = role.strip_prefix('[').and_then(|role| role.strip_suffix(']'));
    let is_role = inner.is_some_and(|inner| {
        let is_odd = |c: char| c.is_control() || matches!(c, '[' | ']');
        inner.trim() == inner && !inner.is_empty() && inner.len() <= ROLE_BYTES_MAX && !inner.contains(is_odd)
    });
    if is_role {
        return Ok(());
    }
    let reason = format!("a role must be enclosed in brackets and have at most {ROLE_BYTES_MAX} bytes between them");
    Err(Error::invalid(format!("role {role:?}"), reason))
}

fn highest(entries: &[&AclEntry]) -> Rights {
    let level = entries.iter().map(|entry| entry.level).max().unwrap_or(AclLevel::NoAccess);
    let flags = entries.iter().filter(|entry| entry.level == level).map(|entry| entry.rights().flags);
    Rights { level, flags: flags.reduce(AclFlags::unite_within_level).unwrap_or_default(), roles: BTreeSet::new() }
}

fn decode_roles(input: &mut Decoder<'_>) -> std::result::Result<BTreeSet<String>, InvalidRecord> {
    let count = input.count()?;
    (0..count).map(|_| Ok(input.text()?.to_owned())).collect()
}

fn decode_level(input: &mut Decoder<'_>) -> std::result::Result<AclLevel, InvalidRecord> {
    AclLevel::from_number(input.u8()?).ok_or(InvalidRecord)
}

/// Appends an entry in the form that ACLs and their history store.
pub(crate) fn encode_entry(out: &mut Encoder, entry: &AclEntry) {
    out.text(entry.name.canonical()).u8(entry.kind as u8).u8(entry.level as u8).u16(entry.flags.0);
    out.varint(entry.roles.len() as u64);
    for role in &entry.roles {
        out.text(role);
    }
}

/// Parses an entry that [`encode_entry`] wrote.
pub(crate) fn decode_entry(input: &mut Decoder<'_>) -> std::result::Result<AclEntry, InvalidRecord> {
    Ok(AclEntry {
        name: Name::new(input.text()?),
        kind: AclKind::from_number(input.u8()?),
        level: decode_level(input)?,
        flags: AclFlags(input.u16()?),
        roles: decode_roles(input)?,
    })
}

#[cfg(test)]
mod tests;
