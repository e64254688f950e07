//! The command line.
//!
//! Results go to standard output, everything else to standard error; the exit code is 0, or 1 when something failed, or 2 when
//! the command line itself was wrong. With `--json` results are JSON. A message about a failure says what to do next.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::admin::Request;
use crate::admin::request::DbRequest;
use crate::config::{self, Config, Origin};
use crate::pdf;

mod admin_command;
mod batch;
mod config_command;
mod demo_command;
mod display_width;
mod formula_command;
pub mod remote;
mod restore_command;
mod serve_command;
pub mod terminal;

/// Where the configuration and the data are; the same for every command.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// The configuration file (TOML). Without one every key has its default.
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The data folder; overrides server.data of the configuration.
    #[arg(long, short, global = true, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Sets one key of the configuration, as in --set listen.imap=127.0.0.1:1143. May be given several times.
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Prints results as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// The server that commands go to.
    #[command(flatten)]
    pub remote: remote::Remote,
}

/// Doublet: a collaboration server. Mail, directory and databases in one program.
#[derive(Debug, Parser)]
#[command(name = "doublet", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Commands that look at or change data work whether a server runs on the data folder or not.\n\
                        Documentation: docs/operating.md and docs/configuration.md.")]
struct CommandLine {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server.
    Serve,
    /// Runs a demo server on unprivileged loopback ports, with users and mail in it.
    Demo,
    /// Checks, shows or explains the configuration.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Evaluates formulas, without a server.
    #[command(subcommand)]
    Formula(formula_command::FormulaCommand),
    /// Brings a backup back into a new data folder.
    Restore(restore_command::RestoreCommand),
    /// Reads PDFs for the full-text index; the server starts it.
    #[command(name = pdf::COMMAND, hide = true)]
    ReadPdf,
    #[command(flatten)]
    Remote(remote::RemoteCommand),
    #[command(flatten)]
    Admin(Request),
}

/// Why a command failed; the text is for the person at the terminal and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    /// Makes a failure of any error.
    pub fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let line = CommandLine::parse();
    match dispatch(&line.place, line.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("doublet: {}", display_width::lines(&failure.0));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(place: &Place, command: Command) -> Result<(), Failure> {
    match command {
        Command::Serve => serve_command::run(place),
        Command::Demo => demo_command::run(place),
        Command::Config(command) => config_command::run(place, &command),
        Command::Formula(command) => formula_command::run(place, &command),
        Command::Restore(command) => restore_command::run(place, &command),
        Command::ReadPdf => pdf::child::run().map_err(Failure::of),
        Command::Remote(command) => remote::run(place, command),
        Command::Admin(Request::Db(DbRequest::List)) if place.remote.is_meant() => remote::list_databases(place),
        Command::Admin(Request::Db(DbRequest::Search(request))) if place.remote.is_meant() => {
            remote::search(place, request)
        }
        Command::Admin(Request::Db(DbRequest::Open { path })) => remote::open_database(place, &path),
        Command::Admin(_) if place.remote.server.is_some() => {
            Err(Failure("this command works on a data folder: name it with --data, and leave --server out".to_owned()))
        }
        Command::Admin(request) => admin_command::run(place, request),
    }
}

impl Place {
    /// Says where the configuration comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin { file: self.config.clone(), preset: Vec::new(), overrides: self.set.clone(), data: self.data.clone() }
    }

    /// Reads and checks the configuration.
    pub fn load(&self) -> Result<Config, Failure> {
        config::load(&self.origin()).map_err(Failure::of)
    }
}

/// Writes a result to standard output. A reader that has gone away (`| head`) is no failure.
pub fn print(text: &str) {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
