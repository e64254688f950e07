//! Actions: what the keys of a step say about its verb.

use serde::Serialize;

use super::ARCHIVE;
use super::limits::{NAMES_MAX, RECIPIENTS_MAX, SCREEN_ROWS_MAX, SEARCH_WORDS_MAX, VIEW_BYTES_MAX};
use super::profile::SERVER_LOAD;
use super::table::Table;
use super::units::Share;
use super::verb::Verb;

/// The keys of a step that its verb has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Action {
    /// The verb has no keys.
    Plain {},
    /// `open_view` and `rebuild_view`.
    View {
        /// The view, or `None` for the Inbox or the view of the database.
        view: Option<String>,
    },
    /// `scroll_view`.
    Scroll {
        /// The rows of a screen.
        rows: u64,
        /// Where the screen begins.
        at: Position,
    },
    /// `read`.
    Read {
        /// The document.
        of: Document,
        /// The share of the attachments met that are read.
        attachments: Share,
    },
    /// `read_attachment`, `update` and `delete`.
    Document {
        /// The document.
        of: Document,
    },
    /// `move`.
    Move {
        /// The document.
        of: Document,
        /// The folder.
        to: String,
    },
    /// `add`.
    Add {
        /// The size of the new document.
        size: Size,
    },
    /// `respond` and `reply`.
    Answer {
        /// The document that is answered.
        of: Document,
        /// The size of the answer.
        size: Size,
        /// Whether the answer is saved among the sent messages.
        copy: bool,
    },
    /// `lookup`.
    Lookup {
        /// Names in one call.
        names: u64,
    },
    /// `send`.
    Send {
        /// The recipients.
        recipients: Recipients,
        /// Whether the sender is another user, who is drawn.
        from: Sender,
        /// The size of the message.
        size: Size,
        /// Whether the message is saved among the sent messages.
        copy: bool,
    },
    /// `invite`.
    Invite {
        /// The number of invited users.
        recipients: u64,
    },
    /// `search`.
    Search {
        /// The number of words, all of which must occur.
        words: u64,
    },
    /// `pull`.
    Pull {
        /// How the documents are requested.
        method: PullMethod,
    },
}

/// The first row of a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// After the rows that were read last.
    Next,
    /// Anywhere.
    Random,
    /// The first row of the view.
    First,
}

/// The document of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Document {
    /// Drawn from the rows that were read last.
    Screen,
    /// The k-th newest for the k-th repetition.
    Newest,
    /// The one that was read last.
    Last,
    /// Drawn from those that this user has added in this run.
    Own,
}

/// The size of a message or document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Drawn from a size profile.
    Profile(String),
    /// Always the same number of bytes.
    Bytes(u64),
}

/// The recipients of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipients {
    /// That many users, who are drawn.
    Drawn(u64),
    /// The user.
    #[serde(rename = "self")]
    Oneself,
}

/// The sender of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sender {
    /// The user.
    #[serde(rename = "self")]
    Oneself,
    /// Another user, who is drawn.
    Random,
}

/// How a database is pulled into an empty replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PullMethod {
    /// One call for all documents.
    Stream,
    /// A call for each document.
    Call,
}

const DOCUMENTS: &[(&str, Document)] =
    &[("screen", Document::Screen), ("newest", Document::Newest), ("last", Document::Last), ("own", Document::Own)];
const POSITIONS: &[(&str, Position)] =
    &[("next", Position::Next), ("random", Position::Random), ("first", Position::First)];
const SENDERS: &[(&str, Sender)] = &[("self", Sender::Oneself), ("random", Sender::Random)];
const PULL_METHODS: &[(&str, PullMethod)] = &[("stream", PullMethod::Stream), ("call", PullMethod::Call)];

/// What steps refer to.
pub struct References<'a> {
    /// The names of the size profiles.
    pub profiles: &'a [&'a str],
    /// The names of the databases.
    pub databases: &'a [&'a str],
    /// The rows of a screen if a step does not say otherwise.
    pub rows: u64,
}

/// Reads the keys of a verb from the table of a step.
pub fn read(verb: Verb, step: &Table<'_>, references: &References<'_>) -> Action {
    let of = |default| step.choice("of", DOCUMENTS).unwrap_or(default);
    let size = || read_size(step, references.profiles);
    let integer = |key, max, default| step.integer(key, 1..=max).unwrap_or(default);
    match verb {
        Verb::OpenView | Verb::RebuildView => Action::View { view: step.text("view", VIEW_BYTES_MAX) },
        Verb::ScrollView => Action::Scroll {
            rows: integer("rows", SCREEN_ROWS_MAX, references.rows),
            at: step.choice("at", POSITIONS).unwrap_or(Position::Next),
        },
        Verb::Read => {
            Action::Read { of: of(Document::Screen), attachments: step.share("attachments").unwrap_or_default() }
        }
        Verb::ReadAttachment | Verb::Update | Verb::Delete => Action::Document { of: of(Document::Screen) },
        Verb::Move => {
            let to = step.text("to", VIEW_BYTES_MAX).unwrap_or_else(|| ARCHIVE.to_owned());
            Action::Move { of: of(Document::Screen), to }
        }
        Verb::Add => Action::Add { size: size() },
        Verb::Respond => Action::Answer { of: of(Document::Screen), size: size(), copy: false },
        Verb::Reply => Action::Answer { of: of(Document::Last), size: size(), copy: read_copy(step) },
        Verb::Lookup => Action::Lookup { names: integer("names", NAMES_MAX, 1) },
        Verb::Send => Action::Send {
            recipients: read_recipients(step),
            from: step.choice("from", SENDERS).unwrap_or(Sender::Oneself),
            size: size(),
            copy: read_copy(step),
        },
        Verb::Invite => Action::Invite { recipients: integer("recipients", RECIPIENTS_MAX, 1) },
        Verb::Search => Action::Search { words: integer("words", SEARCH_WORDS_MAX, 1) },
        Verb::Pull => Action::Pull { method: step.choice("method", PULL_METHODS).unwrap_or(PullMethod::Stream) },
        _ => Action::Plain {},
    }
}

fn read_copy(step: &Table<'_>) -> bool {
    step.boolean("copy").unwrap_or(false)
}

fn read_recipients(step: &Table<'_>) -> Recipients {
    let drawn = step.integer("recipients", 1..=RECIPIENTS_MAX);
    if !step.has("to") {
        return Recipients::Drawn(drawn.unwrap_or(1));
    }
    step.forbid("recipients", "together with to");
    let to = step.choice("to", &[("self", Recipients::Oneself)]);
    to.unwrap_or(Recipients::Oneself)
}

fn read_size(step: &Table<'_>, profiles: &[&str]) -> Size {
    let bytes = step.bytes("bytes");
    let profile = step.reference("profile", profiles);
    if step.has("profile") {
        step.forbid("bytes", "together with profile");
    }
    match (profile, bytes) {
        (Some(name), _) => Size::Profile(name),
        (None, Some(bytes)) => Size::Bytes(bytes),
        (None, None) => Size::Profile(SERVER_LOAD.to_owned()),
    }
}
