//! One outcome of the records of several parts.
//!
//! Counts, errors and histograms are added up. The levels, the rows of the server and the machine are those of the
//! coordinator. `histograms.hlog` is that of all parts one after the other: readers add up the lines of a sample.
//!
//! A part may be damaged, and belongs to another machine. It is read as a whole before anything of it is added.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use super::record::{CountRow, PartRecord, StoredPart};
use super::{PartsError, RECORD_FILE, STOPPED, part_directory};
use crate::compare::spreads::Spreads;
use crate::driver::observer::{BorderRecord, RunRecord};
use crate::driver::outcome::{PartFigures, RunFacts, driver_share};
use crate::engine::run::{LevelOutcome, Outcome, RunEnd};
use crate::record::counters::{ErrorCount, VerbCounts};
use crate::record::histograms::{Action, ClassIndex, HistogramKey, Phase, VerbIndex};
use crate::record::log::{Labels, LogReader};
use crate::record::recorder::Recording;
use crate::report::verdict::{IncompletePart, PartLateness, ProcessorShare};

/// A run of several parts.
#[derive(Debug)]
pub struct MergedRun {
    /// The outcome of all parts.
    pub outcome: Outcome<()>,
    /// What is known besides, but the commit of the driver.
    pub facts: RunFacts,
}

/// Merges the records of several parts to one run, and writes the histograms of all into a file. Parts of which there
/// is no record make the run broken off.
///
/// # Errors
///
/// If there is no coordinator, if the records are of different runs or damaged, or if a file cannot be read or written.
pub fn merge(mut parts: Vec<StoredPart>, labels: &Labels, log: &Path) -> Result<MergedRun, PartsError> {
    parts.sort_by_key(|part| part.record.part);
    let mut parts = parts.into_iter();
    let Some(coordinator) = parts.next().filter(|first| first.record.part == 1) else {
        return different("part 1, which has observed the server, is missing");
    };
    let mut merging = Merging::begin(coordinator, labels, log)?;
    for part in parts {
        let recording = merging.read(&part)?;
        merging.append(part, &recording)?;
    }
    merging.finish(Vec::new())
}

/// Merges what the coordinator has measured with what it has received of the other parts, each in a directory below a
/// folder, and writes the histograms of all into a file. Parts whose figures have not come, or cannot be used, are left
/// out, and make the run broken off.
///
/// # Errors
///
/// If the coordinator's own figures cannot be read, or if the file cannot be written.
pub fn merge_received(
    own: StoredPart,
    folder: &Path,
    mut missing: Vec<IncompletePart>,
    labels: &Labels,
    log: &Path,
) -> Result<MergedRun, PartsError> {
    let parts = own.record.options.parts;
    let mut merging = Merging::begin(own, labels, log)?;
    for number in 2..=parts {
        if missing.iter().any(|part| part.part == number) {
            continue;
        }
        match merging.read_received(folder, number) {
            Ok((part, recording)) => merging.append(part, &recording)?,
            Err(error) => {
                let reason = format!("its figures cannot be used: {error}");
                missing.push(IncompletePart::new(number, &reason));
            }
        }
    }
    merging.finish(missing)
}

/// The parts that have been merged so far.
struct Merging<'a> {
    labels: &'a Labels,
    /// The file of the histograms of all parts.
    log: &'a Path,
    writer: BufWriter<File>,
    /// The records, that of the coordinator first.
    records: Vec<PartRecord>,
    recording: Recording,
    lateness: Vec<PartLateness>,
}

impl<'a> Merging<'a> {
    fn begin(coordinator: StoredPart, labels: &'a Labels, log: &'a Path) -> Result<Self, PartsError> {
        let file = File::create(log).map_err(|error| PartsError::of_file(log, error))?;
        let writer = BufWriter::new(file);
        let recording = Recording::default();
        let mut merging = Self { labels, log, writer, records: Vec::new(), recording, lateness: Vec::new() };
        let recording = merging.read(&coordinator)?;
        merging.append(coordinator, &recording)?;
        Ok(merging)
    }

    /// Reads the directory of a part that was received.
    fn read_received(&self, folder: &Path, number: u64) -> Result<(StoredPart, Recording), PartsError> {
        let part = StoredPart::read(&part_directory(folder, number))?;
        if part.record.part != number {
            return different(format!("part {number} has sent the record of part {}", part.record.part));
        }
        let recording = self.read(&part)?;
        Ok((part, recording))
    }

    /// Reads what a part has recorded. Nothing is merged, so a part that is damaged leaves no trace.
    fn read(&self, part: &StoredPart) -> Result<Recording, PartsError> {
        let record = &part.record;
        let own = self.records.first().unwrap_or(record);
        if self.records.iter().any(|known| known.part == record.part) {
            return different(format!("part {} is there twice", record.part));
        }
        check(record, own)?;
        let levels = Levels { of_part: record.levels.len(), of_run: &own.levels };
        let mut recording = Recording::default();
        add_counts(record, &levels, self.labels, &mut recording)
            .map_err(|reason| PartsError::of_file(&part.log.with_file_name(RECORD_FILE), reason))?;
        add_histograms(&part.log, &levels, self.labels, &mut recording)?;
        Ok(recording)
    }

    fn append(&mut self, part: StoredPart, recording: &Recording) -> Result<(), PartsError> {
        let mut file = File::open(&part.log).map_err(|error| PartsError::of_file(&part.log, error))?;
        std::io::copy(&mut file, &mut self.writer).map_err(|error| PartsError::of_file(self.log, error))?;
        self.recording.merge(recording);
        self.records.push(part.record);
        let part = self.records[self.records.len() - 1].part;
        let levels = self.records[0].levels.len();
        self.lateness.push(PartLateness::of_histograms(part, &recording.histograms, levels));
        Ok(())
    }

    fn finish(mut self, missing: Vec<IncompletePart>) -> Result<MergedRun, PartsError> {
        let log = self.log;
        self.writer.flush().map_err(|error| PartsError::of_file(log, error))?;
        let records = &self.records;
        let outcome = Outcome {
            levels: records[0].levels.clone(),
            end: records.iter().map(|record| record.end).max().unwrap_or(RunEnd::BrokenOff),
            ended_at: records.iter().map(|record| record.ended_at).max().unwrap_or_default(),
            recording: self.recording,
            log: (),
        };
        let measured: Vec<_> = outcome.levels.iter().map(|level| level.times.measured.clone()).collect();
        let file = File::open(log).map_err(|error| PartsError::of_file(log, error))?;
        let spreads = Spreads::read(BufReader::new(file), &measured);
        let spreads = spreads.map_err(|error| PartsError::of_file(log, error))?;
        let mut facts = facts(records, missing, spreads);
        facts.parts.lateness = self.lateness;
        Ok(MergedRun { outcome, facts })
    }
}

fn different<T>(reason: impl Into<String>) -> Result<T, PartsError> {
    Err(PartsError::Different(reason.into()))
}

/// Checks whether a record is that of a part of the coordinator's run.
fn check(record: &PartRecord, own: &PartRecord) -> Result<(), PartsError> {
    let part = record.part;
    if record.workload != own.workload || record.options != own.options {
        return different(format!("part {part} has another workload or other options than part 1"));
    }
    let level = |record: &PartRecord, index: usize| record.levels.get(index).and_then(measured).cloned();
    for index in 0..record.levels.len().max(own.levels.len()) {
        let is_same = match (level(record, index), level(own, index)) {
            (Some(one), Some(other)) => one == other,
            (None, None) => true,
            // One of them has ended before it knew what the others have decided.
            (Some(_), None) => own.end != RunEnd::Complete,
            (None, Some(_)) => record.end != RunEnd::Complete,
        };
        if !is_same {
            return different(format!("part {part} has other measured intervals than part 1"));
        }
    }
    Ok(())
}

fn measured(level: &LevelOutcome) -> Option<&Range<Duration>> {
    level.times.measured.as_ref()
}

/// The levels of a part, and those of the run.
struct Levels<'a> {
    of_part: usize,
    of_run: &'a [LevelOutcome],
}

impl Levels<'_> {
    /// Returns the phase of the run in which a part has recorded something, or `None` if the part has no such level.
    /// A level that the coordinator has not measured is no measured interval of the run.
    fn phase(&self, of_part: Phase) -> Option<Phase> {
        let Phase::Measured(level) = of_part else { return Some(Phase::Other) };
        let index = usize::from(level).checked_sub(1).filter(|index| *index < self.of_part)?;
        let is_measured = self.of_run.get(index).is_some_and(|level| measured(level).is_some());
        Some(if is_measured { of_part } else { Phase::Other })
    }
}

fn add_counts(
    record: &PartRecord,
    levels: &Levels<'_>,
    labels: &Labels,
    recording: &mut Recording,
) -> Result<(), &'static str> {
    let verb = |name: &str| index(&labels.verbs, name).map(VerbIndex).ok_or("it has an unknown verb");
    for CountRow { verb: name, class, level, counts } in &record.counts {
        let class = index(&labels.classes, class).map(ClassIndex).ok_or("it has an unknown class")?;
        let action = Action { verb: verb(name)?, class };
        let phase = levels.phase(level.map_or(Phase::Other, Phase::Measured));
        let phase = phase.ok_or("it has counts of a level that was not played")?;
        let sum = recording.counts.entry(action, phase);
        check_sum(sum, counts)?;
        sum.add(counts);
    }
    for row in &record.errors {
        let errors = ErrorCount { count: row.count, first: row.first.clone() };
        recording.errors.add_counted(verb(&row.verb)?, &row.code, &errors);
    }
    recording.histograms.add_cut(record.cut);
    Ok(())
}

/// Checks counts of another part, which may be any numbers, and what it has counted before.
fn check_sum(sum: &VerbCounts, counts: &VerbCounts) -> Result<(), &'static str> {
    // With at most 64 parts, no sum of such counts overflows.
    let is_small = |counts: &VerbCounts| {
        let values = [counts.due, counts.ended, counts.failed, counts.transactions, counts.calls, counts.completed];
        let rest = [counts.skipped, counts.not_begun, counts.transactions_without_call, counts.reopened];
        values.iter().chain(&rest).all(|value| *value <= u64::MAX / 1_000)
    };
    if is_small(sum) && is_small(counts) { Ok(()) } else { Err("it has counts that are too large") }
}

fn index(names: &[String], name: &str) -> Option<u16> {
    names.iter().position(|known| known == name).and_then(|index| u16::try_from(index).ok())
}

fn add_histograms(
    log: &Path,
    levels: &Levels<'_>,
    labels: &Labels,
    recording: &mut Recording,
) -> Result<(), PartsError> {
    let failed = |reason: &dyn std::fmt::Display| PartsError::of_file(log, reason);
    let file = File::open(log).map_err(|error| failed(&error))?;
    for logged in LogReader::new(BufReader::new(file)) {
        let logged = logged.map_err(|error| failed(&error))?;
        let key = labels.key(&logged.tag);
        let key = key.and_then(|key| Some(HistogramKey { phase: levels.phase(key.phase)?, ..key }));
        let key = key.ok_or_else(|| failed(&format!("{} is no histogram of the run", logged.tag)))?;
        recording.histograms.add(key, &logged.times);
    }
    Ok(())
}

/// Returns the parts that are not complete, each with the first reason: what the coordinator has noticed during the
/// run, what is missing, and what the records say.
fn incomplete(records: &[PartRecord], missing: Vec<IncompletePart>) -> Vec<IncompletePart> {
    let own = &records[0];
    let is_stopped = |record: &&PartRecord| record.end == RunEnd::BrokenOff && own.end != RunEnd::BrokenOff;
    let stopped = records.iter().filter(is_stopped).map(|record| IncompletePart::new(record.part, STOPPED));
    let has_record = |part: &u64| records.iter().any(|record| record.part == *part);
    let absent = (1..=own.options.parts).filter(|part| !has_record(part));
    let absent = absent.map(|part| IncompletePart::new(part, "there is no record of it"));
    let mut by_part = BTreeMap::new();
    for part in own.incomplete.iter().cloned().chain(missing).chain(stopped).chain(absent) {
        by_part.entry(part.part).or_insert(part);
    }
    by_part.into_values().collect()
}

fn facts(records: &[PartRecord], missing: Vec<IncompletePart>, spreads: Spreads) -> RunFacts {
    let own = &records[0];
    let shares = processor_shares(records);
    let level_share = |number: usize| {
        let of_level = shares.iter().flatten().filter(|share| share.level == number);
        of_level.map(|share| share.used).reduce(f64::max)
    };
    let level_shares = (0..own.levels.len()).map(level_share);
    RunFacts {
        started: own.started(),
        command: own.command.clone(),
        record: RunRecord {
            borders: own.borders.iter().map(|border| merged_border(border, &records[1..])).collect(),
            disk: own.disk.clone(),
            open_files_max: records.iter().map(|record| record.open_files_max).max().flatten(),
        },
        machine: own.machine.clone(),
        cores: own.cores,
        runs_before: own.runs_before,
        commit: None,
        memory_bytes_max: records.iter().map(|record| record.memory_bytes_max).try_fold(0, add_known),
        is_out_of_files: records.iter().any(|record| record.is_out_of_files),
        has_swapped: records.iter().any(|record| record.has_swapped),
        is_started_server: own.is_started_server,
        server_settings: own.server_settings.clone(),
        server_program: own.server_program.clone(),
        spreads,
        parts: PartFigures {
            incomplete: incomplete(records, missing),
            lateness: Vec::new(),
            clock_difference: own.clock_difference,
            level_shares: if shares.is_ok() { level_shares.collect() } else { Vec::new() },
            processor_share: Some(match &shares {
                Ok(shares) => ProcessorShare::of_all(shares.iter().map(|share| Ok::<_, &str>(share.used))),
                Err(reason) => ProcessorShare::Unknown(reason.clone()),
            }),
        },
    }
}

/// Adds a figure of another part. The sum is not known if a figure is not.
fn add_known(sum: u64, figure: Option<u64>) -> Option<u64> {
    figure.map(|figure| sum.saturating_add(figure))
}

/// Adds the counts of a sample in other parts. Its mean response is weighted by the steps that ended.
fn merged_border(own: &BorderRecord, others: &[PartRecord]) -> BorderRecord {
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

/// The share of the cores of a machine that the parts on it have used in the measured interval of a level.
struct MachineShare {
    /// The number of the level, from 0.
    level: usize,
    used: f64,
}

/// Returns the shares of all machines and levels, or why that of a part is not known.
fn processor_shares(records: &[PartRecord]) -> Result<Vec<MachineShare>, String> {
    let mut shares: BTreeMap<(usize, &str), f64> = BTreeMap::new();
    for record in records {
        for (number, level) in record.levels.iter().enumerate() {
            let Some(measured) = measured(level) else { continue };
            match driver_share(&record.borders, measured, record.cores.driver) {
                Some(Ok(share)) => *shares.entry((number, &record.machine_id)).or_insert(0.0) += share,
                Some(Err(reason)) => return Err(format!("part {}: {reason}", record.part)),
                None => {}
            }
        }
    }
    Ok(shares.into_iter().map(|((level, _), used)| MachineShare { level, used }).collect())
}
