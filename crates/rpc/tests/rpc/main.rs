//! Tests of the native protocol over a server in memory: no socket, no TLS, and a clock that only tests advance.
//!
//! These tests cover the protocol: every call and its access, its replies and errors, its limits, and the debug events.
//! They also cover what depends on the time and on answers of the rest of the server: the task that builds indexes, and
//! the creation of databases. Left out: TLS, sockets, logins of the directory, and the command line, which
//! `crates/doublet/tests/program` tests with the whole program.

mod access_matrix;
mod acl;
mod changes;
mod conflicts;
mod creation;
mod debug_log;
mod divided;
mod library;
mod local_replicas;
mod mail;
mod messages;
mod names;
mod notes;
mod profiles;
mod sessions;
mod soft_deletion;
mod view_designs;
mod views;
mod world;
