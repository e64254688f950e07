//! Test fixture: a directory described in a few lines.
//!
//! ```text
//! domain acme.test alias acme.example catchall ann@acme.test
//! user ann@acme.test name Ann_Smith alias a.smith@acme.test forward x@far.test short asmith disabled
//! group sales@acme.test: ann, bob@acme.test, x@far.test
//! ```
//!
//! Passwords are `password of ann@acme.test`. Spaces within names are written as underscores.

use std::net::IpAddr;
use std::sync::Arc;

use base::sim::{SeededRandom, SimClock};
use base::{Clock, Random};
use directory::{Directory, DirectoryOptions, DomainChange, Error, GroupKind, NewGroup, NewUser, PersonChange};
use notes::Databases;
use sasl::LoginOrigin;
use store::Store;
use store::memory::MemoryEngine;

/// A directory with its engine, clock and databases.
pub struct World {
    pub engine: Arc<MemoryEngine>,
    pub clock: Arc<SimClock>,
    pub databases: Arc<Databases>,
    pub directory: Directory,
    /// Number of server starts, used as the seed so that no two starts draw the same random numbers.
    starts: u64,
}

/// Returns the network address from which logins come in tests.
pub fn home() -> IpAddr {
    "192.0.2.1".parse().expect("an address")
}

/// Returns the network address of an attacker.
pub fn elsewhere() -> IpAddr {
    "198.51.100.7".parse().expect("an address")
}

pub fn password_of(address: &str) -> Vec<u8> {
    format!("password of {address}").into_bytes()
}

/// Returns options with cheap password hashes.
pub fn options() -> DirectoryOptions {
    let mut options = DirectoryOptions::new("hub/Acme");
    options.passwords.memory_kib = 64;
    options.passwords.passes = 1;
    options.passwords.scram_iterations = Some(4_096);
    options
}

impl World {
    /// Creates the directory that the text describes.
    pub fn new(text: &str) -> Self {
        Self::with(options(), text)
    }

    /// Creates the directory that the text describes, with the given options.
    pub fn with(options: DirectoryOptions, text: &str) -> Self {
        let world = Self::over(Arc::new(MemoryEngine::new(1)), options, 1);
        text.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| world.add(line));
        world
    }

    /// Opens the directory stored in an engine.
    fn over(engine: Arc<MemoryEngine>, options: DirectoryOptions, starts: u64) -> Self {
        let clock = Arc::new(SimClock::new());
        let store = Store::with_engine(engine.clone(), &store::StoreOptions::default()).expect("the engine is sound");
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(starts));
        let databases = Databases::open(Arc::new(store), clock.clone(), random);
        let time: Arc<dyn Clock> = clock.clone();
        let directory = Directory::open(&databases, options, &time).expect("the store is sound");
        Self { engine, clock, databases, directory, starts }
    }

    /// Closes the directory abruptly, as a power failure would, and opens the remaining state.
    pub fn crash(self) -> Self {
        let engine = Arc::new(self.engine.crash_losing_all());
        drop(self.directory);
        Self::over(engine, options(), self.starts + 1)
    }

    fn add(&self, line: &str) {
        let (kind, rest) = line.split_once(' ').expect("a kind and a name");
        let outcome = match kind {
            "domain" => self.add_domain(rest),
            "user" => self.add_user(rest),
            "group" => self.add_group(rest),
            _ => panic!("unknown kind in {line}"),
        };
        outcome.unwrap_or_else(|error| panic!("{line}: {error}"));
    }

    fn add_domain(&self, line: &str) -> Result<(), Error> {
        let mut words = line.split_whitespace();
        let name = words.next().expect("a name");
        self.directory.domain_add(name, &[])?;
        let mut change = DomainChange::default();
        while let (Some(word), Some(value)) = (words.next(), words.next()) {
            match word {
                "alias" => change.aliases_add.push(value.to_owned()),
                "catchall" => change.catch_all = Some(Some(value.to_owned())),
                "postmaster" => change.postmaster = Some(Some(value.to_owned())),
                _ => panic!("unknown word {word}"),
            }
        }
        self.directory.domain_set(name, &change).map(drop)
    }

    fn add_user(&self, line: &str) -> Result<(), Error> {
        let mut words = line.split_whitespace();
        let mut new = NewUser::new(words.next().expect("an address"));
        new.password = Some(password_of(&new.address));
        let mut disabled = false;
        while let Some(word) = words.next() {
            if word == "disabled" {
                disabled = true;
                continue;
            }
            let value = words.next().expect("a value").replace('_', " ");
            match word {
                "alias" => new.aliases.push(value),
                "forward" => new.forward = Some(value),
                "short" => new.short_name = Some(value),
                "full" => new.full_name = Some(value),
                "name" => {
                    let (first, last) = value.split_once(' ').expect("two names");
                    new.first_name = first.to_owned();
                    new.last_name = last.to_owned();
                }
                _ => panic!("unknown word {word}"),
            }
        }
        self.directory.user_add(&new)?;
        if disabled {
            self.directory.user_set(&new.address, &PersonChange { disabled: Some(true), ..PersonChange::default() })?;
        }
        Ok(())
    }

    fn add_group(&self, line: &str) -> Result<(), Error> {
        let (name, members) = line.split_once(':').expect("a colon");
        let (name, kind) = name.split_once(' ').unwrap_or((name, "multi-purpose"));
        let mut new = NewGroup { kind: GroupKind::from_name(kind).expect("a kind"), ..NewGroup::default() };
        if name.contains('@') {
            new.addresses.push(name.to_owned())
        } else {
            new.name = name.to_owned()
        }
        let members = members.split(',').map(str::trim).filter(|member| !member.is_empty());
        new.members = members.map(str::to_owned).collect();
        self.directory.group_add(&new).map(drop)
    }
}

/// Returns the text of an error. Panics if the outcome is not an error.
pub fn error_text<T>(outcome: Result<T, Error>) -> String {
    match outcome {
        Ok(_) => panic!("should be refused"),
        Err(error) => error.to_string(),
    }
}

/// Returns the origin of a login over IMAP from an address.
pub fn imap(address: IpAddr) -> LoginOrigin {
    LoginOrigin {
        address: Some(std::net::SocketAddr::new(address, 40_000)),
        ..LoginOrigin::local(sasl::LoginProtocol::Imap)
    }
}
