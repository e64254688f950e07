//! The directory: people, groups, domains, servers and configuration, as notes in the database `names.nsf`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address`] | mail addresses: parsing, normal form, sub-addresses |
//! | [`expansion`] | nested groups, pure |
//! | [`password`], [`scram`], [`throttle`], [`verified`] | the parts of logging in |
//! | [`cache`] | the name lookup cache |

pub mod address;
pub mod cache;
pub mod expansion;
pub mod limits;
pub mod password;
pub mod scram;
pub mod throttle;
pub mod verified;
