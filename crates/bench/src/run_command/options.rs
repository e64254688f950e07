//! The options of all commands that play workloads: pace, population, server, and where the report goes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use bench::door::native::connections::USERS_PER_CONNECTION_MAX;
use bench::driver::options::RunOptions;
use bench::engine::pace::Pace;
use bench::target::by_server::SERVERS_MAX;
use bench::workload::limits::{DOCUMENTS_MAX, ITERATIONS_MAX};
use bench::workload::units::parse_duration;
use bench::workload::{DOORS, Door};
use clap::Args;

/// Maximum number of local addresses.
const SOURCES_MAX: u64 = 256;

/// Local addresses from which connections are opened.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceAddresses(Vec<IpAddr>);

/// How a workload is played, and against which server.
#[derive(Debug, Args)]
pub struct PlayOptions {
    /// Sets a parameter of the workload; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The protocols: native, imap, pop3, jmap or lite; those of the workload if missing.
    #[arg(long, value_name = "DOOR", value_parser = door)]
    door: Option<Door>,
    /// Divides iterations, jitter, pauses, interval, settling and measured interval, but no time limit and no size.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speedup: f64,
    /// From the connection of one user to that of the next, at speed 1.
    #[arg(long, value_name = "DURATION", default_value = "1 s", value_parser = duration)]
    interval: Duration,
    /// Ends each user after so many iterations, instead of those of the workload. The user then stays connected.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=ITERATIONS_MAX))]
    iterations: Option<u64>,
    /// The length of the measured interval, at speed 1, instead of that of the workload.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    measure: Option<Duration>,
    /// Begins a pause when the answer has come, as Server.Load does.
    #[arg(long, conflicts_with = "unpaced")]
    closed: bool,
    /// Begins each step when the previous one has ended, without pauses.
    #[arg(long)]
    unpaced: bool,
    /// The seed of plan and population.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The users from which recipients are drawn.
    #[arg(long, value_name = "A-B", value_parser = range)]
    recipients: Option<[u64; 2]>,
    /// Fills each mail file with so many documents, instead of those of the workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=DOCUMENTS_MAX))]
    documents: Option<u64>,
    /// Fills each database that is no mail file with so many documents, instead of those of the workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=DOCUMENTS_MAX))]
    database_documents: Option<u64>,
    /// Makes messages and documents smaller by this factor, which is at most 1.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    size_scale: f64,
    /// Fills so many mail files; the server copies the others from them.
    #[arg(long, value_name = "M", conflicts_with = "target")]
    masters: Option<u64>,
    /// The share of the documents of a copied mail file that get its user as recipient, and another date.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, requires = "masters")]
    own: f64,
    /// So many users share a connection, with a session each.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=USERS_PER_CONNECTION_MAX))]
    users_per_connection: u64,
    /// Opens connections from these local IPv4 addresses in turn.
    #[arg(long, value_name = "A-B", value_parser = source_addresses)]
    source_addresses: Option<SourceAddresses>,
    /// The longest time of a step, from its real start.
    #[arg(long, value_name = "DURATION", default_value = "60 s", value_parser = duration)]
    timeout: Duration,
    /// The longest sample.
    #[arg(long, value_name = "DURATION", default_value = "10 s", value_parser = duration)]
    sample: Duration,
    /// The longest time until the steady state; default: interval × users + 3 iterations + 10 min.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    steady_limit: Option<Duration>,
    /// The longest time for the last steps.
    #[arg(long, value_name = "DURATION", default_value = "1 min", value_parser = duration)]
    cool_down: Duration,
    /// Writes journal.jsonl beside the report: each change that users have asked for, and whether it was acknowledged.
    #[arg(long)]
    journal: bool,
    /// The program of the server; default: doublet beside this program.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "target")]
    pub server: Option<PathBuf>,
    /// Divides the users between so many servers of one domain on this machine, which send mail to each other.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "target",
        value_parser = clap::value_parser!(u64).range(1..=SERVERS_MAX))]
    servers: u64,
    /// A setting of each server that is started; may be repeated.
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "target")]
    pub server_set: Vec<String>,
    /// The folder below which the data folder is created; default: that of the system for temporary files.
    #[arg(long, value_name = "FOLDER", conflicts_with = "target")]
    folder: Option<PathBuf>,
    /// Uses a data folder that was kept, whose mail files were made with the same seed and options. It is changed by
    /// the run, and never deleted.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["target", "folder", "keep"])]
    pub data: Option<PathBuf>,
    /// Binds the server to the first half of the cores, and the driver to the others.
    #[arg(long, conflicts_with = "target")]
    pub pin: bool,
    /// Keeps the data folder, with a manifest of what it holds.
    #[arg(long, conflicts_with = "target")]
    pub keep: bool,
    /// Drives the server that this file (TOML) describes, instead of starting one. Its users must exist; their mail
    /// files are filled nevertheless: give --documents 0 if they are filled already.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
    /// Loads a server on another machine.
    #[arg(long)]
    pub yes_load_it: bool,
    /// The folder in which the directory of the report is created.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
}

impl PlayOptions {
    /// Returns the folder below which the data folder is created, or the data folder that is used.
    pub fn data_folder(&self) -> PathBuf {
        self.data.clone().or_else(|| self.folder.clone()).unwrap_or_else(std::env::temp_dir)
    }

    /// Returns the options of a run with these users; those of the workload if there are none.
    pub fn run_options(&self, users: &[u64]) -> RunOptions {
        RunOptions {
            set: self.set.clone(),
            door: self.door,
            users: (!users.is_empty()).then(|| users.to_vec()),
            seed: self.seed,
            speedup: self.speedup,
            interval_us: u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX),
            iterations: self.iterations,
            measure_us: self.measure.map(|measure| u64::try_from(measure.as_micros()).unwrap_or(u64::MAX)),
            pace: match (self.closed, self.unpaced) {
                (true, _) => Pace::Closed,
                (_, true) => Pace::Unpaced,
                _ => Pace::Timetable,
            },
            recipients: self.recipients,
            documents: self.documents,
            database_documents: self.database_documents,
            size_scale: self.size_scale,
            masters: self.masters,
            own: self.own,
            users_per_connection: self.users_per_connection,
            source_addresses: self
                .source_addresses
                .as_ref()
                .map(|SourceAddresses(list)| list.clone())
                .unwrap_or_default(),
            servers: self.servers,
            parts: 1,
            time_limit: self.timeout,
            sample: self.sample,
            steady_limit: self.steady_limit,
            cool_down: self.cool_down,
            journal: self.journal,
        }
    }
}

/// Parses a duration of the command line.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let micros = parse_duration(text).ok_or_else(|| "not a duration such as \"500 ms\"".to_owned())?;
    Ok(Duration::from_micros(micros))
}

fn door(text: &str) -> std::result::Result<Door, String> {
    let door = DOORS.iter().find(|(word, _)| *word == text).map(|(_, door)| *door);
    let words: Vec<&str> = DOORS.iter().map(|(word, _)| *word).collect();
    door.ok_or_else(|| format!("not one of {}", words.join(", ")))
}

/// Parses a range of IPv4 addresses.
fn source_addresses(text: &str) -> std::result::Result<SourceAddresses, String> {
    let refused = || format!("not a range of at most {SOURCES_MAX} IPv4 addresses such as 127.0.1.1-127.0.1.8");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<Ipv4Addr>().map(u32::from).map_err(|_| refused());
    let range = number(first)?..=number(last)?;
    let count = u64::from(*range.end()).saturating_add(1).saturating_sub(u64::from(*range.start()));
    if !(1..=SOURCES_MAX).contains(&count) {
        return Err(refused());
    }
    Ok(SourceAddresses(range.map(|address| Ipv4Addr::from(address).into()).collect()))
}

fn range(text: &str) -> std::result::Result<[u64; 2], String> {
    let range = text.split_once('-').and_then(|(first, last)| Some([first.parse().ok()?, last.parse().ok()?]));
    range.filter(|[first, last]| *first >= 1 && first <= last).ok_or_else(|| "not a range such as 1-1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_a_short_range() {
        let parsed = |text: &str| source_addresses(text).map(|SourceAddresses(list)| list.len()).ok();
        assert_eq!(parsed("127.0.1.1-127.0.1.8"), Some(8));
        assert_eq!(parsed("127.0.1.255-127.0.2.1"), Some(3));
        assert_eq!(parsed("127.0.0.1"), Some(1));
        for text in ["127.0.1.2-127.0.1.1", "127.0.0.0-127.0.1.0", "a-b", "::1", ""] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
