//! The command `merge`: one report of the directories of several parts.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::driver::outcome::{report, samples};
use bench::driver::prepare::prepare;
use bench::parts::merge::merge;
use bench::parts::record::StoredPart;
use bench::report::directory::ReportDirectory;
use clap::Args;

use crate::arguments::Result;
use crate::run_command::{digest, facts, print_refusal, print_result};

/// Options of `merge`.
#[derive(Debug, Args)]
pub struct MergeOptions {
    /// The directories of the parts, with that of the coordinator (part 1).
    #[arg(required = true, num_args = 1..=64, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The workload file, if it is not in the first directory.
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// The folder in which the directory of the report is created.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
}

/// Writes one report of several parts.
pub fn run(options: &MergeOptions) -> Result<ExitCode> {
    let path = options.workload.clone().unwrap_or_else(|| options.folders[0].join("workload.toml"));
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parts: Vec<StoredPart> =
        options.folders.iter().map(|folder| StoredPart::read(folder)).collect::<std::result::Result<_, _>>()?;
    let first = &parts[0].record;
    if digest(&text) != first.workload {
        return Err(format!("{} is not the workload of the parts", path.display()).into());
    }
    let run = match prepare(&text, first.options.clone()) {
        Ok(run) => run,
        Err(refusal) => return Ok(print_refusal(&path.display().to_string(), &refusal)),
    };
    let name = &run.plan.workload().name;
    let directory = ReportDirectory::create(&options.out, name, first.started(), run.options.seed)?;
    directory.write("workload.toml", &text)?;
    let mut merged = merge(parts, &run.labels, &directory.histograms())?;
    merged.facts.commit = facts::COMMIT;
    let report = report(&run, &merged.outcome, &merged.facts);
    let samples = samples(&merged.facts.record.borders, merged.facts.cores.server);
    directory.write_report(&report, &samples)?;
    Ok(print_result(&report, directory.path()))
}
