//! The tree of mailboxes as LIST and LSUB show it: patterns, implied parents, attributes.
//!
//! The mail file stores folders by their full names. A client also sees intermediate levels, such as `a` if only `a/b`
//! exists, and subscriptions to names without a mailbox. [`Hierarchy`] adds these names, and selects and describes the
//! names that a command requests (RFC 5258). Pure.
//!
//! The separator is `/`. INBOX comes first. All other names are in byte order, with each parent before its children.

use std::collections::{BTreeMap, HashMap};

use mail::mailbox::canonical_name;

use crate::codec::command::{ListReturns, ListSelection, SpecialUseAttribute};
use crate::limits::LIST_STEPS_MAX;

/// The separator between levels.
pub const SEPARATOR: char = '/';

/// A name in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListedMailbox {
    /// `true` if the mailbox exists. Otherwise the name is an intermediate level, or only subscribed to.
    pub exists: bool,
    /// `true` if the client has subscribed to the name.
    pub subscribed: bool,
    /// The special use of the mailbox.
    pub special_use: Option<SpecialUseAttribute>,
    /// `true` if there is an existing mailbox below the name.
    pub has_children: bool,
    /// `true` if there is a subscribed name below the name.
    pub has_subscribed_children: bool,
}

/// A line of the response to LIST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListEntry<'h> {
    /// The name.
    pub name: &'h str,
    /// The properties of the name.
    pub mailbox: &'h ListedMailbox,
    /// `true` if a name below this one meets the selection criteria (RECURSIVEMATCH), so that CHILDINFO is sent.
    pub child_info: bool,
}

/// The form of LIST responses that a client asked for.
#[derive(Debug, Clone, Copy)]
pub struct ListForm<'c> {
    /// The selection options.
    pub selection: ListSelection,
    /// The return options.
    pub returns: &'c ListReturns,
    /// `true` if the client knows `\NonExistent` and that it implies `\Noselect` (RFC 5258 §3, RFC 9051 §7.3.1). RFC
    /// 3501 has only `\Noselect`.
    pub knows_nonexistent: bool,
}

/// The names that a client can see.
#[derive(Debug, Default)]
pub struct Hierarchy {
    names: BTreeMap<String, ListedMailbox>,
}

impl Hierarchy {
    /// Creates the tree from names with their properties, and adds intermediate levels.
    #[must_use]
    pub fn from_mailboxes(mailboxes: impl IntoIterator<Item = (String, ListedMailbox)>) -> Self {
        let mut names: BTreeMap<String, ListedMailbox> = BTreeMap::new();
        for (name, mailbox) in mailboxes {
            for (end, _) in name.match_indices(SEPARATOR) {
                let parent = names.entry(name[..end].to_owned()).or_default();
                parent.has_children |= mailbox.exists;
                parent.has_subscribed_children |= mailbox.subscribed;
            }
            let known = names.entry(name).or_default();
            known.exists = mailbox.exists;
            known.subscribed = mailbox.subscribed;
            known.special_use = mailbox.special_use;
        }
        Self { names }
    }

    /// Returns the response to LIST: the names that match a pattern and the selection. With RECURSIVEMATCH, also the
    /// names that match a pattern and have a name below them that meets the selection criteria and is not in the
    /// response.
    pub fn list<'h>(
        &'h self,
        patterns: &'h [MailboxPattern],
        selection: ListSelection,
    ) -> impl Iterator<Item = ListEntry<'h>> + 'h {
        let parents = if selection.recursive_match { self.parents(patterns, selection) } else { HashMap::new() };
        self.in_order().filter(|(name, _)| matches_any(patterns, name)).filter_map(move |(name, mailbox)| {
            let descendants = parents.get(name);
            let is_listed = is_selected(mailbox, selection) || descendants == Some(&SelectedDescendants::SomeUnlisted);
            is_listed.then_some(ListEntry { name, mailbox, child_info: descendants.is_some() })
        })
    }

    /// Returns the names above a name that meets the selection criteria.
    ///
    /// A parent that does not meet them itself is not listed if all such names below it are listed anyway (RFC 5258
    /// §3.5).
    fn parents(&self, patterns: &[MailboxPattern], selection: ListSelection) -> HashMap<&str, SelectedDescendants> {
        let mut parents = HashMap::new();
        for (name, _) in self.names.iter().filter(|(_, mailbox)| is_selected(mailbox, selection)) {
            let is_listed = matches_any(patterns, name);
            for (end, _) in name.match_indices(SEPARATOR) {
                let descendants = parents.entry(&name[..end]).or_insert(SelectedDescendants::AllListed);
                if !is_listed {
                    *descendants = SelectedDescendants::SomeUnlisted;
                }
            }
        }
        parents
    }

    /// Returns the response to LSUB: the subscribed names that match and, for `%`, the first level above a subscribed
    /// name.
    ///
    /// The flag is `true` if the name itself is subscribed. Otherwise the name is sent as `\Noselect`.
    pub fn subscribed<'h>(&'h self, pattern: &'h MailboxPattern) -> impl Iterator<Item = (&'h str, bool)> + 'h {
        self.in_order().filter_map(move |(name, mailbox)| {
            let parent = mailbox.has_subscribed_children && pattern.ends_with_percent();
            let chosen = (mailbox.subscribed || parent) && pattern.matches(name);
            chosen.then_some((name, mailbox.subscribed))
        })
    }

    /// Returns the properties of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ListedMailbox> {
        self.names.get(name)
    }

    fn in_order(&self) -> impl Iterator<Item = (&str, &ListedMailbox)> {
        let inbox = self.names.get_key_value("INBOX");
        let others = self.names.iter().filter(|(name, _)| *name != "INBOX");
        inbox.into_iter().chain(others).map(|(name, mailbox)| (name.as_str(), mailbox))
    }
}

/// The names below a name that meet the selection criteria.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SelectedDescendants {
    /// All of them match a pattern and are in the response.
    AllListed,
    /// At least one of them matches no pattern.
    SomeUnlisted,
}

/// Returns `true` if a name meets all selection criteria itself. Without criteria, names without a mailbox meet them if
/// there is a mailbox below them.
fn is_selected(mailbox: &ListedMailbox, selection: ListSelection) -> bool {
    if !selection.subscribed && !selection.special_use {
        return mailbox.exists || mailbox.has_children;
    }
    (!selection.subscribed || mailbox.subscribed) && (!selection.special_use || mailbox.special_use.is_some())
}

fn matches_any(patterns: &[MailboxPattern], name: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(name))
}

impl ListEntry<'_> {
    /// Returns the attributes to send in parentheses.
    pub fn attributes(&self, form: ListForm<'_>) -> impl Iterator<Item = &'static str> {
        let mailbox = self.mailbox;
        let missing = (!mailbox.exists).then_some("\\NonExistent");
        let noselect = (!mailbox.exists && !form.knows_nonexistent).then_some("\\Noselect");
        let tells_subscribed = form.returns.subscribed || form.selection.subscribed;
        let subscribed = (mailbox.subscribed && tells_subscribed).then_some("\\Subscribed");
        let children = match (mailbox.has_children, mailbox.exists) {
            (true, _) => Some("\\HasChildren"),
            (false, true) => Some("\\HasNoChildren"),
            (false, false) => None,
        };
        let special_use = mailbox.special_use.map(SpecialUseAttribute::name);
        [missing, noselect, subscribed, children, special_use].into_iter().flatten()
    }
}

/// A pattern for mailbox names: `*` matches any text, `%` matches any text within one level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailboxPattern {
    text: String,
}

impl MailboxPattern {
    /// Joins the reference name and a pattern of LIST.
    #[must_use]
    pub fn new(reference: &str, pattern: &str) -> Self {
        Self { text: canonical_name(&format!("{reference}{pattern}")) }
    }

    /// Returns `true` if the name matches the pattern. INBOX is compared without regard to case.
    ///
    /// A pattern that would take too many steps to match matches nothing.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let fold = name == "INBOX";
        matches(self.text.as_bytes(), name.as_bytes(), |pattern, name| {
            pattern == name || (fold && pattern.eq_ignore_ascii_case(&name))
        })
    }

    fn ends_with_percent(&self) -> bool {
        self.text.ends_with('%')
    }
}

/// Matches with two backtracking points: the last `*` and, after it, the last `%`.
///
/// Only the last `*` matters, because it can compensate for any other choice of an earlier one. The same holds for `%`
/// within a level. Steps are counted, so that the cost is bounded for every pattern.
fn matches(pattern: &[u8], name: &[u8], equal: impl Fn(u8, u8) -> bool) -> bool {
    let mut at = 0;
    let mut place = 0;
    let mut star: Option<(usize, usize)> = None;
    let mut percent: Option<(usize, usize)> = None;
    for _ in 0..LIST_STEPS_MAX {
        match (pattern.get(at), name.get(place)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                at += 1;
                star = Some((at, place));
                percent = None;
                continue;
            }
            (Some(b'%'), _) => {
                at += 1;
                percent = Some((at, place));
                continue;
            }
            (Some(wanted), Some(found)) if equal(*wanted, *found) => {
                at += 1;
                place += 1;
                continue;
            }
            _ => {}
        }
        // Mismatch: the last `%` takes one more byte unless that byte ends a level; otherwise the last `*` takes one
        // more byte.
        match (percent, star) {
            (Some((after, from)), _) if name.get(from).is_some_and(|byte| *byte != SEPARATOR as u8) => {
                percent = Some((after, from + 1));
                at = after;
                place = from + 1;
            }
            (_, Some((after, from))) if from < name.len() => {
                star = Some((after, from + 1));
                percent = None;
                at = after;
                place = from + 1;
            }
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hierarchy() -> Hierarchy {
        let mailbox = |exists, subscribed, special_use| ListedMailbox {
            exists,
            subscribed,
            special_use,
            ..ListedMailbox::default()
        };
        Hierarchy::from_mailboxes([
            ("Sent".into(), mailbox(true, true, Some(SpecialUseAttribute::Sent))),
            ("INBOX".into(), mailbox(true, true, None)),
            ("Work/2026/Old".into(), mailbox(true, true, None)),
            ("Work/Plan".into(), mailbox(true, false, None)),
            ("Gone/Deep".into(), mailbox(false, true, None)),
            ("INBOX/Sub".into(), mailbox(true, false, None)),
        ])
    }

    fn listed(pattern: &str, selection: ListSelection) -> Vec<String> {
        let patterns = [MailboxPattern::new("", pattern)];
        let returns = ListReturns::default();
        let form = ListForm { selection, returns: &returns, knows_nonexistent: selection != ListSelection::default() };
        let describe = |listed: ListEntry<'_>| {
            let attributes: Vec<_> = listed.attributes(form).collect();
            let info = if listed.child_info { " +" } else { "" };
            format!("{} {}{info}", listed.name, attributes.join(" "))
        };
        hierarchy().list(&patterns, selection).map(describe).collect()
    }

    #[test]
    fn intermediate_levels_are_listed_as_noselect() {
        let all = listed("*", ListSelection::default());
        assert_eq!(
            all,
            [
                "INBOX \\HasChildren",
                "INBOX/Sub \\HasNoChildren",
                "Sent \\HasNoChildren \\Sent",
                "Work \\NonExistent \\Noselect \\HasChildren",
                "Work/2026 \\NonExistent \\Noselect \\HasChildren",
                "Work/2026/Old \\HasNoChildren",
                "Work/Plan \\HasNoChildren",
            ]
        );
        assert_eq!(listed("%/Plan", ListSelection::default()), ["Work/Plan \\HasNoChildren"]);
        assert_eq!(listed("inbox", ListSelection::default()), ["INBOX \\HasChildren"]);
        assert_eq!(listed("Inbox/%", ListSelection::default()), ["INBOX/Sub \\HasNoChildren"]);
        assert_eq!(listed("sent", ListSelection::default()), Vec::<String>::new());
    }

    #[test]
    fn subscriptions_to_nonexistent_mailboxes_are_listed() {
        let selection = ListSelection { subscribed: true, ..ListSelection::default() };
        assert_eq!(
            listed("*", selection),
            [
                "INBOX \\Subscribed \\HasChildren",
                "Gone/Deep \\NonExistent \\Subscribed",
                "Sent \\Subscribed \\HasNoChildren \\Sent",
                "Work/2026/Old \\Subscribed \\HasNoChildren",
            ]
        );
        let recursive = ListSelection { recursive_match: true, ..selection };
        assert_eq!(
            listed("%", recursive),
            [
                "INBOX \\Subscribed \\HasChildren",
                "Gone \\NonExistent +",
                "Sent \\Subscribed \\HasNoChildren \\Sent",
                "Work \\NonExistent \\HasChildren +",
            ]
        );
        let special = ListSelection { special_use: true, ..ListSelection::default() };
        assert_eq!(listed("*", special), ["Sent \\HasNoChildren \\Sent"]);
    }

    /// Lists the names that match `patterns` and are selected, with a `+` for CHILDINFO.
    fn check_recursive(names: &[&str], selection: ListSelection, patterns: &[&str], expected: &[&str]) {
        // `!` marks a subscribed name, `*` one with a special use, and `?` one without a mailbox.
        let mailbox = |name: &&str| {
            let listed = ListedMailbox {
                exists: !name.contains('?'),
                subscribed: name.contains('!'),
                special_use: name.contains('*').then_some(SpecialUseAttribute::Archive),
                ..ListedMailbox::default()
            };
            (name.trim_end_matches(['!', '*', '?']).to_owned(), listed)
        };
        let hierarchy = Hierarchy::from_mailboxes(names.iter().map(mailbox));
        let patterns: Vec<MailboxPattern> = patterns.iter().map(|pattern| MailboxPattern::new("", pattern)).collect();
        let selection = ListSelection { recursive_match: true, ..selection };
        let listed = hierarchy.list(&patterns, selection);
        let found: Vec<String> =
            listed.map(|listed| format!("{}{}", listed.name, if listed.child_info { " +" } else { "" })).collect();
        assert_eq!(found, expected, "{patterns:?}");
    }

    #[test]
    fn child_info_marks_parents_of_unlisted_names() {
        let subscribed = ListSelection { subscribed: true, ..ListSelection::default() };
        let check = |names: &[&str], patterns: &[&str], expected: &[&str]| {
            check_recursive(names, subscribed, patterns, expected);
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
    }

    #[test]
    fn child_info_requires_one_descendant_meeting_all_criteria() {
        let both = ListSelection { subscribed: true, special_use: true, ..ListSelection::default() };
        check_recursive(&["a", "a/b!", "a/c*"], both, &["%"], &[]);
        check_recursive(&["a", "a/b!*"], both, &["%"], &["a +"]);
    }

    #[test]
    fn lsub_lists_the_parent_level_of_a_subscription() {
        let check = |pattern: &str, expected: &[(&str, bool)]| {
            let hierarchy = hierarchy();
            let pattern = MailboxPattern::new("", pattern);
            assert_eq!(hierarchy.subscribed(&pattern).collect::<Vec<_>>(), expected);
        };
        check("*", &[("INBOX", true), ("Gone/Deep", true), ("Sent", true), ("Work/2026/Old", true)]);
        check("%", &[("INBOX", true), ("Gone", false), ("Sent", true), ("Work", false)]);
        check("Work/%", &[("Work/2026", false)]);
    }

    #[test]
    fn reference_is_prepended_to_the_pattern() {
        assert!(MailboxPattern::new("Work/", "%").matches("Work/Plan"));
        assert!(!MailboxPattern::new("Work/", "%").matches("Work/2026/Old"));
        assert!(MailboxPattern::new("in", "BOX").matches("INBOX"));
        assert!(MailboxPattern::new("", "in%").matches("INBOX"));
    }

    #[test]
    fn hostile_pattern_takes_bounded_time() {
        let pattern = MailboxPattern::new("", &"%*a".repeat(300));
        let name = "a".repeat(1_000);
        assert!(!pattern.matches(&format!("{name}b")));
    }

    /// Returns `true` if the name matches the pattern, by the plain definition.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) if naive(rest, name) => true,
            (Some((b'*', _)), Some((_, name))) => naive(pattern, name),
            (Some((b'%', rest)), _) if naive(rest, name) => true,
            (Some((b'%', _)), Some((first, name))) if *first != b'/' => naive(pattern, name),
            (Some((wanted, pattern)), Some((found, name))) if wanted == found => naive(pattern, name),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matching_equals_the_naive_definition(pattern in "[ab/%*]{0,8}", name in "[ab/]{0,10}") {
            prop_assert_eq!(MailboxPattern { text: pattern.clone() }.matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
