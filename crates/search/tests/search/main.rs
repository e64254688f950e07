//! Tests of full-text search over databases in memory with an index on disk. Each theme has its own module; all share
//! one fixture.

mod access;
mod fixture;
mod model;
mod queries;
mod substring;
mod updates;
