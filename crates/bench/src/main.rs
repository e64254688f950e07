//! The load generator: drives a mail server over its public protocols and reports measurements.
//!
//! It shares no code with the server, so that an error cannot cancel out on both sides, and it sends the same bytes to
//! other servers for comparison. It measures times and counts; `scripts/bench` measures what a server consumes
//! (processor, memory, disk). Results are one JSON object on standard output; progress and errors go to standard error.
//!
//! Users are named `NUMBERbench@bench.test`, because the program that drives SMTP (`smtp-source`) can put a number only
//! in front of the name.
//!
//! `doublet-bench help` lists the commands.

mod ab_command;
mod append;
mod arguments;
mod check_command;
mod churn;
mod command_line;
mod compare_command;
mod corpus;
mod experiment_command;
mod idle;
mod max_users_command;
mod measurements;
mod merge_command;
mod mix;
mod native;
mod neighbors;
mod passage;
mod plan_command;
mod report_command;
mod run_command;
mod stub_command;
#[cfg(test)]
mod tests;
mod timetable_command;
mod users;

use std::process::ExitCode;

use arguments::{Arguments, Result};
use clap::Parser as _;
use command_line::{Command, CommandLine, Pairs};

fn main() -> ExitCode {
    match run(CommandLine::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("doublet-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Check(options) => return check_command::run(&options),
        Command::Timetable(options) => return timetable_command::run(&options),
        Command::Ab(command) => return ab_command::run(&command),
        Command::Experiment(command) => return experiment_command::run(&command),
        Command::Plan(command) => return plan_command::run(&command),
        Command::Run(command) => return run_command::run(&command),
        Command::MaxUsers(command) => return max_users_command::run(&command),
        Command::Stub(command) => return stub_command::run(&command),
        Command::Merge(options) => return merge_command::run(&options),
        Command::Report(options) => return report_command::run(&options),
        Command::Compare(options) => return compare_command::run(&options),
        Command::Mix(pairs) => with_pairs(pairs, mix::run)?,
        Command::Churn(pairs) => with_pairs(pairs, churn::run)?,
        Command::Passage(pairs) => with_pairs(pairs, passage::run)?,
        Command::Idle(pairs) => with_pairs(pairs, idle::run)?,
        Command::Append(pairs) => with_pairs(pairs, append::run)?,
        Command::Native(pairs) => with_pairs(pairs, native::run)?,
        Command::Neighbors(pairs) => with_pairs(pairs, neighbors::run)?,
        Command::Attacks => neighbors::print_attacks(),
        Command::Corpus(pairs) => with_pairs(pairs, corpus::run)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn with_pairs(pairs: Pairs, work: impl Fn(&Arguments) -> Result<()>) -> Result<()> {
    work(&Arguments::parse(pairs.words.into_iter())?)
}
