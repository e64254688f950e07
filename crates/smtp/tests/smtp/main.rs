//! Tests of this crate through its public API: dialogues, smuggling, headers, network, name servers, debug events,
//! fuzzing.

mod backend;
mod debug_log;
mod dialogues;
mod dns;
mod fuzz;
mod headers;
mod loopback;
mod results;
mod smuggling;
