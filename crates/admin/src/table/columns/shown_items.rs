//! The items that the views of a database show, and hints about columns of a table that no view shows.
//!
//! A view shows an item if a visible column has its name or reads it in a formula. Items that only selections and
//! hidden columns read count as used. If a formula reads items under computed names, the shown items are unknown and
//! there are no hints.

use std::collections::{BTreeMap, BTreeSet};

use notes::view::view_format::Column;
use notes::{Access, level};

use super::super::super::AdminError;
use super::{ColumnType, Mapping, quote};

/// Maximum number of names that a hint lists.
const NAMES_MAX: usize = 10;

/// Names of columns and items that are likely to contain the title of a document.
const TITLE_NAMES: [&str; 6] = ["subject", "title", "topic", "headline", "heading", "name"];

/// Similarity from which a name is considered another spelling of a name, between 0 and 1.
const SIMILARITY_MIN: f64 = 0.9;

/// The items of a database that its views show.
#[derive(Debug, Default)]
pub(super) struct ShownItems {
    /// Shown items by lower-case names.
    shown: BTreeMap<String, ShownItem>,
    /// Lower-case names of items that views use without showing them.
    used: BTreeSet<String>,
}

/// An item that views show.
#[derive(Debug, Default)]
struct ShownItem {
    name: String,
    /// Lower-case titles of the columns that show it.
    titles: BTreeSet<String>,
}

impl ShownItems {
    /// Reads the views of a database. Returns `None` if there are none, or if the shown items are unknown.
    pub(super) fn read(access: &Access<level::Designer>) -> Result<Option<Self>, AdminError> {
        let mut items = Self::default();
        let views = access.read()?.views()?;
        for view in &views {
            let Some(used) = formula_items(&view.view.selection) else { return Ok(None) };
            items.used.extend(used.iter().map(|item| item.to_lowercase()));
            for column in &view.view.design.columns {
                if items.add(column).is_none() {
                    return Ok(None);
                }
            }
        }
        Ok((!views.is_empty()).then_some(items))
    }

    /// Adds the items of a column. Returns `None` if they are unknown.
    fn add(&mut self, column: &Column) -> Option<()> {
        let names = match &column.formula {
            Some(formula) => formula_items(formula)?,
            None => vec![column.item.clone()],
        };
        for name in names {
            if column.hidden {
                self.used.insert(name.to_lowercase());
                continue;
            }
            let shown = self.shown.entry(name.to_lowercase()).or_default();
            shown.titles.insert(column.title.to_lowercase());
            shown.name = name;
        }
        Some(())
    }

    /// Returns `true` if a column becomes an item that views show or use.
    pub(super) fn has(&self, mapping: &Mapping) -> bool {
        let name = mapping.item.as_deref().unwrap_or_default().to_lowercase();
        self.shown.contains_key(&name) || self.used.contains(&name)
    }

    /// Returns hints about columns that no view shows: their names, and items for them that views do show.
    pub(super) fn hints(&self, mappings: &[Mapping]) -> Vec<String> {
        let is_missing = |mapping: &&Mapping| {
            mapping.item.is_some() && mapping.reported_type().0 != ColumnType::RichText && !self.has(mapping)
        };
        let missing: Vec<&Mapping> = mappings.iter().filter(is_missing).collect();
        if missing.is_empty() {
            return Vec::new();
        }
        let names: Vec<&str> = missing.iter().map(|mapping| mapping.column.as_str()).collect();
        let mut hints = vec![match names[..] {
            [name] => format!("No view shows column {}.", quote(name)),
            _ => format!("No view shows columns {}.", list_names(&names)),
        }];
        let mut free = self.free_items(mappings);
        // --map cannot name a column with an equals sign, and the shell reads a quote.
        let nameable = missing.iter().filter(|mapping| !mapping.column.contains(['=', '\'']));
        for mapping in nameable.take(NAMES_MAX) {
            let Some(index) = free.iter().position(|item| item.is_likely_source(&mapping.column)) else { continue };
            let column = &mapping.column;
            let item = &free.remove(index).name;
            hints.push(format!(
                "--map '{column}={item}' makes column {} the item {item}, which views show.",
                quote(column)
            ));
        }
        if hints.len() == 1 && !free.is_empty() {
            let names: Vec<&str> = free.iter().map(|item| item.name.as_str()).collect();
            hints.push(format!(
                "Views show {}, which no column becomes; --map 'COLUMN=ITEM' assigns one.",
                list_names(&names)
            ));
        }
        hints
    }

    /// Returns the shown items that no column becomes, without those that the server computes.
    fn free_items(&self, mappings: &[Mapping]) -> Vec<&ShownItem> {
        let is_taken = |name: &str| {
            mappings.iter().any(|mapping| mapping.item.as_ref().is_some_and(|item| item.eq_ignore_ascii_case(name)))
        };
        let is_free = |item: &&ShownItem| !item.name.starts_with('$') && !is_taken(&item.name);
        self.shown.values().filter(is_free).collect()
    }
}

impl ShownItem {
    /// Returns `true` if a column is likely to contain this item: it has the title of a column that shows the item,
    /// both are names of titles, or the names are similar.
    fn is_likely_source(&self, column: &str) -> bool {
        let column = column.to_lowercase();
        let name = self.name.to_lowercase();
        let is_title = |name: &str| TITLE_NAMES.contains(&name);
        self.titles.contains(&column)
            || (is_title(&column) && is_title(&name))
            || strsim::jaro_winkler(&column, &name) >= SIMILARITY_MIN
    }
}

/// Returns the items that a formula may read, or `None` if they are unknown. A formula that does not compile reads
/// none.
fn formula_items(formula: &str) -> Option<Vec<String>> {
    let Ok(formula) = formula::Formula::compile(formula, &formula::FormulaOptions::default()) else {
        return Some(Vec::new());
    };
    let analysis = formula.analysis();
    (!analysis.reads_computed).then(|| analysis.items().map(str::to_owned).collect())
}

/// Lists names, the first of them in full.
fn list_names(names: &[&str]) -> String {
    let first = names.iter().take(NAMES_MAX).map(|name| quote(name)).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
