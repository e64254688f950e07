//! Databases of notes, the foundation of all other crates that store data.
//!
//! | module | content |
//! |---|---|
//! | [`server_databases`], [`database`] | all databases of a server, and one open database |
//! | [`catalog`] | the list of databases |
//! | [`database_copy`] | copies of whole databases |
//! | [`acl`], [`grant`], [`access`], [`acl_history`] | access rights, their effect on notes, the proof of them, and the history of their changes |
//! | [`item`], [`note`] | the parts of a note, and their stored forms |
//! | [`database_snapshot`], [`public`] | snapshots of everything readable, and of public documents only |
//! | [`transaction`], [`writer`] | changes |
//! | [`save`], [`soft_deletion`], [`profile`] | save conflicts and the record of editors; soft deletion; profile documents |
//! | [`change_log`] | the change log |
//! | [`change_subscription`] | notification of changed databases |
//! | [`formula_document`], [`evaluation_context`], [`evaluate`] | documents and the context as formulas see them; searches by formula |
//! | [`fixup`], [`purge`] | check and repair; purge of old deletions |
//! | [`ods`] | version of the on-disk structure, and upgrades from older ones |
//! | [`folder`], [`keyword`] | folders with UIDs and marks |
//! | [`thread_index`] | the index that finds the thread of a message |
//! | [`unread`], [`unread_replication`] | unread marks per user, and how replicas exchange them |
//! | [`replica`], [`replication_settings`], [`instance`] | notes as replicas exchange them, what they exchange, and the positions up to which they have it |
//!
//! Promises: one transaction is one atomic batch; writers to one database queue, and a conflict is reported only to
//! callers that asked for the check; readers never wait; all data is reached through an [`access::Access`].
//! `docs/note-format.md` describes the stored forms. The crate has no files, clock or randomness of its own, and does
//! not use tokio.

pub mod access;
pub mod acl;
pub mod acl_history;
pub mod batch_read;
pub mod brought;
pub mod catalog;
pub mod change_log;
pub mod change_subscription;
pub mod change_times;
pub mod counters;
pub mod database;
pub mod database_copy;
pub mod database_snapshot;
pub mod edit_history;
pub mod error;
pub mod evaluate;
pub mod evaluation_context;
pub mod fixup;
pub mod folder;
pub mod folder_reader;
pub mod formula_document;
pub mod grant;
pub mod instance;
pub mod item;
pub mod keyword;
pub mod limits;
pub mod local_document;
pub mod lookup;
pub mod losers;
pub mod note;
pub mod ods;
mod open_databases;
mod own_database;
pub mod profile;
pub mod public;
pub mod purge;
pub mod replica;
mod replica_note;
pub mod replication_settings;
pub mod revision_record;
pub mod save;
pub mod server_databases;
pub mod setting_times;
pub mod shared_settings;
pub mod shared_uids;
pub mod soft_deletion;
pub mod thread_index;
pub mod transaction;
pub mod unread;
pub mod unread_replication;
pub mod view;
pub mod writer;

mod change_log_tail;
mod database_delete;
mod deny_list;
mod design_edit;
mod folder_cache;
mod folder_index_writer;
mod hidden_entries;
mod keys;
mod loser_records;
mod places;
mod prepared_blob;
mod private_design;
mod purged_deletions;
mod recent_changes;
mod records;
mod thread_records;
mod timed_host;
mod uid_allocation;
mod unread_times;

pub use access::{Access, AtLeast, Level, level};
pub use acl::{Acl, AclEntry, AclFlags, AclKind, AclLevel, AuthenticationMethod, Identity};
pub use acl_history::{AclDifference, AclHistoryEntry};
pub use catalog::{
    DatabaseKind, DatabaseOptions, DatabaseRecord, FullTextSchedule, NewDatabase, ServerSettings, UnreadReplication,
};
pub use change_subscription::ChangeSubscriber;
pub use database::Database;
pub use database_copy::{CopyOrigin, CopyProgress, DatabaseCopy, NewCopy};
pub use database_snapshot::DatabaseSnapshot;
pub use error::{Error, Result};
pub use folder::{FolderDesign, FolderEntry, FolderState, FolderTotals};
pub use folder_reader::FolderReader;
pub use grant::Grant;
pub use item::{Item, ItemFlags, ItemValue};
pub use keyword::Keywords;
pub use note::{ExpectedVersion, Keyword, Marks, Membership, NewNote, Note, NoteClass, NoteFlags, NoteHeader, Summary};
pub use ods::{OdsVersion, Upgrade, UpgradeReport};
pub use own_database::{OwnDatabase, for_each_own_document};
pub use public::PublicSnapshot;
pub use replication_settings::{NotExchanged, ReplicaSettings, ReplicationPriority, ReplicationSettings};
pub use save::{OnConflict, SaveOptions, SaveOutcome};
pub use server_databases::Databases;
pub use setting_times::SettingTimes;
pub use shared_settings::{SharedSetting, SharedSettings};
pub use shared_uids::{SharedUids, UidRank};
pub use soft_deletion::{DeletedNote, DeletedPage, DeletionRecord};
pub use transaction::Transaction;
pub use writer::Writer;

pub use revision::DeletionRule;
