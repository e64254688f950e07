//! Idle connections that can be reused for the same destination.
//!
//! Their number is limited: if there are too many, the oldest is removed. A connection is reused only for the route for
//! which it was opened, so that neither the required certificate nor the login can be mixed up.

use std::time::Duration;

use base::sync::{Mutex, MutexGuard};

use crate::client::connection::ClientConnection;
use crate::client::{NextHop, Security};

struct Entry {
    key: String,
    connection: ClientConnection,
    /// The time of insertion, on the monotonic clock.
    idle_since: Duration,
}

/// Idle connections, oldest first.
pub(crate) struct IdlePool {
    entries: Mutex<Vec<Entry>>,
    count_max: usize,
    time_max: Duration,
}

impl IdlePool {
    pub(crate) fn new(count_max: usize, time_max: Duration) -> Self {
        Self { entries: Mutex::default(), count_max, time_max }
    }

    /// Removes and returns the most recently used connection for this key, unless it was idle for too long.
    pub(crate) fn take(&self, key: &str, now: Duration) -> Option<ClientConnection> {
        let mut entries = self.lock();
        let fresh = |entry: &Entry| now.saturating_sub(entry.idle_since) < self.time_max;
        let index = entries.iter().rposition(|entry| entry.key == key && fresh(entry))?;
        Some(entries.remove(index).connection)
    }

    /// Adds a connection. Returns the oldest one if there are too many.
    pub(crate) fn put(&self, key: &str, connection: ClientConnection, now: Duration) -> Option<ClientConnection> {
        let mut entries = self.lock();
        entries.push(Entry { key: key.to_owned(), connection, idle_since: now });
        (entries.len() > self.count_max).then(|| entries.remove(0).connection)
    }

    /// Removes and returns the connections that were idle for too long.
    pub(crate) fn take_expired(&self, now: Duration) -> Vec<ClientConnection> {
        let mut entries = self.lock();
        let count = entries.iter().take_while(|entry| now.saturating_sub(entry.idle_since) >= self.time_max).count();
        entries.drain(..count).map(|entry| entry.connection).collect()
    }

    /// Removes and returns all connections.
    pub(crate) fn drain(&self) -> Vec<ClientConnection> {
        self.lock().drain(..).map(|entry| entry.connection).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock()
    }
}

/// Returns the key of a route. Connections with the same key are interchangeable.
pub(crate) fn key(route: &NextHop) -> String {
    match route {
        NextHop::Domain(domain) => domain.to_lowercase(),
        NextHop::Host(host) => {
            let security = match host.security {
                Security::Clear => "clear",
                Security::Opportunistic => "opportunistic",
                Security::Required => "required",
                Security::Verified(_) => "verified",
                Security::Implicit(_) => "implicit",
            };
            let login = host.login.as_ref().map_or("", |(login, _)| login);
            format!("{} {} {security} {login}", host.name.to_lowercase(), host.port)
        }
    }
}
