//! The control socket: administration commands for a running server.
//!
//! A client sends one line, `{"request": ...}`, and reads lines until one has a result:
//! `{"progress": {...}}`, any number of them, then `{"result": {...}}` or `{"error": "..."}`. One request a connection. The client
//! that goes away ends what it asked for, at the next step that reports progress; only what cannot stop half way is finished all the same: a
//! backup, and fixup's reading of the whole store.
//!
//! The socket lies in the data folder with mode 0600: who may open it may read the data anyway, so nothing else is asked.

pub mod client;
pub mod server;

use serde::{Deserialize, Serialize};

use crate::admin::{Answer, Progress, Request};

/// What a client sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct Call {
    /// What is to be done.
    pub request: Request,
}

/// What the server sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// How far it is.
    Progress(Progress),
    /// It is done.
    Result(Answer),
    /// It failed, and what to do.
    Error(String),
}

#[cfg(test)]
mod tests;
