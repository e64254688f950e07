//! Creation, change and deletion of folders and views.

use base::limits::FOLDER_NAME_BYTES_MAX;
use base::{Name, NoteId, Uid, Unid, ViewId};
use store::Table;

use crate::acl::{AclFlags, AclLevel};
use crate::error::{Error, Result};
use crate::folder::{self, FolderDesign, FolderState};
use crate::folder_index_writer::FolderIndexWriter;
use crate::folder_reader::FolderReader;
use crate::item::Item;
use crate::keys;
use crate::limits::{FOLDER_READERS_MAX, VIEWS_PER_DATABASE_MAX};
use crate::note::{ExpectedVersion, NewNote, NoteClass};
use crate::private_design;
use crate::records;
use crate::shared_uids::SharedUids;
use crate::view::note::{self, FORMAT_ITEM, READERS_ITEM, SELECTION_ITEM, ViewKind, ViewNote};
use crate::writer::Writer;

/// The items of a design note that belong to the design of a view.
const DESIGN_ITEMS: [&str; 5] = [folder::TITLE_ITEM, folder::FLAGS_ITEM, SELECTION_ITEM, FORMAT_ITEM, READERS_ITEM];

impl Writer<'_, '_> {
    /// Creates a shared folder. `attributes` become text items of its design note.
    pub fn folder_create(&mut self, title: &str, attributes: &[(&str, &str)]) -> Result<ViewId> {
        self.check_may_design_folders()?;
        self.create_folder(title, attributes, None, None)
    }

    /// Creates a shared folder with the UNID that is derived from its title ([`folder::derived_unid`]), so that it is
    /// the same folder in replicas that are created apart.
    pub fn folder_create_derived(&mut self, title: &str, attributes: &[(&str, &str)]) -> Result<ViewId> {
        self.check_may_design_folders()?;
        self.create_folder(title, attributes, None, Some(folder::derived_unid(title)))
    }

    /// Creates a personal folder of the caller, which is hidden from all others.
    pub fn folder_create_personal(&mut self, title: &str, attributes: &[(&str, &str)]) -> Result<ViewId> {
        let owner = self.require_may_create_personal()?;
        self.create_folder(title, attributes, Some(&owner), None)
    }

    fn create_folder(
        &mut self,
        title: &str,
        attributes: &[(&str, &str)],
        owner: Option<&Name>,
        unid: Option<Unid>,
    ) -> Result<ViewId> {
        self.check_folder_title(title, None)?;
        if self.all_folders()?.len() >= VIEWS_PER_DATABASE_MAX {
            return Err(Error::Limit { what: "folders of a database", max: VIEWS_PER_DATABASE_MAX });
        }
        let kind = ViewKind { folder: true, private: owner.is_some(), ..ViewKind::default() };
        let mut items = vec![Item::text(folder::TITLE_ITEM, title), Item::text(folder::FLAGS_ITEM, kind.letters())];
        for (name, value) in attributes {
            check_attribute(name)?;
            items.push(Item::text(*name, *value));
        }
        items.extend(owner.map(|owner| Item::readers(folder::READERS_ITEM, vec![owner.canonical().to_owned()])));
        assert_eq!(
            owner.is_some(),
            self.is_owned_by_caller(&items),
            "a personal folder has an owner, and a shared one has none"
        );
        let new = NewNote { unid, ..NewNote::of_class(NoteClass::VIEW, items) };
        let note = self.create_design_note(owner, new)?;
        let view = ViewId(note.0);
        let state = self.new_folder_state();
        let open = FolderIndexWriter::create(self.part.database, view, state)?;
        self.part.folders.insert(view, open);
        Ok(view)
    }

    /// Creates a design note. For a personal one, the caller does not need the right to create documents.
    fn create_design_note(&mut self, owner: Option<&Name>, new: NewNote) -> Result<NoteId> {
        if owner.is_some() { self.create_unchecked(new) } else { self.note_create(new) }
    }

    /// Checks that a title is valid for a folder and not in use. The title of a folder that is hidden from the caller
    /// counts as in use, but that of another user's personal folder does not.
    fn check_folder_title(&self, title: &str, own: Option<ViewId>) -> Result<()> {
        let folders = self.all_folders()?;
        let others =
            folders.iter().filter(|other| Some(other.view) != own && self.blocks_title(other.owner().as_ref()));
        check_title(title, others)
    }

    /// Renames a folder.
    pub fn folder_rename(&mut self, folder: ViewId, title: &str) -> Result<()> {
        self.check_folder_title(title, Some(folder))?;
        self.folder_item_set(folder, folder::TITLE_ITEM, Some(title))
    }

    /// Sets the title and further text items of a folder that a repair has recreated. Returns `false` if the folder is
    /// not one.
    ///
    /// Its revision stays older than that of any save, so that what another replica still has of the folder replaces
    /// it. Fails unless the caller is the server itself.
    pub fn folder_restore(&mut self, folder: ViewId, title: &str, attributes: &[(&str, &str)]) -> Result<bool> {
        records::require_server_itself(self.part.database, &self.part.grant)?;
        let recovered = folder::recovered_title(folder);
        if !self.all_folders()?.iter().any(|known| known.view == folder && known.title == recovered) {
            return Ok(false);
        }
        self.check_folder_title(title, Some(folder))?;
        let note = NoteId(folder.0);
        let mut design = self.note(note)?.ok_or_else(|| Error::not_found(format!("folder {folder}")))?;
        for (name, value) in attributes.iter().chain([&(folder::TITLE_ITEM, title)]) {
            design.items.retain(|item| !item.is_named(name));
            design.items.push(Item::text(*name, *value));
        }
        self.note_update(note, design.header.revision(), &design.items, &[])?;
        self.pending_header(note)?.after.set_oldest();
        // The record of the save goes with it.
        self.part.revisions.remove(&note);
        self.batch.delete(Table::Body, &keys::revisions(self.number(), note));
        Ok(true)
    }

    /// Sets or removes a text item of a folder's design note.
    pub fn folder_item_set(&mut self, folder: ViewId, name: &str, value: Option<&str>) -> Result<()> {
        check_attribute(name)?;
        self.folder_design(folder, name, value.map(|value| Item::text(name, value)))
    }

    /// Sets the names that may know of a folder: names, groups, roles and wildcards. An empty list admits everybody.
    pub fn folder_readers_set(&mut self, folder: ViewId, readers: &[String]) -> Result<()> {
        if readers.len() > FOLDER_READERS_MAX {
            return Err(Error::Limit { what: "readers of a folder", max: FOLDER_READERS_MAX });
        }
        let names: Vec<String> = readers.iter().map(|name| Name::new(name).canonical().to_owned()).collect();
        let item = (!names.is_empty()).then(|| Item::readers(folder::READERS_ITEM, names));
        self.folder_design(folder, folder::READERS_ITEM, item)
    }

    fn folder_design(&mut self, folder: ViewId, name: &str, item: Option<Item>) -> Result<()> {
        let note = NoteId(folder.0);
        self.check_may_design_view(note)?;
        let mut design = self.note(note)?.ok_or_else(|| Error::not_found(format!("folder {folder}")))?;
        design.items.retain(|item| !item.is_named(name));
        design.items.extend(item);
        self.note_update(note, design.header.revision(), &design.items, &[])?;
        Ok(())
    }

    /// Deletes a folder, which must be empty. Fails with [`Error::NotEmpty`] otherwise.
    pub fn folder_delete(&mut self, folder: ViewId) -> Result<()> {
        self.check_may_design_view(NoteId(folder.0))?;
        self.require_folder_visible(folder)?;
        // Documents that are hidden from the caller also count.
        let gets_a_note = self.part.pending.values().any(|pending| pending.after.uid_in(folder).is_some());
        if gets_a_note || FolderReader::open(self.store, self.part.database, folder)?.totals()?.count > 0 {
            return Err(Error::NotEmpty { what: format!("folder {folder}") });
        }
        // The step that can be refused comes first: a caller that goes on after an error must not commit half of the
        // deletion.
        if !self.note_delete(NoteId(folder.0))? {
            return Err(Error::not_found(format!("folder {folder}")));
        }
        self.part.folders.remove(&folder);
        folder::collection_id(self.number(), folder).remove_all(self.batch);
        Ok(())
    }

    /// Creates a view. A personal view belongs to the caller, whatever readers it lists.
    pub fn view_create(&mut self, view: &ViewNote) -> Result<NoteId> {
        self.view_create_with(view, Vec::new())
    }

    /// Creates a view whose design note has further items.
    pub fn view_create_with(&mut self, view: &ViewNote, more: Vec<Item>) -> Result<NoteId> {
        if view.kind.folder {
            return Err(Error::invalid(
                format!("view {:?}", view.title),
                "a folder cannot be created as a view; create the folder first, then set its columns",
            ));
        }
        let owner = if view.kind.private {
            Some(self.require_may_create_personal()?)
        } else {
            self.check_may_design_folders()?;
            None
        };
        let count = records::load_design_notes(self.store, self.part.database, NoteClass::VIEW)?.len();
        if count >= VIEWS_PER_DATABASE_MAX {
            return Err(Error::Limit { what: "views of a database", max: VIEWS_PER_DATABASE_MAX });
        }
        let readers = owner.as_ref().map_or_else(|| view.readers.clone(), |owner| vec![owner.canonical().to_owned()]);
        let view = ViewNote { readers, ..view.clone() };
        view.check(ViewId(self.part.counters.next_note.0))?;
        self.check_view_name(&view, None)?;
        let items = [view.items(), more].concat();
        self.create_design_note(owner.as_ref(), NewNote::of_class(NoteClass::VIEW, items))
    }

    /// Replaces the design of a view, or the columns of a folder. Returns the new sequence number.
    ///
    /// Fails if the note does not have the version `expected` any more, which the caller has read. Items of the design
    /// note that do not belong to the design are kept.
    pub fn view_update(&mut self, note: NoteId, expected: impl Into<ExpectedVersion>, view: &ViewNote) -> Result<u32> {
        self.check_may_design_view(note)?;
        let stored = self.note(note)?.filter(|stored| stored.header.class == NoteClass::VIEW);
        let stored = stored.ok_or_else(|| Error::not_found(format!("view {note}")))?;
        let flags = stored.text(folder::FLAGS_ITEM).unwrap_or_default();
        let kind = ViewKind::of_letters(flags);
        if kind.folder != view.kind.folder {
            return Err(Error::invalid(
                format!("view {:?}", view.title),
                "a folder cannot become a view, nor a view a folder",
            ));
        }
        if view.kind.private && !kind.private {
            return Err(Error::invalid(
                format!("view {:?}", view.title),
                "a shared view or folder cannot become personal; create a new one",
            ));
        }
        if view.kind.folder && stored.text(folder::TITLE_ITEM) != Some(&view.title) {
            return Err(Error::invalid(
                format!("folder {:?}", view.title),
                "the name cannot be changed here; rename the folder instead",
            ));
        }
        let is_own = view.kind.private && self.is_owned_by_caller(&stored.items);
        let readers = if is_own { note::readers(&stored.items) } else { view.readers.clone() };
        let view = ViewNote { readers, ..view.clone() };
        view.check(ViewId(note.0))?;
        self.check_view_name(&view, Some(note))?;
        let mut items = view.items();
        let is_designed = |item: &Item| DESIGN_ITEMS.iter().any(|name| item.is_named(name));
        items.extend(stored.items.into_iter().filter(|item| !is_designed(item)));
        self.note_update(note, expected, &items, &stored.blobs)
    }

    /// Deletes a view and its index.
    pub fn view_delete(&mut self, note: NoteId) -> Result<()> {
        self.check_may_design_view(note)?;
        let stored = self.note(note)?.filter(|stored| stored.header.class == NoteClass::VIEW);
        let flags = stored.as_ref().and_then(|stored| stored.text(folder::FLAGS_ITEM));
        if flags.is_none_or(|flags| ViewKind::of_letters(flags).folder) {
            return Err(Error::not_found(format!("view {note}")));
        }
        self.note_delete(note)?;
        Ok(())
    }

    fn check_view_name(&self, view: &ViewNote, own: Option<NoteId>) -> Result<()> {
        for note in records::load_design_notes(self.store, self.part.database, NoteClass::VIEW)? {
            let Some(summary) = records::load_summary(self.store, self.part.database, note)? else { continue };
            let other = ViewNote::of_items(&summary.items).filter(|other| !other.kind.folder && Some(note) != own);
            let other = other.filter(|_| self.blocks_title(private_design::owner_of(&summary.items).as_ref()));
            if other.is_some_and(|other| other.is_named(&view.title)) {
                return Err(Error::Exists { what: format!("view {}", view.title) });
            }
        }
        Ok(())
    }

    /// Checks that the caller may create, change and delete notes of a class. Other conditions are not checked here.
    pub(crate) fn check_may_design(&self, class: NoteClass) -> Result<()> {
        match class {
            NoteClass::DOCUMENT => Ok(()),
            NoteClass::VIEW => self.check_may_design_folders(),
            NoteClass::ACL => {
                Err(Error::invalid("the access control list", "cannot be deleted, and can be changed only as a whole"))
            }
            NoteClass::REPLICATION_FORMULA => self.require_level(AclLevel::Manager),
            NoteClass::PROFILE => Err(Error::invalid("a profile document", "can be set and deleted only by its name")),
            _ => self.require_level(AclLevel::Designer),
        }
    }

    /// Checks that the caller may change or delete the folder or view of a design note.
    fn check_may_design_view(&self, note: NoteId) -> Result<()> {
        if self.design_is_owned_by_caller(note)? { Ok(()) } else { self.check_may_design_folders() }
    }

    fn check_may_design_folders(&self) -> Result<()> {
        if self.may_design_folders() { Ok(()) } else { self.require_level(AclLevel::Designer) }
    }

    /// Returns `true` if the caller may create, change and delete shared folders and views.
    pub(crate) fn may_design_folders(&self) -> bool {
        self.part.grant.flags().contains(AclFlags::CREATE_FOLDER) || self.part.grant.level() >= AclLevel::Designer
    }

    pub(crate) fn new_folder_state(&mut self) -> FolderState {
        let uid_validity = self.new_uid_validity();
        // Programs that know only an older structure must be able to read the state.
        let rank = self.part.database.settings.uid_rank.filter(|_| self.part.has_revisions);
        let shared = rank.map(|_| SharedUids::START);
        FolderState { uid_validity, uid_next: Uid(1), highest_modseq: self.part.modseq, shared }
    }
}

fn check_attribute(name: &str) -> Result<()> {
    if name.eq_ignore_ascii_case(folder::READERS_ITEM) {
        return Err(Error::invalid(
            folder::READERS_ITEM,
            "the readers of a folder cannot be set as text; set them as a list of names",
        ));
    }
    Ok(())
}

fn check_title<'f>(title: &str, mut others: impl Iterator<Item = &'f FolderDesign>) -> Result<()> {
    if title.is_empty() || title.len() > FOLDER_NAME_BYTES_MAX || title.chars().any(char::is_control) {
        return Err(Error::invalid(
            format!("folder name {title:?}"),
            "is empty, too long or contains control characters",
        ));
    }
    if title.split('/').any(str::is_empty) || title.split('/').count() > base::limits::FOLDER_DEPTH_MAX {
        return Err(Error::invalid(format!("folder name {title:?}"), "has empty levels or too many of them"));
    }
    if others.any(|other| other.title == title) {
        return Err(Error::Exists { what: format!("folder {title}") });
    }
    Ok(())
}
