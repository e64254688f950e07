//! Feeds the target `records` of crates/fuzz; its seeds are in crates/fuzz/seeds/records.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("records", data));
