//! `doublet design`: templates, and the databases created from them.

use std::path::Path;

use design::template::{DesignChanges, Template, template_of};
use design::template_catalog::{TemplateCatalog, TemplateList};
use instance::Instance;
use notes::level;
use serde_json::json;

use super::answer::record;
use super::open::open;
use super::request::DesignRequest;
use super::{AdminError, AdminResult, Answer};

pub(super) fn execute(instance: &Instance, request: &DesignRequest) -> AdminResult {
    match request {
        DesignRequest::List => list(instance),
        DesignRequest::Add { file } => add(instance, file),
        DesignRequest::Remove { name } => {
            TemplateCatalog::of_data_folder(&instance.data).remove(name)?;
            Ok(Answer::message(format!("The template {name} was removed; databases created from it are not changed.")))
        }
        DesignRequest::Refresh { path, template } => refresh(instance, path, template.as_deref()),
    }
}

fn list(instance: &Instance) -> AdminResult {
    let row = |template: &Template, from: &str| {
        record(vec![
            ("template", json!(template.name)),
            ("title", json!(template.title)),
            ("about", json!(template.about)),
            ("from", json!(from)),
        ])
    };
    let TemplateList { own, supplied, errors: wrong } = TemplateCatalog::of_data_folder(&instance.data).list();
    let rows = own.iter().map(|own| row(own, "operator")).chain(supplied.iter().map(|one| row(one, "program")));
    let mut answer = Answer::list(rows.collect());
    answer.messages.extend(wrong.iter().map(|failure| format!("This template cannot be used: {failure}")));
    Ok(answer.with_message("`doublet db create PATH --template TEMPLATE` creates a database from a template."))
}

fn add(instance: &Instance, file: &Path) -> AdminResult {
    let (template, was_there) = TemplateCatalog::of_data_folder(&instance.data).add(file)?;
    let name = &template.name;
    let outcome_text = if was_there { "was replaced" } else { "was added" };
    let answer = Answer::message(format!("The template {name} {outcome_text}."));
    Ok(match was_there {
        true => answer.with_message("`doublet design refresh PATH` updates a database that was created from it."),
        false => answer.with_message(format!("`doublet db create PATH --template {name}` creates a database from it.")),
    })
}

fn refresh(instance: &Instance, path: &str, name: Option<&str>) -> AdminResult {
    let access = open(instance, path)?.downgrade();
    let name = match (name, template_of(&access)?) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => name,
        (None, None) => {
            return Err(AdminError::Refused(format!(
                "{path} was not created from a template; choose one with --template NAME"
            )));
        }
    };
    apply(instance, &access, &TemplateCatalog::of_data_folder(&instance.data).find_or_error(&name)?, path)
}

/// Applies a template and reports the changes.
pub(super) fn apply(
    instance: &Instance,
    access: &notes::Access<level::Designer>,
    template: &Template,
    path: &str,
) -> AdminResult {
    let DesignChanges { created, changed, removed, kept, skipped } = template.apply(&instance.databases, access)?;
    let answer = Answer::record(vec![
        ("database", json!(path)),
        ("template", json!(template.name)),
        ("created", json!(created)),
        ("changed", json!(changed)),
        ("removed", json!(removed)),
        ("kept", json!(kept)),
        ("skipped", json!(skipped)),
    ]);
    let answer = answer.with_message(format!("{path} now has the design of {}.", template.name));
    Ok(if skipped.is_empty() {
        answer
    } else {
        answer.with_message(format!(
            "These names belong to design notes created by hand, which were kept: {}.",
            skipped.join(", ")
        ))
    })
}
