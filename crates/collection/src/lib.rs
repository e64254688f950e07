//! The counted index: a sorted collection of entries with positions, counts and sums.
//!
//! Folders and views are collections. An entry has a key and a value, and the keys define the order of the collection.
//! Whatever the size of the collection, a few small reads find an entry by key or position, find an entry's position,
//! or count a range. A few small writes add, change or remove an entry.
//!
//! | module | content |
//! |---|---|
//! | [`reader`] | [`CollectionReader`]: lookups, positions, pages and counts, on a snapshot |
//! | [`writer`] | [`CollectionWriter`]: the changes of one transaction, written into its batch at the end |
//! | [`builder`] | [`CollectionBuilder`]: a tree from sorted entries, for imports and repair |
//! | [`mod@check`] | check of the tree against the entries, and rebuilding it from them |
//! | [`mod@shape`] | the size of a tree |
//! | [`weight`] | the sums that a collection keeps in addition to its count |
//!
//! Entries are plain keys in [`store::Table::View`]. *Fences* divide them into blocks of at most 256. A small tree over
//! the fences, in [`store::Table::Tree`], contains the count and the sums of every block and of every subtree. A read
//! by position descends the tree and scans part of one block. A change rewrites the entry and one narrow node per
//! level.
//!
//! Invariants: the totals of a block are those of the entries from its fence to before the next; the totals of a child
//! are those of its node's children; the fence of a node's first child is the node's own, and empty at the root, so
//! that every key belongs to exactly one block; only the sole block of an empty collection is empty. Entries and tree
//! change in one batch, so a snapshot sees both or neither.
//!
//! Left out: access checks (callers make them), uniqueness across collections, and locking. A collection has one
//! [`CollectionWriter`] at a time, which the database's lock ensures.

pub mod builder;
mod change_buffer;
pub mod check;
#[doc(hidden)]
pub mod fuzz;
mod id;
pub mod limits;
mod node;
pub mod reader;
mod rebalance;
mod root;
pub mod shape;
pub mod weight;
pub mod writer;

pub use builder::CollectionBuilder;
pub use check::{Inconsistency, Rebuilt, check, rebuild};
pub use id::CollectionId;
pub use limits::NodeSizes;
pub use reader::{CollectionEntry, CollectionReader, EntryCursor};
pub use shape::{Shape, shape};
pub use weight::{CountOnly, EntryWeigher, Totals, Weight};
pub use writer::CollectionWriter;
