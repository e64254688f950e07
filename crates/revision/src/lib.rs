//! Revisions of notes: what descends from what, how concurrent versions are put together, and which one counts.
//!
//! Replicas of a database are changed independently and meet again in any order. The rules in this crate are functions
//! of the versions alone, without a clock, a store or the place where they run, so that every replica comes to the same
//! result. `docs/replication.md` explains and argues for them.
//!
//! - [`Revision`] identifies a save, and orders saves: the greatest counts.
//! - [`Ancestors`] are the revisions from which a version descends. They tell a later version from a concurrent one.
//! - [`ItemChanges`] say at which revision each item changed last, so that versions can be merged without a base.
//! - [`receive()`] decides what happens to a version that arrives: it is old, it replaces the current one, it is merged
//!   with it, or one of the two loses.
//! - [`Register`] is a value with a time, such as a mark or a membership in a folder, that changes without a save.

mod ancestors;
mod item_changes;
mod limits;
mod merge;
mod receive;
mod register;
mod revision_id;

pub use ancestors::{Ancestor, Ancestors, Cut};
pub use item_changes::ItemChanges;
pub use limits::ANCESTORS_MAX;
pub use merge::{Merged, NamedItem, UniteItems, Version, merge};
pub use receive::{Arrival, DeletionRule, EditRule, LoserFate, Rules, Side, receive};
pub use register::Register;
pub use revision_id::{InvalidRevision, Revision, RevisionId, conflict_document_unid, is_conflict_document_unid};
