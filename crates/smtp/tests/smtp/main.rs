//! Tests of this crate through its public API: dialogues, smuggling, headers, local senders, parameters of reports,
//! memory, pace, network, name servers, debug events, fuzzing.

mod backend;
mod debug_log;
mod dialogues;
mod dns;
mod fuzz;
mod headers;
mod local_senders;
mod loopback;
mod memory;
mod pace;
mod report_parameters;
mod results;
mod smuggling;
