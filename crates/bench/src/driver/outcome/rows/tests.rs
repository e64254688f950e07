//! Tests of the rows: how they follow from borders, and that each published row has one.

use std::time::Duration;

use super::*;
use crate::engine::phases::PhaseTimes;
use crate::record::recorder::Sample;
use crate::report::published;
use crate::target::counters::ServerCounters;
use crate::target::disk::{DataDisk, DiskCounters};
use crate::target::metrics::Metrics;
use crate::target::process::{Consumption, SwappedPages};

const CORES: CoreCounts = CoreCounts { driver: 2, server: 2, is_pinned: false };

/// Returns the border at the end of a sample of ten seconds, at which each counter has grown for so many samples.
fn border(number: u64) -> BorderRecord {
    let end = Duration::from_secs(10 * number);
    let metrics = format!(
        "doublet_native_calls_total {}\ndoublet_native_calls_seconds_total {}\ndoublet_connections 7\n",
        100 * number,
        number
    );
    BorderRecord {
        sample: Sample {
            interval: end.saturating_sub(Duration::from_secs(10))..end,
            steps_ended: 0,
            steps_failed: 0,
            transactions: 0,
            response_mean_us: None,
        },
        users_connected: 3,
        driver: None,
        server: Some(Consumption {
            processor_us: 1_000_000 * number,
            resident_bytes: 2 << 20,
            ..Consumption::default()
        }),
        counters: Some(ServerCounters::of_metrics(&Metrics::of_text(&metrics))),
        disk: Some(DiskCounters {
            reads: 10 * number,
            writes: 20 * number,
            written_bytes: (10 << 20) * number,
            operations_us: 500_000 * number,
            busy_us: 2_500_000 * number,
            ..DiskCounters::default()
        }),
        swapped: Some(SwappedPages { read: 5, written: 5 * number }),
        network_bytes: (20 << 20) * number,
    }
}

fn record() -> RunRecord {
    let disk = DataDisk::Device("vda".to_owned());
    RunRecord { borders: (0..5).map(border).collect(), disk, ..RunRecord::default() }
}

/// Returns the rows of a level whose measured interval has the second and the third sample.
fn rows(record: &RunRecord) -> Server {
    let measured = Some(Duration::from_secs(10)..Duration::from_secs(30));
    let times = PhaseTimes { measured, ..PhaseTimes::default() };
    server_rows(record, &[LevelOutcome { users: 3, times, connected_max: 3 }], CORES)
}

fn mean(server: &Server, resource: &str) -> Option<f64> {
    server.rows.iter().find(|row| row.resource == resource).map(|row| row.mean)
}

#[test]
fn rows_follow_from_the_borders_of_the_measured_interval() {
    let server = rows(&record());
    let expected = [
        ("processor_percent_busy", 5.0),
        ("processor_percent_of_one_core", 10.0),
        ("process_resident_memory_in_mb", 2.0),
        ("total_disk_operations_per_second", 3.0),
        ("total_disk_mb_written_per_second", 1.0),
        ("total_disk_mb_read_per_second", 0.0),
        ("data_disk_percent_busy_percent", 25.0),
        ("disk_operations_in_progress", 0.05),
        ("network_mb_per_second", 2.0),
        ("paging_in_swap_per_second", 0.0),
        ("paging_out_swap_per_second", 0.5),
        ("server_response_time_msec", 10.0),
        ("connections_open", 7.0),
    ];
    for (resource, value) in expected {
        let found = mean(&server, resource).unwrap_or_else(|| panic!("{resource}: {:?}", server.missing));
        assert!((found - value).abs() < 1e-9, "{resource}: {found} instead of {value}");
    }
    let row = server.rows.iter().find(|row| row.resource == "total_disk_reads_per_second").expect("a row");
    assert_eq!(row.origin, "/proc/diskstats, device vda, all programs");
}

#[test]
fn shares_of_the_servers_own_cores_have_another_unit() {
    let processor = |cores: CoreCounts| {
        let measured = Some(Duration::from_secs(10)..Duration::from_secs(30));
        let times = PhaseTimes { measured, ..PhaseTimes::default() };
        let rows = server_rows(&record(), &[LevelOutcome { users: 3, times, connected_max: 3 }], cores).rows;
        let units = ["processor_percent_busy", "processor_percent_of_one_core"].map(|resource| {
            let row = rows.iter().find(|row| row.resource == resource).expect("a row");
            format!("{} {}", row.mean, row.unit)
        });
        units.join(", ")
    };
    assert_eq!(processor(CORES), "5 percent of all cores, 10 percent of one core");
    let pinned = CoreCounts { driver: 1, server: 1, is_pinned: true };
    assert_eq!(processor(pinned), "10 percent of the server's own cores, 10 percent of one core");
}

#[test]
fn missing_rows_have_a_reason() {
    let check = |change: fn(&mut RunRecord), resource: &str, expected: &str| {
        let mut record = record();
        change(&mut record);
        let server = rows(&record);
        assert_eq!(mean(&server, resource), None);
        let missing = server.missing.iter().find(|missing| missing.resource == resource).expect("it is listed");
        assert!(missing.reason.contains(expected), "{missing:?}");
    };
    check(|_| {}, "queue_messages", "the server does not count it");
    let no_answer = |record: &mut RunRecord| record.borders.iter_mut().for_each(|border| border.counters = None);
    check(no_answer, "connections_open", "the server has no /metrics");
    let no_process = |record: &mut RunRecord| record.borders.iter_mut().for_each(|border| border.server = None);
    check(no_process, "processor_percent_busy", "no process");
    check(|_| {}, "process_memory_used_in_mb", "smaps_rollup");
    let no_disk = |record: &mut RunRecord| {
        record.disk = DataDisk::NoFolder;
        record.borders.iter_mut().for_each(|border| border.disk = None);
    };
    check(no_disk, "total_disk_operations_per_second", "the data folder of the server is not known");
    check(|record| record.borders.clear(), "network_mb_per_second", "it was not observed");
    let none = server_rows(&record(), &[], CORES);
    assert!(none.missing.iter().any(|missing| missing.reason == "there is no measured interval"));
}

/// A server that was started again counts from 0.
#[test]
fn counters_that_fall_give_no_negative_rate() {
    let mut record = record();
    record.borders[2].network_bytes = 0;
    let samples = samples(&record.borders, CORES.server);
    let network = samples.iter().filter(|sample| sample.resource == "network_mb_per_second");
    assert_eq!(network.map(|sample| sample.value).collect::<Vec<_>>(), [2.0, 0.0, 6.0, 2.0]);
}

#[test]
fn each_published_row_has_a_counterpart_or_a_reason() {
    let of_levels = ["notesmark", "total_number_of_users"];
    let rules = USERS.iter().chain(SERVER).map(|rule| rule.resource);
    let own: Vec<&str> = rules.chain(of_levels).collect();
    for resource in published::resources() {
        let has_counterpart = own.contains(&published::own_name(resource).0);
        let has_reason = published::WITHOUT_COUNTERPART.iter().any(|(name, _)| *name == resource);
        assert!(has_counterpart != has_reason, "{resource}: {has_counterpart}, {has_reason}");
    }
}
