//! Work on large data that is part of an asynchronous task.
//!
//! A network thread serves many connections. Work that reads a large message keeps it from them. [`run_long`] lets
//! another thread go on with the other tasks in the meantime.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::limits::SHORT_WORK_BYTES_MAX;

/// Runs work that reads `bytes` bytes, without keeping other tasks from the current thread if that would take long.
///
/// On a runtime of one thread, as in tests, and outside of a runtime, the work runs as it is.
pub fn run_long<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let is_long = bytes > SHORT_WORK_BYTES_MAX;
    let has_threads = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if is_long && has_threads() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn other_tasks_of_the_thread_run_during_long_work() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a thread");
        let (sender, receiver) = mpsc::channel();
        let long = runtime.spawn(async move {
            tokio::spawn(async move { sender.send("another task") });
            run_long(SHORT_WORK_BYTES_MAX + 1, move || receiver.recv())
        });
        assert_eq!(runtime.block_on(long).expect("no panic"), Ok("another task"));
    }

    #[tokio::test]
    async fn long_work_runs_on_a_runtime_of_one_thread() {
        assert_eq!(run_long(usize::MAX, || 7), 7);
    }
}
