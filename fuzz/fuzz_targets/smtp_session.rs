//! Feeds the target `smtp_session` of crates/fuzz; its seeds are in crates/fuzz/seeds/smtp_session.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("smtp_session", data));
