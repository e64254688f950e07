//! The text form of views in templates (`docs/templates.md`): parsing and formatting.
//!
//! Templates and the command line share this form. A [`ViewText`] that is created from a design and parsed again yields
//! the same design, whatever it contains; default values are not written. Whether the design can be indexed is checked
//! by [`ViewNote::check`] and by the server that receives it.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notes::view::note::{ViewKind, ViewNote};
use notes::view::sort_key::{SortDirection, TextComparison};
use notes::view::view_format::{ClickSorts, Column, Refresh, Total, ViewDesign};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The default start and end columns of a calendar view, as indexes from 0.
const CALENDAR_COLUMNS: (u8, u8) = (0, 1);

/// The error returned if a text is not a valid view. The message is for the author of the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ViewTextError(String);

/// A view in the text form of templates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewText {
    title: String,
    #[serde(default, skip_serializing_if = "is_default")]
    aliases: Vec<String>,
    /// `true` for a folder with columns, which has no selection.
    #[serde(default, skip_serializing_if = "is_default")]
    folder: bool,
    /// `true` if the view is personal: only its creator sees it.
    #[serde(default, skip_serializing_if = "is_default")]
    personal: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    selection: String,
    #[serde(default, skip_serializing_if = "is_default")]
    responses: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    no_conflicts: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    collapsed: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    calendar: bool,
    /// The two columns with the start of an entry and its end or duration in minutes, counted from 1.
    #[serde(default, skip_serializing_if = "is_default")]
    range: Option<Vec<u16>>,
    #[serde(default, skip_serializing_if = "is_default")]
    locale: String,
    #[serde(default, skip_serializing_if = "is_default")]
    refresh: RefreshWord,
    /// Hours between two updates, if `refresh = "hours"`.
    #[serde(default, skip_serializing_if = "is_default")]
    hours: u16,
    #[serde(default, skip_serializing_if = "is_default")]
    readers: Vec<String>,
    columns: Vec<ViewColumn>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RefreshWord {
    #[default]
    Automatic,
    AfterFirstUse,
    Manual,
    Hours,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ViewColumn {
    title: String,
    #[serde(skip_serializing_if = "is_default")]
    item: String,
    #[serde(skip_serializing_if = "is_default")]
    formula: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    sort: Option<OrderWord>,
    #[serde(skip_serializing_if = "is_default")]
    click: Option<ClickWord>,
    #[serde(skip_serializing_if = "is_default")]
    category: bool,
    #[serde(skip_serializing_if = "is_default")]
    separate: bool,
    #[serde(skip_serializing_if = "is_default")]
    hidden: bool,
    #[serde(skip_serializing_if = "is_default")]
    responses_only: bool,
    #[serde(skip_serializing_if = "is_default")]
    case: bool,
    #[serde(skip_serializing_if = "is_default")]
    accents: bool,
    #[serde(with = "TotalWord", skip_serializing_if = "is_default")]
    total: Total,
    /// Data that clients store with the column, in base64.
    #[serde(skip_serializing_if = "is_default")]
    format: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OrderWord {
    Ascending,
    Descending,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ClickWord {
    Ascending,
    Descending,
    Both,
}

/// The words for the total of a column.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Total", rename_all = "kebab-case")]
enum TotalWord {
    None,
    Sum,
    Average,
    PercentOfParent,
    PercentOfAll,
    AveragePerChild,
}

/// A file with one view.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "view")]
    views: Vec<ViewText>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ViewText {
    /// Parses a file with exactly one view in the form of a template.
    pub fn read(text: &str) -> Result<Self, ViewTextError> {
        let File { mut views } =
            toml::from_str(text).map_err(|error| ViewTextError(format!("not a valid view: {error}")))?;
        match (views.pop(), views.len()) {
            (Some(view), 0) => Ok(view),
            (None, _) => Err(ViewTextError("the text contains no view; a view begins with [[view]]".to_owned())),
            (_, more) => Err(ViewTextError(format!(
                "the text must contain exactly one view, but it contains {}",
                more.saturating_add(1)
            ))),
        }
    }

    /// Formats the view as a file that [`ViewText::read`] accepts and that can also be part of a template.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut text = "[[view]]\n".to_owned();
        let Value::Object(fields) = self.to_json() else { return text };
        for (name, value) in &fields {
            let _ = match value {
                Value::Array(columns) if name == "columns" && !columns.is_empty() => {
                    let lines: String =
                        columns.iter().map(|column| format!("    {},\n", format_inline(column))).collect();
                    writeln!(text, "columns = [\n{lines}]")
                }
                value => writeln!(text, "{name} = {}", format_inline(value)),
            };
        }
        text
    }

    /// Returns the same form as JSON, for programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("a view contains only strings, numbers and booleans")
    }

    /// Converts a design to its text form.
    #[must_use]
    pub fn from_view_note(note: &ViewNote) -> Self {
        let ViewDesign {
            locale,
            shows_response_hierarchy: responses,
            no_conflicts,
            collapsed,
            refresh,
            range,
            columns,
        } = &note.design;
        let (refresh, hours) = match refresh {
            Refresh::Automatic => (RefreshWord::Automatic, 0),
            Refresh::AfterFirstUse => (RefreshWord::AfterFirstUse, 0),
            Refresh::Manual => (RefreshWord::Manual, 0),
            Refresh::Hours(hours) => (RefreshWord::Hours, *hours),
        };
        let is_usual = *range == note.kind.calendar.then_some(CALENDAR_COLUMNS);
        let number = |column: u8| u16::from(column).saturating_add(1);
        let numbers = range.map(|(begin, end)| vec![number(begin), number(end)]).unwrap_or_default();
        Self {
            title: note.title.clone(),
            aliases: note.aliases.clone(),
            folder: note.kind.folder,
            personal: note.kind.private,
            selection: note.selection.clone(),
            responses: *responses,
            no_conflicts: *no_conflicts,
            collapsed: *collapsed,
            calendar: note.kind.calendar,
            range: (!is_usual).then_some(numbers),
            locale: locale.clone(),
            refresh,
            hours,
            readers: note.readers.clone(),
            columns: columns.iter().map(ViewColumn::from_column).collect(),
        }
    }

    /// Converts the text form to a design.
    pub fn to_view_note(&self) -> Result<ViewNote, ViewTextError> {
        let refresh = match self.refresh {
            RefreshWord::Automatic => Refresh::Automatic,
            RefreshWord::AfterFirstUse => Refresh::AfterFirstUse,
            RefreshWord::Manual => Refresh::Manual,
            RefreshWord::Hours => Refresh::Hours(self.hours.max(1)),
        };
        Ok(ViewNote {
            title: self.title.clone(),
            aliases: self.aliases.clone(),
            kind: ViewKind { folder: self.folder, private: self.personal, calendar: self.calendar },
            selection: self.selection.clone(),
            design: ViewDesign {
                locale: self.locale.clone(),
                shows_response_hierarchy: self.responses,
                no_conflicts: self.no_conflicts,
                collapsed: self.collapsed,
                refresh,
                range: self.calendar_columns()?,
                columns: self.columns.iter().map(ViewColumn::to_column).collect::<Result<_, _>>()?,
            },
            readers: self.readers.clone(),
        })
    }

    fn calendar_columns(&self) -> Result<Option<(u8, u8)>, ViewTextError> {
        let wrong = || ViewTextError("range: write the numbers of two columns, as in [1, 2]".to_owned());
        let index = |number: u16| number.checked_sub(1).and_then(|index| u8::try_from(index).ok()).ok_or_else(wrong);
        match self.range.as_deref() {
            None => Ok(self.calendar.then_some(CALENDAR_COLUMNS)),
            Some([]) => Ok(None),
            Some([begin, end]) => Ok(Some((index(*begin)?, index(*end)?))),
            Some(_) => Err(wrong()),
        }
    }
}

impl ViewColumn {
    fn from_column(column: &Column) -> Self {
        let click = match column.clicks {
            ClickSorts { ascending: false, descending: false } => None,
            ClickSorts { ascending: true, descending: false } => Some(ClickWord::Ascending),
            ClickSorts { ascending: false, descending: true } => Some(ClickWord::Descending),
            ClickSorts { ascending: true, descending: true } => Some(ClickWord::Both),
        };
        Self {
            title: column.title.clone(),
            item: if column.item == column.title { String::new() } else { column.item.clone() },
            formula: column.formula.clone(),
            sort: column.sort.map(|order| match order {
                SortDirection::Ascending => OrderWord::Ascending,
                SortDirection::Descending => OrderWord::Descending,
            }),
            click,
            category: column.categorized,
            separate: column.multi_value,
            hidden: column.hidden,
            responses_only: column.for_responses,
            case: column.differences.case,
            accents: column.differences.accents,
            total: column.total,
            format: BASE64.encode(&column.format),
        }
    }

    fn to_column(&self) -> Result<Column, ViewTextError> {
        let clicks = |word| self.click.is_some_and(|click| click == word || click == ClickWord::Both);
        let format = BASE64.decode(&self.format);
        Ok(Column {
            title: self.title.clone(),
            item: if self.item.is_empty() { self.title.clone() } else { self.item.clone() },
            formula: self.formula.clone(),
            sort: self.sort.map(|order| match order {
                OrderWord::Ascending => SortDirection::Ascending,
                OrderWord::Descending => SortDirection::Descending,
            }),
            categorized: self.category,
            multi_value: self.separate,
            hidden: self.hidden,
            for_responses: self.responses_only,
            differences: TextComparison { case: self.case, accents: self.accents },
            clicks: ClickSorts { ascending: clicks(ClickWord::Ascending), descending: clicks(ClickWord::Descending) },
            total: self.total,
            format: format.map_err(|error| ViewTextError(format!("format of column {:?}: {error}", self.title)))?,
        })
    }
}

/// Formats a TOML value on one line.
fn format_inline(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(members) => format!("[{}]", members.iter().map(format_inline).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{name} = {}", format_inline(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

/// Formats a TOML string with as little escaping as possible.
fn quote(text: &str) -> String {
    let is_shown = |c: char| !c.is_control() || c == '\t';
    let is_line = text.chars().all(is_shown);
    let is_lines = text.chars().all(|c| is_shown(c) || c == '\n') && !text.contains("'''") && !text.ends_with('\'');
    match () {
        () if is_line && !text.contains(['"', '\\']) => format!("\"{text}\""),
        () if is_line && !text.contains('\'') => format!("'{text}'"),
        () if !is_line && is_lines => format!("'''\n{text}'''"),
        () => text.chars().fold("\"".to_owned(), push_escaped) + "\"",
    }
}

fn push_escaped(mut text: String, c: char) -> String {
    match c {
        '"' | '\\' => text.extend(['\\', c]),
        '\n' => text.push_str("\\n"),
        c if c.is_control() => drop(write!(text, "\\u{:04X}", u32::from(c))),
        c => text.push(c),
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BY_CATEGORY: &str = r#"[[view]]
title = 'Shelves\By Category'
aliases = ["($ByCategory)", "Shelf"]
selection = 'SELECT Form = "Document" | @AllDescendants'
responses = true
no_conflicts = true
collapsed = true
locale = "sv"
refresh = "hours"
hours = 12
readers = ["[Staff]"]
columns = [
    { title = "Category", item = "Categories", sort = "ascending", category = true, separate = true },
    { title = "Title", sort = "descending", click = "both", case = true, accents = true },
    { title = "Size", item = "$Size", formula = "@DocLength", hidden = true, total = "average-per-child", format = "AQD/" },
    { title = "Lines", item = "$Lines", formula = '''
x := "a";
@Length(x)''', responses_only = true },
]
"#;

    fn read(text: &str) -> Result<ViewNote, ViewTextError> {
        ViewText::read(text)?.to_view_note()
    }

    #[test]
    fn view_text_round_trips() {
        let view = read(BY_CATEGORY).expect("the text is valid");
        assert_eq!(ViewText::from_view_note(&view).to_toml(), BY_CATEGORY);
        assert_eq!((view.title.as_str(), view.design.refresh), ("Shelves\\By Category", Refresh::Hours(12)));
        let columns = &view.design.columns;
        assert_eq!((columns[1].item.as_str(), columns[2].format.as_slice()), ("Title", &[1, 0, 255][..]));
        assert_eq!(columns[3].formula.as_deref(), Some("x := \"a\";\n@Length(x)"));
        view.check(base::ViewId(1)).expect("it can be indexed");
        let short = "[[view]]\ntitle = \"All\"\nselection = \"SELECT @All\"\ncolumns = []\n";
        assert_eq!(ViewText::from_view_note(&read(short).expect("the text is valid")).to_toml(), short);
    }

    #[test]
    fn kinds_and_calendar_ranges_round_trip() {
        for words in
            ["folder = true", "personal = true", "calendar = true", "range = [3, 256]", "calendar = true\nrange = []"]
        {
            let text = format!("[[view]]\ntitle = \"All\"\n{words}\ncolumns = []\n");
            let view = read(&text).expect("the text is valid");
            assert_eq!(ViewText::from_view_note(&view).to_toml(), text);
            assert_ne!(view, ViewNote { title: "All".into(), ..ViewNote::default() });
        }
        assert_eq!(
            read("[[view]]\ntitle=\"\"\ncolumns=[]\ncalendar=true").expect("the text is valid").design.range,
            Some((0, 1))
        );
    }

    #[test]
    fn invalid_view_text_is_refused_with_its_position() {
        let check = |text: &str, expected: &str| {
            let error = read(text).expect_err("wrong").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("", "[[view]]");
        check("name = 1", "name");
        check("[[view]]\ntitle = \"A\"\ncolumns = []\nzork = 1", "line 4");
        check("[[view]]\ntitle = \"A\"", "columns");
        check(
            "[[view]]\ntitle=\"A\"\ncolumns=[]\n[[view]]\ntitle=\"B\"\ncolumns=[]",
            "exactly one view, but it contains 2",
        );
        check("[[view]]\ntitle=\"A\"\ncolumns=[{ sort = \"up\" }]", "ascending");
        check("[[view]]\ntitle=\"A\"\ncolumns=[{ title = \"B\", format = \"?\" }]", "format of column \"B\"");
        for range in ["[1]", "[0, 1]", "[1, 257]"] {
            check(&format!("[[view]]\ntitle=\"A\"\ncolumns=[]\nrange={range}"), "two columns");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_texts_round_trip(title in any::<String>(), selection in "[a'\"\\\\\n\r\t\u{7f}\u{85}#\\[=]{0,12}", format in any::<Vec<u8>>()) {
            let column = Column { title: selection.clone(), item: "Item".into(), formula: Some(title.clone()), format, ..Column::default() };
            let design = ViewDesign { columns: vec![column], ..ViewDesign::default() };
            let view = ViewNote { title, selection: selection.clone(), readers: vec![selection], design, ..ViewNote::default() };
            let text = ViewText::from_view_note(&view).to_toml();
            prop_assert_eq!(read(&text).expect(&text), view);
        }
    }
}
