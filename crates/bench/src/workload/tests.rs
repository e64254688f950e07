//! Tests of the grammar of workload files, and of the files that this program brings.

mod findings;
mod hostile;
mod pages;
mod promises;

use super::Workload;
use super::check::check;

/// The keys that a file needs besides its steps: four lines.
const HEAD: &str = "format = 1\nname = \"Test\"\ntitle = \"A test\"\niteration = \"10 min\"\n";

const STEP: &str = "step = [{ verb = \"poll\" }]\n";

/// Returns a file with further keys, from line 5.
fn with_keys(keys: &str) -> String {
    format!("{HEAD}{keys}\n{STEP}")
}

/// Returns a file with further tables, from line 6.
fn with_tables(tables: &str) -> String {
    format!("{HEAD}{STEP}{tables}\n")
}

/// Returns a file with one step, in line 5.
fn with_step(step: &str) -> String {
    format!("{HEAD}step = [{{ {step} }}]\n")
}

/// Returns a file with classes, from line 5.
fn with_classes(classes: &str) -> String {
    format!("{HEAD}{classes}\n")
}

/// Returns the findings of a file as they are printed.
fn findings(text: &str, assignments: &[&str]) -> Vec<String> {
    let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
    let found = check(text, &assignments).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

/// Checks a file that has no errors.
fn valid(text: &str, assignments: &[&str]) -> Workload {
    let assignments: Vec<String> = assignments.iter().map(|text| (*text).to_owned()).collect();
    check(text, &assignments).unwrap_or_else(|findings| panic!("{findings:#?}\n{text}"))
}

/// Returns a shipped workload.
fn shipped(name: &str) -> Workload {
    valid(&super::shipped::load(name).expect("the program brings it"), &[])
}
