//! Bytes ⇄ commands and replies, server side. Pure, incremental, without allocation where the input allows it.
//!
//! `line` cuts command lines out of the input, `path` and `parameters` read what follows MAIL and RCPT, `data` reads the
//! text of messages, `reply` writes what the peer sees. Each has an entry point in [`crate::fuzz`].
//!
//! The crate `smtp-proto` was considered for the parsing of commands and left out. It saves about four hundred lines;
//! but it ends command lines at a bare LF, allocates for each address and parameter, does not tell apart *why* a
//! path is refused (the enhanced status codes 5.1.3, 5.1.7, 5.5.4 and 5.6.7 need that), and brings the parsing of
//! messages' ends along, which is the one thing that must be exactly ours.

pub mod data;
pub mod line;
pub mod parameters;
pub mod path;
pub mod reply;
