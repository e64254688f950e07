//! Feeds the target `web_html` of crates/fuzz; its seeds are in crates/fuzz/seeds/web_html.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("web_html", data));
