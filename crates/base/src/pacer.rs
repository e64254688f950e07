//! Long work that lets other work have a turn.
//!
//! A worker cannot be taken from the code that it runs. So code whose work grows with the data counts its steps with a
//! [`Pacer`], at places where it holds no lock. The owner of the worker decides what happens there: nothing, a pause in
//! which the worker does other work, or the end of the work.

use std::fmt;

/// The work must end before it is complete. Its caller repeats it in another way, or does not want its result any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the work was interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Counts the steps of long work.
pub trait Pacer: Send + Sync {
    /// Counts steps of about a microsecond each. May pause the calling thread, so the caller must hold no lock that
    /// others may wait for.
    ///
    /// Returns [`Interrupted`] if the work must end now.
    fn spend(&self, steps: u64) -> Result<(), Interrupted>;
}

/// A pacer for work that never pauses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unpaced;

impl Pacer for Unpaced {
    fn spend(&self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}
