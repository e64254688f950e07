//! Full-text search over databases.
//!
//! | module | what it holds |
//! |---|---|
//! | [`index`] | the index of a server: opening, following changes, committing |
//! | [`find`] | answering queries with what the reader may see |
//! | [`query`] | the language of queries |
//! | [`contents`], [`text`] | what of a note is indexed |
//! | [`extract`], [`html`] | text of attachments and of HTML |
//! | [`substring`] | which notes cannot hold a text |
//! | [`words`] | how texts are cut into words |
//! | [`fuzz`] | the entry of the fuzzers |
//!
//! Promises: a crash at any moment leaves an index that is late at most, never one that misses a document which it says to hold; an answer
//! contains and counts only what the reader may read at that moment. The index holds nothing that is not in the databases: it may be
//! deleted at any time. The design stands in `docs/full-text.md`. Besides `store` the only room that touches files; no clock, no tokio.

pub mod contents;
pub mod error;
pub mod extract;
pub mod find;
pub mod fuzz;
pub mod html;
pub mod index;
pub mod limits;
pub mod query;
pub mod substring;
pub mod text;
pub mod words;

mod marked;
mod near;
mod piece;
mod plan;
mod schema;
mod stored;

pub use contents::{Contents, Opened};
pub use error::{Error, QueryError, Result};
pub use find::{Found, Hit, Page, Sort};
pub use index::{Options, Progress, Search, Status};
pub use query::Query;
pub use substring::{Lacking, Place, Sought};
pub use text::NoteText;
