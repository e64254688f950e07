//! `doublet db search` on a server.

use admin::answer::record;
use admin::request::{SearchOrder, SearchRequest};
use admin::{Answer, format_count};
use base::hex;
use client::v1::search_full_text_request::Sort;
use client::{Client, v1};
use serde_json::json;

use super::call_error;
use super::database::key;
use super::item::to_json;
use crate::CommandError;

/// Item shown as the title of each document.
const TITLE_ITEM: &str = "Subject";

/// Runs a full-text query.
pub(super) async fn search(client: Client, request: SearchRequest) -> Result<Answer, CommandError> {
    let sort = match request.sort {
        None | Some(SearchOrder::Relevance) => Sort::Relevance,
        Some(SearchOrder::Newest) => Sort::Newest,
        Some(SearchOrder::Oldest) => Sort::Oldest,
    };
    let query_request = v1::SearchFullTextRequest {
        database: Some(key(request.path)),
        query: request.query,
        limit: request.limit,
        offset: request.offset,
        items: vec![TITLE_ITEM.to_owned()],
        sort: sort.into(),
    };
    let reply = client.search().search_full_text(query_request).await.map_err(call_error)?.into_inner();
    let rows = reply.hits.iter().map(|hit| {
        let title = hit.items.first().and_then(|item| item.value.as_ref());
        record(vec![
            ("note", json!(hit.note_id)),
            ("relevance", json!(hit.score)),
            ("title", to_json(title)),
            ("unid", json!(hex::upper(&hit.unid))),
        ])
    });
    let least = if reply.total_is_least { "at least " } else { "" };
    let total = format!("{least}{}.", format_count(reply.total, "document", "documents"));
    let mut answer = Answer::list(rows.collect()).with_message(total);
    if reply.incomplete {
        answer = answer.with_message("The index does not contain the latest changes yet.");
    }
    Ok(answer)
}
