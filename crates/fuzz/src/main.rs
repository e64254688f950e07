//! Runs mutated seeds through the targets: a fixed number of inputs, the same ones every time.
//!
//! ```text
//! doublet-fuzz [--iterations 20000] [--from NUMBER] [--target NAME]
//! ```
//!
//! A violated invariant ends the program with the target and the number of the input, which reproduce it: `doublet-fuzz
//! --target NAME --from NUMBER --iterations 1`. The input itself is printed too, so that it can be kept as a seed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use fuzz::mutation;
use fuzz::targets::{TARGETS, Target, seeds};

struct Plan {
    iterations: u64,
    from: u64,
    target: Option<String>,
}

fn main() -> ExitCode {
    let plan = match plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(word) => {
            eprintln!("doublet-fuzz: cannot make sense of {word:?}");
            return ExitCode::FAILURE;
        }
    };
    let chosen = TARGETS.iter().filter(|target| plan.target.as_deref().is_none_or(|name| name == target.name));
    let results: Vec<bool> = chosen.map(|target| run_target(target, &plan)).collect();
    if !results.is_empty() && results.iter().all(|held| *held) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn plan(mut words: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan { iterations: 20_000, from: 0, target: None };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| word.clone())?;
        match word.as_str() {
            "--iterations" => plan.iterations = value.parse().map_err(|_| value)?,
            "--from" => plan.from = value.parse().map_err(|_| value)?,
            "--target" => plan.target = Some(value),
            _ => return Err(word),
        }
    }
    Ok(plan)
}

/// Runs a target on all inputs. Returns `true` if no invariant was violated.
fn run_target(target: &Target, plan: &Plan) -> bool {
    let seeds = seeds(target);
    for number in plan.from..plan.from.saturating_add(plan.iterations) {
        let input = mutation::input(number, &seeds, target.words);
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            eprintln!("{}: input {number} breaks a promise; it is b\"{}\"", target.name, input.escape_ascii());
            return false;
        }
    }
    println!("{}: {} inputs from {} seeds", target.name, plan.iterations, seeds.len());
    true
}
