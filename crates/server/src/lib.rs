//! The program: configuration, listeners, TLS, background tasks, statistics, administration, the command line.
//!
//! This is the only room that reads the configuration and the environment, asks the machine for the time, and knows
//! all other rooms. It opens the store, hands every room what it needs and lets the protocols serve. Administration
//! has one implementation, [`admin`], whether a command runs by itself or in a running server through [`control`].

pub mod addressing;
pub mod admin;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod control;
pub mod core;
pub mod counts;
pub mod data;
pub mod demo;
pub mod deposits;
pub mod full_text;
pub mod http;
pub mod limits;
pub mod listen;
pub mod log;
pub mod logins;
pub mod making;
pub mod metrics;
pub mod pdf;
pub mod reception;
pub mod serve;
pub mod sessions;
pub mod signing;
pub mod statistics;
pub mod system;
pub mod tasks;
pub mod template;
pub mod templates;
pub mod transfer;
pub mod updater;
pub mod view_text;

#[cfg(test)]
mod sample;
