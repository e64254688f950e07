//! The filter of the log: the level of `log.level` and the exceptions of `log.filter`.

use tracing::Level;
use tracing_subscriber::filter::Targets;

use super::keys::LogKeys;
use super::setting::LogLevel;

/// Returns the filter of the keys. The error says what is not valid in `log.filter`.
pub fn filter(keys: &LogKeys) -> Result<Targets, String> {
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
        format!("{:?} is not a valid filter ({error}); write it as in imap=debug,wire=debug", keys.filter)
    })?;
    Ok(exceptions.with_default(level))
}

#[cfg(test)]
mod tests {
    use super::super::setting::LogFormat;
    use super::*;

    fn check(level: LogLevel, exceptions: &str, expected: &[(&str, Level, bool)]) {
        let keys = LogKeys { format: LogFormat::Human, level, filter: exceptions.to_owned() };
        let targets = filter(&keys).expect("a valid filter");
        for (target, level, enabled) in expected {
            assert_eq!(targets.would_enable(target, level), *enabled, "{target} {level}");
        }
    }

    #[test]
    fn level_and_filter_determine_enabled_events() {
        check(LogLevel::Info, "", &[("imap", Level::INFO, true), ("imap", Level::DEBUG, false)]);
        check(
            LogLevel::Warn,
            "imap=trace,mail::router=debug",
            &[
                ("imap::connection", Level::TRACE, true),
                ("mail::router", Level::DEBUG, true),
                ("mail", Level::INFO, false),
                ("smtp", Level::WARN, true),
            ],
        );
    }

    #[test]
    fn invalid_filter_is_refused() {
        let keys = LogKeys { format: LogFormat::Json, level: LogLevel::Info, filter: "imap=loud".to_owned() };
        assert!(filter(&keys).expect_err("no such level").contains("imap=loud"));
    }
}
