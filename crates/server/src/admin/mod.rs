//! Administration: one implementation for the command line and for the control socket.
//!
//! [`request`] holds the words, [`answer`] what comes back. Whoever executes a [`Request`] gets progress through a closure that may
//! end the task, and an [`Answer`] or a text that says what to do next.

pub mod answer;
pub mod request;

pub use answer::{Answer, Progress, Report, Unit};
pub use request::Request;
