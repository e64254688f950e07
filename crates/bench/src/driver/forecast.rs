//! What a run will take, before anything is written: its population, its messages and bytes, and its time.

use std::path::Path;

use serde::Serialize;

use super::data_folder::{available_bytes, gigabytes};
use super::prepare::{PreparedRun, Refusal};
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
    /// The messages that are sent, or `None` if that depends on the server.
    pub sent_messages: Option<u64>,
    /// The bytes of messages that are sent and read, or `None` if that depends on the server.
    pub run_wire_bytes: Option<u64>,
    /// The bytes of the messages that the run adds, if each attachment is stored once and nothing is deleted, or `None`
    /// if that depends on the server.
    pub run_disk_bytes: Option<u64>,
    /// The bytes that the disk must have for population and run.
    pub disk_needed_bytes: u64,
    /// What the disk of the data folder has.
    pub disk_available_bytes: Option<u64>,
}

impl Forecast {
    /// Computes what a run takes whose data folder is below `folder`.
    pub fn of(run: &PreparedRun, folder: &Path) -> Self {
        let population = SizePlan::of(&run.mail_files, &run.databases);
        let mut run_seconds = 0.0;
        let mut user_hours = 0.0;
        let mut before = 0;
        for users in &run.settings.levels {
            let seconds = run.settings.lengths.expected(users - before).as_secs_f64();
            run_seconds += seconds;
            user_hours += *users as f64 * seconds * run.options.speedup / HOUR_SECONDS;
            before = *users;
        }
        let workload = run.plan.workload();
        let of_iterations = || Some((Rates::of_all_iterations(workload)?, run.plan.users() as f64));
        // Iterations end the steps of a user. Without them the timetable says how many there are.
        let played = of_iterations().or_else(|| Some((Rates::of_all(workload)?, user_hours)));
        let messages = played.map(|(rates, factor)| RunMessages::of(&rates, factor));
        let run_disk_bytes = messages.as_ref().map(|messages| messages.disk_bytes(&population));
        Self {
            users: run.settings.levels.clone(),
            run_seconds,
            sent_messages: messages.as_ref().map(|messages| messages.sent as u64),
            run_wire_bytes: messages.as_ref().map(|messages| messages.wire_bytes(&population)),
            run_disk_bytes,
            disk_needed_bytes: population.disk_needed_bytes.saturating_add(run_disk_bytes.unwrap_or(0)),
            disk_available_bytes: available_bytes(folder),
            population,
        }
    }

    /// Refuses a run that the disk does not hold.
    ///
    /// # Errors
    ///
    /// With what can be made smaller.
    pub fn check_disk(&self) -> Result<(), Refusal> {
        let needed = self.disk_needed_bytes;
        let population = &self.population;
        let mut contents =
            vec![format!("{} mail files with {} documents each", population.people, population.documents)];
        let mut smaller = vec!["fewer documents (--documents)", "smaller ones (--size-scale)"];
        if population.database_documents > 0 {
            contents.push(format!("{} documents in other databases", population.database_documents));
            smaller.push("fewer documents of other databases (--database-documents)");
        }
        if let Some(bytes) = self.run_disk_bytes.filter(|bytes| *bytes > 0) {
            contents.push(format!("{} of messages of the run", gigabytes(bytes)));
            smaller.push("fewer users (--users)");
        }
        smaller.push("or copies of a few mail files (--masters)");
        match self.disk_available_bytes {
            Some(available) if available < needed => Err(Refusal::Disk(format!(
                "the disk has {}, and {} need {}: {}",
                gigabytes(available),
                contents.join(", "),
                gigabytes(needed),
                smaller.join(", ")
            ))),
            _ => Ok(()),
        }
    }
}

/// The messages of a run.
struct RunMessages {
    /// Messages and replies, those with drawn senders included.
    sent: f64,
    /// Copies of them: at the recipients, and at the senders.
    stored: f64,
    read: f64,
}

impl RunMessages {
    fn of(rates: &Rates, factor: f64) -> Self {
        let actions = |verb: Verb| rates.by_verb.get(&verb).map_or(0.0, |rate| rate.to_f64()) * factor;
        let stored = (rates.received.to_f64() + rates.sent.to_f64()) * factor;
        Self { sent: actions(Verb::Send) + actions(Verb::Reply), stored, read: actions(Verb::Read) }
    }

    fn wire_bytes(&self, population: &SizePlan) -> u64 {
        ((self.sent * BASE64_FACTOR + self.read) * population.message_bytes as f64) as u64
    }

    fn disk_bytes(&self, population: &SizePlan) -> u64 {
        let attached = population.message_bytes.saturating_sub(population.text_bytes);
        (self.stored * population.text_bytes as f64 + self.sent * attached as f64) as u64
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
        // A message of 97 KB is stored for 1.5 recipients and the sender: 20 texts of 42 KB an hour, 8 attachments.
        let stored = forecast.run_disk_bytes.expect("a timetable");
        assert!((1.2e6..1.4e6).contains(&(stored as f64 / 4_000.0 / hours)), "{stored}");
        assert_eq!(forecast.disk_needed_bytes, forecast.population.disk_needed_bytes + stored);
    }

    /// Checks that the filling of the articles needs a terabyte, though it has no timetable.
    #[test]
    fn a_run_that_fills_mail_files_counts() {
        let text = shipped::load("n8mailinit").expect("a shipped workload");
        let forecast = Forecast::of(&prepare(&text, RunOptions::default()).expect("a run"), Path::new("/"));
        assert_eq!((forecast.population.messages, forecast.sent_messages), (0, Some(12_000_000)));
        assert!(forecast.run_disk_bytes > Some(1_160_000_000_000), "{forecast:?}");
        assert!(forecast.disk_needed_bytes > 1_160_000_000_000, "{forecast:?}");
    }

    #[test]
    fn levels_and_speed_up_count() {
        let text = shipped::load("n8mail").expect("a shipped workload");
        let options = RunOptions { users: Some(vec![100, 200]), speedup: 60.0, ..RunOptions::default() };
        let forecast = Forecast::of(&prepare(&text, options).expect("a run"), Path::new("/"));
        // Each level: 100 connections in 1.7 s, 15 s, 60 s of measuring, and some samples.
        assert!((150.0..200.0).contains(&forecast.run_seconds), "{}", forecast.run_seconds);
    }

    #[test]
    fn a_small_disk_is_refused_with_what_helps() {
        let forecast = |name: &str, available| {
            let run = prepare(&shipped::load(name).expect("a shipped workload"), RunOptions::default());
            Forecast { disk_available_bytes: available, ..Forecast::of(&run.expect("a run"), Path::new("/")) }
        };
        forecast("n8mail", None).check_disk().expect("an unknown disk");
        forecast("n8mail", Some(2_000_000_000_000)).check_disk().expect("a large disk");
        let check = |name: &str, words: &[&str]| {
            let refusal = forecast(name, Some(3_000_000_000)).check_disk().expect_err("a small disk").to_string();
            assert!(refusal.starts_with("the disk has 3.0 GB, and "), "{refusal}");
            for word in words {
                assert!(refusal.contains(word), "{refusal}");
            }
        };
        let options = ["--documents", "--size-scale", "--masters", "--users"];
        check(
            "n8mail",
            &["4000 mail files with 3000 documents each, ", options[0], options[1], options[2], options[3]],
        );
        check("viewrebuild", &["1000000 documents in other databases", "--database-documents"]);
        check("n8mailinit", &["TB of messages of the run", "--users"]);
    }
}
