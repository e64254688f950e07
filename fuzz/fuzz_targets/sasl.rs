//! Feeds the target `sasl` of crates/fuzz; its seeds are in crates/fuzz/seeds/sasl.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("sasl", data));
