//! Formulas over notes: what a document and its surroundings tell an evaluation, and searches by formula.
//!
//! A [`Subject`] is a note as a formula sees it: its header and its summary items, borrowed from the stored record. Two items that are not
//! stored as such are there for formulas of the original: `$REF` (the parent's UNID, as 32 hexadecimal digits) and `$Conflict`.
//!
//! [`Reading::search`] evaluates a selection over the documents of a database that changed since a modseq: the original's NSFSearch.

use base::{Modseq, NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{Attachment, Fact, History, State};
use formula::{Document, Formula, Host, Moment, Text, Zone};

use crate::change;
use crate::database::Database;
use crate::error::Result;
use crate::item::{ItemRef, Value, ValueRef};
use crate::limits::DOCUMENT_LIMITS;
use crate::note::{self, BodyItem, Header, NoteClass, NoteFlags};
use crate::reading::{self, Reading, load_summary_bytes};

/// The item that names the parent of a response.
pub const REF_ITEM: &str = "$REF";

/// The item that only losers of conflicts have.
pub const CONFLICT_ITEM: &str = "$Conflict";

/// Tells whether a name is that of an item which formulas see and which is none: it follows from the header, and an item of that name would say otherwise.
#[must_use]
pub fn reserved(name: &str) -> Option<&'static str> {
    [REF_ITEM, CONFLICT_ITEM].into_iter().find(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// A note as a formula sees it.
#[derive(Clone, Debug)]
pub struct Subject<'n> {
    /// Its header.
    pub header: &'n Header,
    /// Its summary items.
    pub items: Vec<ItemRef<'n>>,
    /// What stands behind them in the stored record; nothing where they come from elsewhere.
    behind: &'n [u8],
}

impl<'n> Subject<'n> {
    /// Makes the subject of a header and the items that belong to it.
    #[must_use]
    pub fn new(header: &'n Header, items: Vec<ItemRef<'n>>) -> Self {
        Self { header, items, behind: &[] }
    }

    /// Gives the value of an item.
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

    fn moment(&self, moment: History) -> Option<Timestamp> {
        match moment {
            History::Created | History::Added => Some(self.header.created),
            History::Modified => Some(self.header.sequence_time),
            History::Accessed => None,
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

    fn has(&self, state: State) -> Option<bool> {
        match state {
            State::Signed | State::Truncated => None,
            _ => Some(false),
        }
    }
}

/// Gives the value of an item as formulas compute with it; nothing for what is no value to them.
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

/// Gives what a formula computed as an item keeps it; the failure as text where there is no value. Dates without a time are kept as their midnight in the zone;
/// ranges as their beginning; times of day, for which items have no type, as texts that are in their order (`09:30:00`, `09:30:00.25`).
pub fn as_item_value(value: &formula::Value<'_>, zone: &Zone) -> std::result::Result<Value, String> {
    Ok(match value {
        formula::Value::Text(text) => Value::Text(text.to_string()),
        formula::Value::Texts(texts) => Value::TextList(texts.iter().map(|text| text.to_string()).collect()),
        formula::Value::Number(number) => Value::Number(*number),
        formula::Value::Numbers(numbers) => Value::NumberList(numbers.to_vec()),
        formula::Value::Time(moment) => match clock_of(*moment) {
            Some(clock) => Value::Text(clock),
            None => Value::Time(start_of(*moment, zone)?),
        },
        formula::Value::Times(moments) => {
            let clocks: Vec<String> = moments.iter().filter_map(|moment| clock_of(*moment)).collect();
            match clocks.len() {
                0 => Value::TimeList(
                    moments.iter().map(|moment| start_of(*moment, zone)).collect::<std::result::Result<_, _>>()?,
                ),
                count if count == moments.len() => Value::TextList(clocks),
                _ => return Err("times of day and times with a date cannot be kept in one list".to_owned()),
            }
        }
        formula::Value::Error(failure) => return Err(failure.kind.to_string()),
    })
}

fn start_of(moment: Moment, zone: &Zone) -> std::result::Result<Timestamp, String> {
    zone.start(moment).ok_or_else(|| "the time cannot be told in this zone".to_owned())
}

/// Writes a time of day, or the beginning of a range of them; nothing of what has a date.
fn clock_of(moment: Moment) -> Option<String> {
    let (Moment::Clock(hundredths) | Moment::Clocks(hundredths, _)) = moment else { return None };
    let (seconds, hundredths) = (hundredths / 100, hundredths % 100);
    let clock = format!("{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Some(if hundredths == 0 { clock } else { format!("{clock}.{hundredths:02}") })
}

/// What an evaluation may ask about besides the document.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The time that holds for the whole evaluation.
    pub now: Timestamp,
    /// Who evaluates, canonical.
    pub user: String,
    /// All names of that one: own, groups, roles.
    pub user_names: Vec<String>,
    /// The roles.
    pub roles: Vec<String>,
    /// The server, canonical.
    pub server: String,
    /// The path of the database.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Its replica id.
    pub replica_id: Option<ReplicaId>,
    /// The view that is built or read, by its title.
    pub view: String,
    /// What the user may do in the database.
    pub access: Option<formula::host::Access>,
}

impl Surroundings {
    /// Describes a database for the server itself, which evaluates for nobody in particular.
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

impl Host for Surroundings {
    fn now(&self) -> Timestamp {
        self.now
    }

    fn fact(&self, fact: Fact) -> Option<&str> {
        let text = match fact {
            Fact::UserName => &self.user,
            Fact::ServerName => &self.server,
            Fact::DatabasePath => &self.path,
            Fact::DatabaseTitle => &self.title,
            Fact::ViewTitle => &self.view,
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

impl Reading<'_> {
    /// Describes this database for the one who reads it.
    #[must_use]
    pub fn surroundings(&self) -> Surroundings {
        let (database, grant) = (self.database(), self.grant());
        let access = formula::host::Access {
            level: grant.level() as u8,
            creates: grant.may_create(),
            deletes: !grant.flags().has(crate::acl::AclFlags::NO_DELETE),
        };
        Surroundings {
            user: grant.name().map_or_else(String::new, |name| name.canonical().to_owned()),
            user_names: grant.names().map(str::to_owned).collect(),
            roles: grant.roles().map(str::to_owned).collect(),
            access: Some(access),
            ..Surroundings::of(database, database.clock.now())
        }
    }

    /// Tells which body items a note has of which a search gave the subject; [`Reading::body_item`] reads them. One that is not stored has none.
    pub fn body_of(&self, subject: &Subject<'_>) -> Result<Vec<BodyItem>> {
        if subject.behind.is_empty() {
            return Ok(Vec::new());
        }
        let damaged = |_| reading::damaged_note(self.database(), subject.header.note, "summary");
        note::body_items(subject.behind).map_err(damaged)
    }

    /// Calls `each` for the documents that changed after `since` and that the selection takes, in the order of their changes, until it says to stop.
    /// Documents that Readers items hide are left out.
    pub fn search(
        &self,
        selection: &Formula,
        since: Modseq,
        each: &mut dyn FnMut(&Subject<'_>) -> Result<bool>,
    ) -> Result<Searched> {
        let surroundings = self.surroundings();
        let mut searched = Searched { up_to: since, looked_at: 0, stopped: 0 };
        change::scan_while(&self.snapshot, self.database().number(), since, &mut |entry| {
            let Some(header) = self.header(entry.note)? else { return Ok(true) };
            if header.is_stub() || header.class != NoteClass::DOCUMENT || header.modseq != entry.modseq {
                return Ok(true);
            }
            let Some(bytes) = load_summary_bytes(&self.snapshot, self.database(), entry.note)? else { return Ok(true) };
            let subject = subject(&header, &bytes, self.database())?;
            searched.looked_at += 1;
            let goes_on = match selection.evaluate_within(&subject, &surroundings, DOCUMENT_LIMITS) {
                Ok(outcome) if outcome.selected => each(&subject)?,
                Ok(_) => true,
                Err(_) => {
                    searched.stopped += 1;
                    true
                }
            };
            searched.up_to = entry.modseq;
            Ok(goes_on)
        })?;
        Ok(searched)
    }
}

/// What a search went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Searched {
    /// The modseq of the last document that was looked at.
    pub up_to: Modseq,
    /// Documents that were looked at.
    pub looked_at: u64,
    /// Documents over which the formula came to a limit; they count as not selected.
    pub stopped: u64,
}

/// Makes the subject of a header and a stored summary record.
pub(crate) fn subject<'n>(header: &'n Header, bytes: &'n [u8], database: &Database) -> Result<Subject<'n>> {
    let damaged = |_| reading::damaged_note(database, header.note, "summary");
    let (items, behind) = note::split_summary(bytes).map_err(damaged)?;
    Ok(Subject { behind, ..Subject::new(header, items) })
}
