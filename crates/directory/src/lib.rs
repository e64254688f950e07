//! The directory: people, groups, domains, servers and configuration, as notes in the database `names.nsf`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address`] | mail addresses: parsing, normal form, sub-addresses |
//! | [`group`] | expansion of nested groups |

pub mod address;
pub mod group;
pub mod limits;
