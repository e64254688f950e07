//! A test of the memory of a server to which many clients send slowly: each sends a part of a command or of a message,
//! and then nothing more. The server may keep 32 KiB for each, as planned, and what counts as messages in transit.
//!
//! The resident memory of the server is compared with that before the clients came. The short form has 2,000 clients,
//! the long form (`DOUBLET_SOAK`) 20,000, or as many as the system permits open files.

use std::io::Write;
use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Dialogue, Server, TestFolder, deliver};

/// Planned memory of a connection, in bytes, besides its messages and literals.
const CONNECTION_BYTES: u64 = 32 << 10;

/// Connections that the server admits besides those of the slow clients.
const OTHER_CONNECTIONS: u64 = 64;

/// Files that this process, or the server, has open besides the connections of the slow clients.
const OTHER_FILES: u64 = 1_000;

/// What a client sends before it stops.
#[derive(Debug, Clone, Copy)]
enum SlowClient {
    /// A part of a line, before the login.
    ImapLine,
    /// A part of a literal, before the login.
    ImapLiteral,
    /// A part of a message.
    SmtpText,
}

const SLOW_CLIENTS: [SlowClient; 3] = [SlowClient::ImapLine, SlowClient::ImapLiteral, SlowClient::SmtpText];

impl SlowClient {
    /// Connects, and sends the commands that come before the slow one.
    fn connect(self, server: &Server) -> Dialogue {
        match self {
            Self::ImapLine | Self::ImapLiteral => {
                let mut imap = server.dial("imap");
                imap.expect("* OK");
                imap
            }
            Self::SmtpText => {
                let mut smtp = server.reception();
                smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
                smtp.ask("RCPT TO:<ann@acme.test>", "250 ");
                smtp
            }
        }
    }

    /// Sends about 3 KB of the slow command.
    fn send_part(self, dialogue: &mut Dialogue) {
        let part = match self {
            Self::ImapLine => format!("a LOGIN {}", "x".repeat(3_000)),
            Self::ImapLiteral => {
                dialogue.ask("a LOGIN {4000}", "+");
                "x".repeat(3_000)
            }
            Self::SmtpText => {
                dialogue.ask("DATA", "354 ");
                format!("Subject: slow\r\n\r\n{}", "A line of a slow message.\r\n".repeat(110))
            }
        };
        dialogue.reader.get_mut().write_all(part.as_bytes()).expect("the server is there");
    }
}

/// Connects clients and lets each send its part. Returns when the server has read all of it.
fn connect_slow_clients(server: &Server, count: u64) -> Vec<Dialogue> {
    let clients = SLOW_CLIENTS.into_iter().cycle().take(usize::try_from(count).expect("it is small"));
    let mut connected: Vec<_> = clients.map(|client| (client, client.connect(server))).collect();
    for (client, dialogue) in &mut connected {
        client.send_part(dialogue);
    }
    let ports = ["imap", "smtp"].map(|listener| port(server, listener));
    while unread_bytes(&ports) > 0 {
        std::thread::yield_now();
    }
    connected.into_iter().map(|(_, dialogue)| dialogue).collect()
}

fn port(server: &Server, listener: &str) -> u16 {
    let address: SocketAddr = server.listeners[listener].parse().expect("an address");
    address.port()
}

/// Returns the number of bytes that were sent to ports of this machine and that nobody has read yet.
fn unread_bytes(ports: &[u16]) -> u64 {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux");
    table.lines().skip(1).filter_map(|line| unread_of_socket(line, ports)).sum()
}

/// Returns the length of the receive queue in a line of `/proc/net/tcp`, or `None` if it is a listener's or of another
/// port. The fields are number, local address, remote address, state and queues, in hexadecimal digits.
fn unread_of_socket(line: &str, ports: &[u16]) -> Option<u64> {
    const LISTEN: &str = "0A";
    let fields: Vec<&str> = line.split_whitespace().take(5).collect();
    let [_, local, _, state, queues] = fields[..] else { return None };
    let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
    let unread = u64::from_str_radix(queues.rsplit_once(':')?.1, 16).ok()?;
    (state != LISTEN && ports.contains(&port)).then_some(unread)
}

fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.metrics();
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is missing")).parse().expect("a whole number")
}

fn resident_bytes(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).expect("the server runs");
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    value.expect("Linux").parse::<u64>().expect("a number") * 1_024
}

/// Raises the limit of open files of this process, and returns the number of clients for which it suffices here and in
/// the server.
fn client_count() -> u64 {
    let wanted = if std::env::var_os("DOUBLET_SOAK").is_some() { 20_000 } else { 2_000 };
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("it is within the maximum");
    let permitted = maximum.map_or(wanted, |files| files.saturating_sub(OTHER_FILES));
    if permitted < wanted {
        println!("{permitted} clients instead of {wanted}: the system permits {maximum:?} open files");
    }
    wanted.min(permitted)
}

#[test]
fn slow_clients_take_no_more_memory_than_planned() {
    let count = client_count();
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    let settings = [
        format!("server.memory={}MiB", 768 + count / 16),
        format!("limits.connections={}", count + OTHER_CONNECTIONS),
        "limits.message_size=8MiB".to_owned(),
        "server.pool_tasks=4".to_owned(),
        "server.network_threads=2".to_owned(),
        "imap.login_timeout=1h".to_owned(),
        "smtp.idle_timeout=1h".to_owned(),
    ];
    folder.options.extend(settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]));
    let server = folder.serve();
    // What the first clients of each kind take stays, such as the cached names.
    drop(connect_slow_clients(&server, 60));
    while metric(&server, "doublet_connections") + metric(&server, "doublet_message_memory_bytes") > 0 {}
    let before_bytes = resident_bytes(&server);
    let clients = connect_slow_clients(&server, count);
    let reached_bytes = resident_bytes(&server);
    assert_eq!(metric(&server, "doublet_connections"), count, "nobody was refused or disconnected");
    let held_bytes = metric(&server, "doublet_message_memory_bytes");
    assert!(held_bytes > count * 1_000, "{held_bytes} bytes of messages");
    let grown_bytes = reached_bytes.saturating_sub(before_bytes);
    println!("{count} clients: {grown_bytes} bytes, of which {held_bytes} are held for messages");
    assert!(
        grown_bytes <= count * CONNECTION_BYTES + held_bytes,
        "{count} clients take {grown_bytes} bytes, and {held_bytes} are held for messages"
    );
    let planned_bytes = metric(&server, "doublet_memory_plan_bytes{part=\"connections\"}");
    assert_eq!(planned_bytes, (count + OTHER_CONNECTIONS) * CONNECTION_BYTES);
    assert!(held_bytes <= metric(&server, "doublet_memory_plan_bytes{part=\"messages\"}"));
    assert!(reached_bytes <= metric(&server, "doublet_memory_ceiling_bytes"), "{reached_bytes} bytes");
    deliver(&server, "ann@acme.test", "Subject: others are served\r\n\r\nHello.");
    drop(clients);
    server.stop();
}
