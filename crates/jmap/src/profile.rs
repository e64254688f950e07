//! Profile documents of a mail file, in which all clients share settings.
//!
//! A profile belongs to the mail file or, if it is personal, to one person who uses it. Its state is the modseq of the
//! last change of its note, and 0 before it exists. A profile is never deleted, so no change is forgotten.

use base::{Modseq, Name};
use mail::mailbox::MailSnapshot;
use notes::{Item, ItemValue, Note};

use crate::account::Account;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// The name of the profile with the out of office reply of a mail file.
pub const OUT_OF_OFFICE: &str = "OutOfOfficeProfile";

/// The name of the profile with the preferences of a person.
pub const PREFERENCES: &str = "Preferences";

/// A profile document of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    user: Option<Name>,
}

/// The states before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileStates {
    /// The state before.
    pub old: Modseq,
    /// The state after.
    pub new: Modseq,
}

impl Profile {
    /// Returns a profile that belongs to the mail file.
    #[must_use]
    pub fn shared(name: &'static str) -> Self {
        Self { name, user: None }
    }

    /// Returns a profile of the caller in an account.
    pub fn personal(name: &'static str, account: &Account) -> MethodResult<Self> {
        let user = account.grant.name().cloned();
        let user = user.ok_or_else(|| MethodError::described("forbidden", "a profile needs the name of a person"))?;
        Ok(Self { name, user: Some(user) })
    }

    /// Reads the profile. Returns `None` if it does not exist, or Readers items hide it.
    pub fn load(&self, snapshot: &MailSnapshot<'_>) -> MethodResult<Option<Note>> {
        Ok(snapshot.reading().profile(self.name, self.user.as_ref())?)
    }

    /// Changes the profile in one transaction.
    ///
    /// `change` gets the present profile, and returns the new items, or `None` to change nothing.
    pub fn update(
        &self,
        context: &mut Context<'_>,
        account: &Account,
        change: impl FnOnce(Option<&Note>) -> MethodResult<Option<Vec<Item>>>,
    ) -> MethodResult<ProfileStates> {
        let accesses = [account.file.depositor()];
        let mut transaction = account.file.mail().databases().transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        let present = writer.profile(self.name, self.user.as_ref())?;
        let old = present.as_ref().map_or(Modseq(0), |note| note.header.modseq);
        let Some(items) = change(present.as_ref())? else {
            context.wait_for(writer.last_ticket());
            return Ok(ProfileStates { old, new: old });
        };
        writer.profile_set(self.name, self.user.as_ref(), &items, &[])?;
        let new = writer.modseq();
        let ticket = transaction.commit()?;
        context.wait_for(ticket);
        Ok(ProfileStates { old, new })
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
