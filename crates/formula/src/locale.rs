//! How dates, times and numbers are written and read.

/// The order of the parts of a date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateOrder {
    /// 12/31/2024
    MonthDayYear,
    /// 31.12.2024
    DayMonthYear,
    /// 2024-12-31
    YearMonthDay,
}

/// The customs of a country. A formula is compiled for one; numbers in the formula itself have a point whatever it says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locale {
    /// The order of the parts of a date.
    pub date_order: DateOrder,
    /// What stands between them.
    pub date_separator: char,
    /// What stands between hours, minutes and seconds.
    pub time_separator: char,
    /// Whether hours go from 1 to 12, with AM and PM.
    pub twelve_hours: bool,
    /// What stands before the decimals.
    pub decimal: char,
    /// What stands between groups of three digits.
    pub thousands: char,
    /// The sign of the currency, before the number.
    pub currency: &'static str,
}

impl Default for Locale {
    fn default() -> Self {
        Self::AMERICAN
    }
}

impl Locale {
    /// As the examples of the original are written: 12/31/2024 11:59:00 PM, 1,234.5, $1.00.
    pub const AMERICAN: Self = Self {
        date_order: DateOrder::MonthDayYear,
        date_separator: '/',
        time_separator: ':',
        twelve_hours: true,
        decimal: '.',
        thousands: ',',
        currency: "$",
    };

    /// As in Germany: 31.12.2024 23:59:00, 1.234,5, €1,00.
    pub const GERMAN: Self = Self {
        date_order: DateOrder::DayMonthYear,
        date_separator: '.',
        time_separator: ':',
        twelve_hours: false,
        decimal: ',',
        thousands: '.',
        currency: "€",
    };

    /// ISO 8601, but for the blank between date and time: 2024-12-31 23:59:00.
    pub const ISO: Self = Self {
        date_order: DateOrder::YearMonthDay,
        date_separator: '-',
        time_separator: ':',
        twelve_hours: false,
        decimal: '.',
        thousands: ',',
        currency: "¤",
    };
}
