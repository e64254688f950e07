//! Tests of the input and output of commands: options only where they have a meaning, tables that no document content
//! can break, lists that continue where they were cut off, and views by order, position and key.

use serde_json::{Value, json};

use crate::native::PASSWORD;
use crate::native_notes::{PLAN, plan};
use crate::{TestFolder, text};

/// Runs a command as a logged-in user and returns its readable output.
fn seen(folder: &TestFolder, who: &str, words: &[&str]) -> String {
    let words = [words, &["--user", who, "--password-file", "-"]].concat();
    folder.check_input(&words, &format!("{PASSWORD}\n"), "")
}

fn field(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().expect("a list").iter().map(|row| row[name].clone()).collect()
}

fn import(folder: &TestFolder, rows: &str) {
    std::fs::write(folder.path("rows.csv"), rows).expect("writes a test file");
    folder.check(&["db", "import", PLAN, "rows.csv", "--form", "Order"], "");
}

fn make_view(folder: &TestFolder, design: &str) {
    std::fs::write(folder.path("view.toml"), design).expect("writes a test file");
    folder.as_user("ann", &["view", "create", PLAN, "view.toml"]);
}

#[test]
fn operator_commands_refuse_login_options() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PLAN], "was created");
    std::fs::write(folder.path("in.csv"), "A\n1\n").expect("writes a test file");
    for words in [
        &["db", "export", PLAN, "out.csv", "--user", "re"][..],
        &["db", "import", PLAN, "in.csv", "--user", "re"],
        &["db", "import", PLAN, "in.csv", "--server", "hub.acme.test"],
        &["--certificate", "a.pem", "db", "delete", PLAN],
    ] {
        let output = folder.run(words, "");
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains("works on the data folder with the unrestricted rights of its operator"),
            "{words:?}: {complaint}"
        );
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    assert!(!folder.path("out.csv").exists(), "nothing was done");
    assert_eq!(folder.json(&["db", "show", PLAN])["notes"], json!(1), "the access list alone");
    assert!(!folder.check(&["db", "export", "--help"], "").contains("--password-file"));
    folder.check(&["db", "open", "--help"], "--password-file");
    folder.check_fails(&["db", "search", PLAN, "x", "--password-file", "-"], "no user name; specify it with --user");
}

#[test]
fn long_and_control_characters_do_not_break_lists() {
    let (folder, server) = plan(&[("ann", "editor")]);
    let long = "x".repeat(70_000);
    folder.as_user("ann", &["note", "create", PLAN, "Form=Memo", &format!("Subject={long}")]);
    folder.as_user("ann", &["note", "create", PLAN, "Form=Memo", "Subject=two\nlines\u{1b}[2J and \u{202e}back"]);
    let list = ["note", "list", PLAN];
    let output = seen(&folder, "ann", &list);
    assert_eq!(output.lines().count(), 4, "a title, two documents and a sentence: {output}");
    assert!(output.lines().all(|line| line.chars().count() < 400) && output.contains("xxx…"), "{output}");
    assert!(output.contains("two lines [2J and  back") && !output.contains('\u{1b}'), "{output}");
    assert_eq!(field(&folder.as_user("ann", &list), "Subject")[0], json!(long), "programs get all of it");
    let many = ["note", "get", PLAN, "1"];
    let access_list = folder.as_user("ann", &many);
    assert!(access_list["items"]["$ACL"]["base64"].is_string(), "{access_list}");
    assert!(seen(&folder, "ann", &many).contains("$ACL  (binary, "));
    server.stop();
}

#[test]
fn limited_list_continues_within_a_transaction() {
    let (folder, server) = plan(&[("ann", "reader")]);
    let rows: String = (0..620).map(|row| format!("Order {row}\n")).collect();
    import(&folder, &format!("Subject\n{rows}"));
    let list = |since: &str, limit: &str| {
        let output = seen(&folder, "ann", &["note", "list", PLAN, "--since", since, "--limit", limit]);
        let last = output.lines().last().expect("a sentence").to_owned();
        let next = last.split("--since ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a position");
        let next = next.trim_end_matches('.').to_owned();
        let notes = output.lines().filter_map(|line| line.split(' ').next()?.parse::<u32>().ok());
        (notes.take(output.lines().count() - 2).collect::<Vec<_>>(), next, last.contains("there are more"))
    };
    let (first, _, has_more) = list("0", "1");
    assert_eq!((first.len(), has_more), (1, true));
    let mut all = Vec::new();
    let mut since = "0".to_owned();
    loop {
        let (notes, next, has_more) = list(&since, "150");
        assert!(notes.len() == 150 || !has_more, "{} documents", notes.len());
        all.extend(notes);
        since = next;
        if !has_more {
            break;
        }
    }
    assert_eq!(all.len(), 620);
    assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "each once, in their order");
    assert_eq!(list("0", "0").0, all);
    assert_eq!(list(&since, "5").0, [0_u32; 0]);
    folder.fails_as_user("ann", &["note", "list", PLAN, "--since", "x"], "such as 77 or 77/12");
    let wrong = seen(
        &folder,
        "ann",
        &["note", "list", PLAN, "--formula", "SELECT Subject = @DbColumn(\"\"; \"\"; \"None\"; 1)"],
    );
    let warning = "The formula failed for 620 documents; the first error: view \"None\" of plan.nsf does not exist.";
    assert!(wrong.contains(warning), "{wrong}");
    let right = seen(&folder, "ann", &["note", "list", PLAN, "--formula", "SELECT @Contains(Subject; \"619\")"]);
    assert!(!right.contains("The formula failed"), "{right}");
    server.stop();
}

const ORDERS: &str = "Customer,Subject,Year,Amount\n\
    Ada,Axe,2019,10.1\nAda,Bolt,2020,20.2\nBo,Can,2020,30.3\nBo,Drill,2021,39.4\n";

const BY_CUSTOMER: &str = r#"[[view]]
title = "By Customer"
selection = 'SELECT Form = "Order"'
columns = [
    { title = "Customer", sort = "ascending", category = true },
    { title = "Order", item = "Subject", sort = "ascending", click = "descending" },
    { title = "Amount", formula = "Amount * 1.1", total = "sum" },
    { title = "Amount", item = "Amount", formula = "Amount", total = "percent-of-all" },
]

"#;

const BY_YEAR: &str = r#"[[view]]
title = "By Year"
selection = 'SELECT Form = "Order"'
columns = [{ title = "Year", sort = "ascending" }, { title = "Subject" }]
"#;

#[test]
fn view_entries_follow_sort_position_and_expansion() {
    let (folder, server) = plan(&[("ann", "designer")]);
    import(&folder, ORDERS);
    make_view(&folder, BY_CUSTOMER);
    let entries = |words: &[&str]| folder.as_user("ann", &[&["view", "entries", PLAN, "By Customer"], words].concat());
    let places = |words: &[&str]| field(&entries(words), "position");
    assert_eq!(places(&[]), ["1", "1.1", "1.2", "2", "2.1", "2.2"]);
    assert_eq!(places(&["--at", "2.1"]), ["2.1", "2.2"]);
    assert_eq!(places(&["--collapse", "1"]), ["1", "2", "2.1", "2.2"]);
    assert_eq!(places(&["--collapsed", "--expand", "1"]), ["1", "1.1", "1.2", "2"]);
    assert_eq!(places(&["--collapsed", "--from", "2"]), ["2"]);
    assert_eq!(places(&["--collapsed", "--expand", "1", "--from", "3", "--limit", "1"]), ["1.2"]);
    assert_eq!(places(&["--collapse", "1", "--from", "2"]), ["2", "2.1", "2.2"]);
    assert!(places(&["--collapsed", "--from", "3"]).is_empty());
    assert_eq!(places(&["--limit", "2"]), ["1", "1.1"]);
    assert_eq!(places(&["--limit", "0"]).len(), 6);
    let sorted = |words: &[&str]| {
        let rows = entries(&[&["--sort", "Order"], words].concat());
        field(&rows, "Order").into_iter().filter(|order| !order.is_null()).collect::<Vec<_>>()
    };
    assert_eq!(sorted(&["--descending"]), ["Drill", "Can", "Bolt", "Axe"]);
    let fails = |words: &[&str], expected: &str| {
        folder.fails_as_user("ann", &[&["view", "entries", PLAN, "By Customer"], words].concat(), expected);
    };
    fails(&["--sort", "Order"], "only in descending order; add --descending");
    fails(&["--sort", "Customer", "--descending"], "it can be sorted by Order");
    fails(&["--at", "7.7"], "there is no entry at position 7.7");
    fails(&["--at", "0"], "counted from 1");
    fails(&["--expand", "1"], "--collapsed");

    // Both columns are shown: in JSON as the server returns them, in the readable output as the formula language
    // formats them.
    let rows = entries(&[]);
    let amount = |row: usize| rows[row]["Amount 2"].as_f64().expect("a number");
    assert!((amount(0) - 30.3).abs() < 1e-9 && (amount(1) - 10.1).abs() < 1e-9, "{rows}");
    let output = seen(&folder, "ann", &["view", "entries", PLAN, "By Customer"]);
    let line = |position: &str| {
        let line = output.lines().find(|line| line.split(' ').next() == Some(position)).expect("a line");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("1")[line("1").len() - 2..], ["33.33", "30.30%"], "{output}");
    assert_eq!(line("1.1")[line("1.1").len() - 2..], ["11.11", "-"], "{output}");
    assert!(output.ends_with("6 entries.\n"), "{output}");
    server.stop();
}

#[test]
fn view_find_uses_the_type_of_the_column() {
    let (folder, server) = plan(&[("ann", "designer")]);
    import(&folder, ORDERS);
    make_view(&folder, BY_YEAR);
    let found = |words: &[&str]| {
        field(&folder.as_user("ann", &[&["view", "find", PLAN, "By Year"], words].concat()), "Subject")
    };
    assert_eq!(found(&["2020"]), ["Bolt", "Can"]);
    assert_eq!(found(&["number=2020"]), ["Bolt", "Can"]);
    assert_eq!(found(&["text=2020"]), [json!(null); 0]);
    assert_eq!(found(&["2020", "--to", "2021"]), ["Bolt", "Can", "Drill"]);
    assert_eq!(found(&["2019", "--to", "2021", "--limit", "0"]).len(), 4);
    let output = seen(&folder, "ann", &["view", "find", PLAN, "By Year", "2020", "--limit", "1"]);
    assert!(output.contains("number=") && output.contains("--limit shows them"), "{output}");
    server.stop();
}

#[test]
fn view_limits_are_filled_over_several_pages() {
    let (folder, server) = plan(&[("ann", "designer")]);
    let rows: String = (0..2_300).map(|row| format!("{},Order {row}\n", 2_000 + row % 2)).collect();
    import(&folder, &format!("Year,Subject\n{rows}"));
    make_view(&folder, BY_YEAR);
    // With this many documents the index must be built first; the command waits for that.
    let entries = ["view", "entries", PLAN, "By Year"];
    assert_eq!(folder.as_user("ann", &entries).as_array().map(Vec::len), Some(50));
    for (limit, count) in [("0", 2_300), ("1500", 1_500), ("1000", 1_000)] {
        let rows = folder.as_user("ann", &[&entries[..], &["--limit", limit]].concat());
        let places = field(&rows, "position");
        assert_eq!(places, (1..=count).map(|number| json!(number.to_string())).collect::<Vec<_>>(), "{limit}");
    }
    let found = folder.as_user("ann", &["view", "find", PLAN, "By Year", "2001", "--limit", "0"]);
    assert_eq!(found.as_array().map(Vec::len), Some(1_150));
    server.stop();
}

#[test]
fn note_create_requires_items_and_sets_their_types() {
    let (folder, server) = plan(&[("ann", "editor"), ("bob", "editor")]);
    folder.fails_as_user("ann", &["note", "create", PLAN], "NAME[:TYPE]=VALUE");
    let who = ["Who:readers=ann/acme.test", "Who:readers=[Crew]", "By:authors=ann/acme.test", "To:names=Ann/Acme"];
    let words = [&["note", "create", PLAN, "Subject=Secret", "When:time=2026-01-01"], &who[..]].concat();
    let number = folder.as_user("ann", &words)["note"].to_string();
    let items = folder.as_user("ann", &["note", "get", PLAN, &number])["items"].clone();
    assert_eq!((&items["When"], &items["To"]), (&json!("2026-01-01T00:00:00Z"), &json!(["CN=Ann/O=Acme"])));
    assert_eq!(items["Who"], json!(["CN=ann/O=acme.test", "[Crew]"]));
    assert_eq!(field(&folder.as_user("ann", &["note", "list", PLAN]), "Subject"), ["Secret"]);
    assert_eq!(folder.as_user("bob", &["note", "list", PLAN]), json!([]), "it is for ann alone");
    std::fs::write(folder.path("plan.PDF"), "%PDF-").expect("writes a test file");
    folder.as_user("ann", &["note", "attach", PLAN, &number, "plan.PDF"]);
    let items = folder.as_user("ann", &["note", "get", PLAN, &number])["items"].to_string();
    assert!(items.contains("application/pdf"), "{items}");
    server.stop();
}

#[test]
fn export_writes_to_standard_output() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PLAN], "was created");
    import(&folder, ORDERS);
    let export = ["db", "export", PLAN, "-", "--columns", "Subject,Year"];
    let check = || {
        let output = folder.run(&export, "");
        let table = text(&output.stdout);
        let titles: Vec<&str> = table.lines().filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!(titles, ["Subject", "Axe", "Bolt", "Can", "Drill"], "{}", text(&output.stderr));
        assert!(output.status.success() && text(&output.stderr).contains("4 documents were written."));
        let lines = folder.check(&[&export[..], &["--format", "jsonl", "--json"]].concat(), "");
        assert_eq!(
            lines.lines().map(|line| serde_json::from_str::<Value>(line).is_ok()).collect::<Vec<_>>(),
            [true; 4]
        );
        assert!(!folder.path("-").exists());
        let left = std::fs::read_dir(folder.data()).expect("the data folder exists").filter_map(Result::ok);
        assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with("export-")));
    };
    check();
    let server = folder.serve();
    check();
    server.stop();
    folder.check_fails(&["db", "export", PLAN, "-", "--formula", "SELECT ("], "--formula");
    folder.check(&["db", "export", "--help"], "'SELECT Form = \"Order\"'");
}
