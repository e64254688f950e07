//! `doublet db index` and `doublet db search`: the full-text index of a database.

use std::sync::atomic::Ordering;

use base::NoteId;
use instance::Instance;
use notes::{Access, Database, DatabaseOptions, DatabaseSnapshot, FullTextSchedule, level};
use search::{FullTextIndex, HitOrder, PageRequest, Query};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::request::{IndexRequest, SearchOrder, SearchRequest};
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, report_step};
use crate::limits::QUERY_TIME_MAX;

/// Maximum number of characters shown of a title.
const TITLE_CHARACTERS_MAX: usize = 80;

/// Items that may hold the title of a document, in order of preference.
const TITLE_ITEMS: [&str; 5] = ["Subject", "Title", "Topic", "FullName", "Name"];

/// Sets when a database is indexed, and updates its index now.
pub(super) fn index(instance: &Instance, request: &IndexRequest, report: &mut ProgressCallback<'_>) -> AdminResult {
    let access = open(instance, &request.path)?;
    let database = access.database();
    let facts = database.record();
    let full_text = match &request.full_text {
        Some(text) => parse_schedule(text, instance.config.full_text.daily_hour)?,
        None if facts.options.full_text == FullTextSchedule::Off => {
            return Err(AdminError::Refused(format!(
                "{path} has no full-text index; `doublet db index {path} --full-text immediate` creates one",
                path = request.path
            )));
        }
        None => facts.options.full_text,
    };
    if full_text != facts.options.full_text {
        instance.databases.database_options_set(
            &access,
            &facts.title,
            DatabaseOptions { full_text, ..facts.options },
        )?;
    }
    if full_text == FullTextSchedule::Off || request.rebuild {
        if let Some(search) = instance.full_text.open_existing()? {
            search.remove_database(facts.number)?;
        }
        if full_text == FullTextSchedule::Off {
            return Ok(Answer::message(format!("The full-text index of {} was removed.", request.path)));
        }
    }
    let search = instance.full_text.open()?;
    update(instance, &search, database, report)?;
    let documents = search.documents(facts.number)?;
    let documents = format_count(documents, "document", "documents");
    let when = match full_text {
        FullTextSchedule::Off | FullTextSchedule::Immediate => "at once".to_owned(),
        FullTextSchedule::Hourly => "every hour".to_owned(),
        FullTextSchedule::Daily(hour) => format!("once a day, at {hour}:00 UTC"),
    };
    Ok(Answer::message(format!("{documents} of {} in the index; changes are indexed {when}.", request.path)))
}

/// Updates the index of a database. If the progress callback stops the update, the work done so far is kept.
fn update(
    instance: &Instance,
    search: &FullTextIndex,
    database: &Database,
    report: &mut ProgressCallback<'_>,
) -> Result<(), AdminError> {
    let path = database.path();
    let total = note_count(instance, &path)?;
    let mut done = 0;
    loop {
        let progress = instance.full_text.update(search, &path, &|| false)?;
        done += progress.changes as u64;
        let total = Some(total.max(done));
        let reported =
            report_step(report, Progress { step: format!("indexing {path}"), done, total, unit: Unit::Notes });
        if progress.complete || reported.is_err() {
            search.commit()?;
            return reported;
        }
    }
}

fn note_count(instance: &Instance, path: &str) -> Result<u64, AdminError> {
    let access: Access<level::Reader> = open(instance, path)?.downgrade();
    Ok(access.read()?.counters().notes)
}

/// Runs a full-text query.
pub(super) fn search(instance: &Instance, request: &SearchRequest) -> AdminResult {
    let access: Access<level::Reader> = open(instance, &request.path)?.downgrade();
    let query = Query::parse(&request.query)?;
    let page = PageRequest {
        sort: match request.sort {
            None | Some(SearchOrder::Relevance) => HitOrder::Relevance,
            Some(SearchOrder::Newest) => HitOrder::Newest,
            Some(SearchOrder::Oldest) => HitOrder::Oldest,
        },
        offset: usize::try_from(request.offset).unwrap_or(usize::MAX),
        limit: usize::try_from(request.limit).unwrap_or(usize::MAX),
    };
    let Some(index) = instance.full_text.open_existing()? else {
        return Err(search::Error::NotIndexed { database: request.path.clone() }.into());
    };
    let began = instance.clock.monotonic();
    let is_too_long = || instance.clock.monotonic().saturating_sub(began) > QUERY_TIME_MAX;
    let found = index.query(&access, &query, page, &is_too_long)?;
    instance.full_text.counters.queries.fetch_add(1, Ordering::Relaxed);
    let reading = access.read()?;
    let rows: Result<Vec<Value>, AdminError> = found
        .hits
        .iter()
        .map(|hit| {
            Ok(record(vec![
                ("note", json!(hit.note.0)),
                ("date", timestamp_json(Some(hit.date))),
                ("relevance", json!(hit.relevance)),
                ("title", json!(document_title(&reading, hit.note)?)),
                ("unid", json!(hit.unid.to_string())),
            ]))
        })
        .collect();
    let least = if found.is_exact { "" } else { "at least " };
    let documents = format_count(found.total, "document", "documents");
    let mut answer = Answer::list(rows?).with_message(format!("{least}{documents}, {} shown.", found.hits.len()));
    if !found.is_current {
        answer = answer.with_message("The index does not contain the latest changes yet.");
    }
    Ok(answer)
}

/// Returns the title of a document, from the first of [`TITLE_ITEMS`] it has.
fn document_title(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<String, AdminError> {
    let Some(summary) = reading.summary(note)? else { return Ok(String::new()) };
    let text = TITLE_ITEMS.iter().find_map(|name| notes::item::find_item(&summary.items, name)?.value.text());
    Ok(mail::mime::text::on_one_line(text.unwrap_or_default(), TITLE_CHARACTERS_MAX))
}

/// Returns the fields that describe the index of a database.
pub(super) fn index_fields(instance: &Instance, database: &Database) -> Result<Vec<(&'static str, Value)>, AdminError> {
    let full_text = database.record().options.full_text;
    let index = if full_text == FullTextSchedule::Off { None } else { instance.full_text.open_existing()? };
    let documents = index.as_ref().map(|index| index.documents(database.number())).transpose()?;
    let applied = index.and_then(|index| index.applied(database.number()));
    Ok(vec![
        ("full_text", json!(describe_schedule(full_text))),
        ("full_text_documents", json!(documents)),
        ("full_text_changes", json!(applied.map(|applied| applied.0))),
    ])
}

/// Parses an indexing schedule: `off`, `immediate`, `hourly`, `daily` or `daily@HOUR`.
pub(super) fn parse_schedule(text: &str, daily_hour: u64) -> Result<FullTextSchedule, AdminError> {
    let hour = |hour: u64| u8::try_from(hour).ok().filter(|hour| *hour < 24).map(FullTextSchedule::Daily);
    let read = match text {
        "off" => Some(FullTextSchedule::Off),
        "immediate" => Some(FullTextSchedule::Immediate),
        "hourly" => Some(FullTextSchedule::Hourly),
        "daily" => hour(daily_hour),
        _ => text.strip_prefix("daily@").and_then(|text| text.parse().ok()).and_then(hour),
    };
    read.ok_or_else(|| {
        AdminError::Refused(format!(
            "{text:?} is not one of off, immediate, hourly, daily and daily@HOUR with an hour from 0 to 23"
        ))
    })
}

fn describe_schedule(full_text: FullTextSchedule) -> String {
    match full_text {
        FullTextSchedule::Off => "off".to_owned(),
        FullTextSchedule::Immediate => "immediate".to_owned(),
        FullTextSchedule::Hourly => "hourly".to_owned(),
        FullTextSchedule::Daily(hour) => format!("daily@{hour}"),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::Request;
    use crate::request::DbRequest;
    use crate::tests::ExecuteRequest;
    use sample::Sample;

    fn index_of(full_text: Option<&str>) -> Request {
        let full_text = full_text.map(str::to_owned);
        Request::Db(DbRequest::Index(IndexRequest { path: "mail/ann.nsf".into(), full_text, rebuild: false }))
    }

    fn search_for(query: &str) -> Request {
        let path = "mail/ann.nsf".to_owned();
        let query = query.to_owned();
        Request::Db(DbRequest::Search(SearchRequest { path, query, sort: None, limit: 10, offset: 0 }))
    }

    fn deliver(sample: &Sample, subject: &str) {
        let file = sample.instance.mail.open("mail/ann.nsf", &std::sync::Arc::new(notes::Identity::local_server("")));
        let file = file.expect("the mail file exists");
        let inbox = file
            .snapshot()
            .expect("a snapshot")
            .folder("INBOX")
            .expect("the snapshot can be read")
            .expect("every mail file has an INBOX")
            .id;
        let raw = format!("Subject: {subject}\r\n\r\nwords\r\n").into_bytes();
        let new = mail::mailbox::NewMessage { raw, flags: mail::mailbox::Flags::none(), received: None };
        file.append(inbox, &[new]).expect("it is appended");
    }

    #[test]
    fn full_text_index_is_created_searched_and_dropped() {
        let sample = Sample::new();
        deliver(&sample, "annual report");
        sample.execute(index_of(Some("off"))).expect("new mail files have an index");
        let failure = sample.execute(index_of(None)).expect_err("it is off").to_string();
        assert!(failure.contains("--full-text immediate"), "{failure}");
        let failure = sample.execute(search_for("report")).expect_err("it is off").to_string();
        assert!(failure.contains("has no full-text index"), "{failure}");
        let answer = sample.execute(index_of(Some("immediate"))).expect("it is indexed");
        assert_eq!(answer.messages, ["1 document of mail/ann.nsf in the index; changes are indexed at once."]);
        let found = sample.execute(search_for("annual words")).expect("an answer");
        assert_eq!(found.data[0]["title"], json!("annual report"));
        assert_eq!(found.messages, ["1 document, 1 shown."]);
        deliver(&sample, "another report");
        let found = sample.execute(search_for("report")).expect("an answer");
        assert_eq!(found.messages, ["1 document, 1 shown.", "The index does not contain the latest changes yet."]);
        sample.execute(index_of(None)).expect("it is indexed");
        assert_eq!(sample.execute(search_for("report")).expect("an answer").data.as_array().map(Vec::len), Some(2));
        let shown = sample
            .execute(Request::Db(DbRequest::Show { path: "mail/ann.nsf".into() }))
            .expect("the mail file exists")
            .data;
        assert_eq!((&shown["full_text"], &shown["full_text_documents"]), (&json!("immediate"), &json!(2)));
        let failure = sample.execute(search_for("(report")).expect_err("it is wrong").to_string();
        assert!(failure.contains("character 1"), "{failure}");
        sample.execute(index_of(Some("off"))).expect("it is dropped");
        assert!(sample.execute(search_for("report")).is_err());
    }

    #[test]
    fn cancelled_indexing_keeps_completed_work() {
        let sample = Sample::new();
        deliver(&sample, "report");
        let ended = crate::execute(&sample.instance, index_of(Some("daily@5")), &mut |_| ControlFlow::Break(()));
        assert!(matches!(ended, Err(AdminError::Cancelled)));
        assert_eq!(sample.execute(search_for("report")).expect("an answer").data.as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn schedules_are_parsed() {
        assert_eq!(parse_schedule("daily", 4).ok(), Some(FullTextSchedule::Daily(4)));
        assert_eq!(parse_schedule("daily@23", 4).ok(), Some(FullTextSchedule::Daily(23)));
        for wrong in ["", "daily@24", "daily@", "weekly", "Off"] {
            assert!(parse_schedule(wrong, 4).is_err(), "{wrong}");
        }
    }
}
