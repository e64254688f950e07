//! Replication settings: what the replica of a server exchanges with those of others.
//!
//! The settings of a replica are a note of the class [`NoteClass::REPLICATION_FORMULA`] for each other server, and one
//! for all servers without a note of their own. Its UNID is computed from both names, so the settings of all replicas
//! are in each of them, and can be changed anywhere. Managers change them.

use base::{Name, Unid};
use formula::{Formula, FormulaOptions, Permissions};

use crate::acl::AclLevel;
use crate::catalog::DatabaseKind;
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Error, Result};
use crate::item::{Item, ItemValue, find_item};
use crate::limits::{REPLICATION_CUT_OFF_DAYS_MAX, REPLICATION_FOLDERS_MAX, REPLICATION_FORMULA_BYTES_MAX};
use crate::note::{NewContents, NewNote, Note, NoteClass, REPLICATION_SETTINGS_UNID_PREFIX};
use crate::records;
use crate::writer::Writer;

/// The server whose replica has the settings.
const SERVER_ITEM: &str = "$ReplServer";

/// The other server, or `*`.
const OTHER_ITEM: &str = "$ReplSrcServers";

const DISABLED_ITEM: &str = "$ReplDisabled";
const PRIORITY_ITEM: &str = "$ReplPriority";
const FORMULA_ITEM: &str = "$ReplFormula";
const FOLDERS_ITEM: &str = "$ReplView";
const CUT_OFF_ITEM: &str = "$ReplCutoffInterval";
const WITHOUT_ITEM: &str = "$ReplWithout";

/// Text of [`OTHER_ITEM`] for all servers that have no settings of their own.
const ALL_SERVERS: &str = "*";

/// When a database is replicated, among others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum ReplicationPriority {
    /// Replicated by connections that name this priority, or none.
    Low,
    /// The default.
    #[default]
    Medium,
    /// Replicated by connections that name this priority, or none.
    High,
}

impl ReplicationPriority {
    /// All priorities, the lowest first.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the priority with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.name().eq_ignore_ascii_case(name))
    }
}

/// What a replica does not exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NotExchanged(pub u8);

bitflags::bitflags! {
    impl NotExchanged: u8 {
        /// Views, folders and other design of the other server are not received.
        const DESIGN = 0x01;
        /// The access control list of the other server is not received.
        const ACL = 0x02;
        /// Deletions of the other server are not received.
        const DELETIONS_IN = 0x04;
        /// Deletions are not sent to the other server.
        const DELETIONS_OUT = 0x08;
        /// Attachments, and long rich text, are not received: documents arrive truncated.
        const ATTACHMENTS = 0x10;
    }
}

impl NotExchanged {
    /// The names of the values.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("design", Self::DESIGN),
        ("acl", Self::ACL),
        ("deletions-in", Self::DELETIONS_IN),
        ("deletions-out", Self::DELETIONS_OUT),
        ("attachments", Self::ATTACHMENTS),
    ];

    /// Returns the names of the values that are set.
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.into_iter().filter(|(_, value)| self.contains(*value)).map(|(name, _)| name).collect()
    }

    /// Returns the values with these names. Others are ignored.
    #[must_use]
    pub fn of_names(names: &[String]) -> Self {
        Self::NAMES
            .into_iter()
            .filter(|(name, _)| names.iter().any(|given| given == name))
            .map(|(_, value)| value)
            .collect()
    }
}

/// What a replica exchanges with that of another server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicationSettings {
    /// `true` if the replica neither receives nor sends anything.
    pub is_disabled: bool,
    /// The priority of the database.
    pub priority: ReplicationPriority,
    /// Selects the documents that the replica gets of those that it lacks. Empty: all.
    pub formula: String,
    /// Titles of folders of the source: the replica gets only documents that are in one of them, of those that it
    /// lacks. Empty: all.
    pub folders: Vec<String>,
    /// The replica gets no documents that were last saved longer ago than this number of days, of those that it lacks.
    pub cut_off_days: Option<u16>,
    /// What is not exchanged.
    pub without: NotExchanged,
}

impl ReplicationSettings {
    /// Returns `true` if the replica may receive notes of a class.
    #[must_use]
    pub fn receives(&self, class: NoteClass) -> bool {
        match class {
            NoteClass::ACL => !self.without.contains(NotExchanged::ACL),
            // Settings are always exchanged, or a replica that excludes the design could not be changed elsewhere.
            NoteClass::REPLICATION_FORMULA => true,
            class => !class.is_design() || !self.without.contains(NotExchanged::DESIGN),
        }
    }

    fn read(items: &[Item]) -> Self {
        let text = |name: &str| find_item(items, name).and_then(|item| item.value.text()).unwrap_or_default();
        let texts = |name: &str| find_item(items, name).map_or(&[][..], |item| item.value.texts());
        let without = texts(WITHOUT_ITEM)
            .iter()
            .filter_map(|text| NotExchanged::NAMES.into_iter().find(|(name, _)| name == text).map(|(_, value)| value));
        Self {
            is_disabled: text(DISABLED_ITEM) == "1",
            priority: ReplicationPriority::from_name(text(PRIORITY_ITEM)).unwrap_or_default(),
            formula: text(FORMULA_ITEM).to_owned(),
            folders: texts(FOLDERS_ITEM).to_vec(),
            cut_off_days: text(CUT_OFF_ITEM).parse().ok(),
            without: without.fold(NotExchanged::default(), NotExchanged::union),
        }
    }

    fn write(&self) -> Vec<Item> {
        let mut items = vec![Item::text(PRIORITY_ITEM, self.priority.name())];
        if self.is_disabled {
            items.push(Item::text(DISABLED_ITEM, "1"));
        }
        if !self.formula.is_empty() {
            items.push(Item::text(FORMULA_ITEM, &*self.formula));
        }
        if !self.folders.is_empty() {
            items.push(Item::summary(FOLDERS_ITEM, ItemValue::TextList(self.folders.clone())));
        }
        items.extend(self.cut_off_days.map(|days| Item::text(CUT_OFF_ITEM, days.to_string())));
        let without: Vec<String> = self.without.names().into_iter().map(str::to_owned).collect();
        if !without.is_empty() {
            items.push(Item::summary(WITHOUT_ITEM, ItemValue::TextList(without)));
        }
        items
    }

    fn check(&self) -> Result<()> {
        if !self.formula.is_empty() {
            compile_replication_formula(&self.formula)?;
        }
        if self.folders.len() > REPLICATION_FOLDERS_MAX {
            return Err(Error::Limit { what: "folders of replication settings", max: REPLICATION_FOLDERS_MAX });
        }
        if self.cut_off_days.is_some_and(|days| days == 0 || days > REPLICATION_CUT_OFF_DAYS_MAX) {
            let reason = "the cut-off must be from 1 to 3,650 days";
            return Err(Error::invalid("the replication settings", reason));
        }
        Ok(())
    }
}

/// Compiles a replication formula.
pub fn compile_replication_formula(formula: &str) -> Result<Formula> {
    if formula.len() > REPLICATION_FORMULA_BYTES_MAX {
        return Err(Error::Limit { what: "bytes of a replication formula", max: REPLICATION_FORMULA_BYTES_MAX });
    }
    let options = FormulaOptions { permissions: Permissions::NONE, ..FormulaOptions::default() };
    Formula::compile(formula, &options)
        .map_err(|error| Error::invalid("the replication formula", error.render(formula)))
}

/// The settings of a replica for another server, or for all others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplicaSettings {
    /// The server that has the replica.
    pub server: Name,
    /// The other server, or `None` for all that have no settings of their own.
    pub other: Option<Name>,
    /// The settings.
    pub settings: ReplicationSettings,
}

/// Returns the UNID of the settings of a server's replica for another server.
fn settings_unid(server: &Name, other: Option<&Name>) -> Unid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"replication settings\0");
    hasher.update(server.canonical().to_lowercase().as_bytes());
    hasher.update(b"\0");
    hasher.update(other.map_or(ALL_SERVERS, Name::canonical).to_lowercase().as_bytes());
    let mut unid = [0; 16];
    let (prefix, rest) = unid.split_at_mut(REPLICATION_SETTINGS_UNID_PREFIX.len());
    prefix.copy_from_slice(&REPLICATION_SETTINGS_UNID_PREFIX);
    hasher.finalize_xof().fill(rest);
    Unid(unid)
}

impl DatabaseSnapshot<'_> {
    /// Returns the settings of a server's replica for another server: its own, those for all servers, or the default.
    pub fn replication_settings(&self, server: &Name, other: &Name) -> Result<ReplicationSettings> {
        Ok(self.known_replication_settings(server, other)?.unwrap_or_default())
    }

    /// Returns the settings of a server's replica for another server, or for all servers, or `None` if it has never had
    /// any. Settings that were cleared are the default.
    pub fn known_replication_settings(&self, server: &Name, other: &Name) -> Result<Option<ReplicationSettings>> {
        let mut were_cleared = false;
        for other in [Some(other), None] {
            if let Some(note) = self.settings_note(server, other)? {
                return Ok(Some(ReplicationSettings::read(&note.items)));
            }
            were_cleared |= self.find(settings_unid(server, other))?.is_some();
        }
        Ok(were_cleared.then(ReplicationSettings::default))
    }

    /// Returns the settings of all replicas that have some, in the order of their creation here.
    pub fn all_replication_settings(&self) -> Result<Vec<ReplicaSettings>> {
        let mut found = Vec::new();
        let designs = records::load_design_notes(&self.snapshot, self.database(), NoteClass::REPLICATION_FORMULA)?;
        for design in designs {
            let Some(note) = self.note(design)? else { continue };
            let text = |name: &str| find_item(&note.items, name).and_then(|item| item.value.text());
            let (Some(server), Some(other)) = (text(SERVER_ITEM), text(OTHER_ITEM)) else { continue };
            let other = (other != ALL_SERVERS).then(|| Name::new(other));
            let settings = ReplicationSettings::read(&note.items);
            found.push(ReplicaSettings { server: Name::new(server), other, settings });
        }
        Ok(found)
    }

    fn settings_note(&self, server: &Name, other: Option<&Name>) -> Result<Option<Note>> {
        let note = self.find(settings_unid(server, other))?.map(|note| self.note(note)).transpose()?.flatten();
        Ok(note.filter(|note| note.header.class == NoteClass::REPLICATION_FORMULA))
    }
}

impl Writer<'_, '_> {
    /// Sets what a server's replica exchanges with that of another server, or of all that have no settings of their
    /// own. The caller must be a manager.
    pub fn replication_settings_set(&mut self, replica: &ReplicaSettings) -> Result<()> {
        self.require_level(AclLevel::Manager)?;
        replica.settings.check()?;
        let is_mail = self.part.database.record().kind == DatabaseKind::Mail;
        if is_mail && replica.settings.without.contains(NotExchanged::ATTACHMENTS) {
            // A mail client takes a message for the same one on all servers.
            let reason = "a mail file cannot be replicated without attachments";
            return Err(Error::invalid("the replication settings", reason));
        }
        let ReplicaSettings { server, other, settings } = replica;
        let mut items = vec![
            Item::text(SERVER_ITEM, server.canonical()),
            Item::text(OTHER_ITEM, other.as_ref().map_or(ALL_SERVERS, Name::canonical)),
        ];
        items.extend(settings.write());
        let unid = settings_unid(server, other.as_ref());
        let found = records::find(self.store, self.number(), unid)?;
        let stored = found.map(|note| self.part.stored_header(note)).transpose()?.flatten();
        let Some(stored) = stored.filter(|header| !header.is_stub()) else {
            let new = NewNote { unid: Some(unid), ..NewNote::of_class(NoteClass::REPLICATION_FORMULA, items) };
            return self.create_unchecked(new).map(|_| ());
        };
        let summary = self.editable_summary(stored.note)?;
        self.replace_items(stored.note, stored.revision().into(), &summary, NewContents::new(&items, &[]))?;
        Ok(())
    }

    /// Removes the settings of a server's replica for another server, or for all that have no settings of their own.
    /// Returns `false` if there are none. The caller must be a manager.
    pub fn replication_settings_remove(&mut self, server: &Name, other: Option<&Name>) -> Result<bool> {
        self.require_level(AclLevel::Manager)?;
        let found = records::find(self.store, self.number(), settings_unid(server, other))?;
        let stored = found.map(|note| self.part.stored_header(note)).transpose()?.flatten();
        match stored.filter(|header| !header.is_stub()) {
            Some(header) => self.note_delete(header.note),
            None => Ok(false),
        }
    }
}
