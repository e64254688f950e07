//! Tests of group expansion against hand-written directories and a naive reachability algorithm.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A directory in a few lines, such as `sales: ann, bob@far.test, research`. Names with a line of their own are groups,
/// names with an `@` are remote, names that begin with `?` are unknown, and all others are people.
#[derive(Debug)]
struct Fixture {
    groups: BTreeMap<String, Vec<String>>,
}

impl Fixture {
    fn new(text: &str) -> Self {
        let split = |line: &str| {
            let (group, members) = line.split_once(':')?;
            let members = members.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            Some((group.trim().to_owned(), members.collect()))
        };
        Self { groups: text.lines().filter_map(split).collect() }
    }
}

impl MemberResolver for Fixture {
    type Person = String;
    type Group = String;
    type Error = &'static str;

    fn member(&self, name: &str) -> Result<Member<String, String>, &'static str> {
        Ok(match name {
            "broken" => return Err("broken"),
            group if self.groups.contains_key(group) => Member::Group(group.to_owned()),
            remote if remote.contains('@') => Member::Remote(remote.to_lowercase()),
            unknown if unknown.starts_with('?') => Member::Unknown,
            person => Member::Person(person.to_owned()),
        })
    }

    fn members(&self, group: &String) -> Result<Vec<String>, &'static str> {
        self.groups.get(group).cloned().ok_or("no such group")
    }
}

fn bounds(depth_max: usize, results_max: usize) -> ExpansionLimits {
    ExpansionLimits { depth_max, results_max }
}

fn check(directory: &str, people: &str, remote: &str, unknown: &str) {
    let found =
        expand(&Fixture::new(directory), &"all".to_owned(), ExpansionLimits::default()).expect("within the bounds");
    assert_eq!(found.people.join(" "), people, "people of {directory}");
    assert_eq!(found.remote.join(" "), remote, "remote of {directory}");
    assert_eq!(found.unknown.join(" "), unknown, "unknown of {directory}");
}

#[test]
fn members_of_every_kind_are_found() {
    check("all: ann, bob, Carl@far.test, ?zoe", "ann bob", "carl@far.test", "?zoe");
    check("all:", "", "", "");
}

#[test]
fn nested_groups_are_expanded() {
    check("all: sales, ann\nsales: bob, research\nresearch: carl, x@far.test", "ann bob carl", "x@far.test", "");
}

#[test]
fn duplicates_are_removed() {
    check("all: ann, sales, ann, A@far.test\nsales: ann, bob, a@far.test, ?x, ?x", "ann bob", "a@far.test", "?x");
}

#[test]
fn cycles_terminate() {
    check("all: all, ann", "ann", "", "");
    check("all: a, x\na: b\nb: a, all, y", "x y", "", "");
}

#[test]
fn too_deep_nesting_is_an_error() {
    let chain = Fixture::new("all: g1\ng1: g2\ng2: g3\ng3: ann");
    let expand = |depth_max| expand(&chain, &"all".to_owned(), bounds(depth_max, 100));
    assert_eq!(expand(3).map(|found| found.people), Ok(vec!["ann".to_owned()]));
    assert_eq!(expand(2), Err(ExpandError::TooDeep { group: "g3".to_owned() }));
}

#[test]
fn depth_is_that_of_the_shortest_path() {
    let fixture = Fixture::new("all: g1, g3\ng1: g2\ng2: g3\ng3: ann");
    assert!(expand(&fixture, &"all".to_owned(), bounds(2, 100)).is_ok());
}

#[test]
fn too_many_results_are_an_error() {
    let fixture = Fixture::new("all: a, b@far.test, g\ng: d, ?e");
    let expand = |results_max| expand(&fixture, &"all".to_owned(), bounds(10, results_max)).map(|_| ());
    assert_eq!(expand(6), Ok(()));
    assert_eq!(expand(5), Err(ExpandError::TooMany));
}

#[test]
fn failed_lookup_is_an_error() {
    let outcome = expand(&Fixture::new("all: ann, broken"), &"all".to_owned(), ExpansionLimits::default());
    assert_eq!(outcome, Err(ExpandError::Lookup("broken")));
}

/// Returns everything reachable from `all`, by repeating until nothing is added.
fn reachable(fixture: &Fixture) -> BTreeSet<String> {
    let mut known = BTreeSet::from(["all".to_owned()]);
    loop {
        let members = known.iter().filter_map(|name| fixture.groups.get(name)).flatten().cloned();
        let next: BTreeSet<String> = known.iter().cloned().chain(members.collect::<Vec<_>>()).collect();
        if next.len() == known.len() {
            return known.into_iter().filter(|name| !fixture.groups.contains_key(name)).collect();
        }
        known = next;
    }
}

fn any_directory() -> impl Strategy<Value = Fixture> {
    let group = prop_oneof![Just("all".to_owned()), "g[0-9]"];
    let member = prop_oneof![Just("all".to_owned()), "g[0-9]", "p[0-9]", "r[0-9]@far\\.test", "\\?u[0-9]"];
    proptest::collection::btree_map(group, proptest::collection::vec(member, 0..8), 0..10).prop_map(|mut groups| {
        groups.entry("all".to_owned()).or_default();
        Fixture { groups }
    })
}

proptest! {
    #[test]
    fn expansion_finds_exactly_the_reachable_members(fixture in any_directory()) {
        let found = expand(&fixture, &"all".to_owned(), ExpansionLimits::default()).expect("within the bounds");
        let all: Vec<String> = found.people.into_iter().chain(found.remote).chain(found.unknown).collect();
        let distinct: BTreeSet<String> = all.iter().cloned().collect();
        prop_assert_eq!(distinct.len(), all.len(), "no duplicates");
        prop_assert_eq!(distinct, reachable(&fixture));
    }
}
