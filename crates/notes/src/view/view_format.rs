//! The design of a view: columns, sort orders and options, as its design note stores them (`docs/views.md`, "The design
//! note").
//!
//! [`ViewDesign::check`] reports errors to the designer with the column's title; every design that passes can be
//! indexed. The stored form is the item `$VIEWFORMAT`; name, flags and selection are items of their own, as in Domino.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::limits::ITEM_NAME_BYTES_MAX;
use icu_locale_core::Locale;

use crate::error::{Error, Result};
use crate::limits::{
    COLUMN_FORMAT_BYTES_MAX, COLUMN_TITLE_BYTES_MAX, FORMULA_BYTES_MAX, VIEW_COLLATIONS_MAX, VIEW_COLUMNS_MAX,
    VIEW_LOCALE_BYTES_MAX,
};
use crate::view::sort_key::{SortDirection, TextComparison};

/// Version of the stored form.
const VERSION: u8 = 1;

/// The design of a view without its name and selection.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ViewDesign {
    /// Locale of the text order (BCP 47); empty for the root order.
    pub locale: String,
    /// `true` if responses stand under their parents.
    pub shows_response_hierarchy: bool,
    /// `true` if conflict documents are left out.
    pub no_conflicts: bool,
    /// `true` if categories are collapsed when the view is opened.
    pub collapsed: bool,
    /// The time at which the index follows the documents.
    pub refresh: Refresh,
    /// The columns of a calendar view with the beginning of an entry, and with its end or its duration in minutes.
    pub range: Option<(u8, u8)>,
    /// The columns, from left to right.
    pub columns: Vec<Column>,
}

/// The time at which an index follows the documents.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Refresh {
    /// At every change, in the background and when the view is opened.
    #[default]
    Automatic,
    /// When the view is opened; after the first opening also in the background.
    AfterFirstUse,
    /// Only on request.
    Manual,
    /// When the view is opened and the number of hours has passed since the last refresh.
    Hours(u16),
}

/// The values of a view column.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Column {
    /// The title above the column.
    pub title: String,
    /// The name by which programs refer to the column. Without a formula it is also the name of the item that the
    /// column shows.
    pub item: String,
    /// The formula for the value. Without a formula the column shows the item.
    pub formula: Option<String>,
    /// The direction in which the column sorts the rows.
    pub sort: Option<SortDirection>,
    /// `true` if equal values form a category.
    pub categorized: bool,
    /// `true` if each value of a list makes an entry of its own.
    pub multi_value: bool,
    /// `true` if the column is stored but not shown.
    pub hidden: bool,
    /// `true` if the column is shown for responses only.
    pub for_responses: bool,
    /// The differences between texts that count for the order.
    pub differences: TextComparison,
    /// The orders that a click on the column selects.
    pub clicks: ClickSorts,
    /// The total of the column.
    pub total: Total,
    /// The display format of values, for clients.
    pub format: Vec<u8>,
}

/// The orders that a click on a column can select.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClickSorts {
    /// Ascending.
    pub ascending: bool,
    /// Descending.
    pub descending: bool,
}

/// The total of a column.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Total {
    /// No total.
    #[default]
    None,
    /// The sum.
    Sum,
    /// The average per document.
    Average,
    /// The share of the parent's sum.
    PercentOfParent,
    /// The share of the grand total.
    PercentOfAll,
    /// The average of the sub-categories' sums.
    AveragePerChild,
}

/// An order of the rows: columns by their index, and directions.
pub type Collation = Vec<(usize, SortDirection)>;

impl ViewDesign {
    /// Checks that a view with this design can be indexed.
    pub fn check(&self) -> Result<()> {
        if self.columns.len() > VIEW_COLUMNS_MAX {
            return Err(Error::Limit { what: "columns of a view", max: VIEW_COLUMNS_MAX });
        }
        if self.collations().len() > VIEW_COLLATIONS_MAX {
            return Err(Error::Limit { what: "sort orders of a view", max: VIEW_COLLATIONS_MAX });
        }
        self.check_locale()?;
        let mut is_behind = false;
        for column in &self.columns {
            column.check(is_behind)?;
            is_behind |= column.sort.is_some() && !column.categorized;
        }
        self.range.map_or(Ok(()), |(begin, end)| self.check_range(begin, end))
    }

    fn check_locale(&self) -> Result<()> {
        let is_known = || self.locale.is_empty() || self.locale.parse::<Locale>().is_ok();
        if self.locale.len() > VIEW_LOCALE_BYTES_MAX || !is_known() {
            let what = format!("locale {:?}", self.locale.chars().take(VIEW_LOCALE_BYTES_MAX).collect::<String>());
            return Err(Error::invalid(what, "not a BCP 47 language tag, such as sv or de-AT"));
        }
        Ok(())
    }

    /// Refuses a calendar view whose rows are not sorted by their beginnings.
    fn check_range(&self, begin: u8, end: u8) -> Result<()> {
        let wrong = |reason: &str| Err(Error::invalid("range of a calendar view", reason));
        if usize::from(begin.max(end)) >= self.columns.len() {
            return wrong("it names a column that the view does not have");
        }
        if begin == end {
            return wrong("the start and the end must be different columns");
        }
        if self.shows_response_hierarchy
            || self.sorted().next() != Some((usize::from(begin), SortDirection::Ascending))
            || self.category_columns() > 0
        {
            return wrong(
                "the start column must be the first sorted column, in ascending order, in a view without categories and responses",
            );
        }
        Ok(())
    }

    /// Returns the orders in which the rows are kept: the columns' own order first, then one for each click.
    #[must_use]
    pub fn collations(&self) -> Vec<Collation> {
        let own: Collation = self.sorted().collect();
        let mut all = vec![own.clone()];
        for (index, column) in self.columns.iter().enumerate() {
            for (wanted, order) in [
                (column.clicks.ascending, SortDirection::Ascending),
                (column.clicks.descending, SortDirection::Descending),
            ] {
                let clicked: Collation = std::iter::once((index, order))
                    .chain(own.iter().copied().filter(|(other, _)| *other != index))
                    .collect();
                if wanted && !all.contains(&clicked) {
                    all.push(clicked);
                }
            }
        }
        all
    }

    /// Returns the number of categorized columns.
    #[must_use]
    pub fn category_columns(&self) -> usize {
        self.columns.iter().filter(|column| column.categorized).count()
    }

    fn sorted(&self) -> impl Iterator<Item = (usize, SortDirection)> {
        self.columns.iter().enumerate().filter_map(|(index, column)| Some((index, column.sort?)))
    }

    /// Encodes the design.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(64 * (1 + self.columns.len()));
        out.u8(VERSION).text(&self.locale);
        out.u32(pack_flags(&[self.shows_response_hierarchy, self.no_conflicts, self.collapsed]));
        let (refresh, hours) = self.refresh.numbers();
        out.u8(refresh).u16(hours);
        let (from, to) = self.range.unwrap_or((u8::MAX, u8::MAX));
        out.u8(from).u8(to).varint(self.columns.len() as u64);
        self.columns.iter().for_each(|column| column.encode(&mut out));
        out.finish()
    }

    /// Decodes a stored design.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != VERSION {
            return Err(InvalidRecord);
        }
        let locale = input.text()?.to_owned();
        let [responses, no_conflicts, collapsed] = unpack_flags(input.u32()?);
        let refresh = Refresh::of_numbers(input.u8()?, input.u16()?).ok_or(InvalidRecord)?;
        let range = Some((input.u8()?, input.u8()?)).filter(|range| *range != (u8::MAX, u8::MAX));
        let count = input.count()?;
        if count > VIEW_COLUMNS_MAX {
            return Err(InvalidRecord);
        }
        let columns = (0..count).map(|_| Column::decode(&mut input)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { locale, shows_response_hierarchy: responses, no_conflicts, collapsed, refresh, range, columns })
    }
}

impl Column {
    /// Checks that the column can be indexed. `is_behind` is `true` if a sorted column without categories precedes it.
    fn check(&self, is_behind: bool) -> Result<()> {
        let wrong = |reason: &str| Err(Error::invalid(format!("column \"{}\"", self.title), reason));
        let formula_bytes = self.formula.as_ref().map_or(0, String::len);
        for (bytes, what, max) in [
            (self.title.len(), "bytes of a column's title", COLUMN_TITLE_BYTES_MAX),
            (self.item.len(), "bytes of a column's item name", ITEM_NAME_BYTES_MAX),
            (formula_bytes, "bytes of a column's formula", FORMULA_BYTES_MAX),
            (self.format.len(), "bytes of a column's format", COLUMN_FORMAT_BYTES_MAX),
        ] {
            if bytes > max {
                return Err(Error::Limit { what, max });
            }
        }
        if self.categorized && self.sort.is_none() {
            return wrong("a categorized column must be sorted; set its sort direction");
        }
        if self.categorized && is_behind {
            return wrong("categorized columns must come before all other sorted columns");
        }
        if self.multi_value && self.sort.is_none() {
            return wrong("only a sorted column can show multiple values as separate entries");
        }
        if self.categorized && self.total != Total::None {
            return wrong("a categorized column cannot have a total");
        }
        Ok(())
    }

    fn encode(&self, out: &mut Encoder) {
        out.text(&self.title).text(&self.item);
        out.u8(u8::from(self.formula.is_some())).text(self.formula.as_deref().unwrap_or_default());
        out.u8(match self.sort {
            None => 0,
            Some(SortDirection::Ascending) => 1,
            Some(SortDirection::Descending) => 2,
        });
        let TextComparison { case, accents } = self.differences;
        let ClickSorts { ascending, descending } = self.clicks;
        let bits =
            [self.categorized, self.multi_value, self.hidden, self.for_responses, case, accents, ascending, descending];
        out.u32(pack_flags(&bits)).u8(self.total as u8).bytes(&self.format);
    }

    fn decode(input: &mut Decoder<'_>) -> std::result::Result<Self, InvalidRecord> {
        let title = input.text()?.to_owned();
        let item = input.text()?.to_owned();
        let has_formula = input.u8()? == 1;
        let formula = input.text()?.to_owned();
        let sort = match input.u8()? {
            0 => None,
            1 => Some(SortDirection::Ascending),
            2 => Some(SortDirection::Descending),
            _ => return Err(InvalidRecord),
        };
        let [categorized, separate, hidden, for_responses, case, accents, ascending, descending] =
            unpack_flags(input.u32()?);
        let total = Total::of_number(input.u8()?).ok_or(InvalidRecord)?;
        Ok(Self {
            title,
            item,
            formula: has_formula.then_some(formula),
            sort,
            categorized,
            multi_value: separate,
            hidden,
            for_responses,
            differences: TextComparison { case, accents },
            clicks: ClickSorts { ascending, descending },
            total,
            format: input.bytes()?.to_vec(),
        })
    }
}

impl Refresh {
    fn numbers(self) -> (u8, u16) {
        match self {
            Self::Automatic => (0, 0),
            Self::AfterFirstUse => (1, 0),
            Self::Manual => (2, 0),
            Self::Hours(hours) => (3, hours),
        }
    }

    fn of_numbers(number: u8, hours: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Automatic),
            1 => Some(Self::AfterFirstUse),
            2 => Some(Self::Manual),
            3 => Some(Self::Hours(hours)),
            _ => None,
        }
    }
}

impl Total {
    const ALL: [Self; 6] =
        [Self::None, Self::Sum, Self::Average, Self::PercentOfParent, Self::PercentOfAll, Self::AveragePerChild];

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Packs boolean flags, the first into the lowest bit.
fn pack_flags(bits: &[bool]) -> u32 {
    bits.iter().enumerate().map(|(index, bit)| u32::from(*bit) << index).sum()
}

fn unpack_flags<const N: usize>(flags: u32) -> [bool; N] {
    std::array::from_fn(|index| flags >> index & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &str) -> Column {
        Column { title: title.to_owned(), item: title.to_lowercase(), ..Column::default() }
    }

    fn sorted(title: &str, order: SortDirection) -> Column {
        Column { sort: Some(order), ..column(title) }
    }

    fn category(title: &str) -> Column {
        Column { categorized: true, ..sorted(title, SortDirection::Ascending) }
    }

    fn rich() -> ViewDesign {
        let clicks = ClickSorts { ascending: true, descending: true };
        ViewDesign {
            locale: "sv".into(),
            shows_response_hierarchy: true,
            collapsed: true,
            refresh: Refresh::Hours(12),
            columns: vec![
                Column { multi_value: true, ..category("Category") },
                Column {
                    clicks,
                    differences: TextComparison { case: true, accents: false },
                    ..sorted("Date", SortDirection::Descending)
                },
                Column { total: Total::PercentOfAll, formula: Some("Price * 2".into()), ..column("Price") },
                Column { clicks, hidden: true, format: vec![1, 2], for_responses: true, ..column("Name") },
            ],
            ..ViewDesign::default()
        }
    }

    fn calendar() -> ViewDesign {
        let columns = vec![sorted("Begin", SortDirection::Ascending), column("End")];
        ViewDesign { range: Some((0, 1)), columns, ..ViewDesign::default() }
    }

    #[test]
    fn stored_form_reads_back() {
        for design in [ViewDesign::default(), rich(), calendar()] {
            design.check().expect("the design is valid");
            let bytes = design.encode();
            assert_eq!(ViewDesign::decode(&bytes), Ok(design));
            for length in 0..bytes.len() {
                assert!(ViewDesign::decode(&bytes[..length]).is_err());
            }
        }
    }

    #[test]
    fn each_click_sort_precedes_the_default_order() {
        let up = SortDirection::Ascending;
        let down = SortDirection::Descending;
        let expected: Vec<Collation> = vec![
            vec![(0, up), (1, down)],
            vec![(1, up), (0, up)],
            vec![(1, down), (0, up)],
            vec![(3, up), (0, up), (1, down)],
            vec![(3, down), (0, up), (1, down)],
        ];
        assert_eq!(rich().collations(), expected);
        let clicked = Column { clicks: ClickSorts { ascending: true, descending: false }, ..sorted("Date", up) };
        let same = ViewDesign { columns: vec![clicked], ..ViewDesign::default() };
        assert_eq!(same.collations().len(), 1, "the default order is not stored twice");
    }

    #[test]
    fn invalid_columns_are_reported_by_name() {
        let refused = |columns: Vec<Column>, text: &str| {
            let refusal = ViewDesign { columns, ..ViewDesign::default() }.check().expect_err("refused").to_string();
            assert!(refusal.contains(text), "{refusal}");
        };
        refused(vec![sorted("Date", SortDirection::Ascending), category("Kind")], "\"Kind\"");
        refused(vec![Column { categorized: true, ..column("Kind") }], "must be sorted; set its sort direction");
        refused(vec![Column { multi_value: true, ..column("Kind") }], "sorted");
        refused(vec![Column { total: Total::Sum, ..category("Kind") }], "total");
        refused(vec![column("a"); VIEW_COLUMNS_MAX + 1], "columns of a view");
        refused(vec![column(&"a".repeat(COLUMN_TITLE_BYTES_MAX + 1))], "title");
        refused(vec![Column { item: "a".repeat(ITEM_NAME_BYTES_MAX + 1), ..column("a") }], "item");
        refused(vec![Column { formula: Some("a".repeat(FORMULA_BYTES_MAX + 1)), ..column("a") }], "formula");
        refused(vec![Column { format: vec![0; COLUMN_FORMAT_BYTES_MAX + 1], ..column("a") }], "format");
        let clicks = ClickSorts { ascending: true, descending: true };
        refused(vec![Column { clicks, ..column("a") }; 8], "sort orders of a view");
    }

    #[test]
    fn a_locale_is_a_language_tag() {
        for (locale, is_right) in [("", true), ("sv", true), ("de-AT", true), ("no such locale!", false)] {
            let design = ViewDesign { locale: locale.into(), ..ViewDesign::default() };
            assert_eq!(design.check().is_ok(), is_right, "{locale:?}");
        }
        let long = ViewDesign { locale: format!("de{}", "-x".repeat(VIEW_LOCALE_BYTES_MAX)), ..ViewDesign::default() };
        assert!(long.check().is_err());
    }

    #[test]
    fn calendar_view_must_be_sorted_by_begin() {
        let refused = |design: ViewDesign| {
            let refusal = design.check().expect_err("refused").to_string();
            assert!(refusal.contains("calendar"), "{refusal}");
        };
        refused(ViewDesign { range: Some((0, 2)), ..calendar() });
        refused(ViewDesign { range: Some((0, 0)), ..calendar() });
        refused(ViewDesign { range: Some((1, 0)), ..calendar() });
        refused(ViewDesign { shows_response_hierarchy: true, ..calendar() });
        refused(ViewDesign { columns: vec![sorted("Begin", SortDirection::Descending), column("End")], ..calendar() });
        refused(ViewDesign { columns: vec![category("Begin"), column("End")], ..calendar() });
    }
}
