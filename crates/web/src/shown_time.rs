//! Times as pages show them: in the time zone that the person has chosen, or in UTC.
//!
//! The zones are those of the IANA time zone database, which is compiled in (`jiff`). A zone that it does not have is
//! UTC, as the foot of each page says.

use base::Timestamp;
use jiff::tz;

/// The time zone of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownZone(tz::TimeZone);

impl Default for ShownZone {
    fn default() -> Self {
        Self(tz::TimeZone::UTC)
    }
}

impl ShownZone {
    /// Returns the zone with a name, or `None` if there is none.
    #[must_use]
    pub fn with_name(name: &str) -> Option<Self> {
        tz::TimeZone::get(name).ok().map(Self)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns a time to the minute.
    #[must_use]
    pub fn minute(&self, time: Timestamp) -> String {
        self.formatted("%Y-%m-%d %H:%M", time)
    }

    /// Returns a time to the minute, with the abbreviation of the zone.
    #[must_use]
    pub fn minute_and_zone(&self, time: Timestamp) -> String {
        self.formatted("%Y-%m-%d %H:%M %Z", time)
    }

    fn formatted(&self, format: &str, time: Timestamp) -> String {
        let moment = jiff::Timestamp::from_microsecond(time.0);
        // A time beyond the calendar is at its end.
        let end = if time.0 < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        moment.unwrap_or(end).to_zoned_datetime(self.0.clone()).strftime(format).to_string()
    }
}

/// Returns the names of all zones, for a list of choices.
pub(crate) fn names() -> Vec<String> {
    tz::db().available().map(|name| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_zone_with_its_summer_time() {
        let check = |zone: &str, seconds: i64, expected: &str| {
            let zone = ShownZone::with_name(zone).expect("it exists");
            assert_eq!(zone.minute_and_zone(Timestamp::from_seconds(seconds)), expected);
        };
        check("Europe/Zurich", 1_767_614_400, "2026-01-05 13:00 CET");
        check("Europe/Zurich", 1_783_252_800, "2026-07-05 14:00 CEST");
        check("Asia/Kolkata", 1_767_614_400, "2026-01-05 17:30 IST");
        check("America/Sao_Paulo", 1_767_614_400, "2026-01-05 09:00 -03");
        check("UTC", 1_767_614_400, "2026-01-05 12:00 UTC");
        assert_eq!(ShownZone::default().minute(Timestamp::from_seconds(1_767_614_400)), "2026-01-05 12:00");
    }

    #[test]
    fn names_that_are_unknown_and_times_beyond_the_calendar_are_bearable() {
        assert_eq!(ShownZone::with_name("Europe/Nowhere"), None);
        assert_eq!(ShownZone::default().name(), "UTC");
        assert!(ShownZone::default().minute(Timestamp(i64::MAX)).starts_with("9999-"));
        assert!(names().iter().any(|name| name == "Europe/Zurich"));
    }
}
