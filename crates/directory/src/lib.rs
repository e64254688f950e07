//! The directory: people, groups, domains, servers and configuration, as notes in the database `names.nsf`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`address`] | mail addresses: parsing, normal form, sub-addresses |
//! | [`group`] | expansion of nested groups |
//! | [`password`] | what is stored of a password, and checking one |
//! | [`scram`] | SCRAM-SHA-256: keys and the server's side of the exchange |
//! | [`throttle`] | slowing down the guessing of passwords |
//! | [`verified`] | passwords that were verified lately |
//! | [`cache`] | the name lookup cache |

pub mod address;
pub mod cache;
pub mod group;
pub mod limits;
pub mod password;
pub mod scram;
pub mod throttle;
pub mod verified;
