//! The design note of a view: a note of class VIEW whose items describe the whole view (`docs/views.md`, "The design
//! note").
//!
//! A folder is a design note, too. It is a view if it has columns (`$VIEWFORMAT`), and then its contents are its
//! selection. An item `$Readers` restricts who may see the view, as in any note.

use std::sync::OnceLock;

use base::limits::FOLDER_NAME_BYTES_MAX;
use base::{NoteId, Unid, ViewId};
use revision::Revision;

use crate::catalog::DatabaseRecord;
use crate::error::{Error, Result};
use crate::folder::{FLAGS_ITEM, TITLE_ITEM};
use crate::item::{self, Item, ItemValue};
use crate::limits::{
    FORMULA_BYTES_MAX, PERSONAL_COLLATIONS_MAX, VIEW_ALIASES_MAX, VIEW_FORMULAS_BYTES_MAX, VIEW_READERS_MAX,
};
use crate::view::index_size::IndexAccount;
use crate::view::selection::{CompiledView, ExternalInputs};
use crate::view::view_format::ViewDesign;

/// Name of the item with the selection formula, as it was written.
pub const SELECTION_ITEM: &str = "$FORMULA";

/// Name of the item with columns and options.
pub const FORMAT_ITEM: &str = "$VIEWFORMAT";

/// Name of the item that lists who may see a view.
pub const READERS_ITEM: &str = "$Readers";

/// The separator between the name of a view and its aliases.
const ALIAS_SEPARATOR: char = '|';

/// A view as its designer describes it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ViewNote {
    /// Its name; `\` separates the levels of a menu.
    pub title: String,
    /// Other names, for programs.
    pub aliases: Vec<String>,
    /// Its kind.
    pub kind: ViewKind,
    /// The selection formula; empty for a folder.
    pub selection: String,
    /// Its columns and options.
    pub design: ViewDesign,
    /// The names that may see it. If empty, every reader of the database may see it.
    pub readers: Vec<String>,
}

/// The kind of a view: the letters of `$Flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ViewKind {
    /// `true` for a folder, which shows the documents that were put into it.
    pub folder: bool,
    /// `true` if it belongs to one person.
    pub private: bool,
    /// `true` for a calendar view.
    pub calendar: bool,
}

impl ViewKind {
    const LETTERS: [char; 3] = ['F', 'V', 'c'];

    fn bits(self) -> [bool; 3] {
        [self.folder, self.private, self.calendar]
    }

    /// Returns the letters.
    #[must_use]
    pub fn letters(self) -> String {
        Self::LETTERS.into_iter().zip(self.bits()).filter_map(|(letter, is_set)| is_set.then_some(letter)).collect()
    }

    /// Parses the letters. Unknown letters are ignored.
    #[must_use]
    pub fn of_letters(letters: &str) -> Self {
        let [folder, private, calendar] = Self::LETTERS.map(|letter| letters.contains(letter));
        Self { folder, private, calendar }
    }
}

impl ViewNote {
    /// Checks that the view can be indexed, and returns the compiled formulas.
    pub fn check(&self, view: ViewId) -> Result<CompiledView> {
        let named = |name: &String, reason: &str| Err(Error::invalid(format!("view name {name:?}"), reason));
        for name in std::iter::once(&self.title).chain(&self.aliases) {
            if name.is_empty() || name.len() > FOLDER_NAME_BYTES_MAX || name.chars().any(char::is_control) {
                return named(name, "is empty, too long or contains control characters");
            }
            if name.contains(ALIAS_SEPARATOR) && !self.kind.folder {
                return named(name, "the name of a view must not contain |");
            }
        }
        if self.aliases.len() > VIEW_ALIASES_MAX {
            return Err(Error::Limit { what: "aliases of a view", max: VIEW_ALIASES_MAX });
        }
        if self.readers.len() > VIEW_READERS_MAX {
            return Err(Error::Limit { what: "readers of a view", max: VIEW_READERS_MAX });
        }
        if self.selection.len() > FORMULA_BYTES_MAX {
            return Err(Error::Limit { what: "bytes of a selection formula", max: FORMULA_BYTES_MAX });
        }
        self.design.check()?;
        if self.formulas().map(String::len).sum::<usize>() > VIEW_FORMULAS_BYTES_MAX {
            return Err(Error::Limit { what: "bytes of all formulas of a view", max: VIEW_FORMULAS_BYTES_MAX });
        }
        self.check_sort_orders()?;
        let formulas = self.compile(view)?;
        formulas.check_functions(&self.design)?;
        Ok(formulas)
    }

    /// Checks that a personal view has few sort orders.
    pub(crate) fn check_sort_orders(&self) -> Result<()> {
        if self.owner().is_some() && self.design.collations().len() > PERSONAL_COLLATIONS_MAX {
            let what = "sort orders of a personal view; let fewer columns be sorted by a click";
            return Err(Error::Limit { what, max: PERSONAL_COLLATIONS_MAX });
        }
        Ok(())
    }

    /// Returns the selection and the formulas of columns.
    fn formulas(&self) -> impl Iterator<Item = &String> {
        self.design.columns.iter().filter_map(|column| column.formula.as_ref()).chain([&self.selection])
    }

    /// Returns the inputs that selection and columns use besides documents and time.
    pub(crate) fn external_inputs(&self, view: ViewId) -> ExternalInputs {
        if !self.formulas().any(|text| ExternalInputs::may_occur_in(text)) {
            return ExternalInputs::default();
        }
        self.compile(view).map_or_else(|_| ExternalInputs::default(), |formulas| formulas.external_inputs())
    }

    /// Compiles selection and columns.
    pub fn compile(&self, view: ViewId) -> Result<CompiledView> {
        if self.kind.folder {
            CompiledView::of_folder(view, &self.design)
        } else {
            CompiledView::of_view(&self.selection, &self.design)
        }
    }

    /// Returns the items of the design note.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        let names: Vec<&str> = std::iter::once(&self.title).chain(&self.aliases).map(String::as_str).collect();
        let mut items = vec![
            Item::text(TITLE_ITEM, names.join("|")),
            Item::text(FLAGS_ITEM, self.kind.letters()),
            Item::summary(FORMAT_ITEM, ItemValue::MimePart(self.design.encode())),
        ];
        if !self.kind.folder {
            items.push(Item::text(SELECTION_ITEM, self.selection.clone()));
        }
        if !self.readers.is_empty() {
            items.push(Item::readers(READERS_ITEM, self.readers.clone()));
        }
        items
    }

    /// Reads a view from its items. Returns `None` if they describe no view: a folder without columns, or a format that
    /// this program does not know.
    #[must_use]
    pub fn of_items(items: &[Item]) -> Option<Self> {
        let kind = ViewKind::of_letters(item::find_item(items, FLAGS_ITEM)?.value.text()?);
        let ItemValue::MimePart(format) = &item::find_item(items, FORMAT_ITEM)?.value else { return None };
        let title = item::find_item(items, TITLE_ITEM)?.value.text()?;
        let mut names = title.split(ALIAS_SEPARATOR).map(str::to_owned);
        let (title, aliases) =
            if kind.folder { (title.to_owned(), Vec::new()) } else { (names.next()?, names.collect()) };
        let text = |name: &str| item::find_item(items, name).and_then(|item| item.value.text());
        Some(Self {
            title,
            aliases,
            kind,
            selection: text(SELECTION_ITEM).unwrap_or_default().to_owned(),
            design: ViewDesign::decode(format).ok()?,
            readers: readers(items),
        })
    }

    /// Returns `true` if `name` is the title or an alias of the view. Case is ignored.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        std::iter::once(&self.title).chain(&self.aliases).any(|own| formula::text::equal_ignore_case(own, name))
    }
}

/// Returns the names that may see the view of a design note.
pub(crate) fn readers(items: &[Item]) -> Vec<String> {
    item::find_item(items, READERS_ITEM).map(|item| item.value.texts().to_vec()).unwrap_or_default()
}

/// A view of a database, as listed.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewInfo {
    /// The design note. Its number is the number of the view.
    pub note: NoteId,
    /// The universal identifier of the design note.
    pub unid: Unid,
    /// The last save of the design note.
    pub revision: Revision,
    /// `true` if Readers items restrict who may see the view.
    pub restricted: bool,
    /// The contents of the design note.
    pub view: ViewNote,
    /// The inputs that selection and columns use besides documents and time. They are determined when the view is used
    /// first, because that may compile its formulas: a list of views must not wait for those of all.
    pub(crate) external_inputs: OnceLock<ExternalInputs>,
}

impl ViewInfo {
    /// Returns the number of the view.
    #[must_use]
    pub fn id(&self) -> ViewId {
        ViewId(self.note.0)
    }

    /// Returns the account to which the size of the index is charged.
    pub(crate) fn index_account(&self, database: &DatabaseRecord) -> IndexAccount {
        IndexAccount::of_owner(self.view.owner(), database)
    }

    /// Returns the values of the inputs that the formulas use, encoded for comparison ([`ExternalInputs`]).
    pub(crate) fn external_input_values(&self, database: &DatabaseRecord) -> Vec<u8> {
        let inputs = self.external_inputs.get_or_init(|| self.view.external_inputs(self.id()));
        inputs.values(database, &self.view.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::view_format::{ClickSorts, Column};

    fn by_kind() -> ViewNote {
        ViewNote {
            title: "Documents\\By Kind".into(),
            aliases: vec!["ByKind".into()],
            kind: ViewKind { calendar: true, ..ViewKind::default() },
            selection: "SELECT @All".into(),
            design: ViewDesign { columns: vec![Column::default()], ..ViewDesign::default() },
            readers: vec!["[Staff]".into()],
        }
    }

    #[test]
    fn view_reads_back_from_its_items() {
        let folder = ViewNote {
            title: "a|b".into(),
            aliases: vec![],
            kind: ViewKind { folder: true, private: true, calendar: false },
            selection: String::new(),
            ..by_kind()
        };
        for view in [by_kind(), folder] {
            view.check(ViewId(1)).expect("the view is valid");
            assert_eq!(ViewNote::of_items(&view.items()), Some(view));
        }
        assert_eq!(ViewNote::of_items(&[]), None);
    }

    #[test]
    fn names_are_compared_without_case() {
        let view = by_kind();
        assert!(view.is_named("bykind") && view.is_named("documents\\by kind") && !view.is_named("By Kind"));
    }

    #[test]
    fn invalid_titles_are_refused() {
        for title in ["", "a|b", "a\nb", &"x".repeat(FOLDER_NAME_BYTES_MAX + 1)] {
            assert!(ViewNote { title: title.into(), ..by_kind() }.check(ViewId(1)).is_err(), "{title:?}");
        }
    }

    #[test]
    fn excess_values_and_invalid_formulas_are_reported() {
        let refused = |view: ViewNote, text: &str| {
            let refusal = view.check(ViewId(1)).expect_err("refused");
            assert!(refusal.to_string().contains(text), "{refusal}");
            matches!(refusal, Error::Formula { .. })
        };
        let many = |count: usize| vec!["a".to_owned(); count];
        assert!(!refused(ViewNote { aliases: many(VIEW_ALIASES_MAX + 1), ..by_kind() }, "aliases"));
        assert!(!refused(ViewNote { readers: many(VIEW_READERS_MAX + 1), ..by_kind() }, "readers"));
        assert!(!refused(ViewNote { selection: "a".repeat(FORMULA_BYTES_MAX + 1), ..by_kind() }, "selection"));
        assert!(refused(ViewNote { selection: "SELECT (".into(), ..by_kind() }, "selection: line 1, column 9"));
        let long = Column { formula: Some(format!("\"{}\"", "a".repeat(FORMULA_BYTES_MAX - 2))), ..Column::default() };
        let with =
            |columns: Vec<Column>| ViewNote { design: ViewDesign { columns, ..ViewDesign::default() }, ..by_kind() };
        let most = VIEW_FORMULAS_BYTES_MAX / FORMULA_BYTES_MAX;
        with(vec![long.clone(); most - 1]).check(ViewId(1)).expect("half a megabyte of formulas is accepted");
        assert!(!refused(with(vec![long; most]), "bytes of all formulas"));
        let columns = vec![Column { title: "Sum".into(), formula: Some("1 +".into()), ..Column::default() }];
        let view = ViewNote { design: ViewDesign { columns, ..ViewDesign::default() }, ..by_kind() };
        assert!(refused(view, "column \"Sum\": line 1, column 4"));
    }

    #[test]
    fn personal_view_has_few_sort_orders() {
        let with = |orders: usize, private: bool, readers: &[&str]| {
            let clicks = ClickSorts { ascending: true, descending: false };
            let columns = vec![Column { clicks, ..Column::default() }; orders - 1];
            let design = ViewDesign { columns, ..ViewDesign::default() };
            assert_eq!(design.collations().len(), orders);
            let kind = ViewKind { private, ..ViewKind::default() };
            let readers = readers.iter().map(|name| (*name).to_owned()).collect();
            ViewNote { kind, design, readers, ..by_kind() }.check(ViewId(1)).map(drop)
        };
        let most = PERSONAL_COLLATIONS_MAX;
        with(most, true, &["Bob/Acme"]).expect("a personal view");
        with(most + 1, false, &["Bob/Acme"]).expect("a shared view that only Bob sees");
        with(most + 1, true, &["Bob/Acme", "Ann/Acme"]).expect("a view without an owner");
        let refusal = with(most + 1, true, &["Bob/Acme"]).expect_err("refused").to_string();
        assert!(refusal.contains("at most 4 sort orders of a personal view"), "{refusal}");
    }

    #[test]
    fn position_functions_are_refused_by_name() {
        let of = |formula: &str| {
            let columns = vec![Column { title: "No".into(), formula: Some(formula.into()), ..Column::default() }];
            ViewNote { design: ViewDesign { columns, ..ViewDesign::default() }, ..by_kind() }
        };
        for formula in [
            "@DocNumber",
            "@docnumber(\".\")",
            "@DocParentNumber",
            "@DocLevel",
            "@DocSiblings",
            "@DocChildren(\"%\")",
            "@DocDescendants",
            "@Responses",
            "@IsCategory",
            "@If(@IsExpandable; 1; 2)",
        ] {
            let name =
                formula.trim_start_matches("@If(").split(['(', ';']).next().expect("a name").to_ascii_lowercase();
            let column = of(formula).check(ViewId(1)).expect_err("refused").to_string();
            assert!(column.contains("column \"No\"") && column.to_ascii_lowercase().contains(&name), "{column}");
            let selection = ViewNote { selection: format!("SELECT {formula} = 1"), ..by_kind() };
            let selection = selection.check(ViewId(1)).expect_err("refused").to_string();
            assert!(selection.contains("selection"), "{selection}");
        }
        of("\"@DocNumber\"").check(ViewId(1)).expect("a text is no function");
    }

    #[test]
    fn external_inputs_are_derived_from_the_functions() {
        let inputs = |formula: &str| {
            let columns = vec![Column { formula: Some(formula.into()), ..Column::default() }];
            let design = ViewDesign { columns, ..ViewDesign::default() };
            ViewNote { design, ..by_kind() }.external_inputs(ViewId(1))
        };
        for formula in ["Subject", "\"@ViewTitle\"", "@UserName", "REM \"@DbTitle\"; 1"] {
            assert_eq!(inputs(formula), ExternalInputs::default(), "{formula}");
        }
        let different = ["@viewtitle", "@DbTitle", "@Left(@DbName; 3)", "@ReplicaID", "@Eval(Subject)"].map(inputs);
        for (number, one) in different.iter().enumerate() {
            assert!(*one != ExternalInputs::default() && !different[..number].contains(one), "{one:?}");
        }
    }
}
