//! The server program: configuration, listeners, TLS, background tasks, statistics, administration and command line.
//!
//! This is the only crate that reads the configuration and the environment, gets the time from the system, and depends
//! on all other crates. It opens the store, passes every crate its dependencies and runs the protocols. Administration
//! has a single implementation, [`admin`], whether a command runs by itself or in a running server through [`control`].

pub mod addressing;
pub mod admin;
pub mod admin_http;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod control;
pub mod core;
pub mod counts;
pub mod data;
pub mod database_creator;
pub mod demo;
pub mod full_text;
pub mod limits;
pub mod listen;
pub mod log;
pub mod logins;
pub mod metrics;
pub mod pdf;
pub mod serve;
pub mod sessions;
pub mod signing;
pub mod smtp_backend;
pub mod statistics;
pub mod submission;
pub mod system;
pub mod tasks;
pub mod template;
pub mod templates;
pub mod transfer_agent;
pub mod updater;
pub mod view_text;

#[cfg(test)]
mod sample;
