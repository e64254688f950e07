//! The operations of users on their mail files and the expected results: a naive model of mailboxes.

use std::collections::{BTreeMap, BTreeSet};

use base::{Modseq, Timestamp, Uid, UidSet};
use mail::import_export::{ImportOptions, ImportPosition, ImportedMessage, Importer};
use mail::mailbox::{FlagChange, Flags, NewMessage, SpecialUse};
use notes::Marks;

use super::content::Content;
use super::state::{File, VisibleMessage};
use super::world::World;

/// An operation of a user.
#[derive(Clone, Debug)]
pub enum FileOperation {
    Append {
        folder: String,
        letters: Vec<UserMessage>,
    },
    Replace {
        folder: String,
        uid: Uid,
        target: String,
        letter: UserMessage,
    },
    Flag {
        folder: String,
        uids: Vec<Uid>,
        change: FlagChange,
        unchanged_since: Option<Modseq>,
    },
    Expunge {
        folder: String,
        uids: Option<Vec<Uid>>,
    },
    Copy {
        folder: String,
        uids: Vec<Uid>,
        target: String,
    },
    Move {
        folder: String,
        uids: Vec<Uid>,
        target: String,
    },
    Create {
        name: String,
        special: Option<SpecialUse>,
    },
    Rename {
        from: String,
        to: String,
    },
    Delete {
        name: String,
    },
    Subscribe {
        name: String,
        wanted: bool,
    },
    /// Imports letters. Each letter is given with its mailbox.
    Import {
        source: String,
        letters: Vec<(String, UserMessage)>,
    },
}

/// A message that a user adds.
#[derive(Clone, Debug)]
pub struct UserMessage {
    pub content: Content,
    pub flags: Flags,
    pub received: Option<Timestamp>,
}

impl UserMessage {
    fn new_message(&self) -> NewMessage {
        NewMessage { raw: self.content.0.to_vec(), flags: self.flags.clone(), received: self.received }
    }

    /// Returns the visible properties of the message after it was added.
    fn visible(&self, now: Timestamp) -> VisibleMessage {
        VisibleMessage {
            content: self.content.clone(),
            marks: self.flags.marks,
            keywords: lower(&self.flags.keywords),
            received: self.received.unwrap_or(now),
        }
    }
}

/// A mail file as its owner sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct Model {
    pub folders: BTreeMap<String, ModelFolder>,
    pub subscriptions: BTreeSet<String>,
}

/// A mailbox as its owner sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelFolder {
    pub special: Option<SpecialUse>,
    pub selectable: bool,
    pub uid_next: Uid,
    pub messages: BTreeMap<Uid, VisibleMessage>,
}

impl Model {
    /// Creates the model of a file from the properties that its owner sees.
    pub fn from_file(file: &File) -> Self {
        let folder = |folder: &super::state::Folder| ModelFolder {
            special: folder.special,
            selectable: folder.selectable,
            uid_next: folder.uid_next,
            messages: folder.messages.iter().map(|(uid, message)| (*uid, message.visible.clone())).collect(),
        };
        let folders = file.folders.iter().map(|(name, known)| (name.clone(), folder(known))).collect();
        Self { folders, subscriptions: file.subscriptions.clone() }
    }

    fn folder(&mut self, name: &str) -> &mut ModelFolder {
        self.folders.get_mut(name).unwrap_or_else(|| panic!("there is a mailbox {name}"))
    }

    fn put(&mut self, folder: &str, message: VisibleMessage) -> Uid {
        let folder = self.folder(folder);
        let uid = folder.uid_next;
        folder.uid_next = uid.next();
        folder.messages.insert(uid, message);
        uid
    }

    fn create(&mut self, name: &str, special: Option<SpecialUse>) {
        for (index, _) in name.match_indices('/') {
            self.folders.entry(name[..index].to_owned()).or_insert_with(|| ModelFolder::empty(None));
        }
        self.folders.entry(name.to_owned()).or_insert_with(|| ModelFolder::empty(special)).selectable = true;
    }

    fn rename(&mut self, from: &str, to: &str) {
        if from == "INBOX" {
            self.create(to, None);
            let all = std::mem::take(&mut self.folder("INBOX").messages);
            for message in all.into_values() {
                self.put(to, message);
            }
            return;
        }
        for (index, _) in to.match_indices('/') {
            self.folders.entry(to[..index].to_owned()).or_insert_with(|| ModelFolder::empty(None));
        }
        let below = format!("{from}/");
        let moving: Vec<String> =
            self.folders.keys().filter(|name| *name == from || name.starts_with(&below)).cloned().collect();
        for name in moving {
            let folder = self.folders.remove(&name).expect("it was just listed");
            self.folders.insert(format!("{to}{}", &name[from.len()..]), folder);
        }
    }

    fn delete(&mut self, name: &str) {
        let below = format!("{name}/");
        if self.folders.keys().any(|other| other.starts_with(&below)) {
            let folder = self.folder(name);
            folder.messages.clear();
            folder.selectable = false;
        } else {
            self.folders.remove(name);
        }
    }
}

impl ModelFolder {
    fn empty(special: Option<SpecialUse>) -> Self {
        Self { special, selectable: true, uid_next: Uid(1), messages: BTreeMap::new() }
    }
}

impl FileOperation {
    /// Performs the operation and checks its result.
    pub fn perform(&self, world: &World, path: &str, before: &File) -> mail::Result<()> {
        let file = world.file(path);
        let id = |name: &str| before.folders[name].id;
        match self {
            Self::Append { folder, letters } => {
                let messages: Vec<NewMessage> = letters.iter().map(UserMessage::new_message).collect();
                let (validity, uids, _) = file.append(id(folder), &messages)?;
                assert_eq!(validity, before.folders[folder].uid_validity);
                let first = before.folders[folder].uid_next.0;
                assert_eq!(uids, (first..).map(Uid).take(messages.len()).collect::<Vec<_>>());
            }
            Self::Replace { folder, uid, target, letter } => {
                let (_, new, _) = file.replace(id(folder), *uid, id(target), &letter.new_message())?;
                assert_eq!(new, before.folders[target].uid_next);
            }
            Self::Flag { folder, uids, change, unchanged_since } => {
                let outcome = file.store(id(folder), &set(uids), change, *unchanged_since)?;
                let failed = uids.iter().filter(|uid| is_modified(before, folder, **uid, *unchanged_since));
                assert_eq!(outcome.modified, failed.copied().collect::<UidSet>(), "UNCHANGEDSINCE");
            }
            Self::Expunge { folder, uids } => {
                file.expunge(id(folder), uids.as_deref().map(set).as_ref())?;
            }
            Self::Copy { folder, uids, target } => {
                let outcome = file.copy(id(folder), &set(uids), id(target))?;
                check_pairs(&outcome.pairs, uids, before.folders[target].uid_next);
            }
            Self::Move { folder, uids, target } => {
                let outcome = file.move_to(id(folder), &set(uids), id(target))?;
                check_pairs(&outcome.pairs, uids, before.folders[target].uid_next);
            }
            Self::Create { name, special } => drop(file.folder_create(name, *special)?),
            Self::Rename { from, to } => drop(file.folder_rename(from, to)?),
            Self::Delete { name } => drop(file.folder_delete(name)?),
            Self::Subscribe { name, wanted: true } => drop(file.folder_subscribe(name)?),
            Self::Subscribe { name, wanted: false } => drop(file.folder_unsubscribe(name)?),
            Self::Import { source, letters } => {
                let mut importer = Importer::new(&file, source, ImportOptions::default())?;
                for (position, (mailbox, letter)) in (1..).zip(letters) {
                    let NewMessage { raw, flags, received } = letter.new_message();
                    let mailbox = mailbox.clone();
                    let next_position = ImportPosition::from(position);
                    importer.add(ImportedMessage {
                        mailbox,
                        raw,
                        flags,
                        received,
                        next_position,
                        ..Default::default()
                    })?;
                }
                assert_eq!(importer.finish()?.messages, letters.len() as u64);
            }
        }
        Ok(())
    }

    /// Returns the expected state of the file after the operation.
    pub fn predict(&self, before: &File, now: Timestamp) -> Model {
        let mut model = Model::from_file(before);
        match self {
            Self::Append { folder, letters } => {
                for letter in letters {
                    model.put(folder, letter.visible(now));
                }
            }
            Self::Replace { folder, uid, target, letter } => {
                model.put(target, letter.visible(now));
                model.folder(folder).messages.remove(uid);
            }
            Self::Flag { folder, uids, change, unchanged_since } => {
                for uid in uids.iter().filter(|uid| !is_modified(before, folder, **uid, *unchanged_since)) {
                    apply(model.folder(folder).messages.get_mut(uid).expect("the message exists"), change);
                }
            }
            Self::Expunge { folder, uids } => {
                let doomed = |uid: &Uid, message: &VisibleMessage| {
                    message.marks.contains(Marks::DELETED) && uids.as_ref().is_none_or(|uids| uids.contains(uid))
                };
                model.folder(folder).messages.retain(|uid, message| !doomed(uid, message));
            }
            Self::Copy { folder, uids, target } => {
                for uid in uids {
                    let copy = model.folder(folder).messages[uid].clone();
                    model.put(target, copy);
                }
            }
            Self::Move { folder, uids, target } => {
                for uid in uids {
                    let moved = model.folder(folder).messages.remove(uid).expect("the message exists");
                    model.put(target, moved);
                }
            }
            Self::Create { name, special } => model.create(name, *special),
            Self::Rename { from, to } => model.rename(from, to),
            Self::Delete { name } => model.delete(name),
            Self::Subscribe { name, wanted: true } => drop(model.subscriptions.insert(name.clone())),
            Self::Subscribe { name, wanted: false } => drop(model.subscriptions.remove(name)),
            Self::Import { letters, .. } => {
                for (mailbox, letter) in letters {
                    model.create(mailbox, None);
                    model.put(mailbox, letter.visible(now));
                }
            }
        }
        model
    }

    /// Returns `true` if the file may refuse the operation because of its arguments.
    pub fn is_refused(&self, before: &File) -> bool {
        let selectable = |name: &str| before.folders.get(name).is_some_and(|folder| folder.selectable);
        let has_children = |name: &str| before.folders.keys().any(|other| other.starts_with(&format!("{name}/")));
        match self {
            Self::Create { name, .. } => selectable(name),
            Self::Rename { from, to } if from == "INBOX" => selectable(to),
            Self::Rename { from, to } => before.folders.contains_key(to) || to.starts_with(&format!("{from}/")),
            Self::Delete { name } => name == "INBOX" || (has_children(name) && !selectable(name)),
            _ => false,
        }
    }

    /// Returns `true` if the operation takes space, so that a quota may refuse it.
    pub fn takes_room(&self) -> bool {
        matches!(self, Self::Append { .. } | Self::Replace { .. } | Self::Copy { .. } | Self::Import { .. })
    }

    /// Returns `true` if the operation waits until it is durable.
    pub fn waits(&self) -> bool {
        matches!(self, Self::Import { .. })
    }

    /// Returns `true` if a crash or a full disk between the transactions of the operation may leave this state of the
    /// file. Most operations have only one transaction.
    pub fn may_stop_at(&self, before: &File, found: &File) -> bool {
        let mut before = Model::from_file(before);
        let mut found = Model::from_file(found);
        let created: Vec<&String> = match self {
            Self::Delete { name } => {
                before.folders.entry(name.clone()).and_modify(|folder| folder.messages.clear());
                Vec::new()
            }
            Self::Rename { from, to } if from == "INBOX" => vec![to],
            Self::Import { letters, .. } => letters.iter().map(|(mailbox, _)| mailbox).collect(),
            _ => return false,
        };
        for name in created {
            // A mailbox that could not hold messages before may already be selectable.
            for model in [&mut before, &mut found] {
                model.folders.entry(name.clone()).and_modify(|folder| folder.selectable = true);
            }
        }
        let is_new = |name: &str| !before.folders.contains_key(name);
        let new_ones_are_empty = found.folders.iter().all(|(name, new)| !is_new(name) || new.messages.is_empty());
        found.folders.retain(|name, _| !is_new(name));
        new_ones_are_empty && found == before
    }
}

fn set(uids: &[Uid]) -> UidSet {
    uids.iter().copied().collect()
}

fn is_modified(file: &File, folder: &str, uid: Uid, unchanged_since: Option<Modseq>) -> bool {
    unchanged_since.is_some_and(|since| file.folders[folder].messages[&uid].modseq > since)
}

fn apply(message: &mut VisibleMessage, change: &FlagChange) {
    match change {
        FlagChange::Add(Flags { marks, keywords }) => {
            message.marks = message.marks.union(*marks);
            message.keywords.extend(lower(keywords));
        }
        FlagChange::Remove(Flags { marks, keywords }) => {
            message.marks = message.marks.difference(*marks);
            let gone = lower(keywords);
            message.keywords.retain(|keyword| !gone.contains(keyword));
        }
        FlagChange::Replace(Flags { marks, keywords }) => {
            message.marks = *marks;
            message.keywords = lower(keywords);
        }
    }
}

fn lower(keywords: &[String]) -> BTreeSet<String> {
    keywords.iter().map(|keyword| keyword.to_lowercase()).collect()
}

fn check_pairs(pairs: &[(Uid, Uid)], uids: &[Uid], first: Uid) {
    let expected: Vec<_> = uids.iter().copied().zip((first.0..).map(Uid)).collect();
    assert_eq!(pairs, expected, "old and new UIDs");
}
