//! Tests of the exchange between replicas.

mod exchange;
mod selective;
mod simulation;
