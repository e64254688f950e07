//! Tests of full-text search over databases in memory with an index on disk. Each theme has its own module; all share
//! one fixture.

mod access;
mod attachments;
mod fixture;
mod model;
mod queries;
mod query_texts;
mod ranking;
mod substring;
mod updates;
