//! The published rows of the articles about Domino, in the order of their tables.
//!
//! They are in the file `published.csv` beside this one, which is a part of the program. They were measured on other
//! hardware, from 2002 to 2009, and are shown beside the rows of a run with this mark.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// The mark of all rows.
pub const REMARK: &str = "other hardware, 2002–2009";

const FILE: &str = include_str!("published.csv");
static ROWS: LazyLock<Vec<PublishedRow>> = LazyLock::new(|| FILE.lines().skip(1).filter_map(parse).collect());

const PER_MB: f64 = 1_048_576.0;
const MB_PER_GB: f64 = 1.0 / 1_024.0;
const KB_PER_MB: f64 = 1_024.0;

/// The rows of the articles that have other names here: the name of an article, the name here, and by what a value of
/// this program is multiplied for the unit of the article.
const NAMES: &[(&str, &str, f64)] = &[
    ("cpu_utilization", "processor_percent_busy", 1.0),
    ("cpu_busy", "processor_percent_busy", 1.0),
    ("cpu_percent_busy", "processor_percent_busy", 1.0),
    ("cpu_usage_percent", "processor_percent_busy", 1.0),
    ("average_cpu_percent_at_steady_state", "processor_percent_busy", 1.0),
    ("network_traffic_bytes_per_sec", "network_mb_per_second", PER_MB),
    ("total_network_bytes_per_sec", "network_mb_per_second", PER_MB),
    ("network_bytes_per_sec", "network_mb_per_second", PER_MB),
    ("disk_read_requests_per_second", "total_disk_reads_per_second", 1.0),
    ("disk_write_requests_per_second", "total_disk_writes_per_second", 1.0),
    ("total_disk_reads_kb_per_sec", "total_disk_mb_read_per_second", KB_PER_MB),
    ("total_disk_writes_kb_per_sec", "total_disk_mb_written_per_second", KB_PER_MB),
    ("shared_memory_used_mb", "shared_memory_used_in_mb", 1.0),
    ("process_memory_used_mb", "process_memory_used_in_mb", 1.0),
    ("memory_used_mb", "process_proportional_memory_in_mb", 1.0),
    ("memory_utilization_mb", "process_proportional_memory_in_mb", 1.0),
    ("memory_utilization_gb", "process_proportional_memory_in_mb", MB_PER_GB),
    ("real_memory_used_gb", "process_proportional_memory_in_mb", MB_PER_GB),
    ("domino_allocated_memory_mb", "process_resident_memory_in_mb", 1.0),
    ("average_response_time_msec_100_mb_per_sec_ethernet", "response_time_msec", 1.0),
];

/// The rows of the articles that have no counterpart here, with the reason.
pub(crate) const WITHOUT_COUNTERPART: &[(&str, &str)] = &[
    ("shared_handles_used_mb", "the server has no handles"),
    ("process_handles_used_mb", "the server has no handles"),
    ("http_process_memory_used_in_mb", "the server is one process for all protocols: see process_memory_used_in_mb"),
    ("http_shared_memory_used_in_mb", "the server is one process for all protocols: see shared_memory_used_in_mb"),
    ("replica_cluster_seconds_on_queue", "the server of this run is in no cluster"),
    ("number_of_users_supported", "it is not a figure of one run: max-users searches it"),
    (
        "total_disk_intensity",
        "the article states neither the time base of the rate nor the unit of the time: see disk_operations_in_progress",
    ),
    ("total_disk_transfer_rate", "the article states no time base: see total_disk_operations_per_second"),
    ("network_bytes_received_and_sent_smf108_nwbr_nwbs", "the article states no time base: see network_mb_per_second"),
];

/// A value of a table of an article.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedRow {
    /// The table, with its number in the article if it has one.
    pub table: String,
    /// The workload.
    pub workload: String,
    /// The platform.
    pub platform: String,
    /// The users.
    pub users: u64,
    /// The release of Domino.
    pub release: String,
    /// The name of the row.
    pub resource: String,
    /// The unit.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// The tag of the article.
    pub source: String,
    /// [`REMARK`].
    pub remark: String,
}

/// Returns the rows of all tables that have this workload, in the order of the articles. A table has the rows of the
/// workload or release with which it is compared, too.
pub fn rows(workload: &str) -> Vec<PublishedRow> {
    let tables: BTreeSet<(&str, &str)> = ROWS.iter().filter(|row| row.workload == workload).map(table).collect();
    ROWS.iter().filter(|row| tables.contains(&table(row))).cloned().collect()
}

/// Returns the name of a row of an article in reports of this program, and by what its values here are multiplied for
/// the unit of the article.
pub fn own_name(resource: &str) -> (&str, f64) {
    let own = NAMES.iter().find(|(published, _, _)| *published == resource);
    own.map_or((resource, 1.0), |(_, own, factor)| (own, *factor))
}

/// Returns why a row of the articles has no counterpart here, or `None` if it has one. A stored report may have a row
/// of this name that is not its counterpart.
pub fn reason_without_counterpart(resource: &str) -> Option<&'static str> {
    WITHOUT_COUNTERPART.iter().find(|(name, _)| *name == resource).map(|(_, reason)| *reason)
}

/// Returns the names of the rows of all articles.
#[cfg(test)]
pub(crate) fn resources() -> BTreeSet<&'static str> {
    ROWS.iter().map(|row| row.resource.as_str()).collect()
}

/// Returns the rows of the articles with this workload that have no counterpart here, with the reason.
pub fn without_counterpart(workload: &str) -> Vec<(&'static str, &'static str)> {
    let published = rows(workload);
    let is_published = |(name, _): &&(&str, &str)| published.iter().any(|row| row.resource == *name);
    WITHOUT_COUNTERPART.iter().filter(is_published).copied().collect()
}

fn table(row: &PublishedRow) -> (&str, &str) {
    (&row.source, &row.table)
}

fn parse(line: &str) -> Option<PublishedRow> {
    let fields: Vec<&str> = line.split(',').collect();
    let [table, workload, platform, users, release, resource, unit, value, source] = fields[..] else { return None };
    let text = str::to_owned;
    Some(PublishedRow {
        table: text(table),
        workload: text(workload),
        platform: text(platform),
        users: users.parse().ok()?,
        release: text(release),
        resource: text(resource),
        unit: text(unit),
        value: value.parse().ok()?,
        source: text(source),
        remark: text(REMARK),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_rows() {
        assert_eq!(FILE.lines().next(), Some("table,workload,platform,users,release,resource,unit,value,source"));
        assert_eq!(ROWS.len(), FILE.lines().count() - 1);
    }

    /// Checks the published NotesMark, by which the weights of a search and of a replication are set.
    #[test]
    fn tables_have_the_rows_of_both_sides() {
        let n8mail = rows("N8Mail");
        let first = (n8mail[0].resource.as_str(), n8mail[0].workload.as_str(), n8mail[0].value);
        assert_eq!(first, ("cpu_utilization", "N7Mail", 61.0));
        assert_eq!(n8mail.len(), 82);
        assert!(n8mail.iter().all(|row| row.remark == REMARK && row.source == "seed4"));
        let notesmarks: Vec<f64> =
            rows("EntMail").iter().filter(|row| row.resource == "notesmark").map(|row| row.value).collect();
        assert!(notesmarks.contains(&9_367.0) && notesmarks.contains(&9_448.0), "{notesmarks:?}");
        assert!(rows("Idle").is_empty());
        assert_eq!(own_name("cpu_busy"), ("processor_percent_busy", 1.0));
        assert_eq!(own_name("notesmark"), ("notesmark", 1.0));
        assert_eq!(own_name("network_bytes_per_sec"), ("network_mb_per_second", 1_048_576.0));
    }
}
