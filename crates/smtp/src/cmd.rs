//! The verbs, one file each, and their table. HELP and the refusal of unknown commands are derived from the table.
//!
//! A verb receives its arguments and writes its reply. The session checks the requirements of every command (length,
//! encryption, pipelining) with the flags in the table.

pub(crate) mod auth;
pub(crate) mod bdat;
pub(crate) mod data;
pub(crate) mod ehlo;
pub(crate) mod expn;
pub(crate) mod help;
pub(crate) mod mail;
pub(crate) mod noop;
pub(crate) mod quit;
pub(crate) mod rcpt;
pub(crate) mod rset;
pub(crate) mod starttls;
pub(crate) mod vrfy;

use crate::listener_rules::ListenerRole;
use crate::session::{NextAction, Session};

/// The context of a command besides the session.
pub(crate) struct CommandContext<'a> {
    /// The text after the verb, trimmed.
    pub arguments: &'a str,
    /// The buffer for replies.
    pub out: &'a mut Vec<u8>,
}

/// A verb of the protocol.
pub(crate) struct Verb {
    /// The verb in upper case.
    pub name: &'static str,
    /// The syntax, for HELP.
    pub usage: &'static str,
    /// The implementation.
    pub run: fn(&mut Session, &mut CommandContext<'_>) -> NextAction,
    /// `true` if the command must be the last of a pipelined group (RFC 2920 §3.1).
    pub ends_group: bool,
    /// `true` if the command is accepted even if encryption is required and missing (RFC 3207 §4).
    pub allowed_in_clear: bool,
    /// `true` if the command line may be as long as authentication needs.
    pub long_line: bool,
}

impl Verb {
    const fn new(
        name: &'static str,
        usage: &'static str,
        run: fn(&mut Session, &mut CommandContext<'_>) -> NextAction,
    ) -> Self {
        Self { name, usage, run, ends_group: false, allowed_in_clear: false, long_line: false }
    }

    const fn ends_group(self) -> Self {
        Self { ends_group: true, ..self }
    }

    const fn allowed_in_clear(self) -> Self {
        Self { allowed_in_clear: true, ..self }
    }

    const fn long_line(self) -> Self {
        Self { long_line: true, ..self }
    }
}

/// All verbs, frequent ones first.
pub(crate) const VERBS: &[Verb] = &[
    Verb::new("RCPT", "RCPT TO:<address> [parameters]", rcpt::run),
    Verb::new("MAIL", "MAIL FROM:<address> [parameters]", mail::run),
    Verb::new("DATA", "DATA", data::run).ends_group(),
    Verb::new("BDAT", "BDAT size [LAST]", bdat::run),
    Verb::new("RSET", "RSET", rset::run),
    Verb::new("EHLO", "EHLO name", ehlo::run_ehlo).ends_group().allowed_in_clear(),
    Verb::new("LHLO", "LHLO name", ehlo::run_lhlo).ends_group().allowed_in_clear(),
    Verb::new("HELO", "HELO name", ehlo::run_helo).ends_group().allowed_in_clear(),
    Verb::new("QUIT", "QUIT", quit::run).allowed_in_clear(),
    Verb::new("AUTH", "AUTH mechanism [initial response]", auth::run).ends_group().long_line(),
    Verb::new("STARTTLS", "STARTTLS", starttls::run).ends_group().allowed_in_clear(),
    Verb::new("NOOP", "NOOP [anything]", noop::run).allowed_in_clear(),
    Verb::new("VRFY", "VRFY user", vrfy::run).ends_group(),
    Verb::new("EXPN", "EXPN list", expn::run).ends_group(),
    Verb::new("HELP", "HELP [verb]", help::run).allowed_in_clear(),
];

/// Returns the verb with a name if a listener with this role supports it.
pub(crate) fn find(name: &str, role: ListenerRole) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name.eq_ignore_ascii_case(name)).filter(|verb| is_supported(verb, role))
}

/// Returns `true` if a listener with this role supports the verb. LMTP has LHLO instead of HELO and EHLO (RFC 2033
/// §4.1).
pub(crate) fn is_supported(verb: &Verb, role: ListenerRole) -> bool {
    match verb.name {
        "LHLO" => role == ListenerRole::Lmtp,
        "HELO" | "EHLO" => role != ListenerRole::Lmtp,
        _ => true,
    }
}
