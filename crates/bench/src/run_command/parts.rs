//! A run that several processes play: the options, and what the coordinator and the other parts do.
//!
//! The coordinator fills the mail files, and writes the report of all parts. Another part writes only what it has
//! measured, and sends it; `merge` forms a report of such directories, too.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::driver::options::RunOptions;
use bench::driver::outcome::{report, samples};
use bench::driver::prepare::PreparedRun;
use bench::engine::share::PartShare;
use bench::parts::merge::merge_received;
use bench::parts::message::{FORMAT, Hello};
use bench::parts::record::{PartIdentity, PartRecord, StoredPart};
use bench::parts::{Coordinator, JoinedPart, LOG_FILE, PARTS_MAX, Parts, SILENCE_MAX, part_directory};
use bench::report::directory::ReportDirectory;
use bench::report::verdict::State;
use bench::target::system_random::SystemRandom;
use clap::Args;

use super::options::PlayOptions;
use super::session::{self, EndedRun, Filling, OpenTarget, PlaySession, RunPlace};
use super::{INVALID_EXIT_CODE, digest, facts, print_result};
use crate::arguments::Result;

/// Which part of a run this process plays.
#[derive(Debug, Args)]
pub struct PartOptions {
    /// This process plays one of several parts: part 1 is the coordinator.
    #[arg(long, value_name = "K/N", value_parser = share)]
    part: Option<PartShare>,
    /// The coordinator waits for the other parts at this address.
    #[arg(long, value_name = "HOST:PORT", requires = "part", conflicts_with = "join")]
    listen: Option<String>,
    /// The address of the coordinator.
    #[arg(long, value_name = "HOST:PORT", requires = "part")]
    join: Option<String>,
    /// The file with the token of the run. The coordinator writes it; the other parts read its first line.
    #[arg(long, value_name = "FILE", requires = "part")]
    token_file: Option<PathBuf>,
}

fn share(text: &str) -> std::result::Result<PartShare, String> {
    let numbers = text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    let share = numbers.filter(|(_, parts)| *parts <= PARTS_MAX).and_then(|(part, parts)| PartShare::new(part, parts));
    share.ok_or_else(|| format!("not a part such as 2/4, of at most {PARTS_MAX}"))
}

impl PartOptions {
    /// Returns the share of this process.
    pub fn share(&self) -> PartShare {
        self.part.unwrap_or_default()
    }
}

/// Runs one part of several.
pub fn run(play: &PlayOptions, options: &PartOptions, prepared: PreparedRun) -> Result<ExitCode> {
    let mut run = prepared;
    run.settings.share = options.share();
    match (&options.listen, &options.join, options.share().part()) {
        (Some(address), None, 1) => coordinate(play, options, &run, address),
        (None, Some(address), 2..) if play.target.is_some() => join(play, options, &run, address),
        (None, Some(_), 2..) => Ok(refused("a part that joins needs --target: the coordinator has the server")),
        (_, _, 1) => Ok(refused("part 1 is the coordinator and needs --listen")),
        _ => Ok(refused("a part from 2 on needs --join")),
    }
}

fn refused(reason: &str) -> ExitCode {
    eprintln!("doublet-bench: {reason}");
    ExitCode::from(INVALID_EXIT_CODE)
}

fn coordinate(play: &PlayOptions, options: &PartOptions, run: &PreparedRun, address: &str) -> Result<ExitCode> {
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let token = SystemRandom::open()?.password();
    if let Some(path) = &options.token_file {
        write_token(path, &token)?;
    }
    eprintln!("waiting for {} parts at {}, with the token {token}", run.options.parts - 1, listener.local_addr()?);
    let hello = hello(run, token)?;
    session::begin(play, run, Filling::Filled, async |session, open| {
        let started = session.started();
        let name = &run.plan.workload().name;
        let directory = ReportDirectory::create(&play.out, name, started, run.options.seed)?;
        let mut parts = Parts::Coordinator(Coordinator::new(listener, hello, run.settings.lengths.sample())?);
        let place = RunPlace { run, directory: &directory, started };
        match session.play_part(&place, open, &mut parts).await? {
            Some(ended) => finish_coordinator(&place, ended, parts).await,
            None => Ok(session::broken_off_before_the_run()),
        }
    })
}

/// Reads the records of the other parts, and writes one report.
async fn finish_coordinator(place: &RunPlace<'_>, ended: EndedRun, parts: Parts) -> Result<ExitCode> {
    let RunPlace { directory, .. } = *place;
    let run = &ended.run;
    let Parts::Coordinator(mut coordinator) = parts else { return Err("this part is no coordinator".into()) };
    let patience = run.options.cool_down + run.options.time_limit + SILENCE_MAX * 2;
    eprintln!("receiving what the other parts have measured");
    let missing = coordinator.receive_records(directory.path(), patience).await;
    let own = part_directory(directory.path(), 1);
    fs::create_dir(&own)?;
    fs::rename(directory.histograms(), own.join(LOG_FILE))?;
    let own = StoredPart::write(&own, part_record(run, &ended, Some(&coordinator)))?;
    let mut merged = merge_received(own, directory.path(), missing, &run.labels, &directory.histograms())?;
    merged.facts.commit = facts::COMMIT;
    let report = report(run, &merged.outcome, &merged.facts);
    let samples = samples(&merged.facts.record.borders, merged.facts.cores.server);
    directory.write_report(&report, &samples)?;
    Ok(print_result(&report, directory.path()))
}

fn join(play: &PlayOptions, options: &PartOptions, run: &PreparedRun, address: &str) -> Result<ExitCode> {
    let Some(path) = &options.token_file else {
        return Ok(refused("a part that joins needs --token-file, whose first line is the token of the coordinator"));
    };
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let hello = hello(run, text.lines().next().unwrap_or_default().to_owned())?;
    session::begin(play, run, Filling::Elsewhere, async |session, open| {
        let sample = run.settings.lengths.sample();
        match session.or_interrupted(JoinedPart::join(address, hello, sample)).await {
            Some(joined) => {
                eprintln!("joined the run");
                play_joined(play, run, session, open, joined?).await
            }
            None => Ok(session::broken_off_before_the_run()),
        }
    })
}

/// Runs a part, and sends what it has measured.
async fn play_joined(
    play: &PlayOptions,
    run: &PreparedRun,
    session: &mut PlaySession<'_>,
    open: &mut OpenTarget,
    joined: JoinedPart,
) -> Result<ExitCode> {
    let started = session.started();
    let part = run.settings.share.part();
    let name = format!("{}-part-{part}", run.plan.workload().name);
    let directory = ReportDirectory::create(&play.out, &name, started, run.options.seed)?;
    let mut parts = Parts::Joined(joined);
    let place = RunPlace { run, directory: &directory, started };
    let Some(ended) = session.play_part(&place, open, &mut parts).await? else {
        return Ok(session::broken_off_before_the_run());
    };
    StoredPart::write(directory.path(), part_record(run, &ended, None))?;
    println!("{}", directory.path().display());
    if let Parts::Joined(mut joined) = parts {
        joined.send_record(directory.path()).await?;
        eprintln!("the coordinator has what part {part} has measured");
    }
    Ok(ExitCode::from(State::of_end(ended.outcome.end).exit_code()))
}

/// Returns the record of this part, with what the coordinator knows of the others.
fn part_record(run: &PreparedRun, ended: &EndedRun, coordinator: Option<&Coordinator>) -> PartRecord {
    let identity = PartIdentity {
        part: run.settings.share.part(),
        options: shared_options(run),
        workload: digest(&run.text),
        machine_id: facts::machine_id(),
        clock_difference: coordinator.and_then(Coordinator::clock_difference),
        incomplete: coordinator.map(Coordinator::incomplete).unwrap_or_default(),
    };
    PartRecord::new(identity, &run.labels, &ended.outcome, &ended.facts)
}

/// Returns the options that all parts have in common: all but the local addresses.
fn shared_options(run: &PreparedRun) -> RunOptions {
    RunOptions { source_addresses: Vec::new(), ..run.options.clone() }
}

fn hello(run: &PreparedRun, token: String) -> Result<Hello> {
    Ok(Hello {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        token,
        part: run.settings.share.part(),
        parts: run.options.parts,
        workload: digest(&run.text),
        options: digest(&serde_json::to_string(&shared_options(run))?),
    })
}

/// Writes the token into a file that only its owner can read.
fn write_token(path: &Path, token: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // The mode of the creation does not concern a file that was there before.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    writeln!(file, "{token}")?;
    Ok(())
}
