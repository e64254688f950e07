//! Tests of databases over the in-memory engine: one module per topic, with a shared set-up in `world`.

#[path = "databases/access.rs"]
mod access;
#[path = "databases/blocks.rs"]
mod damaged_files;
#[path = "databases/catalog.rs"]
mod databases;
#[path = "databases/churn.rs"]
mod churn;
#[path = "databases/deleted.rs"]
mod soft_deletion;
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
#[path = "databases/personal.rs"]
mod private_design;
#[path = "databases/profiles.rs"]
mod profiles;
#[path = "databases/public.rs"]
mod public;
#[path = "databases/records.rs"]
mod records;
#[path = "databases/save.rs"]
mod save;
#[path = "databases/structure.rs"]
mod ods;
#[path = "databases/together.rs"]
mod batched_changes;
#[path = "databases/view_reading.rs"]
mod view_usage;
#[path = "databases/views.rs"]
mod view_model;
#[path = "databases/world.rs"]
mod fixture;
