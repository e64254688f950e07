//! What a run will take, before anything is written: its population, its messages and bytes, and its time.

use std::path::Path;

use serde::Serialize;

use super::data_folder::{available_bytes, gigabytes};
use super::prepare::{PreparedRun, Refusal};
use crate::population::size::{DOCUMENT_BYTES, SizePlan};
use crate::workload::action::{Action, Recipients, Size};
use crate::workload::class::{Members, Step};
use crate::workload::profile::SizeRow;
use crate::workload::units::HOUR_US;
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
    /// The bytes of the messages and documents that the run adds, if each attachment is stored once and nothing is
    /// deleted, or `None` if that depends on the server.
    pub run_disk_bytes: Option<u64>,
    /// The bytes that the disk must have for population and run.
    pub disk_needed_bytes: u64,
    /// What the disk of the data folder has.
    pub disk_available_bytes: Option<u64>,
}

impl Forecast {
    /// Computes what a run takes whose data folder is below `folder`.
    pub fn of(run: &PreparedRun, folder: &Path) -> Self {
        let population = SizePlan::of(&run.mail_files, &run.databases).with_persons(run.people());
        let mut run_seconds = 0.0;
        let mut user_hours = 0.0;
        let mut before = 0;
        for users in &run.settings.levels {
            let seconds = run.settings.lengths.expected(users - before).as_secs_f64();
            run_seconds += seconds;
            user_hours += *users as f64 * seconds * run.options.speedup / HOUR_SECONDS;
            before = *users;
        }
        let messages = RunMessages::of_run(run, user_hours);
        let run_disk_bytes = messages.as_ref().map(|messages| messages.disk_bytes as u64);
        Self {
            users: run.settings.levels.clone(),
            run_seconds,
            sent_messages: messages.as_ref().map(|messages| messages.sent as u64),
            run_wire_bytes: messages.as_ref().map(|messages| messages.wire_bytes as u64),
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

/// What users send, read and add.
#[derive(Debug, Default)]
struct RunMessages {
    /// Messages and replies, those with drawn senders included.
    sent: f64,
    /// The bytes of messages and documents that are sent and read.
    wire_bytes: f64,
    /// The bytes of what is added, if each attachment is stored once.
    disk_bytes: f64,
}

impl RunMessages {
    /// Returns those of a run, or `None` if nothing says how many iterations there are.
    fn of_run(run: &PreparedRun, user_hours: f64) -> Option<Self> {
        let workload = run.plan.workload();
        let mut all = Self::default();
        for class in &workload.classes {
            let members = match class.members {
                Members::Share(share) => share.fraction().to_f64() * workload.users as f64,
                Members::Users(users) => users as f64,
            };
            let hours = user_hours * members / run.plan.users() as f64;
            let iterations = match (workload.iterations, class.rhythm.iteration_us) {
                (0, iteration_us) => hours * HOUR_US as f64 / iteration_us? as f64,
                (iterations, _) => members * iterations as f64,
            };
            for step in &class.steps {
                let times = iterations * step.count as f64 / step.every as f64;
                all.add_steps(run, step, times);
            }
        }
        Some(all)
    }

    /// Adds a step that is performed so many times.
    fn add_steps(&mut self, run: &PreparedRun, step: &Step, times: f64) {
        let count = |recipients: Recipients| match recipients {
            Recipients::Drawn(count) => count as f64,
            Recipients::Oneself => 1.0,
        };
        let saved = |copy: bool| if copy { 1.0 } else { 0.0 };
        let sizes = |size: &Size| MeanSize::of(run, size);
        match &step.action {
            Action::Send { recipients, size, copy, .. } => {
                self.sent += times;
                self.add(sizes(size), times, count(*recipients) + saved(*copy));
            }
            Action::Answer { size, copy, .. } => {
                self.sent += if step.verb == Verb::Reply { times } else { 0.0 };
                self.add(sizes(size), times, 1.0 + saved(*copy));
            }
            Action::Add { size } => self.add(sizes(size), times, 1.0),
            Action::Invite { recipients } => self.add(MeanSize::default(), times, *recipients as f64 + 1.0),
            Action::Plain {} if step.verb == Verb::Appointment => self.add(MeanSize::default(), times, 1.0),
            Action::Read { .. } => {
                let read = MeanSize::of_profile(run, &run.plan.workload().mailbox.profile);
                self.wire_bytes += times * (read.text + read.attached);
            }
            _ => {}
        }
    }

    /// Adds documents of a size, of each of which several copies are stored.
    fn add(&mut self, size: MeanSize, times: f64, copies: f64) {
        self.wire_bytes += times * (size.text + size.attached) * BASE64_FACTOR;
        self.disk_bytes += times * (copies * (size.text + DOCUMENT_BYTES) + size.attached);
    }
}

/// The mean size of text and attachment, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct MeanSize {
    text: f64,
    attached: f64,
}

impl MeanSize {
    fn of(run: &PreparedRun, size: &Size) -> Self {
        match size {
            Size::Bytes(bytes) => Self { text: *bytes as f64 * run.options.size_scale, attached: 0.0 },
            Size::Profile(name) => Self::of_profile(run, name),
        }
    }

    fn of_profile(run: &PreparedRun, name: &str) -> Self {
        let profile = &run.plan.workload().profiles[name];
        let mean = |bytes: fn(&SizeRow) -> u64| profile.mean_of(bytes).to_f64() * run.options.size_scale;
        Self { text: mean(|row| row.body_bytes), attached: mean(|row| row.attachment_bytes) }
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
        // A message of 97 KB is stored for 1.5 recipients and the sender: 20 texts of 44 KB an hour, 8 attachments.
        let stored = forecast.run_disk_bytes.expect("a timetable");
        assert!((1.25e6..1.4e6).contains(&(stored as f64 / 4_000.0 / hours)), "{stored}");
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

    /// Checks that what is added without being sent counts: 8 documents of 50 KB an hour, in R6Mail.
    #[test]
    fn documents_that_are_added_count() {
        let text = shipped::load("r6mail").expect("a shipped workload");
        let options = RunOptions { documents: Some(0), ..RunOptions::default() };
        let forecast = Forecast::of(&prepare(&text, options).expect("a run"), Path::new("/"));
        let added = 8.0 * 1_500.0 * 50_000.0 * forecast.run_seconds / 3_600.0;
        let stored = forecast.run_disk_bytes.expect("a timetable") as f64;
        assert!((added..added * 1.6).contains(&stored), "{stored} {added}");
    }
}
