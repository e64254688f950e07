//! The rows of the server.

use super::page::Page;
use crate::compare::output::format_figure;
use crate::report::model::Report;
use crate::report::population;
use crate::report::table::{Cell, Table, header, judged};
use crate::report::validity;

/// Appends the rows of the server.
pub(super) fn server(page: &mut Page, report: &Report) {
    page.heading("Server");
    if report.server.rows.is_empty() {
        page.paragraph("Nothing was measured.");
        return;
    }
    page.list(validity::describe(report).into_iter().chain(population::footnote(report)));
    let line = |row: &crate::report::model::Row| {
        let resource = format!("{}{}", row.resource, population::mark(report, &row.resource));
        let mut line = vec![Cell::Text(resource), Cell::Text(row.unit.clone())];
        line.push(Cell::Text(row.origin.clone()));
        line.push(Cell::Number(row.users.to_string()));
        line.extend([row.mean, row.min, row.max].map(|value| judged(report, row.users, format_figure(value))));
        line
    };
    let lines: Vec<Vec<Cell>> = report.server.rows.iter().map(line).collect();
    let header = header(&["resource", "unit", "from", "users", "mean", "minimum", "maximum"]);
    page.table(&Table { caption: String::new(), header, rows: lines });
}
