//! Feeds the target `smtp_data` of crates/fuzz; its seeds are in crates/fuzz/seeds/smtp_data.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("smtp_data", data));
