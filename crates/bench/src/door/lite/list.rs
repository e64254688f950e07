//! A list of messages: a form whose rows have a check box and a link; pure.

use std::sync::Arc;

use super::form::{FieldKind, Form};
use super::page::Page;
use crate::door::http::location::resolve;
use crate::door::rows::ROWS_MAX;

/// The form of a list, without its rows, and the page that has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListForm {
    /// The form.
    pub(super) form: Form,
    /// The path and query of the page.
    pub(super) target: String,
}

/// A message of a list.
#[derive(Debug, Clone)]
pub(super) struct ListRow {
    /// The path and query of the message.
    pub(super) link: String,
    /// The name of its check box.
    pub(super) field: String,
    /// The value of its check box.
    pub(super) value: String,
    /// The form of the list that has shown it.
    pub(super) list: Arc<ListForm>,
}

/// Rows are the same if their forms mean the same message, whatever page has shown them.
impl PartialEq for ListRow {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.field == other.field && self.list.form.action == other.list.form.action
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default)]
pub(super) struct ListPage {
    /// The form of its messages; `None` if it has none.
    pub(super) form: Option<Arc<ListForm>>,
    /// Its messages in their order.
    pub(super) rows: Vec<ListRow>,
    /// The next page.
    pub(super) next: Option<String>,
    /// The other pages to which it leads.
    pub(super) pages: Vec<String>,
}

impl ListPage {
    /// Returns `true` if a message is one of the folder of this list, on whatever page.
    pub(super) fn is_of_folder(&self, row: &ListRow) -> bool {
        self.form.as_ref().is_some_and(|list| list.form.action == row.list.form.action)
    }

    /// Finds the list of a page. A page without one has an empty list.
    pub(super) fn read(page: &Page, target: &str, authority: &str) -> Self {
        let link = |href: &str| resolve(target, href, authority);
        let is_row = |kind, row: Option<usize>| matches!(kind, FieldKind::Check { .. }) && row.is_some();
        let form = page.forms.iter().find(|form| form.fields.iter().any(|field| is_row(field.kind, field.row)));
        let Some(form) = form else { return Self::default() };
        let list = Arc::new(ListForm { form: form.without_rows(), target: target.to_owned() });
        let boxes = form.fields.iter().filter(|field| is_row(field.kind, field.row));
        let rows = boxes.filter_map(|field| {
            let shown = page.links.iter().find(|link| link.row == field.row)?;
            Some(ListRow {
                link: link(&shown.href)?,
                field: field.name.clone(),
                value: field.value.clone(),
                list: Arc::clone(&list),
            })
        });
        let mut pages: Vec<String> = Vec::new();
        let is_page = |text: &str| ["First", "Previous", "Next", "Last"].contains(&text);
        for other in page.links.iter().filter(|link| link.row.is_none() && is_page(&link.text)) {
            pages.extend(link(&other.href).filter(|other| !pages.contains(other)));
        }
        let rows = rows.take(ROWS_MAX).collect();
        Self { form: Some(list), rows, next: page.related("next").and_then(link), pages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_box_and_a_link() {
        let row = |uid: u32| {
            format!(
                "<tr><td><input type=checkbox name=uid value={uid}><td><a href='/f/3/{uid}'>S{uid}</a> \
                 <a href='/x'>2</a></tr>"
            )
        };
        let html = format!(
            "<form method=post action=/f/3><input type=hidden name=token value=t><a rel=next href='?page=2'>Next</a>\
            <a href='?page=2'>Last</a><table><tr><th><a href='?sort=who'>From</a></tr>{}{}</table>\
            <input type=checkbox name=all value=1></form>",
            row(8),
            row(7)
        );
        let page = Page::read(html.as_bytes()).expect("a page");
        let list = ListPage::read(&page, "/f/3", "host");
        let rows: Vec<_> = list.rows.iter().map(|row| (&*row.link, &*row.value)).collect();
        assert_eq!(rows, [("/f/3/8", "8"), ("/f/3/7", "7")]);
        assert_eq!((list.next.as_deref(), &*list.pages), (Some("/f/3?page=2"), &["/f/3?page=2".to_owned()][..]));
        let kept: Vec<&str> = list.rows[0].list.form.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(kept, ["token", "all"]);
        let again = ListPage::read(&page, "/f/3?page=1", "host");
        assert!(again.rows[0] == list.rows[0] && again.rows[0] != list.rows[1]);
        assert!(ListPage::read(&Page::default(), "/f/3", "host").rows.is_empty());
    }
}
