//! Databases of notes: what everything else is made of.
//!
//! | module | what it holds |
//! |---|---|
//! | [`database`] | all databases of a server, and one open database |
//! | [`catalog`] | which databases there are |
//! | [`acl`], [`access`], [`acl_history`] | who may do what, the proof of it, and who changed it |
//! | [`item`], [`note`] | the parts of a note, and their stored forms |
//! | [`reading`], [`public`] | snapshots; of what is public alone |
//! | [`transaction`], [`writer`] | changes |
//! | [`save`], [`deleted`], [`profile`] | conflicts and who saved; deletions that can be taken back; settings by name |
//! | [`change`] | the order of changes |
//! | [`follow`] | which databases changed |
//! | [`evaluate`] | formulas over notes |
//! | [`fixup`], [`purge`] | checking and repairing; forgetting old deletions |
//! | [`structure`] | which forms the records have; bringing older ones to the present |
//! | [`folder`], [`keyword`] | folders with UIDs and marks |
//! | [`unread`] | what each user has read |
//! | [`collection`] | the counted index under folders and views |
//!
//! Promises: one transaction is one atomic batch; writers to one database queue and never see a conflict that they did
//! not ask for; readers never wait; nothing is reached without an [`access::Access`]. The stored forms stand in
//! `docs/note-format.md`. No file, no clock and no randomness of its own, and no tokio.

pub mod access;
pub mod acl;
pub mod acl_history;
pub mod catalog;
pub mod change;
pub mod collection;
pub mod counters;
pub mod database;
pub mod deleted;
pub mod error;
pub mod evaluate;
pub mod fixup;
pub mod folder;
pub mod folder_reader;
pub mod follow;
pub mod item;
pub mod keyword;
pub mod limits;
pub mod lookup;
pub mod many;
pub mod note;
pub mod profile;
pub mod public;
pub mod purge;
pub mod reading;
pub mod save;
pub mod structure;
pub mod transaction;
pub mod unread;
pub mod view;
pub mod writer;

mod designing;
mod drop;
mod folder_image;
mod hidden;
mod keys;
mod personal;
mod recent;

pub use access::{Access, AtLeast, Grant, Level, level};
pub use acl::{Acl, AclEntry, AclFlags, AclKind, AclLevel, Authentication, Identity};
pub use acl_history::{AclChange, AclDifference};
pub use catalog::{DatabaseKind, DatabaseOptions, DatabaseRecord, FullText, NewDatabase};
pub use database::{Database, Notes};
pub use deleted::{DeletedNote, DeletedPage, Deletion};
pub use error::{Error, Result};
pub use folder::{Entry, FolderDesign, FolderState, FolderTotals};
pub use folder_reader::FolderReader;
pub use follow::Follower;
pub use item::{Item, ItemFlags, Value};
pub use keyword::Keywords;
pub use note::{Header, Keyword, Marks, Membership, NewNote, Note, NoteClass, NoteFlags, Summary};
pub use public::PublicReading;
pub use reading::Reading;
pub use save::{OnConflict, SaveOptions, Saved};
pub use structure::{Structure, Upgrade, UpgradeReport};
pub use transaction::Transaction;
pub use writer::Writer;
