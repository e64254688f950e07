//! The command `report`, and the pages that it writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use bench::report::model::{Remark, Report, Row};
use expect_test::expect_file;
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::stored_report::Figures;

/// Runs `report` on a directory, and returns the HTML and the Markdown.
fn pages(folder: &Path) -> [String; 2] {
    let mut program = Command::new(env!("CARGO_BIN_EXE_doublet-bench"));
    let output = program.arg("report").arg(folder).output().expect("the program was built");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(printed, format!("{}\n", folder.join("report.html").display()));
    ["report.html", "report.md"].map(|name| fs::read_to_string(folder.join(name)).expect("it was written"))
}

/// What an HTML page has: the names of its elements and attributes, and the cells of its tables.
#[derive(Debug, Default)]
struct Parsed {
    elements: Vec<String>,
    attributes: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Parses a page as XML, in which all elements must be closed.
fn parse(html: &str) -> Parsed {
    let mut reader = Reader::from_str(html);
    reader.config_mut().check_end_names = true;
    let mut parsed = Parsed::default();
    let mut open = 0_usize;
    let mut is_in_cell = false;
    loop {
        let event = reader.read_event().expect("well-formed");
        if let Event::Start(element) | Event::Empty(element) = &event {
            let name = element.name().as_ref().to_owned();
            match name.as_str() {
                "tr" => parsed.rows.push(Vec::new()),
                "td" => {
                    is_in_cell = true;
                    parsed.rows.last_mut().expect("a row").push(String::new());
                }
                _ => {}
            }
            parsed.elements.push(name);
            for attribute in element.attributes() {
                let attribute = attribute.expect("well-formed");
                parsed.attributes.push(attribute.key.as_ref().to_owned());
            }
        }
        let cell = parsed.rows.last_mut().and_then(|row| row.last_mut()).filter(|_| is_in_cell);
        match event {
            Event::Start(_) => open += 1,
            Event::End(element) => {
                open -= 1;
                is_in_cell &= element.name().as_ref() != "td";
            }
            Event::Text(text) => cell.into_iter().for_each(|cell| cell.push_str(&text)),
            Event::GeneralRef(entity) => cell.into_iter().for_each(|cell| cell.push(character(&entity))),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "all elements are closed");
    parsed
}

/// Returns the character for which an entity of the page stands.
fn character(entity: &str) -> char {
    match entity {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "#39" => '\'',
        other => panic!("&{other}; is no entity of the page"),
    }
}

/// Returns the section of a page with this heading.
fn section<'a>(html: &'a str, name: &str) -> &'a str {
    let (_, section) = html.split_once(&format!("<h2>{name}</h2>")).expect("a section");
    section.split_once("<h2>").map_or(section, |(section, _)| section)
}

#[test]
fn html_has_no_scripts_and_references() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |_| {});
    let [html, _] = pages(&path);
    let parsed = parse(&html);
    for name in ["script", "link", "img", "iframe", "a", "image", "use", "object"] {
        assert!(!parsed.elements.iter().any(|element| element == name), "{name}");
    }
    let is_active = |name: &&String| name.starts_with("on") || name.ends_with("href") || *name == "src";
    assert_eq!(parsed.attributes.iter().find(is_active), None);
    assert!(!html.contains("url(") && !html.contains("@import"));
    assert_eq!(parsed.elements.iter().filter(|element| *element == "svg").count(), 3);
    assert!(html.contains("no answer &lt;within&gt; 60 s &amp; more"));
}

/// Checks the numbers of the page against those of `report.json`.
#[test]
fn numbers_are_those_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |report| {
        // Reports of earlier versions have a row of this name in another unit.
        let intensity = Row { resource: "total_disk_intensity".to_owned(), ..report.server.rows[0].clone() };
        report.server.rows.push(intensity);
    });
    let [html, markdown] = pages(&path);
    let rows = parse(&html).rows;
    let json = fs::read_to_string(path.join("report.json")).expect("a file");
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let millis = |time: &serde_json::Value| format!("{:.1}", time.as_f64().expect("a time") / 1_000.0);
    for figures in report["verbs"].as_array().expect("verbs") {
        let row = rows.iter().find(|row| row.get(1).is_some_and(|cell| *cell == figures["verb"])).expect("a row");
        let counts = ["users", "due", "failed", "skipped", "calls"].map(|name| figures[name].to_string());
        assert_eq!(row[2..7], counts);
        let times = ["mean_us", "p50_us", "p95_us", "p99_us", "max_us"].map(|name| millis(&figures["response"][name]));
        assert_eq!(row[7..12], times);
    }
    let level = &report["headline"][0];
    let headline = rows.iter().find(|row| row.len() == 11).expect("a headline");
    assert_eq!(headline[..3], ["10", "120.0", "121.5"]);
    assert_eq!(headline[3], format!("{} ± 0.4 %", millis(&level["response"]["mean_us"])));
    assert_eq!(headline[7], millis(&level["response"]["max_us"]));
    let counts = ["steps_due", "steps_ended", "errors"].map(|name| level[name].to_string());
    assert_eq!(headline[8..], counts);
    let published = rows.iter().find(|row| row.first().is_some_and(|cell| cell == "cpu_utilization")).expect("AIX");
    assert_eq!(published[1..], ["percent", "61", "59", "40.00"]);
    assert!(markdown.contains("| cpu_utilization | percent | 61 | 59 | 40.00 |\n"), "{markdown}");
    let intensity = rows.iter().find(|row| row.first().is_some_and(|cell| cell == "total_disk_intensity"));
    let intensity = intensity.expect("z/OS").last().expect("this run");
    assert!(intensity.starts_with("none: the article states neither"), "{intensity}");
}

#[test]
fn several_levels_have_curves_by_users() {
    let folder = tempfile::tempdir().expect("a folder");
    let two = Figures { levels: 2, ..Figures::default() };
    let path = two.write(folder.path(), "a", |report| {
        report.state.name = "failed".to_owned();
        report.state.reasons = vec![remark("errors", "20 users: 2 % failed", Some(20))];
    });
    let [html, markdown] = pages(&path);
    let curves = section(&html, "Levels");
    let titles: Vec<&str> = curves.lines().filter_map(|line| line.strip_prefix("<p>")?.strip_suffix("</p>")).collect();
    let expected = [
        "NotesMark, transactions a minute",
        "Mean response, milliseconds",
        "Processor of the server, percent of all cores",
        "Memory of the server, resident set, MB",
    ];
    assert_eq!((titles.as_slice(), curves.matches("<svg").count()), (&expected[..], 4));
    // 20 users with 80 % are the largest point, and 10 users with 40 % are in the middle.
    assert_eq!(curves.matches("points=\"390.0,98.0 700.0,16.0\"").count(), 4, "{curves}");
    let sentence = "The figures of 20 users are struck out: 2 % failed";
    assert!(curves.contains(sentence), "{curves}");
    let rows = "| 10 | 120.0 | 0.750 | 40.00 | 400.0 |\n| 20 | ~~240.0~~ | ~~1.500~~ | ~~80.00~~ | ~~800.0~~ |\n";
    assert!(markdown.contains(rows) && markdown.contains(sentence), "{markdown}");
    let path = Figures::default().write(folder.path(), "b", |_| {});
    let [html, markdown] = pages(&path);
    assert!(!html.contains("<h2>Levels</h2>") && !markdown.contains("## Levels"), "{markdown}");
}

#[test]
fn rows_that_sharing_flatters_have_a_footnote() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures { levels: 2, ..Figures::default() }.write(folder.path(), "a", |report| {
        report.population.shared_bytes = Some(2_500_000);
        report.population.masters = Some(2);
        for index in [0, 2] {
            let reads = Row { resource: "total_disk_reads_per_second".to_owned(), ..report.server.rows[index].clone() };
            report.server.rows.push(reads);
        }
    });
    let [html, markdown] = pages(&path);
    let footnote = "† Flattered by what messages of the population share: 2.5 MB are stored once instead of several times, \
                    and all but 2 of 10 mail files are copies.";
    let of_sections = ["Tables of the articles", "Server", "Time lines", "Levels"];
    assert_eq!(of_sections.map(|name| section(&html, name).matches(footnote).count()), [1; 4]);
    assert_eq!(markdown.matches(footnote).count(), 3, "{markdown}");
    let rows = parse(&html).rows;
    let find = |name: &str, column: usize| {
        rows.iter().find(|row| row.first().is_some_and(|cell| cell == name)).expect("a row")[column].clone()
    };
    assert_eq!(find("total_disk_reads_per_second", 4), "40.00 †", "beside an article");
    assert_eq!(find("total_disk_reads_per_second †", 4), "40.00", "of the server");
    assert_eq!(find("cpu_utilization", 4), "40.00", "the processor is not flattered");
    assert!(markdown.contains("| 10 | `total_disk_reads_per_second` † | 40.00 |"), "{markdown}");
}

#[test]
fn the_processor_of_a_pinned_server_is_that_of_its_own_cores() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |report| report.driver.pinned = true);
    let [html, markdown] = pages(&path);
    let rows = parse(&html).rows;
    let published = rows.iter().find(|row| row.first().is_some_and(|cell| cell == "cpu_utilization")).expect("AIX");
    assert_eq!(published[4], "40.00 (of the server's own cores)");
    assert!(html.contains("<p>Processor of the server, percent of its own cores</p>"), "{html}");
    let driver = "rocessor: 3.0 % of 2 cores of its own; the server had the others";
    assert!(html.contains(driver) && markdown.contains(driver), "{markdown}");
}

#[test]
fn times_are_computed_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |report: &mut Report| {
        let response = report.verbs[0].response.as_mut().expect("times");
        response.p99_us = 777_777_777;
    });
    let [html, markdown] = pages(&path);
    assert!(!html.contains("777777.8") && !markdown.contains("777777.8"), "{markdown}");
    assert!(
        markdown.contains("| 10 | users | read | 12 | 0 | 0 | 12 | 1.0 | 1.0 | 1.0 | 1.0 | 1.0 | 0.5 |"),
        "{markdown}"
    );
}

#[test]
fn figures_that_are_not_valid_are_struck_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |report: &mut Report| {
        report.state.name = "not valid".to_owned();
        report.state.reasons = vec![remark("lateness", "the driver began 1 % of the steps 9.0 ms late or later", None)];
    });
    let [html, markdown] = pages(&path);
    let struck = "<td class=\"n\"><s>120.0</s> (the driver began 1 % of the steps 9.0 ms late or later)</td>";
    assert!(html.contains(struck), "{html}");
    let sentence = "The figures of 10 users are struck out: the driver began 1 % of the steps 9.0 ms late or later";
    assert_eq!(html.matches(&format!("<li>{sentence}</li>")).count(), 3, "verbs, server and time lines");
    // NotesMark and 5 times; 6 times of each verb; 3 figures of each row.
    let struck = ["Headline", "Response by verb", "Server"].map(|name| section(&html, name).matches("<s>").count());
    assert_eq!(struck, [6, 12, 6]);
    let lines = [
        "- 10 users: **~~NotesMark (partial) 120.0~~** transactions a minute (121.5 promised), struck out: the driver",
        "  - response: ~~mean 0.8 ms ± 0.4 %, p50 0.5 ms, p95 1.0 ms, p99 1.0 ms, maximum 1.0 ms~~\n",
        "| 10 | users | read | 12 | 0 | 0 | 12 | ~~1.0~~ | ~~1.0~~ | ~~1.0~~ | ~~1.0~~ | ~~1.0~~ | ~~0.5~~ |\n",
        "| 10 | `processor_percent_busy` | ~~40.00~~ | ~~38.00~~ | ~~42.00~~ | percent of all cores |\n",
        sentence,
    ];
    assert!(lines.iter().all(|line| markdown.contains(line)), "{markdown}");
    let steady = Figures::default().write(folder.path(), "b", |report: &mut Report| report.headline = None);
    assert!(pages(&steady)[0].contains("There is no headline figure"));
}

fn remark(rule: &str, text: &str, users: Option<u64>) -> Remark {
    Remark { rule: rule.to_owned(), text: text.to_owned(), value: None, limit: None, users }
}

/// Returns the cells with the NotesMark of both levels in the headline of a failed run with these reasons.
fn notesmarks(reasons: Vec<Remark>) -> [String; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures { levels: 2, ..Figures::default() }.write(folder.path(), "a", |report: &mut Report| {
        report.state.name = "failed".to_owned();
        report.state.reasons = reasons;
    });
    let [html, _] = pages(&path);
    let rows = parse(&html).rows;
    let mut levels = rows.into_iter().filter(|row| row.len() == 11);
    [(); 2].map(|()| levels.next().expect("two levels").swap_remove(1))
}

#[test]
fn figures_are_struck_out_for_the_reasons_of_their_level() {
    let errors = || remark("errors", "20 users: 2 % failed", Some(20));
    let struck = "240.0 (2 % failed)";
    assert_eq!(notesmarks(vec![errors()]), ["120.0", struck]);
    assert_eq!(notesmarks(vec![errors(), remark("ended", "10 users: 98 % ended", Some(10))]), ["120.0", struck]);
    assert_eq!(notesmarks(vec![errors(), remark("cut", "cut", None)]), ["120.0 (cut)", struck]);
    assert_eq!(notesmarks(Vec::new()), ["120.0 (failed)", "240.0 (failed)"]);
}

/// With UPDATE_EXPECT=1 the stored pages are written again.
#[test]
fn pages_are_the_stored_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures::default().write(folder.path(), "a", |_| {});
    let [html, markdown] = pages(&path);
    expect_file!["expected/report.html"].assert_eq(&html);
    expect_file!["expected/report.md"].assert_eq(&markdown);
}
