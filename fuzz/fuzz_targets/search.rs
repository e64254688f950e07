//! Feeds the target `search` of crates/fuzz; its seeds are in crates/fuzz/seeds/search.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("search", data));
