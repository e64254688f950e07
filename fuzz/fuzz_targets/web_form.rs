//! Feeds the target `web_form` of crates/fuzz; its seeds are in crates/fuzz/seeds/web_form.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("web_form", data));
