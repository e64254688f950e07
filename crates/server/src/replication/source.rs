//! The other server of a replication: its databases, and its answers to the questions of a pull.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admin::AdminError;
use admin::servers::with_port;
use base::memory::{MemoryBudget, MemoryOwner, MemoryPermit, MemoryShares};
use base::{Name, ReplicaId, Timestamp, Unid};
use client::{Client, ConnectOptions, Trust, v1};
use directory::IssuedCertificate;
use instance::certificate::{CertificateDescription, ServerCredentials, server_name_in};
use mail::content_names::name_as_stored;
use notes::instance::{ListProgress, Position, UnreadPlace};
use notes::replica::{ListedNote, ReplicaNote};
use notes::{DatabaseKind, Identity, Item, ItemValue, NotExchanged, SharedSettings, UnreadReplication};
use prost::Message as _;
use proto::v1::database_key::Key;
use proto::v1::deposit_mail_request::Part;
use replica::{Answer, ListPage, MissingContent, Question, Selection, SourceNotes, Target};
use rpc::convert::replication::{
    marks_from_proto, note_from_proto, page_from_proto, position_to_proto, progress_to_proto, selection_to_proto,
};
use store::blob::BlobId;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::contents::{ContentReceiver, ReceivedContents};
use super::offer::Upload;

/// Maximum time for a connection to another server.
pub(super) const CONNECT_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum size of a message from another server, in bytes.
pub(super) const MESSAGE_BYTES_MAX: usize = rpc::limits::REPLICA_MESSAGE_BYTES_MAX + (1 << 20);

/// Maximum size of the notes in one answer, in bytes. A question asks for a few MiB, or for one note.
const ANSWER_BYTES_MAX: usize = 512 << 20;

/// Size of the contents of attachments in bytes after which further notes of a question are deferred.
const CONTENTS_PER_ANSWER_BYTES: u64 = 64 << 20;

/// Maximum time in which another server sends nothing, after which it counts as gone.
const SILENCE_TIME_MAX: Duration = Duration::from_secs(90);

/// Interval between two looks whether what arrives is still wanted.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// Maximum time that an answer waits for memory when it is needed.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);

/// Pause between two attempts to take memory.
const MEMORY_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time in which another server takes no further part of an upload. The largest part is a note of 8 MiB.
const UPLOAD_PART_TIME_MAX: Duration = Duration::from_secs(600);

/// Maximum number of databases of another server.
const DATABASES_MAX: usize = 1_000_000;

/// The address of another server.
pub(super) struct Partner<'p> {
    /// Host and, if it is not the default one, port.
    pub(super) address: &'p str,
    /// The name in its certificate, if it is not the host.
    pub(super) server_name: Option<&'p str>,
    /// `true` if messages are compressed.
    pub(super) compression: bool,
}

/// The parts of a streaming request.
pub(super) type Parts<T> = futures_util::stream::Iter<Upload<T>>;

/// Called with the number of bytes received so far while something arrives. It may pause, and its error ends the call.
pub(super) type Watch<'w> = dyn FnMut(u64) -> Result<(), AdminError> + 'w;

/// A connection to another server.
pub(super) struct RemoteServer {
    pub(super) client: Client,
    runtime: Handle,
    /// The memory of what arrives.
    memory: MemoryBudget,
    /// The other server as its certificate names it, with its groups.
    pub(super) identity: Arc<Identity>,
}

/// Returns the identity of the server to which a connection was made, by the name in its certificate. Fails if this
/// server does not exchange anything with it.
pub(super) type AdmitPartner<'a> = &'a dyn Fn(&Name, &IssuedCertificate) -> Result<Arc<Identity>, AdminError>;

impl RemoteServer {
    /// Connects to another server.
    pub(super) fn connect(
        runtime: &Handle,
        partner: &Partner<'_>,
        credentials: &ServerCredentials,
        organization: &str,
        admit: AdmitPartner<'_>,
    ) -> Result<Self, AdminError> {
        let trust =
            Trust::mutual(&credentials.roots, &credentials.chain, &credentials.key).map_err(AdminError::refused)?;
        let address = with_port(partner.address)?;
        let options = ConnectOptions {
            server_name: partner.server_name.map(str::to_owned),
            message_bytes_max: MESSAGE_BYTES_MAX,
            compression: partner.compression,
            // Large notes need more time on slow lines. Silence ends a call (`within`).
            call_time_max: None,
            ..ConnectOptions::new(&address, trust)
        };
        let connecting =
            runtime.block_on(async { tokio::time::timeout(CONNECT_TIME_MAX, Client::connect(&options)).await });
        let client = connecting
            .map_err(|_| AdminError::Refused(format!("{address} does not answer within {CONNECT_TIME_MAX:?}")))?
            .map_err(AdminError::refused)?;
        let name = server_name_in(client.server_certificate(), organization)
            .ok_or_else(|| AdminError::Refused(format!("the certificate of {address} names no server")))?;
        let issued = CertificateDescription::parse_der(client.server_certificate())
            .ok_or_else(|| AdminError::Refused(format!("the certificate of {address} cannot be read")))?
            .issued();
        let identity = admit(&name, &issued)?;
        Ok(Self { client, runtime: runtime.clone(), memory: MemoryBudget::unlimited(), identity })
    }

    /// Uses the connection of a person who has logged in. Local replicas take everything that this server sends.
    pub(super) fn of_person(runtime: &Handle, client: Client, server: Name) -> Self {
        let identity = Arc::new(Identity::local_server(server));
        Self { client, runtime: runtime.clone(), memory: MemoryBudget::unlimited(), identity }
    }

    /// Takes the memory of what arrives from a budget of this server.
    pub(super) fn within(self, memory: &MemoryShares) -> Self {
        let owner = MemoryOwner::server(self.identity.name.canonical());
        Self { memory: memory.share_of(&owner), ..self }
    }

    /// Waits for a time.
    pub(super) fn pause(&self, time: Duration) {
        self.runtime.block_on(tokio::time::sleep(time));
    }

    /// Returns the name of the server, for people.
    pub(super) fn label(&self) -> String {
        self.identity.name.abbreviated()
    }

    /// Returns the databases to which this server has access: their paths and replica ids.
    pub(super) fn databases(&self) -> Result<Vec<(String, ReplicaId)>, AdminError> {
        let mut found = Vec::new();
        let mut request = v1::ListDatabasesRequest::default();
        loop {
            let page = self.call(self.client.databases().list_databases(request.clone()))?;
            for entry in page.databases {
                found.push((entry.path, parse_replica_id(&entry.replica_id)?));
                if found.len() > DATABASES_MAX {
                    return Err(AdminError::refused(
                        "the list of databases of the other server does not come to an end",
                    ));
                }
            }
            if page.next.is_empty() {
                return Ok(found);
            }
            request.after = page.next;
        }
    }

    /// Asks the server to take over the changes of databases from this one.
    pub(super) fn request_pull(
        &self,
        paths: Vec<String>,
        bytes_per_second_max: Option<u64>,
    ) -> Result<v1::RequestedPull, AdminError> {
        let bytes_per_second_max = bytes_per_second_max.unwrap_or(0);
        let request = v1::RequestPullRequest { paths, bytes_per_second_max };
        self.call(self.client.replication().request_pull(request))
    }

    /// Asks how far the server has come with it.
    pub(super) fn requested_pull(&self, number: u64) -> Result<v1::RequestedPull, AdminError> {
        self.call(self.client.replication().get_requested_pull(v1::GetRequestedPullRequest { number }))
    }

    /// Asks the server for a certificate for the key of a signing request. Returns it in PEM form.
    pub(super) fn renew_certificate(&self, signing_request: Vec<u8>) -> Result<String, AdminError> {
        let request = v1::RenewCertificateRequest { signing_request, installed: false };
        Ok(self.call(self.client.servers().renew_certificate(request))?.certificate)
    }

    /// Reports to the server that the certificate of this connection is installed.
    pub(super) fn confirm_certificate(&self) -> Result<(), AdminError> {
        let request = v1::RenewCertificateRequest { signing_request: Vec::new(), installed: true };
        self.call(self.client.servers().renew_certificate(request)).map(drop)
    }

    /// Sends a message to the server, which has the mailboxes. Returns the identifier that the server has given it.
    pub(super) fn forward_mail(
        &self,
        envelope: v1::ForwardedEnvelope,
        message: &[u8],
    ) -> Result<String, client::Status> {
        let first = Part::Forwarded(envelope);
        let pieces = message.chunks(rpc::limits::CHUNK_BYTES).map(|piece| Part::Content(piece.to_vec()));
        let parts = std::iter::once(first).chain(pieces).map(|part| v1::DepositMailRequest { part: Some(part) });
        let parts: Vec<_> = parts.collect();
        let mut stub = self.client.mail();
        let reply = self.upload(parts, |stream| async move { stub.deposit_mail(stream).await })?;
        Ok(reply.into_inner().id)
    }

    /// Sends the parts of a streaming request, and waits for the reply. It may take as long as parts are sent.
    pub(super) fn upload<T, R, F>(
        &self,
        parts: Vec<T>,
        call: impl FnOnce(Parts<T>) -> F,
    ) -> Result<client::Response<R>, client::Status>
    where
        F: Future<Output = Result<client::Response<R>, client::Status>>,
    {
        let (upload, taken) = Upload::new(parts);
        let mut reply = std::pin::pin!(call(futures_util::stream::iter(upload)));
        let waited = async {
            let mut seen = 0;
            loop {
                if let Ok(outcome) = tokio::time::timeout(UPLOAD_PART_TIME_MAX, &mut reply).await {
                    return outcome;
                }
                let now = taken.load(Ordering::Relaxed);
                if now == seen {
                    return Err(silent(UPLOAD_PART_TIME_MAX));
                }
                seen = now;
            }
        };
        self.runtime.block_on(waited)
    }

    /// Opens a database of the server.
    pub(super) fn open(&self, path: &str) -> Result<RemoteDatabase<'_>, AdminError> {
        let key = v1::DatabaseKey { key: Some(Key::Path(path.to_owned())) };
        let request = v1::GetReplicaRequest { database: Some(key.clone()), known: None };
        let replica = self.call(self.client.replication().get_replica(request))?;
        let kind = DatabaseKind::ALL.into_iter().find(|kind| kind.name() == replica.kind);
        let kind = kind.ok_or_else(|| AdminError::Refused(format!("{path} is a database of an unknown kind")))?;
        Ok(RemoteDatabase {
            server: self,
            key,
            replica_id: parse_replica_id(&replica.replica_id)?,
            path: replica.path,
            title: replica.title,
            kind,
            owner: Name::new(&replica.owner),
            purge_interval_days: u16::try_from(replica.purge_interval_days).unwrap_or(u16::MAX),
            keep_deleted_hours: u16::try_from(replica.keep_deleted_hours).ok().filter(|hours| *hours > 0),
            is_disabled: replica.disabled,
            offers_unread_marks: replica.unread_marks,
            unread_replication: UnreadReplication::of_name(&replica.unread_replication).unwrap_or_default(),
            not_exchanged: NotExchanged::of_names(&replica.not_exchanged),
            clock: Timestamp(replica.clock_us),
            hashes: HashMap::new(),
            bytes: 0,
            memory: None,
            ahead: None,
        })
    }

    /// Waits for the reply to a call.
    pub(super) fn call<R>(
        &self,
        reply: impl Future<Output = Result<client::Response<R>, client::Status>>,
    ) -> Result<R, AdminError> {
        Ok(self.wait(reply)?.into_inner())
    }

    /// Waits for a part of a call.
    fn wait<R>(&self, part: impl Future<Output = Result<R, client::Status>>) -> Result<R, AdminError> {
        self.runtime.block_on(within(part)).map_err(|status| self.failed(&status))
    }

    pub(super) fn failed(&self, status: &client::Status) -> AdminError {
        let advice = match status.code() {
            client::Code::Unavailable => "; the next replication continues where this one has ended",
            _ => "",
        };
        AdminError::Refused(format!("{}: {}{advice}", self.label(), status.message()))
    }
}

/// A database of another server.
pub(super) struct RemoteDatabase<'s> {
    pub(super) server: &'s RemoteServer,
    pub(super) key: v1::DatabaseKey,
    pub(super) replica_id: ReplicaId,
    pub(super) path: String,
    pub(super) title: String,
    pub(super) kind: DatabaseKind,
    pub(super) owner: Name,
    pub(super) purge_interval_days: u16,
    pub(super) keep_deleted_hours: Option<u16>,
    /// `true` if the settings of the other server exclude the database from replication with this one.
    pub(super) is_disabled: bool,
    /// `true` if the other server lists the unread marks of users for this one.
    pub(super) offers_unread_marks: bool,
    /// With which servers the unread marks of the database replicate.
    pub(super) unread_replication: UnreadReplication,
    /// What the replica of this server does not exchange, as the other server has its settings.
    pub(super) not_exchanged: NotExchanged,
    /// The clock of the other server when the database was opened.
    pub(super) clock: Timestamp,
    /// The hashes of the contents of the notes in the answer that is being completed, by their names in this store.
    hashes: HashMap<BlobId, BlobId>,
    /// Number of bytes of lists, notes and attachments that were received.
    bytes: u64,
    /// The memory of the last answer.
    memory: Option<MemoryPermit>,
    /// A question that was asked before its turn.
    ahead: Option<PendingQuestion>,
}

/// A question that waits for its reply.
struct PendingQuestion {
    question: Question,
    reply: JoinHandle<Result<Reply, client::Status>>,
    /// `true` while the reply waits for memory.
    is_waiting: Arc<AtomicBool>,
}

/// The reply to a question, as it was sent.
enum Reply {
    Changes(v1::ChangedNotes),
    Notes(Vec<v1::ReplicaNote>, MemoryPermit),
    UnreadMarks(v1::ListUnreadMarksReply),
}

impl Reply {
    fn bytes(&self) -> u64 {
        match self {
            Self::Changes(page) => page.encoded_len() as u64,
            Self::Notes(notes, _) => notes.iter().map(|note| note.encoded_len() as u64).sum(),
            Self::UnreadMarks(page) => page.encoded_len() as u64,
        }
    }
}

impl RemoteDatabase<'_> {
    /// Describes the database as it is now. Tells whether the server still has everything up to a state.
    pub(super) fn describe(&self, known: Option<Position>) -> Result<v1::Replica, AdminError> {
        let request = v1::GetReplicaRequest { database: Some(self.key.clone()), known: known.map(position_to_proto) };
        self.server.call(self.server.client.replication().get_replica(request))
    }

    /// Returns the number of bytes of lists, notes and attachments that were received.
    pub(super) fn bytes_received(&self) -> u64 {
        self.bytes
    }

    /// Asks a question and waits for the answer. Meanwhile, and after the return, the upcoming question is asked.
    pub(super) fn ask(
        &mut self,
        target: &Target,
        question: &Question,
        upcoming: Option<Question>,
        watch: &mut Watch<'_>,
    ) -> Result<Answer, AdminError> {
        self.memory = None;
        let mut pending = match self.ahead.take() {
            Some(pending) if pending.question == *question => pending,
            other => {
                other.inspect(|pending| pending.reply.abort());
                self.spawn(question.clone())
            }
        };
        let mut pauses = 0;
        let joined = loop {
            let reply = &mut pending.reply;
            let waited = self.server.runtime.block_on(async { tokio::time::timeout(WATCH_INTERVAL, reply).await });
            match waited {
                Ok(joined) => break joined.map_err(AdminError::refused)?,
                Err(_) => watch(self.bytes).inspect_err(|_| pending.reply.abort())?,
            }
            pauses = if pending.is_waiting.load(Ordering::Relaxed) { pauses + 1 } else { 0 };
            if WATCH_INTERVAL * pauses > MEMORY_WAIT_MAX {
                pending.reply.abort();
                return Err(AdminError::refused(
                    "this server has no memory left for what arrives (limits.message_memory); the replication continues \
                     when it is tried again",
                ));
            }
        };
        let reply = joined.map_err(|status| self.server.failed(&status))?;
        self.ahead = upcoming.map(|question| self.spawn(question));
        self.bytes += reply.bytes();
        match reply {
            Reply::Changes(page) => page_from_proto(page).map(Answer::Changes).map_err(AdminError::refused),
            Reply::UnreadMarks(page) => marks_from_proto(page).map(Answer::UnreadMarks).map_err(AdminError::refused),
            Reply::Notes(notes, memory) => {
                self.memory = Some(memory);
                self.complete(target, notes, watch)
            }
        }
    }

    fn spawn(&self, question: Question) -> PendingQuestion {
        let mut stub = self.server.client.replication();
        let database = Some(self.key.clone());
        let is_waiting = Arc::<AtomicBool>::default();
        let reply = match &question {
            Question::Changes { after, progress, selection } => {
                let after = after.map(position_to_proto);
                let progress = progress.map(progress_to_proto);
                let selection = selection.as_deref().map(selection_to_proto);
                let request = v1::ListChangedNotesRequest { database, after, progress, selection };
                self.server.runtime.spawn(async move {
                    let listed = within(stub.list_changed_notes(request)).await?;
                    Ok(Reply::Changes(listed.into_inner()))
                })
            }
            Question::UnreadMarks { after, place } => {
                let after = after.map(position_to_proto);
                let place = place.as_ref().map(UnreadPlace::encode).unwrap_or_default();
                let request = v1::ListUnreadMarksRequest { database, after, place };
                self.server.runtime.spawn(async move {
                    let listed = within(stub.list_unread_marks(request)).await?;
                    Ok(Reply::UnreadMarks(listed.into_inner()))
                })
            }
            Question::Notes { unids, are_truncated } => {
                let unids = unids.iter().map(|unid| unid.0.to_vec()).collect();
                let truncated = *are_truncated;
                let request = v1::ReadReplicaNotesRequest { database, unids, truncated, takes_parts: true };
                let mut memory = self.server.memory.empty_permit();
                let memory_max = self.server.memory.bytes_max();
                let waiting = Arc::clone(&is_waiting);
                self.server.runtime.spawn(async move {
                    let mut replies = within(stub.read_replica_notes(request)).await?.into_inner();
                    let mut notes = Vec::new();
                    let mut bytes = 0_usize;
                    while let Some(reply) = within(replies.message()).await? {
                        let before = bytes.min(memory_max);
                        bytes = bytes.saturating_add(reply.encoded_len());
                        // What is larger than the whole budget passes alone.
                        take_memory(&mut memory, bytes.min(memory_max) - before, &waiting).await;
                        if bytes > ANSWER_BYTES_MAX {
                            return Err(client::Status::resource_exhausted("the server sends more than was asked for"));
                        }
                        reply.notes.into_iter().for_each(|note| add_part(&mut notes, note));
                    }
                    Ok(Reply::Notes(notes, memory))
                })
            }
        };
        PendingQuestion { question, reply, is_waiting }
    }

    /// Completes notes with the contents of attachments that the target lacks. Notes that cannot be read are named
    /// instead.
    fn complete(
        &mut self,
        target: &Target,
        sent: Vec<v1::ReplicaNote>,
        watch: &mut Watch<'_>,
    ) -> Result<Answer, AdminError> {
        self.hashes.clear();
        let mut notes: Vec<ReplicaNote> = Vec::with_capacity(sent.len());
        let mut unsent = Vec::new();
        for note in sent {
            let unid = <[u8; 16]>::try_from(note.unid.as_slice()).map(Unid);
            match note_from_proto(note) {
                Ok(mut note) => {
                    name_as_stored(target.databases().store().blobs(), &mut note, &mut self.hashes);
                    notes.push(note);
                }
                Err(error) => {
                    let server = self.server.label();
                    tracing::warn!(target: "replica", database = self.path, server, %error, "a note cannot be read and was skipped");
                    unsent.extend(unid);
                }
            }
        }
        let deferred = defer_large(target, &mut notes)?;
        let missing = target.missing_contents(&notes)?;
        let proved = self.proved_contents(target, &missing)?;
        let to_send: Vec<&MissingContent> = missing.iter().filter(|content| !proved.contains(&content.blob)).collect();
        let mut received = ReceivedContents::new(&self.server.memory);
        for batch in to_send.chunks(rpc::limits::NOTES_PER_CALL_MAX) {
            self.read_contents(target, batch, &mut received, watch)?;
        }
        let ReceivedContents { in_memory: contents, stored: arrived, memory } = received;
        if let Some(held) = &mut self.memory {
            held.merge(memory);
        }
        Ok(Answer::Notes(SourceNotes { notes, contents, arrived, proved, deferred, unsent }))
    }

    /// Returns the contents that need not be sent, because this server has them and the other one proves that it knows
    /// them.
    fn proved_contents(&self, target: &Target, missing: &[MissingContent]) -> Result<Vec<BlobId>, AdminError> {
        let candidates: Vec<&MissingContent> = missing.iter().filter(|content| content.can_be_proved).collect();
        let mut proved = Vec::new();
        for batch in candidates.chunks(rpc::limits::NOTES_PER_CALL_MAX) {
            let mut key = [0; 32];
            target.databases().random().fill(&mut key);
            let request = v1::ProveContentsRequest {
                database: Some(self.key.clone()),
                contents: batch.iter().map(|content| self.content_of_note(content)).collect(),
                key: key.to_vec(),
            };
            let mut stub = self.server.client.replication();
            let mut proofs = self.server.call(stub.prove_contents(request))?;
            let mut seen = HashSet::new();
            while let Some(proof) = self.server.wait(proofs.message())? {
                let content = usize::try_from(proof.index).ok().and_then(|index| batch.get(index));
                // Each proof is compared with the hash of a whole content, so there is one of each.
                let content = content
                    .filter(|_| seen.insert(proof.index))
                    .ok_or_else(|| AdminError::refused("the proof of a content has no valid index"))?;
                if target.is_proof(&content.blob, &key, &proof.proof)? {
                    proved.push(content.blob);
                }
            }
        }
        Ok(proved)
    }

    /// Reads contents of attachments. Those of which an earlier replication has received a part continue.
    fn read_contents(
        &mut self,
        target: &Target,
        contents: &[&MissingContent],
        received: &mut ReceivedContents,
        watch: &mut Watch<'_>,
    ) -> Result<(), AdminError> {
        let mut request = v1::ReadContentsRequest {
            database: Some(self.key.clone()),
            contents: contents.iter().map(|content| self.content_of_note(content)).collect(),
        };
        let sender = format!("{}\0{}", self.server.identity.name.canonical(), self.replica_id.to_text());
        let hashes = contents.iter().map(|content| self.hash_of(content).0).collect();
        let mut receiver = ContentReceiver::new((target.databases(), sender.as_bytes()), hashes, received)?;
        for (index, content) in request.contents.iter_mut().enumerate() {
            content.offset_bytes = receiver.offset(index);
        }
        let mut stub = self.server.client.replication();
        let mut pieces = self.server.call(stub.read_contents(request))?;
        while let Some(piece) = self.server.wait(pieces.message())? {
            self.bytes += piece.content.len() as u64;
            receiver.take(&piece)?;
            watch(self.bytes)?;
        }
        Ok(())
    }

    /// Returns the name of a missing content for the other server.
    fn content_of_note(&self, content: &MissingContent) -> v1::ContentOfNote {
        content_of(content.unid, self.hash_of(content))
    }

    fn hash_of<'c>(&'c self, content: &'c MissingContent) -> &'c BlobId {
        self.hashes.get(&content.blob).unwrap_or(&content.blob)
    }

    /// Lists all notes that this server may read, and marks those that the selection excludes. `each` gets them page by
    /// page, and may end the list.
    pub(super) fn list_all(
        &self,
        selection: Option<&Selection>,
        each: &mut dyn FnMut(Vec<ListedNote>) -> ControlFlow<()>,
    ) -> Result<Option<SharedSettings>, AdminError> {
        let mut progress = None;
        loop {
            let database = Some(self.key.clone());
            let selection = selection.map(selection_to_proto);
            let request = v1::ListChangedNotesRequest { database, after: None, progress, selection };
            let listed = self.server.call(self.server.client.replication().list_changed_notes(request))?;
            let page = page_from_proto(listed).map_err(AdminError::refused)?;
            if each(page.notes) == ControlFlow::Break(()) {
                return Err(AdminError::Cancelled);
            }
            if page.is_last {
                return Ok(page.settings);
            }
            let ListPage { position, seen, .. } = page;
            progress = Some(progress_to_proto(ListProgress { position, seen, is_comparison: true }));
        }
    }
}

/// Waits for a part of a call, but not longer than another server may be silent. It may answer pings and no calls.
async fn within<R>(part: impl Future<Output = Result<R, client::Status>>) -> Result<R, client::Status> {
    let waited = tokio::time::timeout(SILENCE_TIME_MAX, part).await;
    waited.unwrap_or_else(|_| Err(silent(SILENCE_TIME_MAX)))
}

/// Adds a note that has arrived, or a part of the note before. A note of which a part is missing keeps `more`.
fn add_part(notes: &mut Vec<v1::ReplicaNote>, part: v1::ReplicaNote) {
    match notes.last_mut() {
        Some(last) if last.more && last.unid == part.unid && part.continued => {
            last.items.extend(part.items);
            last.more = part.more;
        }
        // The rest cannot be sent any more.
        Some(last) if last.more && last.unid == part.unid => *last = part,
        _ => notes.push(part),
    }
}

/// Takes memory for what has arrived. Waits if others hold it: a question that was asked before its turn waits for the
/// memory of the answer before.
async fn take_memory(memory: &mut MemoryPermit, bytes: usize, is_waiting: &AtomicBool) {
    while memory.grow(bytes).is_err() {
        is_waiting.store(true, Ordering::Relaxed);
        tokio::time::sleep(MEMORY_PAUSE).await;
    }
    is_waiting.store(false, Ordering::Relaxed);
}

fn silent(time: Duration) -> client::Status {
    let seconds = time.as_secs();
    client::Status::deadline_exceeded(format!("the server has sent nothing for {seconds} seconds"))
}

/// Returns the replica id in a text of the protocol.
fn parse_replica_id(text: &str) -> Result<ReplicaId, AdminError> {
    ReplicaId::from_text(text)
        .ok_or_else(|| AdminError::Refused("the other server has sent no valid replica id".to_owned()))
}

/// Returns the name of a content of a note.
pub(super) fn content_of(unid: Unid, blob: &BlobId) -> v1::ContentOfNote {
    v1::ContentOfNote { unid: unid.0.to_vec(), content_id: blob.0.to_vec(), offset_bytes: 0 }
}

/// Takes those notes away whose attachments are too large to arrive with the ones before, and returns them. So the
/// notes before are usable while a large attachment arrives.
fn defer_large(target: &Target, notes: &mut Vec<ReplicaNote>) -> Result<Vec<Unid>, AdminError> {
    let mut expected = 0_u64;
    let mut deferred = Vec::new();
    for note in std::mem::take(notes) {
        let is_complete = note.blobs.is_empty() || target.missing_contents(std::slice::from_ref(&note))?.is_empty();
        let bytes = if is_complete { 0 } else { contents_bytes(&note) };
        if expected > 0 && expected.saturating_add(bytes) > CONTENTS_PER_ANSWER_BYTES {
            deferred.push(note.unid);
        } else {
            expected = expected.saturating_add(bytes);
            notes.push(note);
        }
    }
    Ok(deferred)
}

/// Returns the size of the contents of a note's attachments, or an upper limit for the parts of a message.
fn contents_bytes(note: &ReplicaNote) -> u64 {
    let of_item = |item: &Item| match item.value {
        ItemValue::Object { length, .. } => length,
        _ => 0,
    };
    let attached: u64 = note.items.iter().flatten().map(of_item).fold(0, u64::saturating_add);
    attached.max(note.size.unwrap_or(0))
}

impl Drop for RemoteDatabase<'_> {
    fn drop(&mut self) {
        if let Some(pending) = &self.ahead {
            pending.reply.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_notes_are_put_together() {
        let part = |unid: u8, name: &str, continued, more| {
            let items = vec![v1::Item { name: name.to_owned(), ..v1::Item::default() }];
            v1::ReplicaNote { unid: vec![unid; 16], items, continued, more, ..v1::ReplicaNote::default() }
        };
        let put_together = |parts: Vec<v1::ReplicaNote>| {
            let mut notes = Vec::new();
            parts.into_iter().for_each(|part| add_part(&mut notes, part));
            let names = |note: &v1::ReplicaNote| note.items.iter().map(|item| item.name.as_str()).collect::<String>();
            let state = |note: &v1::ReplicaNote| match (note.unsent, note.more || note.continued) {
                (true, _) => "unsent".to_owned(),
                (false, true) => "incomplete".to_owned(),
                (false, false) => names(note),
            };
            notes.iter().map(state).collect::<Vec<_>>()
        };
        let whole = vec![
            part(1, "a", false, false),
            part(2, "b", false, true),
            part(2, "c", true, true),
            part(2, "d", true, false),
            part(3, "e", false, false),
        ];
        assert_eq!(put_together(whole), ["a", "bcd", "e"]);
        let changed_meanwhile = v1::ReplicaNote { unid: vec![2; 16], unsent: true, ..v1::ReplicaNote::default() };
        assert_eq!(put_together(vec![part(2, "b", false, true), changed_meanwhile]), ["unsent"]);
        // What another server could send: parts of other notes, and parts without a beginning or an end.
        let wrong = vec![part(1, "a", true, false), part(2, "b", false, true), part(3, "c", true, false)];
        assert_eq!(put_together(wrong), ["incomplete", "incomplete", "incomplete"]);
    }
}
