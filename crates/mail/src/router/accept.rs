//! Taking a message, and whatever else puts messages into mailboxes and the queue.
//!
//! All of it goes through [`Router::post`]: one transaction over the mail files concerned and a `mail.box`, so that delivery,
//! queueing, the end of a queue entry and the report about it happen together or not at all.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::{Name, Timestamp};
use notes::{Access, Acl, AclLevel, DatabaseKind, Identity, Item, NewDatabase, NewNote, Transaction, Value, level};
use store::Ticket;

use crate::error::Result;
use crate::limits::LOCAL_DELIVERIES_PER_TRANSACTION_MAX;
use crate::mailbox::file::check_quota;
use crate::mailbox::{Mail, MailFile};
use crate::message::Prepared;
use crate::router::entry::{QueueEntry, QueueKey, QueuedRecipient, RecipientState};
use crate::router::envelope::{Envelope, Recipient};
use crate::router::queue::Queue;
use crate::router::report::{Action, Report};
use crate::router::schedule::Schedule;

/// The item of a state note that holds it.
pub(crate) const QUEUE_ITEM: &str = "$Queue";

/// A mailbox that a recipient stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalMailbox {
    /// The path of the mail file.
    pub mail_file: String,
    /// What a mail file that is made now is called.
    pub title: String,
    /// Whose mail file it is.
    pub owner: Name,
    /// How full a mail file that is made now may get.
    pub quota_bytes: Option<u64>,
}

/// What a recipient's address stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A mailbox here.
    Local(LocalMailbox),
    /// An address elsewhere.
    Remote(String),
    /// Nothing: the reply that a report shall give.
    Undeliverable(String),
}

/// Knows what addresses stand for: persons, groups (expanded), forwarding, catch-all.
pub trait Addressing: Send + Sync {
    /// Gives everything that an address stands for.
    fn targets(&self, address: &str) -> Result<Vec<Target>>;
}

/// What an operator may set for the router.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouterOptions {
    /// The name under which reports are sent.
    pub server: String,
    /// How many `mail.box` databases share the queue.
    pub mailboxes: u16,
    /// The times of the queue.
    pub schedule: Schedule,
    /// Most messages that the queue takes.
    pub queue_messages_max: usize,
    /// Most transfers to one domain at a time.
    pub transfers_per_domain_max: usize,
}

impl Default for RouterOptions {
    fn default() -> Self {
        Self {
            server: "localhost".into(),
            mailboxes: 2,
            schedule: Schedule::default(),
            queue_messages_max: 100_000,
            transfers_per_domain_max: 5,
        }
    }
}

/// What became of a message at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// What makes it durable.
    pub ticket: Ticket,
    /// Mailboxes that have it.
    pub delivered: usize,
    /// Recipients for whom it waits in the queue.
    pub queued: usize,
}

/// One `mail.box`.
pub(crate) struct MailBox {
    pub(crate) depositor: Access<level::Depositor>,
    pub(crate) reader: Access<level::Reader>,
}

/// Takes messages and knows where they go.
pub struct Router {
    pub(crate) mail: Arc<Mail>,
    addressing: Arc<dyn Addressing>,
    pub(crate) options: RouterOptions,
    pub(crate) boxes: Vec<MailBox>,
    pub(crate) queue: Queue,
    next_box: AtomicUsize,
}

/// A message with the places it goes to.
#[derive(Default)]
pub(crate) struct Posting {
    pub(crate) envelope: Envelope,
    pub(crate) raw: Vec<u8>,
    pub(crate) local: Vec<(LocalMailbox, Recipient)>,
    pub(crate) queued: Vec<QueuedRecipient>,
}

/// What a posting does to a queued message.
pub(crate) struct Update {
    pub(crate) key: QueueKey,
    /// Its new state. One without recipients is done.
    pub(crate) entry: QueueEntry,
}

impl Router {
    /// Opens the queue, and makes its databases where they are missing.
    pub fn open(mail: Arc<Mail>, addressing: Arc<dyn Addressing>, options: RouterOptions) -> Result<Arc<Self>> {
        let count = options.mailboxes.clamp(1, 16);
        let boxes: Vec<MailBox> = (1..=count).map(|number| open_box(&mail, number)).collect::<Result<_>>()?;
        let queue = Queue::load(&boxes, options.transfers_per_domain_max)?;
        Ok(Arc::new(Self { mail, addressing, options, boxes, queue, next_box: AtomicUsize::new(0) }))
    }

    /// Tells whether the queue takes more messages.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.queue.counts().messages < self.options.queue_messages_max
    }

    /// Takes a message. When the ticket is durable, the message is safe.
    pub fn accept(&self, envelope: &Envelope, raw: &[u8]) -> Result<Accepted> {
        let now = self.mail.notes().clock().now();
        let mut posting = Posting { envelope: envelope.clone(), raw: raw.to_vec(), ..Posting::default() };
        posting.envelope.recipients.clear();
        let mut failed = Vec::new();
        self.route(&envelope.recipients, &mut posting, &mut failed, now)?;
        let confirmed = wanting_success(&posting);
        let delivered = posting.local.len();
        let mut postings = Vec::with_capacity(2);
        let unreported = self.push_report(&mut postings, Action::Failed, &posting, failed, now)?;
        self.push_report(&mut postings, Action::Delivered, &posting, confirmed, now)?;
        posting.queued.extend(unreported);
        let queued = posting.queued.len();
        postings.push(posting);
        let ticket = self.post(postings, Vec::new(), now)?;
        Ok(Accepted { ticket, delivered, queued })
    }

    /// Gives everything that an address stands for.
    pub(crate) fn targets(&self, address: &str) -> Result<Vec<Target>> {
        self.addressing.targets(address)
    }

    /// Sorts recipients into mailboxes here and addresses elsewhere, each once.
    fn route(
        &self,
        recipients: &[Recipient],
        posting: &mut Posting,
        failed: &mut Vec<QueuedRecipient>,
        now: Timestamp,
    ) -> Result<()> {
        let mut seen: HashSet<String> = HashSet::new();
        for recipient in recipients {
            for target in self.addressing.targets(&recipient.address)? {
                match target {
                    Target::Local(mailbox) if seen.insert(mailbox.mail_file.to_lowercase()) => {
                        posting.local.push((mailbox, recipient.clone()));
                    }
                    Target::Remote(address) if seen.insert(address.to_lowercase()) => {
                        let recipient = Recipient { address, ..recipient.clone() };
                        posting.queued.push(QueuedRecipient::new(recipient, None, now));
                    }
                    Target::Undeliverable(reply) => {
                        let queued = QueuedRecipient::new(recipient.clone(), None, now);
                        failed.push(QueuedRecipient { last_reply: reply, ..queued });
                    }
                    Target::Local(_) | Target::Remote(_) => {}
                }
            }
        }
        if posting.local.len() > LOCAL_DELIVERIES_PER_TRANSACTION_MAX {
            let later = posting.local.split_off(LOCAL_DELIVERIES_PER_TRANSACTION_MAX);
            posting.queued.extend(
                later
                    .into_iter()
                    .map(|(mailbox, recipient)| QueuedRecipient::new(recipient, Some(mailbox.mail_file), now)),
            );
        }
        Ok(())
    }

    /// Adds the report that a sender wants to the postings. Gives those failures back, as dead, that cannot be reported
    /// because there is no sender.
    pub(crate) fn push_report(
        &self,
        postings: &mut Vec<Posting>,
        action: Action,
        about: &Posting,
        recipients: Vec<QueuedRecipient>,
        now: Timestamp,
    ) -> Result<Vec<QueuedRecipient>> {
        let wanted: Vec<QueuedRecipient> = recipients.into_iter().filter(|queued| wants(queued, action)).collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        if about.envelope.reverse_path.is_empty() {
            let dead = |queued| QueuedRecipient { state: RecipientState::Dead, ..queued };
            return Ok(if action == Action::Failed { wanted.into_iter().map(dead).collect() } else { Vec::new() });
        }
        let report = Report {
            action,
            envelope: &about.envelope,
            recipients: &wanted,
            message: &about.raw,
            arrived: now,
            server: &self.options.server,
            now,
        };
        let envelope = Envelope { id: format!("{}.{}", about.envelope.id, postings.len()), ..Envelope::default() };
        let mut posting = Posting { envelope, raw: report.render(), ..Posting::default() };
        let sender = Recipient::new(&about.envelope.reverse_path);
        let mut failed = Vec::new();
        self.route(&[sender], &mut posting, &mut failed, now)?;
        posting
            .queued
            .extend(failed.into_iter().map(|queued| QueuedRecipient { state: RecipientState::Dead, ..queued }));
        postings.push(posting);
        Ok(Vec::new())
    }

    /// Puts messages where they go and changes queued ones, all as one transaction.
    pub(crate) fn post(&self, mut postings: Vec<Posting>, updates: Vec<Update>, now: Timestamp) -> Result<Ticket> {
        let mut files: Vec<MailFile> = Vec::new();
        let places = self.open_files(&mut postings, &mut files, now);
        let own_box = updates.first().map(|update| usize::from(update.key.mailbox) - 1);
        let box_index = own_box.unwrap_or_else(|| self.next_box.fetch_add(1, Ordering::Relaxed) % self.boxes.len());
        let needs_box = own_box.is_some()
            || postings.iter().any(|posting| !posting.queued.is_empty())
            || files.iter().any(|file| file.database().record().options.quota_bytes.is_some());
        let mut accesses: Vec<&Access<level::Depositor>> = files.iter().map(MailFile::depositor).collect();
        let box_place = accesses.len();
        if needs_box {
            accesses.push(&self.boxes[box_index].depositor);
        }
        let mut transaction = self.mail.notes().transaction(&accesses)?;
        let mut entries = Vec::new();
        for (posting, places) in postings.iter_mut().zip(&places) {
            self.deliver(&mut transaction, posting, places, &files, now)?;
            if !posting.queued.is_empty() {
                let mailbox = u16::try_from(box_index + 1).unwrap_or(1);
                entries.push(self.enqueue(&mut transaction, posting, (box_place, mailbox), now)?);
            }
        }
        for update in &updates {
            write_update(&mut transaction, box_place, update)?;
        }
        let ticket = transaction.commit()?;
        for update in updates {
            self.queue.set(update.key, update.entry);
        }
        entries.into_iter().for_each(|(key, entry)| self.queue.set(key, entry));
        Ok(ticket)
    }

    /// Opens the mail files that messages go to. Who cannot be opened waits in the queue.
    fn open_files(&self, postings: &mut [Posting], files: &mut Vec<MailFile>, now: Timestamp) -> Vec<Vec<usize>> {
        let mut paths: Vec<String> = Vec::new();
        let mut places = Vec::with_capacity(postings.len());
        for posting in postings {
            let mut of_posting = Vec::with_capacity(posting.local.len());
            for (mailbox, recipient) in std::mem::take(&mut posting.local) {
                let path = mailbox.mail_file.to_lowercase();
                let known = paths.iter().position(|known| *known == path);
                let place = known.map_or_else(|| self.open_file(&mailbox), |_| Ok(None));
                match place {
                    Ok(opened) => {
                        files.extend(opened);
                        if known.is_none() {
                            paths.push(path);
                        }
                        of_posting.push(known.unwrap_or(paths.len() - 1));
                        posting.local.push((mailbox, recipient));
                    }
                    Err(error) => {
                        let mut queued = QueuedRecipient::new(recipient, Some(mailbox.mail_file), now);
                        queued.last_reply = format!("451 4.3.0 {error}");
                        posting.queued.push(queued);
                    }
                }
            }
            places.push(of_posting);
        }
        places
    }

    fn open_file(&self, mailbox: &LocalMailbox) -> Result<Option<MailFile>> {
        match self.mail.open_as_server(&mailbox.mail_file) {
            Err(crate::Error::Notes(notes::Error::NotFound { .. })) => {
                self.mail.ensure(&mailbox.mail_file, &mailbox.title, &mailbox.owner, mailbox.quota_bytes)?;
                self.mail.open_as_server(&mailbox.mail_file).map(Some)
            }
            other => other.map(Some),
        }
    }

    /// Puts one message into its mailboxes. Full ones wait in the queue.
    fn deliver(
        &self,
        transaction: &mut Transaction<'_>,
        posting: &mut Posting,
        places: &[usize],
        files: &[MailFile],
        now: Timestamp,
    ) -> Result<()> {
        if posting.local.is_empty() {
            return Ok(());
        }
        let mut raw = format!("Return-Path: <{}>\r\n", posting.envelope.reverse_path).into_bytes();
        raw.extend_from_slice(&posting.raw);
        let mut prepared = Prepared::new(&raw, self.mail.options().separate_bytes_min);
        for ((mailbox, recipient), place) in std::mem::take(&mut posting.local).into_iter().zip(places) {
            let mut writer = transaction.on(*place);
            let limit = files[*place].database().record().options.quota_bytes;
            if let Err(error) = check_quota(&writer, limit, prepared.length()) {
                let mut queued = QueuedRecipient::new(recipient, Some(mailbox.mail_file), now);
                queued.last_reply = format!("452 4.2.2 {error}");
                queued.next_attempt = self.options.schedule.next(1, now);
                queued.attempts = 1;
                posting.queued.push(queued);
                continue;
            }
            let inbox = self.mail.inbox_of(&writer)?;
            let mut note = prepared.note(&mut writer)?;
            note.folders = vec![inbox];
            writer.note_create(note)?;
        }
        Ok(())
    }

    fn enqueue(
        &self,
        transaction: &mut Transaction<'_>,
        posting: &Posting,
        (place, mailbox): (usize, u16),
        now: Timestamp,
    ) -> Result<(QueueKey, QueueEntry)> {
        let mut writer = transaction.on(place);
        let mut prepared = Prepared::new(&posting.raw, self.mail.options().separate_bytes_min);
        let note = prepared.note(&mut writer)?;
        let entry = QueueEntry {
            envelope: posting.envelope.clone(),
            arrived: now,
            message: writer.note_create(note)?,
            size: posting.raw.len() as u64,
            recipients: posting.queued.clone(),
        };
        let note = writer.note_create(NewNote::document(state_items(&entry)))?;
        Ok((QueueKey { mailbox, note }, entry))
    }
}

fn wants(queued: &QueuedRecipient, action: Action) -> bool {
    let notify = queued.recipient.notify.unwrap_or_default();
    match action {
        Action::Delivered | Action::Relayed => notify.success,
        Action::Delayed => notify.delay,
        Action::Failed => notify.failure,
    }
}

fn wanting_success(posting: &Posting) -> Vec<QueuedRecipient> {
    let now = Timestamp::default();
    let all = posting.local.iter();
    let wanting = all.filter(|(_, recipient)| recipient.notify.is_some_and(|notify| notify.success));
    wanting
        .map(|(mailbox, recipient)| QueuedRecipient::new(recipient.clone(), Some(mailbox.mail_file.clone()), now))
        .collect()
}

fn write_update(transaction: &mut Transaction<'_>, place: usize, update: &Update) -> Result<()> {
    let mut writer = transaction.on(place);
    if update.entry.recipients.is_empty() {
        writer.note_delete(update.entry.message)?;
        writer.note_delete(update.key.note)?;
        return Ok(());
    }
    let Some(note) = writer.note(update.key.note)? else { return Ok(()) };
    writer.note_update(update.key.note, note.header.sequence, &state_items(&update.entry), &[])?;
    Ok(())
}

fn state_items(entry: &QueueEntry) -> Vec<Item> {
    vec![Item::text("Form", "Queue"), Item::summary(QUEUE_ITEM, Value::MimePart(entry.encode()))]
}

fn open_box(mail: &Mail, number: u16) -> Result<MailBox> {
    let path = if number == 1 { "mail.box".to_owned() } else { format!("mail{number}.box") };
    let acl = Acl::open_to_all(AclLevel::Depositor);
    let new = NewDatabase::new(&path, "Router's queue", DatabaseKind::MailBox, acl);
    let database = match mail.notes().database_create(&new) {
        Err(notes::Error::Exists { .. }) => mail.notes().database_open(&path)?,
        other => other?,
    };
    let itself = Arc::new(Identity::local_server(""));
    Ok(MailBox { depositor: database.authorize(&itself)?, reader: database.authorize(&itself)? })
}
