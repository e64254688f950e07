//! Integration tests of the server's parts: listeners, the administration port, statistics, sessions, the accounts
//! of JMAP, uploads, and the creation of databases.
//!
//! The tests use loopback with port 0 and a sample data folder. Time limits pass on a paused clock.

mod administration_port;
mod database_creator;
mod fixture;
mod jmap_accounts;
mod listeners;
mod sessions;
mod statistics;
mod uploads;
