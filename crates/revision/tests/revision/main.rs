//! Tests of the rules of replication.

mod convergence;
