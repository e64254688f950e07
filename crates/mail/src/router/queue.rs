//! The queue: due jobs, their outcomes, and the operator's commands.
//!
//! The `mail.box` databases hold the authoritative state. This module keeps an index of it in memory. The index is read
//! once at startup and updated after every transaction that changes a state.
//!
//! A change of a queued message reads its state, modifies it, and writes the whole state back. Changes of the same
//! message wait for each other ([`Queue::lock_message`]), so concurrent transfers of one message to several domains do
//! not overwrite each other's changes.
//!
//! A remote transfer cannot be undone. If its outcome cannot be written, for instance because the disk is full, the
//! outcome is kept in memory and written later. Until then nothing else is sent.
//!
//! A [`DeliveryJob`] is one message for one destination. While it is in progress, no second job of that message for
//! that destination is given out. So nothing is sent twice as long as the server runs. A crash between the remote
//! server's reply and the local commit repeats that one transfer, which SMTP cannot exclude (RFC 1047).
//! [`super::dispatch`] determines the order of jobs.
//!
//! A message may be given out before it is durable. Before it is sent elsewhere, the transfer waits for
//! [`Router::durable`]: if the log cannot be written, the client receives a temporary failure and sends the message
//! again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use base::sync::{Mutex, MutexGuard};
use base::{NoteId, Timestamp};
use notes::ItemValue;
use store::{DurableFuture, Ticket};

use crate::error::{Error, Result};
use crate::limits::{
    CONNECT_TIME_MAX, JOB_RECIPIENTS_MAX, LOCAL_DELIVERIES_PER_TRANSACTION_MAX, LOCAL_DELIVERY_TRIES_MAX,
};
use crate::mailbox::Message;
use crate::mime::message_header::top_fields;
use crate::router::accept::{
    DeliveryTarget, FullMailboxPolicy, LocalMailbox, QUEUE_ITEM, QueueDatabase, QueueUpdate, RoutedMessage, Router,
    RouterOptions, with_return_path,
};
use crate::router::dispatch::{AttemptResult, AttemptTimes, Destination, Dispatcher};
use crate::router::dsn::Action;
use crate::router::entry::{QueueEntry, QueueKey, QueuedRecipient, RecipientState};
use crate::router::envelope::Envelope;
use crate::router::record::SubmissionRecord;

/// One message for one destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryJob {
    /// The queued message.
    pub key: QueueKey,
    /// The destination.
    pub destination: Destination,
    /// The envelope, without recipients.
    pub envelope: Envelope,
    /// The due recipients at the destination, up to the number that fits into one transaction. The others become due
    /// when the job is given back.
    pub recipients: Vec<QueuedRecipient>,
    /// Number of bytes of the message.
    pub size: u64,
    /// The ticket of the last write of the message's state.
    pub ticket: Ticket,
    /// Maximum time until a server accepts the connection for mail, or `None` for as long as the protocol allows. See
    /// [`CONNECT_TIME_MAX`].
    pub connect_time_max: Option<Duration>,
}

/// The outcome of a job for one recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransferOutcome {
    /// The message was transferred. `reports` is `true` if the other server sends the requested delivery reports.
    Delivered { reply: String, reports: bool },
    /// A temporary failure.
    Temporary { reply: String },
    /// A permanent failure.
    Permanent { reply: String },
    /// The mailbox is not here, but on another server of the domain, to which the message is sent next.
    Elsewhere { server: String },
}

/// Number of messages in the queue, by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueCounts {
    /// Number of messages.
    pub messages: usize,
    /// Number of messages with recipients that are to be tried.
    pub pending: usize,
    /// Number of transfers in progress.
    pub active: usize,
}

/// The reply if a mailbox is full. It does not reveal how much the mailbox contains.
pub(crate) const MAILBOX_FULL: &str = "452 4.2.2 mailbox full";

/// The reply if a mailbox cannot be opened, independent of the reason.
pub(crate) const CANNOT_OPEN: &str = "451 4.3.0 the mailbox cannot be opened now";

/// The reply if another server has sent a message back.
const RETURNED: &str =
    "451 4.4.6 the message came back: the directories of the servers name different ones for the mailbox";

/// Number of queued messages that can be changed concurrently. Messages whose note numbers differ by a multiple of this
/// number wait for each other.
const MESSAGE_LOCKS: usize = 64;

/// The in-memory index of the queue.
pub(crate) struct Queue {
    state: Mutex<State>,
    /// Locks for changes of messages. A change holds one from reading the state until the new state is in `state`. It
    /// is taken before the locks of databases.
    message_locks: [Mutex<()>; MESSAGE_LOCKS],
    smart_host: bool,
}

struct State {
    /// The states, each with the ticket of the write that created it.
    entries: BTreeMap<QueueKey, (QueueEntry, Ticket)>,
    /// The messages by the identifiers of their envelopes.
    by_id: HashMap<String, QueueKey>,
    dispatcher: Dispatcher,
    /// Jobs that are still active because their outcomes could not be written.
    pending_outcomes: Vec<(DeliveryJob, Vec<TransferOutcome>)>,
}

impl Queue {
    /// Reads the states of all queued messages.
    ///
    /// An attempt is never due later than the longest pause from now. While the clock was ahead, later times were
    /// stored, and the message would wait until then.
    pub(crate) fn load(boxes: &[QueueDatabase], options: &RouterOptions, now: Timestamp) -> Result<Self> {
        let latest = now.after(options.schedule.retry_max);
        let dispatcher = Dispatcher::new(options.transfers_per_destination_max, options.transfers_max);
        let entries = BTreeMap::new();
        let state = State { entries, by_id: HashMap::new(), dispatcher, pending_outcomes: Vec::new() };
        let turns = std::array::from_fn(|_| Mutex::default());
        let queue = Self { state: Mutex::new(state), message_locks: turns, smart_host: options.smart_host };
        for (mailbox, of_box) in (1u16..).zip(boxes) {
            let reading = of_box.reader.read()?;
            reading.for_each_note(NoteId(0), &mut |header| {
                if header.is_stub() || !header.class.is_document() {
                    return Ok(true);
                }
                let summary = reading.summary(header.note)?.unwrap_or_default();
                if let Some(ItemValue::MimePart(bytes)) =
                    notes::item::find_item(&summary.items, QUEUE_ITEM).map(|item| &item.value)
                {
                    let mut entry = QueueEntry::decode(bytes).map_err(|_| notes::Error::Damaged {
                        database: reading.database().path(),
                        note: header.note,
                        record: "queue state",
                    })?;
                    entry.limit_attempts(latest);
                    queue.replace_entry(QueueKey { mailbox, note: header.note }, entry, Ticket::NONE);
                }
                Ok(true)
            })?;
        }
        Ok(queue)
    }

    /// Replaces the state of a message. A message without recipients is removed.
    pub(crate) fn replace_entry(&self, key: QueueKey, entry: QueueEntry, ticket: Ticket) {
        let mut times = AttemptTimes::new();
        for queued in entry.recipients.iter().filter(|queued| queued.state == RecipientState::Pending) {
            let time = times.entry(self.destination(queued)).or_insert(queued.next_attempt);
            *time = queued.next_attempt.min(*time);
        }
        let mut state = self.lock();
        state.dispatcher.set_attempt_times(key, times);
        if entry.recipients.is_empty() {
            state.entries.remove(&key);
            state.by_id.remove(&entry.envelope.id);
        } else {
            state.by_id.insert(entry.envelope.id.clone(), key);
            state.entries.insert(key, (entry, ticket));
        }
    }

    pub(crate) fn counts(&self) -> QueueCounts {
        let state = self.lock();
        let (pending, active) = state.dispatcher.counts();
        QueueCounts { messages: state.entries.len(), pending, active }
    }

    /// Waits until no other change of a message is in progress, and locks it.
    fn lock_message(&self, key: QueueKey) -> MutexGuard<'_, ()> {
        self.message_locks[key.note.0 as usize % MESSAGE_LOCKS].lock()
    }

    fn get(&self, key: QueueKey) -> Option<QueueEntry> {
        self.lock().entries.get(&key).map(|(entry, _)| entry.clone())
    }

    /// Takes a message that is still held for its sender out of the dispatcher, so that it is not given out while it is
    /// withdrawn. Returns `None` if it is too late.
    fn stop_held(&self, key: QueueKey, now: Timestamp) -> Option<(QueueEntry, Ticket)> {
        let mut state = self.lock();
        let (entry, ticket) = state.entries.get(&key)?;
        if entry.release_at.is_none_or(|release_at| release_at <= now) || state.dispatcher.is_taken(key) {
            return None;
        }
        let found = (entry.clone(), *ticket);
        state.dispatcher.set_attempt_times(key, AttemptTimes::new());
        Some(found)
    }

    /// Takes jobs with `take`, at most `jobs_max`.
    fn take_jobs(
        &self,
        now: Timestamp,
        jobs_max: usize,
        take: fn(&mut Dispatcher, Timestamp) -> Option<(QueueKey, Destination)>,
    ) -> Vec<DeliveryJob> {
        let mut state = self.lock();
        let mut jobs = Vec::new();
        while jobs.len() < jobs_max {
            let Some((key, destination)) = take(&mut state.dispatcher, now) else { break };
            let Some((entry, ticket)) = state.entries.get(&key) else { continue };
            let recipients_max = match destination {
                Destination::Local => LOCAL_DELIVERIES_PER_TRANSACTION_MAX,
                Destination::Domain(_) | Destination::SmartHost | Destination::Server(_) => JOB_RECIPIENTS_MAX,
            };
            let is_due = |queued: &&QueuedRecipient| {
                queued.state == RecipientState::Pending
                    && queued.next_attempt <= now
                    && self.destination(queued) == destination
            };
            let recipients = entry.recipients.iter().filter(is_due).take(recipients_max).cloned().collect();
            let envelope = entry.envelope.clone();
            let size = entry.size;
            let ticket = *ticket;
            let is_hurried = matches!(destination, Destination::Domain(_)) && !state.dispatcher.is_slow(&destination);
            let opening_max = is_hurried.then_some(CONNECT_TIME_MAX);
            jobs.push(DeliveryJob {
                key,
                destination,
                envelope,
                recipients,
                size,
                ticket,
                connect_time_max: opening_max,
            });
        }
        jobs
    }

    fn destination(&self, queued: &QueuedRecipient) -> Destination {
        if let Some(server) = &queued.server {
            Destination::Server(server.clone())
        } else if queued.mail_file.is_some() {
            Destination::Local
        } else if self.smart_host {
            Destination::SmartHost
        } else {
            Destination::Domain(queued.domain())
        }
    }

    fn release(&self, job: &DeliveryJob, not_before: Timestamp, ended: AttemptResult) {
        self.lock().dispatcher.release(job.key, &job.destination, not_before, ended);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Router {
    /// Takes due jobs, at most `jobs_max`, those for local mailboxes first.
    ///
    /// Each job must be given back with [`Router::finish`] or [`Router::deliver_local`]. The result is empty while the
    /// store accepts no writes: a message sent in that state would be sent again.
    #[must_use]
    pub fn take_due_jobs(&self, jobs_max: usize) -> Vec<DeliveryJob> {
        let mut jobs = self.take_local_jobs(jobs_max);
        jobs.extend(self.take_remote_jobs(jobs_max.saturating_sub(jobs.len())));
        jobs
    }

    /// Takes jobs for local mailboxes, like [`Router::take_due_jobs`].
    #[must_use]
    pub fn take_local_jobs(&self, jobs_max: usize) -> Vec<DeliveryJob> {
        self.take_jobs(jobs_max, Dispatcher::take_local)
    }

    /// Takes jobs for other servers, like [`Router::take_due_jobs`].
    #[must_use]
    pub fn take_remote_jobs(&self, jobs_max: usize) -> Vec<DeliveryJob> {
        self.take_jobs(jobs_max, Dispatcher::take_remote)
    }

    fn take_jobs(
        &self,
        jobs_max: usize,
        take: fn(&mut Dispatcher, Timestamp) -> Option<(QueueKey, Destination)>,
    ) -> Vec<DeliveryJob> {
        if !self.write_pending_outcomes() {
            return Vec::new();
        }
        self.queue.take_jobs(self.mail.databases().clock().now(), jobs_max, take)
    }

    /// Returns a handle to wait for before a job's message is sent elsewhere. Until then a crash can lose the message,
    /// and its sender would send it again.
    pub fn durable(&self, job: &DeliveryJob) -> DurableFuture {
        self.mail.databases().store().durable(job.ticket)
    }

    /// Returns the content of a queued message.
    pub fn content(&self, key: QueueKey) -> Result<Vec<u8>> {
        let entry = self.require(key)?;
        let of_box = self.boxes.get(usize::from(key.mailbox) - 1).ok_or_else(|| unknown(key))?;
        let reading = of_box.reader.read()?;
        let header = reading.header(entry.message)?.ok_or_else(|| unknown(key))?;
        Message::open(&reading, header.note, self.mail.head_cache())?.raw()
    }

    /// Finishes a job with the outcome of each of its recipients, in their order.
    ///
    /// After an error the job is not given out again. [`Router::take_due_jobs`] keeps trying to write the outcomes
    /// until the server ends.
    pub fn finish(&self, job: &DeliveryJob, outcomes: &[TransferOutcome]) -> Result<Ticket> {
        let ended = self.attempt_result(outcomes);
        let outcome = self.record_outcomes(job, outcomes, Vec::new());
        if outcome.is_err() {
            self.queue.lock().pending_outcomes.push((job.clone(), outcomes.to_vec()));
        } else {
            self.queue.release(job, Timestamp::default(), ended);
        }
        outcome
    }

    /// Executes a job whose recipients are local mailboxes. The delivery and the end of the entry are one transaction.
    /// After an error the job is retried with a delay.
    pub fn deliver_local(&self, job: &DeliveryJob) -> Result<Ticket> {
        let mut outcome = self.finish_local(job);
        for _ in 1..LOCAL_DELIVERY_TRIES_MAX {
            // A mailbox was filled between the check and the delivery. The next check finds it full.
            if !matches!(outcome, Err(Error::OverQuota { .. })) {
                break;
            }
            outcome = self.finish_local(job);
        }
        let later = self.mail.databases().clock().now().after(self.options.schedule.retry_first);
        self.queue.release(job, if outcome.is_err() { later } else { Timestamp::default() }, AttemptResult::Final);
        outcome
    }

    /// Writes outcomes of jobs that could not be written before. Returns `true` if the store accepts writes.
    fn write_pending_outcomes(&self) -> bool {
        if self.mail.databases().store().committer().poison_reason().is_some() {
            return false;
        }
        let unwritten = std::mem::take(&mut self.queue.lock().pending_outcomes);
        let mut takes = true;
        for (job, outcomes) in unwritten {
            match self.record_outcomes(&job, &outcomes, Vec::new()) {
                Ok(_) => self.queue.release(&job, Timestamp::default(), AttemptResult::NotAttempted),
                Err(error) => {
                    takes &= !is_store_failure(&error);
                    self.queue.lock().pending_outcomes.push((job, outcomes));
                }
            }
        }
        takes
    }

    /// Puts a job back without an attempt, for instance at shutdown.
    pub fn abandon(&self, job: &DeliveryJob) {
        self.queue.release(job, Timestamp::default(), AttemptResult::NotAttempted);
    }

    /// Returns all messages of the queue.
    #[must_use]
    pub fn list(&self) -> Vec<(QueueKey, QueueEntry)> {
        self.queue.lock().entries.iter().map(|(key, (entry, _))| (*key, entry.clone())).collect()
    }

    /// Returns the counts of the queue.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        self.queue.counts()
    }

    /// Makes every pending recipient of a message due now. Its sender can no longer withdraw it.
    pub fn retry(&self, key: QueueKey) -> Result<Ticket> {
        let now = self.mail.databases().clock().now();
        self.change(key, |entry| {
            entry.release_at = None;
            entry.recipients.iter_mut().for_each(|queued| queued.next_attempt = now.min(queued.next_attempt));
        })
    }

    /// Holds a message. It is not tried until it is released.
    pub fn hold(&self, key: QueueKey) -> Result<Ticket> {
        self.change(key, |entry| entry.recipients.iter_mut().for_each(|queued| queued.state = RecipientState::Held))
    }

    /// Makes the held and dead recipients of a message due now. Its sender can no longer withdraw it.
    pub fn release(&self, key: QueueKey) -> Result<Ticket> {
        let now = self.mail.databases().clock().now();
        self.change(key, |entry| {
            entry.release_at = None;
            for queued in &mut entry.recipients {
                queued.state = RecipientState::Pending;
                queued.next_attempt = now;
            }
        })
    }

    /// Returns the queued message whose envelope has this identifier.
    #[must_use]
    pub fn message_with_id(&self, id: &str) -> Option<QueueEntry> {
        let state = self.queue.lock();
        let key = state.by_id.get(id)?;
        state.entries.get(key).map(|(entry, _)| entry.clone())
    }

    /// Removes a message that is held for its sender, and changes the document about it in the same transaction.
    /// Returns `None` if it is too late: after that, or after a crash, the message is either withdrawn or sent.
    pub fn withdraw(&self, id: &str, record: SubmissionRecord) -> Result<Option<Ticket>> {
        let now = self.mail.databases().clock().now();
        let Some(key) = self.queue.lock().by_id.get(id).copied() else { return Ok(None) };
        let _turn = self.queue.lock_message(key);
        let Some((entry, ticket)) = self.queue.stop_held(key, now) else { return Ok(None) };
        let mut documents = [RoutedMessage::new(Envelope::default(), Vec::new())];
        documents[0].record = Some(record);
        let withdrawn = QueueEntry { recipients: Vec::new(), ..entry.clone() };
        let committed = self.commit_routed(&mut documents, vec![QueueUpdate { key, entry: withdrawn }], now);
        if committed.is_err() {
            self.queue.replace_entry(key, entry, ticket);
        }
        committed.map(Some)
    }

    /// Removes a message from the queue without a report.
    pub fn remove(&self, key: QueueKey) -> Result<Ticket> {
        let _turn = self.queue.lock_message(key);
        let mut entry = self.require(key)?;
        entry.recipients.clear();
        self.commit_routed(&mut [], vec![QueueUpdate { key, entry }], self.mail.databases().clock().now())
    }

    fn change(&self, key: QueueKey, change: impl FnOnce(&mut QueueEntry)) -> Result<Ticket> {
        let _turn = self.queue.lock_message(key);
        let mut entry = self.require(key)?;
        change(&mut entry);
        self.commit_routed(&mut [], vec![QueueUpdate { key, entry }], self.mail.databases().clock().now())
    }

    fn require(&self, key: QueueKey) -> Result<QueueEntry> {
        self.queue.get(key).ok_or_else(|| unknown(key))
    }

    fn finish_local(&self, job: &DeliveryJob) -> Result<Ticket> {
        let raw = self.content(job.key)?;
        let form = with_return_path(&job.envelope, &raw);
        let size = form.len() as u64;
        let mut routed_message = RoutedMessage {
            delivered_bytes: Some(form),
            if_full: FullMailboxPolicy::Fail,
            ..RoutedMessage::new(job.envelope.clone(), raw)
        };
        let mut outcomes = Vec::with_capacity(job.recipients.len());
        for queued in &job.recipients {
            let mailbox = self.mailbox_of(queued)?;
            outcomes.push(match self.refusal(&mailbox, size)? {
                Some(outcome) => outcome,
                None => {
                    routed_message.local.push((mailbox, queued.recipient.clone()));
                    TransferOutcome::Delivered { reply: "250 2.0.0 delivered".into(), reports: false }
                }
            });
        }
        self.record_outcomes(job, &outcomes, vec![routed_message])
    }

    /// Returns why a mailbox cannot accept a message here and now, or `None` if it can.
    fn refusal(&self, mailbox: &LocalMailbox, size: u64) -> Result<Option<TransferOutcome>> {
        let later = |reply: &str| Ok(Some(TransferOutcome::Temporary { reply: reply.to_owned() }));
        let quota = match self.mail.open_as_server(&mailbox.mail_file).and_then(|file| file.quota()) {
            Ok(quota) => quota,
            // A missing mail file that has an owner is created by the delivery.
            Err(Error::Notes(notes::Error::NotFound { .. })) => {
                // An entry of version 1 names no server, and the person may have moved to another one.
                if let Some(server) = mailbox.other_server.clone() {
                    return Ok(Some(TransferOutcome::Elsewhere { server }));
                }
                let has_owner = !mailbox.owner.canonical().is_empty();
                return if has_owner { Ok(None) } else { later("450 4.2.0 there is no such mailbox") };
            }
            Err(error) if is_store_failure(&error) => return Err(error),
            Err(_) => return later(CANNOT_OPEN),
        };
        let fits = quota.limit_bytes.is_none_or(|limit| quota.used_bytes.saturating_add(size) <= limit);
        if fits { Ok(None) } else { later(MAILBOX_FULL) }
    }

    fn mailbox_of(&self, queued: &QueuedRecipient) -> Result<LocalMailbox> {
        let mail_file = queued.mail_file.clone().unwrap_or_default();
        let found = self.targets(&queued.recipient.address)?.into_iter().find_map(|target| match target {
            DeliveryTarget::Local(mailbox) if mailbox.mail_file.eq_ignore_ascii_case(&mail_file) => Some(mailbox),
            _ => None,
        });
        Ok(found.unwrap_or_else(|| LocalMailbox {
            title: mail_file.clone(),
            owner: base::Name::default(),
            quota_bytes: None,
            other_server: None,
            mail_file,
        }))
    }

    /// Writes the outcomes of a job and the reports that they cause.
    fn record_outcomes(
        &self,
        job: &DeliveryJob,
        outcomes: &[TransferOutcome],
        mut routed_messages: Vec<RoutedMessage<'_>>,
    ) -> Result<Ticket> {
        assert_eq!(outcomes.len(), job.recipients.len(), "every recipient has an outcome");
        let now = self.mail.databases().clock().now();
        let _turn = self.queue.lock_message(job.key);
        let Some(mut entry) = self.queue.get(job.key) else { return Ok(Ticket::NONE) };
        let sent_at = entry.sent_at();
        entry.release_at = None;
        let mut relayed = Vec::new();
        let mut late = Vec::new();
        let mut failed = Vec::new();
        for (tried, outcome) in job.recipients.iter().zip(outcomes) {
            let Some(position) = entry.recipients.iter().position(|queued| queued.is_same_recipient(tried)) else {
                continue;
            };
            let queued = &mut entry.recipients[position];
            match outcome {
                TransferOutcome::Delivered { reply, reports } => {
                    let mut done = entry.recipients.remove(position);
                    done.last_reply.clone_from(reply);
                    relayed.extend(Some(done).filter(|_| !reports));
                }
                TransferOutcome::Temporary { reply } => {
                    let gone = self.postpone(queued, reply, sent_at, now);
                    if gone {
                        failed.push(entry.recipients.remove(position));
                    } else if !queued.warned && self.options.schedule.is_warning_due(sent_at, now) {
                        queued.warned = true;
                        late.push(queued.clone());
                    }
                }
                TransferOutcome::Elsewhere { server } => {
                    let message = self.content(job.key)?;
                    self.reroute(queued, server.clone(), &message, now);
                }
                TransferOutcome::Permanent { reply } => {
                    let mut gone = entry.recipients.remove(position);
                    gone.last_reply.clone_from(reply);
                    failed.push(gone);
                }
            }
        }
        let success = if job.destination == Destination::Local { Action::Delivered } else { Action::Relayed };
        let reported = [(success, relayed), (Action::Delayed, late), (Action::Failed, failed)];
        if reported.iter().any(|(_, recipients)| !recipients.is_empty()) {
            let about = RoutedMessage::new(entry.envelope.clone(), self.content(job.key)?);
            for (action, recipients) in reported {
                let dead = self.push_report(&mut routed_messages, action, &about, recipients, now)?;
                entry.recipients.extend(dead);
            }
        }
        self.commit_routed(&mut routed_messages, vec![QueueUpdate { key: job.key, entry }], now)
    }

    /// Assigns a recipient to the server that has the mailbox. A message that was here before comes back because the
    /// directories of the servers disagree, which may end when they have replicated: it waits like after a failure, and
    /// longer each time.
    pub(crate) fn reroute(&self, queued: &mut QueuedRecipient, server: String, message: &[u8], now: Timestamp) {
        queued.server = Some(server);
        queued.next_attempt = now;
        let earlier = earlier_visits(message, &self.options.server);
        if earlier > 0 {
            queued.attempts = earlier;
            queued.next_attempt = self.options.schedule.next_attempt_at(earlier, now);
            RETURNED.clone_into(&mut queued.last_reply);
        }
    }

    /// Returns the result of a transfer from the outcomes of its recipients.
    fn attempt_result(&self, outcomes: &[TransferOutcome]) -> AttemptResult {
        let is_temporary = |outcome: &TransferOutcome| matches!(outcome, TransferOutcome::Temporary { .. });
        if outcomes.iter().all(is_temporary) {
            AttemptResult::Failed(self.mail.databases().clock().now())
        } else {
            AttemptResult::Final
        }
    }

    /// Records a temporary failure. Returns `true` if the message has expired.
    fn postpone(&self, queued: &mut QueuedRecipient, reply: &str, sent_at: Timestamp, now: Timestamp) -> bool {
        queued.attempts = queued.attempts.saturating_add(1);
        queued.last_reply = reply.to_owned();
        if self.options.schedule.is_expired(sent_at, now) {
            queued.last_reply =
                format!("5.4.7 gave up after {} attempts; the last reply was: {reply}", queued.attempts);
            return true;
        }
        queued.next_attempt = self.options.schedule.next_attempt_at(queued.attempts, now);
        false
    }
}

/// Returns how often a message was on this server before: the number of its trace fields but the last one.
fn earlier_visits(message: &[u8], server: &str) -> u32 {
    let is_ours = |value: &[u8]| {
        let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.by_ref().any(|word| word == b"by") && words.next() == Some(server.as_bytes())
    };
    let traces = top_fields(message).filter(|(_, field)| field.is("Received") && is_ours(field.value));
    u32::try_from(traces.count()).unwrap_or(u32::MAX).saturating_sub(1)
}

/// Returns `true` if the error is a failure of the store and not of one message.
fn is_store_failure(error: &Error) -> bool {
    use store::Error::{Failed, Full};
    matches!(error, Error::Notes(notes::Error::Store(Full(_) | Failed { .. })))
}

fn unknown(key: QueueKey) -> Error {
    notes::Error::not_found(format!("queued message {key}")).into()
}
