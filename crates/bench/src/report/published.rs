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

/// The rows of this program that have other names in the articles.
const NAMES: &[(&str, &[&str])] = &[
    (
        "processor_percent_busy",
        &[
            "cpu_utilization",
            "cpu_busy",
            "cpu_percent_busy",
            "cpu_usage_percent",
            "average_cpu_percent_at_steady_state",
        ],
    ),
    (
        "network_mb_per_second",
        &["network_traffic_bytes_per_sec", "total_network_bytes_per_sec", "network_bytes_per_sec"],
    ),
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

/// Returns the name of a row of an article in reports of this program.
pub fn own_name(resource: &str) -> &str {
    let own = NAMES.iter().find(|(_, published)| published.contains(&resource));
    own.map_or(resource, |(own, _)| own)
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
        assert_eq!([own_name("cpu_busy"), own_name("notesmark")], ["processor_percent_busy", "notesmark"]);
    }
}
