//! The command `compare`: stored runs beside each other.
//!
//! The comparison goes to standard output, as Markdown or as JSON. The exit code is 0, 1 if a report cannot be read, 2
//! for errors of the command line, and 5 if the runs are not compared.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::compare::output;
use bench::compare::table::{ComparedRun, InvalidRuns, RUNS_MAX, compare};
use bench::report::stored::StoredReport;
use clap::Args;

use crate::arguments::Result;
use crate::run_command::REFUSED_EXIT_CODE;

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareOptions {
    /// The directories of the reports: the baseline, and the new ones.
    #[arg(required = true, num_args = 2..=RUNS_MAX, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Compares runs that are not valid, too.
    #[arg(long)]
    anyway: bool,
    /// Prints the comparison as JSON.
    #[arg(long)]
    json: bool,
}

/// Compares runs.
pub fn run(options: &CompareOptions) -> Result<ExitCode> {
    let read = |folder: &PathBuf| -> Result<ComparedRun> {
        Ok(ComparedRun { folder: folder.clone(), stored: StoredReport::read(folder)? })
    };
    let runs: Vec<ComparedRun> = options.folders.iter().map(read).collect::<Result<_>>()?;
    let invalid = if options.anyway { InvalidRuns::Compared } else { InvalidRuns::Refused };
    match compare(&runs, invalid) {
        Err(refusal) => {
            eprintln!("doublet-bench: {refusal}");
            Ok(ExitCode::from(REFUSED_EXIT_CODE))
        }
        Ok(comparison) if options.json => {
            println!("{}", serde_json::to_string_pretty(&comparison)?);
            Ok(ExitCode::SUCCESS)
        }
        Ok(comparison) => {
            print!("{}", output::format(&comparison));
            Ok(ExitCode::SUCCESS)
        }
    }
}
