//! The identity of a person for access control (all names and all groups, including nested ones), its digest, and the
//! deny list that excludes a person.
//!
//! Groups are found upwards through the index, from members to the groups that list them. So the cost depends on the
//! number of groups of the person, not on the size of groups. A person belongs to a group if the group lists any name,
//! short name or address of the person (an address also in the aliases of its domain), a wildcard above the
//! hierarchical name (`*/Sales/Acme`, `*/Acme`, `*`), or another group to which the person belongs. Mail-only groups
//! and deny lists give no access and pass none on.
//!
//! A deny list excludes everyone whom it lists and all members of groups that it lists, whatever the kind of these
//! groups, including mail-only ones. The nesting depth is not limited here, because otherwise a person listed at a
//! deeper level could log in.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use base::limits::GROUP_DEPTH_MAX;
use base::{Name, NoteId, Timestamp};
use notes::acl::LOCAL_DOMAIN_SERVERS;
use notes::{AuthenticationMethod, Identity};

use crate::address::Address;
use crate::directory::{CachedLookup, Directory};
use crate::error::{Error, Result};
use crate::group::{Group, GroupKind};
use crate::index::IndexReader;
use crate::key::LookupKey;
use crate::limits::{GROUPS_PER_IDENTITY_MAX, SERVER_CERTIFICATE_TIME_MAX};
use crate::person::Person;
use crate::record::Record;
use crate::settings::IssuedCertificate;

/// Why this server refuses the calls of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerExclusion {
    /// A deny list excludes it.
    DenyList(Name),
    /// "Not access server" in the document of this server names it.
    NotAccessServer,
    /// "Access server" in the document of this server does not name it.
    AccessServer,
    /// It has presented a certificate that was replaced by one that is valid until this time.
    ReplacedCertificate(Timestamp),
}

impl ServerExclusion {
    /// Returns why a server is refused, for people.
    #[must_use]
    pub fn describe(&self, server: &Name) -> String {
        let server = server.abbreviated();
        match self {
            Self::DenyList(list) => format!("the deny list {} excludes {server}", list.abbreviated()),
            Self::NotAccessServer => format!("this server excludes {server} (`doublet server set --exclude`)"),
            Self::AccessServer => format!("this server does not admit {server} (`doublet server set --admit`)"),
            Self::ReplacedCertificate(until) => format!(
                "{server} has presented a certificate that was replaced by one that is valid until {}; if it does not \
                 have the newer one any more, `doublet server renew` makes another one on the first server of the \
                 domain, and for another server `doublet server register` there and `doublet server join` on that server",
                until.to_rfc3339()
            ),
        }
    }
}

impl Directory {
    /// Returns the identity of a person who logged in with a password, including all groups.
    pub fn identity(&self, person: &Person) -> Result<Arc<Identity>> {
        let load = || self.with_current_index(|lookup| self.load_identity(lookup, person)).map(CachedLookup::Identity);
        match self.cached_or_load(&format!("i{}", person.note), load)? {
            CachedLookup::Identity(identity) => Ok(identity),
            _ => Err(Error::not_found(person.label())),
        }
    }

    /// Returns the identity of another server, including all groups that name it.
    pub fn server_identity(&self, name: &Name) -> Result<Arc<Identity>> {
        let load = || self.with_current_index(|lookup| load_server_identity(lookup, name)).map(CachedLookup::Identity);
        match self.cached_or_load(&format!("s{}", name.canonical().to_lowercase()), load)? {
            CachedLookup::Identity(identity) => Ok(identity),
            _ => Err(Error::not_found(name.abbreviated())),
        }
    }

    /// Returns the deny list that excludes a person from logging in, or `None` if there is none.
    pub fn deny_list_of(&self, person: &Person) -> Result<Option<Name>> {
        let load = || {
            let found = self.with_current_index(|lookup| load_deny_list(lookup, keys_of(lookup, person)?))?;
            Ok::<_, Error>(found.map_or(CachedLookup::NotFound, CachedLookup::DenyList))
        };
        Ok(match self.cached_or_load(&format!("x{}", person.note), load)? {
            CachedLookup::DenyList(name) => Some(name),
            _ => None,
        })
    }

    /// Returns the deny list that excludes another server from this one, or `None` if there is none.
    pub fn deny_list_of_server(&self, name: &Name) -> Result<Option<Name>> {
        let load = || {
            let found = self.with_current_index(|lookup| load_deny_list(lookup, server_keys(name)))?;
            Ok::<_, Error>(found.map_or(CachedLookup::NotFound, CachedLookup::DenyList))
        };
        Ok(match self.cached_or_load(&format!("y{}", name.canonical().to_lowercase()), load)? {
            CachedLookup::DenyList(name) => Some(name),
            _ => None,
        })
    }

    /// Returns why this server refuses the calls of another one, or `None` if it does not: a deny list, the lists in
    /// its own document, or a certificate that was replaced.
    pub fn server_exclusion(&self, name: &Name, presented: &IssuedCertificate) -> Result<Option<ServerExclusion>> {
        match self.listed_exclusion(name)? {
            None => self.certificate_exclusion(name, presented),
            listed => Ok(listed),
        }
    }

    /// Returns why this server does not call another one, or `None` if it does: a deny list, or a certificate that was
    /// replaced.
    pub fn partner_exclusion(&self, name: &Name, presented: &IssuedCertificate) -> Result<Option<ServerExclusion>> {
        match self.deny_list_of_server(name)? {
            None => self.certificate_exclusion(name, presented),
            Some(list) => Ok(Some(ServerExclusion::DenyList(list))),
        }
    }

    /// Returns [`ServerExclusion::ReplacedCertificate`] if the server has a later certificate of the same issuer. So
    /// after a renewal, nobody gets in with a copy of the key before it.
    ///
    /// One that ends so late that it is not valid yet was issued while a clock was years ahead. It says nothing about
    /// others, because the server goes on with the one before it.
    fn certificate_exclusion(&self, name: &Name, presented: &IssuedCertificate) -> Result<Option<ServerExclusion>> {
        let server = self.server(name)?;
        let recorded = server.as_ref().and_then(|server| server.certificate.as_ref());
        let latest = self.databases.clock().now().after(SERVER_CERTIFICATE_TIME_MAX);
        let newer = recorded.filter(|recorded| {
            recorded.issuer == presented.issuer && recorded.until > presented.until && recorded.until <= latest
        });
        Ok(newer.map(|newer| ServerExclusion::ReplacedCertificate(newer.until)))
    }

    fn listed_exclusion(&self, name: &Name) -> Result<Option<ServerExclusion>> {
        let itself = &self.options().server;
        let load = || {
            let found = self.with_current_index(|lookup| load_server_exclusion(lookup, itself, name))?;
            Ok::<_, Error>(found.map_or(CachedLookup::NotFound, CachedLookup::Exclusion))
        };
        Ok(match self.cached_or_load(&format!("z{}", name.canonical().to_lowercase()), load)? {
            CachedLookup::Exclusion(exclusion) => Some(exclusion),
            _ => None,
        })
    }

    /// Returns `true` if one of the notes is a group or a domain.
    ///
    /// A change of a group, or of a domain in whose aliases members are found, may put any person on a deny list. A
    /// change of a person note affects only that person.
    pub fn contains_group_or_domain(&self, notes: &HashSet<NoteId>) -> Result<bool> {
        self.with_current_index(|lookup| {
            for note in notes {
                if let Some(Record::Group(_) | Record::Domain(_)) = lookup.record(*note)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn load_identity(&self, lookup: &IndexReader<'_>, person: &Person) -> Result<Arc<Identity>> {
        let addresses = person.addresses.iter().map(|address| Name::new(&address.key()));
        let names = person.other_names.iter().chain(&person.short_names).map(|name| Name::new(name));
        let groups = groups_with_access(lookup, keys_of(lookup, person)?)?;
        Ok(Arc::new(Identity {
            name: person.name.clone(),
            aliases: names.chain(addresses).collect(),
            groups: groups.into_iter().map(|group| group.name.clone()).collect(),
            authentication: AuthenticationMethod::Password,
            ..Identity::default()
        }))
    }
}

/// Returns a digest of the names and groups of an identity, whatever their order. Two identities with the same digest
/// have the same access.
#[must_use]
pub fn digest(identity: &Identity) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for names in [std::slice::from_ref(&identity.name), identity.aliases.as_slice(), identity.groups.as_slice()] {
        let mut names: Vec<&str> = names.iter().map(Name::canonical).collect();
        names.sort_unstable();
        names.dedup();
        hasher.update(&(names.len() as u64).to_le_bytes());
        for name in names {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
    }
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

fn load_server_identity(lookup: &IndexReader<'_>, name: &Name) -> Result<Arc<Identity>> {
    let groups = groups_of_server(lookup, name)?;
    let groups = groups.into_iter().map(|group| group.name.clone()).collect();
    Ok(Arc::new(Identity { name: name.clone(), groups, server: true, ..Identity::default() }))
}

fn load_server_exclusion(lookup: &IndexReader<'_>, itself: &Name, name: &Name) -> Result<Option<ServerExclusion>> {
    if let Some(list) = load_deny_list(lookup, server_keys(name))? {
        return Ok(Some(ServerExclusion::DenyList(list)));
    }
    let Some(Record::Server(own)) = lookup.first(&LookupKey::name(itself.canonical()))? else { return Ok(None) };
    if own.admitted.is_empty() && own.excluded.is_empty() {
        return Ok(None);
    }
    let mut keys = server_keys(name);
    let groups = groups_of_server(lookup, name)?;
    keys.extend(groups.iter().map(|group| LookupKey::name(group.name.canonical())));
    let is_in = |list: &[String]| list.iter().any(|entry| keys.contains(&LookupKey::name(entry)));
    Ok(match (is_in(&own.excluded), own.admitted.is_empty() || is_in(&own.admitted)) {
        (true, _) => Some(ServerExclusion::NotAccessServer),
        (false, false) => Some(ServerExclusion::AccessServer),
        (false, true) => None,
    })
}

/// Returns all keys by which groups list a server.
fn server_keys(name: &Name) -> Vec<LookupKey> {
    let wildcards = wildcards(name);
    let names = [name.canonical()].into_iter().chain(wildcards.iter().map(String::as_str));
    names.map(LookupKey::name).collect()
}

/// Returns the groups that give access to a server. `LocalDomainServers` counts only for servers with a document. So a
/// server is out when its document is removed, also if another change of the group brings its membership back.
fn groups_of_server(lookup: &IndexReader<'_>, name: &Name) -> Result<Vec<Arc<Group>>> {
    let of_domain = Name::new(LOCAL_DOMAIN_SERVERS);
    let is_registered = matches!(lookup.first(&LookupKey::name(name.canonical()))?, Some(Record::Server(_)));
    let counts = |group: &Group| group.kind.gives_access() && (is_registered || group.name != of_domain);
    containing_groups(lookup, server_keys(name), counts, GROUP_DEPTH_MAX)
}

/// Returns the groups that give access to somebody whom groups list by these keys.
fn groups_with_access(lookup: &IndexReader<'_>, keys: Vec<LookupKey>) -> Result<Vec<Arc<Group>>> {
    containing_groups(lookup, keys, |group| group.kind.gives_access(), GROUP_DEPTH_MAX)
}

fn load_deny_list(lookup: &IndexReader<'_>, keys: Vec<LookupKey>) -> Result<Option<Name>> {
    let groups = containing_groups(lookup, keys, |_| true, usize::MAX)?;
    Ok(groups.into_iter().find(|group| group.kind == GroupKind::DenyList).map(|group| group.name.clone()))
}

/// Returns all keys by which groups list a person.
fn keys_of(lookup: &IndexReader<'_>, person: &Person) -> Result<Vec<LookupKey>> {
    let mut keys = person.name_keys();
    keys.extend(wildcards(&person.name).iter().map(|wildcard| LookupKey::name(wildcard)));
    keys.extend(address_keys(lookup, &person.addresses)?);
    Ok(keys)
}

/// Returns the wildcards that match a hierarchical name, ending with `*`, which matches every name.
fn wildcards(name: &Name) -> Vec<String> {
    let above = name.canonical().match_indices('/').map(|(index, _)| format!("*{}", &name.canonical()[index..]));
    above.chain(["*".to_owned()]).collect()
}

/// Returns the keys of addresses, also in all aliases of their domains.
fn address_keys(lookup: &IndexReader<'_>, addresses: &[Address]) -> Result<Vec<LookupKey>> {
    let mut keys = Vec::new();
    for address in addresses {
        keys.push(LookupKey::address(address));
        if let Some(Record::Domain(domain)) = lookup.first(&LookupKey::domain(address.domain()))? {
            keys.extend(domain.names().map(|name| LookupKey::address(&address.in_domain(name))));
        }
    }
    Ok(keys)
}

/// Returns the groups that list one of the keys, and the groups that list those groups. Groups for which `counts`
/// returns `false` are skipped.
///
/// Returns [`Error::GroupTooDeep`] if groups are nested deeper than `depth_max`, and [`Error::Limit`] if there are more
/// than [`GROUPS_PER_IDENTITY_MAX`] groups.
fn containing_groups(
    lookup: &IndexReader<'_>,
    keys: Vec<LookupKey>,
    counts: impl Fn(&Group) -> bool,
    depth_max: usize,
) -> Result<Vec<Arc<Group>>> {
    let mut met: HashSet<NoteId> = HashSet::new();
    let mut found = Vec::new();
    let mut waiting: VecDeque<(Vec<LookupKey>, usize)> = VecDeque::from([(keys, 0)]);
    while let Some((keys, depth)) = waiting.pop_front() {
        for note in groups_listing(lookup, &keys)? {
            if !met.insert(note) {
                continue;
            }
            let Some(Record::Group(group)) = lookup.record(note)? else { continue };
            if !counts(&group) {
                continue;
            }
            if depth >= depth_max {
                return Err(Error::GroupTooDeep { group: group.name.to_string() });
            }
            let mut above = vec![LookupKey::name(group.name.canonical())];
            above.extend(address_keys(lookup, &group.addresses)?);
            waiting.push_back((above, depth + 1));
            found.push(group);
        }
        if found.len() > GROUPS_PER_IDENTITY_MAX {
            return Err(Error::Limit { quantity: "groups of a person", max: GROUPS_PER_IDENTITY_MAX });
        }
    }
    Ok(found)
}

fn groups_listing(lookup: &IndexReader<'_>, keys: &[LookupKey]) -> Result<Vec<NoteId>> {
    let mut notes = Vec::new();
    for key in keys {
        notes.extend(lookup.holders(&LookupKey::membership(key), GROUPS_PER_IDENTITY_MAX)?);
    }
    Ok(notes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_depends_on_the_set_of_names_and_groups() {
        let names = |names: &[&str]| names.iter().map(|name| Name::new(name)).collect::<Vec<_>>();
        let of_ann = |aliases: &[&str], groups: &[&str]| {
            digest(&Identity { aliases: names(aliases), groups: names(groups), ..Identity::person("Ann/Acme") })
        };
        assert_eq!(of_ann(&["a", "ann"], &["Staff", "Sales"]), of_ann(&["ann", "a"], &["Sales", "Staff", "Sales"]));
        let different = [
            of_ann(&[], &[]),
            of_ann(&["a"], &[]),
            of_ann(&["a", "b"], &[]),
            of_ann(&["a"], &["b"]),
            of_ann(&[], &["a"]),
            digest(&Identity::person("Bob/Acme")),
        ];
        for (index, digest) in different.iter().enumerate() {
            assert!(!different[..index].contains(digest), "{index}");
        }
    }

    #[test]
    fn wildcards_cover_every_level() {
        let check = |name: &str, expected: &[&str]| assert_eq!(wildcards(&Name::new(name)), expected, "{name}");
        check("Ann/West/Sales/Acme", &["*/OU=West/OU=Sales/O=Acme", "*/OU=Sales/O=Acme", "*/O=Acme", "*"]);
        check("Ann", &["*"]);
    }
}
