//! The descriptions of all uploads in memory, and which of them must go: those that have expired, and the oldest ones
//! if there is too much.
//!
//! A new upload costs the same whatever others have uploaded: it meets the uploads that go because of it, and no other
//! ones.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{NoteId, Timestamp};
use store::Ticket;
use store::blob::BlobId;

use super::UploadOwner;
use crate::limits::{
    UPLOAD_LIFETIME, UPLOADS_BYTES_MAX, UPLOADS_LOGIN_BYTES_MAX, UPLOADS_PER_LOGIN_MAX, UPLOADS_STORED_MAX,
};

/// The description of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UploadRecord {
    pub(super) owner: UploadOwner,
    pub(super) id: String,
    pub(super) media_type: String,
    pub(super) size: u64,
    /// The time of its arrival.
    pub(super) at: Timestamp,
    pub(super) note: NoteId,
    pub(super) blob: BlobId,
    /// `true` if only uploads have brought the content.
    pub(super) is_content_new: bool,
    /// What must be durable before anybody learns of the upload.
    pub(super) ticket: Ticket,
}

impl UploadRecord {
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        now.since(self.at) >= UPLOAD_LIFETIME
    }
}

type UploadKey = (UploadOwner, String);

/// The descriptions of all uploads.
#[derive(Default)]
pub(super) struct UploadIndex {
    /// The descriptions by the number of their arrival.
    records: BTreeMap<u64, UploadRecord>,
    numbers: HashMap<UploadKey, u64>,
    logins: HashMap<String, LoginUploads>,
    /// The arrivals in the order of their times.
    times: BTreeSet<(Timestamp, u64)>,
    /// The contents that only uploads have brought, with the number of their uploads.
    new_contents: HashMap<BlobId, usize>,
    bytes: u64,
    last: u64,
}

/// The uploads of a login in all accounts. They count together: with those of other people, a login could displace the
/// uploads of all.
#[derive(Default)]
struct LoginUploads {
    numbers: BTreeSet<u64>,
    bytes: u64,
}

impl UploadIndex {
    pub(super) fn find(&self, owner: &UploadOwner, id: &str) -> Option<&UploadRecord> {
        let number = self.numbers.get(&(owner.clone(), id.to_owned()))?;
        self.records.get(number)
    }

    /// Adds an upload as the latest one. It replaces the upload with the same name.
    pub(super) fn insert(&mut self, record: UploadRecord) {
        let key = (record.owner.clone(), record.id.clone());
        if let Some(number) = self.numbers.get(&key) {
            self.remove_number(*number);
        }
        self.last += 1;
        let login = self.logins.entry(record.owner.login.clone()).or_default();
        login.numbers.insert(self.last);
        login.bytes += record.size;
        self.bytes += record.size;
        self.times.insert((record.at, self.last));
        if record.is_content_new {
            *self.new_contents.entry(record.blob).or_default() += 1;
        }
        self.numbers.insert(key, self.last);
        self.records.insert(self.last, record);
    }

    pub(super) fn remove(&mut self, records: &[UploadRecord]) {
        for record in records {
            if let Some(number) = self.numbers.get(&(record.owner.clone(), record.id.clone())) {
                self.remove_number(*number);
            }
        }
    }

    /// Returns the oldest uploads that have expired, at most `count_max`.
    pub(super) fn expired(&self, now: Timestamp, count_max: usize) -> Vec<UploadRecord> {
        let numbers = self.times.iter().map(|(_, number)| number).take(count_max);
        let records = numbers.filter_map(|number| self.records.get(number));
        records.take_while(|record| record.is_expired(now)).cloned().collect()
    }

    /// Returns the uploads that go because another one arrives: the oldest ones of its login, and then of all, while
    /// there is too much.
    pub(super) fn displaced(&self, owner: &UploadOwner, id: &str, size: u64) -> Vec<UploadRecord> {
        let replaced = self.numbers.get(&(owner.clone(), id.to_owned()));
        let replaced_bytes = replaced.and_then(|number| self.records.get(number)).map_or(0, |record| record.size);
        let replaced_count = usize::from(replaced.is_some());
        let mut displaced = BTreeSet::new();
        let mut bytes_all = self.bytes - replaced_bytes + size;
        if let Some(login) = self.logins.get(&owner.login) {
            let mut bytes = login.bytes - replaced_bytes + size;
            let mut count = login.numbers.len() - replaced_count + 1;
            for number in login.numbers.iter().filter(|number| Some(*number) != replaced) {
                if bytes <= UPLOADS_LOGIN_BYTES_MAX && count <= UPLOADS_PER_LOGIN_MAX {
                    break;
                }
                let freed = self.records.get(number).map_or(0, |record| record.size);
                bytes -= freed;
                bytes_all -= freed;
                count -= 1;
                displaced.insert(*number);
            }
        }
        let mut count_all = self.records.len() - replaced_count - displaced.len() + 1;
        for (number, record) in &self.records {
            if bytes_all <= UPLOADS_BYTES_MAX && count_all <= UPLOADS_STORED_MAX {
                break;
            }
            if Some(number) != replaced && displaced.insert(*number) {
                bytes_all -= record.size;
                count_all -= 1;
            }
        }
        displaced.iter().filter_map(|number| self.records.get(number)).cloned().collect()
    }

    /// Returns `true` if there is an upload with a content that only uploads have brought.
    pub(super) fn has_new_content(&self, blob: &BlobId) -> bool {
        self.new_contents.contains_key(blob)
    }

    fn remove_number(&mut self, number: u64) {
        let Some(record) = self.records.remove(&number) else { return };
        self.bytes -= record.size;
        self.times.remove(&(record.at, number));
        if record.is_content_new {
            self.remove_new_content(&record.blob);
        }
        if let Some(login) = self.logins.get_mut(&record.owner.login) {
            login.numbers.remove(&number);
            login.bytes -= record.size;
            if login.numbers.is_empty() {
                self.logins.remove(&record.owner.login);
            }
        }
        self.numbers.remove(&(record.owner, record.id));
    }

    fn remove_new_content(&mut self, blob: &BlobId) {
        let Some(count) = self.new_contents.get_mut(blob) else { return };
        *count -= 1;
        if *count == 0 {
            self.new_contents.remove(blob);
        }
    }
}

#[cfg(test)]
mod tests;
