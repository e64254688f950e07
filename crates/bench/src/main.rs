//! The load generator: drives a mail server over its public protocols and reports measurements.
//!
//! It shares no code with the server, so that an error cannot cancel out on both sides, and it sends the same bytes to
//! other servers for comparison. It measures times and counts; `scripts/bench` measures what a server consumes
//! (processor, memory, disk). Results are one JSON object on standard output; progress and errors go to standard error.
//!
//! Users are named `NUMBERbench@bench.test`, because the program that drives SMTP (`smtp-source`) can put a number only
//! in front of the name.
//!
//! ```text
//! doublet-bench mix    --address HOST:PORT --password P [--clients 50] [--rounds 20] [--messages 100] [--login
//! once|always] doublet-bench churn  --address HOST:PORT --password P [--clients 50] [--messages 30] [--seconds 60]
//! doublet-bench passage --address HOST:PORT --password P [--user 1] [--messages 30] [--pass 0] [--samples 100]
//! doublet-bench idle   --address HOST:PORT --password P [--connections 5000]     waits for a line on standard input
//! doublet-bench append --address HOST:PORT --password P --user NUMBER [--count 1000] [--size 10240]
//! doublet-bench native --address HOST:PORT --password P --certificate FILE [--users 250] [--databases 25] [--files
//! shared{}.nsf] [--views NAME|NAME] [--rounds 10]
//!                      [--guests 0] [--guest-file NAME] [--changes DOCUMENTS] [--compression true]
//! doublet-bench neighbors --imap HOST:PORT --smtp HOST:PORT --native HOST:PORT --certificate FILE --password P
//! --database FILE
//!                      [--attack NAME] [--connections 8] [--seconds 5] [--fill 0]
//! doublet-bench attacks                                                               prints the names of the attacks
//! doublet-bench corpus --messages N [--seed 1] [--user NUMBER]                        writes an mbox to standard
//! output
//! ```

mod append;
mod arguments;
mod churn;
mod corpus;
mod idle;
mod imap_client;
mod measurements;
mod mix;
mod native;
mod neighbors;
mod passage;
mod random;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let work = words.next().unwrap_or_default();
    let done = Arguments::parse(words).and_then(|arguments| match work.as_str() {
        "mix" => mix::run(&arguments),
        "churn" => churn::run(&arguments),
        "passage" => passage::run(&arguments),
        "idle" => idle::run(&arguments),
        "append" => append::run(&arguments),
        "native" => native::run(&arguments),
        "neighbors" => neighbors::run(&arguments),
        "attacks" => {
            neighbors::print_attacks();
            Ok(())
        }
        "corpus" => corpus::run(&arguments),
        _ => {
            let known = "mix, churn, passage, idle, append, native, neighbors, attacks, corpus";
            Err(format!("unknown benchmark {work:?}; choose one of {known}").into())
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("doublet-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
