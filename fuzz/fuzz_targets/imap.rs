//! Feeds the target `imap` of crates/fuzz; its seeds are in crates/fuzz/seeds/imap.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("imap", data));
