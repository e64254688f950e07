//! What the mail files have before a run: messages, numbered over all mail files, each with a stream of its own.
//!
//! So the contents depend neither on the order in which the mail files are filled nor on the server. A message is an
//! answer with the probability [`ANSWER_PERCENT`], to one of the [`ANSWERED_MAX`] messages before it in the mail file:
//! it has the subject of the first message of the thread, quotes the message that it answers, and refers to all
//! messages between them, at most [`REFERENCES_MAX`].

use super::content::{Answered, Content, ContentRequest, ContentSize, Purpose, reference_of};
use super::message::{Mailbox, MessageHeader};
use super::people::UserNames;
use crate::plan::sizes;
use crate::plan::stream::{Draw, Stream};
use crate::random::SplitMix64;
use crate::workload::profile::SizeProfile;
use crate::workload::units::Share;
use base::Timestamp;

/// In percent of the messages: those that are answers.
pub const ANSWER_PERCENT: u64 = 40;
/// An answer is to one of so many messages before it.
pub const ANSWERED_MAX: u64 = 16;
/// Maximum number of messages of a thread before an answer. An answer to more of them begins a thread.
pub const REFERENCES_MAX: usize = 10;
/// When the last message of a mail file was posted: 2026-01-05, 08:00 UTC, in microseconds since 1970.
const LAST_POSTED_US: i64 = 1_767_600_000_000_000;
/// The time between two messages of a mail file, on average.
const POSTED_INTERVAL_US: i64 = 7_200_000_000;

/// What the mail files get.
#[derive(Debug, Clone)]
pub struct MailFiles {
    /// The seed.
    pub seed: u64,
    /// The users, each of whom has a mail file.
    pub users: u64,
    /// The messages in the inbox of each mail file.
    pub documents: u64,
    /// The messages in the archive of each mail file.
    pub archive: u64,
    /// Their sizes.
    pub profile: SizeProfile,
    /// The factor by which they are made smaller.
    pub size_scale: f64,
    /// The share of the messages that are unread.
    pub unread: Share,
    /// Whether they are documents or messages.
    pub purpose: Purpose,
    /// The mail files that are filled: those of the first users. The others are copies of them, in turn.
    pub masters: u64,
    /// The share of the messages of a copy that are changed.
    pub own: Share,
}

/// A change of a message of a copy: it has the user as recipient, and another date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnChange {
    /// The index of the message in the mail file.
    pub index: u64,
    /// Its new date, in microseconds since 1970.
    pub posted_us: i64,
}

/// A message that a mail file has before the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMemo {
    /// The number of the user who has sent it.
    pub sender: u64,
    /// What it says.
    pub content: Content,
    /// The user has not read it.
    pub is_unread: bool,
    /// It is in the archive instead of the inbox.
    pub is_archived: bool,
    /// When it was posted, in microseconds since 1970.
    pub posted_us: i64,
    /// The references of the messages that it answers, the first one of the thread first.
    pub references: Vec<String>,
}

impl StoredMemo {
    /// Returns its header as a message to the owner of the mail file.
    pub fn header(&self, names: &UserNames, owner: &str) -> MessageHeader {
        let id = |reference: &String| format!("<{reference}@{}>", names.domain());
        MessageHeader {
            from: Some(Mailbox { name: self.content.author.clone(), address: names.address(self.sender) }),
            to: vec![Mailbox { name: String::new(), address: owner.to_owned() }],
            date_us: Some(self.posted_us),
            message_id: Some(id(&self.content.reference)),
            references: self.references.iter().map(id).collect(),
        }
    }
}

/// What is drawn of a message before its content.
struct MemoHead {
    sender: u64,
    size: ContentSize,
    is_unread: bool,
    posted_us: i64,
    /// The index of the message that it answers.
    answers: Option<u64>,
    /// The numbers of the content.
    numbers: SplitMix64,
}

impl MailFiles {
    /// Returns the messages of a mail file: those of the inbox and those of the archive.
    pub fn all_documents(&self) -> u64 {
        self.documents.saturating_add(self.archive)
    }

    /// Returns the messages of a user in their order, which are generated one by one: first those of the inbox.
    pub fn memos(&self, user: u64) -> impl Iterator<Item = StoredMemo> + Send + use<> {
        let files = self.clone();
        (0..self.all_documents()).map(move |index| files.memo(user, index))
    }

    /// Returns the users whose mail files are copies of that of a master.
    pub fn copies_of(&self, master: u64) -> impl Iterator<Item = u64> + use<> {
        let masters = self.masters.max(1);
        (masters + 1..=self.users).filter(move |user| (user - 1) % masters + 1 == master)
    }

    /// Draws which messages of the copy of a user are changed, and how.
    pub fn own_changes(&self, user: u64) -> Vec<OwnChange> {
        let change = |index: u64| {
            let number = user.saturating_sub(1) * self.documents + index;
            let mut stream = Stream::new(self.seed, Draw::Message, [number, 1, 0]);
            let is_own = stream.below(Share::ALL.millionths().into()) < self.own.millionths().into();
            let posted_us = self.posted_us(index, stream.below(POSTED_INTERVAL_US as u64) as i64);
            is_own.then_some(OwnChange { index, posted_us })
        };
        (0..self.documents).filter_map(change).collect()
    }

    /// Returns when a message was posted: its place among the others, and a drawn part of the time between two.
    fn posted_us(&self, index: u64, jitter_us: i64) -> i64 {
        // The archive is older than the inbox.
        let later = if index < self.documents { 0 } else { self.all_documents() };
        let intervals = i64::try_from(later + self.documents - index).unwrap_or(i64::MAX);
        LAST_POSTED_US.saturating_sub(intervals.saturating_mul(POSTED_INTERVAL_US)).saturating_add(jitter_us)
    }

    /// Generates the message of an index in the mail file of a user.
    pub fn memo(&self, user: u64, index: u64) -> StoredMemo {
        let mut head = self.head(user, index);
        let thread = self.thread(user, &head);
        let answered = head.answers.zip(thread.last()).map(|(_, answered)| {
            let first = self.answered(user, &thread[0]);
            Answered { subject: first.subject, ..self.answered(user, answered) }
        });
        let request = ContentRequest { answered, ..self.request(user, &head) };
        let content = Content::generate(&mut head.numbers, &request);
        let references = thread.iter().map(|head| reference_of(&head.numbers)).collect();
        StoredMemo {
            sender: head.sender,
            content,
            is_unread: head.is_unread,
            is_archived: index >= self.documents,
            posted_us: head.posted_us,
            references,
        }
    }

    /// Draws sender, size, mark, date and answered message in this order.
    fn head(&self, user: u64, index: u64) -> MemoHead {
        let before = user.saturating_sub(1);
        // The messages of all archives are numbered behind those of all inboxes.
        let (first, number) = match index.checked_sub(self.documents) {
            None => (0, before * self.documents + index),
            Some(place) => (self.documents, self.users * self.documents + before * self.archive + place),
        };
        let mut stream = Stream::new(self.seed, Draw::Message, [number, 0, 0]);
        let sender = 1 + stream.below(self.users);
        // A message to oneself comes from the next user.
        let sender = if sender == user && self.users > 1 { sender % self.users + 1 } else { sender };
        let row = *sizes::draw(&self.profile, &mut stream);
        let is_unread = stream.below(Share::ALL.millionths().into()) < self.unread.millionths().into();
        let jitter_us = stream.below(POSTED_INTERVAL_US as u64) as i64;
        let posted_us = self.posted_us(index, jitter_us);
        let is_answer = stream.below(100) < ANSWER_PERCENT;
        let place = index - first;
        let before = stream.below(place.clamp(1, ANSWERED_MAX));
        MemoHead {
            sender,
            size: ContentSize::scaled(&row, self.size_scale),
            is_unread,
            posted_us,
            answers: place.checked_sub(1 + before).filter(|_| is_answer).map(|answered| first + answered),
            numbers: stream.into_numbers(),
        }
    }

    /// Returns the messages of the thread before an answer, the first one first.
    fn thread(&self, user: u64, head: &MemoHead) -> Vec<MemoHead> {
        let mut thread = Vec::new();
        let mut answers = head.answers;
        while let Some(index) = answers.filter(|_| thread.len() < REFERENCES_MAX) {
            let head = self.head(user, index);
            answers = head.answers;
            thread.push(head);
        }
        thread.reverse();
        thread
    }

    fn request(&self, user: u64, head: &MemoHead) -> ContentRequest<'_> {
        ContentRequest {
            seed: self.seed,
            author: head.sender,
            reader: Some(user),
            purpose: self.purpose,
            size: head.size,
            kinds: &self.profile.kinds,
            answered: None,
        }
    }

    fn answered(&self, user: u64, head: &MemoHead) -> Answered {
        let date = Timestamp(head.posted_us).to_utc().date().to_string();
        Content::answered(&mut head.numbers.clone(), &self.request(user, head), date)
    }
}

#[cfg(test)]
mod tests;
