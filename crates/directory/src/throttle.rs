//! Slows down the guessing of passwords, per account and per network address.
//!
//! Every failure is counted against the account and against the address that it came from (an IPv6 address counts with
//! its whole /64). The first failures are free; each further one locks the account, or the address, for a delay that
//! doubles up to a maximum. Quiet time after the last failure and its lock forgives one failure after another.
//!
//! - Attempts under way count as failures to come: what the free failures leave may be tried at once, and after a lock one
//!   at a time. So a hundred attempts at once are worth no more than a hundred one after the other.
//! - An address from which an account logged in lately is familiar, and has a count of its own for that account. So a
//!   stranger who locks an account from elsewhere does not lock out its owner.
//! - A success clears what its attempt was counted against: the account's count at a familiar address, else the account's.
//!   So the owner's logins do not give a stranger new free guesses.
//! - A success does not clear the address: an attacker with an account of his own must not buy free guesses with it.
//! - Loopback addresses are not counted: a web server or a proxy on this machine stands for many people. Accounts are.
//!
//! Memory is bounded: each table forgets what was not used for longest. Accounts are counted by the name that was
//! tried, whether it exists or not, so that a lock tells nothing about existence.
//!
//! Left out: nothing is kept across a restart, nothing is shared between servers.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Clock;

use crate::limits::{
    ACCOUNT_FAILURES_FREE, ACCOUNT_FORGIVE_AFTER, ADDRESS_FAILURES_FREE, ADDRESS_FORGIVE_AFTER, THROTTLE_DELAY_FIRST,
    THROTTLE_DELAY_MAX, THROTTLE_ENTRIES_MAX,
};

/// How failures turn into delays.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// Failures that cost no delay.
    pub failures_free: u32,
    /// The delay after the first one that does.
    pub delay_first: Duration,
    /// The longest delay.
    pub delay_max: Duration,
    /// The time that forgives one failure.
    pub forgive_after: Duration,
}

/// The numbers of throttling.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// For one account.
    pub account: Schedule,
    /// For one address.
    pub address: Schedule,
    /// Most entries of each table.
    pub entries_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        let schedule = |failures_free, forgive_after| Schedule {
            failures_free,
            delay_first: THROTTLE_DELAY_FIRST,
            delay_max: THROTTLE_DELAY_MAX,
            forgive_after,
        };
        Self {
            account: schedule(ACCOUNT_FAILURES_FREE, ACCOUNT_FORGIVE_AFTER),
            address: schedule(ADDRESS_FAILURES_FREE, ADDRESS_FORGIVE_AFTER),
            entries_max: THROTTLE_ENTRIES_MAX,
        }
    }
}

/// The attempt may not be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// The time after which it may.
    pub retry_after: Duration,
}

/// The address that failures are counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl Network {
    /// Gives the network of an address: itself, or the /64 of an IPv6 address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => Self(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))),
            address => Self(address),
        }
    }

    /// Gives the bytes of the network.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }
}

/// Counts failed logins. Shared by all sessions.
pub struct Throttle {
    options: Options,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

struct Tables {
    accounts: Recent<String>,
    /// Accounts together with the addresses from which they logged in.
    familiar: Recent<(String, Network)>,
    addresses: Recent<Network>,
}

impl Throttle {
    /// Starts with nothing counted.
    #[must_use]
    pub fn new(options: Options, clock: Arc<dyn Clock>) -> Self {
        let tables = Tables {
            accounts: Recent::new(options.entries_max),
            familiar: Recent::new(options.entries_max),
            addresses: Recent::new(options.entries_max),
        };
        Self { options, clock, tables: Mutex::new(tables) }
    }

    /// Tells whether an attempt may be made, without counting one.
    pub fn check(&self, account: &str, from: IpAddr) -> Result<(), Throttled> {
        self.admit(&self.tables(), &Subject::new(account, from))
    }

    /// Begins an attempt; what becomes of it is said to the [`Attempt`].
    pub fn begin(self: &Arc<Self>, account: &str, from: IpAddr) -> Result<Attempt, Throttled> {
        let subject = Subject::new(account, from);
        let mut tables = self.tables();
        self.admit(&tables, &subject)?;
        let against = tables.counted_against(&subject);
        tables.count(&subject, against).begin();
        if let Some(network) = subject.counted {
            tables.addresses.entry(&network).begin();
        }
        drop(tables);
        Ok(Attempt { throttle: Arc::clone(self), subject, against, verdict: Verdict::Failed })
    }

    /// Tells how many accounts and addresses are remembered.
    #[must_use]
    pub fn entries(&self) -> usize {
        let tables = self.tables();
        tables.accounts.len() + tables.familiar.len() + tables.addresses.len()
    }

    fn admit(&self, tables: &Tables, subject: &Subject) -> Result<(), Throttled> {
        let now = self.clock.monotonic();
        let account = tables.peek(subject).map(|count| count.wait(&self.options.account, now));
        let address = subject.counted.and_then(|network| tables.addresses.peek(&network));
        let address = address.map(|count| count.wait(&self.options.address, now));
        match account.max(address) {
            None | Some(Duration::ZERO) => Ok(()),
            Some(retry_after) => Err(Throttled { retry_after }),
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An attempt under way; dropped without a word, it counts as failed.
#[must_use = "an attempt that is dropped counts as failed"]
pub struct Attempt {
    throttle: Arc<Throttle>,
    subject: Subject,
    against: Against,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Failed,
    Succeeded,
    Withdrawn,
}

impl Attempt {
    /// Says that the password was right.
    pub fn succeeded(mut self) {
        self.verdict = Verdict::Succeeded;
    }

    /// Says that the password was wrong.
    pub fn failed(self) {}

    /// Says that nothing was learned, because the server could not check.
    pub fn withdrawn(mut self) {
        self.verdict = Verdict::Withdrawn;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let (throttle, subject) = (&self.throttle, &self.subject);
        let now = throttle.clock.monotonic();
        let mut tables = throttle.tables();
        let account = tables.count(subject, self.against);
        account.end(self.verdict, &throttle.options.account, now);
        if self.verdict == Verdict::Succeeded {
            *account = Count { pending: account.pending, ..Count::default() };
            tables.count(subject, Against::Familiar);
        }
        if let Some(network) = subject.counted {
            tables.addresses.entry(&network).end(self.verdict, &throttle.options.address, now);
        }
    }
}

/// What an attempt is counted against, besides its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Against {
    Account,
    Familiar,
}

impl Tables {
    fn counted_against(&self, subject: &Subject) -> Against {
        match self.familiar.peek(&subject.familiar()) {
            Some(_) => Against::Familiar,
            None => Against::Account,
        }
    }

    fn count(&mut self, subject: &Subject, against: Against) -> &mut Count {
        match against {
            Against::Account => self.accounts.entry(&subject.account),
            Against::Familiar => self.familiar.entry(&subject.familiar()),
        }
    }

    fn peek(&self, subject: &Subject) -> Option<&Count> {
        self.familiar.peek(&subject.familiar()).or_else(|| self.accounts.peek(&subject.account))
    }
}

struct Subject {
    account: String,
    network: Network,
    /// The network, unless it is loopback.
    counted: Option<Network>,
}

impl Subject {
    fn new(account: &str, from: IpAddr) -> Self {
        let network = Network::of(from);
        let counted = (!from.to_canonical().is_loopback()).then_some(network);
        Self { account: account.to_owned(), network, counted }
    }

    fn familiar(&self) -> (String, Network) {
        (self.account.clone(), self.network)
    }
}

/// What is counted against one account or address.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    failures: u32,
    /// Attempts under way.
    pending: u32,
    /// Forgiveness is counted from here: the end of the last lock, or the last forgiveness.
    quiet_since: Duration,
    locked_until: Duration,
}

impl Count {
    /// Gives the time for which no attempt may begin.
    fn wait(&self, schedule: &Schedule, now: Duration) -> Duration {
        let locked = self.locked_until.saturating_sub(now);
        let failures_at_worst = self.failures.saturating_add(self.pending);
        if self.pending > 0 && failures_at_worst > schedule.failures_free {
            return locked.max(delay(schedule, failures_at_worst));
        }
        locked
    }

    fn begin(&mut self) {
        self.pending = self.pending.saturating_add(1);
    }

    fn end(&mut self, verdict: Verdict, schedule: &Schedule, now: Duration) {
        self.pending = self.pending.saturating_sub(1);
        if verdict == Verdict::Failed {
            self.forgive(schedule, now);
            self.failures = self.failures.saturating_add(1);
            self.locked_until = now + delay(schedule, self.failures);
            self.quiet_since = self.quiet_since.max(self.locked_until);
        }
    }

    fn forgive(&mut self, schedule: &Schedule, now: Duration) {
        let interval_us = schedule.forgive_after.as_micros().max(1);
        let forgiven = now.saturating_sub(self.quiet_since).as_micros() / interval_us;
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_sub(forgiven);
    }
}

/// Gives the delay that this many failures cost.
fn delay(schedule: &Schedule, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(schedule.failures_free + 1) else {
        return Duration::ZERO;
    };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    schedule.delay_first.saturating_mul(factor).min(schedule.delay_max)
}

/// A map of bounded size that forgets what was not used for longest.
struct Recent<K> {
    entries: HashMap<K, (u64, Count)>,
    /// Time of last use to key; the times are distinct.
    order: BTreeMap<u64, K>,
    uses: u64,
    entries_max: usize,
}

impl<K: Hash + Eq + Clone> Recent<K> {
    fn new(entries_max: usize) -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), uses: 0, entries_max: entries_max.max(1) }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn peek(&self, key: &K) -> Option<&Count> {
        self.entries.get(key).map(|(_, count)| count)
    }

    /// Gives the count of a key, a new one if need be, and remembers that it was used.
    fn entry(&mut self, key: &K) -> &mut Count {
        self.uses += 1;
        let used = self.uses;
        if let Some((before, _)) = self.entries.get(key) {
            self.order.remove(before);
        } else if self.entries.len() >= self.entries_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.order.insert(used, key.clone());
        let (last, count) = self.entries.entry(key.clone()).or_default();
        *last = used;
        count
    }
}

#[cfg(test)]
mod tests;
