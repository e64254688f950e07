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
//! Roles are united over all entries that match. What Readers and Authors items add to this is decided where notes
//! are read and written ([`crate::access`]).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use base::Name;
use base::codec::{Decoder, Encoder, Truncated};

use crate::error::{Error, Result};
use crate::limits::{ACL_ENTRIES_MAX, ACL_ROLES_MAX};

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
    /// May create personal folders and views. Without effect: there are none yet.
    pub const CREATE_PERSONAL_FOLDER: Self = Self(0x0010);
    /// May create shared folders and views.
    pub const CREATE_FOLDER: Self = Self(0x0080);
    /// May read public documents, whatever the level. Without effect: no document is public yet.
    pub const PUBLIC_READER: Self = Self(0x0200);
    /// May write public documents, whatever the level. Without effect: no document is public yet.
    pub const PUBLIC_WRITER: Self = Self(0x0400);

    const FORBIDDING: Self = Self(Self::AUTHOR_NO_CREATE.0 | Self::NO_DELETE.0);

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
    /// Its roles, with brackets: `[HRStaff]`.
    pub roles: BTreeSet<String>,
}

impl AclEntry {
    /// Makes an entry without flags and roles.
    #[must_use]
    pub fn new(name: impl Into<Name>, level: AclLevel) -> Self {
        Self { name: name.into(), kind: AclKind::Unspecified, level, flags: AclFlags::NONE, roles: BTreeSet::new() }
    }
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

    /// Makes the identity of one who did not log in.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
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
}

/// An access control list.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Acl {
    /// The entries, in the order in which people see them.
    pub entries: Vec<AclEntry>,
    /// The roles that exist, with brackets.
    pub roles: BTreeSet<String>,
    /// All replicas shall have the same ACL.
    pub uniform: bool,
}

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

    /// Finds what an identity has.
    #[must_use]
    pub fn evaluate(&self, identity: &Identity) -> Rights {
        if identity.local {
            return Rights { level: AclLevel::Manager, flags: AclFlags::NONE, roles: self.roles.clone() };
        }
        if identity.name.is_empty() {
            return self.named(ANONYMOUS_ENTRY).or_else(|| self.named(DEFAULT_ENTRY)).map_or_else(Rights::none, rights);
        }
        let matching = self.matching(identity);
        let explicit = matching.iter().find(|entry| identity.own_names().any(|name| *name == entry.name));
        let mut found = match explicit {
            Some(entry) => rights(entry),
            None if matching.is_empty() => self.named(DEFAULT_ENTRY).map_or_else(Rights::none, rights),
            None => highest(&matching),
        };
        found.roles.extend(matching.iter().flat_map(|entry| entry.roles.iter().cloned()));
        found
    }

    /// Checks the limits and that no name occurs twice and somebody manages the database.
    pub fn check(&self) -> Result<()> {
        if self.entries.len() > ACL_ENTRIES_MAX {
            return Err(Error::Limit { what: "entries of an ACL", max: ACL_ENTRIES_MAX });
        }
        if self.roles.len() > ACL_ROLES_MAX {
            return Err(Error::Limit { what: "roles of an ACL", max: ACL_ROLES_MAX });
        }
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.name.is_empty() || self.entries[..index].iter().any(|other| other.name == entry.name) {
                return Err(Error::invalid(format!("ACL entry {:?}", entry.name.canonical()), "empty or twice there"));
            }
        }
        Ok(())
    }

    /// Gives the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).u8(u8::from(self.uniform)).varint(self.roles.len() as u64);
        for role in &self.roles {
            out.text(role);
        }
        out.varint(self.entries.len() as u64);
        for entry in &self.entries {
            out.text(entry.name.canonical()).u8(entry.kind as u8).u8(entry.level as u8).u16(entry.flags.0);
            out.varint(entry.roles.len() as u64);
            for role in &entry.roles {
                out.text(role);
            }
        }
        out.finish()
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Truncated> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(Truncated);
        }
        let uniform = input.u8()? != 0;
        let roles = decode_roles(&mut input)?;
        let count = input.count()?;
        let entries = (0..count).map(|_| decode_entry(&mut input)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { entries, roles, uniform })
    }

    fn named(&self, name: &str) -> Option<&AclEntry> {
        let name = Name::new(name);
        self.entries.iter().find(|entry| entry.name == name)
    }

    fn matching(&self, identity: &Identity) -> Vec<&AclEntry> {
        let covers = |entry: &&AclEntry| {
            entry.kind.admits(identity)
                && (identity.own_names().any(|name| entry.name.covers(name)) || identity.groups.contains(&entry.name))
        };
        self.entries.iter().filter(covers).collect()
    }
}

fn rights(entry: &AclEntry) -> Rights {
    Rights { level: entry.level, flags: entry.flags, roles: entry.roles.clone() }
}

fn highest(entries: &[&AclEntry]) -> Rights {
    let level = entries.iter().map(|entry| entry.level).max().unwrap_or(AclLevel::NoAccess);
    let flags = entries.iter().filter(|entry| entry.level == level).map(|entry| entry.flags);
    Rights { level, flags: flags.reduce(AclFlags::unite_within_level).unwrap_or_default(), roles: BTreeSet::new() }
}

fn decode_roles(input: &mut Decoder<'_>) -> std::result::Result<BTreeSet<String>, Truncated> {
    let count = input.count()?;
    (0..count).map(|_| Ok(input.text()?.to_owned())).collect()
}

fn decode_entry(input: &mut Decoder<'_>) -> std::result::Result<AclEntry, Truncated> {
    Ok(AclEntry {
        name: Name::new(input.text()?),
        kind: AclKind::from_number(input.u8()?),
        level: AclLevel::from_number(input.u8()?).ok_or(Truncated)?,
        flags: AclFlags(input.u16()?),
        roles: decode_roles(input)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(lines: &[(&str, AclLevel)]) -> Acl {
        Acl { entries: lines.iter().map(|(name, level)| AclEntry::new(*name, *level)).collect(), ..Acl::default() }
    }

    fn ann(groups: &[&str]) -> Identity {
        Identity { groups: groups.iter().map(|name| Name::new(name)).collect(), ..Identity::person("Ann/Sales/Acme") }
    }

    #[test]
    fn the_closest_entry_decides() {
        use AclLevel::{Author, Editor, NoAccess, Reader};
        let check = |lines: &[(&str, AclLevel)], groups: &[&str], expected: AclLevel| {
            assert_eq!(acl(lines).evaluate(&ann(groups)).level, expected, "{lines:?} {groups:?}");
        };
        check(&[("-Default-", Reader)], &[], Reader);
        check(&[], &[], NoAccess);
        check(&[("-Default-", Reader), ("Ann/Sales/Acme", NoAccess), ("Staff", Editor)], &["Staff"], NoAccess);
        check(&[("-Default-", Reader), ("Staff", Author), ("*/Sales/Acme", Editor)], &["Staff"], Editor);
        check(&[("-Default-", Editor), ("*/Research/Acme", Reader)], &[], Editor);
        check(&[("-Default-", Editor), ("*/Sales/Acme", Reader)], &[], Reader);
    }

    #[test]
    fn anonymous_has_its_own_entry_or_the_default() {
        let with = acl(&[("-Default-", AclLevel::Editor), ("Anonymous", AclLevel::NoAccess)]);
        assert_eq!(with.evaluate(&Identity::anonymous()).level, AclLevel::NoAccess);
        let without = acl(&[("-Default-", AclLevel::Reader)]);
        assert_eq!(without.evaluate(&Identity::anonymous()).level, AclLevel::Reader);
    }

    #[test]
    fn a_person_entry_does_not_serve_a_server() {
        let mut list = acl(&[("-Default-", AclLevel::NoAccess), ("Ann/Sales/Acme", AclLevel::Editor)]);
        list.entries[1].kind = AclKind::Server;
        assert_eq!(list.evaluate(&ann(&[])).level, AclLevel::NoAccess);
    }

    #[test]
    fn forbidding_flags_hold_only_when_all_groups_have_them() {
        let mut list = acl(&[("Staff", AclLevel::Editor), ("Board", AclLevel::Editor)]);
        list.entries[0].flags = AclFlags::NO_DELETE.with(AclFlags::CREATE_FOLDER);
        assert_eq!(list.evaluate(&ann(&["Staff"])).flags, AclFlags::NO_DELETE.with(AclFlags::CREATE_FOLDER));
        assert_eq!(list.evaluate(&ann(&["Staff", "Board"])).flags, AclFlags::CREATE_FOLDER);
    }

    #[test]
    fn roles_are_united() {
        let mut list = acl(&[("Staff", AclLevel::Reader), ("Ann/Sales/Acme", AclLevel::Editor)]);
        list.entries[0].roles.insert("[A]".into());
        list.entries[1].roles.insert("[B]".into());
        let roles: Vec<_> = list.evaluate(&ann(&["Staff"])).roles.into_iter().collect();
        assert_eq!(roles, ["[A]", "[B]"]);
    }

    #[test]
    fn the_stored_form_reads_back() {
        let mut list = acl(&[("-Default-", AclLevel::Reader), ("Ann/Sales/Acme", AclLevel::Manager)]);
        list.uniform = true;
        list.roles.insert("[X]".into());
        list.entries[1].roles.insert("[X]".into());
        assert_eq!(Acl::decode(&list.encode()), Ok(list.clone()));
        let bytes = list.encode();
        assert!((0..bytes.len()).all(|length| Acl::decode(&bytes[..length]).is_err()));
    }

    #[test]
    fn a_name_may_not_occur_twice() {
        assert!(acl(&[("A", AclLevel::Reader), ("a", AclLevel::Editor)]).check().is_err());
    }
}
