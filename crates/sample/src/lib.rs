//! A small data folder for unit tests: the domain `acme.test`, some people and a group, in a temporary folder.
//!
//! For tests only. Password hashing is configured to be cheap; everything else is as in production.

mod data_folder;

pub use data_folder::{DATABASE, PASSWORD, Sample, database_with_view};
