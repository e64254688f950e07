//! Small stored reports: a run of N8Mail with 10 users, measured for two minutes, with two verbs. Each further level
//! has 10 users more, and figures that are as many times those of the first level.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::record::histograms::{
    Action, ClassIndex, HistogramKey, HistogramSet, Kind, Phase, Subject, TimeHistogram, VerbIndex,
};
use bench::record::log::{HistogramLog, Labels};
use bench::report::model::*;
use bench::report::published;
use bench::report::samples::{self, SampleValue};

/// The samples of a level: 3 before the measured interval, 12 in it, and one after it.
const SAMPLES: u64 = 16;
const SAMPLE_US: u64 = 10_000_000;
const MEASURED: std::ops::Range<u64> = 3..15;
/// The users of the first level, and those that join with a further one.
const USERS: u64 = 10;
const VERBS: [&str; 2] = ["read", "delete"];

/// What differs between the stored reports of a test.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The mean response of `read`. Every second sample is 10 µs above it, and the others below.
    pub read_us: u64,
    /// The samples in which `delete` was performed, of those of the measured interval.
    pub delete_samples: u64,
    /// The processor of the server, in percent. Every second sample is 2 above it, and the others below.
    pub processor: f64,
    /// The transactions of each sample.
    pub transactions: u64,
    /// The directory has `samples.csv`.
    pub has_samples: bool,
    /// The levels.
    pub levels: u8,
}

impl Default for Figures {
    fn default() -> Self {
        Self { read_us: 1_000, delete_samples: 12, processor: 40.0, transactions: 20, has_samples: true, levels: 1 }
    }
}

impl Figures {
    /// Writes the directory `name` below a folder. `edit` changes the report.
    pub fn write(&self, folder: &Path, name: &str, edit: impl FnOnce(&mut Report)) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir(&path).expect("a folder");
        let log = self.log();
        let mut report = self.report();
        edit(&mut report);
        let json = serde_json::to_string(&report).expect("JSON");
        fs::write(path.join("report.json"), json).expect("a file");
        fs::write(path.join("histograms.hlog"), log).expect("a file");
        if self.has_samples {
            fs::write(path.join("samples.csv"), samples::format(&self.samples())).expect("a file");
        }
        path
    }

    /// Returns the response of a verb in a sample, if it was performed there.
    fn response_us(&self, verb: &str, sample: u64) -> Option<u64> {
        let number = level_of(sample);
        let is_deleted = sample % SAMPLES < MEASURED.start + self.delete_samples;
        let read_us = number * self.read_us;
        match verb {
            "read" => Some(if sample.is_multiple_of(2) { read_us + 10 } else { read_us - 10 }),
            "delete" => (is_measured(sample) && is_deleted).then_some(number * 500),
            _ => None,
        }
    }

    fn times(&self, verb: &str, level: u8) -> TimeHistogram {
        self.divided_times(verb, level, 1)
    }

    /// Returns the responses of a verb, divided by a number.
    fn divided_times(&self, verb: &str, level: u8, divisor: u64) -> TimeHistogram {
        let mut times = TimeHistogram::default();
        for response_us in measured(level).filter_map(|sample| self.response_us(verb, sample)) {
            times.record(Duration::from_micros(response_us / divisor));
        }
        times
    }

    fn all_samples(&self) -> std::ops::Range<u64> {
        0..SAMPLES * u64::from(self.levels)
    }

    fn log(&self) -> Vec<u8> {
        let verbs = VERBS.map(str::to_owned).to_vec();
        let labels = Labels { verbs, classes: vec!["users".to_owned()] };
        let mut log = HistogramLog::begin(Vec::new(), labels).expect("memory can be written");
        for sample in self.all_samples() {
            let level = u8::try_from(level_of(sample)).expect("few levels");
            let phase = if is_measured(sample) { Phase::Measured(level) } else { Phase::Other };
            let mut set = HistogramSet::default();
            for (index, verb) in (0..).zip(VERBS) {
                let action = Action { verb: VerbIndex(index), class: ClassIndex(0) };
                let key = |kind| HistogramKey { subject: Subject::Steps(action, kind), phase };
                if let Some(response_us) = self.response_us(verb, sample) {
                    set.record(key(Kind::Response), Duration::from_micros(response_us));
                    set.record(key(Kind::Service), Duration::from_micros(response_us / 2));
                }
            }
            set.record(HistogramKey { subject: Subject::Lateness, phase }, Duration::from_micros(300));
            let start = Duration::from_micros(sample * SAMPLE_US);
            log.append(&(start..start + Duration::from_micros(SAMPLE_US)), &set).expect("memory can be written");
        }
        log.finish().expect("memory can be written")
    }

    fn processor(&self, sample: u64) -> f64 {
        let processor = self.processor * level_of(sample) as f64;
        if sample.is_multiple_of(2) { processor + 2.0 } else { processor - 2.0 }
    }

    fn samples(&self) -> Vec<SampleValue> {
        let value = |sample: u64| SampleValue {
            end_us: (sample + 1) * SAMPLE_US,
            resource: "processor_percent_busy".to_owned(),
            value: self.processor(sample),
        };
        self.all_samples().map(value).collect()
    }

    /// Returns the report.
    pub fn report(&self) -> Report {
        let levels = || 1..=self.levels;
        let verbs = levels().flat_map(|level| VERBS.map(|verb| self.verb(verb, level)));
        Report {
            format: FORMAT,
            state: State { name: "valid".to_owned(), reasons: Vec::new(), warnings: Vec::new() },
            title: "N8Mail, 10 users, 20 documents instead of 3000".to_owned(),
            run: Run { users: levels().map(users).collect(), ..run() },
            workload: workload(),
            phases: levels().map(phases).collect(),
            headline: Some(levels().map(|level| self.headline(level)).collect()),
            verbs: verbs.collect(),
            whole_run: Vec::new(),
            left_out: vec![LeftOut {
                name: "invite".to_owned(),
                kind: "verb".to_owned(),
                reason: "the server has no calendar mail".to_owned(),
                share: Some(0.05),
            }],
            requirements: vec![Requirement { name: "tls".to_owned(), met: Some(true) }],
            errors: vec![ErrorFigures {
                verb: "read".to_owned(),
                code: "timeout".to_owned(),
                count: 1,
                first: "no answer <within> 60 s & more".to_owned(),
            }],
            driver: driver(),
            server: self.server(),
            published: published::rows("N8Mail"),
            samples: self.all_samples().map(|sample| self.sample(sample)).collect(),
            population: Population {
                seed: 1,
                people: 10,
                documents: 20,
                archive: 0,
                size_scale: 1.0,
                masters: None,
                own: None,
                shared_bytes: None,
                databases: Vec::new(),
                runs_before: 0,
            },
            machine: machine(),
        }
    }

    fn headline(&self, level: u8) -> Headline {
        let mut all = self.times("read", level);
        all.add(&self.times("delete", level));
        Headline {
            users: users(level),
            users_connected_max: users(level),
            figure: "NotesMark (partial)".to_owned(),
            notesmark: self.transactions as f64 * 6.0 * f64::from(level),
            notesmark_promised: Some(121.5 * f64::from(level)),
            transactions_without_call: 0.125,
            response: Times::of_histogram(&all),
            errors: 1,
            steps_due: all.count() + 1,
            steps_ended: all.count(),
        }
    }

    fn verb(&self, verb: &str, level: u8) -> VerbFigures {
        let times = self.times(verb, level);
        VerbFigures {
            users: users(level),
            verb: verb.to_owned(),
            class: "users".to_owned(),
            due: times.count(),
            ended: times.count(),
            failed: 0,
            skipped: 0,
            not_begun: 0,
            transactions: times.count(),
            calls: times.count(),
            response: Times::of_histogram(&times),
            service: Times::of_histogram(&self.divided_times(verb, level, 2)),
        }
    }

    fn sample(&self, sample: u64) -> SampleFigures {
        SampleFigures {
            end_us: (sample + 1) * SAMPLE_US,
            users_connected: USERS * level_of(sample),
            steps_ended: 2,
            steps_failed: 0,
            transactions: self.transactions * level_of(sample),
            response_mean_us: self.response_us("read", sample),
        }
    }

    fn server(&self) -> Server {
        let row = |level: u8, resource: &str, mean: f64, unit: &str| Row {
            users: users(level),
            resource: resource.to_owned(),
            unit: unit.to_owned(),
            mean,
            min: mean - 2.0,
            max: mean + 2.0,
            origin: "/proc".to_owned(),
        };
        let rows = (1..=self.levels).flat_map(|level| {
            let processor = self.processor * f64::from(level);
            [
                row(level, "processor_percent_busy", processor, "percent of all cores"),
                row(level, "process_resident_memory_in_mb", 10.0 * processor, "MB"),
            ]
        });
        let reason = "this version does not measure it".to_owned();
        Server {
            rows: rows.collect(),
            missing: vec![MissingRow { resource: "network_mb_per_second".to_owned(), reason }],
        }
    }
}

/// Returns the number of the level of a sample, from 1.
fn level_of(sample: u64) -> u64 {
    sample / SAMPLES + 1
}

fn is_measured(sample: u64) -> bool {
    MEASURED.contains(&(sample % SAMPLES))
}

/// Returns the samples of the measured interval of a level.
fn measured(level: u8) -> std::ops::Range<u64> {
    let before = SAMPLES * u64::from(level - 1);
    before + MEASURED.start..before + MEASURED.end
}

fn users(level: u8) -> u64 {
    USERS * u64::from(level)
}

fn phases(level: u8) -> Phases {
    let measured = measured(level);
    let at = |sample: u64| Some(sample * SAMPLE_US);
    Phases {
        users: users(level),
        ramp_up_end_us: at(measured.start - 2),
        steady_us: at(measured.start),
        measure_start_us: at(measured.start),
        measure_end_us: at(measured.end),
        end_us: at(measured.end + 1),
    }
}

fn run() -> Run {
    Run {
        started: "2026-01-05T08:00:00Z".to_owned(),
        command: "doublet-bench run n8mail --users 10".to_owned(),
        version: "0.1.0".to_owned(),
        commit: "unknown".to_owned(),
        seed: 1,
        plan: "aa11".to_owned(),
        users: vec![10],
        users_per_connection: 1,
        speedup: 1.0,
        closed: false,
        door: "native".to_owned(),
        servers: 1,
        parts: 1,
        transactions_version: 1,
        iterations: None,
        recipients: None,
        interval_us: Some(1_000_000),
        time_limit_us: Some(60_000_000),
        server: Some(ServerProgram { version: Some("doublet 0.1.0".to_owned()), digest: "cc33".to_owned() }),
    }
}

fn workload() -> Workload {
    let number = |key: &str, value: u64, source: &str| NumberSource {
        key: key.to_owned(),
        value: value.into(),
        sources: vec![source.to_owned()],
    };
    Workload {
        name: "N8Mail".to_owned(),
        title: "Notes 8 mail".to_owned(),
        about: "Mail of <one> user.\n\nA second paragraph.".to_owned(),
        digest: "bb22".to_owned(),
        parameters: serde_json::json!({ "busy": 3 }),
        tags: BTreeMap::from(
            [("seed4", "article"), ("assumed", "no source has it")]
                .map(|(tag, meaning)| (tag.to_owned(), meaning.to_owned())),
        ),
        numbers: vec![number("users", 4_000, "seed4"), number("mailbox.documents", 3_000, "assumed")],
        promised: Promised {
            by_verb: BTreeMap::from([("read".to_owned(), 20.0)]),
            sent: 8.0,
            received: 12.0,
            transactions_per_minute: 1.333,
        },
    }
}

fn driver() -> Driver {
    let mut lateness = TimeHistogram::default();
    for _ in 0..12 {
        lateness.record(Duration::from_micros(300));
    }
    Driver {
        lateness: Times::of_histogram(&lateness),
        lateness_part: None,
        processor_share: Some(0.03),
        processor_share_missing: None,
        cores: 2,
        pinned: false,
        memory_bytes_max: Some(20 * 1_048_576),
        open_files_max: Some(30),
        calls: Calls { driver: 24, server: Some(30) },
    }
}

fn machine() -> Machine {
    Machine {
        cores: 2,
        processor: "A processor".to_owned(),
        memory_bytes: Some(8 << 30),
        kernel: "Linux 6.1".to_owned(),
        file_system: "ext4".to_owned(),
        load_before: Some(0.1),
    }
}
