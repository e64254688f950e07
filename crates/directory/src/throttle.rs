//! Throttling of failed logins per account and per network address, which slows down password guessing.
//!
//! Every failure is counted against the account and against the network address it came from. An IPv6 address counts
//! with its /64, its /56 and its /48 ([`ADDRESS_PREFIXES`]), because a single customer may have that many addresses.
//! The first failures cause no delay. Each further failure locks the account or the address for a delay that doubles
//! up to a maximum. Failures are forgiven one by one as quiet time passes after the last failure and its lock.
//!
//! - Attempts in progress count as possible failures: as many attempts may run concurrently as free failures are left,
//!   and after a lock one at a time. So a hundred concurrent attempts gain no more than a hundred sequential ones.
//! - An exchange that waits for its proof ([`OpenExchange`]) is no attempt yet, so exchanges that are left open delay
//!   nobody. An exchange that ends without a proof counts as a failed attempt.
//! - An address from which an account recently logged in is *familiar*, and has a separate count for that account. So
//!   an attacker who locks an account from elsewhere does not lock out its owner. The counts of the /56 and the /48,
//!   where the owner has neighbors, do not delay the owner either.
//! - A success clears the count that its attempt was counted against: the account's count at a familiar address,
//!   otherwise the account's general count. So the owner's logins do not give an attacker new free guesses.
//! - A success does not clear the count of the address. Otherwise an attacker could use an account of their own to get
//!   free guesses.
//! - Loopback addresses are not counted, because a web server or proxy on this machine may act for many people. The
//!   accounts are counted even then.
//!
//! Memory is bounded: each table drops its least recently used entry. The caller chooses the name of an account. For a
//! name that does not exist, it passes one for all spellings too (`login_account`), so that a lock of one spelling does
//! not reveal whether the account exists.
//!
//! Not included: counts are not kept across a restart and not shared between servers.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use base::networks::peer_network;
use base::sync::{Mutex, MutexGuard};

use crate::limits::{
    ACCOUNT_FAILURES_FREE, ACCOUNT_FORGIVE_AFTER, ADDRESS_FAILURES_FREE, ADDRESS_FORGIVE_AFTER, ADDRESS_PREFIXES,
    THROTTLE_DELAY_FIRST, THROTTLE_DELAY_MAX, THROTTLE_ENTRIES_MAX,
};

/// The mapping of failures to delays.
#[derive(Debug, Clone, Copy)]
pub struct DelaySchedule {
    /// Number of failures that cause no delay.
    pub failures_free: u32,
    /// Delay after the first failure that causes one.
    pub delay_first: Duration,
    /// Maximum delay.
    pub delay_max: Duration,
    /// Quiet time after which one failure is forgiven.
    pub forgive_after: Duration,
}

/// Parameters of throttling.
#[derive(Debug, Clone, Copy)]
pub struct ThrottleOptions {
    /// Schedule for one account.
    pub account: DelaySchedule,
    /// Schedule for one address (IPv6: one /64). Larger networks may fail more often ([`ADDRESS_PREFIXES`]).
    pub address: DelaySchedule,
    /// Maximum number of entries in each table.
    pub entries_max: usize,
}

impl Default for ThrottleOptions {
    fn default() -> Self {
        let schedule = |failures_free, forgive_after| DelaySchedule {
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

/// The error for an attempt that is not allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThrottleError {
    /// Time until an attempt is allowed.
    pub retry_after: Duration,
}

/// The network that a peer logs in from, as far as an account is familiar with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl Network {
    /// Returns the network of an address: the address itself, or the /64 of an IPv6 address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        Self(peer_network(address))
    }

    /// Returns the bytes of the network.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        match self.0 {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }
}

/// A network that failures are counted against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CountedNetwork {
    /// The first address of the network.
    address: IpAddr,
    /// The factor by which the network may fail more often than a single address. Each size has another one.
    factor: u32,
}

impl CountedNetwork {
    /// Returns the networks that an address is counted with, the smallest one first. A loopback address has none.
    fn containing(address: IpAddr) -> Vec<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => Vec::new(),
            address @ IpAddr::V4(_) => vec![Self { address, factor: 1 }],
            IpAddr::V6(address) => {
                let networks = ADDRESS_PREFIXES.iter();
                networks
                    .map(|(bits, factor)| Self { address: prefix(address, *bits).into(), factor: *factor })
                    .collect()
            }
        }
    }

    /// Returns `true` if the network may belong to many customers of a provider.
    fn is_shared(&self) -> bool {
        self.factor > 1
    }

    /// Returns the schedule of the network.
    fn schedule(&self, address: &DelaySchedule) -> DelaySchedule {
        DelaySchedule {
            failures_free: address.failures_free.saturating_mul(self.factor),
            forgive_after: address.forgive_after / self.factor.max(1),
            ..*address
        }
    }
}

/// Returns the first address of the network with the given number of prefix bits.
fn prefix(address: Ipv6Addr, bits: u32) -> Ipv6Addr {
    let host_bits = u128::BITS.saturating_sub(bits);
    Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0))
}

/// Counters of failed logins, shared by all sessions.
pub struct LoginThrottle {
    options: ThrottleOptions,
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
}

struct Tables {
    accounts: LruMap<String>,
    /// Counts by account and an address from which it recently logged in.
    familiar: LruMap<(String, Network)>,
    addresses: LruMap<CountedNetwork>,
}

impl LoginThrottle {
    /// Creates a throttle with no failures counted.
    #[must_use]
    pub fn new(options: ThrottleOptions, clock: Arc<dyn Clock>) -> Self {
        let tables = Tables {
            accounts: LruMap::new(options.entries_max),
            familiar: LruMap::new(options.entries_max),
            addresses: LruMap::new(options.entries_max),
        };
        Self { options, clock, tables: Mutex::new(tables) }
    }

    /// Checks whether an attempt is allowed, without counting one.
    pub fn check(&self, account: &str, from: IpAddr) -> Result<(), ThrottleError> {
        self.admit(&self.lock_tables(), &AttemptSource::new(account, from))
    }

    /// Begins an attempt. The caller reports its outcome to the returned [`LoginAttempt`].
    pub fn begin(self: &Arc<Self>, account: &str, from: IpAddr) -> Result<LoginAttempt, ThrottleError> {
        let subject = AttemptSource::new(account, from);
        let mut tables = self.lock_tables();
        self.admit(&tables, &subject)?;
        let against = tables.count_kind(&subject);
        tables.count(&subject, against).begin();
        subject.counted.iter().for_each(|network| tables.addresses.entry(network).begin());
        drop(tables);
        Ok(LoginAttempt { throttle: Arc::clone(self), subject, against, verdict: AttemptOutcome::Failed })
    }

    /// Opens an exchange in which an attempt will be made, if one is allowed now.
    pub fn open_exchange(self: &Arc<Self>, account: &str, from: IpAddr) -> Result<OpenExchange, ThrottleError> {
        self.check(account, from)?;
        Ok(OpenExchange { throttle: Arc::clone(self), account: account.to_owned(), from, is_open: true })
    }

    /// Returns the number of entries for accounts and addresses.
    #[must_use]
    pub fn entries(&self) -> usize {
        let tables = self.lock_tables();
        tables.accounts.len() + tables.familiar.len() + tables.addresses.len()
    }

    fn admit(&self, tables: &Tables, subject: &AttemptSource) -> Result<(), ThrottleError> {
        let now = self.clock.monotonic();
        let is_familiar = tables.count_kind(subject) == CountKind::Familiar;
        let account = tables.peek(subject).map(|count| count.remaining_delay(&self.options.account, now));
        let networks = subject.counted.iter().filter(|network| !(is_familiar && network.is_shared()));
        let networks = networks.filter_map(|network| {
            let count = tables.addresses.peek(network)?;
            Some(count.remaining_delay(&network.schedule(&self.options.address), now))
        });
        match networks.chain(account).max() {
            None | Some(Duration::ZERO) => Ok(()),
            Some(retry_after) => Err(ThrottleError { retry_after }),
        }
    }

    fn lock_tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock()
    }
}

/// An exchange that waits for the proof of its peer. If it is dropped, it counts as a failed attempt.
#[must_use = "an exchange that is dropped counts as a failed attempt"]
pub struct OpenExchange {
    throttle: Arc<LoginThrottle>,
    account: String,
    from: IpAddr,
    is_open: bool,
}

impl OpenExchange {
    /// Begins the attempt, if one is allowed now.
    pub fn begin(mut self) -> Result<LoginAttempt, ThrottleError> {
        self.is_open = false;
        self.throttle.begin(&self.account, self.from)
    }

    /// Ends the exchange without an attempt, because the server cannot go on with it.
    pub fn withdraw(mut self) {
        self.is_open = false;
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        if self.is_open {
            // During a delay there is nothing to count, as for any other attempt.
            drop(self.throttle.begin(&self.account, self.from));
        }
    }
}

/// An attempt in progress. If it is dropped without an outcome, it counts as failed.
#[must_use = "an attempt that is dropped counts as failed"]
pub struct LoginAttempt {
    throttle: Arc<LoginThrottle>,
    subject: AttemptSource,
    against: CountKind,
    verdict: AttemptOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttemptOutcome {
    Failed,
    Succeeded,
    Withdrawn,
}

impl LoginAttempt {
    /// Reports that the password was correct.
    pub fn report_success(mut self) {
        self.verdict = AttemptOutcome::Succeeded;
    }

    /// Reports that the password was wrong.
    pub fn report_failure(self) {}

    /// Reports that the server could not check the password, so that the attempt does not count.
    pub fn report_inconclusive(mut self) {
        self.verdict = AttemptOutcome::Withdrawn;
    }
}

impl Drop for LoginAttempt {
    fn drop(&mut self) {
        let throttle = &self.throttle;
        let subject = &self.subject;
        let now = throttle.clock.monotonic();
        let mut tables = throttle.lock_tables();
        let account = tables.count(subject, self.against);
        account.end(self.verdict, &throttle.options.account, now);
        if self.verdict == AttemptOutcome::Succeeded {
            *account = FailureCount { pending: account.pending, ..FailureCount::default() };
            tables.count(subject, CountKind::Familiar);
        }
        for network in &subject.counted {
            let schedule = network.schedule(&throttle.options.address);
            tables.addresses.entry(network).end(self.verdict, &schedule, now);
        }
    }
}

/// The count that an attempt is counted against, in addition to that of its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountKind {
    Account,
    Familiar,
}

impl Tables {
    fn count_kind(&self, subject: &AttemptSource) -> CountKind {
        match self.familiar.peek(&subject.familiar_key()) {
            Some(_) => CountKind::Familiar,
            None => CountKind::Account,
        }
    }

    fn count(&mut self, subject: &AttemptSource, against: CountKind) -> &mut FailureCount {
        match against {
            CountKind::Account => self.accounts.entry(&subject.account),
            CountKind::Familiar => self.familiar.entry(&subject.familiar_key()),
        }
    }

    fn peek(&self, subject: &AttemptSource) -> Option<&FailureCount> {
        self.familiar.peek(&subject.familiar_key()).or_else(|| self.accounts.peek(&subject.account))
    }
}

struct AttemptSource {
    account: String,
    network: Network,
    /// The networks that failures are counted against.
    counted: Vec<CountedNetwork>,
}

impl AttemptSource {
    fn new(account: &str, from: IpAddr) -> Self {
        let network = Network::from_address(from);
        Self { account: account.to_owned(), network, counted: CountedNetwork::containing(from) }
    }

    fn familiar_key(&self) -> (String, Network) {
        (self.account.clone(), self.network)
    }
}

/// The counted state of one account or address.
#[derive(Debug, Clone, Copy, Default)]
struct FailureCount {
    failures: u32,
    /// Number of attempts in progress.
    pending: u32,
    /// Start of the current quiet time: the end of the last lock, or the last failure if it caused no lock.
    quiet_since: Duration,
    locked_until: Duration,
}

impl FailureCount {
    /// Returns the time for which no attempt may begin.
    fn remaining_delay(&self, schedule: &DelaySchedule, now: Duration) -> Duration {
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

    fn end(&mut self, verdict: AttemptOutcome, schedule: &DelaySchedule, now: Duration) {
        self.pending = self.pending.saturating_sub(1);
        if verdict == AttemptOutcome::Failed {
            self.forgive(schedule, now);
            self.failures = self.failures.saturating_add(1);
            self.locked_until = now + delay(schedule, self.failures);
            self.quiet_since = self.quiet_since.max(self.locked_until);
        }
    }

    fn forgive(&mut self, schedule: &DelaySchedule, now: Duration) {
        let interval_us = schedule.forgive_after.as_micros().max(1);
        let forgiven = now.saturating_sub(self.quiet_since).as_micros() / interval_us;
        let forgiven = u32::try_from(forgiven).unwrap_or(u32::MAX);
        self.failures = self.failures.saturating_sub(forgiven);
    }
}

/// Returns the delay caused by the given number of failures.
fn delay(schedule: &DelaySchedule, failures: u32) -> Duration {
    let Some(doublings) = failures.checked_sub(schedule.failures_free + 1) else {
        return Duration::ZERO;
    };
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    schedule.delay_first.saturating_mul(factor).min(schedule.delay_max)
}

/// Counts by account, address or both. It drops the least recently used count.
type LruMap<K> = base::lru_map::LruMap<K, FailureCount>;

#[cfg(test)]
mod tests;
