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

/// Returns the text of `report.json` as JSON.
fn json(folder: &Path) -> serde_json::Value {
    let text = fs::read_to_string(folder.join("report.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

fn list<'a>(report: &'a serde_json::Value, name: &str) -> &'a [serde_json::Value] {
    report[name].as_array().expect("a list")
}

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().expect("a number")
}

fn millis(time: &serde_json::Value) -> String {
    format!("{:.1}", number(time) / 1_000.0)
}

/// Returns the figures of times in the order of the columns, from the mean to the maximum.
fn times(times: &serde_json::Value) -> [String; 5] {
    ["mean_us", "p50_us", "p95_us", "p99_us", "max_us"].map(|name| millis(&times[name]))
}

/// Returns the lines of the tables of a section, without their headers.
fn lines(html: &str, name: &str) -> Vec<Vec<String>> {
    let section = section(html, name).trim_end().trim_end_matches("</html>").trim_end().trim_end_matches("</body>");
    parse(&format!("<section>{section}</section>")).rows.into_iter().filter(|row| !row.is_empty()).collect()
}

/// Checks all cells with numbers of two levels against `report.json`.
#[test]
fn numbers_are_those_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures { levels: 2, ..Figures::default() }.write(folder.path(), "a", |_| {});
    let [html, _] = pages(&path);
    let report = json(&path);
    let headline = list(&report, "headline").iter().map(|level| {
        let counts = ["steps_due", "steps_ended", "errors"].map(|name| level[name].to_string());
        let notesmarks = ["notesmark", "notesmark_promised"].map(|name| format!("{:.1}", number(&level[name])));
        let times = times(&level["response"]);
        [vec![level["users"].to_string()], notesmarks.to_vec(), times.to_vec(), counts.to_vec()].concat()
    });
    let mut shown = lines(&html, "Headline");
    // The spread follows from the histograms, and is in no JSON of the tests.
    for row in &mut shown {
        let (mean, spread) = row[3].split_once(" ± ").expect("a spread");
        assert!(spread.ends_with(" %"), "{spread}");
        row[3] = mean.to_owned();
    }
    assert_eq!(shown, headline.collect::<Vec<_>>());
    let verbs = list(&report, "verbs").iter().map(|figures| {
        let names = ["class", "verb"].map(|name| figures[name].as_str().expect("a name").to_owned());
        let counts = ["users", "due", "failed", "skipped", "calls"].map(|name| figures[name].to_string());
        let service = millis(&figures["service"]["mean_us"]);
        [names.to_vec(), counts.to_vec(), times(&figures["response"]).to_vec(), vec![service]].concat()
    });
    assert_eq!(lines(&html, "Response by verb"), verbs.collect::<Vec<_>>());
    let rows = list(&report["server"], "rows").iter().map(|row| {
        let names = ["resource", "unit", "origin"].map(|name| row[name].as_str().expect("a name").to_owned());
        let digits = if number(&row["max"]) < 100.0 { 2 } else { 1 };
        let figures = ["mean", "min", "max"].map(|name| format!("{:.digits$}", number(&row[name])));
        [names.to_vec(), vec![row["users"].to_string()], figures.to_vec()].concat()
    });
    assert_eq!(lines(&html, "Server"), rows.collect::<Vec<_>>());
    let driver = &report["driver"];
    let [_, p50, _, p99, max] = times(&driver["lateness"]);
    let items = [
        format!("Lateness in milliseconds: p50 {p50}, p99 {p99}, maximum {max}"),
        format!("Processor: {:.1} % of {} cores", 100.0 * number(&driver["processor_share"]), driver["cores"]),
        format!("Memory: at most {:.0} MB", number(&driver["memory_bytes_max"]) / 1_048_576.0),
        format!("Open files: at most {}", driver["open_files_max"]),
        format!("Calls: {}; the server counted {}", driver["calls"]["driver"], driver["calls"]["server"]),
    ];
    let expected: Vec<String> = items.iter().map(|item| format!("<li>{item}</li>\n")).collect();
    assert_eq!(section(&html, "Driver").trim(), format!("<ul>\n{}</ul>", expected.concat()));
}

const INTENSITY: &str = "none: the article states neither the time base of the rate nor the unit of the time: see \
                         disk_operations_in_progress";

/// Checks all published values, and those of this run in the same rows.
#[test]
fn published_values_are_those_of_the_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures { levels: 2, ..Figures::default() }.write(folder.path(), "a", |report| {
        // Reports of earlier versions have a row of this name in another unit.
        let intensity = Row { resource: "total_disk_intensity".to_owned(), ..report.server.rows[0].clone() };
        report.server.rows.push(intensity);
    });
    let [html, markdown] = pages(&path);
    let report = json(&path);
    let published = list(&report, "published");
    let is_same = |one: &serde_json::Value, other: &serde_json::Value| {
        ["source", "table"].iter().all(|name| one[name] == other[name])
    };
    let tables: Vec<&[serde_json::Value]> = published.chunk_by(is_same).collect();
    let shown: Vec<Vec<Vec<String>>> =
        section(&html, "Tables of the articles").split("</table>").map(table_lines).collect();
    assert_eq!(shown.len(), tables.len() + 1, "nothing follows the last one");
    for (table, shown) in tables.iter().zip(&shown) {
        for row in shown {
            let of_row = |value: &&serde_json::Value| value["resource"] == row[0] && value["unit"] == row[1];
            let values: Vec<String> =
                table.iter().filter(of_row).map(|row| number(&row["value"]).to_string()).collect();
            // Two columns have the values of the article, and two those of the levels of this run.
            assert_eq!((row.len(), &row[2..4]), (6, &values[..]), "{row:?}");
            let own = match row[0].as_str() {
                "cpu_utilization" => ["40.00", "80.00"],
                "network_traffic_bytes_per_sec" => ["none: this version does not measure it"; 2],
                "shared_handles_used_mb" | "process_handles_used_mb" => ["none: the server has no handles"; 2],
                "total_disk_transfer_rate" => {
                    ["none: the article states no time base: see total_disk_operations_per_second"; 2]
                }
                "network_bytes_received_and_sent_smf108_nwbr_nwbs" => {
                    ["none: the article states no time base: see network_mb_per_second"; 2]
                }
                "total_disk_intensity" => [INTENSITY; 2],
                _ => ["–"; 2],
            };
            assert_eq!(row[4..], own, "{row:?}");
        }
        let distinct: std::collections::BTreeSet<String> =
            table.iter().map(|row| format!("{} {}", row["resource"], row["unit"])).collect();
        assert_eq!(shown.len(), distinct.len());
    }
    assert!(markdown.contains("| cpu_utilization | percent | 61 | 59 | 40.00 | 80.00 |\n"), "{markdown}");
}

/// Returns the lines of a table, whose end may be missing.
fn table_lines(table: &str) -> Vec<Vec<String>> {
    let Some((_, lines)) = table.split_once("<table>") else { return Vec::new() };
    let rows = parse(&format!("<table>{lines}</table>")).rows;
    rows.into_iter().filter(|row| !row.is_empty()).collect()
}

/// Returns the line through points, whose largest coordinates are at the end of the axes.
fn polyline(points: &[(f64, f64)]) -> String {
    let end = |values: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(values).fold(0.0, f64::max);
    let [x_max, y_max] = [end(&|point| point.0), end(&|point| point.1)];
    let place = |(x, y): &(f64, f64)| format!("{:.1},{:.1}", 80.0 + x / x_max * 620.0, 180.0 - y / y_max * 164.0);
    let places: Vec<String> = points.iter().map(place).collect();
    format!("<polyline points=\"{}\"", places.join(" "))
}

#[test]
fn time_lines_have_the_points_of_the_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = Figures { levels: 2, ..Figures::default() }.write(folder.path(), "a", |_| {});
    let [html, _] = pages(&path);
    let report = json(&path);
    let of_samples = |name: &str| -> Vec<(f64, f64)> {
        let samples = list(&report, "samples").iter();
        samples.map(|sample| (number(&sample["end_us"]) / 60e6, number(&sample[name]))).collect()
    };
    let csv = fs::read_to_string(path.join("samples.csv")).expect("a file");
    let of_csv = csv.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields[1], "processor_percent_busy");
        (fields[0].parse::<f64>().expect("a time") / 60e6, fields[2].parse().expect("a value"))
    });
    let response =
        of_samples("response_mean_us").into_iter().map(|(minutes, response_us)| (minutes, response_us / 1e3));
    let expected = [response.collect(), of_samples("users_connected"), of_csv.collect::<Vec<_>>()];
    let shown = section(&html, "Time lines").lines().filter(|line| line.starts_with("<polyline"));
    let shown: Vec<&str> = shown.collect();
    assert_eq!(shown.len(), 3);
    for (line, points) in shown.iter().zip(&expected) {
        assert!(points.len() == 32 && line.starts_with(&polyline(points)), "{line}");
    }
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
