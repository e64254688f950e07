//! Feeds the target `smtp_message` of crates/fuzz; its seeds are in crates/fuzz/seeds/smtp_message.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("smtp_message", data));
