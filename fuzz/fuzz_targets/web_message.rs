//! Feeds the target `web_message` of crates/fuzz; its seeds are in crates/fuzz/seeds/web_message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("web_message", data));
