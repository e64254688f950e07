//! The definition of the command line, and its execution.
//!
//! The options of the native protocol are parsed anywhere on the command line, but they are shown and effective only
//! for commands that go to a server as a user ([`USER_COMMANDS`]). All other commands reject them before doing
//! anything: `--user` asks for the rights of that user, while an operator has all rights.
//!
//! `--set` may be given at every level of the command line, and the values of all levels apply: those of the outer
//! levels first, so that the last value of a key on the line wins.

use std::process::ExitCode;

use admin::Request;
use admin::request::{DbRequest, ServerRequest};
use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use instance::pdf;
use rustix::fs::Mode;

use crate::error::{CommandError, ExitStatus};
use crate::global_options::GlobalOptions;
use crate::server_functions::ServerFunctions;
use crate::{
    admin_command, bench_command, config_command, demo_command, export_command, formula_command, join_command,
    local_command, remote, remote_options, restore_command, serve_command, terminal_text,
};

/// Doublet: a collaboration server. Mail, directory and databases in one program.
#[derive(Debug, Parser)]
#[command(name = "doublet", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Commands that read or change data work with or without a running server.\n\
                        Documentation: docs/operating.md and docs/configuration.md.")]
struct CommandLine {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the server.
    Serve,
    /// Runs a demo server with users and mail on unprivileged loopback ports.
    Demo,
    /// Checks, shows or explains the configuration.
    #[command(subcommand)]
    Config(config_command::ConfigCommand),
    /// Measures mail servers: calls the load generator doublet-bench.
    Bench(bench_command::BenchCommand),
    /// Evaluates formulas, without a server.
    #[command(subcommand)]
    Formula(formula_command::FormulaCommand),
    /// Restores a backup into a new data folder, lists backups, or verifies one.
    Restore(restore_command::RestoreCommand),
    /// Extracts text from PDFs for the full-text index; started by the server.
    #[command(name = pdf::READ_PDF_COMMAND, hide = true)]
    ReadPdf,
    #[command(flatten)]
    Remote(remote::RemoteCommand),
    #[command(flatten)]
    Admin(Request),
}

/// Exit code for data that was not up to date.
const STALE_EXIT_CODE: u8 = 3;

/// Commands that connect to a server as the user named by `--user`.
const USER_COMMANDS: [&[&str]; 7] =
    [&["note"], &["view"], &["folder"], &["db", "list"], &["db", "open"], &["db", "search"], &["db", "create"]];

/// The argument that sets a key of the configuration, as clap identifies it.
const SET: &str = "set";

/// Runs the program.
#[must_use]
pub fn run(server: &ServerFunctions) -> ExitCode {
    let mut command = command();
    let matches = command.clone().get_matches();
    let line = match parsed(&matches) {
        Ok(line) => line,
        Err(error) => error.format(&mut command).exit(),
    };
    if let Err(reason) = reject_user_options(&line) {
        command.error(ErrorKind::ArgumentConflict, reason).exit();
    }
    match dispatch(server, &line.global, line.command) {
        Ok(ExitStatus::Done) => ExitCode::SUCCESS,
        Ok(ExitStatus::Stale) => ExitCode::from(STALE_EXIT_CODE),
        Err(failure) => {
            eprintln!("doublet: {}", terminal_text::lines(&failure.0));
            ExitCode::FAILURE
        }
    }
}

/// Returns the parsed command line, with the values of `--set` of all levels.
fn parsed(matches: &ArgMatches) -> Result<CommandLine, clap::Error> {
    let mut line = CommandLine::from_arg_matches(matches)?;
    let levels = std::iter::successors(Some(matches), |level| level.subcommand().map(|(_, below)| below));
    let values = levels.filter_map(|level| level.try_get_many::<String>(SET).ok().flatten());
    line.global.set = values.flatten().cloned().collect();
    Ok(line)
}

/// Returns the definition of the command line for clap.
fn command() -> clap::Command {
    let command = CommandLine::command();
    let set = command.get_arguments().find(|argument| argument.get_id() == SET).cloned();
    let command = set.iter().fold(command, add_below);
    let is_remote = |argument: &&clap::Arg| argument.get_help_heading() == Some(remote_options::HEADING);
    let shown: Vec<clap::Arg> =
        command.get_arguments().filter(is_remote).map(|argument| argument.clone().hide(false)).collect();
    let command = USER_COMMANDS.iter().fold(command, |command, path| show(command, path, &shown));
    let shown: Vec<clap::Arg> = shown.into_iter().filter(|argument| argument.get_id() != "server").collect();
    let command = show(command, &["replicate"], &shown);
    command.mut_subcommand("db", |db| db.mut_subcommand("export", export_command::with_stdout_help))
}

/// Adds an argument to the subcommands of a command, at every level.
fn add_below(command: clap::Command, argument: &clap::Arg) -> clap::Command {
    command.mut_subcommands(|below| add_below(below.arg(argument.clone()), argument))
}

/// Shows arguments in the help of a command and of its subcommands.
fn show(command: clap::Command, path: &[&str], arguments: &[clap::Arg]) -> clap::Command {
    match path {
        [] => command.args(arguments.to_vec()),
        [first, rest @ ..] => command.mut_subcommand(first, |below| show(below, rest, arguments)),
    }
}

/// Returns `true` for commands that may create files in the data folder. The files that other commands create, such as
/// those of `doublet note`, have the modes that the umask of their user chooses.
fn works_on_data_folder(command: &Command) -> bool {
    matches!(command, Command::Serve | Command::Demo | Command::Restore(_) | Command::Admin(_))
}

/// Rejects options of the native protocol for commands that ignore them.
fn reject_user_options(line: &CommandLine) -> Result<(), String> {
    let remote = &line.global.remote;
    let option = match &line.command {
        Command::Remote(_)
        | Command::Admin(Request::Db(
            DbRequest::Open { .. } | DbRequest::List | DbRequest::Search(_) | DbRequest::Create { .. },
        )) => return Ok(()),
        // Local replicas are replicated with the rights of their user.
        Command::Admin(Request::Replicate(_)) if remote.local.is_some() => return Ok(()),
        // These commands have their own `--user` option, for the owner of the mailbox.
        Command::Admin(Request::Import(_) | Request::Export(_)) => {
            remote.given_options().find(|option| *option != "--user")
        }
        _ => remote.given_options().next(),
    };
    let Some(option) = option else { return Ok(()) };
    let others = USER_COMMANDS.map(|path| format!("`doublet {}`", path.join(" "))).join(", ");
    Err(format!(
        "{option} cannot be used here: this command works on the data folder with the unrestricted rights of its operator. \
         The commands that call a server with the rights of a user are {others}"
    ))
}

fn dispatch(server: &ServerFunctions, global: &GlobalOptions, command: Command) -> Result<ExitStatus, CommandError> {
    if works_on_data_folder(&command) {
        // The libraries below the store and the full-text index give their files the mode that the umask leaves.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    match command {
        Command::Serve => serve_command::run(server, global)?,
        Command::Demo => demo_command::run(server, global)?,
        Command::Config(command) => config_command::run(server, global, &command)?,
        Command::Bench(command) => bench_command::run(&command)?,
        Command::Formula(command) => formula_command::run(global, &command)?,
        Command::Restore(command) => restore_command::run(global, &command)?,
        Command::ReadPdf => pdf::child::run().map_err(CommandError::new)?,
        Command::Remote(command) => return remote::run(server, global, command),
        Command::Admin(Request::Db(DbRequest::List)) if global.remote.is_given() => {
            return remote::list_databases(server, global);
        }
        Command::Admin(Request::Db(DbRequest::Search(request))) if global.remote.is_given() => {
            return remote::search(server, global, request);
        }
        Command::Admin(Request::Db(DbRequest::Create { path, title, template })) if global.remote.is_given() => {
            return remote::create_database(server, global, path, title, template);
        }
        Command::Admin(Request::Server(ServerRequest::Join(request))) => join_command::run(server, global, &request)?,
        Command::Admin(Request::Db(DbRequest::Open { path })) => return remote::open_database(server, global, &path),
        Command::Admin(Request::Replicate(request)) if let Some(folder) = &global.remote.local => {
            local_command::replicate(server, global, folder, request)?;
        }
        Command::Admin(request) => admin_command::run(global, request)?,
    }
    Ok(ExitStatus::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> CommandLine {
        let matches = command().try_get_matches_from(words.split(' ')).expect(words);
        parsed(&matches).expect(words)
    }

    #[test]
    fn command_definition_passes_the_checks_of_clap() {
        command().debug_assert();
    }

    #[test]
    fn native_protocol_options_are_accepted_only_where_effective() {
        let check = |words: &str, expected: Option<&str>| {
            let refused = reject_user_options(&read(words)).err();
            let option = refused.as_deref().and_then(|reason| reason.split(' ').next());
            assert_eq!(option, expected, "{words}");
        };
        check("doublet db export a.nsf a.csv --user ann", Some("--user"));
        check("doublet db import a.nsf a.csv --user ann --dry-run", Some("--user"));
        check("doublet db copy a.nsf b.nsf --user ann", Some("--user"));
        check("doublet --user ann status", Some("--user"));
        check("doublet user list --server hub", Some("--server"));
        check("doublet fixup --password-file -", Some("--password-file"));
        check("doublet config show --certificate a.pem", Some("--certificate"));
        check("doublet user list --compress", Some("--compress"));
        check("doublet note list a.nsf --user ann --compress", None);
        check("doublet import eml a.eml --user ann", None);
        check("doublet export eml a --user ann --server hub", Some("--server"));
        check("doublet note list a.nsf --user ann", None);
        check("doublet --user ann note list a.nsf", None);
        check("doublet db --user ann search a.nsf x", None);
        check("doublet db open a.nsf --server hub", None);
        check("doublet db list", None);
        check("doublet session list ann", None);
        check("doublet session end ann --all", None);
        check("doublet app-password list ann", None);
        let user = |words: &str| read(words).global.remote.user;
        assert_eq!(user("doublet --user ann note list a.nsf").as_deref(), Some("ann"));
        assert_eq!(user("doublet db open a.nsf --user ann").as_deref(), Some("ann"));
    }

    #[test]
    fn assignments_of_all_levels_apply_in_order() {
        let check = |words: &str, expected: &[&str]| assert_eq!(read(words).global.set, expected, "{words}");
        check("doublet --set a=1 db --set b=2 list --set c=3", &["a=1", "b=2", "c=3"]);
        check("doublet --set a=1 --set b=2 serve --set a=3", &["a=1", "b=2", "a=3"]);
        check("doublet note profile get a.nsf P --set a=1", &["a=1"]);
        check("doublet --set a=1 status", &["a=1"]);
        check("doublet status", &[]);
    }

    /// The load generator has options of the same names.
    #[test]
    fn words_after_bench_are_passed_on() {
        let check = |words: &str, expected: &str| {
            let line = read(words);
            assert_eq!(reject_user_options(&line), Ok(()), "{words}");
            assert!(line.global.set.is_empty(), "{words}");
            let Command::Bench(command) = line.command else { panic!("{words}") };
            let passed: Vec<_> = command.words.iter().filter_map(|word| word.to_str()).collect();
            assert_eq!(passed.join(" "), expected);
        };
        check("doublet bench", "");
        check("doublet bench --help", "--help");
        check(
            "doublet bench run n8mail --set a=1 --server x --help -- y",
            "run n8mail --set a=1 --server x --help -- y",
        );
    }

    #[test]
    fn help_of_every_command_shows_set() {
        for words in ["doublet", "doublet serve", "doublet db", "doublet db list", "doublet note profile get"] {
            let help = command().try_get_matches_from(format!("{words} --help").split(' ')).expect_err("it is help");
            assert!(help.to_string().contains("--set <KEY=VALUE>"), "{words}: {help}");
        }
    }

    #[test]
    fn help_shows_native_protocol_options_only_where_effective() {
        let check = |words: &str, expected: bool| {
            let error = command().try_get_matches_from(words.split(' ')).expect_err("it is help");
            assert_eq!(error.to_string().contains("--password-file"), expected, "{words}");
        };
        check("doublet --help", false);
        check("doublet db --help", false);
        check("doublet db export --help", false);
        check("doublet import --help", false);
        check("doublet note --help", true);
        check("doublet note profile get --help", true);
        check("doublet view entries --help", true);
        check("doublet db list --help", true);
        check("doublet db search --help", true);
    }
}
