//! Message disposition notifications (RFC 8098): the request in the header of a message, and the report to its sender
//! about what has happened to the message, such as that it was displayed.
//!
//! | module | contents |
//! |---|---|
//! | [`request`] | the request of a sender, and whether it may be answered |
//! | [`report`] | a notification as a message |
//! | [`parsed`] | a notification that was received |
//!
//! Nothing here sends. A notification says when somebody has looked at a message, so it leaves the server only if the
//! recipient has asked for it: by the button of the lite web mail, or by `MDN/send` of a JMAP client. It is sent from
//! `<>` and without delivery reports ([`crate::submission::SubmissionService::submit_notification`]). The transaction
//! that accepts it gives the message the keyword [`NOTIFIED_KEYWORD`], and fails if the message has it, so nobody is
//! notified twice ([`crate::router::RecordChange::Notified`]).
//!
//! Left out: gateways to other systems, and the parameters of `Disposition-Notification-Options`, none of which is
//! defined. A request that requires one is not answered (RFC 8098 §2.2).

pub mod parsed;
pub mod report;
pub mod request;
#[cfg(test)]
mod tests;

use std::fmt;

pub use parsed::ParsedNotification;
pub use report::NotificationReport;
pub use request::NotificationRequest;

/// The keyword of a message about which its sender was notified (RFC 3503).
pub const NOTIFIED_KEYWORD: &str = "$MDNSent";

/// Whether the recipient or a program has caused what happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionMode {
    /// The recipient.
    Manual,
    /// A program.
    Automatic,
}

impl ActionMode {
    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "manual-action",
            Self::Automatic => "automatic-action",
        }
    }

    /// Returns the mode with a name, ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Manual, Self::Automatic].into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}

/// Whether the recipient has agreed to a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendingMode {
    /// The recipient has agreed to this one.
    Manual,
    /// The recipient has agreed to such notifications before.
    Automatic,
}

impl SendingMode {
    /// Returns the name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Manual => "mdn-sent-manually",
            Self::Automatic => "mdn-sent-automatically",
        }
    }

    /// Returns the mode with a name, ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Manual, Self::Automatic].into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}

/// What has happened to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DispositionKind {
    /// It was shown to the recipient.
    Displayed,
    /// It was deleted.
    Deleted,
    /// It was forwarded or printed.
    Dispatched,
    /// A program has processed it.
    Processed,
}

impl DispositionKind {
    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Displayed => "displayed",
            Self::Deleted => "deleted",
            Self::Dispatched => "dispatched",
            Self::Processed => "processed",
        }
    }

    /// Returns the kind with a name, ignoring case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Displayed, Self::Deleted, Self::Dispatched, Self::Processed];
        all.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }
}

/// What has happened to a message, and how it is reported (RFC 8098 §3.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The cause of what happened.
    pub action_mode: ActionMode,
    /// The agreement to the report.
    pub sending_mode: SendingMode,
    /// What happened.
    pub kind: DispositionKind,
}

impl Disposition {
    /// A message that its recipient has looked at, and who agrees to the report.
    pub const DISPLAYED: Self =
        Self { action_mode: ActionMode::Manual, sending_mode: SendingMode::Manual, kind: DispositionKind::Displayed };

    /// Parses the value of the field `Disposition`, ignoring case, comments and modifiers. Returns `None` if it is not
    /// one of RFC 8098.
    #[must_use]
    pub fn parse(value: &str) -> Option<Self> {
        let value = without_comments(value);
        let (modes, kind) = value.split_once(';')?;
        let (action_mode, sending_mode) = modes.split_once('/')?;
        let kind = kind.split('/').next().unwrap_or_default();
        Some(Self {
            action_mode: ActionMode::from_name(action_mode.trim())?,
            sending_mode: SendingMode::from_name(sending_mode.trim())?,
            kind: DispositionKind::from_name(kind.trim())?,
        })
    }
}

impl fmt::Display for Disposition {
    /// Writes the value of the field `Disposition`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sending_mode = match self.sending_mode {
            SendingMode::Manual => "MDN-sent-manually",
            SendingMode::Automatic => "MDN-sent-automatically",
        };
        write!(f, "{}/{sending_mode}; {}", self.action_mode.name(), self.kind.name())
    }
}

/// Returns a value of a field without its comments.
fn without_comments(value: &str) -> String {
    let mut depth = 0_usize;
    let mut kept = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(character),
            _ => {}
        }
    }
    kept
}

/// Returns an address with its type, as the fields of a notification have it: `rfc822; ann@acme.test`.
#[must_use]
pub fn typed_address(address: &str) -> String {
    let kind = if address.is_ascii() { "rfc822" } else { "utf-8" };
    format!("{kind}; {address}")
}

/// Returns `true` if two addresses are the same. The case of a domain does not matter (RFC 8098 §2.1).
#[must_use]
pub fn is_same_address(a: &str, b: &str) -> bool {
    match (a.rsplit_once('@'), b.rsplit_once('@')) {
        (Some((local_a, domain_a)), Some((local_b, domain_b))) => {
            local_a == local_b && domain_a.eq_ignore_ascii_case(domain_b)
        }
        _ => a == b,
    }
}
