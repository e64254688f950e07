//! The services of one data folder, opened and connected: store, notes, directory, mail and router.
//!
//! A running server works with an [`Instance`], and so does an administration command when no server is running. It
//! holds the lock of the data folder, so there is only one at a time. All of its code is synchronous and may block.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::sync::Mutex;
use base::{Clock, Name, Random, hex};
use config::Config;
use config::setting::{BlobCodec, DamagedLog, Favor, IndexSchedule, SyncMode, TableCodec};
use config::units::ByteSize;
use directory::Directory;
use mail::mailbox::{MailOptions, MailStore};
use mail::mime::skeleton::PartSeparation;
use mail::preferences::LockedPreferences;
use mail::router::{QueueSchedule, ReportRates, Router, RouterOptions};
use mail::submission::DirectoryResolver;
use notes::view::build::BuildOptions;
use notes::{Access, Database, Databases, Identity, ServerSettings, UidRank, level};
use store::rocks::Compression;
use store::{BlobOptions, Store};

use crate::data_folder::{DataError, DataFolder, DataLock, read_limited, retry_while_held, write_private};
use crate::full_text::FullTextService;
use crate::limits::{BLOB_KEY_FILE_BYTES_MAX, OTHER_DESCRIPTORS, STORE_FILES_MIN};
use crate::memory_plan::{Machine, MemoryPlan, MemoryPlanError};
use crate::pdf::{OWN_EXECUTABLE, PdfReader};
use crate::signing::Signing;
use crate::system::{SystemClock, SystemRandom, host_name, raise_descriptor_limit, sleep};

/// Length in bytes of the key of encrypted attachments.
const BLOB_KEY_BYTES: usize = 32;

/// The services that work on one data folder.
pub struct Instance {
    /// The configuration.
    pub config: Arc<Config>,
    /// The division of the memory, which the services were opened with.
    pub memory_plan: MemoryPlan,
    /// The server's fully qualified host name.
    pub hostname: String,
    /// The system clock.
    pub clock: Arc<dyn Clock>,
    /// The system's random number generator.
    pub random: Arc<dyn Random>,
    /// The router with its queue.
    pub router: Arc<Router>,
    /// The mail files.
    pub mail: Arc<MailStore>,
    /// The last report on the stored attachments. Counting them takes too long to be done on request.
    pub blobs_counted: Mutex<Option<store::blob::BlobReport>>,
    /// The table imports that are running: the database, and the name of the progress record of the imported file.
    pub imports: Mutex<BTreeSet<(String, String)>>,
    /// The DKIM keys and the signing of messages.
    pub signing: Arc<Signing>,
    /// The directory of people, groups and domains.
    pub directory: Arc<Directory>,
    /// The databases.
    pub databases: Arc<Databases>,
    /// The full-text index.
    pub full_text: Arc<FullTextService>,
    /// The store.
    pub store: Arc<Store>,
    /// The paths of the data folder.
    pub data: DataFolder,
    /// The lock of the data folder. It is released last, after everything else is closed.
    _lock: DataLock,
}

/// The foundation of an [`Instance`]: the store and its databases. A fixup needs only this, so it can run when the
/// data of the other services is damaged.
pub struct StoreServices {
    /// The configuration.
    pub config: Arc<Config>,
    /// The division of the memory.
    memory_plan: MemoryPlan,
    /// The system clock.
    pub clock: Arc<dyn Clock>,
    /// The system's random number generator.
    pub random: Arc<dyn Random>,
    /// The databases.
    pub databases: Arc<Databases>,
    /// The store.
    pub store: Arc<Store>,
    /// The paths of the data folder.
    pub data: DataFolder,
    /// The lock of the data folder. It is released last, after everything else is closed.
    lock: DataLock,
}

/// The error returned if a data folder cannot be opened. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The memory of the configuration is not enough.
    #[error(transparent)]
    Memory(#[from] MemoryPlanError),
    /// The store cannot be opened.
    #[error("cannot open the store: {0}")]
    Store(#[from] store::Error),
    /// The directory cannot be opened.
    #[error("cannot open the directory: {0}; if it is damaged, `doublet fixup` repairs what can be derived")]
    Directory(#[from] directory::Error),
    /// The mail queue cannot be opened.
    #[error("cannot open the mail queue: {0}; if it is damaged, `doublet fixup` repairs what can be derived")]
    Mail(#[from] mail::Error),
    /// The preferences that are locked are not valid.
    #[error("http.locked_preferences: {0}")]
    LockedPreferences(String),
    /// The file of the key of encrypted attachments does not contain a valid key.
    #[error("{0} does not contain a key of {BLOB_KEY_BYTES} bytes in hexadecimal digits")]
    BlobKey(PathBuf),
    /// The file of the key of encrypted attachments is missing.
    #[error("the key of the encrypted attachments, {}, is missing; restore it from a copy: without it they cannot be read", .0.display())]
    BlobKeyMissing(PathBuf),
}

impl Instance {
    /// Opens the data folder. Creates it if it does not exist.
    pub fn open(config: Arc<Config>) -> Result<Self, InstanceError> {
        let data = DataFolder::new(&config.server.data);
        let lock = data.lock_wait(&mut sleep)?;
        Self::open_locked(config, data, lock)
    }

    /// Opens a data folder that is locked already.
    pub fn open_locked(config: Arc<Config>, data: DataFolder, lock: DataLock) -> Result<Self, InstanceError> {
        let StoreServices { config, memory_plan, clock, random, databases, store, data, lock } =
            StoreServices::open_locked(config, data, lock)?;
        remove_unfinished_copies(&databases);
        let hostname = server_name(&config);
        let options = directory_options(&config, &hostname, &memory_plan);
        let directory = Arc::new(Directory::open(&databases, options, &clock)?);
        let mail = MailStore::new(Arc::clone(&databases), mail_options(&config)?);
        let addressing = Arc::new(DirectoryResolver::new(Arc::clone(&directory)));
        let router = Router::open(Arc::clone(&mail), addressing, router_options(&config, &hostname))?;
        let signing = Signing::new(Arc::clone(&directory));
        let pdf = PdfReader::new(OWN_EXECUTABLE.into());
        let full_text =
            FullTextService::new(Arc::clone(&databases), data.full_text_folder(), pdf, &config.full_text, &memory_plan);
        Ok(Self {
            config,
            memory_plan,
            hostname,
            clock,
            random,
            router,
            mail,
            blobs_counted: Mutex::default(),
            imports: Mutex::default(),
            signing,
            directory,
            databases,
            full_text: Arc::new(full_text),
            store,
            data,
            _lock: lock,
        })
    }
}

impl StoreServices {
    /// Opens the store of a data folder, but no database in it. Creates the folder if it does not exist.
    pub fn open(config: Arc<Config>) -> Result<Self, InstanceError> {
        let data = DataFolder::new(&config.server.data);
        let lock = data.lock_wait(&mut sleep)?;
        Self::open_locked(config, data, lock)
    }

    /// Opens the store of a data folder that is locked already, but no database in it.
    fn open_locked(config: Arc<Config>, data: DataFolder, lock: DataLock) -> Result<Self, InstanceError> {
        let plan = MemoryPlan::compute(&config, Machine::current())?;
        let options = store_options(&config, &plan, &data);
        Self::open_with(config, plan, data, lock, options)
    }

    /// Opens the store for a fixup: data that may be damaged is read only on request.
    pub fn open_for_fixup(config: Arc<Config>, data: DataFolder, lock: DataLock) -> Result<Self, InstanceError> {
        let plan = MemoryPlan::compute(&config, Machine::current())?;
        let options = store::StoreOptions { quiet: true, ..store_options(&config, &plan, &data) };
        Self::open_with(config, plan, data, lock, options)
    }

    fn open_with(
        config: Arc<Config>,
        memory_plan: MemoryPlan,
        data: DataFolder,
        lock: DataLock,
        mut options: store::StoreOptions,
    ) -> Result<Self, InstanceError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let random: Arc<dyn Random> = Arc::new(SystemRandom);
        options.open_files_max = store_files_within(raise_descriptor_limit(), options.open_files_max);
        if config.blobs.encryption {
            options.blobs.encryption_key = Some(encryption_key(&config, &data, &options, random.as_ref())?);
        }
        // The store has its own lock. After a program is killed, the system may release it later than the lock of the
        // folder.
        let open = || Store::open(&data.store_folder(), &options);
        let is_held = |error: &store::Error| matches!(error, store::Error::Locked { .. });
        let store = Arc::new(retry_while_held(open, is_held, &mut sleep)?);
        let settings = ServerSettings {
            personal_index_bytes_max: config.views.personal_index.0,
            uid_rank: uid_rank(&config),
            open_databases_max: usize::try_from(config.store.open_databases).unwrap_or(usize::MAX),
        };
        let databases = Databases::open_with(Arc::clone(&store), Arc::clone(&clock), Arc::clone(&random), settings);
        Ok(Self { config, memory_plan, clock, random, databases, store, data, lock })
    }

    /// Closes the store, removes the given files from it, and opens it again.
    pub fn reopen_without_files(self, files: &[store::SortedFile]) -> Result<Self, InstanceError> {
        let Self { config, databases, store, data, lock, .. } = self;
        drop((databases, store));
        store::rocks::remove_files(&data.store_folder(), files)?;
        Self::open_for_fixup(config, data, lock)
    }
}

/// Removes what copies of databases have left that were not complete when a process ended. A failure only costs space.
fn remove_unfinished_copies(databases: &Databases) {
    match databases.remove_unfinished_copies() {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "removed copies of databases that were not complete"),
        Err(error) => tracing::warn!(%error, "cannot remove copies of databases that were not complete"),
    }
}

/// Returns the rank of the server among those that share UIDs. The ranks of the configuration begin with 1.
fn uid_rank(config: &Config) -> Option<UidRank> {
    let rank = config.imap.uid_rank.checked_sub(1)?;
    u8::try_from(rank).ok().and_then(UidRank::new)
}

/// Returns the host name with which the server identifies itself.
#[must_use]
pub fn server_name(config: &Config) -> String {
    match config.server.name.as_str() {
        "" | "auto" => host_name(),
        name => name.to_ascii_lowercase(),
    }
}

impl Instance {
    /// Returns the reason why changes are refused, or `None` if they are accepted.
    #[must_use]
    pub fn store_fault(&self) -> Option<String> {
        if let Some(reason) = self.store.committer().poison_reason() {
            return Some(reason);
        }
        let engine = self.store.engine();
        let free = engine.metrics().into_iter().find(|(name, _)| name == "disk-free-bytes")?.1;
        let reserve = self.config.store.disk_reserve.0;
        if free < reserve {
            return Some(format!(
                "the disk is full: {} MiB are free, {} MiB are kept in reserve (store.disk_reserve)",
                free >> 20,
                reserve >> 20
            ));
        }
        engine.write_refusal()
    }

    /// Returns the resources that the build of a view index may use.
    #[must_use]
    pub fn build_options(&self) -> BuildOptions {
        let keys = &self.config.views;
        let configured = keys.rebuild_folder.0.as_ref().map(|folder| self.data.resolve(folder));
        let folder = configured.unwrap_or_else(|| self.data.sort_folder());
        BuildOptions { folder, memory: self.memory_plan.view_rebuild.as_usize() }
    }

    /// Returns the mail domain of addresses that have none.
    pub fn default_domain(&self) -> Result<String, directory::Error> {
        match self.config.server.domain.as_str() {
            "" | "auto" => {
                let first = self.directory.domains(0, 1)?.entries.first().map(|domain| domain.name.clone());
                Ok(first.unwrap_or_else(|| self.hostname.clone()))
            }
            domain => Ok(domain.to_ascii_lowercase()),
        }
    }
}

/// Opens a database with the identity of the server, which may access all views.
pub fn authorize_server(database: &Arc<Database>) -> notes::Result<Access<level::Designer>> {
    database.authorize(&Arc::new(Identity::local_server("")))
}

/// Returns the options with which the store of a data folder is opened, without the key of encrypted attachments.
#[must_use]
pub fn store_options(config: &Config, plan: &MemoryPlan, data: &DataFolder) -> store::StoreOptions {
    let keys = &config.store;
    let blobs = &config.blobs;
    store::StoreOptions {
        wal_folder: keys.log_folder.0.as_ref().map(|folder| data.resolve(folder)),
        max_wal_bytes: keys.log_size_max.0.map(|size| size.0),
        restart: match keys.favor {
            Favor::Runtime => store::rocks::RestartTradeOff::FavorRuntime,
            Favor::Standard => store::rocks::RestartTradeOff::Standard,
            Favor::Restart => store::rocks::RestartTradeOff::FavorRestart,
        },
        cache_bytes: plan.store_cache.as_usize(),
        memtable_bytes: plan.write_buffer.as_usize(),
        reserve_bytes: keys.disk_reserve.0,
        document_compression: table_compression(keys.document_compression),
        index_compression: table_compression(keys.index_compression),
        read_ahead_bytes: keys.read_ahead.0.map(ByteSize::as_usize),
        open_files_max: u32::try_from(keys.open_files).unwrap_or(u32::MAX),
        sync: match keys.sync {
            SyncMode::Group => store::SyncMode::Group,
            SyncMode::Each => store::SyncMode::Each,
            SyncMode::Off => store::SyncMode::Off,
        },
        blobs: BlobOptions {
            encryption_key: None,
            codec: match blobs.codec {
                BlobCodec::Zstd => store::BlobCodec::Zstd,
                BlobCodec::Lz4 => store::BlobCodec::Lz4,
                BlobCodec::None => store::BlobCodec::None,
            },
            compression_level: i32::try_from(blobs.compression).unwrap_or(1),
            grace: blobs.grace.0,
            cache_bytes: plan.blob_cache.as_usize(),
        },
        damaged_log: match keys.damaged_log {
            DamagedLog::Refuse => store::rocks::DamagedLog::Refuse,
            DamagedLog::DropTail => store::rocks::DamagedLog::DropTail,
        },
        ..store::StoreOptions::default()
    }
}

fn table_compression(codec: TableCodec) -> Compression {
    match codec {
        TableCodec::Auto => Compression::Tiered,
        TableCodec::None => Compression::None,
        TableCodec::Lz4 => Compression::Lz4,
        TableCodec::Zstd => Compression::Zstd,
    }
}

/// Returns the number of files of tables that the storage engine may keep open, at most `wanted`, within a limit of
/// file descriptors. Otherwise a command that runs without a server would fail where the limit is low.
fn store_files_within(limit: u64, wanted: u32) -> u32 {
    let most = limit.saturating_sub(OTHER_DESCRIPTORS).max(STORE_FILES_MIN);
    wanted.min(u32::try_from(most).unwrap_or(u32::MAX))
}

/// Reads the key of encrypted attachments, and creates it if the store contains no encrypted content yet. Otherwise a
/// missing key is an error: a new key could not decrypt existing content, and would hide that the old key is lost.
fn encryption_key(
    config: &Config,
    data: &DataFolder,
    options: &store::StoreOptions,
    random: &dyn Random,
) -> Result<[u8; BLOB_KEY_BYTES], InstanceError> {
    let path = blob_key_path(config, data);
    if !path.exists() {
        match Store::open(&data.store_folder(), options) {
            Err(store::Error::AttachmentKey(_)) => return Err(InstanceError::BlobKeyMissing(path)),
            unencrypted => drop(unencrypted?),
        }
        create_blob_key(&path, random)?;
    }
    read_blob_key(&path)
}

/// Returns the path of the key of encrypted attachments.
#[must_use]
pub fn blob_key_path(config: &Config, data: &DataFolder) -> PathBuf {
    config.blobs.key_file.0.as_ref().map_or_else(|| data.blob_key_file(), |path| data.resolve(path))
}

fn create_blob_key(path: &Path, random: &dyn Random) -> Result<(), InstanceError> {
    let mut key = [0; BLOB_KEY_BYTES];
    random.fill(&mut key);
    write_private(path, format!("{}\n", hex::lower(&key)).as_bytes())?;
    tracing::warn!(file = %path.display(), "created the key of encrypted attachments; keep a copy of it elsewhere");
    Ok(())
}

fn read_blob_key(path: &Path) -> Result<[u8; BLOB_KEY_BYTES], InstanceError> {
    let text = read_limited(path, BLOB_KEY_FILE_BYTES_MAX)?;
    parse_blob_key(&text).ok_or_else(|| InstanceError::BlobKey(path.to_owned()))
}

/// Parses the content of the file of the key of encrypted attachments. Returns `None` if it is not a key.
#[must_use]
pub fn parse_blob_key(content: &[u8]) -> Option<[u8; BLOB_KEY_BYTES]> {
    hex::parse_array(str::from_utf8(content).ok()?.trim())
}

fn directory_options(config: &Config, hostname: &str, plan: &MemoryPlan) -> directory::DirectoryOptions {
    let keys = &config.directory;
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let name = Name::new(&format!("CN={hostname}/O={}", config.server.organization));
    let mut options = directory::DirectoryOptions::new(name);
    options.cache_bytes = plan.name_cache.0;
    options.passwords.memory_kib = number(keys.password_memory.0 / 1_024);
    options.passwords.passes = number(keys.password_rounds);
    options.passwords.characters_min = usize::try_from(keys.password_length).unwrap_or(usize::MAX);
    if !keys.scram {
        options.passwords.scram_iterations = None;
    }
    options.throttle.account.failures_free = number(keys.login_failures);
    options.throttle.account.delay_max = keys.login_wait.0;
    options.throttle.address.failures_free = number(keys.login_failures_per_address);
    options.throttle.address.delay_max = keys.login_wait.0;
    options
}

fn mail_options(config: &Config) -> Result<MailOptions, InstanceError> {
    let locked_preferences = LockedPreferences::parse(&config.http.locked_preferences);
    Ok(MailOptions {
        locked_preferences: locked_preferences.map_err(InstanceError::LockedPreferences)?,
        cached_profiles: usize::try_from(config.http.profile_cache).unwrap_or(usize::MAX),
        separation: PartSeparation { bytes_min: config.blobs.threshold.as_usize(), decodes: config.blobs.decode },
        message_bytes_max: config.limits.message_size.0,
        full_text: match config.full_text.new_mail_files {
            IndexSchedule::Off => notes::FullTextSchedule::Off,
            IndexSchedule::Immediate => notes::FullTextSchedule::Immediate,
            IndexSchedule::Hourly => notes::FullTextSchedule::Hourly,
            IndexSchedule::Daily => {
                notes::FullTextSchedule::Daily(u8::try_from(config.full_text.daily_hour).unwrap_or(0))
            }
        },
    })
}

fn router_options(config: &Config, hostname: &str) -> RouterOptions {
    let keys = &config.router;
    let never = std::time::Duration::MAX;
    RouterOptions {
        server: hostname.to_owned(),
        mailboxes: u16::try_from(keys.mailboxes).unwrap_or(1),
        schedule: QueueSchedule {
            retry_first: keys.retry_first.0,
            retry_max: keys.retry_max.0,
            warn_after: if keys.delay_warning.0.is_zero() { never } else { keys.delay_warning.0 },
            expire_after: keys.expiry.0,
        },
        queue_messages_max: usize::try_from(keys.queue).unwrap_or(usize::MAX),
        transfers_per_destination_max: usize::try_from(keys.connections_per_destination).unwrap_or(usize::MAX),
        transfers_max: usize::try_from(keys.connections).unwrap_or(usize::MAX),
        smart_host: keys.smart_host.0.is_some(),
        report_rates: ReportRates { all: keys.reports_per_sender, success: keys.success_reports_per_sender },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{ConfigSources, load};

    fn config(folder: &Path, assignments: &[&str]) -> Arc<Config> {
        let overrides = assignments.iter().map(|text| (*text).to_owned()).collect();
        Arc::new(
            load(&ConfigSources { data: Some(folder.to_owned()), overrides, ..ConfigSources::default() })
                .expect("it is valid"),
        )
    }

    #[test]
    fn data_folder_reopens_and_is_locked_while_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(folder.path(), &["server.name=Mail.Acme.Test", "store.log_folder=log"]);
        let instance = Instance::open(Arc::clone(&config)).expect("it is made");
        assert_eq!(instance.hostname, "mail.acme.test");
        assert!(matches!(DataFolder::new(&config.server.data).lock(), Err(DataError::InUse { .. })));
        instance.directory.domain_add("acme.test", &[]).expect("it is new");
        drop(instance);
        let instance = Instance::open(config).expect("the data folder exists");
        assert!(instance.directory.domain_is_local("acme.test").expect("a lookup"));
        assert!(folder.path().join("log").is_dir());
    }

    #[test]
    fn store_keeps_few_files_open_within_a_low_limit() {
        for (limit, wanted, expected) in
            [(u64::MAX, 512, 512), (1_024, 512, 512), (256, 512, 128), (256, 64, 64), (100, 512, 48), (0, 512, 48)]
        {
            assert_eq!(store_files_within(limit, wanted), expected, "{limit}");
        }
    }

    #[test]
    fn invalid_attachment_key_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys/blobs.key");
        create_blob_key(&path, &SystemRandom).expect("it is made");
        assert!(read_blob_key(&path).is_ok());
        for broken in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            std::fs::write(&path, broken).expect("it can be written");
            assert!(matches!(read_blob_key(&path), Err(InstanceError::BlobKey(_))), "{broken:?}");
        }
    }

    #[test]
    fn attachment_key_is_created_only_without_encrypted_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let plain = config(folder.path(), &["server.name=a.test"]);
        let encrypted = config(folder.path(), &["server.name=a.test", "blobs.encryption=true"]);
        let path = folder.path().join("keys/blobs.key");
        drop(Instance::open(Arc::clone(&plain)).expect("a new store without a key"));
        assert!(!path.exists());
        drop(Instance::open(Arc::clone(&encrypted)).expect("encryption is switched on"));
        let key = std::fs::read(&path).expect("it was made");
        drop(Instance::open(Arc::clone(&encrypted)).expect("the key exists"));
        assert_eq!(std::fs::read(&path).expect("the key exists"), key, "the key is created once");
        std::fs::remove_file(&path).expect("lost");
        for _ in 0..2 {
            let error = Instance::open(Arc::clone(&encrypted)).err().expect("the key is missing");
            assert!(matches!(error, InstanceError::BlobKeyMissing(_)), "{error}");
            assert!(!path.exists(), "no new key is created");
        }
        let error = Instance::open(plain).err().expect("encryption cannot be switched off");
        assert!(matches!(error, InstanceError::Store(store::Error::AttachmentKey(_))), "{error}");
        std::fs::write(&path, key).expect("brought back");
        drop(Instance::open(encrypted).expect("nothing was lost"));
    }
}
