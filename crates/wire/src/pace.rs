//! The pace of a peer that sends something long: a message body, or a command of many bytes.
//!
//! An idle time that each byte renews does not end a peer that sends one byte a minute, and such a peer keeps the
//! memory that was reserved for it. [`Pace`] therefore limits the time since the beginning of a transfer: a grace, and
//! the time that the received bytes may take at [`TRANSFER_RATE_MIN`].

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::TRANSFER_RATE_MIN;

/// The progress of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferProgress {
    /// A number that distinguishes the transfer from the others of its connection.
    pub number: u64,
    /// Number of bytes received so far.
    pub received_bytes: u64,
}

/// Measures the transfers of a connection, one after the other.
#[derive(Debug, Default)]
pub struct Pace {
    /// The number of the present transfer and its beginning.
    current: Option<(u64, Instant)>,
}

impl Pace {
    /// Returns the time at which the peer is too slow unless more bytes arrive, or `None` without a transfer. A
    /// transfer begins with the first call that has its number.
    pub fn deadline(&mut self, progress: Option<TransferProgress>, grace: Duration) -> Option<Instant> {
        let Some(progress) = progress else {
            self.current = None;
            return None;
        };
        let begun = match self.current {
            Some((number, begun)) if number == progress.number => begun,
            _ => Instant::now(),
        };
        self.current = Some((progress.number, begun));
        let earned = Duration::from_millis(progress.received_bytes.saturating_mul(1_000) / TRANSFER_RATE_MIN);
        begun.checked_add(grace)?.checked_add(earned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);

    fn transfer(number: u64, received_bytes: u64) -> Option<TransferProgress> {
        Some(TransferProgress { number, received_bytes })
    }

    #[tokio::test(start_paused = true)]
    async fn received_bytes_extend_the_time() {
        let begun = Instant::now();
        let mut pace = Pace::default();
        assert_eq!(pace.deadline(transfer(1, 0), GRACE), Some(begun + GRACE));
        tokio::time::advance(GRACE).await;
        assert_eq!(pace.deadline(transfer(1, 1), GRACE), Some(begun + GRACE), "a byte is not enough");
        let minute = Duration::from_secs(60);
        assert_eq!(pace.deadline(transfer(1, 60 * TRANSFER_RATE_MIN), GRACE), Some(begun + GRACE + minute));
    }

    #[tokio::test(start_paused = true)]
    async fn each_transfer_has_its_own_beginning() {
        let mut pace = Pace::default();
        pace.deadline(transfer(1, 5_000), GRACE);
        tokio::time::advance(GRACE).await;
        assert_eq!(pace.deadline(transfer(2, 0), GRACE), Some(Instant::now() + GRACE));
        tokio::time::advance(GRACE).await;
        assert_eq!(pace.deadline(None, GRACE), None);
        assert_eq!(pace.deadline(transfer(2, 0), GRACE), Some(Instant::now() + GRACE));
        assert_eq!(pace.deadline(transfer(2, u64::MAX), Duration::MAX), None, "no time limit");
    }
}
