//! Appends messages to one mailbox one after another and measures each. The times show whether a large mailbox is as
//! fast as a small one.

use crate::arguments::{Arguments, Result};
use crate::corpus;
use crate::measurements::{self, Measurements, Stopwatch};
use crate::users::{self, ImapServer};
use bench::random::SplitMix64;

/// Appends the messages and prints the times.
pub fn run(arguments: &Arguments) -> Result<()> {
    users::single_runtime()?.block_on(append(arguments))
}

async fn append(arguments: &Arguments) -> Result<()> {
    let user: usize = arguments.get_or("user", 1)?;
    let count: usize = arguments.get_or("count", 1_000)?;
    let size: usize = arguments.get_or("size", 10_240)?;
    let mailbox = arguments.get_or("mailbox", "INBOX".to_owned())?;
    let mut numbers = SplitMix64::new(arguments.get_or("seed", 7)?);
    let mut client = ImapServer::from_arguments(arguments)?.log_in(user).await?;
    let figures = Measurements::default();
    let watch = Stopwatch::start();
    for index in 0..count {
        let message = corpus::message(&mut numbers, index, user, size);
        figures.timed("APPEND", client.append(&mailbox, "\\Seen", message.as_bytes())).await?;
    }
    measurements::print(&figures.summary(watch.elapsed().as_secs_f64()))?;
    Ok(client.command("LOGOUT").await?)
}
