//! The command `report`: the report of a run again, from its raw data.
//!
//! All times are computed again from the histograms. The report for people is replaced, as Markdown and as
//! HTML; the one for programs and the raw data stay as they are.

use std::path::PathBuf;
use std::process::ExitCode;

use bench::report::directory::ReportDirectory;
use bench::report::stored::StoredReport;
use clap::Args;

use crate::arguments::Result;

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportOptions {
    /// The directory of the report.
    folder: PathBuf,
}

/// Writes the pages of a report.
pub fn run(options: &ReportOptions) -> Result<ExitCode> {
    let stored = StoredReport::read(&options.folder)?;
    let directory = ReportDirectory::open(&options.folder);
    directory.write_pages(&stored.recomputed(), &stored.samples)?;
    println!("{}", options.folder.join("report.html").display());
    Ok(ExitCode::SUCCESS)
}
