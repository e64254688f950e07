//! The mailboxes of an account while a call changes them: titles, roles and parents.
//!
//! A transaction reads the folders as the last one left them, so the changes of the same call are kept here.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::ViewId;
use mail::mailbox::SubscriptionChange;
use mail::mailbox_list::{INBOX, MailboxList};
use serde_json::Value;
use unicode_normalization::UnicodeNormalization;

use crate::error::SetError;
use crate::limits::{MAILBOX_DEPTH_MAX, MAILBOX_NAME_BYTES_MAX};

/// The mailboxes of an account.
#[derive(Clone, Default)]
pub(super) struct MailboxTree {
    titles: BTreeMap<ViewId, String>,
    /// The titles that the folders have in the mail file.
    stored_titles: BTreeMap<ViewId, String>,
    roles: HashMap<ViewId, &'static str>,
    ids: HashMap<String, ViewId>,
    /// The subscriptions that clients have set.
    subscriptions_wanted: BTreeMap<ViewId, bool>,
    /// `true` while names and roles may be those of other mailboxes, because several changes are made together.
    allows_conflicts: bool,
}

impl MailboxTree {
    /// Creates the tree of a list.
    pub(super) fn new(list: &MailboxList) -> Self {
        let mut tree = Self::default();
        for mailbox in list.all() {
            tree.titles.insert(mailbox.view, mailbox.title.clone());
            tree.stored_titles.insert(mailbox.view, mailbox.title.clone());
            tree.ids.insert(mailbox.id.clone(), mailbox.view);
            tree.roles.extend(mailbox.role.map(|role| (mailbox.view, role)));
        }
        tree
    }

    /// Returns the folder of a mailbox that existed before the call and still does.
    pub(super) fn by_id(&self, id: &str) -> Option<ViewId> {
        self.ids.get(id).copied().filter(|view| self.titles.contains_key(view))
    }

    /// Returns the identifier of a mailbox that existed before the call.
    pub(super) fn id(&self, view: ViewId) -> Option<&str> {
        self.ids.iter().find(|(_, known)| **known == view).map(|(id, _)| id.as_str())
    }

    /// Returns the title of a mailbox.
    pub(super) fn title(&self, view: ViewId) -> Option<&str> {
        self.titles.get(&view).map(String::as_str)
    }

    /// Returns the parent of a mailbox: the one with the longest title above it.
    pub(super) fn parent(&self, view: ViewId) -> Option<ViewId> {
        let title = self.title(view)?;
        let above = self.titles.iter().filter(|(_, other)| is_below(title, other));
        above.max_by_key(|(_, other)| other.len()).map(|(view, _)| *view)
    }

    /// Returns the name of a mailbox without its parents.
    pub(super) fn name(&self, view: ViewId) -> Option<&str> {
        let title = self.title(view)?;
        let above = self.parent(view).and_then(|parent| self.title(parent)).map_or(0, |parent| parent.len() + 1);
        title.get(above..)
    }

    /// Sets the role of a mailbox.
    pub(super) fn set_role(&mut self, view: ViewId, role: Option<&'static str>) {
        self.roles.remove(&view);
        self.roles.extend(role.map(|role| (view, role)));
    }

    /// Checks that no other mailbox has a role.
    pub(super) fn check_role_is_free(&self, role: Option<&str>, own: Option<ViewId>) -> Result<(), SetError> {
        let Some(role) = role else { return Ok(()) };
        let is_taken = |role: &str| !self.allows_conflicts && self.is_role_of_other(role, own);
        if role == "inbox" || is_taken(role) {
            return Err(SetError::invalid_properties(&["role"], "another mailbox has this role"));
        }
        Ok(())
    }

    fn is_role_of_other(&self, role: &str, own: Option<ViewId>) -> bool {
        self.roles.iter().any(|(view, known)| *known == role && Some(*view) != own)
    }

    /// Sets whether the caller is to be subscribed to a mailbox.
    pub(super) fn set_subscribed(&mut self, view: ViewId, is_subscribed: bool) {
        self.subscriptions_wanted.insert(view, is_subscribed);
    }

    /// Returns what changes subscriptions: the mailboxes that were to get other titles or to be destroyed, and the
    /// subscriptions that clients have set.
    pub(super) fn subscription_change(&self) -> SubscriptionChange {
        let retitled = self.stored_titles.iter().filter(|(view, title)| self.titles.get(view) != Some(title));
        SubscriptionChange {
            retitled: retitled.map(|(view, title)| (*view, title.clone())).collect(),
            wanted: self.subscriptions_wanted.iter().map(|(view, wanted)| (*view, *wanted)).collect(),
        }
    }

    /// Returns the folders whose titles differ from those in the mail file, with their titles.
    pub(super) fn renamed(&self) -> impl Iterator<Item = (ViewId, &str)> {
        let is_renamed = |view: &ViewId, title: &String| self.stored_titles.get(view).is_some_and(|old| old != title);
        let renamed = self.titles.iter().filter(move |(view, title)| is_renamed(view, title));
        renamed.map(|(view, title)| (*view, title.as_str()))
    }

    /// Allows conflicts of names and roles, or not.
    pub(super) fn set_allows_conflicts(&mut self, allows_conflicts: bool) {
        self.allows_conflicts = allows_conflicts;
    }

    /// Returns the mailboxes that have the title or the role of another one.
    pub(super) fn conflicts(&self) -> HashSet<ViewId> {
        let mut found = HashSet::new();
        let mut titles: HashMap<&str, ViewId> = HashMap::new();
        for (view, title) in &self.titles {
            if let Some(other) = titles.insert(title, *view) {
                found.extend([*view, other]);
            }
        }
        let mut roles: HashMap<&str, ViewId> = HashMap::new();
        for (view, role) in &self.roles {
            if let Some(other) = roles.insert(role, *view) {
                found.extend([*view, other]);
            }
        }
        found
    }

    /// Assigns a mailbox a title that no other one has, until it gets its new one.
    pub(super) fn detach(&mut self, view: ViewId) {
        self.rename(view, &format!("\u{0}{}", view.0));
    }

    /// Returns the title of a mailbox with a parent and a name, and checks that it is free.
    pub(super) fn free_title(
        &self,
        parent: Option<ViewId>,
        name: &str,
        own: Option<ViewId>,
    ) -> Result<String, SetError> {
        let title = match parent.and_then(|view| self.title(view)) {
            Some(above) => format!("{above}/{name}"),
            None => name.to_owned(),
        };
        let own_title = own.and_then(|view| self.title(view));
        if parent.is_some() && (parent == own || own_title.is_some_and(|own| is_below(&title, own))) {
            return Err(SetError::invalid_properties(&["parentId"], "a mailbox cannot be below itself"));
        }
        if title.split('/').count() > MAILBOX_DEPTH_MAX {
            return Err(SetError::invalid_properties(&["parentId"], "there are too many levels"));
        }
        if self.allows_conflicts && !title.eq_ignore_ascii_case(INBOX) {
            return Ok(title);
        }
        let wanted = if title.eq_ignore_ascii_case(INBOX) { INBOX } else { title.as_str() };
        match self.titles.iter().find(|(view, other)| *other == wanted && Some(**view) != own) {
            Some((view, _)) => Err(self.name_exists(*view)),
            None if wanted == INBOX => Err(SetError::invalid_properties(&["name"], "this is the name of the inbox")),
            None => Ok(title),
        }
    }

    /// Returns the error for the name of another mailbox. RFC 8620 defines `alreadyExists` for copies; it tells a
    /// client which mailbox has the name. One that the same call has created has no identifier yet.
    fn name_exists(&self, view: ViewId) -> SetError {
        let error = SetError::invalid_properties(&["name"], "another mailbox has this name");
        match self.id(view) {
            Some(id) => SetError { kind: "alreadyExists", ..error }.with("existingId", Value::from(id)),
            None => error,
        }
    }

    /// Adds a mailbox.
    pub(super) fn add(&mut self, view: ViewId, title: String, role: Option<&'static str>) {
        self.stored_titles.insert(view, title.clone());
        self.titles.insert(view, title);
        self.set_role(view, role);
    }

    /// Renames a mailbox and those below it.
    pub(super) fn rename(&mut self, view: ViewId, title: &str) {
        let old = self.titles.get(&view).cloned().unwrap_or_default();
        for (other, known) in &mut self.titles {
            // While names may be those of others, another mailbox may have the same title.
            let new = match known.strip_prefix(&old) {
                Some("") if *other == view => title.to_owned(),
                Some(rest) if rest.starts_with('/') => format!("{title}{rest}"),
                _ => continue,
            };
            *known = new;
        }
    }

    /// Checks that a mailbox may be destroyed, apart from its messages.
    pub(super) fn check_may_destroy(&self, view: ViewId) -> Result<(), SetError> {
        let title = self.title(view).ok_or_else(|| SetError::new("notFound"))?;
        if title == INBOX {
            return Err(SetError::described("forbidden", "the inbox cannot be destroyed"));
        }
        if self.titles.values().any(|other| is_below(other, title)) {
            return Err(SetError::new("mailboxHasChild"));
        }
        Ok(())
    }

    /// Removes a mailbox.
    pub(super) fn remove(&mut self, view: ViewId) {
        self.roles.remove(&view);
        self.titles.remove(&view);
    }
}

/// Returns `true` if a title is below another one.
fn is_below(title: &str, above: &str) -> bool {
    title.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Checks the name of a mailbox (RFC 8621 §2), and returns it in normalization form C.
pub(super) fn check_name(value: &Value) -> Result<String, SetError> {
    let invalid = |reason: &str| SetError::invalid_properties(&["name"], reason);
    let name: String = value.as_str().ok_or_else(|| invalid("the name is not a string"))?.nfc().collect();
    if name.is_empty() || name.len() > MAILBOX_NAME_BYTES_MAX {
        return Err(invalid("the name is empty or too long"));
    }
    if name.contains('/') || name.chars().any(char::is_control) {
        return Err(invalid("the name has a slash or control characters"));
    }
    Ok(name)
}
