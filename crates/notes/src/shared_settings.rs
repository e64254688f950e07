//! Settings that all replicas of a database share: its title, and the options that decide which data it keeps.
//!
//! Each is a register: a value with the time of its last change. Of two values the later one counts, so replicas agree
//! in whatever order they meet (`docs/replication.md`, "What travels"). A value that was never changed has the time 0.
//! The settings are in the catalog's record of the database and not in a note, so they are sent with each list of
//! changes.
//!
//! Left out: options that belong to one server, such as the quota and the full-text index.

use base::{Clock, Timestamp};
use revision::DeletionRule;

use crate::access::{Access, level};
use crate::catalog::{self, DatabaseKind, DatabaseOptions, DatabaseRecord};
use crate::error::{Error, Result};
use crate::limits::RECEIVED_TIME_MAX;
use crate::server_databases::Databases;
use crate::setting_times::SettingTimes;

/// A value with the time of its last change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedSetting<T> {
    /// The value.
    pub value: T,
    /// The time of its last change, or 0 if it was never changed.
    pub changed: Timestamp,
}

impl<T: Ord> SharedSetting<T> {
    /// Returns the value that counts of two: the one that changed later or, with equal times, the greater one.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        if (self.changed, &self.value) >= (other.changed, &other.value) { self } else { other }
    }
}

/// The settings that all replicas of a database share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedSettings {
    /// The title.
    pub title: SharedSetting<String>,
    /// [`DatabaseOptions::purge_interval_days`].
    pub purge_interval_days: SharedSetting<u16>,
    /// [`DatabaseOptions::keep_deleted_hours`].
    pub keep_deleted_hours: SharedSetting<Option<u16>>,
    /// [`DatabaseOptions::deletions`].
    pub deletions: SharedSetting<Option<DeletionRule>>,
}

/// Returns the name of a rule, as commands show it.
#[must_use]
pub fn deletion_rule_name(rule: DeletionRule) -> &'static str {
    match rule {
        DeletionRule::EditsCount => "keep-edits",
        DeletionRule::DeletionsCount => "delete",
    }
}

/// Returns the rule of databases of a kind whose rule was never set.
fn default_deletion_rule(kind: DatabaseKind) -> DeletionRule {
    match kind {
        DatabaseKind::Mail => DeletionRule::DeletionsCount,
        DatabaseKind::Standard
        | DatabaseKind::Directory
        | DatabaseKind::MailBox
        | DatabaseKind::Log
        | DatabaseKind::Sessions
        | DatabaseKind::Uploads => DeletionRule::EditsCount,
    }
}

impl DatabaseRecord {
    /// Returns which deletions count against edits that they do not know (`docs/replication.md`, "Deletions").
    #[must_use]
    pub fn deletion_rule(&self) -> DeletionRule {
        self.options.deletions.unwrap_or_else(|| default_deletion_rule(self.kind))
    }

    /// Returns the settings that the database shares with its replicas.
    #[must_use]
    pub fn shared_settings(&self) -> SharedSettings {
        let DatabaseOptions { purge_interval_days, keep_deleted_hours, deletions, .. } = self.options;
        let times = self.setting_times;
        SharedSettings {
            title: SharedSetting { value: self.title.clone(), changed: times.title },
            purge_interval_days: SharedSetting { value: purge_interval_days, changed: times.purge_interval },
            keep_deleted_hours: SharedSetting { value: keep_deleted_hours, changed: times.keep_deleted },
            deletions: SharedSetting { value: deletions, changed: times.deletions },
        }
    }

    /// Returns the record with other shared settings.
    fn with_shared_settings(self, settings: SharedSettings) -> Self {
        let SharedSettings { title, purge_interval_days, keep_deleted_hours, deletions } = settings;
        let setting_times = SettingTimes {
            title: title.changed,
            purge_interval: purge_interval_days.changed,
            keep_deleted: keep_deleted_hours.changed,
            deletions: deletions.changed,
        };
        let options = DatabaseOptions {
            purge_interval_days: purge_interval_days.value,
            keep_deleted_hours: keep_deleted_hours.value,
            deletions: deletions.value,
            ..self.options
        };
        Self { title: title.value, options, setting_times, ..self }
    }

    /// Returns the record with a new title and options. The settings that differ get the time of the change.
    pub(crate) fn changed(self, title: &str, options: DatabaseOptions, clock: &dyn Clock) -> Self {
        let now = clock.now();
        let advance = |is_changed: bool, time: &mut Timestamp| {
            if is_changed {
                // If the clock is behind the last change, this one is the later one nevertheless.
                *time = now.max(Timestamp(time.0.saturating_add(1)));
            }
        };
        let before = self.options;
        let mut times = self.setting_times;
        advance(self.title != title, &mut times.title);
        advance(before.purge_interval_days != options.purge_interval_days, &mut times.purge_interval);
        advance(before.keep_deleted_hours != options.keep_deleted_hours, &mut times.keep_deleted);
        advance(before.deletions != options.deletions, &mut times.deletions);
        Self { title: title.to_owned(), options, setting_times: times, ..self }
    }
}

impl SharedSettings {
    /// Returns the settings that count of two replicas.
    #[must_use]
    pub fn join(self, other: Self) -> Self {
        Self {
            title: self.title.join(other.title),
            purge_interval_days: self.purge_interval_days.join(other.purge_interval_days),
            keep_deleted_hours: self.keep_deleted_hours.join(other.keep_deleted_hours),
            deletions: self.deletions.join(other.deletions),
        }
    }

    /// Checks settings from another server.
    fn check(&self) -> Result<()> {
        let Self { title, purge_interval_days, keep_deleted_hours, deletions } = self;
        let times = [title.changed, purge_interval_days.changed, keep_deleted_hours.changed, deletions.changed];
        if times.iter().any(|time| time.0 > RECEIVED_TIME_MAX) {
            return Err(Error::invalid("the settings of another replica", "they changed too far in the future"));
        }
        catalog::check_title(&title.value)?;
        DatabaseOptions { keep_deleted_hours: keep_deleted_hours.value, ..DatabaseOptions::default() }.check()
    }
}

impl Databases {
    /// Takes settings over from another replica, as far as they changed later than those of this one. Returns `true` if
    /// a setting is another one now. Durable on return.
    ///
    /// A database that gets the rule `delete` is closed to CouchDB clients: they could not be told of a deletion that
    /// counts against an edit.
    pub fn database_settings_join(&self, access: &Access<level::Manager>, arriving: &SharedSettings) -> Result<bool> {
        arriving.check()?;
        let before = access.database().record();
        let joined = before.shared_settings().join(arriving.clone());
        if joined == before.shared_settings() {
            access.grant()?;
            return Ok(false);
        }
        self.record_change(access, |record| {
            let joined = record.shared_settings().join(arriving.clone());
            let mut record = record.with_shared_settings(joined);
            record.options.is_open_to_couchdb &= record.deletion_rule() == DeletionRule::EditsCount;
            record
        })?;
        let after = access.database().record();
        Ok((&after.title, after.options) != (&before.title, before.options))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn setting() -> impl Strategy<Value = SharedSetting<u8>> {
        (0..3_u8, 0..3_i64).prop_map(|(value, time)| SharedSetting { value, changed: Timestamp(time) })
    }

    proptest! {
        #[test]
        fn joining_is_commutative_associative_and_idempotent(a in setting(), b in setting(), c in setting()) {
            let join = |a: &SharedSetting<u8>, b: &SharedSetting<u8>| a.clone().join(b.clone());
            prop_assert_eq!(join(&a, &b), join(&b, &a));
            prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
            prop_assert_eq!(join(&a, &a), a);
        }
    }
}
