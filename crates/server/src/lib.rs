//! The server: listeners, TLS, sessions, background tasks and statistics. [`serve`] wires everything together.
//!
//! This crate opens the sockets and gives every protocol the services of the data folder
//! ([`instance`]). Administration commands for a running server come through [`admin::control`].

pub mod admin_http;
mod configured_networks;
pub mod counters;
mod credential_backend;
pub mod database_creator;
pub mod descriptors;
pub mod jmap_backend;
pub mod limits;
pub mod listeners;
pub mod logins;
pub mod metrics;
pub mod periodic_tasks;
pub mod principal_list;
pub mod replication;
pub mod serve;
pub mod session_registry;
pub mod shared_mail_files;
pub mod statistics;
pub mod submission_hooks;
pub mod transfer_agent;
pub mod view_updater;
pub mod web_backend;
