//! The file of `--target`: the server that runs already.
//!
//! It is TOML, at most 64 KiB, with the addresses by protocol, the pattern of the users' addresses, the file with their
//! password (its first line), the certificate, and optionally the address of `/metrics` and the processes. Relative
//! paths are resolved beside the file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use client::Trust;
use serde::Deserialize;
use serde_json::json;

use super::{Protocol, Target, TargetError, USERS_DEFAULT, is_loopback};
use crate::population::people::UserNames;

/// Maximum size of the file, of a certificate, and of the file with the password.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The keys of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    native: Option<String>,
    imap: Option<String>,
    smtp: Option<String>,
    lmtp: Option<String>,
    submission: Option<String>,
    pop3: Option<String>,
    jmap: Option<String>,
    lite: Option<String>,
    users: Option<String>,
    password_file: PathBuf,
    certificate: PathBuf,
    metrics: Option<String>,
    #[serde(default)]
    queue_folders: Vec<PathBuf>,
    #[serde(default)]
    processes: Vec<u32>,
    data_folder: Option<PathBuf>,
}

impl TargetFile {
    /// Returns the addresses by protocol.
    fn addresses(&self) -> BTreeMap<Protocol, String> {
        let addresses = [
            (Protocol::Native, &self.native),
            (Protocol::Imap, &self.imap),
            (Protocol::Smtp, &self.smtp),
            (Protocol::Lmtp, &self.lmtp),
            (Protocol::Submission, &self.submission),
            (Protocol::Pop3, &self.pop3),
            (Protocol::Jmap, &self.jmap),
            (Protocol::Lite, &self.lite),
        ];
        addresses.into_iter().filter_map(|(protocol, address)| Some((protocol, address.clone()?))).collect()
    }
}

/// Returns `true` if an address is the path of a local socket.
fn is_local_socket(address: &str) -> bool {
    address.starts_with('/')
}

/// Whether servers on other machines are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteHosts {
    /// They are refused.
    Refused,
    /// They are loaded.
    Loaded,
}

/// Reads the file.
///
/// # Errors
///
/// If it or a file that it names cannot be read or used, or if the server is on another machine.
pub fn load(path: &Path, remote: RemoteHosts) -> Result<Target, TargetError> {
    let refused = |reason: &str| TargetError::Contents { file: path.display().to_string(), reason: reason.to_owned() };
    let text = read_text(path)?;
    let file: TargetFile = toml::from_str(&text).map_err(|error| refused(&error.to_string()))?;
    let addresses = file.addresses();
    if addresses.is_empty() {
        return Err(refused("there is no address: native, imap, smtp, lmtp, submission, pop3, jmap or lite"));
    }
    for address in addresses.values().chain(&file.metrics) {
        if remote == RemoteHosts::Refused && !is_local_socket(address) && !is_loopback(address) {
            return Err(TargetError::Remote(address.clone()));
        }
    }
    let users = file.users.as_deref().unwrap_or(USERS_DEFAULT);
    let names = UserNames::parse(users).ok_or_else(|| refused("users is not a pattern such as mail{}@bench.test"))?;
    let beside = |name: &Path| path.parent().unwrap_or(Path::new("")).join(name);
    let password = read_text(&beside(&file.password_file))?;
    let password = password.lines().next().unwrap_or_default().to_owned();
    if password.is_empty() {
        return Err(refused("the first line of password_file is empty"));
    }
    let trust = Trust::pinned(read_text(&beside(&file.certificate))?.as_bytes())?;
    let queue_folders = file.queue_folders.iter().map(|folder| beside(folder)).collect();
    let TargetFile { metrics, processes, data_folder, .. } = file;
    Ok(Target { addresses, trust, names, password, metrics, queue_folders, processes, data_folder })
}

/// Describes a target in the form of the file, without its password and its certificate.
pub fn describe(target: &Target) -> String {
    // Strings and lists of numbers are written alike in JSON and in TOML.
    let mut lines = vec!["# password_file and certificate are left out.".to_owned()];
    let mut line = |key: &str, value: serde_json::Value| lines.push(format!("{key} = {value}"));
    for (protocol, address) in &target.addresses {
        line(protocol.word(), json!(address));
    }
    line("users", json!(target.names.to_string()));
    if let Some(metrics) = &target.metrics {
        line("metrics", json!(metrics));
    }
    if !target.queue_folders.is_empty() {
        line("queue_folders", json!(target.queue_folders));
    }
    line("processes", json!(target.processes));
    if let Some(folder) = &target.data_folder {
        line("data_folder", json!(folder));
    }
    lines.join("\n") + "\n"
}

fn read_text(path: &Path) -> Result<String, TargetError> {
    let failed = |source| TargetError::of_file(path.display(), source);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > FILE_BYTES_MAX {
        let reason = format!("longer than {FILE_BYTES_MAX} bytes");
        return Err(TargetError::Contents { file: path.display().to_string(), reason });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str, password: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("target.toml");
        std::fs::write(&path, text).expect("the file can be written");
        std::fs::write(folder.path().join("password"), password).expect("the file can be written");
        load(&path, RemoteHosts::Refused).expect_err(text).to_string()
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let rest = "password_file = \"password\"\ncertificate = \"none.pem\"\n";
        let check = |text: &str, expected: &str| {
            let refusal = refusal(&format!("{text}\n{rest}"), "secret\n");
            assert!(refusal.contains(expected), "{refusal}");
        };
        check("", "there is no address");
        check("nativ = \"127.0.0.1:1\"", "nativ");
        check("native = \"192.0.2.1:1352\"", "192.0.2.1:1352 is not on this machine; with --yes-load-it");
        check("native = \"127.0.0.1:1\"\nmetrics = \"192.0.2.1:80\"", "192.0.2.1:80");
        check("native = \"127.0.0.1:1\"\nusers = \"mail@bench.test\"", "users is not a pattern");
        check("native = \"127.0.0.1:1\"", "none.pem");
        let empty = refusal(&format!("native = \"127.0.0.1:1\"\n{rest}"), "\n");
        assert!(empty.contains("password_file is empty"), "{empty}");
    }

    #[test]
    fn descriptions_have_no_secrets() {
        let target = Target {
            addresses: BTreeMap::from([(Protocol::Imap, "127.0.0.1:2".to_owned())]),
            trust: Trust::pinned(include_bytes!("test_certificate.pem")).expect("a certificate"),
            names: UserNames::parse("m{}@a.test").expect("a pattern"),
            password: "secret".to_owned(),
            metrics: Some("127.0.0.1:3".to_owned()),
            queue_folders: vec![PathBuf::from("/q")],
            processes: vec![7],
            data_folder: Some(PathBuf::from("/d")),
        };
        let text = describe(&target);
        let expected = "# password_file and certificate are left out.\nimap = \"127.0.0.1:2\"\nusers = \"m{}@a.test\"\n\
                        metrics = \"127.0.0.1:3\"\nqueue_folders = [\"/q\"]\nprocesses = [7]\ndata_folder = \"/d\"\n";
        assert_eq!(text, expected);
        let read: toml::Table = toml::from_str(&text).expect("it is TOML");
        assert_eq!(read["users"].as_str(), Some("m{}@a.test"));
    }

    #[test]
    fn long_files_are_refused() {
        assert!(refusal(&"#".repeat(70_000), "x").contains("longer than 65536 bytes"));
    }
}
