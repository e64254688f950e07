//! `doublet design`: templates, and the databases created from them.

use std::path::Path;

use notes::level;
use serde_json::json;

use super::answer::record;
use super::request::DesignRequest;
use super::{Answer, Failure, Outcome, databases};
use crate::core::Core;
use crate::template::{DesignChanges, Template, template_of};
use crate::templates::TemplateList;

pub(super) fn execute(core: &Core, request: &DesignRequest) -> Outcome {
    match request {
        DesignRequest::List => list(core),
        DesignRequest::Add { file } => add(core, file),
        DesignRequest::Remove { name } => {
            core.templates().remove(name)?;
            Ok(Answer::message(format!("The template {name} was removed; databases created from it are not changed.")))
        }
        DesignRequest::Refresh { path, template } => refresh(core, path, template.as_deref()),
    }
}

fn list(core: &Core) -> Outcome {
    let row = |template: &Template, from: &str| {
        record(vec![
            ("template", json!(template.name)),
            ("title", json!(template.title)),
            ("about", json!(template.about)),
            ("from", json!(from)),
        ])
    };
    let TemplateList { own, supplied, errors: wrong } = core.templates().all();
    let rows = own.iter().map(|own| row(own, "operator")).chain(supplied.iter().map(|one| row(one, "program")));
    let mut answer = Answer::list(rows.collect());
    answer.says.extend(wrong.iter().map(|failure| format!("This template cannot be used: {failure}")));
    Ok(answer.with_message("`doublet db create PATH --template TEMPLATE` creates a database from a template."))
}

fn add(core: &Core, file: &Path) -> Outcome {
    let (template, was_there) = core.templates().add(file)?;
    let name = &template.name;
    let told = if was_there { "was replaced" } else { "was added" };
    let answer = Answer::message(format!("The template {name} {told}."));
    Ok(match was_there {
        true => answer.with_message("`doublet design refresh PATH` updates a database that was created from it."),
        false => answer.with_message(format!("`doublet db create PATH --template {name}` creates a database from it.")),
    })
}

fn refresh(core: &Core, path: &str, name: Option<&str>) -> Outcome {
    let access = databases::open(core, path)?.downgrade();
    let name = match (name, template_of(&access)?) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => name,
        (None, None) => {
            return Err(Failure::Refused(format!(
                "{path} was not created from a template; choose one with --template NAME"
            )));
        }
    };
    apply(core, &access, &core.templates().find_or_error(&name)?, path)
}

/// Applies a template and reports the changes.
pub(super) fn apply(core: &Core, access: &notes::Access<level::Designer>, template: &Template, path: &str) -> Outcome {
    let DesignChanges { created: made, changed, removed, kept, skipped: left } = template.apply(&core.notes, access)?;
    let answer = Answer::record(vec![
        ("database", json!(path)),
        ("template", json!(template.name)),
        ("made", json!(made)),
        ("changed", json!(changed)),
        ("removed", json!(removed)),
        ("kept", json!(kept)),
        ("left", json!(left)),
    ]);
    let answer = answer.with_message(format!("{path} now has the design of {}.", template.name));
    Ok(if left.is_empty() {
        answer
    } else {
        answer.with_message(format!(
            "These names belong to design notes created by hand, which were kept: {}.",
            left.join(", ")
        ))
    })
}
