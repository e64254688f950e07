//! The phases of a level: ramp-up, steady state, settling, the measured interval.
//!
//! Pure: [`Phases::border`] is given what is counted at a border of samples, and returns what follows from it. All
//! times count from the start signal of the run and are borders.
//!
//! A measured interval is decided upon at least one sample before it begins. So all threads, and all parts of the run,
//! know the phase of a step before it is due.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::pace::Speedup;
use crate::record::blocks::BLOCKS;

/// How long all users must have been connected before the steady state, at speed 1.
const CONNECTED_MIN: Duration = Duration::from_secs(60);
/// The same in samples, at any speed.
const CONNECTED_SAMPLES_MIN: u32 = 3;
/// What the limit of time until the steady state has besides the ramp-up and [`STEADY_LIMIT_ITERATIONS`].
const STEADY_LIMIT_REST: Duration = Duration::from_secs(600);
const STEADY_LIMIT_ITERATIONS: u32 = 3;
/// The shortest sample.
const SAMPLE_MIN: Duration = Duration::from_millis(100);
/// The share of the borders of a measured interval at which users may be disconnected.
const DISCONNECTED_SHARE_MAX: f64 = 0.01;

/// The lengths of the phases in a run, as the workload and the command line state them at speed 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatedLengths {
    /// Between the connections of two users.
    pub interval: Duration,
    /// An iteration; the longest one if classes differ.
    pub iteration: Duration,
    /// From steady state to the measured interval.
    pub settle: Duration,
    /// The measured interval.
    pub measure: Duration,
    /// The longest sample. It is not divided by the speed-up.
    pub sample: Duration,
    /// The limit of time until the steady state, if it is given. It is not divided by the speed-up.
    pub steady_limit: Option<Duration>,
}

/// The lengths of the phases as they are played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseLengths {
    interval: Duration,
    iteration: Duration,
    settle: Duration,
    measure: Duration,
    sample: Duration,
    connected: Duration,
    steady_limit: Option<Duration>,
}

impl PhaseLengths {
    /// Computes the lengths at a speed-up. Returns `None` if the measured interval is then too short for 12 samples.
    ///
    /// The number of samples of the measured interval is a multiple of the number of its blocks. A sample has whole
    /// milliseconds; the measured interval becomes longer by the rest.
    pub fn at_speed(stated: &StatedLengths, speedup: Speedup) -> Option<Self> {
        let measure = speedup.divide(stated.measure);
        if measure < SAMPLE_MIN * BLOCKS as u32 {
            return None;
        }
        let sample_max = stated.sample.max(SAMPLE_MIN);
        let blocks = BLOCKS as u128;
        let samples = measure.as_nanos().div_ceil(sample_max.as_nanos() * blocks).max(1) * blocks;
        let samples = u32::try_from(samples).ok()?;
        let sample_ms = measure.as_nanos().div_ceil(u128::from(samples) * 1_000_000);
        let sample = Duration::from_millis(u64::try_from(sample_ms).ok()?);
        Some(Self {
            interval: speedup.divide(stated.interval),
            iteration: speedup.divide(stated.iteration),
            settle: speedup.divide(stated.settle),
            measure: sample * samples,
            sample,
            connected: speedup.divide(CONNECTED_MIN).max(sample * CONNECTED_SAMPLES_MIN),
            steady_limit: stated.steady_limit,
        })
    }

    /// Returns the same lengths for several parts: settling has two samples, because all parts must know the measured
    /// interval before it begins.
    #[must_use]
    pub fn for_parts(self) -> Self {
        Self { settle: self.settle.max(self.sample * 2), ..self }
    }

    /// Returns the length of a sample.
    pub fn sample(&self) -> Duration {
        self.sample
    }

    /// Returns the length of the measured interval.
    pub fn measure(&self) -> Duration {
        self.measure
    }

    /// Returns the time of a level with so many new users, if it becomes steady at once.
    pub fn expected(&self, new_users: u64) -> Duration {
        let ramp_up = self.interval.saturating_mul(u32::try_from(new_users).unwrap_or(u32::MAX));
        ramp_up + self.iteration + self.connected + self.settle + self.measure
    }

    /// Returns the first border at or after a time.
    fn border_from(&self, time: Duration) -> Duration {
        let number = time.as_nanos().div_ceil(self.sample.as_nanos());
        Duration::from_nanos(u64::try_from(number * self.sample.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The server's count of sessions at a border.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionCount {
    /// The server does not report sessions.
    Unsupported,
    /// The server did not answer in time.
    Unanswered,
    /// As many.
    Known(u64),
}

/// What is counted at a border, over all parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Border {
    /// The time.
    pub at: Duration,
    /// Users that are connected.
    pub connected: u64,
    /// Users that have completed an iteration.
    pub iterated: u64,
    /// Sessions.
    pub sessions: SessionCount,
}

/// What follows from a border.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The phase goes on.
    Continue,
    /// The steady state is reached: this is the measured interval.
    Measure(Range<Duration>),
    /// The measured interval is over.
    Complete,
    /// The measured interval is over, and users were disconnected at too many of its borders.
    Lost,
    /// There is no steady state within the limit.
    NotSteady,
}

/// The times of the phases of a level. A time is `None` if the phase was not reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// All users have completed an iteration.
    pub ramp_up_end: Option<Duration>,
    /// The steady state begins.
    pub steady: Option<Duration>,
    /// The measured interval.
    pub measured: Option<Range<Duration>>,
    /// The level ends: the measured interval is over, or there was none.
    pub end: Option<Duration>,
}

/// The phase of a level at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseName {
    /// Not all users have completed an iteration.
    RampUp,
    /// All users have; there is no steady state yet.
    BeforeSteadyState,
    /// There is steady state; the measured interval has not begun.
    Settling,
    /// The measured interval.
    Measured,
    /// The measured interval is over, or the run ends without one.
    CoolDown,
}

impl PhaseName {
    /// Returns the name for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::RampUp => "ramp-up",
            Self::BeforeSteadyState => "before steady state",
            Self::Settling => "settling",
            Self::Measured => "measured interval",
            Self::CoolDown => "cool-down",
        }
    }
}

/// The phases of a level.
#[derive(Debug, Clone)]
pub struct Phases {
    lengths: PhaseLengths,
    /// The users of this level and of those before it.
    users: u64,
    steady_limit: Duration,
    times: PhaseTimes,
    connected_since: Option<Duration>,
    connected_max: u64,
    /// The borders of the measured interval, and those of them at which users were disconnected.
    measured_borders: u64,
    disconnected_borders: u64,
}

impl Phases {
    /// Begins a level at a border. `joining` of its `users` connect now.
    pub fn new(lengths: PhaseLengths, begin: Duration, users: u64, joining: u64) -> Self {
        let ramp_up = lengths.interval.saturating_mul(u32::try_from(joining).unwrap_or(u32::MAX));
        let default_limit = ramp_up + lengths.iteration * STEADY_LIMIT_ITERATIONS + STEADY_LIMIT_REST;
        Self {
            lengths,
            users,
            steady_limit: begin + lengths.steady_limit.unwrap_or(default_limit),
            times: PhaseTimes::default(),
            connected_since: None,
            connected_max: 0,
            measured_borders: 0,
            disconnected_borders: 0,
        }
    }

    /// Returns the times of the phases that were reached.
    pub fn times(&self) -> &PhaseTimes {
        &self.times
    }

    /// Returns the largest number of connected users at a border.
    pub fn connected_max(&self) -> u64 {
        self.connected_max
    }

    /// Returns the phase that begins or goes on at a border.
    pub fn phase_at(&self, at: Duration) -> PhaseName {
        match &self.times.measured {
            _ if self.times.end.is_some() => PhaseName::CoolDown,
            Some(measured) if at < measured.start => PhaseName::Settling,
            Some(measured) if at < measured.end => PhaseName::Measured,
            Some(_) => PhaseName::CoolDown,
            None if self.times.ramp_up_end.is_some() => PhaseName::BeforeSteadyState,
            None => PhaseName::RampUp,
        }
    }

    /// Ends the level before its time.
    pub fn end(&mut self, at: Duration) {
        self.times.end.get_or_insert(at);
    }

    /// Determines what follows from a border. Borders are given in order, each once.
    pub fn border(&mut self, border: &Border) -> Decision {
        self.connected_max = self.connected_max.max(border.connected);
        if border.iterated >= self.users {
            self.times.ramp_up_end.get_or_insert(border.at);
        }
        let decision = match self.times.measured.clone() {
            None => self.border_before_steady_state(border),
            Some(measured) => self.border_in_steady_state(border, &measured),
        };
        if matches!(decision, Decision::Complete | Decision::Lost | Decision::NotSteady) {
            self.times.end = Some(border.at);
        }
        decision
    }

    fn border_before_steady_state(&mut self, border: &Border) -> Decision {
        let has_sessions = match border.sessions {
            SessionCount::Unsupported => true,
            SessionCount::Unanswered => false,
            SessionCount::Known(count) => count >= self.users,
        };
        if self.times.ramp_up_end.is_some() && border.connected >= self.users && has_sessions {
            let since = *self.connected_since.get_or_insert(border.at);
            if border.at - since >= self.lengths.connected {
                return self.begin_steady_state(border.at);
            }
        } else {
            self.connected_since = None;
        }
        if border.at >= self.steady_limit { Decision::NotSteady } else { Decision::Continue }
    }

    fn begin_steady_state(&mut self, at: Duration) -> Decision {
        let start = self.lengths.border_from(at + self.lengths.settle.max(self.lengths.sample));
        let measured = start..start + self.lengths.measure;
        self.times.steady = Some(at);
        self.times.measured = Some(measured.clone());
        Decision::Measure(measured)
    }

    fn border_in_steady_state(&mut self, border: &Border, measured: &Range<Duration>) -> Decision {
        if border.at <= measured.start {
            return Decision::Continue;
        }
        self.measured_borders += 1;
        self.disconnected_borders += u64::from(border.connected < self.users);
        if border.at < measured.end {
            return Decision::Continue;
        }
        let share = self.disconnected_borders as f64 / self.measured_borders as f64;
        if share > DISCONNECTED_SHARE_MAX { Decision::Lost } else { Decision::Complete }
    }
}
