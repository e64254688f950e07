//! The command `experiment`: what one option does, as the articles about Domino varied it.
//!
//! The result goes to standard output, in Markdown. The exit code is the worst of the turns, and 5 for an experiment
//! that waits for something.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use bench::compare::alternate::TURNS_MIN;
use bench::compare::experiment::{EXPERIMENTS, Experiment, Found, Pair, find, output};
use bench::report::verdict::State;
use clap::Args;

use crate::ab_command::{self, AbCommand, Populations, turns};
use crate::arguments::Result;
use crate::run_command::{INVALID_EXIT_CODE, REFUSED_EXIT_CODE, print_invalid};

/// Options of `experiment`.
#[derive(Debug, Args)]
#[command(override_usage = "doublet-bench experiment <NAME|--all|--list> [OPTIONS] [OPTIONS OF RUN]...")]
#[command(after_help = "Examples:\n  \
    doublet-bench experiment --list\n  \
    doublet-bench experiment attachment-store --out results --users 40 --server target/release/doublet\n  \
    doublet-bench experiment --all --out results -- --users 40\n\n\
    The options of run win over those of the experiment, which are small: a result says at what scale it was measured.")]
pub struct ExperimentCommand {
    /// The name of an experiment.
    #[arg(required_unless_present_any = ["all", "list"])]
    name: Option<String>,
    /// Runs all experiments, one after the other. Options of run follow after two dashes.
    #[arg(long, conflicts_with = "list")]
    all: bool,
    /// Lists the experiments, and what those that cannot be run wait for.
    #[arg(long)]
    list: bool,
    /// Only the comparison with this label, of those of the experiment.
    #[arg(long, value_name = "LABEL")]
    only: Option<String>,
    /// The turns of each setting.
    #[arg(long, value_name = "N", default_value_t = TURNS_MIN, value_parser = turns)]
    turns: usize,
    /// The folder in which the directories of the results are created.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// Options of `run` for both settings, after those of `experiment`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS OF RUN")]
    run: Vec<String>,
}

impl ExperimentCommand {
    /// Returns the options of `run`. With `--all`, the first of them was taken for the name.
    pub fn run_words(&self) -> Vec<String> {
        let first = self.name.iter().filter(|_| self.all);
        first.chain(&self.run).cloned().collect()
    }
}

/// Runs or lists experiments.
pub fn run(command: &ExperimentCommand) -> Result<ExitCode> {
    if command.list {
        print!("{}", output::format_list(&EXPERIMENTS));
        return Ok(ExitCode::SUCCESS);
    }
    let name = command.name.as_deref().unwrap_or_default();
    if command.all {
        return run_all(&EXPERIMENTS.experiments.iter().collect::<Vec<_>>(), command);
    }
    match find(name) {
        Ok(Found::Experiment(experiment)) => run_all(&[experiment], command),
        Ok(Found::Waiting(waiting)) => {
            eprintln!("doublet-bench: {name} waits for {}", waiting.waits_for);
            Ok(ExitCode::from(REFUSED_EXIT_CODE))
        }
        Ok(Found::Note(note)) => {
            println!("{}", note.text);
            Ok(ExitCode::from(REFUSED_EXIT_CODE))
        }
        Err(near) => {
            let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            Ok(invalid(&format!("there is no experiment {name}{near} (doublet-bench experiment --list)")))
        }
    }
}

/// Prints an error of the options, and returns the exit code.
fn invalid(error: &str) -> ExitCode {
    eprintln!("doublet-bench: {error}");
    ExitCode::from(INVALID_EXIT_CODE)
}

fn run_all(experiments: &[&Experiment], command: &ExperimentCommand) -> Result<ExitCode> {
    let run = command.run_words();
    let mut worst = State::Valid;
    for experiment in experiments {
        let is_wanted = |pair: &&Pair| command.only.as_ref().is_none_or(|only| *only == pair.label);
        let pairs: Vec<&Pair> = experiment.pairs.iter().filter(is_wanted).collect();
        if pairs.is_empty() {
            let labels: Vec<&str> = experiment.pairs.iter().map(|pair| pair.label.as_str()).collect();
            return Ok(invalid(&format!("{} has the labels {}", experiment.name, labels.join(", "))));
        }
        for pair in pairs {
            let ab = ab(experiment, pair, command, &run);
            if let Err(error) = ab_command::checked(&ab) {
                return Ok(print_invalid(&ab.workload, &error));
            }
            eprintln!("experiment {}: {}", experiment.name, pair.label);
            worst = worst.max(run_pair(experiment, pair, &ab)?);
            if worst == State::BrokenOff {
                return Ok(ExitCode::from(worst.exit_code()));
            }
        }
    }
    Ok(ExitCode::from(worst.exit_code()))
}

/// Returns the comparison of two settings of an experiment.
fn ab(experiment: &Experiment, pair: &Pair, command: &ExperimentCommand, run: &[String]) -> AbCommand {
    AbCommand {
        workload: experiment.workload.clone(),
        a: pair.a.clone(),
        b: pair.b.clone(),
        turns: command.turns,
        populations: if experiment.own_populations { Populations::Each } else { Populations::One },
        keep_populations: false,
        out: command.out.clone(),
        run: ab_command::settings::overridden(&experiment.run, run),
    }
}

fn run_pair(experiment: &Experiment, pair: &Pair, ab: &AbCommand) -> Result<State> {
    let played = ab_command::play(ab)?;
    if let Some(result) = &played.result {
        let text = output::format_result(experiment, pair, result);
        fs::write(played.directory.join("experiment.md"), &text)?;
        print!("{text}");
    }
    eprintln!("{}", played.directory.display());
    Ok(played.worst)
}
