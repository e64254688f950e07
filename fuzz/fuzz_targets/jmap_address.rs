//! Feeds the target `jmap_address` of crates/fuzz; its seeds are in crates/fuzz/seeds/jmap_address.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("jmap_address", data));
