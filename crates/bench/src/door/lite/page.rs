//! A page as a browser without scripts has it: its links, its forms, and the rows of its tables.
//!
//! A page with more of them than the limits is refused.

use super::form::{Button, Field, FieldKind, Form, FormMethod};
use super::html::{StartTag, Token, Tokens};
use crate::door::call::CallError;
use crate::door::http::malformed;

/// Maximum number of links of a page.
const LINKS_MAX: usize = 5_000;
/// Maximum number of forms of a page.
const FORMS_MAX: usize = 200;
/// Maximum number of fields, options and buttons of a page.
const FIELDS_MAX: usize = 20_000;
/// Maximum length of the text of a link, a button or a notice.
const TEXT_BYTES_MAX: usize = 500;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Link {
    /// Where it leads, as it is written.
    pub(super) href: String,
    /// Its text.
    pub(super) text: String,
    /// The relation, such as `next`.
    pub(super) rel: String,
    /// The number of the row of a table that has it.
    pub(super) row: Option<usize>,
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Page {
    /// The title.
    pub(super) title: String,
    /// The style sheets.
    pub(super) style_sheets: Vec<String>,
    /// The links in their order.
    pub(super) links: Vec<Link>,
    /// The forms in their order.
    pub(super) forms: Vec<Form>,
    /// The text of what the page alerts to.
    pub(super) alert: String,
}

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// If it has more links, forms or fields than the limits.
    pub(super) fn read(content: &[u8]) -> Result<Self, CallError> {
        let text = String::from_utf8_lossy(content).replace("\r\n", "\n");
        let mut reader = PageReader::default();
        for token in Tokens::new(&text) {
            reader.take(token);
            let page = &reader.page;
            let counts = [(page.links.len(), LINKS_MAX), (page.forms.len(), FORMS_MAX), (reader.fields, FIELDS_MAX)];
            if counts.iter().any(|(count, max)| count > max) {
                return Err(malformed(format!("the page {} has too many links or fields", page.title)));
            }
        }
        Ok(reader.page)
    }

    /// Returns where the first link with a text leads.
    pub(super) fn link(&self, text: &str) -> Option<&str> {
        self.links.iter().find(|link| link.text == text).map(|link| &*link.href)
    }

    /// Returns where the first link with a relation leads.
    pub(super) fn related(&self, rel: &str) -> Option<&str> {
        self.links.iter().find(|link| link.rel == rel).map(|link| &*link.href)
    }

    /// Returns the first form with a button that has this value.
    pub(super) fn form_with_button(&self, value: &str) -> Option<&Form> {
        self.forms.iter().find(|form| form.button(value).is_some())
    }

    /// Returns the form that asks for a password: the page is that of a login.
    pub(super) fn login_form(&self) -> Option<&Form> {
        self.forms.iter().find(|form| form.field_of(FieldKind::Password).is_some())
    }

    /// Returns what the page says is wrong.
    pub(super) fn problem(&self) -> &str {
        if self.alert.is_empty() { &self.title } else { &self.alert }
    }
}

/// Where the text that is being read belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TextPlace {
    #[default]
    Elsewhere,
    Title,
    Link,
    Button,
    Option,
    Area,
}

/// Reads the tokens of a page.
#[derive(Debug, Default)]
struct PageReader {
    page: Page,
    /// The number of fields, options and buttons.
    fields: usize,
    /// The number of rows that have begun.
    rows: usize,
    is_in_row: bool,
    is_in_form: bool,
    /// The depth of elements within the one that alerts, or 0.
    alert_depth: usize,
    place: TextPlace,
    /// The option has its value from an attribute.
    has_value: bool,
}

impl PageReader {
    fn take(&mut self, token: Token<'_>) {
        match token {
            Token::Start(tag) => self.start(&tag),
            Token::End(name) => self.end(&name),
            Token::Text(text) => self.text(&text),
        }
    }

    fn start(&mut self, tag: &StartTag<'_>) {
        let is_alert = tag.attribute("role") == Some("alert");
        if tag.name == "div" && (is_alert || self.alert_depth > 0) {
            self.alert_depth += 1;
        }
        let attribute = |name: &str| tag.attribute(name).unwrap_or_default().to_owned();
        match &*tag.name {
            "title" => self.place = TextPlace::Title,
            "link" if tag.attribute("rel") == Some("stylesheet") => self.page.style_sheets.push(attribute("href")),
            "tr" => {
                self.rows += 1;
                self.is_in_row = true;
            }
            "a" if tag.has("href") => {
                let row = self.row();
                self.page.links.push(Link { href: attribute("href"), text: String::new(), rel: attribute("rel"), row });
                self.place = TextPlace::Link;
            }
            "form" => {
                let is_post = attribute("method").eq_ignore_ascii_case("post");
                let method = if is_post { FormMethod::Post } else { FormMethod::Get };
                let is_multipart = attribute("enctype").eq_ignore_ascii_case("multipart/form-data");
                self.page.forms.push(Form { method, action: attribute("action"), is_multipart, ..Form::default() });
                self.is_in_form = true;
            }
            "input" | "select" | "textarea" | "button" | "option" if self.is_in_form => self.start_field(tag),
            _ => {}
        }
    }

    fn start_field(&mut self, tag: &StartTag<'_>) {
        self.fields += 1;
        let row = self.row();
        let Some(form) = self.page.forms.last_mut() else { return };
        let attribute = |name: &str| tag.attribute(name).unwrap_or_default().to_owned();
        let field = |kind, value| Field { name: attribute("name"), value, kind, row, options: Vec::new() };
        match &*tag.name {
            "button" => {
                form.buttons.push(Button { name: attribute("name"), value: attribute("value") });
                self.place = TextPlace::Button;
            }
            "select" => form.fields.push(field(FieldKind::Select, String::new())),
            "textarea" => {
                form.fields.push(field(FieldKind::Text, String::new()));
                self.place = TextPlace::Area;
            }
            "option" => {
                let Some(select) = form.fields.last_mut().filter(|last| last.kind == FieldKind::Select) else { return };
                if tag.has("selected") || select.options.is_empty() {
                    select.value = attribute("value");
                }
                select.options.push((attribute("value"), String::new()));
                self.has_value = tag.has("value");
                self.place = TextPlace::Option;
            }
            _ => match &*attribute("type").to_ascii_lowercase() {
                "hidden" => form.fields.push(field(FieldKind::Hidden, attribute("value"))),
                "password" => form.fields.push(field(FieldKind::Password, attribute("value"))),
                "checkbox" | "radio" => {
                    let value = tag.attribute("value").unwrap_or("on").to_owned();
                    let is_checked = tag.has("checked");
                    form.fields.push(field(FieldKind::Check { is_checked }, value));
                }
                "file" => form.fields.push(field(FieldKind::File, String::new())),
                "submit" | "image" => {
                    form.buttons.push(Button { name: attribute("name"), value: attribute("value") });
                }
                "reset" | "button" => {}
                _ => form.fields.push(field(FieldKind::Text, attribute("value"))),
            },
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "title" | "a" | "button" | "option" | "textarea" | "select" => self.place = TextPlace::Elsewhere,
            "tr" | "table" => self.is_in_row = false,
            "form" => self.is_in_form = false,
            "div" => self.alert_depth = self.alert_depth.saturating_sub(1),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.alert_depth > 0 {
            append(&mut self.page.alert, text);
        }
        match self.place {
            TextPlace::Title => append(&mut self.page.title, text),
            TextPlace::Link => {
                if let Some(link) = self.page.links.last_mut() {
                    append(&mut link.text, text);
                }
            }
            TextPlace::Option | TextPlace::Area => {
                let form = self.page.forms.last_mut();
                if let Some(field) = form.and_then(|form| form.fields.last_mut()) {
                    take_field_text(field, text, self.has_value);
                }
            }
            TextPlace::Button | TextPlace::Elsewhere => {}
        }
    }

    fn row(&self) -> Option<usize> {
        self.is_in_row.then_some(self.rows)
    }
}

/// Adds the text of an option or of a text area.
fn take_field_text(field: &mut Field, text: &str, has_value: bool) {
    if field.kind != FieldKind::Select {
        let begin = if field.value.is_empty() { text.strip_prefix('\n').unwrap_or(text) } else { text };
        field.value.push_str(begin);
        return;
    }
    let is_first = field.options.len() == 1;
    let Some((value, shown)) = field.options.last_mut() else { return };
    append(shown, text);
    if !has_value {
        shown.clone_into(value);
        if is_first {
            shown.clone_into(&mut field.value);
        }
    }
}

/// Adds a text in which white space is a space, up to the maximum.
fn append(to: &mut String, text: &str) {
    for word in text.split_whitespace() {
        if !to.is_empty() {
            to.push(' ');
        }
        to.push_str(word);
    }
    to.truncate(to.floor_char_boundary(TEXT_BYTES_MAX));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = r#"<!DOCTYPE html><title>Inbox – Doublet</title><link rel="stylesheet" href="/style/1">
        <nav><a href="/lite/">Inbox</a> <a rel="next" href="?page=2&amp;sort=date">Next</a></nav>
        <div class="notice" role="alert"><p>Wrong <b>password</b>.</p></div>
        <form method="post" action="/f" enctype="multipart/form-data">
        <input type="hidden" name="token" value="a&quot;b">
        <table><tr><td><input type=checkbox name=uid value=7></td>
        <td><a href="/m/7"><bdi>A subject</bdi> of two</a></td></tr>
        <tr><td><input type="checkbox" name="uid" value="8" checked></td></tr></table>
        <input name="to" value="x"><input type=password name=p><input type=file name=file>
        <select name="folder"><option value="1">Archive</option><option value="2" selected>Sent</option></select>
        <select name="plain"><option>One</option><option>Two</option></select>
        <textarea name="body">

line one
<b>two</b></textarea><button name="do" value="send">Send it</button></form><input name="outside">"#;

    #[test]
    fn links_forms_and_rows_are_read() {
        let page = Page::read(PAGE.as_bytes()).expect("a page");
        assert_eq!((&*page.title, &*page.alert), ("Inbox – Doublet", "Wrong password ."));
        assert_eq!((page.link("Inbox"), page.related("next")), (Some("/lite/"), Some("?page=2&sort=date")));
        let row = page.links.iter().find(|link| link.row.is_some()).expect("a link in a row");
        assert_eq!((&*row.href, &*row.text, row.row), ("/m/7", "A subject of two", Some(1)));
        let form = page.form_with_button("send").expect("a form");
        assert_eq!((form.method, &*form.action, form.is_multipart), (FormMethod::Post, "/f", true));
        let field = |name: &str| form.fields.iter().find(|field| field.name == name).expect("a field");
        assert_eq!(field("token").value, "a\"b");
        assert_eq!((field("uid").row, field("uid").kind), (Some(1), FieldKind::Check { is_checked: false }));
        assert_eq!((&*field("folder").value, &*field("folder").options[0].1), ("2", "Archive"));
        assert_eq!((&*field("plain").value, &*field("plain").options[1].0), ("One", "Two"));
        assert_eq!(field("body").value, "\nline one\n<b>two</b>");
        assert!(page.login_form().is_some() && form.fields.iter().all(|field| field.name != "outside"));
    }

    #[test]
    fn pages_beyond_the_limits_are_refused() {
        for piece in ["<a href=x>", "<form>", "<form><input>", "<form><select><option>"] {
            let page = piece.repeat(30_000);
            let error = Page::read(page.as_bytes()).expect_err(piece);
            assert_eq!(error.code, "malformed", "{piece}");
        }
        let nested = "<div role=alert>".repeat(100_000) + &"x ".repeat(10_000);
        assert_eq!(Page::read(nested.as_bytes()).expect("a page").alert.len(), TEXT_BYTES_MAX);
        assert_eq!(Page::read(&[0xff, 0xfe, b'<']).expect("a page"), Page::default());
    }

    proptest! {
        #[test]
        fn damaged_pages_are_read(at in 0..PAGE.len(), with in "\\PC{0,3}") {
            let at = PAGE.floor_char_boundary(at);
            let damaged = format!("{}{with}{}", &PAGE[..at], &PAGE[at..]);
            prop_assert!(Page::read(damaged.as_bytes()).is_ok());
            let cut = Page::read(&PAGE.as_bytes()[..at]).expect("a page");
            prop_assert!(cut.forms.len() <= 1);
        }
    }
}
