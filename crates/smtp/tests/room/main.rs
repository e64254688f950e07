//! Tests of this crate through its public API: dialogues, smuggling, network, name servers, fuzzing.

mod backend;
mod dialogues;
mod fuzz;
mod loopback;
mod names;
mod results;
mod smuggling;
