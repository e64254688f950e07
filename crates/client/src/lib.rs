//! A thin client of the native protocol: a TLS connection, a login, and the stubs generated from the `.proto` files.
//!
//! ```no_run
//! # async fn example(roots: &[u8]) -> Result<(), client::Error> {
//! let options = client::ConnectOptions::new("hub.acme.example:1352", client::Trust::roots(roots)?);
//! let client = client::Client::connect(&options).await?;
//! client.login("ann@acme.example", "a password").await?;
//! let request = client::v1::ListDatabasesRequest::default();
//! let databases = client.databases().list_databases(request).await?.into_inner().databases;
//! # Ok(()) }
//! ```
//!
//! A [`Client`] is one HTTP/2 connection. Calls run concurrently over it, and clones share the connection and its
//! session. Several connections need several clients. A broken connection is not repaired: the caller connects again
//! and passes the token again ([`Client::resume`]).
//!
//! This crate shares no code with the server except the messages of `proto` and the IDs of `base`. It reads no files
//! and no environment variables; the command line and the load generator do that.

mod connection;
mod error;
mod scram;
mod traffic;
mod trust;

pub use connection::{Channel, Client, ConnectOptions, RequestSender, RequestStream, request_channel, request_stream};
pub use error::{Error, formula_place, reason};
pub use proto::{details, v1};
pub use tonic::{Code, Request, Response, Status, Streaming};
pub use traffic::{CountedStream, Traffic};
pub use trust::Trust;
