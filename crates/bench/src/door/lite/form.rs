//! Forms, and what a browser sends when a button of one is pressed; pure.

use form_urlencoded::Serializer;
use hyper::header::ORIGIN;

use crate::door::call::CallError;
use crate::door::http::location::{resolve, without_query};
use crate::door::http::origin::Origin;
use crate::door::http::{HttpRequest, malformed};

/// The line between the fields of a form with files. Texts are words, and random bytes do not have it.
const BOUNDARY: &str = "----doublet-bench-b41fb2c7a9d04e7f9f6c21ce9d3a";

/// How a form is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FormMethod {
    /// As the query of an address.
    #[default]
    Get,
    /// As the content of a request.
    Post,
}

/// The kind of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldKind {
    /// A value that is not shown.
    Hidden,
    /// A line, or several lines.
    Text,
    /// A password.
    Password,
    /// A check box or a radio button.
    Check {
        /// It is checked at first.
        is_checked: bool,
    },
    /// A choice.
    Select,
    /// Files.
    File,
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Its name.
    pub(super) name: String,
    /// Its value at first. That of a check box is sent if it is checked.
    pub(super) value: String,
    /// Its kind.
    pub(super) kind: FieldKind,
    /// The number of the row of a table that has it.
    pub(super) row: Option<usize>,
    /// The values and texts of a choice.
    pub(super) options: Vec<(String, String)>,
}

/// A button.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Button {
    /// Its name.
    pub(super) name: String,
    /// Its value.
    pub(super) value: String,
}

/// A form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Form {
    /// How it is sent.
    pub(super) method: FormMethod,
    /// Where it is sent, as it is written.
    pub(super) action: String,
    /// It can have files.
    pub(super) is_multipart: bool,
    /// Its fields in their order.
    pub(super) fields: Vec<Field>,
    /// Its buttons in their order.
    pub(super) buttons: Vec<Button>,
}

impl Form {
    /// Returns the button with a value.
    pub(super) fn button(&self, value: &str) -> Option<&Button> {
        self.buttons.iter().find(|button| button.value == value)
    }

    /// Returns the first field of a kind.
    pub(super) fn field_of(&self, kind: FieldKind) -> Option<&Field> {
        self.fields.iter().find(|field| field.kind == kind)
    }

    /// Returns the name and the value of the choice that is shown with a text.
    pub(super) fn choice(&self, text: &str) -> Option<(&str, &str)> {
        let choices = self.fields.iter().flat_map(|field| field.options.iter().map(move |option| (field, option)));
        let mut shown = choices.filter(|(_, (_, shown))| shown.eq_ignore_ascii_case(text));
        shown.next().map(|(field, (value, _))| (&*field.name, &**value))
    }

    /// Returns the form without the fields that are in rows of a table.
    pub(super) fn without_rows(&self) -> Self {
        let fields = self.fields.iter().filter(|field| field.row.is_none()).cloned().collect();
        Self { fields, ..self.clone() }
    }

    /// Returns where the form is sent, as errors show it.
    fn shown_action(&self) -> &str {
        without_query(&self.action)
    }

    /// Begins to fill the form in.
    pub(super) fn fill(&self) -> FilledForm<'_> {
        let is_sent = |field: &&Field| match field.kind {
            FieldKind::Check { is_checked } => is_checked,
            FieldKind::Select => !field.options.is_empty(),
            kind => kind != FieldKind::File,
        };
        let named = self.fields.iter().filter(|field| !field.name.is_empty());
        let entries = named.filter(is_sent).map(|field| (field.name.clone(), field.value.clone())).collect();
        FilledForm { form: self, entries, file: None }
    }
}

/// A file that is sent with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FormFile {
    /// Its name.
    pub(super) name: String,
    /// Its media type.
    pub(super) media_type: &'static str,
    /// Its content.
    pub(super) content: Vec<u8>,
}

/// A form that is filled in.
#[derive(Debug)]
pub(super) struct FilledForm<'f> {
    form: &'f Form,
    entries: Vec<(String, String)>,
    file: Option<FormFile>,
}

impl FilledForm<'_> {
    /// Returns the value of a field.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Sets the value of a field.
    ///
    /// # Errors
    ///
    /// If the form has no such field.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<(), CallError> {
        let missing = || malformed(format!("the form {} has no field {name}", self.form.shown_action()));
        let entry = self.entries.iter_mut().find(|(known, _)| known == name).ok_or_else(missing)?;
        value.clone_into(&mut entry.1);
        Ok(())
    }

    /// Checks a box.
    pub(super) fn check(&mut self, name: &str, value: &str) {
        self.entries.push((name.to_owned(), value.to_owned()));
    }

    /// Chooses the button with a value.
    ///
    /// # Errors
    ///
    /// If the form has no such button.
    pub(super) fn press(&mut self, value: &str) -> Result<(), CallError> {
        let missing = || malformed(format!("the form {} has no button {value}", self.form.shown_action()));
        let button = self.form.button(value).ok_or_else(missing)?;
        self.entries.push((button.name.clone(), button.value.clone()));
        Ok(())
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// If the form has no field for files.
    pub(super) fn attach(&mut self, file: FormFile) -> Result<(), CallError> {
        if !self.form.is_multipart || self.form.field_of(FieldKind::File).is_none() {
            return Err(malformed(format!("the form {} has no field for files", self.form.shown_action())));
        }
        self.file = Some(file);
        Ok(())
    }

    /// Returns the request that sends the form of the page `target`.
    ///
    /// # Errors
    ///
    /// If the form leads to another server.
    pub(super) fn request(self, origin: &Origin, target: &str) -> Result<HttpRequest, CallError> {
        let elsewhere = || malformed(format!("the form {} leads to another server", self.form.shown_action()));
        let action = resolve(target, &self.form.action, origin.authority()).ok_or_else(elsewhere)?;
        if self.form.method == FormMethod::Get {
            let path = action.split('?').next().unwrap_or_default();
            return Ok(HttpRequest::get(format!("{path}?{}", self.urlencoded())));
        }
        let request = if self.form.is_multipart {
            let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
            HttpRequest::post(action, &media_type, self.multipart())
        } else {
            HttpRequest::post(action, "application/x-www-form-urlencoded", self.urlencoded().into_bytes())
        };
        Ok(request.with(ORIGIN, &origin.text()))
    }

    fn urlencoded(&self) -> String {
        let mut serializer = Serializer::new(String::new());
        for (name, value) in &self.entries {
            serializer.append_pair(name, &with_line_ends(value));
        }
        serializer.finish()
    }

    /// Returns the content of a form with files (RFC 7578). A field without a file is sent with an empty one, as
    /// browsers do.
    fn multipart(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (name, value) in &self.entries {
            content.extend_from_slice(part_head(name).as_bytes());
            content.extend_from_slice(format!("\r\n\r\n{}\r\n", with_line_ends(value)).as_bytes());
        }
        if let Some(field) = self.form.field_of(FieldKind::File) {
            let none = FormFile { name: String::new(), media_type: "application/octet-stream", content: Vec::new() };
            let file = self.file.as_ref().unwrap_or(&none);
            let name = escaped(&file.name);
            content.extend_from_slice(format!("{}; filename=\"{name}\"\r\n", part_head(&field.name)).as_bytes());
            content.extend_from_slice(format!("Content-Type: {}\r\n\r\n", file.media_type).as_bytes());
            content.extend_from_slice(&file.content);
            content.extend_from_slice(b"\r\n");
        }
        content.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        content
    }
}

fn part_head(name: &str) -> String {
    format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"", escaped(name))
}

/// Returns a name as browsers quote it.
fn escaped(name: &str) -> String {
    name.replace('"', "%22").replace('\n', "%0A").replace('\r', "%0D")
}

/// Returns a text whose lines end in CRLF, as forms are sent.
fn with_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::door::http::origin::tests::origin;
    use crate::door::lite::page::Page;

    fn form(html: &str) -> Form {
        Page::read(html.as_bytes()).expect("a page").forms.remove(0)
    }

    const FIELDS: &str = "<input type=hidden name=token value=t><input name=to value='a b'>\
        <input type=checkbox name=c value=1 checked><input type=checkbox name=d><input type=file name=file>\
        <input value=unnamed><select name=s><option value=1>One</select><select name=none></select>\
        <button name=do value=go>Go</button>";

    #[test]
    fn fields_and_the_button_are_sent() {
        let form = form(&format!("<form method=post action=/go?x=1>{FIELDS}</form>"));
        let mut filled = form.fill();
        filled.set("to", "x&\ny").expect("a field");
        filled.check("uid", "7");
        filled.press("go").expect("a button");
        assert_eq!(filled.urlencoded(), "token=t&to=x%26%0D%0Ay&c=1&s=1&uid=7&do=go");
        assert_eq!((form.choice("one"), form.choice("two")), (Some(("s", "1")), None));
        for missing in [form.fill().set("subject", ""), form.fill().press("stop")] {
            assert_eq!(missing.expect_err("missing").code, "malformed");
        }
        let file = FormFile { name: "f".to_owned(), media_type: "a/b", content: Vec::new() };
        assert_eq!(form.fill().attach(file).expect_err("no files").code, "malformed");
    }

    #[test]
    fn files_are_sent_in_parts() {
        let form = form(&format!("<form method=post enctype=multipart/form-data>{FIELDS}</form>"));
        let mut filled = form.fill();
        filled
            .attach(FormFile { name: "\"é.bin".to_owned(), media_type: "a/b", content: b"\0\xff".to_vec() })
            .expect("a file");
        let content = filled.multipart();
        let text = String::from_utf8_lossy(&content);
        assert!(text.contains("name=\"file\"; filename=\"%22é.bin\"\r\nContent-Type: a/b\r\n\r\n\0"), "{text}");
        assert!(text.contains("form-data; name=\"to\"\r\n\r\na b\r\n--") && text.ends_with("--\r\n"), "{text}");
        assert_eq!(text.matches(&format!("--{BOUNDARY}\r\n")).count(), 5);
    }

    #[test]
    fn forms_are_sent_to_this_server_only() {
        let request = |action: &str| {
            form(&format!("<form action='{action}'><input name=q></form>"))
                .fill()
                .request(&origin("127.0.0.1:1"), "/a?b")
        };
        assert!(request("/search").is_ok() && request("").is_ok());
        assert_eq!(request("https://evil.test/").expect_err("elsewhere").code, "malformed");
    }

    proptest! {
        #[test]
        fn any_value_is_sent_as_it_is(value in "\\PC{0,40}") {
            let mut form = form("<form><input name=q></form>");
            form.fields[0].value.clone_from(&value);
            let sent = form.fill().urlencoded();
            let read: Vec<_> = form_urlencoded::parse(sent.as_bytes()).collect();
            let expected = with_line_ends(&value);
            prop_assert_eq!(&*read[0].1, expected.as_str());
        }
    }
}
