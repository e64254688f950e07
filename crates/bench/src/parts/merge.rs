//! One outcome of the records of several parts.
//!
//! Counts, errors and histograms are added up. The levels, the rows of the server and the machine are those of the
//! coordinator. `histograms.hlog` is that of all parts one after the other: readers add up the lines of a sample.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use super::PartsError;
use super::record::{CountRow, PartRecord, StoredPart};
use crate::compare::spreads::Spreads;
use crate::driver::observer::{BorderRecord, RunRecord};
use crate::driver::outcome::{PartFigures, RunFacts, driver_share};
use crate::engine::run::{Outcome, RunEnd};
use crate::record::counters::{ErrorCount, VerbCounts};
use crate::record::histograms::{Action, ClassIndex, Phase, VerbIndex};
use crate::record::log::{Labels, LogReader};
use crate::record::recorder::Recording;

/// A run of several parts.
#[derive(Debug)]
pub struct MergedRun {
    /// The outcome of all parts.
    pub outcome: Outcome<()>,
    /// What is known besides, but the commit of the driver.
    pub facts: RunFacts,
}

/// Merges the records of several parts to one run, and writes the histograms of all into a file. Parts of `parts` that
/// are missing make the run broken off.
///
/// # Errors
///
/// If there is no coordinator, if the records are of different runs, or if a file cannot be read or written.
pub fn merge(mut parts: Vec<StoredPart>, labels: &Labels, log: &Path) -> Result<MergedRun, PartsError> {
    parts.sort_by_key(|part| part.record.part);
    check(&parts)?;
    let mut recording = Recording::default();
    let mut writer = BufWriter::new(File::create(log).map_err(|error| PartsError::of_file(log, error))?);
    for part in &parts {
        add_counts(&part.record, labels, &mut recording).map_err(|reason| PartsError::of_file(&part.log, reason))?;
        add_histograms(part, labels, &mut recording)?;
        let mut file = File::open(&part.log).map_err(|error| PartsError::of_file(&part.log, error))?;
        std::io::copy(&mut file, &mut writer).map_err(|error| PartsError::of_file(log, error))?;
    }
    writer.flush().map_err(|error| PartsError::of_file(log, error))?;
    let records: Vec<&PartRecord> = parts.iter().map(|part| &part.record).collect();
    let outcome = Outcome {
        levels: records[0].levels.clone(),
        end: records.iter().map(|record| record.end).max().unwrap_or(RunEnd::BrokenOff),
        ended_at: records.iter().map(|record| record.ended_at).max().unwrap_or_default(),
        recording,
        log: (),
    };
    let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
    let file = File::open(log).map_err(|error| PartsError::of_file(log, error))?;
    let spreads = Spreads::read(BufReader::new(file), &measured).map_err(|error| PartsError::of_file(log, error))?;
    Ok(MergedRun { facts: facts(&records, spreads), outcome })
}

/// Checks whether the records are parts of one run.
fn check(parts: &[StoredPart]) -> Result<(), PartsError> {
    let different = |reason: String| Err(PartsError::Different(reason));
    let Some(coordinator) = parts.first().filter(|first| first.record.part == 1) else {
        return different("part 1, which has observed the server, is missing".to_owned());
    };
    let own = &coordinator.record;
    let mut numbers = BTreeSet::new();
    for PartRecord { part, options, workload, levels, .. } in parts.iter().map(|part| &part.record) {
        if !numbers.insert(*part) {
            return different(format!("part {part} is there twice"));
        }
        if *workload != own.workload || *options != own.options {
            return different(format!("part {part} has another workload or other options than part 1"));
        }
        let is_longer = levels.len() > own.levels.len();
        let is_same = |(one, other): (&_, &_)| measured(one) == measured(other);
        if is_longer || !levels.iter().zip(&own.levels).all(is_same) {
            return different(format!("part {part} has other measured intervals than part 1"));
        }
    }
    Ok(())
}

fn measured(level: &crate::engine::run::LevelOutcome) -> Option<&std::ops::Range<Duration>> {
    level.times.measured.as_ref()
}

fn add_counts(record: &PartRecord, labels: &Labels, recording: &mut Recording) -> Result<(), &'static str> {
    let verb = |name: &str| index(&labels.verbs, name).map(VerbIndex).ok_or("it has an unknown verb");
    for CountRow { verb: name, class, level, counts } in &record.counts {
        let class = index(&labels.classes, class).map(ClassIndex).ok_or("it has an unknown class")?;
        let action = Action { verb: verb(name)?, class };
        let phase = level.map_or(Phase::Other, Phase::Measured);
        if !is_phase_of(phase, record) {
            return Err("it has counts of a level that was not played");
        }
        add_saturating(recording.counts.entry(action, phase), counts)?;
    }
    for row in &record.errors {
        let errors = ErrorCount { count: row.count, first: row.first.clone() };
        recording.errors.add_counted(verb(&row.verb)?, &row.code, &errors);
    }
    recording.histograms.add_cut(record.cut);
    Ok(())
}

/// Adds counts of another part, which may be any numbers.
fn add_saturating(sum: &mut VerbCounts, counts: &VerbCounts) -> Result<(), &'static str> {
    let values = [counts.due, counts.ended, counts.failed, counts.transactions, counts.calls, counts.completed];
    let rest = [counts.skipped, counts.not_begun, counts.transactions_without_call, counts.reopened];
    // With at most 64 parts, no sum of such counts overflows.
    if values.iter().chain(&rest).any(|value| *value > u64::MAX / 1_000) {
        return Err("it has counts that are too large");
    }
    sum.add(counts);
    Ok(())
}

fn is_phase_of(phase: Phase, record: &PartRecord) -> bool {
    match phase {
        Phase::Other => true,
        Phase::Measured(level) => (1..=record.levels.len()).contains(&usize::from(level)),
    }
}

fn index(names: &[String], name: &str) -> Option<u16> {
    names.iter().position(|known| known == name).and_then(|index| u16::try_from(index).ok())
}

fn add_histograms(part: &StoredPart, labels: &Labels, recording: &mut Recording) -> Result<(), PartsError> {
    let failed = |reason: &dyn std::fmt::Display| PartsError::of_file(&part.log, reason);
    let file = File::open(&part.log).map_err(|error| failed(&error))?;
    for logged in LogReader::new(BufReader::new(file)) {
        let logged = logged.map_err(|error| failed(&error))?;
        let key = labels.key(&logged.tag).filter(|key| is_phase_of(key.phase, &part.record));
        let key = key.ok_or_else(|| failed(&format!("{} is no histogram of the run", logged.tag)))?;
        recording.histograms.add(key, &logged.times);
    }
    Ok(())
}

fn facts(records: &[&PartRecord], spreads: Spreads) -> RunFacts {
    let own = records[0];
    let is_broken_off = |record: &&&PartRecord| record.end == RunEnd::BrokenOff && own.end != RunEnd::BrokenOff;
    let missing = own.options.parts - records.len() as u64 + records.iter().filter(is_broken_off).count() as u64;
    RunFacts {
        started: own.started(),
        command: own.command.clone(),
        record: RunRecord {
            borders: own.borders.iter().map(|border| merged_border(border, &records[1..])).collect(),
            disk: own.disk.clone(),
            open_files_max: records.iter().map(|record| record.open_files_max).max().unwrap_or(0),
        },
        machine: own.machine.clone(),
        cores: own.cores,
        runs_before: own.runs_before,
        commit: None,
        memory_bytes_max: records.iter().map(|record| record.memory_bytes_max).fold(0, u64::saturating_add),
        is_out_of_files: records.iter().any(|record| record.is_out_of_files),
        has_swapped: records.iter().any(|record| record.has_swapped),
        is_started_server: own.is_started_server,
        spreads,
        parts: PartFigures {
            missing,
            clock_difference: own.clock_difference,
            processor_share: processor_share(records),
        },
    }
}

/// Adds the counts of a sample in other parts. Its mean response is weighted by the steps that ended.
fn merged_border(own: &BorderRecord, others: &[&PartRecord]) -> BorderRecord {
    let mut sum = own.clone();
    let end = own.sample.interval.end;
    let weighted = |border: &BorderRecord| {
        border.sample.response_mean_us.map(|mean_us| (mean_us, border.sample.steps_ended as f64))
    };
    let mut means: Vec<(f64, f64)> = weighted(own).into_iter().collect();
    for record in others {
        let Some(border) = record.borders.iter().find(|border| border.sample.interval.end == end) else { continue };
        sum.users_connected = sum.users_connected.saturating_add(border.users_connected);
        sum.network_bytes = sum.network_bytes.saturating_add(border.network_bytes);
        sum.sample.steps_ended = sum.sample.steps_ended.saturating_add(border.sample.steps_ended);
        sum.sample.steps_failed = sum.sample.steps_failed.saturating_add(border.sample.steps_failed);
        sum.sample.transactions = sum.sample.transactions.saturating_add(border.sample.transactions);
        means.extend(weighted(border));
    }
    let weight: f64 = means.iter().map(|(_, weight)| weight).sum();
    let mean = means.iter().map(|(mean, weight)| mean * weight).sum::<f64>() / weight;
    sum.sample.response_mean_us = mean.is_finite().then_some(mean);
    sum
}

/// Returns the largest share of the cores of a machine that the parts on it have used in a measured interval.
fn processor_share(records: &[&PartRecord]) -> Option<f64> {
    let mut shares: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for record in records {
        for (number, level) in record.levels.iter().enumerate() {
            let Some(measured) = measured(level) else { continue };
            if let Some(share) = driver_share(&record.borders, measured, record.cores.driver) {
                *shares.entry((number, &record.machine_id)).or_insert(0.0) += share;
            }
        }
    }
    shares.into_values().reduce(f64::max)
}
