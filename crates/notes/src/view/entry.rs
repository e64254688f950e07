//! The entries of a document in a view: most have one (`docs/views.md`, "What a document gives").
//!
//! A column whose values are entries of their own multiplies a document by them. In a calendar view a document stands at its beginning and at the
//! beginning of each later day that it reaches into, so that whoever reads the rows of some days finds all that happens in them.

use base::Timestamp;

use crate::limits::VIEW_ENTRIES_PER_NOTE_MAX;
use crate::view::cell::{Cell, One};
use crate::view::design::ViewDesign;

/// Microseconds of a day (UTC).
const DAY: i64 = 86_400_000_000;

/// Microseconds of a minute.
const MINUTE: f64 = 60_000_000.0;

/// Gives the values of the columns for each entry of a document, up to [`VIEW_ENTRIES_PER_NOTE_MAX`]; nothing when its values are its one entry.
pub(super) fn entries(design: &ViewDesign, cells: &[Cell]) -> Option<Vec<Vec<Cell>>> {
    let is_multiplied = |index: usize| {
        let column = &design.columns[index];
        column.separate && column.sort.is_some() && cells[index].len() > 1
    };
    let multiplied: Vec<usize> = (0..design.columns.len()).filter(|index| is_multiplied(*index)).collect();
    if multiplied.is_empty() && design.range.is_none() {
        return None;
    }
    let mut entries = vec![cells.to_vec()];
    for index in multiplied {
        let each = |cells: Vec<Cell>| (0..cells[index].len()).map(move |value| with_only(design, &cells, index, value));
        entries = entries.into_iter().flat_map(each).take(VIEW_ENTRIES_PER_NOTE_MAX).collect();
    }
    if design.range.is_some() {
        entries = entries.into_iter().flat_map(|cells| days(design, cells)).take(VIEW_ENTRIES_PER_NOTE_MAX).collect();
    }
    assert!((1..=VIEW_ENTRIES_PER_NOTE_MAX).contains(&entries.len()), "a document has an entry, and not too many");
    Some(entries)
}

/// Gives the values of an entry that has one of a column's values. The ends of a calendar entry belong to its beginnings, one to one.
fn with_only(design: &ViewDesign, cells: &[Cell], column: usize, value: usize) -> Vec<Cell> {
    let mut only = cells.to_vec();
    only[column] = cells[column].only(value);
    if let Some((begin, end)) = design.range
        && column == usize::from(begin)
        && cells[usize::from(end)].len() == cells[column].len()
    {
        only[usize::from(end)] = cells[usize::from(end)].only(value);
    }
    only
}

/// Gives the entries of a calendar entry: as it is, and one for each later day.
fn days(design: &ViewDesign, cells: Vec<Cell>) -> impl Iterator<Item = Vec<Cell>> {
    let (begin, end) = design.range.map_or((0, 0), |(begin, end)| (usize::from(begin), usize::from(end)));
    let first = cells[begin].one(0);
    let span = match (first, cells[end].one(0)) {
        (One::Time(from), One::Time(to)) => Some((from.0, to.0)),
        (One::Time(from), One::Number(minutes)) => Some((from.0, from.0.saturating_add((minutes * MINUTE) as i64))),
        _ => None,
    };
    let later = span.map_or(0..0, |(from, to)| from.div_euclid(DAY) + 1..to.saturating_sub(1).div_euclid(DAY) + 1);
    let of_day = {
        let cells = cells.clone();
        move |day: i64| {
            let mut cells = cells.clone();
            cells[begin] = Cell::Times(vec![Timestamp(day.saturating_mul(DAY))]);
            cells
        }
    };
    std::iter::once(cells).chain(later.map(of_day))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::design::Column;
    use crate::view::sort_key::Order;

    const HOUR: i64 = DAY / 24;

    fn calendar() -> ViewDesign {
        let begin = Column { title: "Begin".into(), sort: Some(Order::Ascending), separate: true, ..Column::default() };
        let end = Column { title: "End".into(), ..Column::default() };
        ViewDesign { columns: vec![begin, end], range: Some((0, 1)), ..ViewDesign::default() }
    }

    fn times(hours: &[i64]) -> Cell {
        Cell::Times(hours.iter().map(|hours| Timestamp(hours * HOUR)).collect())
    }

    /// Gives begin and end of each entry, in hours.
    fn stand(begin: Cell, end: Cell) -> Vec<(i64, i64)> {
        let hours = |cell: &Cell| match cell.one(0) {
            One::Time(time) => time.0 / HOUR,
            other => panic!("{other:?} is no time"),
        };
        let entries = entries(&calendar(), &[begin, end]).expect("a calendar view has entries of its own");
        entries.iter().map(|cells| (hours(&cells[0]), hours(&cells[1]))).collect()
    }

    #[test]
    fn a_calendar_entry_stands_in_each_day_that_it_reaches_into() {
        assert_eq!(stand(times(&[9]), times(&[10])), [(9, 10)]);
        assert_eq!(stand(times(&[9]), times(&[24])), [(9, 24)], "the day that begins when it ends is not its own");
        assert_eq!(stand(times(&[20]), times(&[50])), [(20, 50), (24, 50), (48, 50)]);
        assert_eq!(stand(times(&[-30]), times(&[1])), [(-30, 1), (-24, 1), (0, 1)]);
        assert_eq!(stand(times(&[9]), times(&[8])), [(9, 8)], "it ends before it begins");
    }

    #[test]
    fn beginnings_and_ends_of_a_series_belong_together() {
        assert_eq!(stand(times(&[1, 25, 47]), times(&[2, 26, 49])), [(1, 2), (25, 26), (47, 49), (48, 49)]);
    }

    #[test]
    fn the_end_may_be_a_duration_in_minutes() {
        let found = entries(&calendar(), &[times(&[23]), Cell::Numbers(vec![120.0])]).expect("entries");
        assert_eq!(found.iter().map(|cells| cells[0].clone()).collect::<Vec<_>>(), [times(&[23]), times(&[24])]);
        let endless = entries(&calendar(), &[times(&[0]), Cell::Numbers(vec![f64::INFINITY])]).expect("entries");
        assert_eq!(endless.len(), VIEW_ENTRIES_PER_NOTE_MAX);
        let backwards = entries(&calendar(), &[times(&[0]), Cell::Numbers(vec![-1e300])]).expect("entries");
        assert_eq!(backwards.len(), 1);
    }

    #[test]
    fn what_has_no_times_has_one_entry() {
        let cells = vec![Cell::Texts(vec!["soon".into()]), Cell::None];
        assert_eq!(entries(&calendar(), &cells), Some(vec![cells]));
        let plain = ViewDesign { range: None, ..calendar() };
        assert_eq!(entries(&plain, &[times(&[1]), times(&[2])]), None);
        assert_eq!(entries(&plain, &[times(&[1, 3]), times(&[2])]).map(|entries| entries.len()), Some(2));
    }
}
