//! Tests of the exchange between replicas.

mod exchange;
mod simulation;
