//! Feeds the target `smtp_arguments` of crates/fuzz; its seeds are in crates/fuzz/seeds/smtp_arguments.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::run("smtp_arguments", data));
