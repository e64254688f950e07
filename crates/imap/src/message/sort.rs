//! SORT (RFC 5256, RFC 5957): orders messages by criteria.
//!
//! Each message is reduced to a [`SortRecord`] with one key per criterion, and then the records are sorted. Messages
//! with equal keys are ordered by UID, which is the order of the mailbox. Texts are compared in folded form. An address
//! is compared by its mailbox, without the domain. If the Date field is missing or invalid, the sent date is the
//! internal date.

use std::cmp::Reverse;

use base::Timestamp;
use mail::casemap::fold;
use mail::mime::address::{self, Mailbox};
use mail::mime::base_subject::BaseSubject;
use mail::mime::{date, encoded_word, header};

use super::entry::EntryData;
use crate::codec::command::{SortCriterion, SortKey};

/// Criteria in executable form.
#[derive(Debug, Clone)]
pub struct MessageSorter {
    criteria: Vec<SortCriterion>,
}

/// The sort keys of a message. Records that were created by the same sorter are ordered as its criteria require.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SortRecord {
    keys: Vec<Key>,
    uid: u32,
}

/// A sort key. The keys of one criterion have the same direction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Ascending(KeyValue),
    Descending(Reverse<KeyValue>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum KeyValue {
    Number(i128),
    Text(Box<str>),
}

impl SortRecord {
    /// Returns the UID of the message.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }
}

impl MessageSorter {
    /// Creates a sorter. The most important criterion comes first.
    #[must_use]
    pub fn new(criteria: &[SortCriterion]) -> Self {
        Self { criteria: criteria.to_vec() }
    }

    /// Returns `true` if records need the headers of messages.
    #[must_use]
    pub fn needs_header(&self) -> bool {
        self.criteria.iter().any(|criterion| !matches!(criterion.key, SortKey::Arrival | SortKey::Size))
    }

    /// Returns the sort keys of a message. If [`MessageSorter::needs_header`] returns `false`, the header may be empty.
    pub fn record(&self, entry: &impl EntryData, header: &[u8]) -> SortRecord {
        let key = |criterion: &SortCriterion| {
            let value = value(criterion.key, entry, header);
            if criterion.reverse { Key::Descending(Reverse(value)) } else { Key::Ascending(value) }
        };
        SortRecord { keys: self.criteria.iter().map(key).collect(), uid: entry.uid() }
    }

    /// Sorts records and returns the UIDs in the resulting order.
    #[must_use]
    pub fn sort(&self, mut records: Vec<SortRecord>) -> Vec<u32> {
        records.sort_unstable();
        records.into_iter().map(|record| record.uid).collect()
    }
}

fn value(key: SortKey, entry: &impl EntryData, header: &[u8]) -> KeyValue {
    let text = |text: String| KeyValue::Text(text.into_boxed_str());
    match key {
        SortKey::Arrival => KeyValue::Number(i128::from(entry.received().0)),
        SortKey::Date => KeyValue::Number(i128::from(sent(header, entry.received()).0)),
        SortKey::Size => KeyValue::Number(i128::from(entry.size())),
        SortKey::Subject => text(BaseSubject::extract(header::first(header, "Subject")).text),
        SortKey::From => text(local_part(header, "From")),
        SortKey::To => text(local_part(header, "To")),
        SortKey::Cc => text(local_part(header, "Cc")),
        SortKey::DisplayFrom => text(display(header, "From")),
        SortKey::DisplayTo => text(display(header, "To")),
    }
}

/// Returns the time at which a message was sent.
pub(super) fn sent(header: &[u8], received: Timestamp) -> Timestamp {
    header::first(header, "Date").and_then(date::HeaderDate::parse).map_or(received, |date| date.timestamp)
}

/// Returns the mailbox of the first address: its local part, or the name of a group.
fn local_part(header: &[u8], name: &str) -> String {
    match first_address(header, name) {
        Some(address::AddressListEntry::Mailbox(mailbox)) => fold(&String::from_utf8_lossy(&mailbox.local)),
        Some(address::AddressListEntry::GroupStart(name)) => fold(&String::from_utf8_lossy(&name)),
        Some(address::AddressListEntry::GroupEnd) | None => String::new(),
    }
}

/// Returns the display text of the first address: its name, or else the address.
fn display(header: &[u8], name: &str) -> String {
    let shown =
        |mailbox: &Mailbox| mailbox.display_name().filter(|name| !name.is_empty()).unwrap_or_else(|| mailbox.address());
    match first_address(header, name) {
        Some(address::AddressListEntry::Mailbox(mailbox)) => fold(&shown(&mailbox)),
        Some(address::AddressListEntry::GroupStart(name)) => fold(&encoded_word::decode(&name)),
        Some(address::AddressListEntry::GroupEnd) | None => String::new(),
    }
}

fn first_address(header: &[u8], name: &str) -> Option<address::AddressListEntry> {
    address::parse(header::first(header, name)?).into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::message_fixture::EntryFixture;
    use crate::message::sorted_runs::SortedRuns;

    /// Sorts messages whose UIDs are their positions from 1, and whose sizes and internal dates ascend with the UIDs.
    fn check(criteria: &[(SortKey, bool)], headers: &[&str], expected: &[u32]) {
        let criteria: Vec<_> = criteria.iter().map(|&(key, reverse)| SortCriterion { key, reverse }).collect();
        let sorter = MessageSorter::new(&criteria);
        let record = |(index, header): (usize, &&str)| {
            let uid = index as u32 + 1;
            let received = Timestamp::from_seconds(1_000_000_000 + i64::from(uid));
            sorter.record(
                &EntryFixture { uid, size: u64::from(uid) * 100, received, ..EntryFixture::default() },
                header.as_bytes(),
            )
        };
        let records: Vec<SortRecord> = headers.iter().enumerate().map(record).collect();
        let mut merged = SortedRuns::default();
        for record in &records {
            merged.add(record.clone());
            // Each record is a run of its own.
            merged.end_run();
        }
        merged.end();
        let uids: Vec<u32> = std::iter::from_fn(|| merged.pop_first()).map(|record| record.uid).collect();
        assert_eq!(uids, expected, "{criteria:?}");
        assert_eq!(sorter.sort(records), expected, "{criteria:?}");
    }

    #[test]
    fn messages_are_sorted_by_all_criteria() {
        let subjects = ["Subject: Re: b", "Subject: [x] a", "Subject: B", "Subject: \u{c4}", ""];
        check(&[(SortKey::Subject, false)], &subjects, &[5, 2, 4, 1, 3]);
        check(&[(SortKey::Subject, true)], &subjects, &[1, 3, 4, 2, 5]);
        check(&[(SortKey::Size, true)], &subjects, &[5, 4, 3, 2, 1]);
        check(&[(SortKey::Arrival, false)], &subjects, &[1, 2, 3, 4, 5]);
        check(&[(SortKey::Subject, false), (SortKey::Size, true)], &subjects, &[5, 2, 4, 3, 1]);
    }

    #[test]
    fn date_key_falls_back_to_the_internal_date() {
        let dates = ["Date: Sun, 9 Sep 2001 01:46:45 +0000", "Date: Sun, 9 Sep 2001 00:46:43 -0100", "", "Date: never"];
        check(&[(SortKey::Date, false)], &dates, &[2, 3, 4, 1]);
    }

    #[test]
    fn address_keys_use_the_mailbox_or_the_display_name() {
        let from =
            ["From: Zoe <adam@x>", "From: bert@a", "From: =?utf-8?q?=C3=84nne?= <carl@x>", "From: Anton: zz@x;", ""];
        check(&[(SortKey::From, false)], &from, &[5, 1, 4, 2, 3]);
        check(&[(SortKey::DisplayFrom, false)], &from, &[5, 4, 3, 2, 1]);
        check(&[(SortKey::To, false)], &["To: b@x", "To: a@x"], &[2, 1]);
        check(&[(SortKey::DisplayTo, false)], &["To: b@a", "To: b@A, c@d", "To: \"\" <a@x>"], &[3, 1, 2]);
        check(&[(SortKey::Cc, false)], &["Cc: b@x", ""], &[2, 1]);
    }

    #[test]
    fn only_some_criteria_need_the_header() {
        let needs = |key| MessageSorter::new(&[SortCriterion { key, reverse: false }]).needs_header();
        assert!(!needs(SortKey::Arrival) && !needs(SortKey::Size) && needs(SortKey::Date) && needs(SortKey::DisplayTo));
    }
}
