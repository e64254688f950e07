//! Tests of the whole program: commands on a temporary data folder, with and without a running server.
//!
//! Servers listen on loopback with port 0 and are found through `listeners.json`. No test sleeps: each waits for a line
//! of the server's log, for a reply, or for the end of a process.

mod accounts;
mod channel_binding;
mod command_line;
mod commands;
mod damage;
mod descriptors;
mod design_commands;
mod import_export_backup;
mod listeners;
mod local_replicas;
mod logins;
mod memory_ceiling;
mod mx_routing;
mod native;
mod native_database_creation;
mod native_memory;
mod native_mutual_tls;
mod native_notes;
mod native_views;
mod pdf;
mod permissions;
mod renewal;
mod replication;
mod searching;
mod server_lifecycle;
mod tables;
mod tls_dialogue;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A data folder and the options that every command gets.
struct TestFolder {
    folder: tempfile::TempDir,
    options: Vec<String>,
}

const LISTENERS: [&str; 11] = [
    "smtp",
    "submission",
    "submission_tls",
    "imap",
    "imap_tls",
    "pop3",
    "pop3_tls",
    "native",
    "http",
    "https",
    "admin",
];

impl TestFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = vec!["--data".to_owned(), folder.path().join("data").display().to_string()];
        let listeners = LISTENERS.iter().map(|name| format!("listen.{name}=127.0.0.1:0"));
        // Strong password hashing is not the subject of these tests, so it is configured to be cheap.
        let cheap = ["directory.password_memory=8KiB", "directory.password_rounds=1", "server.name=mail.acme.test"];
        for assignment in listeners.chain(cheap.iter().map(|text| (*text).to_owned())) {
            options.extend(["--set".to_owned(), assignment]);
        }
        Self { folder, options }
    }

    /// Creates a data folder with a domain and people whose password is `sesame street`.
    fn with_people(addresses: &[&str]) -> Self {
        Self::with_people_of("acme.test", addresses)
    }

    fn with_people_of(domain: &str, addresses: &[&str]) -> Self {
        let folder = Self::new();
        folder.check(&["domain", "add", domain], "was added");
        for address in addresses {
            folder.check_input(&["user", "add", address, "--password-stdin"], "sesame street\n", "was added");
        }
        folder
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_doublet"));
        command.args(words).args(&self.options).current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A command that reads no input may have ended already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        child.wait_with_output().expect("the program ends")
    }

    /// Runs a command. Checks that it succeeds and that its output contains `expected`; returns the output.
    fn check(&self, words: &[&str], expected: &str) -> String {
        self.check_input(words, "", expected)
    }

    fn check_input(&self, words: &[&str], input: &str, expected: &str) -> String {
        let output = self.run(words, input);
        let stdout = text(&output.stdout);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        assert!(stdout.contains(expected), "{words:?}: expected {expected:?}, got {stdout:?}");
        stdout
    }

    /// Runs a command. Checks that it fails and that its error output contains `expected`.
    fn check_fails(&self, words: &[&str], expected: &str) {
        let output = self.run(words, "");
        let complaint = text(&output.stderr);
        assert!(!output.status.success(), "{words:?} succeeded: {}", text(&output.stdout));
        assert!(complaint.contains(expected), "{words:?}: expected {expected:?}, got {complaint:?}");
    }

    /// Runs a command with `--json` and returns its parsed output.
    fn json(&self, words: &[&str]) -> Value {
        let stdout = self.check(&[words, &["--json"]].concat(), "");
        serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{words:?}: {error} in {stdout:?}"))
    }

    /// Starts a server and waits until it is ready.
    fn serve(&self) -> Server {
        self.start(self.serve_command(), &[])
    }

    fn serve_command(&self) -> Command {
        // A server that ends waits this long for clients within a transaction, and for clients of the native protocol
        // that keep their connections.
        self.command(&["serve", "--set", "server.shutdown_time=200ms"])
    }

    /// Starts a server with a command. Waits for lines with these texts in its log, and until it is ready.
    fn start(&self, mut command: Command, texts: &[&str]) -> Server {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let log = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut server = Server { child, log, before_ready: String::new(), listeners: BTreeMap::new() };
        for text in texts {
            server.wait_for_log(text);
        }
        server.before_ready = server.read_log_until(" ready ").0;
        server.listeners = listeners(&self.data());
        server
    }
}

/// A running server; killed when dropped.
struct Server {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    /// The lines before the one that says that the server is ready.
    before_ready: String,
    listeners: BTreeMap<String, String>,
}

impl Server {
    fn wait_for_log(&mut self, wanted: &str) -> String {
        self.read_log_until(wanted).1
    }

    /// Waits for a line with a text, which may be one from before the server was ready.
    fn wait_for_log_since_start(&mut self, wanted: &str) -> String {
        let early = self.before_ready.lines().find(|line| line.contains(wanted)).map(str::to_owned);
        early.unwrap_or_else(|| self.wait_for_log(wanted))
    }

    /// Reads the log up to a line with a text. Returns the lines before it, and this one.
    fn read_log_until(&mut self, wanted: &str) -> (String, String) {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).expect("the log is text");
            assert_ne!(length, 0, "the server ended without saying {wanted:?}:\n{seen}");
            if line.contains(wanted) {
                return (seen, line);
            }
            seen.push_str(&line);
        }
    }

    fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.child.id().cast_signed()).expect("a process has a number");
        kill_process(process, signal).expect("the process is there");
    }

    /// Shuts the server down in order.
    fn stop(mut self) {
        self.signal(Signal::TERM);
        self.wait_for_log(" ended");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
    }

    /// Kills the server.
    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Returns the statistics.
    fn metrics(&self) -> String {
        self.get("/metrics")
    }

    /// Requests a page from the administration port.
    fn get(&self, path: &str) -> String {
        let mut http = self.dial("admin");
        http.say(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"));
        let mut answer = String::new();
        http.reader.read_to_string(&mut answer).expect("text");
        answer
    }

    /// Connects to the listener for other servers and sends EHLO.
    fn reception(&self) -> Dialogue {
        self.greeted("smtp")
    }

    /// Connects to the submission listener and logs in as ann@acme.test.
    fn submission(&self) -> Dialogue {
        let mut smtp = self.greeted("submission");
        let login = STANDARD.encode("\0ann@acme.test\0sesame street");
        smtp.ask(&format!("AUTH PLAIN {login}"), "235 ");
        smtp
    }

    fn greeted(&self, listener: &str) -> Dialogue {
        let mut smtp = self.dial(listener);
        smtp.expect("220 ");
        smtp.ask("EHLO client.test", "250 ");
        smtp
    }

    fn dial(&self, listener: &str) -> Dialogue {
        let address = self.listeners.get(listener).unwrap_or_else(|| panic!("no listener {listener}"));
        let stream = TcpStream::connect(address).expect("it listens");
        Dialogue { reader: BufReader::new(stream) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The client side of a line-based connection.
struct Dialogue {
    reader: BufReader<TcpStream>,
}

impl Dialogue {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("the server is there");
        line.trim_end().to_owned()
    }

    /// Reads lines until one starts with `wanted`. Lines before it must be continuation lines or untagged replies.
    fn expect(&mut self, wanted: &str) -> String {
        loop {
            let line = self.line();
            if line.starts_with(wanted) {
                return line;
            }
            let continues = line.get(3..4) == Some("-") || line.starts_with("* ");
            assert!(continues, "expected {wanted:?}, received {line:?}");
        }
    }

    /// Reads lines until one contains `wanted`, and returns it.
    fn line_with(&mut self, wanted: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(wanted) {
                return line;
            }
        }
    }

    fn say(&mut self, text: &str) {
        self.reader.get_mut().write_all(format!("{text}\r\n").as_bytes()).expect("the server is there");
    }

    /// Sends a line and reads until a line of the reply starts with `wanted`.
    fn ask(&mut self, text: &str, wanted: &str) -> String {
        self.say(text);
        self.expect(wanted)
    }
}

/// Sends a message to port 25.
fn deliver(server: &Server, to: &str, text: &str) {
    let mut smtp = server.reception();
    smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
    smtp.ask(&format!("RCPT TO:<{to}>"), "250 ");
    smtp.ask("DATA", "354 ");
    smtp.ask(&format!("{text}\r\n."), "250 ");
    smtp.ask("QUIT", "221 ");
}

/// Returns all messages of the maildrop.
fn collect(server: &Server, login: &str) -> Vec<String> {
    let mut pop3 = server.dial("pop3");
    pop3.expect("+OK");
    pop3.ask(&format!("USER {login}"), "+OK");
    pop3.ask("PASS sesame street", "+OK");
    let count: usize = pop3.ask("STAT", "+OK").split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
    let messages = (1..=count).map(|number| {
        pop3.ask(&format!("RETR {number}"), "+OK");
        let mut message = String::new();
        loop {
            let line = pop3.line();
            if line == "." {
                return message;
            }
            message.push_str(line.strip_prefix('.').unwrap_or(&line));
            message.push('\n');
        }
    });
    messages.collect()
}

fn listeners(data: &Path) -> BTreeMap<String, String> {
    let content = std::fs::read_to_string(data.join("listeners.json")).expect("a ready server has written it");
    let addresses_by_name: BTreeMap<String, Vec<String>> = serde_json::from_str(&content).expect("it is JSON");
    addresses_by_name.into_iter().filter_map(|(name, mut addresses)| Some((name, addresses.pop()?))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
