//! CouchDB's replication protocol for clients such as PouchDB: HTTP and JSON, with documents in place of notes.
//!
//! A database is open to these clients if its option says so (`doublet db set PATH --couchdb on`). They get in with the
//! names and passwords of people, under the access control list, and with the rights that Readers and Authors items
//! give. `docs/couchdb.md` describes what is supported and what a client can observe.
//!
//! | module | content |
//! |---|---|
//! | [`document`] | JSON documents and items, without loss in both directions |
//! | [`document_id`] | the `_id` and the UNID |
//! | [`leaves`] | the leaves of the tree of revisions, from a note and its conflict documents |
//! | [`read`], [`write`](mod@write), [`changes`] | the verbs, as functions of a database and a person |
//! | [`sequence`], [`selector`] | opaque update sequences; conditions on documents |
//! | [`multipart`] | bodies with a document and its attachments |
//! | [`service`] | the requests over HTTP, and their limits |
//!
//! The verbs are synchronous and run on the worker pool. The protocol is that of CouchDB 3 as far as replication needs
//! it; views, design functions, and the management of servers are not part of it.

pub mod changes;
pub mod compression;
pub mod document;
pub mod document_id;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod leaves;
pub mod limits;
pub mod multipart;
pub mod read;
pub mod selector;
pub mod sequence;
pub mod service;
pub mod write;

pub use error::{Error, Result};
pub use service::{Service, ServiceOptions, Services, server_uuid};
