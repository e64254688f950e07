//! The seeds of a test run.
//!
//! A seed reproduces a failure exactly, because there is only one thread and no other source of randomness.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs a test for each of its seeds: `short` seeds, or `long` seeds with `DOUBLET_SOAK`, or only the seed in
/// `DOUBLET_SEED`.
pub fn each_seed(test: &str, short: u64, long: u64, run: impl Fn(u64)) {
    for seed in seeds(short, long) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("{test} fails with DOUBLET_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    if let Some(seed) = std::env::var("DOUBLET_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed..seed + 1;
    }
    0..if std::env::var_os("DOUBLET_SOAK").is_some() { long } else { short }
}
