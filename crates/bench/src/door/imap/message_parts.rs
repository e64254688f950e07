//! The attachments of a message, by its `BODYSTRUCTURE`.

use super::memory::PARTS_MAX;
use super::response::Value;

/// Maximum length of a section such as `1.2.3`.
const SECTION_BYTES_MAX: usize = 200;

/// Returns the sections of the attachments of a message, from its `BODYSTRUCTURE`: parts that say so, and all that are
/// neither text nor made of parts.
pub(super) fn attachment_sections(structure: &Value) -> Vec<String> {
    let mut sections = Vec::new();
    collect(structure, String::new(), &mut sections);
    sections
}

fn collect(part: &Value, section: String, sections: &mut Vec<String>) {
    let Some(values) = part.list() else { return };
    if sections.len() == PARTS_MAX || section.len() > SECTION_BYTES_MAX {
        return;
    }
    if values.first().is_some_and(|first| first.list().is_some()) {
        let parts = values.iter().take_while(|value| value.list().is_some());
        for (number, inner) in (1..).zip(parts) {
            let dot = if section.is_empty() { "" } else { "." };
            collect(inner, format!("{section}{dot}{number}"), sections);
        }
        return;
    }
    if is_attachment(values) {
        sections.push(if section.is_empty() { "1".to_owned() } else { section });
    }
}

fn is_attachment(values: &[Value]) -> bool {
    let is_text = |value: &Value| value.text().is_some_and(|text| text.eq_ignore_ascii_case("text"));
    let is_disposition = |value: &Value| {
        let first = value.list().and_then(|values| values.first());
        first.and_then(Value::text).is_some_and(|text| text.eq_ignore_ascii_case("attachment"))
    };
    !values.first().is_some_and(is_text) || values.iter().skip(7).any(is_disposition)
}
