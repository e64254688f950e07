//! The rights of an identity by one version of the ACL, and its names.
//!
//! A [`Grant`] decides about single notes, too: Readers items exclude from reading and Authors items admit to editing
//! ([`Grant::may_read`], [`Grant::may_edit`]). [`ReadersId`] identifies the names in such items. Only
//! [`crate::Access`] makes grants.

use std::collections::HashSet;

use base::Name;

use crate::acl::{Acl, AclFlags, AclLevel, Identity, Rights};
use crate::item::{Item, ItemFlags, ItemRef, ItemValueRef};
use crate::note::NoteFlags;

/// The rights that an identity has by one version of the ACL.
#[derive(Debug)]
pub struct Grant {
    acl_version: u64,
    rights: Rights,
    /// Names, groups and roles in lower case, for the comparison with Readers and Authors items.
    names: HashSet<String>,
    /// The name, followed by the aliases. Empty for an anonymous identity.
    own_names: Vec<Name>,
    bypasses_acl: bool,
    is_server: bool,
    is_reading_only: bool,
    who: String,
}

/// A digest of the names in the Readers and Authors items of a note, regardless of their order and case.
///
/// Notes with the same names have the same digest, so the right to read is evaluated once for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadersId(pub [u8; 16]);

impl ReadersId {
    /// Computes the digest from the items of a note.
    #[must_use]
    pub fn compute(items: &[ItemRef<'_>]) -> Self {
        let mut names: Vec<(bool, String)> = Vec::new();
        for item in items {
            let texts: &[&str] = match &item.value {
                ItemValueRef::Text(text) => std::slice::from_ref(text),
                ItemValueRef::TextList(texts) => texts,
                _ => &[],
            };
            for flag in [ItemFlags::READERS, ItemFlags::AUTHORS] {
                if item.flags.contains(flag) {
                    let name = |text: &&str| (flag == ItemFlags::READERS, Name::new(text).canonical().to_lowercase());
                    names.extend(texts.iter().filter(|text| !text.trim().is_empty()).map(name));
                }
            }
        }
        names.sort_unstable();
        names.dedup();
        Self(digest(names.iter().map(|(reads, name)| (u8::from(*reads), name.as_str()))))
    }
}

/// Computes the digest of a list. Different lists have different digests.
fn digest<'n>(names: impl Iterator<Item = (u8, &'n str)>) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for (kind, name) in names {
        hasher.update(&[kind]);
        hasher.update(&(name.len() as u64).to_be_bytes());
        hasher.update(name.as_bytes());
    }
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

impl Grant {
    /// Evaluates one version of an ACL for an identity.
    pub(crate) fn evaluate(identity: &Identity, acl: &Acl, acl_version: u64) -> Self {
        let rights = acl.evaluate(identity);
        let own = std::iter::once(&identity.name).chain(&identity.aliases).chain(&identity.groups);
        let mut names: HashSet<String> = own.map(|name| name.canonical().to_lowercase()).collect();
        names.extend(rights.roles.iter().map(|role| role.to_lowercase()));
        names.remove("");
        let own = std::iter::once(&identity.name).chain(&identity.aliases).filter(|_| !identity.name.is_empty());
        let own = own.filter(|name| !name.is_empty()).cloned().collect();
        Self {
            acl_version,
            rights,
            names,
            own_names: own,
            bypasses_acl: acl.is_bypassed_by(identity),
            is_server: identity.server,
            is_reading_only: identity.is_reading_only,
            who: identity.name.abbreviated(),
        }
    }

    /// Returns a digest of all names that Readers and Authors items may refer to. Identities with the same digest may
    /// read the same documents.
    ///
    /// Own names differ from groups and roles of the same text, because wildcards match only the former.
    #[must_use]
    pub fn names_digest(&self) -> [u8; 16] {
        let own: HashSet<String> = self.own_names.iter().map(|name| name.canonical().to_lowercase()).collect();
        let mut names: Vec<(u8, &str)> = self.names().map(|name| (u8::from(own.contains(name)), name)).collect();
        names.sort_unstable();
        digest(names.into_iter())
    }

    /// Returns the number of the version of the ACL.
    pub(crate) fn acl_version(&self) -> u64 {
        self.acl_version
    }

    pub(crate) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Returns the access level.
    #[must_use]
    pub fn level(&self) -> AclLevel {
        self.rights.level
    }

    /// Returns the name of the identity in abbreviated form, as shown to people.
    #[must_use]
    pub fn display_name(&self) -> &str {
        &self.who
    }

    /// Returns `true` if the ACL does not apply to this identity because it is the server itself. Nothing is hidden
    /// from it.
    #[must_use]
    pub fn is_server_itself(&self) -> bool {
        self.bypasses_acl
    }

    /// Returns `true` if the identity may change nothing, not even its own unread marks.
    #[must_use]
    pub fn is_reading_only(&self) -> bool {
        self.is_reading_only
    }

    /// Returns `true` if the identity is a server, this one or another.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.is_server
    }

    /// Returns the name under which personal data such as unread marks is stored, or `None` for an anonymous identity.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.own_names.first()
    }

    /// Returns the roles, with brackets.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.rights.roles.iter().map(String::as_str)
    }

    /// Returns all names that Readers and Authors items may refer to, in lower case: the name, aliases, groups and
    /// roles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Returns `true` if `name` is the identity's own name or an alias. Groups do not count.
    #[must_use]
    pub fn is_own(&self, name: &Name) -> bool {
        self.own_names.contains(name)
    }

    /// Returns the ACL flags.
    #[must_use]
    pub fn flags(&self) -> AclFlags {
        self.rights.flags
    }

    /// Returns `true` if the Readers items among the summary items admit the identity. Names in Authors items are
    /// admitted, too.
    #[must_use]
    pub fn may_read(&self, summary: &[Item]) -> bool {
        self.bypasses_acl || self.is_named_in(summary, ItemFlags::READERS).unwrap_or(true) || self.is_author(summary)
    }

    /// Returns `true` if the identity may see a note with these flags and summary items. It needs Reader access, or the
    /// note must be public and the identity have the flag for public documents. Readers items must not exclude it.
    #[must_use]
    pub fn may_see(&self, flags: NoteFlags, summary: &[Item]) -> bool {
        let reads = self.level() >= AclLevel::Reader;
        let reads_public = flags.contains(NoteFlags::PUBLIC) && self.flags().contains(AclFlags::PUBLIC_READER);
        (reads || reads_public) && self.may_read(summary)
    }

    /// Returns `true` if the identity may write public documents.
    #[must_use]
    pub fn may_write_public(&self) -> bool {
        self.flags().contains(AclFlags::PUBLIC_WRITER)
    }

    /// Returns `true` if one of the names in the `$Readers` of a design note is the identity's name, an alias, a group
    /// or a role. An empty list admits everybody.
    #[must_use]
    pub fn may_use_design(&self, readers: &[String]) -> bool {
        self.bypasses_acl || readers.is_empty() || readers.iter().any(|name| self.matches_name(name))
    }

    /// Returns `true` if the identity may change a note with these summary items.
    #[must_use]
    pub fn may_edit(&self, summary: &[Item]) -> bool {
        self.level() >= AclLevel::Editor || (self.level() == AclLevel::Author && self.is_author(summary))
    }

    /// Returns `true` if the identity may delete a note with these summary items.
    #[must_use]
    pub fn may_delete(&self, summary: &[Item]) -> bool {
        self.may_edit(summary) && !self.flags().contains(AclFlags::NO_DELETE)
    }

    /// Returns `true` if the identity may create documents.
    #[must_use]
    pub fn may_create(&self) -> bool {
        match self.level() {
            AclLevel::NoAccess | AclLevel::Reader => false,
            AclLevel::Author => !self.flags().contains(AclFlags::AUTHOR_NO_CREATE),
            AclLevel::Depositor | AclLevel::Editor | AclLevel::Designer | AclLevel::Manager => true,
        }
    }

    fn is_author(&self, summary: &[Item]) -> bool {
        self.is_named_in(summary, ItemFlags::AUTHORS).unwrap_or(false)
    }

    /// Returns `true` if a name of the identity is in the items with that flag. Returns `None` if no such item has a
    /// name.
    fn is_named_in(&self, summary: &[Item], flag: ItemFlags) -> Option<bool> {
        let flagged = summary.iter().filter(|item| item.flags.contains(flag));
        let mut names = flagged.flat_map(|item| item.value.texts()).filter(|name| !name.trim().is_empty()).peekable();
        names.peek()?;
        Some(names.any(|name| self.matches_name(name)))
    }

    /// Returns `true` if a name of an item is one of the identity's names, groups and roles, or a wildcard that covers
    /// one of its own names. As in an ACL, a wildcard covers no groups: a member of `Partners/Acme` need not be in
    /// `Acme`.
    fn matches_name(&self, name: &str) -> bool {
        let name = Name::new(name);
        let lower = name.canonical().to_lowercase();
        if lower.starts_with('*') {
            return self.own_names.iter().any(|own| name.matches(own));
        }
        self.names.contains(&lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::AclEntry;

    const GROUP: &str = "Guests/Partners/Acme";

    /// Returns the grant of an identity in a list that gives everybody Author access.
    fn grant(identity: &Identity) -> Grant {
        Grant::evaluate(identity, &Acl::open_to_all(AclLevel::Author), 1)
    }

    fn member() -> Identity {
        Identity { groups: vec![GROUP.into()], ..Identity::person("Gus/Elsewhere") }
    }

    /// Returns whether an identity may read and edit a document with this name in its Readers or Authors item.
    fn rights(identity: &Identity, name: &str) -> (bool, bool) {
        let grant = grant(identity);
        let readers = grant.may_read(&[Item::readers("Readers", vec![name.into()])]);
        (readers, grant.may_edit(&[Item::authors("Authors", vec![name.into()])]))
    }

    #[test]
    fn wildcards_cover_own_names_alone() {
        let check = |identity: &Identity, name: &str, expected: bool| {
            assert_eq!(rights(identity, name), (expected, expected), "{name} for {}", identity.name);
            let listed = [name.to_owned()];
            assert_eq!(grant(identity).may_use_design(&listed), expected, "{name} for {}", identity.name);
        };
        check(&member(), GROUP, true);
        check(&member(), "*/Partners/Acme", false);
        check(&member(), "*/Acme", false);
        check(&member(), "*/Elsewhere", true);
        check(&member(), "*", true);
        let aliased = Identity { aliases: vec![GROUP.into(), "gus@acme.test".into()], ..Identity::person("Gus") };
        check(&aliased, "*/Partners/Acme", true);
        check(&aliased, "*@acme.test", true);
        check(&Identity::anonymous(), "*", false);
    }

    #[test]
    fn wildcards_cover_no_roles() {
        let mut acl = Acl::open_to_all(AclLevel::NoAccess);
        acl.roles.insert("[Crew]".into());
        let roles = acl.roles.clone();
        acl.entries.push(AclEntry { roles, ..AclEntry::new("Anonymous", AclLevel::Reader) });
        let grant = Grant::evaluate(&Identity::anonymous(), &acl, 1);
        assert!(grant.may_read(&[Item::readers("Readers", vec!["[crew]".into()])]));
        assert!(!grant.may_read(&[Item::readers("Readers", vec!["*".into()])]), "the identity did not log in");
    }

    #[test]
    fn digest_tells_own_names_from_groups() {
        let digest = |identity: &Identity| grant(identity).names_digest();
        let alias = Identity { aliases: member().groups, groups: Vec::new(), ..member() };
        assert_ne!(digest(&member()), digest(&alias), "only the alias matches a wildcard");
        let swapped = Identity { groups: vec!["Gus/Elsewhere".into()], ..Identity::person(GROUP) };
        assert_ne!(digest(&member()), digest(&swapped));
        let other_case = Identity { groups: vec!["GUESTS/partners/Acme".into()], ..Identity::person("gus/elsewhere") };
        assert_eq!(digest(&member()), digest(&other_case));
        let two = |groups: [&str; 2]| Identity { groups: groups.map(Name::new).to_vec(), ..member() };
        assert_eq!(digest(&two(["A", "B"])), digest(&two(["B", "A"])));
    }
}
