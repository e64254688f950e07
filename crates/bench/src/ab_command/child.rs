//! Processes of this program, one after the other.
//!
//! A process has a group of its own, so that Ctrl-C at the terminal reaches only this program, which passes it on once
//! and waits for the process, whose report says that it was broken off.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use base::sync::Mutex;
use bench::report::verdict::State;
use rustix::process::{Pid, Signal, kill_process};

use crate::arguments::Result;
use crate::run_command::interrupts::Interrupts;

/// What the task of the signals shares with the processes. Both look at it and change it in one step, so that a signal
/// ends the process that begins, or prevents it.
#[derive(Default)]
struct Shared {
    /// The process that runs now.
    process: Option<Pid>,
    /// A signal has come, and no further process is started.
    is_stopped: bool,
}

/// Runs processes of this program.
pub struct Runner {
    program: PathBuf,
    shared: Arc<Mutex<Shared>>,
    /// Passes signals on. It ends when this is dropped.
    _signals: tokio::runtime::Runtime,
}

/// A process that has ended.
pub struct Ended {
    /// Its exit code.
    pub code: u8,
    /// The path that it has printed last.
    pub path: Option<PathBuf>,
}

impl Runner {
    /// Prepares for signals.
    pub fn new() -> io::Result<Self> {
        let shared = Arc::<Mutex<Shared>>::default();
        let signals = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let by_task = Arc::clone(&shared);
        let mut interrupts = {
            let _context = signals.enter();
            Interrupts::new()?
        };
        signals.spawn(async move {
            loop {
                interrupts.next().await;
                let mut shared = by_task.lock();
                shared.is_stopped = true;
                if let Some(process) = shared.process {
                    // An error means that it has just ended.
                    let _ = kill_process(process, Signal::INT);
                }
            }
        });
        Ok(Self { program: std::env::current_exe()?, shared, _signals: signals })
    }

    /// Returns `true` if a signal has come, so that no further process is started.
    pub fn is_stopped(&self) -> bool {
        self.shared.lock().is_stopped
    }

    /// Runs this program with other words, and waits until it has ended. After a signal, the process counts as broken
    /// off and is not started.
    pub fn run(&self, words: &[String]) -> Result<Ended> {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let Some(child) = self.spawn(&mut command)? else {
            return Ok(Ended { code: State::BrokenOff.exit_code(), path: None });
        };
        let output = child.wait_with_output();
        self.shared.lock().process = None;
        let output = output?;
        let code = output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        let text = String::from_utf8_lossy(&output.stdout);
        let path = text.lines().next_back().filter(|line| !line.is_empty()).map(PathBuf::from);
        Ok(Ended { code, path })
    }

    /// Starts a process, unless a signal has come.
    fn spawn(&self, command: &mut Command) -> io::Result<Option<Child>> {
        let mut shared = self.shared.lock();
        if shared.is_stopped {
            return Ok(None);
        }
        let child = command.spawn()?;
        shared.process = Pid::from_raw(child.id().cast_signed());
        Ok(Some(child))
    }

    /// Blocks further processes, as a signal does.
    #[cfg(test)]
    pub fn stop(&self) {
        self.shared.lock().is_stopped = true;
    }
}
