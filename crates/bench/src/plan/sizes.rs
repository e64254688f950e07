//! Sizes of messages, drawn from size profiles.

use super::stream::Stream;
use crate::workload::profile::{SizeProfile, SizeRow};

/// Draws a row of a profile, each as often as its share says.
pub fn draw<'p>(profile: &'p SizeProfile, stream: &mut Stream) -> &'p SizeRow {
    let all: u64 = profile.rows.iter().map(|row| u64::from(row.share.millionths())).sum();
    let mut number = stream.below(all);
    let mut rows = profile.rows.iter();
    let drawn = rows.find(|row| {
        let share = u64::from(row.share.millionths());
        let is_drawn = number < share;
        number = number.saturating_sub(share);
        is_drawn
    });
    drawn.expect("the number is below the sum of the shares")
}
