//! Integration tests of the directory over a store in memory: administration, lookups and logins.

mod administration;
mod atomic;
mod fixture;
mod identity;
mod index;
mod login;
mod model;
mod resolve;
