//! Tests of the configuration as a whole: the meaning of a file, the text of errors, and that the documentation matches
//! the code.

use std::time::Duration;

use super::problem::format_problems;
use super::*;

fn check_text(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("doublet.toml");
    std::fs::write(&file, text).expect("the folder is writable");
    load(&ConfigSources { file: Some(file), ..ConfigSources::default() })
        .map_err(|error| format_problems(&error.problems))
}

fn check_refused(text: &str, expected: &str) {
    let complaint = check_text(text).expect_err(text);
    assert_eq!(complaint, expected.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let config = check_text("").expect("nothing is wrong");
    assert!(config.effective().iter().all(|effective| effective.source == ValueSource::Default));
    for effective in config.effective() {
        let key = KEYS.iter().find(|key| key.name == effective.name).expect("a known key");
        assert_eq!(effective.value, key.default, "{}: the default should stand in the form that is shown", key.name);
    }
}

#[test]
fn values_and_sources_are_read_from_the_file() {
    let config = check_text(
        "[server]\nname = \"mail.acme.test\"\n[store]\ncache = \"1GiB\"\nsync = 'off'\n[router]\nretry_max = \"2h\"\n\
         [listen]\nimap = [\"127.0.0.1:1143\", \"[::1]:1143\"]\npop3 = \"off\"\n[limits]\nrecipients = 2_000\n",
    )
    .expect("nothing is wrong");
    assert_eq!(config.server.name, "mail.acme.test");
    assert_eq!(config.store.cache.0, Some(units::ByteSize(1 << 30)));
    assert_eq!(config.store.sync, setting::SyncMode::Off);
    assert_eq!(config.router.retry_max.0, Duration::from_secs(7_200));
    assert_eq!(config.listen.imap.0.len(), 2);
    assert!(config.listen.pop3.0.is_empty());
    assert_eq!(config.limits.recipients, 2_000);
    let source = |name| config.effective().into_iter().find(|it| it.name == name).map(|it| it.source);
    assert_eq!(source("store.cache"), Some(ValueSource::File(4)));
    assert_eq!(source("store.favor"), Some(ValueSource::Default));
}

#[test]
fn unknown_keys_are_refused_with_the_nearest_name() {
    check_refused(
        "[imap]\nidle_timout = \"5min\"\n",
        "line 2: imap.idle_timout: there is no such key; did you mean imap.idle_timeout?",
    );
    check_refused(
        "[mail]\nmessage_size = \"5MiB\"\n",
        "line 2: mail.message_size: there is no such key; did you mean limits.message_size?",
    );
    check_refused("zzz = 1\n", "line 1: zzz: there is no such key; `doublet config keys` lists all");
}

#[test]
fn renamed_key_works_under_both_names() {
    let old = "[native]\ndatabase_makers = \"ann\"\n";
    let config = check_text(old).expect("it works");
    assert_eq!(config.native.database_creators, "ann");
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("line 2: native.database_makers: this key is now native.database_creators"));
    check_refused(
        &format!("{old}database_creators = \"bob\"\n"),
        "line 2: native.database_makers: this key is now native.database_creators, which is set too; remove one of them",
    );
    let creators = |overrides: &str| {
        let overrides = vec![overrides.to_owned()];
        let preset = vec!["native.database_creators=eve".to_owned()];
        load(&ConfigSources { overrides, preset, ..ConfigSources::default() })
            .map(|config| config.native.database_creators)
    };
    assert_eq!(creators("native.database_makers=bob").expect("it works"), "bob");
    assert_eq!(creators("native.database_creators=bob").expect("it works"), "bob");
}

#[test]
fn invalid_values_are_refused_with_a_hint() {
    check_refused(
        "[store]\ncache = \"lots\"\n",
        "line 2: store.cache: \"lots\" is not a size; write a number and a unit, as in 256MiB",
    );
    check_refused("[store]\ncache = 7\n", "line 2: store.cache: 7B is out of range; it may be 8MiB to 1TiB");
    check_refused("[store]\nsync = \"never\"\n", "line 2: store.sync: \"never\" is not one of group each off");
    check_refused(
        "[imap]\nidle_timeout = [\"1min\", \"2min\"]\n",
        "line 2: imap.idle_timeout: this key takes one value, not a list",
    );
    check_refused(
        "[server]\nname = 2026-01-01\n",
        "line 2: server.name: the value must be a string, a number, true or false, or a list of these",
    );
    check_refused(
        "[listen]
imap = [\"*:1\", \"x\"]
",
        "line 2: listen.imap: \"x\" is not an address; write 127.0.0.1:25, [::1]:25, *:25 or off",
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let complaint = check_text("[store]\ncache = 1\nfavour = 2\n[tls]\nkey = 3\n").expect_err("three faults");
    assert_eq!(complaint.lines().count(), 3, "{complaint}");
    check_refused(
        "[tls]\nkey = \"k\"\n[listn]\n[store]\ncache = 1\n[log]\nfilter = \"imap=loud\"\n[server]\nname = 2026-01-01\n[zzz.y]\n",
        "line 2: tls.key: certificate and key belong together: set both or neither\n\
         line 3: [listn]: there is no such section; did you mean [listen]?\n\
         line 5: store.cache: 1B is out of range; it may be 8MiB to 1TiB\n\
         line 7: log.filter: \"imap=loud\" is not a valid filter (error parsing level filter: expected one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\", or a number 0-5); write it as in imap=debug,wire=debug\n\
         line 9: server.name: the value must be a string, a number, true or false, or a list of these\n\
         line 10: [zzz.y]: there is no such section; `doublet config keys` lists all",
    );
    let complaint = check_text("[tls]\nkey = \"/etc/key.pem\"\n").expect_err("half a pair");
    assert!(complaint.contains("belong together"), "{complaint}");
    let complaint = check_text("[store\n").expect_err("broken TOML");
    assert!(complaint.starts_with("  line 1: "), "{complaint}");
}

#[test]
fn values_are_checked_beyond_their_syntax() {
    check_refused(
        "[server]\nname = \"bad name!\"\n",
        "line 2: server.name: \"bad name!\" is not a valid host or domain name; write mail.example.org, or auto",
    );
    check_refused(
        "[router]\nsmart_host = \"::::\"\n",
        "line 2: router.smart_host: \"::::\" is not a server; write smtp.example.net, smtp.example.net:587 or [2001:db8::1]:25",
    );
    check_refused(
        "[listen]\npop3 = \"127.0.0.1:143\"\n",
        "line 2: listen.pop3: 127.0.0.1:143 is already used by listen.imap",
    );
    check_refused(
        "[router]\nretry_first = \"5h\"\n",
        "line 2: router.retry_first: may not be longer than router.retry_max",
    );
    check_refused(
        "[router]\nretry_first = \"5h\"\nretry_max = \"x\"\n",
        "line 3: router.retry_max: \"x\" is not a duration; write numbers and units, as in 30s, 15min or 1h30min",
    );
    check_text("[listen]\nimap = \"*:0\"\npop3 = \"*:0\"\n[server]\nname = \"auto\"\n[imap]\n")
        .expect("nothing is wrong");
    let complaint = check_text("[store]\ncache = \"1GiB\"\ncache = \"2GiB\"\n").expect_err("twice");
    assert!(complaint.starts_with("  line 3: duplicate key: cache"), "{complaint}");
}

#[test]
fn command_line_overrides_file_and_file_overrides_preset() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("doublet.toml");
    std::fs::write(&file, "[listen]\nimap = \"*:144\"\npop3 = \"*:111\"\n").expect("the folder is writable");
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let origin = ConfigSources {
        file: Some(file),
        preset: list(&["listen.imap=*:1143", "listen.smtp=*:1025"]),
        overrides: list(&["listen.pop3=off"]),
        data: Some("/tmp/elsewhere".into()),
    };
    let config = load(&origin).expect("nothing is wrong");
    let shown = |name| {
        config.effective().into_iter().find(|it| it.name == name).map(|it| format!("{}, {}", it.value, it.source))
    };
    assert_eq!(shown("listen.imap").as_deref(), Some("*:144, file, line 2"));
    assert_eq!(shown("listen.smtp").as_deref(), Some("*:1025, demo"));
    assert_eq!(shown("listen.pop3").as_deref(), Some("off, command line"));
    assert_eq!(shown("server.data").as_deref(), Some("/tmp/elsewhere, command line"));
    let nonsense = ConfigSources { overrides: list(&["imap"]), ..ConfigSources::default() };
    assert!(load(&nonsense).expect_err("no assignment").to_string().contains("section.key=value"));
}

#[test]
fn every_key_has_a_description_and_a_valid_range() {
    for key in KEYS {
        let description = key.description.join(" ");
        assert!(description.trim().ends_with('.') && description.len() > 8, "{}: {description:?}", key.name);
        assert!(matches!(key.range.len(), 0 | 2), "{}", key.name);
    }
    // `an_empty_file_gives_the_defaults` shows that the defaults are in range: they pass the same check.
}

#[test]
fn the_documentation_lists_exactly_the_keys_of_the_code() {
    let document = include_str!("../../../docs/configuration.md");
    let (_, rest) = document.split_once("<!-- keys: begin -->\n").expect("the document marks where the tables begin");
    let (tables, _) = rest.split_once("<!-- keys: end -->").expect("the document marks where the tables end");
    assert!(
        tables.trim() == reference::markdown().trim(),
        "docs/configuration.md differs from the code; `doublet config keys --markdown` prints what belongs there"
    );
}

#[test]
fn packaged_example_is_valid() {
    check_text(include_str!("../../../packaging/doublet.toml")).expect("the packaged example is valid");
}
