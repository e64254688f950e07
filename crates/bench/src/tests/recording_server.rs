//! A mail server for tests that answers every command and records it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// A server that serves a fixed number of connections, each on a thread of its own.
pub struct RecordingServer {
    pub address: String,
    acceptor: JoinHandle<Vec<JoinHandle<Transcript>>>,
}

/// The commands of a connection without their tags, and the user who logged in. A literal follows its command after a
/// line break.
type Transcript = (String, Vec<String>);

impl RecordingServer {
    /// Starts a server for a number of connections. It refuses commands that begin with one of `refused`.
    pub fn start(connections: usize, refused: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound").to_string();
        let acceptor = std::thread::spawn(move || {
            let sockets = listener.incoming().take(connections).map(|socket| socket.expect("a client connects"));
            sockets.map(|socket| std::thread::spawn(move || serve(socket, refused))).collect()
        });
        Self { address, acceptor }
    }

    /// Waits for the end of all connections. Returns the commands of each user, in the order of the connections.
    pub fn finish(self) -> BTreeMap<String, Vec<String>> {
        let mut commands: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for connection in self.acceptor.join().expect("no panic") {
            let (user, received) = connection.join().expect("no panic");
            commands.entry(user).or_default().extend(received);
        }
        commands
    }
}

fn serve(mut socket: TcpStream, refused: &[&str]) -> Transcript {
    let mut reader = BufReader::new(socket.try_clone().expect("a second handle"));
    let mut received = Vec::new();
    let mut user = String::new();
    socket.write_all(b"* OK ready\r\n").expect("the client reads");
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        let (tag, command) = line.trim_end().split_once(' ').expect("a tag and a command");
        let mut command = command.to_owned();
        if let Some(name) = command.strip_prefix("LOGIN ") {
            user = name.split(' ').next().unwrap_or_default().to_owned();
        }
        let is_refused = refused.iter().any(|prefix| command.starts_with(prefix));
        let literal = command.strip_suffix('}').and_then(|rest| rest.rsplit_once('{')?.1.parse::<u64>().ok());
        if let Some(length) = literal.filter(|_| !is_refused) {
            socket.write_all(b"+ go on\r\n").expect("the client reads");
            command.push('\n');
            reader.by_ref().take(length).read_to_string(&mut command).expect("the literal is text");
            reader.read_line(&mut String::new()).expect("the end of the command");
        }
        let outcome = if is_refused { "NO refused" } else { "OK done" };
        let reply = format!("* 1 EXISTS\r\n{tag} {outcome}\r\n");
        received.push(command);
        line.clear();
        if socket.write_all(reply.as_bytes()).is_err() {
            break;
        }
    }
    (user, received)
}
