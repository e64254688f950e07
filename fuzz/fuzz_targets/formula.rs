//! Feeds the target `formula` of crates/fuzz; its seeds are in crates/fuzz/seeds/formula.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("formula", data));
