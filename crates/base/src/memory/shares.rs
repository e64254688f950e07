//! Shares of one memory budget: by account for users, by network for strangers.
//!
//! All connections of an owner have the same share, however many there are and whatever their protocols. The networks
//! of strangers have a ceiling together, so that strangers with many addresses leave memory for those who have logged
//! in. A share exists while somebody refers to it: a session, or bytes that were taken from it. An owner who comes back
//! while bytes are still held gets the share from which they were taken.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use super::{MemoryBudget, Pool};
use crate::limits::{CALL_MEMORY_BYTES_MAX, MESSAGE_OVERHEAD_BYTES_MAX, SHARES_SWEEP_MIN};
use crate::networks::peer_network;
use crate::sync::Mutex;

/// The owner of a share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MemoryOwner {
    /// A user who has logged in, by canonical name.
    Account(Arc<str>),
    /// Another server that has presented its certificate, by canonical name.
    Server(Arc<str>),
    /// The network of a peer that has not logged in.
    Network(IpAddr),
    /// The peers of this machine that have not logged in.
    Local,
}

impl MemoryOwner {
    /// Creates the owner for a user who has logged in.
    #[must_use]
    pub fn account(name: &str) -> Self {
        Self::Account(name.into())
    }

    /// Creates the owner for another server that has presented its certificate.
    #[must_use]
    pub fn server(name: &str) -> Self {
        Self::Server(name.into())
    }

    /// Creates the owner for a peer that has not logged in. IPv6 addresses are cut to their first 64 bits, because a
    /// single machine has that many.
    #[must_use]
    pub fn network(address: IpAddr) -> Self {
        Self::Network(peer_network(address))
    }
}

/// The sizes of the shares of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareSizes {
    /// The share of one account, or of one other server.
    pub account_bytes: usize,
    /// The share of one network.
    pub network_bytes: usize,
    /// The share of all networks together.
    pub networks_bytes: usize,
    /// The share of the peers of this machine.
    pub local_bytes: usize,
}

impl ShareSizes {
    /// Returns the sizes for a budget of `total_bytes` and messages of at most `message_bytes_max`: a quarter for an
    /// account, a sixteenth for a network, three quarters for all networks, half for this machine. Every share has the
    /// capacity for one message of the maximum size.
    #[must_use]
    pub fn new(total_bytes: usize, message_bytes_max: usize) -> Self {
        let share =
            |bytes: usize, overhead: usize| bytes.max(message_bytes_max.saturating_add(overhead)).min(total_bytes);
        Self {
            account_bytes: share(total_bytes / 4, CALL_MEMORY_BYTES_MAX),
            network_bytes: share(total_bytes / 16, MESSAGE_OVERHEAD_BYTES_MAX),
            networks_bytes: share(total_bytes / 4 * 3, MESSAGE_OVERHEAD_BYTES_MAX),
            local_bytes: share(total_bytes / 2, MESSAGE_OVERHEAD_BYTES_MAX),
        }
    }
}

/// A budget and its shares.
#[derive(Debug)]
pub struct MemoryShares {
    total: MemoryBudget,
    /// The share of all networks.
    networks: MemoryBudget,
    sizes: ShareSizes,
    table: Mutex<ShareTable>,
}

/// The shares that exist, and some that no longer do.
#[derive(Debug, Default)]
struct ShareTable {
    pools: HashMap<MemoryOwner, Weak<Pool>>,
    /// Number of entries at which those without a share are removed.
    sweep_at: usize,
}

impl ShareTable {
    fn insert(&mut self, owner: MemoryOwner, pool: &Arc<Pool>) {
        if self.pools.len() >= self.sweep_at {
            self.pools.retain(|_, pool| pool.strong_count() > 0);
            self.sweep_at = self.pools.len().saturating_mul(2).max(SHARES_SWEEP_MIN);
        }
        self.pools.insert(owner, Arc::downgrade(pool));
    }
}

impl MemoryShares {
    /// Creates a budget of `total_bytes` and the means to share it.
    #[must_use]
    pub fn new(total_bytes: usize, sizes: ShareSizes) -> Arc<Self> {
        let total = MemoryBudget::new(total_bytes);
        let networks = total.share(sizes.networks_bytes);
        Arc::new(Self { total, networks, sizes, table: Mutex::default() })
    }

    /// Creates shares without limits, for tests and measurements.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        let all = usize::MAX;
        let sizes = ShareSizes { account_bytes: all, network_bytes: all, networks_bytes: all, local_bytes: all };
        Self::new(all, sizes)
    }

    /// Returns the budget of all owners together.
    #[must_use]
    pub fn total(&self) -> &MemoryBudget {
        &self.total
    }

    /// Returns the share of an owner.
    #[must_use]
    pub fn share_of(&self, owner: &MemoryOwner) -> MemoryBudget {
        let mut table = self.table.lock();
        if let Some(pool) = table.pools.get(owner).and_then(Weak::upgrade) {
            return MemoryBudget { pool };
        }
        let share = match owner {
            MemoryOwner::Account(_) | MemoryOwner::Server(_) => self.total.share(self.sizes.account_bytes),
            MemoryOwner::Network(_) => self.networks.share(self.sizes.network_bytes),
            MemoryOwner::Local => self.total.share(self.sizes.local_bytes),
        };
        table.insert(owner.clone(), &share.pool);
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Exhausted;

    const SIZES: ShareSizes = ShareSizes { account_bytes: 50, network_bytes: 30, networks_bytes: 70, local_bytes: 40 };

    fn network(address: &str) -> MemoryOwner {
        MemoryOwner::network(address.parse().expect("an address"))
    }

    #[test]
    fn owners_have_shares_by_account_and_by_network() {
        let shares = MemoryShares::new(100, SIZES);
        let check = |owner: &MemoryOwner, bytes: usize| {
            let share = shares.share_of(owner);
            assert!(share.acquire(bytes).is_ok(), "{owner:?}");
            assert!(matches!(share.acquire(bytes + 1), Err(Exhausted::Share)), "{owner:?}");
        };
        check(&MemoryOwner::account("CN=Ann/O=Acme"), 50);
        check(&MemoryOwner::server("CN=Hub/O=Acme"), 50);
        check(&network("192.0.2.1"), 30);
        check(&network("2001:db8::1"), 30);
        check(&MemoryOwner::Local, 40);
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:0:0:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(MemoryOwner::account("CN=Hub/O=Acme"), MemoryOwner::server("CN=Hub/O=Acme"));
    }

    #[test]
    fn networks_leave_memory_to_accounts() {
        let shares = MemoryShares::new(100, SIZES);
        let take = |owner: &MemoryOwner, bytes| shares.share_of(owner).acquire(bytes);
        let _first = take(&network("192.0.2.1"), 30).expect("within the share");
        let _second = take(&network("192.0.2.2"), 30).expect("within the share");
        assert!(matches!(take(&network("192.0.2.3"), 11), Err(Exhausted::Total)), "the networks have 70 together");
        let _third = take(&network("192.0.2.3"), 10).expect("the rest of the networks");
        let ann = take(&MemoryOwner::account("ann"), 30).expect("accounts have the rest");
        assert!(matches!(take(&MemoryOwner::account("bob"), 1), Err(Exhausted::Total)));
        drop(ann);
        assert_eq!(shares.total().available_bytes(), 30);
    }

    #[test]
    fn share_outlives_its_sessions_while_bytes_are_held() {
        let shares = MemoryShares::new(100, SIZES);
        let ann = MemoryOwner::account("ann");
        let held = shares.share_of(&ann).acquire(40).expect("within the share");
        assert!(shares.share_of(&ann).acquire(11).is_err(), "a new session has no new share");
        drop(held);
        assert!(shares.share_of(&ann).acquire(50).is_ok());
    }

    #[test]
    fn table_keeps_few_owners_that_are_gone() {
        let shares = MemoryShares::new(100, SIZES);
        let kept: Vec<_> = (0..100).map(|number| shares.share_of(&MemoryOwner::account(&number.to_string()))).collect();
        for number in 0..10_000_u32 {
            drop(shares.share_of(&MemoryOwner::Network(std::net::Ipv4Addr::from(number).into())));
        }
        let count = shares.table.lock().pools.len();
        assert!((kept.len()..=2 * kept.len() + 1).contains(&count), "{count}");
        let held = kept[7].acquire(50).expect("within the share");
        assert!(shares.share_of(&MemoryOwner::account("7")).acquire(1).is_err(), "living shares are kept");
        drop(held);
    }

    #[test]
    fn every_share_holds_the_largest_message() {
        const MIB: usize = 1 << 20;
        let sizes = ShareSizes::new(512 * MIB, 64 * MIB);
        let expected = ShareSizes {
            account_bytes: 128 * MIB,
            network_bytes: 65 * MIB,
            networks_bytes: 384 * MIB,
            local_bytes: 256 * MIB,
        };
        assert_eq!(sizes, expected);
        let sizes = ShareSizes::new(512 * MIB, 256 * MIB);
        assert_eq!((sizes.account_bytes, sizes.network_bytes, sizes.local_bytes), (272 * MIB, 257 * MIB, 257 * MIB));
        let sizes = ShareSizes::new(10 * MIB, 64 * MIB);
        assert_eq!((sizes.account_bytes, sizes.network_bytes), (10 * MIB, 10 * MIB), "no more than there is");
    }
}
