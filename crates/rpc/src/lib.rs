//! The native protocol: gRPC access to databases, for clients in any language and for other servers.
//!
//! Supported: the calls described by the files in `proto/` and explained in `docs/native-protocol.md`. gRPC runs over
//! HTTP/2 over TLS. The server provides TLS and the socket, hyper and tonic the framing.
//!
//! Left out: HTTP/1 and gRPC-Web, server reflection (the `.proto` files are the description), and calls without a
//! session except for login and `GetServer`.
//!
//! | module | content |
//! |---|---|
//! | [`connection`] | one connection: HTTP/2, its limits and its end; the only code with sockets |
//! | [`admission`] | the checks before every call: caller, time limit and memory |
//! | [`memory`] | the memory of calls, within the budget of the server |
//! | [`request_body`] | request bodies: messages are measured before they are decoded |
//! | [`response_body`] | reply bodies: the data that waits for a peer to read it |
//! | [`session`] | tokens and their sessions |
//! | [`service`] | the tables of calls, and how a call is passed to a worker |
//! | `cmd` | the implementation of the calls, one file per topic; synchronous code over `notes` and `directory` |
//! | [`statistics`] | counters of calls |
//! | [`convert`] | conversion of items, headers and keys between the protocol and `notes`; pure |
//! | [`backend`] | the traits by which this crate uses the rest of the server |
//!
//! Promises: no reply is sent before the data in it is durable; every call ends within its deadline; the memory that
//! peers can make the server hold is bounded by [`limits`], for one connection and for all together.

pub mod admission;
pub mod backend;
mod cmd;
pub mod connection;
pub mod convert;
pub mod error;
pub mod limits;
pub mod memory;
pub mod request_body;
pub mod response_body;
pub mod service;
pub mod session;
pub mod statistics;

pub use connection::{serve, serve_local};
pub use service::{Service, ServiceOptions, Services};
