//! A table of a report for people, which [`super::html`] and [`super::markdown`] show alike.

use super::model::Report;
use super::validity::reason_against;
use crate::compare::output::line;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// A text.
    Text(String),
    /// A number, aligned to the right.
    Number(String),
    /// A number that is not valid.
    Struck(String),
    /// A number that is not valid, and the reason.
    StruckWithReason(String, String),
}

/// A table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows; may be empty.
    pub caption: String,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The lines, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Returns `true` if a column has numbers: if its first cell is none with a text.
    pub fn has_numbers(&self, column: usize) -> bool {
        let first = self.rows.first().and_then(|row| row.get(column));
        !matches!(first, None | Some(Cell::Text(_)))
    }

    /// Formats the table in Markdown, with an empty line at its end.
    pub fn to_markdown(&self) -> String {
        let caption = if self.caption.is_empty() { String::new() } else { format!("**{}**\n\n", line(&self.caption)) };
        let header: Vec<String> = self.header.iter().map(|name| line(name)).collect();
        let rules = (0..header.len()).map(|column| if self.has_numbers(column) { "---:|" } else { "---|" });
        let rules: Vec<&str> = rules.collect();
        let row = |cells: &Vec<Cell>| {
            let cells: Vec<String> = cells.iter().map(Cell::to_markdown).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{caption}| {} |\n|{}\n{}\n", header.join(" | "), rules.concat(), rows.concat())
    }
}

impl Cell {
    fn to_markdown(&self) -> String {
        match self {
            Self::Text(text) | Self::Number(text) => line(text),
            Self::Struck(number) => format!("~~{}~~", line(number)),
            Self::StruckWithReason(number, reason) => format!("~~{}~~ ({})", line(number), line(reason)),
        }
    }
}

/// Returns the names of columns.
pub fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns what stands instead of a figure that there is not.
pub fn none() -> String {
    "–".to_owned()
}

/// Returns a figure of a level, struck out if the figures of the level do not stand.
pub fn judged(report: &Report, users: u64, figure: String) -> Cell {
    match reason_against(report, users) {
        Some(_) => Cell::Struck(figure),
        None => Cell::Number(figure),
    }
}

/// Returns a figure of a level, struck out with the reason if the figures of the level do not stand.
pub fn judged_with_reason(report: &Report, users: u64, figure: String) -> Cell {
    match reason_against(report, users) {
        Some(reason) => Cell::StruckWithReason(figure, reason.to_owned()),
        None => Cell::Number(figure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_the_cells_of_the_table() {
        let cells = [
            Cell::Text("a|b".to_owned()),
            Cell::Struck("1".to_owned()),
            Cell::StruckWithReason("2".to_owned(), "*why*".to_owned()),
        ];
        let table = Table { caption: "[x]".to_owned(), header: header(&["p", "q", "r"]), rows: vec![cells.to_vec()] };
        let expected = "**\\[x]**\n\n| p | q | r |\n|---|---:|---:|\n| a\\|b | ~~1~~ | ~~2~~ (\\*why\\*) |\n\n";
        assert_eq!(table.to_markdown(), expected);
        let without_rows = Table { header: header(&["p"]), ..Table::default() };
        assert_eq!(without_rows.to_markdown(), "| p |\n|---|\n\n");
    }
}
