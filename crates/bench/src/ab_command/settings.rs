//! Settings of `ab` as words of `run`, and the options of `run` that both settings share.

use clap::{Args as _, Parser as _};

use crate::arguments::Result;
use crate::command_line::{Command, CommandLine};
use crate::run_command::RunCommand;

/// The prefix of a setting that is an option of `run`.
const RUN: &str = "run.";
/// Options of `run` that may be repeated: those of a setting are added.
const REPEATED: &[&str] = &["set", "server-set"];
/// Options of `run` that decide what a population has.
const POPULATION: &[&str] = &["users", "documents", "size-scale", "seed"];
/// The prefix of a setting that is a parameter of the workload.
const WORKLOAD: &str = "workload.";

/// Returns the words of `run` for a setting.
pub fn words_of_setting(setting: &str) -> Result<Vec<String>> {
    let (key, value) = setting.split_once('=').ok_or_else(|| format!("{setting}: not KEY=VALUE"))?;
    let option = |name: &str| format!("--{name}");
    Ok(match (key.strip_prefix(RUN), key.strip_prefix(WORKLOAD)) {
        (Some(name), _) => match value {
            "true" => vec![option(name)],
            "false" => Vec::new(),
            value => vec![option(name), value.to_owned()],
        },
        (_, Some(name)) => vec![option("set"), format!("{name}={value}")],
        _ => vec![option("server-set"), setting.to_owned()],
    })
}

/// Returns `true` for options of `run` that decide what a population has.
pub fn decides_population(setting: &str) -> bool {
    let key = setting.split('=').next().unwrap_or_default();
    key.strip_prefix(RUN).is_some_and(|name| POPULATION.contains(&name))
}

/// The words of `run` that both settings share.
pub struct RunWords {
    workload: String,
    words: Vec<String>,
}

impl RunWords {
    /// Checks the options of `run`.
    pub fn parse(workload: &str, words: &[String]) -> Result<Self> {
        let words = Self { workload: workload.to_owned(), words: words.to_vec() };
        words.check_with(&[])?;
        Ok(words)
    }

    /// Checks the options of `run` together with those of a setting.
    pub fn check_with(&self, side: &[String]) -> Result<()> {
        let words = self.with(side);
        let line = CommandLine::try_parse_from(["doublet-bench".to_owned()].into_iter().chain(words));
        match line.map_err(|error| error.to_string())?.command {
            Command::Run(command) => command.check_in_turns(),
            _ => Err("the options are not those of run".into()),
        }
    }

    /// Returns the command `run` with the words of a setting, which win.
    pub fn with(&self, side: &[String]) -> Vec<String> {
        let mut words = vec!["run".to_owned(), self.workload.clone()];
        words.extend(without(&self.words, side));
        words.extend(side.iter().cloned());
        words
    }

    /// Returns the same without the folder for new data folders, for turns on a folder that exists.
    pub fn without_folder(&self, side: &[String]) -> Vec<String> {
        let mut words = vec!["run".to_owned(), self.workload.clone()];
        words.extend(without(&without(&self.words, side), &["--folder".to_owned()]));
        words.extend(side.iter().cloned());
        words
    }
}

/// Returns options of `run`, and those that win over them.
pub fn overridden(words: &[String], winning: &[String]) -> Vec<String> {
    let mut all = without(words, winning);
    all.extend(winning.iter().cloned());
    all
}

/// Returns the words without the options that are also in `side`, except for those that may be repeated.
fn without(words: &[String], side: &[String]) -> Vec<String> {
    let run = RunCommand::augment_args(clap::Command::new("run"));
    let name = |word: &str| word.strip_prefix("--").map(|word| word.split('=').next().unwrap_or(word).to_owned());
    let overridden: Vec<String> = side.iter().filter_map(|word| name(word)).collect();
    let has_value = |name: &str| {
        let argument = run.get_arguments().find(|argument| argument.get_long() == Some(name));
        argument.is_some_and(|argument| argument.get_action().takes_values())
    };
    let mut kept = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match name(word).filter(|name| overridden.contains(name) && !REPEATED.contains(&name.as_str())) {
            Some(name) if has_value(&name) && !word.contains('=') => drop(words.next()),
            Some(_) => {}
            None => kept.push(word.clone()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_become_options_of_run() {
        let check = |setting: &str, expected: &str| {
            assert_eq!(words_of_setting(setting).expect(setting).join(" "), expected);
        };
        check("store.sync=off", "--server-set store.sync=off");
        check("run.closed=true", "--closed");
        check("run.closed=false", "");
        check("run.users=20", "--users 20");
        check("workload.busy=8", "--set busy=8");
        assert!(decides_population("run.documents=3") && !decides_population("run.closed=true"));
        assert_eq!(words_of_setting("x").expect_err("no value").to_string(), "x: not KEY=VALUE");
    }

    #[test]
    fn options_of_a_setting_win() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let shared = words("--users 10 --server-set a=1 --speedup=60 --folder /x --pin");
        let run = RunWords::parse("n8mail", &shared).expect("they are options of run");
        let with = run.with(&words("--users 20 --server-set b=2 --speedup 30"));
        let expected = "run n8mail --server-set a=1 --folder /x --pin --users 20 --server-set b=2 --speedup 30";
        assert_eq!(with.join(" "), expected);
        let on_a_copy = run.without_folder(&words("--data /y"));
        assert_eq!(on_a_copy.join(" "), "run n8mail --users 10 --server-set a=1 --speedup=60 --pin --data /y");
    }

    #[test]
    fn options_that_turns_do_not_have_are_refused() {
        let refused = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            RunWords::parse("n8mail", &words).err().expect(text).to_string()
        };
        assert!(refused("--target x.toml").contains("--target"));
        assert!(refused("--users 10,20").contains("one level"));
        assert!(refused("--keep").contains("--keep"));
        assert!(refused("--userz 3").contains("--userz"));
    }
}
