//! Proof that an identity may act in a database.
//!
//! [`Database::authorize`](crate::Database::authorize) evaluates the ACL once and returns an [`Access`] of the
//! requested level, or an error. Everything that touches the data of a database takes an `Access`, so the check cannot
//! be forgotten. The level is part of the type: reading needs [`AtLeast<Reader>`], changing the ACL needs
//! [`AtLeast<Manager>`].
//!
//! Two of the level types are not steps of the ladder of ACL levels. [`level::Public`] proves the right to read public
//! documents, by Reader access or by the flag for it. It yields a [`crate::PublicSnapshot`] but no
//! [`crate::DatabaseSnapshot`]. [`level::Depositor`], which transactions require, is also granted to an identity that
//! may write public documents only. Each method of a writer checks by itself which documents may be written.
//!
//! An `Access` notices when the ACL changes after its creation: it is evaluated again before the next use, so a revoked
//! right is lost at once. Readers and Authors items refine it per note: [`Grant::may_read`], [`Grant::may_edit`].

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use base::Name;

use crate::acl::{AclFlags, AclLevel, Identity, Rights};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::item::{Item, ItemFlags, ItemRef, ValueRef};
use crate::note::NoteFlags;

/// The access levels as types.
pub mod level {
    macro_rules! levels {
        ($($(#[$doc:meta])* $name:ident includes $($below:ident)*;)*) => {
            $(
                $(#[$doc])*
                #[derive(Clone, Copy, Debug)]
                pub enum $name {}
                impl super::Level for $name {
                    const LEVEL: crate::acl::AclLevel = crate::acl::AclLevel::$name;
                }
                impl super::AtLeast<$name> for $name {}
                $(impl super::AtLeast<$below> for $name {})*
            )*
        };
    }

    /// The right to add documents, or at least public ones.
    #[derive(Clone, Copy, Debug)]
    pub enum Depositor {}

    impl super::Level for Depositor {
        const LEVEL: crate::acl::AclLevel = crate::acl::AclLevel::Depositor;

        fn is_had(rights: &crate::acl::Rights) -> bool {
            rights.level >= Self::LEVEL || rights.flags.has(crate::acl::AclFlags::PUBLIC_WRITER)
        }
    }

    impl super::AtLeast<Self> for Depositor {}

    /// The right to read documents, or at least public ones.
    #[derive(Clone, Copy, Debug)]
    pub enum Public {}

    impl super::Level for Public {
        const LEVEL: crate::acl::AclLevel = crate::acl::AclLevel::Reader;

        fn is_had(rights: &crate::acl::Rights) -> bool {
            rights.flags.has(crate::acl::AclFlags::PUBLIC_READER)
        }
    }

    impl super::AtLeast<Self> for Public {}

    levels! {
        /// The right to read documents.
        Reader includes Depositor Public;
        /// The right to create documents and to change those that name the identity in an Authors item.
        Author includes Depositor Public Reader;
        /// The right to change all documents.
        Editor includes Depositor Public Reader Author;
        /// The right to change the design.
        Designer includes Depositor Public Reader Author Editor;
        /// The right to change the ACL.
        Manager includes Depositor Public Reader Author Editor Designer;
    }
}

/// An access level as a type.
pub trait Level {
    /// The level as a value.
    const LEVEL: AclLevel;

    /// Returns `true` if the rights reach the level.
    fn is_had(rights: &Rights) -> bool {
        rights.level >= Self::LEVEL
    }
}

/// Implemented by the levels that include `L`.
pub trait AtLeast<L>: Level {}

/// Proof that an identity has at least the level `L` in a database.
pub struct Access<L> {
    database: Arc<Database>,
    identity: Arc<Identity>,
    /// The evaluated ACL, replaced when the ACL changes.
    state: Mutex<Arc<Grant>>,
    level: PhantomData<fn() -> L>,
}

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
    who: String,
}

impl<L: Level> Access<L> {
    pub(crate) fn new(database: Arc<Database>, identity: Arc<Identity>) -> Result<Self> {
        let grant = Arc::new(evaluate(&database, &identity));
        let access = Self { database, identity, state: Mutex::new(grant), level: PhantomData };
        access.grant()?;
        Ok(access)
    }

    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Returns the identity.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the rights that the current ACL grants. Fails with [`Error::AccessDenied`] if they do not reach `L`.
    pub fn grant(&self) -> Result<Arc<Grant>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.acl_version != self.database.acl_version() {
            *state = Arc::new(evaluate(&self.database, &self.identity));
        }
        if !L::is_had(&state.rights) {
            return Err(Error::AccessDenied {
                database: self.database.path(),
                who: self.identity.name.abbreviated(),
                needed: L::LEVEL,
                has: state.rights.level,
            });
        }
        Ok(Arc::clone(&state))
    }

    /// Returns the same proof for a lower level.
    pub fn downgrade<M: Level>(&self) -> Access<M>
    where
        L: AtLeast<M>,
    {
        let grant = Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner));
        Access {
            database: Arc::clone(&self.database),
            identity: Arc::clone(&self.identity),
            state: Mutex::new(grant),
            level: PhantomData,
        }
    }
}

/// A digest of the names in the Readers and Authors items of a note, regardless of their order and case.
///
/// Notes with the same names have the same digest, so the right to read is evaluated once for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadersId(pub [u8; 16]);

impl ReadersId {
    /// Computes the digest from the items of a note.
    #[must_use]
    pub fn of(items: &[ItemRef<'_>]) -> Self {
        let mut names: Vec<(bool, String)> = Vec::new();
        for item in items {
            let texts: &[&str] = match &item.value {
                ValueRef::Text(text) => std::slice::from_ref(text),
                ValueRef::TextList(texts) => texts,
                _ => &[],
            };
            for flag in [ItemFlags::READERS, ItemFlags::AUTHORS] {
                if item.flags.has(flag) {
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
    /// Returns a digest of all names that Readers and Authors items may refer to. Identities with the same digest may
    /// read the same documents.
    #[must_use]
    pub fn names_digest(&self) -> [u8; 16] {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        digest(names.into_iter().map(|name| (0, name)))
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
        let reads_public = flags.has(NoteFlags::PUBLIC) && self.flags().has(AclFlags::PUBLIC_READER);
        (reads || reads_public) && self.may_read(summary)
    }

    /// Returns `true` if the identity may write public documents.
    #[must_use]
    pub fn may_write_public(&self) -> bool {
        self.flags().has(AclFlags::PUBLIC_WRITER)
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
        self.may_edit(summary) && !self.flags().has(AclFlags::NO_DELETE)
    }

    /// Returns `true` if the identity may create documents.
    #[must_use]
    pub fn may_create(&self) -> bool {
        match self.level() {
            AclLevel::NoAccess | AclLevel::Reader => false,
            AclLevel::Author => !self.flags().has(AclFlags::AUTHOR_NO_CREATE),
            AclLevel::Depositor | AclLevel::Editor | AclLevel::Designer | AclLevel::Manager => true,
        }
    }

    fn is_author(&self, summary: &[Item]) -> bool {
        self.is_named_in(summary, ItemFlags::AUTHORS).unwrap_or(false)
    }

    /// Returns `true` if a name of the identity is in the items with that flag. Returns `None` if no such item has a
    /// name.
    fn is_named_in(&self, summary: &[Item], flag: ItemFlags) -> Option<bool> {
        let flagged = summary.iter().filter(|item| item.flags.has(flag));
        let mut names = flagged.flat_map(|item| item.value.texts()).filter(|name| !name.trim().is_empty()).peekable();
        names.peek()?;
        Some(names.any(|name| self.matches_name(name)))
    }

    fn matches_name(&self, name: &str) -> bool {
        let name = Name::new(name);
        let lower = name.canonical().to_lowercase();
        if lower.starts_with('*') {
            return self.names.iter().any(|own| name.matches(&Name::new(own)));
        }
        self.names.contains(&lower)
    }
}

/// Returns `true` if the identity may know of a view, folder or other design note with these summary items. The
/// `$Readers` of the note decide, as the Readers items of a document do.
#[must_use]
pub fn may_see_design(grant: &Grant, summary: &[Item]) -> bool {
    grant.may_read(summary)
}

fn evaluate(database: &Database, identity: &Identity) -> Grant {
    let (acl_version, acl) = database.acl();
    let rights = acl.evaluate(identity);
    let own = std::iter::once(&identity.name).chain(&identity.aliases).chain(&identity.groups);
    let mut names: HashSet<String> = own.map(|name| name.canonical().to_lowercase()).collect();
    names.extend(rights.roles.iter().map(|role| role.to_lowercase()));
    names.remove("");
    let own = std::iter::once(&identity.name).chain(&identity.aliases).filter(|_| !identity.name.is_empty());
    let own = own.filter(|name| !name.is_empty()).cloned().collect();
    Grant {
        acl_version,
        rights,
        names,
        own_names: own,
        bypasses_acl: acl.is_bypassed_by(identity),
        who: identity.name.abbreviated(),
    }
}
