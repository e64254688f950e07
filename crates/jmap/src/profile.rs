//! Profile documents ([`mail::profile`]) of an account.

use mail::profile::{Profile, ProfileChange};
use notes::{Item, Note};

use crate::account::Account;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};

/// The name of the profile with the out of office reply of a mail file.
pub const OUT_OF_OFFICE: &str = "OutOfOfficeProfile";

/// Returns a profile of the caller in an account.
pub fn personal(name: &'static str, account: &Account) -> MethodResult<Profile> {
    let profile = Profile::personal(name, &account.grant);
    profile.ok_or_else(|| MethodError::described("forbidden", "a profile needs the name of a person"))
}

/// Changes a profile in one transaction, whose durability the reply waits for.
pub fn update(
    context: &mut Context<'_>,
    account: &Account,
    profile: &Profile,
    change: impl FnOnce(Option<&Note>) -> MethodResult<Option<Vec<Item>>>,
) -> MethodResult<ProfileChange> {
    let changed = profile.update(&account.file, change)?;
    context.wait_for(changed.ticket);
    Ok(changed)
}
