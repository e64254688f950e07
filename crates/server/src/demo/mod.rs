//! The demo: a domain, people, a group and mail of many kinds in a data folder, made on its first start.
//!
//! Ports are unprivileged and on loopback; a configuration file and `--set` still count. Passwords are drawn at random on the first
//! start, kept in `demo-passwords.txt` (mode 0600) and printed at every start. Mail goes through the real router, as if it had come in over SMTP.
//! Whether the demo was set up is told by its last step, so a first start that was interrupted is repeated.

pub mod letters;

use base::Random;
use directory::{DomainChange, NewUser};
use mail::router::{Envelope, Recipient};

use crate::admin::{Failure, domains, groups, people};
use crate::core::Core;
use crate::data::{DataError, read_limited, write_private};

/// The demo's mail domain.
pub const DOMAIN: &str = "demo.test";

/// What the demo puts below the configuration file.
pub const PRESET: [&str; 13] = [
    "server.name=localhost",
    "server.organization=Demo",
    "server.data=demo-data",
    "listen.smtp=127.0.0.1:1025",
    "listen.submission=127.0.0.1:1587",
    "listen.submission_tls=127.0.0.1:1465",
    "listen.imap=127.0.0.1:1143",
    "listen.imap_tls=127.0.0.1:1993",
    "listen.pop3=127.0.0.1:1110",
    "listen.pop3_tls=127.0.0.1:1995",
    "listen.lmtp=lmtp.sock",
    "listen.admin=127.0.0.1:8080",
    "router.outbound=false",
];

/// Characters of passwords: none that look alike.
const ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Why the demo cannot be set up. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The administration refuses.
    #[error(transparent)]
    Admin(#[from] Failure),
    /// Mail refuses.
    #[error(transparent)]
    Mail(#[from] mail::Error),
    /// The directory refuses.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The passwords cannot be kept.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Sets the demo up unless it is; gives the logins with their passwords.
pub fn set_up(core: &Core) -> Result<Vec<(String, String)>, DemoError> {
    let passwords = passwords(core)?;
    if core.directory.group(letters::GROUP)?.is_some() {
        return Ok(passwords);
    }
    if !core.directory.domain_is_local(DOMAIN)? {
        domains::add(core, DOMAIN, None)?;
    }
    for ((address, name), (_, password)) in letters::PEOPLE.iter().zip(&passwords) {
        if core.directory.person(address)?.is_none() {
            let (first_name, last_name) = name.split_once(' ').unwrap_or(("", name));
            let new = NewUser {
                first_name: first_name.to_owned(),
                last_name: last_name.to_owned(),
                password: Some(password.clone().into_bytes()),
                ..NewUser::new(address)
            };
            people::add(core, &new)?;
        }
    }
    let postmaster =
        DomainChange { postmaster: Some(Some(letters::PEOPLE[0].0.to_owned())), ..DomainChange::default() };
    core.directory.domain_set(DOMAIN, &postmaster)?;
    post(core)?;
    // The group comes last: it tells that everything before it is done.
    let members = letters::PEOPLE.iter().map(|(address, _)| (*address).to_owned()).collect();
    groups::add(core, letters::GROUP, members)?;
    Ok(passwords)
}

/// Sends the letters. Those to the group go to its members, because the group is not there yet.
fn post(core: &Core) -> Result<(), DemoError> {
    let mut last = store::Ticket::NONE;
    for (number, letter) in (1..).zip(letters::letters(core.clock.now(), core.random.as_ref())) {
        let everybody = letters::PEOPLE.iter().map(|(address, _)| *address);
        let to_group = letter.to.contains(&letters::GROUP);
        let direct = letter.to.iter().copied().filter(|address| *address != letters::GROUP);
        let addresses = direct.chain(everybody.filter(|_| to_group));
        let envelope = Envelope {
            id: format!("demo-{number}"),
            reverse_path: letter.from.to_owned(),
            recipients: addresses.map(Recipient::new).collect(),
            ..Envelope::default()
        };
        last = last.max(core.router.accept(&envelope, &letter.raw)?.ticket);
    }
    Ok(core.store.durable(last).wait()?)
}

/// Reads the passwords, or draws them.
fn passwords(core: &Core) -> Result<Vec<(String, String)>, DataError> {
    let path = core.data.demo_passwords();
    if !path.exists() {
        let line = |(address, _): &(&str, &str)| format!("{address} {}\n", password(core.random.as_ref()));
        let text: String = letters::PEOPLE.iter().map(line).collect();
        write_private(&path, text.as_bytes())?;
    }
    let text = read_limited(&path, 64 << 10)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(who, what)| (who.to_owned(), what.to_owned()))
        .collect())
}

fn password(random: &dyn Random) -> String {
    let letter = |_| char::from(ALPHABET.get(random.below(ALPHABET.len() as u64) as usize).copied().unwrap_or(b'x'));
    let groups: Vec<String> = (0..4).map(|_| (0..4).map(letter).collect()).collect();
    groups.join("-")
}
