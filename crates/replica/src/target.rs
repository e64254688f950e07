//! The replica that takes notes over: which of them it lacks, and which the source may bring.

use std::collections::HashSet;
use std::sync::Arc;

use base::Unid;
use notes::instance::Position;
use notes::replica::{ListedNote, ReceiveOutcome, ReplicaNote};
use notes::{Access, AclFlags, AclLevel, Database, Databases, Error, Grant, Identity, NoteClass, Result, level};
use revision::DeletionRule;
use store::blob::{BlobId, PreparedBlob};

use crate::pull::PullStatistics;

/// A replica that takes notes over from one source.
pub struct Target {
    databases: Arc<Databases>,
    /// This server, which writes.
    reader: Access<level::Reader>,
    depositor: Access<level::Depositor>,
    /// The source, whose rights decide what is taken.
    source: Access<level::Depositor>,
    name: String,
    rule: DeletionRule,
}

impl Target {
    /// Prepares a database of this server for changes from a source. `itself` is this server. Fails if the access
    /// control list of the database does not let the source write.
    pub fn new(
        databases: &Arc<Databases>,
        database: &Arc<Database>,
        itself: &Arc<Identity>,
        source: &Arc<Identity>,
        rule: DeletionRule,
    ) -> Result<Self> {
        let reader: Access<level::Reader> = database.authorize(itself)?;
        let depositor = reader.downgrade();
        let name = source.name.canonical().to_owned();
        let source = database.authorize(source)?;
        Ok(Self { databases: Arc::clone(databases), reader, depositor, source, name, rule })
    }

    /// Returns the position in the source up to which this replica has everything.
    pub fn position(&self) -> Result<Option<Position>> {
        self.reader.read()?.replication_position(&self.name)
    }

    /// Returns the databases of this server.
    #[must_use]
    pub fn databases(&self) -> &Arc<Databases> {
        &self.databases
    }

    /// Splits a list into the notes whose contents this replica lacks, and those that it knows. Notes that the source
    /// may not bring are left out, and counted.
    pub(crate) fn compare(&self, listed: Vec<ListedNote>, statistics: &mut PullStatistics) -> Result<Compared> {
        let grant = self.source.grant()?;
        let reading = self.reader.read()?;
        let mut compared = Compared::default();
        for note in listed {
            if !may_bring(&grant, note.class) {
                statistics.refused += 1;
            } else if reading.knows_revision(note.unid, note.revision)? {
                compared.known.push(note);
            } else {
                compared.missing.push(note);
            }
        }
        Ok(compared)
    }

    /// Returns the attachments of arriving notes whose contents must be transferred: those to which no note of this
    /// database refers.
    ///
    /// Contents that only other databases have are transferred, too. A source could otherwise bring a note with the
    /// hash of a content that it does not know, and read the content in this replica.
    pub fn missing_contents(&self, notes: &[ReplicaNote]) -> Result<Vec<(Unid, BlobId)>> {
        let reading = self.reader.read()?;
        let mut missing: Vec<(Unid, BlobId)> = Vec::new();
        let mut seen = HashSet::new();
        for note in notes {
            for blob in &note.blobs {
                if seen.insert(*blob) && !reading.has_blob(blob)? {
                    missing.push((note.unid, *blob));
                }
            }
        }
        Ok(missing)
    }

    /// Takes notes over, with contents of attachments that were missing. They are durable on return.
    ///
    /// Notes that are not valid, or that the source may not bring, are skipped and counted.
    pub(crate) fn receive(
        &self,
        notes: &[ReplicaNote],
        contents: &[Arc<PreparedBlob<'static>>],
        statistics: &mut PullStatistics,
    ) -> Result<()> {
        let before = *statistics;
        let outcome = self.receive_together(notes, contents, statistics);
        if outcome.is_ok() {
            return Ok(());
        }
        // One of the notes is refused. The others are taken over one by one.
        *statistics = before;
        for note in notes {
            if let Err(error) = self.receive_together(std::slice::from_ref(note), contents, statistics) {
                if !matches!(error, Error::Invalid { .. } | Error::Limit { .. } | Error::NotFound { .. }) {
                    return Err(error);
                }
                tracing::warn!(
                    target: "replica",
                    database = %self.reader.database().path(),
                    source = %self.name,
                    unid = %note.unid,
                    %error,
                    "a note of another replica is not valid and was skipped"
                );
                statistics.skipped += 1;
            }
        }
        Ok(())
    }

    /// Takes notes over in one transaction, or more if some need others before them.
    fn receive_together(
        &self,
        notes: &[ReplicaNote],
        contents: &[Arc<PreparedBlob<'static>>],
        statistics: &mut PullStatistics,
    ) -> Result<()> {
        let accesses = [&self.depositor];
        let mut rest = notes;
        loop {
            // An access control list that has arrived counts for the notes behind it.
            let grant = self.source.grant()?;
            let mut transaction = self.databases.transaction(&accesses)?;
            let mut writer = transaction.writer(0);
            contents.iter().for_each(|content| writer.blob_offer(Arc::clone(content)));
            let mut is_interrupted = false;
            while let Some((note, behind)) = rest.split_first() {
                if !may_bring(&grant, note.class) || (note.items.is_none() && !may_delete(&grant)) {
                    statistics.refused += 1;
                    rest = behind;
                    continue;
                }
                match writer.note_receive(note, self.rule)? {
                    ReceiveOutcome::Later => {
                        is_interrupted = true;
                        break;
                    }
                    ReceiveOutcome::Merged => statistics.merged += 1,
                    ReceiveOutcome::Conflict => statistics.conflicts += 1,
                    ReceiveOutcome::Dropped { taken } => {
                        statistics.conflicts += 1;
                        tracing::warn!(
                            target: "replica",
                            database = %self.reader.database().path(),
                            unid = %note.unid,
                            taken,
                            "a note that has no conflict documents was changed on two servers; one version is dropped"
                        );
                    }
                    ReceiveOutcome::Taken if note.items.is_none() => statistics.deleted += 1,
                    ReceiveOutcome::Taken | ReceiveOutcome::Known { .. } => {}
                }
                statistics.received += 1;
                rest = behind;
                if note.class == NoteClass::ACL {
                    is_interrupted = true;
                    break;
                }
            }
            let ticket = transaction.commit()?;
            self.databases.store().durable(ticket).wait().map_err(Error::from)?;
            if !is_interrupted || rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Joins marks, keywords and folders of notes whose contents are known, and records the position in the source.
    pub(crate) fn finish_page(
        &self,
        known: &[ListedNote],
        position: Option<Position>,
        statistics: &mut PullStatistics,
    ) -> Result<()> {
        if known.is_empty() && position.is_none() {
            return Ok(());
        }
        let accesses = [&self.depositor];
        let mut transaction = self.databases.transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        for note in known {
            statistics.state_only += u64::from(writer.state_receive(note.unid, &note.state)?);
        }
        if let Some(position) = position {
            writer.replication_position_set(&self.name, position)?;
        }
        let ticket = transaction.commit()?;
        self.databases.store().durable(ticket).wait().map_err(Error::from)?;
        Ok(())
    }
}

/// The notes of a list.
#[derive(Default)]
pub(crate) struct Compared {
    pub(crate) missing: Vec<ListedNote>,
    pub(crate) known: Vec<ListedNote>,
}

/// Returns `true` if a source with these rights may bring notes of a class: documents with Editor access, designs with
/// Designer access, and the access control list with Manager access.
fn may_bring(grant: &Grant, class: NoteClass) -> bool {
    grant.level()
        >= match class {
            NoteClass::ACL => AclLevel::Manager,
            class if class.is_document() || class == NoteClass::PROFILE => AclLevel::Editor,
            _ => AclLevel::Designer,
        }
}

fn may_delete(grant: &Grant) -> bool {
    !grant.flags().contains(AclFlags::NO_DELETE)
}
