//! The directory: people, groups, domains, servers and settings, as notes in the database `names.nsf`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`directory`] | opening it, and looking things up |
//! | [`people`], [`groups`], [`domains`] | adding, changing and removing |
//! | [`bulk`] | adding many people at once |
//! | [`resolve`] | from an address to those who get the mail |
//! | [`identity`] | from a person to the identity that access control lists are asked with |
//! | [`login`] | logging in with a password or through SCRAM |
//! | [`person`], [`group`], [`domain`], [`settings`] | the notes as values |
//! | [`address`], [`key`] | what is compared with what |
//! | [`expansion`] | nested groups, pure |
//! | [`password`], [`scram`], [`throttle`], [`verified`] | the parts of logging in |
//! | [`cache`] | the name lookup cache |
//!
//! Promises: a change is durable on return and seen by every look-up that begins after it; no address, name, domain
//! or mail file belongs to two; nothing that a peer can measure tells whether an account exists. The items, the
//! keys and the numbers stand in `docs/directory.md`. No tokio, no file.

pub mod address;
pub mod bulk;
pub mod cache;
pub mod directory;
pub mod domain;
pub mod domains;
pub mod error;
pub mod expansion;
pub mod group;
pub mod groups;
pub mod identity;
pub mod key;
pub mod limits;
pub mod login;
pub mod password;
pub mod people;
pub mod person;
pub mod resolve;
pub mod scram;
pub mod settings;
pub mod throttle;
pub mod verified;

mod edit;
mod index;
mod items;
mod record;

pub use address::{Address, AddressError};
pub use directory::{Directory, Options, Page};
pub use domain::Domain;
pub use domains::{DomainChange, NewDomain};
pub use error::{AuthError, Error, Result};
pub use group::{Group, GroupKind};
pub use groups::{GroupChange, NewGroup};
pub use login::{LoginStatistics, ScramLogin};
pub use people::{NewUser, UserChange};
pub use person::Person;
pub use resolve::{Recipients, Resolution};
