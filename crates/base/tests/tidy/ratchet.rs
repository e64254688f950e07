//! The list of known violations, which can only shrink.
//!
//! A line of `exceptions.txt` is `rule place size`. `size` is the measured size (for instance the lines of a function),
//! or 0 if nothing is measured. It must equal the size that is found: if a function becomes shorter, its line must be
//! updated, and if it becomes longer, the test fails. Lines that begin with `#` state reasons.

use std::collections::BTreeMap;

use crate::repository;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The name of the rule.
    pub rule: String,
    /// The location: a path, followed by `::` and a function or name if applicable. It has no line numbers, so that it
    /// is stable.
    pub place: String,
    /// The measured size, or 0 if nothing is measured.
    pub size: usize,
    /// The error and its correction.
    pub remark: String,
}

impl Finding {
    /// Creates a finding without a size.
    pub fn new(rule: &str, place: impl Into<String>, remark: impl Into<String>) -> Self {
        Self::sized(rule, place, 0, remark)
    }

    /// Creates a finding with a size.
    pub fn sized(rule: &str, place: impl Into<String>, size: usize, remark: impl Into<String>) -> Self {
        Self { rule: rule.into(), place: place.into(), size, remark: remark.into() }
    }
}

/// A line of the list of exceptions.
#[derive(Debug, Clone)]
pub struct Exception {
    /// The name of the rule.
    pub rule: String,
    /// The location, in the form of [`Finding::place`].
    pub place: String,
    /// The size, in the form of [`Finding::size`].
    pub size: usize,
}

/// Reads the list of exceptions.
pub fn exceptions() -> Vec<Exception> {
    parse(&repository::read("crates/base/tests/tidy/exceptions.txt"))
}

/// Compares findings with the exceptions of some rules. Returns the complaints.
pub fn unexcused(rules: &[&str], findings: Vec<Finding>) -> Vec<String> {
    compare(exceptions().into_iter().filter(|e| rules.contains(&e.rule.as_str())).collect(), findings)
}

fn compare(exceptions: Vec<Exception>, findings: Vec<Finding>) -> Vec<String> {
    let mut excused: BTreeMap<(String, String), usize> =
        exceptions.into_iter().map(|e| ((e.rule, e.place), e.size)).collect();
    let mut complaints = Vec::new();
    for finding in findings {
        let known = excused.remove(&(finding.rule.clone(), finding.place.clone()));
        let Finding { rule, place, size, remark } = finding;
        match known {
            Some(allowed) if allowed == size => {}
            Some(allowed) if size < allowed => {
                complaints
                    .push(format!("{rule}: {place}: down to {size} from {allowed}: write {size} into exceptions.txt"));
            }
            Some(allowed) => complaints.push(format!("{rule}: {place}: {remark} (exceptions.txt allows {allowed})")),
            None => complaints.push(format!("{rule}: {place}: {remark}")),
        }
    }
    for ((rule, place), _) in excused {
        complaints.push(format!("{rule}: {place}: no longer breaks the rule: take its line out of exceptions.txt"));
    }
    complaints
}

fn parse(text: &str) -> Vec<Exception> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let (Some(rule), Some(place), Some(size), None) = (words.next(), words.next(), words.next(), words.next())
            else {
                panic!("exceptions.txt: {line:?} is not `rule place size`");
            };
            let size = size.parse().unwrap_or_else(|_| panic!("exceptions.txt: {size:?} in {line:?} is not a number"));
            Exception { rule: rule.into(), place: place.into(), size }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(exceptions: &str, size: usize) -> Vec<String> {
        compare(parse(exceptions), vec![Finding::sized("length", "a.rs::f", size, "too long")])
    }

    #[test]
    fn the_list_can_only_shrink() {
        assert_eq!(complaints("length a.rs::f 80", 80), Vec::<String>::new());
        assert_eq!(complaints("length a.rs::f 80", 79).len(), 1, "a size above the measured one must be lowered");
        assert_eq!(complaints("length a.rs::f 80", 81).len(), 1, "nothing on the list may grow");
        assert_eq!(complaints("# nothing", 81).len(), 1, "new offenders fail");
        assert_eq!(
            complaints("length a.rs::f 80\nlength a.rs::g 75", 80).len(),
            1,
            "a line without an offender must be removed"
        );
    }
}
