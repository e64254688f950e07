//! The mailboxes that a client watches with NOTIFY (RFC 5465), and the reports about them, which are also sent between
//! commands and for mailboxes that are not selected.
//!
//! For each watched mailbox, the watch stores the state that was last reported: name, subscription, and status numbers.
//! When the mail file has changed, the folders are compared with that state. This costs one read of the totals per
//! watched mailbox, and no cost per message. Changes in the selected mailbox are reported in the usual way
//! ([`super::updates`]); the watch only decides whether and when.
//!
//! Left out: a session also receives reports about its own changes in mailboxes that are not selected, which the RFC
//! would prefer to avoid.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use base::{Modseq, ViewId};
use event_listener::EventListener;
use mail::mailbox::{Folder, FolderStatus, MailSnapshot};

use super::hierarchy::{Hierarchy, ListEntry, ListForm};
use super::list_response;
use super::updates::ReportProgress;
use super::{ConnectionAction, PermittedUpdates, Session, SlicedCommand};
use crate::codec::ResponseWriter;
use crate::codec::command::{EventGroup, Events, ListReturns, ListSelection, MailboxFilter};
use crate::error::{Error, Result};
use crate::limits;

/// The events that a client watches, and the state that has been reported to it.
pub struct NotifyWatch {
    groups: Vec<EventGroup>,
    /// The watched mailboxes as last reported to the client.
    mailboxes: BTreeMap<ViewId, ReportedMailbox>,
    /// Mod-sequence up to which events in watched mailboxes have been reported.
    reported_modseq: Modseq,
    /// Mod-sequence up to which the reports that are permitted between commands have been sent.
    pushed_modseq: Modseq,
    /// UIDs of new messages in the selected mailbox whose attributes have yet to be sent.
    pub(crate) unannounced_uids: Option<RangeInclusive<u32>>,
    /// The job that is sending attributes of new messages.
    pub(crate) announcement: Option<Box<dyn SlicedCommand>>,
}

/// A mailbox as last reported to the client.
struct ReportedMailbox {
    name: String,
    subscribed: bool,
    status: FolderStatus,
}

impl NotifyWatch {
    /// Creates a watch. An empty list of groups watches no events.
    ///
    /// Returns an error if too many mailboxes would be watched.
    pub fn new(groups: Vec<EventGroup>, snapshot: &MailSnapshot<'_>) -> Result<Self> {
        let reported = snapshot.modseq();
        let pushed = snapshot.modseq();
        let mut watch = Self {
            groups,
            mailboxes: BTreeMap::new(),
            reported_modseq: reported,
            pushed_modseq: pushed,
            unannounced_uids: None,
            announcement: None,
        };
        let subscriptions = snapshot.subscriptions()?;
        for folder in snapshot.folders()?.into_iter().filter(|folder| folder.selectable) {
            let subscribed = subscriptions.contains(&folder.name);
            if watch.events(&folder.name, subscribed).is_none() {
                continue;
            }
            if watch.mailboxes.len() >= limits::WATCHED_MAILBOXES_MAX {
                return Err(Error::No("[NOTIFICATIONOVERFLOW] too many mailboxes to watch"));
            }
            let status = snapshot.status(folder.id)?;
            watch.mailboxes.insert(folder.id, ReportedMailbox { name: folder.name, subscribed, status });
        }
        Ok(watch)
    }

    /// Returns the names and events of the mailboxes, except the selected one, whose message events are watched.
    pub fn with_messages(&self, selected: Option<ViewId>) -> impl Iterator<Item = (&str, &Events)> {
        let others = self.mailboxes.iter().filter(move |(id, _)| Some(**id) != selected).map(|(_, known)| known);
        others.filter_map(|known| {
            let events = self.events(&known.name, known.subscribed)?;
            events.messages.then_some((known.name.as_str(), events))
        })
    }

    /// Returns the watched events of a mailbox that is not selected: those of the first group that contains it, or
    /// `None` if there are none.
    fn events(&self, name: &str, subscribed: bool) -> Option<&Events> {
        let is_in = |filter: &MailboxFilter| match filter {
            MailboxFilter::Selected | MailboxFilter::SelectedDelayed => false,
            MailboxFilter::Inboxes => name == "INBOX",
            MailboxFilter::Personal => true,
            MailboxFilter::Subscribed => subscribed,
            MailboxFilter::Subtree(tops) => tops.iter().any(|top| {
                name.strip_prefix(top.as_str()).is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }),
            MailboxFilter::Mailboxes(names) => names.iter().any(|known| known.as_str() == name),
        };
        let group = self.groups.iter().find(|group| is_in(&group.filter))?;
        (group.events != Events::default()).then_some(&group.events)
    }

    /// Returns `true` if any group concerns mailboxes other than the selected one.
    fn watches_others(&self) -> bool {
        self.groups.iter().any(|group| !is_selected(&group.filter))
    }

    /// Returns the watched events of the selected mailbox.
    pub(crate) fn selected_events(&self) -> Option<(&MailboxFilter, &Events)> {
        let group = self.groups.iter().find(|group| is_selected(&group.filter))?;
        group.events.messages.then_some((&group.filter, &group.events))
    }

    /// Reports the changes of watched mailboxes in a snapshot that the client does not know.
    fn report_changes(
        &mut self,
        selected: Option<ViewId>,
        condstore: bool,
        snapshot: &MailSnapshot<'_>,
        out: &mut ResponseWriter,
    ) -> Result<()> {
        let folders: Vec<Folder> = snapshot.folders()?.into_iter().filter(|folder| folder.selectable).collect();
        let subscriptions = snapshot.subscriptions()?;
        let hierarchy = list_response::load_hierarchy(snapshot)?;
        let is_there = |id: &ViewId| folders.iter().any(|folder| folder.id == *id);
        let gone: Vec<ViewId> = self.mailboxes.keys().filter(|id| !is_there(id)).copied().collect();
        let gone: Vec<ReportedMailbox> = gone.iter().filter_map(|id| self.mailboxes.remove(id)).collect();
        for known in gone {
            if self.events(&known.name, known.subscribed).is_some_and(|events| events.names) {
                write_list(&known.name, None, &hierarchy, out);
            }
        }
        for folder in folders {
            let status = snapshot.status(folder.id)?;
            let known = self.mailboxes.remove(&folder.id);
            let subscribed = subscriptions.contains(&folder.name);
            let Some(events) = self.events(&folder.name, subscribed) else {
                self.report_left_group(known, &hierarchy, out);
                continue;
            };
            let old_name = known.as_ref().map(|known| known.name.as_str()).filter(|old| *old != folder.name);
            if events.names && (known.is_none() || old_name.is_some()) {
                write_list(&folder.name, old_name, &hierarchy, out);
            } else if events.subscriptions && known.as_ref().is_some_and(|known| known.subscribed != subscribed) {
                write_list(&folder.name, None, &hierarchy, out);
            }
            if Some(folder.id) != selected {
                let known = known.as_ref().map(|known| &known.status);
                let change = StatusChange { name: &folder.name, known, now: &status };
                change.write(events, condstore, out);
            }
            if self.mailboxes.len() < limits::WATCHED_MAILBOXES_MAX {
                self.mailboxes.insert(folder.id, ReportedMailbox { name: folder.name, subscribed, status });
            }
        }
        self.reported_modseq = snapshot.modseq();
        Ok(())
    }

    /// Reports a mailbox that no longer belongs to a group, because it has been renamed or is no longer subscribed.
    fn report_left_group(&self, known: Option<ReportedMailbox>, hierarchy: &Hierarchy, out: &mut ResponseWriter) {
        let Some(known) = known else { return };
        let events = self.events(&known.name, known.subscribed);
        if events.is_some_and(|events| events.names || events.subscriptions) {
            write_list(&known.name, None, hierarchy, out);
        }
    }
}

fn is_selected(filter: &MailboxFilter) -> bool {
    matches!(filter, MailboxFilter::Selected | MailboxFilter::SelectedDelayed)
}

/// Writes the current LIST response of a name.
fn write_list(name: &str, old_name: Option<&str>, hierarchy: &Hierarchy, out: &mut ResponseWriter) {
    let returns = ListReturns { subscribed: true, ..ListReturns::default() };
    let form = ListForm { selection: ListSelection::default(), returns: &returns, knows_nonexistent: true };
    match hierarchy.get(name) {
        Some(mailbox) => list_response::write_name(&ListEntry { name, mailbox, child_info: false }, form, out),
        None => {
            out.untagged().text("LIST (\\NonExistent) \"/\" ").mailbox(name);
        }
    }
    if let Some(old_name) = old_name {
        out.text(" (\"OLDNAME\" (").mailbox(old_name).text("))");
    }
    out.crlf();
}

/// The status of a mailbox as the client knows it, and as it is now.
struct StatusChange<'s> {
    name: &'s str,
    known: Option<&'s FolderStatus>,
    now: &'s FolderStatus,
}

impl StatusChange<'_> {
    /// Writes the changed numbers whose events are watched.
    fn write(&self, events: &Events, condstore: bool, out: &mut ResponseWriter) {
        let Self { name, known, now } = *self;
        let numbers = |status: &FolderStatus| (status.messages, status.uid_next, status.uid_validity);
        let messages = match known {
            Some(known) => events.messages && numbers(known) != numbers(now),
            None => events.messages && now.messages > 0,
        };
        let flags = events.flags && known.is_some_and(|known| known.highest_modseq != now.highest_modseq);
        if !messages && !flags {
            return;
        }
        out.untagged().text("STATUS ").mailbox(name).text(" (UIDVALIDITY ").number(u64::from(now.uid_validity));
        if messages {
            out.text(" UIDNEXT ").number(u64::from(now.uid_next.0)).text(" MESSAGES ").number(u64::from(now.messages));
        }
        if flags {
            out.text(" UNSEEN ").number(u64::from(now.unseen));
        }
        if flags || condstore {
            out.text(" HIGHESTMODSEQ ").number(now.highest_modseq.0);
        }
        out.byte(b')').crlf();
    }
}

impl Session {
    /// Returns a listener that wakes when there may be something to report between commands. It must be taken before
    /// [`Session::has_unreported_changes`] is called.
    #[must_use]
    pub fn listen_between_commands(&self) -> Option<EventListener> {
        let _ = self.watch.as_ref().filter(|watch| !watch.groups.is_empty())?;
        Some(self.account.as_ref()?.file.listen())
    }

    /// Returns `true` if the mail file has changed since the last report between commands.
    #[must_use]
    pub fn has_unreported_changes(&self) -> bool {
        let (Some(watch), Some(account)) = (&self.watch, &self.account) else { return false };
        watch.pushed_modseq != account.file.database().modseq()
    }

    /// Reports watched events between commands.
    pub(crate) fn push(&mut self, out: &mut ResponseWriter) -> ConnectionAction {
        let (Some(watch), Some(account)) = (&mut self.watch, &self.account) else { return ConnectionAction::Ready };
        watch.pushed_modseq = account.file.database().modseq();
        let updates = match watch.selected_events() {
            Some((MailboxFilter::Selected, _)) => PermittedUpdates::All,
            Some(_) => PermittedUpdates::WithoutExpunges,
            None => PermittedUpdates::None,
        };
        out.set_encoding(self.encoding());
        let outcome = match updates {
            PermittedUpdates::None => self.report_watched(out).map(|()| ReportProgress::All),
            updates => self.report(updates, out),
        };
        match outcome {
            Ok(ReportProgress::All) => ConnectionAction::Ready,
            Ok(ReportProgress::Partial) => ConnectionAction::Unfinished,
            Err(error) => self.end_with_error(&error, out),
        }
    }

    /// Returns `true` if there is nothing to report about watched mailboxes at present.
    pub(crate) fn watched_is_reported(&self, modseq: Modseq) -> bool {
        self.watch.as_ref().is_none_or(|watch| {
            (!watch.watches_others() || watch.reported_modseq == modseq)
                && watch.announcement.is_none()
                && watch.unannounced_uids.is_none()
        })
    }

    /// Returns `true` if events wake an idle client even without a selected mailbox.
    pub(crate) fn has_notify_groups(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| !watch.groups.is_empty())
    }

    /// Returns `true` if an idle client receives reports about the selected mailbox.
    pub(crate) fn reports_selected(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.selected_events().is_some())
    }

    /// Returns `true` if the client receives flag changes by other sessions in the selected mailbox.
    pub(crate) fn reports_flag_changes(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.selected_events().is_some_and(|(_, events)| events.flags))
    }

    /// Records new messages in the selected mailbox.
    pub(crate) fn record_new_messages(&mut self, uids: RangeInclusive<u32>) {
        let Some(watch) = self.watch.as_mut() else { return };
        if watch.selected_events().is_some_and(|(_, events)| !events.attributes.is_empty()) {
            let first = watch.unannounced_uids.as_ref().map_or(*uids.start(), |fresh| *fresh.start());
            watch.unannounced_uids = Some(first..=*uids.end());
        }
    }

    /// Forgets the new messages of a mailbox that is deselected.
    pub(crate) fn clear_new_messages(&mut self) {
        if let Some(watch) = self.watch.as_mut() {
            watch.unannounced_uids = None;
        }
    }

    /// Reports events in watched mailboxes.
    pub(crate) fn report_watched(&mut self, out: &mut ResponseWriter) -> Result<()> {
        let file = self.file()?;
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.watches_others()) else { return Ok(()) };
        if watch.reported_modseq == file.database().modseq() {
            return Ok(());
        }
        let snapshot = file.snapshot()?;
        let selected = self.selected.as_ref().map(|selected| selected.folder);
        watch.report_changes(selected, self.enabled.condstore, &snapshot, out)?;
        self.wait_for(snapshot.ticket());
        Ok(())
    }
}
