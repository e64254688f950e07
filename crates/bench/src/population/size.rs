//! What a population will take, before anything is written: messages, bytes over the wire and on the disk, and time.
//!
//! The sizes are the expected ones of the profile, and the number of different attachments that of the pool
//! ([`attachment::distinct_files`]). Nothing is compressed here: the server may make less of it. Times follow
//! from [`ASSUMED`] rates, and not from the machine on which the run is.

use serde::Serialize;

use super::attachment;
use super::content::Purpose;
use super::databases::DatabaseFiles;
use super::memos::MailFiles;

/// What a document has besides text and attachment, on the wire and on the disk: items, indexes and log.
pub const DOCUMENT_BYTES: f64 = 2_000.0;
/// What a person of the directory takes on the disk, and how many the server adds in a second.
const PERSON_BYTES: u64 = 600;
const PERSONS_PER_SECOND: f64 = 10_000.0;
/// The smallest attachment, or part of a message, that the server stores by reference, by default.
const SHARED_BYTES_MIN: f64 = 4_096.0;
/// The disk must have so much more than the population, because the store writes before it deletes.
const DISK_FACTOR: f64 = 1.3;
/// The disk must have so much for the server itself.
const DISK_RESERVE_BYTES: u64 = 256 << 20;

/// Rates of the filling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FillingRates {
    /// Documents a second, if they are small.
    pub documents: f64,
    /// Bytes a second, if documents are large.
    pub bytes: f64,
    /// Documents a second that the server copies.
    pub copied_documents: f64,
    /// Documents a second that the driver changes in copies.
    pub changed_documents: f64,
}

/// Rates of a server beside its driver on a machine with two cores. They are assumed.
pub const ASSUMED: FillingRates =
    FillingRates { documents: 1_500.0, bytes: 40e6, copied_documents: 10_000.0, changed_documents: 2_000.0 };

/// What a population takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizePlan {
    /// The people, each with a mail file.
    pub people: u64,
    /// Persons of the directory without a mail file.
    pub persons: u64,
    /// Mail files that are filled. The others are copies of them.
    pub masters: u64,
    /// The documents of a mail file.
    pub documents: u64,
    /// The documents of all mail files.
    pub messages: u64,
    /// Documents that the driver changes in copies.
    pub changed_messages: u64,
    /// The mean size of a message: text and attachment.
    pub message_bytes: u64,
    /// The documents of databases that are no mail files.
    pub database_documents: u64,
    /// Bytes that the driver sends.
    pub wire_bytes: u64,
    /// Bytes on the disk if nothing were shared.
    pub disk_bytes: u64,
    /// Bytes on the disk if what is stored apart from its message is stored once: attachments and, of messages, texts.
    pub disk_shared_bytes: u64,
    /// Bytes that the disk must have for the population alone.
    pub disk_needed_bytes: u64,
    /// The time of the population, in seconds.
    pub seconds: f64,
}

impl SizePlan {
    /// Computes the plan of mail files and other databases.
    pub fn of(files: &MailFiles, databases: &DatabaseFiles) -> Self {
        let filled = files.masters.saturating_mul(files.all_documents());
        let messages = files.users.saturating_mul(files.all_documents());
        let copied = messages - filled;
        let copied_inboxes = (files.users - files.masters).saturating_mul(files.documents);
        let changed = (copied_inboxes as f64 * files.own.fraction().to_f64()).round();
        let sizes = Sizes::of(files, filled);
        let others = OtherDocuments::of(databases);
        let of_documents = |count: u64| count as f64 * (sizes.text + DOCUMENT_BYTES);
        let wire = of_documents(filled) + filled as f64 * sizes.attached + changed * DOCUMENT_BYTES + others.bytes;
        let disk = of_documents(messages) + messages as f64 * sizes.attached + others.bytes;
        // A copy shares its text with the message of which it is a copy, and no two bodies of those are equal.
        let shared_texts = copied as f64 * sizes.text_apart;
        let shared =
            of_documents(messages) - shared_texts + messages as f64 * sizes.inline + sizes.distinct + others.bytes;
        let rates = &ASSUMED;
        let sent = filled.saturating_add(others.count);
        let seconds = (sent as f64 / rates.documents).max(wire / rates.bytes)
            + copied as f64 / rates.copied_documents
            + changed / rates.changed_documents;
        Self {
            people: files.users,
            persons: 0,
            masters: files.masters,
            documents: files.all_documents(),
            messages,
            changed_messages: changed as u64,
            message_bytes: (sizes.text + sizes.attached) as u64,
            database_documents: others.count,
            wire_bytes: wire as u64,
            disk_bytes: disk as u64,
            disk_shared_bytes: shared as u64,
            disk_needed_bytes: ((shared * DISK_FACTOR) as u64).saturating_add(DISK_RESERVE_BYTES),
            seconds,
        }
    }

    /// Adds the persons of the directory who have no mail file, of `people` in all.
    #[must_use]
    pub fn with_persons(mut self, people: u64) -> Self {
        self.persons = people.saturating_sub(self.people);
        let bytes = self.persons.saturating_mul(PERSON_BYTES);
        for sum in [&mut self.disk_bytes, &mut self.disk_shared_bytes, &mut self.disk_needed_bytes] {
            *sum = sum.saturating_add(bytes);
        }
        self.seconds += self.persons as f64 / PERSONS_PER_SECOND;
        self
    }

    /// Returns the bytes that several messages share.
    pub fn shared_bytes(&self) -> u64 {
        self.disk_bytes.saturating_sub(self.disk_shared_bytes)
    }
}

/// The documents of databases that are no mail files.
struct OtherDocuments {
    count: u64,
    bytes: f64,
}

impl OtherDocuments {
    fn of(databases: &DatabaseFiles) -> Self {
        let mut all = Self { count: 0, bytes: 0.0 };
        for kind in &databases.kinds {
            let count = kind.database.count.saturating_mul(kind.database.documents);
            all.count = all.count.saturating_add(count);
            all.bytes += count as f64 * (kind.database.bytes as f64 * databases.size_scale + DOCUMENT_BYTES);
        }
        all
    }
}

/// Sizes of a message, on average, in bytes.
struct Sizes {
    text: f64,
    /// Of the text, what the server stores apart from the message.
    text_apart: f64,
    attached: f64,
    /// Of the attachments, those that are too small to be stored by reference.
    inline: f64,
    /// The different attachments of all messages that are filled.
    distinct: f64,
}

impl Sizes {
    fn of(files: &MailFiles, filled: u64) -> Self {
        let mut sizes = Self { text: 0.0, text_apart: 0.0, attached: 0.0, inline: 0.0, distinct: 0.0 };
        for row in &files.profile.rows {
            let share = row.share.fraction().to_f64();
            let attachment = row.attachment_bytes as f64 * files.size_scale;
            let text = row.body_bytes as f64 * files.size_scale;
            sizes.text += share * text;
            // The text of a document is in its items. Of a message with two forms, the smaller one may be in it, too.
            if files.purpose != Purpose::Document && text >= SHARED_BYTES_MIN {
                sizes.text_apart += share * text;
            }
            sizes.attached += share * attachment;
            if attachment >= SHARED_BYTES_MIN {
                sizes.distinct += attachment * attachment::distinct_files((share * filled as f64) as u64);
            } else {
                sizes.inline += share * attachment;
            }
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::profile::SizeProfile;
    use crate::workload::units::Share;

    fn files(users: u64, documents: u64, masters: u64) -> MailFiles {
        let profile = SizeProfile::server_load();
        let own = Share::from_f64(0.1).expect("a share");
        MailFiles {
            seed: 1,
            users,
            documents,
            archive: 0,
            profile,
            size_scale: 1.0,
            unread: Share::ALL,
            purpose: Purpose::Document,
            masters,
            own,
        }
    }

    fn plan(files: &MailFiles) -> SizePlan {
        SizePlan::of(files, &DatabaseFiles::default())
    }

    /// Checks the example of the issue: 4,000 × 3,000 × 97,305 bytes are 1.17 TB.
    #[test]
    fn the_population_of_the_articles_takes_a_terabyte() {
        let plan = plan(&files(4_000, 3_000, 4_000));
        assert_eq!((plan.messages, plan.message_bytes, plan.changed_messages), (12_000_000, 97_305, 0));
        assert!((1.16e12..1.20e12).contains(&(plan.disk_bytes as f64)), "{plan:?}");
        assert!(plan.disk_shared_bytes < plan.disk_bytes && plan.disk_needed_bytes > plan.disk_shared_bytes);
    }

    #[test]
    fn copies_send_less_and_share_attachments() {
        let all = plan(&files(1_000, 1_000, 1_000));
        let copied = plan(&files(1_000, 1_000, 10));
        assert_eq!(copied.messages, all.messages);
        assert_eq!(copied.changed_messages, 99_000);
        assert_eq!(copied.disk_bytes, all.disk_bytes);
        assert!(copied.wire_bytes * 50 < all.wire_bytes, "{} {}", copied.wire_bytes, all.wire_bytes);
        assert!(copied.shared_bytes() > all.shared_bytes());
        // The text of a mail file is copied: 42 of 97 KB.
        assert!(copied.disk_shared_bytes * 10 > all.disk_bytes * 4, "{copied:?}");
    }

    /// The texts of the profile have 42 of 97 KB, of which 60 bytes are in messages that are too small.
    #[test]
    fn copies_of_messages_share_texts() {
        let messages = |masters: u64| MailFiles { purpose: Purpose::Message, ..files(1_000, 1_000, masters) };
        let [of_documents, of_messages] = [files(1_000, 1_000, 10), messages(10)].map(|files| plan(&files));
        assert_eq!(of_messages.disk_bytes, of_documents.disk_bytes);
        let texts = of_messages.shared_bytes() - of_documents.shared_bytes();
        let expected = 990_000 * (300 * 10_000 + 400 * 50_000 + 100 * 50_000 + 95 * 150_000) / 1_000;
        assert!(texts.abs_diff(expected) < 1_000, "{texts} {expected}");
        assert_eq!(plan(&messages(1_000)).shared_bytes(), plan(&files(1_000, 1_000, 1_000)).shared_bytes());
    }

    /// Checks the plan against generated messages: their number of bytes, and those of the different attachments.
    #[test]
    fn generated_messages_have_the_planned_bytes() {
        let files = MailFiles { size_scale: 0.1, ..files(20, 100, 20) };
        let plan = plan(&files);
        let mut attachments = std::collections::BTreeMap::new();
        let mut text = 0;
        let mut attached = 0;
        for memo in (1..=20).flat_map(|user| files.memos(user)) {
            text += if memo.content.html.is_empty() { memo.content.body.len() } else { memo.content.html.len() };
            if let Some(attachment) = memo.content.attachment {
                attached += attachment.bytes.len();
                attachments.insert(attachment.bytes.clone(), attachment.bytes.len());
            }
        }
        let own = 2_000 * DOCUMENT_BYTES as u64;
        let disk = (text + attached) as f64;
        // The few attachments of a megabyte make most of the difference.
        let planned = (plan.disk_bytes - own) as f64;
        assert!((disk / planned - 1.0).abs() < 0.35, "{disk} {planned}");
        let text_planned = 2_000.0 * Sizes::of(&files, 2_000).text;
        assert!((text as f64 / text_planned - 1.0).abs() < 0.05, "{text} {text_planned}");
        let shared = text as f64 + attachments.values().sum::<usize>() as f64;
        let planned = (plan.disk_shared_bytes - own) as f64;
        assert!((shared / planned - 1.0).abs() < 0.35, "{shared} {planned}");
    }

    #[test]
    fn databases_count_besides_mail_files() {
        let workload = crate::workload::shipped::load("viewrebuild").expect("a shipped workload");
        let workload = crate::workload::check::check(&workload, &[]).expect("a correct file");
        let databases = DatabaseFiles::of_workload(&workload, 1, None, 1.0);
        let plan = SizePlan::of(&files(1, 0, 1), &databases);
        assert_eq!((plan.messages, plan.database_documents), (0, 1_000_000));
        // 4 GB of texts, as the article has them, and what a document has besides.
        assert!((4.0e9..7.0e9).contains(&(plan.disk_bytes as f64)), "{plan:?}");
        assert!(plan.seconds > 100.0 && plan.wire_bytes > 4_000_000_000, "{plan:?}");
    }
}
