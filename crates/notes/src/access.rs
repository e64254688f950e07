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

use std::marker::PhantomData;
use std::sync::Arc;

use base::sync::Mutex;

use crate::acl::{AclLevel, Identity, Rights};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::grant::Grant;

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

        fn is_granted_by(rights: &crate::acl::Rights) -> bool {
            rights.level >= Self::LEVEL || rights.flags.contains(crate::acl::AclFlags::PUBLIC_WRITER)
        }
    }

    impl super::AtLeast<Self> for Depositor {}

    /// The right to read documents, or at least public ones.
    #[derive(Clone, Copy, Debug)]
    pub enum Public {}

    impl super::Level for Public {
        const LEVEL: crate::acl::AclLevel = crate::acl::AclLevel::Reader;

        fn is_granted_by(rights: &crate::acl::Rights) -> bool {
            rights.flags.contains(crate::acl::AclFlags::PUBLIC_READER)
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
    fn is_granted_by(rights: &Rights) -> bool {
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

impl Database {
    /// Returns the proof that an identity has at least the level `L`.
    pub fn authorize<L: Level>(self: &Arc<Self>, identity: &Arc<Identity>) -> Result<Access<L>> {
        Access::new(Arc::clone(self), Arc::clone(identity))
    }
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
        let mut state = self.state.lock();
        if state.acl_version() != self.database.acl_version() {
            *state = Arc::new(evaluate(&self.database, &self.identity));
        }
        if !L::is_granted_by(state.rights()) {
            return Err(Error::AccessDenied {
                database: self.database.path(),
                who: self.identity.name.abbreviated(),
                needed: L::LEVEL,
                has: state.level(),
            });
        }
        Ok(Arc::clone(&state))
    }

    /// Returns the same proof for a lower level.
    pub fn downgrade<M: Level>(&self) -> Access<M>
    where
        L: AtLeast<M>,
    {
        let grant = Arc::clone(&self.state.lock());
        Access {
            database: Arc::clone(&self.database),
            identity: Arc::clone(&self.identity),
            state: Mutex::new(grant),
            level: PhantomData,
        }
    }
}

fn evaluate(database: &Database, identity: &Identity) -> Grant {
    let (acl_version, acl) = database.acl();
    Grant::evaluate(identity, &acl, acl_version)
}
