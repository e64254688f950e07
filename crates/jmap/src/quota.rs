//! The quota of a mail file in bytes, which is the only object of the type Quota (RFC 9425).
//!
//! The state is the usage and the limit themselves. Without a limit there is no object, and the state is always the
//! same, so that nobody is told of changes of a usage that cannot be read.

use mail::mailbox::{MailSnapshot, Quota};
use serde_json::{Value, json};

/// The identifier of the object.
pub const STORAGE: &str = "storage";

/// The type of the objects to which the quota applies, as the registry of JMAP names it (RFC 9425 §4).
pub const LIMITED_TYPE: &str = "Email";

/// The state of an account without a limit.
const NO_LIMIT: &str = "none";

/// How much of its quota a mail file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageQuota {
    used_bytes: u64,
    limit_bytes: Option<u64>,
}

impl StorageQuota {
    /// Reads the quota of an account.
    #[must_use]
    pub fn read(snapshot: &MailSnapshot<'_>) -> Self {
        let Quota { used_bytes, limit_bytes, .. } = snapshot.quota();
        Self { used_bytes, limit_bytes }
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self) -> String {
        self.limit_bytes.map_or_else(|| NO_LIMIT.to_owned(), |limit| format!("{}-{limit}", self.used_bytes))
    }

    /// Returns the object of an account with this name. Returns `None` if there is no limit.
    #[must_use]
    pub fn to_json(&self, name: &str) -> Option<Value> {
        let limit = self.limit_bytes?;
        Some(json!({
            "id": STORAGE,
            "resourceType": "octets",
            "used": self.used_bytes,
            "hardLimit": limit,
            "scope": "account",
            "name": name,
            "types": [LIMITED_TYPE],
            "warnLimit": null,
            "softLimit": null,
            "description": null,
        }))
    }
}

/// Returns the limit in a state. Returns `None` if the text is no state, and the inner `None` if there was no limit.
#[must_use]
pub fn limit_in_state(state: &str) -> Option<Option<u64>> {
    if state == NO_LIMIT {
        return Some(None);
    }
    let (used, limit) = state.split_once('-')?;
    used.parse::<u64>().ok()?;
    limit.parse().ok().map(Some)
}
