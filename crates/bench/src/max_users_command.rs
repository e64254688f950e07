//! The command `max-users`: the largest number of users at which the server answers in time.
//!
//! The mail files are filled once, for the largest number that may be tried. Each level is a run with a report of its
//! own, which begins with no users: those of the level before have logged out, and the queue of the server is empty.
//! The result is written after each level, so that a search that is broken off has one as well.
//!
//! Progress and the result go to standard error, and the path of the directory to standard output, or with `--json` the
//! result.

use std::process::ExitCode;
use std::time::Duration;

use bench::compare::max_users::{Criterion, End, FORMAT, Level, Search, SearchResult, output};
use bench::driver::outcome::title;
use bench::driver::prepare::{PreparedRun, USERS_MAX, prepare};
use bench::report::directory::ReportDirectory;
use bench::wall_clock;
use bench::workload::shipped;
use clap::Args;

use crate::arguments::Result;
use crate::run_command::options::{PlayOptions, duration};
use crate::run_command::session::{self, Filling, OpenTarget, PlaySession};
use crate::run_command::{INVALID_EXIT_CODE, facts, print_refusal};

/// Options of `max-users`.
///
/// Doubles the users from --from until a level misses the criterion, then halves the distance until it is below 2 %. A
/// level meets the criterion if it is valid (steady, at most 1 % errors, not overloaded, not limited by the driver) and
/// its average response is at most --limit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    doublet-bench max-users n8mail --to 1000 --documents 30 --speedup 60\n  \
    doublet-bench max-users n8mail --from 500 --to 8000 --limit '500 ms' --target server.toml --json\n\n\
    Exit codes: 0 a number was found, 1 could not be carried out, 2 error in the command line or in the workload,\n\
    3 no number meets the criterion, 4 the server ended, 5 refused, 130 broken off (Ctrl-C), with a result.")]
pub struct MaxUsersCommand {
    /// A shipped workload by its name in lower case, or the path of a file.
    workload: String,
    /// The users of the first level.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=USERS_MAX))]
    from: u64,
    /// The largest number of users that is tried, whose mail files are filled; default: the users of the workload.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=USERS_MAX))]
    to: Option<u64>,
    /// The longest average response.
    #[arg(long, value_name = "DURATION", default_value = "1 s", value_parser = duration)]
    limit: Duration,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    play: PlayOptions,
}

/// Searches for the largest number of users.
pub fn run(command: &MaxUsersCommand) -> Result<ExitCode> {
    let text = shipped::load(&command.workload)?;
    let to: Vec<u64> = command.to.into_iter().collect();
    let largest = match prepare(&text, command.play.run_options(&to)) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(print_refusal(&command.workload, &refusal)),
    };
    let to = largest.plan.workload().users;
    let Some(search) = Search::new(command.from, to) else {
        eprintln!("doublet-bench: --from {} is above the largest number of users, {to} (--to)", command.from);
        return Ok(ExitCode::from(INVALID_EXIT_CODE));
    };
    session::begin(&command.play, &largest, Filling::Filled, async |session, open| {
        let name = format!("{}-max-users", largest.plan.workload().name);
        let started = session.started();
        let directory = ReportDirectory::create(&command.play.out, &name, started, largest.options.seed)?;
        let result = Levels { command, largest: &largest, directory: &directory }.play(search, session, open).await?;
        print_result(&result, &directory, command.json)
    })
}

/// The levels of a search.
struct Levels<'a> {
    command: &'a MaxUsersCommand,
    /// The run with all users.
    largest: &'a PreparedRun,
    directory: &'a ReportDirectory,
}

impl Levels<'_> {
    /// Runs levels until the search is over.
    async fn play(
        &self,
        mut search: Search,
        session: &mut PlaySession<'_>,
        open: &mut OpenTarget,
    ) -> Result<SearchResult> {
        let mut result = self.empty_result();
        while let Some(users) = search.next() {
            let folder = format!("level-{}-{users}", result.levels.len() + 1);
            eprintln!("level {}: {users} users", result.levels.len() + 1);
            let run = self.level(users)?;
            let directory = self.directory.create_below(&folder)?;
            let Some(played) = session.play(&run, open, &directory, wall_clock::now()).await? else {
                result.end = End::BrokenOff;
                self.write(&result)?;
                break;
            };
            let level = Level::judge(users, result.criterion, &played.report, &played.samples, &folder);
            eprintln!("level {}: the criterion is {}: {}", result.levels.len() + 1, level.verdict(), level.summary());
            level.record_in(&mut search);
            let end = SearchResult::end_after(&search, &played.report);
            result.levels.push(level);
            result.take(&search);
            result.end = end.unwrap_or(End::BrokenOff);
            self.write(&result)?;
            if end.is_some() || !session.wait_for_empty_queue(open).await {
                break;
            }
        }
        Ok(result)
    }

    /// Prepares the run of a level. The mail files are those of the whole search.
    fn level(&self, users: u64) -> Result<PreparedRun> {
        let run = prepare(&self.largest.text, self.command.play.run_options(&[users]))?;
        Ok(PreparedRun { mail_files: self.largest.mail_files.clone(), ..run })
    }

    fn empty_result(&self) -> SearchResult {
        SearchResult {
            format: FORMAT,
            workload: self.largest.plan.workload().name.clone(),
            title: title(self.largest),
            command: facts::command_line(std::env::args()),
            speedup: self.largest.options.speedup,
            criterion: Criterion::new(self.command.limit),
            end: End::BrokenOff,
            users: None,
            users_missed: None,
            limits: Vec::new(),
            levels: Vec::new(),
        }
    }

    fn write(&self, result: &SearchResult) -> Result<()> {
        let mut json = serde_json::to_string_pretty(result)?;
        json.push('\n');
        self.directory.write("max-users.json", &json)?;
        self.directory.write("max-users.md", &output::format(result))?;
        Ok(())
    }
}

fn print_result(result: &SearchResult, directory: &ReportDirectory, is_json: bool) -> Result<ExitCode> {
    eprint!("{}", output::format_result(result));
    if is_json {
        eprintln!("{}", directory.path().display());
        println!("{}", serde_json::to_string_pretty(result)?);
    } else {
        println!("{}", directory.path().display());
    }
    Ok(ExitCode::from(result.exit_code()))
}
