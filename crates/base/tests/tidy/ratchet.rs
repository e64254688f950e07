//! The list of known offenders, which can only shrink.
//!
//! A line of `exceptions.txt` is `rule place size`, where `size` is how much of the measured thing there is (lines of a function,
//! for instance; 0 where there is nothing to measure). The size must be what is found: a function that got shorter takes
//! its line along, a function that got longer fails. Lines that begin with `#` say why.

use std::collections::BTreeMap;

use crate::tree;

/// Something that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// Where: a path, and behind `::` a function or name where there is one. Without line numbers, so that it is stable.
    pub place: String,
    /// How much of it there is, 0 where nothing is measured.
    pub size: usize,
    /// What is wrong and what to do instead.
    pub remark: String,
}

impl Finding {
    /// Makes a finding about something that is not measured.
    pub fn new(rule: &str, place: impl Into<String>, remark: impl Into<String>) -> Self {
        Self::sized(rule, place, 0, remark)
    }

    /// Makes a finding about something of a certain size.
    pub fn sized(rule: &str, place: impl Into<String>, size: usize, remark: impl Into<String>) -> Self {
        Self { rule: rule.into(), place: place.into(), size, remark: remark.into() }
    }
}

/// A line of the list of exceptions.
#[derive(Debug, Clone)]
pub struct Exception {
    /// The rule's name.
    pub rule: String,
    /// As in [`Finding::place`].
    pub place: String,
    /// As in [`Finding::size`].
    pub size: usize,
}

/// Reads the list of exceptions.
pub fn exceptions() -> Vec<Exception> {
    parse(&tree::read("crates/base/tests/tidy/exceptions.txt"))
}

/// Takes the exceptions of some rules from the findings, and gives what is to be complained about.
pub fn judge(rules: &[&str], findings: Vec<Finding>) -> Vec<String> {
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
        assert_eq!(complaints("length a.rs::f 80", 79).len(), 1, "a line that says too much is to be lowered");
        assert_eq!(complaints("length a.rs::f 80", 81).len(), 1, "nothing on the list may grow");
        assert_eq!(complaints("# nothing", 81).len(), 1, "new offenders fail");
        assert_eq!(complaints("length a.rs::f 80\nlength a.rs::g 75", 80).len(), 1, "lines without an offender go");
    }
}
