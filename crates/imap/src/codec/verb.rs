//! The table of verbs: names, permitted session states, argument parsers, and capabilities.
//!
//! The table has one line per verb. The decoder takes the parser from it, the session takes the permitted state, and
//! CAPABILITY takes the capability names. A new verb is a line here, a variant of [`CommandBody`] and a file in `cmd`.

use super::command::{CommandBody, Numbering, SelectMode};
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
    Permitted,
    /// They must not be decoded, because this verb changes the interpretation of the bytes after it or consumes them
    /// itself.
    Forbidden,
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
use Pipelining::{Forbidden, Permitted};

const fn verb(name: &'static str, allowed: PermittedState, parse: ArgumentParser) -> Verb {
    Verb { name, allowed, flow: Permitted, uid_form: UidForm::None, capabilities: &[], parse }
}

impl Verb {
    /// Returns `true` if executing the verb needs no disk access, apart from reporting the changes of other sessions.
    #[must_use]
    pub fn needs_no_disk(&self) -> bool {
        const LIGHT: [&str; 10] = [
            "NOOP",
            "CAPABILITY",
            "IDLE",
            "LOGOUT",
            "ID",
            "NAMESPACE",
            "UNSELECT",
            "CHECK",
            "STARTTLS",
            "GETJMAPACCESS",
        ];
        LIGHT.contains(&self.name)
    }

    /// Returns `true` if the verb logs in.
    #[must_use]
    pub fn is_login(&self) -> bool {
        matches!(self.name, "LOGIN" | "AUTHENTICATE")
    }

    const fn without_pipelining(mut self) -> Self {
        self.flow = Forbidden;
        self
    }

    const fn with_uid_form(mut self) -> Self {
        self.uid_form = UidForm::Exists;
        self
    }

    const fn with_capabilities(mut self, capabilities: &'static [&'static str]) -> Self {
        self.capabilities = capabilities;
        self
    }
}

/// All verbs, the frequent ones first.
pub static VERBS: &[Verb] = &[
    verb("FETCH", Selected, message::fetch)
        .with_uid_form()
        .with_capabilities(&["BINARY", "PREVIEW", "SAVEDATE", "OBJECTID"]),
    verb("STORE", Selected, message::store).with_uid_form().with_capabilities(&["CONDSTORE"]),
    verb("SEARCH", Selected, search::search).with_uid_form().with_capabilities(&["ESEARCH", "SEARCHRES", "WITHIN"]),
    verb("NOOP", Always, |_, _| Ok(CommandBody::Noop)),
    verb("SELECT", AfterLogin, |s, _| mailbox::select(s, SelectMode::ReadWrite)).without_pipelining(),
    verb("APPEND", AfterLogin, message::append).with_capabilities(&["MULTIAPPEND", "UIDPLUS"]),
    verb("STATUS", AfterLogin, mailbox::status).with_capabilities(&["STATUS=SIZE"]),
    verb("IDLE", AfterLogin, |_, _| Ok(CommandBody::Idle)).without_pipelining().with_capabilities(&["IDLE"]),
    verb("LIST", AfterLogin, mailbox::list).with_capabilities(&[
        "LIST-EXTENDED",
        "LIST-STATUS",
        "SPECIAL-USE",
        "CHILDREN",
    ]),
    verb("EXPUNGE", Selected, message::expunge).with_uid_form(),
    verb("COPY", Selected, message::copy).with_uid_form(),
    verb("MOVE", Selected, message::move_).with_uid_form().with_capabilities(&["MOVE"]),
    verb("LOGIN", BeforeLogin, access::login).without_pipelining(),
    verb("LOGOUT", Always, |_, _| Ok(CommandBody::Logout)).without_pipelining(),
    verb("CAPABILITY", Always, |_, _| Ok(CommandBody::Capability)),
    verb("AUTHENTICATE", BeforeLogin, access::authenticate).without_pipelining().with_capabilities(&["SASL-IR"]),
    verb("ID", Always, access::id).with_capabilities(&["ID"]),
    verb("ENABLE", AfterLogin, access::enable).without_pipelining().with_capabilities(&[
        "ENABLE",
        "QRESYNC",
        "UTF8=ACCEPT",
    ]),
    verb("EXAMINE", AfterLogin, |s, _| mailbox::select(s, SelectMode::ReadOnly)).without_pipelining(),
    verb("CLOSE", Selected, |_, _| Ok(CommandBody::Close)),
    verb("UNSELECT", Selected, |_, _| Ok(CommandBody::Unselect)).with_capabilities(&["UNSELECT"]),
    verb("CHECK", Selected, |_, _| Ok(CommandBody::Check)),
    verb("SORT", Selected, search::sort).with_uid_form().with_capabilities(&["SORT", "SORT=DISPLAY", "ESORT"]),
    verb("THREAD", Selected, search::thread)
        .with_uid_form()
        .with_capabilities(&["THREAD=ORDEREDSUBJECT", "THREAD=REFERENCES"]),
    verb("REPLACE", Selected, message::replace).with_uid_form().with_capabilities(&["REPLACE"]),
    verb("CREATE", AfterLogin, mailbox::create).with_capabilities(&["CREATE-SPECIAL-USE"]),
    verb("DELETE", AfterLogin, mailbox::delete),
    verb("RENAME", AfterLogin, mailbox::rename),
    verb("SUBSCRIBE", AfterLogin, mailbox::subscribe),
    verb("UNSUBSCRIBE", AfterLogin, mailbox::unsubscribe),
    verb("LSUB", AfterLogin, mailbox::lsub),
    verb("NAMESPACE", AfterLogin, |_, _| Ok(CommandBody::Namespace)).with_capabilities(&["NAMESPACE"]),
    verb("NOTIFY", AfterLogin, notify::notify).with_capabilities(&["NOTIFY"]),
    verb("STARTTLS", BeforeLogin, |_, _| Ok(CommandBody::StartTls)).without_pipelining(),
    verb("COMPRESS", AfterLogin, access::compress).without_pipelining(),
    verb("GETQUOTA", AfterLogin, mailbox::get_quota).with_capabilities(&["QUOTA", "QUOTA=RES-STORAGE"]),
    verb("GETQUOTAROOT", AfterLogin, mailbox::get_quota_root),
    verb("SETQUOTA", AfterLogin, mailbox::set_quota),
    verb("GETJMAPACCESS", AfterLogin, |_, _| Ok(CommandBody::GetJmapAccess)),
];
