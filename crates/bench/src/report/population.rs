//! What the mail files had before the run, as a sentence for people, and which rows of the server it flatters.

use super::model::{Population, Report};

/// The rows of disk, cache and attachments, which are smaller or better if several messages share contents.
const FLATTERED: &[&str] = &[
    "total_disk_operations_per_second",
    "total_disk_reads_per_second",
    "total_disk_writes_per_second",
    "total_disk_mb_transferred_per_second",
    "total_disk_mb_read_per_second",
    "total_disk_mb_written_per_second",
    "data_disk_percent_busy_percent",
    "disk_operations_in_progress",
    "process_disk_mb_read_per_second",
    "process_disk_mb_written_per_second",
    "store_mb_written_per_second",
    "block_cache_hits_percent",
    "attachments_stored",
    "attachments_stored_in_mb",
];

/// Returns the mark of a row of the server whose figures are flattered by what messages share; otherwise nothing.
pub fn mark(report: &Report, resource: &str) -> &'static str {
    let is_flattered = footnote(report).is_some() && FLATTERED.contains(&resource);
    if is_flattered { " †" } else { "" }
}

/// Returns what the mark means, or `None` if messages share nothing.
pub fn footnote(report: &Report) -> Option<String> {
    let bytes = report.population.shared_bytes.filter(|bytes| *bytes > 0)?;
    let copies = report
        .population
        .masters
        .map(|masters| format!(", and all but {masters} of {} mail files are copies", report.population.people));
    Some(format!(
        "† Flattered by what messages of the population share: {:.1} MB are stored once instead of several times{}.",
        bytes as f64 / 1e6,
        copies.unwrap_or_default()
    ))
}

/// Describes a population: what the mail files had, how they were made, and what several messages share. `door` is that
/// of the run, through which they were filled.
pub fn describe(population: &Population, door: &str) -> String {
    let people = population.people;
    let mut text = if population.documents == 0 && population.archive == 0 {
        format!("{people} mail files, which this run has not filled.")
    } else {
        let origin = match door {
            "imap" => "They have arrived by mail, or were appended where the server takes none",
            "pop3" => "They have arrived by mail",
            "jmap" | "lite" => "They were imported over JMAP",
            _ => "They were saved as documents and have not arrived by mail",
        };
        format!(
            "{people} mail files with {} documents each in the inbox, sizes × {}, seed {}: letters in twelve languages, \
             with attachments of which half come from a pool. {origin}.",
            population.documents, population.size_scale, population.seed
        )
    };
    if population.archive > 0 {
        text.push_str(&format!(" Each mail file has {} more in its archive.", population.archive));
    }
    if let Some(masters) = population.masters {
        let own = population.own.unwrap_or(0.0) * 100.0;
        text.push_str(&format!(
            " {masters} mail files were filled, and the others are copies of them, with other recipients and dates in \
             {own} % of the documents."
        ));
    }
    if let Some(bytes) = population.shared_bytes.filter(|bytes| *bytes > 0) {
        let megabytes = bytes as f64 / 1e6;
        text.push_str(&format!(
            " About {megabytes:.1} MB of attachments and of texts in copies are the same in several messages, and a \
             server that stores them once needs so much less: this flatters its figures of disk and cache."
        ));
    }
    match population.runs_before {
        0 => {}
        1 => text.push_str(" One run has changed them before."),
        runs => text.push_str(&format!(" {runs} runs have changed them before.")),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_what_is_shared() {
        let population = Population {
            seed: 1,
            people: 100,
            documents: 50,
            archive: 0,
            size_scale: 1.0,
            masters: None,
            own: None,
            shared_bytes: None,
            runs_before: 0,
            databases: Vec::new(),
        };
        assert!(describe(&population, "native").ends_with("were saved as documents and have not arrived by mail."));
        assert!(describe(&population, "pop3").ends_with("They have arrived by mail."));
        let empty = Population { documents: 0, ..population.clone() };
        assert_eq!(describe(&empty, "imap"), "100 mail files, which this run has not filled.");
        let copied = Population {
            masters: Some(3),
            own: Some(0.1),
            shared_bytes: Some(2_500_000),
            runs_before: 2,
            archive: 7,
            ..population
        };
        let text = describe(&copied, "native");
        assert!(text.contains(" 3 mail files were filled, and the others are copies of them"), "{text}");
        assert!(text.contains("in 10 % of the documents. About 2.5 MB"), "{text}");
        assert!(text.ends_with("2 runs have changed them before."), "{text}");
    }
}
