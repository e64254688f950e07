//! The control socket: administration commands for a running server.
//!
//! Each connection carries one request. The client sends one line, `{"request": ...}`, and reads lines until one has a
//! result: any number of `{"progress": {...}}`, then `{"result": {...}}` or `{"error": "..."}`. If the client closes
//! the connection, its request ends at the next step that reports progress. Only two tasks cannot stop halfway and run
//! to the end: a backup, and the part of a fixup that reads the whole store.
//!
//! The socket lies in the data folder with mode 0600. A process that can open it can also read the data, so there is no
//! further authentication.

pub mod client;
pub mod server;

use serde::{Deserialize, Serialize};

use crate::{Answer, Progress, Request};

/// The line that a client sends.
#[derive(Debug, Serialize, Deserialize)]
pub struct ControlCall {
    /// The requested command.
    pub request: Request,
}

/// A line that the server sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlReply {
    /// The progress of the request.
    Progress(Progress),
    /// The result of a request that succeeded.
    Result(Answer),
    /// The request failed: the reason, and what to do next.
    Error(String),
}

#[cfg(test)]
mod tests;
