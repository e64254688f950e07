//! Conditions on messages (RFC 8621 §4.4.1). The operators over them are those of all types ([`FilterTree`]).
//!
//! Conditions on metadata are decided by the table, and those on texts by the message itself, with the comparison of
//! IMAP SEARCH. The text of such a condition is a list of words, all of which must be found; words in quotes are one.
//! Cheap conditions are examined first. The full-text index names messages that certainly do not have a word, so they
//! need not be read; it never decides that a message matches.

use std::convert::Infallible;

use base::{Timestamp, ViewId};
use mail::casemap::Needle;
use mail::mailbox::Message;
use mail::mailbox_list::MailboxList;
use mail::message_table::{MessageRow, MessageTable, RowFilter};
use mail::mime::{MimeSource, header};
use mail::search_texts::{BodyTexts, find_in_addresses, find_in_body, find_in_field, folded_value};
use notes::Keywords;
use search::{ExcludedNotes, FullTextIndex, NotePart, SubstringKey};
use serde_json::Value;

use crate::account::AccountView;
use crate::arguments::{as_texts, as_unsigned, parse_utc_date};
use crate::email;
use crate::error::{MethodError, MethodResult};
use crate::filter_tree::FilterTree;
use crate::keyword::{self, KeywordTest};
use crate::limits::FILTER_WORDS_MAX;

/// A filter over messages in executable form.
pub type Filter = FilterTree<Test>;

/// One property of a condition.
#[derive(Clone, Debug)]
pub enum Test {
    /// `inMailbox`, or `None` if there is no such mailbox.
    InMailbox(Option<ViewId>),
    /// `inMailboxOtherThan`.
    InMailboxOtherThan(Vec<ViewId>),
    /// `before`.
    Before(Timestamp),
    /// `after`.
    After(Timestamp),
    /// `minSize`.
    MinSize(u64),
    /// `maxSize`.
    MaxSize(u64),
    /// `allInThreadHaveKeyword`.
    AllInThread(KeywordTest),
    /// `someInThreadHaveKeyword`.
    SomeInThread(KeywordTest),
    /// `noneInThreadHaveKeyword`.
    NoneInThread(KeywordTest),
    /// `hasKeyword`.
    HasKeyword(KeywordTest),
    /// `notKeyword`.
    NotKeyword(KeywordTest),
    /// `hasAttachment`.
    HasAttachment(bool),
    /// `text`, `body`, `subject` and fields with addresses.
    Text(TextPart, Vec<Word>),
    /// `header`: a name, and a text unless the field need only exist.
    Header(String, Option<Needle>),
}

/// A word of a text condition.
#[derive(Clone, Debug)]
pub struct Word {
    needle: Needle,
    /// The messages that do not have it, according to the full-text index.
    excluded: Option<ExcludedNotes>,
}

impl Word {
    fn new(text: &str) -> Self {
        Self { needle: Needle::new(text), excluded: None }
    }

    /// Returns the texts of the full-text index for the word in a part of messages.
    fn keys(&self, part: TextPart) -> Vec<SubstringKey> {
        let [text, field] = self.needle.folded().map(str::to_owned);
        let header = SubstringKey { part: NotePart::Header, folded: field };
        let body = SubstringKey { part: NotePart::Body, folded: text };
        match part {
            TextPart::Anywhere => vec![header, body],
            TextPart::Body => vec![body],
            TextPart::Addresses(_) | TextPart::Subject => vec![header],
        }
    }

    /// Returns `true` if the full-text index is certain that a message does not have the word.
    fn is_excluded_from(&self, row: &MessageRow, view: &AccountView<'_>) -> bool {
        let excluded = self.excluded.as_ref();
        excluded.is_some_and(|excluded| excluded.excludes(row.note, row.modseq, view.snapshot.modseq()))
    }
}

/// The part of a message that a text is searched in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// Addresses, subject and body.
    Anywhere,
    /// The body.
    Body,
    /// A field with addresses.
    Addresses(&'static str),
    /// The subject.
    Subject,
}

impl FilterTree<Test> {
    /// Parses the argument `filter` of a list of messages.
    pub fn of_messages(filter: Option<&Value>, mailboxes: &MailboxList, keywords: &Keywords) -> MethodResult<Self> {
        let parser = TestParser { mailboxes, keywords };
        let mut parsed = Self::parse(filter, &|name, value| match value {
            Value::Null => Ok(None),
            value => parser.test(name, value).map(Some),
        })?;
        parsed.sort_by_cost(&Test::is_expensive);
        Ok(parsed)
    }

    /// Returns the mailbox in which all matching messages are, if the filter has one.
    #[must_use]
    pub fn mailbox(&self) -> Option<Option<ViewId>> {
        match self {
            Self::All(parts) => parts.iter().find_map(Self::mailbox),
            Self::Test(Test::InMailbox(view)) => Some(*view),
            _ => None,
        }
    }

    /// Returns `true` if a message may match or not because of others of its thread.
    #[must_use]
    pub fn depends_on_threads(&self) -> bool {
        self.any_test(&|test| matches!(test, Test::AllInThread(_) | Test::SomeInThread(_) | Test::NoneInThread(_)))
    }

    /// Returns `true` if a message may match now and not later.
    #[must_use]
    pub fn is_mutable(&self) -> bool {
        let changes = |test: &Test| {
            let is_place = matches!(test, Test::InMailbox(_) | Test::InMailboxOtherThan(_));
            is_place || matches!(test, Test::HasKeyword(_) | Test::NotKeyword(_))
        };
        self.depends_on_threads() || self.any_test(&changes)
    }

    /// Returns `true` if the table alone decides the filter, also after later changes.
    #[must_use]
    pub fn is_decided_by_table(&self) -> bool {
        !self.any_test(&|test| match test {
            Test::HasAttachment(_) | Test::Text(..) | Test::Header(..) | Test::InMailbox(None) => true,
            Test::AllInThread(test) | Test::SomeInThread(test) | Test::NoneInThread(test) => !test.is_final(),
            Test::HasKeyword(test) | Test::NotKeyword(test) => !test.is_final(),
            _ => false,
        })
    }

    /// Returns the texts that the filter searches for in a part of messages or anywhere, for excerpts.
    #[must_use]
    pub fn words(filter: Option<&Value>, properties: &[&str]) -> Vec<String> {
        let mut words = Vec::new();
        let mut open: Vec<&Value> = filter.into_iter().collect();
        while let Some(next) = open.pop() {
            let Some(members) = next.as_object() else { continue };
            let is_not = members.get("operator").and_then(Value::as_str) == Some("NOT");
            if let Some(Value::Array(conditions)) = members.get("conditions").filter(|_| !is_not) {
                open.extend(conditions);
            }
            for text in properties.iter().filter_map(|name| members.get(*name)?.as_str()) {
                words.extend(split_words(text));
            }
        }
        words
    }

    /// Asks the full-text index which messages need not be read. Without an answer, the result is the same.
    pub fn consult(&mut self, index: &FullTextIndex, view: &AccountView<'_>) -> search::Result<()> {
        self.try_for_each(&mut |test| {
            let Test::Text(part, words) = test else { return Ok(()) };
            for word in words {
                let found = view.snapshot.messages_without(index, &[word.keys(*part)])?;
                word.excluded = found.into_iter().next();
            }
            Ok(())
        })
    }

    /// Returns `true` if the filter searches for texts.
    #[must_use]
    pub fn has_texts(&self) -> bool {
        self.any_test(&|test| matches!(test, Test::Text(..)))
    }

    /// Returns `true` if a message matches.
    pub fn matches(&self, row: &MessageRow, view: &AccountView<'_>) -> MethodResult<bool> {
        let mut candidate = Candidate { row, view, message: None };
        match self.evaluate(&mut |test| test.decide(&mut candidate)) {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, email = %row.email_id, "a message cannot be read");
                Ok(false)
            }
            other => Ok(other?),
        }
    }
}

/// A message that is examined. It is opened when its texts are first needed.
struct Candidate<'v> {
    row: &'v MessageRow,
    view: &'v AccountView<'v>,
    message: Option<Option<Message<'v>>>,
}

impl<'v> Candidate<'v> {
    fn message(&mut self) -> mail::Result<Option<&Message<'v>>> {
        if self.message.is_none() {
            self.message = Some(self.view.snapshot.message(self.row.note)?);
        }
        Ok(self.message.as_ref().and_then(Option::as_ref))
    }
}

impl RowFilter for Filter {
    fn matches(&self, row: &MessageRow, table: &MessageTable) -> bool {
        let decided = self.evaluate(&mut |test| Ok::<_, Infallible>(test.decide_by_table(row, table).unwrap_or(false)));
        decided.unwrap_or(false)
    }

    fn depends_on_threads(&self) -> bool {
        Self::depends_on_threads(self)
    }
}

impl Test {
    /// Returns `true` if the message must be read.
    fn is_expensive(&self) -> bool {
        matches!(self, Self::HasAttachment(_) | Self::Text(..) | Self::Header(..))
    }

    /// Evaluates the test if it needs no contents of the message.
    fn decide_by_table(&self, row: &MessageRow, table: &MessageTable) -> Option<bool> {
        let has = |test: &KeywordTest, row: &MessageRow| test.is_in(row.marks, &row.keywords);
        Some(match self {
            Self::InMailbox(view) => view.is_some_and(|view| row.places.contains(&view)),
            Self::InMailboxOtherThan(views) => row.places.iter().any(|place| !views.contains(place)),
            Self::Before(time) => row.received < *time,
            Self::After(time) => row.received >= *time,
            Self::MinSize(size) => row.size >= *size,
            Self::MaxSize(size) => row.size < *size,
            Self::AllInThread(test) => table.thread(&row.thread).all(|other| has(test, other)),
            Self::SomeInThread(test) => table.thread(&row.thread).any(|other| has(test, other)),
            Self::NoneInThread(test) => !table.thread(&row.thread).any(|other| has(test, other)),
            Self::HasKeyword(test) => has(test, row),
            Self::NotKeyword(test) => !has(test, row),
            Self::HasAttachment(_) | Self::Text(..) | Self::Header(..) => return None,
        })
    }

    fn decide(&self, candidate: &mut Candidate<'_>) -> mail::Result<bool> {
        if let Some(decision) = self.decide_by_table(candidate.row, &candidate.view.table) {
            return Ok(decision);
        }
        if let Self::Text(_, words) = self
            && words.iter().any(|word| word.is_excluded_from(candidate.row, candidate.view))
        {
            return Ok(false);
        }
        let Some(message) = candidate.message()? else { return Ok(false) };
        Ok(match self {
            Self::HasAttachment(wanted) => email::has_attachment(message.structure()) == *wanted,
            Self::Text(part, words) => has_words(message, *part, words)?,
            Self::Header(name, text) => {
                let mut fields = header::fields(message.header()).filter(|field| field.is(name));
                fields.any(|field| text.as_ref().is_none_or(|text| is_in(text.field_finder(), &folded_value(&field))))
            }
            _ => false,
        })
    }
}

/// Returns `true` if a part of a message has all of the words.
fn has_words(message: &Message<'_>, part: TextPart, words: &[Word]) -> mail::Result<bool> {
    let mut left: Vec<&Needle> = words.iter().map(|word| &word.needle).collect();
    let header = message.header();
    let is_anywhere = part == TextPart::Anywhere;
    for name in ["From", "To", "Cc", "Bcc"] {
        if is_anywhere || part == TextPart::Addresses(name) {
            find_in_addresses(header, name, &mut |text| {
                left.retain(|word| !is_in(word.field_finder(), text));
                left.is_empty()
            });
        }
    }
    if is_anywhere || part == TextPart::Subject {
        find_in_field(header, "Subject", &mut |text| {
            left.retain(|word| !is_in(word.field_finder(), text));
            left.is_empty()
        });
    }
    if !left.is_empty() && (is_anywhere || part == TextPart::Body) {
        find_in_body(message, BodyTexts::Displayed, &mut |text| {
            left.retain(|word| !is_in(word.finder(), text));
            left.is_empty()
        })?;
    }
    Ok(left.is_empty())
}

fn is_in(finder: &memchr::memmem::Finder<'static>, text: &str) -> bool {
    finder.find(text.as_bytes()).is_some()
}

/// Returns the words of a text. Words in double or single quotes are one, in which a backslash stands before quotes and
/// backslashes (RFC 8621 §4.4.1).
#[must_use]
pub fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = split_phrase(rest, first).unwrap_or_else(|| {
            let (word, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
            (word.to_owned(), after)
        });
        if !word.trim().is_empty() {
            words.push(word);
        }
        rest = after.trim_start();
    }
    words
}

/// Returns the phrase at the start of a text, and the rest. Returns `None` if `quote`, the first character, is no quote
/// or the phrase does not end.
fn split_phrase(text: &str, quote: char) -> Option<(String, &str)> {
    let inner = text.strip_prefix(['"', '\''])?;
    let mut phrase = String::new();
    let mut characters = inner.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => match characters.next()?.1 {
                escaped @ ('"' | '\'' | '\\') => phrase.push(escaped),
                other => phrase.extend(['\\', other]),
            },
            end if end == quote => return Some((phrase, &inner[index + quote.len_utf8()..])),
            other => phrase.push(other),
        }
    }
    None
}

/// What the tests of messages are parsed with.
struct TestParser<'p> {
    mailboxes: &'p MailboxList,
    keywords: &'p Keywords,
}

impl TestParser<'_> {
    fn test(&self, name: &str, value: &Value) -> MethodResult<Test> {
        let wrong = || invalid(format!("{name} has the wrong type"));
        let view = |id: &str| self.mailboxes.by_id(id).map(|mailbox| mailbox.view);
        let text = || value.as_str().ok_or_else(wrong);
        let number = || as_unsigned(value).ok_or_else(wrong);
        let time = || value.as_str().and_then(parse_utc_date).ok_or_else(wrong);
        let keyword = || {
            let name = value.as_str().filter(|name| keyword::is_valid(name)).ok_or_else(wrong)?;
            Ok::<_, MethodError>(KeywordTest::new(name, self.keywords))
        };
        let words = |part: TextPart| {
            let words = split_words(text()?);
            if words.len() > FILTER_WORDS_MAX {
                return Err(MethodError::described("unsupportedFilter", "a text has too many words"));
            }
            Ok(Test::Text(part, words.iter().map(|word| Word::new(word)).collect()))
        };
        Ok(match name {
            "inMailbox" => Test::InMailbox(view(text()?)),
            "inMailboxOtherThan" => {
                let ids = as_texts(value).ok_or_else(wrong)?;
                Test::InMailboxOtherThan(ids.iter().filter_map(|id| view(id)).collect())
            }
            "before" => Test::Before(time()?),
            "after" => Test::After(time()?),
            "minSize" => Test::MinSize(number()?),
            "maxSize" => Test::MaxSize(number()?),
            "allInThreadHaveKeyword" => Test::AllInThread(keyword()?),
            "someInThreadHaveKeyword" => Test::SomeInThread(keyword()?),
            "noneInThreadHaveKeyword" => Test::NoneInThread(keyword()?),
            "hasKeyword" => Test::HasKeyword(keyword()?),
            "notKeyword" => Test::NotKeyword(keyword()?),
            "hasAttachment" => Test::HasAttachment(value.as_bool().ok_or_else(wrong)?),
            "text" => words(TextPart::Anywhere)?,
            "from" => words(TextPart::Addresses("From"))?,
            "to" => words(TextPart::Addresses("To"))?,
            "cc" => words(TextPart::Addresses("Cc"))?,
            "bcc" => words(TextPart::Addresses("Bcc"))?,
            "subject" => words(TextPart::Subject)?,
            "body" => words(TextPart::Body)?,
            "header" => header_test(&as_texts(value).ok_or_else(wrong)?)?,
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        })
    }
}

fn header_test(texts: &[String]) -> MethodResult<Test> {
    match texts {
        [name] => Ok(Test::Header(name.clone(), None)),
        [name, text] => Ok(Test::Header(name.clone(), Some(Needle::new(text)))),
        _ => Err(invalid("header needs a name and at most one text")),
    }
}

fn invalid(description: impl Into<String>) -> MethodError {
    MethodError::invalid_arguments(description)
}
