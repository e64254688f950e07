//! Limits on the number of connections, in total and per address.
//!
//! [`Connections::admit`] returns a [`ConnectionPermit`], and the connection is counted until this value is dropped.
//! Every IPv4 address is counted separately; IPv6 addresses are counted per /64 network, which is what one customer
//! usually gets. Peers on this machine count only toward the total, because a local proxy or load generator is not a
//! stranger.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base::networks::peer_network;
use base::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::peer::Peer;

/// Maximum numbers of simultaneous connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections from all addresses together.
    pub total_max: usize,
    /// Maximum number of connections from one address (for IPv6: one /64 network). Addresses of this machine are not
    /// limited.
    pub per_address_max: usize,
}

/// Reason why a connection was not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// The server has reached its total limit.
    #[error("too many connections to this server")]
    Total,
    /// The address has reached its limit.
    #[error("too many connections from your address")]
    PerAddress,
}

/// Counter for the connections of one kind of listener. All accepting tasks share it.
pub struct Connections {
    limits: ConnectionLimits,
    counts: Mutex<Counts>,
    /// Notified whenever the last connection ends.
    emptied: Notify,
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
}

impl Connections {
    /// Creates a counter without connections.
    #[must_use]
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default(), emptied: Notify::new() })
    }

    /// Admits a connection, or returns the limit that it would exceed.
    pub fn admit(self: &Arc<Self>, peer: &Peer) -> Result<ConnectionPermit, LimitReached> {
        let group = counted_address(peer);
        let mut counts = self.counts();
        if counts.total >= self.limits.total_max {
            return Err(LimitReached::Total);
        }
        if let Some(address) = group {
            let count = counts.by_address.entry(address).or_default();
            if *count >= self.limits.per_address_max {
                return Err(LimitReached::PerAddress);
            }
            *count += 1;
        }
        counts.total += 1;
        drop(counts);
        Ok(ConnectionPermit { connections: Arc::clone(self), group })
    }

    /// Returns the number of connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.counts().total
    }

    /// Waits until no connection is left.
    pub async fn wait_until_empty(&self) {
        loop {
            let woken = self.emptied.notified();
            if self.count() == 0 {
                return;
            }
            woken.await;
        }
    }

    fn release(&self, group: Option<IpAddr>) {
        let mut counts = self.counts();
        counts.total = counts.total.saturating_sub(1);
        if let Some(address) = group
            && let Some(count) = counts.by_address.get_mut(&address)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_address.remove(&address);
            }
        }
        if counts.total == 0 {
            self.emptied.notify_waiters();
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("limits", &self.limits).field("count", &self.count()).finish()
    }
}

/// The permit of an admitted connection, which is counted until the permit is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    connections: Arc<Connections>,
    group: Option<IpAddr>,
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.release(self.group);
    }
}

fn counted_address(peer: &Peer) -> Option<IpAddr> {
    if peer.loopback {
        return None;
    }
    Some(peer_network(peer.address?.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Peer::network(address.parse().expect("the test's addresses are valid"))
    }

    /// Admits the addresses in order, keeps the permits, and checks which are refused.
    fn check(addresses: &[&str], refused: &[(usize, LimitReached)]) {
        let connections = Connections::new(ConnectionLimits { total_max: 4, per_address_max: 2 });
        let mut kept = Vec::new();
        let mut seen = Vec::new();
        for (index, address) in addresses.iter().enumerate() {
            match connections.admit(&peer(address)) {
                Ok(permit) => kept.push(permit),
                Err(error) => seen.push((index, error)),
            }
        }
        assert_eq!(seen, refused, "{addresses:?}");
        assert_eq!(connections.count(), kept.len());
        drop(kept);
        assert_eq!(connections.count(), 0);
        assert!(connections.counts().by_address.is_empty());
    }

    #[test]
    fn limits_hold_per_address_and_in_total() {
        check(&["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.2:1"], &[(2, LimitReached::PerAddress)]);
        check(&["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1"], &[(2, LimitReached::PerAddress)]);
        check(&["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8:0:1::3]:1"], &[]);
        check(
            &["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "192.0.2.1:1"],
            &[(4, LimitReached::Total)],
        );
    }

    #[tokio::test]
    async fn wait_ends_when_the_last_connection_closes() {
        let connections = Connections::new(ConnectionLimits { total_max: 4, per_address_max: 2 });
        connections.wait_until_empty().await;
        let permit = connections.admit(&Peer::local()).expect("within the limit");
        let waiter = tokio::spawn({
            let connections = Arc::clone(&connections);
            async move { connections.wait_until_empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(permit);
        waiter.await.expect("the waiter does not panic");
    }
}
