//! `doublet updall` and `doublet db views`: the views of databases and their indexes.

use std::ops::ControlFlow;
use std::time::Duration;

use instance::Instance;
use notes::view::note::ViewInfo;
use notes::view::view_format::Refresh;
use notes::{Access, level};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::request::UpdallRequest;
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count};

/// Updates or rebuilds the views of one database or of all.
pub(super) fn updall(instance: &Instance, request: &UpdallRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let paths = match &request.path {
        Some(path) => vec![path.clone()],
        None => instance.databases.database_list()?.into_iter().map(|facts| facts.path).collect(),
    };
    let mut rows = Vec::new();
    for path in paths {
        let access = match open(instance, &path) {
            // A database may have been deleted or renamed since the list was read.
            Err(_) if request.path.is_none() && !instance.databases.database_exists(&path)? => continue,
            opened => opened?.downgrade(),
        };
        let views = access.read()?.views()?;
        let is_meant = |info: &ViewInfo| request.view.as_ref().is_none_or(|name| info.view.is_named(name));
        let meant: Vec<_> = views.iter().filter(|info| is_meant(info)).collect();
        if let (true, Some(name)) = (meant.is_empty(), &request.view) {
            let text = format!("{path} has no view {name:?}; `doublet db views {path}` lists them");
            return Err(AdminError::Refused(text));
        }
        for info in meant {
            rows.push(update_one(instance, &access, info, request.rebuild, report)?);
        }
    }
    let views = format_count(rows.len(), "view is", "views are");
    Ok(Answer::list(rows).with_message(format!("{views} up to date.")))
}

fn update_one(
    instance: &Instance,
    access: &Access<level::Designer>,
    info: &ViewInfo,
    rebuild: bool,
    report: &mut ProgressCallback<'_>,
) -> Result<Value, AdminError> {
    let path = access.database().path();
    let title = &info.view.title;
    let mut tell = |done, total: u64| {
        let step = format!("indexing {title} of {path}");
        let total = Some(total.max(done));
        report(Progress { step, done, total, unit: Unit::Notes })
    };
    let started = instance.clock.monotonic();
    let is_done = if rebuild {
        access.view_rebuild(info.note, &instance.build_options(), &mut tell)?.is_some()
    } else {
        access.view_update(info.note, &instance.build_options(), &mut tell)?
    };
    if !is_done {
        return match tell(0, 0) {
            ControlFlow::Break(()) => Err(AdminError::Cancelled),
            ControlFlow::Continue(()) => {
                Err(AdminError::Refused(format!("view {title:?} of {path} is already being built; try again later")))
            }
        };
    }
    let elapsed: Duration = instance.clock.monotonic().saturating_sub(started);
    let reading = access.read()?;
    let view = reading.view(info.note)?;
    let rows = reading.view_rows(&view, 0)?;
    Ok(record(vec![
        ("database", json!(path)),
        ("view", json!(title)),
        ("documents", json!(rows.total()?.documents)),
        ("rows", json!(rows.count()?)),
        ("seconds", json!((elapsed.as_secs_f64() * 1e3).round() / 1e3)),
    ]))
}

/// Lists the views of a database with the state of their indexes.
pub(super) fn list(instance: &Instance, path: &str) -> AdminResult {
    let access = open(instance, path)?;
    let reading = access.read()?;
    let mut rows = Vec::new();
    for info in reading.views()? {
        let view = reading.view(info.note).ok();
        let index = view.as_ref().map(|view| reading.view_rows(view, 0)).transpose()?;
        let total = index.as_ref().map(|rows| rows.total()).transpose()?;
        let applied = index.as_ref().map(|rows| rows.applied()).transpose()?;
        let limited = index.as_ref().map(|rows| rows.limited_documents()).transpose()?;
        let bytes = index.as_ref().map(|rows| rows.index_bytes()).transpose()?;
        let evaluated_at = view.as_ref().filter(|view| view.is_time_relative()).map(|view| view.evaluated_at);
        let design = &info.view.design;
        rows.push(record(vec![
            ("view", json!(info.view.title)),
            ("aliases", json!(info.view.aliases)),
            ("kind", json!(if info.view.kind.folder { "folder" } else { "view" })),
            ("refresh", json!(refresh_name(design.refresh))),
            ("columns", json!(design.columns.len())),
            ("orders", json!(design.collations().len())),
            ("documents", json!(total.map(|total| total.documents))),
            ("limited_documents", json!(limited)),
            ("index_bytes", json!(bytes)),
            ("pending_changes", json!(applied.map(|applied| reading.modseq().0.saturating_sub(applied.0)))),
            ("evaluated_at", timestamp_json(evaluated_at)),
        ]));
    }
    let answer = Answer::list(rows);
    Ok(answer.with_message(format!("`doublet updall {path}` updates them; --rebuild rebuilds them from scratch.")))
}

fn refresh_name(refresh: Refresh) -> String {
    match refresh {
        Refresh::Automatic => "automatic".to_owned(),
        Refresh::AfterFirstUse => "after first use".to_owned(),
        Refresh::Manual => "manual".to_owned(),
        Refresh::Hours(hours) => format!("every {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::DbRequest;
    use sample::{DATABASE, Sample, database_with_view};

    #[test]
    fn views_are_listed_and_updated() {
        let sample = Sample::new();
        let instance = &sample.instance;
        database_with_view(instance, Refresh::Manual, notes::DatabaseOptions::default());
        let listed = |field: &str| list(instance, DATABASE).expect("a list").data[0][field].clone();
        assert_eq!(
            (listed("view"), listed("refresh"), listed("documents")),
            (json!("All"), json!("manual"), Value::Null)
        );
        let request = |view: Option<&str>, rebuild| UpdallRequest {
            path: Some(DATABASE.to_owned()),
            view: view.map(str::to_owned),
            rebuild,
        };
        for rebuild in [false, true] {
            let done =
                updall(instance, &request(Some("all"), rebuild), &mut |_| ControlFlow::Continue(())).expect("done");
            assert_eq!((done.data[0]["documents"].clone(), done.data[0]["rows"].clone()), (json!(1), json!(1)));
        }
        assert_eq!((listed("documents"), listed("pending_changes")), (json!(1), json!(0)));
        let show = DbRequest::Show { path: DATABASE.to_owned() };
        let shown = crate::databases::execute(instance, show, &mut |_| ControlFlow::Continue(())).expect("shown").data;
        assert!(listed("index_bytes").as_u64().is_some_and(|bytes| bytes > 0), "{shown}");
        assert_eq!((&shown["index_bytes"], &shown["personal_index_bytes"]), (&listed("index_bytes"), &json!(0)));
        let broken_off = updall(instance, &request(None, true), &mut |_| ControlFlow::Break(()));
        assert!(matches!(broken_off, Err(AdminError::Cancelled)));
        let unknown = updall(instance, &request(Some("Zork"), false), &mut |_| ControlFlow::Continue(()));
        assert!(unknown.expect_err("unknown").to_string().contains("doublet db views"));
    }
}
