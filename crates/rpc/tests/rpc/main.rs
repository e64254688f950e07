//! Tests of the native protocol over a server in memory: no socket, no TLS, and a clock that only tests advance.
//!
//! `crates/doublet/tests/program` runs the same protocol with the whole program. The tests here cover what depends on
//! the time and on answers of the rest of the server: the task that builds indexes, and the creation of databases. They
//! also cover the debug events.

mod creation;
mod debug_log;
mod mail;
mod notes;
mod sessions;
mod views;
mod world;
