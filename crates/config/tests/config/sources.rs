//! The order of precedence of the sources, and the place that an error names for each of them.

use std::path::PathBuf;

use config::{ConfigSources, ValueSource, load};

use crate::fixture::{ConfigFile, check_problems, check_value, owned};

#[test]
fn last_assignment_of_a_key_wins() {
    let overrides = owned(&["limits.recipients=200", "limits.recipients=300"]);
    let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("both are valid");
    assert_eq!(config.limits.recipients, 300);
    assert_eq!(config.sources, [("limits.recipients", ValueSource::CommandLine)]);
}

#[test]
fn each_source_overrides_the_one_before_it() {
    let file = ConfigFile::new("[limits]\nrecipients = 300\n[server]\ndata = \"/file\"\n");
    let all = ConfigSources {
        preset: owned(&["limits.recipients=200", "server.data=/preset", "imap.errors=7"]),
        overrides: owned(&["limits.recipients=400", "server.data=/option"]),
        data: Some(PathBuf::from("/data")),
        ..file.sources()
    };
    let check = |sources: &ConfigSources, recipients: &str, data: &str| {
        let config = load(sources).expect("it is valid");
        check_value(&config, "limits.recipients", recipients);
        check_value(&config, "server.data", data);
        check_value(&config, "imap.errors", "7");
    };
    check(&all, "400", "/data");
    let without_data = ConfigSources { data: None, ..all };
    check(&without_data, "400", "/option");
    let without_overrides = ConfigSources { overrides: Vec::new(), ..without_data };
    check(&without_overrides, "300", "/file");
    let without_file = ConfigSources { file: None, ..without_overrides };
    check(&without_file, "200", "/preset");
}

#[test]
fn sources_are_shown_with_the_effective_values() {
    let shown = [ValueSource::Default, ValueSource::File(12), ValueSource::CommandLine, ValueSource::Demo]
        .map(|source| source.to_string());
    assert_eq!(shown, ["default", "file, line 12", "command line", "demo"]);
    let file = ConfigFile::new("\n[imap]\nerrors = 5\n");
    let overrides = owned(&["pop3.idle_timeout=1min"]);
    let preset = owned(&["smtp.errors=9"]);
    let config = load(&ConfigSources { overrides, preset, ..file.sources() }).expect("it is valid");
    let changed: Vec<_> = config
        .effective()
        .into_iter()
        .filter(|effective| effective.source != ValueSource::Default)
        .map(|effective| format!("{} = {} ({})", effective.name, effective.value, effective.source))
        .collect();
    assert_eq!(
        changed,
        ["smtp.errors = 9 (demo)", "imap.errors = 5 (file, line 3)", "pop3.idle_timeout = 1min (command line)",]
    );
}

#[test]
fn file_problems_come_first_in_line_order() {
    let file = ConfigFile::new("[smtp]\nerrors = 0\n[imap]\nerrors = 1001\n[limits]\nrecipients = 1\n");
    let overrides = owned(&["no assignment", "pop3.idle_timeout=1s"]);
    let preset = owned(&["zzzz=1"]);
    check_problems(
        load(&ConfigSources { overrides, preset, ..file.sources() }),
        &[
            "line 2: smtp.errors: 0 is out of range; it may be 1 to 1000",
            "line 4: imap.errors: 1001 is out of range; it may be 1 to 1000",
            "line 6: limits.recipients: 1 is out of range; it may be 100 to 100000",
            "\"no assignment\" is not of the form section.key=value",
            "zzzz: there is no such key; `doublet config keys` lists all",
            "pop3.idle_timeout: 1s is out of range; it may be 10s to 1d",
        ],
    );
}

#[test]
fn error_names_the_file_if_there_is_one() {
    let file = ConfigFile::new("[smtp]\nerrors = 0\n");
    let error = load(&file.sources()).expect_err("it is out of range");
    assert_eq!(
        error.to_string(),
        format!(
            "the configuration {} is not valid:\n  line 2: smtp.errors: 0 is out of range; it may be 1 to 1000",
            file.path.display()
        )
    );
    let error = load(&ConfigSources { overrides: owned(&["smtp.errors=0"]), ..ConfigSources::default() });
    assert_eq!(
        error.expect_err("it is out of range").to_string(),
        "the configuration is not valid:\n  smtp.errors: 0 is out of range; it may be 1 to 1000"
    );
}

#[test]
fn an_overridden_value_is_not_checked() {
    let file = ConfigFile::new("[smtp]\nerrors = 0\n");
    let config = load(&ConfigSources { overrides: owned(&["smtp.errors=3"]), ..file.sources() }).expect("it is unused");
    assert_eq!(config.smtp.errors, 3);
}
