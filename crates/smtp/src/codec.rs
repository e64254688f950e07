//! The server-side codec between bytes and commands or replies. It is pure and incremental, and avoids allocation where
//! the input allows it.
//!
//! `line` splits the input into command lines, `path` and `parameters` parse the arguments of MAIL and RCPT, `data`
//! reads message data, `reply` writes replies. Each has an entry point in [`crate::fuzz`].
//!
//! The crate `smtp-proto` was considered for command parsing and rejected. It would save about four hundred lines.
//! However, it ends command lines at a bare LF, allocates for each address and parameter, and does not report *why* a
//! path is refused, which the enhanced status codes 5.1.3, 5.1.7, 5.5.4 and 5.6.7 require. It would also bring its own
//! detection of the end of messages, which must be under full control of this crate.

pub mod data;
pub mod line;
pub mod parameters;
pub mod path;
pub mod reply;
