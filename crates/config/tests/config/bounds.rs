//! The smallest and the largest value of every key with bounds.

use std::time::Duration;

use config::setting::{AutoCount, BindAddress};
use config::units::{ByteSize, ConfigDuration};
use config::{Config, ConfigError, ConfigKey, ConfigSources, KEYS, load};

use crate::fixture::{check_problems, check_value, load_assignments, owned};

/// Loads one key; the preset keeps the pauses of the router in order, whichever of the two is set, and leaves memory
/// for two messages.
fn load_alone(key: &ConfigKey, value: &str) -> Result<Config, ConfigError> {
    let preset = owned(&["router.retry_first=1s", "router.retry_max=1w", "limits.message_size=64KiB"]);
    load(&ConfigSources { preset, overrides: vec![format!("{}={value}", key.name)], ..ConfigSources::default() })
}

/// Returns a value in the smallest unit of its kind, and the name of that unit.
fn smallest_unit(kind: &str, text: &str) -> (u64, &'static str) {
    match kind {
        "duration" => {
            let duration = ConfigDuration::parse(text).expect("a bound is valid").0;
            (u64::try_from(duration.as_millis()).expect("a bound is short"), "ms")
        }
        "size" | "size or auto" => (ByteSize::parse(text).expect("a bound is valid").0, "B"),
        _ => (text.parse().expect("a bound is a number"), ""),
    }
}

fn bounded_keys() -> impl Iterator<Item = (&'static ConfigKey, &'static str, &'static str)> {
    KEYS.iter().filter_map(|key| match key.range {
        [low, high] => Some((key, *low, *high)),
        _ => None,
    })
}

#[test]
fn bounds_are_accepted_and_shown_unchanged() {
    for (key, low, high) in bounded_keys() {
        for bound in [low, high] {
            let config = load_alone(key, bound).expect(key.name);
            check_value(&config, key.name, bound);
        }
    }
}

/// Formats a bound in the largest unit that divides it.
fn shortest(kind: &str, text: &str) -> String {
    match kind {
        "duration" => ConfigDuration::parse(text).expect("a bound is valid").to_string(),
        "size" | "size or auto" => ByteSize::parse(text).expect("a bound is valid").to_string(),
        _ => text.to_owned(),
    }
}

#[test]
fn a_value_beyond_a_bound_is_refused_with_both_bounds() {
    let mut refused = 0;
    for (key, low, high) in bounded_keys() {
        let (least, unit) = smallest_unit(key.kind, low);
        let (most, _) = smallest_unit(key.kind, high);
        for number in [least.checked_sub(1), Some(most + 1)].into_iter().flatten() {
            let value = format!("{number}{unit}");
            let shown = shortest(key.kind, &value);
            let expected = format!("{}: {shown} is out of range; it may be {low} to {high}", key.name);
            check_problems(load_alone(key, &value), &[&expected]);
            refused += 1;
        }
    }
    assert!(refused > 80, "{refused}");
}

#[test]
fn auto_uses_the_default_of_the_caller() {
    let config = load_assignments(&["server.pool_tasks=auto", "store.log_size_max=auto"]).expect("both are valid");
    assert_eq!((config.server.pool_tasks, config.store.log_size_max.0), (AutoCount::Auto, None));
    assert_eq!(config.server.pool_tasks.unwrap_or_else(|| 12), 12);
    let config = load_assignments(&["server.pool_tasks=7"]).expect("it is valid");
    assert_eq!(config.server.pool_tasks.unwrap_or_else(|| panic!("the number is set")), 7);
}

#[test]
fn one_day_is_accepted_in_every_unit() {
    for text in ["86400000ms", "86400s", "86400sec", "1440min", "1440m", "24h", "1d", "23h 59min 60s", "1D"] {
        let config = load_assignments(&[&format!("imap.idle_timeout={text}")]).expect(text);
        assert_eq!(config.imap.idle_timeout.0, Duration::from_secs(86_400), "{text}");
        check_value(&config, "imap.idle_timeout", "1d");
    }
}

#[test]
fn one_gibibyte_is_accepted_in_every_unit() {
    for text in ["1073741824", "1073741824B", "1048576KiB", "1024 M", "1GiB", "1gib", "1G"] {
        let config = load_assignments(&[&format!("store.cache={text}")]).expect(text);
        let size = config.store.cache.0.expect(text);
        assert_eq!((size.0, size.as_usize()), (1 << 30, 1 << 30), "{text}");
        check_value(&config, "store.cache", "1GiB");
    }
}

#[test]
fn switches_have_three_words_for_each_state() {
    for (text, expected) in
        [("true", true), ("on", true), ("yes", true), ("false", false), ("off", false), ("no", false)]
    {
        let config = load_assignments(&[&format!("router.outbound={text}")]).expect(text);
        assert_eq!(config.router.outbound, expected, "{text}");
        check_value(&config, "router.outbound", if expected { "true" } else { "false" });
    }
}

#[test]
fn wildcard_address_binds_ipv6_first_and_is_not_loopback() {
    let config =
        load_assignments(&["listen.smtp=*:2525", "listen.native=[::1]:1, localhost:2"]).expect("both are valid");
    let sockets = |bind: &BindAddress| bind.socket_addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
    let [everywhere] = config.listen.smtp.0.as_slice() else { panic!("one address: {:?}", config.listen.smtp) };
    assert_eq!(sockets(everywhere), ["[::]:2525", "0.0.0.0:2525"]);
    assert!(!everywhere.is_loopback());
    let native: Vec<_> = config.listen.native.0.iter().flat_map(sockets).collect();
    assert_eq!(native, ["[::1]:1", "127.0.0.1:2"]);
    assert!(config.listen.native.0.iter().all(|bind| bind.is_loopback()));
}
