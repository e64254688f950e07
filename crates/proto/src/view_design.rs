//! Conversion of view designs between the protocol and `notes`. All functions are pure.
//!
//! Both directions are lossless, so a design that was read can be sent back. A number or enum value that is out of
//! range is refused here; `notes` checks whether the design as a whole can be indexed. The server and the command line
//! use these functions: a design has a single form in the program, [`ViewNote`].

use std::fmt;

use base::Name;
use notes::view::note::{ViewKind, ViewNote};
use notes::view::sort_key::{SortDirection, TextComparison};
use notes::view::view_format::{ClickSorts, Column, Refresh, Total, ViewDesign};

use crate::v1;

/// The error returned if a message is not a valid design. The text is for the sender of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidDesign(String);

impl fmt::Display for InvalidDesign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidDesign {}

type Result<T> = std::result::Result<T, InvalidDesign>;

/// Converts a design to the protocol's type.
#[must_use]
pub fn view_to_proto(view: &ViewNote) -> v1::ViewDesign {
    let design = &view.design;
    let (refresh, hours) = refresh_to_proto(design.refresh);
    let column = |number: u8| u32::from(number).saturating_add(1);
    let columns_of = |(begin, end)| v1::CalendarColumns { begin: column(begin), end: column(end) };
    v1::ViewDesign {
        title: view.title.clone(),
        aliases: view.aliases.clone(),
        selection: view.selection.clone(),
        columns: design.columns.iter().map(column_to_proto).collect(),
        responses: design.shows_response_hierarchy,
        no_conflicts: design.no_conflicts,
        collapsed: design.collapsed,
        calendar: view.kind.calendar,
        calendar_columns: design.range.map(columns_of),
        locale: design.locale.clone(),
        refresh: refresh.into(),
        hours,
        readers: view.readers.clone(),
        personal: view.kind.private,
        folder: view.kind.folder,
    }
}

/// Converts a design from the protocol's type.
pub fn view_from_proto(design: v1::ViewDesign) -> Result<ViewNote> {
    let refresh = refresh_from_proto(design.refresh, design.hours)?;
    Ok(ViewNote {
        title: design.title,
        aliases: design.aliases,
        kind: ViewKind { folder: design.folder, private: design.personal, calendar: design.calendar },
        selection: design.selection,
        design: ViewDesign {
            locale: design.locale,
            shows_response_hierarchy: design.responses,
            no_conflicts: design.no_conflicts,
            collapsed: design.collapsed,
            refresh,
            range: design.calendar_columns.map(range_from_proto).transpose()?,
            columns: design.columns.into_iter().map(column_from_proto).collect::<Result<_>>()?,
        },
        readers: design.readers.iter().map(|name| Name::new(name).canonical().to_owned()).collect(),
    })
}

fn column_to_proto(column: &Column) -> v1::ColumnDesign {
    let sort = match column.sort {
        None => v1::SortOrder::None,
        Some(SortDirection::Ascending) => v1::SortOrder::Ascending,
        Some(SortDirection::Descending) => v1::SortOrder::Descending,
    };
    v1::ColumnDesign {
        title: column.title.clone(),
        item: column.item.clone(),
        formula: column.formula.clone().unwrap_or_default(),
        sort: sort.into(),
        click_ascending: column.clicks.ascending,
        click_descending: column.clicks.descending,
        category: column.categorized,
        separate: column.multi_value,
        hidden: column.hidden,
        responses_only: column.for_responses,
        case: column.differences.case,
        accents: column.differences.accents,
        total: total_to_proto(column.total).into(),
        format: column.format.clone(),
    }
}

fn column_from_proto(column: v1::ColumnDesign) -> Result<Column> {
    let sort = match known_enum::<v1::SortOrder>(column.sort, "an order")? {
        v1::SortOrder::None => None,
        v1::SortOrder::Ascending => Some(SortDirection::Ascending),
        v1::SortOrder::Descending => Some(SortDirection::Descending),
    };
    Ok(Column {
        item: if column.item.is_empty() { column.title.clone() } else { column.item },
        title: column.title,
        formula: Some(column.formula).filter(|formula| !formula.is_empty()),
        sort,
        categorized: column.category,
        multi_value: column.separate,
        hidden: column.hidden,
        for_responses: column.responses_only,
        differences: TextComparison { case: column.case, accents: column.accents },
        clicks: ClickSorts { ascending: column.click_ascending, descending: column.click_descending },
        total: total_from_proto(known_enum(column.total, "a total")?),
        format: column.format,
    })
}

fn total_to_proto(total: Total) -> v1::Total {
    match total {
        Total::None => v1::Total::None,
        Total::Sum => v1::Total::Sum,
        Total::Average => v1::Total::Average,
        Total::PercentOfParent => v1::Total::PercentOfParent,
        Total::PercentOfAll => v1::Total::PercentOfAll,
        Total::AveragePerChild => v1::Total::AveragePerChild,
    }
}

fn total_from_proto(total: v1::Total) -> Total {
    match total {
        v1::Total::None => Total::None,
        v1::Total::Sum => Total::Sum,
        v1::Total::Average => Total::Average,
        v1::Total::PercentOfParent => Total::PercentOfParent,
        v1::Total::PercentOfAll => Total::PercentOfAll,
        v1::Total::AveragePerChild => Total::AveragePerChild,
    }
}

fn refresh_to_proto(refresh: Refresh) -> (v1::ViewRefresh, u32) {
    match refresh {
        Refresh::Automatic => (v1::ViewRefresh::Automatic, 0),
        Refresh::AfterFirstUse => (v1::ViewRefresh::AfterFirstUse, 0),
        Refresh::Manual => (v1::ViewRefresh::Manual, 0),
        Refresh::Hours(hours) => (v1::ViewRefresh::Hours, u32::from(hours)),
    }
}

fn refresh_from_proto(refresh: i32, hours: u32) -> Result<Refresh> {
    match known_enum(refresh, "a refresh mode")? {
        v1::ViewRefresh::Automatic => Ok(Refresh::Automatic),
        v1::ViewRefresh::AfterFirstUse => Ok(Refresh::AfterFirstUse),
        v1::ViewRefresh::Manual => Ok(Refresh::Manual),
        v1::ViewRefresh::Hours => match u16::try_from(hours) {
            Ok(0) | Err(_) => {
                Err(InvalidDesign(format!("a view can be refreshed every 1 to 65,535 hours, not every {hours}")))
            }
            Ok(hours) => Ok(Refresh::Hours(hours)),
        },
    }
}

fn range_from_proto(columns: v1::CalendarColumns) -> Result<(u8, u8)> {
    Ok((column_number(columns.begin)?, column_number(columns.end)?))
}

/// Converts the number of a column, counted from 1, to an index.
fn column_number(number: u32) -> Result<u8> {
    let index = number.checked_sub(1).and_then(|index| u8::try_from(index).ok());
    index.ok_or_else(|| InvalidDesign(format!("{number} is not a column number: columns are counted from 1")))
}

/// Returns an error for an enum value that this server does not know, because its meaning would be lost.
fn known_enum<E: TryFrom<i32>>(number: i32, what: &str) -> Result<E> {
    E::try_from(number).map_err(|_| InvalidDesign(format!("{number} is not {what} that this server supports")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &str) -> Column {
        Column { title: title.into(), item: "Item".into(), ..Column::default() }
    }

    fn view() -> ViewNote {
        let totals = [
            Total::None,
            Total::Sum,
            Total::Average,
            Total::PercentOfParent,
            Total::PercentOfAll,
            Total::AveragePerChild,
        ];
        let clicks = ClickSorts { ascending: true, descending: false };
        let mut columns = vec![
            Column { sort: Some(SortDirection::Ascending), categorized: true, multi_value: true, ..column("Kind") },
            Column { sort: Some(SortDirection::Descending), clicks, format: vec![0, 255], ..column("Date") },
            Column { hidden: true, for_responses: true, formula: Some("1 + 1".into()), ..column("Two") },
            Column { differences: TextComparison { case: true, accents: false }, ..column("Case") },
            Column { clicks: ClickSorts { ascending: false, descending: true }, ..column("Click") },
        ];
        columns.extend(totals.map(|total| Column { total, ..column("Total") }));
        ViewNote {
            title: "By\\Kind".into(),
            aliases: vec!["ByKind".into()],
            selection: "SELECT @All".into(),
            design: ViewDesign {
                shows_response_hierarchy: true,
                locale: "sv".into(),
                columns,
                ..ViewDesign::default()
            },
            readers: vec!["CN=Ann/O=Acme".into(), "[Staff]".into(), "*/O=Acme".into()],
            ..ViewNote::default()
        }
    }

    #[test]
    fn designs_read_back() {
        let with = |change: fn(&mut ViewNote)| {
            let mut view = view();
            change(&mut view);
            view
        };
        let views = [
            view(),
            ViewNote::default(),
            with(|view| view.kind = ViewKind { folder: true, private: false, calendar: false }),
            with(|view| view.kind = ViewKind { folder: false, private: true, calendar: false }),
            with(|view| view.kind = ViewKind { folder: false, private: false, calendar: true }),
            with(|view| view.design.range = Some((0, 254))),
            with(|view| view.design.no_conflicts = true),
            with(|view| view.design.collapsed = true),
            with(|view| view.design.refresh = Refresh::AfterFirstUse),
            with(|view| view.design.refresh = Refresh::Manual),
            with(|view| view.design.refresh = Refresh::Hours(u16::MAX)),
        ];
        for view in views {
            assert_eq!(view_from_proto(view_to_proto(&view)).expect("a written design is valid"), view);
        }
    }

    #[test]
    fn omitted_fields_get_defaults() {
        let columns = vec![v1::ColumnDesign { title: "Form".into(), ..Default::default() }];
        let design = v1::ViewDesign { columns, readers: vec![" Ann/Acme".into()], ..Default::default() };
        let view = view_from_proto(design).expect("the design is valid");
        assert_eq!((view.design.columns[0].item.as_str(), &view.design.columns[0].formula), ("Form", &None));
        assert_eq!(view.readers, ["CN=Ann/O=Acme"]);
    }

    #[test]
    fn invalid_designs_are_refused_with_a_reason() {
        let refused = |design: v1::ViewDesign, text: &str| {
            let error = view_from_proto(design).expect_err("the design is invalid").to_string();
            assert!(error.contains(text), "{error}");
        };
        let with_column = |column| v1::ViewDesign { columns: vec![column], ..Default::default() };
        refused(with_column(v1::ColumnDesign { sort: 3, ..Default::default() }), "3 is not an order");
        refused(with_column(v1::ColumnDesign { total: -1, ..Default::default() }), "-1 is not a total");
        refused(v1::ViewDesign { refresh: 9, ..Default::default() }, "9 is not a refresh mode");
        for hours in [0, 65_536] {
            let refresh = v1::ViewRefresh::Hours.into();
            refused(v1::ViewDesign { refresh, hours, ..Default::default() }, "every 1 to 65,535 hours");
        }
        for end in [0, 257] {
            let calendar_columns = Some(v1::CalendarColumns { begin: 1, end });
            refused(v1::ViewDesign { calendar_columns, ..Default::default() }, "counted from 1");
        }
    }
}
