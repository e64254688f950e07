//! Local replicas: a store of a person's own, with replicas of databases of a server.
//!
//! The store has the form of a data folder. Its file `local.json` names the person, the server and the person's groups.
//! A replication brings the changes of the person to the server first, so that the server resolves conflicts under its
//! rules, and then takes over those of the server.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use admin::answer::record;
use admin::request::ReplicateRequest;
use admin::{AdminError, Answer, Progress, ProgressCallback, Unit};
use base::{Name, Random, ReplicaId, hex};
use client::{Client, ConnectOptions, v1};
use config::Config;
use instance::Instance;
use instance::data_folder::{DataFolder, read_limited, write_private};
use instance::system::SystemRandom;
use notes::{AuthenticationMethod, Database, DatabaseKind, Identity, UnreadReplication};
use replica::{HeldBackNotes, PullStatistics, Push, PushStatistics, RefusedNote};
use rpc::limits::CLOCK_AHEAD_MAX;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::database_pull::{
    PullOptions, PulledDatabase, TargetDatabase, clock_warning, disabled_message, for_each_database, new_replica,
    pull_changes,
};
use super::offer::PushedDatabase;
use super::source::{CONNECT_TIME_MAX, MESSAGE_BYTES_MAX, RemoteDatabase, RemoteServer};

/// The name of the file that makes a data folder a local store.
const FILE_NAME: &str = "local.json";

/// Maximum size of the file in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The version of the file.
const FILE_VERSION: u64 = 1;

/// Maximum time for the connection and the login.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum number of refused documents that are listed for one database.
const REFUSED_SHOWN: usize = 100;

/// A folder with local replicas: whose they are, and of which server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalStore {
    /// The name of the store. It distinguishes the stores of a person.
    name: String,
    /// The person.
    pub user: Name,
    /// The host name of the server.
    server: String,
    /// The groups that contain the person, as the server said last.
    groups: Vec<Name>,
}

impl LocalStore {
    /// Reads the file of a folder. Returns `None` if the folder is empty or does not exist. Fails if it is the data
    /// folder of a server.
    pub fn read(data: &DataFolder) -> Result<Option<Self>, AdminError> {
        let path = path(data);
        let bytes = match read_limited(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(_) if !path.exists() && data.store_folder().exists() => {
                let folder = data.path().display();
                return Err(AdminError::refused(format!(
                    "{folder} is not a folder of local replicas, but the data folder of a server (it has no {FILE_NAME})"
                )));
            }
            Err(_) if !path.exists() => return Ok(None),
            Err(error) => return Err(AdminError::refused(error)),
        };
        let parsed = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| Self::parse(&value));
        let unreadable = || AdminError::refused(format!("{} cannot be read, or is of a newer version", path.display()));
        parsed.map(Some).ok_or_else(unreadable)
    }

    /// Fails if a folder has local replicas: a server would take them for its own databases.
    pub fn refuse_server(data: &DataFolder) -> Result<(), AdminError> {
        if !path(data).exists() {
            return Ok(());
        }
        let folder = data.path().display();
        Err(AdminError::Refused(format!(
            "{folder} has the local replicas of a person, and cannot be the data folder of a server; name another \
             folder with --data, or use these with `doublet --local {folder}`"
        )))
    }

    fn parse(value: &Value) -> Option<Self> {
        if value["version"] != FILE_VERSION {
            return None;
        }
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let groups = value["groups"].as_array()?.iter().map(|group| group.as_str().map(Name::new));
        Some(Self {
            name: text("name")?,
            user: Name::new(&text("user")?),
            server: text("server")?,
            groups: groups.collect::<Option<_>>()?,
        })
    }

    fn write(&self, data: &DataFolder) -> Result<(), AdminError> {
        let groups: Vec<&str> = self.groups.iter().map(Name::canonical).collect();
        let value = json!({
            "version": FILE_VERSION,
            "name": self.name,
            "user": self.user.canonical(),
            "server": self.server,
            "groups": groups,
        });
        write_private(&path(data), format!("{value:#}\n").as_bytes()).map_err(AdminError::refused)
    }

    /// Returns the person as the access control lists know them. The login at the server was with a password.
    #[must_use]
    pub fn person(&self) -> Identity {
        let person = Identity { groups: self.groups.clone(), ..Identity::person(self.user.clone()) };
        person.authenticated(AuthenticationMethod::Password)
    }

    /// Opens the store. `config` names its folder.
    pub fn open(&self, mut config: Config) -> Result<Instance, AdminError> {
        // The program of the person must not be taken for the server, even on the same machine.
        config.server.name.clone_from(&self.name);
        Instance::open(Arc::new(config)).map_err(AdminError::refused)
    }
}

fn path(data: &DataFolder) -> PathBuf {
    data.path().join(FILE_NAME)
}

/// The parameters of a replication of local replicas.
pub struct LocalReplication {
    /// The server.
    pub options: ConnectOptions,
    /// The login name of the person.
    pub user: String,
    /// The password.
    pub password: String,
    /// What is replicated.
    pub request: ReplicateRequest,
}

/// Exchanges changes between the local replicas in the data folder of `config` and a server. Creates the folder if it
/// does not exist.
pub fn replicate(
    config: Config,
    parameters: LocalReplication,
    report: &mut ProgressCallback<'_>,
) -> Result<Answer, AdminError> {
    check(&parameters.request)?;
    let data = DataFolder::new(&config.server.data);
    let known = LocalStore::read(&data)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(AdminError::refused)?;
    let connecting = runtime.block_on(async { tokio::time::timeout(LOGIN_TIME_MAX, log_in(&parameters)).await });
    let login = connecting
        .map_err(|_| {
            let address = &parameters.options.address;
            AdminError::refused(format!("{address} does not answer within {} s", LOGIN_TIME_MAX.as_secs()))
        })?
        .map_err(login_error)?;
    let store = login.store(known)?;
    // The folder is created, or closed to others, before anything is in it.
    data.create().map_err(AdminError::refused)?;
    store.write(&data)?;
    let instance = store.open(config)?;
    let server = RemoteServer::of_person(runtime.handle(), login.client.clone(), Name::new(&store.server));
    let session =
        LocalSession { instance: &instance, itself: Arc::new(Identity::local_server(store.name.as_str())), server };
    let outcome = session.replicate(&parameters.request, report);
    end(&runtime, &login.client);
    outcome
}

/// Refuses options that have no meaning for local replicas.
fn check(request: &ReplicateRequest) -> Result<(), AdminError> {
    let options = [
        ("--compare", request.compare),
        ("--dry-run", request.dry_run),
        ("--call-per-note", request.call_per_note),
        ("--server-name", request.server_name.is_some()),
    ];
    match options.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(AdminError::refused(format!("{option} cannot be used with --local"))),
        None => Ok(()),
    }
}

/// A person who has logged in to a server.
struct Login {
    client: Client,
    session: v1::Session,
    server: v1::Server,
}

async fn log_in(parameters: &LocalReplication) -> Result<Login, client::Error> {
    let LocalReplication { options, user, password, .. } = parameters;
    // Large notes need more time on slow lines. Silence ends a call.
    let options = ConnectOptions { call_time_max: None, message_bytes_max: MESSAGE_BYTES_MAX, ..options.clone() };
    let client = Client::connect(&options).await?;
    client.log_in(user, password, &SystemRandom).await?;
    let session = client.sessions().get_session(v1::GetSessionRequest {}).await?.into_inner();
    let server = client.sessions().get_server(v1::GetServerRequest {}).await?.into_inner();
    Ok(Login { client, session, server })
}

/// Adds advice if the certificate of the server is not trusted.
fn login_error(error: client::Error) -> AdminError {
    match error {
        client::Error::Tls { .. } => AdminError::refused(format!(
            "{error}; if the server's certificate is not signed by a trusted authority, give a copy of it \
             (tls/certificate.pem in the server's data folder) with --certificate"
        )),
        error => AdminError::refused(error),
    }
}

fn end(runtime: &Runtime, client: &Client) {
    // Without a logout the session would end later, by its timeout.
    let _ = runtime.block_on(async { tokio::time::timeout(CONNECT_TIME_MAX, client.logout()).await });
}

impl Login {
    /// Returns the store of the person, a new one if there is none. Fails if it is that of another person or server.
    fn store(&self, known: Option<LocalStore>) -> Result<LocalStore, AdminError> {
        let user = Name::new(&self.session.name);
        let server = self.server.hostname.clone();
        let groups = self.session.groups.iter().map(|group| Name::new(group)).collect();
        let Some(known) = known else {
            let mut id = [0; 8];
            SystemRandom.fill(&mut id);
            return Ok(LocalStore { name: format!("local-{}", hex::lower(&id)), user, server, groups });
        };
        if known.user != user {
            return Err(AdminError::refused(format!(
                "the folder has the local replicas of {}, not of {}",
                known.user.abbreviated(),
                user.abbreviated()
            )));
        }
        if known.server != server {
            return Err(AdminError::refused(format!(
                "the folder has local replicas of databases of {}, not of {server}; use another folder",
                known.server
            )));
        }
        Ok(LocalStore { groups, ..known })
    }
}

/// A replication of the databases of an open store.
struct LocalSession<'l> {
    instance: &'l Instance,
    itself: Arc<Identity>,
    server: RemoteServer,
}

impl LocalSession<'_> {
    fn replicate(&self, request: &ReplicateRequest, report: &mut ProgressCallback<'_>) -> Result<Answer, AdminError> {
        if !self.instance.store.blobs().names_by_hash() {
            let text = "local replicas cannot be encrypted; replicate into a folder without `blobs.encryption`";
            return Err(AdminError::refused(text));
        }
        let (paths, lost) = self.databases(&request.databases)?;
        if paths.is_empty() && !lost.is_empty() {
            return Err(AdminError::refused(lost.join("\n")));
        }
        if paths.is_empty() {
            let server = self.server.label();
            return Err(AdminError::refused(format!(
                "there are no local replicas of databases of {server} yet; name the databases to be replicated"
            )));
        }
        let mut messages = Vec::new();
        let mut each = |path: &str| self.replicate_database(path, request, &mut messages, report);
        let done = for_each_database(&paths, &mut each);
        // What the server has refused is said even if the pull fails afterwards.
        let (rows, failure) = match done {
            Err(AdminError::Refused(text)) if !messages.is_empty() => {
                return Err(AdminError::Refused(format!("{text}\n{}", messages.join("\n"))));
            }
            done => done?,
        };
        let rows: Vec<Value> = rows.into_iter().flatten().collect();
        let has_refused = rows.iter().any(|row| row["direction"] == "push" && row["refused"] != 0);
        let refused = has_refused.then(|| "the server has refused documents".to_owned());
        let failures: Vec<String> = failure.into_iter().chain(lost).chain(refused).collect();
        let failure = (!failures.is_empty()).then(|| failures.join("\n"));
        let mut answer = Answer { failure, ..Answer::list(rows) };
        answer.messages.extend(messages);
        Ok(answer)
    }

    /// Returns the paths of databases on the server: the given ones or, if none are given, those with local replicas.
    /// Also returns a text for each local replica that the server does not offer then.
    fn databases(&self, named: &[String]) -> Result<(Vec<String>, Vec<String>), AdminError> {
        if !named.is_empty() {
            return Ok((named.to_vec(), Vec::new()));
        }
        let offered: HashMap<ReplicaId, String> =
            self.server.databases()?.into_iter().map(|(path, replica_id)| (replica_id, path)).collect();
        let server = self.server.label();
        let mut common = Vec::new();
        let mut lost = Vec::new();
        for record in self.instance.databases.database_list()? {
            if !matches!(record.kind, DatabaseKind::Standard | DatabaseKind::Mail) {
                continue;
            }
            match offered.get(&record.replica_id) {
                Some(path) => common.push(path.clone()),
                None => lost.push(format!(
                    "{}: {server} has no such database any more, or you have no access to it.",
                    record.path
                )),
            }
        }
        Ok((common, lost))
    }

    /// Exchanges changes of a database. Returns a row for each direction.
    fn replicate_database(
        &self,
        path: &str,
        request: &ReplicateRequest,
        messages: &mut Vec<String>,
        report: &mut ProgressCallback<'_>,
    ) -> Result<Vec<Value>, AdminError> {
        let mut source = self.server.open(path)?;
        if source.is_disabled {
            messages.push(disabled_message(path, &self.server));
            return Ok(Vec::new());
        }
        let found = self.instance.databases.database_open_replica(source.replica_id)?;
        let mut rows = Vec::new();
        let is_new = found.is_none();
        let database = match found {
            Some(database) => database,
            None if request.push => {
                return Err(AdminError::refused(format!("there is no local replica of {path}")));
            }
            None => self.create(&source)?,
        };
        let mut push = Push::begin(&self.instance.databases, &database, &self.itself, &self.server.identity.name)?;
        if request.pull && !is_new && push.has_changes()? {
            return Err(AdminError::refused(format!(
                "{path} has documents of which the server has not said yet that it has them, and only the server resolves \
                 conflicts; replicate without --pull"
            )));
        }
        if !request.pull && !is_new {
            let pushed = self.push(&mut push, &database, (&mut source, messages), report)?;
            rows.push(pushed);
            let latest = source.clock.after(CLOCK_AHEAD_MAX);
            let is_of_future = push.statistics().refused.iter().any(|note| note.saved > latest);
            // Documents that are of the future for the server are accepted when its clock is right. A pull would bring
            // its versions, and keep these here as conflict documents, which are not offered.
            let difference = self.instance.clock.now().since(source.clock);
            if is_of_future && difference > CLOCK_AHEAD_MAX {
                let warning = clock_warning(&self.server, difference);
                messages
                    .push(format!("Nothing was received, so that refused documents can still be accepted: {warning}"));
                return Ok(rows);
            }
        }
        if !request.push {
            let held_back = if request.take_held_back { HeldBackNotes::Taken } else { HeldBackNotes::Left };
            let pulled = self.pull(&database, &mut source, held_back, report)?;
            let is_unchanged = pulled.statistics.merged == 0 && pulled.statistics.conflicts == 0;
            if is_unchanged {
                push.skip_received()?;
            }
            let clock = self.instance.clock.now();
            let difference = clock.since(source.clock).max(source.clock.since(clock));
            if difference > self.instance.config.replication.clock_warning.0 {
                messages.push(clock_warning(&self.server, difference));
            }
            rows.push(pulled.to_row());
        }
        Ok(rows)
    }

    /// Creates an empty local replica.
    fn create(&self, source: &RemoteDatabase<'_>) -> Result<Arc<Database>, AdminError> {
        if !matches!(source.kind, DatabaseKind::Standard | DatabaseKind::Mail) {
            let kind = source.kind.name();
            return Err(AdminError::refused(format!(
                "{} is a {kind} database, of which there are no local replicas",
                source.path
            )));
        }
        if self.instance.databases.database_exists(&source.path)? {
            return Err(AdminError::refused(format!(
                "the folder has another database with the path {}, which the server has removed or renamed; rename it \
                 (`doublet --data DIR db rename`) or delete it",
                source.path
            )));
        }
        let mut new = new_replica(source, &self.itself.name, &self.server.identity.name);
        // Unread marks of all users are no concern of a person's folder.
        new.options.unread_replication = UnreadReplication::default();
        Ok(self.instance.databases.database_create(&new)?)
    }

    /// Takes over the changes of the server.
    fn pull(
        &self,
        database: &Arc<Database>,
        source: &mut RemoteDatabase<'_>,
        held_back: HeldBackNotes,
        report: &mut ProgressCallback<'_>,
    ) -> Result<PulledDatabase, AdminError> {
        let clock = &self.instance.clock;
        let began = clock.monotonic();
        let options = PullOptions { held_back, ..PullOptions::default() };
        let databases = &self.instance.databases;
        let target = TargetDatabase { databases, database, itself: Arc::clone(&self.itself), options };
        let mut statistics = PullStatistics::default();
        pull_changes(&target, &self.server, source, report, &mut statistics)?;
        let elapsed = clock.monotonic().saturating_sub(began);
        let bytes = source.bytes_received();
        Ok(PulledDatabase { path: database.path(), statistics, elapsed, bytes, ..PulledDatabase::default() })
    }

    /// Brings the changes of the person to the server.
    fn push(
        &self,
        push: &mut Push,
        database: &Arc<Database>,
        (source, messages): (&mut RemoteDatabase<'_>, &mut Vec<String>),
        report: &mut ProgressCallback<'_>,
    ) -> Result<Value, AdminError> {
        let clock = &self.instance.clock;
        let began = clock.monotonic();
        let step = format!("{}: bringing changes to {}", database.path(), self.server.label());
        let mut report = |statistics: &PushStatistics| {
            let progress = Progress { step: step.clone(), done: statistics.offered, total: None, unit: Unit::Notes };
            match report(progress) {
                ControlFlow::Break(()) => Err(AdminError::Cancelled),
                ControlFlow::Continue(()) => Ok(()),
            }
        };
        let outcome = push.run(&mut PushedDatabase { database: source, report: &mut report });
        let statistics = push.statistics();
        let elapsed = clock.monotonic().saturating_sub(began);
        if !statistics.refused.is_empty() {
            messages.push(format!(
                "{} document(s) were refused. Your versions stay in the folder and are offered again by the next \
                 replication. Where the server has a later version, yours becomes a conflict document, which is not \
                 offered: copy what you need into the document.",
                statistics.refused.len()
            ));
        }
        for RefusedNote { unid, reason, .. } in statistics.refused.iter().take(REFUSED_SHOWN) {
            messages.push(format!("{}: document {unid} was refused: {reason}", database.path()));
        }
        outcome?;
        // The columns are those of a pull, seen from the server.
        Ok(record(vec![
            ("database", json!(database.path())),
            ("direction", json!("push")),
            ("listed", json!(statistics.offered)),
            ("received", json!(statistics.taken + statistics.merged + statistics.conflicts)),
            ("merged", json!(statistics.merged)),
            ("conflicts", json!(statistics.conflicts)),
            ("states", json!(statistics.state_only)),
            ("refused", json!(statistics.refused.len())),
            ("left_out", json!(statistics.left_out)),
            ("skipped", json!(statistics.skipped)),
            ("milliseconds", json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))),
        ]))
    }
}
