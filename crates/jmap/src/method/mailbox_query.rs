//! Mailbox/query (RFC 8621 §2.3): lists of mailboxes, also as trees.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use mail::casemap::fold;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::limits::{COMPARATORS_MAX, FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX};
use crate::mailboxes::{Mailbox, MailboxList};
use crate::query::Window;

/// A comparator: the property, and whether the order is ascending.
type Comparator = (String, bool);

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = arguments.value("filter");
    let sort = parse_sort(&arguments.list("sort")?.unwrap_or_default())?;
    let sorts_as_tree = arguments.flag("sortAsTree")?;
    let filters_as_tree = arguments.flag("filterAsTree")?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let view = context.view(&account)?;
    let list = view.table.mailboxes();
    let mut matching = HashSet::new();
    for mailbox in list.all() {
        if filter.as_ref().map_or(Ok(true), |filter| matches(filter, mailbox, &mut (0, 0)))? {
            matching.insert(mailbox.id.as_str());
        }
    }
    if filters_as_tree {
        matching = with_matching_parents(list, &matching);
    }
    let mut all: Vec<&Mailbox> = list.all().collect();
    all.sort_by(|a, b| compare(a, b, &sort).then_with(|| a.id.cmp(&b.id)));
    if sorts_as_tree {
        all = as_tree(&all);
    }
    all.retain(|mailbox| matching.contains(mailbox.id.as_str()));
    let find = |id: &str| all.iter().position(|mailbox| mailbox.id == id);
    let id_at = |index: usize| all.get(index).map(|mailbox| mailbox.id.clone());
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("queryState".to_owned(), json!(view.mailbox_state()));
    reply.insert("canCalculateChanges".to_owned(), json!(false));
    reply.extend(window.answer(all.len(), find, id_at)?);
    Ok(reply)
}

/// Parses the argument `sort`.
pub(super) fn parse_sort(sort: &[Value]) -> MethodResult<Vec<Comparator>> {
    let invalid = || MethodError::invalid_arguments("a comparator is not valid");
    let unsupported = |reason: &str| MethodError::described("unsupportedSort", reason);
    if sort.len() > COMPARATORS_MAX {
        return Err(unsupported("there are too many comparators"));
    }
    let mut comparators = Vec::new();
    for value in sort {
        let property = value.get("property").and_then(Value::as_str).ok_or_else(invalid)?;
        if !["name", "sortOrder", "parentId"].contains(&property) {
            return Err(unsupported("mailboxes cannot be sorted by this property"));
        }
        let is_ascending = match value.get("isAscending") {
            None | Some(Value::Null) => true,
            Some(value) => value.as_bool().ok_or_else(invalid)?,
        };
        comparators.push((property.to_owned(), is_ascending));
    }
    Ok(comparators)
}

fn compare(a: &Mailbox, b: &Mailbox, sort: &[Comparator]) -> Ordering {
    for (property, is_ascending) in sort {
        let order = match property.as_str() {
            "name" => fold(&a.name).cmp(&fold(&b.name)),
            "parentId" => a.parent.cmp(&b.parent),
            _ => a.sort_order.cmp(&b.sort_order),
        };
        let order = if *is_ascending { order } else { order.reverse() };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
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

/// Returns `true` if a mailbox matches a filter. `spent` counts conditions, and the depth.
fn matches(filter: &Value, mailbox: &Mailbox, spent: &mut (usize, usize)) -> MethodResult<bool> {
    let members = filter.as_object().ok_or_else(|| MethodError::invalid_arguments("a filter is not an object"))?;
    spent.0 += 1;
    if spent.0 > FILTER_CONDITIONS_MAX || spent.1 > FILTER_DEPTH_MAX {
        return Err(MethodError::described("unsupportedFilter", "the filter has too many conditions"));
    }
    let Some(operator) = members.get("operator") else {
        let mut all = true;
        for (name, value) in members.iter() {
            all &= matches_condition(name, value, mailbox)?;
        }
        return Ok(all);
    };
    let Some(Value::Array(conditions)) = members.get("conditions") else {
        return Err(MethodError::invalid_arguments("an operator needs conditions"));
    };
    spent.1 += 1;
    let mut results = Vec::with_capacity(conditions.len());
    for condition in conditions {
        results.push(matches(condition, mailbox, spent)?);
    }
    spent.1 -= 1;
    match operator.as_str() {
        Some("AND") => Ok(results.iter().all(|result| *result)),
        Some("OR") => Ok(results.iter().any(|result| *result)),
        Some("NOT") => Ok(!results.iter().any(|result| *result)),
        _ => Err(MethodError::described("unsupportedFilter", "there is no such operator")),
    }
}

fn matches_condition(name: &str, value: &Value, mailbox: &Mailbox) -> MethodResult<bool> {
    let wrong = || MethodError::invalid_arguments(format!("{name} has the wrong type"));
    let text = || value.as_str().ok_or_else(wrong);
    let flag = || value.as_bool().ok_or_else(wrong);
    Ok(match name {
        "parentId" if value.is_null() => mailbox.parent.is_none(),
        "parentId" => mailbox.parent.as_deref() == Some(text()?),
        "role" if value.is_null() => mailbox.role.is_none(),
        "role" => mailbox.role == Some(text()?),
        "name" => fold(&mailbox.name).contains(&fold(text()?)),
        "hasAnyRole" => mailbox.role.is_some() == flag()?,
        "isSubscribed" => mailbox.is_subscribed == flag()?,
        _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
    })
}
