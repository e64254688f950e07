//! Feeds the target `couchdb` of crates/fuzz; its seeds are in crates/fuzz/seeds/couchdb.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("couchdb", data));
