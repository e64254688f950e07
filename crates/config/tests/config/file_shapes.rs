//! The shapes of a configuration file: sections, dotted keys, plain values and lists.

use config::limits::{CONFIGURATION_BYTES_MAX, CONFIGURATION_DEPTH_MAX};
use config::raw::{parse, parse_assignment};
use config::{ConfigSources, ValueSource, load};

use crate::fixture::{ConfigFile, check_problems, check_value, load_text};

#[test]
fn key_is_accepted_in_section_dotted_and_inline_form() {
    for text in [
        "[limits]\nrecipients = 500\n",
        "limits.recipients = 500\n",
        "limits = { recipients = 500 }\n",
        "[limits]\n\"recipients\" = '500'\n",
        "limits.recipients = 0x1F4\n",
    ] {
        let config = load_text(text).expect(text);
        assert_eq!(config.limits.recipients, 500, "{text}");
    }
}

#[test]
fn every_key_keeps_the_line_of_its_own_name() {
    let config =
        load_text("# a comment\n\n[limits]\n\nrecipients = 500\n[listen]\nimap = [\n  \"*:1\",\n  \"*:2\",\n]\n")
            .expect("it is valid");
    let lines: Vec<_> = config.sources.iter().map(|(name, source)| (*name, source.line())).collect();
    assert_eq!(lines, [("listen.imap", Some(7)), ("limits.recipients", Some(5))]);
}

#[test]
fn an_empty_list_of_addresses_switches_a_listener_off() {
    for value in ["[]", "\"off\"", "false"] {
        let config = load_text(&format!("[listen]\npop3 = {value}\n")).expect(value);
        assert!(config.listen.pop3.0.is_empty(), "{value}");
        check_value(&config, "listen.pop3", "off");
    }
}

#[test]
fn values_of_unsupported_types_are_refused_with_their_key() {
    let refused = "the value must be a string, a number, true or false, or a list of these";
    for value in ["2026-01-01", "12:30:00", "[[\"*:1\"]]", "[{ port = 1 }]", "[1979-05-27T07:32:00Z]"] {
        let expected = format!("line 2: listen.smtp: {refused}");
        check_problems(load_text(&format!("[listen]\nsmtp = {value}\n")), &[&expected]);
    }
    let expected = format!("line 1: limits: {refused}");
    check_problems(load_text("[[limits]]\nrecipients = 500\n"), &[&expected]);
}

#[test]
fn a_section_with_a_value_is_refused() {
    check_problems(
        load_text("store = \"fast\"\n"),
        &["line 1: store: this is a section, not a key; write its keys below [store]"],
    );
}

#[test]
fn nesting_of_tables_is_limited() {
    let nested = |depth: usize| format!("{}x = 1\n", "a.".repeat(depth));
    let parsed = parse(&nested(CONFIGURATION_DEPTH_MAX - 1)).expect("it is TOML");
    assert_eq!((parsed.raw.len(), parsed.problems.len()), (1, 0));
    let parsed = parse(&nested(CONFIGURATION_DEPTH_MAX)).expect("it is TOML");
    assert_eq!((parsed.raw.len(), parsed.problems.len()), (0, 1));
    assert_eq!(parsed.problems[0].key, ["a"; CONFIGURATION_DEPTH_MAX].join("."));
}

#[test]
fn empty_sections_are_known_or_reported() {
    load_text("[store]\n[imap]\n[tls]\n").expect("known sections may be empty");
    check_problems(
        load_text("[stroe]\n[store]\n[store.cache]\n"),
        &[
            "line 1: [stroe]: there is no such section; did you mean [store]?",
            "line 3: [store.cache]: there is no such section; did you mean [store]?",
        ],
    );
}

#[test]
fn syntax_error_names_the_line_and_stops_the_check() {
    let first_problem = |text: &str| {
        let error = load_text(text).expect_err(text);
        assert_eq!(error.problems.len(), 1, "{error}");
        let problem = &error.problems[0];
        assert_eq!(problem.key, "", "{error}");
        (problem.line, problem.text.clone())
    };
    assert_eq!(first_problem("[store]\ncache = 1GiB\n").0, Some(2));
    assert_eq!(first_problem("[store]\n[store]\n").0, Some(2));
    assert_eq!(first_problem("x = 1\n[listen]\nimap = [\"*:1\"\n").0, Some(3));
    assert!(first_problem("[store]\ncache = \"1GiB\"\ncache = 2\n").1.contains("cache"), "the key is named");
}

#[test]
fn a_file_is_read_up_to_its_maximum_length() {
    let setting = "[limits]\nrecipients = 500\n";
    let padding = "#".repeat(CONFIGURATION_BYTES_MAX - setting.len());
    assert_eq!(load_text(&format!("{setting}{padding}")).expect("it fits").limits.recipients, 500);
    let too_long = format!("the file is longer than {CONFIGURATION_BYTES_MAX} bytes");
    check_problems(load_text(&format!("{setting}{padding}#")), &[&too_long]);
    let refused = parse(&format!("{setting}{padding}#")).expect_err("it is too long");
    assert_eq!(refused.to_string(), too_long);
}

#[test]
fn unreadable_file_is_named_in_the_error() {
    let file = ConfigFile::new("");
    let check = |sources: &ConfigSources, reason: &str| {
        let error = load(sources).expect_err("it cannot be read").to_string();
        let path = sources.file.as_ref().expect("the sources have a file").display();
        let start = format!("the configuration {path} is not valid:\n  the file cannot be read: ");
        assert!(error.starts_with(&start) && error.contains(reason), "{error}");
    };
    check(&ConfigSources { file: Some(file.missing_path()), ..ConfigSources::default() }, "No such file");
    let folder = file.path.parent().expect("the file has a folder").to_owned();
    check(&ConfigSources { file: Some(folder), ..ConfigSources::default() }, "directory");
    check(&ConfigFile::new(b"[server]\nname = \"\xff\"\n").sources(), "UTF-8");
}

#[test]
fn assignments_are_split_at_the_first_equals_sign() {
    let (key, value) = parse_assignment(" log.filter = imap=debug,smtp=trace ", ValueSource::CommandLine)
        .expect("the assignment is valid");
    assert_eq!((key.as_str(), value.texts.as_slice()), ("log.filter", &["imap=debug,smtp=trace".to_owned()][..]));
    let refused = parse_assignment("log.filter", ValueSource::Demo).expect_err("it has no value");
    assert_eq!(refused.to_string(), "\"log.filter\" is not of the form section.key=value");
}
