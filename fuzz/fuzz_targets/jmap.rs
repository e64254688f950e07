//! Feeds the target `jmap` of crates/fuzz; its seeds are in crates/fuzz/seeds/jmap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("jmap", data));
