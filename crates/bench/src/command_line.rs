//! The command line: commands and their options. It does no work.
//!
//! The commands that `scripts/bench` calls have pairs of `--name value`, which
//! [`Arguments`](crate::arguments::Arguments) parses.

use clap::{Args, Parser, Subcommand};

use crate::ab_command::AbCommand;
use crate::check_command::CheckOptions;
use crate::compare_command::CompareOptions;
use crate::experiment_command::ExperimentCommand;
use crate::max_users_command::MaxUsersCommand;
use crate::merge_command::MergeOptions;
use crate::plan_command::PlanCommand;
use crate::report_command::ReportOptions;
use crate::run_command::RunCommand;
use crate::stub_command::StubCommand;
use crate::timetable_command::TimetableOptions;

/// The load generator: drives a mail server over its public protocols, and reports measurements.
#[derive(Debug, Parser)]
#[command(name = "doublet-bench", max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "Documentation: docs/notesbench.md and docs/workloads.md.")]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Checks a workload file, and prints what each class does per user and hour.
    Check(CheckOptions),
    /// Prints the steps of one user of a workload, with times and draws, as a run would play them.
    Timetable(TimetableOptions),
    /// Prints what a run will take, before anything is written: messages, bytes over the wire and on the disk, time.
    Plan(Box<PlanCommand>),
    /// Plays a workload against a server, and writes a report.
    Run(Box<RunCommand>),
    /// Searches for the largest number of users at which the server answers in time.
    MaxUsers(Box<MaxUsersCommand>),
    /// Plays a workload with two settings in turns, and prints whether they differ.
    Ab(AbCommand),
    /// Shows what one option of the server does, as the articles about Domino varied it.
    Experiment(ExperimentCommand),
    /// Answers the native protocol at once, for the driver's own figures.
    #[command(hide = true)]
    Stub(StubCommand),
    /// Writes one report of the directories of several parts of a run.
    Merge(MergeOptions),
    /// Writes the pages of a report again, from its raw data.
    Report(ReportOptions),
    /// Prints stored runs beside each other: baseline, new and change of each row and verb.
    Compare(CompareOptions),
    /// IMAP: commands of a mail client, by many users at once.
    ///
    /// --address HOST:PORT --password P [--clients 50] [--rounds 20] [--messages 100] [--login once|always]
    Mix(Pairs),
    /// IMAP: mailboxes whose messages are replaced without a break.
    ///
    /// --address HOST:PORT --password P [--clients 50] [--messages 30] [--seconds 60]
    Churn(Pairs),
    /// IMAP: a mailbox through which many messages have passed, against a fresh one.
    ///
    /// --address HOST:PORT --password P [--user 1] [--messages 30] [--pass 0] [--samples 100]
    Passage(Pairs),
    /// IMAP: idle connections; waits for a line on standard input.
    ///
    /// --address HOST:PORT --password P [--connections 5000]
    Idle(Pairs),
    /// IMAP: messages appended by one user.
    ///
    /// --address HOST:PORT --password P --user NUMBER [--count 1000] [--size 10240]
    Append(Pairs),
    /// Native protocol: readers and writers of discussion databases.
    ///
    /// --address HOST:PORT --password P --certificate FILE [--users 250] [--databases 25] [--files shared{}.nsf]
    /// [--views NAME|NAME] [--rounds 10] [--guests 0] [--guest-file NAME] [--changes DOCUMENTS] [--compression true]
    Native(Pairs),
    /// A user beside neighbors who attack the server.
    ///
    /// --imap HOST:PORT --smtp HOST:PORT --native HOST:PORT --certificate FILE --password P --database FILE [--attack
    /// NAME] [--connections 8] [--seconds 5] [--fill 0]
    Neighbors(Pairs),
    /// Prints the names of the attacks of `neighbors`.
    Attacks,
    /// Writes an mbox file to standard output.
    ///
    /// --messages N [--seed 1] [--user NUMBER]
    Corpus(Pairs),
}

/// Pairs of `--name value`.
#[derive(Debug, Args)]
pub struct Pairs {
    /// The options of this command.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "--OPTION VALUE")]
    pub words: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> std::result::Result<Command, clap::Error> {
        CommandLine::try_parse_from(line.split_whitespace()).map(|line| line.command)
    }

    #[test]
    fn definition_has_no_contradictions() {
        CommandLine::command().debug_assert();
    }

    /// Checks the command lines of `scripts/bench`.
    #[test]
    fn pairs_are_passed_on() {
        let line = "doublet-bench mix --address 127.0.0.1:143 --password -secret --login once";
        let Ok(Command::Mix(pairs)) = parse(line) else { panic!("{line}") };
        assert_eq!(pairs.words.join(" "), "--address 127.0.0.1:143 --password -secret --login once");
        let Ok(Command::Corpus(pairs)) = parse("doublet-bench corpus --messages 5 --seed 3") else { panic!("corpus") };
        assert_eq!(pairs.words, ["--messages", "5", "--seed", "3"]);
        assert!(matches!(parse("doublet-bench attacks"), Ok(Command::Attacks)));
        assert_eq!(parse("doublet-bench mixx").expect_err("unknown").exit_code(), 2);
    }

    #[test]
    fn options_of_new_commands_are_checked() {
        let refused = |line: &str| parse(line).expect_err(line).to_string();
        assert!(refused("doublet-bench check").contains("<FILE>"));
        assert!(refused("doublet-bench check n8mail --jsn").contains("--json"));
        assert!(refused("doublet-bench timetable n8mail --interval 5").contains("not a duration"));
        assert!(refused("doublet-bench timetable n8mail --users 0").contains("0 is not in 1..=1000000"));
        assert!(refused("doublet-bench run n8mail --closed --unpaced").contains("--unpaced"));
        assert!(refused("doublet-bench run n8mail --target a.toml --server doublet").contains("--server"));
        assert!(refused("doublet-bench run n8mail --recipients 5-1").contains("not a range"));
        assert!(refused("doublet-bench run n8mail --timeout 5").contains("not a duration"));
        assert!(matches!(parse("doublet-bench run n8mail --users 10,20 --speedup 60 --closed"), Ok(Command::Run(_))));
        assert!(refused("doublet-bench max-users n8mail --users 5").contains("--users"));
        assert!(refused("doublet-bench max-users n8mail --from 0").contains("0 is not in 1..=200000"));
        assert!(refused("doublet-bench max-users n8mail --limit 1").contains("not a duration"));
        let line = "doublet-bench max-users n8mail --from 50 --to 400 --limit 500ms --speedup 60 --json";
        assert!(matches!(parse(line), Ok(Command::MaxUsers(_))), "{line}");
        let run = |line: &str| match parse(line) {
            Ok(Command::Ab(command)) => command.run.join(" "),
            Ok(Command::Experiment(command)) => command.run_words().join(" "),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(run("doublet-bench ab n8mail --a x=1 --b x=2 --turns 8 --users 5 --pin"), "--users 5 --pin");
        assert_eq!(run("doublet-bench experiment cache --turns 8 --users 5"), "--users 5");
        assert_eq!(run("doublet-bench experiment --all -- --users 5"), "--users 5");
        assert!(refused("doublet-bench ab n8mail --b x=2 --turns 4").contains("not a number from 5 to 100"));
        assert!(refused("doublet-bench ab n8mail --a x=1").contains("--b"));
        assert!(refused("doublet-bench experiment").contains("--list"));
        assert!(refused("doublet-bench run n8mail --part 3/2").contains("not a part such as 2/4"));
        assert!(refused("doublet-bench run n8mail --part 1/2 --listen 127.0.0.1:0 --join a:1").contains("--join"));
        assert!(refused("doublet-bench run n8mail --listen 127.0.0.1:0").contains("--part"));
        assert!(refused("doublet-bench merge").contains("<FOLDER>"));
        assert!(refused("doublet-bench compare one").contains("values required"));
        assert!(matches!(parse("doublet-bench compare one two three --anyway"), Ok(Command::Compare(_))));
        assert!(matches!(parse("doublet-bench check n8mail --set a=1 --set b=2"), Ok(Command::Check(_))));
    }
}
