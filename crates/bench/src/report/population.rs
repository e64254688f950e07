//! What the mail files had before the run, as a sentence for people.

use super::model::Population;

/// Describes a population: what the mail files had, how they were made, and what several messages share.
pub fn describe(population: &Population) -> String {
    let mut text = format!(
        "{} mail files with {} documents each, sizes × {}, seed {}. They are letters in twelve languages in the inbox, \
         with attachments of which half come from a pool; they are not messages that have arrived by mail.",
        population.people, population.documents, population.size_scale, population.seed
    );
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
            " About {megabytes:.1} MB of attachments are the same in several messages, and a server that stores them \
             once needs so much less: this flatters its figures of disk and cache."
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
        assert!(describe(&population).ends_with("not messages that have arrived by mail."));
        let copied = Population {
            masters: Some(3),
            own: Some(0.1),
            shared_bytes: Some(2_500_000),
            runs_before: 2,
            archive: 7,
            ..population
        };
        let text = describe(&copied);
        assert!(text.contains(" 3 mail files were filled, and the others are copies of them"), "{text}");
        assert!(text.contains("in 10 % of the documents. About 2.5 MB"), "{text}");
        assert!(text.ends_with("2 runs have changed them before."), "{text}");
    }
}
