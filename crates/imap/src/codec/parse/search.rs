//! Arguments of SEARCH, SORT and THREAD.
//!
//! Texts are decoded here with the command's CHARSET, so that no code after the decoder deals with charsets. One budget
//! that is passed down limits the number of keys and their nesting.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

use super::message::date_of;
use crate::codec::command::{
    AddressField, CommandBody, Date, Numbering, SearchCommand, SearchKey, SearchReturns, SortCommand, SortCriterion,
    SortKey, SystemFlags, ThreadAlgorithm, ThreadCommand,
};
use crate::codec::error::SyntaxError;
use crate::codec::scanner::{Parsed, Scanner};
use crate::limits;

/// Parses `SEARCH [RETURN (options)] [CHARSET charset] keys`.
pub fn search(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let returns = returns(scanner)?;
    let mut charset = UTF_8;
    if scanner.take_word("CHARSET") {
        if scanner.mode().charset_refused {
            return Err(SyntaxError::Expected("no CHARSET after UTF8=ACCEPT"));
        }
        scanner.space()?;
        charset = charset_of(scanner)?;
        scanner.space()?;
    }
    let key = search_keys(scanner, charset)?;
    Ok(CommandBody::Search(SearchCommand { numbering, returns, key }))
}

/// Parses `SORT [RETURN (options)] (criteria) charset keys`.
pub fn sort(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let returns = returns(scanner)?;
    let criteria = scanner.list(limits::SORT_CRITERIA_MAX, "sort criteria", sort_criterion)?;
    if criteria.is_empty() {
        return Err(SyntaxError::Expected("a sort criterion"));
    }
    scanner.space()?;
    let charset = charset_of(scanner)?;
    scanner.space()?;
    let key = search_keys(scanner, charset)?;
    Ok(CommandBody::Sort(SortCommand { numbering, returns, criteria, key }))
}

/// Parses `THREAD algorithm charset keys`.
pub fn thread(scanner: &mut Scanner<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let algorithm = match scanner.word().to_ascii_uppercase().as_slice() {
        b"ORDEREDSUBJECT" => ThreadAlgorithm::OrderedSubject,
        b"REFERENCES" => ThreadAlgorithm::References,
        _ => return Err(SyntaxError::Expected("ORDEREDSUBJECT or REFERENCES")),
    };
    scanner.space()?;
    let charset = charset_of(scanner)?;
    scanner.space()?;
    let key = search_keys(scanner, charset)?;
    Ok(CommandBody::Thread(ThreadCommand { numbering, algorithm, key }))
}

fn returns(scanner: &mut Scanner<'_>) -> Parsed<Option<SearchReturns>> {
    if !scanner.take_word("RETURN") {
        return Ok(None);
    }
    scanner.space()?;
    let mut returns = SearchReturns::default();
    scanner.list(limits::LIST_ITEMS_MAX, "options", |scanner| {
        match scanner.word().to_ascii_uppercase().as_slice() {
            b"MIN" => returns.min = true,
            b"MAX" => returns.max = true,
            b"ALL" => returns.all = true,
            b"COUNT" => returns.count = true,
            b"SAVE" => returns.save = true,
            _ => return Err(SyntaxError::Expected("MIN, MAX, ALL, COUNT or SAVE")),
        }
        Ok(())
    })?;
    scanner.space()?;
    if returns == SearchReturns::default() {
        returns.all = true;
    }
    Ok(Some(returns))
}

fn sort_criterion(scanner: &mut Scanner<'_>) -> Parsed<SortCriterion> {
    let reverse = scanner.take_word("REVERSE");
    if reverse {
        scanner.space()?;
    }
    let key = match scanner.word().to_ascii_uppercase().as_slice() {
        b"ARRIVAL" => SortKey::Arrival,
        b"CC" => SortKey::Cc,
        b"DATE" => SortKey::Date,
        b"DISPLAYFROM" => SortKey::DisplayFrom,
        b"DISPLAYTO" => SortKey::DisplayTo,
        b"FROM" => SortKey::From,
        b"SIZE" => SortKey::Size,
        b"SUBJECT" => SortKey::Subject,
        b"TO" => SortKey::To,
        _ => return Err(SyntaxError::Expected("a sort criterion")),
    };
    Ok(SortCriterion { key, reverse })
}

fn charset_of(scanner: &mut Scanner<'_>) -> Parsed<&'static Encoding> {
    let name = scanner.astring()?;
    if name.eq_ignore_ascii_case(b"US-ASCII") {
        return Ok(UTF_8);
    }
    Encoding::for_label(&name).ok_or(SyntaxError::BadCharset)
}

/// Parses the keys up to the end of the command.
fn search_keys(scanner: &mut Scanner<'_>, charset: &'static Encoding) -> Parsed<SearchKey> {
    let mut keys = Keys { scanner, charset, count: 0 };
    let mut all = vec![keys.key(0)?];
    while !keys.scanner.is_at_end() {
        keys.scanner.space()?;
        all.push(keys.key(0)?);
    }
    Ok(and(all))
}

fn and(mut keys: Vec<SearchKey>) -> SearchKey {
    match keys.len() {
        1 => keys.remove(0),
        _ => SearchKey::And(keys),
    }
}

fn not(key: SearchKey) -> SearchKey {
    SearchKey::Not(Box::new(key))
}

struct Keys<'s, 'f> {
    scanner: &'s mut Scanner<'f>,
    charset: &'static Encoding,
    count: usize,
}

impl Keys<'_, '_> {
    fn key(&mut self, depth: usize) -> Parsed<SearchKey> {
        self.count += 1;
        if self.count > limits::SEARCH_KEYS_MAX || depth > limits::SEARCH_DEPTH_MAX {
            return Err(SyntaxError::Limit("search keys"));
        }
        match self.scanner.peek() {
            Some(b'(') => self.group(depth),
            Some(b'0'..=b'9' | b'*' | b'$') => self.scanner.message_set().map(SearchKey::Sequence),
            _ => {
                let name = self.scanner.word().to_ascii_uppercase();
                self.flag_key(&name).map_or_else(|| self.key_with_arguments(&name, depth), Ok)
            }
        }
    }

    fn group(&mut self, depth: usize) -> Parsed<SearchKey> {
        self.scanner.expect(b'(', "search keys in parentheses")?;
        self.scanner.spaces();
        let mut all = vec![self.key(depth + 1)?];
        loop {
            let separated = self.scanner.spaces();
            if self.scanner.take(b')') {
                return Ok(and(all));
            }
            if !separated {
                return Err(SyntaxError::Expected("a space"));
            }
            all.push(self.key(depth + 1)?);
        }
    }

    fn flag_key(&self, name: &[u8]) -> Option<SearchKey> {
        Some(match name {
            b"ALL" => SearchKey::All,
            b"ANSWERED" => SearchKey::System(SystemFlags::ANSWERED),
            b"DELETED" => SearchKey::System(SystemFlags::DELETED),
            b"DRAFT" => SearchKey::System(SystemFlags::DRAFT),
            b"FLAGGED" => SearchKey::System(SystemFlags::FLAGGED),
            b"SEEN" => SearchKey::System(SystemFlags::SEEN),
            b"UNANSWERED" => not(SearchKey::System(SystemFlags::ANSWERED)),
            b"UNDELETED" => not(SearchKey::System(SystemFlags::DELETED)),
            b"UNDRAFT" => not(SearchKey::System(SystemFlags::DRAFT)),
            b"UNFLAGGED" => not(SearchKey::System(SystemFlags::FLAGGED)),
            b"UNSEEN" => not(SearchKey::System(SystemFlags::SEEN)),
            b"RECENT" => SearchKey::Recent,
            b"OLD" => not(SearchKey::Recent),
            b"NEW" => SearchKey::And(vec![SearchKey::Recent, not(SearchKey::System(SystemFlags::SEEN))]),
            b"SAVEDATESUPPORTED" => SearchKey::SaveDateSupported,
            _ => return None,
        })
    }

    fn key_with_arguments(&mut self, name: &[u8], depth: usize) -> Parsed<SearchKey> {
        match name {
            b"NOT" => {
                self.scanner.space()?;
                self.key(depth + 1).map(not)
            }
            b"OR" => {
                self.scanner.space()?;
                let first = self.key(depth + 1)?;
                self.scanner.space()?;
                Ok(SearchKey::Or(Box::new(first), Box::new(self.key(depth + 1)?)))
            }
            b"BCC" => self.text().map(|text| SearchKey::Address(AddressField::Bcc, text)),
            b"CC" => self.text().map(|text| SearchKey::Address(AddressField::Cc, text)),
            b"FROM" => self.text().map(|text| SearchKey::Address(AddressField::From, text)),
            b"TO" => self.text().map(|text| SearchKey::Address(AddressField::To, text)),
            b"SUBJECT" => self.text().map(SearchKey::Subject),
            b"BODY" => self.text().map(SearchKey::Body),
            b"TEXT" => self.text().map(SearchKey::Text),
            b"HEADER" => self.header(),
            b"KEYWORD" => self.keyword(),
            b"UNKEYWORD" => self.keyword().map(not),
            b"UID" => {
                self.scanner.space()?;
                self.scanner.message_set().map(SearchKey::Uid)
            }
            b"MODSEQ" => self.modseq(),
            b"EMAILID" => self.text().map(SearchKey::EmailId),
            b"THREADID" => self.text().map(SearchKey::ThreadId),
            b"LARGER" => self.number().map(SearchKey::Larger),
            b"SMALLER" => self.number().map(SearchKey::Smaller),
            b"OLDER" => self.interval().map(SearchKey::Older),
            b"YOUNGER" => self.interval().map(SearchKey::Younger),
            _ => self.date_key(name),
        }
    }

    fn date_key(&mut self, name: &[u8]) -> Parsed<SearchKey> {
        let make: fn(Date) -> SearchKey = match name {
            b"BEFORE" => SearchKey::Before,
            b"ON" => SearchKey::On,
            b"SINCE" => SearchKey::Since,
            b"SENTBEFORE" => SearchKey::SentBefore,
            b"SENTON" => SearchKey::SentOn,
            b"SENTSINCE" => SearchKey::SentSince,
            b"SAVEDBEFORE" => SearchKey::SavedBefore,
            b"SAVEDON" => SearchKey::SavedOn,
            b"SAVEDSINCE" => SearchKey::SavedSince,
            _ => return Err(SyntaxError::Expected("a search key")),
        };
        self.scanner.space()?;
        let text = self.scanner.astring()?;
        let date = std::str::from_utf8(&text).ok().and_then(date_of);
        date.map(make).ok_or(SyntaxError::Expected("a date"))
    }

    fn text(&mut self) -> Parsed<String> {
        self.scanner.space()?;
        let bytes = self.scanner.astring()?;
        self.decode(bytes)
    }

    fn decode(&self, bytes: Cow<'_, [u8]>) -> Parsed<String> {
        match self.charset.decode_without_bom_handling_and_without_replacement(&bytes) {
            Some(text) => Ok(text.into_owned()),
            None => Err(SyntaxError::Expected("text in the charset of the search")),
        }
    }

    fn header(&mut self) -> Parsed<SearchKey> {
        self.scanner.space()?;
        let name = self.scanner.astring_text()?;
        Ok(SearchKey::Header { name, value: self.text()? })
    }

    fn keyword(&mut self) -> Parsed<SearchKey> {
        self.scanner.space()?;
        Ok(SearchKey::Keyword(self.scanner.atom("a keyword")?.to_owned()))
    }

    fn number(&mut self) -> Parsed<u64> {
        self.scanner.space()?;
        self.scanner.number64()
    }

    fn interval(&mut self) -> Parsed<u32> {
        self.scanner.space()?;
        self.scanner.number_not_zero()
    }

    /// Parses `MODSEQ [entry-name entry-type] n`. The entry is ignored, because flags have no mod-sequences of their
    /// own here.
    fn modseq(&mut self) -> Parsed<SearchKey> {
        self.scanner.space()?;
        if self.scanner.peek() == Some(b'"') {
            self.scanner.string()?;
            self.scanner.space()?;
            let kind = self.scanner.word();
            if ![b"priv".as_slice(), b"shared", b"all"].iter().any(|known| kind.eq_ignore_ascii_case(known)) {
                return Err(SyntaxError::Expected("priv, shared or all"));
            }
            self.scanner.space()?;
        }
        self.scanner.number64().map(SearchKey::ModSeq)
    }
}
