//! Appends messages to one mailbox one after another and measures each. The times show whether a large mailbox is as
//! fast as a small one.

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::imap_client::ImapClient;
use crate::measurements::{Measurements, Stopwatch};
use bench::random::SplitMix64;

/// Appends the messages and prints the times.
pub fn run(arguments: &Arguments) -> Result<()> {
    let user: usize = arguments.get_or("user", 1)?;
    let count: usize = arguments.get_or("count", 1_000)?;
    let size: usize = arguments.get_or("size", 10_240)?;
    let mailbox = arguments.get_or("mailbox", "INBOX".to_owned())?;
    let mut numbers = SplitMix64::new(arguments.get_or("seed", 7)?);
    let mut client = ImapClient::connect(arguments.text("address")?)?;
    client.login(user, arguments.text("password")?)?;
    let mut figures = Measurements::default();
    let watch = Stopwatch::start();
    for index in 0..count {
        let message = corpus::message(&mut numbers, index, user, size);
        client.timed(&mut figures, "APPEND", |client| client.append(&mailbox, "\\Seen", message.as_bytes()));
    }
    println!("{}", figures.json(watch.elapsed().as_secs_f64()));
    client.command("LOGOUT")
}
