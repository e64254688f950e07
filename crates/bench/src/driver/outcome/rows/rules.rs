//! The rows about users, driver and server: their names, units, and how they follow from what was observed.
//!
//! Names are those of the articles' tables, where they have the row. MB are 1,048,576 bytes.

use crate::driver::observer::BorderRecord;
use crate::target::counters::ServerCounter;
use crate::target::disk::DiskCounters;
use crate::target::process::Consumption;

const BYTES_PER_MB: f64 = 1_048_576.0;
const PER_MB: f64 = 1.0 / BYTES_PER_MB;
const MILLIS_PER_SECOND: f64 = 1_000.0;
const MICROS_PER_SECOND: f64 = 1e6;
/// Microseconds in a second as a percentage.
const PERCENT_OF_TIME: f64 = 100.0 / MICROS_PER_SECOND;

/// What is read at a border.
pub(super) type Observed = fn(&BorderRecord) -> Option<f64>;

/// How the value of a sample follows from its borders.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// What is read at its end.
    Level(Observed),
    /// The growth of a counter in a second, times a factor.
    Rate {
        /// The counter.
        counter: Observed,
        /// The factor.
        factor: f64,
    },
    /// The growth of a processor time in microseconds, in percent of the time of all cores.
    ProcessorShare(Observed),
    /// The growth of a counter by that of another one, times a factor. No value while the other one stands still.
    Ratio {
        /// The counter.
        part: Observed,
        /// The other one.
        whole: Observed,
        /// The factor.
        factor: f64,
    },
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A file of `/proc` about the processes of the server.
    Process(&'static str),
    /// `/metrics` of the server.
    Metrics,
    /// The device of the data folder.
    Disk,
    /// A file of `/proc` about the machine.
    Machine(&'static str),
    /// The driver.
    Driver,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowRule {
    /// The name.
    pub(super) resource: &'static str,
    /// The unit.
    pub(super) unit: &'static str,
    /// Where it comes from.
    pub(super) origin: Origin,
    /// How it follows from what is read.
    pub(super) value: Value,
}

const fn rule(resource: &'static str, unit: &'static str, origin: Origin, value: Value) -> RowRule {
    RowRule { resource, unit, origin, value }
}

const fn level(observed: Observed) -> Value {
    Value::Level(observed)
}

const fn rate(counter: Observed, factor: f64) -> Value {
    Value::Rate { counter, factor }
}

const fn ratio(part: Observed, whole: Observed, factor: f64) -> Value {
    Value::Ratio { part, whole, factor }
}

fn server(border: &BorderRecord, value: fn(&Consumption) -> Option<u64>) -> Option<f64> {
    value(border.server.as_ref()?).map(|value| value as f64)
}

fn server_mb(border: &BorderRecord, value: fn(&Consumption) -> Option<u64>) -> Option<f64> {
    server(border, value).map(|bytes| bytes * PER_MB)
}

fn disk(border: &BorderRecord, value: fn(&DiskCounters) -> u64) -> Option<f64> {
    border.disk.as_ref().map(|disk| value(disk) as f64)
}

fn counted(border: &BorderRecord, counter: ServerCounter) -> Option<f64> {
    border.counters.as_ref()?.get(counter)
}

fn sum(border: &BorderRecord, counters: [ServerCounter; 2]) -> Option<f64> {
    Some(counted(border, counters[0])? + counted(border, counters[1])?)
}

const STAT: Origin = Origin::Process("/proc/PID/stat");
const STATUS: Origin = Origin::Process("/proc/PID/status");
const ROLLUP: Origin = Origin::Process("/proc/PID/smaps_rollup");
const IO: Origin = Origin::Process("/proc/PID/io");
const VMSTAT: Origin = Origin::Machine("/proc/vmstat");

/// The rows about the users.
pub(super) const USERS: &[RowRule] = &[
    rule("users_connected", "users", Origin::Driver, level(|border| Some(border.users_connected as f64))),
    rule("steps_ended", "steps", Origin::Driver, level(|border| Some(border.sample.steps_ended as f64))),
    rule("steps_failed", "steps", Origin::Driver, level(|border| Some(border.sample.steps_failed as f64))),
    rule("transactions", "transactions", Origin::Driver, level(|border| Some(border.sample.transactions as f64))),
    rule(
        "response_time_msec",
        "ms",
        Origin::Driver,
        level(|border| Some(border.sample.response_mean_us? / MILLIS_PER_SECOND)),
    ),
];

/// The rows about the driver.
pub(super) const DRIVER: &[RowRule] = &[
    rule(
        "driver_processor_percent_of_one_core",
        "percent of one core",
        Origin::Driver,
        rate(|border| Some(border.driver?.processor_us as f64), PERCENT_OF_TIME),
    ),
    rule(
        "driver_resident_memory_in_mb",
        "MB",
        Origin::Driver,
        level(|border| Some(border.driver?.resident_bytes as f64 * PER_MB)),
    ),
];

/// The rows about the server and its machine: first those of the articles' tables in their order, then others.
pub(super) const SERVER: &[RowRule] = &[
    rule(
        "processor_percent_busy",
        "percent of all cores",
        STAT,
        Value::ProcessorShare(|border| server(border, |own| Some(own.processor_us))),
    ),
    rule(
        "total_disk_operations_per_second",
        "operations a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.reads + disk.writes), 1.0),
    ),
    rule(
        "total_disk_reads_per_second",
        "reads a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.reads), 1.0),
    ),
    rule(
        "total_disk_writes_per_second",
        "writes a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.writes), 1.0),
    ),
    rule(
        "total_disk_mb_transferred_per_second",
        "MB a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.read_bytes + disk.written_bytes), PER_MB),
    ),
    rule(
        "total_disk_mb_read_per_second",
        "MB a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.read_bytes), PER_MB),
    ),
    rule(
        "total_disk_mb_written_per_second",
        "MB a second",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.written_bytes), PER_MB),
    ),
    rule(
        "data_disk_percent_busy_percent",
        "percent of the time",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.busy_us), PERCENT_OF_TIME),
    ),
    // By Little's law, the sum of the times of all operations in a second.
    rule(
        "disk_operations_in_progress",
        "operations at a time",
        Origin::Disk,
        rate(|border| disk(border, |disk| disk.operations_us), 1.0 / MICROS_PER_SECOND),
    ),
    rule("shared_memory_used_in_mb", "MB", STATUS, level(|border| server_mb(border, |own| Some(own.shared_bytes)))),
    rule("process_memory_used_in_mb", "MB", ROLLUP, level(|border| server_mb(border, |own| own.private_bytes))),
    rule(
        "network_mb_per_second",
        "MB a second",
        Origin::Driver,
        rate(|border| Some(border.network_bytes as f64), PER_MB),
    ),
    rule(
        "base_pool_pages_per_second",
        "major page faults a second",
        STAT,
        rate(|border| server(border, |own| Some(own.page_faults)), 1.0),
    ),
    rule("paging_in_swap_per_second", "pages a second", VMSTAT, rate(|border| Some(border.swapped?.read as f64), 1.0)),
    rule(
        "paging_out_swap_per_second",
        "pages a second",
        VMSTAT,
        rate(|border| Some(border.swapped?.written as f64), 1.0),
    ),
    rule(
        "processor_percent_of_one_core",
        "percent of one core",
        STAT,
        rate(|border| server(border, |own| Some(own.processor_us)), PERCENT_OF_TIME),
    ),
    rule(
        "processor_system_percent_of_one_core",
        "percent of one core",
        STAT,
        rate(|border| server(border, |own| Some(own.system_us)), PERCENT_OF_TIME),
    ),
    rule(
        "process_resident_memory_in_mb",
        "MB",
        STATUS,
        level(|border| server_mb(border, |own| Some(own.resident_bytes))),
    ),
    rule(
        "process_proportional_memory_in_mb",
        "MB",
        ROLLUP,
        level(|border| server_mb(border, |own| own.proportional_bytes)),
    ),
    rule(
        "process_disk_mb_read_per_second",
        "MB a second",
        IO,
        rate(|border| server(border, |own| Some(own.disk?.read_bytes)), PER_MB),
    ),
    rule(
        "process_disk_mb_written_per_second",
        "MB a second",
        IO,
        rate(|border| server(border, |own| Some(own.disk?.written_bytes)), PER_MB),
    ),
    rule(
        "server_response_time_msec",
        "ms",
        Origin::Metrics,
        ratio(
            |border| counted(border, ServerCounter::NativeCallSeconds),
            |border| counted(border, ServerCounter::NativeCalls),
            MILLIS_PER_SECOND,
        ),
    ),
    rule(
        "server_http_response_time_msec",
        "ms",
        Origin::Metrics,
        ratio(
            |border| counted(border, ServerCounter::HttpRequestSeconds),
            |border| counted(border, ServerCounter::HttpRequests),
            MILLIS_PER_SECOND,
        ),
    ),
    rule(
        "server_job_time_msec",
        "ms, waiting for a thread included",
        Origin::Metrics,
        ratio(
            |border| sum(border, [ServerCounter::JobsWaitedSeconds, ServerCounter::JobsRanSeconds]),
            |border| counted(border, ServerCounter::Jobs),
            MILLIS_PER_SECOND,
        ),
    ),
    rule("sessions", "sessions", Origin::Metrics, level(|border| counted(border, ServerCounter::Sessions))),
    rule(
        "connections_open",
        "connections",
        Origin::Metrics,
        level(|border| counted(border, ServerCounter::Connections)),
    ),
    rule("queue_messages", "messages", Origin::Metrics, level(|border| counted(border, ServerCounter::Queue))),
    rule(
        "log_mb_written_per_second",
        "MB a second",
        Origin::Metrics,
        rate(|border| counted(border, ServerCounter::LogBytes), PER_MB),
    ),
    rule(
        "log_syncs_per_second",
        "syncs a second",
        Origin::Metrics,
        rate(|border| counted(border, ServerCounter::LogSyncs), 1.0),
    ),
    rule(
        "store_mb_written_per_second",
        "MB a second by flushes and compactions",
        Origin::Metrics,
        rate(|border| sum(border, [ServerCounter::FlushBytes, ServerCounter::CompactionBytes]), PER_MB),
    ),
    rule(
        "store_stalled_percent_of_time",
        "percent of the time",
        Origin::Metrics,
        rate(|border| counted(border, ServerCounter::StalledSeconds), 100.0),
    ),
    rule(
        "block_cache_hits_percent",
        "percent of the lookups",
        Origin::Metrics,
        ratio(
            |border| counted(border, ServerCounter::CacheHits),
            |border| sum(border, [ServerCounter::CacheHits, ServerCounter::CacheMisses]),
            100.0,
        ),
    ),
    rule(
        "attachments_stored",
        "attachments",
        Origin::Metrics,
        level(|border| counted(border, ServerCounter::Attachments)),
    ),
    rule(
        "attachments_stored_in_mb",
        "MB",
        Origin::Metrics,
        level(|border| Some(counted(border, ServerCounter::AttachmentBytes)? * PER_MB)),
    ),
    rule(
        "attachments_saved_in_mb",
        "MB",
        Origin::Metrics,
        level(|border| Some(counted(border, ServerCounter::AttachmentSavedBytes)? * PER_MB)),
    ),
];
