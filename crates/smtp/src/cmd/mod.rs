//! The verbs, one file each, and the table of them. HELP and the refusal of unknown commands derive from the table.
//!
//! A verb gets its arguments and writes its reply. What must hold for every command (length, encryption, pipelining) is
//! checked by the session with the flags that stand here.

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

use crate::rules::Role;
use crate::session::{Flow, Session};

/// What a verb works on besides the session.
pub(crate) struct Call<'a> {
    /// What follows the verb, without blanks around it.
    pub arguments: &'a str,
    /// Where replies go.
    pub out: &'a mut Vec<u8>,
}

/// A verb of the protocol.
pub(crate) struct Verb {
    /// The verb in capitals.
    pub name: &'static str,
    /// How it is used, for HELP.
    pub usage: &'static str,
    /// What it does.
    pub run: fn(&mut Session, &mut Call<'_>) -> Flow,
    /// It must be the last command of a pipelined group (RFC 2920 §3.1).
    pub ends_group: bool,
    /// It is taken even where encryption is required and missing (RFC 3207 §4).
    pub in_clear: bool,
    /// Its line may be as long as authentication needs.
    pub long_line: bool,
}

impl Verb {
    const fn new(name: &'static str, usage: &'static str, run: fn(&mut Session, &mut Call<'_>) -> Flow) -> Self {
        Self { name, usage, run, ends_group: false, in_clear: false, long_line: false }
    }

    const fn ends_group(self) -> Self {
        Self { ends_group: true, ..self }
    }

    const fn in_clear(self) -> Self {
        Self { in_clear: true, ..self }
    }

    const fn long_line(self) -> Self {
        Self { long_line: true, ..self }
    }
}

/// All verbs, the frequent ones first.
pub(crate) const VERBS: &[Verb] = &[
    Verb::new("RCPT", "RCPT TO:<address> [parameters]", rcpt::run),
    Verb::new("MAIL", "MAIL FROM:<address> [parameters]", mail::run),
    Verb::new("DATA", "DATA", data::run).ends_group(),
    Verb::new("BDAT", "BDAT size [LAST]", bdat::run),
    Verb::new("RSET", "RSET", rset::run),
    Verb::new("EHLO", "EHLO name", ehlo::run_ehlo).ends_group().in_clear(),
    Verb::new("LHLO", "LHLO name", ehlo::run_lhlo).ends_group().in_clear(),
    Verb::new("HELO", "HELO name", ehlo::run_helo).ends_group().in_clear(),
    Verb::new("QUIT", "QUIT", quit::run).in_clear(),
    Verb::new("AUTH", "AUTH mechanism [initial response]", auth::run).ends_group().long_line(),
    Verb::new("STARTTLS", "STARTTLS", starttls::run).ends_group().in_clear(),
    Verb::new("NOOP", "NOOP [anything]", noop::run).in_clear(),
    Verb::new("VRFY", "VRFY user", vrfy::run).ends_group(),
    Verb::new("EXPN", "EXPN list", expn::run).ends_group(),
    Verb::new("HELP", "HELP [verb]", help::run).in_clear(),
];

/// Finds a verb that a listener of this role knows.
pub(crate) fn find(name: &str, role: Role) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| verb.name.eq_ignore_ascii_case(name)).filter(|verb| is_known(verb, role))
}

/// LMTP has LHLO where SMTP has HELO and EHLO (RFC 2033 §4.1).
pub(crate) fn is_known(verb: &Verb, role: Role) -> bool {
    match verb.name {
        "LHLO" => role == Role::Lmtp,
        "HELO" | "EHLO" => role != Role::Lmtp,
        _ => true,
    }
}
