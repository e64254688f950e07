//! Arguments of NOTIFY (RFC 5465 §8).
//!
//! Unknown events are refused with BADEVENT, which lists the known ones.

use super::message::fetch_attribute;
use crate::codec::command::{CommandBody, EventGroup, Events, MailboxFilter, MailboxName, NotifyCommand, Numbering};
use crate::codec::error::SyntaxError;
use crate::codec::scanner::{Parsed, Scanner};
use crate::limits;

/// Parses `NOTIFY NONE` or `NOTIFY SET [STATUS] (mailboxes events) ...`.
pub fn notify(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    if scanner.take_word("NONE") {
        return Ok(CommandBody::Notify(NotifyCommand::None));
    }
    if !scanner.take_word("SET") {
        return Err(SyntaxError::Expected("SET or NONE"));
    }
    scanner.space()?;
    let status = scanner.take_word("STATUS");
    if status {
        scanner.space()?;
    }
    let mut groups = vec![group(scanner)?];
    while !scanner.is_at_end() {
        scanner.space()?;
        if groups.len() >= limits::EVENT_GROUPS_MAX {
            return Err(SyntaxError::Limit("event groups"));
        }
        groups.push(group(scanner)?);
    }
    if groups.iter().filter(|group| is_selected(&group.filter)).count() > 1 {
        return Err(SyntaxError::Expected("at most one event group for the selected mailbox"));
    }
    Ok(CommandBody::Notify(NotifyCommand::Set { status, groups }))
}

fn group(scanner: &mut Scanner<'_>) -> Parsed<EventGroup> {
    scanner.expect(b'(', "an event group in parentheses")?;
    let filter = filter(scanner)?;
    scanner.space()?;
    let events = if scanner.take_word("NONE") { Events::default() } else { events(scanner, &filter)? };
    scanner.expect(b')', "a closing parenthesis")?;
    Ok(EventGroup { filter, events })
}

fn filter(scanner: &mut Scanner<'_>) -> Parsed<MailboxFilter> {
    Ok(match scanner.word().to_ascii_uppercase().as_slice() {
        b"SELECTED" => MailboxFilter::Selected,
        b"SELECTED-DELAYED" => MailboxFilter::SelectedDelayed,
        b"INBOXES" => MailboxFilter::Inboxes,
        b"PERSONAL" => MailboxFilter::Personal,
        b"SUBSCRIBED" => MailboxFilter::Subscribed,
        b"SUBTREE" => MailboxFilter::Subtree(mailboxes(scanner)?),
        b"MAILBOXES" => MailboxFilter::Mailboxes(mailboxes(scanner)?),
        _ => return Err(SyntaxError::Expected("which mailboxes")),
    })
}

fn mailboxes(scanner: &mut Scanner<'_>) -> Parsed<Vec<MailboxName>> {
    scanner.space()?;
    if scanner.peek() != Some(b'(') {
        return Ok(vec![scanner.mailbox()?]);
    }
    let names = scanner.list(limits::WATCHED_MAILBOXES_MAX, "mailboxes", Scanner::mailbox)?;
    if names.is_empty() { Err(SyntaxError::Expected("a mailbox")) } else { Ok(names) }
}

fn events(scanner: &mut Scanner<'_>, filter: &MailboxFilter) -> Parsed<Events> {
    let mut events = Events::default();
    let mut expunges = false;
    let mut is_empty = true;
    scanner.list(limits::LIST_ITEMS_MAX, "events", |scanner| {
        is_empty = false;
        match scanner.word().to_ascii_uppercase().as_slice() {
            b"MESSAGENEW" => {
                events.messages = true;
                let ahead = scanner.checkpoint();
                let has_attributes = scanner.take(b' ') && scanner.peek() == Some(b'(');
                if has_attributes {
                    events.attributes = scanner.list(limits::FETCH_ATTRIBUTES_MAX, "attributes", fetch_attribute)?;
                } else {
                    scanner.go_back(ahead);
                }
            }
            b"MESSAGEEXPUNGE" => expunges = true,
            b"FLAGCHANGE" => events.flags = true,
            b"MAILBOXNAME" => events.names = true,
            b"SUBSCRIPTIONCHANGE" => events.subscriptions = true,
            _ => return Err(SyntaxError::BadEvent),
        }
        Ok(())
    })?;
    let unfit = if is_selected(filter) { events.names || events.subscriptions } else { !events.attributes.is_empty() };
    if is_empty || events.messages != expunges || (events.flags && !expunges) || unfit {
        return Err(SyntaxError::Expected("a valid combination of events for these mailboxes"));
    }
    Ok(events)
}

fn is_selected(filter: &MailboxFilter) -> bool {
    matches!(filter, MailboxFilter::Selected | MailboxFilter::SelectedDelayed)
}
