//! Assertions for code that serves requests: [`always!`](crate::always) and [`never!`](crate::never).
//!
//! A broken invariant in `store`, `notes` or `replica` must stop the program before it damages data: those use
//! `assert!`. A broken invariant while answering one peer must not take the other peers down: protocol code
//! uses these macros, which evaluate to the condition, so that the caller can refuse and go on:
//!
//! ```
//! fn reply(state: u8) -> Result<(), &'static str> {
//!     if !base::always!(state < 4, "a session has four states") {
//!         return Err("internal error");
//!     }
//!     Ok(())
//! }
//! assert!(reply(1).is_ok());
//! ```
//!
//! A failure is reported once per call site through the sink set with [`set_sink`]; without one it goes to
//! standard error.

use std::sync::OnceLock;

/// Receives the text and the place (`file:line`) of a broken invariant.
pub type Sink = fn(message: &str, place: &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Says where reports of broken invariants go; the first call wins.
pub fn set_sink(sink: Sink) {
    let _ = SINK.set(sink);
}

/// Reports a broken invariant. Called by the macros.
#[doc(hidden)]
pub fn report(message: &str, place: &str) {
    match SINK.get() {
        Some(sink) => sink(message, place),
        None => eprintln!("broken invariant at {place}: {message}"),
    }
}

/// Evaluates to the condition; reports when it is false, which should never happen.
#[macro_export]
macro_rules! always {
    ($condition:expr, $message:expr) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::check::report($message, concat!(file!(), ":", line!()));
        }
        holds
    }};
}

/// Evaluates to the condition; reports when it is true, which should never happen.
#[macro_export]
macro_rules! never {
    ($condition:expr, $message:expr) => {
        !$crate::always!(!$condition, $message)
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_macros_evaluate_to_their_condition() {
        assert!(always!(1 + 1 == 2, "arithmetic"));
        assert!(!never!(1 + 1 == 3, "arithmetic"));
    }
}
