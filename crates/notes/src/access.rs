//! The proof that somebody may do something in a database.
//!
//! [`Database::authorize`](crate::Database::authorize) evaluates the ACL once and gives an [`Access`] of the level
//! asked for, or an error. Everything that touches the data of a database takes an `Access`, so the right cannot be
//! forgotten. The level is part of the type: reading wants [`AtLeast<Reader>`], changing the ACL [`AtLeast<Manager>`].
//!
//! Two levels as types are no steps of the ladder. [`level::Public`] is the proof that somebody may read public documents: who has Reader access
//! or the flag for it; it gives a [`crate::PublicReading`] and no [`crate::Reading`]. [`level::Depositor`], which transactions ask for, is also had by who may write nothing but
//! public documents: what may be put in, each verb of a writer looks at anyway.
//!
//! An `Access` notices when the ACL changed since it was made: it is evaluated anew before the next use, and a right
//! that was taken away is gone at once. Readers and Authors items refine it per note: [`Grant::may_read`],
//! [`Grant::may_edit`].

use std::collections::HashSet;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use base::Name;

use crate::acl::{AclFlags, AclLevel, Identity, Rights};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::item::{Item, ItemFlags, ItemRef, ValueRef};
use crate::note::NoteFlags;

/// The levels as types.
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

    /// May put documents in, or public ones at least.
    #[derive(Clone, Copy, Debug)]
    pub enum Depositor {}

    impl super::Level for Depositor {
        const LEVEL: crate::acl::AclLevel = crate::acl::AclLevel::Depositor;

        fn is_had(rights: &crate::acl::Rights) -> bool {
            rights.level >= Self::LEVEL || rights.flags.has(crate::acl::AclFlags::PUBLIC_WRITER)
        }
    }

    impl super::AtLeast<Self> for Depositor {}

    /// May read public documents at least.
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
        /// May read.
        Reader includes Depositor Public;
        /// May create documents and change their own.
        Author includes Depositor Public Reader;
        /// May change all documents.
        Editor includes Depositor Public Reader Author;
        /// May change the design.
        Designer includes Depositor Public Reader Author Editor;
        /// May change the ACL.
        Manager includes Depositor Public Reader Author Editor Designer;
    }
}

/// A level as a type.
pub trait Level {
    /// The level as a value.
    const LEVEL: AclLevel;

    /// Tells whether these rights reach the level.
    fn is_had(rights: &Rights) -> bool {
        rights.level >= Self::LEVEL
    }
}

/// Implemented by the levels that include `L`.
pub trait AtLeast<L>: Level {}

/// The proof that an identity has at least the level `L` in a database.
pub struct Access<L> {
    database: Arc<Database>,
    identity: Arc<Identity>,
    /// Evaluated again when the ACL changes.
    state: Mutex<Arc<Grant>>,
    level: PhantomData<fn() -> L>,
}

/// What the ACL gave, and of which version of it.
#[derive(Debug)]
pub struct Grant {
    acl_version: u64,
    rights: Rights,
    /// Names, groups and roles in lower case, as Readers and Authors items are compared with them.
    names: HashSet<String>,
    /// The name, then the aliases.
    own: Vec<Name>,
    local: bool,
    who: String,
}

impl<L: Level> Access<L> {
    pub(crate) fn new(database: Arc<Database>, identity: Arc<Identity>) -> Result<Self> {
        let grant = Arc::new(evaluate(&database, &identity));
        let access = Self { database, identity, state: Mutex::new(grant), level: PhantomData };
        access.grant()?;
        Ok(access)
    }

    /// Gives the database.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Gives who asks.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Gives what the ACL presently grants; an error when that is less than `L`.
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

    /// Gives the same proof for a lower level.
    pub fn lower<M: Level>(&self) -> Access<M>
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

/// Names whom the Readers and Authors items of a note name, so that whether somebody may read is found out once for all notes that say the same: a digest of the
/// names, whatever their order and case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadersId(pub [u8; 16]);

impl ReadersId {
    /// Digests the items.
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

/// Digests a list so that different lists have different digests.
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
    /// Gives a digest of all names that Readers and Authors items may mean: those for whom it is the same may read the same.
    #[must_use]
    pub fn names_digest(&self) -> [u8; 16] {
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        digest(names.into_iter().map(|name| (0, name)))
    }

    /// Gives the level.
    #[must_use]
    pub fn level(&self) -> AclLevel {
        self.rights.level
    }

    /// Gives the name of the one who asks, as people read it.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Tells whether this is the server itself, from which nothing is hidden.
    #[must_use]
    pub fn is_server_itself(&self) -> bool {
        self.local
    }

    /// Gives the name under which things of one's own are kept, such as unread marks; nothing for one who did not log in.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.own.first()
    }

    /// Lists the roles, with brackets.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.rights.roles.iter().map(String::as_str)
    }

    /// Lists all names that Readers and Authors items may mean, in lower case: own ones, groups, roles.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Tells whether a name is one's own: the name itself or an alias, no group.
    #[must_use]
    pub fn is_own(&self, name: &Name) -> bool {
        self.own.contains(name)
    }

    /// Gives the flags.
    #[must_use]
    pub fn flags(&self) -> AclFlags {
        self.rights.flags
    }

    /// Tells whether the Readers items among the summary items let this one read.
    #[must_use]
    pub fn may_read(&self, summary: &[Item]) -> bool {
        self.local || self.passes(summary, ItemFlags::READERS).unwrap_or(true) || self.is_author(summary)
    }

    /// Tells whether this one may see a note with these flags and summary items: reads at all, or it is public, and no Readers items are in the way.
    #[must_use]
    pub fn may_see(&self, flags: NoteFlags, summary: &[Item]) -> bool {
        let reads = self.level() >= AclLevel::Reader;
        let reads_public = flags.has(NoteFlags::PUBLIC) && self.flags().has(AclFlags::PUBLIC_READER);
        (reads || reads_public) && self.may_read(summary)
    }

    /// Tells whether this one may write public documents.
    #[must_use]
    pub fn may_write_public(&self) -> bool {
        self.flags().has(AclFlags::PUBLIC_WRITER)
    }

    /// Tells whether one of these names, which a design note lets in, is one's own, a group's or a role; no names let in everybody.
    #[must_use]
    pub fn may_use(&self, readers: &[String]) -> bool {
        self.local || readers.is_empty() || readers.iter().any(|name| self.is_meant(name))
    }

    /// Tells whether this one may change a note with these summary items.
    #[must_use]
    pub fn may_edit(&self, summary: &[Item]) -> bool {
        self.level() >= AclLevel::Editor || (self.level() == AclLevel::Author && self.is_author(summary))
    }

    /// Tells whether this one may delete a note with these summary items.
    #[must_use]
    pub fn may_delete(&self, summary: &[Item]) -> bool {
        self.may_edit(summary) && !self.flags().has(AclFlags::NO_DELETE)
    }

    /// Tells whether this one may create documents.
    #[must_use]
    pub fn may_create(&self) -> bool {
        match self.level() {
            AclLevel::NoAccess | AclLevel::Reader => false,
            AclLevel::Author => !self.flags().has(AclFlags::AUTHOR_NO_CREATE),
            AclLevel::Depositor | AclLevel::Editor | AclLevel::Designer | AclLevel::Manager => true,
        }
    }

    fn is_author(&self, summary: &[Item]) -> bool {
        self.passes(summary, ItemFlags::AUTHORS).unwrap_or(false)
    }

    /// Tells whether a name of ours is in the items with that flag; `None` when no such item names anybody.
    fn passes(&self, summary: &[Item], flag: ItemFlags) -> Option<bool> {
        let flagged = summary.iter().filter(|item| item.flags.has(flag));
        let mut names = flagged.flat_map(|item| item.value.texts()).filter(|name| !name.trim().is_empty()).peekable();
        names.peek()?;
        Some(names.any(|name| self.is_meant(name)))
    }

    fn is_meant(&self, name: &str) -> bool {
        let name = Name::new(name);
        let lower = name.canonical().to_lowercase();
        if lower.starts_with('*') {
            return self.names.iter().any(|own| name.covers(&Name::new(own)));
        }
        self.names.contains(&lower)
    }
}

/// Tells whether somebody may know of a view, a folder or another design note with these summary items: its `$Readers` decide, as those of a document do.
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
    Grant { acl_version, rights, names, own, local: acl.is_open_to(identity), who: identity.name.abbreviated() }
}
