//! Settings of `ab` as words of `run`, and the options of `run` that both settings share.

use bench::driver::prepare::PreparedRun;
use clap::{Args as _, Parser as _};

use crate::arguments::Result;
use crate::command_line::{Command, CommandLine};
use crate::run_command::RunCommand;

/// The prefix of a setting that is an option of `run`.
const RUN: &str = "run.";
/// Options of `run` that may be repeated: those of a setting are added.
const REPEATED: &[&str] = &["set", "server-set"];
/// The option of `run` that decides where a population is.
const FOLDER: &str = "folder";
/// The prefix of a setting that is a parameter of the workload.
const WORKLOAD: &str = "workload.";

/// What the settings of one side change in the words of `run` that both share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideWords {
    /// The words that are added.
    words: Vec<String>,
    /// The switches that are taken away.
    switched_off: Vec<String>,
}

impl SideWords {
    /// Returns the words for some settings.
    pub fn of_settings(settings: &[String]) -> Result<Self> {
        let mut side = Self::default();
        for setting in settings {
            side.add(setting)?;
        }
        let switched_on = names(&side.words);
        match side.switched_off.iter().find(|name| switched_on.contains(name)) {
            Some(name) => Err(format!("run.{name} is both true and false").into()),
            None => Ok(side),
        }
    }

    fn add(&mut self, setting: &str) -> Result<()> {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting}: not KEY=VALUE"))?;
        if let Some(name) = key.strip_prefix(RUN) {
            return self.add_option(name, value);
        }
        self.words.extend(match key.strip_prefix(WORKLOAD) {
            Some(name) => ["--set".to_owned(), format!("{name}={value}")],
            None => ["--server-set".to_owned(), setting.to_owned()],
        });
        Ok(())
    }

    fn add_option(&mut self, name: &str, value: &str) -> Result<()> {
        match value {
            "true" => self.words.push(format!("--{name}")),
            "false" if takes_value(name) == Some(false) => self.switched_off.push(name.to_owned()),
            "false" => return Err(format!("run.{name}=false: run has no switch --{name}").into()),
            value => self.words.extend([format!("--{name}"), value.to_owned()]),
        }
        Ok(())
    }

    /// Returns `true` if a setting decides where the population of this side is.
    pub fn has_folder(&self) -> bool {
        self.names().iter().any(|name| name == FOLDER)
    }

    /// Returns the words that are added.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the same with further words.
    #[must_use]
    pub fn with(&self, words: impl IntoIterator<Item = String>) -> Self {
        let mut side = self.clone();
        side.words.extend(words);
        side
    }

    /// Returns the same with other words for those that are added.
    #[must_use]
    pub fn replaced(&self, words: Vec<String>) -> Self {
        Self { words, switched_off: self.switched_off.clone() }
    }

    /// Returns the names of the options that do not come from what both sides share.
    fn names(&self) -> Vec<String> {
        let mut names = names(&self.words);
        names.extend(self.switched_off.iter().cloned());
        names
    }
}

/// The words of `run` that both settings share.
#[derive(Debug)]
pub struct RunWords {
    workload: String,
    words: Vec<String>,
}

impl RunWords {
    /// Takes the options of `run`.
    pub fn new(workload: &str, words: &[String]) -> Self {
        Self { workload: workload.to_owned(), words: words.to_vec() }
    }

    /// Prepares a run with these options and those of a side.
    pub fn prepare(&self, side: &SideWords) -> Result<PreparedRun> {
        let words = self.with(side);
        let line = CommandLine::try_parse_from(["doublet-bench".to_owned()].into_iter().chain(words));
        match line.map_err(|error| error.to_string())?.command {
            Command::Run(command) => command.prepare_in_turns(),
            _ => Err("the options are not those of run".into()),
        }
    }

    /// Returns the command `run` with the words of a side, which win.
    pub fn with(&self, side: &SideWords) -> Vec<String> {
        let mut words = vec!["run".to_owned(), self.workload.clone()];
        words.extend(without(&self.words, &side.names()));
        words.extend(side.words.iter().cloned());
        words
    }

    /// Returns the same without the folder for new data folders, for turns on a folder that exists.
    pub fn without_folder(&self, side: &SideWords) -> Vec<String> {
        let folder = [FOLDER.to_owned()];
        let shared = Self { workload: self.workload.clone(), words: without(&self.words, &folder) };
        shared.with(&side.replaced(without(&side.words, &folder)))
    }
}

/// Returns options of `run`, and those that win over them.
pub fn overridden(words: &[String], winning: &[String]) -> Vec<String> {
    let mut all = without(words, &names(winning));
    all.extend(winning.iter().cloned());
    all
}

/// Returns the name of an option.
fn name(word: &str) -> Option<String> {
    word.strip_prefix("--").map(|word| word.split('=').next().unwrap_or(word).to_owned())
}

fn names(words: &[String]) -> Vec<String> {
    words.iter().filter_map(|word| name(word)).collect()
}

/// Returns whether an option of `run` takes a value, or `None` if there is no such option.
fn takes_value(name: &str) -> Option<bool> {
    let run = RunCommand::augment_args(clap::Command::new("run"));
    let argument = run.get_arguments().find(|argument| argument.get_long() == Some(name))?;
    Some(argument.get_action().takes_values())
}

/// Returns the words without the options of these names, except for those that may be repeated.
fn without(words: &[String], names: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match name(word).filter(|name| names.contains(name) && !REPEATED.contains(&name.as_str())) {
            Some(name) if takes_value(&name) == Some(true) && !word.contains('=') => drop(words.next()),
            Some(_) => {}
            None => kept.push(word.clone()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn side(settings: &str) -> SideWords {
        SideWords::of_settings(&words(settings)).expect(settings)
    }

    #[test]
    fn settings_become_options_of_run() {
        let check = |setting: &str, expected: &str| assert_eq!(side(setting).words().join(" "), expected);
        check("store.sync=off", "--server-set store.sync=off");
        check("run.closed=true", "--closed");
        check("run.closed=false", "");
        check("run.users=20", "--users 20");
        check("workload.busy=8", "--set busy=8");
        let refused = |settings: &str| SideWords::of_settings(&words(settings)).expect_err(settings).to_string();
        assert_eq!(refused("x"), "x: not KEY=VALUE");
        assert_eq!(refused("run.speedup=false"), "run.speedup=false: run has no switch --speedup");
        assert_eq!(refused("run.close=false"), "run.close=false: run has no switch --close");
        assert_eq!(refused("run.pin=false run.pin=true"), "run.pin is both true and false");
    }

    #[test]
    fn options_of_a_setting_win() {
        let shared = words("--users 10 --server-set a=1 --speedup=60 --folder /x --pin");
        let run = RunWords::new("n8mail", &shared);
        let with = run.with(&side("run.users=20 b=2 run.speedup=30"));
        let expected = "run n8mail --server-set a=1 --folder /x --pin --users 20 --server-set b=2 --speedup 30";
        assert_eq!(with.join(" "), expected);
        let on_a_copy = run.without_folder(&side("run.folder=/z c=3").with(words("--data /y")));
        let expected = "run n8mail --users 10 --server-set a=1 --speedup=60 --pin --server-set c=3 --data /y";
        assert_eq!(on_a_copy.join(" "), expected);
    }

    #[test]
    fn a_switch_that_is_false_is_taken_away_from_what_both_share() {
        let run = RunWords::new("n8mail", &words("--closed --users 10 --pin"));
        assert_eq!(run.with(&side("run.closed=false")).join(" "), "run n8mail --users 10 --pin");
        let on_a_copy = run.without_folder(&side("run.pin=false").with(words("--data /y")));
        assert_eq!(on_a_copy.join(" "), "run n8mail --closed --users 10 --data /y");
        let other_pace = side("run.closed=false run.unpaced=true");
        run.prepare(&other_pace).expect("the switches do not contradict each other");
        assert_eq!(run.with(&other_pace).join(" "), "run n8mail --users 10 --pin --unpaced");
    }

    #[test]
    fn options_that_turns_do_not_have_are_refused() {
        let refused = |text: &str| {
            let run = RunWords::new("n8mail", &words(text));
            run.prepare(&SideWords::default()).expect_err(text).to_string()
        };
        assert!(refused("--target x.toml").contains("--target"));
        assert!(refused("--users 10,20").contains("one level"));
        assert!(refused("--keep").contains("--keep"));
        assert!(refused("--userz 3").contains("--userz"));
        assert!(refused("--part 1/2 --listen 127.0.0.1:0").contains("--part"));
        assert!(refused("--size-scale 2").contains("--size-scale"));
    }

    /// Parameters of a workload decide what is in the data folder only if the workload uses them for it.
    #[test]
    fn settings_that_decide_the_population_are_known() {
        let decides = |workload: &str, setting: &str| {
            let run = RunWords::new(workload, &words("--users 20 --documents 20"));
            let [one, other] = [SideWords::default(), side(setting)].map(|side| run.prepare(&side).expect(setting));
            !one.has_population_of(&other)
        };
        for setting in [
            "run.users=30",
            "run.documents=30",
            "run.size-scale=0.5",
            "run.seed=2",
            "run.masters=5",
            "run.masters=5 run.own=0.5",
            "run.door=imap",
        ] {
            assert!(decides("n8mail", setting), "{setting}");
        }
        for setting in ["run.closed=true", "run.speedup=60", "run.own=0.5 run.masters=20", "store.sync=off"] {
            assert!(!decides("n8mail", setting), "{setting}");
        }
        assert!(decides("shareddatabase", "run.database-documents=7"));
        assert!(decides("shareddatabase", "workload.databases=2"));
        assert!(!decides("streamingreplication", "workload.method=call"));
        assert!(side("run.folder=/x").has_folder() && !side("run.seed=2").has_folder());
    }
}
