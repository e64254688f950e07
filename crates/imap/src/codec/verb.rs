//! The table of verbs: names, permitted session states, argument parsers, and capabilities.
//!
//! The table has one line per verb. The decoder takes the parser from it, the session takes the permitted state, and
//! CAPABILITY takes the capability names. A new verb is a line here, a variant of [`CommandBody`] and a file in `cmd`.

use super::ast::{CommandBody, Numbering, SelectMode};
use super::parse::{access, mailbox, message, notify, search};
use super::scanner::{Parsed, Scanner};

/// The session states in which a verb is permitted (RFC 9051 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermittedState {
    /// Always.
    Always,
    /// Before login only.
    BeforeLogin,
    /// After login, with or without a selected mailbox.
    AfterLogin,
    /// Only with a selected mailbox.
    Selected,
}

/// Permission to decode the commands after this one before it has been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipelining {
    /// They may be decoded.
    Together,
    /// They must not be decoded, because this verb changes the interpretation of the bytes after it or consumes them
    /// itself.
    Alone,
}

/// Existence of a form of the verb that begins with `UID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UidForm {
    /// The verb has no UID form.
    None,
    /// The verb has a UID form.
    Exists,
}

/// A parser of a verb's arguments. The numbering is `Uid` if `UID` preceded the verb.
pub type ArgumentParser = for<'s, 'f> fn(&'s mut Scanner<'f>, Numbering) -> Parsed<CommandBody>;

/// A line of the table.
pub struct Verb {
    /// The name in upper case.
    pub name: &'static str,
    /// The session states in which the verb is permitted.
    pub allowed: PermittedState,
    /// Permission to decode later commands before this one has been executed.
    pub flow: Pipelining,
    /// Existence of a form with `UID` before the verb.
    pub uid_form: UidForm,
    /// The capabilities that the verb adds to CAPABILITY.
    pub capabilities: &'static [&'static str],
    /// The parser of the arguments.
    pub parse: ArgumentParser,
}

impl std::fmt::Debug for Verb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Verb {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Returns the verb with this name, ignoring case. Returns `None` if the verb is unknown, or if `UID` precedes a verb
/// without a UID form.
#[must_use]
pub fn find(name: &[u8], numbering: Numbering) -> Option<&'static Verb> {
    let verb = VERBS.iter().find(|verb| verb.name.as_bytes().eq_ignore_ascii_case(name))?;
    (numbering == Numbering::Sequence || verb.uid_form == UidForm::Exists).then_some(verb)
}

use PermittedState::{AfterLogin, Always, BeforeLogin, Selected};
use Pipelining::{Alone, Together};

const fn verb(name: &'static str, allowed: PermittedState, parse: ArgumentParser) -> Verb {
    Verb { name, allowed, flow: Together, uid_form: UidForm::None, capabilities: &[], parse }
}

impl Verb {
    /// Returns `true` if executing the verb needs no disk access, apart from reporting the changes of other sessions.
    #[must_use]
    pub fn is_light(&self) -> bool {
        const LIGHT: [&str; 9] =
            ["NOOP", "CAPABILITY", "IDLE", "LOGOUT", "ID", "NAMESPACE", "UNSELECT", "CHECK", "STARTTLS"];
        LIGHT.contains(&self.name)
    }

    const fn alone(mut self) -> Self {
        self.flow = Alone;
        self
    }

    const fn with_uid_form(mut self) -> Self {
        self.uid_form = UidForm::Exists;
        self
    }

    const fn gives(mut self, capabilities: &'static [&'static str]) -> Self {
        self.capabilities = capabilities;
        self
    }
}

/// All verbs, the frequent ones first.
pub static VERBS: &[Verb] = &[
    verb("FETCH", Selected, message::fetch).with_uid_form().gives(&["BINARY", "PREVIEW", "SAVEDATE", "OBJECTID"]),
    verb("STORE", Selected, message::store).with_uid_form().gives(&["CONDSTORE"]),
    verb("SEARCH", Selected, search::search).with_uid_form().gives(&["ESEARCH", "SEARCHRES", "WITHIN"]),
    verb("NOOP", Always, |_, _| Ok(CommandBody::Noop)),
    verb("SELECT", AfterLogin, |s, _| mailbox::select(s, SelectMode::ReadWrite)).alone(),
    verb("APPEND", AfterLogin, message::append).gives(&["MULTIAPPEND", "UIDPLUS"]),
    verb("STATUS", AfterLogin, mailbox::status).gives(&["STATUS=SIZE"]),
    verb("IDLE", AfterLogin, |_, _| Ok(CommandBody::Idle)).alone().gives(&["IDLE"]),
    verb("LIST", AfterLogin, mailbox::list).gives(&["LIST-EXTENDED", "LIST-STATUS", "SPECIAL-USE", "CHILDREN"]),
    verb("EXPUNGE", Selected, message::expunge).with_uid_form(),
    verb("COPY", Selected, message::copy).with_uid_form(),
    verb("MOVE", Selected, message::move_).with_uid_form().gives(&["MOVE"]),
    verb("LOGIN", BeforeLogin, access::login).alone(),
    verb("LOGOUT", Always, |_, _| Ok(CommandBody::Logout)).alone(),
    verb("CAPABILITY", Always, |_, _| Ok(CommandBody::Capability)),
    verb("AUTHENTICATE", BeforeLogin, access::authenticate).alone().gives(&["SASL-IR"]),
    verb("ID", Always, access::id).gives(&["ID"]),
    verb("ENABLE", AfterLogin, access::enable).alone().gives(&["ENABLE", "QRESYNC", "UTF8=ACCEPT"]),
    verb("EXAMINE", AfterLogin, |s, _| mailbox::select(s, SelectMode::ReadOnly)).alone(),
    verb("CLOSE", Selected, |_, _| Ok(CommandBody::Close)),
    verb("UNSELECT", Selected, |_, _| Ok(CommandBody::Unselect)).gives(&["UNSELECT"]),
    verb("CHECK", Selected, |_, _| Ok(CommandBody::Check)),
    verb("SORT", Selected, search::sort).with_uid_form().gives(&["SORT", "SORT=DISPLAY", "ESORT"]),
    verb("THREAD", Selected, search::thread).with_uid_form().gives(&["THREAD=ORDEREDSUBJECT", "THREAD=REFERENCES"]),
    verb("REPLACE", Selected, message::replace).with_uid_form().gives(&["REPLACE"]),
    verb("CREATE", AfterLogin, mailbox::create).gives(&["CREATE-SPECIAL-USE"]),
    verb("DELETE", AfterLogin, mailbox::delete),
    verb("RENAME", AfterLogin, mailbox::rename),
    verb("SUBSCRIBE", AfterLogin, mailbox::subscribe),
    verb("UNSUBSCRIBE", AfterLogin, mailbox::unsubscribe),
    verb("LSUB", AfterLogin, mailbox::lsub),
    verb("NAMESPACE", AfterLogin, |_, _| Ok(CommandBody::Namespace)).gives(&["NAMESPACE"]),
    verb("NOTIFY", AfterLogin, notify::notify).gives(&["NOTIFY"]),
    verb("STARTTLS", BeforeLogin, |_, _| Ok(CommandBody::StartTls)).alone(),
    verb("COMPRESS", AfterLogin, access::compress).alone(),
    verb("GETQUOTA", AfterLogin, mailbox::get_quota).gives(&["QUOTA", "QUOTA=RES-STORAGE"]),
    verb("GETQUOTAROOT", AfterLogin, mailbox::get_quota_root),
    verb("SETQUOTA", AfterLogin, mailbox::set_quota),
];
