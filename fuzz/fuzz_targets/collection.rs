//! Feeds the target `collection` of crates/fuzz; its seeds are in crates/fuzz/seeds/collection.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("collection", data));
