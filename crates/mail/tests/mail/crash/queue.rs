//! The operations on messages in transit and the expected results: a naive model of addressing and the queue.
//!
//! If a mailbox may be full, delivery and queueing are both correct, but exactly one of them must have happened.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use mail::router::{
    DeliveryJob, DeliveryTarget, Envelope, QueueEntry, QueueKey, QueueSchedule, QueuedRecipient, RecipientState,
    TransferOutcome,
};

use super::content::Content;
use super::files::Model;
use super::state::{Queued, State};
use super::world::{World, has_quota, targets};

/// An operation on messages in transit.
#[derive(Clone, Debug)]
pub enum QueueOperation {
    Accept {
        envelope: Envelope,
        content: Content,
    },
    Finish {
        job: DeliveryJob,
        outcomes: Vec<TransferOutcome>,
    },
    /// Writes the outcomes of a job that could not be written before.
    WritePending {
        job: DeliveryJob,
        outcomes: Vec<TransferOutcome>,
    },
    DeliverHere {
        job: DeliveryJob,
    },
    Hold {
        key: QueueKey,
    },
    Release {
        key: QueueKey,
    },
    Retry {
        key: QueueKey,
    },
    Remove {
        key: QueueKey,
    },
}

/// The circumstances that decide between several correct outcomes.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    pub now: Timestamp,
    /// `true` if the disk is full. Messages that cannot be delivered may then wait.
    pub disk_full: bool,
}

/// The effect of an operation on messages.
struct MessageFlow {
    /// New messages by mail file.
    arrived: BTreeMap<String, Vec<Content>>,
    /// New messages in the queue.
    queued: Vec<Queued>,
}

type Check = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

impl QueueOperation {
    /// Performs the operation and checks its result.
    pub fn perform(&self, world: &World) -> mail::Result<()> {
        let router = &world.router;
        match self {
            Self::Accept { envelope, content } => drop(router.accept(envelope, &content.0)?),
            Self::Finish { job, outcomes } => drop(router.finish(job, outcomes)?),
            Self::WritePending { .. } => assert_eq!(router.take_due_jobs(0), []),
            Self::DeliverHere { job } => drop(router.deliver_local(job)?),
            Self::Hold { key } => drop(router.hold(*key)?),
            Self::Release { key } => drop(router.release(*key)?),
            Self::Retry { key } => drop(router.retry(*key)?),
            Self::Remove { key } => drop(router.remove(*key)?),
        }
        Ok(())
    }

    /// Checks the state after the operation. Returns a description of the first error.
    pub fn check(&self, before: &State, after: &State, given: Conditions) -> Check {
        let flow = MessageFlow::between(before, after)?;
        match self {
            Self::Accept { envelope, content } => check_accept(envelope, content, (before, after), &flow, given),
            Self::Finish { job, outcomes } | Self::WritePending { job, outcomes } => {
                check_settled(job, outcomes, (before, after), &flow, given)
            }
            Self::DeliverHere { job } => {
                let outcomes = arrivals_of(job, before, &flow, given)?;
                check_settled(job, &outcomes, (before, after), &flow, given)
            }
            Self::Hold { key } => check_changed(*key, before, after, |queued| queued.state = RecipientState::Held),
            Self::Release { key } => check_changed(*key, before, after, |queued| {
                queued.state = RecipientState::Pending;
                queued.next_attempt = given.now;
            }),
            Self::Retry { key } => check_changed(*key, before, after, |queued| {
                queued.next_attempt = queued.next_attempt.min(given.now);
            }),
            Self::Remove { key } => ensure(!after.queue.contains_key(key), || "it is still in the queue".into()),
        }
    }

    /// Returns `true` if a crash or a full disk between the transactions of the operation may leave this state. Mail
    /// files may have been created.
    pub fn may_stop_at(&self, before: &State, found: &State) -> bool {
        MessageFlow::between(before, found).is_ok_and(|flow| flow.is_empty()) && before.queue == found.queue
    }
}

impl MessageFlow {
    /// Returns the new messages. Returns an error if anything else in a mail file changed.
    fn between(before: &State, after: &State) -> Result<Self, String> {
        let mut arrived = BTreeMap::new();
        for (path, new) in &after.files {
            let mut model = Model::from_file(new);
            let old = before.files.get(path);
            let first = old.map_or(base::Uid(1), |old| old.folders["INBOX"].uid_next);
            let inbox = model.folders.get_mut("INBOX").ok_or("a mail file without an inbox")?;
            let come = inbox.messages.split_off(&first);
            ensure(inbox.uid_next.0 == first.0 + come.len() as u32, || format!("{path}: UIDs were left out"))?;
            inbox.uid_next = first;
            match old {
                Some(old) => ensure(model == Model::from_file(old), || format!("{path}: something else changed"))?,
                None => ensure(model.folders.values().all(|folder| folder.messages.is_empty()), || {
                    format!("{path}: a new file has messages outside the inbox")
                })?,
            }
            arrived.insert(path.clone(), come.into_values().map(|message| message.content).collect());
        }
        ensure(before.files.keys().all(|path| after.files.contains_key(path)), || "a mail file is gone".into())?;
        let new_ones = after.queue.iter().filter(|(key, _)| !before.queue.contains_key(key));
        Ok(Self { arrived, queued: new_ones.map(|(_, queued)| queued.clone()).collect() })
    }

    fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.arrived.values().all(Vec::is_empty)
    }

    fn copies(&self, path: &str, content: &Content) -> usize {
        self.arrived.get(path).map_or(0, |come| come.iter().filter(|one| *one == content).count())
    }

    /// Returns the number of recipients with this mail file for which a content was queued.
    fn waiting(&self, path: &str, content: &Content) -> usize {
        let entries = self.queued.iter().filter(|queued| queued.content == *content);
        let recipients = entries.flat_map(|queued| &queued.entry.recipients);
        recipients
            .filter(|queued| queued.mail_file.as_ref().is_some_and(|file| file.eq_ignore_ascii_case(path)))
            .count()
    }

    /// Checks that the sender of a message received `expected` reports about it, and that no other user received one.
    fn check_reports(&self, about: &Queued, expected: usize) -> Check {
        let sender = about.entry.envelope.reverse_path.as_str();
        // The delivered message may itself be a report.
        let itself = about.content.delivered(sender);
        let to: Vec<DeliveryTarget> = if sender.is_empty() { Vec::new() } else { targets(sender) };
        let mut found = 0;
        for (path, come) in &self.arrived {
            let reports = come.iter().filter(|content| content.is_report() && **content != itself).count();
            let is_sender =
                to.iter().any(|to| matches!(to, DeliveryTarget::Local(mailbox) if mailbox.mail_file == *path));
            ensure(is_sender || reports == 0, || format!("{path} got a report that is not for it"))?;
            found += reports;
        }
        let reports = self.queued.iter().filter(|queued| queued.content.is_report());
        for queued in reports.filter(|queued| queued.content != about.content) {
            let right = queued.entry.recipients.iter().all(|queued| queued.recipient.address == sender);
            ensure(right && queued.entry.recipients.len() == 1, || "a queued report is not for the sender".into())?;
            ensure(queued.entry.envelope.reverse_path.is_empty(), || "a report may be answered".into())?;
            found += 1;
        }
        ensure(found == expected, || format!("{found} reports instead of {expected}"))
    }
}

fn wants(queued: &QueuedRecipient) -> mail::router::Notify {
    queued.recipient.notify.unwrap_or_default()
}

/// The targets of a message: mail files, remote addresses, and recipients that cannot be reached.
#[derive(Default)]
struct Route {
    files: BTreeSet<String>,
    remote: BTreeSet<String>,
    failed: Vec<String>,
    /// The mail files whose successful delivery the sender wants reported.
    confirmed: BTreeSet<String>,
    /// `true` if the sender wants a report of success for a group.
    expanded: bool,
}

fn route(envelope: &Envelope) -> Route {
    let mut route = Route::default();
    // If a target is addressed several times, the parameters of the first address that is not a group apply.
    let is_group = |recipient: &&mail::router::Recipient| targets(&recipient.address).len() > 1;
    let (groups, people): (Vec<_>, Vec<_>) = envelope.recipients.iter().partition(is_group);
    for (recipient, is_group) in
        people.into_iter().map(|one| (one, false)).chain(groups.into_iter().map(|one| (one, true)))
    {
        let notify = recipient.notify.unwrap_or_default();
        route.expanded |= is_group && notify.success;
        for target in targets(&recipient.address) {
            match target {
                DeliveryTarget::Local(mailbox) => {
                    let path = mailbox.mail_file.to_lowercase();
                    if route.files.insert(path.clone()) && notify.success && !is_group {
                        route.confirmed.insert(path);
                    }
                }
                DeliveryTarget::Remote(address) => drop(route.remote.insert(address.to_lowercase())),
                DeliveryTarget::Undeliverable(_) if notify.failure => route.failed.push(recipient.address.clone()),
                DeliveryTarget::Undeliverable(_) => {}
            }
        }
    }
    route
}

fn check_accept(
    envelope: &Envelope,
    content: &Content,
    (before, after): (&State, &State),
    flow: &MessageFlow,
    given: Conditions,
) -> Check {
    let route = route(envelope);
    let copy = content.delivered(&envelope.reverse_path);
    for path in after.files.keys().chain(&route.files) {
        let copies = flow.copies(path, &copy);
        let waiting = flow.waiting(path, content);
        let expected = usize::from(route.files.contains(path));
        ensure(copies + waiting == expected, || format!("{path} has {copies} copies, {waiting} wait"))?;
        ensure(waiting == 0 || has_quota(path) || given.disk_full, || format!("{path} waits without a reason"))?;
        let others = flow.arrived.get(path).map_or(0, |come| come.iter().filter(|one| !one.is_report()).count());
        ensure(others == copies, || format!("{path} got something else"))?;
    }
    let entries: Vec<&Queued> = flow.queued.iter().filter(|queued| queued.content == *content).collect();
    ensure(entries.len() <= 1, || "one message is queued twice".into())?;
    let recipients = || entries.iter().flat_map(|queued| &queued.entry.recipients);
    let of = |state: RecipientState| -> Vec<String> {
        let elsewhere = recipients().filter(|queued| queued.mail_file.is_none() && queued.state == state);
        elsewhere.map(|queued| queued.recipient.address.to_lowercase()).collect()
    };
    let mut pending = of(RecipientState::Pending);
    pending.sort();
    ensure(pending == route.remote.iter().cloned().collect::<Vec<_>>(), || format!("queued for {pending:?}"))?;
    let unreported = envelope.reverse_path.is_empty();
    let dead = if unreported { route.failed.clone() } else { Vec::new() };
    ensure(of(RecipientState::Dead) == dead, || "what cannot be reported is kept as dead mail".into())?;
    // Success is reported only for actual deliveries.
    let delivered = route.confirmed.iter().any(|path| flow.copies(path, &copy) == 1);
    let reports = usize::from(!route.failed.is_empty()) + usize::from(delivered) + usize::from(route.expanded);
    let about = QueueEntry {
        envelope: envelope.clone(),
        arrived: given.now,
        message: base::NoteId(0),
        size: 0,
        recipients: Vec::new(),
        release_at: None,
    };
    let about = Queued { entry: about, content: content.clone() };
    flow.check_reports(&about, if unreported { 0 } else { reports })?;
    let kept = before.queue.iter().all(|(key, queued)| after.queue.get(key) == Some(queued));
    ensure(kept, || "another queued message changed".into())
}

/// Determines which recipients of a local job received the message.
fn arrivals_of(
    job: &DeliveryJob,
    before: &State,
    flow: &MessageFlow,
    given: Conditions,
) -> Result<Vec<TransferOutcome>, String> {
    let Some(queued) = before.queue.get(&job.key) else { return Ok(job.recipients.iter().map(|_| later()).collect()) };
    let copy = queued.content.delivered(&job.envelope.reverse_path);
    let mut outcomes = Vec::new();
    for recipient in &job.recipients {
        let path = recipient.mail_file.clone().unwrap_or_default().to_lowercase();
        let is_known = position(&queued.entry, recipient).is_some();
        let copies = flow.copies(&path, &copy);
        let waiting = flow.waiting(&path, &queued.content);
        ensure(copies + waiting <= usize::from(is_known), || format!("{path} got {copies} copies, {waiting} wait"))?;
        let excused = has_quota(&path) || given.disk_full || !is_known;
        ensure(copies == 1 || excused, || format!("{path} did not get the message without a reason"))?;
        outcomes.push(if copies + waiting == 1 { sent() } else { later() });
    }
    Ok(outcomes)
}

fn sent() -> TransferOutcome {
    TransferOutcome::Delivered { reply: String::new(), reports: false }
}

fn later() -> TransferOutcome {
    TransferOutcome::Temporary { reply: String::new() }
}

fn position(entry: &QueueEntry, recipient: &QueuedRecipient) -> Option<usize> {
    let same = |known: &QueuedRecipient| {
        known.recipient.address == recipient.recipient.address && known.mail_file == recipient.mail_file
    };
    entry.recipients.iter().position(same)
}

/// The compared properties of a queued recipient.
type ComparedRecipient = (String, Option<String>, u8, u32, Timestamp, bool);

fn standing(queued: &QueuedRecipient) -> ComparedRecipient {
    let address = queued.recipient.address.clone();
    (address, queued.mail_file.clone(), queued.state as u8, queued.attempts, queued.next_attempt, queued.warned)
}

/// Checks the state of a queued message after an attempt at its recipients.
fn check_settled(
    job: &DeliveryJob,
    outcomes: &[TransferOutcome],
    (before, after): (&State, &State),
    flow: &MessageFlow,
    given: Conditions,
) -> Check {
    let Some(queued) = before.queue.get(&job.key) else {
        return ensure(flow.is_empty() && before.queue == after.queue, || {
            "a job of a removed message did something".into()
        });
    };
    let mut entry = queued.entry.clone();
    let reports = settle(&mut entry, job, outcomes, given.now);
    let mut expected: Vec<ComparedRecipient> = entry.recipients.iter().map(standing).collect();
    let found = after.queue.get(&job.key).map_or(&[][..], |queued| &queued.entry.recipients);
    let mut found: Vec<ComparedRecipient> = found.iter().map(standing).collect();
    expected.sort();
    found.sort();
    ensure(found == expected, || format!("the queue has {found:?} instead of {expected:?}"))?;
    flow.check_reports(queued, reports)?;
    let others = |state: &State| -> Vec<Queued> {
        let kept = state.queue.iter().filter(|(key, _)| before.queue.contains_key(key) && **key != job.key);
        kept.map(|(_, queued)| queued.clone()).collect()
    };
    ensure(others(before) == others(after), || "another queued message changed".into())
}

/// Applies the outcomes of a job to an entry. Returns the number of reports.
fn settle(entry: &mut QueueEntry, job: &DeliveryJob, outcomes: &[TransferOutcome], now: Timestamp) -> usize {
    let schedule = QueueSchedule::default();
    let mut relayed = false;
    let mut delayed = false;
    let mut failed = Vec::new();
    for (tried, outcome) in job.recipients.iter().zip(outcomes) {
        let Some(position) = position(entry, tried) else { continue };
        let queued = &mut entry.recipients[position];
        match outcome {
            TransferOutcome::Delivered { reports, .. } => {
                relayed |= !reports && wants(queued).success;
                entry.recipients.remove(position);
            }
            TransferOutcome::Temporary { .. } => {
                queued.attempts += 1;
                if now.since(entry.arrived) >= schedule.expire_after {
                    failed.push(entry.recipients.remove(position));
                    continue;
                }
                queued.next_attempt = schedule.next_attempt_at(queued.attempts, now);
                if now.since(entry.arrived) >= schedule.warn_after && !queued.warned {
                    queued.warned = true;
                    delayed |= wants(queued).delay;
                }
            }
            TransferOutcome::Elsewhere { server } => {
                queued.server = Some(server.clone());
                queued.next_attempt = now;
            }
            TransferOutcome::Permanent { .. } => failed.push(entry.recipients.remove(position)),
        }
    }
    failed.retain(|queued| wants(queued).failure);
    if !entry.envelope.reverse_path.is_empty() {
        return usize::from(relayed) + usize::from(delayed) + usize::from(!failed.is_empty());
    }
    entry.recipients.extend(failed.into_iter().map(|queued| QueuedRecipient { state: RecipientState::Dead, ..queued }));
    0
}

fn check_changed(key: QueueKey, before: &State, after: &State, change: impl Fn(&mut QueuedRecipient)) -> Check {
    let mut expected = before.clone();
    let Some(queued) = expected.queue.get_mut(&key) else { return Err("there is no such entry".into()) };
    queued.entry.recipients.iter_mut().for_each(change);
    ensure(expected.queue == after.queue && expected.files == after.files, || {
        "the queue differs from the request".into()
    })
}
