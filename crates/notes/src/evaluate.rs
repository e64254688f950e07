//! Formula evaluation over notes: the data of a document and its context, and searches by formula.
//!
//! A [`Subject`] is a note as a formula sees it: its header and its summary items, borrowed from the stored record. It
//! also has two items that are not stored but that formulas written for Domino expect: `$REF` (the parent's UNID, as 32
//! hexadecimal digits) and `$Conflict`.
//!
//! [`DatabaseSnapshot::search`] evaluates a selection over the documents of a database that changed since a modseq, as
//! NSFSearch does in Domino.

use base::{Modseq, NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{Attachment, DocumentState, DocumentTime, HostText};
use formula::{Document, Formula, Host, Moment, Text, Zone};

use crate::change_log;
use crate::database::Database;
use crate::database_reader::{self, DatabaseSnapshot, load_summary_bytes};
use crate::error::Result;
use crate::item::{ItemRef, Value, ValueRef};
use crate::limits::DOCUMENT_LIMITS;
use crate::note::{self, BodyDirectoryEntry, Header, NoteClass, NoteFlags};

/// The item that names the parent of a response.
pub const REF_ITEM: &str = "$REF";

/// The item that only conflict documents have, which are the losing versions of a conflict.
pub const CONFLICT_ITEM: &str = "$Conflict";

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
pub struct Subject<'n> {
    /// The header of the note.
    pub header: &'n Header,
    /// The summary items of the note.
    pub items: Vec<ItemRef<'n>>,
    /// The bytes after the items in the stored record. Empty if the items come from another source.
    body_bytes: &'n [u8],
}

impl<'n> Subject<'n> {
    /// Creates the subject of a header and its items.
    #[must_use]
    pub fn new(header: &'n Header, items: Vec<ItemRef<'n>>) -> Self {
        Self { header, items, body_bytes: &[] }
    }

    /// Returns the value of an item.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&ValueRef<'n>> {
        self.items.iter().find(|item| item.name.eq_ignore_ascii_case(name)).map(|item| &item.value)
    }
}

impl Document for Subject<'_> {
    fn item(&self, _: Option<usize>, name: &str) -> Option<formula::Value<'_>> {
        if let Some(value) = self.value(name) {
            return as_operand(value);
        }
        if name.eq_ignore_ascii_case(REF_ITEM) {
            return self.header.parent.map(|unid| formula::Value::from(unid.to_string()));
        }
        let is_conflict = name.eq_ignore_ascii_case(CONFLICT_ITEM) && self.header.flags.has(NoteFlags::CONFLICT);
        is_conflict.then_some(formula::Value::EMPTY)
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
            if let ValueRef::Object { file_name: name, length, .. } = item.value {
                files.push(Attachment { name, size_bytes: length, modified });
            }
        }
        files
    }

    fn is_in_state(&self, state: DocumentState) -> Option<bool> {
        match state {
            DocumentState::Signed | DocumentState::Truncated => None,
            _ => Some(false),
        }
    }
}

/// Converts the value of an item into a formula value. Returns `None` for types that formulas cannot compute with.
#[must_use]
pub fn as_operand<'v>(value: &ValueRef<'v>) -> Option<formula::Value<'v>> {
    Some(match value {
        ValueRef::Text(text) => formula::Value::Text(Text::Borrowed(text)),
        ValueRef::TextList(texts) => {
            formula::Value::from_texts(texts.iter().map(|text| Text::Borrowed(text)).collect())
        }
        ValueRef::Number(number) => formula::Value::Number(*number),
        ValueRef::NumberList(numbers) => formula::Value::from_numbers(numbers.clone()),
        ValueRef::Time(time) => formula::Value::Time(Moment::at(*time)),
        ValueRef::TimeList(times) => formula::Value::from_times(times.iter().map(|time| Moment::at(*time)).collect()),
        ValueRef::RichText(_) | ValueRef::MimePart(_) | ValueRef::Object { .. } => return None,
        ValueRef::NoteReferences(unids) => {
            formula::Value::from_texts(unids.iter().map(|unid| Text::from(unid.to_string())).collect())
        }
    })
}

/// Converts the result of a formula into an item value.
///
/// Dates without a time become midnight in the zone. Ranges become their start. Items have no type for times of day, so
/// these become texts that sort in the order of time (`09:30:00`, `09:30:00.25`). Returns the reason as text if the
/// result is a failure or cannot be stored.
pub fn as_item_value(value: &formula::Value<'_>, zone: &Zone) -> std::result::Result<Value, String> {
    Ok(match value {
        formula::Value::Text(text) => Value::Text(text.to_string()),
        formula::Value::Texts(texts) => Value::TextList(texts.iter().map(|text| text.to_string()).collect()),
        formula::Value::Number(number) => Value::Number(*number),
        formula::Value::Numbers(numbers) => Value::NumberList(numbers.to_vec()),
        formula::Value::Time(moment) => match format_time_of_day(*moment) {
            Some(clock) => Value::Text(clock),
            None => Value::Time(start_of(*moment, zone)?),
        },
        formula::Value::Times(moments) => {
            let clocks: Vec<String> = moments.iter().filter_map(|moment| format_time_of_day(*moment)).collect();
            match clocks.len() {
                0 => Value::TimeList(
                    moments.iter().map(|moment| start_of(*moment, zone)).collect::<std::result::Result<_, _>>()?,
                ),
                count if count == moments.len() => Value::TextList(clocks),
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

/// The context of an evaluation: data other than the document that a formula can query.
#[derive(Clone, Debug, Default)]
pub struct EvaluationContext {
    /// The time, which is the same for the whole evaluation.
    pub now: Timestamp,
    /// Canonical name of the user for whom the formula is evaluated.
    pub user: String,
    /// All names of the user: own names, groups and roles.
    pub user_names: Vec<String>,
    /// The roles of the user.
    pub roles: Vec<String>,
    /// Canonical name of the server.
    pub server: String,
    /// Path of the database.
    pub path: String,
    /// Title of the database.
    pub title: String,
    /// Replica id of the database.
    pub replica_id: Option<ReplicaId>,
    /// Title of the view that is built or read.
    pub view: String,
    /// The rights of the user in the database.
    pub access: Option<formula::host::Access>,
}

impl EvaluationContext {
    /// Creates the context for an evaluation by the server itself, without a user.
    #[must_use]
    pub fn of(database: &Database, now: Timestamp) -> Self {
        let record = database.record();
        Self {
            now,
            path: record.path.clone(),
            title: record.title.clone(),
            replica_id: Some(record.replica_id),
            ..Self::default()
        }
    }
}

impl Host for EvaluationContext {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn text(&self, fact: HostText) -> Option<&str> {
        let text = match fact {
            HostText::UserName => &self.user,
            HostText::ServerName => &self.server,
            HostText::DatabasePath => &self.path,
            HostText::DatabaseTitle => &self.title,
            HostText::ViewTitle => &self.view,
            _ => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        Some(self.user_names.iter().map(String::as_str).collect())
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        Some(self.roles.iter().map(String::as_str).collect())
    }

    fn user_access(&self, database: &str) -> Option<formula::host::Access> {
        self.access.clone().filter(|_| database.is_empty())
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        self.replica_id
    }
}

impl DatabaseSnapshot<'_> {
    /// Creates the context of this database and its reader.
    #[must_use]
    pub fn surroundings(&self) -> EvaluationContext {
        let database = self.database();
        let grant = self.grant();
        let access = formula::host::Access {
            level: grant.level() as u8,
            creates: grant.may_create(),
            deletes: !grant.flags().has(crate::acl::AclFlags::NO_DELETE),
        };
        EvaluationContext {
            user: grant.name().map_or_else(String::new, |name| name.canonical().to_owned()),
            user_names: grant.names().map(str::to_owned).collect(),
            roles: grant.roles().map(str::to_owned).collect(),
            access: Some(access),
            ..EvaluationContext::of(database, database.clock.now())
        }
    }

    /// Returns the body items of the note that a search passed as a subject. [`DatabaseSnapshot::body_item`] reads
    /// them. A subject that is not stored has none.
    pub fn body_items(&self, subject: &Subject<'_>) -> Result<Vec<BodyDirectoryEntry>> {
        if subject.body_bytes.is_empty() {
            return Ok(Vec::new());
        }
        let damaged = |_| database_reader::damaged_note(self.database(), subject.header.note, "summary");
        note::body_items(subject.body_bytes).map_err(damaged)
    }

    /// Calls `each` for the documents that changed after `since` and that the selection selects, in the order of their
    /// changes, until it returns `false`.
    ///
    /// Documents that Readers items hide are skipped.
    pub fn search(
        &self,
        selection: &Formula,
        since: Modseq,
        each: &mut dyn FnMut(&Subject<'_>) -> Result<bool>,
    ) -> Result<SearchStats> {
        let surroundings = self.surroundings();
        let mut searched = SearchStats { up_to: since, examined: 0, over_limit: 0 };
        change_log::scan_while(&self.snapshot, self.database().number(), since, &mut |entry| {
            let Some(header) = self.header(entry.note)? else { return Ok(true) };
            if header.is_stub() || header.class != NoteClass::DOCUMENT || header.modseq != entry.modseq {
                return Ok(true);
            }
            let Some(bytes) = load_summary_bytes(&self.snapshot, self.database(), entry.note)? else { return Ok(true) };
            let subject = subject(&header, &bytes, self.database())?;
            searched.examined += 1;
            let goes_on = match selection.evaluate_within(&subject, &surroundings, DOCUMENT_LIMITS) {
                Ok(outcome) if outcome.selected => each(&subject)?,
                Ok(_) => true,
                Err(_) => {
                    searched.over_limit += 1;
                    true
                }
            };
            searched.up_to = entry.modseq;
            Ok(goes_on)
        })?;
        Ok(searched)
    }
}

/// Statistics of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchStats {
    /// Modseq of the last document that was examined.
    pub up_to: Modseq,
    /// Number of documents that were examined.
    pub examined: u64,
    /// Number of documents for which the formula hit a limit. They count as not selected.
    pub over_limit: u64,
}

/// Creates the subject of a header and a stored summary record.
pub(crate) fn subject<'n>(header: &'n Header, bytes: &'n [u8], database: &Database) -> Result<Subject<'n>> {
    let damaged = |_| database_reader::damaged_note(database, header.note, "summary");
    let (items, behind) = note::split_summary(bytes).map_err(damaged)?;
    Ok(Subject { body_bytes: behind, ..Subject::new(header, items) })
}
