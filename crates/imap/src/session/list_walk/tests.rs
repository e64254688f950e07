//! Tests of the responses to LIST and LSUB, and of the work that they cost.

use base::ViewId;
use proptest::prelude::*;

use super::*;
use crate::codec::command::{ListReturns, SpecialUseAttribute};
use crate::session::hierarchy::{HierarchyEntry, ListForm};

const SUBSCRIBED: ListSelection =
    ListSelection { subscribed: true, remote: false, recursive_match: false, special_use: false };
const SPECIAL_USE: ListSelection = ListSelection { subscribed: false, special_use: true, ..SUBSCRIBED };

/// Creates an entry. `!` at the end of its name marks a subscribed name, `*` one with a special use, and `?` one
/// without a mailbox.
fn entry(name: impl AsRef<str>) -> HierarchyEntry {
    let name = name.as_ref();
    HierarchyEntry {
        name: name.trim_end_matches(['!', '*', '?']).to_owned(),
        folder: (!name.contains('?')).then_some(ViewId(1)),
        subscribed: name.contains('!'),
        special_use: name.contains('*').then_some(SpecialUseAttribute::Sent),
    }
}

fn walk(names: &[&str], patterns: &[&str], criteria: ListCriteria) -> ListWalk {
    let hierarchy = Hierarchy::new(names.iter().map(entry).collect());
    let patterns = patterns.iter().map(|pattern| MailboxPattern::new("", pattern)).collect();
    ListWalk::new(hierarchy, patterns, criteria)
}

/// Returns the lines of a response.
fn lines(mut walk: ListWalk, describe: impl Fn(&ListEntry<'_>) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    while walk.visit(&mut |entry| lines.push(describe(entry))).expect("the work is little") {}
    lines
}

const NAMES: [&str; 6] = ["Sent!*", "INBOX!", "Work/2026/Old!", "Work/Plan", "Gone/Deep!?", "INBOX/Sub"];

/// Lists [`NAMES`] with their attributes, and a `+` for CHILDINFO.
fn check_attributes(pattern: &str, selection: ListSelection, expected: &[&str]) {
    let returns = ListReturns::default();
    let form = ListForm { selection, returns: &returns, knows_nonexistent: selection != ListSelection::default() };
    let describe = |listed: &ListEntry<'_>| {
        let attributes: Vec<_> = listed.attributes(form).collect();
        format!("{} {}{}", listed.name, attributes.join(" "), if listed.child_info { " +" } else { "" })
    };
    let found = lines(walk(&NAMES, &[pattern], ListCriteria::List(selection)), describe);
    assert_eq!(found, expected, "{pattern}");
}

#[test]
fn intermediate_levels_are_listed_as_noselect() {
    let check = |pattern: &str, expected: &[&str]| check_attributes(pattern, ListSelection::default(), expected);
    check(
        "*",
        &[
            "INBOX \\HasChildren",
            "INBOX/Sub \\HasNoChildren",
            "Sent \\HasNoChildren \\Sent",
            "Work \\NonExistent \\Noselect \\HasChildren",
            "Work/2026 \\NonExistent \\Noselect \\HasChildren",
            "Work/2026/Old \\HasNoChildren",
            "Work/Plan \\HasNoChildren",
        ],
    );
    check("%/Plan", &["Work/Plan \\HasNoChildren"]);
    check("inbox", &["INBOX \\HasChildren"]);
    check("i%", &["INBOX \\HasChildren"]);
    check("Inbox/%", &["INBOX/Sub \\HasNoChildren"]);
    check("sent", &[]);
    check("Work/2026", &["Work/2026 \\NonExistent \\Noselect \\HasChildren"]);
    check("Work/202", &[]);
}

#[test]
fn subscriptions_to_nonexistent_mailboxes_are_listed() {
    check_attributes(
        "*",
        SUBSCRIBED,
        &[
            "INBOX \\Subscribed \\HasChildren",
            "Gone/Deep \\NonExistent \\Subscribed",
            "Sent \\Subscribed \\HasNoChildren \\Sent",
            "Work/2026/Old \\Subscribed \\HasNoChildren",
        ],
    );
    check_attributes(
        "%",
        ListSelection { recursive_match: true, ..SUBSCRIBED },
        &[
            "INBOX \\Subscribed \\HasChildren",
            "Gone \\NonExistent +",
            "Sent \\Subscribed \\HasNoChildren \\Sent",
            "Work \\NonExistent \\HasChildren +",
        ],
    );
    check_attributes("*", SPECIAL_USE, &["Sent \\HasNoChildren \\Sent"]);
}

#[test]
fn mailboxes_below_a_mailbox_follow_it() {
    let names = ["Work-old", "Work", "INBOX", "Work/b", "Archive", "Work/a b/c"];
    let found = lines(walk(&names, &["*"], ListCriteria::List(ListSelection::default())), |entry| entry.name.into());
    assert_eq!(found, ["INBOX", "Archive", "Work", "Work/a b", "Work/a b/c", "Work/b", "Work-old"]);
}

/// Lists the names that match `patterns` and are selected, with a `+` for CHILDINFO.
fn check_recursive(names: &[&str], selection: ListSelection, patterns: &[&str], expected: &[&str]) {
    let selection = ListSelection { recursive_match: true, ..selection };
    let describe = |listed: &ListEntry<'_>| format!("{}{}", listed.name, if listed.child_info { " +" } else { "" });
    let found = lines(walk(names, patterns, ListCriteria::List(selection)), describe);
    assert_eq!(found, expected, "{patterns:?}");
}

#[test]
fn child_info_marks_parents_of_unlisted_names() {
    let check = |names: &[&str], patterns: &[&str], expected: &[&str]| {
        check_recursive(names, SUBSCRIBED, patterns, expected);
    };
    // RFC 5258 §5, example 8.
    check(&["Foo", "Foo/Bar", "Foo/Baz!", "Moo"], &["%"], &["Foo +"]);
    check(&["Foo!", "Foo/Bar", "Foo/Baz!", "Moo"], &["%"], &["Foo +"]);
    check(&["Foo!", "Foo/Bar", "Foo/Baz", "Moo!"], &["%"], &["Foo", "Moo"]);
    // Example 9.
    let names = [
        "foo2",
        "foo2/bar1!",
        "foo2/bar2!",
        "baz2",
        "baz2/bar2!",
        "baz2/bar22!",
        "baz2/bar222!",
        "eps2!",
        "eps2/mamba!",
        "qux2/bar2!",
    ];
    let expected = ["baz2/bar2", "baz2/bar22", "baz2/bar222", "eps2 +", "foo2 +", "foo2/bar2", "qux2/bar2"];
    check(&names, &["*2"], &expected);
    // A parent that is listed itself has CHILDINFO also if its children are listed (§3.5, the table).
    check(&names[7..9], &["*"], &["eps2 +", "eps2/mamba"]);
    check(&names[..3], &["*"], &["foo2/bar1", "foo2/bar2"]);
    check(&names[..3], &["foo2", "foo2/bar1"], &["foo2 +", "foo2/bar1"]);
    check(&names[..3], &["foo2", "foo2/%"], &["foo2/bar1", "foo2/bar2"]);
    // Example 10.
    check(&["foo", "foo/bar!?"], &["foo"], &["foo +"]);
    check(&["a/b/c!"], &["%", "%/%"], &["a +", "a/b +"]);
    check(&["INBOX", "INBOX/b!", "a!"], &["in%"], &["INBOX +"]);
}

#[test]
fn child_info_requires_one_descendant_meeting_all_criteria() {
    let both = ListSelection { special_use: true, ..SUBSCRIBED };
    check_recursive(&["a", "a/b!", "a/c*"], both, &["%"], &[]);
    check_recursive(&["a", "a/b!*"], both, &["%"], &["a +"]);
}

#[test]
fn lsub_lists_the_parent_level_of_a_subscription() {
    let check = |pattern: &str, expected: &[&str]| {
        let describe = |listed: &ListEntry<'_>| {
            let noselect = if listed.mailbox.subscribed { "" } else { " \\Noselect" };
            format!("{}{noselect}", listed.name)
        };
        assert_eq!(lines(walk(&NAMES, &[pattern], ListCriteria::Lsub), describe), expected, "{pattern}");
    };
    check("*", &["INBOX", "Gone/Deep", "Sent", "Work/2026/Old"]);
    check("%", &["INBOX", "Gone \\Noselect", "Sent", "Work \\Noselect"]);
    check("Work/%", &["Work/2026 \\Noselect"]);
}

/// Visits all names in slices. Returns the largest work of a slice and the number of slices, or `None` if the work of
/// the command is used up.
fn slices(mut walk: ListWalk) -> Option<(u64, usize)> {
    let mut largest = 0;
    for count in 1.. {
        let before = walk.budget.left();
        walk.begin_slice();
        let mut remain = true;
        while remain && !walk.is_slice_over() {
            remain = walk.visit(&mut |_| ()).ok()?;
        }
        largest = largest.max(before - walk.budget.left());
        if !remain {
            return Some((largest, count));
        }
    }
    None
}

/// Patterns that cost a matcher with backtracking a number of steps that is exponential in their length.
fn hostile_patterns(literals: usize) -> Vec<String> {
    (0..64).map(|number| format!("{}{number}", "%*a".repeat(literals))).collect()
}

#[test]
fn hostile_patterns_cost_little() {
    let names: Vec<String> = (0..200).map(|number| format!("{}{number}x!", "a".repeat(200))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for recursive_match in [false, true] {
        let patterns = hostile_patterns(25);
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let criteria = ListCriteria::List(ListSelection { recursive_match, ..SUBSCRIBED });
        let (largest, count) = slices(walk(&names, &patterns, criteria)).expect("the work suffices");
        // One name costs 64 patterns times 204 bytes.
        assert!(largest < LIST_SLICE_WORK + 64 * 210, "{largest}");
        assert!((5..20).contains(&count), "{count} slices");
    }
}

#[test]
fn work_of_a_command_is_limited() {
    let names: Vec<String> = (0..200).map(|number| format!("{}{number}x", "a".repeat(1_000))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let patterns = hostile_patterns(300);
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    assert_eq!(slices(walk(&names, &patterns, ListCriteria::List(SUBSCRIBED))), None);
}

#[test]
fn simple_patterns_cost_the_names_that_they_select() {
    let names: Vec<String> = (0..5_000).map(|number| format!("Folder {number:04}/Sub")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let patterns: Vec<String> = (0..64).map(|number| format!("Folder {number:04}/*")).collect();
    let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
    let (work, count) =
        slices(walk(&names, &patterns, ListCriteria::List(ListSelection::default()))).expect("no limit");
    assert_eq!(count, 1);
    // Three for each name, and one for each pattern with the name that it selects.
    assert_eq!(work, 3 * 5_000 + 64 * (1 + LISTED_NAME_WORK as u64));
}

#[test]
fn deep_subscriptions_cost_little_memory_and_work() {
    let names: Vec<String> = (0..500).map(|number| format!("{number:04}/{}z!?", "a/".repeat(500))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let list = walk(&names, &["*"], ListCriteria::List(SUBSCRIBED));
    assert_eq!(list.hierarchy.len(), names.len());
    let found = lines(list, |entry| entry.name.into());
    assert_eq!(found.len(), names.len());
}

/// Returns `true` if a name matches a pattern, by the plain definition.
fn naive(pattern: &str, name: &str) -> bool {
    let rest_of = |text: &str| text.get(1..).unwrap_or_default().to_owned();
    match (pattern.bytes().next(), name.bytes().next()) {
        (None, None) => true,
        (Some(b'*'), first) => naive(&rest_of(pattern), name) || (first.is_some() && naive(pattern, &rest_of(name))),
        (Some(b'%'), first) => {
            let goes_on = first.is_some_and(|first| first != b'/');
            naive(&rest_of(pattern), name) || (goes_on && naive(pattern, &rest_of(name)))
        }
        (Some(wanted), Some(found)) => wanted == found && naive(&rest_of(pattern), &rest_of(name)),
        _ => false,
    }
}

proptest! {
    /// The names that LIST shows are those that match, each once, of all stored names and the levels above them.
    #[test]
    fn all_names_and_levels_that_match_are_listed(
        names in prop::collection::btree_set("[ab-]{1,2}(/[ab]{1,2}){0,3}", 1..10),
        patterns in prop::collection::vec("[ab/%*-]{1,5}", 1..4),
    ) {
        let stored: Vec<&str> = names.iter().map(String::as_str).collect();
        let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let walk = walk(&stored, &texts, ListCriteria::List(ListSelection::default()));
        let mut found = lines(walk, |entry| entry.name.into());
        found.sort();
        let levels = stored.iter().flat_map(|name| name.match_indices('/').map(move |(end, _)| &name[..end]));
        let mut expected: Vec<&str> = stored.iter().copied().chain(levels).collect();
        expected.retain(|name| patterns.iter().any(|pattern| naive(pattern, name)));
        expected.sort_unstable();
        expected.dedup();
        prop_assert_eq!(found, expected);
    }
}
