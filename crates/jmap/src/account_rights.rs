//! The rights in a mail file that its access control list grants to a caller.

use mail::mailbox_list::may_create_mailboxes;
use notes::{AclLevel, Grant};

/// The rights that the access control list of a mail file grants to a caller, from level Reader on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRights {
    /// `true` if the caller can change nothing.
    pub is_read_only: bool,
    /// `true` if the caller may create, change and delete mailboxes.
    pub may_create_mailboxes: bool,
}

impl AccountRights {
    /// Returns the rights of a grant.
    #[must_use]
    pub fn of(grant: &Grant) -> Self {
        Self { is_read_only: grant.level() < AclLevel::Author, may_create_mailboxes: may_create_mailboxes(grant) }
    }
}
