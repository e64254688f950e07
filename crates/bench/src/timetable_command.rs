//! The command `timetable`: the steps of one user as a run would play them, without a server.
//!
//! It shows what a seed determines: intended times, recipients, sizes and documents. Times count from *t0* at speed 1.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use crate::arguments::Result;
use crate::run_command::INVALID_EXIT_CODE;
use bench::plan::stream::Draw;
use bench::plan::timetable::PlannedStep;
use bench::plan::{Plan, sizes};
use bench::workload::action::{Action, Document, Recipients, Sender, Size};
use bench::workload::finding::Finding;
use bench::workload::limits::USERS_MAX;
use bench::workload::units::{format_integer, parse_duration};
use bench::workload::{Workload, check, shipped};

/// Options of `timetable`.
#[derive(Debug, Args)]
pub struct TimetableOptions {
    /// A shipped workload by its name in lower case, or the path of a file.
    file: String,
    /// Sets a parameter of the workload; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// The number of the user, from 1.
    #[arg(long, default_value_t = 1)]
    user: u64,
    /// The users of the run; those of the workload if missing.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=USERS_MAX))]
    users: Option<u64>,
    /// The seed of the run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// From the connection of one user to that of the next.
    #[arg(long, default_value = "1 s", value_parser = duration)]
    interval: u64,
    /// How many iterations are shown.
    #[arg(long, default_value_t = 1)]
    iterations: u64,
}

fn duration(text: &str) -> std::result::Result<u64, String> {
    parse_duration(text).ok_or_else(|| "not a duration such as \"500 ms\"".to_owned())
}

/// Prints the timetable of a user.
pub fn run(options: &TimetableOptions) -> Result<ExitCode> {
    let text = shipped::load(&options.file)?;
    match check::check(&text, &options.set) {
        Ok(workload) => {
            print!("{}", format_timetable(&Arc::new(workload), options)?);
            Ok(ExitCode::SUCCESS)
        }
        Err(findings) => {
            eprint!("{}", Finding::format_all(&options.file, &findings));
            Ok(ExitCode::from(INVALID_EXIT_CODE))
        }
    }
}

fn format_timetable(workload: &Arc<Workload>, options: &TimetableOptions) -> Result<String> {
    let users = options.users.unwrap_or(workload.users);
    let plan =
        Plan::new(Arc::clone(workload), options.seed, users).ok_or("the run has no user of the range of recipients")?;
    let no_user = || format!("user {} is none of the {} users", options.user, plan.users());
    let timetable = plan.timetable(options.user, options.interval).ok_or_else(no_user)?;
    let class = plan.class_of(options.user).ok_or_else(no_user)?;
    let of = format!("user {} of {}", options.user, format_integer(plan.users()));
    let mut text = format!("{}: {of}, class {}, seed {}\n", workload.name, class.name, options.seed);
    for planned in timetable.take_while(|planned| planned.iteration < options.iterations) {
        let due = planned.intended_us.map_or_else(|| "–".to_owned(), format_time);
        let step = planned.step;
        let draws = Draws { workload, plan: &plan, user: options.user, planned: &planned }.format();
        let line = format!(
            "{due:>14}  iteration {} step {:<3} {:<15} {draws}",
            planned.iteration,
            step.number + 1,
            step.verb.word()
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    Ok(text)
}

/// Formats a time with microseconds.
fn format_time(time_us: u64) -> String {
    let seconds = time_us / 1_000_000;
    format!("{}:{:02}:{:02}.{:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60, time_us % 1_000_000)
}

/// What is drawn for a planned step.
struct Draws<'a> {
    workload: &'a Workload,
    plan: &'a Plan,
    user: u64,
    planned: &'a PlannedStep<'a>,
}

impl Draws<'_> {
    fn format(&self) -> String {
        let parts = match &self.planned.step.action {
            Action::Send { recipients, from, size, .. } => vec![self.message(*recipients, *from), self.size(size)],
            Action::Invite { recipients } => vec![self.message(Recipients::Drawn(*recipients), Sender::Oneself)],
            Action::Add { size } => vec![self.size(size)],
            Action::Answer { of, size, .. } => vec![self.document(*of), self.size(size)],
            Action::Read { of, .. } | Action::Document { of } | Action::Move { of, .. } => vec![self.document(*of)],
            _ => Vec::new(),
        };
        parts.join(", ")
    }

    fn message(&self, recipients: Recipients, from: Sender) -> String {
        let key = self.planned.key(self.user);
        let drawn = |count| {
            let users: Vec<_> = self.plan.recipients(key, count, self.user).iter().map(u64::to_string).collect();
            users.join(" ")
        };
        match (recipients, from) {
            (Recipients::Drawn(count), _) => format!("to {}", drawn(count)),
            (Recipients::Oneself, Sender::Oneself) => format!("to {}", self.user),
            (Recipients::Oneself, Sender::Random) => format!("from {} to {}", drawn(1), self.user),
        }
    }

    fn size(&self, size: &Size) -> String {
        match size {
            Size::Bytes(bytes) => format!("{} bytes", format_integer(*bytes)),
            Size::Profile(name) => {
                let mut stream = self.plan.stream(Draw::Size, self.planned.key(self.user));
                let row = sizes::draw(&self.workload.profiles[name], &mut stream);
                let body = format!("{} bytes", format_integer(row.body_bytes));
                match row.attachment_bytes {
                    0 => body,
                    attachment => format!("{body} and an attachment of {}", format_integer(attachment)),
                }
            }
        }
    }

    fn document(&self, document: Document) -> String {
        let mut stream = self.plan.stream(Draw::Document, self.planned.key(self.user));
        let mut fraction = || stream.below(1 << 32) as f64 / (1u64 << 32) as f64;
        match document {
            Document::Screen => format!("at {:.4} of the rows", fraction()),
            Document::Own => format!("at {:.4} of its own", fraction()),
            Document::Newest => format!("newest {}", self.planned.repetition + 1),
            Document::Last => "the last one read".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timetable(file: &str, edit: impl Fn(&mut TimetableOptions)) -> Result<String> {
        let mut options = TimetableOptions {
            file: file.to_owned(),
            set: Vec::new(),
            user: 17,
            users: None,
            seed: 1,
            interval: 1_000_000,
            iterations: 1,
        };
        edit(&mut options);
        let workload = check::check(&shipped::load(file)?, &options.set).expect("a shipped workload is valid");
        format_timetable(&Arc::new(workload), &options)
    }

    #[test]
    fn timetable_shows_times_and_draws() {
        let text = timetable("n8mail", |_| {}).expect("the user exists");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "N8Mail: user 17 of 4,000, class mail, seed 1");
        assert!(lines[1].contains("iteration 0 step 1   open_database"), "{text}");
        assert!(lines.iter().any(|line| line.contains("send            to ") && line.contains(" bytes")), "{text}");
        assert_eq!(text, timetable("n8mail", |_| {}).expect("the same"));
        assert_ne!(text, timetable("n8mail", |options| options.seed = 2).expect("another"));
    }

    #[test]
    fn unpaced_steps_have_no_times() {
        let text = timetable("n8mailinit", |options| options.users = Some(20)).expect("the user exists");
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|line| line.trim_start().starts_with("–  iteration 0 step 1   send            from ")),
            "{text}"
        );
        assert!(text.contains(" to 17, "), "{text}");
    }

    #[test]
    fn users_of_the_run_are_known() {
        let error = timetable("n8mail", |options| options.users = Some(16)).expect_err("there are 16");
        assert_eq!(error.to_string(), "user 17 is none of the 16 users");
        assert!(timetable("n8mail", |options| options.user = 0).is_err());
        let heavy = timetable("largeinbox", |options| {
            options.set = vec!["heavy=2".to_owned()];
            options.user = 252;
        });
        assert!(heavy.expect("a user besides").starts_with("LargeInbox: user 252 of 252, class all-documents"));
    }
}
