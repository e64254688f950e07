//! The event groups of NOTIFY (RFC 5465 §6), arranged so that the group of a mailbox is found without a comparison with
//! every name that the client sent. Pure.

use std::collections::HashMap;

use crate::codec::command::{EventGroup, Events, MailboxFilter, MailboxName};

/// The event groups of a session. The first group that contains a mailbox applies to it.
#[derive(Debug, Default)]
pub struct EventGroups {
    /// The group of the selected mailbox.
    selected: Option<EventGroup>,
    /// The events of the other groups.
    events: Vec<Events>,
    /// The first group of the inbox, of all mailboxes, and of those with a subscription.
    inboxes: Option<usize>,
    personal: Option<usize>,
    subscribed: Option<usize>,
    /// The first group that names a mailbox, and the first one that names it together with those below it.
    mailboxes: HashMap<String, usize>,
    subtrees: HashMap<String, usize>,
}

impl EventGroups {
    /// Sorts the groups of a command by the kind of their filters.
    #[must_use]
    pub fn new(groups: Vec<EventGroup>) -> Self {
        let mut sorted = Self::default();
        for group in groups {
            sorted.add(group);
        }
        sorted
    }

    fn add(&mut self, group: EventGroup) {
        let number = self.events.len();
        match group.filter {
            MailboxFilter::Selected | MailboxFilter::SelectedDelayed => {
                if self.selected.is_none() {
                    self.selected = Some(group);
                }
                return;
            }
            MailboxFilter::Inboxes => self.inboxes = self.inboxes.or(Some(number)),
            MailboxFilter::Personal => self.personal = self.personal.or(Some(number)),
            MailboxFilter::Subscribed => self.subscribed = self.subscribed.or(Some(number)),
            MailboxFilter::Subtree(tops) => insert_new(&mut self.subtrees, &tops, number),
            MailboxFilter::Mailboxes(names) => insert_new(&mut self.mailboxes, &names, number),
        }
        self.events.push(group.events);
    }

    /// Returns `true` if there are no groups.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.selected.is_none() && self.events.is_empty()
    }

    /// Returns `true` if any group concerns mailboxes other than the selected one.
    #[must_use]
    pub fn watches_others(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the group of the selected mailbox.
    #[must_use]
    pub fn selected(&self) -> Option<&EventGroup> {
        self.selected.as_ref()
    }

    /// Returns the watched events of a mailbox that is not selected, or `None` if there are none.
    #[must_use]
    pub fn events(&self, name: &str, subscribed: bool) -> Option<&Events> {
        let inboxes = self.inboxes.filter(|_| name == "INBOX");
        let subscribed = self.subscribed.filter(|_| subscribed);
        let named = self.mailboxes.get(name).copied();
        let groups = [self.personal, inboxes, subscribed, named, self.subtree_group(name)];
        let events = self.events.get(groups.into_iter().flatten().min()?)?;
        (*events != Events::default()).then_some(events)
    }

    /// Returns the first group that contains a mailbox because it names the mailbox or a level above it.
    fn subtree_group(&self, name: &str) -> Option<usize> {
        if self.subtrees.is_empty() {
            return None;
        }
        let levels = name.match_indices('/').map(|(end, _)| &name[..end]);
        levels.chain([name]).filter_map(|top| self.subtrees.get(top)).min().copied()
    }
}

/// Inserts the names that are not in the map.
fn insert_new(map: &mut HashMap<String, usize>, names: &[MailboxName], number: usize) {
    for name in names {
        map.entry(name.as_str().to_owned()).or_insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(filter: MailboxFilter, events: Events) -> EventGroup {
        EventGroup { filter, events }
    }

    fn names(names: &[&str]) -> Vec<MailboxName> {
        names.iter().map(MailboxName::new).collect()
    }

    #[test]
    fn first_group_that_contains_a_mailbox_applies() {
        let messages = Events { messages: true, ..Events::default() };
        let flags = Events { flags: true, ..Events::default() };
        let changes = Events { names: true, ..Events::default() };
        let groups = EventGroups::new(vec![
            group(MailboxFilter::Selected, messages.clone()),
            group(MailboxFilter::Mailboxes(names(&["Work/Old", "Plan"])), Events::default()),
            group(MailboxFilter::Subtree(names(&["Work", "Archive/2025"])), messages.clone()),
            group(MailboxFilter::Mailboxes(names(&["Work", "Archive"])), flags.clone()),
            group(MailboxFilter::Inboxes, flags.clone()),
            group(MailboxFilter::Subscribed, changes.clone()),
        ]);
        let check = |name: &str, subscribed: bool, expected: Option<&Events>| {
            assert_eq!(groups.events(name, subscribed), expected, "{name}");
        };
        check("Work", false, Some(&messages));
        check("Work/New", true, Some(&messages));
        check("Work/Old", true, None);
        check("Work/Old/2024", false, Some(&messages));
        check("Workshop", false, None);
        check("Archive", false, Some(&flags));
        check("Archive/2025", false, Some(&messages));
        check("Archive/2026", true, Some(&changes));
        check("INBOX", true, Some(&flags));
        check("Plan", true, None);
        assert!(groups.watches_others() && groups.selected().is_some());
    }

    #[test]
    fn group_of_the_selected_mailbox_concerns_no_other() {
        let messages = Events { messages: true, ..Events::default() };
        let groups = EventGroups::new(vec![group(MailboxFilter::SelectedDelayed, messages)]);
        assert_eq!(groups.events("INBOX", true), None);
        assert!(!groups.watches_others() && !groups.is_empty());
        assert!(EventGroups::new(Vec::new()).is_empty());
    }
}
