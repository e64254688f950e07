//! The player of dialogues.
//!
//! A dialogue is a text of steps. Each begins with a line that names it, and has the lines that follow it:
//!
//! - `as bob` makes the following requests as `bob`; the first ones are made as `alice`.
//! - `deliver alice INBOX` delivers a message: the lines up to one with a dot.
//! - `grant alice bob` makes `bob` an Editor of the mail file of `alice`, and `grant alice bob Reader` a Reader.
//! - `session:` expects the Session object.
//! - `upload $blob text/plain` uploads the lines up to one with a dot, and remembers the identifier.
//! - `time 3600` advances the clock by a number of seconds.
//! - `C:` makes method calls, an array; `using core mail:` makes them with these capabilities. `S:` expects the
//!   responses.
//! - `raw:` sends any text as a request. `P:` expects a problem document, and `R:` the whole reply.
//!
//! In what is expected, the text `$name` matches any value, which is remembered and must be the same from then on, and
//! `$_` matches anything. An object with the member `"..."` may have others than are expected. In what is sent, texts
//! that begin with `$` are replaced, also as names of members.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::world::World;

/// Plays a dialogue.
pub fn play(name: &str, text: &str) {
    let mut player = Player { world: World::new(), login: "alice".to_owned(), values: BTreeMap::new(), last: None };
    let lines: Vec<&str> = text.lines().collect();
    let mut index = 0;
    while index < lines.len() {
        let first = index;
        index += 1;
        let line = lines[first];
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let is_text = line.starts_with("deliver ") || line.starts_with("upload ");
        let is_block = is_text || line.ends_with(':');
        let mut block = Vec::new();
        while is_block && index < lines.len() {
            let next = lines[index];
            if if is_text { next == "." } else { next.is_empty() } {
                index += 1;
                break;
            }
            block.push(next);
            index += 1;
        }
        player.step(line, &block).unwrap_or_else(|error| panic!("{name}.txt:{}: {error}\n  {line}", first + 1));
    }
    assert!(player.last.is_none(), "{name}.txt: the last reply is not expected");
}

struct Player {
    world: World,
    login: String,
    values: BTreeMap<String, Value>,
    /// The reply that is not yet expected.
    last: Option<Result<Value, Value>>,
}

impl Player {
    fn step(&mut self, line: &str, block: &[&str]) -> Result<(), String> {
        let words: Vec<&str> = line.trim_end_matches(':').split(' ').collect();
        match words.as_slice() {
            ["as", login] => self.login = (*login).to_owned(),
            ["grant", owner, person] => self.world.grant(owner, person, notes::AclLevel::Editor),
            ["grant", owner, person, level] => {
                let level = level.parse().map_err(|_| "which level?")?;
                self.world.grant(owner, person, level);
            }
            ["session"] => {
                let session = crate::world::session(&self.world, &crate::world::caller(&self.login));
                self.expect(&parse(block)?, &session)?;
            }
            ["time", seconds] => {
                let seconds = seconds.parse().map_err(|_| "how many seconds?")?;
                self.world.clock.advance(std::time::Duration::from_secs(seconds));
            }
            ["deliver", login, mailbox] => {
                let raw = block.join("\r\n") + "\r\n";
                self.world.deliver(login, mailbox, raw.as_bytes());
            }
            ["upload", variable, media_type] => {
                let raw = block.join("\r\n") + "\r\n";
                let account = crate::world::account(&self.login);
                let caller = crate::world::caller(&self.login);
                let uploaded =
                    jmap::blob::upload(&self.world.services, &caller, &account, raw.into_bytes().into(), media_type);
                let object = uploaded.map_err(|error| error.kind)?.map_err(|problem| problem.to_string())?;
                self.values.insert((*variable).to_owned(), object["blobId"].clone());
            }
            ["C"] => {
                let calls = self.replaced(&parse(block)?)?;
                let using = json!(jmap::session::CAPABILITIES);
                self.send(json!({ "using": using, "methodCalls": calls }).to_string().as_bytes())?;
            }
            ["using", names @ ..] => {
                let calls = self.replaced(&parse(block)?)?;
                let using: Vec<String> = names.iter().map(|name| format!("urn:ietf:params:jmap:{name}")).collect();
                self.send(json!({ "using": using, "methodCalls": calls }).to_string().as_bytes())?;
            }
            ["raw"] => self.send(block.join("\n").as_bytes())?,
            ["S"] => {
                let reply = self.last.take().ok_or("nothing was sent")?;
                let reply = reply.map_err(|problem| format!("problem: {problem}"))?;
                self.expect(&parse(block)?, &reply["methodResponses"])?;
            }
            ["R"] => {
                let reply = self.last.take().ok_or("nothing was sent")?;
                let reply = reply.map_err(|problem| format!("problem: {problem}"))?;
                self.expect(&parse(block)?, &reply)?;
            }
            ["P"] => {
                let Some(Err(problem)) = self.last.take() else { return Err("there is no problem".to_owned()) };
                self.expect(&parse(block)?, &problem)?;
            }
            _ => return Err("what is this line?".to_owned()),
        }
        Ok(())
    }

    fn send(&mut self, body: &[u8]) -> Result<(), String> {
        if self.last.is_some() {
            return Err("the reply before is not expected".to_owned());
        }
        self.last = Some(self.world.request(&self.login, body));
        Ok(())
    }

    fn expect(&mut self, expected: &Value, found: &Value) -> Result<(), String> {
        let before = self.values.clone();
        self.matches(expected, found, "").map_err(|error| {
            self.values = before;
            format!("{error}\n  found {}", serde_json::to_string_pretty(found).unwrap_or_default())
        })
    }

    fn matches(&mut self, expected: &Value, found: &Value, path: &str) -> Result<(), String> {
        match (expected, found) {
            (Value::String(name), _) if name == "$_" => Ok(()),
            (Value::String(name), _) if name.starts_with('$') => {
                let known = self.values.entry(name.clone()).or_insert_with(|| found.clone());
                if known == found { Ok(()) } else { Err(format!("{path}: {name} is {known}, not {found}")) }
            }
            (Value::Array(expected), Value::Array(found)) => {
                if expected.len() != found.len() {
                    return Err(format!("{path}: {} items, not {}", found.len(), expected.len()));
                }
                for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                    self.matches(expected, found, &format!("{path}/{index}"))?;
                }
                Ok(())
            }
            (Value::Object(expected), Value::Object(found)) => self.matches_object(expected, found, path),
            _ if expected == found => Ok(()),
            _ => Err(format!("{path}: {found}, not {expected}")),
        }
    }

    fn matches_object(
        &mut self,
        expected: &Map<String, Value>,
        found: &Map<String, Value>,
        path: &str,
    ) -> Result<(), String> {
        let mut left: Vec<&String> = found.keys().collect();
        for (name, value) in expected.iter().filter(|(name, _)| *name != "...") {
            let known = self.values.get(name).and_then(Value::as_str).map(str::to_owned);
            let real = match known {
                Some(known) => known,
                None if name.starts_with('$') && !found.contains_key(name) => {
                    let first = left.first().ok_or_else(|| format!("{path}: nothing for {name}"))?;
                    self.values.insert(name.clone(), json!(first));
                    (*first).clone()
                }
                _ => name.clone(),
            };
            let member = found.get(&real).ok_or_else(|| format!("{path}: there is no {real}"))?;
            left.retain(|other| **other != real);
            self.matches(value, member, &format!("{path}/{real}"))?;
        }
        if left.is_empty() || expected.contains_key("...") { Ok(()) } else { Err(format!("{path}: also {left:?}")) }
    }

    /// Replaces the variables in what is sent.
    fn replaced(&self, value: &Value) -> Result<Value, String> {
        let text = |name: &str| -> Result<Value, String> {
            let is_keyword = ["$seen", "$flagged", "$draft", "$mdnsent"].contains(&name);
            if !name.starts_with('$') || is_keyword {
                return Ok(json!(name));
            }
            self.values.get(name).cloned().ok_or_else(|| format!("{name} is not known"))
        };
        Ok(match value {
            Value::String(name) => text(name)?,
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.replaced(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let mut replaced = Map::new();
                for (name, value) in members {
                    // A pointer has its variable at the end.
                    let (before, last) =
                        name.rsplit_once('/').map_or(("", name.as_str()), |(before, last)| (before, last));
                    let last = text(last)?.as_str().unwrap_or_default().to_owned();
                    let name = if before.is_empty() { last } else { format!("{before}/{last}") };
                    replaced.insert(name, self.replaced(value)?);
                }
                Value::Object(replaced)
            }
            other => other.clone(),
        })
    }
}

fn parse(block: &[&str]) -> Result<Value, String> {
    serde_json::from_str(&block.join("\n")).map_err(|error| format!("the JSON is not valid: {error}"))
}
