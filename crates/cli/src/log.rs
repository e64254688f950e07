//! Logging: writes `tracing` events to standard error, as text or as JSON.
//!
//! The crates log with their own names as targets, so that `log.filter` can select one. Standard output is reserved for
//! the results of commands. Broken invariants that the program survives ([`base::assertions`]) are logged as errors.

use std::io::IsTerminal;

use config::Config;
use config::keys::LogKeys;
use config::log_filter::filter;
use config::setting::{LogFormat, LogLevel};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

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

/// Logs the warnings about a configuration.
pub fn configuration_warnings(config: &Config) {
    for warning in &config.warnings {
        tracing::warn!(target: "doublet", "the configuration: {warning}");
    }
}

/// Starts the log of a command that runs without a server. The level is `warn` unless the configuration sets one other
/// than `info`.
pub fn start_quiet(keys: &LogKeys) -> Result<(), String> {
    let level = if keys.level == LogLevel::Info { LogLevel::Warn } else { keys.level };
    start(&LogKeys { level, ..keys.clone() })
}
