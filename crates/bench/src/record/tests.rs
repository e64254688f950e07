//! Tests of the recorder, the log and the blocks.

use std::collections::BTreeMap;
use std::io::{BufReader, Cursor};
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;

use super::blocks::{BLOCKS, Blocks};
use super::counters::{CODE_BYTES_MAX, ERROR_TEXT_BYTES_MAX, ERRORS_MAX, ErrorCounts, OTHER_CODE, VerbCounts};
use super::histograms::{
    Action, ClassIndex, HistogramKey, HistogramSet, Kind, Phase, Subject, TIME_US_MAX, TimeHistogram, VerbIndex,
};
use super::log::{HistogramLog, Labels, LogReader, Tag, TagSubject};
use super::recorder::{Recorder, Recording, Sample, StepRecord, StepResult};

const SAMPLE: Duration = Duration::from_secs(1);
const SAMPLES: u32 = 12;
const MEASURED: Range<Duration> = Duration::from_secs(3)..Duration::from_secs(8);

fn labels() -> Labels {
    let names = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Labels { verbs: names(&["read", "open_view", "send"]), classes: names(&["users", "on-call"]) }
}

fn recorder(workers: usize) -> Recorder<Vec<u8>> {
    Recorder::new(workers, HistogramLog::begin(Vec::new(), labels()).expect("memory can be written"))
}

fn action(verb: u16, class: u16) -> Action {
    Action { verb: VerbIndex(verb), class: ClassIndex(class) }
}

fn completed(calls: u32) -> StepResult {
    StepResult::Completed { calls, transactions: 2, reopened: 0 }
}

fn failed(code: &'static str) -> StepResult {
    StepResult::Failed { calls: 1, reopened: 1, code: code.into(), text: format!("{code}: no") }
}

/// A step that had made a call and opened a connection when it knew that there was no document.
const SKIPPED: StepResult = StepResult::Skipped { calls: 1, reopened: 1 };

/// Returns a step of the first verb and class that was due `due_ms` after the start signal, waited and was served.
fn step(due_ms: u64, waited_ms: u64, served_ms: u64, result: StepResult) -> StepRecord {
    let intended = Duration::from_millis(due_ms);
    let started = intended + Duration::from_millis(waited_ms);
    StepRecord { action: action(0, 0), intended, started, ended: started + Duration::from_millis(served_ms), result }
}

fn read_log(log: &[u8]) -> HistogramSet {
    let mut set = HistogramSet::default();
    for logged in LogReader::new(log) {
        let logged = logged.expect("the log is whole");
        set.add(labels().key(&logged.tag).expect("the labels are known"), &logged.times);
    }
    set
}

/// Plays steps, distributed over shards, with a border after each second.
fn play(steps: &[StepRecord], workers: usize) -> (Recording, Vec<u8>, Vec<Sample>) {
    let mut recorder = recorder(workers);
    recorder.measure(&MEASURED);
    let mut samples = Vec::new();
    for number in 1..=SAMPLES {
        let border = SAMPLE * number;
        let ended = |step: &StepRecord| step.ended < border && step.ended >= border - SAMPLE;
        for (index, step) in steps.iter().enumerate().filter(|(_, step)| ended(step)) {
            recorder.shard(index as u64).record(step);
        }
        samples.push(recorder.border(border).expect("memory can be written"));
    }
    let (recording, log) = recorder.finish().expect("memory can be written");
    (recording, log, samples)
}

#[test]
fn a_step_belongs_to_the_phase_of_its_intended_time_and_its_transactions_to_that_of_its_end() {
    let steps = [
        step(2_900, 200, 100, completed(1)), // due before the interval, ended in it
        step(3_000, 0, 100, completed(3)),   // due and ended in it
        step(7_900, 50, 950, completed(1)),  // due in it, ended after it
        step(4_000, 0, 10, SKIPPED),
        step(5_000, 0, 10, failed("busy")),
        step(6_000, 0, 1, completed(0)), // performed without a call
    ];
    let (recording, log, samples) = play(&steps, 2);
    let measured = recording.counts.sum(Phase::Measured(1));
    let expected = VerbCounts {
        due: 5,
        ended: 4,
        failed: 1,
        skipped: 1,
        not_begun: 0,
        completed: 3,
        transactions: 6,
        transactions_without_call: 2,
        calls: 6,
        reopened: 2,
    };
    assert_eq!(measured, expected);
    let count = |kind, phase| {
        let key = HistogramKey { subject: Subject::Steps(action(0, 0), kind), phase };
        recording.histograms.sum(|of| *of == key).count()
    };
    assert_eq!(count(Kind::Response, Phase::Measured(1)), 2, "of steps that made calls");
    assert_eq!(count(Kind::Service, Phase::Other), 1);
    assert_eq!(count(Kind::Failed, Phase::Measured(1)), 1);
    assert_eq!(read_log(&log), recording.histograms);
    assert_eq!((samples[3].steps_ended, samples[5].steps_failed, samples[3].transactions), (2, 1, 4));
    assert_eq!((samples[4].steps_ended, samples[4].response_mean_us), (0, None), "a skipped step");
}

#[test]
fn steps_that_did_not_begin_count_with_the_time_that_they_waited() {
    let mut recorder = recorder(1);
    recorder.measure(&MEASURED);
    let shard = recorder.shard(1);
    shard.record_not_begun(action(2, 1), Duration::from_secs(7), Duration::from_secs(10));
    shard.record_lateness(Duration::from_secs(7), Duration::from_millis(2));
    recorder.border(Duration::from_secs(10)).expect("memory can be written");
    let (recording, _) = recorder.finish().expect("memory can be written");
    let measured = recording.counts.sum(Phase::Measured(1));
    assert_eq!(measured, VerbCounts { due: 1, not_begun: 1, ..VerbCounts::default() });
    let subject = Subject::Steps(action(2, 1), Kind::Response);
    let of = |subject| recording.histograms.sum(|key| *key == HistogramKey { subject, phase: Phase::Measured(1) });
    assert!(of(subject).percentile_us(50.0).is_some_and(|time| time.abs_diff(3_000_000) < 3_000));
    assert_eq!(of(Subject::Lateness).max_us(), Some(2_000));
}

#[test]
fn times_above_an_hour_are_cut_and_counted() {
    let hours = |hours: u64| step(0, 0, hours * 3_600_000, completed(1));
    let mut recorder = recorder(1);
    recorder.shard(0).record(&hours(1));
    recorder.shard(0).record(&hours(3));
    recorder.border(Duration::from_secs(20_000)).expect("memory can be written");
    let (recording, log) = recorder.finish().expect("memory can be written");
    assert_eq!(recording.histograms.cut(), 2, "the response and the service of the longer step");
    let longest = recording.histograms.sum(|_| true).max_us().expect("times");
    assert!(longest >= TIME_US_MAX && longest - TIME_US_MAX < TIME_US_MAX / 1_000, "{longest}");
    assert_eq!(LogReader::new(log.as_slice()).filter_map(Result::ok).count(), 2, "cut times can be read again");
}

#[test]
fn samples_do_not_make_a_recording_larger() {
    let mut recorder = recorder(2);
    let mut sizes = Vec::new();
    for border in 1..=200_u64 {
        (0..4).for_each(|user| recorder.shard(user).record(&step(border * 1_000 - 500, 0, user + 1, completed(1))));
        recorder.border(Duration::from_secs(border)).expect("memory can be written");
        sizes.push(recorder.memory_bytes());
    }
    assert!(sizes[0] > 0 && sizes[1..].iter().all(|size| *size == sizes[1]), "{sizes:?}");
}

#[test]
fn errors_have_maxima() {
    let mut errors = ErrorCounts::default();
    let text = "é".repeat(ERROR_TEXT_BYTES_MAX);
    for code in 0..ERRORS_MAX + 5 {
        let code = format!("{code:04}{}", "é".repeat(CODE_BYTES_MAX));
        errors.record(VerbIndex(1), &code, &text);
    }
    assert_eq!(errors.iter().count(), ERRORS_MAX + 1);
    assert!(
        errors
            .iter()
            .all(|(_, code, error)| { code.len() <= CODE_BYTES_MAX && error.first.len() <= ERROR_TEXT_BYTES_MAX })
    );
    let other = errors.iter().find(|(_, code, _)| *code == OTHER_CODE).expect("more codes than the maximum");
    assert_eq!(other.2.count, 5);
    let mut merged = ErrorCounts::default();
    merged.record(VerbIndex(1), "NO", "first");
    let mut later = ErrorCounts::default();
    (0..3).for_each(|_| later.record(VerbIndex(1), "NO", "second"));
    merged.merge(&later);
    let (_, _, error) = merged.iter().next().expect("an error");
    assert_eq!((error.count, error.first.as_str()), (4, "first"));
}

#[test]
fn tags_are_read_again() {
    let steps = |kind| TagSubject::Steps { verb: "open_view".into(), class: "on-call".into(), kind };
    let check = |subject, phase, expected: &str| {
        let tag = Tag { subject, phase };
        assert_eq!(tag.to_string(), expected);
        assert_eq!(expected.parse(), Ok(tag));
    };
    check(steps(Kind::Response), Phase::Measured(1), "open_view/on-call/response/measured-1");
    check(steps(Kind::Service), Phase::Other, "open_view/on-call/service/other");
    check(steps(Kind::Failed), Phase::Measured(64), "open_view/on-call/failed/measured-64");
    check(TagSubject::Lateness, Phase::Other, "lateness/other");
    for bad in ["", "lateness", "read/users/response", "read/users/slow/other", "lateness/measured-256", "lateness/x"] {
        assert_eq!(bad.parse::<Tag>(), Err(()), "{bad}");
    }
}

/// Returns a log of one histogram whose maximum is 40 ms.
fn log_of_one() -> String {
    let (_, log, _) = play(&[step(0, 0, 40, failed("x"))], 1);
    String::from_utf8(log).expect("the format is text")
}

#[test]
fn the_log_has_the_documented_format() {
    let log = log_of_one();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("#["), "{}", lines[0]);
    // The library writes the maximum as the last value that three digits do not tell from it.
    assert!(lines[1].starts_with("Tag=read/users/failed/other,0.000,1.000,40031.000,HISTFAAA"), "{}", lines[1]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn damaged_logs_are_refused() {
    let check = |damaged: String, reason: &str| {
        let mut reader = LogReader::new(BufReader::new(Cursor::new(damaged)));
        let error = reader.find_map(Result::err).map(|error| error.to_string());
        assert!(
            error.as_ref().is_some_and(|error| error.starts_with("line 2 ") && error.contains(reason)),
            "{error:?}"
        );
    };
    let log = log_of_one();
    let histogram = log.trim_end().rsplit(',').next().expect("four fields").to_owned();
    check(log.replace("read/users", "read"), "tag is unknown");
    check(log.replace("Tag=read/users/failed/other,", ""), "no tag");
    check(log.replace("0.000,1.000,", ""), "no histogram");
    check(log.replace("HISTFAAA", "HISTFAA!"), "not base64");
    check(log.replace("HISTFAAA", "AAAAFAAA"), "another format");
    check(log.replace(&histogram, "AAAA"), "too short");
    check(log.replace(&histogram, &histogram[..24]), "not compressed");
    check(log.trim_end().to_owned(), "cut off");
    check(log.replace("0.000,1.000", &format!("0.000,1.{}", "0".repeat(600_000))), "too long");
    check(log.replace(&histogram, &encoded(3, 1, TIME_US_MAX * 4, 1_000_000)), "not whole");
    check(log.replace(&histogram, &encoded(2, 1, 1_000, 0)), "other digits");
}

/// Returns a histogram whose header has these digits and bounds, and states a length of the counts.
fn encoded(digits: u32, low: u64, high: u64, stated_bytes: u32) -> String {
    use base64::Engine as _;
    use std::io::Write as _;
    let mut plain = 0x1C84_9313_u32.to_be_bytes().to_vec();
    plain.extend([stated_bytes, 0, digits].into_iter().flat_map(u32::to_be_bytes));
    plain.extend([low, high, 1.0_f64.to_bits()].into_iter().flat_map(u64::to_be_bytes));
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&plain).expect("memory can be written");
    let compressed = encoder.finish().expect("memory can be written");
    let mut bytes = 0x1C84_9314_u32.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(compressed.len()).expect("short").to_be_bytes());
    bytes.extend(compressed);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn blocks_are_twelfths_of_the_measured_interval() {
    let interval = Duration::from_secs(5)..Duration::from_secs(29);
    let mut recorder = recorder(1);
    recorder.measure(&interval);
    // One step ends in each second, with a response of as many milliseconds; those due from 29 s on are not measured.
    for second in 0..40_u64 {
        let due = if second == 30 { 28_999 } else { second * 1_000 + 10 };
        let ends = second * 1_000 + 500;
        recorder.shard(0).record(&StepRecord {
            action: action(0, 0),
            intended: Duration::from_millis(due),
            started: Duration::from_millis(ends - second - 1),
            ended: Duration::from_millis(ends),
            result: completed(1),
        });
        recorder.border(Duration::from_secs(second + 1)).expect("memory can be written");
    }
    let (_, log) = recorder.finish().expect("memory can be written");
    let mut blocks = Blocks::new(1, &interval);
    LogReader::new(log.as_slice()).for_each(|logged| blocks.add(&logged.expect("the log is whole")));
    let service = |subject: &TagSubject| matches!(subject, TagSubject::Steps { kind: Kind::Service, .. });
    let means = blocks.means_us(service).map(|mean| mean.expect("each block has steps").round() as u64);
    // The first block has the steps of 6 and 7 ms. The last one has those of 28, 29 and 31 ms: the latter ended in the
    // cool-down.
    let expected: [u64; BLOCKS] =
        std::array::from_fn(|block| if block < 11 { 6_500 + 2_000 * block as u64 } else { 29_333 });
    assert!(means.iter().zip(expected).all(|(mean, expected)| mean.abs_diff(expected) <= 15), "{means:?}");
    assert_eq!(Blocks::new(2, &interval).means_us(|_| true), [None; BLOCKS]);
}

/// Returns the value of a percentile as its definition has it: the smallest value that so many values do not exceed.
fn naive_percentile(sorted: &[u64], percentile: f64) -> u64 {
    let rank = (percentile / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted[rank - 1]
}

fn within_three_digits(read: u64, recorded: u64) -> bool {
    read.abs_diff(recorded) as f64 <= recorded as f64 / 1_000.0 + 0.5
}

prop_compose! {
    fn any_step()(
        verb in 0..3_u16,
        class in 0..2_u16,
        due_us in 0..9_000_000_u64,
        waited_us in prop_oneof![Just(0), 0..200_000_u64],
        served_us in 1..900_000_u64,
        kind in 0..6_u32,
    ) -> StepRecord {
        let intended = Duration::from_micros(due_us);
        let started = intended + Duration::from_micros(waited_us);
        let result = match kind {
            0 => SKIPPED,
            1 => failed("busy"),
            2 => completed(0),
            calls => completed(calls),
        };
        StepRecord {
            action: action(verb, class), intended, started, ended: started + Duration::from_micros(served_us), result,
        }
    }
}

/// The times of each histogram, and the counts of each action, by the definitions of docs/notesbench.md.
#[derive(Default)]
struct Naive {
    times_us: BTreeMap<HistogramKey, Vec<u64>>,
    due: BTreeMap<(Action, bool), u64>,
    transactions: BTreeMap<(Action, bool), u64>,
}

impl Naive {
    fn of(steps: &[StepRecord]) -> Self {
        let mut naive = Self::default();
        for step in steps {
            let is_measured = step.intended >= MEASURED.start && step.intended < MEASURED.end;
            *naive.due.entry((step.action, is_measured)).or_default() += 1;
            let phase = if is_measured { Phase::Measured(1) } else { Phase::Other };
            let times: &[(Kind, Duration)] = match step.result {
                StepResult::Skipped { .. } | StepResult::Completed { calls: 0, .. } => &[],
                StepResult::Failed { .. } => &[(Kind::Failed, step.intended)],
                StepResult::Completed { .. } => &[(Kind::Response, step.intended), (Kind::Service, step.started)],
            };
            for (kind, from) in times {
                let key = HistogramKey { subject: Subject::Steps(step.action, *kind), phase };
                naive.times_us.entry(key).or_default().push((step.ended - *from).as_micros() as u64);
            }
            if let StepResult::Completed { transactions, .. } = step.result {
                let ended_in = step.ended >= MEASURED.start && step.ended < MEASURED.end;
                *naive.transactions.entry((step.action, ended_in)).or_default() += u64::from(transactions);
            }
        }
        naive.times_us.values_mut().for_each(|times| times.sort_unstable());
        naive
    }
}

proptest! {
    // A case writes and reads some hundred histograms.
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn recordings_agree_with_lists_of_all_steps(
        steps in prop::collection::vec(any_step(), 0..200),
        workers in 1..5_usize,
    ) {
        let (recording, log, samples) = play(&steps, workers);
        let naive = Naive::of(&steps);
        let keys: Vec<HistogramKey> = recording.histograms.iter().map(|(key, _)| key).collect();
        prop_assert_eq!(&keys, &naive.times_us.keys().copied().collect::<Vec<_>>());
        for (key, times) in recording.histograms.iter() {
            let list = &naive.times_us[&key];
            prop_assert_eq!(times.count(), list.len() as u64);
            for percentile in [1.0, 50.0, 95.0, 99.0, 100.0] {
                let read = times.percentile_us(percentile).expect("there are times");
                let expected = naive_percentile(list, percentile);
                prop_assert!(within_three_digits(read, expected), "{percentile}: {read}, not {expected}");
            }
            let mean = list.iter().sum::<u64>() as f64 / list.len() as f64;
            prop_assert!((times.mean_us().expect("there are times") - mean).abs() <= mean / 1_000.0 + 0.5);
        }
        for (action, phase, counts) in recording.counts.iter() {
            let is_measured = phase != Phase::Other;
            prop_assert_eq!(counts.due, naive.due.get(&(action, is_measured)).copied().unwrap_or(0));
            let transactions = naive.transactions.get(&(action, is_measured)).copied().unwrap_or(0);
            prop_assert_eq!(counts.transactions, transactions);
        }
        let ended = steps.iter().filter(|step| step.result != SKIPPED).count() as u64;
        prop_assert_eq!(samples.iter().map(|sample| sample.steps_ended).sum::<u64>(), ended);
        prop_assert_eq!(read_log(&log), recording.histograms);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut line = b"Tag=lateness/other,0.0,1.0,1.0,".to_vec();
        line.extend(&bytes);
        for text in [bytes, line] {
            let times = LogReader::new(text.as_slice()).take_while(Result::is_ok).count();
            prop_assert_eq!(times, 0);
        }
    }

    #[test]
    fn sums_of_histograms_have_all_times(
        parts in prop::collection::vec(prop::collection::vec(0..TIME_US_MAX, 0..20), 1..6),
    ) {
        let mut sum = TimeHistogram::default();
        let mut all = TimeHistogram::default();
        for part in &parts {
            let mut times = TimeHistogram::default();
            for time in part {
                times.record(Duration::from_micros(*time));
                all.record(Duration::from_micros(*time));
            }
            sum.add(&times);
        }
        prop_assert_eq!(&sum, &all);
        sum.clear();
        prop_assert!(sum.is_empty() && sum.max_us().is_none() && sum.mean_us().is_none());
    }
}
