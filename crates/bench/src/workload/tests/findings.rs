//! Each rule of docs/workloads.md with a file that breaks it, and the finding.

use super::{HEAD, STEP, findings, with_classes, with_keys, with_step, with_tables};

/// Checks the findings of several files at once, so that one run shows all differences.
fn check_all(cases: Vec<(String, &[&str])>) {
    let mut differences = String::new();
    for (text, expected) in cases {
        let found = findings(&text, &[]);
        if found != expected {
            differences.push_str(&format!("{text}\nfound:    {found:#?}\nexpected: {expected:#?}\n\n"));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn keys_of_the_file() {
    check_all(vec![
        (String::new(), &["line 1: format: this key is missing"]),
        ("format = 2\nnew = \"x\"".into(), &["line 1: format: this program reads format 1, not 2"]),
        (
            "format = 1\n".into(),
            &[
                "line 1: name: this key is missing",
                "line 1: title: this key is missing",
                "line 1: iteration: this key is missing",
                "line 1: class: this key is missing",
            ],
        ),
        (with_keys("itteration = 3"), &["line 5: there is no key itteration; did you mean iteration?"]),
        (with_keys("zzz = 3"), &["line 5: there is no key zzz"]),
        (with_keys("door = \"imapp\""), &["line 5: door: imapp: not a known word; did you mean imap?"]),
        (with_keys("door = \"9p\""), &["line 5: door: 9p: not one of native, imap, pop3, jmap, lite, full"]),
        (with_keys("door = 4"), &["line 5: door: 4: not one of native, imap, pop3, jmap, lite, full"]),
        (with_keys("session = \"onces\""), &["line 5: session: onces: not a known word; did you mean once?"]),
        (with_keys("users = 0"), &["line 5: users: 0 is not an integer from 1 to 1,000,000"]),
        (with_keys("users = 1_000_001"), &["line 5: users: 1_000_001 is not an integer from 1 to 1,000,000"]),
        (with_keys("users = -5"), &["line 5: users: -5 is not an integer from 1 to 1,000,000"]),
        (with_keys("users = 2.5"), &["line 5: users: 2.5 is not an integer from 1 to 1,000,000"]),
        (with_keys("users = \"many\""), &["line 5: users: \"many\" is not an integer from 1 to 1,000,000"]),
        (
            with_keys("users = 99999999999999999999"),
            &["line 5: users: 99999999999999999999 is not an integer from 1 to 1,000,000"],
        ),
        (
            with_keys("settle = \"2 days\""),
            &["line 5: settle: \"2 days\" is not a duration such as \"15 min\" of at most 168 h"],
        ),
        (with_keys("settle = 5"), &["line 5: settle: 5 is not a duration such as \"15 min\" of at most 168 h"]),
        (
            with_keys("settle = 1979-05-27"),
            &["line 5: settle: 1979-05-27 is not a duration such as \"15 min\" of at most 168 h"],
        ),
        (with_keys("measure = \"999 ms\""), &["line 5: measure: the duration is shorter than 1 s"]),
        (with_keys("pause = [\"5 s\", \"1 s\"]"), &["line 5: pause: [\"5 s\", \"1 s\"] is not in ascending order"]),
        (with_keys("pause = [\"5 s\"]"), &["line 5: pause: [\"5 s\"] is not a list of two values"]),
        (with_keys("about = 1"), &["line 5: about: 1 is not a text"]),
        (with_keys("mailbox = 3"), &["line 5: mailbox: 3 is not a table"]),
        (with_keys("requires = [\"tls\", \"tls\"]"), &["line 5: requires: tls is listed twice"]),
        (with_keys("requires = [\"tsl\"]"), &["line 5: requires: tsl: not a known word; did you mean tls?"]),
        (with_keys("requires = \"tls\""), &["line 5: requires: \"tls\" is not a list"]),
        (
            with_keys("parts = [{ name = \"push\" }]"),
            &["line 5: part push, name: push: not one of cluster-replication, cluster-failover, scheduled-push"],
        ),
        (with_keys("parts = [7]"), &["line 5: parts: 7 is not a table"]),
    ]);
}

#[test]
fn names_and_texts() {
    let long = format!("title = \"{}\"\n", "x".repeat(121));
    check_all(vec![
        (
            HEAD.replace("\"Test\"", "\"a name\"") + STEP,
            &["line 2: name: a name is not a name of 1 to 40 letters, digits, _ and -"],
        ),
        (
            HEAD.replace("\"Test\"", "\"\"") + STEP,
            &["line 2: name:  is not a name of 1 to 40 letters, digits, _ and -"],
        ),
        (HEAD.replace("title = \"A test\"\n", &long) + STEP, &["line 3: title: the text is longer than 120 bytes"]),
    ]);
}

#[test]
fn unpaced_workloads_have_no_times() {
    let unpaced = |keys: &str| HEAD.replace("iteration = \"10 min\"", "pace = \"unpaced\"") + keys;
    check_all(vec![
        (unpaced(STEP), &[]),
        (
            unpaced(&format!("iteration = \"1 h\"\njitter = \"1 s\"\npause = \"1 s\"\n{STEP}")),
            &[
                "line 5: iteration: this key is not permitted with pace = \"unpaced\"",
                "line 6: jitter: this key is not permitted with pace = \"unpaced\"",
                "line 7: pause: this key is not permitted with pace = \"unpaced\"",
            ],
        ),
        (
            unpaced("step = [{ verb = \"poll\", pause = \"1 s\" }]"),
            &["line 5: step 1 (poll), pause: this key is not permitted with pace = \"unpaced\""],
        ),
        (HEAD.replace("10 min", "0 s") + STEP, &["line 4: iteration: the duration is shorter than 1 ms"]),
    ]);
}

#[test]
fn parameters_and_their_use() {
    let with = |parameter: &str, step: &str| {
        format!("{HEAD}step = [{{ verb = \"read\", {step} }}]\n[parameters]\n{parameter}\n")
    };
    check_all(vec![
        (with("n = { value = 3, min = 1, max = 5, about = \"reads\" }", "count = \"$n\""), &[]),
        (
            with("n = { value = 3 }", "count = 3"),
            &["line 7: parameters n, value: no value of the file is this parameter"],
        ),
        (
            with("busy = { value = 3 }", "count = \"$busi\""),
            &[
                "line 5: step 1 (read), count: there is no parameter busi; did you mean $busy?",
                "line 7: parameters busy, value: no value of the file is this parameter",
            ],
        ),
        (with("n = { min = 1 }", "count = 2"), &["line 7: parameters n, value: this key is missing"]),
        (
            with("n = { value = 9, min = 1, max = 5 }", "count = \"$n\""),
            &["line 7: parameters n, value: the value is above the parameter's max"],
        ),
        (
            with("n = { value = 0, min = 1 }", "count = \"$n\""),
            &["line 7: parameters n, value: the value is below the parameter's min"],
        ),
        (
            with("n = { value = 3, max = \"5 s\" }", "count = \"$n\""),
            &["line 7: parameters n, max: \"5 s\" does not limit an integer"],
        ),
        (
            with("n = { value = \"screen\", min = \"last\" }", "of = \"$n\""),
            &["line 7: parameters n, min: \"last\" does not limit a text"],
        ),
        (
            with("n = { value = \"scren\", choices = [\"screen\", \"last\"] }", "of = \"$n\""),
            &[
                "line 5: step 1 (read), of: scren: not a known word; did you mean screen?",
                "line 7: parameters n, value: scren is not one of screen, last; did you mean screen?",
            ],
        ),
        (
            with("n = { value = 3, choices = [\"3\"] }", "count = \"$n\""),
            &["line 7: parameters n, choices: a list of texts does not limit an integer"],
        ),
        (
            with("n = { value = 20_000 }", "count = \"$n\""),
            &["line 5: step 1 (read), count: 20_000 ($n) is not an integer from 0 to 10,000"],
        ),
        (
            with("n = { value = [1] }", "count = \"$n\""),
            &[
                "line 5: step 1 (read), count: there is no parameter n",
                "line 7: parameters n, value: [1] is not an integer, number, boolean or text",
            ],
        ),
        (
            with("n = { value = 3, mim = 1 }", "count = \"$n\""),
            &["line 7: parameters n: there is no key mim; did you mean min?"],
        ),
        (
            with("\"a b\" = { value = 3 }", "count = \"$a b\""),
            &["line 7: parameters, a b: a b is not a name of 1 to 40 letters, digits, _ and -"],
        ),
    ]);
}

#[test]
fn values_of_the_command_line() {
    let steps = "step = [
        { verb = \"pull\", method = \"$how\" },
        { verb = \"read\", count = \"$n\", attachments = \"$part\" },
        { verb = \"reply\", copy = \"$save\" },
    ]";
    let parameters = "[parameters]
        n = { value = 3, max = 5 }
        wait = { value = \"1 s\", max = \"10 s\" }
        how = { value = \"stream\", choices = [\"stream\", \"call\"] }
        part = { value = 0.25 }
        save = { value = true }";
    let text = format!("{HEAD}pause = \"$wait\"\n{steps}\n{parameters}\n");
    let check = |assignments: &[&str], expected: &[&str]| assert_eq!(findings(&text, assignments), expected);
    check(&["n=5", "wait=10 s", "how=call", "part=1", "save=false"], &[]);
    check(&["n=9", "n=1_0"], &["--set n: the value is above the parameter's max"]);
    check(&["n=three"], &["--set n: three is not an integer, as the value in the file"]);
    check(&["wait=soon"], &["--set wait: soon is not a duration, as the value in the file"]);
    check(&["wait=11 s"], &["--set wait: the value is above the parameter's max"]);
    check(
        &["how=cal"],
        &[
            "--set how: cal is not one of stream, call; did you mean call?",
            "line 7: step 1 (pull), method: cal: not a known word; did you mean call?",
        ],
    );
    check(&["part=nan"], &["--set part: nan is not a number, as the value in the file"]);
    check(&["save=yes"], &["--set save: yes is not true or false, as the value in the file"]);
    check(&["m=3"], &["--set m: there is no parameter m"]);
    check(&["wayt=1 s"], &["--set wayt: there is no parameter wayt; did you mean wait?"]);
    check(&["n"], &["--set n: this is not of the form NAME=VALUE"]);
}

#[test]
fn sources_and_tags() {
    check_all(vec![
        (with_keys("source = \"seed4, help-n8\""), &[]),
        (with_keys("source = \"seed9\""), &["line 5: source: there is no source seed9; did you mean seed4?"]),
        (with_keys("source = \"\""), &["line 5: source: there is no source "]),
        (with_keys("tags = { survey = \"A survey of 2026\" }\nsource = \"survey\""), &[]),
        (with_keys("tags = { seed4 = \"mine\" }"), &["line 5: tags, seed4: the reference has this tag already"]),
        (
            with_keys("sources = { user = \"seed4\" }\nusers = 5"),
            &["line 5: sources, user: the table has no key user; did you mean users?"],
        ),
        (with_keys("sources = { users = 4 }\nusers = 5"), &["line 5: sources, users: 4 is not a text"]),
    ]);
}

#[test]
fn mailbox_directory_native_and_databases() {
    check_all(vec![
        (
            with_tables("[mailbox]\ndocuments = 10_000_001\nunread = 1.5\nfulltext = true"),
            &[
                "line 7: mailbox, documents: 10_000_001 is not an integer from 0 to 10,000,000",
                "line 8: mailbox, unread: 1.5 is not a number from 0 to 1",
                "line 9: mailbox: there is no key fulltext; did you mean full_text?",
            ],
        ),
        (with_tables("[mailbox]\nunread = nan"), &["line 7: mailbox, unread: nan is not a number from 0 to 1"]),
        (with_tables("[mailbox]\nunread = -inf"), &["line 7: mailbox, unread: -inf is not a number from 0 to 1"]),
        (
            with_tables("[mailbox]\nprofile = \"server_load\""),
            &["line 7: mailbox, profile: server_load: not a known word; did you mean server-load?"],
        ),
        (
            with_tables("[directory]\npeople = 10\nlookups = [1, 11]\nrecipients = [3, 2]"),
            &[
                "line 8: directory, lookups: the range ends after the last of 10 people",
                "line 9: directory, recipients: [3, 2] is not in ascending order",
            ],
        ),
        (
            with_tables("[directory]\nrecipients = [0, 2]"),
            &["line 7: directory, recipients: 0 is not an integer from 1 to 1,000,000"],
        ),
        (
            with_tables("[native]\nread = \"part\"\nbatch = 1\nrows = 0"),
            &[
                "line 7: native, read: part: not one of whole, items",
                "line 8: native, batch: 1 is not true or false",
                "line 9: native, rows: 0 is not an integer from 1 to 1,000",
            ],
        ),
        (
            with_tables("[[database]]\ncount = 10_001\n[[database]]\nname = \"a\"\n[[database]]\nname = \"a\""),
            &[
                "line 6: database 1, name: this key is missing",
                "line 7: database 1, count: 10_001 is not an integer from 0 to 10,000",
                "line 11: database a, name: there is another database of this name",
            ],
        ),
        (
            with_tables("[[database]]\nname = \"a\"\nbytes = 67_108_865"),
            &["line 8: database a, bytes: 67_108_865 is not an integer from 0 to 67,108,864"],
        ),
    ]);
}

#[test]
fn size_profiles() {
    let rows = |rows: &str| with_tables(&format!("[profile.p]\nrows = [{rows}]"));
    check_all(vec![
        (rows("{ body = 1, attachment = 0, share = 0.3333333 }, { body = 2, attachment = 9, share = 0.6666667 }"), &[]),
        (
            rows("{ body = 1, attachment = 0, share = 0.5 }"),
            &["line 7: profile p, rows: the shares add up to 0.5, not to 1"],
        ),
        (rows("{ body = 1, share = 1 }"), &["line 7: profile p, row 1, attachment: this key is missing"]),
        (rows(""), &["line 7: profile p, rows: the shares add up to 0, not to 1"]),
        (
            with_tables("[profile.p]\nrows = []\nbytes = 3"),
            &[
                "line 7: profile p, rows: the shares add up to 0, not to 1",
                "line 8: profile p, bytes: this key is not permitted together with rows",
            ],
        ),
        (with_tables("[profile.p]\nkinds = [\"text\"]"), &["line 6: profile p, bytes: this key is missing"]),
        (
            with_tables("[profile.p]\nbytes = 1\nkinds = [\"pfd\"]"),
            &["line 8: profile p, kinds: pfd: not a known word; did you mean pdf?"],
        ),
        (
            with_tables("[profile.server-load]\nbytes = 1"),
            &["line 6: profile server-load, rows: the profile server-load is built in, and cannot be changed"],
        ),
    ]);
}

#[test]
fn classes_share_the_users() {
    let class = |keys: &str| format!("[[class]]\n{keys}\nstep = [{{ verb = \"poll\" }}]\n");
    let classes = |all: &[&str]| with_classes(&all.iter().map(|keys| class(keys)).collect::<String>());
    check_all(vec![
        (classes(&["name = \"a\"\nshare = 0.4", "name = \"b\"", "name = \"c\"\nusers = 0"]), &[]),
        (
            classes(&["name = \"a\"", "name = \"b\""]),
            &["line 5: class: more than one class has neither share nor users"],
        ),
        (
            classes(&["name = \"a\"\nshare = 0.4", "name = \"b\"\nshare = 0.5"]),
            &["line 5: class: the shares of the classes add up to 0.9, and no class without a share takes the rest"],
        ),
        (
            classes(&["name = \"a\"\nshare = 0.6", "name = \"b\"\nshare = 0.5"]),
            &["line 5: class: the shares of the classes add up to 1.1, which is more than 1"],
        ),
        (
            classes(&["name = \"a\"\nusers = 5"]),
            &["line 5: class: the shares of the classes add up to 0, and no class without a share takes the rest"],
        ),
        (
            classes(&["name = \"a\"\nusers = 5\nshare = 0.5", "name = \"b\""]),
            &["line 8: class a, share: this key is not permitted together with users"],
        ),
        (
            classes(&["name = \"a\"\nshare = 0.5", "name = \"a\""]),
            &["line 10: class a, name: there is another class of this name"],
        ),
        (
            classes(&["name = \"a\"\nusers = 1_000_000", "name = \"b\""]),
            &["line 1: users: all classes together have more than 1,000,000 users"],
        ),
        (
            classes(&["database = \"x\""]),
            &["line 5: class 1, name: this key is missing", "line 6: class 1, database: x: none is defined"],
        ),
        (with_classes("[[class]]\nname = \"a\""), &["line 5: class a, step: this key is missing"]),
        (
            with_classes(&format!("{STEP}\n{}", class("name = \"a\""))),
            &["line 7: class: this key is not permitted together with step"],
        ),
    ]);
}

#[test]
fn classes_work_in_databases_that_exist() {
    let text = |count: u32, database: &str| {
        let step = "step = [{ verb = \"rebuild_view\" }]";
        let class = format!("[[class]]\nname = \"a\"\ndatabase = \"{database}\"\n{step}\n");
        with_classes(&format!("{class}[[database]]\nname = \"large\"\ncount = {count}"))
    };
    check_all(vec![
        (text(1, "large"), &[]),
        (text(0, "large"), &["line 5: class: class a works in database large, which count = 0 leaves out"]),
        (text(1, "lage"), &["line 7: class a, database: lage: not a known word; did you mean large?"]),
    ]);
}

#[test]
fn steps_and_their_verbs() {
    check_all(vec![
        (with_step("count = 3"), &["line 5: step 1, verb: this key is missing"]),
        (with_step("verb = \"raed\""), &["line 5: step 1, verb: raed: not a known word; did you mean read?"]),
        (with_step("verb = \"log_in\""), &["line 5: step 1, verb: log_in: not a known word"]),
        (with_step("verb = \"read\", copy = true"), &["line 5: step 1 (read): there is no key copy"]),
        (with_step("verb = \"poll\", of = \"last\""), &["line 5: step 1 (poll): there is no key of"]),
        (
            with_step("verb = \"read\", count = 10_001"),
            &["line 5: step 1 (read), count: 10_001 is not an integer from 0 to 10,000"],
        ),
        (
            with_step("verb = \"read\", every = 0"),
            &["line 5: step 1 (read), every: 0 is not an integer from 1 to 10,000"],
        ),
        (
            with_step("verb = \"read\", every = 3, phase = 3"),
            &["line 5: step 1 (read), phase: 3 is not an integer from 0 to 2"],
        ),
        (
            with_step("verb = \"read\", group = \"a b\""),
            &["line 5: step 1 (read), group: a b is not a name of 1 to 40 letters, digits, _ and -"],
        ),
        (with_step("verb = \"read\", count = 0"), &["line 5: step: no step is performed"]),
        (
            with_step("verb = \"read\", of = \"newst\""),
            &["line 5: step 1 (read), of: newst: not a known word; did you mean newest?"],
        ),
        (with_step("verb = \"replicate\""), &["line 5: step: step 1 replicates, but the class has no local replica"]),
        (
            with_step("verb = \"read\", count = 9_999 }, { verb = \"poll\", count = 2"),
            &["line 5: step: an iteration has 10,001 repetitions of steps, more than 10,000"],
        ),
    ]);
}

#[test]
fn keys_of_verbs() {
    check_all(vec![
        (
            with_step("verb = \"send\", recipients = 1_001"),
            &["line 5: step 1 (send), recipients: 1_001 is not an integer from 1 to 1,000"],
        ),
        (
            with_step("verb = \"send\", recipients = 2, to = \"self\""),
            &["line 5: step 1 (send), recipients: this key is not permitted together with to"],
        ),
        (with_step("verb = \"send\", to = \"all\""), &["line 5: step 1 (send), to: all: not one of self"]),
        (
            with_step("verb = \"send\", bytes = 1, profile = \"server-load\""),
            &["line 5: step 1 (send), bytes: this key is not permitted together with profile"],
        ),
        (
            with_step("verb = \"send\", from = \"rand\""),
            &["line 5: step 1 (send), from: rand: not a known word; did you mean random?"],
        ),
        (
            with_step("verb = \"lookup\", names = 501"),
            &["line 5: step 1 (lookup), names: 501 is not an integer from 1 to 500"],
        ),
        (
            with_step("verb = \"search\", words = 9"),
            &["line 5: step 1 (search), words: 9 is not an integer from 1 to 8"],
        ),
        (with_step("verb = \"move\", to = \"\""), &["line 5: step 1 (move), to: \"\" is not a text of 1 to 127 bytes"]),
        (
            with_step("verb = \"scroll_view\", at = \"last\", rows = 1_001"),
            &[
                "line 5: step 1 (scroll_view), rows: 1_001 is not an integer from 1 to 1,000",
                "line 5: step 1 (scroll_view), at: last: not one of next, random, first",
            ],
        ),
        (
            with_step("verb = \"pull\", method = \"calls\""),
            &["line 5: step 1 (pull), method: calls: not a known word; did you mean call?"],
        ),
    ]);
}

#[test]
fn pauses_fit_into_the_iteration() {
    let text = |jitter: &str, count: u32| {
        let step = format!("step = [{{ verb = \"read\", count = {count}, every = 4, pause = [\"1 s\", \"60 s\"] }}]\n");
        format!("{HEAD}jitter = \"{jitter}\"\n{step}")
    };
    check_all(vec![
        (text("60 s", 9), &[]),
        (
            text("61 s", 9),
            &["line 6: step: jitter and the longest pauses add up to 601 s, more than an iteration of 10 min"],
        ),
        (
            text("0 s", 11),
            &["line 6: step: jitter and the longest pauses add up to 11 min, more than an iteration of 10 min"],
        ),
    ]);
}
