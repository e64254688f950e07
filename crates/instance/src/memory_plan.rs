//! The division of the server's memory (`server.memory`) among its parts.
//!
//! A [`MemoryPlan`] has the size of every large consumer of memory. Sizes that the configuration sets are used as they
//! are. Each of the others has a full size and a least size: the plan gives all of them the same fraction of their full
//! sizes, as large as the ceiling permits. Parts that follow from others, such as the copies of messages, are computed
//! for each fraction. The rest goes to the cache of the store.
//!
//! Invariants: the sum of the parts never exceeds the ceiling. A ceiling that is not set is half of the memory of the
//! machine, but at most what the full sizes need and at least what the least sizes need. So memory that is not scarce
//! changes nothing, and a configuration that sets no ceiling is never refused.
//!
//! The plan counts what the server keeps by design. The page on operating (`docs/operating.md`) lists what is not
//! counted.

use std::fmt;

use config::Config;
use config::limits::CONNECTION_BYTES;
use config::setting::AutoSize;
use config::units::ByteSize;
use mail::limits::{CACHED_PROFILE_BYTES_MAX, HEAD_CACHE_BYTES_MAX};
use notes::limits::FOLDER_CACHE_BYTES_MAX;
use search::limits::COMMIT_BYTES;
use store::limits::WRITE_CACHE_BYTES_MAX;

use crate::limits::{
    CONNECTIONS_DEFAULT, CONNECTIONS_MIN, GAP_CACHE_BYTES, MESSAGE_COPIES_MAX, PROGRAM_BYTES, STORE_CACHE_BYTES_MAX,
    WAITING_TEXT_FACTOR,
};
use crate::system::{memory_bytes, processors};
use crate::thread_counts::ThreadCounts;

const MIB: u64 = 1 << 20;

/// Number of equal steps from the least sizes to the full sizes.
const STEPS: u64 = 1_024;

/// The full size and the least size of a part that the configuration does not set, in bytes.
struct SizeRange {
    full: u64,
    least: u64,
}

impl SizeRange {
    const fn new(full: u64, least: u64) -> Self {
        Self { full, least }
    }

    /// Returns the size that is set, or else the given step, in whole MiB.
    fn size(&self, setting: AutoSize, step: u64) -> ByteSize {
        setting.0.unwrap_or_else(|| ByteSize(((self.full / MIB * step / STEPS) * MIB).max(self.least)))
    }
}

const STORE_CACHE: SizeRange = SizeRange::new(256 * MIB, 16 * MIB);
const WRITE_BUFFER: SizeRange = SizeRange::new(192 * MIB, 24 * MIB);
const MESSAGE_MEMORY: SizeRange = SizeRange::new(512 * MIB, 16 * MIB);
const BLOB_CACHE: SizeRange = SizeRange::new(32 * MIB, 4 * MIB);
const NAME_CACHE: SizeRange = SizeRange::new(16 * MIB, 2 * MIB);
const INDEXING_THREAD: SizeRange = SizeRange::new(64 * MIB, 16 * MIB);
const VIEW_REBUILD: SizeRange = SizeRange::new(64 * MIB, 8 * MIB);

/// The memory and the processors that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The memory in bytes.
    pub memory_bytes: u64,
    /// The number of processors.
    pub processors: u64,
}

impl Machine {
    /// Returns the machine on which this process runs.
    #[must_use]
    pub fn current() -> Self {
        Self { memory_bytes: memory_bytes(), processors: processors() }
    }
}

/// The error returned if `server.memory` is less than the least sizes of the parts. For the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "server.memory: {ceiling} is not enough, because these parts need at least {}: {least}; increase it, or lower \
     limits.message_size, limits.connections, server.pool_tasks or the parts that are set",
    show(.least.total_bytes())
)]
pub struct MemoryPlanError {
    /// The ceiling that is set.
    pub ceiling: ByteSize,
    /// The least sizes.
    pub least: Box<MemoryPlan>,
}

/// The sizes of the parts of the server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Maximum sum of all parts.
    pub ceiling: ByteSize,
    /// `true` if the machine has too little memory for this plan: less than the ceiling that is set, or less than twice
    /// the least sizes if none is set.
    pub exceeds_machine: bool,
    /// Maximum number of connections (`limits.connections`).
    pub connections_max: usize,
    /// Memory for recently read blocks of the store (`store.cache`).
    pub store_cache: ByteSize,
    /// Memory for changes that are not in a table yet (`store.write_buffer`).
    pub write_buffer: ByteSize,
    /// Memory for messages and calls in transit (`limits.message_memory`).
    pub message_memory: ByteSize,
    /// Memory for recent attachments (`blobs.cache`).
    pub blob_cache: ByteSize,
    /// Memory for looked-up names (`directory.name_cache`).
    pub name_cache: ByteSize,
    /// Number of profile documents in memory (`http.profile_cache`).
    pub cached_profiles: u64,
    /// Memory of each indexing thread (`full_text.memory`).
    pub indexing_thread: ByteSize,
    /// Memory for sorting the rows of a view (`views.rebuild_memory`).
    pub view_rebuild: ByteSize,
    /// The numbers of threads.
    pub threads: ThreadCounts,
    message_size: ByteSize,
    password_memory: ByteSize,
    indexing_threads: u64,
}

impl MemoryPlan {
    /// Computes the division of the memory. Returns an error if the ceiling is set and the least sizes exceed it.
    pub fn compute(config: &Config, machine: Machine) -> Result<Self, MemoryPlanError> {
        let least = Self::at_step(config, machine, 0);
        let least_bytes = least.total_bytes();
        let half_bytes = machine.memory_bytes / 2;
        let (ceiling, exceeds_machine) = match config.server.memory.0 {
            Some(ceiling) => (ceiling, ceiling.0 > machine.memory_bytes),
            None => {
                let full_bytes = Self::at_step(config, machine, STEPS).total_bytes();
                let ceiling_mib = (half_bytes / MIB).min(full_bytes.div_ceil(MIB)).max(least_bytes.div_ceil(MIB));
                (ByteSize(ceiling_mib * MIB), half_bytes < least_bytes)
            }
        };
        if least_bytes > ceiling.0 {
            return Err(MemoryPlanError { ceiling, least: Box::new(least) });
        }
        let mut steps = (1..=STEPS).rev().map(|step| Self::at_step(config, machine, step));
        let mut plan = steps.find(|plan| plan.total_bytes() <= ceiling.0).unwrap_or(least);
        plan.ceiling = ceiling;
        plan.exceeds_machine = exceeds_machine;
        if config.store.cache.0.is_none() {
            let rest = (ceiling.0 - plan.total_bytes()) / MIB * MIB;
            plan.store_cache.0 = plan.store_cache.0.saturating_add(rest).min(STORE_CACHE_BYTES_MAX);
        }
        Ok(plan)
    }

    /// Returns the plan of a step from the least sizes (0) to the full sizes ([`STEPS`]), without a ceiling.
    fn at_step(config: &Config, machine: Machine, step: u64) -> Self {
        let limits = &config.limits;
        let two_messages = limits.message_size.0.saturating_mul(2);
        let message_memory = SizeRange::new(MESSAGE_MEMORY.full, MESSAGE_MEMORY.least.max(two_messages));
        let connections = || (CONNECTIONS_DEFAULT * step / STEPS).max(CONNECTIONS_MIN);
        Self {
            ceiling: ByteSize(u64::MAX),
            exceeds_machine: false,
            connections_max: limits.connections.unwrap_or_else(connections),
            store_cache: STORE_CACHE.size(config.store.cache, step),
            write_buffer: WRITE_BUFFER.size(config.store.write_buffer, step),
            message_memory: message_memory.size(limits.message_memory, step),
            blob_cache: BLOB_CACHE.size(config.blobs.cache, step),
            name_cache: NAME_CACHE.size(config.directory.name_cache, step),
            cached_profiles: config.http.profile_cache,
            indexing_thread: INDEXING_THREAD.size(config.full_text.memory, step),
            view_rebuild: VIEW_REBUILD.size(config.views.rebuild_memory, step),
            threads: ThreadCounts::new(&config.server, machine.processors),
            message_size: limits.message_size,
            password_memory: config.directory.password_memory,
            indexing_threads: config.full_text.threads,
        }
    }

    /// Returns the parts with their names in metrics and their sizes in bytes.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u64); 13] {
        let indexing = self.indexing_thread.0.saturating_mul(self.indexing_threads);
        [
            ("connections", (self.connections_max as u64).saturating_mul(CONNECTION_BYTES)),
            ("messages", self.message_memory.0),
            ("message_copies", self.message_copies_bytes()),
            ("store_cache", self.store_cache.0),
            ("write_buffer", self.write_buffer.0),
            ("record_caches", WRITE_CACHE_BYTES_MAX as u64 + GAP_CACHE_BYTES),
            ("attachment_cache", self.blob_cache.0),
            ("mailbox_caches", self.mailbox_caches_bytes()),
            ("name_cache", self.name_cache.0),
            ("password_hashes", self.password_memory.0.saturating_mul(self.threads.logins as u64)),
            ("full_text", indexing.saturating_add(self.waiting_text().0)),
            ("view_rebuild", self.view_rebuild.0.saturating_add(self.view_rebuild.0 / 4)),
            ("program", PROGRAM_BYTES),
        ]
    }

    fn mailbox_caches_bytes(&self) -> u64 {
        let profiles = self.cached_profiles.saturating_mul(CACHED_PROFILE_BYTES_MAX as u64);
        let whole = profiles.div_ceil(MIB).saturating_mul(MIB);
        whole.saturating_add(FOLDER_CACHE_BYTES_MAX as u64 + HEAD_CACHE_BYTES_MAX as u64)
    }

    /// Returns the sum of all parts in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.parts().iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// Returns the maximum length of the text that waits for the indexing threads.
    #[must_use]
    pub fn waiting_text(&self) -> ByteSize {
        ByteSize(self.indexing_thread.0.saturating_mul(WAITING_TEXT_FACTOR).min(COMMIT_BYTES as u64))
    }

    /// Returns the memory for copies of messages while threads check, sign or store them. Every thread works on one
    /// message, and all of these messages are in the memory for messages.
    fn message_copies_bytes(&self) -> u64 {
        let threads = self.threads.workers.saturating_add(self.threads.network) as u64;
        let messages = self.message_size.0.saturating_mul(threads).min(self.message_memory.0);
        messages.saturating_mul(MESSAGE_COPIES_MAX)
    }
}

impl fmt::Display for MemoryPlan {
    /// Writes the parts for the operator: `connections 625MiB, messages 512MiB` and so on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, bytes)) in self.parts().iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{} {}", name.replace('_', " "), show(*bytes))?;
        }
        Ok(())
    }
}

/// Formats a number of bytes in MiB, rounded up.
fn show(bytes: u64) -> String {
    format!("{}MiB", bytes.div_ceil(MIB))
}

#[cfg(test)]
mod tests;
