//! Tables that become documents, and documents that become tables.

use std::ops::ControlFlow;

use notes::{Acl, AclLevel, DatabaseKind, NewDatabase};

use super::super::request::TableExport;
use super::*;
use crate::sample::Sample;

const PATH: &str = "table.nsf";

/// Imports a file of this content; gives the answer, and the documents as an export has them.
fn check(name: &str, content: &str, change: impl FnOnce(&mut TableImport)) -> (Result<Answer, String>, Vec<Json>) {
    let sample = Sample::new();
    let acl = Acl::open_to_all(AclLevel::Reader);
    let new = NewDatabase::new(PATH, "Table", DatabaseKind::Standard, acl);
    sample.core.notes.database_create(&new).expect("made");
    let (file, back) = (sample.folder.path().join(name), sample.folder.path().join("back.jsonl"));
    std::fs::write(&file, content).expect("written");
    let mut request = TableImport { path: PATH.to_owned(), file, list_separator: ';', ..TableImport::default() };
    change(&mut request);
    let mut report = |_| ControlFlow::Continue(());
    let answer = import(&sample.core, &request, &mut report).map_err(|failure| failure.to_string());
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), ..TableExport::default() };
    export(&sample.core, &request, &mut report).expect("written");
    let text = std::fs::read_to_string(back).expect("it is there");
    (answer, text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

const CSV: &str = "Name,Born,Height,Tags,Code\n\"Ann, A.\",1970-02-28,1.75,\"a; b\",007\nBob,,1.8,c,010\n";

#[test]
fn columns_become_items_of_their_types() {
    let (answer, documents) = check("people.csv", CSV, |request| {
        request.form = Some("Person".to_owned());
        request.map = vec!["Tags=Categories:text-list".to_owned()];
    });
    let answer = answer.expect("taken");
    let kinds: Vec<&str> = answer.data["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|column| column["type"].as_str())
        .collect();
    assert_eq!(kinds, ["text", "time", "number", "text-list", "text"]);
    assert_eq!((documents.len(), &documents[0]["Form"]), (2, &json!("Person")));
    assert_eq!(documents[0]["Name"], json!("Ann, A."));
    assert_eq!(documents[0]["Born"], json!("1970-02-28T00:00:00Z"));
    assert_eq!((&documents[0]["Height"], &documents[0]["Code"]), (&json!(1.75), &json!("007")));
    assert_eq!(documents[0]["Categories"], json!(["a", "b"]));
    assert_eq!(documents[1].get("Born"), None, "what is empty is no item");
}

#[test]
fn lines_of_json_are_taken_as_they_are() {
    let lines = "{\"Name\":\"Ann\",\"Numbers\":[1,2],\"Sub\":{\"a\":1}}\n{\"Name\":\"Bob\",\"More\":true}\n[]\nzork\n";
    let (answer, documents) = check("people.jsonl", lines, |_| {});
    let answer = answer.expect("taken");
    assert_eq!((answer.data["documents"].clone(), answer.data["refused"].clone()), (json!(2), json!(2)));
    assert_eq!(answer.data["refusals"][0]["row"], json!(3));
    assert!(answer.complaint.is_some());
    assert_eq!((&documents[0]["Numbers"], &documents[1]["More"]), (&json!([1.0, 2.0]), &json!(1.0)));
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_would_be() {
    let (answer, documents) = check("people.csv", CSV, |request| request.dry_run = true);
    let answer = answer.expect("read");
    assert_eq!((answer.data["documents"].clone(), documents.len()), (json!(2), 0));
    assert!(answer.says[0].contains("nothing was changed"), "{:?}", answer.says);
}

#[test]
fn rows_that_do_not_fit_their_columns_are_told() {
    let (answer, documents) = check("people.csv", "Name,Height\nAnn,tall\nBob,1.8\nCarl,1,2\n", |request| {
        request.map = vec!["height=Height:number".to_owned()];
    });
    let answer = answer.expect("taken");
    assert_eq!((documents.len(), answer.data["refused"].clone()), (1, json!(2)));
    assert!(answer.data["refusals"][0]["why"].as_str().is_some_and(|why| why.contains("tall")));
}

#[test]
fn a_mapping_that_cannot_be_is_refused() {
    for (map, expected) in [("Name", "COLUMN=ITEM"), ("Name=x:zork", "types are"), ("Zork=x", "no column")] {
        let (answer, documents) = check("people.csv", CSV, |request| request.map = vec![map.to_owned()]);
        let error = answer.expect_err("refused");
        assert!(error.contains(expected) && documents.is_empty(), "{error}");
    }
}

/// Imports into a database that is there, and is broken off at the first step that is reported if `stop` says so: when the transaction behind that step is under way.
fn import_again(sample: &Sample, request: &TableImport, stop: bool) -> Result<u64, String> {
    let mut report = |_| if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let answer = import(&sample.core, request, &mut report).map_err(|failure| failure.to_string())?;
    Ok(answer.data["documents"].as_u64().expect("a number"))
}

/// Gives the numbers that the documents hold, in the order in which they were made.
fn numbers(sample: &Sample) -> Vec<usize> {
    let back = sample.folder.path().join("back.jsonl");
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), ..TableExport::default() };
    export(&sample.core, &request, &mut |_| ControlFlow::Continue(())).expect("written");
    let text = std::fs::read_to_string(back).expect("it is there");
    let number = |line: &str| serde_json::from_str::<Json>(line).ok()?["N"].as_f64().map(|number| number as usize);
    text.lines().map(|line| number(line).expect("a number")).collect()
}

#[test]
fn an_import_that_was_broken_off_goes_on_behind_what_it_has_taken() {
    let sample = Sample::new();
    let new = NewDatabase::new(PATH, "Table", DatabaseKind::Standard, Acl::open_to_all(AclLevel::Reader));
    sample.core.notes.database_create(&new).expect("made");
    let file = sample.folder.path().join("in.csv");
    let rows = |count: usize| (0..count).map(|row| format!("{row},x\n")).collect::<String>();
    std::fs::write(&file, format!("N,M\n{}", rows(2_234))).expect("written");
    let request = TableImport { path: PATH.to_owned(), file, list_separator: ';', ..TableImport::default() };
    let resume = TableImport { resume: true, ..request.clone() };
    let restart = TableImport { restart: true, ..request.clone() };
    let told = import_again(&sample, &request, true).expect_err("it is broken off");
    assert!(told.contains("1000 documents were made before; the same command with --resume"), "{told}");
    assert_eq!(numbers(&sample), (0..1_000).collect::<Vec<_>>());
    let told = import_again(&sample, &request, false).expect_err("it was not said what to do");
    assert!(told.contains("broken off after row 1000, when 1000 documents were made"), "{told}");
    let dry = TableImport { dry_run: true, ..request.clone() };
    assert_eq!(import_again(&sample, &dry, false), Ok(2_234), "a dry run reads everything");
    import_again(&sample, &resume, true).expect_err("it is broken off again");
    assert_eq!(import_again(&sample, &resume, false), Ok(2_234));
    assert_eq!(numbers(&sample), (0..2_234).collect::<Vec<_>>(), "every row once");
    let told = import_again(&sample, &resume, true).expect_err("it is broken off");
    assert!(told.contains("1000 documents were made before"), "from the first row: {told}");
    assert_eq!(import_again(&sample, &restart, false), Ok(2_234));
    assert_eq!(numbers(&sample).len(), 2_234 + 1_000 + 2_234, "nothing is taken back");
    import_again(&sample, &request, true).expect_err("it is broken off");
    std::fs::write(&request.file, format!("N,M\n{}", rows(9_999))).expect("written");
    let told = import_again(&sample, &resume, false).expect_err("it has changed");
    assert!(told.contains("--restart begins with the first one"), "{told}");
    let input = TableImport { file: "-".into(), ..resume };
    let told = import_again(&sample, &input, false).expect_err("nobody knows what comes");
    assert!(told.contains("wants a file"), "{told}");
}

#[test]
fn a_row_without_end_is_refused_and_those_before_it_are_kept() {
    let rows: String = (0..1_600).map(|row| format!("{row},x\n")).collect();
    let endless = "and so on ".repeat(2 << 20);
    let told = |name: &str, content: &str| {
        let (answer, documents) = check(name, content, |_| {});
        (answer.expect_err("it does not end"), documents.len())
    };
    let (why, count) = told("rows.csv", &format!("N,M\n{rows}1,\"{endless}"));
    assert!(why.contains("a row is longer than 16777216 bytes") && why.contains("--resume"), "{why}");
    assert_eq!(count, 1_500, "what was in a transaction by then");
    let (why, count) = told("rows.jsonl", &format!("{{\"N\":1}}\n{{\"N\":\"{endless}\"}}\n"));
    assert!(why.contains("longer than 16777216 bytes") && count == 0, "{why}");
}

#[test]
fn tables_of_commas_come_back() {
    let sample = Sample::new();
    let new = NewDatabase::new(PATH, "Table", DatabaseKind::Standard, Acl::open_to_all(AclLevel::Reader));
    sample.core.notes.database_create(&new).expect("made");
    let (file, back) = (sample.folder.path().join("in.csv"), sample.folder.path().join("out.csv"));
    std::fs::write(&file, CSV).expect("written");
    let mut report = |_| ControlFlow::Continue(());
    let request = TableImport { path: PATH.to_owned(), file, list_separator: ';', ..TableImport::default() };
    import(&sample.core, &request, &mut report).expect("taken");
    let columns = ["Name", "Height"].map(str::to_owned).to_vec();
    let formula = Some("SELECT Height > 1.77".to_owned());
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), formula, columns, format: None };
    export(&sample.core, &request, &mut report).expect("written");
    let text = std::fs::read_to_string(back).expect("it is there");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "$UNID,Name,Height");
    assert!(lines.len() == 2 && lines[1].ends_with(",Bob,1.8"), "{text}");
}
