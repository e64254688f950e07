//! Assertions for code that serves requests: [`always!`](crate::always) and [`never!`](crate::never).
//!
//! A broken invariant in a crate that writes data, such as `store` or `notes`, must stop the program before it damages
//! data. Those crates use `assert!`. A broken invariant while answering one peer must not affect the other peers.
//! Protocol code uses these macros, which evaluate to the condition, so that the caller can refuse the request and
//! continue:
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
//! A failure is reported through the sink set with [`set_sink`]. Without a sink it is written to standard error.

use std::sync::OnceLock;

/// A receiver of the text and the place (`file:line`) of a broken invariant.
pub type Sink = fn(message: &str, place: &str);

static SINK: OnceLock<Sink> = OnceLock::new();

/// Sets the sink for reports of broken invariants. Only the first call has an effect.
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

/// Evaluates to the condition. Reports a broken invariant if it is `false`.
#[macro_export]
macro_rules! always {
    ($condition:expr, $message:expr) => {{
        let holds: bool = $condition;
        if !holds {
            $crate::assertions::report($message, concat!(file!(), ":", line!()));
        }
        holds
    }};
}

/// Evaluates to the condition. Reports a broken invariant if it is `true`.
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
