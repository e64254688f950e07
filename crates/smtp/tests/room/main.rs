//! Tests of the SMTP room through its public face: dialogues, smuggling, the network, name servers, fuzzing.

mod backend;
mod dialogues;
mod fuzz;
mod loopback;
mod names;
mod results;
mod smuggling;
