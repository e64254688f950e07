//! `doublet db export PATH -`: the table on standard output.
//!
//! Whoever has the data folder writes the table, this process or a server that knows nothing of our standard output. So it goes to a file in the data folder first, whose name is
//! gone before the first byte is passed on. A table that could not be written as a whole is not begun. What else there is to say goes to standard error.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Failure;
use super::admin_command::Office;
use super::terminal::human;
use crate::admin::request::{DbRequest, TableExport, TableForm};
use crate::admin::{Answer, Report, Request};
use crate::config::Config;
use crate::data::DataFolder;

/// Says in the help what holds on the command line alone.
pub(super) fn described(command: clap::Command) -> clap::Command {
    command
        .mut_arg("file", |file| {
            file.value_name("FILE|-").help("The file, which is made or replaced; - for standard output")
        })
        .mut_arg("formula", |formula| {
            formula.help("Only documents that this formula selects, as in 'SELECT Form = \"Order\"'")
        })
        .mut_arg("format", |format| {
            format.help("The form of the table. Default: what the file's name ends in; csv for standard output")
        })
}

/// Tells whether the table is to go to standard output.
pub(super) fn is_to_output(export: &TableExport) -> bool {
    export.file == Path::new("-")
}

/// A file whose name goes when this does.
struct Spool(PathBuf);

impl Drop for Spool {
    fn drop(&mut self) {
        // One that was never made has nothing to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a table to standard output, and what is to be said of it to standard error.
pub(super) fn run(config: &Arc<Config>, mut export: TableExport, report: &mut Report<'_>) -> Result<(), Failure> {
    let name = format!("export-{}.tmp", std::process::id());
    let spool =
        Spool(std::path::absolute(DataFolder::new(&config.server.data).path().join(name)).map_err(Failure::of)?);
    export.file.clone_from(&spool.0);
    export.format = Some(export.format.unwrap_or(TableForm::Csv));
    let answer = Office::open(config, false)?.ask(Request::Db(DbRequest::Export(export)), report)?;
    let mut table = File::open(&spool.0).map_err(|error| Failure(format!("{}: {error}", spool.0.display())))?;
    drop(spool);
    match std::io::copy(&mut table, &mut std::io::stdout().lock()) {
        // A reader that has gone away (`| head`) is no failure.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(Failure(format!("standard output: {error}")));
        }
        _ => {}
    }
    eprint!("{}", human(&Answer { says: answer.says, ..Answer::default() }));
    answer.complaint.map_or(Ok(()), |complaint| Err(Failure(complaint)))
}
