//! A server for tests that follows a script: it expects commands, and answers each with what the script says.

use client::Traffic;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::door::line_connection::Place;

/// A connection of a script: the greeting, then the beginning of each command and its answer, in which `TAG` is the tag
/// of the command. The server closes the connection at the end, unless it falls silent.
#[derive(Debug, Clone)]
pub struct Dialogue {
    greeting: &'static str,
    turns: Vec<Turn>,
    falls_silent: bool,
}

#[derive(Debug, Clone)]
struct Turn {
    expected: String,
    answer: String,
    /// The client sends a message that ends with a dot.
    is_message: bool,
}

impl Dialogue {
    /// Creates a connection with a greeting, which lacks the end of its line.
    pub fn new(greeting: &'static str) -> Self {
        Self { greeting, turns: Vec::new(), falls_silent: false }
    }

    /// Adds a command and its answer. Lines of the answer are separated by `|`.
    pub fn turn(mut self, command: &str, answer: &str) -> Self {
        let answer = if answer.is_empty() { String::new() } else { answer.replace('|', "\r\n") + "\r\n" };
        self.turns.push(Turn { expected: command.to_owned(), answer, is_message: false });
        self
    }

    /// Keeps the connection at the end without another answer, and pauses the clock, so that time limits pass at once.
    pub fn silence(mut self) -> Self {
        self.falls_silent = true;
        self
    }

    /// Adds a message that ends with a dot, and the answer.
    pub fn message(self, answer: &str) -> Self {
        let mut dialogue = self.turn("", answer);
        dialogue.turns.last_mut().expect("it was added").is_message = true;
        dialogue
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct ScriptedServer {
    /// Where it is.
    pub place: Place,
    task: JoinHandle<Vec<String>>,
}

impl ScriptedServer {
    /// Starts a server for connections that follow each other.
    pub async fn start(dialogues: Vec<Dialogue>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has ports");
        let place = Place::unencrypted(&listener.local_addr().expect("it is bound").to_string(), &Traffic::default());
        let task = tokio::spawn(async move {
            let mut received = Vec::new();
            for dialogue in dialogues {
                let (socket, _) = listener.accept().await.expect("the client comes");
                follow(socket, dialogue, &mut received).await;
            }
            received
        });
        Self { place, task }
    }

    /// Waits for the end of the script. Returns the commands without tags; a literal follows after a line break.
    pub async fn finish(self) -> Vec<String> {
        self.task.await.expect("the script is followed")
    }
}

async fn follow(mut socket: TcpStream, dialogue: Dialogue, received: &mut Vec<String>) {
    let (reader, mut writer) = socket.split();
    let mut reader = BufReader::new(reader);
    writer.write_all(format!("{}\r\n", dialogue.greeting).as_bytes()).await.expect("the client reads");
    let mut tag = String::new();
    for Turn { expected, answer, is_message } in dialogue.turns {
        let mut line = String::new();
        while is_message && line != ".\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).await.expect("text") > 0, "the message has no end");
        }
        if is_message {
            writer.write_all(answer.as_bytes()).await.expect("the client reads");
            continue;
        }
        let length = reader.read_line(&mut line).await.expect("text");
        assert!(length > 0, "the client has closed the connection instead of {expected:?}");
        let mut command = line.trim_end_matches(['\r', '\n']).to_owned();
        while let Some((length, is_at_once)) = announced(&command) {
            if !is_at_once && answer.starts_with("TAG NO") {
                break;
            }
            if !is_at_once {
                writer.write_all(b"+ go on\r\n").await.expect("the client reads");
            }
            let mut literal = vec![0; length];
            reader.read_exact(&mut literal).await.expect("the literal");
            let mut rest = String::new();
            reader.read_line(&mut rest).await.expect("text");
            command =
                format!("{command}\n{}{}", String::from_utf8_lossy(&literal), rest.trim_end_matches(['\r', '\n']));
        }
        if let Some((word, rest)) = command.split_once(' ')
            && is_tag(word)
        {
            tag = word.to_owned();
            command = rest.to_owned();
        }
        assert!(command.starts_with(&expected), "{command:?} instead of {expected:?}");
        received.push(command);
        writer.write_all(answer.replace("TAG", &tag).as_bytes()).await.expect("the client reads");
    }
    if dialogue.falls_silent {
        tokio::time::pause();
        std::future::pending::<()>().await;
    }
}

/// Returns `true` if a word is a tag of the driver. A line without a tag belongs to the command before it.
fn is_tag(word: &str) -> bool {
    word.strip_prefix('d').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the length of the literal at the end of a command, and whether the client sends it at once.
fn announced(command: &str) -> Option<(usize, bool)> {
    let inner = command.strip_suffix('}')?;
    let (_, length) = inner.rsplit_once('{')?;
    let is_at_once = length.ends_with('+');
    Some((length.trim_end_matches('+').parse().ok()?, is_at_once))
}
