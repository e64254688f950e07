//! Access control lists: who may do what in a database.
//!
//! The seven levels and the flags are those of the original (`domino.md` §2.2). An [`Acl`] is kept as a note like
//! everything else; [`Acl::evaluate`] finds what an [`Identity`] has:
//!
//! 1. an entry with the very name of the identity decides alone;
//! 2. else the highest level among the entries for its groups and for wildcards that cover it; flags that permit are
//!    united, flags that forbid hold only if every such entry of that level has them;
//! 3. else the entry `-Default-`, or `Anonymous` for one who did not log in (no such entry: `-Default-`).
//!
//! An entry whose kind is said counts only for that kind: a person's for nobody's group, a group's for nobody of that name. Flags count only at levels
//! at which they mean something, and a level brings the flags with it that it includes ([`AclFlags::meaningful_at`], [`AclFlags::included_in`]).
//! Who proved their name with nothing but a password, or did not log in, gets at most [`Acl::internet_max`].
//!
//! Roles are united over all entries that match. What Readers and Authors items add to this is decided where notes
//! are read and written ([`crate::access`]). The whole of it stands in `docs/access-control.md`.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::str::FromStr;

use base::Name;
use base::codec::{Decoder, Encoder, Truncated};

use crate::error::{Error, Result};
use crate::limits::{ACL_ENTRIES_MAX, ACL_NAME_BYTES_MAX, ACL_ROLES_MAX, ROLE_BYTES_MAX};

/// How much somebody may do, each level including those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum AclLevel {
    /// Nothing.
    NoAccess = 0,
    /// May put documents in, sees none.
    Depositor = 1,
    /// May read documents.
    Reader = 2,
    /// May create documents and change those that name them as author.
    Author = 3,
    /// May change all documents.
    Editor = 4,
    /// May change the design.
    Designer = 5,
    /// May change the ACL, and delete the database.
    Manager = 6,
}

impl AclLevel {
    /// All levels, lowest first.
    pub const ALL: [Self; 7] =
        [Self::NoAccess, Self::Depositor, Self::Reader, Self::Author, Self::Editor, Self::Designer, Self::Manager];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for AclLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAccess => "No Access",
            Self::Depositor => "Depositor",
            Self::Reader => "Reader",
            Self::Author => "Author",
            Self::Editor => "Editor",
            Self::Designer => "Designer",
            Self::Manager => "Manager",
        })
    }
}

impl FromStr for AclLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wanted = text.replace([' ', '-', '_'], "").to_lowercase();
        let matches = |level: &&Self| level.to_string().replace(' ', "").to_lowercase() == wanted;
        Self::ALL
            .iter()
            .find(matches)
            .copied()
            .ok_or_else(|| Error::invalid(format!("access level {text:?}"), "one of NoAccess … Manager was expected"))
    }
}

/// What an entry permits or forbids beside its level.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AclFlags(pub u16);

impl AclFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// An author may not create documents.
    pub const AUTHOR_NO_CREATE: Self = Self(0x0001);
    /// May not delete documents.
    pub const NO_DELETE: Self = Self(0x0004);
    /// May create personal agents. Without effect: there are none yet.
    pub const CREATE_PERSONAL_AGENT: Self = Self(0x0008);
    /// May create personal folders and views.
    pub const CREATE_PERSONAL_FOLDER: Self = Self(0x0010);
    /// May create, change and delete shared folders and views.
    pub const CREATE_FOLDER: Self = Self(0x0080);
    /// May read public documents, whatever the level.
    pub const PUBLIC_READER: Self = Self(0x0200);
    /// May create and change public documents, whatever the level.
    pub const PUBLIC_WRITER: Self = Self(0x0400);

    const FORBIDDING: Self = Self(Self::AUTHOR_NO_CREATE.0 | Self::NO_DELETE.0);
    const PERSONAL: Self = Self(Self::CREATE_PERSONAL_AGENT.0 | Self::CREATE_PERSONAL_FOLDER.0);
    const PUBLIC: Self = Self(Self::PUBLIC_READER.0 | Self::PUBLIC_WRITER.0);

    /// Gives the flags that make a difference at a level: below, what they permit is out of reach; above, the level includes it.
    #[must_use]
    pub fn meaningful_at(level: AclLevel) -> Self {
        match level {
            AclLevel::NoAccess | AclLevel::Depositor => Self::PUBLIC,
            AclLevel::Reader => Self::PERSONAL.with(Self::PUBLIC_WRITER),
            AclLevel::Author => Self::FORBIDDING.with(Self::PERSONAL).with(Self::PUBLIC_WRITER),
            AclLevel::Editor => Self::NO_DELETE.with(Self::PERSONAL).with(Self::CREATE_FOLDER),
            AclLevel::Designer | AclLevel::Manager => Self::NO_DELETE,
        }
    }

    /// Gives the flags that a level has whatever its entry says.
    #[must_use]
    pub fn included_in(level: AclLevel) -> Self {
        match level {
            AclLevel::NoAccess | AclLevel::Depositor => Self::NONE,
            AclLevel::Reader | AclLevel::Author => Self::PUBLIC_READER,
            AclLevel::Editor => Self::PUBLIC,
            AclLevel::Designer | AclLevel::Manager => Self::PUBLIC.with(Self::PERSONAL).with(Self::CREATE_FOLDER),
        }
    }

    /// Tells whether all flags of `other` are set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Gives the flags of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Gives these flags less those of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn common_with(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn unite_within_level(self, other: Self) -> Self {
        let forbidding = self.0 & other.0 & Self::FORBIDDING.0;
        let permitting = (self.0 | other.0) & !Self::FORBIDDING.0;
        Self(forbidding | permitting)
    }
}

/// What kind of name an entry holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum AclKind {
    /// Not said.
    #[default]
    Unspecified = 0,
    /// A person.
    Person = 1,
    /// A server.
    Server = 2,
    /// A group of both.
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

    /// Tells whether an entry of this kind can be about one alone.
    fn names_one(self) -> bool {
        matches!(self, Self::Unspecified | Self::Person | Self::Server)
    }

    /// Tells whether an entry of this kind can be about a group.
    fn names_group(self) -> bool {
        !matches!(self, Self::Person | Self::Server)
    }
}

/// One line of an ACL.
#[derive(Clone, PartialEq, Debug)]
pub struct AclEntry {
    /// A person, server, group, a wildcard such as `*/Sales/Acme`, `-Default-` or `Anonymous`.
    pub name: Name,
    /// What kind of name that is.
    pub kind: AclKind,
    /// How much it may do.
    pub level: AclLevel,
    /// What else it may or may not do.
    pub flags: AclFlags,
    /// Its roles, with brackets: `[HRStaff]`. Each is one of the list's.
    pub roles: BTreeSet<String>,
}

impl AclEntry {
    /// Makes an entry without flags and roles.
    #[must_use]
    pub fn new(name: impl Into<Name>, level: AclLevel) -> Self {
        Self { name: name.into(), kind: AclKind::Unspecified, level, flags: AclFlags::NONE, roles: BTreeSet::new() }
    }

    fn is_wildcard(&self) -> bool {
        self.name.canonical().starts_with('*')
    }

    /// Tells whether this is the entry of the one who asks, by name.
    fn names(&self, identity: &Identity) -> bool {
        self.kind.names_one() && identity.own_names().any(|name| *name == self.name)
    }

    fn covers(&self, identity: &Identity) -> bool {
        self.kind.admits(identity)
            && (self.names(identity)
                || (self.is_wildcard() && identity.own_names().any(|name| self.name.covers(name)))
                || (self.kind.names_group() && identity.groups.contains(&self.name)))
    }

    /// Gives what the entry grants: its flags as far as they mean something at its level, and those that the level includes.
    fn rights(&self) -> Rights {
        let flags = self.flags.common_with(AclFlags::meaningful_at(self.level));
        let flags = flags.with(AclFlags::included_in(self.level));
        Rights { level: self.level, flags, roles: self.roles.clone() }
    }

    fn check(&self) -> Result<()> {
        let name = self.name.canonical();
        let invalid = |why: &str| Err(Error::invalid(format!("ACL entry {name:?}"), why));
        if name.is_empty() || name.len() > ACL_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return invalid("a name is not empty, not too long and has no control characters");
        }
        let pattern = name.strip_prefix('*');
        if name.trim_start_matches('*').contains('*') || pattern.is_some_and(|rest| !ends_at_a_part(rest)) {
            return invalid("a wildcard begins with * and goes on with /, as in */Sales/Acme, or is * alone");
        }
        let is_special = [DEFAULT_ENTRY, ANONYMOUS_ENTRY].iter().any(|special| self.name == Name::new(special));
        if is_special && self.kind != AclKind::Unspecified {
            return invalid("this entry is for whoever comes and has no kind");
        }
        Ok(())
    }
}

/// Tells whether what follows a star lets it stand for whole parts of names: `*Acme` would cover `BigAcme`, too.
fn ends_at_a_part(rest: &str) -> bool {
    rest.is_empty() || (rest.len() > 1 && (rest.starts_with('/') || rest.starts_with('@')))
}

/// How somebody proved who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Authentication {
    /// With a key of their own: a certificate, or the native protocol's; and the server itself.
    #[default]
    Key,
    /// With a password, which others may know or try.
    Password,
}

/// Who asks: a name, the groups it belongs to, and whether it is a server.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Identity {
    /// The name; empty for one who did not log in.
    pub name: Name,
    /// Other names of the same one (addresses, alternate names).
    pub aliases: Vec<Name>,
    /// All groups, nested ones included.
    pub groups: Vec<Name>,
    /// A server, not a person.
    pub server: bool,
    /// This very server acting for itself: full access to its own databases.
    pub local: bool,
    /// A command of the operator that works on documents on the server's behalf; it obeys lists that are enforced ([`Acl::uniform`]).
    pub tool: bool,
    /// How they proved the name.
    pub authentication: Authentication,
}

impl Identity {
    /// Makes the identity of a person.
    #[must_use]
    pub fn person(name: impl Into<Name>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Makes the identity under which a server works on its own databases.
    #[must_use]
    pub fn local_server(name: impl Into<Name>) -> Self {
        Self { name: name.into(), server: true, local: true, ..Self::default() }
    }

    /// Makes the identity under which commands of the operator read and write documents.
    #[must_use]
    pub fn local_tool(name: impl Into<Name>) -> Self {
        Self { tool: true, ..Self::local_server(name) }
    }

    /// Makes the identity of one who did not log in.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Gives the same one, who has proved the name in this way.
    #[must_use]
    pub fn authenticated(self, authentication: Authentication) -> Self {
        Self { authentication, ..self }
    }

    /// Tells whether the name, if there is one, stands on a password at best.
    fn is_weakly_known(&self) -> bool {
        self.name.is_empty() || self.authentication == Authentication::Password
    }

    fn own_names(&self) -> impl Iterator<Item = &Name> {
        std::iter::once(&self.name).chain(&self.aliases).filter(|name| !name.is_empty())
    }
}

/// What an identity has in a database.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// The level.
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

    /// Gives these rights less what goes beyond a level. What a higher level includes and the lower one may have stays, such as making folders; what
    /// is public stays only to those who may read anyway.
    fn at_most(self, max: AclLevel) -> Self {
        if max == AclLevel::NoAccess {
            return Self { level: max, flags: AclFlags::NONE, ..self };
        }
        if self.level <= max {
            return self;
        }
        let kept = self.flags.common_with(AclFlags::meaningful_at(max)).without(AclFlags::PUBLIC);
        Self { level: max, flags: kept.with(AclFlags::included_in(max)), ..self }
    }
}

/// An access control list.
#[derive(Clone, Debug, PartialEq)]
pub struct Acl {
    /// The entries, in the order in which people see them.
    pub entries: Vec<AclEntry>,
    /// The roles that exist, with brackets.
    pub roles: BTreeSet<String>,
    /// All replicas shall have the same ACL, and it holds for local tools, too.
    pub uniform: bool,
    /// The most that those get who proved their name with a password, or did not log in.
    pub internet_max: AclLevel,
}

impl Default for Acl {
    fn default() -> Self {
        Self { entries: Vec::new(), roles: BTreeSet::new(), uniform: false, internet_max: INTERNET_MAX }
    }
}

/// [`Acl::internet_max`] of lists that do not say another one, those of version 1 among them.
const INTERNET_MAX: AclLevel = AclLevel::Editor;

/// The name of the entry for everybody who is not named.
pub const DEFAULT_ENTRY: &str = "-Default-";

/// The name of the entry for those who did not log in.
pub const ANONYMOUS_ENTRY: &str = "Anonymous";

impl Acl {
    /// Makes the ACL of a database that belongs to one person: they manage it, nobody else sees it.
    #[must_use]
    pub fn private(owner: &Name) -> Self {
        let mut acl = Self::default();
        acl.entries.push(AclEntry::new(DEFAULT_ENTRY, AclLevel::NoAccess));
        acl.entries.push(AclEntry { kind: AclKind::Person, ..AclEntry::new(owner.canonical(), AclLevel::Manager) });
        acl
    }

    /// Makes an ACL with a default level only.
    #[must_use]
    pub fn open_to_all(level: AclLevel) -> Self {
        Self { entries: vec![AclEntry::new(DEFAULT_ENTRY, level)], ..Self::default() }
    }

    /// Tells whether the list does not hold for somebody: the server itself, and its tools unless it is enforced.
    #[must_use]
    pub fn is_open_to(&self, identity: &Identity) -> bool {
        identity.local && !(identity.tool && self.uniform)
    }

    /// Finds what an identity has.
    #[must_use]
    pub fn evaluate(&self, identity: &Identity) -> Rights {
        if self.is_open_to(identity) {
            let level = AclLevel::Manager;
            return Rights { level, flags: AclFlags::included_in(level), roles: self.roles.clone() };
        }
        let found = self.find(identity);
        if identity.is_weakly_known() { found.at_most(self.internet_max) } else { found }
    }

    /// Finds what the entries say of an identity.
    fn find(&self, identity: &Identity) -> Rights {
        if identity.name.is_empty() {
            let entry = self.named(ANONYMOUS_ENTRY).or_else(|| self.named(DEFAULT_ENTRY));
            return entry.map_or_else(Rights::none, AclEntry::rights);
        }
        let matching: Vec<&AclEntry> = self.entries.iter().filter(|entry| entry.covers(identity)).collect();
        let explicit = matching.iter().find(|entry| entry.names(identity));
        let mut found = match explicit {
            Some(entry) => entry.rights(),
            None if matching.is_empty() => self.named(DEFAULT_ENTRY).map_or_else(Rights::none, AclEntry::rights),
            None => highest(&matching),
        };
        found.roles.extend(matching.iter().flat_map(|entry| entry.roles.iter().cloned()));
        found
    }

    /// Checks the limits, that names and roles can be such, that none occurs twice, and that the roles of entries exist.
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
                return Err(Error::invalid(format!("role {role}"), "there twice, in two spellings"));
            }
        }
        let mut names = HashSet::new();
        for entry in &self.entries {
            entry.check()?;
            if !names.insert(&entry.name) {
                return Err(Error::invalid(format!("ACL entry {:?}", entry.name.canonical()), "there twice"));
            }
            if let Some(role) = entry.roles.iter().find(|role| !self.roles.contains(*role)) {
                return Err(Error::invalid(format!("role {role} of {}", entry.name), "no role of this database"));
            }
        }
        Ok(())
    }

    /// Gives the stored form (version 2).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(2).u8(u8::from(self.uniform)).u8(self.internet_max as u8).varint(self.roles.len() as u64);
        for role in &self.roles {
            out.text(role);
        }
        out.varint(self.entries.len() as u64);
        for entry in &self.entries {
            encode_entry(&mut out, entry);
        }
        out.finish()
    }

    /// Reads the stored form, also that of version 1, which says nothing of the most that passwords give.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !matches!(version, 1 | 2) {
            return Err(Truncated);
        }
        let uniform = input.u8()? != 0;
        let internet_max = if version == 1 { INTERNET_MAX } else { decode_level(&mut input)? };
        let roles = decode_roles(&mut input)?;
        let count = input.count()?;
        let entries = (0..count).map(|_| decode_entry(&mut input)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { entries, roles, uniform, internet_max })
    }

    fn named(&self, name: &str) -> Option<&AclEntry> {
        let name = Name::new(name);
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// Checks that a text can be a role: `[HRStaff]`.
pub fn check_role(role: &str) -> Result<()> {
    let inner = role.strip_prefix('[').and_then(|role| role.strip_suffix(']'));
    let is_role = inner.is_some_and(|inner| {
        let is_odd = |c: char| c.is_control() || matches!(c, '[' | ']');
        inner.trim() == inner && !inner.is_empty() && inner.len() <= ROLE_BYTES_MAX && !inner.contains(is_odd)
    });
    if is_role {
        return Ok(());
    }
    let why = format!("a role stands in brackets and has at most {ROLE_BYTES_MAX} bytes between them");
    Err(Error::invalid(format!("role {role:?}"), why))
}

fn highest(entries: &[&AclEntry]) -> Rights {
    let level = entries.iter().map(|entry| entry.level).max().unwrap_or(AclLevel::NoAccess);
    let flags = entries.iter().filter(|entry| entry.level == level).map(|entry| entry.rights().flags);
    Rights { level, flags: flags.reduce(AclFlags::unite_within_level).unwrap_or_default(), roles: BTreeSet::new() }
}

fn decode_roles(input: &mut Decoder<'_>) -> std::result::Result<BTreeSet<String>, Truncated> {
    let count = input.count()?;
    (0..count).map(|_| Ok(input.text()?.to_owned())).collect()
}

fn decode_level(input: &mut Decoder<'_>) -> std::result::Result<AclLevel, Truncated> {
    AclLevel::from_number(input.u8()?).ok_or(Truncated)
}

/// Appends an entry as lists and their history hold it.
pub(crate) fn encode_entry(out: &mut Encoder, entry: &AclEntry) {
    out.text(entry.name.canonical()).u8(entry.kind as u8).u8(entry.level as u8).u16(entry.flags.0);
    out.varint(entry.roles.len() as u64);
    for role in &entry.roles {
        out.text(role);
    }
}

/// Takes what [`encode_entry`] wrote.
pub(crate) fn decode_entry(input: &mut Decoder<'_>) -> std::result::Result<AclEntry, Truncated> {
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
