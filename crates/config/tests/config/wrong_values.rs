//! The errors of values that a key cannot have: each names the key, quotes the value and says what would be right.

use config::KEYS;

use crate::fixture::{check_problems, load_assignments, load_text};

/// Returns the error of a value that no key of this kind accepts, or `None` if the kind accepts every text.
fn error_of_kind(kind: &str, value: &str) -> Option<String> {
    let text = match kind {
        "true or false" => "is neither true nor false".to_owned(),
        "number" | "number or auto" => "is not a whole number".to_owned(),
        "size" | "size or auto" => "is not a size; write a number and a unit, as in 256MiB".to_owned(),
        "duration" => "is not a duration; write numbers and units, as in 30s, 15min or 1h30min".to_owned(),
        "address, list of addresses or off" => {
            "is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off".to_owned()
        }
        "host, host:port or [address]:port" => {
            "is not a server; write smtp.example.net, smtp.example.net:587 or [2001:db8::1]:25".to_owned()
        }
        "network or list of networks" => {
            "is not a network; write 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32, separated by commas".to_owned()
        }
        "text" | "path" | "path or off" => return None,
        words if words.starts_with("one of ") => format!("is not {}", words.replace('`', "")),
        other => panic!("the test does not know values of the kind {other}"),
    };
    Some(format!("{value:?} {text}"))
}

#[test]
fn value_of_the_wrong_kind_is_refused_for_every_key() {
    let value = "no such value";
    let mut refused = 0;
    for key in KEYS {
        let Some(error) = error_of_kind(key.kind, value) else { continue };
        check_problems(load_assignments(&[&format!("{}={value}", key.name)]), &[&format!("{}: {error}", key.name)]);
        refused += 1;
    }
    assert!(refused > KEYS.len() / 2, "most keys have a kind that refuses some texts: {refused}");
}

#[test]
fn a_list_is_refused_for_every_key_except_listeners_and_networks() {
    let takes_list = ["address, list of addresses or off", "network or list of networks"];
    for key in KEYS.iter().filter(|key| !takes_list.contains(&key.kind)) {
        let (section, name) = key.name.split_once('.').expect("a key has a section");
        for list in ["[]", "[\"1\", \"2\"]"] {
            let expected = format!("line 2: {}: this key takes one value, not a list", key.name);
            check_problems(load_text(&format!("[{section}]\n{name} = {list}\n")), &[&expected]);
        }
    }
}

#[test]
fn an_empty_value_is_refused_where_a_value_is_needed() {
    check_problems(load_assignments(&["server.data="]), &["server.data: the path must not be empty"]);
    check_problems(
        load_assignments(&["store.cache="]),
        &["store.cache: \"\" is not a size; write a number and a unit, as in 256MiB"],
    );
    check_problems(load_assignments(&["limits.recipients="]), &["limits.recipients: \"\" is not a whole number"]);
    load_assignments(&["tls.certificate=", "router.smart_host=", "log.filter="]).expect("these keys may be empty");
}

#[test]
fn signed_fractional_and_suffixed_numbers_are_refused() {
    let check = |value: &str, shown: &str| {
        let expected = format!("line 2: router.queue: {shown:?} is not a whole number");
        check_problems(load_text(&format!("[router]\nqueue = {value}\n")), &[&expected]);
    };
    check("-1", "-1");
    check("1.5", "1.5");
    check("1e3", "1e3");
    check("\"100k\"", "100k");
    check("\"18446744073709551616\"", "18446744073709551616");
    check("true", "true");
}

#[test]
fn sizes_and_durations_that_overflow_are_refused() {
    check_problems(load_assignments(&["store.cache=16777216TiB"]), &["store.cache: \"16777216TiB\" is too large"]);
    check_problems(
        load_assignments(&["imap.idle_timeout=30500568905w"]),
        &["imap.idle_timeout: \"30500568905w\" is too long"],
    );
    check_problems(
        load_assignments(&["imap.idle_timeout=30500568904w 30500568904w"]),
        &["imap.idle_timeout: \"30500568904w 30500568904w\" is too long"],
    );
}

#[test]
fn words_are_compared_with_their_case() {
    check_problems(
        load_assignments(&["log.level=Info"]),
        &["log.level: \"Info\" is not one of error warn info debug trace"],
    );
    check_problems(load_assignments(&["full_text.pdf=True"]), &["full_text.pdf: \"True\" is neither true nor false"]);
}

#[test]
fn an_address_in_a_list_is_refused_alone() {
    check_problems(
        load_text("[listen]\nsmtp = [\"127.0.0.1:25\", \"mail.test:25\", \"*:x\"]\n"),
        &["line 2: listen.smtp: \"mail.test:25\" is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off"],
    );
    check_problems(
        load_assignments(&["listen.smtp=127.0.0.1:25, off"]),
        &["listen.smtp: \"off\" is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off"],
    );
}

#[test]
fn unknown_keys_are_refused_with_their_source() {
    check_problems(
        load_assignments(&["store.cahce=1GiB"]),
        &["store.cahce: there is no such key; did you mean store.cache?"],
    );
    check_problems(
        load_assignments(&["qqqq.wwww=1"]),
        &["qqqq.wwww: there is no such key; `doublet config keys` lists all"],
    );
    check_problems(
        load_text("[router.retry]\nfirst = \"1min\"\n[ROUTER]\nqueue = 10\n"),
        &[
            "line 2: router.retry.first: there is no such key; did you mean router.retry_first?",
            "line 4: ROUTER.queue: there is no such key; did you mean router.queue?",
        ],
    );
}

#[test]
fn error_under_an_old_name_reports_the_new_name() {
    check_problems(
        load_text("[native]\ndatabase_makers = [\"ann\", \"bob\"]\n"),
        &["line 2: native.database_creators: this key takes one value, not a list"],
    );
}

#[test]
fn old_name_on_the_command_line_warns_without_line_number() {
    let config = load_assignments(&["native.database_makers=*/Acme"]).expect("the old name works");
    assert_eq!(config.native.database_creators, "*/Acme");
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["native.database_makers: this key is now native.database_creators; the old name works until release 0.3"]
    );
}
