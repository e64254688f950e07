//! Profile documents of a mail file, in which all clients share settings.
//!
//! A profile belongs to the mail file or, if it is personal, to one person who uses it. Its state is the modseq of the
//! last change of its note, and 0 before it exists. A profile is never deleted, so no change is forgotten.

use std::sync::Arc;

use base::{Modseq, Name};
use notes::profile::profile_unid;
use notes::{Grant, Item, ItemValue, Note};
use store::Ticket;

use crate::error::Result;
use crate::mailbox::{MailFile, MailSnapshot};

/// A profile document of a mail file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    user: Option<Name>,
}

/// A change of a profile document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileChange {
    /// The state before.
    pub old: Modseq,
    /// The state after.
    pub new: Modseq,
    /// The ticket that must be durable before the client receives a reply.
    pub ticket: Ticket,
}

impl Profile {
    /// Returns a profile that belongs to the mail file.
    #[must_use]
    pub fn shared(name: &'static str) -> Self {
        Self { name, user: None }
    }

    /// Returns a profile of the person who has a grant. Returns `None` if the grant is nobody's, as that of a server.
    #[must_use]
    pub fn personal(name: &'static str, grant: &Grant) -> Option<Self> {
        grant.name().map(|user| Self { name, user: Some(user.clone()) })
    }

    /// Returns the profile, mostly from memory. Returns `None` if it does not exist, or Readers items hide it.
    pub fn load(&self, snapshot: &MailSnapshot<'_>) -> Result<Option<Arc<Note>>> {
        snapshot.profile(profile_unid(self.name, self.user.as_ref()))
    }

    /// Changes the profile in one transaction.
    ///
    /// `change` gets the present profile, and returns the new items, or `None` to change nothing.
    pub fn update<E: From<notes::Error>>(
        &self,
        file: &MailFile,
        change: impl FnOnce(Option<&Note>) -> std::result::Result<Option<Vec<Item>>, E>,
    ) -> std::result::Result<ProfileChange, E> {
        let accesses = [file.depositor()];
        let mut transaction = file.mail().databases().transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        let present = writer.profile(self.name, self.user.as_ref())?;
        let old = modseq_of(present.as_ref());
        let Some(items) = change(present.as_ref())? else {
            return Ok(ProfileChange { old, new: old, ticket: writer.last_ticket() });
        };
        writer.profile_set(self.name, self.user.as_ref(), &items, &[])?;
        let new = writer.modseq();
        Ok(ProfileChange { old, new, ticket: transaction.commit()? })
    }
}

/// Returns the last change of a profile.
#[must_use]
pub fn modseq_of(note: Option<&Note>) -> Modseq {
    note.map_or(Modseq(0), |note| note.header.modseq)
}

/// Returns the text of an item, if it has one.
#[must_use]
pub fn text_of<'n>(items: &'n [Item], name: &str) -> Option<&'n str> {
    notes::item::find_item(items, name).and_then(|item| item.value.text())
}

/// Creates an item with a text of any length.
#[must_use]
pub fn text_item(name: &str, text: &str) -> Item {
    Item::body(name, ItemValue::Text(text.to_owned()))
}
