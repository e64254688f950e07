//! Search: words in subjects, senders, texts or everything, in one folder or in all of them.
//!
//! The result is exact, as that of SEARCH in IMAP: the full-text index only says which messages need not be opened, and
//! without an index every message is opened. A search goes from the newest message to the oldest in steps, each of them
//! a job of its own, and offers to go on where it stopped.

use std::ops::ControlFlow;
use std::sync::Arc;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use base::{Uid, ViewId};
use mail::casemap::Needle;
use mail::mailbox::{MailSnapshot, Message};
use mail::mime::MimeSource as _;
use mail::search_texts::{BodyTexts, find_in_addresses, find_in_body, find_in_field};
use notes::FolderEntry;
use search::{ExcludedNotes, FullTextIndex, NotePart, SubstringKey};

use crate::answer;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::{
    SEARCH_BYTES_MAX, SEARCH_HITS, SEARCH_STEP_ENTRIES, SEARCH_STEP_OPENED, SEARCH_STEPS, SEARCH_WORDS_MAX,
};
use crate::mail_folders::{self, FolderChoice};
use crate::page::list::{FolderKind, MessageRow, row};
use crate::shown_time::ShownZone;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    layout: Layout,
    words: String,
    scope: &'static str,
    folder: Option<u32>,
    folders: Vec<FolderChoice>,
    hits: Vec<SearchHit>,
    is_searched: bool,
    /// The query that goes on.
    next: Option<String>,
}

impl SearchPage {
    fn is_chosen(&self, choice: &FolderChoice) -> bool {
        self.folder == Some(choice.id)
    }
}

struct SearchHit {
    folder: String,
    row: MessageRow,
}

/// The texts in which words are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Any,
    Subject,
    From,
    Text,
}

impl Scope {
    fn read(name: &str) -> Self {
        match name {
            "subject" => Self::Subject,
            "from" => Self::From,
            "text" => Self::Text,
            _ => Self::Any,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Subject => "subject",
            Self::From => "from",
            Self::Text => "text",
        }
    }

    fn has_header(self) -> bool {
        self != Self::Text
    }

    fn has_body(self) -> bool {
        matches!(self, Self::Any | Self::Text)
    }
}

/// The words of a search.
struct Search {
    scope: Scope,
    words: Vec<Needle>,
    /// For each word, the messages whose headers do not have it, as far as the index knows.
    without_in_header: Vec<ExcludedNotes>,
    /// For each word, the messages whose bodies do not have it.
    without_in_body: Vec<ExcludedNotes>,
    zone: ShownZone,
}

/// The place at which a search goes on: below a UID of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    folder: u32,
    below: u32,
}

/// What a step has found.
struct Step {
    hits: Vec<SearchHit>,
    /// The UID below which the folder was not searched, or `None` if it was searched to its end.
    rest: Option<u32>,
}

/// Shows the form, and the messages that have the words.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    // Characters without a shape are in no message as it is compared, and would be invisible on the page.
    let text = visit.query.text("q").replace(char::is_control, " ").trim().to_owned();
    if text.len() > SEARCH_BYTES_MAX {
        return Err(Error::Invalid("these are too many words".to_owned()));
    }
    let scope = Scope::read(visit.query.text("in"));
    let folder = visit.query.number("folder");
    let folders = visit.run_with_settings("folders", |file, _| {
        let snapshot = file.snapshot()?;
        Ok((mail_folders::choices(&snapshot)?, snapshot.ticket()))
    });
    let folders = folders.await?;
    let mut page = SearchPage {
        layout: visit.layout("Search").await?,
        is_searched: !text.is_empty(),
        words: text,
        scope: scope.name(),
        folder,
        folders,
        hits: Vec::new(),
        next: None,
    };
    if page.is_searched {
        let wanted = page.folders.iter().map(|choice| choice.id);
        let wanted: Vec<u32> = wanted.filter(|id| folder.is_none_or(|folder| folder == *id)).collect();
        let (hits, next) = search(&visit, &page.words, scope, &wanted).await?;
        page.hits = hits;
        page.next = next.map(|place| query(&page, place));
    }
    Ok(answer::page(StatusCode::OK, &page))
}

/// Returns the query that goes on at a place.
fn query(page: &SearchPage, place: Place) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("q", &page.words).append_pair("in", page.scope);
    if let Some(folder) = page.folder {
        query.append_pair("folder", &folder.to_string());
    }
    query.append_pair("at", &place.folder.to_string()).append_pair("below", &place.below.to_string());
    query.finish()
}

/// Searches folders one after another, until a page is full or the steps of one request are used up.
async fn search(visit: &Visit, text: &str, scope: Scope, folders: &[u32]) -> Result<(Vec<SearchHit>, Option<Place>)> {
    let search = Arc::new(begin(visit, text, scope).await?);
    let at = visit.query.number("at");
    let first = at.and_then(|at| folders.iter().position(|folder| *folder == at)).unwrap_or(0);
    let mut below = at.and(visit.query.number("below")).unwrap_or(u32::MAX);
    let mut hits: Vec<SearchHit> = Vec::new();
    let mut steps = 0;
    for folder in folders.iter().skip(first) {
        let mut rest = Some(below);
        while let Some(place) = rest {
            if hits.len() >= SEARCH_HITS || steps == SEARCH_STEPS {
                return Ok((hits, Some(Place { folder: *folder, below: place })));
            }
            let search = Arc::clone(&search);
            let place = Place { folder: *folder, below: place };
            let hits_max = SEARCH_HITS - hits.len();
            let step = visit.run("search", move |file| {
                let snapshot = file.snapshot()?;
                Ok((search.step(&snapshot, place, hits_max)?, snapshot.ticket()))
            });
            let step = step.await?;
            hits.extend(step.hits);
            rest = step.rest;
            steps += 1;
        }
        below = u32::MAX;
    }
    Ok((hits, None))
}

/// Prepares the words, and asks the index about them.
async fn begin(visit: &Visit, text: &str, scope: Scope) -> Result<Search> {
    let words: Vec<Needle> = text.split_whitespace().take(SEARCH_WORDS_MAX).map(Needle::new).collect();
    let caller = visit.caller.clone();
    let zone = visit.settings().await?.zone.clone();
    let prepare = visit.service.run(&visit.caller, "search", move |backend| {
        let mut search = Search { scope, words, without_in_header: Vec::new(), without_in_body: Vec::new(), zone };
        let index = backend.full_text().unwrap_or_else(|error| {
            warn(&error);
            None
        });
        if let Some(index) = index {
            let file = backend.open(&caller)?;
            search.ask(&file.snapshot()?, &index);
        }
        Ok(search)
    });
    prepare.await
}

fn warn(error: &search::Error) {
    tracing::warn!(target: "web", %error, "the full-text index cannot be used, searching the messages instead");
}

impl Search {
    /// Asks the index which messages do not have the words. Without an answer, the messages are opened.
    fn ask(&mut self, snapshot: &MailSnapshot<'_>, index: &FullTextIndex) {
        let keys = |part: NotePart, form: usize| {
            let keys =
                self.words.iter().map(|word| vec![SubstringKey { part, folded: word.folded()[form].to_owned() }]);
            keys.collect::<Vec<_>>()
        };
        let without = |is_wanted: bool, keys: Vec<Vec<SubstringKey>>| {
            if !is_wanted {
                return Vec::new();
            }
            snapshot.messages_without(index, &keys).unwrap_or_else(|error| {
                warn(&error);
                Vec::new()
            })
        };
        self.without_in_header = without(self.scope.has_header(), keys(NotePart::Header, 1));
        self.without_in_body = without(self.scope.has_body(), keys(NotePart::Body, 0));
    }

    /// Searches some messages of a folder, the newest first.
    fn step(&self, snapshot: &MailSnapshot<'_>, place: Place, hits_max: usize) -> Result<Step> {
        let folder = mail_folders::folder(snapshot, place.folder)?;
        let kind = FolderKind::of(&folder);
        let name = mail_folders::shown_name(&folder);
        let entries = entries_below(snapshot, folder.id, place.below)?;
        let is_last = entries.len() < SEARCH_STEP_ENTRIES;
        let mut step = Step { hits: Vec::new(), rest: None };
        let mut opened = 0;
        for entry in entries.iter().rev() {
            if step.hits.len() >= hits_max || opened >= SEARCH_STEP_OPENED {
                step.rest = entry.uid.0.checked_add(1);
                return Ok(step);
            }
            if !self.may_match(snapshot, entry) {
                continue;
            }
            opened += 1;
            let matches = match snapshot.message_of(entry) {
                Ok(Some(message)) => self.matches(&message),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match matches {
                Ok(false) => {}
                Ok(true) => {
                    let row = row(snapshot, folder.id, (entry, kind), &self.zone)?;
                    step.hits.push(SearchHit { folder: name.clone(), row });
                }
                // A damaged message has no words.
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error.into()),
            }
        }
        step.rest = entries.first().filter(|_| !is_last).map(|entry| entry.uid.0);
        Ok(step)
    }

    /// Returns `false` if the index knows that a message does not have all words.
    fn may_match(&self, snapshot: &MailSnapshot<'_>, entry: &FolderEntry) -> bool {
        let is_without = |excluded: &[ExcludedNotes], word: usize| {
            excluded.get(word).is_some_and(|excluded| excluded.excludes(entry.note, entry.modseq, snapshot.modseq()))
        };
        (0..self.words.len()).all(|word| {
            (self.scope.has_header() && !is_without(&self.without_in_header, word))
                || (self.scope.has_body() && !is_without(&self.without_in_body, word))
        })
    }

    /// Returns `true` if a message has all words.
    fn matches(&self, message: &Message<'_>) -> mail::Result<bool> {
        let header = message.header();
        let mut missing: Vec<&Needle> = self.words.iter().filter(|word| !self.is_in_header(header, word)).collect();
        if missing.is_empty() || !self.scope.has_body() {
            return Ok(missing.is_empty());
        }
        find_in_body(message, BodyTexts::Displayed, &mut |text| {
            missing.retain(|word| word.finder().find(text.as_bytes()).is_none());
            missing.is_empty()
        })
    }

    fn is_in_header(&self, header: &[u8], word: &Needle) -> bool {
        let mut is_in = |text: &str| word.field_finder().find(text.as_bytes()).is_some();
        match self.scope {
            Scope::Text => false,
            Scope::Subject => find_in_field(header, "Subject", &mut is_in),
            Scope::From => find_in_addresses(header, "From", &mut is_in),
            Scope::Any => {
                find_in_field(header, "Subject", &mut is_in)
                    || ["From", "To", "Cc"].iter().any(|field| find_in_addresses(header, field, &mut is_in))
            }
        }
    }
}

/// Returns the last entries of a folder below a UID, ascending.
fn entries_below(snapshot: &MailSnapshot<'_>, folder: ViewId, below: u32) -> Result<Vec<FolderEntry>> {
    let end = snapshot.rank(folder, Uid(below))?;
    let start = end.saturating_sub(u32::try_from(SEARCH_STEP_ENTRIES).unwrap_or(u32::MAX));
    let Some(first) = snapshot.uid_at(folder, start)? else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    let last = Uid(below.saturating_sub(1));
    snapshot.entries(folder, first..=last, &mut |entry| {
        entries.push(entry);
        Ok(if entries.len() < SEARCH_STEP_ENTRIES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(entries)
}
