//! Feeds the target `replication` of crates/fuzz; its seeds are in crates/fuzz/seeds/replication.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("replication", data));
