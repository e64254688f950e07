//! Acceptance of messages, and every other operation that puts messages into mailboxes and the queue.
//!
//! All of them go through [`Router::commit_routed`]: one transaction over the mail files concerned and one `mail.box`.
//! So delivery, queueing, the removal of a queue entry and its report happen together or not at all.
//!
//! Only that transaction can determine whether a mailbox has space. So a report of success is written in the same
//! transaction, after the deliveries that it reports. It can only report completed deliveries.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::{Name, Timestamp};
use notes::{
    Access, Acl, AclLevel, Database, DatabaseKind, Identity, Item, ItemValue, NewDatabase, NewNote, Transaction, level,
};
use store::Ticket;

use crate::error::Result;
use crate::limits::{LOCAL_DELIVERIES_PER_TRANSACTION_MAX, QUEUE_STUBS_MAX};
use crate::mailbox::ready_message::check_quota;
use crate::mailbox::{MailFile, MailStore};
use crate::message::PreparedMessage;
use crate::mime::message_header::{append_without, top_fields};
use crate::router::dsn::{self, Action, DsnReport};
use crate::router::entry::{QueueEntry, QueueKey, QueuedRecipient, RecipientState};
use crate::router::envelope::{Envelope, Notify, Recipient};
use crate::router::queue::{CANNOT_OPEN, MAILBOX_FULL, Queue};
use crate::router::record::{RecordChange, SubmissionRecord, write_record};
use crate::router::report_limits::{ReportLimits, ReportRates};
use crate::router::schedule::QueueSchedule;

/// The item of a state note that holds the queue entry.
pub(crate) const QUEUE_ITEM: &str = "$Queue";

/// A local mailbox that an address resolves to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalMailbox {
    /// The path of the mail file.
    pub mail_file: String,
    /// The title of the mail file, if it has to be created.
    pub title: String,
    /// The owner of the mail file.
    pub owner: Name,
    /// The quota of the mail file, if it has to be created.
    pub quota_bytes: Option<u64>,
    /// The canonical name of the server that creates the mail file, if it is another one. Its mail goes there unless
    /// this server has a replica of the mail file.
    pub other_server: Option<String>,
}

/// A target that a recipient's address resolves to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryTarget {
    /// A local mailbox.
    Local(LocalMailbox),
    /// A remote address.
    Remote(String),
    /// No target. The text is the reply that the report contains.
    Undeliverable(String),
}

/// A resolver of addresses: persons, groups (expanded), forwarding, catch-all.
pub trait AddressResolver: Send + Sync {
    /// Returns all targets that an address resolves to.
    fn targets(&self, address: &str) -> Result<Vec<DeliveryTarget>>;
}

/// Operator settings of the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterOptions {
    /// The server name from which reports are sent.
    pub server: String,
    /// Number of `mail.box` databases that share the queue.
    pub mailboxes: u16,
    /// The schedule of the queue.
    pub schedule: QueueSchedule,
    /// Maximum number of messages in the queue.
    pub queue_messages_max: usize,
    /// Maximum number of concurrent transfers to one destination.
    pub transfers_per_destination_max: usize,
    /// Number of concurrent transfers to other servers. It equals the number of transfer workers that take the jobs.
    /// Slow destinations receive half of them.
    pub transfers_max: usize,
    /// `true` if all mail that is not local goes through one host.
    pub smart_host: bool,
    /// Maximum number of reports to one sender.
    pub report_rates: ReportRates,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self {
            server: "localhost".into(),
            mailboxes: 2,
            schedule: QueueSchedule::default(),
            queue_messages_max: 100_000,
            transfers_per_destination_max: 5,
            transfers_max: 50,
            smart_host: false,
            report_rates: ReportRates::default(),
        }
    }
}

/// The first outcome of an accepted message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptOutcome {
    /// The ticket of the transaction, to wait for its durability.
    pub ticket: Ticket,
    /// Number of mailboxes that have received the message.
    pub delivered: usize,
    /// Number of recipients for which the message waits in the queue.
    pub queued: usize,
}

/// A `mail.box` database.
pub(crate) struct QueueDatabase {
    pub(crate) depositor: Access<level::Depositor>,
    pub(crate) reader: Access<level::Reader>,
    /// Number of stubs that the last purge left, for instance because the clock was set back.
    stubs_left: AtomicU64,
}

impl QueueDatabase {
    /// Purges the stubs of messages that are done, once there are a quarter as many as other notes. So the start of the
    /// server costs what is in the queue, whatever has passed through it, and each message pays for a few records.
    fn purge_if_due(&self) -> Result<()> {
        let counters = *self.reader.read()?.counters();
        let more = QUEUE_STUBS_MAX.max(counters.notes / 4);
        if counters.stubs > self.stubs_left.load(Ordering::Relaxed).saturating_add(more) {
            notes::purge::purge(self.reader.database())?;
            self.stubs_left.store(self.reader.read()?.counters().stubs, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A message to accept, with the targets of its recipients.
#[derive(Debug)]
pub struct ArrivingMessage<'m> {
    /// The envelope.
    pub envelope: &'m Envelope,
    /// The targets of its recipients, in their order.
    pub targets: &'m [Arc<[DeliveryTarget]>],
    /// The message.
    pub raw: &'m [u8],
    /// The time before which nobody gets it, and until which its sender may withdraw it (RFC 4865).
    pub release_at: Option<Timestamp>,
    /// The document about it that is written in the same transaction.
    pub record: Option<SubmissionRecord>,
}

/// The router, which accepts messages and directs them to their targets.
pub struct Router {
    pub(crate) mail: Arc<MailStore>,
    addressing: Arc<dyn AddressResolver>,
    pub(crate) options: RouterOptions,
    pub(crate) boxes: Vec<QueueDatabase>,
    pub(crate) queue: Queue,
    next_box: AtomicUsize,
    report_limits: ReportLimits,
}

/// A message with its targets.
pub(crate) struct RoutedMessage<'a> {
    pub(crate) envelope: Envelope,
    pub(crate) raw: Cow<'a, [u8]>,
    /// The message in the form that mailboxes hold, if it has already been computed. Otherwise the delivery computes
    /// it.
    pub(crate) delivered_bytes: Option<Vec<u8>>,
    /// The local mailboxes. After [`Router::commit_routed`], only those that have received the message.
    pub(crate) local: Vec<(LocalMailbox, Recipient)>,
    /// The recipients for which the message goes into the queue. After [`Router::commit_routed`], also those whose
    /// mailbox did not accept it.
    pub(crate) queued: Vec<QueuedRecipient>,
    pub(crate) if_full: FullMailboxPolicy,
    /// The index of an earlier message whose deliveries this message reports. The report is written after those
    /// deliveries, if there is anything to report.
    pub(crate) reports_on: Option<usize>,
    /// The sender who receives this message as a report, and the event that it reports. `None` for other messages.
    pub(crate) reported_to: Option<(String, Action)>,
    /// The time before which it is not sent.
    pub(crate) release_at: Option<Timestamp>,
    /// The document about it.
    pub(crate) record: Option<SubmissionRecord>,
}

/// The reaction if a mailbox cannot accept a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FullMailboxPolicy {
    /// The message waits in the queue for the mailbox.
    Queue,
    /// The whole transaction fails with an error.
    Fail,
}

impl<'a> RoutedMessage<'a> {
    pub(crate) fn new(envelope: Envelope, raw: impl Into<Cow<'a, [u8]>>) -> Self {
        let local = Vec::new();
        let queued = Vec::new();
        Self {
            envelope,
            raw: raw.into(),
            delivered_bytes: None,
            local,
            queued,
            if_full: FullMailboxPolicy::Queue,
            reports_on: None,
            reported_to: None,
            release_at: None,
            record: None,
        }
    }

    /// Lets all recipients wait in the queue until a time.
    fn hold_until(&mut self, release_at: Timestamp) {
        for (mailbox, recipient) in self.local.drain(..) {
            self.queued.push(QueuedRecipient::new(recipient, Some(mailbox.mail_file), release_at));
        }
        for queued in &mut self.queued {
            queued.next_attempt = queued.next_attempt.max(release_at);
        }
        self.release_at = Some(release_at);
    }
}

/// A change of a queued message that belongs to a transaction of [`Router::commit_routed`].
pub(crate) struct QueueUpdate {
    pub(crate) key: QueueKey,
    /// The new state of the entry. An entry without recipients is done and is removed.
    pub(crate) entry: QueueEntry,
}

impl Router {
    /// Opens the queue and creates its missing databases.
    pub fn open(
        mail: Arc<MailStore>,
        addressing: Arc<dyn AddressResolver>,
        options: RouterOptions,
    ) -> Result<Arc<Self>> {
        let count = options.mailboxes.clamp(1, 16);
        let boxes: Vec<QueueDatabase> =
            (1..=count).map(|number| open_queue_database(&mail, number)).collect::<Result<_>>()?;
        let queue = Queue::load(&boxes, &options, mail.databases().clock().now())?;
        let report_limits = ReportLimits::new(options.report_rates);
        Ok(Arc::new(Self { mail, addressing, options, boxes, queue, next_box: AtomicUsize::new(0), report_limits }))
    }

    /// Returns the number of reports that were not sent because their sender had received too many.
    #[must_use]
    pub fn suppressed_reports(&self) -> u64 {
        self.report_limits.suppressed()
    }

    /// Returns `true` if the queue accepts more messages.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.queue.counts().messages < self.options.queue_messages_max
    }

    /// Accepts a message whose recipients are not resolved yet. The message is safe when the ticket is durable.
    pub fn accept(&self, envelope: &Envelope, raw: &[u8]) -> Result<AcceptOutcome> {
        let targets = &self.targets_of_all(&envelope.recipients)?;
        self.accept_resolved(ArrivingMessage { envelope, targets, raw, release_at: None, record: None })
    }

    /// Accepts a message with the targets of its recipients. The message is safe when the ticket is durable.
    pub fn accept_resolved(&self, arriving: ArrivingMessage<'_>) -> Result<AcceptOutcome> {
        let ArrivingMessage { envelope, targets, raw, release_at, record } = arriving;
        assert_eq!(targets.len(), envelope.recipients.len(), "every recipient has its targets");
        let now = self.mail.databases().clock().now();
        let header = Envelope {
            id: envelope.id.clone(),
            reverse_path: envelope.reverse_path.clone(),
            recipients: Vec::new(),
            envelope_id: envelope.envelope_id.clone(),
            ..*envelope
        };
        let mut routed_message = RoutedMessage::new(header, raw);
        let unreached = route(&envelope.recipients, targets, &mut routed_message, now);
        let mut routed_messages = Vec::with_capacity(1);
        let dead = self.push_report(&mut routed_messages, Action::Failed, &routed_message, unreached.failed, now)?;
        self.push_report(&mut routed_messages, Action::Expanded, &routed_message, unreached.expanded, now)?;
        routed_message.queued.extend(dead);
        routed_message.record = record;
        if let Some(release_at) = release_at {
            routed_message.hold_until(release_at);
        }
        let is_confirmed = !success_report_recipients(&routed_message).is_empty()
            && self.may_report(&routed_message.envelope, Action::Delivered);
        let confirmation = if is_confirmed {
            Some(self.report_to_sender(Action::Delivered, &routed_message, routed_messages.len(), now)?)
        } else {
            None
        };
        let place = routed_messages.len();
        routed_messages.push(routed_message);
        routed_messages.extend(confirmation.map(|report| RoutedMessage { reports_on: Some(place), ..report }));
        let ticket = self.commit_routed(&mut routed_messages, Vec::new(), now)?;
        Ok(AcceptOutcome {
            ticket,
            delivered: routed_messages[place].local.len(),
            queued: routed_messages[place].queued.len(),
        })
    }

    /// Returns all targets that an address resolves to.
    pub(crate) fn targets(&self, address: &str) -> Result<Vec<DeliveryTarget>> {
        self.addressing.targets(address)
    }

    fn targets_of_all(&self, recipients: &[Recipient]) -> Result<Vec<Arc<[DeliveryTarget]>>> {
        recipients.iter().map(|recipient| Ok(self.targets(&recipient.address)?.into())).collect()
    }

    /// Returns `true` if an event may be reported to the sender of a message. It may not if there is no sender, or if
    /// the sender has received too many reports.
    fn may_report(&self, about: &Envelope, action: Action) -> bool {
        let now = self.mail.databases().clock().monotonic();
        !about.reverse_path.is_empty() && self.report_limits.permits(&about.reverse_path, action, now)
    }

    /// Counts the reports among written messages. A report without a text was not written.
    fn record_reports(&self, routed_messages: &[RoutedMessage<'_>]) {
        let now = self.mail.databases().clock().monotonic();
        for routed_message in routed_messages.iter().filter(|routed_message| !routed_message.raw.is_empty()) {
            if let Some((sender, action)) = &routed_message.reported_to {
                self.report_limits.record(sender, *action, now);
            }
        }
    }

    /// Adds the report that a sender requested to the messages. Failures that cannot be reported are returned as dead.
    pub(crate) fn push_report(
        &self,
        routed_messages: &mut Vec<RoutedMessage<'_>>,
        action: Action,
        about: &RoutedMessage<'_>,
        recipients: Vec<QueuedRecipient>,
        now: Timestamp,
    ) -> Result<Vec<QueuedRecipient>> {
        let wanted: Vec<QueuedRecipient> =
            recipients.into_iter().filter(|queued| wants_report(queued, action)).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if !self.may_report(&about.envelope, action) {
            let dead = |queued| QueuedRecipient { state: RecipientState::Dead, ..queued };
            return Ok(if action == Action::Failed { wanted.into_iter().map(dead).collect() } else { Vec::new() });
        }
        let mut routed_message = self.report_to_sender(action, about, routed_messages.len(), now)?;
        routed_message.raw = self.render(action, about, &wanted, now).into();
        routed_messages.push(routed_message);
        Ok(Vec::new())
    }

    /// Creates the message of a report to the sender of a message, without its text.
    fn report_to_sender(
        &self,
        action: Action,
        about: &RoutedMessage<'_>,
        number: usize,
        now: Timestamp,
    ) -> Result<RoutedMessage<'static>> {
        let envelope = Envelope {
            id: format!("{}.{number}", about.envelope.id),
            smtputf8: dsn::is_international(&about.envelope),
            ..Envelope::default()
        };
        let mut routed_message = RoutedMessage::new(envelope, Vec::new());
        routed_message.reported_to = Some((about.envelope.reverse_path.clone(), action));
        let sender = Recipient::new(&about.envelope.reverse_path);
        let recipients = [sender];
        let unreached = route(&recipients, &self.targets_of_all(&recipients)?, &mut routed_message, now);
        let dead = unreached.failed.into_iter().map(|queued| QueuedRecipient { state: RecipientState::Dead, ..queued });
        routed_message.queued.extend(dead);
        Ok(routed_message)
    }

    fn render(
        &self,
        action: Action,
        about: &RoutedMessage<'_>,
        recipients: &[QueuedRecipient],
        now: Timestamp,
    ) -> Vec<u8> {
        let envelope = &about.envelope;
        let server = self.options.server.as_str();
        DsnReport { action, envelope, recipients, message: &about.raw, arrived: now, server, now }.render()
    }

    /// Delivers messages, queues them, and changes queued messages, all in one transaction. Afterwards the messages
    /// contain their outcome.
    pub(crate) fn commit_routed(
        &self,
        routed_messages: &mut [RoutedMessage<'_>],
        updates: Vec<QueueUpdate>,
        now: Timestamp,
    ) -> Result<Ticket> {
        let mut files: Vec<MailFile> = Vec::new();
        let places = self.open_files(routed_messages, &mut files, now)?;
        let records = self.open_records(routed_messages, &mut files)?;
        let own_box = updates.first().map(|update| usize::from(update.key.mailbox) - 1);
        let box_index = own_box.unwrap_or_else(|| self.next_box.fetch_add(1, Ordering::Relaxed) % self.boxes.len());
        let needs_box = own_box.is_some()
            || routed_messages.iter().any(|routed_message| !routed_message.queued.is_empty())
            || files.iter().any(|file| file.database().record().options.quota_bytes.is_some());
        let mut accesses: Vec<&Access<level::Depositor>> = files.iter().map(MailFile::depositor).collect();
        let box_place = accesses.len();
        if needs_box {
            accesses.push(&self.boxes[box_index].depositor);
        }
        let mut transaction = self.mail.databases().transaction(&accesses)?;
        let mut entries = Vec::new();
        for (index, places) in places.iter().enumerate() {
            let (before, rest) = routed_messages.split_at_mut(index);
            let routed_message = &mut rest[0];
            if let Some(about) = routed_message.reports_on.map(|about| &before[about]) {
                let confirmed = success_report_recipients(about);
                if confirmed.is_empty() {
                    continue;
                }
                routed_message.raw = self.render(Action::Delivered, about, &confirmed, now).into();
            }
            self.deliver(&mut transaction, routed_message, places, &files, now)?;
            if !routed_message.queued.is_empty() {
                let mailbox = u16::try_from(box_index + 1).unwrap_or(1);
                entries.push(self.enqueue(&mut transaction, routed_message, (box_place, mailbox), now)?);
            }
        }
        for (place, change) in records {
            write_record(&mut transaction, place, change)?;
        }
        for update in &updates {
            write_update(&mut transaction, box_place, update)?;
        }
        let ticket = transaction.commit()?;
        self.record_reports(routed_messages);
        let is_any_done = updates.iter().any(|update| update.entry.recipients.is_empty());
        for update in updates {
            self.queue.replace_entry(update.key, update.entry, ticket);
        }
        entries.into_iter().for_each(|(key, entry)| self.queue.replace_entry(key, entry, ticket));
        if is_any_done {
            // The message is done even if this fails. The next message that is done repeats it.
            let _ = self.boxes[box_index].purge_if_due();
        }
        Ok(ticket)
    }

    /// Opens the mail files that messages go to. Recipients whose mail file cannot be opened are queued.
    fn open_files(
        &self,
        routed_messages: &mut [RoutedMessage<'_>],
        files: &mut Vec<MailFile>,
        now: Timestamp,
    ) -> Result<Vec<Vec<usize>>> {
        let mut paths: Vec<String> = Vec::new();
        let mut places = Vec::with_capacity(routed_messages.len());
        for routed_message in routed_messages {
            let mut of_message = Vec::with_capacity(routed_message.local.len());
            for (mailbox, recipient) in std::mem::take(&mut routed_message.local) {
                let path = mailbox.mail_file.to_lowercase();
                let known = paths.iter().position(|known| *known == path);
                let place = known.map_or_else(|| self.open_file(&mailbox), |_| Ok(None));
                match place {
                    Ok(opened) => {
                        files.extend(opened);
                        if known.is_none() {
                            paths.push(path);
                        }
                        of_message.push(known.unwrap_or(paths.len() - 1));
                        routed_message.local.push((mailbox, recipient));
                    }
                    Err(error) if routed_message.if_full == FullMailboxPolicy::Fail => return Err(error),
                    Err(error) => {
                        let mut queued = QueuedRecipient::new(recipient, Some(mailbox.mail_file), now);
                        match error {
                            crate::Error::Notes(notes::Error::NotFound { .. }) => {
                                if let Some(server) = mailbox.other_server {
                                    self.reroute(&mut queued, server, &routed_message.raw, now);
                                }
                            }
                            _ => CANNOT_OPEN.clone_into(&mut queued.last_reply),
                        }
                        routed_message.queued.push(queued);
                    }
                }
            }
            places.push(of_message);
        }
        Ok(places)
    }

    /// Opens the mail files of the documents about messages. Returns their places among the files.
    fn open_records(
        &self,
        routed_messages: &mut [RoutedMessage<'_>],
        files: &mut Vec<MailFile>,
    ) -> Result<Vec<(usize, RecordChange)>> {
        let mut records = Vec::new();
        for SubmissionRecord { mail_file, change } in routed_messages.iter_mut().filter_map(|of| of.record.take()) {
            let known = files.iter().position(|file| file.database().path().eq_ignore_ascii_case(&mail_file));
            if known.is_none() {
                files.push(self.mail.open_as_server(&mail_file)?);
            }
            records.push((known.unwrap_or(files.len() - 1), change));
        }
        Ok(records)
    }

    fn open_file(&self, mailbox: &LocalMailbox) -> Result<Option<MailFile>> {
        match self.mail.open_as_server(&mailbox.mail_file) {
            Err(crate::Error::Notes(notes::Error::NotFound { .. })) if mailbox.other_server.is_none() => {
                self.mail.create_if_missing(&mailbox.mail_file, &mailbox.title, &mailbox.owner, mailbox.quota_bytes)?;
                self.mail.open_as_server(&mailbox.mail_file).map(Some)
            }
            other => other.map(Some),
        }
    }

    /// Puts one message into its mailboxes. Recipients with a full mailbox are queued.
    fn deliver(
        &self,
        transaction: &mut Transaction<'_>,
        routed_message: &mut RoutedMessage<'_>,
        places: &[usize],
        files: &[MailFile],
        now: Timestamp,
    ) -> Result<()> {
        if routed_message.local.is_empty() {
            return Ok(());
        }
        let form = routed_message
            .delivered_bytes
            .take()
            .unwrap_or_else(|| with_return_path(&routed_message.envelope, &routed_message.raw));
        let prepared = self.prepare(&form)?;
        for ((mailbox, recipient), place) in std::mem::take(&mut routed_message.local).into_iter().zip(places) {
            let mut writer = transaction.writer(*place);
            let limit = files[*place].database().record().options.quota_bytes;
            if let Err(error) = check_quota(&writer, limit, prepared.length()) {
                if routed_message.if_full == FullMailboxPolicy::Fail {
                    return Err(error);
                }
                let mut queued = QueuedRecipient::new(recipient, Some(mailbox.mail_file), now);
                queued.last_reply = MAILBOX_FULL.to_owned();
                queued.next_attempt = self.options.schedule.next_attempt_at(1, now);
                queued.attempts = 1;
                routed_message.queued.push(queued);
                continue;
            }
            let inbox = self.mail.inbox_of(&writer)?;
            let mut note = prepared.note(&mut writer)?;
            note.folders = vec![inbox];
            writer.note_create(note)?;
            routed_message.local.push((mailbox, recipient));
        }
        Ok(())
    }

    fn prepare(&self, raw: &[u8]) -> Result<PreparedMessage> {
        PreparedMessage::in_transaction(self.mail.databases(), raw, self.mail.options().separation)
    }

    fn enqueue(
        &self,
        transaction: &mut Transaction<'_>,
        routed_message: &RoutedMessage<'_>,
        (place, mailbox): (usize, u16),
        now: Timestamp,
    ) -> Result<(QueueKey, QueueEntry)> {
        let mut writer = transaction.writer(place);
        let prepared = self.prepare(&routed_message.raw)?;
        let note = prepared.note(&mut writer)?;
        let entry = QueueEntry {
            envelope: routed_message.envelope.clone(),
            arrived: now,
            message: writer.note_create(note)?,
            size: routed_message.raw.len() as u64,
            recipients: routed_message.queued.clone(),
            release_at: routed_message.release_at,
        };
        let note = writer.note_create(NewNote::document(state_items(&entry)))?;
        Ok((QueueKey { mailbox, note }, entry))
    }
}

/// Sorts recipients into local mailboxes and remote addresses, each once.
///
/// Addresses with a single target are handled before groups. So the sender's parameters for a direct recipient take
/// precedence if a group contains the same target.
fn route(
    recipients: &[Recipient],
    targets: &[Arc<[DeliveryTarget]>],
    routed_message: &mut RoutedMessage<'_>,
    now: Timestamp,
) -> UnroutedRecipients {
    let mut routing = Routing { routed_message, unreached: UnroutedRecipients::default(), seen: HashSet::new() };
    let resolved = || recipients.iter().zip(targets);
    for (recipient, targets) in resolved().filter(|(_, targets)| targets.len() <= 1) {
        routing.add(recipient, targets, now);
    }
    for (recipient, targets) in resolved().filter(|(_, targets)| targets.len() > 1) {
        let mut recipient = recipient.clone();
        // The fate of the individual members is not reported to the sender. That the group was served is reported
        // at once (RFC 3461 §5.2.7.3).
        if let Some(notify) = recipient.notify.filter(|notify| notify.success) {
            routing.unreached.expanded.push(QueuedRecipient::new(recipient.clone(), None, now));
            recipient.notify = Some(Notify { success: false, ..notify });
        }
        routing.add(&recipient, targets, now);
    }
    let Routing { routed_message, unreached, .. } = routing;
    if routed_message.local.len() > LOCAL_DELIVERIES_PER_TRANSACTION_MAX {
        let later = routed_message.local.split_off(LOCAL_DELIVERIES_PER_TRANSACTION_MAX);
        routed_message.queued.extend(
            later.into_iter().map(|(mailbox, recipient)| QueuedRecipient::new(recipient, Some(mailbox.mail_file), now)),
        );
    }
    unreached
}

/// Recipients that are not themselves targets of the message.
#[derive(Default)]
struct UnroutedRecipients {
    /// Recipients without a valid target.
    failed: Vec<QueuedRecipient>,
    /// Groups that were expanded and whose delivery the sender wants reported.
    expanded: Vec<QueuedRecipient>,
}

/// A message whose recipients are being resolved.
struct Routing<'p, 'm> {
    routed_message: &'p mut RoutedMessage<'m>,
    unreached: UnroutedRecipients,
    /// Mail files and addresses that have the message already, in lower case.
    seen: HashSet<String>,
}

impl Routing<'_, '_> {
    /// Adds the targets of a recipient to the message, unless they are already there.
    fn add(&mut self, recipient: &Recipient, targets: &[DeliveryTarget], now: Timestamp) {
        for target in targets {
            match target {
                DeliveryTarget::Local(mailbox) if self.seen.insert(mailbox.mail_file.to_lowercase()) => {
                    self.routed_message.local.push((mailbox.clone(), recipient.clone()));
                }
                DeliveryTarget::Remote(address) if self.seen.insert(address.to_lowercase()) => {
                    let recipient = Recipient { address: address.clone(), ..recipient.clone() };
                    self.routed_message.queued.push(QueuedRecipient::new(recipient, None, now));
                }
                DeliveryTarget::Undeliverable(reply) => {
                    let queued = QueuedRecipient::new(recipient.clone(), None, now);
                    self.unreached.failed.push(QueuedRecipient { last_reply: reply.clone(), ..queued });
                }
                DeliveryTarget::Local(_) | DeliveryTarget::Remote(_) => {}
            }
        }
    }
}

/// Returns a message in the form that mailboxes hold: with the reverse path in the first field, and without other
/// fields of that name (RFC 5321 §4.4).
pub(crate) fn with_return_path(envelope: &Envelope, raw: &[u8]) -> Vec<u8> {
    let mut form = format!("Return-Path: <{}>\r\n", envelope.reverse_path).into_bytes();
    form.reserve(raw.len());
    let others = top_fields(raw).filter(|(_, field)| field.is("Return-Path")).map(|(range, _)| range);
    append_without(&mut form, raw, others);
    form
}

fn wants_report(queued: &QueuedRecipient, action: Action) -> bool {
    let notify = queued.recipient.notify.unwrap_or_default();
    match action {
        Action::Delivered | Action::Relayed | Action::Expanded => notify.success,
        Action::Delayed => notify.delay,
        Action::Failed => notify.failure,
    }
}

/// Returns the local recipients whose successful delivery the sender wants reported.
fn success_report_recipients(routed_message: &RoutedMessage<'_>) -> Vec<QueuedRecipient> {
    let now = Timestamp::default();
    let all = routed_message.local.iter();
    let wanting = all.filter(|(_, recipient)| recipient.notify.is_some_and(|notify| notify.success));
    wanting
        .map(|(mailbox, recipient)| QueuedRecipient::new(recipient.clone(), Some(mailbox.mail_file.clone()), now))
        .collect()
}

fn write_update(transaction: &mut Transaction<'_>, place: usize, update: &QueueUpdate) -> Result<()> {
    let mut writer = transaction.writer(place);
    if update.entry.recipients.is_empty() {
        writer.note_delete_permanently(update.entry.message)?;
        writer.note_delete_permanently(update.key.note)?;
        return Ok(());
    }
    let Some(note) = writer.note(update.key.note)? else { return Ok(()) };
    writer.note_update(update.key.note, note.header.revision(), &state_items(&update.entry), &[])?;
    Ok(())
}

fn state_items(entry: &QueueEntry) -> Vec<Item> {
    vec![Item::text("Form", "Queue"), Item::summary(QUEUE_ITEM, ItemValue::MimePart(entry.encode()))]
}

fn open_queue_database(mail: &MailStore, number: u16) -> Result<QueueDatabase> {
    let path = if number == 1 { "mail.box".to_owned() } else { format!("mail{number}.box") };
    let acl = Acl::open_to_all(AclLevel::Depositor);
    let new = NewDatabase::new(&path, "Router's queue", DatabaseKind::MailBox, acl);
    let database = match mail.databases().database_create(&new) {
        Err(notes::Error::Exists { .. }) => mail.databases().database_open(&path)?,
        other => other?,
    };
    check_is_queue(&database, number)?;
    let itself = Arc::new(Identity::local_server(""));
    let depositor = database.authorize(&itself)?;
    let reader = database.authorize(&itself)?;
    Ok(QueueDatabase { depositor, reader, stubs_left: AtomicU64::new(0) })
}

/// Checks that the database at the path of a queue is one. Another one is from a time when the path was not reserved,
/// or `router.mailboxes` did not reach it yet.
fn check_is_queue(database: &Database, number: u16) -> Result<()> {
    let record = database.record();
    if record.kind == DatabaseKind::MailBox {
        return Ok(());
    }
    let path = &record.path;
    let remedy = match number {
        1 => "restore a backup in which it is the queue".to_owned(),
        // The command opens the queues, but not this one.
        _ => format!("rename it: `doublet db rename {path} NEW-PATH --set router.mailboxes={}`", number - 1),
    };
    let reason = format!("it is a {} database, but its path belongs to the mail queue; {remedy}", record.kind.name());
    Err(notes::Error::invalid(format!("database {path}"), reason).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delivered_message_has_one_return_path() {
        let envelope = Envelope { reverse_path: "a@b.test".into(), ..Envelope::default() };
        let check = |raw: &str, expected: &str| {
            let form = with_return_path(&envelope, raw.as_bytes());
            assert_eq!(String::from_utf8_lossy(&form), format!("Return-Path: <a@b.test>\r\n{expected}"), "{raw:?}");
        };
        check("Subject: x\r\n\r\nReturn-Path: <kept@b.test>\r\n", "Subject: x\r\n\r\nReturn-Path: <kept@b.test>\r\n");
        check("Return-Path: <c@d.test>\r\nSubject: x\r\n\r\ny", "Subject: x\r\n\r\ny");
        check("A: 1\r\nRETURN-PATH:\r\n <c@d.test>\r\n\tmore\r\nB: 2\r\n 3\r\n\r\n", "A: 1\r\nB: 2\r\n 3\r\n\r\n");
        check("A: 1\nreturn-path: x\nreturn-path: y\n\nz", "A: 1\n\nz");
        check("A: 1\r\nReturn-Path : x\r\nstray\r\nReturn-Path: y\r\n\r\n", "A: 1\r\nstray\r\n\r\n");
        check("Return-Path: x", "");
        check("Return-Path-Not: x\r\n", "Return-Path-Not: x\r\n");
        check("", "");
    }
}
