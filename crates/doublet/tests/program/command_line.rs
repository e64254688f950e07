//! Tests of the input and output of commands: options only where they have a meaning, tables that no document content
//! can break, lists that continue where they were cut off, and views by order, position and key.

use serde_json::{Value, json};

use crate::native::PASSWORD;
use crate::native_notes::{PLAN, plan};
use crate::{TestFolder, text};

/// Runs a command as a logged-in user and returns its readable output.
fn seen(place: &TestFolder, who: &str, words: &[&str]) -> String {
    let words = [words, &["--user", who, "--password-file", "-"]].concat();
    place.check_input(&words, &format!("{PASSWORD}\n"), "")
}

fn field(rows: &Value, name: &str) -> Vec<Value> {
    rows.as_array().expect("a list").iter().map(|row| row[name].clone()).collect()
}

fn import(place: &TestFolder, rows: &str) {
    std::fs::write(place.path("rows.csv"), rows).expect("writes a test file");
    place.check(&["db", "import", PLAN, "rows.csv", "--form", "Order"], "");
}

fn make_view(place: &TestFolder, design: &str) {
    std::fs::write(place.path("view.toml"), design).expect("writes a test file");
    place.as_user("ann", &["view", "create", PLAN, "view.toml"]);
}

#[test]
fn an_operators_commands_refuse_the_options_of_a_person() {
    let place = TestFolder::new();
    place.check(&["db", "create", PLAN], "was created");
    std::fs::write(place.path("in.csv"), "A\n1\n").expect("writes a test file");
    for words in [
        &["db", "export", PLAN, "out.csv", "--user", "re"][..],
        &["db", "import", PLAN, "in.csv", "--user", "re"],
        &["db", "import", PLAN, "in.csv", "--server", "hub.acme.test"],
        &["--certificate", "a.pem", "db", "delete", PLAN],
    ] {
        let output = place.run(words, "");
        let complaint = text(&output.stderr);
        assert!(
            complaint.contains("works on the data folder with the unrestricted rights of its operator"),
            "{words:?}: {complaint}"
        );
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    assert!(!place.path("out.csv").exists(), "nothing was done");
    assert_eq!(place.json(&["db", "show", PLAN])["notes"], json!(1), "the access list alone");
    assert!(!place.check(&["db", "export", "--help"], "").contains("--password-file"));
    place.check(&["db", "open", "--help"], "--password-file");
    place.check_fails(&["db", "search", PLAN, "x", "--password-file", "-"], "no user name; specify it with --user");
}

#[test]
fn no_document_breaks_the_lists_of_others() {
    let (place, server) = plan(&[("ann", "editor")]);
    let long = "x".repeat(70_000);
    place.as_user("ann", &["note", "create", PLAN, "Form=Memo", &format!("Subject={long}")]);
    place.as_user("ann", &["note", "create", PLAN, "Form=Memo", "Subject=two\nlines\u{1b}[2J and \u{202e}back"]);
    let list = ["note", "list", PLAN];
    let shown = seen(&place, "ann", &list);
    assert_eq!(shown.lines().count(), 4, "a title, two documents and a sentence: {shown}");
    assert!(shown.lines().all(|line| line.chars().count() < 400) && shown.contains("xxx…"), "{shown}");
    assert!(shown.contains("two lines [2J and  back") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(field(&place.as_user("ann", &list), "Subject")[0], json!(long), "programs get all of it");
    let many = ["note", "get", PLAN, "1"];
    let access_list = place.as_user("ann", &many);
    assert!(access_list["items"]["$ACL"]["base64"].is_string(), "{access_list}");
    assert!(seen(&place, "ann", &many).contains("$ACL  (binary, "));
    server.stop();
}

#[test]
fn a_list_is_cut_within_a_transaction_and_goes_on_there() {
    let (place, server) = plan(&[("ann", "reader")]);
    let rows: String = (0..620).map(|row| format!("Order {row}\n")).collect();
    import(&place, &format!("Subject\n{rows}"));
    let list = |since: &str, limit: &str| {
        let shown = seen(&place, "ann", &["note", "list", PLAN, "--since", since, "--limit", limit]);
        let last = shown.lines().last().expect("a sentence").to_owned();
        let next = last.split("--since ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a place");
        let next = next.trim_end_matches('.').to_owned();
        let notes = shown.lines().filter_map(|line| line.split(' ').next()?.parse::<u32>().ok());
        (notes.take(shown.lines().count() - 2).collect::<Vec<_>>(), next, last.contains("there are more"))
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
    place.fails_as_user("ann", &["note", "list", PLAN, "--since", "x"], "such as 77 or 77/12");
    let wrong = seen(
        &place,
        "ann",
        &["note", "list", PLAN, "--formula", "SELECT Subject = @DbColumn(\"\"; \"\"; \"None\"; 1)"],
    );
    let told = "The formula failed for 620 documents; the first error: view \"None\" of plan.nsf does not exist.";
    assert!(wrong.contains(told), "{wrong}");
    let right = seen(&place, "ann", &["note", "list", PLAN, "--formula", "SELECT @Contains(Subject; \"619\")"]);
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
fn a_view_is_read_by_order_place_and_expansion() {
    let (place, server) = plan(&[("ann", "designer")]);
    import(&place, ORDERS);
    make_view(&place, BY_CUSTOMER);
    let entries = |words: &[&str]| place.as_user("ann", &[&["view", "entries", PLAN, "By Customer"], words].concat());
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
        place.fails_as_user("ann", &[&["view", "entries", PLAN, "By Customer"], words].concat(), expected);
    };
    fails(&["--sort", "Order"], "only downwards: say --descending");
    fails(&["--sort", "Customer", "--descending"], "it can be sorted by Order");
    fails(&["--at", "7.7"], "there is no entry at position 7.7");
    fails(&["--at", "0"], "counted from 1");
    fails(&["--expand", "1"], "--collapsed");

    // Both columns are shown: in JSON as the server returns them, in the readable output as the formula language
    // formats them.
    let rows = entries(&[]);
    let amount = |row: usize| rows[row]["Amount 2"].as_f64().expect("a number");
    assert!((amount(0) - 30.3).abs() < 1e-9 && (amount(1) - 10.1).abs() < 1e-9, "{rows}");
    let shown = seen(&place, "ann", &["view", "entries", PLAN, "By Customer"]);
    let line = |place: &str| {
        let line = shown.lines().find(|line| line.split(' ').next() == Some(place)).expect("a line");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(line("1")[line("1").len() - 2..], ["33.33", "30.30%"], "{shown}");
    assert_eq!(line("1.1")[line("1.1").len() - 2..], ["11.11", "-"], "{shown}");
    assert!(shown.ends_with("6 entries.\n"), "{shown}");
    server.stop();
}

#[test]
fn keys_are_found_by_the_type_that_the_column_has() {
    let (place, server) = plan(&[("ann", "designer")]);
    import(&place, ORDERS);
    make_view(&place, BY_YEAR);
    let found =
        |words: &[&str]| field(&place.as_user("ann", &[&["view", "find", PLAN, "By Year"], words].concat()), "Subject");
    assert_eq!(found(&["2020"]), ["Bolt", "Can"]);
    assert_eq!(found(&["number=2020"]), ["Bolt", "Can"]);
    assert_eq!(found(&["text=2020"]), [json!(null); 0]);
    assert_eq!(found(&["2020", "--to", "2021"]), ["Bolt", "Can", "Drill"]);
    assert_eq!(found(&["2019", "--to", "2021", "--limit", "0"]).len(), 4);
    let told = seen(&place, "ann", &["view", "find", PLAN, "By Year", "2020", "--limit", "1"]);
    assert!(told.contains("number=") && told.contains("--limit shows them"), "{told}");
    server.stop();
}

#[test]
fn a_view_is_read_by_as_many_pages_as_it_takes() {
    let (place, server) = plan(&[("ann", "designer")]);
    let rows: String = (0..2_300).map(|row| format!("{},Order {row}\n", 2_000 + row % 2)).collect();
    import(&place, &format!("Year,Subject\n{rows}"));
    make_view(&place, BY_YEAR);
    // With this many documents the index must be built first; the command waits for that.
    let entries = ["view", "entries", PLAN, "By Year"];
    assert_eq!(place.as_user("ann", &entries).as_array().map(Vec::len), Some(50));
    for (limit, count) in [("0", 2_300), ("1500", 1_500), ("1000", 1_000)] {
        let rows = place.as_user("ann", &[&entries[..], &["--limit", limit]].concat());
        let places = field(&rows, "position");
        assert_eq!(places, (1..=count).map(|place| json!(place.to_string())).collect::<Vec<_>>(), "{limit}");
    }
    let found = place.as_user("ann", &["view", "find", PLAN, "By Year", "2001", "--limit", "0"]);
    assert_eq!(found.as_array().map(Vec::len), Some(1_150));
    server.stop();
}

#[test]
fn notes_are_made_with_what_was_said_and_not_without() {
    let (place, server) = plan(&[("ann", "editor"), ("bob", "editor")]);
    place.fails_as_user("ann", &["note", "create", PLAN], "NAME[:TYPE]=VALUE");
    let who = ["Who:readers=ann/acme.test", "Who:readers=[Crew]", "By:authors=ann/acme.test", "To:names=Ann/Acme"];
    let words = [&["note", "create", PLAN, "Subject=Secret", "When:time=2026-01-01"], &who[..]].concat();
    let number = place.as_user("ann", &words)["note"].to_string();
    let items = place.as_user("ann", &["note", "get", PLAN, &number])["items"].clone();
    assert_eq!((&items["When"], &items["To"]), (&json!("2026-01-01T00:00:00Z"), &json!(["CN=Ann/O=Acme"])));
    assert_eq!(items["Who"], json!(["CN=ann/O=acme.test", "[Crew]"]));
    assert_eq!(field(&place.as_user("ann", &["note", "list", PLAN]), "Subject"), ["Secret"]);
    assert_eq!(place.as_user("bob", &["note", "list", PLAN]), json!([]), "it is for ann alone");
    std::fs::write(place.path("plan.PDF"), "%PDF-").expect("writes a test file");
    place.as_user("ann", &["note", "attach", PLAN, &number, "plan.PDF"]);
    let items = place.as_user("ann", &["note", "get", PLAN, &number])["items"].to_string();
    assert!(items.contains("application/pdf"), "{items}");
    server.stop();
}

#[test]
fn a_table_goes_to_standard_output() {
    let place = TestFolder::new();
    place.check(&["db", "create", PLAN], "was created");
    import(&place, ORDERS);
    let export = ["db", "export", PLAN, "-", "--columns", "Subject,Year"];
    let check = || {
        let output = place.run(&export, "");
        let table = text(&output.stdout);
        let titles: Vec<&str> = table.lines().filter_map(|line| line.split(',').nth(1)).collect();
        assert_eq!(titles, ["Subject", "Axe", "Bolt", "Can", "Drill"], "{}", text(&output.stderr));
        assert!(output.status.success() && text(&output.stderr).contains("4 documents were written."));
        let lines = place.check(&[&export[..], &["--format", "jsonl", "--json"]].concat(), "");
        assert_eq!(
            lines.lines().map(|line| serde_json::from_str::<Value>(line).is_ok()).collect::<Vec<_>>(),
            [true; 4]
        );
        assert!(!place.path("-").exists());
        let left = std::fs::read_dir(place.data()).expect("the mail file exists").filter_map(Result::ok);
        assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with("export-")));
    };
    check();
    let server = place.serve();
    check();
    server.stop();
    place.check_fails(&["db", "export", PLAN, "-", "--formula", "SELECT ("], "--formula");
    place.check(&["db", "export", "--help"], "'SELECT Form = \"Order\"'");
}
