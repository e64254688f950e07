//! The command `ab`: two settings in turns, A B B A A B B A …, each with a fresh server on a copy of one population.
//!
//! A turn is a process of this program with the command `run`, so that driver and server begin anew each time. The
//! path of the result goes to standard output. The exit code is the worst of the turns.

mod child;
mod memory;
pub mod settings;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bench::compare::alternate::{self, Alternation, Settings, Side, TURNS_MAX, TURNS_MIN, Turn, TurnFigure};
use bench::compare::table::figures_of_level;
use bench::driver::outcome::title;
use bench::report::directory::ReportDirectory;
use bench::report::stored::StoredReport;
use bench::report::verdict::State;
use bench::target::folder;
use bench::wall_clock;
use clap::{Args, ValueEnum};

use crate::arguments::Result;
use crate::run_command::{facts, print_invalid};
use child::{Ended, Runner};
use memory::{MemoryFolder, replaced};
use settings::{RunWords, SideWords};

const BYTES_PER_MB: f64 = 1_048_576.0;

/// Options of `ab`.
#[derive(Debug, Args)]
#[command(
    after_help = "A setting is KEY=VALUE of the server's configuration, run.OPTION=VALUE of the command `run` (run.closed=true,\n\
    run.users=200), or workload.NAME=VALUE of a parameter of the workload.\n\nExamples:\n  \
    doublet-bench ab n8mail --a store.sync=group --b store.sync=off --users 50 --speedup 60 --documents 20\n  \
    doublet-bench ab n8mail --b blobs.threshold=1GiB --populations each --users 20 --speedup 240 --documents 50\n\n\
    Exit codes: those of the worst turn (see run); 1 if a turn could not be carried out, 2 for errors of the options."
)]
pub struct AbCommand {
    /// A shipped workload by its name in lower case, or the path of a file.
    pub workload: String,
    /// A setting of A; may be repeated. Without one, A has the defaults.
    #[arg(long = "a", value_name = "SETTING")]
    pub a: Vec<String>,
    /// A setting of B; may be repeated.
    #[arg(long = "b", value_name = "SETTING", required = true)]
    pub b: Vec<String>,
    /// The turns of each setting.
    #[arg(long, value_name = "N", default_value_t = TURNS_MIN, value_parser = turns)]
    pub turns: usize,
    /// Whether one population is made for both, without their settings, or one for each of them, with its settings.
    #[arg(long, value_name = "WHICH", default_value = "one")]
    pub populations: Populations,
    /// Keeps the populations.
    #[arg(long)]
    pub keep_populations: bool,
    /// The folder in which the directory of the result is created.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub out: PathBuf,
    /// Options of `run` for both settings, after those of `ab`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS OF RUN")]
    pub run: Vec<String>,
}

/// The populations of an `ab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Populations {
    /// One for both settings.
    One,
    /// One for each setting, made by a server with this setting.
    Each,
}

/// Parses a number of turns.
pub fn turns(text: &str) -> std::result::Result<usize, String> {
    let turns = text.parse().ok().filter(|turns| (TURNS_MIN..=TURNS_MAX).contains(turns));
    turns.ok_or_else(|| format!("not a number from {TURNS_MIN} to {TURNS_MAX}"))
}

/// Runs the turns.
pub fn run(command: &AbCommand) -> Result<ExitCode> {
    if let Err(error) = checked(command) {
        return Ok(print_invalid(&command.workload, &error));
    }
    let played = play(command)?;
    println!("{}", played.directory.display());
    Ok(played.exit_code())
}

/// An `ab` that has ended.
pub struct PlayedAb {
    /// The directory of the result.
    pub directory: PathBuf,
    /// The result, or `None` if the turns ended before each setting had enough of them.
    pub result: Option<Alternation>,
    /// The worst state of the turns.
    pub worst: State,
}

impl PlayedAb {
    /// Returns the exit code of the worst turn.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.worst.exit_code())
    }
}

/// Runs the turns, and writes the result, which says if the turns ended early. Further reports than that of the result
/// are in folders below its own.
pub fn play(command: &AbCommand) -> Result<PlayedAb> {
    let Checked { words, sides, title } = checked(command)?;
    let runner = Runner::new()?;
    let directory = create_directory(command)?;
    let mut ab = Ab { command, words, sides, title, runner, directory, populations: Vec::new() };
    let played = ab.play();
    ab.delete_populations();
    played
}

/// The options of an `ab` that can begin.
#[derive(Debug)]
pub struct Checked {
    /// The options of `run` for both settings.
    words: RunWords,
    /// Those of each setting.
    sides: [SideWords; 2],
    /// The title of a run without the settings.
    title: String,
}

/// Checks the options.
pub fn checked(command: &AbCommand) -> Result<Checked> {
    let words = RunWords::new(&command.workload, &command.run);
    let sides = [SideWords::of_settings(&command.a)?, SideWords::of_settings(&command.b)?];
    let shared = words.prepare(&SideWords::default())?;
    for (side, settings) in sides.iter().zip([&command.a, &command.b]) {
        let is_same = words.prepare(side)?.has_population_of(&shared) && !side.has_folder();
        if command.populations == Populations::One && !is_same {
            let settings = settings.join(" ");
            let reason =
                format!("{settings} decides what is in the data folder, or where it is: add --populations each");
            return Err(reason.into());
        }
    }
    Ok(Checked { words, sides, title: title(&shared) })
}

fn create_directory(command: &AbCommand) -> Result<PathBuf> {
    let stem = Path::new(&command.workload).file_stem().and_then(|stem| stem.to_str()).unwrap_or("workload");
    let directory = ReportDirectory::create(&command.out, &format!("ab-{stem}"), wall_clock::now(), 1)?;
    Ok(fs::canonicalize(directory.path())?)
}

/// The turns of two settings.
struct Ab<'a> {
    command: &'a AbCommand,
    words: RunWords,
    /// The words of `run` of each setting.
    sides: [SideWords; 2],
    /// The title of a run without the settings.
    title: String,
    runner: Runner,
    directory: PathBuf,
    /// The population of each setting, or the one of both.
    populations: Vec<Population>,
}

/// A population.
struct Population {
    /// The data folder.
    data: PathBuf,
    /// The folder in memory that its setting names.
    memory: Option<MemoryFolder>,
}

/// A copy of the data folder of a population for one turn. It is deleted when this is dropped.
struct DataCopy {
    path: PathBuf,
}

impl DataCopy {
    /// Copies a data folder.
    fn of(population: &Path, path: PathBuf) -> Result<Self> {
        folder::copy(population, &path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for DataCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("doublet-bench: {}: {error}", self.path.display());
        }
    }
}

impl Ab<'_> {
    fn play(&mut self) -> Result<PlayedAb> {
        if self.populate()? { self.play_turns() } else { self.ended(Vec::new(), State::BrokenOff) }
    }

    fn play_turns(&self) -> Result<PlayedAb> {
        let mut worst = State::Valid;
        let mut turns: Vec<Turn> = Vec::new();
        for (number, side) in (1..).zip(alternate::order(self.command.turns)) {
            let count = 2 * self.command.turns;
            eprintln!("turn {number} of {count}: {}", side.letter().to_uppercase());
            let Some(turn) = self.turn(number, side)? else {
                eprintln!("broken off before turn {number}");
                worst = State::BrokenOff;
                break;
            };
            let state = State::of_name(&turn.state).unwrap_or(State::Failed);
            worst = worst.max(state);
            turns.push(turn);
            if state > State::NotValid {
                eprintln!("the turn is {}; there are no further ones", state.name());
                break;
            }
        }
        self.ended(turns, worst)
    }

    /// Writes the result of the turns that were played.
    fn ended(&self, turns: Vec<Turn>, worst: State) -> Result<PlayedAb> {
        let result = self.result(turns, worst)?;
        let result = result.is_complete().then_some(result);
        Ok(PlayedAb { directory: self.directory.clone(), result, worst })
    }

    /// Makes the populations. Returns `false` if that was broken off.
    fn populate(&mut self) -> Result<bool> {
        let sides = match self.command.populations {
            Populations::One => vec![SideWords::default()],
            Populations::Each => self.sides.to_vec(),
        };
        for (number, side) in (1..).zip(sides) {
            let memory = MemoryFolder::for_words(side.words(), &format!("population-{number}"), None)?;
            let side = side.replaced(replaced(side.words(), memory.as_ref()));
            let side = side.with(["--keep".to_owned(), "--fill-only".to_owned()]);
            match self.runner.run(&self.words.with(&side))? {
                Ended { code: 0, path: Some(data) } => self.populations.push(Population { data, memory }),
                Ended { code, .. } if code == State::BrokenOff.exit_code() => return Ok(false),
                Ended { code, .. } => return Err(format!("the population failed with the exit code {code}").into()),
            }
        }
        Ok(true)
    }

    /// Runs a turn on a copy of its population. Returns `None` if that was broken off before the turn had a report.
    fn turn(&self, number: usize, side: Side) -> Result<Option<Turn>> {
        if self.runner.is_stopped() {
            return Ok(None);
        }
        let Population { data: population, memory } =
            &self.populations[(side as usize).min(self.populations.len() - 1)];
        let copy =
            DataCopy::of(population, population.with_file_name(format!("{}-turn-{number}", file_name(population))))?;
        let words = &self.sides[side as usize];
        let memory = MemoryFolder::for_words(words.words(), &format!("turn-{number}"), memory.as_ref())?;
        self.turn_on(number, side, &copy.path, &words.replaced(replaced(words.words(), memory.as_ref())))
    }

    fn turn_on(&self, number: usize, side: Side, data: &Path, words: &SideWords) -> Result<Option<Turn>> {
        let out = self.directory.join(format!("{number:03}-{}", side.letter()));
        let before_mb = folder::disk_bytes(data) as f64 / BYTES_PER_MB;
        let paths =
            [("--data", data), ("--out", &*out)].map(|(name, path)| [name.to_owned(), path.display().to_string()]);
        let words = words.with(paths.into_iter().flatten());
        let Ended { code, path } = self.runner.run(&self.words.without_folder(&words))?;
        let report = match path {
            Some(report) => report,
            None if code == State::BrokenOff.exit_code() => return Ok(None),
            None => return Err(format!("turn {number} has no report: exit code {code}").into()),
        };
        let stored = StoredReport::read(&report)?;
        let mut figures: Vec<TurnFigure> = figures_of_level(&stored, 0).into_iter().map(TurnFigure::from).collect();
        figures.extend(percentiles(&stored));
        let after_mb = folder::disk_bytes(data) as f64 / BYTES_PER_MB;
        for (name, value) in [("population_in_mb", before_mb), ("data_folder_in_mb", after_mb)] {
            figures.push(TurnFigure { name: name.to_owned(), unit: "MB".to_owned(), value });
        }
        let below = report.strip_prefix(&self.directory).unwrap_or(&report);
        Ok(Some(Turn { side, report: below.display().to_string(), state: stored.report.state.name, figures }))
    }

    /// Writes the result of turns, and returns it.
    fn result(&self, turns: Vec<Turn>, worst: State) -> Result<Alternation> {
        let command = self.command;
        let settings = Settings {
            workload: command.workload.clone(),
            a: command.a.clone(),
            b: command.b.clone(),
            run: command.run.clone(),
            has_own_populations: command.populations == Populations::Each,
        };
        let first = turns.first().map(|turn| StoredReport::read(&self.directory.join(&turn.report))).transpose()?;
        let is_complete = worst <= State::NotValid && turns.len() == 2 * command.turns;
        let result = Alternation {
            title: first.map_or_else(|| self.title.clone(), |first| first.report.title),
            command: facts::command_line(std::env::args()),
            commit: facts::COMMIT.unwrap_or("unknown").to_owned(),
            state: worst.name().to_owned(),
            ..if is_complete { Alternation::new(settings, turns) } else { Alternation::incomplete(settings, turns) }
        };
        fs::write(self.directory.join("ab.json"), serde_json::to_string_pretty(&result)? + "\n")?;
        fs::write(self.directory.join("ab.md"), alternate::output::format(&result))?;
        Ok(result)
    }

    fn delete_populations(&self) {
        for Population { data: population, .. } in &self.populations {
            if self.command.keep_populations {
                eprintln!("the population is kept: {}", population.display());
            } else if let Err(error) = fs::remove_dir_all(population) {
                eprintln!("doublet-bench: {}: {error}", population.display());
            }
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().display().to_string()
}

/// Returns the percentiles of the responses of a run, which `compare` does not have because they have no spread.
fn percentiles(stored: &StoredReport) -> Vec<TurnFigure> {
    let headline = stored.report.headline.iter().flatten().next();
    let Some(response) = headline.and_then(|level| level.response.as_ref()) else { return Vec::new() };
    let values = [
        ("response_p50_msec", response.p50_us),
        ("response_p95_msec", response.p95_us),
        ("response_p99_msec", response.p99_us),
    ];
    let figure = |(name, value_us): (&str, u64)| TurnFigure {
        name: name.to_owned(),
        unit: "ms".to_owned(),
        value: value_us as f64 / 1_000.0,
    };
    values.into_iter().map(figure).collect()
}
