//! A host of formulas that ends the evaluation of one document after [`DOCUMENT_TIME_MAX`].
//!
//! Steps and bytes bound the work of formulas only approximately. The time bounds it on a slow machine, and if the cost
//! of a function was estimated too low. It begins after [`DOCUMENT_UNTIMED_CHECKS`]. Lookups in views and other
//! documents have limits of their own ([`crate::lookup`]), so their time does not count.

use std::cell::Cell;
use std::cmp::Ordering;
use std::time::Duration;

use base::{Clock, ReplicaId, Timestamp, Unid};
use formula::host::{HostText, Lookup, UserAccess};
use formula::text::Sensitivity;
use formula::{Host, Value};

use crate::limits::{DOCUMENT_TIME_MAX, DOCUMENT_UNTIMED_CHECKS};

/// A host that passes all queries to another one, and measures the time.
pub(crate) struct TimedHost<'h> {
    host: &'h dyn Host,
    clock: &'h dyn Clock,
    /// Number of checks of the time.
    checks: Cell<u32>,
    /// The time of the clock at which the evaluation ends, or `None` before the time begins.
    until: Cell<Option<Duration>>,
}

impl<'h> TimedHost<'h> {
    /// Creates the host for the formulas of one document.
    pub(crate) fn new(host: &'h dyn Host, clock: &'h dyn Clock) -> Self {
        Self { host, clock, checks: Cell::new(0), until: Cell::new(None) }
    }

    /// Runs a query whose time does not count.
    fn untimed<T>(&self, query: impl FnOnce(&'h dyn Host) -> T) -> T {
        let Some(until) = self.until.get() else { return query(self.host) };
        let began = self.clock.monotonic();
        let answer = query(self.host);
        let took = self.clock.monotonic().saturating_sub(began);
        self.until.set(Some(until.saturating_add(took)));
        answer
    }
}

impl Host for TimedHost<'_> {
    fn now(&self) -> Timestamp {
        self.host.now()
    }

    fn is_out_of_time(&self) -> bool {
        let checks = self.checks.get();
        self.checks.set(checks.saturating_add(1));
        if checks < DOCUMENT_UNTIMED_CHECKS {
            return false;
        }
        let now = self.clock.monotonic();
        let Some(until) = self.until.get() else {
            self.until.set(Some(now.saturating_add(DOCUMENT_TIME_MAX)));
            return false;
        };
        now >= until
    }

    fn random(&self) -> Option<u64> {
        self.host.random()
    }

    fn compare(&self, one: &str, other: &str, sensitivity: Sensitivity) -> Ordering {
        self.host.compare(one, other, sensitivity)
    }

    fn text(&self, kind: HostText) -> Option<&str> {
        self.host.text(kind)
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        self.host.user_names()
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        self.host.user_roles()
    }

    fn user_access(&self, database: &str) -> Option<UserAccess> {
        self.host.user_access(database)
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        self.host.replica_id()
    }

    fn environment(&self, name: &str) -> Option<&str> {
        self.host.environment(name)
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        self.untimed(|host| host.lookup(lookup))
    }

    fn document_field(&self, unid: Unid, name: &str) -> Option<Result<Value<'_>, String>> {
        self.untimed(|host| host.document_field(unid, name))
    }

    fn profile_field(&self, profile: &str, name: &str, user: &str) -> Option<Value<'_>> {
        self.untimed(|host| host.profile_field(profile, name, user))
    }

    fn password_hash(&self, password: &str) -> Option<Result<String, String>> {
        self.host.password_hash(password)
    }

    fn password_verify(&self, password: &str, hash: &str) -> Option<bool> {
        self.host.password_verify(password, hash)
    }

    fn name_lookup(&self, names: &[&str], item: &str) -> Option<Result<Value<'_>, String>> {
        self.host.name_lookup(names, item)
    }
}
