//! The templates of a server: those supplied with the program (`templates/`), and custom ones in the data folder, added
//! by the operator.
//!
//! A custom template has the name of its file and takes precedence over a supplied template of the same name.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use instance::data_folder::{DataError, DataFolder, read_limited, write_private};

use crate::error::DesignError;
use crate::limits::{CUSTOM_TEMPLATES_MAX, TEMPLATE_BYTES_MAX};
use crate::template::{Template, check_name};

/// The files of the supplied templates.
pub const FILES: [&str; 5] = [
    include_str!("../../../templates/discussion.toml"),
    include_str!("../../../templates/document-library.toml"),
    include_str!("../../../templates/log.toml"),
    include_str!("../../../templates/mail.toml"),
    include_str!("../../../templates/names.toml"),
];

/// Parses the supplied templates.
pub fn supplied_templates() -> impl Iterator<Item = Template> {
    // A test checks that all of them are valid.
    FILES.into_iter().filter_map(|text| Template::parse(text).ok())
}

/// The templates of a server.
#[derive(Debug, Clone)]
pub struct TemplateCatalog {
    folder: PathBuf,
}

/// All templates.
#[derive(Debug, Default)]
pub struct TemplateList {
    /// Custom templates, in the order of their names.
    pub own: Vec<Template>,
    /// Supplied templates that are not replaced by a custom one.
    pub supplied: Vec<Template>,
    /// Errors in files of the folder.
    pub errors: Vec<DesignError>,
}

impl TemplateCatalog {
    /// Returns the templates of a data folder.
    #[must_use]
    pub fn of_data_folder(data: &DataFolder) -> Self {
        Self::new(data.templates_folder())
    }

    /// Creates the value with the folder of custom templates, which need not exist.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Reads all templates.
    #[must_use]
    pub fn list(&self) -> TemplateList {
        let mut listed = TemplateList::default();
        let names = self.custom_names().unwrap_or_else(|failure| {
            listed.errors.push(failure);
            Vec::new()
        });
        for name in &names {
            match self.read_custom(name) {
                Ok(found) => listed.own.extend(found),
                Err(failure) => listed.errors.push(failure),
            }
        }
        // A custom file with an error still hides the supplied template of its name until the file is corrected.
        listed.supplied = supplied_templates().filter(|one| !names.contains(&one.name)).collect();
        listed
    }

    /// Returns the template with the name, or `None` if there is none.
    pub fn find(&self, name: &str) -> Result<Option<Template>, DesignError> {
        let own = if check_name(name).is_ok() { self.read_custom(name)? } else { None };
        Ok(own.or_else(|| supplied_templates().find(|template| template.name == name)))
    }

    /// Returns the template with the name. If there is none, the error says what to do next.
    pub fn find_or_error(&self, name: &str) -> Result<Template, DesignError> {
        self.find(name)?.ok_or_else(|| {
            let next = match name.contains(['/', '.']) {
                true => "`doublet design add FILE` adds a template from a file",
                false => "`doublet design list` shows all",
            };
            DesignError::Refused(format!("there is no template {name:?}; {next}"))
        })
    }

    /// Adds a custom template from a file and replaces one of the same name. Returns the template, and `true` if one
    /// was replaced.
    pub fn add(&self, file: &Path) -> Result<(Template, bool), DesignError> {
        let text = read_file(file)?;
        let template = Template::parse(&text).map_err(add_path(file))?;
        let path = self.path(&template.name);
        let was_there = path.exists();
        if !was_there && self.custom_names()?.len() >= CUSTOM_TEMPLATES_MAX {
            let reason = format!(
                "there are already {CUSTOM_TEMPLATES_MAX} templates, which is the maximum; remove one with `doublet design remove NAME`"
            );
            return Err(DesignError::Refused(reason));
        }
        write_private(&path, text.as_bytes()).map_err(data_error)?;
        Ok((template, was_there))
    }

    /// Removes a custom template. Databases that were created from it do not change.
    pub fn remove(&self, name: &str) -> Result<(), DesignError> {
        check_name(name)?;
        let path = self.path(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(DesignError::Refused(format!(
                "no template {name:?} was added to this server; `doublet design list` shows the templates that were added"
            ))),
            removed => removed.map_err(DesignError::file(&path)),
        }
    }

    /// Returns the sorted names of the custom templates, at most [`CUSTOM_TEMPLATES_MAX`].
    fn custom_names(&self) -> Result<Vec<String>, DesignError> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(DesignError::file(&self.folder))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(DesignError::file(&self.folder))?.file_name();
            let name =
                name.to_str().and_then(|name| name.strip_suffix(".toml")).filter(|name| check_name(name).is_ok());
            names.extend(name.map(str::to_owned));
        }
        names.sort_unstable();
        names.truncate(CUSTOM_TEMPLATES_MAX);
        Ok(names)
    }

    /// Reads a custom template. Returns `None` if its file does not exist.
    fn read_custom(&self, name: &str) -> Result<Option<Template>, DesignError> {
        let path = self.path(name);
        if !path.exists() {
            return Ok(None);
        }
        let text = read_file(&path)?;
        let template = Template::parse(&text).map_err(add_path(&path))?;
        if template.name == name {
            return Ok(Some(template));
        }
        Err(add_path(&path)(DesignError::Refused(format!(
            "name = {:?} does not match the name of the file",
            template.name
        ))))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.toml"))
    }
}

/// Reads the text of a template file.
fn read_file(path: &Path) -> Result<String, DesignError> {
    // Only regular files are read, because reading something else, such as a pipe, might never end.
    if !std::fs::metadata(path).map_err(DesignError::file(path))?.is_file() {
        return Err(add_path(path)(DesignError::Refused("not a regular file".to_owned())));
    }
    let bytes = read_limited(path, TEMPLATE_BYTES_MAX).map_err(data_error)?;
    String::from_utf8(bytes).map_err(|_| add_path(path)(DesignError::Refused("not UTF-8 text".to_owned())))
}

fn data_error(error: DataError) -> DesignError {
    DesignError::Refused(error.to_string())
}

fn add_path(path: &Path) -> impl Fn(DesignError) -> DesignError {
    move |failure| DesignError::Refused(format!("{}: {failure}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "name = \"plan\"\ntitle = \"Plan\"\nabout = \"What is to be done\"\n\
                        [[view]]\ntitle = \"All\"\nselection = 'SELECT @All'\ncolumns = [{ title = \"Subject\" }]\n";

    /// A template catalog whose folder for custom templates lies in a temporary folder.
    struct TestCatalog {
        folder: tempfile::TempDir,
        templates: TemplateCatalog,
    }

    impl TestCatalog {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let templates = TemplateCatalog::new(folder.path().join("own"));
            Self { folder, templates }
        }

        fn add(&self, text: &str) -> Result<(Template, bool), String> {
            let file = self.folder.path().join("mine.toml");
            std::fs::write(&file, text).expect("written");
            self.templates.add(&file).map_err(|failure| failure.to_string())
        }

        /// Returns the names of the custom templates, the names of the supplied ones, and the number of invalid files.
        fn list_names(&self) -> (Vec<String>, Vec<String>, usize) {
            let TemplateList { own, supplied, errors: wrong } = self.templates.list();
            let names = |all: Vec<Template>| all.into_iter().map(|template| template.name).collect();
            (names(own), names(supplied), wrong.len())
        }
    }

    #[test]
    fn supplied_templates_are_valid_and_listed() {
        let names = ["discussion", "document-library", "log", "mail", "names"].map(str::to_owned);
        FILES.iter().for_each(|text| drop(Template::parse(text).expect("the template is valid")));
        let catalog = TestCatalog::new();
        assert_eq!(catalog.list_names(), (Vec::new(), names.to_vec(), 0));
        assert_eq!(catalog.templates.find_or_error("log").expect("there").name, "log");
        let error = catalog.templates.find_or_error("zork").expect_err("there is none").to_string();
        assert!(error.contains("design list"), "{error}");
        let error = catalog.templates.find_or_error("./plan.toml").expect_err("it is a file").to_string();
        assert!(error.contains("design add"), "{error}");
    }

    #[test]
    fn custom_templates_are_added_replaced_and_removed() {
        let catalog = TestCatalog::new();
        assert!(!catalog.add(PLAN).expect("the template is valid").1);
        assert!(
            catalog.add(&PLAN.replace("\"Plan\"", "\"Plans\"")).expect("the template is valid").1,
            "it replaces the first one"
        );
        assert_eq!(catalog.templates.find_or_error("plan").expect("there").title, "Plans");
        catalog.add(&PLAN.replace("\"plan\"", "\"log\"")).expect("the template is valid");
        assert_eq!(
            catalog.templates.find_or_error("log").expect("there").title,
            "Plan",
            "it takes precedence over the supplied one"
        );
        let (own, supplied, wrong) = catalog.list_names();
        assert_eq!((own, supplied.len(), wrong), (vec!["log".to_owned(), "plan".to_owned()], 4, 0));
        for name in ["log", "plan"] {
            catalog.templates.remove(name).expect("the template exists");
        }
        assert_eq!(catalog.templates.find_or_error("log").expect("there").title, supplied_log().title);
        let again = catalog.templates.remove("plan").expect_err("it is gone").to_string();
        assert!(again.contains("design list"), "{again}");
    }

    fn supplied_log() -> Template {
        supplied_templates().find(|template| template.name == "log").expect("it comes with the program")
    }

    #[test]
    fn invalid_files_are_reported_without_affecting_others() {
        let catalog = TestCatalog::new();
        let long = format!("{PLAN}# {}", "x".repeat(TEMPLATE_BYTES_MAX as usize));
        for text in ["", "name = 1", &PLAN.replace("@All", "@Zork"), &PLAN.replace("plan", "../plan"), &long] {
            let error = catalog.add(text).expect_err("the template is invalid");
            assert!(error.contains("mine.toml"), "{error}");
        }
        catalog.add(PLAN).expect("the template is valid");
        let path = |name: &str| catalog.folder.path().join("own").join(name);
        std::fs::write(path("other.toml"), PLAN).expect("written");
        std::fs::write(path("broken.toml"), "x").expect("written");
        std::fs::write(path("notes.txt"), "x").expect("written");
        std::fs::write(path("log.toml"), "x").expect("written");
        let (own, supplied, wrong) = catalog.list_names();
        assert_eq!((own, supplied.len(), wrong), (vec!["plan".to_owned()], 4, 3));
        assert!(catalog.templates.find_or_error("log").is_err(), "the invalid file hides the supplied one");
        let error = catalog.templates.find_or_error("other").expect_err("it has another name").to_string();
        assert!(error.contains("name = \"plan\""), "{error}");
        for name in ["../mine", "own/plan", "", "Plan"] {
            assert!(
                catalog.templates.find_or_error(name).is_err() && catalog.templates.remove(name).is_err(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn number_of_custom_templates_is_limited() {
        let catalog = TestCatalog::new();
        for number in 0..CUSTOM_TEMPLATES_MAX {
            catalog.add(&PLAN.replace("\"plan\"", &format!("\"plan-{number}\""))).expect("within the limit");
        }
        assert!(catalog.add(PLAN).expect_err("there is none").contains("design remove"));
        catalog.add(&PLAN.replace("\"plan\"", "\"plan-0\"")).expect("it replaces one");
    }

    #[test]
    fn unreadable_folder_is_reported_and_supplied_templates_remain() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("own"), "no folder").expect("written");
        let listed = TemplateCatalog::new(folder.path().join("own")).list();
        assert_eq!((listed.own.len(), listed.supplied.len(), listed.errors.len()), (0, FILES.len(), 1));
    }
}
