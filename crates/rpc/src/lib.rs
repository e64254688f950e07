//! The native protocol: gRPC over the databases, for clients in any language and for other servers.
//!
//! Covered: what the files in `proto/` describe and `docs/native-protocol.md` explains. gRPC runs over HTTP/2 over TLS; the TLS and the socket
//! are the server's, the framing is hyper's and tonic's.
//!
//! Left out: HTTP/1 and gRPC-Web, server reflection (the `.proto` files are the description), calls without a session but for the login.
//!
//! | module | what it holds |
//! |---|---|
//! | [`conn`] | one connection: HTTP/2, its bounds, its end; the only sockets |
//! | [`gate`] | what every call passes: who calls, for how long, with how much memory |
//! | [`memory`] | the budget for the bytes of all calls |
//! | [`incoming`] | request bodies: what is measured before it is decoded |
//! | [`outgoing`] | reply bodies: what waits for a peer to read |
//! | [`session`] | tokens and what they stand for |
//! | [`service`] | the tables of calls, and how one is handed to a worker |
//! | `cmd` | what the calls do, a file for each theme; blocking code over `notes` and `directory` |
//! | [`convert`] | items, headers and keys between the protocol and `notes`; pure |
//! | [`design`] | designs of views between the protocol and `notes`; pure |
//! | [`backend`] | what the room needs from the rest of the server |
//!
//! Promises: no reply leaves before what it tells is durable; every call ends within its deadline; what peers can make the server hold in memory is
//! bounded by [`limits`], for one connection and for all together.

pub mod backend;
mod cmd;
pub mod conn;
pub mod convert;
pub mod design;
pub mod error;
pub mod gate;
pub mod incoming;
pub mod limits;
pub mod memory;
pub mod outgoing;
pub mod service;
pub mod session;

pub use conn::serve;
pub use service::{Ground, Options, Service};
