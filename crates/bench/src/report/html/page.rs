//! A page of HTML without scripts and references. All texts are escaped, and the page is well-formed XML, too.

use std::fmt::Write as _;

use crate::report::curves::Curve;
use crate::report::table::{Cell, Table};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:76em;padding:0 1em;color:#111}\
                     table{border-collapse:collapse;margin:.5em 0 1.5em}\
                     th,td{border-bottom:1px solid #ccc;padding:.2em .7em;text-align:left}\
                     .n{text-align:right;font-variant-numeric:tabular-nums}\
                     caption{text-align:left;font-weight:600}\
                     code{overflow-wrap:anywhere}svg{max-width:100%;height:auto}";

/// A page that is written from the beginning to the end.
#[derive(Debug)]
pub struct Page {
    text: String,
}

impl Page {
    /// Begins a page.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        Self { text }
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.text, "<h2>{}</h2>", escape(text));
    }

    /// Appends a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p>{}</p>", escape(text));
    }

    /// Appends a paragraph in bold type.
    pub fn strong(&mut self, text: &str) {
        let _ = writeln!(self.text, "<p><strong>{}</strong></p>", escape(text));
    }

    /// Appends a list, unless it is empty.
    pub fn list(&mut self, items: impl IntoIterator<Item = String>) {
        let items: Vec<String> = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(&item))).collect();
        if !items.is_empty() {
            let _ = writeln!(self.text, "<ul>\n{}</ul>", items.concat());
        }
    }

    /// Appends a table.
    pub fn table(&mut self, table: &Table) {
        let Table { caption, header, rows } = table;
        self.text.push_str("<table>\n");
        if !caption.is_empty() {
            let _ = writeln!(self.text, "<caption>{}</caption>", escape(caption));
        }
        self.text.push_str("<tr>");
        for (index, name) in header.iter().enumerate() {
            let class = if table.has_numbers(index) { " class=\"n\"" } else { "" };
            let _ = write!(self.text, "<th{class}>{}</th>", escape(name));
        }
        self.text.push_str("</tr>\n");
        for row in rows {
            let cells: Vec<String> = row.iter().map(format_cell).collect();
            let _ = writeln!(self.text, "<tr>{}</tr>", cells.concat());
        }
        self.text.push_str("</table>\n");
    }

    /// Appends a curve with its title, unless it has too few points.
    pub fn curve(&mut self, curve: &Curve) {
        if let Some(svg) = curve.to_svg() {
            let _ = writeln!(self.text, "<p>{}</p>\n{}", escape(&curve.title), svg.trim_end());
        }
    }

    /// Ends the page.
    pub fn finish(mut self) -> String {
        self.text.push_str("</body>\n</html>\n");
        self.text
    }
}

fn format_cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => format!("<td>{}</td>", escape(text)),
        Cell::Number(number) => format!("<td class=\"n\">{}</td>", escape(number)),
        Cell::Struck(number) => format!("<td class=\"n\"><s>{}</s></td>", escape(number)),
        Cell::StruckWithReason(number, reason) => {
            format!("<td class=\"n\"><s>{}</s> ({})</td>", escape(number), escape(reason))
        }
    }
}

/// Replaces the characters of a text that HTML reads as its own. Control characters, which XML does not have, become
/// blanks.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{FFFE}' | '\u{FFFF}' => escaped.push(' '),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::header;

    #[test]
    fn texts_are_escaped() {
        let mut page = Page::new("a <b> & \"c\"");
        page.list(["it's\n\u{0}".to_owned()]);
        let why = Cell::StruckWithReason("1".to_owned(), "<why>".to_owned());
        let row = vec![Cell::Text("<s>".to_owned()), why, Cell::Struck("2".to_owned())];
        page.table(&Table { caption: "<cap>".to_owned(), header: header(&["x", "y", "z"]), rows: vec![row] });
        let text = page.finish();
        let parts = [
            "<h1>a &lt;b&gt; &amp; &quot;c&quot;</h1>",
            "<li>it&#39;s  </li>",
            "<caption>&lt;cap&gt;</caption>",
            "<tr><th>x</th><th class=\"n\">y</th><th class=\"n\">z</th></tr>",
            "<td>&lt;s&gt;</td><td class=\"n\"><s>1</s> (&lt;why&gt;)</td><td class=\"n\"><s>2</s></td></tr>",
        ];
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
