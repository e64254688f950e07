//! Full-text search.

use std::sync::Arc;

use notes::level;
use prost::Message;
use proto::v1;
use search::{Error as SearchError, HitOrder, PageRequest, Query, QueryBounds};

use super::note::{ENVELOPE_BYTES, reply_too_large};
use super::{CallContext, check_count};
use crate::convert::item_to_proto;
use crate::error::{Error, Result};
use crate::limits::{
    FOLDER_ITEMS_MAX, HITS_PER_REPLY_DEFAULT, MESSAGE_BYTES_MAX, QUERY_BYTES_MAX, QUERY_TIME_MAX, STEP_BYTES,
    STEPS_PER_NOTE,
};
use crate::service::CallOutcome;

/// Runs a full-text query.
pub(crate) fn search(
    context: &CallContext,
    request: &v1::SearchFullTextRequest,
) -> Result<CallOutcome<v1::SearchFullTextReply>> {
    check_count(request.query.len(), "bytes of a query", QUERY_BYTES_MAX)?;
    check_count(request.items.len(), "items of a call", FOLDER_ITEMS_MAX)?;
    let access = context.access::<level::Reader>(request.database.clone())?;
    let query = Query::parse(&request.query)?;
    let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let limit =
        if request.limit == 0 { HITS_PER_REPLY_DEFAULT } else { count(request.limit).min(search::limits::HITS_MAX) };
    let sort = match request.sort() {
        v1::search_full_text_request::Sort::Relevance => HitOrder::Relevance,
        v1::search_full_text_request::Sort::Newest => HitOrder::Newest,
        v1::search_full_text_request::Sort::Oldest => HitOrder::Oldest,
    };
    check_count(
        count(request.offset).saturating_add(limit),
        "hits of a query, including skipped ones",
        search::limits::HITS_WINDOW_MAX,
    )?;
    let page = PageRequest { sort, offset: count(request.offset), limit };
    let path = access.database().path();
    let index = (context.services.full_text)().map_err(|error| query_error(error, &path))?;
    let index = index.ok_or_else(|| query_error(SearchError::NotIndexed { database: path.clone() }, &path))?;
    let clock = &context.services.clock;
    let began = clock.monotonic();
    let is_too_long = || clock.monotonic().saturating_sub(began) > QUERY_TIME_MAX;
    let bounds = QueryBounds { is_too_long: &is_too_long, pacer: Arc::clone(context.pacer()) };
    let found = index.query_within(&access, &query, page, &bounds).map_err(|error| query_error(error, &path))?;
    let reading = context.read(&access)?;
    let mut reply = v1::SearchFullTextReply {
        total: found.total,
        incomplete: !found.is_current,
        total_is_least: !found.is_exact,
        ..v1::SearchFullTextReply::default()
    };
    let mut bytes = 0;
    let mut passed = 0;
    for hit in &found.hits {
        if bytes > STEP_BYTES {
            break;
        }
        passed += 1;
        context.spend(STEPS_PER_NOTE)?;
        // A document that was deleted in the meantime is not a hit.
        let Some(summary) = reading.summary(hit.note)? else { continue };
        let is_requested = |item: &&notes::Item| request.items.iter().any(|name| item.is_named(name));
        let hit_out = v1::Hit {
            database: path.clone(),
            note_id: hit.note.0,
            unid: hit.unid.0.to_vec(),
            score: u32::from(hit.relevance),
            items: summary.items.iter().filter(is_requested).map(item_to_proto).collect(),
        };
        if hit_out.encoded_len() > MESSAGE_BYTES_MAX - STEP_BYTES - ENVELOPE_BYTES {
            return Err(reply_too_large());
        }
        bytes += hit_out.encoded_len();
        reply.hits.push(hit_out);
    }
    let next = count(request.offset).saturating_add(passed);
    let is_over = next as u64 >= found.total || passed == 0;
    reply.next_offset = if is_over { 0 } else { u32::try_from(next).unwrap_or(0) };
    Ok(CallOutcome::when_durable(reply, reading.ticket()))
}

fn query_error(error: SearchError, path: &str) -> Error {
    match error {
        SearchError::Query(error) => error.into(),
        SearchError::NotIndexed { .. } => Error::NoIndex(path.to_owned()),
        SearchError::TooLong => Error::Limit { what: "seconds of a query", max: QUERY_TIME_MAX.as_secs() },
        SearchError::Notes(error) => error.into(),
        error => {
            tracing::error!(target: "rpc", %error, database = path, "the full-text index failed");
            Error::Unavailable
        }
    }
}
