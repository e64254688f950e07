//! Templates: the design of a database as a readable file (`docs/templates.md`). [`crate::template_catalog`] finds the
//! templates of a server.
//!
//! A template has views and forms. Applying it creates a design note for each, marked with the template's name.
//! Applying it again changes the design notes that differ from the template, adds new ones, and removes those that the
//! template no longer contains. Design notes without the mark, and documents, are left alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use instance::{Instance, authorize_server};
use notes::view::note::ViewNote;
use notes::{Access, Database, Databases, Identity, Item, ItemValue, NewNote, Note, NoteClass, Writer, level};
use serde::Deserialize;

use crate::error::DesignError;
use crate::limits::TEMPLATE_NAME_BYTES_MAX;
use crate::view_text::ViewText;

/// The item of a design note with the name of the template it comes from; on the icon note, the name of the database's
/// template.
pub const TEMPLATE_ITEM: &str = "$TemplateName";

/// The item with the fields of a form.
const FIELDS_ITEM: &str = "$Fields";

/// A template.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The name that identifies the template.
    pub name: String,
    /// The default title of databases created from the template.
    pub title: String,
    /// A description of the template's purpose.
    pub about: String,
    #[serde(default, rename = "view")]
    views: Vec<ViewText>,
    #[serde(default, rename = "form")]
    forms: Vec<Form>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    title: String,
    #[serde(default)]
    fields: Vec<Field>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    name: String,
    #[serde(rename = "type")]
    kind: FieldKind,
    #[serde(default)]
    label: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FieldKind {
    Text,
    TextList,
    Number,
    NumberList,
    Time,
    TimeList,
    RichText,
}

impl FieldKind {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::TextList => "text-list",
            Self::Number => "number",
            Self::NumberList => "number-list",
            Self::Time => "time",
            Self::TimeList => "time-list",
            Self::RichText => "rich-text",
        }
    }
}

/// The changes made by applying a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DesignChanges {
    /// Titles of design notes that were created.
    pub created: Vec<String>,
    /// Titles of design notes that were changed.
    pub changed: Vec<String>,
    /// Titles of design notes that were removed.
    pub removed: Vec<String>,
    /// Number of design notes that were already up to date.
    pub kept: usize,
    /// Titles that are used by design notes of other origin, which were left alone.
    pub skipped: Vec<String>,
}

impl Template {
    /// Parses the file of a template. Returns an error if it is not valid, contains folders or personal views, or uses
    /// a name twice.
    pub fn parse(text: &str) -> Result<Self, DesignError> {
        let template: Self =
            toml::from_str(text).map_err(|error| DesignError::Refused(format!("not a valid template: {error}")))?;
        check_name(&template.name)?;
        let mut named = HashSet::new();
        for view in template.view_notes()? {
            let wrong = |reason: String| {
                DesignError::Refused(format!("view {:?} of template {:?}: {reason}", view.title, template.name))
            };
            if view.kind.folder || view.kind.private {
                return Err(wrong("a template cannot contain folders or personal views".to_owned()));
            }
            view.check(base::ViewId(0)).map_err(|error| wrong(error.to_string()))?;
            let mut names = [&view.title].into_iter().chain(&view.aliases);
            if let Some(twice) = names.find(|name| !named.insert(name.to_lowercase())) {
                return Err(wrong(format!("the name {twice:?} is already used in this template")));
            }
        }
        let mut forms = HashSet::new();
        if let Some(form) = template.forms.iter().find(|form| !forms.insert(form.title.to_lowercase())) {
            return Err(DesignError::Refused(format!(
                "template {:?} has two forms named {:?}",
                template.name, form.title
            )));
        }
        Ok(template)
    }

    /// Returns the views of the template as view notes.
    fn view_notes(&self) -> Result<Vec<ViewNote>, DesignError> {
        let wrong = |error| DesignError::Refused(format!("template {:?}: {error}", self.name));
        self.views.iter().map(|view| view.to_view_note().map_err(wrong)).collect()
    }

    /// Applies the template to a database in one transaction, and waits until the transaction is durable.
    pub fn apply(&self, databases: &Databases, access: &Access<level::Designer>) -> Result<DesignChanges, DesignError> {
        let stored = design_notes(access)?;
        let writing = access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = databases.transaction(&accesses)?;
        let mut work = TemplateApplication {
            template: self,
            writer: transaction.writer(0),
            stored,
            applied: DesignChanges::default(),
        };
        work.apply_icon()?;
        work.apply_views()?;
        work.apply_forms()?;
        work.delete_obsolete()?;
        let applied = work.applied;
        let ticket = transaction.commit()?;
        databases.store().durable(ticket).wait()?;
        Ok(applied)
    }
}

/// Checks the name of a template, which is also its file name: 1 to [`TEMPLATE_NAME_BYTES_MAX`] lower-case ASCII
/// letters, digits and hyphens.
pub fn check_name(name: &str) -> Result<(), DesignError> {
    let is_one = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_right = (1..=TEMPLATE_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_one);
    let reason = format!(
        "{name:?} is not a valid template name: use 1 to {TEMPLATE_NAME_BYTES_MAX} characters out of a to z, 0 to 9 and -"
    );
    if is_right { Ok(()) } else { Err(DesignError::Refused(reason)) }
}

/// Applies a template to a new database. If this fails, the database is deleted, so that none without its design
/// remains.
pub fn apply_to_new(instance: &Instance, database: &Arc<Database>, template: &Template) -> Result<(), DesignError> {
    let applied = authorize_server(database)
        .map_err(DesignError::from)
        .and_then(|access| template.apply(&instance.databases, &access));
    applied.map(drop).inspect_err(|_| {
        let itself = Arc::new(Identity::local_server(""));
        let dropped = database.authorize(&itself).and_then(|access| instance.databases.database_delete(&access));
        if let Err(error) = dropped {
            tracing::error!(target: "design", database = database.path(), %error, "cannot delete a new database to which its template could not be applied");
        }
    })
}

/// Returns the name of the template from which a database was created, or `None` if there is none.
pub fn template_of(access: &Access<level::Designer>) -> Result<Option<String>, DesignError> {
    let stored = design_notes(access)?;
    let icon = stored.iter().find(|note| note.header.class == NoteClass::ICON);
    Ok(icon.and_then(|icon| icon.text(TEMPLATE_ITEM)).map(str::to_owned))
}

/// Reads the design notes of a database.
fn design_notes(access: &Access<level::Designer>) -> Result<Vec<Note>, DesignError> {
    let reading = access.read()?;
    let mut found = Vec::new();
    for note in reading.design_notes()? {
        found.extend(reading.note(note)?);
    }
    Ok(found)
}

/// The state of applying a template to a database.
struct TemplateApplication<'w, 'a, 't> {
    template: &'w Template,
    writer: Writer<'a, 't>,
    stored: Vec<Note>,
    applied: DesignChanges,
}

impl TemplateApplication<'_, '_, '_> {
    fn template_item(&self) -> Item {
        Item::text(TEMPLATE_ITEM, self.template.name.clone())
    }

    fn is_from_template(&self, note: &Note) -> bool {
        note.text(TEMPLATE_ITEM) == Some(&self.template.name)
    }

    /// Removes the design note with the class and title from those that are still to be examined, and returns it.
    fn take(&mut self, class: NoteClass, title: &str) -> Option<Note> {
        let is_meant =
            |note: &Note| note.header.class == class && note.text("$TITLE").is_some_and(|own| has_title(own, title));
        let index = self.stored.iter().position(is_meant)?;
        Some(self.stored.swap_remove(index))
    }

    fn apply_icon(&mut self) -> Result<(), DesignError> {
        let index = self.stored.iter().position(|note| note.header.class == NoteClass::ICON);
        let Some(stored) = index.map(|index| self.stored.swap_remove(index)) else {
            let items = vec![Item::text("$TITLE", self.template.title.clone()), self.template_item()];
            self.writer.note_create(NewNote::of_class(NoteClass::ICON, items))?;
            return Ok(());
        };
        if !self.is_from_template(&stored) {
            let mut items = stored.items;
            items.retain(|item| !item.is_named(TEMPLATE_ITEM));
            items.push(self.template_item());
            self.writer.note_update(stored.header.note, stored.header.revision(), &items, &stored.blobs)?;
        }
        Ok(())
    }

    fn apply_views(&mut self) -> Result<(), DesignError> {
        for view in self.template.view_notes()? {
            let title = view.title.clone();
            match self.take(NoteClass::VIEW, &title) {
                Some(stored) if !self.is_from_template(&stored) => self.applied.skipped.push(title),
                Some(stored) if ViewNote::of_items(&stored.items).as_ref() == Some(&view) => self.applied.kept += 1,
                Some(stored) => {
                    self.writer.view_update(stored.header.note, stored.header.revision(), &view)?;
                    self.applied.changed.push(title);
                }
                None => {
                    let template_item = self.template_item();
                    self.writer.view_create_with(&view, vec![template_item])?;
                    self.applied.created.push(title);
                }
            }
        }
        Ok(())
    }

    fn apply_forms(&mut self) -> Result<(), DesignError> {
        for form in &self.template.forms {
            let mut items = form.to_items();
            items.push(self.template_item());
            match self.take(NoteClass::FORM, &form.title) {
                Some(stored) if !self.is_from_template(&stored) => self.applied.skipped.push(form.title.clone()),
                Some(stored) if stored.items == items => self.applied.kept += 1,
                Some(stored) => {
                    self.writer.note_update(stored.header.note, stored.header.revision(), &items, &[])?;
                    self.applied.changed.push(form.title.clone());
                }
                None => {
                    self.writer.note_create(NewNote::of_class(NoteClass::FORM, items))?;
                    self.applied.created.push(form.title.clone());
                }
            }
        }
        Ok(())
    }

    /// Deletes the remaining views and forms that come from this template but are no longer in it.
    fn delete_obsolete(&mut self) -> Result<(), DesignError> {
        for note in std::mem::take(&mut self.stored) {
            if self.is_from_template(&note) && matches!(note.header.class, NoteClass::VIEW | NoteClass::FORM) {
                self.writer.note_delete(note.header.note)?;
                self.applied.removed.push(note.text("$TITLE").unwrap_or_default().to_owned());
            }
        }
        Ok(())
    }
}

/// Returns `true` if the first name of `own`, a title followed by aliases, is `title`.
fn has_title(own: &str, title: &str) -> bool {
    own.split('|').next() == Some(title)
}

impl Form {
    fn to_items(&self) -> Vec<Item> {
        let line = |field: &Field| format!("{}|{}|{}", field.name, field.kind.name(), field.label);
        vec![
            Item::text("$TITLE", self.title.clone()),
            Item::summary(FIELDS_ITEM, ItemValue::TextList(self.fields.iter().map(line).collect())),
        ]
    }
}

/// Returns the types of the fields of a form by field name in lower case. Imports use them to give values the types of
/// the form.
pub fn form_fields(access: &Access<level::Designer>, form: &str) -> Result<HashMap<String, String>, DesignError> {
    let mut fields = HashMap::new();
    for note in design_notes(access)?.iter().filter(|note| note.header.class == NoteClass::FORM) {
        if note.text("$TITLE") != Some(form) {
            continue;
        }
        for line in note.item(FIELDS_ITEM).map(|item| item.value.texts()).unwrap_or_default() {
            if let Some((name, rest)) = line.split_once('|') {
                let kind = rest.split('|').next().unwrap_or_default();
                fields.insert(name.to_lowercase(), kind.to_owned());
            }
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use notes::{Acl, AclLevel, DatabaseKind, NewDatabase};

    use super::*;
    use crate::template_catalog;
    use sample::Sample;

    const PATH: &str = "talk.nsf";

    fn database(sample: &Sample) -> Access<level::Designer> {
        let acl = Acl::open_to_all(AclLevel::Reader);
        let new = NewDatabase::new(PATH, "Talk", DatabaseKind::Standard, acl);
        authorize_server(&sample.instance.databases.database_create(&new).expect("made"))
            .expect("the server has access")
    }

    #[test]
    fn supplied_templates_can_be_applied_repeatedly() {
        for template in template_catalog::supplied_templates() {
            let sample = Sample::new();
            let access = database(&sample);
            let applied = template.apply(&sample.instance.databases, &access).expect("applied");
            assert_eq!(applied.created.len(), template.views.len() + template.forms.len());
            assert_eq!(template_of(&access).expect("sound").as_deref(), Some(template.name.as_str()));
            let again = template.apply(&sample.instance.databases, &access).expect("applied");
            assert_eq!(
                again,
                DesignChanges { kept: applied.created.len(), ..DesignChanges::default() },
                "nothing is changed twice"
            );
        }
    }

    #[test]
    fn refresh_applies_changes_and_skips_custom_views() {
        let sample = Sample::new();
        let databases = &sample.instance.databases;
        let access = database(&sample);
        let text = template_catalog::FILES[0];
        let old = Template::parse(text).expect("the template is valid");
        let by_hand = ViewNote { title: "By Author".into(), selection: "SELECT @All".into(), ..ViewNote::default() };
        let writing = access.downgrade::<level::Depositor>();
        let accesses = [&writing];
        let mut transaction = databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).view_create(&by_hand).expect("made");
        transaction.commit().expect("committed");
        let first = old.apply(databases, &access).expect("applied");
        assert_eq!(first.skipped, ["By Author"]);
        let changed = text
            .replace("title = \"By Category\"", "title = \"By Kind\"")
            .replace("collapsed = true\ncolumns", "columns")
            .replace("label = \"Contents\"", "label = \"Text\"");
        let new = Template::parse(&changed).expect("the template is valid");
        let second = new.apply(databases, &access).expect("applied");
        assert_eq!((second.created, second.removed), (vec!["By Kind".to_owned()], vec!["By Category".to_owned()]));
        assert_eq!(second.changed, ["Topic", "Response"]);
        assert_eq!(second.skipped, ["By Author"]);
    }

    #[test]
    fn invalid_template_is_refused_with_the_reason() {
        let check = |text: &str, expected: &str| {
            let error = Template::parse(text).expect_err("wrong").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("name = 1", "name");
        check("name=\"x\"\ntitle=\"\"\nabout=\"\"\nzork=1", "zork");
        let view = "[[view]]\ntitle=\"V\"\nselection=\"SELECT @All\"\ncolumns=[]\n";
        let twice = view.replace("\"V\"", "\"v\"");
        check(
            &format!("name=\"x\"\ntitle=\"\"\nabout=\"\"\n{view}{twice}"),
            "the name \"v\" is already used in this template",
        );
        let forms = "[[form]]\ntitle=\"F\"\n[[form]]\ntitle=\"f\"\n";
        check(&format!("name=\"x\"\ntitle=\"\"\nabout=\"\"\n{forms}"), "two forms");
        check("name=\"../x\"\ntitle=\"\"\nabout=\"\"", "is not a valid template name");
        check(
            "name=\"x\"\ntitle=\"\"\nabout=\"\"\n[[view]]\ntitle=\"V\"\nselection=\"SELECT (\"\ncolumns=[]",
            "view \"V\"",
        );
        for kind in ["personal", "folder"] {
            let view = format!("[[view]]\ntitle=\"V\"\nselection=\"SELECT @All\"\n{kind}=true\ncolumns=[]");
            check(
                &format!("name=\"x\"\ntitle=\"\"\nabout=\"\"\n{view}"),
                "a template cannot contain folders or personal views",
            );
        }
    }

    #[test]
    fn fields_of_a_form_have_their_types() {
        let sample = Sample::new();
        let access = database(&sample);
        template_catalog::TemplateCatalog::of_data_folder(&sample.instance.data)
            .find_or_error("log")
            .expect("there")
            .apply(&sample.instance.databases, &access)
            .expect("applied");
        let fields = form_fields(&access, "Event").expect("sound");
        assert_eq!(fields.get("time").map(String::as_str), Some("time"));
        assert!(form_fields(&access, "Zork").expect("sound").is_empty());
    }
}
