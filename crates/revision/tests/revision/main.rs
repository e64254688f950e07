//! Tests of the rules of replication.

mod convergence;
mod trees;
mod versions;
