//! Mailbox/query (RFC 8621 §2.3): lists of mailboxes, also as trees.
//!
//! The state of a list does not depend on counts, because neither conditions nor orders do.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use mail::casemap::{Collation, fold};
use mail::mailbox_list::{Mailbox, MailboxList};
use serde_json::{Map, Value};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::comparator::Comparator;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::filter_tree::FilterTree;
use crate::query::{QueriedList, Window};
use crate::state;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let query = MailboxQuery::parse(&mut arguments)?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let view = context.view(&account)?;
    let found = query.list(view.table.mailboxes());
    let find = |id: &str| found.iter().position(|mailbox| mailbox.id == id);
    let id_at = |index: usize| found.get(index).map(|mailbox| mailbox.id.clone());
    let state = state_of(&view);
    let list = QueriedList { account_id: &account_id, state: &state, can_calculate_changes: true };
    window.answer(&list, found.len(), find, id_at)
}

/// Returns the state of all lists of mailboxes.
pub(super) fn state_of(view: &AccountView<'_>) -> String {
    state::format(view.table.mailboxes().modseq(), &view.snapshot)
}

/// A list of mailboxes.
pub(super) struct MailboxQuery {
    filter: FilterTree<Test>,
    sort: Vec<Comparator>,
    sorts_as_tree: bool,
    filters_as_tree: bool,
}

impl MailboxQuery {
    /// Takes the arguments that define a list.
    pub(super) fn parse(arguments: &mut Arguments) -> MethodResult<Self> {
        Ok(Self {
            filter: FilterTree::parse(arguments.value("filter").as_ref(), &Test::parse)?,
            sort: Comparator::parse_all(arguments, &["name", "sortOrder", "parentId"])?,
            sorts_as_tree: arguments.flag("sortAsTree")?,
            filters_as_tree: arguments.flag("filterAsTree")?,
        })
    }

    /// Returns the mailboxes in their order.
    pub(super) fn list<'l>(&self, list: &'l MailboxList) -> Vec<&'l Mailbox> {
        let is_wanted = |mailbox: &Mailbox| {
            self.filter.evaluate(&mut |test| Ok::<_, MethodError>(test.is_met(mailbox))).unwrap_or(false)
        };
        let matching = list.all().filter(|mailbox| is_wanted(mailbox)).map(|mailbox| mailbox.id.as_str());
        let mut matching: HashSet<&str> = matching.collect();
        if self.filters_as_tree {
            matching = with_matching_parents(list, &matching);
        }
        let mut all: Vec<&Mailbox> = list.all().collect();
        all.sort_by(|a, b| {
            let order = Comparator::compare(&self.sort, |property, collation| compare((property, collation), a, b));
            order.then_with(|| a.id.cmp(&b.id))
        });
        if self.sorts_as_tree {
            all = as_tree(&all);
        }
        all.retain(|mailbox| matching.contains(mailbox.id.as_str()));
        all
    }

    /// Returns `true` if a change of a mailbox can bring those below it to the list, remove or move them.
    pub(super) fn is_tree(&self) -> bool {
        self.sorts_as_tree || self.filters_as_tree
    }
}

fn compare((property, collation): (&str, Collation), a: &Mailbox, b: &Mailbox) -> Ordering {
    match property {
        "name" => collation.fold(&a.name).cmp(&collation.fold(&b.name)),
        "parentId" => a.parent.cmp(&b.parent),
        _ => a.sort_order.cmp(&b.sort_order),
    }
}

/// Returns mailboxes in the same order, but each followed by those below it.
fn as_tree<'m>(sorted: &[&'m Mailbox]) -> Vec<&'m Mailbox> {
    let mut children: HashMap<Option<&str>, Vec<&'m Mailbox>> = HashMap::new();
    for mailbox in sorted {
        children.entry(mailbox.parent.as_deref()).or_default().push(mailbox);
    }
    let mut ordered = Vec::with_capacity(sorted.len());
    let mut open: Vec<&Mailbox> = children.remove(&None).unwrap_or_default();
    open.reverse();
    while let Some(next) = open.pop() {
        ordered.push(next);
        let below = children.remove(&Some(next.id.as_str())).unwrap_or_default();
        open.extend(below.into_iter().rev());
    }
    ordered
}

/// Returns the mailboxes among some whose parents are all among them, too.
fn with_matching_parents<'l>(list: &'l MailboxList, matching: &HashSet<&'l str>) -> HashSet<&'l str> {
    let is_complete = |id: &&str| {
        let mut next = list.by_id(id).and_then(|mailbox| mailbox.parent.as_deref());
        while let Some(parent) = next {
            if !matching.contains(parent) {
                return false;
            }
            next = list.by_id(parent).and_then(|mailbox| mailbox.parent.as_deref());
        }
        true
    };
    matching.iter().copied().filter(is_complete).collect()
}

/// One property of a condition.
enum Test {
    /// `parentId`.
    Parent(Option<String>),
    /// `role`.
    Role(Option<String>),
    /// `name`, folded.
    Name(String),
    /// `hasAnyRole`.
    HasAnyRole(bool),
    /// `isSubscribed`.
    IsSubscribed(bool),
}

impl Test {
    fn parse(name: &str, value: &Value) -> MethodResult<Option<Self>> {
        let wrong = || MethodError::invalid_arguments(format!("{name} has the wrong type"));
        let text = || value.as_str().map(str::to_owned).ok_or_else(wrong);
        let text_or_null = || if value.is_null() { Ok(None) } else { text().map(Some) };
        let flag = || value.as_bool().ok_or_else(wrong);
        Ok(Some(match name {
            "parentId" => Self::Parent(text_or_null()?),
            "role" => Self::Role(text_or_null()?),
            "name" => Self::Name(fold(&text()?)),
            "hasAnyRole" => Self::HasAnyRole(flag()?),
            "isSubscribed" => Self::IsSubscribed(flag()?),
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        }))
    }

    fn is_met(&self, mailbox: &Mailbox) -> bool {
        match self {
            Self::Parent(wanted) => mailbox.parent == *wanted,
            Self::Role(wanted) => mailbox.role == wanted.as_deref(),
            Self::Name(part) => fold(&mailbox.name).contains(part),
            Self::HasAnyRole(wanted) => mailbox.role.is_some() == *wanted,
            Self::IsSubscribed(wanted) => mailbox.is_subscribed == *wanted,
        }
    }
}
