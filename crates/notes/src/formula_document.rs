//! A document as a formula sees it, and the conversion of values between items and formulas.
//!
//! A [`FormulaDocument`] has the header of a note and its summary items, borrowed from the stored record. It also has
//! two items that are not stored but that formulas written for Domino expect: `$REF` (the parent's UNID, as 32
//! hexadecimal digits) and `$Conflict`.

use base::{NoteId, Timestamp, Unid};
use formula::host::{Attachment, DocumentState, DocumentTime};
use formula::{Document, Moment, Text, Zone};

use crate::item::{ItemRef, ItemValue, ItemValueRef};
use crate::note::{NoteFlags, NoteHeader};

/// The item that names the parent of a response.
pub const REF_ITEM: &str = "$REF";

/// The item that only conflict documents have, which are the losing versions of a conflict.
pub const CONFLICT_ITEM: &str = "$Conflict";

/// Number of items whose names are compared in one step.
const ITEMS_PER_STEP: usize = 4;

/// Returns the canonical spelling of a reserved item name, or `None` if the name is not reserved.
///
/// Formulas see reserved items, but these are derived from the header. A stored item of such a name would contradict
/// it.
#[must_use]
pub fn reserved_item(name: &str) -> Option<&'static str> {
    [REF_ITEM, CONFLICT_ITEM].into_iter().find(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// A note as a formula sees it.
#[derive(Clone, Debug)]
pub struct FormulaDocument<'n> {
    /// The header of the note.
    pub header: &'n NoteHeader,
    /// The summary items of the note.
    pub items: Vec<ItemRef<'n>>,
    /// The bytes after the items in the stored record. Empty if the items come from another source.
    pub(crate) body_bytes: &'n [u8],
}

impl<'n> FormulaDocument<'n> {
    /// Creates the document of a header and its items.
    #[must_use]
    pub fn new(header: &'n NoteHeader, items: Vec<ItemRef<'n>>) -> Self {
        Self { header, items, body_bytes: &[] }
    }

    /// Returns the value of an item.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&ItemValueRef<'n>> {
        self.items.iter().find(|item| item.name.eq_ignore_ascii_case(name)).map(|item| &item.value)
    }
}

impl Document for FormulaDocument<'_> {
    fn item(&self, _: Option<usize>, name: &str) -> Option<formula::Value<'_>> {
        if let Some(value) = self.value(name) {
            return to_formula_value(value);
        }
        if name.eq_ignore_ascii_case(REF_ITEM) {
            return self.header.parent.map(|unid| formula::Value::from(unid.to_string()));
        }
        let is_conflict = name.eq_ignore_ascii_case(CONFLICT_ITEM) && self.header.flags.contains(NoteFlags::CONFLICT);
        is_conflict.then_some(formula::Value::EMPTY)
    }

    fn search_steps(&self) -> usize {
        self.items.len() / ITEMS_PER_STEP
    }

    fn item_names(&self) -> Vec<&str> {
        self.items.iter().map(|item| item.name).collect()
    }

    fn time_of(&self, moment: DocumentTime) -> Option<Timestamp> {
        match moment {
            DocumentTime::Created | DocumentTime::Added => Some(self.header.created),
            DocumentTime::Modified => Some(self.header.sequence_time),
            DocumentTime::Accessed => None,
        }
    }

    fn unid(&self) -> Option<Unid> {
        Some(self.header.unid)
    }

    fn note_id(&self) -> Option<NoteId> {
        Some(self.header.note)
    }

    fn parent(&self) -> Option<Unid> {
        self.header.parent
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.header.size)
    }

    fn attachments(&self) -> Vec<Attachment<'_>> {
        let modified = self.header.sequence_time;
        let mut files = Vec::new();
        for item in &self.items {
            if let ItemValueRef::Object { file_name: name, length, .. } = item.value {
                files.push(Attachment { name, size_bytes: length, modified });
            }
        }
        files
    }

    fn is_in_state(&self, state: DocumentState) -> Option<bool> {
        match state {
            DocumentState::Truncated => Some(self.header.is_truncated()),
            DocumentState::Signed => None,
            _ => Some(false),
        }
    }
}

/// Converts the value of an item into a formula value. Returns `None` for types that formulas cannot compute with.
#[must_use]
pub fn to_formula_value<'v>(value: &ItemValueRef<'v>) -> Option<formula::Value<'v>> {
    Some(match value {
        ItemValueRef::Text(text) | ItemValueRef::Json(text) => formula::Value::Text(Text::Borrowed(text)),
        ItemValueRef::TextList(texts) => {
            formula::Value::from_texts(texts.iter().map(|text| Text::Borrowed(text)).collect())
        }
        ItemValueRef::Number(number) => formula::Value::Number(*number),
        ItemValueRef::NumberList(numbers) => formula::Value::from_numbers(numbers.clone()),
        ItemValueRef::Time(time) => formula::Value::Time(Moment::at(*time)),
        ItemValueRef::TimeList(times) => {
            formula::Value::from_times(times.iter().map(|time| Moment::at(*time)).collect())
        }
        ItemValueRef::RichText(_) | ItemValueRef::MimePart(_) | ItemValueRef::Object { .. } => return None,
        ItemValueRef::NoteReferences(unids) => {
            formula::Value::from_texts(unids.iter().map(|unid| Text::from(unid.to_string())).collect())
        }
    })
}

/// Converts the result of a formula into an item value.
///
/// Dates without a time become midnight in the zone. Ranges become their start. Items have no type for times of day, so
/// these become texts that sort in the order of time (`09:30:00`, `09:30:00.25`). Returns the reason as text if the
/// result is a failure or cannot be stored.
pub fn to_item_value(value: &formula::Value<'_>, zone: &Zone) -> std::result::Result<ItemValue, String> {
    Ok(match value {
        formula::Value::Text(text) => ItemValue::Text(text.to_string()),
        formula::Value::Texts(texts) => ItemValue::TextList(texts.iter().map(|text| text.to_string()).collect()),
        formula::Value::Number(number) => ItemValue::Number(*number),
        formula::Value::Numbers(numbers) => ItemValue::NumberList(numbers.to_vec()),
        formula::Value::Time(moment) => match format_time_of_day(*moment) {
            Some(clock) => ItemValue::Text(clock),
            None => ItemValue::Time(start_of(*moment, zone)?),
        },
        formula::Value::Times(moments) => {
            let clocks: Vec<String> = moments.iter().filter_map(|moment| format_time_of_day(*moment)).collect();
            match clocks.len() {
                0 => ItemValue::TimeList(
                    moments.iter().map(|moment| start_of(*moment, zone)).collect::<std::result::Result<_, _>>()?,
                ),
                count if count == moments.len() => ItemValue::TextList(clocks),
                _ => return Err("a list cannot contain both times of day and times with a date".to_owned()),
            }
        }
        formula::Value::Error(failure) => return Err(failure.kind.to_string()),
    })
}

fn start_of(moment: Moment, zone: &Zone) -> std::result::Result<Timestamp, String> {
    zone.start(moment).ok_or_else(|| "the time cannot be converted in this time zone".to_owned())
}

/// Formats a time of day, or the start of a range of times of day. Returns `None` for moments with a date.
fn format_time_of_day(moment: Moment) -> Option<String> {
    let (Moment::TimeOfDay(hundredths) | Moment::TimesOfDay(hundredths, _)) = moment else { return None };
    let seconds = hundredths / 100;
    let hundredths = hundredths % 100;
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Some(if hundredths == 0 { clock } else { format!("{clock}.{hundredths:02}") })
}
