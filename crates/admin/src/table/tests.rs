//! Tests of importing tables as documents, and exporting documents as tables.

use std::ops::ControlFlow;
use std::path::PathBuf;

use design::template_catalog::TemplateCatalog;
use notes::{Acl, AclLevel, DatabaseKind, ItemValue, NewDatabase};
use sample::Sample;

use super::super::request::TableExport;
use super::*;

const PATH: &str = "table.nsf";

/// Creates a server with an empty database.
fn with_table() -> Sample {
    let sample = Sample::new();
    let new = NewDatabase::new(PATH, "Table", DatabaseKind::Standard, Acl::open_to_all(AclLevel::Reader));
    sample.instance.databases.database_create(&new).expect("made");
    sample
}

/// Creates a request that imports a file into this database with the defaults of the command line.
fn import_of(file: PathBuf) -> TableImport {
    TableImport { path: PATH.to_owned(), file, list_separator: ';', ..TableImport::default() }
}

/// Imports a file with the given content. Returns the answer, and the documents in exported form.
fn check(name: &str, content: &str, change: impl FnOnce(&mut TableImport)) -> (Result<Answer, String>, Vec<Json>) {
    let sample = with_table();
    let file = sample.folder.path().join(name);
    let back = sample.folder.path().join("back.jsonl");
    std::fs::write(&file, content).expect("written");
    let mut request = import_of(file);
    change(&mut request);
    let mut report = |_| ControlFlow::Continue(());
    let answer = import(&sample.instance, &request, &mut report).map_err(|failure| failure.to_string());
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), ..TableExport::default() };
    export(&sample.instance, &request, &mut report).expect("written");
    let text = std::fs::read_to_string(back).expect("the export exists");
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
    assert_eq!(documents[1].get("Born"), None, "an empty cell creates no item");
}

#[test]
fn json_lines_are_imported_and_invalid_ones_refused() {
    let lines = "{\"Name\":\"Ann\",\"Numbers\":[1,2],\"Sub\":{\"a\":1}}\n{\"Name\":\"Bob\",\"More\":true}\n[]\nzork\n";
    let (answer, documents) = check("people.jsonl", lines, |_| {});
    let answer = answer.expect("taken");
    assert_eq!((answer.data["documents"].clone(), answer.data["refused"].clone()), (json!(2), json!(2)));
    assert_eq!(answer.data["rejected_rows"][0]["row"], json!(3));
    assert!(answer.failure.is_some());
    assert_eq!((&documents[0]["Numbers"], &documents[1]["More"]), (&json!([1.0, 2.0]), &json!(1.0)));
}

#[test]
fn dry_run_reports_documents_without_creating_them() {
    let (answer, documents) = check("people.csv", CSV, |request| request.dry_run = true);
    let answer = answer.expect("read");
    assert_eq!((answer.data["documents"].clone(), documents.len()), (json!(2), 0));
    assert!(answer.messages[0].contains("nothing was changed"), "{:?}", answer.messages);
}

#[test]
fn rows_with_wrong_types_or_field_counts_are_reported() {
    let (answer, documents) = check("people.csv", "Name,Height\nAnn,tall\nBob,1.8\nCarl,1,2\n", |request| {
        request.map = vec!["height=Height:number".to_owned()];
    });
    let answer = answer.expect("taken");
    assert_eq!((documents.len(), answer.data["refused"].clone()), (1, json!(2)));
    assert!(answer.data["rejected_rows"][0]["reason"].as_str().is_some_and(|reason| reason.contains("tall")));
}

#[test]
fn invalid_mapping_is_refused() {
    for (map, expected) in [("Name", "COLUMN=ITEM"), ("Name=x:zork", "types are"), ("Zork=x", "no column")] {
        let (answer, documents) = check("people.csv", CSV, |request| request.map = vec![map.to_owned()]);
        let error = answer.expect_err("refused");
        assert!(error.contains(expected) && documents.is_empty(), "{error}");
    }
}

/// Imports into an existing database. If `stop` is set, cancels the import at the first progress report, while the
/// transaction after that step is pending.
fn import_again(sample: &Sample, request: &TableImport, stop: bool) -> Result<u64, String> {
    let mut report = |_| if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let answer = import(&sample.instance, request, &mut report).map_err(|failure| failure.to_string())?;
    Ok(answer.data["documents"].as_u64().expect("a number"))
}

/// Returns the numbers in the documents, in the order of their creation.
fn numbers(sample: &Sample) -> Vec<usize> {
    let back = sample.folder.path().join("back.jsonl");
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), ..TableExport::default() };
    export(&sample.instance, &request, &mut |_| ControlFlow::Continue(())).expect("written");
    let text = std::fs::read_to_string(back).expect("the export exists");
    let number = |line: &str| serde_json::from_str::<Json>(line).ok()?["N"].as_f64().map(|number| number as usize);
    text.lines().map(|line| number(line).expect("a number")).collect()
}

#[test]
fn resume_continues_an_interrupted_import() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    let rows = |count: usize| (0..count).map(|row| format!("{row},x\n")).collect::<String>();
    std::fs::write(&file, format!("N,M\n{}", rows(2_234))).expect("written");
    let request = import_of(file);
    let resume = TableImport { resume: true, ..request.clone() };
    let restart = TableImport { restart: true, ..request.clone() };
    let failure = import_again(&sample, &request, true).expect_err("it is cancelled");
    assert!(failure.contains("1000 documents were created before that; the same command with --resume"), "{failure}");
    assert_eq!(numbers(&sample), (0..1_000).collect::<Vec<_>>());
    let failure = import_again(&sample, &request, false).expect_err("neither --resume nor --restart is given");
    assert!(failure.contains("interrupted after row 1000, with 1000 documents created"), "{failure}");
    let dry = TableImport { dry_run: true, ..request.clone() };
    assert_eq!(import_again(&sample, &dry, false), Ok(2_234), "a dry run reads everything");
    import_again(&sample, &resume, true).expect_err("it is cancelled again");
    assert_eq!(import_again(&sample, &resume, false), Ok(2_234));
    assert_eq!(numbers(&sample), (0..2_234).collect::<Vec<_>>(), "every row once");
    let failure = import_again(&sample, &resume, false).expect_err("the import is complete");
    assert!(failure.contains("nothing to resume: no import of ") && failure.contains("without --resume"), "{failure}");
    assert_eq!(numbers(&sample).len(), 2_234, "no row creates two documents");
    let failure = import_again(&sample, &request, true).expect_err("it is cancelled");
    assert!(failure.contains("1000 documents were created before that"), "from the first row: {failure}");
    assert_eq!(import_again(&sample, &restart, false), Ok(2_234));
    assert_eq!(numbers(&sample).len(), 2_234 + 1_000 + 2_234, "documents are not deleted");
    import_again(&sample, &request, true).expect_err("it is cancelled");
    std::fs::write(&request.file, format!("N,M\n{}", rows(9_999))).expect("written");
    let failure = import_again(&sample, &resume, false).expect_err("the file has changed");
    assert!(failure.contains("--restart starts again with the first row"), "{failure}");
    let input = TableImport { file: "-".into(), ..resume };
    let failure = import_again(&sample, &input, false).expect_err("standard input cannot be resumed");
    assert!(failure.contains("--resume requires a file"), "{failure}");
}

#[test]
fn late_columns_keep_their_type_across_resumed_imports() {
    let sample = with_table();
    let file = sample.folder.path().join("in.jsonl");
    let late = |number| match number {
        1_100 => ",\"Late\":5",
        1_700 => ",\"Late\":\"6\"",
        _ => "",
    };
    let rows: String = (0..2_000).map(|row| format!("{{\"N\":{row}{}}}\n", late(row))).collect();
    std::fs::write(&file, rows).expect("written");
    let request = import_of(file);
    let resume = TableImport { resume: true, ..request.clone() };
    import_again(&sample, &request, true).expect_err("it is cancelled before the first");
    import_again(&sample, &resume, true).expect_err("it is cancelled between both");
    assert_eq!(numbers(&sample).len(), 1_500);
    assert_eq!(import_again(&sample, &resume, false), Ok(2_000));
    assert_eq!(numbers(&sample).len(), 2_000);
    let text = std::fs::read_to_string(sample.folder.path().join("back.jsonl")).expect("the export exists");
    let found: Vec<&str> = text.lines().filter(|line| line.contains("Late")).collect();
    assert!(found.len() == 2 && found[0].contains("\"Late\":5.0") && found[1].contains("\"Late\":6.0"), "{found:?}");
}

#[test]
fn unterminated_row_is_refused_and_earlier_rows_are_imported() {
    let rows = |range: std::ops::Range<u32>| range.map(|row| format!("{row},x\n")).collect::<String>();
    let before = rows(1..501);
    let endless = "and so on ".repeat(2 << 20);
    let long = format!("{before}501,{endless}\n");
    let cases = [
        // Within the sampled rows, and after them.
        (format!("{before}501,\"x\n{}", rows(502..3_001)), 500, "a quote opens in line 502 and is never closed"),
        (format!("{}1601,\"x\n", rows(1..1_601)), 1_600, "a quote opens in line 1602 and is never closed"),
        (format!("{before}\"a \"\"b\"\"\"\"\n1,x\n"), 500, "a quote opens in line 502 and is never closed"),
        (format!("{before}\"a\nb\",\"\r\n"), 500, "a quote opens in line 503 and is never closed"),
        (format!("{before}501,\"{endless}"), 500, "a quote opens in line 502 and is not closed within 16777216 bytes"),
        (long, 500, "it is longer than 16777216 bytes"),
    ];
    for (content, count, expected) in cases {
        for is_dry in [true, false] {
            let (answer, documents) = check("rows.csv", &format!("N,M\n{content}"), |request| request.dry_run = is_dry);
            let answer = answer.expect("those before are taken");
            let reason = format!("{expected}; the rest of the file was not read");
            assert_eq!(answer.data["rejected_rows"], json!([{"row": count + 1, "reason": reason}]));
            assert_eq!((&answer.data["documents"], &answer.data["refused"]), (&json!(count), &json!(1)));
            assert_eq!(answer.data["unread_from_row"], json!(count + 1));
            let failure = answer.failure.expect("the command fails");
            let summary = format!("row {} and everything after it was not read: {expected}", count + 1);
            assert!(failure.starts_with(&summary) && failure.contains("--resume") != is_dry, "{failure}");
            assert_eq!(documents.len(), if is_dry { 0 } else { count });
        }
    }
    let (answer, _) = check("rows.csv", "N,\"M\n1,2\n", |_| {});
    assert!(answer.expect_err("no column is known").contains("the first row has no end: a quote opens in line 1"));
}

#[test]
fn closed_quotes_are_accepted() {
    let content = "N,M\n1,\"\"\n2,\"a \"\"b\"\"\"\n3,5\" x\n4,\"a\r\n\"\"\"\r\n5,\"\"\"\"";
    let (answer, documents) = check("rows.csv", content, |_| {});
    let answer = answer.expect("taken");
    assert_eq!((documents.len(), &answer.data["refused"], answer.failure), (5, &json!(0), None));
    let texts: Vec<&str> = documents.iter().map(|document| document["M"].as_str().unwrap_or_default()).collect();
    assert_eq!(texts, ["", "a \"b\"", "5\" x", "a\r\n\"", "\""]);
}

#[test]
fn import_resumes_after_a_quote_is_closed() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    std::fs::write(&file, "N,M\n0,x\n1,\"x\n2,x\n").expect("written");
    let request = import_of(file);
    assert_eq!(import_again(&sample, &request, false), Ok(1));
    std::fs::write(&request.file, "N,M\n0,x\n1,x\n2,x\n").expect("written");
    let failure = import_again(&sample, &request, false).expect_err("neither --resume nor --restart is given");
    assert!(failure.contains("interrupted after row 1, with 1 document created"), "{failure}");
    let resume = TableImport { resume: true, ..request };
    assert_eq!(import_again(&sample, &resume, false), Ok(3));
    assert_eq!(numbers(&sample), [0, 1, 2]);
}

#[test]
fn rows_with_wrong_field_counts_are_refused() {
    for is_dry in [true, false] {
        let (answer, documents) =
            check("rows.csv", "A,B,C\n1,2,3\n1,2\n\n1\n1,2,3,4\n,,\n", |request| request.dry_run = is_dry);
        let answer = answer.expect("the others are taken");
        let rejected_row = |row: u64, count: u64| {
            let fields = if count == 1 { "1 field" } else { &format!("{count} fields") };
            let hint = if count < 3 { " (--short-rows accepts rows with too few fields)" } else { "" };
            json!({"row": row, "reason": format!("it has {fields} instead of 3{hint}")})
        };
        assert_eq!(answer.data["rejected_rows"], json!([rejected_row(2, 2), rejected_row(3, 1), rejected_row(4, 4)]));
        assert_eq!((&answer.data["documents"], documents.len()), (&json!(2), if is_dry { 0 } else { 2 }));
    }
}

#[test]
fn short_rows_option_accepts_missing_fields() {
    let (answer, documents) = check("rows.csv", "A,B,C\n1,2\n1\n1,2,3,4\n1,2,3\n", |request| request.short_rows = true);
    let answer = answer.expect("the others are taken");
    assert_eq!(answer.data["rejected_rows"], json!([{"row": 3, "reason": "it has 4 fields instead of 3"}]));
    let values = |name: &str| documents.iter().map(|document| document.get(name).cloned()).collect::<Vec<_>>();
    assert_eq!(values("B"), [Some(json!(2.0)), None, Some(json!(2.0))]);
    assert_eq!(values("C"), [None, None, Some(json!(3.0))]);
}

#[test]
fn numbers_that_would_lose_digits_become_text() {
    let lines = "{\"A\":224436.00250646658,\"Card\":1234567890123456789}\n{\"A\":-120715.95101781131,\"Card\":5}\n";
    let (answer, documents) = check("rows.jsonl", lines, |_| {});
    answer.expect("taken");
    assert_eq!(
        (&documents[0]["A"], &documents[1]["A"]),
        (&json!(224_436.002_506_466_58), &json!(-120_715.951_017_811_31))
    );
    assert_eq!(documents[0]["Card"], json!("1234567890123456789"));
    let (_, documents) = check("rows.csv", "Card,Sum\n9007199254740993,123456789012345\n", |_| {});
    assert_eq!(
        (&documents[0]["Card"], &documents[0]["Sum"]),
        (&json!("9007199254740993"), &json!(123_456_789_012_345.0))
    );
}

#[test]
fn empty_values_keep_their_position_in_text_lists() {
    let (_, documents) = check("rows.jsonl", "{\"L\":[\"x\",\"\",\"z\"],\"N\":[\"\",\"\"]}\n", |_| {});
    assert_eq!((&documents[0]["L"], documents[0].get("N")), (&json!(["x", "", "z"]), None));
    let (_, documents) = check("rows.csv", "L\na;;b\n", |request| request.map = vec!["L=L:text-list".to_owned()]);
    assert_eq!(documents[0]["L"], json!(["a", "", "b"]));
}

#[test]
fn mapping_to_response_reference_is_refused() {
    let (answer, documents) = check("rows.csv", "Name\nx\n", |request| request.map = vec!["Name=$ref".to_owned()]);
    let answer = answer.expect("an answer");
    assert!(
        answer.data["rejected_rows"][0]["reason"].as_str().is_some_and(|reason| reason.contains("$REF")),
        "{:?}",
        answer.data
    );
    assert!(documents.is_empty());
}

#[test]
fn links_and_pipes_are_refused_at_once() {
    let sample = with_table();
    let path = |name: &str| sample.folder.path().join(name);
    std::fs::write(path("rows.csv"), "N\n1\n").expect("written");
    std::os::unix::fs::symlink(path("rows.csv"), path("link.csv")).expect("written");
    let made = std::process::Command::new("mkfifo").arg(path("pipe.csv")).status().expect("a part of coreutils");
    assert!(made.success());
    for name in ["link.csv", "pipe.csv"] {
        let failure = import_again(&sample, &import_of(path(name)), false).expect_err("it is no regular file");
        assert!(failure.contains("not a regular file; links, pipes and devices are not read"), "{name}: {failure}");
    }
    assert_eq!(import_again(&sample, &import_of(path("rows.csv")), false), Ok(1));
}

#[test]
fn import_is_refused_while_running_and_for_system_databases() {
    let sample = with_table();
    let file = sample.folder.path().join("rows.csv");
    let rows: String = (0..2_000).map(|row| format!("{row}\n")).collect();
    std::fs::write(&file, format!("N\n{rows}")).expect("written");
    let request = import_of(file);
    let resume = TableImport { resume: true, ..request.clone() };
    let mut failures = Vec::new();
    let mut report = |_| {
        failures.push(
            import(&sample.instance, &resume, &mut |_| ControlFlow::Continue(())).expect_err("it runs").to_string(),
        );
        ControlFlow::Continue(())
    };
    import(&sample.instance, &request, &mut report).expect("taken");
    assert!(!failures.is_empty() && failures.iter().all(|failure| failure.contains("is running")), "{failures:?}");
    let system = TableImport { path: "names.nsf".to_owned(), ..request };
    let refused =
        import(&sample.instance, &system, &mut |_| ControlFlow::Continue(())).expect_err("it has its own commands");
    assert!(refused.to_string().contains("`doublet user`"), "{refused}");
}

#[test]
fn delimiter_option_overrides_detection() {
    let (answer, documents) = check("rows.csv", "A,B;C\n1,5;2\n", |request| request.delimiter = Some(';'));
    answer.expect("taken");
    assert_eq!((&documents[0]["A,B"], &documents[0]["C"]), (&json!("1,5"), &json!(2.0)));
    for delimiter in ['"', '\n', 'é'] {
        let (answer, _) = check("rows.csv", "A;B\n1;2\n", |request| request.delimiter = Some(delimiter));
        assert!(answer.expect_err("it cannot").contains("cannot be a delimiter"));
    }
}

#[test]
fn delimiter_is_detected_and_reported() {
    for (content, expected) in [
        ("A;B\n1;\"x;y\"\n", Some("Fields were separated by ';', as detected in the first line")),
        ("\u{feff}\"A\"\tB\n1\tx;y\n", Some("Fields were separated by tabs, as detected in the first line")),
        ("\nA|B\n1|x;y\n", Some("Fields were separated by '|', as detected in the first line")),
        ("A,\"B\"\n1,x;y\n", None),
    ] {
        let (answer, documents) = check("rows.csv", content, |_| {});
        let answer = answer.expect("taken");
        assert_eq!((&documents[0]["A"], &documents[0]["B"]), (&json!(1.0), &json!("x;y")), "{content:?}");
        let sentence = answer.messages.iter().find(|sentence| sentence.contains("Fields were separated"));
        assert_eq!(sentence.map(|sentence| sentence.split("; ").next().unwrap_or_default()), expected);
    }
    let (_, documents) = check("rows.csv", "\"a;b;c\",B\n1,2\n", |_| {});
    assert_eq!(documents[0]["a;b;c"], json!(1.0), "delimiters in quotes do not count");
}

#[test]
fn invalid_utf8_is_reported_with_row_and_column() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    let request = import_of(file);
    let import_bytes = |content: &[u8]| {
        std::fs::write(&request.file, content).expect("written");
        import(&sample.instance, &request, &mut |_| ControlFlow::Continue(())).map_err(|failure| failure.to_string())
    };
    let error = import_bytes(b"A,\x8F\x02\xFF,C\n").expect_err("no column is known");
    assert!(error.contains("the first row cannot be read: column 2 (line 1) is not UTF-8 text"), "{error}");
    let refusals = import_bytes(b"A,B\n1,x\n2,K\xF6ln\n").expect("the others are taken").data["rejected_rows"].clone();
    let reason = refusals[0]["reason"].as_str().expect("a text");
    assert!(refusals[0]["row"] == 2 && reason.starts_with("column \"B\" (line 3) is not UTF-8 text"), "{reason}");
}

#[test]
fn overlong_json_line_is_refused_alone() {
    let endless = "and so on ".repeat(2 << 20);
    let lines = format!("{{\"N\":1}}\n{{\"N\":\"{endless}\"}}\n{{\"N\":3}}\n");
    let (answer, documents) = check("rows.jsonl", &lines, |_| {});
    let refusals = answer.expect("where the next line begins is known").data["rejected_rows"].clone();
    assert_eq!(refusals, json!([{"row": 2, "reason": "it is longer than 16777216 bytes"}]));
    assert_eq!((documents.len(), &documents[1]["N"]), (2, &json!(3.0)));
}

/// Returns as many rows of JSON lines as an import samples, so that later rows are not sampled.
fn first_lines() -> String {
    (1..=1_000).map(|number| format!("{{\"N\":{number}}}\n")).collect()
}

#[test]
fn late_columns_are_imported_and_reported() {
    let late = "{\"N\":1001,\"Born\":\"2024-05-06\",\"Later\":null}\n\
                {\"Tags\":[\"a\",\"b\"],\"Sub\":{\"a\":1},\"Later\":7,\"$Own\":1}\n";
    let content = first_lines() + late;
    for is_dry in [false, true] {
        let (answer, documents) = check("rows.jsonl", &content, |request| request.dry_run = is_dry);
        let answer = answer.expect("taken");
        let column = |column: &Json| {
            let field = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
            (field("column"), field("type"), column["first_row"].as_u64())
        };
        let found: Vec<_> = answer.data["columns"].as_array().expect("columns").iter().map(column).collect();
        let expected = [
            ("N", "number", None),
            ("Born", "time", Some(1_001)),
            ("Tags", "text-list", Some(1_002)),
            ("Sub", "text", Some(1_002)),
            ("Later", "number", Some(1_002)),
            ("$Own", "", Some(1_002)),
        ];
        assert_eq!(found, expected.map(|(name, kind, row)| (name.to_owned(), kind.to_owned(), row)));
        assert_eq!(answer.messages[0], "Column \"Born\" first occurs in row 1001; its type is time.");
        assert_eq!(answer.messages[4], "Column \"$Own\" first occurs in row 1002; it is left out.");
        assert!(answer.messages[5].starts_with("1002 ") && answer.data["refused"] == 0, "{:?}", answer.messages);
        if !is_dry {
            assert_eq!(documents[1_000]["Born"], json!("2024-05-06T00:00:00Z"));
            let last = &documents[1_001];
            assert_eq!((&last["Tags"], &last["Sub"]), (&json!(["a", "b"]), &json!("{\"a\":1}")));
            assert_eq!((&last["Later"], last.get("$Own")), (&json!(7.0), None));
        }
    }
}

#[test]
fn mappings_apply_to_late_columns() {
    let content = first_lines() + "{\"Late\":1,\"Other\":2}\n{\"LATE\":3}\n";
    let mapped = |map: &str| {
        let map = map.split(' ').map(str::to_owned).collect();
        let (answer, documents) = check("rows.jsonl", &content, |request| request.map = map);
        answer.map(|_| documents[1_000].clone())
    };
    assert_eq!(mapped("late=Kept:text").expect("there is such a column")["Kept"], json!("1"));
    let document = mapped("Late=").expect("there is such a column");
    assert_eq!((document.get("Late"), &document["Other"]), (None, &json!(2.0)));
    let document = mapped("Late=A Other=B").expect("both are in one row");
    assert_eq!((&document["A"], &document["B"]), (&json!(1.0), &json!(2.0)));
    assert_eq!(mapped("Zork=").expect_err("refused"), "the file has no column \"Zork\"");
}

#[test]
fn column_count_and_name_length_are_limited() {
    let fields =
        |range: std::ops::Range<usize>| range.map(|number| format!("\"C{number}\":1")).collect::<Vec<_>>().join(",");
    let some = fields(0..990);
    let more = fields(990..1_000);
    let long = "x".repeat(256);
    let late = format!("{{{some}}}\n{{{more}}}\n{{\"{long}\":1}}\n{{\"C990\":5}}\n");
    let (answer, documents) = check("rows.jsonl", &(first_lines() + &late), |_| {});
    let answer = answer.expect("the others are taken");
    let rejected_rows: Vec<_> =
        answer.data["rejected_rows"].as_array().expect("a list").iter().map(|one| one.to_string()).collect();
    assert!(
        rejected_rows[0].contains("1002") && rejected_rows[0].contains("\\\"C999\\\" exceeds the limit of 1000"),
        "{rejected_rows:?}"
    );
    assert!(
        rejected_rows[1].contains("1003") && rejected_rows[1].contains("more than 255 bytes; --map gives it another"),
        "{rejected_rows:?}"
    );
    assert_eq!((rejected_rows.len(), documents.len(), &documents[1_001]["C990"]), (2, 1_002, &json!(5.0)));
    assert_eq!(answer.messages[10], "981 more occur after the examined rows.");
}

#[test]
fn rows_beyond_document_limits_are_refused_alone() {
    let list = "0,".repeat(1_000_000);
    let text = "x".repeat((16 << 20) - 20);
    let rows = [
        "{\"N\":1}".to_owned(),
        format!("{{\"{}\":1}}", "x".repeat(256)),
        format!("{{\"L\":[{list}0]}}"),
        format!("{{\"T\":\"{text}\"}}"),
        "{\"N\":5}".to_owned(),
    ];
    for is_dry in [true, false] {
        let (answer, documents) = check("rows.jsonl", &rows.join("\n"), |request| {
            request.form = Some("A name of some length".to_owned());
            request.dry_run = is_dry;
        });
        let data = answer.expect("the others are taken").data;
        let refusals = data["rejected_rows"].as_array().expect("a list");
        let refused: Vec<_> =
            refusals.iter().map(|one| (one["row"].as_u64(), one["reason"].as_str().unwrap())).collect();
        assert!(refused[0].1.starts_with("column \"xxx") && refused[0].1.len() < 300, "{}", refused[0].1);
        let limit = |max: usize, what: &str| format!("limit exceeded: at most {max} {what}");
        let expected = [(3, limit(1_000_000, "values of an item"))];
        assert_eq!(refused[1..2], expected.each_ref().map(|(row, reason)| (Some(*row), reason.as_str())));
        let expected = [(4, limit(16 << 20, "bytes of the summary items of a note"))];
        assert_eq!(refused[2..], expected.each_ref().map(|(row, reason)| (Some(*row), reason.as_str())));
        assert_eq!((&data["documents"], documents.len()), (&json!(2), if is_dry { 0 } else { 2 }));
    }
}

#[test]
fn csv_export_applies_formula_and_columns() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    let back = sample.folder.path().join("out.csv");
    std::fs::write(&file, CSV).expect("written");
    let mut report = |_| ControlFlow::Continue(());
    let request = import_of(file);
    import(&sample.instance, &request, &mut report).expect("taken");
    let columns = ["Name", "Height"].map(str::to_owned).to_vec();
    let formula = Some("SELECT Height > 1.77".to_owned());
    let request = TableExport { path: PATH.to_owned(), file: back.clone(), formula, columns, format: None };
    export(&sample.instance, &request, &mut report).expect("written");
    let text = std::fs::read_to_string(back).expect("the export exists");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "$UNID,Name,Height");
    assert!(lines.len() == 2 && lines[1].ends_with(",Bob,1.8"), "{text}");
}

/// Creates a database with these documents and exports it to a file of the given name. Returns the answer and the
/// file's content.
fn exported(documents: Vec<Vec<Item>>, name: &str, change: impl FnOnce(&mut TableExport)) -> (Answer, String) {
    let sample = with_table();
    let access: Access<level::Depositor> = open(&sample.instance, PATH).expect("the server has access").downgrade();
    let accesses = [&access];
    let mut transaction = sample.instance.databases.transaction(&accesses).expect("it begins");
    for items in documents {
        transaction.writer(0).note_create(NewNote::document(items)).expect("made");
    }
    transaction.commit().expect("committed");
    let file = sample.folder.path().join(name);
    let mut request = TableExport { path: PATH.to_owned(), file: file.clone(), ..TableExport::default() };
    change(&mut request);
    let answer = export(&sample.instance, &request, &mut |_| ControlFlow::Continue(())).expect("written");
    (answer, std::fs::read_to_string(file).expect("the export exists"))
}

fn line(text: &str) -> Json {
    serde_json::from_str(text.lines().next().expect("a line")).expect("JSON")
}

#[test]
fn rich_text_round_trips() {
    let large = format!("<p>{}</p>", "rich ".repeat(500_000));
    let content = format!("{{\"Name\":\"Ann\",\"Body\":\"{large}\"}}\n{{\"Name\":\"Bob\"}}\n");
    let (answer, documents) =
        check("rows.jsonl", &content, |request| request.map = vec!["Body=Body:rich-text".to_owned()]);
    assert!(answer.is_ok() && documents[0]["Body"] == json!(large), "longer than a stored piece");
    assert_eq!(documents[1].get("Body"), None);
    let documents =
        || vec![vec![Item::text("Name", "Ann"), Item::body("Body", ItemValue::RichText("<b>a, \"b\"</b>".to_owned()))]];
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (selected, expected) in [
        (columns(&["body"]), "$UNID,body\n_,\"<b>a, \"\"b\"\"</b>\"\n"),
        (columns(&["Name"]), "$UNID,Name\n_,Ann\n"),
        (Vec::new(), "$UNID,Name,Body\n_,Ann,\"<b>a, \"\"b\"\"</b>\"\n"),
    ] {
        let (_, text) = exported(documents(), "out.csv", |request| request.columns = selected);
        let unid = text.lines().nth(1).and_then(|line| line.split(',').next()).expect("a row").to_owned();
        assert_eq!(text.replace(&unid, "_"), expected);
    }
    let (_, text) = exported(documents(), "out.jsonl", |request| request.columns = columns(&["Name"]));
    assert_eq!((&line(&text)["Name"], line(&text).get("Body")), (&json!("Ann"), None), "only the requested columns");
}

#[test]
fn items_with_one_name_are_exported_as_list() {
    let documents = || {
        let rich = |text: &str| Item::body("Body", ItemValue::RichText(text.to_owned()));
        let number = |name: &str, value: ItemValue| Item::summary(name, value);
        vec![vec![
            number("N", ItemValue::Number(1.0)),
            Item::text("Name", "Ann"),
            number("n", ItemValue::NumberList(vec![2.0, 3.0])),
            rich("<b>a</b>"),
            rich("<b>c</b>"),
        ]]
    };
    let (_, text) = exported(documents(), "out.jsonl", |_| {});
    let object = line(&text);
    assert_eq!((&object["N"], &object["Body"]), (&json!([1.0, 2.0, 3.0]), &json!(["<b>a</b>", "<b>c</b>"])));
    assert_eq!(object.get("n"), None);
    let (_, text) = exported(documents(), "out.csv", |_| {});
    let rest = text.lines().nth(1).and_then(|line| line.split_once(',')).expect("a row").1;
    assert_eq!(rest, "1.0;2.0;3.0,Ann,<b>a</b>;<b>c</b>");
}

#[test]
fn export_reports_omitted_values() {
    let documents = || {
        let part = Item::body("Part", ItemValue::MimePart(vec![0xFF]));
        let at = Item::summary("At", ItemValue::Time(base::Timestamp(1_500_000)));
        let number = |number: f64| Item::summary("N", ItemValue::Number(number));
        vec![vec![number(1.0), part, at], vec![number(2.0)], vec![number(f64::NAN)]]
    };
    let (answer, text) = exported(documents(), "out.jsonl", |_| {});
    assert_eq!((&answer.data["documents"], &answer.data["values_left_out"]), (&json!(3), &json!(2)));
    assert!(answer.messages[1].starts_with("2 values have no text form"), "{:?}", answer.messages);
    assert_eq!((&line(&text)["Part"], &line(&text)["At"]), (&Json::Null, &json!("1970-01-01T00:00:01.500000Z")));
    let (answer, text) = exported(documents(), "out.jsonl", |request| {
        request.formula = Some("SELECT @If(N = 2; @While(1; 1); N = 1)".to_owned());
        request.columns = vec!["N".to_owned()];
    });
    assert_eq!((text.lines().count(), &answer.data["documents_left_out"]), (1, &json!(1)));
    assert_eq!(answer.data["values_left_out"], json!(0), "the part was not requested");
    assert!(answer.failure.is_some_and(|failure| failure.contains("1 document was left out")));
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns documents with items whose values do not show their types.
fn guarded() -> Vec<Vec<Item>> {
    let mut from = Item::text("From", "Bob");
    from.flags = from.flags.union(notes::ItemFlags::NAMES);
    vec![
        vec![
            Item::text("Name", "Ann"),
            Item::readers("Who", names(&["CN=Ann/O=Example", "[Staff]"])),
            Item::authors("Editors", names(&["CN=Ann/O=Example"])),
            from,
            Item::body("Body", ItemValue::RichText("<b>x</b>".to_owned())),
        ],
        vec![Item::text("Name", "Bob"), Item::text("Who", "nobody in particular")],
    ]
}

#[test]
fn json_export_preserves_readers_and_item_types() {
    let (_, text) = exported(guarded(), "out.jsonl", |_| {});
    let types = json!({"Body": "rich-text", "Editors": "authors", "From": "names", "Who": "readers"});
    assert_eq!(line(&text)["$TYPES"], types);
    assert_eq!(text.matches("$TYPES").count(), 1, "types that values show are omitted");
    let (answer, documents) = check("rows.jsonl", &text, |_| {});
    let answer = answer.expect("taken");
    assert_eq!(documents[0]["$TYPES"], types);
    assert_eq!(documents[0]["Who"], json!(["CN=Ann/O=Example", "[Staff]"]));
    assert_eq!((&documents[1]["Who"], documents[1].get("$TYPES")), (&json!(["nobody in particular"]), None));
    let columns = answer.data["columns"].as_array().expect("columns");
    let who = columns.iter().find(|column| column["column"] == "Who").expect("the column exists");
    assert_eq!((&who["type"], &who["type_from"]), (&json!("readers"), &json!("the file")));
    assert!(!columns.iter().any(|column| column["column"] == "$TYPES"), "it is no column");
    let warnings = answer.data["warnings"].to_string();
    assert!(warnings.contains("Documents get new UNIDs") && !warnings.contains("restrict"), "{warnings}");
    let (_, documents) = check("rows.jsonl", &text, |request| request.map = names(&["Who=Who:text-list"]));
    assert_eq!(documents[0]["$TYPES"].get("Who"), None, "the mapping takes precedence");
    let wrong = "{\"Who\":\"a\",\"$TYPES\":{\"Who\":\"owner\"}}\n{\"Who\":\"a\",\"$TYPES\":7}\n";
    let (answer, documents) = check("rows.jsonl", wrong, |_| {});
    let refusals = answer.expect("read").data["rejected_rows"].clone();
    assert_eq!(refusals[0]["reason"], json!("$TYPES: \"\\\"owner\\\"\" is not a valid type for column \"Who\""));
    assert_eq!((&refusals[1]["reason"], documents.len()), (&json!("$TYPES is not an object"), 0));
}

#[test]
fn csv_export_reports_mappings_that_restore_types() {
    let (answer, text) = exported(guarded(), "out.csv", |_| {});
    let hint = answer.messages.iter().find(|line| line.contains("CSV does not record the types")).expect("a hint");
    let maps = ["Body=Body:rich-text", "Editors=Editors:authors", "From=From:names", "Who=Who:readers"];
    for map in maps {
        assert!(hint.contains(&format!("--map '{map}'")), "{hint}");
    }
    let (answer, documents) = check("rows.csv", &text, |request| request.map = names(&maps));
    answer.expect("taken");
    assert_eq!(documents[0]["Who"], json!(["CN=Ann/O=Example", "[Staff]"]));
    assert_eq!(documents[0]["$TYPES"]["Who"], json!("readers"));
    let (answer, text) = exported(guarded(), "out.csv", |request| request.columns = names(&["Name"]));
    assert!(text.starts_with("$UNID,Name\n") && answer.messages.len() == 1, "{:?}", answer.messages);
}

#[test]
fn mapping_unid_keeps_the_unids_of_the_file() {
    let unid = |number: u32| format!("{number:032X}");
    let mut rows: String = (1..=700).map(|number| format!("{},{number}\n", unid(number))).collect();
    rows.push_str(&format!("{},1\nzork,2\n,3\n00{}00000000000000000000,4\n", unid(5), "70726F6600"));
    let content = format!("$UNID,N\n{rows}");
    for is_dry in [true, false] {
        let (answer, documents) = check("rows.csv", &content, |request| {
            request.map = names(&["$UNID=$UNID"]);
            request.dry_run = is_dry;
        });
        let data = answer.expect("the others are taken").data;
        let refusals = data["rejected_rows"].as_array().expect("a list");
        let reasons: Vec<&str> = refusals.iter().filter_map(|one| one["reason"].as_str()).collect();
        assert_eq!(reasons[0], format!("a document with the UNID {} already exists", unid(5)));
        assert_eq!(reasons[1], "column \"$UNID\": \"zork\" is not a UNID of 32 hexadecimal digits");
        assert!(reasons[2].ends_with("is reserved for profile documents"), "{reasons:?}");
        assert_eq!((reasons.len(), &data["documents"]), (3, &json!(701)));
        assert!(!data["warnings"].to_string().contains("UNID"), "{data}");
        if !is_dry {
            let number = |document: &Json| document["N"].as_f64() == Some(700.0);
            let found = documents.iter().find(|document| number(document)).expect("the document exists");
            assert_eq!(found["$UNID"], json!(unid(700)));
        }
    }
    let (_, documents) = check("rows.csv", &format!("$UNID,N\n{},1\n", unid(5)), |_| {});
    assert_ne!(documents[0]["$UNID"], json!(unid(5)), "the mapping was not requested");
}

#[test]
fn empty_lines_are_skipped() {
    let (answer, documents) = check("rows.jsonl", "\n{\"N\":1}\n\r\n  \n{\"N\":2}\n{\"N\":\n\n", |_| {});
    let refusals = answer.expect("taken").data["rejected_rows"].clone();
    let reason = "it is not valid JSON: EOF while parsing a value (byte 5 of the line)";
    assert!(refusals == json!([{"row": 3, "reason": reason}]) && documents.len() == 2, "{refusals}");
}

#[test]
fn import_warns_of_questionable_columns() {
    let check = |name: &str, content: &str, map: &[&str], expected: &[&str]| {
        let (answer, _) = check(name, content, |request| request.map = names(map));
        let warnings = answer.expect("taken").data["warnings"].clone();
        assert_eq!(warnings, json!(expected), "{content}");
    };
    let object = "Column \"Sub\" contains objects, first in row 2; they become their JSON text.";
    check("rows.jsonl", "{\"Sub\":null}\n{\"Sub\":[{\"a\":1}]}\n{\"Sub\":{}}\n", &[], &[object]);
    let nameless = "A column has no name and is left out; --map '=ITEM' names an item for it.";
    check("rows.jsonl", "{\"N\":1,\"\":2}\n", &[], &[nameless]);
    check("rows.csv", "N,\n1,2\n", &[], &[nameless]);
    check("rows.csv", "N,\n1,2\n", &["=M"], &[]);
    let formula = |name: &str, better: &str| {
        format!("Formulas cannot refer to the item {name:?}; --map '{name}={better}' gives it another name.")
    };
    let on = formula("Created On", "Created_On");
    let price = formula("Price €", "Price");
    let select = formula("Select", "Item_Select");
    check("rows.csv", "Created On,Price €,Select,Größe_1\n1,2,3,4\n", &[], &[&on, &price, &select]);
    let twins = "Columns 1 and 3 both become \"name\": each document gets two items of that name.";
    check("rows.csv", "Name,N,name\na,1,b\n", &[], &[twins]);
    check("rows.csv", "Name,N,name\na,1,b\n", &["Name="], &[]);
    let looks = |what: &str| format!("Column \"P\" is imported as text. It looks like {what}.");
    let numbers =
        looks("numbers, such as \"1.234,50\"; only numbers with a decimal point, such as 12.5, are recognized");
    check("rows.csv", "P;N\n7;1\n1.234,50;2\n;3\n-1,5;4\n", &[], &[&numbers]);
    let thousands =
        looks("numbers, such as \"1,234,567.5\"; only numbers with a decimal point, such as 12.5, are recognized");
    check("rows.csv", "P;N\n1,234,567.5;1\n", &[], &[&thousands]);
    check("rows.csv", "P;N\n1,2,3;1\n", &[], &[]);
    for date in ["31.12.2020", "12/31/2020", "1-2-20", "31.12.2020 23:59"] {
        let dates = looks(&format!("dates, such as {date:?}; only dates written as 2024-12-31 are recognized"));
        check("rows.csv", &format!("P,N\n{date},1\n"), &[], &[&dates]);
        check("rows.csv", &format!("P,N\n{date},1\nelse,2\n"), &[], &[]);
        check("rows.csv", &format!("P,N\n{date},1\n"), &["P=P:text"], &[]);
    }
    let rights = "Column \"DocReaders\" becomes text and does not restrict who can read a document; \
                  --map 'DocReaders=DocReaders:readers' makes it an item that does.";
    check("rows.csv", "DocReaders,N\nAnn,1\n", &[], &[rights]);
    check("rows.csv", "DocReaders,N\nAnn,1\n", &["DocReaders=DocReaders:readers"], &[]);
    let left = "Columns \"$UNID\", \"$REF\" are left out because their names begin with $; --map can name items for them. \
                Documents get new UNIDs; --map '$UNID=$UNID' keeps those of the file. No document becomes a response.";
    check("rows.csv", "$UNID,$REF,N\n1,2,3\n", &[], &[left]);
    let many: Vec<String> = (0..12).map(|number| format!("A {number}")).collect();
    let (answer, _) = super::tests::check("rows.csv", &format!("{0}\n{0}\n", many.join(",")), |_| {});
    let warnings = answer.expect("taken").data["warnings"].clone();
    assert_eq!(warnings[10], json!("The same applies to 2 more columns."));
}

#[test]
fn import_warns_of_unknown_form() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    std::fs::write(&file, "N,M\n0,x\n").expect("written");
    let warnings = |form: &str| {
        let form = Some(form.to_owned());
        let path = PATH.to_owned();
        let file = file.clone();
        let request = TableImport { path, file, form, list_separator: ';', ..TableImport::default() };
        let answer = import(&sample.instance, &request, &mut |_| ControlFlow::Continue(())).expect("taken");
        answer.data["warnings"].clone()
    };
    assert_eq!(warnings("Nope"), json!([]), "there are no forms");
    let access = open(&sample.instance, PATH).expect("the server has access");
    let template = TemplateCatalog::of_data_folder(&sample.instance.data).find_or_error("log").expect("there");
    template.apply(&sample.instance.databases, &access).expect("applied");
    let warning = warnings("Event").to_string();
    assert!(!warning.contains("has no form"), "{warning}");
    let warning = warnings("Nope")[0].as_str().expect("a text").to_owned();
    assert!(
        warning.starts_with("table.nsf has no form \"Nope\"; its forms are ") && warning.contains("\"Event\""),
        "{warning}"
    );
}

#[test]
fn import_warns_of_columns_that_no_view_shows() {
    let sample = with_table();
    let file = sample.folder.path().join("in.csv");
    let answer = |content: &str, map: &[&str]| {
        std::fs::write(&file, content).expect("written");
        let request = TableImport { dry_run: true, map: names(map), ..import_of(file.clone()) };
        import(&sample.instance, &request, &mut |_| ControlFlow::Continue(())).expect("read")
    };
    let check = |content: &str, map: &[&str], expected: &[&str]| {
        assert_eq!(answer(content, map).data["warnings"], json!(expected), "{content}");
    };
    check("Title\nx\n", &[], &[]);
    let template =
        TemplateCatalog::of_data_folder(&sample.instance.data).find_or_error("discussion").expect("supplied");
    template
        .apply(&sample.instance.databases, &open(&sample.instance, PATH).expect("the server has access"))
        .expect("applied");

    let of_title = "--map 'Title=Subject' makes column \"Title\" the item Subject, which views show.";
    check("Form,Title\nTopic,x\n", &[], &["No view shows column \"Title\".", of_title]);
    check("Form,Title\nTopic,x\n", &["Title=Subject"], &[]);
    check("Form,Title\nTopic,x\n", &["Title="], &[]);
    check("Form,Subject,Text\nTopic,x,y\n", &["Text=Body:rich-text"], &[]);
    let of_category = "--map 'category=Categories' makes column \"category\" the item Categories, which views show.";
    let both = ["No view shows columns \"Title\", \"category\".", of_title, of_category];
    check("Title,category\nx,y\n", &[], &both);
    let others = "Views show \"Categories\", \"Subject\", which no column becomes; --map 'COLUMN=ITEM' assigns one.";
    check("City\nx\n", &[], &["No view shows column \"City\".", others]);
    check("City,Subject,Categories\nx,y,z\n", &[], &["No view shows column \"City\"."]);
    let columns = answer("Form,Title,Subject,$X\na,b,c,d\n", &[]).data["columns"].clone();
    let in_views: Vec<&Json> = columns.as_array().expect("a list").iter().map(|column| &column["in_views"]).collect();
    assert_eq!(in_views, [&json!(true), &json!(false), &json!(true), &Json::Null]);
}
