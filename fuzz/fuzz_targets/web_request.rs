//! Feeds the target `web_request` of crates/fuzz; its seeds are in crates/fuzz/seeds/web_request.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("web_request", data));
