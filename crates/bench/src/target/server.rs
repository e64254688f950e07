//! A server that the driver starts on a folder of its own, and ends.
//!
//! It listens on loopback only, on ports that it chooses. Only the native protocol, `/metrics` and the protocols of
//! the door are served, and no mail leaves the machine. Passwords are hashed in the cheapest way: hashing is not what is measured. The process
//! has a group of its own, so that Ctrl-C at the terminal reaches only the driver, which ends it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::iter;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, SystemTime};

use client::Trust;
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::by_server::ServerShare;
use super::cores::CoreHalves;
use super::system_random::SystemRandom;
use super::{Protocol, Target, TargetError, USERS_DEFAULT};
use crate::population::people::{Person, UserNames};
use crate::workload::Door;

/// The longest time until a server is ready.
const READY_TIME_MAX: Duration = Duration::from_secs(120);
/// The longest time until a server has ended.
const END_TIME_MAX: Duration = Duration::from_secs(60);
/// The time between two looks at a server that starts or ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of the end of the log that an error repeats.
const LOG_BYTES_MAX: usize = 2_000;

/// Settings of every server that the driver starts. Those of the command line follow, and win.
const SETTINGS: &[&str] = &[
    "native.database_creators=mail1@bench.test",
    "listen.native=127.0.0.1:0",
    "listen.admin=127.0.0.1:0",
    "listen.smtp=off",
    "listen.submission=off",
    "listen.imap=off",
    "listen.pop3=off",
    "listen.http=off",
    "directory.password_memory=8KiB",
    "directory.password_rounds=1",
];

/// Settings of the only server of a run: no mail leaves it.
const ALONE: &[&str] = &["router.outbound=false"];

/// Settings of each of several servers: mail goes to the others of the domain. All other mail would go to a port at
/// which nothing listens, so none leaves the machine.
const IN_DOMAIN: &[&str] = &["router.outbound=true", "router.smart_host=127.0.0.1:1"];

/// The listeners with TLS, by the protocols for which they are. Others than those of the door are off.
const LISTENERS: &[(&str, &[Protocol])] = &[
    ("imap_tls", &[Protocol::Imap]),
    ("submission_tls", &[Protocol::Submission]),
    ("pop3_tls", &[Protocol::Pop3]),
    ("https", &[Protocol::Jmap, Protocol::Lite]),
];

/// Returns the protocols of a door, besides the native protocol and LMTP.
fn protocols(door: Door) -> &'static [Protocol] {
    match door {
        Door::Native => &[],
        Door::Imap => &[Protocol::Imap, Protocol::Submission],
        Door::Pop3 => &[Protocol::Pop3, Protocol::Submission],
        Door::Jmap => &[Protocol::Jmap],
        // Mail files are filled over JMAP.
        Door::Lite | Door::Full => &[Protocol::Lite, Protocol::Jmap],
    }
}

/// Returns `true` if the users of a door get messages over LMTP: those of the filling, and those with drawn senders.
fn has_lmtp(door: Door) -> bool {
    matches!(door, Door::Imap | Door::Pop3)
}

/// The files and folders that are made in the folder of a server.
pub const FILES: &[&str] = &["data", "server.log", "people.csv", "copy.log", "lmtp.sock", "command.out", "command.log"];

/// What is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The program of the server.
    pub program: PathBuf,
    /// A folder for the data and the log, which does not exist yet, or one that was kept.
    pub folder: PathBuf,
    /// The seed from which the names of the users follow.
    pub seed: u64,
    /// Settings as `KEY=VALUE`.
    pub settings: Vec<String>,
    /// The users of the run. Those of this server are created.
    pub users: u64,
    /// The persons of the directory: the users, and after them persons who cannot log in and have no mail file.
    pub people: u64,
    /// The door of the workload.
    pub door: Door,
    /// The cores of the server, if they are not those of the driver.
    pub cores: Option<CoreHalves>,
    /// Which server of the run this is.
    pub share: ServerShare,
}

/// A server that the driver has started. It is killed when this is dropped.
#[derive(Debug)]
pub struct StartedServer {
    options: ServerOptions,
    /// The process. It ends with [`StartedServer::stop`], or when it is dropped.
    child: Child,
}

impl StartedServer {
    /// Creates the folder and the users, starts the server, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If the folder exists or cannot be created, if a command of the program fails, or if the server is not ready in
    /// time. The folder is then deleted, unless it existed before, and so it is if this is dropped before it is ready.
    pub async fn start(options: ServerOptions) -> Result<(Self, Target), TargetError> {
        let failed = |source| TargetError::of_file(options.folder.display(), source);
        let folder = CreatedFolder::create(&options.folder).map_err(failed)?;
        let started = Self::start_in_folder(options).await?;
        folder.keep();
        Ok(started)
    }

    async fn start_in_folder(options: ServerOptions) -> Result<(Self, Target), TargetError> {
        let names = UserNames::parse(USERS_DEFAULT).expect("the default is a pattern");
        let random = SystemRandom::open().map_err(|source| TargetError::of_file("/dev/urandom", source))?;
        let password = random.password();
        options.run(&["domain", "add", names.domain()]).await?;
        options.create_people(&names, &password).await?;
        Self::serve(options, names, password).await
    }

    /// Registers another server of the domain with this one, whose target is `first`, and starts it on a folder of its
    /// own with its users. They have the password of the users of this server.
    ///
    /// # Errors
    ///
    /// As those of [`StartedServer::start`].
    pub async fn start_another(&self, first: &Target, options: ServerOptions) -> Result<(Self, Target), TargetError> {
        let failed = |source| TargetError::of_file(options.folder.display(), source);
        let folder = CreatedFolder::create(&options.folder).map_err(failed)?;
        self.let_join(first, &options).await?;
        options.create_people(&first.names, &first.password).await?;
        let started = Self::serve(options, first.names.clone(), first.password.clone()).await?;
        folder.keep();
        Ok(started)
    }

    /// Makes a server that has not been started a member of the domain of this one.
    async fn let_join(&self, first: &Target, other: &ServerOptions) -> Result<(), TargetError> {
        let path = other.folder.join("join.pem");
        let file = path.display().to_string();
        let address = first.address(Protocol::Native)?;
        self.run(&["server", "register", &other.host(), "--own-address", address, "--output", &file]).await?;
        other.run(&["server", "join", &file]).await?;
        // It has the private key of the other server.
        fs::remove_file(&path).map_err(|source| TargetError::of_file(file, source))
    }

    /// Starts the server on a folder that an earlier run has left, and waits until it is ready.
    ///
    /// # Errors
    ///
    /// If the folder does not have the users, or if the server is not ready in time. The folder is left as it is.
    pub async fn resume(options: ServerOptions) -> Result<(Self, Target), TargetError> {
        let names = UserNames::parse(USERS_DEFAULT).expect("the default is a pattern");
        let password = options.read_people(&names)?;
        Self::serve(options, names, password).await
    }

    async fn serve(options: ServerOptions, names: UserNames, password: String) -> Result<(Self, Target), TargetError> {
        let before = listeners_written(&options);
        let log =
            File::create(options.log()).map_err(|source| TargetError::of_file(options.log().display(), source))?;
        let mut command = options.command(&["serve"]);
        command.stdout(Stdio::null()).stderr(log);
        let spawned = match &options.cores {
            Some(cores) => cores.start_server(|| command.spawn()).flatten(),
            None => command.spawn(),
        };
        let child = spawned.map_err(|error| options.failed("serve", &error.to_string()))?;
        let mut server = Self { options, child };
        let listeners = server.wait_until_ready(before).await?;
        let addresses = server.options.addresses(&listeners)?;
        let trust = server.trust()?;
        let processes = vec![server.child.id()];
        let metrics = listeners.get("admin").cloned();
        let data_folder = std::path::absolute(server.options.data()).ok();
        Ok((
            server,
            Target { addresses, trust, names, password, metrics, queue_folders: Vec::new(), processes, data_folder },
        ))
    }

    /// Returns the name of the server.
    pub fn host(&self) -> String {
        self.options.host()
    }

    /// Returns the certificate that the server has now.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn trust(&self) -> Result<Trust, TargetError> {
        let certificate = self.options.data().join("tls/certificate.pem");
        let pem = fs::read(&certificate).map_err(|source| TargetError::of_file(certificate.display(), source))?;
        Ok(Trust::pinned(&pem)?)
    }

    /// Runs a command of the program on the data of the server, and returns its output.
    ///
    /// # Errors
    ///
    /// If the command fails.
    pub async fn run(&self, words: &[&str]) -> Result<String, TargetError> {
        self.options.run(words).await
    }

    /// Returns the effective configuration, as the program prints it.
    ///
    /// # Errors
    ///
    /// If the program fails.
    pub async fn configuration(&self) -> Result<String, TargetError> {
        self.options.run(&["config", "show"]).await
    }

    /// Copies a mail file to the mail files of other users, with the command of the program and while the server runs.
    ///
    /// # Errors
    ///
    /// If the command fails. Its output is the end of `copy.log`.
    pub async fn copy_database(&self, source: &str, copies: &[String]) -> Result<(), TargetError> {
        let path = self.options.folder.join("copy.log");
        let log = File::create(&path).map_err(|source| TargetError::of_file(path.display(), source))?;
        let mut command = self.options.command(&["db", "copy", source]);
        command.args(copies).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| self.options.failed("db copy", &error.to_string()))?;
        let ended = RunningCommand(child).ended().await;
        let status = ended.map_err(|error| self.options.failed("db copy", &error.to_string()))?;
        if status.success() { Ok(()) } else { Err(self.options.failed("db copy", &log_end(&path))) }
    }

    /// Returns `true` if the process has ended.
    pub fn is_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the server. One that does not end in time is killed when this is dropped.
    pub async fn stop(mut self) {
        if let Some(process) = Pid::from_raw(self.child.id().cast_signed()) {
            // An error means that it has ended already.
            let _ = kill_process(process, Signal::TERM);
        }
        let deadline = Instant::now() + END_TIME_MAX;
        while !self.is_ended() && Instant::now() < deadline {
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Returns the addresses of the listeners.
    /// `before` is when an earlier server in the folder has written its addresses.
    async fn wait_until_ready(&mut self, before: Option<SystemTime>) -> Result<BTreeMap<String, String>, TargetError> {
        let deadline = Instant::now() + READY_TIME_MAX;
        let file = self.options.data().join("listeners.json");
        loop {
            if self.is_ended() {
                let end = log_end(&self.options.log());
                return Err(self.options.failed("serve", &format!("the server ended at once: {end}")));
            }
            let is_written = listeners_written(&self.options) != before;
            let text = if is_written { fs::read_to_string(&file).ok() } else { None };
            let listeners = text.and_then(|text| parse_listeners(&text));
            if let Some(listeners) = listeners {
                return Ok(listeners);
            }
            if Instant::now() >= deadline {
                return Err(self.options.failed("serve", "the server was not ready within two minutes"));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

impl Drop for StartedServer {
    fn drop(&mut self) {
        if !self.is_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A folder that this process has created. It is deleted when this is dropped, unless it is kept.
pub(super) struct CreatedFolder {
    path: PathBuf,
    is_kept: bool,
}

impl CreatedFolder {
    /// Creates a folder that does not exist yet.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(false).mode(0o700).create(path)?;
        Ok(Self { path: path.to_owned(), is_kept: false })
    }

    /// Leaves the folder.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for CreatedFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // What has ended the start is more important than an error of deleting.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A command that is killed when this is dropped.
struct RunningCommand(Child);

impl RunningCommand {
    /// Waits until the command has ended.
    async fn ended(mut self) -> io::Result<ExitStatus> {
        loop {
            match self.0.try_wait()? {
                Some(status) => return Ok(status),
                None => sleep(LOOK_INTERVAL).await,
            }
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Returns the end of a log.
fn log_end(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let end = &bytes[bytes.len().saturating_sub(LOG_BYTES_MAX)..];
    String::from_utf8_lossy(end).into_owned()
}

impl ServerOptions {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Returns the name of the server.
    fn host(&self) -> String {
        match self.share.number() {
            1 => "mx.bench.test".to_owned(),
            number => format!("mx{number}.bench.test"),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--data").arg(self.data());
        let own = SETTINGS.iter().chain(if self.share.is_alone() { ALONE } else { IN_DOMAIN });
        let own = own.map(|setting| (*setting).to_owned()).chain([format!("server.name={}", self.host())]);
        for setting in own.chain(self.listeners()).chain(self.settings.iter().cloned()) {
            command.args(["--set", &setting]);
        }
        command.args(words).stdin(Stdio::null()).process_group(0);
        command
    }

    /// Returns the settings of the listeners that depend on the door.
    fn listeners(&self) -> Vec<String> {
        let wanted = protocols(self.door);
        let mut settings: Vec<String> = LISTENERS
            .iter()
            .map(|(name, protocols)| {
                let is_wanted = protocols.iter().any(|protocol| wanted.contains(protocol));
                format!("listen.{name}={}", if is_wanted { "127.0.0.1:0" } else { "off" })
            })
            .collect();
        if has_lmtp(self.door) {
            settings.push(format!("listen.lmtp={}", self.lmtp_socket().display()));
        }
        settings
    }

    /// Returns the socket for LMTP.
    fn lmtp_socket(&self) -> PathBuf {
        self.folder.join("lmtp.sock")
    }

    /// Returns the addresses of the protocols, from those of the listeners.
    fn addresses(&self, listeners: &BTreeMap<String, String>) -> Result<BTreeMap<Protocol, String>, TargetError> {
        let missing = |name: &str| self.failed("serve", &format!("it has no listener {name}"));
        let address = |name: &str| listeners.get(name).cloned().ok_or_else(|| missing(name));
        let mut addresses = BTreeMap::from([(Protocol::Native, address("native")?)]);
        for protocol in protocols(self.door) {
            for (name, _) in LISTENERS.iter().filter(|(_, protocols)| protocols.contains(protocol)) {
                addresses.insert(*protocol, address(name)?);
            }
        }
        if has_lmtp(self.door) {
            addresses.insert(Protocol::Lmtp, self.lmtp_socket().display().to_string());
        }
        Ok(addresses)
    }

    fn failed(&self, command: &str, reason: &str) -> TargetError {
        let command = format!("{} {command}", self.program.display());
        TargetError::Program { command, reason: reason.trim().to_owned() }
    }

    /// Runs a command of the program, and returns its output. The command ends if the future is dropped.
    async fn run(&self, words: &[&str]) -> Result<String, TargetError> {
        let name = words.join(" ");
        let failed = |error: io::Error| self.failed(&name, &error.to_string());
        let [output, log] = ["command.out", "command.log"].map(|name| self.folder.join(name));
        let mut command = self.command(words);
        command.stdout(File::create(&output).map_err(failed)?).stderr(File::create(&log).map_err(failed)?);
        let status = RunningCommand(command.spawn().map_err(failed)?).ended().await.map_err(failed)?;
        let text = fs::read(&output).map_err(failed)?;
        if !status.success() {
            let text = [text, fs::read(&log).map_err(failed)?].concat();
            return Err(self.failed(&name, &String::from_utf8_lossy(&text)));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the file with the users and their password.
    fn people(&self) -> PathBuf {
        self.folder.join("people.csv")
    }

    /// Reads the password of the users whom an earlier run has added.
    fn read_people(&self, names: &UserNames) -> Result<String, TargetError> {
        let file = self.people();
        let failed = |source| TargetError::of_file(file.display(), source);
        let lines = BufReader::new(File::open(&file).map_err(failed)?).lines();
        let last = names.address(self.share.users(self.users).last().unwrap_or(self.users));
        let reason = || format!("it does not have the user {last}");
        password_of(lines, &last)
            .map_err(failed)?
            .ok_or_else(|| TargetError::Contents { file: file.display().to_string(), reason: reason() })
    }

    /// Adds the people of this server. The file with the password of the users can be read by its owner only.
    async fn create_people(&self, names: &UserNames, password: &str) -> Result<(), TargetError> {
        let file = self.people();
        let failed = |source| TargetError::of_file(file.display(), source);
        write_private(&file, self.people_table(names, password)).map_err(failed)?;
        self.run(&["user", "add", "--batch", &file.display().to_string()]).await?;
        Ok(())
    }

    /// Returns the lines of the file of the people, which `user add` reads. No name has a comma, and only users have a
    /// password.
    fn people_table(&self, names: &UserNames, password: &str) -> impl Iterator<Item = String> {
        let line = move |number| {
            let person = Person::new(self.seed, number);
            let password = if number <= self.users { password } else { "" };
            format!("{},{},{password}\n", names.address(number), person.name)
        };
        let last = self.users.max(self.people);
        iter::once("address,name,password\n".to_owned()).chain(self.share.users(last).map(line))
    }
}

/// Returns the password of a table of people, if the table has a user.
fn password_of(lines: impl Iterator<Item = io::Result<String>>, address: &str) -> io::Result<Option<String>> {
    for line in lines {
        let line = line?;
        let of_user = line.strip_prefix(address).and_then(|rest| rest.strip_prefix(','));
        if let Some((_, password)) = of_user.and_then(|rest| rest.split_once(',')) {
            return Ok(Some(password.to_owned()));
        }
    }
    Ok(None)
}

/// Returns when the addresses of the listeners were written, if they were.
fn listeners_written(options: &ServerOptions) -> Option<SystemTime> {
    fs::metadata(options.data().join("listeners.json")).and_then(|file| file.modified()).ok()
}

fn write_private(path: &Path, lines: impl Iterator<Item = String>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut file = BufWriter::new(file);
    for line in lines {
        file.write_all(line.as_bytes())?;
    }
    file.flush()
}

/// Reads the addresses of the listeners: a text, or a list of texts of which the first one counts.
fn parse_listeners(text: &str) -> Option<BTreeMap<String, String>> {
    let listeners: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let first = |value: serde_json::Value| match value {
        serde_json::Value::String(address) => Some(address),
        serde_json::Value::Array(addresses) => addresses.first()?.as_str().map(str::to_owned),
        _ => None,
    };
    let listeners = listeners.into_iter().filter_map(|(name, value)| Some((name, first(value)?)));
    let listeners: BTreeMap<_, _> = listeners.collect();
    (!listeners.is_empty()).then_some(listeners)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn listeners_are_texts_or_lists() {
        let listeners = parse_listeners(r#"{"native": "127.0.0.1:5", "admin": ["127.0.0.1:6", "[::1]:6"], "x": 1}"#);
        let listeners = listeners.expect("two");
        assert_eq!(listeners.get("native").map(String::as_str), Some("127.0.0.1:5"));
        assert_eq!(listeners.get("admin").map(String::as_str), Some("127.0.0.1:6"));
        assert_eq!(listeners.len(), 2);
        assert_eq!(parse_listeners("{}"), None);
        assert_eq!(parse_listeners("{\"native\": \"127"), None, "the file is being written");
    }

    fn options(folder: &Path, door: Door) -> ServerOptions {
        ServerOptions {
            program: PathBuf::new(),
            folder: folder.to_owned(),
            settings: Vec::new(),
            users: 2,
            people: 3,
            seed: 1,
            door,
            cores: None,
            share: ServerShare::ALONE,
        }
    }

    #[test]
    fn a_server_listens_for_the_protocols_of_the_door() {
        let check = |door, on: &[&str], protocols: &[Protocol]| {
            let options = options(Path::new("/run"), door);
            let settings = options.listeners();
            let is_on = |(name, _): &&(&str, &[Protocol])| settings.contains(&format!("listen.{name}=127.0.0.1:0"));
            assert_eq!(LISTENERS.iter().filter(is_on).map(|(name, _)| *name).collect::<Vec<_>>(), on);
            let names = LISTENERS.iter().map(|(name, _)| *name).chain(["native"]);
            let listeners = names.map(|name| (name.to_owned(), format!("{name}:1"))).collect();
            let addresses = options.addresses(&listeners).expect("all listeners");
            assert_eq!(addresses.into_keys().collect::<Vec<_>>(), protocols);
            assert_eq!(
                settings.contains(&"listen.lmtp=/run/lmtp.sock".to_owned()),
                protocols.contains(&Protocol::Lmtp)
            );
        };
        let [imap, pop3] = [Protocol::Imap, Protocol::Pop3];
        check(Door::Native, &[], &[Protocol::Native]);
        check(
            Door::Imap,
            &["imap_tls", "submission_tls"],
            &[Protocol::Native, imap, Protocol::Lmtp, Protocol::Submission],
        );
        check(
            Door::Pop3,
            &["submission_tls", "pop3_tls"],
            &[Protocol::Native, Protocol::Lmtp, Protocol::Submission, pop3],
        );
        check(Door::Jmap, &["https"], &[Protocol::Native, Protocol::Jmap]);
    }

    #[test]
    fn only_servers_of_a_domain_send_mail_to_others() {
        let check = |share: ServerShare, expected: &[&str]| {
            let options = ServerOptions { share, ..options(Path::new("/run"), Door::Native) };
            let words: Vec<_> = options.command(&["serve"]).get_args().map(|word| word.to_owned()).collect();
            let settings = words.iter().filter_map(|word| word.to_str());
            let found = settings.filter(|word| word.starts_with("router.") || word.starts_with("server.name"));
            assert_eq!(found.collect::<Vec<_>>(), expected);
        };
        check(ServerShare::ALONE, &["router.outbound=false", "server.name=mx.bench.test"]);
        let names = ["server.name=mx.bench.test", "server.name=mx2.bench.test"];
        for (share, name) in ServerShare::all(2).zip(names) {
            check(share, &["router.outbound=true", "router.smart_host=127.0.0.1:1", name]);
        }
    }

    #[test]
    fn a_server_has_the_people_of_its_share() {
        let folder = tempfile::tempdir().expect("a folder");
        let names = UserNames::parse(USERS_DEFAULT).expect("a pattern");
        let of_share = |share| ServerOptions { share, users: 3, people: 4, ..options(folder.path(), Door::Native) };
        let [first, second] = ServerShare::all(2).map(of_share).collect::<Vec<_>>().try_into().expect("two");
        let addresses = |options: &ServerOptions| -> Vec<String> {
            let table: String = options.people_table(&names, "secret").collect();
            table.lines().skip(1).filter_map(|line| Some(line.split_once(',')?.0.to_owned())).collect()
        };
        assert_eq!(addresses(&first), ["mail1@bench.test", "mail3@bench.test"]);
        assert_eq!(addresses(&second), ["mail2@bench.test", "mail4@bench.test"]);
        fs::write(second.people(), second.people_table(&names, "secret").collect::<String>())
            .expect("the file can be written");
        assert_eq!(second.read_people(&names).expect("its user"), "secret");
        let missing = first.read_people(&names).expect_err("the file has the users of the second server").to_string();
        assert!(missing.ends_with("it does not have the user mail3@bench.test"), "{missing}");
    }

    #[test]
    fn passwords_are_in_a_file_of_the_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("people.csv");
        let names = UserNames::parse(USERS_DEFAULT).expect("a pattern");
        let options = options(folder.path(), Door::Native);
        let table: String = options.people_table(&names, "secret").collect();
        let [first, second, third] = [1, 2, 3].map(|number| Person::new(1, number).name);
        let users = format!("mail1@bench.test,{first},secret\nmail2@bench.test,{second},secret\n");
        let expected = format!("{users}mail3@bench.test,{third},\n");
        assert_eq!(table, format!("address,name,password\n{expected}"));
        let lines = || options.people_table(&names, "secret");
        write_private(&path, lines()).expect("the file can be written");
        assert_eq!(fs::read_to_string(&path).expect("the file"), table);
        let mode = fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let password = |address| password_of(lines().map(|line| Ok(line.trim_end().to_owned())), address);
        assert_eq!(password("mail2@bench.test").expect("lines").as_deref(), Some("secret"));
        assert_eq!(password("mail4@bench.test").expect("lines"), None);
        assert!(write_private(&path, lines()).is_err(), "an existing file is not used");
    }

    #[tokio::test]
    async fn a_program_that_fails_is_reported_with_its_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(&folder.path().join("run"), Door::Native);
        let options = ServerOptions { program: PathBuf::from("/bin/false"), users: 1, ..options };
        let error = StartedServer::start(options.clone()).await.expect_err("it fails").to_string();
        assert!(error.starts_with("/bin/false domain add bench.test:"), "{error}");
        assert!(!options.folder.exists(), "the folder is deleted");
        let missing = ServerOptions { program: folder.path().join("none"), ..options };
        assert!(
            StartedServer::start(missing.clone()).await.expect_err("it fails").to_string().contains("No such file")
        );
        fs::create_dir(&missing.folder).expect("a folder");
        let foreign = missing.folder.clone();
        assert!(StartedServer::start(missing).await.expect_err("it exists").to_string().contains("File exists"));
        assert!(foreign.exists(), "a folder that was there before is not deleted");
    }

    /// `true` succeeds with all commands and serves nothing: the start waits, or sees that the process has ended.
    #[tokio::test]
    async fn a_start_that_is_dropped_leaves_no_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        let options = ServerOptions {
            program: PathBuf::from("/bin/true"),
            folder: path.clone(),
            settings: Vec::new(),
            users: 1,
            people: 1,
            seed: 1,
            door: Door::Native,
            cores: None,
            share: ServerShare::ALONE,
        };
        tokio::select! {
            biased;
            started = StartedServer::start(options) => assert!(started.is_err(), "it serves nothing"),
            () = std::future::ready(()) => {}
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_is_deleted_only_by_what_has_created_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run");
        drop(CreatedFolder::create(&path).expect("it does not exist"));
        assert!(!path.exists());
        CreatedFolder::create(&path).expect("it does not exist").keep();
        assert!(path.exists());
        assert!(CreatedFolder::create(&path).is_err() && path.exists(), "it is that of another run");
    }
}
