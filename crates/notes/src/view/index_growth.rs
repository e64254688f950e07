//! The check whether an index may grow (`docs/views.md`, "The size of an index").
//!
//! Only indexes of personal views and those of a mail file are refused. What many people use must not stop because a
//! database is full: other shared indexes count towards the quota, and the quota stops new documents.

use base::Unpaced;
use store::TableReader;

use crate::counters::Counters;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::view::index_record::IndexRecord;
use crate::view::index_size::IndexAccount;

/// The check of an index that grows.
pub(crate) struct GrowthCheck<'g> {
    pub(crate) database: &'g Database,
    /// A snapshot of the store.
    pub(crate) reader: &'g dyn TableReader,
    /// The counters of the database in this snapshot.
    pub(crate) counters: &'g Counters,
    /// The size that the counters include: that of the index before its growth, or of the index that it will replace.
    pub(crate) counted_bytes: u64,
}

impl GrowthCheck<'_> {
    /// Checks that an index may reach a size of `bytes`. An index that does not grow always may.
    ///
    /// Other indexes of the account may grow at the same time, so the limit may be exceeded by the batches of these.
    pub(crate) fn check(&self, account: &IndexAccount, bytes: u64) -> Result<()> {
        if bytes <= self.counted_bytes {
            return Ok(());
        }
        match account {
            IndexAccount::Shared => Ok(()),
            IndexAccount::DatabaseOwner => self.check_quota(bytes),
            IndexAccount::Person(_) => self.check_person(account, bytes),
        }
    }

    fn check_quota(&self, bytes: u64) -> Result<()> {
        let Some(max) = self.database.record().options.quota_bytes else { return Ok(()) };
        if self.total_with(self.counters.bytes_used(), bytes) <= max {
            return Ok(());
        }
        Err(limit("bytes of documents and view indexes (the quota); delete documents or views", max))
    }

    fn check_person(&self, account: &IndexAccount, bytes: u64) -> Result<()> {
        let max = self.database.settings.personal_index_bytes_max;
        // Mostly even the indexes of all users together are small enough, and their size is known.
        if self.total_with(self.counters.personal_index_bytes, bytes) <= max
            || self.total_with(self.sum_of_account(account)?, bytes) <= max
        {
            return Ok(());
        }
        let what = "bytes in the indexes of one user's personal views in a database (views.personal_index); \
                    delete some of these views, or show fewer documents, columns or sort orders in them";
        Err(limit(what, max))
    }

    /// Returns a total that includes the counted size, after the growth to `bytes`.
    fn total_with(&self, total: u64, bytes: u64) -> u64 {
        total.saturating_sub(self.counted_bytes).saturating_add(bytes)
    }

    /// Returns the size of all indexes of an account.
    fn sum_of_account(&self, account: &IndexAccount) -> Result<u64> {
        let number = self.database.number();
        let database = self.database.record();
        let mut sum: u64 = 0;
        for info in self.database.view_list(self.reader, self.counters.design_modseq, &Unpaced)?.iter() {
            if info.index_account(&database) != *account {
                continue;
            }
            let record = IndexRecord::load(self.reader, number, info.note)?;
            if let Some(record) = record.filter(|record| record.account == *account) {
                sum = sum.saturating_add(record.counted_bytes(self.reader, number)?);
            }
        }
        Ok(sum)
    }
}

fn limit(what: &'static str, max: u64) -> Error {
    Error::Limit { what, max: usize::try_from(max).unwrap_or(usize::MAX) }
}
