//! The documents of `log.nsf` about replications, and `doublet replication log`, which shows them.

use std::sync::Arc;

use base::{Name, NoteId, Timestamp};
use instance::Instance;
use notes::item::find_item;
use notes::{Access, Database, DatabaseKind, Item, ItemValue, level};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::servers::server_name;
use super::{AdminError, AdminResult, Answer};

/// Path of the log of a server.
pub const LOG_PATH: &str = "log.nsf";

/// Name of the template of the log.
pub const LOG_TEMPLATE: &str = "log";

/// The form of documents about replications.
pub const FORM: &str = "Replication";

/// Result of a run that has taken over everything.
pub const COMPLETE: &str = "complete";

const FORM_ITEM: &str = "Form";
const DATABASE_ITEM: &str = "Database";
const OTHER_ITEM: &str = "SourceServer";
const INITIATOR_ITEM: &str = "Initiator";
const BEGAN_ITEM: &str = "StartTime";
const ENDED_ITEM: &str = "FinishTime";
const RESULT_ITEM: &str = "Result";
const RUNS_ITEM: &str = "Runs";

/// The items with counts, and the columns that show them.
pub const COUNTS: [(&str, &str); 12] = [
    ("Listed", "listed"),
    ("Received", "received"),
    ("Deleted", "deleted"),
    ("Merged", "merged"),
    ("Conflicts", "conflicts"),
    ("States", "states"),
    ("Refused", "refused"),
    ("LeftOut", "left_out"),
    ("Skipped", "skipped"),
    ("HeldBack", "held_back"),
    ("UnreadMarks", "unread_marks"),
    ("BytesReceived", "bytes_received"),
];

/// The counts that say what has changed in the replica.
const CHANGES: [&str; 6] = ["Received", "Deleted", "Merged", "Conflicts", "States", "UnreadMarks"];

/// Maximum size of the result and of the path in a document, in bytes.
const TEXT_BYTES_MAX: usize = 1_000;

/// A run of a replication, or several that changed nothing and ended alike.
#[derive(Clone, PartialEq, Debug)]
pub struct LogEntry {
    /// Path of the database, or nothing if the other server could not be reached.
    pub database: String,
    /// The other server.
    pub other: Name,
    /// Why the run was made: by a command, a connection, or a request of the other server.
    pub initiator: String,
    /// Beginning of the first run.
    pub began: Timestamp,
    /// End of the last run.
    pub ended: Timestamp,
    /// [`COMPLETE`], or why the run has ended before.
    pub result: String,
    /// Number of runs.
    pub runs: u64,
    /// The counts, by the names of their items ([`COUNTS`]).
    pub counts: Vec<(&'static str, u64)>,
}

impl Default for LogEntry {
    fn default() -> Self {
        Self {
            database: String::new(),
            other: Name::new(""),
            initiator: String::new(),
            began: Timestamp(0),
            ended: Timestamp(0),
            result: COMPLETE.to_owned(),
            runs: 1,
            counts: Vec::new(),
        }
    }
}

impl LogEntry {
    /// Returns `true` if the runs have changed the replica.
    #[must_use]
    pub fn changes_something(&self) -> bool {
        self.counts.iter().any(|(name, count)| *count > 0 && CHANGES.contains(name))
    }

    /// Returns the entry of these runs and a later one with the same result, with the sums of their counts.
    #[must_use]
    pub fn followed_by(&self, later: &Self) -> Self {
        let add = |(name, count): &(&'static str, u64)| {
            let more = later.counts.iter().find(|(other, _)| other == name).map_or(0, |(_, count)| *count);
            (*name, count + more)
        };
        Self {
            ended: later.ended,
            runs: self.runs + later.runs,
            counts: self.counts.iter().map(add).collect(),
            initiator: later.initiator.clone(),
            ..self.clone()
        }
    }

    /// Returns the items of the document.
    #[must_use]
    pub fn to_items(&self) -> Vec<Item> {
        let number = |count: u64| ItemValue::Number(count as f64);
        let mut items = vec![
            Item::text(FORM_ITEM, FORM),
            Item::text(DATABASE_ITEM, shortened(&self.database)),
            Item::text(OTHER_ITEM, self.other.canonical()),
            Item::text(INITIATOR_ITEM, &*self.initiator),
            Item::summary(BEGAN_ITEM, ItemValue::Time(self.began)),
            Item::summary(ENDED_ITEM, ItemValue::Time(self.ended)),
            Item::text(RESULT_ITEM, shortened(&self.result)),
            Item::summary(RUNS_ITEM, number(self.runs)),
        ];
        items.extend(self.counts.iter().map(|(name, count)| Item::summary(*name, number(*count))));
        items
    }

    /// Reads the items of a document. Returns `None` for other documents.
    fn read(items: &[Item]) -> Option<Self> {
        let value = |name: &str| find_item(items, name).map(|item| &item.value);
        let text = |name: &str| value(name).and_then(ItemValue::text).unwrap_or_default().to_owned();
        let time = |name: &str| value(name).and_then(ItemValue::time);
        let count = |name: &str| value(name).and_then(ItemValue::number).map_or(0, |number| number as u64);
        if text(FORM_ITEM) != FORM {
            return None;
        }
        Some(Self {
            database: text(DATABASE_ITEM),
            other: Name::new(&text(OTHER_ITEM)),
            initiator: text(INITIATOR_ITEM),
            began: time(BEGAN_ITEM)?,
            ended: time(ENDED_ITEM)?,
            result: text(RESULT_ITEM),
            runs: count(RUNS_ITEM),
            counts: COUNTS.iter().map(|(name, _)| (*name, count(name))).collect(),
        })
    }

    fn row(&self) -> Value {
        let mut fields = vec![
            ("finished_at", timestamp_json(Some(self.ended))),
            ("database", json!(self.database)),
            ("from", json!(self.other.abbreviated())),
            ("by", json!(self.initiator)),
            ("result", json!(self.result)),
            ("runs", json!(self.runs)),
            ("milliseconds", json!(self.ended.since(self.began).as_millis() as u64)),
        ];
        let value = |name: &str| self.counts.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count);
        fields.extend(COUNTS.iter().map(|(name, column)| (*column, json!(value(name)))));
        record(fields)
    }
}

/// Returns a text without what exceeds the maximum size.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Opens the log, if there is one.
pub fn open_log(instance: &Instance) -> Result<Option<Arc<Database>>, AdminError> {
    let log = match instance.databases.database_open(LOG_PATH) {
        Err(notes::Error::NotFound { .. }) => return Ok(None),
        opened => opened?,
    };
    if log.record().kind != DatabaseKind::Log {
        let reason = format!("{LOG_PATH} is not the log of a server; give it another path (`doublet db rename`)");
        return Err(AdminError::Refused(reason));
    }
    Ok(Some(log))
}

/// Returns the last entries of the log, the latest first.
pub fn last(
    instance: &Instance,
    count_max: usize,
    is_wanted: &dyn Fn(&LogEntry) -> bool,
) -> Result<Vec<LogEntry>, AdminError> {
    if open_log(instance)?.is_none() {
        return Ok(Vec::new());
    }
    let reader: Access<level::Reader> = open(instance, LOG_PATH)?.downgrade();
    let reading = reader.read()?;
    let mut found = Vec::new();
    let mut id = reading.counters().next_note.0;
    while id > 0 && found.len() < count_max {
        id -= 1;
        let note = reading.note(NoteId(id))?;
        found.extend(note.and_then(|note| LogEntry::read(&note.items)).filter(|entry| is_wanted(entry)));
    }
    Ok(found)
}

/// Executes `doublet replication log`.
pub(super) fn show(instance: &Instance, database: Option<&str>, from: Option<&str>, count_max: u32) -> AdminResult {
    let other = from.map(|from| server_name(instance, from));
    let is_wanted = |entry: &LogEntry| {
        database.is_none_or(|path| entry.database.eq_ignore_ascii_case(path))
            && other.as_ref().is_none_or(|other| entry.other == *other)
    };
    let entries = last(instance, count_max as usize, &is_wanted)?;
    if entries.is_empty() {
        return Ok(Answer::message(
            "The log has no such replications. Those that changed nothing are written each hour.",
        ));
    }
    Ok(Answer::list(entries.iter().map(LogEntry::row).collect()))
}
