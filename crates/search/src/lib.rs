//! Full-text search over databases.
//!
//! | module | contents |
//! |---|---|
//! | [`index`] | the index of a server: opening, updates, commits |
//! | [`query_execution`] | execution of queries, with access control |
//! | [`query`] | the query language |
//! | [`content_reader`], [`text`] | the indexed text of a note |
//! | [`extract`], [`html`] | text of attachments and of HTML |
//! | [`substring`] | notes that cannot contain a text |
//! | [`words`] | splitting of texts into words |
//! | [`fuzz`] | the entry point of the fuzzers |
//!
//! A crash at any time leaves an index that is out of date at most. It never lacks a document that it records as
//! indexed. A result contains and counts only documents that the reader may read at that moment. All data of the index
//! is derived from the databases, so the index may be deleted at any time.
//!
//! The design is described in `docs/full-text.md`. Besides `store`, this is the only crate that accesses files. It uses
//! neither a clock nor tokio.

pub mod content_reader;
pub mod error;
pub mod extract;
pub mod fuzz;
pub mod html;
pub mod index;
pub mod limits;
pub mod query;
pub mod query_execution;
pub mod substring;
pub mod text;
pub mod words;

mod index_documents;
mod paced_query;
mod proximity;
mod query_translation;
mod schema;
mod term_automaton;
mod tokenizers;

pub use content_reader::{ContentReader, OpenNote};
pub use error::{Error, QueryError, Result};
pub use index::{FullTextIndex, FullTextOptions, IndexStatus, UpdateResult};
pub use query::Query;
pub use query_execution::{Hit, HitOrder, PageRequest, QueryBounds, QueryResult};
pub use substring::{ExcludedNotes, NotePart, SubstringKey};
pub use text::NoteText;
