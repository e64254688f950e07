//! Mail files: creation, opening, mailboxes, and changes to messages.
//!
//! Every change is one transaction. Its [`Ticket`] must be durable before the client receives a reply. A call with
//! several messages changes all of them or none, as COPY, MOVE and APPEND require (RFC 9051 §6.4.7, RFC 6851, RFC
//! 3502).

use std::sync::Arc;

use base::{Modseq, Name, NoteId, Uid, UidSet, ViewId};
use event_listener::EventListener;
use notes::folder::derived_unid;
use notes::note::{MAIL_SETTINGS_UNID, OLD_MAIL_SETTINGS_NOTE};
use notes::{
    Access, Acl, Database, DatabaseKind, DatabaseOptions, Databases, FolderDesign, FullTextSchedule, Identity, Item,
    ItemValue, Level, Marks, NewDatabase, NewNote, NoteClass, Writer, level,
};
use store::Ticket;

use crate::error::{Error, Result};
use crate::limits::{
    APPEND_MESSAGES_MAX, CACHED_PROFILES_DEFAULT, DELETE_MESSAGES_PER_TRANSACTION, EXPUNGE_SCAN_GAP_MAX,
    MAILBOX_LEVELS_MAX, MAILBOX_NAME_BYTES_MAX, MOVE_MESSAGES_PER_TRANSACTION, SEPARATE_PART_BYTES_MIN,
};
use crate::mailbox::flags::{FlagChange, Flags};
use crate::mailbox::head_cache::HeadCache;
use crate::mailbox::mail_snapshot::{Folder, MailSnapshot, SpecialUse, canonical_name};
use crate::mailbox::places::move_place;
use crate::mailbox::profile_cache::{ProfileCache, ProfileCacheStatistics};
use crate::mailbox::quota::Quota;
use crate::mailbox::ready_message::{NewMessage, ReadyMessage, check_quota};
use crate::mailbox::subscriptions::{self, SUBSCRIPTIONS_ITEM, SubscriptionChange};
use crate::mime::skeleton::PartSeparation;
use crate::preferences::LockedPreferences;

/// The item of a folder that holds its special use.
pub const SPECIAL_USE_ITEM: &str = "$SpecialUse";

/// The item that marks a folder that holds no messages.
pub const NO_SELECT_ITEM: &str = "$NoSelect";

/// The mailboxes that every mail file has from the start.
const DEFAULT_FOLDERS: [(&str, Option<SpecialUse>); 6] = [
    ("INBOX", None),
    ("Drafts", Some(SpecialUse::Drafts)),
    ("Sent", Some(SpecialUse::Sent)),
    ("Archive", Some(SpecialUse::Archive)),
    ("Junk", Some(SpecialUse::Junk)),
    ("Trash", Some(SpecialUse::Trash)),
];

/// Operator settings that apply to all mail files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailOptions {
    /// Which parts of messages are stored in the blob store.
    pub separation: PartSeparation,
    /// Maximum size of an accepted message.
    pub message_bytes_max: u64,
    /// Update frequency of the full-text index of a new mail file.
    pub full_text: FullTextSchedule,
    /// The preferences that people cannot change.
    pub locked_preferences: LockedPreferences,
    /// Number of profile documents that are kept in memory.
    pub cached_profiles: usize,
}

impl Default for MailOptions {
    fn default() -> Self {
        Self {
            separation: SEPARATE_PART_BYTES_MIN.into(),
            message_bytes_max: base::limits::MESSAGE_BYTES_MAX as u64,
            full_text: FullTextSchedule::Off,
            locked_preferences: LockedPreferences::default(),
            cached_profiles: CACHED_PROFILES_DEFAULT,
        }
    }
}

/// All mail files of a server.
pub struct MailStore {
    databases: Arc<Databases>,
    options: MailOptions,
    heads: HeadCache,
    profiles: ProfileCache,
}

impl MailStore {
    /// Creates the mail layer on top of the databases of a server.
    #[must_use]
    pub fn new(databases: Arc<Databases>, options: MailOptions) -> Arc<Self> {
        let profiles = ProfileCache::new(options.cached_profiles);
        Arc::new(Self { databases, options, heads: HeadCache::default(), profiles })
    }

    /// Returns the databases.
    #[must_use]
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    pub(crate) fn head_cache(&self) -> &HeadCache {
        &self.heads
    }

    /// Returns what the cache of profile documents has done.
    #[must_use]
    pub fn profile_cache_statistics(&self) -> ProfileCacheStatistics {
        self.profiles.statistics()
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &MailOptions {
        &self.options
    }

    /// Creates a mail file with its first mailboxes. The mail file is durable on return.
    pub fn create(&self, path: &str, title: &str, owner: &Name, quota_bytes: Option<u64>) -> Result<()> {
        let new = NewDatabase {
            owner: owner.clone(),
            options: DatabaseOptions { quota_bytes, full_text: self.options.full_text, ..DatabaseOptions::default() },
            ..NewDatabase::new(path, title, DatabaseKind::Mail, Acl::private(owner).with_domain_servers())
        };
        let database = self.databases.database_create(&new)?;
        self.create_missing_parts(&database)
    }

    /// Creates the mail file unless it exists. Returns `true` if it was created.
    pub fn create_if_missing(&self, path: &str, title: &str, owner: &Name, quota_bytes: Option<u64>) -> Result<bool> {
        match self.create(path, title, owner, quota_bytes) {
            Ok(()) => Ok(true),
            Err(Error::Notes(notes::Error::Exists { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a mail file with the rights of one identity.
    pub fn open(self: &Arc<Self>, path: &str, identity: &Arc<Identity>) -> Result<MailFile> {
        let database = self.databases.database_open(path)?;
        let access: Access<level::Reader> = database.authorize(identity)?;
        self.create_missing_parts(&database)?;
        Ok(MailFile { mail: Arc::clone(self), depositor: access.downgrade(), access })
    }

    /// Opens a mail file as the server itself, for delivery and maintenance.
    pub fn open_as_server(self: &Arc<Self>, path: &str) -> Result<MailFile> {
        self.open(path, &Arc::new(Identity::local_server("")))
    }

    /// Opens a mail file for an operator command, as the server with that name. An ACL that is enforced for local
    /// access applies.
    pub fn open_as_operator(self: &Arc<Self>, path: &str, server: &Name) -> Result<MailFile> {
        self.open(path, &Arc::new(Identity::local_tool(server.clone())))
    }

    /// Returns the inbox of a mail file within a transaction.
    pub(crate) fn inbox_of(&self, writer: &Writer<'_, '_>) -> Result<ViewId> {
        let folders = writer.folders()?;
        let inbox = folders.iter().find(|folder| folder.title == "INBOX");
        inbox.map(|folder| folder.view).ok_or_else(|| Error::NoMailbox("INBOX".into()))
    }

    /// Creates the parts of a mail file that are missing if a crash followed the creation of its database.
    fn create_missing_parts(&self, database: &Arc<Database>) -> Result<()> {
        if database.modseq() > Modseq(2) {
            return Ok(());
        }
        let itself = Arc::new(Identity::local_server(""));
        let access: Access<level::Depositor> = database.authorize(&itself)?;
        let accesses = [&access];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        if !writer.folders()?.is_empty() {
            return Ok(());
        }
        let names = DEFAULT_FOLDERS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let subscriptions = Item::summary(SUBSCRIPTIONS_ITEM, ItemValue::TextList(names));
        let settings = NewNote::of_class(NoteClass::ICON, vec![subscriptions]);
        writer.note_create(NewNote { unid: Some(MAIL_SETTINGS_UNID), ..settings })?;
        for (name, special) in DEFAULT_FOLDERS {
            let attributes: Vec<_> = special.iter().map(|special| (SPECIAL_USE_ITEM, special.name())).collect();
            writer.folder_create_derived(name, &attributes)?;
        }
        let ticket = transaction.commit()?;
        Ok(self.databases.store().durable(ticket).wait()?)
    }
}

/// Restores the names and special uses of the first mailboxes of a mail file after a repair of its database.
///
/// The repair recreates the folders without names: it knows their messages but not their names. They are found by their
/// UNIDs or, in mail files of earlier versions, by their numbers. Their designs stay older than any save, because the
/// user may have given them other names, which other replicas still have. A missing inbox is created, because mail
/// would be refused without one. Other databases are left alone.
pub fn restore_default_folders(databases: &Databases, path: &str) -> Result<()> {
    let database = databases.database_open(path)?;
    if database.record().kind != DatabaseKind::Mail {
        return Ok(());
    }
    let server = Arc::new(Identity::local_server(""));
    let itself: Access<level::Depositor> = database.authorize(&server)?;
    let reader: Access<level::Reader> = database.authorize(&server)?;
    for (number, (name, special)) in (OLD_MAIL_SETTINGS_NOTE.0 + 1..).zip(DEFAULT_FOLDERS) {
        let derived = reader.read()?.find(derived_unid(name))?.map(|note| ViewId(note.0));
        let view = derived.unwrap_or(ViewId(number));
        change_folders_if_needed(databases, &itself, |writer, folders| {
            if folders.iter().any(|folder| folder.title == name) {
                return Ok(false);
            }
            let attributes: Vec<_> = special.iter().map(|special| (SPECIAL_USE_ITEM, special.name())).collect();
            if writer.folder_restore(view, name, &attributes)? {
                return Ok(true);
            }
            if name == "INBOX" && derived.is_none() {
                writer.folder_create_derived(name, &[])?;
            } else if name == "INBOX" {
                // The folder that was the inbox has another name.
                writer.folder_create(name, &[])?;
            }
            Ok(name == "INBOX")
        })?;
    }
    Ok(())
}

/// Changes folders in a separate transaction, unless `change` returns `false`. The change is durable on return.
fn change_folders_if_needed(
    databases: &Databases,
    itself: &Access<level::Depositor>,
    change: impl FnOnce(&mut Writer<'_, '_>, &[FolderDesign]) -> Result<bool>,
) -> Result<()> {
    let accesses = [itself];
    let mut transaction = databases.transaction(&accesses)?;
    let mut writer = transaction.writer(0);
    let folders = writer.folders()?;
    if change(&mut writer, &folders)? {
        let ticket = transaction.commit()?;
        databases.store().durable(ticket).wait()?;
    }
    Ok(())
}

/// The outcome of a change of flags.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreOutcome {
    /// UIDs of the messages whose flags were changed.
    pub changed: UidSet,
    /// UIDs of the messages that were changed since the given modseq (RFC 7162: MODIFIED).
    pub modified: UidSet,
    /// The modseq of the change.
    pub modseq: Modseq,
    /// The ticket of the change, to wait for its durability.
    pub ticket: Ticket,
}

/// The outcome of an expunge.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpungeOutcome {
    /// UIDs of the removed messages.
    pub uids: UidSet,
    /// `true` if no message is left to remove.
    pub is_complete: bool,
    /// The modseq of the change.
    pub modseq: Modseq,
    /// The ticket of the change, to wait for its durability.
    pub ticket: Ticket,
}

/// The outcome of a copy or a move.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyOutcome {
    /// UIDVALIDITY of the target.
    pub uid_validity: u32,
    /// Old and new UIDs, ascending by old UID.
    pub pairs: Vec<(Uid, Uid)>,
    /// The modseq of the change.
    pub modseq: Modseq,
    /// The ticket of the change, to wait for its durability.
    pub ticket: Ticket,
}

/// A mail file that is open for one user.
pub struct MailFile {
    mail: Arc<MailStore>,
    access: Access<level::Reader>,
    depositor: Access<level::Depositor>,
}

impl MailFile {
    /// Returns the database.
    #[must_use]
    pub fn database(&self) -> &Arc<Database> {
        self.access.database()
    }

    /// Returns the proof of write access, for transactions over several mail files.
    #[must_use]
    pub fn depositor(&self) -> &Access<level::Depositor> {
        &self.depositor
    }

    /// Checks that the user may change all messages. Returns an error without Editor access.
    pub fn require_editor(&self) -> Result<()> {
        self.require_level::<level::Editor>()
    }

    fn require_level<L: Level>(&self) -> Result<()> {
        let identity = Arc::new(self.access.identity().clone());
        let _access: Access<L> = self.access.database().authorize(&identity)?;
        Ok(())
    }

    /// Returns the mail files of the server.
    #[must_use]
    pub fn mail(&self) -> &Arc<MailStore> {
        &self.mail
    }

    /// Takes a snapshot of the current state for reading.
    pub fn snapshot(&self) -> Result<MailSnapshot<'_>> {
        Ok(MailSnapshot::new(self.access.read()?, &self.mail.heads, &self.mail.profiles))
    }

    /// Returns a listener that is notified of the next change. It must be taken before the snapshot that is compared.
    #[must_use]
    pub fn listen(&self) -> EventListener {
        self.database().listen()
    }

    /// Returns a handle to wait until a change is durable.
    pub fn durable(&self, ticket: Ticket) -> store::DurableFuture {
        self.mail.databases.store().durable(ticket)
    }

    /// Returns the usage and the quota of the mail file.
    pub fn quota(&self) -> Result<Quota> {
        Ok(Quota::of(&self.access.read()?))
    }

    /// Creates a mailbox and its missing parents.
    pub fn folder_create(&self, name: &str, special: Option<SpecialUse>) -> Result<(ViewId, Ticket)> {
        let name = check_name(name)?;
        self.write(|writer| {
            let folders = writer.folders()?;
            if let Some(existing) = folders.iter().find(|folder| folder.title == name) {
                if existing.attribute(NO_SELECT_ITEM).is_none() {
                    return Err(Error::MailboxExists(name.clone()));
                }
                writer.folder_item_set(existing.view, NO_SELECT_ITEM, None)?;
                return Ok(existing.view);
            }
            for (index, _) in name.match_indices('/') {
                let above = &name[..index];
                if !folders.iter().any(|folder| folder.title == above) {
                    writer.folder_create(above, &[])?;
                }
            }
            let attributes: Vec<_> = special.iter().map(|special| (SPECIAL_USE_ITEM, special.name())).collect();
            Ok(writer.folder_create(&name, &attributes)?)
        })
    }

    /// Deletes a mailbox, and its messages that are in no other one. A mailbox with children remains as a name that
    /// holds no messages.
    pub fn folder_delete(&self, name: &str) -> Result<Ticket> {
        let folder = self.require(name)?.id;
        loop {
            if let Some(ticket) = self.folder_delete_part(name, folder)? {
                return Ok(ticket);
            }
        }
    }

    /// Deletes some messages of a mailbox or, if it has none, the mailbox. Returns `None` if it is not deleted yet.
    /// Returns an error if the mailbox no longer has this name: another one that was created meanwhile is left alone.
    pub fn folder_delete_part(&self, name: &str, expected: ViewId) -> Result<Option<Ticket>> {
        let folder = self.require(name)?;
        if folder.id != expected {
            return Err(Error::NoMailbox(name.to_owned()));
        }
        if folder.name == "INBOX" {
            return Err(Error::MailboxRefused { name: folder.name, reason: "the inbox cannot be deleted" });
        }
        let below = format!("{}/", folder.name);
        if !folder.selectable && self.snapshot()?.folders()?.iter().any(|other| other.name.starts_with(&below)) {
            return Err(Error::MailboxRefused { name: folder.name, reason: "it still has child mailboxes" });
        }
        if self.delete_batch(folder.id)? {
            return Ok(None);
        }
        let (is_done, ticket) = self.write(|writer| {
            // New mail can have arrived since.
            if writer.folder_read(folder.id)?.totals()?.count > 0 {
                return Ok(false);
            }
            if writer.folders()?.iter().any(|other| other.title.starts_with(&below)) {
                writer.folder_item_set(folder.id, NO_SELECT_ITEM, Some("1"))?;
            } else {
                writer.folder_delete(folder.id)?;
            }
            Ok(true)
        })?;
        Ok(is_done.then_some(ticket))
    }

    /// Renames a mailbox and its children. The inbox remains; its messages are moved to the new mailbox.
    pub fn folder_rename(&self, from: &str, to: &str) -> Result<Ticket> {
        let folder = self.require(from)?;
        let to = check_name(to)?;
        if folder.name == "INBOX" {
            return self.rename_inbox(&folder, &to);
        }
        let below = format!("{}/", folder.name);
        if to.starts_with(&below) {
            return Err(Error::MailboxRefused { name: to, reason: "a mailbox cannot be moved below itself" });
        }
        let ((), ticket) = self.write(|writer| {
            let folders = writer.folders()?;
            if folders.iter().any(|other| other.title == to) {
                return Err(Error::MailboxExists(to.clone()));
            }
            for (index, _) in to.match_indices('/') {
                if !folders.iter().any(|other| other.title == to[..index]) {
                    writer.folder_create(&to[..index], &[])?;
                }
            }
            for other in folders.iter() {
                if other.view == folder.id {
                    writer.folder_rename(other.view, &to)?;
                } else if let Some(rest) = other.title.strip_prefix(&below) {
                    writer.folder_rename(other.view, &format!("{to}/{rest}"))?;
                }
            }
            Ok(())
        })?;
        Ok(ticket)
    }

    /// Adds a name to the user's subscriptions. The owner may subscribe to a name without a mailbox.
    pub fn folder_subscribe(&self, name: &str) -> Result<Ticket> {
        let name = check_name(name)?;
        if self.subscriber()?.is_some() {
            let wanted = vec![(self.require(&name)?.id, true)];
            return Ok(self.subscriptions_follow(&SubscriptionChange { wanted, ..SubscriptionChange::default() })?.1);
        }
        self.subscriptions_change(|names| subscriptions::add(names, name))
    }

    /// Removes a name from the user's subscriptions.
    pub fn folder_unsubscribe(&self, name: &str) -> Result<Ticket> {
        let name = canonical_name(name);
        if self.subscriber()?.is_some() {
            let folder = self.snapshot()?.folder(&name)?;
            let wanted = folder.into_iter().map(|folder| (folder.id, false)).collect();
            return Ok(self.subscriptions_follow(&SubscriptionChange { wanted, ..SubscriptionChange::default() })?.1);
        }
        self.subscriptions_change(|names| Ok(subscriptions::remove(names, &name)))
    }

    /// Changes subscriptions after a change of mailboxes. Returns `true` if something was written.
    ///
    /// The user needs the level Author. The server writes on their behalf, because the settings note of the owner is a
    /// design note.
    pub fn subscriptions_follow(&self, change: &SubscriptionChange) -> Result<(bool, Ticket)> {
        self.require_level::<level::Author>()?;
        let person = self.subscriber()?;
        let itself = self.access.database().authorize(&Arc::new(Identity::local_server("")))?;
        self.write_as(&itself, |writer| subscriptions::follow(writer, person.as_ref(), change))
    }

    /// Returns the person who has subscriptions apart from those of the owner, if the user is such a person.
    fn subscriber(&self) -> Result<Option<Name>> {
        Ok(subscriptions::personal_of(self.access.database(), &*self.access.grant()?))
    }

    /// Puts messages into a mailbox. Returns UIDVALIDITY and their UIDs.
    pub fn append(&self, folder: ViewId, messages: &[NewMessage]) -> Result<(u32, Vec<Uid>, Ticket)> {
        let ready = messages.iter().map(|message| self.prepare(message)).collect::<Result<Vec<_>>>()?;
        self.append_prepared(folder, &ready)
    }

    /// Prepares a message for a mailbox. The cost depends on its size, and no lock is held.
    pub fn prepare(&self, message: &NewMessage) -> Result<ReadyMessage> {
        let options = &self.mail.options;
        let size_bytes = message.raw.len() as u64;
        if size_bytes > options.message_bytes_max {
            return Err(Error::TooLarge { size_bytes, max_bytes: options.message_bytes_max });
        }
        ReadyMessage::new(&self.mail.databases, message, options.separation)
    }

    /// Puts prepared messages into a mailbox. Returns UIDVALIDITY and their UIDs.
    pub fn append_prepared(&self, folder: ViewId, messages: &[ReadyMessage]) -> Result<(u32, Vec<Uid>, Ticket)> {
        if messages.len() > APPEND_MESSAGES_MAX {
            return Err(notes::Error::Limit { what: "messages in one call", max: APPEND_MESSAGES_MAX }.into());
        }
        let ((validity, uids), ticket) = self.write(|writer| {
            let uids = append_all(writer, folder, messages)?;
            Ok((writer.folder_state(folder)?.uid_validity, uids))
        })?;
        Ok((validity, uids, ticket))
    }

    /// Replaces a message by another one (RFC 8508).
    pub fn replace(
        &self,
        folder: ViewId,
        uid: Uid,
        target: ViewId,
        message: &NewMessage,
    ) -> Result<(u32, Uid, Ticket)> {
        let message = self.prepare(message)?;
        self.replace_prepared(folder, uid, target, &message)
    }

    /// Replaces a message by another one that was prepared.
    pub fn replace_prepared(
        &self,
        folder: ViewId,
        uid: Uid,
        target: ViewId,
        message: &ReadyMessage,
    ) -> Result<(u32, Uid, Ticket)> {
        let ((validity, uid), ticket) = self.write(|writer| {
            let old = writer.folder_entry(folder, uid)?;
            let old = old.ok_or_else(|| notes::Error::not_found(format!("message with UID {uid}")))?;
            let uids = append_all(writer, target, std::slice::from_ref(message))?;
            writer.note_delete_from(old.note, folder)?;
            let new = uids.first().copied().unwrap_or_default();
            Ok((writer.folder_state(target)?.uid_validity, new))
        })?;
        Ok((validity, uid, ticket))
    }

    /// Changes the flags of messages, except those that changed since `unchanged_since`.
    pub fn store(
        &self,
        folder: ViewId,
        uids: &UidSet,
        change: &FlagChange,
        unchanged_since: Option<Modseq>,
    ) -> Result<StoreOutcome> {
        let keywords = self.database();
        let ((changed, modified, modseq), ticket) = self.write(|writer| {
            let mut changed = UidSet::new();
            let mut modified = UidSet::new();
            for entry in entries_of(writer, folder, uids, usize::MAX)? {
                if unchanged_since.is_some_and(|since| entry.modseq > since) {
                    modified.insert(entry.uid.0);
                    continue;
                }
                let known = keywords.keywords();
                let names = entry.keywords.iter().filter_map(|keyword| known.name(*keyword)).map(str::to_owned);
                let flags = change.apply(&Flags { marks: entry.marks, keywords: names.collect() });
                if writer.marks_set_in((entry.note, folder), flags.marks, &flags.keywords)? {
                    changed.insert(entry.uid.0);
                }
            }
            let modseq = if changed.is_empty() { keywords.modseq() } else { writer.modseq() };
            Ok((changed, modified, modseq))
        })?;
        Ok(StoreOutcome { changed, modified, modseq, ticket })
    }

    /// Removes the messages with `\Deleted` from a mailbox. With `uids`, only those of them that are in `uids`. Those
    /// that are in no other mailbox are deleted.
    pub fn expunge(&self, folder: ViewId, uids: Option<&UidSet>) -> Result<ExpungeOutcome> {
        self.expunge_up_to(folder, uids, usize::MAX)
    }

    /// Removes the first `count_max` of the messages that [`MailFile::expunge`] removes.
    pub fn expunge_up_to(&self, folder: ViewId, uids: Option<&UidSet>, count_max: usize) -> Result<ExpungeOutcome> {
        let database = self.database();
        let ((gone, is_complete, modseq), ticket) = self.write(|writer| {
            let mut doomed = entries_marked_deleted(&writer.folder_read(folder)?, uids, count_max.saturating_add(1))?;
            let is_complete = doomed.len() <= count_max;
            doomed.truncate(count_max);
            for entry in &doomed {
                writer.note_delete_from(entry.note, folder)?;
            }
            let modseq = if doomed.is_empty() { database.modseq() } else { writer.modseq() };
            Ok((doomed.into_iter().map(|entry| entry.uid).collect(), is_complete, modseq))
        })?;
        Ok(ExpungeOutcome { uids: gone, is_complete, modseq, ticket })
    }

    /// Removes messages from a mailbox, whatever their flags. Those that are in no other mailbox are deleted.
    pub fn delete(&self, folder: ViewId, uids: &UidSet) -> Result<Ticket> {
        let ((), ticket) = self.write(|writer| {
            for entry in entries_of(writer, folder, uids, usize::MAX)? {
                writer.note_delete_from(entry.note, folder)?;
            }
            Ok(())
        })?;
        Ok(ticket)
    }

    /// Copies messages with their flags and times.
    pub fn copy(&self, folder: ViewId, uids: &UidSet, target: ViewId) -> Result<CopyOutcome> {
        self.copy_up_to(folder, uids, target, usize::MAX)
    }

    /// Copies the first `count_max` of the messages.
    pub fn copy_up_to(&self, folder: ViewId, uids: &UidSet, target: ViewId, count_max: usize) -> Result<CopyOutcome> {
        let limit = self.database().record().options.quota_bytes;
        let ((uid_validity, pairs, modseq), ticket) = self.write(|writer| {
            let mut pairs = Vec::new();
            for entry in entries_of(writer, folder, uids, count_max)? {
                check_quota(writer, limit, entry.size)?;
                let uid = copy_note(writer, &entry, target)?;
                pairs.push((entry.uid, uid));
            }
            Ok((writer.folder_state(target)?.uid_validity, pairs, writer.modseq()))
        })?;
        Ok(CopyOutcome { uid_validity, pairs, modseq, ticket })
    }

    /// Moves messages. They keep their flags and times and receive new UIDs.
    pub fn move_to(&self, folder: ViewId, uids: &UidSet, target: ViewId) -> Result<CopyOutcome> {
        self.move_up_to(folder, uids, target, usize::MAX)
    }

    /// Moves the first `count_max` of the messages.
    pub fn move_up_to(&self, folder: ViewId, uids: &UidSet, target: ViewId, count_max: usize) -> Result<CopyOutcome> {
        let ((uid_validity, pairs, modseq), ticket) = self.write(|writer| {
            let mut pairs = Vec::new();
            for entry in entries_of(writer, folder, uids, count_max)? {
                let uid = move_place(writer, &entry, (folder, target))?;
                pairs.push((entry.uid, uid));
            }
            Ok((writer.folder_state(target)?.uid_validity, pairs, writer.modseq()))
        })?;
        Ok(CopyOutcome { uid_validity, pairs, modseq, ticket })
    }

    /// Replaces the items of a document that is no message. If it is gone, nothing changes.
    pub fn document_update(&self, note: NoteId, items: &[Item]) -> Result<Ticket> {
        let ((), ticket) = self.write(|writer| {
            if let Some(present) = writer.note(note)? {
                writer.note_update(note, present.header.revision(), items, &[])?;
            }
            Ok(())
        })?;
        Ok(ticket)
    }

    /// Deletes documents that are no messages.
    pub fn documents_delete(&self, notes: &[NoteId]) -> Result<Ticket> {
        let ((), ticket) = self.write(|writer| {
            for note in notes {
                writer.note_delete_permanently(*note)?;
            }
            Ok(())
        })?;
        Ok(ticket)
    }

    /// Runs changes as one transaction.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> Result<T>) -> Result<(T, Ticket)> {
        self.write_as(&self.depositor, change)
    }

    fn write_as<T>(
        &self,
        access: &Access<level::Depositor>,
        change: impl FnOnce(&mut Writer<'_, '_>) -> Result<T>,
    ) -> Result<(T, Ticket)> {
        let accesses = [access];
        let mut transaction = self.mail.databases.transaction(&accesses)?;
        let outcome = change(&mut transaction.writer(0))?;
        let ticket = transaction.commit()?;
        Ok((outcome, ticket))
    }

    fn require(&self, name: &str) -> Result<Folder> {
        self.snapshot()?.folder(name)?.ok_or_else(|| Error::NoMailbox(name.to_owned()))
    }

    fn rename_inbox(&self, inbox: &Folder, to: &str) -> Result<Ticket> {
        let (target, _) = self.folder_create(to, None)?;
        let everything = UidSet::from(1..=u32::MAX);
        loop {
            let moved = self.move_up_to(inbox.id, &everything, target, MOVE_MESSAGES_PER_TRANSACTION)?;
            if moved.pairs.len() < MOVE_MESSAGES_PER_TRANSACTION {
                return Ok(moved.ticket);
            }
        }
    }

    /// Removes the first messages from a mailbox. Returns `true` if there were any.
    fn delete_batch(&self, folder: ViewId) -> Result<bool> {
        let (found, _) = self.write(|writer| {
            let mut doomed = Vec::new();
            writer.folder_read(folder)?.for_each_entry(Uid(0), &mut |entry| {
                doomed.push(entry.note);
                Ok(doomed.len() < DELETE_MESSAGES_PER_TRANSACTION)
            })?;
            for note in &doomed {
                writer.note_delete_from(*note, folder)?;
            }
            Ok(!doomed.is_empty())
        })?;
        Ok(found)
    }

    /// Changes the owner's subscriptions, unless `change` returns `false`. They are in a design note, which Editors may
    /// not change. So the server changes it on their behalf.
    fn subscriptions_change(&self, change: impl FnOnce(&mut Vec<String>) -> Result<bool>) -> Result<Ticket> {
        self.require_editor()?;
        let itself = self.access.database().authorize(&Arc::new(Identity::local_server("")))?;
        Ok(self.write_as(&itself, |writer| subscriptions::change_settings(writer, change))?.1)
    }
}

/// Puts messages into a mailbox within a transaction. Returns their UIDs.
pub(crate) fn append_all(
    writer: &mut Writer<'_, '_>,
    folder: ViewId,
    messages: &[impl std::borrow::Borrow<ReadyMessage>],
) -> Result<Vec<Uid>> {
    let mut uids = Vec::with_capacity(messages.len());
    for message in messages.iter().map(std::borrow::Borrow::borrow) {
        message.check_quota(writer)?;
        uids.push(writer.folder_state(folder)?.uid_next);
        let note = message.new_note(writer, folder)?;
        writer.note_create(note)?;
    }
    Ok(uids)
}

fn copy_note(writer: &mut Writer<'_, '_>, entry: &notes::FolderEntry, target: ViewId) -> Result<Uid> {
    let original = writer.note(entry.note)?.ok_or_else(|| notes::Error::not_found(format!("note {}", entry.note)))?;
    let table = writer.database().keywords();
    let names = entry.keywords.iter().filter_map(|keyword| table.name(*keyword)).map(str::to_owned);
    let uid = writer.folder_state(target)?.uid_next;
    let copy = NewNote {
        received: Some(original.header.received),
        size: Some(original.header.size),
        crlf_growth: original.header.crlf_growth,
        marks: entry.marks,
        keywords: names.collect(),
        blobs: original.blobs,
        folders: vec![target],
        ..NewNote::document(original.items)
    };
    writer.note_create(copy)?;
    Ok(uid)
}

/// Returns the first `count_max` of the messages with `\Deleted`. With `uids`, only those that are in `uids`.
///
/// They are mostly adjacent, so the function looks up one message through the counts of the tree and then scans the
/// messages after it. Looking up each message by its position would step over the traces of earlier deletions every
/// time.
fn entries_marked_deleted(
    reader: &notes::FolderReader<'_>,
    uids: Option<&UidSet>,
    count_max: usize,
) -> Result<Vec<notes::FolderEntry>> {
    let total = reader.totals()?.deleted;
    let (first, last) = match uids {
        Some(uids) => (uids.first(), uids.last()),
        None => (Some(0), Some(u32::MAX)),
    };
    let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
    let mut examined = if first == 0 { 0 } else { deleted_before(reader, Uid(first), total)? };
    let mut found: Vec<notes::FolderEntry> = Vec::new();
    let mut is_last = false;
    while examined < total && found.len() < count_max && !is_last {
        let Some(next) = reader.deleted_at(examined)? else { break };
        let mut others = 0;
        reader.for_each_entry(next.uid, &mut |entry| {
            is_last = entry.uid.0 > last;
            if entry.marks.contains(Marks::DELETED) {
                others = 0;
                examined += 1;
                if uids.is_none_or(|uids| uids.contains(entry.uid.0)) {
                    found.push(entry);
                }
            } else {
                others += 1;
            }
            Ok(others < EXPUNGE_SCAN_GAP_MAX && examined < total && found.len() < count_max && !is_last)
        })?;
    }
    Ok(found)
}

/// Returns the number of messages with `\Deleted` and a smaller UID, of `total` messages with `\Deleted`.
fn deleted_before(reader: &notes::FolderReader<'_>, uid: Uid, total: u64) -> Result<u64> {
    let mut low = 0;
    let mut high = total;
    while low < high {
        let middle = low + (high - low) / 2;
        match reader.deleted_at(middle)? {
            Some(entry) if entry.uid < uid => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Returns the entries of the first `count_max` messages of a set.
fn entries_of(
    writer: &Writer<'_, '_>,
    folder: ViewId,
    uids: &UidSet,
    count_max: usize,
) -> Result<Vec<notes::FolderEntry>> {
    let reader = writer.folder_read(folder)?;
    let mut found = Vec::new();
    for range in uids.ranges() {
        if found.len() >= count_max {
            break;
        }
        reader.for_each_entry(Uid(*range.start()), &mut |entry| {
            let within = entry.uid.0 <= *range.end();
            if within {
                found.push(entry);
            }
            Ok(within && found.len() < count_max)
        })?;
    }
    Ok(found)
}

fn check_name(name: &str) -> Result<String> {
    let name = canonical_name(name);
    let reason = if name.is_empty() || name.len() > MAILBOX_NAME_BYTES_MAX {
        "the name is empty or too long"
    } else if name.chars().any(char::is_control) {
        "the name contains control characters"
    } else if name.split('/').any(str::is_empty) {
        "the name has empty levels"
    } else if name.split('/').count() > MAILBOX_LEVELS_MAX {
        "the name has too many levels"
    } else {
        return Ok(name);
    };
    Err(Error::MailboxRefused { name, reason })
}
