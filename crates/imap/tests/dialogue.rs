//! The player of dialogues.
//!
//! A dialogue is a text of lines:
//!
//! - `C: text` sends a line; `C2: text` sends it on the second connection. A connection begins with its first line, and
//!   its greeting is skipped. `connect 2 network` begins a connection that comes from another host without encryption.
//! - Lines that begin with ` |` after a command that ends in `{*}`, `{*+}` or `~{*}` are its literal. The player fills
//!   in the length and waits for the continuation request. `C>: text` continues the command after the literal.
//! - `S: text` expects a line. `...` matches any text. `$name` matches a word, which is remembered and must be the same
//!   from then on, also in lines that are sent.
//! - `T: 3600` advances the clock by a number of seconds. `#` begins a comment.
//!
//! Every line from the server must be expected before the next line is sent on that connection.

use std::collections::BTreeMap;

use wire::Peer;

use crate::connection::Connection;
use crate::world::TestServer;

/// Plays a dialogue. What a client sends arrives in pieces of at most `piece_bytes`.
pub fn play(name: &str, text: &str, piece_bytes: usize) {
    let world = TestServer::new();
    let mut player = Player { world, piece_bytes, connections: BTreeMap::new(), words: BTreeMap::new() };
    let lines: Vec<&str> = text.lines().collect();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let literal: Vec<&str> = lines[index + 1..].iter().map_while(|line| line.strip_prefix(" |")).collect();
        let continuation = lines.get(index + 1 + literal.len()).and_then(|line| line.strip_prefix("C>: "));
        player
            .step(line, &literal, continuation)
            .unwrap_or_else(|error| panic!("{name}.txt:{}: {error}\n  {line}", index + 1));
        index += 1 + literal.len() + usize::from(continuation.is_some());
    }
    player.finish().unwrap_or_else(|error| panic!("{name}.txt, at the end: {error}"));
}

struct Player {
    world: TestServer,
    piece_bytes: usize,
    connections: BTreeMap<u32, Connection>,
    words: BTreeMap<String, String>,
}

impl Player {
    fn step(&mut self, line: &str, literal: &[&str], continuation: Option<&str>) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("connect ") {
            let number = rest.split(' ').next().and_then(|number| number.parse().ok()).ok_or("which connection?")?;
            let address = "192.0.2.7:50000".parse().map_err(|_| "the address is valid")?;
            self.connections.insert(number, Connection::new(&self.world, Peer::network(address)));
            return Ok(());
        }
        let (who, text) = line.split_once(':').ok_or("what is this line?")?;
        let text = text.strip_prefix(' ').unwrap_or(text);
        let (role, number) = who.split_at_checked(1).ok_or("what is this line?")?;
        let number = if number.is_empty() { 1 } else { number.parse().map_err(|_| "which connection?")? };
        match role {
            "C" => self.send(number, text, literal, continuation),
            "S" => self.expect(number, text),
            "T" => {
                let seconds = text.parse().map_err(|_| "how many seconds?")?;
                self.world.clock.advance(std::time::Duration::from_secs(seconds));
                Ok(())
            }
            _ => Err("what is this line?".into()),
        }
    }

    fn send(&mut self, number: u32, text: &str, literal: &[&str], continuation: Option<&str>) -> Result<(), String> {
        let mut text = self.filled_in(text);
        let literal: String = literal.iter().map(|line| format!("{line}\r\n")).collect();
        text = text.replace("{*", &format!("{{{}", literal.len()));
        let world = &self.world;
        let connection = self.connections.entry(number).or_insert_with(|| Connection::new(world, Peer::local()));
        connection.check_all_consumed()?;
        let piece_bytes = self.piece_bytes;
        let receive = |connection: &mut Connection, text: String| {
            text.as_bytes().chunks(piece_bytes).for_each(|piece| connection.receive(piece));
        };
        receive(connection, format!("{text}\r\n"));
        if !literal.is_empty() {
            if connection.lines.front().is_some_and(|line| line.starts_with("+ ")) {
                connection.lines.pop_front();
            }
            receive(connection, format!("{literal}{}\r\n", continuation.unwrap_or_default()));
        }
        self.connections.values_mut().for_each(Connection::wake);
        Ok(())
    }

    fn expect(&mut self, number: u32, pattern: &str) -> Result<(), String> {
        let connection = self.connections.get_mut(&number).ok_or("there is no such connection")?;
        let line = connection.lines.pop_front().ok_or("the server sent no further line")?;
        matches(pattern, &line, &mut self.words).map_err(|()| format!("the server sent\n  {line}"))
    }

    fn filled_in(&self, text: &str) -> String {
        self.words.iter().rev().fold(text.to_owned(), |text, (name, word)| text.replace(&format!("${name}"), word))
    }

    fn finish(&self) -> Result<(), String> {
        self.connections.values().try_for_each(Connection::check_all_consumed)
    }
}

/// Compares a line with a pattern, and stores the words of `$name`.
fn matches(pattern: &str, text: &str, words: &mut BTreeMap<String, String>) -> Result<(), ()> {
    let Some(special) = ["...", "$"].iter().filter_map(|mark| pattern.find(mark)).min() else {
        return if pattern == text { Ok(()) } else { Err(()) };
    };
    let (plain, rest) = pattern.split_at(special);
    let text = text.strip_prefix(plain).ok_or(())?;
    if let Some(rest) = rest.strip_prefix("...") {
        // The shortest text that lets the rest match.
        let ends = (0..=text.len()).filter(|end| text.is_char_boundary(*end));
        for end in ends {
            let mut attempt = words.clone();
            if matches(rest, &text[end..], &mut attempt).is_ok() {
                *words = attempt;
                return Ok(());
            }
        }
        return Err(());
    }
    let rest = &rest[1..];
    let name_length = rest.find(|character: char| !character.is_ascii_lowercase()).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_length);
    if name.is_empty() {
        return matches(rest, text.strip_prefix('$').ok_or(())?, words);
    }
    let word_length = text.find(|character: char| !character.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (word, after) = text.split_at(word_length);
    if words.entry(name.to_owned()).or_insert_with(|| word.to_owned()) != word {
        return Err(());
    }
    matches(rest, after, words)
}
