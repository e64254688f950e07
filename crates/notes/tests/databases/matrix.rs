//! The access matrix: every operation on a database, for every level, on a note that is unrestricted, shown to the
//! caller by name, role or group, hidden, public, or authored by the caller; with a key, with a password, and
//! anonymously.
//!
//! A row is one operation and its requirement. An operation on the note works only if the note is not hidden, so a row
//! fails if the operation ignores Readers items, and likewise if it ignores the level. Operations reserved for the
//! server itself never work. A row's name begins with the method that it tests. The last test fails if a public method
//! of one of the types in [`GUARDED`] has neither a row nor a place in the list of methods that reveal nothing.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use base::{Modseq, Name, NoteId, Timestamp, Uid, Unid, ViewId};
use notes::change_log::ChangeCursor;
use notes::instance::ReplicationHistory;
use notes::replica::ReplicaNote;
use notes::thread_index::{THREAD_ID_ITEM, THREAD_KEYS_ITEM, ThreadKey};
use notes::view::build::BuildOptions;
use notes::view::note::{ViewKind, ViewNote};
use notes::view::open::UpdateMethod;
use notes::view::view_format::{Column, ViewDesign};
use notes::{
    Access, Acl, AclEntry, AclFlags, AclLevel, AuthenticationMethod, Database, DatabaseCopy, DatabaseOptions,
    DatabaseSnapshot, FolderReader, Identity, Item, ItemValue, Level, Marks, NewCopy, NewNote, NoteHeader, OnConflict,
    PublicSnapshot, SaveOptions, Writer, level,
};
use revision::{DeletionRule, Revision, RevisionId};
use store::BlobId;

use crate::fixture::{TestServer, assert_sound, identity, server};

const ANN: &str = "Ann/Acme";
const BOB: &str = "Bob/Acme";
/// A group of which Bob is a member.
const GROUP: &str = "Guests/Partners/Acme";
const UNID: Unid = Unid([7; 16]);
const PARENT: Unid = Unid([6; 16]);

/// The relation between the note's items and the caller, with the matching additions to the caller's ACL entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exposure {
    Open,
    Shown,
    ByRole,
    /// A Readers item names a group of the caller.
    ByGroup,
    /// The only name in a Readers item that could admit the caller is a wildcard that matches the name of a group.
    ByGroupWildcard,
    Hidden,
    /// An Authors item names the caller.
    Authored,
    /// The note is public, and the entry allows the caller to read and write public documents.
    Public,
}

impl Exposure {
    const ALL: [Self; 8] = [
        Self::Open,
        Self::Shown,
        Self::ByRole,
        Self::ByGroup,
        Self::ByGroupWildcard,
        Self::Hidden,
        Self::Authored,
        Self::Public,
    ];

    /// Returns `true` if the Readers items admit the caller.
    fn is_visible(self) -> bool {
        !matches!(self, Self::Hidden | Self::ByGroupWildcard)
    }

    fn items(self) -> Option<Item> {
        let readers = |name: &str| Some(Item::readers("Readers", vec!["Carol/Acme".into(), name.into()]));
        match self {
            Self::Open => None,
            Self::Shown => readers(BOB),
            Self::ByRole => readers("[Crew]"),
            Self::ByGroup => readers(GROUP),
            Self::ByGroupWildcard => readers("*/Partners/Acme"),
            Self::Hidden => readers("Dora/Acme"),
            Self::Authored => Some(Item::authors("Authors", vec![BOB.into()])),
            Self::Public => Some(Item::text("$PublicAccess", "1")),
        }
    }
}

/// The caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Caller {
    /// Bob, with a key.
    Key,
    /// Bob, with a password, and a maximum level of Author for passwords.
    Password,
    /// An anonymous caller, where the maximum level does not reduce the level of the entry.
    Anonymous,
}

impl Caller {
    fn identity(self) -> Arc<Identity> {
        match self {
            Self::Key => Arc::new(Self::bob()),
            Self::Password => Arc::new(Self::bob().authenticated(AuthenticationMethod::Password)),
            Self::Anonymous => Arc::new(Identity::anonymous()),
        }
    }

    fn bob() -> Identity {
        Identity { groups: vec![GROUP.into()], ..Identity::person(BOB) }
    }

    /// Returns the maximum level of the caller.
    fn at_most(self) -> AclLevel {
        if self == Self::Password { AclLevel::Author } else { AclLevel::Manager }
    }
}

/// A database with a parent document and the tested note, both in a folder.
struct Case {
    world: TestServer,
    database: Arc<Database>,
    who: Arc<Identity>,
    note: NoteId,
    folder: ViewId,
    other: ViewId,
    view: NoteId,
    blob: BlobId,
}

fn other_server() -> Name {
    Name::new("CN=other/O=Acme")
}

impl Case {
    fn new(level: AclLevel, exposure: Exposure, who: Caller) -> Self {
        let world = TestServer::new();
        let database = world.database(&[]);
        let mut items = vec![Item::text("Subject", "x"), Item::body("Body", ItemValue::RichText("text".into()))];
        items.extend(exposure.items());
        items.extend([Item::text(THREAD_ID_ITEM, "T1"), Item::text(THREAD_KEYS_ITEM, ThreadKey(1).to_text())]);
        let created = world.write(&database, ANN, |writer| {
            let folder = writer.folder_create("F", &[])?;
            let other = writer.folder_create("G", &[])?;
            let view = writer.view_create(&view("All"))?;
            let first = NewNote { unid: Some(PARENT), folders: vec![folder], ..NewNote::document(Vec::new()) };
            writer.note_create(NewNote { marks: Marks::DELETED, ..first.clone() })?;
            let blob = writer.blob_put(&[7; 10_000])?;
            let note = NewNote {
                unid: Some(UNID),
                parent: Some(PARENT),
                folders: vec![folder],
                marks: Marks::DELETED,
                blobs: vec![blob],
                ..NewNote::document(items)
            };
            let note = writer.note_create(note)?;
            writer.note_create(NewNote { unid: None, ..first })?;
            writer.profile_set("Old", None, &[], &[])?;
            Ok((note, folder, other, view, blob))
        });
        let (note, folder, other, view, blob) = created.expect("Ann manages the database");
        let case = Self { world, database, who: who.identity(), note, folder, other, view, blob };
        case.grant_level(level, exposure, who);
        case
    }

    /// Adds an ACL entry with the level for the caller.
    fn grant_level(&self, level: AclLevel, exposure: Exposure, who: Caller) {
        let mut acl = Acl { max_internet_access: who.at_most(), ..Acl::private(&Name::new(ANN)) };
        acl.roles.insert("[Crew]".into());
        let mut entry = AclEntry::new(if who == Caller::Anonymous { "Anonymous" } else { BOB }, level);
        entry.roles.extend((exposure == Exposure::ByRole).then(|| "[Crew]".to_owned()));
        if exposure == Exposure::Public {
            entry.flags = AclFlags::PUBLIC_READER.union(AclFlags::PUBLIC_WRITER);
        }
        acl.entries.push(entry);
        self.world.write(&self.database, ANN, |writer| writer.acl_set(acl)).expect("Ann manages the database");
    }

    /// Runs an action that needs a level as a type. Returns `true` if it succeeded.
    fn with<L: Level>(&self, act: impl FnOnce(&Access<L>) -> notes::Result<bool>) -> bool {
        self.database.authorize(&self.who).and_then(|access| act(&access)).unwrap_or(false)
    }

    /// Runs a read. Returns `true` if it succeeded.
    fn read(&self, read: impl FnOnce(&DatabaseSnapshot<'_>) -> notes::Result<bool>) -> bool {
        let access: notes::Result<Access<level::Reader>> = self.database.authorize(&self.who);
        let Ok(access) = access else { return false };
        access.read().and_then(|reading| read(&reading)).unwrap_or(false)
    }

    fn read_public(&self, read: impl FnOnce(&PublicSnapshot<'_>) -> notes::Result<bool>) -> bool {
        let access: notes::Result<Access<level::Public>> = self.database.authorize(&self.who);
        let Ok(access) = access else { return false };
        access.read_public().and_then(|reading| read(&reading)).unwrap_or(false)
    }

    fn folder(&self, read: impl FnOnce(&FolderReader<'_>) -> notes::Result<bool>) -> bool {
        self.read(|reading| read(&reading.folder(self.folder)?))
    }

    /// Runs a write in a transaction. Returns `true` if it succeeded.
    fn write(&self, change: impl FnOnce(&mut Writer<'_, '_>) -> notes::Result<bool>) -> bool {
        let write = || {
            let access: Access<level::Depositor> = self.database.authorize(&self.who)?;
            let accesses = [&access];
            let mut transaction = self.world.databases.transaction(&accesses)?;
            let outcome = change(&mut transaction.writer(0))?;
            transaction.commit()?;
            Ok::<_, notes::Error>(outcome)
        };
        write().unwrap_or(false)
    }

    /// Returns the note as a replica of a person has it, without marks and folders.
    fn brought(&self) -> ReplicaNote {
        let access: Access<level::Reader> = self.database.authorize(&server()).expect("the server may");
        let reading = access.read().expect("a snapshot");
        let note = reading.replica_note(self.note).expect("a sound store").expect("the note exists");
        ReplicaNote { state: Vec::new(), ..note }
    }

    /// Runs an action with Manager access. Returns `true` if the caller has that access and the action succeeded.
    fn manage(&self, act: impl FnOnce(&Access<level::Manager>) -> notes::Result<()>) -> bool {
        self.database.authorize(&self.who).and_then(|access| act(&access)).is_ok()
    }

    fn changed(&self) -> bool {
        self.read(|reading| {
            let mut found = false;
            reading.changes(Modseq(0), &mut |entry| {
                found |= entry.note == self.note;
                Ok(())
            })?;
            Ok(found)
        })
    }

    fn listed(&self) -> bool {
        self.read(|reading| self.is_among(|each| reading.for_each_note(NoteId(0), each)))
    }

    fn listed_as_public(&self) -> bool {
        self.read_public(|reading| self.is_among(|each| reading.for_each_note(NoteId(0), each)))
    }

    /// Returns `true` if an enumeration contains the note.
    fn is_among(
        &self,
        walk: impl FnOnce(&mut dyn FnMut(NoteHeader) -> notes::Result<bool>) -> notes::Result<()>,
    ) -> notes::Result<bool> {
        let mut found = false;
        walk(&mut |header| {
            found |= header.note == self.note;
            Ok(true)
        })?;
        Ok(found)
    }

    fn found_by_formula(&self) -> bool {
        self.read(|reading| {
            let selection =
                formula::Formula::compile("Subject = \"x\"", &formula::FormulaOptions::default()).expect("a formula");
            let mut found = false;
            reading.search(&selection, Modseq(0), &mut |document| {
                found |= document.header.note == self.note;
                Ok(true)
            })?;
            Ok(found)
        })
    }

    fn in_folder(&self) -> bool {
        self.folder(|folder| {
            let mut uids = Vec::new();
            folder.for_each_entry(Uid(0), &mut |entry| {
                uids.push(entry.uid.0);
                Ok(true)
            })?;
            assert!(uids == [1, 2, 3] || uids == [1, 3], "the other entries exist: {uids:?}");
            Ok(uids.len() == 3)
        })
    }

    /// Returns `true` if the caller sees all rows of the view.
    fn sees_all_rows(&self) -> bool {
        let access: notes::Result<Access<level::Reader>> = self.database.authorize(&self.who);
        let Ok(access) = access else { return false };
        while !access.view_refresh(self.view, 100).expect("the view exists").complete {}
        self.read(|reading| {
            let view = reading.view(self.view)?;
            Ok(reading.view_rows(&view, 0)?.count()? == 3)
        })
    }

    /// Deletes the note so that it can be restored.
    fn delete_softly(&self) {
        let access: Access<level::Manager> = self.database.authorize(&identity(ANN)).expect("Ann manages it");
        let options = DatabaseOptions { keep_deleted_hours: Some(1), ..DatabaseOptions::default() };
        self.world.databases.database_options_set(&access, "", options).expect("Ann may");
        let itself = crate::fixture::server();
        let access: Access<level::Depositor> = self.database.authorize(&itself).expect("the server has access");
        let accesses = [&access];
        let mut transaction = self.world.databases.transaction(&accesses).expect("the store works");
        assert!(transaction.writer(0).note_delete(self.note).expect("the server may delete"));
        transaction.commit().expect("the store works");
    }
}

/// Returns options under which nothing is sorted outside of memory, because there are only three documents.
fn build_options() -> BuildOptions {
    BuildOptions { folder: std::env::temp_dir(), memory: 1 << 20 }
}

fn view(title: &str) -> ViewNote {
    let design = ViewDesign {
        columns: vec![Column { title: "S".into(), item: "Subject".into(), ..Column::default() }],
        ..ViewDesign::default()
    };
    ViewNote { title: title.into(), selection: "SELECT @All".into(), design, ..ViewNote::default() }
}

/// The requirement of an operation.
#[derive(Clone, Copy)]
enum Requirement {
    /// A level, and that the note is not hidden.
    Note(AclLevel),
    /// A level, for an operation on the database.
    From(AclLevel),
    /// Reader access, a name, and that the note is not hidden.
    Own,
    /// Reader access, and a name.
    OwnData,
    /// Reader access to the note, or a public note.
    Seen,
    /// That the note is public, and that the caller may read public documents.
    Public,
    /// That the caller may change the note.
    Change,
    /// That the caller may delete the note.
    Delete,
    /// That the caller may create documents.
    Create,
    /// That the caller may create documents, or at least public ones.
    CreatePublic,
    /// That the caller may add documents, or at least public ones.
    Enter,
    /// A name, and a flag that levels from Designer on include. A password does not remove the flag.
    Personal,
    /// The server itself.
    Server,
}

impl Requirement {
    fn is_met(self, level: AclLevel, exposure: Exposure, who: Caller) -> bool {
        let includes_flags = level >= Designer;
        let level = level.min(who.at_most());
        let is_seen = exposure.is_visible();
        let is_named = who != Caller::Anonymous;
        let is_public = exposure == Exposure::Public;
        let is_theirs = exposure == Exposure::Authored && level == AclLevel::Author && is_named;
        match self {
            Self::Note(least) => level >= least && is_seen,
            Self::From(least) => level >= least,
            Self::Own => level >= AclLevel::Reader && is_seen && is_named,
            Self::OwnData => level >= AclLevel::Reader && is_named,
            Self::Seen => is_public || (level >= AclLevel::Reader && is_seen),
            Self::Public => is_public,
            Self::Change => is_public || is_theirs || (level >= AclLevel::Editor && is_seen),
            Self::Delete => is_theirs || (level >= AclLevel::Editor && is_seen),
            Self::Create => level >= AclLevel::Depositor && level != AclLevel::Reader,
            Self::CreatePublic => is_public || Self::Create.is_met(level, exposure, who),
            Self::Enter => is_public || level >= AclLevel::Depositor,
            Self::Personal => includes_flags && is_named,
            Self::Server => false,
        }
    }
}

type Row = (&'static str, Requirement, fn(&Case) -> bool);

use AclLevel::{Author, Designer, Manager, Reader};
use Requirement::{
    Change, Create, CreatePublic, Delete, Enter, From, Note, Own, OwnData, Personal, Public, Seen, Server,
};

const READING: &[Row] = &[
    ("DatabaseSnapshot::header", Note(Reader), |c| c.read(|r| Ok(r.header(c.note)?.is_some()))),
    ("DatabaseSnapshot::revisions", Note(Reader), |c| c.read(|r| Ok(r.revisions(c.note)?.is_some()))),
    ("DatabaseSnapshot::replica_note", Note(Reader), |c| c.read(|r| Ok(r.replica_note(c.note)?.is_some()))),
    ("DatabaseSnapshot::replica_note_within", Note(Reader), |c| {
        c.read(|r| Ok(r.replica_note_within(c.note, 1 << 20)?.is_some()))
    }),
    ("DatabaseSnapshot::listed_note", Note(Reader), |c| c.read(|r| Ok(r.listed_note(c.note, &|_| false)?.is_some()))),
    ("DatabaseSnapshot::knows_revision", Note(Reader), |c| {
        let access: Access<level::Reader> = c.database.authorize(&server()).expect("the server may");
        let header = access.read().and_then(|reading| reading.header(c.note)).expect("sound").expect("it exists");
        c.read(|r| r.knows_revision(UNID, header.revision()))
    }),
    ("DatabaseSnapshot::knows_brought", Note(Reader), |c| {
        let access: Access<level::Reader> = c.database.authorize(&server()).expect("the server may");
        let header = access.read().and_then(|reading| reading.header(c.note)).expect("sound").expect("it exists");
        c.read(|r| r.knows_brought(UNID, header.revision()))
    }),
    ("DatabaseSnapshot::knows_listed", Note(Reader), |c| {
        let access: Access<level::Reader> = c.database.authorize(&server()).expect("the server may");
        let listed = access.read().and_then(|reading| reading.listed_note(c.note, &|_| false));
        let listed = listed.expect("sound").expect("it exists");
        c.read(|r| r.knows_listed(&listed))
    }),
    ("DatabaseSnapshot::has_purged_deletion", From(Reader), |c| {
        c.read(|r| r.has_purged_deletion(UNID).map(|is_known| !is_known))
    }),
    ("DatabaseSnapshot::purged_deletion", From(Reader), |c| {
        c.read(|r| r.purged_deletion(UNID, Revision::first(Timestamp(0), UNID)).map(|deletion| deletion.is_none()))
    }),
    ("DatabaseSnapshot::summary", Note(Reader), |c| c.read(|r| Ok(r.summary(c.note)?.is_some()))),
    ("DatabaseSnapshot::note", Note(Reader), |c| c.read(|r| Ok(r.note(c.note)?.is_some()))),
    ("DatabaseSnapshot::body_item", Note(Reader), |c| c.read(|r| Ok(r.body_item(c.note, 0)?.is_some()))),
    ("DatabaseSnapshot::body_content", Note(Reader), |c| {
        c.read(|r| Ok(r.body_content(c.note, 0, 0..1)?.is_some_and(|part| part.bytes.len() == 1)))
    }),
    ("DatabaseSnapshot::body_items", Note(Reader), |c| {
        let selection =
            formula::Formula::compile("SELECT @All", &formula::FormulaOptions::default()).expect("a formula");
        c.read(|r| {
            let mut found = false;
            r.search(&selection, Modseq(0), &mut |document| {
                found |= document.header.note == c.note && !r.body_items(document)?.is_empty();
                Ok(true)
            })?;
            Ok(found)
        })
    }),
    ("DatabaseSnapshot::find", Note(Reader), |c| c.read(|r| Ok(r.find(UNID)?.is_some()))),
    ("DatabaseSnapshot::children", Note(Reader), |c| c.read(|r| Ok(r.children(PARENT)?.contains(&c.note)))),
    ("DatabaseSnapshot::for_each_note", Note(Reader), Case::listed),
    ("DatabaseSnapshot::for_each_note_bounded", Note(Reader), |c| {
        c.read(|r| c.is_among(|each| r.for_each_note_bounded(NoteId(0), 1_000, each).map(drop)))
    }),
    ("DatabaseSnapshot::search", Note(Reader), Case::found_by_formula),
    ("DatabaseSnapshot::changes", Note(Reader), Case::changed),
    ("DatabaseSnapshot::changes_page", Note(Reader), |c| {
        c.read(|r| Ok(r.changes_page(ChangeCursor::default(), 99)?.entries.iter().any(|entry| entry.note == c.note)))
    }),
    ("DatabaseSnapshot::changes_before", Note(Reader), |c| {
        c.read(|r| Ok(r.changes_before(None, 99)?.entries.iter().any(|entry| entry.note == c.note)))
    }),
    ("DatabaseSnapshot::for_each_summary", Note(Reader), |c| {
        c.read(|r| {
            let mut found = false;
            r.for_each_summary([c.note], &mut |header, items| {
                found = header.note == c.note && items.iter().any(|item| item.name == "Subject");
                Ok(true)
            })?;
            Ok(found)
        })
    }),
    ("DatabaseSnapshot::select_notes", Note(Reader), |c| {
        let selection =
            formula::Formula::compile("Subject = \"x\"", &formula::FormulaOptions::default()).expect("a formula");
        c.read(|r| {
            Ok(r.select_notes(Some(&selection), &r.evaluation_context(), [c.note], &|_| true, Duration::MAX)?
                .notes
                .contains_key(&c.note))
        })
    }),
    ("DatabaseSnapshot::visible_transactions", Note(Reader), |c| {
        c.read(|r| Ok(r.visible_transactions(Modseq(0), 1_000)?.entries.iter().any(|entry| entry.note == c.note)))
    }),
    ("DatabaseSnapshot::changes_by_transaction", Server, |c| {
        c.read(|r| Ok(!r.changes_by_transaction(Modseq(0), 9)?.is_empty()))
    }),
    ("DatabaseSnapshot::blob", Note(Reader), |c| c.read(|r| Ok(r.blob(c.note, &c.blob)?.len() == 10_000))),
    ("DatabaseSnapshot::blob_range", Note(Reader), |c| c.read(|r| Ok(r.blob_range(c.note, &c.blob, 1..3)?.len() == 2))),
    ("DatabaseSnapshot::blob_length", Note(Reader), |c| c.read(|r| Ok(r.blob_length(c.note, &c.blob)? == 10_000))),
    ("DatabaseSnapshot::has_blob", Server, |c| c.read(|r| r.has_blob(&c.blob))),
    ("DatabaseSnapshot::folders", From(Reader), |c| c.read(|r| Ok(r.folders()?.len() == 2))),
    ("DatabaseSnapshot::folder", From(Reader), |c| c.read(|r| r.folder(c.folder).map(|_| true))),
    ("DatabaseSnapshot::views", From(Reader), |c| c.read(|r| Ok(r.views()?.len() == 1))),
    ("DatabaseSnapshot::view_find", From(Reader), |c| c.read(|r| Ok(r.view_find("All")?.note == c.view))),
    ("DatabaseSnapshot::view_info", From(Reader), |c| c.read(|r| Ok(r.view_info(c.view)?.is_some()))),
    ("DatabaseSnapshot::views_and_folders", From(Reader), |c| c.read(|r| Ok(r.views_and_folders()?.len() == 3))),
    ("DatabaseSnapshot::view_or_folder", From(Reader), |c| {
        c.read(|r| Ok(r.view_or_folder(c.folder)?.id() == c.folder))
    }),
    ("DatabaseSnapshot::view_or_folder_find", From(Reader), |c| {
        c.read(|r| Ok(r.view_or_folder_find("G")?.id() == c.other && r.view_or_folder_find("All")?.id().0 == c.view.0))
    }),
    ("DatabaseSnapshot::folder_info", From(Reader), |c| c.read(|r| Ok(r.folder_info(c.folder)?.view == c.folder))),
    ("DatabaseSnapshot::folder_find", From(Reader), |c| c.read(|r| Ok(r.folder_find("G")?.view == c.other))),
    ("DatabaseSnapshot::view", Note(Reader), Case::sees_all_rows),
    ("DatabaseSnapshot::view_rows", Note(Reader), Case::sees_all_rows),
    ("Access::view_refresh", Note(Reader), Case::sees_all_rows),
    ("Access::view_begin", From(Reader), |c| {
        c.with::<level::Reader>(|access| {
            access.view_begin(c.view)?;
            Ok(access.read()?.view(c.view).is_ok())
        })
    }),
    ("DatabaseSnapshot::view_update_method", From(Reader), |c| {
        c.read(|r| Ok(r.view_update_method(c.view)? == UpdateMethod::Changes))
    }),
    ("Access::view_update", From(Reader), |c| {
        c.with(|access: &Access<level::Reader>| {
            access.view_update(c.view, &build_options(), &mut |_, _| ControlFlow::Continue(()))
        })
    }),
    ("Access::view_rebuild", From(Designer), |c| {
        c.with(|access: &Access<level::Designer>| {
            access
                .view_rebuild(c.view, &build_options(), &mut |_, _| ControlFlow::Continue(()))
                .map(|built| built.is_some())
        })
    }),
    ("DatabaseSnapshot::acl", From(Reader), |c| c.read(|r| Ok(!r.acl().entries.is_empty()))),
    ("DatabaseSnapshot::acl_history", From(Reader), |c| c.read(|r| Ok(!r.acl_history(9)?.is_empty()))),
    ("DatabaseSnapshot::profile", From(Reader), |c| c.read(|r| Ok(r.profile("Old", None)?.is_some()))),
    ("DatabaseSnapshot::snapshot", Server, |c| c.read(|r| r.snapshot().map(|_| true))),
    ("DatabaseSnapshot::is_read_by", Server, |c| c.read(|r| r.is_read_by(&Name::new(ANN), c.note).map(|_| true))),
    ("DatabaseSnapshot::deleted_notes", Delete, |c| {
        c.delete_softly();
        c.read(|r| Ok(!r.deleted_notes(NoteId(0), 9)?.is_empty()))
    }),
    ("DatabaseSnapshot::deleted_page", Delete, |c| {
        c.delete_softly();
        c.read(|r| Ok(!r.deleted_page(NoteId(0), 9, 9)?.notes.is_empty()))
    }),
    ("DatabaseSnapshot::deleted_note", Delete, |c| {
        c.delete_softly();
        c.read(|r| Ok(r.deleted_note(c.note, &mut |_| true)?.is_some()))
    }),
    ("DatabaseSnapshot::note of a deleted note", Server, |c| {
        c.delete_softly();
        c.read(|r| Ok(r.note(c.note)?.is_some() || r.body_item(c.note, 0)?.is_some()))
    }),
    ("Access::read", From(Reader), |c| c.read(|_| Ok(true))),
    ("Access::read_public of a public note", Public, |c| c.read_public(|r| Ok(r.header(c.note)?.is_some()))),
    ("PublicSnapshot::header", Public, |c| c.read_public(|r| Ok(r.header(c.note)?.is_some()))),
    ("PublicSnapshot::summary", Public, |c| c.read_public(|r| Ok(r.summary(c.note)?.is_some()))),
    ("PublicSnapshot::note", Public, |c| c.read_public(|r| Ok(r.note(c.note)?.is_some()))),
    ("PublicSnapshot::body_item", Public, |c| c.read_public(|r| Ok(r.body_item(c.note, 0)?.is_some()))),
    ("PublicSnapshot::find", Public, |c| c.read_public(|r| Ok(r.find(UNID)?.is_some()))),
    ("PublicSnapshot::children", Public, |c| c.read_public(|r| Ok(r.children(PARENT)?.contains(&c.note)))),
    ("PublicSnapshot::for_each_note", Public, Case::listed_as_public),
    ("PublicSnapshot::blob", Public, |c| c.read_public(|r| Ok(r.blob(c.note, &c.blob)?.len() == 10_000))),
    ("PublicSnapshot::blob_range", Public, |c| c.read_public(|r| Ok(r.blob_range(c.note, &c.blob, 1..3)?.len() == 2))),
    ("FolderReader::last_uid_anywhere", From(Reader), |c| c.folder(|f| Ok(f.last_uid_anywhere() == Uid(3)))),
    ("FolderReader::state", From(Reader), |c| c.folder(|f| Ok(f.state().uid_next == Uid(4)))),
    ("FolderReader::entry", Note(Reader), |c| c.folder(|f| Ok(f.entry(Uid(2))?.is_some()))),
    ("FolderReader::totals of all", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.count == 3))),
    ("FolderReader::totals of unseen", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.unseen == 3))),
    ("FolderReader::totals of deleted", Note(Reader), |c| c.folder(|f| Ok(f.totals()?.deleted == 2))),
    ("FolderReader::rank", Note(Reader), |c| c.folder(|f| Ok(f.rank(Uid(3))? == 2))),
    ("FolderReader::uid_at", Note(Reader), |c| {
        c.folder(|f| Ok(f.uid_at(1)? == Some(Uid(2)) && f.uid_at(2)?.is_some()))
    }),
    ("FolderReader::unseen_at", Note(Reader), |c| {
        c.folder(|f| Ok(f.unseen_at(1)?.is_some_and(|entry| entry.uid == Uid(2)) && f.unseen_at(2)?.is_some()))
    }),
    ("FolderReader::deleted_at", Note(Reader), |c| c.folder(|f| Ok(f.deleted_at(1)?.is_some()))),
    ("FolderReader::for_each_entry", Note(Reader), Case::in_folder),
];

const WRITING: &[Row] = &[
    ("Databases::transaction", Enter, |c| c.write(|_| Ok(true))),
    ("Writer::note", Seen, |c| c.write(|w| Ok(w.note(c.note)?.is_some()))),
    ("Writer::thread_find", Note(Reader), |c| c.write(|w| Ok(w.thread_find(&[ThreadKey(1)])?.is_some()))),
    ("Writer::folder_entry", Note(Reader), |c| c.write(|w| Ok(w.folder_entry(c.folder, Uid(2))?.is_some()))),
    ("Writer::folder_read", Note(Reader), |c| c.write(|w| Ok(w.folder_read(c.folder)?.totals()?.count == 3))),
    ("Writer::folder_state", From(Reader), |c| c.write(|w| w.folder_state(c.folder).map(|_| true))),
    ("Writer::folders", From(Reader), |c| c.write(|w| Ok(w.folders()?.len() == 2))),
    ("Writer::blob_put", Enter, |c| c.write(|w| w.blob_put(b"content").map(|_| true))),
    ("Writer::blob_put_for", Enter, |c| c.write(|w| w.blob_put_for(c.note, b"content").map(|_| true))),
    ("Writer::blob_put_prepared", Enter, |c| {
        c.write(|w| {
            let prepared = c.world.databases.blob_prepare(b"content", &base::Unpaced)?;
            w.blob_put_prepared(&prepared).map(|_| true)
        })
    }),
    ("Writer::blob_offer", Enter, |c| {
        c.write(|w| {
            let prepared = c.world.databases.blob_prepare(b"content", &base::Unpaced)?;
            w.blob_offer(Arc::new(prepared.into_owned()));
            Ok(true)
        })
    }),
    ("DatabaseSnapshot::blob_length_anywhere", Server, |c| c.read(|r| Ok(r.blob_length_anywhere(&c.blob)?.is_some()))),
    ("DatabaseSnapshot::blob_proof", Server, |c| c.read(|r| Ok(r.blob_proof(&c.blob, &[1; 32])?.is_some()))),
    ("Writer::blob_put_prepared_for", Enter, |c| {
        c.write(|w| {
            let prepared = c.world.databases.blob_prepare(b"content", &base::Unpaced)?;
            w.blob_put_prepared_for(c.note, &prepared).map(|_| true)
        })
    }),
    ("Writer::header", Note(Reader), |c| c.write(|w| Ok(w.header(c.note)?.is_some()))),
    ("Writer::find", Note(Reader), |c| c.write(|w| Ok(w.find(UNID)?.is_some()))),
    ("Writer::state_receive", Server, |c| {
        let listed = notes::replica::ListedNote {
            unid: UNID,
            class: notes::NoteClass::DOCUMENT,
            revision: revision::Revision { sequence: 1, id: revision::RevisionId([1; 16]) },
            saved: Timestamp(0),
            size: 0,
            state: Vec::new(),
            is_old: false,
            is_unselected: false,
            is_truncated: false,
        };
        c.write(|w| w.state_receive(&listed).map(|_| true))
    }),
    ("DatabaseSnapshot::unread_changes", Server, |c| {
        c.read(|r| r.unread_changes(Modseq(0), Modseq(0), 10).map(|_| true))
    }),
    ("DatabaseSnapshot::unread_without_times", Server, |c| c.read(|r| r.unread_without_times(&[], 10).map(|_| true))),
    ("Writer::unread_marks_receive", Server, |c| c.write(|w| w.unread_marks_receive(&[]).map(|_| true))),
    ("Writer::folder_restore", Server, |c| c.write(|w| w.folder_restore(c.other, "H", &[]))),
    ("Writer::uids_release", Server, |c| c.write(|w| w.uids_release())),
    ("Writer::replication_history_set", Server, |c| {
        let history = ReplicationHistory::default();
        c.write(|w| w.replication_history_set("CN=other/O=Acme", &history).map(|()| true))
    }),
    ("DatabaseSnapshot::replication_histories", Server, |c| c.read(|r| r.replication_histories().map(|_| true))),
    ("Writer::replication_histories_clear", Server, |c| c.write(|w| w.replication_histories_clear().map(|()| true))),
    ("Writer::replication_settings_set", From(Manager), |c| {
        let settings = notes::ReplicationSettings::default();
        let replica = notes::ReplicaSettings { server: other_server(), other: None, settings };
        c.write(|w| w.replication_settings_set(&replica).map(|()| true))
    }),
    ("Writer::replication_settings_remove", From(Manager), |c| {
        c.write(|w| w.replication_settings_remove(&other_server(), None).map(|existed| !existed))
    }),
    ("DatabaseSnapshot::replication_settings", From(Reader), |c| {
        c.read(|reading| Ok(!reading.replication_settings(&other_server(), &other_server())?.is_disabled))
    }),
    ("DatabaseSnapshot::known_replication_settings", From(Reader), |c| {
        c.read(|reading| Ok(reading.known_replication_settings(&other_server(), &other_server())?.is_none()))
    }),
    ("DatabaseSnapshot::all_replication_settings", From(Reader), |c| {
        c.read(|reading| Ok(reading.all_replication_settings()?.is_empty()))
    }),
    ("DatabaseSnapshot::is_selected", Note(Reader), |c| {
        let all = notes::replication_settings::compile_replication_formula("SELECT @All").expect("it is valid");
        c.read(|reading| reading.is_selected(c.note, &all, &reading.evaluation_context()))
    }),
    ("DatabaseSnapshot::content_hash", Note(Reader), |c| {
        c.read(|reading| Ok(reading.content_hash(c.note, &c.blob)? == c.blob.0))
    }),
    ("DatabaseSnapshot::try_select", Note(Reader), |c| {
        let all = notes::replication_settings::compile_replication_formula("SELECT @All").expect("it is valid");
        c.read(|reading| Ok(reading.try_select(c.note, &all, &reading.evaluation_context())? == Some(true)))
    }),
    ("Writer::note_receive", Server, |c| {
        let access: Access<level::Reader> = c.database.authorize(&server()).expect("the server may");
        let reading = access.read().expect("a snapshot");
        let note = reading.replica_note(c.note).expect("a sound store").expect("the note exists");
        let other = ReplicaNote { unid: Unid([0x77; 16]), ..note };
        c.write(|w| w.note_receive(&other, DeletionRule::EditsCount).map(|_| true))
    }),
    ("Writer::purged_stub_restore", From(AclLevel::Depositor), |c| {
        c.write(|w| {
            w.purged_stub_restore(Unid([99; 16]), Revision::first(Timestamp(0), UNID)).map(|is_written| !is_written)
        })
    }),
    ("Writer::note_receive_from_person of a new note", Create, |c| {
        let new = ReplicaNote { unid: Unid([0x77; 16]), ..c.brought() };
        let other = ReplicaNote { items: Some(Vec::new()), blobs: Vec::new(), ..new };
        c.write(|w| w.note_receive_from_person(&other, DeletionRule::EditsCount).map(|_| true))
    }),
    ("Writer::note_receive_from_person", Change, |c| {
        let revision = c.brought().revision.child(RevisionId([9; 16]));
        let next = ReplicaNote { revision, ..c.brought() };
        c.write(|w| w.note_receive_from_person(&next, DeletionRule::EditsCount).map(|_| true))
    }),
    ("Writer::note_receive_from_person of a deletion", Delete, |c| {
        let revision = c.brought().revision.child(RevisionId([9; 16]));
        let deletion = ReplicaNote { revision, items: None, blobs: Vec::new(), ..c.brought() };
        c.write(|w| w.note_receive_from_person(&deletion, DeletionRule::EditsCount).map(|_| true))
    }),
    ("Writer::state_receive_from_person", Note(Reader), |c| {
        c.write(|w| w.state_receive_from_person(UNID, &[]).map(|_| true))
    }),
    ("Writer::stored_revision", Note(Reader), |c| c.write(|w| Ok(w.stored_revision(UNID)?.is_some()))),
    ("Writer::local_document_set", OwnData, |c| c.write(|w| w.local_document_set("x", Some("{}")).map(|()| true))),
    ("DatabaseSnapshot::local_document", From(Reader), |c| {
        c.read(|reading| Ok(reading.local_document("x")?.is_none()))
    }),
    ("DatabaseSnapshot::kept_items", Note(Reader), |c| c.read(|reading| Ok(!reading.kept_items(c.note)?.is_empty()))),
    ("Writer::note_create", Create, |c| c.write(|w| w.note_create(NewNote::document(Vec::new())).map(|_| true))),
    ("Writer::note_create of a public note", CreatePublic, |c| {
        c.write(|w| w.note_create(NewNote::document(vec![Item::text("$PublicAccess", "1")])).map(|_| true))
    }),
    ("Writer::note_create with a foreign blob", Server, |c| {
        c.write(|w| w.note_create(NewNote { blobs: vec![c.blob], ..NewNote::document(Vec::new()) }).map(|_| true))
    }),
    ("Writer::note_create with new content", Create, |c| {
        c.write(|w| {
            let blobs = vec![w.blob_put(&[7; 10_000])?];
            w.note_create(NewNote { blobs, ..NewNote::document(Vec::new()) }).map(|_| true)
        })
    }),
    ("Writer::note_create into a folder", From(Author), |c| {
        let new = || NewNote { folders: vec![c.folder], ..NewNote::document(Vec::new()) };
        c.write(|w| w.note_create(new()).map(|_| true))
    }),
    ("Writer::note_create of design", From(Designer), |c| {
        c.write(|w| w.note_create(NewNote::of_class(notes::NoteClass::FORM, Vec::new())).map(|_| true))
    }),
    ("Writer::note_update", Change, |c| {
        c.write(|w| {
            let items = changed(w, c)?;
            w.note_update(c.note, 1, &items, &[]).map(|_| true)
        })
    }),
    ("Writer::note_update that keeps the blob", Change, |c| {
        c.write(|w| {
            let items = changed(w, c)?;
            w.note_update(c.note, 1, &items, &[c.blob]).map(|_| true)
        })
    }),
    ("Writer::note_update of design", From(Designer), |c| {
        c.write(|w| {
            w.note_update(NoteId(c.other.0), 1, &[Item::text("$TITLE", "G"), Item::text("$Flags", "F")], &[])
                .map(|_| true)
        })
    }),
    ("Writer::note_save", Change, |c| {
        c.write(|w| {
            let items = changed(w, c)?;
            w.note_save(c.note, 1, (&items, &[]), &SaveOptions::default()).map(|_| true)
        })
    }),
    ("Writer::note_save against another", Change, |c| {
        let options = SaveOptions { on_conflict: OnConflict::Resolve, ..SaveOptions::default() };
        c.write(|w| {
            let items = changed(w, c)?;
            w.note_save(c.note, 7, (&items, &[]), &options).map(|_| true)
        })
    }),
    ("Writer::note_delete", Delete, |c| c.write(|w| w.note_delete(c.note))),
    ("Writer::note_delete_permanently", Delete, |c| c.write(|w| w.note_delete_permanently(c.note))),
    ("Writer::note_delete_permanently of a deleted note", Delete, |c| {
        c.delete_softly();
        c.write(|w| w.note_delete_permanently(c.note))
    }),
    ("Writer::note_delete_from", Delete, |c| c.write(|w| w.note_delete_from(c.note, c.folder))),
    ("Writer::note_restore", Delete, |c| {
        c.delete_softly();
        c.write(|w| w.note_restore(c.note).map(|()| true))
    }),
    ("Writer::marks_set_in", Note(Author), |c| c.write(|w| w.marks_set_in((c.note, c.folder), Marks::FLAGGED, &[]))),
    ("Writer::marks_set", Note(Author), |c| c.write(|w| w.marks_set(c.note, Marks::FLAGGED, &["Work".into()]))),
    ("Writer::folder_add", Note(Author), |c| c.write(|w| w.folder_add(c.note, c.other).map(|_| true))),
    ("Writer::folder_remove", Note(Author), |c| c.write(|w| w.folder_remove(c.note, c.folder))),
    ("Writer::mark_read", Own, |c| c.write(|w| w.mark_read(&[c.note]).map(|()| true)) && c.read(|r| r.is_read(c.note))),
    ("DatabaseSnapshot::is_read", Own, |c| {
        c.write(|w| w.mark_read(&[c.note]).map(|()| true)) && c.read(|r| r.is_read(c.note))
    }),
    ("Writer::mark_unread", Own, |c| {
        c.write(|w| w.mark_read(&[c.note]).map(|()| true))
            && c.read(|r| r.is_read(c.note))
            && c.write(|w| w.mark_unread(&[c.note]).map(|()| true))
            && c.read(|r| Ok(!r.is_read(c.note)?))
    }),
    ("Writer::mark_read_by", Server, |c| c.write(|w| w.mark_read_by(&Name::new(ANN), &[c.note]).map(|()| true))),
    ("Writer::mark_unread_by", Server, |c| c.write(|w| w.mark_unread_by(&Name::new(ANN), &[c.note]).map(|()| true))),
    ("Writer::batch", Server, |c| c.write(|w| w.batch().map(|_| true))),
    ("Writer::folder_create", From(Designer), |c| c.write(|w| w.folder_create("H", &[]).map(|_| true))),
    ("Writer::folder_create_derived", From(Designer), |c| c.write(|w| w.folder_create_derived("H", &[]).map(|_| true))),
    ("Writer::folder_create_personal", Personal, |c| c.write(|w| w.folder_create_personal("H", &[]).map(|_| true))),
    ("Writer::folder_rename", From(Designer), |c| c.write(|w| w.folder_rename(c.other, "H").map(|()| true))),
    ("Writer::folder_item_set", From(Designer), |c| {
        c.write(|w| w.folder_item_set(c.other, "$X", Some("1")).map(|()| true))
    }),
    ("Writer::folder_readers_set", From(Designer), |c| {
        c.write(|w| w.folder_readers_set(c.other, &["*".to_owned()]).map(|()| true))
    }),
    ("Writer::folder_delete", From(Designer), |c| c.write(|w| w.folder_delete(c.other).map(|()| true))),
    ("Writer::folder_delete of one that is not empty", Server, |c| {
        c.write(|w| w.folder_delete(c.folder).map(|()| true))
    }),
    ("Writer::view_create", From(Designer), |c| c.write(|w| w.view_create(&view("New")).map(|_| true))),
    ("Writer::view_create of a private one", Personal, |c| {
        let kind = ViewKind { private: true, ..ViewKind::default() };
        c.write(|w| w.view_create(&ViewNote { kind, ..view("New") }).map(|_| true))
    }),
    ("Writer::view_update", From(Designer), |c| c.write(|w| w.view_update(c.view, 1, &view("New")).map(|_| true))),
    ("Writer::view_delete", From(Designer), |c| c.write(|w| w.view_delete(c.view).map(|()| true))),
    ("Writer::profile", From(Reader), |c| c.write(|w| Ok(w.profile("Old", None)?.is_some()))),
    ("Writer::profile_set", From(Author), |c| c.write(|w| w.profile_set("New", None, &[], &[]).map(|_| true))),
    ("Writer::profile_set of all", From(AclLevel::Editor), |c| {
        c.write(|w| w.profile_set("Old", None, &[], &[]).map(|_| true))
    }),
    ("Writer::profile_delete", From(AclLevel::Editor), |c| c.write(|w| w.profile_delete("Old", None))),
    ("Writer::acl_set", From(Manager), |c| c.write(|w| w.acl_set(Acl::open_to_all(AclLevel::Reader)).map(|()| true))),
    ("Databases::database_rename", From(Manager), |c| {
        c.manage(|access| c.world.databases.database_rename(access, "other.nsf"))
    }),
    ("Databases::database_rename_with", From(Manager), |c| {
        c.manage(|access| c.world.databases.database_rename_with(access, "docs.nsf", |_| Ok::<_, notes::Error>(())))
    }),
    ("Databases::database_settings_join", From(Manager), |c| {
        let settings = c.database.record().shared_settings();
        c.manage(|access| c.world.databases.database_settings_join(access, &settings).map(|_| ()))
    }),
    ("Databases::database_options_set", From(Manager), |c| {
        c.manage(|access| c.world.databases.database_options_set(access, "Title", DatabaseOptions::default()))
    }),
    ("Databases::check_copy", Server, |c| {
        let new = NewCopy::new("copy.nsf", &c.database.record());
        c.manage(|access| c.world.databases.check_copy(access, &new))
    }),
    ("DatabaseCopy::begin", Server, |c| {
        let new = NewCopy::new("copy.nsf", &c.database.record());
        c.manage(|access| DatabaseCopy::begin(&c.world.databases, access, &new).map(drop))
    }),
    ("Databases::database_delete", From(Manager), |c| c.manage(|access| c.world.databases.database_delete(access))),
];

/// Returns the items of the note with another subject. Fails if the caller may not read the note: a caller who may
/// change it must be able to read it here.
fn changed(writer: &mut Writer<'_, '_>, case: &Case) -> notes::Result<Vec<Item>> {
    let note = writer.note(case.note)?.ok_or_else(|| notes::Error::not_found("note"))?;
    let others = note.items.into_iter().filter(|item| !item.is_named("Subject"));
    Ok(others.chain([Item::text("Subject", "y")]).collect())
}

#[test]
fn every_operation_requires_its_level_and_readers() {
    let with_password = [Exposure::Open, Exposure::ByRole, Exposure::Hidden, Exposure::Authored];
    let mut combinations: Vec<_> = Exposure::ALL.map(|exposure| (exposure, Caller::Key)).into();
    combinations.extend(with_password.map(|exposure| (exposure, Caller::Password)));
    combinations.extend([Exposure::Open, Exposure::Hidden].map(|exposure| (exposure, Caller::Anonymous)));
    let all = || {
        AclLevel::ALL.into_iter().flat_map(|level| combinations.iter().map(move |combination| (level, *combination)))
    };
    for (name, needs, operation) in READING.iter().chain(WRITING) {
        for (level, (exposure, who)) in all() {
            let case = Case::new(level, exposure, who);
            let expected = needs.is_met(level, exposure, who);
            assert_eq!(operation(&case), expected, "{name}, {level}, {exposure:?}, {who:?}");
            if case.world.databases.database_open("docs.nsf").is_ok() {
                assert_sound(&case.database);
            }
        }
    }
}

/// The effect of each flag of an ACL entry: the level of the entry, the flag, the operation, and whether the operation
/// works without and with the flag.
const FLAGS: &[(AclLevel, AclFlags, &str, [bool; 2])] = &[
    (Author, AclFlags::AUTHOR_NO_CREATE, "Writer::note_create", [true, false]),
    (AclLevel::Editor, AclFlags::AUTHOR_NO_CREATE, "Writer::note_create", [true, true]),
    (AclLevel::Depositor, AclFlags::AUTHOR_NO_CREATE, "Writer::note_create", [true, true]),
    (AclLevel::Editor, AclFlags::NO_DELETE, "Writer::note_delete", [true, false]),
    (AclLevel::Editor, AclFlags::NO_DELETE, "Writer::note_delete_permanently", [true, false]),
    (AclLevel::Editor, AclFlags::NO_DELETE, "Writer::note_restore", [true, false]),
    (AclLevel::Editor, AclFlags::NO_DELETE, "Writer::profile_delete", [true, false]),
    (AclLevel::Editor, AclFlags::NO_DELETE, "Writer::note_update", [true, true]),
    (Manager, AclFlags::NO_DELETE, "Writer::note_delete", [true, false]),
    (Manager, AclFlags::NO_DELETE, "Writer::acl_set", [true, true]),
    (AclLevel::Editor, AclFlags::CREATE_FOLDER, "Writer::folder_create", [false, true]),
    (AclLevel::Editor, AclFlags::CREATE_FOLDER, "Writer::folder_rename", [false, true]),
    (AclLevel::Editor, AclFlags::CREATE_FOLDER, "Writer::folder_delete", [false, true]),
    (AclLevel::Editor, AclFlags::CREATE_FOLDER, "Writer::view_create", [false, true]),
    (AclLevel::Editor, AclFlags::CREATE_FOLDER, "Writer::note_create of design", [false, false]),
    (Author, AclFlags::CREATE_FOLDER, "Writer::folder_create", [false, false]),
    (Reader, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::folder_create_personal", [false, true]),
    (AclLevel::Editor, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::folder_create_personal", [false, true]),
    (Reader, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::view_create of a private one", [false, true]),
    (AclLevel::Depositor, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::folder_create_personal", [false, false]),
    (Reader, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::folder_create", [false, false]),
    (AclLevel::Editor, AclFlags::CREATE_PERSONAL_FOLDER, "Writer::view_create", [false, false]),
    (AclLevel::NoAccess, AclFlags::PUBLIC_READER, "PublicSnapshot::header", [false, false]),
    (AclLevel::NoAccess, AclFlags::PUBLIC_READER, "DatabaseSnapshot::header", [false, false]),
    (AclLevel::NoAccess, AclFlags::PUBLIC_WRITER, "Writer::note_create", [false, false]),
    (AclLevel::NoAccess, AclFlags::PUBLIC_WRITER, "Writer::note_create of a public note", [false, true]),
    (Reader, AclFlags::PUBLIC_WRITER, "Writer::note_create of a public note", [false, true]),
    (Reader, AclFlags::PUBLIC_WRITER, "Writer::note_update", [false, false]),
];

#[test]
fn flags_permit_and_forbid_at_their_levels() {
    for (level, flag, name, expected) in FLAGS {
        let row = READING.iter().chain(WRITING).find(|(row, ..)| row == name);
        let (_, _, operation) = row.unwrap_or_else(|| panic!("{name} has no row"));
        for (flags, expected) in [AclFlags::NONE, *flag].into_iter().zip(expected) {
            let case = Case::new(*level, Exposure::Open, Caller::Key);
            let mut acl = Acl::private(&Name::new(ANN));
            acl.entries.push(AclEntry { flags, ..AclEntry::new(BOB, *level) });
            case.world.write(&case.database, ANN, |writer| writer.acl_set(acl)).expect("Ann manages the database");
            assert_eq!(operation(&case), *expected, "{name}, {level}, {flags:?}");
        }
    }
}

/// The types that give access to a database, and the beginnings of their `impl` blocks.
const GUARDED: &[(&str, &[&str])] = &[
    ("DatabaseSnapshot", &["impl DatabaseSnapshot<'_>", "impl<'d> DatabaseSnapshot<'d>"]),
    ("PublicSnapshot", &["impl<'d> PublicSnapshot<'d>"]),
    ("FolderReader", &["impl<'r> FolderReader<'r>"]),
    ("Writer", &["impl Writer<'_, '_>"]),
    ("Transaction", &["impl<'t> Transaction<'t>"]),
    ("Databases", &["impl Databases"]),
    ("DatabaseCopy", &["impl<'c> DatabaseCopy<'c>", "impl DatabaseCopy<'_>"]),
    ("Access", &["impl<L: Level> Access<L>", "impl<L: AtLeast<level::", "impl<L: crate::access::AtLeast<level::"]),
];

/// Methods that need no row: they reveal nothing about notes, or their results check the access themselves.
const EXEMPT_METHODS: &[&str] = &[
    // Identity, database, time and durability.
    "DatabaseSnapshot::database DatabaseSnapshot::grant DatabaseSnapshot::ticket DatabaseSnapshot::evaluation_context",
    "DatabaseSnapshot::paced",
    "PublicSnapshot::database PublicSnapshot::grant PublicSnapshot::ticket",
    "Writer::database Writer::modseq Writer::now Writer::next_note Writer::last_ticket",
    "Transaction::writer Transaction::byte_count Transaction::commit",
    "Access::database Access::identity Access::grant Access::downgrade",
    // Counts of the whole database, hidden notes included. The type proves Reader access, and writers need the counts
    // for quotas.
    "DatabaseSnapshot::modseq DatabaseSnapshot::position DatabaseSnapshot::last_common DatabaseSnapshot::replication_history DatabaseSnapshot::counters DatabaseSnapshot::is_complete_since DatabaseSnapshot::is_unread_complete_since DatabaseSnapshot::contents_version Writer::bytes_used",
    // What is told of the versions that lost conflicts, after a check of the note, and from a header.
    "DatabaseSnapshot::losers DatabaseSnapshot::winner_of",
    // Used by the server itself, without an identity.
    "Databases::open Databases::open_with Databases::store Databases::clock Databases::random Databases::subscribe Databases::close_idle Databases::open_count",
    "Databases::database_create Databases::database_open Databases::database_open_number Databases::database_list Databases::database_exists",
    "Databases::database_open_replica Databases::database_page Databases::blob_prepare",
    "Databases::copy_origin Databases::remove_unfinished_copies",
    // The copy has begun with a check.
    "DatabaseCopy::step DatabaseCopy::finish",
    // Rows are missing for these methods, which were added while the matrix was written.
    "DatabaseSnapshot::design_notes Writer::view_create_with",
];

/// Returns the public methods of the guarded types in a source file.
fn public_methods(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut guarded = None;
    for line in source.lines() {
        if line.starts_with("impl") {
            let begins = |(_, blocks): &&(&str, &[&str])| blocks.iter().any(|block| line.starts_with(block));
            guarded = GUARDED.iter().find(begins).filter(|_| !line.contains(" for ")).map(|(name, _)| *name);
        } else if line == "}" {
            guarded = None;
        }
        let method = line.strip_prefix("    pub fn ").and_then(|rest| rest.split(['(', '<']).next());
        found.extend(guarded.zip(method).map(|(name, method)| format!("{name}::{method}")));
    }
    found
}

fn sources(folder: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources exist") {
        let path = entry.expect("a readable folder").path();
        // The collection module has a writer of its own, which has nothing to do with notes.
        if path.is_dir() && !path.ends_with("collection") {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(std::fs::read_to_string(&path).expect("a readable source"));
        }
    }
}

#[test]
fn every_public_method_has_a_row() {
    let mut texts = Vec::new();
    sources(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
    let methods: BTreeSet<String> = texts.iter().flat_map(|text| public_methods(text)).collect();
    assert!(methods.len() > 90, "the sources are read as they are written: {methods:?}");
    let first_word = |(name, ..): &Row| name.split(' ').next().unwrap_or_default().to_owned();
    let rows: BTreeSet<String> = READING.iter().chain(WRITING).map(first_word).collect();
    let exempt: BTreeSet<String> = EXEMPT_METHODS.iter().flat_map(|line| line.split(' ')).map(str::to_owned).collect();
    let known: BTreeSet<String> = rows.union(&exempt).cloned().collect();
    let missing: Vec<&String> = methods.difference(&known).collect();
    assert!(missing.is_empty(), "no row of the access matrix is about {missing:?}");
    let gone: Vec<&String> = known.difference(&methods).collect();
    assert!(gone.is_empty(), "there is no such method any more: {gone:?}");
    assert_eq!(rows.intersection(&exempt).count(), 0, "a method has a row or needs none");
}
