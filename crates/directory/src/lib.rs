//! The directory: people, groups, domains, servers and configuration, as notes in the database `names.nsf`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address`] | mail addresses: parsing, normal form, sub-addresses |

pub mod address;
pub mod limits;
