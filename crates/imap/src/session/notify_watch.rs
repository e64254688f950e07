//! The mailboxes that a client watches with NOTIFY (RFC 5465), and the reports about them, which are also sent between
//! commands and for mailboxes that are not selected.
//!
//! For each watched mailbox, the watch stores the state that was last reported: name, subscription, and status numbers.
//! When the mail file has changed, the watched mailboxes are compared with that state, in slices. This costs one read
//! of the totals per watched mailbox, and no cost per message. Names and subscriptions are compared only if the design
//! of the mail file has changed. Changes in the selected mailbox are reported in the usual way ([`super::updates`]);
//! the watch only decides whether and when.
//!
//! Left out: a session also receives reports about its own changes in mailboxes that are not selected, which the RFC
//! would prefer to avoid.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow, RangeInclusive};

use base::{Modseq, ViewId};
use event_listener::EventListener;
use mail::mailbox::{Folder, FolderStatus, MailSnapshot};

use super::event_groups::EventGroups;
use super::hierarchy::{Hierarchy, ListEntry, ListForm};
use super::list_response;
use super::updates::ReportProgress;
use super::{ConnectionAction, PermittedUpdates, Session, SliceTimer, SlicedCommand, is_full};
use crate::codec::command::{EventGroup, Events, ListReturns, ListSelection, MailboxFilter};
use crate::codec::{ResponseStatus, ResponseWriter};
use crate::error::{Error, Result};
use crate::limits;

/// The events that a client watches, and the state that has been reported to it.
pub struct NotifyWatch {
    groups: EventGroups,
    /// The watched mailboxes as last reported to the client.
    mailboxes: BTreeMap<ViewId, ReportedMailbox>,
    /// Mod-sequence up to which events in watched mailboxes have been reported.
    reported_modseq: Modseq,
    /// The design mod-sequence of the snapshot whose names and subscriptions have been reported.
    reported_design: Modseq,
    /// The unfinished comparison of the watched mailboxes with their state.
    comparison: Option<Comparison>,
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
    /// `None` if the client has no knowledge of the state.
    status: Option<FolderStatus>,
}

/// A comparison of the watched mailboxes with their state, in the order of their IDs.
#[derive(Clone, Copy)]
struct Comparison {
    /// Mod-sequence of the snapshot with which the comparison began.
    modseq: Modseq,
    /// The last mailbox that was compared.
    last: Option<ViewId>,
}

/// A watched mailbox, with its status as the client knows it and as it is now.
pub struct WatchedStatus<'w> {
    /// The folder.
    pub folder: ViewId,
    /// The name.
    pub name: &'w str,
    /// The watched events.
    pub events: &'w Events,
    /// The status that was last reported.
    pub known: Option<&'w FolderStatus>,
    /// The current status.
    pub now: &'w FolderStatus,
}

impl NotifyWatch {
    /// Creates a watch of these groups. [`NotifyWatch::compare`] reads the state of the mailboxes.
    ///
    /// Returns an error if too many mailboxes would be watched.
    pub fn new(groups: Vec<EventGroup>, snapshot: &MailSnapshot<'_>) -> Result<Self> {
        let mut watch = Self {
            groups: EventGroups::new(groups),
            mailboxes: BTreeMap::new(),
            reported_modseq: snapshot.modseq(),
            reported_design: snapshot.design_modseq()?,
            comparison: None,
            pushed_modseq: snapshot.modseq(),
            unannounced_uids: None,
            announcement: None,
        };
        let subscriptions = snapshot.subscriptions()?;
        for folder in snapshot.folders()?.into_iter().filter(|folder| folder.selectable) {
            let subscribed = subscriptions.contains(&folder.name);
            if watch.groups.events(&folder.name, subscribed).is_none() {
                continue;
            }
            if watch.mailboxes.len() >= limits::WATCHED_MAILBOXES_MAX {
                return Err(Error::No("[NOTIFICATIONOVERFLOW] too many mailboxes to watch"));
            }
            watch.mailboxes.insert(folder.id, ReportedMailbox { name: folder.name, subscribed, status: None });
        }
        Ok(watch)
    }

    /// Returns the watched events of the selected mailbox.
    pub(crate) fn selected_events(&self) -> Option<(&MailboxFilter, &Events)> {
        let group = self.groups.selected()?;
        group.events.messages.then_some((&group.filter, &group.events))
    }

    /// Reports the changes of watched mailboxes in a snapshot that the client does not know, until the slice is full.
    fn report_changes(
        &mut self,
        selected: Option<ViewId>,
        condstore: bool,
        (snapshot, timer): (&MailSnapshot<'_>, &SliceTimer),
        out: &mut ResponseWriter,
    ) -> Result<ReportProgress> {
        if snapshot.design_modseq()? != self.reported_design {
            self.report_names(snapshot, out)?;
        }
        self.compare(snapshot, &mut |watched| {
            if Some(watched.folder) != selected {
                watched.write_changes(condstore, out);
            }
            if is_full(out) || timer.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// Calls `each` for the watched mailboxes of a slice, and keeps their current status. `each` may end the slice.
    /// Another call continues unless the progress is [`ReportProgress::All`].
    pub fn compare(
        &mut self,
        snapshot: &MailSnapshot<'_>,
        each: &mut dyn FnMut(&WatchedStatus<'_>) -> ControlFlow<()>,
    ) -> Result<ReportProgress> {
        let Self { groups, mailboxes, .. } = self;
        let mut comparison = self.comparison.unwrap_or(Comparison { modseq: snapshot.modseq(), last: None });
        let start = comparison.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut is_complete = true;
        for (count, (id, known)) in mailboxes.range_mut((start, Bound::Unbounded)).enumerate() {
            if count >= limits::SLICE_MAILBOXES {
                is_complete = false;
                break;
            }
            comparison.last = Some(*id);
            let status = match snapshot.status(*id) {
                Ok(status) => status,
                // It was deleted after the names were reported.
                Err(mail::Error::NoMailbox(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut flow = ControlFlow::Continue(());
            if let Some(events) = groups.events(&known.name, known.subscribed) {
                let name = known.name.as_str();
                flow = each(&WatchedStatus { folder: *id, name, events, known: known.status.as_ref(), now: &status });
            }
            known.status = Some(status);
            if flow.is_break() {
                is_complete = false;
                break;
            }
        }
        if !is_complete {
            self.comparison = Some(comparison);
            return Ok(ReportProgress::Partial);
        }
        self.comparison = None;
        self.reported_modseq = comparison.modseq;
        Ok(ReportProgress::All)
    }

    /// Reports the changes of names and subscriptions, and watches new mailboxes.
    fn report_names(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<()> {
        let mut folders = snapshot.folders()?;
        let subscriptions = snapshot.subscriptions()?;
        let hierarchy = list_response::hierarchy(&folders, &subscriptions);
        folders.retain(|folder| folder.selectable);
        self.report_gone(&folders, &hierarchy, out);
        let Self { groups, mailboxes, .. } = self;
        for folder in folders {
            let subscribed = subscriptions.contains(&folder.name);
            let known = mailboxes.remove(&folder.id);
            let Some(events) = groups.events(&folder.name, subscribed) else {
                report_left_group(groups, known, &hierarchy, out);
                continue;
            };
            if mailboxes.len() >= limits::WATCHED_MAILBOXES_MAX {
                // RFC 5465 §5.8: the client is informed, and the server behaves as after NOTIFY NONE.
                out.untagged_status(ResponseStatus::Ok, "[NOTIFICATIONOVERFLOW] too many mailboxes to watch");
                *groups = EventGroups::default();
                mailboxes.clear();
                break;
            }
            let old_name = known.as_ref().map(|known| known.name.as_str()).filter(|old| *old != folder.name);
            if events.names && (known.is_none() || old_name.is_some()) {
                write_list(&folder.name, old_name, &hierarchy, out);
            } else if events.subscriptions && known.as_ref().is_some_and(|known| known.subscribed != subscribed) {
                write_list(&folder.name, None, &hierarchy, out);
            }
            let status = known.and_then(|known| known.status);
            mailboxes.insert(folder.id, ReportedMailbox { name: folder.name, subscribed, status });
        }
        self.reported_design = snapshot.design_modseq()?;
        Ok(())
    }

    /// Reports the watched mailboxes that are not among the folders, and watches them no longer.
    fn report_gone(&mut self, folders: &[Folder], hierarchy: &Hierarchy, out: &mut ResponseWriter) {
        let existing: BTreeSet<ViewId> = folders.iter().map(|folder| folder.id).collect();
        let gone = self.mailboxes.iter().filter(|(id, _)| !existing.contains(id)).map(|(_, known)| known);
        for known in gone {
            if self.groups.events(&known.name, known.subscribed).is_some_and(|events| events.names) {
                write_list(&known.name, None, hierarchy, out);
            }
        }
        self.mailboxes.retain(|id, _| existing.contains(id));
    }
}

/// Reports a mailbox that no longer belongs to a group, because it has been renamed or is no longer subscribed.
fn report_left_group(
    groups: &EventGroups,
    known: Option<ReportedMailbox>,
    hierarchy: &Hierarchy,
    out: &mut ResponseWriter,
) {
    let Some(known) = known else { return };
    let events = groups.events(&known.name, known.subscribed);
    if events.is_some_and(|events| events.names || events.subscriptions) {
        write_list(&known.name, None, hierarchy, out);
    }
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

impl WatchedStatus<'_> {
    /// Writes the changed numbers whose events are watched.
    fn write_changes(&self, condstore: bool, out: &mut ResponseWriter) {
        let Self { name, events, known, now, .. } = *self;
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
            out.text(" HIGHESTMODSEQ ").number(now.highest_client_modseq);
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
            PermittedUpdates::None => self.report_watched(out),
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
            (!watch.groups.watches_others() || watch.reported_modseq == modseq)
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

    /// Reports events in watched mailboxes, until the slice is full.
    pub(crate) fn report_watched(&mut self, out: &mut ResponseWriter) -> Result<ReportProgress> {
        let file = self.file()?;
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.groups.watches_others()) else {
            return Ok(ReportProgress::All);
        };
        if watch.reported_modseq == file.database().modseq() {
            return Ok(ReportProgress::All);
        }
        let timer = SliceTimer::start(&self.context);
        let snapshot = file.snapshot()?;
        let selected = self.selected.as_ref().map(|selected| selected.folder);
        let progress = watch.report_changes(selected, self.enabled.condstore, (&snapshot, &timer), out)?;
        self.wait_for(snapshot.ticket());
        Ok(progress)
    }
}
