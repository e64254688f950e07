//! The directory: people, groups, domains, servers and settings, stored as notes in the database `names.nsf`.
//!
//! | module | content |
//! |---|---|
//! | [`directory`] | opening the directory, and lookups |
//! | [`person_edit`], [`group_edit`], [`domain_edit`] | adding, changing and removing |
//! | [`bulk_add`] | adding many people at once |
//! | [`resolve`] | resolving an address to the recipients of its mail |
//! | [`identity`] | the identity of a person for access control lists |
//! | [`entries`] | people and groups by their UNIDs |
//! | [`login`] | login with a password or through SCRAM |
//! | [`application_password`], [`second_factor`] | further passwords of a person, and the codes that the login page asks for |
//! | `login_account` | the account that a login name stands for, as far as a peer can observe it |
//! | [`person`], [`group`], [`domain`], [`settings`] | the notes as values |
//! | [`address`], [`key`] | normalization and comparison |
//! | [`expansion`] | expansion of nested groups, a pure algorithm |
//! | [`password`], [`scram`], [`throttle`], [`password_cache`] | the parts of a login |
//! | [`cache`] | the name lookup cache |
//!
//! Guarantees:
//! - A change is durable on return and visible to every lookup that begins after it.
//! - No address, name, domain or mail file belongs to two notes.
//! - A peer without a valid proof cannot find out whether a login name exists by trying it in all its spellings. The
//!   limits are described in `login_account`.
//!
//! The items, keys and limits are described in `docs/directory.md`. This crate uses neither tokio nor files.

pub mod address;
pub mod application_password;
pub mod bulk_add;
pub mod cache;
pub mod connection;
pub mod connection_edit;
pub mod connection_schedule;
pub mod directory;
pub mod domain;
pub mod domain_edit;
pub mod entries;
pub mod error;
pub mod expansion;
pub mod group;
pub mod group_edit;
pub mod identity;
pub mod key;
pub mod limits;
pub mod login;
pub mod password;
pub mod password_cache;
pub mod person;
pub mod person_edit;
pub mod resolve;
pub mod scram;
pub mod second_factor;
pub mod server_edit;
mod settings;
pub mod throttle;

mod code;
mod credential_edit;
mod factor_login;
mod index;
mod items;
mod login_account;
mod record;
mod transaction;

pub use address::{Address, AddressError};
pub use application_password::{ApplicationPassword, NewApplicationPassword};
pub use connection::{Connection, ReplicationType};
pub use connection_schedule::ConnectionSchedule;
pub use directory::{Directory, DirectoryOptions, ListPage};
pub use domain::Domain;
pub use domain_edit::{DomainChange, NewDomain};
pub use entries::DirectoryEntry;
pub use error::{AuthError, Error, Result};
pub use group::{Group, GroupKind};
pub use group_edit::{GroupChange, NewGroup};
pub use login::{AuthenticatedPerson, LoginStatistics, ScramExchange};
pub use person::Person;
pub use person_edit::{NewUser, PersonChange};
pub use resolve::{Resolution, ResolvedRecipients};
pub use second_factor::{FactorProof, FactorSecret, SecondFactor};
pub use settings::{IssuedCertificate, ServerDocument};
