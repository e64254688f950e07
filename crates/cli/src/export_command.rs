//! `doublet db export PATH -`: writes the table to standard output.
//!
//! The process that has the data folder open writes the table, and a running server has no access to the standard
//! output of this command. The table therefore goes to a file in the data folder first, whose name is removed before
//! its first byte is copied. A table that could not be written completely does not appear on standard output. Messages
//! go to standard error.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use admin::request::{DbRequest, TableExport, TableFormat};
use admin::{Answer, ProgressCallback, Request};
use config::Config;
use instance::data_folder::DataFolder;

use super::CommandError;
use super::admin_command::AdminTarget;
use super::terminal::format_for_people;

/// Adds to the help of the command what applies only to the command line.
pub(super) fn with_stdout_help(command: clap::Command) -> clap::Command {
    command
        .mut_arg("file", |file| file.value_name("FILE|-").help("The file to create or replace; - for standard output"))
        .mut_arg("formula", |formula| {
            formula.help("Only documents that this formula selects, such as 'SELECT Form = \"Order\"'")
        })
        .mut_arg("format", |format| {
            format.help("The format of the table. Default: the extension of the file name; csv for standard output")
        })
}

/// Returns `true` if the table is to be written to standard output.
pub(super) fn is_stdout(export: &TableExport) -> bool {
    export.file == Path::new("-")
}

/// A temporary file. Dropping this removes its name.
struct TemporaryTable(PathBuf);

impl Drop for TemporaryTable {
    fn drop(&mut self) {
        // The file may not exist, and then there is nothing to remove.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Writes a table to standard output, and the messages to standard error.
pub(super) fn run(
    config: &Arc<Config>,
    mut export: TableExport,
    report: &mut ProgressCallback<'_>,
) -> Result<(), CommandError> {
    let name = format!("export-{}.tmp", std::process::id());
    let table_file = TemporaryTable(
        std::path::absolute(DataFolder::new(&config.server.data).path().join(name)).map_err(CommandError::new)?,
    );
    export.file.clone_from(&table_file.0);
    export.format = Some(export.format.unwrap_or(TableFormat::Csv));
    let answer = AdminTarget::open(config, false)?.execute(Request::Db(DbRequest::Export(export)), report)?;
    let mut table =
        File::open(&table_file.0).map_err(|error| CommandError(format!("{}: {error}", table_file.0.display())))?;
    drop(table_file);
    match std::io::copy(&mut table, &mut std::io::stdout().lock()) {
        // A closed pipe (`| head`) is not an error.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(CommandError(format!("standard output: {error}")));
        }
        _ => {}
    }
    eprint!("{}", format_for_people(&Answer { messages: answer.messages, ..Answer::default() }));
    answer.failure.map_or(Ok(()), |failure| Err(CommandError(failure)))
}
