//! Feeds the target `mime` of crates/fuzz; its seeds are in crates/fuzz/seeds/mime.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("mime", data));
