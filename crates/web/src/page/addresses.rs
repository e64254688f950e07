//! The look-up of addresses in the directory.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use crate::answer;
use crate::backend::{AddressEntry, EntryKind};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::limits::{ADDRESSES_SHOWN, SEARCH_BYTES_MAX};
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "addresses.html")]
struct AddressesPage {
    layout: Layout,
    words: String,
    found: Vec<AddressEntry>,
    is_searched: bool,
    is_cut: bool,
}

impl AddressesPage {
    /// Returns the query of the composer with an address.
    fn query(&self, entry: &AddressEntry) -> String {
        form_urlencoded::Serializer::new(String::new()).append_pair("to", &entry.address).finish()
    }
}

/// Shows the addresses that have some words.
pub(crate) async fn show(visit: Visit) -> Result<Response> {
    let words = visit.query.text("q").trim().to_owned();
    if words.len() > SEARCH_BYTES_MAX {
        return Err(Error::Invalid("these are too many words".to_owned()));
    }
    let is_searched = !words.is_empty();
    let mut found = Vec::new();
    if is_searched {
        let caller = visit.caller.clone();
        let words = words.clone();
        let look_up = visit.service.run(&visit.caller, "addresses", move |backend| {
            Ok(backend.find_addresses(&caller, &words, ADDRESSES_SHOWN + 1)?)
        });
        found = look_up.await?;
    }
    let is_cut = found.len() > ADDRESSES_SHOWN;
    found.truncate(ADDRESSES_SHOWN);
    let layout = visit.layout("Addresses").await?;
    Ok(answer::page(StatusCode::OK, &AddressesPage { layout, words, found, is_searched, is_cut }))
}
