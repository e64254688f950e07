//! Formats of dates, times and numbers.

/// The order of the parts of a date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DateOrder {
    /// The order of 12/31/2024.
    MonthDayYear,
    /// The order of 31.12.2024.
    DayMonthYear,
    /// The order of 2024-12-31.
    YearMonthDay,
}

/// The notation of a country. A formula is compiled for one locale. Numbers in the formula itself always have a decimal
/// point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locale {
    /// The order of the parts of a date.
    pub date_order: DateOrder,
    /// The separator between the parts of a date.
    pub date_separator: char,
    /// The separator between hours, minutes and seconds.
    pub time_separator: char,
    /// `true` if hours range from 1 to 12, with AM and PM.
    pub twelve_hours: bool,
    /// The decimal separator.
    pub decimal: char,
    /// The separator between groups of three digits.
    pub thousands: char,
    /// The currency symbol, written before the number.
    pub currency: &'static str,
}

impl Default for Locale {
    fn default() -> Self {
        Self::AMERICAN
    }
}

impl Locale {
    /// The American notation, used in Domino's examples: 12/31/2024 11:59:00 PM, 1,234.5, $1.00.
    pub const AMERICAN: Self = Self {
        date_order: DateOrder::MonthDayYear,
        date_separator: '/',
        time_separator: ':',
        twelve_hours: true,
        decimal: '.',
        thousands: ',',
        currency: "$",
    };

    /// The German notation: 31.12.2024 23:59:00, 1.234,5, €1,00.
    pub const GERMAN: Self = Self {
        date_order: DateOrder::DayMonthYear,
        date_separator: '.',
        time_separator: ':',
        twelve_hours: false,
        decimal: ',',
        thousands: '.',
        currency: "€",
    };

    /// ISO 8601, except for the space between date and time: 2024-12-31 23:59:00.
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
