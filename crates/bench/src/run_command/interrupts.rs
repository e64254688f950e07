//! The signals that end a run.

use std::convert::Infallible;

use bench::engine::run::StopRequest;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The signals that end a run: Ctrl-C, and the one of `kill`. From the moment at which this exists, they do not end the
/// process, so that a server that was started is always ended.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Takes the signals from now on.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Passes signals on to a run: the first one ends it, and further ones abort it.
    pub async fn forward(&mut self, sender: &watch::Sender<StopRequest>) -> Infallible {
        let mut request = StopRequest::CoolDown;
        loop {
            self.next().await;
            eprintln!("the run ends; Ctrl-C again ends it at once");
            sender.send_replace(request);
            request = StopRequest::AtOnce;
        }
    }
}
