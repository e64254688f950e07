//! The timetable of a user: its steps in order, with their intended times, from the seed alone.
//!
//! Steps are computed on demand in constant memory. Times count in microseconds from *t0*, at speed 1. Iteration *k*
//! has its place exactly *k* iterations after the drawn start of the first one, so rates are exact.

use super::stream::{Draw, Stream};
use crate::workload::class::{Class, Phase, Step};

/// Steps and repetitions share a part of the key of a draw.
const REPETITIONS_PER_STEP: u64 = 65_536;

/// A step of a user on its timetable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedStep<'w> {
    /// The step of the class.
    pub step: &'w Step,
    /// The index of the step in the class.
    pub step_index: usize,
    /// The iteration, from 0.
    pub iteration: u64,
    /// The repetition in the iteration, from 0.
    pub repetition: u64,
    /// When the step is due, or `None` if the workload is unpaced: the step is then due when the previous one ends.
    pub intended_us: Option<u64>,
}

impl PlannedStep<'_> {
    /// Returns the key of the draws of this step for a user.
    pub fn key(&self, user: u64) -> [u64; 3] {
        key_of(user, self.iteration, self.step, self.repetition)
    }
}

/// Returns the key of the draws of a repetition of a step.
pub fn key_of(user: u64, iteration: u64, step: &Step, repetition: u64) -> [u64; 3] {
    [user, iteration, step.number * REPETITIONS_PER_STEP + repetition]
}

/// The steps of a user, as an iterator. It ends after the iterations of the workload, or never if they have no number.
#[derive(Debug, Clone)]
pub struct Timetable<'w> {
    class: &'w Class,
    cursor: Cursor,
}

impl<'w> Timetable<'w> {
    /// Creates the timetable that begins at a place.
    pub fn new(class: &'w Class, cursor: Cursor) -> Self {
        Self { class, cursor }
    }
}

impl<'w> Iterator for Timetable<'w> {
    type Item = PlannedStep<'w>;

    fn next(&mut self) -> Option<PlannedStep<'w>> {
        self.cursor.next_step(self.class)
    }
}

/// A place in the timetable of a user. It does not borrow the class, which each call gets: always the same one.
#[derive(Debug, Clone)]
pub struct Cursor {
    seed: u64,
    user: u64,
    /// The iterations of the user, or 0 if they have no number.
    iterations: u64,
    /// The place of the first iteration, or `None` if the workload is unpaced.
    start_us: Option<u64>,
    position: Position,
}

/// The place of the next step.
#[derive(Debug, Clone)]
struct Position {
    iteration: u64,
    /// When the previous step was due, or when the iteration begins.
    due_us: Option<u64>,
    step_index: usize,
    repetition: u64,
}

impl Cursor {
    /// Returns the place of the first step of a user who connects `connected_us` microseconds after *t0*.
    pub fn new(seed: u64, user: u64, class: &Class, iterations: u64, connected_us: u64) -> Self {
        let start_us = class.rhythm.iteration_us.map(|iteration_us| {
            let part =
                if iterations == 1 { 0 } else { Stream::new(seed, Draw::Start, [user, 0, 0]).below(iteration_us) };
            connected_us.saturating_add(part)
        });
        let position = Position { iteration: 0, due_us: None, step_index: 0, repetition: 0 };
        let mut cursor = Self { seed, user, iterations, start_us, position };
        cursor.begin_iteration(class, 0);
        cursor
    }

    /// Returns the step at this place, and moves to the next one. Returns `None` after the last one.
    pub fn next_step<'w>(&mut self, class: &'w Class) -> Option<PlannedStep<'w>> {
        loop {
            let Position { iteration, step_index, repetition, due_us } = self.position;
            if self.iterations > 0 && iteration == self.iterations {
                return None;
            }
            let Some(step) = class.steps.get(step_index) else {
                self.begin_iteration(class, iteration + 1);
                continue;
            };
            if repetition == step.count || !self.has_step(iteration, step) {
                self.position.step_index += 1;
                self.position.repetition = 0;
                continue;
            }
            let mut planned = PlannedStep { step, step_index, iteration, repetition, intended_us: None };
            let mut pauses = Stream::new(self.seed, Draw::Pause, planned.key(self.user));
            let pause_us = step.pause.min_us + pauses.below(step.pause.max_us - step.pause.min_us + 1);
            planned.intended_us = due_us.map(|due_us| due_us.saturating_add(pause_us));
            self.position.due_us = planned.intended_us;
            self.position.repetition += 1;
            return Some(planned);
        }
    }

    fn begin_iteration(&mut self, class: &Class, iteration: u64) {
        let due_us = self.begin_us(class, iteration);
        self.position = Position { iteration, due_us, step_index: 0, repetition: 0 };
    }

    /// Returns when an iteration begins, or `None` if the workload is unpaced.
    fn begin_us(&self, class: &Class, iteration: u64) -> Option<u64> {
        let rhythm = class.rhythm;
        let place_us = self.start_us?.saturating_add(iteration.saturating_mul(rhythm.iteration_us?));
        let jitter_us = Stream::new(self.seed, Draw::Jitter, [self.user, iteration, 0]).below(rhythm.jitter_us + 1);
        Some(place_us.saturating_add(jitter_us))
    }

    /// Returns `true` if an iteration has a step.
    fn has_step(&self, iteration: u64, step: &Step) -> bool {
        let phase = match step.phase {
            Phase::Fixed(phase) => phase,
            Phase::Drawn(number) => Stream::new(self.seed, Draw::Phase, [self.user, number, 0]).below(step.every),
        };
        iteration % step.every == phase
    }
}
