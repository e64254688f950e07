//! Tests of full-text search over databases in memory with an index on disk. Each theme has its own module; all share
//! one fixture.

#[path = "search/access.rs"]
mod access;
#[path = "search/fixture.rs"]
mod fixture;
#[path = "search/model.rs"]
mod model;
#[path = "search/queries.rs"]
mod queries;
#[path = "search/substring.rs"]
mod substring;
#[path = "search/updates.rs"]
mod updates;
