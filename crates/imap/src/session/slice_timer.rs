//! The time that a command may use before other work gets its turn.

use std::sync::Arc;
use std::time::Duration;

use base::Clock;

use super::SessionContext;
use crate::limits;

/// The time since a slice of a command began.
pub struct SliceTimer {
    clock: Arc<dyn Clock>,
    started: Duration,
}

impl SliceTimer {
    /// Starts the timer.
    #[must_use]
    pub fn start(context: &SessionContext) -> Self {
        let clock = Arc::clone(&context.clock);
        Self { started: clock.monotonic(), clock }
    }

    /// Returns `true` if the slice has used its time and should end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.clock.monotonic().saturating_sub(self.started) >= limits::SLICE_TIME
    }
}
