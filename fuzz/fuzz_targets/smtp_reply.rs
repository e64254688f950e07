//! Feeds the target `smtp_reply` of crates/fuzz; its seeds are in crates/fuzz/seeds/smtp_reply.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("smtp_reply", data));
