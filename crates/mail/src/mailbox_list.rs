//! The mailboxes of an account: names and parents from the titles of folders, roles, order, subscriptions and rights.
//!
//! The title of a folder is its path with `/` between the levels, so a mailbox has the parent whose title is the
//! longest proper prefix. A list is loaded when the design of the mail file has changed, and remembers when its
//! mailboxes were created, changed and removed.

use std::collections::{HashMap, HashSet};

use base::{Modseq, NoteId, ViewId};
use notes::{AclFlags, AclLevel, FolderDesign, Grant};

use crate::error::Result;
use crate::mailbox::MailSnapshot;
use crate::mailbox::file::{NO_SELECT_ITEM, SPECIAL_USE_ITEM};

/// The item of a folder with its position among others.
pub const SORT_ORDER_ITEM: &str = "$SortOrder";

/// The roles with the attributes that the IANA registry of IMAP mailbox name attributes has for them. Those of RFC 6154
/// and RFC 8457 are special uses in IMAP; the others are shown in JMAP only.
pub const ROLES: [(&str, &str); 12] = [
    ("all", "\\All"),
    ("archive", "\\Archive"),
    ("drafts", "\\Drafts"),
    ("flagged", "\\Flagged"),
    ("important", "\\Important"),
    ("junk", "\\Junk"),
    ("memos", "\\Memos"),
    ("scheduled", "\\Scheduled"),
    ("sent", "\\Sent"),
    ("snoozed", "\\Snoozed"),
    ("subscribed", "\\Subscribed"),
    ("trash", "\\Trash"),
];

/// The title of the inbox.
pub const INBOX: &str = "INBOX";

/// A mailbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The folder.
    pub view: ViewId,
    /// The identifier, which is MAILBOXID in IMAP.
    pub id: String,
    /// The title of the folder: the names of all levels.
    pub title: String,
    /// The name without those of the parents.
    pub name: String,
    /// The identifier of the parent.
    pub parent: Option<String>,
    /// The role.
    pub role: Option<&'static str>,
    /// The position among others.
    pub sort_order: u64,
    /// `true` if the caller has subscribed to it.
    pub is_subscribed: bool,
    /// `true` if it can hold messages.
    pub is_selectable: bool,
    /// The rights of the caller.
    pub rights: Rights,
    /// The change with which it was created, or one after that.
    created: Created,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Created {
    At(Modseq),
    AtOrBefore(Modseq),
}

impl Mailbox {
    /// Returns `true` if the mailbox was created after a change, or `None` if this is not known.
    #[must_use]
    pub fn created_after(&self, since: Modseq) -> Option<bool> {
        match self.created {
            Created::At(created) => Some(created > since),
            Created::AtOrBefore(latest) => (latest <= since).then_some(false),
        }
    }

    /// Returns `true` if nothing but the time of creation differs.
    fn is_like(&self, other: &Self) -> bool {
        Self { created: other.created, ..self.clone() } == *other
    }
}

/// The rights of a caller in a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// The caller may add messages.
    pub may_add: bool,
    /// The caller may remove messages.
    pub may_remove: bool,
    /// The caller may change keywords.
    pub may_mark: bool,
    /// The caller may create mailboxes below this one.
    pub may_create_child: bool,
    /// The caller may rename, move and delete the mailbox.
    pub may_rename: bool,
    /// The caller may send messages from this mailbox.
    pub may_submit: bool,
}

impl Rights {
    fn of(grant: &Grant, is_inbox: bool) -> Self {
        let is_designer = may_create_mailboxes(grant);
        let is_author = grant.level() >= AclLevel::Author;
        let is_editor = grant.level() >= AclLevel::Editor;
        Self {
            may_add: grant.may_create() && is_author,
            may_remove: is_editor && !grant.flags().contains(AclFlags::NO_DELETE),
            may_mark: is_author,
            may_create_child: is_designer,
            may_rename: is_designer && !is_inbox,
            may_submit: is_editor,
        }
    }
}

/// Returns `true` if a grant permits to create, change and delete mailboxes.
#[must_use]
pub fn may_create_mailboxes(grant: &Grant) -> bool {
    grant.flags().contains(AclFlags::CREATE_FOLDER) || grant.level() >= AclLevel::Designer
}

/// The mailboxes of an account.
#[derive(Clone, Debug, Default)]
pub struct MailboxList {
    mailboxes: Vec<Mailbox>,
    by_view: HashMap<ViewId, usize>,
    by_id: HashMap<String, usize>,
    /// The last change of each mailbox, apart from its counts.
    changed: HashMap<ViewId, Modseq>,
    /// Mailboxes that were removed, with the change after which they were missing.
    gone: Vec<(Modseq, String)>,
    /// The last change of any mailbox, apart from counts.
    modseq: Modseq,
    /// The change since which the list has followed.
    since: Modseq,
}

impl MailboxList {
    /// Reads the mailboxes that the caller may see.
    pub fn load(snapshot: &MailSnapshot<'_>) -> Result<Self> {
        let designs = snapshot.reading().folders()?;
        let subscriptions = snapshot.subscriptions()?;
        let titles: HashMap<&str, ViewId> = designs.iter().map(|design| (design.title.as_str(), design.view)).collect();
        let mut ids = HashMap::new();
        for design in designs.iter() {
            ids.insert(design.view, snapshot.status(design.view)?.mailbox_id);
        }
        let mut roles = HashSet::new();
        let mut list = Self::default();
        for design in designs.iter() {
            let header = snapshot.reading().header(NoteId(design.view.0))?;
            let created = header.map_or(Created::AtOrBefore(snapshot.modseq()), |header| match header.sequence {
                1 => Created::At(header.saved_modseq),
                _ => Created::AtOrBefore(header.saved_modseq),
            });
            let (parent, name) = split_title(&design.title, &titles);
            let is_inbox = design.title == INBOX;
            list.push(Mailbox {
                view: design.view,
                id: ids.get(&design.view).cloned().unwrap_or_default(),
                title: design.title.clone(),
                name: if is_inbox { "Inbox".to_owned() } else { name.to_owned() },
                parent: parent.and_then(|view| ids.get(&view).cloned()),
                role: role_of(design).filter(|role| roles.insert(*role)),
                sort_order: design.attribute(SORT_ORDER_ITEM).and_then(|text| text.parse().ok()).unwrap_or(0),
                is_subscribed: subscriptions.contains(&design.title),
                is_selectable: design.attribute(NO_SELECT_ITEM).is_none(),
                rights: Rights::of(snapshot.reading().grant(), is_inbox),
                created,
            });
        }
        Ok(list)
    }

    fn push(&mut self, mailbox: Mailbox) {
        self.by_view.insert(mailbox.view, self.mailboxes.len());
        self.by_id.insert(mailbox.id.clone(), self.mailboxes.len());
        self.mailboxes.push(mailbox);
    }

    /// Returns the list as the first one: nothing is known about earlier changes.
    #[must_use]
    pub fn starting(mut self, modseq: Modseq) -> Self {
        self.changed = self.mailboxes.iter().map(|mailbox| (mailbox.view, modseq)).collect();
        self.modseq = modseq;
        self.since = modseq;
        self
    }

    /// Returns the list with what is known from the one before.
    #[must_use]
    pub fn following(mut self, before: &Self, modseq: Modseq) -> Self {
        self.gone.clone_from(&before.gone);
        self.since = before.since;
        self.modseq = before.modseq;
        let gone = before.all().filter(|old| !self.by_view.contains_key(&old.view));
        for old in gone {
            self.gone.push((modseq, old.id.clone()));
            self.modseq = modseq;
        }
        for mailbox in &mut self.mailboxes {
            let old = before.by_view(mailbox.view);
            if let Some(old) = old {
                mailbox.created = match (old.created, mailbox.created) {
                    (Created::AtOrBefore(_), Created::AtOrBefore(_)) => Created::AtOrBefore(before.modseq),
                    (known, Created::AtOrBefore(_)) => known,
                    (_, known) => known,
                };
            }
            let is_same = old.is_some_and(|old| mailbox.is_like(old));
            let earlier = before.changed.get(&mailbox.view).copied().filter(|_| is_same);
            self.changed.insert(mailbox.view, earlier.unwrap_or(modseq));
            if earlier.is_none() {
                self.modseq = modseq;
            }
        }
        self
    }

    /// Returns all mailboxes, in the order of their creation.
    pub fn all(&self) -> impl Iterator<Item = &Mailbox> {
        self.mailboxes.iter()
    }

    /// Returns the mailbox of a folder.
    #[must_use]
    pub fn by_view(&self, view: ViewId) -> Option<&Mailbox> {
        self.mailboxes.get(*self.by_view.get(&view)?)
    }

    /// Returns the mailbox with an identifier.
    #[must_use]
    pub fn by_id(&self, id: &str) -> Option<&Mailbox> {
        self.mailboxes.get(*self.by_id.get(id)?)
    }

    /// Returns the mailbox with a role.
    #[must_use]
    pub fn with_role(&self, role: &str) -> Option<&Mailbox> {
        self.mailboxes.iter().find(|mailbox| mailbox.role == Some(role))
    }

    /// Returns the last change of any mailbox, apart from counts.
    #[must_use]
    pub fn modseq(&self) -> Modseq {
        self.modseq
    }

    /// Returns the change since which removed mailboxes are known.
    #[must_use]
    pub fn since(&self) -> Modseq {
        self.since
    }

    /// Returns the last change of a mailbox, apart from its counts.
    #[must_use]
    pub fn changed(&self, view: ViewId) -> Modseq {
        self.changed.get(&view).copied().unwrap_or(self.modseq)
    }

    /// Returns the mailboxes that were removed after a change.
    pub fn gone_after(&self, since: Modseq) -> impl Iterator<Item = &str> {
        self.gone.iter().filter(move |(modseq, _)| *modseq > since).map(|(_, id)| id.as_str())
    }
}

/// Returns the role of a folder.
fn role_of(design: &FolderDesign) -> Option<&'static str> {
    if design.title == INBOX {
        return Some("inbox");
    }
    let special = design.attribute(SPECIAL_USE_ITEM)?;
    ROLES.iter().find(|(_, name)| name.eq_ignore_ascii_case(special)).map(|(role, _)| *role)
}

/// Returns the parent and the name of a title. Levels without a folder of their own belong to the name.
fn split_title<'t>(title: &'t str, titles: &HashMap<&str, ViewId>) -> (Option<ViewId>, &'t str) {
    let mut separators: Vec<usize> = title.match_indices('/').map(|(index, _)| index).collect();
    while let Some(index) = separators.pop() {
        if let Some(parent) = titles.get(&title[..index]) {
            return (Some(*parent), &title[index + 1..]);
        }
    }
    (None, title)
}
