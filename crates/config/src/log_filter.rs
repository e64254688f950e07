//! Logging: writes `tracing` events to standard error, as text or as JSON.
//!
//! The crates log with their own names as targets, so that `log.filter` can select one. Standard output is reserved for
//! the results of commands. Broken invariants that the program survives ([`base::assertions`]) are logged as errors.

use std::io::IsTerminal;

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::keys::LogKeys;
use crate::config::setting::{LogFormat, LogLevel};

/// Starts the log. Only the first call in a process has an effect. Returns an error if the keys are not valid.
pub fn start(keys: &LogKeys) -> Result<(), String> {
    let targets = filter(keys)?;
    let registry = tracing_subscriber::registry().with(targets);
    let started = match keys.format {
        LogFormat::Human => {
            let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
            registry.with(layer.with_target(true)).try_init()
        }
        LogFormat::Json => {
            let layer = fmt::layer().json().flatten_event(true).with_writer(std::io::stderr);
            registry.with(layer).try_init()
        }
    };
    // A second start in one process (in tests) keeps the first log.
    let _ = started;
    base::assertions::set_sink(
        |message, place| tracing::error!(target: "doublet", place, "broken invariant: {message}"),
    );
    Ok(())
}

/// Starts the log of a command that runs without a server. The level is `warn` unless the configuration sets one other
/// than `info`.
pub fn start_quiet(keys: &LogKeys) -> Result<(), String> {
    let level = if keys.level == LogLevel::Info { LogLevel::Warn } else { keys.level };
    start(&LogKeys { level, ..keys.clone() })
}

/// Checks the keys. The error describes the problem.
pub fn check(keys: &LogKeys) -> Result<(), String> {
    filter(keys).map(drop)
}

fn filter(keys: &LogKeys) -> Result<Targets, String> {
    let level = match keys.level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    if keys.filter.is_empty() {
        return Ok(Targets::new().with_default(level));
    }
    let exceptions: Targets = keys.filter.parse().map_err(|error| {
        format!("{:?} is not a valid filter ({error}); write it as in imap=debug,mail::router=trace", keys.filter)
    })?;
    Ok(exceptions.with_default(level))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(level: LogLevel, exceptions: &str, expected: &[(&str, Level, bool)]) {
        let keys = LogKeys { format: LogFormat::Human, level, filter: exceptions.to_owned() };
        let targets = filter(&keys).expect("a valid filter");
        for (target, level, enabled) in expected {
            assert_eq!(targets.would_enable(target, level), *enabled, "{target} {level}");
        }
    }

    #[test]
    fn levels_and_exceptions_decide_what_is_written() {
        check(LogLevel::Info, "", &[("imap", Level::INFO, true), ("imap", Level::DEBUG, false)]);
        check(
            LogLevel::Warn,
            "imap=trace,mail::router=debug",
            &[
                ("imap::conn", Level::TRACE, true),
                ("mail::router", Level::DEBUG, true),
                ("mail", Level::INFO, false),
                ("smtp", Level::WARN, true),
            ],
        );
    }

    #[test]
    fn a_filter_without_meaning_is_refused() {
        let keys = LogKeys { format: LogFormat::Json, level: LogLevel::Info, filter: "imap=loud".to_owned() };
        assert!(filter(&keys).expect_err("no such level").contains("imap=loud"));
    }
}
