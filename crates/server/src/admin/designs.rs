//! `doublet design`: templates, and the databases that are made from them.

use notes::level;
use serde_json::json;

use super::answer::record;
use super::request::DesignRequest;
use super::{Answer, Failure, Outcome, databases};
use crate::core::Core;
use crate::template::{Applied, Template, template_of};

pub(super) fn execute(core: &Core, request: &DesignRequest) -> Outcome {
    match request {
        DesignRequest::List => list(),
        DesignRequest::Refresh { path, template } => refresh(core, path, template.as_deref()),
    }
}

fn list() -> Outcome {
    let row = |template: Template| {
        record(vec![
            ("template", json!(template.name)),
            ("title", json!(template.title)),
            ("about", json!(template.about)),
        ])
    };
    let rows = Template::all()?.into_iter().map(row).collect();
    Ok(Answer::list(rows).and("`doublet db create PATH --template TEMPLATE` makes a database from one."))
}

fn refresh(core: &Core, path: &str, name: Option<&str>) -> Outcome {
    let access = databases::open(core, path)?.lower();
    let name = match (name, template_of(&access)?) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => name,
        (None, None) => {
            return Err(Failure::Refused(format!("{path} was made from no template; --template NAME gives it one")));
        }
    };
    apply(core, &access, &Template::named(&name)?, path)
}

/// Applies a template and tells what it did.
pub(super) fn apply(core: &Core, access: &notes::Access<level::Designer>, template: &Template, path: &str) -> Outcome {
    let Applied { made, changed, removed, kept, left } = template.apply(&core.notes, access)?;
    let answer = Answer::record(vec![
        ("database", json!(path)),
        ("template", json!(template.name)),
        ("made", json!(made)),
        ("changed", json!(changed)),
        ("removed", json!(removed)),
        ("kept", json!(kept)),
        ("left", json!(left)),
    ]);
    let answer = answer.and(format!("{path} has the design of {}.", template.name));
    Ok(if left.is_empty() {
        answer
    } else {
        answer.and(format!("These names are taken by design notes made by hand, which stay: {}.", left.join(", ")))
    })
}
