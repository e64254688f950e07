//! The blocks of the measured intervals of a run, from its log, and the spreads of mean responses.

use std::io::BufRead;
use std::ops::Range;
use std::time::Duration;

use super::statistics::Spread;
use crate::record::blocks::Blocks;
use crate::record::histograms::Kind;
use crate::record::log::{LogError, LogReader, LoggedHistogram, TagSubject};

/// The blocks of the measured intervals, by level from 1.
#[derive(Debug, Default)]
pub struct Spreads {
    levels: Vec<Option<Blocks>>,
}

impl Spreads {
    /// Reads the log of a run with these measured intervals.
    ///
    /// # Errors
    ///
    /// If the log cannot be read.
    pub fn read(input: impl BufRead, measured: &[Option<Range<Duration>>]) -> Result<Self, LogError> {
        Self::collect(LogReader::new(input), measured)
    }

    /// Collects the histograms of a log with these measured intervals.
    ///
    /// # Errors
    ///
    /// The first one of the histograms.
    pub fn collect(
        histograms: impl Iterator<Item = Result<LoggedHistogram, LogError>>,
        measured: &[Option<Range<Duration>>],
    ) -> Result<Self, LogError> {
        let blocks = (1..).zip(measured).map(|(level, interval)| Some(Blocks::new(level, interval.as_ref()?)));
        let mut levels: Vec<Option<Blocks>> = blocks.collect();
        for logged in histograms {
            let logged = logged?;
            levels.iter_mut().flatten().for_each(|blocks| blocks.add(&logged));
        }
        Ok(Self { levels })
    }

    /// Returns the spread of the mean response of all steps as a share of the mean, or `None` if it is not known.
    pub fn of_all(&self, level: u8, mean_us: u64) -> Option<f64> {
        self.share(level, mean_us, is_response)
    }

    /// Returns the same for a verb and class.
    pub fn of_verb(&self, level: u8, verb: &str, class: &str, mean_us: u64) -> Option<f64> {
        let wanted = TagSubject::Steps { verb: verb.to_owned(), class: class.to_owned(), kind: Kind::Response };
        self.share(level, mean_us, |subject| *subject == wanted)
    }

    fn share(&self, level: u8, mean_us: u64, condition: impl Fn(&TagSubject) -> bool) -> Option<f64> {
        Spread::of_blocks(mean_us as f64, &self.level(level)?.means_us(condition))?.share()
    }

    /// Returns the blocks of a level, or `None` if it has no measured interval.
    pub fn level(&self, level: u8) -> Option<&Blocks> {
        self.levels.get(usize::from(level.checked_sub(1)?))?.as_ref()
    }
}

/// Returns `true` for the responses of all verbs and classes.
pub fn is_response(subject: &TagSubject) -> bool {
    matches!(subject, TagSubject::Steps { kind: Kind::Response, .. })
}
