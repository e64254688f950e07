//! The command `run`: population, run and report.
//!
//! Progress goes to standard error, and the path of the report to standard output. The exit code is that of the state
//! of the run; docs/notesbench.md lists them. Commands that play several runs use [`options`] and [`session`], too.

pub mod facts;
pub mod interrupts;
pub mod options;
mod parts;
pub mod session;

use std::path::Path;
use std::process::ExitCode;

use bench::driver::options::RunOptions;
use bench::driver::prepare::{PreparedRun, Refusal, prepare};
use bench::report::directory::ReportDirectory;
use bench::report::model::Report;
use bench::report::validity::reason_against;
use bench::report::verdict::State;
use bench::workload::finding::Finding;
use bench::workload::shipped;
use clap::Args;

use crate::arguments::{Error, Result};
use options::PlayOptions;
use parts::PartOptions;
use session::Filling;

/// Exit code for errors of the command line and of the workload file.
pub const INVALID_EXIT_CODE: u8 = 2;
/// Exit code for what this version, or a rule of safety, refuses.
pub const REFUSED_EXIT_CODE: u8 = 5;

/// Options of `run`.
///
/// Creates a data folder, starts a server on it, fills the mail files of its users, plays the workload, and writes a
/// report.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    doublet-bench run n8mail --users 100 --speedup 60 --documents 20\n  \
    doublet-bench run n8mail --users 50,100 --documents 20 --size-scale 0.1 --out reports\n  \
    doublet-bench run n8mail --users 1000 --documents 300 --masters 10 --keep\n  \
    doublet-bench run helpdesk.toml --set busy=8 --users 200 --target server.toml\n\n\
    Exit codes: 0 valid or overloaded, 1 could not be carried out, 2 error in the command line or in the workload,\n\
    3 not steady or not valid, 4 failed, 5 refused, 130 broken off (Ctrl-C), with a report.")]
pub struct RunCommand {
    /// A shipped workload by its name in lower case, or the path of a file.
    workload: String,
    /// The users, or those of each level in ascending order; those of the workload if missing.
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    users: Vec<u64>,
    /// Ends when the mail files are filled, without a run, and prints the data folder.
    #[arg(long, requires = "keep")]
    fill_only: bool,
    #[command(flatten)]
    parts: PartOptions,
    #[command(flatten)]
    play: PlayOptions,
}

impl RunCommand {
    /// Prepares the run as one of several in turns, which have data folders and directories of their own.
    pub fn prepare_in_turns(&self) -> Result<PreparedRun> {
        let options = &self.play;
        let own = [
            ("--part", self.parts.share().parts() > 1),
            ("--target", options.target.is_some()),
            ("--data", options.data.is_some()),
            ("--keep", options.keep),
            ("--out", options.out != Path::new(".")),
        ];
        match own.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(format!("{option} cannot be given to runs in turns").into()),
            None if self.users.len() > 1 => Err("runs in turns have one level of users".into()),
            None => Ok(prepare(&shipped::load(&self.workload)?, options.run_options(&self.users))?),
        }
    }
}

/// Runs a workload.
pub fn run(command: &RunCommand) -> Result<ExitCode> {
    let text = shipped::load(&command.workload)?;
    let share = command.parts.share();
    let options = RunOptions { parts: share.parts(), ..command.play.run_options(&command.users) };
    let prepared = match prepare(&text, options) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(print_refusal(&command.workload, &refusal)),
    };
    if share.parts() > 1 {
        return parts::run(&command.play, &command.parts, prepared);
    }
    session::begin(&command.play, &prepared, Filling::Filled, async |session, open| {
        if command.fill_only {
            println!("{}", open.folder().unwrap_or_default().display());
            return Ok(ExitCode::SUCCESS);
        }
        let name = &prepared.plan.workload().name;
        let started = session.started();
        let directory = ReportDirectory::create(&command.play.out, name, started, prepared.options.seed)?;
        match session.play(&prepared, open, &directory, started).await? {
            Some(played) => Ok(print_result(&played.report, directory.path())),
            None => Ok(session::broken_off_before_the_run()),
        }
    })
}

/// Prints an error of the options, or why a run that they describe is refused, and returns the exit code.
pub fn print_invalid(file: &str, error: &Error) -> ExitCode {
    if let Some(refusal) = error.downcast_ref() {
        return print_refusal(file, refusal);
    }
    eprintln!("doublet-bench: {error}");
    ExitCode::from(INVALID_EXIT_CODE)
}

/// Prints why there is no run, and returns the exit code.
pub fn print_refusal(file: &str, refusal: &Refusal) -> ExitCode {
    match refusal {
        Refusal::Findings(findings) => eprint!("{}", Finding::format_all(file, findings)),
        other => eprintln!("doublet-bench: {other}"),
    }
    let is_refused = matches!(refusal, Refusal::NotOffered(_) | Refusal::Disk(_) | Refusal::DataFolder(_));
    ExitCode::from(if is_refused { REFUSED_EXIT_CODE } else { INVALID_EXIT_CODE })
}

/// Returns the digest of a workload file.
pub fn digest(text: &str) -> String {
    bench::driver::outcome::digest(text.as_bytes())
}

/// Prints the result, and returns the exit code of the state.
pub fn print_result(report: &Report, path: &Path) -> ExitCode {
    eprintln!("state: {}", report.state.name);
    for remark in report.state.reasons.iter().chain(&report.state.warnings) {
        eprintln!("  {}", remark.text);
    }
    for level in report.headline.iter().flatten() {
        let mean_us = level.response.as_ref().map_or(0, |response| response.mean_us);
        let response = format!("mean response {:.1} ms", mean_us as f64 / 1_000.0);
        let reason = reason_against(report, level.users);
        let doubt = reason.map(|reason| format!(" (these figures do not stand: {reason})")).unwrap_or_default();
        eprintln!("{} users: {} {:.1}, {response}{doubt}", level.users, level.figure, level.notesmark);
    }
    println!("{}", path.display());
    ExitCode::from(State::of_name(&report.state.name).map_or(1, State::exit_code))
}
