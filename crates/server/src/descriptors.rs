//! Division of the file descriptors that the system grants to this process.
//!
//! Sockets and files share one limit (`RLIMIT_NOFILE`). If connections used it up, the storage engine could not open
//! the next log or the next file of a table. It then refuses all writes until a restart, so a stranger could stop the
//! server with idle connections. Therefore the descriptors are divided before the store is opened, and each part stays
//! within its share:
//!
//! - *fixed*: the storage engine, apart from the files of tables that it keeps open ([`ENGINE_DESCRIPTORS`]); the
//!   process itself, its listeners and the administration port;
//! - *background work*: administration commands, the full-text index, child processes that read PDFs, builds of views;
//! - *files of tables* that the storage engine keeps open: `store.open_files`;
//! - *outgoing connections*: `router.connections`, with the lookups of their destinations;
//! - *connections*: `limits.connections`, with the lookups for messages that are checked.
//!
//! If the limit is too low for the configuration, the last three settings are lowered, with a warning. The shares of
//! the background work, the files and the outgoing connections are then at most a sixth, a quarter and a twelfth of
//! what is not fixed. If not even the least useful shares fit, the server does not start.

use std::fmt;

use admin::limits::CONTROL_CALLS_MAX;
use config::Config;
use config::keys::ListenKeys;
use config::setting::AutoCount;
use instance::limits::{CONNECTIONS_DEFAULT, PDF_CHILDREN_MAX, STORE_FILES_MIN};
use instance::memory_plan::{Machine, MemoryPlan};
use instance::system::raise_descriptor_limit;
use smtp::limits::NAME_SERVERS_ASKED_MAX;

use crate::limits::{
    ADMIN_CONNECTIONS_MAX, BACKGROUND_DESCRIPTORS_MIN, CONNECTIONS_MIN, CONNECTIONS_PER_CHECK,
    CONTROL_CALL_DESCRIPTORS, ENGINE_DESCRIPTORS, FULL_TEXT_DESCRIPTORS, FULL_TEXT_MERGES_MAX,
    FULL_TEXT_SEGMENT_DESCRIPTORS, PDF_CHILD_DESCRIPTORS, PROCESS_DESCRIPTORS, SENDER_CHECKS_MIN, TRANSFER_DESCRIPTORS,
    VIEW_BUILD_DESCRIPTORS,
};
use crate::listeners::network_listeners;

/// Descriptors for the lookups of one message that is checked. The lookups of a message follow one another.
const CHECK_DESCRIPTORS: u64 = NAME_SERVERS_ASKED_MAX as u64;

/// The next step for the operator.
const NEXT_STEP: &str = "LimitNOFILE= in the unit of systemd, `ulimit -n` in a shell";

/// The error returned if the system grants too few descriptors. For the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system allows this process {limit} open files and sockets, and the server needs at least {needed}; raise the limit ({NEXT_STEP})"
)]
pub struct TooFewDescriptors {
    /// The limit.
    pub limit: u64,
    /// The least limit with which the server starts.
    pub needed: u64,
}

/// The shares of the parts that can do with fewer descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Number of connections.
    pub connections: u64,
    /// Number of files of tables that the storage engine keeps open.
    pub store_files: u64,
    /// Number of outgoing connections.
    pub transfers: u64,
    /// Descriptors for background work.
    pub background: u64,
}

impl Shares {
    /// Returns the number of descriptors of all shares together.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        let transfers = self.transfers.saturating_mul(TRANSFER_DESCRIPTORS);
        let others = self.store_files.saturating_add(self.background);
        connection_descriptors(self.connections).saturating_add(transfers).saturating_add(others)
    }

    /// Returns the smallest shares with which the server is useful.
    fn least(wanted: &Self) -> Self {
        Self {
            connections: wanted.connections.min(CONNECTIONS_MIN),
            store_files: wanted.store_files.min(STORE_FILES_MIN),
            transfers: 1,
            background: wanted.background.min(BACKGROUND_DESCRIPTORS_MIN),
        }
    }
}

/// The descriptors that a configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Descriptors that cannot be reduced.
    pub fixed: u64,
    /// The shares that the settings ask for.
    pub wanted: Shares,
}

impl Demand {
    /// Returns the demand of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let segments = config.full_text.threads.saturating_add(FULL_TEXT_MERGES_MAX);
        let full_text = FULL_TEXT_DESCRIPTORS.saturating_add(segments.saturating_mul(FULL_TEXT_SEGMENT_DESCRIPTORS));
        let commands = CONTROL_CALLS_MAX as u64 * CONTROL_CALL_DESCRIPTORS;
        let children = PDF_CHILDREN_MAX as u64 * PDF_CHILD_DESCRIPTORS;
        let wanted = Shares {
            connections: config.limits.connections.unwrap_or_else(|| CONNECTIONS_DEFAULT) as u64,
            store_files: config.store.open_files,
            transfers: config.router.connections,
            background: full_text.saturating_add(commands + children + VIEW_BUILD_DESCRIPTORS),
        };
        let listeners = listener_count(&config.listen);
        let fixed = ENGINE_DESCRIPTORS + PROCESS_DESCRIPTORS + ADMIN_CONNECTIONS_MAX as u64 + listeners;
        Self { fixed, wanted }
    }

    /// Returns the demand with at most this number of connections.
    #[must_use]
    pub fn with_connections_max(self, connections_max: u64) -> Self {
        let connections = self.wanted.connections.min(connections_max);
        Self { wanted: Shares { connections, ..self.wanted }, ..self }
    }

    /// Returns the limit with which all settings fit.
    #[must_use]
    pub fn descriptors(&self) -> u64 {
        self.fixed.saturating_add(self.wanted.descriptors())
    }
}

/// Returns the shares of a limit of descriptors. Returns an error if the limit is too low.
pub fn divide(demand: &Demand, limit: u64) -> Result<Shares, TooFewDescriptors> {
    let wanted = demand.wanted;
    if demand.descriptors() <= limit {
        return Ok(wanted);
    }
    let least = Shares::least(&wanted);
    let needed = demand.fixed.saturating_add(least.descriptors());
    if limit < needed {
        return Err(TooFewDescriptors { limit, needed });
    }
    let free = limit - demand.fixed;
    let mut shares = Shares {
        connections: 0,
        store_files: wanted.store_files.min(least.store_files.max(free / 4)),
        transfers: wanted.transfers.min(least.transfers.max(free / 12 / TRANSFER_DESCRIPTORS)),
        background: wanted.background.min(least.background.max(free / 6)),
    };
    let rest = free.saturating_sub(shares.descriptors() - connection_descriptors(0));
    shares.connections = wanted.connections.min(connections_within(rest).max(least.connections));
    // If few connections are wanted, there is more for the others.
    let left = free.saturating_sub(shares.descriptors());
    shares.store_files = wanted.store_files.min(shares.store_files.saturating_add(left));
    let left = free.saturating_sub(shares.descriptors());
    shares.transfers = wanted.transfers.min(shares.transfers.saturating_add(left / TRANSFER_DESCRIPTORS));
    assert!(shares.descriptors() <= free, "the shares fit into the limit");
    Ok(shares)
}

/// Raises the limit of descriptors as far as the system allows, and lowers the settings that do not fit into it, with a
/// warning. Called before the store is opened. Returns an error if there are too few descriptors for the server.
pub fn prepare(config: &mut Config) -> Result<(), TooFewDescriptors> {
    let limit = raise_descriptor_limit();
    let mut demand = Demand::of(config);
    // A number that is set here no longer gives way to other uses of memory. So it is at most what memory permits. If
    // the memory does not suffice at all, opening the data folder reports it.
    if let Ok(plan) = MemoryPlan::compute(config, Machine::current()) {
        demand = demand.with_connections_max(plan.connections_max as u64);
    }
    let shares = divide(&demand, limit)?;
    if let Some(warning) = Reduction::of(&demand, &shares, limit) {
        tracing::warn!(target: "doublet", "{warning}");
    }
    if shares.connections < demand.wanted.connections {
        config.limits.connections = AutoCount::Set(shares.connections);
    }
    config.store.open_files = shares.store_files;
    config.router.connections = shares.transfers;
    Ok(())
}

/// Returns the maximum number of messages that are checked at the same time, for a number of connections.
#[must_use]
pub fn sender_checks(connections: u64) -> u64 {
    (connections / CONNECTIONS_PER_CHECK).max(SENDER_CHECKS_MIN)
}

/// The settings that were lowered. Displayed as a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reduction {
    limit: u64,
    needed: u64,
    /// The name of each lowered setting, its value in the configuration, and the lower one.
    settings: Vec<(&'static str, u64, u64)>,
}

impl Reduction {
    /// Returns the settings whose shares are smaller than wanted, or `None` if there are none.
    #[must_use]
    pub fn of(demand: &Demand, shares: &Shares, limit: u64) -> Option<Self> {
        let wanted = &demand.wanted;
        let settings = [
            ("limits.connections", wanted.connections, shares.connections),
            ("store.open_files", wanted.store_files, shares.store_files),
            ("router.connections", wanted.transfers, shares.transfers),
        ];
        let lowered: Vec<_> = settings.into_iter().filter(|(_, wanted, share)| share < wanted).collect();
        let needed = demand.descriptors();
        (!lowered.is_empty()).then_some(Self { limit, needed, settings: lowered })
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "the system allows this process {} open files and sockets, too few for the settings: ",
            self.limit
        )?;
        for (index, (name, wanted, share)) in self.settings.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(out, "{separator}{name} is {share} instead of {wanted}")?;
        }
        write!(out, "; raise the limit to {} ({NEXT_STEP}), or lower the settings", self.needed)
    }
}

/// Returns the descriptors of connections and of the lookups for their messages.
fn connection_descriptors(connections: u64) -> u64 {
    connections.saturating_add(sender_checks(connections).saturating_mul(CHECK_DESCRIPTORS))
}

/// Returns the number of connections whose descriptors fit into a share.
fn connections_within(share: u64) -> u64 {
    let many = share.saturating_mul(CONNECTIONS_PER_CHECK) / (CONNECTIONS_PER_CHECK + CHECK_DESCRIPTORS);
    let few = share.saturating_sub(SENDER_CHECKS_MIN * CHECK_DESCRIPTORS);
    many.min(few)
}

/// Returns the number of sockets that listen, with the control socket.
fn listener_count(keys: &ListenKeys) -> u64 {
    let network: usize = network_listeners(keys).into_iter().map(|(_, listen)| listen.0.len()).sum();
    network as u64 + u64::from(keys.lmtp.0.is_some()) + 1
}

#[cfg(test)]
mod tests {
    use config::{ConfigSources, load};

    use super::*;

    fn demand(assignments: &[&str]) -> Demand {
        let overrides = assignments.iter().map(|text| (*text).to_owned()).collect();
        Demand::of(&load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("a valid configuration"))
    }

    #[test]
    fn settings_that_fit_are_kept() {
        let demand = demand(&["store.open_files=1000", "limits.connections=500"]);
        let limit = demand.descriptors();
        assert_eq!(divide(&demand, limit), Ok(demand.wanted));
        assert_eq!(divide(&demand, u64::MAX), Ok(demand.wanted));
        assert_eq!(Reduction::of(&demand, &demand.wanted, limit), None);
        assert!(
            Demand::of(&load(&ConfigSources::default()).expect("valid")).descriptors() < 262_144,
            "the unit allows it"
        );
    }

    #[test]
    fn shares_fit_into_every_limit() {
        for assignments in [
            &[] as &[&str],
            &["limits.connections=1", "store.open_files=100000"],
            &["limits.connections=1000000", "store.open_files=64"],
            &["router.connections=10000", "full_text.threads=8", "limits.connections=30"],
        ] {
            let demand = demand(assignments);
            let least = (1..).find(|limit| divide(&demand, *limit).is_ok()).expect("some limit is enough");
            let mut before = Shares::least(&demand.wanted);
            for limit in (least..5_000).chain((5_000..600_000).step_by(997)) {
                let shares = divide(&demand, limit).expect("a higher limit is enough");
                let places = format!("{assignments:?} {limit} {shares:?}");
                assert!(demand.fixed + shares.descriptors() <= limit, "{places}");
                assert!(shares.connections >= demand.wanted.connections.min(CONNECTIONS_MIN), "{places}");
                assert!(shares.store_files >= STORE_FILES_MIN && shares.transfers >= 1, "{places}");
                let is_more = shares.connections + 8 >= before.connections;
                assert!(is_more, "{places} after {before:?}");
                before = shares;
            }
        }
    }

    #[test]
    fn connections_that_memory_does_not_permit_are_not_asked_for() {
        let demand = demand(&[]);
        let few = demand.with_connections_max(700);
        assert_eq!(few.wanted, Shares { connections: 700, ..demand.wanted });
        assert_eq!(divide(&few, few.descriptors()), Ok(few.wanted), "a limit that suffices for 700 lowers nothing");
        assert_eq!(demand.with_connections_max(u64::MAX), demand);
    }

    #[test]
    fn a_low_limit_is_divided() {
        let demand = demand(&[]);
        let shares = divide(&demand, 256).expect("enough to start");
        let expected = Shares { connections: 49, store_files: 49, transfers: 2, background: 24 };
        assert_eq!(shares, expected);
        let warning = Reduction::of(&demand, &shares, 256).expect("settings were lowered").to_string();
        assert_eq!(
            warning,
            "the system allows this process 256 open files and sockets, too few for the settings: limits.connections is \
             49 instead of 20000, store.open_files is 49 instead of 512, router.connections is 2 instead of 50; raise the \
             limit to 25982 (LimitNOFILE= in the unit of systemd, `ulimit -n` in a shell), or lower the settings"
        );
    }

    #[test]
    fn start_is_refused_with_too_few_descriptors() {
        let refused = divide(&demand(&[]), 128).expect_err("too few");
        assert_eq!(
            refused.to_string(),
            "the system allows this process 128 open files and sockets, and the server needs at least 213; raise the limit \
             (LimitNOFILE= in the unit of systemd, `ulimit -n` in a shell)"
        );
        assert!(divide(&demand(&[]), 213).is_ok() && divide(&demand(&[]), 212).is_err());
        let more_listeners = demand(&["listen.imap=127.0.0.1:1143,127.0.0.1:2143", "listen.lmtp=lmtp.sock"]);
        assert_eq!(divide(&more_listeners, 0), Err(TooFewDescriptors { limit: 0, needed: 215 }));
    }
}
