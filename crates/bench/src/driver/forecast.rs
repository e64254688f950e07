//! What a run will take, before anything is written: its population, its messages and bytes, and its time.

use std::path::Path;

use serde::Serialize;

use super::data_folder::available_bytes;
use super::prepare::PreparedRun;
use crate::population::size::SizePlan;
use crate::workload::rates::Rates;
use crate::workload::verb::Verb;

/// By how much base64 makes a message larger.
const BASE64_FACTOR: f64 = 4.0 / 3.0;
const HOUR_SECONDS: f64 = 3_600.0;

/// What a run takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    /// The users of each level.
    pub users: Vec<u64>,
    /// The population.
    pub population: SizePlan,
    /// The time from the connection of the first user to the end of the last measured interval, in seconds, if every
    /// level becomes steady at once.
    pub run_seconds: f64,
    /// The messages that the users send, or `None` if the workload is unpaced.
    pub sent_messages: Option<u64>,
    /// The bytes of messages that are sent and read, or `None` if the workload is unpaced.
    pub run_wire_bytes: Option<u64>,
    /// What the disk of the data folder has.
    pub disk_available_bytes: Option<u64>,
}

impl Forecast {
    /// Computes what a run takes whose data folder is below `folder`.
    pub fn of(run: &PreparedRun, folder: &Path) -> Self {
        let population = SizePlan::of(&run.mail_files);
        let mut run_seconds = 0.0;
        let mut user_hours = 0.0;
        let mut before = 0;
        for users in &run.settings.levels {
            let seconds = run.settings.lengths.expected(users - before).as_secs_f64();
            run_seconds += seconds;
            user_hours += *users as f64 * seconds * run.options.speedup / HOUR_SECONDS;
            before = *users;
        }
        let rates = Rates::of_all(run.plan.workload());
        let actions = |rates: &Rates, verb: Verb| rates.by_verb.get(&verb).map_or(0.0, |rate| rate.to_f64());
        let message_bytes = population.message_bytes as f64;
        let wire = |rates: &Rates| {
            let sent = rates.sent.to_f64() * message_bytes * BASE64_FACTOR;
            let read = actions(rates, Verb::Read) * message_bytes;
            ((sent + read) * user_hours) as u64
        };
        Self {
            users: run.settings.levels.clone(),
            population,
            run_seconds,
            sent_messages: rates.as_ref().map(|rates| (rates.sent.to_f64() * user_hours) as u64),
            run_wire_bytes: rates.as_ref().map(wire),
            disk_available_bytes: available_bytes(folder),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::options::RunOptions;
    use crate::driver::prepare::prepare;
    use crate::workload::shipped;

    #[test]
    fn the_forecast_of_n8mail_is_that_of_the_issue() {
        let text = shipped::load("n8mail").expect("a shipped workload");
        let run = prepare(&text, RunOptions::default()).expect("a run");
        let forecast = Forecast::of(&run, Path::new("/"));
        assert_eq!(forecast.users, [4_000]);
        assert_eq!(forecast.population.messages, 12_000_000);
        // 4,000 s until all are connected, 15 minutes for an iteration, an hour of measuring, and a minute.
        assert!((8_500.0..8_700.0).contains(&forecast.run_seconds), "{}", forecast.run_seconds);
        // 8 messages a user and hour.
        let hours = forecast.run_seconds / 3_600.0;
        let sent = forecast.sent_messages.expect("a timetable") as f64;
        assert!((sent / (8.0 * 4_000.0 * hours) - 1.0).abs() < 0.01, "{sent}");
        assert!(forecast.run_wire_bytes > Some(0));
    }

    #[test]
    fn levels_and_speed_up_count() {
        let text = shipped::load("n8mail").expect("a shipped workload");
        let options = RunOptions { users: Some(vec![100, 200]), speedup: 60.0, ..RunOptions::default() };
        let forecast = Forecast::of(&prepare(&text, options).expect("a run"), Path::new("/"));
        // Each level: 100 connections in 1.7 s, 15 s, 60 s of measuring, and some samples.
        assert!((150.0..200.0).contains(&forecast.run_seconds), "{}", forecast.run_seconds);
    }
}
