//! The times at which the settings changed that all replicas of a database share ([`crate::shared_settings`]), and
//! their place in the record of a database.

use base::Timestamp;
use base::codec::{Decoder, Encoder, InvalidRecord};
use revision::DeletionRule;

/// The times of the last changes of the shared settings. 0 if a setting was never changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SettingTimes {
    /// Of the title.
    pub title: Timestamp,
    /// Of the purge interval.
    pub purge_interval: Timestamp,
    /// Of the retention of deleted documents.
    pub keep_deleted: Timestamp,
    /// Of the rule for deletions.
    pub deletions: Timestamp,
}

/// Appends the rule for deletions and the times of changes to the record of a database. A record of a database whose
/// settings were never changed has nothing of it, as in earlier versions.
pub(crate) fn encode(deletions: Option<DeletionRule>, times: &SettingTimes, out: &mut Encoder) {
    if *times == SettingTimes::default() && deletions.is_none() {
        return;
    }
    out.u8(match deletions {
        None => 0,
        Some(DeletionRule::EditsCount) => 1,
        Some(DeletionRule::DeletionsCount) => 2,
    });
    out.i64(times.title.0).i64(times.purge_interval.0).i64(times.keep_deleted.0).i64(times.deletions.0);
}

/// Reads what [`encode`] has written.
pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<(Option<DeletionRule>, SettingTimes), InvalidRecord> {
    if input.is_empty() {
        return Ok((None, SettingTimes::default()));
    }
    let deletions = match input.u8()? {
        0 => None,
        1 => Some(DeletionRule::EditsCount),
        2 => Some(DeletionRule::DeletionsCount),
        _ => return Err(InvalidRecord),
    };
    let mut time = || input.i64().map(Timestamp);
    let times = SettingTimes { title: time()?, purge_interval: time()?, keep_deleted: time()?, deletions: time()? };
    Ok((deletions, times))
}
