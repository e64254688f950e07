//! Tests of a large table import through a server that is killed in the middle, and of its export.
//!
//! The short form uses 20,000 rows, the long one (`DOUBLET_SOAK=1`) a million. The test prints the rows per second and
//! the peak memory of the server.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::Stdio;

use base::Clock;
use instance::system::SystemClock;

use crate::{Server, TestFolder};

const PATH: &str = "table.nsf";

const COLUMNS: [&str; 8] = ["Number", "Name", "City", "Born", "Amount", "Tags", "Remark", "Code"];

/// Maximum peak memory of the server. Its caches and write buffers are bounded by 450 MiB (`docs/store-format.md`).
const RESIDENT_KIB_MAX: u64 = 800 << 10;

/// Returns the number of rows: a million in the long form.
fn row_count() -> u64 {
    if std::env::var_os("DOUBLET_SOAK").is_some() { 1_000_000 } else { 20_000 }
}

/// Returns the fields of a row as they are imported, and as an export writes them.
fn row(number: u64) -> ([String; 8], [String; 8]) {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED;
    let mut draw = |bound: u64| {
        state ^= state >> 33;
        state = state.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        state ^= state >> 29;
        state % bound
    };
    let date = format!("{}-{:02}-{:02}", 1950 + draw(50), 1 + draw(12), 1 + draw(28));
    let amount = format!("{}.{}", draw(10_000), 1 + draw(9));
    let tags = format!("tag {};tag {}", draw(9), 10 + draw(9));
    let mut fields = [
        number.to_string(),
        format!("Ann Ämilie, {}", draw(1_000)),
        if draw(4) == 0 { String::new() } else { format!("City {}", draw(5_000)) },
        date,
        amount,
        tags,
        format!("she said \"{}\",\nand left", draw(1 << 40)),
        format!("{:05}", draw(100_000)),
    ];
    let imported = fields.clone();
    fields[3].push_str("T00:00:00Z");
    if fields[0] != "0" {
        fields[0].push_str(".0");
    }
    (imported, fields)
}

fn write_rows(path: &std::path::Path) {
    let file = BufWriter::new(fs::File::create(path).expect("the folder is writable"));
    let mut out = csv::Writer::from_writer(file);
    out.write_record(COLUMNS).expect("written");
    for number in 0..row_count() {
        out.write_record(&row(number).0).expect("written");
    }
    out.flush().expect("written");
}

/// Checks that an export contains every row once, in order.
fn compare_rows(path: &std::path::Path) {
    let mut back = csv::Reader::from_path(path).expect("the export exists");
    let names: Vec<String> = back.headers().expect("a first line").iter().skip(1).map(str::to_owned).collect();
    assert_eq!(names, COLUMNS);
    let mut count = 0;
    for (number, record) in (0..).zip(back.records()) {
        let record = record.expect("a row");
        let same = record.iter().skip(1).map(plain).eq(row(number).1.iter().map(|field| plain(field)));
        assert!(same, "row {number}: {record:?}");
        count += 1;
    }
    assert_eq!(count, row_count());
}

/// Removes the suffix `.0` of a whole number.
fn plain(field: &str) -> &str {
    field.strip_suffix(".0").unwrap_or(field)
}

/// Returns the peak resident memory of a server.
fn resident_kib(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("the system reports it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line of it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Starts an import and kills the server when some rows have been imported.
fn kill_in_the_middle(folder: &TestFolder, server: Server, words: &[&str]) {
    let mut command = folder.command(words);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut progress = BufReader::new(child.stderr.take().expect("it is piped"));
    // The first progress line appears with the first rows, each further one some seconds later.
    for _ in 0..if row_count() > 100_000 { 3 } else { 1 } {
        let mut line = String::new();
        progress.read_line(&mut line).expect("text");
        assert!(line.starts_with("importing into table.nsf: "), "{line}");
    }
    server.kill();
    assert!(!child.wait().expect("it ends").success(), "the server is gone");
}

#[test]
fn import_resumes_after_the_server_is_killed() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PATH], "was created");
    let file = folder.path("rows.csv");
    let back = folder.path("back.csv");
    write_rows(&file);
    let source = file.display().to_string();
    let import = ["db", "import", PATH, &source, "--map", "Tags=Tags:text-list"];
    kill_in_the_middle(&folder, folder.serve(), &import);
    folder.check_fails(&import, "--resume continues after that row, --restart starts again with the first row");
    let left: u64 = folder.json(&["db", "show", PATH])["notes"].as_u64().expect("a number");
    assert!((500..row_count()).contains(&left), "{left} notes after the server was killed");
    let server = folder.serve();
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let done = folder.json(&[&import[..], &["--resume"]].concat());
    let took = clock.monotonic().saturating_sub(began);
    assert_eq!((done["documents"].as_u64(), done["refused"].as_u64()), (Some(row_count()), Some(0)));
    let resident = resident_kib(&server);
    let rate = (row_count() - left) as f64 / took.as_secs_f64();
    let _ = writeln!(std::io::stderr(), "{rate:.0} rows a second after the first {left}, {resident} KiB at most");
    assert!(resident <= RESIDENT_KIB_MAX, "{resident} KiB");
    let columns = COLUMNS.join(",");
    let target = back.display().to_string();
    folder.check(&["db", "export", PATH, &target, "--columns", &columns], "documents were written");
    assert!(resident_kib(&server) <= RESIDENT_KIB_MAX, "{} KiB", resident_kib(&server));
    server.stop();
    compare_rows(&back);
    folder.check_fails(&[&import[..], &["--resume", "--restart"]].concat(), "cannot be used with");
}

#[test]
fn table_is_imported_from_standard_input() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PATH], "was created");
    let rows: String = (0..1_500).map(|number| format!("{number},x\n")).collect();
    let lines: String = (0..1_500).map(|number| format!("{{\"Number\":{number}}}\n")).collect();
    folder.check_input(
        &["db", "import", PATH, "-", "--format", "csv"],
        &format!("Number,Text\n{rows}"),
        "1500 documents",
    );
    folder.check_input(&["db", "import", PATH, "-", "--format", "jsonl"], &lines, "1500 documents");
    assert_eq!(folder.json(&["db", "show", PATH])["notes"], 3_001, "and the access control list");
    let server = folder.serve();
    folder.check_fails(&["db", "import", PATH, "-", "--format", "csv"], "write the table to a file");
    server.stop();
}

#[test]
fn late_columns_are_reported_and_exported() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PATH], "was created");
    let file = folder.path("rows.jsonl");
    let lines: String = (1..=1_000).map(|number| format!("{{\"Number\":{number}}}\n")).collect();
    let last = "{\"Number\":1001,\"Late\":\"x\",\"Body\":\"<b>rich</b>\"}\n";
    fs::write(&file, lines + last).expect("the folder is writable");
    let source = file.display().to_string();
    let import = ["db", "import", PATH, &source, "--map", "Body=Body:rich-text"];
    let server = folder.serve();
    folder
        .check(&[&import[..], &["--dry-run"]].concat(), "Column \"Late\" first occurs in row 1001; its type is text.");
    let columns = "\
columns
  column  item    type       type from   first row  in views
  Number  Number  number     its values  -          -
  Body    Body    rich-text  --map       1001       -
  Late    Late    text       its values  1001       -
";
    folder.check(&import, columns);
    for name in ["back.jsonl", "back.csv"] {
        let target = folder.path(name).display().to_string();
        folder.check(&["db", "export", PATH, &target, "--formula", "SELECT Number > 1000"], "1 document was written");
        let text = fs::read_to_string(folder.path(name)).expect("the export exists");
        assert!(text.contains("<b>rich</b>"), "{text}");
    }
    server.stop();
}

#[test]
fn unclosed_quote_fails_the_import_after_earlier_rows() {
    let folder = TestFolder::new();
    folder.check(&["db", "create", PATH], "was created");
    let file = folder.path("rows.csv");
    let rows = |end: u32, quote: &str| -> String {
        let row = |number| format!("{number},{}x\n", if number == 501 { quote } else { "" });
        std::iter::once("Number,Text\n".to_owned()).chain((1..=end).map(row)).collect()
    };
    fs::write(&file, rows(3_000, "\"")).expect("the folder is writable");
    let source = file.display().to_string();
    let import = ["db", "import", PATH, &source];
    let expected = "row 501 and everything after it was not read: a quote opens in line 502 and is never closed";
    folder.check_fails(&[&import[..], &["--dry-run"]].concat(), expected);
    assert_eq!(folder.json(&["db", "show", PATH])["notes"], 1, "the access control list");
    let server = folder.serve();
    folder.check_fails(&import, expected);
    fs::write(&file, rows(3_000, "")).expect("the folder is writable");
    let done = folder.json(&[&import[..], &["--resume"]].concat());
    assert_eq!((&done["documents"], &done["refused"]), (&3_000.into(), &0.into()));
    folder.check_fails(&[&import[..], &["--resume"]].concat(), "there is nothing to resume");
    server.stop();
}
