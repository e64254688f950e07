//! Full-text search over databases in memory and an index on the disk: one module a theme, one world for all.

#[path = "search/access.rs"]
mod access;
#[path = "search/follow.rs"]
mod follow;
#[path = "search/model.rs"]
mod model;
#[path = "search/queries.rs"]
mod queries;
#[path = "search/substring.rs"]
mod substring;
#[path = "search/world.rs"]
mod world;
