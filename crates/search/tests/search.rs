//! Tests of full-text search over databases in memory with an index on disk. Each theme has its own module; all share
//! one fixture.

#[path = "search/access.rs"]
mod access;
#[path = "search/follow.rs"]
mod updates;
#[path = "search/model.rs"]
mod model;
#[path = "search/queries.rs"]
mod queries;
#[path = "search/substring.rs"]
mod substring;
#[path = "search/world.rs"]
mod fixture;
