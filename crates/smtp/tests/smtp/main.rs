//! Tests of this crate through its public API: dialogues, smuggling, network, name servers, fuzzing.

mod backend;
mod dialogues;
mod dns;
mod fuzz;
mod loopback;
mod results;
mod smuggling;
