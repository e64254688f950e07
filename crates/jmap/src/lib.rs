//! JMAP (RFC 8620) and JMAP for Mail (RFC 8621): requests as bytes in, replies as bytes out, over mail files.
//!
//! | module | content |
//! |---|---|
//! | [`mod@execute`], [`context`] | one API request: its calls in order, and the reply; what the calls share |
//! | [`request`], [`strict_json`], [`reference`](mod@reference) | the form of requests; I-JSON; back-references |
//! | [`method`] | the methods, one file each, and the table of their names and capabilities |
//! | [`arguments`], [`patch`], [`json_size`] | arguments of methods; patches by pointers; the size of replies |
//! | [`account`], [`account_rights`] | an open account: a snapshot with the table of its messages; rights |
//! | [`state`], [`changes`], [`query`], [`comparator`], [`sort`] | states and `/changes`; lists and orders |
//! | [`filter_tree`], [`filter`] | filters of all types; conditions on messages |
//! | [`email_write`], [`places`], [`keyword`] | changes of messages |
//! | [`mod@email`] | the properties of Email, composing and excerpts: pure |
//! | [`profile`], [`identities`], [`quota`] | profile documents with settings; the identities of senders; the quota |
//! | [`principal`], [`owned_accounts`] | people and groups, and their accounts |
//! | [`blob`], [`stored_blob`], [`uploads`] | downloads and uploads |
//! | [`submission`](mod@submission), [`envelope`] | sent messages, and their envelopes |
//! | [`disposition`] | notifications that a message was displayed, as objects |
//! | [`mod@session`], [`push`], [`type_selection`] | the Session object; the states of accounts; types of push |
//! | [`websocket`] | the messages over WebSocket (RFC 8887) |
//! | [`push_subscriptions`], [`push_target`] | push subscriptions; the addresses to which pushes are sent |
//! | [`push_messages`], [`web_push`] | the pushes; their encryption, and the key of the server |
//! | [`service`] | the requests over HTTP, with tokio |
//! | [`backend`], [`outbox`] | what the crate needs from the server: accounts, uploads, clock, sending |
//! | [`error`], [`limits`] | problems of requests, errors of methods, errors of sets; limits |
//!
//! Everything but `service` is synchronous and runs on worker threads. A reply may leave the server when its ticket is
//! durable.

pub mod account;
pub mod account_rights;
pub mod arguments;
pub mod backend;
pub mod blob;
pub mod changes;
pub mod comparator;
pub mod context;
pub mod disposition;
pub mod email;
pub mod email_write;
pub mod envelope;
pub mod error;
pub mod execute;
pub mod filter;
pub mod filter_tree;
#[doc(hidden)]
pub mod fuzz;
pub mod identities;
pub mod json_size;
pub mod keyword;
pub mod limits;
pub mod method;
pub mod outbox;
pub mod owned_accounts;
pub mod patch;
pub mod places;
pub mod principal;
pub mod profile;
pub mod push;
pub mod push_messages;
pub mod push_subscriptions;
pub mod push_target;
pub mod query;
pub mod quota;
pub mod reference;
pub mod request;
pub mod service;
pub mod session;
pub mod sort;
pub mod state;
pub mod stored_blob;
pub mod stored_email;
pub mod strict_json;
pub mod submission;
pub mod type_selection;
pub mod uploads;
pub mod web_push;
pub mod websocket;

pub use backend::{AccountInfo, Accounts, Caller, Services};
pub use error::{MethodError, RequestProblem, SetError};
pub use execute::{Reply, execute};
pub use session::{SessionUrls, session, session_state};
