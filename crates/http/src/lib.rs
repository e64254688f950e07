//! What the protocols over HTTP share: connections, logins, sessions, origins, header fields and limits.
//!
//! As `wire` is what all protocols share at the socket, this crate is what those over HTTP share above it. A protocol
//! is an [`axum::Router`] with its routes; [`Front`] serves it over HTTP/1.1 (RFC 9112) and HTTP/2 (RFC 9113).
//! `docs/http.md` describes listeners, sessions, limits and header fields.
//!
//! | module | content |
//! |---|---|
//! | [`front`] | [`Front`]: the options and the way of a request through the server |
//! | [`connection`] | one connection: its limits, and its end |
//! | [`upgrade`] | connections that a request turns into another protocol |
//! | [`response_body`] | bodies of answers: memory, slow readers, the access log |
//! | [`request_body`] | bodies of requests, within the limits of their peer |
//! | [`request_context`] | what is known about a request besides its header |
//! | [`login`], [`backend`] | logins by password, token and session; what the server must provide |
//! | [`pending_logins`] | logins that wait for a code of the second factor |
//! | [`sessions`] | the sessions of browsers, which are notes of a database |
//! | [`content`] | contents that are known as a whole: tags and ranges |
//! | [`static_file`] | files that are compiled in, compressed once |
//! | [`origin`] | pages of other origins: who may send what (CSRF, CORS) |
//! | [`header_fields`] | the header fields that protect browsers |
//! | [`account_limits`] | concurrent requests of one account |
//! | [`statistics`] | counters of requests by route |
//! | [`problem`] | errors as JSON (RFC 9457) |
//!
//! Not included: pages, and the login form (`web`), and the addresses of listeners and their certificates (`server`).
//!
//! The types of HTTP itself are those of the registry's crate `http`, which `axum::http` exports. Nobody here depends
//! on that crate by its name, because this one has it.

pub mod account_limits;
pub mod backend;
pub mod connection;
pub mod content;
pub mod front;
pub mod header_fields;
pub mod limits;
pub mod login;
pub mod origin;
pub mod pending_logins;
pub mod problem;
pub mod request_body;
pub mod request_context;
pub mod response_body;
pub mod sessions;
pub mod static_file;
pub mod statistics;
pub mod upgrade;

pub use connection::serve;
pub use front::{Front, FrontOptions, PlainText};
pub use login::{Authenticator, Caller, Refusal};
pub use request_context::RequestContext;
pub use sessions::{SessionOptions, Sessions};
