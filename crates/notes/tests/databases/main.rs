//! Tests of databases over the in-memory engine: one module per topic, with a shared set-up in `world`.

mod access;
mod batched_changes;
mod change_log;
mod churn;
mod concurrency;
mod damaged_files;
mod fixture;
mod fixup;
mod folder_entries;
mod formulas;
mod limits;
mod lookups;
mod matrix;
mod model;
mod notes_and_items;
mod ods;
mod private_design;
mod profiles;
mod public;
mod records;
mod save;
mod server_databases;
mod soft_deletion;
mod view_model;
mod view_size;
mod view_usage;
