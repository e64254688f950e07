//! The progress of a step on a terminal: one line of standard error that is redrawn in place.
//!
//! The line shows the step, a bar if the total is known, the amounts, the average rate, and the time that is left at
//! this rate. It is shorter than the terminal is wide, because a wrapped line cannot be redrawn.

use std::io::Write;
use std::time::Duration;

use admin::Progress;

use super::terminal::format_amount;
use super::terminal_text::{one_line, truncate, width};

/// Minimum time between two drawings.
const REDRAW_PAUSE: Duration = Duration::from_millis(100);

/// Number of columns of a terminal that does not report it.
const COLUMNS_DEFAULT: usize = 80;

/// Maximum length of the bar.
const BAR_COLUMNS_MAX: usize = 40;

/// Length below which the bar is left out.
const BAR_COLUMNS_MIN: usize = 8;

/// The line of a step.
pub(super) struct ProgressLine {
    /// The time at which the step began.
    begun: Duration,
    /// The time of the last drawing.
    drawn: Option<Duration>,
}

impl ProgressLine {
    pub(super) fn begin(now: Duration) -> Self {
        Self { begun: now, drawn: None }
    }

    /// Shows the line, unless it was drawn a moment ago and the step is not complete.
    pub(super) fn draw(&mut self, progress: &Progress, now: Duration) {
        let is_due = self.drawn.is_none_or(|drawn| now.saturating_sub(drawn) >= REDRAW_PAUSE);
        if !is_due && progress.total != Some(progress.done) {
            return;
        }
        self.drawn = Some(now);
        let line = format_line(progress, now.saturating_sub(self.begun), terminal_columns());
        // Returns to the first column, and erases the rest of a longer line.
        let _ = write!(std::io::stderr(), "\r{line}\u{1b}[K");
    }

    /// Ends the line. Later output begins below it.
    pub(super) fn finish(self) {
        let _ = writeln!(std::io::stderr());
    }
}

fn terminal_columns() -> usize {
    let reported = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if reported == 0 { COLUMNS_DEFAULT } else { reported }
}

/// Formats the line for a terminal of `columns` columns.
fn format_line(progress: &Progress, elapsed: Duration, columns: usize) -> String {
    let step = one_line(&progress.step);
    let amounts = format_amounts(progress, elapsed);
    let columns_max = columns.saturating_sub(1);
    // The step and the brackets of the bar are followed by blanks.
    let taken = width(&step) + width(&amounts) + 4;
    let bar_columns = columns_max.saturating_sub(taken).min(BAR_COLUMNS_MAX);
    let line = match progress.total {
        Some(total) if bar_columns >= BAR_COLUMNS_MIN => {
            let part = progress.done as f64 / total.max(1) as f64;
            let filled = ((part * bar_columns as f64) as usize).min(bar_columns);
            let bar = format!("{}{}", "#".repeat(filled), "-".repeat(bar_columns - filled));
            format!("{step} [{bar}] {amounts}")
        }
        _ => format!("{step} {amounts}"),
    };
    truncate(line, columns_max)
}

/// Formats the amounts, the rate, and the time that is left.
fn format_amounts(progress: &Progress, elapsed: Duration) -> String {
    let mut text = format_amount(progress.done, progress.unit);
    if let Some(total) = progress.total {
        text.push_str(&format!(" of {}", format_amount(total, progress.unit)));
    }
    let rate = progress.done as f64 / elapsed.as_secs_f64().max(0.001);
    if rate < 1.0 {
        return text;
    }
    text.push_str(&format!(", {}/s", format_amount(rate as u64, progress.unit)));
    if let Some(left) = progress.total.and_then(|total| total.checked_sub(progress.done)).filter(|left| *left > 0) {
        text.push_str(&format!(", {} left", format_time(left as f64 / rate)));
    }
    text
}

/// Formats a number of seconds with its largest unit.
fn format_time(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    let hours = minutes / 60.0;
    if seconds < 100.0 {
        format!("{seconds:.0} s")
    } else if minutes < 100.0 {
        format!("{minutes:.0} min")
    } else {
        format!("{hours:.0} h")
    }
}

#[cfg(test)]
mod tests {
    use admin::Unit;

    use super::*;

    fn progress(done: u64, total: Option<u64>) -> Progress {
        Progress { step: "importing a\u{7}.mbox".to_owned(), done, total, unit: Unit::Messages }
    }

    #[test]
    fn line_has_bar_amounts_rate_and_time_left() {
        let check = |done, total, seconds, columns, expected: &str| {
            let line = format_line(&progress(done, total), Duration::from_secs(seconds), columns);
            assert_eq!(line, expected);
            assert!(width(&line) < columns);
        };
        let quarter = "importing a .mbox [##########------------------------------] \
                       50 messages of 200 messages, 5 messages/s, 30 s left";
        check(50, Some(200), 10, 200, quarter);
        let whole = "importing a .mbox [########################################] \
                     200 messages of 200 messages, 20 messages/s";
        check(200, Some(200), 10, 200, whole);
        let narrow = "importing a .mbox 50 messages of 200 messages, 5 messages/s, 30 s left";
        check(50, Some(200), 10, 80, narrow);
        check(50, Some(200), 10, 20, "importing a .mbox …");
        check(0, Some(0), 0, 60, "importing a .mbox [--------------] 0 messages of 0 messages");
        check(50, None, 10, 80, "importing a .mbox 50 messages, 5 messages/s");
        let third = "importing a .mbox [###########------------------------] 1 message of 3 messages";
        check(1, Some(3), 10, 80, third);
    }

    #[test]
    fn times_have_one_unit() {
        assert_eq!([0.4, 99.0, 100.0, 7_000.0].map(format_time), ["0 s", "99 s", "2 min", "2 h"]);
    }
}
