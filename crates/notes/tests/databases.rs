//! Tests of databases over the in-memory engine: one module per topic, with a shared set-up in `world`.

#[path = "databases/access.rs"]
mod access;
#[path = "databases/batched_changes.rs"]
mod batched_changes;
#[path = "databases/churn.rs"]
mod churn;
#[path = "databases/damaged_files.rs"]
mod damaged_files;
#[path = "databases/databases.rs"]
mod databases;
#[path = "databases/fixture.rs"]
mod fixture;
#[path = "databases/fixup.rs"]
mod fixup;
#[path = "databases/formulas.rs"]
mod formulas;
#[path = "databases/limits.rs"]
mod limits;
#[path = "databases/lookups.rs"]
mod lookups;
#[path = "databases/matrix.rs"]
mod matrix;
#[path = "databases/model.rs"]
mod model;
#[path = "databases/notes.rs"]
mod notes_and_items;
#[path = "databases/ods.rs"]
mod ods;
#[path = "databases/private_design.rs"]
mod private_design;
#[path = "databases/profiles.rs"]
mod profiles;
#[path = "databases/public.rs"]
mod public;
#[path = "databases/records.rs"]
mod records;
#[path = "databases/save.rs"]
mod save;
#[path = "databases/soft_deletion.rs"]
mod soft_deletion;
#[path = "databases/view_model.rs"]
mod view_model;
#[path = "databases/view_usage.rs"]
mod view_usage;
