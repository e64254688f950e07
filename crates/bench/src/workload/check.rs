//! The check of a file: its text and the options `--set` become a [`Workload`], or all errors.
//!
//! Tables are read in one pass, in which each key is checked by itself and wrong values are replaced by defaults. Rules
//! about several tables are checked only if this pass finds no errors, because defaults would violate them.

use std::collections::{BTreeMap, BTreeSet};

use super::action::{Action, References, Sender};
use super::class::{self, Class, Defaults, Members, Rhythm};
use super::document::{self, Reader};
use super::finding::Finding;
use super::limits::{
    ABOUT_BYTES_MAX, DATABASE_COUNT_MAX, DATABASES_MAX, DOCUMENTS_MAX, ITERATIONS_MAX, PARTS_MAX, REMARK_BYTES_MAX,
    SCREEN_ROWS_MAX, TAGS_MAX, TITLE_BYTES_MAX, USERS_MAX, VIEW_BYTES_MAX,
};
use super::profile::{self, SERVER_LOAD};
use super::source::meaning as meaning_of_tag;
use super::table::{Table, is_name};
use super::units::{HOUR_US, Share, Spread, format_integer};
use super::verb::Verb;
use super::{
    DOORS, Database, Directory, Door, Mailbox, NativeCalls, NoteRead, Part, PartName, Requirement, Session,
    UsedParameter, Workload, parameter,
};

/// The version of the grammar.
const FORMAT: u64 = 1;

/// Keys of the file.
pub const KEYS: &[&str] = &[
    "format",
    "name",
    "title",
    "about",
    "tags",
    "door",
    "pace",
    "session",
    "iteration",
    "jitter",
    "pause",
    "iterations",
    "users",
    "settle",
    "measure",
    "parameters",
    "mailbox",
    "directory",
    "native",
    "database",
    "profile",
    "requires",
    "parts",
    "class",
    "step",
];
/// Keys of `mailbox`.
pub const MAILBOX_KEYS: &[&str] = &["documents", "archive", "profile", "unread", "full_text"];
/// Keys of `directory`.
pub const DIRECTORY_KEYS: &[&str] = &["people", "recipients", "lookups"];
/// Keys of `database`.
pub const DATABASE_KEYS: &[&str] = &["name", "template", "count", "documents", "bytes", "view", "full_text"];
/// Keys of `native`.
pub const NATIVE_KEYS: &[&str] = &["read", "batch", "rows", "compression"];
const PART_KEYS: &[&str] = &["name", "every", "maximum_lag"];

const SESSIONS: &[(&str, Session)] = &[("once", Session::Once), ("iteration", Session::Iteration)];
const NOTE_READS: &[(&str, NoteRead)] = &[("whole", NoteRead::Whole), ("items", NoteRead::Items)];
const REQUIREMENTS: &[(&str, Requirement)] = &[
    ("transaction-log", Requirement::TransactionLog),
    ("full-text", Requirement::FullText),
    ("authentication", Requirement::Authentication),
    ("tls", Requirement::Tls),
    ("cluster-replication", Requirement::ClusterReplication),
    ("journaling", Requirement::Journaling),
];
const PART_NAMES: &[(&str, PartName)] = &[
    ("cluster-replication", PartName::ClusterReplication),
    ("cluster-failover", PartName::ClusterFailover),
    ("scheduled-push", PartName::ScheduledPush),
];

const MEASURE_US_MIN: u64 = 1_000_000;

/// Checks the text of a file. `assignments` are the values of the options `--set`, `NAME=VALUE`.
pub fn check(text: &str, assignments: &[String]) -> Result<Workload, Vec<Finding>> {
    let root = document::parse(text)?;
    let reader = Reader::new(text);
    let workload = read(&reader, &mut Table::file(&reader, &root), assignments);
    match workload {
        Some(workload) if !reader.has_findings() => Ok(workload),
        _ => Err(reader.into_findings()),
    }
}

/// Reads the file. Returns `None` if its format is unknown, so that nothing else in it has a meaning.
fn read(reader: &Reader<'_>, file: &mut Table<'_>, assignments: &[String]) -> Option<Workload> {
    read_format(file)?;
    let tags = read_tags(file);
    reader.set_tags(tags.clone());
    file.check_keys(KEYS);
    ["name", "title"].iter().for_each(|key| file.require(key));
    reader.set_parameters(parameter::read(file, assignments));
    let profiles = profile::read_all(file);
    let databases = read_databases(file);
    let native = read_native(file);
    let profile_names: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let mailbox = read_mailbox(file, &profile_names);
    let database_names: Vec<&str> = databases.iter().map(|database| database.name.as_str()).collect();
    let references = References { profiles: &profile_names, databases: &database_names, rows: native.rows };
    let classes = class::read_all(file, &Defaults { rhythm: read_rhythm(file), references });
    let mut workload = Workload {
        name: file.name("name").unwrap_or_default(),
        title: file.literal("title", TITLE_BYTES_MAX).unwrap_or_default(),
        about: file.literal("about", ABOUT_BYTES_MAX).unwrap_or_default(),
        door: file.choice("door", DOORS).unwrap_or(Door::Native),
        session: file.choice("session", SESSIONS).unwrap_or(Session::Once),
        iterations: file.integer("iterations", 0..=ITERATIONS_MAX).unwrap_or(0),
        users: file.integer("users", 1..=USERS_MAX).unwrap_or(1),
        settle_us: file.duration("settle", 0).unwrap_or(0),
        measure_us: file.duration("measure", MEASURE_US_MIN).unwrap_or(HOUR_US),
        mailbox,
        directory: read_directory(file),
        native,
        databases,
        profiles,
        requires: file.choices("requires", REQUIREMENTS),
        parts: read_parts(file),
        classes,
        parameters: reader.parameters().map(|(_, parameter)| used(parameter)).collect(),
        numbers: Vec::new(),
        tags,
    };
    parameter::check_used(reader);
    if !reader.has_findings() {
        check_databases(file, &workload);
        check_users(file, &workload);
    }
    workload.numbers = reader.take_numbers();
    Some(workload)
}

fn used(parameter: &parameter::Parameter) -> UsedParameter {
    UsedParameter {
        name: parameter.name.clone(),
        value: parameter.value.clone(),
        default: parameter.default_text.clone(),
        about: parameter.about.clone(),
        source: parameter.source.clone(),
    }
}

fn read_format(file: &Table<'_>) -> Option<()> {
    file.require("format");
    let value = file.value("format")?;
    match value.scalar {
        Some(document::Scalar::Integer(number)) if number == FORMAT as i64 => Some(()),
        _ => {
            file.refuse("format", format!("this program reads format {FORMAT}, not {}", value.written));
            None
        }
    }
}

fn read_tags(file: &Table<'_>) -> BTreeMap<String, String> {
    let Some(table) = file.table("tags") else { return BTreeMap::new() };
    let names = table.names();
    if names.len() > TAGS_MAX {
        file.refuse("tags", format!("there are more than {TAGS_MAX} tags"));
        return BTreeMap::new();
    }
    let mut tags = BTreeMap::new();
    for name in names {
        if meaning_of_tag(name).is_some() {
            table.refuse(name, "the reference has this tag already");
        } else if !is_name(name) {
            table.refuse(name, "a tag is a name of at most 40 letters, digits, _ and -");
        }
        let meaning = table.literal(name, REMARK_BYTES_MAX).unwrap_or_default();
        tags.insert(name.to_owned(), meaning);
    }
    tags
}

fn read_rhythm(file: &Table<'_>) -> Rhythm {
    let is_paced = file.choice("pace", &[("timetable", true), ("unpaced", false)]).unwrap_or(true);
    if is_paced {
        file.require("iteration");
    }
    // A missing iteration is a finding. The default prevents that the sum of the pauses is another one.
    let iteration_us = is_paced.then_some(u64::MAX);
    class::read_rhythm(file, Rhythm { iteration_us, jitter_us: 0, pause: Spread::default() })
}

fn read_mailbox(file: &Table<'_>, profiles: &[&str]) -> Mailbox {
    let default = Mailbox {
        documents: 0,
        archive: 0,
        profile: SERVER_LOAD.to_owned(),
        unread: Share::from_millionths(100_000).unwrap_or_default(),
        full_text: false,
    };
    let Some(mut table) = file.table("mailbox") else { return default };
    table.check_keys(MAILBOX_KEYS);
    Mailbox {
        documents: table.integer("documents", 0..=DOCUMENTS_MAX).unwrap_or(default.documents),
        archive: table.integer("archive", 0..=DOCUMENTS_MAX).unwrap_or(default.archive),
        profile: table.reference("profile", profiles).unwrap_or(default.profile),
        unread: table.share("unread").unwrap_or(default.unread),
        full_text: table.boolean("full_text").unwrap_or(default.full_text),
    }
}

fn read_directory(file: &Table<'_>) -> Directory {
    let Some(mut table) = file.table("directory") else {
        return Directory { people: None, recipients: None, lookups: None };
    };
    table.check_keys(DIRECTORY_KEYS);
    let directory = Directory {
        people: table.integer("people", 1..=DOCUMENTS_MAX),
        recipients: table.integers("recipients", 1..=USERS_MAX),
        lookups: table.integers("lookups", 1..=DOCUMENTS_MAX),
    };
    if let (Some(people), Some([_, last])) = (directory.people, directory.lookups)
        && last > people
    {
        table.refuse("lookups", format!("the range ends after the last of {} people", format_integer(people)));
    }
    directory
}

fn read_native(file: &Table<'_>) -> NativeCalls {
    let default = NativeCalls { read: NoteRead::Whole, batch: false, rows: 50, compression: false };
    let Some(mut table) = file.table("native") else { return default };
    table.check_keys(NATIVE_KEYS);
    NativeCalls {
        read: table.choice("read", NOTE_READS).unwrap_or(default.read),
        batch: table.boolean("batch").unwrap_or(default.batch),
        rows: table.integer("rows", 1..=SCREEN_ROWS_MAX).unwrap_or(default.rows),
        compression: table.boolean("compression").unwrap_or(default.compression),
    }
}

fn read_databases(file: &Table<'_>) -> Vec<Database> {
    let mut names = BTreeSet::new();
    let mut databases = Vec::new();
    for mut table in file.tables("database", "database", DATABASES_MAX) {
        table.check_keys(DATABASE_KEYS);
        table.require("name");
        let database = Database {
            name: table.name("name").unwrap_or_default(),
            template: table.name("template").unwrap_or_else(|| "discussion".to_owned()),
            count: table.integer("count", 0..=DATABASE_COUNT_MAX).unwrap_or(1),
            documents: table.integer("documents", 0..=DOCUMENTS_MAX).unwrap_or(0),
            bytes: table.bytes("bytes").unwrap_or(2_000),
            view: table.text("view", VIEW_BYTES_MAX).unwrap_or_else(|| "All Documents".to_owned()),
            full_text: table.boolean("full_text").unwrap_or(false),
        };
        if !names.insert(database.name.clone()) {
            table.refuse("name", "there is another database of this name");
        }
        databases.push(database);
    }
    databases
}

fn read_parts(file: &Table<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for mut table in file.tables("parts", "part", PARTS_MAX) {
        table.check_keys(PART_KEYS);
        table.require("name");
        let every_us = table.duration("every", 1_000);
        let maximum_lag_us = table.duration("maximum_lag", 0);
        parts.extend(table.choice("name", PART_NAMES).map(|name| Part { name, every_us, maximum_lag_us }));
    }
    parts
}

/// Checks that no class with users works in databases that `count = 0` leaves out.
fn check_databases(file: &Table<'_>, workload: &Workload) {
    for class in workload.classes.iter().filter(|class| class.members != Members::Users(0)) {
        let Some(database) = workload.database_of(class) else { continue };
        if database.count == 0 {
            let names = format!("class {} works in database {}", class.name, database.name);
            file.refuse("class", format!("{names}, which count = 0 leaves out"));
        }
    }
}

/// Checks that the users of the file and those of classes with a fixed number are not too many together.
fn check_users(file: &Table<'_>, workload: &Workload) {
    let fixed = workload.classes.iter().map(|class| match class.members {
        Members::Users(users) => users,
        Members::Share(_) => 0,
    });
    if workload.users + fixed.sum::<u64>() > USERS_MAX {
        file.refuse("users", format!("all classes together have more than {} users", format_integer(USERS_MAX)));
    }
}

impl Workload {
    /// Returns the kind of database in which a class works, or `None` for the own mail file.
    pub fn database_of(&self, class: &Class) -> Option<&Database> {
        let name = class.database.as_ref()?;
        self.databases.iter().find(|database| database.name == *name)
    }

    /// Returns the senders of the messages that users send: themselves, or others.
    pub fn sends(&self) -> Vec<Sender> {
        let steps = self.classes.iter().flat_map(|class| &class.steps);
        let senders = steps.filter_map(|step| match (&step.action, step.verb) {
            (Action::Send { from, .. }, _) => Some(*from),
            (Action::Answer { .. }, Verb::Reply) => Some(Sender::Oneself),
            _ => None,
        });
        senders.collect()
    }
}
