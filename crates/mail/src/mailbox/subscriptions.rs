//! The mailboxes that a person is subscribed to (RFC 9051 §6.3.7; RFC 8621 §2, `isSubscribed`).
//!
//! The owner's subscriptions are names in the settings note, and a name need not have a mailbox. Each other person has
//! a personal profile document `Subscriptions` with the UNIDs of folders, so that they stay when the owner renames a
//! mailbox. Without one, the person is subscribed to nothing.

use std::collections::{HashMap, HashSet};

use base::{Modseq, Name, NoteId, Unid, ViewId};
use notes::item::find_item;
use notes::profile::profile_unid;
use notes::{Database, DatabaseSnapshot, Grant, Item, ItemValue, Writer};

use crate::error::Result;
use crate::limits::{SUBSCRIPTIONS_BYTES_MAX, SUBSCRIPTIONS_MAX};
use crate::mailbox::settings::{read_settings, settings_note};

/// The item of the settings note with the names to which the owner is subscribed.
pub(super) const SUBSCRIPTIONS_ITEM: &str = "$Subscriptions";

/// The name of the profile document of another person.
const PROFILE: &str = "Subscriptions";

/// The item of the profile document with the UNIDs of folders.
const FOLDERS_ITEM: &str = "Folders";

/// What changes subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionChange {
    /// Mailboxes that may have other titles now, or may be gone, with the titles that they had. The names to which the
    /// owner is subscribed follow them.
    pub retitled: Vec<(ViewId, String)>,
    /// The mailboxes to which the caller is to be subscribed, or no longer. Those that are gone are left out.
    pub wanted: Vec<(ViewId, bool)>,
}

/// Returns the person who has subscriptions apart from those of the owner, or `None` if the caller is the owner, a
/// server or nobody.
pub(super) fn personal_of(database: &Database, grant: &Grant) -> Option<Name> {
    let is_other = !grant.is_own(&database.record().owner) && !grant.is_server();
    grant.name().filter(|_| is_other).cloned()
}

/// Returns the names to which the caller is subscribed.
pub(super) fn names(snapshot: &DatabaseSnapshot<'_>) -> Result<HashSet<String>> {
    let Some(person) = personal_of(snapshot.database(), snapshot.grant()) else {
        let note = settings_note(snapshot)?;
        let summary = note.map(|note| snapshot.summary(note)).transpose()?.flatten();
        return Ok(summary.map_or_else(HashSet::new, |summary| texts_of(&summary.items, SUBSCRIPTIONS_ITEM).collect()));
    };
    let Some(profile) = snapshot.profile(PROFILE, Some(&person))? else { return Ok(HashSet::new()) };
    let folders = snapshot.folders()?;
    let titles: HashMap<NoteId, &str> =
        folders.iter().map(|folder| (NoteId(folder.view.0), folder.title.as_str())).collect();
    let mut names = HashSet::new();
    for unid in unids_of(&profile.items) {
        let title = snapshot.find(unid)?.and_then(|note| titles.get(&note));
        names.extend(title.map(|title| (*title).to_owned()));
    }
    Ok(names)
}

/// Returns the last change of the caller's subscriptions if they are not the owner's, and 0 otherwise.
pub(super) fn personal_modseq(snapshot: &DatabaseSnapshot<'_>) -> Result<Modseq> {
    let Some(person) = personal_of(snapshot.database(), snapshot.grant()) else { return Ok(Modseq(0)) };
    let note = snapshot.find(profile_unid(PROFILE, Some(&person)))?;
    let header = note.map(|note| snapshot.header(note)).transpose()?.flatten();
    Ok(header.map_or(Modseq(0), |header| header.modseq))
}

/// Changes the subscriptions of the owner, unless `change` returns `false`.
pub(super) fn change_settings(
    writer: &mut Writer<'_, '_>,
    change: impl FnOnce(&mut Vec<String>) -> Result<bool>,
) -> Result<()> {
    let settings = read_settings(writer)?;
    let mut names: Vec<String> = texts_of(&settings.items, SUBSCRIPTIONS_ITEM).collect();
    if !change(&mut names)? {
        return Ok(());
    }
    let mut items = settings.items;
    items.retain(|item| !item.is_named(SUBSCRIPTIONS_ITEM));
    items.push(Item::summary(SUBSCRIPTIONS_ITEM, ItemValue::TextList(names)));
    writer.note_update(settings.header.note, settings.header.revision(), &items, &[])?;
    Ok(())
}

/// Makes a change of a person, or of the owner if it is `None`. Returns `true` if something was written.
pub(super) fn follow(writer: &mut Writer<'_, '_>, person: Option<&Name>, change: &SubscriptionChange) -> Result<bool> {
    let folders = writer.folders()?;
    let titles: HashMap<ViewId, &str> = folders.iter().map(|folder| (folder.view, folder.title.as_str())).collect();
    let retitled: HashMap<&str, Option<&str>> =
        change.retitled.iter().map(|(view, old)| (old.as_str(), titles.get(view).copied())).collect();
    let mut is_changed = false;
    if person.is_none() || !retitled.is_empty() {
        change_settings(writer, |names| {
            let before = names.clone();
            names.retain_mut(|name| match retitled.get(name.as_str()) {
                Some(Some(title)) => {
                    *name = (*title).to_owned();
                    true
                }
                Some(None) => false,
                None => true,
            });
            for (view, is_wanted) in change.wanted.iter().filter(|_| person.is_none()) {
                let Some(title) = titles.get(view) else { continue };
                if *is_wanted {
                    add(names, (*title).to_owned())?;
                } else {
                    remove(names, title);
                }
            }
            is_changed = *names != before;
            Ok(is_changed)
        })?;
    }
    match person {
        Some(person) if !change.wanted.is_empty() => Ok(change_personal(writer, person, &change.wanted)? || is_changed),
        _ => Ok(is_changed),
    }
}

/// Changes the subscriptions of another person. Returns `true` if they were changed. Mailboxes that were deleted are
/// dropped then; those that are hidden from the person stay.
fn change_personal(writer: &mut Writer<'_, '_>, person: &Name, wanted: &[(ViewId, bool)]) -> Result<bool> {
    let profile = writer.profile(PROFILE, Some(person))?;
    let before: Vec<Unid> = profile.iter().flat_map(|profile| unids_of(&profile.items)).collect();
    let mut unids = before.clone();
    for (view, is_wanted) in wanted {
        let header = writer.header(NoteId(view.0))?.filter(|header| !header.is_stub());
        let Some(unid) = header.map(|header| header.unid) else { continue };
        match (is_wanted, unids.contains(&unid)) {
            (true, false) => unids.push(unid),
            (false, true) => unids.retain(|known| *known != unid),
            _ => {}
        }
    }
    if unids == before {
        return Ok(false);
    }
    let mut kept = Vec::with_capacity(unids.len());
    for unid in unids {
        let note = writer.find(unid)?;
        let header = note.map(|note| writer.header(note)).transpose()?.flatten();
        kept.extend(header.filter(|header| !header.is_stub()).map(|_| unid.to_string()));
    }
    if kept.len() > SUBSCRIPTIONS_MAX {
        return Err(notes::Error::Limit { what: "subscriptions", max: SUBSCRIPTIONS_MAX }.into());
    }
    let items = [Item::body(FOLDERS_ITEM, ItemValue::TextList(kept))];
    writer.profile_set(PROFILE, Some(person), &items, &[])?;
    Ok(true)
}

/// Adds a name. Returns `false` if it is already there.
pub(super) fn add(names: &mut Vec<String>, name: String) -> Result<bool> {
    if names.contains(&name) {
        return Ok(false);
    }
    if names.len() >= SUBSCRIPTIONS_MAX {
        return Err(notes::Error::Limit { what: "subscriptions", max: SUBSCRIPTIONS_MAX }.into());
    }
    names.push(name);
    if names.iter().map(String::len).sum::<usize>() > SUBSCRIPTIONS_BYTES_MAX {
        return Err(notes::Error::Limit { what: "bytes of subscriptions", max: SUBSCRIPTIONS_BYTES_MAX }.into());
    }
    Ok(true)
}

/// Removes a name. Returns `false` if it is not there.
pub(super) fn remove(names: &mut Vec<String>, name: &str) -> bool {
    let before = names.len();
    names.retain(|known| known != name);
    names.len() < before
}

fn unids_of(items: &[Item]) -> impl Iterator<Item = Unid> {
    texts_of(items, FOLDERS_ITEM).filter_map(|text| text.parse().ok())
}

fn texts_of(items: &[Item], name: &str) -> impl Iterator<Item = String> {
    find_item(items, name).into_iter().flat_map(|item| item.value.texts().to_vec())
}
